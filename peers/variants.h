/* One variant per item, total cost smallest, total memory within a cap: an exact multiple-choice knapsack in doubles.
 * First a quick bound with a quick answer, from the hulls of the items; then, only where the two lie apart and someone
 * wants to know, labels over the few items that can matter. */
#ifndef CLEAVE_PEERS_VARIANTS_H
#define CLEAVE_PEERS_VARIANTS_H
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
    struct variant_step *steps;   /* (option_count) scratch */
    struct variant_item *core;    /* (item_count) scratch */
    struct variant_label *labels; /* scratch */
    int label_count, label_capacity;
    double rate; /* cost per byte at which the quick answer stopped */
};
void variants_free(struct variants *v);
void variants_clear(struct variants *v, double cap_bytes);
bool variants_add_item(struct variants *v, int option_count);                 /* false: out of memory */
void variants_set(struct variants *v, int option, double cost, double bytes); /* of the last item */

/* No choice costs less than *bound; one that fits costs *cost. Both INFINITY when nothing fits. */
void variants_bound(struct variants *v, double *bound, double *cost);
enum variants_end { VARIANTS_DONE, VARIANTS_LIMIT, VARIANTS_NO_MEMORY };
/* After variants_bound() with a finite cost: *cost becomes the smallest. VARIANTS_LIMIT: more labels than
 * VARIANTS_LABELS; *cost is then what is known. */
enum { VARIANTS_LABELS = 4000000 };
enum variants_end variants_solve(struct variants *v, double bound, double *cost);
/* Of the last answer: which option the item takes. */
int variants_chosen(const struct variants *v, int item);
#endif
