/* Bounds of the knapsack: the Lagrangian in integers, multipliers by column generation in doubles. See knapsack.c. */
#include "base/num.h"
#include "planner/knapsack/knapsack_parts.h"
#include <math.h>
#include <string.h>

typedef knapsack_wide int128;

enum { MAX_PIVOTS = 80 };
static const double artificial_cost = 1e6, pivot_epsilon = 1e-11;

int64_t knapsack_excess(const struct knapsack_solver *s, const int64_t *row)
{
    int64_t excess = 0;
    for (int r = s->excess_first; r < s->rows; r++)
        excess = max_i64(excess, row[r] - s->cap[r]);
    return excess * s->problem->excess_cost;
}

/* Lists which of these options a point takes. */
static void list_used(struct knapsack_solver *s, const int *x, int from, int to)
{
    for (int i = from; i < to; i++)
        if (x[i] != 0)
            s->used[s->used_count++] = i;
}

/* Gives what the point costs that s->used lists. */
static int64_t point_cost(const struct knapsack_solver *s, const int *x)
{
    int64_t cost = 0, row[KNAPSACK_ROWS] = { 0 };
    for (int k = 0; k < s->used_count; k++) {
        int i = s->used[k];
        cost += x[i] * s->option[i].cost;
        for (int r = s->excess_first; r < s->rows; r++)
            row[r] += x[i] * s->option[i].row[r];
    }
    return cost + knapsack_excess(s, row);
}

/* True when the point fits; then it is an answer whatever the threshold, since it is charged for its own peaks. */
static bool point_fits(const struct knapsack_solver *s, const int *x)
{
    int64_t sum[KNAPSACK_ROWS] = { 0 }, peak = 0;
    for (int k = 0; k < s->used_count; k++) {
        int i = s->used[k];
        for (int r = 0; r < s->rows; r++)
            sum[r] += x[i] * s->option[i].row[r];
        peak = max_i64(peak, s->option[i].peak);
    }
    for (int r = 0; r < s->excess_first; r++)
        if (sum[r] > s->cap[r] + (s->row_of[r] == 0 ? s->peak - peak : 0))
            return false;
    return true;
}

static void offer_used(struct knapsack_solver *s, const int *x)
{
    int64_t cost = point_cost(s, x);
    if (cost >= s->best_cost || !point_fits(s, x))
        return;
    s->best_cost = cost;
    memset(s->best, 0, (size_t)s->problem_options * sizeof *s->best);
    for (int k = 0; k < s->used_count; k++)
        s->best[s->origin[s->used[k]]] = x[s->used[k]];
}

void knapsack_offer(struct knapsack_solver *s, const int *x)
{
    s->used_count = 0;
    list_used(s, x, 0, s->option_total);
    offer_used(s, x);
}

/* Gives the cheapest of a group's options that have room, the earlier of equals; -1 where none has. */
static int cheapest_option(const double *price, const int *x, const int *hi, int from, int to)
{
    double least = INFINITY;
    int cheapest = -1;
    for (int i = from; i < to; i++) {
        bool cheaper = (x[i] < hi[i]) & (price[i] < least); /* & and ?: which of them it is cannot be predicted */
        least = cheaper ? price[i] : least;
        cheapest = cheaper ? i : cheapest;
    }
    return cheapest;
}

/* Fills x, which is lo, with the cheapest counts of a group within lo..hi, prices by option; lists what it uses. */
static void fill_group(struct knapsack_solver *s, int group, const int *hi, const double *price, int *x)
{
    int from = s->first[group], to = s->first[group + 1], fixed = 0, takes = 0, cheapest = -1;
    for (int i = from; i < to; i++)
        fixed += x[i];
    for (int left = s->problem->groups[group].count - fixed; left > 0; takes++) {
        cheapest = cheapest_option(price, x, hi, from, to);
        if (cheapest < 0)
            break; /* the caller has tightened lo..hi, so there is always room */
        int take = (int)min_i64(left, hi[cheapest] - x[cheapest]);
        x[cheapest] += take;
        left -= take;
    }
    if (fixed == 0 && takes == 1)
        s->used[s->used_count++] = cheapest;
    else
        list_used(s, x, from, to);
}

/* Finds the cheapest point of the box for s->lambda, into s->point and s->used; returns its Lagrangian value in scaled
 * doubles. price has room for all options. */
