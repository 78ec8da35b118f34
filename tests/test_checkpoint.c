/* Checkpoints: resumed runs, resharding, damage. */
#define _GNU_SOURCE
#include "tests/saved_runs.h"
#include "base/text.h"
#include "executor/checkpoint/parts.h"
#include "executor/checkpoint/rank_file.h"
#include "executor/checkpoint/read.h"
#include "host/clock.h"
#include "host/file.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SAVED = 3 };

static const struct tiny_choice choices[] = {
    { .dp = 1, .tp = 1, .pp = 1, .micro = 1, .tp_dim = DIM_tp, .clip = 1 },
    { .dp = 2, .tp = 2, .pp = 2, .micro = 2, .tp_dim = DIM_tp_sp, .clip = 1, .zero = 1, .offload = OFFLOAD_ALL },
    { .dp = 4, .tp = 1, .pp = 2, .micro = 2, .tp_dim = DIM_tp, .clip = 1, .zero = 2 },
    { .dp = 4,
      .tp = 2,
      .pp = 1,
      .micro = 1,
      .tp_dim = DIM_tp,
      .clip = 1,
      .zero = 3,
      .offload = OFFLOAD_OPTIMIZER | OFFLOAD_PARAMETERS },
    { .dp = 2,
      .tp = 1,
      .pp = 2,
      .micro = 4,
      .tp_dim = DIM_tp,
      .clip = 1,
      .zero = 3,
      .named = "interleaved",
      .chunks = 2 },
    { .dp = 2, .tp = 1, .pp = 2, .micro = 4, .tp_dim = DIM_tp, .clip = 1, .zero = 2, .turns = { 3, 1 } },
    { .dp = 2, .tp = 1, .pp = 2, .micro = 4, .tp_dim = DIM_tp, .clip = 1, .zero = 1, .named = "chimera", .chunks = 2 },
    { .dp = 4, .tp = 1, .pp = 2, .micro = 2, .tp_dim = DIM_tp, .clip = 1, .server = true },
};
enum { CHOICES = sizeof choices / sizeof *choices };

static int rank_count(const struct tiny_choice *choice)
{
    struct graph *graph = tiny_graph(tiny_models[0]);
    struct plan *plan = tiny_plan(graph, choice);
    int ranks = plan->rank_count;
    plan_free(plan);
    graph_free(graph);
    return ranks;
}

/* Two copies of the model, each with every weight whole, are the same bits after steps; so are tied weights in both. */
START_TEST(copies_of_the_model_stay_equal)
{
    static const struct tiny_choice pairs[] = {
        { .dp = 1, .tp = 1, .pp = 2, .micro = 4, .tp_dim = DIM_tp, .clip = 1, .named = "chimera", .chunks = 2 },
        { .dp = 2, .tp = 1, .pp = 4, .micro = 4, .tp_dim = DIM_tp, .named = "chimera", .chunks = 2, .zero = 3 },
    };
    for (size_t c = 0; c < sizeof pairs / sizeof *pairs; c++) {
        struct world w;
        world_open(&w, tiny_models[_i]);
        must_run(&w, &pairs[c], STEPS, NULL, NULL, 0);
        for (int i = 0; i < w.graph->weight_count; i++)
            for (int64_t e = 0; e < weight_elements(&w.graph->weights[i]); e++)
                ck_assert_int_ge(w.copies[i][e], 2);
        world_close(&w);
    }
}
END_TEST

START_TEST(a_resumed_run_is_bitwise_the_same)
{
    for (int c = 0; c < CHOICES; c++) {
        struct tiny_choice choice = choices[c];
        char folder[PATH_BYTES], save[PATH_BYTES];
        struct world straight, first, second;
        folder_make(folder);
        world_open(&straight, tiny_models[_i]), world_open(&first, tiny_models[_i]),
            world_open(&second, tiny_models[_i]);
        must_run(&straight, &choice, STEPS, NULL, NULL, 0);
        must_run(&first, &choice, SAVED, folder, NULL, 1);
        ck_assert_int_eq(folder_each(folder, NULL), 1); /* older ones are gone */
        newest_save(folder, save);
        ck_assert_int_eq(folder_each(save, NULL), rank_count(&choice) + 1);
        must_run(&second, &choice, STEPS, NULL, folder, 0);
        same_weights(&straight, &second);
        for (int s = SAVED; s < STEPS; s++)
            CHECK_NEAR(second.loss[s], straight.loss[s], 0);
        world_close(&straight), world_close(&first), world_close(&second);
        remove_any(folder);
    }
    printf("trials: resumed by the same plan: %d\n", CHOICES); /* benchmarks/run_reliability counts these */
}
END_TEST

