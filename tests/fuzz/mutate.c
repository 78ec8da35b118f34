/* Drives a libFuzzer target without libFuzzer: mutates corpus files with a seeded generator and hands the bytes to
 * LLVMFuzzerTestOneInput.
 *
 *     fuzz_json [--seconds N] [--seed N] [--runs N] [--own NAME] FILE-OR-FOLDER...
 *
 * First every file as it is, then those of JSON with each value replaced in turn, then mutants, half of them of files
 * whose names begin with NAME, the target's own format: few of another format's get beyond their first bytes. A file
 * x.pack holds many inputs, each after a line with its length (benchmarks/run_fuzz writes such); they count as the
 * target's own. That until --seconds (default 10) have passed or --runs mutants were tried; --runs alone sets no time
 * limit, so that the same seed and runs repeat exactly. A crash is the target's own; the input that was running is left
 * in ./crash-input when the target aborts or a sanitizer ends the process. */
#define _POSIX_C_SOURCE 200809L
#include "base/num.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LARGEST_INPUT = 1 << 16 };

struct input {
    uint8_t *bytes;
    size_t size;
};

struct fuzzer {
    struct input *corpus; /* (count) */
    size_t count, capacity;
    const char *own; /* NULL: none */
    size_t *own_at;  /* (own_count) into corpus */
    size_t own_count;
    uint64_t seed, draws;
    uint64_t runs;
    double seconds;
};

/* The only state outside a struct: the signal handler has no argument to find the running input by. */
static const uint8_t *volatile running;
static volatile size_t running_size;

static void save_running(void)
{
    int file = open("crash-input", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file < 0)
        return;
    size_t done = 0;
    while (done < running_size) {
        ssize_t wrote = write(file, running + done, running_size - done);
        if (wrote <= 0)
            break;
        done += (size_t)wrote;
    }
    close(file);
}

static void on_crash(int number)
{
    save_running();
    signal(number, SIG_DFL);
    raise(number);
}

/* Of the sanitizers' library; absent in a plain build. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

/* A sanitizer reports crashes itself and better; without one the signals are ours. */
static void watch_for_crashes(void)
{
    signal(SIGABRT, on_crash);
    if (__sanitizer_set_death_callback) {
        __sanitizer_set_death_callback(save_running);
        return;
    }
    signal(SIGSEGV, on_crash);
    signal(SIGBUS, on_crash);
    signal(SIGFPE, on_crash);
    signal(SIGILL, on_crash);
}

static uint64_t draw(struct fuzzer *f)
{
    return mix64(f->seed + UINT64_C(0x9e3779b97f4a7c15) * ++f->draws);
}

static size_t draw_below(struct fuzzer *f, size_t limit)
{
    return limit ? (size_t)(draw(f) % limit) : 0;
}

/* ---- corpus ---- */

static void *must_have(void *memory)
{
    if (!memory) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return memory;
}

static void corpus_add(struct fuzzer *f, uint8_t *bytes, size_t size)
{
    if (f->count == f->capacity) {
        f->capacity = f->capacity ? 2 * f->capacity : 64;
        f->corpus = must_have(realloc(f->corpus, f->capacity * sizeof *f->corpus));
    }
    f->corpus[f->count++] = (struct input){ bytes, size };
}

static void own_add(struct fuzzer *f)
{
    f->own_at = must_have(realloc(f->own_at, (f->own_count + 1) * sizeof *f->own_at));
    f->own_at[f->own_count++] = f->count;
}

static void read_file(struct fuzzer *f, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(2);
    }
    uint8_t *bytes = must_have(malloc(LARGEST_INPUT));
    size_t size = fread(bytes, 1, LARGEST_INPUT, file);
    fclose(file);
    const char *slash = strrchr(path, '/');
    if (f->own && strncmp(slash ? slash + 1 : path, f->own, strlen(f->own)) == 0)
        own_add(f);
    corpus_add(f, bytes, size);
}

