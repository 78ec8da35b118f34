/* Pipelines written by hand: one opaque segment with one weight per stage, one rank per stage. Small enough to count on
 * paper. */
#ifndef CLEAVE_TESTS_HAND_PROGRAM_H
#define CLEAVE_TESTS_HAND_PROGRAM_H
#include "planner/program/program.h"
#include "planner/program/schedule.h"
#include <stdlib.h>
#include <string.h>

enum { HAND_STAGES = 16, HAND_BUFFERS = 8192, HAND_INSTRS = 8192, HAND_ELEMENTS = 100 };

struct hand {
    struct arena arena;
    struct graph graph;
    struct plan *plan;
    struct program *program;
    int micro_count;
    int *value, *gradient; /* (stages, 2, micros): entering and leaving each stage */
    int weight[HAND_STAGES], weight_gradient[HAND_STAGES];
    int wait_capacity;
};

static inline int hand_buffer(struct hand *h, enum buffer_kind kind, int stage, int id, int micro)
{
    struct buffer *b = &h->program->buffers[h->program->buffer_count];
    bool weight =
        kind == BUFFER_WEIGHT || kind == BUFFER_WEIGHT_GRADIENT || kind == BUFFER_GRADIENT || kind == BUFFER_STATE;
    ck_assert_int_lt(h->program->buffer_count, HAND_BUFFERS);
    *b = (struct buffer){ .kind = kind,
                          .is_weight = weight,
                          .persistent = weight,
                          .stage = stage,
                          .id = id,
                          .micro = micro,
                          .part_count = 1,
                          .element_bytes = 4,
                          .bytes = 4 * HAND_ELEMENTS,
                          .offset = -1 };
    return h->program->buffer_count++;
}

static inline struct instr *hand_instr(struct hand *h, int stage, enum op op, enum lane lane, int micro)
{
    struct stage_program *list = &h->program->stages[stage];
    struct instr *instr = &list->instrs[list->instr_count++];
    ck_assert_int_lt(list->instr_count, HAND_INSTRS);
    memset(instr, 0, sizeof *instr);
    instr->op = op;
    instr->lane = lane;
    instr->micro = micro;
    instr->layer = stage;
    instr->segment = instr->peer_stage = instr->tag = -1;
    instr->wait_first = list->wait_count;
    return instr;
}

static inline void hand_pair(struct hand *h, struct instr *instr, int source, int destination)
{
    instr->pair_first = h->program->pair_count;
    instr->pair_count = 1;
    h->program->pairs[h->program->pair_count++] = (struct pair){ source, destination };
}

static inline void hand_operands(struct hand *h, struct instr *instr, const struct operand_table *table)
{
    struct program *p = h->program;
    ck_assert_int_le(p->operand_count, HAND_BUFFERS * 4 - OPERAND_SLOTS);
    p->operand_count += instr_pack(instr, table, p->operand_count, &p->operands[p->operand_count]);
}

/* Index of the last instruction of the stage that touches the buffer, -1 none. */
static inline int hand_last(const struct hand *h, int stage, int buffer)
{
    const struct stage_program *list = &h->program->stages[stage];
    for (int i = list->instr_count - 1; i >= 0; i--) {
        const struct instr *instr = &list->instrs[i];
        for (int k = 0; k < instr->pair_count; k++) {
            const struct pair *pair = &h->program->pairs[instr->pair_first + k];
            if ((pair->source == buffer && instr->op != OP_RECEIVE) ||
                (pair->destination == buffer && instr->op != OP_SEND))
                return i;
        }
        for (int role = 0; role < ROLE_COUNT; role++)
            for (int k = 0; k < MAX_OPERANDS; k++)
                if (instr_operand(h->program, instr, (enum role)role, k) == buffer)
                    return i;
    }
    return -1;
}

/* The newest instruction waits for the last other one that touched the buffer. */
static inline void hand_wait(struct hand *h, int stage, int buffer)
{
    struct stage_program *list = &h->program->stages[stage];
    struct instr *instr = &list->instrs[list->instr_count - 1];
    list->instr_count--;
    int last = hand_last(h, stage, buffer);
    list->instr_count++;
    if (last < 0 || list->instrs[last].lane == instr->lane)
        return;
    list->waits[list->wait_count++] = last;
    instr->wait_count++;
}

static inline int *hand_value(struct hand *h, int stage, int leaving, int micro)
{
    return &h->value[(stage * 2 + leaving) * h->micro_count + micro];
}

static inline int *hand_gradient(struct hand *h, int stage, int leaving, int micro)
{
    return &h->gradient[(stage * 2 + leaving) * h->micro_count + micro];
}

