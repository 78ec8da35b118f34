/* What a comparison shows: plans side by side, predicted beside measured. Text out; the caller writes files. */
#ifndef CLEAVE_BENCHMARKS_REPORT_H
#define CLEAVE_BENCHMARKS_REPORT_H
#include "base/text.h"
#include "planner/facts/cluster.h"
#include "planner/layout/contents.h"
#include "formats/plan_json.h"
#include "planner/sim/timeline.h"

enum { REPORT_MAX_PLANS = 32, REPORT_MAX_STEPS = 4096 };

/* One run of a plan, and the machine's speed beside it. */
struct report_run {
    bool counts;      /* whether its steps are among those behind the median */
    int64_t first_ns; /* its first step, which never is; 0: not known */
    int step_count;
    const int64_t *steps_ns;     /* (step_count) the others, in their order */
    int64_t before_ns, after_ns; /* the reference product; 0: not timed */
};
struct report_plan {
    const char *name, *description; /* "cleave's choice"; "pp 1, tp 2, dp 1, zero 0" */
    bool chosen;                    /* the search's choice */
    const char *failure;            /* why it could not run, or NULL */
    const struct program *program;
    const struct timeline *predicted, *measured; /* measured: of one typical step; either may be NULL */
    int64_t predicted_step_ns;
    int64_t measured_step_ns; /* median; 0: not run */
    double measured_spread;   /* interquartile range / median */
    int64_t predicted_breakdown_ns[TIME_KIND_COUNT], measured_breakdown_ns[TIME_KIND_COUNT]; /* of the slowest rank */
    int rank_count;
    const int64_t *predicted_peak_bytes, *measured_peak_bytes; /* by rank; measured may be NULL */
    int step_count;
    const double *losses;                            /* by step, or NULL */
    double tokens_per_step, parameters;              /* parameters: of its model; 0: not known */
    int run_count, left_out_count, timed_step_count; /* runs that count, those that do not, steps behind the median */
    const struct report_run *runs; /* (run_count + left_out_count) in the order in which they ran; may be NULL */
    const char *file;              /* its plan file; may be NULL */
    /* What figures of places and of memory need; each may be NULL, which leaves them out. */
    const struct plan *plan;
    const struct cluster *cluster;
    const struct stage_memory *memory;   /* (stages) when most lives */
    const struct prediction *prediction; /* with what is known of its accuracy */
    const char *const (*origin)[2];      /* name, value pairs: where its numbers come from; ends with a NULL name */
};
/* The best plan of a search under other facts: of less memory, or on other devices. */
struct report_point {
    int devices;
    int64_t step_ns, peak_bytes;
    const char *words; /* the plan in one line; NULL: nothing fits */
};
/* How fast the machine was while plans ran: one product of two matrices, timed again and again. */
struct report_speed {
    int reference_count;  /* products beside runs that count */
    int64_t reference_ns; /* their median; 0: not timed */
    double drift;         /* (largest - smallest) / smallest */
};
struct report {
    const char *title, *model, *cluster;
    const char *unit; /* of what a step works on, "images"; NULL: tokens */
    int64_t memory_limit_bytes;
    const char *const *notes;           /* free lines, NULL-terminated: which numbers are analytic, what was rejected */
    const char *const (*provenance)[2]; /* name, value pairs; ends with NULL name */
    int plan_count;
    const struct report_plan *plans;
    struct report_speed speed;
    int64_t profile_reference_ns; /* the same product when the profile was made; 0: it does not say */
    /* Searched for this report; 0: nobody asked. frontier: none is beaten in step and memory, shortest first. scaling:
     * by devices. */
    int frontier_count, scaling_count;
    const struct report_point *frontier, *scaling;
};

/* Measured where it was, else predicted. */
int64_t report_step_ns(const struct report_plan *plan);
/* Whether each stage's memory is enough; true where nobody has looked. */
bool report_fits(const struct report_plan *plan);
/* Whether the steps are of as many tokens of one model, so that their times compare. */
bool report_is_same_work(const struct report *report);
/* How many times as long a plan takes for one token as the other. */
double report_times_as_long(const struct report_plan *plan, const struct report_plan *other);
/* Indices of the plans, fastest first: by the time of one token, measured where there is one, else predicted; then
 * those that do not fit; failures last. */
void report_order(const struct report *report, int order[REPORT_MAX_PLANS]);
/* (predicted - measured) / measured, or NaN. */
double report_error(const struct report_plan *plan);
/* Of a breakdown: communication, copies to host memory among it, while which nothing computes. */
int64_t report_exposed_ns(const int64_t breakdown_ns[TIME_KIND_COUNT]);
/* (predicted - measured) exposed communication / measured step, or NaN. */
double report_exposed_error(const struct report_plan *plan);
/* Mean absolute error over the measured plans, or NaN. */
double report_mean_error(const struct report *report);
/* Time per op name, predicted and measured, summed over ranks: what the joined timelines teach. */
struct report_op {
    const char *name;
    int64_t predicted_ns, measured_ns;
    int count;
};
enum { REPORT_MAX_OPS = 64 };
int report_join(const struct report_plan *plan, struct report_op ops[REPORT_MAX_OPS]);

void report_html(const struct report *report, struct text *out);
void report_markdown(const struct report *report, struct text *out);
/* One JSON object: the contract of `cleave compare --json`, and the HTML file's raw data. most_ranks: with more ranks
 * than that their predicted bytes are told by stage. */
void report_json(const struct report *report, int most_ranks, struct text *out);
#endif
