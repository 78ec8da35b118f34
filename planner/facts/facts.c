/* Which profile speaks of which type of the cluster. */
#include "base/num.h"
#include "base/text.h"
#include "planner/facts/profile.h"
#include <string.h>

static bool speaks_of(const struct profile *profile, const struct device_type *device)
{
    return strcmp(profile->device, device->name) == 0;
}

const struct profile *facts_profile(const struct facts *facts, int type)
{
    const struct profile *profile = facts->profile;
    if (facts->cluster->type_count == 1)
        return profile;
    while (profile && !speaks_of(profile, &facts->cluster->types[type].device))
        profile = profile->next;
    return profile;
}

int64_t facts_outside_arena_bytes(const struct facts *facts, int type)
{
    const struct profile *profile = facts_profile(facts, type);
    return profile ? profile->memory_outside_arena_bytes : 0;
}

int64_t facts_buffers_bytes(const struct facts *facts)
{
    return facts->framework ? facts->framework->buffers_bytes : 0;
}

int64_t facts_available_bytes(const struct facts *facts, int type)
{
    const struct node_type *node = &facts->cluster->types[type];
    return min_i64(node->memory_bytes, node->device.memory_bytes - facts_outside_arena_bytes(facts, type)) -
           facts_buffers_bytes(facts);
}

int64_t facts_timing_ns(const struct facts *facts, int type)
{
    const struct profile *profile = facts->cluster->device_count == 1 ? facts_profile(facts, type) : NULL;
    return profile ? profile->instruction_ns : 0;
}

void facts_slow_down(const struct facts *facts, unsigned types, double *compute, double *transfers)
{
    const struct framework *framework = facts->framework ? facts->framework : &framework_own;
    *compute = framework->compute_beside_transfers;
    *transfers = framework->transfers_beside_compute;
    for (int type = 0; types >> type; type++) {
        const struct profile *profile = types >> type & 1 ? facts_profile(facts, type) : NULL;
        if (profile && profile->compute_under_communication > *compute)
            *compute = profile->compute_under_communication;
        if (profile && profile->communication_under_compute > *transfers)
            *transfers = profile->communication_under_compute;
    }
}

struct facts facts_of_type(const struct facts *facts, int type, const struct cluster *alone)
{
    return (struct facts){ alone, facts_profile(facts, type), facts->framework };
}

static bool refuse(const struct cluster *cluster, const struct profile *profile, struct error *err)
{
    struct text names = { 0 };
    for (int t = 0; t < cluster->type_count; t++)
        text_printf(&names, "%s%s", t ? ", " : "", cluster->types[t].device.name);
    const char *known = names.failed ? "" : names.data;
    if (*profile->device)
        fail(err,
             "profile: it was measured on device %s%s%s%s, but cluster %s has %s; leave it out, or measure on such a "
             "device: cleave profile",
             profile->device, *profile->machine ? " (" : "", profile->machine, *profile->machine ? ")" : "",
             cluster->name, known);
    else
        fail(err,
             "profile: expected \"device\", the type that it was measured on, since cluster %s has several (%s); found "
             "none: add it to the file",
             cluster->name, known);
    text_free(&names);
    return false;
}

bool facts_check(const struct facts *facts, struct error *err)
{
    const struct cluster *cluster = facts->cluster;
    for (const struct profile *p = facts->profile; p; p = p->next) {
        bool known = false;
        for (int t = 0; t < cluster->type_count; t++)
            known |= speaks_of(p, &cluster->types[t].device);
        if (!known && (*p->device || cluster->type_count > 1))
            return refuse(cluster, p, err);
    }
    return true;
}

int64_t facts_most_bytes(const struct facts *facts)
{
    int64_t most = INT64_MIN;
    for (int type = 0; type < facts->cluster->type_count; type++)
        most = max_i64(most, facts_available_bytes(facts, type));
    return most;
}
