#define _POSIX_C_SOURCE 200809L
#include "tests/gpu_primitives.h"
#include "executor/gpu/issue.h"
#include "executor/kernels/bf16.h"
#include "tests/emulated/emulated.h"
#include "tests/gpu_module.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void require(bool ok, const struct error *error)
{
    if (ok)
        return;
    fprintf(stderr, "%s\n", error->message);
    abort();
}

static bool holds_indices(const struct kernel_call *call, enum role role, int index)
{
    const enum kernel kernel = call->segment->kernel;
    if (role == ROLE_OUT)
        return kernel == KERNEL_ROUTE && index > 0;
    return role == ROLE_IN && ((kernel == KERNEL_EMBED && index == 0) || (kernel == KERNEL_PICK && index == 1) ||
                               (kernel == KERNEL_NLL && index == 3) || (kernel == KERNEL_DISPATCH && index == 1) ||
                               (kernel == KERNEL_COMBINE && index == 2) || (kernel == KERNEL_MATMUL && index == 1));
}

/* What a plan in bf16 keeps in full precision: statistics (models/kinds give them ELEMENT_STATISTIC) and the gradients
 * of weights. */
static bool is_precise(const struct kernel_call *call, enum role role, int index)
{
    const bool of_out = role == ROLE_OUT || role == ROLE_GRADIENT_OUT;
    switch (role) {
    case ROLE_GRADIENT_WEIGHT:
        return true;
    case ROLE_WEIGHT:
        return false;
    case ROLE_IN:
    case ROLE_GRADIENT_IN:
    case ROLE_OUT:
    case ROLE_GRADIENT_OUT:
    case ROLE_COUNT:
        break;
    }
    const enum kernel kernel = call->segment->kernel;
    if (kernel == KERNEL_LOGIT_MAX || kernel == KERNEL_PICK)
        return of_out;
    if (kernel == KERNEL_SUM_EXP)
        return of_out || index == 1;
    return kernel == KERNEL_NLL || (of_out && index > 0); /* means, deviations, log-sum-exps */
}

static int64_t view_elements(const struct view *view)
{
    int64_t elements = 1;
    for (int dim = 0; dim < view->dim_count; dim++)
        elements *= view->count[dim];
    return elements;
}

static size_t view_bytes(const struct view *view, int type)
{
    return (size_t)(view_elements(view) * gpu_type_bytes(type));
}

static void *upload(const struct gpu *gpu, void *stream, const void *from, size_t bytes)
{
    struct error error = { 0 };
    void *memory = gpu->allocate(gpu->self, bytes, &error);
    require(memory && gpu->copy(gpu->self, stream, memory, from, bytes, &error), &error);
    return memory;
}

static void *upload_view(const struct gpu *gpu, void *stream, const struct view *view, int type)
{
    if (type != GPU_BF16)
        return upload(gpu, stream, view->data, view_bytes(view, type));
    struct error error = { 0 };
    uint16_t *rounded = malloc(view_bytes(view, type) + 1);
    for (int64_t i = 0; i < view_elements(view); i++)
        rounded[i] = bf16_of_real(((const real *)view->data)[i]);
    void *memory = upload(gpu, stream, rounded, view_bytes(view, type));
    require(gpu->finish(gpu->self, stream, &error), &error); /* before its source goes */
    free(rounded);
    return memory;
}

static void download_view(const struct gpu *gpu, void *stream, const struct view *to, const void *from, int type)
{
    struct error error = { 0 };
    uint16_t *rounded = type == GPU_BF16 ? malloc(view_bytes(to, type) + 1) : NULL;
    require(gpu->copy(gpu->self, stream, rounded ? rounded : to->data, from, view_bytes(to, type), &error), &error);
    if (!rounded)
        return;
    require(gpu->finish(gpu->self, stream, &error), &error);
    for (int64_t i = 0; i < view_elements(to); i++)
        ((real *)to->data)[i] = real_of_bf16(rounded[i]);
    free(rounded);
}

/* An operand of lower number that has the same elements, whose memory it shares; NULL: none. */
static void *shared_memory(const struct kernel_call *call, const struct kernel_call *device, int operand)
{
    const struct view *views = &call->operand[0][0];
    for (int other = 0; other < operand; other++)
        if (views[operand].data && views[other].data == views[operand].data)
            return (&device->operand[0][0])[other].data;
    return NULL;
}

