#include "planner/layout/order.h"
#include "planner/program/by_stage.h"
#include "planner/layout/byte_map.h"
#include <string.h>

struct lanes {
    int last[LANE_COUNT];
}; /* index of the latest instruction of each lane, -1 none */

/* What the walk knows of a buffer of the stage at hand. */
struct use {
    struct lanes reads, writes;   /* accesses so far, */
    unsigned short read, written; /* of the lanes in these masks */
    int taker, taken_at;          /* who took the bytes; -1 nobody */
    bool alive;                   /* content is defined and intact */
};

struct walk {
    struct arena arena, stage_arena; /* for all stages, for the one at hand */
    const struct program *program;
    enum order_answer (*hazard)(void *self, const struct hazard *hazard);
    void *self;
    int stage;
    struct by_stage by_stage;
    int *place;          /* (buffers) among those of its stage */
    struct use *uses;    /* (buffers of the stage) by place */
    struct lanes *clock; /* (instructions of the stage) what has finished when it starts */
    struct lanes tail;   /* last instruction of each lane so far */
    struct byte_map map;
    /* these are of the instruction at hand */
    int index, buffer;
    struct hazard worst[LANE_COUNT]; /* latest that it must follow and does not yet, per lane */
    unsigned worst_lanes;            /* mask of those that have one */
    bool took;                       /* bytes whose content was intact */
    bool stopped;
};

static const struct lanes none = { .last = { -1, -1, -1, -1, -1, -1, -1, -1, -1 } };
_Static_assert(LANE_COUNT == 9, "`none` lists all lanes");

/* Gives the use of a buffer; instructions touch buffers of their own stage alone. */
static struct use *use_of(const struct walk *w, int buffer)
{
    return &w->uses[w->place[buffer]];
}

static void ignore_owner(void *self, int owner)
{
    (void)self;
    (void)owner;
}

enum { OWNER_SCRATCH = -2 };

static void list_edges(struct byte_edge *edges, int *count, int number, int64_t low, int64_t bytes)
{
    edges[(*count)++] = (struct byte_edge){ low, number };
    edges[(*count)++] = (struct byte_edge){ low + bytes, number + 1 };
}

/* Opens the map of the stage's bytes, whose edges are those of its buffers, two by two, then the workspace's; what
 * lives over the step and the workspace own their bytes from the start. */
static bool open_map(struct walk *w, const int *first, const int *end)
{
    const struct stage_program *program = &w->program->stages[w->stage];
    int count = 0, workspace = 2 * (int)(end - first);
    struct byte_edge *edges = arena_alloc(&w->stage_arena, (size_t)workspace + 2, sizeof *edges);
    if (!edges)
        return false;
    for (const int *b = first; b < end; b++) {
        const struct buffer *buffer = &w->program->buffers[*b];
        if (buffer->offset >= 0)
            list_edges(edges, &count, 2 * w->place[*b], buffer_address(program, buffer), buffer->bytes);
    }
    list_edges(edges, &count, workspace, program->scratch_offset, program->scratch_bytes);
    if (!byte_map_open(&w->map, &w->stage_arena, edges, count, workspace + 2))
        return false;
    byte_map_take(&w->map, workspace, workspace + 1, OWNER_SCRATCH, ignore_owner, NULL);
    for (const int *b = first; b < end; b++) {
        const struct buffer *buffer = &w->program->buffers[*b];
        int edge = 2 * w->place[*b];
        if (buffer->offset >= 0 && buffer->persistent)
            byte_map_take(&w->map, edge, edge + 1, *b, ignore_owner, NULL);
    }
    return true;
}

static bool open_stage(struct walk *w, int stage)
{
    const int *first = &w->by_stage.buffer[w->by_stage.first[stage]],
              *end = &w->by_stage.buffer[w->by_stage.first[stage + 1]];
    arena_free(&w->stage_arena);
    w->stage = stage;
    w->tail = none;
    w->uses = arena_alloc(&w->stage_arena, (size_t)(end - first), sizeof *w->uses);
    w->clock = arena_alloc(&w->stage_arena, (size_t)w->program->stages[stage].instr_count, sizeof *w->clock);
    if (!w->uses || !w->clock)
        return false;
    for (const int *b = first; b < end; b++) {
        use_of(w, *b)->taken_at = -1;
        use_of(w, *b)->alive = buffer_outlives_step(&w->program->buffers[*b]);
    }
    return open_map(w, first, end);
}

