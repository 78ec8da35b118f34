/* Published inputs of other planners: our optimum is theirs or better, under their objective. The numbers were computed
 * with the peers' own released code. */
#include "peers/dnn.h"
#include "peers/pipedream.h"
#include "peers/piper.h"
#include "tests/check.h"
#include <stdio.h>
#include <string.h>

static const struct stage_limits no_limits = { 0 };

static const char *read_input(const char *name, struct arena *arena, size_t *length)
{
    char path[512];
    snprintf(path, sizeof path, SOURCE_ROOT "/benchmarks/cases/peers/%s", name);
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "cannot open %s", path);
    fseek(file, 0, SEEK_END);
    *length = (size_t)ftell(file);
    rewind(file);
    char *text = arena_alloc(arena, *length + 1, 1);
    ck_assert_ptr_nonnull(text);
    ck_assert_uint_eq(fread(text, 1, *length, file), *length);
    fclose(file);
    return text;
}

/* digits: half a unit of the last place that was published. */
static void check_row(const char *what, const struct stage_plan *found, double evaluated, double published,
                      double digits)
{
    ck_assert_msg(found->feasible && found->optimal, "%s: no proven optimum", what);
    ck_assert_msg(evaluated <= published * (1 + 1e-9) + digits, "%s: %.17g, the peer %.17g", what, evaluated,
                  published);
    CHECK_NEAR(found->value, evaluated, 1e-9 * evaluated);
    ck_assert_msg(found->bound <= evaluated * (1 + 1e-9), "%s: bound %.17g above %.17g", what, found->bound, evaluated);
}

/* ---- PipeDream ---- */

enum { F4, F8, F16, A, B, CLUSTERS };
static const struct pipedream_options clusters[CLUSTERS] = {
    [F4] = { 1, { 4 }, { 1e9 }, false },
    [F8] = { 1, { 8 }, { 1e9 }, false },
    [F16] = { 1, { 16 }, { 1e9 }, false },
    [A] = { 2, { 4, 4 }, { 10e9, 1.25e9 }, false },
    [B] = { 2, { 8, 2 }, { 30e9, 3.125e9 }, false },
};
static const struct {
    const char *name;
    double published[CLUSTERS]; /* INFINITY: the peer did not finish */
} profiles[] = {
    { "vgg16", { .205520896, .10383317028571429, .05652976738461539, .06713399693333331, .06576668672 } },
    { "alexnet", { .03421714133333333, .018874368, .018874368, .0150994944, .0096825656 } },
    { "resnet18", { .100004036, .05078332704, .025690112, .0234932072, .01835906459755102 } },
    { "resnet50", { .162880924, .092012272, .04780134530612245, .0432084692, .03198874692266666 } },
    /* F4: 116555 us of computing on one machine, which the peer printed as 0.11655499999999999 */
    { "resnet101", { .116555, .096591656, .051380224, INFINITY, INFINITY } },
    { "densenet121", { .089976, .04711841152, .024545866666666666, .024614632, INFINITY } },
    { "gnmt", { .025868, .019285, .019285, .011081, .008859966637037038 } },
};

START_TEST(pipedream_is_matched)
{
    char name[64], what[96];
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct pipedream_graph graph;
    snprintf(name, sizeof name, "pipedream/%s.txt", profiles[_i].name);
    size_t length;
    const char *text = read_input(name, &arena, &length);
    ck_assert_msg(pipedream_read(&graph, name, text, length, &arena, &err), "%s", err.message);
    for (int c = 0; c < CLUSTERS; c++) {
        struct pipedream_plan plan;
        ck_assert_msg(pipedream_solve(&graph, &clusters[c], &no_limits, &arena, &plan, &err), "%s", err.message);
        double value = pipedream_evaluate(&plan.graph, &clusters[c], plan.stages, plan.found.stage_count, &arena);
        snprintf(what, sizeof what, "%s on cluster %d", name, c);
        check_row(what, &plan.found, value, profiles[_i].published[c], 0);
    }
    arena_free(&arena);
}
END_TEST

/* The peer counts at each cut at least what crosses it, so that counting exactly is never slower. */
START_TEST(exact_transfers_are_never_more)
{
    char name[64];
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct pipedream_graph graph;
    struct pipedream_plan peer, exact;
    size_t length;
    snprintf(name, sizeof name, "pipedream/%s.txt", profiles[_i].name);
    const char *text = read_input(name, &arena, &length);
    struct pipedream_options options = clusters[F16];
    ck_assert_msg(pipedream_read(&graph, name, text, length, &arena, &err), "%s", err.message);
    ck_assert_msg(pipedream_solve(&graph, &options, &no_limits, &arena, &peer, &err), "%s", err.message);
    options.exact_transfers = true;
    ck_assert_msg(pipedream_solve(&graph, &options, &no_limits, &arena, &exact, &err), "%s", err.message);
    double value = pipedream_evaluate(&exact.graph, &options, exact.stages, exact.found.stage_count, &arena);
    check_row(name, &exact.found, value, peer.found.value, 0);
    arena_free(&arena);
}
END_TEST

