/* Under a cap on the longest stage, is there a cut whose paths are short enough? Sets that leave too much before or
 * behind them for the cap are no ends of stages. From the empty set on, the most promising stage is tried first; a set
 * from which on nothing is short enough is remembered with what that proves. */
#include "planner/check/check_ideals.h"
#include "base/num.h"
#include <stdlib.h>
#include <string.h>

/* MOST_PASSES, MOST_WORK: beyond them a configuration is undecided. */
enum { MOST_PASSES = 3000 };
#define MOST_WORK (INT64_C(1) << 33)
#define NONE (INT64_MAX / 4)

/* What stages of one kind with one content need at least. */
struct ideals_cell {
    uint64_t hash; /* 0: free */
    int kind;
    bool both, relaxed, solved;
    int *count;          /* (classes) */
    int64_t least, cost; /* cost, ends: of the choice that was found, when solved; cost INT64_MAX: none */
    struct stage_ends ends;
};
/* A row says where its stages may begin. */
struct row {
    int from, to, count;
    int *set;      /* (count) ascending */
    int64_t *rest; /* (to - from + 1) the paths from there on are no less; NONE: nothing begins there */
    struct ideals_way {
        int end, shape, pass; /* pass: in which rest is what this way takes */
    } * way;                  /* (to - from + 1) */
};
struct
try {
    int64_t least, own; /* with all that follows; the stage */
    int end, shape;
};
struct ideals_walk {
    const struct cut_problem *p;
    const struct orders *o;
    struct error *err;
    struct arena arena;
    int sums, last, rows, pass;
    int *kind, *count;          /* (kinds), (classes) */
    int64_t **least_use;        /* (kinds, LIMIT_COUNT + 1) of (sums), as far as kinds differ */
    int64_t **least_any;        /* (LIMIT_COUNT + 1) of (sums) of any kind */
    int64_t *room[LIMIT_COUNT]; /* (rows) of LIMIT_BYTES, LIMIT_PATH: what the stages before hold at most */
    int64_t *key;               /* (sums) for hashes */
    struct row *row;
    struct ideals_cell *cells; /* (size, a power of two) */
    size_t size, used;
    struct try *tries;
    int64_t try_count, try_capacity, work;
    int64_t cap_ns, most_ns; /* no longer sum of paths is asked for */
};

/* ---- sums ---- */

static int64_t of_kind(const struct ideals_walk *w, int kind, int what, int first, int end)
{
    return orders_between(w->o, w->least_use[w->kind[kind] * (LIMIT_COUNT + 1) + what], first, end);
}

static int64_t of_any(const struct ideals_walk *w, int what, int first, int end)
{
    return orders_between(w->o, w->least_any[what], first, end);
}

/* Sums up each column from its first layer on. */
static bool sum_up(struct ideals_walk *w, int what)
{
    const struct cut_problem *p = w->p;
    int kinds = cut_kinds(p);
    w->least_any[what] = arena_alloc(&w->arena, (size_t)w->sums, sizeof **w->least_any);
    for (int k = 0; k < kinds; k++)
        if (w->kind[k] == k && p->stages[k].table &&
            !(w->least_use[k * (LIMIT_COUNT + 1) + what] =
                  arena_alloc(&w->arena, (size_t)w->sums, sizeof **w->least_use)))
            return false;
    for (int l = 0; w->least_any[what] && l < w->o->layer_count; l++) {
        int layer = w->o->column_layer[l], at = orders_sum(w->o, w->o->column[layer], w->o->depth[layer] + 1);
        int64_t any = INT64_MAX;
        for (int k = 0; k < kinds; k++) {
            if (w->kind[k] != k || !p->stages[k].table)
                continue;
            int64_t *sums = w->least_use[k * (LIMIT_COUNT + 1) + what],
                    own = stage_layer_least(&p->stages[k], p->class_of[layer], what);
            sums[at] = sums[at - 1] + own;
            any = min_i64(any, own);
        }
        w->least_any[what][at] = w->least_any[what][at - 1] + any;
    }
    return w->least_any[what] != NULL;
}

