#include "planner/program/machine.h"

static void set_head(struct machine *machine, int lane, int from)
{
    const struct stage_program *list = &machine->program->stages[machine->stage];
    while (from < list->instr_count && (int)list->instrs[from].lane != lane)
        from++;
    machine->head[lane] = from;
    if (from == list->instr_count)
        machine->lanes &= ~(1u << lane);
}

static void set_heads(struct machine *machine, int from)
{
    machine->lanes = (1u << LANE_COUNT) - 1;
    for (int lane = 0; lane < LANE_COUNT; lane++)
        set_head(machine, lane, from);
}

void machine_init(struct machine *machine, const struct program *program, int rank, const struct machine_device *device,
                  void *self)
{
    int stage = plan_stage_of_rank(program->plan, rank);
    const struct stage_program *list = &program->stages[stage];
    *machine = (struct machine){
        .program = program,
        .stage = stage,
        .rank = rank,
        .device = device,
        .self = self,
        .left = list->instr_count,
    };
    set_heads(machine, 0);
}

void machine_skip_opening(struct machine *machine)
{
    const struct stage_program *list = &machine->program->stages[machine->stage];
    int opening = program_opening_count(list);
    set_heads(machine, opening);
    machine->left = list->instr_count - opening;
}

/* Gives the lane whose head comes first in the list, among those in the mask, which is not empty. */
static int first_head(const struct machine *machine, unsigned lanes)
{
    int best = __builtin_ctz(lanes);
    for (lanes &= lanes - 1; lanes; lanes &= lanes - 1) {
        int lane = __builtin_ctz(lanes);
        best = machine->head[lane] < machine->head[best] ? lane : best;
    }
    return best;
}

/* A lane that blocks is closed for this pass, or until the device opens it; the others go on in program order, so a
 * device that takes everything sees exactly the list, and what an instruction waits for was issued before it. */
enum step machine_step(struct machine *machine)
{
    const struct stage_program *list = &machine->program->stages[machine->stage];
    bool ran = false;
    machine->closed = machine->device->opens ? machine->closed : 0;
    while (machine->lanes & ~machine->closed) {
        int lane = first_head(machine, machine->lanes & ~machine->closed), index = machine->head[lane];
        switch (machine->device->issue(machine->self, machine->rank, index, &list->instrs[index])) {
        case ISSUE_TAKEN:
            set_head(machine, lane, index + 1);
            machine->left--;
            ran = true;
            break;
        case ISSUE_BLOCKED:
            machine->closed |= 1u << lane;
            break;
        case ISSUE_FAILED:
            return STEP_FAILED;
        }
    }
    return ran ? STEP_RAN : machine->left == 0 ? STEP_DONE : STEP_BLOCKED;
}
