#include "planner/search/partition.h"
#include "base/num.h"
#include "planner/search/knapsack.h"
#include <stdlib.h>
#include <string.h>

/* HARD_KNAPSACKS: so many times node_limit nodes, then each knapsack gets a quarter of it. */
enum { TIE_BITS = 16, HARD_KNAPSACKS = 2, HARD_SHARE = 4 };
enum { ROW_MEMORY = 0, ROW_PATH, ROW_LAST, ROW_LANE, ROW_COUNT };

enum cell_state { CELL_UNKNOWN, CELL_BOUND, CELL_EXACT };
/* One stage content with one number in flight. lower is a proven bound of C for every cap up to the one it was asked
 * with; INT64_MAX: nothing fits. Caps only fall, so what is infeasible stays so. */
struct cell {
    enum cell_state state;
    int64_t lower;
    int64_t path, high; /* C and Y of the solution when EXACT; C is lower but for the gap */
    int *count;         /* (class_count, strategy_count) of the solution */
};
struct solver {
    const struct partition_problem *problem;
    struct arena *arena;
    int classes, strategies, layers, stages;
    int level_count, *level;                /* (stages) index of the distinct in-flight count and price table */
    const struct price_table **tables;      /* (level_count) */
    int64_t *period_ns, *in_flight;         /* (level_count) p, n */
    struct cell **cells;                    /* (level_count) of (interval_count), made on demand */
    int64_t *least_path_ns, *least_step_ns; /* (layers + 1) sums of each layer's smallest C, O */
    int64_t **least_bytes;                  /* (level_count) of (layers + 1) */
    int64_t cap_ns;                         /* Y */
    int64_t unexplored_ns;                  /* INT64_MAX: every knapsack was solved */
    int64_t nodes;                          /* of knapsacks solved to the end */
    bool stopped;
    int64_t *best_ns, *best_high; /* (stages + 1, layers + 1) */
    int *cut;                     /* (stages, layers + 1): end of the stage */
    struct knapsack_option *options;
    struct knapsack_group *groups;
    int *group_class, *counts;
    struct partition_result *result;
    struct error *err;
};

static int64_t path_ns(const struct layer_price *p)
{
    return p->forward_ns + p->backward_ns;
}

static int64_t lane_ns(const struct layer_price *p)
{
    return p->gather_forward_ns + p->gather_backward_ns + p->reduce_ns;
}

static int64_t layer_bytes(const struct layer_price *p, int64_t in_flight, bool joined)
{
    return p->weight_bytes + (joined ? 0 : p->tied_bytes) + in_flight * p->saved_bytes;
}

static int64_t exposed_period_ns(const struct partition_problem *problem, int stage)
{
    int64_t n = problem->in_flight[stage];
    int64_t send_ns = price_of_stage(problem->table, stage)->send_ns;
    return n < 1 || n >= problem->micro_batch_count ? 0 : ceil_div(2 * send_ns * (n - 1), n);
}

static int64_t send_total_ns(const struct partition_problem *problem)
{
    int64_t sum = 0;
    for (int k = 0; k + 1 < problem->stage_count; k++)
        sum += 2 * price_send_ns(problem->table, k);
    return sum;
}

static bool holds_both(const struct chain *chain, int first, int end)
{
    return chain->tied_first >= first && chain->tied_first < end && chain->tied_second >= first &&
           chain->tied_second < end;
}

/* ---- one stage ---- */

/* C, Y and bytes of given counts. */
struct stage_sums {
    int64_t path_ns, high_ns, bytes;
};
static struct stage_sums sum_stage(const struct price_table *table, int64_t m, int64_t in_flight, int64_t period_ns,
                                   bool joined, const int *count)
{
    int64_t c = 0, b = 0, d = 0, last = 0, step = 0, bytes = table->base_bytes, peak = 0;
    for (int i = 0; i < table->class_count * table->strategy_count; i++) {
        const struct layer_price *p = &table->prices[i];
        if (count[i] == 0)
            continue;
        c += count[i] * path_ns(p);
        b += count[i] * p->backward_ns;
        d += count[i] * lane_ns(p);
        last += count[i] * p->reduce_last_ns;
        step += count[i] * p->step_ns;
        bytes += count[i] * layer_bytes(p, in_flight, joined);
        peak = max_i64(peak, p->transient_bytes);
    }
    int64_t path = (m - 1) * (c + period_ns) + step;
    int64_t high = max_i64(path, max_i64(path - b + last, m * d - c + last + step));
    return (struct stage_sums){ c, high, bytes + peak };
}

