/* What goes together: a configuration in the making, choice by choice in the order of choices.def. */
#ifndef CLEAVE_SPACE_CHOICE_LEGAL_H
#define CLEAVE_SPACE_CHOICE_LEGAL_H
#include "planner/space/space.h"

enum { SPACE_MEMO = 256 };
/* What legal_context() said of a mesh, whose ranks that deal out the batch are not counted. */
struct known_context {
    struct mesh mesh; /* without atoms: of none yet */
    bool legal;
};
struct making {
    const struct space *space;
    const struct graph *graph;
    const struct cluster *cluster;
    int64_t expert_most;
    int64_t value[CHOICE_COUNT];              /* turns: 1: each stage has one mesh; 0: that is decided with the cut */
    struct known_context context[SPACE_MEMO]; /* by hash; the latest of those that share a place */
    struct config config;                     /* what follows from them: micro_batch_count, meshes and turns, mesh */
};
struct making making_of(const struct space *space, const struct graph *graph, const struct cluster *cluster);
/* True when the choice's value is legal beside those before it, and what follows from it is then in m->config; else
 * why, which may be NULL, says what was expected. */
bool choice_legal(struct making *m, enum space_choice choice, struct error *why);
/* Copies choices of scope PLAN into m->config, when all choices are made. */
void making_settle(struct making *m);
/* Gives the ranks that the choices up to context parallelism leave. */
int making_ranks(const struct making *m);
struct degrees making_degrees(const struct making *m);
#endif
