/* The one interpreter: what a program MEANS for one rank. Instructions are issued in program order onto lanes; their
 * waits are handed to the device; no decision depends on a completion. A virtual clock, threads and MPI resolve waits
 * when they complete; CUDA resolves them as stream events without looking. */
#ifndef CLEAVE_PROGRAM_MACHINE_H
#define CLEAVE_PROGRAM_MACHINE_H
#include "planner/program/program.h"

enum issue { ISSUE_TAKEN, ISSUE_BLOCKED, ISSUE_FAILED };
struct machine_device {
    const char *name;
    /* Takes instruction `index` of the rank's list onto its lane. BLOCKED: not now (virtual clock: a partner has not
     * come so far); the machine goes on with other lanes and asks again. FAILED: the device keeps the cause. */
    enum issue (*issue)(void *self, int rank, int index, const struct instr *instr);
    bool opens; /* it opens the lanes that it blocked itself, and is not asked before; else each step asks */
};
enum step { STEP_RAN, STEP_BLOCKED, STEP_DONE, STEP_FAILED };
struct machine {
    const struct program *program;
    int stage, rank; /* global rank */
    const struct machine_device *device;
    void *self;
    int head[LANE_COUNT]; /* next instruction of each lane; instr_count when done */
    unsigned lanes;       /* mask of those that are not done */
    unsigned closed;      /* mask of those whose head the device has blocked */
    int left;
};
void machine_init(struct machine *machine, const struct program *program, int rank, const struct machine_device *device,
                  void *self);
/* Passes over the lanes once: it issues at each lane's head what the device takes. Progress outranks completion: RAN if
 * anything was issued, else DONE or BLOCKED. */
enum step machine_step(struct machine *machine);
/* Skips the opening before the machine's first step, which is not the first of the run: the opening stands done. */
void machine_skip_opening(struct machine *machine);
#endif
