#include "planner/program/rendezvous.h"
#include "planner/program/machine.h"
#include "planner/program/stall.h"
#include <string.h>

struct rendezvous {
    const struct program *program;
    const struct pairing *pairing;
    uint8_t **state;              /* [stage][instr]: 0 new, 1 there and waiting, 2 done */
    const struct instr **on_lane; /* (stages x lanes) what waits there */
    int *arrived;                 /* (norm-reduces) */
    int *const *order;            /* NULL: nobody asks */
    int ended;                    /* instructions */
    int *computed;                /* (stages) in which round it did so last */
    int round;                    /* from 1; with an order each stage computes once in it */
};
enum { MET_NEW, MET_WAITING, MET_DONE };

static void meet(struct rendezvous *r, int stage, int index)
{
    r->state[stage][index] = MET_DONE;
    r->on_lane[stage * LANE_COUNT + (int)r->program->stages[stage].instrs[index].lane] = NULL;
    if (r->order)
        r->order[stage][index] = r->ended++;
}

static bool may_begin(const struct rendezvous *r, int stage, const struct instr *instr)
{
    const struct stage_program *list = &r->program->stages[stage];
    if (r->on_lane[stage * LANE_COUNT + (int)instr->lane] ||
        (r->order && instr->op == OP_COMPUTE && r->computed[stage] == r->round))
        return false;
    for (int k = 0; k < instr->wait_count; k++)
        if (r->state[stage][list->waits[instr->wait_first + k]] != MET_DONE)
            return false;
    return true;
}

static enum issue meet_issue(void *self, int rank, int index, const struct instr *instr)
{
    struct rendezvous *r = self;
    const int stage = plan_stage_of_rank(r->program->plan, rank);
    if (!may_begin(r, stage, instr))
        return ISSUE_BLOCKED;
    const int partner = r->pairing->partner[stage][index];
    r->state[stage][index] = MET_WAITING;
    r->on_lane[stage * LANE_COUNT + (int)instr->lane] = instr;
    if (instr->op == OP_COMPUTE)
        r->computed[stage] = r->round;
    if (instr_is_message(instr)) {
        if (r->state[instr->peer_stage][partner] == MET_WAITING) {
            meet(r, instr->peer_stage, partner);
            meet(r, stage, index);
        }
    } else if (instr->op == OP_NORM_REDUCE) {
        if (++r->arrived[partner] == r->program->stage_count)
            for (int s = 0; s < r->program->stage_count; s++)
                meet(r, s, r->pairing->norm[s][partner]);
    } else {
        meet(r, stage, index);
    }
    return ISSUE_TAKEN;
}

static bool has_met(const void *self, int stage, int index)
{
    return ((const struct rendezvous *)self)->state[stage][index] == MET_DONE;
}

static void begin(struct rendezvous *r, struct machine *machines, bool later)
{
    static const struct machine_device device = { .name = "rendezvous", .issue = meet_issue };
    const struct program *program = r->program;
    for (int s = 0; s < program->stage_count; s++) {
        machine_init(&machines[s], program, program->plan->stages[s].first_rank, &device, r);
        if (!later)
            continue;
        machine_skip_opening(&machines[s]);
        memset(r->state[s], MET_DONE, (size_t)program_opening_count(&program->stages[s]));
    }
}

/* Runs all stages until none can go on; true when any did. */
static bool run_round(struct rendezvous *r, struct machine *machines)
{
    bool any = false;
    r->round++;
    for (bool ran = true; ran; any |= ran) {
        ran = false;
        for (int s = 0; s < r->program->stage_count; s++)
            ran |= machine_step(&machines[s]) == STEP_RAN;
    }
    return any;
}

bool rendezvous_run(const struct program *program, const struct pairing *pairing, bool later, int *const *order,
                    struct error *err)
{
    struct arena arena = { 0 };
    const size_t stages = (size_t)program->stage_count;
    struct rendezvous r = { .program = program, .pairing = pairing, .order = order };
    struct machine *machines = arena_alloc(&arena, stages, sizeof *machines);
    r.state = arena_alloc(&arena, stages, sizeof *r.state);
    r.on_lane = arena_alloc(&arena, stages * LANE_COUNT, sizeof *r.on_lane);
    r.arrived = arena_alloc(&arena, (size_t)pairing->norm_count, sizeof *r.arrived);
    r.computed = arena_alloc(&arena, stages, sizeof *r.computed);
    bool ok = !arena_failed(&arena);
    for (int s = 0; ok && s < program->stage_count; s++) {
        r.state[s] = arena_alloc(&arena, (size_t)program->stages[s].instr_count, 1);
        ok = r.state[s] != NULL;
    }
    if (!ok)
        fail_memory(err);
    if (ok)
        begin(&r, machines, later);
    while (ok && run_round(&r, machines))
        continue;
    for (int s = 0; ok && s < program->stage_count; s++)
        for (int i = 0; ok && i < program->stages[s].instr_count; i++)
            ok = has_met(&r, s, i) || stall_fail(program, pairing, has_met, &r, err);
    arena_free(&arena);
    return ok;
}
