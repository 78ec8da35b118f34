/* Which buffer owns which bytes of an arena, as runs over the addresses at which some buffer begins or ends. */
#ifndef CLEAVE_LAYOUT_BYTE_MAP_H
#define CLEAVE_LAYOUT_BYTE_MAP_H
#include "base/arena.h"
#include <stdbool.h>
#include <stdint.h>

enum { BYTE_MAP_LEVELS = 6, BYTE_MAP_NOBODY = -1 };
/* An address at which an owner may begin or end, as whoever lists them numbers it. */
struct byte_edge {
    int64_t address;
    int number;
};
struct byte_map {
    int cell_count;                  /* unique edges, ascending; a cell lies between two */
    int *cell;                       /* by number: the cell that begins at the edge */
    int *owner;                      /* (cell_count) meaningful where a run begins */
    uint64_t *bits[BYTE_MAP_LEVELS]; /* run starts; a bit of level n + 1 stands for a word of level n that is not 0 */
    int level_count;
};
/* Opens a map in which all bytes belong to nobody. edges: in any order, sorted in place; numbers are below `numbers`.
 * False when memory is short. */
bool byte_map_open(struct byte_map *map, struct arena *arena, struct byte_edge *edges, int count, int numbers);
/* Gives what lies between the edges of two numbers to a new owner, and calls back once for each run that this replaces,
 * even in part. */
void byte_map_take(struct byte_map *map, int low, int high, int owner, void (*replaced)(void *self, int owner),
                   void *self);
#endif
