/* T is a sum plus a maximum. Under a cap Y on the maximum the least sum S(Y) comes from the best cut; it grows as the
 * cap falls. A plan shorter than the best one known has Y < best - S(Y), so caps fall to that limit, or just below the
 * Y of the plan that the cap's exact best cut is: from one Pareto point to the next, skipping all that the bounds of
 * S rule out. A good plan is looked for first: S(Y) + Y is nearly convex in its relaxation. */
#include "base/num.h"
#include "planner/cut/partition_parts.h"

/* ROUGH: first plans need not be the best of their caps, but for one part in so many. NEAR: caps that fall by less than
 * one part in so many do not get far. */
enum { PROBES = 14, NEAR = 64, ROUGH = 200 };

/* Gives the least Y where all C come to `sum`: whatever the cap, the longest stage is no shorter than the mean. */
static int64_t mean_high(const struct solver *s, int64_t sum)
{
    const struct partition_problem *p = s->problem;
    int64_t period = INT64_MAX;
    if (p->mesh_count > 0)
        return max_i64(s->span.from_ns + s->span.rest_ns, mean_of_turns(p, s->least_ns, 0) - stage_slack_ns(s));
    sum = max_i64(s->least_ns, sum);
    for (int i = 0; i < s->level_count; i++)
        period = min_i64(period, s->levels[i].period_ns);
    return max_i64(s->span.from_ns + s->span.rest_ns,
                   mul_div_i64(p->micro_batch_count - 1, ceil_div(sum, p->stage_count) + period, 1, NOTHING_FITS) -
                       stage_slack_ns(s));
}

int64_t partition_gap_ns(int64_t gap_ppm, int64_t step_ns)
{
    double share = (double)gap_ppm / (1e6 + (double)gap_ppm); /* the gap is one of the bound */
    return step_ns == INT64_MAX ? 0 : (int64_t)((double)step_ns * share);
}

static int64_t step_of_sum(const struct solver *s, int64_t sum)
{
    return partition_once_ns(s->problem) + sum + mean_high(s, sum);
}

/* Limits sums of C to those that alone make a shorter step: with branches very many cuts are alike. */
static void set_most_sum(struct solver *s, int64_t wanted_ns)
{
    int64_t low = s->least_ns - 1, high = wanted_ns;
    if (!s->problem->chain->branches || wanted_ns == INT64_MAX)
        return;
    while (low < high) { /* a sum of up to `low` makes less */
        int64_t middle = low + (high - low + 1) / 2;
        if (step_of_sum(s, middle) < wanted_ns)
            low = middle;
        else
            high = middle - 1;
    }
    s->most_sum_ns = low;
}

static void set_cap(struct solver *s, int64_t cap_ns)
{
    s->cap_ns = cap_ns;
    vectors_cap_changed(s);
}

/* How far the descent is. upper: the shortest step found, by its rows; bound: no plan that is ruled out is shorter;
 * done: all are ruled out. */
struct descent {
    int64_t upper, bound;
    bool done;
};

/* Gives the largest Y of a plan that is shorter than `upper` when all C come to at least `sum`. */
static int64_t cap_below(const struct solver *s, int64_t upper, int64_t sum, int64_t tolerance_ns)
{
    if (upper == INT64_MAX)
        return s->most_high_ns;
    return min_i64(s->most_high_ns, upper - tolerance_ns - partition_once_ns(s->problem) - sum - 1);
}

/* Takes the plan of the best cut's solutions, where each stage has one. *upper is what its rows say, which may be less
 * than its step where passes are in phases. */
static const struct spot_choice solutions = { -1, -1 };
static bool take_plan(struct solver *s, struct spot_choice choice, int64_t *upper, double *slope)
{
    int64_t path = 0, high;
    struct stage_times times;
    if (!cut_solution(s, choice, &path, &high, &times, slope))
        return true;
    int64_t least_ns = partition_once_ns(s->problem) + path + high,
            step_ns = partition_once_ns(s->problem) + path + stage_times_ns(&times);
    if (least_ns < s->nearest_ns) {
        s->nearest_ns = least_ns;
        s->nearest_forward_ns = times.forward_ns;
    }
    *upper = min_i64(*upper, least_ns);
    return step_ns >= s->problem->below_ns || cut_keep_plan(s, choice, step_ns);
}

