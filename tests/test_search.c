/* The search against brute force: the knapsack of a stage, the cut into stages, the whole space on tiny models. */
#include "base/num.h"
#include "models/model.h"
#include "planner/search/ilp.h"
#include "planner/program/schedule.h"
#include "planner/search/assemble.h"
#include "planner/search/baseline.h"
#include "planner/search/batch.h"
#include "planner/search/knapsack.h"
#include "planner/search/partition.h"
#include "planner/search/pipeline.h"
#include "planner/search/search.h"
#include "planner/search/workbench.h"
#include "tests/check.h"
#include "tests/hard_knapsacks.h"
#include "tests/toy_chain.h"
#include "tests/toy_world.h"
#include <stdio.h>
#include <string.h>

/* ---- the knapsack ---- */

enum { MAX_GROUPS = 3, MAX_OPTIONS = 6 };
struct instance {
    struct knapsack problem;
    struct knapsack_group groups[MAX_GROUPS];
    struct knapsack_option options[MAX_GROUPS][MAX_OPTIONS];
};

static void instance_draw(struct instance *in, uint64_t *seed, int64_t range, bool peaks, bool correlated)
{
    *in = (struct instance){ .problem = { .group_count = 1 + (int)random_below(seed, MAX_GROUPS),
                                          .row_count = 1 + (int)random_below(seed, KNAPSACK_ROWS),
                                          .groups = in->groups } };
    int64_t least[KNAPSACK_ROWS] = { 0 }, most[KNAPSACK_ROWS] = { 0 };
    for (int g = 0; g < in->problem.group_count; g++) {
        int options = 1 + (int)random_below(seed, MAX_OPTIONS), count = 1 + (int)random_below(seed, g == 0 ? 7 : 3);
        in->groups[g] = (struct knapsack_group){ .count = count, .option_count = options, .options = in->options[g] };
        int64_t low[KNAPSACK_ROWS], high[KNAPSACK_ROWS];
        for (int r = 0; r < KNAPSACK_ROWS; r++) {
            low[r] = INT64_MAX;
            high[r] = INT64_MIN;
        }
        for (int i = 0; i < options; i++) {
            struct knapsack_option *o = &in->options[g][i];
            o->cost = random_below(seed, range);
            o->peak = peaks ? random_below(seed, 4) * range / 8 : 0;
            for (int r = 0; r < KNAPSACK_ROWS; r++) {
                o->row[r] = correlated ? range - o->cost + random_below(seed, 1 + range / 50)
                                       : random_below(seed, range) - (r == 2 ? range / 3 : 0);
                low[r] = min_i64(low[r], o->row[r]);
                high[r] = max_i64(high[r], o->row[r]);
            }
        }
        for (int r = 0; r < KNAPSACK_ROWS; r++) {
            least[r] += count * low[r];
            most[r] += count * high[r];
        }
    }
    for (int r = 0; r < KNAPSACK_ROWS; r++)
        in->problem.cap[r] = least[r] - range / 4 + random_below(seed, most[r] - least[r] + range / 2 + 1);
}

/* All counts of all groups, one option at a time. */
static void brute_force(const struct knapsack *p, int group, int option, int left, int64_t cost, const int64_t *sum,
                        int64_t peak, int64_t *best)
{
    if (group == p->group_count) {
        int64_t excess = 0;
        for (int r = 0; r < p->row_count; r++) {
            int64_t over = sum[r] + (r == 0 ? peak : 0) - p->cap[r];
            bool free = p->excess_cost > 0 && r >= p->excess_first;
            if (over > 0 && !free)
                return;
            excess = free ? max_i64(excess, over) : excess;
        }
        *best = min_i64(*best, cost + excess * p->excess_cost);
        return;
    }
    const struct knapsack_option *o = &p->groups[group].options[option];
    bool last = option + 1 == p->groups[group].option_count;
    for (int take = last ? left : 0; take <= left; take++) {
        int64_t next[KNAPSACK_ROWS];
        for (int r = 0; r < KNAPSACK_ROWS; r++)
            next[r] = sum[r] + take * o->row[r];
        int64_t above = take > 0 ? max_i64(peak, o->peak) : peak;
        int following = group + 1 < p->group_count ? p->groups[group + 1].count : 0;
        if (last)
            brute_force(p, group + 1, 0, following, cost + take * o->cost, next, above, best);
        else
            brute_force(p, group, option + 1, left - take, cost + take * o->cost, next, above, best);
    }
}

static int64_t brute_optimum(const struct knapsack *p)
{
    int64_t best = INT64_MAX, zero[KNAPSACK_ROWS] = { 0 };
    brute_force(p, 0, 0, p->groups[0].count, 0, zero, 0, &best);
    return best;
}

/* The counts that came back must cost what was said and keep the caps. */
static void check_counts(const struct knapsack *p, const struct knapsack_result *result)
{
    int64_t cost = 0, sum[KNAPSACK_ROWS] = { 0 }, peak = 0, excess = 0;
    for (int g = 0, at = 0; g < p->group_count; g++) {
        int taken = 0;
        for (int i = 0; i < p->groups[g].option_count; i++, at++) {
            const struct knapsack_option *o = &p->groups[g].options[i];
            ck_assert_int_ge(result->counts[at], 0);
            taken += result->counts[at];
            cost += result->counts[at] * o->cost;
            peak = result->counts[at] > 0 ? max_i64(peak, o->peak) : peak;
            for (int r = 0; r < p->row_count; r++)
                sum[r] += result->counts[at] * o->row[r];
        }
        ck_assert_int_eq(taken, p->groups[g].count);
    }
    for (int r = 0; r < p->row_count; r++) {
        if (p->excess_cost > 0 && r >= p->excess_first)
            excess = max_i64(excess, sum[r] - p->cap[r]);
        else
            ck_assert_int_le(sum[r] + (r == 0 ? peak : 0), p->cap[r]);
    }
    ck_assert_int_eq(cost + excess * p->excess_cost, result->cost);
}

START_TEST(knapsack_equals_brute_force)
{
    uint64_t seed = 1;
    int infeasible = 0;
    static const int64_t ranges[] = { 10, 1000, 1000000, INT64_C(1000000000000) };
    for (int n = 0; n < 4000; n++) {
        struct instance in;
        struct error err = { 0 };
        int counts[MAX_GROUPS * MAX_OPTIONS];
        instance_draw(&in, &seed, ranges[n % 4], n % 3 == 0, n % 5 == 0);
        if (n % 7 < 3 && in.problem.row_count > 1) {
            in.problem.excess_first = 1 + (int)random_below(&seed, in.problem.row_count - 1);
            in.problem.excess_cost = 1 + random_below(&seed, 3);
        }
        struct knapsack_result result = { .counts = counts };
        int64_t want = brute_optimum(&in.problem);
        ck_assert_msg(knapsack_solve(&in.problem, &result, &err), "%s", err.message);
        ck_assert_msg(result.cost == want, "instance %d: got %lld, brute force %lld", n, (long long)result.cost,
                      (long long)want);
        ck_assert_int_eq(result.status, want == INT64_MAX ? KNAPSACK_INFEASIBLE : KNAPSACK_OPTIMAL);
        if (want == INT64_MAX)
            infeasible++;
        else
            check_counts(&in.problem, &result);
    }
    ck_assert_int_gt(infeasible, 100);
}
END_TEST

