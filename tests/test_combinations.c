/* Every legal pair of rows (tests/combinations.h) stands in a plan that runs and computes what its definition says: of
 * a synchronous schedule what one rank computes, of an asynchronous one what its sequential emulation does. Every other
 * pair is refused before anything runs, and the message names both rows.
 *
 * test_combinations full: instead of the covering array the whole product of dimension, schedule, model, ZeRO stage and
 * recomputation; prints how many of each dimension and schedule agree and how many are refused, as JSON. */
#include "tests/combinations.h"
#include "tests/oracle_reference.h"
#include "tests/steady_emulation.h"
#include "models/layer_kind.h"
#include "formats/plan_file.h"
#include "tests/random_numbers.h"
#include <stdio.h>

/* All pairs, and the combinations that hold the legal ones. They take longer to find than most take to run, so they are
 * found once, before each test begins in a process of its own. */
static struct {
    struct combination_graphs graphs;
    struct combination_pairs pairs;
    struct combination *array;
    int count;
} whole;

static void whole_open(void)
{
    combination_graphs_open(&whole.graphs);
    combination_pairs_open(&whole.pairs, &whole.graphs);
    whole.array = covering_array(&whole.graphs, &whole.pairs, &whole.count);
}

static void whole_close(void)
{
    free(whole.array);
    combination_pairs_close(&whole.pairs);
    combination_graphs_close(&whole.graphs);
}

/* What one rank computes of a model, with and without clipping; made when it is first asked for. */
struct references {
    struct reference of[2];
    bool made[2];
};

static const struct reference *reference_of(struct references *r, int model, int clip)
{
    if (!r->made[clip])
        r->of[clip] = make_reference(combination_model(model), clip);
    r->made[clip] = true;
    return &r->of[clip];
}

static void references_close(struct references *r)
{
    for (int clip = 0; clip < 2; clip++)
        if (r->made[clip])
            free_reference(&r->of[clip]);
}

static void run_asynchronous(const struct plan *plan, const struct program *program, int model, const char *name)
{
    struct emulation e;
    struct steady_record record;
    emulation_open(&e, combination_model(model), TINY_BATCH, plan->micro_batch_count);
    run_steady(&record, &e, program, emulate(&e, plan), false);
    check_steady(&record, &e, name);
    emulation_close(&e);
}

/* Lowers, verifies, runs, compares. Layers of given costs cannot be computed: their programs are verified. */
static void check_combination(const struct combination_graphs *graphs, struct references *references,
                              const struct combination *c)
{
    int model = c->row[COLUMN_MODEL];
    const char *name = combination_name(graphs, c);
    struct error error = { 0 };
    char why[4096];
    struct plan *plan = combination_plan(graphs, c);
    const struct reference *r = model == COMBINATION_OPAQUE || model == COMBINATION_PLANNED
                                    ? NULL
                                    : reference_of(references, model, c->row[COLUMN_CLIPPING]);
    struct program *program = tiny_lower(r ? r->graph : graphs->of[model], plan, &error);
    ck_assert_msg(program != NULL, "%s: %s", name, error.message);
    if (r && schedules[plan->schedule]->asynchronous)
        run_asynchronous(plan, program, model, name);
    else if (r)
        ck_assert_msg(run_and_compare(r, program, 0, -1, why, sizeof why), "%s: %s", name, why);
    program_free(program);
    plan_free(plan);
}

/* The combinations of one model. Only a small share of all cases leaves pairs out. */
START_TEST(pairs_agree)
{
    struct references references = { .made = { false } };
    for (int i = 0; i < whole.count; i++)
        if (whole.array[i].row[COLUMN_MODEL] == _i && (!small_share() || in_share((uint64_t)i)))
            check_combination(&whole.graphs, &references, &whole.array[i]);
    references_close(&references);
}
END_TEST

static bool stands(const struct combination *array, int count, int a, int row_a, int b, int row_b)
{
    for (int i = 0; i < count; i++)
        if (array[i].row[a] == row_a && array[i].row[b] == row_b)
            return true;
    return false;
}

START_TEST(each_legal_pair_stands_in_the_array)
{
    int legal = 0, refused = 0;
    for (int i = 0; i < whole.count; i++) {
        struct error error = { 0 };
        ck_assert_msg(combination_verdict(&whole.graphs, &whole.array[i], &error) == PLAN_LEGAL, "%s: %s",
                      combination_name(&whole.graphs, &whole.array[i]), error.message);
    }
    for (int a = 0; a < COLUMN_COUNT; a++)
        for (int b = a + 1; b < COLUMN_COUNT; b++)
            for (int i = 0; i < row_count((enum column)a); i++)
                for (int j = 0; j < row_count((enum column)b); j++) {
                    bool is_legal = pair_of(&whole.pairs, (enum column)a, i, (enum column)b, j)->verdict == PLAN_LEGAL;
                    ck_assert_msg(stands(whole.array, whole.count, a, i, b, j) == is_legal, "%s row %d with %s row %d",
                                  column_name((enum column)a), i, column_name((enum column)b), j);
                    legal += is_legal, refused += !is_legal;
                }
    ck_assert_int_gt(legal, 50 * refused); /* hardly any rows exclude each other */
}
END_TEST

