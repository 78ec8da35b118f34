/* A device with a virtual clock. An instruction starts when its lane is free and its waits have finished. Most cannot
 * be disturbed: when they end is known as soon as their start is, so ranks run ahead of each other as far as all that
 * they wait for is known. What shares links, or is slowed by what runs beside it, begins and ends as time passes: it
 * advances from one such moment to the next, once nobody can run ahead any more. Nothing is found to start before the
 * present moment, as it would have been found before; so the result is a fixed point and does not depend on the order
 * of the ranks.
 *
 * A SEND and its RECEIVE begin when both have come, and take both lanes for the cost: waiting before that is idle time.
 * The host issues the rank's list in its order, as long as it takes for each; nothing starts before that. Whoever sends
 * more than fits into what a transport buffers waits for who receives it. Collectives inside a stage have one
 * representative and begin at once. NORM_REDUCE begins on all stages when the last has come and takes the longest of
 * their costs. A step of MAX_TIME_NS or more has ended there, without spans. */
#include "planner/sim/simulate.h"
#include "base/num.h"
#include "planner/program/pairing.h"
#include "planner/sim/fluid.h"
#include "planner/program/machine.h"
#include "planner/program/stall.h"
#include <stdlib.h>
#include <string.h>

/* WAITING: since start_ns, for partners; COMING: it starts or started at start_ns; KNOWN: it is known when it ends. */
enum state { STATE_NEW, STATE_WAITING, STATE_COMING, STATE_KNOWN };
enum { NOTHING = -1 };

/* A slow-down as a fraction: work shrinks by `alone` units per ns, beside the other kind by `beside`; 1/1: exact. */
struct rate {
    int64_t alone, beside;
};

__extension__ typedef __int128 wide;

/* What runs on a lane, or will, of what can be disturbed. */
struct work {
    int64_t begin_ns;
    int64_t left;                 /* units */
    int64_t then;                 /* after the latency: units that pass links */
    int64_t part;                 /* done of the next unit, of LINK_WHOLE */
    int speed;                    /* of LINK_WHOLE: what links let it */
    const struct link_uses *uses; /* joined when the latency is over */
};
struct sim_rank {
    struct sim *sim;
    struct machine machine;
    struct rate compute, communication;
    struct span *spans; /* (instructions) */
    struct span *issued,
        host;              /* (instructions) since when the host issues without a wait, and when it has issued it; */
    int issued_count;      /* NULL: always in time. Of how many that is known, and the last of these */
    uint8_t *state;        /* (instructions) enum state */
    int busy[LANE_COUNT];  /* the instruction on the lane of which the end is not known, or NOTHING */
    int until[LANE_COUNT]; /* of a lane that is closed: the instruction whose end, once known, opens it */
    int64_t free_ns[LANE_COUNT];  /* when all before it on the lane has ended */
    unsigned slowed;              /* mask of the lanes whose work is slowed by what runs beside it */
    unsigned coming, running;     /* masks of the lanes whose work will begin, and is under way */
    struct work work[LANE_COUNT]; /* of what runs there */
    int64_t settled_ns;           /* as of this moment */
    bool dirty;
};
/* The norm-reduces of all stages that belong together meet here. */
struct meeting {
    int arrived;
    int64_t begin_ns, longest_ns;
};
struct sim {
    struct arena arena;
    const struct program *program;
    const struct durations *durations;
    const struct pairing *pairing;
    struct sim_rank *ranks;   /* (stages) */
    struct fluid fluid;       /* slots: (stages, lanes) */
    struct meeting *meetings; /* (norm-reduces) */
    int *dirty, dirty_count;  /* (stages) ranks to step */
    /* A tree: leaves are ranks, when the next work of each begins or a part of it ends, INT64_MAX none; each node knows
     * what comes first below it, the first of them, 1, of all. */
    int64_t *next_ns; /* (2 * leaf_count) */
    int leaf_count;
    int64_t now_ns, end_ns; /* end_ns: of what has one so far */
    uint64_t draws;
    bool too_long; /* something begins or ends at MAX_TIME_NS or later */
};

