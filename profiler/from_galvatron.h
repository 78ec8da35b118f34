/* A profile made of another planner's measurements. */
#ifndef CLEAVE_PROFILER_FROM_GALVATRON_H
#define CLEAVE_PROFILER_FROM_GALVATRON_H
#include "models/model.h"
#include "planner/facts/profile.h"
#include "peers/galvatron.h"

/**
 * The profile of `model` on the first type of `cluster` that Galvatron's measurements amount to, in bf16:
 *
 * - Computations of a whole layer and of embedding and head together, at the measured numbers of samples: what our
 *   formulas say of each kernel, all stretched alike so that forward takes as long as measured and backward twice as
 *   long, which is what Galvatron takes it to be. Origin: fitted. Other shapes are scaled from these (cost_compute()).
 * - Collectives over 2, 4, ... devices of one node: all-reduces and all-to-alls as measured; a gather and a
 *   reduce-scatter take half of the all-reduce; messages have the measured rate. Degrees without measured times take
 *   the measured rate of all-reduces.
 * - Its factor of how computing and communication slow each other, both ways; 1 GiB outside the arena.
 *
 * Its forward times of one layer count everything that the model repeats once. The caller owns *out.
 */
bool profile_from_galvatron(struct profile **out, const struct galvatron_profile *peer, const struct model *model,
                            const struct cluster *cluster, struct error *err);
#endif
