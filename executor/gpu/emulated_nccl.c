#define _POSIX_C_SOURCE 200809L
#include "executor/gpu/emulated_nccl.h"
#include "base/text.h"
#include "executor/gpu/emulated.h"
#include "executor/stream.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MISUSE_BYTES = 256, MOST_CALLS = 4096, MOST_SPLITS = 64, MOST_LENT = 16 };
/* ---- what ranks share ---- */
/* A collective that members are at, by its number among those of the communicator. */
struct meeting_point {
    int64_t number;
    int come, gone;
    struct comm_call *calls; /* (count) by place */
    bool done;
    struct meeting_point *next;
};
struct message { /* posted by its sender, until it is taken */
    int from, to;
    int64_t number; /* among those from one place to another */
    const void *data;
    size_t bytes;
    bool taken;
    struct message *next;
};
struct group {
    struct emulated_nccl *shared;
    int left;                 /* members that have */
    int count, split, colour; /* split: which one made it; -1: the world */
    struct meeting_point *points;
    struct message *messages;
    struct group *next;
};
struct lent {
    const unsigned char *memory;
    size_t bytes;
};
struct handle { /* a rank's communicator */
    struct lent lent[MOST_LENT];
    int lent_count;
    struct group *group;
    int place;
    bool aborted, was_busy;
    int64_t collectives;      /* queued so far */
    int64_t *sent, *received; /* (count) by peer */
    /* of the world: the split under way */
    int split_count;
    void **out;
    struct handle *next; /* of those that were aborted */
};
struct request {
    int colour, key;
};
struct emulated_nccl {
    int rank_count, joined;
    pthread_mutex_t mutex; /* of everything */
    pthread_cond_t changed;
    struct group *groups;
    struct request *requests;     /* (split, rank) */
    int asked[MOST_SPLITS];       /* by how many ranks */
    struct rank_table *ranks;     /* (rank) */
    int broken_rank, broken_call; /* -1: none; a call of this rank that fails, by its number */
    char misuse[MISUSE_BYTES];
};
struct rank_table {
    struct emulated_nccl *shared;
    int rank;
    bool grouping, failed; /* failed: a call of the group did */
    pthread_t grouper;
    int call_count, made; /* of the group; of all */
    int open;             /* communicators that were neither left nor aborted */
    struct queued {
        struct handle *handle;
        void *stream;
        struct comm_call call;
        int64_t number;
    } * calls; /* (MOST_CALLS) of the group that is being made */
    struct text order;
    struct handle *aborted;
};
/* One group of calls on one stream. */
struct batch {
    int count;
    struct queued *calls;
};

static void note_misuse(struct emulated_nccl *shared, const char *what)
{
    if (!shared->misuse[0])
        snprintf(shared->misuse, sizeof shared->misuse, "%s", what);
}

static size_t bytes_of_type(enum comm_type type)
{
    return type == COMM_BYTE ? 1 : type == COMM_BF16 ? 2 : sizeof(real);
}

/* ---- collectives: whoever comes last does the work of all ---- */
static struct meeting_point *point_at(struct group *group, int64_t number)
{
    for (struct meeting_point *p = group->points; p; p = p->next)
        if (p->number == number)
            return p;
    struct meeting_point *p = calloc(1, sizeof *p);
    if (!p || !(p->calls = calloc((size_t)group->count, sizeof *p->calls)))
        abort(); /* a test without memory */
    p->number = number;
    p->next = group->points;
    group->points = p;
    return p;
}

static void drop_point(struct group *group, struct meeting_point *point)
{
    struct meeting_point **at = &group->points;
    while (*at != point)
        at = &(*at)->next;
    *at = point->next;
    free(point->calls);
    free(point);
}

/* Elements [first, first + count) of all members' sources, added in their order. */
static unsigned char *sum_of(const struct group *group, const struct comm_call *calls, size_t first, size_t count)
{
    size_t element = bytes_of_type(calls[0].type), bytes = count * element;
    unsigned char *sum = malloc(bytes + 1);
    if (!sum)
        abort();
    for (int m = 0; m < group->count; m++)
        combine_bytes(sum, (const unsigned char *)calls[m].from + first * element, bytes, element,
                      m == 0                     ? COMBINE_COPY
                      : calls[0].sum == COMM_MAX ? COMBINE_MAXIMUM
                                                 : COMBINE_ADD);
    return sum;
}

