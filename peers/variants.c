#include "peers/variants.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Giving up speed for memory: from one option of an item to the next on its convex hull. */
struct variant_step {
    double cost, bytes; /* more cost, fewer bytes; both positive */
    int item, option;
};

/* An item that the best answer may treat otherwise than the relaxation does. */
struct variant_item {
    int item;
    double nearest;               /* smallest regret of another option */
    double rest_least, rest_most; /* bytes of this item and all later ones */
};
struct variant_label {
    double cost, bytes, regret;
    int previous, option;
};

void variants_free(struct variants *v)
{
    free(v->first);
    free(v->chosen);
    free(v->options);
    free(v->steps);
    free(v->core);
    free(v->labels);
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
    struct variant_item *core = realloc(v->core, (size_t)capacity * sizeof *core);
    if (core)
        v->core = core;
    if (first && chosen && core)
        v->item_capacity = capacity;
    return first && chosen && core;
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
    return x->item != y->item ? (x->item > y->item) - (x->item < y->item)
                              : (x->option > y->option) - (x->option < y->option);
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

/* Insertion where they are few, as they mostly are. */
static void sort_steps(struct variants *v, int count)
{
    enum { FEW = 24 };
    if (count > FEW) {
        qsort(v->steps, (size_t)count, sizeof *v->steps, by_rate);
        return;
    }
    for (int s = 1; s < count; s++) {
        struct variant_step step = v->steps[s];
        int at = s;
        for (; at > 0 && by_rate(&v->steps[at - 1], &step) > 0; at--)
            v->steps[at] = v->steps[at - 1];
        v->steps[at] = step;
    }
}

void variants_bound(struct variants *v, double *bound, double *cost)
{
    double spent = 0, bytes = 0;
    int steps = 0;
    for (int i = 0; i < v->item_count; i++) {
        int at = cheapest_option(v, i);
        v->chosen[i] = at - v->first[i];
        spent += v->options[at].cost;
        bytes += v->options[at].bytes;
        steps = list_steps(v, i, at, steps);
    }
    double over = bytes - v->cap_bytes;
    *bound = spent;
    v->rate = 0;
    if (over > 0)
        sort_steps(v, steps);
    for (int s = 0; s < steps && over > 0; s++) {
        const struct variant_step *step = &v->steps[s];
        *bound = spent + step->cost * fmin(1, over / step->bytes);
        spent += step->cost;
        over -= step->bytes;
        v->rate = step->cost / step->bytes;
        v->chosen[step->item] = step->option;
    }
    *cost = over <= 0 ? spent : INFINITY;
    *bound = over <= 0 ? *bound : INFINITY;
}

/* ---- labels over the core ---- */

/* With bytes priced at the rate each item has a best option, and the others a regret. The cost of any answer is at
 * least the bound plus its regrets, so that options with a regret of the whole gap are out, and items with no other
 * option left are settled. */
static double priced(const struct variants *v, int option)
{
    return v->options[option].cost + v->rate * v->options[option].bytes;
}

static int best_priced(const struct variants *v, int item)
{
    int best = v->first[item];
    for (int o = best + 1; o < v->first[item + 1]; o++)
        if (priced(v, o) < priced(v, best))
            best = o;
    return best;
}

static int by_nearest(const void *a, const void *b) /* what is hardest to change first: few labels for long */
{
    const struct variant_item *x = a, *y = b;
    return x->nearest > y->nearest ? -1 : x->nearest < y->nearest ? 1 : x->item - y->item;
}

/* Fills v->core; what is settled goes into the first label. */
static int find_core(struct variants *v, double gap, struct variant_label *start)
{
    int count = 0;
    *start = (struct variant_label){ .previous = -1 };
    for (int i = 0; i < v->item_count; i++) {
        int best = best_priced(v, i);
        double nearest = INFINITY;
        for (int o = v->first[i]; o < v->first[i + 1]; o++)
            if (o != best)
                nearest = fmin(nearest, priced(v, o) - priced(v, best));
        if (nearest < gap) {
            v->core[count++] = (struct variant_item){ .item = i, .nearest = nearest };
        } else {
            start->cost += v->options[best].cost;
            start->bytes += v->options[best].bytes;
            v->chosen[i] = best - v->first[i];
        }
    }
    qsort(v->core, (size_t)count, sizeof *v->core, by_nearest);
    double least = 0, most = 0;
    for (int c = count - 1; c >= 0; c--) {
        int item = v->core[c].item;
        double low = INFINITY, high = 0;
        for (int o = v->first[item]; o < v->first[item + 1]; o++) {
            low = fmin(low, v->options[o].bytes);
            high = fmax(high, v->options[o].bytes);
        }
        v->core[c].rest_least = least += low;
        v->core[c].rest_most = most += high;
    }
    return count;
}

static bool push(struct variants *v, struct variant_label label)
{
    if (v->label_count == v->label_capacity) {
        int capacity = v->label_capacity ? 2 * v->label_capacity : 1024;
        struct variant_label *grown = realloc(v->labels, (size_t)capacity * sizeof *grown);
        if (!grown)
            return false;
        v->labels = grown;
        v->label_capacity = capacity;
    }
    v->labels[v->label_count++] = label;
    return true;
}

static int by_bytes(const void *a, const void *b)
{
    const struct variant_label *x = a, *y = b;
    if (x->bytes < y->bytes || x->bytes > y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return x->cost < y->cost ? -1 : x->cost > y->cost ? 1 : x->previous - y->previous;
}

/* Of the labels from `first` on, those that no other beats in both cost and bytes. */
static void keep_front(struct variants *v, int first)
{
    int kept = first;
    qsort(v->labels + first, (size_t)(v->label_count - first), sizeof *v->labels, by_bytes);
    for (int l = first; l < v->label_count; l++)
        if (kept == first || v->labels[l].cost < v->labels[kept - 1].cost)
            v->labels[kept++] = v->labels[l];
    v->label_count = kept;
}

/* The labels [first, end) with each option of the core's item c. False: out of memory. */
static bool branch(struct variants *v, int c, int count, int first, int end, double gap)
{
    int item = v->core[c].item, best = best_priced(v, item);
    double least = c + 1 < count ? v->core[c + 1].rest_least : 0, most = c + 1 < count ? v->core[c + 1].rest_most : 0;
    for (int l = first; l < end; l++)
        for (int o = v->first[item]; o < v->first[item + 1]; o++) {
            struct variant_label label = v->labels[l];
            label.cost += v->options[o].cost;
            label.bytes += v->options[o].bytes;
            label.regret += priced(v, o) - priced(v, best);
            label.previous = l;
            label.option = o - v->first[item];
            double unused = v->rate * fmax(0, v->cap_bytes - label.bytes - most);
            if (label.bytes + least <= v->cap_bytes && label.regret + unused < gap && !push(v, label))
                return false;
        }
    return true;
}

enum variants_end variants_solve(struct variants *v, double bound, double *cost)
{
    double gap = (*cost - bound) * (1 + 1e-9);
    struct variant_label start;
    if (!(*cost - bound > 1e-13 * *cost))
        return VARIANTS_DONE;
    int *before = malloc((size_t)v->item_count * sizeof *before);
    if (!before)
        return VARIANTS_NO_MEMORY;
    memcpy(before, v->chosen, (size_t)v->item_count * sizeof *before);
    int count = find_core(v, gap, &start), first = 0, end = 1, c = 0;
    enum variants_end how = VARIANTS_DONE;
    v->label_count = 0;
    if (!push(v, start))
        how = VARIANTS_NO_MEMORY;
    for (; c < count && how == VARIANTS_DONE && end > first; c++) {
        if (!branch(v, c, count, first, end, gap))
            how = VARIANTS_NO_MEMORY;
        keep_front(v, end);
        first = end;
        end = v->label_count;
        if (end > VARIANTS_LABELS)
            how = VARIANTS_LIMIT;
    }
    /* The last front is sorted by bytes: its last label is the cheapest, and all of them fit. */
    if (how == VARIANTS_DONE && end > first && v->labels[end - 1].cost < *cost &&
        v->labels[end - 1].bytes <= v->cap_bytes) {
        *cost = v->labels[end - 1].cost;
        for (int l = end - 1; --c >= 0; l = v->labels[l].previous)
            v->chosen[v->core[c].item] = v->labels[l].option;
    } else {
        memcpy(v->chosen, before, (size_t)v->item_count * sizeof *before);
    }
    free(before);
    return how;
}
