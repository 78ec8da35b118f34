#include "planner/estimate/pace.h"
#include "base/num.h"
#include "planner/estimate/effort.h"
#include "planner/estimate/estimate_parts.h"
#include "planner/layout/layout.h"
#include "planner/layout/lives.h"
#include "planner/program/schedule.h"
#include "planner/sim/simulate.h"
#include <stdlib.h>
#include <string.h>

static bool lower(struct shortened *s, const struct pace *pace, int micro_batches, struct error *err)
{
    return s->program || estimate_lower(s, pace->model, pace->plan, micro_batches, err);
}

bool pace_is_uneven(const struct plan *plan)
{
    return plan->chunk_count > 1 || plan_copies(plan) > 1 || schedules[plan->schedule]->splits;
}

/* Steps that run into each other are not looked at by pace; nor are those that it would hardly shorten. */
bool pace_open(struct pace *out, const struct model *model, const struct plan *plan, bool glance, struct error *err)
{
    int all = plan->micro_batch_count, unit = estimate_micro_batch_unit(plan);
    bool uneven = pace_is_uneven(plan) && !glance, grouped = schedules[plan->schedule]->grouped;
    int settled = glance ? estimate_settled_micro_batches(plan) : estimate_settled_passes(plan, 1),
        few = uneven ? estimate_settled_passes(plan, 2) : settled,
        period = (int)round_up(uneven ? 3 * settled : ceil_div(few, 8), glance && !grouped ? 2 * unit : unit);
    *out = (struct pace){ .model = model, .plan = plan, .uneven = uneven };
    if (!schedules[plan->schedule]->asynchronous && estimate_shortens(plan) && 2 * few + period < all) {
        out->further = all - few;
        out->period = period;
    }
    return lower(&out->few, out, all - out->further, err);
}

static void drop_early(struct pace *pace)
{
    for (int s = 0; pace->early && s < pace->few.program->stage_count; s++) {
        free(pace->early[s].instrs);
        free(pace->early[s].waits);
    }
    free(pace->early);
    pace->early = NULL;
}

void pace_close(struct pace *pace)
{
    drop_early(pace);
    estimate_shortened_free(&pace->few);
    estimate_shortened_free(&pace->longer);
    estimate_shortened_free(&pace->longer_laid_out);
    free(pace->least_bytes);
    pace->least_bytes = NULL;
    pace->laid_out = false;
}

bool pace_look_at_all(struct pace *pace, struct error *err)
{
    const struct plan *plan = pace->plan;
    pace->whole = program_instrs(pace->few.program) * plan->micro_batch_count / pace_micro_batches(pace) <= TOLD_INSTRS;
    if (!pace->whole || pace->further == 0)
        return true;
    estimate_shortened_free(&pace->few);
    pace->further = 0;
    return lower(&pace->few, pace, plan->micro_batch_count, err);
}

bool pace_bound(struct pace *pace, struct error *err)
{
    struct program *few = pace->few.program;
    struct judging judging = estimate_judging_paced(pace);
    if (pace->least_bytes)
        return true;
    if (!lives_split(few, err) || !layout_bound_bytes(few, err))
        return false;
    pace->least_bytes = malloc((size_t)few->stage_count * sizeof *pace->least_bytes);
    for (int s = 0; pace->least_bytes && s < few->stage_count; s++)
        pace->least_bytes[s] = estimate_stage_bytes(few, s, &judging);
    return pace->least_bytes || fail_memory(err);
}

/* Keeps copies of the lists from before layout, which changes these alone of what a simulation reads. */
static bool keep_early(struct pace *pace, struct error *err)
{
    const struct program *few = pace->few.program;
    bool good = (pace->early = calloc((size_t)few->stage_count, sizeof *pace->early));
    for (int s = 0; good && s < few->stage_count; s++) {
        const struct stage_program *list = &few->stages[s];
        struct stage_program *early = &pace->early[s];
        *early = *list;
        early->instrs = malloc((size_t)list->instr_count * sizeof *list->instrs + 1);
        early->waits = malloc((size_t)list->wait_count * sizeof *list->waits + 1);
        good = early->instrs && early->waits;
        if (good && list->instr_count > 0)
            memcpy(early->instrs, list->instrs, (size_t)list->instr_count * sizeof *list->instrs);
        if (good && list->wait_count > 0)
            memcpy(early->waits, list->waits, (size_t)list->wait_count * sizeof *list->waits);
    }
    if (!good)
        drop_early(pace); /* whoever takes the pace next makes it anew */
    return good || fail_memory(err);
}

bool pace_lay_out(struct pace *pace, struct error *err)
{
    pace->laid_out =
        pace->laid_out ||
        (pace_bound(pace, err) && (pace->early || keep_early(pace, err)) &&
         layout_place_and_order(pace->few.program, &(struct layout_ask){ .brief = !pace->whole }, NULL, err));
    return pace->laid_out;
}

