/* Two profiles into one: the newer entry of each key wins. */
#include "base/num.h"
#include "planner/facts/profile.h"
#include <string.h>

static const char *copy_text(struct arena *arena, const char *text, bool *ok)
{
    char *copy = arena_strdup(arena, text);
    *ok = *ok && copy;
    return copy;
}

static bool merge_compute(struct profile *to, const struct profile *base, const struct profile *more)
{
    bool ok = true;
    to->compute =
        arena_alloc(&to->arena, (size_t)base->compute_count + (size_t)more->compute_count, sizeof *to->compute);
    if (!to->compute)
        return false;
    for (int i = 0; i < base->compute_count; i++)
        if (!profile_compute(more, base->compute[i].work, base->compute[i].loaded))
            to->compute[to->compute_count++] = base->compute[i];
    for (int i = 0; i < more->compute_count; i++)
        to->compute[to->compute_count++] = more->compute[i];
    for (int i = 0; i < to->compute_count; i++)
        to->compute[i].work = copy_text(&to->arena, to->compute[i].work, &ok);
    return ok;
}

static bool merge_linear(struct profile *to, const struct profile *base, const struct profile *more)
{
    bool ok = true;
    to->linear = arena_alloc(&to->arena, (size_t)base->linear_count + (size_t)more->linear_count, sizeof *to->linear);
    if (!to->linear)
        return false;
    for (int i = 0; i < base->linear_count; i++)
        if (!profile_linear(more, base->linear[i].work, base->linear[i].loaded))
            to->linear[to->linear_count++] = base->linear[i];
    for (int i = 0; i < more->linear_count; i++)
        to->linear[to->linear_count++] = more->linear[i];
    for (int i = 0; i < to->linear_count; i++)
        to->linear[i].work = copy_text(&to->arena, to->linear[i].work, &ok);
    return ok;
}

static bool own_curve(struct arena *arena, struct collective_curve *curve)
{
    bool ok = true;
    const struct collective_point *points = curve->points;
    curve->op = copy_text(arena, curve->op, &ok);
    curve->points = arena_alloc(arena, (size_t)curve->point_count, sizeof *curve->points);
    if (!ok || !curve->points)
        return false;
    if (curve->point_count > 0)
        memcpy(curve->points, points, (size_t)curve->point_count * sizeof *points);
    return true;
}

static bool merge_curves(struct profile *to, const struct profile *base, const struct profile *more)
{
    to->curves = arena_alloc(&to->arena, (size_t)base->curve_count + (size_t)more->curve_count, sizeof *to->curves);
    if (!to->curves)
        return false;
    for (int i = 0; i < base->curve_count; i++) {
        const struct collective_curve *c = &base->curves[i];
        if (!profile_curve(more, c->op, c->ranks, c->concurrent, c->level))
            to->curves[to->curve_count++] = *c;
    }
    for (int i = 0; i < more->curve_count; i++)
        to->curves[to->curve_count++] = more->curves[i];
    for (int i = 0; i < to->curve_count; i++)
        if (!own_curve(&to->arena, &to->curves[i]))
            return false;
    return true;
}

/* Gives the newer word, unless it is empty. */
static const char *newer(const char *base, const char *more)
{
    return *more ? more : base;
}

static bool merge_header(struct profile *to, const struct profile *base, const struct profile *more)
{
    bool ok = true;
    to->machine = copy_text(&to->arena, newer(base->machine, more->machine), &ok);
    to->backend = copy_text(&to->arena, newer(base->backend, more->backend), &ok);
    to->transport = copy_text(&to->arena, newer(base->transport, more->transport), &ok);
    to->software = copy_text(&to->arena, newer(base->software, more->software), &ok);
    to->created = copy_text(&to->arena, newer(base->created, more->created), &ok);
    to->device = copy_text(&to->arena, newer(base->device, more->device), &ok);
    to->dtype = more->dtype;
    const struct profile *compute = more->compute_under_communication > 1 ? more : base;
    const struct profile *communication = more->communication_under_compute > 1 ? more : base;
    to->compute_under_communication = compute->compute_under_communication;
    to->compute_under_communication_spread = compute->compute_under_communication_spread;
    to->communication_under_compute = communication->communication_under_compute;
    to->communication_under_compute_spread = communication->communication_under_compute_spread;
    to->factors_origin = min_int(compute->factors_origin, communication->factors_origin);
    const struct profile *memory = more->memory_outside_arena_bytes > 0 ? more : base;
    to->memory_outside_arena_bytes = memory->memory_outside_arena_bytes;
    memcpy(to->memory_part_bytes, memory->memory_part_bytes, sizeof to->memory_part_bytes);
    to->memory_origin = memory->memory_origin;
    to->instruction_ns = more->instruction_ns > 0 ? more->instruction_ns : base->instruction_ns;
    const struct profile *timed = more->reference_ns > 0 ? more : base;
    to->reference_ns = timed->reference_ns;
    to->reference_ranks = timed->reference_ranks;
    return ok;
}

/* Merges tuned choices; where the two are of different devices, the newer one's count. */
static bool merge_tuned(struct profile *to, const struct profile *base, const struct profile *more)
{
    static const struct gpu_choices none;
    const struct profile *from = more->tuned.count > 0 ? more : base;
    bool ok = true, alike = strcmp(base->tuned_device, from->tuned_device) == 0;
    to->tuned_device = copy_text(&to->arena, from->tuned_device, &ok);
    return ok && gpu_choices_join(&to->tuned, &to->arena, alike ? &base->tuned : &none, &from->tuned);
}

bool profile_merge(struct profile **out, const struct profile *base, const struct profile *more, struct error *err)
{
    bool done = false;
    struct profile *empty = profile_new(), *to = profile_new();
    if (!empty || !to || !profile_finish(empty, err)) {
        fail_memory(err);
        goto cleanup;
    }
    base = base ? base : more;
    base = base ? base : empty;
    more = more ? more : base;
    if (base->dtype != more->dtype) {
        fail_kind(err, ERROR_INPUT, "merging profiles: expected both in %s, found %s", dtype_names[base->dtype],
                  dtype_names[more->dtype]);
        goto cleanup;
    }
    if (*base->device && *more->device && strcmp(base->device, more->device) != 0) {
        fail_kind(err, ERROR_INPUT, "merging profiles: expected both of device %s, found %s", base->device,
                  more->device);
        goto cleanup;
    }
    if (!merge_header(to, base, more) || !merge_compute(to, base, more) || !merge_linear(to, base, more) ||
        !merge_curves(to, base, more) || !merge_tuned(to, base, more)) {
        fail_memory(err);
        goto cleanup;
    }
    if (!profile_finish(to, err))
        goto cleanup;
    *out = to;
    to = NULL; /* handed over */
    done = true;
cleanup:
    profile_free(empty);
    profile_free(to);
    return done;
}
