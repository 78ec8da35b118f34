/* Models with branches: stages that are intervals of some order of the layers. The exact cut against enumeration over
 * all sets of layers, the checker's own list of orders against both, plan files that name an order, and a plan in
 * another order than the file's that no interval of the file's order matches, run against one rank. */
#include "planner/check/check_cut_parts.h"
#include "formats/plan_file.h"
#include "planner/program/program.h"
#include "planner/search/search.h"
#include "planner/tables/workbench.h"
#include "planner/sim/simulate.h"
#include "tests/model_files.h"
#include "tests/oracle_reference.h"
#include "tests/random_dag.h"
#include "tests/simulated_step.h"
#include "tests/toy_chain.h"

/* ---- the cut, against enumeration ---- */

/* A toy whose layers read some of those before them. */
struct branched {
    struct toy toy;
    uint64_t reads[CHAIN_LAYERS];
    struct graph_layer layers[CHAIN_LAYERS];
    struct graph graph; /* edges alone */
};

static void branched_draw(struct branched *b, uint64_t *seed)
{
    struct dag_edge edges[CHAIN_LAYERS * MAX_LAYER_INPUTS];
    struct error err = { 0 };
    int count = 0, rare = 1 + (int)random_below(seed, 4);
    toy_draw(&b->toy, seed);
    for (int l = 0; l < b->toy.chain.layer_count; l++) {
        b->reads[l] = 0;
        b->layers[l] = (struct graph_layer){ .name = "layer" };
        for (int from = 0; from < l && b->layers[l].input_count < MAX_LAYER_INPUTS; from++) {
            if (random_below(seed, rare) > 0)
                continue;
            edges[count++] = (struct dag_edge){ from, l };
            b->reads[l] |= UINT64_C(1) << from;
            b->layers[l].input_layers[b->layers[l].input_count++] = from;
        }
    }
    b->graph = (struct graph){ .layer_count = b->toy.chain.layer_count, .layers = b->layers };
    ck_assert(chain_add_branches(&b->toy.chain, &b->toy.arena, edges, count, CHAIN_IDEALS, &err));
}

/* All equally good cuts compared; any of them; what is left bounded before each sweep. */
static const struct ideal_limits ways_to_look[] = {
    { .tie_places = 1 << 13, .trial_work = 128, .most_work = INT64_C(1) << 34 },
    { .tie_places = 0, .trial_work = 4, .most_work = INT64_C(1) << 34 },
    { .tie_places = 0, .trial_work = 0, .most_work = INT64_C(1) << 34 },
};
enum { WAYS_TO_LOOK = sizeof ways_to_look / sizeof *ways_to_look };

START_TEST(cuts_equal_enumeration_over_all_orders)
{
    uint64_t seed = 77;
    int branched = 0, feasible = 0, infeasible = 0, shorter = 0;
    const int share = small_share() ? 5 : 1;
    for (int n = 0; n < 3000 / share; n++) {
        struct branched b;
        struct error err = { 0 };
        struct partition_result result, none;
        branched_draw(&b, &seed);
        struct partition_problem *problem = &b.toy.problem;
        problem->ideal_limits = &ways_to_look[_i];
        int64_t want = enumerate_orders(problem, b.reads, NULL);
        ck_assert(partition_solve(problem, &b.toy.arena, &result, &err));
        ck_assert_msg(result.bound_ns == want, "instance %d: got %lld, brute force %lld", n, (long long)result.bound_ns,
                      (long long)want);
        ck_assert(want == INT64_MAX || partition_quick_bound(problem) <= want);
        for (int i = 0; i < result.plan_count; i++)
            ck_assert_int_eq(partition_evaluate(problem, &result.plans[i]), result.plans[i].step_ns);
        if (want < INT64_MAX) {
            ck_assert_int_eq(result.plans[0].step_ns, want);
            problem->below_ns = want;
            ck_assert(partition_solve(problem, &b.toy.arena, &none, &err));
            ck_assert(!none.feasible && none.bound_ns == want);
        }
        branched += b.toy.chain.branches != NULL;
        feasible += want < INT64_MAX;
        infeasible += want == INT64_MAX;
        shorter += want < enumerate_plans(problem, NULL);
        arena_free(&b.toy.arena);
    }
    ck_assert_int_gt(branched, 1000 / share);
    ck_assert_int_gt(feasible, 1000 / share);
    ck_assert_int_gt(infeasible, 300 / share);
    ck_assert_int_gt(shorter, 200 / share);
}
END_TEST

