/* The room of estimates: what a plan costs.
 *
 * It answers in two ways. The judge's is a simulation: the plan's program, laid out and run on a virtual clock, whole,
 * or of as many micro-batches as tell the rest (estimate_plan(), estimate_plan_steady()). The walk (pipeline.h) is
 * layer by layer over the search's prices, fast enough to rank many plans. assemble.h makes a plan of a configuration
 * and a solution of its cut.
 *
 * It uses space/, price/, cut/ and sim/; the simulation is the judge of every plan, the search's formula only proposes.
 * Tested by tests/test_estimate.c (short against whole), test_walk.c (walk against simulation), test_period.c. */
#ifndef CLEAVE_ESTIMATE_ESTIMATE_H
#define CLEAVE_ESTIMATE_ESTIMATE_H
#include "planner/plan/prediction.h"
#include "planner/sim/simulate.h"

struct estimate {
    struct arena arena;
    struct prediction
        prediction;     /* arrays in the arena; the breakdown is by enum time_kind, of the stage with the latest end */
    double model_flops; /* floating-point operations of one step that the model needs: no recomputation, no vocabulary
                            padding */
    int micro_batches_simulated; /* below the plan's own: the rest repeats the steady state */
    int64_t program_instrs;      /* of the program that was simulated */
    int64_t apart_ns;            /* of a shortened step, or one that is to be worth it: were no bytes used twice; when
                                    beaten, of the whole step */
    int busiest;                 /* of a shortened step that was not beaten: the stage that computes longest, */
    int64_t apart_idle_ns;       /* and how long nothing runs there in apart_ns */
    bool beaten;                 /* not worth it: neither memory nor time were looked at further */
    bool unplaced;               /* no layout would fit, so that none was made: its bytes are the fewest of any */
    bool brief;                  /* its layout was (layout_ask): by a full one other instructions may wait for bytes */
    int64_t effort;              /* about how long lowering, layout and simulation took, in instructions */
};

/**
 * Lowers, lays out and simulates the whole plan.
 *
 * The plan must have passed plan_check() for the graph. *out is the caller's: estimate_free(). prediction.fits says
 * whether every stage's arena fits into a device; a plan that does not fit still has a time. Fails when lowering or the
 * simulation does.
 */
bool estimate_plan(struct estimate **out, const struct graph *graph, const struct plan *plan, const struct facts *facts,
                   struct error *err);
struct timeline;
/* Estimates a plan by its program, where that is there already: laid out. timeline, if it is not NULL, becomes the step
 * that was simulated for it; the caller frees that too. */
bool estimate_timeline(struct estimate **out, struct timeline **timeline, const struct program *program,
                       const struct facts *facts, struct error *err);
struct chain;
struct pace_shelf;
struct price_table;
struct model;
/**
 * Estimates a plan of many micro-batches likewise, without prices. Where a shorter step is proven to repeat in its
 * middle (planner/sim/period.h) it says what the whole takes, to the nanosecond; memory is then what the search for a
 * layout is content with, at most 1/200 above the most bytes alive. Of very many micro-batches two shorter steps are
 * simulated else, of twice and five times as many as settle (all in flight and two more), and it goes on by their
 * difference: within 0.25 % of the whole, 0.5 % with two copies of the model (tests/test_estimate.c,
 * periodic_estimate_agrees). Simulates the whole plan where neither saves enough; estimate->micro_batches_simulated
 * says which.
 */
bool estimate_plan_periodic(struct estimate **out, const struct model *model, const struct graph *graph,
                            const struct plan *plan, const struct facts *facts, struct error *err);
/**
 * Estimates likewise at the price of few micro-batches: lowers, lays out and simulates as many as are in flight at once
 * and two more, which already need all the memory, and adds what the layer-by-layer pipeline (pipeline.h) takes for the
 * others, or what a longer step tells where it is doubted. Simulates the whole plan where that saves nothing. Of a plan
 * that does not fit only the memory is told, that no layout is below, and no time. Of one that takes worth_ns and more
 * (INT64_MAX: any is welcome) only that: it is beaten.
 *
 * model is what graph was built from; chain and table price the plan's layers.
 */