static struct rate rate_of(double factor)
{
    int64_t thousandths = factor > 1 ? (int64_t)(factor * 1000 + 0.5) : 1000;
    int64_t common = common_divisor(thousandths, 1000);
    return (struct rate){ thousandths / common, 1000 / common };
}

/* ---- tree of ranks by their next moment ---- */
static void set_next(struct sim *sim, int rank, int64_t next_ns)
{
    int node = sim->leaf_count + rank;
    for (int64_t least = next_ns; node && sim->next_ns[node] != least; node /= 2) {
        sim->next_ns[node] = least;
        least = min_i64(least, sim->next_ns[node ^ 1]);
    }
}

/* Gives the first of the ranks whose next moment comes first. */
static int soonest(const struct sim *sim)
{
    int node = 1;
    while (node < sim->leaf_count)
        node = 2 * node + (sim->next_ns[2 * node] != sim->next_ns[1]);
    return node - sim->leaf_count;
}

/* ---- progress of what runs on a rank ---- */
enum {
    MASK_COMPUTE = 1 << LANE_COMPUTE,
    MASK_COMMUNICATION = ((1 << LANE_COUNT) - 1) & ~(MASK_COMPUTE | 1 << LANE_COPY_IN | 1 << LANE_COPY_OUT)
};

/* Gives how fast a lane is while those of the mask run. */
static int64_t lane_rate(const struct sim_rank *rank, int lane, unsigned running)
{
    if (lane == LANE_COMPUTE)
        return running & MASK_COMMUNICATION ? rank->compute.beside : rank->compute.alone;
    if (MASK_COMMUNICATION >> lane & 1)
        return running & MASK_COMPUTE ? rank->communication.beside : rank->communication.alone;
    return 1;
}

static int64_t wait_ns(const struct work *work, int64_t rate)
{
    if (work->speed == LINK_WHOLE)
        return ceil_div(max_i64(0, work->left), rate);
    wide left = (wide)work->left * LINK_WHOLE - work->part, each = (wide)rate * work->speed;
    wide wait = (left + each - 1) / each;
    return left <= 0 ? 0 : wait < MAX_TIME_NS ? (int64_t)wait : MAX_TIME_NS;
}

/* Brings all work up to now. Must run before the set of running instructions or a speed changes. */
static void settle(struct sim_rank *rank)
{
    int64_t passed = rank->sim->now_ns - rank->settled_ns;
    for (unsigned left = passed > 0 ? rank->running : 0; left; left &= left - 1) {
        int lane = __builtin_ctz(left);
        struct work *work = &rank->work[lane];
        int64_t units = passed * lane_rate(rank, lane, rank->running);
        if (work->speed == LINK_WHOLE) {
            work->left -= units;
            continue;
        }
        wide done = (wide)units * work->speed + work->part;
        work->left -= (int64_t)(done / LINK_WHOLE);
        work->part = (int64_t)(done % LINK_WHOLE);
    }
    rank->settled_ns = rank->sim->now_ns;
}

static void find_next(struct sim_rank *rank, int index)
{
    int64_t next_ns = INT64_MAX;
    for (unsigned left = rank->coming; left; left &= left - 1)
        next_ns = min_i64(next_ns, rank->work[__builtin_ctz(left)].begin_ns);
    for (unsigned left = rank->running; left; left &= left - 1) {
        int lane = __builtin_ctz(left);
        int64_t wait = wait_ns(&rank->work[lane], lane_rate(rank, lane, rank->running));
        next_ns = min_i64(next_ns, rank->sim->now_ns + wait);
    }
    set_next(rank->sim, index, next_ns);
}

static void mark(struct sim *sim, int rank)
{
    if (!sim->ranks[rank].dirty)
        sim->dirty[sim->dirty_count++] = rank;
    sim->ranks[rank].dirty = true;
}