static bool walk_open(struct ideals_walk *w, const struct cut_problem *p, struct error *err)
{
    *w = (struct ideals_walk){ .p = p,
                               .o = p->orders,
                               .err = err,
                               .sums = p->layer_count + p->orders->column_count,
                               .last = cut_last(p),
                               .rows = cut_rows(p) };
    size_t kinds = (size_t)cut_kinds(p), rows = (size_t)w->rows;
    w->kind = arena_alloc(&w->arena, kinds, sizeof *w->kind);
    w->count = arena_alloc(&w->arena, (size_t)p->class_count, sizeof *w->count);
    w->least_use = arena_alloc(&w->arena, kinds * (LIMIT_COUNT + 1), sizeof *w->least_use);
    w->least_any = arena_alloc(&w->arena, LIMIT_COUNT + 1, sizeof *w->least_any);
    w->room[LIMIT_BYTES] = arena_alloc(&w->arena, rows, sizeof **w->room);
    w->room[LIMIT_PATH] = arena_alloc(&w->arena, rows, sizeof **w->room);
    w->row = arena_alloc(&w->arena, rows, sizeof *w->row);
    w->key = arena_alloc(&w->arena, (size_t)w->sums, sizeof *w->key);
    bool good = !arena_failed(&w->arena);
    for (int l = 0; good && l < w->o->layer_count; l++) {
        int layer = w->o->column_layer[l], at = orders_sum(w->o, w->o->column[layer], w->o->depth[layer] + 1);
        w->key[at] = w->key[at - 1] + (int64_t)(mix64((uint64_t)p->class_of[layer] + 1) >> 24);
    }
    if (good)
        cells_like_kinds(p, w->kind);
    for (int what = 0; good && what <= LIMIT_COUNT; what++)
        good = sum_up(w, what);
    return good || fail_memory(w->err);
}

/* ---- rows ---- */

/* Sets what room stages of one mesh each have; false: one lacks room for nothing at all. */
static bool set_room(struct ideals_walk *w)
{
    for (int r = 0; r + 1 < w->rows && w->p->mesh_count == 0; r++) {
        const struct stage_kind *kind = &w->p->stages[r];
        int64_t bytes = kind->capacity_bytes - kind->table->base_bytes, ns = w->cap_ns - stage_waiting_ns(kind);
        if (bytes < 0 || ns < 0)
            return false;
        w->room[LIMIT_BYTES][r + 1] = w->room[LIMIT_BYTES][r] + bytes;
        w->room[LIMIT_PATH][r + 1] = w->room[LIMIT_PATH][r] + ns;
    }
    return true;
}

static bool may_begin(const struct ideals_walk *w, int row, int set, const int64_t need[LIMIT_COUNT],
                      const int64_t all[LIMIT_COUNT])
{
    static const int limits[] = { LIMIT_BYTES, LIMIT_PATH };
    if ((set == 0) != (row == 0) || (set == w->last) != (row == w->rows - 1))
        return false;
    for (int i = 0; i < 2 && w->p->mesh_count == 0; i++) {
        const int64_t *room = w->room[limits[i]];
        if (need[limits[i]] > room[row] || all[limits[i]] - need[limits[i]] > room[w->rows - 1] - room[row])
            return false;
    }
    return true;
}

static void find_need(const struct ideals_walk *w, int set, int64_t need[LIMIT_COUNT])
{
    need[LIMIT_BYTES] = of_any(w, LIMIT_BYTES, 0, set);
    need[LIMIT_PATH] = of_any(w, LIMIT_PATH, 0, set);
}

