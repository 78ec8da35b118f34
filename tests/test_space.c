/* Whole searches against enumeration: every configuration of the space, every cut into stages, every strategy of every
 * layer, each priced by the search's own tables and the formula spelled out once more (enumerate_plans.h). And one
 * random plan of each, simulated, against the bound of the simulated step.
 *
 *   test_space [--instances N] [--seed S] [--full]
 *
 * With arguments it does so many random instances and prints what it found as JSON: `benchmarks/run_brute`. */
#include "planner/program/program.h"
#include "planner/estimate/assemble.h"
#include "planner/check/check_busy.h"
#include "planner/bound/busy_bound.h"
#include "planner/space/config_name.h"
#include "planner/tables/workbench.h"
#include "tests/enumerate_plans.h"
#include "tests/random_worlds.h"
#include "tests/simulated_step.h"
#include "tests/toy_chain.h"

struct tally {
    int64_t instances, feasible, infeasible, empty, rejected, mixed, other_orders, best_other, branched, unproven,
        configurations, plans, reordered, most_plans, plans_with_turns, best_with_turns, turns_reversed, reshards,
        replicates, best_apart, best_kept;
    int64_t by_schedule[32], simulated[32];
};

/* Some number of meshes for each stage, or false when those drawn do not sum up to all. */
static bool draw_turns_of(struct random_world *w, const struct config *config, int layers,
                          struct partition_plan *solution, struct arena *arena)
{
    int left = config->meshes;
    solution->shape = arena_alloc(arena, (size_t)config->meshes, sizeof(int));
    while (left > 0 && solution->stage_count < layers) {
        int shape = (int)world_draw(w, config->shape_count);
        if (config->turns[shape] > left)
            shape = 0;
        solution->shape[solution->stage_count++] = shape;
        left -= config->turns[shape];
    }
    return left == 0 && (config->stages == 0 || config->stages == solution->stage_count);
}

/* Replicas hold as many micro-batches as the search thinks. */
static void check_in_flight(const struct plan *plan, const struct config *config, const struct partition_plan *solution,
                            struct arena *arena)
{
    const int *in_flight = workbench_in_flight(arena, config);
    for (int k = 0, at = 0; k < solution->stage_count; at += config->turns[solution->shape[k++]]) {
        struct schedule_place place = schedule_place_of(plan, at);
        ck_assert_int_eq(schedule_held(schedules[plan->schedule], &place),
                         in_flight[(config->meshes - at) * config->shape_count + solution->shape[k]]);
    }
}

/* Some order of the layers, and the places of the chain that it goes through, (layers + 1). */
static void draw_order(struct random_world *w, const struct chain *chain, int *order, int *place)
{
    place[0] = 0;
    for (int l = 0; l < chain->layer_count; l++) {
        int layer = l;
        if (chain->branches) {
            const struct branches *b = chain->branches;
            int64_t first = b->first_up[place[l]], choices = b->first_up[place[l] + 1] - first;
            layer = b->up_layer[first + world_draw(w, choices)];
        }
        order[l] = layer;
        place[l + 1] = chain_extend(chain, place[l], layer);
    }
}

