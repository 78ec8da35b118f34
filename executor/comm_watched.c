#define _GNU_SOURCE
#include "executor/comm_watched.h"
#include "host/clock.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_ADDRESSES = 16, ADDRESS_BYTES = SOCKET_HOST_BYTES, REASON_BYTES = 512 };
#define EVERYWHERE "0.0.0.0"
#define THIS_HOST "127.0.0.1"
/* Rank 0 listens before it says where: who does not get through soon will not. */
static const int64_t probe_ns = 2000000000;

struct watched {
    struct transport inner;
    struct rendezvous *rendezvous;
};
/* What rank 0 tells the others. */
struct offer {
    int32_t address_count, port; /* address_count 0: it cannot listen */
    char token[TOKEN_BYTES];
    char addresses[MOST_ADDRESSES][ADDRESS_BYTES]; /* (address_count) numbers or names */
};
/* What they answer. */
struct answer {
    char reason[REASON_BYTES]; /* empty: met */
};

/* ---- the transport ---- */
static bool exchange(void *self, enum lane lane, int to, const void *send, size_t send_bytes, int from, void *receive,
                     size_t receive_bytes, struct error *err)
{
    struct watched *w = self;
    return w->inner.exchange(w->inner.self, lane, to, send, send_bytes, from, receive, receive_bytes, err);
}

static void abort_here(void *self)
{
    struct watched *w = self;
    w->inner.abort(w->inner.self);
}

static void abort_all(void *self)
{
    struct watched *w = self;
    abort_here(w);
    rendezvous_abort(w->rendezvous);
}

static void watch(void *self, struct status *status)
{
    struct watched *w = self;
    rendezvous_watch(w->rendezvous, status);
}

static void close_watched(void *self)
{
    struct watched *w = self;
    rendezvous_close(w->rendezvous); /* its thread may call abort_here() until then */
    w->inner.close(w->inner.self);
    free(w);
}

/* ---- where rank 0 listens ---- */
static void add_address(struct offer *offer, const char *address)
{
    if (offer->address_count < MOST_ADDRESSES)
        snprintf(offer->addresses[offer->address_count++], ADDRESS_BYTES, "%s", address);
}

/* Addresses in networks come first; this host's own is for ranks beside this one where there is no network. */
static void add_own_addresses(struct offer *offer)
{
    char address[SOCKET_HOST_BYTES];
    for (int i = 0; i < MOST_ADDRESSES - 1 && socket_network_address(i, address); i++)
        add_address(offer, address);
    add_address(offer, THIS_HOST);
}

static bool make_offer(struct offer *offer, struct meeting *m, struct error *err)
{
    char host[SOCKET_HOST_BYTES];
    bool everywhere = !m->host[0];
    int port;
    if (!token_make(m->token, err))
        return false;
    m->listener = socket_listen(everywhere ? EVERYWHERE : m->host, 0, err);
    if (m->listener < 0)
        return false;
    if (!socket_own_address(m->listener, host, &port)) {
        close(m->listener);
        return fail_kind(err, ERROR_ENVIRONMENT, "the system does not tell the port where the ranks meet");
    }
    offer->port = m->port = port;
    memcpy(offer->token, m->token, sizeof offer->token);
    if (everywhere)
        add_own_addresses(offer);
    else
        add_address(offer, m->host);
    if (everywhere)
        memcpy(m->host, THIS_HOST, sizeof THIS_HOST);
    return true;
}

