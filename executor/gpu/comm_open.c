/* Communicators, moves and connections of a rank: everything that transfers need before the first step. */
#include "executor/gpu/comm.h"
#include "executor/gpu/comm_parts.h"
#include "executor/gpu/device.h"
#include "planner/program/rendezvous.h"
#include <stdlib.h>

/* ---- communicators ---- */
/* Rank 0 makes the id and tells it to each other rank. */
static bool share_id(const struct rank *rank, unsigned char id[COMM_ID_BYTES], struct error *err)
{
    struct gpu_comm *c = comm_of(rank);
    const struct transport *t = rank->transport;
    if (rank->rank > 0)
        return t->exchange(t->self, LANE_COMPUTE, -1, NULL, 0, 0, id, COMM_ID_BYTES, err);
    gpu_comm_note_call(rank, -1, LIBRARY_JOIN, CALL_MADE);
    bool ok = c->nccl.make_id(c->nccl.self, id, err);
    gpu_comm_note_call(rank, -1, LIBRARY_JOIN, CALL_OVER);
    for (int r = 1; ok && r < t->rank_count; r++)
        ok = t->exchange(t->self, LANE_COMPUTE, r, id, COMM_ID_BYTES, -1, NULL, 0, err);
    return ok;
}

/* All ranks split the world once per round; who is in no channel of the round takes no part in what it makes. */
static bool split_round(const struct rank *rank, int round, struct error *err)
{
    struct gpu_comm *c = comm_of(rank);
    int mine = -1, place = 0;
    for (int i = 0; i < c->channels.count; i++)
        if (c->channels.list[i].round == round && channel_place(&c->channels.list[i], rank->rank) >= 0)
            mine = i;
    void *none = NULL, **out = mine >= 0 ? &c->comm[mine] : &none;
    status_beat(rank->options->status, rank->rank);
    if (mine >= 0)
        place = channel_place(&c->channels.list[mine], rank->rank);
    gpu_comm_note_call(rank, -1, LIBRARY_SPLIT, CALL_MADE);
    bool asked = c->nccl.split(c->nccl.self, c->world, mine >= 0 ? mine : COMM_NO_COLOUR, place, out, err);
    gpu_comm_note_call(rank, -1, LIBRARY_SPLIT, CALL_PENDING);
    return asked && gpu_comm_settle(rank, c->world, err) &&
           (mine < 0 || (*out && gpu_comm_settle(rank, *out, err)) ||
            fail_kind(err, ERROR_ENVIRONMENT, "%s: a split gave no communicator", c->nccl.name));
}

static bool open_channels(const struct rank *rank, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    struct gpu_comm *c = g->comm;
    unsigned char id[COMM_ID_BYTES] = { 0 };
    if (!channels_of(&c->channels, rank->program, err))
        return false;
    c->comm = calloc((size_t)c->channels.count + 1, sizeof *c->comm);
    if (!c->comm)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for %d communicators", c->channels.count);
    if (c->channels.count == 0)
        return true;
    if (!share_id(rank, id, err))
        return false;
    pthread_mutex_lock(&c->mutex);
    gpu_comm_note_call(rank, -1, LIBRARY_JOIN, CALL_MADE);
    c->world = c->nccl.join(c->nccl.self, id, rank->rank, rank->transport->rank_count, err);
    gpu_comm_note_call(rank, -1, LIBRARY_JOIN, CALL_PENDING);
    bool ok = c->world && gpu_comm_settle(rank, c->world, err);
    for (int round = 0; ok && round < c->channels.round_count; round++)
        ok = split_round(rank, round, err);
    gpu_comm_note_call(rank, -1, LIBRARY_SPLIT, CALL_OVER);
    pthread_mutex_unlock(&c->mutex);
    return ok;
}

static bool make_moves(const struct rank *rank, int index, bool measure, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    struct gpu_comm *c = g->comm;
    const struct instr *instr = &rank->program->stages[rank->stage].instrs[index];
    unsigned char *staging = measure ? g->arena : c->staging[instr->lane];
    moves_free(&c->moves[index]);
    if (!moves_of(&c->moves[index], g->geometry, &c->channels, instr, staging, false, err))
        return false;
    if (c->moves[index].staging_bytes > c->staging_bytes[instr->lane])
        c->staging_bytes[instr->lane] = c->moves[index].staging_bytes;
    return true;
}