/* Finds the best cut under a cap by relaxations, and takes its plan where each of its stages has a solution. */
static bool try_cap(struct solver *s, int64_t cap_ns, bool polish, int64_t *upper, int64_t *sum, double *slope)
{
    set_cap(s, cap_ns);
    set_most_sum(s, *upper);
    if (!cut_refine(s, EFFORT_RELAX, s->least_ns / ROUGH, sum))
        return false;
    if (*sum == INT64_MAX || s->stopped || !take_plan(s, solutions, upper, slope))
        return *sum == INT64_MAX || s->stopped;
    return !polish || (cut_polish(s) && (s->stopped || take_plan(s, solutions, upper, slope)));
}

/* Finds any plan, under the lowest of growing caps that has one. *low: no plan has a lower Y. */
static bool first_plan(struct solver *s, int64_t *upper, int64_t *low)
{
    int64_t sum = 0, before = *upper, most = cap_below(s, *upper, s->least_ns, 0);
    double slope;
    for (int64_t more = *low / 16 + 1; *upper == before && *low + more < most && !s->stopped; more *= 2) {
        if (!try_cap(s, *low + more, true, upper, &sum, &slope))
            return false;
        if (sum == INT64_MAX)
            *low = s->cap_ns;
    }
    return true;
}

/* Bisects S(Y) + Y by its slope, with relaxations, until what is left is a quarter of what is good enough. */
static bool probe(struct solver *s, int64_t *upper)
{
    int64_t least = s->least_ns, low = mean_high(s, least), sum = 0, best = 0;
    double slope = 0;
    if (!first_plan(s, upper, &low))
        return false;
    int64_t high = cap_below(s, *upper, least, 0);
    for (int i = 0; i < PROBES && !s->stopped; i++) {
        int64_t enough = *upper < INT64_MAX ? step_tolerance(s, *upper) / 4 : 0;
        if (high - low <= max_i64(high / 100000, enough))
            break;
        int64_t before = *upper;
        if (!try_cap(s, low + (high - low) / 2, false, upper, &sum, &slope))
            return false;
        best = *upper < before ? s->cap_ns : best;
        if (sum == INT64_MAX || slope > 1)
            low = s->cap_ns;
        else
            high = min_i64(s->cap_ns - 1, cap_below(s, *upper, least, 0));
    }
    return best == 0 || s->stopped || try_cap(s, best, true, upper, &sum, &slope);
}

/* Leaves out from here on the stages on the best cut whose knapsack was given up without any solution. */
static void block_unsolved(struct solver *s)
{
    for (struct stage_spot at = cut_first(s); !spot_ends(s, &at); at = cut_next(s, at)) {
        struct cell *cell = stage_cell(s, at.level, at.first, at.end);
        if (cell->solution < 0) {
            stage_set_empty(s, cell);
            cell->lower = INT64_MAX;
        }
    }
}

static bool is_one_stage(const struct solver *s)
{
    return s->stages == 1 && s->problem->mesh_count == 0;
}

/* Leaves a stage k of the best cut out from here on where C of the other stages and the least C + Y of k are too long
 * together, since no plan with it is shorter: lower caps only raise the others' C. It matters where the lane decides:
 * there C and Y may be traded one for one, and no cap rules anything out. */
static bool leave_out(struct solver *s, int64_t sum, struct descent *d, bool *left_out)
{
    int64_t once = partition_once_ns(s->problem);
    bool alone = is_one_stage(s);
    double slope;
    *left_out = false;
    for (struct stage_spot at = cut_first(s); !spot_ends(s, &at) && !s->stopped; at = cut_next(s, at)) {
        int record = -1;
        struct cell *cell = stage_cell(s, at.level, at.first, at.end);
        int64_t others = once + sum - cell->lower;
        bool binds = alone || (cell->tried && cell->slope > 0);
        for (int e = EFFORT_RELAX; e <= (binds ? EFFORT_END : EFFORT_RELAX); e += EFFORT_END) {
            if (others + cell->whole >= d->upper - step_tolerance(s, d->upper))
                break;
            if (!stage_solve_whole(s, at.level, at.first, at.end, (enum effort)e, &record))
                return false;
            struct spot_choice choice = { at.stage, record };
            if (record >= 0 && !take_plan(s, choice, &d->upper, &slope))
                return false;
        }
        if (others + cell->whole >= d->upper - step_tolerance(s, d->upper)) {
            d->bound = min_i64(d->bound, others + cell->whole);
            stage_set_empty(s, cell);
            cell->lower = INT64_MAX;
            *left_out = true;
        }
        if (*left_out) /* the best cut has changed */
            return true;
    }
    return true;
}

