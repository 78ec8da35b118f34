/* Single stages of the partition. A stage that is on no best cut is only bounded: for fixed multipliers the Lagrangian
 * bound is a sum over its layers, so that prefix sums give it for every interval. Multipliers come from the stages that
 * were solved. Transient bytes are binned: options up to a bin's upper end, charged for its lower end. */
#include "base/num.h"
#include "planner/search/partition_parts.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* HARD_KNAPSACKS: so many times node_limit nodes, then each knapsack gets a quarter of it. RAY_BITS: of a layer's
 * largest price, in nanoseconds, where nothing fits. */
enum { HARD_KNAPSACKS = 4, HARD_SHARE = 4, MULTIPLIER_BITS = 30, BEAM_NODES = 2, RAY_BITS = 36, DIGITS = 52 };
__extension__ typedef __int128 int128;

/* ---- bounds ---- */

static void set_caps(const struct solver *s, int level, int64_t *cap)
{
    int64_t waiting_ns = level_waiting_ns(s, level);
    cap[ROW_MEMORY] = s->problem->capacity_bytes - s->tables[level]->base_bytes;
    cap[ROW_FORWARD] = s->span.to_ns;
    cap[ROW_PATH] = s->cap_ns - waiting_ns;
    cap[ROW_LAST] = s->cap_ns - waiting_ns;
    cap[ROW_LANE] = s->cap_ns;
}

static int64_t price_limited(int128 value)
{
    int128 limit = (int128)1 << 60;
    value >>= MULTIPLIER_BITS + TIE_BITS - VECTOR_SUM_BITS;
    return (int64_t)(value > limit ? limit : value < -limit ? -limit : value);
}

static void set_cap_part(const struct solver *s, struct vector *v, int level)
{
    int64_t cap[ROW_COUNT];
    int128 total = 0;
    set_caps(s, level, cap);
    for (int r = 0; r < ROW_COUNT; r++)
        total += (int128)v->multiplier[r] * cap[r];
    v->cap_part = price_limited(total) + 1;
}

void stage_cap_changed(struct solver *s)
{
    for (int level = 0; level < s->level_count; level++)
        for (int v = 0; v < s->vectors[level].count; v++)
            set_cap_part(s, &s->vectors[level].at[v], level);
}

/* In 2^-VECTOR_SUM_BITS nanoseconds, rounded down. */
static int64_t priced(const struct vector *v, const struct knapsack_option *option)
{
    int128 price = (int128)option->cost * (INT64_C(1) << MULTIPLIER_BITS);
    for (int r = 0; r < ROW_COUNT; r++)
        price += (int128)v->multiplier[r] * option->row[r];
    return price_limited(price);
}

/* Of a class: index of the layout's first. */
static int first_option(const struct solver *s, int layout)
{
    return s->layouts > 1 ? s->problem->table->layout_first[layout] : layout * s->strategies;
}

/* Least price of a class in every bin, in 2^-VECTOR_SUM_BITS nanoseconds, rounded down. */
static void least_prices(const struct solver *s, const struct vector *v, int level, int class_index, int layout,
                         int64_t *out)
{
    const struct knapsack_option *options = &s->options[2 * level + 1][class_index * s->strategies];
    const int64_t limit = INT64_C(1) << 48; /* lower is still a bound; a sum over layers stays well inside 64 bits */
    for (int b = 0; b < BINS; b++)
        out[b] = limit;
    for (int i = first_option(s, layout); i < first_option(s, layout + 1); i++) {
        int64_t rounded = priced(v, &options[i]);
        for (int b = 0; b < BINS; b++)
            if (options[i].peak <= s->bin_peak[b + 1])
                out[b] = min_i64(out[b], rounded);
    }
}

static bool set_handover_sums(struct solver *s, struct vector *v, int level)
{
    int count = s->classes * s->layouts * s->layouts;
    if (!v->handover)
        v->handover = arena_alloc(s->arena, (size_t)count, sizeof *v->handover);
    for (int i = 0; v->handover && i < count; i++)
        v->handover[i] = priced(v, &s->handovers[level][i]);
    return v->handover != NULL;
}