/* Opens a row: where it begins and ends, then its sets. */
static bool open_row(struct ideals_walk *w, int row, const int64_t all[LIMIT_COUNT])
{
    struct row *r = &w->row[row];
    *r = (struct row){ .from = w->o->count, .to = -1 };
    for (int pass = 0; pass < 2; pass++) {
        for (int set = pass == 0 ? 0 : r->from; set <= (pass == 0 ? w->last : r->to); set++) {
            int64_t need[LIMIT_COUNT];
            find_need(w, set, need);
            if (pass == 1)
                r->rest[set - r->from] = NONE;
            if (!may_begin(w, row, set, need, all))
                continue;
            r->from = (int)min_i64(r->from, set);
            r->to = (int)max_i64(r->to, set);
            if (pass == 1) {
                r->rest[set - r->from] = of_any(w, LIMIT_COUNT, set, w->last);
                r->set[r->count++] = set;
            }
        }
        if (pass == 1 || r->to < r->from)
            break;
        size_t width = (size_t)(r->to - r->from + 1);
        r->set = calloc(width, sizeof *r->set);
        r->rest = calloc(width, sizeof *r->rest);
        r->way = calloc(width, sizeof *r->way);
        if (!r->set || !r->rest || !r->way)
            return false;
    }
    return true;
}

/* Narrows a row under a lower cap, which leaves fewer sets. */
static void narrow_row(struct ideals_walk *w, int row, const int64_t all[LIMIT_COUNT])
{
    struct row *r = &w->row[row];
    int kept = 0;
    for (int i = 0; i < r->count; i++) {
        int64_t need[LIMIT_COUNT], *rest = &r->rest[r->set[i] - r->from];
        find_need(w, r->set[i], need);
        *rest = may_begin(w, row, r->set[i], need, all) ? *rest : NONE;
        if (*rest < NONE)
            r->set[kept++] = r->set[i];
    }
    r->count = kept;
}

/* Sets the cap; *any: every row has a set. */
static bool set_cap(struct ideals_walk *w, int64_t cap_ns, bool first, bool *any)
{
    int64_t all[LIMIT_COUNT];
    find_need(w, w->last, all);
    w->cap_ns = cap_ns;
    *any = set_room(w);
    for (int row = 0; *any && row < w->rows; row++) {
        if (first && !open_row(w, row, all))
            return fail_memory(w->err);
        if (!first)
            narrow_row(w, row, all);
        *any = w->row[row].count > 0 || w->p->mesh_count > 0;
    }
    return true;
}

/* ---- cells ---- */

/* Counts the layers of the stage in w->count. */
static void count_layers(struct ideals_walk *w, int first, int end)
{
    const int *a = orders_heights(w->o, first), *b = orders_heights(w->o, end);
    memset(w->count, 0, (size_t)w->p->class_count * sizeof *w->count);
    for (int i = 0; i < w->o->column_count; i++)
        for (int at = a[i]; at < b[i]; at++)
            w->count[w->p->class_of[w->o->column_layer[w->o->column_first[i] + at]]]++;
}

static struct ideals_cell *find_slot(const struct ideals_walk *w, uint64_t hash, int kind, bool both)
{
    size_t at = hash & (w->size - 1), bytes = (size_t)w->p->class_count * sizeof *w->count;
    for (; w->cells[at].hash; at = (at + 1) & (w->size - 1))
        if (w->cells[at].hash == hash && w->cells[at].kind == kind && w->cells[at].both == both &&
            memcmp(w->cells[at].count, w->count, bytes) == 0)
            break;
    return &w->cells[at];
}

static uint64_t stage_hash(const struct ideals_walk *w, int kind, int first, int end)
{
    uint64_t hash = mix64((uint64_t)orders_between(w->o, w->key, first, end)) + mix64((uint64_t)kind + 1);
    return hash ? hash : 1;
}

