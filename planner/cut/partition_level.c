/* What stages at one place of the pipeline share: their prices, micro-batches, and how many are in flight. */
#include "base/num.h"
#include "planner/cut/partition_parts.h"
#include <stdlib.h>
#include <string.h>

static int64_t lane_ns(const struct layer_price *p)
{
    return p->gather_forward_ns + p->gather_backward_ns + p->reduce_ns;
}

/* Gives what the lane and the update do once a step. */
static int64_t once_ns(const struct layer_price *p)
{
    return p->gather_once_ns + p->reduce_last_ns + p->step_ns;
}

int64_t level_period_ns(const struct price_table *table, int64_t n, int64_t m)
{
    return n < 1 || n >= m ? 0 : ceil_div(2 * table->send_ns * (n - 1), n);
}

int64_t level_end_ns(const struct partition_problem *problem, int before, int shape)
{
    return problem->mesh_count > 0 ? price_of_meshes(problem->table, before, shape)->send_ns : 0;
}

int64_t level_ends_ns(const struct partition_problem *problem, int before, int shape, int first, int end)
{
    return level_end_ns(problem, before, shape) * ((first > 0) + (end < chain_last(problem->chain)));
}

int64_t partition_once_ns(const struct partition_problem *problem)
{
    int64_t sum = problem->table->norm_exchange_ns;
    for (int k = 0; problem->mesh_count == 0 && k + 1 < problem->stage_count; k++) /* else level_ends_ns() */
        sum += 2 * price_send_ns(problem->table, k);
    return sum;
}

void level_rows(int64_t row[ROW_COUNT], const struct layer_price *p, int64_t m, int64_t in_flight, bool joined,
                bool apart)
{
    int64_t forward = apart ? p->forward_ns : 0, rest = path_ns(p) - forward;
    row[ROW_MEMORY] = stage_layer_bytes(p, in_flight, joined);
    row[ROW_FORWARD] = (m - 1) * forward;
    row[ROW_PATH] = (m - 1) * rest + p->step_ns;
    row[ROW_LAST] = (m - 1) * rest - p->backward_ns + p->reduce_last_ns + p->step_ns;
    row[ROW_LANE] = m * lane_ns(p) - path_ns(p) + once_ns(p);
}

struct stage_sums level_sums(const struct stage_place *place, bool phases, const struct chain *chain, int first,
                             int end, const struct layer_count *counts)
{
    const struct price_table *table = place->table;
    int64_t m = place->micro_batches;
    int64_t row[ROW_COUNT] = { 0 }, path = 0, peak_bytes = 0;
    bool joined = chain_holds_both(chain, first, end);
    for (; counts->count > 0; counts++) {
        const struct layer_price *p = &table->prices[counts->at];
        int64_t own[ROW_COUNT];
        level_rows(own, p, m, place->in_flight, joined, phases);
        for (int r = 0; r < ROW_COUNT; r++)
            row[r] += counts->count * own[r];
        path += counts->count * path_ns(p);
        peak_bytes = max_i64(peak_bytes, p->transient_bytes);
    }
    const int64_t waiting_ns = (m - 1) * level_period_ns(table, place->in_flight, m);
    struct stage_times times = { row[ROW_FORWARD], max_i64(row[ROW_PATH], row[ROW_LAST]) + waiting_ns, row[ROW_LANE] };
    return (struct stage_sums){ path, table->base_bytes + row[ROW_MEMORY] + peak_bytes, times };
}

/* Gives the place of a stage; shape is the index of its number of meshes. */
struct stage_place stage_place_of(const struct partition_problem *problem, int stage, int shape, int meshes_left)
{
    if (problem->mesh_count == 0)
        return (struct stage_place){ price_of_stage(problem->table, stage), problem->micro_batch_count,
                                     problem->in_flight[stage] };
    return (struct stage_place){ price_of_meshes(problem->table, problem->mesh_count - meshes_left, shape),
                                 micro_batches_in_turn(problem->micro_batch_count, problem->turns[shape]),
                                 problem->in_flight[meshes_left * problem->shape_count + shape] };
}

