#define _POSIX_C_SOURCE 200809L
#include "tests/emulated/emulated_nccl.h"
#include "tests/emulated/emulated.h"
#include "tests/emulated/emulated_nccl_parts.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- calls that are broken ---- */
/* Counts a call of the rank. can: the fates that it may have, a bit each. Returns whether its fate is at hand; a call
 * that hangs comes back when all is released, and is refused then. */
static bool is_broken(struct rank_table *table, const char *function, unsigned can)
{
    struct emulated_nccl *shared = table->shared;
    pthread_mutex_lock(&shared->mutex);
    bool broken = table->rank == shared->broken_rank && table->made++ >= shared->broken_call && !shared->broken &&
                  (can >> shared->fate & 1);
    if (broken)
        shared->broken = function;
    while (broken && shared->fate == CALL_HANGS && !shared->released)
        pthread_cond_wait(&shared->changed, &shared->mutex);
    pthread_mutex_unlock(&shared->mutex);
    return broken;
}
enum {
    AT_ONCE = 1 << CALL_REFUSED | 1 << CALL_HANGS,
    AT_LENGTH = AT_ONCE | 1 << CALL_FAILS_LATER | 1 << CALL_STAYS,
    ON_THE_DEVICE = AT_LENGTH | 1 << CALL_NEVER_ENDS
};

static bool refuses(const struct rank_table *table, bool broken, struct error *err)
{
    const struct emulated_nccl *shared = table->shared;
    return broken && (shared->fate == CALL_REFUSED || shared->fate == CALL_HANGS) &&
           !fail_kind(err, ERROR_ENVIRONMENT, "emulated NCCL: %s: invalid argument", shared->broken);
}

/* Under the mutex. */
static void spoil(struct rank_table *table, struct handle *h, bool broken)
{
    h->failed = h->failed || (broken && table->shared->fate == CALL_FAILS_LATER);
    h->stays = h->stays || (broken && table->shared->fate == CALL_STAYS);
}

/* ---- the table ---- */
static bool make_id(void *self, unsigned char id[COMM_ID_BYTES], struct error *err)
{
    if (refuses(self, is_broken(self, "id", AT_ONCE), err))
        return false;
    memset(id, 0, COMM_ID_BYTES);
    memcpy(id, &((struct rank_table *)self)->shared, sizeof(struct emulated_nccl *));
    return true;
}

static struct handle *handle_new(struct group *group, int place)
{
    struct handle *h = calloc(1, sizeof *h);
    if (!h)
        abort();
    h->group = group, h->place = place;
    h->sent = calloc((size_t)group->count, sizeof *h->sent);
    h->received = calloc((size_t)group->count, sizeof *h->received);
    if (!h->sent || !h->received)
        abort();
    return h;
}

static struct group *group_new(struct emulated_nccl *shared, int count, int split, int colour)
{
    struct group *group = calloc(1, sizeof *group);
    unsigned char *connected = calloc((size_t)count * (size_t)count, 1);
    if (!group || !connected)
        abort();
    *group = (struct group){ .shared = shared,
                             .count = count,
                             .split = split,
                             .colour = colour,
                             .connected = connected,
                             .next = shared->groups };
    shared->groups = group;
    return group;
}

static void *join(void *self, const unsigned char id[COMM_ID_BYTES], int rank, int count, struct error *err)
{
    struct rank_table *table = self;
    struct emulated_nccl *shared = table->shared, *told;
    const bool broken = is_broken(table, "join", AT_LENGTH);
    if (refuses(table, broken, err))
        return NULL;
    memcpy(&told, id, sizeof told);
    if (told != shared || count != shared->rank_count || rank != table->rank) {
        fail_kind(err, ERROR_ENVIRONMENT, "emulated NCCL: the id is not that of rank 0");
        return NULL;
    }
    pthread_mutex_lock(&shared->mutex);
    if (!shared->groups)
        group_new(shared, count, -1, 0);
    struct handle *h = handle_new(shared->groups, rank);
    spoil(table, h, broken);
    shared->joined++;
    table->open++;
    pthread_mutex_unlock(&shared->mutex);
    return h;
}

