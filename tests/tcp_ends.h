/* The ends of a TCP transport in one process, each opened by a thread of its own, as processes would. */
#ifndef CLEAVE_TESTS_TCP_ENDS_H
#define CLEAVE_TESTS_TCP_ENDS_H
#include "executor/comm_tcp.h"
#include "host/clock.h"
#include "tests/check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { TCP_MAX_RANKS = 16 };
static inline void nap(void)
{
    clock_sleep_until_ns(clock_now_ns() + 10000000);
}

static inline void wait_for(atomic_int *aborts)
{
    while (atomic_load(aborts) == 0)
        nap();
}

/* A meeting on this machine, at a port that is free: *listener is for rank 0. */
static inline bool tcp_meeting(struct meeting *out, int rank_count, struct error *err)
{
    *out = (struct meeting){
        .rank_count = rank_count, .host = "127.0.0.1", .token = "a token of the tests", .timeout_s = 20
    };
    out->listener = socket_listen(out->host, 0, err);
    return out->listener >= 0 && socket_own_address(out->listener, out->host, &out->port);
}

/* Rank r is said to be on host-h, h = r / ranks_per_host. */
static inline struct meeting tcp_meeting_of(const struct meeting *meeting, int rank, int ranks_per_host)
{
    struct meeting m = *meeting;
    m.rank = rank;
    m.listener = rank == 0 ? meeting->listener : -1;
    snprintf(m.host_name, sizeof m.host_name, "host-%d", rank / ranks_per_host);
    return m;
}

struct tcp_opener {
    struct transport *out;
    struct meeting meeting;
    bool ok;
    struct error error;
};

static inline void *tcp_open_one(void *argument)
{
    struct tcp_opener *opener = argument;
    opener->ok = comm_tcp_open(opener->out, &opener->meeting, &opener->error);
    return NULL;
}

static inline bool tcp_open_all(struct transport *out, int count, int ranks_per_host, struct error *err)
{
    static struct tcp_opener openers[TCP_MAX_RANKS];
    pthread_t threads[TCP_MAX_RANKS];
    struct meeting meeting;
    bool ok = tcp_meeting(&meeting, count, err);
    for (int r = 0; ok && r < count; r++) {
        openers[r] = (struct tcp_opener){ .out = &out[r], .meeting = tcp_meeting_of(&meeting, r, ranks_per_host) };
        ok = pthread_create(&threads[r], NULL, tcp_open_one, &openers[r]) == 0;
    }
    for (int r = 0; ok && r < count; r++) {
        pthread_join(threads[r], NULL);
        if (!openers[r].ok)
            fail_kind(err, openers[r].error.kind, "%s", openers[r].error.message);
    }
    return ok && err->kind == ERROR_NONE;
}
#endif
