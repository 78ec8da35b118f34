/* The bounds by both lanes and memory, and by the order of passes, beside the simulator: of no plan drawn is the step
 * shorter. */
#include "base/num.h"
#include "planner/check/check_busy.h"
#include "planner/check/check_passes.h"
#include "planner/estimate/assemble.h"
#include "planner/space/config_name.h"
#include "planner/bound/flight_bound.h"
#include "planner/bound/lanes_bound.h"
#include "planner/bound/passes_bound.h"
#include "planner/tables/workbench.h"
#include "tests/model_files.h"
#include "tests/random_numbers.h"
#include "tests/simulated_step.h"
#include "tests/toy_world.h"
#include <stdio.h>

/* What models with their kinds of layers meet on links of one and of two levels; what the space has beside its default.
 */
static const struct lanes_case {
    const char *model, *form, *more;
    int64_t batch;
    bool clips;
} lanes_cases[] = { { "tiny-gpt", "2x4:toy", NULL, 16, true },    { "tiny-llama", "1x8:toy", "kinds", 16, true },
                    { "tiny-moe", "2x2:toy", "expert", 8, true }, { "tiny-lora", "2x2:toy", NULL, 16, false },
                    { "tiny-vit", "1x4:toy", "kinds", 16, true }, { "gpt2", "2x4:toy", "kinds", 16, true },
                    { "gpt2", "4x2:toy", "context", 16, false },  { "llama-2-7b", "4x8:toy", "kinds", 64, true },
                    { "bert-large", "8x1:toy", NULL, 32, false }, { "gpt2-medium", "1x8:toy", "shard", 64, true },
                    { "tiny-gpt", "1x4:toy", "loss", 16, true },  { "gpt2", "1x8:toy", "loss", 32, false } };
enum { LANES_CASES = sizeof lanes_cases / sizeof *lanes_cases, DRAWS = 60 };

static struct allowed values_of(int count, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (struct allowed){ count, { a, b, c, d } };
}

static struct space space_of(const struct lanes_case *c)
{
    struct space space = space_default(c->batch, 0, DTYPE_BF16);
    const char *more = c->more ? c->more : "";
    space.clip_norm = c->clips ? 1 : 0;
    if (strcmp(more, "kinds") == 0) {
        space.recompute = values_of(3, RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL, 0);
        space.offload = values_of(OFFLOAD_COUNT, 0, 1, 2, 3);
        space.reshard = values_of(2, RESHARD_EACH_PASS, RESHARD_EACH_STEP, 0, 0);
        space.bucket = values_of(1, 0, 0, 0, 0);
    } else if (strcmp(more, "expert") == 0)
        space.expert = values_of(2, 1, 2, 0, 0);
    else if (strcmp(more, "context") == 0)
        space.context = values_of(2, 1, 2, 0, 0);
    else if (strcmp(more, "shard") == 0)
        space.shard_group = values_of(3, 0, 2, 4, 0);
    else if (strcmp(more, "loss") == 0) {
        space.recompute = values_of(3, RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL, 0);
        space.loss_chunks = values_of(1, 4, 0, 0, 0);
    }
    return space;
}

/* What the prices say that layers keep of each micro-batch after each pass of a stage, for its weights' gradients
 * alone, too: the most of all stages. */
static int64_t held_at_most(const struct config *config, const struct price_table *table, const int *count)
{
    int row = table->class_count * table->strategy_count;
    bool offloads = price_offloads(table);
    struct arena arena = { 0 };
    struct passes passes;
    int64_t most = 0;
    ck_assert(passes_list(&passes, config, &arena));
    for (int k = 0; k < passes.stages; k++) {
        bool here[512] = { false };
        int64_t held = 0;
        ck_assert_int_le(passes.pieces, 512);
        for (int i = passes.first[k]; i < passes.first[k + 1]; i++) {
            const struct pass *pass = &passes.pass[i];
            int kept = (pass->kind == ACTION_FORWARD) - pass_is_input(pass);
            int put_off = (pass->kind == ACTION_BACKWARD_INPUT) - (pass->kind == ACTION_BACKWARD_WEIGHT);
            for (int at = 0; at < row; at++) {
                const struct least_price *least = &table->prices[at].least;
                int64_t bytes = kept * price_kept_bytes(least, offloads) + put_off * least->put_off_bytes;
                held += count[pass->piece * row + at] * (bytes + (here[pass->piece] ? 0 : least->resident_bytes));
            }
            here[pass->piece] = true;
            most = max_i64(most, held);
        }
    }
    arena_free(&arena);
    return most;
}

