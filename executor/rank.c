#define _GNU_SOURCE
#include "executor/rank.h"
#include "executor/initial.h"
#include "executor/kernels/bf16.h"
#include "base/num.h"
#include "planner/program/access.h"
#include "executor/kernels/token_order.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ARENA_ALIGNMENT = 64, POISON_BYTE = 0xff }; /* all ones are a NaN in float and double, and the index -1 */

unsigned char *rank_data(const struct rank *rank, int buffer)
{
    const struct buffer *now = buffer_version_at(&rank->program->buffers[buffer], rank->updates);
    return (now->host ? rank->host_arena : rank->arena) + now->offset;
}

void rank_flat_range(const struct rank *rank, int buffer, int64_t *first, int64_t *count)
{
    const struct buffer *b = &rank->program->buffers[buffer];
    struct block block = buffer_block(rank->program, b, rank->local_rank);
    int64_t whole = block_elements(&block);
    int index, pieces;
    geometry_flat_piece(rank->program, b, rank->local_rank, &index, &pieces);
    *first = 0, *count = whole;
    if (pieces > 1) {
        int64_t held = buffer_holds(b);
        *first = index * held < whole ? index * held : whole;
        *count = whole - *first < held ? whole - *first : held;
    }
}

static bool is_loss(const struct program *program, const struct buffer *buffer)
{
    return buffer->kind == BUFFER_VALUE && !buffer->is_weight && program->graph->loss_value >= 0 &&
           buffer->id == program->graph->loss_value;
}

bool rank_holds(const struct rank *rank, int buffer)
{
    const struct buffer *b = &rank->program->buffers[buffer];
    return b->stage == rank->stage && b->version == 0 && (b->kind == BUFFER_WEIGHT || b->kind == BUFFER_STATE);
}

void rank_begin_step(struct rank *rank, int64_t step)
{
    rank->step = step;
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (rank->collectives[lane])
            collective_begin_step(rank->collectives[lane], rank->updates);
    for (int b = 0; b < rank->program->buffer_count; b++)
        rank->loss_part[b] = 0;
}

double rank_loss(const struct rank *rank)
{
    double loss = 0;
    for (int b = 0; b < rank->program->buffer_count; b++)
        if (rank->program->buffers[b].stage == rank->stage && is_loss(rank->program, &rank->program->buffers[b]) &&
            geometry_rank_counts(rank->program, &rank->program->buffers[b], rank->local_rank))
            loss += rank->loss_part[b];
    return loss;
}

/* All bytes of an arena that was not poisoned, or that the device has elsewhere (NULL). */
static int64_t touched_bytes(const struct rank *rank, const unsigned char *arena, int64_t bytes)
{
    if (!rank->options->poison || !arena)
        return bytes;
    int64_t touched = 0;
    for (int64_t at = 0; at + (int64_t)sizeof(uint32_t) <= bytes; at += (int64_t)sizeof(uint32_t)) {
        uint32_t word;
        memcpy(&word, arena + at, sizeof word);
        touched += word != UINT32_MAX ? (int64_t)sizeof word : 0;
    }
    return touched;
}

int64_t rank_touched_bytes(const struct rank *rank)
{
    return touched_bytes(rank, rank->arena, rank->arena_bytes);
}

int64_t rank_touched_host_bytes(const struct rank *rank)
{
    return touched_bytes(rank, rank->host_arena, rank->host_bytes);
}

/* ---- what devices need to run an instruction ---- */
static struct view view_of(const struct rank *rank, int buffer, unsigned char *arena)
{
    struct view view = { 0 };
    if (buffer < 0)
        return view;
    struct block block = buffer_block(rank->program, &rank->program->buffers[buffer], rank->local_rank);
    view.data = arena + (rank_data(rank, buffer) - rank->arena);
    view.dim_count = block.dim_count;
    memcpy(view.low, block.low, sizeof view.low);
    memcpy(view.count, block.count, sizeof view.count);
    return view;
}

