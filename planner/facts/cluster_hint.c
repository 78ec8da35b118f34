/* Guesses which device or cluster people mean by what they call it: "H100", "a100-80gb", "64xH100". */
#include "planner/facts/cluster_hint.h"
#include "base/num.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_NEAR = 64, WORDS = 4, WORD_BYTES = 24, MOST_SAID = 4 };
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

/* Keeps the pieces of a name in small letters, without what makers put before it and the unit of its memory. */
struct words {
    int count;
    char word[WORDS][WORD_BYTES];
};

static bool says_nothing(const char *word)
{
    static const char *const makers[] = { "nvidia", "amd", "tesla", "geforce", "instinct", "gpu", "gb" };
    bool nothing = *word == 0;
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        nothing = nothing || strcmp(word, makers[i]) == 0;
    return nothing;
}

static struct words words_of(const char *name, size_t length)
{
    struct words out = { 0 };
    for (size_t at = 0; at < length && out.count < WORDS;) {
        char *word = out.word[out.count];
        size_t used = 0;
        for (; at < length && isalnum((unsigned char)name[at]); at++)
            if (used + 1 < WORD_BYTES)
                word[used++] = (char)tolower((unsigned char)name[at]);
        word[used] = 0;
        size_t digits = strspn(word, "0123456789");
        if (digits > 0 && (strcmp(word + digits, "gb") == 0 || strcmp(word + digits, "gib") == 0))
            word[digits] = 0;
        out.count += !says_nothing(word);
        while (at < length && !isalnum((unsigned char)name[at]))
            at++;
    }
    if (out.count < WORDS)
        out.word[out.count][0] = 0;
    return out;
}

/* Tells how well a word speaks of one of the others: equal, the beginning or the end of it, or not at all. */
static int likeness(const char *word, const struct words *of)
{
    int best = 0;
    size_t length = strlen(word);
    for (int i = 0; i < of->count; i++) {
        size_t whole = strlen(of->word[i]);
        bool part = whole > length && length > 1 &&
                    (strncmp(of->word[i], word, length) == 0 || strcmp(of->word[i] + whole - length, word) == 0);
        int own = strcmp(of->word[i], word) == 0 ? 4 : part ? 1 : 0;
        best = max_int(best, own);
    }
    return best;
}

/* Orders modules before cards, and large memories before small ones. */
static int by_use(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    bool first = strstr(x, "sxm"), second = strstr(y, "sxm");
    return first != second ? (first ? -1 : 1) : -strcmp(x, y);
}

static int find_near(const char *near[MOST_NEAR], const struct catalogue_entry *catalogue, int count, const char *name,
                     size_t length)
{
    struct words meant = words_of(name, length);
    int found = 0, best = 1;
    for (int i = 0; i < count; i++) {
        struct words own = words_of(catalogue[i].name, strlen(catalogue[i].name));
        int score = meant.count > 0 ? 16 * likeness(meant.word[0], &own) : 0; /* 0: it is of another family */
        for (int k = 1; k < meant.count && score > 0; k++)
            score += likeness(meant.word[k], &own);
        if (score > best)
            found = 0;
        best = max_int(best, score);
        if (score == best && found < MOST_NEAR)
            near[found++] = catalogue[i].name;
    }
    if (found > 0)
        qsort(near, (size_t)found, sizeof *near, by_use);
    return found;
}

/* Names that begin so, else the nearest by letters, else those that have the words of it. */
void cluster_catalogue_hint(struct text *out, const struct catalogue_entry *catalogue, int count, const char *name)
{
    const char *near[MOST_NEAR], *all[MOST_NEAR];
    char small[2 * WORD_BYTES] = "";
    int found = 0, most = min_int(count, MOST_NEAR);
    for (size_t i = 0; name[i] && i + 1 < sizeof small; i++)
        small[i] = (char)tolower((unsigned char)name[i]);
    for (int i = 0; i < most; i++) {
        all[i] = catalogue[i].name;
        if (strncmp(all[i], small, strlen(small)) == 0)
            near[found++] = all[i];
    }
    if (found == 0 && (near[0] = text_nearest(small, all, (size_t)most)) != NULL)
        found = 1;
    found = found > 0 ? found : find_near(near, catalogue, count, name, strlen(name));
    for (int i = 0; i < found; i++)
        text_printf(out, "%s\"%s\"%s", i == 0 ? ", did you mean " : ", ", near[i], i + 1 == found ? "?" : "");
    text_add(out, " (one that it lacks is stated like another, l40s@memory=48GiB, or in a file: cleave schema device)");
}

