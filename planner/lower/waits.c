/* Waits between lanes: true dependences, and the two kinds that writing over something makes. Within a lane order is
 * program order. What an instruction has reached through earlier waits, its own or those of what it waited for, is not
 * waited for again. */
#include "planner/lower/lower_emit.h"
#include "planner/program/access.h"
#include <string.h>

struct users {
    int write, read[LANE_COUNT]; /* last instructions, counted from 1; 0: none */
    unsigned readers;            /* mask of the lanes that have read it since */
};
struct waiting {
    struct program *program;
    struct arena arena;
    int first_buffer;           /* of the stage */
    struct users *users;        /* by buffer - first_buffer */
    int (*reached)[LANE_COUNT]; /* by instruction: the last of each lane that has finished when it has */
    int last[LANE_COUNT];       /* the last instruction of each lane so far */
    int wait_capacity;
};

static void later(int *a, int b)
{
    *a = max_int(*a, b);
}

static unsigned want(int wanted[LANE_COUNT], int lane, int number)
{
    later(&wanted[lane], number);
    return 1u << lane;
}

/* Collects what the instruction must wait for, and notes that it touches its buffers from now on: of its own lane
 * nothing is waited for, so its own accesses may be among those that it finds. Gives the mask of the other lanes. */
static unsigned collect(const struct waiting *w, const struct stage_program *stage, const struct instr *instr,
                        int number, int wanted[LANE_COUNT])
{
    struct access access;
    unsigned lanes = 0;
    for (struct access_walk walk = access_walk(w->program, instr); access_next(&walk, &access);) {
        struct users *users = &w->users[access.buffer - w->first_buffer];
        if (users->write > 0)
            lanes |= want(wanted, (int)stage->instrs[users->write - 1].lane, users->write);
        if (!access.writes) {
            users->readers |= 1u << instr->lane;
            users->read[instr->lane] = number;
            continue;
        }
        for (unsigned left = users->readers; left; left &= left - 1)
            lanes |= want(wanted, __builtin_ctz(left), users->read[__builtin_ctz(left)]);
        users->readers = 0;
        users->write = number;
    }
    return lanes & ~(1u << instr->lane);
}

/* Adds waits for the lanes of the mask, the latest first: what it has reached drops the others. */
static bool add_waits(struct waiting *w, struct stage_program *stage, struct instr *instr, int number,
                      const int wanted[LANE_COUNT], unsigned lanes)
{
    int *reached = w->reached[number];
    const int before = w->last[instr->lane];
    memcpy(reached, w->reached[before], sizeof w->reached[0]);
    reached[instr->lane] = number;
    instr->wait_first = stage->wait_count;
    instr->wait_count = 0;
    for (;;) {
        int latest = 0;
        for (unsigned left = lanes; left; left &= left - 1) {
            int lane = __builtin_ctz(left);
            if (wanted[lane] > reached[lane])
                later(&latest, wanted[lane]);
            else
                lanes &= ~(1u << lane);
        }
        if (latest == 0)
            break;
        int *waits = arena_more(&w->arena, stage->waits, stage->wait_count, &w->wait_capacity, sizeof *waits);
        if (!waits)
            return false;
        stage->waits = waits;
        waits[stage->wait_count++] = latest - 1;
        instr->wait_count++;
        for (int lane = 0; lane < LANE_COUNT; lane++)
            later(&reached[lane], w->reached[latest][lane]);
    }
    reached[instr->lane] = number;
    w->last[instr->lane] = number;
    return true;
}

bool waits_find(struct lowering *l)
{
    struct program *program = l->program;
    struct stage_program *stage = &program->stages[l->stage];
    struct waiting w = { .program = program, .first_buffer = l->made.first_buffer };
    w.users = arena_alloc(&w.arena, (size_t)(program->buffer_count - w.first_buffer), sizeof *w.users);
    w.reached = arena_alloc(&w.arena, (size_t)stage->instr_count + 1, sizeof *w.reached);
    bool ok = w.users && w.reached;
    for (int i = 0; i < stage->instr_count && ok; i++) {
        int wanted[LANE_COUNT] = { 0 };
        unsigned lanes = collect(&w, stage, &stage->instrs[i], i + 1, wanted);
        ok = add_waits(&w, stage, &stage->instrs[i], i + 1, wanted, lanes);
    }
    int *kept = arena_alloc(&program->arena, (size_t)stage->wait_count, sizeof *kept);
    if (kept && ok && stage->wait_count > 0)
        memcpy(kept, stage->waits, (size_t)stage->wait_count * sizeof *kept);
    stage->waits = kept;
    arena_free(&w.arena);
    return (kept && ok) || lower_memory(l);
}
