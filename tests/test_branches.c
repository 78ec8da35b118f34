/* Planning models that are no chains: the walk of a pipeline against a closed form, the search's plans against what
 * they lower to, and the order of messages. */
#include "base/num.h"
#include "planner/program/program.h"
#include "planner/program/schedule.h"
#include "planner/estimate/pipeline.h"
#include "planner/layout/layout.h"
#include "planner/lower/lower.h"
#include "planner/search/search.h"
#include "planner/sim/simulate.h"
#include "planner/verify/verify.h"
#include "tests/fact_files.h"
#include "tests/model_files.h"

static const char *const names[] = { "tiny-encdec", "tiny-uvit", "tiny-towers", "t5-small", "pythia-410m" };
enum { NAMES = sizeof names / sizeof *names };

/* ---- the walk ---- */

/* Two towers on stages of their own, joined on the third; one micro-batch; every layer of equal price. */
START_TEST(towers_run_side_by_side)
{
    enum { LEFT = 5, RIGHT = 7, JOIN = 3, SEND = 100, FORWARD = 10, BACKWARD = 25 };
    struct model *model = model_of_zoo("tiny-towers");
    struct graph *graph = graph_of(model, 1, 0, 1);
    struct error err = { 0 };
    struct arena arena = { 0 };
    struct chain chain;
    int class_of[LEFT + RIGHT + JOIN] = { 0 };
    struct plan *plan = plan_new(3, LEFT + RIGHT + JOIN);
    ck_assert_int_eq(graph->layer_count, LEFT + RIGHT + JOIN);
    plan->stages[0] = (struct plan_stage){ .first_layer = 0, .layer_count = LEFT, .atom = { 1, 1, 1, 1 } };
    plan->stages[1] = (struct plan_stage){ .first_layer = LEFT, .layer_count = RIGHT, .atom = { 1, 1, 1, 1 } };
    plan->stages[2] = (struct plan_stage){ .first_layer = LEFT + RIGHT, .layer_count = JOIN, .atom = { 1, 1, 1, 1 } };
    plan->micro_batch_count = 1;
    struct strategy strategy = { plan->layers[0] };
    struct layer_price price = { .forward_ns = FORWARD, .backward_ns = BACKWARD };
    struct price_table table = {
        .class_count = 1, .strategy_count = 1, .strategies = &strategy, .prices = &price, .send_ns = SEND
    };
    int64_t step;
    ck_assert(chain_build(&chain, &arena, LEFT + RIGHT + JOIN, class_of, 1, -1, -1, &err));
    ck_assert(pipeline_step_ns(&step, plan, &chain, &table, NULL, NULL, 1, INT64_MAX,
                               &err)); /* as a chain: one after the other */
    ck_assert_int_eq(step, (LEFT + RIGHT + JOIN) * (FORWARD + BACKWARD) + 4 * SEND);
    chain.graph = graph;
    ck_assert_msg(pipeline_step_ns(&step, plan, &chain, &table, NULL, NULL, 1, INT64_MAX, &err), "%s", err.message);
    /* Values come to the join one after the other, the left tower's first, and gradients leave it so, the right one's
     * first. */
    int64_t turn = max_i64(LEFT * FORWARD + SEND, RIGHT * FORWARD) + SEND + JOIN * (FORWARD + BACKWARD);
    ck_assert_int_eq(step, turn + max_i64(SEND + RIGHT * BACKWARD, 2 * SEND + LEFT * BACKWARD));
    plan_free(plan);
    arena_free(&arena);
    graph_free(graph);
    model_free(model);
}
END_TEST

/* ---- from the search to the simulation ---- */

/* Whatever the number of stages, the plan lowers to a program that the verifier accepts, and the prediction is what a
 * simulation of all its micro-batches says, but for what was extrapolated. Of a small share each model has one number
 * of stages. */
