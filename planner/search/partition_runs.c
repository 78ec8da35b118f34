/* Stages of several runs of layers, each run with its own layout. What they hand over to each other stands in the
 * stage's knapsack like a layer without a choice, so that all that holds of a stage of one layout holds of them. */
#include "base/num.h"
#include "planner/search/partition_parts.h"
#include <string.h>

static int64_t run_path(const struct solver *s, int layout, int first, int end)
{
    const int64_t *sum = s->layouts > 1 ? &s->layout_path_ns[layout * (s->layers + 1)] : s->least_path_ns;
    return sum[end] - sum[first];
}

int64_t runs_handover_path(const struct solver *s, const struct stage_runs *runs)
{
    const struct layer_price *handover[MOST_RUNS - 1];
    int64_t sum = 0;
    int count = stage_handovers(s->problem->table, s->problem->chain, runs, handover);
    for (int i = 0; i < count; i++)
        sum += path_ns(handover[i]);
    return sum;
}

int64_t runs_least_path(const struct solver *s, const struct stage_runs *runs)
{
    int64_t sum = runs_handover_path(s, runs);
    for (int i = 0; i < runs->count; i++)
        sum += run_path(s, runs->layout[i], runs->first[i], i + 1 < runs->count ? runs->first[i + 1] : runs->end);
    return sum;
}

/* Of equal stages: level, layers of each class and layout, handovers, and whether layers share a weight. 64 bits, so
 * that two different ones do not meet by chance. */
static uint64_t runs_key(const struct solver *s, int level, const struct stage_runs *runs)
{
    const struct chain *chain = s->problem->chain;
    uint64_t key = mix64(2 * (uint64_t)level + chain_holds_both(chain, runs->first[0], runs->end));
    for (int i = 0; i < runs->count; i++) {
        const uint64_t *sum = &s->layout_key[runs->layout[i] * (s->layers + 1)];
        key += sum[i + 1 < runs->count ? runs->first[i + 1] : runs->end] - sum[runs->first[i]];
        if (i > 0)
            key += mix64(
                ~(uint64_t)((chain->class_of[runs->first[i] - 1] * s->layouts + runs->layout[i - 1]) * s->layouts +
                            runs->layout[i]));
    }
    return mix64(key);
}

static struct run_slot *find_slot(const struct run_cells *cells, uint64_t key)
{
    size_t at = key & (cells->size - 1);
    while (cells->slots[at].cell && cells->slots[at].key != key)
        at = (at + 1) & (cells->size - 1);
    return &cells->slots[at];
}

static bool grow(struct solver *s, struct run_cells *cells)
{
    struct run_cells grown = { .size = cells->size ? 2 * cells->size : 256, .used = cells->used };
    grown.slots = arena_alloc(s->arena, grown.size, sizeof *grown.slots);
    if (!grown.slots)
        return false;
    for (size_t i = 0; i < cells->size; i++)
        if (cells->slots[i].cell)
            *find_slot(&grown, cells->slots[i].key) = cells->slots[i];
    *cells = grown;
    return true;
}

struct cell *runs_cell(const struct solver *s, int level, const struct stage_runs *runs)
{
    return s->run_cells.used > 0 ? find_slot(&s->run_cells, runs_key(s, level, runs))->cell : NULL;
}

bool runs_put_cell(struct solver *s, int level, const struct stage_runs *runs, struct cell *cell)
{
    if (2 * s->run_cells.used >= s->run_cells.size && !grow(s, &s->run_cells))
        return false;
    uint64_t key = runs_key(s, level, runs);
    *find_slot(&s->run_cells, key) = (struct run_slot){ key, cell };
    s->run_cells.used++;
    return true;
}

bool runs_start(struct solver *s)
{
    size_t width = (size_t)s->layers + 1;
    s->layout_key = arena_alloc(s->arena, width, (size_t)s->layouts * sizeof *s->layout_key);
    for (int i = 0; s->layout_key && i < s->layouts * s->layers; i++) {
        int layout = i / s->layers, l = i % s->layers;
        uint64_t *sum = &s->layout_key[(size_t)layout * width];
        sum[l + 1] = sum[l] + mix64((uint64_t)(s->problem->chain->class_of[l] * s->layouts + layout) + 1);
    }
    return s->layout_key != NULL;
}
