/* What a device takes for products, copies and for starting work at all: times that its file can hold. */
#ifndef CLEAVE_PROFILER_DEVICE_TIMES_H
#define CLEAVE_PROFILER_DEVICE_TIMES_H
#include "planner/facts/profile.h"
#include "profiler/crew.h"

/* One of a layer's three products, sizes as in struct matmul_surface. */
struct product {
    enum phase phase;
    int64_t m, n, k;
};
struct device_times {
    struct measurement empty; /* span of an instruction that does nothing: what timing itself takes */
    struct measurement tiny;  /* of one that copies one element */
    struct measurement copy;  /* of one that copies copy_elements of fp32 */
    int64_t copy_elements;
    int64_t steps;
};
struct device_times_options {
    const struct product *products;
    int product_count;
    int64_t copy_elements;
    double budget_s; /* more steps, smaller spreads; a few are done in any case */
    void *context;
    void (*on_progress)(void *context, const char *what, int done, int count); /* may be NULL */
};
/**
 * All in steps of one program on all ranks of the crew at once. Operands are random, of the crew's dtype, and were last
 * used as long ago as the caches are large. products: (product_count), whole spans. Only the process of rank 0 gets
 * times.
 */
bool device_times_measure(struct device_times *out, struct measurement *products, const struct crew *crew,
                          const struct device_times_options *options, struct error *err);
/* The span of an instruction that does nothing, in a few short steps. *ns is set on the process of rank 0. */
bool device_times_empty(int64_t *ns, const struct crew *crew, struct error *err);
#endif
