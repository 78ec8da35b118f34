/* json: writing, and reading with short memory. */
#include "base/json.h"
#include "base/json_tree.h"
#include "base/num.h"
#include "tests/json_texts.h"
#include <stdlib.h>
#include <string.h>

/* ---- writing ---- */

static void write_sample(struct json_writer *w)
{
    json_begin_object(w);
    json_write_key(w, "name");
    json_write_string(w, "a \"quoted\" \\ line\nwith\ttabs, \x01 and \xC3\xA9");
    json_write_key(w, "empty");
    json_begin_object(w);
    json_end_object(w);
    json_write_key(w, "list");
    json_begin_array(w);
    json_write_int(w, INT64_MIN);
    json_write_double(w, 0.1);
    json_write_bool(w, true);
    json_write_string(w, NULL);
    json_begin_array(w);
    json_end_array(w);
    json_begin_object(w);
    json_write_key(w, "k\"");
    json_write_double(w, (double)NAN);
    json_end_object(w);
    json_end_array(w);
    json_write_key(w, "last");
    json_write_bool(w, false);
    json_end_object(w);
}

START_TEST(members_that_open_are_those_written_by_hand)
{
    struct json_writer ways[2] = { 0 };
    const int64_t numbers[] = { 3, -1 };
    char *text[2];
    size_t length;
    for (int way = 0; way < 2; way++)
        json_begin_object(&ways[way]);
    json_put_ints(&ways[0], "numbers", numbers, 2);
    json_begin_object_at(&ways[0], "inner");
    json_write_key(&ways[1], "numbers");
    json_begin_array(&ways[1]);
    json_write_int(&ways[1], 3);
    json_write_int(&ways[1], -1);
    json_end_array(&ways[1]);
    json_write_key(&ways[1], "inner");
    json_begin_object(&ways[1]);
    for (int way = 0; way < 2; way++) {
        json_end_object(&ways[way]);
        json_end_object(&ways[way]);
        text[way] = json_finish(&ways[way], &length);
    }
    ck_assert_str_eq(text[0], text[1]);
    free(text[0]);
    free(text[1]);
}
END_TEST

START_TEST(written_bytes_are_these)
{
    struct json_writer w = { 0 };
    size_t length = 0;
    write_sample(&w);
    char *bytes = json_finish(&w, &length);
    ck_assert_str_eq(bytes, "{\n"
                            "  \"name\": \"a \\\"quoted\\\" \\\\ line\\nwith\\ttabs, \\u0001 and \xC3\xA9\",\n"
                            "  \"empty\": {},\n"
                            "  \"list\": [\n"
                            "    -9223372036854775808,\n"
                            "    0.1,\n"
                            "    true,\n"
                            "    null,\n"
                            "    [],\n"
                            "    {\n"
                            "      \"k\\\"\": null\n"
                            "    }\n"
                            "  ],\n"
                            "  \"last\": false\n"
                            "}\n");
    ck_assert_uint_eq(length, strlen(bytes));
    ck_assert_ptr_null(w.text.data); /* the writer can be used again */
    write_sample(&w);
    char *again = json_finish(&w, NULL);
    ck_assert_str_eq(again, bytes);
    free(again);
    free(bytes);
}
END_TEST

