/* A plan's step by few of its micro-batches: the pipeline is full after so many as settle, and then one micro-batch is
 * like the other. Either the middle of a shorter step repeats to the nanosecond (planner/sim/period.h), or two steps of
 * different lengths tell the pace of the rest, or the walk does. */
#include "planner/estimate/effort.h"
#include "planner/estimate/estimate_parts.h"
#include "base/num.h"
#include "models/model.h"
#include "planner/estimate/pace_shelf.h"
#include "planner/estimate/pipeline.h"
#include "planner/lower/lower.h"
#include "planner/program/schedule.h"
#include "planner/sim/period.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool estimate_shorten(struct plan **out, struct graph **graph, const struct model *model, const struct plan *plan,
                      int micro_batches, struct error *err)
{
    struct plan *shorter = *out = plan_copy(plan);
    if (!shorter)
        return fail_memory(err);
    shorter->batch = plan->batch / plan->micro_batch_count * micro_batches;
    shorter->micro_batch_count = micro_batches;
    if (schedules[plan->schedule]->grouped)
        shorter->chunk_group = (int)min_i64(schedule_group(plan), micro_batches);
    return plan_graph(graph, model, shorter, err) && plan_check(shorter, *graph, err);
}

bool estimate_lower(struct shortened *out, const struct model *model, const struct plan *plan, int micro_batches,
                    struct error *err)
{
    *out = (struct shortened){ 0 };
    return estimate_shorten(&out->plan, &out->graph, model, plan, micro_batches, err) &&
           lower_program(&out->program, out->graph, out->plan, err);
}

void estimate_shortened_free(struct shortened *shortened)
{
    program_free(shortened->program);
    graph_free(shortened->graph);
    plan_free(shortened->plan);
    *shortened = (struct shortened){ 0 };
}

static bool judge_shortened(struct estimate **out, const struct model *model, const struct plan *plan,
                            int micro_batches, const struct facts *facts, const struct judging *judging,
                            int64_t worth_ns, struct error *err)
{
    struct graph *graph = NULL;
    struct plan *shorter = NULL;
    bool good = estimate_shorten(&shorter, &graph, model, plan, micro_batches, err) &&
                estimate_judge(out, graph, shorter, facts, judging, worth_ns, err);
    graph_free(graph);
    plan_free(shorter);
    return good;
}

int estimate_micro_batch_unit(const struct plan *plan)
{
    int turns = 1;
    for (int s = 0; s < plan->stage_count; s++)
        turns = (int)max_i64(turns, plan_stage_turns(plan, s));
    const struct schedule *schedule = schedules[plan->schedule];
    return turns * (schedule->grouped ? schedule_group(plan) : schedule_unit(schedule, plan->stage_count));
}

/* Gives how many micro-batches' activations the stage holds at once in a step of so many micro-batches. */
static int places(const struct plan *plan, int stage, int micro_batches)
{
    struct schedule_place place = schedule_place_even(plan->stage_count, stage, micro_batches, 0);
    return schedule_held(schedules[plan->schedule], &place);
}

/* Gives the fewest micro-batches that need as many places as all: fewer may need more where steps overlap. */
static int alike_micro_batches(const struct plan *plan, int few)
{
    for (; few < plan->micro_batch_count; few++) {
        bool alike = true;
        for (int s = 0; s < plan->stage_count && alike; s++)
            alike = places(plan, s, few) == places(plan, s, plan->micro_batch_count);
        if (alike)
            break;
    }
    return few;
}

int estimate_settled_micro_batches(const struct plan *plan)
{
    int in_flight = 0, turns = 1;
    for (int s = 0; s < plan->stage_count; s++) {
        struct schedule_place place = schedule_place_of(plan, s);
        /* a group of micro-batches is through all its chunks before the next one begins */
        int64_t held = schedule_held(schedules[plan->schedule], &place);
        in_flight =
            (int)max_i64(in_flight, schedules[plan->schedule]->grouped ? ceil_div(held, plan->chunk_count) : held);
        turns = (int)max_i64(turns, plan_stage_turns(plan, s));
    }
    int few = (int)round_up((in_flight + 2) * turns * plan_copies(plan), estimate_micro_batch_unit(plan));
    few +=
        plan->micro_batch_count % estimate_micro_batch_unit(plan); /* what is left over is no group like the others */
    return schedules[plan->schedule]->asynchronous ? alike_micro_batches(plan, (int)max_i64(few, STEADY_WHOLE)) : few;
}

