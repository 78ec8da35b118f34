/* Prices beside what is known of them sooner: bounds, floors, and choices that nobody needs. */
#include "planner/space/config_name.h"
#include "planner/search/floors.h"
#include "planner/tables/loose.h"
#include "tests/price_world.h"
#include <stdio.h>
#include <string.h>

/* A bound's compute path is no longer than the one that waits for the data-parallel lane too, and its update no longer
 * than that of any share of the weights. */
START_TEST(bounds_are_below_prices)
{
    const struct instance *in = &instances[_i];
    if (!in_share((uint64_t)_i))
        return;
    struct world w = instance_open(in);
    struct error err = { 0 };
    world_start(&w);
    for (int i = 0; i < w.config_count; i += in->stride) {
        const struct price_table *bound = NULL, *full = NULL;
        ck_assert(workbench_table(&w.bench, &w.configs[i], true, &bound, &err));
        ck_assert(workbench_table(&w.bench, &w.configs[i], false, &full, &err));
        for (int c = 0; bound && full && c < full->class_count; c++)
            for (int s = 0; s < full->strategy_count; s++) {
                const struct layer_price *p = price_at(full, c, s);
                int64_t least = INT64_MAX, step = INT64_MAX;
                for (int k = 0; k < bound->strategy_count; k++) {
                    const struct layer_price *b = price_at(bound, c, k);
                    int64_t path = b->forward_ns + b->backward_ns;
                    least = path < least ? path : least;
                    step = b->step_ns < step ? b->step_ns : step;
                }
                ck_assert_msg(step <= p->step_ns, "%s, class %d, strategy %d: bound of the update %lld, price %lld",
                              in->model, c, s, (long long)step, (long long)p->step_ns);
                ck_assert_msg(least <= p->forward_ns + p->backward_ns,
                              "%s, class %d, strategy %d: bound %lld, price %lld", in->model, c, s, (long long)least,
                              (long long)(p->forward_ns + p->backward_ns));
            }
    }
    world_close(&w);
}
END_TEST

/* With all kinds of recomputation, also where nothing lacks memory. */
static void start_recomputing(struct world *w)
{
    w->space.recompute = (struct allowed){ 3, { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL } };
    world_start(w);
    w->bench.room = ROOM_SCARCE;
}

/* The decision that a strategy makes, whatever its ZeRO stage and its groups. */
static bool is_loose_of(const struct plan_layer *loose, const struct plan_layer *layer)
{
    return loose->recompute == layer->recompute && loose->offload == layer->offload && loose->slices == layer->slices;
}

static bool is_no_more(const struct layer_price *a, const struct layer_price *b)
{
    return a->forward_ns <= b->forward_ns && a->backward_ns <= b->backward_ns && a->step_ns <= b->step_ns &&
           a->saved_bytes <= b->saved_bytes && a->weight_bytes <= b->weight_bytes && a->tied_bytes <= b->tied_bytes &&
           a->transient_bytes <= b->transient_bytes && a->gather_forward_ns <= b->gather_forward_ns &&
           a->gather_backward_ns <= b->gather_backward_ns && a->gather_once_ns <= b->gather_once_ns &&
           a->reduce_ns <= b->reduce_ns && a->reduce_last_ns <= b->reduce_last_ns;
}

