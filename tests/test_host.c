/* Files whole or not at all, the clock, the machine, the catalogue's folder. */
#define _GNU_SOURCE
#include "host/apart.h"
#include "host/blas_core.h"
#include "host/catalogue.h"
#include "host/clock.h"
#include "host/file.h"
#include "host/machine.h"
#include "host/parallel.h"
#include "tests/check.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

struct folder {
    char path[128];
};

static struct folder folder_open(void)
{
    struct folder folder;
    snprintf(folder.path, sizeof folder.path, "/tmp/cleave-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder.path));
    return folder;
}

static const char *in_folder(const struct folder *folder, const char *name, char out[512])
{
    snprintf(out, 512, "%s/%s", folder->path, name);
    return out;
}

/* Names in the folder, and their removal. */
static int folder_count(const struct folder *folder, bool remove_all)
{
    DIR *directory = opendir(folder->path);
    int count = 0;
    char path[512];
    for (struct dirent *item; directory && (item = readdir(directory)) != NULL;) {
        if (item->d_name[0] == '.')
            continue;
        count++;
        if (remove_all)
            unlink(in_folder(folder, item->d_name, path));
    }
    if (directory)
        closedir(directory);
    if (remove_all)
        rmdir(folder->path);
    return count;
}

static void check_content(const char *path, const void *want, size_t length)
{
    char *data;
    size_t got;
    struct error err = { 0 };
    ck_assert_msg(file_read(&data, &got, path, &err), "%s", err.message);
    ck_assert_uint_eq(got, length);
    ck_assert(memcmp(data, want, length) == 0);
    ck_assert_int_eq(data[length], 0);
    free(data);
}

START_TEST(what_is_written_is_read)
{
    struct folder f = folder_open();
    char path[512];
    enum { LARGE = 300001 };
    char *bytes = malloc(LARGE);
    for (int i = 0; i < LARGE; i++)
        bytes[i] = (char)(i * 7 + i / 256);
    struct error err = { 0 };
    in_folder(&f, "a", path);
    static const size_t lengths[] = { 0, 1, 4095, 65534, 65535, 65536, 131072, LARGE };
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        ck_assert_msg(file_write(path, bytes, lengths[i], &err), "%s", err.message);
        check_content(path, bytes, lengths[i]);
        ck_assert_int_eq(folder_count(&f, false), 1); /* no temporary stays */
    }
    free(bytes);
    folder_count(&f, true);
}
END_TEST

START_TEST(relative_names_work)
{
    struct folder f = folder_open();
    struct error err = { 0 };
    char before[512];
    ck_assert_ptr_nonnull(getcwd(before, sizeof before));
    ck_assert_int_eq(chdir(f.path), 0);
    ck_assert_msg(file_write("b", "xyz", 3, &err), "%s", err.message);
    check_content("b", "xyz", 3);
    ck_assert_int_eq(chdir(before), 0);
    folder_count(&f, true);
}
END_TEST

START_TEST(permissions_and_links_stay)
{
    struct folder f = folder_open();
    char path[512], link[512];
    struct stat info;
    struct error err = { 0 };
    ck_assert(file_write(in_folder(&f, "real", path), "1", 1, &err));
    ck_assert_int_eq(chmod(path, 0640), 0);
    ck_assert_int_eq(symlink("real", in_folder(&f, "link", link)), 0);
    ck_assert_msg(file_write(link, "22", 2, &err), "%s", err.message);
    check_content(path, "22", 2);
    ck_assert(lstat(link, &info) == 0 && S_ISLNK(info.st_mode));
    ck_assert(stat(path, &info) == 0 && (info.st_mode & 0777) == 0640);
    folder_count(&f, true);
}
END_TEST

/* A limit on the size of files stands for a full disk: writing fails in the middle. */
START_TEST(a_failed_write_leaves_the_old_file)
{
    struct folder f = folder_open();
    char path[512];
    enum { LARGE = 1 << 20 };
    char *bytes = calloc(1, LARGE);
    struct error err = { 0 };
    ck_assert(file_write(in_folder(&f, "a", path), "old", 3, &err));
    file_ignore_size_signal();
    struct rlimit old, small = { .rlim_cur = 1 << 16 };
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    bool wrote = file_write(path, bytes, LARGE, &err);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
    ck_assert(!wrote);
    ck_assert_ptr_nonnull(strstr(err.message, path));
    ck_assert_ptr_nonnull(strstr(err.message, "`ulimit -f`"));
    ck_assert_int_eq((int)err.kind, ERROR_ENVIRONMENT);
    check_content(path, "old", 3);
    ck_assert_int_eq(folder_count(&f, true), 1);
    free(bytes);
}
END_TEST