/* Ties in C go to the strategy that asks less of the lane and of the end: a share of at most 2^TIE_BITS in all. */
static int64_t tie_break(const struct layer_price *p, int64_t m, int64_t worst, int64_t items)
{
    int64_t asks = m * lane_ns(p) + p->reduce_last_ns + p->step_ns, share = ((INT64_C(1) << TIE_BITS) - 1) / items;
    return worst > 0 ? (int64_t)((double)asks / (double)worst * (double)share) : 0;
}

static struct knapsack_option make_option(const struct solver *s, const struct layer_price *p, int64_t in_flight,
                                          bool joined, int64_t tie)
{
    int64_t m = s->problem->micro_batch_count, c = path_ns(p);
    struct knapsack_option option = { .cost = c * (INT64_C(1) << TIE_BITS) + tie, .peak = p->transient_bytes };
    option.row[ROW_MEMORY] = layer_bytes(p, in_flight, joined);
    option.row[ROW_PATH] = (m - 1) * c + p->step_ns;
    option.row[ROW_LAST] = (m - 1) * c - p->backward_ns + p->reduce_last_ns + p->step_ns;
    option.row[ROW_LANE] = m * lane_ns(p) - c + p->reduce_last_ns + p->step_ns;
    return option;
}

/* The knapsack of an interval: one group per class that it holds. s->counts holds layers per class. */
static struct knapsack make_knapsack(struct solver *s, int level, int interval)
{
    const struct partition_problem *problem = s->problem;
    const struct price_table *table = s->tables[level];
    const struct chain *chain = problem->chain;
    int first = chain->sample[2 * interval], end = chain->sample[2 * interval + 1], groups = 0;
    bool joined = holds_both(chain, first, end);
    int64_t m = problem->micro_batch_count, worst = 0, period = (m - 1) * s->period_ns[level];
    memset(s->counts, 0, (size_t)s->classes * sizeof *s->counts);
    for (int l = first; l < end; l++)
        s->counts[chain->class_of[l]]++;
    for (int i = 0; i < s->classes * s->strategies; i++) {
        const struct layer_price *p = &table->prices[i];
        worst = max_i64(worst, m * lane_ns(p) + p->reduce_last_ns + p->step_ns);
    }
    for (int c = 0; c < s->classes; c++) {
        if (s->counts[c] == 0)
            continue;
        struct knapsack_option *options = &s->options[groups * s->strategies];
        for (int i = 0; i < s->strategies; i++) {
            const struct layer_price *p = price_at(table, c, i);
            options[i] = make_option(s, p, s->in_flight[level], joined, tie_break(p, m, worst, end - first));
        }
        s->group_class[groups] = c;
        s->groups[groups++] =
            (struct knapsack_group){ .count = s->counts[c], .option_count = s->strategies, .options = options };
    }
    struct knapsack knapsack = { .group_count = groups,
                                 .row_count = ROW_COUNT,
                                 .groups = s->groups,
                                 .tie_bits = TIE_BITS,
                                 .gap_ppm = problem->gap_ppm };
    knapsack.cap[ROW_MEMORY] = problem->capacity_bytes - table->base_bytes;
    knapsack.cap[ROW_PATH] = s->cap_ns - period;
    knapsack.cap[ROW_LAST] = s->cap_ns - period;
    knapsack.cap[ROW_LANE] = s->cap_ns;
    return knapsack;
}

static bool keep_solution(struct solver *s, struct cell *cell, int level, int interval, const struct knapsack *knapsack,
                          const struct knapsack_result *answer)
{
    size_t size = (size_t)(s->classes * s->strategies);
    const struct chain *chain = s->problem->chain;
    if (!cell->count)
        cell->count = arena_alloc(s->arena, size, sizeof *cell->count);
    if (!cell->count)
        return fail_kind(s->err, ERROR_ENVIRONMENT, "search: out of memory");
    memset(cell->count, 0, size * sizeof *cell->count);
    for (int g = 0; g < knapsack->group_count; g++)
        memcpy(&cell->count[s->group_class[g] * s->strategies], &answer->counts[g * s->strategies],
               (size_t)s->strategies * sizeof(int));
    bool joined = holds_both(chain, chain->sample[2 * interval], chain->sample[2 * interval + 1]);
    struct stage_sums sums = sum_stage(s->tables[level], s->problem->micro_batch_count, s->in_flight[level],
                                       s->period_ns[level], joined, cell->count);
    cell->state = CELL_EXACT;
    cell->path = sums.path_ns;
    cell->high = sums.high_ns;
    cell->lower = max_i64(cell->lower, min_i64(max_i64(answer->bound, 0) >> TIE_BITS, sums.path_ns));
    return true;
}

