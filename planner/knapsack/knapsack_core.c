/* What the bound leaves of the counts is enumerated. A label is a point: so many items of the options seen so far, the
 * rest of every group at its base, the option that is cheapest at the root's multipliers. Labels grow option by option,
 * the dearest by reduced cost first, groups that are torn between options last. A label dies
 *
 * - when, for one of several vectors of multipliers, bound + reduced costs reach the best cost known: the root's
 *   optimum and vectors around it see different rows;
 * - when what is still to come cannot bring it below a cap;
 * - when another one has used no more items of the group, costs no more and needs no more of any row. What a row holds
 *   that no continuation can exceed counts as equal.
 *
 * Narrow beams come first, for good incumbents; the last pass keeps every label, up to a limit. */
#include "base/num.h"
#include "base/sort.h"
#include "planner/knapsack/knapsack_parts.h"
#include <stdlib.h>
#include <string.h>

typedef knapsack_wide int128;

/* DOMINANCE: so many predecessors are compared. LABELS, TRACES: more are too much for enumeration. */
enum { VECTORS = 8, DOMINANCE = 96, EXPANSION = 8, TRACES = 50 };

struct label {
    int64_t cost, row[KNAPSACK_ROWS], reduced[VECTORS];
    int used, trace;
};
struct trace {
    int parent, option, count;
};
struct core {
    struct knapsack_solver *s;
    int vectors;
    int64_t bound[VECTORS];      /* of the whole problem, for each vector of multipliers */
    int64_t (*reduced)[VECTORS]; /* (options) */
    int *base, *group_order;     /* (groups) */
    int *option_order;           /* (options) within each group */
    int64_t *hardness;           /* (groups) least reduced cost beside the base */
    const int *lo, *hi;
    int *spare;                  /* (groups) items that lo leaves */
    struct label *labels, *next; /* `capacity` each */
    struct keyed *sorted;        /* (capacity) */
    struct trace *traces;
    int label_count, next_count, capacity, trace_count, trace_capacity, beam;
    bool truncated, out_of_memory, too_many;
    int64_t least[KNAPSACK_ROWS], most[KNAPSACK_ROWS], least_cost; /* what the options to come can add to a label */
};

/* ---- multipliers ---- */

static int64_t saturated(int128 value)
{
    int128 limit = (int128)1 << 61;
    return (int64_t)(value > limit ? limit : value < -limit ? -limit : value);
}

static void add_vector(struct core *c, const double *scaled)
{
    struct knapsack_solver *s = c->s;
    int v = c->vectors++;
    int128 total = knapsack_whole_prices(s, scaled);
    for (int g = 0; g < s->problem->group_count; g++) {
        int pick = -1;
        for (int i = s->first[g]; i < s->first[g + 1]; i++) {
            if (c->lo[i] > 0)
                total += c->lo[i] * s->whole[i];
            if (c->hi[i] == c->lo[i] || (pick >= 0 && s->whole[i] >= s->whole[pick]))
                continue;
            pick = i;
        }
        if (v == 0)
            c->base[g] = pick;
        if (pick < 0)
            continue;
        for (int i = s->first[g]; i < s->first[g + 1]; i++)
            c->reduced[i][v] = saturated((s->whole[i] - s->whole[pick]) >> LAMBDA_BITS);
        total += s->whole[pick] * c->spare[g];
    }
    c->bound[v] = saturated(total >> LAMBDA_BITS);
}

/* Sets vectors: the root's own, all a little larger or smaller, and each row's so. */
static void set_vectors(struct core *c)
{
    struct knapsack_solver *s = c->s;
    static const double all[] = { 1, 1.12, 0.89 }, one[] = { 1.3, 0.75 };
    for (int k = 0; k < 3; k++) {
        double scaled[KNAPSACK_ROWS];
        for (int r = 0; r < s->rows; r++)
            scaled[r] = s->lambda[r] * all[k];
        add_vector(c, scaled);
    }
    for (int k = 0; k < 2; k++)
        for (int r = 0; r < s->rows && c->vectors < VECTORS; r++) {
            double scaled[KNAPSACK_ROWS];
            memcpy(scaled, s->lambda, sizeof scaled);
            scaled[r] *= one[k];
            if (s->lambda[r] > 0)
                add_vector(c, scaled);
        }
}

/* ---- order ---- */

static bool live(const struct core *c, int i, int group)
{
    return i != c->base[group] && c->hi[i] > c->lo[i] && !knapsack_closed(c->s, c->bound[0] + c->reduced[i][0]);
}

