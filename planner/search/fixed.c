#include "planner/search/fixed.h"
#include "base/num.h"
#include "planner/search/baseline.h"
#include "planner/space/space_choice.h"

/* ---- one value each ---- */

static bool check_fixed(const struct space *space, struct error *err)
{
    struct space copy = *space;
    for (int i = 0; i < SPACE_CHOICES; i++) {
        int count = space_allowed(&copy, (enum space_choice)i)->count;
        if (count > 1 && i != SPACE_TURNS) /* of which each stage has its own */
            return fail(err,
                        "plan: %s has %d values, but one configuration is priced; give one, and cleave plan "
                        "chooses among several",
                        space_choice_names[i], count);
    }
    for (int i = 0; i < space->rule_count; i++)
        if (space->rules[i].allowed.count > 1)
            return fail(err, "plan: layer[%d-%d].%s has %d values, but one configuration is priced; give one",
                        space->rules[i].first, space->rules[i].last, layer_choice_names[space->rules[i].choice],
                        space->rules[i].allowed.count);
    return true;
}

static int value_of(const struct allowed *allowed)
{
    return allowed->count > 0 ? (int)allowed->values[0] : -1;
}

static struct uniform uniform_of(const struct space *space, bool reversed)
{
    struct uniform u = uniform_unset();
    u.pipeline = value_of(&space->pipeline);
    u.tensor = value_of(&space->tensor);
    u.data = value_of(&space->data);
    u.micro = value_of(&space->micro);
    u.zero = value_of(&space->zero);
    u.recompute = value_of(&space->recompute);
    u.offload = value_of(&space->offload);
    u.reshard = value_of(&space->reshard);
    u.replicate = value_of(&space->replicate);
    u.schedule = value_of(&space->schedule);
    u.prefetch = value_of(&space->prefetch);
    u.sequence_parallel = value_of(&space->sequence_parallel) > 0;
    u.context = value_of(&space->context);
    u.context_dimension = value_of(&space->context_dimension);
    u.data_dimension = value_of(&space->data_dimension);
    u.tensor_dimension = value_of(&space->tensor_dimension);
    u.expert = value_of(&space->expert);
    u.shard_group = value_of(&space->shard_group);
    u.slices = value_of(&space->slices);
    u.order = (enum mesh_order)max_i64(0, value_of(&space->order));
    u.chunks = value_of(&space->interleave);
    u.extra = value_of(&space->extra);
    u.loss_chunks = value_of(&space->loss_chunks);
    u.reversed = reversed;
    return u;
}

/* ---- what a search decides ---- */

static bool found_plan(struct plan **out, const struct search_options *options, const struct model *model,
                       const struct facts *facts, struct error *err)
{
    struct search_options search = *options;
    struct search_result *result = NULL;
    search.no_advice = true;
    if (!search_run(&result, model, facts, &search, err))
        return false;
    bool good = result->feasible || search_infeasible(result, &search.space, err);
    *out = good ? plan_copy(result->plans[0].plan) : NULL;
    search_result_free(result);
    return *out || fail_kind(err, ERROR_ENVIRONMENT, "plan: out of memory");
}

bool fixed_plan(struct plan **out, const struct search_options *options, bool reversed, const struct model *model,
                const struct facts *facts, struct error *err)
{
    const struct space *space = &options->space;
    struct uniform uniform = uniform_of(space, reversed);
    if (!check_fixed(space, err))
        return false;
    if (!names_several(&space->turns))
        return uniform_plan(out, &uniform, space, model, facts, err);
    if (reversed)
        return fail(err, "plan: reversed: where stages have several meshes, which of the cluster's ends comes "
                         "first is decided with them; leave it out");
    if (space->data.count == 0)
        return fail(err, "plan: dp is missing: where stages have several meshes, the devices are meshes of tp x cp x "
                         "dp ranks; give it, such as --fix dp=1");
    return found_plan(out, options, model, facts, err);
}
