#include "planner/estimate/swaps.h"
#include "base/num.h"
#include "planner/estimate/estimate.h"

struct descent {
    struct plan *plan;
    const struct chain *chain;
    const struct price_table *table;
    const struct facts *facts;
    struct pipeline_shelf *orders;
    int micro_batches;
    int64_t visits, step_ns;
    bool changed;
};

static bool differ(const struct plan *plan, const struct chain *chain, int l, int other)
{
    return chain->class_of[plan_layer_at(plan, l)] == chain->class_of[plan_layer_at(plan, other)] &&
           !plan_layer_equal(&plan->layers[l], &plan->layers[other]);
}

static bool exist_in(const struct plan *plan, const struct chain *chain, struct layer_range chunk)
{
    for (int l = chunk.first; l < chunk.first + chunk.count; l++)
        for (int other = l + 1; other < chunk.first + chunk.count; other++)
            if (differ(plan, chain, l, other))
                return true;
    return false;
}

bool swaps_exist(const struct plan *plan, const struct chain *chain)
{
    for (int stage = 0; stage < plan->stage_count; stage++)
        for (int chunk = 0; chunk < plan->chunk_count; chunk++)
            if (exist_in(plan, chain, plan_stage_chunk(plan, stage, chunk)))
                return true;
    return false;
}

int swaps_micro_batches(const struct plan *plan)
{
    return (int)min_i64(plan->micro_batch_count, estimate_settled_micro_batches(plan));
}

static void swap(struct plan *plan, int l, int other)
{
    struct plan_layer kept = plan->layers[l];
    plan->layers[l] = plan->layers[other];
    plan->layers[other] = kept;
}

static bool walk(struct descent *d, int64_t *step_ns, struct error *err)
{
    d->visits -= (int64_t)d->micro_batches * d->plan->layer_count;
    return pipeline_step_ns(step_ns, d->plan, d->chain, d->table, d->facts, d->orders, d->micro_batches, d->step_ns,
                            err);
}

/* Keeps the swap if it helps. */
static bool try_swap(struct descent *d, int l, int other, bool *helps, struct error *err)
{
    int64_t step_ns = 0;
    swap(d->plan, l, other);
    if (!walk(d, &step_ns, err))
        return false;
    if (step_ns >= d->step_ns) {
        swap(d->plan, l, other);
        return true;
    }
    d->step_ns = step_ns;
    *helps = d->changed = true;
    return true;
}

static bool descend_in(struct descent *d, struct layer_range chunk, bool *helps, struct error *err)
{
    for (int l = chunk.first; l < chunk.first + chunk.count; l++)
        for (int other = l + 1; other < chunk.first + chunk.count && d->visits > 0; other++)
            if (differ(d->plan, d->chain, l, other) && !try_swap(d, l, other, helps, err))
                return false;
    return true;
}

bool swaps_descend(struct plan *plan, const struct chain *chain, const struct price_table *table,
                   const struct facts *facts, struct pipeline_shelf *orders, int64_t visits, bool *changed,
                   struct error *err)
{
    struct descent d = { plan, chain, table, facts, orders, swaps_micro_batches(plan), visits, INT64_MAX, false };
    if (!walk(&d, &d.step_ns, err))
        return false;
    for (bool helps = true; helps && d.visits > 0;) {
        helps = false;
        for (int stage = 0; stage < plan->stage_count; stage++)
            for (int chunk = 0; chunk < plan->chunk_count; chunk++)
                if (!descend_in(&d, plan_stage_chunk(plan, stage, chunk), &helps, err))
                    return false;
    }
    *changed = d.changed;
    return true;
}
