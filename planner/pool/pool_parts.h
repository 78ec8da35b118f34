/* What the files of the pool do with the candidates of a run, for each other and for the search. */
#ifndef CLEAVE_POOL_POOL_PARTS_H
#define CLEAVE_POOL_POOL_PARTS_H
#include "planner/pool/run.h"

/* rank.c: turns candidates into plans and ranks them by the pipeline: the best of every family and the best of all. May
 * be called again when there are more. */
bool rank_candidates(struct run *run);
/* Orders candidates by the formula, then by configuration, for qsort(). */
int rank_compare_formula(const void *a, const void *b);
/* Ranks also the candidates from `first` on, beside those that are ranked. Of one that takes below_ns or longer no more
 * becomes known. */
bool rank_more(struct run *run, int first, int64_t below_ns);
/* True when the candidate's stages are pieces with one mesh and layout each, so that neighbours can be made. */
bool rank_has_pieces(const struct run *run, const struct candidate *c);
/* Gives the layers of a piece, which is a stage's chunk: chunks are cut like stages. */
struct layer_range rank_piece(const struct config *config, const struct plan *plan, int piece);
/* True when none of the first `kept` has the candidate's plan. */
bool rank_is_new(const struct run *run, int kept, const struct candidate *c);
/* Gives plans without ZeRO-3, which prefetch nothing, one value of it, so that equal plans are known as such. */
void rank_settle_prefetch(const struct run *run, struct plan *plan);
/* Ranks the candidate's plan under the clock that makes it shortest. */
bool rank_walk(struct run *run, struct candidate *c);
/* Hashes the plan like plan_hash(), but without the clock, which rank_walk() chooses. */
uint64_t rank_plan_hash(const struct plan *plan);
/* Ranks so many plans on all threads, each under the clock that it has; of one that takes below_ns or longer no more
 * becomes known. Where that fails they have no plans any more. */
bool rank_moved(struct run *run, struct candidate *moved, int count, int64_t below_ns);
/* Takes the candidate with its plan, also when it fails, to the plans at the front, whose number it counts. */
bool rank_keep(struct run *run, const struct candidate *c, int *kept);
/* Sorts the first `kept` by rank, and notes their number. */
void rank_sort(struct run *run, int kept);
/* Gives the formula's value of the candidate's solution; INT64_MAX when a stage does not fit into so much. */
bool rank_formula(struct run *run, const struct candidate *c, int64_t capacity_bytes, int64_t *step_ns);
/* Makes and ranks the candidate's plan from its solution; it has no plan when that fails. */
bool rank_make_plan(struct run *run, struct candidate *c);
/* The same of the best of the solver's plans, of which there is one at least; c->plan is not looked at. */
bool rank_make_best(struct run *run, struct candidate *c, const struct partition_result *result);

/* climb.c: improves the best plan of each configuration from that one on that leads by rank. */
bool climb_from(struct run *run, int first_config);
bool climb_all(struct run *run);

/* reserve.c: promises no more what the layout lacks, by stages, or all of them less where these may have several
 * meshes, until the formula, which may see less than the layout, does not let the same plan pass. */
bool reserve_more(struct run *run, struct candidate *c, const struct prediction *p);
/* Promises all stages so much less that the layout of the one that lacks most would fit, until the same plan does not
 * pass. */
bool reserve_evenly(struct run *run, struct candidate *c, const struct prediction *p);
/* Leaves the candidate's stages so much less room: (stages) in the run's arena. NULL: they have all there is. */
bool reserve_set(struct run *run, struct candidate *c, const int64_t *reserve_bytes);
/* Gives the problem of its configuration within what is promised to it; false when out of memory. */
bool reserve_problem(struct run *run, const struct candidate *c, int64_t capacity_bytes, struct partition_problem *out);

/* host_room.c: gives about what the candidate's stages keep on the host at most; 0 where nothing is offloaded. */
bool host_room_bytes(struct run *run, const struct candidate *c, int64_t *bytes);
/* Solves the configuration anew so that this is no more. *found: c->solution is the answer; else c is as before. */
bool host_room_solve(struct run *run, struct candidate *c, int64_t most_bytes, bool *found);

/* judge.c: simulates into run->result: first the best of each family, then what the budget allows. */
bool judge_candidates(struct run *run);
/* Simulates candidates of schedules that the formula does not bound and that are not judged yet. */
bool judge_more(struct run *run);
/* Simulates candidates as far as the budget goes beyond *spent, until one is shorter than the best. */
bool judge_better(struct run *run, int64_t *spent, bool *better);
/* Simulates the candidate's plan, a second time where its memory says little the first time. *spent grows. */
bool judge_simulate(const struct run *run, const struct candidate *c, int64_t worth_ns, struct estimate **out,
                    int64_t *spent, struct error *err);
/* Solves the candidate's configuration anew with less memory for all its stages, as the one that lacks most needs it.
 * *found: another plan took its plan's place; else there is none, or the host lacks memory. */
bool judge_solve_smaller(struct run *run, struct candidate *c, struct estimate *lacking, bool *found);
/* Puts the plan into the result's list of at most `top`, best first. False: it is not among them, or there
 * already; then it is still the caller's. */
bool judge_list_plan(struct search_result *result, const struct search_plan *plan, int top);
/* Makes what is returned tell the memory of the whole step, where that is soon known. */
bool judge_settle(struct run *run);
/* Simulates one plan, at the price of few micro-batches. */
bool judge_plan(const struct run *run, const struct plan *plan, const struct price_table *table, int64_t worth_ns,
                struct estimate **out, struct error *err);
/* Tells whether the candidate's plan is known not to fit without lowering it. */
bool judge_lacks_memory(struct run *run, const struct candidate *c, bool *lacks);

/* judge_expected.c: gives what the judge said that it takes at least; 0 where it said nothing. */
int64_t judge_simulated_ns(const struct candidate *c);
/* Says what the simulation would say of the candidate if its rank was off as for those that are most alike. Where
 * nobody has judged any of its kind it counts as a little shorter, since all of that kind fare alike. */
int64_t judge_expected_ns(const struct run *run, const struct candidate *c);
/* True when what was simulated says that the candidate is not shorter than the incumbent. */
bool judge_cannot_win(const struct run *run, const struct candidate *c);

/* rival.c: *out tells whether options->rival takes by the walk at most one part in HARDLY_SHARE longer. The walk sees
 * no waits for bytes, of which a plan that was chosen by simulation has fewer than others. */
bool rival_yields(struct run *run, const struct candidate *c, bool *out);

/* polish.c: simulates the best plan's neighbours, and those of what it finds. */
bool polish_best(struct run *run);
#endif
