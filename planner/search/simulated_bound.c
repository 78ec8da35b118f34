/* How short a plan could be simulated at the least: the bound by kernels alone, which all configurations have, is
 * raised where it lies far below what was found; first by lanes and memory, then by the order of passes, too. */
#include "base/num.h"
#include "planner/bound/flight_bound.h"
#include "planner/bound/lanes_bound.h"
#include "planner/bound/passes_bound.h"
#include "planner/search/propose_parts.h"
#include <stdlib.h>

/* NEAR_SHARE: a bound is good enough when it is one in so many below the step. LOOKED_AT: configurations whose whole
 * prices are asked for, and LOOKED_AT_EACH more for each that was solved beyond FEW_SOLVED: that took longer. */
enum { NEAR_SHARE = 50, LOOKED_AT = 340, FEW_SOLVED = 64, LOOKED_AT_EACH = 40 };
/* Passes are looked at where a bound is more than so many thousandths of the step below it, so many of them, and for
 * one configuration in so many rounds, or until what the best mix proves may be so much more. What they say is lowered
 * by so much, for a checker whose arithmetic goes another way. */
enum { CLOSE_PER_MILLE = 47, MOST_WORK = 1 << 28, MOST_ROUNDS = 320, MISSING_PPM = 2000, LOWERED_PPM = 200 };

