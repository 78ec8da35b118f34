/* Branch and bound on the counts. The bound of a node is the Lagrangian one: for any multipliers lambda >= 0
 *
 *     sum_g min over x_g of (cost + lambda row) x_g  -  lambda cap   <=   optimum,
 *
 * evaluated in integers with lambda rounded to 2^-30, so that no rounding can cut off an optimum. Good multipliers come from column
 * generation in doubles: the master program has one row per constraint and one of convexity, a column is a priced-out choice of
 * counts, and every column that fits is an incumbent. Transient memory (the largest peak in use) is a threshold: for each distinct
 * peak the options above it are forbidden and the cap is lowered by it. */
#include "planner/search/knapsack.h"
#include "base/arena.h"
#include "base/num.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef __int128 int128;

enum { BASIS = KNAPSACK_ROWS + 1, LAMBDA_BITS = 30, MAX_PIVOTS = 80, MAX_DEPTH = 1024 };
static const double artificial_cost = 1e6, pivot_epsilon = 1e-11;

struct column {
    double cost, row[KNAPSACK_ROWS], convexity;
    int *x; /* (option_total) of a point; NULL: a slack or an artificial one */
};
struct solver {
    const struct knapsack *problem;
    struct arena arena;
    int option_total, rows;
    const struct knapsack_option **option; /* (option_total) */
    int *first;                            /* (group_count + 1) into option */
    int64_t cap[KNAPSACK_ROWS];            /* with the threshold taken off row 0 */
    int *best, *point;                     /* (option_total) */
    int64_t best_cost, dearest, nodes;     /* dearest: no point costs more */
    double cost_scale, row_scale[KNAPSACK_ROWS];
    struct column basis[BASIS];
    int *basis_x[BASIS];                   /* storage of the columns' points */
    double share[BASIS], lambda[KNAPSACK_ROWS];
    int *frames[MAX_DEPTH];                /* lo and hi per depth, made on demand */
    bool out_of_memory, limited;
};

static int64_t point_cost(const struct solver *s, const int *x)
{
    int64_t cost = 0;
    for (int i = 0; i < s->option_total; i++)
        cost += x[i] * s->option[i]->cost;
    return cost;
}

/* Nothing worth having can lie above this bound. */
static bool closed(const struct solver *s, int64_t bound)
{
    if (bound >= s->best_cost)
        return true;
    if (s->best_cost == INT64_MAX)
        return false;
    int64_t best = s->best_cost >> s->problem->tie_bits;
    return (bound >> s->problem->tie_bits) >= best - (int64_t)((double)best * (double)s->problem->gap_ppm / 1e6);
}

/* Against the problem's own caps: a point that fits is an answer whatever the threshold. */
static bool point_fits(const struct solver *s, const int *x)
{
    int64_t sum[KNAPSACK_ROWS] = {0}, peak = 0;
    for (int i = 0; i < s->option_total; i++) {
        if (x[i] == 0)
            continue;
        for (int r = 0; r < s->rows; r++)
            sum[r] += x[i] * s->option[i]->row[r];
        peak = max_i64(peak, s->option[i]->peak);
    }
    for (int r = 0; r < s->rows; r++)
        if (sum[r] + (r == 0 ? peak : 0) > s->problem->cap[r])
            return false;
    return true;
}

static void offer(struct solver *s, const int *x)
{
    int64_t cost = point_cost(s, x);
    if (cost >= s->best_cost || !point_fits(s, x))
        return;
    s->best_cost = cost;
    memcpy(s->best, x, (size_t)s->option_total * sizeof *x);
}

/* Fills x with the cheapest counts of one group within lo..hi, prices by option; ties go to the earlier option. */
static void fill_group(const struct solver *s, int group, const int *lo, const int *hi, const double *price, int *x)
{
    int from = s->first[group], to = s->first[group + 1], left = s->problem->groups[group].count;
    for (int i = from; i < to; i++) {
        x[i] = lo[i];
        left -= lo[i];
    }
    while (left > 0) {
        int cheapest = -1;
        for (int i = from; i < to; i++)
            if (x[i] < hi[i] && (cheapest < 0 || price[i] < price[cheapest]))
                cheapest = i;
        if (cheapest < 0)
            return; /* the caller has tightened lo..hi, so there is always room */
        int take = (int)min_i64(left, hi[cheapest] - x[cheapest]);
        x[cheapest] += take;
        left -= take;
    }
}

static double scaled_price(const struct solver *s, int i)
{
    double price = (double)s->option[i]->cost * s->cost_scale;
    for (int r = 0; r < s->rows; r++)
        price += s->lambda[r] * (double)s->option[i]->row[r] * s->row_scale[r];
    return price;
}

