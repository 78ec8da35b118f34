/* From text to a tree with positions. json_scan decides what is accepted; cJSON then builds the
 * tree and undoes the escapes; both walks are in the same order, so that each value finds its twin.
 */
#include "base/json_tree.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool no_memory(const char *name, struct error *err)
{
    return fail_kind(err, ERROR_ENVIRONMENT, "%s: out of memory while reading JSON", name);
}

static void show_character(char *found, size_t size, const char *at, size_t length)
{
    uint32_t character;
    unsigned char byte = (unsigned char)*at;
    if (byte == '\n' || byte == '\r')
        snprintf(found, size, "the end of the line");
    else if (byte >= 0x20 && byte < 0x7F)
        snprintf(found, size, "'%c'", byte);
    else if (byte >= 0x7F && text_utf8(at, length, &character))
        snprintf(found, size, "U+%04X", (unsigned)character);
    else
        snprintf(found, size, "byte 0x%02X", byte);
}

static bool fail_fault(const struct json_doc *doc, const struct json_fault *fault, struct error *err)
{
    enum { LONGEST_SHOWN = 40 };
    char message[256], found[64];
    const char *at = doc->text + fault->offset;
    size_t length = fault->found_length;
    if (fault->offset == doc->length)
        snprintf(found, sizeof found, "the end of the text");
    else if (length > 1)
        snprintf(found, sizeof found, "%.*s%s", (int)json_clip(at, length, LONGEST_SHOWN), at,
                 length > LONGEST_SHOWN ? "..." : "");
    else
        show_character(found, sizeof found, at, doc->length - fault->offset);
    snprintf(message, sizeof message, "expected %s, found %s", fault->expected, found);
    return json_fail_at(doc, fault->offset, NULL, err, message);
}

/* cJSON's numbers are not used, because it follows the locale and its older versions stop after 63 characters: it sees
 * 0 in their place, padded with blanks. Ours come from the text. */
static bool build_tree(struct json_doc *doc)
{
    char *text = malloc(doc->length + 1);
    if (!text)
        return false;
    memcpy(text, doc->text, doc->length + 1);
    for (size_t i = 0; i < doc->node_count; i++) {
        const struct json *node = &doc->nodes[i];
        if (node->type != JSON_NUMBER)
            continue;
        memset(text + node->offset, ' ', node->length);
        text[node->offset] = '0';
    }
    doc->tree = cJSON_ParseWithLength(text, doc->length + 1);
    free(text);
    return doc->tree != NULL;
}

static bool same_type(enum json_type type, const cJSON *item)
{
    switch (type) {
    case JSON_NULL:
        return cJSON_IsNull(item);
    case JSON_BOOL:
        return cJSON_IsBool(item);
    case JSON_NUMBER:
        return cJSON_IsNumber(item);
    case JSON_STRING:
        return cJSON_IsString(item);
    case JSON_ARRAY:
        return cJSON_IsArray(item);
    case JSON_OBJECT:
        break;
    }
    return cJSON_IsObject(item);
}

/* Both trees are walked in the same order: a node's twin is the next sibling of its elder's twin,
 * or its parent's first child. */
static bool pair_node(struct json_doc *doc, struct json *node)
{
    const struct json *parent = node->parent;
    if (!parent)
        node->item = doc->tree;
    else if (node->index == 0)
        node->item = parent->item->child;
    else
        node->item = parent->children[node->index - 1]->item->next;
    if (parent)
        parent->children[node->index] = node;
    return node->item && same_type(node->type, node->item);
}

/* A key with a zero inside has no C string; it is shown as it is spelled. */
static bool set_key(struct json_doc *doc, struct json *node)
{
    if (!node->parent || node->parent->type != JSON_OBJECT)
        return true;
    node->key = node->key_has_zero ? arena_strndup(&doc->arena, doc->text + node->key_offset, node->key_length)
                                   : node->item->string;
    return node->key != NULL;
}

