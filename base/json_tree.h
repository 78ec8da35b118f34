/* What the json_*.c files share: the tree and the scanner. Nobody else includes this. */
#ifndef CLEAVE_BASE_JSON_TREE_H
#define CLEAVE_BASE_JSON_TREE_H
#include "base/json.h"
#include <cjson/cJSON.h>

/* The scanner fills what the text says (type, place, key, parent); the reader adds what cJSON
 * holds. */
struct json {
    const struct json_doc *doc;
    const struct json *parent;       /* NULL for the root */
    const cJSON *item;               /* its twin in cJSON's tree, which holds the strings with their escapes undone */
    const struct json **children;    /* (count) in the order of the text */
    const struct json **by_key;      /* (count) of an object, in the order of the keys' code points */
    const char *key;                 /* NULL for elements and the root */
    uint32_t offset, length;         /* of the value; a container's length is that of its opening bracket */
    uint32_t key_offset, key_length; /* between the quotes of the key */
    int count, index;                /* children; place among the parent's children */
    enum json_type type;
    bool has_zero, key_has_zero, key_has_escape; /* \u0000 in the string, in the key; any escape in the key */
};

struct json_doc {
    struct arena arena;
    const char *name, *text;
    size_t length;
    cJSON *tree;
    struct json *nodes; /* (node_count) in pre-order: a container before its children */
    size_t node_count;
};

/* Why and where the text is refused. */
struct json_fault {
    size_t offset, found_length; /* found_length 0: the one character at offset */
    const char *expected;
};

/* Walks the text once by the grammar of RFC 8259 and counts its values, and the bytes of nodes and twins that they
 * take. nodes may be NULL (count only) or have room for all. */
bool json_scan(const char *text, size_t length, struct json *nodes, size_t *node_count, size_t *tree_bytes,
               struct json_fault *fault);

/* The character of a string literal at at, its escape undone; returns the place after it, or NULL
 * with *expected set. */
const char *json_scan_character(const char *at, const char *end, uint32_t *character, const char **expected);

/* Appends the bytes as a JSON string with quotes; malformed UTF-8 becomes U+FFFD. */
void json_quote(struct text *out, const char *bytes, size_t length);

/* Line and column, from 1, of the byte at offset. */
void json_find_position(const struct json_doc *doc, size_t offset, int *line, int *column);

/* The longest prefix of at most limit bytes that cuts no character. */
size_t json_clip(const char *bytes, size_t length, size_t limit);

/* A failure at an offset: the place, the path of value (may be NULL), the message. Returns false.
 */
bool json_fail_at(const struct json_doc *doc, size_t offset, const struct json *value, struct error *err,
                  const char *message);

/* json_fail with "expected <expected>, found <the value>". */
bool json_fail_expected(const struct json *value, struct error *err, const char *expected);

/* json_parse with the fail_after of the document's arena (0: never): for tests of short memory. */
bool json_parse_short(struct json_doc **out, const char *name, const char *text, size_t length, int64_t fail_after,
                      struct error *err);
#endif
