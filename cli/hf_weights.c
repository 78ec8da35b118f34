#include "cli/hf_weights.h"
#include "base/text.h"
#include "executor/hf_elements.h"
#include <stdlib.h>
#include <string.h>

/* A config.json that says which family's names to use, and of which type its weights are. */
struct config {
    const char *path, *folder, *text;
    size_t length;
    const struct hf_tensor_names *names;
    enum tensor_type type;
    struct arena *arena;
};

static bool fail_family(const struct json *at, const char *type, struct error *err)
{
    struct text known = { 0 };
    for (const struct hf_tensor_names *names = hf_tensor_families; names->types; names++)
        text_printf(&known, "%s", names->types + (names > hf_tensor_families));
    json_fail(at, err,
              "cleave does not know what checkpoints of model_type \"%.64s\" call their tensors; of these it does:%s",
              type, known.data ? known.data : "");
    text_free(&known);
    return false;
}

static bool read_config(void *self, const struct json *root, struct error *err)
{
    struct config *c = self;
    const struct json *at;
    const char *type, *word = "float32";
    static const char *const words[] = { "float32", "bfloat16", "float16", NULL };
    static const enum tensor_type types[] = { TENSOR_F32, TENSOR_BF16, TENSOR_F16 };
    if (!json_require(root, "model_type", &at, err) || !json_string(at, &type, err))
        return false;
    c->names = hf_tensor_names_of(type);
    if (!c->names)
        return fail_family(at, type, err);
    at = json_member(root, "dtype");
    at = at ? at : json_member(root, "torch_dtype");
    c->type = TENSOR_F32;
    if (!at || json_type(at) == JSON_NULL)
        return true;
    if (!json_string(at, &word, err))
        return false;
    for (int i = 0; words[i]; i++)
        if (strcmp(word, words[i]) == 0) {
            c->type = types[i];
            return true;
        }
    return json_fail(at, err, "expected \"float32\", \"bfloat16\" or \"float16\", found \"%.64s\"", word);
}

static bool open_config(struct config *c, struct inputs *in, const char *folder, const char *path, struct error *err)
{
    struct text text = { 0 };
    *c = (struct config){ .folder = folder, .path = path, .arena = &in->arena };
    if (!path) {
        text_printf(&text, "%s/config.json", folder);
        c->path = text.failed ? NULL : arena_strdup(&in->arena, text.data);
        text_free(&text);
        if (!c->path)
            return fail_memory(err);
    }
    return inputs_text(in, c->path, &c->text, &c->length, err) &&
           json_parse_with(c->path, c->text, c->length, read_config, c, err);
}

/* The line up to its end, without spaces in front and the comma behind. */
static const char *next_line(const char **at, int *length)
{
    const char *begin = *at + strspn(*at, " "), *end = begin + strcspn(begin, "\n");
    *at = *end ? end + 1 : end;
    *length = (int)(end - begin);
    *length -= *length > 0 && begin[*length - 1] == ',';
    return begin;
}

/* Shapes are compared with the weights'; what else the file says of the model changes what is computed with them. */
static bool note_difference(struct inputs *in, const struct config *c, struct error *err)
{
    struct model *other = NULL;
    struct text notes = { 0 };
    struct model_reading reading = { .sequence = in->model->sequence, .notes = &notes };
    size_t length;
    bool read = model_read_as(&other, c->path, c->text, c->length, &reading, err);
    if (read && !in->reading.foreign && notes.data) /* of the plan's own foreign model they were said */
        fputs(notes.data, in->cli->talk);
    text_free(&notes);
    if (!read)
        return false;
    other->name = in->model->name;
    other->init_std = in->model->init_std;
    char *a = model_write(other, &length), *b = model_write(in->model, &length);
    const char *x = a, *y = b, *line = NULL, *own = NULL;
    int long_x = 0, long_y = 0;
    while (x && y && (*x || *y)) {
        line = next_line(&x, &long_x);
        own = next_line(&y, &long_y);
        if (long_x != long_y || memcmp(line, own, (size_t)long_x) != 0) {
            fprintf(in->cli->talk, "note: %s says another model than the plan's: %.*s, the plan %.*s\n", c->path,
                    long_x, line, long_y, own);
            break;
        }
    }
    bool ok = (a && b) || fail_memory(err);
    free(a);
    free(b);
    model_free(other);
    return ok;
}

/* Adapters are of none of these checkpoints. */
static const char *adapter_of(const struct hf_folder *folder)
{
    const struct graph *graph = folder->tensors->graph;
    for (int w = 0; w < graph->weight_count; w++)
        if (!hf_folder_has(folder, w))
            return graph->weights[w].name;
    return NULL;
}

static bool set_export(struct hf_weights *w, const struct config *config, const struct hf_request *request,
                       struct error *err)
{
    w->export = (struct hf_export){
        .like = w->from ? w->from : w->blank,
        .folder = request->to,
        .config = config->path,
        .beside = config->folder,
        .overwrite = request->overwrite,
    };
    const char *adapter = adapter_of(w->export.like);
    if (adapter)
        return fail(err, "--to-hf: the model has adapters (%s), which it does not write: give --checkpoint", adapter);
    return !request->writes || hf_output_check(&w->export, err);
}

static bool has_frozen(const struct graph *graph)
{
    return graph_trainable_count(graph) < graph_parameter_count(graph);
}

/* What is frozen is not in the configuration: then the two are not held against each other. */
static bool open_from(struct hf_weights *out, struct config *config, struct inputs *in,
                      const struct hf_request *request, struct error *err)
{
    if (!open_config(config, in, request->from, NULL, err) ||
        (request->speaks && !has_frozen(in->graph) && !note_difference(in, config, err)) ||
        !hf_folder_open(&out->from, request->from, config->names, in->graph, err))
        return false;
    if (request->speaks && request->begins)
        fprintf(in->cli->talk, "begins with the %d tensors of %s\n", hf_folder_count(out->from), request->from);
    return true;
}

/* Without weights to go by: as the configuration that --model names says. A plan holds the model, not these names. */
static bool open_blank(struct hf_weights *out, struct config *config, struct inputs *in,
                       const struct hf_request *request, struct error *err)
{
    const char *slash = request->model ? strrchr(request->model, '/') : NULL, *folder = ".";
    if (!request->model || !in->reading.foreign || request->model[0] == '{')
        return fail(err, "--to-hf: expected a config.json of Hugging Face, which says what tensors are called: give "
                         "--from-hf DIR or --model config.json");
    if (slash)
        folder =
            arena_strndup(&in->arena, request->model, (size_t)(slash - request->model) + (slash == request->model));
    if (!folder)
        return fail_memory(err);
    return open_config(config, in, folder, request->model, err) &&
           hf_folder_blank(&out->blank, config->names, in->graph, config->type, err);
}

bool hf_weights_open(struct hf_weights *out, struct inputs *in, const struct hf_request *request, struct error *err)
{
    struct config config;
    *out = (struct hf_weights){ 0 };
    if (!request->from && !request->to)
        return true;
    bool ok = request->from ? open_from(out, &config, in, request, err) : open_blank(out, &config, in, request, err);
    return ok && (!request->to || set_export(out, &config, request, err));
}

void hf_weights_close(struct hf_weights *weights)
{
    hf_folder_free(weights->from);
    hf_folder_free(weights->blank);
    *weights = (struct hf_weights){ 0 };
}
