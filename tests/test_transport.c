/* Every transport passes one suite of exchanges; a shaped network is not faster than described. */
#define _POSIX_C_SOURCE 200809L
#include "base/num.h"
#include "host/clock.h"
#include "tests/parties.h"
#include <string.h>

/* What a cluster of one type points to. */
struct parts {
    struct link_level levels[2];
    struct node_type type;
    struct node_group group;
};

static struct cluster small_cluster(struct parts *parts, bool shared)
{
    parts->levels[0] =
        (struct link_level){ .name = "node", .fanout = 2, .bytes_per_s = 2e9, .efficiency = 1, .latency_ns = 20000 };
    parts->levels[1] = (struct link_level){
        .name = "cluster", .fanout = 4, .bytes_per_s = 1e9, .efficiency = 1, .latency_ns = 50000, .shared = shared
    };
    parts->type = (struct node_type){ .levels = parts->levels, .device_count = 8 };
    parts->group = (struct node_group){ .device_count = 8 };
    return (struct cluster){ .name = "small",
                             .level_count = 2,
                             .type_count = 1,
                             .group_count = 1,
                             .types = &parts->type,
                             .groups = &parts->group,
                             .device_count = 8 };
}

/* ---- the suite of exchange ---- */
static size_t message_size(int from, int to, int number)
{
    return (size_t)(mix64((uint64_t)(from * 1000 + to * 100 + number)) % 3 == 0
                        ? 0
                        : mix64((uint64_t)(from + 7 * to + 31 * number)) % 20000);
}

static void around(struct party *party)
{
    const struct transport *t = party->transport;
    static const enum lane lane = LANE_TP;
    unsigned char out[20000], in[20000];
    for (int number = 0; number < 12; number++)
        for (int k = 1; k < t->rank_count; k++) {
            int to = (t->rank + k) % t->rank_count, from = (t->rank + t->rank_count - k) % t->rank_count;
            size_t send = message_size(t->rank, to, number), receive = message_size(from, t->rank, number);
            memset(out, t->rank * 16 + number, sizeof out);
            memset(in, 0xee, sizeof in);
            if (!t->exchange(t->self, lane, to, out, send, from, in, receive, &party->error))
                return;
            for (size_t i = 0; i < receive; i++)
                if (in[i] != (unsigned char)(from * 16 + number))
                    return;
        }
    party->ok = true;
}

static void check_exchange(enum wire wire, const struct cluster *shape)
{
    for (int count = 1; count <= 8; count++) {
        struct transport transports[MAX_RANKS];
        struct party parties[MAX_RANKS];
        open_all(transports, wire, count, shape);
        run_parties(transports, count, NULL, around, parties);
        for (int i = 0; i < count; i++)
            ck_assert_msg(parties[i].ok, "rank %d of %d: %s", i, count, parties[i].error.message);
        close_all(transports, count);
    }
}

START_TEST(messages_arrive_in_order)
{
    check_exchange((enum wire)_i, NULL);
}
END_TEST

START_TEST(messages_arrive_in_order_on_a_shaped_network)
{
    struct parts parts;
    struct cluster cluster = small_cluster(&parts, true);
    check_exchange((enum wire)_i, &cluster);
}
END_TEST

static void wait_for_nobody(struct party *party)
{
    const struct transport *t = party->transport;
    char byte = 0;
    if (t->rank == 0) {
        clock_sleep_until_ns(clock_now_ns() + 20000000);
        t->abort(t->self);
        party->ok = true;
    } else if (t->rank == 1) { /* a receive that never comes, then a send that nobody takes */
        party->ok = !t->exchange(t->self, LANE_DP, -1, NULL, 0, 2, &byte, 1, &party->error) &&
                    !t->exchange(t->self, LANE_DP, 2, &byte, 1, -1, NULL, 0, &party->error);
    } else {
        party->ok = !t->exchange(t->self, LANE_TP, -1, NULL, 0, 0, &byte, 1, &party->error);
    }
}

START_TEST(abort_wakes_all)
{
    struct transport transports[3];
    struct party parties[3];
    open_all(transports, (enum wire)_i, 3, NULL);
    run_parties(transports, 3, NULL, wait_for_nobody, parties);
    for (int i = 0; i < 3; i++)
        ck_assert_msg(parties[i].ok, "rank %d", i);
    ck_assert_ptr_nonnull(strstr(parties[1].error.message, "aborted"));
    close_all(transports, 3);
}
END_TEST

