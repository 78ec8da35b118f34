#include "profiler/profiler.h"
#include "base/num.h"
#include "executor/gpu/learned.h"
#include "executor/kernel.h"
#include "host/clock.h"
#include "host/machine.h"
#include "profiler/compute.h"
#include "profiler/contention.h"
#include "profiler/device_times.h"
#include "profiler/memory_work.h"
#include "profiler/resident.h"
#include "profiler/sweep.h"
#include "models/layer_kind.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Shares of the time limit. */
static const double COMPUTE_SHARE = 0.68, SWEEP_SHARE = 0.2, CONTENTION_SHARE = 0.06, REFERENCE_SHARE = 0.02;
static const double STEADY = 0.05, MEMORY_SHARE = 0.8;

bool profiler_unsteady(const struct profiler_report *report)
{
    double before = (double)report->reference_before_ns, after = (double)report->reference_after_ns;
    return fabs(after - before) > STEADY * fmin(before, after) || report->processor_share < 1 - STEADY;
}

/* Why the existing profile says nothing of this run; NULL: it does. */
static const char *refuse(const struct profile *existing, const char *machine, const struct crew *crew,
                          const char *backend)
{
    if (strcmp(existing->machine, machine) != 0)
        return "it was measured on another machine";
    if (strcmp(existing->backend, backend) != 0)
        return "it was measured with another backend";
    if (strcmp(existing->transport, crew->transports[0].name) != 0)
        return "it was measured with another transport";
    return existing->dtype == crew->dtype ? NULL : "it was measured in another dtype";
}

struct parts {
    struct compute_result compute;
    struct sweep_result sweep;
    struct contention contention;
    int64_t instruction_ns; /* as in struct profile */
    int factors_origin;     /* likewise */
    bool factors_assumed;
};

static void parts_free(struct parts *parts)
{
    harvest_free(&parts->compute.harvest);
    arena_free(&parts->sweep.arena);
}

/* ---- assembling ---- */
static bool fill_compute(struct profile *p, struct samples *samples, int loaded)
{
    p->compute = arena_alloc(&p->arena, (size_t)samples->count, sizeof *p->compute);
    for (int i = 0; p->compute && i < samples->count; i++) {
        const char *work = arena_strdup(&p->arena, samples->series[i].name);
        if (!work)
            return false;
        p->compute[p->compute_count++] =
            (struct compute_entry){ work, loaded, series_measurement(&samples->series[i]) };
    }
    return p->compute != NULL;
}

/* A line that an existing one covers adds nothing. */
static bool is_covered(const struct profile *existing, const struct linear_entry *entry)
{
    const struct linear_entry *old = existing ? profile_linear(existing, entry->work, entry->loaded) : NULL;
    return old && old->min_units <= entry->min_units && old->max_units >= entry->max_units;
}

static bool fill_linear(struct profile *p, struct samples *samples, int loaded, const struct profile *existing)
{
    int count = 0;
    while (linear_works[count])
        count++;
    p->linear = arena_alloc(&p->arena, (size_t)count, sizeof *p->linear);
    for (int i = 0; p->linear && i < count; i++) {
        struct linear_entry *entry = &p->linear[p->linear_count];
        p->linear_count += harvest_linear(entry, samples, linear_works[i], loaded) && !is_covered(existing, entry);
    }
    return p->linear != NULL;
}

static bool fill_curves(struct profile *p, const struct sweep_result *sweep)
{
    p->curves = arena_alloc(&p->arena, (size_t)sweep->curve_count, sizeof *p->curves);
    for (int i = 0; p->curves && i < sweep->curve_count; i++) {
        const struct collective_curve *from = &sweep->curves[i];
        struct collective_point *points = arena_alloc(&p->arena, (size_t)from->point_count, sizeof *points);
        if (!points)
            return false;
        memcpy(points, from->points, (size_t)from->point_count * sizeof *points);
        p->curves[p->curve_count] = *from;
        p->curves[p->curve_count++].points = points;
    }
    return p->curves != NULL;
}

static bool fill_provenance(struct profile *p, const char *machine, const struct crew *crew,
                            const struct profiler_options *o)
{
    char created[HOST_TIME_BYTES];
    host_time_text(created);
    p->machine = arena_strdup(&p->arena, machine);
    p->backend = arena_strdup(&p->arena, o->backend);
    p->transport = arena_strdup(&p->arena, crew->transports[0].name);
    p->software = arena_strdup(&p->arena, o->software);
    p->created = arena_strdup(&p->arena, created);
    p->dtype = crew->dtype;
    return p->machine && p->backend && p->transport && p->software && p->created;
}

/* What the crew's runs found, or knew before. */
static bool fill_tuned(struct profile *p, const struct gpu_learned *learned)
{
    static const struct gpu_choices none;
    p->tuned_device = arena_strdup(&p->arena, learned->device);
    return p->tuned_device && gpu_choices_join(&p->tuned, &p->arena, &none, &learned->choices);
}

