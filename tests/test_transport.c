/* Every transport passes one suite; collectives are held against what the layouts say each rank must have. */
#define _POSIX_C_SOURCE 200809L
#include "tests/check.h"
#include "base/num.h"
#include "executor/collective.h"
#include "executor/comm_shaped.h"
#include "executor/comm_threads.h"
#include "executor/kernel.h"
#include "executor/lanes.h"
#include "host/clock.h"
#include "planner/program/geometry.h"
#include "tests/tcp_ends.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { MAX_RANKS = 16 };
/* Every test of exchanges and collectives runs once per wire. */
enum wire { THREADS, TCP, WIRE_COUNT };
static const char *const wire_names[WIRE_COUNT] = { "threads", "tcp" };

/* ---- ranks as threads ---- */
struct party {
    struct transport *transport;
    void *shared;
    bool ok;
    struct error error;
    void (*body)(struct party *party);
};

static void *party_main(void *argument)
{
    struct party *party = argument;
    party->body(party);
    return NULL;
}

static void run_parties(struct transport *transports, int count, void *shared, void (*body)(struct party *),
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

static void open_all(struct transport *out, enum wire wire, int count, const struct cluster *shape)
{
    struct error error = { 0 };
    ck_assert_msg(wire == TCP ? tcp_open_all(out, count, 2, &error) : comm_threads_open(out, count, &error), "%s",
                  error.message);
    ck_assert_str_eq(out[0].name, wire_names[wire]);
    if (shape)
        ck_assert_msg(comm_shaped_wrap(out, count, shape, &error), "%s", error.message);
}

static void close_all(struct transport *transports, int count)
{
    for (int i = count - 1; i >= 0; i--)
        transports[i].close(transports[i].self);
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

/* ---- collectives: random meshes and layouts ---- */
struct world {
    struct graph graph;
    struct value value;
    struct plan plan;
    struct plan_stage stage;
    struct program program;
    struct buffer buffers[2];
    struct pair pair;
    struct stage_program list;
    struct instr instr;
    unsigned char *arenas[MAX_RANKS];
    bool muted;
};

static uint64_t draw(uint64_t *state, uint64_t below)
{
    return mix64(++*state) % below;
}

static int64_t flat_index(const struct value *value, const int64_t at[MAX_DIMS])
{
    int64_t index = 0;
    for (int d = 0; d < value->dim_count; d++)
        index = index * value->size[d] + at[d];
    return index;
}

/* A small whole number: sums are exact in any order. `partial` names which addend. */
static real addend(int64_t index, unsigned partial)
{
    return (real)((int)(mix64((uint64_t)index * 97 + partial) % 17) - 8);
}

static unsigned partial_of(const struct world *w, const struct layout *layout, int rank)
{
    unsigned name = 0;
    for (int a = 0; a < w->plan.atom_count; a++)
        name =
            name * 16 + (layout->kind[a] == LAYOUT_PARTIAL ? (unsigned)atom_coordinate(&w->plan, 0, rank, a) + 1 : 0);
    return name;
}

static void next_in(const struct block *block, int64_t at[MAX_DIMS])
{
    for (int d = block->dim_count - 1; d >= 0; d--) {
        if (++at[d] < block->low[d] + block->count[d])
            return;
        at[d] = block->low[d];
    }
}

/* The ranks whose addends end on one rank, by the names of their addends. */
struct terms {
    int count;
    unsigned name[MAX_RANKS];
};

static struct terms terms_of(const struct world *w, int rank)
{
    const struct layout *from = &w->buffers[0].layout, *to = &w->buffers[1].layout;
    struct terms terms = { 0 };
    for (int other = 0; other < w->plan.rank_count; other++) {
        bool counts = true;
        for (int a = 0; a < w->plan.atom_count; a++)
            counts &= (from->kind[a] == LAYOUT_PARTIAL && to->kind[a] != LAYOUT_PARTIAL && !w->muted) ||
                      atom_coordinate(&w->plan, 0, other, a) == atom_coordinate(&w->plan, 0, rank, a);
        if (counts)
            terms.name[terms.count++] = partial_of(w, from, other);
    }
    return terms;
}

/* Their sum (or maximum) of one element. */
static real expected(const struct world *w, const struct terms *terms, int64_t index)
{
    bool maximum = w->instr.fold == FOLD_MAX;
    real result = maximum ? -(real)INFINITY : 0;
    for (int t = 0; t < terms->count; t++) {
        real part = addend(index, terms->name[t]);
        if (maximum)
            result = part > result ? part : result;
        else
            result += part;
    }
    return result;
}

static real *data_of(const struct world *w, int rank, int buffer)
{
    return (real *)(void *)(w->arenas[rank] + w->buffers[buffer].offset);
}

static void piece_range(const struct world *w, int buffer, int rank, int64_t *first, int64_t *count)
{
    struct block block = buffer_block(&w->program, &w->buffers[buffer], rank);
    int index, pieces;
    flat_piece(&w->program, &w->buffers[buffer], rank, &index, &pieces);
    int64_t whole = block_elements(&block);
    *first = pieces > 1 ? min_i64(whole, index * w->buffers[buffer].elements) : 0;
    *count = pieces > 1 ? min_i64(w->buffers[buffer].elements, whole - *first) : whole;
}

static void fill_source(const struct world *w, int rank)
{
    struct block block = buffer_block(&w->program, &w->buffers[0], rank);
    unsigned name = partial_of(w, &w->buffers[0].layout, rank);
    int64_t at[MAX_DIMS], first, count;
    piece_range(w, 0, rank, &first, &count);
    memcpy(at, block.low, sizeof at);
    for (int64_t i = 0; i < block_elements(&block); i++, next_in(&block, at))
        if (i >= first && i < first + count)
            data_of(w, rank, 0)[i - first] = addend(flat_index(&w->value, at), name);
}

static int wrong_elements(const struct world *w, int rank, real before)
{
    struct block block = buffer_block(&w->program, &w->buffers[1], rank);
    struct terms terms = terms_of(w, rank);
    int64_t at[MAX_DIMS], first, count;
    int wrong = 0;
    piece_range(w, 1, rank, &first, &count);
    memcpy(at, block.low, sizeof at);
    for (int64_t i = 0; i < block_elements(&block); i++, next_in(&block, at))
        if (i >= first && i < first + count)
            wrong += data_of(w, rank, 1)[i - first] !=
                     expected(w, &terms, flat_index(&w->value, at)) + (w->instr.accumulate ? before : 0);
    return wrong;
}

static void convert(struct party *party)
{
    const struct world *w = party->shared;
    struct collective *c;
    int rank = party->transport->rank;
    if (!collective_new(&c, &w->program, rank, w->arenas[rank], party->transport, &party->error))
        return;
    party->ok = collective_run(c, &w->instr, w->muted, &party->error);
    collective_free(c);
}

static int64_t elements_of(const struct world *w, const struct buffer *buffer)
{
    struct block block = buffer_block(&w->program, buffer, 0);
    int index, pieces;
    flat_piece(&w->program, buffer, 0, &index, &pieces);
    return ceil_div(block_elements(&block), pieces);
}

/* Mesh and value; the layouts are set by the caller. */
static void world_init(struct world *w, const int atoms[MAX_ATOMS])
{
    memset(w, 0, sizeof *w);
    w->value = (struct value){
        .name = "value", .dim_count = 3, .size = { 24, 48, 24 }, .tag = { TAG_HIDDEN, TAG_FFN, TAG_HEAD }
    };
    w->graph = (struct graph){ .value_count = 1, .values = &w->value };
    w->plan = (struct plan){ .dtype = sizeof(real) == 8 ? DTYPE_FP64 : DTYPE_FP32,
                             .atom_count = 3,
                             .stage_count = 1,
                             .stages = &w->stage,
                             .rank_count = atoms[0] * atoms[1] * atoms[2],
                             .micro_batch_count = 1 };
    memcpy(w->stage.atom, atoms, sizeof w->stage.atom);
    w->pair = (struct pair){ 0, 1 };
    w->program = (struct program){ .graph = &w->graph,
                                   .plan = &w->plan,
                                   .stage_count = 1,
                                   .buffer_count = 2,
                                   .pair_count = 1,
                                   .stages = &w->list,
                                   .buffers = w->buffers,
                                   .pairs = &w->pair };
    w->list = (struct stage_program){ .instr_count = 1, .instrs = &w->instr };
    w->instr = (struct instr){
        .op = OP_REDISTRIBUTE, .lane = LANE_TP, .segment = -1, .pair_count = 1, .atoms = 7, .fold = FOLD_SUM, .tag = -1
    };
    for (int b = 0; b < 2; b++)
        w->buffers[b] = (struct buffer){ .kind = BUFFER_VALUE, .micro = 0, .ring_atom = -1, .part_count = 1 };
}

static void check_world(struct world *w, enum wire wire, bool accumulate)
{
    enum { BEFORE = 3 };
    struct transport transports[MAX_RANKS];
    struct party parties[MAX_RANKS];
    int ranks = w->plan.rank_count;
    w->instr.accumulate = accumulate;
    for (int b = 0; b < 2; b++) {
        w->buffers[b].elements = elements_of(w, &w->buffers[b]);
        w->buffers[b].bytes = w->buffers[b].elements * (int64_t)sizeof(real);
        w->buffers[b].offset = b > 0 ? w->buffers[0].bytes : 0;
    }
    for (int r = 0; r < ranks; r++) {
        w->arenas[r] = malloc((size_t)(w->buffers[0].bytes + w->buffers[1].bytes));
        fill_source(w, r);
        for (int64_t i = 0; i < w->buffers[1].elements; i++)
            data_of(w, r, 1)[i] = accumulate ? BEFORE : (real)NAN;
    }
    open_all(transports, wire, ranks, NULL);
    run_parties(transports, ranks, w, convert, parties);
    for (int r = 0; r < ranks; r++) {
        ck_assert_msg(parties[r].ok, "%s", parties[r].error.message);
        int wrong = wrong_elements(w, r, BEFORE);
        ck_assert_msg(wrong == 0,
                      "%s: mesh %dx%dx%d, from %d%d%d dims %d%d%d to %d%d%d dims %d%d%d, accumulate %d: rank %d has %d "
                      "wrong elements",
                      op_info[w->instr.op].name, w->stage.atom[0], w->stage.atom[1], w->stage.atom[2],
                      w->buffers[0].layout.kind[0], w->buffers[0].layout.kind[1], w->buffers[0].layout.kind[2],
                      w->buffers[0].layout.dim[0], w->buffers[0].layout.dim[1], w->buffers[0].layout.dim[2],
                      w->buffers[1].layout.kind[0], w->buffers[1].layout.kind[1], w->buffers[1].layout.kind[2],
                      w->buffers[1].layout.dim[0], w->buffers[1].layout.dim[1], w->buffers[1].layout.dim[2], accumulate,
                      r, wrong);
        free(w->arenas[r]);
    }
    close_all(transports, ranks);
}

static void random_mesh(uint64_t *seed, int atoms[MAX_ATOMS])
{
    static const int meshes[][3] = { { 1, 1, 1 }, { 1, 1, 2 }, { 1, 1, 3 }, { 2, 2, 1 }, { 2, 1, 2 },
                                     { 1, 4, 1 }, { 2, 2, 2 }, { 1, 2, 3 }, { 1, 2, 4 } };
    const int *mesh = meshes[draw(seed, sizeof meshes / sizeof *meshes)];
    for (int a = 0; a < 3; a++)
        atoms[a] = mesh[a];
    atoms[3] = 1;
}

START_TEST(any_layout_becomes_any_other)
{
    uint64_t seed = 1;
    for (int trial = 0; trial < (_i == TCP ? 60 : 400); trial++) {
        struct world w;
        int atoms[MAX_ATOMS];
        random_mesh(&seed, atoms);
        world_init(&w, atoms);
        for (int a = 0; a < 3; a++) {
            struct layout *from = &w.buffers[0].layout, *to = &w.buffers[1].layout;
            from->kind[a] = (uint8_t)draw(&seed, 3); /* replicated, sharded, partial */
            to->kind[a] = from->kind[a] == LAYOUT_PARTIAL ? (uint8_t)draw(&seed, 3) : (uint8_t)draw(&seed, 2);
            from->dim[a] = (uint8_t)draw(&seed, 3), to->dim[a] = (uint8_t)draw(&seed, 3);
            from->order[a] = (uint8_t)a, to->order[a] = (uint8_t)(2 - a);
        }
        w.instr.fold = draw(&seed, 4) == 0 ? FOLD_MAX : FOLD_SUM;
        check_world(&w, (enum wire)_i, w.instr.fold == FOLD_SUM && draw(&seed, 2) == 1);
    }
}
END_TEST

/* Partial to flat shards and back; the 24 x 48 x 12 elements do not divide by 5 or 7, so shards are padded. */
START_TEST(flat_shards_scatter_and_gather)
{
    static const int sizes[] = { 2, 3, 4, 5, 7 };
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int gather = 0; gather < 2; gather++)
            for (int accumulate = 0; accumulate < 2; accumulate++) {
                struct world w;
                world_init(&w, (int[MAX_ATOMS]){ 1, sizes[s], 2, 1 });
                struct layout *from = &w.buffers[0].layout, *to = &w.buffers[1].layout;
                from->kind[1] = gather ? LAYOUT_FLAT : LAYOUT_PARTIAL;
                to->kind[1] = gather ? LAYOUT_REPLICATED : LAYOUT_FLAT;
                from->kind[2] = to->kind[2] = LAYOUT_SHARDED;
                from->dim[2] = to->dim[2] = 2;
                w.instr.op = gather ? OP_ALL_GATHER : OP_REDUCE_SCATTER;
                w.instr.atoms = 2;
                check_world(&w, (enum wire)_i, accumulate == 1);
            }
}
END_TEST

/* Shards of more than a message: blocks, whose pieces do not lie together, and flat ones, of which the last is padded.
 */
START_TEST(long_shards_scatter_and_gather)
{
    for (int gather = 0; gather < 2; gather++)
        for (int flat = 0; flat < 2; flat++) {
            struct world w;
            world_init(&w, (int[MAX_ATOMS]){ 1, flat ? 5 : 4, 1, 1 });
            w.value.size[0] = 1201;
            int64_t elements = 1201 * w.value.size[1] * w.value.size[2];
            ck_assert_int_gt(elements * (int64_t)sizeof(real), 5 * COLLECTIVE_MESSAGE_BYTES);
            struct layout *whole = &w.buffers[gather].layout, *shard = &w.buffers[!gather].layout;
            whole->kind[1] = gather ? LAYOUT_REPLICATED : LAYOUT_PARTIAL;
            shard->kind[1] = flat ? LAYOUT_FLAT : LAYOUT_SHARDED;
            shard->dim[1] = 1;
            w.instr.op = gather ? OP_ALL_GATHER : OP_REDUCE_SCATTER;
            w.instr.atoms = 2;
            check_world(&w, (enum wire)_i, false);
            check_world(&w, (enum wire)_i, true);
        }
}
END_TEST

START_TEST(all_reduce_in_its_own_buffer)
{
    for (int ranks = 1; ranks <= 8; ranks++) {
        struct world w;
        world_init(&w, (int[MAX_ATOMS]){ 1, ranks, 1, 1 });
        w.buffers[0].layout.kind[1] = LAYOUT_PARTIAL;
        w.instr.op = OP_ALL_REDUCE;
        w.instr.atoms = 2;
        check_world(&w, (enum wire)_i, false);
        check_world(&w, (enum wire)_i, true);
    }
}
END_TEST

START_TEST(muted_ranks_act_alone)
{
    struct world w;
    world_init(&w, (int[MAX_ATOMS]){ 1, 4, 1, 1 });
    w.buffers[0].layout.kind[1] = LAYOUT_PARTIAL;
    w.instr.op = OP_ALL_REDUCE;
    w.instr.atoms = 2;
    w.muted = true;
    check_world(&w, THREADS, false);
}
END_TEST

/* ---- lanes ---- */
enum { LANE_INSTRS = 300 };
struct recorder {
    atomic_int order, at[LANE_INSTRS];
    int fail_at;
};

static bool record(void *context, int index, const struct instr *instr, struct span *span, struct error *err)
{
    struct recorder *r = context;
    (void)instr, (void)span;
    if (index == r->fail_at)
        return fail_kind(err, ERROR_ENVIRONMENT, "instruction %d broke", index);
    atomic_store(&r->at[index], atomic_fetch_add(&r->order, 1) + 1);
    return true;
}

static void make_list(struct stage_program *list, struct instr *instrs, int *waits)
{
    static const enum lane lanes[] = { LANE_COMPUTE, LANE_TP, LANE_DP, LANE_SEND };
    uint64_t seed = 5;
    *list = (struct stage_program){ .instr_count = LANE_INSTRS, .instrs = instrs, .waits = waits };
    for (int i = 0; i < LANE_INSTRS; i++) {
        instrs[i] = (struct instr){ .op = OP_ZERO, .lane = lanes[draw(&seed, 4)], .wait_first = list->wait_count };
        for (int k = 0; k < 2 && i > 0; k++)
            waits[list->wait_count++] = (int)draw(&seed, (uint64_t)i);
        instrs[i].wait_count = list->wait_count - instrs[i].wait_first;
    }
}

START_TEST(lanes_keep_order_and_waits)
{
    struct instr instrs[LANE_INSTRS];
    int waits[2 * LANE_INSTRS];
    struct stage_program list;
    struct lanes *lanes;
    struct error error = { 0 };
    make_list(&list, instrs, waits);
    struct recorder r = { .fail_at = -1 };
    ck_assert(lanes_new(&lanes, &list, record, NULL, &r, &error));
    for (int step = 0; step < 20; step++) {
        atomic_store(&r.order, 0);
        lanes_begin_step(lanes, 0);
        for (int i = 0; i < LANE_INSTRS; i++)
            lanes_issue(lanes, i);
        ck_assert(lanes_finish(lanes, &error));
        int last[LANE_COUNT] = { 0 };
        for (int i = 0; i < LANE_INSTRS; i++) {
            int at = atomic_load(&r.at[i]);
            ck_assert_int_gt(at, last[instrs[i].lane]);
            last[instrs[i].lane] = at;
            for (int k = 0; k < instrs[i].wait_count; k++)
                ck_assert_int_lt(atomic_load(&r.at[waits[instrs[i].wait_first + k]]), at);
            ck_assert_int_le(lanes_spans(lanes)[i].start_ns, lanes_spans(lanes)[i].finish_ns);
        }
    }
    lanes_free(lanes);
}
END_TEST

START_TEST(a_failing_lane_ends_the_step)
{
    struct instr instrs[LANE_INSTRS];
    int waits[2 * LANE_INSTRS];
    struct stage_program list;
    struct lanes *lanes;
    struct error error = { 0 };
    make_list(&list, instrs, waits);
    struct recorder r = { .fail_at = LANE_INSTRS / 2 };
    ck_assert(lanes_new(&lanes, &list, record, NULL, &r, &error));
    lanes_begin_step(lanes, 0);
    for (int i = 0; i < LANE_INSTRS; i++)
        lanes_issue(lanes, i);
    ck_assert(!lanes_finish(lanes, &error));
    ck_assert_str_eq(error.message, "instruction 150 broke");
    lanes_free(lanes);
}
END_TEST

static void add_for_each_wire(Suite *suite, const TTest *test)
{
    TCase *tcase = tcase_create(test->name);
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test, 0, WIRE_COUNT);
    suite_add_tcase(suite, tcase);
}

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
    add_for_each_wire(suite, any_layout_becomes_any_other);
    add_for_each_wire(suite, flat_shards_scatter_and_gather);
    add_for_each_wire(suite, long_shards_scatter_and_gather);
    add_for_each_wire(suite, all_reduce_in_its_own_buffer);
    CHECK_ADD(suite, muted_ranks_act_alone);
    CHECK_ADD(suite, lanes_keep_order_and_waits);
    CHECK_ADD(suite, a_failing_lane_ends_the_step);
    return suite;
}
CHECK_MAIN(transport_suite)
