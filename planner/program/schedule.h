/* A schedule is the order in which one stage runs forward and backward of its micro-batches and chunks. */
#ifndef CLEAVE_PROGRAM_SCHEDULE_H
#define CLEAVE_PROGRAM_SCHEDULE_H
#include "planner/plan/plan.h"

enum action_kind { ACTION_FORWARD, ACTION_BACKWARD, ACTION_BACKWARD_INPUT, ACTION_BACKWARD_WEIGHT };
/* Steps run into each other in asynchronous schedules: a stage begins micro-batches of the next step before it ends
 * those of its own. The opening begins those of the very first step. */
enum step_part { STEP_OWN, STEP_OPENING, STEP_AHEAD };
struct action {
    enum action_kind kind;
    int micro, chunk;
    enum step_part part;
};

/* What a stage knows of the pipeline. Replicas that take turns each see a pipeline of their own share: micro-batches
 * are numbered 0, 1, ... among its own, and `ahead` counts in them. */
struct schedule_place {
    int stages, stage;   /* replicas that take turns count once */
    int chunks;          /* pieces of the model on each stage, round by round */
    int group;           /* micro-batches of a round (schedule_group()); 0: schedule_least_group() */
    int micro_count;     /* of this stage; at most PLAN_MAX_MICRO_BATCHES, as extra_in_flight */
    int ahead;           /* its own micro-batches that the stages from this one on hold when each holds one */
    int extra_in_flight; /* warm-up beyond the schedule's own */
};
struct schedule {
    const char *name, *doc;
    bool bounded; /* the search's closed form bounds it */
    bool phases;  /* all forward passes of a stage come before all its backward ones: either waits for its longest stage
                   */
    bool asynchronous;         /* other mathematics: stale weights, and steps that run into each other */
    bool interleaves;          /* runs several chunks per stage, and nothing else */
    bool takes_extra;          /* extra_in_flight lengthens its warm-up */
    bool splits;               /* the weights' gradients are computed apart from the inputs' */
    const char *in_flight_doc; /* largest number of micro-batches in flight at stage k of P: m of the step, v chunks */
    const char *staleness_doc; /* how many updates old the weights are; NULL: not at all */
    bool updates_each;         /* one update per micro-batch, so nothing can be clipped; else one per step */
    /* Gives the versions of its weights that a stage keeps, of which it computes with the oldest; NULL: one.
     * Asynchronous schedules have it alone. */
    int (*versions)(const struct schedule_place *place);
    bool folded; /* two chunks, the second from the last stage back to the first */
    bool copies; /* each chunk is a stage of a copy of the whole model; copies take micro-batches in turn */
    /* The order is laid out as if a backward pass took as long as a forward pass; else twice as long (clock.h). */
    bool equal_passes;
    bool by_stages; /* micro-batches must be a multiple of the stages; */
    bool grouped;   /* or go in groups of at least as many, what is left over no less, where a plan says so */
    bool (*legal)(const struct plan *plan, struct error *err); /* beyond all that; may be NULL: always */
    /* Writes the order of one stage, returns the number of actions. With out NULL it only counts. The opening comes
     * first; without it the order repeats step by step. */
    int (*order)(const struct schedule_place *place, struct action *out);
    /* Gives the largest number of (micro-batch, chunk) in flight in closed form; a test of the order. May be NULL: none
     * is known. */
    int (*in_flight)(const struct schedule_place *place);
};
extern const struct schedule *const schedules[]; /* from schedules.def, NULL-terminated */
enum {
#define SCHEDULE(symbol) SCHEDULE_##symbol,
#include "planner/program/schedules/schedules.def"
#undef SCHEDULE
    SCHEDULE_COUNT
};
int schedule_find(const char *name); /* index, or -1 */
/* These give pieces of chunks, which lie round by round: counted in the order of layers, copy after copy, which one a
 * stage's chunk is, and back. */
int schedule_piece(const struct schedule *schedule, int stages, int stage, int chunk);
int schedule_stage(const struct schedule *schedule, int stages, int piece);
/* Counts the pieces into which the layers are cut; every copy is cut alike. */
int schedule_pieces(const struct schedule *schedule, int stages, int chunks);
/* Gives a piece its layers, in every copy. */
void schedule_set_piece(struct plan *plan, int piece, struct layer_range range);
/* Gives the number of which micro-batches must be a multiple. */
int schedule_unit(const struct schedule *schedule, int stages);
int schedule_least_chunks(const struct schedule *schedule);
/* True when Megatron-Core's --microbatch-group-size-per-virtual-pipeline-stage may be that: groups of at least as many
 * micro-batches as stages, and of what is left over none or no less (megatron/core/pipeline_parallel/schedules.py,
 * forward_backward_pipelining_with_interleaving). */
bool schedule_group_legal(int stages, int micro_batches, int group);
/* Gives the least of them: the stages, where they divide; 0: there are fewer micro-batches than stages. */
int schedule_least_group(int stages, int micro_batches);
/* Gives the group that is said, else the least. */
int schedule_place_group(const struct schedule_place *place);
/* Gives the plan's group; 1 where the schedule has none. */
int schedule_group(const struct plan *plan);
/* Checks as legal() does for schedules whose two chunks are copies. */
bool schedule_check_copies(const struct plan *plan, struct error *err);
/* True when the schedule takes these numbers, by its flags alone: legal() may know more. */
bool schedule_takes(const struct schedule *schedule, int stages, int chunks, int micro_batches);

/* Gives the versions of its weights that a stage of the plan keeps. */
int schedule_versions(const struct plan *plan, int stage);
/* Counts updates of each weight in a step. */
int schedule_updates(const struct plan *plan);
/* Gives the version with which the stage computes a micro-batch, 0 being the newest at the beginning of the step; the
 * opening's are older than all updates. Its own update makes the version schedule_versions() later. */
int schedule_version(const struct plan *plan, int stage, int micro, enum step_part part);

/* Gives a stage's place in a pipeline of `stages` stages with one chunk and no replicas. */
struct schedule_place schedule_place_even(int stages, int stage, int micro_count, int extra_in_flight);
struct schedule_place schedule_place_of(const struct plan *plan, int stage);
/* Gives the largest prefix of FORWARD minus BACKWARD(_WEIGHT) of the stage's order: whatever is kept of them, if only
 * for the weights' gradients. Where steps run into each other, places for activations repeat with every step: each
 * micro-batch has the same place in every step, so that m micro-batches of which n are held take ceil(m / floor(m / n))
 * of them. False when out of memory. */
bool schedule_find_held(const struct schedule *schedule, const struct schedule_place *place, int *held);
/* Gives the same for who only wants to simulate enough of them: out of memory it is the most that any schedule holds.
 */
int schedule_held(const struct schedule *schedule, const struct schedule_place *place);
#endif