static bool time_program(const struct program *program, const struct durations *durations, struct arena *arena,
                         struct paced_step *out, struct error *err)
{
    struct timeline *timeline = NULL;
    out->stage_count = program->stage_count;
    out->time_ns = arena_alloc(arena, (size_t)program->stage_count, sizeof *out->time_ns);
    if (!out->time_ns)
        return fail_memory(err);
    if (!simulate_with(&timeline, durations, program, err))
        return false;
    out->step_ns = timeline->step_ns;
    out->last_stage = timeline->ranks[timeline_last_rank(timeline)].stage;
    for (int r = 0; r < timeline->rank_count; r++)
        timeline_breakdown(program, timeline, r, out->time_ns[timeline->ranks[r].stage]);
    timeline_free(timeline);
    return true;
}

static bool price_and_time(const struct program *program, const struct facts *facts, struct arena *arena,
                           struct paced_step *out, struct error *err)
{
    struct durations durations;
    if (!durations_open(&durations, facts, program, err))
        return false;
    bool good = time_program(program, &durations, arena, out, err);
    durations_close(&durations);
    return good;
}

void paced_apart_close(struct paced_apart *apart)
{
    if (apart->priced)
        durations_close(&apart->durations);
    apart->priced = false;
}

/* Gives what the further micro-batches take, if so many take ns. */
static int64_t further_ns(const struct pace *pace, int64_t ns, int micro_batches)
{
    return mul_div_i64(ns, pace->further, micro_batches, MAX_TIME_NS);
}

bool pace_time_apart(struct pace *pace, const struct facts *facts, struct arena *arena, struct paced_apart *out,
                     struct error *err)
{
    struct program early = *pace->few.program;
    if (pace->early)
        early.stages = pace->early;
    *out = (struct paced_apart){ 0 };
    out->priced = durations_open(&out->durations, facts, &early, err);
    if (!out->priced || !time_program(&early, &out->durations, arena, &out->few, err))
        return false;
    out->longer = out->few;
    out->step_ns = out->few.step_ns;
    if (pace->further == 0)
        return true;
    if (!lower(&pace->longer, pace, pace_micro_batches(pace) + pace->period, err) ||
        !price_and_time(pace->longer.program, facts, arena, &out->longer, err))
        return false;
    out->step_ns =
        min_i64(out->step_ns + further_ns(pace, out->longer.step_ns - out->few.step_ns, pace->period), MAX_TIME_NS);
    return true;
}

/* Shares out what the stage's parts leave of the step, which are waits for bytes that are used again: all that
 * communicates comes later by them, and gets its share. */
static void share_waits(int64_t ns[TIME_KIND_COUNT], int64_t waits_ns)
{
    int64_t communication_ns = 0, left_ns = waits_ns;
    for (int k = TIME_TP; k <= TIME_PP; k++)
        communication_ns += ns[k];
    for (int k = TIME_TP; k <= TIME_PP && waits_ns > 0 && communication_ns > 0; k++) {
        int64_t share_ns = (int64_t)((double)waits_ns * (double)ns[k] / (double)communication_ns);
        ns[k] += share_ns;
        left_ns -= share_ns;
    }
    ns[TIME_BUBBLE] += left_ns;
}

/* Lays more micro-batches out as few are, once. */
static bool lay_longer_out(struct pace *pace, struct error *err)
{
    struct shortened *longer = &pace->longer_laid_out;
    if (longer->program)
        return true;
    bool good = lower(longer, pace, pace_micro_batches(pace) + pace->period, err) &&
                lives_split(longer->program, err) &&
                layout_place_and_order(longer->program, &(struct layout_ask){ .brief = true }, NULL, err);
    if (!good)
        estimate_shortened_free(longer);
    return good;
}

/* Adds the further micro-batches at their pace; where that is told without layout, each waits for bytes as long as the
 * few do in the mean. Where that is long, two numbers of micro-batches laid out tell how much of it recurs. */
bool pace_time(struct pace *pace, const struct facts *facts, const struct paced_apart *apart, struct arena *arena,
               struct paced_step *out, struct error *err)
{
    enum { WAITS_PART = 500 };
    bool timed = apart->priced ? time_program(pace->few.program, &apart->durations, arena, out, err)
                               : price_and_time(pace->few.program, facts, arena, out, err);
    if (!timed)
        return false;
    if (pace->further == 0)
        return true;
    struct paced_step few = apart->few, longer = apart->longer;
    if (!pace->shared)
        pace->waits = out->step_ns - few.step_ns > few.step_ns / WAITS_PART;
    if (pace->uneven || pace->waits) {
        few = *out;
        if (!lay_longer_out(pace, err) || !price_and_time(pace->longer_laid_out.program, facts, arena, &longer, err))
            return false;
    }
    out->step_ns += further_ns(pace, longer.step_ns - few.step_ns, pace->period) +
                    further_ns(pace, out->step_ns - few.step_ns, pace_micro_batches(pace));
    out->step_ns = min_i64(out->step_ns, MAX_TIME_NS);
    for (int s = 0; s < out->stage_count; s++) {
        int64_t *ns = out->time_ns[s], left_ns = out->step_ns;
        for (int k = 0; k < TIME_KIND_COUNT; k++) {
            int64_t more_ns = longer.time_ns[s][k] - few.time_ns[s][k];
            ns[k] = max_i64(0, ns[k] + further_ns(pace, more_ns, pace->period));
            left_ns -= ns[k];
        }
        share_waits(ns, left_ns);
    }
    return true;
}
