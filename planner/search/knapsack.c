/* Branch and bound on the counts. The bound of a node is the Lagrangian one: for any multipliers lambda >= 0
 *
 *     sum_g min over x_g of (cost + lambda row) x_g  -  lambda cap   <=   optimum,
 *
 * evaluated in integers with lambda rounded to 2^-30, so that no rounding can cut off an optimum. Good multipliers come
 * from column generation in doubles: the master program has one row per constraint and one of convexity, a column is a
 * priced-out choice of counts, and every column that fits is an incumbent. Transient memory (the largest peak in use)
 * is a threshold: for each distinct peak the options above it are forbidden and the cap is lowered by it. */
#include "base/num.h"
#include "planner/search/knapsack_parts.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Nothing worth having can lie above this bound. */
static bool closed(const struct knapsack_solver *s, int64_t bound)
{
    if (bound >= s->best_cost)
        return true;
    if (s->best_cost == INT64_MAX)
        return false;
    int64_t best = s->best_cost >> s->problem->tie_bits;
    return (bound >> s->problem->tie_bits) >= best - (int64_t)((double)best * (double)s->problem->gap_ppm / 1e6);
}

/* Implied limits of the counts of each group; false when the box is empty, *single when one point is left. */
static bool tighten(const struct knapsack_solver *s, int *lo, int *hi, bool *single)
{
    *single = true;
    for (int g = 0; g < s->problem->group_count; g++) {
        int count = s->problem->groups[g].count;
        for (bool changed = true; changed;) {
            int64_t least = 0, most = 0;
            changed = false;
            for (int i = s->first[g]; i < s->first[g + 1]; i++) {
                least += lo[i];
                most += hi[i];
            }
            if (least > count || most < count)
                return false;
            for (int i = s->first[g]; i < s->first[g + 1]; i++) {
                int64_t high = count - (least - lo[i]), low = count - (most - hi[i]);
                if (high < hi[i]) {
                    most -= hi[i] - high;
                    hi[i] = (int)high;
                    changed = true;
                }
                if (low > lo[i]) {
                    least += low - lo[i];
                    lo[i] = (int)low;
                    changed = true;
                }
                if (lo[i] > hi[i])
                    return false;
            }
        }
        for (int i = s->first[g]; i < s->first[g + 1]; i++)
            *single = *single && lo[i] == hi[i];
    }
    return true;
}

/* The point nearest to the fractional one: whole parts first, then the largest remainders. */
static void offer_rounded(struct knapsack_solver *s, const int *lo, const int *hi, const double *mean)
{
    for (int g = 0; g < s->problem->group_count; g++) {
        int left = s->problem->groups[g].count;
        for (int i = s->first[g]; i < s->first[g + 1]; i++) {
            s->point[i] = (int)max_i64(lo[i], min_i64(hi[i], (int64_t)floor(mean[i] + 1e-9)));
            left -= s->point[i];
        }
        for (; left != 0; left += left > 0 ? -1 : 1) {
            int pick = -1, sign = left > 0 ? 1 : -1;
            for (int i = s->first[g]; i < s->first[g + 1]; i++) {
                bool room = sign > 0 ? s->point[i] < hi[i] : s->point[i] > lo[i];
                if (room && (pick < 0 || sign * (mean[i] - s->point[i]) > sign * (mean[pick] - s->point[pick])))
                    pick = i;
            }
            if (pick < 0)
                return;
            s->point[pick] += sign;
        }
    }
    knapsack_offer(s, s->point);
}

/* The most fractional count; when all are whole, the widest one. */
static int branching_option(const struct knapsack_solver *s, const int *lo, const int *hi, const double *mean)
{
    int pick = -1;
    double best = 1e-7;
    for (int i = 0; i < s->option_total; i++) {
        double fraction = mean[i] - floor(mean[i]), distance = fmin(fraction, 1 - fraction);
        if (lo[i] < hi[i] && distance > best) {
            best = distance;
            pick = i;
        }
    }
    for (int i = 0; i < s->option_total && pick < 0; i++)
        if (lo[i] < hi[i])
            pick = i;
    return pick;
}

static int *frame(struct knapsack_solver *s, int depth)
{
    if (depth >= MAX_DEPTH)
        return NULL;
    if (!s->frames[depth])
        s->frames[depth] = arena_alloc(&s->arena, 2 * (size_t)s->option_total, sizeof(int));
    return s->frames[depth];
}