/* (stages) What the prices say that the data-parallel lane moves in a step at least. */
static void moved_at_least(int64_t *moved_ns, const struct busy_problem *problem, const struct config *config,
                           const int *count)
{
    const struct price_table *table = problem->table;
    const struct schedule *schedule = schedules[config->schedule];
    int row = table->class_count * table->strategy_count;
    int64_t micro_batches = config->micro_batch_count / (schedule->copies ? 2 : 1);
    for (int k = 0; k < config->stages; k++) {
        moved_ns[k] = -config_chunks(config) * lanes_stay_ns(problem);
        for (int at = 0; at < config_chunks(config) * row; at++) {
            int piece = schedule_piece(schedule, config->stages, k, at / row) % config_pieces(config);
            int class_index = at % row / table->strategy_count;
            struct least_price least = lanes_least(problem, class_index, at % row % table->strategy_count);
            moved_ns[k] += count[piece * row + at % row] * least_lane_ns(&least, micro_batches, 1);
        }
    }
}

/* What a draw has at least by its prices. */
struct drawn {
    int64_t held_bytes, *moved_ns; /* (stages) */
};

/* Any cut, and any strategy for each layer. */
static struct plan *draw_plan(uint64_t *seed, const struct workbench *bench, const struct config *config,
                              const struct price_table *table, struct drawn *drawn, struct arena *arena)
{
    int pieces = config_pieces(config), layers = bench->chain.layer_count, strategies = table->strategy_count;
    int block = table->class_count * strategies, *count = arena_alloc(arena, (size_t)(pieces * block), sizeof *count);
    struct partition_plan solution = { .first_layer = arena_alloc(arena, (size_t)pieces, sizeof(int)) };
    int favourite = (int)random_below(seed, strategies), mixed = (int)random_below(seed, 3);
    for (int k = 1; k < pieces; k++) {
        int from = solution.first_layer[k - 1] + 1, most = layers - (pieces - k), even = k * layers / pieces;
        bool free = random_below(seed, 4) == 0 || even < from || even > most;
        solution.first_layer[k] = free ? from + (int)random_below(seed, most - from + 1) : even;
    }
    for (int k = 0; k < pieces; k++)
        for (int l = solution.first_layer[k], end = k + 1 < pieces ? solution.first_layer[k + 1] : layers; l < end;
             l++) {
            int strategy = mixed ? (int)random_below(seed, strategies) : favourite;
            count[(k * table->class_count + bench->chain.class_of[l]) * strategies + strategy]++;
        }
    drawn->held_bytes = held_at_most(config, table, count);
    drawn->moved_ns = arena_alloc(arena, (size_t)config->stages, sizeof *drawn->moved_ns);
    ck_assert_ptr_nonnull(drawn->moved_ns);
    struct busy_problem problem = busy_problem_of(&bench->chain, config, table);
    moved_at_least(drawn->moved_ns, &problem, config, count);
    ck_assert(partition_set_counts(&solution, arena, count, pieces, block));
    return plan_from_partition(bench->space, config, bench->graph, &bench->chain, table, &solution);
}

