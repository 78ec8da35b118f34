#include "planner/program/schedule.h"
#include "base/num.h"

/* Gives the i-th forward of a stage: the first group of micro-batches goes through all its chunks in turn, then the
 * next ones; the last group is what is left. */
static struct action forward_at(const struct schedule_place *place, int group, int i)
{
    int first = i / (group * place->chunks) * group, within = i - first * place->chunks,
        size = (int)min_i64(group, place->micro_count - first);
    return (struct action){ .kind = ACTION_FORWARD, .micro = first + within % size, .chunk = within / size };
}

/* Counts forwards until the first backward: until the first micro-batch is through the last chunk and back. */
static int in_flight(const struct schedule_place *place)
{
    int64_t warm = 2 * (int64_t)(place->stages - place->stage - 1) +
                   (int64_t)(place->chunks - 1) * schedule_place_group(place) + 1 + place->extra_in_flight;
    return (int)min_i64(warm, (int64_t)place->micro_count * place->chunks);
}

static int order(const struct schedule_place *place, struct action *out)
{
    int units = place->micro_count * place->chunks, forward = 0, count = 0, group = schedule_place_group(place);
    if (!out)
        return 2 * units;
    for (int warm = in_flight(place); forward < warm; forward++)
        out[count++] = forward_at(place, group, forward);
    for (int backward = 0; backward < units; backward++) {
        struct action action = forward_at(place, group, backward); /* with the chunks from the last to the first */
        action.kind = ACTION_BACKWARD;
        action.chunk = place->chunks - 1 - action.chunk;
        out[count++] = action;
        if (forward < units)
            out[count++] = forward_at(place, group, forward++);
    }
    return count;
}

static bool legal(const struct plan *plan, struct error *err)
{
    if (plan->stage_count < 2)
        return fail(err, "plan: schedule interleaved needs at least 2 stages, found %d", plan->stage_count);
    if ((int64_t)plan->micro_batch_count * plan->chunk_count > PLAN_MAX_MICRO_BATCHES)
        return fail(err,
                    "plan: schedule interleaved: expected at most %d micro-batches times chunks, found %d times %d",
                    PLAN_MAX_MICRO_BATCHES, plan->micro_batch_count, plan->chunk_count);
    return true;
}

/* Narayanan et al. 2021 (Megatron-LM), section 2.2; groups: Megatron-Core's get_schedule_table(). */
extern const struct schedule schedule_interleaved;
const struct schedule schedule_interleaved = {
    .name = "interleaved",
    .doc = "1f1b with several chunks of the model on each stage: less idle time, more messages and activations",
    .in_flight_doc = "min(m v, 2 (P - k - 1) + (v - 1) P + 1) / v; of groups of g micro-batches with g for P",
    .interleaves = true,
    .takes_extra = true,
    .by_stages = true,
    .grouped = true,
    .legal = legal,
    .order = order,
    .in_flight = in_flight,
};