static bool open_moves(const struct rank *rank, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    struct gpu_comm *c = g->comm;
    const struct stage_program *stage = &rank->program->stages[rank->stage];
    size_t count = (size_t)stage->instr_count + 1;
    c->moves = calloc(count, sizeof *c->moves);
    c->turn = calloc(count, sizeof *c->turn);
    c->transfer = calloc(count, sizeof *c->transfer);
    if (!c->moves || !c->turn || !c->transfer)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for the transfers of %zu instructions", count);
    for (int i = 0; i < stage->instr_count; i++) {
        if (!instr_moves_data(&stage->instrs[i]))
            continue;
        c->turn[i] = c->transfer_count;
        c->transfer[c->transfer_count++] = i;
        if (!make_moves(rank, i, true, err))
            return false;
    }
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (c->staging_bytes[lane] > 0 && !(c->staging[lane] = gpu_allocate_lent(g, c->staging_bytes[lane], err)))
            return error_within(err,
                                "rank %d: the %zu bytes that lane %s packs, beside the arena (a plan with a larger "
                                "--reserve leaves room)",
                                rank->rank, c->staging_bytes[lane], lane_names[lane]);
    for (int t = 0; t < c->transfer_count; t++)
        if (!make_moves(rank, c->transfer[t], false, err))
            return false;
    return true;
}

/* ---- the order of a graph ---- */
struct ended {
    int instr, order; /* order: so many instructions had ended before it */
};

static int compare_ended(const void *left, const void *right)
{
    const struct ended *a = left, *b = right;
    return a->order - b->order;
}

static void sort_transfers(struct gpu_comm *c, const int *order, struct ended *ended)
{
    for (int t = 0; t < c->transfer_count; t++)
        ended[t] = (struct ended){ c->transfer[t], order[c->transfer[t]] };
    qsort(ended, (size_t)c->transfer_count, sizeof *ended, compare_ended);
    for (int t = 0; t < c->transfer_count; t++) {
        c->transfer[t] = ended[t].instr;
        c->turn[ended[t].instr] = t;
    }
}

/* In a graph calls stand one behind another, whatever their lanes. In the program's order each of two neighbours may
 * send before it receives, as in 1F1B, and neither would ever end: there calls follow the order in which transfers end
 * on a device without time, which all ranks work out alike. Whatever queues CUDA chooses, and where NCCL makes the host
 * wait for other ranks too, all that a call needs comes before it on each rank. */
static bool order_transfers(const struct rank *rank, struct error *err)
{
    struct gpu_comm *c = comm_of(rank);
    const struct program *program = rank->program;
    struct arena arena = { 0 };
    struct pairing pairing;
    int **order = arena_alloc(&arena, (size_t)program->stage_count, sizeof *order);
    struct ended *ended = arena_alloc(&arena, (size_t)c->transfer_count, sizeof *ended);
    for (int s = 0; order && s < program->stage_count; s++)
        order[s] = arena_alloc(&arena, (size_t)program->stages[s].instr_count, sizeof **order);
    bool ok = arena_failed(&arena) ? fail_memory(err) : pairing_build(&pairing, program, err);
    if (ok) {
        ok = rendezvous_run(program, &pairing, false, order, err);
        pairing_free(&pairing);
    }
    if (ok)
        sort_transfers(c, order[rank->stage], ended);
    arena_free(&arena);
    return ok;
}

static bool prepare_graph(const struct rank *rank, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    return !g->keeps_steps ||
           (order_transfers(rank, err) && (g->comm->last_call = g->gpu.open_event(g->gpu.self, false, err)) != NULL);
}

/* ---- memory and connections ---- */
/* All that calls name: where one rank's memory is lent and another's is not, NCCL promises nothing. */
static void lend_memory(const struct rank *rank)
{
    struct gpu_rank *g = rank->device_state;
    struct gpu_comm *c = g->comm;
    pthread_mutex_lock(&c->mutex);
    for (int i = 0; i < c->channels.count; i++) {
        if (!c->comm[i])
            continue;
        c->nccl.lend(c->nccl.self, c->comm[i], g->arena, (size_t)rank->arena_bytes);
        for (int lane = 0; lane < LANE_COUNT; lane++)
            if (c->staging[lane])
                c->nccl.lend(c->nccl.self, c->comm[i], c->staging[lane], c->staging_bytes[lane]);
    }
    pthread_mutex_unlock(&c->mutex);
}

