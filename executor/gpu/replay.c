/* Steps as graphs: the second step of a run is kept while it is queued, and from then on the device repeats it from one
 * call. What differs from step to step lies in memory that the host fills before: the data, and what the optimizer
 * multiplies by. The first step is queued as usual, so that everything is allocated, chosen and connected, and so is
 * the last, whose times by instruction the run reports. Only ranks that exchange nothing through the host have such
 * steps, and all ranks have the same ones: which they are, the number of the step and the options say alone. */
#include "executor/gpu/comm.h"
#include "executor/gpu/device.h"
#include "executor/status.h"
#include "host/clock.h"
#include <stdlib.h>
#include <string.h>

static const struct stage_program *stage_of(const struct rank *rank)
{
    return &rank->program->stages[rank->stage];
}

bool gpu_exchanges(const struct rank *rank)
{
    bool found = false;
    for (int i = 0; i < stage_of(rank)->instr_count; i++)
        found = found || instr_moves_data(&stage_of(rank)->instrs[i]);
    return found && rank->program->plan->rank_count > 1;
}

bool gpu_replay_open(struct rank *rank, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    const struct run_options *o = rank->options;
    if (o->no_graph || !g->gpu.begin_capture || o->on_timeline || o->on_instr || o->on_gradient ||
        (gpu_exchanges(rank) && !(o->graph_ranks && g->nccl.name)))
        return true;
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (g->stream[lane] && !(g->joint[lane] = g->gpu.open_event(g->gpu.self, false, err)))
            return false;
    g->ahead = malloc((size_t)g->loss_slot + 1);
    if (!g->ahead)
        return fail_kind(err, ERROR_ENVIRONMENT, "rank %d: no memory for a step's data", rank->rank);
    g->ahead_step = -1;
    return g->keeps_steps = true;
}

void gpu_replay_close(struct gpu_rank *g)
{
    for (int lane = 0; lane < LANE_COUNT; lane++)
        g->gpu.close_event(g->gpu.self, g->joint[lane]);
    pthread_mutex_destroy(&g->keeping);
    pthread_mutex_destroy(&g->graph_mutex);
    free(g->ahead);
}

/* Nobody else uses it any more, or who does comes back: what runs was told to end. */
void gpu_replay_let_go(void *which)
{
    const struct rank *rank = which;
    struct gpu_rank *g = rank->device_state;
    pthread_mutex_lock(&g->graph_mutex);
    if (g->graph)
        g->gpu.close_graph(g->gpu.self, g->graph);
    g->graph = NULL;
    pthread_mutex_unlock(&g->graph_mutex);
}

enum gpu_step_mode gpu_replay_mode(const struct rank *rank)
{
    const struct gpu_rank *g = rank->device_state;
    if (!g->keeps_steps || rank->updates == 0 || rank->step + 1 == rank->options->step_count)
        return GPU_STEP_QUEUED;
    return g->kept ? GPU_STEP_REPLAYED : GPU_STEP_CAPTURED;
}

void gpu_replay_enter(struct gpu_rank *g)
{
    if (g->mode == GPU_STEP_CAPTURED)
        pthread_mutex_lock(&g->keeping);
}

void gpu_replay_leave(struct gpu_rank *g)
{
    if (g->mode == GPU_STEP_CAPTURED)
        pthread_mutex_unlock(&g->keeping);
}

/* ---- what the host fills before a step ---- */
static bool fill_loads(const struct rank *rank, unsigned char *slots, struct error *err)
{
    const struct gpu_rank *g = rank->device_state;
    for (int i = 0; i < stage_of(rank)->instr_count; i++) {
        const struct instr *instr = &stage_of(rank)->instrs[i];
        for (int p = instr->pair_first; instr->op == OP_LOAD && p < instr->pair_first + instr->pair_count; p++)
            if (!rank_load(rank, instr, rank->program->pairs[p].destination, slots + g->load_slot[p], err))
                return false;
    }
    return true;
}

/* The device reads the slots themselves at some time in its step, so that they are written before it begins. */
static bool take_loads(struct rank *rank, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    if (g->ahead_step != rank->step)
        return fill_loads(rank, g->host, err);
    memcpy(g->host, g->ahead, (size_t)g->loss_slot);
    return true;
}