static bool link_nodes(struct json_doc *doc, struct error *err)
{
    for (size_t i = 0; i < doc->node_count; i++) {
        struct json *node = &doc->nodes[i];
        node->doc = doc;
        bool paired = pair_node(doc, node);
        if (!paired || !set_key(doc, node))
            return paired ? no_memory(doc->name, err) : fail_kind(err, ERROR_BUG, "%s: read in two ways", doc->name);
        if (node->count == 0)
            continue;
        node->children = arena_alloc(&doc->arena, (size_t)node->count, sizeof *node->children);
        if (!node->children)
            return no_memory(doc->name, err);
    }
    return true;
}

/* Order of the keys' code points, escapes undone; equal keys are 0. */
static int compare_keys(const struct json *a, const struct json *b)
{
    const char *text = a->doc->text, *expected;
    const char *at = text + a->key_offset, *end = at + a->key_length;
    const char *other = text + b->key_offset, *other_end = other + b->key_length;
    if (!a->key_has_escape && !b->key_has_escape) {
        size_t shorter = a->key_length < b->key_length ? a->key_length : b->key_length;
        int order = memcmp(at, other, shorter);
        return order ? order : (a->key_length > b->key_length) - (a->key_length < b->key_length);
    }
    while (at < end && other < other_end) {
        uint32_t x, y;
        at = json_scan_character(at, end, &x, &expected);
        other = json_scan_character(other, other_end, &y, &expected);
        if (x != y)
            return x < y ? -1 : 1;
    }
    return (at < end) - (other < other_end);
}

static int compare_members(const void *a, const void *b)
{
    const struct json *const *x = a, *const *y = b;
    int order = compare_keys(*x, *y);
    return order ? order : ((*x)->index > (*y)->index) - ((*x)->index < (*y)->index);
}

/* Insertion where they are few, as they mostly are. */
static void order_members(const struct json **members, int count)
{
    enum { FEW = 16 };
    if (count > FEW) {
        qsort(members, (size_t)count, sizeof *members, compare_members);
        return;
    }
    for (int i = 1; i < count; i++) {
        const struct json *member = members[i];
        int at = i;
        for (; at > 0 && compare_members(&members[at - 1], &member) > 0; at--)
            members[at] = members[at - 1];
        members[at] = member;
    }
}

static bool fail_duplicate(const struct json *first, const struct json *second, struct error *err)
{
    char message[80];
    int line, column;
    json_find_position(first->doc, first->key_offset - 1, &line, &column);
    snprintf(message, sizeof message, "expected each key once, found it also at %d:%d", line, column);
    return json_fail_at(second->doc, second->key_offset - 1, second, err, message);
}

static bool sort_members(struct json_doc *doc, struct json *object, struct error *err)
{
    object->by_key = arena_alloc(&doc->arena, (size_t)object->count, sizeof *object->by_key);
    if (!object->by_key)
        return no_memory(doc->name, err);
    memcpy(object->by_key, object->children, (size_t)object->count * sizeof *object->by_key);
    order_members(object->by_key, object->count);
    const struct json *first = NULL, *second = NULL; /* of all duplicates the one that comes first in the text */
    for (int i = 1; i < object->count; i++) {
        const struct json *a = object->by_key[i - 1], *b = object->by_key[i];
        if (compare_keys(a, b) == 0 && (!second || b->index < second->index)) {
            first = a;
            second = b;
        }
    }
    return second ? fail_duplicate(first, second, err) : true;
}

/* Before there is a tree: many small values in a long text would take a hundred times its bytes. */
static bool check_tree_bytes(const struct json_doc *doc, size_t tree_bytes, struct error *err)
{
    enum { COPIES = 3 }; /* the caller's text, the document's, cJSON's */
    size_t most = (size_t)(JSON_MOST_TIMES - COPIES) * doc->length;
    return doc->length <= JSON_SHORT_BYTES || tree_bytes <= most ||
           fail(err,
                "%s: expected values that take at most %d times the bytes of the text, as texts above %d MiB have to "
                "(15 bytes for each value will do), found %zu values in %zu bytes",
                doc->name, JSON_MOST_TIMES, JSON_SHORT_BYTES >> 20, doc->node_count, doc->length);
}

