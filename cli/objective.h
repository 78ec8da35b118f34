/* What `cleave plan` makes least: the step, its cost, or memory. The search itself is exact for the step's time; the
 * other two are searches of parts of the cluster, and of ever less memory. */
#ifndef CLEAVE_CLI_OBJECTIVE_H
#define CLEAVE_CLI_OBJECTIVE_H
#include "cli/candidate.h"
#include "cli/prices.h"
#include "planner/explain/explain_facts.h"

enum objective_kind { OBJECTIVE_TIME, OBJECTIVE_COST, OBJECTIVE_MEMORY };
#define OBJECTIVE_OPTION(at)                                                                                           \
    TEXT_OPTION("objective", at, "NAME",                                                                               \
                "what is made least: time (default), cost (dollars of a step by --price, on the whole cluster or a "   \
                "part of it), or memory (of the fullest device)")

/* One search. */
struct objective_try {
    const char *cluster; /* in the objective's arena */
    int devices;
    int64_t usable_bytes; /* of a device, the least of all types */
    int64_t step_ns;      /* 0: nothing fits */
    int64_t bound_ns;     /* no plan is shorter by the formula; 0: nothing is proven */
    double dollars;       /* of a step */
};
struct objective {
    enum objective_kind kind;
    struct arena arena;
    int try_count, best;
    struct objective_try tries[MOST_PARTS];
    int64_t unbounded;       /* configurations of all tries that the formula is not about */
    bool ended;              /* by time limit or cancellation, before all were tried */
    struct candidate *found; /* the best one, with what its search found; NULL: the cluster itself is to be searched */
};
bool objective_named(enum objective_kind *out, const char *word, struct error *err); /* word NULL: time */
/**
 * Looks for the best part of the cluster, or for the least memory. in: the whole cluster's, with its space's options.
 * Where nothing fits at all, found stays NULL: the search of the whole says why. prices: of OBJECTIVE_COST, each
 * type's.
 */
bool objective_choose(struct objective *o, struct inputs *in, const struct space_options *job,
                      const struct prices *prices, struct error *err);
/* What was tried, and what that proves. proof: of the plan that was chosen. */
void objective_print(const struct cli *cli, const struct objective *o, const struct certificate *proof);
void objective_put(struct json_writer *w, const struct objective *o);
void objective_close(struct objective *o);
#endif
