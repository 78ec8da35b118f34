/* Weights and optimizer state on disk, in global coordinates: one safetensors file per rank and a manifest that names
 * them, with checksums, for one step. A run resumes under the same plan or under any other of the same model. */
#ifndef CLEAVE_EXECUTOR_CHECKPOINT_READ_H
#define CLEAVE_EXECUTOR_CHECKPOINT_READ_H
#include "base/error.h"

struct rank;
/* Sets the rank's weights, state and step from the checkpoint in dir, or from the newest of those in it. Called on all
 * ranks. Fails when the model or the seed differs, any byte is not what was written, or an element is missing. */
bool checkpoint_read(struct rank *rank, const char *dir, struct error *err);
#endif
