/* What state_space and linear_attention share. */
#ifndef CLEAVE_MODELS_KINDS_SCAN_PARTS_H
#define CLEAVE_MODELS_KINDS_SCAN_PARTS_H
#include "models/builder.h"
#include "models/kinds/layers.h"

/* A product with a matrix of the segment's name, and with a bias over what it makes if wanted. axes: as
 * builder_segment() takes them, with '!' behind what is folded where there is a bias. Returns the value, of dims `to`.
 */
struct projection {
    const char *name, *axes, *from, *matrix, *to, *shift; /* shift: dims of the bias, NULL: none */
    double std;                                           /* 0: as usual */
};
int build_projection(struct graph_builder *builder, const struct projection *p, int x);

/* The short convolution "<name>" of x, channel by channel; channels: the dims behind b and t. */
int build_short_conv(struct graph_builder *builder, const char *name, const char *channels, int64_t taps, bool bias,
                     int x);

/* "norm_gated": x times silu(z), normed over `over` heads at a time and the dim `width`; gain: dims of its weight. */
int build_gated_norm(struct graph_builder *builder, int x, int z, char width, int64_t over, const char *gain,
                     double epsilon);
#endif
