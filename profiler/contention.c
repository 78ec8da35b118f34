#include "profiler/contention.h"
#include "base/num.h"
#include "executor/kernel.h"
#include "host/clock.h"
#include "profiler/resident.h"
#include "profiler/rig.h"
#include "profiler/samples.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PRODUCT_EDGE = 512,
    PRODUCTS = 16, /* about 64 ms: twenty slices of a scheduler that gives 3 ms each */
    TRANSFER_BYTES = 4 << 20,
    TRANSFERS_ALONE = 6,
    TRANSFERS_MOST = 200,
    WARM_UP_STEPS = 1,
    MIN_STEPS = 3,
    MAX_STEPS = 40
};
static const double KNOWN = 0.02; /* of the factors: then there are enough steps */
static const double FIRST_BYTES_PER_S =
    4e8; /* a low guess at an all-reduce: rather too few transfers than none beside products */

/* ---- the program: products alone; transfers alone; both ---- */
static void add_product_segment(struct rig *rig, struct error *err)
{
    struct graph *graph = rig->graph;
    graph->segments = arena_alloc(&graph->arena, 1, sizeof *graph->segments);
    rig->program->assignments = arena_alloc(&rig->program->arena, 1, sizeof *rig->program->assignments);
    if (!graph->segments || !rig->program->assignments) {
        fail_kind(err, ERROR_ENVIRONMENT, "no memory for a product");
        return;
    }
    graph->segments[0] = square_product(PRODUCT_EDGE);
    graph->segment_count = 1;
    struct assignment *a = rig->program->assignments;
    memset(a->axis, AXIS_UNSPLIT, sizeof a->axis);
    a->ring_atom = a->slice_axis = -1;
    a->slices = 1;
}

static void add_product(struct rig *rig, const int buffers[3])
{
    struct instr *instr = rig_instr(rig, 0, OP_COMPUTE, LANE_COMPUTE, -1, -1, -1);
    instr->phase = PHASE_FORWARD;
    instr->segment = 0;
    instr->first = true;
    instr->define[ROLE_OUT] = 1;
    instr->operand[ROLE_IN][0] = buffers[0];
    instr->operand[ROLE_WEIGHT][0] = buffers[1];
    instr->operand[ROLE_OUT][0] = buffers[2];
}

struct beside {
    struct rig *rig;
    int together_from;      /* the first instruction of the part with both */
    struct samples samples; /* paces alone: "product", "transfer"; slow-downs: "product beside", "transfer beside" */
    int64_t end_ns;
    int steps, min_steps;
    struct error error;
};

static bool open_beside(struct beside *b, int rank_count, int transfers, struct error *err)
{
    int capacity = 2 * PRODUCTS + TRANSFERS_ALONE + transfers + 4;
    if (!rig_new(&b->rig, rank_count, 1, 1, rank_count, 4, capacity, err))
        return false;
    struct rig *rig = b->rig;
    struct error error = { 0 };
    add_product_segment(rig, &error);
    if (error.kind)
        return fail_kind(err, error.kind, "%s", error.message);
    int edge = rig_tensor(rig, PRODUCT_EDGE, PRODUCT_EDGE),
        vector = rig_tensor(rig, 1, TRANSFER_BYTES / (int)sizeof(real)), product[3];
    for (int i = 0; i < 3; i++)
        product[i] = rig_buffer(rig, 0, edge, LAYOUT_REPLICATED, 0, RIG_APART);
    int sum = rig_buffer(rig, 0, vector, LAYOUT_REPLICATED, 0, RIG_APART);
    for (int i = 0; i < PRODUCTS; i++)
        add_product(rig, product);
    for (int i = 0; i < TRANSFERS_ALONE; i++)
        rig_instr(rig, 0, OP_ALL_REDUCE, LANE_DP, i == 0 ? LANE_COMPUTE : -1, sum, sum);
    rig_instr(rig, 0, OP_ZERO, LANE_COMPUTE, LANE_DP, -1, -1);
    b->together_from = rig->program->stages[0].instr_count;
    for (int i = 0; i < transfers; i++)
        rig_instr(rig, 0, OP_ALL_REDUCE, LANE_DP, i == 0 ? LANE_COMPUTE : -1, sum, sum);
    for (int i = 0; i < PRODUCTS; i++)
        add_product(rig, product);
    rig_instr(rig, 0, OP_ZERO, LANE_COMPUTE, LANE_DP, -1, -1);
    rig_finish(rig);
    return true;
}

/* ---- the times ---- */
/* From the first start to the last end of the op's spans in the part with both: there it runs all the time. */
static void busy_range(const struct beside *b, const struct rank_timeline *row, enum op op, int64_t *low, int64_t *high)
{
    *low = INT64_MAX, *high = INT64_MIN;
    for (int i = b->together_from; i < row->span_count; i++) {
        if (b->rig->program->stages[0].instrs[i].op != op)
            continue;
        *low = min_i64(*low, row->spans[i].start_ns);
        *high = max_i64(*high, row->spans[i].finish_ns);
    }
}

