/* Configurations whose stages may have several meshes: replicas that take micro-batches in turn, or ranks that share
 * each micro-batch. */
#include "base/num.h"
#include "planner/program/schedule.h"
#include "planner/space/space_parts.h"
#include <stdio.h>
#include <string.h>

/* ---- what a stage may be ---- */

void space_set_times(struct listing *l, int tensor, int node)
{
    for (int times = 1; times <= SPACE_MOST_TURNS; times++)
        l->times_legal[times] =
            times == 1 || (times <= node / tensor && l->space->spread_tensor.count > 0 &&
                           allows(&l->space->spread_tensor, times) && tensor_legal(l->graph, times * tensor));
}

int space_most_tensor(const struct listing *l, const struct degrees *d)
{
    int most = 1;
    for (int i = 0; i < l->shape_count; i++)
        most = (int)max_i64(most, l->tensor_times[i]);
    return most * d->tensor;
}

bool space_sequence_divides(const struct listing *l, const struct degrees *d)
{
    int64_t share = (int64_t)d->tensor * d->context;
    bool divides = l->graph->sequence % share == 0;
    for (int i = 0; divides && i < l->shape_count; i++)
        divides = l->graph->sequence % (share * l->tensor_times[i]) == 0;
    return divides;
}

/* Of so many meshes of a stage that share each micro-batch: each factor of them that may be tensor-parallel. */
static void list_times(struct listing *l, const struct config *config, int meshes, int most_times)
{
    const struct allowed *allowed = &l->space->spread_tensor;
    for (int times = 1; times <= meshes && times <= most_times; times++)
        if (meshes % times == 0 && (meshes == 1 || allows(allowed, times)) && l->times_legal[times] &&
            config->micro % (meshes / times) == 0) {
            l->meshes[l->shape_count] = meshes;
            l->tensor_times[l->shape_count++] = times;
        }
}

/* By meshes ascending, each once. */
static void list_shapes(struct listing *l, const struct config *config, int64_t most, int most_times)
{
    const struct allowed *allowed = config->spread ? &l->space->spread : &l->space->turns;
    l->shape_count = 0;
    for (int value = 1; value <= SPACE_MOST_TURNS && value <= most; value++) {
        if (!allows(allowed, value))
            continue;
        if (config->spread) {
            list_times(l, config, value, most_times);
            continue;
        }
        l->meshes[l->shape_count] = value;
        l->tensor_times[l->shape_count++] = 1;
    }
}

/* Whether so many stages of the present numbers of meshes can have all of them together; 0: any number, up to the
 * layers. Of many more meshes than stages nothing is said: true. */
static bool share_out(const struct listing *l, int stages, int meshes)
{
    int fewest[MOST_SPREAD + 1] = { 0 }, most = stages > 0 ? stages : l->graph->layer_count,
                             least = stages > 0 ? l->meshes[0] : 0, left = meshes - stages * least;
    if (left < 0 || left > MOST_SPREAD)
        return left > 0;
    for (int sum = 1; sum <= left; sum++) { /* stages that need more than the least, to have so many more */
        fewest[sum] = most + 1;
        for (int i = 0; i < l->shape_count; i++)
            if (l->meshes[i] > least && l->meshes[i] - least <= sum)
                fewest[sum] = (int)min_i64(fewest[sum], fewest[sum - l->meshes[i] + least] + 1);
    }
    return fewest[left] <= most;
}

/* Else no stages have all meshes together. */
static bool divides_meshes(const struct listing *l, int meshes)
{
    int64_t divisor = l->meshes[0];
    for (int i = 1; i < l->shape_count; i++)
        divisor = common_divisor(divisor, l->meshes[i]);
    return meshes % divisor == 0;
}

/* In the arena of the list, where there is one. */
static const int *keep(struct listing *l, const int *values)
{
    int *kept = l->keeps ? arena_alloc(l->arena, (size_t)l->shape_count, sizeof *kept) : NULL;
    l->out_of_memory = l->out_of_memory || (l->keeps && !kept);
    return kept ? memcpy(kept, values, (size_t)l->shape_count * sizeof *kept) : values;
}

/* The numbers of meshes and tensor-parallel ranks that a stage may have. No replica is without a micro-batch, no mesh
 * without work of each. False: a stage has no more than one, or some meshes are left even when there are no more stages
 * than layers, or than are given. */
static bool set_shapes(struct listing *l, struct config *config, const struct degrees *d, int most_times)
{
    int64_t stages = config->stages > 0 ? config->stages : l->graph->layer_count,
            most = config->spread ? config->meshes - config->stages + 1
                                  : min_i64(config->meshes, config->micro_batch_count);
    list_shapes(l, config, most, most_times);
    if (l->shape_count == 0 || l->meshes[l->shape_count - 1] == 1 ||
        stages * l->meshes[l->shape_count - 1] < config->meshes || !divides_meshes(l, config->meshes) ||
        !share_out(l, config->stages, config->meshes))
        return false;
    config->turn_count = l->shape_count;
    config->turns = keep(l, l->meshes);
    config->tensor_times = config->spread ? keep(l, l->tensor_times) : NULL;
    config->most_tensor = space_most_tensor(l, d);
    return true;
}

