/* The search over clusters of several device types. */
#include "base/num.h"
#include "base/text.h"
#include "models/model.h"
#include "planner/check/check_cut_parts.h"
#include "planner/search/baseline.h"
#include "planner/search/search.h"
#include "planner/tables/workbench.h"
#include "tests/enumerate_plans.h"
#include "tests/toy_world.h"
#include <stdlib.h>

/* ---- the cut, with prices by stage, against all cuts and strategies ---- */

enum { LAYERS = 5, CLASSES = 2, STRATEGIES = 2, STAGES = 3, TABLES = 2 };

struct toy {
    int class_of[LAYERS], in_flight[STAGES], stage_count;
    struct layer_price prices[TABLES][CLASSES * STRATEGIES];
    struct layer_price least[CLASSES * STRATEGIES];
    struct price_table tables[TABLES], lead;
    const struct price_table *by_stage[STAGES];
    struct strategy strategies[STRATEGIES];
    struct chain chain;
    struct partition_problem problem;
};

static int64_t draw(uint64_t *state, int64_t most)
{
    return (int64_t)(mix64(++*state) % (uint64_t)most);
}

static void draw_price(struct layer_price *p, uint64_t *state)
{
    *p = (struct layer_price){ .forward_ns = 10 + draw(state, 100),
                               .backward_ns = 20 + draw(state, 200),
                               .gather_forward_ns = draw(state, 60),
                               .gather_backward_ns = draw(state, 60),
                               .gather_once_ns = draw(state, 300),
                               .reduce_ns = draw(state, 80),
                               .reduce_last_ns = draw(state, 300),
                               .step_ns = draw(state, 50),
                               .weight_bytes = draw(state, 50),
                               .saved_bytes = draw(state, 20),
                               .transient_bytes = draw(state, 20) };
}

static void make_toy(struct toy *toy, struct arena *arena, uint64_t seed)
{
    uint64_t state = seed * 7919;
    struct error err = { 0 };
    *toy = (struct toy){ .stage_count = 1 + (int)draw(&state, STAGES) };
    for (int l = 0; l < LAYERS; l++)
        toy->class_of[l] = (int)draw(&state, CLASSES);
    for (int k = 0; k < toy->stage_count; k++) {
        toy->in_flight[k] = toy->stage_count - k;
        toy->by_stage[k] = &toy->tables[draw(&state, TABLES)];
    }
    for (int t = 0; t < TABLES; t++) {
        for (int i = 0; i < CLASSES * STRATEGIES; i++)
            draw_price(&toy->prices[t][i], &state);
        toy->tables[t] = (struct price_table){ .class_count = CLASSES,
                                               .strategy_count = STRATEGIES,
                                               .strategies = toy->strategies,
                                               .prices = toy->prices[t],
                                               .send_ns = draw(&state, 30),
                                               .base_bytes = draw(&state, 40) };
    }
    toy->lead = toy->tables[0];
    toy->lead.base_bytes = min_i64(toy->tables[0].base_bytes, toy->tables[1].base_bytes);
    toy->lead.by_stage = toy->by_stage;
    toy->lead.prices = toy->least;
    for (int i = 0; i < CLASSES * STRATEGIES; i++) { /* what bounds are made of */
        toy->least[i] = toy->prices[0][i];
        toy->least[i].forward_ns = min_i64(toy->prices[0][i].forward_ns, toy->prices[1][i].forward_ns);
        toy->least[i].backward_ns = min_i64(toy->prices[0][i].backward_ns, toy->prices[1][i].backward_ns);
        toy->least[i].step_ns = min_i64(toy->prices[0][i].step_ns, toy->prices[1][i].step_ns);
    }
    ck_assert(chain_build(&toy->chain, arena, LAYERS, toy->class_of, CLASSES, -1, -1, &err));
    toy->problem = (struct partition_problem){ .chain = &toy->chain,
                                               .table = &toy->lead,
                                               .stage_count = toy->stage_count,
                                               .micro_batch_count = 4,
                                               .in_flight = toy->in_flight,
                                               .capacity_bytes = 120 + draw(&state, 300),
                                               .below_ns = INT64_MAX };
}

