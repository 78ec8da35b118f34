/* The simulation judges: first the best of each family while it may still win, then what the budget allows. One after
 * the other, since each verdict may spare the next: a program is large, and few are worth lowering. */
#include "base/num.h"
#include "planner/estimate/effort.h"
#include "planner/cost/cost.h"
#include "planner/estimate/pace.h"
#include "planner/pool/early.h"
#include "planner/pool/pool_parts.h"
#include "planner/program/schedule.h"
#include <string.h>

/* Takes the estimate from where the plan was judged before, so that it is not simulated twice. */
static struct estimate *take_known(const struct run *run, const struct plan *plan, int64_t worth_ns)
{
    struct search_known *known = run->options->known;
    if (!known || !known->estimate || known->hash != plan_hash(plan) || !known->estimate->prediction.fits ||
        known->estimate->prediction.step_ns >= worth_ns)
        return NULL;
    struct estimate *estimate = known->estimate;
    known->estimate = NULL;
    return estimate;
}

/* Judges the plan on the graph with the plan's own vocabulary padding, which plan_check() wants. */
bool judge_plan(const struct run *run, const struct plan *plan, const struct price_table *table, int64_t worth_ns,
                struct estimate **out, struct error *err)
{
    struct graph *graph = NULL;
    bool paced = run->options->paced && !(run->options->told && pace_is_uneven(plan));
    if (paced && (*out = take_known(run, plan, worth_ns)))
        return true;
    bool good = plan_graph(&graph, run->bench.model, plan, err) && plan_check(plan, graph, err) &&
                (paced ? estimate_plan_paced(out, run->options->paces, run->bench.model, graph, plan, run->bench.facts,
                                             worth_ns, err)
                       : estimate_plan_steady(out, run->bench.model, graph, plan, &run->bench.chain, table,
                                              run->bench.facts, worth_ns, err));
    graph_free(graph);
    return good;
}

static void drop_plan(struct search_result *result, int index)
{
    struct search_plan *plan = &result->plans[index];
    plan_free(plan->plan);
    estimate_free(plan->estimate);
    memmove(plan, plan + 1, (size_t)(--result->plan_count - index) * sizeof *plan);
}

bool judge_list_plan(struct search_result *result, const struct search_plan *plan, int top)
{
    int place = result->plan_count;
    int64_t step_ns = plan->estimate->prediction.step_ns;
    while (place > 0 && result->plans[place - 1].estimate->prediction.step_ns > step_ns)
        place--;
    for (int i = 0; i < result->plan_count; i++)
        if (plan_hash(result->plans[i].plan) == plan_hash(plan->plan))
            return false;
    if (place == top)
        return false;
    if (result->plan_count == top)
        drop_plan(result, top - 1);
    memmove(&result->plans[place + 1], &result->plans[place],
            (size_t)(result->plan_count - place) * sizeof *result->plans);
    result->plans[place] = *plan;
    result->plan_count++;
    return true;
}

/* Takes the estimate over. */
static bool insert_plan(struct run *run, const struct candidate *c, struct estimate *estimate)
{
    struct search_plan plan = { plan_copy(c->plan), run->configs[c->config], c->solution.step_ns, c->ranked_ns,
                                estimate };
    bool good = plan.plan || fail_memory(run->err);
    if (good)
        plan_join_atoms(plan.plan); /* where no layer made use of groups of shards */
    int64_t before_ns = run_best_step_ns(run), step_ns = estimate->prediction.step_ns;
    if (good && judge_list_plan(run->result, &plan, run->options->top + SPARE_PLANS)) {
        run->result->parts[c->origin].led += step_ns < before_ns;
        return true;
    }
    plan_free(plan.plan);
    estimate_free(estimate);
    return good;
}

/* Gives the step from which a plan would not be among the best, so that its simulation may end there. */
static int64_t worth(const struct run *run)
{
    int top = run->options->top;
    const struct search_plan *last = &run->result->plans[top - 1];
    int64_t asked_ns = run->options->worth_ns > 0 ? run->options->worth_ns : INT64_MAX;
    return run->result->plan_count < top ? asked_ns : min_i64(asked_ns, last->estimate->prediction.step_ns);
}

