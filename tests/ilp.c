#include "tests/ilp.h"
#include "base/num.h"
#include "planner/check/glpk_guard.h"
#include <glpk.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows that rounding broke are stated again, in digits of this base, at most so often. */
enum { RESTATEMENTS = 24, DIGIT_BITS = 12 };

struct matrix {
    int *row, *column;
    double *value;
    int count;
};
/* Columns: options, then a switch for each that has a peak, then p, then z; 0: none. Rows: caps, groups, then two for
 * each switch. */
struct layout {
    int options, switches, peak_column, excess_column;
};
struct ilp {
    const struct knapsack *problem;
    struct layout layout;
    struct matrix matrix;
    glp_prob *lp;
    int *counts; /* (options) */
    double row_unit[KNAPSACK_ROWS], excess_unit,
        cost_unit; /* GLPK sees multiples of them: numbers far from 1 mislead it */
    int time_limit_ms;
    struct knapsack_result *result;
};

static void put(struct matrix *m, int row, int column, double value)
{
    if (value == 0)
        return;
    m->count++;
    m->row[m->count] = row;
    m->column[m->count] = column;
    m->value[m->count] = value;
}

static bool ilp_start(struct ilp *ilp, const struct knapsack *problem)
{
    *ilp = (struct ilp){ .problem = problem };
    struct layout *layout = &ilp->layout;
    for (int g = 0; g < problem->group_count; g++) {
        layout->options += problem->groups[g].option_count;
        for (int i = 0; problem->row_count > 0 && i < problem->groups[g].option_count; i++)
            layout->switches += problem->groups[g].options[i].peak > 0;
    }
    layout->peak_column = layout->switches > 0 ? layout->options + layout->switches + 1 : 0;
    layout->excess_column =
        problem->excess_cost > 0 ? layout->options + layout->switches + (layout->switches > 0) + 1 : 0;
    size_t size =
        (size_t)layout->options * ((size_t)problem->row_count + 1) + 4 * (size_t)layout->switches + KNAPSACK_ROWS + 2;
    ilp->matrix = (struct matrix){ .row = calloc(size, sizeof(int)),
                                   .column = calloc(size, sizeof(int)),
                                   .value = calloc(size, sizeof(double)) };
    ilp->counts = calloc((size_t)layout->options + 1, sizeof *ilp->counts);
    return ilp->matrix.row && ilp->matrix.column && ilp->matrix.value && ilp->counts;
}

static void ilp_free(struct ilp *ilp)
{
    free(ilp->matrix.row);
    free(ilp->matrix.column);
    free(ilp->matrix.value);
    free(ilp->counts);
}

/* ---- stating ---- */

/* The row may be exceeded, at a price. */
static bool is_excess(const struct knapsack *problem, int row)
{
    return problem->excess_cost > 0 && row >= problem->excess_first;
}

static double unit_of(const struct ilp *ilp, int row)
{
    return is_excess(ilp->problem, row) ? ilp->excess_unit : ilp->row_unit[row];
}

/* The largest numbers become UNITS. Rows that may be exceeded have one unit, that of the excess. */
static void set_units(struct ilp *ilp)
{
    enum { UNITS = 1000 };
    const struct knapsack *problem = ilp->problem;
    double cost = UNITS, excess = UNITS, row[KNAPSACK_ROWS];
    for (int r = 0; r < problem->row_count; r++)
        row[r] = UNITS;
    for (int g = 0; g < problem->group_count; g++)
        for (int i = 0; i < problem->groups[g].option_count; i++) {
            const struct knapsack_option *option = &problem->groups[g].options[i];
            cost = fmax(cost, fabs((double)(option->cost >> problem->tie_bits)));
            for (int r = 0; r < problem->row_count; r++) {
                double *largest = is_excess(problem, r) ? &excess : &row[r];
                *largest = fmax(*largest, fabs((double)option->row[r]));
            }
        }
    for (int r = 0; r < problem->row_count; r++)
        ilp->row_unit[r] = row[r] / UNITS;
    ilp->excess_unit = excess / UNITS;
    ilp->cost_unit = cost / UNITS;
}

