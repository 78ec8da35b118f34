/* The facts as they might be: other devices, other links, more memory, more nodes, or the same with noise. */
#ifndef CLEAVE_EXPLAIN_EXPLAIN_FACTS_H
#define CLEAVE_EXPLAIN_EXPLAIN_FACTS_H
#include "planner/facts/profile.h"

/* Factors of 1 change nothing. Rates are multiplied, so measured times are divided. */
struct variation {
    double matmul, attention,
        vector;                   /* compute rates: matrix products, attention, everything else and memory traffic */
    double bandwidth[MAX_LEVELS]; /* of each level of links; latencies stay */
    double memory;                /* usable bytes per device */
    unsigned types;               /* only the nodes of these types, bit t for type t; 0: of all */
    int units;                    /* of the outermost level: nodes, or devices of the only node; 0: as many */
    int devices;                  /* so many of the one unit that is left; 0: all */
    int times;                    /* so many times the nodes instead, where one node alone becomes several; 1 */
    int widen;                    /* so many times the devices in a node, and as many fewer nodes; 1 */
};
struct variation variation_none(void);
/* True when a layer's prices on some ranks stay what they are: memory may change, and how many units there are of the
 * outermost level, which no collective knows of. */
bool variation_keeps_prices(const struct cluster *cluster, const struct variation *v);
/* Draws seeded noise: every factor evenly from 1 - amount to 1 + amount, independently. The same seed gives the same
 * factors relative to the amount, so draws of different amounts are comparable. */
struct variation variation_noise(uint64_t seed, double amount);

struct varied {
    struct arena arena;
    struct cluster *cluster;
    struct profile *profiles[MAX_TYPES]; /* copies of the facts' list, in its order */
    int profile_count;
    struct facts facts;     /* of these */
    int of_type[MAX_TYPES]; /* devices of each type of the original */
    const char *words;      /* "3 h100-sxm and 2 l40s" */
    const char *typed;      /* what to give as --cluster, where devices were left out; NULL: it has no short form */
};
/**
 * Makes a copy of the facts with the variation applied. Strings are borrowed from the original. The caller frees it:
 * varied_free(). Fails when the cluster would have too many devices, or nodes cannot be widened or divided so.
 */
bool varied_open(struct varied *out, const struct facts *facts, const struct variation *variation, struct error *err);
void varied_free(struct varied *varied);
/* Counts units of the outermost level: nodes, or devices where there is one node only. */
int variation_units(const struct cluster *cluster);
/* Counts devices of one such unit of a type. */
int variation_unit_devices(const struct cluster *cluster, int type);
enum { MOST_PARTS = 64 };
/**
 * Lists the parts of a cluster that are worth a look, as variations: all of it, with fewer and fewer of its units; then
 * the same of each two of three types, and of each type alone. The last unit of one type goes on with fewer devices.
 * Counts are 2^k and 3 x 2^k, and all. The whole comes first; parts that follow each other with equal `types` fall.
 */
int parts_of_cluster(const struct cluster *cluster, struct variation out[MOST_PARTS]);
/* Gives the part that a step which computes for compute_ns of step_ns may be faster on, as there is less to exchange:
 * half of the units, or of several types what multiplies most. False: that would compute for longer. */
bool parts_likely(const struct cluster *cluster, enum dtype dtype, int64_t compute_ns, int64_t step_ns,
                  struct variation *out);
#endif