/* However little is looked at, bounds hold, with a gap and for bounds alone too. */
START_TEST(little_work_leaves_bounds_that_hold)
{
    uint64_t seed = 78;
    int ended_early = 0, useful = 0;
    for (int n = 0; n < 2000; n++) {
        struct branched b;
        struct error err = { 0 };
        struct partition_result result;
        struct ideal_limits little = { .trial_work = n % 4, .most_work = 1 << n % 16 };
        branched_draw(&b, &seed);
        struct partition_problem *problem = &b.toy.problem;
        int64_t want = enumerate_orders(problem, b.reads, NULL);
        problem->ideal_limits = &little;
        problem->gap_ppm = n % 3 * 5000;
        problem->bound_only = n % 5 == 0 && want < INT64_MAX;
        problem->halves = n % PARTITION_HALVES;
        problem->below_ns = problem->bound_only ? want + want / 100 + 1 : INT64_MAX;
        ck_assert(partition_solve(problem, &b.toy.arena, &result, &err));
        ck_assert_msg(result.bound_ns <= want, "instance %d: bound %lld, brute force %lld", n,
                      (long long)result.bound_ns, (long long)want);
        for (int i = 0; i < result.plan_count; i++) {
            ck_assert_int_eq(partition_evaluate(problem, &result.plans[i]), result.plans[i].step_ns);
            ck_assert_int_ge(result.plans[i].step_ns, want);
        }
        bool early = b.toy.chain.branches && want < INT64_MAX && !problem->bound_only && problem->gap_ppm == 0 &&
                     result.bound_ns < want;
        ended_early += early;
        problem->below_ns = INT64_MAX;
        useful += early && result.bound_ns > partition_quick_bound(problem);
        arena_free(&b.toy.arena);
    }
    ck_assert_int_gt(ended_early, 50);
    ck_assert_int_gt(useful, 3);
}
END_TEST

/* ---- the checker, which lists orders by itself ---- */

static int count_ideals(int layers, const uint64_t *reads)
{
    int count = 0;
    for (uint64_t set = 0; set < UINT64_C(1) << layers; set++) {
        bool closed = true;
        for (int l = 0; l < layers; l++)
            closed = closed && (!(set >> l & 1) || !(reads[l] & ~set));
        count += closed;
    }
    return count;
}

static struct cut_problem cut_of(const struct branched *b, const struct orders *orders,
                                 struct stage_kind stages[CHAIN_STAGES])
{
    const struct partition_problem *p = &b->toy.problem;
    int64_t m = p->micro_batch_count, send_ns = b->toy.table.send_ns;
    for (int k = 0; k < p->stage_count; k++) {
        int64_t n = b->toy.in_flight[k];
        stages[k] = (struct stage_kind){ .table = &b->toy.table,
                                         .capacity_bytes = p->capacity_bytes,
                                         .in_flight = n,
                                         .micro_batches = m,
                                         .waiting_ns = n >= m ? 0 : (2 * send_ns * (n - 1) + n - 1) / n,
                                         .apart = p->phases };
    }
    return (struct cut_problem){ .layer_count = b->toy.chain.layer_count,
                                 .stage_count = p->stage_count,
                                 .class_count = CHAIN_CLASSES,
                                 .class_of = b->toy.class_of,
                                 .orders = orders,
                                 .tied_first = b->toy.chain.tied_first,
                                 .tied_second = b->toy.chain.tied_second,
                                 .stages = stages,
                                 .phases = p->phases,
                                 .once_ns = 2 * send_ns * (p->stage_count - 1) };
}

