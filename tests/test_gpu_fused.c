/* What programs on GPUs leave to one call, and that the numbers are the processor's all the same: products with what
 * follows them, sums with norms, the loss, experts. Of a real GPU (CLEAVE_GPU_MODULE) the numbers. */
#include "executor/gpu/device.h"
#include "executor/gpu/learned.h"
#include "tests/gpu_runs.h"

/* A model with biases and GELU: products take what follows them, in every plan, and the numbers are those of the
 * processor, which has no such products. A real library may refuse what is as small as here. */
START_TEST(products_take_what_follows_them)
{
    struct outcome want = gpu_run(tiny_models[0], &gpu_single, &device_cpu, NULL, NULL);
    for (int c = -1; c < GPU_TRIED; c += 2) {
        for (int e = 0; e <= GPU_BIAS_GRADIENT; e++)
            counted.granted[e] = 0;
        struct outcome got =
            gpu_run(tiny_models[0], c < 0 ? &gpu_single : &gpu_choices_tried[c], &device_single, NULL, NULL);
        gpu_expect_same(&got, &want);
        if (gpu_module_path())
            continue;
        ck_assert_msg(counted.granted[GPU_BIAS] > 0, "choice %d: no bias went with a product", c);
        ck_assert_msg(c >= 0 || (counted.granted[GPU_GELU_BIAS] > 0 && counted.granted[GPU_GELU_SLOPE] > 0 &&
                                 counted.granted[GPU_BIAS_GRADIENT] > 0),
                      "choice %d: %d, %d and %d epilogues", c, counted.granted[GPU_GELU_BIAS],
                      counted.granted[GPU_GELU_SLOPE], counted.granted[GPU_BIAS_GRADIENT]);
    }
}
END_TEST

/* What a library times beside its epilogues leaves no trace: not in what is taken afterwards, nor in what is not, also
 * where gradients are added over micro-batches. */
START_TEST(comparisons_leave_no_trace)
{
    const struct tiny_choice *choice = _i % 4 < 2 ? &gpu_single : &gpu_choices_tried[5];
    const char *model = tiny_models[_i < 4 ? 0 : 2];
    if (gpu_module_path())
        return;
    struct outcome want = gpu_run(model, choice, &device_cpu, NULL, NULL);
    for (int e = 0; e <= GPU_BIAS_GRADIENT; e++)
        counted.compared[e] = 0;
    settings.compares_apart = true, settings.refuse_each = _i % 2 ? 2 : 0;
    struct outcome got = gpu_run(model, choice, &device_single, NULL, NULL);
    settings.compares_apart = false, settings.refuse_each = 0;
    gpu_expect_same(&got, &want);
    const bool gpt = _i < 4, adds = _i % 4 >= 2; /* to gradients of biases, which no epilogue does */
    for (int e = 0; e <= GPU_BIAS_GRADIENT; e++) {
        const bool expected = e == GPU_PLAIN ? !gpt || adds : e != GPU_GELU && gpt;
        ck_assert_msg((counted.compared[e] > 0) == expected, "%lld compared of epilogue %d",
                      (long long)counted.compared[e], e);
    }
}
END_TEST

/* What a library refuses, alone, among several, or with what follows it, own kernels compute; of each plain product a
 * note tells. */
START_TEST(refused_products_are_computed)
{
    const char *model = _i % 2 ? TINY_DROPLESS : tiny_models[0];
    struct outcome want = gpu_run(model, &gpu_single, &device_cpu, NULL, NULL);
    settings.refuse_each = _i < 2 ? 1 : 3;
    counted.refused[0] = counted.refused[1] = counted.notes = counted.products = 0;
    struct outcome got = gpu_run(model, &gpu_single, &device_single, NULL, NULL);
    settings.refuse_each = 0;
    gpu_expect_same(&got, &want);
    ck_assert_int_gt(counted.refused[0], 0);
    ck_assert(_i % 2 || gpu_module_path() || counted.refused[1] > 0); /* a real library may take none so small */
    ck_assert_int_eq(counted.notes, counted.refused[0]);
}
END_TEST

/* Every norm but the first stands behind a residual sum, in whatever layout: both run as one, and what the sum leaves
 * for later layers is there. */
