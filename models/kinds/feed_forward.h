/* The network between two residual sums that mlp and moe share: one or two matrices, an activation, a matrix back. */
#ifndef CLEAVE_MODELS_KINDS_FEED_FORWARD_H
#define CLEAVE_MODELS_KINDS_FEED_FORWARD_H
#include "models/builder.h"
#include "models/kinds/layers.h"
#include "models/kinds/lora.h"

extern const char *const activation_names[]; /* by enum activation, NULL-terminated, for field tables */
extern const char activation_doc[];

/* Bits of an mlp layer's lora.targets, and their names. */
enum feed_forward_matrix { MATRIX_GATE, MATRIX_UP, MATRIX_DOWN };
extern const char *const feed_forward_matrix_names[];
bool activation_is_gated(int activation); /* enum activation: it multiplies two matrices' outputs */
enum kernel activation_kernel(int activation);
double activation_cap(int activation); /* its kernel's argument of that name */

struct feed_forward {
    const char *gate, *up, *act, *down; /* names of segments, values and weights */
    const char *tokens;                 /* axes of the input before h: "bt" */
    const char *stack;                  /* axes of every matrix before its two: "" or "e" */
    int filled;                         /* per stack and group: how many slots count (a value); -1: all do */
    double expected_fill;               /* share of the slots that is expected to count; 0: all */
    int activation;                     /* enum activation */
    bool bias;                          /* after the first matrices */
    double down_std;                    /* of the last matrix */
    const struct lora *lora;            /* NULL: no adapters, which have no stack */
};
/* Adds the segments on x (tokens, h) between widths h and f, which builder_size() gave; returns the value after the
 * last matrix, shaped as x. */
int build_feed_forward(struct graph_builder *builder, const struct feed_forward *f, int x);
#endif
