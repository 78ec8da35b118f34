/* json: typed access to values, and field tables. */
#include "base/json.h"
#include "base/num.h"
#include "tests/json_texts.h"
#include <stdio.h>
#include <string.h>

/* ---- typed access ---- */

static void assert_int(const char *text, int64_t expected)
{
    struct json_doc *doc = parse(text);
    struct error err = { 0 };
    int64_t value = -77;
    ck_assert_msg(json_int(json_root(doc), INT64_MIN, INT64_MAX, &value, &err), "%s: %s", text, err.message);
    ck_assert_msg(value == expected, "%s: %lld", text, (long long)value);
    json_free(doc);
}

static void refuse_int(const char *text, int64_t min, int64_t max, const char *expected)
{
    struct json_doc *doc = parse(text);
    struct error err = { 0 };
    int64_t value = -77;
    ck_assert_msg(!json_int(json_root(doc), min, max, &value, &err), "%s", text);
    ck_assert_int_eq(value, -77);
    ck_assert_str_eq(err.message, expected);
    json_free(doc);
}

START_TEST(whole_numbers_are_exact)
{
    assert_int("0", 0);
    assert_int("-0", 0);
    assert_int("0.000", 0);
    assert_int("0e99", 0);
    assert_int("33", 33);
    assert_int("12.0", 12);
    assert_int("1e3", 1000);
    assert_int("1.5e3", 1500);
    assert_int("1.50e+1", 15);
    assert_int("1000e-3", 1);
    assert_int("-120e-1", -12);
    assert_int("0.0000000000000000000000000000001e31", 1);
    assert_int("10000000000000000000000000000000000000000000000000e-49", 1);
    assert_int("9007199254740992", INT64_C(9007199254740992));
    assert_int("-9007199254740992", -INT64_C(9007199254740992));
    assert_int("9007199254740991", INT64_C(9007199254740991));
    assert_int("9007199254740991.000", INT64_C(9007199254740991));
    assert_int("9.007199254740991e15", INT64_C(9007199254740991));
}
END_TEST

START_TEST(what_is_not_whole_or_out_of_range_is_refused)
{
    const int64_t least = INT64_MIN, most = INT64_MAX;
    refuse_int("1.5", least, most, "FILE:1:1: expected an integer, found 1.5");
    refuse_int("15e-1", least, most, "FILE:1:1: expected an integer, found 15e-1");
    refuse_int("1e-400", least, most, "FILE:1:1: expected an integer, found 1e-400");
    /* as doubles these two are whole */
    refuse_int("4503599627370497.00000000000000000001", least, most,
               "FILE:1:1: expected an integer, found 4503599627370497.00000000000000000001");
    refuse_int("9007199254740993", least, most,
               "FILE:1:1: expected an integer of at most 2^53 (9007199254740992) in magnitude, found 9007199254740993");
    refuse_int("1e300", 0, most, "FILE:1:1: expected an integer from 0 to 2^53 (9007199254740992), found 1e300");
    refuse_int("-1", 0, most, "FILE:1:1: expected an integer from 0 to 2^53 (9007199254740992), found -1");
    refuse_int("513", 1, 512, "FILE:1:1: expected an integer from 1 to 512, found 513");
    refuse_int("0", 1, 512, "FILE:1:1: expected an integer from 1 to 512, found 0");
    refuse_int("99999999999999999999999999", 1, 512,
               "FILE:1:1: expected an integer from 1 to 512, found 99999999999999999999999999");
    refuse_int("7", least, 6, "FILE:1:1: expected an integer of at most 6, found 7");
    refuse_int(" \"7\"", 0, 9, "FILE:1:2: expected an integer, found \"7\"");
    refuse_int("true", 0, 9, "FILE:1:1: expected an integer, found true");
    refuse_int("null", 0, 9, "FILE:1:1: expected an integer, found null");
    refuse_int("[7]", 0, 9, "FILE:1:1: expected an integer, found an array of 1");
    refuse_int("{\"a\": 7}", 0, 9, "FILE:1:1: expected an integer, found an object of 1 member");
    refuse_int("{}", 0, 9, "FILE:1:1: expected an integer, found an object of 0 members");
}
END_TEST