static void do_collective(const struct group *group, const struct comm_call *calls)
{
    size_t bytes = calls[0].count * bytes_of_type(calls[0].type), n = (size_t)group->count;
    unsigned char *all = NULL;
    if (calls[0].kind == COMM_ALL_GATHER) {
        if (!(all = malloc(n * bytes + 1)))
            abort();
        for (size_t m = 0; m < n; m++)
            memcpy(all + m * bytes, calls[m].from, bytes);
    } else if (calls[0].kind == COMM_BROADCAST) {
        if (!(all = malloc(bytes + 1)))
            abort();
        memcpy(all, calls[0].from, bytes);
    } else {
        all = sum_of(group, calls, 0, calls[0].count * (calls[0].kind == COMM_REDUCE_SCATTER ? n : 1));
    }
    for (size_t m = 0; m < n && (m == 0 || calls[0].kind != COMM_REDUCE); m++)
        memcpy(calls[m].to, all + (calls[0].kind == COMM_REDUCE_SCATTER ? m * bytes : 0),
               calls[0].kind == COMM_ALL_GATHER ? n * bytes : bytes);
    free(all);
}

static bool agree(const struct group *group, const struct comm_call *calls)
{
    for (int m = 1; m < group->count; m++)
        if (calls[m].kind != calls[0].kind || calls[m].type != calls[0].type || calls[m].sum != calls[0].sum ||
            calls[m].count != calls[0].count)
            return false;
    return true;
}

/* Under the mutex. */
static void meet(struct handle *h, const struct queued *q)
{
    struct group *group = h->group;
    struct meeting_point *p = point_at(group, q->number);
    p->calls[h->place] = q->call;
    if (++p->come == group->count) {
        if (agree(group, p->calls))
            do_collective(group, p->calls);
        else
            note_misuse(group->shared, "members of a communicator called different collectives");
        p->done = true;
        pthread_cond_broadcast(&group->shared->changed);
    }
    while (!p->done && !h->aborted)
        pthread_cond_wait(&group->shared->changed, &group->shared->mutex);
    if (!p->done)
        p->come--; /* its memory goes: nobody may do the work any more */
    else if (++p->gone == group->count)
        drop_point(group, p);
}

/* ---- messages ---- */
static void post(struct handle *h, const struct queued *q)
{
    struct message *m = calloc(1, sizeof *m);
    if (!m)
        abort();
    *m = (struct message){ .from = h->place,
                           .to = q->call.peer,
                           .number = q->number,
                           .data = q->call.from,
                           .bytes = q->call.count * bytes_of_type(q->call.type),
                           .next = h->group->messages };
    h->group->messages = m;
    pthread_cond_broadcast(&h->group->shared->changed);
}

static struct message *message_at(struct group *group, int from, int to, int64_t number)
{
    struct message *m = group->messages;
    while (m && (m->from != from || m->to != to || m->number != number))
        m = m->next;
    return m;
}

static void take(struct handle *h, const struct queued *q)
{
    struct message *m;
    while (!(m = message_at(h->group, q->call.peer, h->place, q->number)) && !h->aborted)
        pthread_cond_wait(&h->group->shared->changed, &h->group->shared->mutex);
    if (!m)
        return;
    if (m->bytes != q->call.count * bytes_of_type(q->call.type))
        note_misuse(h->group->shared, "a message is not as long as its receiver expects");
    else
        memcpy(q->call.to, m->data, m->bytes);
    m->taken = true;
    pthread_cond_broadcast(&h->group->shared->changed);
}

/* The sender's bytes may be overwritten when they were taken. */
static void await_taken(struct handle *h, const struct queued *q)
{
    struct message *m = message_at(h->group, h->place, q->call.peer, q->number);
    while (!m->taken && !h->aborted)
        pthread_cond_wait(&h->group->shared->changed, &h->group->shared->mutex);
    struct message **at = &h->group->messages;
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    free(m);
}

