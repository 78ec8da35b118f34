/* A plan whose programs are kept, so that it is lowered once and timed under many facts. Of many micro-batches they are
 * programs of few: a step of as many as settle, laid out, and what the others take by the pace of two steps, in which
 * no bytes are used twice, or laid out, too, where passes are uneven or wait for bytes. Within 1 % of the whole step, 5
 * % where split backward passes gather weights (tests/test_estimate.c, pace_agrees). */
#ifndef CLEAVE_ESTIMATE_PACE_H
#define CLEAVE_ESTIMATE_PACE_H
#include "planner/program/program.h"
#include "planner/sim/simulate.h"

struct facts;
struct model;
struct shortened {
    struct plan *plan;
    struct graph *graph;
    struct program *program; /* NULL: not lowered */
};
struct pace {
    const struct model *model;
    const struct plan *plan; /* the whole one; borrowed, as the model */
    int further, period;     /* micro-batches that `few` has not, and that `longer` has more; 0: few is all */
    struct shortened few, longer, longer_laid_out; /* the last: where it is needed */
    bool laid_out;                                 /* few is */
    bool whole;                                    /* few is all, and is laid out as thoroughly as a chosen plan is */
    struct stage_program *early; /* (stages) few's lists before it was laid out, with less waits; NULL: it is not */
    int64_t *least_bytes; /* (stages) that few's layout promises at least, whatever it is; NULL: nobody has asked */
    bool uneven; /* passes are: then, and where few micro-batches wait for bytes, two numbers of them are laid out */
    bool waits;  /* these do, */
    bool shared; /* as the first to time it found, for all threads that time it behind that one */
};
/* A step's time, and each stage's part of it; (stages) adds up to step_ns. */
struct paced_step {
    int64_t step_ns;
    int stage_count, last_stage; /* last_stage ends last */
    int64_t (*time_ns)[TIME_KIND_COUNT];
};
/* A step's time if no bytes are used twice, and which few tell it. paced_apart_close() ends it. */
struct paced_apart {
    int64_t step_ns;
    struct paced_step few, longer;
    bool priced;                /* there are durations */
    struct durations durations; /* of few's instructions under these facts, which its layout does not change */
};
void paced_apart_close(struct paced_apart *apart);
/* True when passes come in a longer pattern, of chunks, split backward passes or drifting copies, and waits for bytes
 * too: then more micro-batches are looked at, both times laid out. Else one is like the other in full pipelines. */
bool pace_is_uneven(const struct plan *plan);
/* Lowers what is laid out, other programs when they are needed. plan: plan_check()ed. The caller closes it, on failure
 * too. glance: as of even passes, of which none is to be laid out. */
bool pace_open(struct pace *out, const struct model *model, const struct plan *plan, bool glance, struct error *err);
void pace_close(struct pace *pace);
/* Looks at the whole step, as simulate does, where that takes a second or two; before anything is laid out. */
bool pace_look_at_all(struct pace *pace, struct error *err);
/* Gives the number of micro-batches of `few`. */
static inline int pace_micro_batches(const struct pace *pace)
{
    return pace->plan->micro_batch_count - pace->further;
}
/* Times the step under these facts as if no bytes were used twice, in the arena: hardly more than the plan takes. */
bool pace_time_apart(struct pace *pace, const struct facts *facts, struct arena *arena, struct paced_apart *out,
                     struct error *err);
/* Finds `least_bytes`, once: soon known beside what a layout takes. */
bool pace_bound(struct pace *pace, struct error *err);
/* Lays `few` out, once: it tells the memory. */
bool pace_lay_out(struct pace *pace, struct error *err);
/* Times the step, when it is laid out. apart: under the same facts; where few is all it may be empty. */
bool pace_time(struct pace *pace, const struct facts *facts, const struct paced_apart *apart, struct arena *arena,
               struct paced_step *out, struct error *err);
#endif