START_TEST(knapsack_equals_glpk)
{
    uint64_t seed = 77;
    int compared = 0;
    for (int n = 0; n < 1000; n++) {
        struct instance in;
        struct error err = { 0 };
        int ours[MAX_GROUPS * MAX_OPTIONS], theirs[MAX_GROUPS * MAX_OPTIONS];
        instance_draw(&in, &seed, n % 2 ? 100 : 100000, n % 3 == 0, n % 5 == 0);
        if (n % 7 < 3 && in.problem.row_count > 1) {
            in.problem.excess_first = 1 + (int)random_below(&seed, in.problem.row_count - 1);
            in.problem.excess_cost = 1 + random_below(&seed, 3);
        }
        in.groups[0].count *= 1 + n % 20;
        for (int r = 0; r < KNAPSACK_ROWS; r++)
            in.problem.cap[r] *= 1 + n % 20;
        struct knapsack_result a = { .counts = ours }, b = { .counts = theirs };
        ck_assert_msg(knapsack_solve(&in.problem, &a, &err), "%s", err.message);
        ck_assert_msg(ilp_knapsack(&in.problem, 10000, &b, &err), "%s", err.message);
        if (b.status == KNAPSACK_LIMIT)
            continue;
        compared++;
        if (b.status == KNAPSACK_OPTIMAL)
            check_counts(&in.problem, &b);
        ck_assert_msg(a.status == b.status && a.cost == b.cost, "instance %d: got %lld, GLPK %lld", n,
                      (long long)a.cost, (long long)b.cost);
    }
    ck_assert_int_gt(compared, 950);
}
END_TEST

/* An end before the proof: what is found fits, and the bound does not lie above the optimum. */
START_TEST(knapsack_limit_keeps_a_bound)
{
    uint64_t seed = 5;
    int limited = 0;
    for (int n = 0; n < 1500; n++) {
        struct instance in;
        struct error err = { 0 };
        int counts[MAX_GROUPS * MAX_OPTIONS];
        instance_draw(&in, &seed, 1000000, n % 2 == 0, true);
        in.problem.node_limit = 1 + n % 3;
        struct knapsack_result result = { .counts = counts };
        ck_assert(knapsack_solve(&in.problem, &result, &err));
        int64_t want = brute_optimum(&in.problem);
        ck_assert_int_le(result.bound, want);
        ck_assert_int_ge(result.cost, want);
        if (result.cost < INT64_MAX)
            check_counts(&in.problem, &result);
        limited += result.status == KNAPSACK_LIMIT;
    }
    ck_assert_int_gt(limited, 50);
}
END_TEST

/* Stages that were hard once are solved well within the search's node limit, and GLPK finds nothing cheaper. */
START_TEST(hard_stages_are_solved)
{
    for (size_t n = 0; n < sizeof hard_knapsacks / sizeof *hard_knapsacks; n++) {
        const struct hard_knapsack *hard = &hard_knapsacks[n];
        struct knapsack_group groups[HARD_GROUPS];
        int ours[HARD_GROUPS * HARD_OPTIONS], theirs[HARD_GROUPS * HARD_OPTIONS];
        struct knapsack_result a = { .counts = ours }, b = { .counts = theirs };
        struct error err = { 0 };
        struct knapsack problem = { .group_count = hard->group_count,
                                    .row_count = KNAPSACK_ROWS,
                                    .groups = groups,
                                    .excess_cost = hard->excess_cost,
                                    .excess_first = 1,
                                    .node_limit = 3000,
                                    .tie_bits = 16 };
        memcpy(problem.cap, hard->cap, sizeof problem.cap);
        for (int g = 0; g < hard->group_count; g++)
            groups[g] = (struct knapsack_group){ hard->count[g], HARD_OPTIONS, hard->options[g] };
        ck_assert_msg(knapsack_solve(&problem, &a, &err), "%s", err.message);
        ck_assert_msg(a.status != KNAPSACK_LIMIT, "%s: %lld nodes", hard->name, (long long)a.nodes);
        if (a.status == KNAPSACK_OPTIMAL)
            check_counts(&problem, &a);
        ck_assert_msg(ilp_knapsack(&problem, 2000, &b, &err), "%s", err.message);
        if (b.cost < INT64_MAX)
            ck_assert_msg(a.cost >> problem.tie_bits <= b.cost >> problem.tie_bits, "%s: %lld, GLPK %lld", hard->name,
                          (long long)a.cost, (long long)b.cost);
        if (b.status == KNAPSACK_OPTIMAL) /* to GLPK's nine digits */
            ck_assert_msg((double)a.cost >= (double)b.cost * (1 - 1e-8), "%s: %lld, GLPK %lld", hard->name,
                          (long long)a.cost, (long long)b.cost);
    }
}
END_TEST

static Suite *knapsack_suite(void)
{
    Suite *suite = suite_create("knapsack");
    CHECK_ADD(suite, knapsack_equals_brute_force);
    CHECK_ADD(suite, knapsack_equals_glpk);
    CHECK_ADD(suite, knapsack_limit_keeps_a_bound);
    CHECK_ADD(suite, hard_stages_are_solved);
    return suite;
}

/* ---- the cut into stages ---- */

START_TEST(partition_equals_brute_force)
{
    uint64_t seed = 11;
    int feasible = 0, infeasible = 0;
    for (int n = 0; n < 1200; n++) {
        struct toy toy;
        struct error err = { 0 };
        struct partition_result result;
        toy_draw(&toy, &seed);
        ck_assert_msg(partition_solve(&toy.problem, &toy.arena, &result, &err), "%s", err.message);
        int64_t want = enumerate_plans(&toy.problem, NULL);
        ck_assert_int_eq(result.feasible, want < INT64_MAX);
        ck_assert_msg(result.bound_ns == want, "instance %d: got %lld, brute force %lld", n, (long long)result.bound_ns,
                      (long long)want);
        ck_assert(want == INT64_MAX || partition_quick_bound(&toy.problem) <= want);
        for (int i = 0; i < result.plan_count; i++) {
            ck_assert_int_eq(partition_evaluate(&toy.problem, &result.plans[i]), result.plans[i].step_ns);
            ck_assert(i == 0 || result.plans[i].step_ns >= result.plans[i - 1].step_ns);
        }
        if (want < INT64_MAX) {
            ck_assert_int_eq(result.plans[0].step_ns, want);
            feasible++;
            toy.problem.below_ns = want; /* nothing is strictly shorter */
            ck_assert(partition_solve(&toy.problem, &toy.arena, &result, &err));
            ck_assert(!result.feasible && result.bound_ns == want);
        } else {
            infeasible++;
        }
        arena_free(&toy.arena);
    }
    ck_assert_int_gt(feasible, 300);
    ck_assert_int_gt(infeasible, 100);
}
END_TEST

/* The same cuts by every method that can solve a stage. */
START_TEST(solvers_agree)
{
    uint64_t seed = 41;
    for (int n = 0; n < 200; n++) {
        struct toy toy;
        struct error err = { 0 };
        int64_t want = 0;
        toy_draw(&toy, &seed);
        for (int i = 0; solvers[i]; i++) {
            struct partition_result result;
            toy.problem.solver = solvers[i];
            ck_assert_msg(partition_solve(&toy.problem, &toy.arena, &result, &err), "%s: %s", solvers[i]->name,
                          err.message);
            if (i == 0)
                want = result.bound_ns;
            ck_assert_msg(result.bound_ns == want, "instance %d: %s got %lld, %s %lld", n, solvers[i]->name,
                          (long long)result.bound_ns, solvers[0]->name, (long long)want);
        }
        arena_free(&toy.arena);
    }
}
END_TEST

