/* Bounds without solving anything, from the cheapest compute path of each class. */
#include "base/num.h"
#include "planner/cut/partition_parts.h"

/* Adds up C and O of all layers, at least, by the number of a stage's meshes that is best for each. */
static void add_least(const struct partition_problem *problem, int64_t *path, int64_t *step)
{
    const struct price_table *table = problem->table;
    *path = *step = 0;
    for (int c = 0; c < problem->chain->class_count; c++) {
        int64_t least_path = INT64_MAX, least_step = INT64_MAX;
        for (int shape = 0; shape < price_shapes(table); shape++) {
            const struct price_table *own = price_of_shape(table, shape);
            for (int i = 0; i < own->strategy_count; i++) {
                least_path = min_i64(least_path, path_ns(price_at(own, c, i)));
                least_step = min_i64(least_step, price_at(own, c, i)->step_ns);
            }
        }
        *path += problem->chain->layers_of[c] * least_path;
        *step += problem->chain->layers_of[c] * least_step;
    }
}

static int64_t bound_by_mean(const struct partition_problem *problem, bool updates)
{
    int64_t sum, step;
    add_least(problem, &sum, &step);
    step = updates ? step : 0;
    if (problem->mesh_count > 0) /* as mean_high() */
        return sum + mean_of_turns(problem, sum, step);
    /* what the longest stage takes beyond its first micro-batch is no less than the mean */
    int64_t m = problem->micro_batch_count;
    return sum + partition_once_ns(problem) +
           max_i64((m - 1) * ceil_div(sum, problem->stage_count), ceil_div((m - 1) * sum + step, problem->stage_count));
}

/* ---- numbers ---- */

/* Knapsacks weigh paths by 2^TIE_BITS, and refuse sums that are too large for them (knapsack.h). Under these limits
 * each path alone fits, and so do all sums of times as they are: of all layers' dearest choices, of two such sums. */
static const double MOST_PATH_NS = (double)(INT64_C(1) << (60 - TIE_BITS)), MOST_NS = (double)(INT64_C(1) << 60);

static bool is_beyond(const struct partition_problem *problem, const struct price_table *table)
{
    double m = problem->micro_batch_count, sum = (m + problem->stage_count) * 2 * (double)table->send_ns;
    for (int c = 0; c < problem->chain->class_count; c++) {
        double most = 0, longest = 0;
        for (int i = 0; i < table->strategy_count && problem->chain->layers_of[c] > 0; i++) {
            const struct layer_price *p = price_at(table, c, i);
            double path = (double)p->forward_ns + (double)p->backward_ns,
                   lane = (double)p->gather_forward_ns + (double)p->gather_backward_ns + (double)p->reduce_ns,
                   once = (double)p->gather_once_ns + (double)p->reduce_last_ns + (double)p->step_ns,
                   ns = m * (path + lane) + once;
            most = ns > most ? ns : most;
            longest = path > longest ? path : longest;
        }
        sum += problem->chain->layers_of[c] * most;
        if (longest >= MOST_PATH_NS)
            return true;
    }
    return sum >= MOST_NS;
}

bool partition_is_beyond(const struct partition_problem *problem)
{
    const struct price_table *before = NULL; /* of neighbours that have one, one is asked */
    for (int i = 0; i < price_part_count(problem->table, problem->stage_count); i++) {
        const struct price_table *part = price_part(problem->table, problem->stage_count, i);
        if (part && part != before && is_beyond(problem, part))
            return true;
        before = part;
    }
    return false;
}

static int64_t quick_bound(const struct partition_problem *problem, bool updates)
{
    if (partition_is_beyond(problem))
        return 0;
    if (price_is_by_stage(problem->table))
        return partition_mixed_bound(problem, updates) + partition_once_ns(problem);
    return bound_by_mean(problem, updates);
}

int64_t partition_quick_bound(const struct partition_problem *problem)
{
    return quick_bound(problem, true);
}

int64_t partition_path_bound(const struct partition_problem *problem)
{
    return quick_bound(problem, false);
}

int64_t partition_orders_bound(const struct partition_problem *problem)
{
    return partition_is_beyond(problem) ? 0 : bound_by_mean(problem, true);
}

/* ---- memory ---- */

/* Goes on to the next place: the one with the fewest in flight speaks for all that follow each other with one table. */
static void next_place(const struct chain *chain, struct stage_place *fewest, const struct stage_place *next,
                       int64_t *least)
{
    bool same = next && fewest->table == next->table;
    if (fewest->table && !same) {
        int64_t sum = 0;
        for (int c = 0; c < chain->class_count; c++)
            if (chain->layers_of[c] > 0)
                sum += chain->layers_of[c] * stage_least_bytes(fewest->table, c, fewest->in_flight);
        *least = min_i64(*least, sum);
    }
    if (next && (!same || next->in_flight < fewest->in_flight))
        *fewest = *next;
}

bool partition_lacks_memory(const struct partition_problem *p)
{
    int64_t least = INT64_MAX, room = p->capacity_bytes - p->table->base_bytes,
            stages = p->stage_count > 0 ? p->stage_count : min_i64(p->mesh_count, p->chain->layer_count);
    int rows = p->mesh_count == 0 ? p->stage_count : 1;
    struct stage_place fewest = { 0 }, next;
    for (int shape = 0; shape < (p->mesh_count == 0 ? 1 : p->shape_count); shape++) {
        /* a stage may have more meshes than are left, as rows of the solver may, where prices do not depend on the
         * place */
        int least_left = p->mesh_count == 0 ? 0 : price_is_by_place(p->table) ? p->turns[shape] : 1;
        for (int stage = 0; stage < rows; stage++)
            for (int left = least_left; left <= p->mesh_count; left++) {
                next = stage_place_of(p, stage, shape, left);
                next_place(p->chain, &fewest, &next, &least);
            }
    }
    next_place(p->chain, &fewest, NULL, &least);
    return least > 0 ? room <= 0 || ceil_div(least, stages) > room : room < 0;
}
