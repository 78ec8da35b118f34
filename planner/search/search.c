#include "planner/search/search.h"
#include "base/num.h"
#include "planner/search/advice.h"
#include "planner/search/assemble.h"
#include "planner/search/pipeline.h"
#include "planner/search/workbench.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* SLACK_PERMILLE: plans this much longer than the best by the formula are candidates too: the judge sees what the
 * formula does not. JUDGE_BUDGET: layers times micro-batches that are simulated instruction by instruction before the
 * best plans are settled. */
enum {
    SLACK_PERMILLE = 10,
    DEFAULT_RANKED = 64,
    LEAST_CANDIDATES = 16,
    MAX_SHRINKS = 6,
    NODE_LIMIT = 800,
    SCOUTS = 3
};
static const int64_t judge_budget = 2000;

struct ordered {
    int64_t bound_ns;
    int index;
};
struct candidate {
    int config; /* index */
    const struct price_table *table;
    struct partition_plan solution;
    struct plan *plan; /* made when ranked */
    int64_t ranked_ns;
};
struct run {
    struct workbench bench;
    const struct search_options *options;
    struct search_result *result;
    struct arena arena;
    struct config *configs;
    int config_count;
    struct ordered *order; /* (config_count) by bound */
    int candidate_count, candidate_capacity;
    struct candidate *candidates;
    int64_t best_ns, capacity_bytes,
        open_bound_ns; /* open: least proven bound of all configurations looked at, or left */
    int64_t start_ns;
    bool stopped;
    struct error *err;
};

static int compare_ordered(const void *a, const void *b)
{
    const struct ordered *x = a, *y = b;
    if (x->bound_ns != y->bound_ns)
        return x->bound_ns < y->bound_ns ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static int compare_formula(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->solution.step_ns != y->solution.step_ns)
        return x->solution.step_ns < y->solution.step_ns ? -1 : 1;
    return (x->config > y->config) - (x->config < y->config);
}

static int compare_ranked(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->ranked_ns != y->ranked_ns)
        return x->ranked_ns < y->ranked_ns ? -1 : 1;
    return compare_formula(a, b);
}

static bool out_of_memory(struct error *err)
{
    return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
}

/* Every configuration gets a bound that costs almost nothing, then they are taken best first. */
static bool order_configs(struct run *run)
{
    run->order = arena_alloc(&run->arena, (size_t)run->config_count, sizeof *run->order);
    if (!run->order)
        return out_of_memory(run->err);
    for (int i = 0; i < run->config_count; i++) {
        const struct config *config = &run->configs[i];
        const struct price_table *table = NULL;
        if (!workbench_table(&run->bench, config, true, &table, run->err))
            return false;
        struct partition_problem problem = workbench_problem(&run->bench, config, table, NULL);
        run->order[i] = (struct ordered){ table ? partition_quick_bound(&problem) : INT64_MAX, i };
        run->result->certificate.refused += table == NULL;
    }
    qsort(run->order, (size_t)run->config_count, sizeof *run->order, compare_ordered);
    return true;
}

static bool add_candidate(struct run *run, int config, const struct price_table *table,
                          const struct partition_plan *solution)
{
    if (run->candidate_count == run->candidate_capacity) {
        int capacity = run->candidate_capacity ? 2 * run->candidate_capacity : 256;
        struct candidate *grown = arena_alloc(&run->arena, (size_t)capacity, sizeof *grown);
        if (!grown)
            return out_of_memory(run->err);
        if (run->candidate_count > 0)
            memcpy(grown, run->candidates, (size_t)run->candidate_count * sizeof *grown);
        run->candidates = grown;
        run->candidate_capacity = capacity;
    }
    run->candidates[run->candidate_count++] =
        (struct candidate){ .config = config, .table = table, .solution = *solution };
    return true;
}

/* Plans shorter than this are of interest: a little beyond the best. */
static int64_t reach(const struct run *run)
{
    return run->best_ns == INT64_MAX ? INT64_MAX : run->best_ns + run->best_ns / 1000 * SLACK_PERMILLE + 1;
}