/* Finds the least sum of C under the cap, as far as this effort knows. Where such a plan is too long none is left. */
static bool refine_cap(struct solver *s, enum effort effort, struct descent *d, int64_t *sum)
{
    int64_t wanted_ns = d->upper - step_tolerance(s, d->upper);
    set_most_sum(s, wanted_ns);
    if (!cut_refine(s, effort, step_tolerance(s, d->upper) / 4, sum))
        return false;
    d->done = *sum == INT64_MAX || s->stopped || step_of_sum(s, *sum) >= wanted_ns;
    if (d->done && *sum < INT64_MAX && !s->stopped)
        d->bound = min_i64(d->bound, step_of_sum(s, *sum));
    return true;
}

/* True when the cap may fall far, since bounds alone rule out the upper part of it. */
static bool falls_far(const struct solver *s, const struct descent *d, int64_t sum)
{
    return cap_below(s, d->upper, sum, 0) < s->cap_ns - s->cap_ns / NEAR;
}

/* Lets the cap fall as far as bounds allow. The tolerance is for what is hard to prove, where that is not far. Of one
 * stage C + Y is the whole question then, and has met its limit. false: the cap stays, and plans are left. */
static bool lower_cap(struct solver *s, struct descent *d, int64_t sum, bool far)
{
    d->done = is_one_stage(s) && !far;
    if (d->done)
        d->bound = min_i64(d->bound, partition_once_ns(s->problem) + stage_cell(s, s->level[0], 0, s->last)->whole);
    if (d->done || s->stopped)
        return true;
    int64_t next = cap_below(s, d->upper, sum, far ? 0 : step_tolerance(s, d->upper));
    if (next >= s->cap_ns)
        return false;
    d->bound = min_i64(d->bound, partition_once_ns(s->problem) + sum + next + 1);
    set_cap(s, next);
    return true;
}

/* Relaxes one cap: it takes the plan of the best cut where its stages have solutions, leaves out stages that no short
 * plan has, and lowers the cap. *open: that was not enough. */
static bool relax_cap(struct solver *s, struct descent *d, bool *open)
{
    int64_t sum = 0;
    bool left_out = false;
    double slope;
    *open = false;
    if (!refine_cap(s, EFFORT_RELAX, d, &sum))
        return false;
    if (d->done)
        return true;
    if (!take_plan(s, solutions, &d->upper, &slope))
        return false;
    bool far = falls_far(s, d, sum);
    if (!far && !leave_out(s, sum, d, &left_out))
        return false;
    *open = !left_out && !lower_cap(s, d, sum, far);
    return true;
}

/* Solves one cap: it takes the plan of the best cut, and the next cap is just below that plan's. Where a stage of the
 * cut has no solution, it is left out. */
static bool solve_cap(struct solver *s, struct descent *d)
{
    int64_t sum = 0, path = 0, high, once = partition_once_ns(s->problem);
    struct stage_times times;
    double slope;
    if (!refine_cap(s, EFFORT_END, d, &sum))
        return false;
    if (d->done || lower_cap(s, d, sum, falls_far(s, d, sum)))
        return true;
    if (!cut_solution(s, solutions, &path, &high, &times, &slope)) {
        d->bound = min_i64(d->bound, step_of_sum(s, sum));
        block_unsolved(s);
        return true;
    }
    if (!take_plan(s, solutions, &d->upper, &slope))
        return false;
    int64_t next = min_i64(high - 1, cap_below(s, d->upper, sum, step_tolerance(s, d->upper)));
    d->bound = min_i64(d->bound, once + sum + next + 1);
    set_cap(s, next);
    return true;
}

/* The plans with Y in (low, high], whose C come to at least sum. */
struct cap_span {
    int64_t low, high, sum;
};

