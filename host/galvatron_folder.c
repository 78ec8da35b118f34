#define _POSIX_C_SOURCE 200809L
#include "host/galvatron_folder.h"
#include "base/text.h"
#include "host/file.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST_BYTES = 1 << 24 };

static bool no_memory(struct error *err)
{
    return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
}

static bool join_path(const char **out, const char *folder, const char *name, struct arena *arena, struct error *err)
{
    struct text path = { 0 };
    text_printf(&path, "%s/%s", folder, name);
    *out = path.failed ? NULL : arena_strdup(arena, path.data);
    text_free(&path);
    return *out || no_memory(err);
}

static bool is_json(const char *name)
{
    size_t length = strlen(name);
    return length > 5 && strcmp(name + length - 5, ".json") == 0;
}

static bool look_into(struct galvatron_text texts[GALVATRON_FILES], const char *folder, struct arena *arena,
                      struct error *err)
{
    DIR *directory = opendir(folder);
    if (!directory)
        return fail(err, "%s: expected a folder with Galvatron's files: %s", folder, strerror(errno));
    bool done = true;
    for (struct dirent *item; done && (item = readdir(directory)) != NULL;)
        for (int f = 0; done && f < GALVATRON_FILES; f++) {
            const char *prefix = galvatron_file_prefix(f), *path;
            if (strncmp(item->d_name, prefix, strlen(prefix)) != 0 || !is_json(item->d_name))
                continue;
            done = join_path(&path, folder, item->d_name, arena, err);
            if (done && texts[f].name)
                done = fail(err, "expected one file %s*.json, found %s and %s: give a folder with one of them", prefix,
                            texts[f].name, path);
            texts[f].name = path;
        }
    closedir(directory);
    return done;
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
    return copy || no_memory(err);
}

bool galvatron_folder_read(struct galvatron_text out[GALVATRON_FILES], const char *const *folders, int folder_count,
                           struct arena *arena, struct error *err)
{
    for (int f = 0; f < GALVATRON_FILES; f++)
        out[f] = (struct galvatron_text){ 0 };
    for (int i = 0; i < folder_count; i++)
        if (!look_into(out, folders[i], arena, err))
            return false;
    for (int f = 0; f < GALVATRON_FILES; f++) {
        if (!out[f].name)
            return fail(err, "%s: expected a file %s*.json, found none; more than one folder may be given", folders[0],
                        galvatron_file_prefix(f));
        if (!load(&out[f], arena, err))
            return false;
    }
    return true;
}