int estimate_settled_times(const struct plan *plan, int times)
{
    int settled = estimate_settled_micro_batches(plan);
    return times * settled - (times - 1) * (settled % estimate_micro_batch_unit(plan));
}

int estimate_settled_passes(const struct plan *plan, int times)
{
    return estimate_settled_times(plan, schedules[plan->schedule]->grouped ? times * plan->chunk_count : times);
}

/* Adds `more` to the step: its parts grow in proportion, but what comes once: the optimizer, filling and draining, and
 * what data-parallel ranks reduce, unless each pass has more of it (ZeRO 2 and 3). */
static void lengthen(struct prediction *p, const struct plan *plan, int64_t more)
{
    more = min_i64(more, MAX_TIME_NS - p->step_ns);
    unsigned once = 1u << TIME_OPTIMIZER | 1u << TIME_BUBBLE | 1u << TIME_DP;
    for (int l = 0; l < plan->layer_count; l++)
        once &= plan->layers[l].zero >= 2 ? ~(1u << TIME_DP) : ~0u;
    int64_t repeated = 0, left = more;
    for (int i = 0; i < TIME_KIND_COUNT; i++)
        repeated += once >> i & 1 ? 0 : p->breakdown_ns[i];
    for (int i = 0; i < TIME_KIND_COUNT && repeated > 0; i++) {
        int64_t share = once >> i & 1 ? 0 : (int64_t)((double)more * (double)p->breakdown_ns[i] / (double)repeated);
        p->breakdown_ns[i] += share;
        left -= share;
    }
    p->breakdown_ns[TIME_BUBBLE] += left;
    p->step_ns += more;
}

/* Gives what the further micro-batches take, whose prices are more_ns beside few_ns of the others, which take ns. Where
 * steps run into each other nothing fills or drains, and all are as much longer, or shorter, than their prices. */
static int64_t longer_ns(const struct plan *plan, int64_t ns, int64_t few_ns, int64_t more_ns)
{
    if (!schedules[plan->schedule]->asynchronous || few_ns <= 0)
        return more_ns;
    return (int64_t)fmin((double)more_ns * (double)ns / (double)few_ns, (double)MAX_TIME_NS);
}

static int64_t effort_with(const struct plan *plan, int64_t micro_batches)
{
    int64_t effort = 0;
    for (int s = 0; s < plan->stage_count; s++)
        effort += estimate_stage_effort(LAYER_INSTRS * micro_batches * plan->stages[s].layer_count);
    return effort;
}

bool estimate_shortens(const struct plan *plan)
{
    return estimate_settled_micro_batches(plan) < plan->micro_batch_count &&
           effort_with(plan, plan->micro_batch_count) > WHOLE_EFFORT;
}

static int64_t looked_at(const struct plan *plan)
{
    return min_i64(estimate_settled_micro_batches(plan), plan->micro_batch_count);
}

int64_t estimate_effort(const struct plan *plan)
{
    return effort_with(plan, looked_at(plan));
}

int64_t estimate_instrs(const struct plan *plan)
{
    return LAYER_INSTRS * looked_at(plan) * plan->layer_count;
}

/* Counts the effort as if the plan had been judged on few micro-batches, since what it is worth does not hang on how
 * exactly it is looked at. */
static int64_t effort_of_few(const struct plan *plan, int64_t effort)
{
    return (int64_t)((double)effort * (double)estimate_effort(plan) /
                     (double)effort_with(plan, plan->micro_batch_count));
}

/* ---- steps whose middle repeats ---- */
static bool is_periodic(const struct plan *plan)
{
    return plan->micro_batch_count >= WORTH_IT * PERIODS_END * estimate_settled_passes(plan, 1) &&
           !schedules[plan->schedule]->asynchronous;
}

