/* Configurations of which one may be the best under other facts of the same devices: those of the candidates, by what
 * the formula says of them, and of each kind of mesh those whose bound is not far above the best. Who asks about many
 * such facts looks among them alone. */
#include "planner/estimate/effort.h"
#include "planner/search/propose_parts.h"
#include <stdlib.h>

/* Lists the candidates' configurations, and those that differ in prefetch alone, since these may need less memory. */
static bool list_candidates(struct run *run)
{
    struct search_result *result = run->result;
    struct ordered *order = arena_alloc(&run->arena, (size_t)run->candidate_count + 1, sizeof *order);
    bool *seen = arena_alloc(&run->arena, (size_t)run->config_count, sizeof *seen);
    if (!order || !seen)
        return fail_memory(run->err);
    for (int i = 0; i < run->candidate_count; i++)
        order[i] = (struct ordered){ run->candidates[i].solution.step_ns, run->candidates[i].config };
    qsort(order, (size_t)run->candidate_count, sizeof *order, ordered_compare);
    for (int i = 0; i < run->candidate_count; i++) {
        int config = order[i].index;
        for (int k = config > 1 ? config - 2 : 0; k < run->config_count && k <= config + 2; k++)
            if (!seen[k] && run->configs[k].meshes == 0 && result->near_count < OTHER_FACTS_CANDIDATES &&
                config_equal_but(&run->configs[k], &run->configs[config], BUT_PREFETCH)) {
                seen[k] = true;
                result->near[result->near_count++] = run->configs[k];
            }
    }
    return true;
}

/* Lists open and solved ones by bound, a few of each kind of mesh, as bounds of like configurations are alike. */
static bool list_others(struct run *run)
{
    struct search_result *result = run->result;
    const struct certificate *c = &result->certificate;
    const struct queue *queue = run->queue;
    int64_t far_ns = run->best_ns + run->best_ns / OTHER_FACTS_SHARE;
    struct ordered *list = arena_alloc(&run->arena, (size_t)(queue->count + c->record_count) + 1, sizeof *list);
    int count = 0, first = result->near_count;
    if (!list)
        return fail_memory(run->err);
    for (int i = 0; i < queue->count; i++)
        list[count++] = queue->list[i].at;
    for (int i = 0; i < c->record_count; i++)
        if (c->records[i].fate == FATE_SOLVED)
            list[count++] = (struct ordered){ c->records[i].first_ns, c->records[i].config };
    qsort(list, (size_t)count, sizeof *list, ordered_compare);
    for (int i = 0; i < count && list[i].bound_ns < far_ns && result->near_count - first < OTHER_FACTS_BOUNDED; i++) {
        const struct config *config = &run->configs[list[i].index];
        int kin = config->meshes > 0 ? OTHER_FACTS_KIN : 0;
        for (int k = 0; k < result->near_count && kin < OTHER_FACTS_KIN; k++) {
            const struct config *other = &result->near[k];
            bool alike = k >= first && other->stages == config->stages &&
                         config_tensor(other) == config_tensor(config) && config_data(other) == config_data(config) &&
                         mesh_expert(&other->mesh) == mesh_expert(&config->mesh);
            kin += config_equal_but(other, config, BUT_PREFETCH) ? OTHER_FACTS_KIN : alike;
        }
        if (kin < OTHER_FACTS_KIN)
            result->near[result->near_count++] = *config;
    }
    return true;
}

/* True when many configurations lack memory: any of them may be the best with a little more, so none is called near. */
static bool memory_decides(const struct certificate *c)
{
    int64_t lacking = 0;
    for (int i = 0; i < c->record_count; i++)
        lacking += c->records[i].fate == FATE_MEMORY;
    return lacking > c->configurations / OTHER_FACTS_LACKING;
}

bool near_list(struct run *run)
{
    struct search_result *result = run->result;
    if (!run->options->prices || run->options->among_count > 0 || !run->queue || result->plan_count == 0 ||
        run->best_ns == INT64_MAX || memory_decides(&result->certificate))
        return true;
    result->near = arena_alloc(&result->arena, OTHER_FACTS_CANDIDATES + OTHER_FACTS_BOUNDED, sizeof *result->near);
    if (!result->near)
        return fail_memory(run->err);
    return list_candidates(run) && list_others(run);
}
