/* json: what is accepted, where failures point, what the tree holds. */
#define _POSIX_C_SOURCE 200809L
#include "base/json.h"
#include "base/json_tree.h"
#include "base/num.h"
#include "tests/check.h"
#include "tests/json_texts.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef TEST_SOURCE_DIR
#error "TEST_SOURCE_DIR: the path of the folder tests/, as a string"
#endif

/* ---- helpers ---- */

/* The text must be refused with exactly this message. */
static void refuse(const char *text, size_t length, const char *expected)
{
    struct json_doc *doc = NULL;
    struct error err = { 0 };
    ck_assert_msg(!json_parse(&doc, "FILE", text, length, &err), "accepted: %.*s", (int)length, text);
    ck_assert_ptr_null(doc);
    ck_assert_int_eq(err.kind, ERROR_INPUT);
    ck_assert_str_eq(err.message, expected);
}

static char *read_file(const char *folder, const char *name, size_t *length)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s/%s", TEST_SOURCE_DIR, folder, name);
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "cannot open %s", path);
    struct text content = { 0 };
    char piece[4096];
    size_t got;
    text_add(&content, "");
    while ((got = fread(piece, 1, sizeof piece, file)) > 0)
        text_add_bytes(&content, piece, got);
    fclose(file);
    *length = content.length;
    return content.data;
}

/* Calls visit for every *.json of the folder, and gives their number. */
static int each_file(const char *folder, void (*visit)(const char *name, const char *text, size_t length))
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", TEST_SOURCE_DIR, folder);
    DIR *directory = opendir(path);
    ck_assert_msg(directory != NULL, "cannot open %s", path);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        const char *end = strrchr(entry->d_name, '.');
        if (!end || strcmp(end, ".json") != 0)
            continue;
        size_t length;
        char *text = read_file(folder, entry->d_name, &length);
        visit(entry->d_name, text, length);
        free(text);
        count++;
    }
    closedir(directory);
    return count;
}

