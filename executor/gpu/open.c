/* The life of a rank's GPU: everything that steps need is made before the first one. */
#define _GNU_SOURCE
#include "executor/gpu/choices.h"
#include "executor/gpu/comm.h"
#include "executor/gpu/device.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SLOT_ALIGNMENT = 64, POISON_BYTE = 0xff };

static int64_t aligned(int64_t bytes)
{
    return (bytes + SLOT_ALIGNMENT - 1) / SLOT_ALIGNMENT * SLOT_ALIGNMENT;
}

static bool open_mark(struct gpu_rank *g, int index, struct error *err)
{
    return g->mark[index] || (g->mark[index] = g->gpu.open_event(g->gpu.self, false, err));
}

static bool open_marks_before(struct gpu_rank *g, const struct stage_program *stage, int index, struct error *err)
{
    const struct instr *instr = &stage->instrs[index];
    for (int w = 0; w < instr->wait_count; w++)
        if (!open_mark(g, stage->waits[instr->wait_first + w], err))
            return false;
    return true;
}

/* What moves data between ranks is watched until it has ended. */
static bool open_events(struct rank *rank, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    const struct stage_program *stage = &rank->program->stages[rank->stage];
    size_t count = (size_t)stage->instr_count + 1;
    g->began = calloc(count, sizeof *g->began);
    g->done = calloc(count, sizeof *g->done);
    g->mark = calloc(count, sizeof *g->mark);
    if (!g->began || !g->done || !g->mark)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for the events of %zu instructions", count);
    g->instr_count = stage->instr_count;
    for (int i = 0; i < stage->instr_count; i++)
        if (!(g->began[i] = g->gpu.open_event(g->gpu.self, true, err)) ||
            !(g->done[i] = g->gpu.open_event(g->gpu.self, true, err)) ||
            (instr_moves_data(&stage->instrs[i]) && !open_mark(g, i, err)) || !open_marks_before(g, stage, i, err))
            return false;
    return (g->origin = g->gpu.open_event(g->gpu.self, true, err)) &&
           (g->spare = g->gpu.open_event(g->gpu.self, true, err));
}

static bool open_lane(struct rank *rank, enum lane lane, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    if (g->stream[lane])
        return true;
    size_t parts = (size_t)gpu_part_count(&g->gpu) * sizeof *g->parts;
    return (g->stream[lane] = g->gpu.open_stream(g->gpu.self, lane != LANE_COMPUTE, err)) &&
           (lane != LANE_COMPUTE || (g->parts = g->gpu.allocate(g->gpu.self, parts, err)));
}

/* A copy of the arena's addresses for what a lane sends and receives: pages come when they are touched. */
static bool open_mirror(struct rank *rank, enum lane lane, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    if (g->mirror[lane])
        return true;
    void *mirror = mmap(NULL, (size_t)rank->arena_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mirror == MAP_FAILED)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for the transfers of lane %s", lane_names[lane]);
    g->mirror[lane] = mirror;
    return collective_new(&g->staged[lane], rank->program, rank->rank, mirror, rank->transport, err);
}

static bool open_lanes(struct rank *rank, struct error *err)
{
    const struct stage_program *stage = &rank->program->stages[rank->stage];
    for (int i = 0; i < stage->instr_count; i++) {
        const struct instr *instr = &stage->instrs[i];
        bool staged = instr_moves_data(instr) && !rank->transport->of_devices;
        if (!open_lane(rank, instr->lane, err) || (staged && !open_mirror(rank, instr->lane, err)))
            return false;
    }
    return true;
}

