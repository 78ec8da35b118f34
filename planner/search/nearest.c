/* Finds, where nothing fits, the one of the thriftiest plans that lacks least. */
#include "planner/estimate/effort.h"
#include "planner/search/search.h"
#include "base/num.h"
#include "planner/cost/cost.h"
#include "planner/estimate/assemble.h"
#include "planner/search/search_parts.h"
#include <stdlib.h>

/* True for one configuration of each (tensor, sequence parallelism, stages, schedule): that of small micro-batches,
 * which need least. Stages of one mesh speak for others. */
static bool may_be_nearest(const struct run *run, int index)
{
    const struct config *config = &run->configs[index], *last = &run->configs[index > 0 ? index - 1 : 0];
    bool repeats = index > 0 && config_tensor(last) == config_tensor(config) && last->stages == config->stages &&
                   last->schedule == config->schedule &&
                   mesh_sequence_parallel(&last->mesh) == mesh_sequence_parallel(&config->mesh);
    return !repeats && config->meshes == 0;
}

struct need {
    int64_t bytes;
    int index; /* of the configuration */
};

static int compare_need(const void *a, const void *b)
{
    const struct need *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* Lists the configurations that may be nearest, those first whose thriftiest plan needs least by a rough count. */
static bool list_thrifty(struct run *run, struct need *list, int *count)
{
    *count = 0;
    for (int i = 0; i < run->config_count + run->unbounded_count; i++) {
        const struct price_table *table = NULL;
        struct arena scratch = { 0 };
        if (!may_be_nearest(run, i))
            continue;
        if (run_stops(run) && *count > 0)
            break;
        if (!workbench_table(&run->bench, &run->configs[i], false, &table, run->err))
            return false;
        if (!table)
            continue;
        const int *in_flight = workbench_in_flight(&scratch, &run->configs[i]);
        if (in_flight)
            list[(*count)++] = (struct need){
                .bytes = assemble_thriftiest_bytes(&run->configs[i], &run->bench.chain, table, in_flight), .index = i
            };
        arena_free(&scratch);
        if (!in_flight)
            return fail_memory(run->err);
    }
    qsort(list, (size_t)*count, sizeof *list, compare_need);
    return true;
}

/* Gives the bytes by which the stage's need exceeds what its devices have. */
static int64_t lacks(const struct prediction *p, int stage)
{
    return p->peak_bytes[stage] - p->available_bytes[stage];
}

static int fullest_stage(const struct prediction *p)
{
    int stage = 0;
    for (int k = 1; k < p->stage_count; k++)
        stage = lacks(p, k) > lacks(p, stage) ? k : stage;
    return stage;
}

/* Gives the most that a device needs of its host's memory, where hosts lack it though devices have room; else 0. */
static int64_t host_needed_bytes(const struct prediction *p)
{
    int64_t most = 0;
    for (int k = 0; p->host_bytes && k < p->stage_count; k++)
        most = max_i64(most, p->host_bytes[k]);
    return lacks(p, fullest_stage(p)) <= 0 && most > p->host_available_bytes ? most : 0;
}

/* Notes for each type of device in the cluster what it has and what the plan needs of it. */
static void note_types(struct run *run, const struct plan *plan, const struct prediction *p)
{
    const struct facts *facts = run->bench.facts;
    struct search_result *result = run->result;
    result->nearest.type_count = facts->cluster->type_count;
    for (int t = 0; t < facts->cluster->type_count; t++) {
        struct shortage *own = &result->nearest.types[t];
        *own = (struct shortage){ facts->cluster->types[t].device.name, -1, 0, facts_available_bytes(facts, t) };
        for (int k = 0; k < p->stage_count; k++) {
            int64_t needed = k == result->nearest.stage ? result->nearest.needed_bytes : p->peak_bytes[k];
            if (cost_stage_types(facts, plan, k) >> t & 1 && needed > own->needed_bytes) {
                own->stage = k;
                own->needed_bytes = needed;
            }
        }
    }
}

/* Keeps the plan and frees it later. promised_bytes is what its fullest stage needed by the first look. */
static void keep_nearest(struct run *run, struct plan *plan, const struct prediction *p, int64_t promised_bytes)
{
    struct search_result *result = run->result;
    int stage = fullest_stage(p);
    int64_t host = host_needed_bytes(p), lacking = host > 0 ? host - p->host_available_bytes : lacks(p, stage);
    if (result->nearest.plan && lacking >= search_missing_bytes(result)) {
        plan_free(plan);
        return;
    }
    plan_free(result->nearest.plan);
    result->nearest.plan = plan;
    result->nearest.stage = stage;
    result->nearest.available_bytes = p->available_bytes[stage];
    result->nearest.host_needed_bytes = host;
    result->nearest.host_available_bytes = p->host_available_bytes;
    result->nearest.fits = lacking <= 0 && host == 0;
    result->nearest.promised_bytes = max_i64(promised_bytes, p->peak_bytes[stage]);
    /* where the plan fits after all, the need by the first look is told, since the search went by that */
    result->nearest.needed_bytes = lacks(p, stage) > 0 ? p->peak_bytes[stage] : result->nearest.promised_bytes;
    note_types(run, plan, p);
}

/* Judges the configuration's thriftiest plan, whose memory gets a second look, as that of all that hardly fit. */
static bool try_nearest(struct run *run, int index)
{
    const struct price_table *table = NULL;
    struct estimate *estimate = NULL;
    struct workbench *bench = &run->bench;
    const struct config *config = &run->configs[index];
    if (!workbench_table(bench, config, false, &table, run->err))
        return false;
    struct arena scratch = { 0 };
    const int *in_flight = workbench_in_flight(&scratch, config);
    struct plan *plan =
        in_flight ? assemble_thriftiest(bench->space, config, bench->graph, &bench->chain, table, in_flight) : NULL;
    arena_free(&scratch);
    if (!plan)
        return fail_memory(run->err);
    bool good = judge_plan(run, plan, table, INT64_MAX, &estimate, run->err);
    int64_t promised_bytes = good ? estimate->prediction.peak_bytes[fullest_stage(&estimate->prediction)] : 0;
    good = good && estimate_settle(estimate, bench->model, plan, bench->facts, run->err);
    if (good)
        keep_nearest(run, plan, &estimate->prediction, promised_bytes);
    else
        plan_free(plan);
    estimate_free(estimate);
    return good;
}

/* Looks at the thriftiest plans until one comes near: layout may need less than expected by one part in
 * NEAREST_DOUBT_SHARE, and after NEAREST_FRUITLESS in a row that came no nearer the rest is left. */
bool nearest_find(struct run *run)
{
    const struct search_result *result = run->result;
    struct need *list = arena_alloc(&run->arena, (size_t)(run->config_count + run->unbounded_count) + 1, sizeof *list);
    int count = 0, fruitless = 0;
    if (!list)
        return fail_memory(run->err);
    if (!list_thrifty(run, list, &count))
        return false;
    for (int i = 0; i < count && fruitless < NEAREST_FRUITLESS; i++) {
        const struct plan *before = result->nearest.plan;
        int64_t need_bytes = list[i].bytes - list[i].bytes / NEAREST_DOUBT_SHARE;
        if (before && (run_stops(run) || need_bytes > result->nearest.needed_bytes))
            return true;
        if (!try_nearest(run, list[i].index))
            return false;
        fruitless = result->nearest.plan == before ? fruitless + 1 : 0;
    }
    return true;
}
