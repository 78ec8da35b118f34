#include "base/num.h"
#include "planner/check/check_cells.h"
#include "planner/check/check_ideals.h"

enum { MOST_PASSES = 3000 }; /* then a configuration is undecided */
enum { LAZY_PASSES = 5 };

/* ---- cuts ---- */

static bool too_long(const struct cutter *c, int index, int first, int end)
{
    const struct stage_kind *kind = &c->p->stages[index];
    return cutter_least(c, index, LIMIT_BYTES, first, end) + kind->table->base_bytes > kind->capacity_bytes ||
           cutter_least(c, index, LIMIT_PATH, first, end) + stage_waiting_ns(kind) > c->cap_ns ||
           (kind->apart && cutter_least(c, index, LIMIT_FORWARD, first, end) > kind->to_ns);
}

/* Finds where a stage can begin on each row when none before it, or behind it, is too long. */
static void set_reach(struct cutter *c)
{
    int layers = cut_last(c->p), last = c->row_count - 1;
    for (int row = 0; row <= last; row++) {
        c->farthest[row] = row == 0 ? 0 : -1;
        c->nearest[row] = row == last ? layers : layers + 1;
    }
    for (int row = 0; row < last; row++)
        for (int shape = 0; shape < cut_row_turns(c->p) && c->farthest[row] >= 0; shape++) {
            int behind = cut_row_behind(c->p, row, shape), end = c->farthest[row];
            while (behind >= 0 && end < layers &&
                   !too_long(c, cut_row_kind(c->p, row, shape), c->farthest[row], end + 1))
                end++;
            if (behind >= 0)
                c->farthest[behind] = (int)max_i64(c->farthest[behind], end);
        }
    for (int row = last - 1; row >= 0; row--)
        for (int shape = 0; shape < cut_row_turns(c->p); shape++) {
            int behind = cut_row_behind(c->p, row, shape), end = behind < 0 ? layers + 1 : c->nearest[behind],
                first = end;
            while (end <= layers && first > 0 && !too_long(c, cut_row_kind(c->p, row, shape), first - 1, end))
                first--;
            c->nearest[row] = (int)min_i64(c->nearest[row], first);
        }
    for (int row = 1; c->p->cut && row < last; row++) {
        c->nearest[row] = (int)max_i64(c->nearest[row], c->p->cut[row]);
        c->farthest[row] = (int)min_i64(c->farthest[row], c->p->cut[row]);
    }
}

static int spot(const struct cutter *c, int row, int first)
{
    return row * c->width + first;
}

static int64_t ends_ns(const struct cutter *c, int kind, int first, int end)
{
    return cut_ends_ns(c->p, &c->p->stages[kind], first == 0, end == cut_last(c->p));
}

/* What is known of a stage, by its path alone and with its longest time. */
struct stage_bounds {
    int64_t path, total;
};

/* Stages that begin at one place. */
struct begin {
    struct cutter *c;
    int first, at, kind, shape, behind; /* behind: row */
};

static void offer(struct way *way, int64_t sum, const struct begin *b, int end)
{
    if (sum < way->best)
        *way = (struct way){ sum, end, b->shape };
}

/* Adds what the stage and those behind it take at least: their paths; and of the whole step, in which one of them is
 * the longest, this one or another. */
static struct stage_bounds add_stage(struct stage_bounds own, struct stage_bounds behind)
{
    return (struct stage_bounds){ own.path + behind.path, max_i64(own.total + behind.path, own.path + behind.total) };
}

static bool look_closer(const struct begin *b, struct cutter_cell *cell, int end, struct stage_bounds behind)
{
    struct cutter *c = b->c;
    int64_t enough_ns = min_i64(c->step[b->at].best, c->bound_ns) - behind.path;
    if (!cell->total_relaxed && cell->total < enough_ns &&
        !cell_refine_total(c, cell, b->kind, b->first, end, false, enough_ns))
        return false;
    return cell->refinement != PLAIN || cell->least + behind.path >= c->path[b->at].best ||
           cell_refine(c, cell, b->kind, b->first, end);
}

/* Gives what is known of a stage together with those behind it. */
static bool stage_least(const struct begin *b, int end, struct stage_bounds behind, struct stage_bounds *out)
{
    struct cutter *c = b->c;
    struct cutter_cell *cell = cell_at(c, b->kind, b->first, end);
    if (!cell)
        return fail_memory(c->err);
    if (c->eager && !look_closer(b, cell, end, behind))
        return false;
    *out = (struct stage_bounds){ cell->least, cell->total };
    return true;
}