/* Any cut of the configuration and any strategy for each layer, whether it fits or not. */
static struct plan *draw_plan(struct random_world *w, const struct workbench *bench, const struct config *config,
                              const struct price_table *table, struct arena *arena)
{
    int pieces = config->meshes > 0 ? config->meshes : config_pieces(config), layers = bench->chain.layer_count,
        classes = table->class_count;
    int block = classes * table->strategy_count, *count = arena_alloc(arena, (size_t)(pieces * block), sizeof *count);
    struct partition_plan solution = { .first_layer = arena_alloc(arena, (size_t)pieces, sizeof(int)) };
    int order[WORLD_LAYERS], place[WORLD_LAYERS + 1];
    draw_order(w, &bench->chain, order, place);
    if (config->meshes > 0) {
        if (!draw_turns_of(w, config, layers, &solution, arena))
            return NULL;
        pieces = solution.stage_count;
    }
    for (int k = 1; k < pieces; k++) {
        int from = solution.first_layer[k - 1] + 1, most = layers - (pieces - k);
        solution.first_layer[k] = from + (int)world_draw(w, most - from + 1);
    }
    for (int k = 0; k < pieces; k++) {
        int first = solution.first_layer[k], end = k + 1 < pieces ? solution.first_layer[k + 1] : layers;
        for (int l = first; l < end; l++)
            count[(k * classes + bench->chain.class_of[order[l]]) * table->strategy_count +
                  world_draw(w, table->strategy_count)]++;
    }
    for (int k = 0; k < pieces; k++)
        solution.first_layer[k] = place[solution.first_layer[k]];
    ck_assert(partition_set_counts(&solution, arena, count, pieces, block));
    struct plan *plan = assemble_partition(&w->space, config, bench->graph, &bench->chain, table, &solution);
    ck_assert_ptr_nonnull(plan);
    if (solution.shape)
        check_in_flight(plan, config, &solution, arena);
    return plan;
}

/* No plan is simulated shorter than its configuration's bound, from the prices that the search makes for bounds; the
 * checker proves that bound. */
static void check_busy_bound(struct random_world *w, struct workbench *bench, const struct config *config,
                             const struct price_table *table, struct arena *arena, struct tally *tally)
{
    const struct price_table *for_bounds = NULL;
    struct error err = { 0 };
    char name[CONFIG_NAME_BYTES];
    int64_t bound_ns = 0;
    bool holds = false;
    ck_assert(workbench_table(bench, config, true, &for_bounds, &err) && for_bounds);
    struct busy_problem problem = busy_problem_of(&bench->chain, config, for_bounds);
    ck_assert(busy_bound(&bound_ns, &problem, INT64_MAX, NULL, &err));
    ck_assert(busy_holds(&holds, &bench->chain, NULL, config, for_bounds, bound_ns, &err));
    ck_assert_msg(holds, "%s on %s: the checker does not prove %lld", config_name(name, config), w->cluster_form,
                  (long long)bound_ns);
    struct plan *plan = draw_plan(w, bench, config, table, arena);
    if (!plan)
        return;
    int64_t step_ns = simulated_step_ns(w->cluster_form, w->world.model, plan, &w->world.facts);
    ck_assert_msg(bound_ns <= step_ns, "%s on %s: bound %lld, simulated %lld; model %s", config_name(name, config),
                  w->cluster_form, (long long)bound_ns, (long long)step_ns, w->model_text.data);
    tally->simulated[config->stages > 1 ? config->schedule : 0]++;
    plan_free(plan);
}

