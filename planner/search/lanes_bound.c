#include "planner/search/lanes_bound.h"
#include "base/climb.h"
#include "base/num.h"

struct lanes {
    const struct busy_problem *p;
    int *count; /* (classes) layers */
    int64_t heads_ns, unit_ns, capacity_bytes;
    int64_t gap_ns;  /* of all micro-batches, at most, before one layer */
    int64_t stay_ns; /* of all micro-batches, at most, what a stage's last layers need not gather again */
};

bool lanes_bound_applies(const struct config *config, const struct cluster *cluster)
{
    const struct schedule *schedule = schedules[config->schedule];
    return config->meshes == 0 && !schedule->asynchronous && config->runs < 2 && cluster->type_count == 1;
}

static int64_t kernels_ns(const struct layer_price *p)
{
    return p->least.forward_ns + p->least.input_ns + p->least.weight_ns + p->least.again_ns + p->least.gap_ns;
}

/* Of the capacity, rounded down, in LANES_FINE. */
static int64_t share_held(const struct lanes *lanes, const struct layer_price *p)
{
    double share = (double)p->least.held_bytes / (double)lanes->capacity_bytes; /* a byte less than 2^53 is exact */
    return share >= 1 ? LANES_FINE : (int64_t)(share * LANES_FINE);
}

/* What a layer adds under a strategy, times both numbers of parts. */
static int64_t layer_ns(const struct lanes *lanes, const struct layer_price *p, int a, int u, int j)
{
    int64_t m = lanes->p->micro_batches, lane = m * p->least.lane_micro_ns + p->least.lane_once_ns;
    int64_t path =
        LANES_STEP_PARTS * m * kernels_ns(p) + u * p->least.update_ns + (LANES_STEP_PARTS - u) * p->least.refresh_ns;
    int64_t held = j * (lanes->unit_ns * share_held(lanes, p) / LANES_FINE);
    return a * path + (LANES_PATH_PARTS - a) * LANES_STEP_PARTS * lane + LANES_PATH_PARTS * LANES_STEP_PARTS * held;
}

static int64_t least_ns(const struct lanes *lanes, int class_index, int a, int u, int j)
{
    const struct price_table *table = lanes->p->table;
    int64_t least = INT64_MAX;
    for (int i = 0; i < table->strategy_count; i++)
        least = min_i64(least, layer_ns(lanes, price_at(table, class_index, i), a, u, j));
    return least;
}

static int64_t value(const void *self, const int *at)
{
    const struct lanes *lanes = self;
    const int64_t parts = LANES_PATH_PARTS * LANES_STEP_PARTS;
    int64_t seams = (int64_t)lanes->p->stages * lanes->p->chunks - 1, a = at[0] * LANES_STEP_PARTS;
    int64_t sum = a * (lanes->heads_ns - seams * lanes->gap_ns) - parts * at[2] * lanes->unit_ns * lanes->p->stages -
                  (parts - a) * (seams + 1) * lanes->stay_ns;
    for (int c = 0; c < lanes->p->table->class_count; c++)
        sum += lanes->count[c] > 0 ? lanes->count[c] * least_ns(lanes, c, at[0], at[1], at[2]) : 0;
    return sum < 0 ? 0 : ceil_div(sum, parts * lanes->p->stages);
}

static bool lanes_open(struct lanes *lanes, struct arena *arena, struct error *err)
{
    const struct chain *chain = lanes->p->chain;
    const struct price_table *table = lanes->p->table;
    int64_t all_ns = 0;
    bool several = lanes->p->stages * lanes->p->chunks > 1;
    lanes->count = arena_alloc(arena, (size_t)chain->class_count, sizeof *lanes->count);
    if (!lanes->count)
        return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
    for (int l = 0; l < chain->layer_count; l++) {
        lanes->count[chain->class_of[l]]++;
        all_ns += kernels_ns(price_at(table, chain->class_of[l], 0));
    }
    for (int c = 0; c < table->class_count; c++)
        for (int i = 0; i < table->strategy_count && lanes->count[c] > 0; i++) {
            const struct layer_price *p = price_at(table, c, i);
            int64_t gathers = max_i64(lanes->p->prefetch, 1) * p->gather_backward_ns;
            lanes->gap_ns = max_i64(lanes->gap_ns, lanes->p->micro_batches * p->least.gap_ns);
            lanes->stay_ns = max_i64(lanes->stay_ns, several ? lanes->p->micro_batches * gathers : 0);
        }
    lanes->unit_ns = lanes->p->micro_batches * all_ns / lanes->p->stages / LANES_UNITS;
    return busy_heads(&lanes->heads_ns, lanes->p, err);
}

/* Of each stage by itself, with what was best for all together. */
static bool bound_cuts(int64_t *out, const struct lanes *lanes, const int *at, int64_t below_ns, struct arena *arena,
                       struct error *err)
{
    const struct chain *chain = lanes->p->chain;
    int64_t *sum = arena_alloc(arena, (size_t)chain->layer_count + 1, sizeof *sum);
    if (!sum)
        return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
    for (int l = 0; l < chain->layer_count; l++)
        sum[l + 1] = sum[l] + least_ns(lanes, chain->class_of[l], at[0], at[1], at[2]);
    int64_t parts = LANES_PATH_PARTS * LANES_STEP_PARTS, heads = at[0] * LANES_STEP_PARTS;
    struct busy_line line = { sum, parts, heads, parts * at[2] * lanes->unit_ns + (parts - heads) * lanes->stay_ns,
                              heads * lanes->gap_ns };
    return busy_bound_beside(out, lanes->p, &line, below_ns, err);
}

bool lanes_bound(int64_t *out, const struct busy_problem *problem, int64_t capacity_bytes, int64_t below_ns,
                 struct error *err)
{
    struct arena arena = { 0 };
    struct lanes lanes = { .p = problem, .capacity_bytes = max_i64(capacity_bytes, 1) };
    bool good = lanes_open(&lanes, &arena, err);
    if (good) {
        int64_t cuts_ns = 0;
        struct climb climb = { .axes = 3,
                               .most = { LANES_PATH_PARTS, LANES_STEP_PARTS, LANES_MOST_UNITS },
                               .at = { LANES_PATH_PARTS, LANES_STEP_PARTS / 2, 0 },
                               .stride = { LANES_PATH_PARTS / 4, 1, LANES_MOST_UNITS / 8 },
                               .value = value,
                               .self = &lanes };
        *out = climb_up(&climb);
        good = *out >= below_ns || bound_cuts(&cuts_ns, &lanes, climb.at, below_ns, &arena, err);
        *out = max_i64(*out, cuts_ns);
    }
    arena_free(&arena);
    return good;
}
