/* Which links a transfer passes, so that transfers can share them. */
#ifndef CLEAVE_COST_COST_LINKS_H
#define CLEAVE_COST_COST_LINKS_H
#include "planner/cost/cost.h"

/* Two levels have eight ends: out and in, of a stage's first and last rank. */
enum { LINK_WHOLE = 1 << 20, MAX_LINK_USES = 4 * MAX_LEVELS };
struct link_use {
    int link;  /* below cost_link_count() */
    int flows; /* of the stage's ranks, which all do the same at once: so many shares of the link are theirs */
    int busy;  /* of LINK_WHOLE: how much of the link's time they take when nothing else uses it */
};
/* An instruction that takes cost_instr_ns() alone uses nothing for its latency, then all these links at once. */
struct link_uses {
    int64_t latency_ns; /* of a transfer that does not last as long nothing is shared */
    int count;          /* 0: it shares nothing with anybody */
    struct link_use use[MAX_LINK_USES];
};

/* Links of so many ranks: each rank has its own at each level, out and in; of a level whose links are of whole units
 * the first rank's are the unit's. */
int64_t cost_link_count(const struct cluster *cluster, int rank_count);
/* Gives the links that collectives of a stage and messages between stages use, a SEND's at both ends, or that of the
 * pair alone where the devices of a node are linked each to each. Of a stage's own links those of its first rank stand
 * for all; of links of units those of the first and the last, since a stage may share units with the stages before and
 * behind it. */
struct link_uses cost_links(const struct facts *facts, const struct program *program, int stage,
                            const struct instr *instr);
#endif
