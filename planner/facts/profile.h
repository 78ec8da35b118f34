/* The room of facts: what is known of the world before anything is planned.
 *
 * It answers what devices and links there are (cluster.h, from the catalogue in devices/ or a file), what the framework
 * does that runs a plan (framework.h, a file of frameworks/ each), which algorithm of a GPU's library was fastest
 * (gpu_choice.h), and here what was measured: every number with value, spread and origin. struct facts has all of it.
 * Read once, then const; lookups are binary searches.
 *
 * It uses the names of dimensions of plan/, and decides nothing: cost/ makes times of it.
 * Tested by tests/test_cluster.c, test_profile.c, test_framework.c and fuzz_cluster, fuzz_profile. */
#ifndef CLEAVE_FACTS_PROFILE_H
#define CLEAVE_FACTS_PROFILE_H
#include "base/json.h"
#include "planner/facts/cluster.h"
#include "planner/facts/framework.h"
#include "planner/facts/gpu_choice.h"
#include "planner/facts/memory_parts.h"
#include "planner/plan/dim.h"

/* No single instruction takes a month, nor does a step: durations saturate here, 52 days, and 2^10 of them still fit in
 * 63 bits. A step that takes so long is refused by name where it would be handed out (timeline_is_counted()). */
#define MAX_TIME_NS (INT64_C(1) << 52)

struct measurement {
    int64_t ns;
    double spread; /* interquartile range / median */
    int repeats;
    enum origin origin;
};

/* Compute: keyed by segment_work_name() and ranks loaded on the host at once. */
struct compute_entry {
    const char *work;
    int loaded;
    struct measurement m;
};
/* Optimizer step, norm, copies, zero: ns = fixed_ns + elements * ns_per_element, fitted over [min, max] elements. */
struct linear_entry {
    const char *work;
    int loaded;
    double fixed_ns, ns_per_unit;
    int64_t min_units, max_units;
    double error;
    enum origin origin;
};
/* Collectives and send/receive: one curve per (op name, group size, concurrent groups, level). */
struct collective_point {
    int64_t bytes;
    struct measurement m;
};
struct collective_curve {
    const char *op;
    int ranks, concurrent;
    int level;
    int point_count;
    struct collective_point *points;       /* ascending bytes: of the largest buffer on one rank */
    double latency_ns, bytes_per_s, error; /* fit; outside the points' range the fit extrapolates and says so */
};
enum { PROFILE_UNSAID = -1 }; /* older files have no word on it */
struct profile {
    struct arena arena;
    const char *machine, *backend, *transport, *software, *created; /* provenance, shown in reports */
    const char *device;         /* name of the type that it was measured on; "": the cluster's only one */
    const struct profile *next; /* of another device, borrowed; NULL: none */
    enum dtype dtype;
    int compute_count, linear_count, curve_count;
    struct compute_entry *compute;
    struct linear_entry *linear;
    struct collective_curve *curves;
    /* Slow-down of compute while a collective runs beside it, and the reverse, as factors >= 1; 1 when not measured. */
    double compute_under_communication, communication_under_compute;
    double compute_under_communication_spread, communication_under_compute_spread; /* interquartile range / median */
    int factors_origin;                           /* of the four above: enum origin; PROFILE_UNSAID */
    int64_t memory_outside_arena_bytes;           /* context, libraries, transport buffers */
    int64_t memory_part_bytes[MEMORY_PART_COUNT]; /* what is known of it, and of the host's; 0: none, or not said */
    int memory_origin;                            /* of it: enum origin; PROFILE_UNSAID */
    int64_t instruction_ns; /* of every span: what the events of a device take that time it; 0: nothing, or not kept */
    int64_t reference_ns;   /* of the profiler's reference product, when the newest part was measured; 0: not kept */
    int reference_ranks;    /* so many of them at once; 0: not said, one */
    const char *tuned_device; /* GPU on which the algorithms below were timed; "": none were */
    struct gpu_choices tuned;
    uint64_t hash;
    struct profile_shape *shapes; /* (compute_count) by signature; private */
};
/**
 * Makes a profile whose arrays and strings were filled by hand (the profiler's) ready: sorts entries, refuses
 * duplicates and impossible numbers, builds the lookups and the hash. Missing strings become "". Everything must live
 * in the profile's arena or outlive it. The interference factors must be at least 1.
 */
