/* A proven period against the whole simulation: random plans of every synchronous schedule, random durations and shared
 * links, longer steps by any number of periods. */
#include "tests/fixed_choices.h"
#include "planner/estimate/estimate_parts.h"
#include "planner/layout/layout.h"
#include "planner/lower/lower.h"
#include "planner/sim/period.h"
#include "tests/model_files.h"
#include "tests/random_numbers.h"
#include "tests/toy_world.h"

/* What an instruction takes hangs on what it does, not on its micro-batch. */
struct random_times {
    uint64_t seed;
    int spread;             /* durations below it */
    double compute, other;  /* slow-downs */
    bool shares;            /* links */
    int issue;              /* the host takes less than this for each; 0: it is never waited for */
    enum host_waits waits;  /* of most */
    struct link_uses *uses; /* (LINK_KINDS) */
};
enum { LINK_KINDS = 16, LINKS = 6 };

static uint64_t kind_of(const struct random_times *t, int stage, const struct instr *instr)
{
    const int64_t facts[] = { stage,          instr->op,    instr->phase, instr->lane,  instr->layer,
                              instr->segment, instr->round, instr->again, instr->atoms, instr->peer_stage };
    return mix64(hash_bytes(HASH_START, facts, sizeof facts) + t->seed);
}

static int64_t random_ns(const void *self, const struct program *program, int stage, const struct instr *instr)
{
    const struct random_times *t = self;
    (void)program;
    return (int64_t)(kind_of(t, stage, instr) % (uint64_t)t->spread);
}

static const struct link_uses *random_uses(const void *self, const struct program *program, int stage,
                                           const struct instr *instr)
{
    const struct random_times *t = self;
    (void)program;
    return instr_moves_data(instr) ? &t->uses[kind_of(t, stage, instr) >> 32 & (LINK_KINDS - 1)] : NULL;
}

static struct host_issue random_issue(const void *self, const struct program *program, int stage,
                                      const struct instr *instr)
{
    const struct random_times *t = self;
    uint64_t kind = kind_of(t, LINKS, instr);
    (void)program;
    (void)stage;
    return (struct host_issue){ (int64_t)(kind % (uint64_t)t->issue),
                                kind >> 40 & 15
                                    ? t->waits
                                    : (enum host_waits)(kind >> 44 & 1 ? HOST_WAITS_FOR_ALL : HOST_WAITS_FOR_NOTHING) };
}

static struct random_times draw_times(uint64_t *seed, struct link_uses *uses)
{
    static const double factors[] = { 1, 1, 1.125, 1.37 };
    static const int issues[] = { 0, 0, 100000, 2000000 };
    struct random_times t = { .seed = random_next(seed),
                              .spread = random_below(seed, 4) ? 1000000 : 10,
                              .compute = factors[random_below(seed, 4)],
                              .other = factors[random_below(seed, 4)],
                              .shares = random_below(seed, 2),
                              .issue = issues[random_below(seed, 4)],
                              .uses = uses };
    for (int i = 0; i < LINK_KINDS; i++) {
        uses[i] = (struct link_uses){ .latency_ns = random_below(seed, 100), .count = 1 };
        uses[i].use[0] = (struct link_use){ .link = (int)random_below(seed, LINKS),
                                            .flows = 1 + (int)random_below(seed, 4),
                                            .busy = 1 + (int)random_below(seed, LINK_WHOLE) };
    }
    return t;
}

static struct plan *draw_plan(const struct world *world, uint64_t *seed, int schedule)
{
    static const int recompute[] = { RECOMPUTE_NONE, RECOMPUTE_FULL, RECOMPUTE_SELECTIVE, RECOMPUTE_BLOCK };
    union fixed u = fixed_none();
    struct plan *plan = NULL;
    struct error err = { 0 };
    u.schedule = schedule;
    u.chunks = schedule_least_chunks(schedules[schedule]);
    u.stages = 1 << (random_below(seed, 3) ? 1 + random_below(seed, 2) : u.chunks > 1);
    u.tensor = u.stages > 2 ? 1 : 1 << random_below(seed, 2);
    u.sequence_parallel = u.tensor > 1 && random_below(seed, 2);
    u.zero = (int)random_below(seed, 4);
    u.recompute = recompute[random_below(seed, 4)];
    u.reshard = random_below(seed, 2) ? RESHARD_EACH_PASS : RESHARD_EACH_STEP;
    u.prefetch = (int)random_below(seed, 3);
    u.loss_chunks = 1 + (int)random_below(seed, 2);
    u.micro = 1;
    int micro_batches = 480, data = 8 / u.stages / u.tensor;
    struct space space = space_default((int64_t)micro_batches * data, 0, DTYPE_BF16);
    space.clip_norm = (double)random_below(seed, 2);
    ck_assert_msg(fixed_choices_plan(&plan, &u, &space, world->model, &world->facts, &err), "%s", err.message);
    return plan;
}