/* Orders options and groups by insertion, since options are few, and so are groups that are torn. */
static void set_order(struct core *c)
{
    const struct knapsack_solver *s = c->s;
    for (int g = 0; g < s->problem->group_count; g++) {
        int *order = &c->option_order[s->first[g]];
        c->hardness[g] = INT64_MAX;
        for (int i = s->first[g], n = 0; i < s->first[g + 1]; i++, n++) {
            int at = n;
            for (; at > 0 && c->reduced[order[at - 1]][0] < c->reduced[i][0]; at--)
                order[at] = order[at - 1];
            order[at] = i;
            if (live(c, i, g))
                c->hardness[g] = min_i64(c->hardness[g], c->reduced[i][0]);
        }
        int at = g;
        for (; at > 0 && c->hardness[c->group_order[at - 1]] < c->hardness[g]; at--)
            c->group_order[at] = c->group_order[at - 1];
        c->group_order[at] = g;
    }
}

/* Gives what one use of an option changes in a row. */
static int64_t change(const struct core *c, int group, int i, int row)
{
    return c->s->option[i].row[row] - c->s->option[c->base[group]].row[row];
}

/* Counts by how much the group's options from `from` on can lower and raise each row; sign -1 takes it off. */
static void count_to_come(struct core *c, int group, int from, int sign)
{
    const struct knapsack_solver *s = c->s;
    for (int r = 0; r < s->rows; r++) {
        int64_t least = 0, most = 0;
        for (int k = from; k < s->first[group + 1]; k++) {
            int i = c->option_order[k];
            if (!live(c, i, group))
                continue;
            least = min_i64(least, change(c, group, i, r));
            most = max_i64(most, change(c, group, i, r));
        }
        c->least[r] += sign * least * c->spare[group];
        c->most[r] += sign * most * c->spare[group];
    }
    int64_t least = 0, base = s->option[c->base[group]].cost;
    for (int k = from; k < s->first[group + 1]; k++)
        if (live(c, c->option_order[k], group))
            least = min_i64(least, s->option[c->option_order[k]].cost - base);
    c->least_cost += sign * least * c->spare[group];
}

/* ---- labels ---- */

static bool dead(const struct core *c, const struct label *l)
{
    int64_t target = knapsack_target(c->s);
    for (int v = 0; v < c->vectors; v++)
        if (c->bound[v] + l->reduced[v] >= target)
            return true;
    return false;
}

static bool hopeless(const struct core *c, const struct label *l)
{
    int64_t row[KNAPSACK_ROWS];
    for (int r = 0; r < c->s->rows; r++) {
        row[r] = l->row[r] + c->least[r];
        if (r < c->s->excess_first && row[r] > c->s->cap[r])
            return true;
    }
    return c->s->excess_first < c->s->rows &&
           knapsack_closed(c->s, l->cost + c->least_cost + knapsack_excess(c->s, row));
}

static void offer(struct core *c, const struct label *l)
{
    struct knapsack_solver *s = c->s;
    if (l->cost + knapsack_excess(s, l->row) >= s->best_cost)
        return;
    for (int r = 0; r < s->excess_first; r++)
        if (l->row[r] > s->cap[r])
            return;
    memcpy(s->point, c->lo, (size_t)s->option_total * sizeof *s->point);
    for (int g = 0; g < s->problem->group_count; g++)
        if (c->spare[g] > 0)
            s->point[c->base[g]] += c->spare[g];
    for (int t = l->trace; t >= 0; t = c->traces[t].parent) {
        int i = c->traces[t].option, g = 0;
        while (s->first[g + 1] <= i)
            g++;
        s->point[i] += c->traces[t].count;
        s->point[c->base[g]] -= c->traces[t].count;
    }
    knapsack_offer(s, s->point);
}

static void *grown(void *old, int *capacity, size_t size)
{
    void *more = realloc(old, 2 * (size_t)*capacity * size);
    if (more)
        *capacity *= 2;
    return more;
}

static bool room_for_labels(struct core *c)
{
    if (c->next_count < c->capacity)
        return true;
    int one = c->capacity, two = one, three = one;
    void *labels = grown(c->labels, &one, sizeof *c->labels);
    c->labels = labels ? labels : c->labels;
    void *next = grown(c->next, &two, sizeof *c->next);
    c->next = next ? next : c->next;
    void *sorted = grown(c->sorted, &three, sizeof *c->sorted);
    c->sorted = sorted ? sorted : c->sorted;
    c->out_of_memory = !labels || !next || !sorted;
    if (!c->out_of_memory)
        c->capacity = one;
    return !c->out_of_memory;
}

