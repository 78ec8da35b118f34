/* What check.c and check_plan.c share. */
#ifndef CLEAVE_CHECK_CHECK_PARTS_H
#define CLEAVE_CHECK_CHECK_PARTS_H
#include "planner/check/check.h"
#include "planner/check/check_cut_parts.h"
#include "planner/tables/certificate_hash.h"
#include "planner/tables/workbench.h"

/* A millionth of a bound is left to the tolerance of whole counts. */
enum { TOLERANCE_PARTS = 1000000 };

struct checker {
    const struct claim *claim;
    const struct facts *facts;
    const struct plan *plan;
    struct workbench bench;
    struct orders orders; /* of the model's layers; as far as the certificate speaks of them */
    struct arena arena;
    struct config *configs, *unbounded;
    int config_count, unbounded_count; /* beside: of schedules that the formula does not bound */
    const struct claimed_config *
        *claimed; /* (configurations) what is said of each; NULL: its first bound rules it out */
    bool patient; /* problems are (struct stage_kind) */
    struct certificate_hash hash;
    struct check_report *report;
    struct error *err;
};

/* check_fates.c: checks what is said of which configuration; each at most once, and of none that is not there. */
bool check_fates(struct checker *c);
/* Checks that counts are those of what is said and of all others, and the certificate as complete as it says. */
bool check_counts(struct checker *c);
/* Makes one configuration's problem with the prices of a table, in the arena. */
bool check_problem(struct checker *c, const struct config *config, const struct price_table *table, struct arena *arena,
                   struct cut_problem *out);
/* Checks that the formula's best plan exists: the plan itself, one that the certificate shows, or one that is found. */
bool check_best(struct checker *c, const struct model *model);
/* Checks that the plan's value by the formula is what the certificate says; *step_ns: its simulated step. */
bool check_plan(struct checker *c, const struct model *model, int64_t *step_ns);
#endif