static bool listed(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* ---- the two corpora ---- */

/* The suite says that these are JSON; we refuse duplicate keys (tests/json_suite/README.md). */
static const char *const refused_by_policy[] = {
    "y_object_duplicated_key.json",
    "y_object_duplicated_key_and_value.json",
};

/* The suite leaves these open; of the 35 we accept six. */
static const char *const accepted_by_policy[] = {
    "i_number_double_huge_neg_exp.json", "i_number_real_underflow.json",        "i_number_too_big_neg_int.json",
    "i_number_too_big_pos_int.json",     "i_number_very_big_negative_int.json", "i_structure_500_nested_arrays.json",
};

static bool suite_accepts(const char *name)
{
    if (name[0] == 'y')
        return !listed(name, refused_by_policy, COUNT(refused_by_policy));
    return name[0] == 'i' && listed(name, accepted_by_policy, COUNT(accepted_by_policy));
}

static void visit_suite(const char *name, const char *text, size_t length)
{
    struct json_doc *doc = NULL;
    struct error err = { 0 };
    bool accepted = json_parse(&doc, name, text, length, &err);
    ck_assert_msg(accepted == suite_accepts(name), "%s: %s", name, accepted ? "accepted" : err.message);
    ck_assert_int_eq(err.kind, accepted ? ERROR_NONE : ERROR_INPUT);
    if (!accepted)
        ck_assert_msg(strncmp(err.message, name, strlen(name)) == 0, "%s", err.message);
    json_free(doc);
}

START_TEST(every_case_of_the_suite)
{
    ck_assert_int_eq(each_file("json_suite", visit_suite), 318);
}
END_TEST

static void visit_hostile(const char *name, const char *text, size_t length)
{
    char expected_name[256];
    snprintf(expected_name, sizeof expected_name, "%.*s.expected", (int)(strlen(name) - strlen(".json")), name);
    size_t expected_length;
    char *expected = read_file("json_hostile", expected_name, &expected_length);
    ck_assert_msg(expected_length > 0 && expected[expected_length - 1] == '\n', "%s", expected_name);
    expected[expected_length - 1] = '\0';
    refuse(text, length, expected);
    free(expected);
}

START_TEST(every_hostile_file_is_refused_with_its_message)
{
    ck_assert_int_ge(each_file("json_hostile", visit_hostile), 100);
}
END_TEST

/* ---- the tree ---- */

START_TEST(tree_holds_what_the_text_says)
{
    struct json_doc *doc =
        parse(" {\"a\": [1, 2.5, true, null, \"x\\u00e9\\n\\ud83d\\ude00\"], \"b\": {}, \"\": [[]]} ");
    const struct json *root = json_root(doc), *a = json_member(root, "a");
    const char *string;
    struct error err = { 0 };
    ck_assert_int_eq(json_type(root), JSON_OBJECT);
    ck_assert_int_eq(json_count(root), 3);
    ck_assert_str_eq(json_key(root, 0), "a");
    ck_assert_str_eq(json_key(root, 1), "b");
    ck_assert_str_eq(json_key(root, 2), "");
    ck_assert_ptr_eq(json_member_at(root, 0), a);
    ck_assert_int_eq(json_count(a), 5);
    static const enum json_type types[] = { JSON_NUMBER, JSON_NUMBER, JSON_BOOL, JSON_NULL, JSON_STRING };
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(json_type(json_at(a, i)), types[i]);
    ck_assert(json_string(json_at(a, 4), &string, &err));
    ck_assert_str_eq(string, "x\xC3\xA9\n\xF0\x9F\x98\x80");
    ck_assert_int_eq(json_count(json_member(root, "b")), 0);
    ck_assert_int_eq(json_count(json_at(json_member(root, ""), 0)), 0);
    json_free(doc);
}
END_TEST

START_TEST(two_gib_are_refused_unread)
{
    struct json_doc *doc = NULL;
    struct error err = { 0 };
    ck_assert(!json_parse(&doc, "FILE", "", INT32_MAX, &err));
    ck_assert_str_eq(err.message, "FILE: expected less than 2 GiB of JSON, found 2147483647 bytes");
}
END_TEST

START_TEST(what_is_not_there_is_null)
{
    struct json_doc *doc = parse("{\"a\": [1]}");
    const struct json *root = json_root(doc), *a = json_member(root, "a");
    ck_assert_ptr_null(json_member(root, "A"));
    ck_assert_ptr_null(json_member(root, ""));
    ck_assert_ptr_null(json_member(root, "b"));
    ck_assert_ptr_null(json_member(a, "a"));
    ck_assert_ptr_null(json_at(root, 0));
    ck_assert_ptr_null(json_at(a, 1));
    ck_assert_ptr_null(json_at(a, -1));
    ck_assert_ptr_null(json_key(root, 1));
    ck_assert_ptr_null(json_key(a, 0));
    ck_assert_ptr_null(json_member_at(root, 1));
    ck_assert_int_eq(json_count(json_at(a, 0)), 0);
    json_free(doc);
    json_free(NULL);
}
END_TEST

START_TEST(members_are_found_among_many)
{
    enum { MEMBERS = 1000 };
    struct text text = { 0 };
    for (int i = 0; i < MEMBERS; i++)
        text_printf(&text, "%c\"k%llu\": %d", i ? ',' : '{', (unsigned long long)mix64((uint64_t)i), i);
    text_add(&text, "}");
    struct json_doc *doc = parse(text.data);
    for (int i = 0; i < MEMBERS; i++) {
        char key[32];
        int64_t value = -1;
        struct error err = { 0 };
        snprintf(key, sizeof key, "k%llu", (unsigned long long)mix64((uint64_t)i));
        ck_assert_str_eq(json_key(json_root(doc), i), key);
        ck_assert(json_int(json_member(json_root(doc), key), 0, MEMBERS, &value, &err));
        ck_assert_int_eq(value, i);
    }
    json_free(doc);
    text_free(&text);
}
END_TEST

START_TEST(a_zero_in_a_key_or_a_string_hides_nothing)
{
    struct json_doc *doc = parse("{\"a\\u0000b\": 1, \"a\": \"x\\u0000y\", \"c\\u0000\": 3, \"\\u007a\\u0000\": 4}");
    const struct json *root = json_root(doc), *a = json_member(root, "a");
    const char *string = "unset";
    struct error err = { 0 };
    ck_assert_ptr_eq(a, json_member_at(root, 1));
    ck_assert_ptr_null(json_member(root, "c"));
    ck_assert_str_eq(json_key(root, 0), "a\\u0000b");
    ck_assert_ptr_null(json_member(root, "a\\u0000b"));
    ck_assert_str_eq(json_key(root, 3), "\\u007a\\u0000"); /* as spelled, which is no name to find it by */
    ck_assert_ptr_null(json_member(root, "\\u007a\\u0000"));
    ck_assert_ptr_null(json_member(root, "z"));
    ck_assert(!json_string(a, &string, &err));
    ck_assert_str_eq(string, "unset");
    ck_assert_str_eq(err.message,
                     "FILE:1:22: a: expected a string without \\u0000, found \"x\" (it holds a zero character)");
    json_free(doc);
}
END_TEST

/* depth arrays or objects around a 1. */
static char *nested(int depth, bool objects)
{
    struct text text = { 0 };
    for (int i = 0; i < depth; i++)
        text_add(&text, objects ? "{\"a\":" : "[");
    text_add(&text, "1");
    for (int i = 0; i < depth; i++)
        text_add(&text, objects ? "}" : "]");
    return text.data;
}

START_TEST(nesting_up_to_the_limit)
{
    for (int objects = 0; objects < 2; objects++) {
        char *deepest = nested(JSON_MAX_DEPTH, objects), *deeper = nested(JSON_MAX_DEPTH + 1, objects);
        struct json_doc *doc = parse(deepest);
        const struct json *value = json_root(doc);
        for (int i = 0; i < JSON_MAX_DEPTH; i++)
            value = objects ? json_member(value, "a") : json_at(value, 0);
        ck_assert_int_eq(json_type(value), JSON_NUMBER);
        struct error err = { 0 };
        json_fail(value, &err, "too deep");
        ck_assert_uint_lt(strlen(err.message), 500); /* the middle of the path is left out */
        ck_assert_ptr_nonnull(strstr(err.message, "..."));
        ck_assert_ptr_nonnull(strstr(err.message, ": too deep"));
        json_free(doc);
        refuse(deeper, strlen(deeper),
               objects ? "FILE:1:2561: expected at most 512 nested arrays and objects, found '{'"
                       : "FILE:1:513: expected at most 512 nested arrays and objects, found '['");
        free(deepest);
        free(deeper);
    }
}
END_TEST

/* An array of ones, each with so many blanks before it. */
static struct text ones(size_t bytes, int blanks)
{
    struct text text = { 0 };
    text_add(&text, "[1");
    while (text.length < bytes)
        text_printf(&text, ",%*s1", blanks, "");
    text_add(&text, "]");
    return text;
}

/* A value takes more than a hundred bytes of memory and may be two of the text. Short texts may be dense. */
START_TEST(long_texts_are_not_read_into_twenty_times_their_bytes)
{
    struct text dense = ones(JSON_SHORT_BYTES + 1, 0), sparse = ones(JSON_SHORT_BYTES + 1, 13),
                small = ones(JSON_SHORT_BYTES - 2, 0);
    char expected[512];
    snprintf(expected, sizeof expected,
             "FILE: expected values that take at most 20 times the bytes of the text, as texts above 1 MiB have to (15 "
             "bytes for each value will do), found %zu values in %zu bytes",
             dense.length / 2 + 1, dense.length);
    refuse(dense.data, dense.length, expected);
    for (int i = 0; i < 2; i++) {
        const struct text *text = i ? &small : &sparse;
        struct json_doc *doc = NULL;
        ck_assert(json_parse(&doc, "FILE", text->data, text->length, NULL));
        size_t bytes = arena_bytes(&doc->arena) + doc->node_count * sizeof(cJSON);
        ck_assert(i || bytes < (JSON_MOST_TIMES - 2) * text->length);
        json_free(doc);
    }
    text_free(&dense);
    text_free(&sparse);
    text_free(&small);
}
END_TEST

START_TEST(the_text_need_not_be_terminated)
{
    struct json_doc *doc = NULL;
    struct error err = { 0 };
    char *exact = malloc(2);
    ck_assert_ptr_nonnull(exact);
    memcpy(exact, "12", 2);
    ck_assert(json_parse(&doc, "FILE", exact, 2, &err));
    free(exact); /* the document has its own copy */
    int64_t value = 0;
    ck_assert(json_int(json_root(doc), 0, 100, &value, &err));
    ck_assert_int_eq(value, 12);
    json_free(doc);
    refuse(NULL, 0, "FILE:1:1: expected a JSON value, found the end of the text");
}
END_TEST

/* ---- positions and paths ---- */

START_TEST(every_value_knows_its_place_and_path)
{
    struct json_doc *doc = parse(model_text);
    const struct json *root = json_root(doc), *layers = json_member(root, "layers"), *second = json_at(layers, 1);
    const struct json *nested_array = json_at(json_member(root, "a.b"), 0), *unnamed = json_member(root, "");
    const struct {
        const struct json *value;
        int line, column;
        const char *message;
    } cases[] = {
        { root, 1, 1, "FILE:1:1: bad" },
        { json_member(root, "name"), 2, 11, "FILE:2:11: name: bad" },
        { layers, 3, 13, "FILE:3:13: layers: bad" },
        { json_at(layers, 0), 4, 5, "FILE:4:5: layers[0]: bad" },
        { json_member(json_at(layers, 0), "kind"), 4, 14, "FILE:4:14: layers[0].kind: bad" },
        { second, 5, 5, "FILE:5:5: layers[1]: bad" },
        { json_member_at(second, 1), 6, 15,
          "FILE:6:15: layers[1][\"gr\xC3\xB6\xC3\x9F"
          "e\"]: bad" },
        { json_member(second, "heads"), 6, 27, "FILE:6:27: layers[1].heads: bad" },
        { nested_array, 8, 10, "FILE:8:10: [\"a.b\"][0]: bad" },
        { json_at(nested_array, 1), 8, 14, "FILE:8:14: [\"a.b\"][0][1]: bad" },
        { unnamed, 9, 7, "FILE:9:7: [\"\"]: bad" },
        { json_member_at(unnamed, 0), 9, 18, "FILE:9:18: [\"\"][\"line\\n\"]: bad" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct error err = { 0 };
        int line, column;
        json_position(cases[i].value, &line, &column);
        ck_assert_int_eq(line, cases[i].line);
        ck_assert_int_eq(column, cases[i].column);
        ck_assert(!json_fail(cases[i].value, &err, "%s", "bad"));
        ck_assert_str_eq(err.message, cases[i].message);
        ck_assert_int_eq(err.kind, ERROR_INPUT);
    }
    struct error err = { 0 };
    json_fail(json_member(second, "heads"), &err, "expected a positive divisor of hidden (%d), found %d", 4096, 33);
    ck_assert_str_eq(err.message, "FILE:6:27: layers[1].heads: expected a positive divisor of hidden (4096), found 33");
    json_free(doc);
}
END_TEST

static Suite *accept_suite(void)
{
    Suite *suite = suite_create("json: what is accepted");
    CHECK_ADD(suite, every_case_of_the_suite);
    CHECK_ADD(suite, every_hostile_file_is_refused_with_its_message);
    CHECK_ADD(suite, nesting_up_to_the_limit);
    CHECK_ADD(suite, long_texts_are_not_read_into_twenty_times_their_bytes);
    CHECK_ADD(suite, the_text_need_not_be_terminated);
    return suite;
}

static Suite *tree_suite(void)
{
    Suite *suite = suite_create("json: the tree");
    CHECK_ADD(suite, tree_holds_what_the_text_says);
    CHECK_ADD(suite, two_gib_are_refused_unread);
    CHECK_ADD(suite, what_is_not_there_is_null);
    CHECK_ADD(suite, members_are_found_among_many);
    CHECK_ADD(suite, a_zero_in_a_key_or_a_string_hides_nothing);
    CHECK_ADD(suite, every_value_knows_its_place_and_path);
    return suite;
}

CHECK_MAIN(accept_suite, tree_suite)
