#include "cli/given.h"
#include "planner/estimate/estimate.h"
#include "planner/program/schedule.h"
#include "planner/search/fixed.h"

bool given_fixed(struct space *said, const struct text_list *fix, struct error *err)
{
    *said = (struct space){ 0 };
    for (int i = 0; i < fix->count; i++)
        if (!space_restrict(said, "--fix", fix->item[i], err))
            return false;
    return true;
}

bool given_plan(struct plan **out, struct inputs *in, struct search_options *options, struct space *said,
                const struct stage_cuts *cuts, bool clips, bool reversed, struct error *err)
{
    struct space *space = &options->space;
    space_as_run(said, in);
    if (cuts && !stage_cuts_restrict(cuts, said, err))
        return false;
    if (said->schedule.count == 0 && said->chunks.values[0] > 1) /* chunks want the schedule that runs several */
        said->schedule = allowed_only(schedule_find("interleaved"));
    for (int i = 0; i < CHOICE_COUNT; i++)
        if (said->range[i].count > 0)
            space->range[i] = said->range[i];
        else if (choice_facts[i].usual != CHOICE_OPEN)
            space->range[i] = allowed_only(choice_facts[i].usual);
    if (!clips && space_without_clipping(space))
        space->clip_norm = 0;
    return fixed_plan(out, options, reversed, in->model, &in->facts, err) &&
           plan_graph(&in->graph, in->model, *out, err) &&
           (cuts ? stage_cuts_apply(cuts, *out, in->graph, err)
                 : stage_cuts_usual(*out, in->graph, in->cluster->type_count, err)) &&
           plan_check(*out, in->graph, err);
}

bool given_estimate(struct estimate **out, const struct inputs *in, const struct plan *plan, struct error *err)
{
    struct program *program = NULL;
    if (!inputs_soon_verified(plan))
        return estimate_plan_periodic(out, in->model, in->graph, plan, &in->facts, err);
    bool good = inputs_program(&program, plan, in->graph, err) && estimate_program(out, program, &in->facts, err);
    program_free(program);
    return good;
}
