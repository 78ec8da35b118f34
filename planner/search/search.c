#include "planner/search/search.h"
#include "base/num.h"
#include "planner/program/schedule.h"
#include "planner/search/advice.h"
#include "planner/estimate/assemble.h"
#include "planner/space/config_name.h"
#include "planner/search/plain.h"
#include "planner/pool/run.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void drop_candidates(struct run *run)
{
    for (int i = 0; i < run->candidate_count; i++)
        plan_free(run->candidates[i].plan);
    run->candidate_count = 0;
}

/* Plans that fit, or were beaten before anyone knew, go to the result. */
static bool hand_over_heard(struct run *run)
{
    struct search_result *result = run->result;
    result->heard = arena_alloc(&result->arena, (size_t)run->candidate_count + 1, sizeof *result->heard);
    if (!result->heard)
        return fail_memory(run->err);
    for (int i = 0; i < run->candidate_count; i++) {
        struct candidate *c = &run->candidates[i];
        if (!c->heard || !c->plan)
            continue;
        plan_join_atoms(c->plan);
        result->heard[result->heard_count++] =
            (struct heard_plan){ c->plan, search_told_ns(c), c->solution.step_ns, c->peak_bytes };
        c->plan = NULL;
    }
    return true;
}

/* None of the plans by the formula fits after layout: others may, which they had ruled out. */
static bool judge_scouts(struct run *run)
{
    for (bool found = true; found && run->result->plan_count == 0 && !search_has_any(run);)
        if (!search_scout_on(run, &found) || (found && (!search_rank(run) || !search_judge(run))))
            return false;
    return true;
}

/* By the walk, which sees what the formula does not; then what leads is improved by it. */
static bool rank_candidates(struct run *run)
{
    return search_pass(run, PART_RANKING, search_rank) && search_pass(run, PART_CLIMB, search_climb_all);
}

/* What the proof left undone when it paused. A plan that it finds now has its turn with the judge. */
static bool end_proof(struct run *run)
{
    int before = run->candidate_count;
    if (!search_pass(run, PART_PROOF, search_solve_on))
        return false;
    return run->candidate_count == before ||
           (search_rank_more(run, before, INT64_MAX) && search_pass(run, PART_CLIMB, search_climb_all) &&
            search_pass(run, PART_JUDGE, search_judge_more));
}

/* Bound, solve, rank, judge, improve. */
static bool propose_and_judge(struct run *run)
{
    run->best_ns = INT64_MAX;
    if (!search_pass(run, PART_BOUNDS, search_order) || !search_pass(run, PART_PROOF, search_solve) ||
        !search_list_beside(run) || !search_pass(run, PART_FAMILIES, search_solve_families))
        return false;
    if (run->candidate_count > 0 &&
        (!rank_candidates(run) || !search_pass(run, PART_JUDGE, search_judge) || !judge_scouts(run)))
        return false;
    /* what is tried under other schedules or with joined ends may lead elsewhere, so neighbours are looked at after
     * both */
    if (!search_has_any(run) &&
        (!search_bound_beside(run) || !search_pass(run, PART_UNBOUNDED, search_try_beside) ||
         !search_pass(run, PART_POLISH, search_polish) || !search_pass(run, PART_JOINED, search_try_joined) ||
         !search_pass(run, PART_POLISH, search_polish)))
        return false;
    if (!end_proof(run) || !search_enter_beside(run) || !search_settle(run))
        return false;
    if (run->result->plan_count == 0 && run->stopped)
        return fail_kind(run->err, ERROR_ENVIRONMENT,
                         "plan: the search was ended before it had found a plan that fits (%lld of %lld configurations "
                         "solved); give it more time with a larger --time-limit, or a smaller space with --fix",
                         (long long)run->result->certificate.solved,
                         (long long)run->result->certificate.configurations);
    return true;
}

static bool is_unsettled(const struct config_record *record)
{
    return record->fate == FATE_LEFT || record->fate == FATE_UNSEEN;
}

/* What its first bound rules out after all, now that the best is known, need not be listed. Where some are left, those
 * that are not listed are out of reach of the best plan, too. */
static void drop_records(struct certificate *c)
{
    int kept = 0;
    for (int i = 0; i < c->record_count; i++)
        if (is_unsettled(&c->records[i]))
            return;
    for (int i = 0; i < c->record_count; i++) {
        const struct config_record *record = &c->records[i];
        if (c->bound_ns == 0 || record->fate == FATE_REFUSED || record->first_ns < c->bound_ns)
            c->records[kept++] = *record;
    }
    c->record_count = kept;
}

/* Of plans in any order where the file's alone was searched: what lacks memory does so in all of them. */
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

/* Who checks the certificate need not look for it then. */
static bool show_best(struct run *run)
{
    struct certificate *c = &run->result->certificate;
    c->best_plan = plan_from_partition(run->bench.space, &run->configs[run->best_config], run->bench.graph,
                                       &run->bench.chain, run->best_table, &run->best_solution);
    if (c->best_plan)
        plan_join_atoms(c->best_plan);
    return c->best_plan || fail_memory(run->err);
}