bool estimate_plan_steady(struct estimate **out, const struct model *model, const struct graph *graph,
                          const struct plan *plan, const struct chain *chain, const struct price_table *table,
                          const struct facts *facts, int64_t worth_ns, struct error *err);
/* Judges as estimate_plan_steady() does, but what further micro-batches take is simulated, too (pace.h), and not
 * priced; so it wants no prices. shelf: where the pace may stand already, and stays; NULL: nobody asks for it again,
 * and of uneven passes a glance comes first. */
bool estimate_plan_paced(struct estimate **out, struct pace_shelf *shelf, const struct model *model,
                         const struct graph *graph, const struct plan *plan, const struct facts *facts,
                         int64_t worth_ns, struct error *err);
/**
 * Takes a second look at the memory of a plan that is chosen or hardly fits: that of the whole step, or of as many
 * micro-batches as are soon laid out, replaces what few of them promise. model: the plan's.
 */
bool estimate_settle(struct estimate *estimate, const struct model *model, const struct plan *plan,
                     const struct facts *facts, struct error *err);
/**
 * Puts in place of an estimate of few micro-batches the whole plan's, or else the periodic one, where it is soon made
 * and the plan fits. graph: the plan's, of the model.
 */
bool estimate_whole(struct estimate **estimate, const struct model *model, const struct graph *graph,
                    const struct plan *plan, const struct facts *facts, struct error *err);
/**
 * Gives the memory that estimate_plan_steady() and estimate_settle() tell in the end, alone and without facts: into
 * bytes, (stages). It is the arena where the whole program is laid out, and between the arena and 2 % more where few
 * micro-batches are enough (docs/cost-model.md, "How exact", has the exceptions). Fails when lowering or layout does.
 */
bool estimate_plan_bytes(int64_t *bytes, const struct model *model, const struct plan *plan, struct error *err);
/* Gives these bytes for a plan whose program, or that of as many micro-batches as settle, is laid out. */
bool estimate_program_bytes(int64_t *bytes, const struct program *program, const struct model *model,
                            const struct plan *plan, struct error *err);
/* Gives what each stage holds at least, (stages), by the prices of its layers. It counts what schedules that compute
 * weights' gradients apart from inputs' keep for them, of which the closed form knows nothing. */
bool estimate_held_bytes(int64_t *bytes, const struct plan *plan, const struct chain *chain,
                         const struct price_table *table, struct error *err);
/* Gives the number of micro-batches after which a further one only repeats: all stages have been full once and memory
 * has reached its peak. Replicas and copies of the model each see a share of them. */
int estimate_settled_micro_batches(const struct plan *plan);
/* Gives so many times as many groups of micro-batches as settle, and what is left over once, so that such a step is
 * legal where the whole one is; of passes: as many for each chunk, whose passes have a longer pattern. */
int estimate_settled_times(const struct plan *plan, int times);
int estimate_settled_passes(const struct plan *plan, int times);
/* Estimate the effort (struct estimate) of judging on few beforehand, to a factor of a few, and its instructions. */
int64_t estimate_effort(const struct plan *plan);
int64_t estimate_instrs(const struct plan *plan);
/* True when that is another program than the plan's: then a stage fits only if it leaves some room. */
bool estimate_shortens(const struct plan *plan);
/* Gives what of so many bytes estimate_plan_steady() lets the program of such a plan have. */
int64_t estimate_promised_bytes(int64_t bytes, const struct plan *plan);
int64_t estimate_doubtful_bytes(int64_t bytes); /* what the closed form may use where a layout may have to do with these */
void estimate_free(struct estimate *estimate);                    /* accepts NULL */
int64_t estimate_peak_bytes(const struct prediction *prediction); /* of its fullest stage */

/* Counts the floating-point operations that one step of the model needs (see struct estimate). */
double estimate_model_flops(const struct graph *graph);
#endif
