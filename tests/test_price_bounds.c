/* Prices beside bounds, and beside choices that nobody needs. */
#include "models/operators.h"
#include "planner/space/choice.h"
#include "planner/tables/least.h"
#include "tests/price_world.h"
#include <stdio.h>
#include <string.h>

static int64_t path_of(const struct layer_price *price)
{
    return price->forward_ns + price->backward_ns;
}

/* Gives the strategy's path of one class; of all layers where some stand side by side: there what one takes hides
 * behind another, which an instruction more or less moves from one to the other. */
static int64_t path_ns(const struct price_table *table, const struct chain *chain, int class_index, int strategy)
{
    int64_t sum_ns = 0;
    for (int l = 0; l < chain->layer_count && chain->branches; l++)
        sum_ns += path_of(price_at(table, chain->class_of[l], strategy));
    return chain->branches ? sum_ns : path_of(price_at(table, class_index, strategy));
}

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
                    int64_t path = path_ns(bound, &w.bench.chain, c, k);
                    least = path < least ? path : least;
                    step = b->step_ns < step ? b->step_ns : step;
                }
                ck_assert_msg(step <= p->step_ns, "%s, class %d, strategy %d: bound of the update %lld, price %lld",
                              in->model, c, s, (long long)step, (long long)p->step_ns);
                int64_t own = path_ns(full, &w.bench.chain, c, s);
                ck_assert_msg(least <= own, "%s, class %d, strategy %d: bound %lld, price %lld", in->model, c, s,
                              (long long)least, (long long)own);
            }
    }
    world_close(&w);
}
END_TEST

/* What nobody may undercut for a bound: of the closed form every number has the sign of a cost, but for the path in the
 * lane's row, where it comes again as a cost of the step. */
static void check_least(const struct instance *in, int config, const struct price_table *least,
                        const struct price_table *full)
{
    ck_assert_int_eq(least->strategy_count, full->strategy_count);
    ck_assert_int_le(least->base_bytes, full->base_bytes);
    ck_assert_int_le(least->send_ns, full->send_ns);
    ck_assert_int_le(least->norm_exchange_ns, full->norm_exchange_ns);
    for (int i = 0; i < full->class_count * full->strategy_count; i++) {
        const struct layer_price *l = &least->prices[i], *p = &full->prices[i];
        int strategy = i % full->strategy_count;
        ck_assert(plan_layer_equal(&least->strategies[strategy].layer, &full->strategies[strategy].layer));
#define NO_MORE(member)                                                                                                \
    ck_assert_msg(l->member <= p->member, "%s, configuration %d, class %d, strategy %d: " #member " %lld, price %lld", \
                  in->model, config, i / full->strategy_count, strategy, (long long)l->member, (long long)p->member)
        NO_MORE(forward_ns);
        NO_MORE(backward_ns);
        NO_MORE(gather_forward_ns);
        NO_MORE(gather_backward_ns);
        NO_MORE(gather_once_ns);
        NO_MORE(reduce_ns);
        NO_MORE(reduce_last_ns);
        NO_MORE(step_ns);
        NO_MORE(weight_bytes);
        NO_MORE(tied_bytes);
        NO_MORE(saved_bytes);
        NO_MORE(transient_bytes);
        /* with one micro-batch in flight; each further one adds what is saved */
        ck_assert_int_le(l->saved_bytes - l->freed_bytes, p->saved_bytes - p->freed_bytes);
#undef NO_MORE
    }
}

/* And the one strategy whose bytes are priced alone has no fewer than in the whole table, so that where it fits memory
 * is not what is lacking. */
static void check_thrifty(const struct price_table *thrifty, const struct price_table *full)
{
    int strategy = price_strategy(full, &thrifty->strategies[0].layer);
    ck_assert_int_ge(strategy, 0);
    ck_assert_int_eq(thrifty->base_bytes, full->base_bytes);
    for (int c = 0; c < full->class_count; c++) {
        const struct layer_price *t = price_at(thrifty, c, 0), *p = price_at(full, c, strategy);
        ck_assert_int_eq(t->weight_bytes, p->weight_bytes);
        ck_assert_int_ge(t->saved_bytes, p->saved_bytes);
    }
}

/* As targets have it: one stage of ZeRO, and operators that are treated otherwise than their layers. */
static void treat_alike(struct space *space, int zero)
{
    space->zero = allowed_only(zero);
    space->reshard = (struct allowed){ 2, { RESHARD_EACH_PASS, RESHARD_EACH_STEP } };
    space->recompute = (struct allowed){ 2, { RECOMPUTE_NONE, RECOMPUTE_BLOCK } };
    space->excepted = (struct allowed){ 2, { 0, INT64_C(1) << OPERATOR_core | INT64_C(1) << OPERATOR_gate } };
}

/* Three configurations that follow each other differ in their prefetch, of which that of one layer comes first. */
START_TEST(least_prices_are_below_prices)
{
    const struct instance *in = &instances[_i % INSTANCES];
    if (!in_share((uint64_t)_i))
        return;
    struct world w = world_open(in->model, in->cluster, in->batch);
    if (_i >= INSTANCES)
        treat_alike(&w.space, _i % 4);
    struct error err = { 0 };
    int compared = 0, grown = 0;
    world_start(&w);
    for (int i = 0; i < w.config_count; i++) {
        const struct price_table *least = NULL, *full = NULL, *thrifty = NULL;
        const struct config *config = &w.configs[i];
        if (i / 3 % in->stride > 0)
            continue;
        ck_assert(least_table(&w.bench, config, &least, &err));
        ck_assert(!least || least_thrifty(&w.bench, config, least, &thrifty, &err));
        ck_assert(workbench_table(&w.bench, config, false, &full, &err));
        if (!least || !full)
            continue;
        check_least(in, i, least, full);
        if (thrifty)
            check_thrifty(thrifty, full);
        compared++;
        grown += least->norm_exchange_ns > 0 || least->send_ns > 0;
        ck_assert(least_table(&w.bench, config, &least, &err));
        ck_assert_ptr_null(least); /* the whole table is known */
    }
    ck_assert_int_gt(compared, 0);
    ck_assert(grown > 0 || compared < 3);
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
    tcase_add_loop_test(tcase, least_prices_are_below_prices, 0, 2 * INSTANCES);
    tcase_add_loop_test(tcase, recomputation_saves_nothing_but_memory, 0, INSTANCES);
    suite_add_tcase(suite, tcase);
    return suite;
}

CHECK_MAIN(price_bounds_suite)
