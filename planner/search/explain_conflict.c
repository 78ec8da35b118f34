#include "planner/search/explain_conflict.h"
#include "base/num.h"

#define ROOMY 1024.0 /* so much more memory is no constraint */
enum {
    MOST_TIMES = 64,
    MEMORY_STEPS = 7,
    ANY_RANKED = 8,
    ANY_GAP_PPM = 100000
}; /* steps of bisection: to less than 1 % */

const char *constraint_name(enum constraint constraint)
{
    if (constraint < CONSTRAINT_NODE)
        return space_choice_names[constraint - CONSTRAINT_CHOICE];
    return constraint == CONSTRAINT_NODE      ? "node"
           : constraint == CONSTRAINT_BATCH   ? "batch"
           : constraint == CONSTRAINT_DEVICES ? "devices"
                                              : "memory";
}

bool irreducible_set(uint32_t all, bool (*has_solution)(void *self, uint32_t set, bool *out, struct error *err),
                     void *self, uint32_t *out, struct error *err)
{
    uint32_t set = all;
    for (int i = 0; i < 32; i++) {
        uint32_t without = set & ~(UINT32_C(1) << i);
        bool solved = false;
        if (without == set)
            continue;
        if (!has_solution(self, without, &solved, err))
            return false;
        set = solved ? set : without;
    }
    *out = set;
    return true;
}

/* ---- is there a plan under some of the constraints? ---- */

static void narrow(struct allowed *allowed, int64_t value)
{
    if (allows(allowed, value))
        *allowed = (struct allowed){ 1, { value } };
}

/* Of each choice the value that needs least memory, of those that are allowed. */
static struct space thrifty(const struct space *space)
{
    struct space s = *space;
    int64_t least = s.micro.count > 0 ? INT64_MAX : 1;
    for (int zero = 3; zero > 0 && s.zero.count != 1; zero--)
        narrow(&s.zero, zero);
    for (int i = 0; i < s.micro.count; i++)
        least = min_i64(least, s.micro.values[i]);
    narrow(&s.recompute, RECOMPUTE_FULL);
    narrow(&s.offload, OFFLOAD_BOTH);
    narrow(&s.reshard, RESHARD_EACH_PASS);
    narrow(&s.micro, least);
    narrow(&s.prefetch, 0);
    return s;
}

/* The thrifty part of the space, and the whole if asked. */
static bool solve(struct explainer *e, const struct space *space, const struct variation *variation, bool whole,
                  const struct explained **out, struct error *err)
{
    struct space narrowed = thrifty(space);
    struct solution solution;
    struct varied varied;
    struct error why = { 0 };
    *out = NULL;
    if (!varied_open(&varied, e->facts, variation, &why))
        return why.kind == ERROR_INPUT || fail_kind(err, why.kind, "%s", why.message);
    bool good = explainer_find(e, &narrowed, &varied.facts, &solution, err);
    if (good && whole && solution.kind == SOLUTION_NO_MEMORY)
        good = explainer_find(e, space, &varied.facts, &solution, err);
    if (good)
        *out = solution.explained;
    varied_free(&varied);
    return good;
}

/* Batches that a free batch may take: the own first. */
static int batches_of(int64_t batch, int devices, bool is_free, int64_t out[4])
{
    int count = 0;
    const int64_t wanted[] = { batch, round_up(batch, devices), devices, 1 };
    for (int i = 0; i < (is_free ? 4 : 1); i++) {
        bool known = false;
        for (int k = 0; k < count; k++)
            known |= out[k] == wanted[i];
        if (!known)
            out[count++] = wanted[i];
    }
    return count;
}

enum { MAX_SIZES = 16 };

/* All nodes are one, where nodes are of one kind. */
static bool joins_nodes(const struct explainer *e)
{
    return e->facts->cluster->level_count == 2 && e->facts->cluster->group_count == 1;
}

/* Clusters that the constraints leave, as variations: the one given, its nodes joined, more nodes, fewer. */
static int sizes_of(const struct explainer *e, uint32_t set, struct variation out[MAX_SIZES])
{
    struct variation base = variation_none();
    bool free_devices = !(set >> CONSTRAINT_DEVICES & 1);
    int count = 0, units = cluster_units(e->facts->cluster);
    base.memory = set >> CONSTRAINT_MEMORY & 1 ? 1 : ROOMY;
    out[count++] = base;
    if (!(set >> CONSTRAINT_NODE & 1)) {
        out[count] = base;
        out[count++].widen = joins_nodes(e) ? units : 1;
    }
    for (int times = 2; free_devices && times <= MOST_TIMES; times *= 2) {
        out[count] = base;
        out[count++].times = times;
    }
    for (int fewer = units / 2; free_devices && fewer >= 1 && count < MAX_SIZES; fewer /= 2) {
        out[count] = base;
        out[count++].units = fewer;
    }
    return count;
}

