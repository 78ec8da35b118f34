#define _GNU_SOURCE
#include "executor/checkpoint/folder.h"
#include "host/file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define UNFINISHED ".tmp"
#define LOCK_FILE ".lock"
enum { LOCK_TRIES = 100 };

struct save_name {
    int64_t step, save;
    bool unfinished;
};
struct checkpoint_folder {
    char path[CHECKPOINT_PATH_BYTES];
    int file, lock;      /* the folder; what is locked, the same where the file system can lock folders */
    int64_t next_save;   /* above all that have been here */
    int64_t last_before; /* the last save that was here when this run came */
    int64_t keep;
    bool overwrite;
};

bool checkpoint_io_fail(struct error *err, const char *what, const char *path)
{
    return fail_kind(err, ERROR_ENVIRONMENT, "checkpoint: cannot %s %s: %s%s", what, path, strerror(errno),
                     file_write_hint(errno));
}

/* ---- names ---- */
static void print_name(char out[CHECKPOINT_NAME_BYTES], int64_t step, int64_t save, bool unfinished)
{
    snprintf(out, CHECKPOINT_NAME_BYTES, "step-%" PRId64 ".save-%" PRId64 "%s", step, save,
             unfinished ? UNFINISHED : "");
}

/* To the letter: whatever else lies in the folder is somebody else's. */
static bool parse_name(const char *text, struct save_name *out)
{
    char same[CHECKPOINT_NAME_BYTES];
    if (sscanf(text, "step-%18" SCNd64 ".save-%18" SCNd64, &out->step, &out->save) != 2 || out->step < 1 ||
        out->save < 1)
        return false;
    for (int unfinished = 0; unfinished < 2; unfinished++) {
        out->unfinished = unfinished;
        print_name(same, out->step, out->save, out->unfinished);
        if (strcmp(text, same) == 0)
            return true;
    }
    return false;
}

bool checkpoint_path(char out[CHECKPOINT_PATH_BYTES], const char *dir, const char *name, struct error *err)
{
    int length = snprintf(out, CHECKPOINT_PATH_BYTES, "%s%s%s", dir, name[0] ? "/" : "", name);
    return length < CHECKPOINT_PATH_BYTES || fail_kind(err, ERROR_INPUT, "checkpoint: the path %s is too long", dir);
}

/* ---- looking through the folder ---- */
/* Calls visit for each name in it. Asks for no memory, as opendir() does: what a run leaves unfinished that ends for
 * want of memory is cleared, too. */
static bool each_name(int folder, void (*visit)(void *context, const char *name), void *context)
{
    _Alignas(struct dirent64) char entries[8 << 10];
    int list = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ssize_t length = list >= 0 ? 1 : -1;
    while (length > 0 && (length = getdents64(list, entries, sizeof entries)) > 0)
        for (ssize_t at = 0; at < length;) {
            const struct dirent64 *entry = (const void *)(entries + at);
            at += entry->d_reclen;
            visit(context, entry->d_name);
        }
    int error = errno;
    if (list >= 0)
        close(list);
    errno = error;
    return length == 0;
}

struct save_visit {
    void (*visit)(void *context, const struct save_name *name);
    void *context;
};

static void visit_save(void *context, const char *text)
{
    const struct save_visit *v = context;
    struct save_name name;
    if (parse_name(text, &name))
        v->visit(v->context, &name);
}

/* Calls visit for each save, whole or not. */
static bool each_save(int folder, void (*visit)(void *context, const struct save_name *name), void *context)
{
    return each_name(folder, visit_save, &(struct save_visit){ visit, context });
}

static void take_newest(void *context, const struct save_name *name)
{
    struct save_name *newest = context;
    if (!name->unfinished && name->save > newest->save)
        *newest = *name;
}

static void take_last(void *context, const struct save_name *name)
{
    int64_t *last = context;
    *last = max_i64(*last, name->save);
}

/* The newest whole save; save is 0 where there is none. *itself: the folder is a save. False: errno says why. */
static bool look(const char *dir, struct save_name *newest, bool *itself)
{
    *newest = (struct save_name){ .save = 0 };
    int folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return false;
    *itself = faccessat(folder, CHECKPOINT_MANIFEST, F_OK, 0) == 0;
    bool looked = *itself || each_save(folder, take_newest, newest);
    int error = errno;
    close(folder);
    errno = error;
    return looked;
}

bool checkpoint_is_empty(const char *dir)
{
    struct save_name newest;
    bool itself = false;
    return look(dir, &newest, &itself) ? !itself && newest.save == 0 : errno == ENOENT;
}

