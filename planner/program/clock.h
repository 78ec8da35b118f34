/* When each action of a plan would run where forward takes 1, each half of backward 1, all of it at once 2 (1 where the
 * schedule's order is laid out so), times the work of its layers where the plan says so, and messages nothing. */
#ifndef CLEAVE_PROGRAM_CLOCK_H
#define CLEAVE_PROGRAM_CLOCK_H
#include "planner/program/schedule.h"

struct chunk_clock {
    int piece;
    bool first, last; /* of its copy of the model */
    int64_t work;     /* of a forward pass */
};
struct stage_clock {
    struct chunk_clock *chunks;
    struct action *actions; /* (count) micro-batches numbered in the step, not among the stage's own */
    int64_t *end;           /* (count) when each ends */
    int count;
};
struct clock {
    struct stage_clock *stages;
    int64_t *forward_end, *backward_end; /* [piece * micro_batch_count + micro] */
    int positions;                       /* stages, replicas that take turns counted once */
    int *position;                       /* (stage_count) */
};
/* Gives the order of one stage in the step's micro-batch numbers, in the arena; NULL when out of memory. */
struct action *clock_actions(const struct plan *plan, int stage, int *count, struct arena *arena);
/* Gives each layer of the plan, by place, its share of all floating-point operations forward, in hundredths of a
 * layer's mean; `order` as the graph's layers stand in the plan, NULL: as they are. NULL when out of memory. */
int *clock_work(const struct graph *graph, const int *order, struct arena *arena);
/* True when a stage of a framework that runs passes together (struct keeping) does so with these two, which follow each
 * other: where more are in flight than the schedule needs, on one stage or in chunks, as Megatron-Core does it. */
bool clock_pairs(const struct plan *plan, const struct action *forward, const struct action *backward);
/* Runs all stages' actions, in the arena. together: passes run so. work: clock_work(), used where the plan's clock is
 * by work. Fails when the orders wait for each other: a bug of the schedule. */
bool clock_run(struct clock *out, const struct plan *plan, bool together, const int *work, struct arena *arena,
               struct error *err);
/* A pipeline of stages that have as many chunks and layers each. */
struct clock_shape {
    int schedule, stages, chunks, micro_batches, extra_in_flight;
};
/* Gives such a pipeline's step by the clock, over what each stage works in it: 1 where none is ever idle. Of very many
 * micro-batches only as many are run as fill it and let it drain, since they are idle no longer. */
bool clock_stretch(double *out, const struct clock_shape *shape, struct error *err);
/* Gives when the stage's chunk has ended the forward or backward pass of a micro-batch. */
int64_t clock_end(const struct clock *clock, const struct plan *plan, int stage, int chunk, int micro, bool backward);
/* True when stages post their receives in the order of the clock, since messages overtake each other
 * (lower_arrivals.c). */
bool clock_posts_early(const struct plan *plan);
/* True when, of other plans, one posts early where values skip stages: under 1f1b, whose senders would wait for readers
 * far behind them (DeepSeek-V3 with further tokens in a stage of their own on 512 H100: 28.9 s a step, 39.0 without),
 * not where all forward passes come first (t5-base in 4 stages of gpipe on RTX 4090: 649 ms, 753 with). */
bool clock_posts_skips(const struct plan *plan);
/* A message as its receiver knows it: when the clock sends it, which stage does, its rank among those of one pass. */
struct clock_message {
    int64_t time;
    int from, rank;
};
/* Orders such receives as they are posted: below 0 where a's is the first, 0 where ranks are equal, too. */
int clock_compare_messages(const struct clock_message *a, const struct clock_message *b);
/* True when the receive is posted before the stage's action: the message is sent while that runs, or before. */
static inline bool clock_posts_before(const struct clock *clock, int stage, int action, const struct clock_message *m)
{
    return m->time < clock->stages[stage].end[action];
}
#endif
