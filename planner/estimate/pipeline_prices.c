#include "planner/estimate/pipeline_prices.h"
#include "base/num.h"
#include "planner/cost/cost_group.h"
#include <math.h>

struct priced {
    const struct plan *plan;
    const struct chain *chain;
    const struct price_table *table;
    const struct facts *facts; /* NULL: links are alike everywhere */
    int copy;
    struct arena *arena;
    const struct layer_price **price; /* (layers) by place */
};

static int stage_at(const struct priced *p, int layer)
{
    return plan_stage_of_copy(p->plan, layer, p->copy);
}

static const struct layer_price *find_price(const struct price_table *table, int class_index,
                                            const struct plan_layer *layer)
{
    int strategy = price_strategy(table, layer);
    return strategy >= 0 ? price_at(table, class_index, strategy) : NULL;
}

/* Adds to the price what its dp lane and its step do besides. */
static const struct layer_price *price_with(const struct layer_price *price, const struct layer_price *more,
                                            struct arena *arena)
{
    struct layer_price *sum = arena_alloc(arena, 1, sizeof *sum);
    if (!sum)
        return NULL;
    *sum = *price;
    sum->gather_forward_ns += more->gather_forward_ns;
    sum->gather_backward_ns += more->gather_backward_ns;
    sum->gather_once_ns += more->gather_once_ns;
    sum->reduce_ns += more->reduce_ns;
    sum->reduce_last_ns += more->reduce_last_ns;
    sum->reduce_tail_ns = max_i64(sum->reduce_tail_ns, more->reduce_tail_ns);
    sum->step_ns += more->step_ns;
    return sum;
}

/* Gives the atoms of ranks that reduce gradients, which are the same for all layers. */
static unsigned data_atoms(const struct plan *plan)
{
    unsigned atoms = 0;
    for (int i = 0; i < plan->atom_count; i++)
        if (dimension_deals_batch(dimensions[plan->layers[0].dim[i]]))
            atoms |= 1u << i;
    return atoms;
}

/* Times a bucket of gradients on the stage. */
static double bucket_ns(const struct priced *p, int stage, unsigned atoms)
{
    enum { USUAL_BYTES = 25 << 20 };
    int64_t bytes = p->plan->bucket_bytes > 0 ? p->plan->bucket_bytes : USUAL_BYTES;
    struct group group = group_of_stage(p->facts->cluster, p->plan, stage, atoms);
    int64_t wire_bytes = 2 * bytes * (group.ranks - 1) / group.ranks;
    return (double)cost_of_group(p->facts, OP_ALL_REDUCE, bytes, wire_bytes, &group).ns;
}

/* Prices are of a stage at the cluster's first ranks; those of another may lie on more nodes. How many times as long
 * transfers of weights and gradients take there. */
static double lane_factor(const struct priced *p, int stage)
{
    unsigned atoms = data_atoms(p->plan);
    if (!p->facts || !price_is_one(p->table) || p->plan->stages[0].first_rank != 0)
        return 1;
    double first_ns = bucket_ns(p, 0, atoms);
    return first_ns > 0 ? bucket_ns(p, stage, atoms) / first_ns : 1;
}

static int64_t times(int64_t ns, double factor)
{
    return (int64_t)fmin((double)ns * factor, (double)MAX_TIME_NS);
}

/* Scales what the layer takes on its links, and its step where that hands out updated weights, which is most of it. */
static const struct layer_price *on_other_links(const struct layer_price *price, const struct plan_layer *layer,
                                                double factor, struct arena *arena)
{
    struct layer_price *own = arena_alloc(arena, 1, sizeof *own);
    if (!own)
        return NULL;
    *own = *price;
    own->gather_forward_ns = times(price->gather_forward_ns, factor);
    own->gather_backward_ns = times(price->gather_backward_ns, factor);
    own->gather_once_ns = times(price->gather_once_ns, factor);
    own->reduce_ns = times(price->reduce_ns, factor);
    own->reduce_last_ns = times(price->reduce_last_ns, factor);
    own->reduce_tail_ns = times(price->reduce_tail_ns, factor);
    if (layer->zero == 1 || layer->zero == 2)
        own->step_ns = times(price->step_ns, factor);
    return own;
}

