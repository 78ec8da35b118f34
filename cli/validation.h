/* Predictions beside what was measured, and what they say together. */
#ifndef CLEAVE_CLI_VALIDATION_H
#define CLEAVE_CLI_VALIDATION_H
#include "cli/measured_case.h"

enum { VALIDATION_LEAST_RANKED = 3, VALIDATION_AGREED_PERCENT = 3 };
struct validated_row {
    struct arena arena;
    const char *file, *group; /* group: the row's source, or what else errors are told by */
    struct measured_run run;
    double measured_s;                 /* 0: not known */
    int64_t measured_peak_bytes;       /* 0: not known */
    bool out_of_memory;                /* the run ended for want of it */
    bool counts;                       /* the step's error does: little had to be assumed of the run */
    const char *skipped;               /* why nothing is predicted; NULL: something is */
    enum error_kind failure;           /* of the machine or the program, with its words in skipped */
    struct measured_case asked;        /* where the row says what to ask; else its texts are NULL */
    const struct validated_row *alike; /* an earlier row of which the same is asked; NULL: none */
    int64_t predicted_ns, predicted_peak_bytes;
    double least_s; /* no devices of these are faster; 0: not known */
    bool fits;
};
/* Whether the row has a part in the errors of steps, and of memory. */
static inline bool validated_step(const struct validated_row *row)
{
    return !row->skipped && row->counts && row->measured_s > 0;
}
static inline bool validated_memory(const struct validated_row *row)
{
    return !row->skipped && row->measured_peak_bytes > 0;
}
/* predicted / measured - 1 */
static inline double validated_step_error(const struct validated_row *row)
{
    return (double)row->predicted_ns / 1e9 / row->measured_s - 1;
}
static inline double validated_memory_error(const struct validated_row *row)
{
    return (double)row->predicted_peak_bytes / (double)row->measured_peak_bytes - 1;
}

/* Of errors as shares of what was measured: 0 rows, and all is 0. */
struct error_summary {
    int rows;
    double mean, median, signed_median, most; /* of |error|, but for the signed median */
};
struct validation_group {
    const char *name; /* NULL: all rows */
    struct error_summary step, memory;
};
struct validation_skip {
    const char *group, *reason;
    int count;
};
struct validation {
    struct arena arena;
    int group_count;
    struct validation_group *groups; /* (group_count) by name */
    struct validation_group all;
    int oom_count, oom_seen;    /* runs that were out of memory and have a prediction; of these said not to fit */
    int ran_count, ran_refused; /* runs that ran and have one; of these said not to fit */
    /* Groups of VALIDATION_LEAST_RANKED rows and more that differ in configuration alone: as many as there are, those
     * whose predicted best took at most VALIDATION_AGREED_PERCENT longer than their measured best, and how much longer
     * it took in the mean. Where several are predicted equal, what they took in the mean. */
    int rank_groups, rank_agreed;
    double rank_regret;
    int skip_count, skipped_rows;
    struct validation_skip *skips; /* (skip_count) by group and reason */
};
bool validation_of(struct validation *out, const struct validated_row *rows, int count, struct error *err);
void validation_free(struct validation *v);
#endif
