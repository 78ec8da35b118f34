/* Links are fluids: the transfers that are under way on a link share its rate equally, and whoever looks moves all of
 * them forward to the present. A transfer begins when both partners have come (a note goes ahead of it), leaves the
 * sender when its bytes have passed the sender's link, and has arrived when they have passed the receiver's and the
 * latency is over.
 *
 * Where ranks pass on what they get, as in a ring, messages follow each other into a link without waiting until the one
 * before has arrived. So in exchanges both ways nobody sleeps for a latency: a rank notes by how much it is late, says
 * so with what it sends on, and is later than whoever sent to it by the latency between them. When the instruction ends
 * it sleeps what it owes. */
#define _POSIX_C_SOURCE 200809L
#include "base/num.h"
#include "executor/comm_shaped.h"
#include "host/clock.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

struct flow {
    double left_bytes;
    int64_t finish_ns; /* when left_bytes is 0 */
    struct flow *next;
};
struct link {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    double bytes_per_ns;
    int64_t last_ns;
    struct flow *flows;
};
enum direction { OUT, IN, DIRECTION_COUNT };
/* What the wrapped ends of one process share. */
struct network {
    const struct cluster *cluster;
    int rank_count, link_count;
    bool whole; /* all ranks live here: links of units can be shared */
    atomic_int open_count;
    struct link *links; /* (level, direction, rank; of a shared level, the unit's first rank) */
};
/* One direction of a lane. */
struct channel {
    bool goes_on;      /* the next message continues the last one */
    int64_t passed_ns; /* when the last message had passed the link */
};
struct shaped {
    struct transport inner;
    struct network *network;
    struct channel channel[LANE_COUNT][DIRECTION_COUNT];
    int64_t ended_ns[LANE_COUNT];      /* when the instruction's last exchange both ways had ended; NOT_YET */
    int64_t late_ns[LANE_COUNT];       /* what it got so far arrives so much later than its bytes have passed */
    int64_t begun_late_ns[LANE_COUNT]; /* late_ns when what goes on began */
};
/* Goes ahead of each message. */
struct note {
    int64_t ready_ns; /* since when the bytes can be sent; NOT_YET: since now */
    int64_t late_ns;
};
static const int64_t NOT_YET = INT64_MAX;

/* ---- one link ---- */
static double smallest_left(const struct link *link, int *count)
{
    double smallest = 0;
    *count = 0;
    for (const struct flow *f = link->flows; f; f = f->next)
        if (f->left_bytes > 0 && ((*count)++ == 0 || f->left_bytes < smallest))
            smallest = f->left_bytes;
    return smallest;
}

/* Moves all flows to now, one departure after another. */
static void advance(struct link *link, int64_t now)
{
    double elapsed_ns = (double)(now - link->last_ns), at_ns = (double)link->last_ns;
    int count;
    for (double smallest; elapsed_ns > 0 && (smallest = smallest_left(link, &count)) > 0;) {
        double until_ns = smallest * count / link->bytes_per_ns;
        double step_ns = until_ns < elapsed_ns ? until_ns : elapsed_ns;
        double bytes = until_ns <= elapsed_ns ? smallest : step_ns * link->bytes_per_ns / count;
        at_ns += step_ns;
        elapsed_ns -= step_ns;
        for (struct flow *f = link->flows; f; f = f->next) {
            if (f->left_bytes <= 0)
                continue;
            f->left_bytes -= bytes;
            if (f->left_bytes <= 0)
                f->left_bytes = 0, f->finish_ns = (int64_t)at_ns;
        }
    }
    if (now > link->last_ns)
        link->last_ns = now;
}

/* since_ns: from when on the bytes were there to be sent. What a link would have carried from then until this thread
 * got to say so has passed already: a link does not rest between the messages of one transfer. */
static void join(struct link *link, struct flow *flow, size_t bytes, int64_t since_ns)
{
    int others;
    pthread_mutex_lock(&link->mutex);
    advance(link, clock_now_ns());
    smallest_left(link, &others);
    double rate = link->bytes_per_ns / (others + 1);
    int64_t begin_ns = min_i64(since_ns, link->last_ns);
    double left = (double)bytes - (double)(link->last_ns - begin_ns) * rate;
    *flow = (struct flow){ .left_bytes = left > 0 ? left : 0, .next = link->flows };
    flow->finish_ns = begin_ns + (int64_t)((double)bytes / rate);
    link->flows = flow;
    pthread_mutex_unlock(&link->mutex);
}

static void wait_until(struct link *link, int64_t ns)
{
    struct timespec until = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };
    pthread_cond_timedwait(&link->changed, &link->mutex, &until);
}