static inline void hand_graph(struct hand *h, int stages, int micros)
{
    static const char *const name = "hand";
    struct graph *g = &h->graph;
    *g = (struct graph){ .model_name = name,
                         .batch = micros,
                         .sequence = 1,
                         .value_count = stages + 1,
                         .weight_count = stages,
                         .segment_count = stages,
                         .layer_count = stages,
                         .class_count = 1,
                         .tokens_value = 0,
                         .source_value = -1,
                         .labels_value = -1,
                         .count_value = -1,
                         .loss_value = -1 };
    g->values = arena_alloc(&h->arena, (size_t)stages + 1, sizeof *g->values);
    g->weights = arena_alloc(&h->arena, (size_t)stages, sizeof *g->weights);
    g->segments = arena_alloc(&h->arena, (size_t)stages, sizeof *g->segments);
    g->layers = arena_alloc(&h->arena, (size_t)stages, sizeof *g->layers);
    g->needs_gradient = arena_alloc(&h->arena, (size_t)stages + 1, sizeof *g->needs_gradient);
    for (int v = 1; v <= stages; v++)
        g->needs_gradient[v] = true;
    for (int v = 0; v <= stages; v++)
        g->values[v] = (struct value){ .name = name,
                                       .dim_count = 2,
                                       .size = { micros, HAND_ELEMENTS },
                                       .tag = { TAG_BATCH, TAG_HIDDEN },
                                       .input = v == 0,
                                       .differentiable = v > 0,
                                       .producer = v - 1 };
    for (int s = 0; s < stages; s++) {
        g->weights[s] =
            (struct weight){ .name = name, .dim_count = 1, .size = { HAND_ELEMENTS }, .valid_rows = HAND_ELEMENTS };
        g->layers[s] = (struct graph_layer){ .name = name,
                                             .kind = "opaque",
                                             .first_segment = s,
                                             .segment_count = 1,
                                             .input_count = s > 0,
                                             .input_layers = { s - 1 },
                                             .output_value = s + 1 };
        g->segments[s] = (struct segment){ .name = name,
                                           .kernel = KERNEL_OPAQUE,
                                           .layer = s,
                                           .axis_count = 2,
                                           .in_count = 1,
                                           .out_count = 1,
                                           .weight_count = 1,
                                           .axes = { { TAG_BATCH, micros, 1, FOLD_SUM, false },
                                                     { TAG_HIDDEN, HAND_ELEMENTS, 1, FOLD_NONE, false } },
                                           .in = { { s, { 0, 1, -1, -1, -1 } } },
                                           .out = { { s + 1, { 0, 1, -1, -1, -1 } } },
                                           .weight = { { s, { 1, -1, -1, -1, -1 } } } };
    }
}

static inline void hand_transfer(struct hand *h, int from, int to, int source, int destination, int tag, int micro,
                                 bool receive)
{
    struct instr *instr =
        hand_instr(h, receive ? to : from, receive ? OP_RECEIVE : OP_SEND, receive ? LANE_RECEIVE : LANE_SEND, micro);
    instr->peer_stage = receive ? from : to;
    instr->tag = tag;
    hand_pair(h, instr, source, destination);
    if (!receive)
        hand_wait(h, from, source);
}

static inline void hand_forward(struct hand *h, int stage, int micro)
{
    int in = *hand_value(h, stage, 0, micro), out = *hand_value(h, stage, 1, micro), last = h->plan->stage_count - 1;
    if (stage == 0)
        hand_pair(h, hand_instr(h, stage, OP_LOAD, LANE_COMPUTE, micro), -1, in);
    else
        hand_transfer(h, stage - 1, stage, *hand_value(h, stage - 1, 1, micro), in, micro, micro, true);
    struct instr *instr = hand_instr(h, stage, OP_COMPUTE, LANE_COMPUTE, micro);
    instr->segment = stage;
    struct operand_table table = program_no_operands;
    table.buffer[ROLE_IN][0] = in;
    table.buffer[ROLE_OUT][0] = out;
    table.buffer[ROLE_WEIGHT][0] = h->weight[stage];
    hand_operands(h, instr, &table);
    instr->define = 1;
    hand_wait(h, stage, in);
    if (stage < last)
        hand_transfer(h, stage, stage + 1, out, *hand_value(h, stage + 1, 0, micro), micro, micro, false);
}

