/* Moves of cuts and strategies are all that there are; and what stages of mixed plans hold by the prices, beside
 * layouts of whole programs. */
#include "planner/estimate/assemble.h"
#include "planner/pool/moves.h"
#include "planner/pool/pool_parts.h"
#include "planner/tables/workbench.h"
#include "planner/program/schedule.h"
#include "tests/fact_files.h"
#include "tests/model_files.h"
#include "tests/random_numbers.h"
#include "tests/zoo_models.h"
#include "planner/estimate/estimate.h"
#include <math.h>

static const struct mixed_case {
    const char *model, *cluster;
    int64_t batch;
} mixed_cases[] = {
    { "tiny-gpt", "1x4:rtx4090", 16 },
    { "tiny-llama", "2x2:l40s", 16 },
    { "gpt2", "1x4:rtx4090", 8 },
    { "gpt2", "4x1:l40s", 16 },
};
enum { CASES = sizeof mixed_cases / sizeof *mixed_cases, PLANS = 12, MAX_STAGES_MET = 4, MAX_LAYERS_MET = 64 };

struct mixed_world {
    struct model *model;
    struct cluster *cluster;
    struct facts facts;
    struct space space;
    struct workbench bench;
    struct config *configs;
    int count;
    struct arena arena;
};

static void open_world(struct mixed_world *w, const struct mixed_case *c, int schedule)
{
    struct error err = { 0 };
    *w = (struct mixed_world){ .model = model_of_zoo(c->model), .cluster = cluster_open(c->cluster) };
    w->facts.cluster = w->cluster;
    w->space = space_default(c->batch, 0, DTYPE_BF16);
    w->space.schedule = (struct allowed){ 1, { schedule } };
    ck_assert(workbench_open(&w->bench, w->model, &w->facts, &w->space, &err));
    ck_assert_msg(space_configs(&w->configs, &w->count, &w->arena, &w->space, w->bench.graph, w->cluster, &err), "%s",
                  err.message);
}

static void close_world(struct mixed_world *w)
{
    workbench_close(&w->bench);
    arena_free(&w->arena);
    cluster_free(w->cluster);
    model_free(w->model);
}

/* Any strategy for each layer. */
static struct plan *mixed_plan(const struct mixed_world *w, const struct config *config,
                               const struct price_table *table, uint64_t *seed)
{
    struct plan *plan = assemble_config(&w->space, config, w->bench.graph);
    for (int l = 0; l < plan->layer_count; l++)
        plan->layers[l] = table->strategies[random_below(seed, table->strategy_count)].layer;
    return plan;
}

/* Over the bytes that a stage's layout has, what prices say that it holds. */
struct shares {
    double most, sum;
    int count;
};

static void compare_held(const struct mixed_world *w, const struct config *config, uint64_t *seed,
                         struct shares *shares)
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
    if (schedules[_i]->asynchronous)
        return;
    for (int i = 0; i < CASES; i++) {
        struct mixed_world w;
        uint64_t seed = (uint64_t)(100 * _i + i);
        open_world(&w, &mixed_cases[i], _i);
        for (int k = 0; k < PLANS && w.count > 0; k++)
            compare_held(&w, &w.configs[random_below(&seed, w.count)], &seed, &shares);
        close_world(&w);
    }
    ck_assert_int_gt(shares.count, 0);
    double mean = shares.sum / shares.count, mean_least = schedules[_i]->splits ? 0.87 : 0.78;
    ck_assert_msg(shares.most < 1.12 && mean < 1 && mean > mean_least,
                  "%s: %.3f in the mean of %d stages, at most %.3f", schedules[_i]->name, mean, shares.count,
                  shares.most);
}
END_TEST

/* Every run of neighbouring cuts is moved once each way. */
START_TEST(steps_of_cuts_are_all_runs)
{
    for (int cuts = 1; cuts <= 9; cuts++) {
        bool met[10][10][2] = { 0 };
        const struct config config = { .stages = cuts + 1 };
        ck_assert_int_eq(cut_move_steps(&config), cuts * (cuts + 1));
        for (int i = 0; i < cut_move_steps(&config); i++) {
            struct cut_move move = cut_move_step(&config, i);
            ck_assert(1 <= move.first && move.first <= move.last && move.last <= cuts);
            ck_assert(move.by == 1 || move.by == -1);
            ck_assert(!met[move.first][move.last][move.by > 0]);
            met[move.first][move.last][move.by > 0] = true;
        }
    }
}
END_TEST

/* Every cut comes once to every place behind the cut before it and before the next one, but its own. */
START_TEST(jumps_of_cuts_are_all_places)
{
    struct mixed_world w;
    uint64_t seed = 3;
    open_world(&w, &mixed_cases[3], SCHEDULE_one_f_one_b);
    for (int i = 0; i < w.count; i++) {
        const struct config *config = &w.configs[i];
        int pieces = config->stages, cut[MAX_STAGES_MET + 1] = { 0 };
        bool met[MAX_STAGES_MET][MAX_LAYERS_MET] = { 0 };
        struct plan *plan = assemble_config(&w.space, config, w.bench.graph);
        int layers = plan->layer_count;
        ck_assert(pieces <= MAX_STAGES_MET && layers <= MAX_LAYERS_MET);
        for (int k = 0; k < pieces; k++) {
            int left = layers - cut[k] - (pieces - k - 1);
            int count = k == pieces - 1 ? left : 1 + (int)random_below(&seed, left);
            schedule_set_piece(plan, k, (struct layer_range){ cut[k], count });
            cut[k + 1] = cut[k] + count;
        }
        for (int m = 0; m < cut_move_jumps(plan); m++) {
            struct cut_move move = cut_move_jump(config, plan, m);
            int place = cut[move.first] + move.by;
            if (move.by == 0 || place == cut[move.first - 1])
                continue; /* such ones are refused: nothing moves, or a piece would have no layer */
            ck_assert(move.first == move.last && cut[move.first - 1] < place && place < cut[move.first + 1]);
            ck_assert(!met[move.first][place]);
            met[move.first][place] = true;
        }
        for (int k = 1; k < pieces; k++)
            for (int place = cut[k - 1] + 1; place < cut[k + 1]; place++)
                ck_assert_msg(met[k][place] == (place != cut[k]), "cut %d at %d: to %d", k, cut[k], place);
        plan_free(plan);
    }
    close_world(&w);
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

static Suite *moves_suite(void)
{
    Suite *suite = suite_create("moves");
    CHECK_ADD(suite, steps_of_cuts_are_all_runs);
    CHECK_ADD(suite, jumps_of_cuts_are_all_places);
    CHECK_ADD(suite, moves_of_strategies_are_all_values);
    CHECK_ADD_LOOP(suite, stages_hold_what_prices_say, SCHEDULE_COUNT);
    return suite;
}

CHECK_MAIN(moves_suite)