/* ---- configurations ---- */

/* What a most tensor degree forbids or costs all stages: those that differ in nothing else are in the largest one's
 * configuration. */
struct price_of_most {
    int64_t vocab_padded;
    bool sequence_divides, any; /* any: not known to be the same */
};
/* One tensor-parallel rank goes by another dimension than several do, where these must share out the sequence. */
static bool only_alone(const struct listing *l, const struct degrees *d)
{
    return space_most_tensor(l, d) == 1 && !allows(&l->space->sequence_parallel, 0);
}

static bool same_price(const struct price_of_most *a, const struct price_of_most *b)
{
    return !a->any && !b->any && a->vocab_padded == b->vocab_padded && a->sequence_divides == b->sequence_divides;
}

/* Whether a stage can have so many times the tensor-parallel ranks, and the others the meshes that it leaves. */
static bool takes_times(const struct listing *l, const struct config *config, int times)
{
    bool takes = !config->spread;
    for (int i = 0; i < l->shape_count && !takes; i++)
        takes = l->tensor_times[i] == times && share_out(l, config->stages - 1, config->meshes - l->meshes[i]);
    return takes;
}

void space_add_shapes(struct listing *l, struct config config, const struct degrees *d)
{
    struct price_of_most last = { .any = true };
    for (int times = config.spread ? SPACE_MOST_TURNS : 1; times >= 1 && !space_listing_ends(l); times--) {
        if (!l->times_legal[times] || !set_shapes(l, &config, d, times) || !takes_times(l, &config, times))
            continue;
        struct price_of_most own = { round_up(l->graph->vocab_size, config_vocab_multiple(&config, l->graph)),
                                     space_sequence_divides(l, d), d->context > 1 || only_alone(l, d) };
        if (!same_price(&own, &last))
            space_add_variants(l, &config, *d);
        last = own;
    }
}

static bool only_one(const struct allowed *allowed)
{
    return allowed->count == 1 && allowed->values[0] == 1;
}

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

/* What is in flight depends on the number of stages, so that each is a configuration of its own. */
static void add_spread(struct listing *l, struct config config, const struct degrees *d)
{
    config.spread = true;
    for (config.stages = 2; config.stages <= l->graph->layer_count && config.stages < config.meshes && !l->ended;
         config.stages++)
        if (config.meshes <= MOST_SPREAD && allows(&l->space->pipeline, config.stages))
            space_add_micro_batches(l, config, d);
}

void space_add_several(struct listing *l, int ranks, struct degrees d)
{
    bool turns = !only_one(&l->space->turns) && allows(&l->space->spread, 1),
         spread = !only_one(&l->space->spread) && allows(&l->space->turns, 1);
    for (d.data = 1; (turns || spread) && 2 * d.data <= ranks && !l->ended; d.data++) {
        struct config config = { .meshes = ranks / d.data };
        if (ranks % d.data != 0 || !space_shares_batch(l, d.data))
            continue;
        if (turns)
            add_turns(l, config, &d);
        if (spread)
            add_spread(l, config, &d);
    }
}

/* ---- restrictions ---- */

bool space_takes_several(int schedule)
{
    const struct schedule *s = schedules[schedule];
    return !s->asynchronous && schedule_least_chunks(s) == 1;
}

static void name_those_that_take(char *out, size_t size)
{
    size_t length = 0;
    for (int s = 0; schedules[s]; s++)
        if (space_takes_several(s) && length < size)
            length += (size_t)snprintf(out + length, size - length, "%s%s", length ? ", " : "", schedules[s]->name);
}

bool space_check_several(const struct space *space, struct error *err)
{
    bool turns = names_several(&space->turns), asked = turns || names_several(&space->spread),
         takes = space->schedule.count == 0;
    const char *name = turns ? "turns" : "spread", *what = turns ? "replicas" : "meshes";
    char known[256];
    for (int i = 0; i < space->schedule.count; i++)
        takes = takes || space_takes_several((int)space->schedule.values[i]);
    if (names_several(&space->spread_tensor) && !names_several(&space->spread))
        return fail(err, "plan: spread-tp: a stage has more tensor-parallel ranks than a mesh where it has several "
                         "meshes; give spread too, as in spread=1:2:4,spread-tp=1:2:4");
    name_those_that_take(known, sizeof known);
    return !asked || takes ||
           fail(err,
                "plan: %s: the search gives stages several %s with schedules %s; found %s; leave %s or the schedule "
                "out of --fix and --space",
                name, what, known, schedules[space->schedule.values[0]]->name, name);
}
