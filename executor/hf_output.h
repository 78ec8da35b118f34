/* A Hugging Face checkpoint that is written: its files grow under temporary names and take their own when all are whole
 * and on the disk. */
#ifndef CLEAVE_EXECUTOR_HF_OUTPUT_H
#define CLEAVE_EXECUTOR_HF_OUTPUT_H
#include "executor/hf_folder.h"

/* Where weights go when a run ends. */
struct hf_export {
    const struct hf_folder *like; /* names, order and types of tensors; what of it is no weight is copied */
    const char *folder;
    const char *config; /* goes there as config.json */
    const char *beside; /* what of a tokenizer lies in this folder is copied, too */
    bool overwrite;
};
/* Before long work: whether all can be written. Without `overwrite` no file of the checkpoint is there yet; with it
 * there are no other weights, which would be read in place of these. */
bool hf_output_check(const struct hf_export *export, struct error *err);

struct hf_output {
    const struct hf_export *export;
    struct arena arena;
    unsigned char **data; /* (files) to be filled, hf_folder_put() */
    char **temporary;
};
/* Reserves the files. The caller frees *out, which takes away what did not become whole. */
bool hf_output_open(struct hf_output **out, const struct hf_export *export, struct error *err);
/* Gives the files their names. beat(context) is called every now and then: disks take long. */
bool hf_output_finish(struct hf_output *output, void (*beat)(void *context), void *context, struct error *err);
void hf_output_free(struct hf_output *output); /* accepts NULL */
#endif
