/* What fills a stage's arena at the moment when most bytes live, by kind. */
#ifndef CLEAVE_LAYOUT_CONTENTS_H
#define CLEAVE_LAYOUT_CONTENTS_H
#include "base/arena.h"
#include "planner/program/by_stage.h"
#include "planner/program/program.h"

struct life;

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

/* A program that is laid out, borrowed, and room to look at one stage of it after the other. */
struct contents {
    struct arena arena;
    const struct program *program;
    struct by_stage of;
    struct life *lives; /* (buffers) */
    bool *gathered;     /* (buffers) */
};
/* Opens `out` for a program; the caller closes it, on failure too. Fails for want of memory, as contents_find()
 * does. */
bool contents_open(struct contents *out, const struct program *program, struct error *err);
bool contents_find(struct stage_memory *out, struct contents *contents, int stage, struct error *err);
/* Counts what is promised beyond the arena among the gaps, since further micro-batches may pack otherwise. */
void contents_promise(struct stage_memory *memory, int64_t peak_bytes);
void contents_close(struct contents *contents);
#endif