/* The checker's first bound is no longer than the optimum, which it does not refute, and no more than that holds. */
static void check_verdict(const struct toy *toy, int64_t want, bool *tight)
{
    struct stage_kind stages[STAGES];
    struct error err = { 0 };
    enum cut_verdict verdict;
    int64_t witness_ns = 0, once_ns = 0, m = toy->problem.micro_batch_count;
    for (int k = 0; k < toy->stage_count; k++) {
        int64_t n = toy->in_flight[k], send_ns = toy->by_stage[k]->send_ns;
        stages[k] = (struct stage_kind){ .table = toy->by_stage[k],
                                         .capacity_bytes = toy->problem.capacity_bytes,
                                         .in_flight = n,
                                         .micro_batches = m,
                                         .waiting_ns = n >= m ? 0 : ceil_div(2 * send_ns * (n - 1), n) };
        once_ns += k + 1 < toy->stage_count ? 2 * price_send_ns(&toy->lead, k) : 0;
    }
    struct cut_problem problem = { .layer_count = LAYERS,
                                   .stage_count = toy->stage_count,
                                   .class_count = CLASSES,
                                   .class_of = toy->class_of,
                                   .tied_first = -1,
                                   .tied_second = -1,
                                   .stages = stages,
                                   .once_ns = once_ns };
    ck_assert_int_le(value_quick_bound(&problem), want);
    ck_assert_int_ge(value_quick_bound(&problem), partition_quick_bound(&toy->problem));
    ck_assert(phases_check(&problem, want, &verdict, &witness_ns, &err) && verdict != CUT_REFUTED);
    *tight = verdict == CUT_HOLDS;
    ck_assert(phases_check(&problem, want + want / 1000 + 3, &verdict, &witness_ns, &err) && verdict != CUT_HOLDS);
}

START_TEST(cuts_with_prices_by_stage_are_exact)
{
    int feasible = 0, mixed = 0, decided = 0;
    for (uint64_t seed = 1; seed <= 300; seed += (uint64_t)share_stride()) {
        struct arena arena = { 0 };
        struct error err = { 0 };
        struct toy toy;
        struct partition_result result;
        make_toy(&toy, &arena, seed);
        int64_t want = enumerate_plans(&toy.problem, NULL);
        ck_assert(partition_solve(&toy.problem, &arena, &result, &err));
        ck_assert_msg(result.feasible == (want < INT64_MAX), "seed %d: feasible %d", (int)seed, result.feasible);
        if (result.feasible) {
            ck_assert_msg(result.plans[0].step_ns == want, "seed %d: %lld ns, expected %lld", (int)seed,
                          (long long)result.plans[0].step_ns, (long long)want);
            ck_assert_int_eq(partition_evaluate(&toy.problem, &result.plans[0]), want);
            ck_assert_int_le(partition_quick_bound(&toy.problem), want);
            bool tight = false;
            check_verdict(&toy, want, &tight);
            decided += tight;
            feasible++;
        }
        for (int k = 1; k < toy.stage_count; k++)
            mixed += toy.by_stage[k] != toy.by_stage[0];
        arena_free(&arena);
    }
    ck_assert_int_gt(feasible, 100 / share_stride());
    ck_assert_int_gt(mixed, 50 / share_stride());
    ck_assert_msg(decided > feasible * 9 / 10, "the checker decides %d of %d", decided, feasible);
}
END_TEST

/* Where all stages have one table, shares are even: the bound is that of one table, but for rounding up. */
START_TEST(even_stages_have_the_even_bound)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct arena arena = { 0 };
        struct toy toy;
        make_toy(&toy, &arena, seed);
        for (int k = 0; k < toy.stage_count; k++)
            toy.by_stage[k] = &toy.tables[0];
        int64_t mixed = partition_quick_bound(&toy.problem), m = toy.problem.micro_batch_count;
        toy.problem.table = &toy.tables[0];
        int64_t even = partition_quick_bound(&toy.problem);
        ck_assert_msg(mixed <= even && mixed >= even - m - 1, "seed %d: %lld, one table %lld", (int)seed,
                      (long long)mixed, (long long)even);
        arena_free(&arena);
    }
}
END_TEST

/* ---- whole searches ---- */

