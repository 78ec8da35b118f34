#include "planner/search/search.h"
#include "base/num.h"
#include "planner/search/advice.h"
#include "planner/search/assemble.h"
#include "planner/search/search_parts.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* SLACK_PERMILLE: plans this much longer than the best by the formula are candidates too: the judge sees what the
 * formula does not. FAMILY_*: so does the best of each (stages, tensor degree) whose bound is not too far away. */
enum {
    SLACK_PERMILLE = 10,
    NODE_LIMIT = 800,
    SCOUTS = 3,
    FAMILY_PERMILLE = 300, /* families whose bound is more than this above the best are left out */
    FAMILY_GAP_PPM = 10000,
    FAMILY_TRIES = 2,   /* configurations solved for a family, until one has a plan */
    FAMILY_SOLVES = 12, /* in all */
    FAMILY_CLOSE = 4,   /* configurations solved closely for the family that leads by the pipeline */
    FEW_LAYERS = 64     /* of so many layers at most every family is solved closely, and twice as often */
};

static int compare_ordered(const void *a, const void *b)
{
    const struct ordered *x = a, *y = b;
    if (x->bound_ns != y->bound_ns)
        return x->bound_ns < y->bound_ns ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* Every configuration gets a bound that costs almost nothing, then they are taken best first. */
static bool order_configs(struct run *run)
{
    run->order = arena_alloc(&run->arena, (size_t)run->config_count, sizeof *run->order);
    if (!run->order)
        return search_out_of_memory(run->err);
    for (int i = 0; i < run->config_count; i++) {
        const struct config *config = &run->configs[i];
        const struct price_table *table = NULL;
        if (search_stops(run)) { /* nothing is known of the rest */
            run->config_count = i;
            run->open_bound_ns = 0;
            break;
        }
        if (!workbench_table(&run->bench, config, true, &table, run->err))
            return false;
        struct partition_problem problem = workbench_problem(&run->bench, config, table, NULL);
        run->order[i] = (struct ordered){ table ? partition_quick_bound(&problem) : INT64_MAX, i };
        run->result->certificate.refused += table == NULL;
    }
    qsort(run->order, (size_t)run->config_count, sizeof *run->order, compare_ordered);
    return true;
}

bool search_out_of_memory(struct error *err)
{
    return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
}

bool search_stops(struct run *run)
{
    const struct search_calls *calls = &run->options->calls;
    if (calls->cancelled && calls->cancelled(calls->self))
        run->stopped = true;
    if (run->options->time_limit_ns > 0 && calls->now_ns &&
        calls->now_ns(calls->self) - run->start_ns >= run->options->time_limit_ns)
        run->stopped = true;
    return run->stopped;
}

static bool stops(void *self)
{
    return search_stops(self);
}

bool search_same_family(const struct run *run, int config, int other)
{
    const struct config *a = &run->configs[config], *b = &run->configs[other];
    return a->stages == b->stages && a->tensor == b->tensor;
}

bool search_add_candidate(struct run *run, const struct candidate *candidate)
{
    if (run->candidate_count == run->candidate_capacity) {
        int capacity = run->candidate_capacity ? 2 * run->candidate_capacity : 256;
        struct candidate *grown = arena_alloc(&run->arena, (size_t)capacity, sizeof *grown);
        if (!grown)
            return search_out_of_memory(run->err);
        if (run->candidate_count > 0)
            memcpy(grown, run->candidates, (size_t)run->candidate_count * sizeof *grown);
        run->candidates = grown;
        run->candidate_capacity = capacity;
    }
    run->candidates[run->candidate_count++] = *candidate;
    return true;
}

bool search_problem(struct run *run, int config, const struct price_table *table, int64_t capacity_bytes,
                    struct partition_problem *out)
{
    int *in_flight = config_in_flight(&run->arena, &run->configs[config]);
    if (!in_flight)
        return search_out_of_memory(run->err);
    *out = workbench_problem(&run->bench, &run->configs[config], table, in_flight);
    out->capacity_bytes = capacity_bytes;
    out->node_limit = NODE_LIMIT;
    out->gap_ppm = run->options->gap_ppm;
    out->stops = stops;
    out->self = run;
    return true;
}

/* Plans shorter than this are of interest: a little beyond the best. */
static int64_t reach(const struct run *run)
{
    return run->best_ns == INT64_MAX ? INT64_MAX : run->best_ns + run->best_ns / 1000 * SLACK_PERMILLE + 1;
}

static bool keep_plans(struct run *run, int index, const struct price_table *table,
                       const struct partition_result *result, bool rough)
{
    for (int i = 0; i < result->plan_count; i++) {
        struct candidate candidate = {
            .config = index,
            .table = table,
            .solution = result->plans[i],
            .capacity_bytes = run->capacity_bytes,
            .rough = rough,
        };
        run->best_ns = min_i64(run->best_ns, result->plans[i].step_ns);
        if (!search_add_candidate(run, &candidate))
            return false;
    }
    return true;
}

static bool solve_config(struct run *run, int index, int64_t bound_ns)
{
    const struct price_table *table = NULL;
    struct partition_problem problem;
    struct partition_result result;
    struct certificate *certificate = &run->result->certificate;
    if (!workbench_table(&run->bench, &run->configs[index], false, &table, run->err))
        return false;
    if (!table) {
        certificate->refused++;
        return true;
    }
    if (!search_problem(run, index, table, run->capacity_bytes, &problem))
        return false;
    problem.below_ns = run->options->keep_all ? INT64_MAX : reach(run);
    if (!partition_solve(&problem, &run->arena, &result, run->err))
        return false;
    certificate->knapsacks += result.knapsacks;
    certificate->passes += result.passes;
    certificate->pruned_memory +=
        result.no_memory || (!result.feasible && !run->stopped && problem.below_ns == INT64_MAX);
    certificate->solved += !result.no_memory;
    run->open_bound_ns = min_i64(run->open_bound_ns, max_i64(bound_ns, result.bound_ns));
    return keep_plans(run, index, table, &result, false);
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
        if (run->order[i].bound_ns == INT64_MAX || search_stops(run))
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
        return search_out_of_memory(run->err);
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
        if (search_stops(run)) {
            run->open_bound_ns = min_i64(run->open_bound_ns, bound_ns);
            break;
        }
        if (!visit(run, i, visited))
            return false;
    }
    return true;
}

