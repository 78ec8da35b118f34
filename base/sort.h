/* Numbers with the places that they are of, for qsort(). */
#ifndef CLEAVE_BASE_SORT_H
#define CLEAVE_BASE_SORT_H
#include <stdint.h>

struct keyed {
    int64_t key;
    int index;
};
/* By key, ascending; what is equal by index. */
static inline int keyed_compare(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    return x->key != y->key ? (x->key > y->key) - (x->key < y->key) : (x->index > y->index) - (x->index < y->index);
}
#endif