static void state_option(struct ilp *ilp, int column, int group, const struct knapsack_option *option)
{
    const struct knapsack *problem = ilp->problem;
    int count = problem->groups[group].count;
    glp_set_col_kind(ilp->lp, column, GLP_IV);
    glp_set_col_bnds(ilp->lp, column, count > 0 ? GLP_DB : GLP_FX, 0, count);
    glp_set_obj_coef(ilp->lp, column, (double)(option->cost >> problem->tie_bits) / ilp->cost_unit);
    for (int r = 0; r < problem->row_count; r++)
        put(&ilp->matrix, r + 1, column, (double)option->row[r] / unit_of(ilp, r));
    put(&ilp->matrix, problem->row_count + group + 1, column, 1);
}

/* p >= peak b, x <= count b. */
static void state_switch(struct ilp *ilp, int index, int column, int count, int64_t peak)
{
    int of = ilp->layout.options + index + 1, row = ilp->problem->row_count + ilp->problem->group_count + 2 * index + 1;
    glp_set_col_kind(ilp->lp, of, GLP_BV);
    glp_set_row_bnds(ilp->lp, row, GLP_LO, 0, 0);
    put(&ilp->matrix, row, ilp->layout.peak_column, 1);
    put(&ilp->matrix, row, of, -(double)peak / unit_of(ilp, 0));
    glp_set_row_bnds(ilp->lp, row + 1, GLP_UP, 0, 0);
    put(&ilp->matrix, row + 1, column, 1);
    put(&ilp->matrix, row + 1, of, -(double)(count > 0 ? count : 1));
}

static void state_extra(struct ilp *ilp)
{
    const struct knapsack *problem = ilp->problem;
    if (ilp->layout.peak_column) {
        glp_set_col_bnds(ilp->lp, ilp->layout.peak_column, GLP_LO, 0, 0);
        put(&ilp->matrix, 1, ilp->layout.peak_column, 1);
    }
    if (!ilp->layout.excess_column)
        return;
    glp_set_col_bnds(ilp->lp, ilp->layout.excess_column, GLP_LO, 0, 0);
    glp_set_obj_coef(ilp->lp, ilp->layout.excess_column,
                     (double)(problem->excess_cost >> problem->tie_bits) * ilp->excess_unit / ilp->cost_unit);
    for (int r = problem->excess_first; r < problem->row_count; r++)
        put(&ilp->matrix, r + 1, ilp->layout.excess_column, -1);
}

static void state(struct ilp *ilp)
{
    const struct knapsack *problem = ilp->problem;
    const struct layout *layout = &ilp->layout;
    glp_set_obj_dir(ilp->lp, GLP_MIN);
    glp_add_rows(ilp->lp, problem->row_count + problem->group_count + 2 * layout->switches);
    glp_add_cols(ilp->lp, layout->options + layout->switches + (layout->peak_column > 0) + (layout->excess_column > 0));
    ilp->matrix.count = 0;
    for (int g = 0, column = 0, index = 0; g < problem->group_count; g++) {
        const struct knapsack_group *group = &problem->groups[g];
        glp_set_row_bnds(ilp->lp, problem->row_count + g + 1, GLP_FX, group->count, group->count);
        for (int i = 0; i < group->option_count; i++) {
            state_option(ilp, ++column, g, &group->options[i]);
            if (layout->switches > 0 && group->options[i].peak > 0)
                state_switch(ilp, index++, column, group->count, group->options[i].peak);
        }
    }
    state_extra(ilp);
    for (int r = 0; r < problem->row_count; r++)
        glp_set_row_bnds(ilp->lp, r + 1, GLP_UP, 0, (double)problem->cap[r] / unit_of(ilp, r));
    glp_load_matrix(ilp->lp, ilp->matrix.count, ilp->matrix.row, ilp->matrix.column, ilp->matrix.value);
}

