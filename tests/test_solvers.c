/* The solvers of the search against brute force: the knapsack of a stage, the cut into stages. */
#include "base/num.h"
#include "tests/ilp.h"
#include "tests/ilp_partition.h"
#include "planner/knapsack/knapsack.h"
#include "planner/cut/partition.h"
#include "tests/check.h"
#include "tests/hard_knapsacks.h"
#include "tests/random_numbers.h"
#include "tests/toy_chain.h"
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
    int64_t least[KNAPSACK_ROWS] = { 0 }, most[KNAPSACK_ROWS] = { 0 }, heights = random_below(seed, 2) ? 4 : 25;
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
            o->peak = peaks ? random_below(seed, heights) * range / (2 * heights) : 0;
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
        static const int64_t ranges[] = { 100, 100000, 100, 100000, INT64_C(1000000000) };
        instance_draw(&in, &seed, ranges[n % 5], n % 3 == 0, n % 5 == 0);
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
        int64_t slack = ranges[n % 5] > 1 << 26 && b.cost < INT64_MAX ? b.cost / 1000000000 + 1 : 0;
        ck_assert_msg(a.status == b.status && a.cost <= b.cost && b.cost - a.cost <= slack,
                      "instance %d: got %lld, GLPK %lld", n, (long long)a.cost, (long long)b.cost);
    }
    ck_assert_int_eq(compared, 1000);
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

/* Near enough is no less proven, of shares for fewer gaps: the bound lies below the optimum, and what was found within
 * the gap of it. */
static void expect_bounds_of_gaps(const char *name, const struct knapsack *exact, const struct knapsack_result *best)
{
    const int part = share_stride() == 1 ? 5 : 1;
    for (int64_t gap_ppm = 500; gap_ppm < 100000; gap_ppm += gap_ppm / part) {
        struct knapsack problem = *exact;
        struct knapsack_result near = { .counts = NULL };
        struct error err = { 0 };
        problem.gap_ppm = gap_ppm;
        ck_assert_msg(knapsack_solve(&problem, &near, &err), "%s", err.message);
        ck_assert_msg(near.bound >> exact->tie_bits <= best->cost >> exact->tie_bits,
                      "%s, gap %lld ppm: %lld above %lld", name, (long long)gap_ppm,
                      (long long)(near.bound >> exact->tie_bits), (long long)(best->cost >> exact->tie_bits));
        ck_assert_int_ge(near.cost >> exact->tie_bits, best->cost >> exact->tie_bits);
        if (near.status == KNAPSACK_OPTIMAL && near.cost < INT64_MAX)
            ck_assert_double_le((double)near.cost, (double)near.bound * (1 + (double)gap_ppm / 1e6) + 131072);
    }
}

