/* Which of like layers takes which strategy: the descent ends where no swap helps, and helps in the simulation too. Of
 * such mixed plans also what their stages hold by the prices, beside layouts of whole programs. */
#include "planner/estimate/assemble.h"
#include "planner/estimate/pipeline.h"
#include "planner/pool/moves.h"
#include "planner/pool/pool_parts.h"
#include "planner/estimate/swaps.h"
#include "planner/tables/workbench.h"
#include "planner/program/schedule.h"
#include "tests/fact_files.h"
#include "tests/model_files.h"
#include "tests/random_numbers.h"
#include "tests/simulated_step.h"
#include "tests/zoo_models.h"
#include "planner/estimate/estimate.h"
#include <math.h>

static const struct swap_case {
    const char *model, *cluster;
    int64_t batch;
} swap_cases[] = {
    { "tiny-gpt", "1x4:rtx4090", 16 },
    { "tiny-llama", "2x2:l40s", 16 },
    { "gpt2", "1x4:rtx4090", 8 },
    { "gpt2", "4x1:l40s", 16 },
};
enum { CASES = sizeof swap_cases / sizeof *swap_cases, PLANS = 12, ENDLESS = 1 << 30 };

struct swap_world {
    struct model *model;
    struct cluster *cluster;
    struct facts facts;
    struct space space;
    struct workbench bench;
    struct config *configs;
    int count;
    struct arena arena;
};

static void open_world(struct swap_world *w, const struct swap_case *c, int schedule)
{
    struct error err = { 0 };
    *w = (struct swap_world){ .model = model_of_zoo(c->model), .cluster = cluster_open(c->cluster) };
    w->facts.cluster = w->cluster;
    w->space = space_default(c->batch, 0, DTYPE_BF16);
    w->space.schedule = (struct allowed){ 1, { schedule } };
    ck_assert(workbench_open(&w->bench, w->model, &w->facts, &w->space, &err));
    ck_assert_msg(space_configs(&w->configs, &w->count, &w->arena, &w->space, w->bench.graph, w->cluster, &err), "%s",
                  err.message);
}

static void close_world(struct swap_world *w)
{
    workbench_close(&w->bench);
    arena_free(&w->arena);
    cluster_free(w->cluster);
    model_free(w->model);
}

/* Any strategy for each layer. */
static struct plan *mixed_plan(const struct swap_world *w, const struct config *config, const struct price_table *table,
                               uint64_t *seed)
{
    struct plan *plan = assemble_config(&w->space, config, w->bench.graph);
    for (int l = 0; l < plan->layer_count; l++)
        plan->layers[l] = table->strategies[random_below(seed, table->strategy_count)].layer;
    return plan;
}

static int64_t walked_ns(const struct swap_world *w, const struct plan *plan, const struct price_table *table)
{
    int64_t step_ns = 0;
    struct error err = { 0 };
    ck_assert_msg(pipeline_step_ns(&step_ns, plan, &w->bench.chain, table, &w->facts, NULL, swaps_micro_batches(plan),
                                   INT64_MAX, &err),
                  "%s", err.message);
    return step_ns;
}

/* Each chunk has as many layers of a class with a strategy as before. */
static void check_counts(const struct swap_world *w, const struct plan *before, const struct plan *after)
{
    for (int stage = 0; stage < before->stage_count; stage++)
        for (int chunk = 0; chunk < before->chunk_count; chunk++) {
            struct layer_range range = plan_stage_chunk(before, stage, chunk);
            for (int l = range.first; l < range.first + range.count; l++) {
                int had = 0, has = 0;
                for (int k = range.first; k < range.first + range.count; k++) {
                    if (w->bench.chain.class_of[k] != w->bench.chain.class_of[l])
                        continue;
                    had += plan_layer_equal(&before->layers[k], &before->layers[l]);
                    has += plan_layer_equal(&after->layers[k], &before->layers[l]);
                }
                ck_assert_int_eq(had, has);
            }
        }
}