/* From every plan to every other: the weights are the same bits, and training goes on as on one rank. Of a small share
 * each is read from one, of a larger one from two. */
START_TEST(another_plan_reads_its_pieces)
{
    struct world single;
    const int every = small_share() ? 3 : share_stride() > 1 ? 2 : 1;
    int trials = 0;
    world_open(&single, tiny_models[_i]);
    must_run(&single, &choices[0], STEPS, NULL, NULL, 0);
    for (int from = 0; from < 3; from++) {
        char folder[PATH_BYTES];
        struct world written;
        folder_make(folder);
        world_open(&written, tiny_models[_i]);
        must_run(&written, &choices[from], SAVED, folder, NULL, 0);
        for (int to = small_share() ? from : from % every; to < CHOICES; to += every, trials++) {
            struct tiny_choice choice = choices[to];
            struct world read;
            world_open(&read, tiny_models[_i]);
            must_run(&read, &choice, SAVED, NULL, folder, 0); /* no step is left: what was read */
            same_weights(&written, &read);
            must_run(&read, &choice, STEPS, NULL, folder, 0);
            for (int s = SAVED; s < STEPS; s++)
                CHECK_NEAR(read.loss[s], single.loss[s], 1e-4 * single.loss[s]);
            world_close(&read);
        }
        world_close(&written);
        remove_any(folder);
    }
    printf("trials: resumed by another plan: %d\n", trials);
    world_close(&single);
}
END_TEST

static char victim[LONG_PATH_BYTES];
static void choose_victim(const char *file)
{
    if (strstr(file, "rank-1.safetensors"))
        snprintf(victim, sizeof victim, "%s", file);
}

static void damage(const char *file, long offset_from_end, bool cut)
{
    char *data;
    size_t length;
    struct error error = { 0 };
    ck_assert_msg(file_read(&data, &length, file, &error), "%s", error.message);
    data[length - (size_t)offset_from_end] ^= 0x20;
    ck_assert_msg(file_write(file, data, cut ? length - 1 : length, &error), "%s", error.message);
    free(data);
}

START_TEST(damaged_checkpoints_are_refused)
{
    for (int kind = 0; kind < 4; kind++) {
        char folder[PATH_BYTES], save[PATH_BYTES];
        struct world w;
        struct error error = { 0 };
        folder_make(folder);
        world_open(&w, tiny_models[0]);
        must_run(&w, &choices[1], 1, folder, NULL, 0);
        newest_save(folder, save);
        folder_each(save, choose_victim);
        char *data;
        size_t length;
        ck_assert(file_read(&data, &length, victim, &error));
        free(data);
        if (kind == 0)
            damage(victim, 5, false); /* an element */
        else if (kind == 1)
            damage(victim, (long)length - 20, false); /* the header */
        else if (kind == 2)
            damage(victim, 5, true);
        else
            unlink(victim);
        ck_assert(!world_run(&w, &choices[2], 2, NULL, folder, 0, &error));
        static const char *const reasons[] = { "is damaged", "checksum differs", "bytes as the manifest says",
                                               "No such file" };
        ck_assert_msg(strstr(error.message, reasons[kind]) != NULL, "%s", error.message);
        ck_assert_msg(strstr(error.message, ": give --resume another checkpoint") != NULL, "%s", error.message);
        world_close(&w);
        remove_any(folder);
    }
}
END_TEST