/* By its instructions each stage's lane moves no less. */
static void check_moved(const struct world *world, const struct plan *plan, const int64_t *moved_ns, const char *name)
{
    struct graph *graph = NULL;
    struct program *program = NULL;
    struct error err = { 0 };
    ck_assert(plan_graph(&graph, world->model, plan, &err) && program_lower(&program, graph, plan, &err));
    for (int k = 0; k < program->stage_count; k++) {
        int64_t ns = 0;
        for (int i = 0; i < program->stages[k].instr_count; i++) {
            const struct instr *instr = &program->stages[k].instrs[i];
            ns += instr->lane == LANE_DP ? cost_instr_ns(&world->facts, program, k, instr) : 0;
        }
        ck_assert_msg(moved_ns[k] <= ns, "%s, %s: stage %d moves %lld ns at least, its lane %lld", world->model->name,
                      name, k, (long long)moved_ns[k], (long long)ns);
    }
    program_free(program);
    graph_free(graph);
}

/* No longer than the step, proven by the checker's own arithmetic; and it refuses a mix that is not of true
 * inequalities, or a bound beyond what it proves. */
static int64_t check_passes(const struct workbench *bench, const struct config *config, const struct price_table *table,
                            int64_t memory_bytes, int64_t step_ns, struct passes_book *book, const char *name)
{
    struct busy_problem problem = busy_problem_of(&bench->chain, config, table);
    struct mix_effort effort = { .rounds = 12, .missing_ppm = 2000, .work = INT64_MAX };
    const struct passes_mix *mix = NULL;
    struct error err = { 0 };
    int64_t bound_ns = 0;
    bool proves = false;
    if (!passes_are_few(&bench->chain, config))
        return 0;
    ck_assert_msg(passes_bound(&bound_ns, &mix, book, &problem, config, memory_bytes, INT64_MAX, &effort, &err), "%s",
                  err.message);
    ck_assert_msg(bound_ns <= step_ns, "%s, %s: bound by passes %lld, simulated %lld", bench->model->name, name,
                  (long long)bound_ns, (long long)step_ns);
    if (!mix)
        return bound_ns;
    ck_assert(passes_mix_proves(&proves, mix, &bench->chain, config, table, memory_bytes, bound_ns, &err) && proves);
    ck_assert(passes_mix_proves(&proves, mix, &bench->chain, config, table, memory_bytes, step_ns + 1, &err) &&
              !proves);
    for (int i = 0; i < mix->path_count; i++) {
        const struct mix_path *path = &mix->paths[i];
        int ends[] = { path->pass[0], path->pass[path->count - 1] };
        struct mix_path wrong[] = { { MIX_WEIGHT, 2, ends }, { -1, path->count, path->pass } };
        for (int k = ends[1] > ends[0] + 1 && path->count > 2 ? 0 : 1; k < 2; k++) {
            struct passes_mix other = { .path_count = 1, .paths = &wrong[k] };
            ck_assert(passes_mix_proves(&proves, &other, &bench->chain, config, table, memory_bytes, 0, &err));
            ck_assert_msg(!proves, "%s: a path that is none", name);
        }
    }
    return bound_ns;
}

static void check_lanes(const struct world *world, const struct workbench *bench, const struct config *config,
                        const struct price_table *table, const struct plan *plan, const struct drawn *drawn,
                        struct passes_book *book, double *closest)
{
    struct busy_problem problem = busy_problem_of(&bench->chain, config, table);
    struct error err = { 0 };
    char name[CONFIG_NAME_BYTES];
    int64_t bound_ns = 0, flight_ns = 0, most_bytes = 0;
    int64_t step_ns = simulated_step(config_name(name, config), world->model, plan, &world->facts, &most_bytes);
    bool holds = false;
    check_moved(world, plan, drawn->moved_ns, name);
    ck_assert_msg(drawn->held_bytes <= most_bytes, "%s, %s: %lld bytes are in flight, arenas have %lld",
                  world->model->name, name, (long long)drawn->held_bytes, (long long)most_bytes);
    ck_assert(lanes_bound(&bound_ns, &problem, most_bytes, INT64_MAX, &err));
    ck_assert_msg(bound_ns <= step_ns, "%s, %s: bound %lld, simulated %lld", world->model->name, name,
                  (long long)bound_ns, (long long)step_ns);
    ck_assert(flight_bound(&flight_ns, &problem, config, most_bytes, &err));
    ck_assert_msg(flight_ns <= step_ns, "%s, %s: bound by what is in flight %lld, simulated %lld", world->model->name,
                  name, (long long)flight_ns, (long long)step_ns);
    int64_t passes_ns = check_passes(bench, config, table, most_bytes, step_ns, book, name);
    bound_ns = max_i64(bound_ns, flight_ns);
    ck_assert(busy_lanes_hold(&holds, &bench->chain, NULL, config, table, most_bytes, bound_ns, &err));
    ck_assert_msg(holds, "%s, %s: the checker does not prove %lld", world->model->name, name, (long long)bound_ns);
    bound_ns = max_i64(bound_ns, passes_ns);
    *closest = (double)bound_ns / (double)step_ns > *closest ? (double)bound_ns / (double)step_ns : *closest;
}

