/* Steps whose instructions are timed one by one: the device takes some kernels in less time than the host needs to
 * queue one, and would wait for it between the two events round an instruction. So the compute stream waits behind a
 * gate until the next HELD_CALLS are queued, then behind another one. The gates lie between instructions, so that no
 * span holds a wait. So little is queued as a rule that the host need not wait for the device (a stream takes about a
 * thousand calls), and a gate that nobody opens in time opens by itself. Ranks that exchange data go without: one that
 * holds its device back would keep others waiting. */
#include "executor/gpu/device.h"

enum { HELD_CALLS = 256 };
static const int64_t LONGEST_HOLD_NS = 50000000;

bool gpu_hold_open(struct rank *rank, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    if (!g->gpu.hold || rank->options->on_gradient || gpu_exchanges(rank)) /* a gradient is shown in mid-step */
        return true;
    g->gate = g->gpu.allocate_host(g->gpu.self, sizeof *g->gate, err);
    if (g->gate)
        atomic_init(g->gate, 0);
    return g->gate != NULL;
}

void gpu_hold_close(struct gpu_rank *g)
{
    g->gpu.release_host(g->gpu.self, g->gate);
}

/* In a run's first step libraries load, choose and allocate, which may wait for the device. Records, where they are
 * kept, tell what ran anyhow, and would have the gates among it. */
static bool times_instructions(const struct rank *rank)
{
    const struct gpu_rank *g = rank->device_state;
    return g->gate && g->told && rank->updates > 0 && !g->watch;
}

static bool add_gate(struct gpu_rank *g, struct error *err)
{
    g->held_calls = 0;
    return g->gpu.hold(g->gpu.self, g->stream[LANE_COMPUTE], g->gate, ++g->gates, LONGEST_HOLD_NS, err);
}

bool gpu_hold_begin(struct rank *rank, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    g->holds = times_instructions(rank);
    return !g->holds || add_gate(g, err);
}

/* At least: kernels, waits and the two events of one instruction. */
static int calls_of(const struct instr *instr)
{
    enum { EVENTS = 2, LAUNCHES = 2 };
    return EVENTS + instr->wait_count + LAUNCHES * (instr->pair_count > 0 ? instr->pair_count : 1);
}

bool gpu_hold_next(struct rank *rank, const struct instr *instr, struct error *err)
{
    struct gpu_rank *g = rank->device_state;
    if (!g->holds || instr->lane != LANE_COMPUTE)
        return true;
    if (g->held_calls > 0 && g->held_calls + calls_of(instr) > HELD_CALLS) {
        const int32_t before = g->gates;
        if (!add_gate(g, err))
            return false;
        atomic_store(g->gate, before);
    }
    g->held_calls += calls_of(instr);
    return true;
}

void gpu_hold_end(struct gpu_rank *g)
{
    if (g->gate)
        atomic_store(g->gate, g->gates);
    g->holds = false;
}
