/* Kernels of several communicators wait for each other on the device. They cannot stall if all ranks start them in one
 * order and all lanes' kernels find room at once: the order is the program's, which the verifier has proved, and the
 * library is told how many lanes share the device. */
#define _POSIX_C_SOURCE 200809L
#include "executor/gpu/comm.h"
#include "executor/gpu/comm_parts.h"
#include "executor/gpu/device.h"
#include "host/clock.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum { WATCH_NS = 20000000, SPIN_NS = 50000, FIRST_NAP_NS = 2000, LONGEST_NAP_NS = 1000000 };

/* ---- the end of a rank that fails ---- */
/* The oldest transfer that was queued and has not ended; -1: none, or nobody knows. Under the mutex. */
static int oldest_unfinished(const struct rank *rank)
{
    struct gpu_rank *g = rank->device_state;
    struct gpu_comm *c = g->comm;
    if (c->capturing || c->in_graph)
        return -1;
    while (c->seen < c->next && g->gpu.reached(g->gpu.self, gpu_end_event(g, c->transfer[c->seen])))
        c->seen++;
    return c->seen < c->next ? c->transfer[c->seen] : -1;
}

/* Closes the gaps in the list, which nobody reads afterwards. */
static void abort_all(const struct rank *rank)
{
    struct gpu_comm *c = comm_of(rank);
    int count = 0;
    for (int i = 0; i < c->channels.count && c->comm; i++)
        if (c->comm[i])
            c->comm[count++] = c->comm[i];
    if (c->world)
        c->comm[count++] = c->world;
    if (count > 0)
        c->nccl.abort(c->nccl.self, c->comm, count, gpu_replay_let_go, (void *)(uintptr_t)rank);
    if (c->comm)
        memset(c->comm, 0, ((size_t)c->channels.count + 1) * sizeof *c->comm);
    c->world = NULL;
}

/* Under the mutex; once. Afterwards nobody calls the library about these communicators. What a capture has of them is
 * given up by its own thread first: until then nothing runs. */
static void end(const struct rank *rank, const struct error *why)
{
    struct gpu_comm *c = comm_of(rank);
    if (c->ended)
        return;
    int instr = c->transfer_count > 0 ? oldest_unfinished(rank) : -1;
    c->ended = true;
    if (why && instr >= 0)
        fail_kind(&c->error, ERROR_ENVIRONMENT, "%s; under way was instruction %d %s", why->message, instr,
                  op_info[rank->program->stages[rank->stage].instrs[instr].op].name);
    else if (why && c->in_graph)
        fail_kind(&c->error, ERROR_ENVIRONMENT, "%s; under way was the graph of step %lld", why->message,
                  (long long)c->step + 1);
    else if (why)
        c->error = *why;
    if (!c->capturing)
        abort_all(rank);
    pthread_cond_broadcast(&c->changed);
}

static bool others_gave_up(const struct rank *rank)
{
    const struct transport *t = rank->transport;
    return t->aborted && t->aborted(t->self);
}

static void end_for_others(const struct rank *rank)
{
    struct error why = { 0 };
    fail_kind(&why, ERROR_ENVIRONMENT, "%s: the run was aborted while this rank waited for others",
              comm_of(rank)->nccl.name);
    end(rank, &why);
}

bool gpu_comm_tell_why(const struct gpu_comm *c, struct error *err)
{
    return !c->ended || fail_kind(err, c->error.kind ? c->error.kind : ERROR_ENVIRONMENT, "%s",
                                  c->error.message[0] ? c->error.message : "the communicators were closed");
}

/* ---- waiting for the library ---- */
/* Linux adds 50 us to each sleep of a thread that has not asked for less. */
static void nap(int64_t *ns)
{
    const struct timespec length = { 0, *ns };
    if (*ns == FIRST_NAP_NS)
        prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    nanosleep(&length, NULL);
    *ns = 2 * *ns < LONGEST_NAP_NS ? 2 * *ns : LONGEST_NAP_NS;
}