/* The point that minimises the Lagrangian for s->lambda, into s->point; returns its value in scaled doubles. */
static double price_out(struct solver *s, const int *lo, const int *hi, double *price)
{
    double value = 0;
    for (int i = 0; i < s->option_total; i++)
        price[i] = scaled_price(s, i);
    for (int g = 0; g < s->problem->group_count; g++)
        fill_group(s, g, lo, hi, price, s->point);
    for (int i = 0; i < s->option_total; i++)
        value += s->point[i] * price[i];
    for (int r = 0; r < s->rows; r++)
        value -= s->lambda[r] * (double)s->cap[r] * s->row_scale[r];
    return value;
}

/* At most 2^70: times rows below 2^50 that stays well inside 128 bits. */
static int128 rounded_multiplier(const struct solver *s, int row)
{
    double lambda = s->lambda[row] * s->row_scale[row] / s->cost_scale;
    double fixed = floor(ldexp(lambda, LAMBDA_BITS) + 0.5);
    return fixed <= 0 ? 0 : (int128)fmin(fixed, 0x1p70);
}

/* The Lagrangian bound of the box lo..hi for s->lambda in integers: rigorous whatever the doubles did. */
static int64_t integer_bound(const struct solver *s, const int *lo, const int *hi, int128 *price)
{
    int128 lambda[KNAPSACK_ROWS] = {0}, total = 0;
    for (int r = 0; r < s->rows; r++) {
        lambda[r] = rounded_multiplier(s, r);
        total -= lambda[r] * s->cap[r];
    }
    for (int i = 0; i < s->option_total; i++) {
        price[i] = (int128)s->option[i]->cost * (INT64_C(1) << LAMBDA_BITS);
        for (int r = 0; r < s->rows; r++)
            price[i] += lambda[r] * s->option[i]->row[r];
    }
    for (int g = 0; g < s->problem->group_count; g++) {
        int from = s->first[g], to = s->first[g + 1];
        int64_t left = s->problem->groups[g].count;
        for (int i = from; i < to; i++) {
            total += price[i] * lo[i];
            left -= lo[i];
        }
        /* Cheapest first: each round takes the cheapest option that is dearer than the last one taken, or equal and later. */
        for (int last = -1; left > 0;) {
            int next = -1;
            for (int i = from; i < to; i++) {
                bool after = last < 0 || price[i] > price[last] || (price[i] == price[last] && i > last);
                if (after && (next < 0 || price[i] < price[next]))
                    next = i;
            }
            if (next < 0)
                break;
            int64_t take = min_i64(left, hi[next] - lo[next]);
            total += price[next] * take;
            left -= take;
            last = next;
        }
    }
    int128 unit = (int128)1 << LAMBDA_BITS;
    int128 bound = total >= 0 ? (total + unit - 1) / unit : -(-total / unit);
    return bound >= INT64_MAX ? INT64_MAX : bound <= INT64_MIN ? INT64_MIN : (int64_t)bound;
}

/* Gauss-Jordan with pivoting on at most BASIS x BASIS; false when singular. */
static bool invert(int n, double a[BASIS][BASIS], double inverse[BASIS][BASIS])
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            inverse[i][j] = i == j;
    for (int c = 0; c < n; c++) {
        int pivot = c;
        for (int i = c + 1; i < n; i++)
            if (fabs(a[i][c]) > fabs(a[pivot][c]))
                pivot = i;
        if (fabs(a[pivot][c]) < 1e-14)
            return false;
        for (int j = 0; j < n; j++) {
            double t = a[c][j];
            a[c][j] = a[pivot][j], a[pivot][j] = t;
            t = inverse[c][j];
            inverse[c][j] = inverse[pivot][j], inverse[pivot][j] = t;
        }
        for (int i = 0; i < n; i++) {
            double factor = a[i][c] / a[c][c];
            if (i == c || factor == 0)
                continue;
            for (int j = 0; j < n; j++) {
                a[i][j] -= factor * a[c][j];
                inverse[i][j] -= factor * inverse[c][j];
            }
        }
        double diagonal = a[c][c];
        for (int j = 0; j < n; j++) {
            a[c][j] /= diagonal;
            inverse[c][j] /= diagonal;
        }
    }
    return true;
}

static struct column point_column(const struct solver *s, const int *x)
{
    struct column column = {.convexity = 1};
    for (int i = 0; i < s->option_total; i++) {
        if (x[i] == 0)
            continue;
        column.cost += x[i] * (double)s->option[i]->cost * s->cost_scale;
        for (int r = 0; r < s->rows; r++)
            column.row[r] += x[i] * (double)s->option[i]->row[r] * s->row_scale[r];
    }
    return column;
}

