#include "base/num.h"
#include "planner/estimate/effort.h"
#include "planner/estimate/estimate_parts.h"
#include "planner/estimate/pipeline_parts.h"
#include "planner/estimate/pipeline_prices.h"
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

/* How much of the layer's backward pass is left for its phase: the weights' gradients are computed last, or apart. */
static int64_t phase_ns(const struct layer_price *price, enum action_kind kind)
{
    int64_t whole_ns = price->backward_ns - price->wait_ns, weight_ns = min_i64(price->least_weight_ns, whole_ns);
    return kind == ACTION_BACKWARD ? whole_ns : kind == ACTION_BACKWARD_WEIGHT ? weight_ns : whole_ns - weight_ns;
}

static void issue_reduction(struct stage_walk *s, int64_t use)
{
    struct pending *p = &s->pending[ring(use)];
    if (p->reduce_ns == 0)
        return;
    s->lane_ns = p->end_ns = max_i64(max_i64(s->lane_ns, p->first_ns) + p->reduce_ns, p->last_ns + p->tail_ns);
    p->reduce_ns = 0;
}

/* A layer's gradients keep their bytes until the layer after the next (planner/layout/lives.h), which waits for their
 * reduction. */
static void wait_for_bytes(struct stage_walk *s)
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
static int64_t run_use(struct pipeline *p, struct stage_walk *s, int64_t compute_ns, int64_t gather_ns, int64_t rest_ns)
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

/* What one piece has made for another, by a message unless both are on one stage; of replicas `to` is the first. */
static void hand_on(struct pipeline *p, int from, int to, int micro, bool backward)
{
    struct stage_walk *s = &p->stages[pipeline_stage_of(p, from)];
    int turns = pipeline_replicas(p, to), own_micro = micro / turns, number = to + micro % turns;
    struct piece *piece = &p->pieces[number];
    if (pipeline_stage_of(p, from) != pipeline_stage_of(p, to)) {
        int64_t ns = p->message_ns[pipeline_first_replica(p, from) * p->piece_count + to];
        s->queue[s->queued++] = (struct sending){ { from, number, own_micro, backward, false }, s->compute_ns, ns };
        return;
    }
    *pipeline_arrived(piece, from, own_micro, backward) = s->compute_ns;
    piece->missing[backward][own_micro]--;
}

/* A layer waits for what it is the first to read, backward for the gradients of what it made. */
static void wait_for_others(struct pipeline *p, int number, int place, int micro, bool backward)
{
    const struct piece *piece = &p->pieces[number];
    struct stage_walk *s = &p->stages[pipeline_stage_of(p, number)];
    int own = pipeline_first_replica(p, number);
    for (int i = 0; i < piece->other_count[!backward]; i++) {
        int pair = pipeline_pair(p, piece->others[!backward][i], own);
        if ((backward ? p->made[pair] : p->read[pair]) == place)
            s->compute_ns = max_i64(s->compute_ns, piece->arrived[backward][i * piece->own_micros + micro]);
    }
}

/* What the layer was the last to make for another piece, or to add to its gradients. */
static void hand_on_made(struct pipeline *p, int number, int place, int micro, bool backward)
{
    const struct piece *piece = &p->pieces[number];
    int own = pipeline_first_replica(p, number);
    for (int i = 0; i < piece->other_count[backward]; i++) {
        int pair = pipeline_pair(p, piece->others[backward][i], own);
        if ((backward ? p->read[pair] : p->made[pair]) == place)
            hand_on(p, number, piece->others[backward][i], micro, backward);
    }
}

/* Whether a pass may take the layer and the one after it in its direction as one: between them nothing comes, goes or
 * is exchanged. */
static bool is_joined(const struct pipeline *p, int from, int to, bool backward)
{
    return backward ? !p->reads[from] && !p->makes[to] : !p->makes[from] && !p->reads[to];
}

/* Layers whose compute is all that counts, as many as follow each other from `place` on, up to the piece's end; 0: it
 * must be looked at alone. Its uses of the lane, and those shortly before, would have to be issued between them. */
static int run_length(const struct pipeline *p, const struct stage_walk *s, const struct piece *piece, int place,
                      bool backward)
{
    int by = backward ? -1 : 1, last = backward ? piece->layers.first : piece->layers.first + piece->layers.count - 1;
    int count = 1;
    if (s->gathers || s->uses - s->last_exchange <= max_i64(p->ahead + 1, HELD_USES))
        return 0;
    for (; place != last && is_joined(p, place, place + by, backward); place += by)
        count++;
    return count;
}