static int64_t toy_optimum(struct toy *toy)
{
    struct partition_result result;
    struct error err = { 0 };
    toy->problem.below_ns = INT64_MAX;
    ck_assert(partition_solve(&toy->problem, &toy->arena, &result, &err));
    return result.feasible ? result.plans[0].step_ns : INT64_MAX;
}

/* What can only help never makes the optimum worse; what is scaled scales it. */
START_TEST(partition_is_monotone)
{
    uint64_t seed = 23;
    for (int n = 0; n < 300; n++) {
        struct toy toy;
        toy_draw(&toy, &seed);
        int64_t before = toy_optimum(&toy);
        toy.problem.capacity_bytes += toy.problem.capacity_bytes / 3 + 1;
        int64_t roomier = toy_optimum(&toy);
        ck_assert_int_le(roomier, before);
        int strategies = toy.table.strategy_count;
        for (int i = 0; i < CHAIN_CLASSES * strategies; i++) { /* twice the bandwidth between data-parallel ranks */
            toy.prices[i].gather_forward_ns /= 2;
            toy.prices[i].reduce_ns /= 2;
            toy.prices[i].reduce_last_ns /= 2;
        }
        int64_t faster = toy_optimum(&toy);
        ck_assert_int_le(faster, roomier);
        struct layer_price fewer[CHAIN_CLASSES * CHAIN_STRATEGIES];
        for (int c = 0; c < CHAIN_CLASSES; c++)
            memcpy(&fewer[c * (strategies - 1)], &toy.prices[c * strategies], (size_t)(strategies - 1) * sizeof *fewer);
        if (strategies > 1) {
            toy.table.prices = fewer;
            toy.table.strategy_count = strategies - 1;
            ck_assert_int_ge(toy_optimum(&toy), faster);
            toy.table.prices = toy.prices;
            toy.table.strategy_count = strategies;
        }
        arena_free(&toy.arena);
    }
}
END_TEST

static Suite *partition_suite(void)
{
    Suite *suite = suite_create("partition");
    CHECK_ADD(suite, partition_equals_brute_force);
    CHECK_ADD(suite, partition_is_monotone);
    CHECK_ADD(suite, solvers_agree);
    return suite;
}

/* ---- the whole search ---- */

/* Pruning by bounds loses nothing: with and without it the formula's optimum is the same, and the bound is reached. */
START_TEST(pruning_keeps_the_optimum)
{
    static const char *const forms[] = { "1x2:toy", "1x4:toy", "2x2:toy" };
    for (int n = 0; n < 6; n++) {
        struct world world = world_open(forms[n % 3], n < 3 ? 80000000000 : 600000 + 2200000, 1);
        struct search_options options = { .space = space_default(8, 0, DTYPE_BF16), .top = 1, .rank_count = 8 };
        struct search_result *pruned = run_search(&world, &options);
        options.keep_all = true;
        struct search_result *all = run_search(&world, &options);
        ck_assert_int_eq(pruned->feasible, all->feasible);
        if (pruned->feasible) {
            ck_assert_int_eq(pruned->certificate.bound_ns, all->certificate.bound_ns);
            ck_assert_msg(pruned->certificate.proof_gap == 0, "%s, run %d: gap %g", forms[n % 3], n,
                          pruned->certificate.proof_gap);
        }
        ck_assert_int_eq(all->certificate.pruned_bound, 0);
        search_result_free(pruned);
        search_result_free(all);
        world_close(&world);
    }
}
END_TEST

/* Equal inputs give equal plans; the plan is legal, fits, and its file says the same. */
START_TEST(search_is_deterministic_and_legal)
{
    struct world world = world_open("2x4:toy", 80000000000, 3);
    struct search_options options = { .space = space_default(16, 0, DTYPE_BF16), .top = 3 };
    struct search_result *a = run_search(&world, &options), *b = run_search(&world, &options);
    ck_assert(a->feasible && a->plan_count >= 1);
    ck_assert_int_eq(a->plan_count, b->plan_count);
    for (int i = 0; i < a->plan_count; i++) {
        const struct plan *plan = a->plans[i].plan;
        struct graph *graph = NULL;
        struct error err = { 0 };
        ck_assert(plan_hash(plan) == plan_hash(b->plans[i].plan));
        ck_assert(graph_build(&graph, world.model, plan->batch, plan->sequence, plan->vocab_multiple, &err));
        ck_assert_msg(plan_check(plan, graph, &err), "%s", err.message);
        ck_assert_int_eq(plan->rank_count, 8);
        ck_assert(a->plans[i].estimate->prediction.fits);
        ck_assert(i == 0 || a->plans[i].estimate->prediction.step_ns >= a->plans[i - 1].estimate->prediction.step_ns);
        graph_free(graph);
    }
    search_result_free(a);
    search_result_free(b);
    world_close(&world);
}
END_TEST

/* The formula may mistake one family of plans for the best; the judge must have seen the others: what a restriction to
 * any number of stages finds, the free search finds too, but for what the judge's few looks leave. */
START_TEST(restrictions_do_not_help)
{
    for (int n = 0; n < 4; n++) {
        struct world world = world_open(n % 2 ? "4x2:toy" : "2x4:toy", n < 2 ? 80000000000 : 6000000, 3);
        struct search_options options = { .space = space_default(16, 0, DTYPE_BF16), .top = 1, .no_advice = true };
        struct search_result *whole = run_search(&world, &options);
        ck_assert(whole->feasible);
        int64_t found = whole->plans[0].estimate->prediction.step_ns;
        for (int stages = 1; stages <= 8; stages *= 2) {
            options.space.pipeline = (struct allowed){ 1, { stages } };
            struct search_result *part = run_search(&world, &options);
            int64_t step = part->feasible ? part->plans[0].estimate->prediction.step_ns : INT64_MAX;
            ck_assert_msg(found <= step + step / 50, "%d stages: %lld, all: %lld", stages, (long long)step,
                          (long long)found);
            search_result_free(part);
        }
        search_result_free(whole);
        world_close(&world);
    }
}
END_TEST

/* ---- experts ---- */

static struct world world_of_experts(const char *form, long long memory_bytes)
{
    static const char text[] =
        "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"experts\", \"sequence\": 64, \"hidden\": 64, "
        "\"vocab_size\": 500, \"layers\": [{\"kind\": \"embedding\"}, {\"repeat\": 2, \"layers\": ["
        "{\"kind\": \"attention\", \"heads\": 4, \"norm\": \"rms_norm\"}, {\"kind\": \"moe\", \"experts\": 12, "
        "\"choices\": 2, \"inner\": 256, \"activation\": \"gelu\", \"norm\": \"rms_norm\"}]}, "
        "{\"kind\": \"head\", \"norm\": \"rms_norm\"}, {\"kind\": \"loss\"}]}";
    struct world world = world_open(form, memory_bytes, 1);
    struct error err = { 0 };
    model_free(world.model);
    ck_assert_msg(model_read(&world.model, "experts", text, strlen(text), NULL, &err), "%s", err.message);
    return world;
}

