/* Runs plans beside each other and gathers what a report shows. */
#ifndef CLEAVE_BENCHMARKS_COMPARE_H
#define CLEAVE_BENCHMARKS_COMPARE_H
#include "benchmarks/report.h"
#include "executor/run.h"

struct compare_entry {
    char name[64], description[256], failure[ERROR_MESSAGE_BYTES];
    bool chosen;
    struct graph *graph; /* owned, as all below */
    struct plan *plan;
    struct program *program; /* NULL when failure says why */
    struct timeline *predicted, *measured;
    int64_t measured_key_ns;      /* |step - median| of the kept timeline: a typical step is kept */
    int sample_count, step_count; /* step_count: of the first round */
    int64_t *samples_ns;          /* steps of all rounds, each round's first one left out */
    double *losses;               /* of the first round */
    int64_t *peak_bytes;          /* by rank, touched */
    int64_t *predicted_bytes;     /* by rank, laid out */
};
struct comparison {
    int count;
    struct compare_entry entries[REPORT_MAX_PLANS];
    int reference_count; /* products of two matrices of 1024^2 on one thread, before, between and after the rounds */
    int64_t reference_ns[64];
};
void comparison_free(struct comparison *comparison);

/* Adds a plan (taken over, freed here): lowered, laid out, verified, simulated. A plan that cannot be lowered is kept
 * with its reason. Fails only when memory is short or the table is full. */
bool comparison_add(struct comparison *comparison, const char *name, const char *description, bool chosen,
                    const struct model *model, struct plan *plan, const struct facts *facts, struct error *err);

struct compare_options {
    const struct run_options *run; /* device, data, seed, learning rate, steps of one round */
    int rounds;                    /* every plan runs once per round: drifts of the machine meet all plans alike */
    const char *transport, *module_dir;
    const struct cluster *shape; /* NULL: as fast as it goes */
    /* Times a product of two matrices of 1024^2; called before, between and after the rounds. May be NULL. */
    bool (*reference)(int64_t *out_ns, struct error *err);
    void *context;
    void (*on_progress)(void *context, const char *what, int done, int count); /* may be NULL */
};
/* Runs all plans, interleaved. A plan that fails keeps its reason; the others go on. */
bool comparison_run(struct comparison *comparison, const struct compare_options *options, struct error *err);
/* (largest - smallest) / smallest of the reference products; 0 when there are none. */
double comparison_drift(const struct comparison *comparison);
int64_t compare_median(const int64_t *samples, int count);
double compare_spread(const int64_t *samples, int count); /* interquartile range / median */

/* Fills plans[] of a report; borrowed from the comparison. */
void comparison_report(const struct comparison *comparison, struct report_plan plans[REPORT_MAX_PLANS]);
#endif
