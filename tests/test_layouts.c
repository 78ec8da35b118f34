/* Plans whose layers have different layouts: against enumeration, and against plans of one layout. */
#include "tests/toy_chain.h"

/* Plans of several runs, or of stages with different layouts. */
static bool is_mixed(const struct partition_plan *plan, int stages)
{
    bool mixed = false;
    for (int k = 0; k < stages; k++)
        mixed = mixed || plan->runs[k].count > 1 || plan->runs[k].layout[0] != plan->runs[0].layout[0];
    return mixed;
}

/* The optimum with one layout only. */
static int64_t best_of_one(struct toy *toy)
{
    struct price_table all = toy->table;
    struct layer_price prices[CHAIN_CLASSES * CHAIN_STRATEGIES];
    int64_t best = INT64_MAX;
    for (int layout = 0; layout < all.layout_count; layout++) {
        int first = all.layout_first[layout], count = all.layout_first[layout + 1] - first;
        for (int i = 0; i < CHAIN_CLASSES * count; i++)
            prices[i] = all.prices[i / count * all.strategy_count + first + i % count];
        toy->table.prices = prices;
        toy->table.strategy_count = count;
        toy->table.run_count = 1;
        toy->table.layout_count = 0;
        int64_t extra = (toy->problem.stage_count - 1) * (all.cut_ns[layout][layout] - 2 * all.send_ns);
        int64_t own = enumerate_plans(&toy->problem, NULL);
        best = own < INT64_MAX ? min_i64(best, own + extra) : best;
    }
    toy->table = all;
    return best;
}

START_TEST(partition_equals_enumeration)
{
    uint64_t seed = 77;
    int feasible = 0, infeasible = 0, mixed = 0, shorter = 0;
    for (int n = 0; n < 800; n++) {
        struct toy toy;
        struct partition_result result;
        toy_draw(&toy, &seed);
        toy_draw_layouts(&toy, &seed);
        if (price_has_layouts(&toy.table)) {
            int64_t want = toy_solve(&toy, n, &result), one = best_of_one(&toy);
            ck_assert_int_le(want, one);
            mixed += want < INT64_MAX && is_mixed(&result.plans[0], toy.problem.stage_count);
            shorter += want < one;
            feasible += want < INT64_MAX;
            infeasible += want == INT64_MAX;
        }
        arena_free(&toy.arena);
    }
    ck_assert_int_gt(feasible, 150);
    ck_assert_int_gt(infeasible, 50);
    ck_assert_int_gt(mixed, 50);
    ck_assert_int_gt(shorter, 50);
}
END_TEST

static Suite *layouts_suite(void)
{
    Suite *suite = suite_create("layouts");
    CHECK_ADD(suite, partition_equals_enumeration);
    return suite;
}

CHECK_MAIN(layouts_suite)
