#include "planner/check/check_cut.h"
#include "base/num.h"
#include <stdlib.h>
#include <string.h>

enum refinement { PLAIN, RELAXED, SOLVED };
enum { MOST_PASSES = 300 }; /* then a configuration is undecided */

/* What stages of one kind with one content need at least. */
struct cell {
    int64_t least, cost, times; /* cost, times: of the choice that was found, when SOLVED; cost INT64_MAX: none */
    enum refinement refinement;
};
struct cutter {
    const struct cut_problem *p;
    struct arena arena;
    struct error *err;
    int width;                  /* layers + 1 */
    int *sum;                   /* (layers + 1, classes) layers of a class before */
    int *content;               /* (layers, layers + 1) index of the multiset of [first, end) */
    int content_count, *sample; /* (contents, 2) */
    int kind_count, *kind;      /* (kinds of the problem) index of the first of the same kind */
    struct cell **cells;        /* (kinds) of (contents), by kind */
    int64_t **least_use;        /* (kinds, LIMIT_COUNT + 1) prefix sums of each layer's least use; last: path */
    int row_count;              /* where a stage begins: stages before it; with turns meshes, and if need be both */
    int64_t *best;              /* (rows, layers + 1) */
    int *end, *turn;            /* (rows, layers + 1) */
    int *nearest, *farthest;    /* (rows) first layers of a stage there, under the present cap */
    int64_t cap_ns;
    struct dual **dual; /* (kinds) what bounds stages in place of cells; NULL: cells do */
};

/* ---- rows ---- */

static int choices(const struct cut_problem *p)
{
    return p->mesh_count > 0 ? p->turn_count : 1;
}

static int kind_at(const struct cut_problem *p, int row, int turn)
{
    int meshes = p->mesh_count;
    return meshes > 0 ? (meshes - row % (meshes + 1)) * p->turn_count + turn : row;
}

/* -1: there are not so many meshes, or stages. */
static int row_behind(const struct cutter *c, int row, int turn)
{
    const struct cut_problem *p = c->p;
    int meshes = p->mesh_count;
    if (meshes == 0)
        return row + 1;
    int used = row % (meshes + 1) + p->turns[turn], stage = row / (meshes + 1) + (p->stage_count > 0);
    return used > meshes || stage > p->stage_count ? -1 : stage * (meshes + 1) + used;
}

static bool same_kind(const struct stage_kind *a, const struct stage_kind *b)
{
    return a->table == b->table && a->capacity_bytes == b->capacity_bytes && a->in_flight == b->in_flight &&
           a->waiting_ns == b->waiting_ns;
}

static bool holds_both(const struct cut_problem *p, int first, int end)
{
    return p->tied_first >= first && p->tied_second < end && p->tied_first >= 0;
}

/* ---- equal contents ---- */

static bool same_content(const struct cutter *c, int a_first, int a_end, int b_first, int b_end)
{
    int classes = c->p->class_count;
    for (int i = 0; i < classes; i++)
        if (c->sum[a_end * classes + i] - c->sum[a_first * classes + i] !=
            c->sum[b_end * classes + i] - c->sum[b_first * classes + i])
            return false;
    return holds_both(c->p, a_first, a_end) == holds_both(c->p, b_first, b_end);
}

static uint64_t content_hash(const struct cutter *c, int first, int end)
{
    int classes = c->p->class_count;
    uint64_t hash = holds_both(c->p, first, end);
    for (int i = 0; i < classes; i++)
        hash = mix64(hash ^ (uint64_t)(c->sum[end * classes + i] - c->sum[first * classes + i])) + (uint64_t)i;
    return hash;
}

