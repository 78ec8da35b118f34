/* Device primitives on the CPU: each phase of each kernel of models/kernels.def, on blocks in global coordinates.
 * `real` is float, or double where CLEAVE_REAL_DOUBLE is defined (oracle builds). Index values are int32_t in the same
 * views. */
#ifndef CLEAVE_EXECUTOR_KERNEL_H
#define CLEAVE_EXECUTOR_KERNEL_H
#include "executor/real.h"
#include "planner/program/program.h"

struct view {   /* a dense row-major block; low: its place in the global tensor */
    void *data; /* real, or int32_t for ELEMENT_INDEX values; NULL: absent */
    int dim_count;
    int64_t low[MAX_DIMS], count[MAX_DIMS];
};
struct kernel_call {
    const struct segment *segment;
    enum phase phase;
    int64_t low[MAX_AXES], high[MAX_AXES]; /* global range of each axis */
    int64_t token_parts; /* of the order in which tokens are stored (executor/kernels/token_order.h); 0: in the range
                            positions follow each other */
    int64_t shift[MAX_AXES];    /* position of a token in its sequence, less the place where it is stored */
    bool first;                 /* folds start here: outputs begin anew */
    uint8_t define[ROLE_COUNT]; /* bit i: written operand i is overwritten, else accumulated */
    struct view operand[ROLE_COUNT][MAX_OPERANDS];
    real *scratch;     /* segment_scratch_elements() of them */
    int64_t *overflow; /* route adds the choices that found no slot; may be NULL */
    double loss_scale; /* slope from which backward of the loss begins: auxiliary losses begin from it, too */
};
typedef void kernel_function(const struct kernel_call *call);
/* NULL where the kernel has no such phase or no math (OPAQUE). */
kernel_function *kernel_find(enum kernel kernel, enum phase phase);

/* ---- the optimizer and small things, on flat ranges ---- */
struct adamw {
    double learning_rate, beta1, beta2, epsilon, weight_decay;
    int64_t step;          /* from 1 */
    double gradient_scale; /* clipping */
};
/* The new weight from the present one, which may be the same array. weight, present, gradient: count elements; state: 2
 * * count (first moments, then second). Loshchilov & Hutter 2019, algorithm 2. */
void kernel_adamw(real *weight, const real *present, const real *gradient, real *state, int64_t count,
                  const struct adamw *options);
double kernel_square_sum(const real *data, int64_t count);
void kernel_add(real *destination, const real *source, int64_t count);
/* Sums are rounded to the nearest, ties to even. */
void kernel_add_bf16(uint16_t *destination, const uint16_t *source, int64_t count);
void kernel_maximum(real *destination, const real *source, int64_t count);
struct block;
/* Global row-major place of an element of a weight's flattened block, and its row. */
int64_t kernel_global_element(const struct weight *weight, const struct block *block, int64_t element, int64_t *row);
/* Returns the key that decides how bf16_by_chance() rounds the weight after the update with this number. */
uint64_t kernel_rounding_key(uint64_t seed, const struct weight *weight, int64_t step);
/* Initial values of a weight's block (or of piece `index` of `count` equal padded pieces of the flattened block), keyed
 * by (seed, weight name, global element): independent of the plan. Rows from valid_rows on are 0. */
void kernel_initialise(real *out, const struct weight *weight, const struct block *block, int64_t first_element,
                       int64_t element_count, uint64_t seed);
/* Others of the same mean and deviation, evenly spread, in a tenth of the time: to time with. */
void kernel_initialise_roughly(real *out, const struct weight *weight, const struct block *block, int64_t first_element,
                               int64_t element_count, uint64_t seed);
#endif