/* No two like layers of a chunk could trade their strategies for a shorter walk. */
static void check_minimum(const struct swap_world *w, struct plan *plan, const struct price_table *table)
{
    int64_t step_ns = walked_ns(w, plan, table);
    for (int stage = 0; stage < plan->stage_count; stage++)
        for (int chunk = 0; chunk < plan->chunk_count; chunk++) {
            struct layer_range range = plan_stage_chunk(plan, stage, chunk);
            for (int l = range.first; l < range.first + range.count; l++)
                for (int other = range.first; other < l; other++) {
                    if (w->bench.chain.class_of[other] != w->bench.chain.class_of[l])
                        continue;
                    struct plan_layer kept[2] = { plan->layers[l], plan->layers[other] };
                    plan->layers[l] = kept[1], plan->layers[other] = kept[0];
                    ck_assert_int_ge(walked_ns(w, plan, table), step_ns);
                    plan->layers[l] = kept[0], plan->layers[other] = kept[1];
                }
        }
}

struct sums {
    int64_t before_ns, after_ns; /* simulated, of plans that were changed */
    int changed;
};

static void descend_once(const struct swap_world *w, const struct config *config, uint64_t *seed, struct sums *sums)
{
    const struct price_table *table = NULL;
    struct error err = { 0 };
    bool changed = false;
    ck_assert(workbench_table((struct workbench *)&w->bench, config, false, &table, &err) && table);
    struct plan *before = mixed_plan(w, config, table, seed), *after = plan_copy(before);
    ck_assert_msg(swaps_descend(after, &w->bench.chain, table, &w->facts, NULL, ENDLESS, &changed, &err), "%s",
                  err.message);
    check_counts(w, before, after);
    check_minimum(w, after, table);
    ck_assert(changed == (plan_hash(before) != plan_hash(after)));
    ck_assert(!changed || swaps_exist(before, &w->bench.chain));
    if (changed) {
        ck_assert_int_lt(walked_ns(w, after, table), walked_ns(w, before, table));
        sums->before_ns += simulated_step_ns("mixed", w->model, before, &w->facts);
        sums->after_ns += simulated_step_ns("swapped", w->model, after, &w->facts);
        sums->changed++;
    }
    plan_free(before);
    plan_free(after);
}

/* Over the bytes that a stage's layout has, what prices say that it holds. */
struct shares {
    double most, sum;
    int count;
};

static void compare_held(const struct swap_world *w, const struct config *config, uint64_t *seed, struct shares *shares)
{
    enum { MOST_STAGES = 16 };
    const struct price_table *table = NULL;
    struct error err = { 0 };
    int64_t held[MOST_STAGES], bytes[MOST_STAGES];
    ck_assert(workbench_table((struct workbench *)&w->bench, config, false, &table, &err) && table);
    struct plan *plan = mixed_plan(w, config, table, seed);
    ck_assert_int_le(plan->stage_count, MOST_STAGES);
    ck_assert_msg(estimate_held_bytes(held, plan, &w->bench.chain, table, &err), "%s", err.message);
    ck_assert_msg(estimate_plan_bytes(bytes, w->model, plan, &err), "%s", err.message);
    for (int k = 0; k < plan->stage_count; k++) {
        double share = (double)held[k] / (double)bytes[k];
        shares->most = fmax(shares->most, share);
        shares->sum += share;
        shares->count++;
    }
    plan_free(plan);
}

/* The layout of the whole program has what stages hold by the prices, and little more: also where what is kept for
 * weights' gradients is more than what was saved for both. */
