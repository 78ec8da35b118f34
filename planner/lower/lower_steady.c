/* Asynchronous schedules: steps run into each other and weights have versions.
 *
 * The list of a stage is the opening, which only the first step of a run executes, and then what every step does: the
 * stage's own micro-batches as far as they are not begun yet, and the first forward passes of the next step's. What the
 * opening leaves behind is what each step leaves to the next, in the same buffers. Versions of weights are neighbouring
 * buffers: an update reads the newest and writes over the oldest, and between steps the executor renumbers them, so
 * nothing is copied. */
#include "planner/lower/lower_emit.h"
#include <string.h>

void steady_begin(struct lowering *l, const struct action *action)
{
    if (!schedules[l->plan->schedule]->asynchronous)
        return;
    l->steady.part = action->part;
    l->steady.version = schedule_version(l->plan, l->stage, action->micro, action->part);
    for (int value = 0; value < l->graph->value_count && action->part == STEP_AHEAD; value++)
        *lower_version_head(l, false, value, action->micro) = *lower_version_head(l, true, value, action->micro) = -1;
}

/* ---- what the next step finds ---- */
void steady_note(struct lowering *l, int buffer)
{
    if (l->steady.part == STEP_OPENING && lower_grow(l, &l->scratch, (void **)&l->steady.opened, l->steady.opened_count,
                                                     &l->steady.opened_capacity, sizeof *l->steady.opened))
        l->steady.opened[l->steady.opened_count++] = buffer;
}

int steady_reuse(struct lowering *l, const struct buffer *buffer)
{
    if (l->steady.part != STEP_AHEAD || l->failed)
        return -1;
    int made = l->steady.reopened < l->steady.opened_count ? l->steady.opened[l->steady.reopened++] : -1;
    if (made >= 0 && buffer_at(l, made)->id == buffer->id && buffer_at(l, made)->micro == buffer->micro)
        return made;
    l->failed = true;
    fail_kind(l->err, ERROR_BUG, "stage %d: what is begun for the next step is not what the opening began", l->stage);
    return -1;
}

/* ---- messages ---- */
int steady_number(const struct lowering *l, int micro)
{
    return l->steady.part == STEP_AHEAD ? l->micro_count + micro : micro;
}

/* Gives the micro-batch whose input comes ahead of its step: the stage before is one forward pass further ahead. */
static int first_own(const struct lowering *l)
{
    struct schedule_place place = schedule_place_of(l->plan, l->stage);
    return place.ahead - 1;
}

void steady_receive(struct lowering *l, enum step_part part)
{
    int micro = first_own(l);
    struct action action = { .kind = ACTION_FORWARD, .micro = micro, .part = part };
    if (l->crossings.entering_count == 0 || l->failed)
        return;
    steady_begin(l, &action);
    if (part == STEP_OPENING)
        l->steady.ahead_of = arena_alloc(&l->scratch, (size_t)l->crossings.entering_count, sizeof *l->steady.ahead_of);
    if (!l->steady.ahead_of) {
        lower_memory(l);
        return;
    }
    for (int i = 0; i < l->crossings.entering_count && !l->failed; i++)
        l->steady.ahead_of[i] = lower_arrived(l, false, i, micro);
}

int steady_received(const struct lowering *l, int index, int micro)
{
    bool ahead = schedules[l->plan->schedule]->asynchronous && l->steady.part == STEP_OWN;
    return ahead && micro == first_own(l) ? l->steady.ahead_of[index] : -1;
}
