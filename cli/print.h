/* Plans and their predictions, printed for people. */
#ifndef CLEAVE_CLI_PRINT_H
#define CLEAVE_CLI_PRINT_H
#include "cli/verb.h"
#include "planner/plan/plan_json.h"

/* "2 stages x tp 2 x dp 4, 1f1b, 8 micro-batches of 1, zero 0-3": one line, into out. */
enum { PRINT_LINE_BYTES = 256 };
void print_plan_line(const struct plan *plan, const struct graph *graph, char out[PRINT_LINE_BYTES]);
void print_plan(const struct cli *cli, const struct plan *plan, const struct graph *graph);
void print_prediction(const struct cli *cli, const struct plan *plan, const struct prediction *prediction);
#endif
