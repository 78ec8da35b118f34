#include "base/num.h"
#include "planner/estimate/effort.h"
#include "planner/estimate/estimate_parts.h"
#include "planner/estimate/pipeline_parts.h"
#include "planner/estimate/pipeline_prices.h"

enum { HELD_USES = 2, MAX_AHEAD = 8 };

/* A layer's reductions: from when on there are gradients, and when the last one is there. holds: what is reduced has
 * bytes that are wanted again. */
struct pending {
    int64_t first_ns, last_ns, reduce_ns, tail_ns, end_ns;
    bool holds;
};
struct stage_walk {
    int64_t sending_ns, receiving_ns;      /* when these are free */
    int64_t compute_ns, lane_ns;           /* when each is free */
    int64_t use_end[MAX_AHEAD + 1];        /* ring: ends of the latest uses */
    struct pending pending[MAX_AHEAD + 1]; /* ring: not yet issued, by use */
    int64_t uses, last_exchange;           /* last_exchange: the latest use with reductions; below 0: none had any */
    int64_t left_ns;                       /* of compute, in actions that are still to come and after them */
    bool gathers;                          /* some layer's weights are gathered */
};
struct piece_walk {
    int64_t work_ns[PASS_KINDS]; /* compute of a pass */
    bool gathered;               /* what stays for the step */
    bool reduces;                /* gradients of some layer in each backward pass */
    bool whole[2];               /* [backward] nothing comes or goes between its layers */
};
struct walking {
    const struct pipeline *p;
    const struct pipeline_order *order;
    struct stage_walk *stages;
    struct piece_walk *pieces;
    int64_t
        *work_ns[2][PASS_KINDS];   /* (layers + 1) compute of the layers before each place, by copy and kind of pass */
    bool *makes, *reads;           /* (layers) by place: whether another piece reads what it makes, and the reverse */
    int64_t *end_ns;               /* (passes of all stages) number 0 is the beginning */
    int64_t *there_ns;             /* (links, 2, micro-batches) when it is ready to be sent, then when it is there */
    int64_t below_ns, too_long_ns; /* too_long_ns: 0, or no less than below_ns, and the step takes no less */
};

/* Gives the prices of the piece's layers, by place. */
static const struct layer_price **prices_of(const struct pipeline *p, int piece)
{
    return p->price[p->pieces[piece].copy];
}

static int ring(int64_t use)
{
    return (int)(use % (MAX_AHEAD + 1));
}

/* Gives how much of the layer's backward pass is left for its phase: weights' gradients are computed last, or apart. */
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

/* Lets a layer wait for the reduction of the one HELD_USES before it, whose gradients keep their bytes until then
 * (planner/layout/lives.h). */
static void wait_for_bytes(struct stage_walk *s)
{
    int64_t use = s->uses - HELD_USES;
    if (use < 0 || !s->pending[ring(use)].holds)
        return;
    issue_reduction(s, use);
    s->compute_ns = max_i64(s->compute_ns, s->pending[ring(use)].end_ns);
}

/* Gives what the path or the lane loses by what the lane moves in a pass. */
static int64_t lost_ns(int64_t moved_ns, int64_t loss_ppm)
{
    return (int64_t)((double)moved_ns * (double)loss_ppm * 1e-6);
}

/* Runs one layer in one direction: its gathers were issued when the use `ahead` + 1 before it had ended, after that
 * use's reduction; rest_ns of it comes after the last of them. Returns when it begins. */
