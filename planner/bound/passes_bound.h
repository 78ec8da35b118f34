/* A bound of the simulated step that knows the order of passes: inequalities that hold of every plan, added up with
 * weights that passes_mix.h proposes.
 *
 * Path: passes each of which waits for the one before it, on its stage or for its message, take no longer together than
 * the step. A layer on piece q is on it with its forward kernels as often as there are forward passes of q on it, with
 * those of backward by input and what is recomputed, and with those by weight. After the last pass of its stage a path
 * goes on with the updates there. Lane: a stage's data-parallel lane takes what its layers ask of it, in the mean over
 * all stages. Moment: when a stage has done so many of its passes, it holds what is resident of its layers, what a
 * micro-batch keeps for each that is in flight, and for each whose weights' gradients were put off what these are made
 * of; that is no more than its memory.
 *
 * With weights p of paths (all together with the lane's: N) and w of moments, each layer in the piece, under the
 * strategy, for which that is least:
 *
 *   N T >= sum over layers of min (path times + lane time + N sum of w held / C) - N sum of w - lost
 *
 * Lost is what may overlap where passes meet: what a pass waits for before its first kernel, as lanes_bound.h says;
 * what is recomputed before a message comes; and the weights' gradients of the first layer of a whole backward pass,
 * which may follow the message to the stage before. Of each either the largest of any layer once, or that of all layers
 * of the pass: whichever is less over all.
 */
#ifndef CLEAVE_SEARCH_PASSES_BOUND_H
#define CLEAVE_SEARCH_PASSES_BOUND_H
#include "planner/bound/busy_bound.h"
#include "planner/bound/passes_book.h"

/**
 * *out: no plan of the configuration whose stages' arenas are at most capacity_bytes is simulated shorter; at least
 * below_ns where that is known of it. For configurations of which lanes_bound() can be said and whose passes_are_few().
 * *mix: the weights that say so, of the book until its next use; NULL: none. *effort: its work is less by what was
 * done. Fails only for want of memory, or when GLPK does.
 */
bool passes_bound(int64_t *out, const struct passes_mix **mix, struct passes_book *book,
                  const struct busy_problem *problem, const struct config *config, int64_t capacity_bytes,
                  int64_t below_ns, struct mix_effort *effort, struct error *err);
#endif
