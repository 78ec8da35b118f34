#include "base/num.h"
#include "planner/search/pipeline_parts.h"
#include "planner/search/pipeline_prices.h"
#include <stdlib.h>
#include <string.h>

enum { HELD_USES = 2 };

/* The piece's layers, by place. */
static const struct layer_price **prices_of(const struct pipeline *p, int piece)
{
    return p->price[piece / pipeline_copied(p)];
}

static int ring(int64_t use)
{
    return (int)(use % (MAX_AHEAD + 1));
}

static void issue_reduction(struct stage_clock *s, int64_t use)
{
    struct pending *p = &s->pending[ring(use)];
    if (p->reduce_ns == 0)
        return;
    s->lane_ns = p->end_ns = max_i64(max_i64(s->lane_ns, p->first_ns) + p->reduce_ns, p->last_ns + p->tail_ns);
    p->reduce_ns = 0;
}

/* A layer's gradients keep their bytes until the layer after the next (planner/program/lives.h), which waits for their
 * reduction. */
static void wait_for_bytes(struct stage_clock *s)
{
    int64_t use = s->uses - HELD_USES;
    if (use < 0 || !s->pending[ring(use)].holds)
        return;
    issue_reduction(s, use);
    s->compute_ns = max_i64(s->compute_ns, s->pending[ring(use)].end_ns);
}

/* What the lane moves in a pass, and what the path and the lane lose by that. */
static int64_t lost_ns(int64_t moved_ns, int64_t loss_ppm)
{
    return (int64_t)((double)moved_ns * (double)loss_ppm * 1e-6);
}

/* One layer in one direction: its gathers were issued when the use `ahead` + 1 before it had ended, after that use's
 * reduction; rest_ns of it comes after the last of them. Returns when it begins. */
static int64_t run_use(struct pipeline *p, struct stage_clock *s, int64_t compute_ns, int64_t gather_ns,
                       int64_t rest_ns)
{
    int64_t oldest = s->uses - p->ahead - 1, gathered_ns = 0;
    if (oldest >= 0)
        issue_reduction(s, oldest);
    if (gather_ns > 0) {
        int64_t room = oldest >= 0 ? s->use_end[ring(oldest)] : 0;
        gathered_ns = s->lane_ns = max_i64(s->lane_ns, room) + gather_ns;
    }
    wait_for_bytes(s);
    s->compute_ns = max_i64(s->compute_ns + compute_ns, gathered_ns + rest_ns);
    s->use_end[ring(s->uses)] = s->compute_ns;
    s->pending[ring(s->uses)] = (struct pending){ 0 };
    s->uses++;
    return s->compute_ns - compute_ns;
}

static int64_t send(int64_t *lane_ns, int64_t ready_ns, int64_t ns)
{
    *lane_ns = max_i64(*lane_ns, ready_ns) + ns;
    return *lane_ns;
}

/* What one piece has made for another, by a message unless both are on one stage; of replicas `to` is the first. */
static void hand_on(struct pipeline *p, int from, int to, int micro, bool backward)
{
    int own = pipeline_first_replica(p, from);
    struct stage_clock *s = &p->stages[pipeline_stage_of(p, from)];
    int turns = pipeline_replicas(p, to), own_micro = micro / turns;
    struct piece *piece = &p->pieces[to + micro % turns];
    int64_t at = s->compute_ns;
    bool sends = pipeline_stage_of(p, from) != pipeline_stage_of(p, to);
    if (p->meets && sends) {
        s->queue[s->queued++] = (struct message){ from, to, micro, backward, at };
        return;
    }
    if (sends)
        at = send(backward ? &s->send_backward_ns : &s->send_forward_ns, at, p->message_ns[own * p->piece_count + to]);
    piece->arrived[backward][own_micro] = max_i64(piece->arrived[backward][own_micro], at);
    piece->missing[backward][own_micro]--;
}