static int slot_of(int stage, int lane)
{
    return stage * LANE_COUNT + lane;
}

/* Notes when the instruction ends; of a SEND its partner ends with it. */
static void know_end(struct sim *sim, int stage, int index, int64_t finish_ns)
{
    struct sim_rank *rank = &sim->ranks[stage];
    const struct instr *instr = &sim->program->stages[stage].instrs[index];
    rank->spans[index].finish_ns = finish_ns;
    rank->state[index] = STATE_KNOWN;
    rank->busy[instr->lane] = NOTHING;
    rank->free_ns[instr->lane] = finish_ns;
    sim->end_ns = max_i64(sim->end_ns, finish_ns);
    for (unsigned left = rank->machine.closed; left; left &= left - 1)
        if (rank->until[__builtin_ctz(left)] == index)
            rank->machine.closed &= ~(left & -left);
    if (instr->op == OP_SEND) {
        mark(sim, instr->peer_stage);
        know_end(sim, instr->peer_stage, sim->pairing->partner[stage][index], finish_ns);
    }
}

static const struct link_uses *uses_of(const struct sim *sim, int stage, const struct instr *instr)
{
    const struct durations *d = sim->durations;
    return d->links ? d->links(d->self, sim->program, stage, instr) : NULL;
}

/* Ends what is to be done, or goes on behind the latency. */
static void end_part(struct sim *sim, int stage, int lane)
{
    struct work *work = &sim->ranks[stage].work[lane];
    if (work->then > 0) {
        work->left += work->then;
        work->then = 0;
        fluid_join(&sim->fluid, slot_of(stage, lane), work->uses);
    }
    if (work->left <= 0) {
        struct sim_rank *rank = &sim->ranks[stage];
        if (work->uses)
            fluid_leave(&sim->fluid, slot_of(stage, lane));
        rank->running &= ~(1u << lane);
        mark(sim, stage);
        know_end(sim, stage, rank->busy[lane], sim->now_ns);
    }
}

/* Starts the instruction at the moment, which is not before the present one. */
static bool run(struct sim *sim, int stage, int index, int64_t start_ns, int64_t ns)
{
    struct sim_rank *rank = &sim->ranks[stage];
    const struct instr *instr = &sim->program->stages[stage].instrs[index];
    const struct link_uses *uses = uses_of(sim, stage, instr);
    enum lane lane = instr->lane;
    int64_t alone = lane_rate(rank, (int)lane, 0), units = 0;
    sim->too_long = sim->too_long || start_ns >= MAX_TIME_NS || !mul_i64(&units, min_i64(ns, MAX_TIME_NS), alone);
    if (sim->too_long)
        return false;
    bool shares = uses && uses->latency_ns < ns && fluid_shares(&sim->fluid, uses);
    rank->spans[index].start_ns = start_ns;
    if (!shares && !(rank->slowed >> lane & 1)) {
        know_end(sim, stage, index, start_ns + units);
        return true;
    }
    rank->busy[lane] = index;
    rank->state[index] = STATE_COMING;
    rank->work[lane] = (struct work){ .begin_ns = start_ns, .left = units, .speed = LINK_WHOLE };
    if (shares) {
        rank->work[lane].uses = uses;
        rank->work[lane].left = uses->latency_ns * alone;
        rank->work[lane].then = units - uses->latency_ns * alone;
    }
    settle(rank);
    *(start_ns == sim->now_ns ? &rank->running : &rank->coming) |= 1u << lane;
    find_next(rank, stage);
    return true;
}

static int64_t duration(const struct sim *sim, int stage, int index)
{
    return sim->durations->ns(sim->durations->self, sim->program, stage, &sim->program->stages[stage].instrs[index]);
}

static void wait_for_partner(struct sim *sim, int stage, int index, int64_t since_ns)
{
    struct sim_rank *rank = &sim->ranks[stage];
    rank->busy[sim->program->stages[stage].instrs[index].lane] = index;
    rank->state[index] = STATE_WAITING;
    rank->spans[index].start_ns = since_ns;
}

