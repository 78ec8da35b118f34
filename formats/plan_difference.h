/* What two plans decided differently, from their files' own words: what a plan file can say is compared, whatever it
 * is. */
#ifndef CLEAVE_FORMATS_PLAN_DIFFERENCE_H
#define CLEAVE_FORMATS_PLAN_DIFFERENCE_H
#include "planner/plan/plan.h"

struct difference {
    const char *where; /* "plan", "stage 3" or "layers 4-9" */
    const char *what;  /* the file's key: "schedule", "atoms", "zero" */
    const char *a, *b; /* values as text; "none" where only the other has it */
};
struct differences {
    struct arena arena;
    int count, capacity;
    struct difference *list; /* of the plan, then by stage, then by ranges of layers */
};
/* *out is to be freed: differences_free(). Neighbouring layers that differ alike are one range. Fails for want of
 * memory. */
bool diff_plans(struct differences *out, const struct plan *a, const struct plan *b, struct error *err);
void differences_free(struct differences *differences);
#endif
