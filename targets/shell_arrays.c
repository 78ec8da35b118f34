/* Elements of a script's lists, by number or by name. One that a name stands for, as in declare -A, or a number beyond
 * the list's end, is a variable of its own, which is called NAME[KEY]. Since bash alone knows the order of such ones,
 * the whole of a list that gets them piece by piece is unknown. */
#include "targets/shell_expand.h"
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* A key as it is spelled, and with its variables' values and without its quotes. */
struct key {
    const char *text, *missing; /* missing: what a command would print of it; NULL: nothing */
    bool known;                 /* nothing in it came to nothing */
};

static bool key_of(struct shell *s, const char *text, size_t length, struct key *out)
{
    struct shell inner = *s;
    bool quoted = length > 1 && (*text == '"' || *text == '\'') && text[length - 1] == *text;
    bool good = shell_expand_text(&inner, text + quoted, length - 2 * (size_t)quoted, &out->text, &out->missing);
    s->grown = inner.grown;
    out->known = good && !out->missing && (*out->text || length == 2 * (size_t)quoted);
    return good;
}

/* The number that the key is, or that a variable of that name has, from the end where it is negative; -1: none. */
static int number_of(const struct shell *s, const struct shell_variable *list, const char *key)
{
    bool back = key[0] == '-' && isdigit((unsigned char)key[1]) && list && !list->apart;
    const char *value = back                            ? key + 1
                        : isdigit((unsigned char)*key) ? key
                                                        : shell_value(s->script, key);
    size_t length = value ? strlen(value) : 0;
    bool is_number = length > 0 && length < 7 && strspn(value, "0123456789") == length;
    int number = is_number ? (int)strtol(value, NULL, 10) : -1;
    return !back || number < 0 ? number : number > 0 && number <= list->count ? list->count - number : -1;
}

/* "NAME[KEY]", or "NAME[" where there is no key. */
static const char *joined_name(struct shell *s, const char *name, size_t length, const char *key)
{
    struct text text = { 0 };
    const char *out;
    text_printf(&text, "%.*s[%s%s", (int)length, name, key ? key : "", key ? "]" : "");
    return shell_take(s, &text, &out) ? out : NULL;
}

/* Takes the values of all elements away that are variables of their own. */
static void clear_keys(struct shell *s, const char *begin)
{
    for (int i = 0; i < s->script->variable_count; i++)
        if (strncmp(s->script->variables[i].name, begin, strlen(begin)) == 0)
            s->script->variables[i].count = 0;
}

bool shell_element(struct shell *s, const char *name, size_t name_length, const char *text, size_t length,
                   const struct shell_variable **variable, const char **value, bool *unknown)
{
    struct key key;
    if (!key_of(s, text, length, &key))
        return false;
    const struct shell_variable *list = *variable, *element = NULL;
    if (list && list->keyed && key.known) {
        const char *own = joined_name(s, name, name_length, key.text);
        if (!own)
            return false;
        element = shell_variable(s->script, own, strlen(own));
    }
    *value = NULL;
    if (element && element->count > 0) {
        *variable = element;
        *value = element->values[0];
        *unknown = element->unknown;
        s->from = element->from;
        s->printed = element->printed;
        return true;
    }
    int index = key.known ? number_of(s, list, key.text) : -1;
    if (list && index >= 0 && index < list->count && (!list->keyed || list->apart))
        *value = list->values[index];
    s->printed = key.missing ? key.missing : s->printed;
    *unknown = !key.known || (list && list->unknown) || ((index < 0 || !list) && !(list && list->keyed));
    return true;
}

/* Says that the list's elements, taken together, are not known from here on, and where that begins. The number of none
 * that is known may be any, so that no element is then. */
static bool set_apart(struct shell *s, const char *name, size_t length, const struct key *key, const char *spelled,
                      size_t spelled_length)
{
    struct shell_variable *list = shell_variable(s->script, name, length);
    const struct shell_words none = { 0 };
    const bool unknown = s->unknown;
    const char *printed = s->printed;
    s->unknown = false;
    s->printed = NULL;
    if (!list && (!shell_assign(s, name, length, false, &none, true) ||
                  !(list = shell_variable(s->script, name, length))))
        return false;
    s->unknown = unknown;
    s->printed = printed;
    list->count = list->keyed && !list->apart ? 0 : list->count; /* they are variables of their own already */
    list->keyed = true;
    if (!list->apart) {
        struct text text = { 0 };
        text_printf(&text, "all of %.*s with its %.*s[%.*s] (%.80s:%d)", (int)length, name, (int)length, name,
                    spelled_length < 40 ? (int)spelled_length : 40, spelled,
                    s->file->before ? s->file->path : s->file->name, s->line);
        if (!shell_take(s, &text, &list->apart))
            return false;
    }
    if (key->known)
        return true;
    const char *begin = joined_name(s, name, length, NULL);
    list->count = 0;
    list->unknown = true;
    list->printed = list->printed ? list->printed : list->apart;
    if (begin)
        clear_keys(s, begin);
    return begin != NULL;
}

