/* The choices that a space can restrict, by the names that users type. */
#ifndef CLEAVE_SPACE_SPACE_CHOICE_H
#define CLEAVE_SPACE_SPACE_CHOICE_H
#include "planner/space/space.h"

enum space_choice {
    SPACE_PP,
    SPACE_TP,
    SPACE_DP,
    SPACE_MICRO,
    SPACE_ZERO,
    SPACE_RECOMPUTE,
    SPACE_OFFLOAD,
    SPACE_SCHEDULE,
    SPACE_PREFETCH,
    SPACE_SP,
    SPACE_CP,
    SPACE_CP_DIMENSION,
    SPACE_DP_DIMENSION,
    SPACE_TP_DIMENSION,
    SPACE_EP,
    SPACE_HSDP,
    SPACE_RESHARD,
    SPACE_REPLICATE,
    SPACE_SLICES,
    SPACE_ORDER,
    SPACE_INTERLEAVE,
    SPACE_EXTRA,
    SPACE_TURNS,
    SPACE_BUCKET,
    SPACE_LOSS_CHUNKS,
    SPACE_CHOICES
};
extern const char *const space_choice_names[SPACE_CHOICES + 1]; /* NULL-terminated */
/* Choices of earlier versions: all plans of a search have the value 1 of them now. NULL-terminated by name. */
struct retired_choice {
    const char *name, *instead; /* instead: what the search does, and what to type */
};
extern const struct retired_choice retired_choices[];
struct allowed *space_allowed(struct space *space, enum space_choice choice);
/* The choice of the whole space that a layer's own restricts further. */
enum space_choice space_choice_of_layers(enum layer_choice choice);
enum { SPACE_NAME_BYTES = OPERATORS_TEXT_BYTES };
/* How users name a value of the choice; NULL: there is no such value, or it is a number (space_value_range()). */
const char *space_value_name(char out[SPACE_NAME_BYTES], enum space_choice choice, int64_t value);
/* The value that has this name; false: none has. Of space_value_is_yes_no() true or 1, false or 0. */
bool space_value_named(int64_t *out, enum space_choice choice, const char *name);
/* Whether its values are sets of operators. */
bool space_value_is_set(enum space_choice choice);
/* Whether it is so or not: true or false. */
bool space_value_is_yes_no(enum space_choice choice);
/* Whether its values are bytes, which users write as 4MiB. */
bool space_value_is_bytes(enum space_choice choice);
/* Numbers that the choice may take; false: its values have names, from 0 to below `most`. */
bool space_value_range(enum space_choice choice, int64_t *least, int64_t *most);
/* Whether the choice is free as in space_default(). */
bool space_is_default(const struct space *space, enum space_choice choice);
/* Makes it so. */
void space_lift(struct space *space, enum space_choice choice);
#endif