static bool fill_doc(struct json_doc *doc, const char *name, const char *text, size_t length, struct error *err)
{
    struct json_fault fault;
    size_t tree_bytes;
    doc->name = arena_strdup(&doc->arena, name);
    doc->text = text; /* what is no JSON is not copied: it may be long */
    doc->length = length;
    if (!doc->name)
        return no_memory(name, err);
    if (!json_scan(doc->text, length, NULL, &doc->node_count, &tree_bytes, &fault))
        return fail_fault(doc, &fault, err);
    if (!check_tree_bytes(doc, tree_bytes, err))
        return false;
    doc->text = arena_strndup(&doc->arena, text, length);
    doc->nodes = arena_alloc(&doc->arena, doc->node_count, sizeof *doc->nodes);
    if (!doc->text || !doc->nodes)
        return no_memory(name, err);
    json_scan(doc->text, length, doc->nodes, &doc->node_count, &tree_bytes, &fault); /* there was no fault in it */
    if (!build_tree(doc))
        return no_memory(name, err);
    if (!link_nodes(doc, err))
        return false;
    for (size_t i = 0; i < doc->node_count; i++)
        if (doc->nodes[i].type == JSON_OBJECT && doc->nodes[i].count > 0 && !sort_members(doc, &doc->nodes[i], err))
            return false;
    return true;
}

bool json_parse_short(struct json_doc **out, const char *name, const char *text, size_t length, int64_t fail_after,
                      struct error *err)
{
    if (length >= INT_MAX)
        return fail(err, "%s: expected less than 2 GiB of JSON, found %zu bytes", name, length);
    struct json_doc *doc = calloc(1, sizeof *doc);
    if (!doc)
        return no_memory(name, err);
    doc->arena.fail_after = fail_after;
    if (!fill_doc(doc, name, text, length, err)) {
        json_free(doc);
        return false;
    }
    *out = doc;
    return true;
}

bool json_parse(struct json_doc **out, const char *name, const char *text, size_t length, struct error *err)
{
    return json_parse_short(out, name, text, length, 0, err);
}

void json_free(struct json_doc *doc)
{
    if (!doc)
        return;
    cJSON_Delete(doc->tree);
    arena_free(&doc->arena);
    free(doc);
}

bool json_parse_with(const char *name, const char *text, size_t length,
                     bool (*read)(void *self, const struct json *root, struct error *err), void *self,
                     struct error *err)
{
    struct json_doc *doc = NULL;
    bool good = json_parse(&doc, name, text, length, err) && read(self, json_root(doc), err);
    json_free(doc);
    return good;
}

/* ---- looking around ---- */

const struct json *json_root(const struct json_doc *doc)
{
    return &doc->nodes[0];
}

enum json_type json_type(const struct json *value)
{
    return value->type;
}

const char *json_type_name(enum json_type type)
{
    switch (type) {
    case JSON_NULL:
        return "null";
    case JSON_BOOL:
        return "true or false";
    case JSON_NUMBER:
        return "a number";
    case JSON_STRING:
        return "a string";
    case JSON_ARRAY:
        return "an array";
    case JSON_OBJECT:
        break;
    }
    return "an object";
}

int json_count(const struct json *value)
{
    return value->count;
}

static const struct json *child_at(const struct json *parent, enum json_type type, int index)
{
    return parent->type == type && index >= 0 && index < parent->count ? parent->children[index] : NULL;
}

const struct json *json_at(const struct json *array, int index)
{
    return child_at(array, JSON_ARRAY, index);
}

const struct json *json_member_at(const struct json *object, int index)
{
    return child_at(object, JSON_OBJECT, index);
}

const char *json_key(const struct json *object, int index)
{
    const struct json *member = json_member_at(object, index);
    return member ? member->key : NULL;
}

/* UTF-8 keeps the order of code points, so that cJSON's strings are in the order of by_key. A key
 * with a zero inside stands, cut, after the key that is its beginning: the lower bound is the key
 * itself if there is one. */
const struct json *json_member(const struct json *object, const char *key)
{
    if (object->type != JSON_OBJECT)
        return NULL;
    int low = 0, high = object->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (strcmp(object->by_key[middle]->item->string, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    const struct json *found = low < object->count ? object->by_key[low] : NULL;
    return found && !found->key_has_zero && strcmp(found->key, key) == 0 ? found : NULL;
}
