/* Lowering: what it derives without being told is counted against the literature, its bytes against closed forms, and over a list of
 * strategies the properties that every program must have. */
#include "check.h"
#include "lowered_program.h"
#include "planner/program/access.h"
#include "planner/program/geometry.h"
#include "planner/program/lower.h"

static struct lowered lower_one(const struct strategy *s)
{
    struct lowered l = lowered_program(s);
    return l;
}

/* Pairs of an op in a phase; PHASE_COUNT: any phase; layer -1: any layer. */
static int count_pairs(const struct program *program, enum op op, enum phase phase, int layer)
{
    int count = 0;
    for (int s = 0; s < program->stage_count; s++) {
        for (int i = 0; i < program->stages[s].instr_count; i++) {
            const struct instr *instr = &program->stages[s].instrs[i];
            bool matches = instr->op == op && (phase == PHASE_COUNT || instr->phase == phase) && (layer < 0 || instr->layer == layer);
            count += matches ? instr->pair_count : 0;
        }
    }
    return count;
}

static int64_t wire_bytes(const struct program *program, enum op op, enum phase phase)
{
    int64_t bytes = 0;
    for (int s = 0; s < program->stage_count; s++) {
        for (int i = 0; i < program->stages[s].instr_count; i++) {
            const struct instr *instr = &program->stages[s].instrs[i];
            if (instr->op == op && (phase == PHASE_COUNT || instr->phase == phase))
                bytes += instr_wire_bytes(program, s, instr);
        }
    }
    return bytes;
}

static bool layer_is(const struct graph *graph, int layer, const char *kind)
{
    return strcmp(graph->layers[layer].kind, kind) == 0;
}

static int64_t weight_elements(const struct weight *weight)
{
    int64_t elements = 1;
    for (int i = 0; i < weight->dim_count; i++)
        elements *= weight->size[i];
    return elements;
}

/* ---- counts of the literature ---- */
/* Shoeybi et al. 2019, figure 4: two all-reduces forward and two backward per block; embedding, head input and the parallel loss. */
START_TEST(tensor_parallel_counts)
{
    for (int degree = 2; degree <= 4; degree *= 2) {
        for (int micros = 1; micros <= 3; micros++) {
            struct strategy s = {"tp", "tiny-gpt", "1f1b", 1, {degree, 1}, {"tp", "none"}, micros, 0, 0, 1, 0, 0, 0};
            struct lowered l = lower_one(&s);
            for (int i = 0; i < l.graph->layer_count; i++) {
                bool block = layer_is(l.graph, i, "attention") || layer_is(l.graph, i, "mlp");
                int forward = block || layer_is(l.graph, i, "embedding") ? 1 : layer_is(l.graph, i, "loss") ? 3 : 0;
                int backward = block || layer_is(l.graph, i, "head") ? 1 : 0;
                ck_assert_int_eq(count_pairs(l.program, OP_ALL_REDUCE, PHASE_FORWARD, i), forward * micros);
                ck_assert_int_eq(count_pairs(l.program, OP_ALL_REDUCE, PHASE_BACKWARD_INPUT, i), backward * micros);
            }
            ck_assert_int_eq(count_pairs(l.program, OP_ALL_REDUCE, PHASE_COUNT, -1), 13 * micros);
            for (enum op op = OP_ALL_GATHER; op <= OP_SHIFT; op++)
                ck_assert_int_eq(count_pairs(l.program, op, PHASE_COUNT, -1), 0);
            lowered_free(&l);
        }
    }
}
END_TEST

/* Korthikanti et al. 2022, section 4.2.2: sequence parallelism turns each all-reduce into a reduce-scatter and an all-gather, so
 * that blocks move the same bytes. */
START_TEST(sequence_parallel_moves_the_same_bytes)
{
    struct strategy tp = {"tp", "tiny-gpt", "1f1b", 1, {4, 1}, {"tp", "none"}, 2, 0, 0, 1, 0, 0, 0}, sp = tp;
    sp.dim[0] = "tp+sp";
    struct lowered a = lower_one(&tp), b = lower_one(&sp);
    int64_t reduce = 0, scatter = 0, gather = 0;
    for (int i = 0; i < a.program->stages[0].instr_count; i++) {
        const struct instr *instr = &a.program->stages[0].instrs[i];
        bool block = instr->layer >= 1 && instr->layer <= 4 && instr->phase != PHASE_STEP;
        reduce += instr->op == OP_ALL_REDUCE && block ? instr_wire_bytes(a.program, 0, instr) : 0;
    }
    for (int i = 0; i < b.program->stages[0].instr_count; i++) {
        const struct instr *instr = &b.program->stages[0].instrs[i];
        if (instr->layer < 1 || instr->layer > 4 || instr->phase == PHASE_STEP)
            continue;
        ck_assert_int_ne(instr->op, OP_ALL_REDUCE);
        scatter += instr->op == OP_REDUCE_SCATTER ? instr_wire_bytes(b.program, 0, instr) : 0;
        gather += instr->op == OP_ALL_GATHER ? instr_wire_bytes(b.program, 0, instr) : 0;
    }
    ck_assert_int_gt(reduce, 0);
    ck_assert_int_eq(scatter, gather);
    ck_assert_int_eq(scatter + gather, reduce);
    for (int layer = 1; layer <= 4; layer++) {
        ck_assert_int_eq(count_pairs(b.program, OP_ALL_GATHER, PHASE_FORWARD, layer), 2);
        ck_assert_int_eq(count_pairs(b.program, OP_REDUCE_SCATTER, PHASE_FORWARD, layer), 2);
    }
    lowered_free(&a);
    lowered_free(&b);
}
END_TEST