bool checkpoint_newest(const char *dir, char name[CHECKPOINT_NAME_BYTES], struct error *err)
{
    struct save_name newest;
    bool itself = false;
    if (!look(dir, &newest, &itself))
        return fail_kind(err, ERROR_INPUT, "checkpoint: cannot read %s: %s", dir, strerror(errno));
    if (!itself && newest.save == 0)
        return fail_kind(
            err, ERROR_INPUT,
            "checkpoint: expected a checkpoint in %s, found none: give the folder that --checkpoint wrote, "
            "or leave out --resume to begin anew",
            dir);
    name[0] = '\0';
    if (!itself)
        print_name(name, newest.step, newest.save, false);
    return true;
}

/* ---- removing ---- */
static void remove_file(void *folder, const char *name)
{
    if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
        unlinkat(*(const int *)folder, name, 0);
}

/* The entry with all files in it; a link itself and not where it leads. What cannot be removed stays. */
static void remove_tree(int folder, const char *name)
{
    int inside = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inside < 0) {
        unlinkat(folder, name, 0);
        return;
    }
    each_name(inside, remove_file, &inside);
    close(inside);
    unlinkat(folder, name, AT_REMOVEDIR);
}

static void remove_unfinished(void *context, const struct save_name *name)
{
    char text[CHECKPOINT_NAME_BYTES];
    if (!name->unfinished)
        return;
    print_name(text, name->step, name->save, true);
    remove_tree(((struct checkpoint_folder *)context)->file, text);
}

/* It loses its name first: who is killed here leaves something that is not a checkpoint, and the next owner clears. */
static void remove_save(const struct checkpoint_folder *folder, const struct save_name *name)
{
    char whole[CHECKPOINT_NAME_BYTES], parts[CHECKPOINT_NAME_BYTES];
    print_name(whole, name->step, name->save, false);
    print_name(parts, name->step, name->save, true);
    if (renameat(folder->file, whole, folder->file, parts) == 0)
        remove_tree(folder->file, parts);
}

struct thinning {
    const struct checkpoint_folder *folder;
    int64_t least; /* the oldest save to keep */
};

struct newer {
    int64_t than, next; /* the greatest save below `than` */
};

static void take_below(void *context, const struct save_name *name)
{
    struct newer *n = context;
    if (!name->unfinished && name->save < n->than && name->save > n->next)
        n->next = name->save;
}

static void thin(void *context, const struct save_name *name)
{
    const struct thinning *t = context;
    bool replaced = t->folder->overwrite && name->save <= t->folder->last_before;
    if (!name->unfinished && (replaced || name->save < t->least))
        remove_save(t->folder, name);
}

static void remove_older(const struct checkpoint_folder *folder, int64_t newest)
{
    struct thinning t = { folder, newest };
    for (int64_t kept = 1; kept < folder->keep; kept++) {
        struct newer n = { .than = t.least };
        if (!each_save(folder->file, take_below, &n) || n.next == 0)
            break;
        t.least = n.next;
    }
    each_save(folder->file, thin, &t);
}

/* ---- owning it ---- */
/* The process that holds the lock, as the system lists it; 0: it does not say. */
static long owner_of(int file)
{
    struct stat locked;
    char line[256];
    long process, found = 0;
    unsigned major_number, minor_number;
    unsigned long long inode;
    FILE *list = fstat(file, &locked) == 0 ? fopen("/proc/locks", "r") : NULL;
    while (list && fgets(line, sizeof line, list))
        if (sscanf(line, "%*s FLOCK %*s %*s %ld %x:%x:%llu", &process, &major_number, &minor_number, &inode) == 4 &&
            inode == (unsigned long long)locked.st_ino)
            found = process;
    if (list)
        fclose(list);
    return max_i64(found, 0);
}

static bool fail_owned(const struct checkpoint_folder *folder, int file, struct error *err)
{
    long process = owner_of(file);
    char who[64] = "another run";
    if (process > 0)
        snprintf(who, sizeof who, "another run (process %ld)", process);
    return fail_kind(err, ERROR_INPUT,
                     "checkpoint: %s saves in %s: choose another folder with --checkpoint, or wait until it has ended",
                     who, folder->path);
}

/* Network file systems lock only files that can be written. Whoever holds the lock on the file removes it, so that one
 * that was opened before may no longer be the one with the name. */
static bool lock_file(struct checkpoint_folder *folder, struct error *err)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        struct stat held, named;
        int file = openat(folder->file, LOCK_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (file < 0)
            return checkpoint_io_fail(err, "open " LOCK_FILE " in", folder->path);
        if (flock(file, LOCK_EX | LOCK_NB) != 0) {
            bool owned = errno == EWOULDBLOCK ? fail_owned(folder, file, err)
                                              : checkpoint_io_fail(err, "lock " LOCK_FILE " in", folder->path);
            close(file);
            return owned;
        }
        folder->lock = file;
        if (fstat(file, &held) == 0 && fstatat(folder->file, LOCK_FILE, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
            held.st_ino == named.st_ino)
            return true;
        close(file);
        folder->lock = -1;
    }
    return fail_kind(err, ERROR_ENVIRONMENT, "checkpoint: cannot lock %s", folder->path);
}

