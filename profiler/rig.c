#include "profiler/rig.h"
#include "base/num.h"
#include "executor/kernel.h"
#include "host/machine.h"
#include "planner/program/geometry.h"
#include <stdlib.h>
#include <string.h>

enum { OUTER = 0, INNER = 1, ALIGNMENT = 64, MAX_RIG_WAITS = 2 };

static bool make_plan(struct rig *rig, int rank_count, int stages, int outer, int inner)
{
    int used = stages * outer * inner, all = stages + (used < rank_count);
    struct plan *plan = rig->plan = plan_new(all, 1);
    if (!plan)
        return false;
    plan->batch = plan->sequence = plan->vocab_multiple = plan->micro_batch_count = 1;
    plan->dtype = sizeof(real) == sizeof(double) ? DTYPE_FP64 : DTYPE_FP32;
    plan->atom_count = 2;
    plan->rank_count = rank_count;
    for (int s = 0; s < stages; s++) {
        plan->stages[s].first_rank = s * outer * inner;
        plan->stages[s].atom[OUTER] = outer;
        plan->stages[s].atom[INNER] = inner;
    }
    if (all > stages) {
        plan->stages[stages].first_rank = used;
        plan->stages[stages].atom[OUTER] = rank_count - used;
    }
    return true;
}

static bool make_program(struct rig *rig)
{
    struct program *program = rig->program = calloc(1, sizeof *program);
    if (!program)
        return false;
    struct arena *arena = &program->arena;
    size_t stages = (size_t)rig->plan->stage_count, instrs = (size_t)rig->instr_capacity,
           waits = (size_t)rig->wait_capacity;
    program->graph = rig->graph, program->plan = rig->plan;
    program->stage_count = rig->plan->stage_count;
    program->stages = arena_alloc(arena, stages, sizeof *program->stages);
    program->buffers = calloc((size_t)rig->buffer_capacity, sizeof *program->buffers);
    program->pairs = calloc(stages * instrs, sizeof *program->pairs);
    program->operands = calloc(stages * instrs, OPERAND_SLOTS * sizeof *program->operands);
    rig->side = arena_alloc(arena, (size_t)rig->buffer_capacity, sizeof *rig->side);
    if (!program->stages || !rig->side || !program->buffers || !program->pairs || !program->operands)
        return false;
    for (size_t s = 0; s < stages; s++) {
        program->stages[s].instrs = arena_alloc(arena, instrs, sizeof *program->stages[s].instrs);
        program->stages[s].waits = arena_alloc(arena, waits, sizeof *program->stages[s].waits);
        if (!program->stages[s].instrs || !program->stages[s].waits)
            return false;
    }
    return true;
}

bool rig_new(struct rig **out, int rank_count, int stage_count, int outer, int inner, int size_capacity,
             int instr_capacity, struct error *err)
{
    struct rig *rig = calloc(1, sizeof *rig);
    if (rig) {
        rig->weight_capacity = size_capacity;
        rig->buffer_capacity = size_capacity * 2 * stage_count;
        rig->instr_capacity = instr_capacity;
        rig->wait_capacity = instr_capacity * MAX_RIG_WAITS;
        rig->graph = calloc(1, sizeof *rig->graph);
    }
    bool ok = rig && rig->graph;
    if (ok) {
        rig->graph->batch = rig->graph->sequence = 1;
        rig->graph->tokens_value = rig->graph->source_value = rig->graph->labels_value = rig->graph->count_value =
            rig->graph->loss_value = -1;
        rig->graph->weights = arena_alloc(&rig->graph->arena, (size_t)size_capacity, sizeof *rig->graph->weights);
        ok = rig->graph->weights && make_plan(rig, rank_count, stage_count, outer, inner) && make_program(rig);
    }
    if (!ok) {
        rig_free(rig);
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for a program of %d instructions", instr_capacity);
    }
    *out = rig;
    return true;
}

void rig_free(struct rig *rig)
{
    if (!rig)
        return;
    program_free(rig->program);
    plan_free(rig->plan);
    graph_free(rig->graph);
    free(rig);
}

int rig_tensor(struct rig *rig, int64_t rows, int64_t columns)
{
    int id = rig->graph->weight_count++;
    rig->graph->weights[id] =
        (struct weight){ .name = "rig", .dim_count = 2, .size = { rows, columns }, .valid_rows = rows };
    return id;
}