/* Puts the value into an element that the list has, or adds it to what is there. */
static bool replace(struct shell *s, struct shell_variable *list, int index, bool append,
                    const struct shell_words *value)
{
    const char *word = value->count > 0 ? value->words[0] : "";
    struct text joined = { 0 };
    list->unknown = list->unknown || s->unknown;
    list->printed = list->printed ? list->printed : shell_missing(s, value);
    text_printf(&joined, "%s%s", append ? list->values[index] : "", word);
    return shell_take(s, &joined, &list->values[index]);
}

bool shell_set_element(struct shell *s, const char *name, size_t name_length, const char *text, size_t length,
                       bool append, const struct shell_words *value)
{
    struct shell_variable *list = shell_variable(s->script, name, name_length);
    struct key key;
    if (!key_of(s, text, length, &key))
        return false;
    int index = key.known ? number_of(s, list, key.text) : -1, count = list ? list->count : 0;
    if (index < 0 || index > count || (list && list->keyed)) {
        const char *own = joined_name(s, name, name_length, key.text);
        return own && set_apart(s, name, name_length, &key, text, length) &&
               (!key.known || shell_assign(s, own, strlen(own), append, value, false));
    }
    if (!list || index == count)
        return shell_assign(s, name, name_length, list != NULL, value, true);
    return replace(s, list, index, append, value);
}

/* Of a word "[KEY]=VALUE" the end of its key; NULL: it is another. */
static const char *key_end(const char *word)
{
    return word[0] == '[' ? strstr(word, "]=") : NULL;
}

/* Whether the words are elements 0, 1 and so on, or have no key, which make a list like any other. */
static bool in_order(const struct shell_words *values)
{
    for (int i = 0; i < values->count; i++) {
        const char *word = values->words[i], *stop = key_end(word);
        char *end = NULL;
        if (stop && (!isdigit((unsigned char)word[1]) || strtol(word + 1, &end, 10) != i || end != stop))
            return false;
    }
    return true;
}

/* Whether all words have names, so that only their order is bash's; a number has its place. */
static bool all_named(const struct shell_words *values)
{
    for (int i = 0; i < values->count; i++)
        if (!key_end(values->words[i]) || isdigit((unsigned char)values->words[i][1]))
            return false;
    return true;
}

/* Sets elements by their keys; one without makes all of them unknown. */
static bool set_keys(struct shell *s, const char *name, size_t length, const struct shell_words *words, bool named)
{
    for (int i = 0; i < words->count; i++) {
        const char *word = words->words[i], *end = key_end(word), *value = end ? end + 2 : "";
        struct key key = { .text = end ? shell_copy(s, word + 1, (size_t)(end - word - 1)) : "", .known = end };
        const char *own = key.text ? joined_name(s, name, length, key.text) : NULL;
        const struct shell_words one = { .count = 1, .words = &value };
        const struct shell_variable *before = own ? shell_variable(s->script, own, strlen(own)) : NULL;
        named = named && !(before && before->count > 0);
        if (!own || (!named && !set_apart(s, name, length, &key, key.text, strlen(key.text))))
            return false;
        if (end && !shell_assign(s, own, strlen(own), false, &one, false))
            return false;
    }
    return true;
}

bool shell_assign_list(struct shell *s, const char *name, size_t length, bool append, const struct shell_words *values)
{
    struct shell_variable *list = shell_variable(s->script, name, length);
    const char *begin = joined_name(s, name, length, NULL);
    struct shell_words all = { .hidden = values->hidden };
    bool fresh = !append || !list || (list->count == 0 && !list->keyed), keyed = false;
    if (!begin)
        return false;
    if (!append && list && list->keyed) {
        clear_keys(s, begin);
        list->keyed = false;
        list->apart = NULL;
    }
    for (int i = 0; i < values->count; i++) {
        const char *end = key_end(values->words[i]);
        keyed = keyed || end;
        if (!shell_add_word(s, &all, end ? end + 2 : values->words[i]))
            return false;
    }
    keyed = (keyed && !(fresh && in_order(values))) || (append && list && list->keyed);
    if (!keyed)
        return shell_assign(s, name, length, append, &all, true);
    bool named = fresh && all_named(values);
    all.count = named ? all.count : 0;
    if (!shell_assign(s, name, length, append, &all, true))
        return false;
    shell_variable(s->script, name, length)->keyed = true;
    return set_keys(s, name, length, values, named);
}
