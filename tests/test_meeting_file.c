/* Ranks that find each other by a file: the format against every change of a byte, and ranks that are there before it,
 * beside the leavings of earlier runs and of other jobs. */
#define _GNU_SOURCE
#include "tests/check.h"
#include "executor/launch.h"
#include "executor/meeting_file.h"
#include "host/clock.h"
#include "host/file.h"
#include "tests/struck_calls.h"
#include "tests/tcp_ends.h"
#include "executor/rendezvous_wire.h"
#include <poll.h>
#include <stdatomic.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 4, VALUE_BYTES = 128 };
static const char token[] = "Slurm 4711.0";
static char folder[64], path[MEETING_PATH_BYTES];

static void make_folder(void)
{
    struct error error = { 0 };
    snprintf(folder, sizeof folder, "meeting-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert(meeting_file_path(path, folder, token, &error));
}

static void remove_folder(void)
{
    unlink(path);
    ck_assert_int_eq(rmdir(folder), 0);
}

/* ---- the format ---- */
START_TEST(only_what_was_made_is_read)
{
    const struct meeting_place place = { "10.0.0.7", 40123, RANKS };
    struct meeting_place got;
    unsigned char bytes[MEETING_FILE_BYTES];
    struct error error = { 0 };
    meeting_file_make(bytes, &place, token);
    ck_assert_msg(meeting_file_read(&got, bytes, sizeof bytes, token, &error), "%s", error.message);
    ck_assert(strcmp(got.host, "10.0.0.7") == 0 && got.port == 40123 && got.rank_count == RANKS);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] ^= 1 << i % 8;
        error = (struct error){ 0 };
        ck_assert_msg(!meeting_file_read(&got, bytes, sizeof bytes, token, &error), "byte %zu", i);
        bytes[i] ^= 1 << i % 8;
    }
    for (size_t length = 0; length < sizeof bytes; length++)
        ck_assert(!meeting_file_read(&got, bytes, length, token, &error));
    error = (struct error){ 0 };
    ck_assert(!meeting_file_read(&got, bytes, sizeof bytes, "Slurm 4712.0", &error));
    ck_assert_str_eq(error.message, "it is of another job: its token is not this one's");
}
END_TEST

START_TEST(places_without_sense_are_refused)
{
    struct meeting_place places[] = { { "", 1, 1 }, { "h", 0, 1 }, { "h", 65536, 1 }, { "h", 1, 0 }, { "", 1, 1 } },
                         got;
    memset(places[4].host, 'x', sizeof places[4].host);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        unsigned char bytes[MEETING_FILE_BYTES];
        struct error error = { 0 };
        meeting_file_make(bytes, &places[i], token);
        ck_assert(!meeting_file_read(&got, bytes, sizeof bytes, token, &error));
        ck_assert_msg(strstr(error.message, "it names no host, or port"), "%s", error.message);
    }
}
END_TEST

/* ---- ranks ---- */
static const char *look_up(const char *name)
{
    return strcmp(name, "CLEAVE_MEETING_FOLDER") == 0 ? folder : strcmp(name, "CLEAVE_JOB_TOKEN") == 0 ? token : NULL;
}

struct process {
    int rank;
    struct rendezvous *rendezvous;
    unsigned char value[VALUE_BYTES];
    struct error error;
    bool ok;
};

/* As many bytes as NCCL's id go from rank 0 to all. */
static void *take_part(void *argument)
{
    struct process *p = argument;
    const struct launch launch = { "a test", p->rank, RANKS, p->rank, RANKS };
    struct meeting meeting;
    size_t bytes;
    p->ok = launch_meeting(&meeting, &launch, 20, look_up, &p->error) &&
            rendezvous_open(&p->rendezvous, &meeting, NULL, NULL, &p->error) &&
            (p->rank > 0 || rendezvous_put(p->rendezvous, "id", p->value, sizeof p->value, &p->error)) &&
            rendezvous_get(p->rendezvous, "id", p->value, sizeof p->value, &bytes, &p->error) &&
            bytes == sizeof p->value;
    return NULL;
}

