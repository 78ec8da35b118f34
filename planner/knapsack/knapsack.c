/* The bound of a box of counts is the Lagrangian one: for any multipliers lambda >= 0
 *
 *     sum_g min over x_g of (cost + lambda row) x_g  -  lambda cap   <=   optimum,
 *
 * evaluated in integers with lambda rounded to 2^-30, so that no rounding can cut off an optimum. Good multipliers come
 * from column generation in doubles: the master program has one row per constraint and one of convexity, a column is a
 * priced-out choice of counts, and every column that fits is an incumbent. What the bound leaves of the counts is
 * enumerated with dominance (knapsack_core.c), or branched on (knapsack_tree.c). Transient memory (the largest peak in
 * use) is a threshold: for each distinct peak the options above it are forbidden and the cap is lowered by it. Many
 * thresholds are halved: options up to the highest, charged for the lowest, bound all of them. */
#include "base/num.h"
#include "planner/knapsack/knapsack_parts.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int root_beams[] = { 24, 240, 0 }, narrow_beams[] = { 24, 240, 4000, 0 };

int64_t knapsack_target(const struct knapsack_solver *s)
{
    if (s->best_cost == INT64_MAX)
        return s->dearest + 1;
    int64_t best = s->best_cost >> s->problem->tie_bits,
            enough = best - (int64_t)((double)best * (double)s->problem->gap_ppm / (1e6 + (double)s->problem->gap_ppm));
    return min_i64(s->best_cost, enough * (INT64_C(1) << s->problem->tie_bits));
}

bool knapsack_closed(const struct knapsack_solver *s, int64_t bound)
{
    return bound >= knapsack_target(s);
}

int64_t knapsack_exhausted(const struct knapsack_solver *s)
{
    return s->best_cost == INT64_MAX ? INT64_MAX : knapsack_target(s);
}

static int64_t option_total(const struct knapsack *problem)
{
    int64_t total = 0;
    for (int g = 0; g < problem->group_count; g++)
        total += problem->groups[g].option_count;
    return total;
}

static bool solver_start(struct knapsack_solver *s, const struct knapsack *problem, struct error *err)
{
    *s = (struct knapsack_solver){ .problem = problem,
                                   .best_cost = INT64_MAX,
                                   .problem_options = (int)option_total(problem) };
    size_t options = (size_t)s->problem_options;
    s->option = arena_alloc(&s->arena, options, sizeof *s->option);
    s->origin = arena_alloc(&s->arena, options, sizeof *s->origin);
    s->first = arena_alloc(&s->arena, (size_t)problem->group_count + 1, sizeof *s->first);
    s->best = arena_alloc(&s->arena, options, sizeof *s->best);
    s->point = arena_alloc(&s->arena, options, sizeof *s->point);
    s->root = arena_alloc(&s->arena, options, 2 * sizeof *s->root);
    s->price = arena_alloc(&s->arena, options, sizeof *s->price);
    s->mean = arena_alloc(&s->arena, options, sizeof *s->mean);
    s->whole = arena_alloc(&s->arena, options, sizeof *s->whole);
    s->scaled_cost = arena_alloc(&s->arena, options, sizeof *s->scaled_cost);
    s->used = arena_alloc(&s->arena, options, sizeof *s->used);
    for (int r = 0; r < KNAPSACK_ROWS; r++)
        s->real_row[r] = arena_alloc(&s->arena, options, sizeof **s->real_row);
    for (int b = 0; b < BASIS; b++)
        s->basis_x[b] = arena_alloc(&s->arena, options, sizeof(int));
    if (arena_failed(&s->arena)) {
        arena_free(&s->arena);
        return fail_memory(err);
    }
    return true;
}

/* ---- one threshold ---- */

/* Keeps the rows that some choice can violate, since others do not bind; false when every choice violates one. spare:
 * so much less than its cap the first row may really have. */
static bool keep_binding_rows(struct knapsack_solver *s, int64_t spare)
{
    int kept = 0, excess_first = 0;
    for (int r = 0; r < s->rows; r++) {
        int64_t least = 0, most = 0;
        for (int g = 0; g < s->problem->group_count; g++) {
            int64_t low = INT64_MAX, high = INT64_MIN, count = s->problem->groups[g].count;
            for (int i = s->first[g]; i < s->first[g + 1]; i++) {
                low = min_i64(low, s->option[i].row[r]);
                high = max_i64(high, s->option[i].row[r]);
            }
            least += count * low;
            most += count * high;
        }
        if (least > s->cap[r] && r < s->excess_first)
            return false;
        if (most <= s->cap[r] - (s->row_of[r] == 0 ? spare : 0))
            continue;
        excess_first += r < s->excess_first;
        for (int i = 0; i < s->option_total; i++)
            s->option[i].row[kept] = s->option[i].row[r];
        s->cap[kept] = s->cap[r];
        s->row_of[kept++] = s->row_of[r];
    }
    s->rows = kept;
    s->excess_first = excess_first;
    return true;
}

