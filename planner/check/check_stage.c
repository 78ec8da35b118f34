/* An integer program over counts, by GLPK. The relaxation's bound is the Lagrangian one at its multipliers, rounded to
 * 2^-30 and evaluated in integers: whatever GLPK says, it holds. Of the integer optimum GLPK's tolerance is taken off.
 * The largest transient need in use is a threshold: for each, the options above it are forbidden and the room is
 * smaller by it. */
#include "planner/check/check_stage.h"
#include "base/num.h"
#include "planner/check/glpk_guard.h"
#include <glpk.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIXED_BITS = 30, TIME_LIMIT_MS = 500, PATIENT_MS = 2000 };
#define MARGIN 1e-6 /* of the largest use: more than GLPK's tolerance of rows */
__extension__ typedef __int128 wide;

struct stage_option {
    int group;
    int64_t cost, use[LIMIT_COUNT], peak;
};
struct stage_solver {
    const struct stage_kind *kind;
    bool whole;                /* counts are, not parts of layers */
    int64_t cap_ns, enough_ns; /* enough: of path and time together; a bound need not be higher */
    struct arena arena;
    int group_count, *count;  /* (groups) layers of a class */
    int option_count, *first; /* (groups + 1) into option */
    struct stage_option *option;
    int64_t *peaks; /* (options) the distinct ones, ascending */
    int peak_count;
    int64_t limit[LIMIT_COUNT], peak; /* the threshold; limit[LIMIT_BYTES] is smaller by it */
    int64_t multiplier[LIMIT_COUNT];  /* times 2^-FIXED_BITS */
    int64_t *known;                   /* (LIMIT_COUNT) multipliers of a stage like it, replaced by its own */
    double scale[LIMIT_COUNT], cost_scale;
    glp_prob *program;
    int *counts;         /* (options) whole, as GLPK says */
    int64_t least, best; /* the bound; path of the best choice found, and its: */
    struct stage_ends best_ends;
};

void stage_layer_use(const struct stage_kind *kind, const struct layer_price *p, bool holds_both,
                     int64_t use[LIMIT_COUNT])
{
    int64_t m = kind->micro_batches, path = stage_layer_path_ns(p), forward = kind->apart ? p->forward_ns : 0,
            rest = path - forward;
    int64_t lane = p->gather_forward_ns + p->gather_backward_ns + p->reduce_ns, end = p->reduce_last_ns + p->step_ns;
    /* what is freed first is there for all micro-batches in flight but the one that is under way, of which the layer's
     * own peak has it */
    use[LIMIT_BYTES] = p->weight_bytes + (holds_both ? 0 : p->tied_bytes) + (kind->in_flight - 1) * p->freed_bytes +
                       kind->in_flight * (p->saved_bytes - p->freed_bytes);
    use[LIMIT_FORWARD] = (m - 1) * forward;
    use[LIMIT_PATH] = (m - 1) * rest + p->step_ns;
    use[LIMIT_TAIL] = (m - 1) * rest - p->backward_ns + end;
    use[LIMIT_LANE] = p->gather_once_ns + m * lane - path + end;
}

struct stage_ends stage_ends_of(const struct stage_kind *kind, const int64_t use[LIMIT_COUNT])
{
    return (struct stage_ends){ use[LIMIT_FORWARD],
                                max_i64(use[LIMIT_PATH], use[LIMIT_TAIL]) + stage_waiting_ns(kind) - kind->from_ns,
                                use[LIMIT_LANE] };
}

int64_t stage_layer_least(const struct stage_kind *kind, int class_index, int what)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < kind->table->strategy_count; i++) {
        int64_t use[LIMIT_COUNT];
        const struct layer_price *price = price_at(kind->table, class_index, i);
        stage_layer_use(kind, price, true, use);
        least = min_i64(least, what == USE_PATH   ? stage_layer_path_ns(price)
                               : what == USE_STEP ? price->step_ns
                                                  : use[what]);
    }
    return least;
}

/* ---- the relaxation ---- */

static bool allowed(const struct stage_solver *s, int i)
{
    return s->option[i].peak <= s->peak;
}

