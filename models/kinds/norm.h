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
#define OUTPUT_NORM_FIELD(layer) \
    {.key = "output_norm", .type = FIELD_ENUM, .offset = offsetof(struct layer, output_norm), .names = norm_names, \
     .doc = "Norm of what the layer adds, before it is added (Gemma 2, OLMo 2); none if absent."}
#define RESIDUAL_SCALE_FIELD(layer) \
    {.key = "residual_scale", .type = FIELD_DOUBLE, .offset = offsetof(struct layer, residual_scale), .min = 0, .max = 1e6, \
     .doc = "What that is multiplied by when it is added (Granite); 1 if absent or 0."}
#define RESIDUAL_FIELD(layer) \
    {.key = "residual", .type = FIELD_BOOL, .offset = offsetof(struct layer, residual), \
     .doc = "The input is added to the output; true if absent. Without it an add layer joins them later."}
/* clang-format on */

/* Adds the segment "norm" on x (b,t,h) and returns the normalised value; x itself for NORM_NONE. */
int build_norm(struct graph_builder *builder, int x, int norm, double epsilon);

/* A norm of other dims. What it is taken over must be x's last dims, whole, and those of the weight. */
struct norm_of {
    const char *name;    /* of its segment and value; the first part of its weights' and statistics' names */
    const char *axes;    /* as builder_segment() takes them */
    const char *dims;    /* of x */
    const char *weights; /* dims of gain and bias */
    const char *rows;    /* dims of the statistics: one for each row */
    int norm;            /* enum norm */
    double epsilon;
};
int build_norm_of(struct graph_builder *builder, const struct norm_of *of, int x);

/* What a norm of root mean squares that is not fused keeps beside what a fused one does, -1 where it is: in 16 bit the
 * input in fp32 and the scaled one take as much as the input, which nobody else keeps then, and this. */
int build_norm_input(struct graph_builder *builder, const char *name, const char *dims);

/* How what a layer computes joins the residual stream. */
struct layer_output {
    bool bias;             /* over h, added to the terms' sum */
    int norm;              /* enum norm: of that sum */
    double epsilon, scale; /* scale multiplies what is added; 0: by nothing */
};
/* Returns x + scale norm(sum of `count` terms + bias), where `x` may be -1 for none; without any of that the only
 * term itself. count is below MAX_LAYER_INPUTS. */
int build_output(struct graph_builder *builder, const struct layer_output *output, int x, const int *terms, int count);
/* Contradictions of what a layer says about its output. */
bool check_output(int output_norm, double residual_scale, bool post_norm, bool residual, const struct json *at,
                  struct error *err);
/* Adds a segment, and a value of its name, that sums `count` values (1 to MAX_LAYER_INPUTS) of these dims; bias: a
 * weight over the dim 'h', -1 none. Returns the value. */
int build_sum(struct graph_builder *builder, const char *name, const char *dims, const int *terms, int count, int bias);
/* Adds "residual": the sum of `count` values (1 to MAX_LAYER_INPUTS), with a bias over h if wanted; returns the value.
 */
int build_join(struct graph_builder *builder, const int *terms, int count, bool bias);
#endif
