/* YAML: mappings by indentation, and flows, {key: value, ...} and [one, ...]. What is behind a "-", and what a flow of
 * mappings lists, are settings with the key of the list; another list in brackets is one setting, as it is written. */
#include "targets/settings_scan.h"
#include <string.h>

struct level {
    int indent;
    bool lists; /* its items may each have the same keys */
    struct scan_path path;
};
struct yaml {
    struct scan scan;
    int first; /* setting of the file */
    int depth;
    struct level level[SETTINGS_DEPTH];
};

/* What is in the buffer as the value of a key. */
static bool add(struct yaml *yaml, const struct scan_path *key, bool lists, int line, int column)
{
    struct scan *scan = &yaml->scan;
    if (!lists)
        return scan_add_new(scan, yaml->first, key, line, column);
    return settings_add(scan->settings, key->name, key->length, scan->buffer.data ? scan->buffer.data : "",
                        scan->buffer.length, line, column, scan->err);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Blanks, ends of lines and comments within a flow. */
static void flow_blanks(struct scan *scan)
{
    for (;;) {
        while (is_blank(scan_peek(scan)))
            scan_next(scan);
        if (scan_peek(scan) != '#')
            return;
        scan_line_end(scan);
    }
}

/* Whether a ":" here ends a key. */
static bool ends_key(const struct scan *scan)
{
    char next = scan->at + 1 < scan->end ? scan->at[1] : ' ';
    return scan_peek(scan) == ':' && (is_blank(next) || strchr(",]}", next));
}

/* A word or a string of a flow, into the buffer. */
static bool flow_scalar(struct scan *scan)
{
    char c = scan_peek(scan);
    scan->buffer.length = 0;
    if (c == '"' || c == '\'')
        return scan_string(scan, c == '"');
    if (strchr("&*!|>%@`?", c))
        return scan_fail(scan, "expected a value, found \"%c\": anchors, tags and blocks are not read", c);
    while (scan->at < scan->end && !ends_key(scan)) {
        c = scan_peek(scan);
        if (strchr(",[]{}", c) || (c == '#' && is_blank(scan->at[-1])))
            break;
        bool blank = is_blank(scan_next(scan));
        if (!blank || (scan->buffer.length > 0 && scan->buffer.data[scan->buffer.length - 1] != ' '))
            text_add_bytes(&scan->buffer, blank ? " " : &c, 1);
    }
    while (scan->buffer.length > 0 && scan->buffer.data[scan->buffer.length - 1] == ' ')
        scan->buffer.length--;
    return scan->buffer.failed ? fail_memory(scan->err) : true;
}

/* How a flow is read. */
struct flow {
    int line, column; /* of the key */
    int depth;        /* of brackets around it */
    bool lists;       /* its keys may each stand there already */
    bool looks;       /* nothing is added: it is looked for mappings, and for slips */
    bool *maps;       /* whether there are any */
};
static bool read_flow(struct yaml *yaml, const struct scan_path *key, struct flow flow);

/* A value in a flow. */
static bool flow_value(struct yaml *yaml, const struct scan_path *key, struct flow flow)
{
    char c = scan_peek(&yaml->scan);
    if (c == '{' || c == '[')
        return read_flow(yaml, key, flow);
    return flow_scalar(&yaml->scan) && (flow.looks || add(yaml, key, flow.lists, flow.line, flow.column));
}

/* "key: value", or without a value, which is then none. */
static bool flow_entry(struct yaml *yaml, const struct scan_path *around, struct flow flow)
{
    struct scan *scan = &yaml->scan;
    struct scan_path key = *around;
    bool quoted = scan_peek(scan) == '"' || scan_peek(scan) == '\'';
    flow.line = scan->line;
    flow.column = scan_column(scan);
    if (!scan_key(scan, &key))
        return false;
    flow_blanks(scan);
    if (scan_peek(scan) != ':')
        return scan_fail(scan, "expected : behind the key");
    if (!quoted && !ends_key(scan))
        return scan_fail(scan, "expected a blank behind the : of a key");
    scan_next(scan);
    flow_blanks(scan);
    char c = scan_peek(scan);
    return c == '\0' || c == ',' || c == '}' || flow_value(yaml, &key, flow);
}

/* What stands between brackets, of which the first stands here. */
static bool read_brackets(struct yaml *yaml, const struct scan_path *key, struct flow flow)
{
    struct scan *scan = &yaml->scan;
    int line = scan->line, column = scan_column(scan), count = 0;
    bool mapping = scan_next(scan) == '{';
    char close = mapping ? '}' : ']';
    *flow.maps = *flow.maps || mapping;
    flow.lists = flow.lists || !mapping;
    if (++flow.depth > SETTINGS_DEPTH)
        return scan_fail(scan, "expected at most %d brackets within each other, found more", SETTINGS_DEPTH);
    for (;; count++) {
        flow_blanks(scan);
        if (scan_takes(scan, mapping ? "}" : "]"))
            break;
        if (scan->at < scan->end && strchr(",]}", scan_peek(scan)))
            return scan_fail(scan, "expected %s or %c, found \"%c\"", mapping ? "a key" : "a value", close,
                             scan_peek(scan));
        if (scan->at < scan->end && !(mapping ? flow_entry(yaml, key, flow) : flow_value(yaml, key, flow)))
            return false;
        flow_blanks(scan);
        if (scan->at >= scan->end)
            return fail(scan->err, "%s:%d:%d: expected %c for this bracket, found the end", scan->settings->name, line,
                        column, close);
        if (!scan_takes(scan, ",") && scan_peek(scan) != close)
            return scan_fail(scan, "expected , or %c, found \"%c\"", close, scan_peek(scan));
    }
    if (!mapping || count > 0 || flow.looks || key->length == 0)
        return true;
    scan->buffer.length = 0;
    text_add(&scan->buffer, "{}");
    return scan->buffer.failed ? fail_memory(scan->err) : add(yaml, key, flow.lists, flow.line, flow.column);
}

/* A flow, which begins here: its mappings' keys are settings, and a list without any is one. */
static bool read_flow(struct yaml *yaml, const struct scan_path *key, struct flow flow)
{
    struct scan *scan = &yaml->scan, before = *scan;
    bool maps = false;
    if (flow.looks || scan_peek(scan) == '{')
        return read_brackets(yaml, key, flow);
    struct flow look = { .depth = flow.depth, .looks = true, .maps = &maps };
    if (!read_brackets(yaml, key, look))
        return false;
    const char *behind = scan->at, *end = scan->end;
    before.buffer = scan->buffer;
    *scan = before;
    if (maps)
        return read_brackets(yaml, key, flow);
    scan->end = behind;
    bool good = scan_expression(scan, "");
    scan->end = end;
    return good && add(yaml, key, flow.lists, flow.line, flow.column);
}

/* A flow that is all of the value of a key or of an item. */
static bool add_flow(struct yaml *yaml, const struct scan_path *key, bool lists, int line, int column)
{
    bool maps = false;
    struct flow flow = { .line = line, .column = column, .lists = lists, .maps = &maps };
    return read_flow(yaml, key, flow) && scan_ends_line(&yaml->scan);
}

/* Goes to the first line that does not stand further right than the key of a block. */
static void skip_block(struct scan *scan, int indent)
{
    for (;;) {
        scan_line_end(scan);
        scan_next(scan);
        const char *p = scan->at;
        while (p < scan->end && *p == ' ')
            p++;
        if (scan->at >= scan->end || (p < scan->end && *p != '\n' && *p != '\r' && p - scan->at <= indent))
            return;
    }
}

/* "- value" */
static bool read_item(struct yaml *yaml, const struct scan_path *key)
{
    struct scan *scan = &yaml->scan;
    int line = scan->line, column = scan_column(scan);
    scan_next(scan);
    if (key->length == 0)
        return scan_fail(scan, "expected a key before a list, found none");
    yaml->level[yaml->depth - 1].lists = true;
    scan_blanks(scan);
    if (scan_peek(scan) == '{' || scan_peek(scan) == '[')
        return add_flow(yaml, key, true, line, column);
    return scan_expression(scan, "") && add(yaml, key, true, line, column) && scan_ends_line(scan);
}

/* "key: value", or "key:" before a mapping or a list. */
static bool read_pair(struct yaml *yaml, struct scan_path *key, int indent)
{
    struct scan *scan = &yaml->scan;
    int line = scan->line, column = scan_column(scan);
    bool lists = yaml->depth > 0 && yaml->level[yaml->depth - 1].lists;
    if (!scan_key(scan, key))
        return false;
    if (!scan_takes(scan, ":"))
        return scan_fail(scan, "expected : behind the key");
    scan_blanks(scan);
    char c = scan_peek(scan);
    if (c == '|' || c == '>') { /* a text, of as many lines as stand further right */
        skip_block(scan, indent);
        return settings_add(scan->settings, key->name, key->length, "a text", strlen("a text"), line, column,
                            scan->err);
    }
    if (c == '{' || c == '[')
        return add_flow(yaml, key, lists, line, column);
    if (c != '\0' && strchr("&*!%@`", c))
        return scan_fail(scan, "expected a value, found \"%c\": anchors and tags are not read", c);
    bool quoted = c == '"' || c == '\'';
    if (!scan_expression(scan, ""))
        return false;
    if (scan->buffer.length == 0 && !quoted) {
        if (yaml->depth == SETTINGS_DEPTH)
            return scan_fail(scan, "expected at most %d mappings within each other, found more", SETTINGS_DEPTH);
        yaml->level[yaml->depth++] = (struct level){ indent, lists, *key };
    } else if (!add(yaml, key, lists, line, column)) {
        return false;
    }
    return scan_ends_line(scan);
}

static bool read_yaml(struct yaml *yaml)
{
    struct scan *scan = &yaml->scan;
    yaml->first = scan->settings->count;
    while (scan->at < scan->end) {
        while (scan_peek(scan) == ' ')
            scan->at++;
        int indent = scan_column(scan) - 1;
        char c = scan_peek(scan);
        if (c == '\t')
            return scan_fail(scan, "expected spaces before a key, found a tab");
        bool nothing = c == '#' || c == '\n' || c == '\r' || c == '\0';
        if (nothing || (indent == 0 && (scan_takes(scan, "---") || scan_takes(scan, "...")))) {
            if (!scan_ends_line(scan))
                return false;
            continue;
        }
        if (strchr("&*!|>%@`?", c))
            return scan_fail(scan, "expected a key, found \"%c\": anchors, tags and blocks are not read", c);
        while (yaml->depth > 0 && yaml->level[yaml->depth - 1].indent > indent)
            yaml->depth--;
        bool item = c == '-' && scan->at + 1 < scan->end && (scan->at[1] == ' ' || scan->at[1] == '\n');
        while (!item && yaml->depth > 0 && yaml->level[yaml->depth - 1].indent == indent)
            yaml->depth--;
        struct scan_path key = yaml->depth > 0 ? yaml->level[yaml->depth - 1].path : (struct scan_path){ 0 };
        if (c == '[' && key.length == 0)
            return scan_fail(scan, "expected a key before a list, found none");
        bool lists = yaml->depth > 0 && yaml->level[yaml->depth - 1].lists;
        if (!(item                   ? read_item(yaml, &key)
              : c == '{' || c == '[' ? add_flow(yaml, &key, lists, scan->line, indent + 1)
                                     : read_pair(yaml, &key, indent)))
            return false;
    }
    return true;
}

bool settings_read_yaml(struct settings *settings, const char *text, size_t length, struct error *err)
{
    struct yaml yaml = { 0 };
    bool good = scan_begin(&yaml.scan, settings, text, length, err) && read_yaml(&yaml);
    text_free(&yaml.scan.buffer);
    return good;
}
