/* The search against brute force: the knapsack of a stage, the cut into stages, the whole space on tiny models. */
#include "base/num.h"
#include "planner/search/ilp.h"
#include "planner/search/knapsack.h"
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

/* ---- the knapsack ---- */

enum { MAX_GROUPS = 3, MAX_OPTIONS = 6 };
struct instance {
    struct knapsack problem;
    struct knapsack_group groups[MAX_GROUPS];
    struct knapsack_option options[MAX_GROUPS][MAX_OPTIONS];
};

static void instance_draw(struct instance *in, uint64_t *seed, int64_t range, bool peaks, bool correlated)
{
    *in = (struct instance){.problem = {.group_count = 1 + (int)random_below(seed, MAX_GROUPS),
                                        .row_count = 1 + (int)random_below(seed, KNAPSACK_ROWS), .groups = in->groups}};
    int64_t least[KNAPSACK_ROWS] = {0}, most[KNAPSACK_ROWS] = {0};
    for (int g = 0; g < in->problem.group_count; g++) {
        int options = 1 + (int)random_below(seed, MAX_OPTIONS), count = 1 + (int)random_below(seed, g == 0 ? 7 : 3);
        in->groups[g] = (struct knapsack_group){.count = count, .option_count = options, .options = in->options[g]};
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
                o->row[r] = correlated ? range - o->cost + random_below(seed, 1 + range / 50) : random_below(seed, range) - (r == 2 ? range / 3 : 0);
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
static void brute_force(const struct knapsack *p, int group, int option, int left, int64_t cost, const int64_t *sum, int64_t peak, int64_t *best)
{
    if (group == p->group_count) {
        for (int r = 0; r < p->row_count; r++)
            if (sum[r] + (r == 0 ? peak : 0) > p->cap[r])
                return;
        *best = min_i64(*best, cost);
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
    int64_t best = INT64_MAX, zero[KNAPSACK_ROWS] = {0};
    brute_force(p, 0, 0, p->groups[0].count, 0, zero, 0, &best);
    return best;
}

/* The counts that came back must cost what was said and keep the caps. */
static void check_counts(const struct knapsack *p, const struct knapsack_result *result)
{
    int64_t cost = 0, sum[KNAPSACK_ROWS] = {0}, peak = 0;
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
    ck_assert_int_eq(cost, result->cost);
    for (int r = 0; r < p->row_count; r++)
        ck_assert_int_le(sum[r] + (r == 0 ? peak : 0), p->cap[r]);
}

START_TEST(knapsack_equals_brute_force)
{
    uint64_t seed = 1;
    int infeasible = 0;
    static const int64_t ranges[] = {10, 1000, 1000000, INT64_C(1000000000000)};
    for (int n = 0; n < 4000; n++) {
        struct instance in;
        struct error err = {0};
        int counts[MAX_GROUPS * MAX_OPTIONS];
        instance_draw(&in, &seed, ranges[n % 4], n % 3 == 0, n % 5 == 0);
        struct knapsack_result result = {.counts = counts};
        int64_t want = brute_optimum(&in.problem);
        ck_assert_msg(knapsack_solve(&in.problem, &result, &err), "%s", err.message);
        ck_assert_msg(result.cost == want, "instance %d: got %lld, brute force %lld", n, (long long)result.cost, (long long)want);
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
    for (int n = 0; n < 1000; n++) {
        struct instance in;
        struct error err = {0};
        int ours[MAX_GROUPS * MAX_OPTIONS], theirs[MAX_GROUPS * MAX_OPTIONS];
        instance_draw(&in, &seed, n % 2 ? 100 : 100000, false, n % 5 == 0);
        in.groups[0].count *= 1 + n % 20;
        for (int r = 0; r < KNAPSACK_ROWS; r++)
            in.problem.cap[r] *= 1 + n % 20;
        struct knapsack_result a = {.counts = ours}, b = {.counts = theirs};
        ck_assert_msg(knapsack_solve(&in.problem, &a, &err), "%s", err.message);
        ck_assert_msg(ilp_knapsack(&in.problem, 10000, &b, &err), "%s", err.message);
        if (b.status == KNAPSACK_LIMIT)
            continue;
        ck_assert_msg(a.status == b.status && a.cost == b.cost, "instance %d: got %lld, GLPK %lld", n, (long long)a.cost, (long long)b.cost);
    }
}
END_TEST

/* An end before the proof: what is found fits, and the bound does not lie above the optimum. */
START_TEST(knapsack_limit_keeps_a_bound)
{
    uint64_t seed = 5;
    int limited = 0;
    for (int n = 0; n < 1500; n++) {
        struct instance in;
        struct error err = {0};
        int counts[MAX_GROUPS * MAX_OPTIONS];
        instance_draw(&in, &seed, 1000000, n % 2 == 0, true);
        in.problem.node_limit = 1 + n % 3;
        struct knapsack_result result = {.counts = counts};
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

static Suite *knapsack_suite(void)
{
    Suite *suite = suite_create("knapsack");
    CHECK_ADD(suite, knapsack_equals_brute_force);
    CHECK_ADD(suite, knapsack_equals_glpk);
    CHECK_ADD(suite, knapsack_limit_keeps_a_bound);
    return suite;
}

/* ---- the cut into stages ---- */

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
    static const int64_t ranges[] = {3, 20, 1000, INT64_C(1000000000)};
    int64_t range = ranges[random_below(seed, 4)];
    int layers = 1 + (int)random_below(seed, CHAIN_LAYERS), stages = 1 + (int)random_below(seed, layers < CHAIN_STAGES ? layers : CHAIN_STAGES);
    int micro = 1 + (int)random_below(seed, 8), tied = random_below(seed, 2) && layers > 1;
    struct error err = {0};
    memset(toy, 0, sizeof *toy);
    for (int l = 0; l < layers; l++)
        toy->class_of[l] = (int)random_below(seed, CHAIN_CLASSES);
    ck_assert(chain_build(&toy->chain, &toy->arena, layers, toy->class_of, CHAIN_CLASSES, tied ? 0 : -1, tied ? layers - 1 : -1, &err));
    toy->table = (struct price_table){.class_count = CHAIN_CLASSES, .strategy_count = 1 + (int)random_below(seed, layers > 4 ? 3 : CHAIN_STRATEGIES),
                                      .strategies = toy->strategies, .prices = toy->prices, .send_ns = random_below(seed, range),
                                      .base_bytes = random_below(seed, range)};
    for (int i = 0; i < CHAIN_CLASSES * toy->table.strategy_count; i++)
        toy->prices[i] = (struct layer_price){
            .forward_ns = random_below(seed, range), .backward_ns = random_below(seed, range), .gather_forward_ns = random_below(seed, range),
            .gather_backward_ns = random_below(seed, range), .reduce_ns = random_below(seed, range), .reduce_last_ns = random_below(seed, 4 * range),
            .step_ns = random_below(seed, range), .weight_bytes = random_below(seed, range), .tied_bytes = tied ? random_below(seed, range) : 0,
            .saved_bytes = random_below(seed, range), .transient_bytes = random_below(seed, range)};
    for (int k = 0; k < stages; k++)
        toy->in_flight[k] = (int)min_i64(micro, stages - k);
    toy->problem = (struct partition_problem){.chain = &toy->chain, .table = &toy->table, .stage_count = stages, .micro_batch_count = micro,
                                              .in_flight = toy->in_flight, .below_ns = INT64_MAX,
                                              .capacity_bytes = random_below(seed, range * (2 + 2 * layers))};
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
        int64_t ends[] = {(m - 1) * (c + period) + step, (m - 1) * (c + period) - b + last + step, m * d - c + last + step};
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
        int stage_of[CHAIN_LAYERS] = {0}, strategy[CHAIN_LAYERS];
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

START_TEST(partition_equals_brute_force)
{
    uint64_t seed = 11;
    int feasible = 0, infeasible = 0;
    for (int n = 0; n < 1200; n++) {
        struct toy toy;
        struct error err = {0};
        struct partition_result result;
        toy_draw(&toy, &seed);
        ck_assert_msg(partition_solve(&toy.problem, &toy.arena, &result, &err), "%s", err.message);
        int64_t want = toy_brute_force(&toy);
        ck_assert_int_eq(result.feasible, want < INT64_MAX);
        ck_assert_msg(result.bound_ns == want, "instance %d: got %lld, brute force %lld", n, (long long)result.bound_ns, (long long)want);
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

static int64_t toy_optimum(struct toy *toy)
{
    struct partition_result result;
    struct error err = {0};
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
    return suite;
}

CHECK_MAIN(knapsack_suite, partition_suite)
