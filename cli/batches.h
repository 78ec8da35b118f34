/* Which batches --batch auto has tried, and what they give. */
#ifndef CLEAVE_CLI_BATCHES_H
#define CLEAVE_CLI_BATCHES_H
#include "cli/verb.h"
#include "planner/search/batch.h"

void batches_print(const struct cli *cli, const struct batch_choice *choice);
/* As the plan's member "batches". */
void batches_put(struct json_writer *w, const struct batch_choice *choice);
#endif
