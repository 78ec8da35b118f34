/* What one rank writes of a checkpoint: tensors, collected where they lie, copied if steps go on meanwhile, written. */
#ifndef CLEAVE_EXECUTOR_CHECKPOINT_RANK_FILE_H
#define CLEAVE_EXECUTOR_CHECKPOINT_RANK_FILE_H
#include "executor/checkpoint/manifest.h"
#include "executor/checkpoint/parts.h"

struct rank_file {
    struct arena arena;
    const struct rank *rank;
    struct tensor *tensors;
    struct place *places;
    int *buffers;
    const void **data; /* where each tensor is read from */
    int count;
    int64_t bytes; /* of all tensors */
};
/* Notes what is to be written and where it lies now; fast. */
bool rank_file_collect(struct rank_file *out, const struct rank *rank, struct error *err);
/* Copies all into room, file->bytes long and aligned to 8, and reads from there from now on. */
void rank_file_copy(struct rank_file *file, unsigned char *room);
/* Writes a new file with checksums into the folder and brings it to the disk. On any thread, where the file was copied
 * or its rank stands still. */
bool rank_file_write(struct rank_file *file, int folder, const struct checkpoint_label *label,
                     struct file_record *record, struct error *err);
void rank_file_free(struct rank_file *file);
#endif
