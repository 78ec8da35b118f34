/* Any bytes as a profile: what is accepted must be written and read back as the same bytes, and answer questions. */
#include "planner/facts/profile.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask(const struct profile *profile)
{
    int64_t extents[MAX_AXES];
    bool outside;
    for (int i = 0; i < profile->compute_count; i++) {
        const struct compute_entry *e = &profile->compute[i];
        if (profile_compute(profile, e->work, e->loaded) != e ||
            !profile_compute_nearest(profile, e->work, e->loaded, extents))
            abort();
    }
    for (int i = 0; i < profile->linear_count; i++)
        if (profile_linear(profile, profile->linear[i].work, profile->linear[i].loaded) != &profile->linear[i])
            abort();
    for (int i = 0; i < profile->curve_count; i++) {
        const struct collective_curve *c = &profile->curves[i];
        if (profile_curve(profile, c->op, c->ranks, c->concurrent, c->level) != c)
            abort();
        for (int64_t bytes = 1; bytes < INT64_C(1) << 40; bytes *= 16)
            if (collective_curve_ns(c, bytes, &outside) < 0)
                abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct profile *profile = NULL, *again = NULL, *merged = NULL;
    struct error err = { 0 };
    if (!profile_read(&profile, "fuzz", (const char *)data, size, &err))
        return 0;
    ask(profile);
    size_t length, again_length;
    char *text = profile_write(profile, &length), *same = NULL;
    if (!text || !profile_read(&again, "again", text, length, &err) || !(same = profile_write(again, &again_length)) ||
        length != again_length || memcmp(text, same, length) != 0)
        abort();
    if (!profile_merge(&merged, profile, again, &err) || merged->hash != profile->hash)
        abort();
    free(text);
    free(same);
    profile_free(profile);
    profile_free(again);
    profile_free(merged);
    return 0;
}