START_TEST(sums_take_the_norm_behind_them)
{
    for (int c = -1; c < GPU_TRIED; c++) {
        if (!in_share((uint64_t)c + 1))
            continue;
        struct outcome want =
            gpu_run(tiny_models[_i], c < 0 ? &gpu_single : &gpu_choices_tried[c], &device_cpu, NULL, NULL);
        counted.launches[GPU_NORM] = counted.launches[GPU_ADD_NORM] = 0;
        struct outcome got =
            gpu_run(tiny_models[_i], c < 0 ? &gpu_single : &gpu_choices_tried[c], &device_single, NULL, NULL);
        gpu_expect_same(&got, &want);
        if (c < 0)
            ck_assert_msg(counted.launches[GPU_ADD_NORM] > counted.launches[GPU_NORM],
                          "model %d: %lld norms of their own, %lld others", _i, (long long)counted.launches[GPU_NORM],
                          (long long)counted.launches[GPU_ADD_NORM]);
    }
}
END_TEST

static int64_t unread; /* norms whose gradient of the input nobody reads but the sum's terms, in ranks opened so far */

/* Norms take with them nothing behind the gradients of this phase: those of their own weights, or those of a sum's
 * terms, but not that of its bias. */
static bool open_up_to(struct rank *rank, enum phase phase, struct error *err)
{
    if (!device_single.open(rank, err))
        return false;
    const struct gpu_rank *g = rank->device_state;
    const struct instr *instrs = rank->program->stages[rank->stage].instrs;
    for (int i = 0; i < g->instr_count; i++) {
        const enum kernel kernel =
            instrs[i].op == OP_COMPUTE ? rank->program->graph->segments[instrs[i].segment].kernel : KERNEL_COUNT;
        int last = g->partner[i];
        if (instrs[i].phase != PHASE_BACKWARD_INPUT || (kernel != KERNEL_LAYER_NORM && kernel != KERNEL_RMS_NORM))
            continue;
        while (last > i && (instrs[last].lane != LANE_COMPUTE || instrs[last].phase != phase ||
                            (phase == PHASE_BACKWARD_WEIGHT && instrs[last].segment != instrs[i].segment)))
            --last;
        if (last > i || phase == PHASE_BACKWARD_WEIGHT)
            g->partner[i] = last > i ? last : -1;
        unread += g->unread[i];
        g->unread[i] = false;
    }
    return true;
}

static bool open_apart(struct rank *rank, struct error *err)
{
    return open_up_to(rank, PHASE_BACKWARD_WEIGHT, err);
}

static bool open_without_bias(struct rank *rank, struct error *err)
{
    return open_up_to(rank, PHASE_BACKWARD_INPUT, err);
}

static int64_t norms_with_sums(void)
{
    return counted.launches[GPU_ADD_NORM_GRADIENT] + counted.launches[GPU_ADD_NORM_GRADIENTS];
}

static int64_t norms_apart(void)
{
    return counted.launches[GPU_NORM_GRADIENT] + counted.launches[GPU_NORM_GRADIENTS];
}

/* Where all that a norm adds to the gradient of a residual sum comes last, it goes on to the sum's terms in the same
 * kernel, in whatever layout and precision; the bits are those of kernels of their own. The first norm of a model is of
 * no such sum. In one rank every norm sums the gradients of its weights on the way. */
