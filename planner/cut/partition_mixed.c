/* A bound for stages with prices of their own.
 *
 * Whatever layers the stages get, max_k C_k >= sum_k u_k C_k for shares u_k >= 0 that sum up to 1, so that
 *
 *   sum_k C_k + max_k ((m-1) C_k + O_k) >= sum_k ((1 + (m-1) u_k) C_k + u_k O_k)
 *                                       >= sum_l min_k ((1 + (m-1) u_k) c_k(l) + u_k o_k(l))
 *
 * with c_k(l) the cheapest compute path of layer l on stage k, and o_k(l) its shortest update. It is tightest where
 * stages that share the work evenly take equal time: shares in proportion to speed, of which the whole model's time on
 * each stage speaks.
 *
 * Where meshes share micro-batches each mesh has a share, and a stage those of all of its meshes: whatever stages there
 * are, the longest C is at least the sum over the layers of the least, over all places of all stages, of the stage's
 * share times the layer's path there. */
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

static int64_t shortest_step_ns(const struct price_table *table, int class_index)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < table->strategy_count; i++)
        least = min_i64(least, price_at(table, class_index, i)->step_ns);
    return least;
}

static double model_on(const struct partition_problem *problem, const struct price_table *table)
{
    double sum = 0;
    for (int l = 0; l < problem->chain->layer_count; l++)
        sum += (double)cheapest_ns(table, problem->chain->class_of[l]);
    return sum > 1 ? sum : 1;
}

static double model_ns(const struct partition_problem *problem, int stage)
{
    return model_on(problem, price_of_stage(problem->table, stage));
}

/* Stages of one type follow each other: only where the table changes is there another price. */
static bool repeats(const struct partition_problem *problem, int stage)
{
    return stage > 0 && price_of_stage(problem->table, stage) == price_of_stage(problem->table, stage - 1);
}

/* Time of a layer of the class, weighted by the stage's share, where that is least. */
static double least_ns(const struct partition_problem *problem, double speed_sum, int class_index, bool updates)
{
    double least = 0, speed = 0, m = problem->micro_batch_count;
    for (int k = 0; k < problem->stage_count; k++) {
        if (repeats(problem, k))
            continue;
        const struct price_table *table = price_of_stage(problem->table, k);
        speed = 1 / model_ns(problem, k);
        double ns = (1 + (m - 1) * speed / speed_sum) * (double)cheapest_ns(table, class_index) +
                    (updates ? speed / speed_sum * (double)shortest_step_ns(table, class_index) : 0);
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

/* ---- meshes that share micro-batches ---- */

static bool fits_behind(const struct partition_problem *problem, int before, int turn)
{
    return before + problem->turns[turn] <= problem->mesh_count;
}

/* The sum of the shares of the meshes before each: (mesh_count + 1). By the smallest stage that begins at each, or near
 * the end as late as it can. */
static void sum_shares(const struct partition_problem *problem, double *shares)
{
    const struct price_table *table = NULL;
    double speed = 1;
    for (int i = 0; i < problem->mesh_count; i++) {
        int before = (int)min_i64(i, problem->mesh_count - problem->turns[0]);
        const struct price_table *own = price_of_meshes(problem->table, before, 0);
        speed = own == table ? speed : 1 / model_on(problem, own);
        table = own;
        shares[i + 1] = shares[i] + speed;
    }
    for (int i = 0; i < problem->mesh_count; i++)
        shares[i] /= shares[problem->mesh_count];
    shares[problem->mesh_count] = 1;
}

static double least_share_ns(const struct partition_problem *problem, const double *shares, int class_index)
{
    double least = INFINITY;
    for (int turn = 0; turn < problem->turn_count; turn++) {
        const struct price_table *table = NULL;
        int64_t ns = 0;
        for (int before = 0; fits_behind(problem, before, turn); before++) {
            const struct price_table *own = price_of_meshes(problem->table, before, turn);
            ns = own == table ? ns : cheapest_ns(own, class_index);
            table = own;
            least = fmin(least, (shares[before + problem->turns[turn]] - shares[before]) * (double)ns);
        }
    }
    return least;
}

int64_t partition_mesh_path_ns(const struct partition_problem *problem)
{
    const struct chain *chain = problem->chain;
    double shares[MOST_SPREAD + 1] = { 0 }, sum = 0;
    if (!problem->spread || problem->mesh_count > MOST_SPREAD)
        return 0;
    sum_shares(problem, shares);
    for (int c = 0; c < chain->class_count; c++) {
        int layers = chain->layers_of[c];
        if (layers > 0)
            sum += layers * least_share_ns(problem, shares, c);
    }
    return (int64_t)(sum * (1 - 1e-9)); /* below what rounding may have added */
}
