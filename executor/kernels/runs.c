#include "executor/kernels/runs.h"
#include "base/num.h"
#include "executor/kernels/loops.h"
#include "executor/kernels/token_order.h"

/* -1: the segment has no such axis. */
static int axis_of(const struct segment *segment, enum axis_tag tag)
{
    for (int i = 0; i < segment->axis_count; i++)
        if (segment->axes[i].tag == tag)
            return i;
    return -1;
}

static bool follows(const struct operand *operand, int axis)
{
    for (int dim = 0; dim < MAX_DIMS; dim++)
        if (operand->axis[dim] == axis)
            return true;
    return false;
}

/* What lacks the axis has begun with its first run. */
static void fold_on(struct kernel_call *part, int axis)
{
    const struct segment *segment = part->segment;
    part->first = part->first && follows(&segment->out[0], axis);
    for (int role = 0; role < ROLE_COUNT; role++)
        for (int i = 0; i < MAX_OPERANDS; i++)
            if (part->operand[role][i].data && !follows(operand_of_role(segment, (enum role)role, i), axis))
                part->define[role] &= (uint8_t) ~(1u << i);
}

/* The part that begins at the place; returns where it ends. */
static int64_t cut(struct kernel_call *part, const struct kernel_call *call, int axis, int64_t low)
{
    int64_t size = call->segment->axes[axis].size, end = token_run_end(low, size, call->token_parts);
    part->low[axis] = low;
    part->high[axis] = min_i64(end, call->high[axis]);
    part->shift[axis] = token_position(low, size, call->token_parts) - low;
    if (low > call->low[axis])
        fold_on(part, axis);
    return part->high[axis];
}

static bool begins_anything(const struct kernel_call *call)
{
    bool begins = call->first;
    for (int role = 0; role < ROLE_COUNT; role++)
        begins = begins || call->define[role];
    return begins;
}

/* All of its keys come after all of its queries. */
static bool sees_nothing(const struct kernel_call *part, int queries, int keys)
{
    return keys >= 0 && part->segment->arguments.causal &&
           part->high[queries] - 1 + part->shift[queries] < part->low[keys] + part->shift[keys];
}

bool kernel_each_run(const struct kernel_call *call, bool (*run)(void *context, const struct kernel_call *part),
                     void *context)
{
    int queries = axis_of(call->segment, TAG_SEQUENCE), keys = axis_of(call->segment, TAG_KEY);
    if (call->token_parts <= 1 || queries < 0)
        return run(context, call);
    for (int64_t t = call->low[queries], t_end; t < call->high[queries]; t = t_end) {
        struct kernel_call row = *call;
        t_end = cut(&row, call, queries, t);
        if (keys < 0 && !run(context, &row))
            return false;
        for (int64_t s = keys < 0 ? 0 : call->low[keys], s_end; keys >= 0 && s < call->high[keys]; s = s_end) {
            struct kernel_call part = row;
            s_end = cut(&part, call, keys, s);
            if ((begins_anything(&part) || !sees_nothing(&part, queries, keys)) && !run(context, &part))
                return false;
        }
    }
    return true;
}
