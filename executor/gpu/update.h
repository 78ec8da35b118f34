/* What the kernels ADAMW and SQUARE_PARTS are given: a table of weights, and what it multiplies by. Both lie in device
 * memory; nvcc reads this. */
#ifndef CLEAVE_EXECUTOR_GPU_UPDATE_H
#define CLEAVE_EXECUTOR_GPU_UPDATE_H
#include "executor/gpu/work.h"
#include "executor/kernels/elements.h"

enum { GPU_UPDATE_CHUNK = 1024 }; /* elements; teams share a launch by chunks, of which none holds two weights */

/* The part of one weight that a rank updates. Of the spots strides and begin mean nothing. */
struct gpu_update {
    int64_t count; /* elements */
    int64_t chunk; /* the first of its chunks, in those of the launch */
    struct gpu_spot weight, gradient;
    struct gpu_spot moments; /* first, then second, each `count` elements */
    struct gpu_spot master;  /* absent, or the weights in full precision, of which `weight` then is a copy in bf16 */
    bool by_chance;          /* whether the copy is rounded by chance, else to the nearest. Then: */
    int64_t first;           /* place of element 0 in the flattened block */
    int64_t origin;          /* number of the block's first element in the whole weight */
    int loop_count;          /* over the flattened block, outermost first, and their strides in the whole weight */
    int64_t extent[GPU_LOOPS], stride[GPU_LOOPS];
};

/* What differs from step to step; rates.scale is not used. */
struct gpu_update_rates {
    struct adamw_rates rates;
    double limit; /* of the gradient's norm */
    uint64_t key; /* of rounding by chance */
};

enum gpu_update_spot {
    UPDATE_TABLE, /* struct gpu_update of each weight; of squares count, chunk and gradient */
    ADAMW_RATES,  /* its struct gpu_update_rates */
    ADAMW_NORM,   /* absent, or the squared norm of all gradients */
    SQUARES_PARTS /* a double of each team */
};
enum gpu_update_integer { UPDATE_WEIGHTS, UPDATE_CHUNKS };
#endif
