/* Plans and their predictions, printed for people. */
#ifndef CLEAVE_CLI_PRINT_H
#define CLEAVE_CLI_PRINT_H
#include "cli/verb.h"
#include "planner/facts/cluster.h"
#include "formats/plan_json.h"

/* "pp 2, tp 2, dp 4, ZeRO 0-3, 8 micro-batches, 1f1b": one line, into out; degrees as the first stage's middle layer
 * has them. */
enum { PRINT_LINE_BYTES = 256 };
void print_plan_line(const struct plan *plan, const struct graph *graph, char out[PRINT_LINE_BYTES]);
void print_plan(const struct cli *cli, const struct plan *plan, const struct graph *graph);
/* The order of the layers, on a line of its own, where it is not the file's. */
void print_order(const struct cli *cli, const struct plan *plan);
/* "16 h100-sxm", "8 h100-sxm + 8 a100-sxm-80": the devices of count ranks, into out. */
void print_devices_line(const struct cluster *cluster, int first_rank, int count, char out[PRINT_LINE_BYTES]);
/* Which devices each stage has, where the cluster has several types; else nothing. */
/* That so much is shorter than the step on all of so many devices; on: of which ones, as --cluster takes it. */
void print_fewer(FILE *out, int64_t step_ns, int64_t all_ns, int devices, const char *on);
void print_placement(const struct cli *cli, const struct plan *plan, const struct cluster *cluster);
void print_prediction(const struct cli *cli, const struct prediction *prediction, const struct graph *graph);
/* Whether the machine's reference product takes 5 % more or less than when the profile was made; then says so in out.
 * A time of 0: not known. */
bool print_speed_change(char *out, size_t size, int64_t now_ns, int64_t profile_ns);
/* What a model's samples are counted in: "tokens" or "images". */
const char *print_unit(const struct graph *graph);
#endif