static bool solve_config(struct run *run, int index, int64_t bound_ns)
{
    const struct config *config = &run->configs[index];
    const struct price_table *table = NULL;
    struct partition_result result;
    struct certificate *certificate = &run->result->certificate;
    if (!workbench_table(&run->bench, config, false, &table, run->err))
        return false;
    if (!table) {
        certificate->refused++;
        return true;
    }
    int *in_flight = config_in_flight(&run->arena, config);
    if (!in_flight)
        return out_of_memory(run->err);
    struct partition_problem problem = workbench_problem(&run->bench, config, table, in_flight);
    problem.capacity_bytes = run->capacity_bytes;
    problem.node_limit = NODE_LIMIT;
    problem.gap_ppm = run->options->gap_ppm;
    problem.below_ns = run->options->keep_all ? INT64_MAX : reach(run);
    if (!partition_solve(&problem, &run->arena, &result, run->err))
        return false;
    certificate->knapsacks += result.knapsacks;
    certificate->passes += result.passes;
    certificate->pruned_memory += result.no_memory || (!result.feasible && problem.below_ns == INT64_MAX);
    certificate->solved += !result.no_memory;
    run->open_bound_ns = min_i64(run->open_bound_ns, max_i64(bound_ns, result.bound_ns));
    for (int i = 0; i < result.plan_count; i++) {
        run->best_ns = min_i64(run->best_ns, result.plans[i].step_ns);
        if (!add_candidate(run, index, table, &result.plans[i]))
            return false;
    }
    return true;
}

static bool should_stop(const struct run *run)
{
    const struct search_calls *calls = &run->options->calls;
    if (calls->cancelled && calls->cancelled(calls->self))
        return true;
    return run->options->time_limit_ns > 0 && calls->now_ns &&
           calls->now_ns(calls->self) - run->start_ns >= run->options->time_limit_ns;
}

/* A configuration that plainly fits: weights without sharding take less than two thirds, and the pipeline is mostly
 * full. Such a one gives a good incumbent at once, before those that only look fast are solved. */
static bool comfortable(struct run *run, const struct ordered *at, bool *out)
{
    const struct config *config = &run->configs[at->index];
    const struct price_table *table = NULL;
    int64_t bytes = 0;
    *out = false;
    if (!workbench_table(&run->bench, config, true, &table, run->err))
        return false;
    for (int l = 0; table && l < run->bench.chain.layer_count; l++)
        bytes += price_at(table, run->bench.chain.class_of[l], 0)->weight_bytes;
    *out = table && bytes / config->stages < run->capacity_bytes / 3 * 2 &&
           config->micro_batch_count >= 2 * config->stages;
    return true;
}

/* One configuration after the other, unless it cannot be good enough any more. */
static bool visit(struct run *run, int place, bool *visited)
{
    const struct search_calls *calls = &run->options->calls;
    const struct ordered *at = &run->order[place];
    if (visited[place])
        return true;
    visited[place] = true;
    if (!solve_config(run, at->index, at->bound_ns))
        return false;
    if (calls->progress)
        calls->progress(calls->self, (int)run->result->certificate.solved, run->config_count, run->best_ns);
    return true;
}

static bool scout(struct run *run, bool *visited)
{
    for (int i = 0, found = 0; i < run->config_count && found < SCOUTS; i++) {
        bool good = false;
        if (run->order[i].bound_ns == INT64_MAX || should_stop(run))
            break;
        if (!comfortable(run, &run->order[i], &good))
            return false;
        if (good && !visit(run, i, visited))
            return false;
        found += good;
    }
    return true;
}

/* Best first until no bound lies below what is already known. */
static bool solve_configs(struct run *run)
{
    struct certificate *certificate = &run->result->certificate;
    bool *visited = arena_alloc(&run->arena, (size_t)run->config_count, sizeof *visited);
    if (!visited)
        return out_of_memory(run->err);
    if (!run->options->keep_all && !scout(run, visited))
        return false;
    for (int i = 0; i < run->config_count; i++) {
        int64_t bound_ns = run->order[i].bound_ns;
        if (bound_ns == INT64_MAX)
            break;
        if (!run->options->keep_all && bound_ns >= reach(run)) {
            for (; i < run->config_count; i++)
                certificate->pruned_bound += !visited[i];
            break;
        }
        if (should_stop(run)) {
            run->stopped = true;
            run->open_bound_ns = min_i64(run->open_bound_ns, bound_ns);
            break;
        }
        if (!visit(run, i, visited))
            return false;
    }
    return true;
}

/* ---- ranking and judging ---- */

/* Without ZeRO-3 nothing is prefetched: such plans are the same whatever the configuration said. */
static void settle_prefetch(struct plan *plan, const struct space *space)
{
    for (int l = 0; l < plan->layer_count; l++)
        if (plan->layers[l].zero == 3)
            return;
    plan->prefetch = space->prefetch.count > 0 ? (int)space->prefetch.values[0] : 1;
}