START_TEST(malformed_strings_are_mended_when_written)
{
    struct json_writer w = { 0 };
    json_write_string(&w, "\xC3(\xED\xA0\x80\xF0\x9F");
    char *bytes = json_finish(&w, NULL);
    ck_assert_str_eq(bytes, "\"\xEF\xBF\xBD(\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"\n");
    json_free(parse(bytes));
    free(bytes);
}
END_TEST

static void write_value(struct json_writer *w, const struct json *value)
{
    struct error err = { 0 };
    const char *string = NULL;
    double number = 0;
    bool truth = false;
    switch (json_type(value)) {
    case JSON_NULL:
        json_write_string(w, NULL);
        break;
    case JSON_BOOL:
        ck_assert(json_bool(value, &truth, &err));
        json_write_bool(w, truth);
        break;
    case JSON_NUMBER:
        ck_assert(json_double(value, -INFINITY, INFINITY, &number, &err));
        json_write_double(w, number);
        break;
    case JSON_STRING:
        ck_assert(json_string(value, &string, &err));
        json_write_string(w, string);
        break;
    case JSON_ARRAY:
        json_begin_array(w);
        for (int i = 0; i < json_count(value); i++)
            write_value(w, json_at(value, i));
        json_end_array(w);
        break;
    case JSON_OBJECT:
        json_begin_object(w);
        for (int i = 0; i < json_count(value); i++) {
            json_write_key(w, json_key(value, i));
            write_value(w, json_member_at(value, i));
        }
        json_end_object(w);
        break;
    }
}

START_TEST(written_parsed_and_written_again_is_the_same)
{
    static const char *const texts[] = {
        "0",
        "\"x\"",
        "[]",
        "{}",
        "[[], [{}], {\"a\": []}]",
        "{\"a\": {\"b\": {\"c\": [1, [2, [3]]]}}}",
        "[0.1, 1e300, -5e-324, 123456789, -0, 1e22, 0.30000000000000004]",
        "{\"\\u0001\\u001f\\u007f\": \"\\\"\\\\\\/\\b\\f\\n\\r\\t\", \"\\ud83d\\ude00\": \"\\uffff\\ue000\"}",
        model_text,
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct json_doc *doc = parse(texts[i]);
        struct json_writer w = { 0 };
        write_value(&w, json_root(doc));
        char *first = json_finish(&w, NULL);
        struct json_doc *copy = parse(first);
        write_value(&w, json_root(copy));
        char *second = json_finish(&w, NULL);
        ck_assert_str_eq(second, first);
        json_free(copy);
        json_free(doc);
        free(first);
        free(second);
    }
}
END_TEST

/* What was read is written as it was: every file of the test suite that is one, in canonical form at least. */
START_TEST(a_value_is_written_as_it_was_read)
{
    static const char *const texts[] = {
        "{}\n",
        "[]\n",
        "null\n",
        "{\n  \"a\": [\n    1,\n    -2.5,\n    9007199254740993,\n    1e+300,\n    true,\n    false,\n    null\n  ],\n"
        "  \"b\\n\": {\n    \"\": \"x\\\"y\"\n  }\n}\n",
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct json_doc *doc = parse(texts[i]);
        struct json_writer w = { 0 };
        json_write_value(&w, json_root(doc));
        char *bytes = json_finish(&w, NULL), *again;
        struct json_doc *second = parse(bytes);
        json_write_value(&w, json_root(second));
        again = json_finish(&w, NULL);
        ck_assert_str_eq(bytes, again);
        ck_assert_int_eq(json_count(json_root(doc)), json_count(json_root(second)));
        if (i == COUNT(texts) - 1) {
            int64_t whole;
            double number;
            const struct json *a = json_member(json_root(second), "a");
            struct error err = { 0 };
            ck_assert_int_eq(json_count(a), 7);
            ck_assert(json_int(json_at(a, 0), 0, 9, &whole, &err) && whole == 1);
            ck_assert(json_double(json_at(a, 1), -9, 9, &number, &err) && number == -2.5);
            ck_assert(json_double(json_at(a, 3), 0, INFINITY, &number, &err) && number == 1e300);
            ck_assert_int_eq(json_type(json_at(a, 6)), JSON_NULL);
            ck_assert_ptr_nonnull(strstr(bytes, "x\\\"y"));
        }
        json_free(doc);
        json_free(second);
        free(bytes);
        free(again);
    }
}
END_TEST

START_TEST(any_string_survives_writing_and_parsing)
{
    for (uint64_t i = 0; i < 500; i++) {
        char string[64];
        size_t length = 0;
        for (uint64_t draw = mix64(i); length < 8 + i % 40; draw = mix64(draw + 1)) {
            static const char *const pieces[] = { "\"",   "\\", "\n", "\x01",     "\x1F",
                                                  "\x7F", "a",  "/",  "\xC3\xA9", "\xF0\x9F\x98\x80" };
            const char *piece = pieces[draw % COUNT(pieces)];
            memcpy(string + length, piece, strlen(piece));
            length += strlen(piece);
        }
        string[length] = '\0';
        struct json_writer w = { 0 };
        json_begin_object(&w);
        json_write_key(&w, string);
        json_write_string(&w, string);
        json_end_object(&w);
        char *bytes = json_finish(&w, NULL);
        struct json_doc *doc = parse(bytes);
        const char *back = NULL;
        struct error err = { 0 };
        ck_assert_str_eq(json_key(json_root(doc), 0), string);
        ck_assert(json_string(json_member(json_root(doc), string), &back, &err));
        ck_assert_str_eq(back, string);
        json_free(doc);
        free(bytes);
    }
}
END_TEST

START_TEST(a_writer_without_memory_gives_nothing)
{
    struct json_writer w = { 0 };
    json_begin_array(&w);
    w.text.failed = true; /* as text.c leaves it when realloc fails */
    json_write_int(&w, 1);
    json_end_array(&w);
    size_t length = 77;
    ck_assert_ptr_null(json_finish(&w, &length));
    ck_assert_uint_eq(length, 77);
}
END_TEST

/* ---- short memory ---- */

START_TEST(parsing_survives_the_failure_of_any_allocation)
{
    static const char text[] = "{\"a\": [1, {\"b\\u0000\": [], \"c\": \"x\"}], \"d\": {\"e\": 1}}";
    int failures = 0;
    for (int64_t n = 1;; n++) {
        struct json_doc *doc = NULL;
        struct error err = { 0 };
        if (json_parse_short(&doc, "FILE", text, strlen(text), n, &err)) {
            json_free(doc);
            break;
        }
        ck_assert_ptr_null(doc);
        ck_assert_int_eq(err.kind, ERROR_ENVIRONMENT);
        ck_assert_str_eq(err.message, "FILE: out of memory while reading JSON");
        failures++;
    }
    /* name, text, nodes, children of a, a[1], d and the root, the key with a zero, members of the root, a[1] and d */
    ck_assert_int_eq(failures, 11);
}
END_TEST

static Suite *write_suite(void)
{
    Suite *suite = suite_create("json: writing");
    CHECK_ADD(suite, members_that_open_are_those_written_by_hand);
    CHECK_ADD(suite, written_bytes_are_these);
    CHECK_ADD(suite, malformed_strings_are_mended_when_written);
    CHECK_ADD(suite, written_parsed_and_written_again_is_the_same);
    CHECK_ADD(suite, a_value_is_written_as_it_was_read);
    CHECK_ADD(suite, any_string_survives_writing_and_parsing);
    CHECK_ADD(suite, a_writer_without_memory_gives_nothing);
    return suite;
}

static Suite *memory_suite(void)
{
    Suite *suite = suite_create("json: short memory");
    CHECK_ADD(suite, parsing_survives_the_failure_of_any_allocation);
    return suite;
}

CHECK_MAIN(write_suite, memory_suite)
