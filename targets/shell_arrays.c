/* Elements of a script's lists, by number or by name. One that a name stands for, as in declare -A, or a number beyond
 * the list's end, is a variable of its own, which is called NAME[KEY]. */
#include "targets/shell_expand.h"
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The key with its variables' values and without its quotes. *known: nothing in it came to nothing. */
static bool key_of(struct shell *s, const char *text, size_t length, const char **out, bool *known)
{
    const char *missing;
    struct shell inner = *s;
    bool quoted = length > 1 && (*text == '"' || *text == '\'') && text[length - 1] == *text;
    bool good = shell_expand_text(&inner, text + quoted, length - 2 * (size_t)quoted, out, &missing);
    s->grown = inner.grown;
    *known = good && (**out || length == 2 * (size_t)quoted);
    return good;
}

/* The number that the key is, or that a variable of that name has; -1: none. */
static int number_of(const struct shell *s, const char *key)
{
    const char *value = isdigit((unsigned char)*key) ? key : shell_value(s->script, key);
    size_t length = value ? strlen(value) : 0;
    return length > 0 && length < 7 && strspn(value, "0123456789") == length ? (int)strtol(value, NULL, 10) : -1;
}

/* "NAME[KEY]", or "NAME[" where there is no key. */
static const char *joined_name(struct shell *s, const char *name, size_t length, const char *key)
{
    struct text text = { 0 };
    const char *out;
    text_printf(&text, "%.*s[%s%s", (int)length, name, key ? key : "", key ? "]" : "");
    return shell_take(s, &text, &out) ? out : NULL;
}

/* Whether any element is a variable of its own; clears: takes the values of all of them away. */
static bool has_keys(struct shell *s, const char *begin, bool clears)
{
    bool any = false;
    for (int i = 0; i < s->script->variable_count; i++) {
        struct shell_variable *one = &s->script->variables[i];
        if (strncmp(one->name, begin, strlen(begin)) != 0)
            continue;
        any = true;
        one->count = clears ? 0 : one->count;
    }
    return any;
}

bool shell_element(struct shell *s, const char *name, size_t name_length, const char *key, size_t key_length,
                   const struct shell_variable **variable, const char **value, bool *unknown)
{
    bool known;
    if (!key_of(s, key, key_length, &key, &known))
        return false;
    const char *own = joined_name(s, name, name_length, key), *begin = joined_name(s, name, name_length, NULL);
    if (!own || !begin)
        return false;
    const struct shell_variable *list = *variable, *element = shell_variable(s->script, own, strlen(own));
    int index = known ? number_of(s, key) : -1;
    *value = NULL;
    if (known && element && element->count > 0) {
        *variable = element;
        *value = element->values[0];
        *unknown = element->unknown;
        s->from = element->from;
        s->printed = s->printed ? s->printed : element->printed;
        return true;
    }
    if (list && index >= 0 && index < list->count)
        *value = list->values[index];
    *unknown = !known || (list && list->unknown) || (index < 0 || !list ? !has_keys(s, begin, false) : false);
    return true;
}

bool shell_set_element(struct shell *s, const char *name, size_t name_length, const char *key, size_t key_length,
                       bool append, const struct shell_words *value)
{
    struct shell_variable *list = shell_variable(s->script, name, name_length);
    bool known, unknown = s->unknown;
    if (!key_of(s, key, key_length, &key, &known))
        return false;
    s->unknown = unknown;
    int index = known ? number_of(s, key) : -1;
    const char *own = joined_name(s, name, name_length, key), *begin = joined_name(s, name, name_length, NULL);
    if (!own || !begin)
        return false;
    if (index < 0 || index > (list ? list->count : 0) || has_keys(s, begin, false))
        return !known || shell_assign(s, own, strlen(own), append, value, false);
    if (!list || index == list->count)
        return shell_assign(s, name, name_length, list != NULL, value, true);
    if (value->count > 0 && !append)
        list->values[index] = value->words[0];
    return true;
}

bool shell_take_keys(struct shell *s, const char *name, size_t name_length, bool append, struct shell_words *values)
{
    const char *begin = joined_name(s, name, name_length, NULL);
    if (!begin)
        return false;
    has_keys(s, begin, !append);
    for (int i = 0; i < values->count; i++) {
        const char *word = values->words[i], *end = word[0] == '[' ? strstr(word, "]=") : NULL;
        if (!end)
            continue;
        const char *key = shell_copy(s, word + 1, (size_t)(end - word - 1)), *value = end + 2;
        const char *own = key ? joined_name(s, name, name_length, key) : NULL;
        const struct shell_words one = { .count = 1, .words = &value };
        if (!own || !shell_assign(s, own, strlen(own), false, &one, false))
            return false;
        values->words[i] = value;
    }
    return true;
}
