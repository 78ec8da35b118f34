#define _GNU_SOURCE
#include "benchmarks/compare.h"
#include "executor/backends.h"
#include "base/num.h"
#include "planner/layout/contents.h"
#include "planner/layout/layout.h"
#include "planner/lower/lower.h"
#include "planner/verify/verify.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void entry_free(struct compare_entry *e)
{
    timeline_free(e->predicted);
    estimate_free(e->estimate);
    free(e->memory);
    timeline_free(e->measured);
    program_free(e->program);
    plan_free(e->plan);
    graph_free(e->graph);
    free(e->runs);
    free(e->file);
    free(e->samples_ns);
    free(e->losses);
    free(e->peak_bytes);
    free(e->predicted_bytes);
    *e = (struct compare_entry){ 0 };
}

static void run_free(struct compare_run *run)
{
    timeline_free(run->timeline);
    free(run->samples_ns);
    *run = (struct compare_run){ 0 };
}

void comparison_free(struct comparison *c)
{
    for (int i = 0; i < c->count; i++)
        entry_free(&c->entries[i]);
    for (int i = 0; i < c->run_count; i++)
        run_free(&c->measured[i]);
    free(c->reference_ns);
    free(c->runs);
    free(c->measured);
    *c = (struct comparison){ 0 };
}

static bool add_sample(int64_t **samples, int *count, int64_t value)
{
    int64_t *longer = realloc(*samples, (size_t)(*count + 1) * sizeof *longer);
    if (!longer)
        return false;
    *samples = longer;
    longer[(*count)++] = value;
    return true;
}

/* The value at a fraction of the sorted samples; -1: out of memory. */
static int64_t quantile(const int64_t *samples, int count, double fraction)
{
    int64_t *sorted = malloc((size_t)count * sizeof *sorted);
    if (!sorted)
        return -1;
    memcpy(sorted, samples, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, compare_i64);
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
           lower_program(&e->program, e->graph, plan, err) && layout_program(e->program, err) &&
           verify_program(e->program, err) && estimate_timeline(&e->estimate, &e->predicted, e->program, facts, err) &&
           timeline_is_counted(e->estimate->prediction.step_ns, err);
}

/* What each stage holds when most lives. */
static bool find_memory(struct compare_entry *e, struct error *err)
{
    struct contents contents;
    e->memory = calloc((size_t)e->program->stage_count, sizeof *e->memory);
    bool good = contents_open(&contents, e->program, err) && (e->memory || fail_memory(err));
    for (int s = 0; good && s < e->program->stage_count; s++)
        good = contents_find(&e->memory[s], &contents, s, err);
    contents_close(&contents);
    return good;
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
    *e = (struct compare_entry){ .chosen = chosen, .plan = plan, .cluster = facts->cluster };
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
        e->predicted_bytes[r] = e->program->stages[plan_stage_of_rank(plan, r)].arena_bytes;
    return find_memory(e, err);
}

/* ---- one run of one plan ---- */
struct watch {
    struct compare_entry *entry;
    struct compare_run *run;
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
        w->run->first_ns = step->step_ns;
    else
        w->failed |= !add_sample(&w->run->samples_ns, &w->run->sample_count, step->step_ns);
}

static void keep(struct compare_entry *e, struct compare_run *run, struct run_summary *summary)
{
    for (int r = 0; summary->peak_bytes && r < summary->rank_count; r++)
        e->peak_bytes[r] = max_i64(e->peak_bytes[r], summary->peak_bytes[r]);
    run->timeline = summary->timeline;
    summary->timeline = NULL;
}

static bool run_once(struct compare_run *out, struct compare_entry *e, const struct compare_options *o, int round,
                     struct error *err)
{
    struct transport_set set = { 0 };
    struct run_summary summary = { 0 };
    struct run_options run = *o->run;
    run.module_dir = o->module_dir;
    struct watch watch = { .entry = e, .run = out, .first_step = 1, .first_round = round == 0 };
    run.context = &watch;
    run.on_step = on_step;
    run.mute_instr = -1;
    const struct transport_options transport = { .module_dir = o->module_dir, .shape = o->shape };
    if (!transports_open(&set, o->transport, e->plan->rank_count, &transport, err))
        return false;
    bool ok = run_program(&summary, e->program, set.transports, set.count, &run, err);
    transports_close(&set);
    if (ok)
        keep(e, out, &summary);
    run_summary_free(&summary);
    return ok && (!watch.failed || fail_kind(err, ERROR_ENVIRONMENT, "out of memory"));
}

/* ---- rounds ---- */
static bool note_reference(struct comparison *c, const struct compare_options *o, struct error *err)
{
    int64_t ns;
    if (!o->reference)
        return true;
    return o->reference(o->context, &ns, err) && (add_sample(&c->reference_ns, &c->reference_count, ns) ||
                                                  fail_kind(err, ERROR_ENVIRONMENT, "out of memory"));
}

