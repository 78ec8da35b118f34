#define _GNU_SOURCE
#include "executor/hf_output.h"
#include "base/num.h"
#include "base/text.h"
#include "host/file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { MOST_COPIED = 1 << 28, STRETCH = 1 << 26 };

/* What makes a folder one that the library loads; the configuration first. */
static const char *const copied[] = { "config.json",
                                      "generation_config.json",
                                      "tokenizer.json",
                                      "tokenizer_config.json",
                                      "special_tokens_map.json",
                                      "added_tokens.json",
                                      "tokenizer.model",
                                      "vocab.json",
                                      "merges.txt",
                                      "chat_template.jinja" };
enum { CONFIG, COPIED = sizeof copied / sizeof *copied };

static bool fail_write(struct error *err, const char *what, const char *path, int error)
{
    return fail_kind(err, ERROR_ENVIRONMENT, "%s: cannot %s: %s%s", path, what, strerror(error),
                     file_write_hint(error));
}

static bool path_in(char path[PATH_MAX], const char *folder, const char *name, struct error *err)
{
    return snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX ||
           fail_kind(err, ERROR_INPUT, "%s: the path is too long", folder);
}

static bool is_file_of(const struct hf_folder *like, const char *name)
{
    bool found = like->index && strcmp(name, HF_INDEX) == 0;
    for (int i = 0; i < like->file_count && !found; i++)
        found = strcmp(like->files[i].name, name) == 0;
    return found;
}

static bool is_weights(const char *name)
{
    size_t length = strlen(name), index = strlen(HF_INDEX), end = strlen(".safetensors");
    return (length > end && strcmp(name + length - end, ".safetensors") == 0) ||
           (length >= index && strcmp(name, HF_INDEX) == 0);
}

static bool is_the_same_folder(const char *a, const char *b)
{
    struct stat x, y;
    return a && b && stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static bool check_name(const struct hf_export *e, const char *name, struct error *err)
{
    bool own = is_file_of(e->like, name), other = !own && is_weights(name);
    for (int i = 0; i < COPIED; i++)
        own = own || strcmp(name, copied[i]) == 0;
    if (other)
        return fail_kind(
            err, ERROR_INPUT,
            "%s/%s: other weights than those to be written lie there: give an empty folder, or remove them", e->folder,
            name);
    return !own || e->overwrite ||
           fail_kind(err, ERROR_INPUT, "%s/%s is there already: give an empty folder, or --overwrite-hf", e->folder,
                     name);
}

static bool check_room(const struct hf_export *e, struct error *err)
{
    struct statvfs system;
    char need[TEXT_NUMBER_BYTES], has[TEXT_NUMBER_BYTES];
    int64_t bytes = 0, room = INT64_MAX;
    for (int i = 0; i < e->like->file_count; i++)
        bytes += e->like->files[i].bytes;
    if (statvfs(e->folder, &system) != 0 || !mul_i64(&room, (int64_t)system.f_bavail, (int64_t)system.f_frsize))
        return true; /* nobody knows */
    return bytes <= room || fail_kind(err, ERROR_ENVIRONMENT,
                                      "%s: the checkpoint takes %s, and the disk has %s: free some space, or "
                                      "choose another place",
                                      e->folder, text_bytes(need, bytes), text_bytes(has, room));
}

bool hf_output_check(const struct hf_export *e, struct error *err)
{
    DIR *folder = opendir(e->folder);
    bool ok = true;
    for (const struct dirent *entry; folder && ok && (entry = readdir(folder));)
        ok = check_name(e, entry->d_name, err);
    if (folder)
        closedir(folder);
    return ok && check_room(e, err);
}

/* Until it is whole a file is called NAME.PROCESS-TRY.tmp. */
static bool is_unfinished(const char *name, const char *file)
{
    int used = 0;
    size_t length = strlen(file);
    return strncmp(name, file, length) == 0 && sscanf(name + length, ".%*9d-%*9d.tmp%n", &used) == 0 && used > 0 &&
           !name[length + (size_t)used];
}

static int create_unfinished(char name[PATH_MAX], const char *path)
{
    enum { TRIES = 100 };
    for (int i = 0; i < TRIES; i++) {
        if (snprintf(name, PATH_MAX, "%s.%d-%d.tmp", path, (int)getpid(), i) >= PATH_MAX) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int handle = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (handle >= 0 || errno != EEXIST)
            return handle;
    }
    return -1;
}

/* What runs that were killed left of these files. */
static void clear_unfinished(const struct hf_export *e)
{
    DIR *folder = opendir(e->folder);
    for (const struct dirent *entry; folder && (entry = readdir(folder));)
        for (int i = 0; i < e->like->file_count; i++)
            if (is_unfinished(entry->d_name, e->like->files[i].name))
                unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder)
        closedir(folder);
}