/* Every LOAD has a slot of pinned memory, every buffer the place of a loss, and the norm one. */
static bool open_slots(struct rank *rank, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    const struct program *program = rank->program;
    const struct stage_program *stage = &program->stages[rank->stage];
    g->load_slot = calloc((size_t)program->pair_count + 1, sizeof *g->load_slot);
    if (!g->load_slot)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for the slots of %d transfers", program->pair_count);
    for (int i = 0; i < stage->instr_count; i++) {
        const struct instr *instr = &stage->instrs[i];
        for (int p = instr->pair_first; instr->op == OP_LOAD && p < instr->pair_first + instr->pair_count; p++) {
            g->load_slot[p] = g->host_bytes;
            g->host_bytes += aligned(program->buffers[program->pairs[p].destination].bytes);
        }
    }
    g->loss_slot = g->host_bytes;
    g->host_bytes += aligned(((int64_t)program->buffer_count + 1) * (int64_t)sizeof(real));
    g->overflow_slot = g->host_bytes;
    g->host_bytes += aligned(gpu_overflow_counts(&g->gpu) * (int64_t)sizeof *g->overflow);
    g->host = g->gpu.allocate_host(g->gpu.self, (size_t)g->host_bytes, err);
    if (g->host)
        memset(g->host, 0, (size_t)g->host_bytes);
    return g->host != NULL;
}

/* Tokens that are left out get counted where the description promises that none is. */
static bool open_overflow(struct rank *rank, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    bool promised = false;
    for (int s = 0; s < rank->program->graph->segment_count; s++)
        promised = promised || (rank->program->graph->segments[s].kernel == KERNEL_ROUTE &&
                                rank->program->graph->segments[s].arguments.dropless);
    size_t bytes = (size_t)gpu_overflow_counts(&g->gpu) * sizeof *g->overflow;
    return !promised || (g->overflow = g->gpu.allocate(g->gpu.self, bytes, err)) != NULL;
}

/* Axes and arguments are all that a table depends on. */
static bool same_table(const struct segment *a, const struct segment *b)
{
    bool same = a->kernel == b->kernel && memcmp(&a->arguments, &b->arguments, sizeof a->arguments) == 0 &&
                memcmp(a->axes, b->axes, sizeof a->axes) == 0 &&
                memcmp(a->out[0].axis, b->out[0].axis, sizeof a->out[0].axis) == 0;
    for (int i = 0; i < 2; i++)
        same = same && memcmp(a->in[i].axis, b->in[i].axis, sizeof a->in[i].axis) == 0;
    return same;
}

static bool fill_table(struct rank *rank, int s, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    const struct segment *segment = &rank->program->graph->segments[s];
    size_t bytes = (size_t)gpu_table_bytes(segment);
    for (int before = 0; before < s; before++)
        if (g->table[before] && same_table(segment, &rank->program->graph->segments[before])) {
            g->table[s] = g->table[before];
            return true;
        }
    void *host = malloc(bytes);
    bool ok = host || fail_kind(err, ERROR_ENVIRONMENT, "no memory for a table of %zu bytes", bytes);
    if (ok)
        gpu_table_fill(segment, host);
    ok = ok && (g->table[s] = g->gpu.allocate(g->gpu.self, bytes, err)) &&
         g->gpu.copy(g->gpu.self, g->stream[LANE_COMPUTE], g->table[s], host, bytes, err) &&
         g->gpu.finish(g->gpu.self, g->stream[LANE_COMPUTE], err);
    free(host);
    return ok;
}

static bool open_tables(struct rank *rank, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    const struct stage_program *stage = &rank->program->stages[rank->stage];
    g->segment_count = rank->program->graph->segment_count;
    g->table = calloc((size_t)g->segment_count + 1, sizeof *g->table);
    if (!g->table)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for the tables of %d segments", g->segment_count);
    for (int i = 0; i < stage->instr_count; i++) {
        int s = stage->instrs[i].segment;
        if (stage->instrs[i].op == OP_COMPUTE && !g->table[s] &&
            gpu_table_bytes(&rank->program->graph->segments[s]) > 0 && !fill_table(rank, s, err))
            return false;
    }
    return true;
}

void *gpu_allocate_lent(struct gpu_rank *g, size_t bytes, struct error *err)
{
    return g->nccl.allocate ? g->nccl.allocate(g->nccl.self, bytes, err) : g->gpu.allocate(g->gpu.self, bytes, err);
}

void gpu_release_lent(struct gpu_rank *g, void *memory)
{
    if (g->nccl.allocate && memory)
        g->nccl.release(g->nccl.self, memory);
    else
        g->gpu.release(g->gpu.self, memory);
}

static bool open_arena(struct rank *rank, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    if (!(g->arena = gpu_allocate_lent(g, (size_t)rank->arena_bytes, err)))
        return error_within(err, "rank %d: its arena of %lld bytes on %s", rank->rank, (long long)rank->arena_bytes,
                            g->gpu.description);
    return collective_new(&g->geometry, rank->program, rank->rank, g->arena, NULL, err);
}

