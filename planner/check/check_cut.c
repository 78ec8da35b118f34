#include "planner/check/check_cut.h"
#include "base/num.h"
#include "planner/check/check_ideals.h"
#include "planner/check/check_runs.h"
#include <stdlib.h>
#include <string.h>

enum refinement { PLAIN, RELAXED, SOLVED };
enum { MOST_PASSES = 3000, MOST_PASSES_OF_LAYOUTS = 90000 }; /* then a configuration is undecided */

/* What stages of one kind with one content need at least. */
struct cell {
    int64_t least, cost; /* cost, ends: of the choice that was found, when SOLVED; cost INT64_MAX: none */
    struct stage_ends ends;
    enum refinement refinement;
};
struct cutter {
    const struct cut_problem *p;
    struct arena arena;
    struct error *err;
    int width;                  /* places where stages begin and end */
    int *sum;                   /* (width, classes) layers of a class before */
    int *content;               /* (layers, layers + 1) index of the multiset of [first, end) */
    int content_count, *sample; /* (contents, 2) */
    int kind_count, *kind;      /* (kinds of the problem) index of the first of the same kind */
    struct cell **cells;        /* (kinds) of (contents), by kind */
    int64_t **least_use;        /* (kinds, LIMIT_COUNT + 1) prefix sums of each layer's least use; last: path */
    int layouts;                /* 1: one for all layers. Else: */
    struct run_table runs;      /* contents, in place of `content` */
    struct cell **run_cells;    /* (kinds) of (run_capacity), by kind */
    int run_capacity;
    int *counts;             /* (layouts, classes) */
    int row_count;           /* where a stage begins: stages before it; with meshes those, and if need be both */
    int64_t *best;           /* (rows, layouts of the first layer, width) */
    struct stretch *stage;   /* (rows, layouts, width) */
    int *turn, *behind;      /* (rows, layouts, width) behind: layout of the next stage */
    int *nearest, *farthest; /* (rows) where a stage can begin there, under the present cap */
    int64_t cap_ns;
    struct dual **dual; /* (kinds) what bounds stages in place of cells; NULL: cells do */
};

/* ---- rows ---- */

static bool same_kind(const struct stage_kind *a, const struct stage_kind *b)
{
    return a->table == b->table && a->capacity_bytes == b->capacity_bytes && a->in_flight == b->in_flight &&
           a->waiting_ns == b->waiting_ns;
}

void cut_like_kinds(const struct cut_problem *p, int *kind)
{
    int meshes = p->mesh_count;
    int each = (meshes + 1) * p->turn_count; /* of one stage, with spread */
    for (int k = 0; k < cut_kinds(p); k++) {
        int like = meshes > 0 && k >= p->turn_count ? kind[k - p->turn_count] : 0; /* with a mesh less */
        if (meshes > 0 && !same_kind(&p->stages[like], &p->stages[k]))
            like = p->spread && k >= each ? kind[k - each] : k; /* of the stage before */
        if (meshes > 0 && !same_kind(&p->stages[like], &p->stages[k]))
            like = k;
        while (!same_kind(&p->stages[like], &p->stages[k]))
            like++;
        kind[k] = like;
    }
}

/* ---- equal contents ---- */

static bool same_content(const struct cutter *c, int a_first, int a_end, int b_first, int b_end)
{
    int classes = c->p->class_count;
    for (int i = 0; i < classes; i++)
        if (c->sum[a_end * classes + i] - c->sum[a_first * classes + i] !=
            c->sum[b_end * classes + i] - c->sum[b_first * classes + i])
            return false;
    return cut_holds_both(c->p, a_first, a_end) == cut_holds_both(c->p, b_first, b_end);
}

static uint64_t content_hash(const struct cutter *c, int first, int end)
{
    int classes = c->p->class_count;
    uint64_t hash = cut_holds_both(c->p, first, end);
    for (int i = 0; i < classes; i++)
        hash = mix64(hash ^ (uint64_t)(c->sum[end * classes + i] - c->sum[first * classes + i])) + (uint64_t)i;
    return hash;
}

