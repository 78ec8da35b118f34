#define _GNU_SOURCE
#include "executor/hf_folder.h"
#include "base/num.h"
#include "base/text.h"
#include "executor/hf_elements.h"
#include "executor/hf_index.h"
#include "host/file.h"
#include "planner/program/geometry.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SHOWN = 8 }; /* of names that are wrong a message has the first */

static bool path_of(char **out, struct arena *arena, const char *folder, const char *name, struct error *err)
{
    struct text path = { 0 };
    text_printf(&path, "%s/%s", folder, name);
    *out = path.failed ? NULL : arena_strdup(arena, path.data);
    text_free(&path);
    return *out || fail_memory(err);
}

/* ---- a file ---- */
/* The whole file, as the system pages it in: a rank reads its own part of it. */
static bool map_file(struct hf_file *file, const char *path, struct error *err)
{
    struct stat status;
    int handle = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe in its place would wait for ever */
    if (handle < 0 || fstat(handle, &status) != 0 || !S_ISREG(status.st_mode)) {
        int error = handle < 0 ? errno : 0;
        if (handle >= 0)
            close(handle);
        return fail_kind(err, ERROR_INPUT, "%s: cannot read it: %s", path, error ? strerror(error) : "it is no file");
    }
    file->bytes = (int64_t)status.st_size;
    void *data = file->bytes < SAFETENSORS_LENGTH_BYTES
                     ? MAP_FAILED
                     : mmap(NULL, (size_t)file->bytes, PROT_READ, MAP_PRIVATE, handle, 0);
    const int error = file->bytes < SAFETENSORS_LENGTH_BYTES ? 0 : errno;
    close(handle);
    if (data == MAP_FAILED && error == ENOMEM)
        return fail_memory(err);
    if (data == MAP_FAILED)
        return fail_kind(err, ERROR_INPUT, "%s: cannot read a safetensors file of %lld bytes", path,
                         (long long)file->bytes);
    file->data = data;
    file->head = data;
    return true;
}

static bool open_file(struct hf_folder *folder, struct hf_file *file, struct error *err)
{
    size_t length;
    char *path;
    return path_of(&path, &folder->arena, folder->path, file->name, err) && map_file(file, path, err) &&
           safetensors_header_bytes(&length, path, file->data, file->bytes, err) &&
           safetensors_parse(&file->header, path, file->head + SAFETENSORS_LENGTH_BYTES, length, file->bytes, err);
}

