#define _POSIX_C_SOURCE 200809L
#include "executor/gpu/nccl_environment.h"
#include <stdio.h>
#include <stdlib.h>

enum { NAME_BYTES = 32 };

void nccl_set_environment(int rank, bool shares_gpu, bool one_host)
{
    /* Streams beyond the usual 8 would wait for each other in the device's queues. */
    static const char *const always[][2] = { { "CUDA_DEVICE_MAX_CONNECTIONS", "32" } };
    /* Two contexts take turns on the device: LL protocols poll through their own time and the other's. */
    static const char *const sharing[][2] = {
        { "NCCL_P2P_DISABLE", "1" },  { "NCCL_SHM_DISABLE", "1" },
        { "NCCL_NET", "Socket" },     { "NCCL_IB_DISABLE", "1" },
        { "NCCL_MNNVL_ENABLE", "0" }, { "NCCL_NVLS_ENABLE", "0" },
        { "NCCL_CUMEM_ENABLE", "0" }, { "NCCL_MAX_CTAS", "2" },
        { "NCCL_PROTO", "Simple" },   { "NCCL_MULTI_RANK_GPU_ENABLE", "1" }, /* which NCCL 2.30 asks for */
    };
    char host[NAME_BYTES];
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        setenv(always[i][0], always[i][1], 0);
    if (!shares_gpu)
        return;
    for (size_t i = 0; i < sizeof sharing / sizeof *sharing; i++)
        setenv(sharing[i][0], sharing[i][1], 0);
    snprintf(host, sizeof host, "cleave-rank%d", rank);
    setenv("NCCL_HOSTID", host, 0);
    if (one_host)
        setenv("NCCL_SOCKET_IFNAME", "lo", 0);
}