/* Numbers the contents of all stages. */
static bool number_contents(struct cutter *c)
{
    int last = cut_last(c->p);
    size_t pairs = (size_t)last * (size_t)(last + 1) / 2, size = 16;
    while (size < 2 * pairs)
        size *= 2;
    int *slot = calloc(size, sizeof *slot);
    c->content = arena_alloc(&c->arena, (size_t)last * (size_t)c->width, sizeof *c->content);
    c->sample = arena_alloc(&c->arena, pairs, 2 * sizeof *c->sample);
    bool good = slot && c->content && c->sample;
    for (int first = 0; good && first < last; first++)
        for (int end = first + 1; end <= last; end++) {
            size_t at = content_hash(c, first, end) & (size - 1);
            while (slot[at] &&
                   !same_content(c, c->sample[2 * (slot[at] - 1)], c->sample[2 * (slot[at] - 1) + 1], first, end))
                at = (at + 1) & (size - 1);
            if (!slot[at]) {
                c->sample[2 * c->content_count] = first;
                c->sample[2 * c->content_count + 1] = end;
                slot[at] = ++c->content_count;
            }
            c->content[first * c->width + end] = slot[at] - 1;
        }
    free(slot);
    return good;
}

/* ---- what each layer needs at least ---- */

static bool sum_least(struct cutter *c)
{
    const struct cut_problem *p = c->p;
    for (int k = 0; k < c->kind_count; k++)
        for (int what = 0; what <= LIMIT_COUNT; what++) {
            int64_t **sums = &c->least_use[k * (LIMIT_COUNT + 1) + what];
            if (!p->stages[k].table)
                continue;
            if (c->kind[k] != k) {
                *sums = c->least_use[c->kind[k] * (LIMIT_COUNT + 1) + what];
                continue;
            }
            *sums = arena_alloc(&c->arena, (size_t)c->width, sizeof **sums);
            if (!*sums)
                return false;
            for (int at = 1; at < c->width; at++)
                (*sums)[at] = (*sums)[at - 1] + stage_layer_least(&p->stages[k], p->class_of[at - 1], what);
        }
    return true;
}

static int64_t least_of(const struct cutter *c, int kind, int what, int first, int end)
{
    const int64_t *sums = c->least_use[kind * (LIMIT_COUNT + 1) + what];
    return sums[end] - sums[first];
}

static bool cutter_open(struct cutter *c, const struct cut_problem *p, bool cells, struct error *err)
{
    *c = (struct cutter){ .p = p, .err = err, .width = cut_last(p) + 1 };
    c->kind_count = cut_kinds(p);
    c->row_count = cut_rows(p);
    c->layouts = cut_layouts(p);
    size_t kinds = (size_t)c->kind_count, rows = (size_t)c->row_count, classes = (size_t)p->class_count,
           spots = rows * (size_t)c->layouts * (size_t)c->width;
    c->sum = arena_alloc(&c->arena, (size_t)c->width * classes, sizeof *c->sum);
    c->kind = arena_alloc(&c->arena, kinds, sizeof *c->kind);
    c->cells = arena_alloc(&c->arena, kinds, sizeof *c->cells);
    c->least_use = arena_alloc(&c->arena, kinds * (LIMIT_COUNT + 1), sizeof *c->least_use);
    c->best = arena_alloc(&c->arena, spots, sizeof *c->best);
    c->stage = arena_alloc(&c->arena, spots, sizeof *c->stage);
    c->turn = arena_alloc(&c->arena, spots, sizeof *c->turn);
    c->behind = arena_alloc(&c->arena, spots, sizeof *c->behind);
    c->run_cells = arena_alloc(&c->arena, kinds, sizeof *c->run_cells);
    c->counts = arena_alloc(&c->arena, classes * (size_t)c->layouts, sizeof *c->counts);
    c->nearest = arena_alloc(&c->arena, rows, sizeof *c->nearest);
    c->farthest = arena_alloc(&c->arena, rows, sizeof *c->farthest);
    if (!c->sum || !c->kind || !c->cells || !c->least_use || !c->best || !c->stage || !c->turn || !c->behind ||
        !c->run_cells || !c->counts || !c->nearest || !c->farthest)
        return fail_kind(err, ERROR_ENVIRONMENT, "check: out of memory");
    for (int at = 1; at < c->width; at++) {
        int *sum = &c->sum[(size_t)at * classes];
        memcpy(sum, sum - classes, classes * sizeof *sum);
        sum[p->class_of[at - 1]]++;
    }
    cut_like_kinds(p, c->kind);
    return ((!cells || number_contents(c)) && sum_least(c)) ||
           fail_kind(err, ERROR_ENVIRONMENT, "check: out of memory");
}