static bool is_new(const struct run *run, int kept, const struct plan *plan)
{
    for (int i = 0; i < kept; i++)
        if (run->candidates[i].plan && plan_hash(run->candidates[i].plan) == plan_hash(plan))
            return false;
    return true;
}

static bool rank_plan(struct run *run, struct candidate *c)
{
    return pipeline_step_ns(&c->ranked_ns, c->plan, &run->bench.chain, c->table, c->plan->micro_batch_count, run->err);
}

/* The formula's value of a plan; INT64_MAX when by the formula it does not fit. */
static bool evaluate_plan(struct run *run, const struct candidate *c, int64_t *step_ns)
{
    const struct plan *plan = c->plan;
    struct arena scratch = { 0 };
    int strategies = c->table->strategy_count, block = c->table->class_count * strategies;
    int *in_flight = config_in_flight(&scratch, &run->configs[c->config]);
    struct partition_plan solution = { .first_layer = arena_alloc(&scratch, (size_t)plan->stage_count, sizeof(int)),
                                       .count = arena_alloc(&scratch, (size_t)plan->stage_count * (size_t)block,
                                                            sizeof(int)) };
    bool good = in_flight && solution.first_layer && solution.count;
    for (int l = 0, k = 0; good && l < plan->layer_count; l++) {
        k += k + 1 < plan->stage_count && plan->stages[k + 1].first_layer == l;
        solution.first_layer[k] = plan->stages[k].first_layer;
        int pick = 0;
        while (c->table->strategies[pick].zero != plan->layers[l].zero ||
               c->table->strategies[pick].recompute != plan->layers[l].recompute)
            pick++;
        solution.count[k * block + run->bench.chain.class_of[l] * strategies + pick]++;
    }
    if (good) {
        struct partition_problem problem =
            workbench_problem(&run->bench, &run->configs[c->config], c->table, in_flight);
        problem.capacity_bytes = run->capacity_bytes;
        *step_ns = partition_evaluate(&problem, &solution);
    }
    arena_free(&scratch);
    return good || out_of_memory(run->err);
}

/* The plan with one cut moved by a layer, when that fits and is new. */
static bool try_neighbour(struct run *run, const struct candidate *from, int cut, int by, int *kept)
{
    struct candidate c = *from;
    c.plan = plan_copy(from->plan);
    if (!c.plan)
        return out_of_memory(run->err);
    struct plan_stage *left = &c.plan->stages[cut - 1], *right = &c.plan->stages[cut];
    left->layer_count += by;
    right->first_layer += by;
    right->layer_count -= by;
    bool good = true, wanted = left->layer_count > 0 && right->layer_count > 0 && is_new(run, *kept, c.plan);
    if (wanted)
        good = evaluate_plan(run, &c, &c.solution.step_ns) && rank_plan(run, &c);
    if (!good || !wanted || c.solution.step_ns == INT64_MAX) {
        plan_free(c.plan);
        return good;
    }
    int count = run->candidate_count;
    if (!add_candidate(run, c.config, c.table, &c.solution)) {
        plan_free(c.plan);
        return false;
    }
    run->candidates[count] = run->candidates[*kept]; /* plans stay at the front */
    run->candidates[(*kept)++] = c;
    return true;
}

/* The best plans with one cut moved by a layer: the judge wants some to choose from. */
static bool add_neighbours(struct run *run, int *kept, int least)
{
    for (int i = 0; i < *kept && *kept < least; i++)
        for (int cut = 1; cut < run->configs[run->candidates[i].config].stages && *kept < least; cut++)
            for (int by = -1; by <= 1; by += 2) {
                struct candidate from = run->candidates[i];
                if (!try_neighbour(run, &from, cut, by, kept))
                    return false;
            }
    return true;
}

/* Candidates that become plans move to the front; their number is ranked. */
static bool rank_candidates(struct run *run)
{
    int wanted = run->options->rank_count > 0 ? run->options->rank_count : DEFAULT_RANKED, kept = 0;
    qsort(run->candidates, (size_t)run->candidate_count, sizeof *run->candidates, compare_formula);
    for (int i = 0; i < run->candidate_count && kept < wanted; i++) {
        struct candidate c = run->candidates[i];
        c.plan = plan_from_partition(run->bench.space, &run->configs[c.config], run->bench.graph, &run->bench.chain,
                                     c.table, &c.solution);
        if (!c.plan)
            return out_of_memory(run->err);
        settle_prefetch(c.plan, run->bench.space);
        if (!is_new(run, kept, c.plan)) {
            plan_free(c.plan);
            continue;
        }
        run->candidates[i] = run->candidates[kept];
        run->candidates[kept++] = c;
        if (!rank_plan(run, &run->candidates[kept - 1]))
            return false;
    }
    if (!add_neighbours(run, &kept, (int)min_i64(wanted, LEAST_CANDIDATES)))
        return false;
    qsort(run->candidates, (size_t)kept, sizeof *run->candidates, compare_ranked);
    run->result->certificate.candidates = run->candidate_count;
    run->result->certificate.ranked = kept;
    return true;
}

