/* What emulated GPUs measured has what plans ask for, in their dtype: the profiler knows no device, only the spans that
 * a device's events give. */
#include "check.h"
#include "executor/comm_threads.h"
#include "executor/gpu/choices.h"
#include "executor/gpu/device.h"
#include "host/clock.h"
#include "models/model.h"
#include "profiler/compute.h"
#include "profiler/contention.h"
#include "profiler/device_entry.h"
#include "profiler/profiler.h"
#include "profiler/rig.h"
#include "tests/emulated/emulated.h"
#include "tests/model_files.h"
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { RANKS = 2, BATCH = 2, SEQUENCE = 8 };

/* A GPU for each rank; of its memory a context takes CONTEXT_BYTES, and what is not used beside it and the arena is
 * less than that. */
enum { CONTEXT_BYTES = 50000000 };
static bool (*emulated_memory_used)(void *self, int64_t *bytes, struct error *err);

static bool used_with_context(void *self, int64_t *bytes, struct error *err)
{
    if (!emulated_memory_used(self, bytes, err))
        return false;
    *bytes += CONTEXT_BYTES;
    return true;
}

static bool open_gpu(struct rank *rank, struct error *err)
{
    struct gpu gpu;
    if (!gpu_emulated_open(&gpu, 1, 2, true, err))
        return false;
    gpu.device = rank->rank, gpu.device_count = RANKS;
    gpu.memory_used = used_with_context;
    return gpu_device_open(rank, &gpu, NULL, err);
}

/* Ranks that share one: each sees the arenas of all, and one context. */
static bool open_shared_gpu(struct rank *rank, struct error *err)
{
    if (!open_gpu(rank, err))
        return false;
    struct gpu *gpu = &((struct gpu_rank *)rank->device_state)->gpu;
    gpu->device = 0, gpu->device_count = 1;
    return true;
}

static bool open_silent_gpu(struct rank *rank, struct error *err)
{
    if (!open_gpu(rank, err))
        return false;
    ((struct gpu_rank *)rank->device_state)->gpu.memory_used = NULL;
    return true;
}

static const struct device device_emulated = { .name = "emulated", .open = open_gpu, GPU_DEVICE_FUNCTIONS },
                           device_shared = { .name = "shared", .open = open_shared_gpu, GPU_DEVICE_FUNCTIONS },
                           device_silent = { .name = "silent", .open = open_silent_gpu, GPU_DEVICE_FUNCTIONS };

static void find_memory_used(void)
{
    struct error err = { 0 };
    struct gpu gpu;
    ck_assert_msg(gpu_emulated_open(&gpu, 1, 1, false, &err), "%s", err.message);
    emulated_memory_used = gpu.memory_used;
    gpu.close(gpu.self);
}

/* Every computation of the case's step is among the samples. */
static int count_covered(struct samples *samples, const struct case_program *made)
{
    char name[WORK_NAME_BYTES];
    int computations = 0;
    for (int i = 0; i < made->program->stages[0].instr_count; i++) {
        const struct instr *instr = &made->program->stages[0].instrs[i];
        if (instr->op != OP_COMPUTE)
            continue;
        harvest_work_name(made->program, 0, instr, name);
        const struct series *series = samples_peek(samples, name);
        ck_assert_msg(series != NULL, "%s", name);
        struct measurement m = series_measurement((struct series *)(uintptr_t)series);
        ck_assert_msg(m.ns > 0 && m.repeats >= 2, "%s: %lld ns, %d", name, (long long)m.ns, m.repeats);
        computations++;
    }
    return computations;
}

