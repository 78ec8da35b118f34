/* Edges between layers: how a description names them, and what is refused. Inside models/ only. */
#ifndef CLEAVE_MODELS_EDGES_H
#define CLEAVE_MODELS_EDGES_H
#include "models/model_make.h"

/* Understands what the layer to be added next says about its inputs (count 0 and sources NULL: nothing) and fills in
 * layer->inputs. The layer's name and kind are set. Fails at a source, or at `at` when their number is wrong. */
bool edges_read(const struct model *model, struct layer *layer, const struct layer_source *sources, int source_count,
                const struct json *at, struct error *err);
/* Refuses outputs that nobody reads, but for the last layer's. root: of the native format or a foreign one. */
bool edges_check(const struct model *model, const struct json *root, struct error *err);
/* The member "inputs", unless the layer reads the one before or its kind reads none. */
void edges_write(struct json_writer *w, const struct model *model, int layer);
#endif