static int64_t node_limit(const struct solver *s)
{
    int64_t limit = s->problem->node_limit;
    return s->nodes < HARD_KNAPSACKS * limit ? limit : ceil_div(limit, HARD_SHARE);
}

/* Solves a cell at the present cap: only its root, or to the end. */
static bool solve_cell(struct solver *s, struct cell *cell, int level, int interval, bool to_the_end)
{
    const struct partition_problem *problem = s->problem;
    s->stopped = s->stopped || (problem->stops && problem->stops(problem->self));
    if (s->stopped)
        return true;
    struct knapsack knapsack = make_knapsack(s, level, interval);
    struct knapsack_result answer = { .counts = s->counts + s->classes };
    knapsack.node_limit = to_the_end ? node_limit(s) : 1;
    s->result->knapsacks++;
    if (!knapsack_solve(&knapsack, &answer, s->err))
        return false;
    s->nodes += to_the_end ? answer.nodes : 0;
    if (answer.status == KNAPSACK_OPTIMAL || (to_the_end && answer.cost < INT64_MAX))
        return keep_solution(s, cell, level, interval, &knapsack, &answer);
    if (answer.status == KNAPSACK_LIMIT && to_the_end) /* no solution in time: what lies here stays unexplored */
        s->unexplored_ns = min_i64(s->unexplored_ns, max_i64(answer.bound, 0) >> TIE_BITS);
    bool open = answer.status == KNAPSACK_LIMIT && !to_the_end;
    cell->state = open ? CELL_BOUND : CELL_EXACT;
    cell->lower = open ? max_i64(cell->lower, max_i64(answer.bound, 0) >> TIE_BITS) : INT64_MAX;
    return true;
}

static struct cell *cell_at(struct solver *s, int level, int interval)
{
    if (!s->cells[level])
        s->cells[level] = arena_alloc(s->arena, (size_t)s->problem->chain->interval_count, sizeof **s->cells);
    return s->cells[level] ? &s->cells[level][interval] : NULL;
}

static bool exact_under_cap(const struct solver *s, const struct cell *cell)
{
    return cell->state == CELL_EXACT && (cell->lower == INT64_MAX || cell->high <= s->cap_ns);
}

static int interval_index(const struct solver *s, int first, int end)
{
    return s->problem->chain->interval[first * (s->layers + 1) + end];
}

/* ---- the cut ---- */

/* What no choice of strategies can undercut ends the loop over longer stages. */
static bool too_long(const struct solver *s, int level, int first, int end)
{
    int64_t m = s->problem->micro_batch_count, path = s->least_path_ns[end] - s->least_path_ns[first];
    int64_t bytes = s->least_bytes[level][end] - s->least_bytes[level][first] + s->tables[level]->base_bytes;
    int64_t high = (m - 1) * (path + s->period_ns[level]) + s->least_step_ns[end] - s->least_step_ns[first];
    return bytes > s->problem->capacity_bytes || high > s->cap_ns;
}

/* Least sum of C from `first` on in stages `stage`..P-1; ties go to the smaller maximum Y. */
static bool best_from(struct solver *s, int stage, int first)
{
    int width = s->layers + 1, level = s->level[stage], last = stage == s->stages - 1;
    int64_t best = INT64_MAX, best_high = INT64_MAX;
    for (int end = first + 1; end <= s->layers - (s->stages - 1 - stage); end++) {
        if (too_long(s, level, first, end))
            break;
        int64_t rest = last ? (end == s->layers ? 0 : INT64_MAX) : s->best_ns[(stage + 1) * width + end];
        if (rest == INT64_MAX || (best < INT64_MAX && s->least_path_ns[end] - s->least_path_ns[first] + rest > best))
            continue;
        int interval = interval_index(s, first, end);
        struct cell *cell = cell_at(s, level, interval);
        if (!cell || (cell->state == CELL_UNKNOWN && !solve_cell(s, cell, level, interval, false)))
            return fail_kind(s->err, ERROR_ENVIRONMENT, "search: out of memory");
        if (cell->lower == INT64_MAX)
            continue;
        int64_t total = cell->lower + rest;
        int64_t high = max_i64(cell->state == CELL_EXACT ? min_i64(cell->high, s->cap_ns) : 0,
                               last ? INT64_MIN : s->best_high[(stage + 1) * width + end]);
        if (total < best || (total == best && high < best_high)) {
            best = total;
            best_high = high;
            s->cut[stage * width + first] = end;
        }
    }
    s->best_ns[stage * width + first] = best;
    s->best_high[stage * width + first] = best_high;
    return true;
}

