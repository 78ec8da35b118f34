#include "planner/search/fixed.h"
#include "planner/search/baseline.h"
#include "planner/space/choice.h"

/* ---- one value each ---- */

static bool check_fixed(const struct space *space, struct error *err)
{
    for (int i = 0; i < CHOICE_COUNT; i++) {
        int count = space->range[i].count;
        if (count > 1 && i != CHOICE_TURNS) /* of which each stage has its own */
            return fail(err,
                        "plan: %s has %d values, but one configuration is priced; give one, and cleave plan "
                        "chooses among several",
                        choice_facts[i].name, count);
    }
    for (int i = 0; i < space->rule_count; i++)
        if (space->rules[i].allowed.count > 1)
            return fail(err, "plan: layer[%d-%d].%s has %d values, but one configuration is priced; give one",
                        space->rules[i].first, space->rules[i].last, choice_facts[space->rules[i].choice].name,
                        space->rules[i].allowed.count);
    return true;
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
    return *out || fail_memory(err);
}

bool fixed_plan(struct plan **out, const struct search_options *options, bool reversed, const struct model *model,
                const struct facts *facts, struct error *err)
{
    const struct space *space = &options->space;
    if (!check_fixed(space, err))
        return false;
    if (!allowed_several(&space->turns))
        return baseline_plan(out, space, reversed, model, facts, err);
    if (reversed)
        return fail(err, "plan: reversed: where stages have several meshes, which of the cluster's ends comes "
                         "first is decided with them; leave it out");
    if (space->data.count == 0)
        return fail(err, "plan: dp is missing: where stages have several meshes, the devices are meshes of tp x cp x "
                         "dp ranks; give it, such as --fix dp=1");
    return found_plan(out, options, model, facts, err);
}
