/* Parts of a head behind each other: y (b,t,n,d) = first (b,t,1,f), the same for all heads, then own (b,t,n,d-f). The
 * gradient of what all heads have is theirs, summed. */
#include "executor/kernels/primitives.h"
#include <string.h>

struct join {
    int64_t low[3], high[3]; /* of b, t, n */
    int axis[3];
    int64_t first, own; /* elements of the parts */
};

/* parts: the role of what is joined. */
static struct join join_of(const struct kernel_call *call, enum role parts)
{
    struct join join = { .first = call->operand[parts][0].count[3], .own = call->operand[parts][1].count[3] };
    for (int i = 0; i < 3; i++) {
        join.axis[i] = call->segment->out[0].axis[i];
        join.low[i] = call->low[join.axis[i]], join.high[i] = call->high[join.axis[i]];
    }
    return join;
}

/* The line of b, t and n of an operand. */
static real *line(const struct join *join, const struct spot *spot, int64_t b, int64_t t, int64_t n)
{
    return (real *)(void *)spot->data + (b - join->low[0]) * spot->stride[join->axis[0]] +
           (t - join->low[1]) * spot->stride[join->axis[1]] + (n - join->low[2]) * spot->stride[join->axis[2]];
}

void ISA(join_forward)(const struct kernel_call *call)
{
    struct join j = join_of(call, ROLE_IN);
    struct spot first = spot_of(call, ROLE_IN, 0), own = spot_of(call, ROLE_IN, 1), out = spot_of(call, ROLE_OUT, 0);
    for (int64_t b = j.low[0]; b < j.high[0]; b++)
        for (int64_t t = j.low[1]; t < j.high[1]; t++)
            for (int64_t n = j.low[2]; n < j.high[2]; n++) {
                real *y = line(&j, &out, b, t, n);
                memcpy(y, line(&j, &first, b, t, n), (size_t)j.first * sizeof *y);
                memcpy(y + j.first, line(&j, &own, b, t, n), (size_t)j.own * sizeof *y);
            }
}

static void take(real *to, const real *from, int64_t count, bool begin)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = (begin ? 0 : to[i]) + from[i];
}

void ISA(join_backward_input)(const struct kernel_call *call)
{
    struct join j = join_of(call, ROLE_GRADIENT_IN);
    const struct view *gradient = call->operand[ROLE_GRADIENT_IN];
    bool begin_first = begins(call, ROLE_GRADIENT_IN, 0), begin_own = begins(call, ROLE_GRADIENT_IN, 1);
    struct spot out = spot_of(call, ROLE_GRADIENT_OUT, 0), first = { 0 }, own = { 0 };
    if (gradient[0].data)
        first = spot_of(call, ROLE_GRADIENT_IN, 0);
    if (gradient[1].data)
        own = spot_of(call, ROLE_GRADIENT_IN, 1);
    for (int64_t b = j.low[0]; b < j.high[0]; b++)
        for (int64_t t = j.low[1]; t < j.high[1]; t++)
            for (int64_t n = j.low[2]; n < j.high[2]; n++) {
                const real *y = line(&j, &out, b, t, n);
                if (gradient[0].data)
                    take(line(&j, &first, b, t, n), y, j.first, begin_first && n == j.low[2]);
                if (gradient[1].data)
                    take(line(&j, &own, b, t, n), y + call->operand[ROLE_GRADIENT_OUT][0].count[3] - j.own, j.own,
                         begin_own);
            }
}
