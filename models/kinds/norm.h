/* The norm that several kinds begin or end with. */
#ifndef CLEAVE_MODELS_KINDS_NORM_H
#define CLEAVE_MODELS_KINDS_NORM_H
#include "models/builder.h"
#include "models/kinds/layers.h"

extern const char *const norm_names[]; /* NULL-terminated, for field tables */
/* Rows of field tables, for a layer struct with the member that they are named after. */
/* clang-format off */
#define NORM_EPSILON_FIELD(layer) \
    {.key = "norm_epsilon", .type = FIELD_DOUBLE, .offset = offsetof(struct layer, norm_epsilon), .min = 0, .max = 1, \
     .doc = "Added to the variance inside the norm."}
#define POST_NORM_FIELD(layer) \
    {.key = "post_norm", .type = FIELD_BOOL, .offset = offsetof(struct layer, post_norm), \
     .doc = "The norm follows the residual sum (BERT) instead of opening the layer; false if absent."}
#define RESIDUAL_FIELD(layer) \
    {.key = "residual", .type = FIELD_BOOL, .offset = offsetof(struct layer, residual), \
     .doc = "The input is added to the output; true if absent. Without it an add layer joins them later."}
/* clang-format on */

/* Adds the segment "norm" on x (b,t,h) and returns the normalised value; x itself for NORM_NONE. */
int build_norm(struct graph_builder *builder, int x, int norm, double epsilon);
/* Adds a segment, and a value of its name, that sums `count` values (1 to MAX_LAYER_INPUTS) of these dims; bias: a
 * weight over the dim 'h', -1 none. Returns the value. */
int build_sum(struct graph_builder *builder, const char *name, const char *dims, const int *terms, int count, int bias);
/* Adds "residual": the sum of `count` values (1 to MAX_LAYER_INPUTS), with a bias over h if wanted; returns the value.
 */
int build_join(struct graph_builder *builder, const int *terms, int count, bool bias);
/* Adds "residual" of x and y; x -1: of y alone, which is y itself without a bias. */
int build_residual(struct graph_builder *builder, int x, int y, bool bias);
#endif
