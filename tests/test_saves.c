/* Checkpoints against what happens to disks and processes: killed at every call of the system that a save makes, no
 * room on the disk at any of them, any bit flipped, two runs in one folder, links planted, other runs' checkpoints.
 * Nothing is lost, and nothing that is not whole trains. */
#define _GNU_SOURCE
#include "tests/saved_runs.h"
#include "tests/struck_calls.h"
#include "host/crc32c.h"
#include "host/file.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

static const struct tiny_choice one = { .dp = 1, .tp = 1, .pp = 1, .micro = 1, .tp_dim = DIM_tp, .clip = 1 };
static const struct tiny_choice four = { .dp = 2, .tp = 1, .pp = 2, .micro = 2, .tp_dim = DIM_tp, .zero = 1 };

START_TEST(checksums_are_castagnolis)
{
    unsigned char bytes[4096];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 37 >> 2);
    ck_assert_uint_eq(crc32c(0, "123456789", 9), 0xe3069283); /* RFC 3720, B.4 has the ones below */
    unsigned char zeros[32] = { 0 }, ones[32], up[32];
    memset(ones, 0xff, sizeof ones);
    for (unsigned char i = 0; i < 32; i++)
        up[i] = i;
    ck_assert_uint_eq(crc32c(0, zeros, sizeof zeros), 0x8a9136aa);
    ck_assert_uint_eq(crc32c(0, ones, sizeof ones), 0x62a8ab43);
    ck_assert_uint_eq(crc32c(0, up, sizeof up), 0x46dd794e);
    for (size_t from = 0; from < 9; from++)
        for (size_t length = 0; length < 200; length++) {
            uint32_t whole = crc32c(0, bytes + from, length);
            ck_assert_uint_eq(whole, crc32c_by_table(0, bytes + from, length));
            ck_assert_uint_eq(
                whole, crc32c(crc32c(0, bytes + from, length / 3), bytes + from + length / 3, length - length / 3));
        }
}
END_TEST

/* benchmarks/run_reliability counts what was tried by these lines. */
static void say_trials(const char *what, int trials)
{
    printf("trials: %s: %d\n", what, trials);
}

/* ---- killed, or without room, at every call of a save ---- */
static void mark(void *context, const struct run_step *step)
{
    on_step(context, step);
    syscall(SYS_faccessat, AT_FDCWD, MARK, F_OK);
}

enum { SCENARIOS = 5 };
struct scenario {
    const struct tiny_choice *choice;
    int64_t before, steps, every; /* steps of a run that was here before, 0: none; of the one that is killed */
    bool resumes, overwrites;
    int64_t keep;
    const char *name;
    bool lock_is_file;
};
static const struct scenario scenarios[SCENARIOS] = {
    { &one, 2, 2, 0, false, true, 1, "over the same step", false },
    { &one, 0, 3, 1, false, false, 1, "three saves, one after another", false },
    { &four, 2, 4, 1, true, false, 2, "four ranks go on and keep two", false },
    { &four, 3, 2, 1, false, true, 1, "four ranks over a later run", false },
    { &four, 2, 2, 0, false, true, 3, "four ranks over the same step, three kept", false },
};

static _Noreturn void be_killed(struct world *w, const struct scenario *s, const char *folder)
{
    struct error error = { 0 };
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    w->more.on_step = mark;
    w->more.checkpoint_keep = s->keep, w->more.checkpoint_overwrite = s->overwrites;
    bool well = world_run(w, s->choice, s->steps, folder, s->resumes ? folder : NULL, s->every, &error);
    syscall(SYS_faccessat, AT_FDCWD, LAST_MARK, F_OK);
    count_lines();
    _exit(well ? 0 : 1);
}

/* The weights after every number of steps, of a run without checkpoints. */
static void weights_after(struct world out[STEPS + 1], const struct tiny_choice *choice)
{
    for (int64_t steps = 1; steps <= STEPS; steps++) {
        world_open(&out[steps], tiny_models[0]);
        must_run(&out[steps], choice, steps, NULL, NULL, 0);
    }
}

