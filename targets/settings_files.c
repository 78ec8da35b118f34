/* TOML, JSON and YAML. */
#include "base/json.h"
#include "targets/settings_scan.h"
#include <string.h>

enum { KEY_BYTES = 512 };
struct path {
    char name[KEY_BYTES];
    size_t length;
};
static bool path_add(struct path *path, const char *name, size_t length)
{
    if (path->length + length + 2 > sizeof path->name)
        return false;
    if (path->length > 0)
        path->name[path->length++] = '.';
    memcpy(path->name + path->length, name, length);
    path->length += length;
    path->name[path->length] = '\0';
    return true;
}

static bool is_key(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/* Bare or quoted names joined by dots. */
static bool read_key(struct scan *scan, struct path *path)
{
    do {
        scan_blanks(scan);
        const char *from = scan->at;
        size_t length;
        if (scan_peek(scan) == '"' || scan_peek(scan) == '\'') {
            scan->buffer.length = 0;
            if (!scan_string(scan, scan_peek(scan) == '"'))
                return false;
            from = scan->buffer.data;
            length = scan->buffer.length;
        } else {
            while (is_key(scan_peek(scan)))
                scan->at++;
            length = (size_t)(scan->at - from);
        }
        if (length == 0)
            return scan_fail(scan, "expected a key, found \"%.1s\"", scan->at < scan->end ? scan->at : "");
        if (!path_add(path, from, length))
            return scan_fail(scan, "expected a key of less than %d bytes, found more", KEY_BYTES);
        scan_blanks(scan);
    } while (scan_takes(scan, "."));
    return true;
}

static bool ends_line(struct scan *scan)
{
    scan_blanks(scan);
    if (scan_peek(scan) == '#')
        scan_line_end(scan);
    if (scan->at < scan->end && scan_peek(scan) != '\n')
        return scan_fail(scan, "expected the end of the line, found \"%.1s\"", scan->at);
    scan_next(scan);
    return true;
}

/* Adds it, unless the key stands there already, from `first` on. */
static bool add_new(struct scan *scan, int first, const struct path *path, int line, int column)
{
    struct settings *settings = scan->settings;
    for (int i = first; i < settings->count; i++)
        if (strcmp(settings->list[i].key, path->name) == 0)
            return fail(scan->err, "%s:%d:%d: %s: expected each key once, found it also in line %d", settings->name,
                        line, column, path->name, settings->list[i].line);
    return settings_add(settings, path->name, path->length, scan->buffer.data ? scan->buffer.data : "",
                        scan->buffer.length, line, column, scan->err);
}

static bool read_toml(struct scan *scan)
{
    struct path section = { 0 };
    int first = scan->settings->count;
    while (scan->at < scan->end) {
        scan_blanks(scan);
        char c = scan_peek(scan);
        if (c == '#' || c == '\n' || c == '\0') {
            if (!ends_line(scan))
                return false;
            continue;
        }
        if (c == '[') {
            section = (struct path){ 0 };
            bool list = scan_takes(scan, "[[") || !scan_takes(scan, "[");
            if (!read_key(scan, &section))
                return false;
            if (!scan_takes(scan, list ? "]]" : "]"))
                return scan_fail(scan, "expected ] behind the section's name");
            if (!ends_line(scan))
                return false;
            if (list) /* each of them would be a section of its own, of which nobody asks */
                first = scan->settings->count;
            continue;
        }
        struct path key = section;
        int line = scan->line, column = scan_column(scan);
        if (!read_key(scan, &key))
            return false;
        if (!scan_takes(scan, "="))
            return scan_fail(scan, "expected = behind the key");
        scan_blanks(scan);
        bool quoted = scan_peek(scan) == '"' || scan_peek(scan) == '\'';
        if (!scan_expression(scan, ""))
            return false;
        if (scan->buffer.length == 0 && scan->at > scan->line_start && scan->at[-1] != '"' && scan->at[-1] != '\'')
            return scan_fail(scan, "expected a value, found none");
        if (!add_new(scan, first, &key, line, column) || !ends_line(scan))
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

/* Mappings by indentation; what is behind a "-" is one setting with the key of the list. */
/* Goes to the first line that does not stand further right than the key of a block. */
static bool skip_block(struct scan *scan, int indent)
{
    for (;;) {
        scan_line_end(scan);
        scan_next(scan);
        const char *p = scan->at;
        while (p < scan->end && *p == ' ')
            p++;
        if (scan->at >= scan->end || (p < scan->end && *p != '\n' && *p != '\r' && p - scan->at <= indent))
            return true;
    }
}

static bool read_yaml(struct scan *scan)
{
    struct {
        int indent;
        bool lists; /* its items may each have the same keys */
        struct path path;
    } level[SETTINGS_DEPTH];
    int depth = 0, first = scan->settings->count;
    struct path empty = { 0 };
    while (scan->at < scan->end) {
        while (scan_peek(scan) == ' ')
            scan->at++;
        int indent = scan_column(scan) - 1, line = scan->line, column = scan_column(scan);
        char c = scan_peek(scan);
        if (c == '\t')
            return scan_fail(scan, "expected spaces before a key, found a tab");
        if (c == '#' || c == '\n' || c == '\r' || c == '\0') {
            if (!ends_line(scan))
                return false;
            continue;
        }
        if (indent == 0 && (scan_takes(scan, "---") || scan_takes(scan, "..."))) {
            if (!ends_line(scan))
                return false;
            continue;
        }
        if (strchr("&*!|>%@`?{[", c))
            return scan_fail(scan, "expected a key, found \"%c\": anchors, tags, blocks and flows are not read", c);
        while (depth > 0 && level[depth - 1].indent > indent)
            depth--;
        bool item = c == '-' && scan->at + 1 < scan->end && (scan->at[1] == ' ' || scan->at[1] == '\n');
        while (depth > 0 && (item ? level[depth - 1].indent > indent : level[depth - 1].indent == indent))
            depth--;
        struct path key = depth > 0 ? level[depth - 1].path : empty;
        if (item) {
            scan_next(scan);
            if (key.length == 0)
                return scan_fail(scan, "expected a key before a list, found none");
            level[depth - 1].lists = true;
            if (!scan_expression(scan, "") ||
                !settings_add(scan->settings, key.name, key.length, scan->buffer.data ? scan->buffer.data : "",
                              scan->buffer.length, line, column, scan->err) ||
                !ends_line(scan))
                return false;
            continue;
        }
        if (!read_key(scan, &key))
            return false;
        if (!scan_takes(scan, ":"))
            return scan_fail(scan, "expected : behind the key");
        scan_blanks(scan);
        c = scan_peek(scan);
        if (c == '|' || c == '>') { /* a text, of as many lines as stand further right */
            if (!skip_block(scan, indent) || !settings_add(scan->settings, key.name, key.length, "a text",
                                                           strlen("a text"), line, column, scan->err))
                return false;
            continue;
        }
        if (c != '\0' && strchr("&*!%@`", c))
            return scan_fail(scan, "expected a value, found \"%c\": anchors and tags are not read", c);
        bool quoted = c == '"' || c == '\'', is_new = true;
        if (!scan_expression(scan, ""))
            return false;
        if (scan->buffer.length == 0 && !quoted) {
            if (depth == SETTINGS_DEPTH)
                return scan_fail(scan, "expected at most %d mappings within each other, found more", SETTINGS_DEPTH);
            level[depth].indent = indent;
            level[depth].lists = depth > 0 && level[depth - 1].lists;
            level[depth++].path = key;
        } else if (depth > 0 && level[depth - 1].lists) {
            is_new = settings_add(scan->settings, key.name, key.length, scan->buffer.data ? scan->buffer.data : "",
                                  scan->buffer.length, line, column, scan->err);
        } else {
            is_new = add_new(scan, first, &key, line, column);
        }
        if (!is_new || !ends_line(scan))
            return false;
    }
    return true;
}

bool settings_read_yaml(struct settings *settings, const char *text, size_t length, struct error *err)
{
    struct scan scan;
    bool good = scan_begin(&scan, settings, text, length, err) && read_yaml(&scan);
    text_free(&scan.buffer);
    return good;
}

static bool add_json(struct settings *settings, const struct path *path, const struct json *value, struct error *err)
{
    char number[TEXT_NUMBER_BYTES];
    const char *text = "null";
    int line, column;
    switch (json_type(value)) {
    case JSON_OBJECT:
    case JSON_ARRAY:
        for (int i = 0; i < json_count(value); i++) {
            struct path inner = *path;
            const char *key = json_type(value) == JSON_OBJECT ? json_key(value, i) : NULL;
            if (key && !path_add(&inner, key, strlen(key)))
                return json_fail(value, err, "expected keys of less than %d bytes in all, found more", KEY_BYTES);
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
    struct path empty = { 0 };
    if (json_type(root) != JSON_OBJECT)
        return json_fail(root, err, "expected an object, found another value");
    return add_json(self, &empty, root, err);
}

bool settings_read_json(struct settings *settings, const char *text, size_t length, struct error *err)
{
    return json_parse_with(settings->name, text, length, add_root, settings, err);
}