START_TEST(events_become_samples)
{
    enum dtype dtype = _i ? DTYPE_BF16 : DTYPE_FP32;
    struct error err = { 0 };
    struct model *model = model_of_zoo("tiny-gpt");
    struct transport transports[RANKS];
    struct compute_result result;
    struct case_program made;
    const struct compute_case c = { .tensor = 2, .dimension = DIM_tp, .micro = 1, .micro_count = 1 };
    ck_assert(comm_threads_open(transports, RANKS, &err));
    const struct crew crew = {
        .transports = transports, .local_count = RANKS, .rank_count = RANKS, .device = &device_emulated, .dtype = dtype
    };
    const struct compute_options options = { .model = model, .sequence = SEQUENCE, .batch = BATCH, .budget_s = 1 };
    ck_assert_msg(compute_measure(&result, &crew, &options, &err), "%s", err.message);
    ck_assert_int_gt(result.run_count, 0);
    ck_assert_int_gt(result.outside.bytes, CONTEXT_BYTES);
    ck_assert_int_lt(result.outside.bytes, 2 * CONTEXT_BYTES);
    ck_assert_int_eq(memory_rest_bytes(&result.outside), CONTEXT_BYTES);
    ck_assert_int_gt(result.outside.part[MEMORY_PINNED], 0);
    ck_assert_msg(case_open(&made, model, SEQUENCE, RANKS, dtype, &c, &err), "%s", err.message);
    ck_assert_int_eq(made.plan->dtype, dtype);
    ck_assert_int_gt(count_covered(&result.harvest.compute, &made), 20);
    case_close(&made);
    harvest_free(&result.harvest);
    for (int i = 0; i < RANKS; i++)
        transports[i].close(transports[i].self);
    model_free(model);
}
END_TEST

/* ---- warm-up ---- */
enum { MOST_STEPS = 2048, SETTLED_NS = 200000000 };
static struct {
    int count;
    int64_t end_ns[MOST_STEPS];
} steps;

static bool finish_and_note(struct rank *rank, struct span *spans, struct error *err)
{
    bool ok = gpu_device_finish_step(rank, spans, err);
    if (steps.count < MOST_STEPS)
        steps.end_ns[steps.count++] = clock_now_ns();
    return ok;
}

/* What is computed once in a step has a sample of each sampled step. */
static int sampled_steps(const struct samples *samples)
{
    int fewest = MOST_STEPS;
    for (int i = 0; i < samples->count; i++)
        if (samples->series[i].count < fewest)
            fewest = samples->series[i].count;
    return fewest;
}

/* The one case of one sequence on one rank: its samples are of the last steps. Beside other work it takes more time
 * until there are two. */
START_TEST(devices_warm_up_by_time)
{
    struct error err = { 0 };
    struct model *model = model_of_zoo("tiny-gpt");
    struct transport transport;
    struct device device = device_emulated;
    device.finish_step = finish_and_note;
    ck_assert(comm_threads_open(&transport, 1, &err));
    const struct crew crew = { .transports = &transport, .local_count = 1, .rank_count = 1, .device = &device };
    struct compute_options options = { .model = model, .sequence = SEQUENCE, .batch = 1, .budget_s = 1 };
    int sampled = 0;
    for (; sampled < 2; options.budget_s *= 8) {
        struct compute_result result;
        steps.count = 0;
        ck_assert_msg(compute_measure(&result, &crew, &options, &err), "%s", err.message);
        ck_assert_int_eq(result.run_count, 1);
        sampled = sampled_steps(&result.harvest.compute);
        harvest_free(&result.harvest);
    }
    ck_assert_int_lt(sampled, steps.count);
    /* what is told of the first sampled step is told before the next one ends */
    ck_assert_int_ge(steps.end_ns[steps.count - sampled + 1] - steps.end_ns[0], SETTLED_NS);
    transport.close(transport.self);
    model_free(model);
}
END_TEST