START_TEST(gradients_of_norms_go_on_to_the_terms_of_sums)
{
    static const struct device device_apart = { .name = "emulated", .open = open_apart, GPU_DEVICE_FUNCTIONS },
                               device_without_bias = { .name = "emulated",
                                                       .open = open_without_bias,
                                                       GPU_DEVICE_FUNCTIONS };
    const bool half = sizeof(real) == sizeof(float) && _i >= 2;
    const enum dtype dtype = half ? DTYPE_BF16 : sizeof(real) == sizeof(float) ? DTYPE_FP32 : DTYPE_FP64;
    settings.fixed_bits = true;
    for (int c = -1; c < GPU_TRIED; c++) {
        const struct tiny_choice *choice = c < 0 ? &gpu_single : &gpu_choices_tried[c];
        if (!in_share((uint64_t)c + 1))
            continue;
        memset(counted.launches, 0, sizeof counted.launches); /* where tests share a process, others have counted */
        struct outcome want = gpu_run_as(dtype, tiny_models[_i % 2], choice, &device_apart, NULL, NULL);
        ck_assert_int_eq(norms_with_sums(), 0);
        const int64_t apart = norms_apart(), copies = counted.launches[GPU_SUM_TERMS];
        memset(counted.launches, 0, sizeof counted.launches);
        struct outcome got = gpu_run_as(dtype, tiny_models[_i % 2], choice, &device_without_bias, NULL, NULL);
        const int64_t fused = norms_with_sums();
        for (int s = 0; s < STEPS; s++)
            ck_assert_msg(got.loss[s] == want.loss[s], "step %d: %.17g, apart %.17g", s + 1, got.loss[s], want.loss[s]);
        ck_assert(got.squared_norm == want.squared_norm);
        ck_assert_int_eq(fused + norms_apart(), apart);
        ck_assert_int_le(counted.launches[GPU_SUM_TERMS] + 2 * fused, copies);
        if (c < 0) /* one norm of five is of an embedding */
            ck_assert_int_eq(fused, 4 * norms_apart());
        ck_assert_msg(c >= 0 || unread > 0, "somebody reads each gradient of a norm's input");
        ck_assert(c >= 0 || (counted.launches[GPU_ADD_NORM_GRADIENT] == 0 && counted.launches[GPU_NORM_GRADIENT] == 0 &&
                             counted.launches[GPU_GAIN_GRADIENT] == 0));
    }
    settings.fixed_bits = false;
}
END_TEST

/* The bias of a sum goes with the norm behind it, which then does not write the gradient that nobody reads any more. */
START_TEST(biases_of_sums_go_with_norms)
{
    for (int c = -1; c < GPU_TRIED; c++) {
        const struct tiny_choice *choice = c < 0 ? &gpu_single : &gpu_choices_tried[c];
        if (!in_share((uint64_t)c + 1))
            continue;
        struct outcome want = gpu_run(tiny_models[_i], choice, &device_cpu, NULL, NULL);
        memset(counted.launches, 0, sizeof counted.launches);
        struct outcome got = gpu_run(tiny_models[_i], choice, &device_single, NULL, NULL);
        gpu_expect_same(&got, &want);
        if (c < 0) /* what is left is the bias of one sum, or positions, which are summed over sequences */
            ck_assert_int_eq(counted.launches[GPU_COLUMN_SUM], STEPS);
    }
}
END_TEST

/* The logits are read once for their maximum and the sum of their exponentials, where the vocabulary is not split. */
START_TEST(the_loss_reads_logits_once)
{
    for (int c = -1; c < GPU_TRIED; c += 2) {
        if (!in_share((uint64_t)c + 1))
            continue;
        struct outcome want =
            gpu_run(tiny_models[_i], c < 0 ? &gpu_single : &gpu_choices_tried[c], &device_cpu, NULL, NULL);
        for (int d = 0; d < 2; d++) {
            counted.launches[GPU_LOGIT_MAX] = counted.launches[GPU_SUM_EXP] = counted.launches[GPU_MAX_SUM_EXP] = 0;
            struct outcome got = gpu_run(tiny_models[_i], c < 0 ? &gpu_single : &gpu_choices_tried[c],
                                         d ? &device_teams : &device_single, NULL, NULL);
            gpu_expect_same(&got, &want);
            ck_assert_int_eq(counted.launches[GPU_LOGIT_MAX], counted.launches[GPU_SUM_EXP]);
            ck_assert(c >= 0 || (counted.launches[GPU_MAX_SUM_EXP] > 0 && counted.launches[GPU_SUM_EXP] == 0));
        }
    }
}
END_TEST

/* Two layers of four experts with two matrices each: every matrix is one call for all experts, forward and both ways
 * back. A real library may have reasons of its own. */
START_TEST(experts_are_multiplied_together)
{
    const int64_t calls = 2 * 2 * 3 * STEPS;
    struct outcome want = gpu_run(TINY_DROPLESS, &gpu_single, &device_cpu, NULL, NULL);
    counted.calls_of[4] = 0;
    struct outcome got = gpu_run(TINY_DROPLESS, &gpu_single, &device_single, NULL, NULL);
    gpu_expect_same(&got, &want);
    if (!gpu_module_path())
        ck_assert_int_eq(counted.calls_of[4], calls);
}
END_TEST

