/* The virtual clock against closed forms, properties and a twin that relaxes the same constraints to a fixed point. */
#include "tests/check.h"
#include "base/json.h"
#include "base/num.h"
#include "formats/trace.h"
#include "planner/layout/layout.h"
#include "planner/sim/simulate.h"
#include "tests/hand_program.h"
#include "tests/lowered_program.h"

struct times {
    int64_t forward, input, weight, send, step;
    uint64_t noise;
};

static int64_t hand_ns(const void *self, const struct program *program, int stage, const struct instr *instr)
{
    const struct times *t = self;
    int64_t noise =
        t->noise
            ? (int64_t)(mix64(t->noise + (uint64_t)stage * 1000 + (uint64_t)(instr - program->stages[stage].instrs)) %
                        50)
            : 0;
    switch (instr->op) {
    case OP_COMPUTE:
        return noise + (instr->phase == PHASE_FORWARD          ? t->forward
                        : instr->phase == PHASE_BACKWARD_INPUT ? t->input
                                                               : t->weight);
    case OP_SEND:
        return noise + t->send;
    case OP_UPDATE:
    case OP_NORM:
    case OP_NORM_REDUCE:
        return t->step;
    case OP_LOAD:
    case OP_SEED:
    case OP_ZERO:
    case OP_SLICE:
    case OP_ADD:
    case OP_ALL_REDUCE:
    case OP_ALL_GATHER:
    case OP_REDUCE_SCATTER:
    case OP_REDUCE:
    case OP_BROADCAST:
    case OP_ALL_TO_ALL:
    case OP_REDISTRIBUTE:
    case OP_SHIFT:
    case OP_RECEIVE:
    case OP_OFFLOAD:
    case OP_FETCH:
    case OP_COUNT:
        break;
    }
    return 0;
}

static struct timeline *run_ordered(const struct program *program, const struct times *times, double compute,
                                    double communication, uint64_t order)
{
    struct durations durations = { .ns = hand_ns,
                                   .self = times,
                                   .compute_under_communication = compute,
                                   .communication_under_compute = communication,
                                   .order = order };
    struct timeline *timeline = NULL;
    struct error err = { 0 };
    ck_assert_msg(simulate_with(&timeline, &durations, program, &err), "%s", err.message);
    return timeline;
}

static struct timeline *run(const struct program *program, const struct times *times)
{
    return run_ordered(program, times, 1, 1, 0);
}

static int64_t step_of(const char *schedule, int stages, int micros, struct times times)
{
    struct hand *h = hand_pipeline(schedule, stages, micros);
    struct timeline *timeline = run(h->program, &times);
    int64_t ns = timeline->step_ns;
    timeline_free(timeline);
    hand_free(h);
    return ns;
}

/* Equal stages, free transfers, backward in one piece: (m + P - 1)(f + b) for GPipe and 1F1B (Huang et al. 2019;
 * Narayanan et al. 2021, section 2.2). */
START_TEST(pipelines_match_the_closed_form)
{
    static const char *const names[] = { "1f1b", "gpipe" };
    for (int stages = 1; stages <= 8; stages++)
        for (int micros = 1; micros <= 12; micros++)
            for (int k = 0; k < 2; k++) {
                int64_t got = step_of(names[k], stages, micros, (struct times){ .forward = 7, .input = 13 });
                ck_assert_msg(got == (int64_t)(micros + stages - 1) * 20, "%s, %d stages, %d micro-batches: %lld",
                              names[k], stages, micros, (long long)got);
            }
}
END_TEST

/* With one micro-batch nothing overlaps but the last stage's weight gradients with the transfer: the chain is exact. */
START_TEST(one_micro_batch_is_a_chain)
{
    for (int stages = 1; stages <= 6; stages++) {
        int64_t got = step_of("1f1b", stages, 1,
                              (struct times){ .forward = 10, .input = 20, .weight = 30, .send = 3, .step = 4 });
        int64_t want = (int64_t)stages * 30 + 2 * (stages - 1) * 3 + 30 + 4;
        ck_assert_int_eq(got, want);
    }
}
END_TEST

