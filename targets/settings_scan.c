#include "targets/settings_scan.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool scan_begin(struct scan *scan, struct settings *settings, const char *text, size_t length, struct error *err)
{
    *scan = (struct scan){ .settings = settings, .at = text, .end = text + length, .line = 1, .line_start = text };
    scan->err = err;
    while (scan->at < scan->end) {
        uint32_t character;
        size_t bytes = text_utf8(scan->at, (size_t)(scan->end - scan->at), &character);
        if (bytes == 0 || character == 0)
            return scan_fail(scan, "expected text in UTF-8, found the byte %02x", (unsigned char)*scan->at);
        for (; bytes > 0; bytes--)
            scan_next(scan);
    }
    scan->at = scan->line_start = text;
    scan->line = 1;
    return true;
}

bool scan_fail(const struct scan *scan, const char *format, ...)
{
    char message[ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return fail(scan->err, "%s:%d:%d: %s", scan->settings->name, scan->line, scan_column(scan), message);
}

char scan_next(struct scan *scan)
{
    if (scan->at >= scan->end)
        return '\0';
    char c = *scan->at++;
    if (c == '\n') {
        scan->line++;
        scan->line_start = scan->at;
    }
    return c;
}

bool scan_takes(struct scan *scan, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(scan->end - scan->at) < length || memcmp(scan->at, word, length) != 0)
        return false;
    for (; length > 0; length--)
        scan_next(scan);
    return true;
}

void scan_blanks(struct scan *scan)
{
    while (scan_peek(scan) == ' ' || scan_peek(scan) == '\t' || scan_peek(scan) == '\r')
        scan->at++;
}

void scan_line_end(struct scan *scan)
{
    while (scan->at < scan->end && *scan->at != '\n')
        scan->at++;
}

bool scan_string(struct scan *scan, bool escapes)
{
    char quote = scan_next(scan);
    char thrice[4] = { quote, quote, quote, '\0' }, twice[3] = { quote, quote, '\0' };
    bool triple = scan_takes(scan, twice);
    while (scan->at < scan->end) {
        if (triple ? scan_takes(scan, thrice) : scan_peek(scan) == quote) {
            if (!triple)
                scan_next(scan);
            return true;
        }
        char c = scan_next(scan);
        if (c == '\n' && !triple)
            break;
        if (c == '\\' && escapes) {
            c = scan_next(scan);
            if (c == 'n' || c == 't')
                c = c == 'n' ? '\n' : '\t';
            else if (!strchr("\\/'\"\n", c)) /* of Python's and YAML's, which leave others as they are */
                text_add_bytes(&scan->buffer, "\\", 1);
        }
        text_add_bytes(&scan->buffer, &c, 1);
    }
    return scan_fail(scan, "expected %c at the end of a string, found none", quote);
}

/* Copies a string with its quotes. */
static bool copy_string(struct scan *scan)
{
    const char *from = scan->at;
    size_t before = scan->buffer.length;
    if (!scan_string(scan, true))
        return false;
    scan->buffer.length = before;
    for (const char *c = from; c < scan->at; c++)
        text_add_bytes(&scan->buffer, *c == '\n' ? " " : c, 1);
    return true;
}

bool scan_expression(struct scan *scan, const char *stops)
{
    int depth = 0;
    scan->buffer.length = 0;
    scan_blanks(scan);
    const char *from = scan->at;
    bool string = scan_peek(scan) == '"' || scan_peek(scan) == '\'';
    if (string) { /* is it all? */
        struct scan kept = *scan;
        if (!scan_string(scan, true))
            return false;
        kept.buffer = scan->buffer;
        scan_blanks(scan);
        char c = scan_peek(scan);
        if (c == '\0' || c == '\n' || c == '#' || strchr(stops, c))
            return true;
        *scan = kept;
        scan->buffer.length = 0;
        scan->at = from;
    }
    while (scan->at < scan->end) {
        char c = scan_peek(scan);
        if (c == '#') {
            scan_line_end(scan);
            continue;
        }
        if (depth == 0 && (c == '\n' || strchr(stops, c)))
            break;
        if (c == '"' || c == '\'') {
            if (!copy_string(scan))
                return false;
            continue;
        }
        if (strchr("([{", c) && ++depth > SETTINGS_DEPTH)
            return scan_fail(scan, "expected at most %d brackets within each other, found more", SETTINGS_DEPTH);
        if (strchr(")]}", c) && --depth < 0)
            return scan_fail(scan, "expected an opening bracket before %c, found none", c);
        if (c == '\\' && scan->at + 1 < scan->end && scan->at[1] == '\n') {
            scan_next(scan);
            scan_next(scan);
            continue;
        }
        scan_next(scan);
        bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
        if (!blank || (scan->buffer.length > 0 && scan->buffer.data[scan->buffer.length - 1] != ' '))
            text_add_bytes(&scan->buffer, blank ? " " : &c, 1);
    }
    if (depth > 0)
        return scan_fail(scan, "expected a closing bracket, found the end");
    while (scan->buffer.length > 0 && scan->buffer.data[scan->buffer.length - 1] == ' ')
        scan->buffer.length--;
    if (scan->buffer.failed)
        return fail_memory(scan->err);
    return true;
}

bool scan_path_add(struct scan_path *path, const char *name, size_t length)
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

bool scan_key(struct scan *scan, struct scan_path *path)
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
        if (!scan_path_add(path, from, length))
            return scan_fail(scan, "expected a key of less than %d bytes, found more", SCAN_KEY_BYTES);
        scan_blanks(scan);
    } while (scan_takes(scan, "."));
    return true;
}

bool scan_ends_line(struct scan *scan)
{
    scan_blanks(scan);
    if (scan_peek(scan) == '#')
        scan_line_end(scan);
    if (scan->at < scan->end && scan_peek(scan) != '\n')
        return scan_fail(scan, "expected the end of the line, found \"%.1s\"", scan->at);
    scan_next(scan);
    return true;
}

bool scan_add_new(struct scan *scan, int first, const struct scan_path *path, int line, int column)
{
    struct settings *settings = scan->settings;
    for (int i = first; i < settings->count; i++)
        if (strcmp(settings->list[i].key, path->name) == 0)
            return fail(scan->err, "%s:%d:%d: %s: expected each key once, found it also in line %d", settings->name,
                        line, column, path->name, settings->list[i].line);
    return settings_add(settings, path->name, path->length, scan->buffer.data ? scan->buffer.data : "",
                        scan->buffer.length, line, column, scan->err);
}
