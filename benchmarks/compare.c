#define _GNU_SOURCE
#include "benchmarks/compare.h"
#include "executor/backends.h"
#include "base/num.h"
#include "planner/sim/simulate.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void entry_free(struct compare_entry *e)
{
    timeline_free(e->predicted);
    timeline_free(e->measured);
    program_free(e->program);
    plan_free(e->plan);
    graph_free(e->graph);
    free(e->samples_ns);
    free(e->losses);
    free(e->peak_bytes);
    free(e->predicted_bytes);
    *e = (struct compare_entry){ 0 };
}

void comparison_free(struct comparison *c)
{
    for (int i = 0; i < c->count; i++)
        entry_free(&c->entries[i]);
    c->count = 0;
}

static int compare_ns(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The value at a fraction of the sorted samples; -1: out of memory. */
static int64_t quantile(const int64_t *samples, int count, double fraction)
{
    int64_t *sorted = malloc((size_t)count * sizeof *sorted);
    if (!sorted)
        return -1;
    memcpy(sorted, samples, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, compare_ns);
    double at = fraction * (count - 1);
    int low = (int)at;
    int64_t value = sorted[low];
    if (low + 1 < count)
        value += (int64_t)((at - low) * (double)(sorted[low + 1] - sorted[low]));
    free(sorted);
    return value;
}

int64_t compare_median(const int64_t *samples, int count)
{
    return count > 0 ? quantile(samples, count, 0.5) : 0;
}

double compare_spread(const int64_t *samples, int count)
{
    int64_t median = compare_median(samples, count);
    return median > 0 ? (double)(quantile(samples, count, 0.75) - quantile(samples, count, 0.25)) / (double)median : 0;
}

static bool lower(struct compare_entry *e, const struct model *model, const struct facts *facts, struct error *err)
{
    const struct plan *plan = e->plan;
    return plan_graph(&e->graph, model, plan, err) && plan_check(plan, e->graph, err) &&
           program_lower(&e->program, e->graph, plan, err) && program_layout(e->program, err) &&
           program_verify(e->program, err) && simulate(&e->predicted, facts, e->program, err);
}

bool comparison_add(struct comparison *c, const char *name, const char *description, bool chosen,
                    const struct model *model, struct plan *plan, const struct facts *facts, struct error *err)
{
    struct error cause = { 0 };
    if (c->count == REPORT_MAX_PLANS) {
        plan_free(plan);
        return fail(err, "more than %d plans to compare", REPORT_MAX_PLANS);
    }
    struct compare_entry *e = &c->entries[c->count++];
    *e = (struct compare_entry){ .chosen = chosen, .plan = plan };
    snprintf(e->name, sizeof e->name, "%s", name);
    snprintf(e->description, sizeof e->description, "%s", description);
    e->peak_bytes = calloc((size_t)plan->rank_count, sizeof *e->peak_bytes);
    e->predicted_bytes = calloc((size_t)plan->rank_count, sizeof *e->predicted_bytes);
    if (!e->peak_bytes || !e->predicted_bytes)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    if (!lower(e, model, facts, &cause)) {
        snprintf(e->failure, sizeof e->failure, "%s", cause.message);
        program_free(e->program);
        e->program = NULL;
        return true;
    }
    for (int r = 0; r < plan->rank_count; r++)
        e->predicted_bytes[r] = e->program->stages[stage_of_rank(plan, r)].arena_bytes;
    return true;
}

/* ---- one run of one plan ---- */
struct watch {
    struct compare_entry *entry;
    int64_t first_step; /* whose time is left out */
    bool first_round;
    bool failed;
};

static void on_step(void *context, const struct run_step *step)
{
    struct watch *w = context;
    struct compare_entry *e = w->entry;
    int index = e->step_count;
    e->step_count += w->first_round;
    if (w->first_round && step->has_loss) {
        double *losses = realloc(e->losses, (size_t)(index + 1) * sizeof *losses);
        w->failed |= !losses;
        if (losses) {
            e->losses = losses;
            losses[index] = step->loss;
        }
    }
    if (step->step == w->first_step)
        return;
    int64_t *samples = realloc(e->samples_ns, (size_t)(e->sample_count + 1) * sizeof *samples);
    w->failed |= !samples;
    if (samples) {
        e->samples_ns = samples;
        samples[e->sample_count++] = step->step_ns;
    }
}

/* Keeps the timeline nearest to the median so far: reports show a typical step. */
static void keep_timeline(struct compare_entry *e, struct run_summary *summary)
{
    struct timeline *timeline = summary->timeline;
    int64_t away = timeline ? llabs(timeline->step_ns - compare_median(e->samples_ns, e->sample_count)) : 0;
    for (int r = 0; summary->peak_bytes && r < summary->rank_count; r++)
        e->peak_bytes[r] = max_i64(e->peak_bytes[r], summary->peak_bytes[r]);
    if (!timeline || (e->measured && away >= e->measured_key_ns))
        return;
    timeline_free(e->measured);
    e->measured = timeline;
    e->measured_key_ns = away;
    summary->timeline = NULL;
}

static bool run_once(struct compare_entry *e, const struct compare_options *o, int round, struct error *err)
{
    struct transport_set set = { 0 };
    struct run_summary summary = { 0 };
    struct run_options run = *o->run;
    run.module_dir = o->module_dir;
    struct watch watch = { .entry = e, .first_step = 1, .first_round = round == 0 };
    run.context = &watch;
    run.on_step = on_step;
    run.mute_instr = -1;
    const struct transport_options transport = { .module_dir = o->module_dir, .shape = o->shape };
    if (!transports_open(&set, o->transport, e->plan->rank_count, &transport, err))
        return false;
    bool ok = run_program(&summary, e->program, set.transports, set.count, &run, err);
    transports_close(&set);
    if (ok)
        keep_timeline(e, &summary);
    run_summary_free(&summary);
    return ok && (!watch.failed || fail_kind(err, ERROR_ENVIRONMENT, "out of memory"));
}

static bool note_reference(struct comparison *c, const struct compare_options *o, struct error *err)
{
    if (!o->reference || c->reference_count == 64)
        return true;
    return o->reference(&c->reference_ns[c->reference_count++], err);
}

bool comparison_run(struct comparison *c, const struct compare_options *o, struct error *err)
{
    for (int round = 0; round < o->rounds; round++) {
        if (!note_reference(c, o, err))
            return false;
        for (int i = 0; i < c->count; i++) {
            struct compare_entry *e = &c->entries[(i + round) % c->count]; /* each round begins with another plan */
            struct error cause = { 0 };
            if (e->failure[0])
                continue;
            if (o->on_progress)
                o->on_progress(o->context, e->name, round * c->count + i, o->rounds * c->count);
            if (!run_once(e, o, round, &cause))
                snprintf(e->failure, sizeof e->failure, "%s", cause.message);
        }
    }
    return note_reference(c, o, err);
}

double comparison_drift(const struct comparison *c)
{
    int64_t low = INT64_MAX, high = 0;
    for (int i = 0; i < c->reference_count; i++) {
        low = min_i64(low, c->reference_ns[i]);
        high = max_i64(high, c->reference_ns[i]);
    }
    return high > 0 ? (double)(high - low) / (double)low : 0;
}

static void breakdown(const struct program *program, const struct timeline *timeline, int64_t ns[TIME_KIND_COUNT])
{
    timeline_breakdown(program, timeline, timeline_last_rank(timeline), ns);
}

void comparison_report(const struct comparison *c, struct report_plan plans[REPORT_MAX_PLANS])
{
    for (int i = 0; i < c->count; i++) {
        const struct compare_entry *e = &c->entries[i];
        plans[i] = (struct report_plan){
            .name = e->name,
            .description = e->description,
            .chosen = e->chosen,
            .failure = e->failure[0] ? e->failure : NULL,
            .program = e->program,
            .predicted = e->predicted,
            .measured = e->measured,
            .predicted_step_ns = e->predicted ? e->predicted->step_ns : 0,
            .measured_step_ns = compare_median(e->samples_ns, e->sample_count),
            .measured_spread = compare_spread(e->samples_ns, e->sample_count),
            .rank_count = e->plan->rank_count,
            .predicted_peak_bytes = e->predicted_bytes,
            .measured_peak_bytes = e->sample_count ? e->peak_bytes : NULL,
            .step_count = e->step_count,
            .losses = e->losses,
            .tokens_per_step = (double)e->plan->batch * (double)e->plan->sequence,
        };
        if (e->predicted && e->program)
            breakdown(e->program, e->predicted, plans[i].predicted_breakdown_ns);
        if (e->measured)
            breakdown(e->program, e->measured, plans[i].measured_breakdown_ns);
    }
}
