/* x, y (b,t,g); gain, bias (g); mean, rstd (b,j), where group j has channels_per_group neighbouring channels of g.
 *
 * Group norm over all positions of a sample and the channels of a group (Wu & He 2018). Statistics are outputs, so
 * backward never recomputes them; samples never see each other. */
#include "executor/kernels/exponential.h"
#include "executor/kernels/primitives.h"

/* One group of one sample. Strides in elements; gain and bias at the group's first channel. */
struct group {
    int64_t positions, channels;
    const real *x, *dy, *gain, *bias;
    real *y, *dx, *dgain, *dbias; /* NULL: not asked for */
    int64_t x_row, y_row, dx_row, dy_row;
    real *mean, *rstd;
    double epsilon;
    bool begin; /* dx */
};
typedef void group_function(const struct group *group);

/* An operand (b,t,g) at its group, NULL where it is absent. */
static real *at_group(const struct spot *spot, const int8_t *axis, int64_t sample, int64_t channel)
{
    return spot->data ? (real *)(void *)spot->data + sample * spot->stride[axis[0]] + channel * spot->stride[axis[2]]
                      : NULL;
}

/* Statistics (b, groups) follow the channels' axis, scaled. */
static real *statistic_at(const struct kernel_call *call, int index, int64_t sample, int64_t group)
{
    const struct view *view = &call->operand[ROLE_OUT][index];
    int batch = call->segment->out[0].axis[0];
    return (real *)view->data + (call->low[batch] + sample - view->low[0]) * view->count[1] + group - view->low[1];
}

static void each_group(const struct kernel_call *call, group_function *visit)
{
    const struct segment *s = call->segment;
    const int8_t *axis = s->out[0].axis;
    const int64_t width = s->arguments.channels_per_group, samples = call->high[axis[0]] - call->low[axis[0]];
    struct spot x = spot_of(call, ROLE_IN, 0), y = spot_of(call, ROLE_OUT, 0), dx = spot_of(call, ROLE_GRADIENT_IN, 0),
                dy = spot_of(call, ROLE_GRADIENT_OUT, 0);
    const real *gain = (real *)(void *)spot_of(call, ROLE_WEIGHT, 0).data;
    const real *bias = (real *)(void *)spot_of(call, ROLE_WEIGHT, 1).data;
    real *dgain = (real *)(void *)spot_of(call, ROLE_GRADIENT_WEIGHT, 0).data;
    real *dbias = (real *)(void *)spot_of(call, ROLE_GRADIENT_WEIGHT, 1).data;
    struct group g = { .positions = call->high[axis[1]] - call->low[axis[1]],
                       .channels = width,
                       .x_row = x.stride[axis[1]],
                       .y_row = y.stride[axis[1]],
                       .dx_row = dx.stride[axis[1]],
                       .dy_row = dy.stride[axis[1]],
                       .epsilon = s->arguments.epsilon,
                       .begin = begins(call, ROLE_GRADIENT_IN, 0) };
    for (int64_t b = 0; b < samples; b++)
        for (int64_t c = call->low[axis[2]]; c < call->high[axis[2]]; c += width) {
            int64_t channel = c - call->low[axis[2]];
            g.x = at_group(&x, axis, b, channel), g.y = at_group(&y, axis, b, channel);
            g.dx = at_group(&dx, axis, b, channel), g.dy = at_group(&dy, axis, b, channel);
            g.gain = gain ? gain + channel : NULL, g.bias = bias ? bias + channel : NULL;
            g.dgain = dgain ? dgain + channel : NULL, g.dbias = dbias ? dbias + channel : NULL;
            g.mean = statistic_at(call, 1, b, c / width), g.rstd = statistic_at(call, 2, b, c / width);
            visit(&g);
        }
}

static void forward_group(const struct group *g)
{
    const real count = (real)(g->positions * g->channels);
    real sum = 0, squares = 0;
    for (int64_t t = 0; t < g->positions; t++)
        for (int64_t c = 0; c < g->channels; c++)
            sum += g->x[t * g->x_row + c];
    const real mean = sum / count;
    for (int64_t t = 0; t < g->positions; t++)
        for (int64_t c = 0; c < g->channels; c++)
            squares += (g->x[t * g->x_row + c] - mean) * (g->x[t * g->x_row + c] - mean);
    const real rstd = 1 / real_sqrt(squares / count + (real)g->epsilon);
    for (int64_t t = 0; t < g->positions; t++)
        for (int64_t c = 0; c < g->channels; c++)
            g->y[t * g->y_row + c] = (g->x[t * g->x_row + c] - mean) * rstd * g->gain[c] + g->bias[c];
    *g->mean = mean;
    *g->rstd = rstd;
}

void ISA(group_norm_forward)(const struct kernel_call *call)
{
    each_group(call, forward_group);
}

/* This is a layer norm whose rows are groups: with z = (x - mean) rstd and s = dy gain, dx = rstd (s - average(s) - z
 * average(s z)). */
static void backward_input_group(const struct group *g)
{
    const real count = (real)(g->positions * g->channels), mean = *g->mean, rstd = *g->rstd;
    real sum = 0, product = 0;
    for (int64_t t = 0; t < g->positions; t++)
        for (int64_t c = 0; c < g->channels; c++) {
            real s = g->dy[t * g->dy_row + c] * g->gain[c];
            sum += s;
            product += s * (g->x[t * g->x_row + c] - mean);
        }
    const real slope = product * rstd * rstd / count, shift = sum / count;
    for (int64_t t = 0; t < g->positions; t++)
        for (int64_t c = 0; c < g->channels; c++) {
            real *dx = &g->dx[t * g->dx_row + c], s = g->dy[t * g->dy_row + c] * g->gain[c];
            *dx = (g->begin ? 0 : *dx) + rstd * (s - shift - (g->x[t * g->x_row + c] - mean) * slope);
        }
}

void ISA(group_norm_backward_input)(const struct kernel_call *call)
{
    if (call->operand[ROLE_GRADIENT_IN][0].data)
        each_group(call, backward_input_group);
}

static void backward_weight_group(const struct group *g)
{
    const real mean = *g->mean, rstd = *g->rstd;
    for (int64_t t = 0; t < g->positions; t++)
        for (int64_t c = 0; c < g->channels; c++) {
            real dy = g->dy[t * g->dy_row + c];
            if (g->dgain)
                g->dgain[c] += dy * (g->x[t * g->x_row + c] - mean) * rstd;
            if (g->dbias)
                g->dbias[c] += dy;
        }
}

void ISA(group_norm_backward_weight)(const struct kernel_call *call)
{
    for (int i = 0; i < 2; i++)
        if (call->operand[ROLE_GRADIENT_WEIGHT][i].data && begins(call, ROLE_GRADIENT_WEIGHT, i))
            clear_operand(call, ROLE_GRADIENT_WEIGHT, i);
    each_group(call, backward_weight_group);
}
