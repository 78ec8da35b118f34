/* An edge is a rule, not a list of pairs, so that a repeat stays folded and a search may fold it further. */
#include "models/edges.h"
#include "base/num.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- where layers stand ---- */

static int block_of(const struct model *model, int layer)
{
    int block = model->block_count - 1;
    while (block > 0 && layer < model->blocks[block].first_layer)
        block--;
    return block;
}

static int block_start(const struct model *model, int block)
{
    int start = 0;
    for (int i = 0; i < block; i++)
        start += model->blocks[i].layer_count * model->blocks[i].count;
    return start;
}

/* The copy that an edge of the reader's copy means, in a block of `count` copies. */
static int copy_of(const struct layer_edge *edge, int copy, int count)
{
    switch (edge->rule) {
    case COPY_OWN:
    case COPY_ALIKE:
        return (int)min_i64(copy, count - 1);
    case COPY_MIRRORED:
        return (int)max_i64(0, count - 1 - copy);
    case COPY_NUMBER:
        return (int)min_i64(edge->copy, count - 1);
    case COPY_LAST:
    case COPY_PREVIOUS:
    case COPY_ENTRY:
        break;
    }
    return count - 1;
}

int model_unfolded_inputs(const struct model *model, int index, int inputs[MAX_LAYER_INPUTS])
{
    int block = 0, start = 0;
    while (index - start >= model->blocks[block].layer_count * model->blocks[block].count) {
        start += model->blocks[block].layer_count * model->blocks[block].count;
        block++;
    }
    const struct model_block *b = &model->blocks[block];
    int place = (index - start) % b->layer_count, copy = (index - start) / b->layer_count;
    const struct layer *layer = &model->layers[b->first_layer + place];
    if (index == 0) /* nothing stands before the chain; a repeat that begins it has inputs from its second copy on */
        return 0;
    for (int i = 0; i < layer->input_count; i++) {
        const struct layer_edge *edge = &layer->inputs[i];
        if (edge->rule == COPY_PREVIOUS || edge->rule == COPY_ENTRY) {
            inputs[i] = edge->rule == COPY_PREVIOUS ? index - 1 : index - place - 1;
            continue;
        }
        int other = block_of(model, edge->layer);
        const struct model_block *o = &model->blocks[other];
        inputs[i] =
            block_start(model, other) + copy_of(edge, copy, o->count) * o->layer_count + edge->layer - o->first_layer;
    }
    return layer->input_count;
}

/* ---- reading ---- */

/* The folded layer of the name; -1: none, or *twice. */
static int find_name(const struct model *model, const char *name, size_t length, bool *twice)
{
    int found = -1;
    *twice = false;
    for (int i = 0; i < model->layer_count; i++) {
        if (strlen(model->layers[i].name) != length || memcmp(model->layers[i].name, name, length) != 0)
            continue;
        *twice |= found >= 0;
        found = i;
    }
    return *twice ? -1 : found;
}

