/* The room of costs: THE nanoseconds.
 *
 * It answers how long one instruction takes alone on its lane and its links (cost_instr()), on which links it goes
 * (cost_links.h), and what the host needs to issue it. Kernels are in cost_compute.c and cost_matmul.c, groups of ranks
 * and their collectives in cost_group.c and cost_collective.c, each formula with its source. Search, simulator and the
 * timed device all ask here, so that no formula stands twice.
 *
 * It uses facts/ and program/; what instructions do to each other is the simulator's.
 * Tested by tests/test_cost.c and test_cost_links.c against closed forms and published sweeps, and test_framework.c. */
#ifndef CLEAVE_COST_COST_H
#define CLEAVE_COST_COST_H
#include "planner/cost/cost_matmul.h"
#include "planner/facts/profile.h"
#include "planner/program/program.h"

struct cost {
    int64_t ns;
    enum origin origin;
    bool extrapolated;
};
/* Gives the duration of one instruction alone on its lane: of the work of a representative rank (local rank 0 of the
 * stage), on the slowest of the types of device that the stage lives on, since the others wait for it. */
struct cost cost_instr(const struct facts *facts, const struct program *program, int stage, const struct instr *instr);
int64_t cost_instr_ns(const struct facts *facts, const struct program *program, int stage, const struct instr *instr);
/* Gives what the host takes to issue the instruction; 0: the device never waits for it. Where the host is slower than
 * the device, the device idles. */
struct host_issue cost_issue(const struct facts *facts, const struct program *program, int stage,
                             const struct instr *instr);
/* Gives the experts of a token where the instruction is an all-to-all that brings it to them, and the framework sends
 * it once to a unit that has any; else 0. */
int cost_dispatch_choices(const struct facts *facts, const struct program *program, const struct instr *instr);
/* Gives a number of all that a collective of a stage's ranks costs by, beside the facts and who these ranks are; of all
 * else 0. */
uint64_t cost_collective_key(const struct facts *facts, const struct program *program, int stage,
                             const struct instr *instr);
/* Gives the part of it that a transfer takes however few its bytes: the duration of an empty one. */
int64_t cost_latency_ns(const struct facts *facts, const struct program *program, int stage, const struct instr *instr);
/* Gives the part of a norm or an update that does not depend on its bytes, wherever its results lie; of others 0. */
int64_t cost_launch_ns(const struct facts *facts, const struct program *program, int stage, const struct instr *instr);
/* True when phase, kernel, its split and operands are alike, since a kernel's cost depends on no more. */
bool cost_same_kernel(const struct program *program, const struct instr *a, const struct instr *b);
/* Gives cost_instr_ns() of each of the stage's instructions, ns[instr_count], and the first that does the same work,
 * like[instr_count] (may be NULL). Fails only for want of memory. */
bool cost_stage_ns(int64_t *ns, int *like, const struct facts *facts, const struct program *program, int stage);
/* Prices the instruction on one rank's device, which differs where a stage has several types and exchanges nothing. */
int64_t cost_instr_rank_ns(const struct facts *facts, const struct program *program, int stage,
                           const struct instr *instr, int rank);
/* Gives the types of device that a stage lives on: bit t for type t. */
unsigned cost_stage_types(const struct facts *facts, const struct plan *plan, int stage);
/* Gives the usable bytes of one rank of the stage, on the type that has least. */
int64_t cost_stage_available_bytes(const struct facts *facts, const struct plan *plan, int stage);
/* Prices one COMPUTE of the segment over these extents on a type of device, from the profile where it has this or a
 * like shape, else the roofline; memory traffic from the operands' blocks. */
struct cost cost_compute(const struct facts *facts, int type, const struct segment *segment, enum phase phase,
                         enum dtype dtype, const int64_t extents[MAX_AXES], int64_t moved_bytes);
/* Counts the ranks that compute on one host of the type at once, as profiles do: cores of a host slow each other,
 * accelerators do not (1). */
int cost_loaded(const struct cluster *cluster, int type);
/* Tells what LOAD, SEED, ZERO, SLICE, ADD, NORM and UPDATE do to one pair: the profile's name of the work ("" for other
 * ops), its elements, and the bytes of memory traffic. */
#define WORK_UPDATE "adamw"             /* in place */
#define WORK_UPDATE_APART "adamw-apart" /* that reads one version of the weights and writes another */
const char *cost_local_work(const struct program *program, const struct instr *instr, const struct pair *pair,
                            int64_t *elements, int64_t *bytes);
/* Counts the operands' bytes that one COMPUTE of these extents moves; accumulated outputs count twice. */
int64_t cost_moved_bytes(const struct graph *graph, const struct plan *plan, const struct instr *instr,
                         const int64_t extents[MAX_AXES]);
/* Prices one message of so many bytes from local rank 0 of a stage of the plan to that of another, while all other
 * ranks of the two stages exchange theirs. */
struct cost cost_between_stages(const struct facts *facts, const struct plan *plan, int stage, int peer_stage,
                                int64_t bytes);
/* Prices one collective. bytes: of the largest buffer on one rank; ranks: group size; stride: distance between
 * neighbouring members in global rank numbers; span: last - first member, which decides the level; concurrent: groups
 * that share the level's link. Below two ranks it costs nothing. */
struct cost cost_collective(const struct facts *facts, enum op op, int64_t bytes, int ranks, int first_rank, int stride,
                            int concurrent);
/* Fails when something is to be kept in host memory and a device has no link to it: says what to write. Costs trust a
 * plan that passed. */
bool cost_host_link(const struct cluster *cluster, enum offload offload, struct error *err);
bool cost_check_host(const struct cluster *cluster, const struct plan *plan, struct error *err);
/* Gives the host memory that a rank of the stage may use, on the type that has least; INT64_MAX: it is not known. */
int64_t cost_stage_host_bytes(const struct facts *facts, const struct plan *plan, int stage);
#endif
