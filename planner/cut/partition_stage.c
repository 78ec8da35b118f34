/* Single stages of the partition: cells, which keep what is known of them, and the knapsacks that solve them. A stage
 * that is on no best cut is only bounded (partition_vectors.c). */
#include "base/num.h"
#include "planner/cut/partition_parts.h"
#include <math.h>
#include <string.h>

/* HARD_KNAPSACKS: after so many times node_limit nodes each knapsack gets only a quarter of it. */
enum { HARD_KNAPSACKS = 4, HARD_SHARE = 4, BEAM_NODES = 2 };

/* ---- cells ---- */

static bool open_level(struct solver *s, int level)
{
    if (s->levels[level].cells)
        return true;
    size_t chunks = (size_t)s->problem->chain->interval_count / CHUNK_CELLS + 1;
    s->levels[level].cells = arena_alloc(s->arena, chunks, sizeof *s->levels[level].cells);
    if (!s->levels[level].cells)
        return false;
    const struct vectors *known = s->vector_level >= 0 ? &s->levels[s->vector_level].vectors : NULL;
    for (int v = 0; known && v < known->count; v++)
        if (!vectors_put(s, level, known->at[v].multiplier))
            return false;
    return true;
}

/* Shows stage_is_above() what is proven of the cell. */
static void show_lower(struct solver *s, const struct cell *cell, int level, int first, int end)
{
    if (s->problem->chain->branches)
        return;
    int index = chain_interval(s->problem->chain, first, end);
    s->levels[level].cells[index / CHUNK_CELLS]->lower[index % CHUNK_CELLS] =
        (struct lower_seen){ s->cap_ns, cell->lower + (cell->solution < 0 && cell->lower < INT64_MAX), cell->seen };
}

/* Looks up what the records say at the present cap. */
static void look_up(struct solver *s, struct cell *cell, int level, int first, int end)
{
    const struct stage_times caps = stage_caps(s);
    bool empty = stage_times_within(&caps, &cell->empty);
    cell->caps = caps;
    cell->tried = false;
    cell->solution = -1;
    cell->seen = s->levels[level].vectors.total;
    cell->lower = empty ? INT64_MAX : vectors_bound(s, level, first, end, 0, INT64_MAX);
    for (int i = 0; i < cell->record_count; i++) {
        const struct record *r = &cell->records[i];
        if (stage_times_within(&caps, &r->asked))
            cell->lower = max_i64(cell->lower, r->lower);
        if (r->path < INT64_MAX && stage_times_within(&r->rows, &caps) &&
            (cell->solution < 0 || r->path < cell->records[cell->solution].path))
            cell->solution = i;
    }
    if (cell->solution >= 0) /* a bound of the relaxation may round above by nothing, but not above a solution */
        cell->lower = min_i64(cell->lower, cell->records[cell->solution].path);
    show_lower(s, cell, level, first, end);
}

static const struct stage_times nothing = { INT64_MIN, INT64_MIN, INT64_MIN };

static struct cell *new_cell(struct solver *s)
{
    struct cell *cell = arena_alloc(s->arena, 1, sizeof *cell);
    if (cell)
        *cell = (struct cell){ .empty = nothing, .caps = nothing, .solution = -1 };
    return cell;
}

/* Finds the cell of layers between two places of a chain without branches, or makes it. NULL when out of memory. */
static struct cell *find_cell(struct solver *s, int level, int first, int end)
{
    int index = chain_interval(s->problem->chain, first, end);
    struct cell_chunk **chunk = &s->levels[level].cells[index / CHUNK_CELLS];
    if (!*chunk && !(*chunk = arena_alloc(s->arena, 1, sizeof **chunk)))
        return NULL;
    struct cell **cell = &(*chunk)->at[index % CHUNK_CELLS];
    if (!*cell)
        *cell = new_cell(s);
    return *cell;
}

/* ---- cells of chains with branches ---- */

