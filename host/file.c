#define _GNU_SOURCE
#include "base/num.h"
#include "host/file.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST_BYTES = 64 << 10, NAME_TRIES = 100 };

static const char *read_hint(int error)
{
    return error == ENOENT ? " (check the path)" : error == EACCES ? " (check its permissions)" : "";
}

static bool fail_system(struct error *err, const char *what, const char *path, int error, const char *hint)
{
    return fail_kind(err, ERROR_ENVIRONMENT, "%s: cannot %s: %s%s", path, what, strerror(error), hint);
}

/* Messages hold a path; a longer one would push the reason out of them. */
static bool check_path(const char *path, struct error *err)
{
    size_t length = strlen(path);
    if (length > 0 && length < PATH_MAX)
        return true;
    return fail_kind(err, ERROR_INPUT, "expected a path of 1 to %d bytes, found %s (%zu bytes)", PATH_MAX - 1,
                     length ? "one that is too long" : "an empty one", length);
}

struct bytes {
    char *data;
    size_t length, capacity;
};

/* Room for one byte more than what is there, the final zero included. */
static bool bytes_grow(struct bytes *bytes, size_t want)
{
    size_t capacity = bytes->capacity ? bytes->capacity * 2 : want;
    if (bytes->length + 1 < bytes->capacity)
        return true;
    char *data = realloc(bytes->data, capacity);
    if (!data)
        return false;
    bytes->data = data;
    bytes->capacity = capacity;
    return true;
}

/* A pipe with a name may be open at its other end and stay empty for ever. At a terminal somebody may be typing, and
 * what a shell redirects or substitutes has a writer that ends. */
static bool wait_for_bytes(int file, const char *path, struct error *err)
{
    struct pollfd poll_of = { .fd = file, .events = POLLIN };
    bool given = file == STDIN_FILENO || strcmp(path, "/dev/stdin") == 0 || strncmp(path, "/dev/fd/", 8) == 0 ||
                 strncmp(path, "/proc/self/fd/", 14) == 0 || isatty(file);
    return poll(&poll_of, 1, given ? -1 : FILE_SILENCE_MS) != 0 ||
           fail_kind(err, ERROR_INPUT,
                     "%s: nothing came through this pipe for %.1f s: let its writer finish a file first, or pass it "
                     "through standard input, \"-\"",
                     path, 1e-3 * FILE_SILENCE_MS);
}

static bool read_all(int file, const char *path, size_t expected, int64_t max_bytes, struct bytes *bytes,
                     struct error *err)
{
    for (;;) {
        if (!bytes_grow(bytes, expected + 2)) /* one byte beyond shows the end without growing */
            return fail_kind(err, ERROR_ENVIRONMENT, "%s: out of memory after %zu bytes", path, bytes->length);
        ssize_t got = read(file, bytes->data + bytes->length, bytes->capacity - bytes->length - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN) {
            if (!wait_for_bytes(file, path, err))
                return false;
            continue;
        }
        if (got < 0)
            return fail_system(err, "read it", path, errno, "");
        bytes->length += (size_t)got;
        if ((int64_t)bytes->length > max_bytes)
            return fail_kind(err, ERROR_INPUT, "%s: expected at most %lld bytes, found more", path,
                             (long long)max_bytes);
        bytes->data[bytes->length] = '\0';
        if (got == 0)
            return true;
    }
}

static bool check_readable(int file, const char *path, int64_t *max_bytes, size_t *expected, struct error *err)
{
    struct stat info;
    *expected = FIRST_BYTES;
    if (fstat(file, &info) != 0)
        return fail_system(err, "look at it", path, errno, "");
    if (S_ISDIR(info.st_mode))
        return fail_kind(err, ERROR_INPUT, "%s: expected a file, found a directory", path);
    if (!S_ISREG(info.st_mode) || info.st_size <= 0) { /* a pipe, a device, or a file of /proc, which says 0 */
        *max_bytes = min_i64(*max_bytes, FILE_MAX_STREAM_BYTES);
        return true;
    }
    if (info.st_size > *max_bytes)
        return fail_kind(err, ERROR_INPUT, "%s: expected at most %lld bytes, found %lld", path, (long long)*max_bytes,
                         (long long)info.st_size);
    *expected = (size_t)info.st_size;
    return true;
}

