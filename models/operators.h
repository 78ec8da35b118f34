/* Sets of operators, as users write them: names joined by "+", or "none". */
#ifndef CLEAVE_MODELS_OPERATORS_H
#define CLEAVE_MODELS_OPERATORS_H
#include <stdbool.h>
#include <stdint.h>

enum operator_index { /* those with weights, then the others */
#define OPERATOR(name) OPERATOR_##name,
#define WEIGHTLESS(name)
#include "models/operators.def"
#undef OPERATOR
#undef WEIGHTLESS
                      OPERATOR_COUNT,
                      OPERATOR_LAST = OPERATOR_COUNT - 1,
#define OPERATOR(name)
#define WEIGHTLESS(name) OPERATOR_##name,
#include "models/operators.def"
#undef OPERATOR
#undef WEIGHTLESS
                      OPERATOR_NAMES
};
enum { OPERATORS_TEXT_BYTES = 640 }; /* all names joined take less */
#define OPERATORS_ALL ((INT64_C(1) << OPERATOR_COUNT) - 1) /* with weights */
/* Also those without. */
#define OPERATORS_EVERY ((INT64_C(1) << OPERATOR_NAMES) - 1)
extern const char *const operator_names[OPERATOR_NAMES + 1];

/* The set of the one operator of that name; the empty one where there is none. */
uint64_t operator_set(const char *name, int length);
/* False where a name is unknown or stands twice. */
bool operators_read(uint64_t *out, const char *text);
const char *operators_text(char out[OPERATORS_TEXT_BYTES], uint64_t set);
#endif
