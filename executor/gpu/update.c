/* Updates of weights, and before them the norm of their gradients. What the kernels need of each weight is a table that
 * is made once; updates between which nothing waits are one launch, at the first one's place, and so are the squares of
 * gradients. Times of single ones are shares of it. */
#include "executor/gpu/update.h"
#include "base/num.h"
#include "executor/gpu/device.h"
#include "executor/kernels/rates.h"
#include <stdlib.h>

static const struct stage_program *stage_of(const struct rank *rank)
{
    return &rank->program->stages[rank->stage];
}

static const struct weight *weight_of(const struct rank *rank, const struct instr *instr)
{
    const int buffer = rank->program->pairs[instr->pair_first].destination;
    return &rank->program->graph->weights[rank->program->buffers[buffer].id];
}

/* ---- the table ---- */
/* Dims that follow each other in the whole weight as in the block are one loop, so that most weights need no division.
 */
void gpu_update_by_chance(struct gpu_update *update, const struct weight *weight, const struct block *block,
                          int64_t first)
{
    int64_t stride[MAX_DIMS] = { 0 }, row;
    int count = 0;
    stride[weight->dim_count - 1] = 1;
    for (int dim = weight->dim_count - 2; dim >= 0; dim--)
        stride[dim] = stride[dim + 1] * weight->size[dim + 1];
    for (int dim = 0; dim < weight->dim_count; dim++) {
        bool joins = count > 0 && update->stride[count - 1] == stride[dim] * block->count[dim];
        count += !joins;
        update->extent[count - 1] = (joins ? update->extent[count - 1] : 1) * block->count[dim];
        update->stride[count - 1] = stride[dim];
    }
    update->loop_count = count;
    update->by_chance = true;
    update->first = first;
    update->origin = kernel_global_element(weight, block, 0, &row);
}

static struct gpu_spot spot_of(const struct rank *rank, int buffer)
{
    return (struct gpu_spot){ .data = gpu_place(rank, buffer), .type = gpu_buffer_type(rank->program, buffer) };
}

static bool make(const struct rank *rank, const struct instr *instr, struct gpu_update *out, struct error *err)
{
    int64_t first, count, weight_first, weight_count;
    const struct program *program = rank->program;
    const struct pair *pair = &program->pairs[instr->pair_first];
    rank_flat_range(rank, pair->source, &first, &count);
    *out = (struct gpu_update){ .count = count, .gradient = spot_of(rank, pair->source) };
    if (instr->op == OP_NORM)
        return true;
    const int state = rank_state(rank, instr);
    if (state < 0)
        return fail_kind(err, ERROR_BUG, "weight %s is updated without optimizer state", weight_of(rank, instr)->name);
    rank_flat_range(rank, pair->destination, &weight_first, &weight_count);
    out->weight = spot_of(rank, pair->destination), out->moments.data = gpu_place(rank, state);
    out->weight.data = (unsigned char *)out->weight.data + (first - weight_first) * gpu_type_bytes(out->weight.type);
    if (out->weight.type == GPU_BF16) { /* the weights in full precision lie behind the moments */
        const struct block block = buffer_block(program, &program->buffers[pair->source], rank->local_rank);
        out->master.data = (real *)gpu_place(rank, state) + 2 * count;
        gpu_update_by_chance(out, weight_of(rank, instr), &block, first);
    }
    return true;
}

int64_t gpu_update_chunks(struct gpu_update *updates, int count)
{
    int64_t chunks = 0;
    for (int u = 0; u < count; u++) {
        updates[u].chunk = chunks;
        chunks += ceil_div(updates[u].count, GPU_UPDATE_CHUNK);
    }
    return chunks;
}

/* ---- what runs together ---- */
static bool waits_for_any(const struct rank *rank, const struct gpu_updates *all, const struct instr *instr, int from)
{
    bool found = false;
    for (int w = 0; w < instr->wait_count; w++) {
        int before = stage_of(rank)->waits[instr->wait_first + w];
        found = found || (before >= from && all->number[before] >= 0);
    }
    return found;
}

/* Updates from instruction `from` on that may begin with it: on their lane nothing else is between them, they wait for
 * nothing, and no other lane waits for one of those before. What they write lasts, so no two share bytes. Likewise
 * norms, whose gradients last until they are used. */
static int together(const struct rank *rank, const struct gpu_updates *all, int from)
{
    const struct stage_program *stage = stage_of(rank);
    int count = 1;
    for (int i = from + 1; i < stage->instr_count; i++) {
        const struct instr *instr = &stage->instrs[i];
        if (instr->lane != stage->instrs[from].lane ? waits_for_any(rank, all, instr, from)
                                                    : instr->op != stage->instrs[from].op || instr->wait_count > 0)
            break;
        count += all->number[i] >= 0;
    }
    return count;
}

