#include "executor/gpu/choices.h"
#include "base/json.h"
#include "host/file.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_BYTES = 16 << 20, VERSION = 2 };
static const char format_name[] = "cleave-tuned";
static const int64_t most_setting = UINT32_MAX;

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

static bool read_choice(struct gpu_choice *out, const struct json *numbers, struct error *err)
{
    if (json_type(numbers) != JSON_ARRAY || json_count(numbers) != GPU_CHOICE_KEY + GPU_CHOICE_SETTINGS)
        return json_fail(numbers, err, "expected an array of %d numbers, found %s of %d",
                         GPU_CHOICE_KEY + GPU_CHOICE_SETTINGS, json_type_name(json_type(numbers)), json_count(numbers));
    for (int i = 0; i < GPU_CHOICE_KEY; i++)
        if (!json_int(json_at(numbers, i), 0, INT64_MAX, &out->key[i], err))
            return false;
    for (int i = 0; i < GPU_CHOICE_SETTINGS; i++)
        if (!json_int(json_at(numbers, GPU_CHOICE_KEY + i), 0, most_setting, &out->setting[i], err))
            return false;
    return true;
}

static bool read_choices(struct gpu_choices *out, const struct json *list, struct error *err)
{
    int count = json_count(list);
    if (json_type(list) != JSON_ARRAY || count > GPU_MOST_CHOICES)
        return json_fail(list, err, "expected an array of at most %d choices, found %s of %d", (int)GPU_MOST_CHOICES,
                         json_type_name(json_type(list)), count);
    out->choice = calloc((size_t)count + 1, sizeof *out->choice);
    if (!out->choice)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for %d choices", count);
    for (; out->count < count; out->count++)
        if (!read_choice(&out->choice[out->count], json_at(list, out->count), err))
            return false;
    return true;
}

bool gpu_choices_read(struct gpu_choices *out, const char *name, const char *text, size_t length, const char *device,
                      struct error *err)
{
    struct json_doc *doc = NULL;
    struct arena arena = { 0 };
    struct header header = { 0 };
    struct gpu_choices choices = { 0 };
    bool ok = json_parse(&doc, name, text, length, err) && json_check_format(json_root(doc), format_name, err) &&
              json_read_fields(json_root(doc), fields, sizeof fields / sizeof *fields, &header, &arena, err);
    if (ok && strcmp(header.device, device) != 0)
        ok = fail_kind(err, ERROR_INPUT, "%s: was timed on \"%s\", this is \"%s\": remove it or name another file",
                       name, header.device, device);
    ok = ok && read_choices(&choices, header.choices, err);
    if (ok)
        *out = choices;
    else
        gpu_choices_free(&choices);
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
    json_begin_array(&w);
    for (int c = 0; c < choices->count; c++) {
        json_begin_array(&w);
        for (int i = 0; i < GPU_CHOICE_KEY; i++)
            json_write_int(&w, choices->choice[c].key[i]);
        for (int i = 0; i < GPU_CHOICE_SETTINGS; i++)
            json_write_int(&w, choices->choice[c].setting[i]);
        json_end_array(&w);
    }
    json_end_array(&w);
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

bool gpu_choices_save(const struct gpu *gpu, const char *path, struct error *err)
{
    size_t length = 0;
    if (!gpu->learned)
        return true;
    struct gpu_choices choices = { .choice = calloc(GPU_MOST_CHOICES, sizeof *choices.choice) };
    choices.count = choices.choice ? gpu->learned(gpu->self, choices.choice, GPU_MOST_CHOICES) : 0;
    char *text = choices.choice ? gpu_choices_write(&choices, gpu->description, &length) : NULL;
    bool ok = text ? file_write(path, text, length, err) : fail_kind(err, ERROR_ENVIRONMENT, "no memory for %s", path);
    gpu_choices_free(&choices);
    free(text);
    return ok;
}