/* Takes the stage, if it is the best from the place on that ends there. */
static bool take_stage(const struct begin *b, int end)
{
    struct cutter *c = b->c;
    int64_t least = cutter_least(c, b->kind, LIMIT_COUNT, b->first, end), sends = ends_ns(c, b->kind, b->first, end);
    struct way *path = &c->path[b->at], *step = &c->step[b->at];
    const struct way *next_path = &c->path[spot(c, b->behind, end)], *next_step = &c->step[spot(c, b->behind, end)];
    if (next_path->best == INT64_MAX)
        return true;
    struct stage_bounds own = { least, least }, behind = { next_path->best + sends, next_step->best + sends },
                        sum = add_stage(own, behind);
    if (sum.path >= path->best && sum.total >= step->best)
        return true;
    if (!stage_least(b, end, behind, &own))
        return false;
    if (own.path == INT64_MAX || own.total == INT64_MAX)
        return true;
    sum = add_stage(own, behind);
    offer(path, sum.path, b, end);
    offer(step, sum.total, b, end);
    return true;
}

static bool best_with(struct cutter *c, int row, int shape, int first)
{
    int behind = cut_row_behind(c->p, row, shape);
    if (behind < 0)
        return true;
    struct begin begin = { c, first, spot(c, row, first), cut_row_kind(c->p, row, shape), shape, behind };
    for (int end = first + 1; end <= c->farthest[behind] && !too_long(c, begin.kind, first, end); end++)
        if (end >= c->nearest[behind] && !take_stage(&begin, end))
            return false;
    return true;
}

/* Sweeps over all cuts by what the cells say now. */
static bool sweep(struct cutter *c)
{
    int last = c->row_count - 1;
    set_reach(c);
    for (int row = last; row >= 0; row--)
        for (int first = c->nearest[row]; first <= c->farthest[row]; first++) {
            int at = spot(c, row, first);
            c->path[at].best = c->step[at].best = row == last && first == cut_last(c->p) ? 0 : INT64_MAX;
            for (int shape = 0; row < last && shape < cut_row_turns(c->p); shape++)
                if (!best_with(c, row, shape, first))
                    return false;
        }
    return true;
}

/* Gives the least value of a cut of all layers; INT64_MAX: there is none. */
static int64_t least_of_sweep(const struct cutter *c, const struct way *ways)
{
    return c->nearest[0] == 0 ? ways[spot(c, 0, 0)].best : INT64_MAX;
}

/* Lists the stages of the best cut. */
static bool list_parts(struct cutter *c, const struct way *ways)
{
    c->part_count = 0;
    for (int row = 0, first = 0; first < cut_last(c->p);) {
        const struct way *way = &ways[spot(c, row, first)];
        int kind = cut_row_kind(c->p, row, way->shape), end = way->end;
        struct part *part = &c->part[c->part_count++];
        row = cut_row_behind(c->p, row, way->shape);
        *part = (struct part){ kind,
                               first,
                               end,
                               cell_at(c, kind, first, end),
                               ends_ns(c, kind, first, end),
                               c->path[spot(c, row, end)].best };
        if (!part->cell)
            return fail_memory(c->err);
        first = end;
    }
    return true;
}

/* ---- closer looks at a cut ---- */

/* Refines cells that are not settled; all of them, or as far as relaxations say. */
static bool refine_paths(struct cutter *c, bool solve, bool *moved)
{
    for (int i = 0; i < c->part_count; i++) {
        const struct part *part = &c->part[i];
        if (cell_settled(c, part->kind, part->cell) || (!solve && part->cell->refinement != PLAIN))
            continue;
        *moved = true;
        if (!cell_refine(c, part->cell, part->kind, part->first, part->end))
            return false;
    }
    return true;
}

/* Refines stages as the longest until one suffices: with paths before and any behind it that comes to the bound. */
static bool refine_totals(struct cutter *c, int64_t bound_ns, bool solve, bool *moved)
{
    int64_t before_ns = c->p->once_ns;
    for (int i = 0; i < c->part_count; i++) {
        const struct part *part = &c->part[i];
        before_ns += part->ends_ns;
        int64_t enough_ns = bound_ns - before_ns - part->behind_ns;
        before_ns += part->cell->least;
        if (solve ? part->cell->total_most < enough_ns : part->cell->total_relaxed)
            continue;
        *moved = true;
        if (!cell_refine_total(c, part->cell, part->kind, part->first, part->end, solve, enough_ns))
            return false;
        if (part->cell->total >= enough_ns)
            return true;
    }
    return true;
}

/* Refines, until something moved, a cut that is too short by what is known of its step. */
static bool refine_step(struct cutter *c, int64_t bound_ns, bool *moved)
{
    for (int solve = 0; solve <= 1 && !*moved; solve++)
        if (!refine_totals(c, bound_ns, solve, moved) || (!*moved && !refine_paths(c, solve, moved)))
            return false;
    return true;
}

