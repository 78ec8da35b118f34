/* Pools: x (b,pixel,g), y (b,t,g), t the windows row by row. Class token: x (b,t,h), token (h), y (b,1 + t,h).
 *
 * Kernels that look at an image's or a sequence's other positions without a matrix: pools, the class token. */
#include "executor/kernels/primitives.h"
#include <string.h>

/* All positions of the range's samples, a position being a row of channels. */
struct positions {
    real *data; /* NULL: absent */
    int64_t row_stride, sample_stride;
};

/* The operand has dims (b, positions, channels); data is at position `first` of the range's first sample. */
static struct positions positions_of(const struct kernel_call *call, enum role role, int64_t first)
{
    const struct view *view = &call->operand[role][0];
    const struct operand *operand = operand_of_role(call->segment, role, 0);
    struct spot spot = spot_of(call, role, 0);
    struct positions p = { .data = (real *)(void *)spot.data,
                           .row_stride = view->count[2],
                           .sample_stride = view->count[1] * view->count[2] };
    if (p.data && operand->axis[1] < 0)
        p.data += first * p.row_stride;
    return p;
}

static real *position_at(const struct positions *p, int64_t sample, int64_t position)
{
    return p->data + sample * p->sample_stride + position * p->row_stride;
}

struct extents {
    int64_t samples, low, high, channels; /* low, high: positions of the output */
};

static struct extents extents_of(const struct kernel_call *call)
{
    const int8_t *axis = call->segment->out[0].axis;
    return (struct extents){ .samples = call->high[axis[0]] - call->low[axis[0]],
                             .low = call->low[axis[1]],
                             .high = call->high[axis[1]],
                             .channels = call->high[axis[2]] - call->low[axis[2]] };
}

void clear_pixels(const struct kernel_call *call, enum role role)
{
    const struct view *view = &call->operand[role][0];
    const int8_t *axis = operand_of_role(call->segment, role, 0)->axis;
    struct positions p = positions_of(call, role, 0);
    for (int64_t b = 0; b < call->high[axis[0]] - call->low[axis[0]]; b++)
        for (int64_t i = 0; i < view->count[1]; i++)
            memset(position_at(&p, b, i), 0, (size_t)(call->high[axis[2]] - call->low[axis[2]]) * sizeof(real));
}

/* ---- pools ---- */
/* The part of a window inside the image. */
struct pane {
    int64_t top, bottom, left, right; /* ends excluded */
};

static struct pane pane_of(const struct window *w, int64_t position)
{
    int64_t y = position / w->out_columns * w->stride - w->padding,
            x = position % w->out_columns * w->stride - w->padding;
    return (struct pane){ .top = y > 0 ? y : 0,
                          .bottom = y + w->height < w->rows ? y + w->height : w->rows,
                          .left = x > 0 ? x : 0,
                          .right = x + w->width < w->columns ? x + w->width : w->columns };
}

static void greatest(const struct window *w, const struct positions *in, int64_t sample, const struct pane *pane,
                     real *restrict out, int64_t channels)
{
    memcpy(out, position_at(in, sample, pane->top * w->columns + pane->left), (size_t)channels * sizeof *out);
    for (int64_t y = pane->top; y < pane->bottom; y++)
        for (int64_t x = pane->left; x < pane->right; x++) {
            const real *restrict from = position_at(in, sample, y * w->columns + x);
            for (int64_t i = 0; i < channels; i++)
                out[i] = from[i] > out[i] ? from[i] : out[i];
        }
}

static void average(const struct window *w, const struct positions *in, int64_t sample, const struct pane *pane,
                    real *restrict out, int64_t channels)
{
    const real share = 1 / (real)(w->height * w->width);
    memset(out, 0, (size_t)channels * sizeof *out);
    for (int64_t y = pane->top; y < pane->bottom; y++)
        for (int64_t x = pane->left; x < pane->right; x++) {
            const real *restrict from = position_at(in, sample, y * w->columns + x);
#pragma omp simd
            for (int64_t i = 0; i < channels; i++)
                out[i] += from[i];
        }
    for (int64_t i = 0; i < channels; i++)
        out[i] *= share;
}

static void pool_forward(const struct kernel_call *call, bool takes_greatest)
{
    const struct window *w = &call->segment->arguments.window;
    const struct extents e = extents_of(call);
    struct positions in = positions_of(call, ROLE_IN, 0), out = positions_of(call, ROLE_OUT, 0);
    for (int64_t b = 0; b < e.samples; b++)
        for (int64_t t = e.low; t < e.high; t++) {
            struct pane pane = pane_of(w, t);
            (takes_greatest ? greatest : average)(w, &in, b, &pane, position_at(&out, b, t - e.low), e.channels);
        }
}

void ISA(max_pool_forward)(const struct kernel_call *call)
{
    pool_forward(call, true);
}

