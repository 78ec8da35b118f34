/* Numbers in the types that checkpoints have them in. What a type can hold is the same bits after there and back. */
#ifndef CLEAVE_EXECUTOR_HF_ELEMENTS_H
#define CLEAVE_EXECUTOR_HF_ELEMENTS_H
#include "executor/real.h"
#include "executor/safetensors.h"

/* Whether weights may be of the type: F32, BF16 or F16. */
bool hf_elements_known(enum tensor_type type);
/* `count` elements, each `stride` elements behind the one before, the first at `from`. */
void hf_elements_read(real *out, const unsigned char *from, enum tensor_type type, int64_t stride, int64_t count);
/* Rounded to the nearest, ties to even; what F16 cannot hold becomes infinite. */
void hf_elements_write(unsigned char *to, enum tensor_type type, int64_t stride, int64_t count, const real *from);
#endif