static void disagree(struct party *party)
{
    const struct transport *t = party->transport;
    char bytes[8] = { 0 };
    party->ok = t->rank == 0 ? t->exchange(t->self, LANE_DP, 1, bytes, 8, -1, NULL, 0, &party->error)
                             : t->exchange(t->self, LANE_DP, -1, NULL, 0, 0, bytes, 4, &party->error);
}

START_TEST(another_size_is_refused_on_both_sides_of_threads)
{
    struct transport transports[2];
    struct party parties[2];
    open_all(transports, THREADS, 2, NULL);
    run_parties(transports, 2, NULL, disagree, parties);
    ck_assert(!parties[0].ok && !parties[1].ok);
    ck_assert_ptr_nonnull(strstr(parties[1].error.message, "expected 4 bytes from rank 0, found 8"));
    close_all(transports, 2);
}
END_TEST

/* What was sent is in the system's buffers: the sender learns of it with the abort of the run. */
START_TEST(another_size_is_refused_by_who_receives_it)
{
    struct transport transports[2];
    struct party parties[2];
    open_all(transports, TCP, 2, NULL);
    run_parties(transports, 2, NULL, disagree, parties);
    ck_assert(!parties[1].ok);
    ck_assert_ptr_nonnull(strstr(parties[1].error.message, "expected 4 bytes from rank 0, found 8"));
    close_all(transports, 2);
}
END_TEST

/* More than the system's buffers hold, both ways at once, on two lanes that end in another order than they began. */
enum { LONG_BYTES = 24 << 20 };
static bool long_way(const struct transport *t, enum lane lane, struct error *err)
{
    int other = 1 - t->rank;
    unsigned char *out = malloc(LONG_BYTES), *in = malloc(LONG_BYTES);
    memset(out, t->rank + 1, LONG_BYTES);
    bool ok = t->exchange(t->self, lane, other, out, LONG_BYTES, other, in, LONG_BYTES, err);
    for (size_t i = 0; ok && i < LONG_BYTES; i++)
        ok = in[i] == other + 1;
    free(out);
    free(in);
    return ok;
}

static void *long_way_on_dp(void *argument)
{
    struct party *party = argument;
    struct error error = { 0 };
    return long_way(party->transport, LANE_DP, &error) ? party : NULL;
}

static void long_ways(struct party *party)
{
    pthread_t other;
    void *result = NULL;
    pthread_create(&other, NULL, long_way_on_dp, party);
    clock_sleep_until_ns(clock_now_ns() + (party->transport->rank == 0 ? 30000000 : 0));
    party->ok = long_way(party->transport, LANE_TP, &party->error);
    pthread_join(other, &result);
    party->ok = party->ok && result == party;
}

START_TEST(long_messages_pass_each_other)
{
    struct transport transports[2];
    struct party parties[2];
    open_all(transports, (enum wire)_i, 2, NULL);
    run_parties(transports, 2, NULL, long_ways, parties);
    ck_assert_msg(parties[0].ok && parties[1].ok, "%s %s", parties[0].error.message, parties[1].error.message);
    close_all(transports, 2);
}
END_TEST

/* ---- a shaped network is not faster than described ---- */
struct pace {
    enum lane lane;
    size_t bytes;
    int64_t start_ns[MAX_RANKS], end_ns[MAX_RANKS];
    unsigned char *data;
};

static void one_transfer(struct party *party)
{
    struct pace *pace = party->shared;
    const struct transport *t = party->transport;
    pace->start_ns[t->rank] = clock_now_ns();
    party->ok =
        t->rank == 0 ? t->exchange(t->self, pace->lane, 2, pace->data, pace->bytes, -1, NULL, 0, &party->error)
        : t->rank == 2
            ? t->exchange(t->self, pace->lane, -1, NULL, 0, 0, pace->data + pace->bytes, pace->bytes, &party->error)
        : t->rank == 1 ? t->exchange(t->self, pace->lane, 3, pace->data, pace->bytes, -1, NULL, 0, &party->error)
                       : t->exchange(t->self, pace->lane, -1, NULL, 0, 1, pace->data + 2 * pace->bytes, pace->bytes,
                                     &party->error);
    pace->end_ns[t->rank] = clock_now_ns();
}

/* Ranks 0 and 1 of one node send to another node at once: 4 MB each at 1 GB/s. From the first that begins to the last
 * that ends. */