START_TEST(plans_of_branches_hold)
{
    struct model *model = model_of_zoo(names[_i]);
    struct cluster *cluster = cluster_open("1x4:a100-sxm-80");
    struct facts facts = { .cluster = cluster };
    for (int stages = small_share() ? 1 << _i % 3 : 1; stages <= 4; stages *= small_share() ? 8 : 2) {
        struct search_options options = { .space = space_default(16, 0, DTYPE_BF16), .top = 1, .no_advice = true };
        struct search_result *result = NULL;
        struct graph *graph = NULL;
        struct program *program = NULL;
        struct timeline *timeline = NULL;
        struct error err = { 0 };
        options.space.stages = (struct allowed){ 1, { stages } };
        ck_assert_msg(search_run(&result, model, &facts, &options, &err), "%s", err.message);
        ck_assert(result->feasible);
        const struct plan *plan = result->plans[0].plan;
        ck_assert_int_eq(plan->stage_count, stages);
        ck_assert_msg(plan_graph(&graph, model, plan, &err) && lower_program(&program, graph, plan, &err) &&
                          layout_program(program, &err) && verify_program(program, &err) &&
                          simulate(&timeline, &facts, program, &err),
                      "%s, %d stages: %s", names[_i], stages, err.message);
        int64_t predicted = result->plans[0].estimate->prediction.step_ns, simulated = timeline->step_ns;
        ck_assert_msg(llabs(predicted - simulated) <= simulated / 20,
                      "%s, %d stages: predicted %lld ns, simulated %lld", names[_i], stages, (long long)predicted,
                      (long long)simulated);
        timeline_free(timeline);
        program_free(program);
        graph_free(graph);
        search_result_free(result);
    }
    cluster_free(cluster);
    model_free(model);
}
END_TEST

/* ---- the order of messages ---- */

/* One stage per layer: every value that skips stages meets every other. Rendezvous on queues stalls unless all stages
 * agree on one order; the verifier runs them. */
START_TEST(a_stage_for_each_layer_does_not_stall)
{
    struct model *model = model_of_zoo(names[_i]);
    for (int micro = 1; micro <= 8; micro *= 2)
        for (int schedule = 0; schedules[schedule]; schedule++) {
            if (schedules[schedule]->interleaves || schedules[schedule]->asynchronous)
                continue; /* chunks, which the oracle draws; asynchronous ones refuse values that skip stages */
            struct graph *graph = graph_of(model, micro, 8, 1);
            struct plan *plan = plan_new(graph->layer_count, graph->layer_count);
            struct program *program = NULL;
            struct error err = { 0 };
            plan->batch = micro, plan->sequence = 8, plan->vocab_multiple = 1, plan->dtype = DTYPE_FP32;
            plan->micro_batch_count = micro, plan->schedule = schedule;
            plan->rank_count = graph->layer_count, plan->atom_count = 1;
            for (int s = 0; s < plan->stage_count; s++) {
                plan->stages[s] =
                    (struct plan_stage){ .first_layer = s, .layer_count = 1, .first_rank = s, .atom = { 1, 1, 1, 1 } };
                plan->layers[s] = (struct plan_layer){ .dim = { DIM_dp, 0, 0, 0 }, .slices = 1 };
            }
            ck_assert_msg(lower_program(&program, graph, plan, &err) && layout_program(program, &err) &&
                              verify_program(program, &err),
                          "%s, %d micro-batches, %s: %s", names[_i], micro, schedules[schedule]->name, err.message);
            program_free(program);
            plan_free(plan);
            graph_free(graph);
        }
    model_free(model);
}
END_TEST

static Suite *branches_suite(void)
{
    Suite *suite = suite_create("branches");
    CHECK_ADD(suite, towers_run_side_by_side);
    TCase *models = tcase_create("models");
    tcase_set_timeout(models, 0);
    tcase_add_loop_test(models, plans_of_branches_hold, 0, NAMES);
    tcase_add_loop_test(models, a_stage_for_each_layer_does_not_stall, 0, 3); /* the tiny ones */
    suite_add_tcase(suite, models);
    return suite;
}

CHECK_MAIN(branches_suite)
