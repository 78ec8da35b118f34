#include "executor/safetensors.h"
#include "base/json.h"
#include "base/num.h"
#include <stdlib.h>
#include <string.h>

/* Of a tensor a header says some 120 bytes: the 91,991 of DeepSeek-V3 would take 11 MB in one file. The format allows
 * 100 MB, which a file without content can claim. */
enum { MAX_HEADER_BYTES = 64 << 20 };
const char *const tensor_type_names[TENSOR_TYPE_COUNT + 1] = { "F64", "F32", "F16", "BF16", "I64", "I32",
                                                               "I16", "I8",  "U8",  "BOOL", NULL };

int64_t tensor_type_bytes(enum tensor_type type)
{
    static const int bytes[TENSOR_TYPE_COUNT] = {
        [TENSOR_F64] = 8,  [TENSOR_I64] = 8, [TENSOR_F32] = 4, [TENSOR_I32] = 4, [TENSOR_F16] = 2,
        [TENSOR_BF16] = 2, [TENSOR_I16] = 2, [TENSOR_I8] = 1,  [TENSOR_U8] = 1,  [TENSOR_BOOL] = 1
    };
    return bytes[type];
}

bool safetensors_header_bytes(size_t *out, const char *name, const unsigned char start[SAFETENSORS_LENGTH_BYTES],
                              int64_t file_bytes, struct error *err)
{
    uint64_t length = 0;
    for (int i = SAFETENSORS_LENGTH_BYTES - 1; i >= 0; i--)
        length = length << 8 | start[i];
    if (length > MAX_HEADER_BYTES || (int64_t)length > file_bytes - SAFETENSORS_LENGTH_BYTES)
        return fail_kind(
            err, ERROR_INPUT,
            "%s: expected a safetensors header of at most %d bytes inside the file's %lld, found a length of "
            "%llu",
            name, MAX_HEADER_BYTES, (long long)file_bytes, (unsigned long long)length);
    *out = (size_t)length;
    return true;
}

static bool read_shape(const struct json *entry, struct tensor *tensor, struct error *err)
{
    const struct json *shape;
    if (!json_require(entry, "shape", &shape, err))
        return false;
    if (json_type(shape) != JSON_ARRAY || json_count(shape) > SAFETENSORS_MAX_DIMS)
        return json_fail(shape, err, "expected an array of at most %d sizes, found %s", SAFETENSORS_MAX_DIMS,
                         json_type_name(json_type(shape)));
    tensor->dim_count = json_count(shape);
    int64_t bytes = tensor_type_bytes(tensor->type);
    for (int d = 0; d < tensor->dim_count; d++) {
        if (!json_int(json_at(shape, d), 0, INT64_MAX, &tensor->shape[d], err))
            return false;
        if (!mul_i64(&bytes, bytes, tensor->shape[d]))
            return json_fail(shape, err, "expected a size below 2^63 bytes");
    }
    if (bytes != tensor->bytes)
        return json_fail(shape, err, "expected the %lld bytes of data_offsets, found a shape of %lld bytes",
                         (long long)tensor->bytes, (long long)bytes);
    return true;
}

static bool read_tensor(const struct json *object, int index, int64_t data_bytes, struct arena *arena,
                        struct tensor *out, struct error *err)
{
    const struct json *entry = json_member_at(object, index), *type, *offsets;
    const char *word;
    int64_t end;
    if (json_type(entry) != JSON_OBJECT || json_count(entry) != 3)
        return json_fail(entry, err, "expected {dtype, shape, data_offsets}");
    if (!json_require(entry, "dtype", &type, err) || !json_string(type, &word, err) ||
        !json_require(entry, "data_offsets", &offsets, err))
        return false;
    int found = 0;
    while (found < TENSOR_TYPE_COUNT && strcmp(word, tensor_type_names[found]) != 0)
        found++;
    if (found == TENSOR_TYPE_COUNT)
        return json_fail(type, err, "expected a dtype such as F32, found \"%s\"", word);
    out->type = (enum tensor_type)found;
    if (json_type(offsets) != JSON_ARRAY || json_count(offsets) != 2)
        return json_fail(offsets, err, "expected [begin, end]");
    if (!json_int(json_at(offsets, 0), 0, data_bytes, &out->offset, err) ||
        !json_int(json_at(offsets, 1), out->offset, data_bytes, &end, err))
        return false;
    out->bytes = end - out->offset;
    out->name = arena_strdup(arena, json_key(object, index));
    if (!out->name)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    return read_shape(entry, out, err);
}

static int by_offset(const void *a, const void *b)
{
    const struct tensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes; /* empty ones first */
}

static bool read_notes(const struct json *object, struct safetensors *file, struct error *err)
{
    if (json_type(object) != JSON_OBJECT)
        return json_fail(object, err, "expected an object of strings, found %s", json_type_name(json_type(object)));
    file->notes = arena_alloc(&file->arena, (size_t)json_count(object), sizeof *file->notes);
    if (!file->notes)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    for (int i = 0; i < json_count(object); i++) {
        const char *value;
        if (!json_string(json_member_at(object, i), &value, err))
            return false;
        struct tensor_note *note = &file->notes[file->note_count++];
        note->key = arena_strdup(&file->arena, json_key(object, i));
        note->value = arena_strdup(&file->arena, value);
        if (!note->key || !note->value)
            return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    }
    return true;
}

