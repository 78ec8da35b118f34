/* One plan taken apart: where every nanosecond of its step and every byte of its arena goes. */
#ifndef CLEAVE_EXPLAIN_EXPLAIN_ACCOUNT_H
#define CLEAVE_EXPLAIN_EXPLAIN_ACCOUNT_H
#include "planner/estimate/pace_shelf.h"
#include "planner/facts/profile.h"
#include "planner/program/program.h"
#include "planner/sim/timeline.h"

struct model;

enum memory_kind {
    MEMORY_WEIGHTS,     /* stored weights */
    MEMORY_OPTIMIZER,   /* its states */
    MEMORY_GRADIENTS,   /* accumulators, what backward has just written, what was reduced */
    MEMORY_ACTIVATIONS, /* forward values: kept for backward, or in use */
    MEMORY_LOGITS,      /* with their gradients and probabilities: all values over the vocabulary */
    MEMORY_GATHERED,    /* weights and values that ranks have gathered for use */
    MEMORY_TRANSIENT,   /* gradients of values, and what lies between the steps of a conversion */
    MEMORY_WORKSPACE,   /* of the kernels */
    MEMORY_GAPS,        /* what the layout could not fill at that moment */
    MEMORY_KIND_COUNT
};
extern const char *const memory_kind_names[MEMORY_KIND_COUNT + 1];

struct stage_memory {
    int64_t bytes[MEMORY_KIND_COUNT]; /* of one rank at the moment when most lives; add up to peak_bytes */
    int64_t peak_bytes;               /* the arena */
    int peak_instr;                   /* the instruction at that moment */
    int peak_layer;                   /* its graph layer, -1 none */
    int in_flight;                    /* micro-batches that have activations at that moment */
};
/* What fills each stage's arena; stages has stage_count entries. The program must be laid out. Fails for want of
 * memory. */
bool account_program_memory(const struct program *program, struct stage_memory *stages, struct error *err);

/* A plan taken apart. Its program, laid out, can be timed under any facts, since what it does depends on none. */
struct explained {
    const struct model *model;
    struct plan *plan; /* a copy */
    struct graph *graph;
    struct kept_pace *pace;        /* NULL: not lowered, or dropped */
    const struct program *program; /* of the pace, laid out; NULL with it */
    bool measured;
    struct stage_memory *memory; /* (stages) of it, with what further micro-batches are promised among the gaps; zeroes
                                    before explained_lower(), and then it stays */
};
/* Fails when the plan is not legal for the model. The caller frees *out: explained_free(). */
bool explained_open(struct explained **out, const struct model *model, const struct plan *plan, struct error *err);
void explained_free(struct explained *explained); /* accepts NULL */
/* Program and memory, if they are not there. shelf: where the program may be, and goes when it is dropped; may be NULL.
 */
bool explained_lower(struct explained *explained, struct pace_shelf *shelf, struct error *err);
void explained_drop(struct explained *explained, struct pace_shelf *shelf);
int64_t explained_peak_bytes(const struct explained *explained); /* of the fullest stage; after explained_lower() */

struct account {
    struct arena arena;
    int64_t step_ns;
    int stage_count, last_stage, full_stage; /* last_stage ends last; full_stage has least memory left */
    int64_t (*time_ns)[TIME_KIND_COUNT];     /* (stages): each adds up to step_ns */
    const struct stage_memory *memory;       /* (stages), borrowed from the plan's struct explained */
    int64_t *available_bytes;                /* (stages) usable on a device of the stage */
    bool fits;
};
/* The plan, lowered, under these facts. *out is to be freed with account_free(). */
bool account_open(struct account *out, struct explained *explained, const struct facts *facts, struct error *err);
int64_t account_left_bytes(const struct account *account, int stage); /* negative: missing */
void account_free(struct account *account);
#endif