/* One collective per (phase, value): what context parallelism moves per layer and micro-batch. */
START_TEST(context_parallel_counts)
{
    enum { RANKS = 4, MICROS = 2 };
    static const struct {
        const char *dim;
        enum op op;
        int forward, backward;
    } rows[] = {
        {"cp-gather", OP_ALL_GATHER, 2, 0},                           /* keys and values; kept for the backward pass */
        {"cp-gather", OP_REDUCE_SCATTER, 0, 2},                       /* their gradients */
        {"cp-ring", OP_SHIFT, 2 * (RANKS - 1), 2 * (2 * RANKS - 1)},  /* Liu et al. 2023: gradients travel one step further, home */
        {"cp-ulysses", OP_ALL_TO_ALL, 4, 4},                          /* Jacobs et al. 2023: q, k, v and the output */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct strategy s = {"cp", "tiny-gpt", "1f1b", 1, {RANKS, 1}, {rows[i].dim, "none"}, MICROS, 0, 0, 1, 0, 0, 0};
        struct lowered l = lower_one(&s);
        for (int layer = 0; layer < l.graph->layer_count; layer++) {
            int here = layer_is(l.graph, layer, "attention");
            ck_assert_int_eq(count_pairs(l.program, rows[i].op, PHASE_FORWARD, layer), here * MICROS * rows[i].forward);
            ck_assert_int_eq(count_pairs(l.program, rows[i].op, PHASE_BACKWARD_INPUT, layer), here * MICROS * rows[i].backward);
        }
        ck_assert_int_eq(count_pairs(l.program, OP_REDISTRIBUTE, PHASE_COUNT, -1), 0);
        lowered_free(&l);
    }
}
END_TEST

static int gathers_of(const struct program *program, int weight)
{
    int count = 0;
    for (int s = 0; s < program->stage_count; s++) {
        for (int i = 0; i < program->stages[s].instr_count; i++) {
            const struct instr *instr = &program->stages[s].instrs[i];
            for (int p = 0; p < instr->pair_count && instr->op == OP_ALL_GATHER; p++) {
                const struct buffer *buffer = &program->buffers[program->pairs[instr->pair_first + p].source];
                count += buffer->is_weight && buffer->id == weight;
            }
        }
    }
    return count;
}

/* Rajbhandari et al. 2020, section 7: parameters are gathered for the forward and again for the backward pass; not those that no
 * backward reads: biases, the position table, an embedding's table. Gathering ahead changes where, not how often. */
START_TEST(zero_3_gathers)
{
    for (int prefetch = 0; prefetch <= 2; prefetch++) {
        struct strategy s = {"zero 3", "tiny-gpt", "1f1b", 1, {2, 1}, {"dp", "none"}, 3, 3, 0, 1, prefetch, prefetch == 2 ? 100000 : 0, 0};
        struct lowered l = lower_one(&s);
        int matrices = 0;
        for (int i = 0; i < l.graph->segment_count; i++) {
            const struct segment *segment = &l.graph->segments[i];
            bool head = layer_is(l.graph, segment->layer, "head");
            if (segment->kernel == KERNEL_MATMUL && !head) {
                ck_assert_int_eq(gathers_of(l.program, segment->weight[0].id), 2 * 3);
                matrices++;
                if (segment->weight_count > 1)
                    ck_assert_int_eq(gathers_of(l.program, segment->weight[1].id), 3);
            }
            if (segment->kernel == KERNEL_ADD_POSITION)
                ck_assert_int_eq(gathers_of(l.program, segment->weight[0].id), 3);
            if (segment->kernel == KERNEL_EMBED) /* tied: once as a table, twice as the head */
                ck_assert_int_eq(gathers_of(l.program, segment->weight[0].id), 3 * 3);
        }
        ck_assert_int_eq(matrices, 2 * 6);
        lowered_free(&l);
    }
}
END_TEST

/* ---- closed forms in bytes ---- */
static int64_t padded(int64_t elements, int64_t ranks) { return (elements + ranks - 1) / ranks * ranks; }

