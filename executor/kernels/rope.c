/* Rotary positions: x, y (b,t,n,d), where elements i and r / 2 + i of the first r of d turn together by t times their
 * frequency and the rest passes; the head dim d is never split. */
#include "executor/kernels/primitives.h"
#include "executor/kernels/frequency.h"

/* Angles of PAIRS neighbouring pairs of the head dim at one position. */
enum { PAIRS = 128, POSITION_BLOCK = 32 };
struct angles {
    int64_t count, position;
    double cosine[PAIRS], sine[PAIRS];           /* of position * frequency */
    double step_cosine[PAIRS], step_sine[PAIRS]; /* of frequency */
    double frequency[PAIRS];
    real cos_real[PAIRS], sin_real[PAIRS];
};

static void angles_start(struct angles *a, const struct kernel_arguments *arguments, int64_t first_pair, int64_t pairs,
                         int64_t half)
{
    a->count = pairs;
    a->position = -1;
    for (int64_t i = 0; i < pairs; i++) {
        a->frequency[i] = rope_frequency(arguments, first_pair + i, half);
        a->step_cosine[i] = cos(a->frequency[i]);
        a->step_sine[i] = sin(a->frequency[i]);
    }
}

/* Exact at multiples of POSITION_BLOCK, by rotation in between: cheap, and the same whatever range a call covers. */
static void angles_move(struct angles *a, int64_t position)
{
    if (a->position < 0 || position < a->position || position / POSITION_BLOCK != a->position / POSITION_BLOCK) {
        a->position = position / POSITION_BLOCK * POSITION_BLOCK;
        for (int64_t i = 0; i < a->count; i++) {
            a->cosine[i] = cos((double)a->position * a->frequency[i]);
            a->sine[i] = sin((double)a->position * a->frequency[i]);
        }
    }
    for (; a->position < position; a->position++)
        for (int64_t i = 0; i < a->count; i++) {
            double c = a->cosine[i] * a->step_cosine[i] - a->sine[i] * a->step_sine[i];
            a->sine[i] = a->sine[i] * a->step_cosine[i] + a->cosine[i] * a->step_sine[i];
            a->cosine[i] = c;
        }
    for (int64_t i = 0; i < a->count; i++) {
        a->cos_real[i] = (real)a->cosine[i];
        a->sin_real[i] = (real)a->sine[i];
    }
}

static void rotate(real *y, const real *x, const struct angles *a, int64_t half, real sign, bool begin)
{
    for (int64_t i = 0; i < a->count; i++) {
        real c = a->cos_real[i], s = sign * a->sin_real[i], low = x[i], high = x[half + i];
        y[i] = (begin ? 0 : y[i]) + low * c - high * s;
        y[half + i] = (begin ? 0 : y[half + i]) + high * c + low * s;
    }
}

static void rotate_all(const struct kernel_call *call, enum role from, enum role to, real sign, bool begin)
{
    const struct operand *operand = &call->segment->out[0];
    struct spot in = spot_of(call, from, 0), out = spot_of(call, to, 0);
    int b_axis = operand->axis[0], t_axis = operand->axis[1], n_axis = operand->axis[2], d_axis = operand->axis[3];
    const struct kernel_arguments *arguments = &call->segment->arguments;
    int64_t width = call->high[d_axis] - call->low[d_axis],
            half = (arguments->rope_dim ? arguments->rope_dim : width) / 2;
    struct angles angles;
    for (int64_t pair = 0; pair < half; pair += PAIRS) {
        angles_start(&angles, arguments, pair, half - pair < PAIRS ? half - pair : PAIRS, half);
        for (int64_t t = 0; t < call->high[t_axis] - call->low[t_axis]; t++) {
            angles_move(&angles, call->low[t_axis] + call->shift[t_axis] + t);
            for (int64_t b = 0; b < call->high[b_axis] - call->low[b_axis]; b++)
                for (int64_t n = 0; n < call->high[n_axis] - call->low[n_axis]; n++) {
                    real *y = (real *)(void *)out.data + b * out.stride[b_axis] + t * out.stride[t_axis] +
                              n * out.stride[n_axis];
                    const real *x = (const real *)(void *)in.data + b * in.stride[b_axis] + t * in.stride[t_axis] +
                                    n * in.stride[n_axis];
                    rotate(y + pair, x + pair, &angles, half, sign, begin);
                    for (int64_t i = 2 * half; pair == 0 && i < width; i++)
                        y[i] = (begin ? 0 : y[i]) + x[i];
                }
        }
    }
}

void ISA(rope_forward)(const struct kernel_call *call)
{
    rotate_all(call, ROLE_IN, ROLE_OUT, 1, true);
}

/* The inverse of a rotation is its transpose. */
void ISA(rope_backward_input)(const struct kernel_call *call)
{
    if (call->operand[ROLE_GRADIENT_IN][0].data)
        rotate_all(call, ROLE_GRADIENT_OUT, ROLE_GRADIENT_IN, -1, begins(call, ROLE_GRADIENT_IN, 0));
}
