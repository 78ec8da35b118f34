/* Plans compute what one rank computes, in double precision and in fp32. Each plan's loss, gradient norm and every
 * rank's piece of every reduced gradient is compared with the single-rank run, in a step after an update, so that what
 * the update gathers is seen as well. CLEAVE_ORACLE_SAMPLE: every how many of all plans one is run (1). */
#include "tests/oracle_reference.h"
#include "base/num.h"
#include "executor/comm_threads.h"
#include "planner/program/schedule.h"
#include "tests/data_of_bytes.h"

/* ---- the single-rank run itself: its norm is the norm of its gradient ---- */
START_TEST(the_reference_is_consistent)
{
    for (int m = 0; m < TINY_MODELS; m++) {
        struct reference r = make_reference(tiny_models[m], 1);
        CHECK_NEAR(r.squared_norm, r.all[STEPS - 1] * r.all[STEPS - 1], 0.1 * TOLERANCE[0] * r.squared_norm);
        ck_assert_double_gt(r.all[0], 0.1);
        CHECK_NEAR(r.loss[0], log((double)r.graph->vocab_size), 0.2); /* fresh weights know nothing */
        free_reference(&r);
    }
}
END_TEST

/* ---- the gradient is the slope of the loss, whatever the edges between layers ---- */
/* From zero moments AdamW moves each weight by rate * g / (|g| + epsilon), so that a tiny first step changes the loss
 * by rate times the sum of g^2 / (|g| + epsilon), if and only if g is its gradient. One window of data serves both
 * steps. */
struct slope {
    const struct program *program;
    double epsilon, expected, loss[2];
};

static void sum_slope(void *context, int64_t step, int rank, int buffer, const void *data)
{
    struct slope *slope = context;
    const real *gradient = data;
    (void)rank;
    for (int64_t i = 0; step == 0 && i < buffer_holds(&slope->program->buffers[buffer]); i++)
        slope->expected += (double)(gradient[i] * gradient[i]) / (fabs((double)gradient[i]) + slope->epsilon);
}

static void note_loss(void *context, const struct run_step *step)
{
    ((struct slope *)context)->loss[step->step - 1] = step->loss;
}

START_TEST(gradients_are_slopes)
{
    /* an auxiliary loss acts through its gradient alone: tests/test_experts.c */
    struct graph *graph = tiny_graph(_i == TINY_MIXTURE ? TINY_MOE("0") : tiny_models[_i]);
    struct plan *plan = tiny_plan(graph, &(struct tiny_choice){ .dp = 1, .tp = 1, .pp = 1, .micro = 1 });
    struct error error = { 0 };
    struct data data;
    struct transport transport;
    struct run_summary summary;
    struct program *program = tiny_lower(graph, plan, &error);
    struct run_options options = run_options_default();
    unsigned char bytes[512];
    const struct sample_shape shape = sample_shape_of(graph);
    int64_t size = 1 + (shape.pixels ? shape.pixels * shape.channels : shape.sequence);
    ck_assert_int_le(size, (int64_t)sizeof bytes);
    for (int i = 0; i < size; i++)
        bytes[i] = (unsigned char)(7 * i % (shape.pixels && i ? 256 : shape.vocab_size));
    ck_assert(data_of_bytes(&data, "window", bytes, (size_t)size, shape, 1, &error));
    ck_assert(comm_threads_open(&transport, 1, &error));
    struct slope slope = { .program = program, .epsilon = options.epsilon };
    options.step_count = 2, options.seed = 3, options.data = &data;
    options.learning_rate = 1e-8, options.weight_decay = 0;
    options.context = &slope, options.on_gradient = sum_slope, options.on_step = note_loss;
    ck_assert_msg(run_program(&summary, program, &transport, 1, &options, &error), "%s", error.message);
    double change = (slope.loss[0] - slope.loss[1]) / options.learning_rate;
    ck_assert_double_gt(slope.expected, 1);
    ck_assert_msg(fabs(change / slope.expected - 1) < 1e-4, "%s: the loss falls by %.9g, its gradient says %.9g",
                  graph->model_name, change, slope.expected);
    run_summary_free(&summary);
    transport.close(transport.self);
    data_free(&data);
    program_free(program);
    plan_free(plan);
    graph_free(graph);
}
END_TEST

