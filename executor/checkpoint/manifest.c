#include "executor/checkpoint/manifest.h"
#include "base/num.h"
#include "host/file.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The checksum is the last member; it is of all bytes before these. */
#define SEAL_BEGIN ",\n  \"checksum\": \""
#define SEAL_END "\"\n}\n"
#define OPEN_END "\n}\n" /* of a manifest without it */
enum { HASH_DIGITS = 16, SEAL_BYTES = sizeof SEAL_BEGIN - 1 + HASH_DIGITS + sizeof SEAL_END - 1 };
enum { MOST_FILES = 1 << 24 };

void checkpoint_label_print(const struct checkpoint_label *label, int rank, char out[CHECKPOINT_LABEL_BYTES])
{
    snprintf(out, CHECKPOINT_LABEL_BYTES,
             "version %d step %" PRId64 " save %" PRId64 " seed %" PRIu64 " model %016" PRIx64 " plan %016" PRIx64
             " rank %d of %d",
             CHECKPOINT_VERSION, label->step, label->save, label->seed, label->model_hash, label->plan_hash, rank,
             label->file_count);
}

void checkpoint_file_name(char out[CHECKPOINT_NAME_BYTES], int rank)
{
    snprintf(out, CHECKPOINT_NAME_BYTES, "rank-%d.safetensors", rank);
}

/* ---- writing ---- */
static void put_hash(struct json_writer *w, const char *key, uint64_t hash)
{
    char text[HASH_DIGITS + 1];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    json_put_string(w, key, text);
}

static void print_seal(const char *text, size_t length, char seal[SEAL_BYTES + 1])
{
    snprintf(seal, SEAL_BYTES + 1, SEAL_BEGIN "%016" PRIx64 SEAL_END, hash_bytes(HASH_START, text, length));
}

