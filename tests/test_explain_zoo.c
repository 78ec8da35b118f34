/* What plans there are besides, of a model of the zoo: whoever finds one, all that show several know it. */
#include "planner/explain/explain_several.h"
#include "tests/zoo_search.h"
#include <string.h>

/* gpt2 in 8 sequences on four consumer GPUs, or two: plans of several kinds lie close to each other. */
struct job {
    struct model *model;
    struct cluster *cluster;
    struct facts facts;
    struct search_options options;
    struct explainer e;
};

static void job_open(struct job *job)
{
    job->model = model_of_zoo("gpt2");
    job->cluster = cluster_open(all_cases() ? "1x4:rtx4090" : "1x2:rtx4090");
    job->facts = (struct facts){ .cluster = job->cluster };
    job->options = (struct search_options){ .space = space_default(8, 0, DTYPE_BF16), .top = 1, .gap_ppm = 1000 };
    explainer_open(&job->e, job->model, &job->facts, &job->options);
}

static void job_close(struct job *job)
{
    explainer_close(&job->e);
    cluster_free(job->cluster);
    model_free(job->model);
}

static const struct explained *best_plan(struct job *job)
{
    struct solution best;
    struct error err = { 0 };
    ck_assert_msg(explainer_base(&job->e, &best, &err), "%s", err.message);
    ck_assert_int_eq(best.kind, SOLUTION_PLAN);
    return best.explained;
}

/* ---- the best of each kind ---- */

static bool is_of_kind(const char *kind, const struct choice *c, const struct choice *mine)
{
    return !strcmp(kind, "other pipeline degree")   ? c->pipeline != mine->pipeline
           : !strcmp(kind, "other tensor degree")   ? c->tensor != mine->tensor
           : !strcmp(kind, "other micro-batch")     ? c->micro != mine->micro
           : !strcmp(kind, "no pipeline")           ? c->pipeline == 1
           : !strcmp(kind, "no tensor parallelism") ? c->tensor == 1
           : !strcmp(kind, "no ZeRO")               ? c->zero[0] == c->weighted
           : !strcmp(kind, "ZeRO-3 everywhere")     ? c->zero[3] == c->weighted
           : !strcmp(kind, "no recomputation")      ? c->recompute[RECOMPUTE_NONE] == c->layers
           : !strcmp(kind, "full recomputation")    ? c->recompute[RECOMPUTE_FULL] == c->layers
                                                    : false;
}

/* Of each kind that explains the plan the shortest that anybody found is shown, whatever it was sought for. */
static void check_shortest(struct explainer *e, const struct explained *plan, const struct alternatives *list)
{
    struct choice mine = choice_of(plan->plan, plan->graph);
    struct error err = { 0 };
    for (int k = 0; k < e->known_count; k++) {
        const struct explained *known = e->known[k].explained;
        struct choice c = choice_of(known->plan, known->graph);
        struct account account;
        ck_assert(explainer_account(e, known, e->facts, &account, &err));
        for (int i = 0; i < list->count && account.fits; i++) {
            const struct solution *s = &list->list[i].solution;
            if (!is_of_kind(list->list[i].kind, &c, &mine))
                continue;
            ck_assert_int_eq(s->kind, SOLUTION_PLAN);
            ck_assert_msg(s->step_ns <= account.step_ns, "%s: shown %lld, known %lld", list->list[i].kind,
                          (long long)s->step_ns, (long long)account.step_ns);
        }
    }
}

/* ---- the shortest plans ---- */

