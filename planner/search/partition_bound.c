/* Bounds without solving anything, from the cheapest compute path of each class. */
#include "base/num.h"
#include "planner/search/partition_parts.h"

/* What the longest stage takes beyond its first micro-batch, of stages whose C come to at least `sum` and whose O to
 * step_ns: no less than the mean. */
static int64_t mean_beyond_first(const struct partition_problem *problem, int64_t sum, int64_t step_ns,
                                 int64_t mesh_path_ns)
{
    int64_t m = problem->micro_batch_count;
    return max_i64((m - 1) * mean_path(problem, sum, mesh_path_ns),
                   ceil_div((m - 1) * sum + step_ns, problem->stage_count));
}

/* C and O of a layer of the class, at least, on stages with that table. */
static void lower_to_table(const struct price_table *table, int class_index, int64_t *path, int64_t *step)
{
    for (int i = 0; i < table->strategy_count; i++) {
        const struct layer_price *price = price_at(table, class_index, i);
        *path = min_i64(*path, path_ns(price));
        *step = min_i64(*step, price->step_ns);
    }
}

/* C and O of all layers, at least, by the number of a stage's meshes that is best for each. */
static void add_least(const struct partition_problem *problem, int64_t *path, int64_t *step)
{
    const struct price_table *table = problem->table;
    *path = *step = 0;
    for (int c = 0; c < problem->chain->class_count; c++) {
        int64_t least_path = INT64_MAX, least_step = INT64_MAX;
        for (int turn = 0; turn < (table->by_turns ? table->turn_count : 1); turn++)
            lower_to_table(table->by_turns ? table->by_turns[turn] : table, c, &least_path, &least_step);
        *path += problem->chain->layers_of[c] * least_path;
        *step += problem->chain->layers_of[c] * least_step;
    }
}

static int64_t bound_by_mean(const struct partition_problem *problem, int64_t mesh_path_ns, bool updates)
{
    int64_t sum, step;
    add_least(problem, &sum, &step);
    step = updates ? step : 0;
    if (problem->mesh_count > 0 && !problem->spread) /* as mean_high() */
        return sum + mean_of_turns(problem, sum, step);
    return sum + stage_once_ns(problem) + mean_beyond_first(problem, sum, step, mesh_path_ns);
}

static int64_t quick_bound(const struct partition_problem *problem, bool updates)
{
    if (problem->table->by_stage)
        return partition_mixed_bound(problem, updates) + stage_once_ns(problem);
    return bound_by_mean(problem, partition_mesh_path_ns(problem), updates);
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
    return bound_by_mean(problem, 0, true);
}