/* Solves the configuration anew with less memory. *found: the best of its plans by the walk is the candidate's now. */
static bool solve_smaller(struct run *run, struct candidate *c, int64_t capacity_bytes, bool *found)
{
    struct partition_problem problem;
    struct partition_result result;
    *found = false;
    c->capacity_bytes = capacity_bytes;
    if (!reserve_problem(run, c, capacity_bytes, &problem))
        return false;
    problem.gap_ppm = max_i64(problem.gap_ppm, SHRUNK_GAP_PPM);
    if (!config_is_bounded(&run->configs[c->config])) /* else the closed form may say more than the simulation */
        problem.below_ns = run_with_idle_ns(&run->configs[c->config], worth(run));
    else if (run->options->below_ns > 0)
        problem.below_ns = run->options->below_ns;
    if (run->result->plan_count == 0)
        problem.stops = NULL; /* short, and without it there may be no answer at all */
    if (!partition_solve(&problem, &run->arena, &result, run->err))
        return false;
    if (result.plan_count == 0)
        return true;
    plan_free(c->plan);
    *found = true;
    return rank_make_best(run, c, &result);
}

/* Reserves what the layout of one lacked for the rest of its family before they are laid out, since they will lack it,
 * too, and who wants any plan that fits asks few candidates. Of the 54 plans that `explain` of a 70B plan lays out 17
 * did not fit; with this it takes 5.7 in place of 6.2 s of processor, and says the same. */
static bool reserve_for_family(struct run *run, const struct candidate *c)
{
    for (int i = 0; run->options->any_plan && c->reserve_bytes && i < run->result->certificate.ranked; i++) {
        struct candidate *other = &run->candidates[i];
        int64_t step_ns = 0;
        bool found = true;
        if (other == c || other->judged || other->reserve_bytes || !other->plan ||
            !run_same_family(run, other->config, c->config))
            continue;
        if (!reserve_set(run, other, c->reserve_bytes) || !rank_formula(run, other, other->capacity_bytes, &step_ns) ||
            (step_ns == INT64_MAX && !solve_smaller(run, other, other->capacity_bytes, &found)))
            return false;
        other->judged = !found;
    }
    return true;
}

/* Promises less where the layout does not keep what the formula promised. The candidate is judged for good when nothing
 * fits into that. */
static bool shrink(struct run *run, struct candidate *c, const struct prediction *p)
{
    bool found = false;
    if (!reserve_more(run, c, p))
        return false;
    c->judged = true;
    if (!reserve_for_family(run, c))
        return false;
    if (++c->shrinks > MAX_SHRINKS)
        return true;
    if (!solve_smaller(run, c, c->capacity_bytes, &found))
        return false;
    c->judged = !found;
    return true;
}

/* Judges another plan instead of one that needs the room which a shortened program must leave, if one that leaves it is
 * nearly as good: the former will hardly fit. */
static bool make_room(struct run *run, struct candidate *c)
{
    int64_t step_ns = INT64_MAX, promised = estimate_promised_bytes(run->capacity_bytes, c->plan);
    bool found = false;
    if (c->capacity_bytes <= promised || c->roomy || !estimate_shortens(c->plan))
        return true;
    c->roomy = true;
    if (!rank_formula(run, c, promised, &step_ns) || step_ns < INT64_MAX)
        return step_ns < INT64_MAX;
    struct candidate smaller = *c;
    smaller.plan = NULL;
    if (!solve_smaller(run, &smaller, promised, &found))
        return false;
    if (!found || smaller.ranked_ns > c->ranked_ns + c->ranked_ns / 1000 * ROOM_PERMILLE) {
        plan_free(smaller.plan);
        return true;
    }
    plan_free(c->plan);
    *c = smaller;
    return true;
}

static bool family_simulated(const struct run *run, const struct candidate *c)
{
    for (int i = 0; i < run->result->certificate.ranked; i++)
        if (run->candidates[i].simulated && run_same_family(run, run->candidates[i].config, c->config))
            return true;
    return false;
}

/* Gives the best-ranked candidate of a family of which no plan that fits was simulated; NULL where there is none. */
static struct candidate *next_fresh(struct run *run)
{
    struct candidate *next = NULL;
    for (int i = 0; i < run->result->certificate.ranked; i++) {
        struct candidate *c = &run->candidates[i];
        if (!c->judged && (!next || c->ranked_ns < next->ranked_ns) && !family_simulated(run, c))
            next = c;
    }
    return next;
}

/* Gives the candidate that is expected to be best of those that nobody has judged. hopeful: only what may win counts;
 * most_effort: so does only what takes about so much at most. */
static struct candidate *next_kind(struct run *run, bool hopeful, int64_t most_effort)
{
    struct candidate *next = NULL;
    int64_t least_ns = 0;
    for (int i = 0; i < run->result->certificate.ranked; i++) {
        struct candidate *c = &run->candidates[i];
        int64_t doubt = c->ranked_ns / 100 * DOUBT_PERCENT;
        if (c->judged || (hopeful && c->ranked_ns - doubt >= run_best_step_ns(run)))
            continue;
        int64_t ns = judge_expected_ns(run, c);
        if ((!next || ns < least_ns) && estimate_effort(c->plan) <= most_effort) { /* which takes longest to find */
            next = c;
            least_ns = ns;
        }
    }
    return next;
}

