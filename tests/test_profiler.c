/* The profiler: its arithmetic on made-up numbers, its programs against the whole model's, and a real measurement of a
 * tiny model. */
#define _GNU_SOURCE
#include "executor/comm_threads.h"
#include "planner/cost/cost.h"
#include "planner/lower/lower.h"
#include "planner/program/geometry.h"
#include "planner/space/space.h"
#include "profiler/compute.h"
#include "profiler/contention.h"
#include "profiler/fit.h"
#include "profiler/profiler.h"
#include "profiler/sweep.h"
#include "tests/model_files.h"
#include <sched.h>

/* ---- samples ---- */
START_TEST(medians_and_spreads_are_exact)
{
    struct samples samples = { 0 };
    struct error err = { 0 };
    const double odd[] = { 50, 10, 40, 20, 30 }, even[] = { 4, 1, 3, 2 };
    for (int i = 0; i < 5; i++)
        ck_assert(samples_add(&samples, "odd", odd[i], &err));
    for (int i = 0; i < 4; i++)
        ck_assert(samples_add(&samples, "even", even[i], &err));
    CHECK_NEAR(series_median(samples_find(&samples, "odd")), 30, 0);
    CHECK_NEAR(series_spread(samples_find(&samples, "odd")), 20.0 / 30, 1e-15);
    CHECK_NEAR(series_error(samples_find(&samples, "odd")), 1.25 * 20.0 / 30 / sqrt(5), 1e-15);
    CHECK_NEAR(series_median(samples_find(&samples, "even")), 2.5, 0);
    CHECK_NEAR(series_spread(samples_find(&samples, "even")), 1.5 / 2.5, 1e-15);
    ck_assert_ptr_null(samples_peek(&samples, "none"));
    samples_free(&samples);
}
END_TEST

START_TEST(samples_find_each_of_many_names)
{
    struct samples samples = { 0 };
    struct error err = { 0 };
    char name[32];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 1000; i++) {
            snprintf(name, sizeof name, "work %d", i);
            ck_assert(samples_add(&samples, name, i, &err));
        }
    ck_assert_int_eq(samples.count, 1000);
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "work %d", i);
        ck_assert_int_eq(samples_peek(&samples, name)->count, 2);
        CHECK_NEAR(series_median(samples_find(&samples, name)), i, 0);
    }
    samples_free(&samples);
}
END_TEST

/* Only what makes the time decides, and only what is not known. */
START_TEST(settled_asks_the_long_work_alone)
{
    struct samples samples = { 0 }, known = { 0 };
    struct error err = { 0 };
    for (int i = 0; i < 9; i++) {
        ck_assert(samples_add(&samples, "long", 1e6 + i, &err));
        ck_assert(samples_add(&samples, "short and wild", i * i, &err));
    }
    ck_assert(samples_settled(&samples, NULL, 0.95, 0.01));
    ck_assert(!samples_settled(&samples, NULL, 1, 0.01));
    ck_assert(samples_add(&known, "short and wild", 1, &err));
    ck_assert(samples_settled(&samples, &known, 1, 0.01));
    ck_assert(samples_add(&samples, "new", 1e7, &err)); /* too few to know */
    ck_assert(!samples_settled(&samples, NULL, 0.95, 0.01));
    samples_free(&samples);
    samples_free(&known);
}
END_TEST

/* ---- fits ---- */
START_TEST(lines_are_recovered)
{
    const double fixed = 120, per = 0.75;
    struct fit_point points[12];
    for (int i = 0; i < 12; i++) {
        points[i] = (struct fit_point){ .calls = 1 + i % 3, .units = 50.0 * (1 << i) };
        points[i].ns = fixed * points[i].calls + per * points[i].units;
    }
    struct fit_line line, relative;
    ck_assert(fit_line(&line, points, 12));
    CHECK_NEAR(line.fixed_ns, fixed, 1e-6);
    CHECK_NEAR(line.ns_per_unit, per, 1e-9);
    CHECK_NEAR(line.error, 0, 1e-9);
    ck_assert(fit_relative(&relative, points, 12));
    CHECK_NEAR(relative.fixed_ns, fixed, 1e-6);
    CHECK_NEAR(relative.ns_per_unit, per, 1e-9);
}
END_TEST

