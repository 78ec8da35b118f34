#include "planner/estimate/effort.h"
#include "planner/search/advice.h"
#include "planner/search/kept.h"
#include "base/num.h"
#include "models/model.h"
#include "planner/price/shelf.h"

enum { MOST_STEPS = 64, ADVISED_BITS = 4 };

const char *const advice_names[ADVICE_COUNT] = { [ADVICE_BATCH] = "batch",
                                                 [ADVICE_MICRO] = "micro-batch",
                                                 [ADVICE_SEQUENCE] = "sequence",
                                                 [ADVICE_DEVICES] = "devices",
                                                 [ADVICE_BITS] = "bits of frozen matrices",
                                                 [ADVICE_MEMORY] = "memory per device" };

struct adviser {
    const struct model *model;
    struct model *quantized; /* the same with its frozen matrices in few bits; NULL: they are, or there are none */
    const struct facts *facts;
    const struct search_options *options; /* the user's */
    struct search_options narrowed;
    struct price_shelf *prices; /* of all searches: of other batches and clusters layers have the same samples */
    int64_t start_ns;
};

/* Leaves each choice the one value that takes least memory, unless the user restricts it to others. */
static struct search_options narrow_options(const struct search_options *options)
{
    struct search_options narrowed = {
        .space = options->space, .top = 1, .rank_count = 1, .no_advice = true, .thrifty = true, .calls = options->calls
    };
    narrowed.calls.progress = NULL;
    allowed_narrow(&narrowed.space.zero, 3);
    /* blocks that are computed again keep less, layers need less at a time */
    if (narrowed.space.recompute.count != 2 || !allowed_has(&narrowed.space.recompute, RECOMPUTE_BLOCK))
        allowed_narrow(&narrowed.space.recompute, RECOMPUTE_FULL);
    allowed_narrow(&narrowed.space.excepted, 0);
    allowed_narrow(&narrowed.space.offload,
                   allowed_has(&narrowed.space.offload, OFFLOAD_ALL) ? OFFLOAD_ALL : OFFLOAD_BOTH);
    allowed_narrow(&narrowed.space.reshard, RESHARD_EACH_PASS);
    allowed_narrow(&narrowed.space.replicate, 0);
    allowed_narrow(&narrowed.space.micro, 1);
    allowed_narrow(&narrowed.space.prefetch, 1);
    return narrowed;
}

/* Leaves *plan NULL where nothing fits with the value, or where it cannot be shared out: then it is not *legal. */
static bool find_plan(const struct adviser *a, enum advice_kind kind, int64_t value, struct plan **plan, bool *legal,
                      struct error *err)
{
    bool hopeless = false; /* of 60 searches for llama-3-405b on 16 H100 this spares 52 */
    const struct model *model = kind == ADVICE_BITS ? a->quantized : a->model;
    struct error why = { 0 };
    struct cluster *cluster = NULL;
    struct search_result *result = NULL;
    struct search_options options = a->narrowed;
    options.any_plan = true;
    options.skip |= 1u << PART_UNBOUNDED; /* other schedules hardly fit where none does that the closed form bounds */
    options.prices = kind == ADVICE_SEQUENCE || kind == ADVICE_BITS ? NULL : a->prices;
    struct facts facts = *a->facts;
    int times = kind == ADVICE_DEVICES ? (int)(value / facts.cluster->device_count) : 1;
    if (kind == ADVICE_BATCH)
        options.space.batch = value;
    if (kind == ADVICE_MICRO)
        options.space.micro = (struct allowed){ 1, { value } };
    if (kind == ADVICE_SEQUENCE)
        options.space.sequence = value;
    if (kind == ADVICE_DEVICES)
        options.space.data.count = 0; /* a fixed data-parallel degree cannot be kept with more devices */
    if (a->options->time_limit_ns > 0)
        options.time_limit_ns = max_i64(1, search_time_left(a->options, a->start_ns));
    bool good = cluster_scaled(&cluster, facts.cluster, times, &why);
    for (int type = 0; good && kind == ADVICE_MEMORY && type < cluster->type_count; type++)
        cluster->types[type].device.host_memory_bytes = value;
    facts.cluster = cluster;
    good = good && search_is_hopeless(&hopeless, model, &facts, &options.space, &why) &&
           (hopeless || search_run(&result, model, &facts, &options, &why));
    *plan = NULL;
    *legal = hopeless || (good && !result->why); /* a hopeless space has plans, all too large */
    if (good && !hopeless && result->feasible) {
        *plan = result->plans[0].plan;
        result->plans[0].plan = NULL; /* handed over */
    }
    search_result_free(result);
    cluster_free(cluster);
    return good || why.kind == ERROR_INPUT || fail_with(err, &why);
}