/* True when no layout can change the step by more than one part in so many, which is good enough where it would not be
 * simulated whole in any case. */
static bool is_near(const struct plan *plan, const struct timeline *timeline, const struct period *period,
                    int64_t periods)
{
    int64_t slack_ns = mul_div_i64(period->slack_ns, periods, 1, MAX_TIME_NS),
            further_ns = mul_div_i64(period->ns, periods, 1, MAX_TIME_NS);
    return is_periodic(plan) &&
           llabs(period->step_slack_ns + slack_ns) <= (timeline->step_ns + further_ns) / NEAR_SHARE;
}

/* Estimates the whole plan by the program of a shorter one, which it changes; *out is NULL where that proves nothing,
 * and *period is then the one that it has, if any. */
static bool judge_by_period(struct estimate **out, struct period *period, struct program *program,
                            const struct model *model, const struct plan *plan, const struct facts *facts,
                            struct error *err)
{
    int left_out = plan->micro_batch_count - program->plan->micro_batch_count;
    struct timeline *timeline = NULL;
    struct durations durations;
    if (!durations_open(&durations, facts, program, err))
        return false;
    bool good = period_prove(period, &timeline, &durations, program, left_out, estimate_micro_batch_unit(plan), err);
    durations_close(&durations);
    int64_t periods = good && period->ns > 0 ? left_out / period->micro_batches : 0;
    if (periods > 0 && (period->exact || is_near(plan, timeline, period, periods))) {
        struct estimate *estimate = estimate_new(plan->stage_count);
        good = estimate || fail_memory(err);
        if (good) {
            estimate_note_length(estimate, program);
            good = estimate_fill_repeating(estimate, program, model, plan, facts, !is_periodic(plan), err);
        }
        if (good) {
            estimate_fill_step(estimate, program, timeline, facts);
            struct prediction *p = &estimate->prediction;
            periods = min_i64(periods, (MAX_TIME_NS - p->step_ns) / max_i64(period->ns, 1) + 1);
            p->step_ns = min_i64(p->step_ns + periods * period->ns, MAX_TIME_NS);
            for (int kind = 0; kind < TIME_KIND_COUNT; kind++)
                p->breakdown_ns[kind] += periods * period->breakdown_ns[kind];
            estimate->apart_ns = p->step_ns;
            *out = estimate;
        } else {
            estimate_free(estimate);
        }
    }
    timeline_free(timeline);
    return good;
}

/* Looks for a period in a step just long enough to show a short one, then in one that shows any. Leaves *out alone
 * where none is proven, or the whole step is not much longer. */
static bool estimate_by_period(struct estimate **out, const struct model *model, const struct plan *plan,
                               const struct facts *facts, struct error *err)
{
    enum { LONG_UNITS = 2 * PERIOD_LONGEST + 4 };
    int unit = estimate_micro_batch_unit(plan), settled = estimate_settled_micro_batches(plan);
    struct period period = { 0 };
    bool good = true, looks = !schedules[plan->schedule]->asynchronous && estimate_shortens(plan);
    for (int units = SHORT_UNITS; good && looks; units = LONG_UNITS) {
        struct shortened shorter;
        int few = settled + unit * units;
        few += units == LONG_UNITS ? (plan->micro_batch_count - few) % (unit * ALL_PERIODS) : 0;
        if (few * LONGER > plan->micro_batch_count)
            break;
        good = estimate_lower(&shorter, model, plan, few, err) &&
               judge_by_period(out, &period, shorter.program, model, plan, facts, err);
        looks = units == SHORT_UNITS && period.micro_batches == 0;
        estimate_shortened_free(&shorter);
    }
    return good;
}

