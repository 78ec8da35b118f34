/* Stages of several runs of layers, each run with its own layout. What they hand over to each other stands in the
 * stage's knapsack like a layer without a choice, so that all that holds of a stage of one layout holds of them. */
#include "base/num.h"
#include "planner/cut/partition_parts.h"
#include <string.h>

static int64_t run_path(const struct solver *s, int level, int layout, int first, int end)
{
    const int64_t *sums = s->layouts > 1 ? &s->layout_path_ns[layout * s->sums] : s->own_path_ns[level];
    return chain_between(s->problem->chain, sums, first, end);
}

int64_t runs_handover_path(const struct solver *s, const struct stage_runs *runs)
{
    const struct layer_price *handover[MOST_RUNS - 1];
    int64_t sum = 0;
    int count = stage_handovers(s->problem->table, s->problem->chain, runs, handover);
    for (int i = 0; i < count; i++)
        sum += path_ns(handover[i]);
    return sum;
}

int64_t runs_least_path(const struct solver *s, int level, const struct stage_runs *runs)
{
    int64_t sum = runs_handover_path(s, runs);
    for (int i = 0; i < runs->count; i++)
        sum += run_path(s, level, runs->layout[i], runs->first[i], stage_run_end(runs, i));
    return sum;
}

/* Of equal stages: level, layers of each class and layout, handovers, and whether layers share a weight. 64 bits, so
 * that two different ones do not meet by chance. */
static uint64_t runs_key(const struct solver *s, int level, const struct stage_runs *runs)
{
    const struct chain *chain = s->problem->chain;
    if (chain->branches)
        return mix64(chain_key(chain, runs->first[0], runs->end) + mix64((uint64_t)level));
    uint64_t key = 0, place = 2 * (uint64_t)level + chain_holds_both(chain, runs->first[0], runs->end);
    for (int i = 0; i < runs->count; i++) {
        const uint64_t *sum = &s->layout_key[runs->layout[i] * s->sums];
        key += sum[stage_run_end(runs, i)] - sum[runs->first[i]];
        if (i > 0)
            key += mix64(
                ~(uint64_t)((chain->class_of[runs->first[i] - 1] * s->layouts + runs->layout[i - 1]) * s->layouts +
                            runs->layout[i]));
    }
    return mix64(mix64(key) + place);
}

static struct run_slot *find_slot(const struct run_cells *cells, uint64_t key)
{
    size_t at = key & (cells->size - 1);
    while (cells->slots[at].cell && cells->slots[at].key != key)
        at = (at + 1) & (cells->size - 1);
    return &cells->slots[at];
}

static bool grow(struct solver *s, struct run_cells *cells)
{
    struct run_cells grown = { .size = cells->size ? 2 * cells->size : 256, .used = cells->used };
    grown.slots = arena_alloc(s->arena, grown.size, sizeof *grown.slots);
    if (!grown.slots)
        return false;
    for (size_t i = 0; i < cells->size; i++)
        if (cells->slots[i].cell)
            *find_slot(&grown, cells->slots[i].key) = cells->slots[i];
    *cells = grown;
    return true;
}

struct cell *runs_cell(const struct solver *s, int level, const struct stage_runs *runs)
{
    return s->run_cells.used > 0 ? find_slot(&s->run_cells, runs_key(s, level, runs))->cell : NULL;
}

bool runs_put_cell(struct solver *s, int level, const struct stage_runs *runs, struct cell *cell)
{
    if (2 * s->run_cells.used >= s->run_cells.size && !grow(s, &s->run_cells))
        return false;
    uint64_t key = runs_key(s, level, runs);
    *find_slot(&s->run_cells, key) = (struct run_slot){ key, cell };
    s->run_cells.used++;
    return true;
}

bool runs_start(struct solver *s)
{
    size_t width = (size_t)s->layers + 1;
    s->layout_key = arena_alloc(s->arena, width, (size_t)s->layouts * sizeof *s->layout_key);
    for (int i = 0; s->layout_key && i < s->layouts * s->layers; i++) {
        int layout = i / s->layers, l = i % s->layers;
        uint64_t *sum = &s->layout_key[(size_t)layout * width];
        sum[l + 1] = sum[l] + mix64((uint64_t)(s->problem->chain->class_of[l] * s->layouts + layout) + 1);
    }
    return s->layout_key != NULL;
}

/* ---- one stage ---- */

/* All ways to be the one stage, each with what is proven of its C + Y. */
struct ways {
    size_t count;
    struct way {
        int64_t least;
        struct stage_runs runs;
    } * at;
    struct vector latest;
};

