/* Ranks as threads over any wire: each runs one body with its end of a transport. */
#ifndef CLEAVE_TESTS_PARTIES_H
#define CLEAVE_TESTS_PARTIES_H
#include "executor/comm_shaped.h"
#include "executor/comm_threads.h"
#include "tests/check.h"
#include "tests/tcp_ends.h"
#include <pthread.h>

enum { MAX_RANKS = 16 };
/* Every test of exchanges and collectives runs once per wire. */
enum wire { THREADS, TCP, WIRE_COUNT };
static const char *const wire_names[WIRE_COUNT] = { "threads", "tcp" };

struct party {
    struct transport *transport;
    void *shared;
    bool ok;
    struct error error;
    void (*body)(struct party *party);
};

static inline void *party_main(void *argument)
{
    struct party *party = argument;
    party->body(party);
    return NULL;
}

static inline void run_parties(struct transport *transports, int count, void *shared, void (*body)(struct party *),
                               struct party *parties)
{
    pthread_t threads[MAX_RANKS];
    for (int i = 0; i < count; i++) {
        parties[i] = (struct party){ .transport = &transports[i], .shared = shared, .body = body };
        ck_assert_int_eq(pthread_create(&threads[i], NULL, party_main, &parties[i]), 0);
    }
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

static inline void open_all(struct transport *out, enum wire wire, int count, const struct cluster *shape)
{
    struct error error = { 0 };
    ck_assert_msg(wire == TCP ? tcp_open_all(out, count, 2, &error) : comm_threads_open(out, count, &error), "%s",
                  error.message);
    ck_assert_str_eq(out[0].name, wire_names[wire]);
    if (shape)
        ck_assert_msg(comm_shaped_wrap(out, count, shape, &error), "%s", error.message);
}

static inline void close_all(struct transport *transports, int count)
{
    for (int i = count - 1; i >= 0; i--)
        transports[i].close(transports[i].self);
}

static inline void add_for_each_wire(Suite *suite, const TTest *test)
{
    TCase *tcase = tcase_create(test->name);
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test, 0, WIRE_COUNT);
    suite_add_tcase(suite, tcase);
}
#endif
