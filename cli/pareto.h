/* Step against memory or devices, as `cleave plan --pareto` shows it. */
#ifndef CLEAVE_CLI_PARETO_H
#define CLEAVE_CLI_PARETO_H
#include "cli/verb.h"
#include "planner/explain/explain.h"

struct json_writer;
/* The member "frontier" of the open object. */
void pareto_put(struct json_writer *w, const struct frontier *f);
/* A table; whole: the cluster, where devices are the resource, and step_ns its best plan's; NULL: memory is. complete:
 * neither time limit nor cancellation ended it. */
void pareto_print(const struct cli *cli, const struct frontier *f, const struct cluster *whole, int64_t step_ns,
                  bool complete);
#endif