static int64_t span_bound(const struct solver *s, const struct cap_span *span)
{
    if (span->sum == INT64_MAX)
        return INT64_MAX;
    return partition_once_ns(s->problem) + span->sum + max_i64(span->low + 1, mean_high(s, span->sum));
}

/* Sharpens the bound by S(Y) + Y of the relaxation between the present cap, with its sum, and the least Y: the span
 * with the least bound is halved, a few times. */
static bool sharpen(struct solver *s, int64_t sum, int64_t upper, int64_t *bound, bool *done)
{
    struct cap_span spans[PARTITION_HALVES + 1] = { { mean_high(s, sum) - 1, s->cap_ns, sum } };
    for (int count = 1;; count++) {
        int worst = 0;
        for (int i = 1; i < count; i++)
            worst = span_bound(s, &spans[i]) < span_bound(s, &spans[worst]) ? i : worst;
        struct cap_span *span = &spans[worst];
        int64_t least = span_bound(s, span), middle = span->low + (span->high - span->low) / 2;
        *done = least >= upper - step_tolerance(s, upper);
        if (*done || count > s->problem->halves || middle <= span->low || s->stopped) {
            *bound = s->stopped ? *bound : min_i64(*bound, least);
            return true;
        }
        set_cap(s, middle);
        if (!cut_refine(s, EFFORT_RELAX, step_tolerance(s, upper) / 4, &sum))
            return false;
        spans[count] = (struct cap_span){ span->low, middle, sum };
        span->low = middle;
    }
}

/* Rules out all plans before one is looked for: most problems with a limit have none below it, as the relaxation under
 * the widest cap shows; for a bound alone caps fall as long as they fall far. *bound: no plan is shorter. */
static bool rule_out(struct solver *s, int64_t upper, int64_t *bound, bool *done)
{
    int64_t sum = 0, next;
    if (upper == INT64_MAX)
        return true;
    next = cap_below(s, upper, s->least_ns, 0);
    set_most_sum(s, upper - step_tolerance(s, upper));
    do {
        set_cap(s, next);
        if (!cut_refine(s, EFFORT_RELAX, step_tolerance(s, upper) / 4, &sum))
            return false;
        *done = sum == INT64_MAX || step_of_sum(s, sum) >= upper - step_tolerance(s, upper);
        next = *done ? s->cap_ns : cap_below(s, upper, sum, 0);
    } while (s->problem->bound_only && s->cap_ns - next > max_i64(s->cap_ns, 0) / NEAR && !s->stopped);
    if (*done && sum < INT64_MAX && !s->stopped)
        *bound = min_i64(*bound, step_of_sum(s, sum));
    return *done || !s->problem->bound_only || sharpen(s, sum, upper, bound, done);
}

/* Bounds plans shorter than `upper` by the places of cuts alone, where cuts were too many to look at. */
static bool bound_left(struct solver *s, int64_t upper, int64_t *bound)
{
    int64_t sum = s->least_ns, cap_ns = INT64_MAX;
    for (int64_t next = cap_below(s, upper, sum, 0); next < cap_ns - max_i64(cap_ns, 0) / (4 * NEAR);) {
        cap_ns = next;
        set_cap(s, cap_ns);
        if (!ideals_rest(s, &sum))
            return false;
        *bound = sum == INT64_MAX ? upper : max_i64(*bound, step_of_sum(s, sum));
        next = sum == INT64_MAX ? cap_ns : cap_below(s, upper, sum, 0);
    }
    return true;
}

static bool descend(struct solver *s)
{
    struct descent d = { s->problem->below_ns, INT64_MAX, false };
    bool open = false;
    if (!rule_out(s, d.upper, &d.bound, &d.done))
        return false;
    s->result->ruled_out = d.done && !s->stopped;
    d.done = d.done || s->problem->bound_only;
    if (!d.done && !probe(s, &d.upper))
        return false;
    set_cap(s, cap_below(s, d.upper, s->least_ns, 0));
    while (!d.done && !s->stopped)
        if (!relax_cap(s, &d, &open) || (open && !solve_cap(s, &d)))
            return false;
    if (s->open_sum_ns < INT64_MAX)
        d.bound = min_i64(d.bound, step_of_sum(s, s->open_sum_ns));
    s->result->bound_ns = min_i64(d.bound, d.upper);
    if (!s->stopped)
        return true;
    int64_t bound = partition_quick_bound(s->problem);
    if (s->exhausted && !bound_left(s, d.upper, &bound))
        return false;
    s->result->bound_ns = min_i64(s->result->bound_ns, bound);
    return true;
}

