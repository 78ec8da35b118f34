/* A bound of the simulated step that knows more than kernels (busy_bound.h): both lanes of a stage, and its memory.
 *
 * A stage's compute lane runs its kernels, those that are recomputed too (K), then the norm and the updates (U); after
 * those the data-parallel lane hands out the weights that ranks share (R), and in all it moves L: what ZeRO-3 gathers
 * is given up when the pass of its layer is over, so that each pass moves it anew. Of each layer the stage holds B
 * bytes at the least when a micro-batch turns around, of C that a device has. So for any shares a and u of 0 to 1 and
 * any price j of memory, each layer with its cheapest strategy, over all S stages:
 *
 *   S T >= a sum of head_k - j S + sum of layers min (a (m K + u U + (1 - u) R) + (1 - a) L + j B / C)
 *
 * K has the time, too, that the compute lane waits between two kernels for transfers. Where stages meet, waiting before
 * the first kernel of a layer may be hidden, so that the longest such wait of any layer is taken off, of forward and of
 * backward; from L, as many of the longest gathers as run ahead: no more layers than that may gather for two passes at
 * once, where a stage's chunk has no others. With the a, u and j that make this most the same holds for each stage, and
 * so for all cuts of a chain.
 *
 * Not where steps run into each other, stages have several meshes, layers several layouts, or devices several types:
 * prices then are not of the ranks that share a transfer.
 */
#ifndef CLEAVE_SEARCH_LANES_BOUND_H
#define CLEAVE_SEARCH_LANES_BOUND_H
#include "planner/bound/busy_bound.h"

/* a is a number of LANES_PATH_PARTS, u of LANES_STEP_PARTS; j counts in LANES_UNITS of the kernels' time of a stage,
 * and memory in LANES_FINE of C. */
enum { LANES_PATH_PARTS = 16, LANES_STEP_PARTS = 4, LANES_UNITS = 16, LANES_MOST_UNITS = 128, LANES_FINE = 1 << 16 };

/* What of the gaps of all micro-batches may be hidden at the ends of a stage's chunk. */
int64_t lanes_seam_ns(const struct busy_problem *problem);
/* What a chunk's data-parallel lane may move less than its layers' passes ask for. */
int64_t lanes_stay_ns(const struct busy_problem *problem);
/* What a layer of the class has at least. A stage with both copies of the model's ends has a weight that they share as
 * its last layer decides: then the first one has no more than its kernels. */
struct least_price lanes_least(const struct busy_problem *problem, int class_index, int strategy);
/* Whether it can be said of the configuration. */
bool lanes_bound_applies(const struct config *config, const struct cluster *cluster);
/**
 * *out: no plan of the configuration whose stages' arenas are at most capacity_bytes is simulated shorter, with the
 * best a, u and j that climb_up() finds; at least below_ns where that is known of it (INT64_MAX: as much as can be
 * said). problem->table: of whole strategies. Fails only for want of memory.
 */
bool lanes_bound(int64_t *out, const struct busy_problem *problem, int64_t capacity_bytes, int64_t below_ns,
                 struct error *err);
#endif