static bool place_layers(const struct priced *p)
{
    for (int stage = 0; stage < p->plan->stage_count; stage++) {
        double factor = lane_factor(p, stage);
        for (int l = 0; factor != 1 && l < p->chain->layer_count; l++)
            if (stage_at(p, l) == stage &&
                !(p->price[l] = on_other_links(p->price[l], &p->plan->layers[l], factor, p->arena)))
                return false;
    }
    return true;
}

/* Prices have all that a weight costs with the first of its layers. Another stage has what its own layer does. */
static bool take_part(const struct priced *p, int place)
{
    int class_index = p->chain->class_of[p->chain->tied_first];
    const struct layer_price *like =
        find_price(price_of_plan_stage(p->table, p->plan, stage_at(p, place)), class_index, &p->plan->layers[place]);
    if (!like || like->exchange_bytes == 0)
        return true;
    double share = (double)like->tied_gradient_bytes / (double)like->exchange_bytes;
    struct layer_price more = { .gather_once_ns = like->tied_gather_once_ns,
                                .gather_forward_ns = like->tied_gather_forward_ns,
                                .gather_backward_ns = like->tied_gather_backward_ns,
                                .reduce_ns = like->tied_reduce_ns,
                                .reduce_last_ns = (int64_t)(share * (double)like->reduce_last_ns),
                                .reduce_tail_ns = (int64_t)(share * (double)like->reduce_tail_ns),
                                .step_ns = (int64_t)(share * (double)(like->step_ns - like->norm_ns)) };
    p->price[place] = price_with(p->price[place], &more, p->arena);
    return p->price[place] != NULL;
}

/* True when another layer before it has the weight on its stage. */
static bool is_held(const struct priced *p, int place)
{
    for (int l = 0; l < place; l++)
        if (chain_is_tied(p->chain, plan_layer_at(p->plan, l)) && stage_at(p, l) == stage_at(p, place))
            return true;
    return false;
}

/* Corrects the prices of layers whose common weight lies on several stages. */
static bool part_tied(const struct priced *p)
{
    int first = -1, last = -1;
    for (int l = 0; l < p->chain->layer_count && p->chain->tied_first >= 0; l++) {
        if (!chain_is_tied(p->chain, plan_layer_at(p->plan, l)))
            continue;
        first = first < 0 ? l : first;
        last = l;
        if (l != first && !is_held(p, l) && !take_part(p, l))
            return false;
    }
    if (first < 0 || stage_at(p, first) == stage_at(p, last))
        return true;
    const struct layer_price *own = p->price[first];
    struct layer_price less = { .gather_forward_ns = -own->tied_gather_forward_ns,
                                .gather_backward_ns = -own->tied_gather_backward_ns,
                                .reduce_ns = -own->tied_reduce_ns };
    p->price[first] = price_with(own, &less, p->arena);
    return p->price[first] != NULL;
}

bool pipeline_prices(const struct layer_price ***out, const struct plan *plan, const struct chain *chain,
                     const struct price_table *table, const struct facts *facts, int copy, struct arena *arena,
                     struct error *err)
{
    struct priced p = {
        plan, chain, table, facts, copy, arena, arena_alloc(arena, (size_t)chain->layer_count, sizeof *p.price)
    };
    if (!p.price)
        return fail_memory(err);
    for (int l = 0; l < chain->layer_count; l++) {
        const struct price_table *own = price_of_plan_stage(table, plan, stage_at(&p, l));
        p.price[l] = find_price(own, chain->class_of[plan_layer_at(plan, l)], &plan->layers[l]);
        if (!p.price[l])
            return fail_kind(err, ERROR_BUG, "search: layer %d has a strategy without a price", l);
    }
    *out = p.price;
    return (place_layers(&p) && part_tied(&p)) || fail_memory(err);
}
