/* Blocks of a model as single layers of its graph. */
#ifndef CLEAVE_MODELS_WHOLE_BLOCKS_H
#define CLEAVE_MODELS_WHOLE_BLOCKS_H
#include "models/graph.h"

/* Whether it begins a block behind the trunk that predicts a further token, or is that block, joined. */
bool graph_layer_predicts_further(const struct graph *graph, int layer);
/* Joins the layers of each block into one, what stands before the first block, and what stands behind the last one
 * (head and loss). What predicts a further token is a block with what joins it to the trunk, its loss not. Values,
 * weights and segments stay what they are. Fails where another layer reads something from within a block. Before the
 * graph has another order than the file's. */
bool graph_join_blocks(struct graph *graph, struct error *err);
#endif