/* The shortest plan of all configurations, one by one. */
static int64_t enumerate_space(struct random_world *w, struct tally *tally, int64_t *plan_count)
{
    struct workbench bench;
    struct config *configs = NULL;
    struct arena arena = { 0 };
    struct error err = { 0 };
    int count = 0, drawn = 0;
    int64_t best = INT64_MAX;
    bool other_best = false, turns_best = false;
    uint64_t reads[WORLD_LAYERS];
    ck_assert_msg(workbench_open(&bench, w->world.model, &w->world.facts, &w->space, &err), "%s", err.message);
    ck_assert(space_configs(&configs, &count, &arena, &w->space, bench.graph, w->world.cluster, &err));
    ck_assert_int_le(bench.chain.layer_count, WORLD_LAYERS);
    drawn = (int)world_draw(w, count);
    graph_reads(bench.graph, reads);
    for (int i = 0; i < count; i++) {
        const struct price_table *table = NULL;
        int64_t plans = 0;
        ck_assert_msg(workbench_table(&bench, &configs[i], false, &table, &err), "%s", err.message);
        if (!table)
            continue;
        ck_assert_int_le(table->strategy_count, WORLD_STRATEGIES);
        int *in_flight = workbench_in_flight(&arena, &configs[i]);
        struct partition_problem problem = workbench_problem(&bench, &configs[i], table, in_flight);
        int64_t own = enumerate_orders(&problem, reads, &plans);
        ck_assert_int_le(partition_quick_bound(&problem), own);
        ck_assert_int_le(partition_orders_bound(&problem), own);
        if (own < best) {
            other_best = configs[i].order.index > REVERSED_ORDER;
            turns_best = configs[i].meshes > 0;
        }
        best = min_i64(best, own);
        *plan_count += plans;
        tally->other_orders += configs[i].order.index > REVERSED_ORDER ? plans : 0;
        tally->plans_with_turns += configs[i].meshes > 0 ? plans : 0;
        tally->turns_reversed +=
            configs[i].meshes > 0 && configs[i].order.index == REVERSED_ORDER ? plans : 0; /* on several types */
        tally->by_schedule[configs[i].stages > 1 ? configs[i].schedule : 0] += plans;
        if (i == drawn)
            check_busy_bound(w, &bench, &configs[i], table, &arena, tally);
    }
    for (int l = 0; l < bench.graph->layer_count; l++)
        if (bench.graph->layers[l].input_count > 1) {
            tally->branched++;
            break;
        }
    tally->reordered += bench.chain.branches != NULL;
    tally->configurations += count;
    tally->best_other += other_best;
    tally->best_with_turns += turns_best;
    workbench_close(&bench);
    arena_free(&arena);
    return best;
}

static void describe(const struct random_world *w, char out[1024])
{
    snprintf(out, 1024, "cluster %s, %lld and %lld bytes, batch %lld, zero %lld of %d, %d schedules, model %.600s",
             w->cluster_form, (long long)w->memory_bytes[0], (long long)w->memory_bytes[1], (long long)w->space.batch,
             (long long)w->space.zero.values[0], w->space.zero.count, w->space.schedule.count, w->model_text.data);
}

/* A bound is claimed only where all schedules of the space have one. */
static bool claims_bound(const struct random_world *w, const struct certificate *certificate)
{
    return certificate->bound_ns > 0 || w->space.schedule.count == 0;
}

static bool keeps_gathered(const struct plan *plan)
{
    bool keeps = false;
    for (int l = 0; l < plan->layer_count; l++)
        keeps |= plan_layer_keeps_gathered(&plan->layers[l]);
    return keeps;
}

static bool decides_apart(const struct plan *plan)
{
    bool apart = false;
    for (int l = 0; l < plan->layer_count; l++)
        apart |= plan->layers[l].replicate != 0;
    return apart;
}

