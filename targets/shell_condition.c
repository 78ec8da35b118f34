/* Conditions of a shell script, on strings and numbers. */
#include "targets/shell_expand.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Between [[ and ]] bash works out a sum, of which nothing is 0. */
static bool number_of(const char *word, bool sum, int64_t *out)
{
    char *end;
    if (sum)
        return shell_sum(out, word);
    *out = strtoll(word, &end, 10);
    return end != word && !*end;
}

/* What is not understood is neither. */
enum truth { FALSE, TRUE, UNKNOWN };

static enum truth truth_of(bool holds)
{
    return holds ? TRUE : FALSE;
}

/* The words between the brackets of a test, or behind its name. */
struct test {
    const char *const *words;
    int count, at, depth;
    bool patterns; /* between [[ and ]]: the right side may be one, and && and || stand there */
};

static bool is_one_of(const char *word, const char *const *words)
{
    while (*words && strcmp(word, *words) != 0)
        words++;
    return *words != NULL;
}

static bool is_comparison(const char *word)
{
    static const char *const words[] = { "=",   "==",  "!=",  "=~",  "<",   ">",   "-eq", "-ne",
                                         "-gt", "-ge", "-lt", "-le", "-nt", "-ot", "-ef", NULL };
    return is_one_of(word, words);
}

/* Quotes, which would make a pattern plain text, are gone. */
static enum truth compares(const char *left, const char *op, const char *right, bool patterns)
{
    static const char *const unread[] = { "=~", "-nt", "-ot", "-ef", NULL };
    int64_t a, b;
    if (is_one_of(op, unread))
        return UNKNOWN;
    if (strcmp(op, "=") == 0 || strcmp(op, "==") == 0 || strcmp(op, "!=") == 0)
        return truth_of((strcmp(left, right) == 0 || (patterns && shell_matches(right, left))) == (*op == '='));
    if (*op != '-')
        return truth_of((strcmp(left, right) < 0) == (*op == '<') && strcmp(left, right) != 0);
    if (!number_of(left, patterns, &a) || !number_of(right, patterns, &b))
        return patterns ? UNKNOWN : FALSE; /* of a name that stands there the value; of [ an error */
    return truth_of(strcmp(op, "-eq") == 0   ? a == b
                    : strcmp(op, "-ne") == 0 ? a != b
                    : strcmp(op, "-gt") == 0 ? a > b
                    : strcmp(op, "-ge") == 0 ? a >= b
                    : strcmp(op, "-lt") == 0 ? a < b
                                             : a <= b);
}

static enum truth joined(struct test *t, bool any);

/* One test. Files are there, and so is a terminal. */
static enum truth one_of(struct test *t)
{
    bool inverted = false;
    for (; t->count - t->at > 1 && strcmp(t->words[t->at], "!") == 0; t->at++)
        inverted = !inverted;
    const char *const *words = t->words + t->at;
    int left = t->count - t->at;
    enum truth holds = UNKNOWN;
    if (left > 2 && strcmp(words[0], "(") == 0 && t->depth < SHELL_DEPTH) {
        t->at++;
        t->depth++;
        holds = joined(t, true);
        t->depth--;
        holds = t->at < t->count && strcmp(t->words[t->at], ")") == 0 ? holds : UNKNOWN;
        t->at++;
    } else if (left > 2 && is_comparison(words[1])) {
        holds = compares(words[0], words[1], words[2], t->patterns);
        t->at += 3;
    } else if (left > 1 && (is_comparison(words[0]) || (left == 2 && is_comparison(words[1])))) {
        holds = FALSE; /* one side is nothing: an error, from which bash goes on */
        t->at = t->count;
    } else if (left > 1 && words[0][0] == '-' && isalpha((unsigned char)words[0][1]) && !words[0][2]) {
        bool unread = strchr("voR", words[0][1]) != NULL;
        holds = unread ? UNKNOWN : truth_of(!*words[1] == (words[0][1] == 'z'));
        t->at += 2;
    } else if (left > 0) {
        holds = truth_of(*words[0]);
        t->at++;
    }
    return holds == UNKNOWN ? holds : truth_of((holds == TRUE) != inverted);
}

static bool takes(struct test *t, const char *of_patterns, const char *other)
{
    bool here = t->at < t->count && strcmp(t->words[t->at], t->patterns ? of_patterns : other) == 0;
    t->at += here;
    return here;
}