/* ---- on the stream ---- */
static void run_batch(void *context)
{
    struct batch *batch = context;
    struct emulated_nccl *shared = batch->calls[0].handle->group->shared;
    pthread_mutex_lock(&shared->mutex);
    for (int i = 0; i < batch->count; i++)
        if (batch->calls[i].call.kind == COMM_SEND && !batch->calls[i].handle->aborted)
            post(batch->calls[i].handle, &batch->calls[i]);
    for (int i = 0; i < batch->count; i++) {
        struct queued *q = &batch->calls[i];
        if (q->handle->aborted)
            continue;
        if (q->call.kind == COMM_RECEIVE)
            take(q->handle, q);
        else if (q->call.kind != COMM_SEND)
            meet(q->handle, q);
    }
    for (int i = 0; i < batch->count; i++)
        if (batch->calls[i].call.kind == COMM_SEND &&
            message_at(batch->calls[i].handle->group, batch->calls[i].handle->place, batch->calls[i].call.peer,
                       batch->calls[i].number))
            await_taken(batch->calls[i].handle, &batch->calls[i]);
    pthread_mutex_unlock(&shared->mutex);
    free(batch->calls);
    free(batch);
}

/* ---- the table ---- */
static bool make_id(void *self, unsigned char id[COMM_ID_BYTES], struct error *err)
{
    (void)err;
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
    if (!group)
        abort();
    *group =
        (struct group){ .shared = shared, .count = count, .split = split, .colour = colour, .next = shared->groups };
    shared->groups = group;
    return group;
}

