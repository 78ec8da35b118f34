/* What a user's own measured runs say of the catalogue's rates: a small file that --profile takes beside profiles.
 *
 * A profile is measured kernels and transfers; a calibration only says how much faster or slower than the catalogue
 * devices and frameworks do each kind of work. It scales rates before anything is priced, so that a profile's own
 * measurements stay as they are, and what is not measured follows it. */
#ifndef CLEAVE_CLI_CALIBRATION_H
#define CLEAVE_CLI_CALIBRATION_H
#include "base/json.h"
#include "cli/like_runs.h"
#include "planner/facts/cluster.h"
#include "planner/facts/framework.h"

/* MECHANISM(id, key, spread, doc): kinds of work whose rate may be another than the catalogue has it, and how wide the
 * logarithm of their speed lies about 0 before anything is measured, of a device and of a framework alike: rates of
 * products are known to a tenth, what frameworks make of memory, links and hosts is not. */
#define MECHANISMS                                                                                                     \
    MECHANISM(PRODUCTS, "products", .1, "matrix products")                                                             \
    MECHANISM(FP8_PRODUCTS, "fp8_products", .15, "matrix products in fp8, beside what products in 16 bit say")         \
    MECHANISM(ATTENTION, "attention", .3, "attention")                                                                 \
    MECHANISM(ELEMENTWISE, "elementwise", .3,                                                                          \
              "what passes through memory: element-wise kernels, norms, optimizer, copies")                            \
    MECHANISM(LINKS, "links", .3, "transfers within a node")                                                           \
    MECHANISM(NETWORK, "network", .3, "transfers between nodes")                                                       \
    MECHANISM(HOST, "host", .3, "the host that issues instructions")
enum mechanism {
#define MECHANISM(id, key, spread, doc) MECHANISM_##id,
    MECHANISMS
#undef MECHANISM
        MECHANISM_COUNT
};
/* A rate is not off by more than this: what says so is another mistake. */
#define LEAST_SPEED .05
#define MOST_SPEED 20
extern const char *const mechanism_names[MECHANISM_COUNT + 1];

/* Speeds as shares of the catalogue's; what several corrections say of the same is multiplied. */
struct correction {
    const char *device, *framework; /* that it holds of; "": of any. "cleave": cleave itself */
    int64_t rows;                   /* runs that it was fitted to */
    double speed[MECHANISM_COUNT];  /* 1: as the catalogue says */
    int64_t memory_bytes;           /* that runs needed beside what was predicted; 0: nothing, or not known */
};
struct calibration {
    const char *source;               /* which runs */
    double error_before, error_after; /* of their steps, median of the absolute; 0: not known */
    int count;
    struct correction *corrections; /* (count) */
    int run_count;
    struct like_run *runs; /* (run_count) what each left when the corrections were made */
    uint64_t hash;
};
enum { CALIBRATION_MOST = 256 }; /* corrections */
#define CALIBRATION_FORMAT "cleave-calibration"
enum { CALIBRATION_VERSION = 1 };

/* Whether the text is a calibration and no profile: by its "format". */
bool calibration_is(const char *text, size_t length);
/* All in the arena. Refused with place and reason: what is no such file, two corrections of the same. */
bool calibration_read(struct calibration *out, struct arena *arena, const char *name, const char *text, size_t length,
                      struct error *err);
char *calibration_write(const struct calibration *calibration, size_t *length); /* deterministic; caller frees */
/* The index-th field table of the format and its name; NULL past the last. For `cleave schema`. */
extern const struct json_format calibration_formats[];
/**
 * Scales what the corrections hold of: devices and links of the cluster, which nobody has looked at, the framework's
 * host and attention (NULL: cleave itself), and keeps memory back. False, and nothing changed, where none holds of any
 * of it, or no memory would be left.
 */
bool calibration_apply(const struct calibration *calibration, struct cluster *cluster, struct framework *framework);
/* Says, where it was not applied, what its corrections hold of, and what to give for one that holds of a device of the
 * cluster. Returns false. */
bool calibration_refuse(const struct calibration *calibration, const struct cluster *cluster,
                        const struct framework *framework, struct error *err);
/* Gives the step of the job as runs like it took it, of one that is predicted with these calibrations, (count). *alike:
 * how many runs are more like it than not. */
int64_t calibration_step_ns(const struct calibration *calibrations, int count, const struct run_shape *job,
                            int64_t step_ns, int *alike);
#endif