static bool set_sums(struct solver *s, struct vector *v, int level)
{
    const struct chain *chain = s->problem->chain;
    if (!v->sum)
        v->sum = arena_alloc(s->arena, (size_t)s->layouts * BINS * (size_t)s->sums, sizeof *v->sum);
    if (!v->sum || (s->layouts > 1 && !set_handover_sums(s, v, level)))
        return false;
    for (int b = 0; b < BINS; b++)
        v->peak_part[b] = price_limited((int128)v->multiplier[ROW_MEMORY] * max_i64(s->bin_peak[b], 0));
    for (int layout = 0; layout < s->layouts; layout++) {
        int64_t *sum = &v->sum[layout * s->sums * BINS];
        for (int c = 0; c < s->classes; c++)
            least_prices(s, v, level, c, layout, &s->class_price[c * BINS]);
        for (int at = 1; at < s->sums; at++) {
            int layer = chain_sum_layer(chain, at);
            for (int b = 0; b < BINS; b++)
                sum[at * BINS + b] =
                    layer < 0 ? 0 : sum[(at - 1) * BINS + b] + s->class_price[chain->class_of[layer] * BINS + b];
        }
    }
    return true;
}

/* The same of a chain with branches, where a place's sums are those of the towers. */
static int64_t vector_bound_of_branches(const struct solver *s, const struct vector *v, int first, int end)
{
    const struct branches *b = s->problem->chain->branches;
    int64_t price[BINS], least = INT64_MAX;
    memcpy(price, v->peak_part, sizeof price);
    for (int t = 0; t < b->tower_count; t++) {
        const int64_t *low = &v->sum[(b->tower_first[t] + branches_at(b, first, t)) * BINS],
                      *high = &v->sum[(b->tower_first[t] + branches_at(b, end, t)) * BINS];
        for (int i = 0; i < BINS; i++)
            price[i] += high[i] - low[i];
    }
    for (int i = 0; i < BINS; i++)
        least = min_i64(least, price[i]);
    return (least - v->cap_part) >> VECTOR_SUM_BITS;
}

/* A bound of C from one vector. */
int64_t stage_vector_bound(const struct solver *s, const struct vector *v, const struct stage_runs *runs)
{
    const struct chain *chain = s->problem->chain;
    int64_t least = INT64_MAX, handovers = 0;
    if (chain->branches)
        return vector_bound_of_branches(s, v, runs->first[0], runs->end);
    for (int i = 1; i < runs->count; i++)
        handovers += v->handover[(chain->class_of[runs->first[i] - 1] * s->layouts + runs->layout[i - 1]) * s->layouts +
                                 runs->layout[i]];
    for (int b = 0; b < BINS; b++) {
        int64_t price = v->peak_part[b] + handovers;
        for (int i = 0; i < runs->count; i++) {
            const int64_t *sum = &v->sum[runs->layout[i] * s->sums * BINS + b];
            price += sum[stage_run_end(runs, i) * BINS] - sum[runs->first[i] * BINS];
        }
        least = min_i64(least, price);
    }
    return (least - v->cap_part) >> VECTOR_SUM_BITS;
}

/* The best bound of the vectors that came after the first `seen` of the level, and are still there. No more than
 * `enough` is asked for. */
static int64_t quick_bound(const struct solver *s, int level, const struct stage_runs *runs, int seen, int64_t enough)
{
    const struct vectors *vectors = &s->vectors[level];
    int64_t bound = runs_least_path(s, level, runs),
            most = chain_between(s->problem->chain, s->most_path_ns, runs->first[0], runs->end) +
                   runs_handover_path(s, runs);
    for (int i = (int)max_i64(seen, vectors->total - vectors->count); i < vectors->total && bound < enough; i++)
        bound = max_i64(bound, stage_vector_bound(s, &vectors->at[i % VECTORS], runs));
    return bound > most ? INT64_MAX : bound; /* no choice is so long */
}

static bool put_vector(struct solver *s, int level, const int64_t multiplier[ROW_COUNT])
{
    struct vectors *vectors = &s->vectors[level];
    struct vector *v = &vectors->at[vectors->next];
    memcpy(v->multiplier, multiplier, sizeof v->multiplier);
    if (!set_sums(s, v, level))
        return false;
    set_cap_part(s, v, level);
    vectors->next = (vectors->next + 1) % VECTORS;
    vectors->total++;
    vectors->count = (int)max_i64(vectors->count, vectors->next == 0 ? VECTORS : vectors->next);
    return true;
}

