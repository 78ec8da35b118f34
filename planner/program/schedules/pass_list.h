/* Orders that are written pass by pass, as the pattern of a full pipeline. */
#ifndef CLEAVE_PROGRAM_SCHEDULES_PASS_LIST_H
#define CLEAVE_PROGRAM_SCHEDULES_PASS_LIST_H
#include "planner/program/schedule.h"

/* Passes of micro-batches that the step does not have are counted and left out: what is left still fits together. */
struct pass_list {
    struct action *out; /* NULL: only count */
    int micro_count, count;
    int copies;     /* of the model that the chunks are: each takes every so manieth micro-batch; 1: each takes all */
    int done[4][2]; /* [enum action_kind][chunk] */
};

/* Adds the next pass of the kind that the chunk has. */
static inline void pass_add(struct pass_list *list, enum action_kind kind, int chunk)
{
    int micro = list->done[kind][chunk]++ * list->copies + chunk % list->copies;
    if (micro >= list->micro_count)
        return;
    if (list->out)
        list->out[list->count] = (struct action){ .kind = kind, .micro = micro, .chunk = chunk };
    list->count++;
}

/* Adds both halves of a backward pass at once. */
static inline void pass_add_backward(struct pass_list *list, int chunk)
{
    pass_add(list, ACTION_BACKWARD_INPUT, chunk);
    pass_add(list, ACTION_BACKWARD_WEIGHT, chunk);
}

/* Gives as many micro-batches as the pattern needs, at least those of the step. */
static inline int pass_micro_batches(const struct schedule_place *place, int full)
{
    return place->micro_count > full ? place->micro_count : full;
}
#endif
