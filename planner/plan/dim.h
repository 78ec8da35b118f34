/* A parallel dimension is data: a preference list over axis tags, a lane, flags. */
#ifndef CLEAVE_PLAN_DIM_H
#define CLEAVE_PLAN_DIM_H
#include "models/graph.h"

enum lane {
#define LANE(id, name) LANE_##id,
#include "planner/program/lanes.def"
#undef LANE
    LANE_COUNT
};
extern const char *const lane_names[LANE_COUNT + 1]; /* NULL-terminated; planner/plan/dim.c */

enum { MAX_PREFERENCES = 8 };
enum prefer_when {
    PREFER_ALWAYS,
    PREFER_IF_KEY,
    PREFER_IF_WEIGHT
}; /* only where the segment has a KEY axis; only where a weight carries the axis */

struct dimension {
    const char *name, *doc;
    enum lane lane;
    struct {
        enum axis_tag tag;
        enum prefer_when when;
    } prefer[MAX_PREFERENCES]; /* ends at TAG_NONE */
    bool ring;                 /* operands that carry KEY rotate in rounds instead of being gathered */
    bool shard;                /* ZeRO may shard parameters over it */
    bool defer;                /* partial sums pass through linear segments and are reduced later */
    bool splits_batch;
    bool server; /* its first rank gathers the gradients, updates and hands out the weights */
};
extern const struct dimension *const dimensions[]; /* from dims.def, NULL-terminated */
enum dimension_index {
#define DIMENSION(symbol) DIM_##symbol,
#include "planner/plan/dims/dims.def"
#undef DIMENSION
    DIM_COUNT
};
int dimension_find(const char *name); /* index, or -1 */
/* True when the tag is among its preferences. */
bool dimension_prefers(const struct dimension *dimension, enum axis_tag tag);
/* True when its ranks have sequences of their own and nothing else: a layer is alike for any number of them. */
bool dimension_deals_batch(const struct dimension *dimension);
/* True when data-parallel ranks may go by it in the search's space; its twin splits alike without sharding. */
bool dimension_is_data(const struct dimension *dimension);
/* True when tensor-parallel ranks may, those that share out the sequence as well left aside. */
bool dimension_is_tensor(const struct dimension *dimension);
/* True when its ranks share out the experts, those of data-parallel ones left aside. */
bool dimension_is_over_experts(const struct dimension *dimension);
/* Gives the dimension that splits alike but for the experts, which its ranks share out; or -1. */
int dimension_over_experts(int dimension);
/* Gives the replicating twin of a sharding one, which splits alike and over which ZeRO does not shard; or -1. */
int dimension_replica(int dimension);

enum { AXIS_UNSPLIT = -1, AXIS_PASS = -2 };
/* Gives the axis of the segment that the dimension splits into `parts`, or AXIS_UNSPLIT. left[i]: what earlier atoms
 * have left of axis i (BATCH already divided by micro-batches). The first tag wins whose axis exists, is not fixed,
 * divides in multiples of its grain and folds if some output lacks it. */
int dimension_axis(const struct dimension *dimension, const struct segment *segment, int parts,
                   const int64_t left[MAX_AXES]);
#endif
