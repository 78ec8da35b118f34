/* Finds where a model with branches can be cut. Its layers are covered by towers, so that what is before a place is a
 * few numbers, and sums over its layers are sums along towers. */
#include "planner/cut/chain.h"
#include <string.h>

int chain_extend(const struct chain *chain, int place, int layer)
{
    if (!chain->branches)
        return place + 1;
    const struct branches *b = chain->branches;
    int64_t up = b->first_up[place];
    while (b->up_layer[up] != layer)
        up++;
    return b->up_place[up];
}

int chain_list(const struct chain *chain, int first, int end, int *out)
{
    int count = 0;
    for (int l = chain->branches ? 0 : first; l < (chain->branches ? chain->layer_count : end); l++)
        if (chain_holds(chain, first, end, l))
            out[count++] = l;
    return count;
}

/* While they are made. */
struct branches_making {
    struct branches *out;
    struct arena *arena;
    const struct dag *dag;
    const struct ideals *ideals;
    uint64_t *before;               /* (layers, words) those that come before each */
    int *tower_of, *tower_at, *top; /* (layers) top: of a tower, its last layer so far */
};

/* Chooses the tower that the layer goes on, best one that ends with a layer that it reads; -1: it begins a new one. */
static int choose_tower(const struct branches_making *m, int layer)
{
    const uint64_t *before = &m->before[(size_t)layer * (size_t)m->ideals->words];
    for (int k = m->dag->first_in[layer]; k < m->dag->first_in[layer + 1]; k++)
        if (m->top[m->tower_of[m->dag->in[k]]] == m->dag->in[k])
            return m->tower_of[m->dag->in[k]];
    for (int t = 0; t < m->out->tower_count; t++)
        if (before[m->top[t] / 64] >> (m->top[t] % 64) & 1)
            return t;
    return -1;
}

/* Deals the layers to towers, in each of which every layer comes after the one before it. */
static bool set_towers(struct branches_making *m, struct error *err)
{
    int layers = m->dag->node_count;
    m->tower_of = arena_alloc(m->arena, (size_t)layers, sizeof *m->tower_of);
    m->tower_at = arena_alloc(m->arena, (size_t)layers, sizeof *m->tower_at);
    m->top = arena_alloc(m->arena, (size_t)layers, sizeof *m->top);
    if (arena_failed(m->arena) || !dag_ancestors(m->dag, m->arena, &m->before, err))
        return false;
    for (int l = 0; l < layers; l++) {
        int layer = m->dag->order[l], tower = choose_tower(m, layer);
        m->tower_of[layer] = tower < 0 ? m->out->tower_count++ : tower;
        m->tower_at[layer] = tower < 0 ? 0 : m->tower_at[m->top[tower]] + 1;
        m->top[m->tower_of[layer]] = layer;
    }
    m->out->tower_of = m->tower_of;
    m->out->tower_at = m->tower_at;
    return true;
}

/* Sums stand tower by tower, each from nothing on. */
static bool set_sums(struct branches_making *m)
{
    int layers = m->dag->node_count, towers = m->out->tower_count;
    int *first = arena_alloc(m->arena, (size_t)towers + 1, sizeof *first),
        *layer_of = arena_alloc(m->arena, (size_t)(layers + towers), sizeof *layer_of);
    if (!first || !layer_of)
        return false;
    for (int t = 0; t < towers; t++) {
        first[t + 1] = first[t] + m->tower_at[m->top[t]] + 2;
        layer_of[first[t]] = -1;
    }
    for (int l = 0; l < layers; l++)
        layer_of[first[m->tower_of[l]] + m->tower_at[l] + 1] = l;
    m->out->tower_first = first;
    m->out->sum_layer = layer_of;
    return true;
}

/* Sets what is before a place that has one layer more than another, and what crosses a cut there. A layer that
 * has come last has no reader yet; those that it reads may have no other one left. */