static bool undercuts(const struct knapsack_solver *s, const struct knapsack_option *a, const struct knapsack_option *b,
                      bool earlier)
{
    bool less = a->cost < b->cost;
    if (a->cost > b->cost)
        return false;
    for (int r = 0; r < s->rows; r++) {
        if (a->row[r] > b->row[r])
            return false;
        less = less || a->row[r] < b->row[r];
    }
    return less || earlier;
}

/* Drops options that another one undercuts, being nowhere worse. Peaks do not matter below the threshold. */
static void drop_undercut(struct knapsack_solver *s)
{
    int at = 0;
    for (int g = 0; g < s->problem->group_count; g++) {
        int from = s->first[g], to = s->first[g + 1], kept = at;
        for (int i = from; i < to; i++) {
            bool worse = false;
            for (int j = kept; j < at && !worse; j++)
                worse = undercuts(s, &s->option[j], &s->option[i], true);
            for (int j = i + 1; j < to && !worse; j++)
                worse = undercuts(s, &s->option[j], &s->option[i], false);
            if (worse)
                continue;
            s->origin[at] = s->origin[i];
            s->option[at++] = s->option[i];
        }
        s->first[g] = kept;
    }
    s->first[s->problem->group_count] = s->option_total = at;
}

static double larger(double a, double b) /* fmax() is a call where nothing says that there are no NaNs */
{
    return a > b ? a : b;
}

/* Scales bring costs and rows to about one, so that the doubles' tolerances mean something. */
static void set_scales(struct knapsack_solver *s)
{
    double cost = 1, row[KNAPSACK_ROWS];
    int64_t most[KNAPSACK_ROWS] = { 0 };
    s->dearest = 0;
    for (int r = 0; r < KNAPSACK_ROWS; r++)
        row[r] = 1;
    for (int g = 0; g < s->problem->group_count; g++) {
        double count = s->problem->groups[g].count;
        int64_t dearest = INT64_MIN, high[KNAPSACK_ROWS];
        for (int r = 0; r < KNAPSACK_ROWS; r++)
            high[r] = INT64_MIN;
        for (int i = s->first[g]; i < s->first[g + 1]; i++) {
            dearest = max_i64(dearest, s->option[i].cost);
            cost = larger(cost, count * fabs((double)s->option[i].cost));
            for (int r = 0; r < s->rows; r++) {
                row[r] = larger(row[r], count * fabs((double)s->option[i].row[r]));
                high[r] = max_i64(high[r], s->option[i].row[r]);
            }
        }
        s->dearest += s->problem->groups[g].count * dearest;
        for (int r = 0; r < s->rows; r++)
            most[r] += s->problem->groups[g].count * high[r];
    }
    s->dearest += knapsack_excess(s, most);
    s->cost_scale = 1 / cost;
    for (int i = 0; i < s->option_total; i++)
        s->scaled_cost[i] = (double)s->option[i].cost * s->cost_scale;
    for (int r = 0; r < s->rows; r++) {
        s->row_scale[r] = 1 / row[r];
        for (int i = 0; i < s->option_total; i++)
            s->real_row[r][i] = (double)s->option[i].row[r];
    }
}

/* Leaves the problem of the thresholds from `charged` to `peak` in s; false when it has no point. */
static bool reduce(struct knapsack_solver *s, int64_t peak, int64_t charged)
{
    const struct knapsack *problem = s->problem;
    s->rows = problem->row_count;
    s->excess_first = problem->excess_cost > 0 ? problem->excess_first : s->rows;
    s->peak = charged;
    for (int r = 0; r < s->rows; r++) {
        s->row_of[r] = r;
        s->cap[r] = problem->cap[r] - (r == 0 ? charged : 0);
    }
    int at = 0;
    for (int g = 0, from = 0; g < problem->group_count; g++) {
        const struct knapsack_group *group = &problem->groups[g];
        s->first[g] = at;
        for (int i = 0; i < group->option_count; i++) {
            if (s->rows > 0 && group->options[i].peak > peak)
                continue;
            s->origin[at] = from + i;
            s->option[at++] = group->options[i];
        }
        from += group->option_count;
        if (s->first[g] == at && group->count > 0)
            return false;
    }
    s->first[problem->group_count] = s->option_total = at;
    drop_undercut(s);
    int rows = s->rows;
    if (!keep_binding_rows(s, peak - charged))
        return false;
    if (s->rows < rows)
        drop_undercut(s);
    set_scales(s);
    return true;
}