START_TEST(lines_never_fall)
{
    struct fit_point cached[] = { { 1, 100, 10 },
                                  { 1, 1000, 100 },
                                  { 1, 100000, 40000 } }; /* a line would start below 0 */
    struct fit_point flat[] = { { 1, 10, 30 }, { 1, 20, 20 } }, one[] = { { 2, 100, 50 } };
    struct fit_line line;
    ck_assert(fit_line(&line, cached, 3));
    ck_assert(line.fixed_ns == 0 && line.ns_per_unit > 0);
    ck_assert(fit_line(&line, flat, 2));
    ck_assert(line.fixed_ns > 0 && line.ns_per_unit == 0);
    ck_assert(fit_line(&line, one, 1)); /* one size: all of it per element */
    CHECK_NEAR(line.fixed_ns, 0, 0);
    CHECK_NEAR(line.ns_per_unit, 0.5, 1e-12);
    ck_assert(!fit_line(&line, one, 0));
}
END_TEST

START_TEST(curves_keep_medians_and_find_latency_and_rate)
{
    struct sweep_case c = { OP_ALL_REDUCE, 2, 1 };
    struct samples samples = { 0 };
    struct error err = { 0 };
    struct arena arena = { 0 };
    int64_t bytes[SWEEP_MAX_SIZES];
    struct series *series[SWEEP_MAX_SIZES];
    int count = sweep_sizes(&c, 0, bytes);
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d", i);
        double ns = 10000 + (double)bytes[i] / 2; /* 2 GB/s */
        for (int k = -1; k <= 1; k++)
            ck_assert(samples_add(&samples, name, ns + k, &err));
    }
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d", i);
        series[i] = samples_find(&samples, name);
    }
    struct collective_curve curve;
    ck_assert(sweep_curve(&curve, &arena, &c, bytes, count, series, &err));
    CHECK_NEAR(curve.latency_ns, 10000, 1);
    CHECK_NEAR(curve.bytes_per_s, 2e9, 1e5);
    for (int i = 0; i < count; i++) {
        ck_assert_int_eq(curve.points[i].bytes, bytes[i]);
        CHECK_NEAR((double)curve.points[i].m.ns, 10000 + (double)bytes[i] / 2, 1);
        ck_assert_int_eq(curve.points[i].m.repeats, 3);
    }
    samples_free(&samples);
    arena_free(&arena);
}
END_TEST

/* ---- what is measured ---- */
START_TEST(sizes_ascend_and_divide)
{
    struct sweep_case *cases;
    struct error err = { 0 };
    int count;
    for (int ranks = 1; ranks <= 12; ranks++) {
        ck_assert(sweep_cases(&cases, &count, ranks, &err));
        ck_assert_int_eq(count == 0, ranks == 1);
        for (int i = 0; i < count; i++) {
            int64_t bytes[SWEEP_MAX_SIZES];
            int sizes = sweep_sizes(&cases[i], 200 << 20, bytes);
            ck_assert_int_eq(ranks % (cases[i].ranks * cases[i].concurrent), 0);
            for (int k = 0; k < sizes; k++)
                ck_assert(bytes[k] > (k ? bytes[k - 1] : 0) && bytes[k] % 4 == 0);
            ck_assert(bytes[sizes - 1] >= 1 << 26);
        }
        free(cases);
    }
}
END_TEST