static bool split(void *self, void *comm, int colour, int key, void **out, struct error *err)
{
    struct rank_table *table = self;
    struct emulated_nccl *shared = table->shared;
    struct handle *world = comm;
    const bool broken = is_broken(table, "split", AT_LENGTH);
    if (refuses(table, broken, err))
        return false;
    if (world->split_count == MOST_SPLITS)
        return fail_kind(err, ERROR_BUG, "emulated NCCL: too many splits");
    pthread_mutex_lock(&shared->mutex);
    shared->requests[world->split_count * shared->rank_count + table->rank] = (struct request){ colour, key };
    shared->asked[world->split_count]++;
    world->out = out;
    spoil(table, world, broken);
    pthread_mutex_unlock(&shared->mutex);
    return true;
}

/* All have asked: the rank makes its end of the group of its colour, or finds the group that another has made. */
static void finish_split(struct rank_table *table, struct handle *world)
{
    struct emulated_nccl *shared = table->shared;
    const struct request *all = &shared->requests[world->split_count * shared->rank_count], mine = all[table->rank];
    int count = 0, place = 0;
    for (int r = 0; r < shared->rank_count; r++)
        if (all[r].colour == mine.colour) {
            count++;
            place += all[r].key < mine.key;
        }
    *world->out = NULL;
    if (mine.colour != COMM_NO_COLOUR) {
        struct group *group = shared->groups;
        while (group && (group->split != world->split_count || group->colour != mine.colour))
            group = group->next;
        if (!group)
            group = group_new(shared, count, world->split_count, mine.colour);
        *world->out = handle_new(group, place);
        table->open++;
    }
    world->split_count++;
    world->out = NULL;
}

/* The first message from one member to another makes a connection, as the first collective of a kind does between all:
 * the library does no more before the others have called theirs. */
static bool is_connected(const struct handle *h)
{
    const struct group *group = h->group;
    bool all = true;
    for (int m = 0; m < group->count; m++)
        all = all && group->connected[h->place * group->count + m] != 1 &&
              group->connected[m * group->count + h->place] != 2;
    for (int kind = 0; kind < COMM_SEND; kind++)
        all = all && (!h->called[kind] || group->called[kind] == group->count);
    return all;
}

static void connect_peer(struct handle *h, const struct comm_call *call)
{
    struct group *group = h->group;
    if (call->kind == COMM_SEND)
        group->connected[h->place * group->count + call->peer] |= 1;
    else if (call->kind == COMM_RECEIVE)
        group->connected[call->peer * group->count + h->place] |= 2;
    else if (!h->called[call->kind]) {
        h->called[call->kind] = true;
        group->called[call->kind]++;
    }
}

/* Everything is busy once, so that nobody relies on the opposite. */
static enum comm_state state(void *self, void *comm, struct error *err)
{
    struct rank_table *table = self;
    struct handle *h = comm;
    enum comm_state result = COMM_READY;
    pthread_mutex_lock(&table->shared->mutex);
    if (h->failed && h->was_busy &&
        !fail_kind(err, ERROR_ENVIRONMENT, "emulated NCCL: %s: remote process exited", table->shared->broken))
        result = COMM_FAILED;
    else if (h->failed || h->stays)
        result = COMM_BUSY;
    else if (h->group->split == -1 && table->shared->joined < table->shared->rank_count)
        result = COMM_BUSY;
    else if (h->out && table->shared->asked[h->split_count] < table->shared->rank_count)
        result = COMM_BUSY;
    else if (h->out)
        finish_split(table, h);
    else if (!h->was_busy || !is_connected(h))
        result = COMM_BUSY;
    h->was_busy = result == COMM_BUSY;
    pthread_mutex_unlock(&table->shared->mutex);
    return result;
}