/* The optimum is never refuted as a bound, more than it never held, and few are left undecided. */
START_TEST(verdicts_are_those_of_enumeration)
{
    uint64_t seed = 5;
    int feasible = 0, undecided = 0;
    for (int n = 0; n < 400; n++) {
        struct branched b;
        struct orders orders;
        struct stage_kind stages[CHAIN_STAGES];
        struct error err = { 0 };
        enum cut_verdict verdict = CUT_UNDECIDED;
        int64_t witness_ns = 0;
        branched_draw(&b, &seed);
        ck_assert(orders_list(&orders, &b.toy.arena, &b.graph, 1000, &err));
        ck_assert_int_eq(orders.count, count_ideals(b.graph.layer_count, b.reads));
        ck_assert_int_eq(orders.count, b.toy.chain.place_count);
        int64_t want = enumerate_orders(&b.toy.problem, b.reads, NULL);
        struct cut_problem problem = cut_of(&b, &orders, stages);
        int64_t bound_ns = want < INT64_MAX ? want : INT64_C(1000000000000);
        bound_ns -= bound_ns / 1000000; /* what the checker leaves to the tolerance of whole counts */
        ck_assert(phases_check(&problem, bound_ns, &verdict, &witness_ns, &err));
        ck_assert_msg(verdict != CUT_REFUTED, "instance %d: refuted a bound that holds, %lld", n, (long long)bound_ns);
        undecided += verdict == CUT_UNDECIDED;
        if (want < INT64_MAX) {
            int64_t more_ns = want + want / 1000 + 3;
            feasible++;
            ck_assert(value_quick_bound(&problem) <= want && !value_lacks_memory(&problem));
            ck_assert(phases_check(&problem, more_ns, &verdict, &witness_ns, &err));
            ck_assert_msg(verdict != CUT_HOLDS, "instance %d: optimum %lld, but the bound %lld is said to hold", n,
                          (long long)want, (long long)more_ns);
            ck_assert(verdict == CUT_UNDECIDED || (witness_ns >= want && witness_ns < more_ns));
            undecided += verdict == CUT_UNDECIDED;
        }
        arena_free(&b.toy.arena);
    }
    ck_assert_int_gt(feasible, 100);
    ck_assert_msg(undecided < 20, "%d of %d are undecided", undecided, 400 + feasible);
}
END_TEST

/* Above the limit the chain stays in the file's order and says so; with one order only there is nothing to say. */
START_TEST(too_many_orders_leave_the_files)
{
    enum { LAYERS = 12 };
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct chain chain;
    int class_of[LAYERS] = { 0 };
    struct dag_edge edges[LAYERS];
    for (int towers = 1; towers <= 4; towers++) {
        int count = 0, ideals = 1, height = LAYERS / towers;
        for (int l = 0; l < LAYERS; l++)
            if (l % height > 0)
                edges[count++] = (struct dag_edge){ l - 1, l };
        for (int t = 0; t < towers; t++)
            ideals *= height + 1;
        for (int most = ideals - 1; most <= ideals; most++) {
            ck_assert(chain_build(&chain, &arena, LAYERS, class_of, 1, -1, -1, &err));
            ck_assert(chain_add_branches(&chain, &arena, edges, count, most, &err));
            bool several = towers > 1, fits = most == ideals;
            ck_assert_int_eq(chain.branches != NULL, several && fits);
            ck_assert_int_eq(chain_ideals(&chain), several ? fits ? ideals : 0 : fits ? -1 : 0);
            ck_assert_int_eq(chain.place_count, several && fits ? ideals : LAYERS + 1);
        }
    }
    arena_free(&arena);
}
END_TEST

/* ---- the graph in another order ---- */

/* The next of the layers that may come next, by whatever seed. */
static void draw_order(const struct graph *graph, uint64_t *seed, int *order)
{
    bool *placed = calloc((size_t)graph->layer_count, sizeof *placed);
    for (int p = 0; p < graph->layer_count; p++) {
        int ready = 0, next = -1;
        for (int l = 0; l < graph->layer_count; l++) {
            bool may = !placed[l];
            for (int i = 0; i < graph->layers[l].input_count; i++)
                may = may && placed[graph->layers[l].input_layers[i]];
            if (may && random_below(seed, ++ready) == 0)
                next = l;
        }
        placed[next] = true;
        order[p] = next;
    }
    free(placed);
}

static const char *const branched_models[] = { "tiny-encdec", "tiny-uvit", "tiny-towers", "t5-small", "resnet-50" };
enum { BRANCHED_MODELS = sizeof branched_models / sizeof *branched_models };