/* ---- Piper ---- */

static const double infeasible = -1;
static const struct {
    const char *name;
    double gib;
    int devices;
    double published; /* nine decimals of seconds */
} piper_rows[] = {
    { "bert32a100", 8, 8, .165855750 },    { "bert32a100", 8, 32, .041515450 },
    { "bert32a100", 8, 64, .020200550 },   { "bert32a100", 8, 128, .010120880 },
    { "bert32a100", 8, 1024, .001303180 }, { "bert32a100", 2, 64, .032030081 },
    { "bert32a100", 2, 512, .003667526 },  { "bert32a100", 80, 8, .122007269 },
    { "bert32a100", 80, 64, .015650178 },  { "bert32a100", 1, 8, infeasible },
    { "bert32a100", 1, 64, infeasible },   { "bert32a100", 2, 8, infeasible },
    { "resnet", 4, 8, 73.493286 },         { "resnet", 16, 8, 58.557709976 },
    { "resnet", 4, 16, 35.333437509 },     { "resnet", 8, 16, 31.634394268 },
    { "resnet", 1.5, 32, 50.977195313 },   { "resnet", 4, 32, 17.420132820 }, /* the peer: 17.623958490 */
    { "resnet", 8, 32, 15.758026065 },     { "resnet", 2, 64, 11.333790294 },
    { "resnet", 1.5, 16, infeasible },     { "resnet", 1, 64, infeasible },
};

static void read_piper(const char *input, struct piper_graph *graph, struct arena *arena)
{
    char name[64];
    struct error err = { 0 };
    size_t length;
    snprintf(name, sizeof name, "piper/%s.json", input);
    const char *text = read_input(name, arena, &length);
    ck_assert_msg(piper_read(graph, name, text, length, arena, &err), "%s", err.message);
    graph->bytes_per_s = 25 * 0x1p30;
}

START_TEST(piper_is_matched)
{
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct piper_graph graph;
    struct piper_plan plan;
    struct piper_options options = { 1 };
    char what[96];
    read_piper(piper_rows[_i].name, &graph, &arena);
    graph.memory_bytes = piper_rows[_i].gib * 0x1p30;
    graph.device_count = piper_rows[_i].devices;
    ck_assert_int_eq(graph.micro_batch_count, strcmp(piper_rows[_i].name, "resnet") ? 1920 : 7680);
    snprintf(what, sizeof what, "%s, %g GiB, %d devices", piper_rows[_i].name, piper_rows[_i].gib,
             piper_rows[_i].devices);
    ck_assert_msg(piper_solve(&graph, &options, &no_limits, &arena, &plan, &err), "%s: %s", what, err.message);
    if (piper_rows[_i].published < 0) {
        ck_assert_msg(!plan.found.feasible && plan.found.exhausted, "%s: expected nothing to fit", what);
    } else {
        double value = piper_evaluate(&graph, &options, plan.stages, plan.found.stage_count);
        check_row(what, &plan.found, value, piper_rows[_i].published, 0.5e-9);
    }
    arena_free(&arena);
}
END_TEST

/* Times read as milliseconds: what moves then weighs a thousand times more, so that the optimum lies between a
 * thousandth of the other one and that with the other plan's messages in full. */
START_TEST(piper_in_milliseconds)
{
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct piper_graph graph;
    struct piper_plan plan, corrected;
    struct piper_options seconds = { 1 }, milliseconds = { 1e-3 };
    read_piper("resnet", &graph, &arena);
    graph.memory_bytes = 16 * 0x1p30;
    graph.device_count = 8;
    ck_assert_msg(piper_solve(&graph, &seconds, &no_limits, &arena, &plan, &err), "%s", err.message);
    ck_assert_msg(piper_solve(&graph, &milliseconds, &no_limits, &arena, &corrected, &err), "%s", err.message);
    double value = piper_evaluate(&graph, &milliseconds, corrected.stages, corrected.found.stage_count);
    double other = piper_evaluate(&graph, &milliseconds, plan.stages, plan.found.stage_count);
    check_row("resnet in milliseconds", &corrected.found, value, other, 0);
    ck_assert(value > plan.found.value * 1e-3);
    arena_free(&arena);
}
END_TEST