/* ---- solving ---- */

/* Whole counts of the answer and their cost in integers; -1: they fit, else the row that they break, or -2 where they
 * do not sum up to a group's count. *highest: the column of the largest peak, 0 none. */
static int evaluate(struct ilp *ilp, int64_t *cost, int *highest)
{
    const struct knapsack *problem = ilp->problem;
    int64_t sum[KNAPSACK_ROWS] = { 0 }, peak = 0, excess = 0;
    *cost = 0;
    *highest = 0;
    for (int g = 0, column = 0; g < problem->group_count; g++) {
        int64_t taken = 0;
        for (int i = 0; i < problem->groups[g].option_count; i++) {
            const struct knapsack_option *option = &problem->groups[g].options[i];
            int64_t count = (int64_t)llround(glp_mip_col_val(ilp->lp, ++column));
            ilp->counts[column - 1] = (int)count;
            taken += count;
            *cost += count * option->cost;
            if (count > 0 && option->peak > peak) {
                peak = option->peak;
                *highest = column;
            }
            for (int r = 0; r < problem->row_count; r++)
                sum[r] += count * option->row[r];
        }
        if (taken != problem->groups[g].count)
            return -2;
    }
    for (int r = 0; r < problem->row_count; r++) {
        int64_t over = sum[r] + (r == 0 ? peak : 0) - problem->cap[r];
        if (is_excess(problem, r))
            excess = max_i64(excess, over);
        else if (over > 0)
            return r;
    }
    *cost += excess * problem->excess_cost;
    return -1;
}

/* ---- rows that rounding broke ---- */

/* One digit of the row: *value of so many columns and *cap become what is left. carry: column of what came from the
 * digit before, 0 none; returns that of what goes to the next, 0 after the last. */
static int add_digit(struct ilp *ilp, int count, int *column, int64_t *value, int64_t *cap, int carry)
{
    const int64_t base = INT64_C(1) << DIGIT_BITS;
    double *digit = ilp->matrix.value;
    bool last = *cap < base;
    for (int i = 1; i <= count; i++)
        last = last && value[i] < base;
    for (int i = 1; i <= count; i++) {
        digit[i] = (double)(last ? value[i] : value[i] & (base - 1));
        value[i] >>= DIGIT_BITS;
    }
    int row = glp_add_rows(ilp->lp, 1), length = count, next = 0;
    glp_set_row_bnds(ilp->lp, row, GLP_UP, 0, (double)(last ? *cap : *cap & (base - 1)));
    *cap >>= DIGIT_BITS;
    if (carry) {
        column[++length] = carry;
        digit[length] = 1;
    }
    if (!last) {
        next = glp_add_cols(ilp->lp, 1);
        glp_set_col_kind(ilp->lp, next, GLP_IV);
        glp_set_col_bnds(ilp->lp, next, GLP_LO, 0, 0);
        column[++length] = next;
        digit[length] = -(double)base;
    }
    glp_set_mat_row(ilp->lp, row, length, column, digit);
    return next;
}

/* Column of the switch of the option in that column. */
static int switch_of(const struct ilp *ilp, int column)
{
    int at = 0, of = ilp->layout.options;
    for (int g = 0; g < ilp->problem->group_count; g++)
        for (int i = 0; i < ilp->problem->groups[g].option_count; i++) {
            of += ilp->problem->groups[g].options[i].peak > 0;
            if (++at == column)
                return of;
        }
    return 0;
}

/* GLPK keeps to about nine digits, so that a row may be broken by some bytes or nanoseconds. The same row in digits,
 * with what is carried from one to the next as integers, leaves it none to lose. highest: as evaluate() has it; the row
 * holds for each peak. All that is added is implied, so that an optimum is one of the problem. */
