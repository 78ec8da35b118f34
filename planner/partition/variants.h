/* One variant per item, total cost smallest, total memory within a cap: the exact knapsack of planner/search over items
 * of doubles, with a quick bound and a quick answer before it. */
#ifndef CLEAVE_PARTITION_VARIANTS_H
#define CLEAVE_PARTITION_VARIANTS_H
#include "base/error.h"
#include <stdint.h>

struct variant_option {
    double cost, bytes;
};
struct variants { /* start from zeroes; reused from problem to problem */
    double cap_bytes;
    int item_count, option_count, item_capacity, option_capacity;
    int *first;  /* (item_count + 1) */
    int *chosen; /* (item_count) */
    struct variant_option *options;
    struct variant_step *steps; /* (option_count) scratch */
};
void variants_free(struct variants *v);
void variants_clear(struct variants *v, double cap_bytes);
bool variants_add_item(struct variants *v, int option_count); /* false: out of memory */
void variants_set(struct variants *v, int option, double cost, double bytes); /* of the last item */
/**
 * *cost: the smallest, INFINITY when nothing fits. Without `exact` any fitting cost below `enough` will do, and INFINITY
 * when none is below. Costs are told apart to one part in 2^50 of their sum, memory to one part in 2^48. Fails for want
 * of memory.
 */
bool variants_solve(struct variants *v, double enough, bool exact, double *cost, struct error *err);
/* Of the last solution: which option the item takes. */
int variants_chosen(const struct variants *v, int item);
#endif
