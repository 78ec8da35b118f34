/* The listing of configurations: an odometer over choices.def, whose wheels are the choices in their order. Each takes
 * the values where the search looks (looks_of()) that go with those before it (choice_legal()); what makes no
 * difference is listed once. */
#include "base/num.h"
#include "planner/space/space_parts.h"
#include <string.h>

struct listing {
    struct making making;
    bool unbounded;     /* of schedules that the closed form does not bound (space_configs_unbounded()) */
    bool keeps;         /* else the configurations are only counted */
    struct config *out; /* (count) */
    int count, capacity;
    int64_t batch_below, batch_above; /* the nearest that degrees so far would divide; 0, INT64_MAX: none */
    struct allowed any_groups;        /* of shards, which some layer may have */
    struct allowed groups;            /* those that the mesh can have */
    int order_ranks, order_count;     /* of the cluster's groups for stages of so many ranks; 0: none are known yet */
    struct group_order orders[MOST_GROUP_ORDERS];
    struct arena *arena;           /* of out */
    const struct space_stop *stop; /* NULL: never */
    int asked;                     /* how often it might have been */
    bool ended;                    /* it was time, and the list is not whole */
    bool out_of_memory;
};

/* ---- schedules ---- */

bool config_is_bounded(const struct config *config)
{
    return config->stages == 1 || (schedules[config->schedule]->bounded && config->extra == 0);
}

/* True when the space has pipelines that the closed form bounds. */
static bool has_bounded(const struct space *space)
{
    int s = 0;
    while (schedules[s] && !(schedules[s]->bounded && allowed_has(&space->schedule, s)))
        s++;
    return schedules[s] && allowed_has(&space->chunks, 1) && allowed_has(&space->extra, 0);
}

/* Offers synchronous schedules that are not bounded where none is that is: what is asked for by name, chunks or
 * micro-batches in flight. Asynchronous ones, which are other mathematics, must be named, so that they never win unless
 * somebody wants them. */
static bool offers(const struct listing *l, const struct schedule *schedule)
{
    const struct space *space = l->making.space;
    if (schedule->asynchronous)
        return !l->unbounded && space->schedule.count > 0;
    return l->unbounded || schedule->bounded || !has_bounded(space);
}

/* Gives the chunks that are asked for; unasked as few as the schedule takes, and more beside what is bounded. */
static const struct allowed *chunks_of(const struct listing *l, const struct schedule *schedule)
{
    static const struct allowed usual = { 3, { 1, 2, 4 } }, least[] = { [1] = { 1, { 1 } }, [2] = { 1, { 2 } } };
    const struct allowed *asked = &l->making.space->chunks;
    return asked->count > 0 ? asked : l->unbounded ? &usual : &least[schedule_least_chunks(schedule)];
}

/* True when the schedule takes them; with several meshes only one, so that replicas depend on those behind alone. */
static bool takes_chunks(const struct listing *l, int64_t chunks)
{
    const int64_t *value = l->making.value;
    const struct config *config = &l->making.config;
    return (config->meshes == 0 || (chunks == 1 && space_takes_turns((int)value[CHOICE_SCHEDULE]))) &&
           schedule_takes(schedules[value[CHOICE_SCHEDULE]], (int)value[CHOICE_PP], (int)chunks,
                          config->micro_batch_count);
}

static bool takes_some_chunks(struct listing *l)
{
    const struct allowed *chunks = chunks_of(l, schedules[l->making.value[CHOICE_SCHEDULE]]);
    for (int i = 0; i < chunks->count; i++) {
        l->making.value[CHOICE_INTERLEAVE] = chunks->values[i];
        if (takes_chunks(l, chunks->values[i]) && choice_legal(&l->making, CHOICE_INTERLEAVE, NULL))
            return true;
    }
    return false;
}