/* A plan of fewer micro-batches with all that hangs on it. */
struct lowered {
    struct plan *plan;
    struct graph *graph;
    struct program *program;
};

static struct lowered lower_with(const struct world *world, const struct plan *plan, int micro_batches)
{
    struct lowered l = { 0 };
    struct error err = { 0 };
    ck_assert_msg(estimate_shorten(&l.plan, &l.graph, world->model, plan, micro_batches, &err) &&
                      lower_program(&l.program, l.graph, l.plan, &err),
                  "%s", err.message);
    return l;
}

static void lowered_close(struct lowered *l)
{
    program_free(l->program);
    graph_free(l->graph);
    plan_free(l->plan);
}

static void check_breakdown(const struct program *program, const struct timeline *whole, const int64_t *expected)
{
    int64_t ns[TIME_KIND_COUNT];
    timeline_breakdown(program, whole, timeline_last_rank(whole), ns);
    for (int kind = 0; kind < TIME_KIND_COUNT; kind++)
        ck_assert_msg(ns[kind] == expected[kind], "%s: %lld ns, whole %lld", time_kind_names[kind],
                      (long long)expected[kind], (long long)ns[kind]);
}

/* The longer step is simulated whole, without a layout and with its own. Returns whether a period was proven. */
static bool check_case(const struct world *world, uint64_t seed, int schedule)
{
    struct link_uses uses[LINK_KINDS];
    struct plan *plan = draw_plan(world, &seed, schedule);
    struct random_times times = draw_times(&seed, uses);
    struct durations durations = { .ns = random_ns,
                                   .self = &times,
                                   .compute_under_communication = times.compute,
                                   .communication_under_compute = times.other,
                                   .links = times.shares ? random_uses : NULL,
                                   .link_count = LINKS,
                                   .issue = times.issue ? random_issue : NULL };
    times.waits = (enum host_waits)random_below(&seed, HOST_WAITS_FOR_ALL + 1);
    int unit = estimate_micro_batch_unit(plan),
        few = estimate_settled_micro_batches(plan) + unit * (4 + (int)random_below(&seed, 8)),
        left_out = unit * (1 + (int)random_below(&seed, 24));
    struct lowered shorter = lower_with(world, plan, few), longer = lower_with(world, plan, few + left_out);
    struct timeline *short_time = NULL, *apart = NULL, *whole = NULL;
    struct period period;
    struct error err = { 0 };
    ck_assert_msg(period_prove(&period, &short_time, &durations, shorter.program, left_out, unit, &err), "%s",
                  err.message);
    if (period.ns > 0 && period.exact) {
        int64_t ns[TIME_KIND_COUNT], periods = left_out / period.micro_batches;
        ck_assert_int_eq(left_out % period.micro_batches, 0);
        ck_assert_msg(simulate_with(&apart, &durations, longer.program, &err) && layout_program(longer.program, &err) &&
                          simulate_with(&whole, &durations, longer.program, &err),
                      "%s", err.message);
        int64_t expected = short_time->step_ns + periods * period.ns;
        ck_assert_msg(apart->step_ns == expected && whole->step_ns == expected,
                      "%s, %d stages, %d and %d micro-batches, period %d, links %d: %lld ns, whole %lld, without a "
                      "layout %lld",
                      schedules[schedule]->name, plan->stage_count, few, left_out, period.micro_batches, times.shares,
                      (long long)expected, (long long)whole->step_ns, (long long)apart->step_ns);
        timeline_breakdown(shorter.program, short_time, timeline_last_rank(short_time), ns);
        for (int kind = 0; kind < TIME_KIND_COUNT; kind++)
            ns[kind] += periods * period.breakdown_ns[kind];
        check_breakdown(longer.program, apart, ns);
    }
    timeline_free(short_time);
    timeline_free(apart);
    timeline_free(whole);
    lowered_close(&shorter);
    lowered_close(&longer);
    plan_free(plan);
    return period.ns > 0 && period.exact;
}

enum { CASES = 40 };

/* What is proven is right, and of schedules whose middle repeats much is. */
START_TEST(longer_steps_are_as_proven)
{
    const struct schedule *schedule = schedules[_i];
    if (schedule->asynchronous || !in_share((uint64_t)_i))
        return;
    struct world world = world_open("4x2:toy", 80000000000, 3);
    int proven = 0;
    for (int n = 0; n < CASES; n++)
        proven += check_case(&world, (uint64_t)(1000 * _i + n) << 20, _i);
    if (!schedule->phases && !schedule->copies)
        ck_assert_msg(proven >= CASES / 10, "%s: %d of %d proven", schedule->name, proven, CASES);
    world_close(&world);
}
END_TEST

static Suite *period_suite(void)
{
    Suite *suite = suite_create("period");
    int schedule_count = 0;
    while (schedules[schedule_count])
        schedule_count++;
    CHECK_ADD_LOOP(suite, longer_steps_are_as_proven, schedule_count);
    return suite;
}

CHECK_MAIN(period_suite)
