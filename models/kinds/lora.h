/* Low-rank adaptation (Hu et al. 2021): y = W x + (alpha / rank) B (A x), W frozen, A random, B zero at first. The
 * names are those of Hugging Face PEFT. */
#ifndef CLEAVE_MODELS_KINDS_LORA_H
#define CLEAVE_MODELS_KINDS_LORA_H
#include "models/builder.h"
#include "models/kinds/layers.h"

/* PEFT's default; what a layer without "lora_alpha" has. */
#define LORA_ALPHA 8
/* Fields of a layer struct with a member `lora`; words: the matrices that may have adapters, in the kind's order. */
/* clang-format off */
#define LORA_FIELDS(layer, words) \
    {.key = "lora_r", .type = FIELD_INT, .offset = offsetof(struct layer, lora.rank), .min = 0, .max = 1 << 20, \
     .doc = "Rank of low-rank adapters beside the matrices that target_modules names (Hu et al. 2021; PEFT's r); they are " \
            "trained, the layer itself must be frozen. 0 or absent: none."}, \
    {.key = "lora_alpha", .type = FIELD_DOUBLE, .offset = offsetof(struct layer, lora.alpha), .min = 1e-6, .max = 1e6, \
     .doc = "What adapters add is multiplied by lora_alpha / lora_r; 8 if absent, as in PEFT."}, \
    {.key = "target_modules", .type = FIELD_WORDS, .offset = offsetof(struct layer, lora.targets), .names = words, \
     .doc = "Matrices that have an adapter, as PEFT names them; required with lora_r."}
/* clang-format on */

/* Adapters need a frozen layer and targets, targets a rank; reports at `at`. */
bool lora_check(const struct layer_head *head, const struct lora *lora, const struct json *at, struct error *err);

/* A matrix of the layer: its input value and output value (batch, sequence, then these letters). */
struct lora_matrix {
    const char *name; /* of the matrix's segment */
    const char *in, *out;
    int input, output;
};
/* Adds the adapter and the sum if the bit `target` is set; returns the value that then stands for the output. */
int build_lora(struct graph_builder *builder, const struct lora *lora, int target, const struct lora_matrix *matrix);
#endif
