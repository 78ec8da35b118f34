/* Where processes meet: values, tokens, strangers, and loss. */
#define _DEFAULT_SOURCE
#include "base/num.h"
#include "base/sha256.h"
#include "base/text.h"
#include "tests/check.h"
#include "executor/rendezvous_wire.h"
#include "host/clock.h"
#include "tests/tcp_ends.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { RANKS = 4 };
static void count_abort(void *context)
{
    atomic_fetch_add((atomic_int *)context, 1);
}

/* All ranks of a job, met one after the other. */
static void meet(struct rendezvous *out[RANKS], atomic_int aborts[RANKS], struct meeting *meeting)
{
    struct error error = { 0 };
    ck_assert_msg(tcp_meeting(meeting, RANKS, &error), "%s", error.message);
    for (int r = 0; r < RANKS; r++) {
        struct meeting m = tcp_meeting_of(meeting, r, 2);
        atomic_init(&aborts[r], 0);
        ck_assert_msg(rendezvous_open(&out[r], &m, count_abort, &aborts[r], &error), "%s", error.message);
    }
}

static void part(struct rendezvous *ranks[RANKS])
{
    for (int r = RANKS - 1; r >= 0; r--)
        rendezvous_close(ranks[r]);
}

/* ---- values ---- */
struct asker {
    struct rendezvous *rendezvous;
    char value[RENDEZVOUS_VALUE_BYTES];
    size_t bytes;
    bool ok;
};

static void *ask(void *argument)
{
    struct asker *asker = argument;
    struct error error = { 0 };
    asker->ok =
        rendezvous_get(asker->rendezvous, "unique id", asker->value, sizeof asker->value, &asker->bytes, &error);
    return NULL;
}

START_TEST(values_reach_who_asked_before_and_after)
{
    struct rendezvous *ranks[RANKS];
    atomic_int aborts[RANKS];
    struct meeting meeting;
    struct asker askers[RANKS];
    pthread_t threads[RANKS];
    struct error error = { 0 };
    unsigned char id[RENDEZVOUS_VALUE_BYTES];
    meet(ranks, aborts, &meeting);
    for (size_t i = 0; i < sizeof id; i++)
        id[i] = (unsigned char)mix64(i);
    for (int r = 0; r < RANKS; r++) {
        askers[r] = (struct asker){ .rendezvous = ranks[r] };
        if (r == RANKS - 1) { /* the last one asks when the value is there */
            nap();
            ck_assert_msg(rendezvous_put(ranks[2], "unique id", id, sizeof id, &error), "%s", error.message);
        }
        pthread_create(&threads[r], NULL, ask, &askers[r]);
    }
    for (int r = 0; r < RANKS; r++) {
        pthread_join(threads[r], NULL);
        ck_assert(askers[r].ok && askers[r].bytes == sizeof id && memcmp(askers[r].value, id, sizeof id) == 0);
    }
    ck_assert(rendezvous_put(ranks[1], "unique id", id, sizeof id, &error)); /* the same again is no harm */
    ck_assert(!rendezvous_put(ranks[1], "unique id", id, 5, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "'unique id' was told before by rank 2, and otherwise"));
    size_t bytes;
    error = (struct error){ 0 };
    ck_assert(!rendezvous_get(ranks[1], "unique id", id, 5, &bytes, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "expected at most 5"));
    error = (struct error){ 0 };
    ck_assert(rendezvous_put(ranks[0], "empty", NULL, 0, &error));
    ck_assert(rendezvous_get(ranks[3], "empty", id, sizeof id, &bytes, &error) && bytes == 0);
    for (int r = 0; r < RANKS; r++)
        ck_assert_int_eq(atomic_load(&aborts[r]), 0);
    part(ranks);
}
END_TEST

START_TEST(what_nobody_tells_is_not_waited_for_for_ever)
{
    struct rendezvous *rendezvous;
    struct meeting meeting;
    struct error error = { 0 };
    char value[8];
    size_t bytes;
    ck_assert(tcp_meeting(&meeting, 1, &error));
    meeting.timeout_s = 2; /* for opening, too, which takes a while beside other work */
    ck_assert_msg(rendezvous_open(&rendezvous, &meeting, NULL, NULL, &error), "%s", error.message);
    ck_assert(!rendezvous_get(rendezvous, "nothing", value, sizeof value, &bytes, &error));
    ck_assert_str_eq(error.message, "rank 0: nobody has told 'nothing' within 2 s: has every rank started?");
    rendezvous_close(rendezvous);
}
END_TEST