/* True when nothing below the bound is worth a look: open_bound is what others have already. */
static bool is_settled(const struct knapsack_solver *s, int64_t bound, int64_t open_bound)
{
    return knapsack_closed(s, bound) || (s->problem->node_limit == 1 && bound >= open_bound);
}

/* Proves a bound of the points of s, from a like problem's multipliers, where these settle nothing from its own. */
static int64_t bound_all(struct knapsack_solver *s, int64_t open_bound, double *multipliers)
{
    int *lo = s->root, *hi = s->root + s->option_total;
    for (int g = 0; g < s->problem->group_count; g++)
        for (int i = s->first[g]; i < s->first[g + 1]; i++) {
            lo[i] = 0;
            hi[i] = s->problem->groups[g].count;
        }
    for (int r = 0; r < s->rows; r++)
        s->lambda[r] = fmax(multipliers[s->row_of[r]], 0) * s->cost_scale / s->row_scale[r];
    int64_t bound = knapsack_bound(s, lo, hi);
    if (is_settled(s, bound, open_bound))
        return bound;
    bound = max_i64(bound, knapsack_relax(s, lo, hi, s->mean));
    memset(multipliers, 0, KNAPSACK_ROWS * sizeof *multipliers);
    for (int r = 0; r < s->rows; r++)
        multipliers[s->row_of[r]] = s->lambda[r] * s->row_scale[r] / s->cost_scale;
    if (!knapsack_closed(s, bound))
        knapsack_offer_rounded(s, lo, hi, s->mean);
    s->nodes++;
    return bound;
}

/* Proves a bound of the points below the threshold that are worth having. */
static int64_t solve_threshold(struct knapsack_solver *s, int64_t open_bound, double *multipliers)
{
    int *lo = s->root, *hi = s->root + s->option_total;
    bool done = false, single = false;
    int64_t bound = bound_all(s, open_bound, multipliers);
    if (is_settled(s, bound, open_bound) || s->problem->node_limit == 1)
        return bound;
    knapsack_fix(s, lo, hi);
    if (!knapsack_tighten(s, lo, hi, &single))
        return max_i64(bound, knapsack_exhausted(s));
    if (!knapsack_core(s, lo, hi, s->rows > 1 ? root_beams : narrow_beams, &done))
        return bound;
    if (done)
        return max_i64(bound, knapsack_exhausted(s));
    knapsack_fix(s, lo, hi);
    int64_t rest = knapsack_tighten(s, lo, hi, &single) ? knapsack_tree(s) : INT64_MAX;
    return max_i64(bound, min_i64(rest, knapsack_exhausted(s))); /* what was fixed is not worth having, no more */
}

/* ---- all thresholds ---- */

static int descending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* Lists the distinct peaks in falling order. */
static int64_t *thresholds(struct knapsack_solver *s, int *count)
{
    int64_t *peaks = arena_alloc(&s->arena, (size_t)s->problem_options + 1, sizeof *peaks);
    int total = 0, distinct = 0;
    if (!peaks)
        return NULL;
    for (int g = 0; g < s->problem->group_count; g++)
        for (int i = 0; i < s->problem->groups[g].option_count; i++)
            peaks[total++] = s->problem->groups[g].options[i].peak;
    qsort(peaks, (size_t)total, sizeof *peaks, descending);
    for (int i = 0; i < total; i++)
        if (i == 0 || peaks[i] != peaks[i - 1])
            peaks[distinct++] = peaks[i];
    *count = distinct > 0 && s->problem->row_count > 0 ? distinct : 1; /* no options at all: one threshold of 0 */
    return peaks;
}

/* Solves the thresholds peaks[0] > ... > peaks[count - 1]. Returns their least proven bound, or one that is not below
 * open_bound. *binds: memory binds at the highest; else what lower ones leave out could only have helped. */
