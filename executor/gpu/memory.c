/* What a rank has of its device's memory beside the arena, and of the host's. */
#include "base/num.h"
#include "executor/gpu/comm.h"
#include "executor/gpu/device.h"

/* Equal segments share one. */
static int64_t table_bytes(const struct rank *rank)
{
    const struct gpu_rank *g = rank->device_state;
    int64_t bytes = 0;
    for (int s = 0; s < g->segment_count; s++) {
        bool seen = !g->table[s];
        for (int before = 0; before < s && !seen; before++)
            seen = g->table[before] == g->table[s];
        bytes += seen ? 0 : gpu_table_bytes(&rank->program->graph->segments[s]);
    }
    return bytes;
}

static int64_t sum_bytes(const struct gpu_rank *g)
{
    return (g->overflow ? gpu_overflow_counts(&g->gpu) * (int64_t)sizeof *g->overflow : 0) +
           (g->parts ? gpu_part_count(&g->gpu) * (int64_t)sizeof *g->parts : 0);
}

static void fill_parts(const struct rank *rank, int64_t part[MEMORY_PART_COUNT])
{
    const struct gpu_rank *g = rank->device_state;
    const int64_t updates = g->updates.count;
    if (g->gpu.workspaces)
        g->gpu.workspaces(g->gpu.self, &part[MEMORY_PRODUCTS], &part[MEMORY_ATTENTION]);
    part[MEMORY_PACKED] = gpu_comm_packed_bytes(rank);
    part[MEMORY_TABLES] = table_bytes(rank);
    part[MEMORY_UPDATES] = updates * (int64_t)(sizeof *g->updates.table + sizeof *g->updates.rates) +
                           g->norms.count * (int64_t)sizeof *g->norms.table;
    part[MEMORY_SUMS] = sum_bytes(g);
    part[MEMORY_PINNED] =
        g->host_bytes + (g->pinned ? rank->host_bytes : 0) + updates * (int64_t)sizeof *g->updates.host_rates;
}

bool gpu_device_memory_beside_arena(struct rank *rank, struct memory_outside *out, struct error *err)
{
    const struct gpu *gpu = &((struct gpu_rank *)rank->device_state)->gpu;
    const struct program *program = rank->program;
    int devices = gpu->device_count > 0 ? gpu->device_count : 1, ranks = 0;
    int64_t used_bytes;
    struct memory_outside outside = { .bytes = -1 };
    fill_parts(rank, outside.part);
    if (gpu->memory_used) {
        if (!gpu->memory_used(gpu->self, &used_bytes, err))
            return false;
        for (int r = rank->rank % devices; r < program->plan->rank_count; r += devices, ranks++)
            used_bytes -= program->stages[plan_stage_of_rank(program->plan, r)].arena_bytes;
        outside.bytes = max_i64(0, used_bytes) / ranks;
    }
    *out = outside;
    return true;
}
