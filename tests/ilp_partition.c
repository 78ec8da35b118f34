#include "tests/ilp_partition.h"
#include "base/num.h"
#include "planner/check/glpk_guard.h"
#include "planner/cut/partition_parts.h"
#include "tests/ilp.h"
#include <glpk.h>
#include <math.h>

enum { EXACT_BITS = 26 };

struct whole {
    const struct partition_problem *problem;
    struct arena *arena;
    glp_prob *lp;
    int layers, stages, classes, strategies;
    int *first_arc;   /* (stages + 1) column of the stage's first arc */
    int first_count;  /* column of n[stage, class, strategy] */
    int first_switch; /* column of b, likewise */
    int first_peak;   /* (stages) */
    int first_saved;  /* (stages) w */
    int longest;      /* Y */
    int forward;      /* X */
    int columns;
    int first_node; /* (stages - 1, layers - 1) rows: where a stage ends the next one begins */
    int rows;
    int *row, *column; /* of the matrix, from 1 */
    double *value;
    int filled, room;
    bool grew; /* out of memory */
    int time_limit_ms;
    double time_unit, byte_unit; /* GLPK sees multiples of them: numbers far from 1 mislead it */
    struct arena *kept;
    struct partition_plan plan;
    bool none; /* GLPK proved that nothing fits */
};

/* ---- where things stand ---- */

/* The k-th stage takes [first, end): what is before and behind leaves a layer for each other stage. */
static bool is_arc(const struct whole *w, int stage, int first, int end)
{
    return first >= stage && (stage > 0 || first == 0) && end > first && end <= w->layers - (w->stages - 1 - stage) &&
           (stage + 1 < w->stages || end == w->layers);
}

typedef void with_arc(struct whole *w, int stage, int first, int end, int column);
static void each_arc(struct whole *w, int stage, with_arc *body)
{
    int column = w->first_arc[stage];
    for (int first = 0; first < w->layers; first++)
        for (int end = first + 1; end <= w->layers; end++)
            if (is_arc(w, stage, first, end))
                body(w, stage, first, end, column++);
}

static int count_arcs(const struct whole *w, int stage)
{
    int count = 0;
    for (int first = 0; first < w->layers; first++)
        for (int end = first + 1; end <= w->layers; end++)
            count += is_arc(w, stage, first, end);
    return count;
}

static int option_at(const struct whole *w, int stage, int class_index, int strategy)
{
    return (stage * w->classes + class_index) * w->strategies + strategy;
}

static bool place_columns(struct whole *w)
{
    int options = w->stages * w->classes * w->strategies, at = 1;
    w->first_arc = arena_alloc(w->arena, (size_t)w->stages + 1, sizeof *w->first_arc);
    if (!w->first_arc)
        return false;
    for (int k = 0; k < w->stages; k++) {
        w->first_arc[k] = at;
        at += count_arcs(w, k);
    }
    w->first_arc[w->stages] = w->first_count = at;
    w->first_switch = w->first_count + options;
    w->first_peak = w->first_switch + options;
    w->first_saved = w->first_peak + w->stages;
    w->longest = w->first_saved + w->stages;
    w->forward = w->longest + 1;
    w->columns = w->forward;
    return true;
}

/* ---- stating ---- */

static void put(struct whole *w, int row, int column, double value)
{
    if (value == 0)
        return;
    if (w->filled + 1 >= w->room) {
        int room = w->room ? 2 * w->room : 4096;
        int *rows = arena_alloc(w->arena, (size_t)room, sizeof *rows),
            *columns = arena_alloc(w->arena, (size_t)room, sizeof *columns);
        double *values = arena_alloc(w->arena, (size_t)room, sizeof *values);
        w->grew = w->grew || !rows || !columns || !values;
        if (w->grew)
            return;
        for (int i = 1; i <= w->filled; i++)
            rows[i] = w->row[i], columns[i] = w->column[i], values[i] = w->value[i];
        w->row = rows, w->column = columns, w->value = values, w->room = room;
    }
    w->filled++;
    w->row[w->filled] = row;
    w->column[w->filled] = column;
    w->value[w->filled] = value;
}

