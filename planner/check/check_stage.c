/* An integer program over counts, by GLPK. The relaxation's bound is the Lagrangian one at its multipliers, rounded to
 * 2^-30 and evaluated in integers: whatever GLPK says, it holds. Of the integer optimum GLPK's tolerance is taken off.
 * The largest transient need in use is a threshold: for each, the options above it are forbidden and the room is
 * smaller by it. */
#include "planner/check/check_stage.h"
#include "base/num.h"
#include <glpk.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIXED_BITS = 30, TIME_LIMIT_MS = 2000 };
#define MARGIN 1e-6 /* of the largest use: more than GLPK's tolerance of rows */
__extension__ typedef __int128 wide;

struct option {
    int class_index;
    int64_t cost, use[LIMIT_COUNT], peak;
};
struct stage_solver {
    const struct stage_kind *kind;
    const int *count;
    struct arena arena;
    int class_count, option_count, *first; /* (classes + 1) into option */
    struct option *option;
    int64_t limit[LIMIT_COUNT], peak; /* the threshold; limit[LIMIT_BYTES] is smaller by it */
    int *low, *high;                  /* (options) the node's box */
    double *value;                    /* (options) of the relaxation */
    int64_t multiplier[LIMIT_COUNT];  /* times 2^-FIXED_BITS */
    double scale[LIMIT_COUNT], cost_scale;
    glp_prob *program;
    int64_t best, best_times;
    int *whole; /* (options) */
};

void stage_layer_use(const struct stage_kind *kind, const struct layer_price *p, bool holds_both,
                     int64_t use[LIMIT_COUNT])
{
    int64_t m = kind->micro_batches, path = stage_layer_path_ns(p);
    int64_t lane = p->gather_forward_ns + p->gather_backward_ns + p->reduce_ns, end = p->reduce_last_ns + p->step_ns;
    use[LIMIT_BYTES] = p->weight_bytes + (holds_both ? 0 : p->tied_bytes) + kind->in_flight * p->saved_bytes;
    use[LIMIT_PATH] = (m - 1) * path + p->step_ns;
    use[LIMIT_TAIL] = (m - 1) * path - p->backward_ns + end;
    use[LIMIT_LANE] = m * lane - path + end;
}

/* ---- the relaxation ---- */

static bool allowed(const struct stage_solver *s, int i)
{
    return s->option[i].peak <= s->peak && s->high[i] > 0;
}

static void set_box(struct stage_solver *s)
{
    for (int i = 0; i < s->option_count; i++) {
        int low = s->low[i], high = allowed(s, i) ? s->high[i] : 0;
        glp_set_col_bnds(s->program, i + 1, low == high ? GLP_FX : GLP_DB, low, high);
    }
    for (int r = 0; r < LIMIT_COUNT; r++)
        glp_set_row_bnds(s->program, r + 1, GLP_UP, 0, (double)s->limit[r] / s->scale[r]);
}

/* Multipliers and values of the relaxation; false when GLPK finds none: then the last multipliers are as good as any.
 */
static bool relax(struct stage_solver *s)
{
    glp_smcp control;
    glp_init_smcp(&control);
    control.msg_lev = GLP_MSG_OFF;
    set_box(s);
    if (glp_simplex(s->program, &control) != 0 || glp_get_status(s->program) != GLP_OPT)
        return false;
    for (int r = 0; r < LIMIT_COUNT; r++) {
        double dual = -glp_get_row_dual(s->program, r + 1) * s->cost_scale / s->scale[r];
        s->multiplier[r] = dual > 0 && dual < 1e6 ? (int64_t)(dual * (double)(1 << FIXED_BITS)) : 0;
    }
    for (int i = 0; i < s->option_count; i++)
        s->value[i] = glp_get_col_prim(s->program, i + 1);
    return true;
}

static wide priced(const struct stage_solver *s, const struct option *o)
{
    wide price = (wide)o->cost << FIXED_BITS;
    for (int r = 0; r < LIMIT_COUNT; r++)
        price += (wide)s->multiplier[r] * o->use[r];
    return price;
}

