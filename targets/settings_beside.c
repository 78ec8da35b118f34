#include "base/text.h"
#include "targets/target.h"
#include "targets/settings.h"
#include <string.h>

enum { MOST_FILES = 8 };

static bool ends_in(const char *name, const char *end)
{
    size_t length = strlen(name), of_end = strlen(end);
    return length > of_end && strcmp(name + length - of_end, end) == 0;
}

static const char *const settings_of_program[] = { "config", NULL };
/* Whether the setting names a file under one of the keys. What a program is given by a word of its own, or as trl's
 * parser takes it, is one of settings if its name ends so. */
static bool names_file(const struct setting *one, const char *const *keys)
{
    if (keys == settings_of_program)
        return (one->word || strcmp(one->key, "config") == 0) &&
               (ends_in(one->value, ".yaml") || ends_in(one->value, ".yml"));
    for (; *keys && !one->word; keys++)
        if (strcmp(one->key, *keys) == 0)
            return true;
    return false;
}

/* The last setting of one of the keys that nobody took yet, of a program's the first; NULL: there is none. */
static const struct setting *take_file(struct settings *settings, const char *const *keys)
{
    const struct setting *found = NULL;
    for (int i = 0; i < settings->count; i++) {
        struct setting *one = &settings->list[i];
        if (one->taken || !names_file(one, keys))
            continue;
        static const char *const none[] = { "true", "null", "None", "none", "~", NULL };
        one->taken = one->value[0] != '{'; /* "--deepspeed" alone says that it is used, not where its settings are */
        found = one->taken && !settings_is_one_of(one->value, none) ? one : found;
        if (found && keys == settings_of_program)
            break;
    }
    return found;
}

bool settings_put_over(struct settings *under, struct settings *settings, struct error *err)
{
    for (int i = 0; i < settings->count; i++) {
        if (under->count >= SETTINGS_MOST)
            return fail(err, "%s: expected at most %d settings, found more", under->name, SETTINGS_MOST);
        under->list = arena_more(under->arena, under->list, under->count, &under->capacity, sizeof *under->list);
        if (!under->list)
            return fail_memory(err);
        under->list[under->count++] = settings->list[i];
    }
    settings->list = under->list;
    settings->count = under->count;
    settings->capacity = under->capacity;
    return true;
}

bool settings_read_beside(struct settings *settings, const struct setting *named, const struct launch_beside *beside,
                          struct error *err)
{
    const char *name = named->value, *text;
    struct settings file = { .arena = settings->arena, .name = name };
    size_t length;
    bool elsewhere = false;
    bool json = ends_in(name, ".json"), yaml = ends_in(name, ".yaml") || ends_in(name, ".yml"),
         toml = ends_in(name, ".toml"), python = ends_in(name, ".py");
    if (named->empty)
        return setting_fail(settings, named, err, "expected the name of a file, found %.80s", name);
    if (!beside || !(json || yaml || toml || python))
        return setting_fail(settings, named, err, "the settings are in %.80s: read it", name);
    if (!beside->read(beside, settings->arena, name, &text, &length, &elsewhere, err))
        return memory_has_fallen_short() ? false
                                         : error_within(err, "%s:%d:%d: %.200s: the settings are in another file",
                                                        named->file ? named->file : settings->name, named->line,
                                                        named->column, named->word ? named->value : named->key);
    if (!(json   ? settings_read_json(&file, text, length, err)
          : yaml ? settings_read_yaml(&file, text, length, err)
          : toml ? settings_read_toml(&file, text, length, err)
                 : settings_read_python(&file, text, length, err)))
        return false;
    for (int i = 0; i < file.count; i++)
        file.list[i].elsewhere = elsewhere;
    return settings_put_over(&file, settings, err);
}

bool settings_follow(struct settings *settings, const char *const *keys, const struct launch_beside *beside,
                     struct error *err)
{
    for (int files = 0;; files++) {
        const struct setting *named = take_file(settings, keys);
        if (!named)
            named = take_file(settings, settings_of_program);
        if (!named)
            return true;
        if (files == MOST_FILES)
            return setting_fail(settings, named, err, "expected at most %d files that name each other", MOST_FILES);
        if (!settings_read_beside(settings, named, beside, err))
            return false;
    }
}
