/* text: what grows, numbers and names for people, doubles that read back, characters. */
#include "base/num.h"
#include "base/text.h"
#include "tests/check.h"
#include <float.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

START_TEST(text_grows_and_stays_terminated)
{
    struct text text = { 0 };
    ck_assert_ptr_null(text.data);
    for (int i = 0; i < 1000; i++) {
        text_printf(&text, "%d,", i);
        ck_assert_uint_eq(strlen(text.data), text.length);
    }
    ck_assert_uint_eq(text.length, 10 * 2 + 90 * 3 + 900 * 4);
    ck_assert(strncmp(text.data, "0,1,2,", 6) == 0);
    text_add_bytes(&text, "a\0b", 3);
    ck_assert_int_eq(memcmp(text.data + text.length - 3, "a\0b", 4), 0);
    text_free(&text);
    ck_assert_ptr_null(text.data);
    text_add(&text, "");
    ck_assert_str_eq(text.data, "");
    text_free(&text);
}
END_TEST

START_TEST(text_that_does_not_fit_fails_and_drops_the_rest)
{
    struct text text = { 0 };
    text_add(&text, "kept");
    text_add_bytes(&text, "", SIZE_MAX - 2);
    ck_assert(text.failed);
    text_add(&text, "dropped");
    text_printf(&text, "%d", 5);
    ck_assert_str_eq(text.data, "kept");
    text_free(&text);
}
END_TEST

static void assert_bytes(int64_t bytes, const char *expected)
{
    char out[TEXT_NUMBER_BYTES];
    ck_assert_str_eq(text_bytes(out, bytes), expected);
}

START_TEST(words_of_a_shell_are_quoted)
{
    struct text text = { 0 };
    text_add_quoted(&text, "it's $HOME");
    ck_assert_str_eq(text.data, "'it'\\''s $HOME'");
    text_free(&text);
}
END_TEST

START_TEST(bytes_for_people)
{
    assert_bytes(0, "0 B");
    assert_bytes(1023, "1023 B");
    assert_bytes(1024, "1.00 KiB");
    assert_bytes(1536, "1.50 KiB");
    assert_bytes(INT64_C(14388350156), "13.4 GiB");
    assert_bytes(INT64_C(80) << 30, "80.0 GiB");
    assert_bytes((INT64_C(1) << 20) - 1, "1.00 MiB");
    assert_bytes(INT64_C(1000) << 20, "1000 MiB");
    assert_bytes(-2048, "-2.00 KiB");
    assert_bytes(INT64_MAX, "8.00 EiB");
    assert_bytes(INT64_MIN, "-8.00 EiB");
}
END_TEST

static void assert_read_bytes(const char *word, int64_t expected)
{
    int64_t bytes = -1;
    bool read = text_read_bytes(word, &bytes);
    ck_assert_msg(read == (expected >= 0) && bytes == expected, "%s: read %d, %lld, expected %lld", word, read,
                  (long long)bytes, (long long)expected);
}

START_TEST(bytes_that_are_enough)
{
    char out[TEXT_NUMBER_BYTES];
    ck_assert_str_eq(text_bytes_enough(out, INT64_C(116340000000)), "109 GiB"); /* 108.35 */
    ck_assert_str_eq(text_bytes_enough(out, INT64_C(80) << 30), "80.0 GiB");
    ck_assert_str_eq(text_bytes_enough(out, 1000), "1000 B");
    for (uint64_t n = 0; n < 100000; n++) {
        int64_t bytes = (int64_t)(mix64(n) >> (4 + n % 56)), read = 0;
        ck_assert(text_read_bytes(text_bytes_enough(out, bytes), &read));
        ck_assert_msg(read >= bytes - 1 && read - bytes <= bytes / 90, "%lld: %s", (long long)bytes, out);
    }
}
END_TEST

