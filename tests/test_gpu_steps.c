/* How a step reaches a GPU: behind gates where its instructions are timed, one lane at a time where it is kept, with no
 * more events than someone waits for. */
#include "executor/gpu/device.h"
#include "host/clock.h"
#include "tests/emulated/emulated.h"
#include "tests/gpu_runs.h"
#include <string.h>

/* ---- streams that are held ---- */
enum { LONG_NS = 2000000000, SHORT_NS = 1000000 };

static void open_any(struct gpu *gpu)
{
    struct error error = { 0 };
    if (gpu_module_path())
        gpu_module_open_or_skip(gpu, 0);
    else
        ck_assert_msg(gpu_emulated_open(gpu, 1, 1, true, &error), "%s", error.message);
}

/* Behind a gate nothing runs before it is opened, and one that nobody opens opens by itself. */
START_TEST(gates_hold_streams)
{
    struct error err = { 0 };
    struct gpu gpu;
    open_any(&gpu);
    void *stream = gpu.open_stream(gpu.self, false, &err), *event = gpu.open_event(gpu.self, true, &err);
    gpu_gate *gate = gpu.allocate_host(gpu.self, sizeof *gate, &err);
    ck_assert_msg(stream && event && gate, "%s", err.message);
    atomic_init(gate, 0);
    ck_assert(gpu.hold(gpu.self, stream, gate, 1, LONG_NS, &err) && gpu.record(gpu.self, stream, event, &err));
    ck_assert(!gpu.reached(gpu.self, event));
    atomic_store(gate, 1);
    ck_assert(gpu.finish(gpu.self, stream, &err) && gpu.reached(gpu.self, event));
    ck_assert(gpu.hold(gpu.self, stream, gate, 1, LONG_NS, &err) && gpu.finish(gpu.self, stream, &err));
    ck_assert(gpu.hold(gpu.self, stream, gate, 2, SHORT_NS, &err) && gpu.record(gpu.self, stream, event, &err) &&
              gpu.finish(gpu.self, stream, &err));
    ck_assert(gpu.reached(gpu.self, event) && atomic_load(gate) == 1);
    gpu.release_host(gpu.self, gate);
    gpu.close_event(gpu.self, event);
    gpu.close_stream(gpu.self, stream);
    gpu.close(gpu.self);
}
END_TEST

static struct {
    bool (*hold)(void *self, void *stream, const gpu_gate *gate, int32_t number, int64_t most_ns, struct error *err);
    bool (*launch)(void *self, void *stream, enum gpu_kernel kernel, int64_t teams, const struct gpu_work *work,
                   struct error *err);
    const gpu_gate *gate; /* NULL: the step is not held */
    int32_t number;
    int gates, steps, launches; /* that were held */
    int bound;                  /* tasks of a stream; 0: any number */
} held;

static bool note_hold(void *self, void *stream, const gpu_gate *gate, int32_t number, int64_t most_ns,
                      struct error *err)
{
    held.gate = gate, held.number = number, held.gates++;
    return held.hold(self, stream, gate, number, most_ns, err);
}

/* Whatever is queued waits behind a gate that is closed. */
static bool note_held_launch(void *self, void *stream, enum gpu_kernel kernel, int64_t teams,
                             const struct gpu_work *work, struct error *err)
{
    if (held.gate) {
        ck_assert_int_lt(atomic_load(held.gate), held.number);
        held.launches++;
    }
    return held.launch(self, stream, kernel, teams, work, err);
}

static bool open_holding(struct rank *rank, struct error *err)
{
    struct gpu gpu;
    open_any(&gpu);
    held.hold = gpu.hold, held.launch = gpu.launch;
    gpu.hold = note_hold, gpu.launch = note_held_launch;
    if (held.bound > 0)
        gpu_emulated_bound(&gpu, held.bound);
    return gpu_device_open(rank, &gpu, NULL, err);
}

static bool finish_held_step(struct rank *rank, struct span *spans, struct error *err)
{
    bool ok = gpu_device_finish_step(rank, spans, err);
    ck_assert_msg(!held.gate || rank->step + 1 == rank->options->step_count, "step %lld", (long long)rank->step);
    ck_assert(!held.gate || atomic_load(held.gate) == held.number);
    held.steps += held.gate != NULL;
    held.gate = NULL;
    return ok;
}

/* The step whose times are told, behind one gate after another; what it computes is the same. Where a stream takes so
 * little that the host must wait for one that is held, the gates open by themselves. */
START_TEST(told_steps_are_held_back)
{
    struct device device = { .name = "holding", .open = open_holding, GPU_DEVICE_FUNCTIONS };
    device.finish_step = finish_held_step;
    memset(&held, 0, sizeof held);
    if (_i == 1 && gpu_module_path())
        return;
    held.bound = _i == 1 ? 16 : 0;
    struct outcome want = gpu_run(tiny_models[0], &gpu_single, &device_cpu, NULL, NULL);
    struct outcome got = gpu_run(tiny_models[0], &gpu_choices_tried[0], &device, NULL, NULL);
    gpu_expect_same(&got, &want);
    ck_assert_int_gt(got.spans_in_order, 0);
    ck_assert_int_eq(held.steps, 1);
    ck_assert_int_gt(held.gates, 1);
    ck_assert_int_gt(held.launches, held.gates);
}
END_TEST

