#include "base/sort.h"
#include "base/num.h"
#include <string.h>

/* Neighbouring runs become one, until there is one; short ones are made by insertion. */
void sort_keyed(struct keyed *list, struct keyed *spare, int count)
{
    enum { RUN = 8 };
    struct keyed *from = list, *to = spare;
    for (int first = 0; first < count; first += RUN)
        for (int i = first + 1; i < first + RUN && i < count; i++) {
            struct keyed moved = list[i];
            int at = i;
            for (; at > first && list[at - 1].key > moved.key; at--)
                list[at] = list[at - 1];
            list[at] = moved;
        }
    for (int64_t run = RUN; run < count; run *= 2) {
        for (int64_t first = 0; first < count; first += 2 * run) {
            int64_t a = first, a_end = min_i64(first + run, count), b = a_end, b_end = min_i64(first + 2 * run, count);
            for (int64_t at = first; at < b_end; at++) { /* without a branch: which run is next cannot be predicted */
                bool left = b == b_end || (a < a_end && from[a].key <= from[b].key);
                to[at] = from[left ? a : b];
                a += left;
                b += !left;
            }
        }
        struct keyed *merged = to;
        to = from;
        from = merged;
    }
    if (from != list)
        memcpy(list, from, (size_t)count * sizeof *list);
}