/* True when the stage has room beside what its device holds of the stages before. */
static bool has_room(const struct partition_problem *problem, int stage, int64_t bytes)
{
    if (!problem->device_of)
        return bytes <= problem->capacity_bytes;
    int64_t *held_bytes = &problem->held_bytes[problem->device_of[stage]];
    *held_bytes += bytes;
    return *held_bytes <= problem->capacity_bytes;
}

int64_t partition_evaluate(const struct partition_problem *problem, const struct partition_plan *plan)
{
    const struct chain *chain = problem->chain;
    int64_t sum = partition_once_ns(problem);
    struct stage_times times = { INT64_MIN / 4, INT64_MIN / 4, INT64_MIN / 4 };
    int left = problem->mesh_count;
    int stages = partition_stages(problem, plan);
    for (int k = 0; k < stages; k++) {
        int first = plan->first_layer[k], end = k + 1 < stages ? plan->first_layer[k + 1] : chain_last(chain),
            shape = plan->shape ? plan->shape[k] : 0;
        struct stage_place place = stage_place_of(problem, k, shape, left);
        struct stage_sums sums = level_sums(&place, problem->phases, chain, first, end, plan->counts[k]);
        if (!has_room(problem, k, sums.bytes))
            return INT64_MAX;
        sum += sums.path_ns + level_ends_ns(problem, problem->mesh_count - left, shape, first, end);
        times = stage_longer(&times, &sums.times);
        left -= plan->shape ? problem->turns[shape] : 0;
    }
    return sum + stage_times_ns(&times);
}

/* ---- start ---- */

bool level_set_options(struct solver *s, int level)
{
    struct stage_level *own = &s->levels[level];
    const struct price_table *table = own->table;
    int64_t worst = 0, tied_bytes = 0;
    int block = s->classes * s->strategies;
    if (own->options[1])
        return true;
    for (int i = 0; i < block; i++) {
        const struct layer_price *p = &table->prices[i];
        worst = max_i64(worst, own->micro_batches * lane_ns(p) + once_ns(p));
        tied_bytes = max_i64(tied_bytes, p->tied_bytes);
    }
    for (int joined = 0; joined < 2; joined++) {
        if (joined && tied_bytes == 0) { /* alike */
            own->options[1] = own->options[0];
            break;
        }
        struct knapsack_option *options = arena_alloc(s->arena, (size_t)block, sizeof *options);
        own->options[joined] = options;
        if (!options)
            return false;
        for (int i = 0; i < block; i++) { /* ties in C go to who asks less of lane and end: 2^TIE_BITS at most in all */
            const struct layer_price *p = &table->prices[i];
            int64_t asks = own->micro_batches * lane_ns(p) + once_ns(p),
                    share = ((INT64_C(1) << TIE_BITS) - 1) / s->layers;
            int64_t tie = worst > 0 ? (int64_t)((double)asks / (double)worst * (double)share) : 0;
            options[i].cost = path_ns(p) * (INT64_C(1) << TIE_BITS) + tie;
            options[i].peak = p->transient_bytes;
            level_rows(options[i].row, p, own->micro_batches, own->in_flight, joined, s->span.apart);
        }
    }
    return true;
}

/* True when tables are equal: types of devices that differ in name alone share their cells. */
static bool same_table(const struct price_table *a, const struct price_table *b)
{
    size_t count = (size_t)(a->class_count * a->strategy_count);
    return a == b || (a->class_count == b->class_count && a->strategy_count == b->strategy_count &&
                      a->base_bytes == b->base_bytes && !memcmp(a->prices, b->prices, count * sizeof *a->prices));
}

static int64_t *make_least_bytes(struct solver *s, int level)
{
    const struct chain *chain = s->problem->chain;
    int64_t *least = arena_alloc(s->arena, (size_t)s->sums, sizeof *least), *of_class = s->scratch.class_price;
    for (int c = 0; c < s->classes; c++)
        of_class[c] = stage_least_bytes(s->levels[level].table, c, s->levels[level].in_flight);
    for (int at = 1; least && at < s->sums; at++) {
        int layer = chain_sum_layer(chain, at);
        least[at] = layer < 0 ? 0 : least[at - 1] + of_class[chain->class_of[layer]];
    }
    return least;
}

