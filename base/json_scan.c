/* The grammar of RFC 8259, walked with a stack of its own: nesting never grows the C stack. */
#include "base/json_tree.h"
#include <string.h>

struct scan {
    const char *text, *at, *end;
    struct json *nodes; /* NULL: count only */
    size_t count, tree_bytes;
    struct {
        size_t node;
        bool is_object;
    } open[JSON_MAX_DEPTH]; /* (depth) containers not yet closed */
    int depth;
    const char *key; /* the pending member's, after its opening quote */
    size_t key_length;
    bool key_has_zero, key_has_escape;
    struct json_fault *fault;
};

static bool refuse_at(struct scan *s, const char *at, const char *expected)
{
    *s->fault = (struct json_fault){ .offset = (size_t)(at - s->text), .expected = expected };
    return false;
}

static bool refuse(struct scan *s, const char *expected)
{
    return refuse_at(s, s->at, expected);
}

static bool at_char(const struct scan *s, char c)
{
    return s->at < s->end && *s->at == c;
}

static bool at_digit(const struct scan *s)
{
    return s->at < s->end && *s->at >= '0' && *s->at <= '9';
}

static void skip_blanks(struct scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r'))
        s->at++;
}

/* ---- strings ---- */

static const char *read_hex4(const char *at, const char *end, uint32_t *value)
{
    *value = 0;
    for (int i = 0; i < 4; i++, at++) {
        if (at == end)
            return NULL;
        char c = *at;
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return NULL;
        *value = *value * 16 + (uint32_t)digit;
    }
    return at;
}

/* After "\u". */
static const char *read_unicode_escape(const char *at, const char *end, uint32_t *character, const char **expected)
{
    uint32_t low;
    *expected = "four hexadecimal digits after \\u";
    at = read_hex4(at, end, character);
    if (!at || *character < 0xD800 || *character > 0xDFFF)
        return at;
    *expected = "a pair of surrogates, \\ud800-\\udbff then \\udc00-\\udfff";
    if (*character >= 0xDC00 || end - at < 2 || at[0] != '\\' || at[1] != 'u')
        return NULL;
    at = read_hex4(at + 2, end, &low);
    if (!at || low < 0xDC00 || low > 0xDFFF)
        return NULL;
    *character = 0x10000 + ((*character - 0xD800) << 10) + (low - 0xDC00);
    return at;
}

const char *json_scan_character(const char *at, const char *end, uint32_t *character, const char **expected)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (*at != '\\') {
        *expected = (unsigned char)*at < 0x20 ? "a closing quote (control characters are written as escapes)" : "UTF-8";
        size_t length = (unsigned char)*at < 0x20 ? 0 : text_utf8(at, (size_t)(end - at), character);
        return length ? at + length : NULL;
    }
    if (end - at >= 2 && at[1] == 'u')
        return read_unicode_escape(at + 2, end, character, expected);
    const char *letter = end - at >= 2 && at[1] != '\0' ? strchr(letters, at[1]) : NULL;
    *expected = "an escape: \\\" \\\\ \\/ \\b \\f \\n \\r \\t or \\uXXXX";
    if (!letter)
        return NULL;
    *character = (unsigned char)meanings[letter - letters];
    return at + 2;
}

/* Shows the whole of an escape, as far as it can be printed. */
static bool refuse_character(struct scan *s, const char *expected)
{
    enum { LONGEST_ESCAPE = 6 };
    const char *at = s->at;
    refuse(s, expected);
    if (*at != '\\')
        return false;
    while (at < s->end && at - s->at<LONGEST_ESCAPE && * at> ' ' && *at < 0x7F && *at != '"')
        at++;
    s->fault->found_length = (size_t)(at - s->at);
    return false;
}

