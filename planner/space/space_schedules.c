/* Of a mesh, stages and micro-batches all configurations: with each schedule and its chunks, more micro-batches in
 * flight, sizes of buckets, prefetches and orders of types. */
#include "planner/program/schedule.h"
#include "planner/space/space_parts.h"

static void add_config(struct listing *l, const struct config *config)
{
    struct config *list = l->keeps ? arena_more(l->arena, l->out, l->count, &l->capacity, sizeof *list) : NULL;
    if (list) {
        l->out = list;
        list[l->count] = *config;
    }
    l->out_of_memory = l->out_of_memory || (l->keeps && !list);
    l->count += !l->out_of_memory;
}

/* One stage has the cluster's own. Stages of several meshes go through the cluster from one of its ends: in other
 * orders it would depend on the cut whether a stage's meshes are neighbours. */
static void add_group_orders(struct listing *l, struct config config)
{
    int ranks = mesh_ranks(&config.mesh);
    if (l->order_ranks != ranks)
        l->order_count = group_orders(l->orders, l->cluster, ranks);
    l->order_ranks = ranks;
    for (int i = 0; i < l->order_count; i++) {
        config.order = l->orders[i];
        bool any = config.meshes == 0 ? config.stages > 1 : config.order.index == REVERSED_ORDER && config.meshes > 1;
        if (any || config.order.index == OWN_ORDER)
            add_config(l, &config);
    }
}

/* What is tried beside where nobody asks for others. */
static const struct allowed usual_chunks = { 3, { 1, 2, 4 } }, usual_extras = { 3, { 0, 1, 2 } };

bool config_is_bounded(const struct config *config)
{
    return config->stages == 1 || (schedules[config->schedule]->bounded && config->extra == 0);
}

bool space_has_bounded(const struct space *space)
{
    int s = 0;
    while (schedules[s] && !(schedules[s]->bounded && allows(&space->schedule, s)))
        s++;
    return schedules[s] && allows(&space->interleave, 1) && allows(&space->extra, 0);
}

/* Synchronous schedules that are not bounded are listed where none is that is: what is asked for by name, chunks or
 * micro-batches in flight. Asynchronous ones, which are other mathematics, must be named, so that they never win unless
 * somebody wants them. */
static bool offers(const struct listing *l, int schedule)
{
    const struct schedule *s = schedules[schedule];
    const struct space *space = l->space;
    if (!allows(&space->schedule, schedule))
        return false;
    if (s->asynchronous)
        return !l->beside && space->schedule.count > 0;
    return l->beside || s->bounded || !space_has_bounded(space);
}

/* The chunks that schedule, micro-batches and layers allow of those that the space does; the number of them. */
static int chunk_choices(const struct listing *l, const struct config *config, int out[SPACE_VALUES])
{
    const struct schedule *schedule = schedules[config->schedule];
    const struct allowed *asked = l->beside && l->space->interleave.count == 0 ? &usual_chunks : &l->space->interleave;
    if (config->meshes > 0) { /* what a replica does depends on nothing but the replicas from it on */
        out[0] = 1;
        return space_takes_turns(config->schedule) && allows(asked, 1) &&
               schedule_takes(schedule, config->stages, 1, config->micro_batch_count);
    }
    int count = 0, values = asked->count > 0 ? asked->count : 1;
    for (int i = 0; i < values; i++) {
        int64_t chunks = asked->count > 0 ? asked->values[i] : schedule_least_chunks(schedule);
        bool fits = chunks >= 1 && chunks <= PLAN_MAX_CHUNKS &&
                    config->micro_batch_count <= PLAN_MAX_MICRO_BATCHES / chunks &&
                    schedule_pieces(schedule, config->stages, (int)chunks) <= l->graph->layer_count;
        if (fits && schedule_takes(schedule, config->stages, (int)chunks, config->micro_batch_count))
            out[count++] = (int)chunks;
    }
    return count;
}

/* Whether any ranks reduce gradients together. */
static bool can_reduce(const struct config *config)
{
    return config->meshes > 0 || mesh_ranks(&config->mesh) > 1;
}

static void add_loss_chunks(struct listing *l, struct config config)
{
    const struct allowed *chunks = &l->space->loss_chunks;
    bool can = l->graph->loss_value >= 0 && !schedules[config.schedule]->asynchronous;
    for (int i = 0; i < (can ? chunks->count : 1); i++) {
        config.loss_chunks = can ? (int)chunks->values[i] : 1;
        add_group_orders(l, config);
    }
}

static void add_prefetches(struct listing *l, struct config config)
{
    int prefetches = l->space->prefetch.count > 0 ? l->space->prefetch.count : 1;
    bool shards = mesh_shards(&config.mesh) > 1;
    for (int p = 0; p < prefetches && (p == 0 || shards); p++) {
        config.prefetch = l->space->prefetch.count > 0 ? (int)l->space->prefetch.values[p] : 1;
        add_loss_chunks(l, config);
    }
}

static void add_buckets(struct listing *l, struct config config)
{
    int sizes = can_reduce(&config) ? l->space->bucket.count : 1;
    for (int i = 0; i < sizes; i++) {
        config.bucket_bytes = l->space->bucket.values[i];
        add_prefetches(l, config);
    }
}

/* Whether so many more in flight make a difference, and the configuration is on the side that is listed. */
static bool takes_extra(const struct listing *l, const struct config *config)
{
    bool differs = config->extra == 0 || (schedules[config->schedule]->takes_extra && config->stages > 1 &&
                                          config->extra < config->micro_batch_count);
    bool listed = l->beside ? !config_is_bounded(config)
                            : config_is_bounded(config) || !space_has_bounded(l->space) ||
                                  schedules[config->schedule]->asynchronous;
    return differs && listed && (config->extra == 0 || config->meshes == 0);
}

static void add_extras(struct listing *l, struct config config)
{
    static const struct allowed none = { 1, { 0 } };
    const struct allowed *extras = l->space->extra.count > 0 && config.stages != 1 ? &l->space->extra
                                   : l->beside                                     ? &usual_extras
                                                                                   : &none;
    for (int i = 0; i < extras->count; i++) {
        config.extra = (int)extras->values[i];
        if (takes_extra(l, &config))
            add_buckets(l, config);
    }
}

void space_add_schedules(struct listing *l, struct config config)
{
    bool any_schedule = false;
    for (int s = 0; schedules[s]; s++) {
        int chunks[SPACE_VALUES];
        if (!offers(l, s) || (any_schedule && config.stages == 1))
            continue;
        config.schedule = s;
        int count = chunk_choices(l, &config, chunks);
        any_schedule |= count > 0;
        for (int c = 0; c < count; c++) {
            config.chunks = chunks[c];
            add_extras(l, config);
        }
    }
}
