/* One comparison of `cleave compare`: what its files share. */
#ifndef CLEAVE_CLI_COMPARE_JOB_H
#define CLEAVE_CLI_COMPARE_JOB_H
#include "benchmarks/compare.h"
#include "cli/progress.h"
#include "cli/space_options.h"

struct compare_arguments {
    struct space_options space;
    const char *automatic, *report, *markdown, *data, *backend, *transport;
    struct text_list from;
    const char *model;
    int64_t vocabulary; /* 0: not said */
    int64_t steps, rounds, seed;
    double steady_percent;
    bool run, json, shape, historical, pareto, scaling;
};

struct job {
    const struct cli *cli;
    const struct compare_arguments *a;
    int input_count;
    struct inputs *inputs[REPORT_MAX_PLANS]; /* of each plan, or with --auto of all; the first one's head the report */
    struct space space;                      /* of the first plan's job */
    struct comparison comparison;
    struct progress progress; /* of its runs */
    int frontier_count, scaling_count;
    struct report_point *frontier, *scaling; /* owned, as their words */
};
/* Another one; NULL: out of memory. */
struct inputs *job_inputs(struct job *job, struct error *err);
/* What the predictions' profile says of the processor's speed; 0: nothing, or they are of a GPU. */
int64_t compare_reference_ns(const struct job *job);

/* ---- compare_launch.c ---- */
/* The plan of a launch, "megatron-lm=train.sh": what it leaves open is the first plan's. */
bool compare_add_launch(struct job *job, const char *from, struct error *err);

/* ---- compare_notes.c ---- */
enum { COMPARE_NOTES = 5, COMPARE_NOTE_BYTES = 512 };
struct compare_notes {
    char text[COMPARE_NOTES][COMPARE_NOTE_BYTES];
    const char *list[COMPARE_NOTES + 1]; /* NULL-terminated */
};
/* What readers must know of the plans and of the machine; said on the terminal, too. */
void compare_note_all(struct compare_notes *notes, const struct job *job, const struct report_speed *speed);

/* ---- compare_search.c ---- */
/* Searches that the report asks for: the step against memory, and against devices. */
bool compare_search(struct job *job, struct error *err);

/* ---- compare_origin.c ---- */
/* Where the numbers of the plan come from that was added last, which its entry then says; its estimate gets what is
 * known of its accuracy. The graph of the inputs is the plan's. launch: what it was read from, NULL: a plan file or a
 * search. */
bool compare_note_origin(struct job *job, struct inputs *in, const char *launch, struct error *err);
enum { COMPARE_SOURCES = 12 };
struct provenance {
    struct text text[COMPARE_SOURCES];
    const char *pairs[COMPARE_SOURCES + 1][2]; /* names and texts; ends with a NULL name */
};
/* Of the whole comparison. What depends on the machine and on the hour is said of runs alone: without them the report
 * of equal inputs has equal bytes. */
void provenance_describe(struct provenance *out, const struct job *job, const struct report_speed *speed,
                         const char *when);
void provenance_free(struct provenance *provenance);
#endif
