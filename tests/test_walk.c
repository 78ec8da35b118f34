/* The walk that ranks plans beside the simulator that judges them: under every schedule, by both clocks, for cuts and
 * links of all kinds; and where a weight lies on several stages. */
#include "planner/estimate/pipeline.h"
#include "planner/estimate/pipeline_order.h"
#include "planner/search/search.h"
#include "tests/fact_files.h"
#include "tests/model_files.h"
#include "tests/random_pipelines.h"

/* Of the simulated step. */
static double off_by(int64_t walk_ns, int64_t simulated_ns)
{
    return fabs((double)walk_ns / (double)simulated_ns - 1);
}

static int64_t walked_below_ns(const struct pipeline_case *c, int micro_batches, int64_t below_ns)
{
    struct error err = { 0 };
    int64_t step_ns = 0;
    ck_assert_msg(
        pipeline_step_ns(&step_ns, c->plan, &c->bench.chain, c->table, &c->facts, NULL, micro_batches, below_ns, &err),
        "%s", err.message);
    return step_ns;
}

static int64_t walked_ns(const struct pipeline_case *c, int micro_batches)
{
    return walked_below_ns(c, micro_batches, INT64_MAX);
}

/* What a draw's plan is off by. */
static double draw_off(uint64_t seed, int schedule, enum plan_clock clock)
{
    enum { MOST_SEND_PERMILLE = 300 };
    struct pipeline_draw draw = pipeline_draw(&seed, schedule, 0.7, MOST_SEND_PERMILLE);
    draw.whole = true; /* gradients leave when the first layer's pass ends, as they do where it begins with a norm */
    draw.ratios = (enum pipeline_ratios)(seed % 2 ? RATIO_OF_STAGES : RATIO_OF_ALL);
    struct pipeline_case *c = pipeline_open(&draw, &seed);
    c->plan->clock = clock;
    double off = off_by(walked_ns(c, draw.micros), pipeline_simulated_ns(c));
    pipeline_close(c);
    return off;
}

/* Layers of given times, up to seven times as long as others, messages up to three tenths of a stage. */
START_TEST(the_walk_is_near_the_simulation)
{
    enum { DRAWS = 40 };
    double worst = 0, sum = 0;
    int count = 0;
    for (int i = 0; i < DRAWS && !schedules[_i]->asynchronous; i++) {
        if (!in_share((uint64_t)i))
            continue;
        double off = draw_off((uint64_t)(1000 * _i + 7 * i), _i, i % CLOCK_COUNT);
        worst = fmax(worst, off);
        sum += off;
        count++;
    }
    ck_assert_msg(count == 0 || (worst < 0.07 && sum / count < 0.01),
                  "%s: off by %.2f %% in the mean, %.2f %% at worst", schedules[_i]->name, 100 * sum / count,
                  100 * worst);
}
END_TEST

/* Of many micro-batches the walk may be asked for a few: as if the plan had no more. */
START_TEST(few_micro_batches_are_walked_as_a_plan_of_so_many)
{
    enum { DRAWS = 20, MOST_SEND_PERMILLE = 300, TIMES = 3 };
    for (int i = 0; i < DRAWS && !schedules[_i]->asynchronous; i++) {
        uint64_t seed = (uint64_t)(1000 * _i + 7 * i);
        struct pipeline_draw draw = pipeline_draw(&seed, _i, 0.7, MOST_SEND_PERMILLE);
        struct pipeline_case *c = pipeline_open(&draw, &seed);
        c->plan->clock = i % CLOCK_COUNT;
        c->plan->micro_batch_count = TIMES * draw.micros;
        int64_t few_ns = walked_ns(c, draw.micros);
        c->plan->micro_batch_count = draw.micros;
        int64_t own_ns = walked_ns(c, draw.micros);
        ck_assert_msg(few_ns == own_ns, "%s, draw %d: %lld ns, of a plan of %d micro-batches %lld ns",
                      schedules[_i]->name, i, (long long)few_ns, draw.micros, (long long)own_ns);
        pipeline_close(c);
    }
}
END_TEST

