/* What emulated GPUs measured has what plans ask for, in their dtype: the profiler knows no device, only the spans that
 * a device's events give. */
#include "check.h"
#include "executor/comm_threads.h"
#include "executor/gpu/device.h"
#include "executor/gpu/emulated.h"
#include "models/model.h"
#include "profiler/compute.h"
#include "tests/model_files.h"

enum { RANKS = 2, BATCH = 2, SEQUENCE = 8 };

static bool open_gpu(struct rank *rank, struct error *err)
{
    struct gpu gpu;
    return gpu_emulated_open(&gpu, 1, 2, true, err) && gpu_device_open(rank, &gpu, err);
}

static const struct device device_emulated = { .name = "emulated", .open = open_gpu, GPU_DEVICE_FUNCTIONS };

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
    ck_assert_int_eq(result.memory_outside_bytes, -1); /* of the host's memory nothing is said */
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

static Suite *gpu_profiler_suite(void)
{
    Suite *suite = suite_create("gpu_profiler");
    TCase *tcase = tcase_create("profiles");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, events_become_samples, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite;
}

CHECK_MAIN(gpu_profiler_suite)
