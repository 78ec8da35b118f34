/* Transfers that share links: closed forms, a twin that moves time on in small steps, and what sharing must not do. */
#include "planner/layout/layout.h"
#include "planner/sim/simulate.h"
#include "tests/check.h"
#include "tests/fact_files.h"
#include "tests/hand_program.h"
#include "tests/lowered_program.h"
#include "tests/random_numbers.h"
#include <math.h>

/* ---- random programs: instructions of known durations on lanes, which wait for each other ---- */
enum { STAGES = 3, INSTRS = 10, LINKS = 4 };
struct random_case {
    struct hand *hand;
    int64_t ns[STAGES][INSTRS];
    struct link_uses uses[STAGES][INSTRS];
};

static int64_t case_ns(const void *self, const struct program *program, int stage, const struct instr *instr)
{
    return ((const struct random_case *)self)->ns[stage][instr - program->stages[stage].instrs];
}

static const struct link_uses *case_uses(const void *self, const struct program *program, int stage,
                                         const struct instr *instr)
{
    const struct link_uses *uses =
        &((const struct random_case *)self)->uses[stage][instr - program->stages[stage].instrs];
    return uses->count > 0 ? uses : NULL;
}

static void draw_uses(struct link_uses *uses, int64_t ns, uint64_t *state)
{
    uses->latency_ns = (int64_t)draw(state, (uint64_t)ns / 2);
    for (int link = 0; link < LINKS; link++)
        if (draw(state, 2))
            uses->use[uses->count++] = (struct link_use){ .link = link,
                                                          .flows = 1 + (int)draw(state, 4),
                                                          .busy = 1 + (int)draw(state, LINK_WHOLE) };
    if (uses->count > 0)
        uses->use[draw(state, (uint64_t)uses->count)].busy = LINK_WHOLE;
}

/* own: no link is used by two lanes. */
static struct random_case *random_case(uint64_t seed, bool own)
{
    static const enum lane lanes[] = { LANE_COMPUTE, LANE_TP, LANE_DP, LANE_CP };
    struct random_case *c = calloc(1, sizeof *c);
    uint64_t state = mix64(seed);
    c->hand = hand_pipeline("1f1b", STAGES, 1);
    for (int s = 0; s < STAGES; s++) {
        struct stage_program *list = &c->hand->program->stages[s];
        list->instr_count = list->wait_count = 0;
        for (int i = 0; i < INSTRS; i++) {
            enum lane lane = lanes[draw(&state, 4)];
            struct instr *instr = hand_instr(c->hand, s, OP_COMPUTE, lane, 0);
            int wait = (int)draw(&state, INSTRS);
            c->ns[s][i] = 100 + (int64_t)draw(&state, 900);
            if (wait < i && list->instrs[wait].lane != lane) {
                instr->wait_count = 1;
                list->waits[list->wait_count++] = wait;
            }
            if (lane != LANE_COMPUTE)
                draw_uses(&c->uses[s][i], c->ns[s][i], &state);
            for (int k = 0; own && k < c->uses[s][i].count; k++)
                c->uses[s][i].use[k].link += LINKS * (s * LANE_COUNT + (int)lane);
        }
    }
    return c;
}

static void case_free(struct random_case *c)
{
    hand_free(c->hand);
    free(c);
}

static struct timeline *simulated(const struct random_case *c, bool shares, double factor, uint64_t order)
{
    struct durations durations = { .ns = case_ns,
                                   .self = c,
                                   .compute_under_communication = factor,
                                   .communication_under_compute = factor,
                                   .order = order,
                                   .links = shares ? case_uses : NULL,
                                   .link_count = LINKS * STAGES * LANE_COUNT };
    struct timeline *timeline = NULL;
    struct error err = { 0 };
    ck_assert_msg(simulate_with(&timeline, &durations, c->hand->program, &err), "%s", err.message);
    return timeline;
}

