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

/* To the nearest, ties to even; a NaN stays one. */
ELEMENT uint16_t bf16_of_real(real value)
{
    union real_bits u;
    u.value = (float)value;
    if ((u.bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u.bits >> 16 | 0x40);
    return (uint16_t)((u.bits + 0x7fffu + (u.bits >> 16 & 1)) >> 16);
}
#endif
