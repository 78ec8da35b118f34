/* What `cleave estimate` is asked to predict a run that was measured. */
#ifndef CLEAVE_CLI_MEASURED_CASE_H
#define CLEAVE_CLI_MEASURED_CASE_H
#include "cli/measured_run.h"
#include "host/catalogue.h"

/* All in the arena; the JSON is on one line. */
struct measured_case {
    const char *model, *cluster, *device, *dtype, *fix, *framework;
    const char *optimizer;                  /* NULL: the usual one */
    bool narrow_states;                     /* neither master weights nor moments are wider than 16 bit */
    bool unknown_framework, unknown_family; /* the row names one that nobody knows */
    int64_t batch, sequence;
    const char *standin; /* what is told in place of something that estimate cannot say, ';' between; "": nothing is */
    const char *command; /* the same as one types it */
};
/**
 * Every choice follows from the row's columns, or from its framework where they leave it open: nothing is tuned to a
 * row. framework: what runs it instead of what the row names; NULL: that. Fails with the reason where the row does not
 * say what is needed, names no device of the catalogue, or is what estimate cannot express.
 */
bool measured_case_of(struct measured_case *out, const struct measured_run *run, const char *framework,
                      const struct catalogue *catalogue, struct arena *arena, struct error *why);
#endif