static bool take_lock(struct checkpoint_folder *folder, struct error *err)
{
    folder->lock = folder->file;
    if (flock(folder->file, LOCK_EX | LOCK_NB) == 0)
        return true;
    return errno == EWOULDBLOCK ? fail_owned(folder, folder->file, err) : lock_file(folder, err);
}

static void give_up_lock(struct checkpoint_folder *folder)
{
    if (folder->lock >= 0 && folder->lock != folder->file) {
        unlinkat(folder->file, LOCK_FILE, 0);
        close(folder->lock);
    }
    if (folder->file >= 0)
        close(folder->file);
}

static bool open_folder(struct checkpoint_folder *folder, struct error *err)
{
    const char *path = folder->path;
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return checkpoint_io_fail(err, "make the folder", path);
    folder->file = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->file < 0)
        return checkpoint_io_fail(err, "open the folder", path);
    int above = openat(folder->file, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (above >= 0) { /* the folder's own name; where one may not look it was there before */
        fsync(above);
        close(above);
    }
    return true;
}

/* ---- what may be replaced ---- */
static bool same_folder(const char *a, int b)
{
    struct stat x, y;
    return a && stat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Tells whether the run goes on from this save, by its own path or as the newest of its folder. */
static bool resumes(const struct checkpoint_folder *folder, const char *resume, const char *name)
{
    int save = openat(folder->file, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is = same_folder(resume, folder->file) || (save >= 0 && same_folder(resume, save));
    if (save >= 0)
        close(save);
    return is;
}

/* A run that does not go on from what is there would replace it: also where it reaches as far, since other data, rates
 * or a request to end early make it another one. */
static bool fail_held(const struct checkpoint_folder *folder, const struct program *program,
                      const struct run_options *o, const struct manifest *newest, struct error *err)
{
    const struct checkpoint_label *l = &newest->label;
    char what[CHECKPOINT_NAME_BYTES];
    if (l->model_hash != program->graph->model_hash) {
        snprintf(what, sizeof what, "another model, %.200s", newest->model);
        return fail_kind(err, ERROR_INPUT,
                         "checkpoint: %s holds step %" PRId64
                         " of %s: replace it with --overwrite, or choose another folder with --checkpoint",
                         folder->path, l->step, what);
    }
    if (l->seed != o->seed)
        return fail_kind(err, ERROR_INPUT,
                         "checkpoint: %s holds step %" PRId64 " of another seed, %" PRIu64
                         ": go on from it with --resume %s --seed %" PRIu64
                         ", replace it with --overwrite, or choose another folder with --checkpoint",
                         folder->path, l->step, l->seed, folder->path, l->seed);
    return fail_kind(err, ERROR_INPUT,
                     "checkpoint: %s holds step %" PRId64 " of %s: go on from it with --resume %s, replace it with "
                     "--overwrite, or choose another folder with --checkpoint",
                     folder->path, l->step,
                     l->plan_hash == plan_hash(program->plan) ? "an earlier run" : "another plan", folder->path);
}

static bool check_saves(struct checkpoint_folder *folder, const struct program *program, const struct run_options *o,
                        struct error *err)
{
    struct save_name newest = { .save = 0 };
    char name[CHECKPOINT_NAME_BYTES], path[CHECKPOINT_PATH_BYTES];
    if (faccessat(folder->file, CHECKPOINT_MANIFEST, F_OK, 0) == 0)
        return fail_kind(err, ERROR_INPUT,
                         "checkpoint: %s is a checkpoint itself, or holds one of an older release: choose the folder "
                         "above it, or another one, with --checkpoint",
                         folder->path);
    if (!each_save(folder->file, take_newest, &newest) || !each_save(folder->file, take_last, &folder->last_before))
        return checkpoint_io_fail(err, "read the folder", folder->path);
    folder->next_save = folder->last_before + 1;
    print_name(name, newest.step, newest.save, false);
    if (newest.save == 0 || o->checkpoint_overwrite || resumes(folder, o->resume_dir, name))
        return true;
    struct manifest manifest;
    if (!checkpoint_path(path, folder->path, name, err) || !manifest_read(&manifest, path, err))
        return error_within(err, "checkpoint: replace it with --overwrite, or choose another folder");
    fail_held(folder, program, o, &manifest, err);
    manifest_free(&manifest);
    return false;
}

/* False: whoever made it has removed it since it was opened, because he could not go on. */
static bool is_named_so(const struct checkpoint_folder *folder)
{
    struct stat named;
    return stat(folder->path, &named) != 0 ? errno != ENOENT : same_folder(folder->path, folder->file);
}

static bool own_folder(struct checkpoint_folder *folder, struct error *err)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (!open_folder(folder, err) || !take_lock(folder, err))
            return false;
        if (is_named_so(folder))
            return true;
        give_up_lock(folder);
        folder->file = folder->lock = -1;
    }
    return fail_kind(err, ERROR_ENVIRONMENT, "checkpoint: cannot lock %s", folder->path);
}