static struct profile *assemble(struct parts *parts, const char *machine, const struct crew *crew,
                                const struct profiler_options *o, const struct profile *existing)
{
    struct profile *p = calloc(1, sizeof *p);
    int loaded = crew->rank_count;
    if (!p || !fill_provenance(p, machine, crew, o) || !fill_compute(p, &parts->compute.harvest.compute, loaded) ||
        !fill_linear(p, &parts->compute.harvest.linear, loaded, existing) || !fill_curves(p, &parts->sweep) ||
        !fill_tuned(p, crew->learned)) {
        profile_free(p);
        return NULL;
    }
    p->compute_under_communication = parts->contention.compute_under_communication;
    p->communication_under_compute = parts->contention.communication_under_compute;
    p->compute_under_communication_spread = parts->contention.compute_under_communication_spread;
    p->communication_under_compute_spread = parts->contention.communication_under_compute_spread;
    p->factors_origin = parts->factors_origin;
    p->instruction_ns = parts->instruction_ns;
    p->memory_outside_arena_bytes = max_i64(0, parts->compute.outside.bytes);
    memcpy(p->memory_part_bytes, parts->compute.outside.part, sizeof p->memory_part_bytes);
    p->memory_origin = parts->compute.outside.bytes >= 0 ? ORIGIN_MEASURED : ORIGIN_ANALYTIC;
    return p;
}

/* What was not measured again keeps its old value. */
static bool finish(struct profile **out, struct profile *made, const struct profile *existing,
                   const struct parts *parts, struct error *err)
{
    if (existing && parts->compute.run_count == 0) {
        made->memory_outside_arena_bytes = existing->memory_outside_arena_bytes;
        memcpy(made->memory_part_bytes, existing->memory_part_bytes, sizeof made->memory_part_bytes);
        made->memory_origin = existing->memory_origin;
    }
    if (!profile_finish(made, err))
        return false;
    if (existing)
        return profile_merge(out, existing, made, err);
    *out = made;
    return true;
}

/* ---- measuring ---- */
/* Of the model's largest weight: gradients are reduced in pieces no smaller than a weight. */
static bool largest_weight_bytes(int64_t *out, const struct profiler_options *o, enum dtype dtype, struct error *err)
{
    enum { PAD = 128 };
    struct graph *graph;
    if (!graph_build(&graph, o->model, 1, o->sequence, PAD, err))
        return false;
    *out = 0;
    for (int i = 0; i < graph->weight_count; i++)
        *out = max_i64(*out, weight_elements(&graph->weights[i]) * gradient_bytes_per_element(dtype));
    graph_free(graph);
    return true;
}

/* Where nothing was seen side by side: on the processor threads that compute and threads that transfer share the cores
 * that they outnumber, as if both were always busy. */
static void share_cores(struct contention *out, const struct crew *crew)
{
    struct host_machine host;
    host_machine_read(&host);
    double share = crew->rank_count < 2 || crew->device ? 1 : fmin(2, fmax(1, 2.0 * crew->rank_count / host.cores));
    if (out->compute_samples == 0)
        out->compute_under_communication = share;
    if (out->communication_samples == 0)
        out->communication_under_compute = share;
}

/* Factors of exactly 1 are those of a profile without them. */
static bool measure_contention(struct parts *parts, const struct crew *crew, double budget_s,
                               const struct profile *existing, struct error *err)
{
    struct contention *out = &parts->contention;
    if (!existing || (existing->compute_under_communication <= 1 && existing->communication_under_compute <= 1)) {
        if (!contention_measure(out, crew, budget_s, err))
            return false;
        share_cores(out, crew);
        bool measured = out->compute_samples > 0 && out->communication_samples > 0;
        parts->factors_origin = measured ? ORIGIN_MEASURED : ORIGIN_ANALYTIC;
        parts->factors_assumed = crew->rank_count > 1 && !measured;
        return true;
    }
    *out = (struct contention){ .compute_under_communication = existing->compute_under_communication,
                                .communication_under_compute = existing->communication_under_compute,
                                .compute_under_communication_spread = existing->compute_under_communication_spread,
                                .communication_under_compute_spread = existing->communication_under_compute_spread };
    parts->factors_origin = existing->factors_origin;
    return true;
}