/* Of the list, for a plan that was found in a narrower space, where a mesh may have fewer atoms; the plan's own where
 * there is none. */
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
    if (run->result->plan_count == 0)
        return true;
    const struct search_plan *first = &run->result->plans[0];
    bool beside = run->beside_count > 0 && !config_is_bounded(&first->config), known = run->best_ns < INT64_MAX;
    bool solved = beside ? known : run->best_ns <= first->formula_ns; /* else a second look found a shorter one within
                                                                         the gap */
    c->best_ns = solved ? run->best_ns : first->formula_ns;
    const struct config *best = solved ? &run->configs[run->best_config] : listed_config(run, &first->config);
    c->best = arena_strdup(&run->result->arena, config_name(name, best));
    if (!c->best)
        return fail_memory(run->err);
    if (solved && (beside || c->best_ns != first->formula_ns) && !show_best(run))
        return false;
    if (c->bound_ns > 0)
        c->proof_gap = (double)(c->best_ns - c->bound_ns) / (double)c->bound_ns;
    certificate_measure(c, first->formula_ns, first->estimate->prediction.step_ns);
    return true;
}

/* ---- when nothing fits ---- */

/* No configuration, or none that has what is named, is an answer too. */
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

/* All configurations; when time is over before they are listed, or there are very many, and the space has a plain part,
 * those of that part: of these there are fewer, and some plan is to be found among them. */
static bool stops(void *self)
{
    return search_stops(self);
}

static bool list_configs(struct run *run, const struct cluster *cluster)
{
    const struct space_stop stop = { stops, run, SPACE_MOST_LISTED };
    const struct graph *graph = run->bench.graph;
    struct space plain = *run->space;
    bool ended = false, narrows = plain_narrow(&plain) && space_count(&plain, graph, cluster) > 0;
    if (!space_configs_until(&run->configs, &run->config_count, &run->arena, run->space, graph, cluster,
                             narrows ? &stop : NULL, &ended, run->err))
        return false;
    if (!ended)
        return true;
    *run->space = plain;
    run->result->certificate.plain_only = true;
    run->result->certificate.crowded = !search_stops(run);
    return space_configs(&run->configs, &run->config_count, &run->arena, run->space, graph, cluster, run->err);
}

static bool find_nearest_only(struct run *run)
{
    run->busy_ns = arena_alloc(&run->arena, (size_t)run->config_count, sizeof *run->busy_ns);
    return run->busy_ns ? search_list_beside(run) && search_find_nearest(run) : fail_memory(run->err);
}

/* What the plain part has is looked for, too: before all else, for half of the time, where that is limited and the
 * space is so large that it may be over before anything good is found. */
static bool propose_beside_plain(struct run *run, const struct model *model, const struct facts *facts)
{
    enum { LARGE = 20000 };
    int64_t limit_ns = run->options->time_limit_ns;
    bool first = limit_ns > 0 && run->config_count > LARGE;
    return (!first || find_plain(run->result, model, facts, run->options, run->start_ns, limit_ns / 2, run->err)) &&
           propose_and_judge(run) &&
           (first || find_plain(run->result, model, facts, run->options, run->start_ns, limit_ns, run->err));
}

static bool run_all(struct run *run, const struct model *model, const struct facts *facts)
{
    if (!workbench_open_from(&run->bench, run->options->prices, run->options->rates, model, facts, run->space,
                             run->err) ||
        !list_configs(run, facts->cluster))
        return false;
    if (run->config_count == 0 || !space_check_groups(run->space, run->configs, run->config_count, NULL))
        return explain_none(run, facts->cluster);
    run->capacity_bytes = available_bytes(facts);
    run->result->certificate.configurations = run->config_count;
    run->result->certificate.memory_bytes = run->capacity_bytes;
    if (run->options->nearest_only)
        return find_nearest_only(run);
    run->open_bound_ns = INT64_MAX;
    run->result->plans =
        arena_alloc(&run->result->arena, (size_t)max_i64(run->options->top, 1) + 1, sizeof *run->result->plans);
    if (!run->result->plans)
        return fail_memory(run->err);
    if (!propose_beside_plain(run, model, facts))
        return false;
    if (run->result->plan_count == 0 && !run->options->thrifty && !search_has_any(run) &&
        !find_thrifty(run->result, model, facts, run->options, run->start_ns, run->err))
        return false;
    run->result->feasible = run->result->plan_count > 0;
    if (!fill_certificate(run) || !search_fold(run))
        return false;
    if (run->result->feasible || run->options->no_advice)
        return true;
    return search_find_nearest(run) &&
           (!run->result->nearest.plan || advise(run->result, model, facts, run->options, run->start_ns, run->err));
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
    struct run run = { .options = &own, .space = &own.space, .result = result, .err = err };
    if (options->calls.now_ns)
        run.start_ns = options->calls.now_ns(options->calls.self);
    bool good = run_all(&run, model, facts) && hand_over_heard(&run);
    drop_candidates(&run);
    workbench_close(&run.bench);
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
    for (int i = 0; i < result->heard_count; i++)
        plan_free(result->heard[i].plan);
    plan_free(result->certificate.best_plan);
    plan_free(result->nearest.plan);
    for (int kind = 0; kind < ADVICE_COUNT; kind++)
        plan_free(result->nearest.advice[kind].plan);
    arena_free(&result->arena);
    free(result);
}