/* Of plans that differ in more than trifles none that an explanation shows is left out for a longer one. */
static void check_ranking(const struct job *job, const struct alternatives *list)
{
    enum { WANTED = 8 };
    struct search_options options = job->options;
    struct ranking ranking;
    struct explainer fresh;
    struct search_result *first = NULL;
    struct graph *graph = NULL;
    struct error err = { 0 };
    options.top = WANTED;
    explainer_open(&fresh, job->model, &job->facts, &options);
    ck_assert(search_run(&first, job->model, &job->facts, &options, &err));
    ck_assert(explainer_start(&fresh, first, &err));
    ck_assert_msg(ranking_build(&ranking, first, &fresh, WANTED, &err), "%s", err.message);
    ck_assert(graph_build(&graph, job->model, 8, 0, 1, &err));
    ck_assert_int_eq(ranking.count, WANTED);
    int64_t last_ns = ranking.plans[WANTED - 1].estimate->prediction.step_ns;
    for (int i = 0; i < list->count; i++) {
        const struct solution *s = &list->list[i].solution;
        bool distinct = s->kind == SOLUTION_PLAN && s->step_ns < last_ns;
        for (int k = 0; k < WANTED && distinct && ranking.plans[k].estimate->prediction.step_ns <= s->step_ns; k++)
            ck_assert(several_distinct(graph, ranking.plans[k].plan, s->explained->plan, &distinct, &err));
        ck_assert_msg(!distinct, "%s: %lld is left out", list->list[i].kind, (long long)s->step_ns);
    }
    graph_free(graph);
    ranking_free(&ranking);
    explainer_close(&fresh);
    search_result_free(first);
}

/* ---- step against memory ---- */

/* Nothing that is known beats a point in both, and what nothing beats is a point. */
static void check_frontier(struct explainer *e)
{
    struct frontier f;
    struct error err = { 0 };
    ck_assert_msg(explain_memory_frontier(e, &f, &err), "%s", err.message);
    ck_assert_int_gt(f.count, 4);
    for (int i = 0; i < e->known_count; i++) {
        const struct solution *own = &e->known[i].own;
        bool reached = own->kind != SOLUTION_PLAN;
        for (int k = 0; k < f.count; k++) {
            const struct point *at = &f.points[k];
            reached = reached || (at->step_ns <= own->step_ns && at->peak_bytes <= own->peak_bytes);
            if (own->kind == SOLUTION_PLAN)
                ck_assert(own->step_ns >= at->step_ns || own->peak_bytes >= at->peak_bytes);
        }
        ck_assert_msg(reached, "%lld ns with %lld bytes is left out", (long long)own->step_ns,
                      (long long)own->peak_bytes);
    }
}

/* ---- all three of one explainer, whose alternatives take longest ---- */

/* A small share leaves it to the toys of tests/test_explain.c and tests/test_explain_several.c. */
START_TEST(all_that_show_several_know_the_alternatives)
{
    struct job job;
    struct alternatives list;
    struct error err = { 0 };
    if (small_share())
        return;
    job_open(&job);
    const struct explained *plan = best_plan(&job);
    ck_assert_msg(explain_alternatives(&job.e, plan, &list, &err), "%s", err.message);
    ck_assert_int_ge(list.count, 6);
    check_shortest(&job.e, plan, &list);
    check_ranking(&job, &list);
    if (all_cases()) /* tests/test_explain_several.c has it of a toy */
        check_frontier(&job.e);
    job_close(&job);
}
END_TEST

/* ---- nothing fits ---- */

static int64_t laid_out_bytes(const struct model *model, const struct plan *plan, const struct facts *facts)
{
    struct graph *graph = NULL;
    struct estimate *estimate = NULL;
    struct error err = { 0 };
    ck_assert(plan_graph(&graph, model, plan, &err));
    ck_assert_msg(estimate_plan(&estimate, graph, plan, facts, &err), "%s", err.message);
    int64_t bytes = estimate_peak_bytes(&estimate->prediction);
    estimate_free(estimate);
    graph_free(graph);
    return bytes;
}