/* Relaxes for the present threshold, with so much more room for every limit, in units of its scale: GLP_OPT,
 * GLP_NOFEAS, or anything else when GLPK gives up. */
static int relax(struct stage_solver *s, double more)
{
    glp_smcp control;
    glp_init_smcp(&control);
    control.msg_lev = GLP_MSG_OFF;
    for (int i = 0; i < s->option_count; i++) {
        int most = allowed(s, i) ? s->count[s->option[i].group] : 0;
        glp_set_col_bnds(s->program, i + 1, most > 0 ? GLP_DB : GLP_FX, 0, most);
    }
    for (int r = 0; r < LIMIT_COUNT; r++)
        glp_set_row_bnds(s->program, r + 1, GLP_UP, 0, (double)s->limit[r] / s->scale[r] + more);
    return glp_simplex(s->program, &control) == 0 ? glp_get_status(s->program) : GLP_UNDEF;
}

/* Takes the relaxation's multipliers, for relaxed_bound(). */
static void take_multipliers(struct stage_solver *s)
{
    for (int r = 0; r < LIMIT_COUNT; r++) {
        double dual = -glp_get_row_dual(s->program, r + 1) * s->cost_scale / s->scale[r];
        s->multiplier[r] = dual > 0 && dual < 1e6 ? (int64_t)(dual * (double)(1 << FIXED_BITS)) : 0;
    }
}

static wide priced(const struct stage_solver *s, const struct stage_option *o)
{
    wide price = (wide)o->cost << FIXED_BITS;
    for (int r = 0; r < LIMIT_COUNT; r++)
        price += (wide)s->multiplier[r] * o->use[r];
    return price;
}

/* Gives the Lagrangian bound at the multipliers, whatever they are; 0: they say nothing. */
static int64_t relaxed_bound(const struct stage_solver *s)
{
    const wide none = (wide)1 << 120, unit = (wide)1 << FIXED_BITS;
    wide sum = 0;
    for (int c = 0; c < s->group_count; c++) {
        wide least = none;
        for (int i = s->first[c]; i < s->first[c + 1]; i++)
            if (allowed(s, i) && priced(s, &s->option[i]) < least)
                least = priced(s, &s->option[i]);
        sum += least < none ? least * s->count[c] : 0;
    }
    for (int r = 0; r < LIMIT_COUNT; r++)
        sum -= (wide)s->multiplier[r] * s->limit[r];
    return sum <= 0 ? 0 : (int64_t)((sum + unit - 1) / unit);
}

