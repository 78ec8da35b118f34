/* What the cluster_*.c files share. Nobody else includes this. */
#ifndef CLEAVE_FACTS_CLUSTER_PARTS_H
#define CLEAVE_FACTS_CLUSTER_PARTS_H
#include "base/json.h"
#include "planner/facts/cluster.h"

/* The top-level members of a cluster file. */
struct cluster_text {
    const char *format, *name;
    int64_t version, memory_bytes, reserve_bytes;
    const struct json *device, *levels;
};

/* The links that a device brings, as levels of fanout 1. */
struct link_level device_link(const struct device_type *device);
struct link_level device_nic(const struct device_type *device);
const struct catalogue_entry *catalogue_find(const struct catalogue_entry *catalogue, int count, const char *name);
/* Its name, or NULL when none is near. */
const char *catalogue_nearest(const struct catalogue_entry *catalogue, int count, const char *name);
bool device_type_read_value(struct device_type *out, struct arena *arena, const char *name, const struct json *value,
                            struct error *err);
/* Fill device, levels, counts, memory and reserve of a cluster that has its name already. */
bool cluster_read_json(struct cluster *cluster, const char *name, const char *text, size_t length,
                       const struct catalogue_entry *catalogue, int catalogue_count, struct error *err);
bool cluster_read_short(struct cluster *cluster, const char *name, const char *text, size_t length,
                        const struct catalogue_entry *catalogue, int catalogue_count, struct error *err);
#endif
