#include "base/num.h"
#include "models/edges.h"
#include "models/graph_shelf.h"
#include "models/kinds/layers.h"
#include "models/layer_kind.h"
#include <stdlib.h>
#include <string.h>

#define LEFT_OUT_DEFAULTS .beta_fast = 32, .beta_slow = 1, .mscale = 1
const struct model_left_out model_left_out_defaults = { LEFT_OUT_DEFAULTS };
const struct model_head model_head_defaults = { .image_channels = 3,
                                                .init_std = 0.02,
                                                .left_out = { LEFT_OUT_DEFAULTS } };

void model_free(struct model *model)
{
    if (!model)
        return;
    graph_shelf_free(model->shelf);
    arena_free(&model->arena);
    free(model);
}

struct model *model_new(const struct model_head *head)
{
    struct model *model = calloc(1, sizeof *model);
    if (!model)
        return NULL;
    model->name = arena_strdup(&model->arena, head->name);
    model->sequence = head->sequence;
    model->hidden = head->hidden;
    model->vocab_size = head->vocab_size;
    model->image_size = head->image_size;
    model->image_channels = head->image_channels;
    model->tied_embedding = head->tied_embedding;
    model->init_std = head->init_std;
    model->left_out = head->left_out;
    const char **words[] = { &model->left_out.positions, &model->left_out.adapter_init,
                             &model->left_out.adapter_modules };
    bool kept = true;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (*words[i])
            kept = (*words[i] = arena_strdup(&model->arena, *words[i])) && kept;
    model->shelf = graph_shelf_new();
    if (model->name && model->shelf && kept)
        return model;
    model_free(model);
    return NULL;
}

int model_unfolded_count(const struct model *model)
{
    int count = 0;
    for (int i = 0; i < model->block_count; i++)
        count += model->blocks[i].layer_count * model->blocks[i].count;
    return count;
}

const struct layer *model_unfolded_layer(const struct model *model, int index)
{
    for (int i = 0; i < model->block_count; i++) {
        const struct model_block *block = &model->blocks[i];
        int covered = block->layer_count * block->count;
        if (index < covered)
            return &model->layers[block->first_layer + index % block->layer_count];
        index -= covered;
    }
    return NULL;
}

/* Arrays grow by doubling whenever their count is a power of two. */
static bool grow(struct model *model, void **array, int count, size_t size, struct error *err)
{
    if (count & (count - 1))
        return true;
    void *larger = arena_alloc(&model->arena, count ? (size_t)count * 2 : 1, size);
    if (!larger)
        return fail_memory(err);
    if (count)
        memcpy(larger, *array, (size_t)count * size);
    *array = larger;
    return true;
}

enum { LONGEST_PERIOD = 64 };

void model_find_period(int *period, int *copies, const int *number, int count)
{
    *period = *copies = 1;
    for (int p = 1; p <= LONGEST_PERIOD && 2 * p <= count; p++) {
        int same = p;
        while (same < count && number[same] == number[same - p])
            same++;
        if (same / p > 1 && same / p * p > *period * *copies) {
            *period = p;
            *copies = same / p;
        }
    }
}

bool model_add_block(struct model *model, int64_t count, const struct json *at, struct error *err)
{
    if (count < 1 || count > MODEL_MAX_LAYERS)
        return json_fail(at, err, "expected a number of repeats from 1 to %d, found %lld", MODEL_MAX_LAYERS,
                         (long long)count);
    model->entry_layer = model->layer_count - 1;
    /* One run of plain layers is one block, however it was written. */
    if (count == 1 && model->block_count && model->blocks[model->block_count - 1].count == 1)
        return true;
    if (!grow(model, (void **)&model->blocks, model->block_count, sizeof *model->blocks, err))
        return false;
    model->blocks[model->block_count++] =
        (struct model_block){ .first_layer = model->layer_count, .count = (int)count };
    return true;
}

bool model_good_name(const char *name)
{
    size_t length = strlen(name);
    size_t good = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    return length > 0 && length <= 64 && good == length;
}