/* What is offloaded lies in memory that copies reach without waiting: the rank's own moves there, with what it holds.
 */
static bool pin_host_arena(struct rank *rank, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    if (rank->host_bytes == 0)
        return true;
    g->pinned = g->gpu.allocate_host(g->gpu.self, (size_t)rank->host_bytes, err);
    if (!g->pinned)
        return error_within(err, "rank %d: its %lld bytes of host memory", rank->rank, (long long)rank->host_bytes);
    memcpy(g->pinned, rank->host_arena, (size_t)rank->host_bytes);
    rank_free_host(rank);
    rank->host_arena = g->pinned;
    return true;
}

static bool fill_arena(struct rank *rank, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    return !rank->options->poison ||
           g->gpu.fill(g->gpu.self, g->stream[LANE_COMPUTE], g->arena, POISON_BYTE, (size_t)rank->arena_bytes, err);
}

/* In place of what others would send: indices must not be what lay there before. */
static bool clear_destinations(struct rank *rank, const struct instr *instr, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    bool ok = gpu_queue_begin(rank, instr, err);
    for (int p = instr->pair_first; ok && p < instr->pair_first + instr->pair_count; p++) {
        const int b = rank->program->pairs[p].destination;
        const struct buffer *buffer = b >= 0 ? &rank->program->buffers[b] : NULL;
        if (buffer && buffer->stage == rank->stage && !buffer->host)
            ok = g->gpu.fill(g->gpu.self, g->stream[instr->lane], gpu_place(rank, b), 0, (size_t)buffer->bytes, err);
    }
    return ok && gpu_queue_end(rank, instr, err);
}

bool gpu_device_warm_up(struct rank *rank, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    const struct stage_program *stage = &rank->program->stages[rank->stage];
    bool ok = g->gpu.fill(g->gpu.self, g->stream[LANE_COMPUTE], g->arena, 0, (size_t)rank->arena_bytes, err) &&
              g->gpu.finish(g->gpu.self, g->stream[LANE_COMPUTE], err);
    for (int i = 0; ok && i < stage->instr_count; i++) {
        const struct instr *instr = &stage->instrs[i];
        bool host = instr->op == OP_OFFLOAD || instr->op == OP_FETCH;
        bool shown = instr->op == OP_UPDATE && rank->options->on_gradient;
        status_beat(rank->options->status, rank->rank);
        if (instr_moves_data(instr) || host)
            ok = clear_destinations(rank, instr, err);
        else if (!shown)
            ok = gpu_device_execute(rank, instr, NULL, err);
    }
    for (int lane = 0; ok && lane < LANE_COUNT; lane++, status_beat(rank->options->status, rank->rank))
        ok = !g->stream[lane] || g->gpu.finish(g->gpu.self, g->stream[lane], err);
    return ok && fill_arena(rank, err);
}

bool gpu_device_open(struct rank *rank, const struct gpu *gpu, const struct nccl *nccl, struct error *err)
{
    struct gpu_rank *g = calloc(1, sizeof *g);
    if (!g) {
        if (nccl)
            nccl->close(nccl->self);
        gpu->close(gpu->self);
        return fail_kind(err, ERROR_ENVIRONMENT, "rank %d: no memory for its GPU", rank->rank);
    }
    g->gpu = *gpu;
    if (nccl)
        g->nccl = *nccl;
    pthread_mutex_init(&g->keeping, NULL);
    pthread_mutex_init(&g->graph_mutex, NULL);
    rank->device_state = g;
    gpu_watch_open(rank);
    return open_lane(rank, LANE_COMPUTE, err) && open_lanes(rank, err) && open_arena(rank, err) &&
           pin_host_arena(rank, err) && fill_arena(rank, err) && open_events(rank, err) && open_slots(rank, err) &&
           open_tables(rank, err) && gpu_fuse_open(rank, err) && open_overflow(rank, err) &&
           gpu_update_open(rank, err) && gpu_replay_open(rank, err) && gpu_hold_open(rank, err) &&
           gpu_choices_recall(gpu, rank->options->facts, rank->options->learned, err) &&
           (!rank->options->tuned_path || gpu_choices_load(gpu, rank->options->tuned_path, err));
}