/* Queries, keys and values of a layer are one call forward and one for the gradients of their weights, where their
 * operands happen to lie evenly, as here; so are keys and values, or a gate and what it is for, of the models behind;
 * in each micro-batch. Where a profile is measured each has a time of its own. */
START_TEST(products_of_one_input_are_multiplied_together)
{
    struct gpu_learned learned;
    const struct tiny_choice *choice = _i < 4 ? &gpu_single : &gpu_choices_tried[5];
    const char *model = tiny_models[_i % 4];
    const bool gpt = _i % 4 < 2;
    struct outcome want = gpu_run(model, choice, &device_cpu, NULL, NULL);
    gpu_learned_open(&learned);
    for (int profiled = 0; profiled < 2; profiled++) {
        for (int several = 2; several < 5; several++)
            counted.calls_of[several] = 0;
        settings.learned = profiled ? &learned : NULL;
        struct outcome got = gpu_run(model, choice, &device_single, NULL, NULL);
        gpu_expect_same(&got, &want);
        if (gpu_module_path())
            continue;
        const int layers = 2, ways = 2, each = layers * ways * choice->micro * STEPS * !profiled;
        ck_assert_int_eq(counted.calls_of[3], gpt ? each : 0);
        ck_assert_int_ge(counted.calls_of[2], gpt ? 0 : each);
        ck_assert(!profiled || counted.calls_of[2] == 0);
    }
    settings.learned = NULL;
    gpu_learned_close(&learned);
}
END_TEST

/* What is timed differs from run to run: a library must know of every product that none of its choices may. */
START_TEST(no_product_with_fixed_bits_is_timed)
{
    for (int fixed = 0; fixed < 2; fixed++) {
        counted.products = counted.products_with_fixed_bits = 0;
        settings.fixed_bits = fixed;
        gpu_run(tiny_models[0], &gpu_single, &device_single, NULL, NULL);
        ck_assert_int_gt(counted.products, 0);
        ck_assert_int_eq(counted.products_with_fixed_bits, fixed ? counted.products : 0);
    }
    settings.fixed_bits = false;
}
END_TEST

/* The tiny plan of one rank, lowered. */
struct lowered {
    struct graph *graph;
    struct plan *plan;
    struct program *program;
};

static struct lowered lower_single(void)
{
    struct error error = { 0 };
    struct lowered l = { .graph = tiny_graph(tiny_models[0]) };
    l.plan = tiny_plan(l.graph, &gpu_single);
    l.program = tiny_lower(l.graph, l.plan, &error);
    ck_assert_msg(l.program != NULL, "%s", error.message);
    return l;
}

static void lowered_free(struct lowered *l)
{
    program_free(l->program);
    plan_free(l->plan);
    graph_free(l->graph);
}

/* Numbers the updates of the only stage; returns how many there are. */
static int number_updates(const struct program *program, int *number)
{
    int count = 0;
    for (int i = 0; i < program->stages[0].instr_count; i++)
        number[i] = program->stages[0].instrs[i].op == OP_UPDATE ? count++ : -1;
    return count;
}

/* One launch makes all updates of a step, where none of them waits: for a state of its own to be fetched. Likewise one
 * squares all gradients, where none waits for a sum over ranks. */
