/* The host's memory, which the formula does not count: offloading costs it nothing. Where layout finds that too much is
 * kept there, the configuration is solved again with a price for it, which is raised until what is kept is little
 * enough: a Lagrangian multiplier of the constraint that the formula lacks. */
#include "base/num.h"
#include "planner/estimate/effort.h"
#include "planner/program/schedule.h"
#include "planner/pool/pool_parts.h"

/* Gives the bytes that a layer keeps on the host with n micro-batches in flight: what it then spares on the device. */
static int64_t kept_bytes(const struct price_table *table, int at, int64_t n)
{
    int strategy = at % table->strategy_count;
    struct plan_layer plain = table->strategies[strategy].layer;
    plain.offload = OFFLOAD_NONE;
    int without = price_strategy(table, &plain);
    if (without < 0 || without == strategy)
        return 0;
    const struct layer_price *with = &table->prices[at], *base = with + (without - strategy);
    return max_i64(0, base->weight_bytes - with->weight_bytes + n * (base->saved_bytes - with->saved_bytes));
}

/* Gives the number of micro-batches that stage k of the solution has in flight. */
static int64_t in_flight(const struct partition_problem *problem, const struct partition_plan *solution, int k)
{
    if (!solution->shape)
        return problem->in_flight[k];
    int meshes = 0;
    for (int i = k; i < solution->stage_count; i++)
        meshes += problem->table->turns[solution->shape[i]];
    return problem->in_flight[meshes * problem->table->shape_count + solution->shape[k]];
}

/* Gives the bytes of the stage that keeps most on the host. */
static int64_t most_kept(const struct run *run, const struct partition_problem *problem, const struct candidate *c)
{
    const struct config *config = &run->configs[c->config];
    const struct partition_plan *solution = &c->solution;
    int pieces = partition_stages(problem, solution), copies = schedules[config->schedule]->copies ? 2 : 1;
    int64_t most = 0;
    for (int stage = 0; stage < pieces; stage++) {
        int64_t bytes = 0;
        for (int k = 0; k < pieces; k++) {
            const struct price_table *own = solution->shape ? price_of_shape(c->table, solution->shape[k]) : c->table;
            if ((solution->shape ? k : config_stage(config, k)) != stage)
                continue;
            for (const struct layer_count *at = solution->counts[k]; at->count > 0; at++)
                bytes += at->count * kept_bytes(own, at->at, in_flight(problem, solution, k));
        }
        most = max_i64(most, bytes);
    }
    return most * copies;
}

bool host_room_bytes(struct run *run, const struct candidate *c, int64_t *bytes)
{
    struct partition_problem problem;
    *bytes = 0;
    bool offloads = false;
    for (int i = 0; i < c->table->strategy_count; i++)
        offloads |= c->table->strategies[i].layer.offload != OFFLOAD_NONE;
    if (!offloads)
        return true;
    if (!run_problem(run, c->config, c->table, c->capacity_bytes, &problem))
        return false;
    *bytes = most_kept(run, &problem, c);
    return true;
}

/* ---- solving with a price ---- */

struct host_price {
    int64_t ns, in_flight; /* of 2^HOST_PRICED_BITS bytes; micro-batches of the first stage */
};

static void add_host_price(struct price_table *table, const void *context)
{
    const struct host_price *of = context;
    for (int i = 0; i < table->class_count * table->strategy_count; i++)
        table->prices[i].step_ns +=
            (int64_t)((double)kept_bytes(table, i, of->in_flight) / (1 << HOST_PRICED_BITS) * (double)of->ns);
}