/* Of 8 data-parallel ranks 1, 2 or 4 can share out 12 experts; each degree stands beside every other choice, and a
 * rank's experts are so many fewer. */
START_TEST(expert_degrees_are_listed)
{
    struct world world = world_of_experts("1x8:toy", 80000000000);
    struct space space = space_default(16, 0, DTYPE_BF16);
    struct workbench bench;
    struct config *configs = NULL;
    struct arena arena = { 0 };
    struct error err = { 0 };
    int count = 0, of_degree[9] = { 0 };
    int64_t bytes[9] = { 0 };
    space.pipeline = space.tensor = (struct allowed){ 1, { 1 } };
    space.zero = (struct allowed){ 1, { 0 } };
    ck_assert(workbench_open(&bench, world.model, &world.facts, &space, &err));
    ck_assert(space_configs(&configs, &count, &arena, &space, bench.graph, world.cluster, &err));
    for (int i = 0; i < count; i++) {
        const struct price_table *table = NULL;
        int degree = mesh_expert(&configs[i].mesh), moe = bench.chain.class_of[2];
        ck_assert_int_eq(config_data(&configs[i]), 8);
        ck_assert(workbench_table(&bench, &configs[i], false, &table, &err));
        bytes[degree] = price_at(table, moe, 0)->weight_bytes;
        of_degree[degree]++;
    }
    ck_assert_int_eq(of_degree[1] + of_degree[2] + of_degree[4], count);
    ck_assert(of_degree[1] > 0 && of_degree[1] == of_degree[2] && of_degree[1] == of_degree[4]);
    /* weight, accumulator and state: 2 + 4 + 12 bytes of the experts' two matrices */
    ck_assert_int_eq(bytes[1] - bytes[2], 12 / 2 * 2 * 64 * 256 * 18);
    ck_assert_int_eq(bytes[2] - bytes[4], 12 / 4 * 2 * 64 * 256 * 18);
    workbench_close(&bench);
    arena_free(&arena);
    world_close(&world);
}
END_TEST

/* What a fixed degree finds, the free search finds too, where experts hardly fit and where they do. */
START_TEST(expert_degrees_are_searched)
{
    for (int n = 0; n < 2; n++) {
        struct world world = world_of_experts("2x4:toy", n ? 9000000 : 80000000000);
        struct search_options options = { .space = space_default(16, 0, DTYPE_BF16), .top = 1, .no_advice = true };
        struct search_result *whole = run_search(&world, &options);
        ck_assert(whole->feasible);
        int64_t found = whole->plans[0].estimate->prediction.step_ns;
        for (int degree = 1; degree <= 4; degree *= 2) {
            options.space.expert = (struct allowed){ 1, { degree } };
            struct search_result *part = run_search(&world, &options);
            int64_t step = part->feasible ? part->plans[0].estimate->prediction.step_ns : INT64_MAX;
            ck_assert_msg(found <= step + step / 50, "ep %d: %lld, all: %lld", degree, (long long)step,
                          (long long)found);
            for (int i = 0; i < part->plan_count; i++) {
                const struct plan *plan = part->plans[i].plan;
                int ranks = 1;
                for (int a = 0; a < plan->atom_count; a++)
                    ranks *= plan->layers[2].dim[a] == DIM_ep ? plan->stages[0].atom[a] : 1;
                ck_assert_int_eq(ranks, degree);
            }
            search_result_free(part);
        }
        search_result_free(whole);
        world_close(&world);
    }
}
END_TEST

START_TEST(expert_degrees_that_cannot_be_are_refused)
{
    struct world world = world_of_experts("2x4:toy", 80000000000);
    struct search_options options = { .space = space_default(16, 0, DTYPE_BF16), .top = 1 };
    struct search_result *result = NULL;
    struct error err = { 0 };
    options.space.expert = (struct allowed){ 1, { 8 } };
    ck_assert(!search_run(&result, world.model, &world.facts, &options, &err));
    ck_assert_int_eq(err.kind, ERROR_INPUT);
    ck_assert_msg(strstr(err.message, "ep must divide the data ranks and the experts") != NULL, "%s", err.message);
    struct uniform uniform = uniform_unset();
    struct plan *plan = NULL;
    struct space space = space_default(16, 0, DTYPE_BF16);
    err = (struct error){ 0 };
    uniform.expert = 8;
    ck_assert(!uniform_plan(&plan, &uniform, &space, world.model, &world.facts, &err));
    ck_assert_msg(strstr(err.message, "12 experts in common; expected a divisor of both") != NULL, "%s", err.message);
    err = (struct error){ 0 };
    uniform.expert = 4, uniform.shard_group = 2, uniform.zero = 3;
    ck_assert(!uniform_plan(&plan, &uniform, &space, world.model, &world.facts, &err));
    ck_assert_msg(strstr(err.message, "groups that are a multiple of ep") != NULL, "%s", err.message);
    uniform.shard_group = 4;
    err = (struct error){ 0 };
    ck_assert_msg(uniform_plan(&plan, &uniform, &space, world.model, &world.facts, &err), "%s", err.message);
    ck_assert(plan->stages[0].atom[0] == 2 && plan->stages[0].atom[1] == 4);
    ck_assert(plan->layers[0].dim[0] == DIM_rp && plan->layers[0].dim[1] == DIM_ep);
    plan_free(plan);
    world_close(&world);
}
END_TEST

START_TEST(restrictions_are_kept)
{
    struct world world = world_open("1x4:toy", 80000000000, 2);
    struct search_options options = { .space = space_default(8, 0, DTYPE_BF16), .top = 4 };
    options.space.tensor = (struct allowed){ 1, { 2 } };
    options.space.pipeline = (struct allowed){ 1, { 2 } };
    options.space.zero = (struct allowed){ 1, { 0 } };
    options.space.recompute = (struct allowed){ 1, { RECOMPUTE_FULL } };
    struct search_result *result = run_search(&world, &options);
    ck_assert(result->feasible);
    for (int i = 0; i < result->plan_count; i++) {
        const struct plan *plan = result->plans[i].plan;
        ck_assert_int_eq(plan->stage_count, 2);
        ck_assert_int_eq(plan->stages[0].atom[1], 2);
        for (int l = 0; l < plan->layer_count; l++)
            ck_assert(plan->layers[l].zero == 0 && plan->layers[l].recompute == RECOMPUTE_FULL);
    }
    search_result_free(result);
    options.space.tensor = (struct allowed){ 1, { 3 } };
    struct error err = { 0 };
    ck_assert(!search_run(&result, world.model, &world.facts, &options, &err));
    ck_assert_int_eq(err.kind, ERROR_INPUT);
    ck_assert_msg(strstr(err.message, "--fix") != NULL, "%s", err.message);
    world_close(&world);
}
END_TEST

