/* What a walk knows of its ideals before the first pass. */
#include "peers/stage_walk.h"
#include <stdlib.h>

enum { SLOT_LIMIT = 64, POTENTIALS_LIMIT = 1 << 24, USES_LIMIT = 1 << 21 };

static int ideal_size(const struct ideals *ideals, int i)
{
    int size = 0;
    for (int w = 0; w < ideals->words; w++)
        size += __builtin_popcountll(ideal_bits(ideals, i)[w]);
    return size;
}

/* An ideal that is alone in its size is nested with all others. */
static void find_pinches(struct stage_walk *walk)
{
    const struct ideals *ideals = walk->ideals;
    int n = ideals->count, next = n;
    for (int i = n - 1; i >= 0; i--) {
        walk->pinch[i] = next;
        int size = ideal_size(ideals, i);
        bool alone = (i == 0 || ideal_size(ideals, i - 1) < size) && (i == n - 1 || ideal_size(ideals, i + 1) > size);
        if (alone)
            next = i;
    }
}

int stage_walk_stairs(const struct stage_model *model)
{
    return model->choice_count * (model->axis_limit[0] + 1);
}

bool stage_walk_is_exact(const struct stage_walk *walk)
{
    return walk->objective == VALUE_MAX && !walk->model->context;
}

static bool make_potentials(struct stage_walk *walk)
{
    const struct stage_model *model = walk->model;
    size_t n = (size_t)walk->ideals->count, choices = (size_t)model->choice_count;
    if (!model->key || n * choices > POTENTIALS_LIMIT)
        return true;
    walk->pinch = malloc(n * sizeof *walk->pinch);
    walk->stairs = calloc((size_t)stage_walk_stairs(model), sizeof *walk->stairs);
    walk->potentials = malloc(n * choices * sizeof *walk->potentials);
    if (!walk->pinch || !walk->stairs || !walk->potentials)
        return false;
    find_pinches(walk);
    for (int i = 0; i < walk->ideals->count; i++)
        for (int c = 0; c < model->choice_count; c++)
            walk->potentials[(size_t)i * choices + (size_t)c] =
                (struct potentials){ model->key(model->self, i, c), model->entry(model->self, i, c),
                                     model->exit(model->self, i, c) };
    return true;
}

static bool make_slots(struct stage_walk *walk)
{
    const struct stage_model *model = walk->model;
    size_t n = (size_t)walk->ideals->count, uses = (size_t)model->axis_limit[0] + 1;
    if (!stage_walk_is_exact(walk) || !model->axis_exact[0] || model->axis_limit[1] > 0 ||
        model->axis_limit[0] > SLOT_LIMIT)
        return true;
    walk->slot = malloc(n * uses * sizeof *walk->slot);
    walk->slot_value = malloc(n * uses * sizeof *walk->slot_value);
    walk->own = malloc(uses * sizeof *walk->own);
    walk->ends = walk->potentials ? malloc(n * sizeof *walk->ends) : NULL;
    walk->leaving = walk->potentials ? malloc(n * sizeof *walk->leaving) : NULL;
    walk->leaving_end = walk->potentials ? malloc(uses * sizeof *walk->leaving_end) : NULL;
    if (walk->potentials && (!walk->ends || !walk->leaving || !walk->leaving_end))
        return false;
    return walk->slot && walk->slot_value && walk->own;
}

static bool make_uses(struct stage_walk *walk)
{
    const struct stage_model *model = walk->model;
    size_t n = (size_t)walk->ideals->count, uses = (size_t)model->axis_limit[1] + 1;
    if (walk->slot || model->axis_exact[0] || model->axis_exact[1] || n * uses > USES_LIMIT)
        return true;
    walk->uses = malloc(n * uses * sizeof *walk->uses);
    return walk->uses != NULL;
}

bool stage_walk_make(struct stage_walk **out, const struct stage_model *model, const struct ideals *ideals,
                     enum stage_value objective, struct error *err)
{
    struct stage_walk *walk = calloc(1, sizeof *walk);
    if (!walk)
        return fail_memory(err);
    size_t n = (size_t)ideals->count;
    walk->model = model;
    walk->ideals = ideals;
    walk->objective = objective;
    walk->work_limit = walk->pass_limit = INT64_MAX;
    walk->head = malloc(n * sizeof *walk->head);
    walk->seen = calloc(n, sizeof *walk->seen);
    walk->path = malloc(((size_t)ideals->node_count + 2) * sizeof *walk->path);
    walk->way_end = malloc(((size_t)model->choice_count + 1) * sizeof *walk->way_end);
    if (!walk->head || !walk->seen || !walk->path || !walk->way_end || !make_potentials(walk) || !make_slots(walk) ||
        !make_uses(walk)) {
        stage_walk_free(walk);
        return fail_memory(err);
    }
    *out = walk;
    return true;
}

void stage_walk_free(struct stage_walk *walk)
{
    if (!walk)
        return;
    free(walk->labels);
    free(walk->head);
    free(walk->seen);
    free(walk->path);
    free(walk->uses);
    free(walk->potentials);
    free(walk->pinch);
    free(walk->ends);
    free(walk->leaving);
    free(walk->leaving_end);
    free(walk->slot);
    free(walk->slot_value);
    free(walk->own);
    free(walk->ways);
    free(walk->way_end);
    for (int i = 0; walk->stairs && i < stage_walk_stairs(walk->model); i++)
        free(walk->stairs[i].steps);
    free(walk->stairs);
    free(walk);
}
