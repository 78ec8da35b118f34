/* Calls in their turn on the streams: they wait for the other members, and whoever comes last does the work. */
#define _POSIX_C_SOURCE 200809L
#include "executor/real.h"
#include "executor/stream.h"
#include "tests/emulated/emulated_nccl_parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void emulated_nccl_note(struct emulated_nccl *shared, const char *what)
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

void emulated_nccl_drop(struct group *group, struct meeting_point *point)
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
            emulated_nccl_note(group->shared, "members of a communicator called different collectives");
        p->done = true;
        pthread_cond_broadcast(&group->shared->changed);
    }
    while (!p->done && !h->aborted)
        pthread_cond_wait(&group->shared->changed, &group->shared->mutex);
    if (!p->done)
        p->come--; /* its memory goes: nobody may do the work any more */
    else if (++p->gone == group->count)
        emulated_nccl_drop(group, p);
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
        emulated_nccl_note(h->group->shared, "a message is not as long as its receiver expects");
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
int64_t emulated_nccl_number(struct handle *h, const struct comm_call *call)
{
    return call->kind == COMM_SEND      ? h->sent[call->peer]++
           : call->kind == COMM_RECEIVE ? h->received[call->peer]++
                                        : h->collectives++;
}

void emulated_nccl_forget(void *context)
{
    struct batch *batch = context;
    struct emulated_nccl *shared = batch->calls[0].handle->group->shared;
    pthread_mutex_lock(&shared->mutex);
    for (int i = 0; i < batch->count; i++)
        batch->calls[i].handle->kept -= batch->kept;
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->mutex);
    free(batch->calls);
    free(batch);
}

void emulated_nccl_run(void *context)
{
    struct batch *batch = context;
    struct emulated_nccl *shared = batch->calls[0].handle->group->shared;
    pthread_mutex_lock(&shared->mutex);
    for (int i = 0; i < batch->count && batch->kept; i++)
        batch->calls[i].number = emulated_nccl_number(batch->calls[i].handle, &batch->calls[i].call);
    while (batch->never_ends && !batch->calls[0].handle->aborted)
        pthread_cond_wait(&shared->changed, &shared->mutex);
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
}
