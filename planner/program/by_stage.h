/* The buffers of each stage, in the order of their numbers: what walks a program stage by stage looks at each buffer
 * once and not once per stage. */
#ifndef CLEAVE_PROGRAM_BY_STAGE_H
#define CLEAVE_PROGRAM_BY_STAGE_H
#include "planner/program/program.h"

struct by_stage {
    int *first;  /* (stage_count + 1) into list */
    int *buffer; /* (buffer_count) numbers */
};
/* Lists the buffers that are of a stage, in the arena; valid until another one is added. False: out of memory. */
bool by_stage_build(struct by_stage *out, struct arena *arena, const struct program *program);
#endif