/* Sleeps until the flow has passed; returns when it had. */
static int64_t leave(struct link *link, struct flow *flow)
{
    pthread_mutex_lock(&link->mutex);
    for (advance(link, clock_now_ns()); flow->left_bytes > 0; advance(link, clock_now_ns())) {
        int count;
        smallest_left(link, &count);
        /* others may leave before and make it faster: they wake us */
        wait_until(link, link->last_ns + (int64_t)(flow->left_bytes * count / link->bytes_per_ns) + 1);
    }
    struct flow **at = &link->flows;
    while (*at != flow)
        at = &(*at)->next;
    *at = flow->next;
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->mutex);
    return flow->finish_ns;
}

/* ---- which link, how late ---- */
/* Devices share a level's link with those of their unit below; at the first level with those of their node. */
static int sharing_level(int level)
{
    return level > 0 ? level - 1 : 0;
}

static const struct link_level *link_facts(const struct cluster *cluster, int level, int rank)
{
    return &cluster->types[cluster_type(cluster, rank)].levels[level];
}

static struct link *link_of(const struct network *network, int level, enum direction direction, int rank)
{
    int at = rank;
    if (link_facts(network->cluster, level, rank)->shared && network->whole)
        at -= cluster_place(network->cluster, rank, sharing_level(level));
    return &network->links[(level * DIRECTION_COUNT + (int)direction) * network->rank_count + at];
}

struct passage {
    struct link *link;
    struct flow flow;
    int64_t latency_ns;
};

/* Since when this rank could have sent or received: a thread that is woken late is not to slow the network down. */
static int64_t ready_ns(const struct shaped *s, enum lane lane, enum direction direction)
{
    const struct channel *channel = &s->channel[lane][direction];
    return channel->goes_on ? channel->passed_ns : s->ended_ns[lane];
}

static void enter(struct shaped *s, struct passage *p, enum direction direction, int peer, size_t bytes,
                  int64_t since_ns)
{
    int level = cluster_level(s->network->cluster, s->inner.rank, peer);
    p->link = link_of(s->network, level, direction, s->inner.rank);
    int64_t own_ns = link_facts(s->network->cluster, level, s->inner.rank)->latency_ns;
    int64_t other_ns = link_facts(s->network->cluster, level, peer)->latency_ns;
    p->latency_ns = max_i64(own_ns, other_ns); /* between types, the slower end's */
    join(p->link, &p->flow, bytes, since_ns);
}

static int64_t pass(struct channel *channel, struct passage *p)
{
    channel->goes_on = true;
    return channel->passed_ns = leave(p->link, &p->flow);
}

static bool both_ways(struct shaped *s, enum lane lane, int to, const void *send, size_t send_bytes, int from,
                      void *receive, size_t receive_bytes, struct error *err)
{
    struct passage out, in;
    struct channel *channel = s->channel[lane];
    int64_t late_ns = channel[OUT].goes_on ? s->begun_late_ns[lane] : s->late_ns[lane];
    struct note said = { ready_ns(s, lane, OUT), late_ns }, heard = { 0 };
    s->begun_late_ns[lane] = late_ns;
    if (!s->inner.exchange(s->inner.self, lane, to, &said, sizeof said, from, &heard, sizeof heard, err))
        return false;
    int64_t own_ns = ready_ns(s, lane, IN);
    if (!s->network->whole) /* its clock may be another one */
        heard.ready_ns = NOT_YET;
    enter(s, &out, OUT, to, send_bytes, said.ready_ns);
    enter(s, &in, IN, from, receive_bytes, max_i64(own_ns, heard.ready_ns));
    int64_t sent_ns = pass(&channel[OUT], &out);
    bool ok = s->inner.exchange(s->inner.self, lane, to, send, send_bytes, from, receive, receive_bytes, err);
    int64_t came_ns = pass(&channel[IN], &in), arrives_ns = heard.late_ns + in.latency_ns;
    s->ended_ns[lane] = max_i64(sent_ns, came_ns);
    s->late_ns[lane] = max_i64(s->late_ns[lane], arrives_ns);
    return ok;
}

/* A SEND lasts until it has arrived. */
static bool one_way(struct shaped *s, enum lane lane, int to, const void *send, size_t send_bytes, int from,
                    void *receive, size_t receive_bytes, struct error *err)
{
    enum direction direction = to >= 0 ? OUT : IN;
    struct channel *channel = &s->channel[lane][direction];
    struct passage p;
    bool goes_on = channel->goes_on;
    if (!s->inner.exchange(s->inner.self, lane, to, NULL, 0, from, NULL, 0, err))
        return false;
    enter(s, &p, direction, to >= 0 ? to : from, to >= 0 ? send_bytes : receive_bytes,
          goes_on ? channel->passed_ns : NOT_YET);
    bool ok = to >= 0 || s->inner.exchange(s->inner.self, lane, -1, NULL, 0, from, receive, receive_bytes, err);
    clock_sleep_until_ns(pass(channel, &p) + (goes_on ? 0 : p.latency_ns));
    return to >= 0 ? s->inner.exchange(s->inner.self, lane, to, send, send_bytes, -1, NULL, 0, err) : ok;
}

