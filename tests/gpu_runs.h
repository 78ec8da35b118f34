/* Whole runs on emulated GPUs, or on the one behind a module, for tests: what they compute, what their device was
 * asked, and plans to try. */
#ifndef CLEAVE_TESTS_GPU_RUNS_H
#define CLEAVE_TESTS_GPU_RUNS_H
#include "check.h"
#include "executor/backends.h"
#include "executor/gpu/gpu.h"
#include "executor/run.h"
#include "tests/gpu_module.h"
#include "tiny_models.h"

enum { STEPS = 3, MOST_STEPS = 7, MAX_WEIGHTS = 64, MAX_RANKS = 8 };

/* Of shares that are not small each precision has every other case, since both run the same lines. */
static inline bool gpu_has_turn(int number)
{
    return small_share() || in_turn(number + (sizeof(real) == sizeof(double)), 2);
}

/* What devices were asked since a test last said 0. */
extern struct counted {
    _Atomic int granted[GPU_BIAS_GRADIENT + 1]; /* products with what follows them, by epilogue */
    /* Calls of the library, by how many products they are; of all, those with fixed bits. */
    _Atomic int64_t calls_of[5], products_with_fixed_bits, products;
    _Atomic int64_t launches[GPU_KERNEL_COUNT];
    _Atomic int64_t refused[2], notes;               /* products: plain ones, others; notes of such */
    _Atomic int64_t compared[GPU_BIAS_GRADIENT + 1]; /* products that could be, by epilogue */
    _Atomic int replays, marks, open_marks;
} counted;

/* The first step's gradient of each weight of a plan of one rank. */
struct gradients {
    const struct program *program; /* of the running plan */
    real *of[MAX_WEIGHTS];         /* NULL: it has none */
    int64_t elements[MAX_WEIGHTS];
    char name[MAX_WEIGHTS][64];
};
extern struct run_settings { /* of the runs that follow */
    int steps;               /* STEPS unless a test says otherwise */
    int saves_beside;        /* steps of a run that saves, but for its last */
    bool fixed_bits, no_graphs;
    int refuse_each;             /* the library refuses one product of so many; 0: none */
    bool compares_apart;         /* it tries what would be done without its epilogue twice before */
    struct gpu_learned *learned; /* of a profile; NULL: none is measured */
    struct gradients *gradients; /* where runs put them; NULL: nobody asks */
} settings;

struct outcome {
    double loss[MOST_STEPS], weight_sum, squared_norm;
    int64_t spans_in_order;
    struct memory_outside outside[MAX_RANKS];
};
/* write: a folder that a run of one step leaves a checkpoint in; resume: one to go on from; NULL: neither. */
struct outcome gpu_run_as(enum dtype dtype, const char *model, const struct tiny_choice *choice,
                          const struct device *device, const char *write, const char *resume);
/* In the precision of the build. */
struct outcome gpu_run(const char *model, const struct tiny_choice *choice, const struct device *device,
                       const char *write, const char *resume);
/* All losses and the norm, up to rounding. */
void gpu_expect_same(const struct outcome *got, const struct outcome *want);

/* Emulated: teams of one thread with a library, and of two without. */
extern const struct device device_single, device_teams;
enum { GPU_TRIED = 7 };
extern const struct tiny_choice gpu_single, gpu_choices_tried[GPU_TRIED];
#endif
