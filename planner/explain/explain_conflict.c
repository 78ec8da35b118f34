#include "planner/explain/explain_conflict.h"
#include "base/num.h"
#include "models/model.h"
#include "planner/estimate/effort.h"
#include <string.h>

#define ROOMY 1024.0 /* so much more memory is no constraint */

/* ---- is there a plan under some of the constraints? ---- */

/* Leaves each choice the allowed value that needs least memory; one device has nobody to share its state with. */
static struct space thrifty(const struct space *space, const struct cluster *cluster)
{
    struct space s = *space;
    int64_t least = s.micro.count > 0 ? INT64_MAX : 1;
    for (int zero = cluster->device_count > 1 ? 3 : 0; zero >= 0 && s.zero.count != 1; zero--)
        allowed_narrow(&s.zero, zero);
    for (int i = 0; i < s.micro.count; i++)
        least = min_i64(least, s.micro.values[i]);
    allowed_narrow(&s.recompute, RECOMPUTE_FULL);
    allowed_narrow(&s.excepted, 0);
    allowed_narrow(&s.offload, allowed_has(&s.offload, OFFLOAD_ALL) ? OFFLOAD_ALL : OFFLOAD_BOTH);
    allowed_narrow(&s.reshard, RESHARD_EACH_PASS);
    allowed_narrow(&s.replicate, 0);
    allowed_narrow(&s.micro, least);
    allowed_narrow(&s.prefetch, 0);
    return s;
}

/* Solves the thrifty part of the space for any plan; the whole if asked, or where a target cannot be told that part. */
static bool solve_on(struct explainer *e, const struct space *space, const struct facts *facts, bool whole,
                     const struct explained **out, struct error *err)
{
    struct space narrowed = thrifty(space, facts->cluster);
    struct solution solution;
    e->options.any_plan = true;
    bool good = explainer_solve(e, &narrowed, facts, &solution, err);
    if (good && ((whole && solution.kind == SOLUTION_NO_MEMORY) || (e->search && solution.kind == SOLUTION_NONE)))
        good = explainer_solve(e, space, facts, &solution, err);
    e->options.any_plan = false;
    *out = good ? solution.explained : NULL;
    return good;
}

static bool solve(struct explainer *e, const struct space *space, const struct variation *variation,
                  const struct explained **out, struct error *err)
{
    struct varied varied;
    struct error why = { 0 };
    *out = NULL;
    if (!varied_open(&varied, e->facts, variation, &why))
        return why.kind == ERROR_INPUT || fail_with(err, &why);
    bool good = solve_on(e, space, &varied.facts, false, out, err);
    varied_free(&varied);
    return good;
}

static bool has_config(const struct space *space, const struct graph *graph, const struct cluster *cluster)
{
    struct space narrowed = thrifty(space, cluster);
    return space_count(&narrowed, graph, cluster) > 0;
}

/* Gives the nearest batch below or above `from` that has a configuration; 0: there is none. */
static int64_t legal_batch(const struct space *space, const struct graph *graph, const struct cluster *cluster,
                           int64_t from, bool above)
{
    struct space narrowed = thrifty(space, cluster);
    narrowed.batch = from;
    return space_nearest_batch(&narrowed, graph, cluster, above);
}

/* ---- batches and clusters that the constraints leave ---- */

enum { MAX_BATCHES = 7, MAX_SIZES = 96, MAX_PRODUCTS = 8 };

/* Lists the batches that a free batch may take: the own first. */
static int batches_of(const struct space *space, const struct graph *graph, const struct cluster *cluster, bool is_free,
                      int64_t out[MAX_BATCHES])
{
    int count = 0, devices = cluster->device_count;
    bool nearest = is_free && !has_config(space, graph, cluster);
    const int64_t wanted[MAX_BATCHES] = {
        space->batch,
        nearest ? legal_batch(space, graph, cluster, space->batch, false) : 0,
        nearest ? legal_batch(space, graph, cluster, space->batch, true) : 0,
        is_free ? legal_batch(space, graph, cluster, 0, true) : 0,
        is_free ? round_up(space->batch, devices) : 0,
        is_free ? devices : 0,
        is_free ? 1 : 0,
    };
    for (int i = 0; i < MAX_BATCHES; i++) {
        bool known = wanted[i] < 1;
        for (int k = 0; k < count; k++)
            known |= out[k] == wanted[i];
        if (!known)
            out[count++] = wanted[i];
    }
    return count;
}

