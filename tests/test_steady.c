/* Asynchronous schedules against a sequential emulation in double precision: weights and losses of several steps. */
#include "tests/steady_emulation.h"

struct choice {
    const char *schedule;
    int model, dp, tp, pp, micro, recompute, bucket;
    double clip;
};

static struct plan *plan_of(const struct graph *graph, const struct choice *c)
{
    struct plan *plan = tiny_plan(graph, &(struct tiny_choice){ .dp = c->dp,
                                                                .tp = c->tp,
                                                                .pp = c->pp,
                                                                .tp_dim = DIM_tp,
                                                                .named = c->schedule,
                                                                .micro = c->micro,
                                                                .recompute = c->recompute,
                                                                .offload = c->micro % OFFLOAD_PARAMETERS,
                                                                .bucket = c->bucket,
                                                                .clip = c->clip });
    struct error error = { 0 };
    ck_assert_msg(plan_check(plan, graph, &error), "%s", error.message);
    return plan;
}

static const struct choice choices[] = {
    { "pipedream", 1, 1, 1, 1, 3, RECOMPUTE_NONE, 0, 0 },
    { "pipedream", 1, 1, 1, 2, 2, RECOMPUTE_NONE, 0, 0 },
    { "pipedream", 1, 1, 1, 2, 5, RECOMPUTE_FULL, 0, 0 },
    { "pipedream", 2, 1, 1, 3, 4, RECOMPUTE_SELECTIVE, 0, 0 },
    { "pipedream", 1, 1, 1, 4, 4, RECOMPUTE_NONE, 0, 0 },
    { "pipedream", 2, 1, 1, 5, 7, RECOMPUTE_NONE, 0, 0 },
    { "pipedream", 1, 2, 1, 3, 5, RECOMPUTE_NONE, 0, 0 },
    { "pipedream", 2, 1, 2, 3, 4, RECOMPUTE_FULL, 0, 0 },
    { "pipedream", 1, 2, 2, 2, 3, RECOMPUTE_NONE, 4096, 0 },
    { "pipedream", TINY_MIXTURE, 1, 1, 2, 4, RECOMPUTE_NONE, 0, 0 }, /* its auxiliary loss weighs as much as its loss */
    { "pipedream-vertical", 1, 1, 1, 3, 4, RECOMPUTE_NONE, 0, 0 },
    { "pipedream-vertical", 2, 2, 1, 2, 5, RECOMPUTE_FULL, 4096, 0 },
    { "pipedream-2bw", 1, 1, 1, 1, 2, RECOMPUTE_NONE, 0, 0 },
    { "pipedream-2bw", 1, 1, 1, 2, 2, RECOMPUTE_NONE, 0, 0 },
    { "pipedream-2bw", 2, 1, 1, 3, 4, RECOMPUTE_FULL, 0, 0 },
    { "pipedream-2bw", 1, 1, 1, 4, 6, RECOMPUTE_NONE, 0, 0.5 },
    { "pipedream-2bw", 1, 2, 1, 3, 5, RECOMPUTE_SELECTIVE, 4096, 0 },
    { "pipedream-2bw", 2, 2, 2, 2, 3, RECOMPUTE_NONE, 0, 0.5 },
};
enum { CHOICES = sizeof choices / sizeof *choices };

/* Weights after several steps and the losses on the way; the same bits again and over sockets. */
START_TEST(runs_equal_the_emulation)
{
    const struct choice *c = &choices[_i];
    struct emulation e;
    struct error error = { 0 };
    struct steady_record r, again;
    emulation_open(&e, tiny_models[c->model], c->micro * c->dp, c->micro);
    struct plan *plan = plan_of(e.graph, c);
    struct program *program = tiny_lower(e.graph, plan, &error);
    ck_assert_msg(program != NULL, "%s", error.message);
    int updates = emulate(&e, plan);
    run_steady(&r, &e, program, updates, false);
    check_steady(&r, &e, c->schedule);
    run_steady(&again, &e, program, updates, _i % 3 == 0);
    ck_assert_uint_eq(again.weights, r.weights);
    program_free(program);
    plan_free(plan);
    emulation_close(&e);
}
END_TEST

/* The comparison sees the age of the weights: each schedule differs from the emulation of another. */
START_TEST(ages_are_told_apart)
{
    struct emulation e, other;
    struct error error = { 0 };
    struct steady_record r;
    emulation_open(&e, tiny_models[1], 4, 4);
    emulation_open(&other, tiny_models[1], 4, 4);
    struct plan *plan = plan_of(e.graph, &(struct choice){ "pipedream", 1, 1, 1, 3, 4, RECOMPUTE_NONE, 0, 0 });
    struct program *program = tiny_lower(e.graph, plan, &error);
    ck_assert_msg(program != NULL, "%s", error.message);
    run_steady(&r, &other, program, emulate_pipedream(&other, plan, true), false);
    ck_assert_double_gt(r.worst, 1e3 * STEADY_TOLERANCE);
    program_free(program);
    plan_free(plan);
    emulation_close(&e);
    emulation_close(&other);
}
END_TEST

/* ---- what is refused, with the reason ---- */
static const struct {
    const char *model, *says;
    struct tiny_choice choice;
} refused[] = {
    { TINY_GPT("tied", "true"),
      "weight 0.embedding.table is used on stages 0 and 1",
      { .dp = 1, .tp = 1, .pp = 2, .micro = 4, .named = "pipedream" } },
    { TINY_SKIPS,
      "reads a value of stage 0: schedule pipedream-2bw knows values between neighbouring stages only",
      { .dp = 1, .tp = 1, .pp = 4, .micro = 4, .named = "pipedream-2bw" } },
    { TINY_GPT("untied", "false"),
      "at least as many micro-batches as its 4 stages, found 2",
      { .dp = 1, .tp = 1, .pp = 4, .micro = 2, .named = "pipedream-2bw" } },
    { TINY_GPT("untied", "false"),
      "layer 0: zero 1: schedule pipedream keeps versions of whole weights",
      { .dp = 2, .tp = 1, .pp = 2, .micro = 2, .zero = 1, .named = "pipedream" } },
    { TINY_GPT("untied", "false"),
      "clip_norm 1: schedule pipedream-vertical updates after each micro-batch",
      { .dp = 1, .tp = 1, .pp = 2, .micro = 2, .clip = 1, .named = "pipedream-vertical" } },
    { TINY_GPT("untied", "false"),
      "stage 1: schedule pipedream-2bw knows no replicas that take turns",
      { .dp = 1, .tp = 1, .pp = 2, .micro = 4, .named = "pipedream-2bw", .turns = { 2, 1 } } },
};

START_TEST(unfit_plans_are_refused)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct graph *graph = tiny_graph(refused[i].model);
        struct plan *plan = tiny_plan(graph, &refused[i].choice);
        struct error error = { 0 };
        ck_assert(!plan_check(plan, graph, &error));
        ck_assert_msg(strstr(error.message, refused[i].says) != NULL, "%s", error.message);
        plan_free(plan);
        graph_free(graph);
    }
}
END_TEST

static Suite *steady_suite(void)
{
    Suite *suite = suite_create("steady");
    TCase *tcase = tcase_create("runs_equal_the_emulation");
    tcase_add_loop_test(tcase, runs_equal_the_emulation, 0, CHOICES);
    suite_add_tcase(suite, tcase);
    CHECK_ADD(suite, ages_are_told_apart);
    CHECK_ADD(suite, unfit_plans_are_refused);
    return suite;
}
CHECK_MAIN(steady_suite)
