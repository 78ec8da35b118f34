#include "planner/bound/passes_mix.h"
#include "planner/knapsack/glpk_guard.h"
#include <glpk.h>
#include <math.h>
#include <string.h>

/* Columns of the program: the lane, a step for each kind, moments, paths. Rows: the shares of paths and lane, and one
 * for each piece, kind and choice. */
enum { LANE_COLUMN = 1, FIRST_STEP, SHARE_ROW = 1, FIRST_ROW };
/* MOST_WEIGHT: of a moment, in units. */
enum { MOST_PIVOTS = 2000, PIVOT_WORK = 200, FEW_PIECES = 32, MOST_WEIGHT = 64 };
/* The judge is asked again when the program knows so much more. */
static const double NEXT_SHARE = 0.002;

struct mixer {
    const struct mix_problem *p;
    const struct passes *passes;
    struct arena *arena;
    glp_prob *program;
    int rows, moment_count, path_count;
    struct mix_moment *moments;
    struct mix_path *paths; /* (rounds + stages + 2) */
    int *column;            /* of each path */
    double *take, *center;  /* (rows) shares of each kind's layers: where to look next; the best place known */
    double best;            /* the step there; INFINITY: no place is known */
    double *end;            /* (passes) */
    int *by;                /* (passes) the one that each waits for longest */
    struct mix_choice *of;  /* (pieces) what is taken there */
    int *kept, *put_off;    /* (pieces) micro-batches that a stage holds of each of its own */
    int *index;             /* (rows + 2) of one column */
    double *value;
    int length;
};

static const struct mix_choice *choice_of(const struct mixer *m, int row)
{
    return &m->p->choice[row % (m->p->kinds * m->p->choices)];
}

static int piece_of(const struct mixer *m, int row)
{
    return row / (m->p->kinds * m->p->choices);
}

static int kind_of(const struct mixer *m, int row)
{
    return row / m->p->choices % m->p->kinds;
}

/* ---- moments ---- */

static void hold(struct mixer *m, const struct pass *pass)
{
    m->kept[pass->piece] += (pass->kind == ACTION_FORWARD) - pass_is_input(pass);
    m->put_off[pass->piece] += (pass->kind == ACTION_BACKWARD_INPUT) - (pass->kind == ACTION_BACKWARD_WEIGHT);
}

static void hold_nothing(struct mixer *m)
{
    memset(m->kept, 0, (size_t)m->passes->pieces * sizeof *m->kept);
    memset(m->put_off, 0, (size_t)m->passes->pieces * sizeof *m->put_off);
}

/* Of all kinds, decided in the first way. */
static double held(const struct mixer *m, int piece)
{
    double sum = 0;
    for (int kind = 0; kind < m->p->kinds; kind++) {
        const struct mix_choice *first = &m->p->choice[kind * m->p->choices];
        sum += m->kept[piece] * first->kept + m->put_off[piece] * first->put_off;
    }
    return sum;
}

static void add_moment(struct mixer *m, int stage, int done)
{
    bool known = done == 0;
    for (int i = 0; i < m->moment_count; i++)
        known = known || (m->moments[i].stage == stage && m->moments[i].done == done);
    if (!known)
        m->moments[m->moment_count++] = (struct mix_moment){ stage, done, 0 };
}

/* When the stage holds most of each of its pieces, and of all together. */
static bool add_moments_of(struct mixer *m, int stage)
{
    const struct passes *p = m->passes;
    double *most = arena_alloc(m->arena, (size_t)p->pieces + 1, sizeof *most), all = 0;
    int *when = arena_alloc(m->arena, (size_t)p->pieces + 1, sizeof *when), first = p->first[stage];
    if (!most || !when)
        return false;
    hold_nothing(m);
    for (int i = first; i < p->first[stage + 1]; i++) {
        int piece = p->pass[i].piece;
        all -= held(m, piece);
        hold(m, &p->pass[i]);
        double now = held(m, piece);
        all += now;
        if (now > most[piece]) {
            most[piece] = now;
            when[piece] = i - first + 1;
        }
        if (all > most[p->pieces]) {
            most[p->pieces] = all;
            when[p->pieces] = i - first + 1;
        }
    }
    for (int q = 0; q <= p->pieces; q++)
        add_moment(m, stage, when[q]);
    return true;
}