bool file_read_limited(char **data, size_t *length, const char *path, int64_t max_bytes, struct error *err)
{
    if (!check_path(path, err))
        return false;
    bool standard = strcmp(path, "-") == 0;
    const char *name = standard ? "standard input" : path;
    /* to open a named pipe that nobody writes would wait for ever */
    int file = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0)
        return fail_kind(err, ERROR_INPUT, "%s: cannot read it: %s%s", path, strerror(errno), read_hint(errno));
    struct bytes bytes = { 0 };
    size_t expected;
    bool done = check_readable(file, name, &max_bytes, &expected, err) &&
                read_all(file, name, expected, max_bytes, &bytes, err);
    if (!standard)
        close(file);
    if (!done) {
        free(bytes.data);
        return false;
    }
    *data = bytes.data;
    *length = bytes.length;
    return true;
}

bool file_read(char **data, size_t *length, const char *path, struct error *err)
{
    return file_read_limited(data, length, path, FILE_MAX_BYTES, err);
}

/* ---- writing ---- */

void file_open_standard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            return;
}

void file_ignore_size_signal(void)
{
    struct sigaction action = { .sa_handler = SIG_IGN };
    sigaction(SIGXFSZ, &action, NULL);
}

const char *file_write_hint(int error)
{
    return error == ENOSPC || error == EDQUOT ? " (free some space, or choose another place)"
           : error == EFBIG ? " (files may not become so large here: raise the limit, `ulimit -f`, or choose another "
                              "place)"
                            : "";
}

static bool fail_write(struct error *err, const char *what, const char *path)
{
    return fail_system(err, what, path, errno, file_write_hint(errno));
}

static bool write_all(int file, const char *path, const char *data, size_t length, struct error *err)
{
    size_t done = 0;
    while (done < length) {
        ssize_t put = write(file, data + done, length - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return fail_write(err, "write it", path);
        done += (size_t)put;
    }
    return true;
}

/* A new file beside the target, with the mode that the target has or that umask gives. name has PATH_MAX bytes. */
static int open_beside(const char *path, char *name)
{
    for (int i = 0; i < NAME_TRIES; i++) {
        if (snprintf(name, PATH_MAX, "%s.%ld-%d.tmp", path, (long)getpid(), i) >= PATH_MAX) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int file = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file >= 0 || errno != EEXIST)
            return file;
    }
    return -1;
}

static bool fail_beside(const char *path, struct error *err)
{
    return fail_system(err, "write a file beside it", path, errno,
                       errno == ENOENT   ? " (its folder does not exist)"
                       : errno == EACCES ? " (check the folder's permissions)"
                                         : file_write_hint(errno));
}

static bool replace(const char *path, const struct stat *old, const void *data, size_t length, struct error *err)
{
    char name[PATH_MAX];
    int file = open_beside(path, name);
    if (file < 0)
        return fail_beside(path, err);
    bool done = write_all(file, path, data, length, err);
    if (done && old && fchmod(file, old->st_mode & 07777) != 0)
        done = fail_system(err, "keep its permissions", path, errno, "");
    if (close(file) != 0 && done) /* where a network file system reports a full disk */
        done = fail_write(err, "write it", path);
    if (done && rename(name, path) != 0)
        done = fail_write(err, "give the new file its name", path);
    if (!done)
        unlink(name);
    return done;
}

static bool write_in_place(const char *path, const void *data, size_t length, struct error *err)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return fail_write(err, "write it", path);
    bool done = write_all(file, path, data, length, err);
    if (close(file) != 0 && done)
        done = fail_write(err, "write it", path);
    return done;
}

/* What the bytes will replace: the file behind links, if there is one. */
struct target {
    char real[PATH_MAX];
    const char *path; /* real, or the path as given */
    struct stat old;
    bool exists;
};

static bool find_target(struct target *out, const char *path, struct error *err)
{
    if (!check_path(path, err))
        return false;
    out->path = realpath(path, out->real) ? out->real : path;
    out->exists = stat(out->path, &out->old) == 0;
    return !out->exists || !S_ISDIR(out->old.st_mode) ||
           fail_kind(err, ERROR_INPUT, "%s: expected a file to write, found a directory", path);
}