/* ---- every schedule, with chunks, replicas in turn and meshes that differ by stage ---- */
static void check_schedule(const struct reference *r, int schedule)
{
    static const struct tiny_choice shapes[] = {
        { .dp = 1, .tp = 1, .pp = 2, .micro = 4, .tp_dim = DIM_tp },
        { .dp = 1, .tp = 1, .pp = 2, .micro = 8, .tp_dim = DIM_tp, .chunks = 2, .recompute = RECOMPUTE_FULL },
        { .dp = 2,
          .tp = 1,
          .pp = 3,
          .micro = 2,
          .tp_dim = DIM_tp,
          .zero = 2,
          .recompute = RECOMPUTE_FULL,
          .bucket = 4096 },
        { .dp = 2, .tp = 1, .pp = 2, .micro = 4, .tp_dim = DIM_tp, .zero = 3, .chunks = 3, .prefetch = 1 },
        { .dp = 1, .tp = 2, .pp = 4, .micro = 8, .tp_dim = DIM_tp_sp, .recompute = RECOMPUTE_SELECTIVE },
        { .dp = 2, .tp = 2, .pp = 2, .micro = 2, .tp_dim = DIM_tp_sp, .zero = 1, .chunks = 2, .slices = 2 },
        { .dp = 2, .tp = 1, .pp = 3, .micro = 4, .tp_dim = DIM_tp, .zero = 3, .chunks = 2, .prefetch = 1 },
        { .dp = 1, .tp = 2, .pp = 4, .micro = 8, .tp_dim = DIM_tp_sp, .chunks = 2, .recompute = RECOMPUTE_SELECTIVE },
        { .dp = 2, .tp = 1, .pp = 4, .micro = 4, .tp_dim = DIM_tp, .zero = 3, .chunks = 2, .prefetch = 1 },
        { .dp = 2, .tp = 2, .pp = 2, .micro = 4, .tp_dim = DIM_tp, .zero = 2, .chunks = 2, .bucket = 4096 },
        { .dp = 1, .tp = 1, .pp = 2, .micro = 8, .tp_dim = DIM_tp, .turns = { 2, 1 } },
        { .dp = 1, .tp = 1, .pp = 2, .micro = 8, .tp_dim = DIM_tp, .turns = { 1, 3 }, .recompute = RECOMPUTE_FULL },
        { .dp = 1, .tp = 1, .pp = 3, .micro = 8, .tp_dim = DIM_tp, .turns = { 3, 1, 2 }, .slices = 2 },
        { .dp = 2, .tp = 1, .pp = 2, .micro = 4, .tp_dim = DIM_tp, .turns = { 3, 1 }, .zero = 2, .bucket = 4096 },
        { .dp = 1, .tp = 2, .pp = 2, .micro = 4, .tp_dim = DIM_tp_sp, .turns = { 1, 3 } },
        { .dp = 2, .tp = 1, .pp = 2, .micro = 2, .tp_dim = DIM_tp, .turns = { 2, 1 }, .outer = { 1, 2 }, .zero = 3 },
        { .dp = 1, .tp = 1, .pp = 2, .micro = 2, .tp_dim = DIM_tp, .outer = { 4, 2 }, .zero = 1 },
        { .dp = 1, .tp = 1, .pp = 3, .micro = 2, .tp_dim = DIM_tp, .outer = { 1, 4, 2 }, .zero = 3, .prefetch = 1 },
        { .dp = 1, .tp = 2, .pp = 2, .micro = 4, .tp_dim = DIM_tp_sp, .outer = { 1, 2 }, .zero = 2 },
        { .dp = 1, .tp = 1, .pp = 2, .micro = 2, .tp_dim = DIM_tp, .outer = { 1, 4 }, .inner = { 4, 1 }, .zero = 1 },
        { .dp = 1, .tp = 1, .pp = 2, .micro = 2, .tp_dim = DIM_tp, .outer = { 2, 1 }, .inner = { 1, 4 }, .zero = 3 },
        { .dp = 1, .tp = 1, .pp = 3, .micro = 2, .tp_dim = DIM_tp_sp, .outer = { 2, 1, 2 }, .inner = { 1, 2, 2 } },
    };
    int tried = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int extra = 0; extra < 2; extra++) {
            struct tiny_choice c = shapes[i];
            struct error error = { 0 };
            c.schedule = schedule;
            c.clip = 1;
            struct plan *plan = tiny_plan(r->graph, &c);
            plan->extra_in_flight = extra;
            plan->loss_chunks = extra ? 2 + (int)i % 3 : 1;
            if (plan_check(plan, r->graph, &error)) {
                check_plan(r, plan, (uint64_t)i);
                tried++;
            }
            plan_free(plan);
        }
    ck_assert_int_ge(tried, 3); /* those of other shapes are refused */
}