static void device_text(char out[1024], const char *name, double speed, long long memory_bytes)
{
    snprintf(
        out, 1024,
        "{\"name\": \"%s\", \"description\": \"toy\", \"source\": \"this test\", \"matmul_flops_per_s\": {\"bf16\": "
        "%g, \"fp32\": 1e13}, \"matmul_efficiency\": 0.5, \"attention_forward_efficiency\": 0.5, "
        "\"attention_backward_efficiency\": 0.5, \"vector_flops_per_s\": %g, \"memory_bytes_per_s\": %g, "
        "\"memory_bytes\": %lld, \"launch_ns\": 1000, \"link_bytes_per_s\": 1e11, \"link_latency_ns\": 2000, "
        "\"nic_bytes_per_s\": 1e10, \"nic_latency_ns\": 5000}",
        name, 1e12 * speed, 1e11 * speed, 1e10 * speed, memory_bytes);
}

/* form: of the devices "a" and "b". */
static struct world types_open(const char *form, const char *name_b, double speed_b, long long memory_b, int blocks)
{
    char device[2][1024];
    struct world world = { 0 };
    struct error err = { 0 };
    device_text(device[0], "a", 1, 80000000000);
    device_text(device[1], name_b, speed_b, memory_b);
    struct catalogue_entry entries[] = { { "a", device[0], strlen(device[0]) }, { "b", device[1], strlen(device[1]) } };
    ck_assert_msg(cluster_read(&world.cluster, form, form, strlen(form), entries, 2, &err), "%s", err.message);
    world.model = toy_model(blocks, true);
    world.facts = (struct facts){ .cluster = world.cluster };
    return world;
}

static struct search_options quiet_options_of(int64_t batch)
{
    struct search_options options = options_of(batch);
    options.no_advice = true;
    return options;
}

static int64_t step_of(const struct search_result *result)
{
    ck_assert(result->feasible);
    return result->plans[0].estimate->prediction.step_ns;
}

static void check_legal(const struct world *world, const struct plan *plan)
{
    struct graph *graph = NULL;
    struct error err = { 0 };
    ck_assert_msg(plan_graph(&graph, world->model, plan, &err) && plan_check(plan, graph, &err), "%s", err.message);
    graph_free(graph);
}

/* A second type that differs in name alone does not change the bound. There are twice as many plans then, each in both
 * orders, of which the judge simulates as many as before: the step may differ by what it does not look at. */
START_TEST(twins_give_the_same_answer)
{
    static const char *const forms[] = { "1x4:a+1x4:b", "2x2:a+2x2:b", "3x2:a+1x2:b" };
    for (int n = 0; n < 3; n += small_share() ? 3 : 1) {
        struct world one = types_open(forms[n], "a", 1, 80000000000, 3),
                     two = types_open(forms[n], "twin", 1, 80000000000, 3);
        ck_assert(one.cluster->type_count == 1 && two.cluster->type_count == 2);
        for (int stages = 0; stages <= 4; stages += 2) {
            if (!in_turn(n + stages / 2, 3))
                continue;
            struct search_options options = quiet_options_of(all_cases() ? 16 : 8);
            if (stages > 0)
                options.space.stages = (struct allowed){ 1, { stages } };
            struct search_result *a = run_search(&one, &options), *b = run_search(&two, &options);
            ck_assert_int_le(step_of(b), step_of(a) + step_of(a) / 20);
            ck_assert_int_le(step_of(a), step_of(b) + step_of(b) / 20);
            ck_assert_int_eq(a->certificate.bound_ns, b->certificate.bound_ns);
            check_legal(&two, b->plans[0].plan);
            search_result_free(a);
            search_result_free(b);
        }
        world_close(&one);
        world_close(&two);
    }
}
END_TEST

static int layers_on(const struct cluster *cluster, const struct plan *plan, int type)
{
    int layers = 0;
    for (int k = 0; k < plan->stage_count; k++)
        if (cluster_type(cluster, plan->stages[k].first_rank) == type)
            layers += plan->stages[k].layer_count;
    return layers;
}

