#include "planner/search/ilp.h"
#include <glpk.h>
#include <math.h>
#include <stdlib.h>

struct matrix {
    int *row, *column;
    double *value;
    int count;
};

static void put(struct matrix *m, int row, int column, int64_t value)
{
    if (value == 0)
        return;
    m->count++;
    m->row[m->count] = row;
    m->column[m->count] = column;
    m->value[m->count] = (double)value;
}

static bool matrix_start(struct matrix *m, int columns, int rows)
{
    size_t size = (size_t)columns * ((size_t)rows + 1) + 1;
    *m = (struct matrix){ .row = calloc(size, sizeof(int)),
                          .column = calloc(size, sizeof(int)),
                          .value = calloc(size, sizeof(double)) };
    return m->row && m->column && m->value;
}

static void matrix_free(struct matrix *m)
{
    free(m->row);
    free(m->column);
    free(m->value);
}

static int option_total(const struct knapsack *problem)
{
    int total = 0;
    for (int g = 0; g < problem->group_count; g++)
        total += problem->groups[g].option_count;
    return total;
}

/* Rows 1..row_count are the caps, the next group_count the counts of the groups. */
static void state(glp_prob *lp, struct matrix *m, const struct knapsack *problem)
{
    glp_set_obj_dir(lp, GLP_MIN);
    glp_add_rows(lp, problem->row_count + problem->group_count);
    glp_add_cols(lp, option_total(problem));
    for (int r = 0; r < problem->row_count; r++)
        glp_set_row_bnds(lp, r + 1, GLP_UP, 0, (double)problem->cap[r]);
    for (int g = 0, column = 0; g < problem->group_count; g++) {
        const struct knapsack_group *group = &problem->groups[g];
        glp_set_row_bnds(lp, problem->row_count + g + 1, GLP_FX, group->count, group->count);
        for (int i = 0; i < group->option_count; i++) {
            column++;
            glp_set_col_kind(lp, column, GLP_IV);
            glp_set_col_bnds(lp, column, group->count > 0 ? GLP_DB : GLP_FX, 0, group->count);
            glp_set_obj_coef(lp, column, (double)group->options[i].cost);
            for (int r = 0; r < problem->row_count; r++)
                put(m, r + 1, column, group->options[i].row[r]);
            put(m, problem->row_count + g + 1, column, 1);
        }
    }
    glp_load_matrix(lp, m->count, m->row, m->column, m->value);
}

/* Whole counts of the answer, their cost and whether they keep the caps, in integers. */
static bool evaluate(glp_prob *lp, const struct knapsack *problem, struct knapsack_result *result)
{
    int64_t sum[KNAPSACK_ROWS] = { 0 };
    result->cost = 0;
    for (int g = 0, column = 0; g < problem->group_count; g++) {
        int64_t taken = 0;
        for (int i = 0; i < problem->groups[g].option_count; i++) {
            const struct knapsack_option *option = &problem->groups[g].options[i];
            int64_t count = (int64_t)llround(glp_mip_col_val(lp, ++column));
            if (result->counts)
                result->counts[column - 1] = (int)count;
            taken += count;
            result->cost += count * option->cost;
            for (int r = 0; r < problem->row_count; r++)
                sum[r] += count * option->row[r];
        }
        if (taken != problem->groups[g].count)
            return false;
    }
    for (int r = 0; r < problem->row_count; r++)
        if (sum[r] > problem->cap[r])
            return false;
    result->bound = result->cost;
    return true;
}

static bool solve(glp_prob *lp, const struct knapsack *problem, int time_limit_ms, struct knapsack_result *result,
                  struct error *err)
{
    glp_iocp options;
    glp_init_iocp(&options);
    options.presolve = GLP_ON;
    options.msg_lev = GLP_MSG_OFF;
    options.tol_obj = 1e-9;
    options.tm_lim = time_limit_ms;
    int code = glp_intopt(lp, &options);
    int status = glp_mip_status(lp);
    result->cost = INT64_MAX;
    result->bound = INT64_MIN;
    result->nodes = 0;
    if (code == GLP_ENOPFS || code == GLP_ENODFS || (code == 0 && status == GLP_NOFEAS)) {
        result->status = KNAPSACK_INFEASIBLE;
        result->bound = INT64_MAX;
        return true;
    }
    if (code == GLP_ETMLIM || code == GLP_EMIPGAP) {
        result->status = KNAPSACK_LIMIT;
        return true;
    }
    if (code != 0 || status != GLP_OPT)
        return fail_kind(err, ERROR_BUG, "GLPK ended with code %d and status %d", code, status);
    result->status = KNAPSACK_OPTIMAL;
    if (!evaluate(lp, problem, result))
        return fail_kind(err, ERROR_BUG, "GLPK's answer does not keep the constraints in integers");
    return true;
}

bool ilp_knapsack(const struct knapsack *problem, int time_limit_ms, struct knapsack_result *result, struct error *err)
{
    struct matrix m;
    for (int g = 0; g < problem->group_count; g++)
        for (int i = 0; i < problem->groups[g].option_count; i++)
            if (problem->groups[g].options[i].peak != 0)
                return fail_kind(err, ERROR_BUG, "ilp: peaks are not linear");
    if (!matrix_start(&m, option_total(problem), problem->row_count)) {
        matrix_free(&m);
        return fail_kind(err, ERROR_ENVIRONMENT, "ilp: out of memory");
    }
    glp_term_out(GLP_OFF); /* per thread: GLPK's environment is */
    glp_prob *lp = glp_create_prob();
    state(lp, &m, problem);
    bool good = solve(lp, problem, time_limit_ms, result, err);
    glp_delete_prob(lp);
    matrix_free(&m);
    return good;
}