/* What is there after the kill is a whole checkpoint of a step that had been saved or was being saved. */
static void check_kept(const struct scenario *s, const char *folder, struct world *after, const char *what)
{
    char save[PATH_BYTES], name[CHECKPOINT_NAME_BYTES];
    struct error error = { 0 };
    struct manifest manifest;
    struct world read;
    if (s->before == 0 && !checkpoint_newest(folder, name, &error))
        return; /* before the first save was whole there was none to lose */
    newest_save(folder, save);
    ck_assert_msg(manifest_read(&manifest, save, &error), "%s: %s", what, error.message);
    int64_t step = manifest.label.step;
    manifest_free(&manifest);
    ck_assert_msg(step >= 1 && step <= max_i64(s->before, s->steps), "%s: step %d", what, (int)step);
    world_open(&read, tiny_models[0]);
    ck_assert_msg(world_run(&read, s->choice, step, NULL, folder, 0, &error), "%s: %s", what, error.message);
    same_weights(&read, &after[step]);
    /* Whoever comes next clears what is left. */
    read.more.checkpoint_overwrite = s->overwrites;
    ck_assert_msg(world_run(&read, s->choice, step + 1, folder, folder, 0, &error), "%s: %s", what, error.message);
    same_weights(&read, &after[step + 1]);
    ck_assert_msg(folder_each(folder, NULL) == 1, "%s: %d entries", what, folder_each(folder, NULL));
    world_close(&read);
}

/* Returns whether there was such a call. */
static bool strike_once(const struct scenario *s, int at, enum fault fault, struct world *after)
{
    static const char *const words[] = { "killed at call", "no room at call",  "no room from call",
                                         "broken at call", "broken from call", "interrupted at call" };
    char folder[PATH_BYTES], what[256], save[PATH_BYTES];
    struct error error = { 0 };
    struct manifest manifest;
    struct world w;
    int result;
    folder_make(folder);
    world_open(&w, tiny_models[0]);
    if (s->before > 0)
        must_run(&w, s->choice, s->before, folder, NULL, 0);
    pid_t child = fork();
    if (child == 0)
        be_killed(&w, s, folder);
    bool struck = run_until(child, at, fault, s->lock_is_file, &result) >= at;
    snprintf(what, sizeof what, "%s: %s %d", s->name, words[fault], at);
    ck_assert_msg(struck || (WIFEXITED(result) && WEXITSTATUS(result) == 0), "%s: it does not end well by itself",
                  what);
    if (fault != KILLED) { /* it ends by itself, and well only if all is saved */
        ck_assert_msg(WIFEXITED(result) && WEXITSTATUS(result) <= 1, "%s: ended with %d", what, result);
        if (WEXITSTATUS(result) == 0) {
            newest_save(folder, save);
            ck_assert_msg(manifest_read(&manifest, save, &error), "%s: %s", what, error.message);
            ck_assert_msg(manifest.label.step == s->steps, "%s: step %d", what, (int)manifest.label.step);
            manifest_free(&manifest);
        }
    }
    if (fault >= BROKEN_ONCE) { /* a lock's file that was made and could not be locked, or not removed, stays, and locks
                                   nobody out */
        char lock[LONG_PATH_BYTES];
        snprintf(lock, sizeof lock, "%s/.lock", folder);
        int file = open(lock, O_RDWR);
        ck_assert(file < 0 || flock(file, LOCK_EX | LOCK_NB) == 0);
        if (file >= 0)
            close(file);
        unlink(lock);
    }
    check_kept(s, folder, after, what);
    world_close(&w);
    remove_any(folder);
    return struck;
}

/* At every so many-th call. */
static void strike_all(const struct scenario *s, int at, int stride, enum fault fault, const char *what)
{
    struct world after[STEPS + 1];
    int trials = 1;
    weights_after(after, s->choice);
    for (; strike_once(s, at, fault, after); trials++)
        at += stride;
    say_trials(what, trials);
    for (int64_t steps = 1; steps <= STEPS; steps++)
        world_close(&after[steps]);
}

START_TEST(a_save_killed_anywhere_loses_nothing)
{
    int stride = small_share() ? 6 * share_stride() : share_stride() > 1 ? 29 : 1;
    strike_all(&scenarios[_i], 1 + _i % stride, stride, KILLED, scenarios[_i].name);
}
END_TEST

#ifdef __x86_64__
START_TEST(a_full_disk_loses_nothing)
{
    int stride = small_share() ? 11 * share_stride() : share_stride() > 1 ? 53 : 1;
    if (share_stride() > 16 && !in_turn(_i, 3)) /* as under the thread sanitizer: threads meet alike in all of them */
        return;
    strike_all(&scenarios[_i % SCENARIOS], 1 + 7 * _i % stride, stride, _i < SCENARIOS ? FULL_ONCE : FULL_ON,
               "a full disk");
}
END_TEST