START_TEST(data_parallel_bytes)
{
    enum { RANKS = 4, MICROS = 3 };
    for (int zero = 0; zero <= 3; zero++) {
        struct strategy s = {"dp", "tiny-llama", "1f1b", 1, {RANKS, 1}, {"dp", "none"}, MICROS, zero, 0, 1, 0, 0, 0};
        struct lowered l = lower_one(&s);
        int64_t reduced = 0, sharded = 0;
        for (int i = 0; i < l.graph->weight_count; i++) {
            int64_t elements = weight_elements(&l.graph->weights[i]);
            reduced += 2 * (RANKS - 1) * elements * 4 / RANKS;
            sharded += (RANKS - 1) * padded(elements, RANKS) * 4 / RANKS;
        }
        ck_assert_int_eq(wire_bytes(l.program, OP_ALL_REDUCE, PHASE_COUNT), zero == 0 ? reduced : 0);
        ck_assert_int_eq(wire_bytes(l.program, OP_REDUCE_SCATTER, PHASE_COUNT), zero == 0 ? 0 : zero == 1 ? sharded : MICROS * sharded);
        ck_assert_int_eq(wire_bytes(l.program, OP_ALL_GATHER, PHASE_STEP), zero == 1 || zero == 2 ? sharded : 0);
        if (zero < 3)
            ck_assert_int_eq(wire_bytes(l.program, OP_ALL_GATHER, PHASE_COUNT), wire_bytes(l.program, OP_ALL_GATHER, PHASE_STEP));
        lowered_free(&l);
    }
}
END_TEST

/* The output of a stage crosses once per micro-batch and comes back as a gradient; sequence shards cross as shards. */
START_TEST(pipeline_bytes)
{
    for (int k = 0; k < 2; k++) {
        struct strategy s = {"pp", "tiny-llama", "1f1b", 2, {2, 1}, {k ? "tp+sp" : "tp", "none"}, 4, 0, 0, 1, 0, 0, 0};
        struct lowered l = lower_one(&s);
        int value = l.graph->layers[l.plan->stages[1].first_layer - 1].output_value;
        int64_t bytes = 4;
        for (int i = 0; i < l.graph->values[value].dim_count; i++)
            bytes *= value_extent(l.plan, &l.graph->values[value], i);
        ck_assert_int_eq(wire_bytes(l.program, OP_SEND, PHASE_COUNT), 2 * 4 * bytes / (k ? 2 : 1));
        ck_assert_int_eq(wire_bytes(l.program, OP_SEND, PHASE_COUNT), wire_bytes(l.program, OP_RECEIVE, PHASE_COUNT));
        lowered_free(&l);
    }
}
END_TEST

/* ---- schedules ---- */
START_TEST(micro_batches_in_flight)
{
    const struct schedule *f1b1 = schedules[schedule_find("1f1b")], *gpipe = schedules[schedule_find("gpipe")];
    for (int stages = 1; stages <= 6; stages++) {
        for (int stage = 0; stage < stages; stage++) {
            for (int micros = 1; micros <= 9; micros++) {
                for (int extra = 0; extra <= 2; extra++) {
                    int ahead = stages - stage + extra;
                    ck_assert_int_eq(schedule_in_flight(f1b1, stages, stage, micros, extra), micros < ahead ? micros : ahead);
                    ck_assert_int_eq(schedule_in_flight(gpipe, stages, stage, micros, extra), micros);
                }
            }
        }
    }
}
END_TEST

/* Every order does each pass of each micro-batch once, backward after forward. */
START_TEST(orders_are_complete)
{
    for (int k = 0; schedules[k]; k++) {
        for (int stage = 0; stage < 4; stage++) {
            struct action actions[64];
            int count = schedules[k]->order(4, stage, 7, 1, actions), forward = 0, backward = 0;
            ck_assert_int_eq(count, schedules[k]->order(4, stage, 7, 1, NULL));
            ck_assert_int_eq(count, 14);
            for (int i = 0; i < count; i++) {
                if (actions[i].kind == ACTION_FORWARD) {
                    ck_assert_int_eq(actions[i].micro, forward++);
                } else {
                    ck_assert_int_eq(actions[i].micro, backward++);
                    ck_assert_int_lt(actions[i].micro, forward);
                }
            }
        }
    }
}
END_TEST

/* ---- properties of every program ---- */
static void check_waits(const struct strategy *s, const struct program *program)
{
    for (int k = 0; k < program->stage_count; k++) {
        const struct stage_program *stage = &program->stages[k];
        for (int i = 0; i < stage->instr_count; i++) {
            const struct instr *instr = &stage->instrs[i];
            ck_assert_int_le(instr->wait_first + instr->wait_count, stage->wait_count);
            for (int w = 0; w < instr->wait_count; w++) {
                int on = stage->waits[instr->wait_first + w];
                ck_assert_msg(on >= 0 && on < i, "%s: stage %d instruction %d waits for %d", s->name, k, i, on);
                ck_assert_msg(stage->instrs[on].lane != instr->lane, "%s: stage %d instruction %d waits in its own lane", s->name, k, i);
            }
        }
    }
}