/* Rank 0 comes last. */
static void expect_meeting(void)
{
    struct process processes[RANKS] = { { 0 } };
    pthread_t threads[RANKS];
    for (int r = RANKS - 1; r >= 0; r--) {
        processes[r].rank = r;
        for (int i = 0; i < VALUE_BYTES; i++)
            processes[r].value[i] = (unsigned char)(r == 0 ? i : 0xff);
        if (r == 0)
            clock_sleep_until_ns(clock_now_ns() + 100000000);
        ck_assert_int_eq(pthread_create(&threads[r], NULL, take_part, &processes[r]), 0);
    }
    for (int r = 0; r < RANKS; r++) {
        pthread_join(threads[r], NULL);
        ck_assert_msg(processes[r].ok, "rank %d: %s", r, processes[r].error.message);
        for (int i = 0; i < VALUE_BYTES; i++)
            ck_assert_int_eq(processes[r].value[i], i);
    }
    for (int r = RANKS - 1; r >= 0; r--)
        rendezvous_close(processes[r].rendezvous);
    ck_assert_int_ne(access(path, F_OK), 0);
}

START_TEST(ranks_meet_by_a_file)
{
    make_folder();
    expect_meeting();
    expect_meeting(); /* and the next run of the same job */
    remove_folder();
}
END_TEST

/* What an earlier run left leads to a port where nobody listens; half a file is none, and another job's neither. */
START_TEST(leavings_lead_nobody_astray)
{
    struct error error = { 0 };
    struct meeting_place place = { "127.0.0.1", 0, RANKS };
    unsigned char bytes[MEETING_FILE_BYTES];
    int listener = socket_listen(place.host, 0, &error), port;
    ck_assert(listener >= 0 && socket_own_address(listener, place.host, &port));
    place.port = port;
    if (_i == 0)
        close(listener);
    meeting_file_make(bytes, &place, _i == 1 ? "Slurm 4712.0" : token);
    make_folder();
    ck_assert(file_write(path, bytes, sizeof bytes - (_i == 2 ? 1 : 0), &error));
    expect_meeting();
    remove_folder();
    if (_i > 0)
        close(listener);
}
END_TEST

static void expect_refusal(int rank_count, const char *made_with, const char *why)
{
    const struct meeting_place place = { "127.0.0.1", 9, rank_count };
    struct meeting meeting = { .rank = 2, .rank_count = RANKS, .listener = -1, .timeout_s = 0.1 };
    struct error error = { 0 };
    unsigned char bytes[MEETING_FILE_BYTES];
    memcpy(meeting.token, token, sizeof token);
    make_folder();
    meeting_file_make(bytes, &place, made_with);
    ck_assert(rank_count == 0 || file_write(path, bytes, sizeof bytes, &error));
    ck_assert(!meeting_file_find(&meeting, folder, &error));
    ck_assert_msg(strstr(error.message, "rank 2 has not found rank 0 within 0.1 s by meeting-") &&
                      strstr(error.message, why),
                  "%s", error.message);
    remove_folder();
}

START_TEST(who_waits_in_vain_is_told_why)
{
    expect_refusal(0, token, "No such file");
    expect_refusal(RANKS, "another", "it is of another job");
    expect_refusal(RANKS + 1, token, "it is of a run with 5 ranks, this one has 4");
    expect_refusal(RANKS, token, "nobody listens at 127.0.0.1 port 9");
}
END_TEST

#ifdef __x86_64__
/* ---- at each call by which they talk ---- */
enum { FEW = 2, MOST_S = 30 };
static void *take_part_shortly(void *argument)
{
    struct process *p = argument;
    struct meeting meeting = { .rank = p->rank, .rank_count = FEW, .listener = -1, .timeout_s = 0.4 };
    struct status *page = NULL;
    size_t bytes;
    memcpy(meeting.token, token, sizeof token);
    p->ok = status_open(&page, NULL, FEW, &p->error) && meeting_file_find(&meeting, folder, &p->error) &&
            rendezvous_open(&p->rendezvous, &meeting, NULL, NULL, &p->error);
    if (p->rendezvous)
        rendezvous_watch(p->rendezvous, page);
    p->ok = p->ok && (p->rank > 0 || rendezvous_put(p->rendezvous, "id", p->value, sizeof p->value, &p->error)) &&
            rendezvous_get(p->rendezvous, "id", p->value, sizeof p->value, &bytes, &p->error);
    if (p->rendezvous)
        rendezvous_watch(p->rendezvous, NULL);
    rendezvous_close(p->rendezvous);
    status_close(page);
    return NULL;
}