START_TEST(reordered_graphs_are_the_same_model)
{
    struct model *model = model_of_zoo(branched_models[_i]);
    uint64_t seed = (uint64_t)_i + 1;
    for (int n = 0; n < 20; n++) {
        struct graph *file = graph_of(model, 2, 0, 1), *graph = graph_of(model, 2, 0, 1);
        struct error err = { 0 };
        int *order = calloc((size_t)file->layer_count, sizeof *order);
        draw_order(file, &seed, order);
        ck_assert_msg(graph_reorder(graph, order, &err), "%s", err.message);
        int segment = 0;
        for (int p = 0; p < graph->layer_count; p++) {
            const struct graph_layer *here = &graph->layers[p], *there = &file->layers[order[p]];
            ck_assert_str_eq(here->name, there->name);
            ck_assert_int_eq(here->class_index, there->class_index);
            ck_assert_int_eq(here->first_segment, segment);
            for (int i = 0; i < here->input_count; i++)
                ck_assert_int_eq(order[here->input_layers[i]], there->input_layers[i]);
            for (int i = 0; i < here->segment_count; i++, segment++) {
                const struct segment *own = &graph->segments[segment];
                ck_assert_int_eq(own->layer, p);
                ck_assert_str_eq(own->name, file->segments[there->first_segment + i].name);
                for (int k = 0; k < own->in_count; k++) /* a segment reads earlier ones */
                    ck_assert_int_lt(graph->values[own->in[k].id].producer, segment);
                for (int k = 0; k < own->out_count; k++)
                    ck_assert_int_eq(graph->values[own->out[k].id].producer, segment);
            }
        }
        for (int w = 0; w < graph->weight_count; w++)
            ck_assert_str_eq(graph->weights[w].name, file->weights[w].name);
        free(order);
        graph_free(graph);
        graph_free(file);
    }
    model_free(model);
}
END_TEST

START_TEST(bad_orders_are_refused)
{
    static const struct {
        int order[4];
        const char *says;
    } bad[] = {
        { { 0, 1, 2, 4 }, "order: expected layers 0 to 3, found 4" },
        { { 0, 1, 1, 3 }, "order: expected each layer once, found layer 1.mlp twice" },
        { { 1, 0, 2, 3 }, "order: expected layer 0.embedding before layer 1.mlp, which reads it, found it behind" },
    };
    struct model *model =
        model_of_text(BODY("{\"kind\":\"mlp\",\"inner\":8,\"activation\":\"gelu\",\"norm\":\"none\"}"));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct graph *graph = graph_of(model, 1, 0, 1);
        struct error err = { 0 };
        const struct graph_layer *layers = graph->layers;
        ck_assert(!graph_reorder(graph, bad[i].order, &err));
        ck_assert_str_eq(err.message, bad[i].says);
        ck_assert(graph->layers == layers && !graph->order);
        graph_free(graph);
    }
    model_free(model);
}
END_TEST

/* ---- plan files ---- */

#define PLAN_TEXT(order)                                                                                               \
    "{\"format\":\"cleave-plan\",\"version\":1,\"decisions\":{\"batch\":1,\"sequence\":8,\"dtype\":\"fp32\","          \
    "\"schedule\":\"1f1b\",\"micro_batches\":1,\"order\":\"" order                                                     \
    "\",\"stages\":[{\"layers\":\"0-3\",\"atoms\":[1]},"                                                               \
    "{\"layers\":\"4-5\",\"atoms\":[1]}],\"layers\":[{\"layers\":\"0-5\",\"dims\":[\"dp\"]}]}}"

START_TEST(plan_files_keep_the_order)
{
    static const int want[] = { 0, 3, 4, 1, 2, 5 };
    struct plan_file *file = NULL, *again = NULL;
    struct error err = { 0 };
    const char *text = PLAN_TEXT("0,3-4,1-2,5");
    size_t length = 0;
    ck_assert_msg(plan_json_read(&file, "p.json", text, strlen(text), &err), "%s", err.message);
    ck_assert_mem_eq(file->plan->order, want, sizeof want);
    char *written = plan_json_write(file->plan, NULL, NULL, &length);
    ck_assert_ptr_nonnull(strstr(written, "\"order\": \"0,3-4,1-2,5\""));
    ck_assert_msg(plan_json_read(&again, "p.json", written, length, &err), "%s", err.message);
    ck_assert(plan_hash(again->plan) == plan_hash(file->plan));
    struct plan *copy = plan_copy(file->plan);
    ck_assert(plan_hash(copy) == plan_hash(file->plan));
    copy->order = NULL;
    ck_assert(plan_hash(copy) != plan_hash(file->plan));
    plan_free(copy);
    free(written);
    plan_file_free(again);
    plan_file_free(file);
    const char *files = PLAN_TEXT("0-2,3-5");
    ck_assert(plan_json_read(&file, "p.json", files, strlen(files), &err));
    ck_assert_ptr_null(file->plan->order);
    plan_file_free(file);
}
END_TEST