bool file_write(const char *path, const void *data, size_t length, struct error *err)
{
    struct target target;
    if (memory_has_fallen_short()) /* what is to be written may be cut */
        return fail_kind(err, ERROR_ENVIRONMENT, "%s: not written: out of memory", path);
    if (!find_target(&target, path, err))
        return false;
    if (target.exists && !S_ISREG(target.old.st_mode))
        return write_in_place(target.path, data, length, err);
    return replace(target.path, target.exists ? &target.old : NULL, data, length, err);
}

static bool check_beside(const char *path, struct error *err)
{
    char name[PATH_MAX];
    int file = open_beside(path, name);
    if (file < 0)
        return fail_beside(path, err);
    close(file);
    unlink(name);
    return true;
}

bool file_check_writable(const char *path, struct error *err)
{
    struct target target;
    if (!find_target(&target, path, err))
        return false;
    if (target.exists && !S_ISREG(target.old.st_mode))
        return access(target.path, W_OK) == 0 || fail_write(err, "write it", path);
    return check_beside(target.path, err);
}

/* The folder that the path's last name is in, and that name; false: it is too long, or there is no such folder. */
static bool look_above(const char *path, struct stat *above, char name[PATH_MAX])
{
    char whole[PATH_MAX];
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    if (length == 0 || length >= sizeof whole)
        return false;
    memcpy(whole, path, length);
    whole[length] = '\0';
    char *slash = strrchr(whole, '/');
    snprintf(name, PATH_MAX, "%s", slash ? slash + 1 : whole);
    if (slash)
        *(slash == whole ? slash + 1 : slash) = '\0';
    return stat(slash ? whole : ".", above) == 0;
}

bool file_same_place(const char *a, const char *b)
{
    struct stat x, y;
    char p[PATH_MAX], q[PATH_MAX];
    bool has_x = stat(a, &x) == 0, has_y = stat(b, &y) == 0;
    if (!has_x && !has_y)
        return look_above(a, &x, p) && look_above(b, &y, q) && x.st_dev == y.st_dev && x.st_ino == y.st_ino &&
               strcmp(p, q) == 0;
    return has_x && has_y && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

bool file_check_folder(const char *path, bool *made, struct error *err)
{
    char inside[PATH_MAX];
    struct stat status;
    *made = false;
    if (!check_path(path, err))
        return false;
    bool new = mkdir(path, 0777) == 0;
    if (!new &&errno != EEXIST)
        return fail_system(err, "make the folder", path, errno,
                           errno == ENOENT ? " (the folder above does not exist)" : file_write_hint(errno));
    if (stat(path, &status) == 0 && !S_ISDIR(status.st_mode))
        return fail_kind(err, ERROR_INPUT, "%s: expected a folder, found a file", path);
    if (!new &&access(path, F_OK) != 0 && errno == ENOENT)
        return fail_kind(err, ERROR_INPUT, "%s: expected a folder, found a link to nothing", path);
    bool fits = snprintf(inside, sizeof inside, "%s/check", path) < (int)sizeof inside;
    if ((fits || fail_kind(err, ERROR_INPUT, "%s: the path is too long", path)) && check_beside(inside, err)) {
        *made = new;
        return true;
    }
    if (new)
        file_remove_empty_folder(path);
    return false;
}

void file_remove_empty_folder(const char *path)
{
    rmdir(path); /* refuses what is not empty */
}

static const char *volatile folder_at_signal; /* a signal handler has no other way to know */

static void on_end(int signal)
{
    rmdir(folder_at_signal);
    raise(signal); /* once more, as if there were no handler */
}

void file_remove_empty_folder_at_signal(const char *path)
{
    static const int ends[] = { SIGINT, SIGTERM, SIGHUP };
    const struct sigaction action = { .sa_handler = on_end, .sa_flags = (int)SA_RESETHAND };
    struct sigaction before;
    folder_at_signal = path;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (sigaction(ends[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(ends[i], &action, NULL);
}