/* ---- which tensor is where ---- */
struct named {
    const char *name;
    struct hf_found at;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

struct names {
    struct named *list;
    int count;
};

/* All tensors of all files by name. */
static bool list_names(struct hf_folder *folder, struct names *out, struct error *err)
{
    int64_t count = 0;
    for (int f = 0; f < folder->file_count; f++)
        count += folder->files[f].header->count;
    out->list = arena_alloc(&folder->arena, (size_t)count + 1, sizeof *out->list);
    if (!out->list)
        return fail_memory(err);
    for (int f = 0; f < folder->file_count; f++)
        for (int t = 0; t < folder->files[f].header->count; t++)
            out->list[out->count++] = (struct named){ folder->files[f].header->tensors[t].name, { f, t } };
    qsort(out->list, (size_t)out->count, sizeof *out->list, by_name);
    for (int i = 1; i < out->count; i++)
        if (strcmp(out->list[i - 1].name, out->list[i].name) == 0)
            return fail_kind(err, ERROR_INPUT, "%s: tensor %.100s is in %s and in %s", folder->path, out->list[i].name,
                             folder->files[out->list[i - 1].at.file].name, folder->files[out->list[i].at.file].name);
    return true;
}

/* The index is right about every tensor: what it names is there, and where it says. */
static bool check_index(const struct hf_folder *folder, const struct hf_index *index, const struct names *names,
                        struct error *err)
{
    for (int i = 0; i < names->count; i++) {
        int said = hf_index_file(index, names->list[i].name);
        if (said != names->list[i].at.file)
            return fail_kind(err, ERROR_INPUT, "%s: tensor %.100s is in %s, the index says %s", folder->path,
                             names->list[i].name, folder->files[names->list[i].at.file].name,
                             said < 0 ? "nothing of it" : folder->files[said].name);
    }
    for (int i = 0; i < index->count; i++) {
        const struct named key = { .name = index->entries[i].tensor };
        if (!bsearch(&key, names->list, (size_t)names->count, sizeof key, by_name))
            return fail_kind(err, ERROR_INPUT, "%s: tensor %.100s is not in %s, where the index says that it is",
                             folder->path, key.name, folder->files[index->entries[i].file].name);
    }
    return true;
}

static bool check_tensor(const struct hf_folder *folder, const struct hf_tensor *want, struct hf_found at,
                         struct error *err)
{
    const struct tensor *found = &folder->files[at.file].header->tensors[at.tensor];
    bool same = found->dim_count == want->dim_count;
    struct text expected = { 0 }, got = { 0 };
    for (int d = 0; same && d < want->dim_count; d++)
        same = found->shape[d] == want->shape[d];
    for (int d = 0; d < want->dim_count; d++)
        text_printf(&expected, "%s%lld", d ? ", " : "", (long long)want->shape[d]);
    for (int d = 0; d < found->dim_count; d++)
        text_printf(&got, "%s%lld", d ? ", " : "", (long long)found->shape[d]);
    if (!same)
        fail_kind(err, ERROR_INPUT, "%s/%s: tensor %s: the model has [%s], found [%s]", folder->path,
                  folder->files[at.file].name, want->name, expected.data ? expected.data : "",
                  got.data ? got.data : "");
    else if (!hf_elements_known(found->type))
        same = fail_kind(err, ERROR_INPUT, "%s/%s: tensor %s: expected F32, BF16 or F16, found %s", folder->path,
                         folder->files[at.file].name, want->name, tensor_type_names[found->type]);
    text_free(&expected);
    text_free(&got);
    return same;
}

/* A list of names for a message; further ones are counted. */
struct wrong {
    struct text text;
    int count;
};

static void add_wrong(struct wrong *wrong, const char *name)
{
    if (wrong->count++ < SHOWN)
        text_printf(&wrong->text, "%s%.100s", wrong->count > 1 ? ", " : "", name);
}

static bool fail_wrong(const struct hf_folder *folder, struct wrong *missing, struct wrong *strange, struct error *err)
{
    struct text what = { 0 };
    if (missing->count)
        text_printf(&what, "%d tensors of the model are missing: %s%s", missing->count, missing->text.data,
                    missing->count > SHOWN ? ", ..." : "");
    if (strange->count)
        text_printf(&what, "%s%d tensors are of no weight of the model: %s%s", missing->count ? "; " : "",
                    strange->count, strange->text.data, strange->count > SHOWN ? ", ..." : "");
    bool right = !missing->count && !strange->count;
    if (!right)
        fail_kind(err, ERROR_INPUT, "%s: %s", folder->path, what.data ? what.data : "its tensors are not the model's");
    text_free(&what);
    text_free(&missing->text);
    text_free(&strange->text);
    return right;
}

/* Marks by `used` which of the names the model takes. */
static bool find_tensors(struct hf_folder *folder, const struct names *names, bool *used, struct wrong *missing,
                         struct error *err)
{
    const struct hf_tensors *tensors = folder->tensors;
    for (int i = 0; i < tensors->count; i++) {
        const struct hf_tensor *want = &tensors->list[i];
        const struct named key = { .name = want->name };
        const struct named *found = bsearch(&key, names->list, (size_t)names->count, sizeof key, by_name);
        folder->found[i] = found ? found->at : (struct hf_found){ -1, -1 };
        if (!found && want->twin < 0)
            add_wrong(missing, want->name);
        if (found && !check_tensor(folder, want, found->at, err))
            return false;
        if (found)
            used[found - names->list] = true;
    }
    return true;
}

static const unsigned char *bytes_of(const struct hf_folder *folder, struct hf_found at, const struct tensor **out)
{
    const struct hf_file *file = &folder->files[at.file];
    *out = &file->header->tensors[at.tensor];
    return file->data + file->header->data_start + (*out)->offset;
}

/* A head that is said to use the embedding's table must have the same. */
static bool check_twins(const struct hf_folder *folder, struct error *err)
{
    for (int i = 0; i < folder->tensors->count; i++) {
        const struct hf_tensor *twin = &folder->tensors->list[i];
        const struct tensor *a, *b;
        if (twin->twin < 0 || folder->found[i].tensor < 0)
            continue;
        const unsigned char *x = bytes_of(folder, folder->found[i], &a),
                            *y = bytes_of(folder, folder->found[twin->twin], &b);
        if (a->type != b->type || memcmp(x, y, (size_t)a->bytes) != 0)
            return fail_kind(
                err, ERROR_INPUT,
                "%s: tensor %s differs from %s, but the model has one table for both (tie_word_embeddings)",
                folder->path, twin->name, folder->tensors->list[twin->twin].name);
    }
    return true;
}

static bool has_prefix(const struct names *names, const char *prefix)
{
    bool some = false;
    for (int i = 0; i < names->count && !some; i++)
        some = strncmp(names->list[i].name, prefix, strlen(prefix)) == 0;
    return some;
}

static bool match(struct hf_folder *folder, const struct hf_tensor_names *family, const struct graph *graph,
                  const struct hf_index *index, struct error *err)
{
    struct names names = { 0 };
    struct wrong missing = { 0 }, strange = { 0 };
    if (!list_names(folder, &names, err) || (index && !check_index(folder, index, &names, err)))
        return false;
    if (!hf_tensors_of(&folder->tensors, family, names.count == 0 || has_prefix(&names, family->prefix), graph, err))
        return error_within(err, "%s", folder->path);
    bool *used = arena_alloc(&folder->arena, (size_t)names.count + 1, sizeof *used);
    folder->found = arena_alloc(&folder->arena, (size_t)folder->tensors->count + 1, sizeof *folder->found);
    if (!used || !folder->found)
        return fail_memory(err);
    bool ok = find_tensors(folder, &names, used, &missing, err);
    for (int i = 0; ok && i < names.count; i++)
        if (!used[i] && !hf_is_buffer(names.list[i].name))
            add_wrong(&strange, names.list[i].name);
    return fail_wrong(folder, &missing, &strange, err) && ok && check_twins(folder, err);
}

/* ---- a folder ---- */
static bool set_files(struct hf_folder *folder, const struct hf_index *index, struct error *err)
{
    const int count = index ? index->file_count : 1;
    folder->files = arena_alloc(&folder->arena, (size_t)count, sizeof *folder->files);
    if (!folder->files)
        return fail_memory(err);
    for (int i = 0; i < count; i++) {
        folder->files[i].name = index ? arena_strdup(&folder->arena, index->files[i]) : HF_FILE;
        folder->file_count = i + 1;
        if (!folder->files[i].name)
            return fail_memory(err);
        if (!open_file(folder, &folder->files[i], err))
            return false;
    }
    return true;
}

/* As the library does: the one file before an index. */
static bool read_index(struct hf_folder *folder, struct hf_index **out, struct error *err)
{
    char *one, *path, *text = NULL;
    if (!path_of(&one, &folder->arena, folder->path, HF_FILE, err) ||
        !path_of(&path, &folder->arena, folder->path, HF_INDEX, err))
        return false;
    if (access(one, F_OK) == 0)
        return true;
    if (access(path, F_OK) != 0)
        return fail_kind(err, ERROR_INPUT,
                         "%s: expected a folder with " HF_FILE " or " HF_INDEX ", found neither (of weights in another "
                         "format save_pretrained(..., safe_serialization=True) makes them)",
                         folder->path);
    bool ok = file_read_limited(&text, &folder->index_length, path, FILE_MAX_TEXT_BYTES, err) &&
              hf_index_parse(out, path, text, folder->index_length, err);
    folder->index = ok ? arena_strndup(&folder->arena, text, folder->index_length) : NULL;
    free(text);
    return ok && (folder->index || fail_memory(err));
}

bool hf_folder_open(struct hf_folder **out, const char *path, const struct hf_tensor_names *names,
                    const struct graph *graph, struct error *err)
{
    struct hf_folder *folder = calloc(1, sizeof *folder);
    struct hf_index *index = NULL;
    if (!folder)
        return fail_memory(err);
    folder->path = arena_strdup(&folder->arena, path);
    bool ok = (folder->path || fail_memory(err)) && read_index(folder, &index, err) && set_files(folder, index, err) &&
              match(folder, names, graph, index, err);
    hf_index_free(index);
    if (!ok) {
        hf_folder_free(folder);
        return false;
    }
    *out = folder;
    return true;
}

/* The head of the one file, by way of what a reader makes of it. */
static bool make_head(struct hf_folder *folder, enum tensor_type type, struct error *err)
{
    static const struct tensor_note note = { "format", "pt" }; /* the library asks for it */
    const struct hf_tensors *t = folder->tensors;
    struct tensor *list = arena_alloc(&folder->arena, (size_t)t->count + 1, sizeof *list);
    struct hf_file *file = folder->files = arena_alloc(&folder->arena, 1, sizeof *file);
    int count = 0;
    if (!list || !file || !folder->found)
        return fail_memory(err);
    for (int i = 0; i < t->count; i++) {
        folder->found[i] = (struct hf_found){ 0, t->list[i].twin < 0 ? count : -1 };
        if (t->list[i].twin >= 0)
            continue;
        struct tensor *tensor = &list[count++];
        *tensor = (struct tensor){ .name = t->list[i].name, .type = type, .dim_count = t->list[i].dim_count };
        tensor->bytes = tensor_type_bytes(type);
        for (int d = 0; d < tensor->dim_count; d++)
            tensor->bytes *= tensor->shape[d] = t->list[i].shape[d];
        file->bytes += tensor->bytes;
    }
    size_t length;
    char *head = safetensors_write(list, count, &note, 1, &length);
    file->head = head ? arena_strndup(&folder->arena, head, length) : NULL;
    free(head);
    if (!file->head)
        return fail_memory(err);
    folder->file_count = 1;
    file->name = HF_FILE;
    file->bytes += (int64_t)length;
    return safetensors_parse(&file->header, HF_FILE, file->head + SAFETENSORS_LENGTH_BYTES,
                             length - SAFETENSORS_LENGTH_BYTES, file->bytes, err);
}

bool hf_folder_blank(struct hf_folder **out, const struct hf_tensor_names *names, const struct graph *graph,
                     enum tensor_type type, struct error *err)
{
    struct hf_folder *folder = calloc(1, sizeof *folder);
    bool ok = folder ? hf_tensors_of(&folder->tensors, names, true, graph, err) : fail_memory(err);
    if (ok) {
        folder->found = arena_alloc(&folder->arena, (size_t)folder->tensors->count + 1, sizeof *folder->found);
        ok = make_head(folder, type, err);
    }
    if (!ok) {
        hf_folder_free(folder);
        return false;
    }
    *out = folder;
    return true;
}

void hf_folder_free(struct hf_folder *folder)
{
    if (!folder)
        return;
    for (int i = 0; i < folder->file_count; i++) {
        safetensors_free(folder->files[i].header);
        if (folder->files[i].data)
            munmap((void *)(uintptr_t)folder->files[i].data, (size_t)folder->files[i].bytes);
    }
    hf_tensors_free(folder->tensors);
    arena_free(&folder->arena);
    free(folder);
}

/* ---- elements ---- */
int hf_folder_count(const struct hf_folder *folder)
{
    int count = 0;
    for (int i = 0; i < folder->tensors->count; i++)
        count += folder->found[i].tensor >= 0;
    return count;
}

bool hf_folder_has(const struct hf_folder *folder, int weight)
{
    return folder->tensors->held[weight] > 0;
}

/* The run at a place of the flattened block, and the tensor in its file. */
static struct hf_run next_run(const struct hf_folder *folder, int weight, const struct block *block, int64_t element,
                              int64_t most)
{
    int64_t at[MAX_DIMS];
    int last = block->dim_count - 1;
    int64_t rest = element;
    for (int d = last; d >= 0; d--) {
        at[d] = block->low[d] + rest % block->count[d];
        rest /= block->count[d];
    }
    return hf_run_at(folder->tensors, weight, at, min_i64(most, block->low[last] + block->count[last] - at[last]));
}

static int64_t place_of(const struct hf_folder *folder, const struct hf_run *run, struct hf_found *found,
                        enum tensor_type *type)
{
    *found = folder->found[run->tensor];
    const struct safetensors *header = folder->files[found->file].header;
    const struct tensor *tensor = &header->tensors[found->tensor];
    *type = tensor->type;
    return header->data_start + tensor->offset + run->offset * tensor_type_bytes(tensor->type);
}

void hf_folder_read(const struct hf_folder *folder, int weight, const struct block *block, int64_t first, int64_t count,
                    real *out)
{
    for (int64_t done = 0; done < count;) {
        struct hf_run run = next_run(folder, weight, block, first + done, count - done);
        struct hf_found found;
        enum tensor_type type;
        if (run.tensor < 0) {
            memset(out + done, 0, (size_t)run.count * sizeof *out);
        } else {
            int64_t place = place_of(folder, &run, &found, &type);
            hf_elements_read(out + done, folder->files[found.file].data + place, type, run.stride, run.count);
        }
        done += run.count;
    }
}

void hf_folder_put(const struct hf_folder *folder, int weight, const struct block *block, int64_t first, int64_t count,
                   const real *from, unsigned char *const *data)
{
    for (int64_t done = 0; done < count;) {
        struct hf_run run = next_run(folder, weight, block, first + done, count - done);
        struct hf_found found;
        enum tensor_type type;
        if (run.tensor >= 0) {
            int64_t place = place_of(folder, &run, &found, &type);
            hf_elements_write(data[found.file] + place, type, run.stride, run.count, from + done);
        }
        done += run.count;
    }
}