/* Where the folder itself cannot be locked another run's lock is a file, too. */
START_TEST(a_lock_may_be_a_file)
{
    const struct scenario run = { &one, 0, 1, 1, false, false, 1, "a lock that is a file", true };
    char folder[PATH_BYTES], lock[LONG_PATH_BYTES];
    struct world w;
    int result;
    folder_make(folder);
    world_open(&w, tiny_models[0]);
    snprintf(lock, sizeof lock, "%s/.lock", folder);
    for (int owned = 1; owned >= 0; owned--) {
        int file = owned ? open(lock, O_RDWR | O_CREAT, 0666) : -1;
        ck_assert(!owned || flock(file, LOCK_EX | LOCK_NB) == 0);
        pid_t child = fork();
        if (child == 0)
            be_killed(&w, &run, folder);
        run_until(child, INT32_MAX, BROKEN_ONCE, true, &result);
        ck_assert(WIFEXITED(result) && WEXITSTATUS(result) == owned);
        if (owned)
            close(file);
    }
    ck_assert_int_eq(folder_each(folder, NULL), 1);
    world_close(&w);
    remove_any(folder);
}
END_TEST

enum { BREAKING = 2, BREAKS = INTERRUPTED - BROKEN_ONCE + 1 };
START_TEST(a_broken_disk_loses_nothing)
{
    static const struct scenario breaking[BREAKING] = {
        { &one, 2, 3, 1, true, false, 1, "one rank goes on, the lock a file of its own", true },
        { &four, 2, 4, 1, true, false, 2, "four ranks go on and keep two", false },
    };
    int stride = small_share() ? 14 * share_stride() : share_stride() > 1 ? 83 : 1;
    if (!in_turn(_i, BREAKS))
        return;
    strike_all(&breaking[_i / BREAKS], 1 + 13 * _i % stride, stride, BROKEN_ONCE + _i % BREAKS, "a broken disk");
}
END_TEST
#endif

/* ---- any bit ---- */
struct bytes {
    char *data;
    size_t length;
};

static struct bytes read_bytes(const char *path)
{
    struct bytes b;
    struct error error = { 0 };
    ck_assert_msg(file_read(&b.data, &b.length, path, &error), "%s", error.message);
    return b;
}

static void write_byte(const char *path, size_t at, char byte)
{
    int file = open(path, O_WRONLY);
    ck_assert(file >= 0 && pwrite(file, &byte, 1, (off_t)at) == 1);
    close(file);
}

static int flipped_files, flipped_bits;
static struct world *flipped_world;
static const char *flipped_folder;

/* Resuming under another plan, with fewer ranks, has no reason of its own to look at every byte. */
static void flip_in(const char *path)
{
    struct bytes b = read_bytes(path);
    bool manifest = strstr(path, CHECKPOINT_MANIFEST) != NULL;
    int64_t stride = manifest ? 1 : max_i64(1, (int64_t)b.length / 400);
    stride *= (small_share() ? 2 : 1) * share_stride();
    for (size_t at = (size_t)flipped_files % (size_t)stride; at < b.length; at += (size_t)stride) {
        struct error error = { 0 };
        write_byte(path, at, (char)(b.data[at] ^ 1 << at % 8));
        ck_assert_msg(!world_run(flipped_world, &one, 2, NULL, flipped_folder, 0, &error), "%s: bit %d of byte %zu",
                      path, (int)(at % 8), at);
        ck_assert_msg(error.kind == ERROR_INPUT && strstr(error.message, path), "%s: byte %zu: %s", path, at,
                      error.message);
        write_byte(path, at, b.data[at]);
        flipped_bits++;
    }
    flipped_files++;
    free(b.data);
}

START_TEST(a_flipped_bit_is_refused)
{
    char folder[PATH_BYTES], save[PATH_BYTES];
    struct world w;
    folder_make(folder);
    world_open(&w, tiny_models[0]);
    must_run(&w, &four, 1, folder, NULL, 0);
    newest_save(folder, save);
    flipped_world = &w, flipped_folder = folder, flipped_files = flipped_bits = 0;
    folder_each(save, flip_in);
    ck_assert_int_eq(flipped_files, 5);
    say_trials("a flipped bit", flipped_bits);
    must_run(&w, &one, 2, NULL, folder, 0);
    world_close(&w);
    remove_any(folder);
}
END_TEST