START_TEST(stages_hold_what_prices_say)
{
    struct shares shares = { 0 };
    for (int i = 0; i < CASES; i++) {
        struct swap_world w;
        uint64_t seed = (uint64_t)(100 * _i + i);
        open_world(&w, &swap_cases[i], _i);
        for (int k = 0; k < PLANS && w.count > 0 && !schedules[_i]->asynchronous; k++)
            compare_held(&w, &w.configs[random_below(&seed, w.count)], &seed, &shares);
        close_world(&w);
    }
    if (shares.count == 0)
        return;
    double mean = shares.sum / shares.count, mean_least = schedules[_i]->splits ? 0.87 : 0.78;
    ck_assert_msg(shares.most < 1.12 && mean < 1 && mean > mean_least,
                  "%s: %.3f in the mean of %d stages, at most %.3f", schedules[_i]->name, mean, shares.count,
                  shares.most);
}
END_TEST

static void descend_for(const struct swap_case *c, int schedule, uint64_t *seed, struct sums *sums)
{
    struct swap_world w;
    open_world(&w, c, schedule);
    for (int i = 0; i < PLANS && w.count > 0; i++)
        descend_once(&w, &w.configs[random_below(seed, w.count)], seed, sums);
    close_world(&w);
}

START_TEST(no_swap_helps_any_more)
{
    struct sums sums = { 0 };
    uint64_t seed = 1;
    for (int i = 0; i < CASES; i++)
        for (int schedule = 0; schedules[schedule]; schedule++)
            if (!schedules[schedule]->asynchronous && (!small_share() || schedule % CASES == i))
                descend_for(&swap_cases[i], schedule, &seed, &sums);
    printf("%d plans changed, simulated %.2f %% shorter\n", sums.changed,
           100 - 100 * (double)sums.after_ns / (double)sums.before_ns);
    ck_assert_int_gt(sums.changed, 0);
    ck_assert_int_lt(sums.after_ns, sums.before_ns);
}
END_TEST

/* Every run of neighbouring cuts is moved once each way. */
START_TEST(moves_of_cuts_are_all_runs)
{
    for (int cuts = 1; cuts <= 9; cuts++) {
        bool met[10][10][2] = { 0 };
        const struct config config = { .stages = cuts + 1 };
        ck_assert_int_eq(cut_move_count(&config), cuts * (cuts + 1));
        for (int i = 0; i < cut_move_count(&config); i++) {
            struct cut_move move = cut_move_at(&config, i);
            ck_assert(1 <= move.first && move.first <= move.last && move.last <= cuts);
            ck_assert(move.by == 1 || move.by == -1);
            ck_assert(!met[move.first][move.last][move.by > 0]);
            met[move.first][move.last][move.by > 0] = true;
        }
    }
}
END_TEST

/* Each value of each choice once for each piece, and for all of them. */
START_TEST(moves_of_strategies_are_all_values)
{
    for (int stages = 1; stages <= 4; stages++) {
        const struct config config = { .stages = stages };
        bool met[5][4 + RECOMPUTE_COUNT] = { 0 };
        int count = strategy_move_count(&config);
        ck_assert_int_eq(count, (stages > 1 ? stages + 1 : 1) * (4 + RECOMPUTE_COUNT));
        for (int i = 0; i < count; i++) {
            struct strategy_move move = strategy_move_at(i);
            ck_assert(-1 <= move.piece && move.piece < stages);
            ck_assert((move.zero < 0) != (move.recompute < 0));
            bool *at = &met[move.piece + 1][move.zero >= 0 ? move.zero : 4 + move.recompute];
            ck_assert(!*at);
            *at = true;
        }
    }
}
END_TEST

static Suite *swaps_suite(void)
{
    Suite *suite = suite_create("swaps");
    CHECK_ADD(suite, no_swap_helps_any_more);
    CHECK_ADD(suite, moves_of_cuts_are_all_runs);
    CHECK_ADD(suite, moves_of_strategies_are_all_values);
    CHECK_ADD_LOOP(suite, stages_hold_what_prices_say, SCHEDULE_COUNT);
    return suite;
}

CHECK_MAIN(swaps_suite)