/* What stands in memory, or the folder itself, whose names have to reach the disk, too. */
static bool sync_path(const char *path, struct error *err)
{
    int handle = open(path, O_RDONLY | O_CLOEXEC);
    bool ok = handle >= 0 && (fsync(handle) == 0 || errno == EINVAL); /* file systems without it keep names at once */
    int error = errno;
    if (handle >= 0)
        close(handle);
    return ok || fail_write(err, "bring it to the disk", path, error);
}

/* A small file, whole or not at all, and on the disk. */
static bool write_small(const char *folder, const char *name, const char *text, size_t length, struct error *err)
{
    char path[PATH_MAX], temporary[PATH_MAX];
    if (!path_in(path, folder, name, err))
        return false;
    int handle = create_unfinished(temporary, path);
    if (handle < 0)
        return fail_write(err, "write a file beside it", path, errno);
    bool ok = true;
    for (size_t done = 0; ok && done < length;) {
        ssize_t put = write(handle, text + done, length - done);
        ok = put >= 0 || errno == EINTR;
        done += put > 0 ? (size_t)put : 0;
    }
    ok = ok && fsync(handle) == 0;
    int error = errno;
    if (close(handle) != 0 && ok) /* where a network file system reports a full disk */
        ok = false, error = errno;
    if (ok && rename(temporary, path) != 0)
        ok = false, error = errno;
    if (!ok)
        unlink(temporary);
    return ok || fail_write(err, "write it", path, error);
}

