/* What `cleave discover --measure` does: times this machine's device. */
#ifndef CLEAVE_CLI_DISCOVER_MEASURE_H
#define CLEAVE_CLI_DISCOVER_MEASURE_H
#include "base/arena.h"
#include "cli/verb.h"
#include "planner/facts/cluster.h"

struct discover_measure_options {
    const char *backend;       /* NULL: cpu where the device is cores, else cuda */
    const char *dtype, *sizes; /* sizes: "16,64,256"; NULL: the usual ones */
    const char *entry;         /* a file for the device alone; NULL: none */
    double time_limit_s;
};
/* The base with this machine's numbers: of the first GPU, or of all cores at once. What it says of itself lives in
 * arena. */
bool discover_measure(struct device_type *out, struct arena *arena, const struct cli *cli,
                      const struct discover_measure_options *options, const struct device_type *base,
                      struct error *err);
/* To people: what was found and how well it predicts. */
void discover_say_measured(const struct cli *cli, const struct device_type *device,
                           const struct discover_measure_options *options);
#endif
