/* What is said of a run: by its steps, and of it as a whole beside the prediction. */
#ifndef CLEAVE_CLI_RUN_REPORT_H
#define CLEAVE_CLI_RUN_REPORT_H
#include "base/text.h"
#include "cli/logits.h"
#include "cli/progress.h"
#include "executor/run.h"

enum { MOST_NOTES = 16 };
struct report_step {
    const struct cli *cli;
    const char *unit; /* print_unit() */
    bool json;
    int64_t heap_first, heap_last; /* bytes allocated after the first and after the latest step; -1: unknown */
    pthread_mutex_t noting;        /* of what follows, and of what is written meanwhile */
    struct progress progress;      /* since the terminal last saw a step */
    int64_t step, step_count;      /* under way, and the last one */
    char *note[MOST_NOTES];        /* each once; further ones are left out */
    int note_count;
    struct logits logits; /* values NULL: nobody asks */
};

/* JSON has no word for what a run that went astray computes. */
const char *run_report_number(char number[TEXT_NUMBER_BYTES], double value);
/* The summary line, and the lines of one. */
bool run_report_json(const struct cli *cli, const struct facts *facts, const struct program *program,
                     const struct run_summary *s, const struct timeline *predicted, const struct report_step *report,
                     bool poisoned, struct error *err);
void run_report_text(const struct cli *cli, const struct program *program, const struct run_summary *s,
                     const struct timeline *predicted, bool measured);
/* The rank that computed in the step for longest, beside what was predicted of it, and how many times as long as the
 * median rank; -1: none took STRAGGLER_FACTOR times as long. The lower median: of two ranks the other. */
enum { STRAGGLER_FACTOR = 2 };
int run_report_straggler(const struct program *program, const struct timeline *measured,
                         const struct timeline *predicted, double *factor);
/* --poison: what was touched of the arena, and whether a step allocated beside it. */
void run_report_poison(const struct cli *cli, const struct program *program, const struct run_summary *s,
                       const struct report_step *report);
#endif