/* Notes as finished when `index` starts: `earlier`, and all that was finished when `earlier` started. */
static void follow(struct walk *w, int index, int earlier)
{
    enum lane own = w->program->stages[w->stage].instrs[earlier].lane;
    int *last = w->clock[index].last;
    const int *before = w->clock[earlier].last;
    for (int lane = 0; lane < LANE_COUNT; lane++)
        last[lane] = max_int(last[lane], before[lane]);
    last[own] = max_int(last[own], earlier);
}

static bool tell(struct walk *w, const struct hazard *hazard)
{
    enum order_answer answer = w->hazard(w->self, hazard);
    if (answer == ORDER_WAIT && hazard->earlier >= 0)
        follow(w, w->index, hazard->earlier);
    w->stopped |= answer == ORDER_STOP;
    return !w->stopped;
}

/* Notes that the instruction must come after these accesses. */
static void must_follow(struct walk *w, const struct lanes *accesses, unsigned lanes, enum hazard_kind kind, int buffer,
                        int other)
{
    for (; lanes; lanes &= lanes - 1) {
        int lane = __builtin_ctz(lanes), earlier = accesses->last[lane];
        bool known = w->worst_lanes >> lane & 1;
        if (earlier <= (known ? w->worst[lane].earlier : w->clock[w->index].last[lane]))
            continue;
        w->worst[lane] = (struct hazard){ kind, w->stage, earlier, w->index, buffer, other };
        w->worst_lanes |= 1u << lane;
    }
}

static void replace_owner(void *self, int owner)
{
    struct walk *w = self;
    if (owner == BYTE_MAP_NOBODY || owner == w->buffer || w->stopped)
        return;
    bool part = w->program->buffers[w->buffer].in_place && owner != OWNER_SCRATCH;
    if (!part && (owner == OWNER_SCRATCH || w->program->buffers[owner].persistent)) {
        struct hazard hazard = { HAZARD_PERSISTENT, w->stage,  -1,
                                 w->index,          w->buffer, owner == OWNER_SCRATCH ? -1 : owner };
        tell(w, &hazard);
        return;
    }
    struct use *use = use_of(w, owner);
    must_follow(w, &use->reads, use->read, HAZARD_REUSE_EARLY, w->buffer, owner);
    must_follow(w, &use->writes, use->written, HAZARD_REUSE_EARLY, w->buffer, owner);
    if (use->alive || use->taken_at < 0) {
        use->taker = w->buffer;
        use->taken_at = w->index;
    }
    w->took |= use->alive;
    use->alive = false;
}

static bool check_alive(struct walk *w, int b)
{
    const struct use *use = use_of(w, b);
    if (use->alive)
        return true;
    bool taken = use->taken_at >= 0;
    struct hazard hazard = {
        taken ? HAZARD_OVERWRITTEN : HAZARD_UNDEFINED, w->stage, use->taken_at, w->index, b, taken ? use->taker : -1
    };
    return tell(w, &hazard);
}

static bool written_over(const struct walk *w, const struct instr *instr, int slot)
{
    struct access from, into;
    for (int other = 0; other < access_slots(instr); other++)
        if (access_over(w->program, instr, other) == slot && access_at(w->program, instr, slot, &from) &&
            access_at(w->program, instr, other, &into) &&
            w->program->buffers[into.buffer].offset == w->program->buffers[from.buffer].offset)
            return true;
    return false;
}

/* Checks bytes that this instruction both reads and gives away, where it cannot work in place. */
static bool check_in_place(struct walk *w, const struct instr *instr)
{
    struct access access;
    for (struct access_walk walk = access_walk(w->program, instr); access_next(&walk, &access);) {
        if (!access.reads || use_of(w, access.buffer)->alive)
            continue;
        if (!written_over(w, instr, access.slot) && !check_alive(w, access.buffer))
            return false;
    }
    return true;
}

