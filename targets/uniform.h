/* Plans whose layers are all treated alike, as what trains by them can be told no more. */
#ifndef CLEAVE_TARGETS_UNIFORM_H
#define CLEAVE_TARGETS_UNIFORM_H
#include "planner/search/search.h"

enum { UNIFORM_TRIES = 48 };
/* One value of each choice of layers. */
struct uniform_try {
    int64_t value[CHOICE_COUNT - LISTED_CHOICES];
    int64_t step_ns;    /* of its best plan; 0: nothing fits, or nothing that is shorter than what came before */
    int64_t formula_ns; /* with step_ns 0, by the closed form; 0: nothing that is not much longer than the best */
};
struct uniform_choice {
    int try_count, best; /* best: -1, nothing fits with any of them */
    struct uniform_try tries[UNIFORM_TRIES];
    struct space space; /* of the best try; where nothing fits, of that which lacks least */
};
/* Further demands, each may be NULL. */
struct uniform_demand {
    void *self;
    bool (*treats)(void *self,
                   const struct space *space);        /* whether layers may be treated so: one value of each choice */
    void (*narrows)(void *self, struct space *space); /* to what may go with such layers */
    /* Of several plans the best that keeps it is the first, and others are left out. */
    bool (*keeps)(void *self, const struct plan *plan);
    /* Told before plans are judged what the shortest takes by the closed form: of what shards no weights, if it may. */
    void (*weighed)(void *self, int64_t formula_ns);
};
/**
 * Searches the space once for each combination of the choices of layers that it allows, all layers alike: each by the
 * closed form, what may be the shortest by a glance, the best of these once more with all that a search does; so are
 * others of which the closed form misled, or that the best one's schedule may make shorter. *out is that search's
 * result, whose certificate is about its own combination, and the caller's. A time limit is for all searches together.
 * Fails as search_run().
 */
bool search_uniform(struct search_result **out, struct uniform_choice *choice, const struct model *model,
                    const struct facts *facts, const struct search_options *options,
                    const struct uniform_demand *demand, struct error *err);
#endif