static int64_t multiplier_of(double multiplier)
{
    return (int64_t)fmin(fmax(ldexp(multiplier, MULTIPLIER_BITS), 0), 0x1p60);
}

/* Where nothing fits multipliers grow without limit; all are scaled down together, so that they still say the same of
 * like stages and no price meets the limit of its sums. */
static double ray_scale(const struct solver *s, int level, const double *multipliers)
{
    const struct knapsack_option *options = s->options[2 * level + 1];
    double largest = 0;
    for (int i = 0; i < s->classes * s->strategies; i++) {
        double price = 0;
        for (int r = 0; r < ROW_COUNT; r++)
            price += fmax(multipliers[r], 0) * fabs((double)options[i].row[r]);
        largest = fmax(largest, price);
    }
    return fmin(1, ldexp(1, RAY_BITS + TIE_BITS) / fmax(largest, 1));
}

/* Where already the least of one row is too much, nothing was relaxed: then that row alone is the vector. */
static void single_row(const struct knapsack *knapsack, double *multipliers)
{
    for (int r = 0; r < ROW_COUNT; r++)
        if (multipliers[r] > 0)
            return;
    for (int r = 0; r < ROW_COUNT; r++) {
        double least = 0, peak = INFINITY;
        for (int g = 0; g < knapsack->group_count; g++) {
            const struct knapsack_group *group = &knapsack->groups[g];
            int64_t row = INT64_MAX;
            for (int i = 0; i < group->option_count; i++) {
                row = min_i64(row, group->options[i].row[r]);
                peak = fmin(peak, (double)group->options[i].peak);
            }
            least += (double)group->count * (double)row;
        }
        if (least + (r == ROW_MEMORY ? peak : 0) > (double)knapsack->cap[r])
            multipliers[r] = 0x1p60; /* ray_scale() makes it smaller */
    }
}

/* A vector that a relaxation ended with. Levels that have none yet take it as well. */
static bool add_vector(struct solver *s, int level, const double *multipliers)
{
    int64_t multiplier[ROW_COUNT];
    double scale = ray_scale(s, level, multipliers), most = 0;
    for (int r = 0; r < ROW_COUNT; r++)
        most = fmax(most, multipliers[r]);
    scale = fmin(scale, ldexp(1, DIGITS - MULTIPLIER_BITS) / fmax(most, 1));
    for (int r = 0; r < ROW_COUNT; r++)
        multiplier[r] = multiplier_of(multipliers[r] * scale);
    for (int to = 0; to < s->level_count; to++)
        if (s->cells[to] && (to == level || s->vectors[to].count == 0 || s->vectors_only) &&
            !put_vector(s, to, multiplier))
            return false;
    s->vector_level = level;
    return true;
}

static bool open_level(struct solver *s, int level)
{
    if (s->cells[level])
        return true;
    size_t chunks = (size_t)s->problem->chain->interval_count * (size_t)s->layouts / CHUNK_CELLS + 1;
    s->cells[level] = arena_alloc(s->arena, chunks, sizeof **s->cells);
    if (!s->cells[level] || !stage_set_options(s, level))
        return false;
    const struct vectors *known = s->vector_level >= 0 ? &s->vectors[s->vector_level] : NULL;
    for (int v = 0; known && v < known->count; v++)
        if (!put_vector(s, level, known->at[v].multiplier))
            return false;
    return true;
}

/* ---- cells ---- */

/* What the records say at the present cap. */
static void look_up(struct solver *s, struct cell *cell, int level, const struct stage_runs *runs)
{
    const struct stage_times caps = stage_caps(s);
    bool empty = stage_times_within(&caps, &cell->empty) && !s->vectors_only;
    cell->caps = caps;
    cell->tried = false;
    cell->solution = -1;
    cell->seen = s->vectors[level].total;
    cell->lower = empty ? INT64_MAX : quick_bound(s, level, runs, 0, INT64_MAX);
    if (s->vectors_only)
        return;
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
}

/* What vectors say that came since. */
static void look_again(struct solver *s, struct cell *cell, int level, const struct stage_runs *runs)
{
    if (cell->lower < INT64_MAX)
        cell->lower = max_i64(cell->lower, quick_bound(s, level, runs, cell->seen, INT64_MAX));
    if (cell->solution >= 0)
        cell->lower = min_i64(cell->lower, cell->records[cell->solution].path);
    cell->seen = s->vectors[level].total;
}

