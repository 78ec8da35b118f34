/* error, arena, num, sha256, text. */
#include "base/arena.h"
#include "base/error.h"
#include "base/num.h"
#include "base/sha256.h"
#include "base/text.h"
#include "tests/check.h"
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- error ---- */

START_TEST(error_keeps_the_first_cause)
{
    struct error err = { 0 };
    ck_assert(!fail(&err, "first %d", 1));
    ck_assert(!fail_kind(&err, ERROR_BUG, "second"));
    ck_assert_int_eq(err.kind, ERROR_INPUT);
    ck_assert_str_eq(err.message, "first 1");
    ck_assert(!fail(NULL, "nobody listens"));
    ck_assert(!fail_kind(NULL, ERROR_GATE, "nobody listens"));
    ck_assert(!error_within(NULL, "nowhere"));
}
END_TEST

START_TEST(error_kind_is_kept_and_prefixed)
{
    struct error err = { 0 };
    ck_assert(!error_within(&err, "an empty error stays empty"));
    ck_assert_int_eq(err.kind, ERROR_NONE);
    ck_assert_str_eq(err.message, "");
    fail_kind(&err, ERROR_INFEASIBLE, "needs 3 GiB");
    error_within(&err, "layer %d", 7);
    error_within(&err, "gpt.json");
    ck_assert_int_eq(err.kind, ERROR_INFEASIBLE);
    ck_assert_str_eq(err.message, "gpt.json: layer 7: needs 3 GiB");
}
END_TEST

START_TEST(error_too_long_is_cut_between_characters)
{
    char longer[3 * ERROR_MESSAGE_BYTES];
    for (int shift = 0; shift < 2; shift++) {
        struct error err = { 0 };
        size_t used = 0;
        if (shift)
            longer[used++] = 'x';
        while (used + 2 < sizeof longer) {
            memcpy(longer + used, "\xC3\xA9", 2);
            used += 2;
        }
        longer[used] = '\0';
        fail(&err, "%s", longer);
        error_within(&err, "where");
        size_t length = strlen(err.message);
        ck_assert_uint_lt(length, ERROR_MESSAGE_BYTES);
        ck_assert_uint_gt(length, ERROR_MESSAGE_BYTES - 8);
        ck_assert_str_eq(err.message + length - 3, "...");
        for (size_t i = 0; i < length - 3;) {
            uint32_t character;
            size_t step = text_utf8(err.message + i, length - 3 - i, &character);
            ck_assert_uint_gt(step, 0);
            i += step;
        }
    }
}
END_TEST

/* ---- arena ---- */

START_TEST(arena_gives_zeroed_aligned_disjoint_memory)
{
    struct arena arena = { 0 };
    enum { COUNT = 2000 };
    unsigned char *pieces[COUNT];
    size_t sizes[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        sizes[i] = i % 97 == 0 ? 20000 + i : (i * 37) % 300;
        pieces[i] = arena_alloc(&arena, sizes[i], 1);
        ck_assert_ptr_nonnull(pieces[i]);
        ck_assert_uint_eq((uintptr_t)pieces[i] % 16, 0);
        for (size_t j = 0; j < sizes[i]; j++)
            ck_assert_uint_eq(pieces[i][j], 0);
        if (sizes[i] > 0)
            memset(pieces[i], (int)(i % 251) + 1, sizes[i]);
    }
    for (size_t i = 0; i < COUNT; i++)
        for (size_t j = 0; j < sizes[i]; j++)
            ck_assert_uint_eq(pieces[i][j], i % 251 + 1);
    arena_free(&arena);
    ck_assert_ptr_null(arena.head);
    ck_assert_ptr_nonnull(arena_alloc(&arena, 1, 1));
    arena_free(&arena);
    arena_free(&arena);
}
END_TEST

START_TEST(arena_refuses_overflow)
{
    struct arena arena = { 0 };
    ck_assert_ptr_null(arena_alloc(&arena, SIZE_MAX / 2, 3));
    ck_assert_ptr_null(arena_alloc(&arena, SIZE_MAX, 1));
    ck_assert_ptr_null(arena_alloc(&arena, SIZE_MAX - 16, 1));
    ck_assert_ptr_null(arena_strndup(&arena, "", SIZE_MAX));
    ck_assert_ptr_nonnull(arena_alloc(&arena, 0, SIZE_MAX));
    ck_assert_ptr_nonnull(arena_alloc(&arena, SIZE_MAX, 0));
    arena_free(&arena);
}
END_TEST

START_TEST(arena_copies_strings)
{
    struct arena arena = { 0 };
    ck_assert_str_eq(arena_strdup(&arena, "heads"), "heads");
    ck_assert_str_eq(arena_strdup(&arena, ""), "");
    ck_assert_str_eq(arena_strndup(&arena, "heads", 3), "hea");
    ck_assert_str_eq(arena_strndup(&arena, NULL, 0), "");
    arena_free(&arena);
}
END_TEST

