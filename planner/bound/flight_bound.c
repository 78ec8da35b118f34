#include "planner/bound/flight_bound.h"
#include "base/climb.h"
#include "base/num.h"
#include "planner/bound/lanes_bound.h"

enum { PARTS = LANES_PATH_PARTS * LANES_STEP_PARTS, MOST_SHARE = 4 };

/* Stages, or pairs of opposite ones, that are taken to have equally many micro-batches in flight. */
struct level {
    int flight, groups;
    int64_t heads_ns; /* of all stages together */
};
/* What a layer of a class takes under a strategy. */
struct take {
    int64_t path_ns, update_ns, refresh_ns, lane_ns; /* for the step */
    int64_t memory_ns[FLIGHT_LEVELS];                /* for one j */
};
struct flight {
    const struct busy_problem *p;
    int copies, class_count, level_count;
    bool offloads;
    int *count; /* (classes) layers */
    struct level level[FLIGHT_LEVELS];
    struct take *takes; /* (classes, strategies) */
    int64_t *cost;      /* (classes, levels) */
    int64_t unit_ns, seam_ns, stay_ns;
};

/* ---- levels ---- */

/* (groups) Micro-batches in flight, of each stage or pair of stages. */
static bool count_flight(int *flight, const struct config *config, struct arena *arena)
{
    const struct schedule *schedule = schedules[config->schedule];
    int chunks = config_chunks(config), *by_chunk = arena_alloc(arena, (size_t)chunks, sizeof *by_chunk);
    int *piece = arena_alloc(arena, (size_t)config->stages, sizeof *piece);
    for (int k = 0; by_chunk && piece && k < config->stages; k++) {
        struct schedule_place place = schedule_place_even(config->stages, k, config->micro_batch_count, config->extra);
        place.chunks = chunks;
        if (chunks == 1)
            by_chunk[0] = schedule->in_flight ? schedule->in_flight(&place) : schedule_in_flight(schedule, &place);
        else if (!schedule_flight(by_chunk, schedule, &place))
            return false;
        flight[k] = INT32_MAX;
        for (int c = 0; c < chunks; c++) {
            piece[schedule_piece(schedule, config->stages, k, c) % config->stages] += by_chunk[c];
            flight[k] = (int)min_i64(flight[k], by_chunk[c]);
        }
    }
    for (int k = 0; schedule->copies && piece && k < config->stages / 2; k++)
        flight[k] = (int)min_i64(piece[k], piece[config->stages - 1 - k]);
    return by_chunk && piece;
}

/* Levels are as many numbers as there are, or further apart. */
static bool make_levels(struct flight *f, const struct config *config, struct arena *arena, struct error *err)
{
    int groups = config->stages / f->copies, most = 0,
        *flight = arena_alloc(arena, (size_t)config->stages, sizeof *flight);
    int64_t *heads_ns = arena_alloc(arena, (size_t)config->stages, sizeof *heads_ns);
    if (!flight || !heads_ns || !count_flight(flight, config, arena))
        return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
    if (!busy_head_of_stages(heads_ns, f->p, err))
        return false;
    for (int g = 0; g < groups; g++)
        most = (int)max_i64(most, flight[g]);
    for (int i = 0, low = -1; i < FLIGHT_LEVELS; i++) {
        struct level level = { .flight = INT32_MAX };
        for (int g = 0; g < groups; g++) /* the next number, or the next share of the largest */
            if (flight[g] > low && flight[g] >= i * most / FLIGHT_LEVELS)
                level.flight = (int)min_i64(level.flight, flight[g]);
        if (level.flight < INT32_MAX) {
            f->level[f->level_count++] = level;
            low = level.flight;
        }
    }
    for (int g = 0; g < groups; g++) {
        int i = f->level_count - 1;
        while (i > 0 && f->level[i].flight > flight[g])
            i--;
        f->level[i].groups++;
        f->level[i].heads_ns += heads_ns[g] + (f->copies > 1 ? heads_ns[config->stages - 1 - g] : 0);
    }
    return true;
}

