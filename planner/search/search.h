/* The room of the search: the order of work, from a space to a plan with its certificate.
 *
 * It answers search_run(): every outer configuration is bounded (first_bounds.c), the promising ones are solved exactly
 * by the formula (propose.c), the best of each family are ranked and judged in the pool, schedules that the formula
 * does not bound are tried on the leaders (unbounded_trials.c), and what was proven is the certificate
 * (formats/certificate_write.c). Where nothing fits it finds what comes nearest and what would do (nearest.c,
 * advice.c); batch.c looks for a batch, fixed.h and baseline.h price what a user has fixed. Pure and deterministic:
 * callbacks decide only when to stop early.
 *
 * It uses all rooms below; explain/ and cli/ call it, check/ never.
 * Tested by tests/test_space.c (against enumeration), test_search*.c, test_unbounded.c, benchmarks/run_golden,
 * run_misses.
 */
#ifndef CLEAVE_SEARCH_SEARCH_H
#define CLEAVE_SEARCH_SEARCH_H
#include "planner/pool/answer.h"
/**
 * Searches. *out belongs to the caller: search_result_free(). A search that finds nothing is an answer (feasible false,
 * nearest or why filled), not a failure; search_infeasible() turns it into the message. Fails on bad restrictions, want
 * of memory, our bugs, and with fail_ended() when time limit or cancellation end it before there is any plan: then
 * nobody knows whether one fits.
 */
bool search_run(struct search_result **out, const struct model *model, const struct facts *facts,
                const struct search_options *options, struct error *err);
void search_result_free(struct search_result *result); /* accepts NULL */
/* Gives what the options leave of the time of a search that began at start_ns by their clock: 0 when it is over or
 * cancelled, INT64_MAX without a limit. */
int64_t search_time_left(const struct search_options *options, int64_t start_ns);
/* Gives what the nearest plan lacks on the stage that lacks most, when nothing fits. */
int64_t search_missing_bytes(const struct search_result *result);
/* Fails with ERROR_INFEASIBLE, saying what does not divide, or which stage lacks how many bytes, and what to type so
 * that a plan fits. Always returns false. */
bool search_infeasible(const struct search_result *result, const struct space *space, struct error *err);
/* Enters the gaps of a plan with this value of the formula and this simulated step. */
void search_report_measure(struct certificate *certificate, int64_t formula_ns, int64_t step_ns);
#endif