/* Spans of made-up times come back as medians under the names that costs ask for. */
START_TEST(harvest_reads_a_made_up_timeline)
{
    struct error err = { 0 };
    struct model *model = model_of_zoo("tiny-gpt"), shortened;
    struct case_program made;
    struct compute_case c = { .tensor = 1, .micro = 2, .micro_count = 2 };
    ck_assert(model_shorten(&shortened, model, 0, &err));
    ck_assert_msg(case_open(&made, &shortened, 32, 2, DTYPE_FP32, &c, &err), "%s", err.message);
    const struct stage_program *stage = &made.program->stages[0];
    struct harvest harvest = { 0 };
    struct span *spans = calloc((size_t)stage->instr_count, sizeof *spans);
    struct rank_timeline rows[2] = { { .rank = 0, .span_count = stage->instr_count, .spans = spans },
                                     { .rank = 1, .span_count = stage->instr_count, .spans = spans } };
    struct timeline timeline = { .origin = TIMELINE_MEASURED, .rank_count = 2, .ranks = rows };
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < stage->instr_count; i++) {
            const struct instr *instr = &stage->instrs[i];
            int64_t ns = instr->op == OP_COMPUTE ? 1000 + 10 * instr->segment + instr->phase : 1;
            if (instr->op == OP_UPDATE || instr->op == OP_NORM) { /* a line in pairs and elements */
                ns = 0;
                for (int p = 0; p < instr->pair_count; p++) {
                    int64_t elements, bytes;
                    cost_local_work(made.program, instr, &made.program->pairs[instr->pair_first + p], &elements,
                                    &bytes);
                    ns += 200 + 3 * elements;
                }
            }
            spans[i] = (struct span){ 5 * i, 5 * i + ns * (step + 1) };
        }
        ck_assert(harvest_timeline(&harvest, made.program, &timeline, &err));
    }
    for (int i = 0; i < stage->instr_count; i++) {
        const struct instr *instr = &stage->instrs[i];
        char name[WORK_NAME_BYTES];
        if (instr->op != OP_COMPUTE)
            continue;
        harvest_work_name(made.program, 0, instr, name);
        struct series *series = samples_find(&harvest.compute, name);
        ck_assert(series->count > 0 && series->count % (2 * 3) == 0);
        bool alone = series->count == 2 * 3 * 2; /* two micro-batches: no other segment does the same work */
        if (alone)
            CHECK_NEAR(series_median(series), 2.0 * (1000.0 + 10.0 * instr->segment + (double)instr->phase), 1e-9);
    }
    struct linear_entry adamw, norm, none;
    ck_assert(harvest_linear(&adamw, &harvest.linear, "adamw", 2));
    CHECK_NEAR(adamw.fixed_ns, 400, 1e-3);
    CHECK_NEAR(adamw.ns_per_unit, 6, 1e-6);
    ck_assert(harvest_linear(&norm, &harvest.linear, "norm",
                             2)); /* only the rank that counts: the other's would be the same here */
    CHECK_NEAR(norm.ns_per_unit, 6, 1e-6);
    ck_assert(!harvest_linear(&none, &harvest.linear, "nothing", 2));
    harvest_free(&harvest);
    free(spans);
    case_close(&made);
    arena_free(&shortened.arena);
    model_free(model);
}
END_TEST

/* ---- a real measurement ---- */
enum { CACHE_BYTES = 1 << 20, MOST_S = 10000 }; /* how full caches are is not what is tested */

/* What is slow beside other work has more time until nothing is dropped. */
static struct profile *measure_along(bool all_dims, const struct model *model, int ranks, int64_t batch,
                                     const struct profile *existing, struct profiler_report *report)
{
    struct error err = { 0 };
    struct transport transports[4];
    struct profile *profile = NULL;
    ck_assert(comm_threads_open(transports, ranks, &err));
    struct crew crew = {
        .transports = transports, .local_count = ranks, .rank_count = ranks, .cache_bytes = CACHE_BYTES
    };
    struct profiler_options o = { .model = model,
                                  .sequence = 16,
                                  .batch = batch,
                                  .backend = "cpu",
                                  .software = "test",
                                  .existing = existing,
                                  .time_limit_s = 0.25 };
    for (int d = 0; d < DIM_COUNT; d++)
        o.dims[d] = all_dims && d != DIM_none;
    ck_assert_msg(profiler_measure(&profile, report, &crew, &o, &err), "%s", err.message);
    while (report->dropped_case_count > 0 && o.time_limit_s < MOST_S) {
        profile_free(profile);
        o.time_limit_s *= 8;
        ck_assert_msg(profiler_measure(&profile, report, &crew, &o, &err), "%s", err.message);
    }
    for (int i = 0; i < ranks; i++)
        transports[i].close(transports[i].self);
    return profile;
}

static struct profile *measure_tiny(const struct model *model, int ranks, int64_t batch, const struct profile *existing,
                                    struct profiler_report *report)
{
    return measure_along(false, model, ranks, batch, existing, report);
}