static double entry(const struct solver *s, const struct column *column, int row)
{
    return row < s->rows ? column->row[row] : column->convexity;
}

/* Solves the master program's basis: shares of its columns, and the multipliers. */
static bool solve_basis(struct solver *s, double inverse[BASIS][BASIS], double *level)
{
    int n = s->rows + 1;
    double a[BASIS][BASIS], dual[BASIS] = {0};
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            a[i][j] = entry(s, &s->basis[j], i);
    if (!invert(n, a, inverse))
        return false;
    for (int i = 0; i < n; i++) {
        s->share[i] = inverse[i][n - 1];
        for (int r = 0; r < s->rows; r++)
            s->share[i] += inverse[i][r] * (double)s->cap[r] * s->row_scale[r];
    }
    for (int j = 0; j < n; j++) {
        for (int i = 0; i < n; i++)
            dual[j] += s->basis[i].cost * inverse[i][j];
    }
    for (int r = 0; r < s->rows; r++)
        s->lambda[r] = -dual[r];
    *level = dual[n - 1];
    return true;
}

/* Brings a column into the basis by the ratio test; false when none can leave. */
static bool pivot(struct solver *s, double inverse[BASIS][BASIS], const struct column *column, const int *x)
{
    int n = s->rows + 1, leaves = -1;
    double smallest = INFINITY;
    for (int i = 0; i < n; i++) {
        double direction = 0;
        for (int j = 0; j < n; j++)
            direction += inverse[i][j] * entry(s, column, j);
        if (direction <= pivot_epsilon)
            continue;
        double ratio = fmax(s->share[i], 0) / direction;
        if (ratio < smallest) {
            smallest = ratio;
            leaves = i;
        }
    }
    if (leaves < 0)
        return false;
    s->basis[leaves] = *column;
    s->basis[leaves].x = x ? s->basis_x[leaves] : NULL;
    if (x)
        memcpy(s->basis_x[leaves], x, (size_t)s->option_total * sizeof *x);
    return true;
}

/* Slack and artificial columns enter by their own reduced costs: lambda must lie in [0, artificial_cost]. */
static bool pivot_slack(struct solver *s, double inverse[BASIS][BASIS])
{
    for (int r = 0; r < s->rows; r++) {
        struct column column = {0};
        if (s->lambda[r] < -1e-12) {
            column.row[r] = 1;
        } else if (s->lambda[r] > artificial_cost * (1 + 1e-9)) {
            column.row[r] = -1;
            column.cost = artificial_cost;
        } else {
            continue;
        }
        return pivot(s, inverse, &column, NULL);
    }
    return false;
}

static void start_basis(struct solver *s, const int *x)
{
    struct column point = point_column(s, x);
    for (int r = 0; r < s->rows; r++) {
        bool fits = point.row[r] <= (double)s->cap[r] * s->row_scale[r];
        s->basis[r] = (struct column){.cost = fits ? 0 : artificial_cost};
        s->basis[r].row[r] = fits ? 1 : -1;
    }
    s->basis[s->rows] = point;
    s->basis[s->rows].x = s->basis_x[s->rows];
    memcpy(s->basis_x[s->rows], x, (size_t)s->option_total * sizeof *x);
}

/* Column generation on the box lo..hi. Leaves in s->lambda the multipliers with the best bound, in mean the fractional optimum. */
static int64_t relax(struct solver *s, const int *lo, const int *hi, double *mean)
{
    size_t options = (size_t)s->option_total;
    double *price = calloc(options, sizeof *price), inverse[BASIS][BASIS], best_lambda[KNAPSACK_ROWS] = {0}, level = 0;
    int128 *whole = calloc(options, sizeof *whole);
    double best_value = -INFINITY;
    int64_t bound = INT64_MIN;
    if (!price || !whole) {
        s->out_of_memory = true;
        goto cleanup;
    }
    memset(s->lambda, 0, sizeof s->lambda);
    best_value = price_out(s, lo, hi, price);
    offer(s, s->point);
    start_basis(s, s->point);
    for (int i = 0; i < MAX_PIVOTS && solve_basis(s, inverse, &level); i++) {
        if (pivot_slack(s, inverse))
            continue;
        for (int r = 0; r < s->rows; r++)
            s->lambda[r] = fmax(s->lambda[r], 0);
        double value = price_out(s, lo, hi, price), gap = level;
        for (int r = 0; r < s->rows; r++)
            gap -= s->lambda[r] * (double)s->cap[r] * s->row_scale[r];
        offer(s, s->point);
        if (value > best_value) {
            best_value = value;
            memcpy(best_lambda, s->lambda, sizeof best_lambda);
        }
        if (value >= gap - 1e-12 * (1 + fabs(gap)))
            break;
        struct column column = point_column(s, s->point);
        if (!pivot(s, inverse, &column, s->point))
            break;
    }
    memcpy(s->lambda, best_lambda, sizeof best_lambda);
    bound = integer_bound(s, lo, hi, whole);
    if (bound > s->dearest)
        bound = INT64_MAX; /* no point fits */
    memset(mean, 0, options * sizeof *mean);
    for (int b = 0; b <= s->rows; b++)
        for (int i = 0; s->basis[b].x && i < s->option_total; i++)
            mean[i] += fmax(s->share[b], 0) * s->basis[b].x[i];
cleanup:
    free(price);
    free(whole);
    return bound;
}

