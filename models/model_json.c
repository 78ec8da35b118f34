#include "base/num.h"
#include "models/edges.h"
#include "models/import/importer.h"
#include <stdlib.h>
#include <string.h>

#define FORMAT "cleave-model"
enum { VERSION = 1 };

#define AT(field) .offset = offsetof(struct model_head, field)
static const struct json_field head_fields[] = {
    { .key = "format", .type = FIELD_STRING, AT(format), .required = true, .doc = "Always \"" FORMAT "\"." },
    { .key = "version",
      .type = FIELD_INT,
      AT(version),
      .required = true,
      .min = VERSION,
      .max = VERSION,
      .doc = "Version of the format." },
    { .key = "name", .type = FIELD_STRING, AT(name), .required = true, .doc = "Name of the model in reports." },
    { .key = "sequence",
      .type = FIELD_INT,
      AT(sequence),
      .min = 1,
      .max = 1 << 27,
      .doc = "Tokens per sequence; required unless the model reads images, which have one label each." },
    { .key = "hidden",
      .type = FIELD_INT,
      AT(hidden),
      .min = 1,
      .max = 1 << 24,
      .doc = "Width of the residual stream; required unless every layer is opaque or the model reads images and has no "
             "patches." },
    { .key = "vocab_size",
      .type = FIELD_INT,
      AT(vocab_size),
      .min = 1,
      .max = 1 << 28,
      .doc =
          "Tokens in the vocabulary, without padding, or classes of images; required unless every layer is opaque." },
    { .key = "image_size",
      .type = FIELD_INT,
      AT(image_size),
      .min = 1,
      .max = MODEL_MAX_IMAGE_SIZE,
      .doc = "Pixels of a row and of a column: the model reads images. None if absent: it reads tokens." },
    { .key = "image_channels",
      .type = FIELD_INT,
      AT(image_channels),
      .min = 1,
      .max = MODEL_MAX_IMAGE_CHANNELS,
      .doc = "Numbers per pixel; 3 if absent." },
    { .key = "tied_embedding",
      .type = FIELD_BOOL,
      AT(tied_embedding),
      .doc = "The head uses the embedding's table; false if absent." },
    { .key = "init_std",
      .type = FIELD_DOUBLE,
      AT(init_std),
      .min = 0,
      .max = 100,
      .doc = "Standard deviation of the initial matrices; 0.02 if absent. Those that end in the residual stream of a "
             "pre-norm layer are "
             "divided by the root of the number of residual layers." },
    { .key = "left_out",
      .type = FIELD_NODE,
      AT(left_out_at),
      .doc = "What the model's configuration says beyond its layers, at no cost in time or memory; launches say it." },
    { .key = "layers",
      .type = FIELD_NODE,
      AT(layers),
      .required = true,
      .doc = "Layers with a \"kind\", or {\"repeat\": copies, \"layers\": [...]}; repeats do not nest. Each reads the "
             "layer before, unless its \"inputs\" say what else." },
};
#undef AT
enum { HEAD_FIELDS = sizeof head_fields / sizeof *head_fields };

#define AT(field) .offset = offsetof(struct model_left_out, field)
#define POSITIVE(name, field, text)                                                                                    \
    {                                                                                                                  \
        .key = name, .type = FIELD_DOUBLE, AT(field), .min = 0, .max = MODEL_MAX_LEFT_OUT, .doc = text                 \
    }
