#include "planner/estimate/effort.h"
#include "planner/search/search.h"
#include "base/num.h"
#include "planner/search/advice.h"
#include "planner/estimate/assemble.h"
#include "planner/space/config_name.h"
#include "planner/search/narrower.h"
#include "planner/search/search_parts.h"
#include <stdlib.h>
#include <string.h>

/* Hands the plans that fit, or that were beaten before anyone knew, over to the result. */
static bool hand_over_simulated(struct run *run)
{
    struct search_result *result = run->result;
    result->simulated = arena_alloc(&result->arena, (size_t)run->candidate_count + 1, sizeof *result->simulated);
    if (!result->simulated)
        return fail_memory(run->err);
    for (int i = 0; i < run->candidate_count; i++) {
        struct candidate *c = &run->candidates[i];
        if (!c->simulated || !c->plan)
            continue;
        plan_join_atoms(c->plan);
        result->simulated[result->simulated_count++] =
            (struct simulated_plan){ c->plan, judge_simulated_ns(c), c->solution.step_ns, c->peak_bytes };
        c->plan = NULL;
    }
    return true;
}

/* Scouts on where none of the formula's plans fits after layout: others may, which those had ruled out. */
static bool judge_scouts(struct run *run)
{
    for (bool found = true; found && run->result->plan_count == 0 && !run_has_any(run);)
        if (!propose_scout_on(run, &found) || (found && (!rank_candidates(run) || !judge_candidates(run))))
            return false;
    return true;
}

/* Looks at neighbours after other schedules and after joined ends, since what leads then may be another plan. */
static bool improve(struct run *run)
{
    return run_pass(run, PART_UNBOUNDED, unbounded_try) &&
           (run_has_any(run) ||
            (run_pass(run, PART_POLISH, polish_best) && run_pass(run, PART_JOINED, unbounded_try_joined) &&
             run_pass(run, PART_POLISH, polish_best)));
}

/* Ends the proof that paused. Plans that it finds now have their turn with the judge, and one that leads then is
 * improved like the one before. */
static bool end_proof(struct run *run)
{
    if (run->options->below_ns > 0 && run->result->plan_count > 0 && run_has_any(run)) {
        run->open_bound_ns = 0; /* any plan will do: nobody asks for the bound */
        return true;
    }
    int before = run->candidate_count;
    int64_t before_ns = run_best_step_ns(run);
    if (!run_pass(run, PART_PROOF, propose_rest))
        return false;
    if (run->candidate_count == before || run_has_any(run))
        return true;
    return rank_more(run, before, INT64_MAX) && run_pass(run, PART_CLIMB, climb_all) &&
           run_pass(run, PART_JUDGE, judge_more) && (run_best_step_ns(run) == before_ns || improve(run));
}

/* Bounds, solves, ranks, judges, improves: the order of work is the same whatever the time, which only ends it. */
static bool propose_and_judge(struct run *run)
{
    run->best_ns = run->options->below_ns > 0 ? run->options->below_ns : INT64_MAX;
    if (!run_pass(run, PART_BOUNDS, first_bounds_all) || !run_pass(run, PART_PROOF, propose_first) ||
        !run_pass(run, PART_FAMILIES, families_solve))
        return false;
    if (run->options->unjudged || (!run->best_table && run->options->below_ns > 0)) {
        run->result->certificate.best_ns = run->best_table ? run->best_ns : 0;
        propose_leave(run);
        return true;
    }
    /* candidates are ranked by the walk, which sees what the formula does not; then it improves those that lead */
    if (run->candidate_count > 0 && !early_ends(run) &&
        (!run_pass(run, PART_RANKING, rank_candidates) || !run_pass(run, PART_CLIMB, climb_all) ||
         (run->options->leader_count == 0 &&
          (!run_pass(run, PART_JUDGE, judge_candidates) || (run->options->below_ns == 0 && !judge_scouts(run))))))
        return false;
    if (run->options->below_ns > 0 && run->result->plan_count == 0) {
        propose_leave(run);
        return true;
    }
    if (!run_has_any(run) && (!unbounded_list(run) || !unbounded_bound(run) || !improve(run)))
        return false;
    if (!end_proof(run) || !unbounded_enter(run))
        return false;
    early_hand_out(run); /* who had less time got it, so who has more gets none that is longer */
    if (!judge_settle(run))
        return false;
    if (run->result->plan_count == 0 && run->stopped)
        return fail_ended(
            run->err,
            "plan: the search was ended before it had found a plan that fits (%lld of %lld configurations "
            "solved); give it more time with a larger --time-limit, or a smaller space with --fix",
            (long long)run->result->certificate.solved, (long long)run->result->certificate.configurations);
    return true;
}