/* ---- the twin ---- */
struct twin {
    const struct random_case *c;
    double factor;
    double left[STAGES][INSTRS]; /* of the duration */
    bool runs[STAGES][INSTRS];
    int finish[STAGES][INSTRS]; /* in steps of time */
};

static const struct instr *twin_instr(const struct twin *t, int s, int i)
{
    return &t->c->hand->program->stages[s].instrs[i];
}

static const struct link_use *twin_use(const struct twin *t, int s, int i, int link)
{
    const struct link_uses *uses = &t->c->uses[s][i];
    for (int k = 0; k < uses->count; k++)
        if (uses->use[k].link == link)
            return &uses->use[k];
    return NULL;
}

/* Past its latency: it passes its links. */
static bool passes(const struct twin *t, int s, int i)
{
    return t->runs[s][i] && t->left[s][i] <= (double)(t->c->ns[s][i] - t->c->uses[s][i].latency_ns);
}

/* The level to which the link fills: each takes its flows' parts of it, but no more than it needs. By bisection. */
static double water_level(const struct twin *t, int link)
{
    double low = 0, high = 1;
    for (int k = 0; k < 40; k++) {
        double level = (low + high) / 2, sum = 0;
        for (int s = 0; s < STAGES; s++)
            for (int i = 0; i < INSTRS; i++) {
                const struct link_use *use = passes(t, s, i) ? twin_use(t, s, i, link) : NULL;
                sum += use ? fmin(level * use->flows, (double)use->busy / LINK_WHOLE) : 0;
            }
        *(sum > 1 ? &high : &low) = level;
    }
    return low;
}

static double twin_speed(const struct twin *t, const double level[LINKS], int s, int i)
{
    bool compute = twin_instr(t, s, i)->lane == LANE_COMPUTE, beside = false;
    for (int k = 0; k < INSTRS; k++)
        beside |= t->runs[s][k] && (twin_instr(t, s, k)->lane == LANE_COMPUTE) != compute;
    double speed = 1;
    for (int link = 0; link < LINKS && passes(t, s, i); link++) {
        const struct link_use *use = twin_use(t, s, i, link);
        speed = use ? fmin(speed, level[link] * use->flows / ((double)use->busy / LINK_WHOLE)) : speed;
    }
    return beside ? speed / t->factor : speed;
}

static bool twin_ready(const struct twin *t, int s, int i)
{
    const struct instr *instr = twin_instr(t, s, i);
    const int *waits = t->c->hand->program->stages[s].waits;
    for (int k = 0; k < i; k++)
        if (twin_instr(t, s, k)->lane == instr->lane && !t->finish[s][k])
            return false;
    for (int k = 0; k < instr->wait_count; k++)
        if (!t->finish[s][waits[instr->wait_first + k]])
            return false;
    return true;
}

enum { STEPS_PER_NS = 2 };
static void run_twin(struct twin *t)
{
    int left = STAGES * INSTRS;
    for (int step = 0; left > 0; step++) {
        double level[LINKS], speed[STAGES][INSTRS] = { { 0 } };
        ck_assert_int_lt(step, 1 << 20);
        for (int s = 0; s < STAGES; s++)
            for (int i = 0; i < INSTRS; i++)
                t->runs[s][i] = t->runs[s][i] || (!t->finish[s][i] && twin_ready(t, s, i));
        for (int link = 0; link < LINKS; link++)
            level[link] = water_level(t, link);
        for (int s = 0; s < STAGES; s++)
            for (int i = 0; i < INSTRS; i++)
                speed[s][i] = t->runs[s][i] ? twin_speed(t, level, s, i) : 0;
        for (int s = 0; s < STAGES; s++)
            for (int i = 0; i < INSTRS; i++) {
                t->left[s][i] -= speed[s][i] / STEPS_PER_NS;
                if (!t->runs[s][i] || t->left[s][i] > 1e-9)
                    continue;
                t->runs[s][i] = false;
                t->finish[s][i] = step + 1;
                left--;
            }
    }
}