/* True when no choice at all satisfies one limit. */
static bool lacks_room(const struct stage_solver *s)
{
    for (int r = 0; r < LIMIT_COUNT; r++) {
        wide sum = 0;
        for (int c = 0; c < s->group_count; c++) {
            int64_t least = INT64_MAX;
            for (int i = s->first[c]; i < s->first[c + 1]; i++)
                if (allowed(s, i))
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
    for (int c = 0; c < s->group_count; c++) {
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
        s->best = cost;
        s->best_ends = stage_ends_of(s->kind, use);
    }
}

static void take_whole(struct stage_solver *s)
{
    for (int i = 0; i < s->option_count; i++)
        s->counts[i] = (int)floor(glp_mip_col_val(s->program, i + 1) + 0.5);
    offer(s, s->counts);
}

/* Notes the least bound of all branches that are left. */
static void note_branches(glp_tree *tree, void *bound)
{
    int best = glp_ios_reason(tree) == GLP_ISELECT ? glp_ios_best_node(tree) : 0;
    if (best > 0)
        *(double *)bound = glp_ios_node_bound(tree, best);
}

/* Branches and cuts from the relaxation's optimum: GLP_OPT, GLP_NOFEAS, or anything else when GLPK gives up; then
 * *bound, in units of cost_scale, is what was left to be ruled out. */
static int branch(struct stage_solver *s, double *bound)
{
    glp_iocp control;
    *bound = 0;
    glp_init_iocp(&control);
    control.msg_lev = GLP_MSG_OFF;
    control.tol_obj = 1e-9;
    control.cb_func = note_branches;
    control.cb_info = bound;
    control.tm_lim = s->kind->patient ? PATIENT_MS : TIME_LIMIT_MS;
    return glp_intopt(s->program, &control) == 0 ? glp_mip_status(s->program) : GLP_UNDEF;
}

/* Gives the optimum over whole counts, less GLPK's tolerance; `otherwise`, or what it had ruled out, where GLPK gives
 * up, INT64_MAX where nothing is. */
static int64_t whole_bound(struct stage_solver *s, int relaxed, int64_t otherwise)
{
    double bound = 0;
    if (relaxed == GLP_NOFEAS) /* nor with a little more room than there is? */
        return relax(s, MARGIN) == GLP_NOFEAS ? INT64_MAX : otherwise;
    int status = relaxed == GLP_OPT ? branch(s, &bound) : GLP_UNDEF;
    if (status == GLP_NOFEAS)
        return INT64_MAX;
    if (status == GLP_OPT || status == GLP_FEAS)
        bound = status == GLP_OPT ? glp_mip_obj_val(s->program) : fmin(bound, glp_mip_obj_val(s->program));
    bound *= s->cost_scale;
    return max_i64(otherwise, (int64_t)ceil(bound - fmax(fabs(bound) * 1e-9, 1e-6)));
}

/* Solves for one threshold, as far as it is below that of others. A choice that breaks a limit within GLPK's tolerance
 * is looked for again, with a little less room; not where GLPK gave up. */
static int64_t solve_whole(struct stage_solver *s)
{
    int relaxed = relax(s, 0);
    int64_t best = s->best;
    if (relaxed == GLP_OPT)
        take_multipliers(s);
    int64_t bound = relaxed_bound(s);
    if (bound >= s->least) /* another threshold allows as little */
        return bound;
    bound = whole_bound(s, relaxed, bound);
    if (relaxed != GLP_OPT || bound >= best)
        return bound;
    int status = glp_mip_status(s->program);
    if (status == GLP_OPT || status == GLP_FEAS)
        take_whole(s);
    double none;
    for (double less = 1e-7; status == GLP_OPT && s->best == best && less < 1; less *= 10)
        if (relax(s, -less) == GLP_OPT && branch(s, &none) == GLP_OPT)
            take_whole(s);
    return bound;
}

static int64_t solve_relaxed(struct stage_solver *s)
{
    if (relax(s, 0) == GLP_OPT)
        take_multipliers(s);
    return relaxed_bound(s);
}

/* ---- one stage ---- */

static bool list_options(struct stage_solver *s, const struct stage_content *content, struct error *err)
{
    const struct price_table *table = s->kind->table;
    size_t most = (size_t)table->class_count * (size_t)table->strategy_count;
    s->group_count = table->class_count;
    s->first = arena_alloc(&s->arena, (size_t)s->group_count + 1, sizeof *s->first);
    s->count = arena_alloc(&s->arena, (size_t)s->group_count, sizeof *s->count);
    s->option = arena_alloc(&s->arena, most, sizeof *s->option);
    s->peaks = arena_alloc(&s->arena, most, sizeof *s->peaks);
    s->counts = arena_alloc(&s->arena, most, sizeof *s->counts);
    if (arena_failed(&s->arena))
        return fail_memory(err);
    for (int g = 0; g < s->group_count; g++) {
        s->count[g] = content->count[g];
        for (int i = 0; s->count[g] > 0 && i < table->strategy_count; i++) {
            const struct layer_price *price = price_at(table, g, i);
            struct stage_option *o = &s->option[s->option_count++];
            *o =
                (struct stage_option){ .group = g, .cost = stage_layer_path_ns(price), .peak = price->transient_bytes };
            stage_layer_use(s->kind, price, content->holds_both, o->use);
        }
        s->first[g + 1] = s->option_count;
    }
    return true;
}

/* Makes the program, whose rows are the limits, then one of each group. */
static void make_program(struct stage_solver *s)
{
    int index[LIMIT_COUNT + 2];
    double value[LIMIT_COUNT + 2];
    s->program = glp_create_prob();
    glp_add_rows(s->program, LIMIT_COUNT + s->group_count);
    glp_add_cols(s->program, s->option_count);
    for (int c = 0; c < s->group_count; c++)
        glp_set_row_bnds(s->program, LIMIT_COUNT + c + 1, GLP_FX, s->count[c], s->count[c]);
    for (int i = 0; i < s->option_count; i++) {
        const struct stage_option *o = &s->option[i];
        for (int r = 0; r < LIMIT_COUNT; r++) {
            index[r + 1] = r + 1;
            value[r + 1] = (double)o->use[r] / s->scale[r];
        }
        index[LIMIT_COUNT + 1] = LIMIT_COUNT + o->group + 1;
        value[LIMIT_COUNT + 1] = 1;
        glp_set_obj_coef(s->program, i + 1, (double)o->cost / s->cost_scale);
        glp_set_mat_col(s->program, i + 1, LIMIT_COUNT + 1, index, value);
        glp_set_col_kind(s->program, i + 1, GLP_IV);
    }
}

/* Sets limits: cap_ns of each of the stage's times, less what waiting takes of it. */
static void set_limits(struct stage_solver *s, int64_t peak)
{
    s->peak = peak;
    s->limit[LIMIT_BYTES] = s->kind->capacity_bytes - s->kind->table->base_bytes - peak;
    s->limit[LIMIT_PATH] = s->limit[LIMIT_TAIL] = s->cap_ns - stage_waiting_ns(s->kind);
    s->limit[LIMIT_LANE] = s->cap_ns;
    s->limit[LIMIT_FORWARD] = s->kind->apart ? s->kind->to_ns : INT32_MAX; /* of nothing */
    memset(s->multiplier, 0, sizeof s->multiplier);
}

/* Finds the first threshold that matters: under one with room for any choice, those before it allow nothing more. */
static int first_threshold(const struct stage_solver *s)
{
    wide most = 0;
    int t = s->peak_count - 1;
    for (int c = 0; c < s->group_count; c++) {
        int64_t own = INT64_MIN;
        for (int i = s->first[c]; i < s->first[c + 1]; i++)
            own = max_i64(own, s->option[i].use[LIMIT_BYTES]);
        most += s->count[c] > 0 ? (wide)own * s->count[c] : 0;
    }
    while (t > 0 && most > s->kind->capacity_bytes - s->kind->table->base_bytes - s->peaks[t])
        t--;
    return t;
}

/* Takes the least over all thresholds that leave room. */
static void over_thresholds(struct stage_solver *s, bool capped, int64_t (*solve)(struct stage_solver *))
{
    int first = first_threshold(s);
    s->least = s->best = INT64_MAX;
    for (int t = s->peak_count - 1; t >= max_i64(first, 0) && s->least >= s->enough_ns; t--) {
        set_limits(s, s->peaks[t]);
        if (!capped || !lacks_room(s))
            s->least = min_i64(s->least, solve(s));
    }
}

static bool bound_stage(void *context, struct error *err)
{
    struct stage_solver *s = context;
    (void)err;
    make_program(s);
    over_thresholds(s, true, s->whole ? solve_whole : solve_relaxed);
    glp_delete_prob(s->program);
    return true;
}

static bool stage_open(struct stage_solver *s, const struct stage_content *content, struct error *err)
{
    if (!list_options(s, content, err))
        return false;
    s->cost_scale = 1;
    for (int r = 0; r < LIMIT_COUNT; r++)
        s->scale[r] = 1;
    for (int i = 0; i < s->option_count; i++) {
        s->cost_scale = fmax(s->cost_scale, (double)s->option[i].cost);
        for (int r = 0; r < LIMIT_COUNT; r++)
            s->scale[r] = fmax(s->scale[r], fabs((double)s->option[i].use[r]));
    }
    /* the peaks that there are come once each, ascending */
    for (int i = 0; i < s->option_count; i++)
        s->peaks[i] = s->option[i].peak;
    qsort(s->peaks, (size_t)s->option_count, sizeof *s->peaks, compare_i64);
    for (int i = 0; i < s->option_count; i++)
        if (i == 0 || s->peaks[i] != s->peaks[s->peak_count - 1])
            s->peaks[s->peak_count++] = s->peaks[i];
    return true;
}

bool stage_least_path(const struct stage_kind *kind, const struct stage_content *content, int64_t cap_ns, bool whole,
                      int64_t *least, int64_t *cost, struct stage_ends *ends, struct error *err)
{
    struct stage_solver s = { .kind = kind, .whole = whole, .cap_ns = cap_ns };
    bool good = stage_open(&s, content, err) && glpk_guard(bound_stage, &s, err);
    *least = s.least;
    *cost = s.best;
    *ends = s.best_ends;
    arena_free(&s.arena);
    return good;
}

/* ---- path and time together ---- */

/* Adds a column, the longest time in units of the cost: each time less it is at most what waiting leaves. */
static void add_longest(struct stage_solver *s)
{
    int column = glp_add_cols(s->program, 1);
    int index[LIMIT_FORWARD] = { 0, LIMIT_PATH + 1, LIMIT_TAIL + 1, LIMIT_LANE + 1 };
    double value[LIMIT_FORWARD] = { 0 };
    for (int r = LIMIT_PATH; r < LIMIT_FORWARD; r++)
        value[r] = -s->cost_scale / s->scale[r];
    glp_set_col_bnds(s->program, column, GLP_FR, 0, 0);
    glp_set_obj_coef(s->program, column, 1);
    glp_set_mat_col(s->program, column, LIMIT_FORWARD - 1, index, value);
}

/* Bounds path and longest time together: that is at least any weighted mean of the three, so weights of times that sum
 * up to one or less turn the bound under a cap into one of both. */
static int64_t relax_total(struct stage_solver *s, int relaxed)
{
    const int64_t unit = INT64_C(1) << FIXED_BITS;
    wide sum = 0;
    if (relaxed != GLP_OPT)
        return 0;
    take_multipliers(s);
    for (int r = LIMIT_PATH; r < LIMIT_COUNT; r++)
        sum += s->multiplier[r];
    for (int r = LIMIT_PATH; r < LIMIT_COUNT && sum > unit; r++)
        s->multiplier[r] = (int64_t)((wide)s->multiplier[r] * unit / sum);
    return relaxed_bound(s);
}

static int64_t solve_total(struct stage_solver *s)
{
    int relaxed = relax(s, 0);
    int64_t bound = relax_total(s, relaxed);
    return bound >= s->enough_ns ? bound : whole_bound(s, relaxed, bound);
}

static bool solve_stage_total(void *context, struct error *err)
{
    struct stage_solver *s = context;
    (void)err;
    make_program(s);
    add_longest(s);
    over_thresholds(s, false, solve_total);
    glp_delete_prob(s->program);
    return true;
}

/* Relaxes by the program. */
static bool relax_stage_total(void *context, struct error *err)
{
    struct stage_solver *s = context;
    (void)err;
    make_program(s);
    add_longest(s);
    int relaxed = relax(s, 0);
    s->least = relax_total(s, relaxed);
    memcpy(s->known, s->multiplier, sizeof s->multiplier);
    if (relaxed == GLP_NOFEAS && relax(s, MARGIN) == GLP_NOFEAS)
        s->least = INT64_MAX;
    glp_delete_prob(s->program);
    return true;
}

/* Bounds the stage with all options allowed, which take no room: by known multipliers, else by the program. */
static bool bound_stage_total(struct stage_solver *s, struct error *err)
{
    set_limits(s, 0);
    s->peak = INT64_MAX;
    memcpy(s->multiplier, s->known, sizeof s->multiplier);
    s->least = relaxed_bound(s);
    return s->least >= s->enough_ns || glpk_guard(relax_stage_total, s, err);
}

bool stage_least_total(const struct stage_kind *kind, const struct stage_content *content, bool whole,
                       int64_t enough_ns, int64_t known[LIMIT_COUNT], int64_t *least, struct error *err)
{
    struct stage_solver s = { .kind = kind, .enough_ns = enough_ns, .known = known };
    bool good =
        stage_open(&s, content, err) && (whole ? glpk_guard(solve_stage_total, &s, err) : bound_stage_total(&s, err));
    *least = s.least;
    arena_free(&s.arena);
    return good;
}