/* The second copy of a stage is on the other type: the walk knows what it takes there. */
START_TEST(copies_take_the_time_of_their_devices)
{
    for (int s = 0; schedules[s]; s++) {
        struct search_options options = quiet_options_of(32);
        struct world world = types_open("1x2:a+1x2:b", "b", 3, 80000000000, 6);
        options.space.stages = (struct allowed){ 1, { 2 } };
        options.space.schedule = (struct allowed){ 1, { s } };
        if (schedules[s]->copies) {
            struct search_result *result = run_search(&world, &options);
            int64_t ranked_ns = result->plans[0].ranked_ns;
            ck_assert_msg(llabs(ranked_ns - step_of(result)) <= step_of(result) / 10, "%s: ranked %lld, simulated %lld",
                          schedules[s]->name, (long long)ranked_ns, (long long)step_of(result));
            search_result_free(result);
        }
        world_close(&world);
    }
}
END_TEST

/* The faster device gets more layers, whichever comes first in the cluster, and the answer is better than on slow
 * devices alone. Both orders have the same plans, of which the judge looks at some. */
START_TEST(faster_devices_get_more_work)
{
    struct search_options options = quiet_options_of(32);
    options.space.stages = (struct allowed){ 1, { 2 } };
    struct world slow = types_open("1x2:a+1x2:b", "a", 1, 80000000000, 6);
    struct search_result *base = run_search(&slow, &options);
    static const char *const forms[] = { "1x2:a+1x2:b", "1x2:b+1x2:a" };
    int64_t step[2], bound[2];
    for (int n = 0; n < 2; n++) {
        struct world world = types_open(forms[n], "b", 3, 80000000000, 6);
        struct search_result *result = run_search(&world, &options);
        const struct plan *plan = result->plans[0].plan;
        int fast = strcmp(world.cluster->types[0].device.name, "b") == 0 ? 0 : 1;
        check_legal(&world, plan);
        ck_assert_int_eq(plan->stage_count, 2);
        ck_assert_int_gt(layers_on(world.cluster, plan, fast), layers_on(world.cluster, plan, 1 - fast));
        step[n] = step_of(result);
        bound[n] = result->certificate.bound_ns;
        ck_assert_int_lt(step[n], step_of(base));
        search_result_free(result);
        world_close(&world);
    }
    ck_assert_int_eq(bound[0], bound[1]);
    ck_assert_int_le(step[0], step[1] + step[1] / 50);
    ck_assert_int_le(step[1], step[0] + step[0] / 50);
    search_result_free(base);
    world_close(&slow);
}
END_TEST

/* Devices with little memory get what fits into them; with hardly any, the message names their stage. */
START_TEST(each_type_has_its_own_memory)
{
    struct search_options options = quiet_options_of(16);
    options.space.stages = (struct allowed){ 1, { 2 } };
    bool refused = false;
    for (long long memory = 8000000; memory > 1000; memory /= small_share() ? 64 : share_stride() > 1 ? 8 : 2) {
        struct world world = types_open("1x2:a+1x2:b", "b", 1, memory, 6);
        options.no_advice = memory > 1000000;
        struct search_result *result = run_search(&world, &options);
        if (result->feasible) {
            const struct prediction *p = &result->plans[0].estimate->prediction;
            const struct plan *plan = result->plans[0].plan;
            ck_assert(p->fits);
            check_legal(&world, plan);
            for (int k = 0; k < plan->stage_count; k++) {
                bool small = cluster_type(world.cluster, plan->stages[k].first_rank) == 1;
                ck_assert_int_eq(p->available_bytes[k], small ? memory : 80000000000);
                ck_assert_int_le(p->peak_bytes[k], p->available_bytes[k]);
            }
        } else {
            refused = true;
            ck_assert_int_eq(result->nearest.available_bytes, memory);
            ck_assert_int_gt(result->nearest.needed_bytes, memory);
            ck_assert_int_eq(
                cluster_type(world.cluster, result->nearest.plan->stages[result->nearest.stage].first_rank), 1);
        }
        search_result_free(result);
        world_close(&world);
    }
    ck_assert(refused);
}
END_TEST

/* Where nothing fits, the message and the report name what each type has and needs, and memory that is enough for both
 * is advised. */
