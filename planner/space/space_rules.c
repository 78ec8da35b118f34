/* What layers may choose from: everybody's values, or those of a rule for some. */
#include "planner/space/space.h"
#include <string.h>

const char *const layer_choice_names[LAYER_CHOICES + 1] = { "zero",      "recompute", "offload", "slices", "reshard",
                                                            "replicate", "hsdp",      "tp",      "sp",     NULL };

static const struct allowed *for_all(const struct space *space, enum layer_choice choice)
{
    switch (choice) {
    case LAYER_ZERO:
        return &space->zero;
    case LAYER_RECOMPUTE:
        return &space->recompute;
    case LAYER_OFFLOAD:
        return &space->offload;
    case LAYER_RESHARD:
        return &space->reshard;
    case LAYER_REPLICATE:
        return &space->replicate;
    case LAYER_HSDP:
        return &space->shard_group;
    case LAYER_TP:
        return &space->tensor;
    case LAYER_SP:
        return &space->sequence_parallel;
    case LAYER_SLICES:
    case LAYER_CHOICES:
        break;
    }
    return &space->slices;
}

/* The rule that counts, or -1. */
static int rule_of(const struct space *space, int layer, enum layer_choice choice)
{
    int rule = space->rule_count - 1;
    while (rule >= 0 &&
           (space->rules[rule].choice != choice || layer < space->rules[rule].first || layer > space->rules[rule].last))
        rule--;
    return rule;
}

const struct allowed *space_layer_allowed(const struct space *space, int layer, enum layer_choice choice)
{
    int rule = rule_of(space, layer, choice);
    return rule >= 0 ? &space->rules[rule].allowed : for_all(space, choice);
}

unsigned space_rules_of(const struct space *space, int layer)
{
    unsigned rules = 0;
    for (int choice = 0; choice < LAYER_CHOICES; choice++) {
        int rule = rule_of(space, layer, (enum layer_choice)choice);
        rules |= rule >= 0 ? 1u << rule : 0;
    }
    return rules;
}

bool space_group_allowed(const struct allowed *groups, const struct mesh *mesh, const struct plan_layer *layer)
{
    int group = 1;
    bool whole = true;
    for (int atom = 0; atom < mesh->atom_count; atom++) {
        const struct dimension *dimension = dimensions[mesh->dim[atom]];
        if (!dimension->splits_batch || !dimension->shard || mesh->size[atom] == 1)
            continue;
        if (layer->dim[atom] == mesh->dim[atom])
            group *= mesh->size[atom];
        else
            whole = false;
    }
    return allows(groups, group) || (whole && allows(groups, 0));
}

static bool rule_allows(const struct space *space, int layer, enum layer_choice choice, int64_t value)
{
    int rule = rule_of(space, layer, choice);
    return rule < 0 || allows(&space->rules[rule].allowed, value);
}

/* What is allowed for all is about the plan's mesh: only rules are about single layers. One rank has nothing to share.
 */
static bool degrees_allowed(const struct space *space, int layer, struct mesh mesh, const struct plan_layer *choice)
{
    memcpy(mesh.dim, choice->dim, sizeof mesh.dim);
    int tensor = mesh_tensor(&mesh);
    return rule_allows(space, layer, LAYER_TP, tensor) &&
           (tensor == 1 || rule_allows(space, layer, LAYER_SP, mesh_sequence_parallel(&mesh)));
}

bool space_layer_allows(const struct space *space, int layer, const struct mesh *mesh, const struct plan_layer *choice)
{
    bool sharded = mesh_shards(mesh) > 1, shards = sharded && choice->zero > 0, gathers = sharded && choice->zero >= 3;
    return (!sharded || allows(space_layer_allowed(space, layer, LAYER_ZERO), choice->zero)) &&
           (!shards || allows(space_layer_allowed(space, layer, LAYER_REPLICATE), choice->replicate)) &&
           (!shards || space_group_allowed(space_layer_allowed(space, layer, LAYER_HSDP), mesh, choice)) &&
           (!gathers || allows(space_layer_allowed(space, layer, LAYER_RESHARD), choice->reshard)) &&
           allows(space_layer_allowed(space, layer, LAYER_RECOMPUTE), choice->recompute) &&
           allows(space_layer_allowed(space, layer, LAYER_OFFLOAD), choice->offload) &&
           allows(space_layer_allowed(space, layer, LAYER_SLICES), choice->slices) &&
           degrees_allowed(space, layer, *mesh, choice);
}

struct allowed space_any_layer(const struct space *space, enum layer_choice choice)
{
    struct allowed any = *for_all(space, choice);
    for (int r = 0; r < space->rule_count && any.count > 0; r++)
        for (int i = 0; space->rules[r].choice == choice && i < space->rules[r].allowed.count; i++)
            if (!allows(&any, space->rules[r].allowed.values[i]) && any.count < SPACE_VALUES)
                any.values[any.count++] = space->rules[r].allowed.values[i];
    return any;
}