static int64_t run_use(const struct pipeline *p, struct stage_walk *s, int64_t compute_ns, int64_t gather_ns,
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

static int64_t *there_of(const struct walking *w, int link, bool backward, const struct event *pass)
{
    return &w->there_ns[(2 * link + backward) * w->p->micro_batches + (int)pass->micro];
}

/* Lets a layer wait for what it is the first to read, backward for the gradients of what it made; at a place below 0
 * for all that the pass reads. */
static void wait_for_others(struct walking *w, const struct event *pass, int place, bool backward)
{
    const struct piece *piece = &w->p->pieces[pass->number];
    struct stage_walk *s = &w->stages[pass->stage];
    for (int i = 0; i < piece->link_count[!backward]; i++) {
        const struct link *link = &w->p->links[piece->links[!backward][i]];
        if (place < 0 || (backward ? link->made : link->read) == place)
            s->compute_ns = max_i64(s->compute_ns, *there_of(w, piece->links[!backward][i], backward, pass));
    }
}

/* Hands on what the layer was the last to make for another piece, or to add to its gradients; below 0 all of it. */
static void hand_on(struct walking *w, const struct event *pass, int place, bool backward)
{
    const struct piece *piece = &w->p->pieces[pass->number];
    for (int i = 0; i < piece->link_count[backward]; i++) {
        const struct link *link = &w->p->links[piece->links[backward][i]];
        if (place < 0 || (backward ? link->read : link->made) == place)
            *there_of(w, piece->links[backward][i], backward, pass) = w->stages[pass->stage].compute_ns;
    }
}

/* True when a pass may take the layer and the one after it in its direction as one, since between them nothing comes,
 * goes or is exchanged. */
static bool is_joined(const struct walking *w, int from, int to, bool backward)
{
    return backward ? !w->reads[from] && !w->makes[to] : !w->makes[from] && !w->reads[to];
}

/* True when compute is all that counts of the next layers: nothing is gathered, and the stage's uses of the lane, and
 * those shortly before, need not be issued between them. */
static bool is_plain(const struct walking *w, const struct stage_walk *s)
{
    return !s->gathers && s->uses - s->last_exchange > max_i64(w->p->ahead + 1, HELD_USES);
}

/* Counts plain layers that follow each other from `place` to the piece's end; 0 where this one is looked at alone. */
static int run_length(const struct walking *w, const struct stage_walk *s, const struct piece *piece, int place,
                      bool backward)
{
    int by = backward ? -1 : 1, last = backward ? piece->layers.first : piece->layers.first + piece->layers.count - 1;
    int count = 1;
    if (!is_plain(w, s))
        return 0;
    for (; place != last && is_joined(w, place, place + by, backward); place += by)
        count++;
    return count;
}

/* Runs plain layers at once, since nothing happens between them. */
static void run_plainly(struct stage_walk *s, int64_t compute_ns, int count)
{
    s->compute_ns += compute_ns;
    s->uses += count;
    for (int i = 1; i <= HELD_USES; i++)
        s->pending[ring(s->uses + MAX_AHEAD + 1 - i)].holds = false;
}

static void run_forward(struct walking *w, const struct event *pass)
{
    struct stage_walk *s = &w->stages[pass->stage];
    const struct piece *piece = &w->p->pieces[pass->number];
    const int64_t *work_ns = w->work_ns[piece->copy][ACTION_FORWARD];
    for (int l = piece->layers.first, end = l + piece->layers.count; l < end;) {
        int count = run_length(w, s, piece, l, false);
        if (w->reads[l])
            wait_for_others(w, pass, l, false);
        if (count > 0) {
            run_plainly(s, work_ns[l + count] - work_ns[l], count);
        } else {
            const struct layer_price *price = prices_of(w->p, pass->number)[l];
            int64_t gather_ns =
                price->gather_forward_ns + (w->pieces[pass->number].gathered ? 0 : price->gather_once_ns);
            run_use(w->p, s, price->forward_ns, gather_ns + lost_ns(gather_ns, price->lane_loss_forward_ppm),
                    price->rest_forward_ns);
            count = 1;
        }
        l += count;
        if (w->makes[l - 1])
            hand_on(w, pass, l - 1, false);
    }
    w->pieces[pass->number].gathered = true;
}

/* Runs one layer's phase of the pass, or both: gathers belong to the inputs' gradients, reductions to the weights'. */
static void run_backward_layer(const struct pipeline *p, struct stage_walk *s, const struct layer_price *price,
                               enum action_kind kind, bool last)
{
    bool inputs = kind != ACTION_BACKWARD_WEIGHT, weights = kind != ACTION_BACKWARD_INPUT;
    int64_t gather_ns = inputs ? price->gather_backward_ns : 0, reduce_ns = weights ? price->reduce_ns : 0,
            lane_ppm = price->lane_loss_backward_ppm, alone_ns = phase_ns(price, kind);
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

static void run_backward(struct walking *w, const struct event *pass)
{
    struct stage_walk *s = &w->stages[pass->stage];
    const struct piece *piece = &w->p->pieces[pass->number];
    enum action_kind kind = pass->kind;
    const int64_t *work_ns = w->work_ns[piece->copy][kind];
    bool inputs = kind != ACTION_BACKWARD_WEIGHT,
         plain = kind == ACTION_BACKWARD_INPUT || !(pass->last || w->pieces[pass->number].reduces);
    for (int l = piece->layers.first + piece->layers.count - 1; l >= piece->layers.first;) {
        int count = plain ? run_length(w, s, piece, l, true) : 0;
        if (inputs && w->makes[l])
            wait_for_others(w, pass, l, true);
        if (count > 0) {
            run_plainly(s, work_ns[l + 1] - work_ns[l + 1 - count], count);
        } else {
            run_backward_layer(w->p, s, prices_of(w->p, pass->number)[l], kind, pass->last);
            count = 1;
        }
        l -= count;
        if (inputs && w->reads[l + 1])
            hand_on(w, pass, l + 1, true);
    }
}

/* Runs a pass at once whose layers are all plain, with nothing between them; false where it is not such a pass. */
static bool run_whole(struct walking *w, const struct event *pass)
{
    struct stage_walk *s = &w->stages[pass->stage];
    const struct piece_walk *piece = &w->pieces[pass->number];
    bool backward = pass->kind != ACTION_FORWARD, makes = pass->kind != ACTION_BACKWARD_INPUT && backward;
    if (!piece->whole[backward] || (makes && (pass->last || piece->reduces)) || !is_plain(w, s))
        return false;
    if (pass->kind != ACTION_BACKWARD_WEIGHT)
        wait_for_others(w, pass, -1, backward);
    run_plainly(s, piece->work_ns[pass->kind], w->p->pieces[pass->number].layers.count);
    if (pass->kind != ACTION_BACKWARD_WEIGHT)
        hand_on(w, pass, -1, backward);
    return true;
}

static void run_pass(struct walking *w, const struct event *pass)
{
    struct stage_walk *s = &w->stages[pass->stage];
    if (!run_whole(w, pass))
        (pass->kind == ACTION_FORWARD ? run_forward : run_backward)(w, pass);
    else if (pass->kind == ACTION_FORWARD)
        w->pieces[pass->number].gathered = true;
    w->end_ns[pass->at] = s->compute_ns;
    s->left_ns -= w->pieces[pass->number].work_ns[pass->kind];
    if (s->compute_ns + s->left_ns >= w->below_ns)
        w->too_long_ns = s->compute_ns + s->left_ns;
}

/* Begins when it is ready, its receive is posted and both lanes are free. */
static void send(struct walking *w, const struct event *message)
{
    struct stage_walk *from = &w->stages[message->stage], *to = &w->stages[message->to];
    int64_t *there_ns = &w->there_ns[message->number * w->p->micro_batches + (int)message->micro];
    int64_t start = max_i64(max_i64(*there_ns, w->end_ns[message->at]), max_i64(from->sending_ns, to->receiving_ns));
    from->sending_ns = to->receiving_ns = *there_ns = start + w->p->links[message->number / 2].ns[message->number % 2];
}

static void run_events(struct walking *w)
{
    for (int i = 0; i < w->order->event_count && w->too_long_ns == 0; i++) {
        const struct event *event = &w->order->events[i];
        if (event->to < 0)
            run_pass(w, event);
        else
            send(w, event);
    }
}

static int64_t stage_end(struct walking *w, int stage)
{
    struct stage_walk *s = &w->stages[stage];
    for (int64_t use = max_i64(0, s->uses - w->p->ahead - 1); use < s->uses; use++)
        issue_reduction(s, use);
    return max_i64(s->compute_ns, s->lane_ns);
}

/* Gives the stage's part of the norm, or else what comes after it. */
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

/* Gives the step's end: with clipping no stage updates before all have exchanged their parts of the norm. */
static int64_t updated_ns(const struct pipeline *p, const int64_t *end_ns)
{
    int64_t known_ns = 0, last_ns = 0;
    for (int k = 0; k < p->plan->stage_count && p->plan->clip_norm > 0; k++)
        known_ns = max_i64(known_ns, end_ns[k] + step_part_ns(p, k, true) + p->table->norm_exchange_ns);
    for (int k = 0; k < p->plan->stage_count; k++)
        last_ns = max_i64(last_ns, max_i64(known_ns, end_ns[k]) + step_part_ns(p, k, false));
    return last_ns;
}

static bool step_end(struct walking *w, const struct chain *chain, int64_t *out, struct arena *arena)
{
    int stages = w->p->plan->stage_count;
    int64_t *end_ns = arena_alloc(arena, (size_t)stages, sizeof *end_ns);
    if (!end_ns)
        return false;
    for (int k = 0; k < stages; k++)
        end_ns[k] = stage_end(w, k);
    pipeline_exchange(w->p, chain, end_ns);
    *out = updated_ns(w->p, end_ns);
    return true;
}

/* True when all that stages do, one after the other, might not fit 63 bits twice. */
static bool is_beyond(const struct pipeline *p)
{
    double all = (double)p->table->norm_exchange_ns, times = p->micro_batches + p->further;
    for (int copy = 0; copy < plan_copies(p->plan); copy++)
        for (int l = 0; l < p->plan->layer_count; l++) {
            const struct layer_price *x = p->price[copy][l];
            double each = (double)x->forward_ns + (double)x->backward_ns + 2 * (double)x->reduce_ns +
                          2 * ((double)x->gather_forward_ns + (double)x->gather_backward_ns);
            all += times * each + (double)x->gather_once_ns + (double)x->reduce_last_ns + (double)x->reduce_tail_ns +
                   (double)x->step_ns;
        }
    for (int i = 0; i < p->link_count; i++)
        all += times * ((double)p->links[i].ns[0] + (double)p->links[i].ns[1]);
    return all >= 0x1p61;
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
        for (int i = 0; i < p->pieces[k].link_count[0]; i++) {
            const struct link *link = &p->links[p->pieces[k].links[0][i]];
            if (link->reader == k + 1)
                sends = max_i64(link->ns[0], link->ns[1]);
        }
        longest = max_i64(longest, p->micro_batches * max_i64(each, sends) + once);
    }
    return longest + p->table->norm_exchange_ns;
}

/* Lists what passes compute, so that a pass whose layers are all plain takes one sum. */
static bool list_work(struct walking *w, struct arena *arena)
{
    const struct pipeline *p = w->p;
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
            w->work_ns[copy][kind] = work_ns;
        }
    return true;
}