START_TEST(bad_orders_in_files_are_refused)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        { PLAN_TEXT("0-2,4-5"), "expected each of the 6 layers once, found 5 of them" },
        { PLAN_TEXT("0-2,2-5"), "expected each of the layers 0 to 5 once, found layer 2 twice" },
        { PLAN_TEXT("0-6"), "expected each of the layers 0 to 5 once, found layer 6" },
        { PLAN_TEXT("0-99999999999999999999"), "expected each of the layers 0 to 5 once, found layer 6" },
        { PLAN_TEXT("0-2,"), "expected ranges of layers such as \"0-3,8-11,4-7\", found \"0-2,\"" },
        { PLAN_TEXT("2-0,3-5"), "expected ranges of layers such as \"0-3,8-11,4-7\", found \"2-0,3-5\"" },
        { PLAN_TEXT("0--5"), "expected ranges of layers such as \"0-3,8-11,4-7\", found \"0--5\"" },
        { PLAN_TEXT("a"), "expected ranges of layers such as \"0-3,8-11,4-7\", found \"a\"" },
        { PLAN_TEXT(""), "expected each of the 6 layers once, found 0 of them" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct plan_file *file = NULL;
        struct error err = { 0 };
        ck_assert_msg(!plan_json_read(&file, "p.json", bad[i].text, strlen(bad[i].text), &err), "%s", bad[i].text);
        ck_assert_msg(strstr(err.message, bad[i].says) != NULL, "%s: %s", bad[i].text, err.message);
    }
}
END_TEST

/* ---- two towers that no interval of the file's order cuts evenly ---- */

/* Three times as wide on the left: the file's order has the left tower's work first, so that one stage of two has
 * five eighths of it at least, while a layer of each tower is half. */
#define UNEVEN_TOWERS                                                                                                  \
    TINY_HEAD("uneven-towers", "false")                                                                                \
    "{\"kind\": \"embedding\", \"name\": \"left\", \"stream\": \"source\"}, {\"repeat\": 2, \"layers\": ["             \
    "{\"kind\": \"mlp\", \"name\": \"wide\", \"inner\": 768, \"activation\": \"gelu\", \"norm\": \"layer_norm\"}]}, "  \
    "{\"kind\": \"embedding\", \"name\": \"right\"}, {\"repeat\": 2, \"layers\": ["                                    \
    "{\"kind\": \"mlp\", \"name\": \"narrow\", \"inner\": 256, \"activation\": \"gelu\", \"norm\": "                   \
    "\"layer_norm\"}]}, "                                                                                              \
    "{\"kind\": \"concat\", \"inputs\": [\"wide\", \"narrow\"]}, "                                                     \
    "{\"kind\": \"head\", \"norm\": \"rms_norm\"}, {\"kind\": \"loss\"}]}"

static struct cluster *slow_cluster(void)
{
    static const char text[] =
        "{\"description\": \"slow\", \"source\": \"this test\", \"matmul_flops_per_s\": {\"fp32\": 1e9}, "
        "\"matmul_efficiency\": 1, \"attention_forward_efficiency\": 1, \"attention_backward_efficiency\": 1, "
        "\"vector_flops_per_s\": 1e11, \"memory_bytes_per_s\": 1e12, \"memory_bytes\": 1000000000, \"launch_ns\": 10, "
        "\"link_bytes_per_s\": 1e10, \"link_latency_ns\": 1000, \"nic_bytes_per_s\": 1e10, \"nic_latency_ns\": 1000}";
    struct catalogue_entry entry = { "slow", text, strlen(text) };
    struct cluster *cluster = NULL;
    struct error err = { 0 };
    ck_assert_msg(cluster_read(&cluster, "1x2:slow", "1x2:slow", 8, &entry, 1, &err), "%s", err.message);
    return cluster;
}