/* Brute force: all pairs of accesses that must not swap are ordered by lanes and waits, found by a closure over all instructions. */
static void check_order(const struct strategy *s, const struct program *program, int k)
{
    const struct stage_program *stage = &program->stages[k];
    int n = stage->instr_count, last[LANE_COUNT];
    bool *before = calloc((size_t)n * (size_t)n, sizeof *before); /* before[i * n + j]: j has finished when i starts */
    memset(last, -1, sizeof last);
    for (int i = 0; i < n; i++) {
        const struct instr *instr = &stage->instrs[i];
        for (int w = -1; w < instr->wait_count; w++) {
            int on = w < 0 ? last[instr->lane] : stage->waits[instr->wait_first + w];
            for (int j = 0; j <= on; j++)
                before[i * n + j] |= j == on || before[on * n + j];
        }
        last[instr->lane] = i;
    }
    struct access a, b;
    for (int i = 0; i < n; i++) {
        for (int x = 0; x < access_slots(&stage->instrs[i]); x++) {
            if (!access_at(program, &stage->instrs[i], x, &a))
                continue;
            for (int j = 0; j < i; j++) {
                for (int y = 0; y < access_slots(&stage->instrs[j]) && !before[i * n + j]; y++) {
                    bool clash = access_at(program, &stage->instrs[j], y, &b) && a.buffer == b.buffer && (a.writes || b.writes);
                    ck_assert_msg(!clash, "%s: stage %d: %d and %d both touch buffer %d in no order", s->name, k, j, i, a.buffer);
                }
            }
        }
    }
    free(before);
}

/* Read only after a definition; one life per buffer. */
static void check_definitions(const struct strategy *s, const struct program *program)
{
    int *defined = calloc((size_t)program->buffer_count, sizeof *defined);
    for (int b = 0; b < program->buffer_count; b++)
        defined[b] = buffer_outlives_step(&program->buffers[b]);
    for (int k = 0; k < program->stage_count; k++) {
        for (int i = 0; i < program->stages[k].instr_count; i++) {
            const struct instr *instr = &program->stages[k].instrs[i];
            struct access access;
            for (int slot = 0; slot < access_slots(instr); slot++) {
                if (!access_at(program, instr, slot, &access))
                    continue;
                ck_assert_int_eq(program->buffers[access.buffer].stage, k);
                ck_assert_msg(!access.reads || defined[access.buffer], "%s: stage %d instruction %d (%s) reads buffer %d, which nothing defined",
                              s->name, k, i, op_info[instr->op].name, access.buffer);
            }
            for (int slot = 0; slot < access_slots(instr); slot++) {
                if (access_at(program, instr, slot, &access) && access_renews(program, instr, &access))
                    ck_assert_msg(++defined[access.buffer] == 1, "%s: stage %d instruction %d begins buffer %d anew", s->name, k, i, access.buffer);
            }
        }
    }
    free(defined);
}

/* The n-th message from one stage to another has the same tag on both sides. */
static void check_messages(const struct strategy *s, const struct program *program)
{
    for (int from = 0; from < program->stage_count; from++) {
        for (int to = 0; to < program->stage_count; to++) {
            const struct stage_program *a = &program->stages[from], *b = &program->stages[to];
            for (int i = 0, j = 0;; i++, j++) {
                while (i < a->instr_count && !(a->instrs[i].op == OP_SEND && a->instrs[i].peer_stage == to))
                    i++;
                while (j < b->instr_count && !(b->instrs[j].op == OP_RECEIVE && b->instrs[j].peer_stage == from))
                    j++;
                ck_assert_int_eq(i == a->instr_count, j == b->instr_count);
                if (i == a->instr_count)
                    break;
                ck_assert_msg(a->instrs[i].tag == b->instrs[j].tag, "%s: tag %d meets %d", s->name, a->instrs[i].tag, b->instrs[j].tag);
                const struct pair *p = &program->pairs[a->instrs[i].pair_first], *q = &program->pairs[b->instrs[j].pair_first];
                ck_assert_int_eq(p->source, q->source);
                ck_assert_int_eq(p->destination, q->destination);
            }
        }
    }
}

/* Every trainable weight is updated once on each stage that holds it and counted in one norm. */
static void check_step(const struct strategy *s, const struct lowered *l)
{
    int gradients = 0, updates = count_pairs(l->program, OP_UPDATE, PHASE_STEP, -1), parts = 0;
    for (int b = 0; b < l->program->buffer_count; b++) {
        const struct buffer *buffer = &l->program->buffers[b];
        if (buffer->kind != BUFFER_GRADIENT)
            continue;
        gradients++;
        int state = state_buffer(l->program, b);
        ck_assert_int_eq(state, b + 1);
        ck_assert_int_eq(l->program->buffers[state].elements, buffer->elements);
        bool first = true;
        for (int c = 0; c < b; c++)
            first &= !(l->program->buffers[c].kind == BUFFER_GRADIENT && l->program->buffers[c].id == buffer->id &&
                       l->program->buffers[c].stage != buffer->stage);
        parts += first;
    }
    ck_assert_int_eq(updates, s->clip_norm > 0 ? 2 * gradients : gradients);
    ck_assert_int_eq(count_pairs(l->program, OP_NORM, PHASE_STEP, -1), s->clip_norm > 0 ? parts : 0);
}

static void check_loss(const struct lowered *l)
{
    for (int m = 0; m < l->plan->micro_batch_count && l->graph->loss_value >= 0; m++) {
        int buffer = l->program->loss_buffers[(l->plan->stage_count - 1) * l->plan->micro_batch_count + m];
        ck_assert_int_ge(buffer, 0);
        ck_assert_int_eq(l->program->buffers[buffer].micro, m);
        ck_assert_int_eq(l->program->buffers[buffer].elements, 1);
    }
}

