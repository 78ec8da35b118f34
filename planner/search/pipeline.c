#include "planner/search/pipeline.h"
#include "base/num.h"
#include "planner/program/schedule.h"
#include "planner/search/pipeline_prices.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_AHEAD = 8, HELD_USES = 2 };

/* A layer's reductions: from when on there are gradients, and when the last one is there. holds: what is reduced has
 * bytes that are wanted again. */
struct pending {
    int64_t first_ns, last_ns, reduce_ns, tail_ns, end_ns;
    bool holds;
};
/* What waits to be sent. */
struct message {
    int from, to, micro;
    bool backward;
    int64_t ready_ns;
};
struct stage_clock {
    struct action *actions;
    int action_count, next;
    struct message *queue; /* in the order of sending */
    int queued, sent;
    int64_t sending_ns, receiving_ns;                               /* when these are free */
    int64_t before_ns;                                              /* the end of the action before the latest */
    int64_t compute_ns, lane_ns, send_forward_ns, send_backward_ns; /* when each is free */
    int64_t use_end[MAX_AHEAD + 1];                                 /* ring: ends of the latest uses */
    struct pending pending[MAX_AHEAD + 1];                          /* ring: not yet issued, by use */
    int64_t uses;
};
/* A chunk of a stage; they are numbered in the order of layers, copy after copy. */
struct piece {
    struct layer_range layers;
    int64_t *arrived[2]; /* [backward] (own micro-batches) the latest of what came */
    int *missing[2];     /* [backward] (own micro-batches) pieces from which something is still to come */
    int *others[2]; /* [backward] (other_count) to which something goes: later ones, earlier ones; first replicas */
    int other_count[2];
    int backwards_left;
    bool gathered; /* what stays for the step */
};
struct pipeline {
    const struct plan *plan;
    const struct layer_price **price[2]; /* [copy, or the only one] (layers) by place in the plan's order */
    const struct price_table *table;
    const struct facts *facts;
    int *values; /* (pieces, pieces): values that the first makes and the second reads; of replicas the first's */
    int64_t *message_ns; /* (pieces, pieces) how long they take to get there, and the gradients to get back */
    int ahead, micro_batches, piece_count;
    bool meets; /* sends wait for their receivers, in the order of both sides */
    int *turns; /* (stages) */
    struct piece *pieces;
    struct stage_clock *stages;
};

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

static int values_between(const struct pipeline *p, int maker, int reader)
{
    return p->values[maker * p->piece_count + reader];
}

/* The first of the piece's replicas that take turns; the piece itself where none do. */
static int first_replica(const struct pipeline *p, int piece)
{
    return p->plan->chunk_count > 1 ? piece : piece - p->plan->stages[piece].turn;
}

static int replicas_of(const struct pipeline *p, int piece)
{
    return p->plan->chunk_count > 1 ? 1 : p->turns[piece];
}

/* Pieces of one copy of the model. */
static int copied(const struct pipeline *p)
{
    return p->piece_count / plan_copies(p->plan);
}

/* The piece's layers, by place. */
static const struct layer_price **prices_of(const struct pipeline *p, int piece)
{
    return p->price[piece / copied(p)];
}

static int stage_of(const struct pipeline *p, int piece)
{
    return schedule_stage(schedules[p->plan->schedule], p->plan->stage_count, piece);
}

static int layout_of(const struct pipeline *p, int layer)
{
    return price_layout_of(p->table, price_strategy(p->table, &p->plan->layers[layer]));
}

static double elements_of(const struct graph *graph, int layer)
{
    const struct value *value = &graph->values[graph->layers[layer].output_value];
    double elements = 1;
    for (int i = 0; i < value->dim_count; i++)
        elements *= (double)value->size[i];
    return elements;
}

/* The layer's value from the maker to the reader, or its gradient back; where layouts differ the mean of both. What a
 * rank gets is its own part, and its like's among the senders, if they are fewer, send several. */
static int64_t send_ns(const struct pipeline *p, const struct chain *chain, int layer, int maker, int reader, bool back)
{
    const struct layer_range *from = &p->pieces[maker].layers;
    if (price_has_layouts(p->table))
        return p->table
                   ->cut_ns[layout_of(p, from->first + from->count - 1)][layout_of(p, p->pieces[reader].layers.first)] /
               2;
    if (!p->facts || !chain->graph || p->table->send_bytes == 0)
        return price_send_ns(p->table, maker % copied(p));
    int sender = stage_of(p, back ? reader : maker), receiver = stage_of(p, back ? maker : reader);
    double part = (double)price_of_plan_stage(p->table, p->plan, receiver)->send_bytes,
           parts = fmax(1, (double)stage_rank_count(p->plan, receiver) / stage_rank_count(p->plan, sender)),
           bytes = parts * part * elements_of(chain->graph, layer) / elements_of(chain->graph, 0);
    return cost_between_stages(p->facts, p->plan, sender, receiver, (int64_t)bytes).ns;
}

