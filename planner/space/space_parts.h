/* What the files of the space share about the choices of a layer, and about stages of several meshes. */
#ifndef CLEAVE_SPACE_SPACE_PARTS_H
#define CLEAVE_SPACE_SPACE_PARTS_H
#include "planner/space/choice_legal.h"

/* ---- space_rules.c: what a layer decides, by choices of scope LAYER ---- */

void rules_layer_set(struct plan_layer *layer, enum space_choice choice, int64_t value);
/* True when the choice's value makes a difference: what is not sharded is not gathered. sharded: there are ranks over
 * which ZeRO could shard. */
bool rules_choice_matters(const struct plan_layer *layer, enum space_choice choice, bool sharded);

/* ---- space_list.c ---- */

/* True when a search tries the degree where nobody names any. */
bool space_usual_context(const struct cluster *cluster, int64_t tokens, int64_t context);

/* ---- space_turns.c ---- */

/* True when the search knows stages of several meshes under it: synchronous, with one chunk for each stage. */
bool space_takes_turns(int schedule);
/* Sets the numbers of meshes that a stage of the configuration may have, (SPACE_MOST_TURNS), of which no replica is
 * without a micro-batch; how many they are, or 0: it has no more than one, or some meshes are left even when there are
 * no more stages than layers, or than are given. */
int space_turns_of(const struct making *m, int turns[SPACE_MOST_TURNS]);
/* Fails unless a schedule is allowed whose stages can have several meshes. */
bool space_check_turns(const struct space *space, struct error *err);
#endif
