/* What messages about JSON are made of: the place, the path, what was found. */
#include "base/json_tree.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void json_find_position(const struct json_doc *doc, size_t offset, int *line, int *column)
{
    *line = *column = 1;
    for (size_t i = 0; i < offset; i++) {
        if (doc->text[i] == '\n') {
            (*line)++;
            *column = 1;
        } else if (((unsigned char)doc->text[i] & 0xC0) != 0x80)
            (*column)++;
    }
}

void json_position(const struct json *value, int *line, int *column)
{
    json_find_position(value->doc, value->offset, line, column);
}

size_t json_clip(const char *bytes, size_t length, size_t limit)
{
    if (length <= limit)
        return length;
    while (limit > 0 && ((unsigned char)bytes[limit] & 0xC0) == 0x80)
        limit--;
    return limit;
}

static void add_clipped(struct text *out, const char *bytes, bool quoted)
{
    enum { LONGEST_SHOWN = 60 };
    size_t length = strlen(bytes), shown = json_clip(bytes, length, LONGEST_SHOWN);
    if (quoted)
        json_quote(out, bytes, shown);
    else
        text_add_bytes(out, bytes, shown);
    if (shown < length)
        text_add(out, "...");
}

static bool is_plain_key(const char *key)
{
    size_t plain = strspn(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-");
    return plain > 0 && key[plain] == '\0';
}

static void add_step(struct text *path, const struct json *value)
{
    if (!value->key)
        text_printf(path, "[%d]", value->index);
    else if (is_plain_key(value->key)) {
        text_add(path, path->length ? "." : "");
        add_clipped(path, value->key, false);
    } else {
        text_add(path, "[");
        add_clipped(path, value->key, true);
        text_add(path, "]");
    }
}

/* "layers[3].heads: ", or nothing for the root. The middle of a very long path is left out. */
static void add_path(struct text *out, const struct json *value)
{
    enum { LONGEST_PATH = 400 };
    const struct json *steps[JSON_MAX_DEPTH + 1];
    int count = 0;
    for (; value->parent; value = value->parent)
        steps[count++] = value;
    struct text path = { 0 };
    while (count > 0)
        add_step(&path, steps[--count]);
    if (path.length > LONGEST_PATH) {
        size_t head = json_clip(path.data, path.length, LONGEST_PATH / 2);
        size_t tail = path.length - LONGEST_PATH / 2;
        while (tail < path.length && ((unsigned char)path.data[tail] & 0xC0) == 0x80)
            tail++;
        text_add_bytes(out, path.data, head);
        text_printf(out, "...%s", path.data + tail);
    } else if (path.length)
        text_add(out, path.data);
    if (path.length)
        text_add(out, ": ");
    text_free(&path);
}

/* "name:line:column: path: ". */
static void add_place(struct text *out, const struct json_doc *doc, size_t offset, const struct json *value)
{
    int line, column;
    json_find_position(doc, offset, &line, &column);
    text_printf(out, "%s:%d:%d: ", doc->name, line, column);
    if (value)
        add_path(out, value);
}

bool json_fail_at(const struct json_doc *doc, size_t offset, const struct json *value, struct error *err,
                  const char *message)
{
    struct text place = { 0 };
    add_place(&place, doc, offset, value);
    fail(err, "%s%s", place.failed ? "" : place.data, message);
    text_free(&place);
    return false;
}

bool json_fail(const struct json *value, struct error *err, const char *format, ...)
{
    char message[ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return json_fail_at(value->doc, value->offset, value, err, message);
}

bool json_error_within(const struct json *value, struct error *err)
{
    enum { COLON = 2 }; /* error_within() adds it */
    struct text place = { 0 };
    add_place(&place, value->doc, value->offset, value);
    if (!place.failed)
        error_within(err, "%.*s", (int)place.length - COLON, place.data);
    text_free(&place);
    return false;
}

/* What stands there, for "found ...". */
static void add_found(struct text *out, const struct json *value)
{
    switch (value->type) {
    case JSON_NULL:
        text_add(out, "null");
        break;
    case JSON_BOOL:
        text_add(out, value->doc->text[value->offset] == 't' ? "true" : "false");
        break;
    case JSON_NUMBER: {
        size_t shown = json_clip(value->doc->text + value->offset, value->length, 40);
        text_add_bytes(out, value->doc->text + value->offset, shown);
        text_add(out, shown < value->length ? "..." : "");
        break;
    }
    case JSON_STRING:
        add_clipped(out, value->item->valuestring, true);
        text_add(out, value->has_zero ? " (it holds a zero character)" : "");
        break;
    case JSON_ARRAY:
        text_printf(out, "an array of %d", value->count);
        break;
    case JSON_OBJECT:
        text_printf(out, "an object of %d member%s", value->count, value->count == 1 ? "" : "s");
        break;
    }
}

bool json_fail_expected(const struct json *value, struct error *err, const char *expected)
{
    struct text found = { 0 };
    add_found(&found, value);
    json_fail(value, err, "expected %s, found %s", expected, found.failed ? "another value" : found.data);
    text_free(&found);
    return false;
}
