/* The best cut of a chain with branches under one cap. Of a million places most hold each other, far too many stages to
 * look at. So places are left out for which there is no room before or behind them, and branch and bound from the first
 * place on looks only at stages that may be on a better cut, the best bound first; what was found of a place is kept.
 * Where that takes long, what is left from each place on is bounded first (partition_bands.c). */
#include "planner/cut/partition_ideals.h"
#include "base/num.h"
#include <stdlib.h>
#include <string.h>

/* Counts work in places looked at; bounding a stage counts for several. STOP_WORK: between two looks at the clock. */
enum { BOUND_WORK = 16, STOP_WORK = 1 << 20 };
static const struct ideal_limits usual_limits = { .tie_places = 1 << 13,
                                                  .trial_work = 4,
                                                  .most_work = INT64_C(1) << 34 };

static const struct ideal_limits *limits_of(const struct solver *s)
{
    return s->problem->ideal_limits ? s->problem->ideal_limits : &usual_limits;
}

/* ---- what is known ---- */

static struct known *find_known(const struct ideal_cut *c, uint64_t key)
{
    size_t at = mix64(key) & (c->known_size - 1);
    while (c->known[at].key && c->known[at].key != key)
        at = (at + 1) & (c->known_size - 1);
    return &c->known[at];
}

static bool keep_known(struct ideal_cut *c, const struct known *known)
{
    if (2 * c->known_used >= c->known_size) {
        struct ideal_cut grown = { .known_size = c->known_size ? 2 * c->known_size : 1024 };
        grown.known = calloc(grown.known_size, sizeof *grown.known);
        if (!grown.known)
            return false;
        for (size_t i = 0; i < c->known_size; i++)
            if (c->known[i].key)
                *find_known(&grown, c->known[i].key) = c->known[i];
        free(c->known);
        c->known = grown.known;
        c->known_size = grown.known_size;
    }
    struct known *to = find_known(c, known->key);
    c->known_used += to->key == 0;
    *to = *known;
    return true;
}

/* ---- branch and bound ---- */

static bool comes_before(const struct option *a, const struct option *b)
{
    if (a->ns != b->ns)
        return a->ns < b->ns;
    if (a->solved != b->solved)
        return a->solved;
    if (a->crossing != b->crossing)
        return a->crossing < b->crossing;
    return a->end != b->end ? a->end < b->end : a->shape < b->shape;
}

/* Sinks an option into a heap that has the next one first. */
static void sink(struct option *heap, int64_t count, int64_t at)
{
    struct option moved = heap[at];
    for (int64_t below = 2 * at + 1; below < count; at = below, below = 2 * at + 1) {
        if (below + 1 < count && comes_before(&heap[below + 1], &heap[below]))
            below++;
        if (!comes_before(&heap[below], &moved))
            break;
        heap[at] = heap[below];
    }
    heap[at] = moved;
}

/* Looks at the clock now and then. */
static void spend(struct solver *s, int64_t work)
{
    struct ideal_cut *c = s->ideal_cut;
    c->work += work;
    c->given_up = c->given_up || c->work > c->work_limit;
    s->exhausted = s->exhausted || c->work > limits_of(s)->most_work;
    s->stopped = s->stopped || s->exhausted;
    if (c->work >= c->next_stop) {
        c->next_stop = c->work + STOP_WORK;
        s->stopped = s->stopped || (s->problem->stops && s->problem->stops(s->problem->self));
    }
}

static bool gives_up(const struct solver *s)
{
    return s->stopped || s->ideal_cut->given_up;
}

