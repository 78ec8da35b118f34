/* Windows over an image, and what conv, pool and patches make of them. */
#ifndef CLEAVE_MODELS_KINDS_WINDOW_H
#define CLEAVE_MODELS_KINDS_WINDOW_H
#include "models/builder.h"
#include "models/kinds/layers.h"

/* The image that enters the layer under `window`, of which height, width, stride and padding are given: fills in the
 * rest and makes the letter t and builder->columns those of what leaves. Values of what enters have been made before.
 * Fails when the window is larger than the image with its padding. */
bool build_window(struct graph_builder *builder, struct window *window, struct error *err);

struct convolution {
    struct window window;
    int64_t channels; /* that leave */
    bool bias;
    double init_std; /* of the kernel */
};
/* Adds the segment "conv" on x and returns its value (b,t,g). */
int build_conv(struct graph_builder *builder, int x, const struct convolution *conv, struct error *err);
/* Adds a rectifier of x, of these dims, under this name. */
int build_relu(struct graph_builder *builder, const char *name, const char *dims, int x);
#endif
