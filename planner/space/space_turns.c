/* Configurations whose stages may have several meshes: replicas that take micro-batches in turn. */
#include "base/num.h"
#include "planner/program/schedule.h"
#include "planner/space/space_parts.h"
#include <stdio.h>
#include <string.h>

/* ---- what a stage may be ---- */

/* Whether so many stages of these numbers of meshes, ascending, can have all of them together; 0: any number, up to the
 * layers. Of many more meshes than stages nothing is said: true. */
static bool share_out(const struct listing *l, const int *turns, int turn_count, int stages, int meshes)
{
    enum { MOST_LEFT = 128 };
    int fewest[MOST_LEFT + 1] = { 0 }, most = stages > 0 ? stages : l->graph->layer_count,
                           least = stages > 0 ? turns[0] : 0, left = meshes - stages * least;
    if (left < 0 || left > MOST_LEFT)
        return left > 0;
    for (int sum = 1; sum <= left; sum++) { /* stages that need more than the least, to have so many more */
        fewest[sum] = most + 1;
        for (int i = 0; i < turn_count; i++)
            if (turns[i] > least && turns[i] - least <= sum)
                fewest[sum] = (int)min_i64(fewest[sum], fewest[sum - turns[i] + least] + 1);
    }
    return fewest[left] <= most;
}

bool space_set_turns(struct listing *l, struct config *config)
{
    int turns[SPACE_MOST_TURNS], count = 0;
    int64_t stages = config->stages > 0 ? config->stages : l->graph->layer_count,
            most = min_i64(min_i64(config->meshes, config->micro_batch_count), SPACE_MOST_TURNS), divisor = 0;
    for (int value = 1; value <= most; value++)
        if (allows(&l->space->turns, value)) {
            turns[count++] = value;
            divisor = common_divisor(divisor, value);
        }
    if (count == 0 || turns[count - 1] == 1 || stages * turns[count - 1] < config->meshes ||
        config->meshes % divisor != 0 || !share_out(l, turns, count, config->stages, config->meshes))
        return false;
    config->turn_count = count;
    if (l->keeps) {
        int *kept = arena_alloc(l->arena, (size_t)count, sizeof *kept);
        l->out_of_memory = l->out_of_memory || !kept;
        config->turns = kept ? memcpy(kept, turns, (size_t)count * sizeof *kept) : NULL;
    }
    return true;
}

/* ---- configurations ---- */

/* With every number of stages at once, unless they are restricted. */
static void add_turns(struct listing *l, struct config config, const struct degrees *d)
{
    const struct allowed *stages = &l->space->pipeline;
    if (stages->count == 0)
        space_add_micro_batches(l, config, d);
    for (int i = 0; i < stages->count; i++) {
        config.stages = (int)min_i64(stages->values[i], l->graph->layer_count + 1);
        if (config.stages <= l->graph->layer_count && config.stages < config.meshes)
            space_add_micro_batches(l, config, d);
    }
}

void space_add_turns(struct listing *l, int ranks, struct degrees d)
{
    for (d.data = 1; names_several(&l->space->turns) && 2 * d.data <= ranks && !l->ended; d.data++)
        if (ranks % d.data == 0 && space_shares_batch(l, d.data))
            add_turns(l, (struct config){ .meshes = ranks / d.data }, &d);
}

/* ---- restrictions ---- */

bool space_takes_turns(int schedule)
{
    const struct schedule *s = schedules[schedule];
    return !s->asynchronous && schedule_least_chunks(s) == 1;
}

static void name_those_that_take(char *out, size_t size)
{
    size_t length = 0;
    for (int s = 0; schedules[s]; s++)
        if (space_takes_turns(s) && length < size)
            length += (size_t)snprintf(out + length, size - length, "%s%s", length ? ", " : "", schedules[s]->name);
}

bool space_check_turns(const struct space *space, struct error *err)
{
    bool asked = names_several(&space->turns), takes = space->schedule.count == 0;
    char known[256];
    for (int i = 0; i < space->schedule.count; i++)
        takes = takes || space_takes_turns((int)space->schedule.values[i]);
    name_those_that_take(known, sizeof known);
    return !asked || takes ||
           fail(err,
                "plan: turns: the search gives stages several replicas with schedules %s; found %s; leave turns or the "
                "schedule out of --fix and --space",
                known, schedules[space->schedule.values[0]]->name);
}
