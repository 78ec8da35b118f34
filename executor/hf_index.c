#include "executor/hf_index.h"
#include "base/json.h"
#include <stdlib.h>
#include <string.h>

/* Each new name is compared with all before it: 10,000 took a quarter of a second to refuse. */
enum { MOST_FILES = 4096 };

static bool is_good_file(const char *name)
{
    static const char end[] = ".safetensors";
    size_t length = strlen(name);
    return length > sizeof end - 1 && length < 200 && name[0] != '.' && !strchr(name, '/') &&
           strcmp(name + length - (sizeof end - 1), end) == 0;
}

static int by_tensor(const void *a, const void *b)
{
    return strcmp(((const struct hf_index_entry *)a)->tensor, ((const struct hf_index_entry *)b)->tensor);
}

/* Entries of one file mostly follow each other, or two files take turns. */
static bool find_file(struct hf_index *index, const struct json *at, const char *name, int *capacity, int *out,
                      struct error *err)
{
    for (int i = index->file_count; i-- > 0;)
        if (strcmp(index->files[i], name) == 0) {
            *out = i;
            return true;
        }
    if (index->file_count == MOST_FILES)
        return json_fail(at, err, "expected at most %d files", MOST_FILES);
    const char **files = arena_more(&index->arena, index->files, index->file_count, capacity, sizeof *files);
    const char *copy = arena_strdup(&index->arena, name);
    if (!files || !copy)
        return fail_memory(err);
    index->files = files;
    files[ *out = index->file_count++] = copy;
    return true;
}

static bool read_map(void *self, const struct json *root, struct error *err)
{
    struct hf_index *index = self;
    const struct json *map;
    const char *file;
    int capacity = 0;
    if (json_type(root) != JSON_OBJECT)
        return json_fail(root, err, "expected an object, found %s", json_type_name(json_type(root)));
    if (!json_require(root, "weight_map", &map, err))
        return false;
    if (json_type(map) != JSON_OBJECT || json_count(map) == 0)
        return json_fail(map, err, "expected an object with a file for each tensor");
    index->entries = arena_alloc(&index->arena, (size_t)json_count(map), sizeof *index->entries);
    if (!index->entries)
        return fail_memory(err);
    for (int i = 0; i < json_count(map); i++) {
        const struct json *at = json_member_at(map, i);
        struct hf_index_entry *entry = &index->entries[index->count];
        if (!json_string(at, &file, err))
            return false;
        if (!is_good_file(file))
            return json_fail(at, err, "expected the name of a safetensors file beside the index, found \"%.64s\"",
                             file);
        if (!(entry->tensor = arena_strdup(&index->arena, json_key(map, i))))
            return fail_memory(err);
        if (!find_file(index, at, file, &capacity, &entry->file, err))
            return false;
        index->count++;
    }
    qsort(index->entries, (size_t)index->count, sizeof *index->entries, by_tensor);
    return true;
}

bool hf_index_parse(struct hf_index **out, const char *name, const char *text, size_t length, struct error *err)
{
    struct hf_index *index = calloc(1, sizeof *index);
    if (!index)
        return fail_memory(err);
    if (!json_parse_with(name, text, length, read_map, index, err)) {
        hf_index_free(index);
        return false;
    }
    *out = index;
    return true;
}

void hf_index_free(struct hf_index *index)
{
    if (!index)
        return;
    arena_free(&index->arena);
    free(index);
}

int hf_index_file(const struct hf_index *index, const char *tensor)
{
    const struct hf_index_entry key = { .tensor = tensor };
    const struct hf_index_entry *found =
        index->count ? bsearch(&key, index->entries, (size_t)index->count, sizeof key, by_tensor) : NULL;
    return found ? found->file : -1;
}
