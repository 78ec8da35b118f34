#include "planner/space/config_name.h"
#include "planner/program/schedule.h"
#include <stdio.h>

static int add_bucket(char *out, int room, int64_t bytes)
{
    int64_t mib = bytes >> 20, kib = bytes >> 10;
    if (bytes == USUAL_BUCKET_BYTES)
        return 0;
    if (mib > 0 && mib << 20 == bytes)
        return snprintf(out, (size_t)room, " bucket=%lldMiB", (long long)mib);
    if (kib > 0 && kib << 10 == bytes)
        return snprintf(out, (size_t)room, " bucket=%lldKiB", (long long)kib);
    return snprintf(out, (size_t)room, " bucket=%lld", (long long)bytes);
}

/* Nothing for the cluster's own. */
static void add_order(char *out, int room, const struct group_order *order)
{
    int length = order->index == REVERSED_ORDER ? snprintf(out, (size_t)room, " reversed") : 0;
    for (int i = 0; i < order->group_count; i++)
        length += snprintf(out + length, (size_t)(room - length), "%s%d", i > 0 ? "." : " groups=", order->group[i]);
}

const char *config_name(char out[CONFIG_NAME_BYTES], const struct config *config)
{
    int length = config->stages > 0 ? snprintf(out, CONFIG_NAME_BYTES, "pp=%d", config->stages)
                                    : snprintf(out, CONFIG_NAME_BYTES, "pp=any");
    if (config->meshes > 0)
        length += snprintf(out + length, (size_t)(CONFIG_NAME_BYTES - length), " meshes=%d", config->meshes);
    for (int a = 0; a < config->mesh.atom_count; a++)
        length += snprintf(out + length, (size_t)(CONFIG_NAME_BYTES - length), " %s=%d",
                           dimensions[config->mesh.dim[a]]->name, config->mesh.size[a]);
    length += snprintf(out + length, (size_t)(CONFIG_NAME_BYTES - length), " micro-batch=%lld schedule=%s prefetch=%d",
                       (long long)config->micro, schedules[config->schedule]->name, config->prefetch);
    if (config->chunks > 1)
        length += snprintf(out + length, (size_t)(CONFIG_NAME_BYTES - length), " interleave=%d", config->chunks);
    if (config->extra > 0)
        length += snprintf(out + length, (size_t)(CONFIG_NAME_BYTES - length), " extra-in-flight=%d", config->extra);
    if (config->loss_chunks > 1)
        length += snprintf(out + length, (size_t)(CONFIG_NAME_BYTES - length), " loss-chunks=%d", config->loss_chunks);
    length += add_bucket(out + length, CONFIG_NAME_BYTES - length, config->bucket_bytes);
    add_order(out + length, CONFIG_NAME_BYTES - length, &config->order);
    return out;
}