static inline void hand_backward(struct hand *h, int stage, int micro, bool first_micro)
{
    int in = *hand_gradient(h, stage, 0, micro), out = *hand_gradient(h, stage, 1, micro),
        last = h->plan->stage_count - 1;
    int tag = h->micro_count + micro;
    if (stage == last)
        hand_pair(h, hand_instr(h, stage, OP_SEED, LANE_COMPUTE, micro), -1, out);
    else
        hand_transfer(h, stage + 1, stage, *hand_gradient(h, stage + 1, 0, micro), out, tag, micro, true);
    for (int weight = 0; weight < 2; weight++) {
        struct instr *instr = hand_instr(h, stage, OP_COMPUTE, LANE_COMPUTE, micro);
        enum role role = weight ? ROLE_GRADIENT_WEIGHT : ROLE_GRADIENT_IN;
        instr->segment = stage;
        instr->phase = weight ? PHASE_BACKWARD_WEIGHT : PHASE_BACKWARD_INPUT;
        struct operand_table table = program_no_operands;
        table.buffer[ROLE_IN][0] = *hand_value(h, stage, 0, micro);
        table.buffer[ROLE_WEIGHT][0] = h->weight[stage];
        table.buffer[ROLE_GRADIENT_OUT][0] = out;
        table.buffer[role][0] = weight ? h->weight_gradient[stage] : in;
        hand_operands(h, instr, &table);
        instr->define = !weight || first_micro;
        hand_wait(h, stage, out);
    }
    if (stage > 0)
        hand_transfer(h, stage, stage - 1, in, *hand_gradient(h, stage - 1, 1, micro), tag, micro, false);
}

static inline void hand_stage(struct hand *h, const struct schedule *schedule, int stage)
{
    struct schedule_place place = schedule_place_even(h->plan->stage_count, stage, h->micro_count, 0);
    int count = schedule->order(&place, NULL);
    struct action *actions = arena_alloc(&h->arena, (size_t)count, sizeof *actions);
    bool first = true;
    schedule->order(&place, actions);
    for (int i = 0; i < count; i++) {
        if (actions[i].kind == ACTION_FORWARD) {
            hand_forward(h, stage, actions[i].micro);
        } else {
            hand_backward(h, stage, actions[i].micro, first);
            first = false;
        }
    }
    struct instr *update = hand_instr(h, stage, OP_UPDATE, LANE_COMPUTE, -1);
    update->phase = PHASE_STEP;
    hand_pair(h, update, h->weight_gradient[stage], h->weight[stage]);
}

static inline void hand_free(struct hand *h)
{
    program_free(h->program);
    plan_free(h->plan);
    arena_free(&h->arena);
    free(h);
}

static inline struct hand *hand_pipeline(const char *schedule_name, int stages, int micros)
{
    struct hand *h = calloc(1, sizeof *h);
    h->micro_count = micros;
    h->plan = plan_new(stages, stages);
    h->plan->batch = micros;
    h->plan->sequence = 1;
    h->plan->schedule = schedule_find(schedule_name);
    h->plan->micro_batch_count = micros;
    h->plan->atom_count = 1;
    h->plan->rank_count = stages;
    hand_graph(h, stages, micros);
    struct program *p = h->program = calloc(1, sizeof *p);
    p->graph = &h->graph;
    p->plan = h->plan;
    p->stage_count = stages;
    p->stages = arena_alloc(&p->arena, (size_t)stages, sizeof *p->stages);
    p->buffers = calloc(HAND_BUFFERS, sizeof *p->buffers);
    p->pairs = calloc(HAND_BUFFERS, sizeof *p->pairs);
    p->operands = calloc(HAND_BUFFERS, 4 * sizeof *p->operands);
    p->assignments = arena_alloc(&p->arena, (size_t)stages, sizeof *p->assignments);
    h->value = arena_alloc(&h->arena, (size_t)(2 * stages * micros), sizeof *h->value);
    h->gradient = arena_alloc(&h->arena, (size_t)(2 * stages * micros), sizeof *h->gradient);
    for (int s = 0; s < stages; s++) {
        h->plan->stages[s].first_layer = h->plan->stages[s].first_rank = s;
        h->plan->stages[s].layer_count = 1;
        p->stages[s].instrs = arena_alloc(&p->arena, HAND_INSTRS, sizeof *p->stages[s].instrs);
        p->stages[s].waits = arena_alloc(&p->arena, HAND_INSTRS, sizeof *p->stages[s].waits);
        p->assignments[s] =
            (struct assignment){ .axis = { -1, -1, -1, -1 }, .ring_atom = -1, .slice_axis = -1, .slices = 1 };
        h->weight[s] = hand_buffer(h, BUFFER_WEIGHT, s, s, -1);
        h->weight_gradient[s] = hand_buffer(h, BUFFER_GRADIENT, s, s, -1);
        for (int m = 0; m < micros; m++)
            for (int leaving = 0; leaving < 2; leaving++) {
                *hand_value(h, s, leaving, m) = hand_buffer(h, BUFFER_VALUE, s, s + leaving, m);
                *hand_gradient(h, s, leaving, m) = hand_buffer(h, BUFFER_VALUE_GRADIENT, s, s + leaving, m);
            }
    }
    for (int s = 0; s < stages; s++)
        hand_stage(h, schedules[h->plan->schedule], s);
    ck_assert(program_index(p, NULL));
    return h;
}
#endif