/* True where all nodes can become one, being of one kind. */
static bool joins_nodes(const struct explainer *e)
{
    return e->facts->cluster->level_count == 2 && e->facts->cluster->group_count == 1;
}

/* True for one node alone, which cannot have more devices: it becomes several. */
static bool is_alone(const struct explainer *e)
{
    return e->facts->cluster->level_count == 1;
}

static int64_t nodes_of(const struct explainer *e)
{
    return is_alone(e) ? 1 : variation_units(e->facts->cluster);
}

static struct variation with_nodes(const struct explainer *e, int64_t nodes)
{
    struct variation v = variation_none();
    *(is_alone(e) ? &v.times : &v.units) = (int)nodes;
    return v;
}

static int times_each(int64_t *products, int count, const struct allowed *degrees)
{
    int64_t more[MAX_PRODUCTS], product;
    int found = 0;
    if (degrees->count == 0)
        return count;
    for (int i = 0; i < count; i++)
        for (int d = 0; d < degrees->count && found < MAX_PRODUCTS; d++)
            if (mul_i64(&product, products[i], degrees->values[d]) && product <= MAX_DEVICES)
                more[found++] = product;
    for (int i = 0; i < found; i++)
        products[i] = more[i];
    return found;
}

/* Lists what the devices are a multiple of: products of the degrees that the space names. */
static int fixed_products(const struct space *space, int64_t out[MAX_PRODUCTS])
{
    out[0] = 1;
    int count = times_each(out, 1, &space->tensor);
    count = times_each(out, count, &space->context);
    count = !allowed_several(&space->turns) ? times_each(out, count, &space->stages) : count;
    return times_each(out, count, space->data.count > 0 ? &space->data : &space->expert);
}

/* Gives how many nodes at least have whole multiples of so many devices. */
static int64_t nodes_step(const struct explainer *e, int64_t product)
{
    return product / common_divisor(product, e->facts->cluster->device_count / nodes_of(e));
}

struct sizes {
    struct variation base; /* the memory */
    int count;
    struct variation list[MAX_SIZES];
};

static void add_size(struct sizes *s, struct variation v)
{
    v.memory = s->base.memory;
    if (s->count < MAX_SIZES)
        s->list[s->count++] = v;
}

/* Adds multiples of what degrees need: they must divide, so what lies between says nothing. */
static void add_multiples(const struct explainer *e, const struct space *space, struct sizes *s)
{
    static const int multiples[] = { 1, 2, 3, 5, 7 };
    int64_t products[MAX_PRODUCTS], nodes = nodes_of(e), devices = e->facts->cluster->device_count;
    int count = fixed_products(space, products);
    for (size_t m = 0; m < sizeof multiples / sizeof *multiples; m++)
        for (int i = 0; i < count; i++) {
            int64_t wanted = multiples[m] * nodes_step(e, products[i]);
            if (wanted != nodes && (m == 0 || wanted <= nodes * ADVICE_TIMES))
                add_size(s, with_nodes(e, wanted));
            struct variation part = variation_none();
            part.units = (int)min_i64(multiples[m] * products[i], devices);
            if (is_alone(e) && part.units < devices)
                add_size(s, part);
        }
}