/* ---- meeting ---- */
static bool gets_through(const struct meeting *m, struct error *err)
{
    int fd = socket_connect(m->host, m->port, clock_now_ns() + probe_ns, -1, err);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* The first address behind which rank 0 is: it knows the token, and so nobody else is mistaken for it. */
static bool accept_offer(struct watched *w, const struct offer *offer, struct meeting *m, struct error *err)
{
    int count = min_int(offer->address_count, MOST_ADDRESSES);
    struct error cause = { 0 };
    memcpy(m->token, offer->token, sizeof m->token);
    m->token[sizeof m->token - 1] = '\0';
    m->port = offer->port;
    for (int i = 0; i < count; i++) {
        struct error other = { 0 };
        memcpy(m->host, offer->addresses[i], sizeof m->host);
        m->host[sizeof m->host - 1] = '\0';
        if (gets_through(m, &other) && rendezvous_open(&w->rendezvous, m, abort_here, w, &other))
            return true;
        if (i == 0)
            cause = other;
    }
    return fail_kind(err, ERROR_ENVIRONMENT, "rank %d on host %s: %s", m->rank, m->host_name,
                     count > 0 ? cause.message : "rank 0 does not listen");
}

static bool send_to(const struct transport *t, int rank, const void *data, size_t bytes, struct error *err)
{
    return t->exchange(t->self, LANE_COMPUTE, rank, data, bytes, -1, NULL, 0, err);
}

static bool receive_from(const struct transport *t, int rank, void *data, size_t bytes, struct error *err)
{
    return t->exchange(t->self, LANE_COMPUTE, -1, NULL, 0, rank, data, bytes, err);
}

/* Rank 0: tells where, hears who came. *why: the first reason that somebody did not. */
static bool invite(struct watched *w, struct meeting *m, struct error *why, struct error *err)
{
    const struct transport *t = &w->inner;
    struct offer offer = { 0 };
    if (!make_offer(&offer, m, why) || !rendezvous_open(&w->rendezvous, m, abort_here, w, why))
        offer.address_count = 0;
    for (int r = 1; r < t->rank_count; r++)
        if (!send_to(t, r, &offer, sizeof offer, err))
            return false;
    for (int r = 1; r < t->rank_count; r++) {
        struct answer answer;
        if (!receive_from(t, r, &answer, sizeof answer, err))
            return false;
        answer.reason[REASON_BYTES - 1] = '\0';
        if (answer.reason[0])
            fail_kind(why, ERROR_ENVIRONMENT, "%s", answer.reason);
    }
    bool met = why->kind == ERROR_NONE;
    for (int r = 1; r < t->rank_count; r++)
        if (!send_to(t, r, &met, sizeof met, err))
            return false;
    return true;
}

/* The others; *why: rank 0 says that somebody did not come. */
static bool come(struct watched *w, struct meeting *m, struct error *why, struct error *err)
{
    const struct transport *t = &w->inner;
    struct offer offer;
    struct answer answer = { 0 };
    struct error cause = { 0 };
    bool met;
    if (!receive_from(t, 0, &offer, sizeof offer, err))
        return false;
    if (!accept_offer(w, &offer, m, &cause))
        snprintf(answer.reason, sizeof answer.reason, "%.*s", REASON_BYTES - 1, cause.message);
    if (!send_to(t, 0, &answer, sizeof answer, err) || !receive_from(t, 0, &met, sizeof met, err))
        return false;
    return met || (fail_kind(why, ERROR_ENVIRONMENT, "not all ranks have met"), true);
}

bool comm_watched_wrap(struct transport *transport, const struct meeting *meeting, struct error *why, struct error *err)
{
    struct watched *w = calloc(1, sizeof *w);
    struct meeting m = *meeting;
    if (!w)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory to watch other hosts");
    w->inner = *transport;
    m.rank = transport->rank, m.rank_count = transport->rank_count, m.listener = -1;
    bool ok = m.rank == 0 ? invite(w, &m, why, err) : come(w, &m, why, err);
    if (!ok || why->kind != ERROR_NONE) {
        rendezvous_close(w->rendezvous);
        free(w);
        return ok;
    }
    *transport = (struct transport){ .name = w->inner.name,
                                     .rank = m.rank,
                                     .rank_count = m.rank_count,
                                     .self = w,
                                     .exchange = exchange,
                                     .abort = abort_all,
                                     .close = close_watched,
                                     .watch = watch };
    return true;
}
