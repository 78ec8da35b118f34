#include "profiler/sweep.h"
#include "base/num.h"
#include "executor/kernel.h"
#include "host/clock.h"
#include "planner/sim/timeline.h"
#include "profiler/fit.h"
#include "profiler/rig.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUN_COLUMNS = 16, REPEATS = 16, REPEAT_BYTES = 1 << 20, WARM_UP_STEPS = 1, MIN_STEPS = 3, MAX_STEPS = 200 };
static const double SETTLED_SHARE = 0.95, SETTLED_ERROR = 0.03;
static const int64_t FIRST_BYTES = 1 << 10, LAST_BYTES = 1 << 26;

/* ---- what to measure ---- */
/* Not what is priced as another: the norm's scalar as an all-reduce, what passes one rank as its messages. */
static bool is_swept(enum op op)
{
    bool as_another = op == OP_NORM_REDUCE || op == OP_REDUCE || op == OP_BROADCAST;
    return (op_info[op].collective && !as_another) || op == OP_SEND;
}

bool sweep_cases(struct sweep_case **out, int *count, int rank_count, struct error *err)
{
    struct sweep_case *cases = calloc((size_t)OP_COUNT * (size_t)rank_count * (size_t)rank_count + 1, sizeof *cases);
    if (!cases)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for the transfers to measure");
    int made = 0;
    for (int op = 0; op < OP_COUNT; op++)
        for (int ranks = 2; is_swept((enum op)op) && ranks <= rank_count; ranks++)
            for (int concurrent = 1; ranks * concurrent <= rank_count; concurrent++)
                if (rank_count % (ranks * concurrent) == 0 && (op != OP_SEND || ranks == 2))
                    cases[made++] = (struct sweep_case){ (enum op)op, ranks, concurrent };
    *out = cases;
    *count = made;
    return true;
}

static bool reduces_weights(enum op op)
{
    return op == OP_ALL_REDUCE || op == OP_ALL_GATHER || op == OP_REDUCE_SCATTER;
}

/* Elements of which a buffer must have a multiple. */
static int64_t grain(const struct sweep_case *c)
{
    if (c->op == OP_ALL_TO_ALL || c->op == OP_REDISTRIBUTE)
        return (int64_t)RUN_COLUMNS * c->ranks;
    return c->op == OP_ALL_GATHER || c->op == OP_REDUCE_SCATTER ? c->ranks : 1;
}

int sweep_sizes(const struct sweep_case *c, int64_t largest_bytes, int64_t bytes[SWEEP_MAX_SIZES])
{
    int64_t unit = grain(c) * (int64_t)sizeof(real);
    int count = 0;
    bytes[count++] = unit;
    for (int64_t at = FIRST_BYTES; at <= LAST_BYTES; at *= 4)
        if (round_up(at, unit) > bytes[count - 1])
            bytes[count++] = round_up(at, unit);
    if (reduces_weights(c->op) && round_up(largest_bytes, unit) > bytes[count - 1])
        bytes[count++] = round_up(largest_bytes, unit);
    return count;
}

static int repeats_of(int64_t bytes)
{
    return (int)max_i64(1, min_i64(REPEATS, REPEAT_BYTES / bytes));
}

/* ---- the program of a curve: marker, transfer, marker, transfer, ..., marker ---- */
struct layouts {
    enum layout_kind from;
    int from_dim;
    enum layout_kind to;
    int to_dim;
};

/* Of conversions; all else leaves the matrix as it is, in rows. */
static struct layouts layouts_of(enum op op)
{
    static const struct layouts conversions[OP_COUNT] = {
        [OP_ALL_REDUCE] = { LAYOUT_PARTIAL, 0, LAYOUT_REPLICATED, 0 },
        [OP_ALL_GATHER] = { LAYOUT_SHARDED, 1, LAYOUT_REPLICATED, 0 },
        [OP_REDUCE_SCATTER] = { LAYOUT_PARTIAL, 0, LAYOUT_SHARDED, 1 },
        [OP_ALL_TO_ALL] = { LAYOUT_SHARDED, 0, LAYOUT_SHARDED, 1 },
        [OP_REDISTRIBUTE] = { LAYOUT_SHARDED, 1, LAYOUT_SHARDED, 0 },
    };
    static const struct layouts rows = { LAYOUT_SHARDED, 0, LAYOUT_SHARDED, 0 };
    enum traffic traffic = op_info[op].traffic;
    bool converts = traffic == TRAFFIC_RING || traffic == TRAFFIC_EXCHANGE || op == OP_ALL_REDUCE;
    return converts ? conversions[op] : rows;
}