static bool restate(struct ilp *ilp, int row, int highest)
{
    const struct knapsack *problem = ilp->problem;
    int64_t *value = calloc((size_t)ilp->layout.options + 2, sizeof *value), cap = problem->cap[row];
    int *column = ilp->matrix.column, count = 0, at = 0;
    bool good = value != NULL;
    for (int g = 0; g < problem->group_count && good; g++)
        for (int i = 0; i < problem->groups[g].option_count; i++) {
            const struct knapsack_option *option = &problem->groups[g].options[i];
            column[++count] = ++at;
            value[count] = option->row[row];
            if (row == 0 && at == highest) {
                column[++count] = switch_of(ilp, at);
                value[count] = option->peak;
            }
            good = good && option->row[row] >= 0;
        }
    good = good && cap >= 0;
    for (int carry = 0; good;) {
        carry = add_digit(ilp, count, column, value, &cap, carry);
        if (!carry)
            break;
    }
    free(value);
    return good;
}

static bool is_infeasible(const struct ilp *ilp, int code)
{
    return code == GLP_ENOPFS || code == GLP_ENODFS || (code == 0 && glp_mip_status(ilp->lp) == GLP_NOFEAS);
}

int ilp_branch_and_cut(glp_prob *program, int time_limit_ms)
{
    glp_iocp options;
    glp_init_iocp(&options);
    options.presolve = GLP_ON;
    options.msg_lev = GLP_MSG_OFF;
    options.tol_obj = 1e-9;
    options.mip_gap = 0;
    options.tm_lim = time_limit_ms;
    return glp_intopt(program, &options);
}

static bool solve(struct ilp *ilp, struct knapsack_result *result, struct error *err)
{
    result->cost = INT64_MAX;
    result->bound = INT64_MIN;
    result->status = KNAPSACK_LIMIT;
    for (int i = 0; i < RESTATEMENTS; i++) {
        int64_t cost = 0;
        int highest = 0, code = ilp_branch_and_cut(ilp->lp, ilp->time_limit_ms);
        if (is_infeasible(ilp, code)) {
            result->status = KNAPSACK_INFEASIBLE;
            result->bound = INT64_MAX;
            return true;
        }
        if (code == GLP_ETMLIM || code == GLP_EMIPGAP)
            return true;
        if (code != 0 || glp_mip_status(ilp->lp) != GLP_OPT)
            return fail_kind(err, ERROR_BUG, "GLPK ended with code %d and status %d", code, glp_mip_status(ilp->lp));
        int broken = evaluate(ilp, &cost, &highest);
        if (broken == -2)
            return fail_kind(err, ERROR_BUG, "GLPK's answer does not take each item once");
        if (broken >= 0) {
            if (!restate(ilp, broken, highest))
                return true;
            continue;
        }
        result->cost = result->bound = cost;
        result->status = KNAPSACK_OPTIMAL;
        if (result->counts)
            memcpy(result->counts, ilp->counts, (size_t)ilp->layout.options * sizeof *ilp->counts);
        return true;
    }
    return true;
}

static bool state_and_solve(void *context, struct error *err)
{
    struct ilp *ilp = context;
    ilp->lp = glp_create_prob();
    set_units(ilp);
    state(ilp);
    bool good = solve(ilp, ilp->result, err);
    glp_delete_prob(ilp->lp);
    return good;
}

bool ilp_knapsack(const struct knapsack *problem, int time_limit_ms, struct knapsack_result *result, struct error *err)
{
    struct ilp ilp;
    memset(result->multipliers, 0, sizeof result->multipliers);
    result->nodes = 0;
    bool good = ilp_start(&ilp, problem) || fail_memory(err);
    ilp.time_limit_ms = time_limit_ms;
    ilp.result = result;
    good = good && glpk_guard(state_and_solve, &ilp, err);
    ilp_free(&ilp);
    return good;
}
