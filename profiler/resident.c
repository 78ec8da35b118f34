#define _POSIX_C_SOURCE 200809L
#include "profiler/resident.h"
#include "base/num.h"
#include "executor/kernel.h"
#include "host/clock.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int64_t resident_bytes(void)
{
    long long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file)
        return 0;
    if (fscanf(file, "%lld %lld", &total, &resident) != 2)
        resident = 0;
    fclose(file);
    return (int64_t)resident * sysconf(_SC_PAGESIZE);
}

struct segment square_product(int64_t size)
{
    struct segment segment = {
        .name = "reference", .kernel = KERNEL_MATMUL, .axis_count = 3, .in_count = 1, .out_count = 1, .weight_count = 1
    };
    for (int i = 0; i < 3; i++)
        segment.axes[i] = (struct axis){ .size = size, .grain = 1, .fold = i == 1 ? FOLD_SUM : FOLD_NONE };
    segment.in[0] = (struct operand){ .axis = { 0, 1, -1, -1, -1 } };
    segment.weight[0] = (struct operand){ .axis = { 2, 1, -1, -1, -1 } };
    segment.out[0] = (struct operand){ .axis = { 0, 2, -1, -1, -1 } };
    return segment;
}

/* Processor time of this thread alone. */
static int64_t thread_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void time_calls(struct reference *out, double seconds, const struct kernel_call *call)
{
    enum { FEWEST = 5, MOST = 400 };
    int64_t times[MOST];
    int count = 0;
    kernel_function *kernel = kernel_find(KERNEL_MATMUL, PHASE_FORWARD);
    kernel(call); /* the warm-up */
    int64_t begin = clock_now_ns(), begin_cpu = thread_cpu_ns(), now = begin;
    while (count < FEWEST || (count < MOST && (double)(now - begin) < seconds * 1e9)) {
        int64_t start = now;
        kernel(call);
        now = clock_now_ns();
        times[count++] = now - start;
    }
    out->share = (double)(thread_cpu_ns() - begin_cpu) / (double)(now - begin + 1);
    qsort(times, (size_t)count, sizeof *times, compare_i64);
    out->ns = times[count / 2];
}

bool reference_measure(struct reference *out, double seconds, struct error *err)
{
    const int64_t size = REFERENCE_EDGE;
    struct segment segment = square_product(size);
    size_t elements = (size_t)size * (size_t)size;
    real *memory = malloc(3 * elements * sizeof *memory);
    if (!memory)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for the reference product");
    for (size_t i = 0; i < 3 * elements; i++)
        memory[i] = (real)(i % 17) / 16 - (real)0.5;
    struct kernel_call call = {
        .segment = &segment, .phase = PHASE_FORWARD, .high = { size, size, size }, .first = true
    };
    const enum role roles[] = { ROLE_IN, ROLE_WEIGHT, ROLE_OUT };
    for (int i = 0; i < 3; i++)
        call.operand[roles[i]][0] =
            (struct view){ .data = memory + (size_t)i * elements, .dim_count = 2, .count = { size, size } };
    call.define[ROLE_OUT] = 1;
    time_calls(out, seconds, &call);
    free(memory);
    return true;
}
