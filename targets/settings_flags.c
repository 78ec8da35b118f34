/* Command lines, alone or in a script: words as a POSIX shell makes them, of which those that begin with "--" are
 * options. Nothing runs: what a command would print stays as it is written. */
#include "targets/settings_scan.h"
#include <stdio.h>
#include <string.h>

enum { WORDS_MOST = 1 << 14, VALUE_BYTES = 1 << 16 };
struct word {
    const char *text;
    int line, column;
};
struct words {
    struct scan scan;
    struct word *list;
    int count, capacity;
    struct settings variables;
    const char *array; /* the variable to which a list in brackets belongs; NULL: none is open */
    int array_line, array_column;
    struct text members;
    bool begun, quoted; /* of the word in the scan's buffer */
    int line, column;
};

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static const char *variable(const struct words *w, const char *name, size_t length)
{
    for (int i = w->variables.count - 1; i >= 0; i--)
        if (strlen(w->variables.list[i].key) == length && memcmp(w->variables.list[i].key, name, length) == 0)
            return w->variables.list[i].value;
    return NULL;
}

static size_t assigned_name(const char *word)
{
    size_t length = 0;
    while (is_name(word[length]))
        length++;
    bool digit = word[0] >= '0' && word[0] <= '9';
    return length > 0 && !digit && (word[length] == '=' || (word[length] == '+' && word[length + 1] == '=')) ? length
                                                                                                             : 0;
}

static bool set_variable(struct words *w, const char *name, size_t length, const char *value, bool more)
{
    const char *before = more ? variable(w, name, length) : NULL;
    struct text joined = { 0 };
    if (before)
        text_printf(&joined, "%s ", before);
    text_add(&joined, value);
    bool good = joined.length <= VALUE_BYTES
                    ? settings_add(&w->variables, name, length, joined.data ? joined.data : "", joined.length, w->line,
                                   w->column, w->scan.err)
                    : scan_fail(&w->scan, "expected at most %d bytes in a variable, found more", VALUE_BYTES);
    text_free(&joined);
    return good;
}

static bool end_word(struct words *w)
{
    if (!w->begun)
        return true;
    const char *word = w->scan.buffer.data ? w->scan.buffer.data : "";
    if (w->scan.buffer.failed)
        return fail_memory(w->scan.err);
    size_t name = w->scan.buffer.length > 0 ? assigned_name(word) : 0;
    w->begun = false;
    if (w->array) {
        text_printf(&w->members, "%s%s", w->members.length ? " " : "", w->scan.buffer.length ? word : "");
    } else if (name > 0) {
        bool more = word[name] == '+';
        if (!set_variable(w, word, name, word + name + (more ? 2 : 1), more))
            return false;
    } else {
        if (w->count >= WORDS_MOST)
            return scan_fail(&w->scan, "expected at most %d words, found more", WORDS_MOST);
        w->list = arena_more(w->scan.settings->arena, w->list, w->count, &w->capacity, sizeof *w->list);
        const char *copy = arena_strndup(w->scan.settings->arena, word, w->scan.buffer.length);
        if (!w->list || !copy)
            return fail_memory(w->scan.err);
        w->list[w->count++] = (struct word){ copy, w->line, w->column };
    }
    w->scan.buffer.length = 0;
    return true;
}

static void begin_word(struct words *w)
{
    if (w->begun)
        return;
    w->begun = true;
    w->quoted = false;
    w->line = w->scan.line;
    w->column = scan_column(&w->scan);
    w->scan.buffer.length = 0;
}

/* $NAME, ${NAME}, ${NAME:-default}, ${NAME[@]}; all else that begins with $ stays. Unquoted values are words. */
static bool put_variable(struct words *w, bool quoted)
{
    struct scan *scan = &w->scan;
    const char *dollar = scan->at;
    scan_next(scan);
    bool braced = scan_takes(scan, "{");
    const char *name = scan->at;
    while (is_name(scan_peek(scan)))
        scan->at++;
    size_t length = (size_t)(scan->at - name);
    const char *value = variable(w, name, length), *otherwise = NULL;
    size_t otherwise_length = 0;
    if (scan_peek(scan) == '(') { /* a command or a sum: as it is written, up to its end */
        int depth = 0;
        do {
            char c = scan_next(scan);
            depth += (c == '(') - (c == ')');
        } while (depth > 0 && scan->at < scan->end);
        text_add_bytes(&scan->buffer, dollar, (size_t)(scan->at - dollar));
        return true;
    }
    if (braced) {
        bool all = scan_takes(scan, "[@]") || scan_takes(scan, "[*]");
        quoted = quoted && !all;
        if (scan_takes(scan, ":-") || scan_takes(scan, "-") || scan_takes(scan, ":=")) {
            otherwise = scan->at;
            while (scan->at < scan->end && scan_peek(scan) != '}')
                scan_next(scan);
            otherwise_length = (size_t)(scan->at - otherwise);
        }
        while (scan->at < scan->end && scan_peek(scan) != '}' && scan_peek(scan) != '\n')
            scan_next(scan);
        if (!scan_takes(scan, "}"))
            return scan_fail(scan, "expected } behind a variable");
    }
    if (!value && !otherwise) {
        text_add_bytes(&scan->buffer, dollar, (size_t)(scan->at - dollar));
        return true;
    }
    size_t count = value ? strlen(value) : otherwise_length;
    const char *put = value ? value : otherwise;
    if (scan->buffer.length + count > VALUE_BYTES)
        return scan_fail(scan, "expected at most %d bytes in a word, found more", VALUE_BYTES);
    bool assigns = scan->buffer.length > 0 && assigned_name(scan->buffer.data) > 0;
    for (size_t i = 0; i < count; i++) {
        bool blank = put[i] == ' ' || put[i] == '\t' || put[i] == '\n';
        if (!blank || quoted || assigns) {
            begin_word(w);
            text_add_bytes(&scan->buffer, &put[i], 1);
        } else if (!end_word(w)) {
            return false;
        }
    }
    return true;
}