/* Lists sizes as variations: the cluster given, its nodes joined, multiples of what degrees need, more nodes, fewer. */
static void sizes_of(const struct explainer *e, const struct space *space, uint64_t set, struct sizes *s)
{
    bool free_devices = !(set >> CONSTRAINT_DEVICES & 1);
    int units = variation_units(e->facts->cluster);
    s->base = variation_none();
    s->base.memory = set >> CONSTRAINT_MEMORY & 1 ? 1 : ROOMY;
    s->count = 0;
    add_size(s, s->base);
    struct variation v = s->base;
    v.widen = joins_nodes(e) ? units : 1;
    if (!(set >> CONSTRAINT_NODE & 1))
        add_size(s, v);
    if (free_devices)
        add_multiples(e, space, s);
    v = s->base;
    for (v.times = 2; free_devices && v.times <= ADVICE_TIMES; v.times *= 2)
        add_size(s, v);
    v = s->base;
    for (v.units = units / 2; free_devices && v.units >= 1; v.units /= 2)
        add_size(s, v);
}

/* Finds a plan on that size, with any batch that the constraints leave. */
static bool plan_of_size(struct explainer *e, struct space space, const struct graph *graph,
                         const struct variation *size, uint64_t set, bool whole, const struct explained **plan,
                         struct error *err)
{
    struct varied varied;
    struct error why = { 0 };
    int64_t batches[MAX_BATCHES];
    bool good = true;
    if (!varied_open(&varied, e->facts, size, &why))
        return why.kind == ERROR_INPUT || fail_with(err, &why);
    int count = batches_of(&space, graph, varied.cluster, !(set >> CONSTRAINT_BATCH & 1), batches);
    for (int b = 0; good && b < count && !*plan; b++) {
        space.batch = batches[b];
        good = solve_on(e, &space, &varied.facts, whole && b == 0, plan, err);
    }
    varied_free(&varied);
    return good;
}

static bool has_plan(void *self, uint64_t set, bool *out, struct error *err)
{
    struct explainer *e = self;
    struct space space = e->options.space;
    struct sizes sizes;
    struct graph *graph = NULL;
    const struct explained *plan = NULL;
    bool tight = set >> CONSTRAINT_MEMORY & 1, good = true;
    for (int choice = 0; choice < CHOICE_COUNT; choice++)
        if (!(set >> (CONSTRAINT_CHOICE + choice) & 1))
            space_lift(&space, (enum space_choice)choice);
    if (!graph_build(&graph, e->model, space.batch, space.sequence, 1, err))
        return false;
    sizes_of(e, &space, set, &sizes);
    for (int s = 0; good && s < sizes.count && !plan; s++)
        good = plan_of_size(e, space, graph, &sizes.list[s], set, tight && s == 0, &plan, err);
    graph_free(graph);
    *out = plan != NULL;
    return good;
}

/* ---- the smallest change of each kind ---- */

/* Between `low`, which does not do, and `high`, which does, lies the least that does, sought to `grain`. */
struct ladder {
    bool (*solve)(struct explainer *e, int64_t value, const struct explained **plan, struct error *err);
    int64_t low, high, grain, step; /* step: of the values asked for, which are multiples of it */
};

static bool bisect(struct explainer *e, const struct ladder *ladder, struct change *change, struct error *err)
{
    int64_t low = ladder->low, high = ladder->high;
    while ((high > low ? high - low : low - high) > ladder->grain && !explainer_ends(e)) {
        int64_t middle = low + (high - low) / 2;
        const struct explained *plan = NULL;
        if (!ladder->solve(e, middle * ladder->step, &plan, err))
            return false;
        if (plan) {
            high = middle;
            change->plan = plan;
        } else {
            low = middle;
        }
    }
    change->value = high * ladder->step;
    return true;
}

int64_t change_bytes(const struct change *change, int64_t all_bytes, int64_t usable_bytes)
{
    return all_bytes - usable_bytes + (int64_t)((double)usable_bytes * change->times) + 1;
}

/* Solves with other memory; value: thousandths of the usable memory. */
static bool with_memory(struct explainer *e, int64_t permille, const struct explained **plan, struct error *err)
{
    struct variation v = variation_none();
    v.memory = (double)permille / 1000;
    return solve(e, &e->options.space, &v, plan, err);
}