static int remember(struct core *c, int parent, int option, int count)
{
    if (c->trace_count == c->trace_capacity) {
        void *more = grown(c->traces, &c->trace_capacity, sizeof *c->traces);
        if (!more) {
            c->out_of_memory = true;
            return -1;
        }
        c->traces = more;
    }
    c->traces[c->trace_count] = (struct trace){ parent, option, count };
    return c->trace_count++;
}

/* Expands label `index` by 0, 1, 2, ... items of the option. */
static bool expand(struct core *c, int index, int group, int option)
{
    const struct knapsack_solver *s = c->s;
    struct label l = c->labels[index];
    int parent = l.trace, most = c->hi[option] - c->lo[option];
    for (int taken = 0;; taken++) {
        if (!room_for_labels(c))
            return false;
        if (!hopeless(c, &l)) {
            if (taken > 0) {
                l.trace = remember(c, parent, option, taken);
                if (c->out_of_memory)
                    return false;
                offer(c, &l);
            }
            c->next[c->next_count++] = l;
        }
        if (taken == most || l.used == c->spare[group])
            return true;
        l.used++;
        l.cost += s->option[option].cost - s->option[c->base[group]].cost;
        for (int r = 0; r < s->rows; r++)
            l.row[r] += change(c, group, option, r);
        for (int v = 0; v < c->vectors; v++)
            l.reduced[v] += c->reduced[option][v];
        if (dead(c, &l))
            return true;
    }
}

/* True when a has all that b, which is sorted behind it, has: costs are compared as far as they matter. */
static bool dominates(const struct core *c, const struct label *a, const struct label *b)
{
    const struct knapsack_solver *s = c->s;
    if (a->used > b->used)
        return false;
    for (int r = 0; r < s->rows; r++)
        if (a->row[r] > b->row[r] && a->row[r] > s->cap[r] - c->most[r])
            return false;
    return true;
}

/* True when the label has less of something than all before it, whose least it then shares: nothing dominates it. */
static bool lowers(const struct core *c, struct label *least, const struct label *l)
{
    bool lower = l->used < least->used;
    least->used = (int)min_i64(least->used, l->used);
    for (int r = 0; r < c->s->rows; r++) {
        int64_t row = max_i64(l->row[r], c->s->cap[r] - c->most[r]);
        lower = lower || row < least->row[r];
        least->row[r] = min_i64(least->row[r], row);
    }
    return lower;
}

/* Keeps what no other label dominates of c->next, in c->labels, the beam's worth of it. */
static void sift(struct core *c)
{
    for (int i = 0; i < c->next_count; i++) {
        c->sorted[i].key = c->next[i].cost;
        c->sorted[i].index = i;
    }
    qsort(c->sorted, (size_t)c->next_count, sizeof *c->sorted, keyed_compare);
    c->label_count = 0;
    struct label least = { .used = INT32_MAX };
    for (int r = 0; r < KNAPSACK_ROWS; r++)
        least.row[r] = INT64_MAX;
    for (int i = 0; i < c->next_count; i++) {
        const struct label *l = &c->next[c->sorted[i].index];
        bool worse = dead(c, l), fresh = lowers(c, &least, l);
        for (int k = c->label_count - 1; k >= 0 && k >= c->label_count - DOMINANCE && !worse && !fresh; k--)
            worse = dominates(c, &c->labels[k], l);
        if (!worse)
            c->labels[c->label_count++] = *l;
    }
    if (c->label_count <= c->beam)
        return;
    c->truncated = true;
    for (int i = 0; i < c->label_count; i++) {
        c->sorted[i].key = c->labels[i].reduced[0];
        c->sorted[i].index = i;
    }
    qsort(c->sorted, (size_t)c->label_count, sizeof *c->sorted, keyed_compare);
    for (int i = 0; i < c->beam; i++)
        c->next[i] = c->labels[c->sorted[i].index];
    struct label *swap = c->labels;
    c->labels = c->next;
    c->next = swap;
    c->label_count = c->beam;
}