static bool add_moments(struct mixer *m)
{
    for (int k = 0; m->p->choices > 1 && k < m->passes->stages; k++)
        if (!add_moments_of(m, k))
            return false;
    return true;
}

/* ---- columns ---- */

static void set_value(struct mixer *m, int row, double value)
{
    if (value == 0)
        return;
    m->index[++m->length] = row;
    m->value[m->length] = value;
}

static void set_column(struct mixer *m, int column)
{
    glp_set_mat_col(m->program, column, m->length, m->index, m->value);
    m->length = 0;
}

static bool set_moment(struct mixer *m, int which)
{
    const struct mix_moment *moment = &m->moments[which];
    const struct passes *p = m->passes;
    bool *here = arena_alloc(m->arena, (size_t)p->pieces, sizeof *here);
    if (!here)
        return false;
    hold_nothing(m);
    for (int i = p->first[moment->stage]; i < p->first[moment->stage + 1]; i++) {
        here[p->pass[i].piece] = true;
        if (i < p->first[moment->stage] + moment->done)
            hold(m, &p->pass[i]);
    }
    for (int row = 0; row < m->rows; row++) {
        const struct mix_choice *choice = choice_of(m, row);
        int q = piece_of(m, row);
        if (here[q])
            set_value(m, FIRST_ROW + row,
                      choice->resident + m->kept[q] * choice->kept + m->put_off[q] * choice->put_off);
    }
    set_column(m, FIRST_STEP + m->p->kinds + which);
    return true;
}

static void set_path(struct mixer *m, int column, const struct mix_path *path)
{
    double lost = 0;
    memset(m->of, 0, (size_t)m->passes->pieces * sizeof *m->of);
    for (int i = 0; i < path->count; i++) {
        const struct pass *pass = &m->passes->pass[path->pass[i]];
        m->of[pass->piece].forward += pass->kind == ACTION_FORWARD;
        m->of[pass->piece].input += pass_is_input(pass);
        m->of[pass->piece].weight += pass_is_weight(pass);
        bool leaves = i + 1 < path->count && m->passes->pass[path->pass[i + 1]].stage != pass->stage;
        lost += leaves && pass->kind == ACTION_BACKWARD ? m->p->lost : 0;
    }
    set_value(m, SHARE_ROW, 1);
    for (int row = 0; row < m->rows; row++) {
        const struct mix_choice *choice = choice_of(m, row), *times = &m->of[piece_of(m, row)];
        set_value(m, FIRST_ROW + row,
                  times->forward * choice->forward + times->input * choice->input + times->weight * choice->weight);
    }
    set_column(m, column);
    glp_set_obj_coef(m->program, column, -lost);
}

static void set_lane(struct mixer *m)
{
    set_value(m, SHARE_ROW, 1);
    for (int row = 0; row < m->rows; row++)
        set_value(m, FIRST_ROW + row, choice_of(m, row)->lane);
    set_column(m, LANE_COLUMN);
}

static void set_step(struct mixer *m, int kind)
{
    for (int row = 0; row < m->rows; row++)
        if (kind_of(m, row) == kind)
            set_value(m, FIRST_ROW + row, -1);
    set_column(m, FIRST_STEP + kind);
}

static bool state(struct mixer *m)
{
    int kinds = m->p->kinds;
    m->program = glp_create_prob();
    glp_set_obj_dir(m->program, GLP_MAX);
    glp_add_rows(m->program, m->rows + 1);
    glp_set_row_bnds(m->program, SHARE_ROW, GLP_FX, 1, 1);
    for (int row = 0; row < m->rows; row++)
        glp_set_row_bnds(m->program, FIRST_ROW + row, GLP_LO, 0, 0);
    glp_add_cols(m->program, FIRST_STEP - 1 + kinds + m->moment_count);
    glp_set_col_bnds(m->program, LANE_COLUMN, GLP_LO, 0, 0);
    set_lane(m);
    for (int i = 0; i < kinds + m->moment_count; i++) {
        if (i < kinds)
            glp_set_col_bnds(m->program, FIRST_STEP + i, GLP_LO, 0, 0);
        else /* without end where nothing fits */
            glp_set_col_bnds(m->program, FIRST_STEP + i, GLP_DB, 0, MOST_WEIGHT);
        glp_set_obj_coef(m->program, FIRST_STEP + i, i < kinds ? 1 : -1);
        if (i < kinds)
            set_step(m, i);
        else if (!set_moment(m, i - kinds))
            return false;
    }
    return true;
}