/* Such layers at once. */
static void run_plainly(struct stage_walk *s, int64_t compute_ns, int count)
{
    s->compute_ns += compute_ns;
    s->uses += count;
    for (int i = 1; i <= HELD_USES; i++)
        s->pending[ring(s->uses + MAX_AHEAD + 1 - i)].holds = false;
}

static void run_forward(struct pipeline *p, int number, int micro)
{
    struct stage_walk *s = &p->stages[pipeline_stage_of(p, number)];
    struct piece *piece = &p->pieces[number];
    const int64_t *work_ns = p->work_ns[number / pipeline_copied(p)][ACTION_FORWARD];
    for (int l = piece->layers.first, end = l + piece->layers.count; l < end;) {
        int count = run_length(p, s, piece, l, false);
        if (p->reads[l])
            wait_for_others(p, number, l, micro / pipeline_replicas(p, number), false);
        if (count > 0) {
            run_plainly(s, work_ns[l + count] - work_ns[l], count);
        } else {
            const struct layer_price *price = prices_of(p, number)[l];
            int64_t gather_ns = price->gather_forward_ns + (piece->gathered ? 0 : price->gather_once_ns);
            run_use(p, s, price->forward_ns + lost_ns(gather_ns, price->path_loss_forward_ppm),
                    gather_ns + lost_ns(gather_ns, price->lane_loss_forward_ppm), price->rest_forward_ns);
            count = 1;
        }
        l += count;
        if (p->makes[l - 1])
            hand_on_made(p, number, l - 1, micro, false);
    }
    piece->gathered = true;
}

/* One layer's phase of the pass, or both: gathers belong to the inputs' gradients, reductions to the weights'. */
static void run_backward_layer(struct pipeline *p, struct stage_walk *s, const struct layer_price *price,
                               enum action_kind kind, bool last)
{
    bool inputs = kind != ACTION_BACKWARD_WEIGHT, weights = kind != ACTION_BACKWARD_INPUT;
    int64_t gather_ns = inputs ? price->gather_backward_ns : 0, reduce_ns = weights ? price->reduce_ns : 0,
            path_ppm = price->path_loss_backward_ppm, lane_ppm = price->lane_loss_backward_ppm;
    int64_t alone_ns = phase_ns(price, kind) + lost_ns(gather_ns + reduce_ns, path_ppm);
    int64_t begin =
        run_use(p, s, alone_ns, gather_ns + lost_ns(gather_ns, lane_ppm), inputs ? price->rest_backward_ns : 0);
    struct pending *pending = &s->pending[ring(s->uses - 1)];
    *pending =
        (struct pending){ .first_ns = begin + (inputs ? min_i64(price->gradient_ns, alone_ns) : 0),
                          .last_ns = s->compute_ns,
                          .reduce_ns = reduce_ns + lost_ns(reduce_ns, lane_ppm) + (last ? price->reduce_last_ns : 0),
                          .tail_ns = price->reduce_tail_ns,
                          .holds = reduce_ns > 0 };
    if (pending->reduce_ns > 0 || pending->holds)
        s->last_exchange = s->uses - 1;
}

static void run_backward_layers(struct pipeline *p, int number, int micro, enum action_kind kind, bool last)
{
    struct stage_walk *s = &p->stages[pipeline_stage_of(p, number)];
    const struct piece *piece = &p->pieces[number];
    const int64_t *work_ns = p->work_ns[number / pipeline_copied(p)][kind];
    bool inputs = kind != ACTION_BACKWARD_WEIGHT, plain = kind == ACTION_BACKWARD_INPUT || !(last || piece->reduces);
    for (int l = piece->layers.first + piece->layers.count - 1; l >= piece->layers.first;) {
        int count = plain ? run_length(p, s, piece, l, true) : 0;
        if (inputs && p->makes[l])
            wait_for_others(p, number, l, micro / pipeline_replicas(p, number), true);
        if (count > 0) {
            run_plainly(s, work_ns[l + 1] - work_ns[l + 1 - count], count);
        } else {
            run_backward_layer(p, s, prices_of(p, number)[l], kind, last);
            count = 1;
        }
        l -= count;
        if (inputs && p->reads[l + 1])
            hand_on_made(p, number, l + 1, micro, true);
    }
}