static bool measure(struct parts *parts, const struct crew *crew, const struct profiler_options *o,
                    const struct profile *existing, int64_t memory_bytes, struct error *err)
{
    const int64_t most = INT64_C(1) << 28;
    int64_t largest;
    if (!largest_weight_bytes(&largest, o, crew->dtype, err))
        return false;
    struct sweep_options sweep = { .existing = existing,
                                   .largest_bytes = min_i64(most, largest),
                                   .budget_s = o->time_limit_s * SWEEP_SHARE,
                                   .context = o->context,
                                   .on_progress = o->on_progress };
    struct compute_options compute = { .model = o->model,
                                       .sequence = o->sequence,
                                       .batch = o->batch,
                                       .dims = o->dims,
                                       .existing = existing,
                                       .memory_limit_bytes = (int64_t)((double)memory_bytes * MEMORY_SHARE),
                                       .budget_s = o->time_limit_s * COMPUTE_SHARE,
                                       .context = o->context,
                                       .on_progress = o->on_progress };
    return (!crew->device || device_times_empty(&parts->instruction_ns, crew, err)) &&
           sweep_measure(&parts->sweep, crew, &sweep, err) &&
           measure_contention(parts, crew, o->time_limit_s * CONTENTION_SHARE, existing, err) &&
           compute_measure(&parts->compute, crew, &compute, err) &&
           memory_work_measure(&parts->compute.harvest, crew, existing, err);
}

static void fill_report(struct profiler_report *report, const struct parts *parts)
{
    report->case_count = parts->compute.run_count;
    report->known_case_count = parts->compute.known_count;
    report->dropped_case_count = parts->compute.dropped_count;
    report->dropped_micro = parts->compute.dropped_micro;
    report->curve_count = parts->sweep.curve_count;
    report->known_curve_count = parts->sweep.known_count;
    report->compute_samples = parts->contention.compute_samples;
    report->communication_samples = parts->contention.communication_samples;
    report->factors_assumed = parts->factors_assumed;
}

/* With what an earlier profile knows of the crew's devices. */
static bool recall(struct gpu_learned *learned, const struct profile *existing, struct error *err)
{
    static const struct gpu_choices none;
    if (!existing || strlen(existing->tuned_device) >= sizeof learned->device)
        return true;
    strcpy(learned->device, existing->tuned_device);
    return gpu_choices_join(&learned->choices, &learned->arena, &none, &existing->tuned) ||
           fail_kind(err, ERROR_ENVIRONMENT, "no memory for %d choices", existing->tuned.count);
}

static bool measure_all(struct profile **out, struct profiler_report *report, const struct crew *crew,
                        const struct profiler_options *options, struct error *err)
{
    struct host_machine host;
    char machine[2 * HOST_TEXT_BYTES];
    struct parts parts = { 0 };
    struct reference before = { 0 }, after = { 0 };
    struct profile *made = NULL;
    const struct profile *existing = options->existing;
    int64_t start = clock_now_ns();
    if (options->model->opaque)
        return fail_kind(err, ERROR_INPUT, "model %s has given times and no mathematics: there is nothing to measure",
                         options->model->name);
    for (int l = 0; l < options->model->layer_count; l++)
        if (options->model->layers[l].kind->planned)
            return fail_kind(err, ERROR_INPUT, "layer %s of %s is for planning, no device computes it yet",
                             options->model->layers[l].name, options->model->name);
    *report = (struct profiler_report){ 0 };
    host_machine_read(&host);
    host_machine_text(&host, machine, sizeof machine);
    if (options->machine)
        snprintf(machine, sizeof machine, "%s", options->machine);
    if (existing && (report->existing_refused = refuse(existing, machine, crew, options->backend)))
        existing = NULL;
    double reference_s = fmin(REFERENCE_S, REFERENCE_SHARE * options->time_limit_s);
    bool ok = recall(crew->learned, existing, err) && reference_measure(&before, crew->local_count, reference_s, err) &&
              measure(&parts, crew, options, existing,
                      options->memory_bytes ? options->memory_bytes : host.memory_bytes, err) &&
              reference_measure(&after, crew->local_count, reference_s, err);
    report->reference_before_ns = before.ns, report->reference_after_ns = after.ns;
    report->processor_share = fmin(before.share, after.share);
    *out = NULL;
    if (ok && crew_leads(crew)) {
        fill_report(report, &parts);
        made = assemble(&parts, machine, crew, options, existing);
        if (made)
            made->reference_ns = (before.ns + after.ns) / 2, made->reference_ranks = crew->rank_count;
        ok = made ? finish(out, made, existing, &parts, err)
                  : fail_kind(err, ERROR_ENVIRONMENT, "no memory for the profile");
    }
    if (made != *out || !ok)
        profile_free(made);
    if (!ok)
        *out = NULL;
    parts_free(&parts);
    report->seconds = (double)(clock_now_ns() - start) / 1e9;
    return ok;
}

bool profiler_measure(struct profile **out, struct profiler_report *report, const struct crew *crew,
                      const struct profiler_options *options, struct error *err)
{
    struct gpu_learned learned;
    struct crew learning = *crew;
    gpu_learned_open(&learned);
    learning.learned = &learned;
    bool ok = measure_all(out, report, &learning, options, err);
    gpu_learned_close(&learned);
    return ok;
}
