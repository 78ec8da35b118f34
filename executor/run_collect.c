/* What rank 0 collects: losses, steps' durations, the measured timeline. The compute lane never talks, so its channel
 * is free. */
#include "base/num.h"
#include "executor/run_parts.h"
#include "executor/settle.h"
#include "host/clock.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool send_to_first(const struct transport *t, const void *data, size_t bytes, struct error *err)
{
    return t->exchange(t->self, LANE_COMPUTE, 0, data, bytes, -1, NULL, 0, err);
}

static bool receive_from(const struct transport *t, int rank, void *data, size_t bytes, struct error *err)
{
    return t->exchange(t->self, LANE_COMPUTE, -1, NULL, 0, rank, data, bytes, err);
}

bool run_pay_words(struct rank_thread *thread, struct error *err)
{
    if (!thread->owes_words)
        return true;
    thread->owes_words = false;
    return send_to_first(thread->transport, &thread->owed, sizeof thread->owed, err) &&
           (!thread->saver || receive_from(thread->transport, 0, &thread->order, sizeof thread->order, err));
}

static bool send_orders(struct rank_thread *thread, int64_t steps_done, struct error *err)
{
    const struct transport *t = thread->transport;
    bool later = thread->run->steady; /* others are in the next step already */
    if (!saver_decide(thread->saver, steps_done, later, &thread->order, err))
        return false;
    for (int r = 1; r < t->rank_count; r++)
        if (!t->exchange(t->self, LANE_COMPUTE, r, &thread->order, sizeof thread->order, -1, NULL, 0, err))
            return false;
    return true;
}

/* What is recorded takes longer; of two steps the second one counts all the same. */
static bool is_slowed(const struct run *run, int64_t step)
{
    const struct run_options *o = &run->options;
    return o->kernels && step + 1 == o->step_count && step > run->summary->first_step;
}

bool run_report_step(struct rank_thread *thread, int64_t step, int64_t *before_ns, struct error *err)
{
    struct run *run = thread->run;
    const struct transport *t = thread->transport;
    struct step_words words = { .loss = rank_loss(thread->rank) };
    if (thread->saver && !saver_word(thread->saver, &words.save, err))
        return false;
    if (t->rank > 0) {
        thread->owes_words = true;
        thread->owed = words;
        return run->steady || run_pay_words(thread, err);
    }
    double loss = words.loss;
    for (int r = 0; r < t->rank_count; r++) {
        if (r > 0 && !receive_from(t, r, &words, sizeof words, err))
            return false;
        loss += r > 0 ? words.loss : 0;
        if (thread->saver)
            saver_hear(thread->saver, r, &words.save);
    }
    if (thread->saver && !send_orders(thread, step + 1, err))
        return false;
    bool has_loss = run->options.device->computes;
    if (!has_loss)
        loss = (double)NAN;
    int64_t now = clock_now_ns(), step_ns = now - *before_ns;
    *before_ns = now;
    struct run_summary *s = run->summary;
    if (step + 1 == s->first_step)
        s->first_loss = loss, s->step_ns_median = step_ns;
    else if (!is_slowed(run, step)) /* the first step touches fresh memory */
        step_times_add(&run->step_times, step_ns);
    s->has_loss = has_loss;
    s->last_loss = loss;
    s->last_step = step + 1;
    double tokens = (double)run->program->plan->batch * (double)run->program->plan->sequence;
    struct run_step report = { .step = step + 1,
                               .has_loss = has_loss,
                               .loss = loss,
                               .step_ns = step_ns,
                               .tokens_per_s = tokens * 1e9 / (double)step_ns };
    if (run->options.on_step)
        run->options.on_step(run->options.context, &report);
    return true;
}

struct rank_report {
    int64_t peak_bytes, host_peak_bytes, step_start_ns, choices, dropped;
    double squared_norm; /* the same on all ranks but those that update nothing: there 0 */
    struct memory_outside outside;
};

/* ---- what ran on the devices ---- */
static bool send_activity(const struct rank_thread *thread, struct error *err)
{
    const struct rank_activity *a = &thread->rank->activity;
    return send_to_first(thread->transport, &a->counts, sizeof a->counts, err) &&
           (a->counts.count == 0 ||
            send_to_first(thread->transport, a->list, (size_t)a->counts.count * sizeof *a->list, err));
}