/* Time per instruction of the op, of those between the two instructions and within [low, high]; 0: none is. */
static double pace(const struct beside *b, const struct rank_timeline *row, enum op op, int from, int to, int64_t low,
                   int64_t high)
{
    int64_t begin = INT64_MAX, end = INT64_MIN;
    int count = 0;
    for (int i = from; i < to; i++) {
        const struct span *span = &row->spans[i];
        if (b->rig->program->stages[0].instrs[i].op != op || span->start_ns < low || span->finish_ns > high)
            continue;
        begin = min_i64(begin, span->start_ns);
        end = max_i64(end, span->finish_ns);
        count++;
    }
    return count > 0 ? (double)(end - begin) / count : 0;
}

/* The pace alone, and how many times that is the pace beside the other op. */
static bool take_op(struct beside *b, const struct rank_timeline *row, enum op op, enum op other, const char *alone,
                    const char *beside)
{
    int64_t low, high;
    busy_range(b, row, other, &low, &high);
    double apart_ns = pace(b, row, op, 0, b->together_from, INT64_MIN, INT64_MAX);
    double beside_ns = pace(b, row, op, b->together_from, row->span_count, low, high);
    return (apart_ns <= 0 || samples_add(&b->samples, alone, apart_ns, &b->error)) &&
           (apart_ns <= 0 || beside_ns <= 0 || samples_add(&b->samples, beside, beside_ns / apart_ns, &b->error));
}

static bool take_rank(struct beside *b, const struct rank_timeline *row)
{
    return take_op(b, row, OP_COMPUTE, OP_ALL_REDUCE, "product", "product beside") &&
           take_op(b, row, OP_ALL_REDUCE, OP_COMPUTE, "transfer", "transfer beside");
}

static bool is_known(struct samples *samples, const char *name)
{
    struct series *series = samples_find(samples, name);
    return series && series_error(series) <= KNOWN;
}

static bool on_beside(void *context, int64_t step, const struct timeline *timeline)
{
    struct beside *b = context;
    for (int r = 0; step > WARM_UP_STEPS && r < timeline->rank_count; r++)
        if (!take_rank(b, &timeline->ranks[r]))
            return false;
    b->steps += step > WARM_UP_STEPS;
    return b->steps < b->min_steps || (clock_now_ns() < b->end_ns && !(is_known(&b->samples, "product beside") &&
                                                                       is_known(&b->samples, "transfer beside")));
}

static void set_factor(struct samples *samples, const char *name, double *factor, double *spread, int *count)
{
    struct series *series = samples_find(samples, name);
    *count = series ? series->count : 0;
    *factor = *count > 0 ? fmax(1, series_median(series)) : 1;
    *spread = *count > 0 ? series_spread(series) : 0;
}

static bool run_beside(struct beside *b, const struct crew *crew, int transfers, int min_steps, double budget_s,
                       struct error *err)
{
    samples_free(&b->samples);
    b->steps = 0;
    b->min_steps = min_steps;
    b->end_ns = clock_now_ns() + (int64_t)(budget_s * 1e9);
    bool ok = open_beside(b, crew->rank_count, transfers, err) &&
              crew_run(crew, b->rig->program, NULL, MAX_STEPS, on_beside, b, err);
    rig_free(b->rig);
    b->rig = NULL;
    return ok && (!b->error.kind || fail_kind(err, b->error.kind, "%s", b->error.message));
}

/* As many transfers as take about as long as the products, both slowed down: where one ends early, the other is alone
 * and not counted. */
static int64_t wanted_transfers(struct samples *samples)
{
    double products = PRODUCTS * series_median(samples_find(samples, "product"));
    double transfer = series_median(samples_find(samples, "transfer"));
    double wanted = ceil(products / fmax(1, transfer));
    return (int64_t)fmin(TRANSFERS_MOST, fmax(2, wanted));
}

bool contention_measure(struct contention *out, const struct crew *crew, double budget_s, struct error *err)
{
    *out = (struct contention){ .compute_under_communication = 1, .communication_under_compute = 1 };
    if (crew->rank_count < 2)
        return true;
    struct beside b = { 0 };
    struct reference product;
    if (!reference_measure(&product, PRODUCT_EDGE, 2, err))
        return false;
    int64_t transfers = (int64_t)fmin(
        TRANSFERS_MOST, fmax(2, PRODUCTS * (double)product.ns / (TRANSFER_BYTES / FIRST_BYTES_PER_S * 1e9)));
    bool ok = crew_agree(crew, &transfers, sizeof transfers, err) && run_beside(&b, crew, (int)transfers, 1, 0, err);
    if (ok && crew_leads(crew))
        transfers = wanted_transfers(&b.samples);
    ok = ok && crew_agree(crew, &transfers, sizeof transfers, err) &&
         run_beside(&b, crew, (int)transfers, MIN_STEPS, budget_s, err);
    if (ok && crew_leads(crew)) {
        set_factor(&b.samples, "product beside", &out->compute_under_communication,
                   &out->compute_under_communication_spread, &out->compute_samples);
        set_factor(&b.samples, "transfer beside", &out->communication_under_compute,
                   &out->communication_under_compute_spread, &out->communication_samples);
    }
    samples_free(&b.samples);
    return ok;
}
