/* Which device of the catalogue a row of measurements speaks of. */
#ifndef CLEAVE_CLI_MEASURED_DEVICE_H
#define CLEAVE_CLI_MEASURED_DEVICE_H
#include "planner/facts/cluster.h"

/* The catalogue's name of what people call so ("RTX 4090", "NVIDIA L40S", "A100-40GB-PCIe", "h100-sxm"); NULL: it has
 * no such device, or several that the words do not tell apart. */
const char *measured_device(const char *words, const struct catalogue_entry *catalogue, int count);
#endif
