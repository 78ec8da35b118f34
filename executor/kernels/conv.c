/* x (b,pixel,h), an image row by row; kernel (k,h,g), k the points of a window; y (b,t,g), t the windows row by row.
 * matrix (positions of the tile, k * h), at most CONV_TILE_POSITIONS rows.
 *
 * Convolution as a matrix product: the windows of a tile of positions are laid out as rows of a matrix in the scratch
 * memory (Chellapilla et al. 2006), so that all three phases are GEMMs. */
#include "executor/kernels/primitives.h"
#include "base/num.h"
#include <string.h>

/* The image of one sample, or its gradient: a row of `channels` elements per pixel. */
struct pixels {
    struct spot spot;
    int64_t channels, pixel_stride, sample_stride; /* elements */
};

static int axis_tagged(const struct segment *segment, enum axis_tag tag)
{
    int axis = 0;
    while (segment->axes[axis].tag != tag)
        axis++;
    return axis;
}

static int64_t extent_of(const struct kernel_call *call, int axis)
{
    return call->high[axis] - call->low[axis];
}

static real *pixel_at(const struct pixels *pixels, int64_t sample, int64_t pixel)
{
    return (real *)(void *)pixels->spot.data + sample * pixels->sample_stride + pixel * pixels->pixel_stride;
}

/* Visits the points of the windows of positions [first, first + count): each is a run of channels in the image and in
 * the matrix; image NULL: the point lies outside. */
typedef void point_function(real *matrix, real *image, int64_t channels);
static void each_point(const struct window *w, const struct pixels *pixels, int64_t sample, int64_t first,
                       int64_t count, real *matrix, point_function *visit)
{
    for (int64_t position = first; position < first + count; position++) {
        int64_t top = position / w->out_columns * w->stride - w->padding;
        int64_t left = position % w->out_columns * w->stride - w->padding;
        for (int64_t y = top; y < top + w->height; y++)
            for (int64_t x = left; x < left + w->width; x++) {
                bool inside = y >= 0 && y < w->rows && x >= 0 && x < w->columns;
                visit(matrix, inside ? pixel_at(pixels, sample, y * w->columns + x) : NULL, pixels->channels);
                matrix += pixels->channels;
            }
    }
}

static void lay_out(real *restrict matrix, real *restrict image, int64_t channels)
{
    if (image)
        memcpy(matrix, image, (size_t)channels * sizeof *matrix);
    else
        memset(matrix, 0, (size_t)channels * sizeof *matrix);
}

static void add_back(real *restrict matrix, real *restrict image, int64_t channels)
{
#pragma omp simd
    for (int64_t i = 0; i < (image ? channels : 0); i++)
        image[i] += matrix[i];
}

/* One product per tile: rows are positions, `inner` are the points of windows times channels. */
struct tile {
    const struct window *window;
    struct pixels pixels;
    struct spot out, kernel; /* values or gradients, as the phase has it */
    int64_t sample, first, count, inner, channels_out;
    int64_t out_row, out_column, kernel_row, kernel_column; /* strides, elements */
    real *matrix;
};
typedef void tile_function(const struct tile *tile);

static void each_tile(const struct kernel_call *call, enum role in, enum role out, enum role kernel,
                      tile_function *visit)
{
    const struct segment *s = call->segment;
    const int batch = s->out[0].axis[0], positions = s->out[0].axis[1], channels = s->out[0].axis[2];
    const struct view *image = &call->operand[in][0];
    struct tile tile = { .window = &s->arguments.window,
                         .pixels = { .spot = spot_of(call, in, 0),
                                     .channels = extent_of(call, s->in[0].axis[2]),
                                     .pixel_stride = image->count[2],
                                     .sample_stride = image->count[1] * image->count[2] },
                         .out = spot_of(call, out, 0),
                         .kernel = spot_of(call, kernel, 0),
                         .channels_out = extent_of(call, channels),
                         .matrix = call->scratch };
    struct spot out_spot = tile.out;
    tile.inner = tile.pixels.channels * tile.window->height * tile.window->width;
    tile.out_row = out_spot.stride[positions], tile.out_column = out_spot.stride[channels];
    tile.kernel_row = tile.kernel.stride[axis_tagged(s, TAG_HIDDEN)], tile.kernel_column = tile.kernel.stride[channels];
    for (tile.sample = 0; tile.sample < extent_of(call, batch); tile.sample++)
        for (tile.first = call->low[positions]; tile.first < call->high[positions]; tile.first += tile.count) {
            tile.count = min_i64(CONV_TILE_POSITIONS, call->high[positions] - tile.first);
            tile.out.data = out_spot.data + (tile.sample * out_spot.stride[batch] +
                                             (tile.first - call->low[positions]) * tile.out_row) *
                                                out_spot.element_bytes;
            visit(&tile);
        }
}

