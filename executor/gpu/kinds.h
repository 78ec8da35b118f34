/* Numbers that launches and the bodies of kernels agree on. */
#ifndef CLEAVE_EXECUTOR_GPU_KINDS_H
#define CLEAVE_EXECUTOR_GPU_KINDS_H
#include "executor/real.h"

enum { GPU_QUAD = 4 }; /* elements that a thread takes at once */
/* Sums over rows: threads of a team side by side, and reals that each thread has in fast memory, for a quad of doubles.
 */
enum { GPU_COLUMN_LANES = 32, GPU_FINISH_LANES = 8, GPU_COLUMN_SHARED = GPU_QUAD * sizeof(double) / sizeof(real) };
/* Spots of what teams sum, for a kernel that finishes it: of columns, of the loss, of the gradients of gain and bias.
 */
enum { GPU_COLUMN_PARTS = 5, GPU_NLL_PARTS = 6, GPU_NORM_PARTS = 10 };

enum gpu_unary {
    GPU_UNARY_GELU,
    GPU_UNARY_GELU_ERF,
    GPU_UNARY_RELU,
    GPU_UNARY_SQUARED_RELU,
    GPU_UNARY_QUICK_GELU,
    GPU_UNARY_SILU
};
enum gpu_gate { GPU_GATE_GELU, GPU_GATE_SILU, GPU_GATE_GELU_ERF };

/* ---- mixtures of experts ---- */
enum gpu_experts_spot {
    EXPERTS_LOGITS, /* (b, t, e) */
    EXPERTS_GATES,  /* (b, t, k) */
    EXPERTS_SLOTS,  /* (b, t, k) indices */
    EXPERTS_FILLED, /* (e, b, q) indices */
    EXPERTS_OVERFLOW,
    EXPERTS_LOGITS_GRADIENT,
    EXPERTS_GATES_GRADIENT,
    EXPERTS_VALUES, /* (b, t, h) */
    EXPERTS_STACK   /* (e, b, q, c, h) */
};
enum gpu_experts_integer {
    EXPERTS_BATCHES,
    EXPERTS_TOKENS,
    EXPERTS_WIDTH,
    EXPERTS_COUNT,
    EXPERTS_CHOICES,
    EXPERTS_PLACES, /* of each expert for a group */
    EXPERTS_GROUP,  /* tokens */
    EXPERTS_GATES_OF_ALL,
    EXPERTS_EVENLY
};

/* ---- attention: places of operands and numbers ---- */
enum gpu_attention_spot {
    ATTENTION_Q,
    ATTENTION_K,
    ATTENTION_V,
    ATTENTION_OUT,
    ATTENTION_LSE,
    ATTENTION_OUT_GRADIENT,
    ATTENTION_Q_GRADIENT,
    ATTENTION_K_GRADIENT,
    ATTENTION_V_GRADIENT,
    ATTENTION_TABLE,  /* of biases or its gradient, (bucket, n) with strides 0 and 1; absent: none */
    ATTENTION_BUCKETS /* of key - query, where there are biases */
};
enum gpu_attention_integer {
    ATTENTION_BATCHES,
    ATTENTION_ROWS, /* queries */
    ATTENTION_KEYS,
    ATTENTION_HEADS,
    ATTENTION_KV_LOW, /* first key head */
    ATTENTION_WIDTH,
    ATTENTION_AHEAD, /* position of the first query less that of the first key */
    ATTENTION_CAUSAL,
    ATTENTION_N_LOW,
    ATTENTION_N_ALL,  /* query heads of the model */
    ATTENTION_KV_ALL, /* key heads of the model */
    ATTENTION_ORIGIN  /* BUCKETS[s - t + origin] is the bucket of the pair (t, s) */
};
#endif