/* Begins the transfer as soon as both ends have come. */
static bool issue_end(struct sim *sim, int stage, int index, const struct instr *instr, int64_t come_ns)
{
    int partner = sim->pairing->partner[stage][index], peer = instr->peer_stage;
    int from = instr->op == OP_SEND ? stage : peer, send = from == stage ? index : partner;
    struct span *own = &sim->ranks[stage].spans[index], *other = &sim->ranks[peer].spans[partner];
    wait_for_partner(sim, stage, index, come_ns);
    if (sim->ranks[peer].state[partner] != STATE_WAITING)
        return true;
    own->start_ns = other->start_ns = max_i64(come_ns, other->start_ns);
    mark(sim, peer);
    return run(sim, from, send, own->start_ns, duration(sim, from, send));
}

static bool issue_norm(struct sim *sim, int stage, int index, int64_t come_ns)
{
    int norm = sim->pairing->partner[stage][index];
    struct meeting *meeting = &sim->meetings[norm];
    meeting->longest_ns = max_i64(meeting->longest_ns, duration(sim, stage, index));
    meeting->begin_ns = max_i64(meeting->begin_ns, come_ns);
    wait_for_partner(sim, stage, index, come_ns);
    if (++meeting->arrived < sim->program->stage_count)
        return true;
    for (int s = 0; s < sim->program->stage_count; s++) {
        if (!run(sim, s, sim->pairing->norm[s][norm], meeting->begin_ns, meeting->longest_ns))
            return false;
        mark(sim, s);
    }
    return true;
}

/* Finds the moment at which the host has issued the instruction: behind those before it in the list, and behind what it
 * waits for: the one before, or the messages that are read. Gives the one of these whose end is not known; or NOTHING.
 */
static int find_issued(struct sim_rank *rank, int index)
{
    const struct durations *d = rank->sim->durations;
    const struct stage_program *list = &rank->sim->program->stages[rank->machine.stage];
    for (int at; rank->issued && (at = rank->issued_count) <= index; rank->issued_count++) {
        const struct instr *instr = &list->instrs[at];
        struct host_issue issue = d->issue(d->self, rank->sim->program, rank->machine.stage, instr);
        for (int i = at > 0 ? -1 : 0; i < instr->wait_count; i++) {
            int other = i < 0 ? at - 1 : list->waits[instr->wait_first + i];
            enum op op = list->instrs[other].op;
            if (i < 0 ? issue.waits != HOST_WAITS_FOR_ALL || op_info[op].traffic == TRAFFIC_MESSAGE
                      : issue.waits == HOST_WAITS_FOR_NOTHING || op != OP_RECEIVE)
                continue;
            if (rank->state[other] != STATE_KNOWN)
                return other;
            if (rank->spans[other].finish_ns > rank->host.finish_ns)
                rank->host = (struct span){ rank->spans[other].finish_ns, rank->spans[other].finish_ns };
        }
        rank->host.finish_ns += issue.ns;
        rank->issued[at] = rank->host;
    }
    return NOTHING;
}

/* Closes the lane until the end of the other instruction is known. */
static enum issue block(struct sim_rank *rank, enum lane lane, int until)
{
    rank->until[lane] = until;
    return ISSUE_BLOCKED;
}

static enum issue issue(void *self, int global_rank, int index, const struct instr *instr)
{
    struct sim_rank *rank = self;
    struct sim *sim = rank->sim;
    int stage = rank->machine.stage;
    const int *waits = sim->program->stages[stage].waits + instr->wait_first;
    (void)global_rank;
    int until = rank->busy[instr->lane] != NOTHING ? rank->busy[instr->lane] : find_issued(rank, index);
    if (until != NOTHING)
        return block(rank, instr->lane, until);
    int64_t start_ns = max_i64(rank->free_ns[instr->lane], rank->issued ? rank->issued[index].finish_ns : 0);
    for (int i = 0; i < instr->wait_count; i++) {
        if (rank->state[waits[i]] != STATE_KNOWN)
            return block(rank, instr->lane, waits[i]);
        start_ns = max_i64(start_ns, rank->spans[waits[i]].finish_ns);
    }
    bool taken = instr_is_message(instr)       ? issue_end(sim, stage, index, instr, start_ns)
                 : instr->op == OP_NORM_REDUCE ? issue_norm(sim, stage, index, start_ns)
                                               : run(sim, stage, index, start_ns, duration(sim, stage, index));
    return taken ? ISSUE_TAKEN : ISSUE_FAILED;
}