/* The closed form up to MAX_TIME_NS, and that itself beyond, however far beyond and in whatever pieces. */
START_TEST(times_end_where_counting_does)
{
    enum { MICROS = 900 };
    static const int64_t each[] = { 1, 1000000, MAX_TIME_NS / 2 / (MICROS + 2), MAX_TIME_NS / MICROS, MAX_TIME_NS };
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        double exact = (MICROS + 1.0) * 2 * (double)each[i];
        int64_t want = exact < (double)MAX_TIME_NS ? (MICROS + 1) * 2 * each[i] : MAX_TIME_NS;
        struct times times = { .forward = each[i], .input = each[i] };
        ck_assert_int_eq(step_of("1f1b", 2, MICROS, times), want);
        times = (struct times){ each[i], each[i], each[i], each[i], each[i], 0 }; /* in all more than 2^63 at last */
        ck_assert_int_ge(step_of("1f1b", 2, MICROS, times), want);
        ck_assert_int_le(step_of("1f1b", 2, MICROS, times), MAX_TIME_NS);
        struct hand *h = hand_pipeline("1f1b", 2, 50);
        struct timeline *slowed = run_ordered(h->program, &times, 1.7, 1.3, 0);
        ck_assert(slowed->step_ns > 0 && slowed->step_ns <= MAX_TIME_NS);
        ck_assert_int_eq(slowed->ranks[0].span_count > 0, slowed->step_ns < MAX_TIME_NS);
        timeline_free(slowed);
        hand_free(h);
    }
    struct error err = { 0 };
    ck_assert(timeline_is_counted(MAX_TIME_NS - 1, &err) && !timeline_is_counted(MAX_TIME_NS, &err));
}
END_TEST

/* A twin: every span begins at the earliest moment that its lane, its waits and its partner allow. Relaxed until
 * nothing moves. */
static int64_t twin_ready(const struct program *p, int64_t **finish, int s, int i)
{
    const struct stage_program *list = &p->stages[s];
    const struct instr *instr = &list->instrs[i];
    int64_t ready = 0;
    for (int k = 0; k < i; k++)
        if (list->instrs[k].lane == instr->lane)
            ready = max_i64(ready, finish[s][k]);
    for (int k = 0; k < instr->wait_count; k++)
        ready = max_i64(ready, finish[s][list->waits[instr->wait_first + k]]);
    return ready;
}

static int64_t twin_finish(const struct program *p, int64_t **finish, int s, int i, const struct times *times)
{
    const struct instr *instr = &p->stages[s].instrs[i];
    int peer = instr->peer_stage;
    int64_t ready = twin_ready(p, finish, s, i), ns = hand_ns(times, p, s, instr);
    if (instr->op != OP_SEND && instr->op != OP_RECEIVE)
        return ready + ns;
    for (int k = 0; k < p->stages[peer].instr_count; k++) {
        const struct instr *other = &p->stages[peer].instrs[k];
        if (other->op != (instr->op == OP_SEND ? OP_RECEIVE : OP_SEND) || other->tag != instr->tag ||
            other->peer_stage != s)
            continue;
        ready = max_i64(ready, twin_ready(p, finish, peer, k));
        ns = instr->op == OP_SEND ? ns : hand_ns(times, p, peer, other);
    }
    return ready + ns;
}

START_TEST(agrees_with_relaxation)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct hand *h = hand_pipeline(seed % 2 ? "1f1b" : "gpipe", 1 + (int)(seed % 4), 1 + (int)(seed % 5));
        struct times times = { 20, 25, 15, (int64_t)(seed % 3) * 9, 5, seed };
        struct timeline *timeline = run(h->program, &times);
        int64_t *finish[HAND_STAGES];
        for (int s = 0; s < h->program->stage_count; s++)
            finish[s] = calloc((size_t)h->program->stages[s].instr_count, sizeof *finish[s]);
        for (bool moved = true; moved;) {
            moved = false;
            for (int s = 0; s < h->program->stage_count; s++)
                for (int i = 0; i < h->program->stages[s].instr_count; i++) {
                    int64_t now = twin_finish(h->program, finish, s, i, &times);
                    moved |= now != finish[s][i];
                    finish[s][i] = now;
                }
        }
        for (int s = 0; s < h->program->stage_count; s++) {
            for (int i = 0; i < h->program->stages[s].instr_count; i++)
                ck_assert_int_eq(timeline->ranks[s].spans[i].finish_ns, finish[s][i]);
            free(finish[s]);
        }
        timeline_free(timeline);
        hand_free(h);
    }
}
END_TEST