static void *allocate(void *self, size_t bytes, struct error *err)
{
    struct rank_table *table = self;
    void *memory = table->own_count < MOST_LENT ? table->gpu.allocate(table->gpu.self, bytes, err) : NULL;
    if (memory)
        table->own[table->own_count++] = (struct lent){ memory, bytes };
    return memory;
}

static void release(void *self, void *memory)
{
    struct rank_table *table = self;
    bool own = false;
    for (int i = 0; i < table->own_count; i++)
        if (table->own[i].memory == memory)
            table->own[i].memory = NULL, own = true;
    if (!own)
        emulated_nccl_note(table->shared, "memory is given back that is not the library's");
    table->gpu.release(table->gpu.self, memory);
}

static void lend(void *self, void *comm, void *memory, size_t bytes)
{
    struct rank_table *table = self;
    struct handle *h = comm;
    bool own = !table->gpu.name;
    for (int i = 0; i < table->own_count; i++)
        own = own || (table->own[i].memory == memory && table->own[i].bytes == bytes);
    if (!own)
        emulated_nccl_note(table->shared, "memory is lent that no other device can reach");
    if (h->lent_count < MOST_LENT)
        h->lent[h->lent_count++] = (struct lent){ memory, bytes };
}

static bool begin(void *self, struct error *err)
{
    struct rank_table *table = self;
    if (refuses(table, is_broken(table, "begin", AT_ONCE), err))
        return false;
    pthread_mutex_lock(&table->shared->mutex);
    if (table->grouping)
        emulated_nccl_note(table->shared, "two threads of a rank called at once");
    table->grouping = true;
    table->grouper = pthread_self();
    table->failed = false;
    table->call_count = 0;
    pthread_mutex_unlock(&table->shared->mutex);
    return true;
}

static bool is_lent(const struct handle *h, const void *at)
{
    bool found = false;
    for (int i = 0; i < h->lent_count; i++)
        found = found || ((const unsigned char *)at >= h->lent[i].memory &&
                          (const unsigned char *)at < h->lent[i].memory + h->lent[i].bytes);
    return found;
}

static bool call(void *self, void *comm, void *stream, const struct comm_call *what, struct error *err)
{
    struct rank_table *table = self;
    struct handle *h = comm;
    if (table->call_count == MOST_CALLS)
        return fail_kind(err, ERROR_BUG, "emulated NCCL: too many calls in a group");
    const bool broken = is_broken(table, comm_kind_name(what->kind), AT_LENGTH);
    if (refuses(table, broken, err)) {
        table->failed = true;
        return false;
    }
    pthread_mutex_lock(&table->shared->mutex);
    spoil(table, h, broken);
    if (!table->grouping || !pthread_equal(table->grouper, pthread_self()))
        emulated_nccl_note(table->shared, "two threads of a rank called at once");
    if ((what->kind != COMM_RECEIVE && !is_lent(h, what->from)) || (what->kind != COMM_SEND && !is_lent(h, what->to)))
        emulated_nccl_note(table->shared, "a call names memory that was not lent");
    const int64_t number = gpu_emulated_captures(stream) ? -1 : emulated_nccl_number(h, what); /* of each run */
    table->calls[table->call_count++] = (struct queued){ h, stream, *what, number };
    text_printf(&table->order, "%d %s of %d; ", h->group->split, comm_kind_name(what->kind), h->group->count);
    pthread_mutex_unlock(&table->shared->mutex);
    return true;
}