/* The chosen batch has the most sequences per second of all that were tried, each as a search of its own gives it. */
START_TEST(batch_is_the_best_of_those_tried)
{
    struct world world = world_open("2x2:toy", 80000000000, 2);
    struct search_options options = { .space = space_default(0, 0, DTYPE_BF16), .top = 1 };
    struct search_result *result = NULL;
    struct batch_choice choice;
    struct error err = { 0 };
    ck_assert_msg(search_batch(&result, &choice, world.model, &world.facts, &options, 64, &err), "%s", err.message);
    ck_assert_int_ge(choice.try_count, 5);
    double best = 0;
    for (int i = 0; i < choice.try_count; i++) {
        options.space.batch = choice.tries[i].batch;
        struct search_result *alone = run_search(&world, &options);
        ck_assert_int_eq(choice.tries[i].step_ns, alone->feasible ? alone->plans[0].estimate->prediction.step_ns : 0);
        best = batch_rate(&choice.tries[i]) > best ? batch_rate(&choice.tries[i]) : best;
        search_result_free(alone);
    }
    ck_assert(batch_rate(&choice.tries[choice.best]) * 1.0011 >= best);
    ck_assert_int_eq(result->plans[0].plan->batch, choice.tries[choice.best].batch);
    search_result_free(result);
    ck_assert(!search_batch(&result, &choice, world.model, &world.facts, &options, 0, &err));
    ck_assert_int_eq(err.kind, ERROR_INFEASIBLE);
    world_close(&world);
}
END_TEST

/* Layers with rules of their own keep them, the others theirs; a rule that all layers have is a restriction of all. */
START_TEST(rules_for_layers_are_kept)
{
    struct world world = world_open("2x4:toy", 80000000000, 3);
    struct search_options options = { .space = space_default(16, 0, DTYPE_BF16), .top = 2 };
    options.space.data = (struct allowed){ 1, { 8 } };
    options.space.zero = (struct allowed){ 2, { 0, 1 } };
    options.space.rule_count = 2;
    options.space.rules[0] =
        (struct layer_rule){ .first = 2, .last = 4, .choice = LAYER_ZERO, .allowed = { 1, { 3 } } };
    options.space.rules[1] = (struct layer_rule){
        .first = 0, .last = 2, .choice = LAYER_RECOMPUTE, .allowed = { 1, { RECOMPUTE_SELECTIVE } }
    };
    struct search_result *result = run_search(&world, &options);
    ck_assert(result->feasible);
    for (int i = 0; i < result->plan_count; i++)
        for (int l = 0; l < result->plans[i].plan->layer_count; l++) {
            const struct plan_layer *layer = &result->plans[i].plan->layers[l];
            ck_assert_msg(l >= 2 && l <= 4 ? layer->zero == 3 : layer->zero <= 1, "layer %d: ZeRO %d", l, layer->zero);
            ck_assert_msg((l <= 2) == (layer->recompute == RECOMPUTE_SELECTIVE), "layer %d: recompute %d", l,
                          layer->recompute);
        }
    search_result_free(result);
    options.space.rule_count = 1;
    options.space.rules[0] =
        (struct layer_rule){ .first = 0, .last = 8, .choice = LAYER_ZERO, .allowed = { 1, { 1 } } };
    result = run_search(&world, &options);
    options.space.rule_count = 0;
    options.space.zero = (struct allowed){ 1, { 1 } };
    struct search_result *all = run_search(&world, &options);
    ck_assert_int_eq(result->certificate.bound_ns, all->certificate.bound_ns);
    ck_assert_int_eq(result->plans[0].estimate->prediction.step_ns, all->plans[0].estimate->prediction.step_ns);
    search_result_free(result);
    search_result_free(all);
    options.space.rule_count = 1;
    options.space.rules[0].last = 9;
    struct error err = { 0 };
    ck_assert(!search_run(&result, world.model, &world.facts, &options, &err));
    ck_assert_msg(strstr(err.message, "layers 0 to 8") != NULL, "%s", err.message);
    world_close(&world);
}
END_TEST

/* Schedules beside the searched ones come when they are named, chunks when they are asked for, and then nothing is
 * proven. */
START_TEST(named_schedules_and_chunks)
{
    struct world world = world_open("1x4:toy", 80000000000, 4);
    struct search_options options = { .space = space_default(8, 0, DTYPE_BF16), .top = 3 };
    options.space.pipeline = (struct allowed){ 1, { 2 } };
    for (int s = -1; schedules[s < 0 ? 0 : s]; s++) {
        options.space.schedule = (struct allowed){ s >= 0, { s } };
        for (int chunks = 0; chunks <= 3; chunks++) {
            options.space.interleave = (struct allowed){ chunks > 0, { chunks } };
            bool interleaves = s >= 0 ? schedules[s]->interleaves : chunks > 1;
            bool wrong =
                chunks > 0 && ((chunks > 1) != interleaves || (chunks > 2 && schedules[s < 0 ? 0 : s]->folded));
            if (s >= 0 && wrong)
                continue;
            struct search_result *result = run_search(&world, &options);
            ck_assert(result->feasible);
            for (int i = 0; i < result->plan_count; i++) {
                const struct plan *plan = result->plans[i].plan;
                const struct schedule *schedule = schedules[plan->schedule];
                ck_assert(s >= 0 ? plan->schedule == s : schedule->searched || interleaves);
                ck_assert_int_eq(plan->chunk_count, chunks > 0 ? chunks : interleaves ? 2 : 1);
                if (!schedule->searched)
                    ck_assert_int_eq(result->certificate.bound_ns, 0);
                else if (s < 0)
                    ck_assert_int_gt(result->certificate.bound_ns, 0);
            }
            search_result_free(result);
        }
    }
    world_close(&world);
}
END_TEST

START_TEST(nothing_fits)
{
    struct world world = world_open("1x2:toy", 150000, 2);
    struct search_options options = { .space = space_default(4, 0, DTYPE_BF16), .top = 1 };
    struct search_result *result = run_search(&world, &options);
    struct error err = { 0 };
    ck_assert(!result->feasible && result->plan_count == 0);
    ck_assert_ptr_nonnull(result->nearest.plan);
    ck_assert_int_gt(result->nearest.needed_bytes, result->nearest.available_bytes);
    ck_assert(!search_infeasible(result, &options.space, &err));
    ck_assert_int_eq(err.kind, ERROR_INFEASIBLE);
    ck_assert_msg(strstr(err.message, "missing") != NULL, "%s", err.message);
    int64_t needed = result->nearest.needed_bytes;
    world_close(&world);
    search_result_free(result);
    world = world_open("1x2:toy", (long long)needed * 2,
                       2); /* the hint holds: with the memory it asks for there is a plan */
    result = run_search(&world, &options);
    ck_assert_int_le(needed, available_bytes(&world.facts));
    ck_assert(result->feasible);
    search_result_free(result);
    world_close(&world);
}
END_TEST

/* A clock that ticks whenever it is asked. */
static int64_t tick(void *self)
{
    return ++*(int64_t *)self;
}