START_TEST(a_full_device_is_reported)
{
    struct error err = { 0 };
    if (access("/dev/full", W_OK) != 0)
        return; /* a system without it */
    ck_assert(!file_write("/dev/full", "x", 1, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "/dev/full: cannot write it: No space left on device (free some space"));
    err = (struct error){ 0 };
    ck_assert_msg(file_write("/dev/null", "x", 1, &err), "%s", err.message);
    struct stat info;
    ck_assert(stat("/dev/null", &info) == 0 && S_ISCHR(info.st_mode)); /* written in place, not replaced */
}
END_TEST

START_TEST(asking_whether_one_can_write_leaves_nothing)
{
    struct folder f = folder_open();
    bool made = true;
    char path[512];
    struct error err = { 0 };
    ck_assert_msg(file_check_writable(in_folder(&f, "new", path), &err), "%s", err.message);
    ck_assert_int_eq(folder_count(&f, false), 0);
    ck_assert(file_write(in_folder(&f, "old", path), "old", 3, &err) && file_check_writable(path, &err));
    check_content(path, "old", 3);
    ck_assert_int_eq(folder_count(&f, false), 1);
    ck_assert(!file_check_writable(in_folder(&f, "none/a", path), &err));
    ck_assert_ptr_nonnull(strstr(err.message, "its folder does not exist"));
    err = (struct error){ 0 };
    ck_assert(!file_check_writable(f.path, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "found a directory"));
    err = (struct error){ 0 };
    ck_assert_msg(file_check_writable("/dev/null", &err), "%s", err.message);
    ck_assert_msg(file_check_folder(f.path, &made, &err), "%s", err.message);
    ck_assert(!made);
    ck_assert_int_eq(folder_count(&f, false), 1);
    ck_assert(!file_check_folder(in_folder(&f, "none/a", path), &made, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "the folder above does not exist"));
    err = (struct error){ 0 };
    ck_assert(!file_check_folder(in_folder(&f, "old", path), &made, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "expected a folder, found a file"));
    err = (struct error){ 0 };
    ck_assert_msg(file_check_folder(in_folder(&f, "made", path), &made, &err), "%s", err.message);
    ck_assert(made && access(path, F_OK) == 0);
    file_remove_empty_folder(path);
    ck_assert_int_ne(access(path, F_OK), 0);
    file_remove_empty_folder(f.path); /* not empty */
    ck_assert_int_eq(folder_count(&f, true), 1);
}
END_TEST

