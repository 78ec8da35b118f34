/* What a plan file's certificate says (formats/claim_read.h). */
#ifndef CLEAVE_CHECK_CLAIM_H
#define CLEAVE_CHECK_CLAIM_H
#include "base/json.h"
#include "planner/pool/answer.h"

/* One configuration, or a range of them. */
struct claimed_config {
    const char *name; /* config_name(); NULL: */
    int first, last;  /* indices in the space's enumeration */
    enum config_fate fate;
    int64_t bound_ns;
};
struct claim {
    struct arena arena;
    struct space space; /* restrictions; batch, sequence, type from the plan */
    int64_t version;    /* CERTIFICATE_VERSION, or less */
    bool older; /* counts neither what was left nor what was unseen, and those solved without a plan among those out by
                   memory */
    bool multiplied; /* has multipliers behind names: such files say of some that lack memory that they were solved */
    int64_t bound_ns, simulated_bound_ns, formula_ns, best_ns, memory_bytes, configurations, pruned_bound, unbounded,
        solved, refused, pruned_memory, left, unseen;
    int64_t ideals, orders_bound_ns;                   /* as in struct certificate */
    double gap, formula_gap, proof_gap, simulated_gap; /* NaN: the file says none */
    double bound_s, simulated_bound_s, formula_s;
    bool complete, coarse;
    int64_t asked_gap_ppm;        /* -1: the file does not say */
    const struct json *predicted; /* of the plan's file, borrowed: is held against a new simulation; NULL: is not */
    bool (*predicted_holds)(const struct json *predicted, const struct plan *plan, const struct prediction *prediction,
                            struct error *err); /* beside it; ERROR_GATE where it does not */
    const char *best, *space_hash, *prices_hash, *digest;
    struct plan *best_plan; /* owned; NULL: the file shows none */
    int config_count;
    struct claimed_config *configs;
    const struct json *at;
};
#endif