static bool change_memory(struct explainer *e, const struct conflict *conflict, struct change *c, struct error *err)
{
    struct ladder ladder = { with_memory, 1000, 1000, 0, 1 };
    int type = 0; /* that lacks most */
    while (type + 1 < conflict->type_count && (conflict->types[type].stage != conflict->stage ||
                                               conflict->types[type].available_bytes != conflict->available_bytes))
        type++;
    int64_t usable = facts_available_bytes(e->facts, type);
    c->name = advice_names[ADVICE_MEMORY];
    c->constraint = CONSTRAINT_MEMORY;
    c->now = e->facts->cluster->types[type].device.memory_bytes;
    while (!c->plan && ladder.high < 1000 * (int64_t)ROOMY && !explainer_ends(e)) {
        ladder.low = ladder.high;
        ladder.high *= 2;
        if (!with_memory(e, ladder.high, &c->plan, err))
            return false;
    }
    ladder.grain = max_i64(1, ladder.high >> CONFLICT_HALVES);
    if (c->plan && !bisect(e, &ladder, c, err))
        return false;
    c->times = (double)c->value / 1000;
    c->value = change_bytes(c, c->now, usable);
    return true;
}

static bool on_nodes(struct explainer *e, int64_t nodes, const struct explained **plan, struct error *err)
{
    struct variation v = with_nodes(e, nodes);
    return solve(e, &e->options.space, &v, plan, err);
}

/* True when the cluster can be of that size. */
static bool varies_legally(const struct explainer *e, const struct graph *graph, const struct variation *variation)
{
    struct varied varied;
    if (!varied_open(&varied, e->facts, variation, NULL))
        return false;
    bool legal = has_config(&e->options.space, graph, varied.cluster);
    varied_free(&varied);
    return legal;
}

/* Gives the first multiple of the step, from the given one on, that has a configuration; else the given one. */
static int64_t next_legal(const struct explainer *e, const struct graph *graph, int64_t multiple, int64_t step)
{
    enum { TRIES = 64 };
    for (int i = 0; i < TRIES; i++) {
        struct variation v = with_nodes(e, (multiple + i) * step);
        if (varies_legally(e, graph, &v))
            return multiple + i;
    }
    return multiple;
}

/* Tries more nodes: from what has no configuration by small steps, as most of what lies between has none either. */
static bool more_devices(struct explainer *e, const struct graph *graph, bool legal, int64_t step, struct change *c,
                         struct error *err)
{
    int64_t nodes = nodes_of(e), further = legal ? max_i64(nodes / step, 1) : 1;
    struct ladder ladder = { on_nodes, nodes / step, nodes / step, 1, step };
    while (!c->plan && ladder.high * step < nodes * ADVICE_TIMES && !explainer_ends(e)) {
        ladder.low = ladder.high;
        ladder.high = next_legal(e, graph, ladder.low + further, step);
        further *= 2;
        if (!ladder.solve(e, ladder.high * step, &c->plan, err))
            return false;
    }
    return !c->plan || bisect(e, &ladder, c, err);
}

/* Tries whole nodes, or devices of the only one: the most that do. Fewer do not help where memory is short. */
static bool fewer_devices(struct explainer *e, const struct graph *graph, struct change *c, struct error *err)
{
    struct variation v = variation_none();
    for (v.units = variation_units(e->facts->cluster) - 1; v.units >= 1 && !c->plan && !explainer_ends(e); v.units--)
        if (varies_legally(e, graph, &v) && !solve(e, &e->options.space, &v, &c->plan, err))
            return false;
    return true;
}

/* Gives what all the nodes that the named degrees need are a multiple of. */
static int64_t common_step(const struct explainer *e)
{
    int64_t products[MAX_PRODUCTS], step = 0;
    int count = fixed_products(&e->options.space, products);
    for (int i = 0; i < count; i++)
        step = common_divisor(step, nodes_step(e, products[i]));
    return max_i64(step, 1);
}

static bool change_devices(struct explainer *e, struct change *c, struct error *err)
{
    const struct space *space = &e->options.space;
    struct graph *graph = NULL;
    c->name = advice_names[ADVICE_DEVICES];
    c->constraint = CONSTRAINT_DEVICES;
    c->now = e->facts->cluster->device_count;
    if (!graph_build(&graph, e->model, space->batch, space->sequence, 1, err))
        return false;
    bool legal = has_config(space, graph, e->facts->cluster),
         good = more_devices(e, graph, legal, common_step(e), c, err) &&
                (c->plan || legal || fewer_devices(e, graph, c, err));
    graph_free(graph);
    c->value = c->plan ? c->plan->plan->rank_count : 0;
    return good;
}

