/* Why a space has no configuration, and what to type instead. */
#include "planner/search/space.h"
#include <stdio.h>

static const char *wants_of(const struct schedule *schedule)
{
    if (schedule->interleaves)
        return schedule->by_stages ? "several chunks on each of at least 2 stages, a layer for each chunk, and "
                                     "micro-batches that are a multiple of the stages"
                                   : "several chunks on each of at least 2 stages, and a layer for each chunk";
    return schedule->asynchronous ? "one chunk per stage, and at least as many micro-batches as stages"
                                  : "one chunk per stage";
}

/* True: it is not the named schedules' fault; any other would not do either. */
static bool explain_schedules(const struct space *space, const struct graph *graph, const struct cluster *cluster,
                              struct error *err)
{
    struct space others = *space;
    others.schedule.count = 0;
    if (space->schedule.count == 0 || space_count(&others, graph, cluster) == 0)
        return true;
    const struct schedule *schedule = schedules[space->schedule.values[0]];
    char stages[48] = "";
    if (space->pipeline.count == 1)
        snprintf(stages, sizeof stages, ", found pp %lld", (long long)space->pipeline.values[0]);
    return fail(err,
                "plan: schedule %s goes with no configuration of the other fixed choices: it wants %s%s; leave some of "
                "them out of --fix and --space",
                schedule->name, wants_of(schedule), stages);
}

/* "1024 or 1040", behind `before` and before `after`; nothing where no batch near this one would do. */
static void write_nearest_batches(char *out, size_t size, const char *before, const char *after,
                                  const struct space *space, const struct graph *graph, const struct cluster *cluster)
{
    long long below = space_nearest_batch(space, graph, cluster, false),
              above = space_nearest_batch(space, graph, cluster, true);
    out[0] = '\0';
    if (below > 0 && above > 0)
        snprintf(out, size, "%s%lld or %lld%s", before, below, above, after);
    else if (below > 0 || above > 0)
        snprintf(out, size, "%s%lld%s", before, below > 0 ? below : above, after);
}

/* Of stages with several meshes. */
static const char *several_wanted(const struct space *space)
{
    if (!allows(&space->turns, 1))
        return "; turns are at most the micro-batches, and the most of them times the stages, of a layer or more each, "
               "at least the devices over tensor x data";
    return allows(&space->spread, 1) ? ""
                                     : "; spread divides the micro-batch, and the most of it times the stages is at "
                                       "least the devices over tensor x data";
}

bool space_explain_empty(const struct space *space, const struct graph *graph, const struct cluster *cluster,
                         struct error *err)
{
    struct space free_space = space_default(space->batch, space->sequence, space->dtype);
    bool any = space_count(&free_space, graph, cluster) > 0;
    if (any && !explain_schedules(space, graph, cluster, err))
        return false;
    char batches[128];
    if (any) {
        write_nearest_batches(batches, sizeof batches, ", or give --batch ", "", space, graph, cluster);
        return fail(err,
                    "plan: no configuration of %d devices and a batch of %lld sequences has the fixed degrees (tensor "
                    "x pipeline x data "
                    "must be %d, data must divide the batch%s%s%s); leave some of them out of --fix and --space%s",
                    cluster->device_count, (long long)space->batch, cluster->device_count,
                    space->interleave.count > 0 ? "; interleave wants 2 stages or more, a layer for each chunk, and "
                                                  "micro-batches that are a multiple of the stages"
                                                : "",
                    !allows(&space->expert, 1) ? "; ep must divide the data ranks and the experts of every layer" : "",
                    several_wanted(space), batches);
    }
    write_nearest_batches(batches, sizeof batches, "; ", " sequences would do", space, graph, cluster);
    if (!batches[0])
        write_nearest_batches(batches, sizeof batches, "; ", " sequences would do without --fix and --space",
                              &free_space, graph, cluster);
    return fail(err,
                "plan: a batch of %lld sequences cannot be shared out over %d devices: no product of tensor degree (a "
                "divisor of heads and "
                "feed-forward width, inside a node), stages (at most %d layers) and a divisor of the batch is %d%s",
                (long long)space->batch, cluster->device_count, graph->layer_count, cluster->device_count, batches);
}