/* Of a group with a call that failed nothing runs. */
static bool end(void *self, struct error *err)
{
    struct rank_table *table = self;
    const bool broken = is_broken(table, "end", table->call_count > 0 ? ON_THE_DEVICE : AT_ONCE);
    table->failed = refuses(table, broken, err) || table->failed;
    pthread_mutex_lock(&table->shared->mutex);
    if (table->failed) {
        table->grouping = false;
        pthread_mutex_unlock(&table->shared->mutex);
        return fail_kind(err, ERROR_ENVIRONMENT, "emulated NCCL: a call of the group failed");
    }
    if (table->call_count == 0) {
        table->grouping = false;
        pthread_mutex_unlock(&table->shared->mutex);
        return true;
    }
    struct batch *batch = malloc(sizeof *batch);
    size_t bytes = (size_t)table->call_count * sizeof *table->calls;
    if (!batch || !(batch->calls = malloc(bytes + 1)))
        abort();
    batch->count = table->call_count;
    batch->kept = gpu_emulated_captures(table->calls[0].stream);
    batch->never_ends = broken && table->shared->fate == CALL_NEVER_ENDS;
    memcpy(batch->calls, table->calls, bytes);
    spoil(table, batch->calls[0].handle, broken);
    bool runs = true;
    for (int i = 0; i < batch->count; i++) {
        connect_peer(batch->calls[i].handle, &batch->calls[i].call);
        batch->calls[i].handle->kept += batch->kept;
        runs = runs && !batch->calls[i].handle->failed && !batch->calls[i].handle->stays;
    }
    table->grouping = false;
    pthread_mutex_unlock(&table->shared->mutex);
    if (!runs) {
        emulated_nccl_forget(batch);
        return true;
    }
    return gpu_emulated_call(batch->calls[0].stream, emulated_nccl_run, emulated_nccl_forget, batch, err);
}

static void handle_free(struct handle *h)
{
    free(h->sent);
    free(h->received);
    free(h);
}

/* Waits for nobody, but what would wait for ever is told. */
static void leave(void *self, void *comm)
{
    struct rank_table *table = self;
    struct handle *h = comm;
    is_broken(table, "leave", 1 << CALL_HANGS);
    pthread_mutex_lock(&table->shared->mutex);
    h->group->left++;
    table->open--;
    const bool kept = h->kept > 0;
    if (kept) {
        emulated_nccl_note(table->shared, "a communicator is given back before the graph that holds its calls");
        h->next = table->aborted, table->aborted = h;
    }
    pthread_mutex_unlock(&table->shared->mutex);
    if (!kept)
        handle_free(h);
}

/* Under the mutex: until no graph holds a call of theirs, and where one never goes not for ever, as NCCL does. */
static void await_graphs(struct rank_table *table, void *const *comms, int count)
{
    enum { LONGEST_S = 5 };
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LONGEST_S;
    for (int i = 0; i < count; i++)
        while (((const struct handle *)comms[i])->kept > 0)
            if (pthread_cond_timedwait(&table->shared->changed, &table->shared->mutex, &until) != 0) {
                emulated_nccl_note(table->shared, "communicators are aborted, and a graph still holds their calls");
                return;
            }
}

/* What runs on streams still sees the handle: it stays until the table is closed. */
static void abort_comms(void *self, void *const *comms, int count, void (*let_go)(void *context), void *context)
{
    struct rank_table *table = self;
    pthread_mutex_lock(&table->shared->mutex);
    if (table->grouping)
        emulated_nccl_note(table->shared, "communicators were aborted inside a group of calls");
    for (int i = 0; i < count; i++) {
        struct handle *h = comms[i];
        h->aborted = true;
        h->next = table->aborted, table->aborted = h;
    }
    table->open -= count;
    if (table->open > 0)
        emulated_nccl_note(table->shared, "a rank aborted some of its communicators and not all");
    pthread_cond_broadcast(&table->shared->changed);
    pthread_mutex_unlock(&table->shared->mutex);
    if (let_go)
        let_go(context);
    pthread_mutex_lock(&table->shared->mutex);
    await_graphs(table, comms, count);
    pthread_mutex_unlock(&table->shared->mutex);
}