static bool read_all(const struct json *root, struct safetensors *file, int64_t data_bytes, struct error *err)
{
    if (json_type(root) != JSON_OBJECT)
        return json_fail(root, err, "expected an object, found %s", json_type_name(json_type(root)));
    file->tensors = arena_alloc(&file->arena, (size_t)json_count(root), sizeof *file->tensors);
    if (!file->tensors)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    for (int i = 0; i < json_count(root); i++) {
        const char *key = json_key(root, i);
        bool ok = strcmp(key, "__metadata__") == 0
                      ? read_notes(json_member_at(root, i), file, err)
                      : read_tensor(root, i, data_bytes, &file->arena, &file->tensors[file->count++], err);
        if (!ok)
            return false;
    }
    if (file->count > 0)
        qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, by_offset);
    int64_t at = 0;
    for (int i = 0; i < file->count; at += file->tensors[i++].bytes)
        if (file->tensors[i].offset != at)
            return json_fail(root, err, "expected tensor %s at byte %lld of the data, found %lld",
                             file->tensors[i].name, (long long)at, (long long)file->tensors[i].offset);
    if (at != data_bytes)
        return json_fail(root, err, "expected %lld bytes of data, found %lld", (long long)at, (long long)data_bytes);
    return true;
}

bool safetensors_parse(struct safetensors **out, const char *name, const char *header, size_t header_bytes,
                       int64_t file_bytes, struct error *err)
{
    struct json_doc *doc = NULL;
    struct safetensors *file = calloc(1, sizeof *file);
    bool ok = file != NULL || fail_kind(err, ERROR_ENVIRONMENT, "%s: out of memory", name);
    int64_t data_start = SAFETENSORS_LENGTH_BYTES + (int64_t)header_bytes;
    if (ok && data_start > file_bytes)
        ok = fail_kind(err, ERROR_INPUT, "%s: the header is longer than the file", name);
    ok = ok && json_parse(&doc, name, header, header_bytes, err);
    if (ok) {
        file->data_start = data_start;
        ok = read_all(json_root(doc), file, file_bytes - data_start, err);
    }
    json_free(doc);
    if (!ok) {
        safetensors_free(file);
        return false;
    }
    *out = file;
    return true;
}

void safetensors_free(struct safetensors *file)
{
    if (!file)
        return;
    arena_free(&file->arena);
    free(file);
}

const char *safetensors_note(const struct safetensors *file, const char *key)
{
    for (int i = 0; i < file->note_count; i++)
        if (strcmp(file->notes[i].key, key) == 0)
            return file->notes[i].value;
    return NULL;
}

static void write_tensor(struct json_writer *w, const struct tensor *tensor)
{
    json_write_key(w, tensor->name);
    json_begin_object(w);
    json_put_string(w, "dtype", tensor_type_names[tensor->type]);
    json_write_key(w, "shape");
    json_begin_array(w);
    for (int d = 0; d < tensor->dim_count; d++)
        json_write_int(w, tensor->shape[d]);
    json_end_array(w);
    json_write_key(w, "data_offsets");
    json_begin_array(w);
    json_write_int(w, tensor->offset);
    json_write_int(w, tensor->offset + tensor->bytes);
    json_end_array(w);
    json_end_object(w);
}

/* The length in front, spaces behind, so that the data is aligned. */
static char *frame(const char *json, size_t json_bytes, size_t *length)
{
    size_t padded = (size_t)round_up((int64_t)json_bytes, SAFETENSORS_LENGTH_BYTES);
    char *all = malloc(SAFETENSORS_LENGTH_BYTES + padded);
    if (!all)
        return NULL;
    for (int i = 0; i < SAFETENSORS_LENGTH_BYTES; i++)
        all[i] = (char)(unsigned char)(padded >> (8 * i) & 0xff);
    memcpy(all + SAFETENSORS_LENGTH_BYTES, json, json_bytes);
    memset(all + SAFETENSORS_LENGTH_BYTES + json_bytes, ' ', padded - json_bytes);
    *length = SAFETENSORS_LENGTH_BYTES + padded;
    return all;
}

char *safetensors_write(struct tensor *tensors, int count, const struct tensor_note *notes, int note_count,
                        size_t *length)
{
    struct json_writer w = { 0 };
    int64_t at = 0;
    json_begin_object(&w);
    if (note_count > 0) {
        json_write_key(&w, "__metadata__");
        json_begin_object(&w);
        for (int i = 0; i < note_count; i++) {
            json_put_string(&w, notes[i].key, notes[i].value);
        }
        json_end_object(&w);
    }
    for (int i = 0; i < count; i++) {
        tensors[i].offset = at;
        at += tensors[i].bytes;
        write_tensor(&w, &tensors[i]);
    }
    json_end_object(&w);
    size_t json_bytes;
    char *json = json_finish(&w, &json_bytes);
    char *all = json ? frame(json, json_bytes, length) : NULL;
    free(json);
    return all;
}
