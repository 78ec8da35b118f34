/* Numbers of 16 bits with the exponent of a float, on any device. */
#ifndef CLEAVE_EXECUTOR_KERNELS_BF16_H
#define CLEAVE_EXECUTOR_KERNELS_BF16_H
#include "executor/kernels/elements.h"
#include <stdint.h>

union real_bits {
    float value;
    uint32_t bits;
};

ELEMENT real real_of_bf16(uint16_t half)
{
    union real_bits u;
    u.bits = (uint32_t)half << 16;
    return (real)u.value;
}

/* Rounds to the nearest, ties to even; a NaN stays one. A GPU has an instruction for it, of which the one for two
 * numbers is the fast one. */
ELEMENT uint16_t bf16_of_real(real value)
{
#ifdef __CUDACC__
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(0.0f), "f"(value));
    return (uint16_t)pair;
#else
    union real_bits u;
    u.value = (float)value;
    if ((u.bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u.bits >> 16 | 0x40);
    return (uint16_t)((u.bits + 0x7fffu + (u.bits >> 16 & 1)) >> 16);
#endif
}
/* splitmix64's finaliser, as mix64() of base/num.h, which no GPU can call. */
ELEMENT uint64_t rounding_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* Up or down to a neighbour, the nearer the likelier, so that the mean is exact. Which one depends on the key
 * (kernel_rounding_key: of the seed, the weight and the step) and on the element's number in the whole weight, not on
 * who holds it. What is no number is rounded to the nearest. */
ELEMENT uint16_t bf16_by_chance(real value, uint64_t key, int64_t element)
{
    union real_bits u;
    u.value = (float)value;
    if ((u.bits & 0x7f800000u) == 0x7f800000u)
        return bf16_of_real(value);
    return (uint16_t)((u.bits + (uint32_t)(rounding_mix(key + (uint64_t)element) & 0xffffu)) >> 16);
}
#endif