static const struct stage_times nothing = { INT64_MIN, INT64_MIN, INT64_MIN };

static struct cell *new_cell(struct solver *s)
{
    struct cell *cell = arena_alloc(s->arena, 1, sizeof *cell);
    if (cell)
        *cell = (struct cell){ .empty = nothing, .caps = nothing, .solution = -1 };
    return cell;
}

/* Of one run; NULL: out of memory. */
static struct cell *find_cell(struct solver *s, int level, const struct stage_runs *runs)
{
    int interval = chain_interval(s->problem->chain, runs->first[0], runs->end),
        index = interval * s->layouts + runs->layout[0];
    struct cell_chunk **chunk = &s->cells[level][index / CHUNK_CELLS];
    if (!*chunk && !(*chunk = arena_alloc(s->arena, 1, sizeof **chunk)))
        return NULL;
    struct cell **cell = &(*chunk)->at[index % CHUNK_CELLS];
    if (!*cell)
        *cell = new_cell(s);
    return *cell;
}

/* Stages of several runs, or of any layers, are too many to be numbered: they have a cell once one is asked for. */
static bool is_keyed(const struct solver *s, const struct stage_runs *runs)
{
    return runs->count > 1 || s->problem->chain->branches;
}

/* NULL: out of memory. */
static struct cell *find_keyed_cell(struct solver *s, int level, const struct stage_runs *runs)
{
    struct cell *cell = runs_cell(s, level, runs);
    if (!cell && (cell = new_cell(s)) && !runs_put_cell(s, level, runs, cell))
        cell = NULL;
    return cell;
}

static bool same_caps(const struct solver *s, const struct cell *cell)
{
    return cell->caps.lane_ns == s->cap_ns && cell->caps.rest_ns == s->cap_ns - s->span.from_ns &&
           cell->caps.forward_ns == s->span.to_ns;
}

struct cell *stage_cell(struct solver *s, int level, const struct stage_runs *runs)
{
    if (!s->cells[level] && !open_level(s, level))
        return NULL;
    struct cell *cell = is_keyed(s, runs) ? find_keyed_cell(s, level, runs) : find_cell(s, level, runs);
    if (cell && !same_caps(s, cell))
        look_up(s, cell, level, runs);
    else if (cell && cell->seen != s->vectors[level].total)
        look_again(s, cell, level, runs);
    return cell;
}