/* ---- costs ---- */

static int64_t memory_ns(const struct flight *f, const struct least_price *least, int flight, int64_t capacity_bytes)
{
    int64_t one = least->held_bytes,
            all = f->copies * least->resident_bytes + flight * price_kept_bytes(least, f->offloads);
    double share = (double)(flight > 1 ? all : one) / (double)capacity_bytes;
    int64_t fine = share >= MOST_SHARE ? (int64_t)MOST_SHARE * LANES_FINE : (int64_t)(share * LANES_FINE);
    return f->unit_ns * fine / LANES_FINE;
}

static void fill_takes(struct flight *f, int64_t capacity_bytes)
{
    const struct price_table *table = f->p->table;
    int64_t m = f->p->micro_batches;
    for (int c = 0; c < f->class_count; c++)
        for (int i = 0; i < table->strategy_count; i++) {
            const struct least_price least = lanes_least(f->p, c, i);
            struct take *take = &f->takes[c * table->strategy_count + i];
            *take = (struct take){ .path_ns = m * least_kernels_ns(&least),
                                   .update_ns = least.update_ns,
                                   .refresh_ns = least.refresh_ns,
                                   .lane_ns = least_lane_ns(&least, m, f->copies) };
            for (int n = 0; n < f->level_count; n++)
                take->memory_ns[n] = memory_ns(f, &least, f->level[n].flight, capacity_bytes);
        }
}

/* Levels below the last number have more memory than they need. */
static int64_t memory_price(const int *at, int level)
{
    return level < at[3] ? 0 : at[2];
}

/* Of each class the least of all strategies at a level. */
static int64_t fill_costs(const struct flight *f, int n, const int *at)
{
    int64_t sum = 0, a = at[0], u = at[1], j = memory_price(at, n);
    int strategies = f->p->table->strategy_count;
    for (int c = 0; c < f->class_count; c++) {
        int64_t least = f->count[c] > 0 ? INT64_MAX : 0;
        for (int i = 0; i < strategies && f->count[c] > 0; i++) {
            const struct take *take = &f->takes[c * strategies + i];
            int64_t path =
                LANES_STEP_PARTS * take->path_ns + u * take->update_ns + (LANES_STEP_PARTS - u) * take->refresh_ns;
            least = min_i64(least, a * path + (LANES_PATH_PARTS - a) * LANES_STEP_PARTS * take->lane_ns +
                                       PARTS * j * take->memory_ns[n]);
        }
        f->cost[c * FLIGHT_LEVELS + n] = least / PARTS;
        sum += f->count[c] * (least / PARTS);
    }
    return sum;
}

/* The bound's dividend and divisor. */
struct quotient {
    int64_t total_ns, weights;
};

/* What all stages have by themselves: heads, less what memory costs and what need not be at a chunk's ends. */
static struct quotient of_stages(const struct flight *f, const int64_t *weight, const int *at)
{
    struct quotient q = { 0 };
    int64_t a = at[0] * LANES_STEP_PARTS,
            off_ns = f->copies * f->p->chunks * ceil_div(a * f->seam_ns + (PARTS - a) * f->stay_ns, PARTS);
    for (int n = 0; n < f->level_count; n++) {
        const struct level *level = &f->level[n];
        int64_t free_ns = f->copies * memory_price(at, n) * f->unit_ns;
        q.weights += weight[n] * level->groups * f->copies;
        q.total_ns += weight[n] * (a * level->heads_ns / PARTS - level->groups * (off_ns + free_ns));
    }
    return q;
}