static const struct machine_device virtual_device = { .name = "virtual", .issue = issue, .opens = true };

/* Takes what only the first step does as done. */
static void skip_opening(struct sim_rank *rank, int64_t begin_ns)
{
    int opening = program_opening_count(&rank->sim->program->stages[rank->machine.stage]);
    if (opening == 0)
        return;
    machine_skip_opening(&rank->machine);
    rank->issued_count = opening;
    memset(rank->state, STATE_KNOWN, (size_t)opening);
    for (int i = 0; i < opening; i++)
        rank->spans[i].start_ns = rank->spans[i].finish_ns = begin_ns;
}

/* Opens the links, of which some can be shared. */
static bool open_links(struct sim *sim)
{
    const struct program *program = sim->program;
    if (!sim->durations->links)
        return true;
    if (!fluid_open(&sim->fluid, &sim->arena, program->stage_count * LANE_COUNT, sim->durations->link_count))
        return false;
    for (int s = 0; s < program->stage_count; s++)
        for (int i = 0; i < program->stages[s].instr_count; i++) {
            const struct instr *instr = &program->stages[s].instrs[i];
            const struct link_uses *uses = uses_of(sim, s, instr);
            if (uses && !fluid_announce(&sim->fluid, slot_of(s, (int)instr->lane), uses))
                return false;
        }
    return true;
}

/* Opens the simulation; begin_ns: (stages). */
static bool sim_open(struct sim *sim, const int64_t *begin_ns, struct timeline *timeline)
{
    const struct program *program = sim->program;
    size_t stages = (size_t)program->stage_count, norms = (size_t)sim->pairing->norm_count;
    sim->ranks = arena_alloc(&sim->arena, stages, sizeof *sim->ranks);
    sim->dirty = arena_alloc(&sim->arena, stages, sizeof *sim->dirty);
    for (sim->leaf_count = 1; sim->leaf_count < program->stage_count;)
        sim->leaf_count *= 2;
    sim->next_ns = arena_alloc(&sim->arena, 2 * (size_t)sim->leaf_count, sizeof *sim->next_ns);
    sim->meetings = arena_alloc(&sim->arena, norms, sizeof *sim->meetings);
    timeline->ranks = arena_alloc(&timeline->arena, stages, sizeof *timeline->ranks);
    timeline->rank_count = program->stage_count;
    if (arena_failed(&sim->arena) || !timeline->ranks || !open_links(sim))
        return false;
    for (int node = 0; node < 2 * sim->leaf_count; node++)
        sim->next_ns[node] = INT64_MAX;
    for (int s = 0; s < program->stage_count; s++) {
        struct sim_rank *rank = &sim->ranks[s];
        int count = program->stages[s].instr_count, first = program->plan->stages[s].first_rank;
        *rank = (struct sim_rank){ .sim = sim };
        const struct durations *d = sim->durations;
        double compute = d->compute_under_communication, communication = d->communication_under_compute;
        if (d->slow_down)
            d->slow_down(d->self, program, s, &compute, &communication);
        rank->compute = rate_of(compute);
        rank->communication = rate_of(communication);
        if (rank->compute.alone != rank->compute.beside || rank->communication.alone != rank->communication.beside)
            rank->slowed = MASK_COMPUTE | MASK_COMMUNICATION;
        timeline->slows |= rank->slowed != 0;
        machine_init(&rank->machine, program, first, &virtual_device, rank);
        for (int lane = 0; lane < LANE_COUNT; lane++) {
            rank->busy[lane] = NOTHING;
            rank->free_ns[lane] = begin_ns[s];
        }
        rank->state = arena_alloc(&sim->arena, (size_t)count, sizeof *rank->state);
        rank->spans = arena_alloc(&timeline->arena, (size_t)count, sizeof *rank->spans);
        if (d->issue)
            rank->issued = arena_alloc(&timeline->arena, (size_t)count, sizeof *rank->issued);
        if (!rank->state || !rank->spans || (d->issue && !rank->issued))
            return false;
        rank->host = (struct span){ begin_ns[s], begin_ns[s] };
        skip_opening(rank, begin_ns[s]);
        sim->end_ns = max_i64(sim->end_ns, begin_ns[s]);
        timeline->ranks[s] = (struct rank_timeline){ .rank = first,
                                                     .stage = s,
                                                     .span_count = count,
                                                     .spans = rank->spans,
                                                     .issued = rank->issued,
                                                     .peak_bytes = program->stages[s].arena_bytes };
        mark(sim, s);
    }
    timeline->shares = sim->fluid.any;
    return true;
}

