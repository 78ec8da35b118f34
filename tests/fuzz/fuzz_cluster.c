/* Any bytes as a cluster: a device of the fuzzer's own, and the input in either form. What is accepted must be
 * consistent. */
#include "planner/facts/cluster.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char device[] =
    "{\"description\": \"d\", \"source\": \"s\", \"matmul_flops_per_s\": {\"fp32\": 1e12}, \"matmul_efficiency\": 0.5,"
    "\"attention_forward_efficiency\": 0.5, \"attention_backward_efficiency\": 0.5, \"vector_flops_per_s\": 1e11, "
    "\"memory_bytes_per_s\": 1e10,"
    "\"memory_bytes\": 1000000000, \"launch_ns\": 1, \"link_bytes_per_s\": 1e9, \"link_latency_ns\": 1, "
    "\"nic_bytes_per_s\": 1e8, \"nic_latency_ns\": 1}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct catalogue_entry catalogue[] = { { "cpu", device, sizeof device - 1 },
                                                        { "gpu", device, sizeof device - 1 } };
    struct cluster *cluster = NULL;
    struct error err = { 0 };
    if (!cluster_read(&cluster, "fuzz", (const char *)data, size, catalogue, 2, &err)) {
        if (err.kind == ERROR_NONE || cluster)
            abort();
        return 0;
    }
    int last = cluster->device_count - 1, devices = 0;
    for (int type = 0; type < cluster->type_count; type++) {
        devices += cluster->types[type].device_count;
        if (cluster->types[type].memory_bytes < 1 ||
            cluster_ranks_of(cluster, type, 0, last + 1) != cluster->types[type].device_count)
            abort();
    }
    if (devices != cluster->device_count || cluster_unit(cluster, 0, cluster->level_count - 1) != devices ||
        cluster_level(cluster, 0, last) >= cluster->level_count ||
        cluster_types(cluster, 0, devices) != (1u << cluster->type_count) - 1 ||
        cluster_place(cluster, last, 0) >= cluster->types[cluster_type(cluster, last)].levels[0].fanout)
        abort();
    cluster_free(cluster);
    return 0;
}
