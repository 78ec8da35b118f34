/* Step against memory, and against devices. */
#include "base/num.h"
#include "planner/search/explain.h"
#include <string.h>

enum { MEMORY_STEP = 32 }; /* each point has at most 31/32 of the memory of the one before */

/* Keeps the points that no other beats in both; shortest step first. */
static void keep_best(struct frontier *f, int64_t (*cost)(const struct point *point))
{
    int kept = 0;
    for (int i = 1; i < f->count; i++) { /* by step, then by cost */
        struct point at = f->points[i];
        int place = i;
        for (; place > 0 && (f->points[place - 1].step_ns > at.step_ns ||
                             (f->points[place - 1].step_ns == at.step_ns && cost(&f->points[place - 1]) > cost(&at)));
             place--)
            f->points[place] = f->points[place - 1];
        f->points[place] = at;
    }
    for (int i = 0; i < f->count; i++)
        if (kept == 0 || cost(&f->points[i]) < cost(&f->points[kept - 1]))
            f->points[kept++] = f->points[i];
    f->count = kept;
}

static int64_t memory_of(const struct point *point)
{
    return point->peak_bytes;
}

static int64_t devices_of(const struct point *point)
{
    return point->devices;
}

/* Solves and, if there is a plan, appends it. */
static bool add_point(struct explainer *e, struct frontier *f, const struct space *space,
                      const struct variation *variation, enum solution_kind *kind, struct error *err)
{
    struct point *at = &f->points[f->count];
    struct varied varied;
    struct error why = { 0 };
    *kind = SOLUTION_NONE;
    if (!varied_open(&varied, e->facts, variation, &why))
        return why.kind == ERROR_INPUT || fail_kind(err, why.kind, "%s", why.message);
    bool good = explainer_solve(e, space, &varied.facts, &at->solution, err);
    if (good && at->solution.kind == SOLUTION_PLAN) {
        at->devices = varied.cluster->device_count;
        at->step_ns = at->solution.step_ns;
        at->peak_bytes = at->solution.peak_bytes;
        f->count++;
    }
    *kind = at->solution.kind;
    varied_free(&varied);
    return good;
}

bool explain_memory_frontier(struct explainer *e, struct frontier *out, struct error *err)
{
    struct variation v = variation_none();
    double usable = (double)available_bytes(e->facts);
    enum solution_kind kind = SOLUTION_PLAN;
    *out = (struct frontier){ 0 };
    while (kind == SOLUTION_PLAN && out->count < MAX_POINTS && !explainer_ends(e)) {
        if (!add_point(e, out, &e->options.space, &v, &kind, err))
            return false;
        if (kind == SOLUTION_PLAN) {
            int64_t peak = out->points[out->count - 1].peak_bytes;
            v.memory = (double)min_i64(peak - 1, peak / MEMORY_STEP * (MEMORY_STEP - 1)) / usable;
        }
    }
    keep_best(out, memory_of);
    return true;
}

static bool is_round(int units)
{
    while (units % 2 == 0)
        units /= 2;
    return units == 1 || units == 3;
}

bool explain_device_frontier(struct explainer *e, struct frontier *out, struct error *err)
{
    int units = cluster_units(e->facts->cluster);
    struct space space = e->options.space;
    space.data.count = 0; /* a degree that names the number of devices cannot be kept */
    *out = (struct frontier){ 0 };
    enum solution_kind kind = SOLUTION_PLAN;
    for (int u = units; u >= 1 && kind != SOLUTION_NO_MEMORY && out->count < MAX_POINTS && !explainer_ends(e); u--) {
        struct variation v = variation_none();
        if (u != units && !is_round(u))
            continue;
        v.units = u;
        if (!add_point(e, out, &space, &v, &kind, err))
            return false;
    }
    keep_best(out, devices_of);
    return true;
}
