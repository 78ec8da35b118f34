/* Stages that a user cuts: `--stages`. */
#ifndef CLEAVE_CLI_STAGES_H
#define CLEAVE_CLI_STAGES_H
#include "base/arena.h"
#include "base/text.h"
#include "planner/plan/plan.h"
#include "planner/space/space.h"

/* What each piece of the model holds, chunk by chunk: pieces i, i + stages, ... are one stage's, as the schedule deals
 * them out. */
struct stage_cuts {
    int count;
    const int *blocks; /* (count) the first piece has what stands before the blocks too, the last one what is behind */
};
/**
 * Reads blocks by piece, "5,6,6,4", where the first piece has the embedding too and the last one head and loss; or a
 * layout as Megatron-LM's --pipeline-model-parallel-layout has it (megatron/core/transformer/
 * pipeline_parallel_layer_layout.py): E embedding, t block, L head and loss, '|' between pieces, (...)*n and x*n for
 * repetition, and commas that mean nothing.
 */
bool stage_cuts_read(struct stage_cuts *out, struct arena *arena, const char *text, struct error *err);
/* Has as many stages said, or chunks of them, where nobody said it. */
bool stage_cuts_restrict(int count, struct space *said, struct error *err);
/* Where the pieces begin in the file's order of layers; in the arena. */
bool stage_cuts_place(struct space_cut *out, struct arena *arena, const struct stage_cuts *cuts,
                      const struct graph *graph, struct error *err);
/* Adds the cut as stage_cuts_read() takes it; nothing where it is not between blocks. */
void stage_cuts_write(struct text *out, const struct space_cut *cut, const struct graph *graph);
/**
 * Cuts a plan, whose stages are balanced by layers, at blocks and not within them, nor between head and loss: every
 * piece gets as many where blocks divide and begin alike, and no device is another's better; chunks that do not as many
 * of blocks, embedding and head together, one more or less; stages what is nearest to their balance. A model of fewer
 * parts stays as it is, and so does a plan of replicas in turn or of another order.
 */
bool stage_cuts_usual(struct plan *plan, const struct graph *graph, int device_types, struct error *err);
#endif