static void check_instance(uint64_t seed, bool full, struct tally *tally)
{
    struct random_world w = random_world(seed, full);
    struct search_options options = { .space = w.space, .top = 1, .rank_count = 1, .no_advice = true };
    struct search_result *result = NULL;
    struct error err = { 0 };
    char text[1024];
    int64_t plans = 0;
    describe(&w, text);
    tally->instances++;
    if (search_run(&result, w.world.model, &w.world.facts, &options, &err) && !result->why) {
        const struct certificate *certificate = &result->certificate;
        int64_t best = enumerate_space(&w, tally, &plans);
        if (result->feasible && best == INT64_MAX) /* where only a schedule beside has room */
            ck_assert(!config_is_bounded(&result->plans[0].config));
        else if (result->feasible)
            ck_assert_msg(certificate->best_ns == best, "seed %llu: search %lld, enumeration %lld; %s",
                          (unsigned long long)seed, (long long)certificate->best_ns, (long long)best, text);
        else /* nothing fits by the formula, or no plan's layout did */
            ck_assert_msg(best == INT64_MAX || certificate->rejected > 0, "seed %llu: nothing found, but %lld; %s",
                          (unsigned long long)seed, (long long)best, text);
        if (claims_bound(&w, certificate))
            ck_assert_msg(certificate->bound_ns == (best == INT64_MAX ? 0 : best), "seed %llu: bound %lld of %lld; %s",
                          (unsigned long long)seed, (long long)certificate->bound_ns, (long long)best, text);
        else
            tally->unproven++;
        ck_assert_int_eq(certificate->complete, true);
        ck_assert_int_gt(certificate->simulated_bound_ns, 0);
        if (result->feasible)
            ck_assert_int_le(certificate->simulated_bound_ns, result->plans[0].estimate->prediction.step_ns);
        tally->reshards += w.space.reshard.count > 1;
        tally->best_kept += result->feasible && keeps_gathered(result->plans[0].plan);
        tally->replicates += w.space.replicate.count > 1;
        tally->best_apart += result->feasible && decides_apart(result->plans[0].plan);
        tally->feasible += result->feasible;
        tally->infeasible += best == INT64_MAX;
        tally->rejected += !result->feasible && best < INT64_MAX;
        tally->mixed += w.world.cluster->type_count > 1;
        tally->plans += plans;
        tally->most_plans = max_i64(tally->most_plans, plans);
    } else { /* no configuration has such degrees */
        const char *why = result ? result->why : err.message;
        ck_assert_msg((result || err.kind == ERROR_INPUT) && strstr(why, "plan: "), "seed %llu: %s; %s",
                      (unsigned long long)seed, why, text);
        tally->empty++;
    }
    search_result_free(result);
    random_world_close(&w);
}

START_TEST(search_equals_enumeration)
{
    enum {
        WAITS_LESS = 852,      /* there a schedule that holds more takes less, since it does not wait for sends */
        BESIDE_BY_TYPES = 1202 /* and what leads besides has stages of several types */
    };
    const int stride = small_share() ? share_stride() : min_int(share_stride(), 5); /* as many as meet every schedule */
    struct tally tally = { 0 };
    check_instance(WAITS_LESS, false, &tally);
    check_instance(BESIDE_BY_TYPES, false, &tally);
    for (uint64_t seed = 1; seed <= 1100; seed += (uint64_t)stride)
        check_instance(seed, false, &tally);
    ck_assert_int_gt(tally.feasible, 300 / stride);
    ck_assert_int_gt(tally.infeasible, 50 / stride);
    ck_assert_int_gt(tally.mixed, 200 / stride);
    ck_assert_int_gt(tally.other_orders, 2000 / stride);
    ck_assert_int_ge(tally.best_other, 3 / stride);
    ck_assert_int_gt(tally.branched, 200 / stride);
    ck_assert_int_gt(tally.reordered, 100 / stride);
    ck_assert_int_gt(tally.plans_with_turns, 10000 / stride);
    ck_assert_int_gt(tally.best_with_turns, 20 / stride);
    ck_assert_int_gt(tally.turns_reversed, 10000 / stride);
    ck_assert_int_gt(tally.reshards, 60 / stride);
    ck_assert_int_gt(tally.best_kept, 20 / stride);
    ck_assert_int_gt(tally.replicates, 60 / stride);
    ck_assert_int_gt(tally.best_apart, 20 / stride);
    for (int s = 0; schedules[s] && !small_share(); s++)
        ck_assert_msg(schedules[s]->asynchronous ||
                          (tally.by_schedule[s] > 100 / stride && tally.simulated[s] > 2 / stride),
                      "%s: %lld plans, %lld simulated", schedules[s]->name, (long long)tally.by_schedule[s],
                      (long long)tally.simulated[s]);
}
END_TEST

/* ---- batches ---- */