/* Gives the value that the search ran with; 0 where the user does not restrict it, since then all were tried. */
static int64_t now_of(const struct adviser *a, enum advice_kind kind)
{
    const struct space *space = &a->options->space;
    int64_t least = space->micro.count > 0 ? INT64_MAX : 0;
    for (int i = 0; i < space->micro.count; i++)
        least = min_i64(least, space->micro.values[i]);
    return kind == ADVICE_BATCH      ? space->batch
           : kind == ADVICE_MICRO    ? least
           : kind == ADVICE_SEQUENCE ? (space->sequence > 0 ? space->sequence : a->model->sequence)
           : kind == ADVICE_BITS     ? (a->quantized ? 8 * weight_bytes_per_element(space->dtype) : 0)
                                     : a->facts->cluster->device_count;
}

/* Lists the values to try, the smallest change first, so that the first with a plan is the advice. */
static int steps_of(const struct adviser *a, enum advice_kind kind, int64_t now, int64_t out[MOST_STEPS])
{
    int count = 0;
    int64_t shared = round_up(max_i64(now, 1), a->facts->cluster->device_count);
    if (kind == ADVICE_BITS) {
        out[0] = ADVISED_BITS;
        return now > 0;
    }
    for (int64_t times = 2; kind == ADVICE_DEVICES && times <= ADVICE_TIMES; times *= 2)
        out[count++] = now * times;
    int most = kind == ADVICE_SEQUENCE ? ADVICE_HALVES : MOST_STEPS;
    for (int64_t less = now / 2; kind != ADVICE_DEVICES && less >= 1 && count < most; less /= 2)
        out[count++] = less;
    if (kind == ADVICE_BATCH && shared != now)
        out[count++] = shared;
    return count;
}

/* Looks for a plan with the value, unless time is over. */
static bool ask(const struct adviser *a, enum advice_kind kind, int64_t value, struct advice *out, bool *legal,
                struct error *err)
{
    struct error why = { 0 };
    bool good = search_time_left(a->options, a->start_ns) > 0 && find_plan(a, kind, value, &out->plan, legal, &why);
    out->ended = !good && search_time_left(a->options, a->start_ns) == 0;
    return good || out->ended || fail_with(err, &why);
}

static bool look_for(const struct adviser *a, enum advice_kind kind, struct advice *out, struct error *err)
{
    int64_t steps[MOST_STEPS];
    out->now = now_of(a, kind);
    int count = steps_of(a, kind, out->now, steps);
    bool legal = kind != ADVICE_SEQUENCE;
    for (; count > 0 && !legal && !out->ended; count -= !legal) /* where the shortest does not fit none does */
        if (!ask(a, kind, steps[count - 1], out, &legal, err))
            return false;
    bool looks = kind != ADVICE_SEQUENCE || out->plan;
    plan_free(out->plan);
    out->plan = NULL;
    for (int i = 0; i < count && looks && !out->plan && !out->ended; i++)
        if (!ask(a, kind, out->value = steps[i], out, &legal, err))
            return false;
    out->value = out->plan ? out->value : 0;
    return true;
}

/* Says how much memory devices, all of one size, need: what the fullest stage needs and what any keeps for itself. */
static bool advise_memory(const struct facts *facts, struct search_result *result, struct error *err)
{
    struct advice *advice = &result->nearest.advice[ADVICE_MEMORY];
    int64_t most_kept_bytes = 0, needed_bytes = result->nearest.promised_bytes;
    for (int type = 0; type < facts->cluster->type_count; type++) {
        const struct shortage *own = &result->nearest.types[type];
        int64_t all_bytes = facts->cluster->types[type].device.memory_bytes,
                kept_bytes = all_bytes - own->available_bytes;
        most_kept_bytes = max_i64(most_kept_bytes, kept_bytes);
        needed_bytes = max_i64(needed_bytes, own->needed_bytes);
        if (own->stage == result->nearest.stage && own->available_bytes == result->nearest.available_bytes)
            advice->now = all_bytes;
    }
    advice->value = round_up(needed_bytes + most_kept_bytes, INT64_C(1) << 20);
    advice->plan = plan_copy(result->nearest.plan);
    return advice->plan || fail_memory(err);
}

/* Says how much of their hosts' memory devices need: less than the thriftiest plan, as far as they have room. */
static bool advise_host(const struct adviser *a, struct search_result *result, struct error *err)
{
    struct advice *advice = &result->nearest.advice[ADVICE_MEMORY];
    int64_t most_bytes = result->nearest.host_needed_bytes,
            room_bytes = result->nearest.available_bytes - result->nearest.needed_bytes;
    advice->now = result->nearest.host_available_bytes;
    for (int share = 1; share <= HOST_ADVICE_SHARE && !advice->plan; share *= 2) {
        struct error why = { 0 };
        int64_t bytes = max_i64(advice->now, most_bytes - room_bytes / share);
        advice->value = round_up(bytes + bytes / 100 * HOST_MARGIN_PERCENT, INT64_C(1) << 20);
        if (search_time_left(a->options, a->start_ns) == 0)
            break;
        bool legal;
        if (!find_plan(a, ADVICE_MEMORY, advice->value, &advice->plan, &legal, &why) &&
            search_time_left(a->options, a->start_ns) > 0)
            return fail_with(err, &why);
    }
    if (!advice->plan) {
        advice->value = round_up(most_bytes, INT64_C(1) << 20);
        advice->plan = plan_copy(result->nearest.plan);
    }
    return advice->plan || fail_memory(err);
}