static void check_properties(const struct strategy *s)
{
    struct lowered l = lower_one(s);
    struct error err = {0};
    check_waits(s, l.program);
    check_definitions(s, l.program);
    check_messages(s, l.program);
    check_step(s, &l);
    check_loss(&l);
    ck_assert_msg(program_layout(l.program, &err), "%s: %s", s->name, err.message);
    ck_assert_msg(program_verify(l.program, &err), "%s: %s", s->name, err.message);
    lowered_free(&l);
}

START_TEST(listed_strategies_hold)
{
    for (int i = 0; i < STRATEGY_COUNT; i++) {
        check_properties(&strategies[i]);
        struct lowered l = lower_one(&strategies[i]);
        for (int k = 0; k < l.program->stage_count; k++)
            check_order(&strategies[i], l.program, k);
        lowered_free(&l);
    }
}
END_TEST

/* All pairs of dimensions on a mesh of 2 x 2, by ZeRO stage; the other switches take turns. */
START_TEST(all_dimensions_hold)
{
    static const int stage_counts[] = {1, 2, 3};
    int turn = 0;
    for (int a = 0; a < DIM_COUNT; a++) {
        for (int b = 0; b < DIM_COUNT; b++) {
            for (int zero = 0; zero <= 3; zero++) {
                int recompute = turn / 4 % RECOMPUTE_COUNT;
                char name[96];
                snprintf(name, sizeof name, "%s x %s, zero %d, %s recomputation, turn %d", dimensions[a]->name, dimensions[b]->name, zero,
                         recompute_names[recompute], turn);
                struct strategy s = {name, turn % 5 < 2 ? "tiny-llama" : "tiny-gpt", turn % 2 ? "gpipe" : "1f1b", stage_counts[turn % 3], {2, 2},
                                     {dimensions[a]->name, dimensions[b]->name}, 1 + turn / 2 % 4, zero, recompute, 1 + (turn % 7 == 0),
                                     turn % 4 == 3 ? 2 : 0, turn % 3 ? 0 : 50000, turn % 2};
                check_properties(&s);
                turn++;
            }
        }
    }
}
END_TEST

/* Neighbouring layers of other dimensions: what lies between is derived too. */
START_TEST(changing_dimensions_hold)
{
    struct strategy s = {"layers in turn", "tiny-gpt", "1f1b", 2, {2, 2}, {"dp", "tp"}, 2, 0, 0, 1, 1, 0, 1};
    for (int shift = 0; shift < DIM_COUNT * DIM_COUNT * 4; shift++) {
        struct lowered l = lowered_open(&s);
        struct error err = {0};
        for (int i = 0; i < l.graph->layer_count; i++) {
            int draw = shift + i * (1 + shift % 5);
            l.plan->layers[i] = (struct plan_layer){.dim = {(int8_t)(draw % DIM_COUNT), (int8_t)(draw / DIM_COUNT % DIM_COUNT)},
                                                    .zero = (int8_t)(draw / 3 % 4), .recompute = (int8_t)(draw / 5 % 3), .slices = 1};
        }
        ck_assert_msg(program_lower(&l.program, l.graph, l.plan, &err), "turn %d: %s", shift, err.message);
        check_waits(&s, l.program);
        check_definitions(&s, l.program);
        check_messages(&s, l.program);
        ck_assert_msg(program_layout(l.program, &err) && program_verify(l.program, &err), "turn %d: %s", shift, err.message);
        lowered_free(&l);
    }
}
END_TEST

/* ---- buckets and prefetch ---- */
START_TEST(buckets_fill_up)
{
    struct strategy s = {"buckets", "tiny-gpt", "1f1b", 1, {2, 1}, {"dp", "none"}, 2, 0, 0, 1, 0, 0, 0};
    struct lowered plain = lower_one(&s);
    s.bucket_bytes = 60000;
    struct lowered fused = lower_one(&s);
    int pairs = 0, below = 0;
    const struct program *program = fused.program;
    for (int i = 0; i < program->stages[0].instr_count; i++) {
        const struct instr *instr = &program->stages[0].instrs[i];
        if (instr->op != OP_ALL_REDUCE)
            continue;
        int64_t bytes = 0, last = 0;
        for (int p = 0; p < instr->pair_count; p++)
            bytes += last = program->buffers[program->pairs[instr->pair_first + p].source].bytes;
        ck_assert_int_lt(bytes - last, s.bucket_bytes);
        below += bytes < s.bucket_bytes;
        pairs += instr->pair_count;
    }
    ck_assert_int_le(below, 1); /* what was left at the end */
    ck_assert_int_eq(pairs, count_pairs(plain.program, OP_ALL_REDUCE, PHASE_COUNT, -1));
    ck_assert_int_eq(pairs, plain.graph->weight_count);
    lowered_free(&plain);
    lowered_free(&fused);
}
END_TEST

