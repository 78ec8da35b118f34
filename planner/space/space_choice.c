#include "planner/space/space_choice.h"
#include "planner/program/schedule.h"
#include <string.h>

const char *const space_choice_names[SPACE_CHOICES + 1] = {
    [SPACE_PP] = "pp",
    [SPACE_TP] = "tp",
    [SPACE_DP] = "dp",
    [SPACE_MICRO] = "micro-batch",
    [SPACE_ZERO] = "zero",
    [SPACE_RECOMPUTE] = "recompute",
    [SPACE_OFFLOAD] = "offload",
    [SPACE_SCHEDULE] = "schedule",
    [SPACE_PREFETCH] = "prefetch",
    [SPACE_SP] = "sp",
    [SPACE_CP] = "cp",
    [SPACE_CP_DIMENSION] = "cp-by",
    [SPACE_DP_DIMENSION] = "dp-by",
    [SPACE_TP_DIMENSION] = "tp-by",
    [SPACE_EP] = "ep",
    [SPACE_HSDP] = "hsdp",
    [SPACE_RESHARD] = "reshard",
    [SPACE_REPLICATE] = "replicate",
    [SPACE_SLICES] = "slices",
    [SPACE_ORDER] = "order",
    [SPACE_INTERLEAVE] = "interleave",
    [SPACE_EXTRA] = "extra-in-flight",
    [SPACE_TURNS] = "turns",
    [SPACE_BUCKET] = "bucket",
    [SPACE_LOSS_CHUNKS] = "loss-chunks",
};

#define ALIKE                                                                                                          \
    "all stages of a plan have meshes of the same size; leave it out, or give turns=1:2:4, with which replicas of a "  \
    "stage take micro-batches in turn"
const struct retired_choice retired_choices[] = { { "spread", ALIKE },
                                                  { "spread-tp", ALIKE },
                                                  { "layouts", "all layers of a plan have one layout; leave it out" },
                                                  { NULL, NULL } };

struct allowed *space_allowed(struct space *space, enum space_choice choice)
{
    struct allowed *const members[SPACE_CHOICES] = {
        [SPACE_PP] = &space->pipeline,
        [SPACE_TP] = &space->tensor,
        [SPACE_DP] = &space->data,
        [SPACE_MICRO] = &space->micro,
        [SPACE_ZERO] = &space->zero,
        [SPACE_RECOMPUTE] = &space->recompute,
        [SPACE_OFFLOAD] = &space->offload,
        [SPACE_SCHEDULE] = &space->schedule,
        [SPACE_PREFETCH] = &space->prefetch,
        [SPACE_SP] = &space->sequence_parallel,
        [SPACE_CP] = &space->context,
        [SPACE_CP_DIMENSION] = &space->context_dimension,
        [SPACE_DP_DIMENSION] = &space->data_dimension,
        [SPACE_TP_DIMENSION] = &space->tensor_dimension,
        [SPACE_EP] = &space->expert,
        [SPACE_HSDP] = &space->shard_group,
        [SPACE_RESHARD] = &space->reshard,
        [SPACE_REPLICATE] = &space->replicate,
        [SPACE_SLICES] = &space->slices,
        [SPACE_ORDER] = &space->order,
        [SPACE_INTERLEAVE] = &space->interleave,
        [SPACE_EXTRA] = &space->extra,
        [SPACE_TURNS] = &space->turns,
        [SPACE_BUCKET] = &space->bucket,
        [SPACE_LOSS_CHUNKS] = &space->loss_chunks,
    };
    return members[choice];
}

enum space_choice space_choice_of_layers(enum layer_choice choice)
{
    static const enum space_choice choices[LAYER_CHOICES] = {
        [LAYER_ZERO] = SPACE_ZERO,       [LAYER_RECOMPUTE] = SPACE_RECOMPUTE,
        [LAYER_OFFLOAD] = SPACE_OFFLOAD, [LAYER_SLICES] = SPACE_SLICES,
        [LAYER_RESHARD] = SPACE_RESHARD, [LAYER_REPLICATE] = SPACE_REPLICATE,
        [LAYER_HSDP] = SPACE_HSDP,       [LAYER_TP] = SPACE_TP,
        [LAYER_SP] = SPACE_SP,
    };
    return choices[choice];
}