START_TEST(schedules_agree)
{
    struct reference r = make_reference(tiny_models[_i], 1);
    for (int s = 0; schedules[s]; s++)
        if (!schedules[s]->asynchronous)
            check_schedule(&r, s);
    free_reference(&r);
}
END_TEST

/* Three ranks beside two: no rank's slice is a union of the other stage's. */
START_TEST(slices_of_any_ratio_agree)
{
    static const int ratios[][2] = { { 3, 2 }, { 2, 3 }, { 4, 3 }, { 1, 5 }, { 6, 1 } };
    for (size_t i = 0; i < sizeof ratios / sizeof *ratios; i++) {
        int batch = ratios[i][0] * ratios[i][1] * 2;
        struct reference r = make_reference_of(tiny_models[_i], 1, batch, TINY_VOCAB_MULTIPLE);
        struct tiny_choice c = {
            .dp = 1, .tp = 1, .pp = 2, .micro = 2, .tp_dim = DIM_tp, .clip = 1, .zero = (int)i % 4
        };
        memcpy(c.outer, ratios[i], sizeof ratios[i]);
        check_choice(&r, &c);
        free_reference(&r);
    }
}
END_TEST

/* ---- shards inside groups of data-parallel ranks (HSDP) ---- */
/* Groups of ranks that hold all shards each: the outer atom replicates, in all layers, in every other, or the inner one
 * does; with the order of the mesh turned, and tensor or context parallelism beside it. */
START_TEST(groups_of_shards_agree)
{
    struct reference r = make_reference(tiny_models[_i], 1);
    static const int8_t beside[] = { DIM_none, DIM_tp, DIM_tp_sp, DIM_cp_gather, DIM_cp_ring, DIM_cp_ulysses };
    for (int n = 0; n < 48; n++) {
        int third = n % 2 ? 1 : 2, pp = third == 2 || n % 3 ? 1 : 2, inner = n / 2 % 2 ? 2 : 0, outer = 2 - inner;
        struct tiny_choice c = { .dp = 4, .tp = third, .pp = pp, .micro = 1 + n / 4 % 2, .clip = 1 };
        struct plan *plan = tiny_plan(r.graph, &c);
        plan->bucket_bytes = n % 5 < 3 ? 0 : 1 << 12;
        plan->prefetch = n / 3 % 3;
        plan->atom_count = 3;
        for (int s = 0; s < pp; s++)
            for (int a = 0; a < 3; a++)
                plan->stages[s].atom[a] = a == 1 ? third : 2;
        for (int l = 0; l < plan->layer_count; l++) {
            struct plan_layer *layer = &plan->layers[l];
            layer->dim[outer] =
                n % 7 == 0 && l % 2 ? DIM_dp : DIM_rp; /* of some plans every other layer shards over all */
            layer->dim[inner] = DIM_dp;
            layer->dim[1] = beside[n % 6];
            layer->zero = (int8_t)(n / 6 % 4 == 0 ? l % 4 : n / 6 % 4);
            layer->recompute = (int8_t)(n / 2 % RECOMPUTE_COUNT);
            layer->slices = (int16_t)(n % 4 == 3 ? 2 : 1);
        }
        check_plan(&r, plan, (uint64_t)(90000 + n));
        plan_free(plan);
    }
    free_reference(&r);
}
END_TEST

/* ---- operators of a layer that are not sharded, or not computed again, as it is ---- */
/* Any of them, beside the same as above. */
START_TEST(operators_apart_agree)
{
    struct reference r = make_reference(tiny_models[_i], 1);
    static const int8_t beside[] = { DIM_tp, DIM_dp, DIM_tp_sp, DIM_rp, DIM_cp_gather, DIM_cp_ring };
    for (int n = 0; n < 24; n++) {
        struct tiny_choice c = { .dp = 2,
                                 .tp = n % 2 ? 2 : 1,
                                 .pp = 1 + n / 2 % 2,
                                 .tp_dim = beside[n % 6],
                                 .zero = 1 + n % 3,
                                 .reshard = n / 3 % RESHARD_COUNT,
                                 .recompute = n / 4 % RECOMPUTE_COUNT,
                                 .micro = 2,
                                 .bucket = n % 5 < 3 ? 0 : 1 << 12,
                                 .prefetch = n / 4 % 3,
                                 .slices = n % 7 == 3 ? 2 : 1,
                                 .clip = 1 };
        struct plan *plan = tiny_plan(r.graph, &c);
        for (int l = 0; l < plan->layer_count; l++) {
            plan->layers[l].replicate = (uint32_t)mix64((uint64_t)(n * 64 + l)) & OPERATORS_ALL;
            plan->layers[l].excepted = n % 2 ? mix64((uint64_t)(n * 65 + l)) & (uint64_t)OPERATORS_EVERY : 0;
        }
        check_plan(&r, plan, (uint64_t)(97000 + n));
        plan_free(plan);
    }
    free_reference(&r);
}
END_TEST

