/* Sorting where qsort() and its calls are felt. */
#ifndef CLEAVE_BASE_SORT_H
#define CLEAVE_BASE_SORT_H
#include <stdint.h>

struct keyed {
    int64_t key;
    int index;
};
/* By key, ascending; what is equal stays in its order. spare: as long, its content is lost. With qsort() `plan` and
 * `explain` of 70 billion parameters take 1.03 of their processor time (benchmarks/run_everyday, in turns). */
void sort_keyed(struct keyed *list, struct keyed *spare, int count);
#endif