static bool sweep_stages(struct solver *s, int64_t *sum)
{
    for (int stage = s->stages - 1; stage >= 0; stage--)
        for (int first = stage; first <= (stage == 0 ? 0 : s->layers - (s->stages - stage)); first++)
            if (!best_from(s, stage, first))
                return false;
    *sum = s->best_ns[0];
    s->result->passes++;
    return true;
}

/* Solves what is not yet exact on the path; *changed when a bound rose. */
static bool refine_path(struct solver *s, bool *changed)
{
    *changed = false;
    for (int stage = 0, first = 0; stage < s->stages; stage++) {
        int end = s->cut[stage * (s->layers + 1) + first], interval = interval_index(s, first, end),
            level = s->level[stage];
        struct cell *cell = cell_at(s, level, interval);
        if (!exact_under_cap(s, cell)) {
            int64_t before = cell->lower;
            if (!solve_cell(s, cell, level, interval, true))
                return false;
            *changed = *changed || cell->lower != before;
        }
        first = end;
    }
    return true;
}

/* Passes under one cap until the path is exact. *sum INT64_MAX: nothing under this cap. */
static bool solve_under_cap(struct solver *s, int64_t *sum)
{
    for (bool changed = true; changed;) {
        if (!sweep_stages(s, sum))
            return false;
        if (*sum == INT64_MAX)
            return true;
        if (!refine_path(s, &changed))
            return false;
        if (s->stopped) {
            s->unexplored_ns = 0;
            *sum = INT64_MAX;
            return true;
        }
    }
    return true;
}

/* What the solutions on the path come to. */
static void path_sums(struct solver *s, int64_t *sum, int64_t *high)
{
    *sum = 0;
    *high = INT64_MIN;
    for (int stage = 0, first = 0; stage < s->stages; stage++) {
        int end = s->cut[stage * (s->layers + 1) + first];
        const struct cell *cell = cell_at(s, s->level[stage], interval_index(s, first, end));
        *sum += cell->path;
        *high = max_i64(*high, cell->high);
        first = end;
    }
}

/* Keeps the present path among the plans, best first. */
static bool keep_plan(struct solver *s, int64_t step_ns)
{
    struct partition_result *result = s->result;
    size_t block = (size_t)(s->classes * s->strategies);
    int place = result->plan_count;
    while (place > 0 && result->plans[place - 1].step_ns > step_ns)
        place--;
    if (place == PARTITION_PLANS)
        return true;
    struct partition_plan plan = { .step_ns = step_ns };
    plan.first_layer = arena_alloc(s->arena, (size_t)s->stages, sizeof *plan.first_layer);
    plan.count = arena_alloc(s->arena, (size_t)s->stages * block, sizeof *plan.count);
    if (!plan.first_layer || !plan.count)
        return fail_kind(s->err, ERROR_ENVIRONMENT, "search: out of memory");
    for (int stage = 0, first = 0; stage < s->stages; stage++) {
        int end = s->cut[stage * (s->layers + 1) + first];
        plan.first_layer[stage] = first;
        memcpy(&plan.count[(size_t)stage * block], cell_at(s, s->level[stage], interval_index(s, first, end))->count,
               block * sizeof *plan.count);
        first = end;
    }
    if (result->plan_count < PARTITION_PLANS)
        result->plan_count++;
    memmove(&result->plans[place + 1], &result->plans[place], (size_t)(result->plan_count - 1 - place) * sizeof plan);
    result->plans[place] = plan;
    result->feasible = true;
    return true;
}