/* Sums up what the piece computes and exchanges, and what its stage has to compute: in the micro-batches that are
 * walked, and in those that are not. */
static void start_piece(struct walking *w, int number)
{
    const struct pipeline *p = w->p;
    const struct piece *piece = &p->pieces[number];
    struct piece_walk *own = &w->pieces[number];
    struct stage_walk *s = &w->stages[piece->stage];
    int first = piece->layers.first, end = first + piece->layers.count;
    own->whole[0] = own->whole[1] = true;
    for (int l = first; l < end; l++) {
        const struct layer_price *price = prices_of(p, number)[l];
        s->gathers |= price->gather_forward_ns > 0 || price->gather_backward_ns > 0 || price->gather_once_ns > 0;
        own->reduces |= price->reduce_ns > 0;
        for (int backward = 0; backward < 2 && l > first; backward++)
            own->whole[backward] &= is_joined(w, backward ? l : l - 1, backward ? l - 1 : l, backward);
    }
    for (int kind = 0; kind < PASS_KINDS; kind++) {
        const int64_t *work_ns = w->work_ns[piece->copy][kind];
        own->work_ns[kind] = work_ns[end] - work_ns[first];
        s->left_ns += own->work_ns[kind] * w->order->passes[number * PASS_KINDS + kind];
    }
}