/* Tells hazards latest first, since a wait for that may order the others as well. */
static bool tell_worst(struct walk *w)
{
    while (w->worst_lanes) {
        int latest = -1;
        for (unsigned left = w->worst_lanes; left; left &= left - 1) {
            int lane = __builtin_ctz(left);
            latest = latest < 0 || w->worst[lane].earlier > w->worst[latest].earlier ? lane : latest;
        }
        w->worst_lanes &= ~(1u << latest);
        if (w->worst[latest].earlier > w->clock[w->index].last[latest] && !tell(w, &w->worst[latest]))
            return false;
    }
    return true;
}

static bool visit(struct walk *w, int index)
{
    const struct stage_program *stage = &w->program->stages[w->stage];
    const struct instr *instr = &stage->instrs[index];
    struct access access;
    bool starts = false;
    w->index = index;
    w->worst_lanes = 0;
    w->took = false;
    w->clock[index] = none;
    if (w->tail.last[instr->lane] >= 0)
        follow(w, index, w->tail.last[instr->lane]);
    for (int i = 0; i < instr->wait_count; i++)
        follow(w, index, stage->waits[instr->wait_first + i]);
    w->tail.last[instr->lane] = index;
    for (struct access_walk walk = access_walk(w->program, instr); access_next(&walk, &access);) {
        int b = access.buffer;
        const struct use *use = use_of(w, b);
        if (access.reads)
            must_follow(w, &use->writes, use->written, HAZARD_READ_EARLY, b, b);
        if (access.writes) {
            must_follow(w, &use->writes, use->written, HAZARD_WRITE_EARLY, b, b);
            must_follow(w, &use->reads, use->read, HAZARD_WRITE_EARLY, b, b);
        }
        if (access.reads && !check_alive(w, b))
            return false;
        starts |= access.starts;
    }
    for (struct access_walk walk = access_walk(w->program, instr); starts && access_next(&walk, &access);)
        if (access.starts) {
            int edge = 2 * w->place[access.buffer];
            w->buffer = access.buffer;
            if (w->program->buffers[access.buffer].offset >= 0)
                byte_map_take(&w->map, edge, edge + 1, access.buffer, replace_owner, w);
            struct use *use = use_of(w, access.buffer);
            use->alive = true;
            use->taken_at = -1;
        }
    if (w->stopped || (w->took && !check_in_place(w, instr)) || !tell_worst(w))
        return false;
    for (struct access_walk walk = access_walk(w->program, instr); access_next(&walk, &access);) {
        struct use *use = use_of(w, access.buffer);
        struct lanes *seen = access.writes ? &use->writes : &use->reads;
        seen->last[instr->lane] = index;
        *(access.writes ? &use->written : &use->read) |= 1u << instr->lane;
    }
    return true;
}

bool order_walk(const struct program *program, enum order_answer (*hazard)(void *self, const struct hazard *hazard),
                void *self, struct error *err)
{
    struct walk w = { .program = program, .hazard = hazard, .self = self };
    w.place = arena_alloc(&w.arena, (size_t)program->buffer_count + 1, sizeof *w.place);
    bool ok = w.place && by_stage_build(&w.by_stage, &w.arena, program);
    for (int s = 0; ok && s < program->stage_count; s++)
        for (int k = w.by_stage.first[s]; k < w.by_stage.first[s + 1]; k++)
            w.place[w.by_stage.buffer[k]] = k - w.by_stage.first[s];
    for (int stage = 0; ok && !w.stopped && stage < program->stage_count; stage++) {
        ok = open_stage(&w, stage);
        for (int i = 0; ok && i < program->stages[stage].instr_count; i++)
            if (!visit(&w, i))
                break;
    }
    if (!ok)
        fail_kind(err, ERROR_ENVIRONMENT, "program: out of memory for the order of %d buffers", program->buffer_count);
    ok = ok && !w.stopped;
    arena_free(&w.stage_arena);
    arena_free(&w.arena);
    return ok;
}
