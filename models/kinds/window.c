#include "models/kinds/window.h"

/* Places of a window of `size` along `extent` pixels; none: 0. */
static int64_t places(int64_t extent, int64_t size, const struct window *window)
{
    int64_t room = extent + 2 * window->padding - size;
    return room < 0 ? 0 : room / window->stride + 1;
}

bool build_window(struct graph_builder *builder, struct window *window, struct error *err)
{
    bool sequence = builder->columns == 0;
    window->columns = sequence ? 1 : builder->columns;
    window->rows = builder->size['t'] / window->columns;
    window->out_columns = places(window->columns, window->width, window);
    int64_t out_rows = places(window->rows, window->height, window);
    if (out_rows < 1 || window->out_columns < 1)
        return fail_kind(err, ERROR_INPUT,
                         "layer %s: expected a window within the image of %lld x %lld and its padding of %lld, found "
                         "%lld x %lld",
                         builder->prefix, (long long)window->rows, (long long)window->columns,
                         (long long)window->padding, (long long)window->height, (long long)window->width);
    builder_size(builder, 't', out_rows * window->out_columns);
    builder->columns = sequence ? 0 : window->out_columns;
    return true;
}

int build_conv(struct graph_builder *builder, int x, const struct convolution *conv, struct error *err)
{
    struct window window = conv->window;
    if (!build_window(builder, &window, err)) {
        builder->failed = true;
        return 0;
    }
    /* A window of one pixel is a matrix: no rows need to be laid out. */
    bool matrix = window.height == 1 && window.width == 1 && window.stride == 1 && window.padding == 0;
    builder_size(builder, 'g', conv->channels);
    builder_size(builder, 'k', window.height * window.width);
    int y = builder_value(builder, "conv", "btg", ELEMENT_ACTIVATION, true);
    int kernel = builder_weight(builder, "conv", matrix ? "hg" : "khg", INIT_NORMAL, conv->init_std);
    int bias = conv->bias ? builder_weight(builder, "conv_bias", "g", INIT_ZERO, 0) : -1;
    if (matrix) {
        builder_segment(builder, KERNEL_MATMUL, "conv", conv->bias ? "bth+!g" : "bth+g", OPERANDS({ x, "bth" }),
                        OPERANDS({ kernel, "hg" }, { bias, conv->bias ? "g" : NULL }), OPERANDS({ y, "btg" }));
        return y;
    }
    builder_segment(builder, KERNEL_CONV, "conv", "bth+!k+!g", OPERANDS({ x, "b.h" }),
                    OPERANDS({ kernel, "khg" }, { bias, conv->bias ? "g" : NULL }), OPERANDS({ y, "btg" }))
        ->arguments.window = window;
    return y;
}

int build_relu(struct graph_builder *builder, const char *name, const char *dims, int x)
{
    int y = builder_value(builder, name, dims, ELEMENT_ACTIVATION, true);
    builder_segment(builder, KERNEL_RELU, name, dims, OPERANDS({ x, dims }), NO_OPERANDS, OPERANDS({ y, dims }));
    return y;
}