/* Gives the candidate that is expected to be best, or, of those expected to be about as good, a cheaper one. */
static struct candidate *next_cheap(struct run *run, bool hopeful, int64_t most_effort)
{
    struct candidate *next = next_kind(run, hopeful, most_effort), *cheaper = next;
    int64_t least_ns = next ? judge_expected_ns(run, next) : 0;
    while (cheaper && judge_expected_ns(run, cheaper) <= least_ns + least_ns / CHEAPER_SHARE) {
        next = cheaper;
        cheaper = next_kind(run, hopeful, estimate_effort(next->plan) / 2);
    }
    return next;
}

/* Gives the bytes of the stage that keeps most on the host. */
static int64_t host_bytes(const struct prediction *p)
{
    int64_t most = 0;
    for (int s = 0; p->host_bytes && s < p->stage_count; s++)
        most = max_i64(most, p->host_bytes[s]);
    return most;
}

/* Solves the candidate's configuration anew where it is expected to keep more than so much on the host; it counts as
 * judged where that finds nothing. */
static bool make_host_room(struct run *run, struct candidate *c, int64_t most_bytes)
{
    int64_t bytes = 0;
    bool found = false;
    if (!host_room_bytes(run, c, &bytes))
        return false;
    if (bytes <= most_bytes)
        return true;
    if (!host_room_solve(run, c, most_bytes, &found))
        return false;
    c->judged = !found;
    if (!found)
        return true;
    plan_free(c->plan);
    c->plan = NULL;
    return rank_make_plan(run, c);
}

/* Has less kept on the host, where less memory on the device would not help. */
static bool keep_less(struct run *run, struct candidate *c, const struct prediction *p)
{
    int64_t bytes = 0;
    c->judged = true;
    if (!host_room_bytes(run, c, &bytes))
        return false;
    if (bytes == 0 || ++c->shrinks > MAX_SHRINKS)
        return true;
    double rate = (double)host_bytes(p) / (double)bytes * (1 + HOST_MARGIN_PERCENT * (c->shrinks - 1) / 100.0);
    int64_t most_bytes = (int64_t)((double)p->host_available_bytes / rate);
    run->host_bytes = max_i64(p->host_available_bytes, most_bytes);
    return make_host_room(run, c, most_bytes);
}

/* True when the plan is so little below what there is that a step of more micro-batches may not fit after all, or so
 * little above that it may, where such a plan is asked for. */
static bool may_turn(const struct prediction *p, bool tight)
{
    int below = 0, above = 0;
    for (int s = 0; s < p->stage_count; s++) {
        int64_t margin = p->available_bytes[s] / MARGIN_SHARE;
        below += p->peak_bytes[s] <= p->available_bytes[s] - margin;
        above += p->peak_bytes[s] > p->available_bytes[s] + margin;
    }
    return p->fits ? below < p->stage_count : tight && above == 0;
}

static bool settle(const struct run *run, const struct plan *plan, struct estimate *estimate, struct error *err)
{
    return estimate_settle(estimate, run->bench.model, plan, run->bench.facts, err);
}

/* Takes the second look at memory. A plan that did not fit at the first has no time yet, and is simulated then. */
static bool look_again(const struct run *run, const struct candidate *c, struct estimate **estimate, struct error *err)
{
    struct graph *graph = NULL;
    bool fitted = (*estimate)->prediction.fits;
    if (!settle(run, c->plan, *estimate, err))
        return false;
    if (fitted || !(*estimate)->prediction.fits)
        return true;
    estimate_free(*estimate);
    *estimate = NULL;
    bool good = plan_graph(&graph, run->bench.model, c->plan, err) &&
                estimate_plan_periodic(estimate, run->bench.model, graph, c->plan, run->bench.facts, err) &&
                settle(run, c->plan, *estimate, err);
    graph_free(graph);
    return good;
}

bool judge_simulate(const struct run *run, const struct candidate *c, int64_t worth_ns, struct estimate **out,
                    int64_t *spent, struct error *err)
{
    if (!judge_plan(run, c->plan, c->table, worth_ns, out, err))
        return false;
    *spent += (*out)->effort;
    bool turns = !(*out)->beaten && may_turn(&(*out)->prediction, run->options->tight);
    if (!turns || look_again(run, c, out, err))
        return true;
    estimate_free(*out);
    *out = NULL;
    return false;
}