/* Drops the records of what first bounds rule out now that the best is known, since these go without saying. Where some
 * are left, those that are not listed are out of reach of the best plan, too. */
static void drop_records(struct certificate *c)
{
    int kept = 0;
    for (int i = 0; i < c->record_count; i++)
        if (c->records[i].fate == FATE_LEFT || c->records[i].fate == FATE_UNSEEN)
            return;
    for (int i = 0; i < c->record_count; i++) {
        const struct config_record *record = &c->records[i];
        if (c->bound_ns == 0 || record->fate == FATE_REFUSED || record->first_ns < c->bound_ns)
            c->records[kept++] = *record;
    }
    c->record_count = kept;
}

/* Bounds plans in any order where only the file's was searched: what lacks memory lacks it in all of them. */
static int64_t bound_orders(const struct run *run)
{
    const struct certificate *c = &run->result->certificate;
    int64_t bound_ns = c->bound_ns;
    for (int i = 0; i < c->record_count; i++)
        if (c->records[i].fate == FATE_MEMORY)
            run->orders_ns[c->records[i].config] = INT64_MAX;
    for (int i = 0; i < run->config_count; i++)
        bound_ns = min_i64(bound_ns, run->orders_ns[i]);
    return bound_ns;
}

/* Puts the best plan into the certificate, so that who checks it need not look for one. */
static bool show_best(struct run *run)
{
    struct certificate *c = &run->result->certificate;
    c->best_plan = assemble_partition(run->bench.space, &run->configs[run->best_config], run->bench.graph,
                                      &run->bench.chain, run->best_table, &run->best_solution);
    if (c->best_plan)
        plan_join_atoms(c->best_plan);
    return c->best_plan || fail_memory(run->err);
}

/* Gives the list's configuration of a plan that was found in a narrower space, where a mesh may have fewer atoms; the
 * plan's own where the list has none. */
static const struct config *listed_config(const struct run *run, const struct config *found)
{
    char wanted[CONFIG_NAME_BYTES], name[CONFIG_NAME_BYTES];
    struct config own = *found;
    own.mesh = mesh_joined(&own.mesh);
    config_name(wanted, &own);
    for (int i = 0; i < run->config_count; i++) {
        own = run->configs[i];
        own.mesh = mesh_joined(&own.mesh);
        bool near = own.stages == found->stages && own.micro == found->micro && own.schedule == found->schedule;
        if (near && strcmp(config_name(name, &own), wanted) == 0)
            return &run->configs[i];
    }
    return found;
}

