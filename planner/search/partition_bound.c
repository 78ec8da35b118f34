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

/* C and O of all layers, at least. */
static void add_least(const struct partition_problem *problem, int64_t *path, int64_t *step)
{
    *path = *step = 0;
    for (int l = 0; l < problem->chain->layer_count; l++) {
        int64_t least_path = INT64_MAX, least_step = INT64_MAX;
        for (int i = 0; i < problem->table->strategy_count; i++) {
            const struct layer_price *price = price_at(problem->table, problem->chain->class_of[l], i);
            least_path = min_i64(least_path, path_ns(price));
            least_step = min_i64(least_step, price->step_ns);
        }
        *path += least_path;
        *step += least_step;
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
