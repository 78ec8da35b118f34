/* Bands of places where stages can begin under a cap, and bounds of what is left from each of them on: handed down
 * along the steps from place to place. For one vector and one bin a stage's bound is a difference of two sums, so that
 * the least over all its ends needs no look at single stages. */
#include "planner/cut/partition_ideals.h"
#include "planner/cut/ideals.h"
#include "base/num.h"
#include <stdlib.h>
#include <string.h>

bool bands_reserve(void *array, int64_t *capacity, int64_t count, size_t size)
{
    if (count > *capacity && !ideals_grow(array, count, size))
        return false;
    *capacity = max_i64(*capacity, count);
    return true;
}

bool bands_open(struct solver *s)
{
    struct ideal_cut *c = arena_alloc(s->arena, 1, sizeof *c);
    s->ideal_cut = c;
    if (!c)
        return false;
    c->cap_ns = c->known_cap_ns = INT64_MIN;
    c->least_bytes = arena_alloc(s->arena, (size_t)s->sums, sizeof *c->least_bytes);
    c->before = arena_alloc(s->arena, (size_t)s->row_count, sizeof *c->before);
    c->band = arena_alloc(s->arena, (size_t)s->row_count, sizeof *c->band);
    c->need = arena_alloc(s->arena, (size_t)s->places, sizeof *c->need);
    if (arena_failed(s->arena))
        return false;
    for (int at = 1; at < s->sums; at++) {
        int64_t least = INT64_MAX;
        for (int level = 0; level < s->level_count; level++)
            least = min_i64(least, s->levels[level].least_bytes[at] - s->levels[level].least_bytes[at - 1]);
        c->least_bytes[at] = chain_sum_layer(s->problem->chain, at) < 0 ? 0 : c->least_bytes[at - 1] + least;
    }
    const struct chain *chain = s->problem->chain;
    int64_t m = s->problem->micro_batch_count;
    for (int place = 0; place < s->places; place++)
        c->need[place] = (struct room){ (m - 1) * chain_between(chain, s->least_path_ns, 0, place) +
                                            chain_between(chain, s->least_step_ns, 0, place),
                                        chain_between(chain, c->least_bytes, 0, place) };
    return true;
}

void bands_close(struct solver *s)
{
    struct ideal_cut *c = s->ideal_cut;
    if (!c)
        return;
    free(c->at);
    free(c->rest);
    free(c->own);
    free(c->better);
    free(c->least);
    free(c->place);
    free(c->known);
    free(c->options);
    s->ideal_cut = NULL;
}

/* ---- bands ---- */

static bool fits(const struct room *need, const struct room *room)
{
    return need->high_ns <= room->high_ns && need->bytes <= room->bytes;
}

/* Sets the room before each row, except where stages may have several meshes. False when a stage fits with no layer. */
static bool set_room(struct solver *s)
{
    struct room *before = s->ideal_cut->before;
    for (int row = 0; row + 1 < s->row_count && s->problem->mesh_count == 0; row++) {
        int level = s->level[row];
        struct room own = { s->cap_ns + stage_slack_ns(s) -
                                (s->levels[level].micro_batches - 1) * s->levels[level].period_ns,
                            s->problem->capacity_bytes - s->levels[level].table->base_bytes };
        if (own.high_ns < 0 || own.bytes < 0)
            return false;
        before[row + 1] = (struct room){ before[row].high_ns + own.high_ns, before[row].bytes + own.bytes };
    }
    return true;
}

/* True when there is room for the layers before the place and for those behind it. */
static bool has_room(const struct solver *s, int row, const struct room *need, const struct room *all)
{
    const struct room *before = s->ideal_cut->before, *most = &before[s->row_count - 1];
    struct room behind = { all->high_ns - need->high_ns, all->bytes - need->bytes },
                left = { most->high_ns - before[row].high_ns, most->bytes - before[row].bytes };
    return s->problem->mesh_count > 0 || (fits(need, &before[row]) && fits(&behind, &left));
}

/* Finds the rows in which stages can begin at the place; they follow each other, as room grows from row to row. */
static void find_rows(const struct solver *s, int place, const struct room *all, int *low, int *high)
{
    int final = s->row_count - 1;
    struct room need = s->ideal_cut->need[place];
    *low = place == 0 ? 0 : place == s->last ? final : 1;
    *high = place == 0 ? 0 : place == s->last ? final : final - 1;
    while (*low <= *high && !has_room(s, *low, &need, all))
        ++*low;
    while (*low <= *high && !has_room(s, *high, &need, all))
        --*high;
}