static void run_forward(struct pipeline *p, int number, int micro)
{
    struct stage_clock *s = &p->stages[pipeline_stage_of(p, number)];
    struct piece *piece = &p->pieces[number];
    s->compute_ns = max_i64(s->compute_ns, piece->arrived[0][micro / pipeline_replicas(p, number)]);
    for (int l = piece->layers.first; l < piece->layers.first + piece->layers.count; l++) {
        const struct layer_price *price = prices_of(p, number)[l];
        int64_t gather_ns = price->gather_forward_ns + (piece->gathered ? 0 : price->gather_once_ns);
        run_use(p, s, price->forward_ns + lost_ns(gather_ns, price->path_loss_forward_ppm),
                gather_ns + lost_ns(gather_ns, price->lane_loss_forward_ppm), price->rest_forward_ns);
    }
    piece->gathered = true;
    for (int i = 0; i < piece->other_count[0]; i++)
        hand_on(p, number, piece->others[0][i], micro, false);
}

/* How much of the layer's backward pass is left for its phase: the weights' gradients are computed last, or apart. */
static int64_t phase_ns(int64_t whole_ns, int64_t weight_ns, enum action_kind kind)
{
    weight_ns = min_i64(weight_ns, whole_ns);
    return kind == ACTION_BACKWARD ? whole_ns : kind == ACTION_BACKWARD_WEIGHT ? weight_ns : whole_ns - weight_ns;
}

/* One phase of the pass, or both: gathers belong to the inputs' gradients, reductions to the weights'. */
static void run_backward_layers(struct pipeline *p, int number, enum action_kind kind, bool last)
{
    struct stage_clock *s = &p->stages[pipeline_stage_of(p, number)];
    const struct layer_range *layers = &p->pieces[number].layers;
    bool inputs = kind != ACTION_BACKWARD_WEIGHT, weights = kind != ACTION_BACKWARD_INPUT;
    for (int l = layers->first + layers->count - 1; l >= layers->first; l--) {
        const struct layer_price *price = prices_of(p, number)[l];
        int64_t gather_ns = inputs ? price->gather_backward_ns : 0, reduce_ns = weights ? price->reduce_ns : 0,
                path_ppm = price->path_loss_backward_ppm, lane_ppm = price->lane_loss_backward_ppm;
        int64_t alone_ns = phase_ns(price->backward_ns - price->wait_ns, price->least.weight_ns, kind) +
                           lost_ns(gather_ns + reduce_ns, path_ppm);
        int64_t begin =
            run_use(p, s, alone_ns, gather_ns + lost_ns(gather_ns, lane_ppm), inputs ? price->rest_backward_ns : 0);
        s->pending[ring(s->uses - 1)] =
            (struct pending){ .first_ns = begin + (inputs ? min_i64(price->gradient_ns, alone_ns) : 0),
                              .last_ns = s->compute_ns,
                              .reduce_ns =
                                  reduce_ns + lost_ns(reduce_ns, lane_ppm) + (last ? price->reduce_last_ns : 0),
                              .tail_ns = price->reduce_tail_ns,
                              .holds = reduce_ns > 0 };
    }
}

static void run_backward(struct pipeline *p, int number, int micro, enum action_kind kind)
{
    struct stage_clock *s = &p->stages[pipeline_stage_of(p, number)];
    struct piece *piece = &p->pieces[number];
    bool last = kind != ACTION_BACKWARD_INPUT && --piece->backwards_left == 0;
    if (kind != ACTION_BACKWARD_WEIGHT)
        s->compute_ns = max_i64(s->compute_ns, piece->arrived[1][micro / pipeline_replicas(p, number)]);
    run_backward_layers(p, number, kind, last);
    for (int i = 0; i < piece->other_count[1] && kind != ACTION_BACKWARD_WEIGHT; i++)
        hand_on(p, number, piece->others[1][i], micro, true);
}

static int piece_of(const struct pipeline *p, int stage, const struct action *action)
{
    return schedule_piece(schedules[p->plan->schedule], p->plan->stage_count, stage, action->chunk);
}

/* Whether the stage's next action reads the message. */
static bool is_awaited(const struct pipeline *p, int stage, const struct message *m)
{
    const struct stage_clock *to = &p->stages[stage];
    if (to->next == to->action_count)
        return false;
    const struct action *action = &to->actions[to->next];
    bool forward = action->kind == ACTION_FORWARD, weight = action->kind == ACTION_BACKWARD_WEIGHT;
    return !weight && forward != m->backward && action->micro == m->micro && piece_of(p, stage, action) == m->to;
}

/* A stage has one lane out, which keeps its order, and one in: it receives what an action reads beside the one before
 * (planner/program/lower_arrivals.c, lives.h). anyhow: one message whether it is awaited or not. */