/* For the status page. instr: -1 before the first step. */
void gpu_comm_note_call(const struct rank *rank, int instr, enum library_call call, enum call_state state)
{
    status_note_call(rank->options->status, rank->rank, instr, call, state);
}

/* Until what was asked of the communicator is done. Under the mutex, which is free while this thread sleeps; at first
 * it does not: a call is under way within microseconds, and the lane's computations wait for the host meanwhile. */
bool gpu_comm_settle(const struct rank *rank, void *comm, struct error *err)
{
    struct gpu_comm *c = comm_of(rank);
    struct error why = { 0 };
    enum comm_state state = COMM_READY;
    const int64_t spin_until_ns = clock_now_ns() + SPIN_NS;
    for (int64_t nap_ns = FIRST_NAP_NS; !c->ended && (state = c->nccl.state(c->nccl.self, comm, &why)) == COMM_BUSY;) {
        const bool spins = clock_now_ns() < spin_until_ns;
        pthread_mutex_unlock(&c->mutex);
        if (!spins)
            nap(&nap_ns);
        pthread_mutex_lock(&c->mutex);
        if (!spins && others_gave_up(rank))
            end_for_others(rank);
    }
    if (state == COMM_FAILED)
        end(rank, &why);
    return gpu_comm_tell_why(c, err);
}

/* ---- a thread that looks after what is under way ---- */
/* The host is done with a step long before the device: what the device does is what the page shows. */
static void tell_progress(const struct rank *rank)
{
    struct gpu_rank *g = rank->device_state;
    int instr = oldest_unfinished(rank);
    int64_t progress = g->comm->seen + atomic_load(&g->queued);
    if (instr >= 0 && progress != g->comm->told)
        status_note(rank->options->status, rank->rank, g->comm->step, instr);
    g->comm->told = progress;
}

/* False: a communicator failed, which nobody else may have noticed. */
static bool look(const struct rank *rank)
{
    struct gpu_comm *c = comm_of(rank);
    struct error why = { 0 };
    if (others_gave_up(rank))
        end_for_others(rank);
    for (int i = 0; i < c->channels.count && !c->ended; i++)
        if (c->comm[i] && c->nccl.state(c->nccl.self, c->comm[i], &why) == COMM_FAILED) {
            end(rank, &why);
            return false;
        }
    if (!c->ended)
        tell_progress(rank);
    return true;
}

static void *watch(void *argument)
{
    const struct rank *rank = argument;
    struct gpu_comm *c = comm_of(rank);
    pthread_mutex_lock(&c->mutex);
    while (!c->closing) {
        struct timespec until;
        if (!c->ended && !look(rank)) {
            pthread_mutex_unlock(&c->mutex);
            rank->options->fail(rank->options->run, rank->rank, &c->error);
            pthread_mutex_lock(&c->mutex);
        }
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += WATCH_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&c->changed, &c->mutex, &until);
    }
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}

bool gpu_comm_start_watching(struct rank *rank, struct error *err)
{
    struct gpu_comm *c = comm_of(rank);
    c->watched = pthread_create(&c->watcher, NULL, watch, rank) == 0;
    return c->watched || fail_kind(err, ERROR_ENVIRONMENT, "cannot start a thread that watches over communication");
}

/* ---- a transfer ---- */
static bool run_locals(const struct rank *rank, const struct instr *instr, const struct local_moves *moves,
                       struct error *err)
{
    for (int i = 0; i < moves->count; i++)
        if (!gpu_queue_piece(rank, instr->lane, &moves->list[i], err))
            return false;
    return true;
}