/* What one piece has made for another, by a message unless both are on one stage; of replicas `to` is the first. */
static void hand_on(struct pipeline *p, int from, int to, int micro, bool backward)
{
    int own = first_replica(p, from);
    struct stage_clock *s = &p->stages[stage_of(p, from)];
    int turns = replicas_of(p, to), own_micro = micro / turns;
    struct piece *piece = &p->pieces[to + micro % turns];
    int64_t at = s->compute_ns;
    bool sends = stage_of(p, from) != stage_of(p, to);
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
    struct stage_clock *s = &p->stages[stage_of(p, number)];
    struct piece *piece = &p->pieces[number];
    s->compute_ns = max_i64(s->compute_ns, piece->arrived[0][micro / replicas_of(p, number)]);
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
    struct stage_clock *s = &p->stages[stage_of(p, number)];
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
    struct stage_clock *s = &p->stages[stage_of(p, number)];
    struct piece *piece = &p->pieces[number];
    bool last = kind != ACTION_BACKWARD_INPUT && --piece->backwards_left == 0;
    if (kind != ACTION_BACKWARD_WEIGHT)
        s->compute_ns = max_i64(s->compute_ns, piece->arrived[1][micro / replicas_of(p, number)]);
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
        struct stage_clock *to = &p->stages[stage_of(p, m->to)];
        if (!anyhow && !is_awaited(p, stage_of(p, m->to), m))
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

/* What pieces of one copy of the model exchange, those of every other one do. */
static void repeat_values(struct pipeline *p)
{
    int pieces = copied(p);
    for (int maker = pieces; maker < p->piece_count; maker++)
        for (int reader = 0; reader < pieces; reader++) {
            int own = maker * p->piece_count + maker / pieces * pieces + reader,
                like = maker % pieces * p->piece_count + reader;
            p->values[own] = p->values[like];
            p->message_ns[own] = p->message_ns[like];
        }
}

static void add_value(struct pipeline *p, const struct chain *chain, int layer, int maker, int reader)
{
    p->values[maker * p->piece_count + reader]++;
    p->message_ns[maker * p->piece_count + reader] += send_ns(p, chain, layer, maker, reader, false);
    p->message_ns[reader * p->piece_count + maker] += send_ns(p, chain, layer, maker, reader, true);
}

/* Each value once per piece that reads it. */
static bool count_values(struct pipeline *p, const struct chain *chain, struct arena *arena)
{
    const struct graph *graph = chain->graph;
    int pieces = p->piece_count, *last_reader = arena_alloc(arena, (size_t)chain->layer_count, sizeof(int)),
        *piece_of = arena_alloc(arena, (size_t)chain->layer_count, sizeof(int));
    p->values = arena_alloc(arena, (size_t)pieces * (size_t)pieces, sizeof *p->values);
    p->message_ns = arena_alloc(arena, (size_t)pieces * (size_t)pieces, sizeof *p->message_ns);
    if (!p->values || !p->message_ns || !last_reader || !piece_of)
        return false;
    for (int k = 0; !graph && k + p->turns[k] < copied(p); k += p->turns[k])
        add_value(p, chain, -1, k, k + p->turns[k]);
    for (int place = 0, reader = 0; graph && place < graph->layer_count; place++) { /* readers ascend */
        int layer = plan_layer_at(p->plan, place);
        if (place == p->pieces[reader].layers.first + p->pieces[reader].layers.count)
            reader += p->turns[reader % p->plan->stage_count];
        piece_of[layer] = reader;
        for (int i = 0; i < graph->layers[layer].input_count; i++) {
            int from = graph->layers[layer].input_layers[i], maker = piece_of[from];
            if (maker != reader && last_reader[from] <= reader) {
                add_value(p, chain, from, maker, reader);
                last_reader[from] = reader + 1;
            }
        }
    }
    repeat_values(p);
    return true;
}

/* Readers in order, makers from the last on. */
static bool list_others(struct pipeline *p, int number, bool backward, struct arena *arena)
{
    struct piece *piece = &p->pieces[number];
    int own = first_replica(p, number), *others = NULL;
    if (own != number) { /* as the first replica */
        piece->others[backward] = p->pieces[own].others[backward];
        piece->other_count[backward] = p->pieces[own].other_count[backward];
        return true;
    }
    for (int pass = 0; pass < 2; pass++) {
        int count = 0;
        for (int i = 0; i < p->piece_count; i++) {
            int other = backward ? p->piece_count - 1 - i : i;
            if ((backward ? values_between(p, other, own) : values_between(p, own, other)) == 0)
                continue;
            if (others)
                others[count] = other;
            count++;
        }
        piece->other_count[backward] = count;
        if (!others && !(others = arena_alloc(arena, (size_t)count + 1, sizeof *others)))
            return false;
    }
    piece->others[backward] = others;
    return true;
}

static bool list_pieces(struct pipeline *p, struct arena *arena)
{
    p->turns = arena_alloc(arena, (size_t)p->plan->stage_count, sizeof *p->turns);
    for (int k = 0; p->turns && k < p->plan->stage_count; k++)
        p->turns[k] = stage_turns(p->plan, k);
    p->piece_count = p->plan->stage_count * p->plan->chunk_count;
    p->pieces = arena_alloc(arena, (size_t)p->piece_count, sizeof *p->pieces);
    for (int k = 0; p->pieces && k < p->piece_count; k++)
        p->pieces[k].layers = stage_chunk(p->plan, stage_of(p, k), k / p->plan->stage_count);
    return p->pieces && p->turns;
}

/* Micro-batches of a stage that takes turns, or of all. */
static int share_of(const struct pipeline *p, int stage)
{
    return (p->micro_batches - p->plan->stages[stage].turn + p->turns[stage] - 1) / p->turns[stage];
}

static bool start_pieces(struct pipeline *p, struct arena *arena)
{
    for (int k = 0; k < p->piece_count; k++) {
        struct piece *piece = &p->pieces[k];
        int own = p->plan->chunk_count == 1 ? share_of(p, k) : p->micro_batches;
        piece->backwards_left = own / plan_copies(p->plan);
        for (int backward = 0; backward < 2; backward++) {
            piece->arrived[backward] = arena_alloc(arena, (size_t)own, sizeof **piece->arrived);
            piece->missing[backward] = arena_alloc(arena, (size_t)own, sizeof **piece->missing);
            if (!piece->arrived[backward] || !piece->missing[backward] || !list_others(p, k, backward, arena))
                return false;
        }
        for (int i = 0; i < own; i++) { /* forward from its makers, backward from its readers */
            piece->missing[0][i] = piece->other_count[1];
            piece->missing[1][i] = piece->other_count[0];
        }
    }
    return true;
}

/* Where each piece hands on to the next of its copy alone, so that its stage's actions say in which order messages
 * come. */
static bool is_plain(const struct pipeline *p)
{
    bool plain = true;
    for (int maker = 0; maker < p->piece_count; maker++) {
        plain = plain && p->turns[maker % p->plan->stage_count] == 1;
        for (int reader = 0; reader < p->piece_count; reader++) {
            bool next = reader == maker + 1 && reader % copied(p) > 0;
            plain = plain && next == (values_between(p, maker, reader) > 0);
        }
    }
    return plain;
}

static bool start_stages(struct pipeline *p, struct arena *arena)
{
    const struct schedule *schedule = schedules[p->plan->schedule];
    p->meets = is_plain(p);
    p->stages = arena_alloc(arena, (size_t)p->plan->stage_count, sizeof *p->stages);
    for (int k = 0; p->stages && k < p->plan->stage_count; k++) {
        struct stage_clock *s = &p->stages[k];
        struct schedule_place place = schedule_place_of(p->plan, k);
        place.micro_count = share_of(p, k);
        s->action_count = schedule->order(&place, NULL);
        s->actions = arena_alloc(arena, (size_t)s->action_count, sizeof *s->actions);
        if (!s->actions)
            return false;
        schedule->order(&place, s->actions);
        size_t sends = 2 * (size_t)p->micro_batches * (size_t)p->plan->chunk_count;
        if (p->meets && !(s->queue = arena_alloc(arena, sends, sizeof *s->queue)))
            return false;
    }
    return p->stages != NULL;
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
    if (good && !(list_pieces(&p, &arena) && count_values(&p, chain, &arena) && start_pieces(&p, &arena) &&
                  start_stages(&p, &arena)))
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