static void run_on(const struct gpu *gpu, const struct kernel_call *call, bool half)
{
    struct error error = { 0 };
    struct kernel_call device = *call;
    struct gpu_call g = { .gpu = gpu, .stream = gpu->open_stream(gpu->self, false, &error), .call = &device };
    require(g.stream != NULL, &error);
    size_t table_bytes = (size_t)gpu_table_bytes(call->segment);
    void *table = malloc(table_bytes + 1);
    gpu_table_fill(call->segment, table);
    void *device_table = upload(gpu, g.stream, table, table_bytes);
    g.table = device_table;
    const size_t counts = (size_t)gpu_overflow_counts(gpu);
    int32_t *overflow = calloc(counts, sizeof *overflow), *device_overflow = NULL;
    double *parts = gpu->allocate(gpu->self, (size_t)gpu_part_count(gpu) * sizeof *parts, &error);
    require((g.parts = parts) != NULL, &error);
    if (call->overflow)
        g.overflow = device_overflow = upload(gpu, g.stream, overflow, counts * sizeof *overflow);
    for (int role = 0; role < ROLE_COUNT; role++)
        for (int i = 0; i < MAX_OPERANDS; i++) {
            struct view *view = &device.operand[role][i];
            g.type[role][i] = holds_indices(call, (enum role)role, i)         ? GPU_INDEX
                              : half && !is_precise(call, (enum role)role, i) ? GPU_BF16
                                                                              : GPU_REAL;
            void *shared = shared_memory(call, &device, role * MAX_OPERANDS + i);
            if (view->data)
                view->data = shared ? shared : upload_view(gpu, g.stream, view, g.type[role][i]);
        }
    require(gpu_issue(&g, &error), &error);
    for (int role = 0; role < ROLE_COUNT; role++)
        for (int i = 0; i < MAX_OPERANDS; i++)
            if (role_written(call->phase, (enum role)role) && call->operand[role][i].data)
                download_view(gpu, g.stream, &call->operand[role][i], device.operand[role][i].data, g.type[role][i]);
    if (call->overflow)
        require(gpu->copy(gpu->self, g.stream, overflow, device_overflow, counts * sizeof *overflow, &error), &error);
    require(gpu->finish(gpu->self, g.stream, &error), &error);
    for (size_t i = 0; call->overflow && i < counts; i++)
        *call->overflow += overflow[i];
    gpu->release(gpu->self, device_overflow);
    gpu->release(gpu->self, parts);
    free(overflow);
    for (int role = 0; role < ROLE_COUNT; role++)
        for (int i = 0; i < MAX_OPERANDS; i++)
            if (!shared_memory(call, &device, role * MAX_OPERANDS + i))
                gpu->release(gpu->self, device.operand[role][i].data);
    gpu->release(gpu->self, device_table);
    gpu->close_stream(gpu->self, g.stream);
    free(table);
}

/* ---- the GPUs ---- */
static void run_emulated(const struct kernel_call *call, int threads, int teams, bool with_library, bool half)
{
    struct gpu gpu;
    struct error error = { 0 };
    require(gpu_emulated_open(&gpu, threads, teams, with_library, &error), &error);
    run_on(&gpu, call, half);
    gpu.close(gpu.self);
}

static void run_alone(const struct kernel_call *call)
{
    run_emulated(call, 1, 1, true, false);
}

static void run_alone_half(const struct kernel_call *call)
{
    run_emulated(call, 1, 1, true, true);
}

static void run_teams(const struct kernel_call *call)
{
    run_emulated(call, 8, 3, false, false);
}

static void run_teams_half(const struct kernel_call *call)
{
    run_emulated(call, 8, 3, false, true);
}

static struct gpu module_gpu; /* opened once; only in processes that test a module */

static void run_module(const struct kernel_call *call)
{
    run_on(&module_gpu, call, false);
}

static void run_module_half(const struct kernel_call *call)
{
    run_on(&module_gpu, call, true);
}

static bool is_of_experts(enum kernel kernel)
{
    return kernel == KERNEL_ROUTE || kernel == KERNEL_DISPATCH || kernel == KERNEL_COMBINE;
}

static const struct primitives *fill_set(struct primitives *set, const char *name, kernel_function *run, bool half)
{
    *set = (struct primitives){ .isa = name };
    for (int kernel = 0; kernel < KERNEL_COUNT; kernel++)
        for (int phase = 0; phase < PHASE_COUNT; phase++)
            if (gpu_computes((enum kernel)kernel, (enum phase)phase) && !(half && is_of_experts((enum kernel)kernel)))
                set->kernel[kernel][phase] = run;
    return set;
}

static const struct primitives *set_at(struct primitives *set, int index, bool half)
{
    if (gpu_module_path()) {
        if (!module_gpu.self)
            gpu_module_open_or_skip(&module_gpu, 0);
        return index == 0 ? fill_set(set, module_gpu.description, half ? run_module_half : run_module, half) : NULL;
    }
    if (index == 0)
        return fill_set(set, "one thread, with a library", half ? run_alone_half : run_alone, half);
    return index == 1 ? fill_set(set, "teams of threads", half ? run_teams_half : run_teams, half) : NULL;
}

const struct primitives *gpu_primitives_at(int index)
{
    static struct primitives set;
    return set_at(&set, index, false);
}

const struct primitives *gpu_primitives_half_at(int index)
{
    static struct primitives set;
    return set_at(&set, index, true);
}
