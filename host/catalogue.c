#define _POSIX_C_SOURCE 200809L
#include "host/catalogue.h"
#include "base/text.h"
#include "host/file.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICE_FILE_BYTES = 1 << 20 };

static bool names_device(const char *file)
{
    size_t length = strlen(file);
    return file[0] != '.' && length > 5 && strcmp(file + length - 5, ".json") == 0;
}

/* The number of device files; fills as many names as there is room for. */
static bool list_folder(const char *folder, struct arena *arena, struct catalogue_entry *entries, int room, int *count,
                        struct error *err)
{
    DIR *directory = opendir(folder);
    if (!directory)
        return fail_kind(err, ERROR_ENVIRONMENT, "%s: cannot read the catalogue of devices: %s", folder,
                         strerror(errno));
    bool done = true;
    *count = 0;
    for (struct dirent *item; done && (item = readdir(directory)) != NULL;) {
        if (!names_device(item->d_name) || (entries && *count >= room))
            continue;
        if (entries) {
            entries[*count].name = arena_strndup(arena, item->d_name, strlen(item->d_name) - 5);
            done = entries[*count].name || fail_kind(err, ERROR_ENVIRONMENT, "%s: out of memory", folder);
        }
        ++*count;
    }
    closedir(directory);
    return done;
}

static int compare_entries(const void *a, const void *b)
{
    const struct catalogue_entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static bool load(struct catalogue *catalogue, const char *folder, struct catalogue_entry *entry, struct error *err)
{
    struct text path = { 0 };
    struct device_type device;
    char *data = NULL;
    size_t length = 0;
    text_printf(&path, "%s/%s.json", folder, entry->name);
    bool done = path.failed ? fail_kind(err, ERROR_ENVIRONMENT, "%s: out of memory", folder)
                            : file_read_limited(&data, &length, path.data, DEVICE_FILE_BYTES, err);
    struct arena scratch = { 0 };
    done = done && device_type_read(&device, &scratch, path.data, data, length, err);
    arena_free(&scratch);
    if (done) {
        char *copy = arena_alloc(&catalogue->arena, length + 1, 1);
        done = copy || fail_kind(err, ERROR_ENVIRONMENT, "%s: out of memory", path.data);
        if (copy)
            memcpy(copy, data, length);
        entry->json = copy;
        entry->length = length;
    }
    free(data);
    text_free(&path);
    return done;
}

bool catalogue_read(struct catalogue **out, const char *folder, struct error *err)
{
    bool done = false;
    int room;
    struct catalogue *catalogue = calloc(1, sizeof *catalogue);
    if (!catalogue)
        return fail_kind(err, ERROR_ENVIRONMENT, "%s: out of memory", folder);
    if (!list_folder(folder, NULL, NULL, 0, &room, err))
        goto cleanup;
    if (room == 0) {
        fail_kind(err, ERROR_ENVIRONMENT,
                  "%s: expected device files (*.json), found none; reinstall, or check the path", folder);
        goto cleanup;
    }
    catalogue->entries = arena_alloc(&catalogue->arena, (size_t)room, sizeof *catalogue->entries);
    if (!catalogue->entries) {
        fail_kind(err, ERROR_ENVIRONMENT, "%s: out of memory", folder);
        goto cleanup;
    }
    if (!list_folder(folder, &catalogue->arena, catalogue->entries, room, &catalogue->count, err))
        goto cleanup;
    qsort(catalogue->entries, (size_t)catalogue->count, sizeof *catalogue->entries, compare_entries);
    for (int i = 0; i < catalogue->count; i++)
        if (!load(catalogue, folder, &catalogue->entries[i], err))
            goto cleanup;
    *out = catalogue;
    catalogue = NULL; /* handed over */
    done = true;
cleanup:
    catalogue_free(catalogue);
    return done;
}

void catalogue_free(struct catalogue *catalogue)
{
    if (!catalogue)
        return;
    arena_free(&catalogue->arena);
    free(catalogue);
}