/* Tests of which any is to hold, or all: one that decides does so whatever the others are. */
static enum truth joined(struct test *t, bool any)
{
    enum truth holds = any ? joined(t, false) : one_of(t), decides = truth_of(any);
    while (takes(t, any ? "||" : "&&", any ? "-o" : "-a")) {
        enum truth next = any ? joined(t, false) : one_of(t);
        holds = holds == decides || next == decides ? decides : holds == UNKNOWN ? UNKNOWN : next;
    }
    return holds;
}

static enum truth test_all(const char *const *words, int count, bool patterns)
{
    struct test test = { .words = words, .count = count, .patterns = patterns };
    enum truth holds = count > 0 ? joined(&test, true) : FALSE;
    return test.at < count ? UNKNOWN : holds;
}

bool shell_succeeds(const char *const *words, int count, bool *understood)
{
    bool inverted = false;
    for (; count > 0 && strcmp(words[0], "!") == 0; words++, count--)
        inverted = !inverted;
    enum truth holds = TRUE;
    if (count > 0 && strcmp(words[0], "false") == 0)
        holds = FALSE;
    else if (count > 1 && (strcmp(words[0], "[") == 0 || strcmp(words[0], "[[") == 0))
        holds = test_all(words + 1, count - 1 - (words[count - 1][0] == ']'), words[0][1] == '[');
    else if (count > 1 && strcmp(words[0], "test") == 0)
        holds = test_all(words + 1, count - 1, false);
    *understood = holds != UNKNOWN;
    return *understood && (holds == TRUE) != inverted;
}

struct shell_prefix shell_prefix(const struct shell_words *words)
{
    static const char *const before[] = { "!", "time", "command", "builtin", NULL };
    static const char *const options[] = { "-p", "--", NULL };
    struct shell_prefix prefix = { 0 };
    for (; prefix.count < words->count; prefix.count++) {
        const char *word = words->words[prefix.count];
        if (!is_one_of(word, before) && (prefix.count == 0 || !is_one_of(word, options)))
            break;
        prefix.inverted = prefix.inverted != (*word == '!');
        prefix.no_function = prefix.no_function || strchr("cb", *word);
    }
    return prefix;
}

bool shell_in_test(const struct shell_words *words)
{
    int first = 0;
    while (first < words->count && strcmp(words->words[first], "!") == 0)
        first++;
    return first < words->count && strcmp(words->words[first], "[[") == 0 &&
           strcmp(words->words[words->count - 1], "]]") != 0;
}

bool shell_test_sign(struct shell *s, struct shell_words *words)
{
    bool expression = strcmp(words->words[words->count - 1], "=~") == 0, doubled = strchr("&|", *s->p) != NULL;
    char both[3] = { *s->p, doubled ? *s->p : 0, 0 };
    size_t length = 1 + (doubled && s->p + 1 < s->end && s->p[1] == *s->p);
    while (expression && s->p + length < s->end && !strchr(" \t\r\n", s->p[length]))
        length++;
    s->p += length;
    return shell_add_word(s, words,
                          expression ? shell_copy(s, s->p - length, length) : shell_copy(s, both, strlen(both)));
}

bool shell_note_dropped(struct shell *s, const struct shell_words *words)
{
    static const char *const says[] = { "echo", "printf", "[", "[[", "test", NULL };
    int first = words->count > 1 && strcmp(words->words[0], "!") == 0;
    bool options = false;
    for (int i = 0; i < words->count; i++) {
        const char *found = strstr(words->words[i], "--");
        options = options || (found && isalpha((unsigned char)found[2]));
    }
    const char *dropped = s->dropped;
    s->dropped = NULL;
    return !dropped || !options || is_one_of(words->words[first], says) ||
           shell_note(s, "%s (line %d: what it stands for is not known, and nothing was put in its place)", dropped,
                      s->line);
}

bool shell_counts_arguments(const struct shell *s)
{
    const char *p = s->p;
    while (s->arguments && s->end - p >= 2 && *p != '\n' && (p[0] != '$' || p[1] != '#'))
        p++;
    return s->arguments && s->end - p >= 2 && *p == '$';
}

bool shell_note_command(struct shell *s, const struct shell_words *words, const char *instead)
{
    struct text text = { 0 };
    for (int i = 0; i < words->count && text.length < 120; i++)
        text_printf(&text, "%s%.60s", i > 0 ? " " : "", words->words[i]);
    bool good = shell_note(s, "%s (line %d: %s)", text.data ? text.data : "", s->line, instead);
    text_free(&text);
    return good;
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