static _Noreturn void meet_under_trace(void)
{
    struct process processes[FEW] = { { 0 } };
    pthread_t threads[FEW];
    bool ok = true;
    char unused[TOKEN_BYTES];
    struct error error = { 0 };
    alarm(MOST_S);
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    token_make(unused, &error);
    for (int r = 0; r < FEW; r++) {
        processes[r].rank = r;
        pthread_create(&threads[r], NULL, take_part_shortly, &processes[r]);
    }
    for (int r = 0; r < FEW; r++) {
        pthread_join(threads[r], NULL);
        ok &= processes[r].ok || processes[r].error.kind != ERROR_NONE;
    }
    syscall(SYS_faccessat, AT_FDCWD, LAST_MARK, F_OK);
    count_lines();
    _exit(ok ? 0 : 1);
}

/* Both ranks end soon, and who could not go on says why. */
START_TEST(a_call_that_fails_ends_nobody_without_a_word)
{
    int stride = small_share() ? 67 : share_stride() > 1 ? 31 : 1, trials = 0, result;
    const enum fault faults[] = { CUT_ONCE, CUT_ON, TALK_INTERRUPTED };
    for (int at = 1;; at += stride, trials++) {
        make_folder();
        pid_t child = fork();
        if (child == 0)
            meet_under_trace();
        bool struck = run_until(child, at, faults[_i], false, &result) >= at;
        ck_assert_msg(WIFEXITED(result) && WEXITSTATUS(result) == 0, "call %d: ended with %d", at, result);
        remove_folder();
        if (!struck)
            break;
    }
    printf("trials: a call by which ranks meet: %d\n", trials);
}
END_TEST
#endif

/* In place of the C library's, which this thread has go without. */
static _Thread_local bool no_random;
ssize_t getrandom(void *out, size_t bytes, unsigned flags)
{
    return no_random ? -1 : syscall(SYS_getrandom, out, bytes, flags);
}

START_TEST(without_random_bytes_nobody_joins)
{
    int ends[2];
    unsigned char greeting[GREETING_BYTES];
    struct hello hello = { 0 };
    struct error err = { 0 };
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    ck_assert(greeting_make(greeting));
    ck_assert_int_eq(write(ends[1], greeting, sizeof greeting), sizeof greeting);
    no_random = true;
    ck_assert(!handshake_join(ends[0], &hello, token, INT64_MAX, -1, "rank 0", NULL, &err));
    no_random = false;
    ck_assert_str_eq(err.message, "the system gives no random bytes");
    close(ends[0]);
    close(ends[1]);
}
END_TEST

/* ---- who says what nobody of a job says ---- */
struct liar {
    struct meeting meeting; /* of rank 1 */
    const void *said;       /* once it has let rank 1 in; NULL: in place of a greeting */
    size_t bytes;
};

/* As rank 0, which knows the token. */
static void *lie(void *argument)
{
    const struct liar *l = argument;
    unsigned char greeting[GREETING_BYTES], hello[HELLO_BYTES], verdict[VERDICT_BYTES];
    char waste[64];
    struct pollfd knocks = { .fd = l->meeting.listener, .events = POLLIN };
    ck_assert_int_eq(poll(&knocks, 1, -1), 1);
    int fd = accept(l->meeting.listener, NULL, NULL);
    ck_assert(fd >= 0 && greeting_make(greeting));
    if (!l->said)
        memcpy(greeting, "HTTP/1.1", 8);
    socket_write(fd, greeting, sizeof greeting, INT64_MAX, -1);
    if (l->said && socket_read(fd, hello, sizeof hello, INT64_MAX, -1) == SOCKET_DONE) {
        verdict_make(verdict, VERDICT_WELCOME, hello, greeting, l->meeting.token);
        socket_write(fd, verdict, sizeof verdict, INT64_MAX, -1);
        socket_write(fd, l->said, l->bytes, INT64_MAX, -1);
    }
    shutdown(fd, SHUT_WR);
    while (recv(fd, waste, sizeof waste, 0) > 0)
        continue;
    close(fd);
    return NULL;
}

static void count_abort(void *context)
{
    atomic_fetch_add((atomic_int *)context, 1);
}

