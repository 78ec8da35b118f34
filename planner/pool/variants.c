/* What the formula mixes may be worse than what it leaves alone: it lets gathers hide behind any computation of the
 * stage, the walk and the judge do not. So the configurations that lead by rank are solved again with part of their
 * strategies, one stage of ZeRO or one kind of recomputation for all layers, as a user's restriction would; and with
 * all of them as if no layer waited for its reductions, since those that do may have others between them that do not.
 */
#include "base/num.h"
#include "planner/pool/run.h"
#include <string.h>

/* LEADERS: so many configurations, within LEADER_PERMILLE of the best rank; MANY of a small model. REACH_PERMILLE:
 * their formula may be so much above the best rank. */
enum {
    LEADERS = 3,
    LEADER_PERMILLE = 20,
    MANY_LEADERS = 16,
    MANY_PERMILLE = 1000,
    REACH_PERMILLE = 10,
    VARIANT_GAP_PPM = 1000
};

/* Strategies that have the value; -1 any. gatherless: without ZeRO-3. */
struct filter {
    int zero, recompute;
    bool gatherless;
};
enum { ZEROS = 4, FILTERS = (ZEROS + 1) * (RECOMPUTE_COUNT + 1) - 1, WAITLESS = FILTERS + 1 };
_Static_assert((int)PART_GATHERLESS == WAITLESS + 1, "parts are numbered through");

static struct filter filter_at(int index)
{
    if (index == PART_GATHERLESS)
        return (struct filter){ -1, -1, true };
    return (struct filter){ .zero = index % (ZEROS + 1) - 1, .recompute = index / (ZEROS + 1) - 1 };
}

static bool passes(const struct filter *filter, const struct plan_layer *layer)
{
    return (!filter->gatherless || layer->zero < 3) && (filter->zero < 0 || layer->zero == filter->zero) &&
           (filter->recompute < 0 || layer->recompute == filter->recompute);
}

/* Some strategy of each layout. */
static bool all_layouts_pass(const struct price_table *table, const struct filter *filter)
{
    for (int layout = 0; price_has_layouts(table) && layout < table->layout_count; layout++) {
        int i = table->layout_first[layout];
        while (i < table->layout_first[layout + 1] && !passes(filter, &table->strategies[i].layer))
            i++;
        if (i == table->layout_first[layout + 1])
            return false;
    }
    return true;
}

static void set_layouts(struct price_table *part, const struct price_table *table)
{
    for (int layout = 0; layout < table->layout_count; layout++) {
        int *end = &part->layout_first[layout + 1];
        *end = part->layout_first[layout];
        for (int i = table->layout_first[layout]; i < table->layout_first[layout + 1]; i++)
            *end += price_strategy(part, &table->strategies[i].layer) >= 0;
    }
}

/* The table with its strategies at[0..count) alone; NULL: out of memory. */
static struct price_table *pick_strategies(struct arena *arena, const struct price_table *table, const int *at,
                                           int count)
{
    struct price_table *part = arena_alloc(arena, 1, sizeof *part);
    struct strategy *strategies = arena_alloc(arena, (size_t)count, sizeof *strategies);
    struct layer_price *prices = arena_alloc(arena, (size_t)(count * table->class_count), sizeof *prices);
    if (!part || !strategies || !prices)
        return NULL;
    for (int i = 0; i < count; i++) {
        strategies[i] = table->strategies[at[i]];
        for (int c = 0; c < table->class_count; c++)
            prices[c * count + i] = *price_at(table, c, at[i]);
    }
    *part = *table;
    part->strategy_count = count;
    part->strategies = strategies;
    part->prices = prices;
    return part;
}

/* The table of the strategies that pass. *out NULL: all of them do, or none; or stages have tables of their own, by the
 * types of their devices. */
static bool part_of(const struct run *run, struct arena *arena, const struct price_table *table,
                    const struct filter *filter, const struct price_table **out)
{
    int count = 0, *at = arena_alloc(arena, (size_t)table->strategy_count, sizeof *at);
    *out = NULL;
    if (table->by_stage || table->by_place)
        return true;
    for (int i = 0; at && i < table->strategy_count; i++)
        if (passes(filter, &table->strategies[i].layer))
            at[count++] = i;
    if (!at)
        return search_out_of_memory(run->err);
    if (count == 0 || count == table->strategy_count || !all_layouts_pass(table, filter))
        return true;
    struct price_table *part = pick_strategies(arena, table, at, count);
    if (!part)
        return search_out_of_memory(run->err);
    set_layouts(part, table);
    *out = part;
    if (!table->by_turns)
        return true;
    const struct price_table **by_turns = arena_alloc(arena, (size_t)table->turn_count, sizeof *by_turns);
    part->by_turns = by_turns;
    for (int i = 0; by_turns && i < table->turn_count; i++)
        if (!(by_turns[i] = pick_strategies(arena, table->by_turns[i], at, count)))
            return search_out_of_memory(run->err);
    return by_turns || search_out_of_memory(run->err);
}

