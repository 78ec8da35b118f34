#include "targets/settings.h"
#include "base/text.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

bool settings_add(struct settings *settings, const char *key, size_t key_length, const char *value, size_t value_length,
                  int line, int column, struct error *err)
{
    if (settings->count >= SETTINGS_MOST)
        return fail(err, "%s:%d:%d: expected at most %d settings, found more", settings->name, line, column,
                    SETTINGS_MOST);
    settings->list =
        arena_more(settings->arena, settings->list, settings->count, &settings->capacity, sizeof *settings->list);
    if (!settings->list)
        return fail_memory(err);
    struct setting *one = &settings->list[settings->count];
    *one = (struct setting){ .key = arena_strndup(settings->arena, key, key_length),
                             .value = arena_strndup(settings->arena, value, value_length),
                             .file = settings->name,
                             .line = line,
                             .column = column };
    if (!one->key || !one->value)
        return fail_memory(err);
    settings->count++;
    return true;
}

const struct setting *settings_take(struct settings *settings, const char *key)
{
    const struct setting *found = NULL;
    for (int i = 0; i < settings->count; i++)
        if (!settings->list[i].word && strcmp(settings->list[i].key, key) == 0) {
            settings->list[i].taken = true;
            found = &settings->list[i];
        }
    return found;
}

int settings_take_all(struct settings *settings, const char *const *prefixes)
{
    int count = 0;
    for (int i = 0; i < settings->count; i++)
        if (!settings->list[i].taken && !settings->list[i].word && !settings->list[i].unusual &&
            settings_begins_as(settings->list[i].key, prefixes)) {
            settings->list[i].taken = true;
            count++;
        }
    return count;
}

static bool same_number(const char *a, const char *b)
{
    double x, y;
    return text_read_double(a, strlen(a), &x) && text_read_double(b, strlen(b), &y) && x == y;
}

bool settings_truth(bool *out, const char *value)
{
    static const char *const yes[] = { "true", "yes", "on", "1", NULL };
    static const char *const no[] = { "false", "no", "off", "0", NULL };
    *out = settings_is_one_of(value, yes);
    return *out || settings_is_one_of(value, no);
}

bool settings_same_value(const char *a, const char *b)
{
    bool x, y;
    return strcasecmp(a, b) == 0 || same_number(a, b) || (settings_truth(&x, a) && settings_truth(&y, b) && x == y);
}

static bool is_at_most(const char *value, const char *most)
{
    double x, y;
    return text_read_double(value, strlen(value), &x) && text_read_double(most, strlen(most), &y) && x <= y;
}

void settings_keep_unusual(struct settings *settings, const char *key, const char *const *values)
{
    for (int i = 0; i < settings->count; i++) {
        struct setting *one = &settings->list[i];
        bool usual = strcmp(one->key, key) != 0;
        for (const char *const *value = values; *value && !usual; value++)
            usual = settings_same_value(one->value, *value) ||
                    (strncmp(*value, "<=", 2) == 0 && is_at_most(one->value, *value + 2));
        one->unusual = one->unusual || !usual;
    }
}

bool setting_fail(const struct settings *settings, const struct setting *setting, struct error *err, const char *format,
                  ...)
{
    char message[ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    const char *file = setting->file ? setting->file : settings->name;
    return setting->empty
               ? fail(err,
                      "%s:%d:%d: %.200s (%.80s expands to nothing here: write the value in its place, or "
                      "set it before): %s",
                      file, setting->line, setting->column, setting->key, setting->value, message)
               : fail(err, "%s:%d:%d: %.200s: %s", file, setting->line, setting->column, setting->key, message);
}

/* Without the "_" that Python and TOML allow between digits. */
static bool read_number(const char *value, double *out)
{
    char digits[64];
    size_t count = 0;
    for (const char *c = value; *c; c++) {
        if (count + 1 >= sizeof digits)
            return false;
        if (*c != '_' || c == value || !strchr("0123456789", c[-1]) || !c[1] || !strchr("0123456789", c[1]))
            digits[count++] = *c;
    }
    digits[count] = '\0';
    return text_read_double(digits, count, out);
}

static const char *quote_of(const struct setting *setting)
{
    return setting->quoted ? "\"" : "";
}

bool settings_int(struct settings *settings, const char *key, int64_t least, int64_t most, int64_t *out, bool *said,
                  struct error *err)
{
    const struct setting *setting = settings_take(settings, key);
    double value;
    if (said)
        *said = setting != NULL;
    if (!setting)
        return true;
    if (setting->quoted || !read_number(setting->value, &value) || value != floor(value) ||
        fabs(value) > 9007199254740992.0 || (int64_t)value < least || (int64_t)value > most)
        return setting_fail(settings, setting, err, "expected a whole number from %lld to %lld, found %s%.80s%s",
                            (long long)least, (long long)most, quote_of(setting), setting->value, quote_of(setting));
    *out = (int64_t)value;
    return true;
}

bool settings_double(struct settings *settings, const char *key, double least, double *out, bool *said,
                     struct error *err)
{
    const struct setting *setting = settings_take(settings, key);
    double value;
    if (said)
        *said = setting != NULL;
    if (!setting)
        return true;
    if (setting->quoted || !read_number(setting->value, &value) || !(value >= least))
        return setting_fail(settings, setting, err, "expected a number from %g on, found %s%.80s%s", least,
                            quote_of(setting), setting->value, quote_of(setting));
    *out = value;
    return true;
}

bool settings_is_one_of(const char *value, const char *const *words)
{
    for (; *words; words++)
        if (strcasecmp(value, *words) == 0)
            return true;
    return false;
}

bool settings_begins_as(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strncmp(text, *words, strlen(*words)) == 0)
            return true;
    return false;
}