/* Keeps a stage that may be on a cut of at most limit_ns from where it begins; else *open is what bounded it. */
static bool look_at(struct solver *s, const struct stage_spot *at, int index, int64_t rest, int64_t limit_ns,
                    int64_t *open)
{
    int first = at->first, end = at->end;
    int64_t lower = 0, ends_ns = level_ends_ns(s->problem, row_meshes(s, at->row), at->shape, first, end);
    int64_t path = chain_between(s->problem->chain, s->levels[at->level].path_ns, first, end);
    int64_t least = path + ends_ns + rest, waiting_ns = s->levels[at->level].period_ns;
    struct cell *cell = NULL;
    if ((s->levels[at->level].micro_batches - 1) * (path + waiting_ns) > s->cap_ns + stage_slack_ns(s))
        return true; /* stage_too_long(), sooner */
    if (least > limit_ns)
        *open = min_i64(*open, least);
    if (least > limit_ns || stage_too_long(s, at->level, first, end))
        return true;
    if (!stage_known(s, at->level, first, end, limit_ns - ends_ns - rest + 1, &cell, &lower))
        return false;
    spend(s, BOUND_WORK);
    if (lower == INT64_MAX)
        return true;
    bool solved = cell && cell->solution >= 0;
    struct option option = { .ns = lower + ends_ns + rest,
                             .stage_ns = lower + ends_ns,
                             .high_ns = solved ? record_high_ns(s, &cell->records[cell->solution]) : s->cap_ns,
                             .end = end,
                             .shape = at->shape,
                             .index = index,
                             .crossing = s->problem->chain->branches->crossing[end],
                             .solved = solved };
    struct ideal_cut *c = s->ideal_cut;
    if (option.ns > limit_ns) {
        *open = min_i64(*open, option.ns);
        return true;
    }
    if (c->option_count == c->option_capacity &&
        !bands_reserve(&c->options, &c->option_capacity, 2 * c->option_capacity + 1024, sizeof *c->options))
        return false;
    c->options[c->option_count++] = option;
    return true;
}

/* Tells which of up to 64 places of a band hold the place before them, bit by bit, without branches hard to foresee. */
static uint64_t holders(const struct branches *b, const struct band *band, int from, int first)
{
    const uint64_t *own = &b->at[(size_t)first * (size_t)b->words];
    uint64_t bits = 0;
    for (int i = 0; i < 64 && from + i < band->count; i++)
        bits |= (uint64_t)branches_within(b, own, &band->at[(size_t)(from + i) * (size_t)b->words]) << i;
    return bits;
}

/* Looks at all stages of one number of meshes that begin there. */
static bool look_at_all(struct solver *s, int row, int shape, int first, int64_t limit_ns, int64_t *open)
{
    int after = row_after(s, row, shape);
    if (after < 0)
        return true;
    const struct band *band = &s->ideal_cut->band[after];
    struct stage_spot at = { .row = row, .shape = shape, .level = s->level[row * s->shape_count + shape] };
    int begin; /* the first of the band that is further than the place */
    BISECT(begin, band->count, k, band->place[k] <= first);
    for (int i = begin; i < band->count && !gives_up(s); i += 64) {
        spend(s, 64);
        for (uint64_t bits = holders(s->problem->chain->branches, band, i, first); bits; bits &= bits - 1) {
            int index = i + __builtin_ctzll(bits);
            at.first = first;
            at.end = band->place[index];
            if (band->rest[index] > limit_ns)
                *open = min_i64(*open, band->rest[index]);
            else if (!look_at(s, &at, index, band->rest[index], limit_ns, open))
                return false;
        }
    }
    return true;
}

static bool is_better(const struct known *a, const struct known *b)
{
    if (a->ns != b->ns)
        return a->ns < b->ns;
    return a->high_ns != b->high_ns ? a->high_ns < b->high_ns : a->crossing < b->crossing;
}

static uint64_t spot_key(const struct solver *s, int row, int first)
{
    return (uint64_t)row * (uint64_t)s->places + (uint64_t)first + 1;
}

/* Finds the least sum of C from a place of the band on in all stages from the row on, if it is at most limit_ns; else a
 * bound above that. Of equals it takes the one with the smaller maximum Y, and of these the one where less crosses;
 * with very many places any of them. */
