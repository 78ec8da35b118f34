/* Waits between lanes: true dependences, and the two kinds that writing over something makes. Within a lane order is
 * program order. What an instruction has reached through earlier waits, its own or those of what it waited for, is not
 * waited for again. */
#include "planner/program/access.h"
#include "planner/lower/lower_parts.h"
#include <string.h>

struct users {
    int write, read[LANE_COUNT];
}; /* last instructions, counted from 1; 0: none */
struct waiting {
    struct program *program;
    struct arena arena;           /* for the stage at hand */
    int first_buffer, end_buffer; /* its buffers: lowering adds them stage by stage */
    struct users *users;          /* by buffer - first_buffer */
    int (*reached)[LANE_COUNT];   /* by instruction: the last of each lane that has finished when it has */
    int last[LANE_COUNT];         /* the last instruction of each lane so far */
    int wait_capacity;
};

static void later(int *a, int b)
{
    *a = b > *a ? b : *a;
}

static void collect(const struct waiting *w, const struct stage_program *stage, const struct instr *instr,
                    int wanted[LANE_COUNT])
{
    struct access access;
    for (struct access_walk walk = access_walk(w->program, instr); access_next(&walk, &access);) {
        const struct users *users = &w->users[access.buffer - w->first_buffer];
        if (users->write > 0)
            later(&wanted[stage->instrs[users->write - 1].lane], users->write);
        for (int lane = 0; lane < LANE_COUNT && access.writes; lane++)
            later(&wanted[lane], users->read[lane]);
    }
}

static void record(const struct waiting *w, const struct instr *instr, int number)
{
    struct access access;
    for (struct access_walk walk = access_walk(w->program, instr); access_next(&walk, &access);) {
        struct users *users = &w->users[access.buffer - w->first_buffer];
        if (access.writes) {
            memset(users->read, 0, sizeof users->read);
            users->write = number;
        } else {
            users->read[instr->lane] = number;
        }
    }
}

static bool add_wait(struct waiting *w, struct stage_program *stage, int index)
{
    if (stage->wait_count == w->wait_capacity) {
        int wanted = w->wait_capacity ? w->wait_capacity * 2 : stage->instr_count + 16;
        int *larger = arena_alloc(&w->program->arena, (size_t)wanted, sizeof *larger);
        if (!larger)
            return false;
        if (stage->wait_count)
            memcpy(larger, stage->waits, (size_t)stage->wait_count * sizeof *larger);
        stage->waits = larger;
        w->wait_capacity = wanted;
    }
    stage->waits[stage->wait_count++] = index;
    return true;
}

/* The latest first: what it has reached drops the others. */
static bool add_waits(struct waiting *w, struct stage_program *stage, struct instr *instr, int number,
                      int wanted[LANE_COUNT])
{
    int *reached = w->reached[number];
    const int before = w->last[instr->lane];
    memcpy(reached, w->reached[before], sizeof w->reached[0]);
    reached[instr->lane] = number;
    instr->wait_first = stage->wait_count;
    instr->wait_count = 0;
    wanted[instr->lane] = 0;
    for (;;) {
        int latest = 0;
        for (int lane = 0; lane < LANE_COUNT; lane++)
            later(&latest, wanted[lane] > reached[lane] ? wanted[lane] : 0);
        if (latest == 0)
            break;
        if (!add_wait(w, stage, latest - 1))
            return false;
        instr->wait_count++;
        for (int lane = 0; lane < LANE_COUNT; lane++)
            later(&reached[lane], w->reached[latest][lane]);
    }
    reached[instr->lane] = number;
    w->last[instr->lane] = number;
    return true;
}

/* Room for what is known of the stage's buffers and instructions. */
static bool open_stage(struct waiting *w, int stage)
{
    const struct program *program = w->program;
    w->first_buffer = w->end_buffer;
    while (w->end_buffer < program->buffer_count && program->buffers[w->end_buffer].stage == stage)
        w->end_buffer++;
    w->users = arena_alloc(&w->arena, (size_t)(w->end_buffer - w->first_buffer), sizeof *w->users);
    w->reached = arena_alloc(&w->arena, (size_t)program->stages[stage].instr_count + 1, sizeof *w->reached);
    return w->users && w->reached;
}

static bool stage_waits(struct waiting *w, int number)
{
    struct stage_program *stage = &w->program->stages[number];
    memset(w->last, 0, sizeof w->last);
    stage->wait_count = 0;
    stage->waits = NULL;
    w->wait_capacity = 0;
    if (!open_stage(w, number))
        return false;
    for (int i = 0; i < stage->instr_count; i++) {
        int wanted[LANE_COUNT] = { 0 };
        collect(w, stage, &stage->instrs[i], wanted);
        if (!add_waits(w, stage, &stage->instrs[i], i + 1, wanted))
            return false;
        record(w, &stage->instrs[i], i + 1);
    }
    return true;
}

bool program_waits(struct program *program, struct error *err)
{
    struct waiting w = { .program = program };
    bool ok = true;
    for (int i = 0; i < program->stage_count && ok; i++) {
        ok = stage_waits(&w, i);
        arena_free(&w.arena);
    }
    return ok || fail_kind(err, ERROR_ENVIRONMENT, "out of memory while finding the waits of a program");
}
