#include "planner/space/choice.h"
#include <string.h>

const char *const mesh_order_names[ORDER_COUNT + 1] = { "tensor-inside", "data-inside", NULL };
const char *const experts_over_names[EXPERTS_OVER_COUNT + 1] = { "data", "context", "tensor", NULL };

#define MANY 1000000000
#define OPEN CHOICE_OPEN
#define ALL                                                                                                            \
    {                                                                                                                  \
        0                                                                                                              \
    }
#define ONLY(...)                                                                                                      \
    {                                                                                                                  \
        sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t),                                                          \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
const struct choice_facts choice_facts[CHOICE_COUNT] = {
#define CHOICE(id, member, name, scope, kind, least, most, usual, by_default, value, doc)                              \
    [CHOICE_##id] = { name, SCOPE_##scope, KIND_##kind, least, most, usual, by_default },
#include "planner/space/choices.def"
#undef CHOICE
};

#define CHOICE(id, member, name, scope, ...)                                                                           \
    _Static_assert((SCOPE_##scope == SCOPE_LAYER) == ((int)CHOICE_##id >= (int)LISTED_CHOICES),                        \
                   name " stands among choices of another scope");
#include "planner/space/choices.def"
#undef CHOICE

#define ALIKE                                                                                                          \
    "all stages of a plan have meshes of the same size; leave it out, or give turns=1:2:4, with which replicas of a "  \
    "stage take micro-batches in turn"
const struct retired_choice retired_choices[] = { { "spread", ALIKE },
                                                  { "spread-tp", ALIKE },
                                                  { "layouts", "all layers of a plan have one layout; leave it out" },
                                                  { NULL, NULL } };

bool allowed_has(const struct allowed *allowed, int64_t value)
{
    for (int i = 0; i < allowed->count; i++)
        if (allowed->values[i] == value)
            return true;
    return allowed->count == 0;
}

bool allowed_narrow(struct allowed *allowed, int64_t value)
{
    if (!allowed_has(allowed, value))
        return false;
    *allowed = (struct allowed){ 1, { value } };
    return true;
}

bool allowed_several(const struct allowed *allowed)
{
    for (int i = 0; i < allowed->count; i++)
        if (allowed->values[i] > 1)
            return true;
    return false;
}

enum space_choice choice_named(const char *name)
{
    int choice = 0;
    while (choice < CHOICE_COUNT && strcmp(choice_facts[choice].name, name) != 0)
        choice++;
    return (enum space_choice)choice;
}

int64_t choice_unsaid(enum space_choice choice)
{
    return choice_facts[choice].usual == CHOICE_OPEN ? 1 : choice_facts[choice].usual;
}

bool choice_has_rules(enum space_choice choice)
{
    return choice_facts[choice].scope == SCOPE_LAYER || choice_facts[choice].scope == SCOPE_LAYOUT;
}

bool choice_is_number(enum space_choice choice)
{
    enum choice_kind kind = choice_facts[choice].kind;
    return kind == KIND_NUMBER || kind == KIND_BYTES || kind == KIND_FLAG;
}

/* Names the value at the index; a choice of dimensions has those that may stand for its ranks. */
static const char *name_at(enum space_choice choice, int index)
{
    static const char *const *const words[CHOICE_COUNT] = { [CHOICE_RECOMPUTE] = recompute_names,
                                                            [CHOICE_OFFLOAD] = offload_names,
                                                            [CHOICE_RESHARD] = reshard_names,
                                                            [CHOICE_ORDER] = mesh_order_names,
                                                            [CHOICE_EP_OVER] = experts_over_names };
    if (words[choice])
        return words[choice][index];
    if (choice == CHOICE_SCHEDULE)
        return schedules[index]->name;
    const struct dimension *dimension = dimensions[index];
    if ((choice == CHOICE_CP_DIMENSION && dimension->lane == LANE_CP && !dimension_is_over_experts(dimension)) ||
        (choice == CHOICE_DP_DIMENSION && dimension_is_data(dimension)) ||
        (choice == CHOICE_TP_DIMENSION && dimension_is_tensor(dimension)))
        return dimension->name;
    return NULL;
}

const char *choice_value_name(char out[CHOICE_VALUE_BYTES], enum space_choice choice, int64_t value)
{
    const struct choice_facts *facts = &choice_facts[choice];
    if (choice_is_number(choice) || value < facts->least || value > facts->most)
        return NULL;
    return facts->kind == KIND_OPERATORS ? operators_text(out, (uint64_t)value) : name_at(choice, (int)value);
}

bool choice_value_named(int64_t *out, enum space_choice choice, const char *name)
{
    const struct choice_facts *facts = &choice_facts[choice];
    char text[CHOICE_VALUE_BYTES];
    uint64_t set;
    if (facts->kind == KIND_FLAG || facts->kind == KIND_TRUTH) {
        bool yes = !strcmp(name, "true") || !strcmp(name, "1"), no = !strcmp(name, "false") || !strcmp(name, "0");
        *out = facts->kind == KIND_FLAG ? yes : no; /* the first of two names is "true" */
        return yes || no;
    }
    if (facts->kind == KIND_OPERATORS) {
        bool known = operators_read(&set, name);
        *out = (int64_t)set;
        return known && *out <= facts->most;
    }
    for (*out = facts->least; *out <= facts->most && facts->kind == KIND_NAME; ++*out) {
        const char *found = choice_value_name(text, choice, *out);
        if (found && strcmp(found, name) == 0)
            return true;
    }
    return false;
}