struct kernel_call rank_call(const struct rank *rank, const struct instr *instr, unsigned char *arena)
{
    struct kernel_call call = { .segment = &rank->program->graph->segments[instr->segment],
                                .phase = instr->phase,
                                .first = instr->first,
                                .loss_scale = schedule_updates(rank->program->plan) };
    if (kernel_facts[call.segment->kernel].places)
        call.token_parts = rank->token_parts;
    instr_range(rank->program, rank->stage, instr, rank->local_rank, call.low, call.high);
    for (int role = 0; role < ROLE_COUNT; role++) {
        call.define[role] = role_written(instr->phase, (enum role)role) ? instr->define : 0;
        for (int i = 0; i < MAX_OPERANDS; i++)
            call.operand[role][i] = view_of(rank, instr_operand(rank->program, instr, (enum role)role, i), arena);
    }
    return call;
}

bool rank_is_loss(const struct rank *rank, const struct instr *instr, int b)
{
    const struct buffer *buffer = b >= 0 ? &rank->program->buffers[b] : NULL;
    return buffer && rank->program->graph->loss_value >= 0 && !buffer->is_weight &&
           buffer->id == rank->program->graph->loss_value && !instr->again;
}

static void load_rows(const struct rank *rank, int64_t step, const struct block *block, enum data_kind kind,
                      int32_t *out)
{
    const int64_t size = rank->program->graph->sequence, parts = rank->token_parts;
    for (int64_t t = 0, end; t < block->count[1]; t = end) {
        int64_t stored = block->low[1] + t;
        end = parts > 1 ? min_i64(t + token_run_end(stored, size, parts) - stored, block->count[1]) : block->count[1];
        for (int64_t b = 0; b < block->count[0]; b++)
            data_fill(rank->options->data, kind, step, block->low[0] + b, token_position(stored, size, parts), end - t,
                      out + b * block->count[1] + t);
    }
}

static void load_image(const struct rank *rank, int64_t step, const struct block *block, real *out)
{
    for (int64_t b = 0; b < block->count[0]; b++)
        data_fill_image(rank->options->data, step, block->low[0] + b, block->low[1], block->count[1], block->low[2],
                        block->count[2], out + b * block->count[1] * block->count[2]);
}

bool rank_load(const struct rank *rank, const struct instr *instr, int b, void *out, struct error *err)
{
    const int64_t step = rank->step + (instr->part == STEP_AHEAD);
    const struct graph *graph = rank->program->graph;
    const struct buffer *buffer = &rank->program->buffers[b];
    struct block block = buffer_block(rank->program, buffer, rank->local_rank);
    if (buffer->id == graph->tokens_value)
        load_rows(rank, step, &block, DATA_TOKENS, out);
    else if (buffer->id == graph->source_value)
        load_rows(rank, step, &block, DATA_SOURCE, out);
    else if (buffer->id == graph->labels_value)
        load_rows(rank, step, &block, DATA_LABELS, out);
    else if (buffer->id == graph->image_value)
        load_image(rank, step, &block, out);
    else if (buffer->id == graph->count_value)
        *(real *)out = (real)data_target_count(rank->options->data, step, graph->batch);
    else
        return fail_kind(err, ERROR_BUG, "no data for input %s", graph->values[buffer->id].name);
    return true;
}

int rank_state(const struct rank *rank, const struct instr *instr)
{
    int fetched = access_update_state(rank->program, instr);
    return fetched >= 0 ? fetched
                        : geometry_state_buffer(rank->program, rank->program->pairs[instr->pair_first].source);
}

bool rank_clips(const struct rank *rank)
{
    return rank->program->plan->clip_norm > 0 && rank->scalar >= 0;
}

struct adamw rank_adamw(const struct rank *rank, const struct weight *weight, const struct instr *instr)
{
    const struct run_options *o = rank->options;
    const int64_t updates_before = rank->step * schedule_updates(rank->program->plan) + max_int(instr->micro, 0);
    return (struct adamw){ .learning_rate = run_learning_rate(o, rank->step + 1),
                           .beta1 = o->beta1,
                           .beta2 = o->beta2,
                           .epsilon = o->epsilon,
                           .weight_decay = weight->decay ? o->weight_decay : 0,
                           .step = updates_before + 1,
                           .gradient_scale = 1 };
}

/* ---- creation ---- */
/* Zero pages that the system provides when they are touched: a device that only imitates computation never touches
 * most. One that computes reads all of it every step, so large pages save page walks. The poisoned arena of a debug run
 * comes from malloc, where sanitizers see what lies outside. */
