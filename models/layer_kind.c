#include "models/layer_kind.h"
#include "base/num.h"
#include <string.h>

#define KIND(symbol) extern const struct layer_kind symbol##_kind;
#include "models/kinds.def"
#undef KIND

const struct layer_kind *const layer_kinds[] = {
#define KIND(symbol) &symbol##_kind,
#include "models/kinds.def"
#undef KIND
    NULL,
};

const struct layer_kind *layer_kind_find(const char *name)
{
    for (int i = 0; layer_kinds[i]; i++)
        if (strcmp(layer_kinds[i]->name, name) == 0)
            return layer_kinds[i];
    return NULL;
}

static bool strings_equal(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool field_equal(const struct json_field *field, const void *a, const void *b)
{
    const char *x = (const char *)a + field->offset, *y = (const char *)b + field->offset;
    switch (field->type) {
    case FIELD_INT:
        return *(const int64_t *)(const void *)x == *(const int64_t *)(const void *)y;
    case FIELD_DOUBLE:
        return memcmp(x, y, sizeof(double)) == 0;
    case FIELD_BOOL:
        return *(const bool *)x == *(const bool *)y;
    case FIELD_STRING:
        return strings_equal(*(const char *const *)(const void *)x, *(const char *const *)(const void *)y);
    case FIELD_ENUM:
    case FIELD_WORDS:
        return *(const int *)(const void *)x == *(const int *)(const void *)y;
    case FIELD_NODE:
        return true; /* inputs: whatever is compared here reads alike or not by where it stands */
    }
    return false;
}

/* The names of layers tell nothing apart. */
static bool field_counts(const struct json_field *field)
{
    return strcmp(field->key, "name") != 0;
}

bool layer_fields_equal(const struct layer_kind *kind, const void *a, const void *b)
{
    for (size_t i = 0; i < kind->field_count; i++)
        if (field_counts(&kind->fields[i]) && !field_equal(&kind->fields[i], a, b))
            return false;
    return true;
}

static uint64_t field_hash(uint64_t hash, const struct json_field *field, const void *fields)
{
    const char *at = (const char *)fields + field->offset, *text;
    int64_t value = 0;
    switch (field->type) {
    case FIELD_INT:
    case FIELD_DOUBLE:
        memcpy(&value, at, sizeof value);
        break;
    case FIELD_BOOL:
        value = *(const bool *)at;
        break;
    case FIELD_STRING:
        text = *(const char *const *)(const void *)at;
        return text ? hash_string(hash, text) : hash;
    case FIELD_ENUM:
    case FIELD_WORDS:
        value = *(const int *)(const void *)at;
        break;
    case FIELD_NODE:
        return hash;
    }
    return mix64(hash ^ (uint64_t)value);
}

uint64_t layer_fields_hash(const struct layer_kind *kind, const void *fields)
{
    uint64_t hash = HASH_START;
    for (size_t i = 0; i < kind->field_count; i++)
        if (field_counts(&kind->fields[i]))
            hash = field_hash(hash, &kind->fields[i], fields);
    return hash;
}

static void words_write(struct json_writer *w, const char *const *words, int bits)
{
    json_begin_array(w);
    for (int i = 0; words[i]; i++)
        if (bits >> i & 1)
            json_write_string(w, words[i]);
    json_end_array(w);
}

static void field_write(struct json_writer *w, const struct json_field *field, const void *data)
{
    const void *at = (const char *)data + field->offset;
    json_write_key(w, field->key);
    switch (field->type) {
    case FIELD_INT:
        json_write_int(w, *(const int64_t *)at);
        break;
    case FIELD_DOUBLE:
        json_write_double(w, *(const double *)at);
        break;
    case FIELD_BOOL:
        json_write_bool(w, *(const bool *)at);
        break;
    case FIELD_STRING:
        json_write_string(w, *(const char *const *)at);
        break;
    case FIELD_ENUM:
        json_write_string(w, field->names[*(const int *)at]);
        break;
    case FIELD_WORDS:
        words_write(w, field->names, *(const int *)at);
        break;
    case FIELD_NODE:
        break;
    }
}

void fields_write(struct json_writer *w, const struct json_field *fields, size_t count, const void *data,
                  const void *defaults)
{
    for (size_t i = 0; i < count; i++)
        if (fields[i].type != FIELD_NODE && (fields[i].required || !field_equal(&fields[i], data, defaults)))
            field_write(w, &fields[i], data);
}

const struct json *json_at_key(const struct json *object, const char *key)
{
    const struct json *member = json_member(object, key);
    return member ? member : object;
}