/* What the pass computes. */
static int64_t action_work_ns(const struct pipeline *p, int number, enum action_kind kind)
{
    const int64_t *work_ns = p->work_ns[number / pipeline_copied(p)][kind];
    struct layer_range layers = p->pieces[number].layers;
    return work_ns[layers.first + layers.count] - work_ns[layers.first];
}

static void run_backward(struct pipeline *p, int number, int micro, enum action_kind kind)
{
    struct piece *piece = &p->pieces[number];
    bool last = kind != ACTION_BACKWARD_INPUT && --piece->backwards_left == 0;
    run_backward_layers(p, number, micro, kind, last);
}

/* Runs a stage's actions as far as what they need has arrived; false when nothing moved. */
static bool run_stage(struct pipeline *p, int stage)
{
    struct stage_walk *s = &p->stages[stage];
    bool moved = false;
    for (; s->next < s->action_count; s->next++, moved = true) {
        const struct action *action = &s->actions[s->next];
        int number = pipeline_piece_of(p, stage, action);
        int micro = action->micro * p->turns[stage] + p->plan->stages[stage].turn;
        bool backward = action->kind != ACTION_FORWARD;
        if (p->pieces[number].missing[backward][action->micro] > 0)
            break;
        if (backward)
            run_backward(p, number, micro, action->kind);
        else
            run_forward(p, number, micro);
        s->end_ns[s->next] = s->compute_ns;
        s->left_ns -= action_work_ns(p, number, action->kind);
        if (s->compute_ns + s->left_ns >= p->below_ns) {
            p->too_long_ns = s->compute_ns + s->left_ns;
            return false;
        }
    }
    return moved;
}

static int64_t stage_end(struct pipeline *p, int stage)
{
    struct stage_walk *s = &p->stages[stage];
    for (int64_t use = max_i64(0, s->uses - p->ahead - 1); use < s->uses; use++)
        issue_reduction(s, use);
    return max_i64(s->compute_ns, s->lane_ns);
}

