/* Prices of stages that may have several meshes: a table for each number of them, and where the cluster has several
 * types of devices for each place of the pipeline. What spread.c and turns.c share. */
#ifndef CLEAVE_SEARCH_SEVERAL_H
#define CLEAVE_SEARCH_SEVERAL_H
#include "planner/tables/workbench.h"

/* Where a stage lies. */
struct several_place {
    int turn, first; /* the mesh of the cluster where it begins */
    unsigned types;  /* of its devices; 1 on clusters of one */
};

/* A table in the making. */
struct several {
    struct workbench *bench;
    const struct config *config;
    bool bound_only;
    const struct price_table *widest; /* spread alone: that of the mesh that shards most */
    /* The table of a stage of config->turns[turn] meshes, from that of its types; NULL: lowering refuses it (refused is
     * set) or memory ran out. */
    struct price_table *(*own_table)(struct several *s, const struct several_place *place,
                                     const struct price_table *from);
    bool refused;
    int made_count;
    struct made {
        const struct price_table *from, *table;
        int turn;
    } * made; /* (meshes * turn_count) */
    struct error *err;
};
/* Every number of the table is the least of all that stages may have; with by_turns, and by_place on several types. In
 * the bench's arena; *out NULL: refused. */
bool several_table(struct several *s, const struct price_table **out);
#endif