static int64_t both_took_ns(bool shared)
{
    struct parts parts;
    struct cluster cluster = small_cluster(&parts, shared);
    struct transport transports[4];
    struct party parties[4];
    struct pace pace = { .lane = LANE_DP, .bytes = 4000000 };
    pace.data = calloc(3, pace.bytes);
    open_all(transports, THREADS, 4, &cluster);
    run_parties(transports, 4, &pace, one_transfer, parties);
    int64_t start = INT64_MAX, end = 0;
    for (int i = 0; i < 4; i++) {
        ck_assert_msg(parties[i].ok, "%s", parties[i].error.message);
        ck_assert_int_ge(pace.end_ns[i] - pace.start_ns[i], 4000000 + 50000 - 1000);
        start = min_i64(start, pace.start_ns[i]);
        end = max_i64(end, pace.end_ns[i]);
    }
    close_all(transports, 4);
    free(pace.data);
    return end - start;
}

START_TEST(shaped_transfers_take_latency_and_bandwidth)
{
    ck_assert_int_ge(both_took_ns(false), 4000000 + 50000 - 1000);
    ck_assert_int_ge(both_took_ns(true), 8000000 - 1000); /* both pass one link, together or one after the other */
}
END_TEST

/* Once around a ring of two nodes of two, each rank passing on what came: 20 ms inside, 50 ms between. Nobody gets its
 * last message before all three hops on its way are over. Then two transfers one way, each of which ends with a full
 * message: the second continues nothing. */
enum { HOP_NS = 20000000, FAR_HOP_NS = 50000000 };
struct round_trip {
    int64_t start_ns[MAX_RANKS], ring_ns[MAX_RANKS], twice_ns[MAX_RANKS];
};

static void pass_on(struct party *party)
{
    struct round_trip *trip = party->shared;
    const struct transport *t = party->transport;
    int next = (t->rank + 1) % 4, before = (t->rank + 3) % 4, other = t->rank ^ 1;
    char out[8] = { 0 }, in[8];
    party->ok = true;
    trip->start_ns[t->rank] = clock_now_ns();
    for (int hop = 0; hop < 3 && party->ok; hop++) {
        transport_next(t, LANE_DP, true, true);
        party->ok = t->exchange(t->self, LANE_DP, next, out, sizeof out, before, in, sizeof in, &party->error);
    }
    t->settle(t->self, LANE_DP);
    int64_t middle_ns = trip->ring_ns[t->rank] = clock_now_ns();
    bool sends = t->rank < other;
    for (int i = 0; i < 2 && party->ok; i++) {
        transport_next(t, LANE_SEND, sends, !sends);
        party->ok = t->exchange(t->self, LANE_SEND, sends ? other : -1, out, sends ? sizeof out : 0, sends ? -1 : other,
                                in, sends ? 0 : sizeof in, &party->error);
    }
    trip->twice_ns[t->rank] = clock_now_ns() - middle_ns;
}

START_TEST(latencies_are_paid_on_the_way)
{
    struct parts parts;
    struct cluster cluster = small_cluster(&parts, false);
    struct transport transports[4];
    struct party parties[4];
    struct round_trip trip;
    parts.levels[0].latency_ns = HOP_NS, parts.levels[1].latency_ns = FAR_HOP_NS;
    open_all(transports, THREADS, 4, &cluster);
    run_parties(transports, 4, &trip, pass_on, parties);
    for (int r = 0; r < 4; r++) {
        int far = r % 2 ? 1 : 2; /* of the three hops before an even rank two lead into a node */
        int64_t first_ns = INT64_MAX;
        for (int other = 0; other < 4; other++)
            first_ns = min_i64(first_ns, trip.start_ns[other]);
        ck_assert_msg(parties[r].ok, "%s", parties[r].error.message);
        ck_assert_int_ge(trip.ring_ns[r] - first_ns, far * FAR_HOP_NS + (3 - far) * HOP_NS);
        ck_assert_int_ge(trip.twice_ns[r], 2 * HOP_NS);
    }
    close_all(transports, 4);
}
END_TEST

static Suite *transport_suite(void)
{
    Suite *suite = suite_create("transport");
    add_for_each_wire(suite, messages_arrive_in_order);
    add_for_each_wire(suite, messages_arrive_in_order_on_a_shaped_network);
    add_for_each_wire(suite, long_messages_pass_each_other);
    add_for_each_wire(suite, abort_wakes_all);
    CHECK_ADD(suite, another_size_is_refused_on_both_sides_of_threads);
    CHECK_ADD(suite, another_size_is_refused_by_who_receives_it);
    CHECK_ADD(suite, shaped_transfers_take_latency_and_bandwidth);
    CHECK_ADD(suite, latencies_are_paid_on_the_way);
    return suite;
}
CHECK_MAIN(transport_suite)