/* ---- paths ---- */

/* When the pass hands on what it makes. */
static double handed_on(const struct mixer *m, int pass, int stage)
{
    const struct pass *from = &m->passes->pass[pass];
    return m->end[pass] - (from->kind == ACTION_BACKWARD && from->stage != stage ? m->p->lost : 0);
}

/* All ends, where layers lie as m->take says; the pass that ends last. */
static int find_ends(struct mixer *m)
{
    const struct passes *p = m->passes;
    int last = 0;
    memset(m->of, 0, (size_t)p->pieces * sizeof *m->of);
    for (int row = 0; row < m->rows; row++) {
        struct mix_choice *of = &m->of[piece_of(m, row)];
        of->forward += m->take[row] * choice_of(m, row)->forward;
        of->input += m->take[row] * choice_of(m, row)->input;
        of->weight += m->take[row] * choice_of(m, row)->weight;
    }
    for (int k = 0; k < p->count; k++) {
        int i = p->sorted[k];
        const struct pass *pass = &p->pass[i];
        const struct mix_choice *of = &m->of[pass->piece];
        double begin = pass->before >= 0 ? m->end[pass->before] : 0;
        bool waits = pass->from >= 0 && handed_on(m, pass->from, pass->stage) > begin;
        m->by[i] = waits ? pass->from : pass->before;
        m->end[i] = (waits ? handed_on(m, pass->from, pass->stage) : begin) +
                    (pass->kind == ACTION_FORWARD ? of->forward : 0) + (pass_is_input(pass) ? of->input : 0) +
                    (pass_is_weight(pass) ? of->weight : 0);
        if (m->end[i] > m->end[last])
            last = i;
    }
    m->p->effort->work -= p->count + (int64_t)m->rows * PIVOT_WORK;
    return last;
}

static bool add_path(struct mixer *m, int last)
{
    int count = 0;
    for (int i = last; i >= 0; i = m->by[i])
        count++;
    int *pass = arena_alloc(m->arena, (size_t)count, sizeof *pass);
    if (!pass)
        return false;
    for (int i = last, at = count; i >= 0; i = m->by[i])
        pass[--at] = i;
    struct mix_path *path = &m->paths[m->path_count];
    *path = (struct mix_path){ 0, count, pass };
    int column = m->column[m->path_count++] = glp_add_cols(m->program, 1);
    glp_set_col_bnds(m->program, column, GLP_LO, 0, 0);
    set_path(m, column, path);
    return true;
}

/* Adds the longest path of where m->take puts the layers. *step: of such a plan, but for its memory. */
static bool look_there(struct mixer *m, double *step)
{
    double lane = 0;
    for (int row = 0; row < m->rows; row++)
        lane += m->take[row] * choice_of(m, row)->lane;
    int last = find_ends(m);
    *step = fmax(m->end[last], lane);
    return add_path(m, last);
}

/* Of layers that are shared out evenly, then with more of them on each stage in turn. */
static bool add_first_paths(struct mixer *m)
{
    const struct passes *p = m->passes;
    double step = 0;
    for (int k = -1; k < p->stages; k++) {
        for (int row = 0; row < m->rows; row++)
            m->take[row] = row % m->p->choices == 0 ? 1.0 / p->pieces : 0;
        for (int i = k < 0 ? 0 : p->first[k]; k >= 0 && i < p->first[k + 1]; i++)
            for (int kind = 0; kind < m->p->kinds; kind++)
                m->take[(p->pass[i].piece * m->p->kinds + kind) * m->p->choices] = 4.0 / p->pieces;
        if (!look_there(m, &step))
            return false;
        if (k < 0 && m->moment_count == 0) { /* else it may be more than memory holds */
            m->best = step;
            memcpy(m->center, m->take, (size_t)m->rows * sizeof *m->center);
        }
    }
    return true;
}

/* ---- rounds ---- */

/* From the best place known towards the one that the program answers with. */
static void choose_next(struct mixer *m)
{
    double sum[MIX_KINDS] = { 0 }, part = m->passes->pieces > FEW_PIECES ? 0.2 : 0.5;
    for (int row = 0; row < m->rows; row++) {
        m->take[row] = fmax(0, -glp_get_row_dual(m->program, FIRST_ROW + row));
        sum[kind_of(m, row)] += m->take[row];
    }
    for (int row = 0; row < m->rows; row++) {
        double all = sum[kind_of(m, row)];
        m->take[row] = all > 0 ? m->take[row] / all : (double)m->p->kinds / m->rows;
        if (m->best < INFINITY)
            m->take[row] = m->center[row] + part * (m->take[row] - m->center[row]);
    }
}