/* Solves the candidate's configuration with a price of the host's memory. *found: c->solution is the best. */
static bool solve_priced(struct run *run, struct candidate *c, int64_t price_ns, bool *found)
{
    struct partition_problem problem;
    struct partition_result result;
    struct arena scratch = { 0 };
    int64_t reserved_bytes = 0; /* what the stage that needs most beyond the formula needs */
    for (int k = 0; c->reserve_bytes && k < run->configs[c->config].stages; k++)
        reserved_bytes = max_i64(reserved_bytes, c->reserve_bytes[k]);
    *found = false;
    if (!run_problem(run, c->config, c->table, c->capacity_bytes - reserved_bytes, &problem))
        return false;
    struct host_price price = { price_ns, in_flight(&problem, &c->solution, 0) };
    problem.table = price_changed(&scratch, c->table, add_host_price, &price);
    problem.gap_ppm = max_i64(problem.gap_ppm, HOST_GAP_PPM);
    if (run->result->plan_count == 0)
        problem.stops = NULL; /* short, and without it there may be no answer at all */
    bool good = problem.table ? partition_solve(&problem, &run->arena, &result, run->err) : fail_memory(run->err);
    *found = good && result.plan_count > 0;
    if (*found)
        c->solution = result.plans[0];
    arena_free(&scratch);
    return good && (!*found || rank_formula(run, c, c->capacity_bytes, &c->solution.step_ns));
}

static void add_kept_bytes(struct price_table *table, const void *context)
{
    (void)context;
    for (int i = 0; i < table->class_count * table->strategy_count; i++)
        table->prices[i].weight_bytes += kept_bytes(table, i, 1);
}

/* *lacks: devices and hosts together have no room for what layers need, wherever they keep it. */
static bool lacks_room(struct run *run, const struct candidate *c, int64_t most_bytes, bool *lacks)
{
    struct partition_problem problem;
    struct arena scratch = { 0 };
    if (!run_problem(run, c->config, c->table, c->capacity_bytes + most_bytes, &problem))
        return false;
    problem.table = price_changed(&scratch, c->table, add_kept_bytes, NULL);
    *lacks = problem.table && partition_lacks_memory(&problem);
    arena_free(&scratch);
    return problem.table || fail_memory(run->err);
}

/* A solution together with the bytes that it keeps on the host. */
struct answer {
    struct candidate c;
    int64_t bytes;
};

/* Solves at the price; *fits: answer->c has a solution that keeps no more than most_bytes. */
static bool try_price(struct run *run, struct answer *answer, int64_t price_ns, int64_t most_bytes, bool *fits)
{
    bool found = false;
    *fits = false;
    if (!solve_priced(run, &answer->c, price_ns, &found) ||
        (found && !host_room_bytes(run, &answer->c, &answer->bytes)))
        return false;
    *fits = found && answer->bytes <= most_bytes && answer->c.solution.step_ns < INT64_MAX;
    return true;
}

/* Finds the solutions at two neighbouring powers of two: *much at a price that is too low, *little at one that is not;
 * *found: there is one, and then the highest price has one. */
static bool enclose(struct run *run, struct answer *much, struct answer *little, int64_t most_bytes, bool *found)
{
    if (!try_price(run, little, (int64_t)1 << HOST_PRICES, most_bytes, found))
        return false;
    for (int low = -1, high = HOST_PRICES; *found && high - low > 1;) {
        struct answer answer = *much;
        int middle = low + (high - low) / 2;
        bool fits = false;
        if (!try_price(run, &answer, (int64_t)1 << middle, most_bytes, &fits))
            return false;
        *(fits ? little : much) = answer;
        *(fits ? &high : &low) = middle;
    }
    return true;
}

/* ---- from one solution towards the other ---- */

/* Shifts layers between strategies, since like layers change theirs all at one price: the solution that keeps little
 * enough takes over the other one's piece by piece, as many layers at a time as may be, while that shortens it. */
struct shift {
    struct run *run;
    struct arena *arena; /* of what is tried */
    struct answer *at;
    int64_t most_bytes;
    int pieces, block;
    int *count; /* (pieces, block) of the solution */
    bool *used; /* (block) by any piece of either solution */
};

