/* Small random problems of cutting a chain into stages, and their optimum by enumeration. */
#ifndef CLEAVE_TESTS_TOY_CHAIN_H
#define CLEAVE_TESTS_TOY_CHAIN_H
#include "base/num.h"
#include "planner/search/partition.h"
#include "tests/check.h"
#include <string.h>

static uint64_t random_next(uint64_t *state)
{
    return mix64((*state)++);
}

static int64_t random_below(uint64_t *state, int64_t bound)
{
    return (int64_t)(random_next(state) % (uint64_t)bound);
}

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
    for (int k = 0; k < stages; k++)
        toy->in_flight[k] = (int)min_i64(micro, stages - k);
    toy->problem = (struct partition_problem){ .chain = &toy->chain,
                                               .table = &toy->table,
                                               .stage_count = stages,
                                               .micro_batch_count = micro,
                                               .in_flight = toy->in_flight,
                                               .below_ns = INT64_MAX,
                                               .capacity_bytes = random_below(seed, range * (2 + 2 * layers)) };
}

/* The formula once more, from a strategy per layer and a stage per layer. */
static int64_t toy_step(const struct toy *toy, const int *strategy, const int *stage_of)
{
    const struct partition_problem *p = &toy->problem;
    int64_t m = p->micro_batch_count, total = 2 * toy->table.send_ns * (p->stage_count - 1), most = INT64_MIN;
    for (int k = 0; k < p->stage_count; k++) {
        int64_t c = 0, b = 0, d = 0, last = 0, step = 0, bytes = toy->table.base_bytes, peak = 0, n = toy->in_flight[k];
        bool first_here = toy->chain.tied_first >= 0 && stage_of[toy->chain.tied_first] == k;
        bool joined = first_here && stage_of[toy->chain.tied_second] == k;
        for (int l = 0; l < toy->chain.layer_count; l++) {
            const struct layer_price *price = price_at(&toy->table, toy->class_of[l], strategy[l]);
            if (stage_of[l] != k)
                continue;
            c += price->forward_ns + price->backward_ns;
            b += price->backward_ns;
            d += price->gather_forward_ns + price->gather_backward_ns + price->reduce_ns;
            last += price->reduce_last_ns;
            step += price->step_ns;
            bytes += price->weight_bytes + n * price->saved_bytes + (joined ? 0 : price->tied_bytes);
            peak = max_i64(peak, price->transient_bytes);
        }
        if (bytes + peak > p->capacity_bytes)
            return INT64_MAX;
        int64_t period = n >= m ? 0 : (2 * toy->table.send_ns * (n - 1) + n - 1) / n;
        int64_t ends[] = { (m - 1) * (c + period) + step, (m - 1) * (c + period) - b + last + step,
                           m * d - c + last + step };
        for (int i = 0; i < 3; i++)
            most = max_i64(most, ends[i]);
        total += c;
    }
    return total + most;
}

/* All cuts times all strategies of all layers. */
static int64_t toy_brute_force(const struct toy *toy)
{
    int layers = toy->chain.layer_count, strategies = toy->table.strategy_count, stages = toy->problem.stage_count;
    int64_t best = INT64_MAX, choices = 1;
    for (int l = 0; l < layers; l++)
        choices *= strategies;
    for (unsigned cuts = 0; cuts < 1u << (layers - 1); cuts++) {
        int stage_of[CHAIN_LAYERS] = { 0 }, strategy[CHAIN_LAYERS];
        for (int l = 1; l < layers; l++)
            stage_of[l] = stage_of[l - 1] + (int)(cuts >> (l - 1) & 1);
        if (stage_of[layers - 1] != stages - 1)
            continue;
        for (int64_t choice = 0; choice < choices; choice++) {
            int64_t rest = choice;
            for (int l = 0; l < layers; l++, rest /= strategies)
                strategy[l] = (int)(rest % strategies);
            best = min_i64(best, toy_step(toy, strategy, stage_of));
        }
    }
    return best;
}
#endif