static bool deliver(struct pipeline *p, int stage, bool anyhow)
{
    struct stage_clock *s = &p->stages[stage];
    bool moved = false;
    for (; s->sent < s->queued && !(anyhow && moved); s->sent++, moved = true) {
        const struct message *m = &s->queue[s->sent];
        struct stage_clock *to = &p->stages[pipeline_stage_of(p, m->to)];
        if (!anyhow && !is_awaited(p, pipeline_stage_of(p, m->to), m))
            break;
        int64_t start = max_i64(max_i64(m->ready_ns, to->before_ns), max_i64(s->sending_ns, to->receiving_ns));
        s->sending_ns = to->receiving_ns = start + p->message_ns[m->from * p->piece_count + m->to];
        p->pieces[m->to].arrived[m->backward][m->micro] = s->sending_ns;
        p->pieces[m->to].missing[m->backward][m->micro]--;
    }
    return moved;
}

/* Runs a stage's actions as far as what they need has arrived; false when nothing moved. */
static bool run_stage(struct pipeline *p, int stage)
{
    struct stage_clock *s = &p->stages[stage];
    bool moved = false;
    for (; s->next < s->action_count; s->next++, moved = true) {
        const struct action *action = &s->actions[s->next];
        int number = piece_of(p, stage, action);
        int micro = action->micro * p->turns[stage] + p->plan->stages[stage].turn;
        bool backward = action->kind != ACTION_FORWARD;
        if (p->pieces[number].missing[backward][action->micro] > 0)
            break;
        s->before_ns = s->compute_ns;
        if (backward)
            run_backward(p, number, micro, action->kind);
        else
            run_forward(p, number, micro);
    }
    return moved;
}

static int64_t stage_end(struct pipeline *p, int stage)
{
    struct stage_clock *s = &p->stages[stage];
    for (int64_t use = max_i64(0, s->uses - p->ahead - 1); use < s->uses; use++)
        issue_reduction(s, use);
    return max_i64(s->compute_ns, s->lane_ns);
}

/* The stage's part of the norm, or else what comes after it. */
static int64_t step_part_ns(const struct pipeline *p, int stage, bool norm)
{
    int64_t ns = 0;
    for (int l = 0; l < p->plan->layer_count; l++)
        if (stage_holds(p->plan, stage, l)) {
            const struct layer_price *price = p->price[stage_of_copy(p->plan, l, 0) != stage][l];
            ns += norm ? price->norm_ns : price->step_ns - price->norm_ns;
        }
    return ns;
}

/* The step's end: with clipping no stage updates before all have exchanged their parts of the norm. */
static int64_t updated_ns(const struct pipeline *p, const int64_t *end_ns)
{
    int64_t known_ns = 0, last_ns = 0;
    for (int k = 0; k < p->plan->stage_count && p->plan->clip_norm > 0; k++)
        known_ns = max_i64(known_ns, end_ns[k] + step_part_ns(p, k, true) + p->table->norm_exchange_ns);
    for (int k = 0; k < p->plan->stage_count; k++)
        last_ns = max_i64(last_ns, max_i64(known_ns, end_ns[k]) + step_part_ns(p, k, false));
    return last_ns;
}

static bool same_mesh(const struct plan *plan, int stage, int other)
{
    return !memcmp(plan->stages[stage].atom, plan->stages[other].atom, sizeof plan->stages[stage].atom);
}

/* Of the layer's gradient that other stages have too, the most that a rank of any stage holds: all of it where a
 * strategy shards nothing. */
static int64_t whole_tied_bytes(const struct pipeline *p, const struct chain *chain, int layer)
{
    int64_t most = 0;
    for (int stage = 0; stage < p->plan->stage_count; stage++) {
        const struct price_table *own = price_of_plan_stage(p->table, p->plan, stage);
        for (int i = 0; i < own->strategy_count; i++)
            most = max_i64(most, price_at(own, chain->class_of[layer], i)->tied_gradient_bytes);
    }
    return most;
}

/* Two stages that hold a weight of the same name exchange its gradient, either way at once, whole where it is not cut
 * into the same shards. */