/* Numbers no stages of any layers, which are too many, but makes a key for their cells. It has 64 bits, so that two
 * different ones do not meet by chance. */
static uint64_t cell_key(const struct solver *s, int level, int first, int end)
{
    return mix64(chain_key(s->problem->chain, first, end) + mix64((uint64_t)level));
}

static struct keyed_cell *find_slot(const struct keyed_cells *cells, uint64_t key)
{
    size_t at = key & (cells->size - 1);
    while (cells->slots[at].cell && cells->slots[at].key != key)
        at = (at + 1) & (cells->size - 1);
    return &cells->slots[at];
}

/* Finds the cell by its key, or makes a new one where there is none. NULL when out of memory. */
static struct cell *find_keyed_cell(struct solver *s, int level, int first, int end)
{
    struct keyed_cells *cells = &s->keyed;
    if (2 * cells->used >= cells->size) {
        struct keyed_cells grown = { .size = cells->size ? 2 * cells->size : 256, .used = cells->used };
        grown.slots = arena_alloc(s->arena, grown.size, sizeof *grown.slots);
        if (!grown.slots)
            return NULL;
        for (size_t i = 0; i < cells->size; i++)
            if (cells->slots[i].cell)
                *find_slot(&grown, cells->slots[i].key) = cells->slots[i];
        *cells = grown;
    }
    uint64_t key = cell_key(s, level, first, end);
    struct keyed_cell *slot = find_slot(cells, key);
    if (!slot->cell && (slot->cell = new_cell(s))) {
        slot->key = key;
        cells->used++;
    }
    return slot->cell;
}

/* ---- cells at the present cap ---- */

struct cell *stage_cell(struct solver *s, int level, int first, int end)
{
    if (!s->levels[level].cells && !open_level(s, level))
        return NULL;
    struct cell *cell =
        s->problem->chain->branches ? find_keyed_cell(s, level, first, end) : find_cell(s, level, first, end);
    if (cell && (cell->caps.lane_ns != s->cap_ns || cell->caps.rest_ns != s->cap_ns - s->span.from_ns ||
                 cell->caps.forward_ns != s->span.to_ns)) {
        look_up(s, cell, level, first, end);
    } else if (cell && cell->seen != s->levels[level].vectors.total) { /* by vectors that came since */
        if (cell->lower < INT64_MAX)
            cell->lower = max_i64(cell->lower, vectors_bound(s, level, first, end, cell->seen, INT64_MAX));
        if (cell->solution >= 0)
            cell->lower = min_i64(cell->lower, cell->records[cell->solution].path);
        cell->seen = s->levels[level].vectors.total;
        show_lower(s, cell, level, first, end);
    }
    return cell;
}

bool stage_known(struct solver *s, int level, int first, int end, int64_t enough, struct cell **cell, int64_t *lower)
{
    if (!s->levels[level].cells && !open_level(s, level))
        return false;
    bool none = s->keyed.used == 0 || !find_slot(&s->keyed, cell_key(s, level, first, end))->cell;
    *cell = none ? NULL : stage_cell(s, level, first, end);
    *lower = *cell ? (*cell)->lower : none ? vectors_bound(s, level, first, end, 0, enough) : 0;
    return none || *cell;
}

bool stage_open(const struct solver *s, const struct cell *cell, enum effort effort)
{
    if (cell->lower == INT64_MAX || (cell->tried && cell->effort >= effort))
        return false;
    if (cell->solution < 0)
        return true;
    int64_t path = cell->records[cell->solution].path;
    return cell->lower < path - step_tolerance(s, path);
}

/* ---- knapsacks ---- */