static int add_row(struct whole *w, int kind, double low, double high)
{
    int row = glp_add_rows(w->lp, 1);
    glp_set_row_bnds(w->lp, row, kind, low, high);
    return row;
}

static void begin_arc(struct whole *w, int stage, int first, int end, int column)
{
    (void)stage, (void)first, (void)end;
    glp_set_col_kind(w->lp, column, GLP_BV);
}

/* One arc of the first stage; where an arc of a stage ends one of the next begins. */
static void join_arc(struct whole *w, int stage, int first, int end, int column)
{
    if (stage == 0)
        put(w, 1, column, 1);
    else
        put(w, w->first_node + (stage - 1) * w->layers + first, column, -1);
    if (stage + 1 < w->stages)
        put(w, w->first_node + stage * w->layers + end, column, 1);
}

static void state_flow(struct whole *w)
{
    add_row(w, GLP_FX, 1, 1);
    w->first_node = w->stages > 1 ? glp_add_rows(w->lp, (w->stages - 1) * w->layers) : 0;
    for (int i = 0; i < (w->stages - 1) * w->layers; i++)
        glp_set_row_bnds(w->lp, w->first_node + i, GLP_FX, 0, 0);
    for (int k = 0; k < w->stages; k++) {
        each_arc(w, k, begin_arc);
        each_arc(w, k, join_arc);
    }
}

/* w->rows: the rows of the stage's classes. */
static void count_arc(struct whole *w, int stage, int first, int end, int column)
{
    (void)stage;
    for (int c = 0; c < w->classes; c++) {
        int layers = 0;
        for (int l = first; l < end; l++)
            layers += w->problem->chain->class_of[l] == c;
        put(w, w->rows + c, column, -layers);
    }
}

static void state_counts(struct whole *w, int stage)
{
    w->rows = glp_add_rows(w->lp, w->classes);
    for (int c = 0; c < w->classes; c++) {
        glp_set_row_bnds(w->lp, w->rows + c, GLP_FX, 0, 0);
        for (int s = 0; s < w->strategies; s++) {
            int column = w->first_count + option_at(w, stage, c, s);
            glp_set_col_kind(w->lp, column, GLP_IV);
            glp_set_col_bnds(w->lp, column, GLP_DB, 0, w->layers);
            put(w, w->rows + c, column, 1);
        }
    }
    each_arc(w, stage, count_arc);
}

/* ROW_MEMORY with p - w, the others with -Y; ROW_FORWARD with -X, and the times that begin with it with X. */
static void state_limits(struct whole *w, int stage, const struct price_table *table)
{
    const struct partition_problem *problem = w->problem;
    int64_t m = problem->micro_batch_count, n = problem->in_flight[stage], row[ROW_COUNT];
    double after = -(double)((m - 1) * level_period_ns(table, n, m)) / w->time_unit;
    int first = glp_add_rows(w->lp, ROW_COUNT);
    for (int r = 0; r < ROW_COUNT; r++) {
        double most = r == ROW_LANE ? 0 : after;
        if (r == ROW_MEMORY)
            most = (double)(problem->capacity_bytes - table->base_bytes) / w->byte_unit;
        else if (r == ROW_FORWARD)
            most = 0, put(w, first + r, w->forward, -1);
        else
            put(w, first + r, w->longest, -1);
        glp_set_row_bnds(w->lp, first + r, GLP_UP, 0, most);
    }
    put(w, first + ROW_MEMORY, w->first_peak + stage, 1);
    put(w, first + ROW_MEMORY, w->first_saved + stage, -1);
    put(w, first + ROW_PATH, w->forward, 1);
    put(w, first + ROW_LAST, w->forward, 1);
    for (int c = 0; c < w->classes; c++)
        for (int s = 0; s < w->strategies; s++) {
            const struct layer_price *p = price_at(table, c, s);
            int column = w->first_count + option_at(w, stage, c, s);
            level_rows(row, p, m, n, false, problem->phases);
            glp_set_obj_coef(w->lp, column, (double)path_ns(p) / w->time_unit);
            for (int r = 0; r < ROW_COUNT; r++)
                put(w, first + r, column, (double)row[r] / (r == ROW_MEMORY ? w->byte_unit : w->time_unit));
        }
}

