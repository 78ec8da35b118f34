#include "planner/partition/variants.h"
#include "planner/search/knapsack.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Giving up speed for memory: from one option of an item to the next on its convex hull. */
struct variant_step {
    double cost, bytes; /* more cost, fewer bytes; both positive */
    int item, option;
};

void variants_free(struct variants *v)
{
    free(v->first);
    free(v->chosen);
    free(v->options);
    free(v->steps);
    *v = (struct variants){ 0 };
}

void variants_clear(struct variants *v, double cap_bytes)
{
    v->cap_bytes = cap_bytes;
    v->item_count = v->option_count = 0;
}

static bool grow_items(struct variants *v)
{
    int capacity = v->item_capacity ? 2 * v->item_capacity : 64;
    int *first = realloc(v->first, ((size_t)capacity + 1) * sizeof *first);
    if (first)
        v->first = first;
    int *chosen = realloc(v->chosen, (size_t)capacity * sizeof *chosen);
    if (chosen)
        v->chosen = chosen;
    if (first && chosen)
        v->item_capacity = capacity;
    return first && chosen;
}

static bool grow_options(struct variants *v, int count)
{
    int capacity = 2 * (v->option_capacity + count);
    struct variant_option *options = realloc(v->options, (size_t)capacity * sizeof *options);
    if (options)
        v->options = options;
    struct variant_step *steps = realloc(v->steps, (size_t)capacity * sizeof *steps);
    if (steps)
        v->steps = steps;
    if (options && steps)
        v->option_capacity = capacity;
    return options && steps;
}

bool variants_add_item(struct variants *v, int option_count)
{
    if ((v->item_count == v->item_capacity && !grow_items(v)) ||
        (v->option_count + option_count > v->option_capacity && !grow_options(v, option_count)))
        return false;
    v->first[v->item_count++] = v->option_count;
    v->option_count += option_count;
    v->first[v->item_count] = v->option_count;
    return true;
}

void variants_set(struct variants *v, int option, double cost, double bytes)
{
    v->options[v->first[v->item_count - 1] + option] = (struct variant_option){ cost, bytes };
}

int variants_chosen(const struct variants *v, int item)
{
    return v->chosen[item];
}

static int by_rate(const void *a, const void *b)
{
    const struct variant_step *x = a, *y = b;
    double left = x->cost * y->bytes, right = y->cost * x->bytes;
    if (left < right || left > right)
        return left < right ? -1 : 1;
    return x->item != y->item ? (x->item > y->item) - (x->item < y->item) : (x->option > y->option) - (x->option < y->option);
}

static int cheapest_option(const struct variants *v, int item)
{
    int best = v->first[item];
    for (int o = best + 1; o < v->first[item + 1]; o++) {
        const struct variant_option *a = &v->options[o], *b = &v->options[best];
        if (a->cost < b->cost || (a->cost <= b->cost && a->bytes < b->bytes))
            best = o;
    }
    return best;
}

/* Steps of the item's hull from its cheapest option on: always the next one of lowest cost per byte. */
static int list_steps(struct variants *v, int item, int at, int count)
{
    for (;;) {
        int next = -1;
        double best_cost = 0, best_bytes = 1;
        for (int o = v->first[item]; o < v->first[item + 1]; o++) {
            double cost = v->options[o].cost - v->options[at].cost, bytes = v->options[at].bytes - v->options[o].bytes;
            if (bytes > 0 && (next < 0 || cost * best_bytes < best_cost * bytes)) {
                next = o;
                best_cost = cost;
                best_bytes = bytes;
            }
        }
        if (next < 0)
            return count;
        v->steps[count++] = (struct variant_step){ best_cost, best_bytes, item, next - v->first[item] };
        at = next;
    }
}

struct quick { /* what the hulls say */
    double bound, cost;
    bool fits;
};
static struct quick solve_quickly(struct variants *v)
{
    double cost = 0, bytes = 0;
    int steps = 0;
    for (int i = 0; i < v->item_count; i++) {
        int at = cheapest_option(v, i);
        v->chosen[i] = at - v->first[i];
        cost += v->options[at].cost;
        bytes += v->options[at].bytes;
        steps = list_steps(v, i, at, steps);
    }
    double over = bytes - v->cap_bytes, bound = cost;
    if (over <= 0)
        return (struct quick){ cost, cost, true };
    qsort(v->steps, (size_t)steps, sizeof *v->steps, by_rate);
    for (int s = 0; s < steps && over > 0; s++) {
        const struct variant_step *step = &v->steps[s];
        bound = cost + step->cost * fmin(1, over / step->bytes);
        cost += step->cost;
        over -= step->bytes;
        v->chosen[step->item] = step->option;
    }
    return (struct quick){ bound, cost, over <= 0 };
}

static bool make_groups(const struct variants *v, struct knapsack_group *groups, struct knapsack_option *options,
                        int64_t *cap)
{
    double costs = 0, bytes = v->cap_bytes;
    for (int i = 0; i < v->item_count; i++) {
        double most_cost = 0, most_bytes = 0;
        for (int o = v->first[i]; o < v->first[i + 1]; o++) {
            most_cost = fmax(most_cost, v->options[o].cost);
            most_bytes = fmax(most_bytes, fmin(v->options[o].bytes, 2 * v->cap_bytes));
        }
        costs += most_cost;
        bytes += most_bytes;
    }
    double per_cost = costs > 0 ? 0x1p50 / costs : 0, per_byte = 0x1p48 / bytes;
    for (int i = 0; i < v->item_count; i++) {
        groups[i] = (struct knapsack_group){ 1, v->first[i + 1] - v->first[i], &options[v->first[i]] };
        for (int o = v->first[i]; o < v->first[i + 1]; o++) {
            options[o] = (struct knapsack_option){ .cost = llround(v->options[o].cost * per_cost) };
            options[o].row[0] = (int64_t)ceil(fmin(v->options[o].bytes, 2 * v->cap_bytes) * per_byte);
        }
    }
    *cap = (int64_t)floor(v->cap_bytes * per_byte);
    return true;
}

static bool solve_exactly(struct variants *v, double *cost, struct error *err)
{
    struct knapsack_group *groups = calloc((size_t)v->item_count, sizeof *groups);
    struct knapsack_option *options = calloc((size_t)v->option_count, sizeof *options);
    int *counts = calloc((size_t)v->option_count, sizeof *counts);
    struct knapsack problem = { .group_count = v->item_count, .row_count = 1, .groups = groups };
    struct knapsack_result result = { .counts = counts };
    bool ok = groups && options && counts;
    if (!ok)
        fail_kind(err, ERROR_ENVIRONMENT, "partition: out of memory");
    ok = ok && make_groups(v, groups, options, &problem.cap[0]) && knapsack_solve(&problem, &result, err);
    if (ok && result.status == KNAPSACK_OPTIMAL && result.cost < INT64_MAX) {
        *cost = 0;
        for (int i = 0; i < v->item_count; i++)
            for (int o = v->first[i]; o < v->first[i + 1]; o++)
                if (counts[o] > 0) {
                    v->chosen[i] = o - v->first[i];
                    *cost += v->options[o].cost;
                }
    }
    free(groups);
    free(options);
    free(counts);
    return ok;
}

bool variants_solve(struct variants *v, double enough, bool exact, double *cost, struct error *err)
{
    struct quick quick = solve_quickly(v);
    *cost = INFINITY;
    if (!quick.fits || (!exact && !(quick.bound < enough)))
        return true;
    bool settled = quick.cost <= quick.bound || (!exact && quick.cost < enough);
    *cost = quick.cost;
    return settled || solve_exactly(v, cost, err);
}
