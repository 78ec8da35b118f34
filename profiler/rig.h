/* Programs made by hand: a mesh, buffers of chosen sizes and layouts, instructions in a row. They run through the
 * executor like any other, so that what is timed is the code that runs steps. */
#ifndef CLEAVE_PROFILER_RIG_H
#define CLEAVE_PROFILER_RIG_H
#include "planner/program/program.h"

/* Buffers of one side lie over each other, or, where rig->circle_bytes is set before, one behind the other and after so
 * many bytes from the beginning again; those APART have bytes of their own. */
enum rig_side { RIG_SOURCE, RIG_SECOND_SOURCE, RIG_DESTINATION, RIG_APART };
struct rig {
    struct graph *graph;
    struct plan *plan;
    struct program *program;
    int weight_capacity, buffer_capacity, instr_capacity, wait_capacity; /* instrs and waits: of each stage */
    enum rig_side *side;                                                 /* (buffers) */
    int64_t top_bytes[3], apart_bytes; /* of each side; of all other buffers together */
    int64_t circle_bytes, next[3];     /* where the next buffer of a side lies, if not at its beginning */
};
/* Stages of outer x inner ranks; ranks that are left over form one more stage that does nothing. instr_capacity is of
 * each stage; every instruction has one pair at most and two waits. */
bool rig_new(struct rig **out, int rank_count, int stage_count, int outer, int inner, int size_capacity,
             int instr_capacity, struct error *err);
void rig_free(struct rig *rig); /* accepts NULL */

/* A matrix of rows x columns elements over all ranks that share it; the id of what buffers hold. */
int rig_tensor(struct rig *rig, int64_t rows, int64_t columns);
/* The stage's buffer for the tensor: on the inner atom in this kind of layout (SHARDED along dim), on the outer one
 * sharded along dim 0. Sizes must divide. Returns its index. */
int rig_buffer(struct rig *rig, int stage, int tensor, enum layout_kind kind, int dim, enum rig_side side);
/* Appends an instruction to the stage; waits for the last instruction of the lane `after` (-1: none). source,
 * destination: buffers, or -1; both -1: no pair. Returns it for further settings; it moves with the next call. */
struct instr *rig_instr(struct rig *rig, int stage, enum op op, enum lane lane, int after, int source, int destination);
/* Gives a COMPUTE its operands. */
void rig_operands(struct rig *rig, struct instr *instr, const struct operand_table *table);
/* Appends a pass on the compute lane over so many bytes (crew_cache_bytes()), shared out over all ranks: what comes
 * next finds in the caches, as within a real step, nothing of what it used before. Takes a tensor and a buffer. */
struct instr *rig_empty_caches(struct rig *rig, int stage, int after, int64_t cache_bytes);
/* Sets offsets. Call last. */
void rig_finish(struct rig *rig);
#endif