static bool add_run(struct comparison *c, int plan, const struct compare_run *run)
{
    struct band_run *runs = realloc(c->runs, (size_t)(c->run_count + 1) * sizeof *runs);
    c->runs = runs ? runs : c->runs;
    struct compare_run *measured = realloc(c->measured, (size_t)(c->run_count + 1) * sizeof *measured);
    c->measured = measured ? measured : c->measured;
    if (!runs || !measured)
        return false;
    runs[c->run_count] = (struct band_run){ .plan = plan, .reference = c->reference_count - 1 };
    measured[c->run_count++] = *run;
    return true;
}

/* A plan that fails is not run again, and its reason stands in its entry. */
static bool run_plan(struct comparison *c, const struct compare_options *o, int plan, int round, struct error *err)
{
    struct compare_run run = { 0 };
    struct compare_entry *e = &c->entries[plan];
    struct error cause = { 0 };
    if (!run_once(&run, e, o, round, &cause)) {
        snprintf(e->failure, sizeof e->failure, "%s", cause.message);
        run_free(&run);
    } else if (!add_run(c, plan, &run)) {
        run_free(&run);
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    }
    return note_reference(c, o, err);
}

static struct band choose(const struct comparison *c, const struct compare_options *o, int64_t known_ns)
{
    int wanted[REPORT_MAX_PLANS];
    for (int i = 0; i < c->count; i++)
        wanted[i] = c->entries[i].failure[0] ? 0 : o->rounds;
    return band_choose(&(struct band_runs){ .reference_ns = c->reference_ns,
                                            .runs = c->runs,
                                            .wanted = wanted,
                                            .reference_count = c->reference_count,
                                            .run_count = c->run_count,
                                            .plan_count = c->count,
                                            .width = o->steady,
                                            .known_ns = known_ns });
}

/* *enough: whether the runs so far will do. */
static bool run_round(struct comparison *c, const struct compare_options *o, int round, bool *enough, struct error *err)
{
    for (int i = 0; i < c->count && !*enough; i++) {
        int plan = (i + round) % c->count; /* each round begins with another plan */
        if (c->entries[plan].failure[0])
            continue;
        if (o->on_progress)
            o->on_progress(o->context, c->entries[plan].name, round * c->count + i,
                           (round < o->rounds ? o->rounds : round + 1) * c->count);
        if (!run_plan(c, o, plan, round, err))
            return false;
        if (o->steady > 0) {
            c->band = choose(c, o, o->known_reference_ns);
            *enough = c->band.missing == 0;
        }
    }
    return true;
}

/* ---- which runs count ---- */
static bool run_counts(const struct comparison *c, int run)
{
    return c->reference_count == 0 || band_has(&c->band, c->reference_ns, &c->runs[run]);
}

static bool reference_counts(const struct comparison *c, int reference)
{
    for (int i = 0; i < c->run_count; i++)
        if ((c->runs[i].reference == reference || c->runs[i].reference + 1 == reference) && run_counts(c, i))
            return true;
    return false;
}

/* The timeline nearest to the median: reports show a typical step. */
static void keep_typical(struct comparison *c, int plan)
{
    struct compare_entry *e = &c->entries[plan];
    int64_t median = compare_median(e->samples_ns, e->sample_count);
    struct compare_run *typical = NULL;
    for (int i = 0; i < c->run_count; i++) {
        struct compare_run *run = &c->measured[i];
        if (c->runs[i].plan == plan && run->timeline && run_counts(c, i) &&
            (!typical || llabs(run->timeline->step_ns - median) < llabs(typical->timeline->step_ns - median)))
            typical = run;
    }
    if (typical) {
        e->measured = typical->timeline;
        typical->timeline = NULL;
    }
}

/* Adds a run to what reports show of its plan. */
static bool list_run(const struct comparison *c, struct compare_entry *e, int index)
{
    const struct compare_run *run = &c->measured[index];
    int count = e->run_count + e->left_out_count, before = c->runs[index].reference;
    struct report_run *runs = realloc(e->runs, (size_t)(count + 1) * sizeof *runs);
    if (!runs)
        return false;
    e->runs = runs;
    runs[count] = (struct report_run){ .counts = run_counts(c, index),
                                       .first_ns = run->first_ns,
                                       .step_count = run->sample_count,
                                       .steps_ns = run->samples_ns };
    if (before >= 0 && before + 1 < c->reference_count) {
        runs[count].before_ns = c->reference_ns[before];
        runs[count].after_ns = c->reference_ns[before + 1];
    }
    return true;
}

static bool gather(struct comparison *c, struct error *err)
{
    for (int i = 0; i < c->run_count; i++) {
        struct compare_entry *e = &c->entries[c->runs[i].plan];
        bool counts = run_counts(c, i);
        if (!list_run(c, e, i))
            return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
        e->run_count += counts;
        e->left_out_count += !counts;
        for (int s = 0; counts && s < c->measured[i].sample_count; s++)
            if (!add_sample(&e->samples_ns, &e->sample_count, c->measured[i].samples_ns[s]))
                return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    }
    for (int plan = 0; plan < c->count; plan++)
        keep_typical(c, plan);
    return true;
}

