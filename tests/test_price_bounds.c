/* Prices beside bounds, and beside choices that nobody needs. */
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

static int64_t lane_ns(const struct layer_price *p)
{
    return p->gather_forward_ns + p->gather_backward_ns + p->reduce_ns;
}

static int64_t once_ns(const struct layer_price *p)
{
    return p->gather_once_ns + p->reduce_last_ns + p->step_ns;
}

START_TEST(recomputation_saves_nothing_but_memory)
{
    const struct instance *in = &instances[_i];
    if (!in_share((uint64_t)_i))
        return;
    struct world w = instance_open(in);
    struct error err = { 0 };
    int compared = 0;
    w.space.recompute = (struct allowed){ 3, { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL } };
    world_start(&w);
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

static Suite *price_bounds_suite(void)
{
    Suite *suite = suite_create("price_bounds");
    TCase *tcase = tcase_create("zoo");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, bounds_are_below_prices, 0, INSTANCES);
    tcase_add_loop_test(tcase, recomputation_saves_nothing_but_memory, 0, INSTANCES);
    suite_add_tcase(suite, tcase);
    return suite;
}

CHECK_MAIN(price_bounds_suite)