/* The matrix whose larger piece on one rank has so many elements. */
static int tensor_of(struct rig *rig, const struct sweep_case *c, int64_t elements)
{
    if (c->op == OP_ALL_TO_ALL || c->op == OP_REDISTRIBUTE)
        return rig_tensor(rig, elements / RUN_COLUMNS * c->concurrent, (int64_t)RUN_COLUMNS * c->ranks);
    if (c->op == OP_SHIFT)
        return rig_tensor(rig, (int64_t)c->ranks * c->concurrent, elements);
    return rig_tensor(rig, c->concurrent, elements);
}

static void add_marker(struct rig *rig, int stage, int after)
{
    rig_instr(rig, stage, OP_ZERO, LANE_COMPUTE, after, -1, -1);
}

static void add_transfer(struct rig *rig, const struct sweep_case *c, int source, int destination, int tag)
{
    if (c->op != OP_SEND) {
        rig_instr(rig, 0, c->op, LANE_TP, LANE_COMPUTE, source, destination);
        add_marker(rig, 0, LANE_TP);
        return;
    }
    struct instr *send = rig_instr(rig, 0, OP_SEND, LANE_SEND, LANE_COMPUTE, source, destination);
    send->peer_stage = 1, send->tag = tag;
    struct instr *receive = rig_instr(rig, 1, OP_RECEIVE, LANE_RECEIVE, LANE_COMPUTE, source, destination);
    receive->peer_stage = 0, receive->tag = tag;
    add_marker(rig, 0, LANE_SEND);
    add_marker(rig, 1, LANE_RECEIVE);
}

struct curve_run {
    const struct sweep_case *c;
    struct rig *rig;
    int64_t bytes[SWEEP_MAX_SIZES];
    int size_count, transfer_count;
    int *size_of;           /* (transfer_count) the transfer's size; it is instruction 2 i + 1 of its stages */
    struct samples samples; /* by bytes */
    int64_t end_ns;
    int steps;
    struct error error;
};

/* Large pieces of weights and gradients lie apart from each other, so that each is touched once per step and comes from
 * memory, as in training, and not from a cache that the size before has filled. */
static void add_size(struct curve_run *run, int size)
{
    const struct sweep_case *c = run->c;
    struct layouts l = layouts_of(c->op);
    bool send = c->op == OP_SEND;
    int tensor = tensor_of(run->rig, c, run->bytes[size] / (int64_t)sizeof(real));
    bool apart = reduces_weights(c->op) && repeats_of(run->bytes[size]) == 1;
    int source = rig_buffer(run->rig, 0, tensor, l.from, l.from_dim, apart ? RIG_APART : RIG_SOURCE);
    int destination = c->op == OP_ALL_REDUCE ? source
                                             : rig_buffer(run->rig, send ? 1 : 0, tensor, l.to, l.to_dim,
                                                          apart ? RIG_APART : RIG_DESTINATION);
    for (int i = repeats_of(run->bytes[size]); i > 0; i--) {
        run->size_of[run->transfer_count] = size;
        add_transfer(run->rig, c, source, destination, run->transfer_count++);
    }
}

static bool open_run(struct curve_run *run, const struct crew *crew, const struct sweep_options *o, struct error *err)
{
    const struct sweep_case *c = run->c;
    int stages = c->op == OP_SEND ? 2 : 1, capacity = 1;
    run->size_count = sweep_sizes(c, o->largest_bytes, run->bytes);
    while (o->most_bytes > 0 && run->bytes[run->size_count - 1] > o->most_bytes)
        run->size_count--;
    for (int i = 0; i < run->size_count; i++)
        capacity += repeats_of(run->bytes[i]);
    run->size_of = calloc((size_t)capacity, sizeof *run->size_of);
    if (!run->size_of)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for a sweep");
    int outer = stages == 2 ? 1 : c->concurrent, inner = stages == 2 ? c->concurrent : c->ranks;
    if (!rig_new(&run->rig, crew->rank_count, stages, outer, inner, run->size_count, 2 * capacity, err))
        return false;
    for (int s = 0; s < stages; s++)
        add_marker(run->rig, s, -1);
    for (int i = 0; i < run->size_count; i++)
        add_size(run, i);
    rig_finish(run->rig);
    return true;
}

/* ---- the times ---- */
/* The index-th rank of a group; of SEND, the sender and the receiver. */
static int member(const struct sweep_case *c, int group, int index)
{
    return c->op == OP_SEND ? index * c->concurrent + group : group * c->ranks + index;
}

static bool take_step(struct curve_run *run, const struct timeline *timeline)
{
    const struct sweep_case *c = run->c;
    for (int t = 0; t < run->transfer_count; t++) {
        char key[32];
        snprintf(key, sizeof key, "%d", run->size_of[t]);
        for (int g = 0; g < c->concurrent; g++) {
            int64_t ready = INT64_MIN, done = INT64_MIN;
            for (int i = 0; i < c->ranks; i++) {
                const struct span *spans = timeline->ranks[member(c, g, i)].spans;
                ready = max_i64(ready, spans[2 * t].finish_ns);
                done = max_i64(done, spans[2 * t + 2].start_ns);
            }
            if (!samples_add(&run->samples, key, (double)(done - ready), &run->error))
                return false;
        }
    }
    return true;
}

