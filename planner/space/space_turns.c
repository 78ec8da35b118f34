/* Stages of several meshes: replicas that take micro-batches in turn. */
#include "base/num.h"
#include "planner/program/schedule.h"
#include "planner/space/space_parts.h"
#include <stdio.h>

/* True when so many stages of these numbers of meshes, ascending, can have all of them together; 0: any number, up to
 * the layers. Of many more meshes than stages nothing is said: true. */
static bool share_out(int layers, const int *turns, int shape_count, int stages, int meshes)
{
    enum { MOST_LEFT = 128 };
    int fewest[MOST_LEFT + 1] = { 0 }, most = stages > 0 ? stages : layers, least = stages > 0 ? turns[0] : 0,
                           left = meshes - stages * least;
    if (left < 0 || left > MOST_LEFT)
        return left > 0;
    for (int sum = 1; sum <= left; sum++) { /* stages that need more than the least, to have so many more */
        fewest[sum] = most + 1;
        for (int i = 0; i < shape_count; i++)
            if (turns[i] > least && turns[i] - least <= sum)
                fewest[sum] = (int)min_i64(fewest[sum], fewest[sum - turns[i] + least] + 1);
    }
    return fewest[left] <= most;
}

int space_turns_of(const struct making *m, int turns[SPACE_MOST_TURNS])
{
    int count = 0, meshes = m->config.meshes, layers = m->graph->layer_count;
    int64_t stages = m->value[CHOICE_PP] > 0 ? m->value[CHOICE_PP] : layers,
            most = min_i64(min_i64(meshes, m->config.micro_batch_count), SPACE_MOST_TURNS), divisor = 0;
    for (int value = 1; value <= most; value++)
        if (allowed_has(&m->space->turns, value)) {
            turns[count++] = value;
            divisor = common_divisor(divisor, value);
        }
    if (count == 0 || turns[count - 1] == 1 || stages * turns[count - 1] < meshes || meshes % divisor != 0 ||
        !share_out(layers, turns, count, (int)m->value[CHOICE_PP], meshes))
        return 0;
    return count;
}

bool space_takes_turns(int schedule)
{
    const struct schedule *s = schedules[schedule];
    return !s->asynchronous && schedule_least_chunks(s) == 1;
}

bool space_check_turns(const struct space *space, struct error *err)
{
    bool asked = allowed_several(&space->turns), takes = space->schedule.count == 0;
    char known[256];
    for (int i = 0; i < space->schedule.count; i++)
        takes = takes || space_takes_turns((int)space->schedule.values[i]);
    size_t length = 0;
    for (int s = 0; schedules[s]; s++)
        if (space_takes_turns(s) && length < sizeof known)
            length +=
                (size_t)snprintf(known + length, sizeof known - length, "%s%s", length ? ", " : "", schedules[s]->name);
    return !asked || takes ||
           fail(err,
                "plan: turns: the search gives stages several replicas with schedules %s; found %s; leave turns or the "
                "schedule out of --fix and --space",
                known, schedules[space->schedule.values[0]]->name);
}