char *manifest_write(const struct checkpoint_label *label, const char *model, const struct file_record *records,
                     size_t *length)
{
    struct json_writer w = { 0 };
    char name[CHECKPOINT_NAME_BYTES];
    json_begin_format(&w, CHECKPOINT_FORMAT, CHECKPOINT_VERSION);
    json_put_int(&w, "step", label->step);
    json_put_int(&w, "save", label->save);
    json_put_string(&w, "model", model);
    put_hash(&w, "model_hash", label->model_hash);
    put_hash(&w, "plan_hash", label->plan_hash);
    put_hash(&w, "seed", label->seed);
    json_write_key(&w, "files");
    json_begin_array(&w);
    for (int r = 0; r < label->file_count; r++) {
        checkpoint_file_name(name, r);
        json_begin_object(&w);
        json_put_string(&w, "name", name);
        json_put_int(&w, "bytes", records[r].bytes);
        put_hash(&w, "header_hash", records[r].header_hash);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
    size_t open_length;
    char *open = json_finish(&w, &open_length);
    size_t kept = open ? open_length - (sizeof OPEN_END - 1) : 0;
    char *text = open ? realloc(open, kept + SEAL_BYTES + 1) : NULL;
    if (!text) {
        free(open);
        return NULL;
    }
    print_seal(text, kept, text + kept);
    *length = kept + SEAL_BYTES;
    return text;
}

/* ---- reading ---- */
static bool read_hash(const struct json *object, const char *key, uint64_t *out, struct error *err)
{
    const struct json *member;
    const char *text;
    if (!json_require(object, key, &member, err) || !json_string(member, &text, err))
        return false;
    if (strlen(text) != HASH_DIGITS || strspn(text, "0123456789abcdef") != HASH_DIGITS)
        return json_fail(member, err, "expected 16 hexadecimal digits, found \"%s\"", text);
    *out = strtoull(text, NULL, 16);
    return true;
}

static bool read_int(const struct json *object, const char *key, int64_t least, int64_t *out, struct error *err)
{
    const struct json *member;
    return json_require(object, key, &member, err) && json_int(member, least, INT64_MAX, out, err);
}

/* Why a text is none of ours: another format, another version, or damage. */
static bool fail_seal(const char *path, const char *text, size_t length, struct error *err)
{
    struct json_doc *doc = NULL;
    const struct json *member = NULL;
    int64_t version = CHECKPOINT_VERSION;
    struct error ignored = { 0 };
    if (json_parse(&doc, path, text, length, &ignored)) {
        const struct json *root = json_root(doc);
        if (!json_check_format(root, CHECKPOINT_FORMAT, err) || (member = json_member(root, "version")) == NULL ||
            !json_int(member, 0, INT64_MAX, &version, &ignored))
            version = CHECKPOINT_VERSION;
        if (err->kind == ERROR_NONE && version != CHECKPOINT_VERSION)
            json_fail(member, err,
                      "expected a checkpoint of version %d, found version %lld: resume it with the release of cleave "
                      "that wrote it, or begin anew in another folder",
                      CHECKPOINT_VERSION, (long long)version);
    }
    json_free(doc);
    return err->kind != ERROR_NONE
               ? false
               : fail_kind(err, ERROR_INPUT,
                           "%s: the checksum over itself differs: the file is damaged: " CHECKPOINT_WHOLE_ONE, path);
}

static bool check_seal(const char *path, const char *text, size_t length, struct error *err)
{
    char seal[SEAL_BYTES + 1];
    if (length < SEAL_BYTES)
        return fail_seal(path, text, length, err);
    print_seal(text, length - SEAL_BYTES, seal);
    return memcmp(text + length - SEAL_BYTES, seal, SEAL_BYTES) == 0 || fail_seal(path, text, length, err);
}

static bool read_files(struct manifest *out, const struct json *root, struct error *err)
{
    const struct json *files, *member;
    char expected[CHECKPOINT_NAME_BYTES];
    const char *name;
    if (!json_require(root, "files", &files, err))
        return false;
    if (json_type(files) != JSON_ARRAY || json_count(files) < 1 || json_count(files) > MOST_FILES)
        return json_fail(files, err, "expected an array of 1 to %d files, found %s", MOST_FILES,
                         json_type_name(json_type(files)));
    out->label.file_count = json_count(files);
    out->records = calloc((size_t)out->label.file_count, sizeof *out->records);
    if (!out->records)
        return fail_kind(err, ERROR_ENVIRONMENT, "%s: out of memory", out->path);
    for (int i = 0; i < out->label.file_count; i++) {
        const struct json *entry = json_at(files, i);
        checkpoint_file_name(expected, i);
        if (!json_require(entry, "name", &member, err) || !json_string(member, &name, err))
            return false;
        if (strcmp(name, expected) != 0)
            return json_fail(member, err, "expected \"%s\", found \"%s\"", expected, name);
        if (!read_int(entry, "bytes", 0, &out->records[i].bytes, err) ||
            !read_hash(entry, "header_hash", &out->records[i].header_hash, err))
            return false;
    }
    return true;
}

static bool read_all(struct manifest *out, const char *text, size_t length, struct error *err)
{
    const struct json *member;
    int64_t version;
    if (!check_seal(out->path, text, length, err) || !json_parse(&out->doc, out->path, text, length, err))
        return false;
    const struct json *root = json_root(out->doc);
    struct checkpoint_label *l = &out->label;
    return json_require(root, "format", &member, err) && json_check_format(root, CHECKPOINT_FORMAT, err) &&
           json_require(root, "version", &member, err) &&
           json_int(member, CHECKPOINT_VERSION, CHECKPOINT_VERSION, &version, err) &&
           read_int(root, "step", 1, &l->step, err) && read_int(root, "save", 1, &l->save, err) &&
           json_require(root, "model", &member, err) && json_string(member, &out->model, err) &&
           read_hash(root, "model_hash", &l->model_hash, err) && read_hash(root, "plan_hash", &l->plan_hash, err) &&
           read_hash(root, "seed", &l->seed, err) && read_files(out, root, err);
}

bool manifest_parse(struct manifest *out, const char *path, const char *text, size_t length, struct error *err)
{
    *out = (struct manifest){ .doc = NULL };
    snprintf(out->path, sizeof out->path, "%s", path);
    bool ok = read_all(out, text, length, err);
    if (!ok)
        manifest_free(out);
    return ok;
}

bool manifest_read(struct manifest *out, const char *folder, struct error *err)
{
    char path[CHECKPOINT_PATH_BYTES], *text;
    size_t length;
    if (snprintf(path, sizeof path, "%s/" CHECKPOINT_MANIFEST, folder) >= (int)sizeof path)
        return fail_kind(err, ERROR_INPUT, "checkpoint: the path %s is too long", folder);
    if (!file_read_limited(&text, &length, path, FILE_MAX_TEXT_BYTES, err))
        return false;
    bool ok = manifest_parse(out, path, text, length, err);
    free(text);
    return ok;
}

void manifest_free(struct manifest *manifest)
{
    json_free(manifest->doc);
    free(manifest->records);
    manifest->doc = NULL;
    manifest->records = NULL;
}