/* p >= peak b, n <= layers b. */
static void state_peaks(struct whole *w, int stage, const struct price_table *table)
{
    glp_set_col_bnds(w->lp, w->first_peak + stage, GLP_LO, 0, 0);
    for (int c = 0; c < w->classes; c++)
        for (int s = 0; s < w->strategies; s++) {
            int option = option_at(w, stage, c, s), of = w->first_switch + option;
            int peak = add_row(w, GLP_LO, 0, 0), used = add_row(w, GLP_UP, 0, 0);
            glp_set_col_kind(w->lp, of, GLP_BV);
            put(w, peak, w->first_peak + stage, 1);
            put(w, peak, of, -(double)price_at(table, c, s)->transient_bytes / w->byte_unit);
            put(w, used, w->first_count + option, 1);
            put(w, used, of, -w->layers);
        }
}

/* w->rows: the row that lets w be more than 0. */
static void save_arc(struct whole *w, int stage, int first, int end, int column)
{
    const struct price_table *table = price_of_stage(w->problem->table, stage);
    int64_t most = 0;
    if (!chain_holds_both(w->problem->chain, first, end))
        return;
    for (int i = 0; i < w->classes * w->strategies; i++)
        most = max_i64(most, table->prices[i].tied_bytes);
    put(w, w->rows, column, -(double)(most * w->layers) / w->byte_unit);
}

static void state_tied(struct whole *w, int stage, const struct price_table *table)
{
    int bytes = add_row(w, GLP_UP, 0, 0);
    w->rows = add_row(w, GLP_UP, 0, 0);
    glp_set_col_bnds(w->lp, w->first_saved + stage, GLP_LO, 0, 0);
    put(w, bytes, w->first_saved + stage, 1);
    put(w, w->rows, w->first_saved + stage, 1);
    for (int c = 0; c < w->classes; c++)
        for (int s = 0; s < w->strategies; s++)
            put(w, bytes, w->first_count + option_at(w, stage, c, s),
                -(double)price_at(table, c, s)->tied_bytes / w->byte_unit);
    each_arc(w, stage, save_arc);
}

/* The largest numbers of the rows become UNITS. */
static void set_units(struct whole *w)
{
    enum { UNITS = 1000 };
    double largest[2] = { UNITS, UNITS };
    for (int k = 0; k < w->stages; k++) {
        const struct price_table *table = price_of_stage(w->problem->table, k);
        for (int i = 0; i < w->classes * w->strategies; i++) {
            int64_t row[ROW_COUNT];
            level_rows(row, &table->prices[i], w->problem->micro_batch_count, w->problem->in_flight[k], false,
                       w->problem->phases);
            for (int r = 0; r < ROW_COUNT; r++)
                largest[r == ROW_MEMORY] = fmax(largest[r == ROW_MEMORY], fabs((double)row[r]));
        }
    }
    w->time_unit = largest[0] / UNITS;
    w->byte_unit = largest[1] / UNITS;
}

static bool state(struct whole *w)
{
    set_units(w);
    glp_set_obj_dir(w->lp, GLP_MIN);
    glp_add_cols(w->lp, w->columns);
    state_flow(w);
    for (int k = 0; k < w->stages; k++) {
        const struct price_table *table = price_of_stage(w->problem->table, k);
        state_counts(w, k);
        state_limits(w, k, table);
        state_peaks(w, k, table);
        state_tied(w, k, table);
    }
    glp_set_col_bnds(w->lp, w->longest, GLP_FR, 0, 0);
    glp_set_col_bnds(w->lp, w->forward, GLP_LO, 0, 0);
    glp_set_obj_coef(w->lp, w->longest, 1);
    if (!w->grew)
        glp_load_matrix(w->lp, w->filled, w->row, w->column, w->value);
    return !w->grew;
}