/* Prices say without lowering that the plan does not fit: of schedules that compute weights' gradients apart from
 * inputs', since the closed form does not know what is kept for these. *lacking: what is needed then, in the arena. */
static bool lacks_memory(const struct run *run, const struct candidate *c, struct arena *arena,
                         struct prediction *needed, bool *lacks)
{
    int stages = c->plan->stage_count;
    *lacks = false;
    if (!schedules[c->plan->schedule]->splits)
        return true;
    *needed =
        (struct prediction){ .stage_count = stages,
                             .peak_bytes = arena_alloc(arena, (size_t)stages, sizeof *needed->peak_bytes),
                             .available_bytes = arena_alloc(arena, (size_t)stages, sizeof *needed->available_bytes) };
    if (arena_failed(arena))
        return fail_memory(run->err);
    if (!estimate_held_bytes(needed->peak_bytes, c->plan, &run->bench.chain, c->table, run->err))
        return false;
    for (int k = 0; k < stages; k++) {
        int64_t available = cost_stage_available_bytes(run->bench.facts, c->plan, k);
        needed->available_bytes[k] = available;
        *lacks |= needed->peak_bytes[k] > available + available / HELD_DOUBT_SHARE;
    }
    return true;
}

/* Counts what a layout that nobody made would take beyond its bound. */
static void count_unplaced(struct estimate *estimate)
{
    for (int s = 0; estimate->unplaced && s < estimate->prediction.stage_count; s++)
        estimate->prediction.peak_bytes[s] += estimate->prediction.peak_bytes[s] / PACKED_SHARE;
}

bool judge_solve_smaller(struct run *run, struct candidate *c, struct estimate *lacking, bool *found)
{
    *found = false;
    count_unplaced(lacking);
    return host_bytes(&lacking->prediction) > lacking->prediction.host_available_bytes ||
           (reserve_evenly(run, c, &lacking->prediction) && solve_smaller(run, c, c->capacity_bytes, found));
}

static bool simulate_one(struct run *run, struct candidate *c, int64_t *spent)
{
    struct estimate *estimate = NULL;
    if (!judge_simulate(run, c, worth(run), &estimate, spent, run->err))
        return false;
    run->result->certificate.judged++;
    run->result->parts[c->origin].simulated++;
    c->effort = estimate->effort;
    if (estimate->beaten) {
        c->judged = c->simulated = true;
        c->beaten_ns = estimate->apart_ns;
        run->beaten = run->beaten || run->result->plan_count == 0;
        estimate_free(estimate);
        return true;
    }
    if (estimate->prediction.fits) {
        c->judged = c->simulated = true;
        c->simulated_ns = estimate->prediction.step_ns;
        c->peak_bytes = estimate_peak_bytes(&estimate->prediction);
        return insert_plan(run, c, estimate);
    }
    run->result->certificate.rejected++;
    count_unplaced(estimate);
    bool good = (host_bytes(&estimate->prediction) > estimate->prediction.host_available_bytes ? keep_less : shrink)(
        run, c, &estimate->prediction);
    estimate_free(estimate);
    return good;
}

bool judge_lacks_memory(struct run *run, const struct candidate *c, bool *lacks)
{
    struct arena arena = { 0 };
    struct prediction needed;
    bool good = lacks_memory(run, c, &arena, &needed, lacks);
    arena_free(&arena);
    return good;
}

/* Spares lowering a plan that lacks memory by its prices, but counts it: else others would be in its place. */
static bool shrink_early(struct run *run, struct candidate *c, int64_t *spent, bool *lacks)
{
    struct arena arena = { 0 };
    struct prediction needed;
    int64_t effort = estimate_effort(c->plan);
    bool good = lacks_memory(run, c, &arena, &needed, lacks) && (!*lacks || shrink(run, c, &needed));
    *spent += *lacks ? LACKING_EFFORT * effort : 0;
    arena_free(&arena);
    return good;
}

static bool judge_one(struct run *run, struct candidate *c, int64_t *spent)
{
    bool beaten = judge_cannot_win(run, c), lacks = false;
    if (!beaten && (!make_room(run, c) || (run->host_bytes > 0 && !make_host_room(run, c, run->host_bytes))))
        return false;
    c->judged = beaten || c->judged || judge_cannot_win(run, c); /* with the room that it has now */
    if (!c->judged && !rival_yields(run, c, &beaten))
        return false;
    if (!beaten)
        return c->judged || (shrink_early(run, c, spent, &lacks) && (lacks || simulate_one(run, c, spent)));
    c->judged = true;
    run->beaten = run->beaten || run->result->plan_count == 0;
    return true;
}

