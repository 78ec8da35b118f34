/* The job whose logs `calibrate` reads: what it is predicted to take, and what its logs say that it took. */
#ifndef CLEAVE_CLI_LOGGED_JOB_H
#define CLEAVE_CLI_LOGGED_JOB_H
#include "cli/given.h"

struct logged_job {
    const struct cli *cli;
    const struct given_options *given;
    const char *operand;      /* a model, or with `from` a launch */
    const char *from, *model; /* options; NULL: not given */
};
/* Gives what the options name, or the launch, and what it takes; *batch: its sequences in a step. The caller owns both,
 * and the inputs. */
bool logged_job_price(struct plan **plan, struct estimate **estimate, int64_t *batch, struct inputs *in,
                      const struct logged_job *job, struct error *err);
struct logged_run {
    double step_s;
    int64_t beside_bytes; /* of the peak, beside what is predicted; 0: nothing, or not told */
};
/**
 * Reads the logs of one job, and says what it found in them. runs: (logs->count). *device, *framework: its names, in
 * the arena. Refused: a log of another batch or of another number of devices than the job's, or of steps that no such
 * devices do, and devices of several types.
 */
bool logged_job_read(struct logged_run *runs, const char **device, const char **framework, const struct logged_job *job,
                     const struct text_list *logs, struct arena *arena, struct error *err);
#endif