/* ---- gathered weights that stay for the step ---- */
/* Of all layers of ZeRO-3 or of some of them, beside other stages of ZeRO, with groups of shards, tensor or context
 * parallelism, pipelines, gathers ahead, slices and recomputation. */
START_TEST(kept_gathers_agree)
{
    struct reference r = make_reference(tiny_models[_i], 1);
    static const int8_t beside[] = { DIM_tp, DIM_dp, DIM_tp_sp, DIM_rp, DIM_cp_gather, DIM_cp_ring };
    for (int n = 0; n < 36; n++) {
        struct tiny_choice c = { .dp = 2,
                                 .tp = n % 4 < 2 ? 2 : 1,
                                 .pp = n % 4 % 2   ? 2
                                       : n % 4 > 0 ? 1 + n % 3
                                                   : 1 + n % 3 % 2,
                                 .tp_dim = beside[n % 6],
                                 .zero = 3,
                                 .reshard = RESHARD_EACH_STEP,
                                 .recompute = n / 3 % RECOMPUTE_COUNT,
                                 .schedule = n / 2 % 2,
                                 .micro = n % 4 < 2 ? 2 : 4,
                                 .bucket = n % 5 < 3 ? 0 : 1 << 12,
                                 .prefetch = n / 4 % 3,
                                 .slices = n % 7 == 3 ? 2 : 1,
                                 .clip = 1 };
        struct plan *plan = tiny_plan(r.graph, &c);
        for (int l = 0; l < plan->layer_count; l++) {
            uint64_t own = mix64((uint64_t)(n * 64 + l));
            plan->layers[l].reshard = (int8_t)(n % 3 == 0 ? RESHARD_EACH_STEP : own % RESHARD_COUNT);
            plan->layers[l].zero = (int8_t)(n % 3 == 2 && own / 2 % 4 == 0 ? own / 8 % 3 : 3);
        }
        check_plan(&r, plan, (uint64_t)(93000 + n));
        plan_free(plan);
    }
    free_reference(&r);
}
END_TEST

/* ---- parameter servers ---- */
/* One rank updates for all: over everything, over groups that shard, beside other dimensions, in every other layer, in
 * a pipeline whose stages share a weight. */
START_TEST(parameter_servers_agree)
{
    struct reference r = make_reference(tiny_models[_i], 1);
    static const int8_t beside[] = { DIM_none, DIM_dp, DIM_tp, DIM_tp_sp, DIM_cp_gather, DIM_ps };
    for (int n = 0; n < 24; n++) {
        struct tiny_choice c = { .dp = n % 3 ? 2 : 4,
                                 .tp = n % 3 ? 2 : 1,
                                 .pp = 1 + n % 2,
                                 .tp_dim = beside[n % 6],
                                 .zero = n / 6,
                                 .recompute = n / 2 % RECOMPUTE_COUNT,
                                 .micro = 1,
                                 .bucket = n % 4 < 2 ? 0 : 1 << 12,
                                 .prefetch = n % 2,
                                 .clip = 1,
                                 .server = true };
        struct plan *plan = tiny_plan(r.graph, &c);
        for (int l = 0; n % 7 == 0 && l < plan->layer_count; l += 2)
            plan->layers[l].dim[0] = DIM_dp;
        check_plan(&r, plan, (uint64_t)(92000 + n));
        plan_free(plan);
    }
    free_reference(&r);
}
END_TEST

/* ---- experts shared out over data-parallel ranks ---- */
START_TEST(shared_out_experts_agree)
{
    static const char *const models[] = { TINY_MOE("0.02"), TINY_DROPLESS, TINY_SIGMOIDS, TINY_BIASED_EXPERTS };
    struct reference r = make_reference(models[_i], 1);
    for (int n = 0; n < 48; n++) {
        struct plan *plan = mixture_plan(r.graph, n);
        struct error error = { 0 };
        ck_assert_msg(plan_check(plan, r.graph, &error), "%s", error.message);
        check_plan(&r, plan, (uint64_t)(91000 + n));
        plan_free(plan);
    }
    free_reference(&r);
}
END_TEST