/* Every end of a transfer costs the twin up to a step, and the simulator up to a nanosecond. */
START_TEST(agrees_with_small_steps_of_time)
{
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct random_case *c = random_case(seed, false);
        struct twin twin = { .c = c, .factor = seed % 2 ? 1 : 1.5 };
        struct timeline *timeline = simulated(c, true, twin.factor, seed);
        for (int s = 0; s < STAGES; s++)
            for (int i = 0; i < INSTRS; i++)
                twin.left[s][i] = (double)c->ns[s][i];
        run_twin(&twin);
        for (int s = 0; s < STAGES; s++)
            for (int i = 0; i < INSTRS; i++)
                CHECK_NEAR((double)timeline->ranks[s].spans[i].finish_ns, (double)twin.finish[s][i] / STEPS_PER_NS, 15);
        timeline_free(timeline);
        case_free(c);
    }
}
END_TEST

static bool same_spans(const struct timeline *a, const struct timeline *b)
{
    for (int s = 0; s < a->rank_count; s++)
        if (memcmp(a->ranks[s].spans, b->ranks[s].spans, (size_t)a->ranks[s].span_count * sizeof(struct span)) != 0)
            return false;
    return true;
}

START_TEST(the_order_of_ranks_does_not_matter)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct random_case *c = random_case(seed, false);
        struct timeline *first = simulated(c, true, 1.37, 0);
        for (uint64_t order = 1; order <= 10; order++) {
            struct timeline *other = simulated(c, true, 1.37, mix64(order));
            ck_assert(same_spans(first, other));
            timeline_free(other);
        }
        timeline_free(first);
        case_free(c);
    }
}
END_TEST

START_TEST(links_of_one_lane_change_nothing)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct random_case *c = random_case(seed, true);
        struct timeline *with = simulated(c, true, 1.37, seed), *without = simulated(c, false, 1.37, seed);
        ck_assert(same_spans(with, without));
        timeline_free(with);
        timeline_free(without);
        case_free(c);
    }
}
END_TEST

START_TEST(sharing_never_shortens)
{
    int longer = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct random_case *c = random_case(seed, false);
        struct timeline *with = simulated(c, true, 1, seed), *without = simulated(c, false, 1, seed);
        for (int s = 0; s < STAGES; s++)
            for (int i = 0; i < INSTRS; i++)
                ck_assert_int_ge(with->ranks[s].spans[i].finish_ns, without->ranks[s].spans[i].finish_ns);
        longer += with->step_ns > without->step_ns;
        timeline_free(with);
        timeline_free(without);
        case_free(c);
    }
    ck_assert_int_gt(longer, 100);
}
END_TEST

/* Two transfers of one stage that begin together, alone a latency of 10 and 90 (120) on the link. */
START_TEST(two_transfers_have_closed_forms)
{
    static const struct {
        int flows[2], busy[2];
        int64_t first, second;
    } cases[] = {
        { { 1, 1 }, { LINK_WHOLE, LINK_WHOLE }, 190, 220 },         /* 90 at half, then 30 alone */
        { { 2, 1 }, { LINK_WHOLE, LINK_WHOLE }, 145, 220 },         /* 90 at two thirds: 45 of the other, then 75 */
        { { 1, 1 }, { LINK_WHOLE / 2, LINK_WHOLE / 2 }, 100, 130 }, /* both need half: nobody waits */
        { { 1, 1 }, { LINK_WHOLE / 4, LINK_WHOLE }, 100, 153 },     /* the other gets three quarters: 67.5, then 52.5 */
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct random_case c = { .hand = hand_pipeline("1f1b", 1, 1), .ns = { { 100, 130 } } };
        c.hand->program->stages[0].instr_count = c.hand->program->stages[0].wait_count = 0;
        for (int i = 0; i < 2; i++) {
            hand_instr(c.hand, 0, OP_COMPUTE, i ? LANE_DP : LANE_TP, 0);
            c.uses[0][i] = (struct link_uses){ .latency_ns = 10, .count = 1 };
            c.uses[0][i].use[0] = (struct link_use){ .link = 3, .flows = cases[k].flows[i], .busy = cases[k].busy[i] };
        }
        struct timeline *t = simulated(&c, true, 1, 0);
        CHECK_NEAR((double)t->ranks[0].spans[0].finish_ns, (double)cases[k].first, 1); /* speeds are rounded down */
        CHECK_NEAR((double)t->ranks[0].spans[1].finish_ns, (double)cases[k].second, 1);
        timeline_free(t);
        hand_free(c.hand);
    }
}
END_TEST