static bool start_walk(struct walking *w, struct arena *arena)
{
    const struct pipeline *p = w->p;
    int stages = p->plan->stage_count;
    size_t layers = (size_t)p->plan->layer_count;
    w->stages = arena_alloc(arena, (size_t)stages, sizeof *w->stages);
    w->pieces = arena_alloc(arena, (size_t)p->piece_count, sizeof *w->pieces);
    w->makes = arena_alloc(arena, layers, sizeof *w->makes);
    w->reads = arena_alloc(arena, layers, sizeof *w->reads);
    w->end_ns = arena_alloc(arena, (size_t)w->order->first_end[stages], sizeof *w->end_ns);
    w->there_ns = arena_alloc(arena, 2 * (size_t)p->link_count * (size_t)p->micro_batches, sizeof *w->there_ns);
    if (!list_work(w, arena) || arena_failed(arena))
        return false;
    for (int i = 0; i < p->link_count; i++)
        w->makes[p->links[i].made] = w->reads[p->links[i].read] = true;
    for (int k = 0; k < p->piece_count; k++)
        start_piece(w, k);
    for (int k = 0; k < stages; k++) {
        struct stage_walk *s = &w->stages[k];
        s->last_exchange = -MAX_AHEAD - 1 - HELD_USES;
        s->left_ns += (int64_t)((double)s->left_ns * p->further / p->micro_batches) + step_part_ns(p, k, false);
    }
    return true;
}