static bool least_from(struct solver *s, int row, int index, int64_t limit_ns, struct known *out)
{
    struct ideal_cut *c = s->ideal_cut;
    int first = c->band[row].place[index];
    int64_t base = c->option_count, open = OUT_OF_REACH, ties = s->places <= limits_of(s)->tie_places ? 0 : 1;
    struct known best = { .key = spot_key(s, row, first), .ns = OUT_OF_REACH };
    *out = c->known_size > 0 ? *find_known(c, best.key) : (struct known){ 0 };
    if (first == s->last)
        *out = (struct known){ .high_ns = INT64_MIN };
    if (first == s->last || (out->key && (out->sweep == c->sweep || out->ns > limit_ns)))
        return true;
    for (int shape = 0; shape < s->shape_count; shape++)
        if (!look_at_all(s, row, shape, first, limit_ns, &open))
            return false;
    for (int64_t i = (c->option_count - base) / 2 - 1; i >= 0; i--)
        sink(&c->options[base], c->option_count - base, i);
    while (c->option_count > base && c->options[base].ns <= limit_ns && !gives_up(s)) {
        struct option option = c->options[base];
        struct known behind;
        c->options[base] = c->options[--c->option_count];
        if (c->option_count > base)
            sink(&c->options[base], c->option_count - base, 0);
        if (!least_from(s, row_after(s, row, option.shape), option.index, limit_ns - option.stage_ns, &behind))
            return false;
        struct known way = { best.key,
                             min_i64(OUT_OF_REACH, option.stage_ns + behind.ns),
                             max_i64(option.high_ns, behind.high_ns),
                             option.end,
                             option.shape,
                             option.crossing + behind.crossing,
                             c->sweep };
        if (way.ns > limit_ns)
            open = min_i64(open, way.ns);
        else if (best.sweep == 0 || is_better(&way, &best))
            best = way;
        limit_ns = best.sweep ? best.ns - ties : limit_ns;
    }
    if (best.sweep == 0)
        best.ns = c->option_count > base ? min_i64(open, c->options[base].ns) : open;
    c->option_count = base;
    *out = best;
    if (gives_up(s))
        return true;
    c->band[row].rest[index] = max_i64(c->band[row].rest[index], best.ns);
    return keep_known(c, &best);
}

static bool search_cut(struct solver *s, int64_t work, struct known *found)
{
    struct ideal_cut *c = s->ideal_cut;
    *found = (struct known){ .ns = OUT_OF_REACH };
    c->sweep++;
    c->option_count = 0;
    c->given_up = false;
    c->work_limit = c->work + work;
    return c->band[0].count == 0 || least_from(s, 0, 0, min_i64(s->most_sum_ns, OUT_OF_REACH - 1), found);
}

bool ideals_sweep(struct solver *s, int64_t *sum)
{
    struct known found = { .ns = OUT_OF_REACH };
    bool any = false, good = (s->ideal_cut || bands_open(s)) && bands_set(s, &any);
    *sum = INT64_MAX;
    if (good && any) {
        /* what is proven under a cap holds under lower ones */
        struct ideal_cut *c = s->ideal_cut;
        if (s->cap_ns > c->known_cap_ns && c->known_size > 0) {
            memset(c->known, 0, c->known_size * sizeof *c->known);
            c->known_used = 0;
        }
        c->known_cap_ns = s->cap_ns;
        good = search_cut(s, limits_of(s)->trial_work * (int64_t)s->places, &found);
        if (good && s->ideal_cut->given_up && !s->stopped)
            good = bands_bound(s) && search_cut(s, limits_of(s)->most_work, &found);
    }
    if (!good)
        return fail_memory(s->err);
    if (s->stopped || found.ns >= OUT_OF_REACH)
        return true;
    if (found.ns > s->most_sum_ns) {
        s->open_sum_ns = min_i64(s->open_sum_ns, found.ns);
        return true;
    }
    *sum = found.ns;
    /* the stages of the cut that was found follow row by row; whoever walks it finds a cell of each */
    for (int row = 0, first = 0; first < s->last;) {
        const struct known *known = find_known(s->ideal_cut, spot_key(s, row, first));
        if (!stage_cell(s, s->level[row * s->shape_count + known->shape], first, known->end))
            return fail_memory(s->err);
        s->cutting.end[row] = known->end;
        s->cutting.shape[row] = (int8_t)known->shape;
        row = row_after(s, row, known->shape);
        first = known->end;
    }
    return true;
}

bool ideals_rest(struct solver *s, int64_t *sum)
{
    bool any = false;
    if ((!s->ideal_cut && !bands_open(s)) || !bands_set(s, &any) || (any && !bands_bound(s)))
        return fail_memory(s->err);
    *sum = any && s->ideal_cut->band[0].count > 0 ? s->ideal_cut->band[0].rest[0] : INT64_MAX;
    return true;
}
