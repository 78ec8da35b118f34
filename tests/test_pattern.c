/* Patterns of modules' names, held against the C library's regular expressions. */
#include "targets/pattern.h"
#include "tests/check.h"
#include "tests/random_numbers.h"
#include <regex.h>
#include <stdio.h>
#include <string.h>

static bool library_matches(const char *pattern, const char *name)
{
    char whole[512];
    regex_t expression;
    snprintf(whole, sizeof whole, "^(%s)$", pattern);
    if (regcomp(&expression, whole, REG_EXTENDED | REG_NOSUB))
        return false;
    bool matches = regexec(&expression, name, 0, NULL, 0) == 0;
    regfree(&expression);
    return matches;
}

/* Adds a random expression: items, repeated or not, groups and alternatives. */
static void put_expression(char *out, size_t size, int depth, uint64_t *seed)
{
    static const char *const items[] = { "a", "b", "c", ".", "[ab]", "[^a]", "[a-c]", "\\." };
    static const char *const repeats[] = { "", "", "*", "+", "?" };
    int count = 1 + (int)(random_next(seed) % 3);
    for (int i = 0; i < count; i++) {
        size_t used = strlen(out);
        if (depth > 0 && random_next(seed) % 3 == 0) {
            snprintf(out + used, size - used, "(");
            put_expression(out, size, depth - 1, seed);
            used = strlen(out);
            snprintf(out + used, size - used, ")%s", repeats[random_next(seed) % 5]);
        } else {
            snprintf(out + used, size - used, "%s%s", items[random_next(seed) % 8], repeats[random_next(seed) % 5]);
        }
        used = strlen(out);
        if (random_next(seed) % 5 == 0 && i + 1 < count)
            snprintf(out + used, size - used, "|");
    }
}

START_TEST(patterns_match_as_the_library_has_them)
{
    uint64_t seed = 41;
    int matched = 0, checked = 0;
    for (int i = 0; i < 4000; i++) {
        char pattern[400] = "";
        put_expression(pattern, sizeof pattern, 3, &seed);
        if (strlen(pattern) > 200)
            continue;
        for (int n = 0; n < 20; n++) {
            char name[12] = "";
            int length = (int)(random_next(&seed) % 8);
            for (int c = 0; c < length; c++)
                name[c] = "abc."[random_next(&seed) % 4];
            bool want = library_matches(pattern, name);
            ck_assert_msg(pattern_matches(pattern, name) == want, "%s, %s: expected %d", pattern, name, want);
            matched += want;
            checked++;
        }
    }
    ck_assert_int_gt(matched, checked / 50);
}
END_TEST

START_TEST(patterns_of_python)
{
    static const struct {
        const char *pattern, *name;
        bool matches;
    } cases[] = {
        { "model.layers.[\\d]+.(mlp|self_attn).(up|q)_proj", "model.layers.17.self_attn.q_proj", true },
        { "model.layers.[\\d]+.(mlp|self_attn).(up|q)_proj", "model.layers.x.self_attn.q_proj", false },
        { "^.*\\.(?:q|v)_proj$", "layers.0.self_attn.v_proj", true },
        { ".*?q_proj", "a.q_proj", true },
        { "\\w+\\.\\d\\d", "ab_1.23", true },
        { "q_proj", "self_attn.q_proj", false },
        { "(q", "q", false },
        { "q)", "q", false },
        { "[q", "q", false },
        { "*q", "q", false },
        { "q{2}", "qq", false },
        { "q\\", "q", false },
        { "((((((((a*)*)*)*)*)*)*)*)*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", false },
        { "", "", true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_msg(pattern_matches(cases[i].pattern, cases[i].name) == cases[i].matches, "%s", cases[i].pattern);
}
END_TEST

static Suite *pattern_suite(void)
{
    Suite *suite = suite_create("pattern");
    CHECK_ADD(suite, patterns_match_as_the_library_has_them);
    CHECK_ADD(suite, patterns_of_python);
    return suite;
}

CHECK_MAIN(pattern_suite)
