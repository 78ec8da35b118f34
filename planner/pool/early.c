/* A plan for those whose time ends before the judge has said anything: of what the formula has found so far the plan
 * that the walk finds shortest, simulated at once. Nothing else in the search knows of it, so that whoever has more
 * time gets the candidates, verdicts and incumbents that he would have without a limit, and more of them. */
#include "planner/estimate/effort.h"
#include "planner/pool/early.h"
#include "planner/pool/pool_parts.h"
#include <stdlib.h>
#include <string.h>

/* Copies of the best candidates by the formula, with plans of their own and ranks. */
static bool look(struct run *run, struct candidate *looks, int *count)
{
    int all = run->candidate_count;
    struct candidate *sorted = malloc((size_t)all * sizeof *sorted);
    *count = 0;
    if (!sorted)
        return fail_memory(run->err);
    memcpy(sorted, run->candidates, (size_t)all * sizeof *sorted);
    qsort(sorted, (size_t)all, sizeof *sorted, rank_compare_formula);
    bool good = true;
    for (int i = 0; i < all && *count < EARLY_LOOKS && good; i++) {
        looks[*count] = sorted[i];
        good = rank_make_plan(run, &looks[*count]);
        *count += good;
    }
    free(sorted);
    return good;
}

/* Takes the candidate's plan over where it fits and is shorter than the one that there is. Where it does not, the
 * candidate gets one that leaves what this one lacks; none, where there is none. */
static bool try_plan(struct run *run, struct candidate *c, bool *fits)
{
    struct search_plan *early = &run->early;
    struct search_plan plan = { c->plan, run->configs[c->config], c->solution.step_ns, c->ranked_ns, NULL };
    int64_t worth_ns = early->plan ? early->estimate->prediction.step_ns : INT64_MAX;
    int64_t spent = 0;
    bool smaller = false;
    if (!judge_simulate(run, c, worth_ns, &plan.estimate, &spent, run->err))
        return false;
    *fits = plan.estimate->beaten || plan.estimate->prediction.fits;
    if (!plan.estimate->beaten && *fits && plan.estimate->prediction.step_ns < worth_ns) {
        early_drop(run);
        *early = plan;
        plan_join_atoms(early->plan);
        c->plan = NULL;
        return true;
    }
    bool good = *fits || judge_solve_smaller(run, c, plan.estimate, &smaller);
    estimate_free(plan.estimate);
    if (!smaller) {
        plan_free(c->plan);
        c->plan = NULL;
    }
    return good;
}

/* Gives the shortest by the walk of those with a plan left; NULL where none is worth it beside the early plan there is,
 * since the judge looks closer in the end. */
static struct candidate *shortest(const struct run *run, struct candidate *looks, int count)
{
    struct candidate *next = NULL;
    int64_t below_ns = run->early.plan ? run->early.ranked_ns - run->early.ranked_ns / EARLY_GAIN_SHARE : INT64_MAX;
    for (int i = 0; i < count; i++)
        if (looks[i].plan && looks[i].ranked_ns < (next ? next->ranked_ns : below_ns))
            next = &looks[i];
    return next;
}

bool early_judge(struct run *run)
{
    struct candidate looks[EARLY_LOOKS];
    int count = 0;
    bool wanted = run->options->time_limit_ns > 0 && !run->options->any_plan && run->result->plan_count == 0;
    if (!wanted || run->candidate_count == 0)
        return true;
    bool good = look(run, looks, &count), fits = false;
    for (int tries = 0; tries < EARLY_TRIES && good && !fits; tries++) {
        struct candidate *next = shortest(run, looks, count);
        if (!next)
            break;
        good = try_plan(run, next, &fits);
    }
    for (int i = 0; i < count; i++)
        plan_free(looks[i].plan);
    return good;
}

void early_hand_out(struct run *run)
{
    if (run->early.plan && judge_list_plan(run->result, &run->early, run->options->top + SPARE_PLANS))
        run->early = (struct search_plan){ 0 };
}

bool early_ends(struct run *run)
{
    if (!run_stops(run))
        return false;
    early_hand_out(run);
    return run->result->plan_count > 0;
}

void early_drop(struct run *run)
{
    plan_free(run->early.plan);
    estimate_free(run->early.estimate);
    run->early = (struct search_plan){ 0 };
}
