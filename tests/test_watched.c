/* A library's ranks, watched through a rendezvous of their own: what one host hears of another's. */
#define _POSIX_C_SOURCE 200809L
#include "executor/comm_threads.h"
#include "executor/comm_watched.h"
#include "tests/tcp_ends.h"

enum { RANKS = 4 };
/* An end whose abort reaches nobody else, as a library's. */
struct lonely {
    struct transport inner;
    atomic_int aborts;
};

static bool lonely_exchange(void *self, enum lane lane, int to, const void *send, size_t send_bytes, int from,
                            void *receive, size_t receive_bytes, struct error *err)
{
    struct lonely *l = self;
    return l->inner.exchange(l->inner.self, lane, to, send, send_bytes, from, receive, receive_bytes, err);
}

static void lonely_abort(void *self)
{
    atomic_fetch_add(&((struct lonely *)self)->aborts, 1);
}

static void lonely_close(void *self)
{
    struct lonely *l = self;
    l->inner.close(l->inner.self);
}

struct wrapping {
    struct lonely end;
    struct transport transport;
    struct meeting meeting;
    struct error why, error;
    bool ok;
    struct status *page;
};

static void *wrap_one(void *argument)
{
    struct wrapping *w = argument;
    w->ok = comm_watched_wrap(&w->transport, &w->meeting, &w->why, &w->error);
    return NULL;
}

/* Every rank wraps its end, as if on a host of its own; rank 0 listens on `host`. */
static void wrap_all(struct wrapping wrappings[RANKS], const char *host)
{
    struct transport hub[RANKS];
    pthread_t threads[RANKS];
    struct error error = { 0 };
    ck_assert(comm_threads_open(hub, RANKS, &error));
    for (int r = 0; r < RANKS; r++) {
        struct wrapping *w = &wrappings[r];
        *w = (struct wrapping){ .end.inner = hub[r], .transport = hub[r], .meeting = { .timeout_s = 20 } };
        w->transport.self = &w->end, w->transport.exchange = lonely_exchange;
        w->transport.abort = lonely_abort, w->transport.close = lonely_close;
        snprintf(w->meeting.host, sizeof w->meeting.host, "%s", host);
        snprintf(w->meeting.host_name, sizeof w->meeting.host_name, "host-%d", r);
        pthread_create(&threads[r], NULL, wrap_one, w);
    }
    for (int r = 0; r < RANKS; r++) {
        pthread_join(threads[r], NULL);
        ck_assert_msg(wrappings[r].ok, "%s", wrappings[r].error.message);
    }
}

START_TEST(a_library_s_ranks_are_watched_from_other_hosts)
{
    static struct wrapping wrappings[RANKS];
    struct error error = { 0 };
    struct status_line line;
    wrap_all(wrappings, _i == 0 ? "" : "127.0.0.1");
    for (int r = 0; r < RANKS; r++) {
        ck_assert_msg(wrappings[r].why.kind == ERROR_NONE, "%s", wrappings[r].why.message);
        ck_assert(status_open(&wrappings[r].page, NULL, RANKS, &error));
        status_join(wrappings[r].page, r);
        wrappings[r].transport.watch(wrappings[r].transport.self, wrappings[r].page);
    }
    status_note(wrappings[3].page, 3, 41, 7);
    do {
        nap();
        status_export(wrappings[1].page, 3, &line);
    } while (line.step != 41);
    ck_assert_int_eq(line.instr, 7);
    ck_assert_str_eq(status_host(wrappings[1].page, 3), "host-3");
    status_set_failed(wrappings[2].page, 2);
    wrappings[2].transport.abort(wrappings[2].transport.self);
    for (int r = 0; r < RANKS; r++) {
        wait_for(&wrappings[r].end.aborts);
        ck_assert_int_eq(status_failed_rank(wrappings[r].page), 2);
    }
    for (int r = RANKS - 1; r >= 0; r--) {
        wrappings[r].transport.watch(wrappings[r].transport.self, NULL);
        wrappings[r].transport.close(wrappings[r].transport.self);
        status_close(wrappings[r].page);
    }
}
END_TEST

/* Rank 0 cannot listen there (an address for documents): the run goes on as it was, and rank 0 knows why. */
START_TEST(ranks_that_cannot_meet_stay_unwatched)
{
    static struct wrapping wrappings[RANKS];
    wrap_all(wrappings, "192.0.2.1");
    ck_assert_msg(strstr(wrappings[0].why.message, "192.0.2.1") != NULL, "%s", wrappings[0].why.message);
    for (int r = RANKS - 1; r >= 0; r--) {
        ck_assert_int_eq(wrappings[r].why.kind, ERROR_ENVIRONMENT);
        ck_assert(wrappings[r].transport.exchange == lonely_exchange && !wrappings[r].transport.watch);
        wrappings[r].transport.close(wrappings[r].transport.self);
    }
}
END_TEST

static Suite *watched_suite(void)
{
    Suite *suite = suite_create("watched");
    TCase *watched = tcase_create("a_library_s_ranks_are_watched_from_other_hosts");
    tcase_set_timeout(watched, 0);
    tcase_add_loop_test(watched, a_library_s_ranks_are_watched_from_other_hosts, 0, 2);
    suite_add_tcase(suite, watched);
    CHECK_ADD(suite, ranks_that_cannot_meet_stay_unwatched);
    return suite;
}
CHECK_MAIN(watched_suite)
