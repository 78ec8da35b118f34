/* Step against memory, and against devices. */
#include "base/num.h"
#include "planner/search/explain.h"
#include <string.h>

/* MEMORY_STEP: each search has at most 31/32 of the memory of the point before. */
enum { MEMORY_STEP = 32, MOST_SOLVED = 48 };

static int64_t memory_of(const struct point *point)
{
    return point->peak_bytes;
}

static int64_t devices_of(const struct point *point)
{
    return point->devices;
}

/* Keeps the points that no other beats in both; shortest step first. One beyond MAX_POINTS is let go. */
static void keep_point(struct frontier *f, const struct point *at, int64_t (*cost)(const struct point *point))
{
    int place = 0, kept;
    while (place < f->count && f->points[place].step_ns <= at->step_ns)
        if (cost(&f->points[place++]) <= cost(at))
            return;
    kept = place;
    for (int i = place; i < f->count; i++)
        if (cost(&f->points[i]) < cost(at))
            f->points[kept++] = f->points[i];
    f->count = kept;
    if (place > 0 && f->points[place - 1].step_ns == at->step_ns) {
        f->points[place - 1] = *at;
        return;
    }
    if (f->count == MAX_POINTS)
        return;
    memmove(&f->points[place + 1], &f->points[place], (size_t)(f->count - place) * sizeof *f->points);
    f->points[place] = *at;
    f->count++;
}

static struct point point_of(const struct solution *solution)
{
    return (struct point){ *solution, solution->explained->plan->rank_count, solution->peak_bytes, solution->step_ns };
}

/* Solves under varied facts; if there is a plan, it is a point. */
static bool solve_point(struct explainer *e, const struct space *space, const struct variation *variation,
                        struct solution *out, struct error *err)
{
    struct varied varied;
    struct error why = { 0 };
    *out = (struct solution){ .kind = SOLUTION_NONE };
    if (!varied_open(&varied, e->facts, variation, &why))
        return why.kind == ERROR_INPUT || fail_kind(err, why.kind, "%s", why.message);
    bool good = explainer_solve(e, space, &varied.facts, out, err);
    varied_free(&varied);
    return good;
}

/* What is known of the whole cluster. */
static bool keep_known(struct explainer *e, struct frontier *f, int64_t (*cost)(const struct point *point),
                       struct error *err)
{
    for (int i = 0; i < e->known_count && !explainer_ends(e); i++) {
        struct solution own;
        if (!explainer_judge(e, e->known[i].explained->plan, &own, err))
            return false;
        if (own.kind == SOLUTION_PLAN) {
            struct point at = point_of(&own);
            keep_point(f, &at, cost);
        }
    }
    return true;
}

/* What searches have found to fit on their way, where it would be a point. */
static bool keep_heard(struct explainer *e, struct frontier *f, struct error *err)
{
    for (int i = 0; i < e->heard_count && !explainer_ends(e); i++) {
        const struct heard_plan *heard = &e->heard[i];
        bool beaten = heard->peak_bytes == 0;
        struct solution own;
        for (int k = 0; k < f->count && !beaten; k++)
            beaten = f->points[k].step_ns <= heard->least_ns && f->points[k].peak_bytes <= heard->peak_bytes;
        if (beaten)
            continue;
        if (!explainer_judge_heard(e, heard, &own, err))
            return false;
        if (own.kind == SOLUTION_PLAN) {
            struct point at = point_of(&own);
            keep_point(f, &at, memory_of);
        }
    }
    return true;
}

/* The shortest with so much memory at most; NULL: there is none. */
static const struct point *within(const struct frontier *f, int64_t most_bytes)
{
    for (int i = 0; i < f->count; i++)
        if (f->points[i].peak_bytes <= most_bytes)
            return &f->points[i];
    return NULL;
}

/* Downwards from the shortest: each time the shortest within that memory, of what is found and what is known. */
static bool solve_downwards(struct explainer *e, struct frontier *f, struct error *err)
{
    const struct point *at = within(f, INT64_MAX);
    double usable = (double)available_bytes(e->facts);
    for (int i = 0; at && i < MOST_SOLVED && !explainer_ends(e); i++) {
        int64_t most_bytes = min_i64(at->peak_bytes - 1, at->peak_bytes / MEMORY_STEP * (MEMORY_STEP - 1));
        struct variation v = variation_none();
        struct solution found;
        v.memory = (double)most_bytes / usable;
        if (!solve_point(e, &e->options.space, &v, &found, err))
            return false;
        if (found.kind == SOLUTION_PLAN) {
            struct point own = point_of(&found);
            keep_point(f, &own, memory_of);
        }
        at = within(f, most_bytes);
    }
    return true;
}

bool explain_memory_frontier(struct explainer *e, struct frontier *out, struct error *err)
{
    struct alternatives alternatives;
    struct solution base;
    *out = (struct frontier){ 0 };
    if (!explainer_base(e, &base, err) || base.kind != SOLUTION_PLAN)
        return base.kind != SOLUTION_PLAN && err->kind == ERROR_NONE;
    return explain_alternatives(e, base.explained, &alternatives, err) && keep_known(e, out, memory_of, err) &&
           keep_heard(e, out, err) && solve_downwards(e, out, err) && keep_known(e, out, memory_of, err);
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
    struct solution found = { .kind = SOLUTION_PLAN };
    for (int u = units; u >= 1 && found.kind != SOLUTION_NO_MEMORY && !explainer_ends(e); u--) {
        struct variation v = variation_none();
        if (u != units && !is_round(u))
            continue;
        v.units = u;
        if (!solve_point(e, &space, &v, &found, err))
            return false;
        if (found.kind == SOLUTION_PLAN) {
            struct point at = point_of(&found);
            keep_point(out, &at, devices_of);
        }
    }
    return keep_known(e, out, devices_of, err);
}