/* So many micro-batches that most of the step is told by its middle, beside the simulation of all of it. */
START_TEST(long_walks_are_near_the_simulation)
{
    enum { DRAWS = 8, MOST_SEND_PERMILLE = 300, LONG = 240 };
    double worst = 0;
    for (int i = 0; i < DRAWS && !schedules[_i]->asynchronous; i++) {
        if (!in_share((uint64_t)i))
            continue;
        uint64_t seed = (uint64_t)(1000 * _i + 7 * i);
        struct pipeline_draw draw = pipeline_draw(&seed, _i, 0.7, MOST_SEND_PERMILLE);
        draw.whole = true;
        draw.micros = (int)round_up(LONG, schedule_unit(schedules[_i], draw.stages));
        struct pipeline_case *c = pipeline_open(&draw, &seed);
        c->plan->clock = i % CLOCK_COUNT;
        worst = fmax(worst, off_by(walked_ns(c, draw.micros), pipeline_simulated_ns(c)));
        pipeline_close(c);
    }
    ck_assert_msg(worst < 0.02, "%s: off by %.2f %% at worst", schedules[_i]->name, 100 * worst);
}
END_TEST

/* A walk that may end early says no more than the step takes, and what it takes where that is less than was asked. */
START_TEST(walks_end_when_they_are_too_long)
{
    enum { DRAWS = 12, MOST_SEND_PERMILLE = 300 };
    int early = 0;
    for (int i = 0; i < DRAWS && !schedules[_i]->asynchronous; i++) {
        uint64_t seed = (uint64_t)(1000 * _i + 7 * i);
        struct pipeline_draw draw = pipeline_draw(&seed, _i, 0.7, MOST_SEND_PERMILLE);
        struct pipeline_case *c = pipeline_open(&draw, &seed);
        c->plan->clock = i % CLOCK_COUNT;
        for (int more = 1; more <= 16; more *= 16) {
            int micros = more * draw.micros;
            int64_t step_ns = walked_ns(c, micros);
            ck_assert_int_eq(walked_below_ns(c, micros, step_ns + 1), step_ns);
            for (int percent = 10; percent <= 100; percent += 18) {
                int64_t below_ns = step_ns / 100 * percent, told_ns = walked_below_ns(c, micros, below_ns);
                ck_assert_msg(told_ns >= below_ns && told_ns <= step_ns, "%s, draw %d, %d %%: %lld of %lld ns",
                              schedules[_i]->name, i, percent, (long long)told_ns, (long long)step_ns);
                early += told_ns < step_ns;
            }
        }
        pipeline_close(c);
    }
    ck_assert(schedules[_i]->asynchronous || early > DRAWS);
}
END_TEST

/* An empty shelf for layers that have so much to do: those of random pipelines take time, but compute nothing. */
static struct pipeline_shelf new_shelf(uint64_t seed)
{
    struct pipeline_shelf shelf = { 0 };
    int *work = calloc(PIPELINE_LAYERS, sizeof *work);
    ck_assert_ptr_nonnull(work);
    for (int l = 0; l < PIPELINE_LAYERS; l++)
        work[l] = 20 + (int)pipeline_random(&seed, 160);
    atomic_store(&shelf.work, work);
    return shelf;
}

static int64_t walked_with(const struct pipeline_case *c, struct pipeline_shelf *shelf, int micro_batches)
{
    struct error err = { 0 };
    int64_t step_ns = 0;
    ck_assert_msg(pipeline_step_ns(&step_ns, c->plan, &c->bench.chain, c->table, &c->facts, shelf, micro_batches,
                                   INT64_MAX, &err),
                  "%s", err.message);
    return step_ns;
}

/* A layer of some piece goes over to the next one. */
static void move_some_cut(const struct pipeline_case *c, uint64_t *seed)
{
    const struct schedule *schedule = schedules[c->draw.schedule];
    int stages = c->draw.stages, pieces = schedule_pieces(schedule, stages, c->draw.chunks),
        at = (int)pipeline_random(seed, pieces);
    struct layer_range from = plan_stage_chunk(c->plan, schedule_stage(schedule, stages, at), at / stages);
    if (from.count == 1 || at + 1 == pieces)
        return;
    struct layer_range to = plan_stage_chunk(c->plan, schedule_stage(schedule, stages, at + 1), (at + 1) / stages);
    schedule_set_piece(c->plan, at, (struct layer_range){ from.first, from.count - 1 });
    schedule_set_piece(c->plan, at + 1, (struct layer_range){ to.first - 1, to.count + 1 });
}

/* Orders of passes and messages that other walks left on the shelf: of other cuts, clocks and numbers of micro-batches,
 * and of more in flight. */