static bool read_quoted(struct words *w)
{
    struct scan *scan = &w->scan;
    char quote = scan_next(scan);
    begin_word(w);
    w->quoted = true;
    while (scan->at < scan->end) {
        char c = scan_peek(scan);
        if (c == quote) {
            scan_next(scan);
            return true;
        }
        if (quote == '"' && c == '$') {
            if (!put_variable(w, true))
                return false;
            begin_word(w);
            continue;
        }
        scan_next(scan);
        if (quote == '"' && c == '\\' && strchr("\\\"$`\n", scan_peek(scan)) && scan->at < scan->end) {
            c = scan_next(scan);
            if (c == '\n')
                continue;
        }
        text_add_bytes(&scan->buffer, &c, 1);
    }
    return scan_fail(scan, "expected %c at the end of a string, found none", quote);
}

static bool read_words(struct words *w)
{
    struct scan *scan = &w->scan;
    while (scan->at < scan->end) {
        char c = scan_peek(scan);
        if (c == '\'' || c == '"') {
            if (!read_quoted(w))
                return false;
        } else if (c == '$') {
            begin_word(w);
            if (!put_variable(w, false))
                return false;
        } else if (c == '\\') {
            scan_next(scan);
            char next = scan_next(scan);
            if (next == '\r' && scan_peek(scan) == '\n')
                next = scan_next(scan);
            if (next != '\n' && next != '\0') {
                begin_word(w);
                text_add_bytes(&scan->buffer, &next, 1);
            }
        } else if (c == '#' && !w->begun) {
            scan_line_end(scan);
        } else if (c == '(' && w->begun && scan->buffer.length > 1 && !w->array &&
                   scan->buffer.data[scan->buffer.length - 1] == '=' && assigned_name(scan->buffer.data) > 0) {
            scan_next(scan);
            w->array = arena_strndup(scan->settings->arena, scan->buffer.data, scan->buffer.length);
            w->array_line = w->line;
            w->array_column = w->column;
            w->members.length = 0;
            w->begun = false;
            if (!w->array)
                return fail_memory(scan->err);
        } else if (c == ')' && w->array) {
            const char *array = w->array;
            if (!end_word(w))
                return false;
            scan_next(scan);
            size_t length = assigned_name(array);
            w->array = NULL;
            if (w->members.failed)
                return fail_memory(scan->err);
            if (!set_variable(w, array, length, w->members.length ? w->members.data : "", array[length] == '+'))
                return false;
        } else if (strchr(" \t\r\n;&|<>()", c)) {
            scan_next(scan);
            if (!end_word(w))
                return false;
        } else {
            begin_word(w);
            scan_next(scan);
            text_add_bytes(&scan->buffer, &c, 1);
        }
    }
    if (w->array)
        return fail(scan->err, "%s:%d:%d: expected ) behind an array, found none", scan->settings->name, w->array_line,
                    w->array_column);
    return end_word(w);
}

/* Whether the word is an option's value: numbers may be negative. */
static bool is_value(const char *word)
{
    return word[0] != '-' || (word[1] >= '0' && word[1] <= '9') || word[1] == '\0';
}

static bool add_options(struct words *w)
{
    struct settings *settings = w->scan.settings;
    for (int i = 0; i < w->count; i++) {
        const struct word *word = &w->list[i];
        char key[256];
        if (strncmp(word->text, "--", 2) != 0 || word->text[2] == '\0') {
            if (!settings_add(settings, "", 0, word->text, strlen(word->text), word->line, word->column, w->scan.err))
                return false;
            settings->list[settings->count - 1].word = true;
            continue;
        }
        const char *name = word->text + 2, *equals = strchr(name, '=');
        size_t length = equals ? (size_t)(equals - name) : strlen(name);
        if (length >= sizeof key)
            return fail(w->scan.err, "%s:%d:%d: expected an option of less than %d bytes, found more", settings->name,
                        word->line, word->column, (int)sizeof key);
        for (size_t c = 0; c < length; c++)
            key[c] = name[c] == '-' ? '_' : name[c];
        const char *value = equals ? equals + 1 : "true";
        if (!equals && i + 1 < w->count && is_value(w->list[i + 1].text))
            value = w->list[++i].text;
        if (!settings_add(settings, key, length, value, strlen(value), word->line, word->column, w->scan.err))
            return false;
    }
    return true;
}

bool settings_read_flags(struct settings *settings, const char *text, size_t length, struct error *err)
{
    struct words w = { .variables = { .arena = settings->arena, .name = settings->name } };
    bool good = scan_begin(&w.scan, settings, text, length, err) && read_words(&w) && add_options(&w);
    text_free(&w.scan.buffer);
    text_free(&w.members);
    return good;
}
