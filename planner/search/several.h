/* Prices of stages that may have several meshes: a table for each number of them, and where the cluster has several
 * types of devices for each place of the pipeline. What spread.c and turns.c share. */
#ifndef CLEAVE_SEARCH_SEVERAL_H
#define CLEAVE_SEARCH_SEVERAL_H
#include "planner/search/workbench.h"

/* A table in the making. */
struct several {
    struct workbench *bench;
    const struct config *config;
    bool bound_only;
    const struct price_table *widest; /* spread alone: that of the mesh that shards most */
    /* The table of a stage of config->turns[turn] meshes, the first of which is mesh `first` of the cluster, from that
     * of its types; NULL: lowering refuses it (refused is set) or memory ran out. */
    struct price_table *(*own_table)(struct several *s, int turn, int first, const struct price_table *from);
    /* Of several meshes together, as types.h wants it. */
    struct config (*stage_config)(const struct config *config, int turn);
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
