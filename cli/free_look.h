/* A glance at the space without a target's limits, under the same framework's prices: what fits there first, or what
 * the closed form says. It is made beside the search within the limits where there are threads. */
#ifndef CLEAVE_CLI_FREE_LOOK_H
#define CLEAVE_CLI_FREE_LOOK_H
#include "cli/space_options.h"
#include "models/model.h"
#include "planner/price/shelf.h"
#include "planner/search/search.h"
#include <pthread.h>

/* All zero: not begun. */
struct free_look {
    bool timed; /* set by who asks: the processor's time is reported, so that nothing runs beside the search */
    bool begun, apart, good;
    pthread_t thread;
    struct model model;
    const struct model *of;    /* what that was taken of */
    const struct facts *facts; /* borrowed */
    struct price_shelf prices; /* of that model under these facts: of 0.5 s of deepseek-v3 a second look spends 0.4 on them */
    struct search_options options;
    struct search_result *result;
    struct error err;
};
/* Begins to look for plans that take no longer than below_ns, in place of what was begun before; with threads on one of
 * its own. options: of the space within the limits; what they call and the inputs are borrowed until it is said or
 * freed. */
void free_look_begin(struct free_look *look, const struct inputs *in, const struct search_options *options,
                     int64_t below_ns);
/* Says what the limits cost a plan of step_ns, which takes formula_ns by the closed form; begins where nobody has. */
bool free_look_say(struct free_look *look, const struct cli *cli, const struct inputs *in,
                   const struct search_options *options, int64_t step_ns, int64_t formula_ns, struct error *err);
/* Waits for what is still looked for. */
void free_look_free(struct free_look *look);
#endif