bool estimate_plan_periodic(struct estimate **out, const struct model *model, const struct graph *graph,
                            const struct plan *plan, const struct facts *facts, struct error *err)
{
    int few = estimate_settled_passes(plan, PERIOD_BEGINS), period = estimate_settled_passes(plan, PERIODS_END) - few;
    *out = NULL;
    if (!estimate_by_period(out, model, plan, facts, err))
        return false;
    if (*out) {
        estimate_fill_rates(*out, graph, plan, facts);
        return true;
    }
    if (!is_periodic(plan))
        return estimate_plan(out, graph, plan, facts, err);
    struct estimate *shorter = NULL, *longer = NULL;
    struct judging judging = { .always = true, .rooms = 1, .left_out = plan->micro_batch_count - few - period };
    bool ok = judge_shortened(&shorter, model, plan, few, facts, &judging, INT64_MAX, err) &&
              judge_shortened(&longer, model, plan, few + period, facts, &judging, INT64_MAX, err);
    if (ok) {
        int64_t per_period_ns = longer->prediction.step_ns - shorter->prediction.step_ns;
        int periods = (plan->micro_batch_count - few) / period - 1, rest = (plan->micro_batch_count - few) % period;
        lengthen(&longer->prediction, plan,
                 mul_div_i64(per_period_ns, periods, 1, MAX_TIME_NS) +
                     mul_div_i64(per_period_ns, rest, period, MAX_TIME_NS));
        estimate_fill_rates(longer, graph, plan, facts);
        ok = estimate_settle(longer, model, plan, facts, err);
    }
    if (ok) {
        *out = longer;
        longer = NULL;
    }
    estimate_free(shorter);
    estimate_free(longer);
    return ok;
}

/* Estimates the effort of so many micro-batches by what the estimate's took. */
static int64_t effort_like(const struct estimate *few, const struct plan *plan, int64_t micro_batches)
{
    int64_t each = few->program_instrs / plan->stage_count;
    return plan->stage_count * estimate_stage_effort(each * micro_batches / few->micro_batches_simulated);
}

bool estimate_whole(struct estimate **estimate, const struct model *model, const struct graph *graph,
                    const struct plan *plan, const struct facts *facts, struct error *err)
{
    const struct estimate *few = *estimate;
    struct estimate *whole = NULL;
    int periodic = is_periodic(plan) ? estimate_settled_passes(plan, PERIODS_END) : plan->micro_batch_count;
    bool soon = effort_like(few, plan, plan->micro_batch_count) <= SOON;
    if ((few->prediction.micro_batches_simulated == 0 && !few->brief) ||
        (!soon && effort_like(few, plan, periodic) > SOON))
        return true;
    if (!(soon ? estimate_plan(&whole, graph, plan, facts, err)
               : estimate_plan_periodic(&whole, model, graph, plan, facts, err)))
        return false;
    bool fits = whole->prediction.fits;
    estimate_free(fits ? *estimate : whole);
    *estimate = fits ? whole : *estimate;
    return true;
}

/* True when the walk is not believed of further micro-batches: few do not take what it says, or backward passes are
 * split, whose gaps it does not see filled (t5-base on 8x1:rtx4090: 342 ms said, 374 taken; doubted, 340 are found). */
static bool is_doubted(const struct plan *plan, int64_t ns, int64_t walked_ns)
{
    const struct schedule *schedule = schedules[plan->schedule];
    return !schedule->asynchronous && (schedule->splits || llabs(ns - walked_ns) > walked_ns / DOUBT_SHARE);
}

int64_t estimate_least_further_ns(const struct plan *plan, const struct judging *judging, int64_t ns)
{
    int64_t walked_ns = judging->walked_ns, more_ns = judging->further_ns;
    return is_doubted(plan, ns, walked_ns) ? more_ns - more_ns / LONG_SHARE : longer_ns(plan, ns, walked_ns, more_ns);
}

static bool waits(const struct plan *plan, const struct estimate *few, int64_t few_ns)
{
    return !schedules[plan->schedule]->asynchronous && few->prediction.step_ns - few->apart_ns > few_ns / WAITS_SHARE;
}

