/* Which inequalities about a configuration, added up with which weights, say most of its step: paths through the passes
 * of its order, what its data-parallel lanes move, and what a stage holds after some pass. All are true of every plan,
 * so any weights of 0 or more give a bound (passes_bound.h); these are proposed, by a linear program in doubles over
 * layers of few kinds that are decided in few ways.
 *
 * The program looks for the weights for which the cheapest place and way of each kind is dearest. Paths are too many to
 * be listed: beginning with one for each stage, the longest is added for where the program puts the layers, half way
 * between there and the best place known (Kelley's cutting planes, held near what was good).
 */
#ifndef CLEAVE_SEARCH_PASSES_MIX_H
#define CLEAVE_SEARCH_PASSES_MIX_H
#include "base/error.h"
#include "planner/bound/passes.h"

/* What all layers of a kind take together, decided in one way: shares of a unit of time, of one micro-batch for passes
 * and of the step for the lane; shares of a device's memory. */
struct mix_choice {
    double forward, input, weight, lane, resident, kept, put_off;
};
struct mix_path {
    int weight, count;
    const int *pass; /* (count) each waits for the one before it */
};
/* When the stage has done so many of its passes. */
struct mix_moment {
    int stage, done;
    int64_t weight_ns; /* for all of a device's memory */
};
/* MIX_WEIGHT: what paths and the lane weigh together, but for rounding. */
enum { MIX_WEIGHT = 1 << 12, MIX_KINDS = 3, MIX_CHOICES = 8 };
struct passes_mix {
    int path_count, moment_count, lane_weight;
    struct mix_path *paths;
    struct mix_moment *moments;
};

/* Rounds; how much more than a mix proves the best one may, to be good; passes to be looked at, or what takes as long,
 * which falls. */
struct mix_effort {
    int rounds, missing_ppm;
    int64_t work;
    bool thorough; /* the mix of every round is judged, since what is proven is not quite what the program knows */
};
struct mix_problem {
    const struct passes *passes;
    int kinds, choices;              /* at most MIX_KINDS, MIX_CHOICES */
    const struct mix_choice *choice; /* (kinds, choices) with one choice memory is left out */
    double unit_ns;
    double lost; /* of a path where a stage's whole backward pass hands on its gradient before it ends */
    /* What is proven by a mix, in units: once that is `enough`, or more rounds bring little, it ends. */
    double (*judge)(void *self, const struct passes_mix *mix);
    void *self;
    double enough;
    struct mix_effort *effort;
};
/* Has mixes judged, the last one best, or nearly. Memory from the arena. Fails where that, or GLPK, does. */
bool passes_mix(const struct mix_problem *problem, struct arena *arena, struct error *err);
#endif
