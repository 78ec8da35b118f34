/* The arithmetic of single elements, written once for the processor and for GPUs. */
#ifndef CLEAVE_EXECUTOR_KERNELS_ELEMENTS_H
#define CLEAVE_EXECUTOR_KERNELS_ELEMENTS_H
#include "executor/kernels/exponential.h"

#ifdef __CUDACC__
#define ELEMENT static __host__ __device__ inline
#else
#define ELEMENT static inline
#endif

#define GELU_TWICE_ROOT ((real)1.5957691216057307117597842397376) /* 2 sqrt(2/pi) */
#define GELU_CUBIC ((real)0.044715)

/* Returns the expert of a token's choice where experts take turns (kernel_arguments, evenly). */
ELEMENT int32_t expert_in_turn(int64_t token, int64_t choice, int64_t choices, int64_t experts)
{
    return (int32_t)((token * choices + choice) % experts);
}

/* a / b. On a GPU it may be off by two units in the last place, and is 0 where b is above 2^126: what is divided here
 * is divided by 1 + exp(x), beside which it is small by then. */
ELEMENT real real_divide(real a, real b)
{
#ifdef __CUDA_ARCH__
    return __fdividef(a, b);
#else
    return a / b;
#endif
}

/* gelu(x) = x/2 (1 + tanh(u)) = x / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3): no cancellation at either end.
 */
ELEMENT real gelu(real x)
{
    return real_divide(x, 1 + real_exp(-GELU_TWICE_ROOT * x * (1 + GELU_CUBIC * x * x)));
}

ELEMENT real gelu_slope(real x)
{
    real square = x * x;
    real s = real_divide(1, 1 + real_exp(-GELU_TWICE_ROOT * x * (1 + GELU_CUBIC * square)));
    return s + x * s * (1 - s) * GELU_TWICE_ROOT * (1 + 3 * GELU_CUBIC * square);
}

/* The normal distribution up to x, twice. libm's erf is not vectorised: the exact form costs more than the tanh one. */
ELEMENT real twice_normal(real x)
{
    return 1 + real_erf(x * (real)0.70710678118654752440);
}

ELEMENT real gelu_erf(real x)
{
    return x / 2 * twice_normal(x);
}

ELEMENT real gelu_erf_slope(real x)
{
    const real density = (real)0.39894228040143267794; /* 1 / sqrt(2 pi) */
    return twice_normal(x) / 2 + x * density * real_exp(-x * x / 2);
}

/* x / (1 + exp(-x)), the gate of SwiGLU. */
ELEMENT real silu(real x)
{
    return real_divide(x, 1 + real_exp(-x));
}

ELEMENT real silu_slope(real x)
{
    real s = real_divide(1, 1 + real_exp(-x));
    return s * (1 + x * (1 - s));
}

/* The logistic function of x, and its gate where the factor is 1.702 (Hendrycks & Gimpel 2016, section 2). */
ELEMENT real sigmoid(real x)
{
    return real_divide(1, 1 + real_exp(-x));
}

#define QUICK_GELU_FACTOR ((real)1.702)

ELEMENT real quick_gelu(real x)
{
    return x * sigmoid(QUICK_GELU_FACTOR * x);
}

ELEMENT real quick_gelu_slope(real x)
{
    real s = sigmoid(QUICK_GELU_FACTOR * x);
    return s * (1 + QUICK_GELU_FACTOR * x * (1 - s));
}

/* cap * tanh(x / cap). */
ELEMENT real soft_cap(real x, real cap)
{
    return cap - 2 * cap * real_divide(1, 1 + real_exp(2 * x / cap));
}

/* What the elements of one weight share in a step of AdamW. */
struct adamw_rates {
    real beta1, beta2, rest1, rest2;
    real rate, root; /* with the corrections of the moments' bias in them */
    real keep;       /* what decay leaves of the weight */
    real epsilon, scale;
};

ELEMENT real adamw_element(real weight, real gradient, real *first, real *second, const struct adamw_rates *r)
{
    real g = gradient * r->scale;
    real m = r->beta1 * *first + r->rest1 * g;
    real v = r->beta2 * *second + r->rest2 * g * g;
    *first = m;
    *second = v;
    return r->keep * weight - r->rate * m / (real_sqrt(v) * r->root + r->epsilon);
}

/* What a gradient is multiplied by so that its norm stays within the limit (0: none). */
ELEMENT double clip_scale(double squared_norm, double limit)
{
    double scale = limit / (sqrt(squared_norm) + 1e-6);
    return limit <= 0 || scale > 1 ? 1 : scale;
}
#endif
