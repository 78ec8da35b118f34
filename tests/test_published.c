/* What papers say of schedules in closed forms, beside the simulator and the layout: idle time, micro-batches in
 * flight, versions of weights. Every schedule of the list has its row, with sources and conditions. */
#include "base/num.h"
#include "tests/ideal_pipeline.h"
#include "tests/in_flight.h"

/* P stages, stage k from 0, m micro-batches, v chunks; F, I, W: forward pass, input and weight half of backward, and B
 * = I + W. What is per stage in papers is per piece here, v times less. */
struct published {
    const char *schedule, *source;
    /* The idle time between the first and the last pass of the stage where these lie furthest apart. Exact where
     * `holds`: the paper's condition, or where one lane of kernels and one queue of messages leave it so. */
    bool (*holds)(const struct ideal_draw *d);
    int64_t (*idle_ns)(const struct ideal_draw *d);
    /* The same of the whole step, in which stages do not begin at once. NULL: the same number. */
    int64_t (*step_idle_ns)(const struct ideal_draw *d);
    /* The most forward passes of pieces whose input half of backward is not done. Exact from `least_micros` on; NULL:
     * from one. */
    int (*in_flight)(const struct ideal_draw *d, int stage);
    /* With those that then wait for their weight half alone; NULL: none does. */
    int (*held)(const struct ideal_draw *d, int stage);
    int (*least_micros)(const struct ideal_draw *d);
    int (*versions)(const struct ideal_draw *d, int stage); /* of the stage's weights; NULL: one */
};