/* From the opening quote to after the closing one. */
static bool scan_string(struct scan *s, bool *has_zero, bool *has_escape)
{
    *has_zero = *has_escape = false;
    for (s->at++; s->at < s->end && *s->at != '"';) {
        uint32_t character;
        if (*s->at >= ' ' && *s->at <= '~' && *s->at != '\\') { /* nearly all */
            s->at++;
            continue;
        }
        const char *expected, *next = json_scan_character(s->at, s->end, &character, &expected);
        if (!next)
            return refuse_character(s, expected);
        *has_escape |= *s->at == '\\';
        *has_zero |= character == 0;
        s->at = next;
    }
    if (s->at == s->end)
        return refuse(s, "a closing quote");
    s->at++;
    return true;
}

/* The key of the next member and its colon; leaves s->at at the value. */
static bool scan_key(struct scan *s)
{
    skip_blanks(s);
    if (!at_char(s, '"'))
        return refuse(s, "a key in double quotes");
    s->key = s->at + 1;
    if (!scan_string(s, &s->key_has_zero, &s->key_has_escape))
        return false;
    s->key_length = (size_t)(s->at - 1 - s->key);
    skip_blanks(s);
    if (!at_char(s, ':'))
        return refuse(s, "':' after the key");
    s->at++;
    return true;
}

/* ---- values ---- */

/* What the heap takes for one of cJSON's pieces, by its usual grain. */
static size_t heap_bytes(size_t bytes)
{
    enum { GRAIN = 16, LEAST = 32 };
    size_t whole = (bytes + sizeof(size_t) + GRAIN - 1) / GRAIN * GRAIN;
    return whole < LEAST ? LEAST : whole;
}

/* Of a node and its twin, and of their places in what holds them. */
static size_t node_bytes(const struct scan *s, enum json_type type, const char *begin)
{
    size_t bytes = sizeof(struct json) + sizeof(struct json *) + heap_bytes(sizeof(cJSON));
    if (type == JSON_STRING)
        bytes += heap_bytes((size_t)(s->at - begin));
    if (s->depth > 0 && s->open[s->depth - 1].is_object)
        bytes += sizeof(struct json *) + heap_bytes(s->key_length + 1);
    return bytes;
}

static void add_node(struct scan *s, enum json_type type, const char *begin, bool has_zero)
{
    size_t index = s->count++;
    s->tree_bytes += node_bytes(s, type, begin);
    if (!s->nodes)
        return;
    struct json *node = &s->nodes[index];
    *node = (struct json){
        .type = type, .offset = (uint32_t)(begin - s->text), .length = (uint32_t)(s->at - begin), .has_zero = has_zero
    };
    if (s->depth == 0)
        return;
    struct json *parent = &s->nodes[s->open[s->depth - 1].node];
    node->parent = parent;
    node->index = parent->count++;
    if (!s->open[s->depth - 1].is_object)
        return;
    node->key_offset = (uint32_t)(s->key - s->text);
    node->key_length = (uint32_t)s->key_length;
    node->key_has_zero = s->key_has_zero;
    node->key_has_escape = s->key_has_escape;
}

static bool scan_digits(struct scan *s, const char *expected)
{
    if (!at_digit(s))
        return refuse(s, expected);
    while (at_digit(s))
        s->at++;
    return true;
}

static bool scan_number(struct scan *s)
{
    const char *begin = s->at;
    if (at_char(s, '-'))
        s->at++;
    bool zero = at_char(s, '0');
    if (zero)
        s->at++;
    else if (!scan_digits(s, "a digit after '-'"))
        return false;
    if (zero && at_digit(s))
        return refuse_at(s, begin, "a number without leading zeros");
    if (at_char(s, '.')) {
        s->at++;
        if (!scan_digits(s, "a digit after the decimal point"))
            return false;
    }
    if (at_char(s, 'e') || at_char(s, 'E')) {
        s->at++;
        if (at_char(s, '+') || at_char(s, '-'))
            s->at++;
        if (!scan_digits(s, "a digit in the exponent"))
            return false;
    }
    double value;
    size_t length = (size_t)(s->at - begin);
    if (!s->nodes && !text_read_double(begin, length, &value)) { /* numbers that were counted are within */
        refuse_at(s, begin, "a number within the range of a double");
        s->fault->found_length = length;
        return false;
    }
    add_node(s, JSON_NUMBER, begin, false);
    return true;
}

