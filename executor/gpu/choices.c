#include "executor/gpu/choices.h"
#include "base/json.h"
#include "host/file.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_BYTES = 16 << 20, VERSION = 2 };
static const char format_name[] = "cleave-tuned";

struct header {
    const char *format, *device;
    int64_t version;
    const struct json *choices;
};
static const struct json_field fields[] = {
    { .key = "format", .type = FIELD_STRING, .offset = offsetof(struct header, format), .required = true },
    { .key = "version",
      .type = FIELD_INT,
      .offset = offsetof(struct header, version),
      .required = true,
      .min = VERSION,
      .max = VERSION },
    { .key = "device", .type = FIELD_STRING, .offset = offsetof(struct header, device), .required = true },
    { .key = "choices", .type = FIELD_NODE, .offset = offsetof(struct header, choices), .required = true },
};

/* Copied out of the reader's arena. */
static bool keep_choices(struct gpu_choices *out, const struct gpu_choices *read, struct error *err)
{
    out->choice = calloc((size_t)read->count + 1, sizeof *out->choice);
    if (!out->choice)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for %d choices", read->count);
    if (read->count > 0)
        memcpy(out->choice, read->choice, (size_t)read->count * sizeof *out->choice);
    out->count = read->count;
    return true;
}

bool gpu_choices_read(struct gpu_choices *out, const char *name, const char *text, size_t length, const char *device,
                      struct error *err)
{
    struct json_doc *doc = NULL;
    struct arena arena = { 0 };
    struct header header = { 0 };
    struct gpu_choices choices;
    bool ok = json_parse(&doc, name, text, length, err) && json_check_format(json_root(doc), format_name, err) &&
              json_read_fields(json_root(doc), fields, sizeof fields / sizeof *fields, &header, &arena, err);
    if (ok && strcmp(header.device, device) != 0)
        ok = fail_kind(err, ERROR_INPUT, "%s: was timed on \"%s\", this is \"%s\": remove it or name another file",
                       name, header.device, device);
    ok = ok && gpu_choices_from_json(&choices, &arena, header.choices, err) && keep_choices(out, &choices, err);
    arena_free(&arena);
    json_free(doc);
    return ok;
}

char *gpu_choices_write(const struct gpu_choices *choices, const char *device, size_t *length)
{
    struct json_writer w = { 0 };
    json_begin_format(&w, format_name, VERSION);
    json_put_string(&w, "device", device);
    json_write_key(&w, "choices");
    gpu_choices_to_json(&w, choices);
    json_end_object(&w);
    return json_finish(&w, length);
}

void gpu_choices_free(struct gpu_choices *choices)
{
    free(choices->choice);
    *choices = (struct gpu_choices){ 0 };
}

/* ---- files ---- */

bool gpu_choices_load(const struct gpu *gpu, const char *path, struct error *err)
{
    struct gpu_choices choices = { 0 };
    char *text = NULL;
    size_t length = 0;
    if (!gpu->learn)
        return true;
    if (access(path, F_OK) != 0) /* the first run makes it */
        return file_check_writable(path, err);
    bool ok = file_read_limited(&text, &length, path, FILE_BYTES, err) &&
              gpu_choices_read(&choices, path, text, length, gpu->description, err) &&
              gpu->learn(gpu->self, choices.choice, choices.count, err);
    gpu_choices_free(&choices);
    free(text);
    return ok;
}

static bool ask(const struct gpu *gpu, struct gpu_choices *out)
{
    *out = (struct gpu_choices){ .choice = calloc(GPU_MOST_CHOICES, sizeof *out->choice) };
    out->count = out->choice ? gpu->learned(gpu->self, out->choice, GPU_MOST_CHOICES) : 0;
    return out->choice != NULL;
}

bool gpu_choices_save(const struct gpu *gpu, const char *path, struct error *err)
{
    size_t length = 0;
    struct gpu_choices choices;
    if (!gpu->learned)
        return true;
    if (ask(gpu, &choices) && choices.count == 0) { /* what was kept before is worth more */
        gpu_choices_free(&choices);
        return true;
    }
    char *text = choices.choice ? gpu_choices_write(&choices, gpu->description, &length) : NULL;
    bool ok = text ? file_write(path, text, length, err) : fail_kind(err, ERROR_ENVIRONMENT, "no memory for %s", path);
    gpu_choices_free(&choices);
    free(text);
    return ok;
}

/* ---- profiles and runs of one process ---- */

static bool recall(const struct gpu *gpu, const char *device, const struct gpu_choices *known, struct error *err)
{
    return known->count == 0 || strcmp(device, gpu->description) != 0 ||
           gpu->learn(gpu->self, known->choice, known->count, err);
}

bool gpu_choices_recall(const struct gpu *gpu, const struct facts *facts, struct gpu_learned *learned,
                        struct error *err)
{
    bool ok = true;
    if (!gpu->learn)
        return true;
    for (const struct profile *p = facts ? facts->profile : NULL; p && ok; p = p->next)
        ok = recall(gpu, p->tuned_device, &p->tuned, err);
    if (!learned)
        return ok;
    pthread_mutex_lock(&learned->mutex);
    ok = ok && recall(gpu, learned->device, &learned->choices, err);
    pthread_mutex_unlock(&learned->mutex);
    return ok;
}

void gpu_choices_keep(const struct gpu *gpu, struct gpu_learned *learned)
{
    struct gpu_choices choices, joined;
    struct arena arena = { 0 };
    if (!gpu->learned || !learned || strlen(gpu->description) >= sizeof learned->device)
        return;
    pthread_mutex_lock(&learned->mutex);
    if (strcmp(learned->device, gpu->description) != 0)
        learned->choices.count = 0; /* of another device */
    if (ask(gpu, &choices) && gpu_choices_join(&joined, &arena, &learned->choices, &choices)) {
        arena_free(&learned->arena);
        learned->arena = arena;
        learned->choices = joined;
        strcpy(learned->device, gpu->description);
    }
    pthread_mutex_unlock(&learned->mutex);
    gpu_choices_free(&choices);
}

void gpu_learned_open(struct gpu_learned *learned)
{
    *learned = (struct gpu_learned){ .device = "" };
    pthread_mutex_init(&learned->mutex, NULL);
}

void gpu_learned_close(struct gpu_learned *learned)
{
    pthread_mutex_destroy(&learned->mutex);
    arena_free(&learned->arena);
}