START_TEST(a_rank_0_that_lies_ends_the_others)
{
    static const struct {
        struct frame head;
        char body[16];
    } says[] = {
        { { .kind = FRAME_PUT, .key_bytes = 1 }, "a" },
        { { .kind = FRAME_VIEW, .value_bytes = sizeof(struct view_head) }, { 0, 0, 0, 0, 9 } },
        { { .kind = FRAME_DONE, .value_bytes = RENDEZVOUS_VALUE_BYTES + 1 }, "" },
        { { .kind = FRAME_DONE, .value_bytes = RENDEZVOUS_VALUE_BYTES }, "half" },
    };
    for (size_t i = 0; i <= sizeof says / sizeof *says; i++) {
        struct liar liar = { .said = i > 0 ? &says[i - 1] : NULL, .bytes = sizeof *says };
        struct rendezvous *rendezvous = NULL;
        struct error error = { 0 };
        pthread_t thread;
        atomic_int aborts;
        atomic_init(&aborts, 0);
        ck_assert(tcp_meeting(&liar.meeting, 2, &error));
        pthread_create(&thread, NULL, lie, &liar);
        struct meeting m = tcp_meeting_of(&liar.meeting, 1, 1);
        bool met = rendezvous_open(&rendezvous, &m, count_abort, &aborts, &error);
        ck_assert_msg(met == (i > 0) && (met || strstr(error.message, "speaks another protocol")), "%s", error.message);
        struct status *page = NULL;
        if (met && i == 1) { /* and who was lost is told where somebody looks */
            ck_assert(status_open(&page, NULL, 2, &error));
            rendezvous_watch(rendezvous, page);
        }
        if (met)
            wait_for(&aborts);
        if (page)
            rendezvous_watch(rendezvous, NULL);
        rendezvous_close(rendezvous);
        status_close(page);
        pthread_join(thread, NULL);
        close(liar.meeting.listener);
    }
}
END_TEST

static int join_as(const struct meeting *meeting, uint32_t rank, enum purpose purpose, struct error *err)
{
    const struct hello hello = { .purpose = purpose, .rank = rank, .rank_count = (uint32_t)meeting->rank_count };
    int fd = socket_connect(meeting->host, meeting->port, INT64_MAX, -1, err);
    ck_assert_int_ge(fd, 0);
    if (handshake_join(fd, &hello, meeting->token, INT64_MAX, -1, "rank 0", NULL, err))
        return fd;
    close(fd);
    return -1;
}

struct asking {
    struct rendezvous *rendezvous;
    const char *key;
    bool ok;
};

static void *ask(void *argument)
{
    struct asking *a = argument;
    struct error error = { 0 };
    char value;
    size_t bytes;
    a->ok = rendezvous_get(a->rendezvous, a->key, &value, 1, &bytes, &error) && bytes == 1;
    return NULL;
}

/* Rank 1 asks for two values and says no more: it has the one that comes, and ends the job by its silence. Who comes
 * then hears of it; and a stranger without a word loses its place in the end. */