/* Wherever the time ends: a plan with a bound that holds, or the advice to give more time; never that nothing fits. */
START_TEST(time_ends_anywhere)
{
    struct world world = world_open("2x2:toy", 80000000000, 2);
    struct search_options options = { .space = space_default(8, 0, DTYPE_BF16), .top = 1 };
    struct search_result *whole = run_search(&world, &options);
    int answers = 0, failures = 0;
    for (int64_t limit = 1; limit < 4000; limit += 1 + limit / 4) {
        int64_t clock = 0;
        struct search_result *result = NULL;
        struct error err = { 0 };
        options.time_limit_ns = limit;
        options.calls = (struct search_calls){ .self = &clock, .now_ns = tick };
        if (search_run(&result, world.model, &world.facts, &options, &err)) {
            ck_assert(result->feasible && result->plan_count == 1);
            ck_assert_int_le(result->certificate.bound_ns, whole->certificate.bound_ns);
            ck_assert_int_eq(result->certificate.complete, clock <= limit); /* the start took one tick */
            answers++;
        } else {
            ck_assert_int_eq(err.kind, ERROR_ENVIRONMENT);
            ck_assert_msg(strstr(err.message, "--time-limit") != NULL, "%s", err.message);
            failures++;
        }
        search_result_free(result);
    }
    ck_assert_int_gt(answers, 3);
    ck_assert_int_gt(failures, 3);
    search_result_free(whole);
    world_close(&world);
}
END_TEST

static void backwards(void *self, int count, void (*body)(void *context, int index), void *context)
{
    *(int *)self += count;
    for (int i = count - 1; i >= 0; i--)
        body(context, i);
}

/* Pieces of work may be done in any order, by anyone. */
START_TEST(order_of_work_changes_nothing)
{
    struct world world = world_open("2x4:toy", 3000000, 4);
    struct search_options options = { .space = space_default(16, 0, DTYPE_BF16), .top = 3 };
    struct search_result *one = run_search(&world, &options), *other = NULL;
    int pieces = 0;
    options.calls = (struct search_calls){ .self = &pieces, .parallel_for = backwards };
    other = run_search(&world, &options);
    ck_assert_int_gt(pieces, 8);
    ck_assert_int_eq(one->plan_count, other->plan_count);
    for (int i = 0; i < one->plan_count; i++) {
        ck_assert_uint_eq(plan_hash(one->plans[i].plan), plan_hash(other->plans[i].plan));
        ck_assert_int_eq(one->plans[i].estimate->prediction.step_ns, other->plans[i].estimate->prediction.step_ns);
    }
    ck_assert_int_eq(one->certificate.bound_ns, other->certificate.bound_ns);
    ck_assert_int_eq(one->certificate.solved, other->certificate.solved);
    ck_assert_int_eq(one->certificate.judged, other->certificate.judged);
    search_result_free(one);
    search_result_free(other);
    world_close(&world);
}
END_TEST

/* What plan_check() would refuse is not proposed. */
START_TEST(micro_batches_are_bounded)
{
    struct world world = world_open("1x2:toy", 80000000000, 1);
    struct space space = space_default(INT64_C(4) * PLAN_MAX_MICRO_BATCHES, 0, DTYPE_BF16);
    struct graph *graph = NULL;
    struct config *configs = NULL;
    struct arena arena = { 0 };
    struct error err = { 0 };
    int count = 0, most = 0;
    ck_assert_msg(graph_build(&graph, world.model, space.batch, 0, 128, &err), "%s", err.message);
    ck_assert(space_configs(&configs, &count, &arena, &space, graph, world.cluster, &err));
    for (int i = 0; i < count; i++)
        most = (int)max_i64(most, configs[i].micro_batch_count);
    ck_assert_int_eq(most, PLAN_MAX_MICRO_BATCHES);
    arena_free(&arena);
    graph_free(graph);
    world_close(&world);
}
END_TEST

/* What the answer says to type has a plan, and that plan fits by its own layout. */
START_TEST(advice_holds)
{
    int advised_count = 0;
    for (long long memory = 150000; memory < 3000000; memory = memory * 3 / 2) {
        struct world world = world_open("1x2:toy", memory, 2);
        struct search_options options = { .space = space_default(8, 0, DTYPE_BF16), .top = 1 };
        struct search_result *result = run_search(&world, &options);
        const struct advice *more = &result->nearest.advice[ADVICE_DEVICES];
        const struct plan *advised = more->plan;
        struct error err = { 0 };
        if (!result->feasible)
            ck_assert(!search_infeasible(result, &options.space, &err));
        if (advised) {
            char cluster[64];
            struct graph *graph = NULL;
            struct estimate *estimate = NULL;
            snprintf(cluster, sizeof cluster, "%lldx2:toy", (long long)(more->value / more->now));
            ck_assert_msg(strstr(err.message, cluster) != NULL, "%s", err.message);
            struct world larger = world_open(cluster, memory, 2);
            ck_assert_int_eq(advised->rank_count, larger.cluster->device_count);
            ck_assert(graph_build(&graph, larger.model, advised->batch, 0, advised->vocab_multiple, &err));
            ck_assert_msg(estimate_plan(&estimate, graph, advised, &larger.facts, &err), "%s", err.message);
            ck_assert(estimate->prediction.fits);
            estimate_free(estimate);
            graph_free(graph);
            world_close(&larger);
            advised_count++;
        }
        search_result_free(result);
        world_close(&world);
    }
    ck_assert_int_gt(advised_count, 0);
}
END_TEST

/* The value that half, a quarter, ... of what is so now must have for the whole space to hold a plan; 0: none. */
static int64_t first_that_fits(const struct world *world, const struct search_options *options, enum advice_kind kind,
                               int64_t now)
{
    for (int64_t value = now / 2; value >= 1; value /= 2) {
        struct search_options o = *options;
        struct search_result *result = NULL;
        struct error err = { 0 };
        o.no_advice = true;
        if (kind == ADVICE_BATCH)
            o.space.batch = value;
        else if (kind == ADVICE_SEQUENCE)
            o.space.sequence = value;
        else
            o.space.micro = (struct allowed){ 1, { value } };
        bool found = search_run(&result, world->model, &world->facts, &o, &err) && result->feasible;
        search_result_free(result);
        if (found)
            return value;
    }
    return 0;
}

/* A smaller batch, micro-batch or sequence is advised where and only where the whole space has a plan for it, the
 * largest such; that plan fits, and the message says what to type. */
START_TEST(smaller_jobs_are_advised)
{
    static const char *const typed[] = {
        [ADVICE_BATCH] = "--batch %lld:", [ADVICE_MICRO] = "--fix micro-batch=%lld:", [ADVICE_SEQUENCE] = "--seq %lld:"
    };
    int found[ADVICE_DEVICES] = { 0 }, missed[ADVICE_DEVICES] = { 0 };
    long long memory = 200000;
    for (int i = 0; memory < 6000000; memory += i++ % 2 ? memory / 6 : 0) {
        struct world world = world_open("1x2:toy", memory, 2);
        struct search_options options = { .space = space_default(8, 0, DTYPE_BF16), .top = 1 };
        if (i % 2) { /* restricted, so that batch and micro-batch matter */
            options.space.micro = (struct allowed){ 1, { 4 } };
            options.space.recompute = (struct allowed){ 1, { RECOMPUTE_NONE } };
            options.space.pipeline = (struct allowed){ 1, { 2 } };
        }
        struct search_result *result = run_search(&world, &options);
        struct error err = { 0 };
        if (!result->feasible)
            ck_assert(!search_infeasible(result, &options.space, &err));
        for (int kind = 0; kind < ADVICE_DEVICES && !result->feasible; kind++) {
            const struct advice *advice = &result->nearest.advice[kind];
            struct graph *graph = NULL;
            struct estimate *estimate = NULL;
            struct error why = { 0 };
            char text[64];
            ck_assert_int_eq(advice->value, first_that_fits(&world, &options, (enum advice_kind)kind, advice->now));
            missed[kind] += advice->now > 0 && !advice->plan;
            if (!advice->plan)
                continue;
            found[kind]++;
            snprintf(text, sizeof text, typed[kind], (long long)advice->value);
            ck_assert_msg(strstr(err.message, text) != NULL, "%s lacks %s", err.message, text);
            ck_assert(graph_build(&graph, world.model, advice->plan->batch, advice->plan->sequence,
                                  advice->plan->vocab_multiple, &why));
            ck_assert_msg(estimate_plan(&estimate, graph, advice->plan, &world.facts, &why), "%s", why.message);
            ck_assert(estimate->prediction.fits);
            estimate_free(estimate);
            graph_free(graph);
        }
        search_result_free(result);
        world_close(&world);
    }
    for (int kind = 0; kind < ADVICE_DEVICES; kind++)
        ck_assert_msg(found[kind] > 0 && missed[kind] > 0, "%s: %d, %d", advice_names[kind], found[kind], missed[kind]);
}
END_TEST