/* ---- each pair of per-layer choices ---- */
/* A GPT-like and a Llama-like model run all of them in double precision, others a sample: that each pair stands in some
 * plan at least, with any other row, is what tests/test_combinations.c does. */
static bool runs_pair(int model, int dims, int zero)
{
    return ((PRECISE || whole_lists()) && (model == 0 || model == 2)) ||
           (dims / DIM_COUNT + dims % DIM_COUNT + zero + model) % 9 == 0;
}

/* Layers choose one and the other in turn. Every two dimensions meet, with each ZeRO stage on either side; every two
 * ZeRO stages meet with every two of recomputation: 4 x 4 x 4 x 4, of 484 plans. */
static struct plan *pair_plan(const struct graph *graph, int dims, int zero)
{
    struct tiny_choice c = { .dp = 2, .tp = 2, .pp = 1, .micro = 2, .tp_dim = DIM_tp, .clip = 1 };
    struct plan *plan = tiny_plan(graph, &c);
    int recompute = (dims / 4 + 2 * zero) % (RECOMPUTE_COUNT * RECOMPUTE_COUNT);
    for (int l = 0; l < plan->layer_count; l++) {
        bool odd = l % 2 == 1;
        plan->layers[l].dim[1] = (int8_t)(odd ? dims / DIM_COUNT : dims % DIM_COUNT);
        plan->layers[l].zero = (int8_t)(odd ? zero : (zero + dims) % 4);
        plan->layers[l].recompute = (int8_t)(odd ? recompute % RECOMPUTE_COUNT : recompute / RECOMPUTE_COUNT);
    }
    return plan;
}

START_TEST(pairs_of_layer_choices_agree)
{
    struct reference r = make_reference(tiny_models[_i], 1);
    for (int dims = 0; dims < DIM_COUNT * DIM_COUNT; dims++)
        for (int zero = 0; zero < 4; zero++) {
            struct plan *plan = pair_plan(r.graph, dims, zero);
            if (runs_pair(_i, dims, zero))
                check_plan(&r, plan, (uint64_t)(dims * 4 + zero));
            plan_free(plan);
        }
    free_reference(&r);
}
END_TEST

/* What pair_plan() says of itself. */
START_TEST(pairs_of_layer_choices_meet)
{
    int met[4][4][RECOMPUTE_COUNT][RECOMPUTE_COUNT] = { 0 };
    struct graph *graph = tiny_graph(tiny_models[0]);
    for (int k = 0; k < DIM_COUNT * DIM_COUNT * 4; k++) {
        struct plan *plan = pair_plan(graph, k / 4, k % 4);
        const struct plan_layer *one = &plan->layers[1], *other = &plan->layers[2];
        met[one->zero][other->zero][one->recompute][other->recompute]++;
        plan_free(plan);
    }
    for (int i = 0; i < 4 * 4 * RECOMPUTE_COUNT * RECOMPUTE_COUNT; i++)
        ck_assert_int_ge((&met[0][0][0][0])[i], 1);
    graph_free(graph);
}
END_TEST

static Suite *oracle_suite(void)
{
    Suite *suite = suite_create("oracle");
    CHECK_ADD(suite, the_reference_is_consistent);
    add_for_models(suite, "schedules_agree", schedules_agree);
    add_for_models(suite, "slices_of_any_ratio_agree", slices_of_any_ratio_agree);
    add_for_models(suite, "groups_of_shards_agree", groups_of_shards_agree);
    add_for_models(suite, "operators_apart_agree", operators_apart_agree);
    add_for_models(suite, "kept_gathers_agree", kept_gathers_agree);
    add_for_models(suite, "parameter_servers_agree", parameter_servers_agree);
    add_for_models(suite, "pairs_of_layer_choices_agree", pairs_of_layer_choices_agree);
    CHECK_ADD(suite, pairs_of_layer_choices_meet);
    if (PRECISE) /* a slope of 1e-8 is nothing in single precision */
        add_for_models(suite, "gradients_are_slopes", gradients_are_slopes);
    TCase *experts = tcase_create("experts");
    tcase_set_timeout(experts, 0);
    tcase_add_loop_test(experts, shared_out_experts_agree, 0, 4);
    suite_add_tcase(suite, experts);
    return suite;
}

int main(void)
{
    return oracle_main(oracle_suite());
}