/* While the device repeats this step; where the next one is queued instead its LOADs fill their slots. */
static bool load_ahead(const struct rank *rank, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    struct rank next = *rank;
    next.step++;
    if (next.step + 1 >= rank->options->step_count)
        return true;
    g->ahead_step = next.step;
    return fill_loads(&next, g->ahead, err);
}

/* ---- a step ---- */
/* The other streams begin after the compute lane's, or end before it. */
static bool join_streams(struct gpu_rank *g, bool begin, struct error *err)
{
    void *compute = g->stream[LANE_COMPUTE];
    if (begin && !g->gpu.record(g->gpu.self, compute, g->joint[LANE_COMPUTE], err))
        return false;
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        if (!g->stream[lane] || lane == LANE_COMPUTE)
            continue;
        bool ok = begin ? g->gpu.wait(g->gpu.self, g->stream[lane], g->joint[LANE_COMPUTE], err)
                        : g->gpu.record(g->gpu.self, g->stream[lane], g->joint[lane], err) &&
                              g->gpu.wait(g->gpu.self, compute, g->joint[lane], err);
        if (!ok)
            return false;
    }
    return true;
}

static bool begin_capture(struct gpu_rank *g, struct error *err)
{
    return g->capturing = g->gpu.begin_capture(g->gpu.self, g->stream[LANE_COMPUTE], err);
}

static bool end_capture(struct gpu_rank *g, struct error *err)
{
    void *graph = NULL;
    bool ok = g->gpu.end_capture(g->gpu.self, g->stream[LANE_COMPUTE], &graph, err);
    pthread_mutex_lock(&g->graph_mutex);
    g->graph = graph;
    pthread_mutex_unlock(&g->graph_mutex);
    g->capturing = false;
    return g->kept = ok;
}

void gpu_replay_stop(struct gpu_rank *g)
{
    if (g->capturing)
        end_capture(g, NULL);
}

/* Whoever aborts may have taken the graph away. */
static bool repeat(struct rank *rank, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    pthread_mutex_lock(&g->graph_mutex);
    const bool there = g->graph != NULL;
    bool ok = there && g->gpu.replay(g->gpu.self, g->stream[LANE_COMPUTE], g->graph, err);
    pthread_mutex_unlock(&g->graph_mutex);
    if (!there && (!g->comm || gpu_comm_check(rank, err)))
        return fail_kind(err, ERROR_BUG, "rank %d: the step has no graph", rank->rank);
    return ok;
}

bool gpu_replay_begin(struct rank *rank, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    gpu_update_fill_rates(rank);
    switch (g->mode) {
    case GPU_STEP_QUEUED:
        return gpu_update_copy_rates(rank, err);
    case GPU_STEP_CAPTURED:
        return begin_capture(g, err) && gpu_update_copy_rates(rank, err) && join_streams(g, true, err);
    case GPU_STEP_REPLAYED:
        return take_loads(rank, err) && repeat(rank, err);
    }
    return false;
}

static bool keep_step(struct rank *rank, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    if (!join_streams(g, false, err))
        return false;
    if (!end_capture(g, err))
        return error_within(err, "rank %d: the step does not become a graph: run %s", rank->rank,
                            gpu_exchanges(rank) ? "without --graph-ranks" : "with --no-graph");
    return (!g->comm || gpu_comm_end_capture(rank, err)) && repeat(rank, err);
}

bool gpu_replay_finish(struct rank *rank, struct error *err)
{
    const struct gpu_rank *g = rank->device_state;
    if (g->mode == GPU_STEP_CAPTURED && !keep_step(rank, err))
        return false;
    if (g->mode == GPU_STEP_QUEUED)
        return true;
    status_note(rank->options->status, rank->rank, rank->step, STATUS_IN_GRAPH);
    return load_ahead(rank, err);
}

void gpu_replay_spans(const struct rank *rank, struct span *spans)
{
    const struct gpu_rank *g = rank->device_state;
    const int64_t now_ns = clock_now_ns();
    for (int i = 0; i < g->instr_count; i++)
        spans[i].start_ns = g->origin_ns, spans[i].finish_ns = now_ns;
}