/* Explores the box in frame `depth`; returns a proven bound of the best point that lies in it and is cheaper than
 * best_cost. */
static int64_t explore(struct knapsack_solver *s, int depth)
{
    int *lo = frame(s, depth), *hi = lo + s->option_total, *child = frame(s, depth + 1);
    bool single = false;
    size_t bytes = (size_t)s->option_total * sizeof *lo;
    if (!tighten(s, lo, hi, &single))
        return INT64_MAX;
    if (single) {
        knapsack_offer(s, lo);
        return s->best_cost;
    }
    double *mean = calloc((size_t)s->option_total, sizeof *mean);
    if (!mean || !child) {
        s->out_of_memory = s->out_of_memory || !mean || depth + 1 < MAX_DEPTH;
        s->limited = true;
        free(mean);
        return INT64_MIN;
    }
    int64_t bound = depth > 0 ? knapsack_bound(s, lo, hi) : INT64_MIN; /* its neighbour's multipliers often do */
    if (!closed(s, bound)) {
        s->nodes++;
        bound = knapsack_relax(s, lo, hi, mean);
    }
    if (!closed(s, bound))
        offer_rounded(s, lo, hi, mean);
    if (s->problem->node_limit > 0 && s->nodes >= s->problem->node_limit)
        s->limited = true;
    if (!closed(s, bound) && !s->limited && !s->out_of_memory) {
        int pick = branching_option(s, lo, hi, mean), cut = (int)floor(mean[pick]);
        cut = (int)max_i64(lo[pick], min_i64(hi[pick] - 1, cut));
        bool up = mean[pick] - cut > 0.5;
        int64_t least = INT64_MAX;
        for (int side = 0; side < 2; side++) {
            memcpy(child, lo, 2 * bytes);
            if ((side == 0) == up)
                child[pick] = cut + 1;
            else
                child[s->option_total + pick] = cut;
            least = min_i64(least, s->limited ? bound : explore(s, depth + 1));
        }
        bound = max_i64(bound, least);
    }
    free(mean);
    return bound;
}

static bool solver_start(struct knapsack_solver *s, const struct knapsack *problem, struct error *err)
{
    *s = (struct knapsack_solver){ .problem = problem, .rows = problem->row_count, .best_cost = INT64_MAX };
    for (int g = 0; g < problem->group_count; g++)
        s->option_total += problem->groups[g].option_count;
    size_t options = (size_t)s->option_total;
    s->option = arena_alloc(&s->arena, options, sizeof *s->option);
    s->first = arena_alloc(&s->arena, (size_t)problem->group_count + 1, sizeof *s->first);
    s->best = arena_alloc(&s->arena, options, sizeof *s->best);
    s->point = arena_alloc(&s->arena, options, sizeof *s->point);
    s->price = arena_alloc(&s->arena, options, sizeof *s->price);
    s->whole = arena_alloc(&s->arena, options, sizeof *s->whole);
    bool good = s->option && s->first && s->best && s->point && s->price && s->whole;
    for (int b = 0; good && b < BASIS; b++) {
        s->basis_x[b] = arena_alloc(&s->arena, options, sizeof(int));
        good = s->basis_x[b] != NULL;
    }
    if (!good) {
        arena_free(&s->arena);
        return fail_kind(err, ERROR_ENVIRONMENT, "knapsack: out of memory");
    }
    for (int g = 0, at = 0; g < problem->group_count; g++) {
        for (int i = 0; i < problem->groups[g].option_count; i++)
            s->option[at++] = &problem->groups[g].options[i];
        s->first[g + 1] = at;
    }
    return true;
}

/* Scales bring costs and rows to about one, so that the doubles' tolerances mean something. */
static void set_scales(struct knapsack_solver *s)
{
    double cost = 1, row[KNAPSACK_ROWS];
    for (int r = 0; r < KNAPSACK_ROWS; r++)
        row[r] = 1;
    for (int g = 0; g < s->problem->group_count; g++) {
        double count = s->problem->groups[g].count;
        int64_t dearest = INT64_MIN;
        for (int i = s->first[g]; i < s->first[g + 1]; i++) {
            dearest = max_i64(dearest, s->option[i]->cost);
            cost = fmax(cost, count * fabs((double)s->option[i]->cost));
            for (int r = 0; r < s->rows; r++)
                row[r] = fmax(row[r], count * fabs((double)s->option[i]->row[r]));
        }
        s->dearest += s->first[g] < s->first[g + 1] ? s->problem->groups[g].count * dearest : 0;
    }
    s->cost_scale = 1 / cost;
    for (int r = 0; r < s->rows; r++)
        s->row_scale[r] = 1 / row[r];
}