/* Every number of digits and every exponent, against 128-bit arithmetic. */
START_TEST(whole_numbers_agree_with_wide_arithmetic)
{
    for (uint64_t i = 0; i < 3000; i++) {
        uint64_t draw = mix64(i);
        int64_t digits = (int64_t)(draw >> (10 + draw % 50));
        int exponent = (int)(mix64(draw) % 12) - 6;
        char text[64];
        snprintf(text, sizeof text, "%llde%d", (long long)digits, exponent);
        __extension__ __int128 wide = digits, divisor = 1;
        for (int e = 0; e < exponent; e++)
            wide *= 10;
        for (int e = 0; e > exponent; e--)
            divisor *= 10;
        bool whole = wide % divisor == 0 && wide / divisor <= INT64_C(1) << 53;
        struct json_doc *doc = parse(text);
        struct error err = { 0 };
        int64_t value = -77;
        ck_assert_msg(json_int(json_root(doc), INT64_MIN, INT64_MAX, &value, &err) == whole, "%s: %s", text,
                      err.message);
        ck_assert_msg(value == (whole ? (int64_t)(wide / divisor) : -77), "%s: %lld", text, (long long)value);
        json_free(doc);
    }
}
END_TEST

static void refuse_double(const char *text, double min, double max, const char *expected)
{
    struct json_doc *doc = parse(text);
    struct error err = { 0 };
    double value = -77;
    ck_assert(!json_double(json_root(doc), min, max, &value, &err));
    ck_assert_double_eq(value, -77);
    ck_assert_str_eq(err.message, expected);
    json_free(doc);
}

START_TEST(doubles)
{
    struct json_doc *doc =
        parse("[0.1, 1e308, -0, 1e-400, 123456789012345678901234567890123456789012345678901234567890123456789012]");
    static const double expected[] = { 0.1, 1e308, -0.0, 0, 1.2345678901234568e71 };
    for (int i = 0; i < json_count(json_root(doc)); i++) {
        struct error err = { 0 };
        double value = 7;
        ck_assert(json_double(json_at(json_root(doc), i), -INFINITY, INFINITY, &value, &err));
        ck_assert_double_eq(value, expected[i]);
    }
    json_free(doc);
    refuse_double("1.5", 0, 1, "FILE:1:1: expected a number from 0 to 1, found 1.5");
    refuse_double("-1e-9", 0, INFINITY, "FILE:1:1: expected a number of at least 0, found -1e-9");
    refuse_double("0.5", -INFINITY, 0.25, "FILE:1:1: expected a number of at most 0.25, found 0.5");
    refuse_double("\"1.5\"", 0, 1, "FILE:1:1: expected a number, found \"1.5\"");
}
END_TEST

START_TEST(bools_strings_and_required_members)
{
    struct json_doc *doc = parse("{\"yes\": true, \"no\": false, \"text\": \"\",\n \"long\": "
                                 "\"0123456789012345678901234567890123456789012345678901234567890123456789\"}");
    const struct json *root = json_root(doc), *member = NULL;
    const char *string = NULL;
    bool yes = false, no = true;
    struct error err = { 0 };
    ck_assert(json_bool(json_member(root, "yes"), &yes, &err) && yes);
    ck_assert(json_bool(json_member(root, "no"), &no, &err) && !no);
    ck_assert(json_string(json_member(root, "text"), &string, &err));
    ck_assert_str_eq(string, "");
    ck_assert(json_require(root, "text", &member, &err));
    ck_assert_ptr_eq(member, json_member(root, "text"));
    ck_assert_int_eq(err.kind, ERROR_NONE);
    ck_assert(!json_require(root, "heads", &member, &err));
    ck_assert_str_eq(err.message, "FILE:1:1: expected the key \"heads\", found an object without it");
    err = (struct error){ 0 };
    ck_assert(!json_require(json_member(root, "yes"), "heads", &member, &err));
    ck_assert_str_eq(err.message, "FILE:1:9: yes: expected an object, found true");
    err = (struct error){ 0 };
    ck_assert(!json_bool(json_member(root, "long"), &yes, &err));
    ck_assert_str_eq(err.message, "FILE:2:10: long: expected true or false, found "
                                  "\"012345678901234567890123456789012345678901234567890123456789\"...");
    err = (struct error){ 0 };
    ck_assert(!json_string(json_member(root, "no"), &string, &err));
    ck_assert_str_eq(err.message, "FILE:1:21: no: expected a string, found false");
    json_free(doc);
}
END_TEST

