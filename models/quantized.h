/* Frozen matrices in few bits (quantized.def): what they take, and what products with them need beside it. A matrix is
 * quantized once and for all: no device computes in these forms, each product expands its matrix to the plan's dtype
 * first, forward and backward (bitsandbytes, autograd/_functions.py, MatMul4Bit). */
#ifndef CLEAVE_MODELS_QUANTIZED_H
#define CLEAVE_MODELS_QUANTIZED_H
#include "models/graph.h"

/* Bytes of so many elements of the weight as they are stored, without their scales. */
int64_t weight_bytes(const struct weight *weight, enum dtype dtype, int64_t elements);
/* Bytes of their scales, 0 where it isn't quantized. */
int64_t weight_scale_bytes(const struct weight *weight, int64_t elements);
/* Bytes that lie expanded at a time while a call of the phase runs, 0 for most: experts are expanded one after the
 * other. */
int64_t segment_expanded_bytes(const struct segment *segment, enum phase phase, enum dtype dtype,
                               const int64_t extents[MAX_AXES]);
/* What expanding is for a device: what is quantized is read, and written in the dtype. Nothing for most calls. */
struct expansion {
    double flops;
    int64_t bytes;
};
struct expansion segment_expansion(const struct segment *segment, enum phase phase, enum dtype dtype,
                                   const int64_t extents[MAX_AXES]);
#endif