/* The stage's part of the norm, or else what comes after it. */
static int64_t step_part_ns(const struct pipeline *p, int stage, bool norm)
{
    int64_t ns = 0;
    for (int chunk = 0; chunk < p->plan->chunk_count; chunk++) {
        int number = schedule_piece(schedules[p->plan->schedule], p->plan->stage_count, stage, chunk);
        const struct layer_range *layers = &p->pieces[number].layers;
        for (int l = layers->first; l < layers->first + layers->count; l++) {
            const struct layer_price *price = prices_of(p, number)[l];
            ns += norm ? price->norm_ns : price->step_ns - price->norm_ns;
        }
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

static bool step_end(struct pipeline *p, const struct chain *chain, int64_t *out, struct arena *arena)
{
    int stages = p->plan->stage_count;
    int64_t *end_ns = arena_alloc(arena, (size_t)stages, sizeof *end_ns);
    if (!end_ns)
        return false;
    for (int k = 0; k < stages; k++)
        end_ns[k] = stage_end(p, k);
    pipeline_exchange(p, chain, end_ns);
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

/* What passes compute, and which stages exchange what in them. */
static bool list_work(struct pipeline *p, struct arena *arena)
{
    int layers = p->plan->layer_count;
    for (int copy = 0; copy < plan_copies(p->plan); copy++)
        for (int kind = 0; kind < PASS_KINDS; kind++) {
            int64_t *work_ns = arena_alloc(arena, (size_t)layers + 1, sizeof *work_ns);
            if (!work_ns)
                return false;
            for (int l = 0; l < layers; l++) {
                const struct layer_price *price = p->price[copy][l];
                work_ns[l + 1] = work_ns[l] + (kind == ACTION_FORWARD ? price->forward_ns : phase_ns(price, kind));
            }
            p->work_ns[copy][kind] = work_ns;
        }
    for (int k = 0; k < p->piece_count; k++) {
        struct piece *piece = &p->pieces[k];
        struct stage_walk *s = &p->stages[pipeline_stage_of(p, k)];
        s->last_exchange = -MAX_AHEAD - 1 - HELD_USES;
        for (int l = piece->layers.first; l < piece->layers.first + piece->layers.count; l++) {
            const struct layer_price *price = prices_of(p, k)[l];
            s->gathers |= price->gather_forward_ns > 0 || price->gather_backward_ns > 0 || price->gather_once_ns > 0;
            piece->reduces |= price->reduce_ns > 0;
        }
    }
    return true;
}

/* What each stage has to compute, in the micro-batches that are walked, in those that are not, and in its update. */
static void count_left(struct pipeline *p)
{
    for (int k = 0; k < p->plan->stage_count; k++) {
        struct stage_walk *s = &p->stages[k];
        for (int i = 0; i < s->action_count; i++)
            s->left_ns += action_work_ns(p, pipeline_piece_of(p, k, &s->actions[i]), s->actions[i].kind);
        s->left_ns += (int64_t)((double)s->left_ns * p->further / p->micro_batches) + step_part_ns(p, k, false);
    }
}

/* What the micro-batches that were not walked take: full pipelines repeat, so each takes what one of `middle` did,
 * those that fill the pipeline left out, at the stage where that was most. */
static int64_t further_ns(const struct pipeline *p, int filling, int middle)
{
    int64_t middle_ns = 0;
    for (int k = 0; k < p->plan->stage_count && p->further > 0; k++) {
        const struct stage_walk *s = &p->stages[k];
        int from = (int)((int64_t)s->action_count * filling / p->micro_batches),
            to = (int)((int64_t)s->action_count * (filling + middle) / p->micro_batches);
        middle_ns = max_i64(middle_ns, s->end_ns[to - 1] - s->end_ns[from - 1]);
    }
    return (int64_t)((double)middle_ns * p->further / middle);
}

static bool walk_stages(struct pipeline *p, struct error *err)
{
    const struct plan *plan = p->plan;
    count_left(p);
    for (bool moved = true; moved && p->too_long_ns == 0;) {
        moved = false;
        for (int k = 0; k < plan->stage_count && p->too_long_ns == 0; k++)
            moved = run_stage(p, k) || moved;
        for (int k = 0; k < plan->stage_count; k++)
            moved = pipeline_receive(p, k) || moved;
        for (int k = 0; !moved && k < plan->stage_count; k++)
            moved = pipeline_send_anyhow(p, k);
    }
    for (int k = 0; p->too_long_ns == 0 && k < plan->stage_count; k++)
        if (p->stages[k].next < p->stages[k].action_count)
            return fail(err, "search: schedule %s stalls at stage %d", schedules[plan->schedule]->name, k);
    return true;
}

bool pipeline_step_ns(int64_t *out, const struct plan *plan, const struct chain *chain, const struct price_table *table,
                      const struct facts *facts, int micro_batches, int64_t below_ns, struct error *err)
{
    int settled = estimate_settled_micro_batches(plan),
        middle = (int)round_up(max_i64(settled / MIDDLE_SHARE, LEAST_MIDDLE), estimate_micro_batch_unit(plan)),
        few = 2 * settled + middle;
    bool asynchronous = schedules[plan->schedule]->asynchronous, shortens = !asynchronous && micro_batches > few;
    struct arena arena = { 0 };
    struct pipeline p = { .plan = plan,
                          .table = table,
                          .facts = facts,
                          .ahead = (int)min_i64(plan->prefetch, MAX_AHEAD),
                          .micro_batches = shortens ? few : micro_batches,
                          .further = shortens ? micro_batches - few : 0,
                          .below_ns = below_ns };
    bool good = pipeline_prices(&p.price[0], plan, chain, table, facts, 0, &arena, err);
    p.price[1] = p.price[0];
    if (good && plan_copies(plan) > 1)
        good = pipeline_prices(&p.price[1], plan, chain, table, facts, 1, &arena, err);
    if (good && !(pipeline_open(&p, chain, &arena, err) && list_work(&p, &arena)))
        good = err->kind == ERROR_NONE && fail_memory(err);
    if (good && asynchronous) {
        *out = steady_step_ns(&p);
    } else if (good) {
        good = walk_stages(&p, err);
        if (good && p.too_long_ns > 0)
            *out = p.too_long_ns;
        else if (good && step_end(&p, chain, out, &arena))
            *out += further_ns(&p, settled, middle);
        else if (good)
            good = fail_memory(err);
    }
    arena_free(&arena);
    return good;
}