static void say_cluster(struct text *out, int64_t nodes, int64_t each, const char *const near[MOST_NEAR], int found)
{
    text_printf(out, "; did you mean %lldx%lld:%s?", (long long)nodes, (long long)each, near[0]);
    for (int i = 1; i < found && i <= MOST_SAID; i++)
        text_printf(out, "%s%s%s", i == 1 ? " (or " : ", ", near[i], i + 1 == found || i == MOST_SAID ? ")" : "");
}

/* Takes a number with an 'x', '*' or ':' behind it, blanks between them; 0 where none is here. */
static int64_t take_count(const char *text, size_t length, size_t *at)
{
    size_t end = *at;
    int64_t value = 0;
    while (end < length && isdigit((unsigned char)text[end]) && value <= MAX_DEVICES)
        value = value * 10 + (text[end++] - '0');
    bool digits = end > *at;
    while (end < length && text[end] == ' ')
        end++;
    if (!digits || value < 1 || value > MAX_DEVICES || end == length || !memchr("xX*:", text[end], 4))
        return 0;
    *at = end + 1;
    while (*at < length && text[*at] == ' ')
        ++*at;
    return value;
}

/* Cuts off the number behind a name like "h100x8", which "rtx4090" is not; 0 where there is none. */
static int64_t cut_count(const char *text, size_t from, size_t *length)
{
    size_t digits = *length, value = 0;
    while (digits > from && isdigit((unsigned char)text[digits - 1]))
        digits--;
    if (digits == *length || digits < from + 3 || !memchr("xX*:", text[digits - 1], 4) || *length - digits > 7 ||
        strncasecmp(text + digits - 3, "rtx", 3) == 0)
        return 0;
    for (size_t i = digits; i < *length; i++)
        value = value * 10 + (size_t)(text[i] - '0');
    *length = digits - 1;
    return (int64_t)value;
}

static int usual_per_node(const struct catalogue_entry *entry)
{
    struct arena arena = { 0 };
    struct device_type device;
    struct error none = { 0 };
    int per_node =
        device_type_read(&device, &arena, entry->name, entry->json, entry->length, &none) ? device.devices_per_node : 1;
    arena_free(&arena);
    return per_node;
}

/* Cuts "NVL72", which is so many devices that NVLink joins, out of the name, with what parts it from the rest. 0 where
 * it has no such word. */
static int64_t cut_domain(char *name)
{
    for (char *at = name, *end; *at; at++)
        if (strncasecmp(at, "nvl", 3) == 0 && isdigit((unsigned char)at[3])) {
            int64_t devices = strtoll(at + 3, &end, 10);
            memmove(at, end, strlen(end) + 1);
            return devices <= MAX_DEVICES ? devices : 0;
        }
    return 0;
}

/* Hints at whole racks, "2xNVL72" or "gb200-nvl72", whose number stands in front. False where it is none. */
static bool domain_hint(struct text *out, const char *text, size_t length, int64_t racks,
                        const struct catalogue_entry *catalogue, int count)
{
    const char *near[MOST_NEAR];
    char name[4 * WORD_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)min_i64((int64_t)length, sizeof name - 1), text);
    int64_t each = cut_domain(name);
    int found = 0;
    if (each > 0 && name[strcspn(name, LETTERS)])
        found = find_near(near, catalogue, count, name, strlen(name));
    else /* any device that comes so many to a node */
        for (int i = 0; each > 0 && i < count && found < MOST_NEAR; i++)
            if (usual_per_node(&catalogue[i]) == each)
                near[found++] = catalogue[i].name;
    if (found == 0)
        return false;
    say_cluster(out, max_i64(racks, 1), each, near, found);
    return true;
}

void cluster_hint(struct text *out, const char *text, size_t length, const struct catalogue_entry *catalogue, int count)
{
    const char *near[MOST_NEAR];
    size_t at = 0;
    int64_t first = take_count(text, length, &at), second = first > 0 ? take_count(text, length, &at) : 0;
    if (memchr(text, '@', length) || memchr(text, '+', length) || memchr(text, '/', length))
        return;
    if (domain_hint(out, text + at, length - at, first, catalogue, count))
        return;
    if (first == 0)
        first = cut_count(text, at, &length);
    int found = find_near(near, catalogue, count, text + at, length - at);
    if (found == 0 || first > MAX_DEVICES / max_i64(second, 1)) /* too many are too many of any device */
        return;
    int per_node = usual_per_node(cluster_catalogue_find(catalogue, count, near[0]));
    int64_t nodes = first, each = second;
    if (each == 0) {
        int64_t all = first > 0 ? first : per_node;
        for (each = min_i64(all, per_node); all % each != 0;)
            each--;
        nodes = all / each;
    }
    say_cluster(out, nodes, each, near, found);
}