static void join(const struct rank *rank, struct gpu_updates *all)
{
    int covered = 0; /* updates before this one are in some launch */
    for (int i = 0; i < stage_of(rank)->instr_count; i++) {
        const int u = all->number[i];
        if (u < covered)
            continue;
        all->batch[u] = together(rank, all, i);
        gpu_update_chunks(&all->made[u], all->batch[u]);
        covered = u + all->batch[u];
    }
}

/* ---- life ---- */
static bool open_all(struct rank *rank, struct gpu_updates *all, enum op op, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    const struct stage_program *stage = stage_of(rank);
    if (!(all->number = malloc(((size_t)stage->instr_count + 1) * sizeof *all->number)))
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for %d instructions", stage->instr_count);
    for (int i = 0; i < stage->instr_count; i++) {
        const struct instr *instr = &stage->instrs[i];
        bool own = instr->op == op &&
                   (op == OP_NORM ? geometry_norm_counts(rank->program, rank->stage,
                                                         &rank->program->pairs[instr->pair_first], rank->local_rank)
                                  : geometry_rank_updates(rank->program, instr, rank->local_rank));
        all->number[i] = own ? all->count++ : -1;
    }
    if (all->count == 0)
        return true;
    const size_t count = (size_t)all->count;
    all->batch = calloc(count, sizeof *all->batch);
    all->made = calloc(count, sizeof *all->made);
    if (!all->batch || !all->made)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for %d updates", all->count);
    for (int i = 0; i < stage->instr_count; i++)
        if (all->number[i] >= 0 && !make(rank, &stage->instrs[i], &all->made[all->number[i]], err))
            return false;
    join(rank, all);
    return (all->table = g->gpu.allocate(g->gpu.self, count * sizeof *all->table, err)) &&
           g->gpu.copy(g->gpu.self, g->stream[LANE_COMPUTE], all->table, all->made, count * sizeof *all->table, err);
}

bool gpu_update_open(struct rank *rank, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    struct gpu_updates *all = &g->updates;
    if (!open_all(rank, all, OP_UPDATE, err) || !open_all(rank, &g->norms, OP_NORM, err))
        return false;
    const size_t rates_bytes = (size_t)all->count * sizeof *all->rates;
    return (all->count == 0 || ((all->rates = g->gpu.allocate(g->gpu.self, rates_bytes, err)) &&
                                (all->host_rates = g->gpu.allocate_host(g->gpu.self, rates_bytes, err)))) &&
           (all->count + g->norms.count == 0 || g->gpu.finish(g->gpu.self, g->stream[LANE_COMPUTE], err));
}

static void close_all(struct gpu_rank *g, struct gpu_updates *all)
{
    g->gpu.release(g->gpu.self, all->table);
    g->gpu.release(g->gpu.self, all->rates);
    g->gpu.release_host(g->gpu.self, all->host_rates);
    free(all->number);
    free(all->batch);
    free(all->made);
}

void gpu_update_close(struct gpu_rank *g)
{
    close_all(g, &g->updates);
    close_all(g, &g->norms);
}

/* ---- a step ---- */
void gpu_update_fill_rates(struct rank *rank)
{
    const struct gpu_updates *all = &((struct gpu_rank *)rank->device_state)->updates;
    for (int i = 0; i < stage_of(rank)->instr_count; i++) {
        const struct instr *instr = &stage_of(rank)->instrs[i];
        if (all->number[i] < 0)
            continue;
        const struct weight *weight = weight_of(rank, instr);
        const struct adamw adamw = rank_adamw(rank, weight, instr);
        all->host_rates[all->number[i]] =
            (struct gpu_update_rates){ .rates = adamw_rates_of(&adamw),
                                       .limit = rank->program->plan->clip_norm,
                                       .key = kernel_rounding_key(rank->options->seed, weight, adamw.step) };
    }
}

bool gpu_update_copy_rates(struct rank *rank, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    return g->gpu.copy(g->gpu.self, g->stream[LANE_COMPUTE], g->updates.rates, g->updates.host_rates,
                       (size_t)g->updates.count * sizeof *g->updates.rates, err);
}

/* The chunks of a launch, which begins with the number-th. */
static int64_t chunks_of(const struct gpu_updates *all, int number)
{
    const struct gpu_update *last = &all->made[number + all->batch[number] - 1];
    return last->chunk + ceil_div(last->count, GPU_UPDATE_CHUNK);
}

