/* The memory of one rank beside its arena, and what of it is known by name. */
#ifndef CLEAVE_FACTS_MEMORY_PARTS_H
#define CLEAVE_FACTS_MEMORY_PARTS_H
#include "base/text.h"
#include <stdbool.h>
#include <stdint.h>

enum memory_part {
#define MEMORY_PART(id, key, place, text) MEMORY_##id,
#include "planner/facts/memory_parts.def"
    MEMORY_PART_COUNT
};
struct memory_outside {
    int64_t bytes;                   /* of the rank's device, PINNED not among them; -1: not known */
    int64_t part[MEMORY_PART_COUNT]; /* 0: it has none, or does not say */
};
struct memory_part_info {
    const char *key, *text;
    bool on_device;
};
extern const struct memory_part_info memory_part_info[MEMORY_PART_COUNT];

/* Gives what no part of the device's has: context, code, what libraries keep, other programs. */
int64_t memory_rest_bytes(const struct memory_outside *outside);
/* Describes that memory for people, in one line: the parts that there are, and the rest. */
void memory_describe(struct text *out, const struct memory_outside *outside);
#endif