/* Numbers the contents of all intervals. */
static bool number_contents(struct cutter *c)
{
    int layers = c->p->layer_count;
    size_t pairs = (size_t)layers * (size_t)(layers + 1) / 2, size = 16;
    while (size < 2 * pairs)
        size *= 2;
    int *slot = calloc(size, sizeof *slot);
    c->content = arena_alloc(&c->arena, (size_t)layers * (size_t)c->width, sizeof *c->content);
    c->sample = arena_alloc(&c->arena, pairs, 2 * sizeof *c->sample);
    bool good = slot && c->content && c->sample;
    for (int first = 0; good && first < layers; first++)
        for (int end = first + 1; end <= layers; end++) {
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

static int64_t layer_least(const struct stage_kind *kind, int class_index, int what)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < kind->table->strategy_count; i++) {
        int64_t use[LIMIT_COUNT];
        const struct layer_price *price = price_at(kind->table, class_index, i);
        stage_layer_use(kind, price, true, use);
        least = min_i64(least, what == LIMIT_COUNT ? stage_layer_path_ns(price) : use[what]);
    }
    return least;
}

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
            for (int l = 0; l < p->layer_count; l++)
                (*sums)[l + 1] = (*sums)[l] + layer_least(&p->stages[k], p->class_of[l], what);
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
    int meshes = p->mesh_count;
    *c = (struct cutter){ .p = p, .err = err, .width = p->layer_count + 1 };
    c->kind_count = meshes > 0 ? (meshes + 1) * p->turn_count : p->stage_count;
    c->row_count = meshes > 0 ? (meshes + 1) * (p->stage_count + 1) : p->stage_count + 1;
    size_t kinds = (size_t)c->kind_count, rows = (size_t)c->row_count, classes = (size_t)p->class_count;
    c->sum = arena_alloc(&c->arena, (size_t)c->width * classes, sizeof *c->sum);
    c->kind = arena_alloc(&c->arena, kinds, sizeof *c->kind);
    c->cells = arena_alloc(&c->arena, kinds, sizeof *c->cells);
    c->least_use = arena_alloc(&c->arena, kinds * (LIMIT_COUNT + 1), sizeof *c->least_use);
    c->best = arena_alloc(&c->arena, rows * (size_t)c->width, sizeof *c->best);
    c->end = arena_alloc(&c->arena, rows * (size_t)c->width, sizeof *c->end);
    c->turn = arena_alloc(&c->arena, rows * (size_t)c->width, sizeof *c->turn);
    c->nearest = arena_alloc(&c->arena, rows, sizeof *c->nearest);
    c->farthest = arena_alloc(&c->arena, rows, sizeof *c->farthest);
    if (!c->sum || !c->kind || !c->cells || !c->least_use || !c->best || !c->end || !c->turn || !c->nearest ||
        !c->farthest)
        return fail_kind(err, ERROR_ENVIRONMENT, "check: out of memory");
    for (int l = 0; l < p->layer_count; l++) {
        memcpy(&c->sum[(size_t)(l + 1) * classes], &c->sum[(size_t)l * classes], classes * sizeof *c->sum);
        c->sum[(size_t)(l + 1) * classes + (size_t)p->class_of[l]]++;
    }
    for (int k = 0; k < c->kind_count; k++) {
        int like = meshes > 0 && k >= p->turn_count ? c->kind[k - p->turn_count] : 0; /* with a mesh less */
        if (meshes > 0 && !same_kind(&p->stages[like], &p->stages[k]))
            like = k;
        while (!same_kind(&p->stages[like], &p->stages[k]))
            like++;
        c->kind[k] = like;
    }
    return ((!cells || number_contents(c)) && sum_least(c)) ||
           fail_kind(err, ERROR_ENVIRONMENT, "check: out of memory");
}

/* ---- cells ---- */

static struct cell *cell_at(struct cutter *c, int kind, int first, int end)
{
    struct cell **row = &c->cells[c->kind[kind]];
    if (!*row)
        *row = arena_alloc(&c->arena, (size_t)c->content_count, sizeof **row);
    if (!*row)
        return NULL;
    struct cell *cell = &(*row)[c->content[first * c->width + end]];
    cell->least = max_i64(cell->least, least_of(c, kind, LIMIT_COUNT, first, end));
    return cell;
}

/* A closer bound of the cell under the present cap. */
static bool refine(struct cutter *c, struct cell *cell, int kind, int first, int end)
{
    int count[64], classes = c->p->class_count;
    int *counts = classes <= 64 ? count : arena_alloc(&c->arena, (size_t)classes, sizeof *counts);
    if (!counts)
        return fail_kind(c->err, ERROR_ENVIRONMENT, "check: out of memory");
    for (int i = 0; i < classes; i++)
        counts[i] = c->sum[end * classes + i] - c->sum[first * classes + i];
    int64_t least = 0;
    bool solve = cell->refinement != PLAIN;
    if (!stage_least_path(&c->p->stages[kind], counts, holds_both(c->p, first, end), c->cap_ns, solve, &least,
                          &cell->cost, &cell->times, c->err))
        return false;
    cell->least = max_i64(cell->least, least);
    cell->refinement = solve ? SOLVED : RELAXED;
    return true;
}

/* The cell's solution is one under the present cap too. */
static bool settled(const struct cutter *c, const struct cell *cell)
{
    return cell->least == INT64_MAX ||
           (cell->refinement == SOLVED && (cell->cost == INT64_MAX || cell->times <= c->cap_ns));
}