/* Finds or adds the level of a place; -1 when out of memory. */
static int find_level(struct solver *s, const struct stage_place *place, int from)
{
    int64_t period = level_period_ns(place->table, place->in_flight, place->micro_batches);
    int at = from;
    for (; at < s->level_count; at++) {
        const struct stage_level *level = &s->levels[at];
        if (level->in_flight == place->in_flight && level->period_ns == period &&
            level->micro_batches == place->micro_batches && same_table(level->table, place->table))
            break;
    }
    if (at == s->level_count) {
        s->levels[at] = (struct stage_level){ .table = place->table,
                                              .in_flight = place->in_flight,
                                              .micro_batches = place->micro_batches,
                                              .period_ns = period };
        s->levels[at].least_bytes = make_least_bytes(s, at);
        s->level_count++;
    }
    return s->levels[at].least_bytes ? at : -1;
}

static bool set_levels_of_stages(struct solver *s)
{
    for (int k = 0; k < s->stages; k++) {
        struct stage_place place = stage_place_of(s->problem, k, 0, 0);
        if ((s->level[k] = find_level(s, &place, 0)) < 0)
            return false;
    }
    return true;
}

/* Sets levels where stages take turns: in flight grows with the meshes left, so a level's rows follow each other. */
static bool set_levels_of_turns(struct solver *s)
{
    int from = 0;
    for (int shape = 0; shape < s->shape_count; shape++) {
        int least = s->turns_alike ? 1 : s->problem->turns[shape];
        for (int left = least; left <= s->problem->mesh_count; left++) {
            struct stage_place place = stage_place_of(s->problem, 0, shape, left);
            from = find_level(s, &place, left == least ? s->level_count : from);
            if (from < 0)
                return false;
            for (int row = s->problem->mesh_count - left; row < s->row_count; row += s->problem->mesh_count + 1)
                s->level[row * s->shape_count + shape] = from;
        }
    }
    return true;
}

/* Sums of each layer's smallest C and O by a table, to path_ns and step_ns, (sums). */
static void sum_least(const struct solver *s, const struct price_table *table, int64_t *path_ns_to, int64_t *step_ns_to)
{
    const struct chain *chain = s->problem->chain;
    int64_t *path = s->scratch.class_price, *step = &s->scratch.class_price[s->classes];
    for (int c = 0; c < s->classes; c++) {
        path[c] = step[c] = INT64_MAX;
        for (int i = 0; i < s->strategies; i++) {
            const struct layer_price *p = price_at(table, c, i);
            path[c] = min_i64(path[c], path_ns(p));
            step[c] = min_i64(step[c], p->step_ns);
        }
    }
    for (int at = 1; at < s->sums; at++) {
        int layer = chain_sum_layer(chain, at);
        path_ns_to[at] = layer < 0 ? 0 : path_ns_to[at - 1] + path[chain->class_of[layer]];
        step_ns_to[at] = layer < 0 ? 0 : step_ns_to[at - 1] + step[chain->class_of[layer]];
    }
}

/* Sets the level's own sums: those of all, unless tables differ in what a stage's number of meshes makes of it. */
static bool set_own_least(struct solver *s, int level)
{
    struct stage_level *own = &s->levels[level];
    int like = 0;
    while (like < level && s->levels[like].table != own->table)
        like++;
    own->path_ns = like < level ? s->levels[like].path_ns : s->least_path_ns;
    own->step_ns = like < level ? s->levels[like].step_ns : s->least_step_ns;
    if (s->problem->mesh_count == 0 || s->turns_alike || like < level)
        return true;
    own->path_ns = arena_alloc(s->arena, (size_t)s->sums, sizeof *own->path_ns);
    own->step_ns = arena_alloc(s->arena, (size_t)s->sums, sizeof *own->step_ns);
    if (own->path_ns && own->step_ns)
        sum_least(s, own->table, own->path_ns, own->step_ns);
    return own->path_ns && own->step_ns;
}

