#include "base/num.h"
#include "planner/facts/memory_parts.h"

enum { DEVICE = true, HOST = false };

const struct memory_part_info memory_part_info[MEMORY_PART_COUNT] = {
#define MEMORY_PART(id, name, place, what) [MEMORY_##id] = { .key = name, .text = what, .on_device = place },
#include "planner/facts/memory_parts.def"
};

int64_t memory_rest_bytes(const struct memory_outside *outside)
{
    int64_t rest = outside->bytes;
    for (int i = 0; i < MEMORY_PART_COUNT; i++)
        rest -= memory_part_info[i].on_device ? outside->part[i] : 0;
    return max_i64(rest, 0);
}

static void add_part(struct text *out, const char *before, const char *what, int64_t bytes)
{
    char number[TEXT_NUMBER_BYTES];
    text_printf(out, "%s%s %s", before, what, text_bytes(number, bytes));
}

void memory_describe(struct text *out, const struct memory_outside *outside)
{
    const char *before = "";
    for (int i = 0; i < MEMORY_PART_COUNT; i++)
        if (outside->part[i] > 0 && memory_part_info[i].on_device) {
            add_part(out, before, memory_part_info[i].text, outside->part[i]);
            before = ", ";
        }
    add_part(out, before, "the rest (context, libraries, other programs)", memory_rest_bytes(outside));
    for (int i = 0; i < MEMORY_PART_COUNT; i++)
        if (outside->part[i] > 0 && !memory_part_info[i].on_device)
            add_part(out, "; ", memory_part_info[i].text, outside->part[i]);
}