START_TEST(weights_are_updated_in_one_launch)
{
    struct lowered l = lower_single();
    int *number = calloc((size_t)l.program->stages[0].instr_count, sizeof *number);
    const int updates = number_updates(l.program, number);
    ck_assert_int_gt(updates, 20);
    for (int c = -1; c < GPU_TRIED; c++) {
        const struct tiny_choice *choice = c < 0 ? &gpu_single : &gpu_choices_tried[c];
        counted.launches[GPU_ADAMW] = counted.launches[GPU_SQUARE_PARTS] = 0;
        gpu_run(tiny_models[0], choice, &device_single, NULL, NULL);
        const int64_t launches = counted.launches[GPU_ADAMW], ranks = (int64_t)choice->dp * choice->tp * choice->pp;
        if (choice->offload & (OFFLOAD_OPTIMIZER | OFFLOAD_PARAMETERS))
            ck_assert_msg(launches > ranks * STEPS && launches <= ranks * STEPS * updates, "choice %d: %lld of %d", c,
                          (long long)launches, updates);
        else
            ck_assert_int_eq(launches, ranks * STEPS);
        const int64_t squares = counted.launches[GPU_SQUARE_PARTS];
        if (ranks == 1 && !(choice->offload & OFFLOAD_PARAMETERS)) /* with which gradients leave the device, too */
            ck_assert_int_eq(squares, STEPS);
        else
            ck_assert_msg(squares >= STEPS && squares < ranks * STEPS * updates, "choice %d: squares %lld times", c,
                          (long long)squares);
    }
    free(number);
    lowered_free(&l);
}
END_TEST

/* What a timeline says of updates of one launch: parts of its time, by their elements. */
START_TEST(updates_share_the_time_of_their_launch)
{
    enum { BEGIN_NS = 1000, EACH_NS = 10, MOST = 64 };
    struct lowered l = lower_single();
    const int count = l.program->stages[0].instr_count;
    struct span *spans = calloc((size_t)count, sizeof *spans);
    struct gpu_update made[MOST] = { { 0 } };
    int batch[MOST] = { 0 }, elements = 0, passed = 0;
    struct gpu_rank g = { .updates = { .made = made, .batch = batch } };
    const struct rank rank = { .program = l.program, .device_state = &g };
    g.updates.number = calloc((size_t)count, sizeof *g.updates.number);
    g.norms.number = calloc((size_t)count, sizeof *g.norms.number);
    for (int i = 0; i < count; i++)
        g.norms.number[i] = -1;
    batch[0] = number_updates(l.program, g.updates.number);
    ck_assert_int_le(batch[0], MOST);
    for (int u = 0; u < batch[0]; u++)
        elements += made[u].count = u % 5;
    for (int i = 0; i < count; i++) { /* all of it while the first one runs; the others end later */
        spans[i].start_ns = g.updates.number[i] == 0 ? BEGIN_NS : BEGIN_NS + elements * EACH_NS;
        spans[i].finish_ns = BEGIN_NS + elements * EACH_NS + (g.updates.number[i] > 0);
    }
    gpu_update_spans(&rank, spans);
    for (int i = 0; i < count; i++) {
        if (g.updates.number[i] < 0) {
            ck_assert_int_eq(spans[i].finish_ns, BEGIN_NS + elements * EACH_NS);
            continue;
        }
        CHECK_NEAR((double)spans[i].start_ns, BEGIN_NS + passed * EACH_NS, 1);
        passed += (int)made[g.updates.number[i]].count;
        CHECK_NEAR((double)spans[i].finish_ns, BEGIN_NS + passed * EACH_NS, 1);
    }
    ck_assert_int_eq(passed, elements);
    free(g.updates.number);
    free(g.norms.number);
    free(spans);
    lowered_free(&l);
}
END_TEST

static Suite *gpu_fused_suite(void)
{
    Suite *suite = suite_create("gpu_fused");
    CHECK_ADD(suite, products_take_what_follows_them);
    CHECK_ADD_LOOP(suite, refused_products_are_computed, 4);
    CHECK_ADD_LOOP(suite, comparisons_leave_no_trace, 8);
    CHECK_ADD(suite, weights_are_updated_in_one_launch);
    CHECK_ADD(suite, updates_share_the_time_of_their_launch);
    CHECK_ADD_LOOP(suite, sums_take_the_norm_behind_them, 2);
    CHECK_ADD_LOOP(suite, gradients_of_norms_go_on_to_the_terms_of_sums, 4);
    CHECK_ADD_LOOP(suite, biases_of_sums_go_with_norms, 2);
    CHECK_ADD_LOOP(suite, the_loss_reads_logits_once, 2);
    CHECK_ADD(suite, experts_are_multiplied_together);
    CHECK_ADD_LOOP(suite, products_of_one_input_are_multiplied_together, 8);
    CHECK_ADD(suite, no_product_with_fixed_bits_is_timed);
    return suite;
}

CHECK_MAIN(gpu_fused_suite)
