#include "planner/program/schedules/steady.h"

bool steady_legal(const struct plan *plan, struct error *err)
{
    const char *name = schedules[plan->schedule]->name;
    if (plan->micro_batch_count < plan->stage_count)
        return fail(err, "plan: schedule %s wants at least as many micro-batches as its %d stages, found %d", name,
                    plan->stage_count, plan->micro_batch_count);
    if (plan->extra_in_flight > 0)
        return fail(err, "plan: schedule %s knows no extra_in_flight, found %d", name, plan->extra_in_flight);
    for (int s = 0; s < plan->stage_count; s++)
        if (plan->stages[s].turn > 0)
            return fail(err, "plan: stage %d: schedule %s knows no replicas that take turns; split the batch (dp)", s,
                        name);
    for (int l = 0; l < plan->layer_count; l++)
        if (plan->layers[l].zero > 0) /* the gradient of a layer's weights belongs to one version of the whole weight */
            return fail(err,
                        "plan: layer %d: zero %d: schedule %s keeps versions of whole weights, expected zero 0 (--fix "
                        "zero=0)",
                        l, plan->layers[l].zero, name);
    return true;
}