static int64_t backward(const struct ideal_draw *d)
{
    return d->input_ns + d->weight_ns;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

static bool always(const struct ideal_draw *d)
{
    (void)d;
    return true;
}

static int64_t none(const struct ideal_draw *d)
{
    (void)d;
    return 0;
}

/* ---- one direction, one chunk or several ---- */
/* (P - 1)(F + B) / v: of a step (P - 1) / (m + P - 1), with chunks (P - 1) / v for m (F + B) of work. */
static int64_t fill_and_drain(const struct ideal_draw *d)
{
    return (d->stages - 1) * (d->forward_ns + backward(d));
}

static int all_micros(const struct ideal_draw *d, int stage)
{
    (void)stage;
    return d->micros;
}

static int stages_left(const struct ideal_draw *d, int stage)
{
    return least(d->micros, d->stages - stage);
}

/* On stage 0 that is P (1 + (P - 1) / (P v)) micro-batches of all chunks. */
static int interleaved_in_flight(const struct ideal_draw *d, int stage)
{
    return least(d->micros * d->chunks, 2 * (d->stages - stage - 1) + (d->chunks - 1) * d->stages + 1);
}

/* Receives wait in one queue, in the order in which passes send where backward takes twice as long as forward
 * (planner/program/clock.h), which is that of up to three times as long. */
static bool backward_twice_or_thrice(const struct ideal_draw *d)
{
    return backward(d) >= 2 * d->forward_ns && backward(d) <= 3 * d->forward_ns;
}

/* ---- zero bubble ---- */
static bool h1_holds(const struct ideal_draw *d)
{
    return d->micros >= d->stages && d->weight_ns <= d->forward_ns;
}

static int64_t h1_idle(const struct ideal_draw *d)
{
    return (d->stages - 1) * (d->forward_ns + d->input_ns - d->weight_ns);
}

/* (P - k) M_B + k M_W, M_B what a pass keeps until the input half, M_W until the weight half. */
static int h1_held(const struct ideal_draw *d, int stage)
{
    (void)stage;
    return least(d->micros, d->stages);
}

static bool h2_holds(const struct ideal_draw *d)
{
    return d->micros >= 2 * d->stages - 1 && d->weight_ns <= d->forward_ns && d->forward_ns <= d->input_ns;
}

static int64_t h2_idle(const struct ideal_draw *d)
{
    return (d->stages - 1) * (d->forward_ns + d->input_ns - 2 * d->weight_ns);
}

/* Ours: the last stage begins (P - 1) F late. */
static int64_t h2_step_idle(const struct ideal_draw *d)
{
    return max_i64(h2_idle(d), (d->stages - 1) * d->forward_ns);
}

static int h2_in_flight(const struct ideal_draw *d, int stage)
{
    return least(d->micros, 2 * (d->stages - stage) - 1);
}

/* (2 (P - k) - 1) M_B + 2 k M_W */
static int h2_held(const struct ideal_draw *d, int stage)
{
    (void)stage;
    return least(d->micros, 2 * d->stages - 1);
}

static bool all_halves_equal(const struct ideal_draw *d)
{
    return d->forward_ns == d->input_ns && d->forward_ns == d->weight_ns;
}

static bool v_holds(const struct ideal_draw *d)
{
    return d->micros >= 2 * d->stages - 1 && all_halves_equal(d);
}

static int64_t v_step_idle(const struct ideal_draw *d)
{
    return (d->stages - 1) * d->forward_ns;
}

/* Of both pieces together: as much as P micro-batches of a stage. */
static int v_in_flight(const struct ideal_draw *d, int stage)
{
    (void)stage;
    return 2 * d->stages;
}

static int v_least_micros(const struct ideal_draw *d)
{
    return 2 * d->stages - 1;
}

/* ---- both directions ---- */
/* Where both passes take as long, (P - 2) / (2 m + P - 2) of the step; where m = P and backward takes longer, m forward
 * and m + P - 2 backward passes make the step (the paper's model with its example of 6 and 10 for P = 6). Ours: where
 * backward takes twice as long, each further round of P micro-batches leaves (P - 2) F. */
static bool chimera_holds(const struct ideal_draw *d)
{
    return backward(d) == d->forward_ns || backward(d) == 2 * d->forward_ns ||
           (d->micros == d->stages && backward(d) >= d->forward_ns);
}

static int64_t chimera_idle(const struct ideal_draw *d)
{
    if (backward(d) == 2 * d->forward_ns)
        return (d->micros / d->stages + 1) * (d->stages - 2) * d->forward_ns;
    return (d->stages - 2) * backward(d);
}

/* From P / 2 + 1 on the first and the last stage to P in the middle. */
static int chimera_in_flight(const struct ideal_draw *d, int stage)
{
    return d->stages / 2 + 1 + least(stage, d->stages - 1 - stage);
}

/* Ours: the paper's (P / 2 - 1)(F&B + B - 3 W) is for pairs of passes that run beside each other and hand on when both
 * have ended. Here it is a bound: dualpipe_is_no_longer_than_published. */
static bool dualpipe_holds(const struct ideal_draw *d)
{
    return d->micros >= 2 * d->stages && all_halves_equal(d);
}

static int64_t dualpipe_idle(const struct ideal_draw *d)
{
    return (d->stages / 2 - 1) * d->forward_ns;
}

static int dualpipe_in_flight(const struct ideal_draw *d, int stage)
{
    (void)stage;
    return d->stages + 1;
}

static int dualpipe_least_micros(const struct ideal_draw *d)
{
    return 2 * d->stages;
}

/* ---- without draining ---- */
static int per_stage(const struct ideal_draw *d, int stage)
{
    (void)stage;
    return d->stages;
}

static int two(const struct ideal_draw *d, int stage)
{
    (void)d, (void)stage;
    return 2;
}

#define MEGATRON "Narayanan et al. 2021 (Megatron-LM, 2.2)"
static const struct published rows[] = {
    { .schedule = "gpipe",
      .source = "Huang et al. 2019; in flight: " MEGATRON,
      .holds = always,
      .idle_ns = fill_and_drain,
      .in_flight = all_micros },
    { .schedule = "1f1b",
      .source = "Narayanan et al. 2021 (PipeDream-Flush), Fan et al. 2021 (DAPPLE), " MEGATRON,
      .holds = always,
      .idle_ns = fill_and_drain,
      .in_flight = stages_left },
    { .schedule = "interleaved",
      .source = MEGATRON "; in flight: its code, on stage 0 Korthikanti et al. 2022",
      .holds = backward_twice_or_thrice,
      .idle_ns = fill_and_drain,
      .in_flight = interleaved_in_flight },
    { .schedule = "zb-h1",
      .source = "Qi et al. 2023 (2.1, table 2)",
      .holds = h1_holds,
      .idle_ns = h1_idle,
      .in_flight = stages_left,
      .held = h1_held },
    { .schedule = "zb-h2",
      .source = "Qi et al. 2023 (2.2, table 2)",
      .holds = h2_holds,
      .idle_ns = h2_idle,
      .step_idle_ns = h2_step_idle,
      .in_flight = h2_in_flight,
      .held = h2_held },
    { .schedule = "zb-v",
      .source = "Qi et al. 2023 (ZB-V) and 2024 (V-ZB)",
      .holds = v_holds,
      .idle_ns = none,
      .step_idle_ns = v_step_idle,
      .in_flight = v_in_flight,
      .least_micros = v_least_micros },
    { .schedule = "chimera",
      .source = "Li and Hoefler 2021",
      .holds = chimera_holds,
      .idle_ns = chimera_idle,
      .in_flight = chimera_in_flight },
    { .schedule = "dualpipe",
      .source = "DeepSeek-AI 2024 (DeepSeek-V3, table 2)",
      .holds = dualpipe_holds,
      .idle_ns = dualpipe_idle,
      .in_flight = dualpipe_in_flight,
      .least_micros = dualpipe_least_micros },
    { .schedule = "pipedream",
      .source = "Narayanan et al. 2019 (3.2, 3.3)",
      .holds = always,
      .idle_ns = none,
      .in_flight = stages_left,
      .versions = stages_left },
    { .schedule = "pipedream-vertical",
      .source = "Narayanan et al. 2019 (3.3)",
      .holds = always,
      .idle_ns = none,
      .in_flight = stages_left,
      .versions = per_stage },
    { .schedule = "pipedream-2bw",
      .source = "Narayanan et al. 2021 (PipeDream-2BW, 3.1)",
      .holds = always,
      .idle_ns = none,
      .in_flight = stages_left,
      .versions = two },
};

static const struct published *row_of(const struct schedule *schedule)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].schedule, schedule->name))
            return &rows[i];
    ck_abort_msg("schedule %s: write what is published of it into tests/test_published.c", schedule->name);
    return NULL;
}

