/* Measures on this machine what plans of some ranks may need: computations, work in memory, transfers, and how they
 * disturb each other. Everything runs as it does in a step: through the executor, on all ranks at once. */
#ifndef CLEAVE_PROFILER_PROFILER_H
#define CLEAVE_PROFILER_PROFILER_H
#include "models/model.h"
#include "planner/facts/profile.h"
#include "planner/plan/dim.h"
#include "profiler/crew.h"

struct profiler_options {
    const struct model *model;
    int64_t sequence, batch; /* tokens per sequence; sequences per step of all ranks */
    bool dims[DIM_COUNT];    /* dimensions that plans to come split layers along, besides data and tensor parallelism */
    const char *backend;     /* "cpu", "cuda": the crew's device */
    const char *machine;     /* provenance: what computes; NULL: this host */
    int64_t memory_bytes;    /* of what computes; 0: the host's */
    const char *software;    /* provenance: versions */
    const struct profile
        *existing;       /* what it holds for this machine, backend, transport and dtype is kept; may be NULL */
    double time_limit_s; /* aimed at; the least that each measurement needs is done in any case */
    void *context;
    void (*on_progress)(void *context, const char *what, int done, int count); /* may be NULL */
};
struct profiler_report {
    double seconds;
    int case_count, known_case_count, dropped_case_count; /* configurations: run, not needed, too large */
    int64_t dropped_micro;                                /* the smallest micro-batch among the last; 0: none */
    int curve_count, known_curve_count;
    int64_t reference_before_ns, reference_after_ns; /* reference_measure() (profiler/resident.h) */
    double processor_share; /* of a core that one busy thread got, before or after: below 1 other programs disturbed */
    int compute_samples, communication_samples; /* behind the two factors; 0: not measured, so kept or assumed */
    bool factors_assumed;         /* one or both, since nothing ended side by side when they were measured */
    const char *existing_refused; /* why `existing` was of no use; NULL: it was, or there was none */
};
/* The processor was not equally fast before and after, or other programs took part of it, beyond 5 %. */
bool profiler_unsteady(const struct profiler_report *report);

/**
 * Called by every process of the crew. *out belongs to the caller: profile_free(); on processes without rank 0 it is
 * NULL. The model must have mathematics. Entries of `existing` that still hold become part of the result.
 */
bool profiler_measure(struct profile **out, struct profiler_report *report, const struct crew *crew,
                      const struct profiler_options *options, struct error *err);
#endif