static void close_table(void *self)
{
    struct rank_table *table = self;
    for (struct handle *h = table->aborted, *next; h; h = next) {
        next = h->next;
        handle_free(h);
    }
    table->aborted = NULL;
}

/* ---- life ---- */
bool emulated_nccl_new(struct emulated_nccl **out, int rank_count, struct error *err)
{
    struct emulated_nccl *shared = calloc(1, sizeof *shared);
    if (shared) {
        shared->rank_count = rank_count;
        shared->broken_rank = shared->broken_call = -1;
        pthread_mutex_init(&shared->mutex, NULL);
        pthread_cond_init(&shared->changed, NULL);
        shared->requests = calloc((size_t)rank_count * MOST_SPLITS, sizeof *shared->requests);
        shared->ranks = calloc((size_t)rank_count, sizeof *shared->ranks);
    }
    if (!shared || !shared->requests || !shared->ranks) {
        emulated_nccl_free(shared);
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for an emulated NCCL of %d ranks", rank_count);
    }
    *out = shared;
    return true;
}

static void group_free(struct group *group)
{
    while (group->points)
        emulated_nccl_drop(group, group->points);
    for (struct message *m = group->messages, *next; m; m = next) {
        next = m->next;
        free(m);
    }
    free(group->connected);
    free(group);
}

void emulated_nccl_free(struct emulated_nccl *shared)
{
    if (!shared)
        return;
    for (struct group *group = shared->groups, *next; group; group = next) {
        next = group->next;
        group_free(group);
    }
    for (int r = 0; shared->ranks && r < shared->rank_count; r++) {
        free(shared->ranks[r].calls);
        text_free(&shared->ranks[r].order);
    }
    pthread_mutex_destroy(&shared->mutex);
    pthread_cond_destroy(&shared->changed);
    free(shared->requests);
    free(shared->ranks);
    free(shared);
}

bool emulated_nccl_open(struct nccl *out, struct emulated_nccl *shared, const struct gpu *gpu, int rank,
                        struct error *err)
{
    struct rank_table *table = &shared->ranks[rank];
    table->shared = shared, table->rank = rank;
    if (gpu)
        table->gpu = *gpu;
    table->calls = calloc(MOST_CALLS, sizeof *table->calls);
    if (!table->calls)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for an emulated NCCL");
    *out = (struct nccl){ .name = "emulated NCCL",
                          .self = table,
                          .make_id = make_id,
                          .join = join,
                          .split = split,
                          .state = state,
                          .allocate = gpu ? allocate : NULL,
                          .release = gpu ? release : NULL,
                          .lend = lend,
                          .begin = begin,
                          .call = call,
                          .end = end,
                          .abort = abort_comms,
                          .leave = leave,
                          .close = close_table };
    return true;
}

void emulated_nccl_break(struct emulated_nccl *shared, int rank, int call, enum call_fate fate)
{
    pthread_mutex_lock(&shared->mutex);
    shared->broken_rank = rank, shared->broken_call = call, shared->fate = fate;
    shared->ranks[rank].made = 0;
    pthread_mutex_unlock(&shared->mutex);
}

const char *emulated_nccl_broken(const struct emulated_nccl *shared)
{
    return shared->broken;
}

void emulated_nccl_release(struct emulated_nccl *shared)
{
    pthread_mutex_lock(&shared->mutex);
    shared->released = true;
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->mutex);
}

const char *emulated_nccl_order(const struct emulated_nccl *shared, int rank)
{
    return shared->ranks[rank].order.data ? shared->ranks[rank].order.data : "";
}

const char *emulated_nccl_misuse(const struct emulated_nccl *shared)
{
    for (const struct group *group = shared->groups; group; group = group->next)
        if (group->left > 0 && group->left < group->count)
            return "a member left a communicator that others did not leave";
    for (int r = 0; r < shared->rank_count; r++)
        if (shared->ranks[r].open > 0)
            return "a rank kept communicators";
    return shared->misuse[0] ? shared->misuse : NULL;
}