/* Reductions overlap the backward pass: some are issued before its last instruction, none before its weight's last contribution. */
START_TEST(reductions_start_early)
{
    struct strategy s = {"overlap", "tiny-llama", "1f1b", 1, {2, 1}, {"dp", "none"}, 2, 0, 0, 1, 0, 0, 0};
    struct lowered l = lower_one(&s);
    const struct stage_program *stage = &l.program->stages[0];
    int last_backward = 0, early = 0;
    for (int i = 0; i < stage->instr_count; i++) {
        if (stage->instrs[i].op == OP_COMPUTE)
            last_backward = i;
    }
    for (int i = 0; i < stage->instr_count; i++) {
        early += stage->instrs[i].op == OP_ALL_REDUCE && i < last_backward;
        if (stage->instrs[i].op != OP_ALL_REDUCE)
            continue;
        int gradient = l.program->pairs[stage->instrs[i].pair_first].source;
        for (int j = i + 1; j < stage->instr_count; j++) {
            for (int k = 0; k < MAX_OPERANDS; k++)
                ck_assert_int_ne(stage->instrs[j].operand[ROLE_GRADIENT_WEIGHT][k], gradient);
        }
    }
    ck_assert_int_eq(early, l.graph->weight_count - 1); /* all but that of the embedding, which is the last */
    lowered_free(&l);
}
END_TEST

START_TEST(gathers_are_hoisted)
{
    struct strategy s = {"prefetch", "tiny-llama", "1f1b", 1, {2, 1}, {"dp", "none"}, 2, 3, 0, 1, 1, 0, 0};
    struct lowered l = lower_one(&s);
    const struct stage_program *stage = &l.program->stages[0];
    int seen = 0, layer = -1, opened = 0, before = 0; /* where the layer at hand and the one before it began to compute */
    for (int i = 0; i < stage->instr_count; i++) {
        const struct instr *instr = &stage->instrs[i];
        if (instr->op != OP_COMPUTE)
            continue;
        if (instr->layer != layer) {
            before = opened;
            opened = i;
            layer = instr->layer;
        }
        for (int k = 0; k < MAX_OPERANDS && seen >= 0; k++) {
            int weight = instr->operand[ROLE_WEIGHT][k], at = 0;
            if (weight < 0 || l.program->buffers[weight].kind != BUFFER_WEIGHT_USE || before == 0)
                continue;
            for (int j = 0; j < i; j++) {
                if (stage->instrs[j].op == OP_ALL_GATHER && l.program->pairs[stage->instrs[j].pair_first].destination == weight)
                    at = j;
            }
            ck_assert_int_lt(at, opened);
            seen += at < before;
        }
    }
    ck_assert_int_gt(seen, 2 * l.graph->weight_count);
    lowered_free(&l);
}
END_TEST

/* ---- layers alone ---- */
/* The layers of one stage add up to the program: all work and all bytes between ranks, as no weight is shared between layers. */
START_TEST(layers_alone_add_up)
{
    static const struct {
        const char *dim[2];
        int zero, recompute;
    } cases[] = {{{"dp", "tp"}, 0, 0}, {{"dp", "tp"}, 2, 1}, {{"dp", "tp+sp"}, 3, 2}, {{"tp", "none"}, 0, 2}, {{"dp", "none"}, 1, 0}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct strategy s = {"alone", "tiny-llama", "1f1b", 1, {2, 2}, {cases[c].dim[0], cases[c].dim[1]}, 2, cases[c].zero, cases[c].recompute, 1, 0, 0, 0};
        struct lowered l = lower_one(&s);
        int computes = 0, pairs = 0;
        int64_t bytes = 0;
        for (int layer = 0; layer < l.graph->layer_count; layer++) {
            struct program *alone;
            struct error err = {0};
            int first = layer == 1 ? 0 : layer; /* the embedding leaves partial sums: their conversion is between it and the next */
            if (layer == 0)
                continue;
            ck_assert_msg(program_lower_layers(&alone, l.graph, l.plan, first, layer - first + 1, 2, &err), "%s", err.message);
            for (int i = 0; i < alone->stages[0].instr_count; i++) {
                const struct instr *instr = &alone->stages[0].instrs[i];
                ck_assert(instr->op != OP_SEND && instr->op != OP_RECEIVE);
                computes += instr->op == OP_COMPUTE;
                pairs += op_info[instr->op].collective ? instr->pair_count : 0;
                bytes += op_info[instr->op].collective ? instr_wire_bytes(alone, 0, instr) : 0;
            }
            check_waits(&s, alone);
            check_definitions(&s, alone);
            check_order(&s, alone, 0);
            program_free(alone);
        }
        for (int i = 0; i < l.program->stages[0].instr_count; i++) {
            const struct instr *instr = &l.program->stages[0].instrs[i];
            computes -= instr->op == OP_COMPUTE;
            pairs -= op_info[instr->op].collective ? instr->pair_count : 0;
            bytes -= op_info[instr->op].collective ? instr_wire_bytes(l.program, 0, instr) : 0;
        }
        ck_assert_int_eq(computes, 0);
        ck_assert_int_eq(pairs, 0);
        ck_assert_int_eq(bytes, 0);
        lowered_free(&l);
    }
}
END_TEST