/* ---- who may come in ---- */
static void check_refused(const struct meeting *meeting, const char *why)
{
    struct rendezvous *rendezvous;
    struct error error = { 0 };
    ck_assert(!rendezvous_open(&rendezvous, meeting, NULL, NULL, &error));
    ck_assert_msg(strstr(error.message, why) != NULL, "%s", error.message);
}

static bool tells_no_address;
int getsockname(int fd, struct sockaddr *restrict address, socklen_t *restrict size)
{
    if (!tells_no_address)
        return (int)syscall(SYS_getsockname, fd, address, size);
    errno = ENOBUFS;
    return -1;
}

START_TEST(who_has_no_address_cannot_meet)
{
    struct rendezvous *ranks[2];
    struct meeting meeting;
    struct error error = { 0 };
    ck_assert(tcp_meeting(&meeting, 2, &error));
    ck_assert(rendezvous_open(&ranks[0], &meeting, NULL, NULL, &error));
    struct meeting m = tcp_meeting_of(&meeting, 1, 1);
    tells_no_address = true;
    ck_assert(!rendezvous_open(&ranks[1], &m, NULL, NULL, &error));
    tells_no_address = false;
    ck_assert_str_eq(error.message, "rank 1: the system does not tell its own address");
    rendezvous_close(ranks[0]);
}
END_TEST

START_TEST(strangers_are_refused_by_reason)
{
    struct rendezvous *rendezvous;
    struct meeting meeting, other;
    struct error error = { 0 };
    ck_assert(tcp_meeting(&meeting, RANKS, &error));
    ck_assert(rendezvous_open(&rendezvous, &meeting, NULL, NULL, &error));
    other = tcp_meeting_of(&meeting, 1, 1);
    other.token[3] ^= 1;
    check_refused(&other, "has another job token: set CLEAVE_JOB_TOKEN");
    other = tcp_meeting_of(&meeting, 1, 1);
    other.rank_count = RANKS + 1;
    check_refused(&other, "another number of ranks than 5");
    other = tcp_meeting_of(&meeting, 1, 1);
    struct rendezvous *first;
    ck_assert(rendezvous_open(&first, &other, NULL, NULL, &error));
    check_refused(&other, "has a rank 1 already: two processes were started with one rank");
    other.rank = RANKS;
    check_refused(&other, "knows no rank 4: its job has the ranks 0 to 3");
    rendezvous_close(first);
    rendezvous_close(rendezvous);
}
END_TEST

START_TEST(who_listens_without_the_token_is_noticed)
{
    struct meeting meeting;
    struct error error = { 0 };
    unsigned char greeting[GREETING_BYTES], hello[HELLO_BYTES], verdict[VERDICT_BYTES];
    const struct hello me = { .purpose = PURPOSE_CHANNEL, .rank_count = 2 };
    int ends[2];
    ck_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
    ck_assert(tcp_meeting(&meeting, 2, &error));
    close(meeting.listener);
    ck_assert(greeting_make(greeting) && write(ends[0], greeting, sizeof greeting) == sizeof greeting);
    /* it says welcome, and signs with what it has: it cannot know the nonce that comes, so any bytes do */
    memset(hello, 0, sizeof hello);
    verdict_make(verdict, VERDICT_WELCOME, hello, greeting, "no token");
    ck_assert(write(ends[0], verdict, sizeof verdict) == sizeof verdict);
    ck_assert(!handshake_join(ends[1], &me, meeting.token, INT64_MAX, -1, "somebody", NULL, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "somebody has another job token"));
    close(ends[0]);
    close(ends[1]);
}
END_TEST

