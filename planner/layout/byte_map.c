#include "planner/layout/byte_map.h"
#include <string.h>

/* Sorts edges, which are not negative, by eleven bits at a time, the lowest first; spare is as long as the list. */
static void sort_edges(struct byte_edge *list, struct byte_edge *spare, int count)
{
    enum { BITS = 11, DIGITS = 1 << BITS };
    struct byte_edge *from = list, *to = spare;
    int64_t most = 0;
    for (int i = 0; i < count; i++)
        most |= list[i].address;
    for (int shift = 0; shift < 63 && most >> shift; shift += BITS) {
        int before[DIGITS + 1] = { 0 };
        for (int i = 0; i < count; i++)
            before[(from[i].address >> shift & (DIGITS - 1)) + 1]++;
        for (int digit = 0; digit < DIGITS; digit++)
            before[digit + 1] += before[digit];
        for (int i = 0; i < count; i++)
            to[before[from[i].address >> shift & (DIGITS - 1)]++] = from[i];
        struct byte_edge *sorted = to;
        to = from;
        from = sorted;
    }
    if (from != list)
        memcpy(list, from, (size_t)count * sizeof *list);
}

static void set_bit(struct byte_map *map, int cell)
{
    for (int level = 0; level < map->level_count; level++, cell /= 64)
        map->bits[level][cell / 64] |= UINT64_C(1) << (cell % 64);
}

static void clear_bit(struct byte_map *map, int cell)
{
    for (int level = 0; level < map->level_count; level++, cell /= 64) {
        map->bits[level][cell / 64] &= ~(UINT64_C(1) << (cell % 64));
        if (map->bits[level][cell / 64])
            return;
    }
}

/* Gives the last run start at or before the cell. Cell 0 always begins a run. */
static int run_of(const struct byte_map *map, int cell)
{
    int level = 0, at = cell;
    uint64_t word = map->bits[0][at / 64] & (UINT64_MAX >> (63 - at % 64));
    while (!word && level + 1 < map->level_count) {
        at /= 64;
        level++;
        word = at % 64 ? map->bits[level][at / 64] & (UINT64_MAX >> (64 - at % 64)) : 0;
    }
    at = at / 64 * 64 + 63 - __builtin_clzll(word);
    while (level-- > 0)
        at = at * 64 + 63 - __builtin_clzll(map->bits[level][at]);
    return at;
}

/* Gives the first run start after the cell, or cell_count. */
static int next_run(const struct byte_map *map, int cell)
{
    int level = 0, at = cell;
    uint64_t word = at % 64 == 63 ? 0 : map->bits[0][at / 64] & (UINT64_MAX << (at % 64 + 1));
    while (!word) {
        if (++level == map->level_count)
            return map->cell_count;
        at /= 64;
        word = at % 64 == 63 ? 0 : map->bits[level][at / 64] & (UINT64_MAX << (at % 64 + 1));
    }
    at = at / 64 * 64 + __builtin_ctzll(word);
    while (level-- > 0)
        at = at * 64 + __builtin_ctzll(map->bits[level][at]);
    return at;
}

bool byte_map_open(struct byte_map *map, struct arena *arena, struct byte_edge *edges, int count, int numbers)
{
    *map = (struct byte_map){ .cell = arena_alloc(arena, (size_t)numbers, sizeof *map->cell) };
    struct byte_edge *spare = arena_alloc(arena, (size_t)count, sizeof *spare);
    if (!spare || !map->cell)
        return false;
    sort_edges(edges, spare, count);
    for (int i = 0; i < count; i++) {
        map->cell_count += !i || edges[i].address != edges[i - 1].address;
        map->cell[edges[i].number] = map->cell_count - 1;
    }
    map->owner = arena_alloc(arena, (size_t)map->cell_count + 1, sizeof *map->owner);
    if (!map->owner)
        return false;
    int words = map->cell_count;
    do {
        words = words / 64 + 1;
        map->bits[map->level_count] = arena_alloc(arena, (size_t)words, sizeof(uint64_t));
        if (!map->bits[map->level_count++])
            return false;
    } while (words > 1);
    if (map->cell_count) {
        set_bit(map, 0);
        map->owner[0] = BYTE_MAP_NOBODY;
    }
    return true;
}

/* Makes the cell the beginning of a run. */
static void split_at(struct byte_map *map, int cell)
{
    if (cell >= map->cell_count || (map->bits[0][cell / 64] >> (cell % 64) & 1))
        return;
    map->owner[cell] = map->owner[run_of(map, cell)];
    set_bit(map, cell);
}

void byte_map_take(struct byte_map *map, int low, int high, int owner, void (*replaced)(void *self, int owner),
                   void *self)
{
    int first = map->cell[low], end = map->cell[high];
    if (first >= end)
        return;
    split_at(map, first);
    split_at(map, end);
    for (int cell = first; cell < end;) {
        int next = next_run(map, cell);
        replaced(self, map->owner[cell]);
        if (cell != first)
            clear_bit(map, cell);
        cell = next;
    }
    map->owner[first] = owner;
}