static struct cluster *two_cores(void)
{
    static const char device[] =
        "{\"description\": \"test\", \"source\": \"test\", \"matmul_flops_per_s\": {\"fp32\": 4e10}, "
        "\"matmul_efficiency\": 0.7,"
        "\"attention_forward_efficiency\": 0.4, \"attention_backward_efficiency\": 0.4, \"matmul_tile\": 16, "
        "\"compute_units\": 1,"
        "\"vector_flops_per_s\": 4e9, \"memory_bytes_per_s\": 5e9, \"memory_efficiency\": 0.8, \"memory_bytes\": "
        "4294967296,"
        "\"reserve_bytes\": 0, \"launch_ns\": 1000, \"collective_launch_ns\": 5000, \"devices_per_node\": 2, "
        "\"shared_host\": true,"
        "\"link_bytes_per_s\": 4e9, \"link_efficiency\": 0.6, \"link_latency_ns\": 5000, \"link_shared\": false,"
        "\"nic_bytes_per_s\": 1e9, \"nic_efficiency\": 0.9, \"nic_latency_ns\": 30000, \"nic_shared\": true}";
    const struct catalogue_entry entry = { "core", device, sizeof device - 1 };
    struct cluster *cluster;
    struct error err = { 0 };
    ck_assert_msg(cluster_read(&cluster, "1x2:core", "1x2:core", 8, &entry, 1, &err), "%s", err.message);
    return cluster;
}

struct shape {
    int stages, tensor, data, dimension;
};

static struct plan *plan_of_shape(const struct graph *graph, const struct shape *shape, int micro_batches)
{
    struct plan *plan = plan_new(shape->stages, graph->layer_count);
    plan->batch = graph->batch, plan->sequence = graph->sequence;
    plan->vocab_multiple = space_vocab_multiple(graph, shape->tensor);
    plan->dtype = DTYPE_FP32;
    plan->micro_batch_count = micro_batches;
    plan->atom_count = 2;
    plan->clip_norm = 1;
    plan->bucket_bytes = 25 << 20;
    plan->rank_count = shape->stages * shape->tensor * shape->data;
    for (int s = 0; s < shape->stages; s++) {
        int first = graph->layer_count * s / shape->stages, end = graph->layer_count * (s + 1) / shape->stages;
        plan->stages[s] = (struct plan_stage){
            first, end - first, s * shape->tensor * shape->data, { shape->data, shape->tensor, 1, 1 }, 0
        };
    }
    for (int l = 0; l < graph->layer_count; l++) {
        plan->layers[l].dim[0] = DIM_dp;
        plan->layers[l].dim[1] = (int8_t)shape->dimension;
    }
    return plan;
}

/* Every COMPUTE of the plan is priced by a measurement, and no transfer lacks a curve; all: nor leaves one. */
static int check_covered(const struct facts *facts, const struct model *model, const struct shape *shape, int64_t batch,
                         int micro_batches, bool all)
{
    struct error err = { 0 };
    struct program *program;
    int checked = 0;
    struct graph *graph = graph_of(
        model, batch, 16, space_vocab_multiple(&(struct graph){ .vocab_size = model->vocab_size }, shape->tensor));
    struct plan *plan = plan_of_shape(graph, shape, micro_batches);
    ck_assert_msg(plan_check(plan, graph, &err) && lower_program(&program, graph, plan, &err), "%s", err.message);
    for (int s = 0; s < program->stage_count; s++)
        for (int i = 0; i < program->stages[s].instr_count; i++) {
            const struct instr *instr = &program->stages[s].instrs[i];
            struct cost cost = cost_instr(facts, program, s, instr);
            bool moves = op_info[instr->op].collective || instr->op == OP_SEND || instr->op == OP_RECEIVE;
            if (instr->op == OP_COMPUTE)
                ck_assert_msg(cost.origin == ORIGIN_MEASURED && !cost.extrapolated, "%s %s",
                              graph->segments[instr->segment].name, phase_names[instr->phase]);
            else if (moves)
                ck_assert_msg(cost.origin != ORIGIN_ANALYTIC && (!cost.extrapolated || !all), "%s",
                              op_info[instr->op].name);
            else
                ck_assert_msg(cost.origin != ORIGIN_ANALYTIC || instr->pair_count == 0, "%s", op_info[instr->op].name);
            ck_assert_int_ge(cost.ns, 0);
            checked++;
        }
    program_free(program);
    plan_free(plan);
    graph_free(graph);
    return checked;
}

/* Plans along any dimension of the list, once a profile was asked for them; what is known of transfers is not measured
 * again. */