int rig_buffer(struct rig *rig, int stage, int tensor, enum layout_kind kind, int dim, enum rig_side side)
{
    struct program *program = rig->program;
    int id = program->buffer_count++;
    struct buffer *buffer = &program->buffers[id];
    *buffer = (struct buffer){ .kind = BUFFER_TEMPORARY,
                               .is_weight = true,
                               .stage = stage,
                               .id = tensor,
                               .micro = -1,
                               .part_count = 1,
                               .ring_atom = -1,
                               .element_bytes = sizeof(real) };
    rig->side[id] = side;
    buffer->layout.kind[OUTER] = LAYOUT_SHARDED;
    buffer->layout.kind[INNER] = (uint8_t)kind;
    buffer->layout.dim[INNER] = (uint8_t)dim;
    buffer->layout.order[INNER] = 1;
    struct block block = buffer_block(program, buffer, 0);
    int64_t elements = block_elements(&block);
    if (kind == LAYOUT_FLAT)
        elements = ceil_div(elements, rig->plan->stages[stage].atom[INNER]);
    buffer->bytes = elements * (int64_t)sizeof(real);
    int64_t bytes = round_up(buffer->bytes, ALIGNMENT);
    if (side == RIG_APART) {
        buffer->offset = rig->apart_bytes;
        rig->apart_bytes += bytes;
    } else {
        buffer->offset = rig->next[side] + bytes <= rig->circle_bytes ? rig->next[side] : 0;
        rig->next[side] = buffer->offset + bytes;
        rig->top_bytes[side] = max_i64(rig->top_bytes[side], rig->next[side]);
    }
    return id;
}

static int last_of_lane(const struct stage_program *stage, int lane)
{
    int i = stage->instr_count - 1;
    while (i >= 0 && (int)stage->instrs[i].lane != lane)
        i--;
    return i;
}

struct instr *rig_instr(struct rig *rig, int stage, enum op op, enum lane lane, int after, int source, int destination)
{
    struct program *program = rig->program;
    struct stage_program *list = &program->stages[stage];
    struct instr made = { .op = op,
                          .phase = PHASE_STEP,
                          .lane = lane,
                          .segment = -1,
                          .peer_stage = -1,
                          .tag = -1,
                          .layer = -1,
                          .fold = FOLD_SUM,
                          .wait_first = list->wait_count,
                          .pair_first = program->pair_count };
    if (op_info[op].collective)
        made.atoms = 1u << INNER;
    if (source >= 0 || destination >= 0) {
        program->pairs[program->pair_count++] = (struct pair){ source, destination };
        made.pair_count = 1;
    }
    int last = after < 0 || after == (int)lane ? -1 : last_of_lane(list, after);
    if (last >= 0) {
        list->waits[list->wait_count++] = last;
        made.wait_count = 1;
    }
    list->instrs[list->instr_count] = made;
    return &list->instrs[list->instr_count++];
}

void rig_operands(struct rig *rig, struct instr *instr, const struct operand_table *table)
{
    struct program *program = rig->program;
    program->operand_count +=
        instr_pack(instr, table, program->operand_count, &program->operands[program->operand_count]);
}

struct instr *rig_empty_caches(struct rig *rig, int stage, int after, int64_t cache_bytes)
{
    int64_t share = ceil_div(cache_bytes, (int64_t)sizeof(real) * rig->plan->rank_count);
    int tensor = rig_tensor(rig, rig->plan->stages[stage].atom[OUTER], share);
    int buffer = rig_buffer(rig, stage, tensor, LAYOUT_REPLICATED, 0, RIG_APART);
    return rig_instr(rig, stage, OP_ZERO, LANE_COMPUTE, after, -1, buffer);
}

void rig_finish(struct rig *rig)
{
    struct program *program = rig->program;
    int64_t begin[RIG_APART + 1] = { 0 };
    for (int side = 0; side < RIG_APART; side++)
        begin[side + 1] = begin[side] + rig->top_bytes[side];
    for (int b = 0; b < program->buffer_count; b++)
        program->buffers[b].offset += begin[rig->side[b]];
    for (int s = 0; s < program->stage_count; s++)
        program->stages[s].arena_bytes = program->stages[s].instr_count ? begin[RIG_APART] + rig->apart_bytes : 0;
}
