/* What estimate.c, estimate_few.c and estimate_memory.c share. */
#ifndef CLEAVE_ESTIMATE_ESTIMATE_PARTS_H
#define CLEAVE_ESTIMATE_ESTIMATE_PARTS_H
#include "planner/estimate/estimate.h"
#include "planner/estimate/pace.h"

/* Says how a program is judged: simulated although it does not fit; whether it stands for one of more micro-batches;
 * what the promise of its memory adds, if it has fewer micro-batches than the plan: up to 1/64 so many times, as more
 * may pack a little worse, and what they leave behind; and what the walk says of its micro-batches and the others. */
struct judging {
    bool always, shortened;
    int rooms, left_out; /* micro-batches */
    int64_t walked_ns, further_ns;
};

/* ---- estimate.c ---- */
struct estimate *estimate_new(int stage_count); /* NULL: no memory */
/* Estimates all but the rates, which need the true batch. worth_ns: what a step must stay below with the micro-batches
 * that are left out, or INT64_MAX. */
bool estimate_judge(struct estimate **out, const struct graph *graph, const struct plan *plan,
                    const struct facts *facts, const struct judging *judging, int64_t worth_ns, struct error *err);
/* Notes the length of the program that is judged, and about how long that takes. */
void estimate_note_length(struct estimate *estimate, const struct program *program);
int64_t estimate_stage_effort(int64_t instr_count);
/* Fills in the step that was simulated, where its costs come from, and its breakdown. */
void estimate_fill_step(struct estimate *estimate, const struct program *program, const struct timeline *timeline,
                        const struct facts *facts);
void estimate_find_origins(struct prediction *p, const struct program *program, const struct facts *facts);
/* Fills in what the report says of the step beside its time. */
void estimate_fill_rates(struct estimate *estimate, const struct graph *graph, const struct plan *plan,
                         const struct facts *facts);

/* ---- estimate_memory.c ---- */
/* Says how a plan is judged on few micro-batches. */
struct judging estimate_judging_shortened(const struct plan *plan);
/* Says how it is judged by a pace's few. */
struct judging estimate_judging_paced(const struct pace *pace);
/* Gives what the program's arena promises of the stage's memory. */
int64_t estimate_stage_bytes(const struct program *program, int stage, const struct judging *judging);
/* Gives bytes of a stage's arena that promise no more than its device has. */
int64_t estimate_enough_bytes(const struct program *program, int stage, const struct facts *facts,
                              const struct judging *judging);
/* Fills in the bytes of a program that is laid out, against the devices'. */
void estimate_fill_bytes(struct prediction *p, const struct program *program, const struct facts *facts,
                         const struct judging *judging);
/* Fills in the same, and what they are on the fullest stage. Fails for want of memory. */
bool estimate_fill_memory(struct estimate *estimate, const struct program *program, const struct facts *facts,
                          const struct judging *judging, struct error *err);
/**
 * Fills in the bytes of the plan by a program of fewer micro-batches, whose lifetimes are split and whose middle
 * repeats (planner/sim/period.h): no more live at once in the plan's, and where the search for a layout is content here
 * it is there. Else, and where few instructions may pack in leaps, the plan's is laid out if `whole`, or a second look
 * is taken as estimate_settle() does. The estimate knows the program's length. Fails when lowering or layout does.
 */
bool estimate_fill_repeating(struct estimate *estimate, struct program *program, const struct model *model,
                             const struct plan *plan, const struct facts *facts, bool whole, struct error *err);

/* ---- estimate_few.c ---- */
/* Gives what the micro-batches that are left out take at least, beside so many ns of the others. */
int64_t estimate_least_further_ns(const struct plan *plan, const struct judging *judging, int64_t ns);
/* Numbers of micro-batches that leave no replica without work and that the schedule takes are multiples of it. */
int estimate_micro_batch_unit(const struct plan *plan);
/* Makes the same plan for so many micro-batches of the same size, and its graph; the caller's both, on failure too. */
bool estimate_shorten(struct plan **out, struct graph **graph, const struct model *model, const struct plan *plan,
                      int micro_batches, struct error *err);
/* Makes its program, too. The caller frees it, on failure too. */
bool estimate_lower(struct shortened *out, const struct model *model, const struct plan *plan, int micro_batches,
                    struct error *err);
void estimate_shortened_free(struct shortened *shortened); /* leaves it empty */
#endif