static bool reads(struct world *w, const char *folder, const char *reason)
{
    struct error error = { 0 };
    if (world_run(w, &one, 3, NULL, folder, 0, &error))
        return true;
    ck_assert_msg(strstr(error.message, reason) != NULL, "%s", error.message);
    return false;
}

/* A block is named by its place; a file of another save, or an older release's folder, for what it is. */
START_TEST(what_is_wrong_is_named)
{
    char folder[PATH_BYTES], save[PATH_BYTES], other[PATH_BYTES], path[LONG_PATH_BYTES], from[LONG_PATH_BYTES];
    struct world w;
    struct error error = { 0 };
    folder_make(folder), folder_make(other);
    world_open(&w, tiny_models[0]);
    must_run(&w, &one, 1, folder, NULL, 0);
    must_run(&w, &one, 2, other, NULL, 0);
    newest_save(folder, save);
    snprintf(path, sizeof path, "%s/rank-0.safetensors", save);
    struct bytes whole = read_bytes(path);
    write_byte(path, whole.length - 1, (char)(whole.data[whole.length - 1] ^ 4));
    ck_assert(!reads(&w, folder, ": the checksum of block 0 (bytes "));
    free(whole.data);
    newest_save(other, save);
    snprintf(from, sizeof from, "%s/rank-0.safetensors", save);
    ck_assert_int_eq(rename(from, path), 0);
    ck_assert(!reads(&w, folder, "the header's checksum differs from the manifest"));
    /* The same with a manifest that was made to fit that file. */
    struct manifest manifest;
    newest_save(folder, save);
    ck_assert_msg(manifest_read(&manifest, save, &error), "%s", error.message);
    struct bytes moved = read_bytes(path);
    size_t header = 8, length;
    for (int i = 0; i < 8; i++)
        header += (size_t)(unsigned char)moved.data[i] << (8 * i);
    manifest.records[0] = (struct file_record){ (int64_t)moved.length, hash_bytes(HASH_START, moved.data, header) };
    char *text = manifest_write(&manifest.label, manifest.model, manifest.records, &length);
    ck_assert_msg(file_write(manifest.path, text, length, &error), "%s", error.message);
    ck_assert(!reads(&w, folder, "expected a file of version 2 step 1 save 1 seed 3 model "));
    free(moved.data), free(text);
    static const char old[] = "{\"format\": \"cleave-checkpoint\", \"version\": 1, \"step\": 3}\n";
    ck_assert_msg(file_write(manifest.path, old, sizeof old - 1, &error), "%s", error.message);
    manifest_free(&manifest);
    ck_assert(!reads(&w, folder, "expected a checkpoint of version 2, found version 1: resume it with the release"));
    world_close(&w);
    remove_any(folder), remove_any(other);
}
END_TEST

/* ---- whose folder it is ---- */
static int refused;

static void is_refused(struct world *w, const struct tiny_choice *choice, int64_t steps, const char *save,
                       const char *resume, int64_t every, const char *reason)
{
    struct error error = { 0 };
    ck_assert_msg(!world_run(w, choice, steps, save, resume, every, &error), "%s", reason);
    refused++;
    ck_assert_msg(error.kind == ERROR_INPUT && strstr(error.message, reason), "expected %s: %s", reason, error.message);
}

START_TEST(two_runs_do_not_share_a_folder)
{
    char folder[PATH_BYTES];
    struct world w;
    int ends[2], result;
    char byte;
    folder_make(folder);
    world_open(&w, tiny_models[0]);
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) { /* as a run that is in the middle of its steps */
        int file = open(folder, O_RDONLY | O_DIRECTORY);
        bool locked = file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0 && write(ends[1], "x", 1) == 1;
        while (locked)
            pause();
        _exit(1);
    }
    ck_assert_int_eq(read(ends[0], &byte, 1), 1);
    char who[64];
    snprintf(who, sizeof who, "another run (process %ld) saves in ", (long)child);
    is_refused(&w, &one, 1, folder, NULL, 0, who);
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, &result, 0), child);
    must_run(&w, &one, 1, folder, NULL, 0); /* the lock went with it */
    close(ends[0]), close(ends[1]);
    world_close(&w);
    remove_any(folder);
}
END_TEST

