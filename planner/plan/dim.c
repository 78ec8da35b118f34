#include "planner/plan/dim.h"
#include <string.h>

const char *const lane_names[LANE_COUNT + 1] = {
#define LANE(id, name) [LANE_##id] = name,
#include "planner/program/lanes.def"
#undef LANE
};

#define DIMENSION(symbol) extern const struct dimension dimension_##symbol;
#include "planner/plan/dims/dims.def"
#undef DIMENSION

const struct dimension *const dimensions[DIM_COUNT + 1] = {
#define DIMENSION(symbol) [DIM_##symbol] = &dimension_##symbol,
#include "planner/plan/dims/dims.def"
#undef DIMENSION
};

int dimension_find(const char *name)
{
    for (int i = 0; dimensions[i]; i++) {
        if (!strcmp(dimensions[i]->name, name))
            return i;
    }
    return -1;
}

bool dimension_prefers(const struct dimension *dimension, enum axis_tag tag)
{
    for (int i = 0; i < MAX_PREFERENCES && dimension->prefer[i].tag != TAG_NONE; i++)
        if (dimension->prefer[i].tag == tag)
            return true;
    return false;
}

bool dimension_deals_batch(const struct dimension *dimension)
{
    return dimension->splits_batch && dimension->prefer[0].tag == TAG_BATCH;
}

bool dimension_is_data(const struct dimension *dimension)
{
    return dimension_deals_batch(dimension) && (dimension->shard || dimension->server);
}

bool dimension_is_tensor(const struct dimension *dimension)
{
    return dimension->lane == LANE_TP && dimension_prefers(dimension, TAG_HEAD) &&
           !dimension_prefers(dimension, TAG_SEQUENCE);
}

bool dimension_is_over_experts(const struct dimension *dimension)
{
    return dimension_prefers(dimension, TAG_EXPERT) && !dimension->splits_batch;
}

/* True when their transfers run in one lane, at the same times. */
static bool moves_alike(const struct dimension *a, const struct dimension *b)
{
    return a->lane == b->lane && a->ring == b->ring && a->defer == b->defer;
}

int dimension_over_experts(int dimension)
{
    const struct dimension *of = dimensions[dimension];
    for (int i = 0; dimensions[i]; i++) {
        const struct dimension *d = dimensions[i];
        if (dimension_is_over_experts(d) && moves_alike(d, of) &&
            !memcmp(&d->prefer[1], of->prefer, (MAX_PREFERENCES - 1) * sizeof *d->prefer))
            return i;
    }
    return -1;
}

int dimension_replica(int dimension)
{
    const struct dimension *of = dimensions[dimension];
    for (int i = 0; of->shard && dimensions[i]; i++) {
        const struct dimension *d = dimensions[i];
        if (!d->shard && moves_alike(d, of) && d->server == of->server && d->splits_batch == of->splits_batch &&
            !memcmp(d->prefer, of->prefer, sizeof d->prefer))
            return i;
    }
    return -1;
}

static bool weight_carries(const struct segment *segment, int axis)
{
    for (int i = 0; i < segment->weight_count; i++) {
        if (operand_dim(&segment->weight[i], MAX_DIMS, axis) >= 0)
            return true;
    }
    return false;
}

/* True when an output without the axis knows how its partial results combine. A log-sum-exp needs its running state, so
 * it folds in time (rings) only. */
static bool folds(const struct segment *segment, int axis)
{
    if (segment->axes[axis].fold == FOLD_LSE)
        return false;
    for (int i = 0; i < segment->out_count; i++) {
        if (segment->axes[axis].fold == FOLD_NONE && operand_dim(&segment->out[i], MAX_DIMS, axis) < 0)
            return false;
    }
    return true;
}

int dimension_axis(const struct dimension *dimension, const struct segment *segment, int parts,
                   const int64_t left[MAX_AXES])
{
    /* a state that is carried along the sequence is as good a reason to leave that whole as keys are */
    const bool has_key = kernel_facts[segment->kernel].scans || segment_axis(segment, TAG_KEY) >= 0;
    for (int i = 0; i < MAX_PREFERENCES && dimension->prefer[i].tag != TAG_NONE; i++) {
        if (dimension->prefer[i].when == PREFER_IF_KEY && !has_key)
            continue;
        for (int axis = 0; axis < segment->axis_count; axis++) {
            const struct axis *a = &segment->axes[axis];
            int64_t grain = a->grain > 0 ? a->grain : 1;
            if (a->tag != dimension->prefer[i].tag || a->fixed || left[axis] % (parts * grain) != 0)
                continue;
            if (dimension->prefer[i].when == PREFER_IF_WEIGHT && !weight_carries(segment, axis))
                continue;
            if (folds(segment, axis))
                return axis;
        }
    }
    return AXIS_UNSPLIT;
}