/* Shows the whole of a word such as NaN or True. */
static bool refuse_word(struct scan *s)
{
    const char *at = s->at;
    while (at < s->end && ((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z')))
        at++;
    refuse(s, "a JSON value");
    s->fault->found_length = (size_t)(at - s->at);
    return false;
}

static bool scan_word(struct scan *s, const char *word, enum json_type type)
{
    const char *begin = s->at;
    size_t length = strlen(word);
    if ((size_t)(s->end - s->at) < length || memcmp(s->at, word, length) != 0)
        return refuse_word(s);
    s->at += length;
    add_node(s, type, begin, false);
    return true;
}

/* Steps into a container; *complete when it is empty and thus already closed. */
static bool scan_open(struct scan *s, bool is_object, bool *complete)
{
    if (s->depth == JSON_MAX_DEPTH)
        return refuse(s, "at most 512 nested arrays and objects");
    size_t node = s->count;
    s->at++;
    add_node(s, is_object ? JSON_OBJECT : JSON_ARRAY, s->at - 1, false);
    skip_blanks(s);
    *complete = at_char(s, is_object ? '}' : ']');
    if (*complete) {
        s->at++;
        return true;
    }
    s->open[s->depth].node = node;
    s->open[s->depth].is_object = is_object;
    s->depth++;
    return !is_object || scan_key(s);
}

/* *complete: the value has ended; otherwise s->at is where the first child begins. */
static bool scan_value(struct scan *s, bool *complete)
{
    skip_blanks(s);
    *complete = true;
    char c = s->at < s->end ? *s->at : '\0';
    const char *begin = s->at;
    bool has_zero, has_escape;
    switch (c) {
    case '{':
    case '[':
        return scan_open(s, c == '{', complete);
    case '"':
        if (!scan_string(s, &has_zero, &has_escape))
            return false;
        add_node(s, JSON_STRING, begin, has_zero);
        return true;
    case 't':
        return scan_word(s, "true", JSON_BOOL);
    case 'f':
        return scan_word(s, "false", JSON_BOOL);
    case '-':
        return scan_number(s);
    default:
        return at_digit(s) ? scan_number(s) : scan_word(s, "null", JSON_NULL);
    }
}

/* After a value inside a container: a comma (s->at then begins the next value) or the closing
 * bracket (*complete). */
static bool scan_next(struct scan *s, bool *complete)
{
    bool is_object = s->open[s->depth - 1].is_object;
    skip_blanks(s);
    *complete = at_char(s, is_object ? '}' : ']');
    if (!*complete && !at_char(s, ','))
        return refuse(s, is_object ? "',' or '}' after a member" : "',' or ']' after an element");
    s->at++;
    if (*complete)
        s->depth--;
    else {
        skip_blanks(s);
        if (at_char(s, is_object ? '}' : ']'))
            return refuse(s, is_object ? "a member after the comma" : "an element after the comma");
        return !is_object || scan_key(s);
    }
    return true;
}

bool json_scan(const char *text, size_t length, struct json *nodes, size_t *node_count, size_t *tree_bytes,
               struct json_fault *fault)
{
    struct scan s = { .text = text, .at = text, .end = text + length, .nodes = nodes, .fault = fault };
    if (length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        return refuse(&s, "UTF-8 without a byte order mark");
    bool complete;
    do {
        if (!scan_value(&s, &complete))
            return false;
        while (complete && s.depth > 0)
            if (!scan_next(&s, &complete))
                return false;
    } while (!complete);
    skip_blanks(&s);
    if (s.at < s.end)
        return refuse(&s, "the end of the text after the value");
    *node_count = s.count;
    *tree_bytes = s.tree_bytes;
    return true;
}