/* Sets up the solver: its rows are stages in order, or meshes, for each number of stages where that is given. */
static struct solver solver_of(const struct partition_problem *problem, struct forward_span span, struct arena *scratch,
                               struct arena *kept, struct partition_result *result, struct error *err)
{
    int meshes = problem->mesh_count;
    return (struct solver){ .problem = problem,
                            .result = result,
                            .err = err,
                            .arena = scratch,
                            .kept = kept,
                            .span = span,
                            .nearest_ns = INT64_MAX,
                            .classes = problem->table->class_count,
                            .strategies = problem->table->strategy_count,
                            .layers = problem->chain->layer_count,
                            .stages = problem->stage_count,
                            .places = problem->chain->place_count,
                            .last = chain_last(problem->chain),
                            .sums = chain_sums(problem->chain),
                            .row_count = (meshes > 0 ? meshes + 1 : 1) * (problem->stage_count + 1),
                            .shape_count = meshes > 0 ? problem->shape_count : 1 };
}

static bool solver_start(struct solver *s)
{
    bool branches = s->problem->chain->branches != NULL;
    size_t rows = (size_t)s->row_count, shapes = (size_t)s->shape_count, places = branches ? 1 : (size_t)s->places;
    struct cutting *c = &s->cutting;
    *c = (struct cutting){ .best_ns = arena_alloc(s->arena, rows * places, sizeof *c->best_ns),
                           .best_high = arena_alloc(s->arena, rows * places, sizeof *c->best_high),
                           .end = arena_alloc(s->arena, rows * places, sizeof *c->end),
                           .shape = arena_alloc(s->arena, rows * places, sizeof *c->shape),
                           .first_from = arena_alloc(s->arena, rows, sizeof *c->first_from),
                           .first_to = arena_alloc(s->arena, rows, sizeof *c->first_to),
                           .reach = arena_alloc(s->arena, branches ? 1 : shapes * places, sizeof *c->reach),
                           .near = arena_alloc(s->arena, shapes, sizeof *c->near),
                           .legs = arena_alloc(s->arena, shapes, sizeof *c->legs) };
    return levels_start(s) || fail_kind(s->err, ERROR_ENVIRONMENT, "search: out of memory for %d stages of %d layers",
                                        s->row_count - 1, s->layers);
}

bool partition_span(const struct partition_problem *problem, struct forward_span span, struct arena *arena,
                    struct partition_result *result, struct solved_span *out, struct error *err)
{
    struct arena scratch = { 0 };
    struct solver s = solver_of(problem, span, &scratch, arena, result, err);
    result->bound_ns = problem->below_ns;
    bool good = true;
    result->no_memory = s.stages <= s.layers && partition_lacks_memory(problem);
    if (s.stages <= s.layers && !result->no_memory) {
        good = solver_start(&s);
        if (span.apart) /* T is at least that sum, X and what is left of the longest stage */
            s.span.to_ns =
                min_i64(span.to_ns, problem->below_ns - partition_once_ns(problem) - s.least_ns - span.rest_ns - 1);
        good = good && (s.span.to_ns < s.span.from_ns || descend(&s));
    }
    *out = (struct solved_span){ .bound_ns = result->bound_ns,
                                 .forward_ns = s.nearest_ns < INT64_MAX ? s.nearest_forward_ns : INT64_MIN,
                                 .stopped = s.stopped };
    bands_close(&s);
    arena_free(&scratch);
    return good;
}

/* Solves all plans first, by rows that underestimate where passes are in phases; then these by their X
 * (partition_phases.c). */
bool partition_solve(const struct partition_problem *problem, struct arena *arena, struct partition_result *out,
                     struct error *err)
{
    struct partition_result result = { 0 };
    struct solved_span all;
    if (partition_is_beyond(problem)) {
        *out = (struct partition_result){ .beyond = true };
        return true;
    }
    bool good =
        partition_span(problem, (struct forward_span){ 0 }, arena, &result, &all, err) &&
        (!problem->phases || all.stopped || problem->bound_only || phases_solve(problem, arena, &result, &all, err));
    *out = result;
    return good;
}
