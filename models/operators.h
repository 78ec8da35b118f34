/* Sets of operators, as users write them: names joined by "+", or "none". */
#ifndef CLEAVE_MODELS_OPERATORS_H
#define CLEAVE_MODELS_OPERATORS_H
#include <stdbool.h>
#include <stdint.h>

enum operator_index {
#define OPERATOR(name) OPERATOR_##name,
#include "models/operators.def"
#undef OPERATOR
    OPERATOR_COUNT
};
enum { OPERATORS_TEXT_BYTES = 256, OPERATORS_ALL = (1 << OPERATOR_COUNT) - 1 }; /* all names joined take less */
extern const char *const operator_names[OPERATOR_COUNT + 1];

/* The set of the one operator of that name; the empty one where there is none. */
uint32_t operator_set(const char *name, int length);
/* False where a name is unknown or stands twice. */
bool operators_read(uint32_t *out, const char *text);
const char *operators_text(char out[OPERATORS_TEXT_BYTES], uint32_t set);
#endif
