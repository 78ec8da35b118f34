/* Weights and optimizer state on disk, in global coordinates: one safetensors file per rank and a manifest that names
 * them, with checksums, for one step. A run resumes under the same plan or under any other of the same model. */
#ifndef CLEAVE_EXECUTOR_CHECKPOINT_CHECKPOINT_H
#define CLEAVE_EXECUTOR_CHECKPOINT_CHECKPOINT_H
#include "base/error.h"

struct rank;
struct checkpoint_folder;
/* Called by the issuing threads of all ranks after the same step. folder: on rank 0, whose process owns the folder of
 * the options (folder.h). */
bool checkpoint_write(struct rank *rank, struct checkpoint_folder *folder, struct error *err);
/* Sets the rank's weights, state and step from the checkpoint in dir, or from the newest of those in it. Called on all
 * ranks. Fails when the model or the seed differs, any byte is not what was written, or an element is missing. */
bool checkpoint_read(struct rank *rank, const char *dir, struct error *err);
#endif