/* Stages that were hard once are solved well within the search's node limit, and GLPK finds nothing cheaper. */
START_TEST(hard_stages_are_solved)
{
    for (size_t n = 0; n < sizeof hard_knapsacks / sizeof *hard_knapsacks; n += small_share() ? 4 : 1) {
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
        expect_bounds_of_gaps(hard->name, &problem, &a);
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

/* The least cap of the row under which the optimum costs no more than now. */
static int64_t least_cap(const struct knapsack *problem, int row)
{
    struct knapsack other = *problem;
    int64_t cost = brute_optimum(problem), low = -1, high = problem->cap[row];
    while (high - low > 1) {
        other.cap[row] = low + (high - low) / 2;
        if (brute_optimum(&other) == cost)
            high = other.cap[row];
        else
            low = other.cap[row];
    }
    return high;
}

/* One byte less than an optimum needs, of 10^12: GLPK's doubles keep no such row, and take the optimum that breaks it.
 * Evaluated in integers that is seen, the row is stated again in digits, and the answer is exact. */
START_TEST(rows_that_rounding_breaks_are_restated)
{
    const int part = share_stride() == 1 ? 1 : small_share() ? 5 : 2;
    uint64_t seed = 11;
    int dearer = 0, none = 0;
    for (int n = 0; n < 300 / part; n++) {
        struct instance in;
        struct error err = { 0 };
        int counts[MAX_GROUPS * MAX_OPTIONS];
        struct knapsack_result result = { .counts = counts };
        instance_draw(&in, &seed, INT64_C(1000000000000), n % 2, false);
        in.problem.row_count = min_i64(in.problem.row_count, 2); /* of which none are negative */
        for (int g = 0; g < in.problem.group_count; g++)
            for (int i = 0; i < in.groups[g].option_count; i++)
                in.options[g][i].cost %= 1000;
        int row = n % in.problem.row_count;
        if (brute_optimum(&in.problem) == INT64_MAX)
            continue;
        in.problem.cap[row] = least_cap(&in.problem, row) - 1;
        int64_t want = brute_optimum(&in.problem);
        ck_assert_msg(ilp_knapsack(&in.problem, 10000, &result, &err), "%s", err.message);
        ck_assert_msg(result.status == (want < INT64_MAX ? KNAPSACK_OPTIMAL : KNAPSACK_INFEASIBLE) &&
                          result.cost == want,
                      "instance %d: status %d, got %lld, expected %lld", n, result.status, (long long)result.cost,
                      (long long)want);
        if (want < INT64_MAX)
            check_counts(&in.problem, &result);
        dearer += want < INT64_MAX;
        none += want == INT64_MAX;
    }
    ck_assert_int_gt(dearer, 100 / part);
    ck_assert_int_gt(none, 10 / part);
}
END_TEST

static Suite *knapsack_suite(void)
{
    Suite *suite = suite_create("knapsack");
    CHECK_ADD(suite, knapsack_equals_brute_force);
    CHECK_ADD(suite, knapsack_equals_glpk);
    CHECK_ADD(suite, knapsack_limit_keeps_a_bound);
    CHECK_ADD(suite, hard_stages_are_solved);
    CHECK_ADD(suite, rows_that_rounding_breaks_are_restated);
    return suite;
}

/* ---- the cut into stages ---- */

START_TEST(partition_equals_brute_force)
{
    uint64_t seed = 11;
    int feasible = 0, infeasible = 0;
    for (int n = 0; n < 1200; n++) {
        struct toy toy;
        struct partition_result result;
        toy_draw(&toy, &seed);
        uint64_t own = mix64((uint64_t)n);
        if (n % 2)
            toy_draw_kept(&toy, &own);
        int64_t want = toy_solve(&toy, n, &result);
        feasible += want < INT64_MAX;
        infeasible += want == INT64_MAX;
        arena_free(&toy.arena);
    }
    ck_assert_int_gt(feasible, 300);
    ck_assert_int_gt(infeasible, 100);
}
END_TEST

/* With a gap the bound stays one of what enumeration finds, and the plan is that near to it. */
START_TEST(partition_keeps_its_gap)
{
    static const int64_t gaps_ppm[] = { 100, 1000, 10000, 100000 };
    uint64_t seed = 29;
    int above = 0, below = 0;
    for (int n = 0; n < 1200; n++) {
        struct toy toy;
        struct partition_result result;
        struct error err = { 0 };
        toy_draw(&toy, &seed);
        int64_t want = toy_solve(&toy, n, &result), gap_ppm = gaps_ppm[n % 4];
        toy.problem.below_ns = INT64_MAX;
        toy.problem.gap_ppm = gap_ppm;
        ck_assert_msg(partition_solve(&toy.problem, &toy.arena, &result, &err), "%s", err.message);
        ck_assert_int_eq(result.feasible, want < INT64_MAX);
        ck_assert_int_le(result.bound_ns, want);
        if (result.feasible) {
            int64_t found = result.plans[0].step_ns;
            ck_assert_int_eq(found, partition_evaluate(&toy.problem, &result.plans[0]));
            ck_assert_msg((double)(found - result.bound_ns) <= (double)result.bound_ns * (double)gap_ppm / 1e6 + 1,
                          "instance %d, gap %lld ppm: %lld above %lld", n, (long long)gap_ppm, (long long)found,
                          (long long)result.bound_ns);
            above += found > want;
            below += toy.problem.phases && result.bound_ns < want;
        }
        arena_free(&toy.arena);
    }
    ck_assert_int_gt(above, 5);
    ck_assert_int_gt(below, 20);
}
END_TEST

/* Cuts and strategies together by GLPK: to the nanosecond where doubles hold all sums, else to nine digits. */
START_TEST(partition_equals_glpk)
{
    enum { LIMIT_MS = 20000 };
    uint64_t seed = 67;
    int feasible = 0, none = 0, exact = 0;
    for (int n = 0; n < 300; n++) {
        struct toy toy;
        struct error err = { 0 };
        struct partition_result ours, theirs;
        bool proven;
        toy_draw(&toy, &seed);
        uint64_t own = mix64((uint64_t)n);
        if (n % 2)
            toy_draw_kept(&toy, &own);
        ck_assert_msg(partition_solve(&toy.problem, &toy.arena, &ours, &err), "%s", err.message);
        ck_assert_msg(ilp_partition(&toy.problem, LIMIT_MS, &toy.arena, &theirs, &proven, &err), "%s", err.message);
        ck_assert(!proven || ours.feasible == theirs.feasible);
        ck_assert(!proven || theirs.bound_ns <= ours.bound_ns);
        none += proven && !ours.feasible;
        if (!proven || !ours.feasible) { /* not proven: rounding broke the memory, or no time was left */
            arena_free(&toy.arena);
            continue;
        }
        feasible++;
        int64_t a = ours.plans[0].step_ns, b = theirs.plans[0].step_ns;
        bool small = theirs.bound_ns == b;
        exact += small;
        ck_assert_int_le(a, b);
        ck_assert_int_le(theirs.bound_ns, a);
        ck_assert_msg(small ? a == b : b - a <= a / 100000000, "instance %d: %lld, GLPK %lld", n, (long long)a,
                      (long long)b);
        arena_free(&toy.arena);
    }
    ck_assert_int_gt(feasible, 100);
    ck_assert_int_gt(none, 30);
    ck_assert_int_gt(exact, 50);
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
            toy.prices[i].gather_once_ns /= 2;
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
    CHECK_ADD(suite, partition_keeps_its_gap);
    CHECK_ADD(suite, partition_equals_glpk);
    CHECK_ADD(suite, partition_is_monotone);
    return suite;
}

CHECK_MAIN(knapsack_suite, partition_suite)
