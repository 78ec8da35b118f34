/* Plans whose layers have different layouts: against enumeration, and against plans of one layout. */
#include "planner/check/check_cut.h"
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
    for (int n = 0; n < 1500; n++) {
        struct toy toy;
        struct error err = { 0 };
        struct partition_result result;
        toy_draw(&toy, &seed);
        toy_draw_layouts(&toy, &seed);
        if (!price_has_layouts(&toy.table)) {
            arena_free(&toy.arena);
            continue;
        }
        ck_assert_msg(partition_solve(&toy.problem, &toy.arena, &result, &err), "%s", err.message);
        int64_t want = enumerate_plans(&toy.problem, NULL), one = best_of_one(&toy);
        ck_assert_msg(result.feasible == (want < INT64_MAX) && result.bound_ns == want,
                      "instance %d: got %lld, enumeration %lld", n, (long long)result.bound_ns, (long long)want);
        ck_assert_int_le(want, one);
        ck_assert(want == INT64_MAX || partition_quick_bound(&toy.problem) <= want);
        for (int i = 0; i < result.plan_count; i++)
            ck_assert_int_eq(partition_evaluate(&toy.problem, &result.plans[i]), result.plans[i].step_ns);
        if (want < INT64_MAX) {
            ck_assert_int_eq(result.plans[0].step_ns, want);
            mixed += is_mixed(&result.plans[0], toy.problem.stage_count);
            shorter += want < one;
            feasible++;
            toy.problem.below_ns = want; /* nothing is strictly shorter */
            ck_assert(partition_solve(&toy.problem, &toy.arena, &result, &err));
            ck_assert(!result.feasible && result.bound_ns == want);
        } else {
            infeasible++;
        }
        arena_free(&toy.arena);
    }
    ck_assert_int_gt(feasible, 300);
    ck_assert_int_gt(infeasible, 100);
    ck_assert_int_gt(mixed, 100);
    ck_assert_int_gt(shorter, 100);
}
END_TEST

/* ---- the checker ---- */

static struct cut_problem cut_of(const struct toy *toy, struct stage_kind stages[CHAIN_STAGES])
{
    const struct partition_problem *p = &toy->problem;
    int64_t m = p->micro_batch_count;
    for (int k = 0; k < p->stage_count; k++) {
        int64_t n = toy->in_flight[k];
        stages[k] = (struct stage_kind){ .table = &toy->table,
                                         .capacity_bytes = p->capacity_bytes,
                                         .in_flight = n,
                                         .micro_batches = m,
                                         .waiting_ns = n >= m ? 0 : (2 * toy->table.send_ns * (n - 1) + n - 1) / n };
    }
    return (struct cut_problem){ .layer_count = toy->chain.layer_count,
                                 .stage_count = p->stage_count,
                                 .class_count = CHAIN_CLASSES,
                                 .class_of = toy->class_of,
                                 .tied_first = toy->chain.tied_first,
                                 .tied_second = toy->chain.tied_second,
                                 .stages = stages };
}

/* The strategies of the plan's layers, first come first served within a run. */
static void list_strategies(const struct toy *toy, const struct partition_plan *plan, int *strategy)
{
    int strategies = toy->table.strategy_count, left[CHAIN_STAGES * CHAIN_CLASSES * CHAIN_STRATEGIES];
    memcpy(left, plan->count, (size_t)(toy->problem.stage_count * CHAIN_CLASSES * strategies) * sizeof *left);
    for (int k = 0; k < toy->problem.stage_count; k++) {
        const struct stage_runs *runs = &plan->runs[k];
        for (int l = runs->first[0], run = 0; l < runs->end; l++) {
            run += run + 1 < runs->count && runs->first[run + 1] == l;
            int *own = &left[(k * CHAIN_CLASSES + toy->class_of[l]) * strategies];
            strategy[l] = toy->table.layout_first[runs->layout[run]];
            while (own[strategy[l]] == 0)
                strategy[l]++;
            ck_assert_int_lt(strategy[l], toy->table.layout_first[runs->layout[run] + 1]);
            own[strategy[l]]--;
        }
    }
}

/* The optimum is never refuted as a bound, more than it never held, and few are left undecided; the checker's value of
 * the best plan is the optimum. */
START_TEST(verdicts_are_those_of_enumeration)
{
    uint64_t seed = 23;
    int feasible = 0, infeasible = 0, undecided = 0;
    for (int n = 0; n < 300; n++) {
        struct toy toy;
        struct stage_kind stages[CHAIN_STAGES];
        struct error err = { 0 };
        struct partition_result result;
        enum cut_verdict verdict = CUT_UNDECIDED;
        int64_t witness_ns = 0;
        int strategy[CHAIN_LAYERS];
        toy_draw(&toy, &seed);
        toy_draw_layouts(&toy, &seed);
        int64_t want = price_has_layouts(&toy.table) ? enumerate_plans(&toy.problem, NULL) : 0;
        struct cut_problem problem = cut_of(&toy, stages);
        int64_t bound_ns = want < INT64_MAX ? want : INT64_C(1000000000000);
        bound_ns -= bound_ns / 1000000; /* what the checker leaves to the tolerance of whole counts */
        if (want > 0) {
            ck_assert(cut_check(&problem, bound_ns, &verdict, &witness_ns, &err));
            ck_assert_msg(verdict != CUT_REFUTED, "instance %d: refuted a bound that holds, %lld", n,
                          (long long)bound_ns);
            undecided += verdict == CUT_UNDECIDED;
            infeasible += want == INT64_MAX;
        }
        if (want > 0 && want < INT64_MAX) {
            feasible++;
            ck_assert(partition_solve(&toy.problem, &toy.arena, &result, &err));
            list_strategies(&toy, &result.plans[0], strategy);
            ck_assert_int_eq(cut_value(&problem, toy.problem.stage_count, result.plans[0].first_layer, NULL, strategy),
                             want);
            ck_assert(cut_quick_bound(&problem) <= want && !cut_lacks_memory(&problem));
            int64_t more_ns = want + want / 1000 + 3;
            ck_assert(cut_check(&problem, more_ns, &verdict, &witness_ns, &err));
            ck_assert_msg(verdict != CUT_HOLDS, "instance %d: optimum %lld, but the bound %lld is said to hold", n,
                          (long long)want, (long long)more_ns);
            ck_assert(verdict == CUT_UNDECIDED || (witness_ns >= want && witness_ns < more_ns));
            undecided += verdict == CUT_UNDECIDED;
        }
        arena_free(&toy.arena);
    }
    ck_assert_int_gt(feasible, 80);
    ck_assert_int_gt(infeasible, 30);
    ck_assert_msg(undecided < 15, "%d of %d are undecided", undecided, 2 * feasible + infeasible);
}
END_TEST

static Suite *layouts_suite(void)
{
    Suite *suite = suite_create("layouts");
    CHECK_ADD(suite, partition_equals_enumeration);
    CHECK_ADD(suite, verdicts_are_those_of_enumeration);
    return suite;
}

CHECK_MAIN(layouts_suite)