/* ---- to the device and back ---- */
static bool copy_lasting(struct rank *rank, bool down, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    void *stream = g->stream[LANE_COMPUTE];
    if (down && rank->options->poison)
        return g->gpu.copy(g->gpu.self, stream, rank->arena, g->arena, (size_t)rank->arena_bytes, err) &&
               g->gpu.finish(g->gpu.self, stream, err);
    for (int b = 0; b < rank->program->buffer_count; b++) {
        const struct buffer *buffer = &rank->program->buffers[b];
        if (buffer->host)
            continue; /* the host's arena is the program's own */
        unsigned char *here = rank->arena + buffer->offset, *there = g->arena + buffer->offset;
        if (buffer->stage == rank->stage && (buffer->kind == BUFFER_WEIGHT || buffer->kind == BUFFER_STATE) &&
            !g->gpu.copy(g->gpu.self, stream, down ? here : there, down ? there : here, (size_t)buffer->bytes, err))
            return false;
    }
    return g->gpu.finish(g->gpu.self, stream, err);
}

bool gpu_device_upload(struct rank *rank, struct error *err)
{
    return copy_lasting(rank, false, err);
}

bool gpu_device_download(struct rank *rank, struct error *err)
{
    return copy_lasting(rank, true, err);
}

/* ---- the end ---- */
static void close_tables(struct gpu_rank *g)
{
    for (int s = 0; g->table && s < g->segment_count; s++) {
        for (int after = s + 1; after < g->segment_count; after++)
            if (g->table[after] == g->table[s])
                g->table[after] = NULL;
        g->gpu.release(g->gpu.self, g->table[s]);
    }
    free(g->table);
}

static void close_events(struct gpu_rank *g)
{
    for (int i = 0; i < g->instr_count; i++) {
        g->gpu.close_event(g->gpu.self, g->began[i]);
        g->gpu.close_event(g->gpu.self, g->done[i]);
        g->gpu.close_event(g->gpu.self, g->mark[i]);
    }
    g->gpu.close_event(g->gpu.self, g->origin);
    g->gpu.close_event(g->gpu.self, g->spare);
    free(g->began);
    free(g->done);
    free(g->mark);
}

void gpu_device_close(struct rank *rank)
{
    struct gpu_rank *g = rank->device_state;
    if (!g)
        return;
    gpu_replay_stop(g);
    gpu_comm_stop(rank);
    gpu_watch_close(rank);
    gpu_hold_end(g);
    for (int lane = 0; lane < LANE_COUNT; lane++) /* a failed run may have left work under way */
        if (g->stream[lane])
            g->gpu.finish(g->gpu.self, g->stream[lane], NULL);
    if (rank->rank == 0 && rank->options->tuned_path &&
        rank->updates > 0) /* that it can be written was seen at the begin */
        gpu_choices_save(&g->gpu, rank->options->tuned_path, NULL);
    gpu_choices_keep(&g->gpu, rank->options->learned);
    gpu_replay_let_go(rank); /* communicators whose calls it holds would never be given back */
    gpu_comm_close(rank);
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        g->gpu.close_stream(g->gpu.self, g->stream[lane]);
        collective_free(g->staged[lane]);
        if (g->mirror[lane])
            munmap(g->mirror[lane], (size_t)rank->arena_bytes);
    }
    g->gpu.release(g->gpu.self, g->parts);
    close_events(g);
    close_tables(g);
    gpu_fuse_close(g);
    gpu_replay_close(g);
    gpu_hold_close(g);
    gpu_update_close(g);
    g->gpu.release(g->gpu.self, g->overflow);
    collective_free(g->geometry);
    free(g->load_slot);
    g->gpu.release_host(g->gpu.self, g->host);
    if (g->pinned) {
        g->gpu.release_host(g->gpu.self, g->pinned);
        rank->host_arena = NULL;
    }
    gpu_release_lent(g, g->arena);
    if (g->nccl.name)
        g->nccl.close(g->nccl.self);
    g->gpu.close(g->gpu.self);
    free(g);
    rank->device_state = NULL;
}