/* The box's items at their least price: what every option must have, then the cheapest. False: the box is empty. */
static bool add_class(const struct stage_solver *s, int c, wide *sum)
{
    int left = s->count[c];
    for (int i = s->first[c]; i < s->first[c + 1]; i++) {
        *sum += priced(s, &s->option[i]) * s->low[i];
        left -= s->low[i];
        if (s->low[i] > 0 && !allowed(s, i))
            return false;
    }
    if (left < 0)
        return false;
    for (wide floor = -((wide)1 << 120); left > 0;) {
        wide next = (wide)1 << 120;
        int room = 0;
        for (int i = s->first[c]; i < s->first[c + 1]; i++) {
            wide price = priced(s, &s->option[i]);
            if (!allowed(s, i) || s->high[i] == s->low[i] || price <= floor || price > next)
                continue;
            room = price < next ? s->high[i] - s->low[i] : room + s->high[i] - s->low[i];
            next = price;
        }
        if (room == 0)
            return false;
        int taken = left < room ? left : room;
        *sum += next * taken;
        left -= taken;
        floor = next;
    }
    return true;
}

/* INT64_MAX: nothing lies in the box. */
static int64_t box_bound(const struct stage_solver *s)
{
    wide sum = 0;
    for (int c = 0; c < s->class_count; c++)
        if (!add_class(s, c, &sum))
            return INT64_MAX;
    for (int r = 0; r < LIMIT_COUNT; r++)
        sum -= (wide)s->multiplier[r] * s->limit[r];
    wide unit = (wide)1 << FIXED_BITS, whole = sum >= 0 ? (sum + unit - 1) / unit : -((-sum) / unit);
    return whole >= INT64_MAX ? INT64_MAX : whole < 0 ? 0 : (int64_t)whole;
}

/* No choice at all satisfies one limit. */
static bool lacks_room(const struct stage_solver *s)
{
    for (int r = 0; r < LIMIT_COUNT; r++) {
        wide sum = 0;
        for (int c = 0; c < s->class_count; c++) {
            int64_t least = INT64_MAX;
            for (int i = s->first[c]; i < s->first[c + 1]; i++)
                if (s->option[i].peak <= s->peak)
                    least = min_i64(least, s->option[i].use[r]);
            if (s->count[c] > 0 && least == INT64_MAX)
                return true;
            sum += s->count[c] > 0 ? (wide)least * s->count[c] : 0;
        }
        if (sum > s->limit[r])
            return true;
    }
    return false;
}

/* ---- whole counts ---- */

/* Takes the whole counts as the best choice when they fit. */
static void offer(struct stage_solver *s, const int *counts)
{
    int64_t cost = 0, use[LIMIT_COUNT] = { 0 };
    for (int c = 0; c < s->class_count; c++) {
        int total = 0;
        for (int i = s->first[c]; i < s->first[c + 1]; i++) {
            total += counts[i];
            cost += counts[i] * s->option[i].cost;
            for (int r = 0; r < LIMIT_COUNT; r++)
                use[r] += counts[i] * s->option[i].use[r];
        }
        if (total != s->count[c])
            return;
    }
    for (int r = 0; r < LIMIT_COUNT; r++)
        if (use[r] > s->limit[r])
            return;
    if (cost < s->best) {
        int64_t waiting_ns = (s->kind->micro_batches - 1) * s->kind->waiting_ns;
        s->best = cost;
        s->best_times = max_i64(max_i64(use[LIMIT_PATH], use[LIMIT_TAIL]) + waiting_ns, use[LIMIT_LANE]);
    }
}

/* Not even with a little more room than there is does the relaxation have a point. */
static bool plainly_empty(struct stage_solver *s, const glp_smcp *control)
{
    for (int r = 0; r < LIMIT_COUNT; r++)
        glp_set_row_bnds(s->program, r + 1, GLP_UP, 0, (double)s->limit[r] / s->scale[r] + MARGIN);
    return glp_simplex(s->program, control) == 0 && glp_get_status(s->program) == GLP_NOFEAS;
}

static void take_whole(struct stage_solver *s)
{
    for (int i = 0; i < s->option_count; i++)
        s->whole[i] = (int)floor(glp_mip_col_val(s->program, i + 1) + 0.5);
    offer(s, s->whole);
}

/* The least whole number that GLPK's tolerance leaves of the optimum. */
static int64_t below_optimum(double optimum)
{
    return (int64_t)ceil(optimum - fmax(fabs(optimum) * 1e-9, 1e-6));
}

/* The optimum over whole counts, 1e-9 of it left for GLPK's tolerance; a bound of the relaxation where GLPK gives up.
 */
