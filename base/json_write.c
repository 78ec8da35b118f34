/* Writing JSON: the same calls give the same bytes everywhere. */
#include "base/json_tree.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void quote_character(struct text *out, const char *bytes, size_t length, uint32_t character)
{
    static const char controls[] = "\b\f\n\r\t", letters[] = "bfnrt";
    const char *control = character && character < 0x20 ? strchr(controls, (int)character) : NULL;
    if (control)
        text_printf(out, "\\%c", letters[control - controls]);
    else if (character < 0x20 || (character >= 0x7F && character <= 0x9F)) /* no control reaches a terminal by `-o -` */
        text_printf(out, "\\u%04x", (unsigned)character);
    else {
        if (character == '"' || character == '\\')
            text_add(out, "\\");
        text_add_bytes(out, bytes, length);
    }
}

void json_quote(struct text *out, const char *bytes, size_t length)
{
    text_add(out, "\"");
    for (size_t i = 0; i < length;) {
        uint32_t character;
        size_t step = text_utf8(bytes + i, length - i, &character);
        if (step)
            quote_character(out, bytes + i, step, character);
        else
            text_add(out, "\xEF\xBF\xBD");
        i += step ? step : 1;
    }
    text_add(out, "\"");
}

static void new_line(struct json_writer *w)
{
    text_add(&w->text, "\n");
    for (int i = 0; i < w->depth; i++)
        text_add(&w->text, "  ");
}

/* What stands before a key, or before a value that has none. */
static void separate(struct json_writer *w)
{
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (w->depth > 0) {
        if (!w->first)
            text_add(&w->text, ",");
        new_line(w);
    }
    w->first = false;
}

static void begin(struct json_writer *w, const char *bracket)
{
    separate(w);
    text_add(&w->text, bracket);
    w->depth++;
    w->first = true;
}

static void end(struct json_writer *w, const char *bracket)
{
    assert(w->depth > 0 && !w->after_key);
    w->depth--;
    if (!w->first)
        new_line(w);
    text_add(&w->text, bracket);
    w->first = false;
}

void json_begin_object(struct json_writer *w)
{
    begin(w, "{");
}

void json_end_object(struct json_writer *w)
{
    end(w, "}");
}

void json_begin_array(struct json_writer *w)
{
    begin(w, "[");
}

void json_end_array(struct json_writer *w)
{
    end(w, "]");
}

void json_write_key(struct json_writer *w, const char *key)
{
    assert(w->depth > 0 && !w->after_key);
    separate(w);
    json_quote(&w->text, key, strlen(key));
    text_add(&w->text, ": ");
    w->after_key = true;
}

void json_write_string(struct json_writer *w, const char *value)
{
    separate(w);
    if (value)
        json_quote(&w->text, value, strlen(value));
    else
        text_add(&w->text, "null");
}

void json_write_int(struct json_writer *w, int64_t value)
{
    separate(w);
    text_printf(&w->text, "%lld", (long long)value);
}

void json_write_double(struct json_writer *w, double value)
{
    char number[TEXT_NUMBER_BYTES];
    separate(w);
    text_add(&w->text, isfinite(value) ? text_double(number, value) : "null");
}

void json_write_bool(struct json_writer *w, bool value)
{
    separate(w);
    text_add(&w->text, value ? "true" : "false");
}

void json_put_string(struct json_writer *w, const char *key, const char *value)
{
    json_write_key(w, key);
    json_write_string(w, value);
}

void json_put_int(struct json_writer *w, const char *key, int64_t value)
{
    json_write_key(w, key);
    json_write_int(w, value);
}

void json_put_ints(struct json_writer *w, const char *key, const int64_t *values, int count)
{
    json_begin_array_at(w, key);
    for (int i = 0; i < count; i++)
        json_write_int(w, values[i]);
    json_end_array(w);
}

void json_begin_object_at(struct json_writer *w, const char *key)
{
    json_write_key(w, key);
    json_begin_object(w);
}

void json_begin_array_at(struct json_writer *w, const char *key)
{
    json_write_key(w, key);
    json_begin_array(w);
}

void json_put_double(struct json_writer *w, const char *key, double value)
{
    json_write_key(w, key);
    json_write_double(w, value);
}

void json_put_bool(struct json_writer *w, const char *key, bool value)
{
    json_write_key(w, key);
    json_write_bool(w, value);
}

static void write_number(struct json_writer *w, const struct json *value)
{
    int64_t whole;
    double number = 0;
    if (json_int(value, INT64_MIN, INT64_MAX, &whole, NULL)) {
        json_write_int(w, whole);
    } else {
        json_double(value, -INFINITY, INFINITY, &number, NULL);
        json_write_double(w, number);
    }
}

void json_write_value(struct json_writer *w, const struct json *value)
{
    bool flag = false;
    const char *string = NULL;
    switch (json_type(value)) {
    case JSON_OBJECT:
        json_begin_object(w);
        for (int i = 0; i < json_count(value); i++) {
            json_write_key(w, json_key(value, i));
            json_write_value(w, json_member_at(value, i));
        }
        json_end_object(w);
        return;
    case JSON_ARRAY:
        json_begin_array(w);
        for (int i = 0; i < json_count(value); i++)
            json_write_value(w, json_at(value, i));
        json_end_array(w);
        return;
    case JSON_NUMBER:
        write_number(w, value);
        return;
    case JSON_STRING:
        json_string(value, &string, NULL); /* one with a zero inside is written as null */
        json_write_string(w, string);
        return;
    case JSON_BOOL:
        json_bool(value, &flag, NULL);
        json_write_bool(w, flag);
        return;
    case JSON_NULL:
        json_write_string(w, NULL);
        return;
    }
}

void json_begin_format(struct json_writer *w, const char *format, int version)
{
    json_begin_object(w);
    json_put_string(w, "format", format);
    json_put_int(w, "version", version);
}

char *json_finish(struct json_writer *w, size_t *length)
{
    assert(w->depth == 0);
    text_add(&w->text, "\n");
    char *bytes = w->text.data;
    if (w->text.failed) {
        free(bytes);
        bytes = NULL;
    }
    if (bytes && length)
        *length = w->text.length;
    *w = (struct json_writer){ 0 };
    return bytes;
}
