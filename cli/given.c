#include "cli/given.h"
#include "cli/stages.h"
#include "planner/estimate/estimate.h"
#include "planner/program/schedule.h"
#include "planner/search/fixed.h"
#include <stdio.h>

bool given_fixed(struct space *said, const struct text_list *fix, struct error *err)
{
    *said = (struct space){ 0 };
    for (int i = 0; i < fix->count; i++)
        if (!space_restrict(said, "--fix", fix->item[i], err))
            return false;
    return true;
}

bool given_plan(struct plan **out, struct inputs *in, struct search_options *options, struct space *said,
                int64_t chunk_group, bool clips, bool reversed, struct error *err)
{
    struct space *space = &options->space;
    space_as_run(said, in);
    if (said->bucket_bytes.count == 0)
        space_usual_bucket(said, in);
    int cut = space->cut.count;
    if (cut > 0 && !stage_cuts_restrict(cut, said, err))
        return false;
    if (said->schedule.count == 0 && said->chunks.values[0] > 1) /* chunks want the schedule that runs several */
        said->schedule = allowed_only(schedule_find("interleaved"));
    for (int i = 0; i < CHOICE_COUNT; i++)
        if (said->range[i].count > 0)
            space->range[i] = said->range[i];
        else if (choice_facts[i].usual != CHOICE_OPEN)
            space->range[i] = allowed_only(choice_facts[i].usual);
    if (!clips && space_asynchronous(space, true))
        space->clip_norm = 0;
    if (!fixed_plan(out, options, reversed, in->model, &in->facts, err))
        return false;
    (*out)->chunk_group = (int)chunk_group;
    struct space *given = arena_alloc(&in->arena, 1, sizeof *given);
    if (!given)
        return fail_memory(err);
    *given = *space;
    in->given = reversed ? NULL : given;
    return plan_graph(&in->graph, in->model, *out, err) &&
           (cut > 0 || stage_cuts_usual(*out, in->graph, in->cluster->type_count, err)) &&
           plan_check(*out, in->graph, err);
}

bool given_estimate(struct estimate **out, const struct inputs *in, const struct plan *plan, struct error *err)
{
    struct program *program = NULL;
    bool good = inputs_soon_verified(plan) ? inputs_program(&program, plan, in->graph, err) &&
                                                 estimate_timeline(out, NULL, program, &in->facts, err)
                                           : estimate_plan_periodic(out, in->model, in->graph, plan, &in->facts, err);
    program_free(program);
    if (!good || timeline_is_counted((*out)->prediction.step_ns, err))
        return good;
    estimate_free(*out);
    *out = NULL;
    return false;
}

/* What the option of the choice says; GIVEN_UNSAID: nothing. */
static bool read_option(int64_t *out, const struct given_options *given, enum space_choice choice, struct error *err)
{
    char where[64];
    snprintf(where, sizeof where, "--%s", choice_facts[choice].name);
    *out = given->flag[choice] ? 1 : given->number[choice];
    return !given->word[choice] || space_value(where, choice, given->word[choice], out, err);
}

/* What --fix and options say. */
static bool read_said(struct space *said, const struct given_options *given, struct error *err)
{
    if (!given_fixed(said, &given->space.fix, err))
        return false;
    for (int i = 0; i < CHOICE_COUNT; i++) {
        const char *name = choice_facts[i].name;
        int64_t value;
        if (!read_option(&value, given, (enum space_choice)i, err))
            return false;
        if (value != GIVEN_UNSAID && said->range[i].count > 0)
            return fail(err, "--fix: %s is given by --%s, too; leave one of them out", name, name);
        if (value != GIVEN_UNSAID)
            said->range[i] = allowed_only(value);
    }
    return true;
}

bool given_price(struct plan **plan, struct estimate **estimate, struct inputs *in, const struct given_options *given,
                 const char *model, struct error *err)
{
    struct space space, said;
    if (!space_inputs(in, &space, model, &given->space, err) || !read_said(&said, given, err))
        return false;
    struct search_options search = space_search_options(&given->space, &space);
    return given_plan(plan, in, &search, &said, given->chunk_group, given->space.clip != NULL, given->reversed, err) &&
           given_estimate(estimate, in, *plan, err);
}