/* True when so many more in flight make a difference, and the configuration is on the side that is listed. */
static bool takes_extra(const struct listing *l)
{
    const struct making *m = &l->making;
    const struct schedule *schedule = schedules[m->value[CHOICE_SCHEDULE]];
    int64_t stages = m->value[CHOICE_PP], extra = m->value[CHOICE_EXTRA];
    bool differs = schedule->takes_extra && stages > 1 && extra < m->config.micro_batch_count && m->config.meshes == 0,
         bounded = stages == 1 || (schedule->bounded && extra == 0);
    return (extra == 0 || differs) &&
           (l->unbounded ? !bounded : bounded || !has_bounded(m->space) || schedule->asynchronous);
}

/* ---- where the search looks ---- */

/* The values of a choice that are tried in turn: those of a list, or those `within` from `first` to `last`. */
struct looks {
    const struct allowed *list, *within; /* NULL: none; all */
    int64_t first, last;
};

static struct looks between(int64_t first, int64_t last, const struct allowed *within)
{
    return (struct looks){ .within = within, .first = first, .last = last };
}

static struct looks only(int64_t value)
{
    return between(value, value, NULL);
}

static struct looks listed(const struct allowed *list)
{
    return (struct looks){ .list = list };
}

/* Groups of shards that the data-parallel ranks can make: a mesh with groups has the strategies without, too. */
static struct looks groups_of(struct listing *l)
{
    struct degrees degrees = making_degrees(&l->making);
    l->groups.count = 0;
    for (int i = 0; i < l->any_groups.count && dimensions[degrees.data_dimension]->shard; i++) {
        int64_t group = l->any_groups.values[i];
        if (group >= 1 && group < degrees.data && mesh_legal(&degrees, (int)group))
            l->groups.values[l->groups.count++] = group;
    }
    return l->groups.count > 0 ? listed(&l->groups) : only(0);
}

/* Says where the search looks. Where nobody restricts a choice (range->count 0) this may depend on the model, the
 * cluster and the choices before it; that is said here and nowhere else. */
static struct looks looks_of(struct listing *l, enum space_choice choice)
{
    static const struct allowed none = { 1, { 0 } }, both = { 2, { 1, 0 } }, usual_extras = { 3, { 0, 1, 2 } };
    const struct making *m = &l->making;
    const struct space *space = m->space;
    const struct allowed *range = &space->range[choice];
    const int64_t *value = m->value;
    int devices = m->cluster->device_count, left = value[CHOICE_PP] > 0 ? making_ranks(m) / (int)value[CHOICE_PP] : 0;
    switch ((int)choice) {
    case CHOICE_TP:
        return between(1, min_i64(cluster_node_size(m->cluster), devices), range);
    case CHOICE_CP:
        return between(1, devices / value[CHOICE_TP], range);
    case CHOICE_TURNS: /* one mesh for each stage, then as many as the cut decides */
        return allowed_several(range) ? allowed_has(range, 1) ? listed(&both) : only(0)
                                      : between(1, allowed_has(range, 1), NULL);
    case CHOICE_PP: /* all numbers are one configuration where stages may have several meshes, unless restricted */
        if (value[CHOICE_TURNS] == 1)
            return between(1, min_i64(m->graph->layer_count, making_ranks(m)), range);
        return range->count > 0 ? listed(range) : only(0);
    case CHOICE_DP:
        return value[CHOICE_TURNS] == 1 ? between(left, left, range) : between(1, making_ranks(m) / 2, range);
    case CHOICE_MICRO:
        return between(1, space->batch / value[CHOICE_DP], range);
    case CHOICE_SP:
        return value[CHOICE_TP] == 1
                   ? only(0)
                   : between(0, m->graph->sequence % (value[CHOICE_TP] * value[CHOICE_CP]) == 0, range);
    case CHOICE_TP_DIMENSION:
        return between(DIM_none + 1, DIM_COUNT - 1, value[CHOICE_SP] ? NULL : range);
    case CHOICE_CP_DIMENSION:
        return value[CHOICE_CP] > 1 ? between(DIM_none + 1, DIM_COUNT - 1, range) : only(DIM_none);
    case CHOICE_DP_DIMENSION:
        return between(DIM_none + 1, DIM_COUNT - 1, range);
    case CHOICE_EP_OVER:
        return m->expert_most > 1 ? between(0, EXPERTS_OVER_COUNT - 1, range) : only(EXPERTS_OVER_DATA);
    case CHOICE_EP:
        return between(1, m->expert_most, range);
    case CHOICE_ORDER:
        return between(0, ORDER_COUNT - 1, range);
    case CHOICE_HSDP:
        return groups_of(l);
    case CHOICE_SCHEDULE:
        return between(0, SCHEDULE_COUNT - 1, range);
    case CHOICE_INTERLEAVE:
        return listed(chunks_of(l, schedules[value[CHOICE_SCHEDULE]]));
    case CHOICE_EXTRA:
        return listed(range->count > 0 && value[CHOICE_PP] != 1 ? range : l->unbounded ? &usual_extras : &none);
    case CHOICE_LOSS_CHUNKS: /* want a loss, and a backward pass that sees the same weights */
        if (m->graph->loss_value < 0 || schedules[value[CHOICE_SCHEDULE]]->asynchronous)
            return only(choice_facts[choice].usual);
    }
    return range->count > 0 ? listed(range) : only(choice_facts[choice].usual);
}