static bool has_candidate(const struct run *run, int config)
{
    for (int i = 0; i < run->candidate_count; i++)
        if (search_same_family(run, run->candidates[i].config, config))
            return true;
    return false;
}

/* These plans are not for the certificate but for the judge. */
static bool solve_for_family(struct run *run, int index, int64_t below_ns, bool rough)
{
    const struct price_table *table = NULL;
    struct partition_problem problem;
    struct partition_result result;
    if (!workbench_table(&run->bench, &run->configs[index], false, &table, run->err))
        return false;
    if (!table)
        return true;
    if (!search_problem(run, index, table, run->capacity_bytes, &problem))
        return false;
    problem.below_ns = below_ns;
    problem.gap_ppm = max_i64(problem.gap_ppm, rough ? FAMILY_GAP_PPM : 0);
    return partition_solve(&problem, &run->arena, &result, run->err) && keep_plans(run, index, table, &result, rough);
}

/* A family without a candidate gets one, best bound first; of a small model, several. */
static bool solve_families(struct run *run)
{
    if (run->options->keep_all || run->best_ns == INT64_MAX)
        return true;
    bool small = run->bench.chain.layer_count <= FEW_LAYERS;
    int most = small ? 2 * FAMILY_SOLVES : FAMILY_SOLVES, most_tries = small ? 2 * FAMILY_TRIES : FAMILY_TRIES;
    int64_t below_ns = run->best_ns + run->best_ns / 1000 * FAMILY_PERMILLE;
    int *tried = arena_alloc(&run->arena, (size_t)run->config_count, sizeof *tried);
    if (!tried)
        return search_out_of_memory(run->err);
    for (int i = 0, solves = 0; i < run->config_count && solves < most && !search_stops(run); i++) {
        int index = run->order[i].index, tries = 0;
        if (run->order[i].bound_ns >= below_ns)
            break;
        for (int k = 0; k < solves; k++)
            tries += search_same_family(run, tried[k], index);
        if (tries >= most_tries || (!small && has_candidate(run, index)))
            continue;
        tried[solves++] = index;
        if (!solve_for_family(run, index, below_ns, !small))
            return false;
    }
    return true;
}

/* When a family leads that was solved only roughly, its best configurations are solved like the others. */
static bool solve_leader(struct run *run)
{
    const struct candidate leader = run->candidates[0];
    if (!leader.rough)
        return true;
    int64_t below_ns = leader.solution.step_ns + leader.solution.step_ns / 1000 * SLACK_PERMILLE + 1;
    for (int i = 0, solves = 0; i < run->config_count && solves < FAMILY_CLOSE && !search_stops(run); i++) {
        if (run->order[i].bound_ns >= below_ns)
            break;
        if (!search_same_family(run, run->order[i].index, leader.config))
            continue;
        solves++;
        if (!solve_for_family(run, run->order[i].index, below_ns, false))
            return false;
    }
    return search_rank(run);
}

static void drop_candidates(struct run *run)
{
    for (int i = 0; i < run->candidate_count; i++)
        plan_free(run->candidates[i].plan);
    run->candidate_count = 0;
}

/* Solve, rank, judge. */
static bool propose_and_judge(struct run *run)
{
    run->best_ns = INT64_MAX;
    if (!solve_configs(run) || !solve_families(run))
        return false;
    if (run->candidate_count > 0 && (!search_rank(run) || !solve_leader(run) || !search_judge(run)))
        return false;
    if (run->result->plan_count == 0 && run->stopped)
        return fail_kind(run->err, ERROR_ENVIRONMENT,
                         "plan: the search was ended before it had found a plan that fits (%lld of %d configurations "
                         "solved); give it more time with a larger --time-limit, or a smaller space with --fix",
                         (long long)run->result->certificate.solved, run->config_count);
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
    return *out != NULL || search_out_of_memory(run->err);
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
        if (search_stops(run) && result->nearest.plan)
            return true;
        if (!workbench_table(&run->bench, config, false, &table, run->err))
            return false;
        if (!table)
            continue;
        c.table = table;
        if (!thrifty_plan(run, config, table, &c.plan) || !search_estimate(run, c.plan, table, &estimate)) {
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
    run->open_bound_ns = INT64_MAX;
    run->result->plans =
        arena_alloc(&run->result->arena, (size_t)max_i64(run->options->top, 1) + 1, sizeof *run->result->plans);
    if (!run->result->plans)
        return search_out_of_memory(run->err);
    if (!order_configs(run) || !propose_and_judge(run))
        return false;
    run->result->feasible = run->result->plan_count > 0;
    fill_certificate(run);
    if (run->result->feasible || run->options->no_advice)
        return true;
    return find_nearest(run) &&
           (!run->result->nearest.plan || advise(run->result, model, facts, run->options, run->start_ns, run->err));
}

bool search_run(struct search_result **out, const struct model *model, const struct facts *facts,
                const struct search_options *options, struct error *err)
{
    struct search_result *result = calloc(1, sizeof *result);
    if (!result)
        return search_out_of_memory(err);
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