START_TEST(the_order_of_ranks_does_not_matter)
{
    struct hand *h = hand_pipeline("1f1b", 6, 9);
    struct times times = { 20, 25, 15, 6, 5, 77 };
    for (int contended = 0; contended < 2; contended++) {
        double factor = contended ? 1.37 : 1;
        struct timeline *first = run_ordered(h->program, &times, factor, 2 * factor, 0);
        for (uint64_t order = 1; order < 40; order++) {
            struct timeline *other = run_ordered(h->program, &times, factor, 2 * factor, mix64(order));
            for (int s = 0; s < 6; s++)
                ck_assert_mem_eq(first->ranks[s].spans, other->ranks[s].spans,
                                 (size_t)first->ranks[s].span_count * sizeof(struct span));
            timeline_free(other);
        }
        timeline_free(first);
    }
    hand_free(h);
}
END_TEST

/* One rank, compute of 100 beside communication of 60: both begin at 0. Compute slows by a, communication by b while
 * both run. */
START_TEST(contention_is_piecewise)
{
    struct hand *h = hand_pipeline("1f1b", 1, 1);
    struct stage_program *list = &h->program->stages[0];
    list->instr_count = list->wait_count = 0;
    struct instr *compute = hand_instr(h, 0, OP_COMPUTE, LANE_COMPUTE, 0);
    compute->segment = 0;
    hand_instr(h, 0, OP_COMPUTE, LANE_DP, 0)->phase = PHASE_BACKWARD_INPUT;
    struct times times = { .forward = 100, .input = 60 };
    static const struct {
        double compute, communication;
        int64_t want_compute, want_communication;
    } cases[] = {
        { 1, 1, 100, 60 }, { 2, 1, 130, 60 }, { 1, 2, 100, 110 }, { 1.5, 1.25, 125, 75 }, { 4, 3, 235, 180 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct timeline *t = run_ordered(h->program, &times, cases[i].compute, cases[i].communication, 0);
        ck_assert_int_eq(t->ranks[0].spans[0].finish_ns, cases[i].want_compute);
        ck_assert_int_eq(t->ranks[0].spans[1].finish_ns, cases[i].want_communication);
        timeline_free(t);
    }
    hand_free(h);
}
END_TEST

/* All stages leave a norm-reduce together, the longest cost after the last has come. */
START_TEST(norm_reduce_joins_all_stages)
{
    struct hand *h = hand_pipeline("gpipe", 3, 2);
    for (int s = 0; s < 3; s++)
        hand_instr(h, s, OP_NORM_REDUCE, LANE_DP, -1)->phase = PHASE_STEP;
    struct times times = { 10, 10, 10, 2, 0, 5 };
    struct timeline *t = run(h->program, &times);
    int last = h->program->stages[0].instr_count - 1;
    for (int s = 1; s < 3; s++)
        ck_assert_int_eq(t->ranks[s].spans[h->program->stages[s].instr_count - 1].finish_ns,
                         t->ranks[0].spans[last].finish_ns);
    timeline_free(t);
    hand_free(h);
}
END_TEST

START_TEST(breakdown_sums_to_the_step)
{
    for (uint64_t seed = 1; seed < 10; seed++) {
        struct hand *h = hand_pipeline("1f1b", 4, 6);
        struct times times = { 30, 40, 20, 11, 7, seed };
        struct timeline *t = run_ordered(h->program, &times, 1.2, 1.3, 0);
        for (int s = 0; s < 4; s++) {
            int64_t ns[TIME_KIND_COUNT], sum = 0, compute = 0, update = 0;
            timeline_breakdown(h->program, t, s, ns);
            for (int k = 0; k < TIME_KIND_COUNT; k++)
                sum += ns[k];
            for (int i = 0; i < t->ranks[s].span_count; i++)
                if (h->program->stages[s].instrs[i].op == OP_UPDATE)
                    update += t->ranks[s].spans[i].finish_ns - t->ranks[s].spans[i].start_ns;
                else if (h->program->stages[s].instrs[i].lane == LANE_COMPUTE)
                    compute += t->ranks[s].spans[i].finish_ns - t->ranks[s].spans[i].start_ns;
            ck_assert_int_eq(sum, t->step_ns);
            ck_assert_int_eq(ns[TIME_COMPUTE], compute);
            ck_assert_int_eq(ns[TIME_OPTIMIZER], update);
            ck_assert_int_ge(update, 7);
            ck_assert_int_eq(ns[TIME_TP] + ns[TIME_DP] + ns[TIME_CP] + ns[TIME_EP] + ns[TIME_RECOMPUTE], 0);
        }
        timeline_free(t);
        hand_free(h);
    }
}
END_TEST

/* The bubble of equal stages without transfers is (P - 1)(f + b) on every rank. */
START_TEST(bubble_has_its_closed_form)
{
    struct hand *h = hand_pipeline("1f1b", 5, 7);
    struct times times = { .forward = 10, .input = 20 };
    struct timeline *t = run(h->program, &times);
    for (int s = 0; s < 5; s++) {
        int64_t ns[TIME_KIND_COUNT];
        timeline_breakdown(h->program, t, s, ns);
        ck_assert_int_eq(ns[TIME_BUBBLE], 4 * 30);
    }
    timeline_free(t);
    hand_free(h);
}
END_TEST

START_TEST(a_stall_names_its_cycle)
{
    struct hand *h = hand_pipeline("1f1b", 2, 1);
    struct stage_program *list = &h->program->stages[0];
    struct error err = { 0 };
    struct timeline *t = NULL;
    struct times times = { 1, 1, 1, 1, 1, 0 };
    struct durations durations = { .ns = hand_ns, .self = &times };
    for (int i = 0; i < list->instr_count; i++) /* the activation leaves only after the gradient has come back */
        if (list->instrs[i].op == OP_SEND) {
            list->instrs[i].wait_first = list->wait_count;
            list->instrs[i].wait_count = 1;
            list->waits[list->wait_count++] = i + 1;
        }
    ck_assert(!simulate_with(&t, &durations, h->program, &err));
    ck_assert_msg(strstr(err.message, "stalls") && strstr(err.message, "stage 1 instr") &&
                      strstr(err.message, "waits for"),
                  "%s", err.message);
    hand_free(h);
}
END_TEST

/* ---- steps that run into each other ---- */
/* Neither filling nor draining: a step lasts as long as the work of the stage that has most, whatever the others have,
 * where transfers are free (Narayanan et al. 2019, section 3.1). 2BW updates once: its stages differ in when. */
START_TEST(asynchronous_steps_last_as_long_as_the_busiest_stage)
{
    static const char *const names[] = { "pipedream", "pipedream-vertical", "pipedream-2bw" };
    for (int k = 0; k < 3; k++)
        for (int stages = 2; stages <= 4; stages++)
            for (int micros = stages; micros <= 9; micros += 2) {
                struct strategy s = { "steady",   "tiny-opaque",      names[k], stages,
                                      { 1, 1 },   { "none", "none" }, micros,   .recompute = micros % 3,
                                      .slices = 1 };
                struct lowered l = lowered_program(&s);
                struct times times = { .forward = 7, .input = 11, .weight = 5, .step = k < 2 ? 3 : 0 };
                struct durations durations = { .ns = hand_ns, .self = &times };
                struct timeline *t = NULL;
                struct error err = { 0 };
                int64_t busiest = 0;
                for (int i = 0; i < stages; i++) {
                    const struct stage_program *list = &l.program->stages[i];
                    int64_t sum = 0;
                    for (int at = program_opening_count(list); at < list->instr_count; at++)
                        sum += list->instrs[at].lane == LANE_COMPUTE ? hand_ns(&times, l.program, i, &list->instrs[at])
                                                                     : 0;
                    busiest = max_i64(busiest, sum);
                }
                ck_assert(layout_program(l.program, &err));
                ck_assert_msg(simulate_with(&t, &durations, l.program, &err), "%s", err.message);
                ck_assert_msg(t->step_ns == busiest, "%s, %d stages, %d micro-batches: %lld, busiest stage %lld",
                              names[k], stages, micros, (long long)t->step_ns, (long long)busiest);
                timeline_free(t);
                lowered_free(&l);
            }
}
END_TEST

/* ---- lowered programs with analytic costs ---- */
static const char device[] =
    "{\"description\": \"d\", \"source\": \"s\", \"matmul_flops_per_s\": {\"fp32\": 1e12}, \"matmul_efficiency\": 0.5,"
    "\"attention_forward_efficiency\": 0.5, \"attention_backward_efficiency\": 0.5, \"vector_flops_per_s\": 1e11, "
    "\"memory_bytes_per_s\": 1e10, \"memory_bytes\": 1000000000, \"launch_ns\": 1000, \"link_bytes_per_s\": 1e9, "
    "\"link_latency_ns\": 1000, \"nic_bytes_per_s\": 1e8, \"nic_latency_ns\": 5000, "
    "\"host_bytes_per_s\": 5e8, \"host_latency_ns\": 2000, \"host_memory_bytes\": 1000000000}";

static struct cluster *open_cluster(void)
{
    static const struct catalogue_entry catalogue[] = { { "gpu", device, sizeof device - 1 } };
    static const char text[] = "2x8:gpu";
    struct cluster *cluster = NULL;
    struct error err = { 0 };
    ck_assert_msg(cluster_read(&cluster, "--cluster", text, strlen(text), catalogue, 1, &err), "%s", err.message);
    return cluster;
}

static void check_rank(const struct facts *facts, const struct program *p, const struct timeline *t, int s)
{
    const struct stage_program *list = &p->stages[s];
    int64_t lane_end[LANE_COUNT] = { 0 }, ns[TIME_KIND_COUNT], sum = 0;
    for (int i = 0; i < list->instr_count; i++) {
        const struct instr *instr = &list->instrs[i];
        const struct span *span = &t->ranks[s].spans[i];
        ck_assert_int_ge(span->start_ns, lane_end[instr->lane]);
        for (int k = 0; k < instr->wait_count; k++)
            ck_assert_int_ge(span->start_ns, t->ranks[s].spans[list->waits[instr->wait_first + k]].finish_ns);
        if (instr->part == STEP_OPENING) /* done before this step */
            ck_assert_int_eq(span->finish_ns, 0);
        else if (instr->op == OP_SEND || op_info[instr->op].collective) /* longer beside others on their links */
            ck_assert_int_ge(span->finish_ns - span->start_ns, cost_instr_ns(facts, p, s, instr));
        else if (instr->op != OP_RECEIVE)
            ck_assert_int_eq(span->finish_ns - span->start_ns, cost_instr_ns(facts, p, s, instr));
        lane_end[instr->lane] = span->finish_ns;
        ck_assert_int_le(span->finish_ns, t->step_ns);
    }
    timeline_breakdown(p, t, s, ns);
    for (int k = 0; k < TIME_KIND_COUNT; k++)
        sum += ns[k];
    ck_assert_int_eq(sum, t->step_ns);
    ck_assert_int_eq(t->ranks[s].peak_bytes, list->arena_bytes);
}

START_TEST(lowered_programs_obey_lanes_waits_and_costs)
{
    struct lowered l = lowered_program(&strategies[_i]);
    struct cluster *cluster = open_cluster();
    struct facts facts = { .cluster = cluster };
    struct timeline *t = NULL;
    struct error err = { 0 };
    ck_assert(layout_program(l.program, NULL));
    ck_assert_msg(simulate(&t, &facts, l.program, &err), "%s", err.message);
    for (int s = 0; s < l.program->stage_count; s++)
        check_rank(&facts, l.program, t, s);
    timeline_free(t);
    cluster_free(cluster);
    lowered_free(&l);
}
END_TEST

START_TEST(the_trace_holds_every_span)
{
    struct hand *h = hand_pipeline("1f1b", 3, 2);
    struct times times = { 1500, 25, 15, 6, 5, 0 };
    struct timeline *t = run(h->program, &times);
    size_t length = 0;
    char *text = trace_write(h->program, t, &length);
    struct json_doc *doc = NULL;
    struct error err = { 0 };
    ck_assert_msg(json_parse(&doc, "trace", text, length, &err), "%s", err.message);
    const struct json *events = json_member(json_root(doc), "traceEvents");
    int spans = 0, want = 0;
    double end_us = 0;
    for (int i = 0; i < json_count(events); i++) {
        const struct json *event = json_at(events, i);
        const char *kind = NULL;
        double ts, dur;
        ck_assert(json_string(json_member(event, "ph"), &kind, &err));
        if (strcmp(kind, "X"))
            continue;
        spans++;
        ck_assert(json_double(json_member(event, "ts"), -1, 1e18, &ts, &err));
        ck_assert(json_double(json_member(event, "dur"), -1, 1e18, &dur, &err));
        end_us = ts + dur > end_us ? ts + dur : end_us;
    }
    for (int s = 0; s < 3; s++)
        want += h->program->stages[s].instr_count;
    ck_assert_int_eq(spans, want);
    CHECK_NEAR(end_us, (double)t->step_ns / 1e3, 1e-9);
    json_free(doc);
    free(text);
    timeline_free(t);
    hand_free(h);
}
END_TEST

/* Beside the spans, each beneath its lane and with its instruction, or without one. */
START_TEST(the_trace_holds_what_ran)
{
    struct hand *h = hand_pipeline("1f1b", 3, 2);
    struct times times = { 1500, 25, 15, 6, 5, 0 };
    struct timeline *t = run(h->program, &times);
    struct activity ran[] = { { 1000, 3500, LANE_COMPUTE, 1, ACTIVITY_KERNEL, "a \"kernel\"" },
                              { 2000, 2500, LANE_SEND, -1, ACTIVITY_COPY, "a copy" },
                              { 2600, 2700, ACTIVITY_ELSEWHERE, -1, ACTIVITY_FILL, "a fill" } };
    const char *const rows[] = { "compute kernels", "send kernels", "other kernels" };
    t->ranks[1].activity = (struct rank_activity){ { .recorded = 1, .count = 3 }, ran };
    size_t length = 0;
    char *text = trace_write(h->program, t, &length);
    struct json_doc *doc = NULL;
    struct error err = { 0 };
    ck_assert_msg(json_parse(&doc, "trace", text, length, &err), "%s", err.message);
    const struct json *events = json_member(json_root(doc), "traceEvents");
    for (int k = 0; k < 3; k++) {
        const struct json *found = NULL, *row = NULL;
        const char *name;
        int64_t tid, row_tid, pid, instr;
        double ts, dur;
        for (int i = 0; i < json_count(events); i++) {
            const struct json *event = json_at(events, i), *args = json_member(event, "args");
            ck_assert(json_string(json_member(event, "name"), &name, &err));
            found = strcmp(name, ran[k].name) == 0 ? event : found;
            if (strcmp(name, "thread_name") == 0 && json_string(json_member(args, "name"), &name, &err))
                row = strcmp(name, rows[k]) == 0 ? event : row;
        }
        ck_assert_msg(found && row, "%s under %s", ran[k].name, rows[k]);
        ck_assert(json_int(json_member(found, "tid"), 0, 100, &tid, &err) &&
                  json_int(json_member(row, "tid"), 0, 100, &row_tid, &err) && tid == row_tid && tid >= LANE_COUNT);
        ck_assert(json_int(json_member(found, "pid"), 0, 100, &pid, &err) && pid == t->ranks[1].rank);
        ck_assert(json_double(json_member(found, "ts"), 0, 1e9, &ts, &err) &&
                  json_double(json_member(found, "dur"), 0, 1e9, &dur, &err));
        CHECK_NEAR(ts, (double)ran[k].start_ns / 1e3, 1e-9);
        CHECK_NEAR(dur, (double)(ran[k].finish_ns - ran[k].start_ns) / 1e3, 1e-9);
        const struct json *args = json_member(found, "args");
        ck_assert((args != NULL) == (ran[k].instr >= 0));
        ck_assert(!args || (json_int(json_member(args, "of_instr"), 0, 100, &instr, &err) && instr == ran[k].instr));
    }
    json_free(doc);
    free(text);
    timeline_free(t);
    hand_free(h);
}
END_TEST

static Suite *sim_suite(void)
{
    Suite *suite = suite_create("sim");
    CHECK_ADD(suite, pipelines_match_the_closed_form);
    CHECK_ADD(suite, one_micro_batch_is_a_chain);
    CHECK_ADD(suite, times_end_where_counting_does);
    CHECK_ADD(suite, asynchronous_steps_last_as_long_as_the_busiest_stage);
    CHECK_ADD(suite, agrees_with_relaxation);
    CHECK_ADD(suite, the_order_of_ranks_does_not_matter);
    CHECK_ADD(suite, contention_is_piecewise);
    CHECK_ADD(suite, norm_reduce_joins_all_stages);
    CHECK_ADD(suite, breakdown_sums_to_the_step);
    CHECK_ADD(suite, bubble_has_its_closed_form);
    CHECK_ADD(suite, a_stall_names_its_cycle);
    CHECK_ADD(suite, the_trace_holds_every_span);
    CHECK_ADD(suite, the_trace_holds_what_ran);
    TCase *lowered = tcase_create("lowered");
    tcase_set_timeout(lowered, 0);
    tcase_add_loop_test(lowered, lowered_programs_obey_lanes_waits_and_costs, 0, STRATEGY_COUNT);
    suite_add_tcase(suite, lowered);
    return suite;
}

CHECK_MAIN(sim_suite)
