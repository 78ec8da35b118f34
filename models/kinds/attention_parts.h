/* What attention and cross attention share: segments, and the fields that mean the same in both. */
#ifndef CLEAVE_MODELS_KINDS_ATTENTION_PARTS_H
#define CLEAVE_MODELS_KINDS_ATTENTION_PARTS_H
#include "models/builder.h"
#include "models/kinds/layers.h"
#include "models/kinds/lora.h"
#include "models/kinds/norm.h"

/* Bits of an attention layer's lora.targets, and their names. */
enum attention_matrix { MATRIX_Q, MATRIX_K, MATRIX_V, MATRIX_O, MATRIX_Q_GATE /* without a bit */ };
extern const char *const attention_matrix_names[];

/* clang-format off */
#define ATTENTION_HEAD_FIELDS \
    {.key = "heads", .type = FIELD_INT, .offset = offsetof(struct attention_layer, heads), .required = true, .min = 1, .max = 1 << 20, \
     .doc = "Query heads."}, \
    {.key = "kv_heads", .type = FIELD_INT, .offset = offsetof(struct attention_layer, kv_heads), .min = 1, .max = 1 << 20, \
     .doc = "Key and value heads, a divisor of heads (Ainslie et al. 2023); heads if absent."}, \
    {.key = "head_dim", .type = FIELD_INT, .offset = offsetof(struct attention_layer, head_dim), .min = 1, .max = 1 << 20, \
     .doc = "Width of a head; hidden / heads if absent."}

#define ATTENTION_BIAS_FIELDS \
    {.key = "qkv_bias", .type = FIELD_BOOL, .offset = offsetof(struct attention_layer, qkv_bias), \
     .doc = "Biases after the query, key and value matrices; false if absent."}, \
    {.key = "bare_keys", .type = FIELD_BOOL, .offset = offsetof(struct attention_layer, bare_keys), \
     .doc = "None after the key matrix (Whisper); false if absent."}, \
    {.key = "output_bias", .type = FIELD_BOOL, .offset = offsetof(struct attention_layer, output_bias), \
     .doc = "Bias after the output matrix; false if absent."}

#define ATTENTION_COMMON_FIELDS \
    RESIDUAL_FIELD(attention_layer), \
    OUTPUT_NORM_FIELD(attention_layer), \
    RESIDUAL_SCALE_FIELD(attention_layer), \
    {.key = "score_scale", .type = FIELD_DOUBLE, .offset = offsetof(struct attention_layer, score_scale), .min = 0, .max = 1e6, \
     .doc = "What scores are multiplied by; 1 / sqrt(head_dim) if absent or 0."}, \
    {.key = "stored_scores", .type = FIELD_BOOL, .offset = offsetof(struct attention_layer, stored_scores), \
     .doc = "The matrix of scores is kept in memory until backward, as before fused attention; false if absent."}
/* clang-format on */

void attention_resolve(const struct model *model, void *fields);
bool attention_check(const struct model *model, const void *fields, const struct json *at, struct error *err);
/* Norm, attention of x to `memory` (b,t,h) (-1: to itself), residual sum; returns what leaves the layer. */
int build_attention(struct graph_builder *builder, const struct attention_layer *f, int x, int memory);
#endif