static double price_out(struct knapsack_solver *s, const int *lo, const int *hi, double *price)
{
    double value = 0;
    memcpy(price, s->scaled_cost, (size_t)s->option_total * sizeof *price);
    for (int r = 0; r < s->rows; r++) {
        double lambda = s->lambda[r], scale = s->row_scale[r];
        const double *row = s->real_row[r];
#pragma omp simd
        for (int i = 0; i < s->option_total; i++)
            price[i] += lambda * row[i] * scale;
    }
    memcpy(s->point, lo, (size_t)s->option_total * sizeof *lo);
    s->used_count = 0;
    for (int g = 0; g < s->problem->group_count; g++)
        fill_group(s, g, hi, price, s->point);
    for (int k = 0; k < s->used_count; k++)
        value += s->point[s->used[k]] * price[s->used[k]];
    for (int r = 0; r < s->rows; r++)
        value -= s->lambda[r] * (double)s->cap[r] * s->row_scale[r];
    return value;
}

/* Limits multipliers to 2^70: times rows below 2^50 that stays well inside 128 bits. */
static void whole_multipliers(const struct knapsack_solver *s, const double *scaled, int128 out[KNAPSACK_ROWS])
{
    for (int r = 0; r < KNAPSACK_ROWS; r++) {
        double lambda = r < s->rows ? scaled[r] * s->row_scale[r] / s->cost_scale : 0;
        double fixed = floor(ldexp(lambda, LAMBDA_BITS) + 0.5);
        out[r] = fixed <= 0 ? 0 : (int128)fmin(fixed, 0x1p70);
    }
    int128 spare = (int128)s->problem->excess_cost << LAMBDA_BITS; /* with more than its cost, excess would pay */
    for (int r = s->excess_first; r < s->rows; r++) {
        out[r] = out[r] < spare ? out[r] : spare;
        spare -= out[r];
    }
}

int128 knapsack_whole_prices(struct knapsack_solver *s, const double *scaled)
{
    int128 lambda[KNAPSACK_ROWS], taken = 0;
    bool narrow = true; /* nearly always: a product of two words, and not of four */
    whole_multipliers(s, scaled, lambda);
    for (int r = 0; r < s->rows; r++) {
        taken -= lambda[r] * s->cap[r];
        narrow = narrow && lambda[r] <= INT64_MAX;
    }
    for (int i = 0; i < s->option_total; i++) {
        const struct knapsack_option *option = &s->option[i];
        int128 price = (int128)option->cost * (INT64_C(1) << LAMBDA_BITS);
        for (int r = 0; r < s->rows; r++)
            price += narrow ? (int128)(int64_t)lambda[r] * option->row[r] : lambda[r] * option->row[r];
        s->whole[i] = price;
    }
    return taken;
}