static void cover_named_dimensions(const struct cluster *cluster, const struct profile *known)
{
    struct model *model = model_of_zoo("tiny-moe");
    struct profiler_report report;
    struct profile *profile = measure_along(true, model, 2, 2, known, &report);
    struct facts facts = { .cluster = cluster, .profile = profile };
    ck_assert(report.case_count > 0 && report.curve_count == 0);
    for (int d = 0; d < DIM_COUNT; d++) {
        const struct shape shape = { 1, 2, 1, d };
        ck_assert_int_gt(check_covered(&facts, model, &shape, 2, 1, false), 20);
    }
    profile_free(profile);
    model_free(model);
}

START_TEST(a_profile_covers_the_plans)
{
    struct model *model = model_of_zoo("tiny-gpt");
    struct cluster *cluster = two_cores();
    struct profiler_report report;
    struct profile *profile = measure_tiny(model, 2, 4, NULL, &report);
    struct facts facts = { .cluster = cluster, .profile = profile };
    const struct shape shapes[] = {
        { 1, 1, 2, DIM_none }, { 1, 2, 1, DIM_tp }, { 1, 2, 1, DIM_tp_sp }, { 2, 1, 1, DIM_none }
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int micro_batches = 1; shapes[i].data * micro_batches <= 4; micro_batches *= 2)
            ck_assert_int_gt(check_covered(&facts, model, &shapes[i], 4, micro_batches, true), 20);
    ck_assert(profile->compute_under_communication >= 1 && profile->communication_under_compute >= 1);
    ck_assert(report.compute_samples > 0 && report.communication_samples > 0);
    ck_assert_int_gt(profile->memory_outside_arena_bytes, 0);
    ck_assert_int_eq(report.dropped_case_count, 0);
    ck_assert_str_eq(profile->transport, "threads");
    for (int i = 0; i < profile->curve_count; i++)
        for (int k = 0; k < profile->curves[i].point_count; k++)
            ck_assert(profile->curves[i].points[k].m.ns > 0);

    size_t length, again_length;
    char *text = profile_write(profile, &length), *again;
    struct profile *read;
    struct error err = { 0 };
    ck_assert_msg(profile_read(&read, "profile", text, length, &err), "%s", err.message);
    again = profile_write(read, &again_length);
    ck_assert(length == again_length && memcmp(text, again, length) == 0);
    ck_assert(read->hash == profile->hash);

    /* with it nothing is measured twice; a larger batch adds to it */
    struct profile *same = measure_tiny(model, 2, 4, read, &report);
    ck_assert(report.case_count == 0 && report.known_case_count > 0 && report.curve_count == 0 &&
              !report.existing_refused);
    ck_assert(same->compute_count == read->compute_count && same->curve_count == read->curve_count);
    ck_assert(same->memory_outside_arena_bytes == read->memory_outside_arena_bytes);
    ck_assert(same->compute_under_communication == read->compute_under_communication ||
              read->compute_under_communication == 1);
    struct profile *more = measure_tiny(model, 2, 8, read, &report);
    ck_assert(report.case_count > 0 && report.known_case_count > 0);
    ck_assert_int_gt(more->compute_count, read->compute_count);
    for (int i = 0; i < read->compute_count; i++)
        ck_assert_ptr_nonnull(profile_compute(more, read->compute[i].work, 2));
    if (!small_share())
        cover_named_dimensions(cluster, read);
    profile_free(same);
    profile_free(more);
    profile_free(read);
    profile_free(profile);
    free(text);
    free(again);
    cluster_free(cluster);
    model_free(model);
}
END_TEST

/* Groups beside each other, ranks that stand idle, messages in pairs: the hand-made programs on four ranks. */
START_TEST(transfers_of_four_ranks_are_measured)
{
    if (small_share()) /* two ranks run the same lines */
        return;
    struct error err = { 0 };
    struct transport transports[4];
    struct sweep_result result;
    ck_assert(comm_threads_open(transports, 4, &err));
    struct crew crew = { .transports = transports, .local_count = 4, .rank_count = 4, .cache_bytes = CACHE_BYTES };
    struct sweep_options o = { .most_bytes = 1 << 20 };
    ck_assert_msg(sweep_measure(&result, &crew, &o, &err), "%s", err.message);
    int all = 0, pairs_of_two = 0, sends = 0;
    for (int i = 0; i < result.curve_count; i++) {
        const struct collective_curve *c = &result.curves[i];
        all += c->ranks == 4, pairs_of_two += c->ranks == 2 && c->concurrent == 2, sends += !strcmp(c->op, "send");
        for (int k = 0; k < c->point_count; k++)
            ck_assert_int_gt(c->points[k].m.ns, 0);
    }
    ck_assert_int_eq(all, 6);
    ck_assert_int_eq(pairs_of_two, 6 + 1);
    ck_assert_int_eq(sends, 2);
    arena_free(&result.arena);
    for (int i = 0; i < 4; i++)
        transports[i].close(transports[i].self);
}
END_TEST