/* Fills out, or only counts. */
static size_t list_ways(const struct solver *s, struct stage_runs runs, struct way *out, size_t count)
{
    bool legal = stage_runs_legal(s->problem->chain, &runs);
    if (out && legal)
        out[count] = (struct way){ runs_least_path(s, s->level[0], &runs), runs };
    count += legal;
    if (runs.count == s->problem->table->run_count)
        return count;
    int first = runs.first[runs.count - 1] + 1, before = runs.layout[runs.count - 1];
    runs.count++;
    for (int l = first; l < s->layers; l++)
        for (int layout = 0; layout < s->layouts; layout++) {
            runs.first[runs.count - 1] = l;
            runs.layout[runs.count - 1] = (int8_t)layout;
            if (layout != before)
                count = list_ways(s, runs, out, count);
        }
    return count;
}

static bool open_ways(struct solver *s, struct ways *w)
{
    for (int pass = 0; pass < 2; pass++) {
        w->count = 0;
        for (int layout = 0; layout < s->layouts; layout++) {
            struct stage_runs runs = stage_run(0, s->layers);
            runs.layout[0] = (int8_t)layout;
            w->count = list_ways(s, runs, w->at, w->count);
        }
        if (pass == 0 && !(w->at = arena_alloc(s->arena, w->count, sizeof *w->at)))
            return false;
    }
    return true;
}

/* What the latest knapsack's multipliers say of all ways. */
static bool bound_ways(struct solver *s, struct ways *w)
{
    if (!stage_whole_vector(s, s->level[0], &w->latest))
        return false;
    for (size_t i = 0; i < w->count; i++)
        w->at[i].least = max_i64(w->at[i].least, stage_vector_bound(s, &w->latest, &w->at[i].runs));
    return true;
}

static struct way *least_way(const struct ways *w)
{
    struct way *least = &w->at[0];
    for (size_t i = 1; i < w->count; i++)
        if (w->at[i].least < least->least)
            least = &w->at[i];
    return least;
}

/* As if a sweep had found it. */
static void set_cut(struct solver *s, const struct stage_runs *runs)
{
    for (int layout = 0; layout < s->layouts; layout++)
        s->best_ns[spot_index(s, 0, layout, 0)] = layout == runs->layout[0] ? 0 : INT64_MAX;
    size_t at = spot_index(s, 0, runs->layout[0], 0);
    s->cut[at] = runs->end;
    s->cut_turn[at] = s->cut_next[at] = 0;
    s->cut_runs[at] = *runs;
}

/* The answer of the way's knapsack as a plan. */
static bool take_way(struct solver *s, const struct stage_runs *runs, int number, int64_t *upper)
{
    const struct record *record = &stage_cell(s, s->level[0], runs)->records[number];
    int64_t step_ns = stage_once_ns(s->problem) + record->path + record_high_ns(s, record);
    set_cut(s, runs);
    *upper = min_i64(*upper, step_ns);
    return step_ns >= s->problem->below_ns || cut_keep_plan(s, (struct choice){ 0, number }, step_ns);
}

/* One more look at the way: its relaxation, then to the end. *known: all that can be known of it. */
static bool look_closer(struct solver *s, struct ways *w, struct way *way, int64_t *upper, bool *known)
{
    struct cell *cell = stage_cell(s, s->level[0], &way->runs);
    int record = -1;
    if (!cell)
        return fail_kind(s->err, ERROR_ENVIRONMENT, "search: out of memory");
    *known = cell->whole_tried && cell->whole_effort == EFFORT_END;
    if (*known || cell->whole > way->least) { /* an equal stage was looked at before */
        way->least = max_i64(way->least, cell->whole);
        return true;
    }
    enum effort effort = cell->whole_tried ? EFFORT_END : EFFORT_RELAX;
    if (!stage_solve_whole(s, s->level[0], &way->runs, effort, &record))
        return false;
    if (s->stopped)
        return true;
    way->least = max_i64(way->least, cell->whole);
    *known = effort == EFFORT_END;
    return (record < 0 || take_way(s, &way->runs, record, upper)) &&
           (effort == EFFORT_END || cell->whole >= NOTHING_FITS || bound_ways(s, w) ||
            fail_kind(s->err, ERROR_ENVIRONMENT, "search: out of memory"));
}

bool runs_descend(struct solver *s, int64_t *upper, int64_t *bound)
{
    struct ways w = { 0 };
    int64_t left = INT64_MAX, once = stage_once_ns(s->problem); /* left: of ways that are known */
    if (!open_ways(s, &w))
        return fail_kind(s->err, ERROR_ENVIRONMENT, "search: out of memory");
    while (!s->stopped) {
        struct way *way = least_way(&w);
        bool known = false;
        *bound = min_i64(left, way->least < NOTHING_FITS ? once + way->least : INT64_MAX);
        if (way->least >= NOTHING_FITS || once + way->least >= *upper - step_tolerance(s, *upper))
            return true;
        if (!look_closer(s, &w, way, upper, &known))
            return false;
        left = known && way->least < NOTHING_FITS ? min_i64(left, once + way->least) : left;
        way->least = known ? INT64_MAX : way->least;
    }
    return true;
}
