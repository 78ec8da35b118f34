/* The times of computations, from real steps of a short model. */
#ifndef CLEAVE_PROFILER_COMPUTE_H
#define CLEAVE_PROFILER_COMPUTE_H
#include "planner/program/program.h"
#include "profiler/crew.h"
#include "profiler/harvest.h"
#include "profiler/shorten.h"

/* One configuration to run: every rank computes the same micro-batches of `micro` sequences, `tensor` ranks share the
 * work along the dimension (with one that splits the batch each of them has `micro` sequences of its own). The other
 * ranks only load the host, as they do in a plan. */
struct compute_case {
    int tensor, dimension;
    int64_t micro;
    int micro_count; /* 2: weight gradients are written once and added to once */
    int schedule;    /* of one stage; one with versions of the weights shows what updates from one to another take */
    double flops;    /* of one step of one rank */
};
struct case_program {
    struct graph *graph;
    struct plan *plan;
    struct program *program;
};
/* Lowered and laid out; transfers run on the compute lane, in order, so that nothing runs beside a computation. */
bool case_open(struct case_program *out, const struct model *shortened, int64_t sequence, int rank_count,
               enum dtype dtype, const struct compute_case *c, struct error *err);
void case_close(struct case_program *program);

/* The configurations whose computations plans of `batch` sequences per step on rank_count ranks can have, smallest
 * micro-batches first, without flops. dims[DIM_COUNT]: dimensions to be split along besides
 * tensor's; may be NULL. graph: of the
 * model, for any batch. The caller frees *out with free(). */
bool compute_cases(struct compute_case **out, int *count, const struct graph *graph, int rank_count, int64_t batch,
                   const bool *dims, struct error *err);

struct compute_options {
    const struct model *model;
    int64_t sequence, batch;
    const bool *dims;               /* [DIM_COUNT]: as compute_cases() has them */
    const struct profile *existing; /* what it holds is not measured again; may be NULL */
    int64_t memory_limit_bytes;     /* of all arenas of this process; 0: unknown */
    double budget_s;
    void *context;
    void (*on_progress)(void *context, const char *what, int done, int count);
};
struct compute_result {
    struct harvest harvest;
    struct memory_outside outside; /* of one rank, beside its arena: of the process, or of its device; -1: nothing ran,
                                     or the device does not say */
    int run_count, known_count,
        dropped_count;     /* configurations: measured, not needed, too large for the budget or the memory */
    int64_t dropped_micro; /* the smallest micro-batch that was dropped; 0: none */
};
bool compute_measure(struct compute_result *out, const struct crew *crew, const struct compute_options *options,
                     struct error *err);
#endif