const char *space_value_name(char out[SPACE_NAME_BYTES], enum space_choice choice, int64_t value)
{
    int index = (int)value, schedule_count = 0;
    while (schedules[schedule_count])
        schedule_count++;
    if (space_value_is_set(choice))
        return value < INT64_C(1) << OPERATOR_COUNT ? operators_text(out, (uint32_t)value) : NULL;
    if (value < 0 || value > INT16_MAX)
        return NULL;
    if (choice == SPACE_RECOMPUTE)
        return index < RECOMPUTE_COUNT ? recompute_names[index] : NULL;
    if (choice == SPACE_OFFLOAD)
        return index < OFFLOAD_COUNT ? offload_names[index] : NULL;
    if (choice == SPACE_RESHARD)
        return index < RESHARD_COUNT ? reshard_names[index] : NULL;
    if (choice == SPACE_SCHEDULE)
        return index < schedule_count ? schedules[index]->name : NULL;
    if (choice == SPACE_ORDER)
        return index < ORDER_COUNT ? mesh_order_names[index] : NULL;
    if (choice == SPACE_CP_DIMENSION)
        return index < DIM_COUNT && dimensions[index]->lane == LANE_CP ? dimensions[index]->name : NULL;
    if (choice == SPACE_DP_DIMENSION)
        return index < DIM_COUNT && dimension_is_data(dimensions[index]) ? dimensions[index]->name : NULL;
    if (choice == SPACE_TP_DIMENSION)
        return index < DIM_COUNT && dimension_is_tensor(dimensions[index]) ? dimensions[index]->name : NULL;
    return NULL;
}

static bool named_yes_no(int64_t *out, enum space_choice choice, const char *name)
{
    bool yes = !strcmp(name, "true") || !strcmp(name, "1"), no = !strcmp(name, "false") || !strcmp(name, "0");
    if (choice == SPACE_RESHARD)
        *out = yes ? RESHARD_EACH_PASS : RESHARD_EACH_STEP;
    else
        *out = yes;
    return yes || no;
}

bool space_value_named(int64_t *out, enum space_choice choice, const char *name)
{
    int64_t least, most;
    char text[SPACE_NAME_BYTES];
    uint32_t set;
    if (space_value_is_yes_no(choice))
        return named_yes_no(out, choice, name);
    if (space_value_is_set(choice)) {
        bool known = operators_read(&set, name);
        *out = set;
        return known;
    }
    if (space_value_range(choice, &least, &most))
        return false;
    for (*out = 0; *out < most; ++*out) {
        const char *found = space_value_name(text, choice, *out);
        if (found && strcmp(found, name) == 0)
            return true;
    }
    return false;
}

bool space_value_is_set(enum space_choice choice)
{
    return choice == SPACE_REPLICATE;
}

bool space_value_is_yes_no(enum space_choice choice)
{
    return choice == SPACE_SP || choice == SPACE_RESHARD;
}

bool space_value_is_bytes(enum space_choice choice)
{
    return choice == SPACE_BUCKET;
}

bool space_value_range(enum space_choice choice, int64_t *least, int64_t *most)
{
    enum { MOST_NAMES = 64 };
    bool named = choice == SPACE_RECOMPUTE || choice == SPACE_OFFLOAD || choice == SPACE_RESHARD ||
                 choice == SPACE_REPLICATE || choice == SPACE_SCHEDULE || choice == SPACE_ORDER ||
                 choice == SPACE_CP_DIMENSION || choice == SPACE_DP_DIMENSION || choice == SPACE_TP_DIMENSION;
    bool from_0 = named || choice == SPACE_ZERO || choice == SPACE_SP || choice == SPACE_HSDP ||
                  choice == SPACE_PREFETCH || choice == SPACE_BUCKET || choice == SPACE_EXTRA;
    *least = from_0 ? 0 : 1;
    *most = named                         ? MOST_NAMES
            : choice == SPACE_ZERO        ? 3
            : choice == SPACE_SP          ? 1
            : choice == SPACE_SLICES      ? PLAN_MAX_SLICES
            : choice == SPACE_PREFETCH    ? PLAN_MAX_PREFETCH
            : choice == SPACE_EXTRA       ? PLAN_MAX_MICRO_BATCHES
            : choice == SPACE_TURNS       ? SPACE_MOST_TURNS
            : choice == SPACE_BUCKET      ? INT64_C(1) << 50
            : choice == SPACE_LOSS_CHUNKS ? PLAN_MAX_LOSS_CHUNKS
                                          : 1000000000;
    return !named;
}

static struct allowed free_choice(const struct space *space, enum space_choice choice)
{
    struct space all = space_default(space->batch, space->sequence, space->dtype);
    return *space_allowed(&all, choice);
}

bool space_is_default(const struct space *space, enum space_choice choice)
{
    struct space copy = *space;
    const struct allowed *own = space_allowed(&copy, choice);
    struct allowed all = free_choice(space, choice);
    return own->count == all.count && !memcmp(own->values, all.values, (size_t)all.count * sizeof all.values[0]);
}

void space_lift(struct space *space, enum space_choice choice)
{
    *space_allowed(space, choice) = free_choice(space, choice);
}