static bool is_pack(const char *path)
{
    size_t length = strlen(path);
    return length > 5 && strcmp(path + length - 5, ".pack") == 0;
}

static void read_pack(struct fuzzer *f, const char *path)
{
    FILE *file = fopen(path, "rb");
    size_t size;
    while (file && fscanf(file, "%zu", &size) == 1 && fgetc(file) == '\n') {
        uint8_t *bytes = must_have(size <= LARGEST_INPUT ? malloc(size + 1) : NULL);
        if (fread(bytes, 1, size, file) != size)
            break;
        own_add(f);
        corpus_add(f, bytes, size);
    }
    if (!file || !feof(file)) {
        fprintf(stderr, "%s: no pack\n", path);
        exit(2);
    }
    fclose(file);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Folders are read in the order of names: the same corpus, the same numbers. */
static void read_path(struct fuzzer *f, const char *path)
{
    struct stat status;
    struct dirent **names;
    if (stat(path, &status) != 0 || !S_ISDIR(status.st_mode)) {
        read_file(f, path);
        return;
    }
    int count = scandir(path, &names, NULL, by_name);
    for (int i = 0; i < count; i++) {
        char full[4096];
        int length = snprintf(full, sizeof full, "%s/%s", path, names[i]->d_name);
        if (length < (int)sizeof full && stat(full, &status) == 0 && S_ISREG(status.st_mode))
            read_file(f, full);
        free(names[i]);
    }
    if (count >= 0)
        free(names);
}

/* ---- mutation ---- */

/* Bytes [at, at + drop) become the size bytes of put. */
static void splice(struct input *input, size_t at, size_t drop, const uint8_t *put, size_t size)
{
    size_t tail = input->size - at - drop;
    if (input->size - drop + size > LARGEST_INPUT)
        return;
    memmove(input->bytes + at + size, input->bytes + at + drop, tail);
    if (size > 0)
        memcpy(input->bytes + at, put, size);
    input->size = input->size - drop + size;
}

static void put_interesting(struct fuzzer *f, struct input *input)
{
    static const char *const words[] = { "\"",
                                         "\\",
                                         "{",
                                         "}",
                                         "[",
                                         "]",
                                         ":",
                                         ",",
                                         "\\u0000",
                                         "\\ud83d\\ude00",
                                         "\\ud800",
                                         "-",
                                         "0",
                                         "1e309",
                                         "1e-309",
                                         "-0",
                                         "1.5",
                                         "null",
                                         "true",
                                         "false",
                                         "9007199254740993",
                                         "[[[[[[[[",
                                         "\xEF\xBB\xBF",
                                         "\xC3\xA9",
                                         "\xED\xA0\x80",
                                         "\xF0\x9F\x98\x80",
                                         "\n",
                                         " ",
                                         "\x7F",
                                         "\xFF",
                                         "{\"a\":",
                                         "\"a\":1,",
                                         "18446744073709551616",
                                         "1E+2",
                                         "0.0000000001" };
    const char *word = words[draw_below(f, sizeof words / sizeof *words)];
    size_t at = draw_below(f, input->size + 1);
    size_t drop = draw(f) % 2 ? draw_below(f, input->size - at + 1) % 8 : 0;
    splice(input, at, drop, (const uint8_t *)word, strlen(word));
}

static void copy_from(struct fuzzer *f, struct input *input, const uint8_t *bytes, size_t size)
{
    uint8_t piece[256];
    size_t from = draw_below(f, size), length = draw_below(f, size - from + 1) % sizeof piece;
    if (size == 0)
        return;
    memcpy(piece, bytes + from, length); /* a copy, because it may come from the input itself */
    splice(input, draw_below(f, input->size + 1), 0, piece, length);
}

static void mutate_once(struct fuzzer *f, struct input *input)
{
    size_t at = draw_below(f, input->size);
    const struct input *other = &f->corpus[draw_below(f, f->count)];
    uint8_t any = (uint8_t)draw(f);
    switch (draw(f) % 8) {
    case 0:
        if (input->size)
            input->bytes[at] ^= (uint8_t)(1u << draw(f) % 8);
        break;
    case 1:
        if (input->size)
            input->bytes[at] = any;
        break;
    case 2:
        splice(input, at, 0, &any, 1);
        break;
    case 3:
        splice(input, at, draw_below(f, input->size - at + 1) % 32, NULL, 0);
        break;
    case 4:
        copy_from(f, input, input->bytes, input->size);
        break;
    case 5:
        copy_from(f, input, other->bytes, other->size);
        break;
    case 6:
        if (draw(f) % 4 == 0)
            input->size = at;
        break;
    default:
        put_interesting(f, input);
    }
}

/* With tests/short_memory.c preloaded the first request for memory of each chain of callers fails, an input being read
 * until none is new. What the target itself must have may then be missing: its abort() ends that try. */
static bool (*short_memory_each)(bool on);
static sigjmp_buf next_try;

static void on_missing(int number)
{
    siglongjmp(next_try, number);
}

static void run_short_of_memory(const uint8_t *bytes, size_t size)
{
    do {
        signal(SIGABRT, on_missing);
        if (sigsetjmp(next_try, 1) == 0) {
            short_memory_each(true);
            LLVMFuzzerTestOneInput(bytes, size);
        }
    } while (short_memory_each(false));
    signal(SIGABRT, on_crash);
}

static void look_for_short_memory(void)
{
    void *all = dlopen(NULL, RTLD_LAZY), *found = all ? dlsym(all, "short_memory_each") : NULL;
    memcpy(&short_memory_each, &found, sizeof found);
}

/* The input is handed over in memory of exactly its size: a step past its end is seen by the address sanitizer. */
static void run_one(const uint8_t *bytes, size_t size)
{
    uint8_t *exact = must_have(malloc(size ? size : 1));
    memcpy(exact, bytes, size);
    running = exact;
    running_size = size;
    if (short_memory_each)
        run_short_of_memory(exact, size);
    LLVMFuzzerTestOneInput(exact, size);
    running_size = 0;
    free(exact);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- JSON ---- */

/* Behind the value at `at`, by brackets and quotes alone. */
static size_t value_end(const struct input *input, size_t at)
{
    int depth = 0;
    bool quoted = false;
    for (; at < input->size; at++) {
        uint8_t c = input->bytes[at];
        if (quoted) {
            at += c == '\\';
            quoted = c != '"';
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']' || c == ',') {
            if (depth == 0)
                break;
            depth -= c != ',';
            if (depth == 0 && c != ',')
                return at + 1;
        }
    }
    return at < input->size ? at : input->size;
}

/* Of each object each value in turn becomes another one, mostly of another kind, and each key another key: readers
 * refuse most of that, each at a line of its own, which mutants of bytes seldom reach. */
static uint64_t run_other_values(const struct input *seed, double end)
{
    static const char *const others[] = { "\"x\"", "-1",   "1e18",  "0",  "1",  "2",        "0.5",
                                          "null",  "true", "false", "{}", "[]", "[1,\"x\"]" };
    struct input input = { must_have(malloc(LARGEST_INPUT)), 0 };
    uint64_t done = 0;
    for (size_t at = 0; at < seed->size && now_s() < end; at++) {
        if (seed->bytes[at] != ':')
            continue;
        size_t key = at;
        while (key > 0 && seed->bytes[key - 1] != '"')
            key--;
        for (size_t i = 0; i <= sizeof others / sizeof *others; i++, done++) {
            const char *other = i > 0 ? others[i - 1] : "X";
            memcpy(input.bytes, seed->bytes, seed->size);
            input.size = seed->size;
            if (i > 0)
                splice(&input, at + 1, value_end(seed, at + 1) - at - 1, (const uint8_t *)other, strlen(other));
            else if (key > 0)
                splice(&input, key - 1, 0, (const uint8_t *)other, strlen(other));
            run_one(input.bytes, input.size);
        }
    }
    free(input.bytes);
    return done;
}

/* Of the target's own format, for half of the time at most. */
static uint64_t run_other_values_of_all(struct fuzzer *f)
{
    double end = now_s() + f->seconds / 2;
    uint64_t done = 0;
    for (size_t i = 0; i < f->own_count && now_s() < end; i++) {
        const struct input *seed = &f->corpus[f->own_at[i]];
        if (seed->size > 0 && seed->bytes[0] == '{')
            done += run_other_values(seed, end);
    }
    return done;
}

static size_t draw_seed(struct fuzzer *f)
{
    return f->own_count > 0 && draw(f) % 2 ? f->own_at[draw_below(f, f->own_count)] : draw_below(f, f->count);
}

static uint64_t run_mutants(struct fuzzer *f)
{
    double end = now_s() + f->seconds;
    struct input input = { must_have(malloc(LARGEST_INPUT)), 0 };
    uint64_t done = 0;
    while (f->runs ? done < f->runs : now_s() < end) {
        const struct input *seed = &f->corpus[draw_seed(f)];
        memcpy(input.bytes, seed->bytes, seed->size);
        input.size = seed->size;
        for (size_t edits = 1 + draw_below(f, 6); edits > 0; edits--)
            mutate_once(f, &input);
        run_one(input.bytes, input.size);
        done++;
        if (f->runs && f->seconds > 0 && now_s() >= end)
            break;
    }
    free(input.bytes);
    return done;
}

/* The value of "--name N" or "--name=N" at argv[*i]; false when it is another argument. */
static int read_option(int argc, char **argv, int *i, const char *name, uint64_t *out)
{
    size_t length = strlen(name);
    const char *value = NULL;
    if (strncmp(argv[*i], name, length) != 0)
        return 0;
    if (argv[*i][length] == '=')
        value = argv[*i] + length + 1;
    else if (argv[*i][length] == '\0' && *i + 1 < argc)
        value = argv[++*i];
    char *end = NULL;
    errno = 0;
    unsigned long long number = value ? strtoull(value, &end, 10) : 0;
    if (!value || end == value || *end != '\0' || errno) {
        fprintf(stderr, "%s: expected a whole number after it\n", name);
        exit(2);
    }
    *out = number;
    return 1;
}

/* CLEAVE_FUZZ_SECONDS where it is set, whatever the command line says: whoever runs many targets has less time for
 * each.
 */
static double seconds_of(uint64_t asked)
{
    const char *text = getenv("CLEAVE_FUZZ_SECONDS");
    return text && *text ? strtod(text, NULL) : (double)asked;
}

int main(int argc, char **argv)
{
    struct fuzzer f = { .seed = 1 };
    uint64_t seconds = 0;
    for (int i = 1; i < argc; i++) {
        if (read_option(argc, argv, &i, "--seconds", &seconds) || read_option(argc, argv, &i, "--seed", &f.seed) ||
            read_option(argc, argv, &i, "--runs", &f.runs))
            continue;
        if (strcmp(argv[i], "--own") == 0 && i + 1 < argc) {
            f.own = argv[++i];
            continue;
        }
        is_pack(argv[i]) ? read_pack(&f, argv[i]) : read_path(&f, argv[i]);
    }
    if (f.count == 0)
        corpus_add(&f, must_have(calloc(1, 1)), 0);
    f.seconds = f.runs ? (double)seconds : seconds_of(seconds ? seconds : 10);
    watch_for_crashes();
    look_for_short_memory();
    for (size_t i = 0; i < f.count; i++)
        run_one(f.corpus[i].bytes, f.corpus[i].size);
    uint64_t done = (f.runs ? 0 : run_other_values_of_all(&f)) + run_mutants(&f);
    printf("%zu corpus inputs and %llu mutants, seed %llu: no failure\n", f.count, (unsigned long long)done,
           (unsigned long long)f.seed);
    for (size_t i = 0; i < f.count; i++)
        free(f.corpus[i].bytes);
    free(f.corpus);
    free(f.own_at);
    return 0;
}