/* Lanes and kinds are places in tables. */
static bool check_activity(const struct rank_activity *a, int instr_count)
{
    bool ok = true;
    for (int64_t i = 0; i < a->counts.count; i++) {
        struct activity *x = &a->list[i];
        ok = ok && is_index(x->lane, ACTIVITY_LANE_COUNT) && is_index(x->kind, ACTIVITY_KIND_COUNT) && x->instr >= -1 &&
             x->instr < instr_count;
        x->name[ACTIVITY_NAME_BYTES - 1] = '\0';
    }
    return ok;
}

static bool add_activity(const struct rank_thread *thread, struct timeline *timeline, int rank, struct error *err)
{
    const struct rank_activity *own = &thread->rank->activity;
    struct rank_activity a = { .counts = own->counts };
    if (rank > 0 && !receive_from(thread->transport, rank, &a.counts, sizeof a.counts, err))
        return false;
    if (a.counts.count < 0 || a.counts.count > INT64_MAX / (int64_t)sizeof *a.list)
        return fail_kind(err, ERROR_ENVIRONMENT, "rank %d sent %lld records", rank, (long long)a.counts.count);
    a.list = arena_alloc(&timeline->arena, (size_t)a.counts.count + 1, sizeof *a.list);
    if (!a.list)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for what ran on rank %d", rank);
    const size_t bytes = (size_t)a.counts.count * sizeof *a.list;
    if (rank == 0 && bytes > 0)
        memcpy(a.list, own->list, bytes);
    if (rank > 0 && bytes > 0 && !receive_from(thread->transport, rank, a.list, bytes, err))
        return false;
    if (!check_activity(&a, timeline->ranks[rank].span_count))
        return fail_kind(err, ERROR_ENVIRONMENT, "rank %d sent records that are none", rank);
    timeline->ranks[rank].activity = a;
    return true;
}

static bool add_rank(struct rank_thread *thread, struct timeline *timeline, int rank, struct rank_report *report,
                     struct error *err)
{
    const struct program *program = thread->run->program;
    const struct transport *t = thread->transport;
    int stage = plan_stage_of_rank(program->plan, rank), count = program->stages[stage].instr_count;
    struct rank_timeline *row = &timeline->ranks[rank];
    *row = (struct rank_timeline){ .rank = rank, .stage = stage, .span_count = count };
    row->spans = arena_alloc(&timeline->arena, (size_t)count, sizeof *row->spans);
    if (!row->spans)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for the timeline of rank %d", rank);
    if (rank > 0 && (!receive_from(t, rank, report, sizeof *report, err) ||
                     !receive_from(t, rank, row->spans, (size_t)count * sizeof *row->spans, err)))
        return false;
    if (rank == 0)
        memcpy(row->spans, lanes_spans(thread->lanes), (size_t)count * sizeof *row->spans);
    if (thread->run->options.kernels && !add_activity(thread, timeline, rank, err))
        return false;
    row->peak_bytes = thread->run->summary->peak_bytes[rank] = report->peak_bytes;
    thread->run->summary->host_peak_bytes[rank] = report->host_peak_bytes;
    thread->run->summary->outside[rank] = report->outside;
    return true;
}

/* All times from the moment at which the first rank began the step, those of the reports too. Ranks of one host share a
 * clock; those of others are moved so that their steps begin together. */
static void align(struct timeline *timeline, struct rank_report *reports, int rank_count)
{
    enum { SAME_CLOCK_NS = 1000000000 };
    const int64_t first_ns = reports[0].step_start_ns;
    int64_t base = first_ns, end = 0;
    for (int r = 1; r < rank_count; r++)
        if (llabs(reports[r].step_start_ns - first_ns) < SAME_CLOCK_NS && reports[r].step_start_ns < base)
            base = reports[r].step_start_ns;
    for (int r = 0; r < rank_count; r++) {
        bool same = llabs(reports[r].step_start_ns - first_ns) < SAME_CLOCK_NS;
        int64_t from = same ? base : reports[r].step_start_ns;
        for (int i = 0; i < timeline->ranks[r].span_count; i++) {
            struct span *span = &timeline->ranks[r].spans[i];
            span->start_ns -= from, span->finish_ns -= from;
            end = max_i64(end, span->finish_ns);
        }
        for (int64_t i = 0; i < timeline->ranks[r].activity.counts.count; i++) {
            struct activity *a = &timeline->ranks[r].activity.list[i];
            a->start_ns -= from, a->finish_ns -= from;
        }
        reports[r].step_start_ns -= from;
    }
    timeline->step_ns = end;
}

