/* Times the solvers of the search on synthetic families: the knapsack of a stage (identical layers, few classes, all
 * different; additive and with the caps of the two lanes; collinear, where time and memory are strongly correlated),
 * and the cut into stages. With LAYERS_AT_MOST 0 only the latter.
 *
 *   solver_speed [LAYERS_AT_MOST]
 *
 * Processor time of this thread, milliseconds, median and largest of nine instances (three seeds, memory for 20, 50 and
 * 80 % of the way from the thriftiest to the roomiest choice). "open": not solved to the end within the node limit. */
#define _GNU_SOURCE
#include "base/num.h"
#include "planner/knapsack/knapsack.h"
#include "planner/cut/partition.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SEEDS = 3, FILLS = 3, MOST_OPTIONS = 60, MOST_LAYERS = 1000, NODE_LIMIT = 20000 };
static const double fills[FILLS] = { 0.2, 0.5, 0.8 };

struct instance {
    struct knapsack problem;
    struct knapsack_group groups[MOST_LAYERS];
    struct knapsack_option *options; /* (groups, MOST_OPTIONS) */
};

static double uniform(uint64_t *seed)
{
    return (double)(mix64((*seed)++) >> 11) * 0x1p-53;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* One of 60 ways to train a transformer's sublayer of about `width` hidden units on 8 x 16 ranks: ZeRO stage,
 * recomputation, pieces. Bytes and nanoseconds. */
static struct knapsack_option transformer_option(int way, double width, bool mlp, uint64_t *seed)
{
    static const double overhead[5] = { 0, .012, .03, .07, .13 };
    int zero = way / 15, recompute = way / 5 % 3, piece = way % 5;
    double ranks = 16, flight = 4, weights = (mlp ? 8 : 4) * width * width / 8;
    double saved = (mlp ? 19. : 15.) * 2048 * width / 8, forward_s = (mlp ? 16 : 8) * 2048 * width * width / 8 / 150e12;
    double states = zero == 0   ? 16 * weights
                    : zero == 1 ? (4 + 12 / ranks) * weights
                    : zero == 2 ? (2 + 14 / ranks) * weights
                                : 16 * weights / ranks;
    double path = forward_s *
                  (recompute == 0   ? 3
                   : recompute == 1 ? 3.1
                                    : 4) *
                  (1 + overhead[piece]) * (1 + 0.02 * (uniform(seed) - 0.5));
    double lane = 2 * weights / 12e9 * (zero < 2 ? 0 : zero == 2 ? 1 : 3), last = 2 * weights / 12e9 * (zero < 2);
    double backward = path - forward_s;
    struct knapsack_option option = { .cost = (int64_t)(1e9 * path) };
    option.row[0] = (int64_t)(states +
                              saved * flight *
                                  (recompute == 0   ? 1
                                   : recompute == 1 ? .45
                                                    : .1) +
                              ((zero == 3 ? 2 * weights : 0) + saved * 0.3) / (1 << piece));
    option.row[1] = 31 * option.cost;
    option.row[2] = 31 * option.cost + (int64_t)(1e9 * (last - backward));
    option.row[3] = (int64_t)(1e9 * (32 * lane + last)) - option.cost;
    return option;
}

static struct knapsack_option collinear_option(uint64_t *seed)
{
    double x = uniform(seed);
    struct knapsack_option option = { .cost = (int64_t)(1e9 * (30e-3 - 20e-3 * x + 0.2e-3 * uniform(seed))) };
    option.row[0] = (int64_t)(0.2e9 + 3e9 * x);
    option.row[1] = 31 * option.cost;
    option.row[2] = 31 * option.cost - (int64_t)(1e6 * uniform(seed));
    option.row[3] = (int64_t)(1e9 * (10e-3 + 900e-3 * (1 - x) + 1e-3 * uniform(seed)));
    return option;
}

/* A random set of so many ways for each class. */
static void draw_group(struct instance *in, int group, int options, bool collinear, uint64_t *seed)
{
    int ways[MOST_OPTIONS];
    bool mlp = group % 2;
    double width = in->problem.group_count == 2 ? 12288 : 12288 * (0.8 + 0.4 * uniform(seed));
    for (int i = 0; i < MOST_OPTIONS; i++)
        ways[i] = i;
    for (int i = 0; i < options; i++) {
        int other = i + (int)(uniform(seed) * (MOST_OPTIONS - i)), way = ways[other];
        ways[other] = ways[i];
        in->options[group * MOST_OPTIONS + i] =
            collinear ? collinear_option(seed) : transformer_option(way, width, mlp, seed);
    }
    in->groups[group].options = &in->options[group * MOST_OPTIONS];
    in->groups[group].option_count = options;
}

static void draw(struct instance *in, int layers, int classes, int options, int rows, bool collinear, double fill,
                 uint64_t seed)
{
    int64_t least[KNAPSACK_ROWS] = { 0 }, most[KNAPSACK_ROWS] = { 0 };
    in->problem =
        (struct knapsack){ .group_count = classes, .row_count = rows, .groups = in->groups, .node_limit = NODE_LIMIT };
    for (int g = 0; g < classes; g++) {
        in->groups[g].count = layers / classes + (g < layers % classes);
        draw_group(in, g, options, collinear, &seed);
        for (int r = 0; r < rows; r++) {
            int64_t low = INT64_MAX, high = INT64_MIN;
            for (int i = 0; i < options; i++) {
                low = min_i64(low, in->groups[g].options[i].row[r]);
                high = max_i64(high, in->groups[g].options[i].row[r]);
            }
            least[r] += low * in->groups[g].count;
            most[r] += high * in->groups[g].count;
        }
    }
    for (int r = 0; r < rows; r++)
        in->problem.cap[r] = least[r] + (int64_t)((r == 0 ? fill : 0.6) * (double)(most[r] - least[r]));
}

static void time_family(struct instance *in, int layers, int classes, int options, bool collinear)
{
    printf("| %s | %4d | %4d | %2d |", collinear ? "collinear" : "transformer", layers, classes, options);
    for (int rows = 1; rows <= KNAPSACK_ROWS; rows += KNAPSACK_ROWS - 1) {
        double ms[SEEDS * FILLS];
        int count = 0, open = 0;
        for (int seed = 0; seed < SEEDS; seed++)
            for (int f = 0; f < FILLS; f++) {
                struct knapsack_result result = { 0 };
                struct error err = { 0 };
                draw(in, layers, classes, options, rows, collinear, fills[f], (uint64_t)(1000 * seed + 7 * f));
                double start = now_ms();
                if (!knapsack_solve(&in->problem, &result, &err)) {
                    fprintf(stderr, "solver_speed: %s\n", err.message);
                    exit(1);
                }
                ms[count++] = now_ms() - start;
                open += result.status == KNAPSACK_LIMIT;
            }
        qsort(ms, (size_t)count, sizeof *ms, compare_doubles);
        printf(" %8.3f / %8.3f%s", ms[count / 2], ms[count - 1], open ? " open " : " |");
        if (open)
            printf("%d |", open);
    }
    printf("\n");
    fflush(stdout);
}

static void time_knapsacks(int layers_at_most)
{
    static const int layers[] = { 12, 48, 96, 1000 }, options[] = { 8, 20, 60 };
    struct instance *in = calloc(1, sizeof *in);
    in->options = calloc((size_t)MOST_LAYERS * MOST_OPTIONS, sizeof *in->options);
    printf("| family | layers | classes | options | memory: ms median / max | memory and lanes: ms median / max |\n"
           "|--|--|--|--|--|--|\n");
    for (int collinear = 0; collinear < 2; collinear++)
        for (int l = 0; l < 4; l++)
            for (int c = 0; c < 3; c++)
                for (int o = 0; o < 3; o++)
                    if (layers[l] <= layers_at_most)
                        time_family(in, layers[l], c == 0 ? 2 : c == 1 ? 8 : layers[l], options[o], collinear);
    free(in->options);
    free(in);
}

/* ---- the cut ---- */

enum { STRATEGIES = 8 };

/* ZeRO stage x recomputation of a sublayer: `scale` varies its width. 32 data-parallel ranks, 8 tensor-parallel. */
static struct layer_price layer_price_of(int way, bool mlp, double scale, uint64_t *seed)
{
    static const double gathers[4] = { 0, 0, 0, 1 }, reductions[4] = { 0, 0, 1, 1 };
    int zero = way / 2, recompute = way % 2;
    double width = 12288 * scale, ranks = 32, weights = (mlp ? 8 : 4) * width * width / 8;
    double forward_ns = 1e9 * (mlp ? 16 : 8) * 2048 * width * width / 8 / 150e12 * (1 + 0.01 * uniform(seed));
    double lane_ns = 1e9 * 2 * weights / 12e9 / 2, states = zero == 0 ? 16 : zero == 1 ? 4 + 12 / ranks : 16 / ranks;
    return (struct layer_price){
        .forward_ns = (int64_t)forward_ns,
        .backward_ns = (int64_t)(forward_ns * (recompute ? 3 : 2)),
        .gather_forward_ns = (int64_t)(lane_ns * gathers[zero]),
        .gather_backward_ns = (int64_t)(lane_ns * gathers[zero]),
        .reduce_ns = (int64_t)(lane_ns * reductions[zero]),
        .reduce_last_ns = (int64_t)(zero < 2 ? 2 * lane_ns : 0),
        .step_ns = (int64_t)(weights * (zero ? 1 / ranks : 1) * 30 / 2e12 * 1e9 + (zero == 1 ? lane_ns : 0)),
        .weight_bytes = (int64_t)(weights * states),
        .saved_bytes = (int64_t)((mlp ? 19. : 15.) * 2048 * width / 8 * (recompute ? 0.1 : 1)),
        .transient_bytes = (int64_t)(weights * (zero == 3 ? 4 : 1)),
    };
}

struct cut_case {
    const char *name;
    int layers, classes, stages, micro_batches;
    int64_t gap_ppm, memory_bytes;
};

static void make_prices(const struct cut_case *c, struct layer_price *prices, int *class_of)
{
    uint64_t seed = 5;
    for (int l = 0; l < c->layers; l++)
        class_of[l] = l % c->classes;
    for (int k = 0; k < c->classes; k++) {
        double scale = c->classes == 2 ? 1 : 0.85 + 0.3 * uniform(&seed);
        for (int i = 0; i < STRATEGIES; i++)
            prices[k * STRATEGIES + i] = layer_price_of(i, k % 2, scale, &seed);
    }
}

static void time_cut(const struct cut_case *c)
{
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct chain chain;
    static const struct strategy strategies[STRATEGIES];
    struct partition_result result = { 0 };
    int *class_of = arena_alloc(&arena, (size_t)c->layers, sizeof *class_of),
        *in_flight = arena_alloc(&arena, (size_t)c->stages, sizeof *in_flight);
    struct layer_price *prices = arena_alloc(&arena, (size_t)c->classes, STRATEGIES * sizeof *prices);
    make_prices(c, prices, class_of);
    for (int k = 0; k < c->stages; k++)
        in_flight[k] = c->stages - k < c->micro_batches ? c->stages - k : c->micro_batches;
    struct price_table table = { .class_count = c->classes,
                                 .strategy_count = STRATEGIES,
                                 .strategies = strategies,
                                 .prices = prices,
                                 .send_ns = 40000,
                                 .base_bytes = INT64_C(1) << 30 };
    double start = now_ms();
    bool good = chain_build(&chain, &arena, c->layers, class_of, c->classes, -1, -1, &err);
    double built = now_ms();
    struct partition_problem problem = { .chain = &chain,
                                         .table = &table,
                                         .stage_count = c->stages,
                                         .micro_batch_count = c->micro_batches,
                                         .in_flight = in_flight,
                                         .capacity_bytes = c->memory_bytes,
                                         .below_ns = INT64_MAX,
                                         .node_limit = NODE_LIMIT,
                                         .gap_ppm = c->gap_ppm };
    if (!good || !partition_solve(&problem, &arena, &result, &err)) {
        fprintf(stderr, "solver_speed: %s\n", err.message);
        exit(1);
    }
    double gap = result.feasible ? (double)(result.plans[0].step_ns - result.bound_ns) / (double)result.bound_ns : 0;
    printf("| %s | %d | %d | %d | %d | %lld | %.1f | %.1f | %lld | %lld | %s %.2e |\n", c->name, c->layers, c->classes,
           c->stages, c->micro_batches, (long long)c->gap_ppm, built - start, now_ms() - built,
           (long long)result.passes, (long long)result.knapsacks, result.feasible ? "" : "nothing fits", gap);
    fflush(stdout);
    arena_free(&arena);
}

static void time_cuts(void)
{
    static const struct cut_case cases[] = {
        { "identical", 192, 2, 1, 12, 0, 80000000000 },
        { "identical", 192, 2, 8, 64, 0, 80000000000 },
        { "identical", 192, 2, 8, 64, 1000, 80000000000 },
        { "identical", 192, 2, 8, 64, 0, 22000000000 },
        { "identical", 192, 2, 16, 128, 0, 12000000000 },
        { "identical", 192, 2, 64, 512, 0, 6000000000 },
        { "all different", 96, 96, 8, 64, 1000, 40000000000 },
        { "all different", 200, 200, 16, 128, 1000, 12000000000 },
        { "all different", 1000, 1000, 64, 512, 1000, 80000000000 },
    };
    printf("\n| chain | layers | classes | stages | micro-batches | gap allowed, ppm | chain ms | cut ms | passes | "
           "knapsacks | gap left |\n|--|--|--|--|--|--|--|--|--|--|--|\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        time_cut(&cases[i]);
}

int main(int argc, char **argv)
{
    time_knapsacks(argc > 1 ? atoi(argv[1]) : MOST_LAYERS);
    time_cuts();
    return 0;
}