static bool launch(struct rank *rank, const struct instr *instr, int number, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    const struct gpu_updates *all = &g->updates;
    const int64_t chunks = chunks_of(all, number);
    struct gpu_work work = {
        .integer = { [UPDATE_WEIGHTS] = all->batch[number], [UPDATE_CHUNKS] = chunks },
        .spot = { [UPDATE_TABLE] = { .data = all->table + number }, [ADAMW_RATES] = { .data = all->rates + number } }
    };
    if (rank_clips(rank))
        work.spot[ADAMW_NORM] = spot_of(rank, rank->scalar);
    return gpu_start(&g->gpu, g->stream[instr->lane], GPU_ADAMW, &work, chunks, err);
}

/* Waits for the gradient, which updates leave as it is, and shows it to tests and curious callers. */
static bool show_gradient(struct rank *rank, const struct instr *instr, int b, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    const struct run_options *o = rank->options;
    size_t bytes = (size_t)rank->program->buffers[b].bytes;
    if (!o->on_gradient)
        return true;
    if (!g->gpu.copy(g->gpu.self, g->stream[instr->lane], rank_data(rank, b), gpu_place(rank, b), bytes, err) ||
        !g->gpu.finish(g->gpu.self, g->stream[instr->lane], err))
        return false;
    o->on_gradient(o->context, rank->step, rank->rank, b, rank_data(rank, b));
    return true;
}

/* Several launches may share a step; each copies the same number. */
static bool note_norm(struct rank *rank, const struct instr *instr, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    return !rank_clips(rank) ||
           g->gpu.copy(g->gpu.self, g->stream[instr->lane],
                       g->host + g->loss_slot + rank->program->buffer_count * (int64_t)sizeof(real),
                       gpu_place(rank, rank->scalar), sizeof(real), err);
}

bool gpu_update_run(struct rank *rank, const struct instr *instr, struct error *err)
{
    const struct gpu_updates *all = &((struct gpu_rank *)rank->device_state)->updates;
    const int number = all->number[instr - stage_of(rank)->instrs];
    if (number < 0)
        return note_norm(rank, instr, err);
    return (all->batch[number] == 0 || (launch(rank, instr, number, err) && note_norm(rank, instr, err))) &&
           show_gradient(rank, instr, rank->program->pairs[instr->pair_first].source, err);
}

/* Two launches, so that many teams share the work and the order of the sum is fixed. */
bool gpu_update_norm(struct rank *rank, const struct instr *instr, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    const struct gpu_updates *all = &g->norms;
    const int number = all->number[instr - stage_of(rank)->instrs];
    if (number < 0 || all->batch[number] == 0)
        return true;
    const int64_t chunks = chunks_of(all, number),
                  teams = min_i64(chunks, gpu_most_teams(&g->gpu, GPU_SQUARE_PARTS)); /* each of which owes its part */
    void *stream = g->stream[instr->lane];
    const struct gpu_work parts = {
        .integer = { [UPDATE_WEIGHTS] = all->batch[number], [UPDATE_CHUNKS] = chunks },
        .spot = { [UPDATE_TABLE] = { .data = all->table + number }, [SQUARES_PARTS] = { .data = g->parts } }
    };
    const struct gpu_work sum = { .integer = { teams },
                                  .spot = { spot_of(rank, rank->program->pairs[instr->pair_first].destination),
                                            { .data = g->parts } } };
    return gpu_start(&g->gpu, stream, GPU_SQUARE_PARTS, &parts, teams, err) &&
           (teams == 0 || gpu_start(&g->gpu, stream, GPU_SQUARE_SUM, &sum, 1, err));
}

/* Updates that ran as one share its time, which is the first one's, by their elements. */
static void share_spans(const struct rank *rank, const struct gpu_updates *all, struct span *spans)
{
    for (int i = 0; i < stage_of(rank)->instr_count; i++) {
        const int number = all->number[i], many = number < 0 ? 0 : all->batch[number];
        int64_t elements = 0, passed = 0;
        int last = i;
        for (int k = number; k < number + many; k++)
            elements += all->made[k].count;
        if (many < 2 || elements == 0)
            continue;
        while (all->number[last] != number + many - 1)
            last++;
        const int64_t begin_ns = spans[i].start_ns, took_ns = spans[i].finish_ns - begin_ns;
        for (int k = i; k <= last; k++) {
            if (stage_of(rank)->instrs[k].lane != stage_of(rank)->instrs[i].lane)
                continue;
            spans[k].start_ns = begin_ns + (int64_t)((double)took_ns * (double)passed / (double)elements);
            passed += all->number[k] < 0 ? 0 : all->made[all->number[k]].count; /* < 0: another rank's */
            spans[k].finish_ns = begin_ns + (int64_t)((double)took_ns * (double)passed / (double)elements);
        }
    }
}

void gpu_update_spans(const struct rank *rank, struct span *spans)
{
    const struct gpu_rank *g = rank->device_state;
    share_spans(rank, &g->updates, spans);
    share_spans(rank, &g->norms, spans);
}