/* All of the file's order with the same decisions; returns the shortest. */
static int64_t best_interval_ns(const struct model *model, const struct plan *plan, const struct facts *facts)
{
    int64_t best = INT64_MAX;
    for (int cut = 1; cut < plan->layer_count; cut++) {
        struct plan *other = plan_copy(plan);
        other->order = NULL;
        other->stages[0].layer_count = other->stages[1].first_layer = cut;
        other->stages[1].layer_count = plan->layer_count - cut;
        best = min_i64(best, simulated_step_ns("cut by hand", model, other, facts));
        plan_free(other);
    }
    return best;
}

/* Of the one configuration, by the formula. */
static int64_t best_line_ns(const struct model *model, const struct facts *facts, const struct search_options *options)
{
    struct workbench bench;
    struct config *configs = NULL;
    struct arena arena = { 0 };
    struct error err = { 0 };
    const struct price_table *table = NULL;
    struct partition_result result;
    int count = 0;
    ck_assert(workbench_open(&bench, model, facts, &options->space, &err) &&
              space_configs(&configs, &count, &arena, &options->space, bench.graph, facts->cluster, &err));
    ck_assert_int_eq(count, 1);
    ck_assert(workbench_table(&bench, &configs[0], false, &table, &err));
    struct partition_problem problem =
        workbench_problem(&bench, &configs[0], table, workbench_in_flight(&arena, &configs[0]));
    problem.chain = &bench.line;
    ck_assert(partition_solve(&problem, &arena, &result, &err) && result.feasible);
    workbench_close(&bench);
    arena_free(&arena);
    return result.bound_ns;
}

START_TEST(towers_are_cut_across)
{
    struct model *model = model_of_text(UNEVEN_TOWERS);
    struct cluster *cluster = slow_cluster();
    struct facts facts = { .cluster = cluster };
    struct search_options options = { .space = space_default(TINY_BATCH, 0, DTYPE_FP32), .top = 1, .no_advice = true };
    struct search_result *result = NULL;
    struct error err = { 0 };
    options.space.stages = (struct allowed){ 1, { 2 } };
    options.space.micro = options.space.tensor = options.space.prefetch = (struct allowed){ 1, { 1 } };
    options.space.schedule = (struct allowed){ 1, { 0 } };
    ck_assert_msg(search_run(&result, model, &facts, &options, &err), "%s", err.message);
    struct plan *plan = plan_copy(result->plans[0].plan);
    ck_assert_ptr_nonnull(plan->order);
    ck_assert_int_gt(result->certificate.ideals, plan->layer_count + 1);
    int64_t line_ns = best_line_ns(model, &facts, &options), interval_ns = best_interval_ns(model, plan, &facts),
            step_ns = simulated_step_ns("free order", model, plan, &facts);
    ck_assert_msg(result->certificate.best_ns < line_ns - line_ns / 10,
                  "formula: %lld in all orders, %lld in the file's", (long long)result->certificate.best_ns,
                  (long long)line_ns);
    ck_assert_msg(step_ns < interval_ns - interval_ns / 10, "simulated: %lld ns, best interval %lld",
                  (long long)step_ns, (long long)interval_ns);

    struct reference r = make_reference(UNEVEN_TOWERS, 1);
    struct reference moved = r;
    plan->vocab_multiple = TINY_VOCAB_MULTIPLE, plan->dtype = DTYPE_FP64, plan->clip_norm = 1;
    ck_assert_msg(plan_graph(&moved.graph, model, plan, &err), "%s", err.message);
    check_plan(&moved, plan, 0);
    graph_free(moved.graph);
    free_reference(&r);
    plan_free(plan);
    search_result_free(result);
    cluster_free(cluster);
    model_free(model);
}
END_TEST

static Suite *orders_suite(void)
{
    Suite *suite = suite_create("orders");
    CHECK_ADD_LOOP(suite, cuts_equal_enumeration_over_all_orders, WAYS_TO_LOOK);
    CHECK_ADD(suite, little_work_leaves_bounds_that_hold);
    CHECK_ADD(suite, verdicts_are_those_of_enumeration);
    CHECK_ADD(suite, too_many_orders_leave_the_files);
    CHECK_ADD_LOOP(suite, reordered_graphs_are_the_same_model, BRANCHED_MODELS);
    CHECK_ADD(suite, bad_orders_are_refused);
    CHECK_ADD(suite, plan_files_keep_the_order);
    CHECK_ADD(suite, bad_orders_in_files_are_refused);
    CHECK_ADD(suite, towers_are_cut_across);
    return suite;
}

CHECK_MAIN(orders_suite)
