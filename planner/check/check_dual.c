/* Sums over the layers before a place, with orders over those of each column, for each vector and threshold, in
 * 2^-SUM_BITS nanoseconds rounded down. */
#include "planner/check/check_dual.h"
#include "base/num.h"
#include <stdlib.h>

enum { SUM_BITS = 10, PRICE_BITS = 50 };
__extension__ typedef __int128 wide;

struct dual {
    const struct stage_kind *kind;
    const struct dual_claim *claim;
    int bins;
    int64_t at_most[DUAL_PEAKS + 1], charged[DUAL_PEAKS + 1]; /* (bins) transient bytes */
    const struct orders *orders;                              /* NULL: a chain */
    int64_t *sum;                                             /* (vectors, sums, bins) */
    int64_t *longest_ns;                                      /* (sums) of the largest paths */
    int sum_count;
};

/* The least transient bytes of any strategy above so many; INT64_MAX: none. */
static int64_t next_transient(const struct price_table *table, int64_t above)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < table->class_count * table->strategy_count; i++)
        if (table->prices[i].transient_bytes > above)
            least = min_i64(least, table->prices[i].transient_bytes);
    return least;
}

/* Thresholds, with what lies above the last of them in a bin of its own. */
static void set_bins(struct dual *d)
{
    int64_t below = -1;
    for (int i = 0; i < d->claim->peak_count; i++)
        d->at_most[i] = d->claim->peaks[i];
    qsort(d->at_most, (size_t)d->claim->peak_count, sizeof *d->at_most, compare_i64);
    d->at_most[d->claim->peak_count] = INT64_MAX;
    for (int i = 0; i <= d->claim->peak_count; i++) {
        int64_t least = next_transient(d->kind->table, below);
        if (least > d->at_most[i] || least == INT64_MAX)
            continue;
        below = d->at_most[d->bins] = d->at_most[i];
        d->charged[d->bins++] = least;
    }
}

static wide price_of(const struct dual *d, int vector, const struct layer_price *price)
{
    int64_t use[LIMIT_COUNT];
    stage_layer_use(d->kind, price, true, use);
    wide sum = (wide)stage_layer_path_ns(price) << DUAL_BITS;
    for (int r = 0; r < LIMIT_COUNT; r++)
        sum += (wide)d->claim->multiplier[vector][r] * use[r];
    return sum >> (DUAL_BITS - SUM_BITS);
}

/* False: a price is too large to be summed. A bin without a strategy of the class costs the most. */
static bool add_layer(struct dual *d, int vector, int at, int class_index)
{
    const wide limit = (wide)1 << PRICE_BITS;
    int64_t *sums = &d->sum[(int64_t)vector * d->sum_count * d->bins];
    int64_t *before = &sums[(at - 1) * d->bins], *after = &sums[at * d->bins];
    for (int b = 0; b < d->bins; b++) {
        wide least = limit;
        for (int i = 0; i < d->kind->table->strategy_count; i++) {
            const struct layer_price *price = price_at(d->kind->table, class_index, i);
            wide priced = price->transient_bytes <= d->at_most[b] ? price_of(d, vector, price) : limit;
            least = priced < least ? priced : least;
        }
        if (least < -limit)
            return false;
        after[b] = before[b] + (int64_t)least;
    }
    return true;
}

static void set_longest(struct dual *d, int at, int class_index)
{
    int64_t most = 0;
    for (int i = 0; i < d->kind->table->strategy_count; i++)
        most = max_i64(most, stage_layer_path_ns(price_at(d->kind->table, class_index, i)));
    d->longest_ns[at] = d->longest_ns[at - 1] + most;
}

struct dual *dual_open(struct arena *arena, const struct stage_kind *kind, const struct dual_claim *claim,
                       const int *class_of, int layer_count, const struct orders *orders)
{
    struct dual *d = arena_alloc(arena, 1, sizeof *d);
    if (!d || layer_count >= 1 << (62 - PRICE_BITS))
        return NULL;
    *d = (struct dual){
        .kind = kind, .claim = claim, .orders = orders, .sum_count = layer_count + (orders ? orders->column_count : 1)
    };
    set_bins(d);
    size_t width = (size_t)d->sum_count;
    d->sum = arena_alloc(arena, width * (size_t)(claim->vector_count * d->bins + 1), sizeof *d->sum);
    d->longest_ns = arena_alloc(arena, width, sizeof *d->longest_ns);
    if (!d->sum || !d->longest_ns)
        return NULL;
    for (int l = 0; l < layer_count; l++) { /* each column from its first layer on */
        int layer = orders ? orders->column_layer[l] : l,
            at = orders ? orders_sum(orders, orders->column[layer], orders->depth[layer] + 1) : l + 1;
        set_longest(d, at, class_of[layer]);
        for (int v = 0; v < claim->vector_count; v++)
            if (!add_layer(d, v, at, class_of[layer]))
                return NULL;
    }
    return d;
}

/* Of what lies between, by bin. */
static void sum_bins(const struct dual *d, int vector, int first, int end, wide out[DUAL_PEAKS + 1])
{
    const int64_t *sum = &d->sum[(int64_t)vector * d->sum_count * d->bins];
    for (int b = 0; b < d->bins; b++)
        out[b] = 0;
    for (int i = 0; i < (d->orders ? d->orders->column_count : 1); i++) {
        int low = d->orders ? orders_sum(d->orders, i, orders_heights(d->orders, first)[i]) : first,
            high = d->orders ? orders_sum(d->orders, i, orders_heights(d->orders, end)[i]) : end;
        for (int b = 0; b < d->bins; b++)
            out[b] += sum[high * d->bins + b] - sum[low * d->bins + b];
    }
}

static int64_t bound_of(const struct dual *d, int vector, int first, int end, int64_t cap_ns)
{
    const int64_t *multiplier = d->claim->multiplier[vector];
    wide least = (wide)1 << 100, sums[DUAL_PEAKS + 1],
         limits = (wide)multiplier[LIMIT_BYTES] * (d->kind->capacity_bytes - d->kind->table->base_bytes);
    limits += (wide)(multiplier[LIMIT_PATH] + multiplier[LIMIT_TAIL]) * (cap_ns - stage_waiting_ns(d->kind)) +
              (wide)multiplier[LIMIT_LANE] * cap_ns;
    sum_bins(d, vector, first, end, sums);
    for (int b = 0; b < d->bins; b++) {
        wide bound = sums[b] * ((wide)1 << (DUAL_BITS - SUM_BITS)) + (wide)multiplier[LIMIT_BYTES] * d->charged[b];
        least = bound < least ? bound : least;
    }
    least = (least - limits) >> DUAL_BITS;
    return least > INT64_MAX ? INT64_MAX : least < 0 ? 0 : (int64_t)least;
}

int64_t dual_least(const struct dual *d, int first, int end, int64_t cap_ns)
{
    int64_t bound = 0;
    for (int v = 0; v < d->claim->vector_count; v++)
        bound = max_i64(bound, bound_of(d, v, first, end, cap_ns));
    int64_t longest_ns =
        d->orders ? orders_between(d->orders, d->longest_ns, first, end) : d->longest_ns[end] - d->longest_ns[first];
    return bound > longest_ns ? INT64_MAX : bound; /* no choice is so long */
}