static void set_most(struct solver *s)
{
    const struct chain *chain = s->problem->chain;
    int64_t *path = s->scratch.class_price, *high = &s->scratch.class_price[s->classes];
    for (int c = 0; c < s->classes; c++) {
        path[c] = high[c] = 0; /* the most that one layer of the class adds */
        for (int at = 0; at < s->level_count; at++)
            for (int i = 0; i < s->strategies; i++) {
                const struct layer_price *p = price_at(s->levels[at].table, c, i);
                int64_t row[ROW_COUNT];
                level_rows(row, p, s->levels[at].micro_batches, s->levels[at].in_flight, false, s->span.apart);
                path[c] = max_i64(path[c], path_ns(p));
                high[c] = max_i64(high[c], max_i64(row[ROW_PATH], max_i64(row[ROW_LAST], row[ROW_LANE])));
            }
    }
    for (int at = 1; at < s->sums; at++) {
        int layer = chain_sum_layer(chain, at);
        if (layer < 0)
            continue;
        s->most_path_ns[at] = s->most_path_ns[at - 1] + path[chain->class_of[layer]];
        s->most_high_ns += high[chain->class_of[layer]];
    }
    int64_t exposed = 0;
    for (int level = 0; level < s->level_count; level++)
        exposed = max_i64(exposed, level_waiting_ns(s, level));
    s->most_high_ns += exposed;
}

/* Sets bins with about equally many prices in each. Levels of one table have the same, each as often as the others. */
static bool set_bins(struct solver *s)
{
    bool one = s->problem->mesh_count == 0 && price_is_one(s->problem->table);
    int block = s->classes * s->strategies, alike = one ? s->level_count : 1;
    int levels = s->turns_alike ? 1 : s->level_count / alike, count = levels * block;
    int64_t *peak = arena_alloc(s->arena, (size_t)count, sizeof *peak);
    if (!peak)
        return false;
    for (int i = 0; i < count; i++)
        peak[i] = s->levels[i / block].table->prices[i % block].transient_bytes;
    qsort(peak, (size_t)count, sizeof *peak, compare_i64);
    s->bin_peak[0] = -1;
    for (int b = 1; b <= BINS; b++)
        s->bin_peak[b] = peak[((int64_t)count * alike - 1) * b / BINS / alike];
    return true;
}

bool levels_start(struct solver *s)
{
    bool meshes = s->problem->mesh_count > 0;
    int levels = meshes ? s->problem->mesh_count * s->problem->shape_count : s->problem->stage_count;
    size_t sums = (size_t)s->sums, classes = (size_t)s->classes;
    s->turns_alike = meshes && !price_is_by_place(s->problem->table);
    s->most_sum_ns = s->open_sum_ns = INT64_MAX;
    s->vector_level = -1;
    s->level = arena_alloc(s->arena, (size_t)s->row_count, (size_t)s->shape_count * sizeof *s->level);
    s->levels = arena_alloc(s->arena, (size_t)levels, sizeof *s->levels);
    s->least_path_ns = arena_alloc(s->arena, sums, sizeof *s->least_path_ns);
    s->least_step_ns = arena_alloc(s->arena, sums, sizeof *s->least_step_ns);
    s->most_path_ns = arena_alloc(s->arena, sums, sizeof *s->most_path_ns);
    s->scratch = (struct knapsack_scratch){
        .groups = arena_alloc(s->arena, classes, sizeof *s->scratch.groups),
        .group_first = arena_alloc(s->arena, classes, sizeof *s->scratch.group_first),
        .class_count = arena_alloc(s->arena, classes, sizeof *s->scratch.class_count),
        .class_price = arena_alloc(s->arena, classes, BINS * sizeof *s->scratch.class_price),
        .counts = arena_alloc(s->arena, classes, (size_t)s->strategies * sizeof *s->scratch.counts),
    };
    if (arena_failed(s->arena) || !(meshes ? set_levels_of_turns : set_levels_of_stages)(s) || !set_bins(s))
        return false;
    sum_least(s, s->problem->table, s->least_path_ns, s->least_step_ns);
    s->least_ns = chain_between(s->problem->chain, s->least_path_ns, 0, s->last);
    for (int level = 0; level < s->level_count; level++)
        if (!set_own_least(s, level))
            return false;
    set_most(s);
    return true;
}