/* Degrees and micro-batches may be fixed as well, so that few batches have a configuration. */
static void draw_batch(struct random_world *w)
{
    w->space.batch = 1 + world_draw(w, 200);
    if (world_draw(w, 2))
        w->space.data = (struct allowed){ 1, { 1 + world_draw(w, 8) } };
    if (world_draw(w, 2))
        w->space.micro = (struct allowed){ 1 + (int)world_draw(w, 2), { 5 + world_draw(w, 8), 13 } };
}

/* By counting the configurations of every batch up to the one that is named, or as far as is looked. */
static int64_t check_nearest(const struct random_world *w, const struct graph *graph, uint64_t seed, bool above)
{
    enum { LOOKS = 64 };
    int64_t named = space_nearest_batch(&w->space, graph, w->world.cluster, above), step = above ? 1 : -1;
    struct space other = w->space;
    for (int i = 0; named > 0 ? other.batch != named : i < LOOKS && other.batch + step > 0; i++) {
        other.batch += step;
        bool is_named = other.batch == named, plans = space_count(&other, graph, w->world.cluster) > 0;
        ck_assert_msg(plans == is_named, "seed %llu, batch %lld on %s: %lld has %s configuration, named was %lld",
                      (unsigned long long)seed, (long long)w->space.batch, w->cluster_form, (long long)other.batch,
                      plans ? "a" : "no", (long long)named);
    }
    return named;
}

START_TEST(nearest_batches_are_named)
{
    int both = 0, far = 0;
    for (uint64_t seed = 1; seed <= 2400; seed += (uint64_t)share_stride()) {
        struct random_world w = random_world(seed, false);
        struct graph *graph = NULL;
        struct error err = { 0 };
        draw_batch(&w);
        ck_assert_msg(graph_build(&graph, w.world.model, w.space.batch, 0, 1, &err), "%s", err.message);
        int64_t below = check_nearest(&w, graph, seed, false), above = check_nearest(&w, graph, seed, true);
        both += below > 0 && above > 0;
        far += above > w.space.batch + 8;
        graph_free(graph);
        random_world_close(&w);
    }
    ck_assert_int_gt(both, 300 / share_stride());
    ck_assert_int_ge(far, 50 / share_stride());
}
END_TEST

/* ---- more is never worse ---- */

/* The formula's optimum as far as the search proves it; INT64_MAX: nothing fits, 0: nothing is asked. */
static int64_t optimum_ns(uint64_t seed, enum world_more more)
{
    struct random_world w = random_world_with(seed, false, more);
    struct search_options options = { .space = w.space, .top = 1, .rank_count = 1, .no_advice = true };
    struct search_result *result = NULL;
    struct error err = { 0 };
    int64_t ns = 0;
    if (search_run(&result, w.world.model, &w.world.facts, &options, &err) && !result->why) {
        ns = result->feasible ? result->certificate.best_ns : INT64_MAX;
        if (!result->feasible && result->certificate.rejected > 0)
            ns = 0; /* what fits by the formula does not by its layout */
    }
    search_result_free(result);
    random_world_close(&w);
    return ns;
}

/* Five searches each: of shares half as many as of others. */
START_TEST(more_is_never_worse)
{
    int shorter[WORLD_MORE] = { 0 }, compared = 0;
    const int stride = share_stride() > 1 ? 2 * share_stride() : 1;
    for (uint64_t seed = 20001; seed <= 20250; seed += (uint64_t)stride) {
        int64_t before = optimum_ns(seed, MORE_OF_NOTHING);
        for (int more = MORE_OF_NOTHING + 1; before > 0 && more < WORLD_MORE; more++) {
            int64_t after = optimum_ns(seed, (enum world_more)more);
            ck_assert_msg(after <= before, "seed %llu, more of %d: %lld before, %lld after", (unsigned long long)seed,
                          more, (long long)before, (long long)after);
            shorter[more] += after > 0 && after < before;
            compared++;
        }
    }
    ck_assert_int_gt(compared, 400 / stride);
    for (int more = MORE_OF_NOTHING + 1; more < WORLD_MORE && !small_share(); more++)
        ck_assert_msg(shorter[more] > 10 / stride, "more of %d was shorter %d times", more, shorter[more]);
}
END_TEST