static int least_micros(const struct published *row, const struct ideal_draw *d)
{
    return row->least_micros ? row->least_micros(d) : 1;
}

/* ---- the grid ---- */
enum { MOST_STAGES = 8, MOST_CHUNKS = 3 };

/* Calls `check` for pipelines with these times and bytes, of 2 to 8 stages, where the schedule runs and `holds`:
 * micro-batches around one and two per stage, fewer, and three. */
static void for_pipelines(const struct ideal_draw *of, bool (*holds)(const struct ideal_draw *d),
                          void (*check)(const struct ideal_run *run, const struct published *row))
{
    struct ideal_draw d = *of;
    for (d.stages = 2; d.stages <= MOST_STAGES; d.stages++)
        for (d.chunks = 1; d.chunks <= MOST_CHUNKS; d.chunks++)
            for (d.micros = 1; d.micros <= 3 * d.stages; d.micros++) {
                struct ideal_run run;
                int beyond = (d.micros + 1) % d.stages; /* 0 to 2: around a multiple */
                bool wanted = d.micros < 3 || (d.micros <= 2 * d.stages + 1 ? beyond < 3 : beyond == 1);
                if (!wanted || !schedule_takes(schedules[d.schedule], d.stages, d.chunks, d.micros) || !holds(&d) ||
                    !in_share((uint64_t)(d.stages + d.chunks + d.micros)))
                    continue;
                ideal_open(&run, &d);
                check(&run, row_of(schedules[d.schedule]));
                ideal_close(&run);
            }
}

static void same(const struct ideal_run *run, const struct published *row, const char *what, int64_t got, int64_t want)
{
    const struct ideal_draw *d = &run->draw;
    ck_assert_msg(got == want,
                  "%s, %d stages, %d chunks, %d micro-batches, F %lld, I %lld, W %lld: %s %lld, published %lld (%s)",
                  row->schedule, d->stages, d->chunks, d->micros, (long long)d->forward_ns, (long long)d->input_ns,
                  (long long)d->weight_ns, what, (long long)got, (long long)want, row->source);
}

/* ---- idle time ---- */
static const struct {
    int64_t forward_ns, input_ns, weight_ns;
} times[] = { { 120, 120, 120 }, { 120, 60, 60 }, { 80, 140, 70 } };
enum { TIMES = sizeof times / sizeof *times };

static int64_t longest_span_ns(const struct ideal_run *run)
{
    int64_t longest = 0;
    for (int s = 0; s < run->draw.stages; s++)
        longest = max_i64(longest, ideal_span_ns(run, s));
    return longest;
}

