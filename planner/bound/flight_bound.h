/* A bound of the simulated step by what each stage holds: beside one micro-batch (lanes_bound.h) all that are in flight
 * there at once, which differ from stage to stage. By the order of its schedule stage k has n_k of them, each of which
 * keeps of every layer what its backward pass reads. So a layer that takes cost (k) there, under the strategy for which
 * that is least,
 *
 *   cost (k) = a (m K + u U + (1 - u) R) + (1 - a) L + j_k (W + n_k A) / C
 *
 * (K, U, R, L as there, W what is resident, A what is kept, C what a device has), and of all layers of stage k
 * T + j_k >= a head_k + sum of cost (k). Each layer lies on some stage, so that for any weights w_k of stages
 *
 *   T sum of w_k >= sum over layers of min over k (w_k cost (k)) + sum over k of w_k (a head_k - j_k)
 *
 * whatever the cut, chunks and branches. w_k is the inverse of what all layers together would cost on stage k; j_k is
 * j, or 0 on stages with few in flight. Of chunks n_k is of the one that has fewest. Where there are two copies of the
 * model, opposite stages count as one of twice the time, that has both copies of its layers.
 */
#ifndef CLEAVE_SEARCH_FLIGHT_BOUND_H
#define CLEAVE_SEARCH_FLIGHT_BOUND_H
#include "planner/bound/busy_bound.h"

/* w is at most FLIGHT_WEIGHT; n_k is rounded down to one of FLIGHT_LEVELS numbers. */
enum { FLIGHT_WEIGHT = 1 << 10, FLIGHT_LEVELS = 8 };
/**
 * *out: no plan of the configuration whose stages' arenas are at most capacity_bytes is simulated shorter. For
 * configurations of which lanes_bound() can be said. Fails only for want of memory.
 */
bool flight_bound(int64_t *out, const struct busy_problem *problem, const struct config *config, int64_t capacity_bytes,
                  struct error *err);
#endif