/* Judges one candidate after the other until enough are simulated. */
bool judge_candidates(struct run *run)
{
    int64_t spent = 0, on_families = 0;
    for (int families = 0, late = 0; !run_has_any(run);) {
        bool enough = run->result->plan_count >= run->options->top;
        if (early_ends(run) || (run_stops(run) && late++ == LATE_JUDGED))
            return true;
        bool more = families < JUDGED_FAMILIES && on_families < FAMILY_BUDGETS * JUDGE_BUDGET;
        struct candidate *c = more ? next_fresh(run) : NULL;
        bool fresh = c && c->ranked_ns < run_best_step_ns(run);
        if (!fresh)
            c = !enough || spent < JUDGE_BUDGET ? next_cheap(run, enough, INT64_MAX) : NULL;
        if (!c || (run->options->most_instrs > 0 && estimate_instrs(c->plan) > run->options->most_instrs))
            return true;
        if (!judge_one(run, c, fresh ? &on_families : &spent))
            return false;
        families += fresh && c->simulated;
    }
    return true;
}

/* Simulates candidates that have come since: what may win and MORE_BUDGETS allow, then those that lead by rank until
 * DEAR fit or DEAR_TRIES were looked at. */
bool judge_more(struct run *run)
{
    int64_t spent = 0;
    for (int dear = 0, tries = 0; !run_stops(run) && !run_has_any(run);) {
        bool hopeful = run->result->plan_count >= run->options->top;
        struct candidate *c = next_kind(run, hopeful, MORE_BUDGETS * JUDGE_BUDGET - spent);
        bool is_dear = !c && dear < DEAR && tries++ < DEAR_TRIES;
        if (is_dear)
            c = next_cheap(run, hopeful, DEAR_BUDGETS * JUDGE_BUDGET);
        if (!c || (is_dear && c->ranked_ns >= run_best_step_ns(run)))
            return true;
        if (!judge_one(run, c, &spent))
            return false;
        dear += is_dear && c->simulated;
    }
    return true;
}

bool judge_better(struct run *run, int64_t *spent, bool *better)
{
    int64_t before_ns = run_best_step_ns(run);
    *better = false;
    while (!*better && *spent < JUDGE_BUDGET && !run_stops(run)) {
        struct candidate *c = next_kind(run, true, JUDGE_BUDGET - *spent);
        if (!c)
            return true;
        if (!judge_one(run, c, spent))
            return false;
        *better = run_best_step_ns(run) < before_ns;
    }
    return true;
}

static bool settle_whole(const struct run *run, struct search_plan *plan)
{
    struct graph *graph = NULL;
    bool good = plan_graph(&graph, run->bench.model, plan->plan, run->err) &&
                estimate_whole(&plan->estimate, run->bench.model, graph, plan->plan, run->bench.facts, run->err);
    graph_free(graph);
    return good && settle(run, plan->plan, plan->estimate, run->err);
}

/* Settles those that are asked for, and of others what may still be one of them. */
bool judge_settle(struct run *run)
{
    struct search_plan *plans = run->result->plans;
    int top = run->options->top;
    for (int i = 0; i < run->result->plan_count; i++) {
        struct search_plan *plan = &plans[i];
        if (i >= top && plan->estimate->prediction.step_ns >= plans[top - 1].estimate->prediction.step_ns)
            break;
        bool alike = false;
        for (int k = 0; k < i && i >= top; k++) /* simulated whole, plans of one configuration grow alike */
            alike |= config_equal_but(&plans[k].config, &plan->config, 0);
        if (alike) {
            drop_plan(run->result, i--);
            continue;
        }
        bool ended = run_stops(run) || (run->options->paced && !run->options->told);
        if (!(ended ? settle(run, plan->plan, plan->estimate, run->err) : settle_whole(run, plan)))
            return false;
        for (struct search_plan own = *plan;
             plan > plans && own.estimate->prediction.step_ns < plan[-1].estimate->prediction.step_ns; plan--) {
            plan[0] = plan[-1];
            plan[-1] = own;
        }
    }
    while (run->result->plan_count > 0) { /* shortest first: those beyond where times end are the last ones */
        struct search_plan *last = &plans[run->result->plan_count - 1];
        bool beyond = last->estimate->prediction.step_ns >= MAX_TIME_NS;
        if (!beyond && run->result->plan_count <= top)
            break;
        drop_plan(run->result, run->result->plan_count - 1);
        run->beyond |= beyond;
    }
    return true;
}