static void *allocate_arena(size_t bytes, const struct run_options *options)
{
    void *arena = NULL;
    if (!options->poison) {
        arena = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (arena == MAP_FAILED)
            return NULL;
        if (options->device->computes || options->resident)
            madvise(arena, bytes, MADV_HUGEPAGE); /* a wish: where it is not granted nothing but speed differs */
        return options->resident ? memset(arena, 0, bytes) : arena;
    }
    if (posix_memalign(&arena, ARENA_ALIGNMENT, bytes) != 0)
        return NULL;
    return memset(arena, POISON_BYTE, bytes);
}

static bool allocate(struct rank *rank, struct error *err)
{
    rank->arena_bytes = rank->program->stages[rank->stage].arena_bytes;
    if (rank->arena_bytes > 0 && !(rank->arena = allocate_arena((size_t)rank->arena_bytes, rank->options)))
        return fail_kind(err, ERROR_ENVIRONMENT, "rank %d: no memory for its arena of %lld bytes", rank->rank,
                         (long long)rank->arena_bytes);
    rank->host_bytes = rank->program->stages[rank->stage].host_bytes;
    if (rank->host_bytes > 0 && !(rank->host_arena = allocate_arena((size_t)rank->host_bytes, rank->options)))
        return fail_kind(err, ERROR_ENVIRONMENT, "rank %d: no memory for the %lld bytes that it offloads", rank->rank,
                         (long long)rank->host_bytes);
    size_t buffers = (size_t)rank->program->buffer_count;
    rank->loss_part = calloc(buffers + 1, sizeof *rank->loss_part);
    return rank->loss_part ||
           fail_kind(err, ERROR_ENVIRONMENT, "rank %d: no memory for %zu buffers", rank->rank, buffers);
}

static int find_scalar(const struct program *program, int stage)
{
    for (int b = 0; b < program->buffer_count; b++)
        if (program->buffers[b].kind == BUFFER_SCALAR && program->buffers[b].stage == stage)
            return b;
    return -1;
}

static bool open_lanes(struct rank *rank, struct error *err)
{
    const struct stage_program *stage = &rank->program->stages[rank->stage];
    for (int i = 0; i < stage->instr_count; i++) {
        struct collective **lane = &rank->collectives[stage->instrs[i].lane];
        if (!*lane && !collective_new(lane, rank->program, rank->rank, rank->arena, rank->transport, err))
            return false;
    }
    return true;
}

bool rank_new(struct rank **out, const struct program *program, const struct transport *transport,
              const struct run_options *options, struct error *err)
{
    struct rank *rank = calloc(1, sizeof *rank);
    if (!rank)
        return fail_kind(err, ERROR_ENVIRONMENT, "rank %d: out of memory", transport->rank);
    int stage = plan_stage_of_rank(program->plan, transport->rank);
    *rank = (struct rank){ .program = program,
                           .options = options,
                           .transport = transport,
                           .rank = transport->rank,
                           .token_parts = token_parts(program),
                           .stage = stage,
                           .local_rank = transport->rank - program->plan->stages[stage].first_rank };
    if (!allocate(rank, err) || !open_lanes(rank, err)) {
        rank_free(rank);
        return false;
    }
    rank->scalar = find_scalar(program, stage);
    if (!initial_weights(rank, err) ||
        (options->device->open && (!options->device->open(rank, err) || !options->device->upload(rank, err)))) {
        rank_free(rank);
        return false;
    }
    *out = rank;
    return true;
}

static void free_arena(const struct rank *rank, unsigned char *arena, int64_t bytes)
{
    if (arena && !rank->options->poison)
        munmap(arena, (size_t)bytes);
    else
        free(arena);
}

void rank_free_host(struct rank *rank)
{
    free_arena(rank, rank->host_arena, rank->host_bytes);
    rank->host_arena = NULL;
}

void rank_free(struct rank *rank)
{
    if (!rank)
        return;
    if (rank->options->device->close)
        rank->options->device->close(rank);
    for (int lane = 0; lane < LANE_COUNT; lane++)
        collective_free(rank->collectives[lane]);
    free_arena(rank, rank->arena, rank->arena_bytes);
    rank_free_host(rank);
    free(rank->activity.list);
    free(rank->loss_part);
    free(rank);
}