struct report_speed comparison_speed(const struct comparison *c)
{
    struct report_speed speed = { 0 };
    int64_t low = INT64_MAX, high = 0, *counted = calloc((size_t)c->reference_count + 1, sizeof *counted);
    for (int i = 0; counted && i < c->reference_count; i++)
        if (reference_counts(c, i)) {
            counted[speed.reference_count++] = c->reference_ns[i];
            low = min_i64(low, c->reference_ns[i]);
            high = max_i64(high, c->reference_ns[i]);
        }
    speed.reference_ns = compare_median(counted, speed.reference_count);
    speed.drift = high > 0 ? (double)(high - low) / (double)low : 0;
    free(counted);
    return speed;
}

/* Not even if runs counted twice as often as so far would all rounds be enough. */
static bool is_hopeless(const struct comparison *c, const struct compare_options *o, int round, int rounds)
{
    int64_t wanted = 0;
    for (int i = 0; i < c->count; i++)
        wanted += c->entries[i].failure[0] ? 0 : o->rounds;
    return o->steady > 0 && 2 * (int64_t)c->band.run_count * rounds < wanted * round;
}

/* Of all references, whether runs beside them count or not. */
static int64_t median_reference(const struct comparison *c)
{
    int64_t median_ns = 0, *all = calloc((size_t)c->reference_count + 1, sizeof *all);
    for (int i = 0; all && i < c->reference_count; i++)
        all[i] = c->reference_ns[i];
    if (all)
        median_ns = compare_median(all, c->reference_count);
    free(all);
    return median_ns;
}

static bool another_speed(struct comparison *c, const struct compare_options *o, struct error *err)
{
    char then[TEXT_NUMBER_BYTES], now[TEXT_NUMBER_BYTES];
    int known_count = c->band.run_count;
    c->band = choose(c, o, 0);
    return fail_kind(err, ERROR_ENVIRONMENT,
                     "--steady %g: the machine is not as fast as when the profile was made, of which predictions "
                     "speak: the reference product took %s then and takes %s now; %d of %d runs agree with the "
                     "profile, %d with each other: profile again (cleave profile), then compare",
                     100 * o->steady, text_duration_ns(then, o->known_reference_ns),
                     text_duration_ns(now, median_reference(c)), known_count, c->run_count, c->band.run_count);
}

static bool not_steady(const struct comparison *c, const struct compare_options *o, int rounds, struct error *err)
{
    char low[TEXT_NUMBER_BYTES], high[TEXT_NUMBER_BYTES], known[TEXT_NUMBER_BYTES];
    int64_t least = INT64_MAX, most = 0;
    for (int i = 0; i < c->reference_count; i++) {
        least = min_i64(least, c->reference_ns[i]);
        most = max_i64(most, c->reference_ns[i]);
    }
    text_duration_ns(known, o->known_reference_ns);
    return fail_kind(err, ERROR_ENVIRONMENT,
                     "--steady %g: the machine was not steady: in %d round%s the reference product took %s to %s, and "
                     "the best band of %g %%%s%s holds %d of %d runs, %d too few for %d of each plan: run it again "
                     "when nothing else runs, or give fewer --steps or a larger --steady",
                     100 * o->steady, rounds, rounds == 1 ? "" : "s", text_duration_ns(low, least),
                     text_duration_ns(high, most), 100 * o->steady, o->known_reference_ns ? " with the profile's " : "",
                     o->known_reference_ns ? known : "", c->band.run_count, c->run_count, c->band.missing, o->rounds);
}

bool comparison_run(struct comparison *c, const struct compare_options *o, struct error *err)
{
    bool enough = false;
    int round = 0, rounds = o->rounds * (o->steady > 0 ? STEADY_ROUNDS : 1);
    c->band = (struct band){ .low_ns = 0, .high_ns = INT64_MAX };
    if (!note_reference(c, o, err))
        return false;
    for (; round < rounds && !enough; round++) {
        if (round >= o->rounds && is_hopeless(c, o, round, rounds))
            break;
        if (!run_round(c, o, round, &enough, err))
            return false;
    }
    if (c->band.missing == 0)
        return gather(c, err);
    bool other = o->known_reference_ns > 0 && (c->band.run_count == 0 || choose(c, o, 0).missing == 0);
    return other ? another_speed(c, o, err) : not_steady(c, o, round, err);
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
            .parameters = e->graph ? (double)graph_parameter_count(e->graph) : 0,
            .run_count = e->run_count,
            .left_out_count = e->left_out_count,
            .timed_step_count = e->sample_count,
            .runs = e->runs,
            .file = e->file,
            .origin = e->origin,
            .plan = e->plan,
            .cluster = e->cluster,
            .memory = e->memory,
            .prediction = e->estimate ? &e->estimate->prediction : NULL,
        };
        if (e->predicted && e->program)
            breakdown(e->program, e->predicted, plans[i].predicted_breakdown_ns);
        if (e->measured)
            breakdown(e->program, e->measured, plans[i].measured_breakdown_ns);
    }
}