/* ---- programs of every listed strategy on described clusters ---- */
struct costs {
    int64_t *ns[8]; /* by stage */
};

static int64_t costs_ns(const void *self, const struct program *program, int stage, const struct instr *instr)
{
    return ((const struct costs *)self)->ns[stage][instr - program->stages[stage].instrs];
}

/* Nothing takes less time than alone, what moves nothing between ranks takes its time, and nothing ends earlier. */
START_TEST(strategies_are_never_shorter_for_sharing)
{
    static const char *const forms[] = { "4x4:a100-sxm-80", "3x6:l40s@host=30e9,host-memory=250e9", "4x5:cpu" };
    struct lowered l = lowered_program(&strategies[_i]);
    ck_assert(layout_program(l.program, NULL));
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        struct cluster *cluster = cluster_open(forms[f]);
        struct facts facts = { .cluster = cluster };
        struct costs costs = { 0 };
        struct durations durations = { .ns = costs_ns, .self = &costs };
        struct timeline *with = NULL, *without = NULL;
        struct error err = { 0 };
        bool asynchronous = schedules[l.program->plan->schedule]->asynchronous; /* moments count from each own begin */
        for (int s = 0; s < l.program->stage_count; s++) {
            costs.ns[s] = calloc((size_t)l.program->stages[s].instr_count, sizeof *costs.ns[s]);
            ck_assert(cost_stage_ns(costs.ns[s], NULL, &facts, l.program, s));
            for (int i = 0; i < l.program->stages[s].instr_count; i++)
                ck_assert_int_eq(costs.ns[s][i], cost_instr_ns(&facts, l.program, s, &l.program->stages[s].instrs[i]));
        }
        ck_assert_msg(simulate(&with, &facts, l.program, &err), "%s", err.message);
        ck_assert_msg(simulate_with(&without, &durations, l.program, &err), "%s", err.message);
        for (int s = 0; s < l.program->stage_count; s++) {
            for (int i = program_opening_count(&l.program->stages[s]); i < with->ranks[s].span_count; i++) {
                const struct span *span = &with->ranks[s].spans[i];
                const struct instr *instr = &l.program->stages[s].instrs[i];
                if (!op_info[instr->op].collective && instr->op != OP_SEND && instr->op != OP_RECEIVE)
                    ck_assert_int_eq(span->finish_ns - span->start_ns, costs.ns[s][i]);
                else if (instr->op != OP_RECEIVE)
                    ck_assert_int_ge(span->finish_ns - span->start_ns, costs.ns[s][i]);
                if (!asynchronous)
                    ck_assert_int_ge(span->finish_ns, without->ranks[s].spans[i].finish_ns);
            }
            free(costs.ns[s]);
        }
        ck_assert_int_ge(with->step_ns, without->step_ns);
        timeline_free(with);
        timeline_free(without);
        cluster_free(cluster);
    }
    lowered_free(&l);
}
END_TEST

static Suite *fluid_suite(void)
{
    Suite *suite = suite_create("fluid");
    CHECK_ADD(suite, agrees_with_small_steps_of_time);
    CHECK_ADD(suite, the_order_of_ranks_does_not_matter);
    CHECK_ADD(suite, links_of_one_lane_change_nothing);
    CHECK_ADD(suite, sharing_never_shortens);
    CHECK_ADD(suite, two_transfers_have_closed_forms);
    CHECK_ADD_LOOP(suite, strategies_are_never_shorter_for_sharing, STRATEGY_COUNT);
    return suite;
}

CHECK_MAIN(fluid_suite)