static bool fill_certificate(struct run *run)
{
    char name[CONFIG_NAME_BYTES];
    struct certificate *c = &run->result->certificate;
    c->ended = run->stopped;
    c->bound_ns = min_i64(run->best_ns, run->open_bound_ns);
    if (c->bound_ns == INT64_MAX)
        c->bound_ns = 0; /* nothing fits: there is nothing to bound */
    if (c->simulated_bound_ns == INT64_MAX)
        c->simulated_bound_ns = 0;
    for (int i = 0; i < run->config_count; i++)
        if (!config_is_bounded(&run->configs[i]))
            c->bound_ns = 0; /* it idles less than the formula's schedules */
    if (c->ideals == 0)
        c->orders_bound_ns = bound_orders(run);
    if (!run->options->keep_all)
        drop_records(c);
    if (run->result->plan_count == 0 && run->beyond && !run->stopped) { /* not for want of time */
        run->result->why =
            arena_strdup(&run->result->arena,
                         "no plan: on this cluster a step takes 52 days or longer (2^52 ns), which is more than "
                         "is counted; look at its bandwidths and latencies, and at the batch");
        return run->result->why || fail_memory(run->err);
    }
    if (run->result->plan_count == 0)
        return true;
    const struct search_plan *first = &run->result->plans[0];
    bool unbounded = run->unbounded_count > 0 && !config_is_bounded(&first->config), known = run->best_ns < INT64_MAX;
    /* where the plan is shorter by the formula than what was solved, a second look found it within the gap */
    bool solved = run->best_table && (unbounded ? known : run->best_ns <= first->formula_ns);
    c->best_ns = solved ? run->best_ns : first->formula_ns;
    const struct config *best = solved ? &run->configs[run->best_config] : listed_config(run, &first->config);
    c->best = arena_strdup(&run->result->arena, config_name(name, best));
    if (!c->best)
        return fail_memory(run->err);
    if (solved && (unbounded || c->best_ns != first->formula_ns) && !show_best(run))
        return false;
    if (c->bound_ns > 0)
        c->proof_gap = (double)(c->best_ns - c->bound_ns) / (double)c->bound_ns;
    search_report_measure(c, first->formula_ns, first->estimate->prediction.step_ns);
    return true;
}

/* ---- when nothing fits ---- */

/* Says why there is no configuration, or none that has what is named, which is an answer too. */
static bool explain_none(struct run *run, const struct cluster *cluster)
{
    struct error why = { 0 };
    const struct space *space = run->space;
    if (run->config_count == 0)
        space_explain_empty(space, run->bench.graph, cluster, &why);
    else
        space_check_groups(space, run->configs, run->config_count, &why);
    run->result->why = arena_strdup(&run->result->arena, why.message);
    return run->result->why || fail_memory(run->err);
}

/* Lists all configurations, or those that were near the best in another search of the space, under other facts. Where
 * all take too long, or are very many, and the space has a narrower part, it lists those of that part: these are fewer,
 * and some plan is to be found among them. */
static bool list_configs(struct run *run, const struct cluster *cluster)
{
    size_t among = (size_t)run->options->among_count;
    if (among > 0) {
        run->config_count = run->options->among_count;
        run->configs = arena_alloc(&run->arena, among, sizeof *run->configs);
        if (run->configs)
            memcpy(run->configs, run->options->among, among * sizeof *run->configs);
        return run->configs || fail_memory(run->err);
    }
    const struct space_stop stop = { run_stops_of, run, SPACE_MOST_LISTED };
    const struct graph *graph = run->bench.graph;
    struct space narrower = *run->space;
    bool ended = false, narrows = narrower_space(&narrower) && space_count(&narrower, graph, cluster) > 0;
    if (!space_configs_until(&run->configs, &run->config_count, &run->arena, run->space, graph, cluster,
                             narrows ? &stop : NULL, &ended, run->err))
        return false;
    if (!ended)
        return true;
    *run->space = narrower;
    run->result->certificate.narrower_only = true;
    run->result->certificate.crowded = !run_stops(run);
    return space_configs(&run->configs, &run->config_count, &run->arena, run->space, graph, cluster, run->err);
}

/* Searches the narrower part too, before all else where the space is so large that time may be over before anything
 * good is found. */
static bool propose_beside_narrower(struct run *run, const struct model *model, const struct facts *facts)
{
    bool first = run->config_count > LARGE_SPACE;
    return (!first || narrower_find(run->result, model, facts, run->options, run->start_ns, run->err)) &&
           propose_and_judge(run) &&
           (first || narrower_find(run->result, model, facts, run->options, run->start_ns, run->err));
}