static double judge(struct mixer *m)
{
    for (int i = 0; i < m->path_count; i++)
        m->paths[i].weight = (int)lround(glp_get_col_prim(m->program, m->column[i]) * MIX_WEIGHT);
    for (int i = 0; i < m->moment_count; i++) {
        double weight = glp_get_col_prim(m->program, FIRST_STEP + m->p->kinds + i);
        m->moments[i].weight_ns = (int64_t)(fmax(0, weight) * m->p->unit_ns);
    }
    struct passes_mix mix = { .path_count = m->path_count,
                              .moment_count = m->moment_count,
                              .lane_weight = (int)lround(glp_get_col_prim(m->program, LANE_COLUMN) * MIX_WEIGHT),
                              .paths = m->paths,
                              .moments = m->moments };
    return m->p->judge(m->p->self, &mix);
}

static bool run_rounds(struct mixer *m, struct error *err)
{
    const struct mix_effort *effort = m->p->effort;
    double wanted = m->p->enough, step = 0, good = 1 - 1e-6 * effort->missing_ppm;
    glp_smcp options;
    glp_init_smcp(&options);
    options.msg_lev = GLP_MSG_OFF;
    options.it_lim = MOST_PIVOTS;
    for (int round = 0; round < effort->rounds; round++) {
        if (glp_simplex(m->program, &options) != 0 || glp_get_status(m->program) != GLP_OPT)
            return true; /* what was judged serves */
        double known = glp_get_obj_val(m->program);
        bool last = known >= m->best * good || round + 1 == effort->rounds || effort->work <= 0;
        if (known >= wanted || last || effort->thorough) {
            double proven = judge(m);
            if (last || proven >= m->p->enough)
                return true;
            wanted = known + fmax(m->p->enough - proven, NEXT_SHARE);
        }
        choose_next(m);
        if (!look_there(m, &step))
            return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
        if (step < m->best) {
            m->best = step;
            memcpy(m->center, m->take, (size_t)m->rows * sizeof *m->center);
        }
    }
    return true;
}

static bool solve(void *context, struct error *err)
{
    struct mixer *m = context;
    if (!state(m) || !add_first_paths(m))
        return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
    glp_adv_basis(m->program, 0);
    bool good = run_rounds(m, err);
    glp_delete_prob(m->program);
    return good;
}

static bool mixer_open(struct mixer *m)
{
    size_t rows = (size_t)m->rows, passes = (size_t)m->passes->count, pieces = (size_t)m->passes->pieces;
    size_t stages = (size_t)m->passes->stages, paths = (size_t)m->p->effort->rounds + stages + 2;
    struct arena *a = m->arena;
    m->moments = arena_alloc(a, stages + 2 * pieces, sizeof *m->moments);
    m->paths = arena_alloc(a, paths, sizeof *m->paths);
    m->column = arena_alloc(a, paths, sizeof *m->column);
    m->take = arena_alloc(a, rows, sizeof *m->take);
    m->center = arena_alloc(a, rows, sizeof *m->center);
    m->end = arena_alloc(a, passes, sizeof *m->end);
    m->by = arena_alloc(a, passes, sizeof *m->by);
    m->of = arena_alloc(a, pieces, sizeof *m->of);
    m->kept = arena_alloc(a, pieces, sizeof *m->kept);
    m->put_off = arena_alloc(a, pieces, sizeof *m->put_off);
    m->index = arena_alloc(a, rows + 2, sizeof *m->index);
    m->value = arena_alloc(a, rows + 2, sizeof *m->value);
    return m->moments && m->paths && m->column && m->take && m->center && m->end && m->by && m->of && m->kept &&
           m->put_off && m->index && m->value && add_moments(m);
}

bool passes_mix(const struct mix_problem *problem, struct arena *arena, struct error *err)
{
    struct mixer m = { .p = problem,
                       .passes = problem->passes,
                       .arena = arena,
                       .rows = problem->passes->pieces * problem->kinds * problem->choices,
                       .best = INFINITY };
    return mixer_open(&m) ? glpk_guard(solve, &m, err) : fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
}
