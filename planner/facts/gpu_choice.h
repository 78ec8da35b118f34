/* How a library computes one shape of products, as it was found to be fastest: numbers that mean something to the
 * device's module and its library alone (executor/gpu), the same for the same shape on the same device. */
#ifndef CLEAVE_FACTS_GPU_CHOICE_H
#define CLEAVE_FACTS_GPU_CHOICE_H
#include "base/arena.h"
#include "base/json.h"

enum { GPU_CHOICE_KEY = 19, GPU_CHOICE_SETTINGS = 9, GPU_MOST_CHOICES = 4096 };
struct gpu_choice {
    int64_t key[GPU_CHOICE_KEY], setting[GPU_CHOICE_SETTINGS];
};
struct gpu_choices {
    struct gpu_choice *choice;
    int count;
};
/* Reads an array of arrays of numbers, at most GPU_MOST_CHOICES, into the arena; NULL: there is none. */
bool gpu_choices_from_json(struct gpu_choices *out, struct arena *arena, const struct json *list, struct error *err);
void gpu_choices_to_json(struct json_writer *w, const struct gpu_choices *choices);
/* Joins those of `base` for whose shapes there are none in `more`, then these; at most GPU_MOST_CHOICES. They go to the
 * arena; false when out of memory. */
bool gpu_choices_join(struct gpu_choices *out, struct arena *arena, const struct gpu_choices *base,
                      const struct gpu_choices *more);
#endif
