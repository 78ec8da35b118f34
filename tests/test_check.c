/* The checker's verdict on one configuration against enumeration. */
#include "planner/check/check_cut_parts.h"
#include "tests/toy_chain.h"

/* The toy as the checker sees it. */
static struct cut_problem cut_of(const struct toy *toy, struct stage_kind stages[CHAIN_STAGES])
{
    const struct partition_problem *p = &toy->problem;
    int64_t m = p->micro_batch_count, send_ns = toy->table.send_ns;
    for (int k = 0; k < p->stage_count; k++) {
        int64_t n = toy->in_flight[k];
        stages[k] = (struct stage_kind){ .table = &toy->table,
                                         .capacity_bytes = p->capacity_bytes,
                                         .in_flight = n,
                                         .micro_batches = m,
                                         .waiting_ns = n >= m ? 0 : (2 * send_ns * (n - 1) + n - 1) / n,
                                         .apart = p->phases };
    }
    return (struct cut_problem){ .layer_count = toy->chain.layer_count,
                                 .stage_count = p->stage_count,
                                 .class_count = CHAIN_CLASSES,
                                 .class_of = toy->class_of,
                                 .tied_first = toy->chain.tied_first,
                                 .tied_second = toy->chain.tied_second,
                                 .stages = stages,
                                 .phases = p->phases,
                                 .once_ns = 2 * send_ns * (p->stage_count - 1) };
}

/* The strategies of the plan's layers, first come first served. */
static void list_strategies(const struct toy *toy, const struct partition_plan *plan, int *strategy)
{
    int strategies = toy->table.strategy_count, left[CHAIN_STAGES * CHAIN_CLASSES * CHAIN_STRATEGIES];
    memset(left, 0, sizeof left);
    for (int k = 0; k < toy->problem.stage_count; k++) {
        for (const struct layer_count *c = plan->counts[k]; c->count > 0; c++)
            left[k * CHAIN_CLASSES * strategies + c->at] = c->count;
        int end = k + 1 < toy->problem.stage_count ? plan->first_layer[k + 1] : toy->chain.layer_count;
        for (int l = plan->first_layer[k]; l < end; l++) {
            int *own = &left[(k * CHAIN_CLASSES + toy->class_of[l]) * strategies];
            strategy[l] = 0;
            while (own[strategy[l]] == 0)
                strategy[l]++;
            own[strategy[l]]--;
        }
    }
}

/* The checker's value of the best plan is the optimum. */
static void check_value(struct toy *toy, const struct cut_problem *problem, int64_t want)
{
    struct error err = { 0 };
    struct partition_result result;
    int strategy[CHAIN_LAYERS];
    ck_assert(partition_solve(&toy->problem, &toy->arena, &result, &err));
    list_strategies(toy, &result.plans[0], strategy);
    ck_assert_int_eq(value_of_cut(problem, toy->problem.stage_count, result.plans[0].first_layer, NULL, strategy),
                     want);
}

/* The optimum is never refuted as a bound, more than it never held, and few are left undecided. */
START_TEST(verdicts_are_those_of_enumeration)
{
    uint64_t seed = 23;
    int feasible = 0, infeasible = 0, undecided = 0;
    for (int n = 0; n < 400; n++) {
        struct toy toy;
        struct stage_kind stages[CHAIN_STAGES];
        struct error err = { 0 };
        enum cut_verdict verdict = CUT_UNDECIDED;
        int64_t witness_ns = 0;
        toy_draw(&toy, &seed);
        uint64_t own = mix64((uint64_t)n);
        if (n % 2)
            toy_draw_kept(&toy, &own);
        int64_t want = enumerate_plans(&toy.problem, NULL);
        struct cut_problem problem = cut_of(&toy, stages);
        int64_t bound_ns = want < INT64_MAX ? want : INT64_C(1000000000000);
        bound_ns -= bound_ns / 1000000; /* what the checker leaves to the tolerance of whole counts */
        ck_assert(phases_check(&problem, bound_ns, &verdict, &witness_ns, &err));
        ck_assert_msg(verdict != CUT_REFUTED, "instance %d: refuted a bound that holds, %lld", n, (long long)bound_ns);
        undecided += verdict == CUT_UNDECIDED;
        if (want < INT64_MAX) {
            feasible++;
            ck_assert(value_quick_bound(&problem) <= want);
            ck_assert(!value_lacks_memory(&problem));
            check_value(&toy, &problem, want);
            int64_t more_ns = want + want / 1000 + 3;
            ck_assert(phases_check(&problem, more_ns, &verdict, &witness_ns, &err));
            ck_assert_msg(verdict != CUT_HOLDS, "instance %d: optimum %lld, but the bound %lld is said to hold", n,
                          (long long)want, (long long)more_ns);
            ck_assert(verdict == CUT_UNDECIDED || (witness_ns >= want && witness_ns < more_ns));
            undecided += verdict == CUT_UNDECIDED;
        }
        infeasible += want == INT64_MAX;
        arena_free(&toy.arena);
    }
    ck_assert_int_gt(feasible, 100);
    ck_assert_int_gt(infeasible, 50);
    ck_assert_msg(undecided < 20, "%d of %d are undecided", undecided, 2 * feasible + infeasible);
}
END_TEST

static Suite *check_suite(void)
{
    Suite *suite = suite_create("check");
    CHECK_ADD(suite, verdicts_are_those_of_enumeration);
    return suite;
}

CHECK_MAIN(check_suite)