static bool exchange(void *self, enum lane lane, int to, const void *send, size_t send_bytes, int from, void *receive,
                     size_t receive_bytes, struct error *err)
{
    struct shaped *s = self;
    if (lane == LANE_COMPUTE) /* no instruction talks there: what the run collects is not the plan's traffic */
        return s->inner.exchange(s->inner.self, lane, to, send, send_bytes, from, receive, receive_bytes, err);
    return to >= 0 && from >= 0 ? both_ways(s, lane, to, send, send_bytes, from, receive, receive_bytes, err)
                                : one_way(s, lane, to, send, send_bytes, from, receive, receive_bytes, err);
}

static void next(void *self, enum lane lane, bool out, bool in)
{
    struct shaped *s = self;
    if (out)
        s->channel[lane][OUT].goes_on = false;
    if (in)
        s->channel[lane][IN].goes_on = false;
}

static void settle(void *self, enum lane lane)
{
    struct shaped *s = self;
    if (s->ended_ns[lane] != NOT_YET)
        clock_sleep_until_ns(s->ended_ns[lane] + s->late_ns[lane]);
    s->ended_ns[lane] = NOT_YET;
    s->late_ns[lane] = 0;
}

/* ---- life ---- */
static void network_free(struct network *network)
{
    for (int i = 0; i < network->link_count; i++) {
        pthread_mutex_destroy(&network->links[i].mutex);
        pthread_cond_destroy(&network->links[i].changed);
    }
    free(network->links);
    free(network);
}

static void abort_shaped(void *self)
{
    struct shaped *s = self;
    s->inner.abort(s->inner.self);
}

static void watch_shaped(void *self, struct status *status)
{
    struct shaped *s = self;
    s->inner.watch(s->inner.self, status);
}

static void close_shaped(void *self)
{
    struct shaped *s = self;
    s->inner.close(s->inner.self);
    if (atomic_fetch_sub(&s->network->open_count, 1) == 1)
        network_free(s->network);
    free(s);
}

static void link_init(struct link *link, double bytes_per_s)
{
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC); /* that of clock_now_ns() */
    pthread_mutex_init(&link->mutex, NULL);
    pthread_cond_init(&link->changed, &clock);
    pthread_condattr_destroy(&clock);
    link->bytes_per_ns = bytes_per_s * 1e-9;
    link->last_ns = clock_now_ns();
}

static struct network *network_new(const struct cluster *cluster, int rank_count, bool whole)
{
    struct network *network = calloc(1, sizeof *network);
    if (!network)
        return NULL;
    network->cluster = cluster, network->rank_count = rank_count, network->whole = whole;
    network->links = calloc((size_t)(cluster->level_count * DIRECTION_COUNT * rank_count), sizeof *network->links);
    if (!network->links) {
        free(network);
        return NULL;
    }
    for (int level = 0; level < cluster->level_count; level++)
        for (int i = 0; i < DIRECTION_COUNT * rank_count; i++) {
            const struct link_level *l = link_facts(cluster, level, i % rank_count);
            int sharers = cluster_unit(cluster, cluster_type(cluster, i % rank_count), sharing_level(level));
            link_init(&network->links[network->link_count++],
                      l->bytes_per_s * l->efficiency / (l->shared && !whole ? sharers : 1));
        }
    return network;
}

bool comm_shaped_wrap(struct transport *transports, int count, const struct cluster *cluster, struct error *err)
{
    int rank_count = transports[0].rank_count, made = 0;
    if (rank_count > cluster->device_count)
        return fail_kind(err, ERROR_INPUT, "cluster %s has %d devices, the run has %d ranks", cluster->name,
                         cluster->device_count, rank_count);
    struct shaped **ends = calloc((size_t)count, sizeof *ends);
    struct network *network = ends ? network_new(cluster, rank_count, count == rank_count) : NULL;
    while (network && made < count && (ends[made] = calloc(1, sizeof **ends)))
        made++;
    bool ok = network && made == count;
    for (int i = 0; ok && i < count; i++) {
        ends[i]->inner = transports[i];
        ends[i]->network = network;
        for (int lane = 0; lane < LANE_COUNT; lane++)
            ends[i]->ended_ns[lane] = NOT_YET;
        transports[i] = (struct transport){ .name = ends[i]->inner.name,
                                            .rank = ends[i]->inner.rank,
                                            .rank_count = rank_count,
                                            .self = ends[i],
                                            .rendezvous = ends[i]->inner.rendezvous,
                                            .exchange = exchange,
                                            .abort = abort_shaped,
                                            .close = close_shaped,
                                            .watch = ends[i]->inner.watch ? watch_shaped : NULL,
                                            .next = next,
                                            .settle = settle };
        atomic_fetch_add(&network->open_count, 1);
    }
    if (!ok) {
        for (int i = 0; i < made; i++)
            free(ends[i]);
        if (network)
            network_free(network);
        fail_kind(err, ERROR_ENVIRONMENT, "no memory for a shaped network of %d ranks", count);
    }
    free(ends);
    return ok;
}
