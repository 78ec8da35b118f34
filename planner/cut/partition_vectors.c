/* Bounds of single stages: for fixed multipliers the Lagrangian bound is a sum over layers, so that prefix sums give it
 * for every interval. Multipliers come from the stages that were solved. Transient bytes are binned: options up to a
 * bin's upper end, charged for its lower end. */
#include "base/num.h"
#include "planner/cut/partition_parts.h"
#include <math.h>
#include <string.h>

/* RAY_BITS: the bits of a layer's largest price, in nanoseconds, where nothing fits. */
enum { MULTIPLIER_BITS = 30, RAY_BITS = 36, DIGITS = 52 };
__extension__ typedef __int128 int128;

void vectors_row_caps(const struct solver *s, int level, int64_t *cap)
{
    int64_t waiting_ns = level_waiting_ns(s, level);
    cap[ROW_MEMORY] = s->problem->capacity_bytes - s->levels[level].table->base_bytes;
    cap[ROW_FORWARD] = s->span.to_ns;
    cap[ROW_PATH] = s->cap_ns - waiting_ns;
    cap[ROW_LAST] = s->cap_ns - waiting_ns;
    cap[ROW_LANE] = s->cap_ns;
}

static int64_t price_limited(int128 value)
{
    int128 limit = (int128)1 << 60;
    value >>= MULTIPLIER_BITS + TIE_BITS - VECTOR_SUM_BITS;
    return (int64_t)(value > limit ? limit : value < -limit ? -limit : value);
}

static void set_cap_part(const struct solver *s, struct vector *v, int level)
{
    int64_t cap[ROW_COUNT];
    int128 total = 0;
    vectors_row_caps(s, level, cap);
    for (int r = 0; r < ROW_COUNT; r++)
        total += (int128)v->multiplier[r] * cap[r];
    v->cap_part = price_limited(total) + 1;
}

void vectors_cap_changed(struct solver *s)
{
    for (int level = 0; level < s->level_count; level++)
        for (int v = 0; v < s->levels[level].vectors.count; v++)
            set_cap_part(s, &s->levels[level].vectors.at[v], level);
}

/* Gives the least price of a class in every bin, in 2^-VECTOR_SUM_BITS nanoseconds, rounded down. */
static void least_prices(const struct solver *s, const struct vector *v, int level, int class_index, int64_t *out)
{
    const struct knapsack_option *options = &s->levels[level].options[1][class_index * s->strategies];
    const int64_t limit = INT64_C(1) << 48; /* lower is still a bound; a sum over layers stays well inside 64 bits */
    for (int b = 0; b < BINS; b++)
        out[b] = limit;
    for (int i = 0; i < s->strategies; i++) {
        int128 price = (int128)options[i].cost * (INT64_C(1) << MULTIPLIER_BITS);
        for (int r = 0; r < ROW_COUNT; r++)
            price += (int128)v->multiplier[r] * options[i].row[r];
        int64_t rounded = price_limited(price);
        for (int b = 0; b < BINS; b++)
            if (options[i].peak <= s->bin_peak[b + 1])
                out[b] = min_i64(out[b], rounded);
    }
}

static bool set_sums(struct solver *s, struct vector *v, int level)
{
    const struct chain *chain = s->problem->chain;
    if (!v->sum)
        v->sum = arena_alloc(s->arena, BINS * (size_t)s->sums, sizeof *v->sum);
    if (!v->sum || !level_set_options(s, level))
        return false;
    for (int b = 0; b < BINS; b++)
        v->peak_part[b] = price_limited((int128)v->multiplier[ROW_MEMORY] * max_i64(s->bin_peak[b], 0));
    for (int c = 0; c < s->classes; c++)
        least_prices(s, v, level, c, &s->scratch.class_price[c * BINS]);
    for (int at = 1; at < s->sums; at++) {
        int layer = chain_sum_layer(chain, at);
        for (int b = 0; b < BINS; b++)
            v->sum[at * BINS + b] =
                layer < 0 ? 0 : v->sum[(at - 1) * BINS + b] + s->scratch.class_price[chain->class_of[layer] * BINS + b];
    }
    return true;
}

/* Bounds a stage by a vector on a chain with branches, where a place's sums are those of the towers. */
static int64_t vector_bound_of_branches(const struct solver *s, const struct vector *v, int first, int end)
{
    const struct branches *b = s->problem->chain->branches;
    int64_t price[BINS], least = INT64_MAX;
    memcpy(price, v->peak_part, sizeof price);
    for (int t = 0; t < b->tower_count; t++) {
        const int64_t *low = &v->sum[(b->tower_first[t] + branches_at(b, first, t)) * BINS],
                      *high = &v->sum[(b->tower_first[t] + branches_at(b, end, t)) * BINS];
        for (int i = 0; i < BINS; i++)
            price[i] += high[i] - low[i];
    }
    for (int i = 0; i < BINS; i++)
        least = min_i64(least, price[i]);
    return (least - v->cap_part) >> VECTOR_SUM_BITS;
}