/* Copies the model with its frozen matrices in few bits, where there are such in 16. */
static bool quantize(struct adviser *a, struct error *err)
{
    bool some = false;
    if (!model_copy(&a->quantized, a->model, err))
        return false;
    bool good = model_quantize(a->quantized, QUANTIZED_NF4_DOUBLE, false, &some);
    if (!some) {
        model_free(a->quantized);
        a->quantized = NULL;
    }
    return good || fail_memory(err);
}

bool advice_find(struct search_result *result, const struct model *model, const struct facts *facts,
                 const struct search_options *options, int64_t start_ns, struct error *err)
{
    struct price_shelf shelf;
    struct adviser adviser = { .model = model,
                               .facts = facts,
                               .options = options,
                               .narrowed = narrow_options(options),
                               .prices = options->prices ? options->prices : &shelf,
                               .start_ns = start_ns };
    const char *name = facts->cluster->name;
    bool good = true;
    bool of_hosts = result->nearest.host_needed_bytes > 0;
    struct allowed *offload = &adviser.narrowed.space.offload;
    if (of_hosts && offload->count == 1 && allowed_has(&options->space.offload, OFFLOAD_NONE))
        *offload = (struct allowed){ 2, { OFFLOAD_NONE, offload->values[0] } }; /* layers may decide unlike */
    if (!quantize(&adviser, err))
        return false;
    price_shelf_open(&shelf);
    for (int kind = 0; kind < ADVICE_MEMORY && good; kind++)
        good = look_for(&adviser, (enum advice_kind)kind, &result->nearest.advice[kind], err);
    good = good && (of_hosts ? advise_host(&adviser, result, err) : advise_memory(facts, result, err));
    price_shelf_close(&shelf);
    model_free(adviser.quantized);
    result->nearest.cluster = good ? arena_strdup(&result->arena, name ? name : "") : NULL;
    return result->nearest.cluster || (good && fail_memory(err));
}

struct search_options advice_thrifty(const struct search_options *options)
{
    struct search_options narrowed = narrow_options(options);
    narrowed.space.offload = options->space.offload; /* the host has no room without end: layers may decide unlike */
    narrowed.tight = true;
    narrowed.paced = options->paced;
    narrowed.prices = options->prices;
    narrowed.rates = options->rates;
    narrowed.paces = options->paces;
    /* ZeRO stage 0 stays beside 3, since a mesh on which nothing can be sharded lists its strategies under 0 */
    if (allowed_has(&options->space.zero, 0) && allowed_has(&options->space.zero, 3))
        narrowed.space.zero = (struct allowed){ .count = 2, .values = { 0, 3 } };
    return narrowed;
}

bool advice_keep_least(struct search_options *narrowed)
{
    struct allowed *recompute = &narrowed->space.recompute, *zero = &narrowed->space.zero;
    bool more = narrowed->space.offload.count > 1 && recompute->count + zero->count > 2;
    int64_t least = allowed_has(recompute, RECOMPUTE_BLOCK) ? RECOMPUTE_BLOCK : RECOMPUTE_FULL;
    if (!more || !allowed_has(recompute, least) || !allowed_has(zero, 3))
        return false;
    *recompute = allowed_only(least);
    *zero = allowed_only(3);
    narrowed->rank_count = 0;
    return true;
}

bool advice_find_thrifty(struct search_result *result, const struct model *model, const struct facts *facts,
                         const struct search_options *options, int64_t start_ns, struct error *err)
{
    struct search_options narrowed = advice_thrifty(options);
    do {
        struct search_result *thrifty = NULL;
        struct error why = { 0 };
        int64_t left_ns = search_time_left(options, start_ns);
        if (left_ns == 0)
            return true;
        narrowed.time_limit_ns = options->time_limit_ns > 0 ? left_ns : 0;
        if (!search_run(&thrifty, model, facts, &narrowed, &why))
            return why.kind == ERROR_INPUT || search_time_left(options, start_ns) == 0 || fail_with(err, &why);
        if (thrifty->feasible) {
            result->plans[result->plan_count++] = thrifty->plans[0]; /* handed over */
            thrifty->plan_count = 0;
        }
        search_result_free(thrifty);
    } while (result->plan_count == 0 && advice_keep_least(&narrowed));
    return true;
}