/* Under the mutex. */
static bool call_library(const struct rank *rank, const struct instr *instr, const struct moves *moves,
                         struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    struct gpu_comm *c = g->comm;
    void *comm = moves->channel >= 0 ? c->comm[moves->channel] : NULL;
    const int index = (int)(instr - rank->program->stages[rank->stage].instrs);
    gpu_comm_note_call(rank, index, LIBRARY_TRANSFER, CALL_MADE);
    if (!c->nccl.begin(c->nccl.self, err)) {
        gpu_comm_note_call(rank, index, LIBRARY_TRANSFER, CALL_OVER);
        return false;
    }
    bool ok = true;
    for (int i = 0; ok && i < moves->call_count; i++)
        ok = c->nccl.call(c->nccl.self, comm, g->stream[instr->lane], &moves->calls[i], err);
    bool ended = c->nccl.end(c->nccl.self, err);
    gpu_comm_note_call(rank, index, LIBRARY_TRANSFER, CALL_PENDING);
    ok = ok && ended && gpu_comm_settle(rank, comm, err);
    gpu_comm_note_call(rank, index, LIBRARY_TRANSFER, CALL_OVER);
    return ok;
}

/* CUDA chooses which of a graph's kernels share a queue, in any order that the graph allows: a call could come to stand
 * behind another communicator's that waits for it elsewhere. So each waits for the one before it, over all lanes, and
 * transfers of different communicators do not overlap. NCCL_LAUNCH_ORDER_IMPLICIT (2.26, with drivers of CUDA 12.9)
 * would order their beginnings alone, by the host's calls, which have this order, too. */
static bool follow_last_call(const struct rank *rank, const struct instr *instr, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    const struct gpu_comm *c = g->comm;
    return g->mode != GPU_STEP_CAPTURED || !c->has_last_call ||
           g->gpu.wait(g->gpu.self, g->stream[instr->lane], c->last_call, err);
}

static bool become_last_call(const struct rank *rank, const struct instr *instr, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    struct gpu_comm *c = g->comm;
    if (g->mode != GPU_STEP_CAPTURED)
        return true;
    c->has_last_call = true;
    return g->gpu.record(g->gpu.self, g->stream[instr->lane], c->last_call, err);
}

static bool run_calls(const struct rank *rank, const struct instr *instr, const struct moves *moves, struct error *err)
{
    struct gpu_comm *c = comm_of(rank);
    if (moves->call_count == 0)
        return true;
    if (!follow_last_call(rank, instr, err))
        return false;
    pthread_mutex_lock(&c->mutex);
    bool ok = gpu_comm_tell_why(c, err) && call_library(rank, instr, moves, err);
    pthread_mutex_unlock(&c->mutex);
    return ok && become_last_call(rank, instr, err);
}

static bool run_moves(struct rank *rank, const struct instr *instr, const struct moves *moves, struct error *err)
{
    return gpu_queue_begin(rank, instr, err) && run_locals(rank, instr, &moves->before, err) &&
           run_calls(rank, instr, moves, err) && run_locals(rank, instr, &moves->after, err) &&
           gpu_queue_end(rank, instr, err);
}

static bool run_alone(struct rank *rank, const struct instr *instr, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    struct moves moves;
    bool ok = moves_of(&moves, g->geometry, &g->comm->channels, instr, g->comm->staging[instr->lane], true, err) &&
              run_moves(rank, instr, &moves, err);
    if (ok)
        moves_free(&moves);
    return ok;
}

/* The turn keeps the order. The mutex is not held while the device is given work: behind a call of the library that
 * waits for others for ever a stream fills up, then the device's functions wait, and the watcher must still come in to
 * end it.
 */
bool gpu_comm_transfer(struct rank *rank, const struct instr *instr, bool muted, struct error *err)
{
    struct gpu_comm *c = comm_of(rank);
    int index = (int)(instr - rank->program->stages[rank->stage].instrs);
    pthread_mutex_lock(&c->mutex);
    while (!c->ended && c->next != c->turn[index])
        pthread_cond_wait(&c->changed, &c->mutex);
    bool ok = gpu_comm_tell_why(c, err);
    pthread_mutex_unlock(&c->mutex);
    gpu_replay_enter(rank->device_state);
    ok = ok && (muted ? run_alone(rank, instr, err) : run_moves(rank, instr, &c->moves[index], err));
    gpu_replay_leave(rank->device_state);
    pthread_mutex_lock(&c->mutex);
    c->next++;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mutex);
    return ok;
}

