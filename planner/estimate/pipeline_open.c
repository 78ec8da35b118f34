/* A plan's pipeline before its walk: which pieces exchange what, and how long that takes. */
#include "base/num.h"
#include "planner/estimate/pipeline_parts.h"
#include <string.h>

/* Times the layer's value from the maker to the reader, or its gradient back. */
static int64_t send_ns(const struct pipeline *p, const struct chain *chain, int layer, const struct link *link,
                       bool back)
{
    if (!p->facts || !chain->graph || p->table->send_bytes == 0)
        return price_send_ns(p->table, (back ? link->reader : link->maker) % pipeline_copied(p));
    int sender = p->pieces[back ? link->reader : link->maker].stage,
        receiver = p->pieces[back ? link->maker : link->reader].stage;
    double share = (double)layer_elements(chain->graph, layer) /
                   (double)layer_elements(chain->graph, price_sent_layer(chain->graph));
    int64_t bytes = (int64_t)((double)p->table->send_bytes * share),
            ends_ns = (int64_t)((double)p->table->send_ends_ns * share);
    return cost_between_stages(p->facts, p->plan, sender, receiver, bytes).ns + ends_ns;
}

static struct link *add_link(struct pipeline *p, struct link link, struct arena *arena)
{
    p->links = arena_more(arena, p->links, p->link_count, &p->link_capacity, sizeof *p->links);
    if (!p->links)
        return NULL;
    p->links[p->link_count] = link;
    return &p->links[p->link_count++];
}

/* Adds one more value, made and read by the layers at these places. number: that of the link between the pieces; below
 * 0 where there is none yet. */
static bool add_value(struct pipeline *p, const struct chain *chain, struct link value, int *number,
                      struct arena *arena)
{
    struct link *link = *number >= 0 ? &p->links[*number] : add_link(p, value, arena);
    if (!link)
        return false;
    *number = (int)(link - p->links);
    link->made = (int)max_i64(link->made, value.made);
    link->read = (int)min_i64(link->read, value.read);
    for (int back = 0; back < 2; back++)
        link->ns[back] += send_ns(p, chain, plan_layer_at(p->plan, value.made), &value, back);
    return true;
}

/* Links each piece to the one before it, whose value it reads. */
static bool link_chain(struct pipeline *p, const struct chain *chain, struct arena *arena)
{
    for (int maker = 0, reader; (reader = maker + p->turns[maker % p->plan->stage_count]) < pipeline_copied(p);
         maker = reader) {
        int read = p->pieces[reader].layers.first, number = -1;
        if (!add_value(p, chain, (struct link){ .maker = maker, .reader = reader, .made = read - 1, .read = read },
                       &number, arena))
            return false;
    }
    return true;
}

/* Links pieces of a graph: each value goes once to every piece that reads it. */
static bool link_graph(struct pipeline *p, const struct chain *chain, struct arena *arena)
{
    const struct graph *graph = chain->graph;
    int *last_reader = arena_alloc(arena, (size_t)chain->layer_count, sizeof *last_reader),
        *piece_of = arena_alloc(arena, (size_t)chain->layer_count, sizeof *piece_of),
        *place_of = arena_alloc(arena, (size_t)chain->layer_count, sizeof *place_of),
        *latest = arena_alloc(arena, (size_t)p->piece_count, sizeof *latest); /* of each maker: 1 + its last link */
    if (arena_failed(arena))
        return false;
    for (int place = 0, reader = 0; place < graph->layer_count; place++) { /* readers ascend */
        int layer = plan_layer_at(p->plan, place);
        if (place == p->pieces[reader].layers.first + p->pieces[reader].layers.count)
            reader += p->turns[reader % p->plan->stage_count];
        piece_of[layer] = reader;
        place_of[layer] = place;
        for (int i = 0; i < graph->layers[layer].input_count; i++) {
            int from = graph->layers[layer].input_layers[i], maker = piece_of[from], number = latest[maker] - 1;
            if (maker == reader || last_reader[from] > reader)
                continue;
            number = number >= 0 && p->links[number].reader == reader ? number : -1;
            struct link value = { .maker = maker, .reader = reader, .made = place_of[from], .read = place };
            if (!add_value(p, chain, value, &number, arena))
                return false;
            latest[maker] = number + 1;
            last_reader[from] = reader + 1;
        }
    }
    return true;
}