/* A name becomes part of the names of values, weights and files. */
static bool check_name(const char *name, const struct json *at, struct error *err)
{
    if (!model_good_name(name))
        return json_fail(json_at_key(at, "name"), err, "expected 1 to 64 letters, digits, '-' and '_'");
    if (strcmp(name, "previous") == 0 || strcmp(name, "entry") == 0)
        return json_fail(json_at_key(at, "name"), err, "expected another name: among \"inputs\" \"%s\" means a place",
                         name);
    return true;
}

bool model_add_layer(struct model *model, const struct layer_kind *kind, const void *fields, const struct json *at,
                     struct error *err)
{
    return model_add_reader(model, kind, fields, NULL, 0, at, err);
}

bool model_add_reader(struct model *model, const struct layer_kind *kind, const void *fields,
                      const struct layer_source *sources, int source_count, const struct json *at, struct error *err)
{
    struct model_block *block = &model->blocks[model->block_count - 1];
    if (model_unfolded_count(model) + block->count > MODEL_MAX_LAYERS)
        return json_fail(at, err, "expected at most %d layers after unfolding, found more", MODEL_MAX_LAYERS);
    bool narrow = model->hidden < 1 && (model->image_size < 1 || kind->place == CHAIN_FIRST);
    if (kind->place != CHAIN_GIVEN && (narrow || model->vocab_size < 1))
        return json_fail(at, err, "expected the model's %s beside its layers: %s needs it",
                         narrow ? "hidden" : "vocab_size", kind->name);
    struct layer_head *own = arena_alloc(&model->arena, 1, kind->fields_bytes);
    if (!own || !grow(model, (void **)&model->layers, model->layer_count, sizeof *model->layers, err))
        return own ? false : fail_memory(err);
    memcpy(own, fields, kind->fields_bytes);
    own->kind = kind->name;
    own->inputs = NULL;
    if (!own->name)
        own->name = kind->name;
    else if (!check_name(own->name, at, err) || !(own->name = arena_strdup(&model->arena, own->name)))
        return err && err->kind ? false : fail_memory(err);
    if (own->quantized && !own->frozen)
        return json_fail(json_at_key(at, "quantized"), err,
                         "expected \"frozen\": true beside it: what is trained has the plan's dtype");
    if (own->quantized && kind->place != CHAIN_BODY)
        return json_fail(json_at_key(at, "quantized"), err,
                         "expected it in layers of blocks, which have matrices between layers, found it in %s",
                         kind->name);
    if (own->shared && !model_good_name(own->shared))
        return json_fail(json_at_key(at, "shared"), err, "expected 1 to 64 letters, digits, '-' and '_'");
    if (own->shared && !(own->shared = arena_strdup(&model->arena, own->shared)))
        return fail_memory(err);
    if (kind->resolve)
        kind->resolve(model, own);
    if (!json_check_limits(at, kind->fields, kind->field_count, own, err))
        return false;
    if (kind->check && !kind->check(model, own, at, err))
        return false;
    struct layer layer = { .name = own->name, .kind = kind, .fields = own };
    if (!edges_read(model, &layer, sources, source_count, at, err))
        return false;
    model->layers[model->layer_count++] = layer;
    block->layer_count++;
    return true;
}

/* What a layer at this index must be; in the middle anything but a head and a loss will do. */
static enum chain_place place_at(int index, int count, const struct layer_kind *kind)
{
    enum chain_place found = kind->place;
    if (index == 0)
        return kind->reads_image ? found : CHAIN_FIRST;
    if (index < count - 2)
        return found == CHAIN_FIRST || found == CHAIN_JOIN ? found : CHAIN_BODY;
    return index == count - 2 ? CHAIN_HEAD : CHAIN_LOSS;
}