/* ---- cells ---- */

static struct cell *plain_cell(struct cutter *c, int kind, int first, int end)
{
    struct cell **row = &c->cells[c->kind[kind]];
    if (!*row)
        *row = arena_alloc(&c->arena, (size_t)c->content_count, sizeof **row);
    return *row ? &(*row)[c->content[first * c->width + end]] : NULL;
}

/* Room for the cells of all numbered stages, of every kind. */
static bool grow_run_cells(struct cutter *c)
{
    for (int k = 0; k < c->kind_count; k++) {
        struct cell *grown = arena_alloc(&c->arena, (size_t)c->runs.capacity, sizeof *grown);
        if (!grown)
            return false;
        if (c->run_cells[k])
            memcpy(grown, c->run_cells[k], (size_t)c->run_capacity * sizeof *grown);
        c->run_cells[k] = grown;
    }
    c->run_capacity = c->runs.capacity;
    return true;
}

static struct cell *run_cell(struct cutter *c, int kind, const struct stretch *s)
{
    int number = run_table_number(&c->runs, c->p, s);
    if (number < 0 || (c->runs.capacity > c->run_capacity && !grow_run_cells(c)))
        return NULL;
    return &c->run_cells[c->kind[kind]][number];
}

static struct cell *cell_at(struct cutter *c, int kind, const struct stretch *s)
{
    struct cell *cell = c->layouts > 1 ? run_cell(c, kind, s) : plain_cell(c, kind, s->at[0], s->end);
    int64_t handovers = c->layouts > 1 ? stretch_handover_ns(c->p, s) : 0;
    if (cell)
        cell->least = max_i64(cell->least, handovers + least_of(c, kind, LIMIT_COUNT, s->at[0], s->end));
    return cell;
}

/* A closer bound of the cell under the present cap. */
static bool refine(struct cutter *c, struct cell *cell, int kind, const struct stretch *s)
{
    struct stage_content content;
    int64_t least = 0;
    bool solve = cell->refinement != PLAIN;
    stretch_content(c->p, s, c->counts, &content);
    if (!stage_least_path(&c->p->stages[kind], &content, c->cap_ns, solve, &least, &cell->cost, &cell->ends, c->err))
        return false;
    cell->least = max_i64(cell->least, least);
    cell->refinement = solve ? SOLVED : RELAXED;
    return true;
}

/* The cell's solution is one under the present cap too. */
static bool settled(const struct cutter *c, int kind, const struct cell *cell)
{
    return cell->least == INT64_MAX ||
           (cell->refinement == SOLVED &&
            (cell->cost == INT64_MAX || stage_longest_ns(cell->ends, c->p->stages[kind].from_ns) <= c->cap_ns));
}

/* ---- cuts ---- */

static bool too_long(const struct cutter *c, int index, int first, int end)
{
    const struct stage_kind *kind = &c->p->stages[index];
    return least_of(c, index, LIMIT_BYTES, first, end) + kind->table->base_bytes > kind->capacity_bytes ||
           least_of(c, index, LIMIT_PATH, first, end) + stage_waiting_ns(kind) > c->cap_ns ||
           (kind->apart && least_of(c, index, LIMIT_FORWARD, first, end) > kind->to_ns);
}

/* Where a stage can begin on each row when none before it, or behind it, is too long. */
static void set_reach(struct cutter *c)
{
    int layers = cut_last(c->p), last = c->row_count - 1;
    for (int row = 0; row <= last; row++) {
        c->farthest[row] = row == 0 ? 0 : -1;
        c->nearest[row] = row == last ? layers : layers + 1;
    }
    for (int row = 0; row < last; row++)
        for (int turn = 0; turn < cut_row_turns(c->p) && c->farthest[row] >= 0; turn++) {
            int behind = cut_row_behind(c->p, row, turn), end = c->farthest[row];
            while (behind >= 0 && end < layers &&
                   !too_long(c, cut_row_kind(c->p, row, turn), c->farthest[row], end + 1))
                end++;
            if (behind >= 0)
                c->farthest[behind] = (int)max_i64(c->farthest[behind], end);
        }
    for (int row = last - 1; row >= 0; row--)
        for (int turn = 0; turn < cut_row_turns(c->p); turn++) {
            int behind = cut_row_behind(c->p, row, turn), end = behind < 0 ? layers + 1 : c->nearest[behind],
                first = end;
            while (end <= layers && first > 0 && !too_long(c, cut_row_kind(c->p, row, turn), first - 1, end))
                first--;
            c->nearest[row] = (int)min_i64(c->nearest[row], first);
        }
}