/* ---- cuts ---- */

static bool too_long(const struct cutter *c, int index, int first, int end)
{
    const struct stage_kind *kind = &c->p->stages[index];
    int64_t waiting_ns = (kind->micro_batches - 1) * kind->waiting_ns;
    return least_of(c, index, LIMIT_BYTES, first, end) + kind->table->base_bytes > kind->capacity_bytes ||
           least_of(c, index, LIMIT_PATH, first, end) + waiting_ns > c->cap_ns;
}

/* The first layers with which a stage can begin on each row when none before it, or behind it, is too long. */
static void set_reach(struct cutter *c)
{
    int layers = c->p->layer_count, last = c->row_count - 1;
    for (int row = 0; row <= last; row++) {
        c->farthest[row] = row == 0 ? 0 : -1;
        c->nearest[row] = row == last ? layers : layers + 1;
    }
    for (int row = 0; row < last; row++)
        for (int turn = 0; turn < choices(c->p) && c->farthest[row] >= 0; turn++) {
            int behind = row_behind(c, row, turn), end = c->farthest[row];
            while (behind >= 0 && end < layers && !too_long(c, kind_at(c->p, row, turn), c->farthest[row], end + 1))
                end++;
            if (behind >= 0)
                c->farthest[behind] = (int)max_i64(c->farthest[behind], end);
        }
    for (int row = last - 1; row >= 0; row--)
        for (int turn = 0; turn < choices(c->p); turn++) {
            int behind = row_behind(c, row, turn), end = behind < 0 ? layers + 1 : c->nearest[behind], first = end;
            while (end <= layers && first > 0 && !too_long(c, kind_at(c->p, row, turn), first - 1, end))
                first--;
            c->nearest[row] = (int)min_i64(c->nearest[row], first);
        }
}

/* What is known of a stage; false: out of memory. */
static bool stage_least(struct cutter *c, int kind, int first, int end, int64_t *least)
{
    if (c->dual) {
        *least = max_i64(dual_least(c->dual[c->kind[kind]], first, end, c->cap_ns),
                         least_of(c, kind, LIMIT_COUNT, first, end));
        return true;
    }
    const struct cell *cell = cell_at(c, kind, first, end);
    *least = cell ? cell->least : 0;
    return cell || fail_kind(c->err, ERROR_ENVIRONMENT, "check: out of memory");
}

static bool best_with(struct cutter *c, int row, int turn, int first)
{
    int behind = row_behind(c, row, turn), kind = behind < 0 ? 0 : kind_at(c->p, row, turn),
        at = row * c->width + first;
    for (int end = first + 1; behind >= 0 && end <= c->farthest[behind] && !too_long(c, kind, first, end); end++) {
        int64_t rest = end < c->nearest[behind] ? INT64_MAX : c->best[behind * c->width + end];
        if (rest == INT64_MAX)
            continue;
        rest += end < c->p->layer_count ? c->p->cut_ns : 0;
        int64_t least = least_of(c, kind, LIMIT_COUNT, first, end);
        if (c->best[at] < INT64_MAX && least + rest >= c->best[at])
            continue;
        if (!stage_least(c, kind, first, end, &least))
            return false;
        if (least < INT64_MAX && least + rest < c->best[at]) {
            c->best[at] = least + rest;
            c->end[at] = end;
            c->turn[at] = turn;
        }
    }
    return true;
}

/* The least sum of paths by what the cells say now. */
static bool sweep(struct cutter *c, int64_t *sum)
{
    int last = c->row_count - 1;
    set_reach(c);
    for (int row = last; row >= 0; row--)
        for (int first = c->nearest[row]; first <= c->farthest[row]; first++) {
            c->best[row * c->width + first] = row == last && first == c->p->layer_count ? 0 : INT64_MAX;
            for (int turn = 0; row < last && turn < choices(c->p); turn++)
                if (!best_with(c, row, turn, first))
                    return false;
        }
    *sum = c->nearest[0] == 0 ? c->best[0] : INT64_MAX;
    return true;
}

/* Refines the best cut's cells; *moved false: all of them are settled, and *value is the formula's value of the plan
 * that they make; INT64_MAX when for a cell none was found. */