/* True when the choice's value says more than any other would. */
static bool matters(const struct listing *l, enum space_choice choice)
{
    const int64_t *value = l->making.value;
    const struct config *config = &l->making.config;
    switch ((int)choice) {
    case CHOICE_TP_DIMENSION: /* one rank has one name */
        return value[CHOICE_TP] > 1;
    case CHOICE_DP_DIMENSION:
        return value[CHOICE_DP] > 1;
    case CHOICE_ORDER: /* which ranks are neighbours, where there are some of two kinds */
        return (value[CHOICE_TP] > 1) + (value[CHOICE_CP] > 1) + (value[CHOICE_DP] > 1) > 1;
    case CHOICE_SCHEDULE: /* one stage has none */
        return value[CHOICE_PP] != 1;
    case CHOICE_BUCKET: /* whether any ranks reduce gradients together */
        return config->meshes > 0 || mesh_ranks(&config->mesh) > 1;
    case CHOICE_PREFETCH: /* whether any gather */
        return mesh_shards(&config->mesh) > 1;
    }
    return true;
}

/* ---- the odometer ---- */

static bool set_turns(struct listing *l)
{
    struct config *config = &l->making.config;
    int turns[SPACE_MOST_TURNS], count = config->meshes > 0 ? space_turns_of(&l->making, turns) : 0;
    config->shape_count = count;
    config->turns = count > 0 && l->keeps ? arena_alloc(l->arena, (size_t)count, sizeof *turns) : NULL;
    l->out_of_memory = l->out_of_memory || (count > 0 && l->keeps && !config->turns);
    if (config->turns)
        memcpy((int *)config->turns, turns, (size_t)count * sizeof *turns);
    return config->meshes == 0 || count > 0;
}

/* Takes degrees that lie in a node and leave each rank tokens enough to hide what they exchange, and of these the
 * powers of two: of others the search would ask as often for little. */
bool space_usual_context(const struct cluster *cluster, int64_t tokens, int64_t context)
{
    enum { LEAST_TOKENS = 2048 };
    return context == 1 || ((context & (context - 1)) == 0 && context <= cluster_node_size(cluster) &&
                            tokens / context >= LEAST_TOKENS);
}

/* True when other ranks share out experts so than with less reach, since those of one rank say what others do. */
static bool wants_over(const struct making *m, int64_t over)
{
    const struct allowed *range = &m->space->experts_over;
    return !(over == EXPERTS_OVER_TENSOR && m->value[CHOICE_TP] == 1 && allowed_has(range, EXPERTS_OVER_CONTEXT)) &&
           !(over == EXPERTS_OVER_CONTEXT && m->value[CHOICE_CP] == 1 && allowed_has(range, EXPERTS_OVER_DATA));
}