/* The table without waits. *out NULL: there are none. */
static bool waitless(const struct run *run, struct arena *arena, const struct price_table *table,
                     const struct price_table **out)
{
    int count = table->class_count * table->strategy_count;
    int64_t waits_ns = 0;
    *out = NULL;
    for (int i = 0; i < count; i++)
        waits_ns += table->prices[i].wait_ns;
    if (waits_ns == 0 || table->by_turns)
        return true;
    struct price_table *copy = arena_alloc(arena, 1, sizeof *copy);
    struct layer_price *prices = arena_alloc(arena, (size_t)count, sizeof *prices);
    if (!copy || !prices)
        return search_out_of_memory(run->err);
    for (int i = 0; i < count; i++) {
        prices[i] = table->prices[i];
        prices[i].backward_ns -= prices[i].wait_ns;
        prices[i].wait_ns = 0;
    }
    *copy = *table;
    copy->prices = prices;
    *out = copy;
    return true;
}

bool search_part(struct run *run, const struct price_table **table, int part)
{
    const struct price_table *own = NULL;
    struct filter filter = filter_at(part);
    if (part == 0 || part == WAITLESS) /* such plans have the table's prices */
        return true;
    if (!part_of(run, &run->arena, *table, &filter, &own))
        return false;
    *table = own ? own : *table;
    return true;
}

/* Of the best only, or of all that the cut found. */
static bool add_plans(struct run *run, const struct candidate *like, const struct partition_result *result,
                      const struct price_table *table, bool all)
{
    for (int i = 0; i < result->plan_count && (all || i == 0); i++) {
        struct candidate variant = *like;
        variant.table = table;
        variant.solution = result->plans[i];
        if (!search_evaluate(run, &variant, run->capacity_bytes, &variant.solution.step_ns) ||
            !search_add_candidate(run, &variant))
            return false;
    }
    return true;
}

static bool add_variants(struct run *run, const struct candidate *leader, int64_t below_ns)
{
    for (int f = 1; f <= PART_GATHERLESS && !search_stops(run); f++) {
        struct candidate variant = { .config = leader->config, .capacity_bytes = run->capacity_bytes, .part = f };
        struct filter filter = filter_at(f);
        struct partition_problem problem;
        struct partition_result result;
        struct arena *own = search_arena(run); /* of the table */
        if (!own)
            return search_out_of_memory(run->err);
        if (!(f != WAITLESS ? part_of(run, own, leader->table, &filter, &variant.table)
                            : waitless(run, own, leader->table, &variant.table)))
            return false;
        if (!variant.table)
            continue;
        if (!search_problem(run, leader->config, variant.table, run->capacity_bytes, &problem))
            return false;
        problem.below_ns = below_ns;
        problem.enough_ns = 1;
        problem.gap_ppm = max_i64(problem.gap_ppm, VARIANT_GAP_PPM);
        if (!partition_solve(&problem, &run->arena, &result, run->err) ||
            !add_plans(run, &variant, &result, f != WAITLESS ? variant.table : leader->table, f == WAITLESS))
            return false;
        if (result.plan_count == 0)
            arena_free(own);
    }
    return true;
}

bool search_leads_alike(const struct run *run, int config, int other)
{
    const struct config *a = &run->configs[config], *b = &run->configs[other];
    return config_equal_but(a, b, config_is_bounded(a) || config_is_bounded(b) ? 0 : BUT_PREFETCH | BUT_EXTRA);
}

static bool led_before(const struct run *run, int count)
{
    for (int i = 0; i < count; i++)
        if (search_leads_alike(run, run->candidates[i].config, run->candidates[count].config))
            return true;
    return false;
}

bool search_vary(struct run *run, int first_config)
{
    int ranked = (int)run->result->certificate.ranked, before = run->candidate_count;
    int64_t best_ns = run->candidates[0].ranked_ns;
    bool few = search_is_small(run);
    int most = few ? MANY_LEADERS : LEADERS;
    int64_t last_ns = best_ns + best_ns / 1000 * (few ? MANY_PERMILLE : LEADER_PERMILLE);
    for (int i = 0, leaders = 0; i < ranked && leaders < most; i++) {
        const struct candidate leader = run->candidates[i];
        if (leader.ranked_ns > last_ns)
            break;
        if (leader.config < first_config || leader.judged || leader.table->by_stage || leader.table->by_place ||
            led_before(run, i))
            continue;
        leaders++;
        const struct config *config = &run->configs[leader.config];
        int64_t below_ns = leader.ranked_ns + leader.ranked_ns / 1000 * REACH_PERMILLE;
        if (!add_variants(run, &leader, config_is_bounded(config) ? below_ns : search_with_idle_ns(config, below_ns)))
            return false;
    }
    return search_rank_more(run, before);
}