static void *join(void *self, const unsigned char id[COMM_ID_BYTES], int rank, int count, struct error *err)
{
    struct rank_table *table = self;
    struct emulated_nccl *shared = table->shared, *told;
    memcpy(&told, id, sizeof told);
    if (told != shared || count != shared->rank_count || rank != table->rank) {
        fail_kind(err, ERROR_ENVIRONMENT, "emulated NCCL: the id is not that of rank 0");
        return NULL;
    }
    pthread_mutex_lock(&shared->mutex);
    if (!shared->groups)
        group_new(shared, count, -1, 0);
    struct handle *h = handle_new(shared->groups, rank);
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
    if (world->split_count == MOST_SPLITS)
        return fail_kind(err, ERROR_BUG, "emulated NCCL: too many splits");
    pthread_mutex_lock(&shared->mutex);
    shared->requests[world->split_count * shared->rank_count + table->rank] = (struct request){ colour, key };
    shared->asked[world->split_count]++;
    world->out = out;
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

/* Everything is busy once, so that nobody relies on the opposite. */
static enum comm_state state(void *self, void *comm, struct error *err)
{
    struct rank_table *table = self;
    struct handle *h = comm;
    enum comm_state result = COMM_READY;
    (void)err;
    pthread_mutex_lock(&table->shared->mutex);
    if (h->group->split == -1 && table->shared->joined < table->shared->rank_count)
        result = COMM_BUSY;
    else if (h->out && table->shared->asked[h->split_count] < table->shared->rank_count)
        result = COMM_BUSY;
    else if (h->out)
        finish_split(table, h);
    else if (!h->was_busy)
        result = COMM_BUSY;
    h->was_busy = result == COMM_BUSY;
    pthread_mutex_unlock(&table->shared->mutex);
    return result;
}

static void lend(void *self, void *comm, void *memory, size_t bytes)
{
    struct handle *h = comm;
    (void)self;
    if (h->lent_count < MOST_LENT)
        h->lent[h->lent_count++] = (struct lent){ memory, bytes };
}

static bool begin(void *self, struct error *err)
{
    struct rank_table *table = self;
    (void)err;
    pthread_mutex_lock(&table->shared->mutex);
    if (table->grouping)
        note_misuse(table->shared, "two threads of a rank called at once");
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

static int64_t number_of(struct handle *h, const struct comm_call *call)
{
    return call->kind == COMM_SEND      ? h->sent[call->peer]++
           : call->kind == COMM_RECEIVE ? h->received[call->peer]++
                                        : h->collectives++;
}

static bool call(void *self, void *comm, void *stream, const struct comm_call *what, struct error *err)
{
    struct rank_table *table = self;
    struct handle *h = comm;
    if (table->call_count == MOST_CALLS)
        return fail_kind(err, ERROR_BUG, "emulated NCCL: too many calls in a group");
    if (table->rank == table->shared->broken_rank && table->made++ == table->shared->broken_call) {
        table->failed = true;
        return fail_kind(err, ERROR_ENVIRONMENT, "emulated NCCL: %s: invalid argument", comm_kind_name(what->kind));
    }
    pthread_mutex_lock(&table->shared->mutex);
    if (!table->grouping || !pthread_equal(table->grouper, pthread_self()))
        note_misuse(table->shared, "two threads of a rank called at once");
    if ((what->kind != COMM_RECEIVE && !is_lent(h, what->from)) || (what->kind != COMM_SEND && !is_lent(h, what->to)))
        note_misuse(table->shared, "a call names memory that was not lent");
    table->calls[table->call_count++] = (struct queued){ h, stream, *what, number_of(h, what) };
    text_printf(&table->order, "%d %s of %d; ", h->group->split, comm_kind_name(what->kind), h->group->count);
    pthread_mutex_unlock(&table->shared->mutex);
    return true;
}

/* Of a group with a call that failed nothing runs. */
static bool end(void *self, struct error *err)
{
    struct rank_table *table = self;
    pthread_mutex_lock(&table->shared->mutex);
    if (table->failed) {
        table->grouping = false;
        pthread_mutex_unlock(&table->shared->mutex);
        return fail_kind(err, ERROR_ENVIRONMENT, "emulated NCCL: a call of the group failed");
    }
    struct batch *batch = malloc(sizeof *batch);
    size_t bytes = (size_t)table->call_count * sizeof *table->calls;
    if (!batch || !(batch->calls = malloc(bytes + 1)))
        abort();
    batch->count = table->call_count;
    memcpy(batch->calls, table->calls, bytes);
    table->grouping = false;
    pthread_mutex_unlock(&table->shared->mutex);
    return gpu_emulated_call(batch->calls[0].stream, run_batch, batch, err);
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
    pthread_mutex_lock(&table->shared->mutex);
    h->group->left++;
    table->open--;
    pthread_mutex_unlock(&table->shared->mutex);
    handle_free(h);
}

/* What runs on streams still sees the handle: it stays until the table is closed. */
static void abort_comms(void *self, void *const *comms, int count)
{
    struct rank_table *table = self;
    pthread_mutex_lock(&table->shared->mutex);
    if (table->grouping)
        note_misuse(table->shared, "communicators were aborted inside a group of calls");
    for (int i = 0; i < count; i++) {
        struct handle *h = comms[i];
        h->aborted = true;
        h->next = table->aborted, table->aborted = h;
    }
    table->open -= count;
    if (table->open > 0)
        note_misuse(table->shared, "a rank aborted some of its communicators and not all");
    pthread_cond_broadcast(&table->shared->changed);
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
        drop_point(group, group->points);
    for (struct message *m = group->messages, *next; m; m = next) {
        next = m->next;
        free(m);
    }
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

bool emulated_nccl_open(struct nccl *out, struct emulated_nccl *shared, int rank, struct error *err)
{
    struct rank_table *table = &shared->ranks[rank];
    table->shared = shared, table->rank = rank;
    table->calls = calloc(MOST_CALLS, sizeof *table->calls);
    if (!table->calls)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for an emulated NCCL");
    *out = (struct nccl){ .name = "emulated NCCL",
                          .self = table,
                          .make_id = make_id,
                          .join = join,
                          .split = split,
                          .state = state,
                          .lend = lend,
                          .begin = begin,
                          .call = call,
                          .end = end,
                          .abort = abort_comms,
                          .leave = leave,
                          .close = close_table };
    return true;
}

void emulated_nccl_break(struct emulated_nccl *shared, int rank, int call)
{
    shared->broken_rank = rank, shared->broken_call = call;
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
    return shared->misuse[0] ? shared->misuse : NULL;
}