static void forward_tile(const struct tile *t)
{
    each_point(t->window, &t->pixels, t->sample, t->first, t->count, t->matrix, lay_out);
    gemm_run(&(struct gemm){ .m = t->count,
                             .n = t->channels_out,
                             .k = t->inner,
                             .a = t->matrix,
                             .a_m = t->inner,
                             .a_k = 1,
                             .b = (const real *)(const void *)t->kernel.data,
                             .b_k = t->kernel_row,
                             .b_n = t->kernel_column,
                             .c = (real *)(void *)t->out.data,
                             .c_m = t->out_row,
                             .c_n = t->out_column,
                             .alpha = 1,
                             .accumulate = true });
}

/* The kernel's points and channels are never split, so no call adds to another's output. */
void ISA(conv_forward)(const struct kernel_call *call)
{
    if (call->segment->weight_count > 1)
        fill_with_bias(call, 1);
    else
        clear_operand(call, ROLE_OUT, 0);
    each_tile(call, ROLE_IN, ROLE_OUT, ROLE_WEIGHT, forward_tile);
}

static void backward_input_tile(const struct tile *t)
{
    gemm_run(&(struct gemm){ .m = t->count,
                             .n = t->inner,
                             .k = t->channels_out,
                             .a = (const real *)(const void *)t->out.data,
                             .a_m = t->out_row,
                             .a_k = t->out_column,
                             .b = (const real *)(const void *)t->kernel.data,
                             .b_k = t->kernel_column,
                             .b_n = t->kernel_row,
                             .c = t->matrix,
                             .c_m = t->inner,
                             .c_n = 1,
                             .alpha = 1 });
    each_point(t->window, &t->pixels, t->sample, t->first, t->count, t->matrix, add_back);
}

void ISA(conv_backward_input)(const struct kernel_call *call)
{
    if (!call->operand[ROLE_GRADIENT_IN][0].data)
        return;
    if (begins(call, ROLE_GRADIENT_IN, 0))
        clear_pixels(call, ROLE_GRADIENT_IN);
    each_tile(call, ROLE_GRADIENT_IN, ROLE_GRADIENT_OUT, ROLE_WEIGHT, backward_input_tile);
}

static void backward_weight_tile(const struct tile *t)
{
    each_point(t->window, &t->pixels, t->sample, t->first, t->count, t->matrix, lay_out);
    gemm_run(&(struct gemm){ .m = t->inner,
                             .n = t->channels_out,
                             .k = t->count,
                             .a = t->matrix,
                             .a_m = 1,
                             .a_k = t->inner,
                             .b = (const real *)(const void *)t->out.data,
                             .b_k = t->out_row,
                             .b_n = t->out_column,
                             .c = (real *)(void *)t->kernel.data,
                             .c_m = t->kernel_row,
                             .c_n = t->kernel_column,
                             .alpha = 1,
                             .accumulate = true });
}

void ISA(conv_backward_weight)(const struct kernel_call *call)
{
    if (call->operand[ROLE_GRADIENT_WEIGHT][0].data) {
        if (begins(call, ROLE_GRADIENT_WEIGHT, 0))
            clear_operand(call, ROLE_GRADIENT_WEIGHT, 0);
        each_tile(call, ROLE_IN, ROLE_GRADIENT_OUT, ROLE_GRADIENT_WEIGHT, backward_weight_tile);
    }
    if (call->segment->weight_count > 1)
        bias_gradient(call, 1);
}