static void exchange_tied(const struct pipeline *p, const struct chain *chain, int64_t *end_ns)
{
    int holder[2] = { -1, -1 };
    int64_t bytes = 0, whole_bytes = 0;
    for (int l = 0; l < p->plan->layer_count && chain->tied_first >= 0; l++) {
        int layer = plan_layer_at(p->plan, l), which = layer == chain->tied_second;
        if (layer != chain->tied_first && !which)
            continue;
        holder[which] = stage_of_layer(p->plan, l);
        bytes = max_i64(bytes, p->price[0][l]->tied_gradient_bytes);
        whole_bytes = max_i64(whole_bytes, whole_tied_bytes(p, chain, layer));
    }
    if (holder[0] >= 0 && holder[1] >= 0 && !same_mesh(p->plan, holder[0], holder[1]))
        bytes = whole_bytes;
    if (!p->facts || bytes == 0 || holder[0] == holder[1])
        return;
    int64_t ready_ns = max_i64(end_ns[holder[0]], end_ns[holder[1]]);
    end_ns[holder[0]] = end_ns[holder[1]] =
        ready_ns + cost_between_stages(p->facts, p->plan, holder[0], holder[1], bytes).ns;
}

static bool step_end(struct pipeline *p, const struct chain *chain, int64_t *out, struct arena *arena)
{
    int stages = p->plan->stage_count;
    int64_t *end_ns = arena_alloc(arena, (size_t)stages, sizeof *end_ns);
    if (!end_ns)
        return false;
    for (int k = 0; k < stages; k++)
        end_ns[k] = stage_end(p, k);
    exchange_tied(p, chain, end_ns);
    *out = updated_ns(p, end_ns);
    return true;
}

/* Steps that run into each other neither fill nor drain: the stage with the most to do sets the pace, be it work or
 * messages of one kind. */
static int64_t steady_step_ns(const struct pipeline *p)
{
    int64_t longest = 0;
    for (int k = 0; k < p->piece_count; k++) {
        int64_t each = 0, once = 0, sends = 0;
        for (int l = p->pieces[k].layers.first; l < p->pieces[k].layers.first + p->pieces[k].layers.count; l++) {
            const struct layer_price *price = prices_of(p, k)[l];
            each += price->forward_ns + price->backward_ns;
            once += price->reduce_last_ns + price->step_ns;
        }
        if (k + 1 < p->piece_count)
            sends = max_i64(p->message_ns[k * p->piece_count + k + 1], p->message_ns[(k + 1) * p->piece_count + k]);
        longest = max_i64(longest, p->micro_batches * max_i64(each, sends) + once);
    }
    return longest + p->table->norm_exchange_ns;
}

bool pipeline_step_ns(int64_t *out, const struct plan *plan, const struct chain *chain, const struct price_table *table,
                      const struct facts *facts, int micro_batches, struct error *err)
{
    struct arena arena = { 0 };
    struct pipeline p = { .plan = plan,
                          .table = table,
                          .facts = facts,
                          .ahead = (int)min_i64(plan->prefetch, MAX_AHEAD),
                          .micro_batches = micro_batches };
    bool good = pipeline_prices(&p.price[0], plan, chain, table, 0, &arena, err);
    p.price[1] = p.price[0];
    if (good && plan_copies(plan) > 1)
        good = pipeline_prices(&p.price[1], plan, chain, table, 1, &arena, err);
    if (good && !pipeline_open(&p, chain, &arena))
        good = fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
    if (good && schedules[plan->schedule]->asynchronous) {
        *out = steady_step_ns(&p);
        arena_free(&arena);
        return true;
    }
    for (bool moved = true; good && moved;) {
        moved = false;
        for (int k = 0; k < plan->stage_count; k++)
            moved = run_stage(&p, k) || moved;
        for (int k = 0; p.meets && k < plan->stage_count; k++)
            moved = deliver(&p, k, false) || moved;
        for (int k = 0; p.meets && !moved && k < plan->stage_count; k++)
            moved = deliver(&p, k, true); /* two stages wait for each other: lowering has another order then */
    }
    for (int k = 0; good && k < plan->stage_count; k++)
        if (p.stages[k].next < p.stages[k].action_count)
            good = fail(err, "search: schedule %s stalls at stage %d", schedules[plan->schedule]->name, k);
    if (good && !step_end(&p, chain, out, &arena))
        good = fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
    arena_free(&arena);
    return good;
}