START_TEST(other_models_and_seeds_are_refused)
{
    char folder[PATH_BYTES], save[PATH_BYTES];
    struct world w, other;
    struct error error = { 0 };
    folder_make(folder);
    world_open(&w, tiny_models[0]), world_open(&other, tiny_models[1]);
    must_run(&w, &choices[0], 1, folder, NULL, 0);
    newest_save(folder, save);
    ck_assert(!world_run(&other, &choices[0], 2, NULL, folder, 0, &error));
    char expected[4 * PATH_BYTES];
    snprintf(expected, sizeof expected,
             "%s/manifest.json:7:17: model_hash: expected a checkpoint of the plan's model, %s (hash %016" PRIx64
             "), found one of %s (hash %016" PRIx64 "): run a plan for that model, ",
             save, other.graph->model_name, other.graph->model_hash, w.graph->model_name, w.graph->model_hash);
    ck_assert_msg(strstr(error.message, expected) != NULL, "%s\n%s", error.message, expected);
    error = (struct error){ 0 }, w.more.seed = 11;
    ck_assert(!world_run(&w, &choices[0], 2, NULL, folder, 0, &error));
    ck_assert_msg(
        strstr(error.message, "expected the seed of this run (11), found 3: data would differ; run with --seed 3"),
        "%s", error.message);
    error = (struct error){ 0 }, w.more.seed = 0;
    ck_assert(!world_run(&w, &choices[0], 2, NULL, "/nonexistent", 0, &error));
    static char long_path[CHECKPOINT_PATH_BYTES + 1];
    memset(long_path, 'x', sizeof long_path - 1);
    error = (struct error){ 0 };
    ck_assert(!manifest_read(&(struct manifest){ 0 }, long_path, &error) &&
              strncmp(error.message, "checkpoint: the path xxx", 24) == 0);
    world_close(&w), world_close(&other);
    remove_any(folder);
}
END_TEST

/* More than the system may take in before it is brought to the disk. */
START_TEST(long_tensors_are_written_in_stretches)
{
    enum { BYTES = (1 << 26) + 4 };
    struct run_options options = run_options_default();
    struct rank rank = { .options = &options };
    struct tensor tensor = { .name = "a", .type = TENSOR_U8, .dim_count = 1, .shape = { BYTES }, .bytes = BYTES };
    struct place place = { { .dim_count = 1, .count = { BYTES } }, 0, BYTES };
    const void *data = calloc(1, BYTES);
    int buffer = -1;
    struct rank_file file = { .rank = &rank,
                              .count = 1,
                              .tensors = &tensor,
                              .places = &place,
                              .buffers = &buffer,
                              .data = &data,
                              .bytes = BYTES };
    const struct checkpoint_label label = { .step = 1, .save = 1, .file_count = 1 };
    struct file_record record;
    struct stat status;
    struct error error = { 0 };
    char folder[PATH_BYTES], name[CHECKPOINT_NAME_BYTES];
    folder_make(folder);
    ck_assert(status_open(&options.status, NULL, 1, &error));
    void *bytes = (void *)(uintptr_t)data;
    int at = open(folder, O_RDONLY | O_DIRECTORY);
    ck_assert_msg(rank_file_write(&file, at, &label, &record, &error), "%s", error.message);
    checkpoint_file_name(name, 0);
    ck_assert(fstatat(at, name, &status, 0) == 0 && status.st_size == record.bytes && record.bytes > BYTES);
    close(at);
    arena_free(&file.arena);
    status_close(options.status);
    free(bytes);
    remove_any(folder);
}
END_TEST

/* Of more elements than there are addresses. */
START_TEST(weights_of_16_bits_want_room_to_be_written)
{
    struct plan plan = { .dtype = DTYPE_BF16 };
    struct buffer weight = { .kind = BUFFER_WEIGHT };
    struct program program = { .plan = &plan, .buffers = &weight, .buffer_count = 1 };
    struct rank rank = { .program = &program };
    struct place place = { .count = INT64_MAX - 1 };
    struct file_record record;
    struct error error = { 0 };
    const void *data = &weight;
    int buffer = 0;
    struct rank_file file = { .rank = &rank, .count = 1, .places = &place, .buffers = &buffer, .data = &data };
    ck_assert(!rank_file_write(&file, -1, &(struct checkpoint_label){ .step = 1 }, &record, &error));
    ck_assert_int_eq(error.kind, ERROR_ENVIRONMENT);
    arena_free(&file.arena);
}
END_TEST