/* ---- dnn-partitioning: exact on their side too, so equal ---- */

static const struct {
    const char *name;
    double published;
} dnn_rows[] = {
    { "LayerGraphs_bert24_inference", 17.78990625 },
    { "LayerGraphs_bert24_training", 41.7458125 },
    { "LayerGraphs_gnmt_inference", 32.910658203124996 },
    { "LayerGraphs_gnmt_training", 107.0044140625 },
    { "LayerGraphs_resnet50_inference", 33.774666015625 },
    { "LayerGraphs_resnet50_training", 78.6318125 },
    { "OperatorGraphs_resnet50_inference", 124.34884977404485 },
    { "OperatorGraphs_resnet50_training", 255.19441645217392 },
    { "OperatorGraphs_bert_l-3_inference", 27.9185676799125 },
    { "OperatorGraphs_bert_l-3_training", 65.30314912208605 },
};

START_TEST(dnn_is_matched)
{
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct dnn_graph graph;
    struct dnn_plan plan;
    char name[96];
    size_t length;
    snprintf(name, sizeof name, "dnn-partitioning/%s.json", dnn_rows[_i].name);
    const char *text = read_input(name, &arena, &length);
    ck_assert_msg(dnn_read(&graph, name, text, length, &arena, &err), "%s", err.message);
    ck_assert_msg(dnn_solve(&graph, &no_limits, &arena, &plan, &err), "%s", err.message);
    double value = dnn_evaluate(&graph, plan.stages, plan.found.stage_count);
    check_row(name, &plan.found, value, dnn_rows[_i].published, 0);
    CHECK_NEAR(value, dnn_rows[_i].published, 1e-9 * value);
    arena_free(&arena);
}
END_TEST

/* Of inception_v3 the peer has no answer: 221,565 ideals. On one level all of them are looked at, and where only a
 * tenth may be, wider and wider parts of them give a better plan than the first one. */
static void solve_inception(const struct pipedream_options *cluster, const struct stage_limits *limits,
                            struct stage_plan *found)
{
    const char *name = "pipedream/inception_v3.txt";
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct pipedream_graph graph;
    struct pipedream_plan plan;
    size_t length;
    const char *text = read_input(name, &arena, &length);
    ck_assert_msg(pipedream_read(&graph, name, text, length, &arena, &err), "%s", err.message);
    ck_assert_msg(pipedream_solve(&graph, cluster, limits, &arena, &plan, &err), "%s", err.message);
    double value = pipedream_evaluate(&plan.graph, cluster, plan.stages, plan.found.stage_count, &arena);
    CHECK_NEAR(plan.found.value, value, 1e-9 * value);
    *found = plan.found;
    found->stages = NULL;
    arena_free(&arena);
}

START_TEST(inception_is_proven)
{
    static const double optimum[] = { [F4] = .226585532, [F8] = .119514656, [F16] = .064884844 };
    struct stage_plan found;
    solve_inception(&clusters[_i], &no_limits, &found);
    ck_assert_msg(found.optimal, "cluster %d: bound %.9g of %.9g", _i, found.bound, found.value);
    CHECK_NEAR(found.value, optimum[_i], 1e-9);
}
END_TEST

START_TEST(too_many_ideals_are_widened)
{
    const struct stage_limits first = { .ideals = 500 }, wider = { .ideals = 20000 };
    struct stage_plan narrow, found;
    solve_inception(&clusters[F16], &first, &narrow);
    solve_inception(&clusters[F16], &wider, &found);
    ck_assert(narrow.feasible && !narrow.optimal && found.feasible && !found.optimal);
    ck_assert_msg(found.value < narrow.value * (1 - 1e-6), "%.9g, at first %.9g", found.value, narrow.value);
}
END_TEST

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))
static Suite *peers(void)
{
    Suite *s = suite_create("partition_peers");
    CHECK_ADD_LOOP(s, pipedream_is_matched, COUNT(profiles));
    CHECK_ADD_LOOP(s, exact_transfers_are_never_more, COUNT(profiles));
    CHECK_ADD_LOOP(s, piper_is_matched, COUNT(piper_rows));
    CHECK_ADD(s, piper_in_milliseconds);
    CHECK_ADD_LOOP(s, dnn_is_matched, COUNT(dnn_rows));
    CHECK_ADD_LOOP(s, inception_is_proven, F16 + 1);
    CHECK_ADD(s, too_many_ideals_are_widened);
    return s;
}

CHECK_MAIN(peers)