static bool has_plan(void *self, uint32_t set, bool *out, struct error *err)
{
    struct explainer *e = self;
    struct space space = e->options.space;
    struct variation sizes[MAX_SIZES];
    const struct explained *plan = NULL;
    int64_t batches[4];
    bool tight = set >> CONSTRAINT_MEMORY & 1;
    for (int choice = 0; choice < SPACE_CHOICES; choice++)
        if (!(set >> (CONSTRAINT_CHOICE + choice) & 1))
            space_lift(&space, (enum space_choice)choice);
    int size_count = sizes_of(e, set, sizes);
    int batch_count = batches_of(space.batch, e->facts->cluster->device_count, !(set >> CONSTRAINT_BATCH & 1), batches);
    for (int s = 0; s < size_count && !plan; s++)
        for (int b = 0; b < batch_count && !plan; b++) {
            space.batch = batches[b];
            if (!solve(e, &space, &sizes[s], tight && s == 0 && b == 0, &plan, err))
                return false;
        }
    *out = plan != NULL;
    return true;
}

/* ---- the smallest change of each kind ---- */

/* Between `low`, which does not do, and `high`, which does: the least that does, to `grain`. */
struct ladder {
    bool (*solve)(struct explainer *e, int64_t value, const struct explained **plan, struct error *err);
    int64_t low, high, grain;
};

static bool bisect(struct explainer *e, const struct ladder *ladder, struct change *change, struct error *err)
{
    int64_t low = ladder->low, high = ladder->high;
    while ((high > low ? high - low : low - high) > ladder->grain && !explainer_ends(e)) {
        int64_t middle = low + (high - low) / 2;
        const struct explained *plan = NULL;
        if (!ladder->solve(e, middle, &plan, err))
            return false;
        if (plan) {
            high = middle;
            change->plan = plan;
        } else {
            low = middle;
        }
    }
    change->value = high;
    return true;
}

/* value: thousandths of the usable memory. */
static bool with_memory(struct explainer *e, int64_t permille, const struct explained **plan, struct error *err)
{
    struct variation v = variation_none();
    v.memory = (double)permille / 1000;
    return solve(e, &e->options.space, &v, false, plan, err);
}

static bool change_memory(struct explainer *e, struct change *c, struct error *err)
{
    struct ladder ladder = { with_memory, 1000, 1000, 0 };
    int64_t usable = available_bytes(e->facts), kept = INT64_MAX;
    for (int t = 0; t < e->facts->cluster->type_count; t++)
        kept = min_i64(kept, e->facts->cluster->types[t].device.memory_bytes - facts_available_bytes(e->facts, t));
    c->name = advice_names[ADVICE_MEMORY];
    c->constraint = CONSTRAINT_MEMORY;
    c->now = usable + kept;
    while (!c->plan && ladder.high < 1000 * (int64_t)ROOMY && !explainer_ends(e)) {
        ladder.low = ladder.high;
        ladder.high *= 2;
        if (!with_memory(e, ladder.high, &c->plan, err))
            return false;
    }
    ladder.grain = max_i64(1, ladder.high >> MEMORY_STEPS);
    if (c->plan && !bisect(e, &ladder, c, err))
        return false;
    c->value = kept + (int64_t)((double)usable / 1000 * (double)c->value) + 1;
    return true;
}

static bool with_units(struct explainer *e, int64_t units, const struct explained **plan, struct error *err)
{
    struct variation v = variation_none();
    v.units = (int)units;
    return solve(e, &e->options.space, &v, false, plan, err);
}

/* One node alone cannot have more devices: it becomes several. */
static bool with_times(struct explainer *e, int64_t times, const struct explained **plan, struct error *err)
{
    struct variation v = variation_none();
    v.times = (int)times;
    return solve(e, &e->options.space, &v, false, plan, err);
}

static bool change_devices(struct explainer *e, struct change *c, struct error *err)
{
    const struct cluster *cluster = e->facts->cluster;
    bool alone = cluster->level_count == 1;
    int64_t units = alone ? 1 : cluster_units(cluster);
    struct ladder ladder = { alone ? with_times : with_units, units, units, 1 };
    c->name = advice_names[ADVICE_DEVICES];
    c->constraint = CONSTRAINT_DEVICES;
    c->now = cluster->device_count;
    while (!c->plan && ladder.high < units * MOST_TIMES && !explainer_ends(e)) {
        ladder.low = ladder.high;
        ladder.high *= 2;
        if (!ladder.solve(e, ladder.high, &c->plan, err))
            return false;
    }
    if (c->plan && !bisect(e, &ladder, c, err))
        return false;
    c->value = c->plan ? c->plan->plan->rank_count : 0;
    return true;
}