/* States the knapsack of a stage, with a group for the layers of each class. */
static struct knapsack make_knapsack(struct solver *s, int level, int first, int end)
{
    int groups = 0;
    const struct knapsack_option *options = s->levels[level].options[chain_holds_both(s->problem->chain, first, end)];
    const struct chain *chain = s->problem->chain;
    memset(s->scratch.class_count, 0, (size_t)s->classes * sizeof *s->scratch.class_count);
    for (int l = 0; chain->branches && l < s->layers; l++)
        s->scratch.class_count[chain->class_of[l]] += chain_holds(chain, first, end, l);
    for (int l = first; !chain->branches && l < end; l++)
        s->scratch.class_count[chain->class_of[l]]++;
    for (int c = 0; c < s->classes; c++) {
        if (s->scratch.class_count[c] == 0)
            continue;
        s->scratch.group_first[groups] = c * s->strategies;
        s->scratch.groups[groups++] = (struct knapsack_group){ .count = s->scratch.class_count[c],
                                                               .option_count = s->strategies,
                                                               .options = &options[c * s->strategies] };
    }
    struct knapsack knapsack = { .group_count = groups,
                                 .row_count = ROW_COUNT,
                                 .groups = s->scratch.groups,
                                 .tie_bits = TIE_BITS,
                                 .gap_ppm = s->problem->gap_ppm };
    vectors_row_caps(s, level, knapsack.cap);
    return knapsack;
}

static struct record *new_record(struct solver *s, struct cell *cell)
{
    if (!cell->records)
        cell->records = arena_alloc(s->arena, RECORDS, sizeof *cell->records);
    if (!cell->records)
        return NULL;
    int at = cell->record_count < RECORDS ? cell->record_count++ : 0;
    if (cell->record_count == RECORDS && at == 0) { /* the oldest; the rest moves up */
        struct record oldest = cell->records[0];
        memmove(cell->records, cell->records + 1, (RECORDS - 1) * sizeof *cell->records);
        at = RECORDS - 1;
        cell->records[at] = oldest;
    }
    return &cell->records[at];
}

static bool keep_answer(struct solver *s, struct cell *cell, int level, int first, int end,
                        const struct knapsack *knapsack, const struct knapsack_result *answer)
{
    struct record *record = new_record(s, cell);
    if (!record)
        return false;
    struct layer_count *counts = record->counts;
    bool whole = knapsack->excess_cost > 0; /* proves nothing of C alone */
    *record = (struct record){ .asked = whole ? nothing : stage_caps(s), .path = INT64_MAX, .counts = counts };
    record->lower = answer->bound == INT64_MAX ? INT64_MAX : max_i64(answer->bound, 0) >> TIE_BITS;
    if (answer->cost == INT64_MAX)
        return true;
    if (!record->counts) { /* the next solution's groups are the same */
        int most = 1;      /* of each group no more than its layers, or its options, take part */
        for (int g = 0; g < knapsack->group_count; g++)
            most += (int)min_i64(knapsack->groups[g].count, knapsack->groups[g].option_count);
        record->counts = arena_alloc(s->arena, (size_t)most, sizeof *record->counts);
    }
    if (!record->counts)
        return false;
    const int *count = answer->counts;
    struct layer_count *out = record->counts;
    for (int g = 0; g < knapsack->group_count; count += knapsack->groups[g++].option_count)
        for (int i = 0; i < knapsack->groups[g].option_count; i++)
            if (count[i] > 0)
                *out++ = (struct layer_count){ s->scratch.group_first[g] + i, count[i] };
    *out = (struct layer_count){ 0 };
    s->levels[level].solved = true;
    const struct chain *chain = s->problem->chain;
    struct stage_place place = { s->levels[level].table, s->levels[level].micro_batches, s->levels[level].in_flight };
    struct stage_sums sums = level_sums(&place, s->span.apart, chain, first, end, record->counts);
    record->path = sums.path_ns;
    record->rows = sums.times;
    record->times = level_sums(&place, s->problem->phases, chain, first, end, record->counts).times;
    return true;
}

