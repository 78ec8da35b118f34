/* Any bytes as a cluster: a device of the fuzzer's own, and the input in either form. What is accepted must be
 * consistent. */
#include "planner/cost/cost_matmul.h"
#include "planner/facts/cluster.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char device[] =
    "{\"description\": \"d\", \"source\": \"s\", \"matmul_flops_per_s\": {\"fp32\": 1e12}, \"matmul_efficiency\": 0.5,"
    "\"attention_forward_efficiency\": 0.5, \"attention_backward_efficiency\": 0.5, \"vector_flops_per_s\": 1e11, "
    "\"memory_bytes_per_s\": 1e10,"
    "\"memory_bytes\": 1000000000, \"launch_ns\": 1, \"link_bytes_per_s\": 1e9, \"link_latency_ns\": 1, "
    "\"nic_bytes_per_s\": 1e8, \"nic_latency_ns\": 1}";

/* What a device says of products is a time, and it reads what it writes. */
static void check_products(const struct device_type *type)
{
    for (int i = 0; i < type->surface_count; i++) {
        const struct matmul_surface *s = &type->surfaces[i];
        double stretch = 1;
        bool outside;
        if (type->matmul_flops_per_s[s->dtype] > 0 &&
            (!cost_matmul_stretch(&stretch, &outside, type, (enum dtype)s->dtype, (enum phase)s->phase, 100, 3, 7e6) ||
             !(stretch > 0) || !isfinite(stretch)))
            abort();
    }
}

static void check_writing(const struct device_type *type)
{
    struct device_type again;
    struct json_writer w = { 0 };
    struct arena arena = { 0 };
    struct error err = { 0 };
    size_t length;
    device_type_write(&w, type);
    char *text = json_finish(&w, &length);
    if (!text || !device_type_read(&again, &arena, "again", text, length, &err) ||
        again.surface_count != type->surface_count ||
        matmul_surfaces_hash(1, again.surfaces, again.surface_count) !=
            matmul_surfaces_hash(1, type->surfaces, type->surface_count))
        abort();
    free(text);
    arena_free(&arena);
}

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
        check_products(&cluster->types[type].device);
        check_writing(&cluster->types[type].device);
    }
    if (devices != cluster->device_count || cluster_unit(cluster, 0, cluster->level_count - 1) != devices ||
        cluster_level(cluster, 0, last) >= cluster->level_count ||
        cluster_types(cluster, 0, devices) != (1u << cluster->type_count) - 1 ||
        cluster_place(cluster, last, 0) >= cluster->types[cluster_type(cluster, last)].levels[0].fanout)
        abort();
    cluster_free(cluster);
    return 0;
}