/* A plan file with the pair is refused as the plan is. */
static void check_file(const struct combination_graphs *graphs, const struct pair_verdict *pair)
{
    struct error error = { 0 };
    const struct graph *graph = graphs->of[pair->example.row[COLUMN_MODEL]];
    struct plan *plan = combination_plan(graphs, &pair->example);
    struct plan_file *file = NULL;
    size_t length;
    char *text = plan_json_write(plan, NULL, NULL, &length);
    bool legal = plan_json_read(&file, "plan.json", text, length, &error) && plan_check(file->plan, graph, &error);
    ck_assert_msg(!legal && error.kind == ERROR_INPUT, "%s", text);
    plan_file_free(file);
    plan_free(plan);
    free(text);
}

START_TEST(refused_pairs_are_named)
{
    for (int a = 0; a < COLUMN_COUNT; a++)
        for (int b = a + 1; b < COLUMN_COUNT; b++)
            for (int i = 0; i < row_count((enum column)a); i++)
                for (int j = 0; j < row_count((enum column)b); j++) {
                    const struct pair_verdict *pair = pair_of(&whole.pairs, (enum column)a, i, (enum column)b, j);
                    if (pair->verdict != PLAN_REFUSED)
                        continue;
                    ck_assert_int_eq(pair->error.kind, ERROR_INPUT);
                    ck_assert_msg(pair->names_both, "%s row %d with %s row %d: %s", column_name((enum column)a), i,
                                  column_name((enum column)b), j, pair->error.message);
                    check_file(&whole.graphs, pair);
                }
}
END_TEST

START_TEST(each_layer_kind_stands_in_a_model)
{
    for (int k = 0; layer_kinds[k]; k++) {
        char wanted[128];
        bool found = false;
        snprintf(wanted, sizeof wanted, "\"kind\": \"%s\"", layer_kinds[k]->name);
        for (int m = 0; m < COMBINATION_MODELS && !found; m++)
            found = strstr(combination_model(m), wanted) != NULL;
        ck_assert_msg(found, "layer kind %s: no model of tests/tiny_models.h has it", layer_kinds[k]->name);
    }
}
END_TEST

static bool has_matrix(const struct graph *graph, const struct segment *segment)
{
    bool matrix = false, norm = segment->kernel == KERNEL_LAYER_NORM || segment->kernel == KERNEL_RMS_NORM;
    for (int w = 0; w < segment->weight_count; w++)
        matrix |= graph->weights[segment->weight[w].id].dim_count > 1;
    return matrix && !strstr(segment->name, "_lora_") && segment->kernel != KERNEL_BIASED_ATTENTION && !norm &&
           (segment->kernel == KERNEL_MATMUL || !kernel_facts[segment->kernel].planned);
}

/* But for adapters, tables of biases and gains of norms, which may have some for each head, and what scans have. */
START_TEST(what_has_a_matrix_is_an_operator)
{
    uint64_t found = 0;
    for (int m = 0; m < COMBINATION_MODELS; m++) {
        struct graph *graph = tiny_graph(combination_model(m));
        for (int i = 0; i < graph->segment_count; i++) {
            const struct segment *segment = &graph->segments[i];
            ck_assert_msg(((segment->operators & OPERATORS_ALL) != 0) == has_matrix(graph, segment),
                          "%s of %s (models/operators.def)", segment->name, graph->layers[segment->layer].kind);
            found |= segment->operators;
        }
        graph_free(graph);
    }
    for (int i = 0; i < OPERATOR_NAMES; i++)
        ck_assert_msg(found >> i & 1, "operator %s: no model of tests/tiny_models.h has it", operator_names[i]);
}
END_TEST

/* ---- the whole product ---- */
static struct {
    int agree, refused;
} product[DIM_COUNT][64]; /* [dimension][schedule]; one process runs it all */

/* What is no factor of the product takes turns with the number. */
static struct combination member(struct combination c, int dimension, uint64_t number)
{
    bool alone = draw(&number, 3) == 0;
    for (int column = COLUMN_STAGES; column < COLUMN_COUNT; column++)
        c.row[column] = (int)draw(&number, (uint64_t)row_count((enum column)column));
    c.row[COLUMN_DIMENSION] = alone ? dimension : (int)draw(&number, DIM_COUNT);
    c.row[COLUMN_INNER] = alone ? DIM_COUNT : dimension;
    c.row[COLUMN_OTHER] = alone ? DIM_COUNT : draw(&number, 2) ? dimension : (int)draw(&number, DIM_COUNT);
    return c;
}