/* Another rank that has never opened what is chosen. */
static bool says_no(void *self, enum lane lane, int to, const void *send, size_t send_bytes, int from, void *receive,
                    size_t receive_bytes, struct error *err)
{
    (void)lane, (void)to, (void)send, (void)send_bytes, (void)from, (void)err;
    *(int *)self += receive_bytes > 0;
    if (receive_bytes > 0)
        memset(receive, 0, receive_bytes);
    return true;
}

START_TEST(saves_that_are_gone_before_all_have_them_open_are_given_up)
{
    int asked = 0;
    struct world w;
    char folder[PATH_BYTES];
    world_open(&w, tiny_models[0]);
    folder_make(folder);
    must_run(&w, &choices[0], SAVED, folder, NULL, 0);
    struct program program = { .graph = w.graph };
    struct run_options options = run_options_default();
    struct transport transport = { .self = &asked, .rank_count = 2, .exchange = says_no };
    struct rank rank = { .program = &program, .options = &options, .transport = &transport };
    struct error error = { 0 };
    options.seed = 3;
    ck_assert(!checkpoint_read(&rank, folder, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "another run saves in"));
    ck_assert_int_gt(asked, 1);
    remove_any(folder);
    world_close(&w);
}
END_TEST

/* The path of a folder that can be opened, and of a save in it that cannot. */
START_TEST(a_folder_may_be_too_deep)
{
    char folder[PATH_BYTES], deep[CHECKPOINT_PATH_BYTES];
    struct world w;
    struct error error = { 0 };
    folder_make(folder);
    int length = snprintf(deep, sizeof deep, "%s", folder);
    while (length < CHECKPOINT_PATH_BYTES - 8) {
        int more = CHECKPOINT_PATH_BYTES - 8 - length > 250 ? 200 : CHECKPOINT_PATH_BYTES - 8 - length;
        deep[length] = '/';
        memset(deep + length + 1, 'd', (size_t)more - 1);
        deep[length += more] = '\0';
        ck_assert_int_eq(mkdir(deep, 0777), 0);
    }
    world_open(&w, tiny_models[0]);
    ck_assert(!world_run(&w, &choices[0], 1, deep, NULL, 0, &error));
    ck_assert_msg(strstr(error.message, "checkpoint: the path /") != NULL, "%s", error.message);
    world_close(&w);
    for (char *slash; strlen(deep) > strlen(folder) && (slash = strrchr(deep, '/')); *slash = '\0')
        ck_assert_int_eq(rmdir(deep), 0);
    remove_any(folder);
}
END_TEST

/* The header of a checkpoint's only file with some bytes in place of others, as if it had been written so. */
static void forge(const char *save, const char *from, const char *to)
{
    char path[2 * PATH_BYTES], name[CHECKPOINT_NAME_BYTES], *data, *text;
    struct manifest manifest;
    struct error error = { 0 };
    size_t length, header;
    checkpoint_file_name(name, 0);
    snprintf(path, sizeof path, "%s/%s", save, name);
    ck_assert(manifest_read(&manifest, save, &error) && file_read(&data, &length, path, &error));
    ck_assert(safetensors_header_bytes(&header, path, (unsigned char *)data, (int64_t)length, &error));
    char *end = data + SAFETENSORS_LENGTH_BYTES + header;
    for (char *at = data; (at = memmem(at, (size_t)(end - at), from, strlen(from))); at++)
        memcpy(at, to, strlen(from));
    manifest.records[0].header_hash = hash_bytes(HASH_START, data, SAFETENSORS_LENGTH_BYTES + header);
    ck_assert(file_write(path, data, length, &error));
    text = manifest_write(&manifest.label, manifest.model, manifest.records, &length);
    snprintf(path, sizeof path, "%s/" CHECKPOINT_MANIFEST, save);
    ck_assert(text && file_write(path, text, length, &error));
    free(text), free(data);
    manifest_free(&manifest);
}

