#include "executor/kernels/primitives.h"

#define ISA_TEXT_(isa) #isa
#define ISA_TEXT(isa) ISA_TEXT_(isa)

const struct primitives ISA(primitives) = {
    .isa = ISA_TEXT(CLEAVE_KERNEL_ISA),
    .kernel = {
#define PRIMITIVE(kernel, phase, name) [KERNEL_##kernel][PHASE_##phase] = ISA(name),
#include "executor/kernels/primitives.def"
#undef PRIMITIVE
    },
    .adamw = ISA(optimizer_adamw),
    .square_sum = ISA(optimizer_square_sum),
    .add = ISA(optimizer_add),
    .add_bf16 = ISA(optimizer_add_bf16),
    .maximum = ISA(optimizer_maximum),
    .exponential = ISA(exponential),
    .gemm = gemm_run,
};