/* Whatever the cap, the longest stage is no shorter than the mean. */
static int64_t step_bound(const struct solver *s, int64_t sum)
{
    int64_t m = s->problem->micro_batch_count, period = INT64_MAX;
    for (int i = 0; i < s->level_count; i++)
        period = min_i64(period, s->period_ns[i]);
    return sum + send_total_ns(s->problem) + (m - 1) * (ceil_div(sum, s->stages) + period);
}

static bool solver_arrays(struct solver *s)
{
    size_t layers = (size_t)s->layers + 1, stages = (size_t)s->stages, block = (size_t)(s->classes * s->strategies);
    s->level = arena_alloc(s->arena, stages, sizeof *s->level);
    s->tables = arena_alloc(s->arena, stages, sizeof *s->tables);
    s->period_ns = arena_alloc(s->arena, stages, sizeof *s->period_ns);
    s->in_flight = arena_alloc(s->arena, stages, sizeof *s->in_flight);
    s->cells = arena_alloc(s->arena, stages, sizeof *s->cells);
    s->least_bytes = arena_alloc(s->arena, stages, sizeof *s->least_bytes);
    s->least_path_ns = arena_alloc(s->arena, layers, sizeof *s->least_path_ns);
    s->least_step_ns = arena_alloc(s->arena, layers, sizeof *s->least_step_ns);
    s->best_ns = arena_alloc(s->arena, (stages + 1) * layers, sizeof *s->best_ns);
    s->best_high = arena_alloc(s->arena, (stages + 1) * layers, sizeof *s->best_high);
    s->cut = arena_alloc(s->arena, stages * layers, sizeof *s->cut);
    s->options = arena_alloc(s->arena, block, sizeof *s->options);
    s->groups = arena_alloc(s->arena, (size_t)s->classes, sizeof *s->groups);
    s->group_class = arena_alloc(s->arena, (size_t)s->classes, sizeof *s->group_class);
    s->counts = arena_alloc(s->arena, (size_t)s->classes + block, sizeof *s->counts);
    return s->level && s->tables && s->period_ns && s->in_flight && s->cells && s->least_bytes && s->least_path_ns &&
           s->least_step_ns && s->best_ns && s->best_high && s->cut && s->options && s->groups && s->group_class &&
           s->counts;
}

static bool set_levels(struct solver *s)
{
    for (int k = 0; k < s->stages; k++) {
        int64_t n = s->problem->in_flight[k], period = exposed_period_ns(s->problem, k);
        const struct price_table *table = price_of_stage(s->problem->table, k);
        int level = 0;
        while (level < s->level_count &&
               (s->in_flight[level] != n || s->period_ns[level] != period || s->tables[level] != table))
            level++;
        if (level == s->level_count) {
            s->tables[level] = table;
            s->in_flight[level] = n;
            s->period_ns[level] = period;
            s->least_bytes[level] = arena_alloc(s->arena, (size_t)s->layers + 1, sizeof(int64_t));
            if (!s->least_bytes[s->level_count++])
                return false;
        }
        s->level[k] = level;
    }
    return true;
}

static void set_least(struct solver *s)
{
    const struct chain *chain = s->problem->chain;
    for (int l = 0; l < s->layers; l++) {
        int64_t path = INT64_MAX, step = INT64_MAX;
        for (int i = 0; i < s->strategies; i++) {
            const struct layer_price *p = price_at(s->problem->table, chain->class_of[l], i);
            path = min_i64(path, path_ns(p));
            step = min_i64(step, p->step_ns);
        }
        s->least_path_ns[l + 1] = s->least_path_ns[l] + path;
        s->least_step_ns[l + 1] = s->least_step_ns[l] + step;
    }
    for (int level = 0; level < s->level_count; level++)
        for (int l = 0; l < s->layers; l++) {
            int64_t bytes = INT64_MAX;
            for (int i = 0; i < s->strategies; i++)
                bytes = min_i64(
                    bytes, layer_bytes(price_at(s->tables[level], chain->class_of[l], i), s->in_flight[level], true));
            s->least_bytes[level][l + 1] = s->least_bytes[level][l] + bytes;
        }
}

/* All stages' memory taken together is too little even for the thriftiest strategies with the fewest in flight. */
static bool lacks_memory(const struct solver *s)
{
    int64_t least = INT64_MAX, room = s->problem->capacity_bytes - s->problem->table->base_bytes;
    for (int level = 0; level < s->level_count; level++)
        least = min_i64(least, s->least_bytes[level][s->layers]);
    return least > 0 ? room <= 0 || ceil_div(least, s->stages) > room : room < 0;
}

