/* A candidate's plan changed a little: cuts moved by a layer, strategies changed, another configuration. */
#ifndef CLEAVE_POOL_MOVES_H
#define CLEAVE_POOL_MOVES_H
#include "planner/pool/run.h"

/* Cuts first to last, numbered by the piece behind them, moved by so many layers: one of the pieces at the ends hands
 * them to the other. */
struct cut_move {
    int first, last, by;
};
/* Counts the steps. By number, a step moves by one layer a single cut first, then two neighbours, and so on. */
int cut_move_steps(const struct config *config);
struct cut_move cut_move_step(const struct config *config, int index);
/* Counts jumps, each of which moves one cut to any place of the pieces that it divides; `by` 0 moves nothing. */
int cut_move_jumps(const struct plan *plan);
struct cut_move cut_move_jump(const struct config *config, const struct plan *plan, int index);
/* Makes the plan with cuts moved, not ranked yet; out->plan is NULL where it does not fit, or is one of the `kept`. */
bool moves_cuts(struct run *run, const struct candidate *from, const struct cut_move *move, int kept,
                struct candidate *out);
/* Moves layers between the first and the last that share a weight with them to the first one's stage, where what they
 * read lets them, so that the weight lies on fewer stages. */
bool moves_join_tied(struct run *run, const struct candidate *from, int kept, struct candidate *out);
/* Layers of a piece, of all at -1, get one stage of ZeRO or kind of recomputation; -1 leaves each its own. */
struct strategy_move {
    int piece, zero, recompute;
};
int strategy_move_count(const struct config *config);
struct strategy_move strategy_move_at(int index);
/* Moves of one kind, by number: steps, steps by a block, jumps of more than one layer where a model is small and cuts
 * differ, strategy moves. make: as moves_cuts(). */
struct move_kind {
    int (*count)(const struct run *run, const struct candidate *c);
    bool (*make)(struct run *run, const struct candidate *from, int index, int kept, struct candidate *out);
    bool again; /* one that helped may help once more */
};
/* True when a small model's cuts jump: what crosses them depends on their place, since values skip layers or layers
 * hand on unequal amounts. Then a plan's walk says little before the plan has climbed. */
bool moves_jump(const struct run *run);
extern const struct move_kind moves_by_steps, moves_by_blocks, moves_by_jumps, moves_by_strategies;
/* Puts the candidate's cuts and all its strategies under another configuration of as many pieces. */
bool moves_config(struct run *run, const struct candidate *from, int config, int kept, struct candidate *out);
#endif
