/* Exchanges of experts' tokens beside computations, as frameworks do it that run a forward pass together with the
 * backward pass of another micro-batch (DeepSeek-AI 2024, DeepSeek-V3, section 3.2.1; Megatron-Core's combined 1F1B):
 * the two take turns, each until it has sent its tokens off, so that one computes while the other's tokens are under
 * way.
 *
 * Each pass keeps its own order, and each lane of messages too. What stands between the two passes stays before them if
 * it is for the backward pass and behind them if it is of the forward pass. A pass is not paired with the backward pass
 * of its own micro-batch, which reads what it makes; schedules that leave one more in flight have others. */
#include "planner/lower/lower_emit.h"
#include "planner/program/clock.h"
#include <string.h>

struct turns {
    const struct instr *from;
    struct instr *to;
    int count;
};

static void take(struct turns *t, int first, int end)
{
    if (end > first)
        memcpy(t->to + t->count, t->from + first, (size_t)(end - first) * sizeof *t->to);
    t->count += end - first;
}

/* Gives the place behind the next exchanges of tokens that nothing stands between, or the end. */
static int turn_end(const struct turns *t, int at, int end)
{
    while (at < end && t->from[at].lane != LANE_EP)
        at++;
    while (at < end && t->from[at].lane == LANE_EP)
        at++;
    return at;
}

static bool is_for_backward(const struct instr *instr)
{
    return instr->op == OP_RECEIVE || !instr_is_forward(instr);
}

static void take_both(struct turns *t, const struct pass_made *forward, const struct pass_made *backward)
{
    int f = forward->first, b = backward->first;
    for (int between = forward->end; between < backward->first; between++)
        if (is_for_backward(&t->from[between]))
            take(t, between, between + 1);
    while (f < forward->end || b < backward->end) {
        int end = turn_end(t, f, forward->end);
        take(t, f, end);
        f = end;
        end = turn_end(t, b, backward->end);
        take(t, b, end);
        b = end;
    }
    for (int between = forward->end; between < backward->first; between++)
        if (!is_for_backward(&t->from[between]))
            take(t, between, between + 1);
}

/* True when the stage gathers weights: those that one pass leaves to the next would have to be there before. */
static bool gathers_weights(const struct lowering *l)
{
    for (int c = 0; c < l->here.chunk_count; c++)
        for (int s = l->here.chunks[c].first; s < l->here.chunks[c].end; s++)
            if (l->plan->layers[l->graph->segments[s].layer].zero == 3)
                return true;
    return false;
}

void overlap_experts(struct lowering *l)
{
    struct stage_program *list = &l->program->stages[l->stage];
    const struct pass_made *made = l->visits.made;
    if (!l->graph->keeping.overlaps_experts || l->failed || gathers_weights(l))
        return;
    struct instr *before = arena_alloc(&l->growing, (size_t)list->instr_count, sizeof *before);
    if (!before) {
        lower_memory(l);
        return;
    }
    memcpy(before, list->instrs, (size_t)list->instr_count * sizeof *before);
    struct turns t = { before, list->instrs, 0 };
    int at = 0;
    for (int i = 0; i + 1 < l->visits.made_count; i++)
        if (clock_pairs(l->plan, &made[i].action, &made[i + 1].action)) {
            take(&t, at, made[i].first);
            take_both(&t, &made[i], &made[i + 1]);
            at = made[++i].end;
        }
    take(&t, at, list->instr_count);
    list->repeated_count = 0;
}