/* Each rank's moments count from its own beginning of the step on where steps run into each other. */
static void from_own_begin(struct timeline *timeline, const struct rank_report *reports)
{
    timeline->step_ns = 0;
    for (int r = 0; r < timeline->rank_count; r++)
        for (int i = 0; i < timeline->ranks[r].span_count; i++) {
            struct span *span = &timeline->ranks[r].spans[i];
            int64_t first_ns = reports[r].step_start_ns;
            span->start_ns -= first_ns, span->finish_ns -= first_ns;
            timeline->step_ns = max_i64(timeline->step_ns, span->finish_ns);
        }
}

bool run_collect(struct rank_thread *thread, struct error *err)
{
    const struct transport *t = thread->transport;
    struct rank_report own = { rank_touched_bytes(thread->rank),
                               rank_touched_host_bytes(thread->rank),
                               thread->step_start_ns,
                               thread->rank->choices,
                               thread->rank->dropped,
                               thread->rank->squared_norm,
                               { .bytes = -1 } };
    const struct device *device = thread->run->options.device;
    if (device->memory_beside_arena && !thread->run->options.on_timeline &&
        !device->memory_beside_arena(thread->rank, &own.outside, err))
        return false;
    size_t count = (size_t)thread->run->program->stages[thread->rank->stage].instr_count;
    if (t->rank > 0)
        return send_to_first(t, &own, sizeof own, err) &&
               send_to_first(t, lanes_spans(thread->lanes), count * sizeof(struct span), err) &&
               (!thread->run->options.kernels || send_activity(thread, err));
    struct run_summary *s = thread->run->summary;
    timeline_free(s->timeline); /* of the step before, where each is shown */
    free(s->peak_bytes);
    free(s->host_peak_bytes);
    free(s->outside);
    struct timeline *timeline = s->timeline = calloc(1, sizeof *timeline);
    s->peak_bytes = calloc((size_t)t->rank_count, sizeof *s->peak_bytes);
    s->host_peak_bytes = calloc((size_t)t->rank_count, sizeof *s->host_peak_bytes);
    s->outside = calloc((size_t)t->rank_count, sizeof *s->outside);
    struct rank_report *reports = calloc((size_t)t->rank_count, sizeof *reports);
    bool ok = timeline && s->peak_bytes && s->host_peak_bytes && s->outside && reports;
    if (ok) {
        timeline->origin = TIMELINE_MEASURED;
        timeline->rank_count = s->rank_count = t->rank_count;
        timeline->ranks = arena_alloc(&timeline->arena, (size_t)t->rank_count, sizeof *timeline->ranks);
        reports[0] = own;
    }
    if (!ok || !timeline->ranks)
        ok = fail_kind(err, ERROR_ENVIRONMENT, "no memory for the measured timeline");
    for (int r = 0; ok && r < t->rank_count; r++)
        ok = add_rank(thread, timeline, r, &reports[r], err);
    if (ok)
        align(timeline, reports, t->rank_count);
    ok = ok && timeline_settle(thread->run->program, timeline, err);
    if (ok && thread->run->steady)
        from_own_begin(timeline, reports);
    s->squared_norm = 0;
    s->choices = s->dropped = 0;
    for (int r = 0; ok && r < t->rank_count; r++) {
        s->squared_norm = reports[r].squared_norm > 0 ? reports[r].squared_norm : s->squared_norm;
        s->choices += reports[r].choices;
        s->dropped += reports[r].dropped;
    }
    free(reports);
    return ok;
}

bool run_show_timeline(struct rank_thread *thread, int64_t step, bool *go_on, struct error *err)
{
    const struct run_options *o = &thread->run->options;
    const struct transport *t = thread->transport;
    if (!run_collect(thread, err))
        return false;
    if (t->rank > 0)
        return receive_from(t, 0, go_on, sizeof *go_on, err);
    *go_on = o->on_timeline(o->context, step + 1, thread->run->summary->timeline);
    for (int r = 1; r < t->rank_count; r++)
        if (!t->exchange(t->self, LANE_COMPUTE, r, go_on, sizeof *go_on, -1, NULL, 0, err))
            return false;
    return true;
}
