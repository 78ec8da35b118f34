/* Recipes in Python: what is assigned, and what calls are given by name. Nothing is computed. */
#include "targets/settings_scan.h"
#include <string.h>

enum { KEY_BYTES = 512 };
struct path {
    char name[KEY_BYTES];
    size_t length;
};

static bool begins_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_name(char c)
{
    return begins_name(c) || (c >= '0' && c <= '9');
}

/* Names joined by dots, where they stand; 0: none. */
static size_t dotted_length(const struct scan *scan)
{
    const char *at = scan->at;
    while (at < scan->end && begins_name(*at)) {
        while (at < scan->end && is_name(*at))
            at++;
        if (at + 1 >= scan->end || *at != '.' || !begins_name(at[1]))
            break;
        at++;
    }
    return (size_t)(at - scan->at);
}

/* Also comments and line breaks. */
static void skip_blanks(struct scan *scan)
{
    for (;;) {
        char c = scan_peek(scan);
        if (c == '#')
            scan_line_end(scan);
        else if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
            scan_next(scan);
        else
            return;
    }
}

/* Whether one "=" stands here, which it goes over. */
static bool takes_assignment(struct scan *scan)
{
    if (scan_peek(scan) != '=' || (scan->at + 1 < scan->end && scan->at[1] == '='))
        return false;
    scan_next(scan);
    return true;
}

static bool read_value(struct scan *scan, const struct path *path, int line, int column, int depth);

/* What stands in the brackets of a call. */
static bool read_arguments(struct scan *scan, const struct path *path, int depth)
{
    if (depth >= SETTINGS_DEPTH)
        return scan_fail(scan, "expected at most %d calls within each other, found more", SETTINGS_DEPTH);
    for (;;) {
        skip_blanks(scan);
        if (scan_takes(scan, ")"))
            return true;
        if (scan->at >= scan->end)
            return scan_fail(scan, "expected ) behind the arguments of a call, found the end");
        struct scan before = *scan;
        size_t length = dotted_length(scan);
        const char *name = scan->at;
        int line = scan->line, column = scan_column(scan);
        scan->at += length;
        skip_blanks(scan);
        if (length > 0 && !memchr(name, '.', length) && takes_assignment(scan)) {
            struct path inner = *path;
            if (inner.length + length + 2 > sizeof inner.name)
                return scan_fail(scan, "expected names of less than %d bytes in all, found more", KEY_BYTES);
            if (inner.length > 0)
                inner.name[inner.length++] = '.';
            memcpy(inner.name + inner.length, name, length);
            inner.length += length;
            if (!read_value(scan, &inner, line, column, depth + 1))
                return false;
        } else {
            before.buffer = scan->buffer;
            *scan = before;
            while (scan->at < scan->end && scan_peek(scan) != ',' && scan_peek(scan) != ')') {
                if (!scan_expression(scan, ",)"))
                    return false;
                skip_blanks(scan);
            }
        }
        skip_blanks(scan);
        if (!scan_takes(scan, ",") && scan_peek(scan) != ')')
            return scan_fail(scan, "expected , or ) behind an argument");
    }
}

static bool read_value(struct scan *scan, const struct path *path, int line, int column, int depth)
{
    if (depth > 0)
        skip_blanks(scan);
    else
        scan_blanks(scan);
    size_t length = dotted_length(scan);
    if (length > 0 && scan->at + length < scan->end && scan->at[length] == '(') {
        if (!settings_add(scan->settings, path->name, path->length, scan->at, length, line, column, scan->err))
            return false;
        scan->at += length;
        scan_next(scan);
        if (!read_arguments(scan, path, depth))
            return false;
        while (depth > 0 && scan->at < scan->end && scan_peek(scan) != ',' && scan_peek(scan) != ')') {
            if (!scan_expression(scan, ",)"))
                return false;
            skip_blanks(scan);
        }
        return true;
    }
    if (!scan_expression(scan, depth > 0 ? ",)" : ""))
        return false;
    return settings_add(scan->settings, path->name, path->length, scan->buffer.data ? scan->buffer.data : "",
                        scan->buffer.length, line, column, scan->err);
}

/* A statement, from where a name stands. */
static bool read_statement(struct scan *scan)
{
    int line = scan->line, column = scan_column(scan);
    struct path path = { 0 };
    size_t length = dotted_length(scan);
    const char *name = scan->at;
    bool imports = (length == 6 && memcmp(name, "import", 6) == 0) || (length == 4 && memcmp(name, "from", 4) == 0);
    if (length == 6 && memcmp(name, "return", 6) == 0) {
        scan->at += length;
        scan_blanks(scan);
        size_t called = dotted_length(scan);
        if (called == 0 || scan->at + called >= scan->end || scan->at[called] != '(')
            return scan_expression(scan, ";");
        return read_value(scan, &path, line, column, 0);
    }
    if (length == 3 && memcmp(name, "def", 3) == 0 && column == 1) {
        scan->at += length;
        scan_blanks(scan);
        size_t called = dotted_length(scan);
        if (!settings_add(scan->settings, "def", 3, scan->at, called, line, column, scan->err))
            return false;
        scan->settings->list[scan->settings->count - 1].taken = true;
        return scan_expression(scan, ";");
    }
    if (imports) {
        scan->at += length;
        return scan_expression(scan, ";") &&
               settings_add(scan->settings, "import", 6, scan->buffer.data ? scan->buffer.data : "",
                            scan->buffer.length, line, column, scan->err);
    }
    scan->at += length;
    scan_blanks(scan);
    if (scan_peek(scan) == ':' && length > 0) { /* an annotation, or the end of "else" */
        struct scan before = *scan;
        scan_next(scan);
        if (!scan_expression(scan, "=;"))
            return false;
        if (scan_peek(scan) != '=') {
            before.buffer = scan->buffer;
            *scan = before;
            scan_next(scan);
            return true;
        }
    }
    if (length == 0 || length >= KEY_BYTES || !takes_assignment(scan))
        return scan_expression(scan, ";");
    const char *dot = memchr(name, '.', length);
    scan_blanks(scan);
    size_t called = dotted_length(scan);
    /* A configuration as a whole is nameless; other names stay before what is given to them. */
    bool whole = called > 0 && !dot && called + 1 < (size_t)(scan->end - scan->at) && scan->at[called] == '(' &&
                 (called == strlen("Trainer.Config") && memcmp(scan->at, "Trainer.Config", called) == 0);
    if (!whole) {
        const char *from = dot ? dot + 1 : name;
        path.length = length - (size_t)(from - name);
        memcpy(path.name, from, path.length);
    }
    return read_value(scan, &path, line, column, 0);
}

static bool read_python(struct scan *scan)
{
    while (scan->at < scan->end) {
        char c = scan_peek(scan);
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ';') {
            scan_next(scan);
        } else if (c == '#') {
            scan_line_end(scan);
        } else if (!read_statement(scan)) {
            return false;
        }
    }
    return true;
}

bool settings_read_python(struct settings *settings, const char *text, size_t length, struct error *err)
{
    struct scan scan;
    bool good = scan_begin(&scan, settings, text, length, err) && read_python(&scan);
    text_free(&scan.buffer);
    return good;
}