static bool unknown_name(const struct model *model, const struct layer_source *source, struct error *err)
{
    const char *names[64];
    size_t count = 0;
    for (int i = model->layer_count - 1; i >= 0 && count < 64; i--)
        names[count++] = model->layers[i].name;
    const char *near = text_nearest(source->text, names, count);
    return json_fail(source->at, err,
                     "expected \"previous\", \"entry\" or the name of an earlier layer, found \"%.64s\"%s%s%s; a layer "
                     "reads only what stands before it, so there are no cycles",
                     source->text, near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

/* What stands in brackets after the name. */
static bool read_copy(const struct model *model, struct layer_edge *edge, const char *text,
                      const struct layer_source *source, struct error *err)
{
    const struct model_block *own = &model->blocks[model->block_count - 1];
    const struct model_block *other = &model->blocks[block_of(model, edge->layer)];
    bool alike = strcmp(text, "[copy]") == 0, mirrored = strcmp(text, "[last-copy]") == 0;
    if (alike || mirrored) {
        if (own == other)
            return json_fail(source->at, err,
                             "both layers stand in one repeat: write the name alone, which is the same "
                             "copy");
        if (own->count > other->count)
            return json_fail(source->at, err, "expected a layer of at least as many copies as this one's %d, found %d",
                             own->count, other->count);
        edge->rule = alike ? COPY_ALIKE : COPY_MIRRORED;
        return true;
    }
    char *end;
    long number = text[1] >= '0' && text[1] <= '9' ? strtol(text + 1, &end, 10) : -1;
    if (number < 0 || strcmp(end, "]") != 0 || own == other)
        return json_fail(source->at, err,
                         "expected the name alone, or of a layer that is repeated elsewhere name[2], name[copy] or "
                         "name[last-copy], found \"%.80s\"",
                         source->text);
    if (number >= other->count)
        return json_fail(source->at, err, "expected a copy from 0 to %d, found %ld", other->count - 1, number);
    edge->rule = other->count == 1 ? COPY_LAST : COPY_NUMBER;
    edge->copy = other->count == 1 ? 0 : (int)number;
    return true;
}

/* What may be read as an input by name: something as wide as hidden, or given. */
static bool check_target(const struct model *model, const struct layer *reader, int layer,
                         const struct layer_source *source, struct error *err)
{
    const struct layer_kind *kind = model->layers[layer].kind;
    if (reader->kind->place == CHAIN_LOSS)
        return json_fail(source->at, err, "expected \"previous\": the loss reads the head before it");
    if (kind->place == CHAIN_HEAD || kind->place == CHAIN_LOSS)
        return json_fail(
            source->at, err,
            "expected a layer whose output is (batch, sequence, hidden): %s is a %s, whose output only the "
            "loss understands",
            model->layers[layer].name, kind->name);
    return true;
}

static bool read_edge(const struct model *model, const struct layer *reader, struct layer_edge *edge,
                      const struct layer_source *source, struct error *err)
{
    const struct model_block *own = &model->blocks[model->block_count - 1];
    bool starts = model->layer_count - 1 == model->entry_layer; /* the first layer of its copy */
    size_t length = strcspn(source->text, "[");
    *edge = (struct layer_edge){ .rule = COPY_PREVIOUS, .layer = -1 };
    if (strcmp(source->text, "previous") == 0 || (strcmp(source->text, "entry") == 0 && starts))
        return model->layer_count > 0 || json_fail(source->at, err, "expected an earlier layer: there is none");
    if (strcmp(source->text, "entry") == 0) {
        edge->rule = COPY_ENTRY;
        edge->layer = model->entry_layer;
        if (own->count == 1) { /* the layer that the copy began after; by its name from now on */
            bool twice;
            const char *name = edge->layer < 0 ? "" : model->layers[edge->layer].name;
            edge->rule = COPY_LAST;
            if (edge->layer >= own->first_layer)
                edge->rule = COPY_OWN;
            if (edge->layer < 0 || find_name(model, name, strlen(name), &twice) < 0)
                return json_fail(source->at, err,
                                 "expected a layer before this repeat of one copy, with a name of its own");
        }
        return edge->layer >= 0 || json_fail(source->at, err, "expected a layer before this repeat: there is none");
    }
    bool twice;
    edge->layer = find_name(model, source->text, length, &twice);
    if (twice)
        return json_fail(source->at, err, "several layers are called \"%.*s\": give the one that is meant a \"name\"",
                         (int)min_i64((int64_t)length, 64), source->text);
    if (edge->layer < 0)
        return unknown_name(model, source, err);
    edge->rule = edge->layer >= own->first_layer ? COPY_OWN : COPY_LAST;
    return check_target(model, reader, edge->layer, source, err) &&
           (source->text[length] == '\0' || read_copy(model, edge, source->text + length, source, err));
}

static bool wrong_count(const struct layer_kind *kind, int found, const struct json *at, struct error *err)
{
    if (kind->min_inputs == kind->max_inputs)
        return json_fail(at, err, "%s reads %d layer%s: expected as many names, found %d", kind->name, kind->min_inputs,
                         kind->min_inputs == 1 ? "" : "s", found);
    return json_fail(at, err, "%s reads %d to %d layers: expected as many names, found %d", kind->name,
                     kind->min_inputs, kind->max_inputs, found);
}

bool edges_read(const struct model *model, struct layer *layer, const struct layer_source *sources, int source_count,
                const struct json *at, struct error *err)
{
    const struct layer_kind *kind = layer->kind;
    if (!sources && kind->min_inputs <= 1) { /* nothing said; a missing first layer is the chain's business */
        layer->input_count = kind->max_inputs > 0;
        layer->inputs[0] = (struct layer_edge){ .rule = COPY_PREVIOUS, .layer = -1 };
        return true;
    }
    if (source_count < kind->min_inputs || source_count > kind->max_inputs)
        return wrong_count(kind, source_count, json_at_key(at, "inputs"), err);
    for (int i = 0; i < source_count; i++)
        if (!read_edge(model, layer, &layer->inputs[i], &sources[i], err))
            return false;
    layer->input_count = source_count;
    return true;
}

/* ---- checking ---- */

/* Returns the folded layer's place in a native description; the root of a foreign one. */
static const struct json *layer_at(const struct json *root, int layer)
{
    const struct json *layers = json_member(root, "layers");
    for (int i = 0; i < json_count(layers); i++) {
        const struct json *at = json_at(layers, i), *inner = json_member(at, "layers");
        int count = inner ? json_count(inner) : 1;
        if (layer < count)
            return inner ? json_at(inner, layer) : at;
        layer -= count;
    }
    return root;
}

bool edges_check(const struct model *model, const struct json *root, struct error *err)
{
    int count = model_unfolded_count(model), inputs[MAX_LAYER_INPUTS], unused = 0;
    bool *used = calloc((size_t)count, sizeof *used);
    if (!used)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory while reading the model");
    for (int i = 0; i < count; i++)
        for (int k = model_unfolded_inputs(model, i, inputs) - 1; k >= 0; k--)
            used[inputs[k]] = true;
    while (unused < count - 1 && used[unused])
        unused++;
    free(used);
    if (unused >= count - 1)
        return true;
    const struct layer *layer = model_unfolded_layer(model, unused);
    return json_fail(layer_at(root, (int)(layer - model->layers)), err,
                     "nobody reads the output of %s (layer %d of %d): name it in the \"inputs\" of a later layer, or "
                     "leave it out",
                     layer->name, unused, count);
}

/* ---- writing ---- */

static void write_edge(struct json_writer *w, const struct model *model, const struct layer_edge *edge)
{
    char text[128];
    const char *name = edge->layer >= 0 ? model->layers[edge->layer].name : "";
    switch (edge->rule) {
    case COPY_PREVIOUS:
        json_write_string(w, "previous");
        return;
    case COPY_ENTRY:
        json_write_string(w, "entry");
        return;
    case COPY_OWN:
    case COPY_LAST:
        json_write_string(w, name);
        return;
    case COPY_ALIKE:
        snprintf(text, sizeof text, "%s[copy]", name);
        break;
    case COPY_MIRRORED:
        snprintf(text, sizeof text, "%s[last-copy]", name);
        break;
    case COPY_NUMBER:
        snprintf(text, sizeof text, "%s[%d]", name, edge->copy);
        break;
    }
    json_write_string(w, text);
}

void edges_write(struct json_writer *w, const struct model *model, int layer)
{
    const struct layer *l = &model->layers[layer];
    bool usual = l->kind->max_inputs == 0 || (l->input_count == 1 && l->inputs[0].rule == COPY_PREVIOUS);
    if (usual)
        return;
    json_write_key(w, "inputs");
    json_begin_array(w);
    for (int i = 0; i < l->input_count; i++)
        write_edge(w, model, &l->inputs[i]);
    json_end_array(w);
}