static void holds(const char *folder, int64_t step, int entries)
{
    char save[PATH_BYTES];
    struct error error = { 0 };
    struct manifest manifest;
    newest_save(folder, save);
    ck_assert_msg(manifest_read(&manifest, save, &error), "%s", error.message);
    ck_assert_int_eq(manifest.label.step, step);
    ck_assert_int_eq(folder_each(folder, NULL), entries);
    manifest_free(&manifest);
}

static void take_a_while(void *context, const struct run_step *step)
{
    on_step(context, step);
    usleep(20000);
}

START_TEST(other_runs_checkpoints_stay)
{
    char folder[PATH_BYTES], other[PATH_BYTES];
    struct world w, llama;
    folder_make(folder), folder_make(other);
    world_open(&w, tiny_models[0]), world_open(&llama, tiny_models[1]);
    must_run(&w, &one, 4, folder, NULL, 0);
    is_refused(&w, &one, 3, folder, NULL, 0, "holds step 4 of an earlier run: go on from it with --resume /");
    is_refused(&w, &one, 6, folder, NULL, 2, "replace it with --overwrite, or choose another folder");
    is_refused(&w, &four, 4, folder, NULL, 0, "holds step 4 of another plan: ");
    is_refused(&llama, &one, 4, folder, NULL, 0, "holds step 4 of another model, ");
    w.more.seed = 11;
    is_refused(&w, &one, 4, folder, NULL, 0, "of another seed, 3: go on from it with --resume ");
    w.more.seed = 0;
    w.more.on_step = take_a_while; /* a save beside the next steps is whole before the next one */
    must_run(&w, &one, 6, other, NULL, 3);
    w.more.on_step = NULL, w.more.checkpoint_overwrite = true;
    must_run(&w, &one, 2, other, NULL, 0);
    w.more.checkpoint_overwrite = false;
    is_refused(&w, &four, 4, folder, other, 0, "holds step 4 of another plan: ");
    holds(folder, 4, 1);
    is_refused(&w, &one, 4, folder, NULL, 0, "holds step 4 of an earlier run: "); /* the same again */
    holds(folder, 4, 1);
    must_run(&w, &four, 6, folder, folder, 0); /* it goes on, by another plan */
    holds(folder, 6, 1);
    w.more.checkpoint_overwrite = true;
    must_run(&w, &one, 3, folder, NULL, 1);
    holds(folder, 3, 1);
    say_trials("a run into another's folder", refused);
    world_close(&w), world_close(&llama);
    remove_any(folder), remove_any(other);
}
END_TEST

START_TEST(so_many_are_kept)
{
    char folder[PATH_BYTES], path[PATH_BYTES];
    struct world w, straight, resumed;
    folder_make(folder);
    world_open(&w, tiny_models[0]), world_open(&straight, tiny_models[0]), world_open(&resumed, tiny_models[0]);
    w.more.checkpoint_keep = 3;
    must_run(&w, &four, 5, folder, NULL, 1);
    holds(folder, 5, 3);
    must_run(&straight, &four, 4, NULL, NULL, 0);
    snprintf(path, sizeof path, "%.400s/step-4.save-4", folder); /* an older one, by its own name */
    must_run(&resumed, &four, 4, NULL, path, 0);
    same_weights(&straight, &resumed);
    is_refused(&w, &four, 5, path, NULL, 0, "is a checkpoint itself, or holds one of an older release");
    must_run(&w, &four, 6, folder, folder, 1);
    holds(folder, 6, 3);
    world_close(&w), world_close(&straight), world_close(&resumed);
    remove_any(folder);
}
END_TEST

/* ---- by the clock, and on request ---- */
static atomic_int asked;

static void ask_at_two(void *context, const struct run_step *step)
{
    on_step(context, step);
    asked = step->step >= 2;
}