bool settings_is_nothing(const char *value)
{
    return settings_is_one_of(value, SETTING_WORDS("", "null", "none", "~", "false", "no", "[]", "{}"));
}

bool settings_is_true(const char *value)
{
    bool yes;
    return settings_truth(&yes, value) && yes;
}

bool settings_bool(struct settings *settings, const char *key, bool *out, bool *said, struct error *err)
{
    char negated[256];
    const char *dot = strrchr(key, '.');
    int before = dot ? (int)(dot + 1 - key) : 0;
    snprintf(negated, sizeof negated, "%.*sno_%s", before, key, key + before);
    const struct setting *setting = settings_take(settings, key), *not = settings_take(settings, negated);
    bool turned = not &&(!setting || not > setting);
    if (turned)
        setting = not ;
    if (said)
        *said = setting != NULL;
    if (!setting)
        return true;
    struct setting *mine = settings->list + (setting - settings->list);
    bool yes;
    if (setting->empty && !setting->partly) {
        mine->unusual = setting->unset;
        mine->taken = !setting->unset;
        *out = !turned;
    } else if (setting->quoted)
        return setting_fail(settings, setting, err, "expected true or false, found \"%.80s\"", setting->value);
    else if (settings_truth(&yes, setting->value))
        *out = yes != turned;
    else
        return setting_fail(settings, setting, err, "expected true or false, found %.80s", setting->value);
    return true;
}

bool settings_word(struct settings *settings, const char *key, const char *const *words, int *out, bool *said,
                   struct error *err)
{
    const struct setting *setting = settings_take(settings, key);
    struct text list = { 0 };
    if (said)
        *said = setting != NULL;
    if (!setting)
        return true;
    for (int i = 0; words[i]; i++) {
        if (strcasecmp(setting->value, words[i]) == 0) {
            *out = i;
            text_free(&list);
            return true;
        }
        text_printf(&list, "%s%s", i ? ", " : "", words[i]);
    }
    setting_fail(settings, setting, err, "expected one of %s, found %.80s", list.data ? list.data : "", setting->value);
    text_free(&list);
    return false;
}

static bool read_option(struct settings *settings, const struct settings_option *o, const char *key, struct error *err)
{
    bool said = false, good;
    if (o->integer)
        good = settings_int(settings, key, o->least, o->most, o->integer, &said, err);
    else if (o->real)
        good = settings_double(settings, key, (double)o->least, o->real, &said, err);
    else if (o->flag)
        good = settings_bool(settings, key, o->flag, &said, err);
    else
        good = settings_word(settings, key, o->words, o->word, &said, err);
    if (o->said)
        *o->said |= said;
    return good;
}

bool settings_read(struct settings *settings, const struct settings_option *options, size_t count, struct error *err)
{
    static const char *const alone[] = { "", NULL };
    const struct settings_option *end = options + count;
    for (const struct settings_option *o = options; o < end; o++)
        if (o->said)
            *o->said = false;
    for (const struct settings_option *o = options; o < end; o++)
        for (const char *const *section = o->sections ? o->sections : alone; *section; section++) {
            char key[256];
            snprintf(key, sizeof key, "%s%s%s", *section, **section ? "." : "", o->key);
            if (!read_option(settings, o, key, err))
                return false;
        }
    return true;
}

/* Moves the text to those that are left, which have room for it; false: out of memory. */
static bool keep_left(const struct settings *settings, struct text *one, const char **list, int *count)
{
    const char *text = one->failed ? NULL : arena_strdup(settings->arena, one->data);
    one->length = 0;
    list[(*count)++] = text;
    return text != NULL;
}

bool settings_say_something(const struct settings *settings, const char *expected, struct error *err)
{
    for (int i = 0; i < settings->count; i++)
        if (settings->list[i].taken)
            return true;
    return fail(err, "%s: expected %s; found none", settings->name, expected);
}

bool settings_left(const struct settings *settings, int *count, const char ***out)
{
    struct text one = { 0 };
    int elsewhere = 0;
    *count = 0;
    *out = arena_alloc(settings->arena, (size_t)settings->count + (size_t)settings->note_count, sizeof **out);
    bool good = *out != NULL;
    for (int i = 0; good && i < settings->count; i++) {
        const struct setting *setting = &settings->list[i];
        if (setting->taken || setting->word)
            continue;
        elsewhere += setting->elsewhere;
        if (!setting->elsewhere) {
            text_printf(&one, "%s = %s%s", setting->key, setting->value,
                        setting->unset ? " (which is not set: read as if it were not there)" : "");
            good = keep_left(settings, &one, *out, count);
        }
    }
    for (int i = 0; good && i < settings->note_count; i++)
        (*out)[(*count)++] = settings->notes[i];
    if (good && elsewhere > 0) {
        text_printf(&one, "%d settings of files outside of its folder", elsewhere);
        good = keep_left(settings, &one, *out, count);
    }
    text_free(&one);
    return good;
}
