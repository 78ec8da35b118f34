/* Which buffer owns which bytes of an arena, as runs over the addresses at which some buffer begins or ends. */
#ifndef CLEAVE_LAYOUT_BYTE_MAP_H
#define CLEAVE_LAYOUT_BYTE_MAP_H
#include "base/arena.h"
#include <stdbool.h>
#include <stdint.h>

enum { BYTE_MAP_LEVELS = 6, BYTE_MAP_NOBODY = -1 };
struct byte_map {
    int64_t *address; /* (cell_count) ascending, unique; cell i is [address[i], address[i + 1]) */
    int cell_count;
    int *owner;                      /* (cell_count) meaningful where a run begins */
    uint64_t *bits[BYTE_MAP_LEVELS]; /* run starts; a bit of level n + 1 stands for a word of level n that is not 0 */
    int level_count;
};
/* edges: all addresses at which an owner may begin or end, in any order; sorted in place. All bytes belong to nobody.
 * False: memory is short. */
bool byte_map_open(struct byte_map *map, struct arena *arena, int64_t *edges, int count);
/* [low, high), both edges, gets a new owner. Calls back once for each run that it replaces, even in part. */
void byte_map_take(struct byte_map *map, int64_t low, int64_t high, int owner, void (*replaced)(void *self, int owner),
                   void *self);
#endif