static bool open_shift(struct shift *s, struct run *run, struct arena *arena, const struct answer *much,
                       struct answer *little, int64_t most_bytes)
{
    struct partition_problem problem;
    const struct price_table *table = little->c.table;
    if (!run_problem(run, little->c.config, table, little->c.capacity_bytes, &problem))
        return false;
    *s = (struct shift){ .run = run, .arena = arena, .at = little, .most_bytes = most_bytes };
    s->pieces = partition_stages(&problem, &little->c.solution);
    s->block = table->class_count * table->strategy_count;
    s->count = arena_alloc(arena, (size_t)(s->pieces * s->block), sizeof *s->count);
    s->used = arena_alloc(arena, (size_t)s->block, sizeof *s->used);
    if (!s->count || !s->used)
        return fail_memory(run->err);
    for (int k = 0; k < s->pieces; k++)
        for (const struct layer_count *of = little->c.solution.counts[k]; of->count > 0; of++) {
            s->count[k * s->block + of->at] = of->count;
            s->used[of->at] = true;
        }
    for (int k = 0; k < partition_stages(&problem, &much->c.solution); k++)
        for (const struct layer_count *of = much->c.solution.counts[k]; of->count > 0; of++)
            s->used[of->at] = true;
    return true;
}

/* Moves `layers` of a piece from one strategy to another; *better: the result fits, and is shorter. */
static bool try_shift(struct shift *s, int *count, int from, int to, int layers, bool *better)
{
    struct answer moved = *s->at;
    count[from] -= layers;
    count[to] += layers;
    if (!partition_set_counts(&moved.c.solution, s->arena, s->count, s->pieces, s->block))
        return fail_memory(s->run->err);
    if (!rank_formula(s->run, &moved.c, moved.c.capacity_bytes, &moved.c.solution.step_ns) ||
        !host_room_bytes(s->run, &moved.c, &moved.bytes))
        return false;
    *better = moved.bytes <= s->most_bytes && moved.c.solution.step_ns < s->at->c.solution.step_ns;
    *s->at = *better ? moved : *s->at;
    count[from] += *better ? 0 : layers;
    count[to] -= *better ? 0 : layers;
    return true;
}

/* Shifts layers of one class between its strategies. *any: something was shifted. */
static bool shift_class(struct shift *s, int *count, int first, int layers, bool *any)
{
    int strategies = s->at->c.table->strategy_count;
    for (int from = first; from < first + strategies; from++)
        for (int to = first; to < first + strategies; to++) {
            bool better = true;
            if (from == to || !s->used[from] || !s->used[to])
                continue;
            while (better && count[from] >= layers) {
                if (!try_shift(s, count, from, to, layers, &better))
                    return false;
                *any = *any || better;
            }
        }
    return true;
}

static bool shift_all(struct shift *s)
{
    const struct price_table *table = s->at->c.table;
    for (int layers = HOST_SHIFTED; layers > 0;) {
        bool any = false;
        for (int k = 0; k < s->pieces; k++)
            for (int class_index = 0; class_index < table->class_count; class_index++)
                if (!shift_class(s, &s->count[k * s->block], class_index * table->strategy_count, layers, &any))
                    return false;
        if (!any)
            layers /= 2;
    }
    return true;
}

/* Changes *at towards the other solution, as long as that shortens it and it fits. */
static bool shift_towards(struct run *run, const struct answer *much, struct answer *at, int64_t most_bytes)
{
    struct shift s;
    struct arena scratch = { 0 };
    bool good =
        open_shift(&s, run, &scratch, much, at, most_bytes) && shift_all(&s) &&
        (partition_set_counts(&at->c.solution, &run->arena, s.count, s.pieces, s.block) || fail_memory(run->err));
    arena_free(&scratch);
    return good;
}

bool host_room_solve(struct run *run, struct candidate *c, int64_t most_bytes, bool *found)
{
    struct answer much = { *c, INT64_MAX }, little = much;
    bool lacks = false;
    *found = false;
    if (price_is_by_stage(c->table) || price_is_by_place(c->table))
        return true;
    if (!lacks_room(run, c, most_bytes, &lacks) || (!lacks && !enclose(run, &much, &little, most_bytes, found)))
        return false;
    bool good = !*found || shift_towards(run, &much, &little, most_bytes);
    c->solution = *found ? little.c.solution : c->solution;
    return good;
}
