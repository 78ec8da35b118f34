/* Data: what a sample sees depends on (seed, step, sample) alone. */
#include "tests/check.h"
#include "base/num.h"
#include "executor/data.h"
#include <string.h>

enum { SEQUENCE = 16, VOCAB = 200 };

static struct data synthetic(uint64_t seed)
{
    struct data data;
    struct error error = { 0 };
    ck_assert_msg(data_synthetic(&data, SEQUENCE, VOCAB, seed, &error), "%s", error.message);
    return data;
}

START_TEST(any_cut_of_a_window_is_the_same_window)
{
    struct data data = synthetic(1);
    for (int64_t sample = 0; sample < 50; sample++) {
        int32_t whole[SEQUENCE], labels[SEQUENCE], part[SEQUENCE];
        data_fill(&data, DATA_TOKENS, 3, sample, 0, SEQUENCE, whole);
        data_fill(&data, DATA_LABELS, 3, sample, 0, SEQUENCE, labels);
        ck_assert_int_eq(memcmp(whole + 1, labels, (SEQUENCE - 1) * sizeof *whole), 0); /* a label is the next token */
        for (int64_t first = 0; first < SEQUENCE; first += 4) {
            data_fill(&data, DATA_TOKENS, 3, sample, first, 4, part);
            ck_assert_int_eq(memcmp(part, whole + first, 4 * sizeof *part), 0);
        }
        for (int i = 0; i < SEQUENCE; i++)
            ck_assert(whole[i] >= 0 && whole[i] < VOCAB);
    }
    data_free(&data);
}
END_TEST

START_TEST(steps_samples_and_seeds_differ)
{
    struct data data = synthetic(1), other = synthetic(2);
    int32_t a[SEQUENCE], b[SEQUENCE];
    int equal = 0;
    for (int64_t k = 0; k < 200; k++) {
        data_fill(&data, DATA_TOKENS, k, 0, 0, SEQUENCE, a);
        data_fill(&data, DATA_TOKENS, k + 1, 0, 0, SEQUENCE, b);
        equal += memcmp(a, b, sizeof a) == 0;
        data_fill(&data, DATA_TOKENS, k, 1, 0, SEQUENCE, b);
        equal += memcmp(a, b, sizeof a) == 0;
        data_fill(&other, DATA_TOKENS, k, 0, 0, SEQUENCE, b);
        equal += memcmp(a, b, sizeof a) == 0;
    }
    ck_assert_int_le(equal, 3); /* of 600 pairs over 65520 windows: a coincidence */
    data_free(&data);
    data_free(&other);
}
END_TEST

/* Every window start occurs: the last one too, whose last label is the last byte. */
START_TEST(all_windows_occur)
{
    unsigned char bytes[SEQUENCE + 4];
    struct data data;
    struct error error = { 0 };
    bool seen[4] = { false };
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    ck_assert(data_from_bytes(&data, "bytes", bytes, sizeof bytes, SEQUENCE, 256, 1, &error));
    for (int64_t sample = 0; sample < 200; sample++) {
        int32_t last;
        data_fill(&data, DATA_LABELS, 0, sample, SEQUENCE - 1, 1, &last);
        ck_assert(last >= SEQUENCE && last < SEQUENCE + 4);
        seen[last - SEQUENCE] = true;
    }
    ck_assert(seen[0] && seen[1] && seen[2] && seen[3]);
    ck_assert_int_eq(data_target_count(&data, 5), 5 * SEQUENCE);
    data_free(&data);
}
END_TEST

/* The source is what comes before the window; before the first byte stands the last. */
START_TEST(the_source_ends_where_the_window_begins)
{
    unsigned char bytes[SEQUENCE + 4];
    struct data data;
    struct error error = { 0 };
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    ck_assert(data_from_bytes(&data, "bytes", bytes, sizeof bytes, SEQUENCE, 256, 1, &error));
    for (int64_t sample = 0; sample < 50; sample++) {
        int32_t tokens[SEQUENCE], source[SEQUENCE], part[4];
        data_fill(&data, DATA_TOKENS, 0, sample, 0, SEQUENCE, tokens);
        data_fill(&data, DATA_SOURCE, 0, sample, 0, SEQUENCE, source);
        for (int i = 0; i < SEQUENCE; i++)
            ck_assert_int_eq(source[i], (tokens[0] + SEQUENCE + 4 - SEQUENCE + i) % (SEQUENCE + 4));
        data_fill(&data, DATA_SOURCE, 0, sample, 8, 4, part);
        ck_assert_mem_eq(part, source + 8, sizeof part);
    }
    data_free(&data);
}
END_TEST

START_TEST(unfit_bytes_are_refused)
{
    struct data data;
    struct error error = { 0 };
    ck_assert(!data_from_bytes(&data, "short", (const unsigned char *)"0123456789abcdef", SEQUENCE, SEQUENCE, 256, 1,
                               &error));
    ck_assert_str_eq(error.message, "short: expected at least 17 bytes (a sequence and its next token), found 16");
    error = (struct error){ 0 };
    ck_assert(!data_from_bytes(&data, "wide", (const unsigned char *)"0123456789abcdefg", SEQUENCE + 1, SEQUENCE, 'g',
                               1, &error));
    ck_assert_str_eq(error.message, "wide: byte 16: expected a token below the model's vocabulary (103), found 103");
}
END_TEST

static Suite *data_suite(void)
{
    Suite *suite = suite_create("data");
    CHECK_ADD(suite, any_cut_of_a_window_is_the_same_window);
    CHECK_ADD(suite, steps_samples_and_seeds_differ);
    CHECK_ADD(suite, all_windows_occur);
    CHECK_ADD(suite, the_source_ends_where_the_window_begins);
    CHECK_ADD(suite, unfit_bytes_are_refused);
    return suite;
}
CHECK_MAIN(data_suite)
