/* What ran on a device beside the spans of instructions: overlap against a count of single nanoseconds, and whose
 * instruction a kernel is against a look at all of them. */
#include "tests/check.h"
#include "executor/activity.h"
#include "tests/random_numbers.h"

enum { MOST = 24, STEP_NS = 60, EARLIEST_NS = -5, LATEST_NS = 80, WORLDS = 400 };

struct world {
    struct instr instrs[MOST];
    struct span spans[MOST];
    struct activity list[MOST];
    struct stage_program stage;
    struct program program;
    struct rank_timeline rank;
    struct timeline timeline;
};

/* Spans of a lane follow each other, as on a stream; activity is by its start. */
static void fill(struct world *w, uint64_t seed)
{
    uint64_t state = seed;
    int64_t end_ns[LANE_COUNT] = { 0 }, start_ns = EARLIEST_NS;
    *w = (struct world){ .stage = { .instrs = w->instrs } };
    w->stage.instr_count = (int)draw(&state, MOST);
    for (int i = 0; i < w->stage.instr_count; i++) {
        int lane = (int)draw(&state, draw(&state, 2) ? 3 : LANE_COUNT);
        int64_t start = end_ns[lane] + (int64_t)draw(&state, 6);
        w->instrs[i].lane = (enum lane)lane;
        w->spans[i] = (struct span){ start, start + (int64_t)draw(&state, 9) };
        end_ns[lane] = w->spans[i].finish_ns;
    }
    w->rank.activity.list = w->list;
    w->rank.activity.counts = (struct activity_counts){ .recorded = 1, .count = (int64_t)draw(&state, MOST) };
    for (int64_t k = 0; k < w->rank.activity.counts.count; k++) {
        start_ns += (int64_t)draw(&state, 5);
        w->list[k] = (struct activity){ .start_ns = start_ns,
                                        .finish_ns = start_ns + (int64_t)draw(&state, 12),
                                        .lane = (int32_t)draw(&state, draw(&state, 2) ? 3 : ACTIVITY_LANE_COUNT),
                                        .kind = (int32_t)draw(&state, ACTIVITY_KIND_COUNT) };
    }
    w->rank.spans = w->spans, w->rank.span_count = w->stage.instr_count;
    w->program = (struct program){ .stage_count = 1, .stages = &w->stage };
    w->timeline = (struct timeline){ .step_ns = STEP_NS, .rank_count = 1, .ranks = &w->rank };
}

static bool in_span(const struct world *w, int lane, int64_t ns)
{
    for (int i = 0; i < w->stage.instr_count; i++)
        if ((int)w->instrs[i].lane == lane && w->spans[i].start_ns <= ns && ns < w->spans[i].finish_ns)
            return true;
    return false;
}

static bool runs(const struct world *w, int lane, int64_t ns)
{
    for (int64_t k = 0; k < w->rank.activity.counts.count; k++)
        if (w->list[k].lane == lane && w->list[k].start_ns <= ns && ns < w->list[k].finish_ns)
            return true;
    return false;
}

/* The sums, nanosecond by nanosecond and in the words of the header. */
static struct activity_overlap counted(const struct world *w)
{
    struct activity_overlap out = { .idle_ns = 0 };
    for (int64_t ns = EARLIEST_NS; ns < LATEST_NS + MOST * 12; ns++) {
        int spans = 0, running = runs(w, ACTIVITY_ELSEWHERE, ns);
        for (int lane = 0; lane < LANE_COUNT; lane++)
            spans += in_span(w, lane, ns), running += runs(w, lane, ns);
        for (int lane = 0; lane < LANE_COUNT; lane++) {
            struct lane_overlap *o = &out.lane[lane];
            const bool span = in_span(w, lane, ns), ran = runs(w, lane, ns), exposed = !runs(w, LANE_COMPUTE, ns);
            o->ran_ns += ran, o->ran_beside_ns += ran && running > 1;
            o->spans_ns += span, o->spans_beside_ns += span && spans > 1;
            if (lane == LANE_COMPUTE || !exposed)
                continue;
            o->alone_ns += ran && span, o->early_ns += ran && !span, o->without_ns += span && !ran;
        }
        out.idle_ns += ns >= 0 && ns < STEP_NS && running == 0;
    }
    return out;
}

#define SAME(field)                                                                                                    \
    ck_assert_msg(got->field == want->field, "world %d: " #field " of lane %s: %lld, counted %lld", world,             \
                  lane_names[lane], (long long)got->field, (long long)want->field)

START_TEST(overlap_is_what_counting_finds)
{
    int64_t beside_ns = 0, early_ns = 0, without_ns = 0;
    for (int world = 0; world < WORLDS; world++) {
        struct world w;
        struct activity_overlap all;
        struct error error = { 0 };
        fill(&w, (uint64_t)world * 1000);
        ck_assert_msg(activity_overlap(&all, &w.program, &w.timeline, 0, &error), "%s", error.message);
        const struct activity_overlap brute = counted(&w);
        for (int lane = 0; lane < LANE_COUNT; lane++) {
            const struct lane_overlap *got = &all.lane[lane], *want = &brute.lane[lane];
            SAME(ran_ns);
            SAME(ran_beside_ns);
            SAME(spans_ns);
            SAME(spans_beside_ns);
            SAME(alone_ns);
            SAME(early_ns);
            SAME(without_ns);
            beside_ns += want->ran_beside_ns, early_ns += want->early_ns, without_ns += want->without_ns;
        }
        ck_assert_int_eq(all.idle_ns, brute.idle_ns);
    }
    ck_assert(beside_ns > WORLDS && early_ns > WORLDS && without_ns > WORLDS); /* else the worlds say nothing */
}
END_TEST

static int64_t shared(const struct activity *a, const struct span *s)
{
    return min_i64(a->finish_ns, s->finish_ns) - max_i64(a->start_ns, s->start_ns);
}

START_TEST(each_is_its_instructions)
{
    int64_t owned = 0, between = 0, elsewhere = 0;
    for (int world = 0; world < WORLDS; world++) {
        struct world w;
        fill(&w, (uint64_t)world * 1000 + 7);
        const int64_t error_ns = w.rank.activity.counts.clock_error_ns = world % 4;
        activity_attribute(&w.rank.activity, &w.stage, w.spans);
        int64_t orphans = 0;
        for (int64_t k = 0; k < w.rank.activity.counts.count; k++) {
            const struct activity *a = &w.list[k];
            int want = -1;
            for (int i = 0; i < w.stage.instr_count; i++)
                if ((int)w.instrs[i].lane == a->lane && shared(a, &w.spans[i]) >= -error_ns &&
                    (want < 0 || shared(a, &w.spans[i]) > shared(a, &w.spans[want])))
                    want = i;
            ck_assert_msg(a->instr == want, "world %d: activity %lld is instruction %d's, not %d's", world,
                          (long long)k, want, a->instr);
            owned += want >= 0, orphans += want < 0 && a->lane != ACTIVITY_ELSEWHERE;
        }
        ck_assert_int_eq(activity_between(&w.rank.activity), orphans);
        between += orphans, elsewhere += activity_elsewhere(&w.rank.activity);
    }
    ck_assert(owned > WORLDS && between > WORLDS / 4 && elsewhere > WORLDS / 4);
}
END_TEST

static Suite *activity_suite(void)
{
    Suite *suite = suite_create("activity");
    CHECK_ADD(suite, overlap_is_what_counting_finds);
    CHECK_ADD(suite, each_is_its_instructions);
    return suite;
}

CHECK_MAIN(activity_suite)