START_TEST(arena_fails_on_the_nth_call_and_after)
{
    struct arena arena = { .fail_after = 3 };
    ck_assert_ptr_nonnull(arena_alloc(&arena, 1, 8));
    ck_assert_ptr_nonnull(arena_strdup(&arena, "x"));
    ck_assert_ptr_null(arena_alloc(&arena, 1, 8));
    ck_assert_ptr_null(arena_strdup(&arena, "x"));
    arena_free(&arena);
    ck_assert_ptr_nonnull(arena_alloc(&arena, 1, 8));
    arena_free(&arena);
}
END_TEST

/* ---- num ---- */

START_TEST(checked_arithmetic_agrees_with_wide_arithmetic)
{
    const int64_t values[] = { 0,
                               1,
                               -1,
                               2,
                               3,
                               -7,
                               INT64_MAX,
                               INT64_MIN,
                               INT64_MAX / 2,
                               INT64_MIN / 2,
                               INT64_MAX - 1,
                               3037000499,
                               3037000500,
                               INT64_C(1) << 32 };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (size_t j = 0; j < sizeof values / sizeof *values; j++) {
            int64_t a = values[i], b = values[j], out = 42;
            long double product = (long double)a * (long double)b; /* 64 bits: sign is exact */
            long double sum = (long double)a + (long double)b;
            bool fits = product >= (long double)INT64_MIN && product <= (long double)INT64_MAX;
            ck_assert_int_eq(mul_i64(&out, a, b), fits);
            ck_assert_int_eq(out, fits ? (int64_t)((uint64_t)a * (uint64_t)b) : 42);
            out = 42;
            fits = sum >= (long double)INT64_MIN && sum <= (long double)INT64_MAX;
            ck_assert_int_eq(add_i64(&out, a, b), fits);
            ck_assert_int_eq(out, fits ? (int64_t)((uint64_t)a + (uint64_t)b) : 42);
        }
}
END_TEST

START_TEST(rounding_up)
{
    for (int64_t a = 0; a < 200; a++)
        for (int64_t b = 1; b < 40; b++) {
            int64_t q = ceil_div(a, b), r = round_up(a, b);
            ck_assert_int_ge(q * b, a);
            ck_assert_int_lt(q * b - a, b);
            ck_assert_int_eq(r, q * b);
        }
    ck_assert_int_eq(ceil_div(INT64_MAX, 1), INT64_MAX);
    ck_assert_int_eq(ceil_div(INT64_MAX, INT64_MAX), 1);
    ck_assert_int_eq(ceil_div(INT64_MAX, 2), INT64_MAX / 2 + 1);
    ck_assert_int_eq(round_up(INT64_MAX - 1, 4096), INT64_MAX);
    ck_assert_int_eq(min_i64(-3, 4), -3);
    ck_assert_int_eq(max_i64(-3, 4), 4);
}
END_TEST

START_TEST(hash_is_fnv_1a)
{
    /* the published vectors of FNV-1a, 64 bits */
    ck_assert_uint_eq(hash_bytes(HASH_START, "", 0), UINT64_C(0xcbf29ce484222325));
    ck_assert_uint_eq(hash_bytes(HASH_START, "a", 1), UINT64_C(0xaf63dc4c8601ec8c));
    ck_assert_uint_eq(hash_bytes(HASH_START, "foobar", 6), UINT64_C(0x85944171f73967e8));
    uint64_t split = hash_string(hash_string(HASH_START, "ab"), "c");
    ck_assert_uint_ne(split, hash_string(hash_string(HASH_START, "a"), "bc"));
    ck_assert_uint_eq(hash_i64(HASH_START, 0x0807060504030201), hash_bytes(HASH_START, "\1\2\3\4\5\6\7\10", 8));
    ck_assert_uint_ne(hash_i64(HASH_START, 1), hash_i64(HASH_START, -1));
}
END_TEST

/* Undoes x ^ (x >> shift). */
static uint64_t undo_shift(uint64_t y, int shift)
{
    uint64_t x = y;
    for (int done = shift; done < 64; done += shift)
        x = y ^ (x >> shift);
    return x;
}

/* The inverse of an odd number modulo 2^64, by Newton's iteration. */
static uint64_t inverse(uint64_t odd)
{
    uint64_t x = odd;
    for (int i = 0; i < 6; i++)
        x *= 2 - odd * x;
    return x;
}

START_TEST(mix_is_the_finaliser_of_splitmix_and_bijective)
{
    ck_assert_uint_eq(mix64(UINT64_C(0x9e3779b97f4a7c15)), UINT64_C(0xe220a8397b1dcdaf));
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t x = i * UINT64_C(0x123456789abcdef1), y = mix64(x);
        y = undo_shift(y, 31) * inverse(UINT64_C(0x94d049bb133111eb));
        y = undo_shift(y, 27) * inverse(UINT64_C(0xbf58476d1ce4e5b9));
        ck_assert_uint_eq(undo_shift(y, 30), x);
    }
}
END_TEST

/* ---- sha256 ---- */