static void check_idle(const struct ideal_run *run, const struct published *row)
{
    int64_t work_ns = ideal_work_ns(&run->draw);
    same(run, row, "idle on the longest stage", longest_span_ns(run) - work_ns, row->idle_ns(&run->draw));
    same(run, row, "idle of the step", run->timeline->step_ns - work_ns,
         (row->step_idle_ns ? row->step_idle_ns : row->idle_ns)(&run->draw));
}

static struct ideal_draw draw_of(int schedule, int time)
{
    return (struct ideal_draw){ .schedule = schedule,
                                .forward_ns = times[time].forward_ns,
                                .input_ns = times[time].input_ns,
                                .weight_ns = times[time].weight_ns };
}

static bool enough_for_dualpipe(const struct ideal_draw *d)
{
    return d->micros >= dualpipe_least_micros(d);
}

static void check_dualpipe(const struct ideal_run *run, const struct published *row)
{
    const struct ideal_draw *d = &run->draw;
    int64_t pair_ns = d->forward_ns + backward(d), idle_ns = run->timeline->step_ns - ideal_work_ns(d),
            published_ns = (d->stages / 2 - 1) * (pair_ns + backward(d) - 3 * d->weight_ns);
    ck_assert_msg(idle_ns <= published_ns, "%d stages, %d micro-batches: idle %lld ns, published %lld (%s)", d->stages,
                  d->micros, (long long)idle_ns, (long long)published_ns, row->source);
}

/* F&B + B - 3 W with pairs that take as long as both passes: one after the other they hand on earlier. */
START_TEST(dualpipe_is_no_longer_than_published)
{
    for (int time = 0; time < TIMES; time++) {
        struct ideal_draw draw = draw_of(schedule_find("dualpipe"), time);
        for_pipelines(&draw, enough_for_dualpipe, check_dualpipe);
    }
}
END_TEST

static void check_early(const struct ideal_run *run, const struct published *row)
{
    const struct ideal_draw *d = &run->draw;
    same(run, row, "idle of the step", run->timeline->step_ns - ideal_work_ns(d),
         fill_and_drain(d) - (d->stages - 1) * d->weight_ns / d->plain);
}

/* Papers have a gradient leave when the whole backward pass of the stage is done. Here it leaves when it is there:
 * before the weights' gradients of the layer that made it. */
START_TEST(gradients_leave_before_the_last_weights_gradients)
{
    for (int layers = 1; layers <= 4; layers *= 2)
        for (int schedule = 0; schedule < 2; schedule++) {
            struct ideal_draw draw = draw_of(schedule_find(schedule ? "gpipe" : "1f1b"), 0);
            draw.plain = layers;
            for_pipelines(&draw, always, check_early);
        }
}
END_TEST

/* ---- memory ---- */
enum { UNIT_BYTES = 1 << 20 };

/* Passes of a phase on the stage that have begun, or ended, at a moment. */
static int passes(const struct ideal_run *run, int stage, enum phase phase, bool begun, int64_t at_ns)
{
    int count = 0;
    for (int i = 0; i < run->timeline->ranks[stage].span_count; i++) {
        const struct instr *instr = &run->program->stages[stage].instrs[i];
        const struct span *span = &run->timeline->ranks[stage].spans[i];
        count +=
            ideal_is_work(run, instr) && instr->phase == phase && (begun ? span->start_ns : span->finish_ns) <= at_ns;
    }
    return count;
}

/* By the timeline: the most in flight, and the most bytes, both whenever a forward pass begins. */
static void find_peaks(const struct ideal_run *run, int stage, int *in_flight, int64_t *bytes)
{
    *in_flight = 0, *bytes = 0;
    for (int i = 0; i < run->timeline->ranks[stage].span_count; i++) {
        const struct instr *instr = &run->program->stages[stage].instrs[i];
        int64_t now_ns = run->timeline->ranks[stage].spans[i].start_ns;
        if (!ideal_is_work(run, instr) || instr->phase != PHASE_FORWARD)
            continue;
        int begun = passes(run, stage, PHASE_FORWARD, true, now_ns);
        int for_input = begun - passes(run, stage, PHASE_BACKWARD_INPUT, false, now_ns);
        int for_weight = begun - passes(run, stage, PHASE_BACKWARD_WEIGHT, false, now_ns);
        *in_flight = for_input > *in_flight ? for_input : *in_flight;
        *bytes = max_i64(*bytes, for_input * run->draw.input_bytes + for_weight * run->draw.weight_bytes);
    }
}

