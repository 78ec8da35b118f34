/* A plan's pipeline before its walk: which pieces exchange what, and how long that takes. */
#include "base/num.h"
#include "planner/search/pipeline_parts.h"
#include "planner/search/pipeline_prices.h"
#include <math.h>

static int values_between(const struct pipeline *p, int maker, int reader)
{
    return p->values[maker * p->piece_count + reader];
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
        return price_send_ns(p->table, maker % pipeline_copied(p));
    int sender = pipeline_stage_of(p, back ? reader : maker), receiver = pipeline_stage_of(p, back ? maker : reader);
    double part = (double)price_of_plan_stage(p->table, p->plan, receiver)->send_bytes,
           parts = fmax(1, (double)stage_rank_count(p->plan, receiver) / stage_rank_count(p->plan, sender)),
           bytes = parts * part * elements_of(chain->graph, layer) / elements_of(chain->graph, 0);
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
    for (int k = 0; !graph && k + p->turns[k] < pipeline_copied(p); k += p->turns[k])
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
            bool next = reader == maker + 1 && reader % pipeline_copied(p) > 0;
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

bool pipeline_open(struct pipeline *p, const struct chain *chain, struct arena *arena)
{
    return list_pieces(p, arena) && count_values(p, chain, arena) && start_pieces(p, arena) && start_stages(p, arena);
}