/* Counts the places of all rows, or lists them with what the layers behind take at least. */
static void visit_bands(struct solver *s, bool list)
{
    const struct branches *b = s->problem->chain->branches;
    struct room all = s->ideal_cut->need[s->last];
    size_t words = (size_t)b->words;
    for (int place = 0; place < s->places; place++) {
        int low, high;
        find_rows(s, place, &all, &low, &high);
        int64_t rest = list && low <= high ? chain_between(s->problem->chain, s->least_path_ns, place, s->last) : 0;
        for (int row = low; row <= high; row++) {
            struct band *band = &s->ideal_cut->band[row];
            if (list) {
                band->place[band->count] = place;
                band->rest[band->count] = rest;
                memcpy(&band->at[(size_t)band->count * words], &b->at[(size_t)place * words], words * sizeof *band->at);
            }
            band->count++;
        }
    }
}

static bool open_bands(struct solver *s)
{
    struct ideal_cut *c = s->ideal_cut;
    int64_t all = 0, words = s->problem->chain->branches->words;
    for (int row = 0; row < s->row_count; row++)
        c->band[row].count = 0;
    visit_bands(s, false);
    for (int row = 0; row < s->row_count; row++)
        all += c->band[row].count;
    if (!bands_reserve(&c->rest, &c->rest_capacity, all, sizeof *c->rest) ||
        !bands_reserve(&c->place, &c->place_capacity, all, sizeof *c->place) ||
        !bands_reserve(&c->at, &c->at_capacity, all * words, sizeof *c->at))
        return false;
    all = 0;
    for (int row = 0; row < s->row_count; row++) {
        int count = c->band[row].count;
        c->band[row] = (struct band){ 0, c->place + all, c->at + all * words, c->rest + all };
        all += count;
    }
    visit_bands(s, true);
    return true;
}

/* Leaves out places of which nothing more is to be known. */
static void drop_places(struct band *band, size_t words)
{
    int kept = 0;
    for (int i = 0; i < band->count; i++) {
        if (band->rest[i] >= OUT_OF_REACH)
            continue;
        band->place[kept] = band->place[i];
        band->rest[kept] = band->rest[i];
        memmove(&band->at[(size_t)kept++ * words], &band->at[(size_t)i * words], words * sizeof *band->at);
    }
    band->count = kept;
}

/* Narrows the bands under a lower cap, which has room for fewer; what bounds proved still holds. */
static void narrow_bands(struct solver *s)
{
    struct ideal_cut *c = s->ideal_cut;
    struct room all = s->ideal_cut->need[s->last];
    for (int row = 0; row < s->row_count; row++) {
        struct band *band = &c->band[row];
        for (int i = 0; i < band->count; i++) {
            if (!has_room(s, row, &c->need[band->place[i]], &all))
                band->rest[i] = OUT_OF_REACH;
        }
        drop_places(band, (size_t)s->problem->chain->branches->words);
    }
}

/* Sets the bands under the present cap. *any: each row has places. */
bool bands_set(struct solver *s, bool *any)
{
    struct ideal_cut *c = s->ideal_cut;
    bool lower = s->cap_ns <= c->cap_ns, same = s->cap_ns == c->cap_ns;
    *any = set_room(s);
    if (*any && !lower && !open_bands(s))
        return false;
    if (*any && lower && !same)
        narrow_bands(s);
    if (*any)
        c->cap_ns = s->cap_ns;
    for (int row = 0; row < s->row_count && s->problem->mesh_count == 0; row++)
        *any = *any && c->band[row].count > 0;
    return true;
}

/* ---- what is left ---- */

/* Says how a stage is bounded by differences: of one sum for each bin, or of the least path alone. */
struct slope {
    const int64_t *sum, *part; /* (sums, bins); (bins) what each bin adds; NULL: nothing */
    int bins, bits;            /* bits: fraction of a nanosecond */
    int64_t off;               /* what the limits take off */
};

static void add_sums(const struct branches *b, const struct slope *slope, int place, int64_t out[BINS])
{
    memset(out, 0, BINS * sizeof *out);
    for (int t = 0; t < b->tower_count; t++) {
        const int64_t *sum = &slope->sum[(b->tower_first[t] + branches_at(b, place, t)) * slope->bins];
        for (int i = 0; i < slope->bins; i++)
            out[i] += sum[i];
    }
}

static int64_t least_over_bins(const struct slope *slope, const int64_t *least, const int64_t sum[BINS])
{
    int64_t own = OUT_OF_REACH;
    for (int i = 0; i < slope->bins; i++)
        own = min_i64(own, least[i] - sum[i] + (slope->part ? slope->part[i] : 0));
    return (own - slope->off) >> slope->bits;
}

/* Gives the least over the places that are a step further, of those up to `to`. */
static bool least_of_steps(const struct branches *b, const int64_t *least, int bins, int place, int from, int to,
                           int64_t out[BINS])
{
    bool any = false;
    for (int i = 0; i < bins; i++)
        out[i] = INT64_MAX;
    for (int64_t k = b->first_up[place]; k < b->first_up[place + 1]; k++) {
        const int64_t *up = &least[(int64_t)(b->up_place[k] - from) * bins];
        any = any || b->up_place[k] <= to;
        for (int i = 0; b->up_place[k] <= to && i < bins; i++)
            out[i] = min_i64(out[i], up[i]);
    }
    return any && out[0] < INT64_MAX;
}

