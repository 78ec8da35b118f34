/* Chooses the instruction set at each call from what the processor reports (a few loads and compares): no state, no
 * start-up order. KERNELS_HAVE_AVX2 and _AVX512 say which sets the build could compile. */
#include "executor/kernels/primitives.h"
#include <stddef.h>

#ifdef KERNELS_HAVE_AVX2
extern const struct primitives primitives_avx2;
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif
#ifdef KERNELS_HAVE_AVX512
extern const struct primitives primitives_avx512;
static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
}
#endif

const struct primitives *primitives_at(int index)
{
#ifdef KERNELS_HAVE_AVX512
    if (has_avx512() && index-- == 0)
        return &primitives_avx512;
#endif
#ifdef KERNELS_HAVE_AVX2
    if (has_avx2() && index-- == 0)
        return &primitives_avx2;
#endif
    return index == 0 ? &primitives_baseline : NULL;
}

kernel_function *kernel_find(enum kernel kernel, enum phase phase)
{
    return primitives_at(0)->kernel[kernel][phase];
}

void kernel_adamw(real *weight, const real *present, const real *gradient, real *state, int64_t count,
                  const struct adamw *options)
{
    primitives_at(0)->adamw(weight, present, gradient, state, count, options);
}

double kernel_square_sum(const real *data, int64_t count)
{
    return primitives_at(0)->square_sum(data, count);
}

void kernel_add(real *destination, const real *source, int64_t count)
{
    primitives_at(0)->add(destination, source, count);
}

void kernel_add_bf16(uint16_t *destination, const uint16_t *source, int64_t count)
{
    primitives_at(0)->add_bf16(destination, source, count);
}

void kernel_maximum(real *destination, const real *source, int64_t count)
{
    primitives_at(0)->maximum(destination, source, count);
}
