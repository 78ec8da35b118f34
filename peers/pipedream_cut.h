/* Bytes that cross a cut of PipeDream's graph: by the peer's rule, or exactly. */
#ifndef CLEAVE_PEERS_PIPEDREAM_CUT_H
#define CLEAVE_PEERS_PIPEDREAM_CUT_H
#include "peers/pipedream.h"

struct pipedream_cuts {
    const struct pipedream_graph *graph;
    const struct dag *dag;
    const uint64_t *ancestors; /* (node_count, words) */
    uint64_t *left_behind;     /* (node_count, words) ancestors of the node with an edge to what is no ancestor of it */
    int words;
    bool exact;
};
/* graph, dag and exact are set; the rest is made, in the arena. */
bool pipedream_cuts_make(struct pipedream_cuts *cuts, struct arena *arena, struct error *err);
/* Bytes that leave the ideal. scratch: (words). */
double pipedream_cut_bytes(const struct pipedream_cuts *cuts, const uint64_t *ideal, uint64_t *scratch);
#endif