START_TEST(an_emulated_gpu_counts_its_memory)
{
    struct error err = { 0 };
    struct gpu gpu;
    int64_t bytes = -1;
    ck_assert_msg(gpu_emulated_open(&gpu, 1, 1, false, &err), "%s", err.message);
    void *a = gpu.allocate(gpu.self, 1000, &err), *b = gpu.allocate(gpu.self, 234, &err),
         *host = gpu.allocate_host(gpu.self, 5000, &err);
    ck_assert(a && b && host && gpu.memory_used(gpu.self, &bytes, &err));
    ck_assert_int_eq(bytes, 1234);
    gpu.release(gpu.self, a);
    ck_assert(gpu.memory_used(gpu.self, &bytes, &err));
    ck_assert_int_eq(bytes, 234);
    gpu.release(gpu.self, b);
    gpu.release(gpu.self, NULL);
    gpu.release_host(gpu.self, host);
    ck_assert(gpu.memory_used(gpu.self, &bytes, &err));
    ck_assert_int_eq(bytes, 0);
    gpu.close(gpu.self);
}
END_TEST

static bool go_on(void *context, int64_t step, const struct timeline *timeline)
{
    (void)context, (void)step, (void)timeline;
    return true;
}

static int64_t weigh(const struct device *device, struct rig *rig)
{
    struct error err = { 0 };
    struct transport transports[RANKS];
    struct memory_outside outside = { .bytes = -1 };
    ck_assert(comm_threads_open(transports, RANKS, &err));
    const struct crew crew = { .transports = transports, .local_count = RANKS, .rank_count = RANKS, .device = device };
    ck_assert_msg(crew_run_and_weigh(&crew, rig->program, NULL, 3, go_on, NULL, &outside, &err), "%s", err.message);
    for (int i = 0; i < RANKS; i++)
        transports[i].close(transports[i].self);
    return outside.bytes;
}

/* Arenas are not among what lies beside them, however large; ranks that share a device share what it holds beside. */
START_TEST(memory_beside_arenas_is_weighed)
{
    struct error err = { 0 };
    int64_t own[2];
    for (int large = 0; large < 2; large++) {
        struct rig *rig;
        ck_assert_msg(rig_new(&rig, RANKS, 1, 1, RANKS, 1, 1, &err), "%s", err.message);
        int64_t columns = large ? 1 << 20 : 1;
        int buffer = rig_buffer(rig, 0, rig_tensor(rig, 1, columns), LAYOUT_REPLICATED, 0, RIG_APART);
        rig_instr(rig, 0, OP_ZERO, LANE_COMPUTE, -1, -1, buffer);
        rig_finish(rig);
        int64_t arena = rig->program->stages[0].arena_bytes;
        own[large] = weigh(&device_emulated, rig);
        ck_assert_int_ge(own[large], CONTEXT_BYTES);
        /* a device that holds one arena and is said to be all ranks': what is left is for both */
        ck_assert_int_eq(weigh(&device_shared, rig), (own[large] - (RANKS - 1) * arena) / RANKS);
        ck_assert_int_eq(weigh(&device_silent, rig), -1);
        rig_free(rig);
    }
    ck_assert_int_eq(own[0], own[1]);
}
END_TEST