void ISA(average_pool_forward)(const struct kernel_call *call)
{
    pool_forward(call, false);
}

/* The first one of equals takes all. */
static void greatest_gradient(const struct window *w, const struct positions *in, const struct positions *gradient,
                              int64_t sample, const struct pane *pane, const real *dy, int64_t channels)
{
    for (int64_t i = 0; i < channels; i++) {
        int64_t place = pane->top * w->columns + pane->left;
        for (int64_t y = pane->top; y < pane->bottom; y++)
            for (int64_t x = pane->left; x < pane->right; x++)
                if (position_at(in, sample, y * w->columns + x)[i] > position_at(in, sample, place)[i])
                    place = y * w->columns + x;
        position_at(gradient, sample, place)[i] += dy[i];
    }
}

static void average_gradient(const struct window *w, const struct positions *gradient, int64_t sample,
                             const struct pane *pane, const real *restrict dy, int64_t channels)
{
    const real share = 1 / (real)(w->height * w->width);
    for (int64_t y = pane->top; y < pane->bottom; y++)
        for (int64_t x = pane->left; x < pane->right; x++) {
            real *restrict dx = position_at(gradient, sample, y * w->columns + x);
#pragma omp simd
            for (int64_t i = 0; i < channels; i++)
                dx[i] += share * dy[i];
        }
}

static void pool_backward(const struct kernel_call *call, bool takes_greatest)
{
    if (!call->operand[ROLE_GRADIENT_IN][0].data)
        return;
    if (begins(call, ROLE_GRADIENT_IN, 0))
        clear_pixels(call, ROLE_GRADIENT_IN);
    const struct window *w = &call->segment->arguments.window;
    const struct extents e = extents_of(call);
    struct positions dx = positions_of(call, ROLE_GRADIENT_IN, 0), dy = positions_of(call, ROLE_GRADIENT_OUT, 0);
    struct positions in = takes_greatest ? positions_of(call, ROLE_IN, 0) : (struct positions){ 0 };
    for (int64_t b = 0; b < e.samples; b++)
        for (int64_t t = e.low; t < e.high; t++) {
            struct pane pane = pane_of(w, t);
            const real *slope = position_at(&dy, b, t - e.low);
            if (takes_greatest)
                greatest_gradient(w, &in, &dx, b, &pane, slope, e.channels);
            else
                average_gradient(w, &dx, b, &pane, slope, e.channels);
        }
}

void ISA(max_pool_backward_input)(const struct kernel_call *call)
{
    pool_backward(call, true);
}

void ISA(average_pool_backward_input)(const struct kernel_call *call)
{
    pool_backward(call, false);
}

/* ---- the class token: position t of the output is position t - 1 of the input ---- */
void ISA(class_token_forward)(const struct kernel_call *call)
{
    const struct extents e = extents_of(call);
    struct positions in = positions_of(call, ROLE_IN, 0), out = positions_of(call, ROLE_OUT, 0);
    const real *token = (const real *)(const void *)spot_of(call, ROLE_WEIGHT, 0).data;
    for (int64_t b = 0; b < e.samples; b++)
        for (int64_t t = e.low; t < e.high; t++)
            memcpy(position_at(&out, b, t - e.low), t == 0 ? token : position_at(&in, b, t - 1),
                   (size_t)e.channels * sizeof *token);
}

static void add(real *restrict sum, const real *restrict x, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        sum[i] += x[i];
}

void ISA(class_token_backward_input)(const struct kernel_call *call)
{
    if (!call->operand[ROLE_GRADIENT_IN][0].data)
        return;
    if (begins(call, ROLE_GRADIENT_IN, 0))
        clear_pixels(call, ROLE_GRADIENT_IN);
    const struct extents e = extents_of(call);
    struct positions dx = positions_of(call, ROLE_GRADIENT_IN, 0), dy = positions_of(call, ROLE_GRADIENT_OUT, 0);
    for (int64_t b = 0; b < e.samples; b++)
        for (int64_t t = e.low > 1 ? e.low : 1; t < e.high; t++)
            add(position_at(&dx, b, t - 1), position_at(&dy, b, t - e.low), e.channels);
}

void ISA(class_token_backward_weight)(const struct kernel_call *call)
{
    real *token = (real *)(void *)spot_of(call, ROLE_GRADIENT_WEIGHT, 0).data;
    if (!token)
        return;
    if (begins(call, ROLE_GRADIENT_WEIGHT, 0))
        clear_operand(call, ROLE_GRADIENT_WEIGHT, 0);
    const struct extents e = extents_of(call);
    struct positions dy = positions_of(call, ROLE_GRADIENT_OUT, 0);
    for (int64_t b = 0; b < (e.low == 0 && e.high > 0 ? e.samples : 0); b++)
        add(token, position_at(&dy, b, 0), e.channels);
}