static void check_hex(const unsigned char *bytes, const char *expected)
{
    char hex[2 * SHA256_BYTES + 1];
    for (int i = 0; i < SHA256_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
    ck_assert_str_eq(hex, expected);
}

/* FIPS 180-4's examples: one block, two blocks, a million characters; pieces of any size give the same. */
START_TEST(sha256_gives_the_published_examples)
{
    static const char *const messages[] = { "", "abc", "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq" };
    static const char *const expected[] = { "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                                            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
                                            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" };
    unsigned char out[SHA256_BYTES];
    struct sha256 hash;
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        sha256_begin(&hash);
        sha256_add(&hash, messages[i], strlen(messages[i]));
        sha256_end(&hash, out);
        check_hex(out, expected[i]);
    }
    char piece[997];
    memset(piece, 'a', sizeof piece);
    sha256_begin(&hash);
    for (size_t left = 1000000, n = 1; left > 0; left -= n, n = 1 + n * 7 % sizeof piece) {
        n = n < left ? n : left;
        sha256_add(&hash, piece, n);
    }
    sha256_end(&hash, out);
    check_hex(out, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}
END_TEST

/* RFC 4231, test cases 1, 2 and 6 (a key longer than a block). */
START_TEST(hmac_gives_the_published_examples)
{
    char ones[20], long_key[131];
    memset(ones, 0x0b, sizeof ones);
    memset(long_key, 0xaa, sizeof long_key);
    const struct {
        const char *key;
        size_t bytes;
        const char *data, *expected;
    } cases[] = {
        { ones, sizeof ones, "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
        { "Jefe", 4, "what do ya want for nothing?",
          "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
        { long_key, sizeof long_key, "Test Using Larger Than Block-Size Key - Hash Key First",
          "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char out[SHA256_BYTES], other[SHA256_BYTES];
        struct hmac hmac;
        hmac_begin(&hmac, cases[i].key, cases[i].bytes);
        hmac_add(&hmac, cases[i].data, strlen(cases[i].data));
        hmac_end(&hmac, out);
        check_hex(out, cases[i].expected);
        memcpy(other, out, sizeof other);
        ck_assert(hmac_equal(out, other));
        other[31] ^= 1;
        ck_assert(!hmac_equal(out, other));
    }
}
END_TEST

/* ---- text ---- */

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
    ck_assert_ptr_null(text_nearest("heads", words, 0));
    char longer[200];
    memset(longer, 'a', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    ck_assert_ptr_null(text_nearest(longer, words, count));
    const char *one = longer;
    ck_assert_ptr_null(text_nearest("aaaa", &one, 1));
}
END_TEST

static Suite *error_suite(void)
{
    Suite *suite = suite_create("error");
    CHECK_ADD(suite, error_keeps_the_first_cause);
    CHECK_ADD(suite, error_kind_is_kept_and_prefixed);
    CHECK_ADD(suite, error_too_long_is_cut_between_characters);
    return suite;
}

static Suite *arena_suite(void)
{
    Suite *suite = suite_create("arena");
    CHECK_ADD(suite, arena_gives_zeroed_aligned_disjoint_memory);
    CHECK_ADD(suite, arena_refuses_overflow);
    CHECK_ADD(suite, arena_copies_strings);
    CHECK_ADD(suite, arena_fails_on_the_nth_call_and_after);
    return suite;
}

static Suite *num_suite(void)
{
    Suite *suite = suite_create("num");
    CHECK_ADD(suite, checked_arithmetic_agrees_with_wide_arithmetic);
    CHECK_ADD(suite, rounding_up);
    CHECK_ADD(suite, hash_is_fnv_1a);
    CHECK_ADD(suite, mix_is_the_finaliser_of_splitmix_and_bijective);
    return suite;
}

static Suite *sha256_suite(void)
{
    Suite *suite = suite_create("sha256");
    CHECK_ADD(suite, sha256_gives_the_published_examples);
    CHECK_ADD(suite, hmac_gives_the_published_examples);
    return suite;
}

static Suite *text_suite(void)
{
    Suite *suite = suite_create("text");
    CHECK_ADD(suite, text_grows_and_stays_terminated);
    CHECK_ADD(suite, text_that_does_not_fit_fails_and_drops_the_rest);
    CHECK_ADD(suite, bytes_for_people);
    CHECK_ADD(suite, durations_for_people);
    CHECK_ADD(suite, counts_and_rates_for_people);
    CHECK_ADD(suite, doubles_are_the_shortest_that_read_back);
    CHECK_ADD(suite, any_double_reads_back);
    CHECK_ADD(suite, read_double_takes_whole_decimal_numbers_only);
    CHECK_ADD(suite, the_locale_changes_nothing);
    CHECK_ADD(suite, utf8_decodes_every_character_and_no_surrogate);
    CHECK_ADD(suite, nearest_word);
    return suite;
}

CHECK_MAIN(error_suite, arena_suite, num_suite, sha256_suite, text_suite)
