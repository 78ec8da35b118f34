/* A plan's pipeline before its walk: which pieces exchange what, and how long that takes. */
#include "base/num.h"
#include "planner/estimate/pipeline_parts.h"
#include "planner/estimate/pipeline_prices.h"

static int values_between(const struct pipeline *p, int maker, int reader)
{
    return p->values[maker * p->piece_count + reader];
}

static double elements_of(const struct graph *graph, int layer)
{
    const struct value *value = &graph->values[graph->layers[layer].output_value];
    double elements = 1;
    for (int i = 0; i < value->dim_count; i++)
        elements *= (double)value->size[i];
    return elements;
}

/* The layer's value from the maker to the reader, or its gradient back. */
static int64_t send_ns(const struct pipeline *p, const struct chain *chain, int layer, int maker, int reader, bool back)
{
    if (!p->facts || !chain->graph || p->table->send_bytes == 0)
        return price_send_ns(p->table, maker % pipeline_copied(p));
    int sender = pipeline_stage_of(p, back ? reader : maker), receiver = pipeline_stage_of(p, back ? maker : reader);
    double bytes = (double)p->table->send_bytes * elements_of(chain->graph, layer) / elements_of(chain->graph, 0);
    return cost_between_stages(p->facts, p->plan, sender, receiver, (int64_t)bytes).ns;
}

/* What pieces of one copy of the model exchange, those of every other one do. */
static void repeat_values(struct pipeline *p)
{
    int pieces = pipeline_copied(p);
    for (int maker = pieces; maker < p->piece_count; maker++)
        for (int reader = 0; reader < pieces; reader++) {
            int own = maker * p->piece_count + maker / pieces * pieces + reader,
                like = maker % pieces * p->piece_count + reader;
            p->values[own] = p->values[like];
            p->message_ns[own] = p->message_ns[like];
            p->made[own] = p->made[like];
            p->read[own] = p->read[like];
        }
}

/* made, read: places of the layers. */
static void add_value(struct pipeline *p, const struct chain *chain, int made, int read, int maker, int reader)
{
    int pair = maker * p->piece_count + reader, layer = plan_layer_at(p->plan, made);
    p->made[pair] = (int)max_i64(p->made[pair], made);
    p->read[pair] = p->values[pair]++ == 0 ? read : (int)min_i64(p->read[pair], read);
    p->message_ns[pair] += send_ns(p, chain, layer, maker, reader, false);
    p->message_ns[reader * p->piece_count + maker] += send_ns(p, chain, layer, maker, reader, true);
}

/* Each reads the one before it. */
static void count_chain(struct pipeline *p, const struct chain *chain)
{
    for (int maker = 0, reader; (reader = maker + p->turns[maker % p->plan->stage_count]) < pipeline_copied(p);
         maker = reader) {
        int read = p->pieces[reader].layers.first;
        add_value(p, chain, read - 1, read, maker, reader);
    }
}

/* Each value once per piece that reads it. */
static bool count_graph(struct pipeline *p, const struct chain *chain, struct arena *arena)
{
    const struct graph *graph = chain->graph;
    int *last_reader = arena_alloc(arena, (size_t)chain->layer_count, sizeof *last_reader),
        *piece_of = arena_alloc(arena, (size_t)chain->layer_count, sizeof *piece_of),
        *place_of = arena_alloc(arena, (size_t)chain->layer_count, sizeof *place_of);
    if (arena_failed(arena))
        return false;
    for (int place = 0, reader = 0; place < graph->layer_count; place++) { /* readers ascend */
        int layer = plan_layer_at(p->plan, place);
        if (place == p->pieces[reader].layers.first + p->pieces[reader].layers.count)
            reader += p->turns[reader % p->plan->stage_count];
        piece_of[layer] = reader;
        place_of[layer] = place;
        for (int i = 0; i < graph->layers[layer].input_count; i++) {
            int from = graph->layers[layer].input_layers[i], maker = piece_of[from];
            if (maker != reader && last_reader[from] <= reader) {
                add_value(p, chain, place_of[from], place, maker, reader);
                last_reader[from] = reader + 1;
            }
        }
    }
    return true;
}

static void note_layers(struct pipeline *p)
{
    for (int pair = 0; pair < p->piece_count * p->piece_count; pair++)
        if (p->values[pair] > 0)
            p->makes[p->made[pair]] = p->reads[p->read[pair]] = true;
}

