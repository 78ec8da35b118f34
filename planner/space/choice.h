/* The choices of a space by the names that users type, and their values: what choices.def says. */
#ifndef CLEAVE_SPACE_CHOICE_H
#define CLEAVE_SPACE_CHOICE_H
#include "planner/plan/plan.h"
#include "planner/program/schedule.h"

/* Says which atoms of a mesh are neighbours: tensor-parallel ranks, or data-parallel ones. */
enum mesh_order { ORDER_TENSOR_INSIDE, ORDER_DATA_INSIDE, ORDER_COUNT };
extern const char *const mesh_order_names[ORDER_COUNT + 1];

/* Says how far the ranks reach that share out the experts: data-parallel ones, all context-parallel ones and of the
 * data-parallel ones so many that it makes the degree, or all tensor-parallel ones as well. */
enum experts_over { EXPERTS_OVER_DATA, EXPERTS_OVER_CONTEXT, EXPERTS_OVER_TENSOR, EXPERTS_OVER_COUNT };
extern const char *const experts_over_names[EXPERTS_OVER_COUNT + 1];

enum { SPACE_VALUES = 24, SPACE_MOST_TURNS = 64, USUAL_BUCKET_BYTES = 25 << 20 };
/* The values of one choice that are allowed; with count 0 these are all legal ones. */
struct allowed {
    int count;
    int64_t values[SPACE_VALUES];
};
bool allowed_has(const struct allowed *allowed, int64_t value);
/* Leaves that value alone, if it is one of them. */
bool allowed_narrow(struct allowed *allowed, int64_t value);
/* True when a value above 1 is named. */
bool allowed_several(const struct allowed *allowed);
static inline struct allowed allowed_only(int64_t value)
{
    return (struct allowed){ 1, { value } };
}

enum space_choice {
#define CHOICE(id, ...) CHOICE_##id,
#include "planner/space/choices.def"
#undef CHOICE
    CHOICE_COUNT,
    LISTED_CHOICES = CHOICE_ZERO /* those of configurations come before those of layers */
};
/* OF_PLAN_##scope(text) is the text where a line's scope is PLAN, else nothing. */
#define OF_PLAN_PLAN(...) __VA_ARGS__
#define OF_PLAN_MESH(...)
#define OF_PLAN_LAYOUT(...)
#define OF_PLAN_STAGE(...)
#define OF_PLAN_LAYER(...)
/* OF_LAYER_##scope(text) is the text where the scope is LAYER. */
#define OF_LAYER_PLAN(...)
#define OF_LAYER_MESH(...)
#define OF_LAYER_LAYOUT(...)
#define OF_LAYER_STAGE(...)
#define OF_LAYER_LAYER(...) __VA_ARGS__
enum choice_scope { SCOPE_PLAN, SCOPE_MESH, SCOPE_LAYOUT, SCOPE_STAGE, SCOPE_LAYER };
enum choice_kind { KIND_NUMBER, KIND_BYTES, KIND_FLAG, KIND_TRUTH, KIND_NAME, KIND_OPERATORS };
enum { CHOICE_OPEN = -1 }; /* usual: what the other choices leave */
struct choice_facts {
    const char *name;
    enum choice_scope scope;
    enum choice_kind kind;
    int64_t least, most, usual;
    struct allowed by_default;
};
extern const struct choice_facts choice_facts[CHOICE_COUNT];
/* Lists choices of earlier versions, of which all plans of a search have the value 1 now. NULL ends it, by name. */
struct retired_choice {
    const char *name, *instead; /* instead: what the search does, and what to type */
};
extern const struct retired_choice retired_choices[];
/* Gives the choice of that name, or CHOICE_COUNT. */
enum space_choice choice_named(const char *name);
/* Gives the value that goes without saying: the usual one, of what is open 1. */
int64_t choice_unsaid(enum space_choice choice);
/* True when layers may have rules of their own for it. */
bool choice_has_rules(enum space_choice choice);

enum { CHOICE_VALUE_BYTES = OPERATORS_TEXT_BYTES };
/* Gives how users name a value of the choice; NULL where there is no such value, or it is a number. */
const char *choice_value_name(char out[CHOICE_VALUE_BYTES], enum space_choice choice, int64_t value);
/* Gives the value that has this name; false where none has. Flags and truths are called true or 1, false or 0. */
bool choice_value_named(int64_t *out, enum space_choice choice, const char *name);
/* True when values are written as numbers, also where they may be typed as true and false. */
bool choice_is_number(enum space_choice choice);
#endif