static const struct json_field left_out_fields[] = {
    { .key = "positions",
      .type = FIELD_STRING,
      AT(positions),
      .doc = "Type of the rotary positions, such as \"yarn\"; as the layers say if absent." },
    POSITIVE("factor", factor, "By which they are stretched; not said if absent or 0."),
    { .key = "original_positions",
      .type = FIELD_INT,
      AT(original),
      .min = 0,
      .max = 1 << 27,
      .doc = "Tokens that the model was first trained with; not said if absent or 0." },
    POSITIVE("beta_fast", beta_fast, "Of YaRN (Peng et al. 2023): turns from which on waves stay; 32 if absent."),
    POSITIVE("beta_slow", beta_slow, "Of YaRN: turns up to which waves are slowed in full; 1 if absent."),
    { .key = "mscale",
      .type = FIELD_DOUBLE,
      AT(mscale),
      .min = -MODEL_MAX_LEFT_OUT,
      .max = MODEL_MAX_LEFT_OUT,
      .doc = "Of YaRN: weight of the logarithm in the scale of queries and keys; 1 if absent." },
    POSITIVE("mscale_all_dim", mscale_all_dim, "Of YaRN: the same for all of a head; 0 if absent."),
    { .key = "exact",
      .type = FIELD_BOOL,
      AT(exact),
      .doc = "Of YaRN: the bounds between waves are not rounded; false if absent." },
    { .key = "further_blocks",
      .type = FIELD_INT,
      AT(further_blocks),
      .min = 0,
      .max = MODEL_MAX_LAYERS,
      .doc = "Blocks that predict further tokens (multi-token prediction); 0 if absent." },
    { .key = "adapter_dropout",
      .type = FIELD_DOUBLE,
      AT(adapter_dropout),
      .min = 0,
      .max = 1,
      .doc = "Of adapters: share of their input that is dropped (PEFT's lora_dropout); 0 if absent." },
    { .key = "adapter_init",
      .type = FIELD_STRING,
      AT(adapter_init),
      .doc = "Of adapters: what they begin with (PEFT's init_lora_weights); as PEFT does if absent." },
    { .key = "adapter_modules",
      .type = FIELD_STRING,
      AT(adapter_modules),
      .doc = "Of adapters: names of their matrices in the file, between commas; as the layers say if absent." },
};
#undef POSITIVE
#undef AT
enum { LEFT_OUT_FIELDS = sizeof left_out_fields / sizeof *left_out_fields };

struct repeat {
    int64_t count;
    const struct json *layers;
};
static const struct json_field repeat_fields[] = {
    { .key = "repeat",
      .type = FIELD_INT,
      .offset = offsetof(struct repeat, count),
      .required = true,
      .min = 1,
      .max = MODEL_MAX_LAYERS,
      .doc = "Copies." },
    { .key = "layers",
      .type = FIELD_NODE,
      .offset = offsetof(struct repeat, layers),
      .required = true,
      .doc = "Layers of one copy." },
};

const struct json_format model_formats[] = {
    JSON_FORMAT("model", head_fields, "A model file: top level."),
    JSON_FORMAT("left_out", left_out_fields, "What a model's configuration says beyond its layers."),
    { 0 },
};

static bool expect_array(const struct json *value, struct error *err)
{
    if (json_type(value) != JSON_ARRAY)
        return json_fail(value, err, "expected an array of layers, found %s", json_type_name(json_type(value)));
    if (json_count(value) == 0)
        return json_fail(value, err, "expected at least one layer, found none");
    return true;
}

enum { MOST_KINDS = 32 };

