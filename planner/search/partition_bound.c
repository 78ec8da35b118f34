/* Bounds without solving anything, from the cheapest compute path of each class. */
#include "base/num.h"
#include "planner/search/partition_parts.h"

/* C of all layers, at least. */
static int64_t least_path(const struct partition_problem *problem)
{
    int64_t sum = 0;
    for (int l = 0; l < problem->chain->layer_count; l++) {
        int64_t least = INT64_MAX;
        for (int i = 0; i < problem->table->strategy_count; i++)
            least = min_i64(least, path_ns(price_at(problem->table, problem->chain->class_of[l], i)));
        sum += least;
    }
    return sum;
}

static int64_t bound_by_mean(const struct partition_problem *problem, int64_t mesh_path_ns)
{
    int64_t sum = least_path(problem), m = problem->micro_batch_count;
    if (problem->mesh_count > 0 && !problem->spread) /* as mean_high() */
        return sum + max_i64(0, ceil_div((m - most_replicas(problem)) * sum, problem->mesh_count));
    return sum + stage_once_ns(problem) + (m - 1) * mean_path(problem, sum, mesh_path_ns);
}

int64_t partition_quick_bound(const struct partition_problem *problem)
{
    if (problem->table->by_stage)
        return partition_mixed_bound(problem) + stage_once_ns(problem);
    return bound_by_mean(problem, partition_mesh_path_ns(problem));
}

int64_t partition_orders_bound(const struct partition_problem *problem)
{
    return bound_by_mean(problem, 0);
}