START_TEST(bytes_that_people_write)
{
    assert_read_bytes("0", 0);
    assert_read_bytes("4194304", 4194304);
    assert_read_bytes("4MiB", 4194304);
    assert_read_bytes("512B", 512);
    assert_read_bytes("1.5 GiB", INT64_C(3) << 29);
    assert_read_bytes("2e9", 2000000000);
    assert_read_bytes("0.0005KiB", 0);
    assert_read_bytes("7EiB", INT64_C(7) << 60);
    assert_read_bytes("80GB", INT64_C(80000000000));
    assert_read_bytes("1.5 TB", INT64_C(1500000000000));
    assert_read_bytes("512KB", 512000);
    static const char *const wrong[] = { "",     "MiB",   "4M",   "4 MiB ", "4  MiB", "-1",  "-1KiB",
                                         "8EiB", "1e300", "4mib", "nan",    "inf",    "0x4", "4BB", "4GGB", "10EB" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_read_bytes(wrong[i], -1);
    for (int unit = 0; unit < 63; unit++) { /* a power of two is written whole */
        char out[TEXT_NUMBER_BYTES];
        assert_read_bytes(text_bytes(out, INT64_C(1) << unit), INT64_C(1) << unit);
    }
}
END_TEST

static void assert_duration(int64_t ns, const char *expected)
{
    char out[TEXT_NUMBER_BYTES];
    ck_assert_str_eq(text_duration_ns(out, ns), expected);
}

START_TEST(durations_for_people)
{
    assert_duration(0, "0 ns");
    assert_duration(999, "999 ns");
    assert_duration(1000, "1.00 us");
    assert_duration(999499, "999 us");
    assert_duration(999500, "1.00 ms");
    assert_duration(12300000, "12.3 ms");
    assert_duration(INT64_C(1000000000), "1.00 s");
    assert_duration(INT64_C(119000000000), "119 s");
    assert_duration(INT64_C(120000000000), "2.00 min");
    assert_duration(INT64_C(7200000000000), "2.00 h");
    assert_duration(INT64_C(86400000000000) * 30, "30.0 d");
    assert_duration(-12300000, "-12.3 ms");
    assert_duration(INT64_MAX, "106752 d");
    assert_duration(INT64_MIN, "-106752 d");
}
END_TEST

START_TEST(counts_and_rates_for_people)
{
    char out[TEXT_NUMBER_BYTES];
    ck_assert_str_eq(text_number_of(out, 1, "micro-batch"), "1 micro-batch");
    ck_assert_str_eq(text_number_of(out, 0, "micro-batch"), "0 micro-batches");
    ck_assert_str_eq(text_number_of(out, 1000, "stage"), "1000 stages");
    ck_assert_str_eq(text_count(out, 0), "0");
    ck_assert_str_eq(text_count(out, 999), "999");
    ck_assert_str_eq(text_count(out, 1000), "1,000");
    ck_assert_str_eq(text_count(out, 124439808), "124,439,808");
    ck_assert_str_eq(text_count(out, -12345), "-12,345");
    ck_assert_str_eq(text_count(out, INT64_MIN), "-9,223,372,036,854,775,808");
    ck_assert_str_eq(text_rate(out, 312e12, "FLOP/s"), "312 TFLOP/s");
    ck_assert_str_eq(text_rate(out, 3.35e12, "B/s"), "3.35 TB/s");
    ck_assert_str_eq(text_rate(out, 999.6, "B/s"), "1.00 kB/s");
    ck_assert_str_eq(text_rate(out, 0, "B/s"), "0.00 B/s");
    ck_assert_str_eq(text_rate(out, 1e30, "B/s"), "1.00e+12 EB/s");
    ck_assert_str_eq(text_rate(out, INFINITY, "B/s"), "inf B/s");
    ck_assert_str_eq(text_rate(out, 1e3, "a unit whose name is far too long to fit"), "1.00 ka unit whose nam");
}
END_TEST

static void assert_double(double value, const char *expected)
{
    char out[TEXT_NUMBER_BYTES];
    ck_assert_str_eq(text_double(out, value), expected);
}

START_TEST(doubles_are_the_shortest_that_read_back)
{
    assert_double(0, "0");
    assert_double(-0.0, "-0");
    assert_double(0.1, "0.1");
    assert_double(1.0 / 3, "0.3333333333333333");
    assert_double(0.1 + 0.2, "0.30000000000000004");
    assert_double(1e22, "1e+22");
    assert_double(123456789, "123456789");
    assert_double(DBL_MAX, "1.7976931348623157e+308");
    assert_double(DBL_MIN, "2.2250738585072014e-308");
    assert_double(5e-324, "4.94065645841247e-324");
    assert_double(INFINITY, "inf");
    assert_double(-INFINITY, "-inf");
    assert_double((double)NAN, "nan");
}
END_TEST

static double double_of_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

START_TEST(any_double_reads_back)
{
    char out[TEXT_NUMBER_BYTES];
    for (uint64_t i = 0; i < 20000; i++) {
        double value = double_of_bits(mix64(i)), back;
        if (!isfinite(value))
            continue;
        text_double(out, value);
        ck_assert_uint_lt(strlen(out), 32);
        ck_assert_msg(text_read_double(out, strlen(out), &back), "%s", out);
        ck_assert_int_eq(memcmp(&back, &value, sizeof value), 0);
    }
}
END_TEST

START_TEST(read_double_takes_whole_decimal_numbers_only)
{
    static const char *const refused[] = { "",      "-",      "+1",  " 1",   "1 ",  "inf",     "nan",
                                           "0x10",  "1e",     "1e+", "1,5",  ".5",  "--1",     "1.2.3",
                                           "1e400", "-1e400", "1f",  "-0x1", "1\n", "infinity" };
    double value = 7;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        ck_assert_msg(!text_read_double(refused[i], strlen(refused[i]), &value), "%s", refused[i]);
        ck_assert_double_eq(value, 7);
    }
    ck_assert(!text_read_double("1\0", 2, &value));
    ck_assert(text_read_double("-1.5e3", 6, &value));
    ck_assert_double_eq(value, -1500);
    ck_assert(text_read_double("12345", 2, &value));
    ck_assert_double_eq(value, 12);
    ck_assert(text_read_double("1e-400", 6, &value));
    ck_assert_double_eq(value, 0);
    char longer[2000] = "0.";
    memset(longer + 2, '0', sizeof longer - 3);
    memcpy(longer + sizeof longer - 8, "1e1992", 7);
    ck_assert(text_read_double(longer, strlen(longer), &value));
    ck_assert_double_eq(value, 10); /* the 1 is the 1991st decimal */
}
END_TEST

