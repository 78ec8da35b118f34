/* With potentials, a pinch (an ideal that every chain of ideals passes through) lets most pairs go unseen: below and
 * above on different sides of a pinch are always nested, so that of all ideals below it only those matter, per choice
 * and per use of the axis, that no other beats in key and value. They form a stair, and the best step for an ideal
 * above is where value and difference of keys cross. */
#include "peers/stage_walk.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void stage_far_forget(struct stage_walk *walk)
{
    for (int i = 0; i < stage_walk_stairs(walk->model); i++)
        walk->stairs[i].count = 0;
}

/* First step whose key is at least so high. */
static int find_step(const struct far_stair *stair, double key)
{
    int low = 0, high = stair->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (stair->steps[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool add_step(struct stage_walk *walk, struct far_stair *stair, struct far_label fresh)
{
    int at = find_step(stair, fresh.key), first = at;
    if (at < stair->count && stair->steps[at].value <= fresh.value)
        return true;
    if (at < stair->count && stair->steps[at].key <= fresh.key) /* equal keys: the new value is smaller */
        at++;
    while (first > 0 && stair->steps[first - 1].value >= fresh.value)
        first--;
    if (first == at && stair->count == stair->capacity) {
        int capacity = stair->capacity ? 2 * stair->capacity : 16;
        struct far_label *grown = reallocarray(stair->steps, (size_t)capacity, sizeof *grown);
        if (!grown)
            return fail_memory(walk->err);
        stair->steps = grown;
        stair->capacity = capacity;
    }
    memmove(&stair->steps[first + 1], stair->steps + at, (size_t)(stair->count - at) * sizeof *stair->steps);
    stair->count += first + 1 - at;
    stair->steps[first] = fresh;
    return true;
}

/* The labels of `below` can now be seen from every ideal that follows. */
bool stage_far_show(struct stage_walk *walk, int below)
{
    const struct stage_model *model = walk->model;
    if (below == walk->start || walk->head[below] < 0)
        return true;
    for (int c = 0; c < model->choice_count; c++) {
        const struct potentials *low = &walk->potentials[(size_t)below * (size_t)model->choice_count + (size_t)c];
        for (int l = walk->head[below]; low->entry < walk->limit && l >= 0; l = walk->labels[l].next) {
            struct far_stair *stair = &walk->stairs[c * (model->axis_limit[0] + 1) + walk->labels[l].used[0]];
            if (!add_step(walk, stair, (struct far_label){ low->key, fmax(walk->labels[l].value, low->entry), l }))
                return false;
        }
    }
    return true;
}

/* The best of the stair under an ideal of this key: going up, the value grows and the difference of keys falls. */
static const struct far_label *best_step(const struct far_stair *stair, double key)
{
    int low = 0, high = stair->count;
    while (low < high) { /* first step whose value is at least the difference */
        int middle = low + (high - low) / 2;
        if (stair->steps[middle].value < key - stair->steps[middle].key)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == stair->count || (low > 0 && key - stair->steps[low - 1].key <= stair->steps[low].value))
        low--;
    return low < 0 ? NULL : &stair->steps[low];
}

bool stage_far_relax(struct stage_walk *walk, int above)
{
    const struct stage_model *model = walk->model;
    const int most = walk->ends ? stage_walk_ends(walk, above)->fits : model->axis_limit[0];
    for (int c = 0; c < model->choice_count; c++) {
        const struct potentials *high = &walk->potentials[(size_t)above * (size_t)model->choice_count + (size_t)c];
        if (!(high->exit < walk->limit))
            continue;
        for (int used = 0; used + model->choices[c].use[0] <= most; used++) {
            const struct far_label *far = best_step(&walk->stairs[c * (model->axis_limit[0] + 1) + used], high->key);
            if (!far || !(high->key - far->key < walk->limit))
                continue;
            size_t below = (size_t)walk->labels[far->label].ideal;
            double way_in = walk->potentials[below * (size_t)model->choice_count + (size_t)c].entry;
            double load = fmax(fmax(way_in, high->key - far->key), high->exit);
            if (stage_walk_must_stop(walk))
                return true;
            if (!stage_walk_extend(walk, far->label, above, c, load))
                return false;
        }
    }
    return true;
}