static bool find_nearest(struct run *run, const struct model *model, const struct facts *facts)
{
    const struct search_options *options = run->options;
    const bool found = nearest_find(run), left = options->doubts && !options->doubtful && run->result->nearest.fits;
    if (!found || !run->result->nearest.plan || options->no_advice || left)
        return found;
    return advice_find(run->result, model, facts, options, run->start_ns, run->err);
}

static bool run_all(struct run *run, const struct model *model, const struct facts *facts)
{
    if (!workbench_open_from(&run->bench, run->options->prices, run->options->rates, model, facts, run->space,
                             run->err) ||
        !list_configs(run, facts->cluster))
        return false;
    run->bench.book.workers = run->options->calls.workers;
    if (run->config_count == 0 || !space_check_groups(run->space, run->configs, run->config_count, NULL))
        return explain_none(run, facts->cluster);
    run->capacity_bytes = facts_most_bytes(facts);
    if (run->options->doubtful)
        run->capacity_bytes = estimate_doubtful_bytes(run->capacity_bytes);
    run->result->certificate.configurations = run->config_count;
    run->result->certificate.memory_bytes = run->capacity_bytes;
    if (run->options->nearest_only) {
        run->busy_ns = arena_alloc(&run->arena, (size_t)run->config_count, sizeof *run->busy_ns);
        return run->busy_ns ? unbounded_list(run) && find_nearest(run, model, facts) : fail_memory(run->err);
    }
    run->open_bound_ns = INT64_MAX;
    run->result->plans =
        arena_alloc(&run->result->arena, (size_t)run->options->top + SPARE_PLANS + 1, sizeof *run->result->plans);
    if (!run->result->plans)
        return fail_memory(run->err);
    if (!propose_beside_narrower(run, model, facts))
        return false;
    if (run->result->plan_count == 0 && !run->options->thrifty && !run_has_any(run) &&
        !advice_find_thrifty(run->result, model, facts, run->options, run->start_ns, run->err))
        return false;
    run->result->feasible = run->result->plan_count > 0;
    run->result->beaten = run->beaten;
    if (!near_list(run) || !fill_certificate(run) || !certificate_ranges_make(run))
        return false;
    if (run->result->feasible || run->options->no_advice || run->result->why) /* then memory is not what is missing */
        return true;
    return find_nearest(run, model, facts);
}

int64_t search_time_left(const struct search_options *options, int64_t start_ns)
{
    const struct search_calls *calls = &options->calls;
    if (calls->cancelled && calls->cancelled(calls->self))
        return 0;
    if (options->time_limit_ns <= 0 || !calls->now_ns)
        return INT64_MAX;
    return max_i64(0, options->time_limit_ns - (calls->now_ns(calls->self) - start_ns));
}

bool search_run(struct search_result **out, const struct model *model, const struct facts *facts,
                const struct search_options *options, struct error *err)
{
    struct search_result *result = calloc(1, sizeof *result);
    if (!result)
        return fail_memory(err);
    struct search_options own = *options;
    own.top = max_int(own.top, 1);
    struct pipeline_shelf orders = { 0 };
    struct run run = { .options = &own, .space = &own.space, .result = result, .orders = &orders, .err = err };
    if (options->calls.now_ns)
        run.start_ns = options->calls.now_ns(options->calls.self);
    bool good = run_all(&run, model, facts) && hand_over_simulated(&run);
    for (int i = 0; i < run.candidate_count; i++)
        plan_free(run.candidates[i].plan);
    early_drop(&run);
    workbench_close(&run.bench);
    pipeline_shelf_close(&orders);
    for (struct owned_arena *owned = run.arenas; owned; owned = owned->next)
        arena_free(&owned->arena);
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
    for (int i = 0; i < result->simulated_count; i++)
        plan_free(result->simulated[i].plan);
    plan_free(result->certificate.best_plan);
    plan_free(result->nearest.plan);
    for (int kind = 0; kind < ADVICE_COUNT; kind++)
        plan_free(result->nearest.advice[kind].plan);
    arena_free(&result->arena);
    free(result);
}