START_TEST(silence_ends_all)
{
    static const struct {
        struct frame head;
        char key;
    } __attribute__((packed)) asks[] = { { { .kind = FRAME_GET, .serial = 1, .key_bytes = 1 }, 'a' },
                                         { { .kind = FRAME_GET, .serial = 2, .key_bytes = 1 }, 'b' } };
    struct rendezvous *ranks[2];
    struct meeting meeting, last;
    struct error error = { 0 };
    struct frame answer;
    atomic_int aborts[2];
    char value, long_key[RENDEZVOUS_KEY_BYTES + 2];
    atomic_init(&aborts[0], 0), atomic_init(&aborts[1], 0);
    ck_assert(tcp_meeting(&meeting, 4, &error));
    meeting.timeout_s = 1;
    ck_assert(rendezvous_open(&ranks[0], &meeting, count_abort, &aborts[0], &error));
    int stranger = socket_connect(meeting.host, meeting.port, INT64_MAX, -1, &error);
    ck_assert_int_eq(join_as(&meeting, 1, PURPOSE_CHANNEL, &error), -1);
    ck_assert_msg(strstr(error.message, "speaks another protocol") != NULL, "%s", error.message);
    error = (struct error){ 0 };
    int fd = join_as(&meeting, 1, PURPOSE_RENDEZVOUS, &error);
    for (size_t at = 0; at < sizeof asks; at += sizeof asks - 1) { /* a frame may come in parts */
        ck_assert_int_eq(socket_write(fd, (const char *)asks + at, at ? 1 : sizeof asks - 1, INT64_MAX, -1),
                         SOCKET_DONE);
        clock_sleep_until_ns(clock_now_ns() + 50000000);
    }
    struct asking waits[2] = { { ranks[0], "c", false }, { ranks[0], "d", false } };
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, ask, &waits[i]);
        clock_sleep_until_ns(clock_now_ns() + 20000000);
    }
    ck_assert(rendezvous_put(ranks[0], "c", "x", 1, &error) && rendezvous_put(ranks[0], "d", "x", 1, &error));
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    ck_assert(waits[0].ok && waits[1].ok);
    ck_assert(rendezvous_put(ranks[0], "a", "x", 1, &error));
    ck_assert(socket_read(fd, &answer, sizeof answer, INT64_MAX, -1) == SOCKET_DONE && answer.serial == 1 &&
              socket_read(fd, &value, 1, INT64_MAX, -1) == SOCKET_DONE && value == 'x');
    memset(long_key, 'k', sizeof long_key), long_key[sizeof long_key - 1] = '\0';
    ck_assert(!rendezvous_put(ranks[0], long_key, "x", 1, &error) && error.kind == ERROR_BUG);
    wait_for(&aborts[0]);
    last = tcp_meeting_of(&meeting, 2, 1);
    error = (struct error){ 0 };
    ck_assert_msg(rendezvous_open(&ranks[1], &last, count_abort, &aborts[1], &error), "%s", error.message);
    wait_for(&aborts[1]);
    while (recv(stranger, long_key, sizeof long_key, 0) != 0) /* its greeting, then the end */
        clock_sleep_until_ns(clock_now_ns() + 10000000);
    rendezvous_close(ranks[1]);
    int stays = join_as(&meeting, 3, PURPOSE_RENDEZVOUS, &error);
    ck_assert_int_ge(stays, 0);
    rendezvous_close(ranks[0]); /* it does not wait for ever for who does not go */
    close(fd), close(stranger), close(stays);
}
END_TEST

START_TEST(where_nobody_can_listen_is_said)
{
    struct meeting meeting = { .rank_count = 2, .listener = -1, .host = "192.0.2.1", .port = 9, .token = "t" };
    struct rendezvous *none;
    struct error error = { 0 };
    char deep[MEETING_PATH_BYTES + 1];
    ck_assert(!rendezvous_open(&none, &meeting, NULL, NULL, &error));
    ck_assert_msg(strstr(error.message, "rank 0, which must listen where all meet") != NULL, "%s", error.message);
    memset(deep, 'd', sizeof deep), deep[sizeof deep - 1] = '\0';
    error = (struct error){ 0 };
    ck_assert(!meeting_file_find(&meeting, deep, &error));
    ck_assert_msg(strstr(error.message, "expected a name of less than") != NULL, "%s", error.message);
}
END_TEST

START_TEST(a_folder_that_is_not_there_is_named)
{
    struct meeting meeting = { .rank_count = RANKS, .listener = -1, .token = "t" };
    struct error error = { 0 };
    ck_assert(!meeting_file_find(&meeting, "nowhere", &error));
    ck_assert_msg(strstr(error.message, "the folder where the ranks meet") && strstr(error.message, "nowhere"), "%s",
                  error.message);
}
END_TEST

static Suite *meeting_file_suite(void)
{
    Suite *suite = suite_create("meeting_file");
    CHECK_ADD(suite, only_what_was_made_is_read);
    CHECK_ADD(suite, places_without_sense_are_refused);
    CHECK_ADD(suite, ranks_meet_by_a_file);
    CHECK_ADD(suite, who_waits_in_vain_is_told_why);
    CHECK_ADD(suite, a_folder_that_is_not_there_is_named);
    CHECK_ADD(suite, a_rank_0_that_lies_ends_the_others);
    CHECK_ADD(suite, silence_ends_all);
    CHECK_ADD(suite, where_nobody_can_listen_is_said);
    CHECK_ADD(suite, without_random_bytes_nobody_joins);
#ifdef __x86_64__
    CHECK_ADD_LOOP(suite, a_call_that_fails_ends_nobody_without_a_word, 3);
#endif
    TCase *leavings = tcase_create("leavings");
    tcase_set_timeout(leavings, 0);
    tcase_add_loop_test(leavings, leavings_lead_nobody_astray, 0, 3);
    suite_add_tcase(suite, leavings);
    return suite;
}

CHECK_MAIN(meeting_file_suite)
