/* Finds what a shorter step costs: the plans that no other beats in step and memory, or in step and devices. */
#include "base/num.h"
#include "planner/estimate/effort.h"
#include "planner/explain/explain.h"
#include <string.h>

/* Tells whether a point takes no more than another of what is sought little of. */
typedef bool no_more(const struct point *a, const struct point *b);

static bool no_more_memory(const struct point *a, const struct point *b)
{
    return a->peak_bytes <= b->peak_bytes;
}

/* True when a has no more devices of any type than b. */
static bool no_more_devices(const struct point *a, const struct point *b)
{
    for (int t = 0; t < MAX_TYPES; t++)
        if (a->of_type[t] > b->of_type[t])
            return false;
    return true;
}

/* Keeps the points that no other beats in both; shortest step first. One beyond MAX_POINTS is let go. */
static void keep_point(struct frontier *f, struct point at, no_more *cheap)
{
    int place = 0, kept = 0;
    for (int i = 0; i < f->count; i++)
        if (f->points[i].step_ns <= at.step_ns && cheap(&f->points[i], &at))
            return;
    for (int i = 0; i < f->count; i++)
        if (f->points[i].step_ns < at.step_ns || !cheap(&at, &f->points[i]))
            f->points[kept++] = f->points[i];
    f->count = kept;
    while (place < kept && f->points[place].step_ns <= at.step_ns)
        place++;
    if (f->count == MAX_POINTS)
        return;
    memmove(&f->points[place + 1], &f->points[place], (size_t)(f->count - place) * sizeof *f->points);
    f->points[place] = at;
    f->count++;
}

/* Makes the point of a solution on the whole cluster. */
static struct point point_of(const struct explainer *e, const struct solution *solution)
{
    const struct cluster *cluster = e->facts->cluster;
    struct point point = { *solution, solution->explained->plan->rank_count, solution->peak_bytes, solution->step_ns,
                           .cluster = cluster->name };
    for (int t = 0; t < cluster->type_count; t++)
        point.of_type[t] = cluster->types[t].device_count;
    return point;
}

/* Solves under varied facts, and keeps the plan where there is one. */
static bool solve_point(struct explainer *e, const struct space *space, const struct variation *variation,
                        struct frontier *f, no_more *cheap, struct solution *out, struct error *err)
{
    struct varied varied;
    struct error why = { 0 };
    *out = (struct solution){ .kind = SOLUTION_NONE };
    if (!varied_open(&varied, e->facts, variation, &why))
        return why.kind == ERROR_INPUT || fail_with(err, &why);
    bool good = explainer_solve(e, space, &varied.facts, out, err);
    if (good && out->kind == SOLUTION_PLAN) {
        struct point at = point_of(e, out);
        if (varied.cluster->device_count != e->facts->cluster->device_count) { /* it is on those that are left */
            memcpy(at.of_type, varied.of_type, sizeof at.of_type);
            at.cluster = arena_strdup(&e->arena, varied.typed ? varied.typed : varied.words);
            good = at.cluster || fail_memory(err);
        }
        if (good)
            keep_point(f, at, cheap);
    }
    varied_free(&varied);
    return good;
}

/* Keeps what is known of the whole cluster. */
static bool keep_known(struct explainer *e, struct frontier *f, no_more *cheap, struct error *err)
{
    for (int i = 0; i < e->known_count && !explainer_ends(e); i++) {
        struct solution own;
        if (!explainer_judge(e, e->known[i].explained->plan, &own, err))
            return false;
        if (own.kind == SOLUTION_PLAN)
            keep_point(f, point_of(e, &own), cheap);
    }
    return true;
}

/* Keeps what searches have found to fit on their way, where it would be a point. */
static bool keep_simulated(struct explainer *e, struct frontier *f, struct error *err)
{
    for (int i = 0; i < e->simulated_count && !explainer_ends(e); i++) {
        const struct simulated_plan *simulated = &e->simulated[i];
        bool beaten = simulated->peak_bytes == 0;
        struct solution own;
        for (int k = 0; k < f->count && !beaten; k++)
            beaten = f->points[k].step_ns <= simulated->least_ns && f->points[k].peak_bytes <= simulated->peak_bytes;
        if (beaten)
            continue;
        if (!explainer_judge_simulated(e, simulated, &own, err))
            return false;
        if (own.kind == SOLUTION_PLAN)
            keep_point(f, point_of(e, &own), no_more_memory);
    }
    return true;
}

/* Gives the shortest with so much memory at most; NULL: there is none. */
static const struct point *within(const struct frontier *f, int64_t most_bytes)
{
    for (int i = 0; i < f->count; i++)
        if (f->points[i].peak_bytes <= most_bytes)
            return &f->points[i];
    return NULL;
}

/* Solves downwards from the shortest: each time the shortest within that memory, of what is found and known. */
static bool solve_downwards(struct explainer *e, struct frontier *f, struct error *err)
{
    const struct point *at = within(f, INT64_MAX);
    double usable = (double)facts_most_bytes(e->facts);
    for (int i = 0; at && i < FRONTIER_SOLVED && !explainer_ends(e); i++) {
        int64_t most_bytes = min_i64(at->peak_bytes - 1, at->peak_bytes / FRONTIER_SHARE * (FRONTIER_SHARE - 1));
        struct variation v = variation_none();
        struct solution found;
        v.memory = (double)most_bytes / usable;
        if (!solve_point(e, &e->options.space, &v, f, no_more_memory, &found, err))
            return false;
        at = within(f, most_bytes);
    }
    return true;
}

bool explain_memory_frontier(struct explainer *e, struct frontier *out, struct error *err)
{
    struct alternatives alternatives;
    struct solution base = { .kind = SOLUTION_NONE };
    *out = (struct frontier){ 0 };
    if (!explainer_base(e, &base, err) || base.kind != SOLUTION_PLAN)
        return base.kind != SOLUTION_PLAN && err->kind == ERROR_NONE;
    return explain_alternatives(e, base.explained, &alternatives, err) && keep_known(e, out, no_more_memory, err) &&
           keep_simulated(e, out, err) && solve_downwards(e, out, err) && keep_known(e, out, no_more_memory, err);
}

/* Lets parts of one kind fall: where nothing fits one of them, the smaller ones are left out. */
bool explain_device_frontier(struct explainer *e, struct frontier *out, struct error *err)
{
    struct variation parts[MOST_PARTS];
    int count = parts_of_cluster(e->facts->cluster, parts);
    struct space space = e->options.space;
    space.data.count = 0; /* a degree that names the number of devices cannot be kept */
    *out = (struct frontier){ 0 };
    struct solution found = { .kind = SOLUTION_PLAN };
    for (int i = 0; i < count && !explainer_ends(e); i++) {
        bool falls = i > 0 && parts[i].types == parts[i - 1].types;
        if (falls && found.kind == SOLUTION_NO_MEMORY)
            continue;
        if (i == 0 && e->options.space.data.count == 0) {
            if (!explainer_base(e, &found, err)) /* known then */
                return false;
        } else if (!solve_point(e, &space, &parts[i], out, no_more_devices, &found, err)) {
            return false;
        }
    }
    return keep_known(e, out, no_more_devices, err);
}