/* Gives what the further micro-batches take by the pace of a longer step: by more, of chunks, copies and split backward
 * passes, whose pattern is longer, and of what waits for bytes (by two more of 11, deepseek-v3 on 4x72 gb200 was told
 * 8 % too short). Neither is laid out where the few hardly wait for bytes; then what the busiest
 * stage idled less in the longer step is lost once, since pipelines of split backward passes settle late, and in the
 * end all go as that one works. */
static bool simulate_more(int64_t *more_ns, struct estimate *few, int64_t few_ns, const struct model *model,
                          const struct plan *plan, const struct facts *facts, struct error *err)
{
    struct estimate *longer = NULL;
    const struct schedule *schedule = schedules[plan->schedule];
    bool laid_out = waits(plan, few, few_ns);
    int count = few->micro_batches_simulated, unit = (schedule->grouped ? 1 : 2) * estimate_micro_batch_unit(plan),
        share = pace_is_uneven(plan) || laid_out ? 2 : 8,
        period = max_int((int)ceil_div(count, share), schedule->splits ? SPLIT_FURTHER : 1);
    period = (int)min_i64(round_up(period, unit), plan->micro_batch_count - count);
    struct judging judging = { .always = laid_out, .shortened = !laid_out };
    if (!judge_shortened(&longer, model, plan, count + period, facts, &judging, laid_out ? INT64_MAX : 0, err))
        return false;
    int64_t added_ns =
                laid_out ? longer->prediction.step_ns - few->prediction.step_ns : longer->apart_ns - few->apart_ns,
            lost_ns = max_i64(0, few->apart_idle_ns - longer->apart_idle_ns);
    bool settles_late = schedule->splits && !laid_out && few->busiest == longer->busiest;
    double each = (double)(added_ns + (settles_late ? lost_ns : 0)) / period;
    double ns = (double)added_ns + each * (plan->micro_batch_count - count - period);
    *more_ns = (int64_t)fmax(0, fmin(ns, (double)MAX_TIME_NS));
    estimate_free(longer);
    return true;
}

bool estimate_plan_steady(struct estimate **out, const struct model *model, const struct graph *graph,
                          const struct plan *plan, const struct chain *chain, const struct price_table *table,
                          const struct facts *facts, int64_t worth_ns, struct error *err)
{
    int few = estimate_settled_micro_batches(plan);
    int64_t all_ns = 0, few_ns = 0, more_ns = 0;
    bool shortens = estimate_shortens(plan);
    if (shortens) {
        if (!pipeline_step_ns(&all_ns, plan, chain, table, facts, NULL, plan->micro_batch_count, INT64_MAX, err) ||
            !pipeline_step_ns(&few_ns, plan, chain, table, facts, NULL, few, INT64_MAX, err))
            return false;
        more_ns = max_i64(0, all_ns - few_ns);
    }
    struct judging judging = shortens ? estimate_judging_shortened(plan) : (struct judging){ 0 };
    judging.walked_ns = few_ns;
    judging.further_ns = more_ns;
    if (shortens ? !judge_shortened(out, model, plan, few, facts, &judging, worth_ns, err)
                 : !estimate_judge(out, graph, plan, facts, &judging, worth_ns, err))
        return false;
    if (!shortens)
        (*out)->effort = effort_of_few(plan, (*out)->effort);
    if (shortens && !(*out)->beaten && (*out)->prediction.fits) {
        bool good = true;
        int64_t step_ns = (*out)->prediction.step_ns;
        if (is_doubted(plan, step_ns, few_ns) || waits(plan, *out, few_ns))
            good = simulate_more(&more_ns, *out, few_ns, model, plan, facts, err);
        else
            more_ns = longer_ns(plan, step_ns, few_ns, more_ns);
        if (!good) {
            estimate_free(*out);
            *out = NULL;
            return false;
        }
        lengthen(&(*out)->prediction, plan, more_ns);
    }
    (*out)->apart_ns += (*out)->beaten ? more_ns : 0;
    estimate_fill_rates(*out, graph, plan, facts);
    return true;
}

