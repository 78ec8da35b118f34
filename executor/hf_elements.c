#include "executor/hf_elements.h"
#include <string.h>

union bits {
    float value;
    uint32_t bits;
};

bool hf_elements_known(enum tensor_type type)
{
    return type == TENSOR_F32 || type == TENSOR_BF16 || type == TENSOR_F16;
}

/* 1 sign, 5 exponent (bias 15), 10 mantissa; exponent 0: mantissa * 2^-24. A NaN keeps its payload. */
static uint32_t of_half(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, mantissa = half & 0x3ffu, exponent = half >> 10 & 0x1fu;
    union bits u;
    if (exponent == 0) {
        u.value = (float)mantissa * 0x1p-24f;
        return sign | u.bits;
    }
    return sign | (exponent == 0x1f ? 0xffu : exponent + 127 - 15) << 23 | mantissa << 13;
}

static uint16_t to_half(uint32_t bits)
{
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    const uint32_t magnitude = bits & 0x7fffffffu;
    union bits u = { .bits = magnitude };
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7c00u | ((magnitude >> 13 & 0x3ffu) ? magnitude >> 13 & 0x3ffu : 1));
    if (magnitude >= 0x477ff000u) /* from 65520 on the nearest is infinite */
        return sign | 0x7c00u;
    if (magnitude < 0x38800000u) { /* below 2^-14: steps of 2^-24, which the sum with 0.5 rounds to */
        u.value += 0.5f;
        return (uint16_t)(sign | (u.bits - 0x3f000000u));
    }
    const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1);
    return (uint16_t)(sign | ((rounded >> 13) - ((127 - 15) << 10)));
}

static uint16_t to_bf16(uint32_t bits)
{
    if ((bits & 0xffffu) == 0) /* it holds this as it is, a NaN too */
        return (uint16_t)(bits >> 16);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

void hf_elements_read(real *out, const unsigned char *from, enum tensor_type type, int64_t stride, int64_t count)
{
    const int64_t step = stride * tensor_type_bytes(type);
    for (int64_t i = 0; i < count; i++, from += step) {
        union bits u;
        uint16_t half;
        if (type == TENSOR_F32) {
            memcpy(&u.bits, from, sizeof u.bits);
        } else {
            memcpy(&half, from, sizeof half);
            u.bits = type == TENSOR_BF16 ? (uint32_t)half << 16 : of_half(half);
        }
        out[i] = (real)u.value;
    }
}

void hf_elements_write(unsigned char *to, enum tensor_type type, int64_t stride, int64_t count, const real *from)
{
    const int64_t step = stride * tensor_type_bytes(type);
    for (int64_t i = 0; i < count; i++, to += step) {
        const union bits u = { .value = (float)from[i] };
        if (type == TENSOR_F32) {
            memcpy(to, &u.bits, sizeof u.bits);
        } else {
            const uint16_t half = type == TENSOR_BF16 ? to_bf16(u.bits) : to_half(u.bits);
            memcpy(to, &half, sizeof half);
        }
    }
}