static int64_t solve_thresholds(struct knapsack_solver *s, const int64_t *peaks, int count, int64_t open_bound,
                                double *multipliers, bool *binds)
{
    *binds = true;
    if (count == 0 || s->out_of_memory || !reduce(s, peaks[0], peaks[count - 1]))
        return INT64_MAX;
    if (count == 1) {
        int64_t bound = solve_threshold(s, open_bound, multipliers);
        *binds = s->rows > 0 && s->row_of[0] == 0;
        return bound;
    }
    int64_t bound = bound_all(s, open_bound, multipliers);
    if (is_settled(s, bound, open_bound))
        return bound;
    int half = count / 2;
    int64_t high = solve_thresholds(s, peaks, half, open_bound, multipliers, binds);
    if (!*binds)
        return high;
    return min_i64(high,
                   solve_thresholds(s, peaks + half, count - half, min_i64(open_bound, high), multipliers, binds));
}

/* Solves every threshold. Returns the least proven bound. */
static int64_t run(struct knapsack_solver *s, double *multipliers)
{
    int count = 0;
    bool binds;
    int64_t *peaks = thresholds(s, &count);
    if (!peaks) {
        s->out_of_memory = true;
        return INT64_MIN;
    }
    int64_t bound = solve_thresholds(s, peaks, 1, INT64_MAX, multipliers, &binds);
    if (binds)
        bound = min_i64(bound, solve_thresholds(s, peaks + 1, count - 1, bound, multipliers, &binds));
    return min_i64(bound, s->best_cost);
}

/* Sums that might not fit 64 bits: then nothing is solved. *least: what the costs are at least together. */
static bool is_beyond(const struct knapsack *problem, double *least)
{
    static const double MOST = (double)(INT64_C(1) << 60);
    double most = 0, row[KNAPSACK_ROWS] = { 0 }, scale = 1;
    *least = 0;
    for (int g = 0; g < problem->group_count; g++) {
        const struct knapsack_group *group = &problem->groups[g];
        double low = INFINITY, dearest = 0, high[KNAPSACK_ROWS] = { 0 };
        for (int i = 0; i < group->option_count; i++) {
            low = fmin(low, (double)group->options[i].cost);
            dearest = larger(dearest, fabs((double)group->options[i].cost));
            for (int r = 0; r < problem->row_count; r++)
                high[r] = larger(high[r], fabs((double)group->options[i].row[r]));
        }
        *least += group->count > 0 ? group->count * low : 0;
        most += group->count * dearest;
        for (int r = 0; r < problem->row_count; r++)
            row[r] += group->count * high[r];
    }
    for (int r = 0; r < problem->row_count; r++) {
        scale = problem->excess_cost > 0 && r >= problem->excess_first ? (double)problem->excess_cost : 1;
        double over = row[r] + (scale > 1 ? fmax(0, -(double)problem->cap[r]) : 0);
        most = larger(most, over * scale);
    }
    return most >= MOST;
}

bool knapsack_solve(const struct knapsack *problem, struct knapsack_result *result, struct error *err)
{
    struct knapsack_solver s;
    double multipliers[KNAPSACK_ROWS] = { 0 }, least;
    if (is_beyond(problem, &least)) {
        result->status = KNAPSACK_LIMIT;
        result->cost = INT64_MAX;
        result->bound = (int64_t)fmin(fmax(least * (1 - 1e-9), 0), 0x1p60); /* what doubles round, and more */
        result->nodes = 0;
        memcpy(result->multipliers, multipliers, sizeof multipliers);
        return true;
    }
    if (problem->multipliers)
        memcpy(multipliers, problem->multipliers, (size_t)problem->row_count * sizeof *multipliers);
    if (!solver_start(&s, problem, err))
        return false;
    int64_t bound = run(&s, multipliers);
    result->nodes = s.nodes;
    result->cost = s.best_cost;
    if (result->counts && s.best_cost < INT64_MAX)
        memcpy(result->counts, s.best, (size_t)s.problem_options * sizeof *s.best);
    result->bound = bound;
    memcpy(result->multipliers, multipliers, sizeof multipliers);
    if (s.best_cost == INT64_MAX)
        result->status = bound == INT64_MAX ? KNAPSACK_INFEASIBLE : KNAPSACK_LIMIT;
    else
        result->status = knapsack_closed(&s, bound) ? KNAPSACK_OPTIMAL : KNAPSACK_LIMIT;
    arena_free(&s.arena);
    if (s.out_of_memory)
        return fail_memory(err);
    return true;
}
