/* Weights and optimizer state on disk, in global coordinates: one safetensors file per rank and a manifest that names
 * them, with checksums, for one step. A run resumes under the same plan or under any other of the same model. */
#ifndef CLEAVE_EXECUTOR_CHECKPOINT_H
#define CLEAVE_EXECUTOR_CHECKPOINT_H
#include "base/error.h"

struct rank;
/* Called by the issuing threads of all ranks after the same step. Files are written under temporary names and renamed;
 * the manifest comes last, so that a crash leaves the previous checkpoint whole. Then the rank's files of that one are
 * removed. */
bool checkpoint_write(struct rank *rank, const char *dir, struct error *err);
/* Sets the rank's weights, state and step from the checkpoint in dir. Fails when the model differs, a file is damaged,
 * or an element is missing. */
bool checkpoint_read(struct rank *rank, const char *dir, struct error *err);
#endif
