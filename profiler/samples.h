/* Lists of durations by name: what repeated measurements collect, and when there are enough of them. */
#ifndef CLEAVE_PROFILER_SAMPLES_H
#define CLEAVE_PROFILER_SAMPLES_H
#include "planner/facts/profile.h"

struct series {
    char *name;
    double *ns;
    int count, capacity;
    bool sorted;
};
struct samples {
    struct series *series; /* in the order in which they first came */
    int count, capacity;
    int *slots; /* open addressing, index + 1 */
    int slot_count;
};

/* The series of this name, made if absent; NULL when memory is short. Borrowed until the next call that makes one. */
struct series *samples_find(struct samples *samples, const char *name);
/* NULL where there is none. */
const struct series *samples_peek(const struct samples *samples, const char *name);
bool samples_add(struct samples *samples, const char *name, double ns, struct error *err);
void samples_free(struct samples *samples); /* leaves it empty */

/* The middle of the sorted samples, the mean of two where their number is even; 0 without samples. Sorts. */
double series_median(struct series *series);
/* Interquartile range over the median; quartiles by linear interpolation. 0 below two samples. */
double series_spread(struct series *series);
/**
 * How far the median may be off, as a share of it: the interquartile range of the median of n samples, 1.25 IQR /
 * sqrt(n) (the median of normal samples has sqrt(pi / 2) times the mean's standard error). INFINITY below three
 * samples.
 */
double series_error(struct series *series);
/* Median, spread and repeats of a measured series. */
struct measurement series_measurement(struct series *series);
/* Adds all samples of the other. */
bool samples_merge(struct samples *into, const struct samples *from, struct error *err);
/* Whether the series that make `share` of all measured time, largest first, are each known to `error`. Series of a name
 * that `known` (may be NULL) has are left out. */
bool samples_settled(struct samples *samples, const struct samples *known, double share, double error);
#endif
