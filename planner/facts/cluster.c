/* The cluster: reading either form, its hash, larger ones; where ranks lie is in cluster_ranks.c. */
#include "planner/facts/cluster.h"
#include "base/num.h"
#include "base/text.h"
#include "planner/facts/cluster_parts.h"
#include <stdlib.h>
#include <string.h>

const char *const origin_names[4] = { "analytic", "fitted", "measured", NULL };

struct link_level device_type_link(const struct device_type *device)
{
    return (struct link_level){ .name = "node",
                                .fanout = 1,
                                .bytes_per_s = device->link_bytes_per_s,
                                .efficiency = device->link_efficiency,
                                .latency_ns = device->link_latency_ns,
                                .switch_reduce_factor = device->switch_reduce_factor,
                                .switch_reduce_latency_ns = device->switch_reduce_latency_ns,
                                .shared = device->link_shared };
}

struct link_level device_type_nic(const struct device_type *device)
{
    return (struct link_level){ .name = "cluster",
                                .fanout = 1,
                                .bytes_per_s = device->nic_bytes_per_s,
                                .efficiency = device->nic_efficiency,
                                .latency_ns = device->nic_latency_ns,
                                .shared = device->nic_shared };
}

const struct catalogue_entry *cluster_catalogue_find(const struct catalogue_entry *catalogue, int count,
                                                     const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(catalogue[i].name, name) == 0)
            return &catalogue[i];
    return NULL;
}

static uint64_t hash_double(uint64_t hash, double value)
{
    double canonical = value == 0 ? 0 : value; /* one zero, not two */
    return hash_bytes(hash, &canonical, sizeof canonical);
}

static uint64_t hash_device(uint64_t hash, const struct device_type *d)
{
    hash = hash_string(hash, d->name);
    for (int i = 0; i < DTYPE_NVFP4; i++)
        hash = hash_double(hash, d->matmul_flops_per_s[i]);
    const double numbers[] = { d->matmul_efficiency,
                               d->attention_forward_efficiency,
                               d->attention_backward_efficiency,
                               d->vector_flops_per_s,
                               d->memory_bytes_per_s,
                               d->memory_efficiency,
                               d->link_bytes_per_s,
                               d->nic_bytes_per_s,
                               d->link_efficiency,
                               d->nic_efficiency };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        hash = hash_double(hash, numbers[i]);
    const int64_t integers[] = { d->matmul_tile,          d->compute_units, d->memory_bytes,    d->launch_ns,
                                 d->collective_launch_ns, d->shared_host,   d->link_latency_ns, d->nic_latency_ns };
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++)
        hash = hash_i64(hash, integers[i]);
    /* what came to devices later has a say where it is given, so that plans for others stay as they are */
    const double later[] = { d->matmul_flops_per_s[DTYPE_NVFP4], d->fp8_matmul_efficiency,
                             d->nvfp4_matmul_efficiency,         d->link_pass_bytes_per_s,
                             (double)d->link_mesh_devices,       d->flash2_flops_per_s };
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++)
        if (later[i] > 0)
            hash = hash_double(hash_i64(hash, (int64_t)i), later[i]);
    if (d->host_bytes_per_s > 0) /* without it nothing is offloaded, and the rest has no say */
        hash = hash_i64(hash_i64(hash_double(hash, d->host_bytes_per_s), d->host_latency_ns), d->host_memory_bytes);
    return matmul_surfaces_hash(hash, d->surfaces, d->surface_count);
}

uint64_t cluster_hash_type(uint64_t hash, const struct node_type *type, int level_count)
{
    hash = hash_device(hash, &type->device);
    hash = hash_i64(hash_i64(hash, type->memory_bytes), level_count);
    for (int i = 0; i < level_count; i++) {
        const struct link_level *level = &type->levels[i];
        hash = hash_i64(hash_i64(hash_i64(hash, level->fanout), level->latency_ns), level->shared);
        hash = hash_double(hash_double(hash, level->bytes_per_s), level->efficiency);
        hash = hash_i64(hash_double(hash, level->switch_reduce_factor), level->switch_reduce_latency_ns);
    }
    return hash;
}

uint64_t cluster_type_hash(const struct cluster *cluster, int type)
{
    return cluster_hash_type(HASH_START, &cluster->types[type], cluster->level_count);
}

/* Hashes everything that decides a duration or a fit; names of the cluster and its levels, and sources, do not. */
static uint64_t cluster_hash(const struct cluster *cluster)
{
    uint64_t hash = HASH_START;
    for (int t = 0; t < cluster->type_count; t++)
        hash = cluster_hash_type(hash, &cluster->types[t], cluster->level_count);
    for (int g = 0; cluster->type_count > 1 && g < cluster->group_count; g++)
        hash = hash_i64(hash_i64(hash, cluster->groups[g].type), cluster->groups[g].device_count);
    return hash;
}

