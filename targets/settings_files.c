/* TOML and JSON. */
#include "base/json.h"
#include "targets/settings_scan.h"
#include <string.h>

static bool read_toml(struct scan *scan)
{
    struct scan_path section = { 0 };
    int first = scan->settings->count;
    while (scan->at < scan->end) {
        scan_blanks(scan);
        char c = scan_peek(scan);
        if (c == '#' || c == '\n' || c == '\0') {
            if (!scan_ends_line(scan))
                return false;
            continue;
        }
        if (c == '[') {
            section = (struct scan_path){ 0 };
            bool list = scan_takes(scan, "[[") || !scan_takes(scan, "[");
            if (!scan_key(scan, &section))
                return false;
            if (!scan_takes(scan, list ? "]]" : "]"))
                return scan_fail(scan, "expected ] behind the section's name");
            if (!scan_ends_line(scan))
                return false;
            if (list) /* each of them would be a section of its own, of which nobody asks */
                first = scan->settings->count;
            continue;
        }
        struct scan_path key = section;
        int line = scan->line, column = scan_column(scan);
        if (!scan_key(scan, &key))
            return false;
        if (!scan_takes(scan, "="))
            return scan_fail(scan, "expected = behind the key");
        scan_blanks(scan);
        bool quoted = scan_peek(scan) == '"' || scan_peek(scan) == '\'';
        if (!scan_expression(scan, ""))
            return false;
        if (scan->buffer.length == 0 && scan->at > scan->line_start && scan->at[-1] != '"' && scan->at[-1] != '\'')
            return scan_fail(scan, "expected a value, found none");
        if (!scan_add_new(scan, first, &key, line, column) || !scan_ends_line(scan))
            return false;
        scan->settings->list[scan->settings->count - 1].quoted = quoted;
    }
    return true;
}

bool settings_read_toml(struct settings *settings, const char *text, size_t length, struct error *err)
{
    struct scan scan;
    bool good = scan_begin(&scan, settings, text, length, err) && read_toml(&scan);
    text_free(&scan.buffer);
    return good;
}

static bool add_json(struct settings *settings, const struct scan_path *path, const struct json *value,
                     struct error *err)
{
    char number[TEXT_NUMBER_BYTES];
    const char *text = "null";
    int line, column;
    switch (json_type(value)) {
    case JSON_OBJECT:
    case JSON_ARRAY:
        for (int i = 0; i < json_count(value); i++) {
            struct scan_path inner = *path;
            const char *key = json_type(value) == JSON_OBJECT ? json_key(value, i) : NULL;
            if (key && !scan_path_add(&inner, key, strlen(key)))
                return json_fail(value, err, "expected keys of less than %d bytes in all, found more", SCAN_KEY_BYTES);
            if (!add_json(settings, &inner, key ? json_member_at(value, i) : json_at(value, i), err))
                return false;
        }
        return true;
    case JSON_NULL:
        break;
    case JSON_BOOL: {
        bool truth = false;
        json_bool(value, &truth, NULL);
        text = truth ? "true" : "false";
        break;
    }
    case JSON_NUMBER: {
        double decimal;
        if (!json_double(value, -1e300, 1e300, &decimal, err))
            return false;
        text = text_double(number, decimal);
        break;
    }
    case JSON_STRING:
        if (!json_string(value, &text, err))
            return false;
        break;
    }
    json_position(value, &line, &column);
    return settings_add(settings, path->name, path->length, text, strlen(text), line, column, err);
}
static bool add_root(void *self, const struct json *root, struct error *err)
{
    struct scan_path empty = { 0 };
    if (json_type(root) != JSON_OBJECT)
        return json_fail(root, err, "expected an object, found another value");
    return add_json(self, &empty, root, err);
}

bool settings_read_json(struct settings *settings, const char *text, size_t length, struct error *err)
{
    return json_parse_with(settings->name, text, length, add_root, settings, err);
}