/* Few micro-batches already need all the memory: the promise is the full program's arena. Time agrees within the
 * pipeline's means. */
START_TEST(steady_estimate_promises_the_arena)
{
    struct world world = world_open("2x4:toy", 80000000000, 3);
    uint64_t seed = 99;
    int compared = 0;
    for (int n = 0; n < 60; n++) {
        struct space space = space_default(32, 0, DTYPE_BF16);
        struct uniform u = uniform_unset();
        struct plan *plan = NULL;
        struct error err = { 0 };
        u.pipeline = 1 << random_below(&seed, 3);
        u.tensor = 1 << random_below(&seed, 2);
        u.zero = (int)random_below(&seed, 4);
        u.recompute = random_below(&seed, 2) ? RECOMPUTE_FULL : RECOMPUTE_NONE;
        u.schedule = (int)random_below(&seed, 2);
        u.micro = 1 << random_below(&seed, 2);
        space.clip_norm = n % 2;
        ck_assert_msg(uniform_plan(&plan, &u, &space, world.model, &world.facts, &err), "%s", err.message);
        struct workbench bench;
        space.zero = (struct allowed){ 1, { u.zero } };
        space.recompute = (struct allowed){ 1, { u.recompute } };
        ck_assert(workbench_open(&bench, world.model, &world.facts, &space, &err));
        struct config config = { .stages = plan->stage_count,
                                 .schedule = u.schedule,
                                 .prefetch = 1,
                                 .micro_batch_count = plan->micro_batch_count,
                                 .micro = u.micro,
                                 .mesh = mesh_none() };
        mesh_add(&config.mesh, plan->stages[0].atom[0], DIM_dp);
        mesh_add(&config.mesh, u.tensor, DIM_tp);
        const struct price_table *table = NULL;
        struct graph *graph = NULL;
        struct estimate *few = NULL, *all = NULL;
        ck_assert(workbench_table(&bench, &config, false, &table, &err) && table);
        ck_assert(graph_build(&graph, world.model, 32, 0, plan->vocab_multiple, &err));
        for (int l = 0; l < plan->layer_count && config_data(&config) == 1; l++)
            plan->layers[l].zero = table->strategies[0].layer.zero;
        ck_assert_msg(estimate_plan(&all, graph, plan, &world.facts, &err), "%s", err.message);
        ck_assert_msg(estimate_plan_steady(&few, world.model, graph, plan, &bench.chain, table, &world.facts, &err),
                      "%s", err.message);
        for (int k = 0; k < plan->stage_count; k++) {
            int64_t arena = all->prediction.peak_bytes[k], promised = few->prediction.peak_bytes[k];
            ck_assert_msg(promised >= arena && promised <= arena + arena / 50,
                          "stage %d: promised %lld, arena %lld (pp %d tp %d zero %d recompute %d %s)", k,
                          (long long)promised, (long long)arena, u.pipeline, u.tensor, u.zero, u.recompute,
                          schedules[u.schedule]->name);
        }
        int64_t sum = 0;
        for (int i = 0; i < TIME_KIND_COUNT; i++)
            sum += few->prediction.breakdown_ns[i];
        ck_assert_int_eq(sum, few->prediction.step_ns);
        compared += few->micro_batches_simulated < all->micro_batches_simulated;
        estimate_free(few);
        estimate_free(all);
        graph_free(graph);
        workbench_close(&bench);
        plan_free(plan);
    }
    ck_assert_int_gt(compared, 10);
    world_close(&world);
}
END_TEST

/* The same where steps run into each other: packing varies more. */
START_TEST(steady_estimate_of_asynchronous_schedules)
{
    static const char *const names[] = { "pipedream", "pipedream-2bw" };
    struct world world = world_of("1x4:toy", 80000000000, 2, false);
    for (int n = 0; n < 8; n++) {
        int micros = 132 + 20 * n;
        struct space space = space_default(micros, 0, DTYPE_BF16);
        struct uniform u = uniform_unset();
        struct plan *plan = NULL;
        struct error err = { 0 };
        u.pipeline = 1 << (1 + n % 2);
        u.micro = 1;
        u.tensor = 1;
        u.schedule = schedule_find(names[n / 2 % 2]);
        u.zero = 0;
        u.recompute = RECOMPUTE_NONE;
        space.zero = (struct allowed){ 1, { 0 } };
        space.recompute = (struct allowed){ 1, { RECOMPUTE_NONE } };
        ck_assert_msg(uniform_plan(&plan, &u, &space, world.model, &world.facts, &err), "%s", err.message);
        struct workbench bench;
        ck_assert(workbench_open(&bench, world.model, &world.facts, &space, &err));
        struct config config = { .stages = plan->stage_count,
                                 .schedule = u.schedule,
                                 .prefetch = 1,
                                 .micro_batch_count = plan->micro_batch_count,
                                 .micro = u.micro,
                                 .mesh = mesh_none() };
        mesh_add(&config.mesh, plan->stages[0].atom[0], DIM_dp);
        mesh_add(&config.mesh, 1, DIM_tp);
        const struct price_table *table = NULL;
        struct graph *graph = NULL;
        struct estimate *few = NULL, *all = NULL;
        ck_assert(workbench_table(&bench, &config, false, &table, &err) && table);
        ck_assert(graph_build(&graph, world.model, micros, 0, plan->vocab_multiple, &err));
        ck_assert_msg(estimate_plan(&all, graph, plan, &world.facts, &err), "%s", err.message);
        ck_assert_msg(estimate_plan_steady(&few, world.model, graph, plan, &bench.chain, table, &world.facts, &err),
                      "%s", err.message);
        for (int k = 0; k < plan->stage_count; k++) {
            int64_t arena = all->prediction.peak_bytes[k], promised = few->prediction.peak_bytes[k];
            ck_assert_msg(promised >= arena && promised <= arena + arena / 16,
                          "stage %d of %d: promised %lld, arena %lld (%d micro-batches, %s)", k, plan->stage_count,
                          (long long)promised, (long long)arena, micros, schedules[u.schedule]->name);
        }
        CHECK_NEAR((double)few->prediction.step_ns, (double)all->prediction.step_ns,
                   0.03 * (double)all->prediction.step_ns);
        estimate_free(few);
        estimate_free(all);
        graph_free(graph);
        plan_free(plan);
        workbench_close(&bench);
    }
    world_close(&world);
}
END_TEST

