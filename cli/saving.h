/* What `cleave run` saves, when, where it goes on from, and how often it begins anew. */
#ifndef CLEAVE_CLI_SAVING_H
#define CLEAVE_CLI_SAVING_H
#include "cli/inputs.h"
#include "cli/program_options.h"
#include "cli/ranks.h"
#include "executor/run.h"

struct saving_arguments {
    const char *checkpoint, *every, *resume;
    int64_t keep, restarts;
    double grace_s;
    bool overwrite, shrink;
};
enum { GRACE_S = 30, GRACE_NOT_SAID = -1 };
#define SAVING_DEFAULTS                                                                                                \
    {                                                                                                                  \
        .grace_s = GRACE_NOT_SAID                                                                                      \
    }
#define SAVING_OF(holder, part, field) (offsetof(holder, part) + offsetof(struct saving_arguments, field))
#define SAVING_OPTIONS(holder, part)                                                                                   \
    TEXT_OPTION("checkpoint", SAVING_OF(holder, part, checkpoint), "DIR", "saves weights and optimizer state there"),  \
        TEXT_OPTION("every", SAVING_OF(holder, part, every), "N|TIME",                                                 \
                    "steps, or 90s, 10m, 2h, between saves; the last step is always saved"),                           \
        INT_OPTION("keep", SAVING_OF(holder, part, keep), "N", 1, 1e9, "so many of the newest saves stay (1)"),        \
        FLAG_OPTION("overwrite", SAVING_OF(holder, part, overwrite),                                                   \
                    "replaces another run's saves in DIR, once this one has its first"),                               \
        TEXT_OPTION("resume", SAVING_OF(holder, part, resume), "DIR",                                                  \
                    "goes on from a save, of this plan or another one of the same model; DIR of --checkpoint may be "  \
                    "empty yet"),                                                                                      \
        DOUBLE_OPTION(                                                                                                 \
            "grace", SAVING_OF(holder, part, grace_s), "SECONDS", 0, 1e6,                                              \
            "with --checkpoint: SIGTERM, SIGUSR1 or SIGHUP save and end within this time, exit code 75 (30); 0: "      \
            "they end at once"),                                                                                       \
        INT_OPTION("restarts", SAVING_OF(holder, part, restarts), "N", 0, 1e6,                                         \
                   "so often ranks that this command starts begin anew from the newest save after one has died (0)"),  \
        FLAG_OPTION("shrink", SAVING_OF(holder, part, shrink),                                                         \
                    "with --restarts, on one host: after a death by a new plan for one rank less")

/* Whether the run begins at step 1: also with --resume, where that is the folder it saves in and none is there yet. */
bool saving_begins(const struct saving_arguments *saving);
/* Whether a request to end is met by a save. */
bool saving_graces(const struct saving_arguments *saving);
/* Sets what the options say; fails where they say nothing that can be. */
bool saving_set(struct run_options *out, const struct saving_arguments *saving, struct error *err);
/* Asks, before hours of work, whether the run could save: *made says that the folder is new. owns: this process has
 * rank 0, or starts it. */
bool saving_check(const struct saving_arguments *saving, const struct run_options *options,
                  const struct program *program, bool owns, bool *made, struct error *err);
/* --restarts is for ranks that are processes and that this command starts. ours: such a command started this process.
 */
bool saving_check_restarts(const struct saving_arguments *saving, const struct launch *launch,
                           enum transport_start start, bool ours, const struct inputs *inputs,
                           const struct source_options *source, struct error *err);
/* Signals that ask the run to end are noted from here on, a second one ends the process. */
void saving_catch_signals(void);
/* What is run: the plan's file, what the command gives beside it, what was read of them, and how long ranks may stand.
 */
struct saved_job {
    const char *plan_path, *transport;
    const struct source_options *source;
    const struct inputs *inputs;
    const struct program *program;
    double timeout_s;
};
/* Starts the ranks, and again after one has died. Returns the exit code where err stays empty. */
int saving_launch(const struct cli *cli, const struct saving_arguments *saving, const struct saved_job *job,
                  struct error *err);
/* On rank 0's process, where no step was left to run: fine where the save is of the last one, so that a job that is
 * queued once too often ends well. unwritten: an option that needed a step to run, or NULL. */
bool saving_all_done(const struct cli *cli, const struct saving_arguments *saving, int64_t steps, int64_t saved_step,
                     const char *unwritten, struct error *err);
/* On rank 0's process: says how to go on with what was saved because the run was asked to end; the exit code. */
int saving_tell_end(const struct cli *cli, const struct saving_arguments *saving, int64_t step);
/* How long the saves took, and what the steps waited of that. */
void saving_json(const struct cli *cli, const struct save_times *saves);
void saving_text(const struct cli *cli, const struct save_times *saves);
#endif