static bool count_values(struct pipeline *p, const struct chain *chain, struct arena *arena)
{
    size_t pairs = (size_t)p->piece_count * (size_t)p->piece_count;
    p->values = arena_alloc(arena, pairs, sizeof *p->values);
    p->message_ns = arena_alloc(arena, pairs, sizeof *p->message_ns);
    p->made = arena_alloc(arena, pairs, sizeof *p->made);
    p->read = arena_alloc(arena, pairs, sizeof *p->read);
    p->makes = arena_alloc(arena, (size_t)chain->layer_count, sizeof *p->makes);
    p->reads = arena_alloc(arena, (size_t)chain->layer_count, sizeof *p->reads);
    if (arena_failed(arena))
        return false;
    if (!chain->graph)
        count_chain(p, chain);
    else if (!count_graph(p, chain, arena))
        return false;
    note_layers(p);
    repeat_values(p);
    return true;
}

/* Readers in order, makers from the last on. */
static bool list_others(struct pipeline *p, int number, bool backward, struct arena *arena)
{
    struct piece *piece = &p->pieces[number];
    int own = pipeline_first_replica(p, number), *others = NULL;
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
        p->pieces[k].layers = stage_chunk(p->plan, pipeline_stage_of(p, k), k / p->plan->stage_count);
    return p->pieces && p->turns;
}

/* Micro-batches of a stage that takes turns, or of all. */
static int share_of(const struct pipeline *p, int stage)
{
    return (p->micro_batches - p->plan->stages[stage].turn + p->turns[stage] - 1) / p->turns[stage];
}

static bool start_piece(struct piece *piece, struct arena *arena)
{
    size_t own = (size_t)piece->own_micros;
    for (int backward = 0; backward < 2; backward++) {
        size_t others = (size_t)piece->other_count[!backward];
        piece->arrived[backward] = arena_alloc(arena, others * own, sizeof **piece->arrived);
        piece->missing[backward] = arena_alloc(arena, own, sizeof **piece->missing);
        if (!piece->arrived[backward] || !piece->missing[backward])
            return false;
        for (size_t i = 0; i < own; i++) /* forward from its makers, backward from its readers */
            piece->missing[backward][i] = piece->other_count[!backward];
    }
    return true;
}

static bool start_pieces(struct pipeline *p, struct arena *arena)
{
    for (int k = 0; k < p->piece_count; k++) {
        struct piece *piece = &p->pieces[k];
        piece->own_micros = p->plan->chunk_count == 1 ? share_of(p, k) : p->micro_batches;
        piece->backwards_left = piece->own_micros / plan_copies(p->plan);
        if (!list_others(p, k, false, arena) || !list_others(p, k, true, arena) || !start_piece(piece, arena))
            return false;
    }
    return true;
}

/* Whether a value goes to a stage that is not the next. */
static bool skips(const struct pipeline *p)
{
    for (int maker = 0; maker < p->piece_count; maker++)
        for (int reader = 0; reader < p->piece_count; reader++)
            if (values_between(p, maker, reader) > 0 && pipeline_stage_of(p, reader) > pipeline_stage_of(p, maker) + 1)
                return true;
    return false;
}

/* Messages of the stage at most. */
static size_t sends_of(const struct pipeline *p, int stage)
{
    size_t sends = 0;
    for (int k = 0; k < p->piece_count; k++)
        if (pipeline_stage_of(p, k) == stage)
            sends += (size_t)(p->pieces[k].other_count[0] + p->pieces[k].other_count[1]);
    return sends * (size_t)share_of(p, stage);
}

static bool start_stage(struct pipeline *p, int stage, struct arena *arena)
{
    const struct schedule *schedule = schedules[p->plan->schedule];
    struct stage_walk *s = &p->stages[stage];
    struct schedule_place place = schedule_place_of(p->plan, stage);
    place.micro_count = share_of(p, stage);
    s->action_count = schedule->order(&place, NULL);
    s->actions = arena_alloc(arena, (size_t)s->action_count, sizeof *s->actions);
    s->end_ns = arena_alloc(arena, (size_t)s->action_count, sizeof *s->end_ns);
    s->queue = arena_alloc(arena, sends_of(p, stage), sizeof *s->queue);
    if (arena_failed(arena))
        return false;
    schedule->order(&place, s->actions);
    return true;
}

static bool start_stages(struct pipeline *p, struct arena *arena)
{
    p->stages = arena_alloc(arena, (size_t)p->plan->stage_count, sizeof *p->stages);
    p->skips = skips(p);
    for (int k = 0; p->stages && k < p->plan->stage_count; k++)
        if (!start_stage(p, k, arena))
            return false;
    return p->stages != NULL;
}

bool pipeline_open(struct pipeline *p, const struct chain *chain, struct arena *arena, struct error *err)
{
    return list_pieces(p, arena) && count_values(p, chain, arena) && start_pieces(p, arena) && start_stages(p, arena) &&
           pipeline_list_arrivals(p, chain, arena, err);
}