static int64_t toy_optimum(struct toy *toy)
{
    struct partition_result result;
    struct error err = { 0 };
    ck_assert_msg(partition_solve(&toy->problem, &toy->arena, &result, &err), "%s", err.message);
    ck_assert_int_eq(result.bound_ns, result.feasible ? result.plans[0].step_ns : INT64_MAX);
    return result.bound_ns;
}

/* Sends so long that what waiting takes of them is whole. */
static void draw_even(struct toy *toy, uint64_t seed)
{
    enum { WHOLE = 12 }; /* of 1 to CHAIN_STAGES in flight */
    toy_draw(toy, &seed);
    toy->table.send_ns *= WHOLE;
}

static void scale_times(struct toy *toy, int64_t times)
{
    toy->table.send_ns *= times;
    for (int i = 0; i < CHAIN_CLASSES * toy->table.strategy_count; i++) {
        struct layer_price *price = &toy->prices[i];
        price->forward_ns *= times;
        price->backward_ns *= times;
        price->gather_forward_ns *= times;
        price->gather_backward_ns *= times;
        price->gather_once_ns *= times;
        price->reduce_ns *= times;
        price->reduce_last_ns *= times;
        price->step_ns *= times;
    }
}

/* Classes and strategies under other numbers. */
static void renumber(struct toy *toy)
{
    int strategies = toy->table.strategy_count;
    struct layer_price before[CHAIN_CLASSES * CHAIN_STRATEGIES];
    memcpy(before, toy->prices, sizeof before);
    for (int l = 0; l < toy->chain.layer_count; l++)
        toy->class_of[l] = (toy->class_of[l] + 1) % CHAIN_CLASSES;
    for (int c = 0; c < CHAIN_CLASSES; c++)
        for (int i = 0; i < strategies; i++)
            toy->prices[(c + 1) % CHAIN_CLASSES * strategies + strategies - 1 - i] = before[c * strategies + i];
}

/* In a slower world everything takes as many times as long, and names decide nothing. */
START_TEST(scale_and_numbers_change_nothing)
{
    int feasible = 0;
    for (uint64_t seed = 1; seed <= 500; seed++) {
        struct toy toy;
        struct error err = { 0 };
        draw_even(&toy, 1000 * seed);
        int64_t before = toy_optimum(&toy);
        scale_times(&toy, 7);
        ck_assert_int_eq(toy_optimum(&toy), before == INT64_MAX ? INT64_MAX : 7 * before);
        arena_free(&toy.arena);
        draw_even(&toy, 1000 * seed);
        renumber(&toy);
        ck_assert(chain_build(&toy.chain, &toy.arena, toy.chain.layer_count, toy.class_of, CHAIN_CLASSES,
                              toy.chain.tied_first, toy.chain.tied_second, &err));
        ck_assert_int_eq(toy_optimum(&toy), before);
        arena_free(&toy.arena);
        feasible += before < INT64_MAX;
    }
    ck_assert_int_gt(feasible, 150);
}
END_TEST

/* The least that any cut by hand comes to; *above: the cuts whose optimum is longer. */
static int64_t least_of_cuts(struct toy *toy, int cut[CHAIN_STAGES], int stage, int *above, int64_t free_ns)
{
    int stages = toy->problem.stage_count, layers = toy->chain.layer_count;
    int64_t least = INT64_MAX;
    for (int at = stage == 0 ? 0 : cut[stage - 1] + 1; at <= (stage == 0 ? 0 : layers - (stages - stage)); at++) {
        cut[stage] = at;
        if (stage + 1 < stages) {
            least = min_i64(least, least_of_cuts(toy, cut, stage + 1, above, free_ns));
            continue;
        }
        struct partition_result result;
        struct error err = { 0 };
        toy->chain.cut = cut;
        ck_assert_msg(partition_solve(&toy->problem, &toy->arena, &result, &err), "%s", err.message);
        ck_assert_int_ge(result.bound_ns, free_ns);
        ck_assert_int_eq(result.bound_ns, result.feasible ? result.plans[0].step_ns : INT64_MAX);
        for (int i = 0; i < result.plan_count; i++)
            ck_assert_mem_eq(result.plans[i].first_layer, cut, (size_t)stages * sizeof *cut);
        *above += result.bound_ns > free_ns;
        least = min_i64(least, result.bound_ns);
        toy->chain.cut = NULL;
    }
    return least;
}