static int compare_bounds(const void *left, const void *right)
{
    const struct ordered *a = left, *b = right;
    if (a->bound_ns != b->bound_ns)
        return a->bound_ns < b->bound_ns ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

/* Configurations by their bound. */
static struct ordered *list_bounds(struct run *run)
{
    int count = run->config_count + run->beside_count; /* with none left out between them */
    struct ordered *list = arena_alloc(&run->arena, (size_t)count, sizeof *list);
    for (int i = 0; list && i < count; i++)
        list[i] = (struct ordered){ run->busy_ns[i], i, false };
    if (list)
        qsort(list, (size_t)count, sizeof *list, compare_bounds);
    return list;
}

/* What was found of the last configuration that was looked at: variants of one stand beside each other. */
struct last {
    const struct config *config; /* NULL: none yet */
    int64_t busy_ns;             /* by kernels alone */
    int looked_at;               /* configurations so far whose whole prices were asked for */
};

/* By kernels alone, into last. */
static bool bound_busy(struct run *run, const struct config *config, int64_t below_ns, struct last *last)
{
    const struct price_table *table = NULL;
    if (last->config && last->busy_ns < below_ns && config_equal_but(config, last->config, BUT_PREFETCH | BUT_EXTRA))
        return true;
    if (!workbench_table(&run->bench, config, true, &table, run->err))
        return false;
    last->config = config;
    struct busy_problem problem = busy_problem_of(&run->bench.chain, config, table);
    return busy_bound(&last->busy_ns, &problem, below_ns, run->err);
}

/* By lanes and memory too. */
static bool bound_lanes(struct run *run, const struct config *config, const struct price_table *table, int64_t below_ns,
                        int64_t *bound_ns)
{
    struct busy_problem problem = busy_problem_of(&run->bench.chain, config, table);
    int64_t lanes_ns = 0, flight_ns = 0;
    bool good = lanes_bound(&lanes_ns, &problem, run->capacity_bytes, below_ns, run->err) &&
                (lanes_ns >= below_ns || flight_bound(&flight_ns, &problem, config, run->capacity_bytes, run->err));
    *bound_ns = max_i64(*bound_ns, max_i64(lanes_ns, flight_ns));
    return good;
}

static int64_t most_looked_at(const struct run *run)
{
    return LOOKED_AT + LOOKED_AT_EACH * max_i64(0, run->result->certificate.solved - FEW_SOLVED);
}

/* *bound_ns of the configuration's plans, or below_ns where it is more. */
static bool bound_of(struct run *run, int index, int64_t below_ns, struct last *last, int64_t *bound_ns)
{
    const struct config *config = &run->configs[index];
    const struct price_table *table = NULL;
    if (!bound_busy(run, config, below_ns, last))
        return false;
    *bound_ns = last->busy_ns;
    if (*bound_ns >= below_ns || last->looked_at >= most_looked_at(run) ||
        !lanes_bound_applies(config, run->bench.facts->cluster))
        return true;
    ++last->looked_at;
    if (!workbench_table(&run->bench, config, false, &table, run->err))
        return false;
    if (!table)
        *bound_ns = INT64_MAX;
    return !table || bound_lanes(run, config, table, below_ns, bound_ns);
}

/* From the lowest on, until all that are left lie above the lowest that was raised. Puts into the list what is known of
 * each. */
static bool raise_by_lanes(struct run *run, struct ordered *list, int count, int64_t *best_ns)
{
    struct last last = { 0 };
    for (int i = 0; i < count && list[i].bound_ns < *best_ns; i++) {
        int64_t bound_ns = 0;
        if (search_stops(run))
            return true;
        if (!bound_of(run, list[i].index, *best_ns, &last, &bound_ns))
            return false;
        list[i].bound_ns = max_i64(list[i].bound_ns, bound_ns);
        *best_ns = min_i64(*best_ns, bound_ns);
    }
    return true;
}

/* All that can be said of one configuration, up to below_ns; table: NULL where no program is. */
static bool bound_whole(struct run *run, const struct config *config, struct passes_book *book, int64_t below_ns,
                        struct mix_effort *effort, int64_t *bound_ns)
{
    const struct price_table *table = NULL;
    const struct passes_mix *mix = NULL;
    if (!lanes_bound_applies(config, run->bench.facts->cluster))
        return true;
    if (!workbench_table(&run->bench, config, false, &table, run->err))
        return false;
    if (!table)
        *bound_ns = INT64_MAX;
    if (!table || !bound_lanes(run, config, table, below_ns, bound_ns))
        return table == NULL;
    int64_t passes_ns = 0;
    struct busy_problem problem = busy_problem_of(&run->bench.chain, config, table);
    bool good = *bound_ns >= below_ns || !passes_are_few(&run->bench.chain, config) ||
                passes_bound(&passes_ns, &mix, book, &problem, config, run->capacity_bytes, below_ns, effort, run->err);
    *bound_ns = max_i64(*bound_ns, passes_ns - passes_ns / 1000000 * LOWERED_PPM);
    return good;
}

/* The same as above, until all lie close to the step. *best_ns: the lowest. */
static bool raise_by_passes(struct run *run, struct ordered *list, int count, int64_t close_ns, int64_t *best_ns)
{
    struct passes_book book = { 0 };
    struct mix_effort effort = { .rounds = MOST_ROUNDS, .missing_ppm = MISSING_PPM, .work = MOST_WORK };
    int64_t lowest_ns = close_ns;
    bool good = true;
    qsort(list, (size_t)count, sizeof *list, compare_bounds);
    for (int i = 0; good && i < count && list[i].bound_ns < lowest_ns; i++) {
        bool ends = effort.work <= 0 || search_stops(run);
        if (!ends)
            good = bound_whole(run, &run->configs[list[i].index], &book, lowest_ns, &effort, &list[i].bound_ns);
        lowest_ns = min_i64(lowest_ns, list[i].bound_ns);
        if (ends)
            break; /* none that is left is lower */
    }
    *best_ns = max_i64(*best_ns, lowest_ns);
    passes_book_close(&book);
    return good;
}

bool search_raise_simulated_bound(struct run *run)
{
    int64_t *least_ns = &run->result->certificate.simulated_bound_ns, best_ns = INT64_MAX;
    int64_t step_ns = run->result->plan_count > 0 ? run->result->plans[0].estimate->prediction.step_ns : 0;
    int count = run->config_count + run->beside_count;
    if (*least_ns <= 0 || step_ns - *least_ns <= step_ns / NEAR_SHARE || run->options->unproven)
        return true; /* nothing is known, or enough */
    struct ordered *list = list_bounds(run);
    if (!list)
        return search_out_of_memory(run->err);
    if (!raise_by_lanes(run, list, count, &best_ns))
        return false;
    if (run->stopped)
        return true;
    int64_t close_ns = step_ns - step_ns / 1000 * CLOSE_PER_MILLE;
    if (best_ns < close_ns && !raise_by_passes(run, list, count, close_ns, &best_ns))
        return false;
    *least_ns = max_i64(*least_ns, best_ns);
    return true;
}
