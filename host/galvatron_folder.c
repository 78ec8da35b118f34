#define _POSIX_C_SOURCE 200809L
#include "host/galvatron_folder.h"
#include "base/text.h"
#include "host/file.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST_BYTES = 1 << 24 };

static bool join_path(const char **out, const char *folder, const char *name, struct arena *arena, struct error *err)
{
    struct text path = { 0 };
    text_printf(&path, "%s/%s", folder, name);
    *out = path.failed ? NULL : arena_strdup(arena, path.data);
    text_free(&path);
    return *out || fail_memory(err);
}

static bool is_json(const char *name)
{
    size_t length = strlen(name);
    return length > 5 && strcmp(name + length - 5, ".json") == 0;
}

/* The files of each kind: paths, and the first of them. */
struct found {
    int count[GALVATRON_FILES];
    struct text paths[GALVATRON_FILES];
    struct galvatron_text *texts;
};

static bool add_file(struct found *found, const char *folder, const char *name, struct arena *arena, struct error *err)
{
    for (int f = 0; f < GALVATRON_FILES; f++) {
        const char *prefix = galvatron_file_prefix(f), *path;
        if (strncmp(name, prefix, strlen(prefix)) != 0 || !is_json(name))
            continue;
        if (!join_path(&path, folder, name, arena, err))
            return false;
        if (found->count[f]++ == 0)
            found->texts[f].name = path;
        text_printf(&found->paths[f], "%s%s", found->count[f] > 1 ? ", " : "", path);
    }
    return true;
}

static bool look_into(struct found *found, const char *folder, struct arena *arena, struct error *err)
{
    struct dirent **items = NULL;
    int count = scandir(folder, &items, NULL, alphasort);
    if (count < 0 && errno == ENOMEM)
        return fail_memory(err);
    if (count < 0)
        return fail(err, "%s: expected a folder with Galvatron's files: %s", folder, strerror(errno));
    bool done = true;
    for (int i = 0; i < count; i++) {
        done = done && add_file(found, folder, items[i]->d_name, arena, err);
        free(items[i]);
    }
    free(items);
    return done;
}

/* Its folders hold the files of all models and machines that were measured, named after them. */
static bool check_found(const struct found *found, const char *folder, struct error *err)
{
    for (int f = 0; f < GALVATRON_FILES; f++) {
        const char *prefix = galvatron_file_prefix(f), *paths = found->paths[f].data;
        if (found->count[f] == 0)
            return fail(err, "%s: expected a file %s*.json, found none; more than one folder may be given", folder,
                        prefix);
        if (found->count[f] > 1)
            return fail(err,
                        "expected one file %s*.json, found %d: %s; copy that of your model and machine into a folder "
                        "of its own, beside one of each other kind, and give that folder",
                        prefix, found->count[f], paths ? paths : "");
    }
    return true;
}

static bool load(struct galvatron_text *text, struct arena *arena, struct error *err)
{
    char *data;
    if (!file_read_limited(&data, &text->length, text->name, LARGEST_BYTES, err))
        return false;
    char *copy = arena_alloc(arena, text->length + 1, 1);
    if (copy)
        memcpy(copy, data, text->length);
    free(data);
    text->text = copy;
    return copy || fail_memory(err);
}

bool galvatron_folder_read(struct galvatron_text out[GALVATRON_FILES], const char *const *folders, int folder_count,
                           struct arena *arena, struct error *err)
{
    struct found found = { .texts = out };
    bool good = true;
    for (int f = 0; f < GALVATRON_FILES; f++)
        out[f] = (struct galvatron_text){ 0 };
    for (int i = 0; good && i < folder_count; i++)
        good = look_into(&found, folders[i], arena, err);
    good = good && check_found(&found, folders[0], err);
    for (int f = 0; f < GALVATRON_FILES; f++) {
        good = good && load(&out[f], arena, err);
        text_free(&found.paths[f]);
    }
    return good;
}