/* Number by number, so that each plan takes no longer over loose prices than over its own, and fits where it fits. */
static void check_loose(const struct world *w, const struct config *config, const struct price_table *loose,
                        const struct price_table *full, int *compared)
{
    char name[CONFIG_NAME_BYTES];
    ck_assert_int_eq(loose->class_count, full->class_count);
    ck_assert(loose->base_bytes <= full->base_bytes && loose->send_ns <= full->send_ns);
    for (int s = 0; s < full->strategy_count; s++)
        for (int k = 0; k < loose->strategy_count; k++) {
            if (!is_loose_of(&loose->strategies[k].layer, &full->strategies[s].layer))
                continue;
            for (int c = 0; c < full->class_count; c++) {
                const struct layer_price *a = price_at(loose, c, k), *b = price_at(full, c, s);
                ck_assert_msg(is_no_more(a, b),
                              "%s, %s, class %d, strategy %d (ZeRO %d, recompute %d): forward %lld of %lld, backward "
                              "%lld of %lld, step %lld of %lld ns, saved %lld of %lld, weights %lld of %lld, tied %lld "
                              "of %lld bytes",
                              w->model->name, config_name(name, config), c, s, full->strategies[s].layer.zero,
                              full->strategies[s].layer.recompute, (long long)a->forward_ns, (long long)b->forward_ns,
                              (long long)a->backward_ns, (long long)b->backward_ns, (long long)a->step_ns,
                              (long long)b->step_ns, (long long)a->saved_bytes, (long long)b->saved_bytes,
                              (long long)a->weight_bytes, (long long)b->weight_bytes, (long long)a->tied_bytes,
                              (long long)b->tied_bytes);
            }
            ++*compared;
        }
}

START_TEST(loose_prices_are_below_prices)
{
    const struct instance *in = &instances[_i];
    if (!in_share((uint64_t)_i))
        return;
    struct world w = instance_open(in);
    struct error err = { 0 };
    int compared = 0;
    w.space.prefetch = (struct allowed){ 4, { 0, 1, 2, 4 } };
    start_recomputing(&w);
    for (int i = 0; i < w.config_count; i += in->stride) {
        const struct price_table *loose = NULL, *full = NULL;
        ck_assert_msg(loose_table(&w.bench, &w.configs[i], &loose, &err), "%s", err.message);
        ck_assert_msg(workbench_table(&w.bench, &w.configs[i], false, &full, &err), "%s", err.message);
        int before = compared;
        if (loose && full)
            check_loose(&w, &w.configs[i], loose, full, &compared);
        ck_assert(!loose || !full || compared - before == full->strategy_count);
    }
    ck_assert_int_gt(compared, 10);
    world_close(&w);
}
END_TEST

/* What costs nothing to know is no more than the first bound, and not much less where kernels are small. */
START_TEST(floors_are_below_first_bounds)
{
    const struct instance *in = &instances[_i];
    if (!in_share((uint64_t)_i))
        return;
    struct world w = instance_open(in);
    struct error err = { 0 };
    int compared = 0;
    world_start(&w);
    ck_assert(search_open_floors(&w.bench, w.configs, w.config_count, &err));
    for (int i = 0; i < w.config_count; i += in->stride) {
        const struct price_table *table = NULL;
        char name[CONFIG_NAME_BYTES];
        ck_assert_msg(workbench_table(&w.bench, &w.configs[i], true, &table, &err), "%s", err.message);
        if (!table)
            continue;
        struct partition_problem problem = workbench_problem(&w.bench, &w.configs[i], table, NULL);
        struct floor floor;
        ck_assert_msg(search_floor(&floor, &w.bench, &w.configs[i], &err), "%s", err.message);
        int64_t path_ns = partition_path_bound(&problem), first_ns = partition_quick_bound(&problem);
        ck_assert_msg(floor.path_ns <= path_ns && floor.first_ns <= first_ns,
                      "%s, %s: floors %lld and %lld, first bounds %lld and %lld ns", in->model,
                      config_name(name, &w.configs[i]), (long long)floor.path_ns, (long long)floor.first_ns,
                      (long long)path_ns, (long long)first_ns);
        compared += floor.first_ns > first_ns / 20;
    }
    ck_assert_msg(compared > 3 || !strcmp(in->cluster, "1x4:cpu"), "%s: %d floors that say something", in->model,
                  compared);
    world_close(&w);
}
END_TEST

static int64_t lane_ns(const struct layer_price *p)
{
    return p->gather_forward_ns + p->gather_backward_ns + p->reduce_ns;
}

static int64_t once_ns(const struct layer_price *p)
{
    return p->gather_once_ns + p->reduce_last_ns + p->step_ns;
}