/* Bounds C of a stage by one vector. */
static int64_t vector_bound(const struct solver *s, const struct vector *v, int first, int end)
{
    int64_t least = INT64_MAX;
    if (s->problem->chain->branches)
        return vector_bound_of_branches(s, v, first, end);
    for (int b = 0; b < BINS; b++)
        least = min_i64(least, v->peak_part[b] + v->sum[end * BINS + b] - v->sum[first * BINS + b]);
    return (least - v->cap_part) >> VECTOR_SUM_BITS;
}

int64_t vectors_bound(const struct solver *s, int level, int first, int end, int seen, int64_t enough)
{
    const struct vectors *vectors = &s->levels[level].vectors;
    int64_t bound = chain_between(s->problem->chain, s->levels[level].path_ns, first, end),
            most = chain_between(s->problem->chain, s->most_path_ns, first, end);
    for (int i = (int)max_i64(seen, vectors->total - vectors->count); i < vectors->total && bound < enough; i++)
        bound = max_i64(bound, vector_bound(s, &vectors->at[i % VECTORS], first, end));
    return bound > most ? INT64_MAX : bound; /* no choice is so long */
}

bool vectors_put(struct solver *s, int level, const int64_t multiplier[ROW_COUNT])
{
    struct vectors *vectors = &s->levels[level].vectors;
    struct vector *v = &vectors->at[vectors->next];
    memcpy(v->multiplier, multiplier, sizeof v->multiplier);
    if (!set_sums(s, v, level))
        return false;
    set_cap_part(s, v, level);
    vectors->next = (vectors->next + 1) % VECTORS;
    vectors->total++;
    vectors->count = (int)max_i64(vectors->count, vectors->next == 0 ? VECTORS : vectors->next);
    return true;
}

/* Gives the factor that scales all multipliers down together, which grow without limit where nothing fits, so that they
 * still say the same of like stages and no price meets the limit of its sums. */
static double ray_scale(const struct solver *s, int level, const double *multipliers)
{
    const struct knapsack_option *options = s->levels[level].options[1];
    double largest = 0;
    for (int i = 0; i < s->classes * s->strategies; i++) {
        double price = 0;
        for (int r = 0; r < ROW_COUNT; r++)
            price += fmax(multipliers[r], 0) * fabs((double)options[i].row[r]);
        largest = fmax(largest, price);
    }
    return fmin(1, ldexp(1, RAY_BITS + TIE_BITS) / fmax(largest, 1));
}

void vectors_single_row(const struct knapsack *knapsack, double *multipliers)
{
    for (int r = 0; r < ROW_COUNT; r++)
        if (multipliers[r] > 0)
            return;
    for (int r = 0; r < ROW_COUNT; r++) {
        double least = 0, peak = INFINITY;
        for (int g = 0; g < knapsack->group_count; g++) {
            const struct knapsack_group *group = &knapsack->groups[g];
            int64_t row = INT64_MAX;
            for (int i = 0; i < group->option_count; i++) {
                row = min_i64(row, group->options[i].row[r]);
                peak = fmin(peak, (double)group->options[i].peak);
            }
            least += (double)group->count * (double)row;
        }
        if (least + (r == ROW_MEMORY ? peak : 0) > (double)knapsack->cap[r])
            multipliers[r] = 0x1p60; /* ray_scale() makes it smaller */
    }
}

bool vectors_add(struct solver *s, int level, const double *multipliers)
{
    int64_t multiplier[ROW_COUNT];
    double scale = ray_scale(s, level, multipliers), most = 0;
    for (int r = 0; r < ROW_COUNT; r++)
        most = fmax(most, multipliers[r]);
    scale = fmin(scale, ldexp(1, DIGITS - MULTIPLIER_BITS) / fmax(most, 1));
    for (int r = 0; r < ROW_COUNT; r++)
        multiplier[r] = (int64_t)fmin(fmax(ldexp(multipliers[r] * scale, MULTIPLIER_BITS), 0), 0x1p60);
    for (int to = 0; to < s->level_count; to++)
        if (s->levels[to].cells && (to == level || s->levels[to].vectors.count == 0) && !vectors_put(s, to, multiplier))
            return false;
    s->vector_level = level;
    return true;
}

void vectors_whole_caps(const struct solver *s, int level, int64_t *cap)
{
    vectors_row_caps(s, level, cap);
    cap[ROW_PATH] = cap[ROW_LAST] = -level_waiting_ns(s, level);
    cap[ROW_LANE] = 0;
}
