/* What frozen weights cost: no state, no gradient, nothing kept and nothing sent back below the first trainable weight;
 * they are still stored, sharded and gathered. */
#include "base/num.h"
#include "planner/layout/lives.h"
#include "planner/estimate/estimate.h"
#include "planner/lower/lower.h"
#include "tests/check.h"
#include "tests/lowered_program.h"
#include "tests/model_files.h"
#include "tests/tiny_models.h"

/* Bytes of a kind of weight buffers on one rank of a stage. */
static int64_t bytes_of(const struct program *program, int stage, enum buffer_kind kind)
{
    int64_t bytes = 0;
    for (int b = 0; b < program->buffer_count; b++)
        if (program->buffers[b].stage == stage && program->buffers[b].kind == kind)
            bytes += program->buffers[b].bytes;
    return bytes;
}

/* Rajbhandari et al. 2020, section 3.1, of the trainable weights alone: 4 bytes of gradient and 12 of state with bf16;
 * the weights themselves are sharded by ZeRO-3 whether they are trained or not. */
START_TEST(memory_has_a_closed_form)
{
    enum { RANKS = 8 };
    const int64_t all = 6742609920, trained = 4194304;
    for (int zero = 0; zero <= 3; zero++) {
        struct strategy s = {
            "", "llama-2-7b-lora", "1f1b", 1, { RANKS, 1 }, { "dp", "none" }, 1, zero, 0, 1, 0, 0, 0
        };
        struct lowered l = lowered_open(&s);
        struct error err = { 0 };
        l.plan->dtype = DTYPE_BF16;
        ck_assert_msg(lower_program(&l.program, l.graph, l.plan, &err), "%s", err.message);
        int64_t part = zero >= 1 ? RANKS : 1;
        ck_assert_int_eq(bytes_of(l.program, 0, BUFFER_STATE), 12 * trained / part);
        ck_assert_int_eq(bytes_of(l.program, 0, BUFFER_GRADIENT), 4 * trained / part);
        ck_assert_int_eq(bytes_of(l.program, 0, BUFFER_WEIGHT), 2 * all / (zero == 3 ? RANKS : 1));
        lowered_free(&l);
    }
}
END_TEST

/* Split by tensor parallelism as its matrix is, an adapter of a column-split one lies whole in A and split in B, of a
 * row-split one the other way round; whole factors are copies. */
START_TEST(adapters_split_as_their_matrices)
{
    enum { RANKS = 2 };
    struct strategy s = { "", "tiny-lora", "1f1b", 1, { RANKS, 1 }, { "tp", "none" }, 1, 0, 0, 1, 0, 0, 0 };
    struct lowered l = lower_one(&s);
    for (int b = 0; b < l.program->buffer_count; b++) {
        const struct buffer *buffer = &l.program->buffers[b];
        if (buffer->kind != BUFFER_STATE)
            continue;
        const struct weight *weight = &l.graph->weights[buffer->id];
        bool row = strstr(weight->name, ".proj_") || strstr(weight->name, ".down_"),
             split = row == (strstr(weight->name, "_lora_a") != NULL);
        ck_assert_msg(buffer->bytes == weight_elements(weight) * 8 / (split ? RANKS : 1), "%s: %lld bytes",
                      weight->name, (long long)buffer->bytes);
    }
    lowered_free(&l);
}
END_TEST

/* ---- below the first trainable weight ---- */
static bool is_backward(const struct instr *instr)
{
    return instr->phase == PHASE_BACKWARD_INPUT || instr->phase == PHASE_BACKWARD_WEIGHT;
}

static struct program *half_frozen(struct graph **graph, struct plan **plan, const struct tiny_choice *choice)
{
    struct error err = { 0 };
    *graph = tiny_graph_of(TINY_FROZEN, 8 * choice->micro);
    *plan = tiny_plan(*graph, choice);
    ck_assert_msg(plan_check(*plan, *graph, &err), "%s", err.message);
    struct program *program = tiny_lower(*graph, *plan, &err);
    ck_assert_msg(program != NULL, "%s", err.message);
    return program;
}

/* Of a pipeline's three stages the first holds frozen layers alone: it computes forward and sends, and what it holds
 * does not grow with the micro-batches that are in flight behind it. */