START_TEST(long_texts_are_cut_between_characters_in_messages)
{
    struct text longer = { 0 }, text = { 0 };
    for (int i = 0; i < 100; i++)
        text_add(&longer, "\xC3\xA9");
    text_printf(&text, "{\"%s\": [{\"x%s\": \"x%s\"}]}", longer.data, longer.data, longer.data);
    text_free(&longer);
    struct json_doc *doc = parse(text.data);
    const struct json *inner = json_member_at(json_at(json_member_at(json_root(doc), 0), 0), 0);
    struct error err = { 0 };
    bool truth;
    ck_assert(!json_bool(inner, &truth, &err));
    const size_t length = strlen(err.message);
    for (size_t i = 0, step; i < length; i += step) {
        uint32_t character;
        step = text_utf8(err.message + i, length - i, &character);
        ck_assert_msg(step > 0, "byte %zu of %s", i, err.message);
    }
    ck_assert_uint_lt(length, 500);
    ck_assert_ptr_null(strstr(err.message, "\xEF\xBF\xBD")); /* what json_quote makes of half a character */
    ck_assert_ptr_nonnull(strstr(err.message, "\"...]: expected true or false, found \"x"));
    json_free(doc);
    text_free(&text);
}
END_TEST

START_TEST(types_have_names)
{
    static const struct {
        const char *text, *name;
    } cases[] = { { "null", "null" },     { "true", "true or false" }, { "1", "a number" },
                  { "\"\"", "a string" }, { "[]", "an array" },        { "{}", "an object" } };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct json_doc *doc = parse(cases[i].text);
        ck_assert_str_eq(json_type_name(json_type(json_root(doc))), cases[i].name);
        json_free(doc);
    }
}
END_TEST

/* ---- field tables ---- */

struct layer {
    int64_t heads, repeat;
    double dropout;
    bool bias;
    const char *name;
    int kind;
    const struct json *extra;
};

static const char *const kinds[] = { "attention", "mlp", "embedding", NULL };

static const struct json_field layer_fields[] = {
    { .key = "kind", .type = FIELD_ENUM, .offset = offsetof(struct layer, kind), .required = true, .names = kinds },
    { .key = "heads",
      .type = FIELD_INT,
      .offset = offsetof(struct layer, heads),
      .required = true,
      .min = 1,
      .max = 512,
      .doc = "number of attention heads" },
    { .key = "repeat", .type = FIELD_INT, .offset = offsetof(struct layer, repeat), .min = 1 },
    { .key = "dropout", .type = FIELD_DOUBLE, .offset = offsetof(struct layer, dropout), .min = 0, .max = 1 },
    { .key = "bias", .type = FIELD_BOOL, .offset = offsetof(struct layer, bias) },
    { .key = "name", .type = FIELD_STRING, .offset = offsetof(struct layer, name) },
    { .key = "extra", .type = FIELD_NODE, .offset = offsetof(struct layer, extra) },
};

static bool read_layer(const struct json_doc *doc, struct layer *layer, struct arena *arena, struct error *err)
{
    return json_read_fields(json_root(doc), layer_fields, COUNT(layer_fields), layer, arena, err);
}