static bool refine_cut(struct cutter *c, bool *moved, int64_t *value)
{
    int64_t sum = c->p->sends_ns, longest = INT64_MIN;
    *moved = false;
    for (int row = 0, first = 0; first < c->p->layer_count;) {
        int at = row * c->width + first, end = c->end[at], kind = kind_at(c->p, row, c->turn[at]);
        struct cell *cell = cell_at(c, kind, first, end);
        if (!cell)
            return fail_kind(c->err, ERROR_ENVIRONMENT, "check: out of memory");
        if (!settled(c, cell)) {
            *moved = true;
            if (!refine(c, cell, kind, first, end))
                return false;
        }
        sum =
            sum == INT64_MAX || cell->cost == INT64_MAX ? INT64_MAX : sum + cell->cost + (first > 0 ? c->p->cut_ns : 0);
        longest = max_i64(longest, cell->times);
        row = row_behind(c, row, c->turn[at]);
        first = end;
    }
    *value = sum == INT64_MAX ? INT64_MAX : sum + longest;
    return true;
}

/* Down from cap to cap. */
static bool descend(struct cutter *c, int64_t bound_ns, enum cut_verdict *verdict, int64_t *witness_ns)
{
    int64_t sum = 0, value = 0;
    *verdict = CUT_HOLDS;
    c->cap_ns = bound_ns - 1 - c->p->sends_ns;
    for (int pass = 0;; pass++) {
        bool moved = true;
        if (pass == MOST_PASSES) {
            *verdict = CUT_UNDECIDED;
            return true;
        }
        if (!sweep(c, &sum))
            return false;
        if (sum == INT64_MAX)
            return true;
        int64_t cap_ns = bound_ns - 1 - c->p->sends_ns - sum;
        if (cap_ns < c->cap_ns) {
            c->cap_ns = cap_ns;
            continue;
        }
        if (!refine_cut(c, &moved, &value))
            return false;
        if (moved)
            continue;
        *verdict = value < bound_ns ? CUT_REFUTED : CUT_UNDECIDED;
        *witness_ns = value;
        return true;
    }
}

/* One stage: its path and its longest time together are the step. */
static bool whole_is_long(struct cutter *c, int64_t bound_ns, bool *out)
{
    const struct cut_problem *p = c->p;
    int64_t least = 0;
    *out = false;
    if (p->stage_count != 1 || p->mesh_count > 0)
        return true;
    const int *counts = &c->sum[(size_t)p->layer_count * (size_t)p->class_count];
    if (!stage_least_total(&p->stages[0], counts, holds_both(p, 0, p->layer_count), &least, c->err))
        return false;
    *out = least == INT64_MAX || p->sends_ns + least >= bound_ns;
    return true;
}

bool cut_check(const struct cut_problem *problem, int64_t bound_ns, enum cut_verdict *verdict, int64_t *witness_ns,
               struct error *err)
{
    struct cutter c;
    *verdict = CUT_HOLDS;
    if (problem->stage_count > problem->layer_count)
        return true;
    bool proven = false;
    bool good = cutter_open(&c, problem, true, err) && whole_is_long(&c, bound_ns, &proven) &&
                (proven || descend(&c, bound_ns, verdict, witness_ns));
    arena_free(&c.arena);
    return good;
}

/* ---- by multipliers ---- */

/* The longest stage is no shorter than the mean. */
static int64_t mean_longest(const struct cut_problem *p, int64_t sum)
{
    int64_t waiting_ns = INT64_MAX;
    for (int k = 0; k < p->stage_count; k++)
        waiting_ns = min_i64(waiting_ns, p->stages[k].waiting_ns);
    return (p->stages[0].micro_batches - 1) * (ceil_div(sum, p->stage_count) + waiting_ns);
}

static bool descend_dual(struct cutter *c, int64_t bound_ns, bool *proven)
{
    int64_t sum = 0, cap_ns = bound_ns - 1 - c->p->sends_ns;
    for (int pass = 0; pass < MOST_PASSES && (pass == 0 || cap_ns < c->cap_ns); pass++) {
        c->cap_ns = cap_ns;
        if (!sweep(c, &sum))
            return false;
        *proven = sum == INT64_MAX || c->p->sends_ns + sum + mean_longest(c->p, sum) >= bound_ns;
        if (*proven)
            return true;
        cap_ns = bound_ns - 1 - c->p->sends_ns - sum;
    }
    return true;
}

