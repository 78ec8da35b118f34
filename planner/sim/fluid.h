/* Links as fluids: what passes a link at a moment shares its rate, each transfer as many parts as it has flows. Who
 * needs less of a link than its share (another link is its slowest) leaves the rest to the others. */
#ifndef CLEAVE_SIM_FLUID_H
#define CLEAVE_SIM_FLUID_H
#include "base/arena.h"
#include "planner/cost/cost_links.h"

struct fluid_passage { /* a slot's place on a link */
    int slot, link;
    int flows, busy;
    int speed; /* that the link allows, of LINK_WHOLE */
    struct fluid_passage *next, **at;
};
struct fluid_slot {
    int speed; /* of LINK_WHOLE; as of the last fluid_share() */
    int passage_count;
    bool touched;
    struct fluid_passage *passages; /* (MAX_LINK_USES) */
};
struct fluid_link {
    int user; /* 1 + the first slot that ever uses it */
    bool shared, dirty;
    int next_dirty; /* 1 + its index */
    struct fluid_passage *passages;
};
/* slots: of which one transfer at a time is under way, such as a lane of a stage. */
struct fluid {
    struct arena *arena;
    int changed_count, first_dirty; /* first_dirty: 1 + its index */
    struct fluid_link *links;       /* (links) */
    struct fluid_slot *slots;       /* (slots) */
    int *changed;                   /* (slots) those whose speed fluid_share() changed */
    bool any;                       /* there is a link that several slots use */
};

/* Opens the links; everything lives in the arena. Of links that a single slot ever uses, told beforehand by
 * fluid_announce(), nothing is kept. False when out of memory. */
bool fluid_open(struct fluid *fluid, struct arena *arena, int slot_count, int64_t link_count);
bool fluid_announce(struct fluid *fluid, int slot, const struct link_uses *uses);
/* True when any of these links can be shared. */
bool fluid_shares(const struct fluid *fluid, const struct link_uses *uses);
/* These begin and end the slot's transfer. Speeds are as before until fluid_share(). */
void fluid_join(struct fluid *fluid, int slot, const struct link_uses *uses);
void fluid_leave(struct fluid *fluid, int slot);
/* Divides the links anew that somebody joined or left. The result depends on who is under way, not on who was first. */
void fluid_share(struct fluid *fluid);
#endif