static bool on_timeline(void *context, int64_t step, const struct timeline *timeline)
{
    struct curve_run *run = context;
    if (step <= WARM_UP_STEPS)
        return true;
    run->steps++;
    if (!take_step(run, timeline))
        return false;
    return run->steps < MIN_STEPS ||
           (clock_now_ns() < run->end_ns && !samples_settled(&run->samples, NULL, SETTLED_SHARE, SETTLED_ERROR));
}

bool sweep_curve(struct collective_curve *out, struct arena *arena, const struct sweep_case *c, const int64_t *bytes,
                 int size_count, struct series *const *series, struct error *err)
{
    struct collective_curve curve = {
        .op = op_info[c->op].name, .ranks = c->ranks, .concurrent = c->concurrent, .point_count = size_count
    };
    struct fit_point fitted[SWEEP_MAX_SIZES];
    curve.points = arena_alloc(arena, (size_t)size_count, sizeof *curve.points);
    if (!curve.points)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for a curve");
    for (int i = 0; i < size_count; i++) {
        curve.points[i] = (struct collective_point){ bytes[i], series_measurement(series[i]) };
        fitted[i] = (struct fit_point){ .calls = 1, .units = (double)bytes[i], .ns = (double)curve.points[i].m.ns };
    }
    struct fit_line line = { 0 };
    if (fit_relative(&line, fitted, size_count)) {
        curve.latency_ns = line.fixed_ns;
        curve.bytes_per_s = line.ns_per_unit > 0 ? 1e9 / line.ns_per_unit : 0;
        curve.error = line.error;
    }
    *out = curve;
    return true;
}

static bool finish_curve(struct sweep_result *out, struct curve_run *run, struct error *err)
{
    struct series *series[SWEEP_MAX_SIZES];
    for (int i = 0; i < run->size_count; i++) {
        char key[32];
        snprintf(key, sizeof key, "%d", i);
        series[i] = samples_find(&run->samples, key);
        if (!series[i])
            return fail_kind(err, ERROR_ENVIRONMENT, "no memory for a curve");
    }
    return sweep_curve(&out->curves[out->curve_count++], &out->arena, run->c, run->bytes, run->size_count, series, err);
}

static bool measure_case(struct sweep_result *out, const struct crew *crew, const struct sweep_options *o,
                         const struct sweep_case *c, double budget_s, struct error *err)
{
    struct curve_run run = { .c = c, .end_ns = clock_now_ns() + (int64_t)(budget_s * 1e9) };
    bool ok = open_run(&run, crew, o, err) && crew_run(crew, run.rig->program, NULL, MAX_STEPS, on_timeline, &run, err);
    if (ok && run.error.kind)
        ok = fail_kind(err, run.error.kind, "%s", run.error.message);
    if (ok && crew_leads(crew))
        ok = finish_curve(out, &run, err);
    samples_free(&run.samples);
    free(run.size_of);
    rig_free(run.rig);
    return ok || error_within(err, "measuring %s of %d ranks", op_info[c->op].name, c->ranks);
}

bool sweep_measure(struct sweep_result *out, const struct crew *crew, const struct sweep_options *options,
                   struct error *err)
{
    struct sweep_result result = { 0 };
    struct sweep_case *cases = NULL;
    int count = 0;
    bool ok = sweep_cases(&cases, &count, crew->rank_count, err);
    result.curves = ok ? arena_alloc(&result.arena, (size_t)count, sizeof *result.curves) : NULL;
    if (ok && !result.curves)
        ok = fail_kind(err, ERROR_ENVIRONMENT, "no memory for %d curves", count);
    int64_t end_ns = clock_now_ns() + (int64_t)(options->budget_s * 1e9);
    for (int i = 0; ok && i < count; i++) {
        char what[96];
        snprintf(what, sizeof what, "%s: %d x %d ranks", op_info[cases[i].op].name, cases[i].concurrent,
                 cases[i].ranks);
        if (options->on_progress)
            options->on_progress(options->context, what, i, count);
        if (options->existing &&
            profile_curve(options->existing, op_info[cases[i].op].name, cases[i].ranks, cases[i].concurrent, 0))
            result.known_count++;
        else
            ok = measure_case(&result, crew, options, &cases[i],
                              fmax(0, (double)(end_ns - clock_now_ns()) / 1e9) / (count - i), err);
    }
    free(cases);
    if (ok)
        *out = result;
    else
        arena_free(&result.arena);
    return ok;
}
