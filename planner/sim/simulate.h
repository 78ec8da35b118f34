/* The room of the simulator: the program on a virtual clock, by machine_step().
 *
 * It answers when each instruction of each stage runs (timeline.h), with links that several transfers use divided among
 * them (fluid.h), and whether a step repeats in its middle, so that a shorter one tells the whole (period.h). Durations
 * come from anywhere (struct durations); durations_open() takes those of cost/.
 *
 * It uses cost/, program/ and of layout/ lifetimes, and knows neither plans that might be better nor how one is found.
 * Tested by tests/test_sim.c, test_fluid.c and test_published.c (idle times of papers, to the nanosecond),
 * test_period.c (short against whole programs), and by benchmarks that run the same program. */
#ifndef CLEAVE_SIM_SIMULATE_H
#define CLEAVE_SIM_SIMULATE_H
#include "planner/cost/cost_links.h"
#include "planner/sim/timeline.h"

/* Simulates one representative rank per stage (every rank of a stage has equal instructions and, by symmetry of the
 * plan, equal durations). Of an asynchronous schedule it is a step in the middle of a run: step after step is simulated
 * until they repeat, and each stage's moments count from its own beginning of the step. The caller frees *out. Fails,
 * naming the cycle, when the program stalls. */
bool simulate(struct timeline **out, const struct facts *facts, const struct program *program, struct error *err);

struct pairing;
/* Says where durations come from: those of instructions alone. While compute and communication run beside each other on
 * a rank, each takes its factor times as long. */
struct durations {
    int64_t (*ns)(const void *self, const struct program *program, int stage,
                  const struct instr *instr); /* not negative */
    const void *self;
    double compute_under_communication, communication_under_compute; /* at least 1, kept to a thousandth */
    uint64_t order; /* seed of the order in which ready ranks are stepped; has no effect on the result */
    /* Gives what a transfer shares with those under way beside it, of links below link_count: each takes longer by it,
     * piece by piece. A RECEIVE has its SEND's. The answer lives as long as the simulation. May be NULL: nothing is
     * shared. */
    const struct link_uses *(*links)(const void *self, const struct program *program, int stage,
                                     const struct instr *instr); /* NULL: none */
    int64_t link_count;
    /* Gives what the host takes to issue the instruction: a rank's instructions are issued one after another in the
     * order of its list, and none starts before it is. May be NULL: the device never waits for the host. */
    struct host_issue (*issue)(const void *self, const struct program *program, int stage, const struct instr *instr);
    const struct pairing *pairing; /* the program's; may be NULL: it is found for each simulation */
    /* Gives the two factors of one stage's ranks, where stages differ; may be NULL: they are the two above. */
    void (*slow_down)(const void *self, const struct program *program, int stage, double *compute,
                      double *communication);
};
/* Takes what the cost functions say, of all instructions of the program; durations_close() frees it. Fails when the
 * plan asks the host for what it has not, or for want of memory. */
bool durations_open(struct durations *out, const struct facts *facts, const struct program *program, struct error *err);
void durations_close(struct durations *durations);
/* Simulates like simulate(), but with durations from anywhere. */
bool simulate_with(struct timeline **out, const struct durations *durations, const struct program *program,
                   struct error *err);
#endif
