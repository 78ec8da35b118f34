/* Conditions of a shell script, on strings and numbers. */
#include "targets/shell_expand.h"
#include <stdlib.h>
#include <string.h>

static bool number_of(const char *word, long long *out)
{
    char *end;
    *out = strtoll(word, &end, 10);
    return end != word && !*end;
}

/* pattern: the right side may be one, as between [[ and ]]; quotes, which would make it plain text, are gone. */
static bool compares(const char *left, const char *op, const char *right, bool pattern)
{
    long long a, b;
    if (strcmp(op, "=") == 0 || strcmp(op, "==") == 0 || strcmp(op, "!=") == 0)
        return (strcmp(left, right) == 0 || (pattern && shell_matches(right, left))) == (*op == '=');
    if (!number_of(left, &a) || !number_of(right, &b))
        return false;
    return strcmp(op, "-eq") == 0   ? a == b
           : strcmp(op, "-ne") == 0 ? a != b
           : strcmp(op, "-gt") == 0 ? a > b
           : strcmp(op, "-ge") == 0 ? a >= b
           : strcmp(op, "-lt") == 0 ? a < b
           : strcmp(op, "-le") == 0 ? a <= b
                                    : false;
}

/* One test without && and ||. Files are there. */
static bool test_holds(const char *const *words, int count, bool patterns)
{
    bool inverted = false;
    for (; count > 0 && strcmp(words[0], "!") == 0; words++, count--)
        inverted = !inverted;
    bool holds = count > 0 && *words[0];
    if (count == 2 && strcmp(words[0], "-z") == 0)
        holds = !*words[1];
    else if (count == 2 && words[0][0] == '-')
        holds = *words[1];
    else if (count == 3)
        holds = compares(words[0], words[1], words[2], patterns);
    return holds != inverted;
}

static bool test_all(const char *const *words, int count, bool patterns)
{
    bool holds = true, or_next = false;
    for (int first = 0; first <= count;) {
        int end = first;
        while (end < count && strcmp(words[end], "&&") != 0 && strcmp(words[end], "||") != 0)
            end++;
        bool one = test_holds(words + first, end - first, patterns);
        holds = first == 0 ? one : or_next ? holds || one : holds && one;
        or_next = end < count && strcmp(words[end], "||") == 0;
        first = end + 1;
    }
    return holds;
}

bool shell_succeeds(const char *const *words, int count)
{
    bool inverted = false;
    for (; count > 0 && strcmp(words[0], "!") == 0; words++, count--)
        inverted = !inverted;
    bool holds = true;
    if (count > 0 && strcmp(words[0], "false") == 0)
        holds = false;
    else if (count > 1 && (strcmp(words[0], "[") == 0 || strcmp(words[0], "[[") == 0))
        holds = test_all(words + 1, count - 1 - (words[count - 1][0] == ']'), words[0][1] == '[');
    else if (count > 1 && strcmp(words[0], "test") == 0)
        holds = test_all(words + 1, count - 1, false);
    return holds != inverted;
}

/* Length of [:NAME:] at the beginning; 0: it is none. */
static size_t class_at(const char *p)
{
    const char *end = p[0] == '[' && p[1] == ':' ? strstr(p + 2, ":]") : NULL;
    return end ? (size_t)(end + 2 - p) : 0;
}

static bool is_of_set(const char *set, const char *closed, char c);

static bool is_of_class(const char *p, size_t length, char c)
{
    static const struct {
        const char *name, *set;
    } classes[] = {
        { "alnum", "0-9A-Za-z" },    { "alpha", "A-Za-z" },      { "blank", " \t" }, { "cntrl", "\001-\037\177" },
        { "digit", "0-9" },          { "graph", "\"-~!" },       { "lower", "a-z" }, { "print", " -~" },
        { "punct", ":-@[-`{-~!-/" }, { "space", " \t\n\r\f\v" }, { "upper", "A-Z" }, { "xdigit", "0-9A-Fa-f" },
    };
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strlen(classes[i].name) == length - 4 && memcmp(classes[i].name, p + 2, length - 4) == 0)
            return is_of_set(classes[i].set, classes[i].set + strlen(classes[i].set), c);
    return false;
}

/* The bracket that closes the set which begins here: not the first character, nor within a class. NULL: there is none.
 */
static const char *set_end(const char *p)
{
    p += *p == '!' || *p == '^';
    p += *p == ']';
    for (size_t length; *p && *p != ']'; p += length > 0 ? length : 1)
        length = class_at(p);
    return *p ? p : NULL;
}

/* Whether the character is one of those between the brackets. */
static bool is_of_set(const char *set, const char *closed, char c)
{
    bool inverted = *set == '!' || *set == '^', holds = false;
    for (set += inverted; set < closed && !holds;) {
        size_t length = class_at(set);
        bool range = length == 0 && closed - set > 2 && set[1] == '-';
        holds = length > 0 ? is_of_class(set, length, c) : range ? *set <= c && c <= set[2] : *set == c;
        set += length > 0 ? length : range ? 3 : 1;
    }
    return holds != inverted;
}

bool shell_matches(const char *pattern, const char *value)
{
    const char *star = NULL, *again = NULL;
    while (*value) {
        const char *closed = *pattern == '[' ? set_end(pattern + 1) : NULL;
        bool fits = closed ? is_of_set(pattern + 1, closed, *value)
                           : *pattern == '?' || (*pattern == *value && *pattern != '*');
        if (*pattern == '*') {
            star = ++pattern;
            again = value;
        } else if (fits) {
            pattern = closed ? closed + 1 : pattern + 1;
            value++;
        } else if (star) { /* it takes one character more */
            pattern = star;
            value = ++again;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}
