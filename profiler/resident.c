#define _POSIX_C_SOURCE 200809L
#include "profiler/resident.h"
#include "base/num.h"
#include "executor/kernel.h"
#include "host/blas.h"
#include "host/clock.h"
#include "host/machine.h"
#include <math.h>
#include <pthread.h>
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

/* One thread's products. */
struct products {
    real *memory;
    double seconds;
    struct reference found;
    pthread_t thread;
    bool started;
};

static void time_calls(struct products *p, const struct kernel_call *call)
{
    enum { FEWEST = 5, MOST = 400 };
    int64_t times[MOST];
    int count = 0;
    kernel_function *kernel = kernel_find(KERNEL_MATMUL, PHASE_FORWARD);
    kernel(call); /* the warm-up */
    int64_t begin = clock_now_ns(), begin_cpu = thread_cpu_ns(), now = begin;
    while (count < FEWEST || (count < MOST && (double)(now - begin) < p->seconds * 1e9)) {
        int64_t start = now;
        kernel(call);
        now = clock_now_ns();
        times[count++] = now - start;
    }
    p->found.share = (double)(thread_cpu_ns() - begin_cpu) / (double)(now - begin + 1);
    qsort(times, (size_t)count, sizeof *times, compare_i64);
    p->found.ns = times[count / 2];
}

static void *multiply(void *context)
{
    enum { SIZE = REFERENCE_EDGE, ELEMENTS = SIZE * SIZE };
    struct products *p = context;
    struct segment segment = square_product(SIZE);
    for (int i = 0; i < 3 * ELEMENTS; i++)
        p->memory[i] = (real)(i % 17) / 16 - (real)0.5;
    struct kernel_call call = {
        .segment = &segment, .phase = PHASE_FORWARD, .high = { SIZE, SIZE, SIZE }, .first = true
    };
    const enum role roles[] = { ROLE_IN, ROLE_WEIGHT, ROLE_OUT };
    for (int i = 0; i < 3; i++)
        call.operand[roles[i]][0] =
            (struct view){ .data = p->memory + i * ELEMENTS, .dim_count = 2, .count = { SIZE, SIZE } };
    call.define[ROLE_OUT] = 1;
    time_calls(p, &call);
    return NULL;
}

/* The first on the calling thread. False: the system gave too few threads. */
static bool multiply_all(struct products *all, int count)
{
    bool good = true;
    for (int i = 1; i < count; i++)
        good &= all[i].started = pthread_create(&all[i].thread, NULL, multiply, &all[i]) == 0;
    multiply(&all[0]);
    for (int i = 1; i < count; i++)
        if (all[i].started)
            pthread_join(all[i].thread, NULL);
    return good;
}

bool reference_measure(struct reference *out, int ranks, double seconds, struct error *err)
{
    const size_t elements = 3 * (size_t)REFERENCE_EDGE * REFERENCE_EDGE;
    struct host_machine host;
    host_machine_read(&host);
    int count = (int)max_i64(1, min_i64(ranks, host.cores));
    struct products *all = calloc((size_t)count, sizeof *all);
    real *memory = malloc((size_t)count * elements * sizeof *memory);
    for (int i = 0; all && memory && i < count; i++)
        all[i] = (struct products){ .memory = memory + (size_t)i * elements, .seconds = seconds };
    *out = (struct reference){ .share = 1 };
    if (all && memory && !blas_reserve(count, err)) { /* OpenBLAS would ask for ever */
        free(memory);
        free(all);
        return false;
    }
    bool good = all && memory && multiply_all(all, count);
    for (int i = 0; good && i < count; i++) {
        out->ns = max_i64(out->ns, all[i].found.ns);
        out->share = fmin(out->share, all[i].found.share);
    }
    free(memory);
    free(all);
    return good || fail_kind(err, ERROR_ENVIRONMENT, "no memory or threads for the reference product");
}
