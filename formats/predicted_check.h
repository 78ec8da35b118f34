/* Whether a plan file predicts what is found when its plan is simulated anew. */
#ifndef CLEAVE_FORMATS_PREDICTED_CHECK_H
#define CLEAVE_FORMATS_PREDICTED_CHECK_H
#include "base/json.h"

struct plan;
struct prediction;
/* file: what stands there; ERROR_GATE with the first number that differs. */
bool predicted_holds(const struct json *file, const struct plan *plan, const struct prediction *prediction,
                     struct error *err);
#endif
