/* What lowering derives without being told, counted against the literature. */
#include "planner/lower/lower.h"
#include "tests/check.h"
#include "tests/lowered_program.h"
#include "planner/program/geometry.h"

static bool layer_is(const struct graph *graph, int layer, const char *kind)
{
    return strcmp(graph->layers[layer].kind, kind) == 0;
}

/* Shoeybi et al. 2019, figure 4: two all-reduces forward and two backward per block; embedding, head input and the
 * parallel loss. */
START_TEST(tensor_parallel_counts)
{
    for (int degree = 2; degree <= 4; degree *= 2) {
        for (int micros = 1; micros <= 3; micros++) {
            struct strategy s = {
                "tp", "tiny-gpt", "1f1b", 1, { degree, 1 }, { "tp", "none" }, micros, 0, 0, 1, 0, 0, 0
            };
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

/* Korthikanti et al. 2022, section 4.2.2: sequence parallelism turns each all-reduce into a reduce-scatter and an
 * all-gather, so that blocks move the same bytes. */
START_TEST(sequence_parallel_moves_the_same_bytes)
{
    struct strategy tp = { "tp", "tiny-gpt", "1f1b", 1, { 4, 1 }, { "tp", "none" }, 2, 0, 0, 1, 0, 0, 0 }, sp = tp;
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
        { "cp-gather", OP_ALL_GATHER, 2, 0 },     /* keys and values; kept for the backward pass */
        { "cp-gather", OP_REDUCE_SCATTER, 0, 2 }, /* their gradients */
        { "cp-ring", OP_SHIFT, 2 * (RANKS - 1),
          2 * (2 * RANKS - 1) },               /* Liu et al. 2023: gradients travel one step further, home */
        { "cp-ulysses", OP_ALL_TO_ALL, 4, 4 }, /* Jacobs et al. 2023: q, k, v and the output */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct strategy s = { "cp", "tiny-gpt", "1f1b", 1, { RANKS, 1 }, { rows[i].dim, "none" }, MICROS, 0, 0,
                              1,    0,          0,      0 };
        struct lowered l = lower_one(&s);
        for (int layer = 0; layer < l.graph->layer_count; layer++) {
            int here = layer_is(l.graph, layer, "attention");
            ck_assert_int_eq(count_pairs(l.program, rows[i].op, PHASE_FORWARD, layer), here * MICROS * rows[i].forward);
            ck_assert_int_eq(count_pairs(l.program, rows[i].op, PHASE_BACKWARD_INPUT, layer),
                             here * MICROS * rows[i].backward);
        }
        ck_assert_int_eq(count_pairs(l.program, OP_REDISTRIBUTE, PHASE_COUNT, -1), 0);
        lowered_free(&l);
    }
}
END_TEST

/* Lepikhin et al. 2021, section 3.2; Rajbhandari et al. 2022, section 5: tokens travel to the experts and back, forward
 * and backward, and forward the counts of filled slots. Experts' gradients are summed over the other data-parallel
 * ranks, all else over all. What leaves a rank is its tokens' choices times the capacity factor (2), but for its own
 * experts' share. */
START_TEST(expert_parallel_counts)
{
    enum { DP = 2, EP = 4, MICROS = 2, OUTER = 1, INNER = 2 };
    struct strategy s = { "ep", "tiny-moe", "1f1b", 1, { DP, EP }, { "dp", "ep" }, MICROS, 0, 0, 1, 0, 0, 0 };
    struct lowered l = lower_one(&s);
    for (int layer = 0; layer < l.graph->layer_count; layer++) {
        int here = layer_is(l.graph, layer, "moe");
        ck_assert_int_eq(count_pairs(l.program, OP_ALL_TO_ALL, PHASE_FORWARD, layer), here * MICROS * 3);
        ck_assert_int_eq(count_pairs(l.program, OP_ALL_TO_ALL, PHASE_BACKWARD_INPUT, layer), here * MICROS * 2);
    }
    ck_assert_int_eq(count_pairs(l.program, OP_REDISTRIBUTE, PHASE_COUNT, -1), 0);
    ck_assert_int_eq(count_pairs(l.program, OP_ALL_GATHER, PHASE_COUNT, -1), 0);
    int experts = 0, others = 0, payloads = 0;
    const int64_t tokens = l.graph->batch * l.graph->sequence / (DP * EP * MICROS), hidden = 64;
    for (int i = 0; i < l.program->stages[0].instr_count; i++) {
        const struct instr *instr = &l.program->stages[0].instrs[i];
        for (int p = 0; p < instr->pair_count; p++) {
            const struct buffer *from = &l.program->buffers[l.program->pairs[instr->pair_first + p].source];
            if (instr->op == OP_ALL_REDUCE && from->is_weight) {
                bool expert = strstr(l.graph->weights[from->id].name, "expert_") != NULL;
                ck_assert_uint_eq(instr->atoms, expert ? OUTER : OUTER | INNER);
                *(expert ? &experts : &others) += 1;
            }
            if (instr->op != OP_ALL_TO_ALL || l.graph->values[from->id].element == ELEMENT_INDEX)
                continue;
            payloads++;
            ck_assert_int_eq(instr->lane, LANE_EP);
            ck_assert_int_eq(buffer_holds(from), 2 * 2 * tokens * hidden);
            ck_assert_int_eq(instr_wire_bytes(l.program, 0, instr), from->bytes / EP * (EP - 1));
        }
    }
    ck_assert_int_eq(payloads, 2 * MICROS * 4);
    ck_assert_int_eq(experts, 2 * 3);
    ck_assert_int_eq(experts + others, l.graph->weight_count);
    lowered_free(&l);
}
END_TEST

/* Zhang et al. 2022 (MiCS), section 3.3: shards are gathered and gradients scattered inside a group, every micro-batch;
 * between groups travels each shard once a step. */
START_TEST(groups_of_shards_talk_once_a_step)
{
    enum { MICROS = 2, OUTER = 1, INNER = 2 };
    for (int zero = 1; zero <= 3; zero++) {
        struct strategy s = { "hsdp", "tiny-llama", "1f1b", 1, { 3, 2 }, { "rp", "dp" }, MICROS, zero, 0, 1, 0, 0, 1 };
        struct lowered l = lower_one(&s);
        int gathers = 0, scatters = 0, sums = 0;
        int64_t scattered = 0, summed = 0;
        for (int i = 0; i < l.program->stages[0].instr_count; i++) {
            const struct instr *instr = &l.program->stages[0].instrs[i];
            const struct buffer *from =
                instr->pair_count ? &l.program->buffers[l.program->pairs[instr->pair_first].source] : NULL;
            if (instr->op == OP_ALL_GATHER) {
                gathers++;
                ck_assert_uint_eq(instr->atoms, INNER);
            } else if (instr->op == OP_REDUCE_SCATTER) {
                scatters++;
                scattered += from->bytes;
                ck_assert_uint_eq(instr->atoms, INNER);
            } else if (instr->op == OP_ALL_REDUCE) {
                sums++;
                summed += from->bytes;
                ck_assert_uint_eq(instr->atoms, OUTER);
                ck_assert_int_eq(instr->phase, PHASE_STEP);
            }
        }
        ck_assert_int_eq(sums, l.graph->weight_count);
        ck_assert_int_eq(scatters, l.graph->weight_count * (zero == 1 ? 1 : MICROS));
        ck_assert_int_ge(gathers, l.graph->weight_count);
        ck_assert_int_eq(scattered, 2 * summed * (zero == 1 ? 1 : MICROS)); /* a shard is half of what was scattered */
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

/* Rajbhandari et al. 2020, section 7: parameters are gathered for the forward and again for the backward pass; not
 * those that no backward reads: biases, the position table, an embedding's table. Gathering ahead changes where, not
 * how often. */
START_TEST(zero_3_gathers)
{
    for (int prefetch = 0; prefetch <= 2; prefetch++) {
        struct strategy s = { "zero 3", "tiny-gpt", "1f1b", 1, { 2, 1 }, { "dp", "none" },
                              3,        3,          0,      1, prefetch, prefetch == 2 ? 100000 : 0,
                              0 };
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

/* PyTorch FSDP's reshard_after_forward=False over a step: what stays gathered travels once, whatever the micro-batches,
 * the schedule and the gathers ahead; other layers and all gradients as without it. */
START_TEST(kept_weights_are_gathered_once)
{
    enum { MICROS = 3 };
    for (int stages = 1; stages <= 2; stages++)
        for (int prefetch = 0; prefetch <= 2; prefetch++) {
            struct strategy s = {
                "kept", "tiny-llama", "1f1b", stages, { 2, 1 }, { "dp", "none" }, MICROS, 3, 2 * (stages - 1),
                1,      prefetch,     0,      0
            };
            struct error err = { 0 };
            struct lowered l = lowered_open(&s), each = lower_one(&s);
            for (int i = 0; i < l.plan->layer_count; i++)
                l.plan->layers[i].reshard = i % 3 > 0 ? RESHARD_EACH_STEP : RESHARD_EACH_PASS;
            ck_assert_msg(lower_program(&l.program, l.graph, l.plan, &err), "%s", err.message);
            for (int i = 0; i < l.graph->segment_count; i++) {
                const struct segment *segment = &l.graph->segments[i];
                for (int k = 0; k < segment->weight_count; k++) {
                    int weight = segment->weight[k].id, before = gathers_of(each.program, weight);
                    ck_assert_int_ge(before, MICROS);
                    ck_assert_int_eq(gathers_of(l.program, weight), segment->layer % 3 > 0 ? 1 : before);
                }
            }
            ck_assert_int_eq(count_pairs(l.program, OP_REDUCE_SCATTER, PHASE_COUNT, -1),
                             count_pairs(each.program, OP_REDUCE_SCATTER, PHASE_COUNT, -1));
            lowered_free(&l);
            lowered_free(&each);
        }
}
END_TEST

/* OSDP (Jiang et al. 2023): a replicated operator is never gathered and reduced once to all, the others of its layer
 * are gathered and reduced as before. */
START_TEST(replicated_operators_are_reduced_once)
{
    enum { MICROS = 3 };
    struct strategy s = { "apart", "tiny-llama", "1f1b", 1, { 2, 1 }, { "dp", "none" }, MICROS, 3, 0, 1, 1, 0, 0 };
    uint32_t set = UINT32_C(1) << OPERATOR_k | UINT32_C(1) << OPERATOR_down;
    struct error err = { 0 };
    struct lowered l = lowered_open(&s), all = lower_one(&s);
    int replicated = 0, before = count_pairs(all.program, OP_REDUCE_SCATTER, PHASE_COUNT, -1);
    for (int i = 0; i < l.plan->layer_count; i++)
        l.plan->layers[i].replicate = set;
    ck_assert_msg(lower_program(&l.program, l.graph, l.plan, &err), "%s", err.message);
    for (int i = 0; i < l.graph->segment_count; i++) {
        const struct segment *segment = &l.graph->segments[i];
        bool apart = segment->operators & set;
        replicated += apart ? segment->weight_count : 0;
        for (int k = 0; k < segment->weight_count; k++)
            ck_assert_int_eq(gathers_of(l.program, segment->weight[k].id),
                             apart ? 0 : gathers_of(all.program, segment->weight[k].id));
    }
    ck_assert_int_gt(replicated, 3);
    ck_assert_int_eq(count_pairs(l.program, OP_REDUCE_SCATTER, PHASE_COUNT, -1), before - MICROS * replicated);
    ck_assert_int_eq(count_pairs(l.program, OP_ALL_REDUCE, PHASE_COUNT, -1) -
                         count_pairs(all.program, OP_ALL_REDUCE, PHASE_COUNT, -1),
                     replicated);
    lowered_free(&l);
    lowered_free(&all);
}
END_TEST

static Suite *lower_counts_suite(void)
{
    Suite *suite = suite_create("lower: counts");
    CHECK_ADD(suite, tensor_parallel_counts);
    CHECK_ADD(suite, sequence_parallel_moves_the_same_bytes);
    CHECK_ADD(suite, context_parallel_counts);
    CHECK_ADD(suite, expert_parallel_counts);
    CHECK_ADD(suite, groups_of_shards_talk_once_a_step);
    CHECK_ADD(suite, zero_3_gathers);
    CHECK_ADD(suite, kept_weights_are_gathered_once);
    CHECK_ADD(suite, replicated_operators_are_reduced_once);
    return suite;
}

CHECK_MAIN(lower_counts_suite)
