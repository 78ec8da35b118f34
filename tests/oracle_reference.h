/* What one rank computes, as the reference that every other plan is held against. */
#ifndef CLEAVE_TESTS_ORACLE_REFERENCE_H
#define CLEAVE_TESTS_ORACLE_REFERENCE_H
#include "tests/check.h"
#include "executor/kernel.h"
#include "executor/run.h"
#include "tests/tiny_models.h"
#include <pthread.h>

enum { PRECISE = sizeof(real) == sizeof(double), STEPS = 2, MAX_RANKS = 8 };
extern const double TOLERANCE[STEPS]; /* of the 2-norms, by step */

struct reference {
    struct model *model;
    struct graph *graph;
    double **gradient[STEPS]; /* (step, weight) in global order */
    double *norm[STEPS], all[STEPS];
    double loss[STEPS], squared_norm;
};

/* Of all that a run computes: losses, hashes of all ranks' gradients, and of their weights after the last step. */
struct bits {
    double loss[STEPS];
    uint64_t gradients, weights;
};

/* What a run is held against, or what the single-rank run fills in. */
struct watch {
    const struct reference *reference;
    const struct program *program;
    bool record, over_tcp; /* else over threads */
    struct bits *bits;     /* may be NULL: nothing is hashed; else nothing is compared */
    pthread_mutex_t mutex;
    double error;  /* the largest, in tolerances */
    int worst;     /* its weight */
    int64_t *seen; /* (step, weight): elements compared, of the ranks that count */
    double loss[STEPS];
};

/* The caller frees it. make_reference() is of TINY_BATCH and TINY_VOCAB_MULTIPLE. */
struct reference make_reference(const char *json, double clip);
struct reference make_reference_of(const char *json, double clip, int batch, int vocab_multiple);
void free_reference(struct reference *reference);

/* Runs w->program; mute_instr -1: no instruction is silenced. */
bool run_watched(struct watch *w, int mute_stage, int mute_instr, struct run_summary *summary, struct error *err);
/* True when nothing differs from the reference; else why says what. */
bool run_and_compare(const struct reference *reference, const struct program *program, int mute_stage, int mute_instr,
                     char *why, size_t room);
struct bits run_bits(const struct reference *reference, const struct program *program, bool over_tcp, int mute_stage,
                     int mute_instr);
/* These abort the test where the plan computes anything else or the planner promises less memory than it takes, or much
 * more; the message holds the plan. */
void must_agree(const struct reference *reference, const struct plan *plan, uint64_t seed);
void must_agree_choice(const struct reference *reference, const struct tiny_choice *choice);
/* Of so many numbers that follow each other (CLEAVE_ORACLE_SAMPLE) one, drawn so that no switch of a list is left out.
 */
bool is_drawn(int number);
/* Whether a plan of an exhaustive list is run. To be asked once for each of the list. */
bool is_sampled(const struct graph *graph);
/* CLEAVE_ORACLE_WHOLE is set: lists that are otherwise thinned out for one precision or one of two models run whole. */
bool whole_lists(void);
/* must_agree() of one of a list, if it is sampled. */
void check_plan(const struct reference *reference, const struct plan *plan, uint64_t seed);
void check_choice(const struct reference *reference, const struct tiny_choice *choice);

/* A case that runs once for each model. */
void add_for_models(Suite *suite, const char *name, const TTest *test);
/* Runs the suite; the program's exit status. */
int oracle_main(Suite *suite);
#endif