/* Finds a known cell, NULL: none; the layers are counted only where some cell may be it. */
static struct ideals_cell *known_cell(struct ideals_walk *w, int kind, int first, int end)
{
    uint64_t hash = stage_hash(w, w->kind[kind], first, end);
    if (w->used == 0 || !w->cells[hash & (w->size - 1)].hash)
        return NULL;
    count_layers(w, first, end);
    struct ideals_cell *cell = find_slot(w, hash, w->kind[kind], cut_holds_both(w->p, first, end));
    return cell->hash ? cell : NULL;
}

static bool grow_cells(struct ideals_walk *w)
{
    if (2 * w->used < w->size)
        return true;
    size_t size = w->size ? 2 * w->size : 1024;
    struct ideals_cell *cells = calloc(size, sizeof *cells);
    if (!cells)
        return false;
    for (size_t i = 0; i < w->size; i++) {
        size_t at = w->cells[i].hash & (size - 1);
        while (w->cells[i].hash && cells[at].hash)
            at = (at + 1) & (size - 1);
        if (w->cells[i].hash)
            cells[at] = w->cells[i];
    }
    free(w->cells);
    w->cells = cells;
    w->size = size;
    return true;
}

/* Makes a cell; NULL when out of memory. */
static struct ideals_cell *make_cell(struct ideals_walk *w, int kind, int first, int end)
{
    bool both = cut_holds_both(w->p, first, end);
    uint64_t hash = stage_hash(w, w->kind[kind], first, end);
    if (!grow_cells(w))
        return NULL;
    count_layers(w, first, end);
    struct ideals_cell *cell = find_slot(w, hash, w->kind[kind], both);
    if (cell->hash)
        return cell;
    int *count = arena_alloc(&w->arena, (size_t)w->p->class_count, sizeof *count);
    if (!count)
        return NULL;
    memcpy(count, w->count, (size_t)w->p->class_count * sizeof *count);
    *cell = (struct ideals_cell){ .hash = hash, .kind = w->kind[kind], .both = both, .count = count };
    w->used++;
    return cell;
}

/* Bounds the cell's path more closely under the present cap. */
static bool refine(struct ideals_walk *w, struct ideals_cell *cell)
{
    struct stage_content content = { .count = cell->count, .holds_both = cell->both };
    int64_t least = 0;
    if (!stage_least_path(&w->p->stages[cell->kind], &content, w->cap_ns, cell->relaxed, &least, &cell->cost,
                          &cell->ends, w->err))
        return false;
    cell->least = max_i64(cell->least, least);
    cell->solved = cell->relaxed;
    cell->relaxed = true;
    return true;
}

/* ---- the shortest cut ---- */

static bool too_long(const struct ideals_walk *w, int kind, int first, int end)
{
    const struct stage_kind *k = &w->p->stages[kind];
    return of_kind(w, kind, LIMIT_BYTES, first, end) + k->table->base_bytes > k->capacity_bytes ||
           of_kind(w, kind, LIMIT_PATH, first, end) + stage_waiting_ns(k) > w->cap_ns ||
           (k->apart && of_kind(w, kind, LIMIT_FORWARD, first, end) > k->to_ns);
}

static int64_t ends_ns(const struct ideals_walk *w, int kind, int first, int end)
{
    return cut_ends_ns(w->p, &w->p->stages[kind], first == 0, end == w->last);
}

