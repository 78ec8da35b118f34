/* What a layer may decide on a mesh. */
#include "planner/space/space_parts.h"
#include <string.h>

struct strategies {
    const struct mesh *mesh;
    struct allowed range[CHOICE_COUNT]; /* of those with rules: what any layer may choose from */
    struct strategy *out;               /* NULL: only count */
    int count;
    bool sharded; /* there are ranks over which ZeRO could shard */
    bool ruled;   /* some layers have rules */
};

/* Groups of data-parallel ranks that each hold all shards: the outermost `replicas` atoms that split the batch change
 * to the replicating twin. False when the space does not want groups of that size, or none are left. */
static bool group_shards(const struct strategies *list, int replicas, struct plan_layer *layer)
{
    const struct mesh *mesh = list->mesh;
    int passed = 0;
    for (int atom = 0; atom < mesh->atom_count; atom++) {
        const struct dimension *dimension = dimensions[mesh->dim[atom]];
        if (dimension->splits_batch && dimension->shard && mesh->size[atom] > 1 && passed++ < replicas &&
            (layer->dim[atom] = (int8_t)dimension_replica(mesh->dim[atom])) < 0)
            return false;
    }
    return (replicas == 0 || passed > replicas) && space_group_allowed(&list->range[CHOICE_HSDP], mesh, layer);
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

/* Chooses a value, then those of the choices behind it. Few possible ones are tried ascending, of many the listed. */
static void choose(struct strategies *list, enum space_choice choice, struct plan_layer layer)
{
    const struct choice_facts *facts = &choice_facts[choice];
    if (choice == CHOICE_COUNT) {
        add_groups(list, &layer);
        return;
    }
    const struct allowed *range = &list->range[choice];
    bool few = facts->most - facts->least < SPACE_VALUES, matters = rules_choice_matters(&layer, choice, list->sharded);
    for (int64_t i = 0; i < (few ? facts->most - facts->least + 1 : range->count); i++) {
        int64_t value = few ? facts->least + i : range->values[i];
        if (!matters && choice != CHOICE_ZERO)
            value = facts->usual;
        else if (!allowed_has(range, value) ||
                 (choice == CHOICE_SLICES && value > 1 && !(list->sharded && layer.zero >= 2) && !list->ruled &&
                  allowed_has(range, 1))) /* slices are of use where they gather and reduce less at a time */
            continue;
        rules_layer_set(&layer, choice, value);
        choose(list, choice + 1, layer);
        if (!matters)
            break;
    }
}

static bool zero_is_left(const struct allowed *zero, const struct optimizer *optimizer, struct error *err)
{
    int most = optimizer_most_zero(optimizer);
    for (int64_t stage = 0; stage <= most; stage++)
        if (allowed_has(zero, stage))
            return true;
    return optimizer_refuse_zero(optimizer, err);
}

bool space_leaves_zero(const struct space *space, struct error *err)
{
    bool good = zero_is_left(&space->zero, &space->optimizer, err);
    for (int i = 0; good && i < space->rule_count; i++)
        good = space->rules[i].choice != CHOICE_ZERO || zero_is_left(&space->rules[i].allowed, &space->optimizer, err);
    return good;
}

int space_strategies(const struct space *space, const struct mesh *mesh, struct strategy *out)
{
    struct strategies list = {
        .mesh = mesh, .out = out, .sharded = mesh_shards(mesh) > 1, .ruled = space->rule_count > 0
    };
    struct plan_layer layer = { .slices = 1 };
    list.range[CHOICE_HSDP] = space_any_layer(space, CHOICE_HSDP);
    for (int choice = LISTED_CHOICES; choice < CHOICE_COUNT; choice++)
        list.range[choice] = space_any_layer(space, (enum space_choice)choice);
    struct allowed *zero = &list.range[CHOICE_ZERO], fitting = { 0 };
    for (int64_t value = 0; value <= optimizer_most_zero(&space->optimizer); value++)
        if (allowed_has(zero, value))
            fitting.values[fitting.count++] = value;
    if (fitting.count > 0) /* else plan_check() says it */
        *zero = fitting;
    memcpy(layer.dim, mesh->dim, sizeof layer.dim);
    choose(&list, LISTED_CHOICES, layer);
    return list.count;
}

int space_ends(const struct space *space, const struct mesh *mesh, struct strategy *out)
{
    struct allowed slices = space_any_layer(space, CHOICE_SLICES);
    int count = 0;
    for (int end = 0; end < (mesh_shards(mesh) > 1 ? 2 : 1); end++)
        for (int i = 0; i < slices.count; i++, count++) {
            struct plan_layer layer = { .zero = (int8_t)(end * optimizer_most_zero(&space->optimizer)),
                                        .slices = (int)slices.values[i] };
            memcpy(layer.dim, mesh->dim, sizeof layer.dim);
            if (out)
                out[count] = (struct strategy){ layer };
        }
    return count;
}
