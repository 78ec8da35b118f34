/* Making a model layer by layer: what the native reader and every importer share, so that all pass the same checks. */
#ifndef CLEAVE_MODELS_MODEL_MAKE_H
#define CLEAVE_MODELS_MODEL_MAKE_H
#include "models/layer_kind.h"
#include "models/model.h"

enum { MODEL_MAX_LAYERS = 10000 }; /* unfolded; the deepest published transformers have 2000 */
enum { MODEL_MAX_IMAGE_SIZE = 1 << 14, MODEL_MAX_IMAGE_CHANNELS = 1 << 10 };

/* The top-level keys. Sizes that are absent are 0. */
struct model_head {
    const char *format, *name;
    int64_t version, sequence, hidden, vocab_size, image_size, image_channels;
    bool tied_embedding;
    double init_std;
    struct model_left_out left_out;
    const struct json *left_out_at, *layers;
};
extern const struct model_head model_head_defaults;

/* An empty model with the head's facts; NULL when memory is short. The caller owns it: model_free(). */
struct model *model_new(const struct model_head *head);
/* True for 1 to 64 letters, digits, '-' and '_': what may become part of a weight's name. */
bool model_good_name(const char *name);
/* The period whose repeats cover most of the blocks, and how often it repeats: 1 of 1 where nothing does. number: of
 * each block, the same for equal ones. */
void model_find_period(int *period, int *copies, const int *number, int count);
/* Opens `count` copies of the layers that follow; count 1 for plain ones. */
bool model_add_block(struct model *model, int64_t count, const struct json *at, struct error *err);
/* Adds a layer to the open block: copies the fields, fills in what follows and checks them. It reads the layer before,
 * unless its kind reads none. Messages point at `at`. */
bool model_add_layer(struct model *model, const struct layer_kind *kind, const void *fields, const struct json *at,
                     struct error *err);
/* A source says whose output a layer reads, as the native format does: "previous", "entry", a layer's name, "name[2]",
 * "name[copy]" or "name[last-copy]". */
struct layer_source {
    const char *text;
    const struct json *at; /* where messages point */
};
/* Adds a layer that names its inputs. Messages about one of them point at its own place. */
bool model_add_reader(struct model *model, const struct layer_kind *kind, const void *fields,
                      const struct layer_source *sources, int source_count, const struct json *at, struct error *err);
/* Checks the chain as a whole and hashes it; the model is const afterwards. */
bool model_finish(struct model *model, const struct json *root, struct error *err);
#endif
