/* What measured runs say of jobs like them, beyond the speeds of mechanisms.
 *
 * Rates that are right leave what no rate explains: a kernel that a library picks for one shape, a network that one
 * size of job shares with others. Whoever has measured a job wants the next one like it told by that. What a run
 * leaves, the log of measured over predicted, is a Gaussian process over what tells jobs apart (Rasmussen and Williams
 * 2006, chapter 2; Kennedy and O'Hagan 2001 for what a model leaves): runs of a device and a framework that are alike
 * leave about the same, and of a job that is like no run nothing is said. It is told beside a prediction and no price
 * of a plan's parts, so that searches and bounds know nothing of it. */
#ifndef CLEAVE_CLI_LIKE_RUNS_H
#define CLEAVE_CLI_LIKE_RUNS_H
#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "planner/plan/plan.h"

/* SIZE(member, doc): what tells jobs apart by its logarithm. */
#define RUN_SIZES                                                                                                      \
    SIZE(parameters, "parameters of the model")                                                                        \
    SIZE(layers, "layers of the model, half a transformer's block each")                                               \
    SIZE(sequence, "tokens of a sequence")                                                                             \
    SIZE(batch, "sequences of a step")                                                                                 \
    SIZE(micro_batch, "sequences of a micro-batch on one replica")                                                     \
    SIZE(devices, "devices")                                                                                           \
    SIZE(stages, "pipeline stages")                                                                                    \
    SIZE(chunks, "chunks of the model on each stage")
enum run_size {
#define SIZE(member, doc) RUN_SIZE_##member,
    RUN_SIZES
#undef SIZE
        RUN_SIZE_DIM, /* then the degree of each dimension of the middle layer */
    RUN_SIZE_COUNT = RUN_SIZE_DIM + DIM_COUNT
};
/* A job, as other runs are like it or not. */
struct run_shape {
    const char *device, *framework; /* runs of others say nothing */
    int dtype, recompute;           /* enum dtype, enum recompute: of most layers */
    int64_t zero;
    int64_t size[RUN_SIZE_COUNT]; /* each at least 1 */
};
struct like_run {
    struct run_shape shape;
    double left;   /* log(measured / predicted) */
    double weight; /* like_runs_solve() */
};
enum { LIKE_RUNS_MOST = 512 };
extern const struct json_format like_run_formats[];

/* Gives the shape of a plan's job; parameters: of its model. device and framework are borrowed. */
struct run_shape run_shape_of(const struct plan *plan, int64_t parameters, const char *device, const char *framework);
void like_run_write(struct json_writer *w, const struct like_run *run);
/* Sets the runs' weights; others_leave, (count) or NULL: what of each is left once all others have told it. Fails only
 * for want of memory. */
bool like_runs_solve(struct like_run *runs, int count, double *others_leave, struct error *err);
/* Gives what they say that the job leaves; *alike: how many are more like it than not. */
double like_runs_say(const struct like_run *runs, int count, const struct run_shape *job, int *alike);
#endif