START_TEST(impossible_places_are_named)
{
    struct folder f = folder_open();
    char path[512], *data = NULL;
    size_t length = 7;
    struct error err = { 0 };
    ck_assert(!file_write(in_folder(&f, "none/a", path), "x", 1, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "its folder does not exist"));
    err = (struct error){ 0 };
    ck_assert(!file_write(f.path, "x", 1, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "found a directory"));
    err = (struct error){ 0 };
    ck_assert(!file_read(&data, &length, in_folder(&f, "none", path), &err));
    ck_assert_ptr_nonnull(strstr(err.message, "none: cannot read it: No such file or directory (check the path)"));
    ck_assert_int_eq((int)err.kind, ERROR_INPUT);
    err = (struct error){ 0 };
    ck_assert(!file_read(&data, &length, f.path, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "found a directory"));
    ck_assert(data == NULL && length == 7); /* outputs only on success */
    err = (struct error){ 0 };
    char long_name[5000];
    memset(long_name, 'a', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    ck_assert(!file_write(long_name, "x", 1, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "too long"));
    folder_count(&f, true);
}
END_TEST

START_TEST(limits_hold_for_files_and_streams)
{
    struct folder f = folder_open();
    char path[512], *data = NULL;
    size_t length;
    struct error err = { 0 };
    ck_assert(file_write(in_folder(&f, "a", path), "12345", 5, &err));
    ck_assert(file_read_limited(&data, &length, path, 5, &err));
    free(data);
    ck_assert(!file_read_limited(&data, &length, path, 4, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "expected at most 4 bytes, found 5"));
    err = (struct error){ 0 };
    ck_assert(!file_read_limited(&data, &length, "/dev/zero", 100000, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "expected at most 100000 bytes, found more"));
    err = (struct error){ 0 };
    ck_assert(!file_read(&data, &length, "/dev/zero", &err)); /* never ends */
    ck_assert_ptr_nonnull(strstr(err.message, "expected at most 67108864 bytes, found more"));
    err = (struct error){ 0 };
    ck_assert_int_eq(mkfifo(in_folder(&f, "pipe", path), 0600), 0);
    ck_assert_msg(file_read(&data, &length, path, &err), "%s", err.message); /* nobody writes it: does not wait */
    ck_assert_uint_eq(length, 0);
    free(data);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_msg(file_read(&data, &length, "/proc/self/status", &err), "%s", err.message); /* says it has 0 bytes */
    ck_assert_uint_gt(length, 0);
    free(data);
    folder_count(&f, true);
}
END_TEST

START_TEST(standard_input_is_a_dash)
{
    int ends[2], old = dup(STDIN_FILENO);
    char *data;
    size_t length;
    struct error err = { 0 };
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(write(ends[1], "from a pipe", 11), 11);
    close(ends[1]);
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    ck_assert_msg(file_read(&data, &length, "-", &err), "%s", err.message);
    dup2(old, STDIN_FILENO);
    close(old);
    ck_assert_uint_eq(length, 11);
    ck_assert_str_eq(data, "from a pipe");
    free(data);
}
END_TEST

static void nothing(int number)
{
    (void)number;
}

/* A timer interrupts the sleep many times; it must still not return early. */
START_TEST(sleep_reaches_its_deadline)
{
    struct sigaction action = { .sa_handler = nothing }, old;
    struct itimerval timer = { .it_interval = { .tv_usec = 1000 }, .it_value = { .tv_usec = 1000 } }, off = { 0 };
    sigaction(SIGALRM, &action, &old);
    setitimer(ITIMER_REAL, &timer, NULL);
    int64_t start = clock_now_ns(), deadline = start + 30000000;
    clock_sleep_until_ns(deadline);
    int64_t end = clock_now_ns();
    setitimer(ITIMER_REAL, &off, NULL);
    sigaction(SIGALRM, &old, NULL);
    ck_assert_int_ge(end, deadline);
    clock_sleep_until_ns(start); /* the past */
    clock_sleep_until_ns(-5);
    int64_t before = clock_now_ns();
    for (int i = 0; i < 1000; i++) {
        int64_t now = clock_now_ns();
        ck_assert_int_ge(now, before);
        before = now;
    }
}
END_TEST

START_TEST(the_machine_is_described)
{
    struct host_machine m;
    char text[1024], when[HOST_TIME_BYTES];
    host_machine_read(&m);
    ck_assert_int_ge(m.cores, 1);
    ck_assert_int_le(m.cores, (int)sysconf(_SC_NPROCESSORS_CONF));
    ck_assert_uint_gt(strlen(m.processor), 0);
    ck_assert_int_gt(m.memory_bytes, 1 << 20);
    host_machine_text(&m, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, m.processor));
    ck_assert_ptr_nonnull(strstr(text, m.system));
    host_machine_text(&m, text, 10); /* cut, not overrun */
    ck_assert_uint_eq(strlen(text), 9);
    host_time_text(when);
    ck_assert_uint_eq(strlen(when), 20);
    ck_assert(when[10] == 'T' && when[19] == 'Z');
}
END_TEST

START_TEST(broken_catalogues_are_named)
{
    struct folder f = folder_open();
    char path[512];
    struct catalogue *catalogue = NULL;
    struct error err = { 0 };
    ck_assert(!catalogue_read(&catalogue, f.path, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "expected device files"));
    err = (struct error){ 0 };
    ck_assert(file_write(in_folder(&f, "notes.txt", path), "x", 1, &err));
    ck_assert(file_write(in_folder(&f, "bad.json", path), "{\"source\": \"s\"}", 15, &err));
    ck_assert(!catalogue_read(&catalogue, f.path, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "bad.json:1:1"));
    err = (struct error){ 0 };
    ck_assert(!catalogue_read(&catalogue, "/nowhere/at/all", &err));
    ck_assert_ptr_nonnull(strstr(err.message, "/nowhere/at/all: cannot read the catalogue"));
    ck_assert_ptr_null(catalogue);
    folder_count(&f, true);
}
END_TEST

static void count_visit(void *context, int index)
{
    ((int *)context)[index]++;
}

START_TEST(parallel_work_is_done_once_each)
{
    for (int jobs = 1; jobs <= 9; jobs += 4)
        for (int count = 0; count <= 100; count += 25) {
            int visits[101] = { 0 };
            parallel_for(jobs, count, count_visit, visits);
            for (int i = 0; i <= 100; i++)
                ck_assert_int_eq(visits[i], i < count);
        }
}
END_TEST