/* A file of the size, whose bytes the disk has room for: what is written to memory has nowhere to fail. */
static bool open_data(struct hf_output *o, int i, struct error *err)
{
    const struct hf_file *like = &o->export->like->files[i];
    char path[PATH_MAX], name[PATH_MAX];
    if (!path_in(path, o->export->folder, like->name, err))
        return false;
    int handle = create_unfinished(name, path);
    if (handle < 0)
        return fail_write(err, "write a file beside it", path, errno);
    if (!(o->temporary[i] = arena_strdup(&o->arena, name))) {
        unlink(name);
        close(handle);
        return fail_memory(err);
    }
    int error = posix_fallocate(handle, 0, (off_t)like->bytes);
    void *data = error ? MAP_FAILED : mmap(NULL, (size_t)like->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
    if (!error && data == MAP_FAILED)
        error = errno;
    close(handle);
    if (error)
        return fail_write(err, "make room for it", path, error);
    o->data[i] = data;
    /* Buffers and what else is no weight stay as they are. */
    memcpy(data, like->head, (size_t)like->header->data_start);
    for (int t = 0; like->data && t < like->header->count; t++) {
        const struct tensor *tensor = &like->header->tensors[t];
        int64_t at = like->header->data_start + tensor->offset;
        if (hf_is_buffer(tensor->name))
            memcpy(o->data[i] + at, like->data + at, (size_t)tensor->bytes);
    }
    return true;
}

bool hf_output_open(struct hf_output **out, const struct hf_export *export, struct error *err)
{
    struct hf_output *o = calloc(1, sizeof *o);
    if (!o)
        return fail_memory(err);
    const size_t count = (size_t) export->like->file_count;
    o->export = export;
    o->data = arena_alloc(&o->arena, count, sizeof *o->data);
    o->temporary = arena_alloc(&o->arena, count, sizeof *o->temporary);
    clear_unfinished(export);
    bool ok = (o->data && o->temporary) || fail_memory(err);
    for (int i = 0; ok && i < export->like->file_count; i++)
        ok = open_data(o, i, err);
    if (!ok) {
        hf_output_free(o);
        return false;
    }
    *out = o;
    return true;
}

static void fill_twins(struct hf_output *o)
{
    const struct hf_folder *like = o->export->like;
    for (int i = 0; i < like->tensors->count; i++) {
        const int twin = like->tensors->list[i].twin;
        if (twin < 0 || like->found[i].tensor < 0)
            continue;
        const struct hf_found to = like->found[i], from = like->found[twin];
        const struct safetensors *a = like->files[to.file].header, *b = like->files[from.file].header;
        memcpy(o->data[to.file] + a->data_start + a->tensors[to.tensor].offset,
               o->data[from.file] + b->data_start + b->tensors[from.tensor].offset,
               (size_t)a->tensors[to.tensor].bytes);
    }
}

static bool bring_to_disk(const struct hf_output *o, int i, void (*beat)(void *context), void *context,
                          struct error *err)
{
    const int64_t bytes = o->export->like->files[i].bytes;
    for (int64_t at = 0; at < bytes; at += STRETCH) {
        if (msync(o->data[i] + at, (size_t)min_i64(STRETCH, bytes - at), MS_SYNC) != 0)
            return fail_write(err, "bring it to the disk", o->temporary[i], errno);
        beat(context);
    }
    return sync_path(o->temporary[i], err);
}

static bool copy_beside(const struct hf_export *e, struct error *err)
{
    char from[PATH_MAX];
    bool ok = true;
    for (int i = 0; ok && i < COPIED && !is_the_same_folder(e->beside, e->folder); i++) {
        char *text = NULL;
        size_t length = 0;
        if (!path_in(from, e->beside, copied[i], err))
            return false;
        if (i == CONFIG)
            snprintf(from, sizeof from, "%s", e->config);
        if (access(from, F_OK) != 0)
            continue;
        ok = file_read_limited(&text, &length, from, MOST_COPIED, err) &&
             write_small(e->folder, copied[i], text, length, err);
        free(text);
    }
    return ok;
}

bool hf_output_finish(struct hf_output *o, void (*beat)(void *context), void *context, struct error *err)
{
    const struct hf_export *e = o->export;
    char path[PATH_MAX];
    fill_twins(o);
    for (int i = 0; i < e->like->file_count; i++)
        if (!bring_to_disk(o, i, beat, context, err))
            return false;
    if (!copy_beside(e, err))
        return false;
    /* Without its index nobody takes a mixture of old and new files for a checkpoint. */
    if (e->like->index) {
        if (!path_in(path, e->folder, HF_INDEX, err))
            return false;
        if (unlink(path) != 0 && errno != ENOENT)
            return fail_write(err, "replace it", path, errno);
        if (!sync_path(e->folder, err))
            return false;
    }
    for (int i = 0; i < e->like->file_count; i++) {
        if (!path_in(path, e->folder, e->like->files[i].name, err))
            return false;
        if (rename(o->temporary[i], path) != 0)
            return fail_write(err, "give the new file its name", path, errno);
        o->temporary[i] = NULL;
    }
    /* The index comes last: from here on the checkpoint is this one. */
    return sync_path(e->folder, err) &&
           (!e->like->index || (write_small(e->folder, HF_INDEX, e->like->index, e->like->index_length, err) &&
                                sync_path(e->folder, err)));
}

void hf_output_free(struct hf_output *o)
{
    if (!o)
        return;
    for (int i = 0; o->data && o->temporary && i < o->export->like->file_count; i++) {
        if (o->data[i])
            munmap(o->data[i], (size_t)o->export->like->files[i].bytes);
        if (o->temporary[i])
            unlink(o->temporary[i]);
    }
    arena_free(&o->arena);
    free(o);
}