/* Of a schedule, from anywhere in the list on; NULL: there is none. */
static const struct config *config_of_schedule(uint64_t *seed, const struct config *configs, int count, int schedule)
{
    int from = count > 0 ? (int)random_below(seed, count) : 0;
    for (int i = 0; i < count; i++)
        if (configs[(from + i) % count].schedule == schedule)
            return &configs[(from + i) % count];
    return NULL;
}

/* Any, or one of the n-th schedule. */
static const struct config *draw_config(uint64_t *seed, int n, const struct config *configs, int count,
                                        const struct config *beside, int beside_count)
{
    int schedule = 0, schedule_count = 0;
    while (schedules[schedule_count])
        schedule_count++;
    schedule = n % (schedule_count + 1);
    const struct config *config = config_of_schedule(seed, beside, beside_count, schedule);
    config = config ? config : config_of_schedule(seed, configs, count, schedule);
    return config ? config : &configs[random_below(seed, count)];
}

START_TEST(no_plan_is_simulated_shorter)
{
    const struct lanes_case *c = &lanes_cases[_i];
    struct world world = world_of(c->form, INT64_C(80000000000), 1, false);
    struct space space = space_of(c);
    struct workbench bench;
    struct config *configs = NULL, *beside = NULL;
    struct passes_book book = { 0 };
    struct arena arena = { 0 };
    struct error err = { 0 };
    uint64_t seed = (uint64_t)_i;
    int count = 0, beside_count = 0, compared = 0;
    double closest = 0;
    model_free(world.model);
    world.model = model_of_zoo(c->model);
    ck_assert_msg(workbench_open(&bench, world.model, &world.facts, &space, &err), "%s", err.message);
    ck_assert(space_configs(&configs, &count, &arena, &space, bench.graph, world.cluster, &err));
    ck_assert(space_configs_beside(&beside, &beside_count, &arena, &space, bench.graph, world.cluster, &err));
    for (int n = 0; n < DRAWS; n += share_stride()) {
        const struct config *config = draw_config(&seed, n, configs, count, beside, beside_count);
        const struct price_table *table = NULL;
        ck_assert_msg(workbench_table(&bench, config, false, &table, &err), "%s", err.message);
        struct drawn drawn = { 0 };
        struct plan *plan = table && lanes_bound_applies(config, world.cluster)
                                ? draw_plan(&seed, &bench, config, table, &drawn, &arena)
                                : NULL;
        if (plan) {
            check_lanes(&world, &bench, config, table, plan, &drawn, &book, &closest);
            compared++;
        }
        plan_free(plan);
    }
    ck_assert_int_ge(compared, DRAWS / share_stride() / 2);
    printf("%s on %s: %d plans, the bound at most %.3f of a step\n", c->model, c->form, compared, closest);
    workbench_close(&bench);
    passes_book_close(&book);
    arena_free(&arena);
    world_close(&world);
}
END_TEST

static Suite *lanes_suite(void)
{
    Suite *suite = suite_create("lanes_bound");
    CHECK_ADD_LOOP(suite, no_plan_is_simulated_shorter, LANES_CASES);
    return suite;
}

CHECK_MAIN(lanes_suite)