static bool with_batch(struct explainer *e, int64_t batch, const struct explained **plan, struct error *err)
{
    struct variation v = variation_none();
    struct space space = e->options.space;
    space.batch = batch;
    return solve(e, &space, &v, plan, err);
}

/* Finds a larger batch that fits, below one that does not. */
static bool enlarge_batch(struct explainer *e, const struct graph *graph, int64_t failed, struct change *c,
                          struct error *err)
{
    enum { STEPS = 10 };
    const struct space *space = &e->options.space;
    const struct cluster *cluster = e->facts->cluster;
    for (int n = 0; n < STEPS && failed - c->value > 1 && !explainer_ends(e); n++) {
        int64_t middle = c->value + (failed - c->value) / 2,
                next = legal_batch(space, graph, cluster, middle - 1, true);
        const struct explained *plan = NULL;
        if (next >= failed || next <= c->value)
            next = legal_batch(space, graph, cluster, middle, false);
        if (next <= c->value)
            return true;
        if (!with_batch(e, next, &plan, err))
            return false;
        failed = plan ? failed : next;
        c->value = plan ? next : c->value;
        c->plan = plan ? plan : c->plan;
    }
    return true;
}

/* Tries the nearer neighbour first, where the batch has no configuration; then downwards by halves, from each to the
 * next that has one, and up again as far as it goes; else the next above, and what all devices share out. */
static bool try_batches(struct explainer *e, const struct graph *graph, struct change *c, struct error *err)
{
    const struct space *space = &e->options.space;
    const struct cluster *cluster = e->facts->cluster;
    bool legal = has_config(space, graph, cluster);
    int64_t below = legal_batch(space, graph, cluster, legal ? c->now / 2 + 1 : c->now, false),
            above = legal ? 0 : legal_batch(space, graph, cluster, c->now, true),
            shared = round_up(c->now, cluster->device_count);
    int64_t failed = c->now;
    bool nearer = above > 0 && above - c->now < c->now - below;
    if (nearer && !with_batch(e, c->value = above, &c->plan, err))
        return false;
    for (; below > 0 && !c->plan && !explainer_ends(e);
         below = legal_batch(space, graph, cluster, below / 2 + 1, false)) {
        if (!with_batch(e, c->value = below, &c->plan, err) || (c->plan && !enlarge_batch(e, graph, failed, c, err)))
            return false;
        failed = below;
    }
    if (!c->plan && !nearer && above > 0 && !with_batch(e, c->value = above, &c->plan, err))
        return false;
    return c->plan || shared == c->now || with_batch(e, c->value = shared, &c->plan, err);
}

static bool change_batch(struct explainer *e, struct change *c, struct error *err)
{
    const struct space *space = &e->options.space;
    struct graph *graph = NULL;
    c->name = advice_names[ADVICE_BATCH];
    c->constraint = CONSTRAINT_BATCH;
    c->now = space->batch;
    if (!graph_build(&graph, e->model, space->batch, space->sequence, 1, err))
        return false;
    bool good = try_batches(e, graph, c, err);
    graph_free(graph);
    return good;
}

static bool with_sequence(struct explainer *e, int64_t tokens, const struct explained **plan, struct error *err)
{
    struct variation v = variation_none();
    struct space space = e->options.space;
    space.sequence = tokens;
    return solve(e, &space, &v, plan, err);
}

