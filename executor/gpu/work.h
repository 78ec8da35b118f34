/* What a launch of a GPU kernel is given: loops, operands, numbers. Plain data, passed by value to the device; no
 * header of the program is included, so that nvcc reads it as C++. */
#ifndef CLEAVE_EXECUTOR_GPU_WORK_H
#define CLEAVE_EXECUTOR_GPU_WORK_H
#include "executor/real.h"
#include <stdbool.h>
#include <stdint.h>

enum { GPU_SPOTS = 11, GPU_LOOPS = 10, GPU_NUMBERS = 12 };
enum gpu_type { GPU_REAL, GPU_BF16, GPU_INDEX };

struct gpu_spot { /* an operand; element (i, j, ...) of the loops lies at the sum of index times stride */
    void *data;   /* NULL: absent */
    int type;     /* enum gpu_type */
    bool begin;   /* a written operand: overwritten, else accumulated */
    int64_t stride[GPU_LOOPS];
};
struct gpu_work {
    /* loops [0, outer_loops) are the outer ones, the next inner_loops the inner ones; each outermost first */
    int outer_loops, inner_loops;
    int64_t outer, inner; /* products of their extents; 1 without loops */
    int64_t extent[GPU_LOOPS];
    struct gpu_spot spot[GPU_SPOTS];
    int64_t integer[GPU_NUMBERS];
    double number[GPU_NUMBERS];
    int64_t shared_reals; /* of the team, beside what reductions need */
};

enum gpu_kernel {
#define GPU_KERNEL(id, function, threads) GPU_##id,
#include "executor/gpu/kernels.def"
    GPU_KERNEL_COUNT
};
#endif