/* Ranks of an asynchronous schedule are in the next step when rank 0 decides: they save after that one. */
START_TEST(a_run_saves_when_it_is_asked_to_end)
{
    static const struct tiny_choice apart = {
        .dp = 2, .tp = 1, .pp = 2, .micro = 4, .tp_dim = DIM_tp, .named = "pipedream-2bw"
    };
    static const struct tiny_choice *const runs[] = { &one, &four, &apart };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        for (int beside = 0; beside < 2; beside++) {
            char folder[PATH_BYTES];
            struct world w;
            folder_make(folder);
            world_open(&w, tiny_models[0]);
            asked = 0;
            w.more.asked_to_end = &asked, w.more.on_step = ask_at_two;
            w.more.checkpoint_every_s = beside ? 1e-9 : 0; /* or after each step */
            must_run(&w, runs[i], STEPS, folder, NULL, 0);
            char save[PATH_BYTES];
            struct error error = { 0 };
            struct manifest manifest;
            newest_save(folder, save);
            ck_assert_msg(manifest_read(&manifest, save, &error), "%s", error.message);
            ck_assert_int_eq(manifest.label.step,
                             runs[i] == &apart ? 4 : 3); /* it is told after the decision about step 2 */
            ck_assert_int_eq(folder_each(folder, NULL), 1);
            manifest_free(&manifest);
            w.more = (struct run_options){ .step_count = 0 };
            must_run(&w, runs[i], STEPS, folder, folder, 0);
            world_close(&w);
            remove_any(folder);
        }
}
END_TEST

/* ---- links, and what others left ---- */
START_TEST(names_are_never_followed)
{
    char folder[PATH_BYTES], outside[PATH_BYTES], path[LONG_PATH_BYTES], victim[LONG_PATH_BYTES];
    struct world w;
    struct error error = { 0 };
    folder_make(folder), folder_make(outside);
    world_open(&w, tiny_models[0]);
    snprintf(victim, sizeof victim, "%s/victim", outside);
    ck_assert(file_write(victim, "mine", 4, &error));
    static const char *const planted[] = { "step-1.save-1.tmp", "step-1.save-1", "step-2.save-5.tmp" };
    for (size_t i = 0; i < sizeof planted / sizeof *planted; i++)
        for (int of_folder = 0; of_folder < 2; of_folder++) {
            snprintf(path, sizeof path, "%s/%s", folder, planted[i]);
            ck_assert_int_eq(symlink(of_folder ? outside : victim, path), 0);
            world_run(&w, &one, 1, folder, NULL, 0, &error);
            struct bytes b = read_bytes(victim);
            ck_assert(b.length == 4 && memcmp(b.data, "mine", 4) == 0);
            ck_assert_int_eq(folder_each(outside, NULL), 1);
            free(b.data);
            folder_each(folder, remove_any);
        }
    say_trials("a link planted", 2 * (int)(sizeof planted / sizeof *planted));
    /* A whole save that was not given its name, and strangers. */
    snprintf(path, sizeof path, "%s/step-1.save-7.tmp", folder);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/step-1.save-7.tmp/rank-0.safetensors", folder);
    ck_assert(file_write(path, "x", 1, &error));
    static const char *const strangers[] = { "step-01.save-2.tmp", "step-1.save-2.tmp2", "notes.txt", "step-x.save-1" };
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, strangers[i]);
        ck_assert(file_write(path, "x", 1, &error));
    }
    must_run(&w, &one, 1, folder, NULL, 0);
    holds(folder, 1, 5);
    world_close(&w);
    remove_any(folder), remove_any(outside);
}
END_TEST

static Suite *saves_suite(void)
{
    Suite *suite = suite_create("saves");
    CHECK_ADD(suite, checksums_are_castagnolis);
    CHECK_ADD_LOOP(suite, a_save_killed_anywhere_loses_nothing, SCENARIOS);
#ifdef __x86_64__
    CHECK_ADD_LOOP(suite, a_full_disk_loses_nothing, 2 * SCENARIOS);
    CHECK_ADD_LOOP(suite, a_broken_disk_loses_nothing, BREAKING * BREAKS);
    CHECK_ADD(suite, a_lock_may_be_a_file);
#endif
    CHECK_ADD(suite, a_flipped_bit_is_refused);
    CHECK_ADD(suite, what_is_wrong_is_named);
    CHECK_ADD(suite, two_runs_do_not_share_a_folder);
    CHECK_ADD(suite, other_runs_checkpoints_stay);
    CHECK_ADD(suite, so_many_are_kept);
    CHECK_ADD(suite, a_run_saves_when_it_is_asked_to_end);
    CHECK_ADD(suite, names_are_never_followed);
    return suite;
}
CHECK_MAIN(saves_suite)