/* ---- one lane at a time adds to a graph ---- */
static struct {
    bool (*begin_capture)(void *self, void *stream, struct error *err);
    bool (*end_capture)(void *self, void *stream, void **graph, struct error *err);
    atomic_bool keeps;
    atomic_int inside, instrs, mixed; /* mixed: begun while another one was inside */
} keeping;

static bool begin_keeping(void *self, void *stream, struct error *err)
{
    keeping.keeps = true;
    return keeping.begin_capture(self, stream, err);
}

static bool end_keeping(void *self, void *stream, void **graph, struct error *err)
{
    keeping.keeps = false;
    return keeping.end_capture(self, stream, graph, err);
}

/* Whoever is inside waits long enough for others to come. */
static void enter_keeping(const char *name)
{
    enum { NAP_NS = 200000 };
    (void)name;
    if (!keeping.keeps)
        return;
    keeping.instrs++;
    keeping.mixed += keeping.inside++ > 0;
    clock_sleep_until_ns(clock_now_ns() + NAP_NS);
}

static void leave_keeping(void)
{
    keeping.inside -= keeping.keeps;
}

static bool open_keeping(struct rank *rank, struct error *err)
{
    struct gpu gpu;
    open_any(&gpu);
    keeping.begin_capture = gpu.begin_capture, keeping.end_capture = gpu.end_capture;
    gpu.begin_capture = begin_keeping, gpu.end_capture = end_keeping;
    gpu.mark = enter_keeping, gpu.unmark = leave_keeping;
    return gpu_device_open(rank, &gpu, NULL, err);
}

START_TEST(graphs_take_one_instruction_at_a_time)
{
    const struct device device = { .name = "keeping", .open = open_keeping, GPU_DEVICE_FUNCTIONS };
    settings.steps = STEPS + 1;
    gpu_run(tiny_models[0], &gpu_choices_tried[0], &device, NULL, NULL);
    settings.steps = STEPS;
    ck_assert_int_gt(keeping.instrs, 2);
    ck_assert_int_eq(keeping.mixed, 0);
}
END_TEST

/* ---- events ---- */
static struct {
    bool (*record)(void *self, void *stream, void *event, struct error *err);
    atomic_int count; /* of this step */
} records;

static bool count_record(void *self, void *stream, void *event, struct error *err)
{
    records.count++;
    return records.record(self, stream, event, err);
}

static bool open_recording(struct rank *rank, struct error *err)
{
    struct gpu gpu;
    open_any(&gpu);
    records.record = gpu.record, gpu.record = count_record;
    return gpu_device_open(rank, &gpu, NULL, err);
}

static bool begin_recorded_step(struct rank *rank, struct error *err)
{
    records.count = 0;
    return gpu_device_begin_step(rank, err);
}

static int ends_that_count(const struct stage_program *stage)
{
    int count = 0;
    bool *counts = calloc((size_t)stage->instr_count, sizeof *counts);
    for (int i = 0; i < stage->instr_count; i++) {
        counts[i] = counts[i] || instr_moves_data(&stage->instrs[i]);
        for (int w = 0; w < stage->instrs[i].wait_count; w++)
            counts[stage->waits[stage->instrs[i].wait_first + w]] = true;
    }
    for (int i = 0; i < stage->instr_count; i++)
        count += counts[i];
    free(counts);
    return count;
}

/* Beside those that tie the clocks. */
static bool finish_recorded_step(struct rank *rank, struct span *spans, struct error *err)
{
    const struct stage_program *stage = &rank->program->stages[rank->stage];
    if (rank->step + 1 == rank->options->step_count)
        ck_assert_int_eq(records.count, 3 + 2 * stage->instr_count);
    else
        ck_assert_int_eq(records.count, ends_that_count(stage));
    return gpu_device_finish_step(rank, spans, err);
}

/* Only where times are told has every instruction its two events. */
START_TEST(events_are_those_that_someone_waits_for)
{
    struct device device = { .name = "recording", .open = open_recording, GPU_DEVICE_FUNCTIONS };
    device.begin_step = begin_recorded_step, device.finish_step = finish_recorded_step;
    settings.no_graphs = true;
    gpu_run(tiny_models[0], &gpu_choices_tried[0], &device, NULL, NULL);
    settings.no_graphs = false;
}
END_TEST

static Suite *gpu_steps_suite(void)
{
    Suite *suite = suite_create("gpu_steps");
    CHECK_ADD(suite, gates_hold_streams);
    CHECK_ADD_LOOP(suite, told_steps_are_held_back, 2);
    CHECK_ADD(suite, graphs_take_one_instruction_at_a_time);
    CHECK_ADD(suite, events_are_those_that_someone_waits_for);
    return suite;
}

CHECK_MAIN(gpu_steps_suite)
