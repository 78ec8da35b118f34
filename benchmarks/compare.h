/* Runs plans beside each other and gathers what a report shows. */
#ifndef CLEAVE_BENCHMARKS_COMPARE_H
#define CLEAVE_BENCHMARKS_COMPARE_H
#include "benchmarks/band.h"
#include "benchmarks/report.h"
#include "executor/run.h"
#include "planner/estimate/estimate.h"

struct compare_entry {
    char name[64], description[256], failure[ERROR_MESSAGE_BYTES];
    bool chosen;
    struct graph *graph; /* owned, as all below */
    struct plan *plan;
    struct program *program;               /* NULL when failure says why */
    struct timeline *predicted, *measured; /* measured: of a typical step of the runs that count */
    int run_count, left_out_count;         /* runs that count, and those that do not */
    int sample_count, step_count;          /* step_count: of the first round */
    struct report_run *runs; /* (run_count + left_out_count) in the order in which they ran; their steps are borrowed */
    int64_t *samples_ns;     /* steps of all runs that count, each run's first one left out */
    double *losses;          /* of the first round */
    int64_t *peak_bytes;     /* by rank, touched */
    int64_t *predicted_bytes;       /* by rank, laid out */
    struct estimate *estimate;      /* of the step that was simulated; NULL with a failure */
    struct stage_memory *memory;    /* (stages) when most lives */
    const struct cluster *cluster;  /* borrowed */
    char *file;                     /* its plan file, for reports: whoever adds the plan sets it; may be NULL */
    const char *const (*origin)[2]; /* likewise, and borrowed: where its numbers come from */
};
/* What one run of one plan measured. */
struct compare_run {
    int sample_count;
    int64_t *samples_ns;
    int64_t first_ns;          /* the step before them */
    struct timeline *timeline; /* of its last step */
};
struct comparison {
    int count;
    struct compare_entry entries[REPORT_MAX_PLANS];
    int reference_count, run_count;
    int64_t *reference_ns;        /* before the first run and after each */
    struct band_run *runs;        /* (run_count) in the order in which they ran; plan: index of the entry */
    struct compare_run *measured; /* (run_count) */
    struct band band;             /* of the runs that count */
};
void comparison_free(struct comparison *comparison);

/* Adds a plan (taken over, freed here): lowered, laid out, verified, simulated. A plan that cannot be lowered is kept
 * with its reason. The facts' cluster is borrowed. Fails only when memory is short or the table is full. */
bool comparison_add(struct comparison *comparison, const char *name, const char *description, bool chosen,
                    const struct model *model, struct plan *plan, const struct facts *facts, struct error *err);

struct compare_options {
    const struct run_options *run; /* device, data, seed, learning rate, steps of one round */
    int rounds;                    /* every plan runs once per round: drifts of the machine meet all plans alike */
    /* Above 0: only runs count whose references lie within one band as wide (0.05: 5 %), chosen by band_choose(), and
     * rounds go on until every plan has `rounds` of them, STEADY_ROUNDS times as many rounds at most, and fewer where
     * these would hardly be enough. */
    double steady;
    int64_t known_reference_ns; /* with steady: one that must lie in the band, since predictions speak of it; 0: none */
    const char *transport, *module_dir;
    const struct cluster *shape; /* NULL: as fast as it goes */
    /* Times what always takes as long on a steady machine; called before the first run and after each. May be NULL
     * without steady. */
    bool (*reference)(void *context, int64_t *out_ns, struct error *err);
    void *context;
    void (*on_progress)(void *context, const char *what, int done, int count); /* may be NULL */
};
enum { STEADY_ROUNDS = 4 };
/**
 * Runs all plans, interleaved, once. A plan that fails keeps its reason; the others go on. Fails when no band had
 * enough runs; the message says how near it came, and whether another speed than the known one would have done.
 */
bool comparison_run(struct comparison *comparison, const struct compare_options *options, struct error *err);
/* Of the references beside runs that count; zeroes when there are none. */
struct report_speed comparison_speed(const struct comparison *comparison);
int64_t compare_median(const int64_t *samples, int count);
double compare_spread(const int64_t *samples, int count); /* interquartile range / median */

/* Fills plans[] of a report; borrowed from the comparison. */
void comparison_report(const struct comparison *comparison, struct report_plan plans[REPORT_MAX_PLANS]);
#endif