/* Two shorter steps tell how long a long one takes, and what memory it needs, under every schedule. */
START_TEST(periodic_estimate_agrees)
{
    const struct schedule *schedule = schedules[_i];
    if (schedule->asynchronous)
        return;
    struct world world = world_open("4x2:toy", 80000000000, 6);
    for (int stages = 2; stages <= 4; stages *= 2) {
        struct space space = space_default(240, 0, DTYPE_BF16);
        struct uniform u = uniform_unset();
        struct plan *plan = NULL;
        struct graph *graph = NULL;
        struct estimate *some = NULL, *all = NULL;
        struct error err = { 0 };
        u.pipeline = stages;
        u.tensor = stages == 2 ? 2 : 1;
        u.schedule = _i;
        u.data = 8 / stages / u.tensor;
        u.chunks = schedule->interleaves || schedule->folded ? 2 : 1;
        u.micro = 1;
        ck_assert_msg(uniform_plan(&plan, &u, &space, world.model, &world.facts, &err), "%s", err.message);
        ck_assert(graph_build(&graph, world.model, space.batch, 0, plan->vocab_multiple, &err));
        ck_assert_msg(estimate_plan(&all, graph, plan, &world.facts, &err), "%s", err.message);
        ck_assert_msg(estimate_plan_periodic(&some, world.model, graph, plan, &world.facts, &err), "%s", err.message);
        int64_t is = some->prediction.step_ns, should = all->prediction.step_ns;
        ck_assert_msg(llabs(is - should) <= should / 400, "%s, %d stages: %lld, simulated whole %lld", schedule->name,
                      stages, (long long)is, (long long)should);
        for (int k = 0; k < plan->stage_count; k++) {
            int64_t arena = all->prediction.peak_bytes[k], promised = some->prediction.peak_bytes[k];
            ck_assert_int_ge(promised, arena);
            ck_assert_int_le(promised, arena + arena / 50);
        }
        struct schedule_place place = schedule_place_of(plan, 0);
        if (schedule_held(schedule, &place) + 2 < plan->micro_batch_count / 10)
            ck_assert_int_lt(some->micro_batches_simulated, plan->micro_batch_count);
        estimate_free(some);
        estimate_free(all);
        graph_free(graph);
        plan_free(plan);
    }
    world_close(&world);
}
END_TEST

START_TEST(baselines_have_their_shape)
{
    struct world world = world_open("2x4:toy", 80000000000, 3);
    struct space space = space_default(16, 0, DTYPE_BF16);
    struct graph *graph = NULL;
    struct error err = { 0 };
    ck_assert(graph_build(&graph, world.model, 16, 0, 1, &err));
    for (int i = 0; baseline_names[i]; i++) {
        struct uniform u;
        struct plan *plan = NULL;
        ck_assert(uniform_named(&u, baseline_names[i], graph, world.cluster));
        ck_assert_msg(uniform_plan(&plan, &u, &space, world.model, &world.facts, &err), "%s: %s", baseline_names[i],
                      err.message);
        ck_assert_int_eq(plan->rank_count, 8);
        ck_assert_int_eq(plan->stages[0].atom[1], !strcmp(baseline_names[i], "tensor") ? 4 : 1);
        ck_assert_int_eq(plan->stage_count, !strcmp(baseline_names[i], "pipeline") ? 2 : 1);
        ck_assert_int_eq(plan->layers[0].zero, !strcmp(baseline_names[i], "zero3") ? 3 : 0);
        plan_free(plan);
    }
    struct uniform bad = uniform_unset(), *none = &bad;
    struct plan *plan = NULL;
    ck_assert(!uniform_named(none, "nonsense", graph, world.cluster));
    bad = uniform_unset();
    bad.tensor = 3;
    ck_assert(!uniform_plan(&plan, &bad, &space, world.model, &world.facts, &err));
    bad = uniform_unset();
    bad.micro = 3;
    err = (struct error){ 0 };
    ck_assert(!uniform_plan(&plan, &bad, &space, world.model, &world.facts, &err));
    ck_assert_msg(strstr(err.message, "smallest valid size is 24") != NULL, "%s", err.message);
    graph_free(graph);
    world_close(&world);
}
END_TEST

/* The heaviest stage of the balanced cut is as light as any cut's. */
START_TEST(balance_equals_brute_force)
{
    uint64_t seed = 8;
    for (int n = 0; n < 500; n++) {
        int layers = 1 + (int)random_below(&seed, 9), stages = 1 + (int)random_below(&seed, layers), first[10];
        int64_t weight[9], best = INT64_MAX, got = 0;
        for (int l = 0; l < layers; l++)
            weight[l] = random_below(&seed, 20);
        balance_stages(weight, 0, layers, stages, first);
        for (int k = 0; k < stages; k++) {
            int64_t sum = 0;
            int end = k + 1 < stages ? first[k + 1] : layers;
            ck_assert_int_lt(first[k], end);
            for (int l = first[k]; l < end; l++)
                sum += weight[l];
            got = max_i64(got, sum);
        }
        for (unsigned cuts = 0; cuts < 1u << (layers - 1); cuts++) {
            int64_t most = 0, here = weight[0];
            int used = 1;
            for (int l = 1; l < layers; l++) {
                bool cut = cuts >> (l - 1) & 1;
                most = max_i64(most, here);
                here = cut ? weight[l] : here + weight[l];
                used += cut;
            }
            if (used == stages)
                best = min_i64(best, max_i64(most, here));
        }
        ck_assert_int_eq(got, best);
    }
}
END_TEST

static Suite *search_suite(void)
{
    Suite *suite = suite_create("search");
    int schedule_count = 0;
    while (schedules[schedule_count])
        schedule_count++;
    CHECK_ADD(suite, pruning_keeps_the_optimum);
    CHECK_ADD(suite, search_is_deterministic_and_legal);
    CHECK_ADD(suite, expert_degrees_are_listed);
    CHECK_ADD(suite, expert_degrees_are_searched);
    CHECK_ADD(suite, expert_degrees_that_cannot_be_are_refused);
    CHECK_ADD(suite, restrictions_are_kept);
    CHECK_ADD(suite, rules_for_layers_are_kept);
    CHECK_ADD(suite, batch_is_the_best_of_those_tried);
    CHECK_ADD(suite, named_schedules_and_chunks);
    CHECK_ADD(suite, nothing_fits);
    CHECK_ADD(suite, restrictions_do_not_help);
    CHECK_ADD(suite, time_ends_anywhere);
    CHECK_ADD(suite, order_of_work_changes_nothing);
    CHECK_ADD(suite, micro_batches_are_bounded);
    CHECK_ADD(suite, advice_holds);
    CHECK_ADD(suite, smaller_jobs_are_advised);
    CHECK_ADD(suite, steady_estimate_promises_the_arena);
    CHECK_ADD(suite, steady_estimate_of_asynchronous_schedules);
    CHECK_ADD_LOOP(suite, periodic_estimate_agrees, schedule_count);
    CHECK_ADD(suite, baselines_have_their_shape);
    CHECK_ADD(suite, balance_equals_brute_force);
    return suite;
}

CHECK_MAIN(knapsack_suite, partition_suite, search_suite)
