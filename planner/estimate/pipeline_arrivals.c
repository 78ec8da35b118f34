/* The messages of a walk. A stage has one lane out and one in, and a message takes both. What comes in comes in the
 * order in which its receives are posted: those of an action when the one before it begins, or early, by a clock
 * (planner/lower/lower_arrivals.c). */
#include "base/num.h"
#include "planner/program/clock.h"
#include "planner/estimate/pipeline_parts.h"
#include <stdlib.h>

/* Forward from those who make what the piece reads, backward from those who read what it makes; first replicas. */
static const int *senders_of(const struct piece *piece, bool backward, int *count)
{
    *count = piece->other_count[!backward];
    return piece->others[!backward];
}

/* A pass sends what it makes first. */
static int order_of(const struct pipeline *p, int from, int to)
{
    int pair = pipeline_pair(p, from, to);
    return from < to ? p->made[pair] : -p->read[pair];
}

/* What an action reads from other stages; `out` NULL: counts only. */
static int list_read(const struct pipeline *p, int stage, int at, struct arrival *out)
{
    const struct action *action = &p->stages[stage].actions[at];
    int number = pipeline_piece_of(p, stage, action), others, count = 0;
    bool backward = action->kind != ACTION_FORWARD;
    const int *senders = senders_of(&p->pieces[number], backward, &others);
    int micro = action->micro * p->turns[stage] + p->plan->stages[stage].turn;
    for (int k = 0; k < others && action->kind != ACTION_BACKWARD_WEIGHT; k++) {
        int i = backward ? k : others - 1 - k; /* in the order of layers */
        int from = senders[i] + micro % pipeline_replicas(p, senders[i]);
        if (pipeline_stage_of(p, from) == stage)
            continue;
        if (out)
            out[count] = (struct arrival){ .message = { from, number, action->micro, backward, false },
                                           .action = at,
                                           .order = order_of(p, senders[i], pipeline_first_replica(p, number)) };
        count++;
    }
    return count;
}

/* By time and sender, then as it hands them on: it is one pass that sends at one time. */
static int compare_arrivals(const void *left, const void *right)
{
    const struct arrival *a = left, *b = right;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    if (a->stage != b->stage)
        return a->stage < b->stage ? -1 : 1;
    if (a->order != b->order)
        return a->order < b->order ? -1 : 1;
    int to = (a->message.to > b->message.to) - (a->message.to < b->message.to);
    return a->message.backward ? -to : to;
}

/* walked: what the clock is of. */
static void sort_by_clock(const struct pipeline *p, int stage, const struct clock *clock, const struct plan *walked)
{
    struct stage_walk *s = &p->stages[stage];
    for (int i = 0; i < s->arrival_count; i++) {
        struct arrival *arrival = &s->arrivals[i];
        const struct message *m = &arrival->message;
        int micro = m->micro * p->turns[stage] + p->plan->stages[stage].turn;
        arrival->stage = pipeline_stage_of(p, m->from);
        arrival->time = clock_end(clock, walked, arrival->stage, m->from / walked->stage_count, micro, m->backward);
    }
    qsort(s->arrivals, (size_t)s->arrival_count, sizeof *s->arrivals, compare_arrivals);
    for (int i = 0, action = 0; i < s->arrival_count; i++) {
        while (action < clock->stages[stage].count && clock->stages[stage].end[action] <= s->arrivals[i].time)
            action++;
        s->arrivals[i].action = action;
    }
}

static bool run_clock(struct clock *clock, const struct plan *walked, const struct chain *chain, struct arena *arena,
                      struct error *err)
{
    const int *work = NULL;
    if (walked->clock == CLOCK_WORK && !(work = clock_work(chain->graph, walked->order, arena)))
        return false;
    return clock_run(clock, walked, work, arena, err);
}