/* True when a legal value leads to configurations that the search wants. */
static bool wanted(struct listing *l, enum space_choice choice)
{
    const struct making *m = &l->making;
    switch ((int)choice) {
    case CHOICE_CP:
        return m->space->context.count > 0 || space_usual_context(m->cluster, m->graph->sequence, m->value[choice]);
    case CHOICE_EP_OVER:
        return wants_over(m, m->value[choice]);
    case CHOICE_EP: /* where none are shared out one is as good as another */
        for (int over = 0; m->value[choice] == 1 && over < m->value[CHOICE_EP_OVER]; over++)
            if (allowed_has(&m->space->experts_over, over) && wants_over(m, over))
                return false;
        return true;
    case CHOICE_DP:
        return m->config.meshes == 0 || m->value[CHOICE_PP] < m->config.meshes;
    case CHOICE_MICRO:
        return set_turns(l);
    case CHOICE_HSDP:
        return space_strategies(m->space, &m->config.mesh, NULL) > 0;
    case CHOICE_SCHEDULE:
        return offers(l, schedules[m->value[choice]]) && takes_some_chunks(l);
    case CHOICE_INTERLEAVE:
        return takes_chunks(l, m->value[choice]);
    case CHOICE_EXTRA:
        return takes_extra(l);
    }
    return true;
}

/* Adds configurations when all choices are made. One stage has the cluster's own order of types. Stages of several
 * meshes begin at an end of it: in other orders the cut would decide whether a stage's meshes are neighbours. */
static void add_configs(struct listing *l)
{
    struct config *config = &l->making.config;
    int ranks = mesh_ranks(&config->mesh);
    making_settle(&l->making);
    if (l->order_ranks != ranks)
        l->order_count = group_orders(l->orders, l->making.cluster, ranks);
    l->order_ranks = ranks;
    for (int i = 0; i < l->order_count; i++) {
        int index = l->orders[i].index;
        config->order = l->orders[i];
        if (index == OWN_ORDER ||
            (config->meshes == 0 ? config->stages > 1 : index == REVERSED_ORDER && config->meshes > 1)) {
            struct config *list = l->keeps ? arena_more(l->arena, l->out, l->count, &l->capacity, sizeof *list) : NULL;
            if (list) {
                l->out = list;
                list[l->count] = *config;
            }
            l->out_of_memory = l->out_of_memory || (l->keeps && !list);
            l->count += !l->out_of_memory;
        }
    }
}

/* True when the listing ends here, whole or not; it is asked for each size of micro-batches. */
static bool ends(struct listing *l)
{
    enum { EVERY = 64 };
    if (l->stop && !l->ended && l->asked++ % EVERY == 0)
        l->ended = l->count > l->stop->most || l->stop->stops(l->stop->self);
    return l->ended;
}

/* Gives the smallest micro-batch of at least `micro` sequences that divides a rank's share into no more than can be
 * run; more than `last` where none does. */
static int64_t next_micro(const struct making *m, int64_t micro, int64_t last)
{
    int64_t share = m->space->batch / m->value[CHOICE_DP];
    for (int64_t count = min_i64(share / micro, PLAN_MAX_MICRO_BATCHES); count > 0; count--)
        if (share % count == 0)
            return share / count;
    return last + 1;
}