static int64_t solve_whole(struct stage_solver *s)
{
    glp_iocp control;
    glp_init_iocp(&control);
    control.msg_lev = GLP_MSG_OFF;
    control.tol_obj = 1e-9;
    control.tm_lim = TIME_LIMIT_MS;
    glp_smcp simplex;
    glp_init_smcp(&simplex);
    simplex.msg_lev = GLP_MSG_OFF;
    bool relaxed = relax(s);
    int64_t bound = box_bound(s), best = s->best;
    if (!relaxed)
        return plainly_empty(s, &simplex) ? INT64_MAX : bound;
    if (glp_intopt(s->program, &control) != 0)
        return bound;
    if (glp_mip_status(s->program) == GLP_NOFEAS)
        return INT64_MAX;
    if (glp_mip_status(s->program) != GLP_OPT)
        return bound;
    double optimum = glp_mip_obj_val(s->program) * s->cost_scale;
    bound = max_i64(bound, below_optimum(optimum));
    take_whole(s);
    /* a choice that breaks a limit within GLPK's tolerance: again, with a little less room */
    for (double less = 1e-7; s->best == best && bound < best && less < 1; less *= 10) {
        for (int r = 0; r < LIMIT_COUNT; r++)
            glp_set_row_bnds(s->program, r + 1, GLP_UP, 0, (double)s->limit[r] / s->scale[r] - less);
        if (glp_simplex(s->program, &simplex) == 0 && glp_get_status(s->program) == GLP_OPT &&
            glp_intopt(s->program, &control) == 0 && glp_mip_status(s->program) == GLP_OPT)
            take_whole(s);
    }
    return bound;
}

/* ---- one stage ---- */

static bool list_options(struct stage_solver *s, bool holds_both, struct error *err)
{
    const struct price_table *table = s->kind->table;
    size_t most = (size_t)(table->class_count * table->strategy_count);
    s->class_count = table->class_count;
    s->first = arena_alloc(&s->arena, (size_t)table->class_count + 1, sizeof *s->first);
    s->option = arena_alloc(&s->arena, most, sizeof *s->option);
    s->low = arena_alloc(&s->arena, most, sizeof *s->low);
    s->high = arena_alloc(&s->arena, most, sizeof *s->high);
    s->value = arena_alloc(&s->arena, most, sizeof *s->value);
    s->whole = arena_alloc(&s->arena, most, sizeof *s->whole);
    if (!s->first || !s->option || !s->low || !s->high || !s->value || !s->whole)
        return fail_kind(err, ERROR_ENVIRONMENT, "check: out of memory");
    for (int c = 0; c < table->class_count; c++) {
        for (int i = 0; s->count[c] > 0 && i < table->strategy_count; i++) {
            const struct layer_price *price = price_at(table, c, i);
            struct option *o = &s->option[s->option_count];
            *o =
                (struct option){ .class_index = c, .cost = stage_layer_path_ns(price), .peak = price->transient_bytes };
            stage_layer_use(s->kind, price, holds_both, o->use);
            s->high[s->option_count++] = s->count[c];
        }
        s->first[c + 1] = s->option_count;
    }
    return true;
}

static void set_scales(struct stage_solver *s)
{
    s->cost_scale = 1;
    for (int r = 0; r < LIMIT_COUNT; r++)
        s->scale[r] = 1;
    for (int i = 0; i < s->option_count; i++) {
        s->cost_scale = fmax(s->cost_scale, (double)s->option[i].cost);
        for (int r = 0; r < LIMIT_COUNT; r++)
            s->scale[r] = fmax(s->scale[r], fabs((double)s->option[i].use[r]));
    }
}

/* Rows: the limits, then one of each class. */
static void make_program(struct stage_solver *s)
{
    int index[LIMIT_COUNT + 2];
    double value[LIMIT_COUNT + 2];
    glp_term_out(GLP_OFF);
    s->program = glp_create_prob();
    glp_add_rows(s->program, LIMIT_COUNT + s->class_count);
    glp_add_cols(s->program, s->option_count);
    for (int c = 0; c < s->class_count; c++)
        glp_set_row_bnds(s->program, LIMIT_COUNT + c + 1, GLP_FX, s->count[c], s->count[c]);
    for (int i = 0; i < s->option_count; i++) {
        const struct option *o = &s->option[i];
        for (int r = 0; r < LIMIT_COUNT; r++) {
            index[r + 1] = r + 1;
            value[r + 1] = (double)o->use[r] / s->scale[r];
        }
        index[LIMIT_COUNT + 1] = LIMIT_COUNT + o->class_index + 1;
        value[LIMIT_COUNT + 1] = 1;
        glp_set_obj_coef(s->program, i + 1, (double)o->cost / s->cost_scale);
        glp_set_mat_col(s->program, i + 1, LIMIT_COUNT + 1, index, value);
        glp_set_col_kind(s->program, i + 1, GLP_IV);
    }
}