/* Versions of the stage's weights: each has as many buffers. */
static int versions_of(const struct ideal_run *run, int stage)
{
    int buffers = 0, weights = 0;
    for (int i = 0; i < run->program->buffer_count; i++) {
        const struct buffer *buffer = &run->program->buffers[i];
        if (buffer->kind == BUFFER_WEIGHT && buffer->stage == stage) {
            buffers++;
            weights += buffer->version == 0;
        }
    }
    ck_assert_int_eq(buffers % weights, 0);
    return buffers / weights;
}

/* What the layout has above the weights, in units; buffers that are no unit long do not add up to one. Where steps run
 * into each other a micro-batch keeps its place in every step: there are more places than micro-batches in flight where
 * those of a step do not go through all of them equally often. */
static void check_layout(const struct ideal_run *run, const struct published *row, int stage, int64_t bytes)
{
    const struct stage_program *s = &run->program->stages[stage];
    int64_t units = (s->arena_bytes - s->persistent_bytes) / UNIT_BYTES;
    if (!schedules[run->draw.schedule]->asynchronous || run->draw.micros % row->in_flight(&run->draw, stage) == 0)
        same(run, row, "MiB of activations in the layout", units, bytes / UNIT_BYTES);
    else
        ck_assert_int_ge(units, bytes / UNIT_BYTES);
}

static void check_memory(const struct ideal_run *run, const struct published *row)
{
    const struct ideal_draw *d = &run->draw;
    for (int stage = 0; stage < d->stages && d->micros >= least_micros(row, d); stage++) {
        struct schedule_place place = schedule_place_of(run->plan, stage);
        int in_flight = row->in_flight(d, stage), held = row->held ? row->held(d, stage) : in_flight, seen;
        int64_t bytes = in_flight * d->input_bytes + held * d->weight_bytes, seen_bytes;
        find_peaks(run, stage, &seen, &seen_bytes);
        same(run, row, "in flight by the timeline", seen, in_flight);
        same(run, row, "in flight by the order", in_flight_by_order(schedules[d->schedule], &place), in_flight);
        same(run, row, "bytes by the timeline", seen_bytes, bytes);
        check_layout(run, row, stage, bytes);
        same(run, row, "versions", versions_of(run, stage), row->versions ? row->versions(d, stage) : 1);
    }
}

static void check_all(const struct ideal_run *run, const struct published *row)
{
    if (row->holds(&run->draw))
        check_idle(run, row);
    check_memory(run, row);
}

/* M_B is three units and M_W one where papers tell them apart. What is in flight does not depend on times. */
START_TEST(simulation_is_as_published)
{
    const struct published *row = row_of(schedules[_i]);
    for (int time = 0; time < TIMES; time++) {
        struct ideal_draw draw = draw_of(_i, time);
        draw.input_bytes = time == 0 && row->held ? 2 * UNIT_BYTES : 0;
        draw.weight_bytes = time == 0 ? UNIT_BYTES : 0;
        for_pipelines(&draw, time == 0 ? always : row->holds, time == 0 ? check_all : check_idle);
    }
}
END_TEST

/* No row is without pipelines in which it holds. */
START_TEST(conditions_can_be_met)
{
    const struct published *row = row_of(schedules[_i]);
    int exact = 0;
    for (int time = 0; time < TIMES; time++) {
        struct ideal_draw d = draw_of(_i, time);
        d.stages = MOST_STAGES;
        d.micros = 2 * d.stages;
        exact += row->holds(&d);
        ck_assert_int_le(least_micros(row, &d), d.micros);
    }
    ck_assert_int_ge(exact, 1);
}
END_TEST

static Suite *published_suite(void)
{
    Suite *suite = suite_create("published");
    int count = 0;
    while (schedules[count])
        count++;
    CHECK_ADD_LOOP(suite, simulation_is_as_published, count);
    CHECK_ADD_LOOP(suite, conditions_can_be_met, count);
    CHECK_ADD(suite, dualpipe_is_no_longer_than_published);
    CHECK_ADD(suite, gradients_leave_before_the_last_weights_gradients);
    return suite;
}

CHECK_MAIN(published_suite)