START_TEST(each_type_lacks_its_own)
{
    struct search_options options = options_of(16);
    struct error err = { 0 };
    char form[80];
    for (int swapped = 0; swapped < 2; swapped++) {
        long long memory[2] = { swapped ? 200000 : 300000, swapped ? 300000 : 200000 };
        snprintf(form, sizeof form, "1x2:a@memory=%lld+1x2:b@memory=%lld", memory[0], memory[1]);
        struct world world = types_open(form, "b", 1, 80000000000, 6);
        struct search_result *result = run_search(&world, &options);
        ck_assert(!result->feasible && result->nearest.type_count == 2);
        err = (struct error){ 0 };
        ck_assert(!search_infeasible(result, &options.space, &err));
        for (int t = 0; t < 2; t++) {
            const struct shortage *own = &result->nearest.types[t];
            char text[64], needed[TEXT_NUMBER_BYTES], usable[TEXT_NUMBER_BYTES];
            ck_assert_str_eq(own->device, t ? "b" : "a");
            ck_assert_int_eq(own->available_bytes, memory[t]);
            ck_assert_int_ge(own->stage, 0);
            ck_assert_int_le(own->needed_bytes - own->available_bytes, search_missing_bytes(result));
            snprintf(text, sizeof text, "%s on each %s of stage %d, but %s are usable",
                     text_bytes(needed, own->needed_bytes), own->device, own->stage, text_bytes(usable, memory[t]));
            ck_assert_msg(strstr(err.message, text) != NULL, "%s lacks %s", err.message, text);
            ck_assert_int_ge(result->nearest.advice[ADVICE_MEMORY].value, own->needed_bytes);
        }
        ck_assert_int_eq(
            result->nearest.advice[ADVICE_MEMORY].now,
            result->nearest.types[result->nearest.types[1].stage == result->nearest.stage].available_bytes);
        search_result_free(result);
        world_close(&world);
    }
}
END_TEST

/* Stages across types, and groups that no stage count divides, are priced and legal too. */
START_TEST(any_shape_has_an_answer)
{
    static const char *const forms[] = { "1x2:a+2x1:b", "1x3:a+1x1:b", "1x1:a+1x2:b+1x1:a", "1x4:b+2x2:a",
                                         "1x1:a+1x2:b" };
    for (size_t n = 0; n < sizeof forms / sizeof *forms; n += (size_t)share_stride()) {
        struct world world = types_open(forms[n], "b", 2, 80000000000, 4);
        struct search_options options = quiet_options_of(24);
        struct search_result *result = run_search(&world, &options);
        check_legal(&world, result->plans[0].plan);
        ck_assert_int_eq(result->plans[0].plan->rank_count, world.cluster->device_count);
        ck_assert_int_le(result->certificate.bound_ns, result->plans[0].formula_ns);
        for (int reversed = 0; reversed < 2; reversed++) {
            struct space space = options.space;
            struct plan *plan = NULL;
            struct error err = { 0 };
            space.stages = allowed_only(world.cluster->device_count);
            space.tensor = allowed_only(1);
            ck_assert_msg(baseline_plan(&plan, &space, reversed, world.model, &world.facts, &err), "%s", err.message);
            check_legal(&world, plan);
            ck_assert_int_eq(plan->stages[0].first_rank, reversed ? world.cluster->device_count - 1 : 0);
            plan_free(plan);
        }
        search_result_free(result);
        world_close(&world);
    }
}
END_TEST

static Suite *types_suite(void)
{
    Suite *suite = suite_create("search over types");
    TCase *tcase = tcase_create("types");
    tcase_add_test(tcase, cuts_with_prices_by_stage_are_exact);
    tcase_add_test(tcase, even_stages_have_the_even_bound);
    tcase_add_test(tcase, twins_give_the_same_answer);
    tcase_add_test(tcase, faster_devices_get_more_work);
    tcase_add_test(tcase, copies_take_the_time_of_their_devices);
    tcase_add_test(tcase, each_type_has_its_own_memory);
    tcase_add_test(tcase, each_type_lacks_its_own);
    tcase_add_test(tcase, any_shape_has_an_answer);
    suite_add_tcase(suite, tcase);
    return suite;
}

CHECK_MAIN(types_suite)
