#include "planner/program/schedule.h"
#include "base/num.h"
#include <stdlib.h>
#include <string.h>

#define SCHEDULE(symbol) extern const struct schedule schedule_##symbol;
#include "planner/program/schedules/schedules.def"
#undef SCHEDULE

const struct schedule *const schedules[] = {
#define SCHEDULE(symbol) &schedule_##symbol,
#include "planner/program/schedules/schedules.def"
#undef SCHEDULE
    NULL,
};

int schedule_find(const char *name)
{
    for (int i = 0; schedules[i]; i++) {
        if (!strcmp(schedules[i]->name, name))
            return i;
    }
    return -1;
}

int schedule_stage(const struct schedule *schedule, int stages, int piece)
{
    int stage = piece % stages;
    return schedule->folded && piece / stages % 2 ? stages - 1 - stage : stage;
}

int schedule_piece(const struct schedule *schedule, int stages, int stage, int chunk)
{
    return chunk * stages + schedule_stage(schedule, stages, chunk * stages + stage);
}

int schedule_pieces(const struct schedule *schedule, int stages, int chunks)
{
    return schedule->copies ? stages : stages * chunks;
}

void schedule_set_piece(struct plan *plan, int piece, struct layer_range range)
{
    const struct schedule *schedule = schedules[plan->schedule];
    int stages = plan->stage_count, pieces = schedule_pieces(schedule, stages, plan->chunk_count);
    for (int k = piece; k < stages * plan->chunk_count; k += pieces)
        plan_set_chunk(plan, schedule_stage(schedule, stages, k), k / stages, range);
}

int schedule_versions(const struct plan *plan, int stage)
{
    const struct schedule *schedule = schedules[plan->schedule];
    if (!schedule->versions)
        return 1;
    struct schedule_place place = schedule_place_of(plan, stage);
    return schedule->versions(&place);
}

int schedule_updates(const struct plan *plan)
{
    return schedules[plan->schedule]->updates_each ? plan->micro_batch_count : 1;
}

int schedule_version(const struct plan *plan, int stage, int micro, enum step_part part)
{
    int updates = schedule_updates(plan), own = (part == STEP_AHEAD ? updates : 0) + (updates > 1 ? micro : 0);
    return own + 1 - schedule_versions(plan, stage);
}

int schedule_unit(const struct schedule *schedule, int stages)
{
    return schedule->by_stages ? stages : schedule->copies ? 2 : 1;
}

bool schedule_group_legal(int stages, int micro_batches, int group)
{
    int rest = group > 0 ? micro_batches % group : 0;
    return group >= stages && group <= micro_batches && (rest == 0 || rest >= stages);
}

int schedule_least_group(int stages, int micro_batches)
{
    int group = stages;
    while (group <= micro_batches && !schedule_group_legal(stages, micro_batches, group))
        group++;
    return group <= micro_batches ? group : 0;
}

int schedule_place_group(const struct schedule_place *place)
{
    return place->group > 0 ? place->group : (int)max_i64(1, schedule_least_group(place->stages, place->micro_count));
}

int schedule_group(const struct plan *plan)
{
    if (!schedules[plan->schedule]->grouped)
        return 1;
    return schedule_place_group(&(struct schedule_place){
        .stages = plan->stage_count, .group = plan->chunk_group, .micro_count = plan->micro_batch_count });
}

int schedule_least_chunks(const struct schedule *schedule)
{
    return schedule->interleaves ? 2 : 1;
}

bool schedule_check_copies(const struct plan *plan, struct error *err)
{
    const char *name = schedules[plan->schedule]->name;
    if (plan->stage_count % 2 != 0 || plan->chunk_count != 2)
        return fail(err, "plan: schedule %s wants an even number of stages of 2 chunks each, found %d of %d", name,
                    plan->stage_count, plan->chunk_count);
    if (plan->extra_in_flight > 0)
        return fail(err, "plan: schedule %s knows no extra_in_flight, found %d", name, plan->extra_in_flight);
    return true;
}

bool schedule_takes(const struct schedule *schedule, int stages, int chunks, int micro_batches)
{
    if ((chunks > 1) != schedule->interleaves || (chunks > 1 && stages < 2))
        return false;
    if ((schedule->folded && chunks != 2) || (schedule->copies && stages % 2 != 0))
        return false;
    return micro_batches % schedule_unit(schedule, stages) == 0 && (!schedule->asynchronous || micro_batches >= stages);
}

struct schedule_place schedule_place_even(int stages, int stage, int micro_count, int extra_in_flight)
{
    return (struct schedule_place){ .stages = stages,
                                    .stage = stage,
                                    .chunks = 1,
                                    .micro_count = micro_count,
                                    .ahead = stages - stage,
                                    .extra_in_flight = extra_in_flight };
}

static int shared_out(int count, int replicas)
{
    return (count + replicas - 1) / replicas;
}

/* Gives a stage's place: replicas from it on hold a micro-batch each; shared out over its own replicas that is so many
 * of its own (Narayanan et al. 2019, section 3.2). What is in flight beyond that is shared out with them: a stage that
 * held more than the stages before it could send would wait for them for ever. */
struct schedule_place schedule_place_of(const struct plan *plan, int stage)
{
    int first = stage - plan->stages[stage].turn, turns = plan_stage_turns(plan, stage);
    struct schedule_place place = { .chunks = plan->chunk_count,
                                    .group = plan->chunk_group,
                                    .micro_count = plan_stage_micro_batches(plan, stage),
                                    .ahead = shared_out(plan->stage_count - first, turns) };
    place.extra_in_flight = shared_out(plan->stage_count - first + plan->extra_in_flight, turns) - place.ahead;
    for (int s = 0; s < plan->stage_count; s++) {
        place.stages += plan->stages[s].turn == 0;
        place.stage += plan->stages[s].turn == 0 && s < first;
    }
    return place;
}

bool schedule_find_held(const struct schedule *schedule, const struct schedule_place *place, int *held)
{
    enum { MOST_ACTIONS = 3 }; /* of a micro-batch and chunk: a pass is one, or one by input and one by weight */
    size_t room = schedule->asynchronous ? (size_t)schedule->order(place, NULL)
                                         : (size_t)MOST_ACTIONS * (size_t)place->micro_count * (size_t)place->chunks;
    /* where backward is whole, what is held is what is in flight, of which the schedule may know the closed form */
    bool closed = schedule->in_flight && !schedule->splits;
    struct action *actions = closed ? NULL : malloc((room + 1) * sizeof *actions);
    if (!closed && !actions)
        return false;
    int count = closed ? 0 : schedule->order(place, actions);
    *held = closed ? schedule->in_flight(place) : 0;
    for (int i = 0, alive = 0; i < count; i++) {
        alive += actions[i].kind == ACTION_FORWARD;
        alive -= actions[i].kind == ACTION_BACKWARD || actions[i].kind == ACTION_BACKWARD_WEIGHT;
        *held = max_int(*held, alive);
    }
    free(actions);
    if (schedule->asynchronous && *held < place->micro_count)
        *held = shared_out(place->micro_count, place->micro_count / *held);
    return true;
}

int schedule_held(const struct schedule *schedule, const struct schedule_place *place)
{
    int held;
    return schedule_find_held(schedule, place, &held) ? held : place->micro_count * place->chunks;
}