/* ---- geometry ---- */
START_TEST(groups_are_products_of_coordinates)
{
    struct plan *plan = plan_new(1, 1);
    int sizes[MAX_ATOMS] = {2, 3, 1, 4}, members[24], place;
    memcpy(plan->stages[0].atom, sizes, sizeof sizes);
    for (unsigned atoms = 0; atoms < 1u << MAX_ATOMS; atoms++) {
        for (int rank = 0; rank < 24; rank++) {
            int count = group_members(plan, 0, atoms, rank, members, &place), found = 0;
            ck_assert_int_eq(count, group_size(plan, 0, atoms));
            ck_assert_int_eq(members[place], rank);
            for (int other = 0; other < 24; other++) {
                bool same = true;
                for (int a = 0; a < MAX_ATOMS; a++)
                    same &= (atoms >> a & 1) || atom_coordinate(plan, 0, other, a) == atom_coordinate(plan, 0, rank, a);
                if (same)
                    ck_assert_int_eq(members[found++], other); /* ascending ranks are ascending coordinates */
            }
            ck_assert_int_eq(found, count);
        }
    }
    plan_free(plan);
}
END_TEST

/* Each receiver gets each element of its block once, whatever the two meshes; equal copies share the sending. */
START_TEST(transfers_cover_blocks_once)
{
    static const int meshes[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {1, 4}, {4, 2}};
    enum { MESHES = sizeof meshes / sizeof *meshes };
    for (int a = 0; a < MESHES; a++) {
        for (int b = 0; b < MESHES; b++) {
            struct strategy s = {"meshes", "tiny-llama", "1f1b", 2, {1, 1}, {"dp", "tp+sp"}, 8, 0, 0, 1, 0, 0, 0};
            s.dim[1] = (a + b) % 2 ? "tp" : "tp+sp";
            struct lowered l = lowered_open(&s);
            struct error err = {0};
            l.plan->micro_batch_count = 2; /* 8 sequences each */
            memcpy(l.plan->stages[0].atom, meshes[a], sizeof meshes[a]);
            memcpy(l.plan->stages[1].atom, meshes[b], sizeof meshes[b]);
            l.plan->stages[1].first_rank = meshes[a][0] * meshes[a][1];
            l.plan->rank_count = l.plan->stages[1].first_rank + meshes[b][0] * meshes[b][1];
            ck_assert_msg(program_lower(&l.program, l.graph, l.plan, &err), "%s", err.message);
            for (int i = 0; i < l.program->stages[0].instr_count; i++) {
                const struct instr *instr = &l.program->stages[0].instrs[i];
                if (instr->op != OP_SEND)
                    continue;
                const struct pair *pair = &l.program->pairs[instr->pair_first];
                int64_t first_sends = 0, most_sends = 0;
                for (int r = 0; r < stage_rank_count(l.plan, 1); r++) {
                    struct block want = buffer_block(l.program, &l.program->buffers[pair->destination], r), got;
                    int64_t sum = 0;
                    for (int t = 0; t < stage_rank_count(l.plan, 0); t++)
                        sum += transfer_block(l.program, pair, t, r, &got) ? block_elements(&got) : 0;
                    ck_assert_int_eq(sum, block_elements(&want));
                }
                for (int t = 0; t < stage_rank_count(l.plan, 0); t++) {
                    int64_t sends = 0;
                    struct block got;
                    for (int r = 0; r < stage_rank_count(l.plan, 1); r++)
                        sends += transfer_block(l.program, pair, t, r, &got) ? block_elements(&got) : 0;
                    first_sends = t == 0 ? sends : first_sends;
                    most_sends = sends > most_sends ? sends : most_sends;
                }
                ck_assert_int_eq(first_sends, most_sends); /* local rank 0 stands for the busiest */
                ck_assert_int_eq(instr_wire_bytes(l.program, 0, instr), first_sends * 4);
            }
            lowered_free(&l);
        }
    }
}
END_TEST

/* ---- conversions ---- */
static struct layout layout_of(const char *text) /* "R S0 P Z": one word per atom, S with its dim; order is the atom's number */
{
    struct layout layout;
    memset(&layout, 0, sizeof layout);
    for (int atom = 0; *text; atom++) {
        layout.kind[atom] = *text == 'S' ? LAYOUT_SHARDED : *text == 'P' ? LAYOUT_PARTIAL : *text == 'Z' ? LAYOUT_FLAT : LAYOUT_REPLICATED;
        if (*text == 'S') {
            layout.dim[atom] = (uint8_t)(text[1] - '0');
            layout.order[atom] = (uint8_t)atom;
        }
        text += strcspn(text, " ");
        text += strspn(text, " ");
    }
    return layout;
}

