/* Keeps the counts of a solution as lists of those that are not 0. */
#include "planner/cut/partition_parts.h"
#include <string.h>

struct layer_count *counts_copy(struct arena *arena, const struct layer_count *counts)
{
    size_t size = 1;
    for (int i = 0; counts[i].count > 0; i++)
        size++;
    struct layer_count *copy = arena_alloc(arena, size, sizeof *copy);
    return copy ? memcpy(copy, counts, size * sizeof *copy) : NULL;
}

bool counts_equal(const struct layer_count *a, const struct layer_count *b)
{
    for (; a->count > 0 && a->count == b->count && a->at == b->at; a++)
        b++;
    return a->count == 0 && b->count == 0;
}

static struct layer_count *list_counts(struct arena *arena, const int *count, int block)
{
    size_t size = 1;
    for (int i = 0; i < block; i++)
        size += count[i] > 0;
    struct layer_count *list = arena_alloc(arena, size, sizeof *list), *next = list;
    for (int i = 0; list && i < block; i++)
        if (count[i] > 0)
            *next++ = (struct layer_count){ i, count[i] };
    return list;
}

bool partition_set_counts(struct partition_plan *plan, struct arena *arena, const int *count, int stages, int block)
{
    plan->counts = arena_alloc(arena, (size_t)stages, sizeof *plan->counts);
    for (int k = 0; plan->counts && k < stages; k++)
        if (!(plan->counts[k] = list_counts(arena, &count[(size_t)k * (size_t)block], block)))
            return false;
    return plan->counts;
}