void checkpoint_folder_forget(const char *path)
{
    int file = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0)
        rmdir(path); /* refuses what is not empty */
    if (file >= 0)
        close(file);
}

bool checkpoint_folder_open(struct checkpoint_folder **out, const struct program *program, const struct run_options *o,
                            struct error *err)
{
    struct checkpoint_folder *folder = calloc(1, sizeof *folder);
    if (!folder)
        return fail_kind(err, ERROR_ENVIRONMENT, "checkpoint: out of memory");
    folder->file = folder->lock = -1;
    folder->keep = o->checkpoint_keep > 0 ? o->checkpoint_keep : 1;
    folder->overwrite = o->checkpoint_overwrite;
    bool ok = checkpoint_path(folder->path, o->checkpoint_dir, "", err) && own_folder(folder, err) &&
              check_saves(folder, program, o, err);
    if (!ok) {
        give_up_lock(folder);
        free(folder);
        return false;
    }
    each_save(folder->file, remove_unfinished, folder);
    *out = folder;
    return true;
}

void checkpoint_folder_close(struct checkpoint_folder *folder)
{
    if (!folder)
        return;
    each_save(folder->file, remove_unfinished, folder);
    give_up_lock(folder);
    free(folder);
}

/* ---- a save ---- */
bool checkpoint_folder_begin(struct checkpoint_folder *folder, int64_t step, int64_t *save, struct error *err)
{
    char name[CHECKPOINT_NAME_BYTES];
    *save = folder->next_save++;
    print_name(name, step, *save, true);
    return mkdirat(folder->file, name, 0777) == 0 ||
           checkpoint_io_fail(err, "make the folder of a save in", folder->path);
}

int checkpoint_save_open(const char *dir, int64_t step, int64_t save, struct error *err)
{
    char name[CHECKPOINT_NAME_BYTES], path[CHECKPOINT_PATH_BYTES];
    print_name(name, step, save, true);
    if (!checkpoint_path(path, dir, name, err))
        return -1;
    int file = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0)
        checkpoint_io_fail(err, "open the folder", path);
    return file;
}

int checkpoint_file_create(int folder, const char *name, struct error *err)
{
    int file = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file < 0)
        checkpoint_io_fail(err, "create", name);
    return file;
}

/* File systems that cannot bring a folder to the disk keep names at once. */
static bool sync_folder(int file)
{
    return fsync(file) == 0 || errno == EINVAL;
}

static bool write_manifest(int save, const char *text, size_t length, struct error *err)
{
    int file = checkpoint_file_create(save, CHECKPOINT_MANIFEST, err);
    if (file < 0)
        return false;
    size_t done = 0;
    while (done < length) {
        ssize_t put = write(file, text + done, length - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            break;
        done += (size_t)put;
    }
    bool ok = (done == length && fsync(file) == 0) || checkpoint_io_fail(err, "write", CHECKPOINT_MANIFEST);
    if (close(file) != 0 && ok)
        ok = checkpoint_io_fail(err, "write", CHECKPOINT_MANIFEST);
    return ok;
}

bool checkpoint_folder_commit(struct checkpoint_folder *folder, const struct checkpoint_label *label, const char *model,
                              const struct file_record *records, struct error *err)
{
    char whole[CHECKPOINT_NAME_BYTES], parts[CHECKPOINT_NAME_BYTES];
    size_t length;
    print_name(parts, label->step, label->save, true);
    print_name(whole, label->step, label->save, false);
    char *text = manifest_write(label, model, records, &length);
    if (!text)
        return fail_kind(err, ERROR_ENVIRONMENT, "checkpoint: out of memory");
    int save = openat(folder->file, parts, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool ok = save >= 0 || checkpoint_io_fail(err, "open the folder of a save in", folder->path);
    ok = ok && (write_manifest(save, text, length, err) || error_within(err, "%s", folder->path));
    ok = ok && (sync_folder(save) || checkpoint_io_fail(err, "bring to the disk a save in", folder->path));
    ok = ok && (renameat(folder->file, parts, folder->file, whole) == 0 ||
                checkpoint_io_fail(err, "give its name to a save in", folder->path));
    ok = ok && (sync_folder(folder->file) ||
                checkpoint_io_fail(err, "bring to the disk the name of a save in", folder->path));
    if (save >= 0)
        close(save);
    free(text);
    if (ok)
        remove_older(folder, label->save);
    return ok;
}