/* plan_check wants the graph with the plan's own vocabulary padding. */
static bool judge(struct run *run, struct candidate *c, struct estimate **out)
{
    struct graph *graph = NULL;
    bool good =
        graph_build(&graph, run->bench.model, c->plan->batch, c->plan->sequence, c->plan->vocab_multiple, run->err) &&
        plan_check(c->plan, graph, run->err) &&
        estimate_plan_steady(out, run->bench.model, graph, c->plan, &run->bench.chain, c->table, run->bench.facts,
                             run->err);
    graph_free(graph);
    return good;
}

static void insert_plan(struct run *run, struct candidate *c, struct estimate *estimate)
{
    struct search_result *result = run->result;
    int place = result->plan_count;
    while (place > 0 && result->plans[place - 1].estimate->prediction.step_ns > estimate->prediction.step_ns)
        place--;
    int top = run->options->top > 0 ? run->options->top : 1;
    if (place == top) {
        estimate_free(estimate);
        return;
    }
    if (result->plan_count == top) {
        struct search_plan *last = &result->plans[--result->plan_count];
        plan_free(last->plan);
        estimate_free(last->estimate);
    }
    memmove(&result->plans[place + 1], &result->plans[place],
            (size_t)(result->plan_count - place) * sizeof *result->plans);
    result->plans[place] =
        (struct search_plan){ c->plan, run->configs[c->config], c->solution.step_ns, c->ranked_ns, estimate };
    result->plan_count++;
    c->plan = NULL; /* handed over */
}

/* In the order of their rank: at least `top` that fit, then as many more as the budget allows. *worst: the largest
 * ratio of layout to what is there, in permille, among those that do not fit. */
static bool judge_candidates(struct run *run, int64_t *worst)
{
    struct certificate *certificate = &run->result->certificate;
    int64_t spent = 0, top = max_i64(run->options->top, 1);
    *worst = 0;
    for (int i = 0; i < certificate->ranked; i++) {
        struct candidate *c = &run->candidates[i];
        struct estimate *estimate = NULL;
        if (run->result->plan_count >= top && spent >= judge_budget)
            break;
        if (!judge(run, c, &estimate))
            return false;
        certificate->judged++;
        spent += (int64_t)c->plan->layer_count * estimate->micro_batches_simulated;
        const struct prediction *p = &estimate->prediction;
        if (p->fits) {
            insert_plan(run, c, estimate);
            continue;
        }
        for (int k = 0; k < p->stage_count; k++)
            *worst = max_i64(*worst, (int64_t)((double)p->peak_bytes[k] / (double)p->available_bytes * 1000));
        certificate->rejected++;
        estimate_free(estimate);
    }
    return true;
}

static void drop_candidates(struct run *run)
{
    for (int i = 0; i < run->candidate_count; i++)
        plan_free(run->candidates[i].plan);
    run->candidate_count = 0;
}

/* Solve, rank, judge. The formula may promise bytes that the layout does not keep: then less is promised and the search
 * goes on. */
static bool search_until_fits(struct run *run)
{
    for (int shrink = 0; shrink < MAX_SHRINKS; shrink++) {
        int64_t worst = 0;
        run->best_ns = run->open_bound_ns = INT64_MAX;
        if (!solve_configs(run))
            return false;
        if (run->candidate_count == 0)
            return true;
        if (!rank_candidates(run) || !judge_candidates(run, &worst))
            return false;
        if (run->result->plan_count > 0 || run->stopped)
            return true;
        drop_candidates(run);
        run->capacity_bytes = run->capacity_bytes / max_i64(worst, 1005) * 1000;
    }
    return true;
}