static bool with_batch(struct explainer *e, int64_t batch, const struct explained **plan, struct error *err)
{
    struct variation v = variation_none();
    struct space space = e->options.space;
    space.batch = batch;
    return solve(e, &space, &v, false, plan, err);
}

/* The largest power of two's fraction; else the next that all devices could share out. Batches must divide, so what
 * lies between says nothing. */
static bool change_batch(struct explainer *e, struct change *c, struct error *err)
{
    int64_t batch = e->options.space.batch, next = round_up(batch, e->facts->cluster->device_count);
    c->name = advice_names[ADVICE_BATCH];
    c->constraint = CONSTRAINT_BATCH;
    c->now = batch;
    for (int64_t b = batch / 2; b >= 1 && !c->plan && !explainer_ends(e); b /= 2) {
        c->value = b;
        if (!with_batch(e, b, &c->plan, err))
            return false;
    }
    if (c->plan || next == batch)
        return true;
    c->value = next;
    return with_batch(e, next, &c->plan, err);
}

static bool with_sequence(struct explainer *e, int64_t tokens, const struct explained **plan, struct error *err)
{
    struct variation v = variation_none();
    struct space space = e->options.space;
    space.sequence = tokens;
    return solve(e, &space, &v, false, plan, err);
}

static bool change_sequence(struct explainer *e, struct change *c, struct error *err)
{
    struct graph *graph = NULL;
    if (!graph_build(&graph, e->model, e->options.space.batch, e->options.space.sequence, 1, err))
        return false;
    struct ladder ladder = { with_sequence, graph->sequence, graph->sequence, 0 };
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
    c->name = space_choice_names[choice];
    c->constraint = (enum constraint)(CONSTRAINT_CHOICE + choice);
    space_lift(&space, choice);
    return solve(e, &space, &v, false, &c->plan, err);
}

static bool find_changes(struct explainer *e, struct conflict *out, struct error *err)
{
    static bool (*const kinds[])(struct explainer *, struct change *,
                                 struct error *) = { change_memory, change_devices, change_batch, change_sequence };
    for (int choice = 0; choice < SPACE_CHOICES && !explainer_ends(e); choice++)
        if (!space_is_default(&e->options.space, (enum space_choice)choice) &&
            !change_choice(e, (enum space_choice)choice, &out->changes[out->change_count++], err))
            return false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !explainer_ends(e); i++)
        if (!kinds[i](e, &out->changes[out->change_count++], err))
            return false;
    for (int i = 0; i < out->change_count; i++)
        out->changes[i].found = out->changes[i].plan != NULL;
    return true;
}

static uint32_t constraints_in_force(const struct explainer *e)
{
    uint32_t set =
        UINT32_C(1) << CONSTRAINT_BATCH | UINT32_C(1) << CONSTRAINT_DEVICES | UINT32_C(1) << CONSTRAINT_MEMORY;
    if (joins_nodes(e))
        set |= UINT32_C(1) << CONSTRAINT_NODE;
    for (int choice = 0; choice < SPACE_CHOICES; choice++)
        if (!space_is_default(&e->options.space, (enum space_choice)choice))
            set |= UINT32_C(1) << (CONSTRAINT_CHOICE + choice);
    return set;
}

static bool find_conflict(struct explainer *e, struct conflict *out, struct error *err)
{
    uint32_t all = constraints_in_force(e);
    bool has_solution = false;
    *out = (struct conflict){ .available_bytes = available_bytes(e->facts) };
    if (!has_plan(e, all, &has_solution, err))
        return false;
    out->exists = !has_solution && !e->ended;
    if (!out->exists)
        return true;
    if (!irreducible_set(all, has_plan, e, &out->set, err))
        return false;
    out->irreducible = !e->ended;
    return explain_missing(e, &e->options.space, e->facts, &out->missing_bytes, err) && find_changes(e, out, err);
}

bool explain_conflict(struct explainer *e, struct conflict *out, struct error *err)
{
    struct search_options options = e->options;
    e->options.rank_count = ANY_RANKED; /* any plan that fits will do */
    e->options.gap_ppm = max_i64(options.gap_ppm, ANY_GAP_PPM);
    bool good = find_conflict(e, out, err);
    e->options = options;
    return good;
}