bool cluster_read(struct cluster **out, const char *name, const char *text, size_t length,
                  const struct catalogue_entry *catalogue, int catalogue_count, struct error *err)
{
    bool done = false;
    struct cluster *cluster = calloc(1, sizeof *cluster);
    if (!cluster)
        return fail_kind(err, ERROR_ENVIRONMENT, "%s: out of memory", name);
    size_t i = 0;
    while (i < length && text[i] != '\0' && strchr(" \t\r\n", text[i]))
        i++;
    bool json = i < length && text[i] == '{';
    cluster->name = json ? arena_strdup(&cluster->arena, name) : arena_strndup(&cluster->arena, text, length);
    if (!cluster->name) {
        fail_kind(err, ERROR_ENVIRONMENT, "%s: out of memory", name);
        goto cleanup;
    }
    if (!(json ? cluster_read_json : cluster_read_short)(cluster, name, text, length, catalogue, catalogue_count, err))
        goto cleanup;
    cluster->hash = cluster_hash(cluster);
    *out = cluster;
    cluster = NULL; /* handed over */
    done = true;
cleanup:
    cluster_free(cluster);
    return done;
}

void cluster_free(struct cluster *cluster)
{
    if (!cluster)
        return;
    arena_free(&cluster->arena);
    free(cluster);
}

bool cluster_set_reserve(struct cluster *cluster, int64_t bytes, double percent)
{
    for (int pass = 0; pass < 2; pass++) /* first whether, then do it */
        for (int t = 0; t < cluster->type_count; t++) {
            struct node_type *type = &cluster->types[t];
            int64_t all = type->device.memory_bytes,
                    reserve = percent >= 0 ? (int64_t)(percent / 100 * (double)all) : bytes;
            if (reserve >= all)
                return false;
            if (pass == 0)
                continue;
            if (type->replaced_bytes == 0)
                type->replaced_bytes = type->device.reserve_bytes;
            type->device.reserve_bytes = reserve;
            type->memory_bytes = all - reserve;
        }
    return true;
}

/* Copies the types with their own levels; network: they get one more, the devices' own. */
static bool copy_types(struct cluster *scaled, const struct cluster *cluster, bool network)
{
    scaled->level_count = cluster->level_count + network;
    scaled->types = arena_alloc(&scaled->arena, (size_t)cluster->type_count, sizeof *scaled->types);
    scaled->groups = arena_alloc(&scaled->arena, (size_t)cluster->group_count, sizeof *scaled->groups);
    if (!scaled->types || !scaled->groups)
        return false;
    memcpy(scaled->groups, cluster->groups, (size_t)cluster->group_count * sizeof *scaled->groups);
    for (int t = 0; t < cluster->type_count; t++) {
        struct node_type *type = &scaled->types[t];
        *type = cluster->types[t];
        type->levels = arena_alloc(&scaled->arena, (size_t)scaled->level_count, sizeof *type->levels);
        if (!type->levels)
            return false;
        memcpy(type->levels, cluster->types[t].levels, (size_t)cluster->level_count * sizeof *type->levels);
        if (network)
            type->levels[cluster->level_count] = device_type_nic(&type->device);
    }
    return true;
}

/* Copies the cluster, whose groups get `times` as many devices. */
static bool copy_cluster(struct cluster **out, const struct cluster *cluster, bool network, int times,
                         struct error *err)
{
    struct cluster *copy = calloc(1, sizeof *copy);
    if (copy) {
        *copy = *cluster;
        copy->arena = (struct arena){ 0 };
    }
    if (!copy || !copy_types(copy, cluster, network)) {
        cluster_free(copy);
        return fail_kind(err, ERROR_ENVIRONMENT, "%s: out of memory", cluster->name);
    }
    for (int g = 0; g < copy->group_count; g++)
        copy->groups[g].device_count *= times;
    cluster_number(copy);
    copy->hash = cluster_hash(copy);
    *out = copy;
    return true;
}

bool cluster_scaled(struct cluster **out, const struct cluster *cluster, int times, struct error *err)
{
    if (cluster->device_count > MAX_DEVICES / times)
        return fail(err, "%s: expected at most %d devices in all, found %d times %d", cluster->name, (int)MAX_DEVICES,
                    times, cluster->device_count);
    return copy_cluster(out, cluster, cluster->level_count == 1, times, err);
}

bool cluster_of_type(struct cluster **out, const struct cluster *cluster, int type, struct error *err)
{
    int unit = cluster->level_count > 1 ? cluster_unit(cluster, type, cluster->level_count - 2) : 1;
    struct node_group group = { .device_count = (int)ceil_div(cluster->device_count, unit) * unit };
    struct cluster only = *cluster;
    only.types = &cluster->types[type];
    only.groups = &group;
    only.type_count = only.group_count = 1;
    return copy_cluster(out, &only, false, 1, err);
}

static bool check_device(const struct device_type *device, enum dtype dtype, struct error *err)
{
    if (device->matmul_flops_per_s[dtype] > 0)
        return true;
    struct text known = { 0 };
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (device->matmul_flops_per_s[i] > 0)
            text_printf(&known, "%s%s", known.length ? ", " : "", dtype_names[i]);
    fail_kind(err, ERROR_INPUT, "device %s: expected a dtype that it computes in (%s), found %s", device->name,
              known.failed || !known.data ? "none" : known.data, dtype_names[dtype]);
    text_free(&known);
    return false;
}

bool cluster_check_dtype(const struct cluster *cluster, enum dtype dtype, struct error *err)
{
    for (int t = 0; t < cluster->type_count; t++)
        if (!check_device(&cluster->types[t].device, dtype, err))
            return false;
    return true;
}
