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
    PRODUCTS = 12,
    TRANSFERS_ALONE = 12,
    WARM_UP_STEPS = 1,
    MIN_STEPS = 3,
    MAX_STEPS = 40,
    MAX_RUNS = 6, /* the last with whatever sizes there are */
    LEAST_EDGE = 32,
    EDGE_STEP = 32,
    LEAST_BYTES = 1 << 16,
    BYTES_STEP = 1 << 12
};
static const double KNOWN = 0.02;     /* of the factors: then there are enough steps */
static const double MOST_LOST = 0.95; /* of the compute path's progress beside communication */

/* ---- sizes ---- */
/* A product on the processor takes several slices of a scheduler that gives 3 ms, one on a device many times what its
 * launch does. Short transfers wait for the processor as those of steps do, so any will do there; on a device what a
 * short one takes from a product is lost in the noise. */
static const double LEAST_NS[] = { 6e6, 5e5 }, LEAST_PART[] = { 0, 0.125 }; /* [on a device] */
static const double MOST_NS = 1e8, MOST_PART = 0.9, PART = 0.6; /* a transfer's of a product: allowed, aimed at */
static const double NEAR = 0.8;                                 /* of what is aimed at: sizes are not exact */

struct contention_sizes contention_first_sizes(bool on_device)
{
    return on_device ? (struct contention_sizes){ 128, 1 << 20 } : (struct contention_sizes){ 768, 4 << 20 };
}

static int64_t sized(double size, int64_t step, int64_t least, int64_t most)
{
    return (int64_t)fmin((double)most, fmax((double)least, (double)step * round(size / (double)step)));
}

bool contention_resize(struct contention_sizes *sizes, bool on_device, double product_ns, double transfer_ns)
{
    const struct contention_sizes old = *sizes;
    double part = transfer_ns / product_ns, least_ns = LEAST_NS[on_device];
    bool lasts = product_ns >= NEAR * least_ns && product_ns <= MOST_NS / NEAR;
    if (product_ns <= 0 || transfer_ns <= 0 || (lasts && part >= LEAST_PART[on_device] && part <= MOST_PART))
        return false;
    double wanted_ns = fmin(MOST_NS, fmax(least_ns, transfer_ns / PART));
    sizes->edge = (int)sized(old.edge * cbrt(wanted_ns / product_ns), EDGE_STEP, LEAST_EDGE, CONTENTION_MOST_EDGE);
    double expected_ns = product_ns * pow((double)sizes->edge / old.edge, 3);
    part = transfer_ns / expected_ns;
    if (part < LEAST_PART[on_device] / NEAR || part > MOST_PART * NEAR)
        sizes->transfer_bytes =
            sized((double)old.transfer_bytes * PART / part, BYTES_STEP, LEAST_BYTES, CONTENTION_MOST_BYTES);
    return sizes->edge != old.edge || sizes->transfer_bytes != old.transfer_bytes;
}

/* ---- the program: products alone; transfers alone; products, each of which lets a transfer go that runs beside the
 * next ---- */
static void add_product_segment(struct rig *rig, int edge, struct error *err)
{
    struct graph *graph = rig->graph;
    graph->segments = arena_alloc(&graph->arena, 1, sizeof *graph->segments);
    rig->program->assignments = arena_alloc(&rig->program->arena, 1, sizeof *rig->program->assignments);
    if (!graph->segments || !rig->program->assignments) {
        fail_kind(err, ERROR_ENVIRONMENT, "no memory for a product");
        return;
    }
    graph->segments[0] = square_product(edge);
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
    instr->define = 1;
    struct operand_table table = program_no_operands;
    table.buffer[ROLE_IN][0] = buffers[0];
    table.buffer[ROLE_WEIGHT][0] = buffers[1];
    table.buffer[ROLE_OUT][0] = buffers[2];
    rig_operands(rig, instr, &table);
}

