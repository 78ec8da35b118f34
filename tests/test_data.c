/* Data: what a sample sees depends on (seed, step, sample) alone. */
#include "tests/check.h"
#include "base/num.h"
#include "tests/data_of_bytes.h"
#include <math.h>
#include <string.h>

enum { SEQUENCE = 16, VOCAB = 200 };
static const struct sample_shape of_tokens = { .sequence = SEQUENCE, .vocab_size = VOCAB };
static const struct sample_shape bytes_as_tokens = { .sequence = SEQUENCE, .vocab_size = 256 };

static struct data synthetic(uint64_t seed)
{
    struct data data;
    struct error error = { 0 };
    ck_assert_msg(data_synthetic(&data, of_tokens, seed, &error), "%s", error.message);
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
START_TEST(ignored_tokens_are_no_targets)
{
    struct data data = synthetic(1);
    struct error error = { 0 };
    const int32_t ignored = data.bytes[data.size / 2];
    int64_t equal = 0;
    for (int64_t step = 0; step < 3; step++) {
        int64_t counted = 0;
        int32_t labels[2][SEQUENCE], tokens[SEQUENCE];
        for (int64_t sample = 0; sample < 9; sample++) {
            data.ignored = -1;
            data_fill(&data, DATA_LABELS, step, sample, 0, SEQUENCE, labels[0]);
            ck_assert(data_ignore(&data, ignored, &error));
            data_fill(&data, DATA_LABELS, step, sample, 0, SEQUENCE, labels[1]);
            data_fill(&data, DATA_TOKENS, step, sample, 0, SEQUENCE, tokens);
            for (int i = 0; i < SEQUENCE; i++) {
                ck_assert_int_eq(labels[1][i], labels[0][i] == ignored ? -1 : labels[0][i]);
                ck_assert(i == 0 || tokens[i] == labels[0][i - 1]); /* it is still read */
                counted += labels[1][i] != -1;
                equal += labels[0][i] == ignored;
            }
        }
        ck_assert_int_eq(data_target_count(&data, step, 9), counted);
    }
    ck_assert_int_gt(equal, 0);
    ck_assert(!data_ignore(&data, 256, &error) && strstr(error.message, "expected one that occurs in the data"));
    data_free(&data);
}
END_TEST

START_TEST(all_windows_occur)
{
    unsigned char bytes[SEQUENCE + 4];
    struct data data;
    struct error error = { 0 };
    bool seen[4] = { false };
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    ck_assert(data_of_bytes(&data, "bytes", bytes, sizeof bytes, bytes_as_tokens, 1, &error));
    for (int64_t sample = 0; sample < 200; sample++) {
        int32_t last;
        data_fill(&data, DATA_LABELS, 0, sample, SEQUENCE - 1, 1, &last);
        ck_assert(last >= SEQUENCE && last < SEQUENCE + 4);
        seen[last - SEQUENCE] = true;
    }
    ck_assert(seen[0] && seen[1] && seen[2] && seen[3]);
    ck_assert_int_eq(data_target_count(&data, 0, 5), 5 * SEQUENCE);
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
    ck_assert(data_of_bytes(&data, "bytes", bytes, sizeof bytes, bytes_as_tokens, 1, &error));
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
    ck_assert(!data_of_bytes(&data, "short", (const unsigned char *)"0123456789abcdef", SEQUENCE, bytes_as_tokens, 1,
                               &error));
    ck_assert_str_eq(error.message, "short: expected at least 17 bytes (a sequence and its next token), found 16");
    error = (struct error){ 0 };
    ck_assert(!data_of_bytes(&data, "wide", (const unsigned char *)"0123456789abcdefg", SEQUENCE + 1,
                               (struct sample_shape){ .sequence = SEQUENCE, .vocab_size = 'g' }, 1, &error));
    ck_assert_str_eq(error.message, "wide: byte 16: expected a token below the model's vocabulary (103), found 103");
}
END_TEST

/* ---- images ---- */
enum { PIXELS = 6, CHANNELS = 2, RECORD = 1 + PIXELS * CHANNELS };
static const struct sample_shape image = { .sequence = 1, .vocab_size = 5, .pixels = PIXELS, .channels = CHANNELS };

/* The label comes first, then one plane per channel; bytes 0 to 255 are -1 to 1. */
START_TEST(records_are_labels_and_planes)
{
    unsigned char bytes[2 * RECORD];
    struct data data;
    struct error error = { 0 };
    bool met[2] = { false, false };
    for (int i = 0; i < 2 * RECORD; i++)
        bytes[i] = (unsigned char)(i % RECORD == 0 ? 3 + i / RECORD : i * 7 % 256);
    ck_assert(data_of_bytes(&data, "bytes", bytes, sizeof bytes, image, 1, &error));
    for (int64_t sample = 0; sample < 40; sample++) {
        int32_t label;
        real pixels[PIXELS * CHANNELS], part[2];
        data_fill(&data, DATA_LABELS, 5, sample, 0, 1, &label);
        data_fill_image(&data, 5, sample, 0, PIXELS, 0, CHANNELS, pixels);
        data_fill_image(&data, 5, sample, 2, 2, 1, 1, part);
        ck_assert(label == 3 || label == 4);
        met[label - 3] = true;
        for (int p = 0; p < PIXELS; p++)
            for (int c = 0; c < CHANNELS; c++)
                CHECK_NEAR((double)pixels[p * CHANNELS + c],
                           bytes[(label - 3) * RECORD + 1 + c * PIXELS + p] * 2 / 255.0 - 1, 1e-6);
        ck_assert(part[0] == pixels[2 * CHANNELS + 1] && part[1] == pixels[3 * CHANNELS + 1]);
    }
    ck_assert(met[0] && met[1]);
    ck_assert_int_eq(data_target_count(&data, 0, 7), 7);
    data_free(&data);
}
END_TEST

/* Images of a class are nearer to each other than to those of another. */
START_TEST(synthetic_images_tell_their_class)
{
    enum { WIDE = 64, IMAGES = 12 };
    const struct sample_shape shape = { .sequence = 1, .vocab_size = 3, .pixels = WIDE, .channels = 3 };
    struct data data;
    struct error error = { 0 };
    real pixels[IMAGES][WIDE * 3];
    int32_t label[IMAGES];
    double most_alike = 0, least_other = INFINITY;
    ck_assert(data_synthetic(&data, shape, 9, &error));
    for (int i = 0; i < IMAGES; i++) {
        data_fill(&data, DATA_LABELS, 0, i, 0, 1, &label[i]);
        data_fill_image(&data, 0, i, 0, WIDE, 0, 3, pixels[i]);
        ck_assert(label[i] >= 0 && label[i] < 3);
        for (int j = 0; j < i; j++) {
            double distance = 0;
            for (int k = 0; k < WIDE * 3; k++)
                distance += pow((double)(pixels[i][k] - pixels[j][k]), 2);
            if (label[i] == label[j])
                most_alike = fmax(most_alike, distance);
            else
                least_other = fmin(least_other, distance);
        }
    }
    ck_assert_double_gt(most_alike, 0);
    ck_assert_double_lt(most_alike, least_other);
    data_free(&data);
}
END_TEST

START_TEST(unfit_records_are_refused)
{
    unsigned char bytes[2 * RECORD] = { 0 };
    struct data data;
    struct error error = { 0 };
    ck_assert(!data_of_bytes(&data, "cut", bytes, sizeof bytes - 1, image, 1, &error));
    ck_assert_str_eq(error.message, "cut: expected records of 13 bytes (a label, then 2 planes of 6 pixels, as in "
                                    "CIFAR-10's binary files), found 25 bytes");
    error = (struct error){ 0 };
    ck_assert(!data_of_bytes(&data, "empty", bytes, 0, image, 1, &error));
    error = (struct error){ 0 };
    bytes[RECORD] = 5;
    ck_assert(!data_of_bytes(&data, "label", bytes, sizeof bytes, image, 1, &error));
    ck_assert_str_eq(error.message, "label: byte 13: expected image 1's label below the model's classes (5), found 5");
}
END_TEST

static Suite *data_suite(void)
{
    Suite *suite = suite_create("data");
    CHECK_ADD(suite, any_cut_of_a_window_is_the_same_window);
    CHECK_ADD(suite, steps_samples_and_seeds_differ);
    CHECK_ADD(suite, ignored_tokens_are_no_targets);
    CHECK_ADD(suite, all_windows_occur);
    CHECK_ADD(suite, the_source_ends_where_the_window_begins);
    CHECK_ADD(suite, unfit_bytes_are_refused);
    CHECK_ADD(suite, records_are_labels_and_planes);
    CHECK_ADD(suite, synthetic_images_tell_their_class);
    CHECK_ADD(suite, unfit_records_are_refused);
    return suite;
}
CHECK_MAIN(data_suite)
