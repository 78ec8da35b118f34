#include "planner/search/advice.h"
#include "base/num.h"
#include <stdio.h>
#include <string.h>

enum { MOST_TIMES = 64 };

static void narrow(struct allowed *allowed, int64_t value)
{
    if (allowed->count == 0 || allows(allowed, value))
        *allowed = (struct allowed){ 1, { value } };
}

/* One of each: the thriftiest, unless the user forbids it. A fixed data-parallel degree, which cannot be kept with more
 * devices, is the only restriction that is lifted. */
static struct search_options narrow_options(const struct search_options *options)
{
    struct search_options narrowed = { .space = options->space,
                                       .top = 1,
                                       .rank_count = 1,
                                       .no_advice = true,
                                       .time_limit_ns = options->time_limit_ns,
                                       .calls = options->calls };
    narrowed.calls.progress = NULL;
    narrow(&narrowed.space.zero, 3);
    narrow(&narrowed.space.recompute, RECOMPUTE_FULL);
    narrow(&narrowed.space.micro, 1);
    narrow(&narrowed.space.prefetch, 1);
    narrowed.space.data.count = 0;
    return narrowed;
}

/* Time left of the search; 0: it is over, by the clock or by cancellation. */
static int64_t time_left(const struct search_options *options, int64_t start_ns)
{
    const struct search_calls *calls = &options->calls;
    if (calls->cancelled && calls->cancelled(calls->self))
        return 0;
    if (options->time_limit_ns <= 0 || !calls->now_ns)
        return INT64_MAX;
    return max_i64(0, options->time_limit_ns - (calls->now_ns(calls->self) - start_ns));
}

/* *plan NULL: nothing fits on so many nodes, or the batch cannot be shared out over them. */
static bool plan_on(struct plan **plan, int times, const struct model *model, const struct facts *facts,
                    const struct search_options *options, struct error *err)
{
    struct error why = { 0 };
    struct cluster *cluster = NULL;
    struct search_result *result = NULL;
    bool good = cluster_scaled(&cluster, facts->cluster, times, &why);
    if (good) {
        struct facts larger = { cluster, facts->profile };
        good = search_run(&result, model, &larger, options, &why);
    }
    *plan = NULL;
    if (good && result->feasible) {
        *plan = result->plans[0].plan;
        result->plans[0].plan = NULL; /* handed over */
    }
    search_result_free(result);
    cluster_free(cluster);
    return good || why.kind == ERROR_INPUT || fail_kind(err, why.kind, "%s", why.message);
}

bool advise(struct search_result *result, const struct model *model, const struct facts *facts,
            const struct search_options *options, int64_t start_ns, struct error *err)
{
    struct search_options narrowed = narrow_options(options);
    int64_t kept_bytes = 0; /* of the device that keeps most for itself */
    for (int type = 0; type < facts->cluster->type_count; type++)
        kept_bytes =
            max_i64(kept_bytes, facts->cluster->types[type].device.memory_bytes - facts_available_bytes(facts, type));
    result->nearest.memory_bytes = round_up(result->nearest.needed_bytes + kept_bytes, INT64_C(1) << 20);
    for (int times = 2; times <= MOST_TIMES && !result->nearest.times_plan; times *= 2) {
        int64_t left_ns = time_left(options, start_ns);
        struct error why = { 0 };
        narrowed.time_limit_ns = options->time_limit_ns > 0 ? left_ns : 0;
        bool good = left_ns > 0 && plan_on(&result->nearest.times_plan, times, model, facts, &narrowed, &why);
        result->nearest.ended = !good && time_left(options, start_ns) == 0;
        if (result->nearest.ended)
            break;
        if (!good)
            return fail_kind(err, why.kind, "%s", why.message);
        result->nearest.times = result->nearest.times_plan ? times : 0;
    }
    const char *name = facts->cluster->name;
    result->nearest.cluster = arena_strdup(&result->arena, name ? name : "");
    return result->nearest.cluster || fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
}
