/* The GPUs of this machine, asked of NVIDIA's driver. */
#ifndef CLEAVE_HOST_NVML_H
#define CLEAVE_HOST_NVML_H
#include "host/topology.h"

enum { NVML_NAME_BYTES = 96 };
struct nvml_machine {
    char name[NVML_NAME_BYTES]; /* of all: "NVIDIA H100 80GB HBM3" */
    struct topology topology;   /* no network cards */
};
/* Opens libnvidia-ml.so.1, asks, and closes it. *present: whether there is a driver at all; without one it succeeds.
 * Fails when the driver does not answer, and for GPUs of several names. A pair joined by NVLink has as many links as
 * the first of the two has active. */
bool nvml_read(struct nvml_machine *out, bool *present, struct error *err);
#endif
