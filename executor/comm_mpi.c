/* Ranks as processes. One communication thread makes all MPI calls, so that the lowest thread level (FUNNELED) is
 * enough and that messages progress while the lanes compute (MPI libraries make none in the background). It sleeps
 * between looks: ranks share cores. Messages of a lane travel on a communicator of their own, so lanes cannot mix. */
#define _POSIX_C_SOURCE 200809L
#include "executor/backends.h"
#include "host/parallel.h"
#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

enum { NAP_MIN_NS = 20000, NAP_MAX_NS = 200000, NAP_GROWTH_PERCENT = 25 };

/* One call of exchange; lies on the caller's stack until it is done. */
struct request {
    enum lane lane;
    int to, from;
    const void *send;
    void *receive;
    size_t send_bytes, receive_bytes;
    MPI_Request mpi[2];
    bool started, done, wrong_size;
    int error; /* MPI's, MPI_SUCCESS if fine */
    pthread_cond_t finished;
    struct request *next;
};
struct comm {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t woken;
    struct request *requests;
    bool opened, open_failed, closing, aborted;
    int rank, rank_count;
    MPI_Comm lanes[LANE_COUNT];
    struct error error; /* of opening */
};

/* ---- the communication thread ---- */
static void start(struct comm *c, struct request *r)
{
    r->started = true;
    r->mpi[0] = r->mpi[1] = MPI_REQUEST_NULL;
    if (r->send_bytes > INT_MAX || r->receive_bytes > INT_MAX) {
        r->error = MPI_ERR_COUNT;
        return;
    }
    if (r->from >= 0)
        r->error = MPI_Irecv(r->receive, (int)r->receive_bytes, MPI_BYTE, r->from, 0, c->lanes[r->lane], &r->mpi[0]);
    if (r->to >= 0 && r->error == MPI_SUCCESS)
        r->error = MPI_Isend(r->send, (int)r->send_bytes, MPI_BYTE, r->to, 0, c->lanes[r->lane], &r->mpi[1]);
}

static bool look(struct request *r)
{
    if (r->error != MPI_SUCCESS)
        return true;
    for (int i = 0; i < 2; i++) {
        if (r->mpi[i] == MPI_REQUEST_NULL)
            continue;
        int flag = 0, bytes = 0;
        MPI_Status status;
        r->error = MPI_Test(&r->mpi[i], &flag, &status);
        if (r->error != MPI_SUCCESS)
            return true;
        if (!flag)
            return false;
        if (i == 0) {
            MPI_Get_count(&status, MPI_BYTE, &bytes);
            r->wrong_size = (size_t)bytes != r->receive_bytes;
        }
    }
    return true;
}

static void give_up(struct request *r)
{
    for (int i = 0; i < 2; i++)
        if (r->started && r->mpi[i] != MPI_REQUEST_NULL) {
            MPI_Cancel(&r->mpi[i]);
            MPI_Request_free(&r->mpi[i]);
        }
}

/* One round over all requests, under the mutex. True: something happened. */
static bool progress(struct comm *c)
{
    bool moved = false;
    for (struct request **at = &c->requests; *at;) {
        struct request *r = *at;
        if (!r->started && !c->aborted) {
            start(c, r);
            moved = true;
        }
        if (c->aborted)
            give_up(r);
        if (c->aborted || look(r)) {
            *at = r->next;
            r->done = true;
            pthread_cond_signal(&r->finished);
            moved = true;
        } else {
            at = &r->next;
        }
    }
    return moved;
}

static void nap(struct comm *c, long ns)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ns;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&c->woken, &c->mutex, &until);
}

static bool mpi_fail(struct error *err, const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(code, text, &length);
    return fail_kind(err, ERROR_ENVIRONMENT, "transport mpi: %s: %s", what, text);
}

static bool start_mpi(struct comm *c)
{
    int provided, flag = 0;
    MPI_Initialized(&flag);
    if (flag)
        return fail_kind(&c->error, ERROR_BUG, "transport mpi: MPI was started before");
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    if (code != MPI_SUCCESS)
        return mpi_fail(&c->error, "MPI_Init_thread", code);
    if (provided < MPI_THREAD_FUNNELED)
        return fail_kind(&c->error, ERROR_ENVIRONMENT, "transport mpi: the MPI library does not support threads");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &c->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &c->rank_count);
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if ((code = MPI_Comm_dup(MPI_COMM_WORLD, &c->lanes[lane])) != MPI_SUCCESS)
            return mpi_fail(&c->error, "MPI_Comm_dup", code);
    return true;
}