static void fill_certificate(struct run *run)
{
    struct certificate *c = &run->result->certificate;
    c->configurations = run->config_count;
    c->complete = !run->stopped;
    c->bound_ns = min_i64(run->best_ns, run->open_bound_ns);
    if (c->bound_ns == INT64_MAX)
        c->bound_ns = 0; /* nothing fits: there is nothing to bound */
    if (run->result->plan_count == 0 || c->bound_ns <= 0)
        return;
    c->formula_ns = run->result->plans[0].formula_ns;
    c->formula_gap = (double)(run->best_ns - c->bound_ns) / (double)c->bound_ns;
    c->gap = (double)(run->result->plans[0].estimate->prediction.step_ns - c->bound_ns) / (double)c->bound_ns;
}

/* ---- when nothing fits ---- */

static bool thrifty_plan(struct run *run, const struct config *config, const struct price_table *table,
                         struct plan **out)
{
    struct arena scratch = { 0 };
    const int *in_flight = config_in_flight(&scratch, config);
    const struct workbench *bench = &run->bench;
    *out = in_flight ? plan_thriftiest(bench->space, config, bench->graph, &bench->chain, table, in_flight) : NULL;
    arena_free(&scratch);
    return *out != NULL || out_of_memory(run->err);
}

/* Small micro-batches need least: one configuration for each (tensor, stages) is looked at. */
static bool find_nearest(struct run *run)
{
    struct search_result *result = run->result;
    result->nearest.available_bytes = available_bytes(run->bench.facts);
    for (int i = 0; i < run->config_count; i++) {
        const struct config *config = &run->configs[i];
        const struct price_table *table = NULL;
        struct candidate c = { .config = i };
        struct estimate *estimate = NULL;
        bool repeats =
            i > 0 && run->configs[i - 1].tensor == config->tensor && run->configs[i - 1].stages == config->stages;
        if (repeats)
            continue;
        if (!workbench_table(&run->bench, config, false, &table, run->err))
            return false;
        if (!table)
            continue;
        c.table = table;
        if (!thrifty_plan(run, config, table, &c.plan) || !judge(run, &c, &estimate)) {
            plan_free(c.plan);
            return false;
        }
        const struct prediction *p = &estimate->prediction;
        int stage = 0;
        for (int k = 1; k < p->stage_count; k++)
            stage = p->peak_bytes[k] > p->peak_bytes[stage] ? k : stage;
        if (!result->nearest.plan || p->peak_bytes[stage] < result->nearest.needed_bytes) {
            plan_free(result->nearest.plan);
            result->nearest.plan = c.plan;
            result->nearest.stage = stage;
            result->nearest.needed_bytes = p->peak_bytes[stage];
            c.plan = NULL;
        }
        plan_free(c.plan);
        estimate_free(estimate);
    }
    return true;
}

static bool run_all(struct run *run, const struct model *model, const struct facts *facts)
{
    if (!workbench_open(&run->bench, model, facts, &run->options->space, run->err) ||
        !space_configs(&run->configs, &run->config_count, &run->arena, &run->options->space, run->bench.graph,
                       facts->cluster, run->err))
        return false;
    if (run->config_count == 0)
        return space_explain_empty(&run->options->space, run->bench.graph, facts->cluster, run->err);
    run->capacity_bytes = available_bytes(facts);
    run->result->plans =
        arena_alloc(&run->result->arena, (size_t)max_i64(run->options->top, 1) + 1, sizeof *run->result->plans);
    if (!run->result->plans)
        return out_of_memory(run->err);
    if (!order_configs(run) || !search_until_fits(run))
        return false;
    run->result->feasible = run->result->plan_count > 0;
    fill_certificate(run);
    if (run->result->feasible || run->options->no_advice)
        return true;
    return find_nearest(run) && (!run->result->nearest.plan ||
                                 advise(run->result, model, facts, run->options, run->err));
}

bool search_run(struct search_result **out, const struct model *model, const struct facts *facts,
                const struct search_options *options, struct error *err)
{
    struct search_result *result = calloc(1, sizeof *result);
    if (!result)
        return out_of_memory(err);
    struct run run = { .options = options, .result = result, .err = err };
    if (options->calls.now_ns)
        run.start_ns = options->calls.now_ns(options->calls.self);
    bool good = run_all(&run, model, facts);
    drop_candidates(&run);
    workbench_close(&run.bench);
    arena_free(&run.arena);
    if (good)
        *out = result;
    else
        search_result_free(result);
    return good;
}

void search_result_free(struct search_result *result)
{
    if (!result)
        return;
    for (int i = 0; i < result->plan_count; i++) {
        plan_free(result->plans[i].plan);
        estimate_free(result->plans[i].estimate);
    }
    plan_free(result->nearest.plan);
    plan_free(result->nearest.times_plan);
    arena_free(&result->arena);
    free(result);
}