/* Implied limits of the counts of each group; false when the box is empty, *single when one point is left. */
static bool tighten(const struct solver *s, int *lo, int *hi, bool *single)
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
static void offer_rounded(struct solver *s, const int *lo, const int *hi, const double *mean)
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
    offer(s, s->point);
}

/* The most fractional count; when all are whole, the widest one. */
static int branching_option(const struct solver *s, const int *lo, const int *hi, const double *mean)
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

static int *frame(struct solver *s, int depth)
{
    if (depth >= MAX_DEPTH)
        return NULL;
    if (!s->frames[depth])
        s->frames[depth] = arena_alloc(&s->arena, 2 * (size_t)s->option_total, sizeof(int));
    return s->frames[depth];
}

/* Explores the box in frame `depth`; returns a proven bound of the best point that lies in it and is cheaper than best_cost. */
static int64_t explore(struct solver *s, int depth)
{
    int *lo = frame(s, depth), *hi = lo + s->option_total, *child = frame(s, depth + 1);
    bool single = false;
    size_t bytes = (size_t)s->option_total * sizeof *lo;
    if (!tighten(s, lo, hi, &single))
        return INT64_MAX;
    if (single) {
        offer(s, lo);
        return s->best_cost;
    }
    double *mean = calloc((size_t)s->option_total, sizeof *mean);
    if (!mean || !child) {
        s->out_of_memory = s->out_of_memory || !mean || depth + 1 < MAX_DEPTH;
        s->limited = true;
        free(mean);
        return INT64_MIN;
    }
    s->nodes++;
    int64_t bound = relax(s, lo, hi, mean);
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

static bool solver_start(struct solver *s, const struct knapsack *problem, struct error *err)
{
    *s = (struct solver){.problem = problem, .rows = problem->row_count, .best_cost = INT64_MAX};
    for (int g = 0; g < problem->group_count; g++)
        s->option_total += problem->groups[g].option_count;
    size_t options = (size_t)s->option_total;
    s->option = arena_alloc(&s->arena, options, sizeof *s->option);
    s->first = arena_alloc(&s->arena, (size_t)problem->group_count + 1, sizeof *s->first);
    s->best = arena_alloc(&s->arena, options, sizeof *s->best);
    s->point = arena_alloc(&s->arena, options, sizeof *s->point);
    bool good = s->option && s->first && s->best && s->point;
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
static void set_scales(struct solver *s)
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
static int64_t *thresholds(struct solver *s, int *count)
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

static void set_threshold(struct solver *s, int64_t peak)
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
static bool cheapest_point_fits(struct solver *s, double *price)
{
    int *lo = frame(s, 0), *hi = lo + s->option_total;
    memset(s->lambda, 0, sizeof s->lambda);
    price_out(s, lo, hi, price);
    offer(s, s->point);
    return s->best_cost < INT64_MAX;
}

/* The tree of every threshold. Returns the least proven bound. */
static int64_t run(struct solver *s)
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
        bound = min_i64(bound, explore(s, 0));
        if (s->out_of_memory)
            break;
    }
    return min_i64(bound, s->best_cost);
}

bool knapsack_solve(const struct knapsack *problem, struct knapsack_result *result, struct error *err)
{
    struct solver s;
    if (!solver_start(&s, problem, err))
        return false;
    int64_t bound = run(&s);
    result->nodes = s.nodes;
    result->cost = s.best_cost;
    if (result->counts && s.best_cost < INT64_MAX)
        memcpy(result->counts, s.best, (size_t)s.option_total * sizeof *s.best);
    result->bound = bound;
    result->status = !closed(&s, bound) ? KNAPSACK_LIMIT : s.best_cost < INT64_MAX ? KNAPSACK_OPTIMAL : KNAPSACK_INFEASIBLE;
    arena_free(&s.arena);
    if (s.out_of_memory)
        return fail_kind(err, ERROR_ENVIRONMENT, "knapsack: out of memory");
    return true;
}