int64_t gpu_comm_packed_bytes(const struct rank *rank)
{
    const struct gpu_comm *c = comm_of(rank);
    int64_t bytes = 0;
    for (int lane = 0; c && lane < LANE_COUNT; lane++)
        bytes += (int64_t)c->staging_bytes[lane];
    return bytes;
}

void gpu_comm_begin_step(struct rank *rank)
{
    const struct gpu_rank *g = rank->device_state;
    struct gpu_comm *c = g->comm;
    pthread_mutex_lock(&c->mutex);
    c->next = c->seen = 0;
    c->step = rank->step;
    c->at_rest = false;
    c->capturing = g->mode == GPU_STEP_CAPTURED;
    c->in_graph = g->mode == GPU_STEP_REPLAYED;
    c->has_last_call = false;
    pthread_mutex_unlock(&c->mutex);
}

bool gpu_comm_end_capture(struct rank *rank, struct error *err)
{
    struct gpu_comm *c = comm_of(rank);
    pthread_mutex_lock(&c->mutex);
    bool ok = gpu_comm_tell_why(c, err);
    c->capturing = !ok; /* gpu_comm_stop() aborts */
    c->in_graph = ok;
    pthread_mutex_unlock(&c->mutex);
    return ok;
}

bool gpu_comm_check(struct rank *rank, struct error *err)
{
    struct gpu_comm *c = comm_of(rank);
    pthread_mutex_lock(&c->mutex);
    bool ok = c->at_rest = gpu_comm_tell_why(c, err);
    pthread_mutex_unlock(&c->mutex);
    return ok;
}

/* ---- closing ---- */
/* Only ranks that all have come to rest leave together: who leaves alone waits for the others. */
void gpu_comm_stop(struct rank *rank)
{
    struct gpu_comm *c = comm_of(rank);
    if (!c)
        return;
    pthread_mutex_lock(&c->mutex);
    c->capturing = false;
    if (!c->at_rest || others_gave_up(rank))
        end(rank, NULL);
    if (c->ended) /* in a capture nothing was aborted */
        abort_all(rank);
    pthread_mutex_unlock(&c->mutex);
}

static void stop_watching(struct gpu_comm *c)
{
    pthread_mutex_lock(&c->mutex);
    c->closing = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mutex);
    if (c->watched)
        pthread_join(c->watcher, NULL);
}

void gpu_comm_close(struct rank *rank)
{
    struct gpu_rank *g = rank->device_state;
    struct gpu_comm *c = g->comm;
    if (!c)
        return;
    stop_watching(c);
    gpu_comm_note_call(rank, -1, LIBRARY_LEAVE, CALL_MADE);
    for (int i = 0; i < c->channels.count && c->comm; i++)
        if (c->comm[i])
            c->nccl.leave(c->nccl.self, c->comm[i]);
    if (c->world)
        c->nccl.leave(c->nccl.self, c->world);
    gpu_comm_note_call(rank, -1, LIBRARY_LEAVE, CALL_OVER);
    for (int i = 0; i < g->instr_count && c->moves; i++)
        moves_free(&c->moves[i]);
    for (int lane = 0; lane < LANE_COUNT; lane++)
        gpu_release_lent(g, c->staging[lane]);
    g->gpu.close_event(g->gpu.self, c->last_call);
    channels_free(&c->channels);
    free(c->comm);
    free(c->moves);
    free(c->turn);
    free(c->transfer);
    pthread_mutex_destroy(&c->mutex);
    pthread_cond_destroy(&c->changed);
    free(c);
    g->comm = NULL;
}