/* All lengths and places of the point, by the rounding of strtod. */
START_TEST(short_decimals_are_rounded_as_strtod_rounds)
{
    char digits[32], out[40];
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t drawn = mix64(i);
        int length = snprintf(digits, sizeof digits, "%" PRIu64, mix64(~i)), kept = 1 + (int)(drawn % 18);
        int before = 1 + (int)(drawn / 32 % 18);
        kept = kept < length ? kept : length;
        before = before < kept ? before : kept;
        snprintf(out, sizeof out, "%s%.*s%s%.*s", drawn >> 63 ? "-" : "", before, digits, before < kept ? "." : "",
                 kept - before, digits + before);
        double value, expected = strtod(out, NULL);
        ck_assert_msg(text_read_double(out, strlen(out), &value), "%s", out);
        ck_assert_msg(memcmp(&value, &expected, sizeof value) == 0, "%s: %.17g, strtod %.17g", out, value, expected);
    }
}
END_TEST

/* Runs where a locale with a decimal comma is installed; elsewhere it says so and nothing is left
 * unchecked but this. */
START_TEST(the_locale_changes_nothing)
{
    static const char *const names[] = { "de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8" };
    const char *set = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !set; i++)
        set = setlocale(LC_NUMERIC, names[i]);
    double value = 0;
    ck_assert(text_read_double("1.5", 3, &value));
    ck_assert_double_eq(value, 1.5);
    ck_assert(!text_read_double("1,5", 3, &value));
    assert_double(1.5, "1.5");
    assert_bytes(1536, "1.50 KiB");
    setlocale(LC_NUMERIC, "C");
}
END_TEST

/* Encodes by the table of RFC 3629, as the twin of the decoder. */
static size_t encode(uint32_t c, char out[4])
{
    size_t length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned leads[] = { 0, 0, 0xC0, 0xE0, 0xF0 };
    for (size_t i = length; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)(leads[length] | c);
    return length;
}