static int descending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* The distinct peaks in falling order. */
static int64_t *thresholds(struct knapsack_solver *s, int *count)
{
    int64_t *peaks = arena_alloc(&s->arena, (size_t)s->option_total + 1, sizeof *peaks);
    int distinct = 0;
    *count = 0;
    if (!peaks)
        return NULL;
    for (int i = 0; i < s->option_total; i++)
        peaks[i] = s->option[i]->peak;
    qsort(peaks, (size_t)s->option_total, sizeof *peaks, descending);
    for (int i = 0; i < s->option_total; i++)
        if (i == 0 || peaks[i] != peaks[i - 1])
            peaks[distinct++] = peaks[i];
    *count = distinct > 0 ? distinct : 1; /* no options at all: one threshold of 0 */
    return peaks;
}

static void set_threshold(struct knapsack_solver *s, int64_t peak)
{
    int *lo = frame(s, 0), *hi = lo + s->option_total;
    memcpy(s->cap, s->problem->cap, sizeof s->cap);
    s->cap[0] -= s->rows > 0 ? peak : 0;
    for (int g = 0; g < s->problem->group_count; g++)
        for (int i = s->first[g]; i < s->first[g + 1]; i++) {
            lo[i] = 0;
            hi[i] = s->rows > 0 && s->option[i]->peak > peak ? 0 : s->problem->groups[g].count;
        }
}

/* Often the caps do not bind: then nothing is cheaper than everyone's cheapest option. */
static bool cheapest_point_fits(struct knapsack_solver *s, double *price)
{
    int *lo = frame(s, 0), *hi = lo + s->option_total;
    memset(s->lambda, 0, sizeof s->lambda);
    knapsack_price_out(s, lo, hi, price);
    knapsack_offer(s, s->point);
    return s->best_cost < INT64_MAX;
}

/* The multipliers at hand often show that a threshold's tree can neither better the best point nor, where only roots
 * are asked for, lower the bound. */
static bool without_interest(struct knapsack_solver *s, int64_t bound)
{
    int *lo = frame(s, 0), *hi = lo + s->option_total;
    bool single;
    if (!tighten(s, lo, hi, &single))
        return true;
    int64_t quick = knapsack_bound(s, lo, hi);
    return closed(s, quick) || (s->limited && quick >= bound);
}

/* The tree of every threshold. Returns the least proven bound. */
static int64_t run(struct knapsack_solver *s)
{
    int count = 0;
    int64_t bound = INT64_MAX;
    int64_t *peaks = thresholds(s, &count);
    double *mean = arena_alloc(&s->arena, (size_t)s->option_total, sizeof *mean);
    if (!peaks || !mean || !frame(s, 0)) {
        s->out_of_memory = true;
        return INT64_MIN;
    }
    set_scales(s);
    set_threshold(s, peaks[0]);
    if (cheapest_point_fits(s, mean))
        return s->best_cost;
    for (int t = 0; t < count; t++) {
        set_threshold(s, peaks[t]);
        if (t > 0 && without_interest(s, bound))
            continue;
        bound = min_i64(bound, explore(s, 0));
        if (s->out_of_memory)
            break;
    }
    return min_i64(bound, s->best_cost);
}

bool knapsack_solve(const struct knapsack *problem, struct knapsack_result *result, struct error *err)
{
    struct knapsack_solver s;
    if (!solver_start(&s, problem, err))
        return false;
    int64_t bound = run(&s);
    result->nodes = s.nodes;
    result->cost = s.best_cost;
    if (result->counts && s.best_cost < INT64_MAX)
        memcpy(result->counts, s.best, (size_t)s.option_total * sizeof *s.best);
    result->bound = bound;
    result->status = !closed(&s, bound)        ? KNAPSACK_LIMIT
                     : s.best_cost < INT64_MAX ? KNAPSACK_OPTIMAL
                                               : KNAPSACK_INFEASIBLE;
    arena_free(&s.arena);
    if (s.out_of_memory)
        return fail_kind(err, ERROR_ENVIRONMENT, "knapsack: out of memory");
    return true;
}