/* Steps every rank that may go on. */
static bool step_ready(struct sim *sim)
{
    while (sim->dirty_count) {
        int place = (int)(mix64(sim->durations->order + sim->draws++) % (uint64_t)sim->dirty_count);
        int stage = sim->dirty[place];
        struct sim_rank *rank = &sim->ranks[stage];
        sim->dirty[place] = sim->dirty[--sim->dirty_count];
        rank->dirty = false;
        if (machine_step(&rank->machine) == STEP_FAILED)
            return false;
    }
    return true;
}

/* Divides links anew when all that is under way is known. */
static void share_links(struct sim *sim)
{
    fluid_share(&sim->fluid);
    for (int i = 0; i < sim->fluid.changed_count; i++) {
        int slot = sim->fluid.changed[i], stage = slot / LANE_COUNT;
        settle(&sim->ranks[stage]);
        sim->ranks[stage].work[slot % LANE_COUNT].speed = sim->fluid.slots[slot].speed;
        find_next(&sim->ranks[stage], stage);
    }
}

/* Advances to the next moment, at which all that is due begins and ends; false when nothing more does. */
static bool advance(struct sim *sim)
{
    int64_t next = sim->now_ns = sim->next_ns[1];
    sim->too_long = next >= MAX_TIME_NS && next < INT64_MAX;
    if (next >= MAX_TIME_NS)
        return false;
    while (sim->next_ns[1] == next) {
        int stage = soonest(sim);
        struct sim_rank *rank = &sim->ranks[stage];
        settle(rank);
        for (unsigned left = rank->coming; left; left &= left - 1) {
            unsigned lane = left & -left;
            if (rank->work[__builtin_ctz(left)].begin_ns == next)
                rank->running |= lane, rank->coming &= ~lane;
        }
        for (unsigned left = rank->running; left; left &= left - 1) {
            int lane = __builtin_ctz(left);
            if (rank->work[lane].left <= 0)
                end_part(sim, stage, lane);
        }
        find_next(rank, stage);
    }
    return true;
}

static bool is_done(const void *self, int stage, int index)
{
    const struct sim *sim = self;
    return sim->ranks[stage].state[index] == STATE_KNOWN;
}