/* Each cut has its optimum, and the least of all is what is found where none is given. */
START_TEST(cuts_by_hand_are_the_only_ones)
{
    int cut[CHAIN_STAGES], above = 0, feasible = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct toy toy;
        uint64_t own = 7000 * seed;
        toy_draw(&toy, &own);
        int64_t free_ns = toy_optimum(&toy);
        ck_assert_int_eq(least_of_cuts(&toy, cut, 0, &above, free_ns), free_ns);
        feasible += free_ns < INT64_MAX;
        arena_free(&toy.arena);
    }
    ck_assert_int_gt(feasible, 100);
    ck_assert_int_gt(above, 100);
}
END_TEST

static Suite *space_suite(void)
{
    Suite *suite = suite_create("space");
    CHECK_ADD(suite, search_equals_enumeration);
    CHECK_ADD(suite, nearest_batches_are_named);
    CHECK_ADD(suite, more_is_never_worse);
    CHECK_ADD(suite, scale_and_numbers_change_nothing);
    CHECK_ADD(suite, cuts_by_hand_are_the_only_ones);
    return suite;
}

/* ---- by hand ---- */

static void print_tally(const struct tally *t)
{
    printf("{\"instances\": %lld, \"feasible\": %lld, \"infeasible\": %lld, \"empty\": %lld, \"rejected\": %lld, "
           "\"mixed\": %lld, \"branched\": %lld, \"reordered\": %lld, \"unproven\": %lld, \"configurations\": %lld, "
           "\"plans\": %lld, "
           "\"most_plans\": %lld, \"plans_with_turns\": %lld, \"best_with_turns\": %lld, "
           "\"plans_by_schedule\": {",
           (long long)t->instances, (long long)t->feasible, (long long)t->infeasible, (long long)t->empty,
           (long long)t->rejected, (long long)t->mixed, (long long)t->branched, (long long)t->reordered,
           (long long)t->unproven, (long long)t->configurations, (long long)t->plans, (long long)t->most_plans,
           (long long)t->plans_with_turns, (long long)t->best_with_turns);
    for (int s = 0; schedules[s]; s++)
        printf("%s\"%s\": %lld", s > 0 ? ", " : "", schedules[s]->name, (long long)t->by_schedule[s]);
    printf("}}\n");
}

static struct {
    uint64_t seed;
    long instances;
    bool full;
} by_hand;

START_TEST(as_many_as_asked_for)
{
    struct tally tally = { 0 };
    for (long i = 0; i < by_hand.instances; i++)
        check_instance(by_hand.seed + (uint64_t)i, by_hand.full, &tally);
    print_tally(&tally);
}
END_TEST

static Suite *by_hand_suite(void)
{
    Suite *suite = suite_create("by hand");
    CHECK_ADD(suite, as_many_as_asked_for);
    return suite;
}

int main(int argc, char **argv)
{
    by_hand.seed = 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--full") == 0)
            by_hand.full = true;
        else if (strcmp(argv[i], "--instances") == 0 && i + 1 < argc)
            by_hand.instances = strtol(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            by_hand.seed = strtoull(argv[++i], NULL, 10);
    }
    SRunner *runner = srunner_create(by_hand.instances > 0 ? by_hand_suite() : space_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
