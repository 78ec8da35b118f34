/* A model as its description says: named layers, repeated blocks folded. graph_build() unfolds it. */
#ifndef CLEAVE_MODELS_MODEL_H
#define CLEAVE_MODELS_MODEL_H
#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "models/graph.h"

struct layer_kind;

struct layer {
    const char *name; /* "attention"; unfolded layers are "<index>.<name>" */
    const struct layer_kind *kind;
    const void *fields; /* the kind's own struct */
};
struct model_block { /* `count` copies of `layer_count` layers, one after another */
    int first_layer, layer_count, count;
};

struct model {
    struct arena arena;
    const char *name;
    int64_t sequence; /* tokens per sequence by default */
    int64_t hidden, vocab_size;
    bool tied_embedding; /* the head uses the embedding's table */
    bool opaque;         /* all layers are opaque: no vocabulary, no loss */
    double init_std;     /* of the initial matrices */
    int layer_count;     /* folded */
    struct layer *layers;
    int block_count;
    struct model_block *blocks; /* in order; cover all layers */
    uint64_t hash;        /* of the canonical JSON */
};

/* Reads native JSON or, when it is one, a Hugging Face config.json (models/import, importers.def). name appears in
 * messages. *foreign, if not NULL, gets the importer's name or NULL for native. */
bool model_read(struct model **out, const char *name, const char *text, size_t length, const char **foreign,
                struct error *err);
/* Canonical native JSON, deterministic; caller frees. NULL when memory is short. */
char *model_write(const struct model *model, size_t *length);
void model_free(struct model *model);
/* The top-level keys of the native format, for `cleave schema`. */
const struct json_field *model_fields(size_t *count);
/* Number of layers after unfolding, and the folded layer behind an unfolded index. */
int model_unfolded_count(const struct model *model);
const struct layer *model_unfolded_layer(const struct model *model, int index);
#endif
