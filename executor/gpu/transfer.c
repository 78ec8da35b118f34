/* What moves between buffers: locally by kernels; between ranks by NCCL (comm.c) or, on transports that know nothing of
 * GPUs, through the memory of the host. */
#include "executor/gpu/comm.h"
#include "executor/gpu/device.h"
#include "executor/gpu/moves.h"
#include <math.h>
#include <string.h>

struct local_context {
    const struct gpu *gpu;
    void *stream;
    struct error *err;
    bool ok;
};

static int type_of_bytes(size_t element_bytes)
{
    return element_bytes == 2 ? GPU_BF16 : GPU_REAL; /* indices are as wide as fp32, and are only copied */
}

static void clear(void *context, void *data, size_t bytes, size_t element_bytes, enum combine combine)
{
    struct local_context *c = context;
    int64_t elements = (int64_t)(bytes / element_bytes);
    struct gpu_work work = { .outer_loops = 1,
                             .outer = elements,
                             .inner = 1,
                             .extent = { elements },
                             .spot[0] = { .data = data, .type = type_of_bytes(element_bytes), .stride = { 1 } },
                             .number = { combine == COMBINE_MAXIMUM ? -(double)INFINITY : 0 } };
    c->ok = c->ok && gpu_start_elements(c->gpu, c->stream, GPU_SET, &work, elements, c->err);
}

/* The part of a dense block as an operand over the dims of the part. */
static struct gpu_spot spot_of_piece(const struct piece *piece, bool begin)
{
    struct gpu_spot spot = { .type = type_of_bytes(piece->element_bytes), .begin = begin };
    int64_t stride = 1, at = 0;
    for (int dim = piece->held.dim_count - 1; dim >= 0; dim--) {
        spot.stride[dim] = stride;
        at += (piece->part.low[dim] - piece->held.low[dim]) * stride;
        stride *= piece->held.count[dim];
    }
    spot.data = piece->data + at * (int64_t)piece->element_bytes;
    return spot;
}

static void combine(void *context, const struct piece *to, const struct piece *from, enum combine how)
{
    struct local_context *c = context;
    struct gpu_work work = { .outer_loops = to->part.dim_count, .outer = 1, .inner = 1, .integer = { 1 } };
    work.spot[0] = spot_of_piece(to, how == COMBINE_COPY);
    work.spot[1] = spot_of_piece(from, false);
    for (int dim = 0; dim < to->part.dim_count; dim++) {
        work.extent[dim] = to->part.count[dim];
        work.outer *= to->part.count[dim];
        if (to->part.count[dim] != from->part.count[dim])
            c->ok = fail_kind(c->err, ERROR_BUG, "two sides of a local conversion have other shapes");
    }
    c->ok = c->ok && gpu_start_elements(c->gpu, c->stream, how == COMBINE_MAXIMUM ? GPU_MAXIMUM : GPU_SUM_TERMS, &work,
                                        work.outer, c->err);
}

bool gpu_queue_piece(const struct rank *rank, enum lane lane, const struct local_move *move, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    struct local_context context = { .gpu = &g->gpu, .stream = g->stream[lane], .err = err, .ok = true };
    const struct piece *to = &move->to, *from = &move->from;
    size_t to_bytes, from_bytes;
    if (move->clear)
        clear(&context, to->data, piece_bytes(to), to->element_bytes, move->how);
    else if (move->how == COMBINE_COPY && piece_is_dense(to, &to_bytes) && piece_is_dense(from, &from_bytes))
        return g->gpu.copy(g->gpu.self, g->stream[lane], to->data + to_bytes, from->data + from_bytes, piece_bytes(to),
                           err);
    else
        combine(&context, to, from, move->how);
    return context.ok;
}

bool gpu_queue_local(struct rank *rank, const struct instr *instr, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    struct local_context context = { .gpu = &g->gpu, .stream = g->stream[instr->lane], .err = err, .ok = true };
    const struct piece_worker worker = { &context, clear, combine };
    piece_begin(g->geometry, instr, false, true, piece_fold(instr), &worker);
    return context.ok;
}

/* ---- through the host ---- */
static bool copy_buffer(struct rank *rank, const struct instr *instr, int b, bool down, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    const struct buffer *buffer = b >= 0 ? &rank->program->buffers[b] : NULL;
    if (!buffer || buffer->stage != rank->stage) /* the other side's */
        return true;
    unsigned char *here = g->mirror[instr->lane] + buffer->offset, *there = g->arena + buffer->offset;
    return g->gpu.copy(g->gpu.self, g->stream[instr->lane], down ? here : there, down ? there : here,
                       (size_t)buffer->bytes, err);
}

/* Destinations go down, too: what a transfer adds to, or leaves as it is, must be there. */
static bool copy_all(struct rank *rank, const struct instr *instr, bool down, struct error *err)
{
    for (int p = instr->pair_first; p < instr->pair_first + instr->pair_count; p++) {
        const struct pair *pair = &rank->program->pairs[p];
        if ((down && !copy_buffer(rank, instr, pair->source, down, err)) ||
            !copy_buffer(rank, instr, pair->destination, down, err))
            return false;
    }
    return true;
}

bool gpu_device_transfer(struct rank *rank, const struct instr *instr, bool muted, struct span *span, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    (void)span;
    if (g->mode == GPU_STEP_REPLAYED)
        return true;
    if (rank->program->plan->rank_count == 1) { /* nothing moves */
        gpu_replay_enter(g);
        bool ok = gpu_queue_begin(rank, instr, err) && gpu_queue_end(rank, instr, err);
        gpu_replay_leave(g);
        return ok;
    }
    if (g->comm)
        return gpu_comm_transfer(rank, instr, muted, err);
    return gpu_queue_begin(rank, instr, err) && copy_all(rank, instr, true, err) &&
           g->gpu.finish(g->gpu.self, g->stream[instr->lane], err) &&
           collective_run(g->staged[instr->lane], instr, muted, err) && copy_all(rank, instr, false, err) &&
           gpu_queue_end(rank, instr, err);
}