bool stage_known(struct solver *s, int level, const struct stage_runs *runs, int64_t enough, struct cell **cell,
                 int64_t *lower)
{
    if (!s->cells[level] && !open_level(s, level))
        return false;
    bool none = is_keyed(s, runs) && !runs_cell(s, level, runs);
    *cell = none ? NULL : stage_cell(s, level, runs);
    *lower = *cell ? (*cell)->lower : none ? quick_bound(s, level, runs, 0, enough) : 0;
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

static void count_classes(struct solver *s, const struct stage_runs *runs)
{
    const struct chain *chain = s->problem->chain;
    memset(s->class_count, 0, (size_t)(s->classes * s->layouts) * sizeof *s->class_count);
    for (int l = 0; chain->branches && l < s->layers; l++)
        s->class_count[chain->class_of[l]] += chain_holds(chain, runs->first[0], runs->end, l);
    for (int i = 0; !chain->branches && i < runs->count; i++)
        for (int l = runs->first[i]; l < stage_run_end(runs, i); l++)
            s->class_count[runs->layout[i] * s->classes + chain->class_of[l]]++;
}

/* A group for the layers of each class and layout, and one for each handover, which has no choice. */
static struct knapsack make_knapsack(struct solver *s, int level, const struct stage_runs *runs)
{
    const struct chain *chain = s->problem->chain;
    int groups = 0;
    const struct knapsack_option *options = s->options[2 * level + chain_holds_both(chain, runs->first[0], runs->end)];
    count_classes(s, runs);
    for (int i = 0; i < s->classes * s->layouts; i++) {
        int layout = i / s->classes, first = i % s->classes * s->strategies + first_option(s, layout);
        if (s->class_count[i] == 0)
            continue;
        s->group_first[groups] = first;
        s->groups[groups++] =
            (struct knapsack_group){ .count = s->class_count[i],
                                     .option_count = first_option(s, layout + 1) - first_option(s, layout),
                                     .options = &options[first] };
    }
    for (int i = 1; i < runs->count; i++) {
        int from = chain->class_of[runs->first[i] - 1] * s->layouts + runs->layout[i - 1];
        s->group_first[groups] = -1;
        s->groups[groups++] = (struct knapsack_group){
            .count = 1, .option_count = 1, .options = &s->handovers[level][from * s->layouts + runs->layout[i]]
        };
    }
    struct knapsack knapsack = { .group_count = groups,
                                 .row_count = ROW_COUNT,
                                 .groups = s->groups,
                                 .tie_bits = TIE_BITS,
                                 .gap_ppm = s->problem->gap_ppm };
    set_caps(s, level, knapsack.cap);
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

/* C and times of the record's solution. */
static void set_values(const struct solver *s, struct record *record, int level, const struct stage_runs *runs)
{
    const struct chain *chain = s->problem->chain;
    struct stage_place place = { s->tables[level], s->micro_batches[level], s->in_flight[level] };
    struct stage_sums sums = stage_sum(&place, s->span.apart, chain, runs, record->count);
    record->path = sums.path_ns;
    record->rows = sums.times;
    record->times = stage_sum(&place, s->problem->phases, chain, runs, record->count).times;
}

static bool keep_answer(struct solver *s, struct cell *cell, int level, const struct stage_runs *runs,
                        const struct knapsack *knapsack, const struct knapsack_result *answer)
{
    size_t size = (size_t)(s->classes * s->strategies);
    struct record *record = new_record(s, cell);
    if (!record)
        return false;
    int *count = record->count;
    bool whole = knapsack->excess_cost > 0; /* proves nothing of C alone */
    *record = (struct record){ .asked = whole ? nothing : stage_caps(s), .path = INT64_MAX, .count = count };
    record->lower = answer->bound == INT64_MAX ? INT64_MAX : max_i64(answer->bound, 0) >> TIE_BITS;
    if (answer->cost == INT64_MAX)
        return true;
    if (!record->count)
        record->count = arena_alloc(s->arena, size, sizeof *record->count);
    if (!record->count)
        return false;
    memset(record->count, 0, size * sizeof *record->count);
    for (int g = 0, at = 0; g < knapsack->group_count; at += knapsack->groups[g++].option_count)
        if (s->group_first[g] >= 0)
            memcpy(&record->count[s->group_first[g]], &answer->counts[at],
                   (size_t)knapsack->groups[g].option_count * sizeof(int));
    set_values(s, record, level, runs);
    return true;
}

static bool solve_knapsack(struct solver *s, const struct knapsack *knapsack, enum effort effort,
                           struct knapsack_result *answer)
{
    const struct solver_method *method = s->problem->solver ? s->problem->solver : solvers[0];
    s->result->knapsacks++;
    return effort == EFFORT_END ? method->solve(knapsack, answer, s->err) : knapsack_solve(knapsack, answer, s->err);
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

bool stage_solve(struct solver *s, int level, const struct stage_runs *runs, enum effort effort)
{
    struct cell *cell = stage_cell(s, level, runs);
    s->stopped = s->stopped || (s->problem->stops && s->problem->stops(s->problem->self));
    if (s->stopped)
        return true;
    struct knapsack knapsack = make_knapsack(s, level, runs);
    struct knapsack_result answer = { .counts = s->counts };
    knapsack.node_limit = node_limit(s, effort);
    if (!solve_knapsack(s, &knapsack, effort, &answer))
        return false;
    s->result->nodes += effort == EFFORT_END ? answer.nodes : 0;
    int64_t before = cell->lower;
    if (!keep_answer(s, cell, level, runs, &knapsack, &answer))
        return fail_kind(s->err, ERROR_ENVIRONMENT, "search: out of memory");
    if (answer.status == KNAPSACK_INFEASIBLE)
        stage_set_empty(s, cell);
    look_up(s, cell, level, runs);
    cell->effort = effort;
    cell->tried = true;
    cell->slope = answer.multipliers[ROW_PATH] + answer.multipliers[ROW_LAST] + answer.multipliers[ROW_LANE];
    cell->slope = ldexp(cell->slope, -TIE_BITS);
    if (answer.status == KNAPSACK_INFEASIBLE)
        single_row(&knapsack, answer.multipliers);
    int64_t now = s->vectors_only ? cell->records[cell->record_count - 1].lower : cell->lower;
    bool tells = effort == EFFORT_RELAX && (now == INT64_MAX || now - before > before / 10000);
    return !tells || add_vector(s, level, answer.multipliers) ||
           fail_kind(s->err, ERROR_ENVIRONMENT, "search: out of memory");
}

/* Y counts from nothing. */
static void set_whole_caps(const struct solver *s, int level, int64_t *cap)
{
    set_caps(s, level, cap);
    cap[ROW_PATH] = cap[ROW_LAST] = -level_waiting_ns(s, level);
    cap[ROW_LANE] = 0;
}

/* Y is the largest of three: shares of them that sum up to no more than 1 bound it. */
bool stage_whole_vector(struct solver *s, int level, struct vector *out)
{
    int64_t cap[ROW_COUNT], left = INT64_C(1) << (TIE_BITS + MULTIPLIER_BITS);
    int128 total = 0;
    out->multiplier[ROW_MEMORY] = multiplier_of(s->whole_multipliers[ROW_MEMORY]);
    out->multiplier[ROW_FORWARD] = multiplier_of(s->whole_multipliers[ROW_FORWARD]);
    for (int r = ROW_PATH; r < ROW_COUNT; r++) {
        out->multiplier[r] = min_i64(multiplier_of(s->whole_multipliers[r]), left);
        left -= out->multiplier[r];
    }
    set_whole_caps(s, level, cap);
    for (int r = 0; r < ROW_COUNT; r++)
        total += (int128)out->multiplier[r] * cap[r];
    out->cap_part = price_limited(total) + 1;
    return set_sums(s, out, level);
}

bool stage_keep_whole_vector(struct solver *s, int level)
{
    struct vectors *vectors = &s->whole_vectors[level];
    if (!stage_whole_vector(s, level, &vectors->at[vectors->next]))
        return false;
    vectors->next = (vectors->next + 1) % VECTORS;
    vectors->count = vectors->count < VECTORS ? vectors->count + 1 : VECTORS;
    return true;
}

int64_t stage_whole_bound(const struct solver *s, int level, const struct stage_runs *runs)
{
    int64_t bound = 0;
    for (int v = 0; v < s->whole_vectors[level].count; v++)
        bound = max_i64(bound, stage_vector_bound(s, &s->whole_vectors[level].at[v], runs));
    return bound;
}

bool stage_solve_whole(struct solver *s, int level, const struct stage_runs *runs, enum effort effort, int *record)
{
    struct cell *cell = stage_cell(s, level, runs);
    s->stopped = s->stopped || (s->problem->stops && s->problem->stops(s->problem->self));
    *record = -1;
    if (s->stopped || (cell->whole_tried && cell->whole_effort >= effort))
        return true;
    struct knapsack knapsack = make_knapsack(s, level, runs);
    struct knapsack_result answer = { .counts = s->counts };
    knapsack.excess_cost = INT64_C(1) << TIE_BITS;
    knapsack.excess_first = ROW_PATH;
    set_whole_caps(s, level, knapsack.cap);
    knapsack.node_limit = node_limit(s, effort);
    if (!solve_knapsack(s, &knapsack, effort, &answer))
        return false;
    s->result->nodes += effort == EFFORT_END ? answer.nodes : 0;
    memcpy(s->whole_multipliers, answer.multipliers, sizeof s->whole_multipliers);
    cell->whole_tried = true;
    cell->whole_effort = effort;
    cell->whole = max_i64(cell->whole, answer.bound == INT64_MAX ? NOTHING_FITS : answer.bound >> TIE_BITS);
    if (answer.cost == INT64_MAX)
        return true;
    if (!keep_answer(s, cell, level, runs, &knapsack, &answer))
        return fail_kind(s->err, ERROR_ENVIRONMENT, "search: out of memory");
    *record = cell->record_count - 1; /* new_record() fills the last place */
    bool tried = cell->tried;
    look_up(s, cell, level, runs);
    cell->tried = tried;
    return true;
}