/* Two ranks and one core: what computes and what communicates cannot both go on as if alone. Other programs on that
 * core disturb a measurement; several in a row they do not turn upside down. */
START_TEST(ranks_that_share_a_core_slow_each_other_down)
{
    enum { ATTEMPTS = 8 };
    struct error err = { 0 };
    struct transport transports[2];
    cpu_set_t all, one;
    ck_assert_int_eq(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int core = 0; CPU_COUNT(&one) == 0; core++)
        if (CPU_ISSET(core, &all))
            CPU_SET(core, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    ck_assert(comm_threads_open(transports, 2, &err));
    struct crew crew = { .transports = transports, .local_count = 2, .rank_count = 2, .cache_bytes = CACHE_BYTES };
    double progress = 2;
    bool both = false; /* in one measurement, each is slowed down */
    for (int i = 0; i < ATTEMPTS && !(both && progress <= 1.8); i++) {
        struct contention c;
        ck_assert_msg(contention_measure(&c, &crew, 0.5, &err), "%s", err.message);
        ck_assert_int_ge(c.compute_samples, 3);
        ck_assert_int_ge(c.communication_samples, 3);
        both = c.compute_under_communication > 1.05 && c.communication_under_compute > 1.05;
        progress = 1 / c.compute_under_communication + 1 / c.communication_under_compute;
    }
    ck_assert_msg(both && progress <= 1.8, "beside each other both keep together %g of the pace that each has alone",
                  progress);
    for (int i = 0; i < 2; i++)
        transports[i].close(transports[i].self);
}
END_TEST

START_TEST(one_rank_and_opaque_models)
{
    struct profiler_report report;
    struct model *model = model_of_zoo("tiny-llama"), *opaque = model_of_zoo("tiny-opaque");
    struct profile *profile = measure_tiny(model, 1, 2, NULL, &report), *none = NULL;
    ck_assert(profile->curve_count == 0 && profile->compute_count > 0);
    ck_assert(profile->compute_under_communication == 1);
    ck_assert_int_eq(profile->reference_ns, (report.reference_before_ns + report.reference_after_ns) / 2);
    ck_assert_int_gt(profile->reference_ns, 0);
    ck_assert_int_eq(profile->reference_ranks, 1);
    for (int i = 0; i < profile->compute_count; i++)
        ck_assert_int_eq(profile->compute[i].loaded, 1);
    struct transport transport;
    struct error err = { 0 };
    ck_assert(comm_threads_open(&transport, 1, &err));
    struct crew crew = { .transports = &transport, .local_count = 1, .rank_count = 1, .cache_bytes = CACHE_BYTES };
    struct profiler_options o = {
        .model = opaque, .sequence = 8, .batch = 1, .backend = "cpu", .software = "test", .time_limit_s = 1
    };
    ck_assert(!profiler_measure(&none, &report, &crew, &o, &err));
    ck_assert_int_eq(err.kind, ERROR_INPUT);
    transport.close(transport.self);
    profile_free(profile);
    model_free(model);
    model_free(opaque);
}
END_TEST

static Suite *profiler_suite(void)
{
    Suite *suite = suite_create("profiler");
    CHECK_ADD(suite, medians_and_spreads_are_exact);
    CHECK_ADD(suite, samples_find_each_of_many_names);
    CHECK_ADD(suite, settled_asks_the_long_work_alone);
    CHECK_ADD(suite, lines_are_recovered);
    CHECK_ADD(suite, lines_never_fall);
    CHECK_ADD(suite, curves_keep_medians_and_find_latency_and_rate);
    CHECK_ADD(suite, sizes_ascend_and_divide);
    CHECK_ADD(suite, harvest_reads_a_made_up_timeline);
    CHECK_ADD(suite, a_profile_covers_the_plans);
    CHECK_ADD(suite, transfers_of_four_ranks_are_measured);
    CHECK_ADD(suite, ranks_that_share_a_core_slow_each_other_down);
    CHECK_ADD(suite, one_rank_and_opaque_models);
    return suite;
}

CHECK_MAIN(profiler_suite)
