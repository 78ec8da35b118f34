/* Why a space has no configuration, and what to type instead. */
#include "base/num.h"
#include "base/text.h"
#include "planner/space/space.h"
#include <stdio.h>

static const char *wants_of(const struct schedule *schedule)
{
    if (schedule->interleaves)
        return schedule->by_stages ? "several chunks on each of at least 2 stages, a layer for each chunk, and "
                                     "for the search micro-batches that are a multiple of the stages"
                                   : "several chunks on each of at least 2 stages, and a layer for each chunk";
    return schedule->asynchronous ? "one chunk per stage, and at least as many micro-batches as stages"
                                  : "one chunk per stage";
}

/* Explains that it is the named schedules' fault; true when it is not, since any other would not do either. */
static bool explain_schedules(const struct space *space, const struct graph *graph, const struct cluster *cluster,
                              struct error *err)
{
    struct space others = *space;
    others.schedule.count = 0;
    if (space->schedule.count == 0 || space_count(&others, graph, cluster) == 0)
        return true;
    const struct schedule *schedule = schedules[space->schedule.values[0]];
    bool extra = !schedule->takes_extra && space->extra.count > 0 && !allowed_has(&space->extra, 0);
    char found[64] = "";
    if (extra)
        snprintf(found, sizeof found, ", found extra-in-flight %lld", (long long)space->extra.values[0]);
    else if (space->stages.count == 1)
        snprintf(found, sizeof found, ", found pp %lld", (long long)space->stages.values[0]);
    return fail(err,
                "plan: schedule %s goes with no configuration of the other fixed choices: it wants %s%s; leave some of "
                "them out of --fix and --space",
                schedule->name, extra ? "no more in flight than its order has" : wants_of(schedule), found);
}

/* Writes "1024 or 1040" behind `before` and before `after`; nothing where no batch near this one would do. */
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

/* ---- degrees that cannot be, whatever the others are ---- */

static bool tensor_possible(int64_t tensor, const struct graph *graph, const struct cluster *cluster)
{
    return tensor <= cluster_node_size(cluster) && cluster->device_count % tensor == 0 &&
           legal_tensor(graph, (int)tensor);
}

static void explain_tensor(struct text *out, const struct space *space, const struct graph *graph,
                           const struct cluster *cluster)
{
    int node = cluster_node_size(cluster);
    struct obstacle obstacle;
    for (int i = 0; i < space->tensor.count; i++)
        if (tensor_possible(space->tensor.values[i], graph, cluster))
            return;
    if (space->tensor.count == 0)
        return;
    text_add(out, "; tp: expected 1");
    for (int tensor = 2; tensor <= node; tensor++)
        if (tensor_possible(tensor, graph, cluster))
            text_printf(out, ", %d", tensor);
    if (space->tensor.values[0] > node)
        text_printf(out, ", within a node of %d devices", node);
    else if (legal_tensor_obstacle(graph, (int)space->tensor.values[0], &obstacle))
        text_printf(out, ", which divide the %lld %s of layer %s", (long long)obstacle.size,
                    obstacle.tag == TAG_HEAD ? "heads" : "feed-forward columns", graph->layers[obstacle.layer].name);
    else
        text_printf(out, ", which divide %d devices", cluster->device_count);
    text_printf(out, ", found %lld", (long long)space->tensor.values[0]);
}

/* Says what degrees with one value each multiply to. */
static void explain_product(struct text *out, const struct space *space, int devices)
{
    static const enum space_choice degrees[] = { CHOICE_PP, CHOICE_TP, CHOICE_CP, CHOICE_DP };
    struct text product = { 0 };
    int64_t ranks = 1;
    bool all = true;
    for (int i = 0; i < 4; i++) {
        const struct allowed *range = &space->range[degrees[i]];
        all = all && range->count == 1;
        if (range->count != 1 || range->values[0] == 1)
            continue;
        text_printf(&product, "%s%s %lld", product.length > 0 ? " x " : "", choice_facts[degrees[i]].name,
                    (long long)range->values[0]);
        ranks = min_i64(ranks, INT32_MAX) * range->values[0];
    }
    if (!allowed_several(&space->turns) && (all ? ranks != devices : devices % ranks != 0))
        text_printf(out, "; %s: expected %s%d devices, found %lld", product.data ? product.data : "each degree 1",
                    all ? "" : "a divisor of ", devices, (long long)ranks);
    text_free(&product);
}

/* Writes "micro-batch or dp": each restricted choice that is enough to leave out alone; else "some of them". */
static void write_enough(struct text *out, const struct space *space, const struct graph *graph,
                         const struct cluster *cluster)
{
    for (int choice = 0; choice < CHOICE_COUNT; choice++) {
        struct space without = *space;
        if (space_is_default(space, (enum space_choice)choice))
            continue;
        space_lift(&without, (enum space_choice)choice);
        if (space_count(&without, graph, cluster) > 0)
            text_printf(out, "%s%s", out->length > 0 ? " or " : "", choice_facts[choice].name);
    }
    if (out->length == 0)
        text_add(out, "some of them");
}

