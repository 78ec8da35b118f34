/* Graphs of a model that are in use: what a model keeps of those that were taken with graph_take(). */
#ifndef CLEAVE_MODELS_GRAPH_SHELF_H
#define CLEAVE_MODELS_GRAPH_SHELF_H
#include "models/graph.h"

/* An empty one for a model; NULL when memory is short. Graphs may outlive their model, and then keep it. */
struct graph_shelf *graph_shelf_new(void);
void graph_shelf_free(struct graph_shelf *shelf);
/* For graph_free(): one holder less. True: nobody else holds the graph, and no shelf knows it any more. */
bool graph_give_back(struct graph *graph);
#endif
