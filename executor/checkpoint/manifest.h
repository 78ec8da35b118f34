/* What a checkpoint says of itself: which step of which run it is, and its files with their checksums. */
#ifndef CLEAVE_EXECUTOR_CHECKPOINT_MANIFEST_H
#define CLEAVE_EXECUTOR_CHECKPOINT_MANIFEST_H
#include "base/error.h"
#include "base/json.h"

#define CHECKPOINT_FORMAT "cleave-checkpoint"
#define CHECKPOINT_MANIFEST "manifest.json"
/* What to do where a file is not what was written. */
#define CHECKPOINT_WHOLE_ONE "give --resume another checkpoint, or copy this one anew from where it is whole"
enum { CHECKPOINT_VERSION = 2, CHECKPOINT_PATH_BYTES = 4096, CHECKPOINT_NAME_BYTES = 256 };

/* Stands in the manifest and in the header of each file, and must be the same in all of them. */
struct checkpoint_label {
    int64_t step, save; /* steps done; number of the save in its folder */
    uint64_t seed, model_hash, plan_hash;
    int file_count; /* one for each rank that wrote */
};
/* The key of the label in a file's header, and its text for the file of a rank. */
#define CHECKPOINT_LABEL_KEY "cleave-checkpoint"
enum { CHECKPOINT_LABEL_BYTES = 256 };
void checkpoint_label_print(const struct checkpoint_label *label, int rank, char out[CHECKPOINT_LABEL_BYTES]);
/* The name of a rank's file. */
void checkpoint_file_name(char out[CHECKPOINT_NAME_BYTES], int rank);

struct file_record {
    int64_t bytes;
    uint64_t header_hash;
};
/* The caller frees; NULL: memory is short. records: (label->file_count). */
char *manifest_write(const struct checkpoint_label *label, const char *model, const struct file_record *records,
                     size_t *length);

struct manifest {
    char path[CHECKPOINT_PATH_BYTES];
    struct json_doc *doc; /* for messages that name a place in it */
    struct checkpoint_label label;
    const char *model;
    struct file_record *records; /* (label.file_count) */
};
/* Reads the manifest of the checkpoint in this folder. Refused: one that differs in any bit from what was written, or
 * is of another version. */
bool manifest_read(struct manifest *out, const char *folder, struct error *err);
/* The same of its text; path is for messages. */
bool manifest_parse(struct manifest *out, const char *path, const char *text, size_t length, struct error *err);
void manifest_free(struct manifest *manifest);
#endif
