/* Sorting where qsort() and its calls are felt. */
#ifndef CLEAVE_BASE_SORT_H
#define CLEAVE_BASE_SORT_H
#include <stdint.h>

struct keyed {
    int64_t key;
    int index;
};
/* By key, ascending; what is equal stays in its order. spare: as long, its content is lost. A third of qsort()'s time.
 */
void sort_keyed(struct keyed *list, struct keyed *spare, int count);
#endif
