/* A Hugging Face checkpoint in a folder: model.safetensors, or the files that model.safetensors.index.json names. Every
 * tensor is of a weight of the model, every weight has its tensor, shapes are equal: all of that is known when it is
 * open. Elements are read where they lie, in the order and type that a rank wants. */
#ifndef CLEAVE_EXECUTOR_HF_FOLDER_H
#define CLEAVE_EXECUTOR_HF_FOLDER_H
#include "executor/real.h"
#include "executor/safetensors.h"
#include "models/import/hf_tensors.h"

#define HF_FILE "model.safetensors"
#define HF_INDEX "model.safetensors.index.json"

struct block; /* planner/program/geometry.h */
struct hf_file {
    const char *name;
    const unsigned char *data; /* of the whole file; NULL: of one that has only a head */
    const char *head;          /* the first bytes of the file, up to the tensors' */
    int64_t bytes;
    struct safetensors *header;
};
struct hf_found {
    int file, tensor; /* tensor -1: a twin that the folder leaves out */
};
struct hf_folder {
    struct arena arena;
    const char *path; /* NULL: of none */
    struct hf_tensors *tensors;
    int file_count;
    struct hf_file *files;
    struct hf_found *found; /* (tensors->count) */
    const char *index;      /* the index's text; NULL: there is one file */
    size_t index_length;
};
/* The caller frees *out. names: of the model's family. The graph is borrowed. */
bool hf_folder_open(struct hf_folder **out, const char *path, const struct hf_tensor_names *names,
                    const struct graph *graph, struct error *err);
/* What a folder of the graph's weights would be, with one file, all tensors of the type: to be written. */
bool hf_folder_blank(struct hf_folder **out, const struct hf_tensor_names *names, const struct graph *graph,
                     enum tensor_type type, struct error *err);
void hf_folder_free(struct hf_folder *folder); /* accepts NULL */

/* The model's tensors that it has. */
int hf_folder_count(const struct hf_folder *folder);
/* Whether it has the weight: adapters it has not. */
bool hf_folder_has(const struct hf_folder *folder, int weight);
/* Elements [first, first + count) of the flattened block of a weight that it has; rows of padding are 0. */
void hf_folder_read(const struct hf_folder *folder, int weight, const struct block *block, int64_t first, int64_t count,
                    real *out);
/* The reverse: puts them where the files' bytes will be, data[file] for each file. */
void hf_folder_put(const struct hf_folder *folder, int weight, const struct block *block, int64_t first, int64_t count,
                   const real *from, unsigned char *const *data);
#endif
