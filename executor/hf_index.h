/* model.safetensors.index.json: which tensor of a checkpoint lies in which of its files. */
#ifndef CLEAVE_EXECUTOR_HF_INDEX_H
#define CLEAVE_EXECUTOR_HF_INDEX_H
#include "base/arena.h"
#include "base/error.h"

struct hf_index {
    struct arena arena;
    int count, file_count;
    struct hf_index_entry {
        const char *tensor;
        int file;
    } * entries;        /* by the tensor's name */
    const char **files; /* each once, in the order in which they are named */
};
/* name appears in messages. Files are names of safetensors files beside the index: no paths. The caller frees *out. */
bool hf_index_parse(struct hf_index **out, const char *name, const char *text, size_t length, struct error *err);
void hf_index_free(struct hf_index *index); /* accepts NULL */
/* The file of a tensor; -1: the index does not name it. */
int hf_index_file(const struct hf_index *index, const char *tensor);
#endif
