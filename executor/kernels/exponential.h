/* exp() that compilers vectorise. Double builds are oracles and take libm's. A GPU has an instruction for
 * powers of two: its result is off by 2^-22 of itself and, for what is rounded before, by |x| 2^-24. */
#ifndef CLEAVE_EXECUTOR_KERNELS_EXPONENTIAL_H
#define CLEAVE_EXECUTOR_KERNELS_EXPONENTIAL_H
#include "executor/real.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
static __host__ __device__ inline float real_exp(float x)
{
#ifdef __CUDA_ARCH__
    float out;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x * 1.44269504088896341f));
    return out;
#else
    return expf(x);
#endif
}
#define real_log logf
#define real_sqrt sqrtf
#define real_erf erff
#elif defined(CLEAVE_REAL_DOUBLE)
static inline real real_exp(real x)
{
    return exp(x);
}
#define real_log log
#define real_sqrt sqrt
#define real_erf erf
#else
static inline float power_of_two(int32_t exponent) /* -126..127 */
{
    int32_t bits = (exponent + 127) * (1 << 23);
    float out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

/* exp(x) = 2^n exp(r), r in [-ln2/2, ln2/2]; the polynomial of Cephes' expf (Moshier). The power is applied in two
 * halves, so that results run into denormals and into infinity without a branch; NaN passes. At most 2 units in the
 * last place. */
static inline real real_exp(real x)
{
    const float rounder = 12582912.0f; /* 1.5 * 2^23: adding it leaves the nearest integer in the low bits */
    x = x < -105.0f ? -105.0f : x;
    x = x > 90.0f ? 90.0f : x;
    float shifted = x * 1.44269504088896341f + rounder;
    float whole = shifted - rounder;
    int32_t n;
    memcpy(&n, &shifted, sizeof n);
    n -= 0x4b400000;
    n = n < -160 ? -160 : n > 160 ? 160 : n; /* of a NaN the bits mean nothing; keep the arithmetic defined */
    float r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    int32_t half = n >> 1;
    return p * power_of_two(half) * power_of_two(n - half);
}
#define real_log logf
#define real_sqrt sqrtf
#define real_erf erff
#endif
#endif