bool pipeline_list_arrivals(struct pipeline *p, const struct chain *chain, struct arena *arena, struct error *err)
{
    struct clock clock = { 0 };
    struct plan walked = *p->plan;
    walked.micro_batch_count = p->micro_batches;
    p->early = posts_early(p->plan);
    if (p->early && !run_clock(&clock, &walked, chain, arena, err))
        return false;
    for (int k = 0; k < p->plan->stage_count; k++) {
        struct stage_walk *s = &p->stages[k];
        for (int at = 0; at < s->action_count; at++)
            s->arrival_count += list_read(p, k, at, NULL);
        s->arrivals = arena_alloc(arena, (size_t)s->arrival_count, sizeof *s->arrivals);
        if (!s->arrivals)
            return false;
        for (int at = 0, count = 0; at < s->action_count; at++)
            count += list_read(p, k, at, s->arrivals + count);
        if (p->early)
            sort_by_clock(p, k, &clock, &walked);
    }
    return true;
}

static bool same_message(const struct message *a, const struct message *b)
{
    return a->from == b->from && a->to == b->to && a->micro == b->micro && a->backward == b->backward;
}

/* When a receive that is posted before the action can begin: beside the action before it, of which the weights'
 * gradients may be an action of their own. */
static int64_t posted_ns(const struct pipeline *p, const struct stage_walk *s, int action)
{
    int before = (int)min_i64(action, s->next) - (schedules[p->plan->schedule]->splits ? 3 : 2);
    return before >= 0 ? s->end_ns[before] : 0;
}

static void arrive(struct pipeline *p, struct stage_walk *from, struct sending *sending, struct arrival *arrival)
{
    struct stage_walk *to = &p->stages[pipeline_stage_of(p, arrival->message.to)];
    const struct message *m = &arrival->message;
    struct piece *piece = &p->pieces[m->to];
    int64_t start = max_i64(max_i64(sending->ready_ns, posted_ns(p, to, arrival->action)),
                            max_i64(from->sending_ns, to->receiving_ns));
    from->sending_ns = to->receiving_ns = start + sending->ns;
    *pipeline_arrived(piece, pipeline_first_replica(p, m->from), m->micro, m->backward) = from->sending_ns;
    piece->missing[m->backward][m->micro]--;
    sending->message.done = arrival->message.done = true;
    while (from->sent < from->queued && from->queue[from->sent].message.done)
        from->sent++;
    while (to->received < to->arrival_count && to->arrivals[to->received].message.done)
        to->received++;
}

/* Whether it is what its receiver would take next. */
static bool is_awaited(const struct pipeline *p, const struct message *m)
{
    const struct stage_walk *to = &p->stages[pipeline_stage_of(p, m->to)];
    const struct arrival *next = &to->arrivals[to->received];
    return to->received < to->arrival_count && to->next >= next->action && same_message(&next->message, m);
}

/* The message at the head of the sender's lane. Where values skip stages sends stand where they are read: others that
 * nobody awaits yet stand behind it. NULL: it is not there. */
static struct sending *find_sending(const struct pipeline *p, const struct stage_walk *from, const struct message *m)
{
    bool ordered = p->skips && !p->early;
    for (int i = from->sent; i < from->queued; i++) {
        struct sending *sending = &from->queue[i];
        if (sending->message.done)
            continue;
        if (same_message(&sending->message, m))
            return sending;
        if (!ordered || is_awaited(p, &sending->message))
            return NULL;
    }
    return NULL;
}

bool pipeline_receive(struct pipeline *p, int stage)
{
    struct stage_walk *s = &p->stages[stage];
    bool moved = false;
    while (s->received < s->arrival_count && s->next >= s->arrivals[s->received].action) {
        struct arrival *arrival = &s->arrivals[s->received];
        struct stage_walk *from = &p->stages[pipeline_stage_of(p, arrival->message.from)];
        struct sending *sending = find_sending(p, from, &arrival->message);
        if (!sending)
            return moved;
        arrive(p, from, sending, arrival);
        moved = true;
    }
    return moved;
}

bool pipeline_send_anyhow(struct pipeline *p, int stage)
{
    struct stage_walk *from = &p->stages[stage];
    if (from->sent == from->queued)
        return false;
    struct sending *sending = &from->queue[from->sent];
    struct stage_walk *to = &p->stages[pipeline_stage_of(p, sending->message.to)];
    for (int i = to->received; i < to->arrival_count; i++)
        if (!to->arrivals[i].message.done && same_message(&to->arrivals[i].message, &sending->message)) {
            arrive(p, from, sending, &to->arrivals[i]);
            return true;
        }
    return false;
}