static int64_t value(const void *self, const int *at)
{
    const struct flight *f = self;
    int64_t all[FLIGHT_LEVELS], weight[FLIGHT_LEVELS], least = INT64_MAX;
    for (int n = 0; n < f->level_count; n++) {
        all[n] = max_i64(fill_costs(f, n, at), 1);
        least = min_i64(least, all[n]);
    }
    if (least > INT64_MAX / FLIGHT_WEIGHT / 4)
        return 0;
    for (int n = 0; n < f->level_count; n++)
        weight[n] = (int64_t)((double)least / (double)all[n] * FLIGHT_WEIGHT);
    struct quotient q = of_stages(f, weight, at);
    for (int c = 0; c < f->class_count; c++) {
        int64_t lowest = INT64_MAX;
        for (int n = 0; n < f->level_count; n++)
            lowest = min_i64(lowest, weight[n] * f->cost[c * FLIGHT_LEVELS + n]);
        q.total_ns += f->count[c] * lowest;
    }
    return q.total_ns <= 0 || q.weights == 0 ? 0 : ceil_div(q.total_ns, q.weights);
}

static bool flight_open(struct flight *f, const struct config *config, int64_t capacity_bytes, struct arena *arena,
                        struct error *err)
{
    const struct chain *chain = f->p->chain;
    const struct price_table *table = f->p->table;
    int64_t all_ns = 0;
    f->count = arena_alloc(arena, (size_t)f->class_count, sizeof *f->count);
    f->cost = arena_alloc(arena, (size_t)f->class_count, FLIGHT_LEVELS * sizeof *f->cost);
    f->takes = arena_alloc(arena, (size_t)f->class_count, (size_t)table->strategy_count * sizeof *f->takes);
    if (!f->count || !f->cost || !f->takes)
        return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
    for (int l = 0; l < chain->layer_count; l++) {
        f->count[chain->class_of[l]]++;
        all_ns += least_kernels_ns(&price_at(table, chain->class_of[l], 0)->least);
    }
    f->seam_ns = lanes_seam_ns(f->p);
    f->stay_ns = lanes_stay_ns(f->p);
    f->unit_ns = f->p->micro_batches * all_ns / f->p->stages / LANES_UNITS;
    if (!make_levels(f, config, arena, err))
        return false;
    fill_takes(f, capacity_bytes);
    return true;
}

/* Whether no sum of value() can leave 63 bits. */
static bool is_moderate(const struct flight *f)
{
    int64_t most = INT64_MAX / FLIGHT_WEIGHT / MOST_SHARE, stages = (int64_t)f->p->stages * f->p->chunks;
    return f->unit_ns < most / LANES_MOST_UNITS / (stages + f->p->chain->layer_count) &&
           max_i64(f->seam_ns, f->stay_ns) < most / stages;
}

bool flight_bound(int64_t *out, const struct busy_problem *problem, const struct config *config, int64_t capacity_bytes,
                  struct error *err)
{
    struct arena arena = { 0 };
    struct flight f = { .p = problem,
                        .copies = problem->copies ? 2 : 1,
                        .class_count = problem->chain->class_count,
                        .offloads = price_offloads(problem->table) };
    bool good = flight_open(&f, config, max_i64(capacity_bytes, 1), &arena, err);
    *out = 0;
    static const int starts[][2] = { { LANES_PATH_PARTS, LANES_UNITS / 2 }, { LANES_PATH_PARTS / 2, LANES_UNITS } };
    for (int i = 0; good && is_moderate(&f) && i < 2; i++) {
        struct climb climb = { .axes = 4,
                               .most = { LANES_PATH_PARTS, LANES_STEP_PARTS, LANES_MOST_UNITS, f.level_count - 1 },
                               .at = { starts[i][0], LANES_STEP_PARTS / 2, starts[i][1], 0 },
                               .stride = { LANES_PATH_PARTS / 4, 1, LANES_UNITS / 2, 2 },
                               .value = value,
                               .self = &f };
        *out = max_i64(*out, climb_up(&climb));
    }
    arena_free(&arena);
    return good;
}
