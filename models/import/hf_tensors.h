/* What a Hugging Face checkpoint calls the weights of a graph, and where in its tensors each element lies: from a table
 * with a row for each kind of tensor of a family (hf_tensor_rows.c). A tensor may hold several weights (queries, keys
 * and values in one matrix) or one expert of a weight, each in an order of its own. Pure: no file is read here. */
#ifndef CLEAVE_MODELS_IMPORT_HF_TENSORS_H
#define CLEAVE_MODELS_IMPORT_HF_TENSORS_H
#include "base/arena.h"
#include "models/graph.h"

/**
 * A kind of tensor.
 *
 * kind     of the layer that has its weights
 * name     '#' is the block's number, '@' an expert's; of what lies beside the base model it begins with '/'
 * dims     of the tensor, from the outermost, one word each: letters whose product it is, from the slowest on. '*':
 * which of the weights. In front they stand one behind the other, and may differ in size; else they take turns. weights
 * name=dims, up to three: the letters of the weight's own dims
 */
struct hf_tensor_row {
    const char *kind, *name, *dims, *weights;
};
enum { HF_ROW_GROUPS = 4 };
struct hf_tensor_names {
    const char *types;                                 /* values of model_type, each between spaces */
    const char *prefix;                                /* of the base model's tensors; files may leave it out */
    const struct hf_tensor_row *groups[HF_ROW_GROUPS]; /* each ends with an empty row; NULL: no more */
};
extern const struct hf_tensor_names hf_tensor_families[]; /* the last has no types */
/* NULL: of no family that the tables have. */
const struct hf_tensor_names *hf_tensor_names_of(const char *model_type);

enum { HF_MOST_PIECES = 3 };
/* Element (i, j, ...) of the weight is element offset + i * stride[0] + j * stride[1] + ... of the tensor. Where
 * experts have a tensor each the weight's first dim says which, and has the stride 0. */
struct hf_piece {
    int weight;
    int64_t offset, stride[MAX_DIMS];
};
struct hf_tensor {
    const char *name;
    int dim_count, piece_count;
    int64_t shape[MAX_DIMS];
    struct hf_piece pieces[HF_MOST_PIECES];
    int twin; /* the tensor that it repeats, as the head's table where it is the embedding's; files may leave it out; -1
               */
};
struct hf_tensors {
    struct arena arena;
    const struct graph *graph; /* borrowed */
    int count, place_count;
    struct hf_tensor *list;
    struct hf_place {
        int tensor, piece;
    } * places;        /* of a weight, one behind the other where experts have a tensor each */
    int *first, *held; /* (weight_count) its places; held 0: an adapter's, which such checkpoints have not */
};
/* The tensors of a graph. Fails when a weight has no name in the family, or experts are too many. The caller frees
 * *out.
 */
bool hf_tensors_of(struct hf_tensors **out, const struct hf_tensor_names *names, bool with_prefix,
                   const struct graph *graph, struct error *err);
void hf_tensors_free(struct hf_tensors *tensors); /* accepts NULL */

/* Elements in a row along a weight's last dim, and where they lie: element i at offset + i * stride of the tensor. */
struct hf_run {
    int tensor; /* -1: rows of padding, which no tensor has */
    int64_t offset, stride, count;
};
/* The run that begins at this element (its indices in the whole weight), of at most so many. */
struct hf_run hf_run_at(const struct hf_tensors *tensors, int weight, const int64_t at[MAX_DIMS], int64_t most);

/* Whether it is of a buffer that older files keep beside the weights: it follows from the configuration. */
bool hf_is_buffer(const char *name);
#endif