START_TEST(frozen_stages_only_compute_forward)
{
    const char *const names[] = { "gpipe", "1f1b", "zb-h1" };
    int64_t arena[2] = { 0 };
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        for (int many = 0; many < 2; many++) {
            struct tiny_choice c = { .dp = 2, .tp = 1, .pp = 3, .micro = many ? 8 : 4, .zero = 3, .named = names[n] };
            struct graph *graph;
            struct plan *plan;
            struct program *program = half_frozen(&graph, &plan, &c);
            int back[3] = { 0 }, forward = 0;
            ck_assert(!graph_needs_gradient(graph, graph->layers[plan->stages[0].layer_count - 1].output_value));
            for (int s = 0; s < 3; s++)
                for (int i = 0; i < program->stages[s].instr_count; i++) {
                    const struct instr *instr = &program->stages[s].instrs[i];
                    back[s] += is_backward(instr) || instr->phase == PHASE_STEP;
                    forward += s == 0 && instr->op == OP_ALL_GATHER;
                }
            ck_assert_int_eq(back[0], 0);
            ck_assert_int_gt(back[1], 0);
            ck_assert_int_gt(forward, 0); /* what is frozen is gathered all the same */
            ck_assert_int_eq(bytes_of(program, 0, BUFFER_GRADIENT) + bytes_of(program, 0, BUFFER_STATE) +
                                 bytes_of(program, 0, BUFFER_VALUE_GRADIENT),
                             0);
            arena[many] = program->stages[0].arena_bytes;
            program_free(program);
            plan_free(plan);
            graph_free(graph);
            ck_assert(!many || arena[0] == arena[1]);
        }
}
END_TEST

/* Alive where the first micro-batch turns around: only what some backward pass reads, or the loss. */
START_TEST(nothing_is_kept_for_frozen_layers)
{
    struct tiny_choice c = { .dp = 1, .tp = 1, .pp = 1, .micro = 1 };
    struct graph *graph;
    struct plan *plan;
    struct program *program = half_frozen(&graph, &plan, &c);
    const struct stage_program *list = &program->stages[0];
    struct life *lives = calloc((size_t)program->buffer_count, sizeof *lives);
    ck_assert(lives_find(program, lives, NULL));
    int turn = 0, kept[7] = { 0 };
    while (list->instrs[turn].phase == PHASE_FORWARD)
        turn++;
    for (int b = 0; b < program->buffer_count; b++) {
        const struct buffer *buffer = &program->buffers[b];
        if (buffer->kind != BUFFER_VALUE || buffer->persistent || graph->values[buffer->id].input ||
            lives[b].first >= turn || lives[b].last < turn)
            continue;
        kept[graph->segments[graph->values[buffer->id].producer].layer]++;
    }
    ck_assert_int_eq(kept[0] + kept[1], 0); /* embedding, attention: nothing runs backward there */
    ck_assert_int_eq(kept[2], 1);           /* the input of the first layer that trains */
    ck_assert_int_ge(kept[3], 6);
    ck_assert_int_eq(kept[4], 4); /* gate, up and 1 / rms of a frozen network; its sum, which the head's norm reads */
    free(lives);
    program_free(program);
    plan_free(plan);
    graph_free(graph);
}
END_TEST

/* ---- work ---- */
/* 2 FLOPs per parameter and token forward, 2 for the gradient of the input, 2 for that of the weight (Kaplan et al.
 * 2020, section 2.1). The table is looked up; what the first block's matrices read has no gradient. */
START_TEST(frozen_matrices_cost_four_flops)
{
    const double h = 4096, f = 11008, v = 32000, t = 4096, r = 8, layers = 32, batch = 2;
    double base = layers * (4 * h * h + 3 * h * f) + v * h, adapters = layers * 4 * h * r;
    double matrices = 4 * base - 2 * 3 * h * h + 6 * adapters - 2 * 2 * h * r;
    double attention = 3 * layers * 4 * h * (t + 1) / 2; /* scores and mix; twice that backward */
    struct model *model = model_of_zoo("llama-2-7b-lora");
    struct graph *graph = graph_of(model, (int64_t)batch, 0, 128);
    double want = batch * t * (matrices + attention);
    CHECK_NEAR(estimate_model_flops(graph) / want, 1, 1e-12);
    graph_free(graph);
    model_free(model);
    struct graph *all = tiny_graph(TINY_GPT("t", "false")), *half = tiny_graph(TINY_FROZEN);
    ck_assert_double_lt(estimate_model_flops(half), estimate_model_flops(all));
    graph_free(all);
    graph_free(half);
}
END_TEST

static Suite *frozen_suite(void)
{
    Suite *suite = suite_create("frozen");
    CHECK_ADD(suite, memory_has_a_closed_form);
    CHECK_ADD(suite, adapters_split_as_their_matrices);
    CHECK_ADD(suite, frozen_stages_only_compute_forward);
    CHECK_ADD(suite, nothing_is_kept_for_frozen_layers);
    CHECK_ADD(suite, frozen_matrices_cost_four_flops);
    return suite;
}

CHECK_MAIN(frozen_suite)