/* Which is why the search leaves it out where nothing lacks memory. */
START_TEST(recomputation_saves_nothing_but_memory)
{
    const struct instance *in = &instances[_i];
    if (!in_share((uint64_t)_i))
        return;
    struct world w = instance_open(in);
    struct error err = { 0 };
    int compared = 0;
    start_recomputing(&w);
    for (int i = 0; i < w.config_count; i += in->stride) {
        const struct price_table *table = NULL;
        ck_assert_msg(workbench_table(&w.bench, &w.configs[i], false, &table, &err), "%s", err.message);
        for (int s = 0; table && s < table->strategy_count; s++) {
            struct plan_layer plain = table->strategies[s].layer;
            plain.recompute = RECOMPUTE_NONE;
            int like = price_strategy(table, &plain);
            for (int c = 0; c < table->class_count && like != s; c++) {
                const struct layer_price *p = price_at(table, c, s), *q = price_at(table, c, like);
                ck_assert_msg(p->forward_ns >= q->forward_ns && p->backward_ns >= q->backward_ns &&
                                  lane_ns(p) >= lane_ns(q) && once_ns(p) >= once_ns(q),
                              "%s, configuration %d, class %d, strategy %d: forward %lld for %lld, backward %lld for "
                              "%lld, lane %lld "
                              "for %lld, once %lld for %lld ns",
                              in->model, i, c, s, (long long)p->forward_ns, (long long)q->forward_ns,
                              (long long)p->backward_ns, (long long)q->backward_ns, (long long)lane_ns(p),
                              (long long)lane_ns(q), (long long)once_ns(p), (long long)once_ns(q));
                compared++;
            }
        }
    }
    ck_assert_int_gt(compared, 10);
    world_close(&w);
}
END_TEST

/* The shortest plan by the formula; 0: none fits. */
static int64_t shortest_ns(struct world *w, const struct config *config, const struct price_table *table)
{
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct partition_result result;
    struct partition_problem problem = workbench_problem(&w->bench, config, table, config_in_flight(&arena, config));
    problem.node_limit = 3000;
    ck_assert_msg(partition_solve(&problem, &arena, &result, &err), "%s", err.message);
    int64_t ns = result.plan_count > 0 ? result.plans[0].step_ns : 0;
    arena_free(&arena);
    return ns;
}

/* Where recomputation is left out since memory is ample, the optimum is what it is with all choices. */
START_TEST(ample_memory_needs_no_recomputation)
{
    static const char *const models[] = { "tiny-gpt", "tiny-moe", "tiny-encdec", "vgg-16" };
    struct world few = world_open(models[_i], "1x8:a100-sxm-80", 64),
                 all = world_open(models[_i], "1x8:a100-sxm-80", 64);
    struct error err = { 0 };
    int compared = 0;
    world_start(&few);
    world_start(&all);
    all.bench.room = ROOM_SCARCE;
    for (int i = 0; i < few.config_count; i += small_share() ? 23 : 7) {
        const struct price_table *a = NULL, *b = NULL;
        ck_assert_msg(workbench_table(&few.bench, &few.configs[i], false, &a, &err), "%s", err.message);
        ck_assert_msg(workbench_table(&all.bench, &all.configs[i], false, &b, &err), "%s", err.message);
        if (!a || !b)
            continue;
        ck_assert_int_lt(a->strategy_count, b->strategy_count);
        ck_assert_int_eq(shortest_ns(&few, &few.configs[i], a), shortest_ns(&all, &all.configs[i], b));
        compared++;
    }
    ck_assert_int_gt(compared, 5);
    world_close(&few);
    world_close(&all);
}
END_TEST

static Suite *price_bounds_suite(void)
{
    Suite *suite = suite_create("price_bounds");
    TCase *tcase = tcase_create("zoo");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, bounds_are_below_prices, 0, INSTANCES);
    tcase_add_loop_test(tcase, loose_prices_are_below_prices, 0, INSTANCES);
    tcase_add_loop_test(tcase, floors_are_below_first_bounds, 0, INSTANCES);
    tcase_add_loop_test(tcase, recomputation_saves_nothing_but_memory, 0, INSTANCES);
    tcase_add_loop_test(tcase, ample_memory_needs_no_recomputation, 0, 4);
    suite_add_tcase(suite, tcase);
    return suite;
}

CHECK_MAIN(price_bounds_suite)
