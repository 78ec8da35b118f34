/* Any bytes as what a user of each target has, in each of its forms: refused with a place, or a launch that makes
 * sense. */
#include "targets/target.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* Whatever file is named has the same bytes. */
struct same_file {
    struct launch_beside way;
    const char *text;
    size_t length;
};

static bool read_same(const struct launch_beside *way, struct arena *arena, const char *name, const char **text,
                      size_t *length, bool *elsewhere, struct error *err)
{
    const struct same_file *file = (const struct same_file *)way;
    *text = file->text;
    *length = file->length;
    *elsewhere = file->length % 2 != 0;
    return arena && name && err;
}

static bool source_same(const struct launch_beside *way, struct arena *arena, const char *name, const char **path,
                        const char **text, size_t *length, const char **why, struct error *err)
{
    const struct same_file *file = (const struct same_file *)way;
    *path = name;
    *text = file->text;
    *length = file->length;
    *why = strlen(name) % 8 == 0 ? "its name is too even" : NULL;
    return arena && err;
}

static void unread_same(const struct launch_beside *way, const char *name, const char *why)
{
    must(way && *name && *why);
}

static void try_read(const struct target *target, const char *name, const uint8_t *data, size_t size, bool follows)
{
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct same_file file = { { read_same, source_same, unread_same }, (const char *)data, size };
    struct launch_read read = { .beside = follows ? &file.way : NULL };
    if (!target->read || !target->read(&read, &arena, name, (const char *)data, size, &err)) {
        must(!target->read || (err.kind == ERROR_INPUT && (follows || strncmp(err.message, "fuzz", 4) == 0)));
        arena_free(&arena);
        return;
    }
    const struct launch *l = &read.launch;
    must(l->tensor >= 1 && l->context >= 1 && l->pipeline >= 1 && l->expert >= 1 && l->chunks >= 1);
    must(l->data >= (read.says_data ? 1 : 0) && l->batch >= (read.says_batch ? 1 : 0) && l->micro_batch >= 0);
    must(l->zero >= 0 && l->zero <= 3 && l->loss_chunks >= 1 && l->clip_norm >= 0);
    must(l->piece_count == 0 || l->piece_count == l->pipeline * l->chunks);
    for (int i = 0; i < l->piece_count; i++)
        must(l->piece_blocks[i] >= 0);
    for (int i = 0; i < read.unknown_count; i++)
        must(read.unknown[i] != NULL);
    model_free(read.model);
    arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = { "fuzz.toml", "fuzz.py", "fuzz.sh", "fuzz.json", "fuzz.yaml", "fuzz" };
    for (int t = 0; targets[t]; t++)
        for (size_t n = 0; n < sizeof names / sizeof *names; n++)
            for (int follows = 0; follows < 2; follows++)
                try_read(targets[t], names[n], data, size, follows);
    for (int t = 0; launch_sources[t]; t++)
        try_read(launch_sources[t], "fuzz.json", data, size, false);
    return 0;
}