/* What the rank's transfers send to members and receive from them by this channel, a byte of each. Under the mutex, in
 * a group. *any: whether there was a call. */
static bool call_peers(const struct rank *rank, int channel, bool *any, struct error *err)
{
    const struct gpu_rank *g = rank->device_state;
    const struct gpu_comm *c = g->comm;
    const int count = c->channels.list[channel].count;
    bool *called = calloc(2 * (size_t)count, sizeof *called); /* (kind, member) */
    bool ok = called || fail_kind(err, ERROR_ENVIRONMENT, "no memory for %d members", count);
    for (int t = 0; ok && t < c->transfer_count; t++) {
        const struct moves *m = &c->moves[c->transfer[t]];
        for (int i = 0; ok && m->channel == channel && i < m->call_count; i++) {
            const bool receives = m->calls[i].kind == COMM_RECEIVE;
            bool *seen = &called[receives * count + m->calls[i].peer];
            if ((!receives && m->calls[i].kind != COMM_SEND) || *seen)
                continue;
            const struct comm_call byte = {
                .kind = m->calls[i].kind, .from = g->arena, .to = g->arena + 1, .count = 1, .peer = m->calls[i].peer
            };
            *seen = *any = true;
            ok = c->nccl.call(c->nccl.self, c->comm[channel], g->stream[LANE_COMPUTE], &byte, err);
        }
    }
    free(called);
    return ok;
}

static bool connect_channel(const struct rank *rank, int channel, struct error *err)
{
    const struct gpu_comm *c = comm_of(rank);
    bool any = false;
    status_beat(rank->options->status, rank->rank);
    gpu_comm_note_call(rank, -1, LIBRARY_CONNECT, CALL_MADE);
    if (!c->nccl.begin(c->nccl.self, err))
        return false;
    bool ok = call_peers(rank, channel, &any, err);
    bool ended = c->nccl.end(c->nccl.self, err);
    gpu_comm_note_call(rank, -1, LIBRARY_CONNECT, CALL_PENDING);
    return ok && ended && (!any || gpu_comm_settle(rank, c->comm[channel], err));
}

/* The first message from one rank to another makes a connection, and who sends or receives it may call nothing else
 * before the other does the same. In the order of a program that may be never: where pipelines run both ways, of two
 * neighbours each sends first. So all that will talk to each other do it here, channel by channel in the order of
 * rounds, where nobody is late for one because of another. What lies in the arena means nothing yet. */
static bool connect_channels(const struct rank *rank, struct error *err)
{
    const struct gpu_rank *g = rank->device_state;
    struct gpu_comm *c = g->comm;
    bool ok = true;
    pthread_mutex_lock(&c->mutex);
    for (int round = 0; round < c->channels.round_count; round++)
        for (int i = 0; ok && i < c->channels.count; i++)
            if (c->channels.list[i].round == round && c->comm[i])
                ok = connect_channel(rank, i, err);
    ok = gpu_comm_tell_why(c, err) && ok;
    pthread_mutex_unlock(&c->mutex);
    ok = ok && g->gpu.finish(g->gpu.self, g->stream[LANE_COMPUTE], err);
    gpu_comm_note_call(rank, -1, LIBRARY_CONNECT, CALL_OVER);
    return ok;
}

bool gpu_comm_open(struct rank *rank, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    struct gpu_comm *c = calloc(1, sizeof *c);
    if (!c)
        return fail_kind(err, ERROR_ENVIRONMENT, "rank %d: no memory for its communicators", rank->rank);
    c->nccl = g->nccl;
    c->told = -1;
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->changed, NULL);
    g->comm = c;
    if (!open_channels(rank, err) || !open_moves(rank, err) || !prepare_graph(rank, err))
        return false;
    lend_memory(rank);
    return gpu_device_warm_up(rank, err) && gpu_comm_start_watching(rank, err) && connect_channels(rank, err);
}
