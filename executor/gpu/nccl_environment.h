/* Variables that NCCL and CUDA read once, when they are first used. */
#ifndef CLEAVE_EXECUTOR_GPU_NCCL_ENVIRONMENT_H
#define CLEAVE_EXECUTOR_GPU_NCCL_ENVIRONMENT_H
#include <stdbool.h>

/**
 * Sets them for a process with one rank, before it has threads; what is set stays. shares_gpu: ranks of other processes
 * are on the same GPU. NCCL takes two ranks on one device for a mistake unless they seem to be on different hosts; then
 * they talk through sockets, slowly. one_host: all ranks are on this one, so the loopback interface does.
 */
void nccl_set_environment(int rank, bool shares_gpu, bool one_host);
#endif
