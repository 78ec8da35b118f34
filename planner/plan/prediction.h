/* What a plan is expected to do. */
#ifndef CLEAVE_PLAN_PREDICTION_H
#define CLEAVE_PLAN_PREDICTION_H
#include <stdbool.h>
#include <stdint.h>

/* What was predicted of a plan, as its file shows it. The breakdown has names and values of sim/'s categories. */
struct prediction {
    int64_t step_ns;
    double tokens_per_s_per_device, mfu;
    bool fits; /* every stage's peak is within the usable memory of its devices and of their hosts */
    int stage_count;
    int64_t *peak_bytes;          /* (stage_count) of one rank, everything included */
    int64_t *available_bytes;     /* (stage_count) usable per device */
    int64_t *host_bytes;          /* (stage_count) that one rank keeps in host memory; NULL: none does */
    int64_t host_available_bytes; /* the least of all stages; INT64_MAX: not known */
    int fullest_stage;            /* that has least memory left; and what its bytes are when most live, by kind, which
                                     sums to its peak: (memory_count); NULL: nobody asked */
    int memory_count;
    const char *const *memory_names;
    int64_t *memory_bytes;
    int micro_batches_simulated; /* the others go on at their pace; 0: all were */
    int breakdown_count;
    const char *const *breakdown_names;
    int64_t *breakdown_ns;                 /* (breakdown_count) sums to step_ns, of the rank that ends last */
    bool analytic, measured, extrapolated; /* where durations came from: any of each */
    struct {
        const char *words; /* what is known of how far off such predictions are; NULL: nobody asked */
        int64_t runs;      /* that were measured; 0: none, and no numbers. Errors: predicted / measured - 1 */
        double median, low, high;
    } accuracy;
};
#endif
