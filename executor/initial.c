#include "executor/initial.h"
#include "base/num.h"
#include "executor/hf_folder.h"
#include "executor/kernels/bf16.h"
#include "executor/status.h"
#include "host/machine.h"
#include "host/parallel.h"
#include <stdlib.h>
#include <string.h>

/* PIECE: elements that one thread makes at a time. HOST_RANKS: that a host seldom has more of. */
enum { PIECE = 1 << 18, HOST_RANKS = 8 };

/* What a rank holds of a weight, and where its values go: any of the three may be NULL. */
struct making {
    const struct rank *rank;
    const struct weight *weight;
    struct block block;
    int64_t first, count; /* of the flattened block */
    real *values, *master;
    uint16_t *rounded;
};

static struct making making_of(const struct rank *rank, int buffer)
{
    const struct buffer *b = &rank->program->buffers[buffer];
    struct making m = { .rank = rank,
                        .weight = &rank->program->graph->weights[b->id],
                        .block = buffer_block(rank->program, b, rank->local_rank) };
    rank_flat_range(rank, buffer, &m.first, &m.count);
    return m;
}

static void fill(const struct making *m, real *out, int64_t from, int64_t count)
{
    const struct run_options *o = m->rank->options;
    const int id = (int)(m->weight - m->rank->program->graph->weights);
    if (o->hf_folder && hf_folder_has(o->hf_folder, id)) {
        hf_folder_read(o->hf_folder, id, &m->block, m->first + from, count, out);
        return;
    }
    (o->rough ? kernel_initialise_roughly : kernel_initialise)(out, m->weight, &m->block, m->first + from, count,
                                                               o->seed);
}

/* A value depends on nothing but its place, so that pieces may be made in any order. */
static void make_piece(void *context, int index)
{
    enum { ROUNDED = 1 << 12 };
    const struct making *m = context;
    real own[ROUNDED];
    int64_t from = (int64_t)index * PIECE, end = min_i64(m->count, from + PIECE);
    status_beat(m->rank->options->status, m->rank->rank); /* billions of them take longer than a stuck rank gets */
    if (m->values)
        fill(m, m->values + from, from, end - from);
    for (int64_t count; !m->values && from < end; from += count) {
        count = min_i64(ROUNDED, end - from);
        fill(m, own, from, count);
        for (int64_t i = 0; m->rounded && i < count; i++)
            m->rounded[from + i] = bf16_of_real(own[i]);
        if (m->master)
            memcpy(m->master + from, own, (size_t)count * sizeof *own);
    }
}

static void make(struct making *m)
{
    int ranks = (int)min_i64(HOST_RANKS, m->rank->program->plan->rank_count);
    parallel_for((int)max_i64(1, host_core_count() / ranks), (int)ceil_div(m->count, PIECE), make_piece, m);
}

/* The values that weights of 16 bits are rounded from lie behind the moments of a gradient before its state. */
static real *master_of(const struct rank *rank, int gradient)
{
    int state = geometry_state_buffer(rank->program, gradient);
    int64_t first, count;
    rank_flat_range(rank, gradient, &first, &count);
    return state < 0 ? NULL : (real *)(void *)rank_data(rank, state) + 2 * count;
}

static bool holds_the_same(const struct rank *rank, int a, int b)
{
    struct making x = making_of(rank, a), y = making_of(rank, b);
    return x.weight == y.weight && x.first == y.first && x.count == y.count &&
           memcmp(&x.block, &y.block, sizeof x.block) == 0;
}

/* The rank's gradient of the same elements as the weight's, which both are made for at once; -1: there is none. */
static int twin_of(const struct rank *rank, int weight)
{
    const struct program *program = rank->program;
    for (int b = 0; b < program->buffer_count; b++) {
        const struct buffer *buffer = &program->buffers[b];
        if (buffer->stage == rank->stage && buffer->kind == BUFFER_GRADIENT &&
            buffer->id == program->buffers[weight].id && geometry_state_buffer(program, b) >= 0 &&
            holds_the_same(rank, weight, b))
            return b;
    }
    return -1;
}

static bool initialise_bf16(const struct rank *rank, struct error *err)
{
    const struct program *program = rank->program;
    bool *made = calloc((size_t)program->buffer_count + 1, sizeof *made);
    if (!made)
        return fail_kind(err, ERROR_ENVIRONMENT, "rank %d: no memory for initial weights", rank->rank);
    for (int kind = 0; kind < 2; kind++)
        for (int b = 0; b < program->buffer_count; b++) {
            const struct buffer *buffer = &program->buffers[b];
            if (buffer->stage != rank->stage || made[b] || !buffer->persistent ||
                buffer->kind != (kind ? BUFFER_GRADIENT : BUFFER_WEIGHT))
                continue;
            struct making m = making_of(rank, b);
            int gradient = kind ? b : twin_of(rank, b);
            if (!kind)
                m.rounded = (uint16_t *)(void *)rank_data(rank, b);
            if (gradient >= 0) {
                m.master = master_of(rank, gradient);
                made[gradient] = true;
            }
            if (m.rounded || m.master)
                make(&m);
        }
    free(made);
    return true;
}

static void initialise_real(const struct rank *rank)
{
    for (int b = 0; b < rank->program->buffer_count; b++) {
        const struct buffer *buffer = &rank->program->buffers[b];
        if (buffer->stage != rank->stage || buffer->kind != BUFFER_WEIGHT)
            continue;
        struct making m = making_of(rank, b);
        m.values = (real *)(void *)rank_data(rank, b);
        make(&m);
    }
}

bool initial_weights(struct rank *rank, struct error *err)
{
    const struct program *program = rank->program;
    for (int b = 0; b < program->buffer_count; b++) {
        const struct buffer *buffer = &program->buffers[b];
        bool lasts = buffer->kind == BUFFER_WEIGHT || buffer->kind == BUFFER_STATE;
        if (buffer->stage == rank->stage && lasts && rank->options->poison)
            memset(rank_data(rank, b), 0, (size_t)buffer->bytes);
    }
    if (program->plan->dtype == DTYPE_BF16)
        return !rank->options->device->open || initialise_bf16(rank, err); /* others only keep the time of such plans */
    if (program->plan->dtype == (sizeof(real) == sizeof(double) ? DTYPE_FP64 : DTYPE_FP32))
        initialise_real(rank);
    return true;
}
