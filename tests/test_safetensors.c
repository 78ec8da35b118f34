/* The safetensors container, and the index of one that is in several files. */
#include "base/text.h"
#include "executor/hf_index.h"
#include "executor/safetensors.h"
#include "tests/check.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool parse(const char *header, int64_t data_bytes, struct safetensors **out, struct error *err)
{
    return safetensors_parse(out, "file", header, strlen(header),
                             SAFETENSORS_LENGTH_BYTES + (int64_t)strlen(header) + data_bytes, err);
}

START_TEST(containers_round_trip)
{
    struct tensor tensors[] = { { .name = "a", .type = TENSOR_F32, .dim_count = 2, .shape = { 2, 3 }, .bytes = 24 },
                                { .name = "empty", .type = TENSOR_BF16, .dim_count = 1, .shape = { 0 }, .bytes = 0 },
                                { .name = "scalar", .type = TENSOR_I64, .bytes = 8 } };
    struct tensor_note notes[] = { { "format", "pt" }, { "a", "b \"quoted\" \\" } };
    size_t length, header;
    struct safetensors *file;
    struct error error = { 0 };
    char *bytes = safetensors_write(tensors, 3, notes, 2, &length);
    ck_assert_uint_eq(length % 8, 0);
    ck_assert(safetensors_header_bytes(&header, "file", (const unsigned char *)bytes, (int64_t)length + 32, &error));
    ck_assert_uint_eq(header + SAFETENSORS_LENGTH_BYTES, length);
    ck_assert_msg(
        safetensors_parse(&file, "file", bytes + SAFETENSORS_LENGTH_BYTES, header, (int64_t)length + 32, &error), "%s",
        error.message);
    ck_assert_int_eq(file->count, 3);
    ck_assert_str_eq(safetensors_note(file, "a"), "b \"quoted\" \\");
    ck_assert_ptr_null(safetensors_note(file, "c"));
    ck_assert_int_eq(file->data_start, (int64_t)length);
    for (int i = 0; i < 3; i++) {
        const struct tensor *got = &file->tensors[i];
        const struct tensor *want = strcmp(got->name, "a") == 0       ? &tensors[0]
                                    : strcmp(got->name, "empty") == 0 ? &tensors[1]
                                                                      : &tensors[2];
        ck_assert_str_eq(got->name, want->name);
        ck_assert(got->type == want->type && got->dim_count == want->dim_count && got->offset == want->offset &&
                  got->bytes == want->bytes);
        ck_assert_int_eq(memcmp(got->shape, want->shape, sizeof got->shape), 0);
    }
    safetensors_free(file);
    free(bytes);
}
END_TEST

START_TEST(malformed_containers_are_refused)
{
    static const struct {
        const char *header;
        int64_t data_bytes;
        const char *reason;
    } cases[] = {
        { "[]", -1, "the header is longer than the file" },
        { "[]", 0, "expected an object" },
        { "{\"a\": 3}", 0, "expected {dtype, shape, data_offsets}" },
        { "{\"a\": {\"dtype\": \"F31\", \"shape\": [1], \"data_offsets\": [0, 4]}}", 4, "expected a dtype" },
        { "{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 4]}}", 4, "found a shape of 8 bytes" },
        { "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [4, 8]}}", 8,
          "at byte 0 of the data, found 4" },
        { "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}}", 8,
          "expected 4 bytes of data, found 8" },
        { "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}}", 3, "data_offsets" },
        { "{\"a\": {\"dtype\": \"F32\", \"shape\": [9007199254740992, 9007199254740992], \"data_offsets\": [0, 4]}}", 4,
          "2^63" },
        { "{\"__metadata__\": {\"a\": 1}}", 0, "expected a string" },
        { "{\"a\": {\"dtype\": \"U8\", \"shape\": [4], \"data_offsets\": [0, 4]}, \"b\": {\"dtype\": \"U8\", "
          "\"shape\": [4], \"data_offsets\": [2, 6]}}",
          6, "at byte 4 of the data, found 2" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct safetensors *file;
        struct error error = { 0 };
        ck_assert_msg(!parse(cases[i].header, cases[i].data_bytes, &file, &error), "%s", cases[i].header);
        ck_assert_msg(strstr(error.message, cases[i].reason) != NULL, "%s: %s", cases[i].header, error.message);
    }
    struct text index = { 0 };
    struct hf_index *none;
    struct error many = { 0 };
    text_add(&index, "{\"weight_map\":{");
    for (int i = 0; i <= 4096; i++)
        text_printf(&index, "%s\"%d\":\"%d.safetensors\"", i > 0 ? "," : "", i, i);
    text_add(&index, "}}");
    ck_assert(!hf_index_parse(&none, "index", index.data, index.length, &many));
    ck_assert_msg(strstr(many.message, "expected at most 4096 files") != NULL, "%s", many.message);
    text_free(&index);
    unsigned char start[SAFETENSORS_LENGTH_BYTES] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
    size_t length;
    struct error error = { 0 };
    ck_assert(!safetensors_header_bytes(&length, "file", start, 1000, &error));
}
END_TEST

static Suite *safetensors_suite(void)
{
    Suite *suite = suite_create("safetensors");
    CHECK_ADD(suite, containers_round_trip);
    CHECK_ADD(suite, malformed_containers_are_refused);
    return suite;
}
CHECK_MAIN(safetensors_suite)