struct beside {
    struct rig *rig;
    int together_from; /* the first product of the part with both; after each but the last comes its transfer */
    struct contention_sizes sizes, next;
    bool on_device, again;  /* whether it computes; whether another run with the next sizes is to come */
    int runs_left;          /* after this one */
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
    add_product_segment(rig, b->sizes.edge, &error);
    if (error.kind)
        return fail_kind(err, error.kind, "%s", error.message);
    int edge = rig_tensor(rig, b->sizes.edge, b->sizes.edge),
        vector = rig_tensor(rig, 1, b->sizes.transfer_bytes / (int64_t)sizeof(real)), product[3], sum[TRANSFERS_ALONE];
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
    if (product_ns <= 0 || transfer_ns <= 0)
        return true;
    if (!samples_add(&b->samples, "product", product_ns, &b->error) ||
        !samples_add(&b->samples, "transfer", transfer_ns, &b->error))
        return false;
    if (count == 0)
        return true;
    double lost_ns = (double)(both[2 * (PRODUCTS - 1)].finish_ns - both[0].start_ns) - PRODUCTS * product_ns;
    double lost = fmin(MOST_LOST, fmax(0, lost_ns / together_ns));
    return samples_add(&b->samples, "product beside", 1 / (1 - lost), &b->error) &&
           samples_add(&b->samples, "transfer beside", together_ns / count / transfer_ns, &b->error);
}

static bool is_known(struct samples *samples, const char *name)
{
    struct series *series = samples_find(samples, name);
    return series && series_error(series) <= KNOWN;
}

/* Whether sizes that fit the paces better are worth another run. */
static bool wants_again(struct beside *b)
{
    struct series *product = samples_find(&b->samples, "product");
    double product_ns = product ? series_median(product) : 0;
    struct series *transfer = samples_find(&b->samples, "transfer");
    double transfer_ns = transfer ? series_median(transfer) : 0;
    b->next = b->sizes;
    return b->runs_left > 0 && contention_resize(&b->next, b->on_device, product_ns, transfer_ns);
}

static bool on_beside(void *context, int64_t step, const struct timeline *timeline)
{
    struct beside *b = context;
    for (int r = 0; step > WARM_UP_STEPS && r < timeline->rank_count; r++)
        if (!take_rank(b, &timeline->ranks[r]))
            return false;
    b->steps += step > WARM_UP_STEPS;
    if (b->steps == MIN_STEPS && (b->again = wants_again(b)))
        return false;
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

/* With the sizes as they are; then b->sizes are those of the next run, and b->again whether there is one. */
static bool run_once(struct beside *b, const struct crew *crew, struct error *err)
{
    struct {
        struct contention_sizes sizes;
        bool again;
    } word;
    samples_free(&b->samples);
    b->steps = 0, b->again = false, b->next = b->sizes;
    bool ok = open_beside(b, crew->rank_count, crew_cache_bytes(crew), err) &&
              crew_run(crew, b->rig->program, NULL, MAX_STEPS, on_beside, b, err) &&
              (!b->error.kind || fail_kind(err, b->error.kind, "%s", b->error.message));
    rig_free(b->rig);
    b->rig = NULL;
    memset(&word, 0, sizeof word);
    word.sizes = b->next, word.again = b->again;
    ok = ok && crew_agree(crew, &word, sizeof word, err);
    b->sizes = word.sizes, b->again = word.again;
    return ok;
}

bool contention_measure(struct contention *out, const struct crew *crew, double budget_s, struct error *err)
{
    *out = (struct contention){ .compute_under_communication = 1, .communication_under_compute = 1 };
    if (crew->rank_count < 2)
        return true;
    bool on_device = crew->device != NULL, ok = true;
    struct beside b = { .end_ns = clock_now_ns() + (int64_t)(budget_s * 1e9),
                        .sizes = contention_first_sizes(on_device),
                        .on_device = on_device,
                        .runs_left = MAX_RUNS,
                        .again = true };
    while (ok && b.again) {
        b.runs_left--;
        ok = run_once(&b, crew, err);
    }
    if (ok && crew_leads(crew)) {
        set_factor(&b.samples, "product beside", &out->compute_under_communication,
                   &out->compute_under_communication_spread, &out->compute_samples);
        set_factor(&b.samples, "transfer beside", &out->communication_under_compute,
                   &out->communication_under_compute_spread, &out->communication_samples);
    }
    samples_free(&b.samples);
    return ok;
}