/* Gives the Lagrangian bound of the box lo..hi for s->lambda in integers: rigorous whatever the doubles did. */
static int64_t integer_bound(struct knapsack_solver *s, const int *lo, const int *hi)
{
    int128 total = knapsack_whole_prices(s, s->lambda);
    const int128 *price = s->whole;
    for (int g = 0; g < s->problem->group_count; g++) {
        int from = s->first[g], to = s->first[g + 1];
        int64_t left = s->problem->groups[g].count;
        for (int i = from; i < to; i++)
            if (lo[i] > 0) {
                total += price[i] * lo[i];
                left -= lo[i];
            }
        /* cheapest first: each round takes the cheapest option that is dearer than the last one taken, or equal and
         * later */
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

/* Inverts by Gauss-Jordan with pivoting, at most BASIS x BASIS; false when singular. */
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

/* Makes the column of the point that s->used lists. */
static struct column point_column(const struct knapsack_solver *s, const int *x)
{
    struct column column = { .convexity = 1 };
    for (int k = 0; k < s->used_count; k++) {
        int i = s->used[k];
        column.cost += x[i] * (double)s->option[i].cost * s->cost_scale;
        for (int r = 0; r < s->rows; r++)
            column.row[r] += x[i] * (double)s->option[i].row[r] * s->row_scale[r];
    }
    return column;
}

static double entry(const struct knapsack_solver *s, const struct column *column, int row)
{
    return row < s->rows ? column->row[row] : column->convexity;
}

/* Solves the master program's basis: shares of its columns, and the multipliers. */
static bool solve_basis(struct knapsack_solver *s, double inverse[BASIS][BASIS], double *level)
{
    int n = s->rows + 1;
    double a[BASIS][BASIS], dual[BASIS] = { 0 };
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
static bool pivot(struct knapsack_solver *s, double inverse[BASIS][BASIS], const struct column *column, const int *x)
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

/* Makes the column of one unit of excess, in the scale of the finest row that may be exceeded; false if not needed. */
static bool excess_column(const struct knapsack_solver *s, struct column *column)
{
    double finest = 0, price = 0;
    *column = (struct column){ 0 };
    for (int r = s->excess_first; r < s->rows; r++)
        finest = fmax(finest, s->row_scale[r]);
    if (finest == 0)
        return false;
    column->cost = (double)s->problem->excess_cost * s->cost_scale / finest;
    for (int r = s->excess_first; r < s->rows; r++) {
        column->row[r] = -s->row_scale[r] / finest;
        price += s->lambda[r] * s->row_scale[r] / finest;
    }
    return price > column->cost * (1 + 1e-9) + 1e-12;
}

/* Slack, excess and artificial columns enter by their own reduced costs: lambda must lie in [0, artificial_cost], and
 * those of rows that may be exceeded must not sum to more than that costs. */
static bool pivot_slack(struct knapsack_solver *s, double inverse[BASIS][BASIS])
{
    struct column excess;
    if (excess_column(s, &excess))
        return pivot(s, inverse, &excess, NULL);
    for (int r = 0; r < s->rows; r++) {
        struct column column = { 0 };
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

/* Clamps what is so already but for rounding: multipliers not negative, those of excess rows within its cost. */
static void keep_dual_feasible(struct knapsack_solver *s)
{
    double total = 0;
    for (int r = 0; r < s->rows; r++) {
        s->lambda[r] = fmax(s->lambda[r], 0);
        total += r < s->excess_first ? 0 : s->lambda[r] * s->row_scale[r];
    }
    double most = (double)s->problem->excess_cost * s->cost_scale;
    for (int r = s->excess_first; r < s->rows && total > most; r++)
        s->lambda[r] *= most / total;
}

static void start_basis(struct knapsack_solver *s, const int *x)
{
    struct column point = point_column(s, x);
    double most = 0;
    int worst = -1;
    for (int r = 0; r < s->rows; r++) {
        double over = point.row[r] - (double)s->cap[r] * s->row_scale[r];
        bool fits = over <= 0 || r >= s->excess_first;
        s->basis[r] = (struct column){ .cost = fits ? 0 : artificial_cost };
        s->basis[r].row[r] = fits ? 1 : -1;
        if (r >= s->excess_first && over / s->row_scale[r] > most) {
            most = over / s->row_scale[r];
            worst = r;
        }
    }
    if (worst >= 0)
        excess_column(s, &s->basis[worst]);
    s->basis[s->rows] = point;
    s->basis[s->rows].x = s->basis_x[s->rows];
    memcpy(s->basis_x[s->rows], x, (size_t)s->option_total * sizeof *x);
}

int64_t knapsack_bound(struct knapsack_solver *s, const int *lo, const int *hi)
{
    int64_t bound = integer_bound(s, lo, hi);
    return bound > s->dearest ? INT64_MAX : bound;
}

/* Generates columns on the box lo..hi. Leaves in s->lambda the multipliers with the best bound, in mean the fractional
 * optimum. */
int64_t knapsack_relax(struct knapsack_solver *s, const int *lo, const int *hi, double *mean)
{
    size_t options = (size_t)s->option_total;
    double *price = s->price, inverse[BASIS][BASIS], best_lambda[KNAPSACK_ROWS] = { 0 }, level = 0;
    double best_value;
    memset(s->lambda, 0, sizeof s->lambda);
    best_value = price_out(s, lo, hi, price);
    offer_used(s, s->point);
    start_basis(s, s->point);
    for (int i = 0; i < MAX_PIVOTS && solve_basis(s, inverse, &level); i++) {
        if (pivot_slack(s, inverse))
            continue;
        keep_dual_feasible(s);
        double value = price_out(s, lo, hi, price), gap = level;
        for (int r = 0; r < s->rows; r++)
            gap -= s->lambda[r] * (double)s->cap[r] * s->row_scale[r];
        offer_used(s, s->point);
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
    memset(mean, 0, options * sizeof *mean);
    for (int b = 0; b <= s->rows; b++)
        for (int i = 0; s->basis[b].x && i < s->option_total; i++)
            mean[i] += fmax(s->share[b], 0) * s->basis[b].x[i];
    return knapsack_bound(s, lo, hi);
}

void knapsack_fix(struct knapsack_solver *s, const int *lo, int *hi)
{
    int128 total = knapsack_whole_prices(s, s->lambda), unit = (int128)1 << LAMBDA_BITS;
    int64_t target = knapsack_target(s);
    for (int pass = 0; pass < 2; pass++)
        for (int g = 0; g < s->problem->group_count; g++) {
            int128 least = s->first[g] < s->first[g + 1] ? s->whole[s->first[g]] : 0;
            for (int i = s->first[g]; i < s->first[g + 1]; i++)
                least = s->whole[i] < least ? s->whole[i] : least;
            if (pass == 0)
                total += least * s->problem->groups[g].count;
            for (int i = s->first[g]; pass == 1 && i < s->first[g + 1]; i++) {
                int128 more = s->whole[i] - least, room = (int128)target * unit - 1 - total;
                if (more > 0 && room < more * hi[i])
                    hi[i] = (int)max_i64(lo[i], room < 0 ? 0 : (int64_t)(room / more));
            }
        }
}