bool profile_finish(struct profile *profile, struct error *err);
/* Gives the index-th field table of the profile format and its name; NULL past the last. */
extern const struct json_format profile_formats[];
struct profile *profile_new(void); /* empty, with factors of 1; NULL: out of memory */
bool profile_read(struct profile **out, const char *name, const char *text, size_t length, struct error *err);
char *profile_write(const struct profile *profile, size_t *length); /* deterministic; caller frees */
void profile_free(struct profile *profile);                         /* accepts NULL */
/* Merges `more` into a copy of `base` (either may be NULL); entries of `more` win. */
bool profile_merge(struct profile **out, const struct profile *base, const struct profile *more, struct error *err);
/* Gives what was measured under exactly this key; else NULL. */
const struct compute_entry *profile_compute(const struct profile *profile, const char *work, int loaded);
const struct linear_entry *profile_linear(const struct profile *profile, const char *work, int loaded);
const struct collective_curve *profile_curve(const struct profile *profile, const char *op, int ranks, int concurrent,
                                             int level);

/* Gives the measured shape nearest to `work` in the same kernel, phase and axes, by the distances |log2| of all extents
 * and of `loaded`; NULL when none was measured. extents gets the entry's extents in the order in which the work name
 * spells them. */
const struct compute_entry *profile_compute_nearest(const struct profile *profile, const char *work, int loaded,
                                                    int64_t extents[MAX_AXES]);
const struct linear_entry *profile_linear_nearest(const struct profile *profile, const char *work, int loaded);
const struct collective_curve *profile_curve_nearest(const struct profile *profile, const char *op, int ranks,
                                                     int concurrent, int level);
/* Gives the time at `bytes`: between points on a straight line in (log bytes, log ns); outside them by the fit, which
 * never crosses the end points. */
int64_t collective_curve_ns(const struct collective_curve *curve, int64_t bytes, bool *extrapolated);

/* Everything that decides a duration. */
struct facts {
    const struct cluster *cluster;
    const struct profile *profile; /* NULL: analytic. Of a cluster of several types: a list by `next`, one per type */
    const struct framework *framework; /* what runs the plan; NULL: cleave itself */
};
/* Gives what was measured on a type of the cluster's; NULL: nothing. */
const struct profile *facts_profile(const struct facts *facts, int type);
/* Gives how many times as long computations and transfers take beside each other, at least 1: by the framework, or as
 * measured of the slowest of the types, which are bits. */
void facts_slow_down(const struct facts *facts, unsigned types, double *compute, double *transfers);
/* Gives what times of the type's profile hold that steps do not: one device alone replays its step as a graph, in which
 * nothing is timed; several time every instruction in every step. */
int64_t facts_timing_ns(const struct facts *facts, int type);
/* Gives the usable bytes of one device of a type: what the cluster leaves after its reserve, or after what was measured
 * outside the arena if that is more. */
int64_t facts_available_bytes(const struct facts *facts, int type);
int64_t facts_buffers_bytes(const struct facts *facts); /* the framework's, which are not available */
/* Gives what a profile of this type has measured on a device beside the arena; 0 without one. */
int64_t facts_outside_arena_bytes(const struct facts *facts, int type);
/* Gives the facts where all devices are of one of the cluster's types, whose cluster_of_type() is given. */
struct facts facts_of_type(const struct facts *facts, int type, const struct cluster *alone);
/**
 * Refuses profiles that say nothing of this cluster: of a device that it does not have, or, where it has several types,
 * of an unnamed one. The message names the profile (its `machine`) and the cluster's types.
 */
bool facts_check(const struct facts *facts, struct error *err);
/* Gives the usable bytes of the type of device that has most. */
int64_t facts_most_bytes(const struct facts *facts);
#endif
