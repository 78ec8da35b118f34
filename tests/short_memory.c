/* Preloaded into a program, fails its n-th request for memory, or from the n-th on, and counts them. Requests are
 * counted from main() on, in all threads and libraries. glibc only: it calls main(), and its own allocator has second
 * names there.
 *
 * CLEAVE_SHORT_MEMORY   n, or n+: that one, or all from there on. 0: none. "each": the first of each chain of callers,
 * between the program's calls of short_memory_each().
 * CLEAVE_SHORT_RANK     a process whose environment has this RANK alone, "none": one without a rank. Without it every
 * process. CLEAVE_SHORT_SITES    a file, to which at the end a line is added for each chain of callers: its first
 * request, its last, how many.
 *
 * Says so, too, when a process forks that has other threads: what they hold at that time nobody gives back in the
 * child.
 */
#define _GNU_SOURCE
#undef _FILE_OFFSET_BITS /* else mmap() is the other one already */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

enum { SITES = 1 << 16, CALLERS = 6, CALLERS_OF_EACH = 10, OWN_CALLERS = 3 };
struct site {
    uint64_t chain; /* 0: free */
    long first, last, count;
};
static struct site sites[SITES];
static atomic_flag sites_taken = ATOMIC_FLAG_INIT;
static atomic_long requests;
static bool counts, keeps_sites, all_after, fails_each;
static atomic_bool each_on, each_failed;
static long fail_at;
static __thread __attribute__((tls_model("initial-exec"))) bool inside;

/* Returns whether the chain is new. */
static bool keep_site(long request)
{
    bool is_new = false;
    void *callers[CALLERS_OF_EACH + OWN_CALLERS];
    int count = backtrace(callers, (fails_each ? CALLERS_OF_EACH : CALLERS) + OWN_CALLERS);
    uint64_t chain = 14695981039346656037u;
    for (int i = OWN_CALLERS - 1; i < count; i++)
        chain = (chain ^ (uint64_t)(uintptr_t)callers[i]) * 1099511628211u;
    chain += chain == 0;
    while (atomic_flag_test_and_set(&sites_taken))
        ;
    size_t at = chain % SITES;
    for (int tries = 0; tries < SITES && sites[at].chain && sites[at].chain != chain; tries++)
        at = (at + 1) % SITES;
    if (!sites[at].chain) {
        sites[at] = (struct site){ .chain = chain, .first = request };
        is_new = true;
    }
    if (sites[at].chain == chain) {
        sites[at].last = request;
        sites[at].count++;
    }
    atomic_flag_clear(&sites_taken);
    return is_new;
}

/* From here on, or no longer: the first request of a chain that had none fails, and then no other until the next call.
 * Returns whether one failed since the last call. */
bool short_memory_each(bool on);
bool short_memory_each(bool on)
{
    atomic_store(&each_on, on && fails_each);
    return atomic_exchange(&each_failed, false);
}

static bool fails(void)
{
    if (!counts || inside || (fails_each && (!atomic_load(&each_on) || atomic_load(&each_failed))))
        return false;
    inside = true;
    long request = atomic_fetch_add(&requests, 1) + 1;
    bool is_new = (keeps_sites || fails_each) && keep_site(request);
    inside = false;
    bool failed = fail_at > 0 && (request == fail_at || (all_after && request > fail_at));
    if (fails_each && is_new) {
        failed = true;
        atomic_store(&each_failed, true);
    }
    if (failed)
        errno = ENOMEM;
    return failed;
}

void *malloc(size_t bytes)
{
    return fails() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes)
{
    return fails() ? NULL : __libc_realloc(old, bytes);
}

void *reallocarray(void *old, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(old, bytes);
}

void *memalign(size_t alignment, size_t bytes)
{
    return fails() ? NULL : __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return memalign(alignment, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    void *memory = memalign(alignment, bytes);
    if (!memory)
        return ENOMEM;
    *out = memory;
    return 0;
}

void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
{
    return fails() ? MAP_FAILED : (void *)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
}

void *mmap64(void *, size_t, int, int, int, off_t) __attribute__((alias("mmap")));

static void write_sites(void)
{
    const char *path = getenv("CLEAVE_SHORT_SITES");
    counts = false;
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    if (file < 0)
        return;
    for (size_t i = 0; i < SITES; i++)
        if (sites[i].chain)
            dprintf(file, "%ld %ld %ld\n", sites[i].first, sites[i].last, sites[i].count);
    close(file);
}

static void before_fork(void)
{
    enum { LINKS_OF_NONE = 2 };
    struct stat threads;
    if (stat("/proc/self/task", &threads) == 0 && threads.st_nlink > LINKS_OF_NONE + 1)
        dprintf(STDERR_FILENO, "forks beside %d threads\n", (int)threads.st_nlink - LINKS_OF_NONE - 1);
}

static bool is_meant(void)
{
    const char *wanted = getenv("CLEAVE_SHORT_RANK"), *rank = getenv("RANK");
    return !wanted || (rank ? !strcmp(wanted, rank) : !strcmp(wanted, "none"));
}

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*end)(void), void *stack);
static int (*program)(int, char **, char **);

static int counted(int argc, char **argv, char **environment)
{
    const char *n = getenv("CLEAVE_SHORT_MEMORY");
    void *caller;
    if (n && is_meant()) {
        char *end;
        fail_at = strtol(n, &end, 10);
        all_after = *end == '+';
        fails_each = strcmp(n, "each") == 0;
        keeps_sites = getenv("CLEAVE_SHORT_SITES") != NULL;
        backtrace(&caller, 1); /* its first call loads a library */
        atexit(write_sites);
        pthread_atfork(before_fork, NULL, NULL);
        counts = true;
    }
    return program(argc, argv, environment);
}

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*end)(void), void *stack)
{
    int (*begin)(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
    void *found = dlsym(RTLD_NEXT, "__libc_start_main");
    memcpy(&begin, &found, sizeof begin);
    program = main;
    return begin(counted, argc, argv, init, fini, end, stack);
}
