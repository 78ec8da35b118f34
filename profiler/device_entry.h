/* A device of the catalogue with the numbers of this machine's. */
#ifndef CLEAVE_PROFILER_DEVICE_ENTRY_H
#define CLEAVE_PROFILER_DEVICE_ENTRY_H
#include "planner/facts/cluster.h"
#include "profiler/device_times.h"

struct device_entry_options {
    const struct device_type *base;           /* whose numbers stay where nothing is measured */
    const char *machine, *backend, *software; /* provenance */
    int64_t sizes[SURFACE_MOST_SIZES];        /* of m, n and k alike, ascending; the grid is all of them */
    int size_count;                           /* at least 2 */
    int64_t copy_elements;
    enum dtype dtype;    /* the crew's */
    int ranks;           /* likewise */
    double time_limit_s; /* aimed at */
    void *context;
    void (*on_progress)(void *context, const char *what, int done, int count); /* may be NULL */
};
/* Sizes and copies that suit the processor's cores or a GPU. */
void device_entry_usual(struct device_entry_options *options, bool on_device);
/**
 * Measures products over the grid in the three forms of a training step and others between its points, copies and
 * launches (device_times_measure()), and fits: launch_ns, rate and efficiency of the memory, the formula of products;
 * the surfaces stay where they predict what lies between the points better than the formula. Everything else is the
 * base's. Strings and surfaces live in arena. Called by every process of the crew; only that of rank 0 gets *out.
 */
bool device_entry_measure(struct device_type *out, struct arena *arena, const struct crew *crew,
                          const struct device_entry_options *options, struct error *err);
/* The same from times: products of grid and then of the others, in the order of device_entry_products(). */
bool device_entry_fit(struct device_type *out, struct arena *arena, const struct device_entry_options *options,
                      const struct device_times *times, const struct measurement *products, struct error *err);
/* Phase by phase those of the grid, k fastest; then phase by phase those between. The caller frees with free(); NULL
 * when memory is short. */
struct product *device_entry_products(const struct device_entry_options *options, int *grid_count, int *count);
#endif