static int first_place(const struct band *band)
{
    return band->place[0];
}

static int last_place(const struct band *band)
{
    return band->place[band->count - 1];
}

/* Gives every place of the row a bound of the stage that begins there and of all that follow, handed down from place to
 * place; a place keeps its own where that is more. */
static void hand_down(struct solver *s, int row, int after, const struct slope *slope)
{
    struct ideal_cut *c = s->ideal_cut;
    const struct branches *b = s->problem->chain->branches;
    const struct band *band = &c->band[row], *next = &c->band[after];
    int bins = slope->bins, from = first_place(band), to = last_place(next), i = band->count - 1, j = next->count - 1;
    while (i >= 0 && band->place[i] > to)
        c->own[i--] = OUT_OF_REACH;
    for (int place = to; place >= from; place--) {
        int64_t *least = &c->least[(int64_t)(place - from) * bins], sum[BINS];
        bool begins = i >= 0 && band->place[i] == place, ends = j >= 0 && next->place[j] == place,
             any = least_of_steps(b, c->least, bins, place, from, to, least);
        if (begins || ends)
            add_sums(b, slope, place, sum);
        if (begins) {
            c->own[i] = any ? max_i64(c->own[i], least_over_bins(slope, least, sum)) : OUT_OF_REACH;
            i--;
        }
        int64_t rest = ends ? next->rest[j--] : OUT_OF_REACH;
        for (int k = 0; rest < OUT_OF_REACH && k < bins; k++)
            least[k] = min_i64(least[k], rest * (INT64_C(1) << slope->bits) + sum[k]);
    }
}

/* Hands down by all that bounds stages with that number of meshes; of several numbers the best one counts. */
static void hand_down_leg(struct solver *s, int row, int shape)
{
    struct ideal_cut *c = s->ideal_cut;
    const struct band *band = &c->band[row];
    int after = row_after(s, row, shape), level = s->level[row * s->shape_count + shape];
    if (after < 0 || c->band[after].count == 0)
        return;
    memset(c->own, 0, (size_t)band->count * sizeof *c->own);
    hand_down(s, row, after, &(struct slope){ .sum = s->levels[level].path_ns, .bins = 1 });
    for (int v = 0; v < s->levels[level].vectors.count; v++) {
        const struct vector *vector = &s->levels[level].vectors.at[v];
        hand_down(s, row, after,
                  &(struct slope){ vector->sum, vector->peak_part, BINS, VECTOR_SUM_BITS, vector->cap_part });
    }
    for (int i = 0; i < band->count; i++)
        c->better[i] = min_i64(c->better[i], c->own[i]);
}

/* Reserves room for what is handed down from any row to any that may be before it. */
static bool reserve_least(struct solver *s)
{
    struct ideal_cut *c = s->ideal_cut;
    int64_t own = 0, widest = 0;
    for (int row = 0; row < s->row_count; row++)
        for (int shape = 0; c->band[row].count > 0 && shape < s->shape_count; shape++) {
            int after = row + 1 < s->row_count ? row_after(s, row, shape) : -1, from = first_place(&c->band[row]);
            own = max_i64(own, c->band[row].count);
            if (after >= 0 && c->band[after].count > 0)
                widest = max_i64(widest, last_place(&c->band[after]) - from + 1);
        }
    return bands_reserve(&c->own, &c->own_capacity, own, sizeof *c->own) &&
           bands_reserve(&c->better, &c->better_capacity, own, sizeof *c->better) &&
           bands_reserve(&c->least, &c->least_capacity, widest * BINS, sizeof *c->least);
}

/* Bounds what is left from each place on, under the present cap. No choice takes longer than all layers at most. */
bool bands_bound(struct solver *s)
{
    struct ideal_cut *c = s->ideal_cut;
    int64_t most = s->problem->mesh_count > 0 ? OUT_OF_REACH >> (VECTOR_SUM_BITS + 4)
                                              : chain_between(s->problem->chain, s->most_path_ns, 0, s->last);
    if (!reserve_least(s))
        return false;
    for (int row = s->row_count - 2; row >= 0; row--) {
        struct band *band = &c->band[row];
        for (int i = 0; i < band->count; i++)
            c->better[i] = OUT_OF_REACH;
        for (int shape = 0; band->count > 0 && shape < s->shape_count; shape++)
            hand_down_leg(s, row, shape);
        for (int i = 0; i < band->count; i++) {
            int64_t *rest = &band->rest[i];
            *rest = max_i64(*rest, c->better[i]);
            *rest = *rest > most ? OUT_OF_REACH : *rest;
        }
        drop_places(band, (size_t)s->problem->chain->branches->words);
    }
    return true;
}