/* True when the plan lacks memory in any layout: it is not laid out then, and nobody asks for its time. */
static bool lacks_paced(struct prediction *p, const struct pace *pace, const struct facts *facts)
{
    p->fits = true;
    for (int s = 0; s < p->stage_count; s++) {
        p->available_bytes[s] = cost_stage_available_bytes(facts, pace->plan, s);
        p->peak_bytes[s] = pace->least_bytes[s];
        p->fits = p->fits && p->peak_bytes[s] <= p->available_bytes[s];
    }
    return !p->fits;
}

/* Measures a step that is worth it and fits, and its memory. */
static bool measure_paced(struct estimate *estimate, struct pace *pace, const struct paced_apart *apart,
                          const struct facts *facts, struct error *err)
{
    struct prediction *p = &estimate->prediction;
    struct paced_step step;
    struct judging judging = estimate_judging_paced(pace);
    if (!pace_lay_out(pace, err) || !estimate_fill_memory(estimate, pace->few.program, facts, &judging, err))
        return false;
    if (!p->fits)
        return true;
    if (!pace_time(pace, facts, apart, &estimate->arena, &step, err))
        return false;
    estimate_find_origins(p, pace->few.program, facts);
    p->step_ns = step.step_ns;
    memcpy(p->breakdown_ns, step.time_ns[step.last_stage], sizeof *step.time_ns);
    return true;
}

/* Looks at the memory that any layout needs and, where that is there, whether the step is not worth it. */
static bool look(struct estimate *estimate, struct pace *pace, struct paced_apart *apart, const struct facts *facts,
                 int64_t worth_ns, struct error *err)
{
    estimate_note_length(estimate, pace->few.program);
    estimate->effort = pace->further > 0 ? estimate->effort : effort_of_few(pace->plan, estimate->effort);
    estimate->brief = true;
    if (!pace_bound(pace, err))
        return false;
    estimate->unplaced = lacks_paced(&estimate->prediction, pace, facts);
    if (estimate->unplaced || (worth_ns == INT64_MAX && pace->further == 0))
        return true;
    if (!pace_time_apart(pace, facts, &estimate->arena, apart, err))
        return false;
    estimate->apart_ns = apart->step_ns;
    estimate->beaten = apart->step_ns >= worth_ns;
    return true;
}

/* Looks at few micro-batches, beyond which hardly a plan gets that is not worth it. */
static bool glance(bool *seen, struct estimate *estimate, const struct model *model, const struct plan *plan,
                   const struct facts *facts, int64_t worth_ns, struct error *err)
{
    struct pace pace;
    struct paced_apart apart = { 0 };
    int64_t far_ns = worth_ns < INT64_MAX ? worth_ns + worth_ns / GLANCE_SHARE : INT64_MAX;
    bool good = pace_open(&pace, model, plan, true, err) &&
                (pace.further == 0 || look(estimate, &pace, &apart, facts, far_ns, err));
    *seen = good && (estimate->unplaced || estimate->beaten);
    paced_apart_close(&apart);
    pace_close(&pace);
    return good;
}

bool estimate_plan_paced(struct estimate **out, struct pace_shelf *shelf, const struct model *model,
                         const struct graph *graph, const struct plan *plan, const struct facts *facts,
                         int64_t worth_ns, struct error *err)
{
    struct kept_pace *kept = NULL;
    struct estimate *estimate = estimate_new(plan->stage_count);
    if (!estimate)
        return fail_memory(err);
    struct paced_apart apart = { 0 };
    bool seen = false,
         good = shelf || !pace_is_uneven(plan) || glance(&seen, estimate, model, plan, facts, worth_ns, err);
    if (good && !seen)
        good = pace_take(&kept, shelf, model, plan, err) && look(estimate, &kept->pace, &apart, facts, worth_ns, err);
    if (good && !seen)
        good = estimate->unplaced || estimate->beaten || measure_paced(estimate, &kept->pace, &apart, facts, err);
    paced_apart_close(&apart);
    pace_give(shelf, kept);
    if (!good) {
        estimate_free(estimate);
        return false;
    }
    estimate_fill_rates(estimate, graph, plan, facts);
    *out = estimate;
    return true;
}
