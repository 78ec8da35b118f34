/* What the certificate says became of each configuration, and how many there are of each fate. */
#include "base/num.h"
#include "planner/check/check_parts.h"
#include "planner/space/config_name.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare_names(const void *a, const void *b)
{
    const struct claimed_config *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static int compare_with_name(const void *name, const void *claimed)
{
    return strcmp(name, (*(const struct claimed_config *const *)claimed)->name);
}

static bool not_there(struct checker *c, const struct claimed_config *claimed)
{
    char places[CONFIG_NAME_BYTES];
    snprintf(places, sizeof places, "configurations %d to %d", claimed->first, claimed->last);
    return fail_kind(c->err, ERROR_GATE,
                     "the certificate does not hold: it speaks of %s (twice?), which is not in the space",
                     claimed->name ? claimed->name : places);
}

static bool claim_one(struct checker *c, int config, const struct claimed_config *claimed)
{
    if (c->claimed[config])
        return not_there(c, claimed);
    c->claimed[config] = claimed;
    return true;
}

static bool claim_ranges(struct checker *c)
{
    for (int i = 0; i < c->claim->config_count; i++) {
        const struct claimed_config *claimed = &c->claim->configs[i];
        if (!claimed->name && claimed->last >= c->config_count)
            return not_there(c, claimed);
        for (int at = claimed->first; !claimed->name && at <= claimed->last; at++)
            if (!claim_one(c, at, claimed))
                return false;
    }
    return true;
}

/* Checks that each name is one configuration's. named: (count) in their order; met: (count) zeroes. */
static bool claim_names(struct checker *c, const struct claimed_config **named, bool *met, int count)
{
    char name[CONFIG_NAME_BYTES];
    for (int i = 0; i < c->config_count && count > 0; i++) {
        const struct claimed_config **found =
            bsearch(config_name(name, &c->configs[i]), named, (size_t)count, sizeof(void *), compare_with_name);
        if (found && !claim_one(c, i, *found))
            return false;
        if (found)
            met[found - named] = true;
    }
    for (int i = 0; i < count; i++) /* of those named twice only one is met */
        if (!met[i])
            return not_there(c, named[i]);
    return true;
}

bool check_fates(struct checker *c)
{
    int count = 0;
    size_t most = (size_t)c->claim->config_count + 1;
    const struct claimed_config **named = arena_alloc(&c->arena, most, sizeof(void *));
    bool *met = arena_alloc(&c->arena, most, sizeof *met);
    c->claimed = arena_alloc(&c->arena, (size_t)c->config_count + 1, sizeof(void *));
    if (!named || !met || !c->claimed)
        return fail_memory(c->err);
    for (int i = 0; i < c->claim->config_count; i++)
        if (c->claim->configs[i].name)
            named[count++] = &c->claim->configs[i];
    if (count > 1)
        qsort(named, (size_t)count, sizeof(void *), compare_names);
    return claim_ranges(c) && claim_names(c, named, met, count);
}

/* ---- counts ---- */

static bool same_count(struct checker *c, const char *what, int64_t claimed, int64_t found)
{
    return claimed == found || fail_kind(c->err, ERROR_GATE,
                                         "the certificate does not hold: it counts %lld configurations %s, but there "
                                         "are %lld",
                                         (long long)claimed, what, (long long)found);
}

/* Checks a count; older certificates count those as out by memory, too, that they list as solved, if no plan fits. */
static bool check_memory_count(struct checker *c, const int64_t counts[FATE_COUNT])
{
    int64_t claimed = c->claim->pruned_memory, least = counts[FATE_MEMORY], most = least + counts[FATE_SOLVED];
    if (!c->claim->older)
        return same_count(c, "out by memory", claimed, least);
    return (claimed >= least && claimed <= most) ||
           fail_kind(c->err, ERROR_GATE,
                     "the certificate does not hold: it says that %lld configurations have no plan that fits, but "
                     "lists between %lld and %lld",
                     (long long)claimed, (long long)least, (long long)most);
}

/* Checks whether all that there is was looked at, and as closely as was asked for. An older certificate also says so of
 * searches that ended later, and of any gap. */
static bool check_complete(struct checker *c, int64_t unsettled)
{
    const struct claim *claim = c->claim;
    bool whole = unsettled == 0 && claim->unbounded == c->unbounded_count;
    if (claim->complete && !whole)
        return fail_kind(c->err, ERROR_GATE,
                         "the certificate does not hold: it calls the search complete, which left %lld configurations",
                         (long long)(unsettled + c->unbounded_count - claim->unbounded));
    /* what was asked for is a share of the bound; the search rounds up to 1 ns differently */
    int64_t gap_ns = claim->bound_ns > 0 ? claim->best_ns - claim->bound_ns : 0,
            asked_ppm = max_i64(claim->asked_gap_ppm, 0),
            most_ns = 1 + mul_div_i64(claim->best_ns, asked_ppm, 1000000 + asked_ppm, INT64_MAX - 1);
    if (claim->complete && claim->asked_gap_ppm >= 0 && gap_ns > most_ns + 1)
        return fail_kind(
            c->err, ERROR_GATE,
            "the certificate does not hold: it calls the search complete, whose proof gap is %.3g, but %.3g "
            "was asked for",
            claim->proof_gap, 1e-6 * (double)claim->asked_gap_ppm);
    return claim->complete || claim->older || !whole || gap_ns > most_ns - (claim->asked_gap_ppm > 0) ||
           fail_kind(c->err, ERROR_GATE,
                     "the certificate does not hold: it calls the search incomplete, which left no configuration and "
                     "is as close as was asked for");
}

bool check_counts(struct checker *c)
{
    const struct claim *claim = c->claim;
    int64_t counts[FATE_COUNT] = { 0 }, by_bound = 0;
    for (int i = 0; i < c->config_count; i++) {
        by_bound += !c->claimed[i];
        if (c->claimed[i])
            counts[c->claimed[i]->fate]++;
    }
    return same_count(c, "in all", claim->configurations, c->config_count) &&
           same_count(c, "solved", claim->solved, counts[FATE_SOLVED]) &&
           same_count(c, "without a program", claim->refused, counts[FATE_REFUSED]) &&
           same_count(c, "out by bound", claim->pruned_bound, by_bound) && check_memory_count(c, counts) &&
           (claim->older || (same_count(c, "left", claim->left, counts[FATE_LEFT]) &&
                             same_count(c, "unseen", claim->unseen, counts[FATE_UNSEEN]))) &&
           check_complete(c, counts[FATE_LEFT] + counts[FATE_UNSEEN]);
}