/* Turns the wheel of the choice, and for each of its values those behind it. */
static void turn(struct listing *l, enum space_choice choice)
{
    if (choice == LISTED_CHOICES) {
        add_configs(l);
        return;
    }
    if (choice == CHOICE_MICRO + 1 && ends(l))
        return;
    struct looks looks = looks_of(l, choice);
    int64_t last = looks.list ? looks.list->count - 1 : looks.last;
    for (int64_t at = looks.list ? 0 : looks.first; at <= last && !l->ended; at++) {
        if (choice == CHOICE_MICRO && !looks.list && (at = next_micro(&l->making, at, last)) > last)
            break;
        int64_t value = looks.list ? looks.list->values[at] : at;
        if (looks.within && !allowed_has(looks.within, value))
            continue;
        l->making.value[choice] = value;
        if (choice == CHOICE_DP) {
            /* the nearest batches that the data degree would divide are noted */
            const struct allowed *micro = &l->making.space->micro;
            int64_t batch = l->making.space->batch, data = l->making.value[CHOICE_DP];
            for (int i = 0; i < max_i64(micro->count, 1); i++) {
                int64_t unit = micro->count > 0 ? data * max_i64(micro->values[i], 1) : data;
                l->batch_below = max_i64(l->batch_below, (batch - 1) / unit * unit);
                l->batch_above = min_i64(l->batch_above, batch / unit * unit + unit);
            }
        }
        if (!choice_legal(&l->making, choice, NULL) || !wanted(l, choice))
            continue;
        turn(l, choice + 1);
        if (!matters(l, choice))
            break;
    }
}

static struct listing list_of(const struct space *space, const struct graph *graph, const struct cluster *cluster)
{
    return (struct listing){ .making = making_of(space, graph, cluster),
                             .any_groups = space_any_layer(space, CHOICE_HSDP),
                             .batch_above = INT64_MAX };
}

int space_count(const struct space *space, const struct graph *graph, const struct cluster *cluster)
{
    struct listing l = list_of(space, graph, cluster);
    turn(&l, 0);
    return l.count;
}

/* Goes from one batch that some degrees divide to the next, until all other rules are kept too. */
int64_t space_nearest_batch(const struct space *space, const struct graph *graph, const struct cluster *cluster,
                            bool above)
{
    enum { TRIES = 64 };
    struct space other = *space;
    for (int i = 0; i <= TRIES; i++) {
        struct listing l = list_of(&other, graph, cluster);
        turn(&l, 0);
        if (i > 0 && l.count > 0)
            return other.batch;
        other.batch = above ? l.batch_above : l.batch_below;
        if (other.batch < 1 || other.batch == INT64_MAX)
            break;
    }
    return 0;
}

/* Keeps all of the listing, in the arena, behind those that *out has. */
static bool keep_configs(struct listing *l, struct config **out, int *count, struct arena *arena, struct error *err)
{
    l->keeps = true;
    l->arena = arena;
    l->out = *out;
    l->count = l->capacity = *count;
    turn(l, 0);
    *out = l->out;
    *count = l->count;
    return !l->out_of_memory ||
           fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory for %d configurations", l->count);
}

bool space_configs_until(struct config **out, int *count, struct arena *arena, const struct space *space,
                         const struct graph *graph, const struct cluster *cluster, const struct space_stop *stop,
                         bool *ended, struct error *err)
{
    struct listing l = list_of(space, graph, cluster);
    l.stop = stop;
    *out = NULL;
    *count = 0;
    if (!space_check_turns(space, err) || !keep_configs(&l, out, count, arena, err))
        return false;
    *ended = l.ended;
    if (l.ended)
        *count = 0;
    return true;
}

bool space_configs_unbounded(struct config **out, int *count, struct arena *arena, const struct space *space,
                             const struct graph *graph, const struct cluster *cluster, struct error *err)
{
    struct listing l = list_of(space, graph, cluster);
    l.unbounded = true;
    return !has_bounded(space) || keep_configs(&l, out, count, arena, err);
}

bool space_configs(struct config **out, int *count, struct arena *arena, const struct space *space,
                   const struct graph *graph, const struct cluster *cluster, struct error *err)
{
    return space_configs_until(out, count, arena, space, graph, cluster, NULL, &(bool){ false }, err);
}
