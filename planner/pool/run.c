/* What the parts of a search share: its candidates, memory, threads and end. */
#include "planner/estimate/effort.h"
#include "planner/pool/run.h"

int ordered_compare(const void *a, const void *b)
{
    const struct ordered *x = a, *y = b;
    if (x->bound_ns != y->bound_ns)
        return x->bound_ns < y->bound_ns ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

bool run_is_cancelled(struct run *run)
{
    const struct search_calls *calls = &run->options->calls;
    if (calls->cancelled && calls->cancelled(calls->self))
        run->stopped = true;
    return run->stopped;
}

bool run_stops(struct run *run)
{
    const struct search_calls *calls = &run->options->calls;
    if (!run_is_cancelled(run) && run->options->time_limit_ns > 0 && calls->now_ns &&
        calls->now_ns(calls->self) - run->start_ns >= run->options->time_limit_ns)
        run->stopped = true;
    return run->stopped;
}

struct arena *run_arena(struct run *run)
{
    struct owned_arena *owned = arena_alloc(&run->arena, 1, sizeof *owned);
    if (!owned)
        return NULL;
    owned->next = run->arenas;
    run->arenas = owned;
    return &owned->arena;
}

bool run_stops_of(void *self)
{
    return run_stops(self);
}

bool run_is_akin(const struct run *run, const struct config *a, const struct config *b)
{
    return a->stages == b->stages && config_tensor(a) == config_tensor(b) &&
           mesh_expert(&a->mesh) == mesh_expert(&b->mesh) && (a->meshes > 0) == (b->meshes > 0) &&
           (run->bench.facts->cluster->group_count <= 2 || a->order.index == b->order.index);
}

bool run_same_family(const struct run *run, int config, int other)
{
    return run_is_akin(run, &run->configs[config], &run->configs[other]);
}

bool run_has_any(const struct run *run)
{
    return run->options->any_plan && (run->result->plan_count > 0 || run->beaten);
}

int64_t run_best_step_ns(const struct run *run)
{
    return run->result->plan_count > 0 ? run->result->plans[0].estimate->prediction.step_ns : INT64_MAX;
}

bool run_is_small(const struct run *run)
{
    const struct chain *chain = &run->bench.chain;
    return chain->layer_count <= SMALL_LAYERS && (!chain->branches || chain->place_count <= SMALL_PLACES);
}

bool run_add_candidate(struct run *run, const struct candidate *candidate)
{
    struct candidate *list =
        arena_more(&run->arena, run->candidates, run->candidate_count, &run->candidate_capacity, sizeof *list);
    if (!list)
        return fail_memory(run->err);
    run->candidates = list;
    run->candidates[run->candidate_count] = *candidate;
    run->candidates[run->candidate_count++].origin = run->part;
    run->result->parts[run->part].candidates++;
    return true;
}

const struct search_part_facts search_part_facts[SEARCH_PARTS] = {
#define PART(id, name, doc) [PART_##id] = { name, false },
#define HEURISTIC(id, name, doc) [PART_##id] = { name, true },
#include "planner/pool/parts.def"
#undef PART
#undef HEURISTIC
};

bool run_pass(struct run *run, enum search_part part, bool (*body)(struct run *run))
{
    const struct search_calls *calls = &run->options->calls;
    enum search_part outer = run->part;
    if (search_part_facts[part].heuristic && run->options->skip >> part & 1)
        return true;
    int64_t begin_ns = calls->spent_ns ? calls->spent_ns(calls->self) : 0, inner_ns = run->inner_ns;
    run->part = part;
    run->inner_ns = 0;
    bool good = body(run);
    int64_t spent_ns = calls->spent_ns ? calls->spent_ns(calls->self) - begin_ns : 0;
    run->result->parts[part].spent_ns += spent_ns - run->inner_ns;
    run->part = outer;
    run->inner_ns = inner_ns + spent_ns;
    return good;
}

bool run_problem(struct run *run, int config, const struct price_table *table, int64_t capacity_bytes,
                 struct partition_problem *out)
{
    int *in_flight = workbench_in_flight(&run->arena, &run->configs[config]);
    if (!in_flight)
        return fail_memory(run->err);
    *out = workbench_problem(&run->bench, &run->configs[config], table, in_flight);
    out->capacity_bytes = capacity_bytes / config_chunks(&run->configs[config]);
    out->node_limit = FEW_NODES;
    out->most_nodes = ENOUGH_NODES;
    out->gap_ppm = run->options->gap_ppm;
    out->stops = run_stops_of;
    out->self = run;
    return true;
}

int64_t run_with_idle_ns(const struct config *config, int64_t step_ns)
{
    int pieces = config->stages > 0 ? config_pieces(config) : config->meshes; /* at most */
    double m = config->micro_batch_count, ns = (double)step_ns * (m + pieces - 1) / m;
    return ns < (double)INT64_MAX / 2 ? (int64_t)ns : INT64_MAX;
}