static bool unknown_kind(const struct json *at, const char *name, struct error *err)
{
    const char *names[MOST_KINDS];
    size_t count = 0;
    struct text list = { 0 };
    for (; count < MOST_KINDS && layer_kinds[count]; count++) {
        names[count] = layer_kinds[count]->name;
        text_printf(&list, "%s%s", count ? ", " : "", names[count]);
    }
    const char *near = text_nearest(name, names, count);
    json_fail(at, err, "expected one of %s, found \"%.64s\"%s%s%s", list.data ? list.data : "the kinds", name,
              near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    text_free(&list);
    return false;
}

/* Adds the layer with what "inputs" says, if it is there. */
static bool add_layer(struct model *model, const struct layer_kind *kind, const struct layer_head *fields,
                      const struct json *at, struct error *err)
{
    struct layer_source sources[MAX_LAYER_INPUTS];
    const struct json *inputs = fields->inputs;
    if (!inputs)
        return model_add_layer(model, kind, fields, at, err);
    if (json_type(inputs) != JSON_ARRAY)
        return json_fail(inputs, err, "expected an array of layer names, found %s", json_type_name(json_type(inputs)));
    if (json_count(inputs) > MAX_LAYER_INPUTS)
        return json_fail(inputs, err, "expected at most %d layer names, found %d", MAX_LAYER_INPUTS,
                         json_count(inputs));
    for (int i = 0; i < json_count(inputs); i++) {
        sources[i].at = json_at(inputs, i);
        if (!json_string(sources[i].at, &sources[i].text, err))
            return false;
    }
    return model_add_reader(model, kind, fields, sources, json_count(inputs), at, err);
}

static bool read_layer(struct model *model, const struct json *at, struct error *err)
{
    const struct json *kind_at;
    const char *name;
    if (!json_require(at, "kind", &kind_at, err) || !json_string(kind_at, &name, err))
        return false;
    const struct layer_kind *kind = layer_kind_find(name);
    if (!kind)
        return unknown_kind(kind_at, name, err);
    void *fields = arena_alloc(&model->arena, 1, kind->fields_bytes);
    if (!fields)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory while reading the model");
    memcpy(fields, kind->defaults, kind->fields_bytes);
    return json_read_fields(at, kind->fields, kind->field_count, fields, &model->arena, err) &&
           add_layer(model, kind, fields, at, err);
}

static bool read_repeat(struct model *model, const struct json *at, struct error *err)
{
    struct repeat repeat = { 0 };
    if (!json_read_fields(at, repeat_fields, sizeof repeat_fields / sizeof *repeat_fields, &repeat, &model->arena,
                          err) ||
        !expect_array(repeat.layers, err) || !model_add_block(model, repeat.count, json_member(at, "repeat"), err))
        return false;
    for (int i = 0; i < json_count(repeat.layers); i++) {
        const struct json *layer = json_at(repeat.layers, i);
        if (json_member(layer, "repeat"))
            return json_fail(layer, err, "repeats do not nest: expected a layer with a \"kind\", found another repeat");
        if (!read_layer(model, layer, err))
            return false;
    }
    return true;
}

static bool read_layers(struct model *model, const struct json *layers, struct error *err)
{
    if (!expect_array(layers, err))
        return false;
    for (int i = 0; i < json_count(layers); i++) {
        const struct json *at = json_at(layers, i);
        if (json_type(at) != JSON_OBJECT)
            return json_fail(at, err, "expected a layer (an object with a \"kind\") or a repeat, found %s",
                             json_type_name(json_type(at)));
        bool read = json_member(at, "repeat") ? read_repeat(model, at, err)
                                              : model_add_block(model, 1, at, err) && read_layer(model, at, err);
        if (!read)
            return false;
    }
    return true;
}

static bool read_head(struct model_head *head, const struct json *root, struct arena *arena, struct error *err)
{
    *head = model_head_defaults;
    if (!json_check_format(root, FORMAT, err) || !json_read_fields(root, head_fields, HEAD_FIELDS, head, arena, err))
        return false;
    if (head->left_out_at &&
        !json_read_fields(head->left_out_at, left_out_fields, LEFT_OUT_FIELDS, &head->left_out, arena, err))
        return false;
    if (!*head->name)
        return json_fail(json_member(root, "name"), err, "expected a name, found an empty string");
    if (!head->image_size && !head->sequence)
        return json_fail(root, err, "expected \"sequence\", the tokens per sequence, or \"image_size\"");
    if (head->image_size && head->sequence > 1)
        return json_fail(json_member(root, "sequence"), err,
                         "expected none beside \"image_size\": an image has one label, found %lld",
                         (long long)head->sequence);
    head->sequence = head->image_size ? 1 : head->sequence;
    return true;
}

static bool read_native(struct model **out, const struct json *root, struct error *err)
{
    struct arena arena = { 0 };
    struct model_head head;
    struct model *model = NULL;
    bool done = read_head(&head, root, &arena, err);
    if (done && !(model = model_new(&head)))
        done = fail_kind(err, ERROR_ENVIRONMENT, "out of memory while reading the model");
    done = done && read_layers(model, head.layers, err) && model_finish(model, root, err);
    arena_free(&arena);
    if (done)
        *out = model;
    else
        model_free(model);
    return done;
}

static bool read_any(struct model **out, const struct json *root, const char *name, struct model_reading *reading,
                     struct error *err)
{
    if (json_type(root) != JSON_OBJECT)
        return json_fail(
            root, err, "expected a model (an object with \"format\": \"" FORMAT "\" or a known foreign one), found %s",
            json_type_name(json_type(root)));
    if (json_member(root, "format"))
        return read_native(out, root, err);
    for (int i = 0; importers[i]; i++)
        if (importers[i]->detect(root)) {
            if (reading)
                reading->foreign = importers[i]->name;
            return importers[i]->read(out, root, name, reading, err);
        }
    return json_fail(root, err,
                     "expected \"format\": \"" FORMAT "\", or a Hugging Face config.json with \"model_type\"");
}

/* Python writes NaN and Infinity, which are no JSON. Here they become values of the same length that are in no key's
 * range; *count: how many. Text in quotes stays as it is. */
static char *without_python(const char *text, size_t length, int *count)
{
    static const struct {
        const char *word, *value;
    } words[] = { { "NaN", "[] " }, { "Infinity", "1e308   " } };
    char *copy = malloc(length + 1);
    bool quoted = false;
    *count = 0;
    for (size_t i = 0; copy && i < length; i++) {
        copy[i] = text[i];
        quoted ^= text[i] == '"';
        if (quoted && text[i] == '\\' && i + 1 < length) {
            i++;
            copy[i] = text[i];
        }
        for (int w = 0; w < 2 && !quoted; w++) {
            size_t size = strlen(words[w].word);
            if (length - i < size || memcmp(text + i, words[w].word, size) != 0)
                continue;
            memcpy(copy + i, words[w].value, size);
            i += size - 1;
            (*count)++;
            break;
        }
    }
    return copy;
}

/* A second try at a file that is not JSON: one of Python's, if it is no native one. Those are short. */
static bool parse_foreign(struct json_doc **doc, const char *name, const char *text, size_t length,
                          struct model_reading *reading)
{
    int count;
    char *copy = length <= JSON_SHORT_BYTES ? without_python(text, length, &count) : NULL;
    bool ok = copy && count && json_parse(doc, name, copy, length, NULL);
    free(copy);
    if (ok && (json_type(json_root(*doc)) != JSON_OBJECT || json_member(json_root(*doc), "format"))) {
        json_free(*doc);
        *doc = NULL;
        return false;
    }
    if (ok && reading && reading->notes)
        text_printf(reading->notes, "note: the file has Python's NaN or Infinity, which are no JSON: read as numbers "
                                    "out of any range\n");
    return ok;
}

/* Stores frozen matrices as whoever reads the file says; a model without any is freed. */
static bool quantize(struct model **out, const struct json *root, const struct model_reading *reading,
                     struct error *err)
{
    const int form = reading->quantized - 1;
    bool frozen = form == QUANTIZED_NONE, some;
    for (int l = 0; l < (*out)->layer_count; l++) {
        const struct layer *layer = &(*out)->layers[l];
        frozen = frozen || (((const struct layer_head *)layer->fields)->frozen && model_layer_quantizes(layer, true));
    }
    if (frozen && model_quantize(*out, (enum quantized)form, reading->quantizes_experts, &some))
        return true;
    model_free(*out);
    *out = NULL;
    return frozen ? fail_memory(err)
                  : json_fail(root, err,
                              "expected adapters, found none: what is trained is not stored in %s; name PEFT's "
                              "adapter_config.json (cleave import --adapter FILE), or a launch that has them, with "
                              "their rank",
                              quantized_names[form]);
}

static void note_experts(struct text *notes, const struct model *model)
{
    bool quantized = false, wide = false;
    for (int l = 0; l < model->layer_count; l++) {
        const struct layer *layer = &model->layers[l];
        const struct layer_head *head = layer->fields;
        quantized = quantized || head->quantized;
        wide = wide || (!head->quantized && head->frozen && !model_layer_quantizes(layer, false) &&
                        model_layer_quantizes(layer, true));
    }
    if (quantized && wide)
        text_printf(notes,
                    "note: experts stay in the plan's dtype: since transformers 5 they are no linear layers, which "
                    "alone bitsandbytes quantizes (cleave import --quantized-experts: as before, and as axolotl's "
                    "quantize_moe_experts does)\n");
}

bool model_read_as(struct model **out, const char *name, const char *text, size_t length, struct model_reading *reading,
                   struct error *err)
{
    struct json_doc *doc = NULL;
    struct error strict = { 0 };
    if (!json_parse(&doc, name, text, length, &strict) && !parse_foreign(&doc, name, text, length, reading)) {
        if (err)
            *err = strict;
        return false;
    }
    bool done = read_any(out, json_root(doc), name, reading, err) &&
                (!reading || !reading->quantized || quantize(out, json_root(doc), reading, err));
    json_free(doc);
    if (done && reading && reading->notes && (reading->foreign || reading->quantized))
        note_experts(reading->notes, *out);
    return done;
}

bool model_read(struct model **out, const char *name, const char *text, size_t length, const char **foreign,
                struct error *err)
{
    struct model_reading reading = { 0 };
    bool done = model_read_as(out, name, text, length, &reading, err);
    if (done && foreign)
        *foreign = reading.foreign;
    return done;
}

static void write_left_out(struct json_writer *w, const struct model_left_out *left_out)
{
    if (!left_out->positions && !left_out->further_blocks && !(left_out->adapter_dropout > 0) &&
        !left_out->adapter_init && !left_out->adapter_modules)
        return;
    json_write_key(w, "left_out");
    json_begin_object(w);
    fields_write(w, left_out_fields, LEFT_OUT_FIELDS, left_out, &model_left_out_defaults);
    json_end_object(w);
}

static void write_layers(struct json_writer *w, const struct model *model, const struct model_block *block)
{
    for (int i = 0; i < block->layer_count; i++) {
        const struct layer *layer = &model->layers[block->first_layer + i];
        json_begin_object(w);
        fields_write(w, layer->kind->fields, layer->kind->field_count, layer->fields, layer->kind->defaults);
        edges_write(w, model, block->first_layer + i);
        json_end_object(w);
    }
}

char *model_write(const struct model *model, size_t *length)
{
    struct json_writer w = { 0 };
    struct model_head head = { .format = FORMAT,
                               .name = model->name,
                               .version = VERSION,
                               .sequence = model->sequence,
                               .hidden = model->hidden,
                               .vocab_size = model->vocab_size,
                               .image_size = model->image_size,
                               .image_channels = model->image_channels,
                               .tied_embedding = model->tied_embedding,
                               .init_std = model->init_std };
    json_begin_object(&w);
    fields_write(&w, head_fields, HEAD_FIELDS, &head, &model_head_defaults);
    write_left_out(&w, &model->left_out);
    json_write_key(&w, "layers");
    json_begin_array(&w);
    for (int i = 0; i < model->block_count; i++) {
        const struct model_block *block = &model->blocks[i];
        if (block->count > 1) {
            json_begin_object(&w);
            json_put_int(&w, "repeat", block->count);
            json_write_key(&w, "layers");
            json_begin_array(&w);
        }
        write_layers(&w, model, block);
        if (block->count > 1) {
            json_end_array(&w);
            json_end_object(&w);
        }
    }
    json_end_array(&w);
    json_end_object(&w);
    return json_finish(&w, length);
}

bool model_document(struct json_doc **out, const struct model *model, struct error *err)
{
    size_t length = 0;
    char *text = model_write(model, &length);
    bool done = text ? json_parse(out, model->name, text, length, err) : fail_memory(err);
    free(text);
    return done;
}

bool model_read_value(struct model **out, const struct json *description, struct error *err)
{
    return json_type(description) == JSON_OBJECT
               ? read_native(out, description, err)
               : json_fail(description, err, "expected a model, found %s", json_type_name(json_type(description)));
}