START_TEST(a_shelf_of_orders_changes_no_step)
{
    enum { DRAWS = 12, MOST_SEND_PERMILLE = 300, ROUNDS = 8 };
    for (int i = 0; i < DRAWS && !schedules[_i]->asynchronous; i++) {
        uint64_t seed = (uint64_t)(1000 * _i + 7 * i);
        struct pipeline_draw draw = pipeline_draw(&seed, _i, 0.7, MOST_SEND_PERMILLE);
        draw.layers = PIPELINE_LAYERS;
        struct pipeline_case *c = pipeline_open(&draw, &seed);
        struct pipeline_shelf shelf = new_shelf((uint64_t)i);
        for (int walk = 0; walk < 4 * ROUNDS; walk++) {
            int micros = draw.micros * (walk % 4 < 2 ? 1 : 16);
            struct pipeline_shelf empty = new_shelf((uint64_t)i);
            c->plan->clock = walk % CLOCK_COUNT;
            int64_t alone_ns = walked_with(c, &empty, micros);
            for (int times = 0; times < 2; times++) {
                int64_t step_ns = walked_with(c, &shelf, micros);
                ck_assert_msg(step_ns == alone_ns, "%s by clock %d, %d micro-batches: %lld ns off a shelf, %lld alone",
                              schedules[_i]->name, walk % CLOCK_COUNT, micros, (long long)step_ns, (long long)alone_ns);
            }
            pipeline_shelf_close(&empty);
            if (walk % 4 < 3)
                continue;
            c->plan->extra_in_flight += schedules[_i]->takes_extra && walk / 4 == ROUNDS / 2;
            for (int move = 0; move < draw.layers; move++)
                move_some_cut(c, &seed);
        }
        pipeline_shelf_close(&shelf);
        pipeline_close(c);
    }
}
END_TEST

/* How far the search's choice in the space is off. */
static double choice_off(const char *name, const char *form, const struct space *space)
{
    struct model *model = model_of_zoo(name);
    struct cluster *cluster = cluster_open(form);
    struct facts facts = { .cluster = cluster };
    struct search_options options = { .space = *space, .top = 1, .no_advice = true };
    struct search_result *result = NULL;
    struct error err = { 0 };
    ck_assert_msg(search_run(&result, model, &facts, &options, &err), "%s", err.message);
    ck_assert(result->feasible);
    double off = off_by(result->plans[0].ranked_ns, simulated_step_ns(name, model, result->plans[0].plan, &facts));
    search_result_free(result);
    cluster_free(cluster);
    model_free(model);
    return off;
}

/* Encoder and decoder and the head share a weight, which stages and copies exchange over a slow network; where there
 * are copies, the small weights that all attention shares make stages wait for each other, of which the walk knows
 * nothing.
 */
START_TEST(the_walk_knows_who_holds_a_weight)
{
    struct space space = space_default(16, 0, DTYPE_BF16);
    if (schedules[_i]->asynchronous || !in_share((uint64_t)_i))
        return;
    space.stages = (struct allowed){ 1, { 4 } };
    space.schedule = (struct allowed){ 1, { _i } };
    double off = choice_off("t5-small", "4x1:rtx4090", &space);
    ck_assert_msg(off < (schedules[_i]->copies ? 0.25 : 0.17), "%s: off by %.2f %%", schedules[_i]->name, 100 * off);
}
END_TEST

/* Of three stages with two ranks each on nodes of three devices the second lies on both: its gradients pass their
 * links. */
START_TEST(a_stage_on_two_nodes_has_their_links)
{
    struct space space = space_default(48, 0, DTYPE_BF16);
    space.stages = (struct allowed){ 1, { 3 } };
    space.tensor = (struct allowed){ 1, { 1 } };
    space.schedule = (struct allowed){ 1, { schedule_find("1f1b") } };
    double off = choice_off("bert-large", "2x3:a10g", &space);
    ck_assert_msg(off < 0.05, "off by %.2f %%", 100 * off);
}
END_TEST

static Suite *walk_suite(void)
{
    Suite *suite = suite_create("walk");
    TCase *each = tcase_create("each schedule");
    int count = 0;
    while (schedules[count])
        count++;
    tcase_set_timeout(each, 0);
    tcase_add_loop_test(each, the_walk_is_near_the_simulation, 0, count);
    tcase_add_loop_test(each, few_micro_batches_are_walked_as_a_plan_of_so_many, 0, count);
    tcase_add_loop_test(each, long_walks_are_near_the_simulation, 0, count);
    tcase_add_loop_test(each, walks_end_when_they_are_too_long, 0, count);
    tcase_add_loop_test(each, a_shelf_of_orders_changes_no_step, 0, count);
    tcase_add_loop_test(each, the_walk_knows_who_holds_a_weight, 0, count);
    suite_add_tcase(suite, each);
    CHECK_ADD(suite, a_stage_on_two_nodes_has_their_links);
    return suite;
}

CHECK_MAIN(walk_suite)
