/* What layers may choose from: everybody's values, or those of a rule for some. */
#include "planner/space/space_parts.h"
#include <string.h>

/* Gives the rule that counts for the layer, which is the last one that covers it, or -1. */
static int rule_of(const struct space *space, int layer, enum space_choice choice)
{
    int rule = space->rule_count - 1;
    while (rule >= 0 &&
           (space->rules[rule].choice != choice || layer < space->rules[rule].first || layer > space->rules[rule].last))
        rule--;
    return rule;
}

/* Gives what the layer may choose from: its rule's values, or everybody's. */
static const struct allowed *space_layer_allowed(const struct space *space, int layer, enum space_choice choice)
{
    int rule = rule_of(space, layer, choice);
    return rule >= 0 ? &space->rules[rule].allowed : &space->range[choice];
}

void space_recompute_blocks(struct space *space)
{
    for (int i = -1; i < space->rule_count; i++) {
        struct allowed *allowed = i < 0 ? &space->recompute : &space->rules[i].allowed;
        for (int k = 0; k < allowed->count && (i < 0 || space->rules[i].choice == CHOICE_RECOMPUTE); k++)
            if (allowed->values[k] == RECOMPUTE_FULL)
                allowed->values[k] = RECOMPUTE_BLOCK;
    }
}

void space_keep_operators(struct space *space, uint64_t operators)
{
    const struct allowed *recompute = &space->recompute, *excepted = &space->excepted;
    bool selective = recompute->count == 1 && recompute->values[0] == RECOMPUTE_SELECTIVE;
    bool unsaid = excepted->count == 0 || (excepted->count == 1 && excepted->values[0] == 0);
    if (!selective || !unsaid)
        return;
    space->recompute = allowed_only(RECOMPUTE_BLOCK);
    space->excepted = allowed_only((int64_t)operators);
}

unsigned space_rules_of(const struct space *space, int layer)
{
    unsigned rules = 0;
    for (int choice = 0; choice < CHOICE_COUNT; choice++) {
        int rule = rule_of(space, layer, (enum space_choice)choice);
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
    return allowed_has(groups, group) || (whole && allowed_has(groups, 0));
}

static bool rule_allows(const struct space *space, int layer, enum space_choice choice, int64_t value)
{
    int rule = rule_of(space, layer, choice);
    return rule < 0 || allowed_has(&space->rules[rule].allowed, value);
}

static int64_t layer_value(const struct plan_layer *layer, enum space_choice choice)
{
    switch ((int)choice) {
#define CHOICE(id, member, name, scope, ...) OF_LAYER_##scope(case CHOICE_##id : return (int64_t)layer->member;)
#include "planner/space/choices.def"
#undef CHOICE
    }
    return 0;
}

void rules_layer_set(struct plan_layer *layer, enum space_choice choice, int64_t value)
{
#define CHOICE(id, member, name, scope, ...)                                                                           \
    OF_LAYER_##scope(if (choice == CHOICE_##id) layer->member = (__typeof__(layer->member))value;)
#include "planner/space/choices.def"
#undef CHOICE
}

bool rules_choice_matters(const struct plan_layer *layer, enum space_choice choice, bool sharded)
{
    switch ((int)choice) {
    case CHOICE_ZERO:
        return sharded;
    case CHOICE_REPLICATE:
    case CHOICE_HSDP:
        return sharded && layer->zero > 0;
    case CHOICE_RESHARD:
        return sharded && layer->zero >= 3;
    }
    return true;
}

bool space_layer_allows(const struct space *space, int layer, const struct mesh *mesh, const struct plan_layer *choice)
{
    bool sharded = mesh_shards(mesh) > 1,
         good = !rules_choice_matters(choice, CHOICE_HSDP, sharded) ||
                space_group_allowed(space_layer_allowed(space, layer, CHOICE_HSDP), mesh, choice);
    for (int c = LISTED_CHOICES; good && c < CHOICE_COUNT; c++)
        good = !rules_choice_matters(choice, (enum space_choice)c, sharded) ||
               allowed_has(space_layer_allowed(space, layer, (enum space_choice)c),
                           layer_value(choice, (enum space_choice)c));
    struct mesh own = *mesh; /* the layer has its degrees: what is allowed for all is about the plan's mesh */
    memcpy(own.dim, choice->dim, sizeof own.dim);
    int tensor = mesh_tensor(&own);
    return good && rule_allows(space, layer, CHOICE_TP, tensor) && /* one rank has nothing to share */
           (tensor == 1 || rule_allows(space, layer, CHOICE_SP, mesh_sequence_parallel(&own)));
}

struct allowed space_any_layer(const struct space *space, enum space_choice choice)
{
    struct allowed any = space->range[choice];
    for (int r = 0; r < space->rule_count && any.count > 0; r++)
        for (int i = 0; space->rules[r].choice == choice && i < space->rules[r].allowed.count; i++)
            if (!allowed_has(&any, space->rules[r].allowed.values[i]) && any.count < SPACE_VALUES)
                any.values[any.count++] = space->rules[r].allowed.values[i];
    return any;
}

bool space_layers_idle(const struct space *space)
{
    return space->zero.values[0] < 3 && space->reshard.values[0] != RESHARD_EACH_PASS;
}
