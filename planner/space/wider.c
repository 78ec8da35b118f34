#include "planner/space/wider.h"
#include "base/num.h"
#include "planner/space/space_parts.h"

enum { LEAST_TOKENS = 128 }; /* of a context rank: a tile of attention's kernels */

const enum space_choice wider_choices[WIDER_CHOICES] = { CHOICE_LOSS_CHUNKS, CHOICE_RECOMPUTE, CHOICE_CP,
                                                         CHOICE_OFFLOAD };

/* Gives degrees that are usual and all others that leave a rank a tile; none where no other is. */
static struct allowed contexts_of(const struct cluster *cluster, int64_t tokens)
{
    struct allowed all = { 0 };
    bool more = false;
    for (int64_t degree = 1; degree <= cluster->device_count && all.count < SPACE_VALUES; degree++) {
        bool usual = space_usual_context(cluster, tokens, degree);
        bool legal = cluster->device_count % degree == 0 && tokens % degree == 0 && tokens / degree >= LEAST_TOKENS;
        if (usual || legal)
            all.values[all.count++] = degree;
        more = more || (legal && !usual);
    }
    return more ? all : (struct allowed){ 0 };
}

bool space_has_hosts(const struct cluster *cluster)
{
    for (int t = 0; t < cluster->type_count; t++)
        if (cluster->types[t].device.host_bytes_per_s <= 0)
            return false;
    return true;
}

bool space_offloads(const struct space *space)
{
    struct allowed any = space_any_layer(space, CHOICE_OFFLOAD);
    return any.count > 1 || any.values[0] != OFFLOAD_NONE;
}

void space_widen(struct space *space, const struct cluster *cluster, int64_t tokens)
{
    space->loss_chunks = (struct allowed){ 2, { 1, 16 } };
    space->recompute = (struct allowed){ 3, { RECOMPUTE_NONE, RECOMPUTE_FULL, RECOMPUTE_BLOCK } };
    space->context = contexts_of(cluster, tokens);
    if (space_has_hosts(cluster))
        space->offload =
            (struct allowed){ 5, { OFFLOAD_NONE, OFFLOAD_ACTIVATIONS, OFFLOAD_OPTIMIZER, OFFLOAD_BOTH, OFFLOAD_ALL } };
}

void space_keep_weights(struct space *space)
{
    struct allowed *offload = &space->offload; /* in ascending order */
    while (offload->count > 1 && offload->values[offload->count - 1] >= OFFLOAD_PARAMETERS)
        offload->count--;
}

enum space_choice space_lighten(struct space *space, const struct space *widest)
{
    struct allowed *offload = &space->offload;
    int64_t lighter = OFFLOAD_NONE; /* the least that takes the states along: values ascend */
    for (int i = widest->offload.count - 1; i >= 0; i--)
        if (widest->offload.values[i] & OFFLOAD_OPTIMIZER && !(widest->offload.values[i] & OFFLOAD_ACTIVATIONS))
            lighter = widest->offload.values[i];
    if (lighter == OFFLOAD_NONE || allowed_has(offload, lighter) || offload->count == SPACE_VALUES)
        return CHOICE_COUNT;
    offload->values[offload->count++] = lighter;
    return CHOICE_OFFLOAD;
}

void space_narrow_wide(struct space *space)
{
    for (int i = 1; i < space->loss_chunks.count; i++)
        space->loss_chunks.values[0] = max_i64(space->loss_chunks.values[0], space->loss_chunks.values[i]);
    space->loss_chunks.count = space->loss_chunks.count > 0;
    if (space->recompute.count > 2 && allowed_has(&space->recompute, RECOMPUTE_FULL) &&
        allowed_has(&space->recompute, RECOMPUTE_BLOCK))
        space->recompute = (struct allowed){ 2, { RECOMPUTE_FULL, RECOMPUTE_BLOCK } };
    if (space->offload.count > 2 && allowed_has(&space->offload, OFFLOAD_NONE) &&
        allowed_has(&space->offload, OFFLOAD_BOTH))
        space->offload = (struct allowed){
            2, { OFFLOAD_NONE, allowed_has(&space->offload, OFFLOAD_ALL) ? OFFLOAD_ALL : OFFLOAD_BOTH }
        };
}
