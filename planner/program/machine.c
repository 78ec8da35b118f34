#include "planner/program/machine.h"

static int next_on_lane(const struct stage_program *list, int lane, int from)
{
    while (from < list->instr_count && (int)list->instrs[from].lane != lane)
        from++;
    return from;
}

void machine_init(struct machine *machine, const struct program *program, int rank, const struct machine_device *device,
                  void *self)
{
    int stage = stage_of_rank(program->plan, rank);
    const struct stage_program *list = &program->stages[stage];
    *machine = (struct machine){
        .program = program,
        .stage = stage,
        .rank = rank,
        .device = device,
        .self = self,
        .left = list->instr_count,
    };
    for (int lane = 0; lane < LANE_COUNT; lane++)
        machine->head[lane] = next_on_lane(list, lane, 0);
}

void machine_skip_opening(struct machine *machine)
{
    const struct stage_program *list = &machine->program->stages[machine->stage];
    int opening = stage_opening_count(list);
    for (int lane = 0; lane < LANE_COUNT; lane++)
        machine->head[lane] = next_on_lane(list, lane, opening);
    machine->left = list->instr_count - opening;
}

/* The lane whose head comes first in the list, of those that still take; LANE_COUNT when none is left. */
static int first_head(const struct machine *machine, const bool closed[LANE_COUNT])
{
    int best = LANE_COUNT, index = machine->program->stages[machine->stage].instr_count;
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (!closed[lane] && machine->head[lane] < index) {
            best = lane;
            index = machine->head[lane];
        }
    return best;
}

/* A lane that blocks is closed for this pass; the others go on in program order, so a device that takes everything sees
 * exactly the list, and what an instruction waits for was issued before it. */
enum step machine_step(struct machine *machine)
{
    const struct stage_program *list = &machine->program->stages[machine->stage];
    bool closed[LANE_COUNT] = { false }, ran = false;
    for (int lane; (lane = first_head(machine, closed)) != LANE_COUNT;) {
        int index = machine->head[lane];
        switch (machine->device->issue(machine->self, machine->rank, index, &list->instrs[index])) {
        case ISSUE_TAKEN:
            machine->head[lane] = next_on_lane(list, lane, index + 1);
            machine->left--;
            ran = true;
            break;
        case ISSUE_BLOCKED:
            closed[lane] = true;
            break;
        case ISSUE_FAILED:
            return STEP_FAILED;
        }
    }
    return ran ? STEP_RAN : machine->left == 0 ? STEP_DONE : STEP_BLOCKED;
}