struct nest {
    int visits[3][50], forked[2];
};

static void count_within(void *context, int index)
{
    parallel_for(3, 50, count_visit, ((struct nest *)context)->visits[index]);
}

static void *count_beside(void *context)
{
    for (int i = 0; i < 100; i++)
        parallel_for(4, 50, count_visit, context);
    return NULL;
}

/* Pieces of work that hand out work themselves, beside another thread that does, and in a process that was forked
 * since.
 */
START_TEST(parallel_work_needs_nobody_else)
{
    static struct nest nest;
    pthread_t other;
    parallel_for(3, 3, count_within, &nest);
    ck_assert_int_eq(pthread_create(&other, NULL, count_beside, nest.visits[0]), 0);
    count_beside(nest.visits[1]);
    pthread_join(other, NULL);
    for (int i = 0; i < 150; i++)
        ck_assert_int_eq(nest.visits[i / 50][i % 50], i < 100 ? 101 : 1);
    pid_t child = fork();
    if (child == 0) {
        parallel_for(2, 2, count_visit, nest.forked);
        _exit(nest.forked[0] == 1 && nest.forked[1] == 1 ? 0 : 1);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

/* Squares of the even ones; what is odd sleeps, and 5 dies. */
static void square(void *context, int index, void *answer)
{
    if (index == 5)
        raise(SIGKILL);
    if (index % 2)
        clock_sleep_until_ns(clock_now_ns() + INT64_C(3600000000000));
    *(int64_t *)answer = (int64_t)index * index + *(int64_t *)context;
}

START_TEST(work_apart_is_answered_late_or_dead)
{
    enum { COUNT = 8 };
    for (int jobs = 1; jobs <= 9; jobs += 4) {
        int64_t more = 100, answers[COUNT] = { 0 };
        enum apart_end ends[COUNT];
        struct error err = { 0 };
        ck_assert_msg(apart_for(jobs, .5, COUNT, square, &more, answers, sizeof *answers, ends, &err), "%s",
                      err.message);
        for (int i = 0; i < COUNT; i++) {
            ck_assert_int_eq(ends[i], i == 5 ? APART_DIED : i % 2 ? APART_LATE : APART_ANSWERED);
            ck_assert_int_eq(answers[i], i % 2 ? 0 : i * i + 100);
        }
    }
}
END_TEST

/* A processor that the library does not know gets the best kernels that it has; one that it knows keeps its own. */
START_TEST(unknown_processors_get_their_kernels)
{
    static const struct {
        const char *found, *avx2, *avx512;
    } cases[] = { { "Prescott", "Haswell", "SkylakeX" },
                  { "Nehalem", "Haswell", "SkylakeX" },
                  { "Haswell", NULL, "SkylakeX" },
                  { "Zen", NULL, NULL },
                  { "SkylakeX", NULL, NULL },
                  { "Cooperlake", NULL, NULL },
                  { "Sapphirerapids", NULL, NULL } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_pstr_eq(blas_core_instead(cases[i].found, false, false), NULL);
        ck_assert_pstr_eq(blas_core_instead(cases[i].found, true, false), cases[i].avx2);
        ck_assert_pstr_eq(blas_core_instead(cases[i].found, true, true), cases[i].avx512);
    }
}
END_TEST

static Suite *host_suite(void)
{
    Suite *suite = suite_create("host");
    TCase *tcase = tcase_create("host");
    tcase_add_test(tcase, what_is_written_is_read);
    tcase_add_test(tcase, relative_names_work);
    tcase_add_test(tcase, permissions_and_links_stay);
    tcase_add_test(tcase, a_failed_write_leaves_the_old_file);
    tcase_add_test(tcase, a_full_device_is_reported);
    tcase_add_test(tcase, asking_whether_one_can_write_leaves_nothing);
    tcase_add_test(tcase, impossible_places_are_named);
    tcase_add_test(tcase, limits_hold_for_files_and_streams);
    tcase_add_test(tcase, standard_input_is_a_dash);
    tcase_add_test(tcase, sleep_reaches_its_deadline);
    tcase_add_test(tcase, the_machine_is_described);
    tcase_add_test(tcase, broken_catalogues_are_named);
    tcase_add_test(tcase, parallel_work_is_done_once_each);
    tcase_add_test(tcase, parallel_work_needs_nobody_else);
    tcase_add_test(tcase, work_apart_is_answered_late_or_dead);
    tcase_add_test(tcase, unknown_processors_get_their_kernels);
    suite_add_tcase(suite, tcase);
    return suite;
}

CHECK_MAIN(host_suite)