static int compare_bytes(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void set_limits(struct stage_solver *s, int64_t cap_ns, int64_t peak)
{
    int64_t m = s->kind->micro_batches;
    s->peak = peak;
    s->limit[LIMIT_BYTES] = s->kind->capacity_bytes - s->kind->table->base_bytes - peak;
    s->limit[LIMIT_PATH] = s->limit[LIMIT_TAIL] = cap_ns - (m - 1) * s->kind->waiting_ns;
    s->limit[LIMIT_LANE] = cap_ns;
}

/* The least over all thresholds. */
static int64_t over_thresholds(struct stage_solver *s, int64_t cap_ns, bool whole, int64_t *peaks)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < s->option_count; i++)
        peaks[i] = s->option[i].peak;
    qsort(peaks, (size_t)s->option_count, sizeof *peaks, compare_bytes);
    for (int t = 0; t < s->option_count; t++) {
        if (t > 0 && peaks[t] == peaks[t - 1])
            continue;
        set_limits(s, cap_ns, peaks[t]);
        if (lacks_room(s))
            continue;
        memset(s->multiplier, 0, sizeof s->multiplier);
        if (whole) {
            least = min_i64(least, solve_whole(s));
        } else {
            relax(s);
            least = min_i64(least, box_bound(s));
        }
    }
    return least;
}

bool stage_least_path(const struct stage_kind *kind, const int *count, bool holds_both, int64_t cap_ns, bool whole,
                      int64_t *least, int64_t *cost, int64_t *times, struct error *err)
{
    struct stage_solver s = { .kind = kind, .count = count, .best = INT64_MAX };
    bool good = list_options(&s, holds_both, err);
    int64_t *peaks = good ? arena_alloc(&s.arena, (size_t)s.option_count + 1, sizeof *peaks) : NULL;
    if (good && !peaks)
        good = fail_kind(err, ERROR_ENVIRONMENT, "check: out of memory");
    if (good) {
        set_scales(&s);
        make_program(&s);
        *least = over_thresholds(&s, cap_ns, whole, peaks);
        *cost = s.best;
        *times = s.best_times;
        glp_delete_prob(s.program);
    }
    arena_free(&s.arena);
    return good;
}

/* ---- path and time together ---- */

/* One more column, the longest time in units of the cost: each time less it is at most what waiting leaves. */
static void add_longest(struct stage_solver *s)
{
    int column = glp_add_cols(s->program, 1);
    int index[LIMIT_COUNT] = { 0, LIMIT_PATH + 1, LIMIT_TAIL + 1, LIMIT_LANE + 1 };
    double value[LIMIT_COUNT] = { 0 };
    for (int r = LIMIT_PATH; r < LIMIT_COUNT; r++)
        value[r] = -s->cost_scale / s->scale[r];
    glp_set_col_bnds(s->program, column, GLP_FR, 0, 0);
    glp_set_obj_coef(s->program, column, 1);
    glp_set_mat_col(s->program, column, LIMIT_COUNT - 1, index, value);
}

/* Of one threshold. */
static int64_t solve_total(struct stage_solver *s)
{
    glp_smcp simplex;
    glp_iocp control;
    glp_init_smcp(&simplex);
    glp_init_iocp(&control);
    simplex.msg_lev = control.msg_lev = GLP_MSG_OFF;
    control.tol_obj = 1e-9;
    control.tm_lim = TIME_LIMIT_MS;
    set_box(s);
    if (glp_simplex(s->program, &simplex) != 0)
        return 0;
    if (glp_get_status(s->program) == GLP_NOFEAS)
        return plainly_empty(s, &simplex) ? INT64_MAX : 0;
    if (glp_intopt(s->program, &control) != 0)
        return 0;
    if (glp_mip_status(s->program) == GLP_NOFEAS)
        return INT64_MAX;
    double optimum = glp_mip_obj_val(s->program) * s->cost_scale;
    return glp_mip_status(s->program) == GLP_OPT ? below_optimum(optimum) : 0;
}

bool stage_least_total(const struct stage_kind *kind, const int *count, bool holds_both, int64_t *least,
                       struct error *err)
{
    struct stage_solver s = { .kind = kind, .count = count, .best = INT64_MAX };
    bool good = list_options(&s, holds_both, err);
    *least = INT64_MAX;
    if (good) {
        set_scales(&s);
        make_program(&s);
        add_longest(&s);
        for (int i = 0; i < s.option_count; i++) {
            set_limits(&s, 0, s.option[i].peak);
            *least = min_i64(*least, solve_total(&s));
        }
        glp_delete_prob(s.program);
    }
    arena_free(&s.arena);
    return good;
}
