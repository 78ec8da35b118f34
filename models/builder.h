/* How layer kinds describe their segments: letters name axes, as in an einsum.
 *
 *   b batch  t sequence  s key (the sequence again)  n heads  m key/value heads  d head dim  h hidden  f ffn
 *     (t, s and h are what enters the layer: of an image its pixels and channels)
 *   g hidden as the columns of a square matrix, split as f is  v vocabulary (padded)  p learned positions
 *   e experts  u experts as columns of the router  q groups of tokens (the sequence in units of a group)
 *   c slots that a group has at an expert  k choices of a token  l rank of a low-rank adapter
 *   g channels of an image behind a window, k points of the window, j groups of channels
 *   r buckets of relative positions  a classes of sequences  1 one  o, y, w an opaque layer's output, saved and weight
 * elements marks after a letter of a segment's axes:  + outputs without it sum over it   ^ take the maximum ~ combine
 * by log-sum-exp   ! the axis must not be split An operand's text names the axis of each dim; a letter that is no axis
 * of the segment ('.') leaves the dim whole. */
#ifndef CLEAVE_MODELS_BUILDER_H
#define CLEAVE_MODELS_BUILDER_H
#include "models/graph.h"

struct graph_builder {
    struct graph *graph;
    int64_t size[128]; /* per letter; kinds set n, m, d, f and their own by builder_size() */
    int value_capacity, weight_capacity, segment_capacity;
    int layer;                                 /* index of the layer under construction */
    const char *prefix;                        /* "3.attention" */
    bool frozen;                               /* weights made now are frozen */
    bool drops;                                /* adapters drop some of their input */
    int input_count, inputs[MAX_LAYER_INPUTS]; /* values that enter the layer, in its kind's order */
    int input, output; /* the first that enters (the image before the first layer), -1: none; value that leaves, set by
                          the kind */
    int64_t columns;   /* of the image that enters, 0: a sequence; a kind that changes it says what leaves */
    int shared[512], shared_count; /* weights of builder_shared() */
    const char *shared_by;         /* name before those of the weights that the layer shares; NULL: its own */
    int table, head_table;         /* the embedding's weight and the logits', -1 until there is one */
    double init_std;               /* of matrices */
    double residual_std;           /* of matrices that end in the residual stream */
    bool failed;                   /* the first failure stands in err; everything after is harmless and dropped */
    struct error *err;
    struct segment spare; /* handed out after a failure */
};

struct operand_text {
    int id;           /* value or weight */
    const char *axes; /* NULL ends the list */
};
#define OPERANDS(...) ((const struct operand_text[]){ __VA_ARGS__, { -1, NULL } })
#define NO_OPERANDS ((const struct operand_text[]){ { -1, NULL } })

/* Says that nothing runs the layer under construction: its weights and its work are planned alone. */
void builder_planned_only(struct graph_builder *builder);
/* Gives a letter its extent for the segments that follow. */
void builder_size(struct graph_builder *builder, char letter, int64_t size);
/* A value "<prefix>.<name>" of the current layer; returns its id. dims: one letter per dim. */
int builder_value(struct graph_builder *builder, const char *name, const char *dims, enum element element,
                  bool differentiable);
/* A value that the loader provides; its name has no prefix. */
int builder_input(struct graph_builder *builder, const char *name, const char *dims, enum element element);
/* The weight of logits, which comes first in rows as the embedding's does, so that both can be one. Whoever asks first
 * makes it. */
int builder_head_table(struct graph_builder *builder, bool tied);
/* A weight of the current layer; returns its id. INIT_NORMAL weights are matrices and decay. */
int builder_weight(struct graph_builder *builder, const char *name, const char *dims, enum init init, double init_std);
/* Makes a matrix that is trained where the layer's own weights are frozen, and decays whatever it begins as. */
int builder_adapter(struct graph_builder *builder, const char *name, const char *dims, enum init init);
/* A weight "<name>" of no layer: the first layer that asks for it makes it, later ones get the same. At most 128
 * names. */
int builder_shared(struct graph_builder *builder, const char *name, const char *dims, enum init init, double init_std);
/* Adds a segment; each list ends with axes NULL. The pointer is for setting arguments at once: the next call may move
 * it. */
struct segment *builder_segment(struct graph_builder *builder, enum kernel kernel, const char *name, const char *axes,
                                const struct operand_text *in, const struct operand_text *weight,
                                const struct operand_text *out);
#endif