/* Gives what the micro-batches that were not walked take: full pipelines repeat, so each takes what one of `middle`
 * did, those that fill the pipeline left out, at the stage where that was most. */
static int64_t further_ns(const struct walking *w, int filling, int middle)
{
    const struct pipeline *p = w->p;
    int64_t middle_ns = 0;
    for (int k = 0; k < p->plan->stage_count && p->further > 0; k++) {
        int first = w->order->first_end[k];
        int64_t passes = w->order->first_end[k + 1] - first;
        int from = first + (int)(passes * filling / p->micro_batches),
            to = first + (int)(passes * (filling + middle) / p->micro_batches);
        middle_ns = max_i64(middle_ns, w->end_ns[to - 1] - w->end_ns[from - 1]);
    }
    return (int64_t)((double)middle_ns * p->further / middle);
}

bool pipeline_step_ns(int64_t *out, const struct plan *plan, const struct chain *chain, const struct price_table *table,
                      const struct facts *facts, struct pipeline_shelf *shelf, int micro_batches, int64_t below_ns,
                      struct error *err)
{
    int settled = estimate_settled_micro_batches(plan),
        middle = (int)round_up(max_i64(settled / MIDDLE_SHARE, LEAST_MIDDLE), estimate_micro_batch_unit(plan)),
        few = estimate_settled_times(plan, 2) + middle;
    bool asynchronous = schedules[plan->schedule]->asynchronous, shortens = !asynchronous && micro_batches > few;
    struct arena arena = { 0 };
    struct pipeline p = { .plan = plan,
                          .table = table,
                          .facts = facts,
                          .ahead = (int)min_i64(plan->prefetch, MAX_AHEAD),
                          .micro_batches = shortens ? few : micro_batches,
                          .further = shortens ? micro_batches - few : 0 };
    struct pipeline_order *order = NULL;
    bool good = pipeline_prices(&p.price[0], plan, chain, table, facts, 0, &arena, err);
    p.price[1] = p.price[0];
    if (good && plan_copies(plan) > 1)
        good = pipeline_prices(&p.price[1], plan, chain, table, facts, 1, &arena, err);
    good = good && (pipeline_open(&p, chain, &arena) || fail_memory(err));
    if (good && is_beyond(&p)) {
        *out = MAX_TIME_NS;
    } else if (good && asynchronous) {
        *out = steady_step_ns(&p);
    } else if (good && (good = pipeline_order_take(&order, shelf, &p, chain, err))) {
        struct walking w = { .p = &p, .order = order, .below_ns = below_ns };
        good = start_walk(&w, &arena);
        if (good)
            run_events(&w);
        *out = w.too_long_ns;
        good = good && (w.too_long_ns > 0 || step_end(&w, chain, out, &arena));
        if (good && w.too_long_ns == 0)
            *out += further_ns(&w, settled, middle);
        good = good || fail_memory(err);
    }
    pipeline_order_give(order);
    arena_free(&arena);
    return good;
}