static bool change_sequence(struct explainer *e, struct change *c, struct error *err)
{
    struct graph *graph = NULL;
    if (!graph_build(&graph, e->model, e->options.space.batch, e->options.space.sequence, 1, err))
        return false;
    struct ladder ladder = { with_sequence, graph->sequence, graph->sequence, 0, 1 };
    graph_free(graph);
    c->name = advice_names[ADVICE_SEQUENCE];
    c->constraint = CONSTRAINT_COUNT;
    c->now = ladder.low;
    while (!c->plan && ladder.high > 1 && !explainer_ends(e)) {
        ladder.low = ladder.high;
        ladder.high /= 2;
        if (!with_sequence(e, ladder.high, &c->plan, err))
            return false;
    }
    ladder.grain = max_i64(1, ladder.high / 8);
    return !c->plan || bisect(e, &ladder, c, err);
}

static bool change_choice(struct explainer *e, enum space_choice choice, struct change *c, struct error *err)
{
    struct variation v = variation_none();
    struct space space = e->options.space;
    c->name = choice_facts[choice].name;
    c->constraint = (enum constraint)(CONSTRAINT_CHOICE + choice);
    space_lift(&space, choice);
    return solve(e, &space, &v, &c->plan, err);
}

static bool find_changes(struct explainer *e, struct conflict *out, struct error *err)
{
    static bool (*const kinds[])(struct explainer *, struct change *, struct error *) = { change_devices, change_batch,
                                                                                          change_sequence };
    for (int choice = 0; choice < CHOICE_COUNT && !explainer_ends(e); choice++)
        if (!space_is_default(&e->options.space, (enum space_choice)choice) &&
            !change_choice(e, (enum space_choice)choice, &out->changes[out->change_count++], err))
            return false;
    if (!explainer_ends(e) && !change_memory(e, out, &out->changes[out->change_count++], err))
        return false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !explainer_ends(e); i++)
        if (!kinds[i](e, &out->changes[out->change_count++], err))
            return false;
    for (int i = 0; i < out->change_count; i++)
        out->changes[i].found = out->changes[i].plan != NULL;
    return true;
}

static uint64_t constraints_in_force(const struct explainer *e)
{
    uint64_t set =
        UINT64_C(1) << CONSTRAINT_BATCH | UINT64_C(1) << CONSTRAINT_DEVICES | UINT64_C(1) << CONSTRAINT_MEMORY;
    if (joins_nodes(e))
        set |= UINT64_C(1) << CONSTRAINT_NODE;
    for (int choice = 0; choice < CHOICE_COUNT; choice++)
        if (!space_is_default(&e->options.space, (enum space_choice)choice))
            set |= UINT64_C(1) << (CONSTRAINT_CHOICE + choice);
    return set;
}

/* Finds what the nearest plan lacks, and where. */
static bool find_missing(struct explainer *e, struct conflict *out, struct error *err)
{
    struct search_result *result = NULL;
    out->stage = -1;
    if (!explain_nearest(e, &e->options.space, e->facts, &result, err))
        return false;
    if (result && result->nearest.plan) {
        out->stage = result->nearest.stage;
        out->missing_bytes = search_missing_bytes(result);
        out->of_hosts = result->nearest.host_needed_bytes > 0;
        out->available_bytes = result->nearest.available_bytes;
        out->type_count = result->nearest.type_count;
        memcpy(out->types, result->nearest.types, sizeof out->types);
    }
    search_result_free(result);
    return true;
}

static bool find_conflict(struct explainer *e, struct conflict *out, struct error *err)
{
    uint64_t all = constraints_in_force(e);
    bool has_solution = false;
    *out = (struct conflict){ .available_bytes = facts_most_bytes(e->facts) };
    if (!has_plan(e, all, &has_solution, err))
        return false;
    out->exists = !has_solution && !e->ended;
    if (!out->exists)
        return true;
    if (!filter_irreducible(all, has_plan, e, &out->set, err))
        return false;
    out->irreducible = !e->ended;
    return find_missing(e, out, err) && find_changes(e, out, err);
}

bool explain_conflict(struct explainer *e, struct conflict *out, struct error *err)
{
    struct search_options options = e->options;
    e->options.rank_count = CONFLICT_RANKED; /* any plan that fits will do */
    e->options.gap_ppm = max_i64(options.gap_ppm, CONFLICT_GAP_PPM);
    bool good = find_conflict(e, out, err);
    e->options = options;
    return good;
}