static int64_t tolerance(const struct solver *s, int64_t step_ns)
{
    return step_ns == INT64_MAX ? 0 : (int64_t)((double)step_ns * (double)s->problem->gap_ppm / 1e6);
}

/* Falls from one Pareto point of (sum C, max Y) to the next until nothing below `upper` can be left. */
static bool descend(struct solver *s)
{
    int64_t upper = s->problem->below_ns, bound = INT64_MAX, lower = 0, path = 0, high = 0,
            sends = send_total_ns(s->problem);
    s->cap_ns = upper == INT64_MAX ? INT64_MAX / 4 : upper - 1 - s->least_path_ns[s->layers] - sends;
    for (;;) {
        if (!solve_under_cap(s, &lower))
            return false;
        if (lower == INT64_MAX)
            break;
        int64_t rest = step_bound(s, lower);
        if (rest >= upper - tolerance(s, upper)) {
            bound = min_i64(bound, rest);
            break;
        }
        path_sums(s, &path, &high);
        if (sends + path + high < s->problem->below_ns && !keep_plan(s, sends + path + high))
            return false;
        upper = min_i64(upper, sends + path + high);
        s->cap_ns = min_i64(high, upper - tolerance(s, upper) - sends - lower) - 1; /* the rest is not worth having */
        bound = min_i64(bound, sends + lower + s->cap_ns + 1); /* of plans whose maximum lies above the new cap */
    }
    s->result->bound_ns = min_i64(bound, upper);
    if (s->unexplored_ns < INT64_MAX)
        s->result->bound_ns = min_i64(s->result->bound_ns, partition_quick_bound(s->problem));
    return true;
}

bool partition_solve(const struct partition_problem *problem, struct arena *arena, struct partition_result *out,
                     struct error *err)
{
    struct partition_result result = { 0 };
    struct solver s = { .problem = problem,
                        .arena = arena,
                        .classes = problem->table->class_count,
                        .strategies = problem->table->strategy_count,
                        .layers = problem->chain->layer_count,
                        .stages = problem->stage_count,
                        .result = &result,
                        .err = err,
                        .unexplored_ns = INT64_MAX };
    if (s.stages > s.layers) {
        result.bound_ns = problem->below_ns;
        *out = result;
        return true;
    }
    if (!solver_arrays(&s) || !set_levels(&s))
        return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory for %d stages of %d layers", s.stages,
                         s.layers);
    set_least(&s);
    if (lacks_memory(&s)) {
        result.no_memory = true;
        result.bound_ns = problem->below_ns;
        *out = result;
        return true;
    }
    if (!descend(&s))
        return false;
    *out = result;
    return true;
}

int64_t partition_evaluate(const struct partition_problem *problem, const struct partition_plan *plan)
{
    const struct chain *chain = problem->chain;
    int64_t sum = send_total_ns(problem), high = INT64_MIN;
    int block = problem->table->class_count * problem->table->strategy_count;
    for (int k = 0; k < problem->stage_count; k++) {
        int first = plan->first_layer[k],
            end = k + 1 < problem->stage_count ? plan->first_layer[k + 1] : chain->layer_count;
        struct stage_sums sums =
            sum_stage(price_of_stage(problem->table, k), problem->micro_batch_count, problem->in_flight[k],
                      exposed_period_ns(problem, k), holds_both(chain, first, end), &plan->count[k * block]);
        if (sums.bytes > problem->capacity_bytes)
            return INT64_MAX;
        sum += sums.path_ns;
        high = max_i64(high, sums.high_ns);
    }
    return sum + high;
}

int64_t partition_quick_bound(const struct partition_problem *problem)
{
    if (problem->table->by_stage)
        return partition_mixed_bound(problem) + send_total_ns(problem);
    int64_t sum = 0, m = problem->micro_batch_count;
    for (int l = 0; l < problem->chain->layer_count; l++) {
        int64_t least = INT64_MAX;
        for (int i = 0; i < problem->table->strategy_count; i++)
            least = min_i64(least, path_ns(price_at(problem->table, problem->chain->class_of[l], i)));
        sum += least;
    }
    return sum + send_total_ns(problem) + (m - 1) * ceil_div(sum, problem->stage_count);
}