/* Repeats the links of one copy of the model for every other one, since its pieces exchange the same. */
static bool repeat_links(struct pipeline *p, struct arena *arena)
{
    int pieces = pipeline_copied(p), own = p->link_count;
    for (int by = pieces; by < p->piece_count; by += pieces)
        for (int i = 0; i < own; i++) {
            struct link link = p->links[i];
            link.maker += by;
            link.reader += by;
            if (!add_link(p, link, arena))
                return false;
        }
    return true;
}

/* Gives the piece that makes what the link carries (0), or that reads it (1). */
static int end_of(const struct link *link, int end)
{
    return end == 0 ? link->maker : link->reader;
}

/* Lists links by piece: makers list their readers in order, readers their makers from the last on; replicas have the
 * first one's lists. */
static bool list_links(struct pipeline *p, struct arena *arena)
{
    for (int i = 0; i < p->link_count; i++)
        for (int end = 0; end < 2; end++)
            p->pieces[end_of(&p->links[i], end)].link_count[end]++;
    for (int k = 0; k < p->piece_count; k++)
        for (int end = 0; end < 2; end++) {
            struct piece *piece = &p->pieces[k];
            piece->links[end] = arena_alloc(arena, (size_t)piece->link_count[end], sizeof *piece->links[end]);
            if (!piece->links[end])
                return false;
            piece->link_count[end] = 0;
        }
    for (int i = 0; i < p->link_count; i++)
        for (int end = 0; end < 2; end++) {
            struct piece *piece = &p->pieces[end_of(&p->links[i], end)];
            int at = piece->link_count[end]++;
            for (; end == 1 && at > 0 && p->links[piece->links[1][at - 1]].maker < p->links[i].maker; at--)
                piece->links[1][at] = piece->links[1][at - 1];
            piece->links[end][at] = i;
        }
    for (int k = 0; k < p->piece_count; k++) { /* replicas that take turns have the links of the first of them */
        const struct piece *first = &p->pieces[p->plan->chunk_count > 1 ? k : k - p->plan->stages[k].turn];
        memcpy(p->pieces[k].links, first->links, sizeof first->links);
        memcpy(p->pieces[k].link_count, first->link_count, sizeof first->link_count);
    }
    return true;
}

/* Ranks a piece's links, since a pass hands on what it makes first, first: backward it begins with the last layer. */
static void rank_links(struct pipeline *p)
{
    for (int i = 0; i < p->link_count; i++) {
        struct link *link = &p->links[i];
        const struct piece *maker = &p->pieces[link->maker], *reader = &p->pieces[link->reader];
        for (int k = 0; k < maker->link_count[0]; k++)
            link->made_rank += p->links[maker->links[0][k]].made < link->made;
        for (int k = 0; k < reader->link_count[1]; k++)
            link->read_rank += p->links[reader->links[1][k]].read > link->read;
    }
}

static bool list_pieces(struct pipeline *p, struct arena *arena)
{
    const struct plan *plan = p->plan;
    p->piece_count = plan->stage_count * plan->chunk_count;
    p->turns = arena_alloc(arena, (size_t)plan->stage_count, sizeof *p->turns);
    p->pieces = arena_alloc(arena, (size_t)p->piece_count, sizeof *p->pieces);
    if (!p->turns || !p->pieces)
        return false;
    for (int k = 0; k < plan->stage_count; k++)
        p->turns[k] = plan_stage_turns(plan, k);
    for (int k = 0; k < p->piece_count; k++) {
        int stage = schedule_stage(schedules[plan->schedule], plan->stage_count, k);
        p->pieces[k] = (struct piece){ .layers = plan_stage_chunk(plan, stage, k / plan->stage_count),
                                       .stage = stage,
                                       .copy = k / pipeline_copied(p) };
    }
    return true;
}

bool pipeline_open(struct pipeline *p, const struct chain *chain, struct arena *arena)
{
    if (!list_pieces(p, arena) || !(chain->graph ? link_graph : link_chain)(p, chain, arena) ||
        !repeat_links(p, arena) || !list_links(p, arena))
        return false;
    rank_links(p);
    return true;
}