START_TEST(a_table_reads_an_object)
{
    struct json_doc *doc = parse("{\"heads\": 16, \"kind\": \"mlp\", \"dropout\": 0.5, \"bias\": true,\n"
                                 "\"name\": \"m\", \"extra\": [1], \"comment\": {\"any\": 1}, \"x-owner\": 7}");
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct layer layer = { .repeat = 3 };
    ck_assert_msg(read_layer(doc, &layer, &arena, &err), "%s", err.message);
    ck_assert_int_eq(layer.heads, 16);
    ck_assert_int_eq(layer.kind, 1);
    ck_assert_int_eq(layer.repeat, 3); /* absent: left as it was */
    ck_assert_double_eq(layer.dropout, 0.5);
    ck_assert(layer.bias);
    ck_assert_ptr_eq(layer.extra, json_member(json_root(doc), "extra"));
    json_free(doc);
    ck_assert_str_eq(layer.name, "m"); /* the arena's copy outlives the document */
    arena_free(&arena);
}
END_TEST

START_TEST(a_table_says_what_is_wrong)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        { "[]", "FILE:1:1: expected an object, found an array of 0" },
        { "{\"kind\": \"mlp\",\n  \"head\": 4}", "FILE:2:11: head: unknown key, did you mean \"heads\"?" },
        { "{\"vocabulary\": 4}",
          "FILE:1:16: vocabulary: unknown key, expected one of: \"kind\", \"heads\", \"repeat\", "
          "\"dropout\", \"bias\", \"name\", \"extra\"" },
        { "{\"heads\\u0000\": 4}",
          "FILE:1:17: [\"heads\\\\u0000\"]: unknown key, expected one of: \"kind\", \"heads\", "
          "\"repeat\", \"dropout\", \"bias\", \"name\", \"extra\"" },
        { "{\"kind\": \"mlp\"}", "FILE:1:1: expected the key \"heads\" (number of attention heads), found an object "
                                 "without it" },
        { "{\"heads\": 4}", "FILE:1:1: expected the key \"kind\", found an object without it" },
        { "{\"kind\": \"MLP\"}", "FILE:1:10: kind: expected one of \"attention\", \"mlp\", \"embedding\" (did you mean "
                                 "\"mlp\"?), found \"MLP\"" },
        { "{\"kind\": \"conv\"}", "FILE:1:10: kind: expected one of \"attention\", \"mlp\", \"embedding\", found "
                                  "\"conv\"" },
        { "{\"kind\": 1}", "FILE:1:10: kind: expected a string, found 1" },
        { "{\"kind\": \"mlp\", \"heads\": 0}", "FILE:1:26: heads: expected an integer from 1 to 512, found 0" },
        { "{\"kind\": \"mlp\", \"heads\": 1.5}", "FILE:1:26: heads: expected an integer, found 1.5" },
        { "{\"kind\": \"mlp\", \"heads\": \"4\"}", "FILE:1:26: heads: expected an integer, found \"4\"" },
        { "{\"kind\": \"mlp\", \"heads\": 4, \"repeat\": 0}",
          "FILE:1:39: repeat: expected an integer from 1 to 2^53 (9007199254740992), found 0" },
        { "{\"kind\": \"mlp\", \"heads\": 4, \"dropout\": 2}",
          "FILE:1:40: dropout: expected a number from 0 to 1, found 2" },
        { "{\"kind\": \"mlp\", \"heads\": 4, \"bias\": \"no\"}",
          "FILE:1:37: bias: expected true or false, found \"no\"" },
        { "{\"kind\": \"mlp\", \"heads\": 4, \"name\": null}", "FILE:1:37: name: expected a string, found null" },
        { "{\"kind\": \"mlp\", \"heads\": 4, \"name\": \"a\\u0000\"}",
          "FILE:1:37: name: expected a string without \\u0000, found \"a\" (it holds a zero character)" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct json_doc *doc = parse(cases[i].text);
        struct arena arena = { 0 };
        struct error err = { 0 };
        struct layer layer = { .heads = -5, .kind = -6, .name = "kept" };
        ck_assert_msg(!read_layer(doc, &layer, &arena, &err), "%s", cases[i].text);
        ck_assert_str_eq(err.message, cases[i].message);
        ck_assert_int_eq(layer.heads, -5); /* nothing is set unless all is well */
        ck_assert_int_eq(layer.kind, -6);
        ck_assert_str_eq(layer.name, "kept");
        arena_free(&arena);
        json_free(doc);
    }
}
END_TEST