static bool check_chain(struct model *model, const struct json *at, struct error *err)
{
    static const char *const wanted[CHAIN_COUNT] = { [CHAIN_FIRST] = "embedding, patches or conv",
                                                     [CHAIN_BODY] =
                                                         "attention, mlp or another between embedding and head",
                                                     [CHAIN_HEAD] = "head",
                                                     [CHAIN_LOSS] = "loss",
                                                     [CHAIN_GIVEN] = "opaque" };
    int count = model_unfolded_count(model);
    if (count == 0)
        return json_fail(at, err, "expected at least one layer, found none");
    model->opaque = model->layers[0].kind->place == CHAIN_GIVEN;
    if (model->layers[0].kind->reads_image && !model->image_size)
        return json_fail(at, err, "expected the model's \"image_size\": its first layer, %s, reads an image",
                         model->layers[0].name);
    for (int i = 0; i < count; i++) {
        const struct layer_kind *kind = model_unfolded_layer(model, i)->kind;
        enum chain_place place = model->opaque ? CHAIN_GIVEN : place_at(i, count, kind);
        if (kind->place != place)
            return json_fail(
                at, err,
                "expected embedding, attention, mlp and the like, head, loss, or opaque layers only; layer %d of %d "
                "should be %s, found %s",
                i, count, wanted[place], kind->name);
    }
    return model->opaque || count >= 3 ||
           json_fail(at, err, "expected at least embedding, head and loss, found %d layers", count);
}

/* Of the canonical JSON; false: out of memory. */
static bool hash_model(struct model *model)
{
    size_t length;
    char *text = model_write(model, &length);
    if (text)
        model->hash = hash_bytes(HASH_START, text, length);
    free(text);
    return text != NULL;
}

bool model_finish(struct model *model, const struct json *root, struct error *err)
{
    if (!check_chain(model, json_at_key(root, "layers"), err) || !edges_check(model, root, err))
        return false;
    return hash_model(model) || fail_memory(err);
}

/* A copy of its fields, which then are the layer's; NULL: out of memory. */
static void *own_fields(struct model *model, struct layer *layer)
{
    void *own = arena_alloc(&model->arena, 1, layer->kind->fields_bytes);
    if (own)
        layer->fields = memcpy(own, layer->fields, layer->kind->fields_bytes);
    return own;
}

bool model_layer_quantizes(const struct layer *layer, bool experts)
{
    return layer->kind->place == CHAIN_BODY && (experts || strcmp(layer->kind->name, "moe") != 0);
}

bool model_quantize(struct model *model, enum quantized form, bool experts, bool *some)
{
    *some = false;
    for (int l = 0; l < model->layer_count; l++) {
        struct layer *layer = &model->layers[l];
        const struct layer_head *head = layer->fields;
        if (!head->frozen || head->quantized == (int)form || !model_layer_quantizes(layer, experts))
            continue;
        struct layer_head *own = own_fields(model, layer);
        if (!own)
            return false;
        own->quantized = (int)form;
        *some = true;
    }
    return hash_model(model);
}

bool model_copy(struct model **out, const struct model *model, struct error *err)
{
    struct json_doc *doc = NULL;
    bool good = model_document(&doc, model, err) && model_read_value(out, json_root(doc), err);
    json_free(doc);
    if (!good)
        return false;
    (*out)->keeping = model->keeping;
    (*out)->whole_blocks = model->whole_blocks;
    for (int l = 0; l < model->layer_count; l++)
        (*out)->layers[l].fields = model->layers[l].fields; /* with what model_keep() says, which no description has */
    return true;
}

bool model_keep(struct model *model, bool scores, bool probabilities)
{
    graph_shelf_free(model->shelf); /* graphs from before are not equal to later ones */
    model->shelf = graph_shelf_new();
    if (!model->shelf)
        return false;
    for (int l = 0; l < model->layer_count; l++) {
        struct layer *layer = &model->layers[l];
        struct attention_layer *attention;
        struct loss_layer *loss;
        if (scores && strcmp(layer->kind->name, "attention") == 0) {
            if (!(attention = own_fields(model, layer)))
                return false;
            attention->stored_scores = !attention->relative_table;
        } else if (probabilities && layer->kind->place == CHAIN_LOSS) {
            if (!(loss = own_fields(model, layer)))
                return false;
            loss->fp32_logits = true;
        }
    }
    return true;
}
