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
    PRODUCT_EDGE = 768,
    PRODUCTS = 12, /* of about 10 ms: each several slices of a scheduler that gives 3 ms */
    TRANSFER_BYTES = 4 << 20,
    TRANSFERS_ALONE = 12,
    WARM_UP_STEPS = 1,
    MIN_STEPS = 3,
    MAX_STEPS = 40
};
static const double KNOWN = 0.02;     /* of the factors: then there are enough steps */
static const double MOST_LOST = 0.95; /* of the compute path's progress beside communication */

/* ---- the program: products alone; transfers alone; products, each of which lets a transfer go that runs beside the
 * next ---- */
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
    int together_from;      /* the first product of the part with both; after each but the last comes its transfer */
    struct samples samples; /* paces alone: "product", "transfer"; slow-downs: "product beside", "transfer beside" */
    int64_t end_ns;
    int steps;
    struct error error;
};

static bool open_beside(struct beside *b, int rank_count, int64_t cache_bytes, struct error *err)
{
    int capacity = 3 * PRODUCTS + TRANSFERS_ALONE + 4;
    if (!rig_new(&b->rig, rank_count, 1, 1, rank_count, 6 + TRANSFERS_ALONE, capacity, err))
        return false;
    struct rig *rig = b->rig;
    struct error error = { 0 };
    add_product_segment(rig, &error);
    if (error.kind)
        return fail_kind(err, error.kind, "%s", error.message);
    int edge = rig_tensor(rig, PRODUCT_EDGE, PRODUCT_EDGE),
        vector = rig_tensor(rig, 1, TRANSFER_BYTES / (int)sizeof(real)), product[3], sum[TRANSFERS_ALONE];
    for (int i = 0; i < 3; i++)
        product[i] = rig_buffer(rig, 0, edge, LAYOUT_REPLICATED, 0, RIG_APART);
    for (int i = 0; i < TRANSFERS_ALONE; i++)
        sum[i] = rig_buffer(rig, 0, vector, LAYOUT_REPLICATED, 0, RIG_APART);
    for (int i = 0; i < PRODUCTS; i++)
        add_product(rig, product);
    rig_empty_caches(rig, 0, -1, cache_bytes);
    for (int i = 0; i < TRANSFERS_ALONE; i++)
        rig_instr(rig, 0, OP_ALL_REDUCE, LANE_DP, i == 0 ? LANE_COMPUTE : -1, sum[i], sum[i]);
    rig_empty_caches(rig, 0, LANE_DP, cache_bytes);
    b->together_from = rig->program->stages[0].instr_count;
    for (int i = 0; i < PRODUCTS; i++) {
        add_product(rig, product);
        if (i + 1 < PRODUCTS)
            rig_instr(rig, 0, OP_ALL_REDUCE, LANE_DP, LANE_COMPUTE, sum[i], sum[i]);
    }
    rig_instr(rig, 0, OP_ZERO, LANE_COMPUTE, LANE_DP, -1, -1);
    rig_finish(rig);
    return true;
}

/* ---- the times ---- */
/* From the op's first start to its last end before the part with both, over their number. */
static double pace_alone(const struct beside *b, const struct rank_timeline *row, enum op op)
{
    int64_t begin = INT64_MAX, end = INT64_MIN;
    int count = 0;
    for (int i = 0; i < b->together_from; i++) {
        if (b->rig->program->stages[0].instrs[i].op != op)
            continue;
        begin = min_i64(begin, row->spans[i].start_ns);
        end = max_i64(end, row->spans[i].finish_ns);
        count++;
    }
    return (double)(end - begin) / count;
}

/* The transfers that had a product beside them to their end: from when each could go, so that waiting for a core
 * counts. */
static void take_transfers(const struct beside *b, const struct rank_timeline *row, double *together_ns, int *count)
{
    const struct span *both = row->spans + b->together_from;
    int64_t last_ns = both[2 * (PRODUCTS - 1)].finish_ns, free_ns = 0;
    *together_ns = 0;
    *count = 0;
    for (int i = 0; i + 1 < PRODUCTS; i++) {
        int64_t ready_ns = max_i64(both[2 * i].finish_ns, free_ns);
        free_ns = both[2 * i + 1].finish_ns;
        if (free_ns > last_ns)
            break;
        *together_ns += (double)(free_ns - ready_ns);
        ++*count;
    }
}

/* What the products lost is lost while transfers ran: their progress in that time is the rest. */
static bool take_rank(struct beside *b, const struct rank_timeline *row)
{
    const struct span *both = row->spans + b->together_from;
    double product_ns = pace_alone(b, row, OP_COMPUTE), transfer_ns = pace_alone(b, row, OP_ALL_REDUCE), together_ns;
    int count;
    take_transfers(b, row, &together_ns, &count);
    if (count == 0 || product_ns <= 0 || transfer_ns <= 0)
        return true;
    double lost_ns = (double)(both[2 * (PRODUCTS - 1)].finish_ns - both[0].start_ns) - PRODUCTS * product_ns;
    double lost = fmin(MOST_LOST, fmax(0, lost_ns / together_ns));
    return samples_add(&b->samples, "product", product_ns, &b->error) &&
           samples_add(&b->samples, "transfer", transfer_ns, &b->error) &&
           samples_add(&b->samples, "product beside", 1 / (1 - lost), &b->error) &&
           samples_add(&b->samples, "transfer beside", together_ns / count / transfer_ns, &b->error);
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
    return b->steps < MIN_STEPS || (clock_now_ns() < b->end_ns && !(is_known(&b->samples, "product beside") &&
                                                                    is_known(&b->samples, "transfer beside")));
}

static void set_factor(struct samples *samples, const char *name, double *factor, double *spread, int *count)
{
    struct series *series = samples_find(samples, name);
    *count = series ? series->count : 0;
    *factor = *count > 0 ? fmax(1, series_median(series)) : 1;
    *spread = *count > 0 ? series_spread(series) : 0;
}

bool contention_measure(struct contention *out, const struct crew *crew, double budget_s, struct error *err)
{
    *out = (struct contention){ .compute_under_communication = 1, .communication_under_compute = 1 };
    if (crew->rank_count < 2)
        return true;
    struct beside b = { .end_ns = clock_now_ns() + (int64_t)(budget_s * 1e9) };
    bool ok = open_beside(&b, crew->rank_count, crew_cache_bytes(crew), err) &&
              crew_run(crew, b.rig->program, NULL, MAX_STEPS, on_beside, &b, err) &&
              (!b.error.kind || fail_kind(err, b.error.kind, "%s", b.error.message));
    rig_free(b.rig);
    if (ok && crew_leads(crew)) {
        set_factor(&b.samples, "product beside", &out->compute_under_communication,
                   &out->compute_under_communication_spread, &out->compute_samples);
        set_factor(&b.samples, "transfer beside", &out->communication_under_compute,
                   &out->communication_under_compute_spread, &out->communication_samples);
    }
    samples_free(&b.samples);
    return ok;
}