/* A hello is good for one greeting only, and no bit of it may change. */
START_TEST(a_hello_cannot_be_repeated_or_changed)
{
    unsigned char greeting[GREETING_BYTES], again[GREETING_BYTES], bytes[HELLO_BYTES];
    const struct hello me = { .purpose = PURPOSE_CHANNEL, .rank = 3, .rank_count = 8, .lane = 2 };
    struct hello got;
    ck_assert(greeting_make(greeting) && greeting_make(again) && hello_make(bytes, greeting, &me, "token"));
    ck_assert_int_eq(hello_check(&got, bytes, greeting, "token"), VERDICT_WELCOME);
    ck_assert(got.rank == 3 && got.rank_count == 8 && got.lane == 2 && got.purpose == PURPOSE_CHANNEL);
    ck_assert_int_eq(hello_check(&got, bytes, again, "token"), VERDICT_TOKEN);
    ck_assert_int_eq(hello_check(&got, bytes, greeting, "tokem"), VERDICT_TOKEN);
    for (int bit = 0; bit < HELLO_BYTES * 8; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        ck_assert_int_ne(hello_check(&got, bytes, greeting, "token"), VERDICT_WELCOME);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
}
END_TEST

/* Some thousand strangers a second knock, each after its kind, while ranks come: silent ones, ones that send nonsense,
 * half a hello, a hello with another token, a byte now and then, and ones that go at once. So many of them hold their
 * connections at a time. */
enum { HELD = 300, KINDS = 6, KNOCKS = 16 };
struct crowd {
    const struct meeting *meeting;
    pthread_t thread;
    int count; /* at least, and on until the ranks have met */
    atomic_int knocked;
    atomic_bool met;
    int held[HELD]; /* -1 */
};

static int knock(const struct meeting *meeting, int number)
{
    unsigned char bytes[HELLO_BYTES], greeting[GREETING_BYTES] = { 0 };
    const struct hello hello = { .purpose = PURPOSE_RENDEZVOUS, .rank = 1, .rank_count = 2 };
    struct error error = { 0 };
    int fd = socket_connect(meeting->host, meeting->port, clock_now_ns() + 10000000000, -1, &error), kind;
    if (fd < 0) /* the system's queue was full */
        return -1;
    kind = number % KINDS;
    hello_make(bytes, greeting, &hello, "another token");
    if (kind == 1)
        socket_write(fd, "GET / HTTP/1.1\r\n\r\n", 18, INT64_MAX, -1);
    else if (kind == 2)
        socket_write(fd, bytes, HELLO_BYTES / 2, INT64_MAX, -1);
    else if (kind == 3)
        socket_write(fd, bytes, HELLO_BYTES, INT64_MAX, -1);
    if (kind != 4)
        return fd;
    close(fd);
    return -1;
}

static void *crowd_main(void *argument)
{
    struct crowd *crowd = argument;
    for (int i = 0; i < crowd->count || !atomic_load(&crowd->met); i++) {
        int *place = &crowd->held[i % HELD], slow = crowd->held[(i + HELD / 2) % HELD];
        if (*place >= 0)
            close(*place);
        *place = knock(crowd->meeting, i);
        if (slow >= 0) /* one more byte of a hello that never ends */
            socket_write(slow, "c", 1, 0, -1);
        if (atomic_fetch_add(&crowd->knocked, 1) % KNOCKS == 0)
            clock_sleep_until_ns(clock_now_ns() + 2000000);
    }
    return NULL;
}

/* CLEAVE_TEST_STRANGERS: how many; benchmarks/run_reliability --all takes 10,000. */
START_TEST(strangers_do_not_keep_ranks_out)
{
    const char *wanted = getenv("CLEAVE_TEST_STRANGERS");
    static struct crowd crowd;
    static atomic_int aborts[RANKS];
    struct rendezvous *ranks[RANKS];
    struct meeting meeting;
    struct error error = { 0 };
    crowd = (struct crowd){ .meeting = &meeting, .count = wanted ? atoi(wanted) : 2 * HELD };
    ck_assert(tcp_meeting(&meeting, RANKS, &error));
    for (int i = 0; i < HELD; i++)
        crowd.held[i] = -1;
    for (int r = 0; r < RANKS; r++) {
        struct meeting m = tcp_meeting_of(&meeting, r, 1);
        while (r > 0 && atomic_load(&crowd.knocked) < crowd.count * r / RANKS)
            nap();
        ck_assert_msg(rendezvous_open(&ranks[r], &m, count_abort, &aborts[r], &error), "%s", error.message);
        if (r == 0)
            pthread_create(&crowd.thread, NULL, crowd_main, &crowd);
    }
    atomic_store(&crowd.met, true);
    pthread_join(crowd.thread, NULL);
    for (int r = 0; r < RANKS; r++)
        ck_assert_int_eq(atomic_load(&aborts[r]), 0);
    part(ranks);
    for (int i = 0; i < HELD; i++)
        if (crowd.held[i] >= 0)
            close(crowd.held[i]);
    printf("trials: strangers at the door: %d\n", crowd.knocked);
}
END_TEST

/* More silent ones than an address may have places for, or than there are places: who knocks is met all the same, once
 * they had the time for an answer. */
START_TEST(silent_strangers_make_room)
{
    enum { SILENT = 400 };
    struct sockaddr_in from = { .sin_family = AF_INET }, to = from;
    int silent[SILENT], count = small_share() ? SILENT / 2 : SILENT;
    struct rendezvous *ranks[2];
    struct meeting meeting;
    struct error error = { 0 };
    ck_assert(tcp_meeting(&meeting, 2, &error));
    ck_assert(rendezvous_open(&ranks[0], &meeting, NULL, NULL, &error));
    to.sin_port = htons((uint16_t)meeting.port);
    inet_pton(AF_INET, meeting.host, &to.sin_addr);
    for (int i = 0; i < count; i++) {
        inet_pton(AF_INET, _i == 0 || i % 2 ? "127.0.0.1" : "127.0.0.2", &from.sin_addr);
        silent[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ck_assert_int_eq(bind(silent[i], (struct sockaddr *)&from, sizeof from), 0);
        ck_assert_int_eq(connect(silent[i], (struct sockaddr *)&to, sizeof to), 0);
    }
    struct meeting m = tcp_meeting_of(&meeting, 1, 1);
    m.timeout_s = 4; /* less than a stranger may stay where nobody else wants its place */
    ck_assert_msg(rendezvous_open(&ranks[1], &m, NULL, NULL, &error), "%s", error.message);
    rendezvous_close(ranks[1]);
    rendezvous_close(ranks[0]);
    for (int i = 0; i < count; i++)
        close(silent[i]);
}
END_TEST

/* ---- loss and status ---- */
/* The connection of a process that knows the token. */
static int be_rank(const struct meeting *meeting, int rank)
{
    struct error error = { 0 };
    const struct hello hello = { .purpose = PURPOSE_RENDEZVOUS,
                                 .rank = (uint32_t)rank,
                                 .rank_count = (uint32_t)meeting->rank_count };
    int fd = socket_connect(meeting->host, meeting->port, INT64_MAX, -1, &error);
    ck_assert(fd >= 0 && handshake_join(fd, &hello, meeting->token, INT64_MAX, -1, "rank 0", NULL, &error));
    return fd;
}

/* It is gone without a word; said: bytes that it sends first. */
static void be_lost(const struct meeting *meeting, int rank, const void *said, size_t bytes)
{
    int fd = be_rank(meeting, rank);
    ck_assert_int_eq(socket_write(fd, said, bytes, INT64_MAX, -1), SOCKET_DONE);
    nap();
    close(fd);
}

/* In a large job the lines of all ranks come more rarely, but at once with a loss. */
START_TEST(a_lost_process_ends_all_and_is_named)
{
    const int rank_count = _i == 0 ? RANKS : 200;
    struct rendezvous *ranks[2];
    atomic_int aborts[2];
    struct status *pages[2];
    struct meeting meeting;
    struct error error = { 0 };
    ck_assert(tcp_meeting(&meeting, rank_count, &error));
    for (int r = 0; r < 2; r++) {
        struct meeting m = tcp_meeting_of(&meeting, r, 1);
        atomic_init(&aborts[r], 0);
        ck_assert(rendezvous_open(&ranks[r], &m, count_abort, &aborts[r], &error));
        ck_assert(status_open(&pages[r], NULL, rank_count, &error));
        status_join(pages[r], r);
        rendezvous_watch(ranks[r], pages[r]);
    }
    struct {
        struct frame frame;
        struct beat beat;
    } last = { { .kind = FRAME_BEAT, .value_bytes = sizeof(struct beat) },
               { .failed = -1,
                 .line = { .rank = 2, .state = RANK_LIVES, .instr = 7, .step = 41, .progress = 99, .host = "far" } } };
    be_lost(&meeting, 2, &last, sizeof last);
    for (int r = 0; r < 2; r++) {
        while (status_dead_rank(pages[r]) < 0)
            nap();
        ck_assert_int_eq(status_dead_rank(pages[r]), 2);
        ck_assert_str_eq(status_host(pages[r], 2), "far");
        struct status_line line;
        status_export(pages[r], 2, &line);
        ck_assert(line.step == 41 && line.instr == 7);
        wait_for(&aborts[r]);
    }
    for (int r = 1; r >= 0; r--) {
        rendezvous_watch(ranks[r], NULL);
        rendezvous_close(ranks[r]);
        status_close(pages[r]);
    }
}
END_TEST

/* Whatever a process that knows the token sends: the server refuses that one by name, and nothing else happens. */
START_TEST(who_lies_with_the_token_is_refused_by_name)
{
    static const struct frame frames[] = {
        { .kind = 0 },
        { .kind = 99, .value_bytes = 4 },
        { .kind = FRAME_PUT, .key_bytes = 0, .value_bytes = 4 },
        { .kind = FRAME_PUT, .key_bytes = RENDEZVOUS_KEY_BYTES + 1 },
        { .kind = FRAME_PUT, .key_bytes = 4, .value_bytes = UINT32_MAX },
        { .kind = FRAME_GET, .key_bytes = UINT32_MAX },
        { .kind = FRAME_BEAT, .value_bytes = 3 },
        { .kind = FRAME_VIEW, .value_bytes = 16 },
        { .kind = FRAME_ABORT, .value_bytes = 1 },
        { .kind = FRAME_DONE }, /* an answer that nobody asked a rank for */
        { .kind = FRAME_REFUSED, .value_bytes = 4 },
    };
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        struct rendezvous *rendezvous;
        struct meeting meeting;
        struct status *page;
        struct text who = { 0 };
        struct error error = { 0 };
        atomic_int aborts;
        atomic_init(&aborts, 0);
        ck_assert(tcp_meeting(&meeting, RANKS, &error));
        ck_assert(rendezvous_open(&rendezvous, &meeting, count_abort, &aborts, &error));
        ck_assert(status_open(&page, NULL, RANKS, &error));
        status_join(page, 0);
        rendezvous_watch(rendezvous, page);
        be_lost(&meeting, 3, &frames[i], sizeof frames[i]);
        while (status_dead_rank(page) < 0)
            nap();
        ck_assert_int_eq(status_dead_rank(page), 3);
        status_describe_dead(page, &who);
        ck_assert_str_eq(who.data, "rank 3 sent what no rank of this job sends, and was refused");
        text_free(&who);
        rendezvous_watch(rendezvous, NULL);
        rendezvous_close(rendezvous);
        status_close(page);
    }
    printf("trials: lies of a rank that knows the token: %zu\n", sizeof frames / sizeof *frames);
}
END_TEST

/* What is for a process that never reads is kept up to a limit; nobody else waits for it. Half of what it says is
 * answered by views, half by a value. */
START_TEST(who_does_not_listen_is_not_waited_for)
{
    enum { SAID = 40000, VALUE = 2000 };
    static const struct {
        struct frame frame;
        struct beat beat;
        struct frame wish;
        char key[3];
    } said = { { .kind = FRAME_BEAT, .value_bytes = sizeof(struct beat) },
               { .failed = -1, .line = { .rank = 2, .state = RANK_LIVES } },
               { .kind = FRAME_GET, .key_bytes = 3 },
               "all" };
    const size_t said_bytes = offsetof(__typeof__(said), key) + sizeof said.key;
    struct rendezvous *ranks[2];
    atomic_int aborts[2];
    struct meeting meeting;
    struct error error = { 0 };
    char value[VALUE] = { 0 };
    int answers[FRAME_NO_MEMORY + 1] = { 0 };
    struct frame frame;
    size_t bytes;
    ck_assert(tcp_meeting(&meeting, RANKS, &error));
    for (int r = 0; r < 2; r++) {
        struct meeting m = tcp_meeting_of(&meeting, r, 1);
        atomic_init(&aborts[r], 0);
        ck_assert(rendezvous_open(&ranks[r], &m, count_abort, &aborts[r], &error));
    }
    ck_assert(rendezvous_put(ranks[1], "all", value, sizeof value, &error));
    int deaf = be_rank(&meeting, 2);
    for (int i = 0; i < SAID; i++)
        ck_assert_int_eq(socket_write(deaf, &said, said_bytes, INT64_MAX, -1), SOCKET_DONE);
    ck_assert(rendezvous_put(ranks[1], "after", value, 1, &error)); /* the server still has time for others */
    ck_assert(rendezvous_get(ranks[0], "after", value, sizeof value, &bytes, &error) && bytes == 1);
    ck_assert_int_eq(atomic_load(&aborts[0]), 0);
    rendezvous_abort(ranks[1]);
    wait_for(&aborts[0]);
    /* What it reads at last is whole frames. */
    int64_t until_ns = clock_now_ns() + 500000000;
    while (socket_read(deaf, &frame, sizeof frame, until_ns, -1) == SOCKET_DONE) {
        static char body[RENDEZVOUS_VALUE_BYTES + sizeof(struct view_head) + RANKS * sizeof(struct status_line)];
        ck_assert(frame_is_answer(&frame, RANKS) && frame.value_bytes <= sizeof body);
        ck_assert_int_eq(socket_read(deaf, body, frame.value_bytes, INT64_MAX, -1), SOCKET_DONE);
        answers[frame.kind]++;
    }
    ck_assert(answers[FRAME_DONE] > 0 && answers[FRAME_VIEW] > 0);
    ck_assert_int_lt(answers[FRAME_DONE] + answers[FRAME_VIEW], 2 * SAID);
    close(deaf);
    for (int r = 1; r >= 0; r--)
        rendezvous_close(ranks[r]);
}
END_TEST

START_TEST(an_abort_reaches_all_once_and_farewell_is_no_loss)
{
    struct rendezvous *ranks[RANKS];
    atomic_int aborts[RANKS];
    struct meeting meeting;
    meet(ranks, aborts, &meeting);
    rendezvous_close(ranks[3]);
    for (int i = 0; i < 30; i++)
        nap();
    ck_assert_int_eq(atomic_load(&aborts[0]), 0);
    rendezvous_abort(ranks[1]);
    for (int r = 0; r < 3; r++)
        wait_for(&aborts[r]);
    for (int i = 0; i < 30; i++)
        nap();
    for (int r = 0; r < 3; r++)
        ck_assert_int_eq(atomic_load(&aborts[r]), 1);
    for (int r = 2; r >= 0; r--) { /* who asks after that need not wait for an answer */
        struct error error = { 0 };
        char value[8], why[64];
        size_t bytes;
        snprintf(why, sizeof why, "rank %d: the job was aborted", r);
        ck_assert(!rendezvous_get(ranks[r], "nothing", value, sizeof value, &bytes, &error));
        ck_assert_str_eq(error.message, why);
        rendezvous_close(ranks[r]);
    }
}
END_TEST

START_TEST(rank_0_leaving_in_order_is_no_loss_and_its_death_is)
{
    struct rendezvous *ranks[RANKS];
    atomic_int aborts[RANKS];
    struct meeting meeting;
    struct error error = { 0 };
    size_t bytes;
    char value[8];
    meet(ranks, aborts, &meeting);
    rendezvous_close(ranks[0]);
    ck_assert(!rendezvous_get(ranks[1], "x", value, sizeof value, &bytes, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "has closed the connection"));
    for (int r = 1; r < RANKS; r++) {
        ck_assert_int_eq(atomic_load(&aborts[r]), 0);
        rendezvous_close(ranks[r]);
    }
}
END_TEST

static Suite *rendezvous_suite(void)
{
    Suite *suite = suite_create("rendezvous");
    CHECK_ADD(suite, values_reach_who_asked_before_and_after);
    CHECK_ADD(suite, what_nobody_tells_is_not_waited_for_for_ever);
    CHECK_ADD(suite, who_has_no_address_cannot_meet);
    CHECK_ADD(suite, strangers_are_refused_by_reason);
    CHECK_ADD(suite, who_listens_without_the_token_is_noticed);
    CHECK_ADD(suite, a_hello_cannot_be_repeated_or_changed);
    CHECK_ADD(suite, strangers_do_not_keep_ranks_out);
    CHECK_ADD_LOOP(suite, silent_strangers_make_room, 2);
    TCase *lost = tcase_create("a_lost_process_ends_all_and_is_named");
    tcase_set_timeout(lost, 0);
    tcase_add_loop_test(lost, a_lost_process_ends_all_and_is_named, 0, 2);
    suite_add_tcase(suite, lost);
    CHECK_ADD(suite, who_lies_with_the_token_is_refused_by_name);
    CHECK_ADD(suite, who_does_not_listen_is_not_waited_for);
    CHECK_ADD(suite, an_abort_reaches_all_once_and_farewell_is_no_loss);
    CHECK_ADD(suite, rank_0_leaving_in_order_is_no_loss_and_its_death_is);
    return suite;
}
CHECK_MAIN(rendezvous_suite)
