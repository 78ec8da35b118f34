/* What running and collecting share: a run and its ranks' threads. */
#ifndef CLEAVE_EXECUTOR_RUN_PARTS_H
#define CLEAVE_EXECUTOR_RUN_PARTS_H
#include "executor/checkpoint/saver.h"
#include "executor/lanes.h"
#include "executor/rank.h"
#include "executor/run.h"
#include "executor/step_times.h"
#include <pthread.h>
#include <stdatomic.h>

struct run;
/* What a rank tells rank 0 after a step. */
struct step_words {
    double loss;
    struct save_word save;
};
struct rank_thread {
    struct run *run;
    const struct transport *transport;
    pthread_t thread;
    struct rank *rank;
    struct lanes *lanes; /* set and cleared under run->mutex */
    int64_t step_start_ns;
    struct saver *saver; /* of checkpoints; NULL: none */
    bool owes_words;     /* of the step before; other ranks than 0, where steps run into each other */
    struct step_words owed;
    struct save_order order; /* the latest */
};
struct run {
    const struct program *program;
    struct run_options options; /* with a status page */
    int local_count, mute_tag;  /* of the muted message; -1 */
    enum op muted_op;           /* OP_COUNT: none */
    struct rank_thread *threads;
    struct checkpoint_folder *folder; /* of checkpoints, in the process that has rank 0; NULL: none */
    struct run_summary *summary;      /* written by rank 0 */
    struct step_times step_times;     /* of all steps but the first; rank 0 */
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    bool failed, finished;
    atomic_bool asked_to_end; /* a rank of this process has saved and ended because of it */
    bool steady;              /* steps run into each other */
    struct error error;
};

/* Is called on every rank after its step: rank 0 has the loss of all and says so, and decides whether to save. */
bool run_report_step(struct rank_thread *thread, int64_t step, int64_t *before_ns, struct error *err);
/* A rank tells its loss, and hears about saving, while its lanes already work on the next step where steps run into
 * each other: rank 0 ends a step last, and the others would wait for it. */
bool run_pay_words(struct rank_thread *thread, struct error *err);
/* The last step's timeline and arenas of all ranks, into the summary. */
bool run_collect(struct rank_thread *thread, struct error *err);
/* Rank 0 shows the step's timeline and tells the others whether there is another step. */
bool run_show_timeline(struct rank_thread *thread, int64_t step, bool *go_on, struct error *err);
#endif
