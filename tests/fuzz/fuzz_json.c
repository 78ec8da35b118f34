/* Any bytes: json_parse accepts or refuses, never crashes, and what it accepts holds its promises: every value can be
 * read and named, and written and parsed again it is the same document. */
#include "base/json.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* A key with a zero inside has no C string to write. */
static bool can_copy(const struct json *value)
{
    const char *text;
    struct error err = { 0 };
    if (json_type(value) == JSON_STRING)
        return json_string(value, &text, &err);
    for (int i = 0; i < json_count(value); i++) {
        const struct json *child = json_type(value) == JSON_ARRAY ? json_at(value, i) : json_member_at(value, i);
        if (json_type(value) == JSON_OBJECT && json_member(value, json_key(value, i)) != child)
            return false;
        if (!can_copy(child))
            return false;
    }
    return true;
}

static void copy_number(struct json_writer *w, const struct json *value)
{
    struct error err = { 0 };
    int64_t integer;
    double number;
    must(json_double(value, -1.0 / 0.0, 1.0 / 0.0, &number, &err));
    if (json_int(value, INT64_MIN, INT64_MAX, &integer, &err))
        must((double)integer <= number && (double)integer >= number);
    else
        must(err.kind == ERROR_INPUT && strlen(err.message) > 0);
    json_write_double(w, number);
}

/* The depth is at most JSON_MAX_DEPTH, so recursion is fine here. */
static void copy_value(struct json_writer *w, const struct json *value)
{
    const char *text = NULL;
    bool truth = false;
    struct error err = { 0 };
    switch (json_type(value)) {
    case JSON_NULL:
        json_write_string(w, NULL);
        break;
    case JSON_BOOL:
        must(json_bool(value, &truth, &err));
        json_write_bool(w, truth);
        break;
    case JSON_NUMBER:
        copy_number(w, value);
        break;
    case JSON_STRING:
        must(json_string(value, &text, &err));
        json_write_string(w, text);
        break;
    case JSON_ARRAY:
        json_begin_array(w);
        for (int i = 0; i < json_count(value); i++)
            copy_value(w, json_at(value, i));
        json_end_array(w);
        break;
    case JSON_OBJECT:
        json_begin_object(w);
        for (int i = 0; i < json_count(value); i++) {
            json_write_key(w, json_key(value, i));
            copy_value(w, json_member_at(value, i));
        }
        json_end_object(w);
        break;
    }
}

static char *write_copy(const struct json_doc *doc, size_t *length)
{
    struct json_writer w = { 0 };
    copy_value(&w, json_root(doc));
    char *bytes = json_finish(&w, length);
    must(bytes != NULL);
    return bytes;
}

/* The last value of the text, by whichever way is deepest: its failure has a long path. */
static void fail_somewhere(const struct json *value)
{
    while (json_count(value) > 0)
        value = json_type(value) == JSON_ARRAY ? json_at(value, json_count(value) - 1)
                                               : json_member_at(value, json_count(value) - 1);
    struct error err = { 0 };
    must(!json_fail(value, &err, "expected %s", "nothing"));
    must(strstr(err.message, "expected nothing") != NULL && strncmp(err.message, "fuzz:", 5) == 0);
}

/* A table over whatever object comes: any mixture of types must be read or refused. */
static void read_table(const struct json *value)
{
    static const char *const words[] = { "a", "b", NULL };
    struct out {
        int64_t integer;
        double number;
        bool truth;
        const char *string;
        int word;
        const struct json *node;
    } out = { 0 };
    static const struct json_field fields[] = {
        { .key = "a", .type = FIELD_INT, .offset = offsetof(struct out, integer), .max = 100 },
        { .key = "b", .type = FIELD_DOUBLE, .offset = offsetof(struct out, number), .min = 1 },
        { .key = "c", .type = FIELD_BOOL, .offset = offsetof(struct out, truth) },
        { .key = "", .type = FIELD_STRING, .offset = offsetof(struct out, string) },
        { .key = "rank", .type = FIELD_ENUM, .offset = offsetof(struct out, word), .names = words },
        { .key = "layers", .type = FIELD_NODE, .offset = offsetof(struct out, node) },
    };
    struct arena arena = { 0 };
    struct error err = { 0 };
    bool read = json_read_fields(value, fields, sizeof fields / sizeof *fields, &out, &arena, &err);
    must(read == (err.kind == ERROR_NONE) && (read || strlen(err.message) > 0));
    arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json_doc *doc = NULL, *again = NULL;
    struct error err = { 0 };
    if (!json_parse(&doc, "fuzz", (const char *)data, size, &err)) {
        must(doc == NULL && err.kind == ERROR_INPUT && strncmp(err.message, "fuzz:", 5) == 0);
        return 0;
    }
    must(err.kind == ERROR_NONE);
    fail_somewhere(json_root(doc));
    read_table(json_root(doc));
    if (can_copy(json_root(doc))) {
        size_t length = 0, length_again = 0;
        char *bytes = write_copy(doc, &length);
        must(json_parse(&again, "copy", bytes, length, &err));
        char *bytes_again = write_copy(again, &length_again);
        must(length == length_again && memcmp(bytes, bytes_again, length) == 0);
        free(bytes_again);
        free(bytes);
        json_free(again);
    }
    json_free(doc);
    return 0;
}
