/* What asynchronous schedules compute, emulated: one micro-batch after the other on one rank, each with the version of
 * the weights that the schedule's definition says, in double precision. */
#ifndef CLEAVE_TESTS_STEADY_EMULATION_H
#define CLEAVE_TESTS_STEADY_EMULATION_H
#include "tests/check.h"
#include "executor/data.h"
#include "executor/run.h"
#include "tests/tiny_models.h"
#include <pthread.h>

enum { STEADY_STEPS = 3, MAX_UPDATES = 64 };
/* Of a weight's norm, or of a thousandth of the norm of all: the gradient of a key bias is zero (it shifts all scores
 * of a row alike), so what moves it is rounding. */
static const double STEADY_TOLERANCE = 1e-10;

struct emulation {
    struct graph *graph;
    struct plan *plan;
    struct program *program;
    struct transport transport;
    struct rank *rank;
    struct run_options options;
    struct data data;
    int micros;
    int *stored, *summed;            /* (weights) buffers of the weight and of its gradient, if it is not frozen */
    real **version[MAX_UPDATES + 1]; /* [updates so far][weight] */
    real **first, **second, **gradient;
    double loss[STEADY_STEPS], norm; /* norm: of all initial weights */
};
/* A one-rank program of the model over so many sequences in so many micro-batches. */
void emulation_open(struct emulation *e, const char *model, int batch, int micros);
void emulation_close(struct emulation *e);
/* What the plan's schedule is defined to compute, from the beginning; returns the number of updates. PipeDream's stage
 * k of P computes micro-batch j with what P - k - 1 micro-batches before it left (vertical sync: P - 1). */
int emulate(struct emulation *e, const struct plan *plan);
int emulate_pipedream(struct emulation *e, const struct plan *plan, bool vertical);

struct steady_record {
    const struct program *program;
    const struct emulation *emulation;
    int updates;
    pthread_mutex_t mutex;
    double loss[STEADY_STEPS], worst; /* worst: largest difference of a weight, of its norm */
    uint64_t weights;
    int64_t *seen; /* (weights) elements compared on ranks that count */
};
/* Runs the program for STEADY_STEPS and holds its weights against the emulation after `updates` updates; every element
 * must be seen. */
void run_steady(struct steady_record *r, const struct emulation *e, const struct program *program, int updates,
                bool tcp);
/* Aborts the test where weights or losses differ. */
void check_steady(const struct steady_record *r, const struct emulation *e, const char *name);
#endif