/* Keeps stages that may begin a cut of at most most_ns; *open: the least that others may take. */
static bool list_tries(struct ideals_walk *w, int row, int shape, int first, int64_t most_ns, int64_t *open)
{
    int behind = cut_row_behind(w->p, row, shape), kind = cut_row_kind(w->p, row, shape);
    const struct row *r = behind < 0 ? NULL : &w->row[behind];
    for (int i = 0; r && i < r->count; i++) {
        int end = r->set[i];
        int64_t rest = r->rest[end - r->from];
        w->work++;
        if (end <= first || rest >= NONE || !orders_hold(w->o, first, end))
            continue;
        int64_t plain = of_kind(w, kind, LIMIT_COUNT, first, end), ends = ends_ns(w, kind, first, end);
        if (plain + ends + rest > most_ns) {
            *open = min_i64(*open, plain + ends + rest);
            continue;
        }
        int64_t own = INT64_MAX;
        if (!too_long(w, kind, first, end)) {
            const struct ideals_cell *cell = known_cell(w, kind, first, end);
            own = cell ? max_i64(plain, cell->least) : plain;
        }
        w->work += 16;
        if (own < NONE && own + ends + rest > most_ns)
            *open = min_i64(*open, own + ends + rest);
        if (own >= NONE || own + ends + rest > most_ns)
            continue;
        if (w->try_count == w->try_capacity) {
            int64_t capacity = 2 * w->try_capacity + 1024;
            struct try *grown = realloc(w->tries, (size_t)capacity * sizeof *grown);
            if (!grown)
                return fail_memory(w->err);
            w->tries = grown;
            w->try_capacity = capacity;
        }
        w->tries[w->try_count++] = (struct try){ own + ends + rest, own + ends, end, shape };
    }
    return true;
}

static int by_least(const void *a, const void *b)
{
    const struct try *x = a, *y = b;
    if (x->least != y->least)
        return x->least < y->least ? -1 : 1;
    return x->end != y->end ? (x->end > y->end) - (x->end < y->end) : (x->shape > y->shape) - (x->shape < y->shape);
}

/* Finds the least from the set on, if it is at most most_ns; else a bound above that. */
static bool shortest(struct ideals_walk *w, int row, int first, int64_t most_ns, int64_t *least)
{
    struct row *r = &w->row[row];
    int64_t base = w->try_count, open = NONE, best = NONE, *rest = &r->rest[first - r->from];
    struct ideals_way way = { 0 };
    *least = first == w->last ? 0 : *rest;
    if (first == w->last || *rest > most_ns || r->way[first - r->from].pass == w->pass || w->work > MOST_WORK)
        return true;
    for (int shape = 0; shape < cut_row_turns(w->p); shape++)
        if (!list_tries(w, row, shape, first, most_ns, &open))
            return false;
    int64_t count = w->try_count - base;
    if (count > 1)
        qsort(&w->tries[base], (size_t)count, sizeof *w->tries, by_least);
    for (int64_t i = 0; i < count && w->work <= MOST_WORK; i++) {
        struct try t = w->tries[base + i];
        int64_t behind = 0;
        if (t.least > most_ns) {
            open = min_i64(open, t.least);
            break;
        }
        if (!shortest(w, cut_row_behind(w->p, row, t.shape), t.end, most_ns - t.own, &behind))
            return false;
        int64_t total = min_i64(NONE, t.own + behind);
        if (total > most_ns) {
            open = min_i64(open, total);
            continue;
        }
        best = total;
        most_ns = total - 1;
        way = (struct ideals_way){ t.end, t.shape, w->pass };
    }
    w->try_count = base;
    *least = min_i64(best, open);
    if (w->work > MOST_WORK)
        return true;
    *rest = max_i64(*rest, *least);
    r->way[first - r->from] = way;
    return true;
}

/* Refines what is on the shortest cut; *moved false: nothing could be, and *witness is the plan that its solutions
 * make; all INT64_MAX where there is none. */