/* From a processor to the fastest GPU, by links of the same span: in a few runs a transfer ends beside one product. */
START_TEST(sizes_follow_the_paces)
{
    enum { RUNS = 6 };
    const struct {
        bool on_device;
        double launch_ns, flops_per_s, latency_ns, bytes_per_s;
    } cases[] = {
        { false, 1e3, 4e10, 5e4, 3e9 },  { false, 1e3, 1e12, 5e4, 5e9 }, { false, 1e3, 2e12, 1e5, 1e8 },
        { true, 8e3, 5e13, 3e4, 2e11 },  { true, 8e3, 7e13, 3e4, 5e11 }, { true, 8e3, 5e13, 1e5, 1e9 },
        { true, 8e3, 1.5e13, 1e5, 1e8 }, { true, 1e4, 1e13, 3e4, 1e10 }, { true, 1e3, 2e9, 1e6, 3e9 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct contention_sizes sizes = contention_first_sizes(cases[i].on_device), next = sizes;
        double product_ns = 0, transfer_ns = 0;
        int runs = 0;
        do {
            sizes = next;
            product_ns = cases[i].launch_ns + 2e9 * pow(sizes.edge, 3) / cases[i].flops_per_s;
            transfer_ns = cases[i].latency_ns + 1e9 * (double)sizes.transfer_bytes / cases[i].bytes_per_s;
            ck_assert(sizes.edge >= 32 && sizes.edge <= CONTENTION_MOST_EDGE);
            ck_assert(sizes.transfer_bytes > 0 && sizes.transfer_bytes <= CONTENTION_MOST_BYTES);
            ck_assert_int_eq(sizes.transfer_bytes % 64, 0);
            runs++;
        } while (contention_resize(&next, cases[i].on_device, product_ns, transfer_ns) && runs < RUNS);
        bool most = sizes.transfer_bytes == CONTENTION_MOST_BYTES;
        ck_assert_msg(transfer_ns < product_ns && (!cases[i].on_device || most || transfer_ns > product_ns / 8) &&
                          product_ns > (cases[i].on_device ? 4e5 : 4.8e6) && product_ns < 1.3e8,
                      "case %zu: %g ns of %d^3, %g ns of %lld bytes", i, product_ns, sizes.edge, transfer_ns,
                      (long long)sizes.transfer_bytes);
        ck_assert_msg(runs < RUNS, "case %zu: %d runs", i, runs);
    }
    struct contention_sizes sizes = contention_first_sizes(true);
    ck_assert(!contention_resize(&sizes, true, 0, 0)); /* nothing was timed */
}
END_TEST

/* Products of all three forms in the dtype, copies and launches, from the events of one device. */
START_TEST(a_device_entry_is_measured)
{
    enum dtype dtype = _i ? DTYPE_BF16 : DTYPE_FP32;
    struct error err = { 0 };
    struct arena arena = { 0 };
    struct transport transport;
    struct device_type found;
    const struct device_type base = { .name = "gpu",
                                      .description = "d",
                                      .source = "s",
                                      .matmul_flops_per_s = { [DTYPE_FP32] = 1e12, [DTYPE_BF16] = 1e12 },
                                      .matmul_efficiency = 0.5,
                                      .matmul_tile = 128,
                                      .memory_bytes_per_s = 1e12,
                                      .memory_efficiency = 0.5 };
    const struct device_entry_options o = { .base = &base,
                                            .machine = "emulated",
                                            .backend = "cuda",
                                            .software = "threads",
                                            .sizes = { 4, 16 },
                                            .size_count = 2,
                                            .copy_elements = 1 << 12,
                                            .dtype = dtype,
                                            .ranks = 1,
                                            .time_limit_s = 0.1 };
    ck_assert(comm_threads_open(&transport, 1, &err));
    const struct crew crew = { .transports = &transport,
                               .local_count = 1,
                               .rank_count = 1,
                               .device = &device_emulated,
                               .dtype = dtype,
                               .cache_bytes = 1 << 12 };
    ck_assert_msg(device_entry_measure(&found, &arena, &crew, &o, &err), "%s", err.message);
    ck_assert_int_ge(found.measured.repeats, 3);
    ck_assert_int_ge(found.measured.instruction_ns, 0);
    ck_assert(found.matmul_efficiency > 0 && found.matmul_efficiency <= 1);
    ck_assert(found.memory_efficiency > 0 && found.memory_bytes_per_s * found.memory_efficiency < 1e12);
    for (int s = 0; s < found.surface_count; s++)
        ck_assert(found.surfaces[s].dtype == (int)dtype && found.surfaces[s].ns[0] > 0);
    transport.close(transport.self);
    arena_free(&arena);
}
END_TEST

START_TEST(transfers_end_beside_products)
{
    struct error err = { 0 };
    struct transport transports[RANKS];
    struct contention c = { 0 };
    ck_assert(comm_threads_open(transports, RANKS, &err));
    const struct crew crew = { .transports = transports,
                               .local_count = RANKS,
                               .rank_count = RANKS,
                               .device = &device_emulated,
                               .cache_bytes = 1 << 20 };
    /* beside other work it takes more time until there are samples */
    for (double budget_s = 0.5; c.compute_samples == 0 || c.communication_samples == 0; budget_s *= 8)
        ck_assert_msg(contention_measure(&c, &crew, budget_s, &err), "%s", err.message);
    ck_assert(c.compute_under_communication >= 1 && c.communication_under_compute >= 1);
    for (int i = 0; i < RANKS; i++)
        transports[i].close(transports[i].self);
}
END_TEST

/* ---- algorithms of matrix products ---- */

/* A GPU that finds one algorithm in every run, each time of another shape: 1, 2, ...; what it was told it knows. */
static struct {
    atomic_int runs, first_told; /* first_told: of how many the first call told, from shape 1 on */
} library;

static bool learn(void *self, const struct gpu_choice *choices, int count, struct error *err)
{
    (void)self, (void)err;
    int none = 0;
    if (count > 0 && choices[0].key[0] == 1)
        atomic_compare_exchange_strong(&library.first_told, &none, count);
    return true;
}

static int learned(void *self, struct gpu_choice *out, int most)
{
    (void)self;
    ck_assert_int_gt(most, 0);
    out[0] = (struct gpu_choice){ .key = { 1 + atomic_fetch_add(&library.runs, 1) }, .setting = { 66, UINT32_MAX } };
    return 1;
}

static bool open_timing_gpu(struct rank *rank, struct error *err)
{
    struct gpu gpu;
    if (!gpu_emulated_open(&gpu, 1, 2, true, err))
        return false;
    gpu.device = rank->rank, gpu.device_count = RANKS;
    gpu.learn = learn, gpu.learned = learned;
    return gpu_device_open(rank, &gpu, NULL, err);
}

static const struct device device_timing = { .name = "timing", .open = open_timing_gpu, GPU_DEVICE_FUNCTIONS };

static struct profile *profile_on_timing(const struct profile *existing)
{
    struct error err = { 0 };
    struct model *model = model_of_zoo("tiny-gpt");
    struct transport transports[RANKS];
    struct profile *profile = NULL;
    struct profiler_report report;
    ck_assert(comm_threads_open(transports, RANKS, &err));
    const struct crew crew = { .transports = transports,
                               .local_count = RANKS,
                               .rank_count = RANKS,
                               .device = &device_timing,
                               .cache_bytes = 1 << 20 };
    const struct profiler_options options = { .model = model,
                                              .sequence = SEQUENCE,
                                              .batch = BATCH,
                                              .backend = "cuda",
                                              .machine = "emulated",
                                              .memory_bytes = 1 << 28,
                                              .software = "",
                                              .existing = existing,
                                              .time_limit_s = 0.2 };
    atomic_store(&library.first_told, 0);
    ck_assert_msg(profiler_measure(&profile, &report, &crew, &options, &err), "%s", err.message);
    for (int i = 0; i < RANKS; i++)
        transports[i].close(transports[i].self);
    model_free(model);
    return profile;
}

static struct profile *read_again(const struct profile *profile)
{
    struct error err = { 0 };
    struct profile *again = NULL;
    size_t length = 0;
    char *text = profile_write(profile, &length);
    ck_assert_msg(text && profile_read(&again, "again", text, length, &err), "%s", err.message);
    free(text);
    return again;
}

/* A profile keeps what its runs found fastest, and begins with what the one that it completes knows. */
START_TEST(profiles_keep_algorithms)
{
    struct profile *first = profile_on_timing(NULL), *again = read_again(first);
    int found = first->tuned.count;
    ck_assert_int_gt(found, 2 * RANKS);
    ck_assert_int_ge(first->instruction_ns, 0);
    ck_assert_int_eq(again->instruction_ns, first->instruction_ns);
    ck_assert_str_eq(again->tuned_device, first->tuned_device);
    ck_assert_str_ne(again->tuned_device, "");
    ck_assert_int_eq(again->tuned.count, found);
    ck_assert_mem_eq(again->tuned.choice, first->tuned.choice, (size_t)found * sizeof *first->tuned.choice);
    struct profile *second = profile_on_timing(again);
    ck_assert_int_ge(atomic_load(&library.first_told), found);
    ck_assert_int_gt(second->tuned.count, found);
    ck_assert_mem_eq(second->tuned.choice, first->tuned.choice, (size_t)found * sizeof *first->tuned.choice);
    profile_free(second);
    profile_free(again);
    profile_free(first);
}
END_TEST

/* A run takes them from the profiles of its plan: of its own device alone. */
START_TEST(runs_take_algorithms_of_profiles)
{
    struct error err = { 0 };
    struct gpu gpu;
    struct gpu_choice known[2] = { { .key = { 1 } }, { .key = { 2 } } };
    struct profile own = { .tuned_device = gpu.description, .tuned = { known, 2 } },
                   other = { .tuned_device = "another", .tuned = { known, 1 }, .next = &own };
    const struct facts facts = { .profile = &other };
    ck_assert_msg(gpu_emulated_open(&gpu, 1, 1, false, &err), "%s", err.message);
    gpu.learn = learn;
    atomic_store(&library.first_told, 0);
    ck_assert(gpu_choices_recall(&gpu, &facts, NULL, &err));
    ck_assert_int_eq(atomic_load(&library.first_told), 2);
    other.next = NULL;
    atomic_store(&library.first_told, 0);
    ck_assert(gpu_choices_recall(&gpu, &facts, NULL, &err));
    ck_assert_int_eq(atomic_load(&library.first_told), 0);
    gpu.close(gpu.self);
}
END_TEST

/* Operands that circle within what one device caches would be read from there. */
START_TEST(what_is_passed_over_is_larger_than_the_devices_cache)
{
    const int64_t cache = INT64_C(60) << 20;
    struct crew crew = { .device = &device_emulated, .device_cache_bytes = cache };
    ck_assert_int_eq(crew_cache_bytes(&crew), 2 * cache);
    crew.cache_bytes = 1 << 12;
    ck_assert_int_eq(crew_cache_bytes(&crew), 1 << 12);
    crew = (struct crew){ .device_cache_bytes = cache };
    const int64_t host = crew_cache_bytes(&crew);
    ck_assert_int_eq(host, crew_cache_bytes(&(struct crew){ .device = &device_emulated }));
    ck_assert_int_gt(host, 0);
}
END_TEST

static Suite *gpu_profiler_suite(void)
{
    Suite *suite = suite_create("gpu_profiler");
    TCase *tcase = tcase_create("profiles");
    tcase_set_timeout(tcase, 0);
    tcase_add_checked_fixture(tcase, find_memory_used, NULL);
    tcase_add_test(tcase, an_emulated_gpu_counts_its_memory);
    tcase_add_test(tcase, memory_beside_arenas_is_weighed);
    tcase_add_test(tcase, sizes_follow_the_paces);
    tcase_add_test(tcase, what_is_passed_over_is_larger_than_the_devices_cache);
    tcase_add_test(tcase, transfers_end_beside_products);
    tcase_add_test(tcase, devices_warm_up_by_time);
    tcase_add_loop_test(tcase, events_become_samples, 0, 2);
    tcase_add_loop_test(tcase, a_device_entry_is_measured, 0, 2);
    tcase_add_test(tcase, profiles_keep_algorithms);
    tcase_add_test(tcase, runs_take_algorithms_of_profiles);
    suite_add_tcase(suite, tcase);
    return suite;
}

CHECK_MAIN(gpu_profiler_suite)
