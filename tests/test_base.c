/* error, arena, num, sha256. */
#include "base/arena.h"
#include "base/error.h"
#include "base/memo.h"
#include "base/num.h"
#include "base/sha256.h"
#include "base/text.h"
#include "tests/check.h"
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

/* What is there moves along; where memory is short it stays where it is. */
START_TEST(arena_makes_room_for_more)
{
    struct arena arena = { 0 };
    enum { COUNT = 1000 };
    int64_t *list = NULL;
    int capacity = 0;
    for (int i = 0; i < COUNT; i++) {
        list = arena_more(&arena, list, i, &capacity, sizeof *list);
        ck_assert(list && capacity > i);
        list[i] = 3 * i;
    }
    for (int i = 0; i < COUNT; i++)
        ck_assert_int_eq(list[i], 3 * i);
    int before = capacity;
    arena.fail_after = 1;
    ck_assert_ptr_eq(arena_more(&arena, list, COUNT, &capacity, sizeof *list), list);
    ck_assert_ptr_null(arena_more(&arena, list, capacity, &capacity, sizeof *list));
    ck_assert_int_eq(capacity, before);
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
    ck_assert(!arena_failed(&arena));
    ck_assert_ptr_null(arena_alloc(&arena, 1, 8));
    ck_assert(arena_failed(&arena));
    ck_assert_ptr_null(arena_strdup(&arena, "x"));
    arena_free(&arena);
    ck_assert_ptr_nonnull(arena_alloc(&arena, 1, 8));
    ck_assert(!arena_failed(&arena));
    ck_assert_ptr_null(arena_strndup(&arena, "", SIZE_MAX));
    ck_assert(arena_failed(&arena));
    arena_free(&arena);
}
END_TEST

/* ---- memo ---- */

/* Each key keeps its one value, and where it lies, however many come after it; a key that begins like another is
 * another. Where memory is short, nothing is forgotten. */
START_TEST(memo_finds_what_was_made_from_the_same_words)
{
    enum { COUNT = 3000 };
    struct memo memo = { 0 };
    int64_t *value[COUNT];
    bool known = true;
    for (int64_t i = 0; i < COUNT; i++) {
        const int64_t key[] = { i / 7, i % 7, 0 };
        ck_assert_ptr_null(memo_find(&memo, key, 3));
        value[i] = memo_place(&memo, key, 3, sizeof *value[i], &known);
        ck_assert(value[i] && !known && *value[i] == 0);
        *value[i] = i;
    }
    memo.arena.fail_after = 1;
    for (int64_t i = 0; i < COUNT; i++) {
        const int64_t key[] = { i / 7, i % 7, 0 };
        ck_assert_ptr_eq(memo_place(&memo, key, 3, sizeof *value[i], &known), value[i]);
        ck_assert(known && *value[i] == i);
        ck_assert_ptr_eq(memo_find(&memo, key, 3), value[i]);
        ck_assert_ptr_null(memo_find(&memo, key, 2));
    }
    ck_assert_ptr_null(memo_place(&memo, (const int64_t[]){ -1 }, 1, 8, &known));
    ck_assert(!known);
    memo_free(&memo);
    ck_assert_ptr_null(memo_find(&memo, (const int64_t[]){ 0, 0, 0 }, 3));
    memo.arena.fail_after = 2; /* there are buckets, but no entry */
    ck_assert_ptr_null(memo_place(&memo, (const int64_t[]){ -1 }, 1, 8, &known));
    ck_assert_ptr_null(memo_find(&memo, (const int64_t[]){ -1 }, 1));
    memo_free(&memo);
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
    CHECK_ADD(suite, arena_makes_room_for_more);
    CHECK_ADD(suite, arena_copies_strings);
    CHECK_ADD(suite, arena_fails_on_the_nth_call_and_after);
    CHECK_ADD(suite, memo_finds_what_was_made_from_the_same_words);
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

CHECK_MAIN(error_suite, arena_suite, num_suite, sha256_suite)