static int spot(const struct cutter *c, int row, int layout, int first)
{
    return (row * c->layouts + layout) * c->width + first;
}

static int64_t cut_ns(const struct cutter *c, int from_layout, int to_layout)
{
    return c->layouts > 1 ? c->p->stages[0].table->cut_ns[from_layout][to_layout] : 0;
}

static int64_t ends_ns(const struct cutter *c, int kind, const struct stretch *s)
{
    return cut_ends_ns(c->p, &c->p->stages[kind], s->at[0] == 0, s->end == cut_last(c->p));
}

/* What is known of a stage; false: out of memory. */
static bool stage_least(struct cutter *c, int kind, const struct stretch *s, int64_t *least)
{
    if (c->dual) {
        *least = max_i64(dual_least(c->dual[c->kind[kind]], s->at[0], s->end, c->cap_ns),
                         least_of(c, kind, LIMIT_COUNT, s->at[0], s->end));
        return true;
    }
    const struct cell *cell = cell_at(c, kind, s);
    *least = cell ? cell->least : 0;
    return cell || fail_kind(c->err, ERROR_ENVIRONMENT, "check: out of memory");
}

/* Stages that begin at one place. */
struct begin {
    struct cutter *c;
    int at, kind, turn, behind; /* behind: row */
};

/* The best from the place on if the stage is this one. */
static bool take_stage(void *self, const struct stretch *s)
{
    struct begin *b = self;
    struct cutter *c = b->c;
    int64_t least = least_of(c, b->kind, LIMIT_COUNT, s->at[0], s->end);
    bool known = false;
    for (int layout = 0; layout < c->layouts; layout++) {
        int64_t rest = c->best[spot(c, b->behind, layout, s->end)];
        if (rest == INT64_MAX)
            continue;
        rest += ends_ns(c, b->kind, s) + (s->end < cut_last(c->p) ? cut_ns(c, s->layout[s->count - 1], layout) : 0);
        if (!known && c->best[b->at] < INT64_MAX && least + rest >= c->best[b->at])
            continue;
        if (!known && !stage_least(c, b->kind, s, &least))
            return false;
        known = true;
        if (least < INT64_MAX && least + rest < c->best[b->at]) {
            c->best[b->at] = least + rest;
            c->stage[b->at] = *s;
            c->turn[b->at] = b->turn;
            c->behind[b->at] = layout;
        }
    }
    return true;
}

static bool best_with(struct cutter *c, int row, int turn, int layout, int first)
{
    int behind = cut_row_behind(c->p, row, turn);
    if (behind < 0)
        return true;
    struct begin begin = { c, spot(c, row, layout, first), cut_row_kind(c->p, row, turn), turn, behind };
    int end = first;
    while (end < c->farthest[behind] && !too_long(c, begin.kind, first, end + 1))
        end++;
    struct stretch begun = stretch_plain(first, first);
    begun.layout[0] = (int8_t)layout;
    return stretch_visit(&(struct stretch_visit){ .problem = c->p,
                                                  .self = &begin,
                                                  .body = take_stage,
                                                  .layouts = c->layouts,
                                                  .run_count = c->layouts > 1 ? c->p->stages[0].table->run_count : 1,
                                                  .from = c->nearest[behind],
                                                  .to = end },
                         begun);
}

/* The least sum of paths by what the cells say now, and with which layout it begins. */
static bool sweep(struct cutter *c, int64_t *sum, int *begins)
{
    int last = c->row_count - 1;
    set_reach(c);
    for (int row = last; row >= 0; row--)
        for (int first = c->nearest[row]; first <= c->farthest[row]; first++)
            for (int layout = 0; layout < c->layouts; layout++) {
                c->best[spot(c, row, layout, first)] = row == last && first == cut_last(c->p) ? 0 : INT64_MAX;
                for (int turn = 0; row < last && turn < cut_row_turns(c->p); turn++)
                    if (!best_with(c, row, turn, layout, first))
                        return false;
            }
    *sum = INT64_MAX;
    *begins = 0;
    for (int layout = 0; c->nearest[0] == 0 && layout < c->layouts; layout++)
        if (c->best[spot(c, 0, layout, 0)] < *sum) {
            *sum = c->best[spot(c, 0, layout, 0)];
            *begins = layout;
        }
    return true;
}