/* Simulates one step, each stage from its own moment on. */
static bool simulate_step(struct timeline **out, const struct durations *durations, const struct program *program,
                          const int64_t *begin_ns, struct error *err)
{
    struct pairing own = { 0 };
    struct sim sim = { .program = program,
                       .durations = durations,
                       .pairing = durations->pairing ? durations->pairing : &own };
    if (!durations->pairing && !pairing_build(&own, program, err))
        return false;
    struct timeline *timeline = calloc(1, sizeof *timeline);
    bool ok = (timeline && sim_open(&sim, begin_ns, timeline)) || fail_memory(err);
    for (bool more = ok; more;) {
        ok = step_ready(&sim);
        if (ok && sim.next_ns[1] > sim.now_ns) /* else more begins at this very moment */
            share_links(&sim);
        more = ok && advance(&sim);
    }
    bool done = true;
    for (int s = 0; ok && s < program->stage_count; s++)
        for (int i = 0; i < program->stages[s].instr_count; i++)
            done &= is_done(&sim, s, i);
    sim.too_long |= sim.end_ns >= MAX_TIME_NS;
    for (int s = 0; sim.too_long && s < program->stage_count; s++)
        timeline->ranks[s].span_count = 0;
    ok = sim.too_long || (ok && (done || stall_fail(program, sim.pairing, is_done, &sim, err)));
    if (ok) {
        timeline->origin = TIMELINE_SIMULATED;
        timeline->step_ns = sim.too_long ? MAX_TIME_NS : sim.end_ns;
        *out = timeline;
        timeline = NULL;
    }
    timeline_free(timeline);
    pairing_free(&own);
    arena_free(&sim.arena);
    return ok;
}

/* ---- steps that run into each other ---- */
/* Simulates step after step until they repeat: the next begins on each stage where this one ended, the first of them at
 * 0, and where nothing has changed against this one all further ones are like it. Where they take turns in lasting a
 * little longer and shorter, it takes some steps more. */
static bool simulate_steady(struct timeline **out, const struct durations *durations, const struct program *program,
                            int64_t *begin_ns, int64_t *end_ns, struct error *err)
{
    int stages = program->stage_count, most = 2 * stages + 4;
    struct timeline *timeline = NULL;
    bool same = false;
    for (int i = 0; i < most && !same && (!timeline || timeline->step_ns < MAX_TIME_NS); i++) {
        int64_t longest = 0;
        timeline_free(timeline);
        timeline = NULL;
        if (!simulate_step(&timeline, durations, program, begin_ns, err))
            return false;
        /* from each stage's own beginning on, all stages' steps are as long as a step lasts */
        for (int s = 0; s < stages; s++) {
            end_ns[s] = 0;
            for (int k = 0; k < timeline->ranks[s].span_count; k++) {
                struct span *span = &timeline->ranks[s].spans[k];
                end_ns[s] = max_i64(end_ns[s], span->finish_ns);
                span->start_ns -= begin_ns[s];
                span->finish_ns -= begin_ns[s];
                struct span *issued =
                    timeline->ranks[s].issued ? &timeline->ranks[s].issued[k] : &(struct span){ 0, 0 };
                *issued = (struct span){ issued->start_ns - begin_ns[s], issued->finish_ns - begin_ns[s] };
            }
            longest = max_i64(longest, end_ns[s] - begin_ns[s]);
        }
        timeline->step_ns = timeline->step_ns < MAX_TIME_NS ? longest : MAX_TIME_NS;
        int64_t first_ns = INT64_MAX;
        for (int s = 0; s < stages; s++)
            first_ns = min_i64(first_ns, end_ns[s]);
        same = true;
        for (int s = 0; s < stages; s++) {
            same &= begin_ns[s] == end_ns[s] - first_ns;
            begin_ns[s] = end_ns[s] - first_ns;
        }
    }
    *out = timeline;
    return true;
}

bool simulate_with(struct timeline **out, const struct durations *durations, const struct program *program,
                   struct error *err)
{
    bool steady = false;
    for (int s = 0; s < program->stage_count; s++)
        steady |= program_opening_count(&program->stages[s]) > 0;
    int64_t *moments = calloc(2 * (size_t)program->stage_count + 1, sizeof *moments);
    bool ok = !moments ? fail_memory(err)
              : steady ? simulate_steady(out, durations, program, moments, moments + program->stage_count, err)
                       : simulate_step(out, durations, program, moments, err);
    free(moments);
    return ok;
}