enum { MEMBER_TRIES = 4000 };

/* Whether two rows of the product's factors exclude each other. */
static bool holds_refused_pair(const struct combination_pairs *pairs, const struct combination *c)
{
    for (int a = COLUMN_SCHEDULE; a <= COLUMN_RECOMPUTE; a++)
        for (int b = a + 1; b <= COLUMN_RECOMPUTE; b++)
            if (pair_of(pairs, (enum column)a, c->row[a], (enum column)b, c->row[b])->verdict == PLAN_REFUSED)
                return true;
    return false;
}

/* The first legal member of some. */
static bool find_member(const struct combination_graphs *graphs, struct combination *c, int dimension, uint64_t number)
{
    for (uint64_t try = 0; try < MEMBER_TRIES; try++) {
        struct error error = { 0 };
        struct combination tried = member(*c, dimension, number * MEMBER_TRIES + try);
        if (combination_verdict(graphs, &tried, &error) == PLAN_LEGAL) {
            *c = tried;
            return true;
        }
    }
    return false;
}

static void run_model(const struct combination_graphs *graphs, const struct combination_pairs *pairs, int model)
{
    struct references references = { .made = { false } };
    for (int dimension = 0; dimension < DIM_COUNT; dimension++)
        for (int schedule = 0; schedules[schedule]; schedule++)
            for (int zero = 0; zero < row_count(COLUMN_ZERO); zero++)
                for (int recompute = 0; recompute < RECOMPUTE_COUNT; recompute++) {
                    struct combination c = { { 0 } };
                    c.row[COLUMN_SCHEDULE] = schedule, c.row[COLUMN_MODEL] = model;
                    c.row[COLUMN_ZERO] = zero, c.row[COLUMN_RECOMPUTE] = recompute;
                    uint64_t number =
                        (uint64_t)((((dimension * 64 + schedule) * 64 + model) * 4 + zero) * 4 + recompute);
                    if (holds_refused_pair(pairs, &c)) {
                        product[dimension][schedule].refused++;
                        continue;
                    }
                    ck_assert_msg(find_member(graphs, &c, dimension, number), "%s: no legal plan was found",
                                  combination_name(graphs, &c));
                    check_combination(graphs, &references, &c);
                    product[dimension][schedule].agree++;
                }
    references_close(&references);
}

START_TEST(the_whole_product_agrees)
{
    for (int model = 0; model < COMBINATION_MODELS; model++)
        run_model(&whole.graphs, &whole.pairs, model);
}
END_TEST

static void write_product(FILE *file)
{
    fprintf(file,
            "{\n  \"command\": \"build/tests/test_combinations full benchmarks/results/combinations.json\",\n"
            "  \"factors\": {\"dimensions\": %d, \"schedules\": %d, \"models\": %d, \"ZeRO\": %d, "
            "\"recomputation\": %d},\n"
            "  \"results\": [",
            DIM_COUNT, row_count(COLUMN_SCHEDULE), COMBINATION_MODELS, row_count(COLUMN_ZERO), RECOMPUTE_COUNT);
    for (int d = 0; d < DIM_COUNT; d++)
        for (int s = 0; schedules[s]; s++)
            fprintf(file, "%s\n    {\"dimension\": \"%s\", \"schedule\": \"%s\", \"agree\": %d, \"refused\": %d}",
                    d + s > 0 ? "," : "", dimensions[d]->name, schedules[s]->name, product[d][s].agree,
                    product[d][s].refused);
    fprintf(file, "\n  ]\n}\n");
}

/* All or nothing: a product that disagrees leaves no table. */
static int full_main(const char *path)
{
    Suite *suite = suite_create("combinations: the whole product");
    CHECK_ADD(suite, the_whole_product_agrees);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_ENV);
    bool ok = srunner_ntests_failed(runner) == 0;
    srunner_free(runner);
    FILE *file = ok && path ? fopen(path, "w") : NULL;
    if (file)
        write_product(file);
    return ok && (!path || (file && fclose(file) == 0)) ? EXIT_SUCCESS : EXIT_FAILURE;
}

static Suite *combinations_suite(void)
{
    Suite *suite = suite_create("combinations");
    CHECK_ADD(suite, each_layer_kind_stands_in_a_model);
    CHECK_ADD(suite, what_has_a_matrix_is_an_operator);
    CHECK_ADD(suite, each_legal_pair_stands_in_the_array);
    CHECK_ADD(suite, refused_pairs_are_named);
    CHECK_ADD_LOOP(suite, pairs_agree, COMBINATION_MODELS);
    return suite;
}

int main(int argc, char **argv)
{
    whole_open();
    bool full = argc > 1 && strcmp(argv[1], "full") == 0;
    int status = full ? full_main(argc > 2 ? argv[2] : NULL) : oracle_main(combinations_suite());
    whole_close();
    return status;
}