/* Refines the best cut's cells; *moved false: all of them are settled, and *witness is the plan that they make; all
 * INT64_MAX when for a cell none was found. */
static bool refine_cut(struct cutter *c, int begins, bool *moved, struct cut_witness *witness)
{
    int64_t sum = c->p->once_ns, from_ns = 0;
    struct stage_ends ends = no_ends;
    *moved = false;
    for (int row = 0, first = 0, layout = begins; first < cut_last(c->p);) {
        int at = spot(c, row, layout, first), kind = cut_row_kind(c->p, row, c->turn[at]);
        const struct stretch *s = &c->stage[at];
        struct cell *cell = cell_at(c, kind, s);
        if (!cell)
            return fail_kind(c->err, ERROR_ENVIRONMENT, "check: out of memory");
        if (!settled(c, kind, cell)) {
            *moved = true;
            if (!refine(c, cell, kind, s))
                return false;
        }
        int64_t behind_ns = s->end < cut_last(c->p) ? cut_ns(c, s->layout[s->count - 1], c->behind[at]) : 0;
        behind_ns += ends_ns(c, kind, s);
        sum = sum == INT64_MAX || cell->cost == INT64_MAX ? INT64_MAX : sum + cell->cost + behind_ns;
        ends = stage_longer(ends, cell->ends);
        from_ns = c->p->stages[kind].from_ns;
        row = cut_row_behind(c->p, row, c->turn[at]);
        layout = c->behind[at];
        first = s->end;
    }
    *witness = cut_witness_of(sum, ends, from_ns);
    return true;
}

/* Down from cap to cap. */
static bool descend(struct cutter *c, int64_t bound_ns, enum cut_verdict *verdict, struct cut_witness *witness)
{
    int64_t sum = 0;
    int begins = 0, passes = c->layouts > 1 ? MOST_PASSES_OF_LAYOUTS : MOST_PASSES;
    *verdict = CUT_HOLDS;
    c->cap_ns = bound_ns - 1 - c->p->once_ns;
    for (int pass = 0;; pass++) {
        bool moved = true;
        if (pass == passes) {
            *verdict = CUT_UNDECIDED;
            return true;
        }
        if (!sweep(c, &sum, &begins))
            return false;
        if (sum == INT64_MAX)
            return true;
        int64_t cap_ns = bound_ns - 1 - c->p->once_ns - sum;
        if (cap_ns < c->cap_ns) {
            c->cap_ns = cap_ns;
            continue;
        }
        if (!refine_cut(c, begins, &moved, witness))
            return false;
        if (moved)
            continue;
        *verdict = witness->rows_ns < bound_ns ? CUT_REFUTED : CUT_UNDECIDED;
        return true;
    }
}

/* All ways to be the one stage, until one may be short. */
struct whole {
    struct cutter *c;
    int64_t bound_ns, known[LIMIT_COUNT]; /* known: multipliers */
    bool is_long;
};

static bool check_whole(void *self, const struct stretch *s)
{
    struct whole *w = self;
    const struct cut_problem *p = w->c->p;
    struct stage_content content;
    int64_t least = 0;
    stretch_content(p, s, w->c->counts, &content);
    for (int whole = w->c->layouts > 1 ? 0 : 1; whole <= 1 && p->once_ns + least < w->bound_ns; whole++) {
        int64_t own = 0;
        if (!stage_least_total(&p->stages[0], &content, whole == 1, w->bound_ns - p->once_ns, w->known, &own,
                               w->c->err))
            return false;
        least = own == INT64_MAX ? INT64_MAX / 2 : own;
    }
    w->is_long = p->once_ns + least >= w->bound_ns;
    return w->is_long;
}