static bool refine_cut(struct ideals_walk *w, bool *moved, struct cut_witness *witness)
{
    int64_t sum = w->p->once_ns, from_ns = 0;
    struct stage_ends ends = no_ends;
    *moved = false;
    for (int row = 0, first = 0; first < w->last;) {
        const struct ideals_way *way = &w->row[row].way[first - w->row[row].from];
        int kind = cut_row_kind(w->p, row, way->shape);
        struct ideals_cell *cell = make_cell(w, kind, first, way->end);
        if (!cell)
            return fail_memory(w->err);
        bool holds = cell->solved && (cell->cost == INT64_MAX ||
                                      stage_longest_ns(cell->ends, w->p->stages[cell->kind].from_ns) <= w->cap_ns);
        if (cell->least != INT64_MAX && !holds) { /* its solution is none under the present cap */
            *moved = true;
            if (!refine(w, cell))
                return false;
        }
        sum = sum == INT64_MAX || cell->cost == INT64_MAX || !cell->solved
                  ? INT64_MAX
                  : sum + cell->cost + ends_ns(w, kind, first, way->end);
        ends = stage_longer(ends, cell->ends);
        from_ns = w->p->stages[kind].from_ns;
        row = cut_row_behind(w->p, row, way->shape);
        first = way->end;
    }
    *witness = cut_witness_of(sum, ends, from_ns);
    return true;
}

/* Gives the longest sum of paths with which a step can be shorter than the bound. */
static int64_t most_sum(const struct cut_problem *p, int64_t bound_ns)
{
    int64_t low = -1, high = bound_ns - p->once_ns - 1;
    while (p->mesh_count == 0 && low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        if (p->once_ns + middle + cut_mean_longest(p, middle) < bound_ns)
            low = middle;
        else
            high = middle - 1;
    }
    return min_i64(high, NONE - 1);
}

/* Falls from cap to cap. *sum INT64_MAX: nothing is shorter. */
static bool fall(struct ideals_walk *w, int64_t bound_ns, int64_t *sum)
{
    int64_t least = of_any(w, LIMIT_COUNT, 0, w->last);
    int64_t cap_ns = w->pass == 0 ? bound_ns - 1 - w->p->once_ns - least : w->cap_ns;
    for (int pass = 0; pass < MOST_PASSES; pass++) {
        bool any = true;
        int64_t paths_ns = NONE; /* of the cut with the least sum */
        *sum = INT64_MAX;
        if (cap_ns < w->cap_ns && !set_cap(w, cap_ns, w->pass == 0, &any))
            return false;
        if (!any)
            return true;
        w->pass++;
        w->try_count = 0;
        if (w->row[0].count > 0 && !shortest(w, 0, 0, w->most_ns, &paths_ns))
            return false;
        *sum = paths_ns > w->most_ns ? INT64_MAX : paths_ns;
        cap_ns = *sum == INT64_MAX ? cap_ns : bound_ns - 1 - w->p->once_ns - *sum;
        if (*sum == INT64_MAX || cap_ns >= w->cap_ns || w->work > MOST_WORK)
            return true;
    }
    return true;
}

static bool descend(struct ideals_walk *w, int64_t bound_ns, enum cut_verdict *verdict, struct cut_witness *witness)
{
    int64_t sum = 0;
    bool moved = true;
    *verdict = CUT_HOLDS;
    for (int pass = 0; moved; pass++) {
        if (!fall(w, bound_ns, &sum))
            return false;
        if (pass == MOST_PASSES || w->work > MOST_WORK)
            *verdict = CUT_UNDECIDED;
        if (sum == INT64_MAX || *verdict == CUT_UNDECIDED)
            return true;
        if (!refine_cut(w, &moved, witness))
            return false;
    }
    *verdict = witness->rows_ns < bound_ns ? CUT_REFUTED : CUT_UNDECIDED;
    return true;
}

bool ideals_check(const struct cut_problem *problem, int64_t bound_ns, enum cut_verdict *verdict,
                  struct cut_witness *witness, struct error *err)
{
    struct ideals_walk w;
    bool good = walk_open(&w, problem, err);
    w.cap_ns = INT64_MAX;
    w.most_ns = most_sum(problem, bound_ns);
    good = good && descend(&w, bound_ns, verdict, witness);
    for (int r = 0; w.row && r < w.rows; r++) {
        free(w.row[r].set);
        free(w.row[r].rest);
        free(w.row[r].way);
    }
    free(w.cells);
    free(w.tries);
    arena_free(&w.arena);
    return good;
}
