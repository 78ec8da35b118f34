#include "targets/pattern.h"
#include <ctype.h>
#include <string.h>

/* The places between characters of the name at which what was matched so far may end. */
struct places {
    bool at[PATTERN_MOST_NAME];
};
struct matching {
    const char *name;
    int steps_left; /* characters of the pattern that are yet tried, of nested repeats very many times */
    bool bad;
};
enum { MOST_STEPS = 1 << 16 };

/* The end of the character, set or group that begins here; NULL: it does not end. */
static const char *end_of_item(const char *p, const char *end)
{
    int depth = 0;
    if (*p == '\\')
        return p + 2 <= end ? p + 2 : NULL;
    if (*p == '[') {
        const char *close = memchr(p + 2 <= end ? p + 2 : end, ']', p + 2 <= end ? (size_t)(end - p - 2) : 0);
        return close ? close + 1 : NULL;
    }
    if (*p != '(')
        return strchr("*+?{)^$", *p) ? NULL : p + 1;
    for (; p < end; p++) {
        depth += (*p == '(') - (*p == ')');
        p += *p == '\\';
        if (depth == 0)
            return p + 1;
    }
    return NULL;
}

static bool of_class(char class, char c)
{
    bool word = isalnum((unsigned char)c) || c == '_';
    return class == 'd' ? isdigit((unsigned char)c) : class == 'w' ? word : class == c;
}

/* Whether the character is one of the item's, which is no group. */
static bool takes(const char *p, const char *end, char c)
{
    if (*p == '\\')
        return of_class(p[1], c);
    if (*p != '[')
        return *p == '.' || *p == c;
    bool negative = p[1] == '^', found = false;
    for (p += 1 + negative; p < end - 1; p++) {
        bool range = p + 2 < end - 1 && p[1] == '-';
        if (*p == '\\')
            found |= of_class(*++p, c);
        else
            found |= range ? *p <= c && c <= p[2] : *p == c;
        p += range && *p != '\\' ? 2 : 0;
    }
    return found != negative;
}

static struct places match(struct matching *m, const char *p, const char *end, const struct places *from);

static struct places match_item(struct matching *m, const char *p, const char *end, const struct places *from)
{
    struct places to = { { false } };
    if (*p == '(') {
        const char *inside = strncmp(p, "(?:", 3) == 0 ? p + 3 : p + 1;
        return match(m, inside, end - 1, from);
    }
    for (size_t i = 0; m->name[i]; i++)
        to.at[i + 1] = from->at[i] && takes(p, end, m->name[i]);
    return to;
}

/* Adds places; whether there were new ones. */
static bool add(struct places *to, const struct places *more)
{
    bool some = false;
    for (int i = 0; i < PATTERN_MOST_NAME; i++) {
        some |= more->at[i] && !to->at[i];
        to->at[i] |= more->at[i];
    }
    return some;
}

/* The same of alternatives, one item after the other. */
static struct places match(struct matching *m, const char *p, const char *end, const struct places *from)
{
    struct places here = *from, all = { { false } };
    while (p < end && !m->bad) {
        if (*p == '|') {
            add(&all, &here);
            here = *from;
            p++;
            continue;
        }
        const char *behind = end_of_item(p, end);
        m->bad = !behind || --m->steps_left < 0;
        if (m->bad)
            break;
        char repeat = behind < end && strchr("*+?", *behind) ? *behind : '\0';
        struct places once = match_item(m, p, behind, &here), more = once;
        while ((repeat == '*' || repeat == '+') && !m->bad) {
            more = match_item(m, p, behind, &more);
            if (!add(&once, &more))
                break;
        }
        if (repeat == '*' || repeat == '?')
            add(&here, &once);
        else
            here = once;
        p = behind + (repeat != '\0');
        p += repeat && p < end && *p == '?'; /* it takes as little as it can, which is all the same */
    }
    add(&all, &here);
    return all;
}

bool pattern_matches(const char *pattern, const char *name)
{
    struct matching m = { .name = name, .steps_left = MOST_STEPS };
    struct places from = { { true } };
    size_t length = strlen(pattern);
    bool ends = length > 0 && pattern[length - 1] == '$';
    if (length > 256 || strlen(name) >= PATTERN_MOST_NAME)
        return false;
    struct places to = match(&m, pattern + (*pattern == '^'), pattern + length - ends, &from);
    return !m.bad && to.at[strlen(name)];
}