/* One stage: its path and its longest time together are the step. */
static bool whole_is_long(struct cutter *c, int64_t bound_ns, bool *out)
{
    const struct cut_problem *p = c->p;
    struct whole whole = { .c = c, .bound_ns = bound_ns, .is_long = true };
    struct stretch_visit visit = { .problem = p,
                                   .self = &whole,
                                   .body = check_whole,
                                   .layouts = c->layouts,
                                   .run_count = c->layouts > 1 ? p->stages[0].table->run_count : 1,
                                   .from = cut_last(p),
                                   .to = cut_last(p) };
    *out = false;
    if (p->stage_count != 1 || p->mesh_count > 0)
        return true;
    bool good = true;
    for (int layout = 0; layout < c->layouts && whole.is_long && good; layout++) {
        struct stretch begun = stretch_plain(0, 0);
        begun.layout[0] = (int8_t)layout;
        good = stretch_visit(&visit, begun) || !whole.is_long;
    }
    *out = good && whole.is_long;
    return good;
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
    bool good = cutter_open(&c, &line, true, err) && whole_is_long(&c, bound_ns, &proven) &&
                (proven || descend(&c, bound_ns, verdict, witness));
    run_table_free(&c.runs);
    arena_free(&c.arena);
    return good;
}

/* ---- by multipliers ---- */

int64_t cut_mean_longest(const struct cut_problem *p, int64_t sum)
{
    int64_t waiting_ns = INT64_MAX;
    for (int k = 0; k < p->stage_count; k++)
        waiting_ns = min_i64(waiting_ns, p->stages[k].waiting_ns);
    const struct stage_kind *any = &p->stages[0];
    return max_i64(any->from_ns, (any->micro_batches - 1) * (ceil_div(sum, p->stage_count) + waiting_ns) -
                                     (any->apart ? any->to_ns - any->from_ns : 0));
}

/* Down to the claimed cap at most. */
static bool descend_dual(struct cutter *c, int64_t bound_ns, int64_t last_cap_ns, bool *proven)
{
    int begins;
    int64_t sum = 0, cap_ns = bound_ns - 1 - c->p->once_ns;
    for (int pass = 0; pass < MOST_PASSES && (pass == 0 || cap_ns < c->cap_ns); pass++) {
        c->cap_ns = cap_ns;
        if (!sweep(c, &sum, &begins))
            return false;
        *proven = sum == INT64_MAX || c->p->once_ns + sum + cut_mean_longest(c->p, sum) >= bound_ns;
        if (*proven)
            return true;
        cap_ns = max_i64(last_cap_ns, bound_ns - 1 - c->p->once_ns - sum);
    }
    return true;
}

static bool check_dual(const struct cut_problem *problem, const struct dual_claim *claim, int64_t bound_ns,
                       enum cut_verdict *verdict, struct error *err)
{
    struct cutter c;
    bool proven = problem->mesh_count == 0 && problem->stage_count > problem->layer_count;
    *verdict = proven ? CUT_HOLDS : CUT_REFUTED;
    if (proven || problem->mesh_count > 0 || problem->stages[0].table->layout_count > 1)
        return true;
    if (problem->orders)
        return ideals_check_dual(problem, claim, bound_ns, verdict, err);
    bool good = cutter_open(&c, problem, false, err), usable = true;
    c.dual = arena_alloc(&c.arena, (size_t)problem->stage_count, sizeof *c.dual);
    good = good && (c.dual || fail_kind(err, ERROR_ENVIRONMENT, "check: out of memory"));
    for (int k = 0; good && k < c.kind_count; k++)
        if (c.kind[k] == k) {
            c.dual[k] = dual_open(&c.arena, &problem->stages[k], claim, problem->class_of, problem->layer_count, NULL);
            usable = usable && c.dual[k];
        }
    good = good && (!usable || descend_dual(&c, bound_ns, claim->cap_ns, &proven));
    *verdict = proven ? CUT_HOLDS : CUT_REFUTED;
    arena_free(&c.arena);
    return good;
}

/* Multipliers are of times that have both passes. */
bool cut_check_dual(const struct cut_problem *problem, const struct dual_claim *claim, int64_t bound_ns,
                    enum cut_verdict *verdict, struct error *err)
{
    struct cut_problem joint = *problem;
    struct arena arena = { 0 };
    bool good = cut_set_kinds(&joint, &arena, false, 0, 0) ? check_dual(&joint, claim, bound_ns, verdict, err)
                                                           : fail_kind(err, ERROR_ENVIRONMENT, "check: out of memory");
    arena_free(&arena);
    return good;
}
