#include "planner/check/check_cells.h"
#include "base/num.h"
#include <stdlib.h>
#include <string.h>

/* ---- rows ---- */

static bool same_kind(const struct stage_kind *a, const struct stage_kind *b)
{
    return a->table == b->table && a->capacity_bytes == b->capacity_bytes && a->in_flight == b->in_flight &&
           a->waiting_ns == b->waiting_ns;
}

void cells_like_kinds(const struct cut_problem *p, int *kind)
{
    int meshes = p->mesh_count;
    for (int k = 0; k < cut_kinds(p); k++) {
        int like = meshes > 0 && k >= p->shape_count ? kind[k - p->shape_count] : 0; /* with a mesh less */
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

int64_t cutter_least(const struct cutter *c, int kind, int what, int first, int end)
{
    const int64_t *sums = c->least_use[kind * (LIMIT_COUNT + 1) + what];
    return sums[end] - sums[first];
}

bool cutter_open(struct cutter *c, const struct cut_problem *p, struct error *err)
{
    *c = (struct cutter){ .p = p, .err = err, .width = cut_last(p) + 1 };
    c->kind_count = cut_kinds(p);
    c->row_count = cut_rows(p);
    size_t kinds = (size_t)c->kind_count, rows = (size_t)c->row_count, classes = (size_t)p->class_count,
           spots = rows * (size_t)c->width;
    c->sum = arena_alloc(&c->arena, (size_t)c->width * classes, sizeof *c->sum);
    c->kind = arena_alloc(&c->arena, kinds, sizeof *c->kind);
    c->cells = arena_alloc(&c->arena, kinds, sizeof *c->cells);
    c->least_use = arena_alloc(&c->arena, kinds * (LIMIT_COUNT + 1), sizeof *c->least_use);
    c->path = arena_alloc(&c->arena, spots, sizeof *c->path);
    c->step = arena_alloc(&c->arena, spots, sizeof *c->step);
    c->known = arena_alloc(&c->arena, kinds, sizeof *c->known);
    c->part = arena_alloc(&c->arena, rows, sizeof *c->part);
    c->counts = arena_alloc(&c->arena, classes, sizeof *c->counts);
    c->nearest = arena_alloc(&c->arena, rows, sizeof *c->nearest);
    c->farthest = arena_alloc(&c->arena, rows, sizeof *c->farthest);
    if (arena_failed(&c->arena))
        return fail_memory(err);
    for (int at = 1; at < c->width; at++) {
        int *sum = &c->sum[(size_t)at * classes];
        memcpy(sum, sum - classes, classes * sizeof *sum);
        sum[p->class_of[at - 1]]++;
    }
    cells_like_kinds(p, c->kind);
    return (number_contents(c) && sum_least(c)) || fail_memory(err);
}

/* ---- cells ---- */

struct stage_content cutter_content(struct cutter *c, int first, int end)
{
    int classes = c->p->class_count;
    for (int i = 0; i < classes; i++)
        c->counts[i] = c->sum[end * classes + i] - c->sum[first * classes + i];
    return (struct stage_content){ .count = c->counts, .holds_both = cut_holds_both(c->p, first, end) };
}

struct cutter_cell *cell_at(struct cutter *c, int kind, int first, int end)
{
    struct cutter_cell **row = &c->cells[c->kind[kind]], *cell;
    if (!*row)
        *row = arena_alloc(&c->arena, (size_t)c->content_count, sizeof **row);
    cell = *row ? &(*row)[c->content[first * c->width + end]] : NULL;
    if (!cell)
        return NULL;
    cell->least = max_i64(cell->least, cutter_least(c, kind, LIMIT_COUNT, first, end));
    if (cell->total == 0) {
        cell->total =
            cell->least + cutter_least(c, kind, LIMIT_PATH, first, end) + stage_waiting_ns(&c->p->stages[kind]);
        cell->total_most = INT64_MAX;
    }
    return cell;
}

bool cell_refine(struct cutter *c, struct cutter_cell *cell, int kind, int first, int end)
{
    struct stage_content content = cutter_content(c, first, end);
    int64_t least = 0;
    bool solve = cell->refinement != PLAIN;
    if (!stage_least_path(&c->p->stages[kind], &content, c->cap_ns, solve, &least, &cell->cost, &cell->ends, c->err))
        return false;
    cell->least = max_i64(cell->least, least);
    cell->refinement = solve ? SOLVED : RELAXED;
    return true;
}

bool cell_refine_total(struct cutter *c, struct cutter_cell *cell, int kind, int first, int end, bool solve,
                       int64_t enough_ns)
{
    struct stage_content content = cutter_content(c, first, end);
    int64_t least = 0, **known = &c->known[c->kind[kind]];
    if (!*known && !(*known = arena_alloc(&c->arena, LIMIT_COUNT, sizeof **known)))
        return fail_memory(c->err);
    if (!stage_least_total(&c->p->stages[kind], &content, solve, enough_ns, *known, &least, c->err))
        return false;
    if (least < enough_ns && solve)
        cell->total_most = least;
    else
        cell->total = max_i64(cell->total, least);
    cell->total_relaxed = cell->total_relaxed || least < enough_ns;
    return true;
}

bool cell_settled(const struct cutter *c, int kind, const struct cutter_cell *cell)
{
    return cell->least == INT64_MAX ||
           (cell->refinement == SOLVED &&
            (cell->cost == INT64_MAX || stage_longest_ns(cell->ends, c->p->stages[kind].from_ns) <= c->cap_ns));
}

void cutter_close(struct cutter *c)
{
    arena_free(&c->arena);
}