/* What is missing is one number, to the byte of the whole program; with hardly more than that there is a plan. */
START_TEST(missing_bytes_are_those_of_the_layout)
{
    struct model *model = model_of_zoo("llama-2-7b");
    struct cluster *cluster = cluster_open("1x4:rtx4090");
    struct facts facts = { .cluster = cluster };
    struct search_options options = { .space = space_default(8, 0, DTYPE_BF16), .top = 1, .gap_ppm = 1000 };
    struct search_result *result = NULL;
    struct explainer e;
    struct variation v = variation_none();
    struct varied varied;
    struct solution found;
    struct error err = { 0 };
    int64_t missing = 0;
    options.space.zero = options.space.recompute = (struct allowed){ 1, { 0 } };
    ck_assert(search_run(&result, model, &facts, &options, &err) && !result->feasible);
    explainer_open(&e, model, &facts, &options);
    ck_assert(explain_missing(&e, &options.space, &facts, &missing, &err));
    ck_assert_int_eq(missing, search_missing_bytes(result));
    ck_assert_int_eq(result->nearest.needed_bytes, laid_out_bytes(model, result->nearest.plan, &facts));
    v.memory = (double)(result->nearest.needed_bytes / 128 * 129) / (double)facts_most_bytes(&facts);
    ck_assert(varied_open(&varied, &facts, &v, &err));
    ck_assert(explainer_solve(&e, &options.space, &varied.facts, &found, &err));
    ck_assert_int_eq(found.kind, SOLUTION_PLAN);
    varied_free(&varied);
    explainer_close(&e);
    search_result_free(result);
    cluster_free(cluster);
    model_free(model);
}
END_TEST

/* The best plan of two stages under one schedule, or under all synchronous ones but that. */
static struct search_result *search_under(const struct search_options *options, const struct model *model,
                                          const struct facts *facts, const char *schedule, bool others)
{
    struct search_options own = *options;
    struct search_result *result = NULL;
    struct error err = { 0 };
    own.space.stages = (struct allowed){ 1, { 2 } };
    for (int s = 0; schedules[s]; s++)
        if (!schedules[s]->asynchronous && (strcmp(schedules[s]->name, schedule) == 0) != others)
            own.space.schedule.values[own.space.schedule.count++] = s;
    ck_assert_msg(search_run(&result, model, facts, &own, &err), "%s", err.message);
    ck_assert(result->feasible);
    return result;
}

/* A plan whose program is long is explained with little effort, and yet what is shown of other schedules is what the
 * whole search finds of them: here they idle so much less that there is a fifth to gain. */
START_TEST(other_schedules_are_not_missed)
{
    if (small_share())
        return;
    struct model *model = model_of_zoo("bert-large");
    struct cluster *cluster = cluster_open("2x4:rtx4090");
    struct facts facts = { .cluster = cluster };
    struct search_options options = { .space = space_default(1024, 0, DTYPE_BF16), .top = 1, .gap_ppm = 1000 };
    struct search_result *mine = search_under(&options, model, &facts, "1f1b", false);
    struct search_result *best = search_under(&options, model, &facts, "1f1b", true);
    int64_t mine_ns = mine->plans[0].estimate->prediction.step_ns,
            best_ns = best->plans[0].estimate->prediction.step_ns;
    const struct explained *explained = NULL;
    struct alternatives list;
    struct explainer e;
    struct error err = { 0 };
    int met = 0;
    ck_assert_int_lt(best_ns, mine_ns / 10 * 9);
    explainer_open(&e, model, &facts, &options);
    ck_assert(explainer_plan(&e, mine->plans[0].plan, &explained, &err) && explainer_is_dear(explained));
    ck_assert_msg(explain_alternatives(&e, explained, &list, &err), "%s", err.message);
    for (int i = 0; i < list.count; i++) {
        const struct alternative *a = &list.list[i];
        if (strcmp(a->kind, "other schedule") != 0)
            continue;
        met++;
        ck_assert_int_eq(a->solution.kind, SOLUTION_PLAN);
        ck_assert_int_le(a->solution.step_ns, best_ns + best_ns / 100);
    }
    ck_assert_int_eq(met, 1);
    explainer_close(&e);
    search_result_free(mine);
    search_result_free(best);
    cluster_free(cluster);
    model_free(model);
}
END_TEST

static Suite *explain_zoo_suite(void)
{
    Suite *suite = suite_create("plans besides");
    CHECK_ADD(suite, all_that_show_several_know_the_alternatives);
    CHECK_ADD(suite, missing_bytes_are_those_of_the_layout);
    CHECK_ADD(suite, other_schedules_are_not_missed);
    return suite;
}

CHECK_MAIN(explain_zoo_suite)
