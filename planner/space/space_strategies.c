/* What a layer may decide on a mesh. */
#include "planner/space/space.h"
#include <string.h>

struct strategies {
    const struct space *space;
    const struct mesh *mesh;
    struct strategy *out; /* NULL: only count */
    int count;
    bool sharded; /* there are ranks over which ZeRO could shard */
};

/* Groups of data-parallel ranks that each hold all shards: the outermost `replicas` atoms that split the batch change
 * to the replicating twin. False when the space does not want groups of that size, or none are left. */
static bool group_shards(const struct strategies *list, int replicas, struct plan_layer *layer)
{
    const struct mesh *mesh = list->mesh;
    struct allowed wanted = space_any_layer(list->space, LAYER_HSDP);
    int passed = 0;
    for (int atom = 0; atom < mesh->atom_count; atom++) {
        const struct dimension *dimension = dimensions[mesh->dim[atom]];
        if (dimension->splits_batch && dimension->shard && mesh->size[atom] > 1 && passed++ < replicas &&
            (layer->dim[atom] = (int8_t)dimension_replica(mesh->dim[atom])) < 0)
            return false;
    }
    return (replicas == 0 || passed > replicas) && space_group_allowed(&wanted, mesh, layer);
}

static void add_strategy(struct strategies *list, const struct plan_layer *layer)
{
    if (list->out)
        list->out[list->count] = (struct strategy){ *layer };
    list->count++;
}

static void add_groups(struct strategies *list, const struct plan_layer *layer)
{
    if (layer->zero == 0 || !list->sharded) {
        add_strategy(list, layer);
        return;
    }
    for (int replicas = 0; replicas < MAX_ATOMS; replicas++) {
        struct plan_layer grouped = *layer;
        if (group_shards(list, replicas, &grouped))
            add_strategy(list, &grouped);
    }
}

/* Where the layer is sharded some of its operators may not be. */
static void add_replicates(struct strategies *list, struct plan_layer layer)
{
    struct allowed sets = space_any_layer(list->space, LAYER_REPLICATE);
    bool shards = list->sharded && layer.zero > 0;
    for (int i = 0; i < (shards ? sets.count : 1); i++) {
        layer.replicate = shards ? (uint32_t)sets.values[i] : 0;
        add_groups(list, &layer);
    }
}

/* What is gathered may stay: only ZeRO-3 gathers, and only from ranks that share shards. */
static void add_reshards(struct strategies *list, struct plan_layer layer)
{
    struct allowed reshards = space_any_layer(list->space, LAYER_RESHARD);
    bool gathers = list->sharded && layer.zero >= 3;
    for (int reshard = 0; reshard < (gathers ? RESHARD_COUNT : 1); reshard++) {
        layer.reshard = (int8_t)reshard;
        if (!gathers || allows(&reshards, reshard))
            add_replicates(list, layer);
    }
}

/* Slices gather and reduce less at a time: of use where gradients at least are sharded. */
static void add_slices(struct strategies *list, struct plan_layer layer)
{
    struct allowed slices = space_any_layer(list->space, LAYER_SLICES);
    bool useful = (list->sharded && layer.zero >= 2) || list->space->rule_count > 0;
    for (int i = 0; i < slices.count; i++) {
        if (slices.values[i] > 1 && !useful && allows(&slices, 1))
            continue;
        layer.slices = (int16_t)slices.values[i];
        add_reshards(list, layer);
    }
}

static void add_offloads(struct strategies *list, struct plan_layer layer)
{
    struct allowed offloads = space_any_layer(list->space, LAYER_OFFLOAD);
    for (int offload = 0; offload < OFFLOAD_COUNT; offload++) {
        layer.offload = (int8_t)offload;
        if (allows(&offloads, offload))
            add_slices(list, layer);
    }
}

int space_strategies(const struct space *space, const struct mesh *mesh, struct strategy *out)
{
    struct strategies list = { .space = space, .mesh = mesh, .out = out, .sharded = mesh_shards(mesh) > 1 };
    struct allowed zeros = space_any_layer(space, LAYER_ZERO), recomputes = space_any_layer(space, LAYER_RECOMPUTE);
    bool any = false;
    for (int zero = 0; zero <= 3; zero++) {
        if (!allows(&zeros, zero) || (any && !list.sharded))
            continue;
        any = true;
        for (int recompute = 0; recompute < RECOMPUTE_COUNT; recompute++) {
            struct plan_layer layer = { .zero = (int8_t)zero, .recompute = (int8_t)recompute, .slices = 1 };
            memcpy(layer.dim, mesh->dim, sizeof layer.dim);
            if (allows(&recomputes, recompute))
                add_offloads(&list, layer);
        }
    }
    return list.count;
}

int space_ends(const struct space *space, const struct mesh *mesh, struct strategy *out)
{
    struct allowed slices = space_any_layer(space, LAYER_SLICES);
    int count = 0;
    for (int end = 0; end < (mesh_shards(mesh) > 1 ? 2 : 1); end++)
        for (int i = 0; i < slices.count; i++, count++) {
            struct plan_layer layer = { .zero = (int8_t)(3 * end), .slices = (int16_t)slices.values[i] };
            memcpy(layer.dim, mesh->dim, sizeof layer.dim);
            if (out)
                out[count] = (struct strategy){ layer };
        }
    return count;
}
