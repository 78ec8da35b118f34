/* Step against memory or devices, as `cleave plan --pareto` shows it. */
#ifndef CLEAVE_CLI_PARETO_H
#define CLEAVE_CLI_PARETO_H
#include "cli/prices.h"
#include "cli/space_options.h"
#include "planner/explain/explain.h"

enum pareto_resource { PARETO_MEMORY, PARETO_DEVICES };
struct pareto {
    enum pareto_resource resource;
    const struct cluster *cluster; /* the whole one */
    const struct prices *prices;
    bool complete; /* neither time limit nor cancellation ended it */
    struct frontier frontier;
};
bool pareto_named(enum pareto_resource *out, const char *word, struct error *err); /* word NULL: nothing is asked for */
/**
 * Solves again with ever less of out->resource, of which the rest is filled in. e: knows the plan of the whole; owns
 * the points' plans. Fewer devices may need a wider space than all of them, and get it as `plan` does on those; less
 * memory is looked for in the space of the plan of all. With prices what is sought little of is dollars by the hour,
 * not devices of each type.
 */
bool pareto_find(struct pareto *out, struct explainer *e, struct inputs *in, const struct space_options *job,
                 const struct prices *prices, struct error *err);
/* The member "frontier" of the open object. */
void pareto_put(struct json_writer *w, const struct pareto *p);
/* A table. step_ns: of the whole cluster's best plan. */
void pareto_print(const struct cli *cli, const struct pareto *p, int64_t step_ns);
#endif