static void *comm_main(void *argument)
{
    struct comm *c = argument;
#ifdef __linux__
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); /* naps are shorter than the usual slack of 50 us */
#endif
    bool ok = start_mpi(c);
    pthread_mutex_lock(&c->mutex);
    c->opened = ok, c->open_failed = !ok;
    pthread_cond_broadcast(&c->woken);
    long ns = NAP_MIN_NS;
    while (ok && !c->closing) {
        if (progress(c))
            ns = NAP_MIN_NS;
        if (!c->requests && !c->closing) {
            pthread_cond_wait(&c->woken, &c->mutex);
            ns = NAP_MIN_NS;
        } else if (!c->closing) {
            nap(c, ns);
            ns = ns < NAP_MAX_NS ? ns + ns * NAP_GROWTH_PERCENT / 100 : NAP_MAX_NS;
        }
    }
    bool finalize = ok && !c->aborted; /* after an abort others may never come: the launcher ends them */
    pthread_mutex_unlock(&c->mutex);
    if (finalize) {
        for (int lane = 0; lane < LANE_COUNT; lane++)
            MPI_Comm_free(&c->lanes[lane]);
        MPI_Finalize();
    }
    return NULL;
}

/* ---- the lanes' side ---- */
static bool exchange(void *self, enum lane lane, int to, const void *send, size_t send_bytes, int from, void *receive,
                     size_t receive_bytes, struct error *err)
{
    struct comm *c = self;
    struct request r = { .lane = lane,
                         .to = to,
                         .from = from,
                         .send = send,
                         .receive = receive,
                         .send_bytes = send_bytes,
                         .receive_bytes = receive_bytes,
                         .error = MPI_SUCCESS,
                         .finished = PTHREAD_COND_INITIALIZER };
    if (to < 0 && from < 0)
        return true;
    pthread_mutex_lock(&c->mutex);
    struct request **at = &c->requests;
    while (*at)
        at = &(*at)->next;
    *at = &r;
    pthread_cond_signal(&c->woken);
    while (!r.done)
        pthread_cond_wait(&r.finished, &c->mutex);
    bool aborted = c->aborted;
    pthread_mutex_unlock(&c->mutex);
    pthread_cond_destroy(&r.finished);
    if (aborted)
        return fail_kind(err, ERROR_ENVIRONMENT,
                         "transport mpi: the run was aborted while this rank waited for another");
    if (r.error != MPI_SUCCESS)
        return mpi_fail(err, "a transfer failed", r.error);
    return !r.wrong_size ||
           fail_kind(err, ERROR_ENVIRONMENT, "transport mpi: expected %zu bytes from rank %d, found another size",
                     receive_bytes, from);
}

static void abort_comm(void *self)
{
    struct comm *c = self;
    pthread_mutex_lock(&c->mutex);
    c->aborted = true;
    pthread_cond_signal(&c->woken);
    pthread_mutex_unlock(&c->mutex);
}

static void close_comm(void *self)
{
    struct comm *c = self;
    pthread_mutex_lock(&c->mutex);
    c->closing = true;
    pthread_cond_signal(&c->woken);
    pthread_mutex_unlock(&c->mutex);
    pthread_join(c->thread, NULL);
    pthread_cond_destroy(&c->woken);
    pthread_mutex_destroy(&c->mutex);
    free(c);
}

transport_module_open cleave_transport_open;
bool cleave_transport_open(struct transport *out, struct error *err)
{
    struct comm *c = calloc(1, sizeof *c);
    if (!c)
        return fail_kind(err, ERROR_ENVIRONMENT, "transport mpi: out of memory");
    pthread_mutex_init(&c->mutex, NULL);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&c->woken, &clock);
    pthread_condattr_destroy(&clock);
    if (!thread_start(&c->thread, comm_main, c, "transport mpi", err)) {
        pthread_cond_destroy(&c->woken);
        pthread_mutex_destroy(&c->mutex);
        free(c);
        return false;
    }
    pthread_mutex_lock(&c->mutex);
    while (!c->opened && !c->open_failed)
        pthread_cond_wait(&c->woken, &c->mutex);
    bool opened = c->opened;
    pthread_mutex_unlock(&c->mutex);
    if (!opened) {
        fail_with(err, &c->error);
        close_comm(c);
        return false;
    }
    *out = (struct transport){ .name = "mpi",
                               .rank = c->rank,
                               .rank_count = c->rank_count,
                               .self = c,
                               .exchange = exchange,
                               .abort = abort_comm,
                               .close = close_comm };
    return true;
}