/* ---- solving ---- */

static void read_arc(struct whole *w, int stage, int first, int end, int column)
{
    (void)end;
    if (glp_mip_col_val(w->lp, column) > 0.5)
        w->plan.first_layer[stage] = first;
}

static bool read_plan(struct whole *w)
{
    int options = w->stages * w->classes * w->strategies;
    w->plan.first_layer = arena_alloc(w->kept, (size_t)w->stages, sizeof *w->plan.first_layer);
    int *count = arena_alloc(w->arena, (size_t)options, sizeof *count);
    if (!w->plan.first_layer || !count)
        return false;
    for (int k = 0; k < w->stages; k++)
        each_arc(w, k, read_arc);
    for (int i = 0; i < options; i++)
        count[i] = (int)lround(glp_mip_col_val(w->lp, w->first_count + i));
    if (!partition_set_counts(&w->plan, w->kept, count, w->stages, w->classes * w->strategies))
        return false;
    w->plan.step_ns = partition_evaluate(w->problem, &w->plan);
    return true;
}

static bool solve(void *context, struct error *err)
{
    struct whole *w = context;
    w->lp = glp_create_prob();
    bool good = state(w) || fail_memory(err);
    int code = good ? ilp_branch_and_cut(w->lp, w->time_limit_ms) : 0,
        status = good ? glp_mip_status(w->lp) : GLP_UNDEF;
    w->none = code == GLP_ENOPFS || code == GLP_ENODFS || (code == 0 && status == GLP_NOFEAS);
    if (good && code == 0 && status == GLP_OPT)
        good = read_plan(w) || fail_memory(err);
    else if (good && !w->none && code != GLP_ETMLIM && code != GLP_EMIPGAP)
        good = fail_kind(err, ERROR_BUG, "GLPK ended with code %d and status %d", code, status);
    glp_delete_prob(w->lp);
    return good;
}

/* Doubles hold integers up to some size to the last unit. */
static int64_t proven_bound(int64_t step_ns)
{
    return step_ns < INT64_C(1) << EXACT_BITS ? step_ns : step_ns - step_ns / 1000000000 - 1;
}

/* Without a plan below below_ns that is the bound, as partition_solve() has it. */
static void answer(const struct whole *w, struct partition_result *result, bool *proven)
{
    int64_t below_ns = w->problem->below_ns;
    *proven = w->none || (w->plan.counts && w->plan.step_ns < INT64_MAX);
    if (!*proven)
        return;
    *result = (struct partition_result){ .bound_ns = below_ns };
    if (w->none)
        return;
    result->bound_ns = min_i64(proven_bound(w->plan.step_ns), below_ns);
    result->feasible = w->plan.step_ns < below_ns;
    result->plan_count = result->feasible;
    result->plans[0] = w->plan;
}

bool ilp_partition(const struct partition_problem *problem, int time_limit_ms, struct arena *arena,
                   struct partition_result *result, bool *proven, struct error *err)
{
    struct arena scratch = { 0 };
    struct whole w = { .problem = problem,
                       .arena = &scratch,
                       .kept = arena,
                       .layers = problem->chain->layer_count,
                       .stages = problem->stage_count,
                       .classes = problem->table->class_count,
                       .strategies = problem->table->strategy_count,
                       .time_limit_ms = time_limit_ms };
    *proven = false;
    bool good = place_columns(&w) || fail_memory(err);
    if (good && w.first_count <= ILP_ARCS) {
        good = glpk_guard(solve, &w, err);
        if (good)
            answer(&w, result, proven);
    }
    arena_free(&scratch);
    return good;
}