START_TEST(utf8_decodes_every_character_and_no_surrogate)
{
    for (uint32_t c = 0; c <= 0x110000; c++) {
        char bytes[4];
        uint32_t back = 1;
        size_t length = encode(c, bytes);
        bool valid = c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF);
        if (text_utf8(bytes, length, &back) != (valid ? length : 0) || (valid && back != c))
            ck_abort_msg("U+%04X", (unsigned)c);
        if (valid && text_utf8(bytes, length - 1, &back) != 0)
            ck_abort_msg("U+%04X cut", (unsigned)c);
    }
    uint32_t character;
    ck_assert_uint_eq(text_utf8("\xC0\x80", 2, &character), 0);
    ck_assert_uint_eq(text_utf8("\xE0\x80\x80", 3, &character), 0);
    ck_assert_uint_eq(text_utf8("\xF0\x80\x80\x80", 4, &character), 0);
    ck_assert_uint_eq(text_utf8("\xF9\x80\x80\x80", 4, &character), 0);
    ck_assert_uint_eq(text_utf8("\x80", 1, &character), 0);
    ck_assert_uint_eq(text_utf8("\xFF", 1, &character), 0);
    ck_assert_uint_eq(text_utf8("\xC3(", 2, &character), 0);
    ck_assert_uint_eq(text_utf8("", 0, &character), 0);
}
END_TEST

START_TEST(nearest_word)
{
    static const char *const words[] = { "layers", "heads", "hidden", "kv_heads", "p" };
    const size_t count = sizeof words / sizeof *words;
    ck_assert_str_eq(text_nearest("head", words, count), "heads");
    ck_assert_str_eq(text_nearest("hiden", words, count), "hidden");
    ck_assert_str_eq(text_nearest("haeds", words, count), "heads"); /* one swap, but two replacements */
    ck_assert_ptr_null(text_nearest("hxxds", words, count));
    ck_assert_str_eq(text_nearest("alyers", words, count), "layers");
    ck_assert_str_eq(text_nearest("KV-Heads", words, count), "kv_heads");
    ck_assert_str_eq(text_nearest("heads", words, count), "heads");
    ck_assert_ptr_null(text_nearest("vocabulary", words, count));
    ck_assert_ptr_null(text_nearest("", words, count));
    ck_assert_ptr_null(text_nearest("q", words, count));
    static const char *const degrees[] = { "pp", "tp", "dp" };
    ck_assert_str_eq(text_nearest("tpp", degrees, 3), "tp"); /* as near as pp, but for the first letter */
    ck_assert_str_eq(text_nearest("ppp", degrees, 3), "pp");
    ck_assert_ptr_null(text_nearest("heads", words, 0));
    char longer[200];
    memset(longer, 'a', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    ck_assert_ptr_null(text_nearest(longer, words, count));
    const char *one = longer;
    ck_assert_ptr_null(text_nearest("aaaa", &one, 1));
}
END_TEST

static Suite *text_suite(void)
{
    Suite *suite = suite_create("text");
    CHECK_ADD(suite, text_grows_and_stays_terminated);
    CHECK_ADD(suite, text_that_does_not_fit_fails_and_drops_the_rest);
    CHECK_ADD(suite, words_of_a_shell_are_quoted);
    CHECK_ADD(suite, bytes_for_people);
    CHECK_ADD(suite, bytes_that_are_enough);
    CHECK_ADD(suite, bytes_that_people_write);
    CHECK_ADD(suite, durations_for_people);
    CHECK_ADD(suite, counts_and_rates_for_people);
    CHECK_ADD(suite, doubles_are_the_shortest_that_read_back);
    CHECK_ADD(suite, any_double_reads_back);
    CHECK_ADD(suite, read_double_takes_whole_decimal_numbers_only);
    CHECK_ADD(suite, short_decimals_are_rounded_as_strtod_rounds);
    CHECK_ADD(suite, the_locale_changes_nothing);
    CHECK_ADD(suite, utf8_decodes_every_character_and_no_surrogate);
    CHECK_ADD(suite, nearest_word);
    return suite;
}

CHECK_MAIN(text_suite)
