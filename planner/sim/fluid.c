#include "planner/sim/fluid.h"
#include "base/num.h"

bool fluid_open(struct fluid *fluid, struct arena *arena, int slot_count, int64_t link_count)
{
    *fluid = (struct fluid){ .arena = arena };
    fluid->links = arena_alloc(arena, (size_t)link_count, sizeof *fluid->links);
    fluid->slots = arena_alloc(arena, (size_t)slot_count, sizeof *fluid->slots);
    fluid->changed = arena_alloc(arena, (size_t)slot_count, sizeof *fluid->changed);
    return fluid->links && fluid->slots && fluid->changed;
}

/* Prepares a slot that is one of several on some link: it gets its passages. */
static bool prepare(struct fluid *fluid, int slot)
{
    struct fluid_slot *s = &fluid->slots[slot];
    if (!s->passages)
        s->passages = arena_alloc(fluid->arena, MAX_LINK_USES, sizeof *s->passages);
    s->speed = LINK_WHOLE;
    fluid->any = true;
    return s->passages != NULL;
}

bool fluid_announce(struct fluid *fluid, int slot, const struct link_uses *uses)
{
    for (int i = 0; i < uses->count; i++) {
        struct fluid_link *link = &fluid->links[uses->use[i].link];
        if (link->user == 0)
            link->user = slot + 1;
        if (link->user == slot + 1 && !link->shared)
            continue;
        if (!prepare(fluid, slot) || !prepare(fluid, link->user - 1))
            return false;
        link->shared = true;
    }
    return true;
}

bool fluid_shares(const struct fluid *fluid, const struct link_uses *uses)
{
    for (int i = 0; fluid->any && i < uses->count; i++)
        if (fluid->links[uses->use[i].link].shared)
            return true;
    return false;
}

static void soil(struct fluid *fluid, int index)
{
    struct fluid_link *link = &fluid->links[index];
    if (link->dirty)
        return;
    link->dirty = true;
    link->next_dirty = fluid->first_dirty;
    fluid->first_dirty = index + 1;
}

void fluid_join(struct fluid *fluid, int slot, const struct link_uses *uses)
{
    struct fluid_slot *s = &fluid->slots[slot];
    s->speed = LINK_WHOLE;
    for (int i = 0; i < uses->count; i++) {
        const struct link_use *use = &uses->use[i];
        struct fluid_link *link = &fluid->links[use->link];
        if (!link->shared)
            continue;
        struct fluid_passage *p = &s->passages[s->passage_count++];
        *p = (struct fluid_passage){ .slot = slot,
                                     .link = use->link,
                                     .flows = use->flows,
                                     .busy = use->busy,
                                     .speed = LINK_WHOLE,
                                     .next = link->passages,
                                     .at = &link->passages };
        if (p->next)
            p->next->at = &p->next;
        link->passages = p;
        soil(fluid, use->link);
    }
}

void fluid_leave(struct fluid *fluid, int slot)
{
    struct fluid_slot *s = &fluid->slots[slot];
    for (int i = 0; i < s->passage_count; i++) {
        struct fluid_passage *p = &s->passages[i];
        *p->at = p->next;
        if (p->next)
            p->next->at = p->at;
        soil(fluid, p->link);
    }
    s->passage_count = 0;
}

/* Divides a link: passages that need less than their share of what is left take what they need, until all that remain
 * want more, and these share it by their flows. */
static void divide(struct fluid_link *link)
{
    int64_t left = LINK_WHOLE, flows = 0;
    for (struct fluid_passage *p = link->passages; p; p = p->next) {
        p->speed = 0;
        flows += p->flows;
    }
    for (bool content = true; content;) {
        int64_t taken = 0, gone = 0;
        for (struct fluid_passage *p = link->passages; p; p = p->next)
            if (p->speed == 0 && p->busy * flows <= left * p->flows) {
                p->speed = LINK_WHOLE;
                taken += p->busy;
                gone += p->flows;
            }
        left -= taken, flows -= gone;
        content = gone > 0;
    }
    for (struct fluid_passage *p = link->passages; p; p = p->next)
        if (p->speed == 0)
            p->speed = (int)max_i64(1, left * p->flows / flows * LINK_WHOLE / p->busy);
}

/* Notes a slot whose speed changes, since a transfer is as fast as its slowest link. */
static void touch(struct fluid *fluid, int slot)
{
    struct fluid_slot *s = &fluid->slots[slot];
    int speed = LINK_WHOLE;
    for (int i = 0; i < s->passage_count; i++)
        speed = (int)min_i64(speed, s->passages[i].speed);
    if (speed == s->speed)
        return;
    s->speed = speed;
    if (!s->touched)
        fluid->changed[fluid->changed_count++] = slot;
    s->touched = true;
}

void fluid_share(struct fluid *fluid)
{
    for (int i = 0; i < fluid->changed_count; i++)
        fluid->slots[fluid->changed[i]].touched = false;
    fluid->changed_count = 0;
    for (int i = fluid->first_dirty; i; i = fluid->links[i - 1].next_dirty)
        divide(&fluid->links[i - 1]);
    for (int i = fluid->first_dirty; i; i = fluid->links[i - 1].next_dirty) {
        for (struct fluid_passage *p = fluid->links[i - 1].passages; p; p = p->next)
            touch(fluid, p->slot);
        fluid->links[i - 1].dirty = false;
    }
    fluid->first_dirty = 0;
}
