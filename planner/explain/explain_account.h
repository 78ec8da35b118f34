/* One plan taken apart: where every nanosecond of its step and every byte of its arena goes. */
#ifndef CLEAVE_EXPLAIN_EXPLAIN_ACCOUNT_H
#define CLEAVE_EXPLAIN_EXPLAIN_ACCOUNT_H
#include "planner/estimate/pace_shelf.h"
#include "planner/facts/profile.h"
#include "planner/layout/contents.h"
#include "planner/program/program.h"
#include "planner/sim/timeline.h"

struct model;

/* A plan taken apart. Its program, laid out, can be timed under any facts, since what it does depends on none. */
struct explained {
    const struct model *model;
    struct plan *plan; /* a copy */
    struct graph *graph;
    struct kept_pace *pace;        /* NULL: not lowered, or dropped */
    const struct program *program; /* of the pace, laid out; NULL with it */
    bool whole; /* set before explained_lower(), without a shelf: it is taken apart as `plan` tells it in the end */
    bool measured;
    struct stage_memory *memory; /* (stages) of it, with what further micro-batches are promised among the gaps; zeroes
                                    before explained_lower(), and then it stays */
};
/* Fails when the plan is not legal for the model. The caller frees *out: explained_free(). */
bool explained_open(struct explained **out, const struct model *model, const struct plan *plan, struct error *err);
void explained_free(struct explained *explained); /* accepts NULL */
/* Makes program and memory, if they are not there. shelf: where the program may be, gone when dropped; may be NULL. */
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
    int64_t *host_bytes;                     /* (stages) of host memory for one, as laid out */
    bool fits;
};
/* Accounts for the plan, lowered, under these facts. *out is to be freed with account_free(). */
bool account_open(struct account *out, struct explained *explained, const struct facts *facts, struct error *err);
int64_t account_left_bytes(const struct account *account, int stage); /* negative: missing */
void account_free(struct account *account);
#endif
