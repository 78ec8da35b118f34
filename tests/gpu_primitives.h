/* The kernels of a GPU as a set of primitives, so that tests of kernels hold them to the same loops as the processor's:
 * each call copies its operands to the device and back. */
#ifndef CLEAVE_TESTS_GPU_PRIMITIVES_H
#define CLEAVE_TESTS_GPU_PRIMITIVES_H
#include "executor/kernels/primitives.h"

/* What tests ask instead of the processor's sets. With CLEAVE_GPU_MODULE set to the path of a module, the GPU behind
 * it; else emulated ones of several shapes. The process ends with status 77 where there is no GPU. */
const struct primitives *gpu_primitives_at(int index);
/* The same GPUs, whose memory holds in bf16 what a plan in bf16 keeps so; callers see reals, rounded. Of the kernels of
 * experts there are none. */
const struct primitives *gpu_primitives_half_at(int index);
#endif