/* A file that is whole and of this run, but not what its ranks need. */
START_TEST(what_is_whole_may_still_be_wrong)
{
    static const struct {
        const char *from, *to, *message;
    } cases[] = {
        { " crc32c ", " CRC32C ", "its place and checksums in the metadata" },
        { "\"weight/", "\"wEight/", "finds no value for an element of row " },
        { " elements ", " Elements ", "its place and checksums in the metadata" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char folder[PATH_BYTES], save[PATH_BYTES];
        struct world w;
        struct error error = { 0 };
        folder_make(folder);
        world_open(&w, tiny_models[0]);
        must_run(&w, &choices[0], 1, folder, NULL, 0);
        newest_save(folder, save);
        forge(save, cases[i].from, cases[i].to);
        ck_assert(!world_run(&w, &choices[0], 2, NULL, folder, 0, &error));
        ck_assert_msg(strstr(error.message, cases[i].message) != NULL, "%s", error.message);
        world_close(&w);
        remove_any(folder);
    }
    /* the last byte, which ranks of the first stage do not need */
    char folder[PATH_BYTES], save[PATH_BYTES];
    struct world w;
    struct error error = { 0 };
    folder_make(folder);
    world_open(&w, tiny_models[0]);
    must_run(&w, &choices[0], 1, folder, NULL, 0);
    newest_save(folder, save);
    snprintf(victim, sizeof victim, "%s/rank-0.safetensors", save);
    damage(victim, 1, false);
    ck_assert(!world_run(&w, &choices[2], 2, NULL, folder, 0, &error));
    ck_assert_msg(strstr(error.message, "is damaged") != NULL, "%s", error.message);
    world_close(&w);
    remove_any(folder);
}
END_TEST

/* ---- a disk that takes its time ---- */
/* Of one call of the system that waits for a disk; -1: until it is released. Before it the run's own folder is made. */
static atomic_llong stall_ns, asleep;
static atomic_int calls_before;

static bool commits_fail;
static bool is_manifest(int file)
{
    char link[32], path[PATH_BYTES] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    return readlink(link, path, sizeof path - 1) > 0 && strstr(path, CHECKPOINT_MANIFEST);
}

int fsync(int file)
{
    if (commits_fail && is_manifest(file)) {
        errno = EIO;
        return -1;
    }
    long long own_ns = atomic_fetch_sub(&calls_before, 1) > 0 ? 0 : atomic_exchange(&stall_ns, 0),
              until_ns = clock_now_ns() + own_ns;
    if (own_ns != 0)
        atomic_store(&asleep, own_ns);
    while (own_ns < 0 ? atomic_load(&asleep) < 0 : clock_now_ns() < until_ns)
        clock_sleep_until_ns(clock_now_ns() + 1000000);
    return (int)syscall(SYS_fsync, file);
}

static void release(void *context, const struct error *error)
{
    (void)context, (void)error;
    atomic_store(&asleep, 0);
}

/* A machine that has no time for a rank makes no progress, either: then once more. */
static void run_on_slow_disk(long long of_ns, double timeout_s, const char *why)
{
    enum { TRIES = 8 };
    struct error error = { 0 };
    bool held = false;
    for (int i = 0; i < TRIES && !held; i++) {
        char folder[PATH_BYTES];
        struct world w;
        folder_make(folder);
        world_open(&w, tiny_models[0]);
        w.more.timeout_s = timeout_s, w.more.on_stuck = release;
        atomic_store(&calls_before, 1);
        atomic_store(&stall_ns, of_ns);
        error = (struct error){ 0 };
        bool ok = world_run(&w, &choices[1], 1, folder, NULL, 0, &error);
        held = why ? !ok && strstr(error.message, why) : ok;
        world_close(&w);
        remove_any(folder);
    }
    ck_assert_msg(held, "%s", error.message);
}

START_TEST(a_disk_may_take_longer_than_a_stuck_rank)
{
    run_on_slow_disk(400000000, 0.2, NULL);
    run_on_slow_disk(-1, 0.04, ", its disk does not answer");
    printf("trials: a disk that is silent: 2\n");
}
END_TEST

/* For steps that are longer than an errand. */
static void wait_at_step(void *context, const struct run_step *step)
{
    on_step(context, step);
    clock_sleep_until_ns(clock_now_ns() + 100000000);
}

/* A save beside the steps fails when it is committed: the run ends at the step that sees it, where the machine has time
 * for it before the next is due. */
START_TEST(a_commit_that_fails_ends_the_run)
{
    char folder[PATH_BYTES];
    struct world w;
    struct error error = { 0 };
    folder_make(folder);
    world_open(&w, tiny_models[0]);
    w.more.on_step = wait_at_step;
    commits_fail = true;
    ck_assert(!world_run(&w, &choices[0], STEPS, folder, NULL, 3, &error));
    commits_fail = false;
    ck_assert_msg(strstr(error.message, "Input/output error") != NULL, "%s", error.message);
    world_close(&w);
    remove_any(folder);
}
END_TEST

/* ---- a folder that others remove and make anew ---- */
static const char *contended;
static int times_removed;

int flock(int file, int operation)
{
    int result = (int)syscall(SYS_flock, file, operation);
    if (contended && operation & LOCK_EX && times_removed > 0) {
        times_removed--;
        ck_assert(rmdir(contended) == 0 && mkdir(contended, 0777) == 0);
    }
    return result;
}

/* Who has locked one that no longer has the name tries again, and not for ever. */
START_TEST(a_folder_that_is_always_another_is_given_up)
{
    for (int fails = 0; fails < 2; fails++) {
        char folder[PATH_BYTES];
        struct world w;
        struct error error = { 0 };
        folder_make(folder);
        world_open(&w, tiny_models[0]);
        contended = folder, times_removed = fails ? INT32_MAX : 5;
        bool ok = world_run(&w, &choices[0], 1, folder, NULL, 0, &error);
        contended = NULL;
        ck_assert_msg(ok == !fails, "%s", error.message);
        ck_assert(!fails || strstr(error.message, "checkpoint: cannot lock /"));
        ck_assert_int_eq(folder_each(folder, NULL), !fails);
        world_close(&w);
        remove_any(folder);
    }
}
END_TEST

static void add_for_models(Suite *suite, const char *name, const TTest *test)
{
    TCase *one = tcase_create(name);
    tcase_set_timeout(one, 0);
    for (int m = 0; m < TINY_MODELS; m += share_stride())
        tcase_add_loop_test(one, test, m, m + 1);
    suite_add_tcase(suite, one);
}

static Suite *checkpoint_suite(void)
{
    Suite *suite = suite_create("checkpoint");
    add_for_models(suite, "copies_of_the_model_stay_equal", copies_of_the_model_stay_equal);
    add_for_models(suite, "a_resumed_run_is_bitwise_the_same", a_resumed_run_is_bitwise_the_same);
    add_for_models(suite, "another_plan_reads_its_pieces", another_plan_reads_its_pieces);
    CHECK_ADD(suite, a_disk_may_take_longer_than_a_stuck_rank);
    CHECK_ADD(suite, a_commit_that_fails_ends_the_run);
    CHECK_ADD(suite, a_folder_that_is_always_another_is_given_up);
    CHECK_ADD(suite, damaged_checkpoints_are_refused);
    CHECK_ADD(suite, other_models_and_seeds_are_refused);
    CHECK_ADD(suite, what_is_whole_may_still_be_wrong);
    CHECK_ADD(suite, long_tensors_are_written_in_stretches);
    CHECK_ADD(suite, weights_of_16_bits_want_room_to_be_written);
    CHECK_ADD(suite, saves_that_are_gone_before_all_have_them_open_are_given_up);
    CHECK_ADD(suite, a_folder_may_be_too_deep);
    return suite;
}
CHECK_MAIN(checkpoint_suite)