START_TEST(conversions_are_the_table)
{
    static const struct {
        const char *from, *to;
        int count;
        enum op op[3];
    } rows[] = {
        {"R", "R", 0, {0}},
        {"P", "R", 1, {OP_ALL_REDUCE}},
        {"P", "S1", 1, {OP_REDUCE_SCATTER}},
        {"S0", "R", 1, {OP_ALL_GATHER}},
        {"S0", "S1", 1, {OP_ALL_TO_ALL}},
        {"R", "S0", 1, {OP_SLICE}},
        {"P", "Z", 1, {OP_REDUCE_SCATTER}},
        {"Z", "R", 1, {OP_ALL_GATHER}},
        {"R", "Z", 1, {OP_SLICE}},
        {"P P", "R R", 1, {OP_ALL_REDUCE}},
        {"P P", "Z R", 2, {OP_REDUCE_SCATTER, OP_ALL_REDUCE}},
        {"P S1", "S0 R", 2, {OP_REDUCE_SCATTER, OP_ALL_GATHER}},
        {"R S0", "S0 R", 1, {OP_REDISTRIBUTE}},        /* slicing would need rows that others have */
        {"S0 S0", "R S0", 1, {OP_REDISTRIBUTE}},       /* gathering the outer one alone leaves gaps */
        {"S0 S0", "S0 R", 1, {OP_ALL_GATHER}},
        {"S0 R", "S0 S0", 1, {OP_SLICE}},
        {"Z S0", "R R", 2, {OP_ALL_GATHER, OP_ALL_GATHER}},
        {"R P", "Z Z", 2, {OP_ALL_REDUCE, OP_SLICE}},  /* pieces are numbered over both atoms at once */
        {"Z Z", "R Z", 2, {OP_ALL_GATHER, OP_SLICE}},
        {"Z P", "Z R", 1, {OP_ALL_REDUCE}},
    };
    static const int sizes[MAX_ATOMS] = {2, 4, 1, 1};
    static const int64_t extent[MAX_DIMS] = {16, 8};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct layout from = layout_of(rows[i].from), to = layout_of(rows[i].to);
        struct conversion path[MAX_CONVERSIONS];
        int count = conversion_path(sizes, extent, 2, &from, &to, path);
        ck_assert_msg(count == rows[i].count, "%s to %s: %d steps", rows[i].from, rows[i].to, count);
        for (int k = 0; k < count; k++)
            ck_assert_msg(path[k].op == rows[i].op[k], "%s to %s: step %d is %s", rows[i].from, rows[i].to, k, op_info[path[k].op].name);
    }
    struct layout from = layout_of("R"), to = layout_of("P");
    struct conversion path[MAX_CONVERSIONS];
    ck_assert_int_eq(conversion_path(sizes, extent, 2, &from, &to, path), -1);
}
END_TEST

/* From every layout of a 2 x 2 x 2 mesh to every other there is a way, and it ends there. */
START_TEST(every_conversion_arrives)
{
    static const int sizes[MAX_ATOMS] = {2, 2, 2, 1};
    static const int64_t extent[MAX_DIMS] = {8, 8};
    static const char *const words[] = {"R", "P", "Z", "S0", "S1"};
    char text[2][16];
    for (int a = 0; a < 125; a++) {
        for (int b = 0; b < 125; b++) {
            snprintf(text[0], sizeof text[0], "%s %s %s", words[a % 5], words[a / 5 % 5], words[a / 25]);
            snprintf(text[1], sizeof text[1], "%s %s %s", words[b % 5], words[b / 5 % 5], words[b / 25]);
            struct layout from = layout_of(text[0]), to = layout_of(text[1]);
            struct conversion path[MAX_CONVERSIONS];
            int count = conversion_path(sizes, extent, 2, &from, &to, path);
            bool possible = !(layout_atoms(&to, LAYOUT_PARTIAL) & ~layout_atoms(&from, LAYOUT_PARTIAL));
            ck_assert_msg((count >= 0) == possible, "%s to %s", text[0], text[1]);
            ck_assert(count <= 0 || layout_equal(&path[count - 1].to, &to));
            ck_assert_int_eq(count == 0, layout_equal(&from, &to));
        }
    }
}
END_TEST

static Suite *lower_suite(void)
{
    Suite *suite = suite_create("lower");
    CHECK_ADD(suite, tensor_parallel_counts);
    CHECK_ADD(suite, sequence_parallel_moves_the_same_bytes);
    CHECK_ADD(suite, context_parallel_counts);
    CHECK_ADD(suite, zero_3_gathers);
    CHECK_ADD(suite, data_parallel_bytes);
    CHECK_ADD(suite, pipeline_bytes);
    CHECK_ADD(suite, micro_batches_in_flight);
    CHECK_ADD(suite, orders_are_complete);
    CHECK_ADD(suite, listed_strategies_hold);
    CHECK_ADD(suite, all_dimensions_hold);
    CHECK_ADD(suite, changing_dimensions_hold);
    CHECK_ADD(suite, buckets_fill_up);
    CHECK_ADD(suite, reductions_start_early);
    CHECK_ADD(suite, gathers_are_hoisted);
    CHECK_ADD(suite, layers_alone_add_up);
    CHECK_ADD(suite, groups_are_products_of_coordinates);
    CHECK_ADD(suite, transfers_cover_blocks_once);
    CHECK_ADD(suite, conversions_are_the_table);
    CHECK_ADD(suite, every_conversion_arrives);
    return suite;
}

CHECK_MAIN(lower_suite)
