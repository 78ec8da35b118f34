/* A bound for stages with prices of their own.
 *
 * Whatever layers the stages get, max_k C_k >= sum_k u_k C_k for shares u_k >= 0 that sum up to 1, so that
 *
 *   sum_k C_k + max_k ((m-1) C_k + O_k) >= sum_k ((1 + (m-1) u_k) C_k + u_k O_k)
 *                                       >= sum_l min_k ((1 + (m-1) u_k) c_k(l) + u_k o_k(l))
 *
 * with c_k(l) the cheapest compute path of layer l on stage k, and o_k(l) its shortest update. It is tightest where
 * stages that share the work evenly take equal time: shares in proportion to speed, of which the whole model's time on
 * each stage speaks. */
#include "base/num.h"
#include "planner/cut/partition.h"
#include <math.h>

static int64_t cheapest_ns(const struct price_table *table, int class_index)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < table->strategy_count; i++) {
        const struct layer_price *p = price_at(table, class_index, i);
        least = min_i64(least, p->forward_ns + p->backward_ns);
    }
    return least;
}

static double model_ns(const struct partition_problem *problem, int stage)
{
    const struct price_table *table = price_of_stage(problem->table, stage);
    double sum = 0;
    for (int l = 0; l < problem->chain->layer_count; l++)
        sum += (double)cheapest_ns(table, problem->chain->class_of[l]);
    return fmax(sum, 1);
}

/* True when the stage has the prices of the one before: stages of one type of device follow each other. */
static bool repeats(const struct partition_problem *problem, int stage)
{
    return stage > 0 && price_of_stage(problem->table, stage) == price_of_stage(problem->table, stage - 1);
}

/* Gives the time of a layer of the class, weighted by the stage's share, where that is least. */
static double least_ns(const struct partition_problem *problem, double speed_sum, int class_index, bool updates)
{
    double least = 0, speed = 0, m = problem->micro_batch_count;
    for (int k = 0; k < problem->stage_count; k++) {
        if (repeats(problem, k))
            continue;
        const struct price_table *table = price_of_stage(problem->table, k);
        speed = 1 / model_ns(problem, k);
        int64_t step_ns = updates ? INT64_MAX : 0; /* the shortest update */
        for (int i = 0; i < table->strategy_count; i++)
            step_ns = min_i64(step_ns, price_at(table, class_index, i)->step_ns);
        double ns = (1 + (m - 1) * speed / speed_sum) * (double)cheapest_ns(table, class_index) +
                    speed / speed_sum * (double)step_ns;
        least = k == 0 || ns < least ? ns : least;
    }
    return least;
}

int64_t partition_mixed_bound(const struct partition_problem *problem, bool updates)
{
    const struct chain *chain = problem->chain;
    double sum = 0, speed_sum = 0, speed = 0;
    for (int k = 0; k < problem->stage_count; k++) {
        speed = repeats(problem, k) ? speed : 1 / model_ns(problem, k);
        speed_sum += speed;
    }
    for (int c = 0; c < chain->class_count; c++) {
        int layers = chain->layers_of[c];
        if (layers > 0)
            sum += layers * least_ns(problem, speed_sum, c, updates);
    }
    return (int64_t)(sum * (1 - 1e-9)); /* below what rounding may have added */
}