static bool enter_option(struct core *c, int group, int place)
{
    int option = c->option_order[place];
    if (!live(c, option, group))
        return true;
    count_to_come(c, group, place, -1);
    count_to_come(c, group, place + 1, 1);
    c->next_count = 0;
    for (int i = 0; i < c->label_count && !c->too_many; i++) {
        if (!expand(c, i, group, option))
            return false;
        c->too_many = c->next_count > EXPANSION * c->beam || c->trace_count > TRACES * c->beam;
    }
    if (!c->too_many)
        sift(c);
    return true;
}

static void add_items(struct core *c, int option, int count)
{
    c->labels[0].cost += count * c->s->option[option].cost;
    for (int r = 0; r < c->s->rows; r++)
        c->labels[0].row[r] += count * c->s->option[option].row[r];
}

/* Goes once over all options with at most `beam` labels. */
static bool sweep(struct core *c, int beam)
{
    const struct knapsack_solver *s = c->s;
    c->beam = beam;
    c->truncated = c->too_many = false;
    c->trace_count = 0;
    memset(c->least, 0, sizeof c->least);
    memset(c->most, 0, sizeof c->most);
    c->least_cost = 0;
    c->label_count = 1;
    c->labels[0] = (struct label){ .trace = -1 };
    for (int g = 0; g < s->problem->group_count; g++) {
        if (c->spare[g] > 0) {
            add_items(c, c->base[g], c->spare[g]);
            count_to_come(c, g, s->first[g], 1);
        }
        for (int i = s->first[g]; i < s->first[g + 1]; i++)
            add_items(c, i, c->lo[i]);
    }
    offer(c, &c->labels[0]);
    for (int k = 0; k < s->problem->group_count && c->label_count > 0 && !c->too_many; k++) {
        int g = c->group_order[k];
        if (c->spare[g] == 0)
            continue;
        for (int place = s->first[g]; place < s->first[g + 1] && c->label_count > 0 && !c->too_many; place++)
            if (!enter_option(c, g, place))
                return false;
        /* the items that are left of the group are at its base, which other multipliers charge for */
        int kept = 0;
        for (int i = 0; i < c->label_count; i++) {
            struct label l = c->labels[i];
            for (int v = 1; v < c->vectors; v++)
                l.reduced[v] =
                    saturated((int128)l.reduced[v] + (int128)c->reduced[c->base[g]][v] * (c->spare[g] - l.used));
            l.used = 0;
            if (!dead(c, &l))
                c->labels[kept++] = l;
        }
        c->label_count = kept;
    }
    return true;
}

static bool core_start(struct core *c, struct knapsack_solver *s, const int *lo, const int *hi)
{
    size_t options = (size_t)s->option_total, groups = (size_t)s->problem->group_count;
    *c = (struct core){ .s = s, .lo = lo, .hi = hi, .capacity = 512, .trace_capacity = 2048 };
    c->reduced = calloc(options + 1, sizeof *c->reduced); /* zeros stay where a group has no choice left */
    c->hardness = malloc((groups + 1) * sizeof *c->hardness);
    c->base = malloc((3 * groups + options + 1) * sizeof *c->base);
    c->labels = malloc((size_t)c->capacity * sizeof *c->labels);
    c->next = malloc((size_t)c->capacity * sizeof *c->next);
    c->sorted = malloc((size_t)c->capacity * sizeof *c->sorted);
    c->traces = malloc((size_t)c->trace_capacity * sizeof *c->traces);
    if (!c->reduced || !c->hardness || !c->base || !c->labels || !c->next || !c->sorted || !c->traces)
        return false;
    c->group_order = c->base + groups;
    c->spare = c->group_order + groups;
    c->option_order = c->spare + groups;
    for (int g = 0; g < s->problem->group_count; g++) {
        c->spare[g] = s->problem->groups[g].count;
        for (int i = s->first[g]; i < s->first[g + 1]; i++)
            c->spare[g] -= lo[i];
    }
    return true;
}

bool knapsack_core(struct knapsack_solver *s, const int *lo, const int *hi, const int *beams, bool *done)
{
    struct core c;
    bool good = core_start(&c, s, lo, hi);
    *done = false;
    if (good) {
        set_vectors(&c);
        set_order(&c);
    }
    for (int b = 0; good && beams[b] > 0 && !*done; b++) {
        *done = knapsack_closed(s, c.bound[0]);
        good = *done || sweep(&c, beams[b]);
        *done = *done || (good && !c.truncated && !c.too_many);
    }
    free(c.reduced);
    free(c.hardness);
    free(c.base);
    free(c.labels);
    free(c.next);
    free(c.sorted);
    free(c.traces);
    s->out_of_memory = s->out_of_memory || !good;
    return good;
}