START_TEST(words_are_bits)
{
    static const struct json_field field = { .key = "kinds", .type = FIELD_WORDS, .names = kinds };
    static const struct {
        const char *text, *message; /* NULL: it is read */
        int bits;
    } cases[] = {
        { "{\"kinds\": [\"embedding\", \"attention\"]}", NULL, 5 },
        { "{\"kinds\": [\"mlp\"]}", NULL, 2 },
        { "{}", NULL, 8 },
        { "{\"kinds\": []}", "FILE:1:11: kinds: expected at least one word, found none", 8 },
        { "{\"kinds\": \"mlp\"}", "FILE:1:11: kinds: expected an array, found \"mlp\"", 8 },
        { "{\"kinds\": [\"mlp\", 1]}", "FILE:1:19: kinds[1]: expected a string, found 1", 8 },
        { "{\"kinds\": [\"mlp\", \"mlp\"]}", "FILE:1:19: kinds[1]: expected each word once, found \"mlp\" again", 8 },
        { "{\"kinds\": [\"conv\"]}",
          "FILE:1:12: kinds[0]: expected one of \"attention\", \"mlp\", \"embedding\", found \"conv\"", 8 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct json_doc *doc = parse(cases[i].text);
        struct error err = { 0 };
        int bits = 8;
        ck_assert_int_eq(json_read_fields(json_root(doc), &field, 1, &bits, NULL, &err), cases[i].message == NULL);
        ck_assert_str_eq(err.message, cases[i].message ? cases[i].message : "");
        ck_assert_int_eq(bits, cases[i].bits);
        json_free(doc);
    }
}
END_TEST

START_TEST(a_number_without_limits_is_not_negative)
{
    struct pair {
        int64_t bytes;
        double seconds;
    } pair = { 0 };
    static const struct json_field fields[] = {
        { .key = "bytes", .type = FIELD_INT, .offset = offsetof(struct pair, bytes) },
        { .key = "seconds", .type = FIELD_DOUBLE, .offset = offsetof(struct pair, seconds) },
    };
    struct json_doc *good = parse("{\"bytes\": 9007199254740992, \"seconds\": 1e300}");
    struct json_doc *negative = parse("{\"bytes\": -1}"), *past = parse("{\"seconds\": -0.5}");
    struct error err = { 0 };
    ck_assert(json_read_fields(json_root(good), fields, 2, &pair, NULL, &err));
    ck_assert_int_eq(pair.bytes, INT64_C(9007199254740992));
    ck_assert_double_eq(pair.seconds, 1e300);
    ck_assert(!json_read_fields(json_root(negative), fields, 2, &pair, NULL, &err));
    ck_assert_str_eq(err.message, "FILE:1:11: bytes: expected an integer from 0 to 2^53 (9007199254740992), found -1");
    err = (struct error){ 0 };
    ck_assert(!json_read_fields(json_root(past), fields, 2, &pair, NULL, &err));
    ck_assert_str_eq(err.message, "FILE:1:13: seconds: expected a number of at least 0, found -0.5");
    /* limits hold whoever fills a structure in */
    static const struct json_field limited[] = {
        { .key = "bytes", .type = FIELD_INT, .offset = offsetof(struct pair, bytes), .max = 4 },
        { .key = "seconds", .type = FIELD_DOUBLE, .offset = offsetof(struct pair, seconds), .max = 2 },
    };
    pair = (struct pair){ 4, 2 };
    ck_assert(json_check_limits(json_root(good), limited, 2, &pair, &err));
    pair.bytes = 5, err = (struct error){ 0 };
    ck_assert(!json_check_limits(json_root(good), limited, 2, &pair, &err));
    ck_assert_str_eq(err.message, "FILE:1:11: bytes: expected at most 4, found 5");
    pair = (struct pair){ 4, 2.5 }, err = (struct error){ 0 };
    ck_assert(!json_check_limits(json_root(good), limited, 2, &pair, &err));
    ck_assert_str_eq(err.message, "FILE:1:40: seconds: expected at most 2, found 2.5");
    json_free(good);
    json_free(negative);
    json_free(past);
}
END_TEST

START_TEST(a_key_with_a_zero_is_never_known)
{
    /* the message spells the key like the table's, but they are not the same */
    static const struct json_field fields[] = { { .key = "\\u007a\\u0000", .type = FIELD_INT } };
    struct json_doc *doc = parse("{\"\\u007a\\u0000\": 1}");
    struct error err = { 0 };
    int64_t value = -5;
    ck_assert(!json_read_fields(json_root(doc), fields, 1, &value, NULL, &err));
    ck_assert_int_eq(value, -5);
    ck_assert_ptr_nonnull(strstr(err.message, "unknown key"));
    ck_assert_ptr_null(json_member(json_root(doc), "\\u007a\\u0000"));
    json_free(doc);
}
END_TEST

START_TEST(a_table_that_is_too_long_is_our_bug)
{
    static const struct json_field fields[JSON_MAX_FIELDS + 1] = { { .key = "a", .type = FIELD_INT } };
    struct json_doc *doc = parse("{}");
    struct error err = { 0 };
    int64_t value = -5;
    ck_assert(!json_read_fields(json_root(doc), fields, COUNT(fields), &value, NULL, &err));
    ck_assert_int_eq(err.kind, ERROR_BUG);
    json_free(doc);
}
END_TEST

START_TEST(another_format_is_told_before_its_keys)
{
    static const struct {
        const char *text, *message; /* NULL: accepted */
    } cases[] = {
        { "{\"format\": \"cleave-x\", \"other\": 1}", NULL },
        { "{\"other\": 1}", NULL }, /* whether it must be there is the table's business */
        { "{\"other\": 1, \"format\": \"cleave-y\"}", "format: expected \"cleave-x\", found \"cleave-y\"" },
        { "{\"format\": 3}", "format: expected a string" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct json_doc *doc = parse(cases[i].text);
        struct error err = { 0 };
        ck_assert_int_eq(json_check_format(json_root(doc), "cleave-x", &err), cases[i].message == NULL);
        ck_assert_msg(!cases[i].message || strstr(err.message, cases[i].message), "%s", err.message);
        json_free(doc);
    }
}
END_TEST

START_TEST(a_table_survives_short_memory)
{
    struct json_doc *doc = parse("{\"kind\": \"mlp\", \"heads\": 4, \"name\": \"m\"}");
    struct arena arena = { .fail_after = 1 };
    struct error err = { 0 };
    struct layer layer = { .heads = -5 };
    ck_assert(!read_layer(doc, &layer, &arena, &err));
    ck_assert_int_eq(err.kind, ERROR_ENVIRONMENT);
    ck_assert_int_eq(layer.heads, -5);
    arena_free(&arena);
    json_free(doc);
}
END_TEST

static Suite *typed_suite(void)
{
    Suite *suite = suite_create("json: typed access");
    CHECK_ADD(suite, whole_numbers_are_exact);
    CHECK_ADD(suite, what_is_not_whole_or_out_of_range_is_refused);
    CHECK_ADD(suite, whole_numbers_agree_with_wide_arithmetic);
    CHECK_ADD(suite, doubles);
    CHECK_ADD(suite, bools_strings_and_required_members);
    CHECK_ADD(suite, long_texts_are_cut_between_characters_in_messages);
    CHECK_ADD(suite, types_have_names);
    return suite;
}

static Suite *table_suite(void)
{
    Suite *suite = suite_create("json: field tables");
    CHECK_ADD(suite, a_table_reads_an_object);
    CHECK_ADD(suite, a_table_says_what_is_wrong);
    CHECK_ADD(suite, words_are_bits);
    CHECK_ADD(suite, a_number_without_limits_is_not_negative);
    CHECK_ADD(suite, a_key_with_a_zero_is_never_known);
    CHECK_ADD(suite, a_table_that_is_too_long_is_our_bug);
    CHECK_ADD(suite, another_format_is_told_before_its_keys);
    CHECK_ADD(suite, a_table_survives_short_memory);
    return suite;
}

CHECK_MAIN(typed_suite, table_suite)
