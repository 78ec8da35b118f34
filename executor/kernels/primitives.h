/* What the CPU kernels share. Every file here except dispatch.c and initialise.c is compiled once per instruction set;
 * ISA() gives its functions distinct names and dispatch.c chooses. A kernel sees an operand as a corner and strides
 * along the segment's axes, so a shard, a slice and a ring block are one code path. */
#ifndef CLEAVE_EXECUTOR_KERNELS_PRIMITIVES_H
#define CLEAVE_EXECUTOR_KERNELS_PRIMITIVES_H
#include "executor/kernels/loops.h"
#include "executor/kernels/product.h"

#ifndef CLEAVE_KERNEL_ISA
#define CLEAVE_KERNEL_ISA baseline
#endif
#define ISA_JOIN(name, isa) name##_##isa
#define ISA_EXPAND(name, isa) ISA_JOIN(name, isa)
#define ISA(name) ISA_EXPAND(name, CLEAVE_KERNEL_ISA)

struct gemm;

/* One instruction set's functions. */
struct primitives {
    const char *isa; /* "avx512", "avx2", "baseline" */
    kernel_function *kernel[KERNEL_COUNT][PHASE_COUNT];
    void (*adamw)(real *weight, const real *present, const real *gradient, real *state, int64_t count,
                  const struct adamw *options);
    double (*square_sum)(const real *data, int64_t count);
    void (*add)(real *destination, const real *source, int64_t count);
    void (*add_bf16)(uint16_t *destination, const uint16_t *source, int64_t count);
    void (*maximum)(real *destination, const real *source, int64_t count);
    void (*exponential)(real *destination, const real *source,
                        int64_t count); /* elementwise; what the kernels use inside, as is the product */
    void (*gemm)(const struct gemm *gemm);
};
/* The sets this processor can run, best first; NULL from the first index beyond. */
const struct primitives *primitives_at(int index);

extern const struct primitives ISA(primitives);
#define PRIMITIVE(kernel, phase, name) void ISA(name)(const struct kernel_call *call);
#include "executor/kernels/primitives.def"
#undef PRIMITIVE
void ISA(optimizer_adamw)(real *weight, const real *present, const real *gradient, real *state, int64_t count,
                          const struct adamw *options);
double ISA(optimizer_square_sum)(const real *data, int64_t count);
void ISA(optimizer_add)(real *destination, const real *source, int64_t count);
void ISA(optimizer_add_bf16)(uint16_t *destination, const uint16_t *source, int64_t count);
void ISA(optimizer_maximum)(real *destination, const real *source, int64_t count);
void ISA(exponential)(real *destination, const real *source, int64_t count);

/* ---- operands ---- */
#define spot_of ISA(spot_of)
#define spot_of_index ISA(spot_of_index)
struct spot spot_of(const struct kernel_call *call, enum role role, int index);
/* Locates ELEMENT_INDEX operands. */
struct spot spot_of_index(const struct kernel_call *call, enum role role, int index);

/* ---- walking over elements ---- */
struct row {
    int64_t count;
    void *data[WALK_SPOTS];
    int64_t step[WALK_SPOTS]; /* elements from one to the next: 1, or 0 where the operand lacks the row's axes */
};
typedef void row_function(const struct row *row, const void *context);
#define walk ISA(walk)
/**
 * Calls row for each run along the last of the axes that `order` (dim_count dims) follows. With merge, runs are joined
 * while all spots stay contiguous (elementwise work); without, a run is exactly the last axis (reductions over it).
 */
void walk(const struct kernel_call *call, const struct operand *order, int dim_count, bool merge,
          const struct spot *spots, int spot_count, row_function *row, const void *context);
/* Makes the range of an operand 0. */
#define clear_operand ISA(clear_operand)
void clear_operand(const struct kernel_call *call, enum role role, int index);
/* Each element of out[0] becomes that of weight `index`, a bias. */
#define fill_with_bias ISA(fill_with_bias)
void fill_with_bias(const struct kernel_call *call, int index);
/* Adds the gradient of out[0] over all axes that the weight lacks: the gradient of a bias (weight `index`). */
#define bias_gradient ISA(bias_gradient)
void bias_gradient(const struct kernel_call *call, int index);

/* Hands the gradient of out[0] on to input `index` unchanged. */
#define pass_gradient ISA(pass_gradient)
void pass_gradient(const struct kernel_call *call, int index);

/* Makes 0 what the range's samples and channels have in operand 0 of the role, (b, positions, channels), at all
 * positions, which follow no axis. */
#define clear_pixels ISA(clear_pixels)
void clear_pixels(const struct kernel_call *call, enum role role);

/* Sums the products of two rows. */
#define dot_product ISA(dot_product)
real dot_product(const real *x, const real *y, int64_t count);

/* ---- matrix product (product.h); any strides ---- */
#define gemm_run ISA(gemm_run)
void gemm_run(const struct gemm *gemm);
#endif
