/* Small random problems of cutting a chain into stages; enumerate_plans() has their optimum. */
#ifndef CLEAVE_TESTS_TOY_CHAIN_H
#define CLEAVE_TESTS_TOY_CHAIN_H
#include "base/num.h"
#include "planner/cut/partition.h"
#include "tests/check.h"
#include "tests/enumerate_plans.h"
#include "tests/random_numbers.h"
#include <string.h>

enum { CHAIN_LAYERS = 6, CHAIN_CLASSES = 3, CHAIN_STRATEGIES = 4, CHAIN_STAGES = 4 };
struct toy {
    struct arena arena;
    struct chain chain;
    struct price_table table;
    struct partition_problem problem;
    int class_of[CHAIN_LAYERS], in_flight[CHAIN_STAGES];
    struct strategy strategies[CHAIN_STRATEGIES];
    struct layer_price prices[CHAIN_CLASSES * CHAIN_STRATEGIES];
};

/* Prices of all kinds, ties included: range 3 makes most of them equal. */
static void toy_draw(struct toy *toy, uint64_t *seed)
{
    static const int64_t ranges[] = { 3, 20, 1000, INT64_C(1000000000) };
    int64_t range = ranges[random_below(seed, 4)];
    int layers = 1 + (int)random_below(seed, CHAIN_LAYERS),
        stages = 1 + (int)random_below(seed, layers < CHAIN_STAGES ? layers : CHAIN_STAGES);
    int micro = 1 + (int)random_below(seed, 8), tied = random_below(seed, 2) && layers > 1;
    struct error err = { 0 };
    memset(toy, 0, sizeof *toy);
    for (int l = 0; l < layers; l++)
        toy->class_of[l] = (int)random_below(seed, CHAIN_CLASSES);
    ck_assert(chain_build(&toy->chain, &toy->arena, layers, toy->class_of, CHAIN_CLASSES, tied ? 0 : -1,
                          tied ? layers - 1 : -1, &err));
    toy->table = (struct price_table){ .class_count = CHAIN_CLASSES,
                                       .strategy_count = 1 + (int)random_below(seed, layers > 4 ? 3 : CHAIN_STRATEGIES),
                                       .strategies = toy->strategies,
                                       .prices = toy->prices,
                                       .send_ns = random_below(seed, range),
                                       .base_bytes = random_below(seed, range) };
    for (int i = 0; i < CHAIN_CLASSES * toy->table.strategy_count; i++)
        toy->prices[i] = (struct layer_price){ .forward_ns = random_below(seed, range),
                                               .backward_ns = random_below(seed, range),
                                               .gather_forward_ns = random_below(seed, range),
                                               .gather_backward_ns = random_below(seed, range),
                                               .reduce_ns = random_below(seed, range),
                                               .reduce_last_ns = random_below(seed, 4 * range),
                                               .step_ns = random_below(seed, range),
                                               .weight_bytes = random_below(seed, range),
                                               .tied_bytes = tied ? random_below(seed, range) : 0,
                                               .saved_bytes = random_below(seed, range),
                                               .transient_bytes = random_below(seed, range) };
    /* What the last layer saves is freed first, where no other layer has its prices. */
    int freed = toy->class_of[layers - 1];
    for (int i = 0; i < toy->table.strategy_count && toy->chain.layers_of[freed] == 1; i++) {
        struct layer_price *price = &toy->prices[freed * toy->table.strategy_count + i];
        price->freed_bytes = price->saved_bytes;
        price->transient_bytes += price->saved_bytes;
    }
    for (int k = 0; k < stages; k++)
        toy->in_flight[k] = (int)min_i64(micro, stages - k);
    toy->problem = (struct partition_problem){ .chain = &toy->chain,
                                               .table = &toy->table,
                                               .stage_count = stages,
                                               .micro_batch_count = micro,
                                               .in_flight = toy->in_flight,
                                               .below_ns = INT64_MAX,
                                               .capacity_bytes = random_below(seed, range * (2 + 2 * layers)) };
    toy->problem.phases = stages > 1 && random_below(seed, 2);
}

/* Half of the strategies keep what they gather: it travels once, in place of each time. */
static inline void toy_draw_kept(struct toy *toy, uint64_t *seed)
{
    for (int i = 0; i < CHAIN_CLASSES * toy->table.strategy_count; i++) {
        struct layer_price *price = &toy->prices[i];
        if (random_below(seed, 2))
            continue;
        price->gather_once_ns = price->gather_forward_ns * (1 + random_below(seed, 6));
        price->gather_forward_ns = price->gather_backward_ns = 0;
    }
}

/* Solves it, holds that against enumeration, and once more for plans that are shorter, of which there are none. The
 * result is of the first time; INT64_MAX: nothing fits. */
static inline int64_t toy_solve(struct toy *toy, int instance, struct partition_result *result)
{
    struct error err = { 0 };
    struct partition_result none;
    ck_assert_msg(partition_solve(&toy->problem, &toy->arena, result, &err), "%s", err.message);
    int64_t want = enumerate_plans(&toy->problem, NULL);
    ck_assert_int_eq(result->feasible, want < INT64_MAX);
    ck_assert_msg(result->bound_ns == want, "instance %d: got %lld, brute force %lld", instance,
                  (long long)result->bound_ns, (long long)want);
    ck_assert(want == INT64_MAX || partition_quick_bound(&toy->problem) <= want);
    for (int i = 0; i < result->plan_count; i++) {
        ck_assert_int_eq(partition_evaluate(&toy->problem, &result->plans[i]), result->plans[i].step_ns);
        ck_assert(i == 0 || result->plans[i].step_ns >= result->plans[i - 1].step_ns);
    }
    if (want == INT64_MAX)
        return want;
    ck_assert_int_eq(result->plans[0].step_ns, want);
    toy->problem.below_ns = want;
    ck_assert(partition_solve(&toy->problem, &toy->arena, &none, &err));
    ck_assert(!none.feasible && none.bound_ns == want);
    toy->problem.below_ns = INT64_MAX;
    return want;
}
#endif