/* Makes the plan of the settled cells; all INT64_MAX when for one none was found. */
static struct cut_witness witness_of(const struct cutter *c)
{
    int64_t sum = c->p->once_ns, from_ns = 0;
    struct stage_ends ends = no_ends;
    for (int i = 0; i < c->part_count; i++) {
        const struct part *part = &c->part[i];
        int64_t cost = part->cell->cost;
        sum = sum == INT64_MAX || cost == INT64_MAX ? INT64_MAX : sum + cost + part->ends_ns;
        ends = stage_longer(ends, part->cell->ends);
        from_ns = c->p->stages[part->kind].from_ns;
    }
    return cut_witness_of(sum, ends, from_ns);
}

/* Lists the stages of the best cut. *moved: for one of them nothing fits, as was found after it had been taken; the
 * next sweep knows that. */
static bool take_cut(struct cutter *c, const struct way *ways, bool *moved)
{
    *moved = false;
    if (!list_parts(c, ways))
        return false;
    for (int i = 0; i < c->part_count; i++)
        *moved |= c->part[i].cell->least == INT64_MAX || c->part[i].cell->total == INT64_MAX;
    return true;
}

/* Refines the cut that is shortest by its step, then the one by its paths: when the cells of the latter are settled,
 * they are a plan. */
static bool refine(struct cutter *c, int64_t bound_ns, bool *moved, struct cut_witness *witness)
{
    if (!take_cut(c, c->step, moved) || (!*moved && !refine_step(c, bound_ns, moved)))
        return false;
    if (*moved)
        return true;
    if (!take_cut(c, c->path, moved) || (!*moved && !refine_paths(c, true, moved)))
        return false;
    if (!*moved)
        *witness = witness_of(c);
    return true;
}

/* Descends from cap to cap. */
static bool descend(struct cutter *c, int64_t bound_ns, enum cut_verdict *verdict, struct cut_witness *witness)
{
    *verdict = CUT_HOLDS;
    c->cap_ns = bound_ns - 1 - c->p->once_ns;
    c->bound_ns = bound_ns - c->p->once_ns;
    for (int pass = 0;; pass++) {
        bool moved = true;
        c->eager = pass >= LAZY_PASSES;
        if (pass == MOST_PASSES) {
            *verdict = CUT_UNDECIDED;
            return true;
        }
        if (!sweep(c))
            return false;
        int64_t sum = least_of_sweep(c, c->path), step = least_of_sweep(c, c->step);
        if (sum == INT64_MAX || c->p->once_ns + step >= bound_ns)
            return true;
        int64_t cap_ns = bound_ns - 1 - c->p->once_ns - sum;
        if (cap_ns < c->cap_ns) {
            c->cap_ns = cap_ns;
            continue;
        }
        if (!refine(c, bound_ns, &moved, witness))
            return false;
        if (moved)
            continue;
        *verdict = witness->rows_ns < bound_ns ? CUT_REFUTED : CUT_UNDECIDED;
        return true;
    }
}

/* Tells whether one stage, whose path and longest time together are the step, takes no less than the bound. */
static bool whole_is_long(struct cutter *c, int64_t bound_ns, bool *out)
{
    const struct cut_problem *p = c->p;
    int64_t known[LIMIT_COUNT] = { 0 }, least = 0;
    *out = false;
    if (p->stage_count != 1 || p->mesh_count > 0)
        return true;
    struct stage_content content = cutter_content(c, 0, cut_last(p));
    if (!stage_least_total(&p->stages[0], &content, true, bound_ns - p->once_ns, known, &least, c->err))
        return false;
    *out = least == INT64_MAX || p->once_ns + least >= bound_ns;
    return true;
}

bool cut_check_kinds(const struct cut_problem *problem, int64_t bound_ns, enum cut_verdict *verdict,
                     struct cut_witness *witness, struct error *err)
{
    struct cutter c;
    struct cut_problem line = *problem;
    *verdict = CUT_HOLDS;
    if (problem->stage_count > problem->layer_count)
        return true;
    if (problem->orders && (problem->stage_count != 1 || problem->mesh_count > 0))
        return ideals_check(problem, bound_ns, verdict, witness, err);
    line.orders = NULL; /* one stage has all layers in any order */
    bool proven = false;
    bool good = cutter_open(&c, &line, err) && whole_is_long(&c, bound_ns, &proven) &&
                (proven || descend(&c, bound_ns, verdict, witness));
    cutter_close(&c);
    return good;
}

int64_t cut_mean_longest(const struct cut_problem *p, int64_t sum)
{
    int64_t waiting_ns = INT64_MAX;
    for (int k = 0; k < p->stage_count; k++)
        waiting_ns = min_i64(waiting_ns, p->stages[k].waiting_ns);
    const struct stage_kind *any = &p->stages[0];
    return max_i64(any->from_ns, (any->micro_batches - 1) * (ceil_div(sum, p->stage_count) + waiting_ns) -
                                     (any->apart ? any->to_ns - any->from_ns : 0));
}
