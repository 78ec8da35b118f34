#include "planner/bound/lanes_bound.h"
#include "base/climb.h"
#include "base/num.h"

struct lanes {
    const struct busy_problem *p;
    int *count; /* (classes) layers */
    int64_t heads_ns, unit_ns, capacity_bytes;
    int64_t seam_ns, stay_ns; /* lanes_seam_ns(), lanes_stay_ns() */
};

bool lanes_bound_applies(const struct config *config, const struct cluster *cluster)
{
    const struct schedule *schedule = schedules[config->schedule];
    return config->meshes == 0 && !schedule->asynchronous && config->runs < 2 && cluster->type_count == 1;
}

int64_t lanes_seam_ns(const struct busy_problem *problem)
{
    const struct price_table *table = problem->table;
    int64_t enter_ns = 0, return_ns = 0;
    for (int i = 0; i < problem->chain->layer_count * table->strategy_count; i++) {
        int class_index = problem->chain->class_of[i / table->strategy_count];
        const struct least_price *least = &price_at(table, class_index, i % table->strategy_count)->least;
        enter_ns = max_i64(enter_ns, least->enter_gap_ns);
        return_ns = max_i64(return_ns, least->return_gap_ns);
    }
    return problem->stages * problem->chunks > 1 ? problem->micro_batches * (enter_ns + return_ns) : 0;
}

int64_t lanes_stay_ns(const struct busy_problem *problem)
{
    const struct chain *chain = problem->chain;
    const struct price_table *table = problem->table;
    int64_t longest_ns = 0;
    for (int i = 0; i < chain->layer_count * table->strategy_count; i++) {
        const struct layer_price *p =
            price_at(table, chain->class_of[i / table->strategy_count], i % table->strategy_count);
        longest_ns = max_i64(longest_ns, p->gather_forward_ns + p->gather_backward_ns);
    }
    bool short_chunks = problem->stages * problem->chunks > 1 || chain->layer_count <= problem->prefetch;
    return short_chunks ? problem->micro_batches * problem->prefetch * longest_ns : 0;
}

struct least_price lanes_least(const struct busy_problem *problem, int class_index, int strategy)
{
    const struct chain *chain = problem->chain;
    struct least_price least = price_at(problem->table, class_index, strategy)->least;
    if (problem->copies && chain->tied_first >= 0 && chain->class_of[chain->tied_first] == class_index) {
        least.update_ns = least.refresh_ns = least.lane_micro_ns = least.lane_once_ns = 0;
        least.held_bytes = least.resident_bytes = 0;
    }
    return least;
}

/* Of the capacity, rounded down, in LANES_FINE. */
static int64_t share_held(const struct lanes *lanes, const struct least_price *least)
{
    double share = (double)least->held_bytes / (double)lanes->capacity_bytes; /* a byte less than 2^53 is exact */
    return share >= 1 ? LANES_FINE : (int64_t)(share * LANES_FINE);
}

/* What a layer adds under a strategy, times both numbers of parts. */
static int64_t layer_ns(const struct lanes *lanes, const struct least_price *least, int a, int u, int j)
{
    int64_t m = lanes->p->micro_batches, lane = least_lane_ns(least, m, lanes->p->copies ? 2 : 1);
    int64_t path = LANES_STEP_PARTS * m * least_kernels_ns(least) + u * least->update_ns +
                   (LANES_STEP_PARTS - u) * least->refresh_ns;
    int64_t held = j * (lanes->unit_ns * share_held(lanes, least) / LANES_FINE);
    return a * path + (LANES_PATH_PARTS - a) * LANES_STEP_PARTS * lane + LANES_PATH_PARTS * LANES_STEP_PARTS * held;
}

static int64_t least_ns(const struct lanes *lanes, int class_index, int a, int u, int j)
{
    int64_t least_ns = INT64_MAX;
    for (int i = 0; i < lanes->p->table->strategy_count; i++) {
        struct least_price least = lanes_least(lanes->p, class_index, i);
        least_ns = min_i64(least_ns, layer_ns(lanes, &least, a, u, j));
    }
    return least_ns;
}

static int64_t value(const void *self, const int *at)
{
    const struct lanes *lanes = self;
    const int64_t parts = LANES_PATH_PARTS * LANES_STEP_PARTS;
    int64_t pieces = (int64_t)lanes->p->stages * lanes->p->chunks, a = at[0] * LANES_STEP_PARTS;
    int64_t sum = a * (lanes->heads_ns - pieces * lanes->seam_ns) - parts * at[2] * lanes->unit_ns * lanes->p->stages -
                  (parts - a) * pieces * lanes->stay_ns;
    for (int c = 0; c < lanes->p->table->class_count; c++)
        sum += lanes->count[c] > 0 ? lanes->count[c] * least_ns(lanes, c, at[0], at[1], at[2]) : 0;
    return sum < 0 ? 0 : ceil_div(sum, parts * lanes->p->stages);
}

static bool lanes_open(struct lanes *lanes, struct arena *arena, struct error *err)
{
    const struct chain *chain = lanes->p->chain;
    const struct price_table *table = lanes->p->table;
    int64_t all_ns = 0;
    lanes->count = arena_alloc(arena, (size_t)chain->class_count, sizeof *lanes->count);
    if (!lanes->count)
        return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
    for (int l = 0; l < chain->layer_count; l++) {
        lanes->count[chain->class_of[l]]++;
        all_ns += least_kernels_ns(&price_at(table, chain->class_of[l], 0)->least);
    }
    lanes->seam_ns = lanes_seam_ns(lanes->p);
    lanes->stay_ns = lanes_stay_ns(lanes->p);
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
    struct busy_line line = {
        sum, parts, heads, parts * at[2] * lanes->unit_ns + heads * lanes->seam_ns + (parts - heads) * lanes->stay_ns
    };
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
