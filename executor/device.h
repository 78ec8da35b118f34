/* What computes: the instructions that move nothing between ranks. */
#ifndef CLEAVE_EXECUTOR_DEVICE_H
#define CLEAVE_EXECUTOR_DEVICE_H
#include "planner/program/program.h"

struct rank;
struct span;
struct device {
    const char *name;
    /* Whether it can run this program. May be NULL: any. */
    bool (*check)(const struct program *program, struct error *err);
    /* Runs one instruction that is not a transfer to its end; span as in lane_run_function (lanes.h). */
    bool (*execute)(struct rank *rank, const struct instr *instr, struct span *span, struct error *err);
    bool computes; /* losses and gradients mean something */
};
extern const struct device device_cpu;   /* kernels of executor/kernels, on the calling thread */
extern const struct device device_timed; /* waits as long as cost_instr_ns() says; communication is real */
#endif
