/* A plan that the caller has already, against which candidates are judged: where the walk says that a candidate is
 * hardly shorter, nothing is simulated. */
#include "planner/estimate/effort.h"
#include "planner/pool/pool_parts.h"
#include <string.h>

/* True when the other plan differs at most in cuts, layers' strategies and prefetch. */
static bool is_of_shape(const struct plan *plan, const struct plan *other)
{
    const int64_t numbers[][2] = { { plan->stage_count, other->stage_count },
                                   { plan->atom_count, other->atom_count },
                                   { plan->micro_batch_count, other->micro_batch_count },
                                   { plan->schedule, other->schedule },
                                   { plan->chunk_count, other->chunk_count },
                                   { plan->chunk_group, other->chunk_group },
                                   { plan->extra_in_flight, other->extra_in_flight },
                                   { plan->bucket_bytes, other->bucket_bytes },
                                   { plan->loss_chunks, other->loss_chunks } };
    if (!pairs_equal(numbers, sizeof numbers / sizeof *numbers))
        return false;
    for (int s = 0; s < plan->stage_count; s++)
        if (plan->stages[s].first_rank != other->stages[s].first_rank ||
            memcmp(plan->stages[s].atom, other->stages[s].atom, sizeof plan->stages[s].atom) != 0)
            return false;
    return true;
}

/* Walks the rival; 0 where it is not of the candidate's shape, or has strategies that are not priced. */
static bool walk_rival(struct run *run, const struct candidate *c, int64_t *step_ns)
{
    const struct plan *plan = run->options->rival;
    struct config config = run->configs[c->config];
    struct candidate rival = { .table = NULL };
    *step_ns = 0;
    if (!plan || run->options->worth_ns <= 0 || !is_of_shape(c->plan, plan))
        return true;
    config.prefetch = plan->prefetch;
    if (!workbench_table(&run->bench, &config, false, &rival.table, run->err))
        return false;
    for (int l = 0; rival.table && l < plan->layer_count; l++)
        if (price_strategy(rival.table, &plan->layers[l]) < 0)
            return true;
    rival.plan = rival.table ? plan_copy(plan) : NULL;
    if (!rival.plan)
        return !rival.table || fail_memory(run->err);
    bool good = rank_walk(run, &rival);
    *step_ns = rival.ranked_ns;
    plan_free(rival.plan);
    return good;
}

bool rival_yields(struct run *run, const struct candidate *c, bool *out)
{
    int64_t rival_ns = 0;
    if (!walk_rival(run, c, &rival_ns))
        return false;
    *out = c->ranked_ns > rival_ns - rival_ns / HARDLY_SHARE && rival_ns > 0;
    return true;
}