static void add_layer(struct branches_making *m, uint64_t *at, int *crossing, int place, int below, int layer)
{
    const struct dag *dag = m->dag;
    size_t words = (size_t)m->out->words;
    memcpy(&at[(size_t)place * words], &at[(size_t)below * words], words * sizeof *at);
    at[(size_t)place * words + (size_t)(m->tower_of[layer] / PLACE_TOWERS)] +=
        UINT64_C(1) << (PLACE_BITS * (m->tower_of[layer] % PLACE_TOWERS));
    crossing[place] = crossing[below] + (dag->first_out[layer] < dag->first_out[layer + 1]);
    for (int k = dag->first_in[layer]; k < dag->first_in[layer + 1]; k++) {
        int from = dag->in[k];
        bool read = false;
        for (int i = dag->first_out[from]; i < dag->first_out[from + 1]; i++)
            read = read || !ideal_has(m->ideals, place, dag->out[i]);
        crossing[place] -= !read;
    }
}

/* Sets places in the order of ideals, which first appear as covers, so that what is below each is known before it. */
static bool set_places(struct branches_making *m)
{
    const struct ideals *ideals = m->ideals;
    size_t places = (size_t)ideals->count;
    m->out->words = (m->out->tower_count + PLACE_TOWERS - 1) / PLACE_TOWERS;
    uint64_t *at = arena_alloc(m->arena, places * (size_t)m->out->words, sizeof *at);
    int *crossing = arena_alloc(m->arena, places, sizeof *crossing), next = 1;
    for (int i = 0; at && crossing && i < ideals->count; i++)
        for (int64_t k = ideals->first_up[i]; k < ideals->first_up[i + 1]; k++)
            if (ideals->up_ideal[k] == next)
                add_layer(m, at, crossing, next++, i, ideals->up_node[k]);
    m->out->at = at;
    m->out->crossing = crossing;
    return at && crossing;
}

static void *keep(struct arena *arena, const void *from, size_t count, size_t size)
{
    void *to = arena_alloc(arena, count, size);
    if (to && count > 0)
        memcpy(to, from, count * size);
    return to;
}

static bool take_branches(struct chain *chain, struct arena *arena, const struct dag *dag, const struct ideals *ideals,
                          struct error *err)
{
    struct branches *out = arena_alloc(arena, 1, sizeof *out);
    struct branches_making making = { .out = out, .arena = arena, .dag = dag, .ideals = ideals };
    if (!out || !set_towers(&making, err) || !set_sums(&making) || !set_places(&making))
        return false;
    /* steps from place to place are kept, of the sets themselves nothing */
    size_t places = (size_t)ideals->count, ups = (size_t)ideals->first_up[ideals->count];
    out->first_up = keep(arena, ideals->first_up, places + 1, sizeof *out->first_up);
    out->up_place = keep(arena, ideals->up_ideal, ups, sizeof *out->up_place);
    out->up_layer = keep(arena, ideals->up_node, ups, sizeof *out->up_layer);
    if (!out->first_up || !out->up_place || !out->up_layer)
        return false;
    chain->branches = out;
    chain->place_count = ideals->count;
    int *prefix = arena_alloc(arena, (size_t)chain->layer_count + 1, sizeof *prefix);
    for (int l = 0; prefix && l < chain->layer_count; l++)
        prefix[l + 1] = chain_extend(chain, prefix[l], l);
    out->prefix = prefix;
    return prefix && chain_set_keys(chain, arena);
}

bool chain_add_branches(struct chain *chain, struct arena *arena, const struct dag_edge *edges, int edge_count,
                        int most_ideals, struct error *err)
{
    struct dag dag;
    struct ideals ideals;
    if (!dag_build(&dag, arena, chain->layer_count, edges, edge_count, NULL, err) ||
        !ideals_build(&ideals, &dag, most_ideals, err))
        return false;
    if (ideals.complete && ideals.count == chain->layer_count + 1) {
        ideals_free(&ideals);
        return true;
    }
    chain->orders_left_out = !ideals.complete || chain->layer_count > PLACE_LAYERS;
    bool good = chain->orders_left_out || take_branches(chain, arena, &dag, &ideals, err);
    ideals_free(&ideals);
    return good || fail_memory(err);
}
