/* The room of the checker: whether what a plan file claims is true.
 *
 * It holds a plan's certificate against the space, configuration by configuration. Tested by tests/test_certificate*.c,
 * test_check*.c (forged and damaged certificates) and fuzz_claim. Shared with the search: prices
 * (workbench.h), what the space is (space.h), the simulator. Not shared: how stages are solved and cut, how bounds are
 * made, what is pruned. */
#ifndef CLEAVE_CHECK_CHECK_H
#define CLEAVE_CHECK_CHECK_H
#include "planner/check/claim.h"

struct model;

struct check_report {
    int64_t configurations, unbounded, by_bound, by_memory, by_cut, refused,
        left;          /* by_cut: no way to cut is shorter, by solving */
    int64_t undecided; /* of by_cut's: branch and bound ended first */
    int64_t bound_ns, simulated_bound_ns, formula_ns, step_ns;
    int64_t version;                 /* as in struct claim; before 4 space_hash is not checked, of 1 nor prices_hash */
    int64_t unchecked_simulated_ns;  /* of version 1, where kernels do not prove what it claims: that. Then
                                        simulated_bound_ns is 0 */
    int64_t ideals, orders_bound_ns; /* as in struct certificate */
};
/**
 * Works everything out anew; ERROR_GATE with what differs when the certificate does not hold.
 *
 * progress(self, done, total) may be NULL. Also fails for want of memory.
 */
bool check_certificate(struct check_report *out, const struct claim *claim, const struct model *model,
                       const struct facts *facts, const struct plan *plan,
                       void (*progress)(void *self, int done, int total), void *self, struct error *err);
#endif
