/* Random plans compute what one rank computes, over another transport to the last bit. CLEAVE_ORACLE_PLANS: random
 * plans of each model (200 of chains and 50 of others, 15 in fp32; half as many as of others of all schedules and
 * shapes). CLEAVE_ORACLE_SAMPLE: every how many of them one is run (1). CLEAVE_ORACLE_SEED: only the random plan of
 * this number, to replay a failure. */
#include "tests/oracle_reference.h"
#include "base/num.h"
#include "tests/random_numbers.h"
#include "tests/random_plans.h"

enum { DEFAULT_PLANS = PRECISE ? 50 : 15, CHAIN_PLANS = 200 };
enum { SEED_STRIDE = 7 }; /* the first models keep their random plans when others come */

static int count_or(int usual)
{
    const char *count = getenv("CLEAVE_ORACLE_PLANS");
    return count ? atoi(count) : usual;
}

static int random_plan_count(void)
{
    return count_or(DEFAULT_PLANS);
}

START_TEST(random_shapes_agree)
{
    struct reference r = make_reference(tiny_models[_i], 1);
    const char *only = getenv("CLEAVE_ORACLE_SEED");
    for (int n = 0; n < random_plan_count() / 2; n++) {
        uint64_t seed = (uint64_t)(n * SEED_STRIDE + _i);
        if (only && seed != strtoull(only, NULL, 10))
            continue;
        struct plan *plan = random_shape(r.graph, seed);
        check_plan(&r, plan, seed);
        plan_free(plan);
    }
    free_reference(&r);
}
END_TEST

START_TEST(random_plans_agree)
{
    struct reference r = make_reference(tiny_models[_i], 1);
    const char *only = getenv("CLEAVE_ORACLE_SEED");
    for (int n = 0; n < (_i < TINY_CHAINS ? count_or(CHAIN_PLANS) : random_plan_count()); n++) {
        uint64_t seed = (uint64_t)(n * SEED_STRIDE + _i);
        if (only && seed != strtoull(only, NULL, 10))
            continue;
        struct plan *plan = random_plan(r.graph, seed);
        check_plan(&r, plan, seed);
        plan_free(plan);
    }
    free_reference(&r);
}
END_TEST

/* ---- other orders of the layers: where stages begin and end changes, what is computed does not ---- */

static void draw_order(const struct graph *graph, uint64_t *state, int *order)
{
    uint64_t placed = 0;
    for (int p = 0; p < graph->layer_count; p++) {
        int ready[64], count = 0;
        for (int l = 0; l < graph->layer_count; l++) {
            bool may = !(placed >> l & 1);
            for (int i = 0; i < graph->layers[l].input_count; i++)
                may = may && placed >> graph->layers[l].input_layers[i] & 1;
            if (may)
                ready[count++] = l;
        }
        order[p] = ready[draw(state, (uint64_t)count)];
        placed |= UINT64_C(1) << order[p];
    }
}

START_TEST(random_orders_agree)
{
    static const int branched[] = { 4, 6, 11 }; /* encoder and decoder, towers, residual blocks */
    int m = branched[_i], moved = 0;
    struct reference r = make_reference(tiny_models[m], 1);
    for (int n = 0; n < random_plan_count() / 2; n++) {
        uint64_t seed = (uint64_t)(n * SEED_STRIDE + m), state = seed + 1;
        struct reference other = r;
        struct error error = { 0 };
        int order[64];
        other.graph = tiny_graph(tiny_models[m]);
        draw_order(r.graph, &state, order);
        ck_assert_msg(graph_reorder(other.graph, order, &error), "%s", error.message);
        struct plan *plan = n % 2 ? random_plan(other.graph, seed) : random_shape(other.graph, seed);
        moved += plan->order != NULL;
        if (plan->order)
            check_plan(&other, plan, seed);
        plan_free(plan);
        graph_free(other.graph);
    }
    ck_assert(moved > random_plan_count() / 8 || random_plan_count() < 8); /* of few all may keep the file's order */
    free_reference(&r);
}
END_TEST

/* ---- once more and over another transport: the same plans to the last bit ---- */
START_TEST(threads_and_tcp_repeat_each_bit)
{
    struct reference r = make_reference(tiny_models[_i], 1);
    for (int n = 0; n < 1 + random_plan_count() / 10; n++) {
        struct error error = { 0 };
        struct plan *plan = random_plan(r.graph, (uint64_t)(n * SEED_STRIDE + _i + 100000));
        struct program *program = tiny_lower(r.graph, plan, &error);
        ck_assert_msg(program != NULL, "%s", error.message);
        struct bits threads = run_bits(&r, program, false, 0, -1), again = run_bits(&r, program, false, 0, -1),
                    tcp = run_bits(&r, program, true, 0, -1);
        ck_assert_msg(memcmp(&threads, &again, sizeof threads) == 0 && memcmp(&threads, &tcp, sizeof tcp) == 0,
                      "%s, plan %d of %d ranks: losses %.17g over threads, %.17g once more, %.17g over tcp",
                      r.graph->model_name, n, plan->rank_count, threads.loss[STEPS - 1], again.loss[STEPS - 1],
                      tcp.loss[STEPS - 1]);
        program_free(program);
        plan_free(plan);
    }
    free_reference(&r);
}
END_TEST

static Suite *oracle_random_suite(void)
{
    Suite *suite = suite_create("oracle: random plans");
    add_for_models(suite, "random_shapes_agree", random_shapes_agree);
    add_for_models(suite, "random_plans_agree", random_plans_agree);
    CHECK_ADD_LOOP(suite, random_orders_agree, 3);
    add_for_models(suite, "threads_and_tcp_repeat_each_bit", threads_and_tcp_repeat_each_bit);
    return suite;
}

int main(void)
{
    return oracle_main(oracle_random_suite());
}
