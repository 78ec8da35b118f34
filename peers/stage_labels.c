/* The labels of a pass: in lists by ideal, or, where one exact axis keeps them apart, in slots by use. */
#include "peers/stage_walk.h"
#include <math.h>
#include <stdlib.h>

/* Whether label a is as good as label b. Below the limit devices left are all that counts by use; equal use keeps the
 * smaller value unless a pass only decides. */
bool stage_labels_dominate(const struct stage_walk *walk, const struct stage_label *a, const struct stage_label *b)
{
    bool equal = true;
    for (int axis = 0; axis < STAGE_AXES; axis++) {
        if (walk->model->axis_exact[axis] ? a->used[axis] != b->used[axis] : a->used[axis] > b->used[axis])
            return false;
        equal = equal && a->used[axis] == b->used[axis];
    }
    return (equal ? walk->decides : walk->by_use) || a->value <= b->value;
}

bool stage_labels_beat(const struct stage_walk *walk, int above, const int used[STAGE_AXES])
{
    struct stage_label fresh = { .value = -INFINITY, .used = { (int16_t)used[0], (int16_t)used[1] } };
    for (int l = walk->head[above]; l >= 0; l = walk->labels[l].next)
        if (stage_labels_dominate(walk, &walk->labels[l], &fresh))
            return true;
    return false;
}

static bool new_label(struct stage_walk *walk, const struct stage_label *label)
{
    if (walk->label_count == walk->label_capacity) {
        int capacity = walk->label_capacity ? walk->label_capacity * 2 : 1024;
        struct stage_label *grown =
            capacity > walk->label_capacity ? reallocarray(walk->labels, (size_t)capacity, sizeof *grown) : NULL;
        if (!grown)
            return fail_memory(walk->err);
        walk->labels = grown;
        walk->label_capacity = capacity;
    }
    walk->labels[walk->label_count] = *label;
    walk->head[label->ideal] = walk->label_count++;
    return true;
}

static void hold_use(struct stage_walk *walk, const struct stage_label *label)
{
    struct stage_use *use = stage_labels_use(walk, label->ideal, 0);
    for (int u = label->used[1]; u <= walk->model->axis_limit[1] && use[u].held > label->used[0]; u++)
        use[u].held = label->used[0];
}

size_t stage_labels_slot(const struct stage_walk *walk, int ideal, int used)
{
    return (size_t)ideal * (size_t)(walk->model->axis_limit[0] + 1) + (size_t)used;
}

/* Uses do not dominate each other: each has its slot. */
static bool insert_in_slot(struct stage_walk *walk, const struct stage_label *label)
{
    size_t at = stage_labels_slot(walk, label->ideal, label->used[0]);
    if (walk->slot[at] >= 0) {
        struct stage_label *old = &walk->labels[walk->slot[at]];
        if (!(label->value < old->value))
            return true;
        int next = old->next;
        *old = *label;
        old->next = next;
    } else {
        walk->slot[at] = walk->label_count;
        if (!new_label(walk, label))
            return false;
    }
    walk->slot_value[at] = walk->decides ? -INFINITY : label->value;
    return true;
}

/* Keeps the label unless another one is as good; what it makes superfluous goes. */
bool stage_labels_insert(struct stage_walk *walk, struct stage_label label)
{
    int *link = &walk->head[label.ideal], reuse = -1;
    label.next = *link;
    if (walk->slot)
        return insert_in_slot(walk, &label);
    while (*link >= 0) {
        struct stage_label *other = &walk->labels[*link];
        if (stage_labels_dominate(walk, other, &label))
            return true;
        if (stage_labels_dominate(walk, &label, other)) {
            reuse = *link;
            *link = other->next;
        } else {
            link = &other->next;
        }
    }
    label.next = walk->head[label.ideal];
    if (walk->uses)
        hold_use(walk, &label);
    if (reuse < 0)
        return new_label(walk, &label);
    walk->labels[reuse] = label;
    walk->head[label.ideal] = reuse;
    return true;
}