/* Names the stages that the cluster could have, where no configuration has as many as are cut by hand. True when it is
 * not the cut's fault. */
static bool explain_cut(const struct space *space, const struct graph *graph, const struct cluster *cluster,
                        struct error *err)
{
    struct space others = *space;
    struct text counts = { 0 };
    others.cut = (struct space_cut){ 0 };
    others.stages.count = others.chunks.count = 0;
    if (space->cut.count == 0 || space_count(&others, graph, cluster) == 0)
        return true;
    others.stages = allowed_only(space->cut.count);
    if (space_count(&others, graph, cluster) > 0)
        return true;
    for (int stages = 1; stages <= min_i64(graph->layer_count, cluster->device_count); stages++) {
        others.stages = allowed_only(stages);
        if (cluster->device_count % stages == 0 && space_count(&others, graph, cluster) > 0)
            text_printf(&counts, "%s%d", counts.length > 0 ? ", " : "", stages);
    }
    fail(err,
         "plan: --stages cuts %d, and no configuration has as many: expected %s, or, with pp fixed to one of these, a "
         "multiple of it that an interleaved schedule takes",
         space->cut.count, counts.data ? counts.data : "1");
    text_free(&counts);
    return false;
}

bool space_explain_empty(const struct space *space, const struct graph *graph, const struct cluster *cluster,
                         struct error *err)
{
    struct space free_space = space_default(space->batch, space->sequence, space->dtype);
    bool any = space_count(&free_space, graph, cluster) > 0;
    if (any && (!explain_cut(space, graph, cluster, err) || !explain_schedules(space, graph, cluster, err)))
        return false;
    char batches[128];
    if (any) {
        struct text degrees = { 0 }, enough = { 0 };
        explain_tensor(&degrees, space, graph, cluster);
        explain_product(&degrees, space, cluster->device_count);
        write_enough(&enough, space, graph, cluster);
        write_nearest_batches(batches, sizeof batches, ", or give --batch ", "", space, graph, cluster);
        fail(err,
             "plan: no configuration of %d devices and a batch of %lld sequences has the fixed degrees (tensor x "
             "pipeline x data must be %d, data must divide the batch%s%s%s%s); leave %s out of --fix and --space%s",
             cluster->device_count, (long long)space->batch, cluster->device_count,
             space->chunks.count > 0 ? "; interleave wants 2 stages or more, a layer for each chunk, and "
                                       "for the search micro-batches that are a multiple of the stages"
                                     : "",
             allowed_has(&space->expert, 1)  ? ""
             : legal_most_experts(graph) > 1 ? "; ep must divide dp (its own ranks included) and every layer's experts"
                                             : "; ep must be 1, as the model has no experts to share out",
             allowed_has(&space->turns, 1)
                 ? ""
                 : "; turns are at most the micro-batches, and the most of them times the stages, "
                   "of a layer or more each, at least the devices over tensor x data",
             degrees.data ? degrees.data : "", enough.data ? enough.data : "some of them", batches);
        text_free(&degrees);
        text_free(&enough);
        return false;
    }
    write_nearest_batches(batches, sizeof batches, "; ", " sequences would do", space, graph, cluster);
    if (!batches[0])
        write_nearest_batches(batches, sizeof batches, "; ", " sequences would do without --fix and --space",
                              &free_space, graph, cluster);
    return fail(err,
                "plan: a batch of %lld sequences cannot be shared out over %d devices: no tensor degree (a divisor of "
                "heads and feed-forward width, in a node) x stages (at most %d layers) x divisor of the batch is %d%s",
                (long long)space->batch, cluster->device_count, graph->layer_count, cluster->device_count, batches);
}

/* Blames the first of the groups where none of them can be in any configuration. */
static bool check_groups(const struct allowed *groups, const struct config *configs, int count, struct error *err)
{
    int most = 1;
    for (int c = 0; c < count; c++) {
        most = (int)max_i64(most, config_data(&configs[c]));
        for (int i = 0; i < groups->count; i++)
            if (groups->values[i] == 0 || config_data(&configs[c]) % groups->values[i] == 0)
                return true;
    }
    return groups->count == 0 ||
           fail(err,
                "plan: hsdp: expected a divisor of the data-parallel ranks, of which there are at most %d, found %lld; "
                "give another, or leave it out of --fix and --space",
                most, (long long)groups->values[0]);
}

bool space_check_groups(const struct space *space, const struct config *configs, int count, struct error *err)
{
    for (int r = 0; r < space->rule_count; r++)
        if (space->rules[r].choice == CHOICE_HSDP && !check_groups(&space->rules[r].allowed, configs, count, err))
            return false;
    return check_groups(&space->shard_group, configs, count, err);
}