bool cut_check_dual(const struct cut_problem *problem, const struct dual_claim *claim, int64_t bound_ns, bool *proven,
                    struct error *err)
{
    struct cutter c;
    *proven = problem->mesh_count == 0 && problem->stage_count > problem->layer_count;
    if (*proven || problem->mesh_count > 0)
        return true;
    bool good = cutter_open(&c, problem, false, err), usable = true;
    c.dual = arena_alloc(&c.arena, (size_t)problem->stage_count, sizeof *c.dual);
    good = good && (c.dual || fail_kind(err, ERROR_ENVIRONMENT, "check: out of memory"));
    for (int k = 0; good && k < c.kind_count; k++)
        if (c.kind[k] == k) {
            c.dual[k] = dual_open(&c.arena, &problem->stages[k], claim, problem->class_of, problem->layer_count);
            usable = usable && c.dual[k];
        }
    good = good && (!usable || descend_dual(&c, bound_ns, proven));
    arena_free(&c.arena);
    return good;
}

/* ---- without search ---- */

int64_t cut_value(const struct cut_problem *p, int stage_count, const int *first_layer, const int *turn,
                  const int *strategy)
{
    int64_t sum = p->sends_ns + (stage_count - 1) * p->cut_ns, longest = INT64_MIN;
    int left = p->mesh_count;
    for (int k = 0; k < stage_count; k++) {
        const struct stage_kind *kind = &p->stages[turn ? left * p->turn_count + turn[k] : k];
        int end = k + 1 < stage_count ? first_layer[k + 1] : p->layer_count;
        int64_t total[LIMIT_COUNT] = { kind->table->base_bytes }, peak = 0;
        for (int l = first_layer[k]; l < end; l++) {
            const struct layer_price *price = price_at(kind->table, p->class_of[l], strategy[l]);
            int64_t use[LIMIT_COUNT];
            stage_layer_use(kind, price, holds_both(p, first_layer[k], end), use);
            for (int r = 0; r < LIMIT_COUNT; r++)
                total[r] += use[r];
            peak = max_i64(peak, price->transient_bytes);
            sum += stage_layer_path_ns(price);
        }
        if (total[LIMIT_BYTES] + peak > kind->capacity_bytes)
            return INT64_MAX;
        int64_t waiting_ns = (kind->micro_batches - 1) * kind->waiting_ns;
        longest =
            max_i64(longest, max_i64(max_i64(total[LIMIT_PATH], total[LIMIT_TAIL]) + waiting_ns, total[LIMIT_LANE]));
        left -= turn ? p->turns[turn[k]] : 0;
    }
    return sum + longest;
}

/* Some stage of r replicas, which has at least m/r micro-batches, takes (m/r - 1) times its path beyond the first one:
 * taken r times, and over all G meshes together, that is at least the sum of (m - r) paths. */
static int64_t turns_bound(const struct cut_problem *p, int64_t sum, int64_t micro_batches)
{
    int most = 1;
    for (int i = 0; i < p->turn_count; i++)
        most = p->turns[i] > most ? p->turns[i] : most;
    return sum + max_i64(0, ceil_div((micro_batches - most) * sum, p->mesh_count));
}

int64_t cut_quick_bound(const struct cut_problem *p)
{
    int64_t sum = 0;
    int kinds = p->mesh_count > 0 ? p->turn_count : p->stage_count; /* that differ in their paths */
    const struct stage_kind *stages = &p->stages[p->mesh_count > 0 ? p->turn_count : 0]; /* of one mesh left */
    for (int l = 0; l < p->layer_count; l++) {
        int64_t least = INT64_MAX;
        for (int k = 0; k < kinds; k++)
            least = min_i64(least, layer_least(&stages[k], p->class_of[l], LIMIT_COUNT));
        sum += least;
    }
    if (p->mesh_count > 0)
        return turns_bound(p, sum, p->micro_batch_count);
    return sum + p->sends_ns + (p->stages[0].micro_batches - 1) * ceil_div(sum, p->stage_count);
}

bool cut_lacks_memory(const struct cut_problem *p)
{
    int64_t least = INT64_MAX, room = 0;
    int kinds = p->mesh_count > 0 ? (p->mesh_count + 1) * p->turn_count : p->stage_count;
    int most = p->stage_count > 0 ? p->stage_count : (int)min_i64(p->mesh_count, p->layer_count);
    for (int k = 0; k < kinds; k++) {
        int64_t sum = 0, own = 0;
        if (!p->stages[k].table)
            continue;
        for (int l = 0; l < p->layer_count; l++)
            sum += layer_least(&p->stages[k], p->class_of[l], LIMIT_BYTES);
        least = min_i64(least, sum);
        own = max_i64(0, p->stages[k].capacity_bytes - p->stages[k].table->base_bytes);
        room = p->mesh_count > 0 ? most * own : room + own;
    }
    return least > room;
}