static void note_end(struct solver *s)
{
    const struct partition_problem *p = s->problem;
    s->stopped =
        s->stopped || (p->most_nodes > 0 && s->result->nodes >= p->most_nodes) || (p->stops && p->stops(p->self));
}

static int64_t node_limit(const struct solver *s, enum effort effort)
{
    int64_t limit = s->problem->node_limit;
    if (effort != EFFORT_END)
        return effort == EFFORT_RELAX ? 1 : BEAM_NODES;
    return limit == 0 || s->result->nodes < HARD_KNAPSACKS * limit ? limit : ceil_div(limit, HARD_SHARE);
}

void stage_set_empty(const struct solver *s, struct cell *cell)
{
    struct stage_times caps = stage_caps(s);
    if (!stage_times_within(&caps, &cell->empty))
        cell->empty = caps;
}

bool stage_solve(struct solver *s, int level, int first, int end, enum effort effort)
{
    struct cell *cell = stage_cell(s, level, first, end);
    note_end(s);
    if (s->stopped)
        return true;
    if (!level_set_options(s, level))
        return fail_memory(s->err);
    struct knapsack knapsack = make_knapsack(s, level, first, end);
    struct knapsack_result answer = { .counts = s->scratch.counts };
    knapsack.node_limit = node_limit(s, effort);
    s->result->knapsacks++;
    if (!knapsack_solve(&knapsack, &answer, s->err))
        return false;
    s->result->nodes += effort == EFFORT_END ? answer.nodes : 0;
    int64_t before = cell->lower;
    if (!keep_answer(s, cell, level, first, end, &knapsack, &answer))
        return fail_memory(s->err);
    if (answer.status == KNAPSACK_INFEASIBLE)
        stage_set_empty(s, cell);
    look_up(s, cell, level, first, end);
    cell->effort = effort;
    cell->tried = true;
    cell->slope = answer.multipliers[ROW_PATH] + answer.multipliers[ROW_LAST] + answer.multipliers[ROW_LANE];
    cell->slope = ldexp(cell->slope, -TIE_BITS);
    if (answer.status == KNAPSACK_INFEASIBLE)
        vectors_single_row(&knapsack, answer.multipliers);
    bool tells = effort == EFFORT_RELAX && (cell->lower == INT64_MAX || cell->lower - before > before / 10000);
    return !tells || vectors_add(s, level, answer.multipliers) || fail_memory(s->err);
}

bool stage_solve_whole(struct solver *s, int level, int first, int end, enum effort effort, int *record)
{
    struct cell *cell = stage_cell(s, level, first, end);
    note_end(s);
    *record = -1;
    if (s->stopped || (cell->whole_tried && cell->whole_effort >= effort))
        return true;
    if (!level_set_options(s, level))
        return fail_memory(s->err);
    struct knapsack knapsack = make_knapsack(s, level, first, end);
    struct knapsack_result answer = { .counts = s->scratch.counts };
    knapsack.excess_cost = INT64_C(1) << TIE_BITS;
    knapsack.excess_first = ROW_PATH;
    vectors_whole_caps(s, level, knapsack.cap);
    knapsack.node_limit = node_limit(s, effort);
    s->result->knapsacks++;
    if (!knapsack_solve(&knapsack, &answer, s->err))
        return false;
    s->result->nodes += effort == EFFORT_END ? answer.nodes : 0;
    cell->whole_tried = true;
    cell->whole_effort = effort;
    cell->whole = max_i64(cell->whole, answer.bound == INT64_MAX ? NOTHING_FITS : answer.bound >> TIE_BITS);
    if (answer.cost == INT64_MAX)
        return true;
    if (!keep_answer(s, cell, level, first, end, &knapsack, &answer))
        return fail_memory(s->err);
    *record = cell->record_count - 1; /* new_record() fills the last place */
    bool tried = cell->tried;
    look_up(s, cell, level, first, end);
    cell->tried = tried;
    return true;
}
