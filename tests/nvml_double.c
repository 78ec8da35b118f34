/* Stands in for libnvidia-ml.so.1: four GPUs of one name (the environment's CLEAVE_NVML_NAME), in pairs of NVLink
 * through the host. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { GPUS = 4, LINKS = 4, INVALID = 2, HOST_BRIDGE = 30 };
int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int result);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetName(void *device, char *name, unsigned length);
int nvmlDeviceGetTopologyCommonAncestor(void *a, void *b, int *level);
int nvmlDeviceGetP2PStatus(void *a, void *b, int capability, int *status);
int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *active);

int nvmlInit_v2(void)
{
    return getenv("CLEAVE_NVML_NAME") ? 0 : 9;
}

int nvmlShutdown(void)
{
    return 0;
}

const char *nvmlErrorString(int result)
{
    return result == 9 ? "Driver Not Loaded" : "Invalid Argument";
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = GPUS;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    *device = (void *)(uintptr_t)(index + 1);
    return index < GPUS ? 0 : INVALID;
}

int nvmlDeviceGetName(void *device, char *name, unsigned length)
{
    (void)device;
    snprintf(name, length, "%s", getenv("CLEAVE_NVML_NAME"));
    return 0;
}

int nvmlDeviceGetTopologyCommonAncestor(void *a, void *b, int *level)
{
    *level = HOST_BRIDGE;
    return a == b ? INVALID : 0;
}

int nvmlDeviceGetP2PStatus(void *a, void *b, int capability, int *status)
{
    *status = ((uintptr_t)a - 1) / 2 == ((uintptr_t)b - 1) / 2 && capability == 2 ? 0 : 5;
    return 0;
}

int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *active)
{
    (void)device;
    *active = 1;
    return link < LINKS ? 0 : INVALID;
}
