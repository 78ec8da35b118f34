/* What a run is asked for: steps, learning rates, checkpoints, callbacks. */
#ifndef CLEAVE_EXECUTOR_RUN_OPTIONS_H
#define CLEAVE_EXECUTOR_RUN_OPTIONS_H
#include "executor/data.h"
#include "executor/status.h"
#include "planner/cost/cost.h"
#include "planner/sim/timeline.h"
#include <stdatomic.h>

struct block;
struct device;
struct gpu_learned;
struct hf_export;
struct hf_folder;

struct run_step {
    int64_t step;  /* from 1 */
    bool has_loss; /* false on a device that does not compute: loss is NaN */
    double loss;   /* mean over the step's target tokens */
    int64_t step_ns;
    double tokens_per_s;
};

/* What becomes of an instruction: it is done, or left out as a message that gets lost, or the rank fails. */
enum instr_fate { INSTR_RUNS, INSTR_LOST, INSTR_FAILS };

struct run_options {
    int64_t step_count; /* the last step to reach, from 1; a resumed run does the rest */
    uint64_t seed;
    const struct device *device;
    const char *module_dir;    /* of devices that are modules; NULL: the working folder */
    const struct data *data;   /* may be NULL on a device that does not compute */
    const struct facts *facts; /* the timed device's durations; else may be NULL */

    /* Adam with decoupled weight decay; the rate warms up linearly until step warmup_steps and falls as a cosine to the
     * floor at step decay_steps. Steps count from the first run's beginning, so that a resumed run goes on with the
     * rates that an uninterrupted one has. */
    double learning_rate, floor_rate;
    int64_t warmup_steps, decay_steps; /* decay_steps 0: constant after the warm-up; else above warmup_steps */
    double beta1, beta2, epsilon, weight_decay;

    const char *checkpoint_dir; /* NULL: none */
    int64_t checkpoint_every;   /* steps; the last step is always written */
    double checkpoint_every_s;  /* the same as a time since the last one began; 0: none */
    int64_t checkpoint_keep;    /* so many of the newest stay; 0: one */
    bool checkpoint_overwrite;  /* those of another run may go */
    bool checkpoint_waits;      /* steps do not go on beside a save */
    /* With checkpoint_dir: where it counts above 0, on any process, the run saves after this step or the next and ends;
     * NULL: nobody asks. */
    const atomic_int *asked_to_end;
    double grace_s;                    /* after this long since it was asked to the run fails; 0: never */
    const char *resume_dir;            /* NULL: from the seed */
    bool resume_begins;                /* nothing is there, and the run begins at step 1; rank 0's counts */
    const struct hf_folder *hf_folder; /* weights that it has are its own; NULL: all are drawn by the seed */
    const struct hf_export *hf_export; /* where the weights go after the last step; NULL: nowhere */

    struct status *status; /* the watchdog's page; NULL: the run makes its own */
    bool share_gpus;       /* with NCCL: ranks of a host may outnumber its GPUs; their processes were prepared for it
                              (gpu/nccl_environment.h) */
    int transfer_sms; /* with NCCL: multiprocessors that each transfer may take, and products leave; 0: as NCCL likes */
    double timeout_s; /* without progress of any rank the run ends; 0: never */

    bool kernels;                /* on GPUs: what really ran in the last step is recorded; on all processes alike */
    bool no_graph;               /* on GPUs: every step is queued instruction by instruction */
    bool graph_ranks;            /* with NCCL: steps become graphs of ranks that exchange data, too; on all alike */
    const char *tuned_path;      /* on GPUs: algorithms that earlier runs timed, and where this one's go; NULL: none */
    struct gpu_learned *learned; /* the same of runs of this process (gpu/learned.h); NULL: none */
    bool deterministic;          /* the same bits every time on one device, also where that is slower */
    bool poison;                 /* fills arenas with NaN first and counts the bytes that were touched */
    bool rough;                  /* initial weights need only have the right size: nothing but time is looked at */
    bool resident;               /* writes arenas first: what nobody writes is read from memory of its own, too */
    int mute_stage, mute_instr;  /* oracle: this instruction moves nothing; mute_instr -1: none */

    /* Ends the run of all ranks with that as its cause, on whatever thread; run_program() sets both. */
    void (*fail)(void *run, int rank, const struct error *error);
    void *run;

    void *context;                                               /* of the callbacks, each of which may be NULL */
    void (*on_step)(void *context, const struct run_step *step); /* on the process that has rank 0 */
    void (*on_wait)(void *context); /* some times a second, on a thread of its own, while steps are under way */
    /* The measured timeline of all ranks after each step, borrowed, on the process that has rank 0; false ends the run
     * after this step. Costs a message per rank and step. Set on all processes or on none. */
    bool (*on_timeline)(void *context, int64_t step, const struct timeline *timeline);
    /* The run has failed, and after another timeout_s a rank of this process has still not come back (it computes for
     * ever): the caller's last chance to print the message and end the process. Called by the watchdog. */
    void (*on_stuck)(void *context, const struct error *error);
    /* What a device does another way than a user would think, in one line; the same may be told again. Called on the
     * lanes' threads of this process's ranks, several at once. */
    void (*on_note)(void *context, const char *text);
    /* Tests of faults hear that a rank is about to do an instruction; called on the thread of its lane. Sets err where
     * it fails. */
    enum instr_fate (*on_instr)(void *context, int64_t step, int rank, int instr, struct error *err);
    /* The reduced gradient of a weight as UPDATE is about to read it. Called on the rank's compute thread. */
    void (*on_gradient)(void *context, int64_t step, int rank, int buffer, const void *data);
    /* The logits of a block of the step as the loss is about to read them, on devices that compute in the rank's arena;
     * token_parts: of the order in which its tokens are stored (executor/kernels/token_order.h). Called on the rank's
     * compute thread. */
    void (*on_logits)(void *context, const struct block *block, int64_t token_parts, const void *data);
    /* Every stored weight after the last step. */
    void (*on_weight)(void *context, int rank, int buffer, const void *data);
};
/* Values that train small models: rate 3e-4 to a tenth of it, betas 0.9 and 0.95, weight decay 0.1 (Brown et al. 2020,
 * appendix B), the CPU device, a timeout of 60 s. */
struct run_options run_options_default(void);
/* Returns the rate of a step, counted from 1. */
double run_learning_rate(const struct run_options *options, int64_t step);
#endif
