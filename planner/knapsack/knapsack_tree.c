/* Branch and bound on the counts: the last resort where enumeration meets its limit. A node is a box of counts; its
 * bound comes from column generation. */
#include "base/num.h"
#include "planner/knapsack/knapsack_parts.h"
#include <math.h>
#include <string.h>

static const int node_beams[] = { 32, 0 };

bool knapsack_tighten(const struct knapsack_solver *s, int *lo, int *hi, bool *single)
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

void knapsack_offer_rounded(struct knapsack_solver *s, const int *lo, const int *hi, const double *mean)
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

/* Picks the most fractional count; when all are whole, the first that is open. */
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

/* Gives room for lo, hi and the fractional optimum of one depth. */
static int *frame(struct knapsack_solver *s, int depth)
{
    size_t words = 2 + sizeof(double) / sizeof(int);
    if (depth >= MAX_DEPTH)
        return NULL;
    if (!s->frames[depth])
        s->frames[depth] = arena_alloc(&s->arena, (size_t)s->problem_options + 1, words * sizeof(int));
    return s->frames[depth];
}

static int64_t explore(struct knapsack_solver *s, int depth)
{
    int *lo = frame(s, depth), *hi = lo + s->option_total, *child = frame(s, depth + 1);
    bool single = false;
    size_t bytes = (size_t)s->option_total * sizeof *lo;
    if (!knapsack_tighten(s, lo, hi, &single)) /* what fixing has cut off is only known not to be worth having */
        return knapsack_exhausted(s);
    if (single) {
        knapsack_offer(s, lo);
        return knapsack_exhausted(s);
    }
    if (!child) {
        s->out_of_memory = s->out_of_memory || depth + 1 < MAX_DEPTH;
        s->limited = true;
        return INT64_MIN;
    }
    double *mean = (double *)(void *)(lo + 2 * (s->option_total + s->option_total % 2));
    int64_t bound = depth > 0 ? knapsack_bound(s, lo, hi) : INT64_MIN; /* its neighbour's multipliers often do */
    if (!knapsack_closed(s, bound)) {
        s->nodes++;
        bound = max_i64(bound, knapsack_relax(s, lo, hi, mean));
        if (!knapsack_closed(s, bound))
            knapsack_offer_rounded(s, lo, hi, mean);
    }
    bool done = false;
    if (!knapsack_closed(s, bound)) {
        knapsack_fix(s, lo, hi);
        if (!knapsack_tighten(s, lo, hi, &single) || !knapsack_core(s, lo, hi, node_beams, &done) || done)
            return s->out_of_memory ? INT64_MIN : knapsack_exhausted(s);
    }
    if (s->problem->node_limit > 0 && s->nodes >= s->problem->node_limit)
        s->limited = true;
    if (knapsack_closed(s, bound) || s->limited || s->out_of_memory)
        return bound;
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
    return max_i64(bound, least);
}

int64_t knapsack_tree(struct knapsack_solver *s)
{
    int *root = frame(s, 0);
    if (!root) {
        s->out_of_memory = true;
        return INT64_MIN;
    }
    memcpy(root, s->root, 2 * (size_t)s->option_total * sizeof *root);
    return explore(s, 0);
}
