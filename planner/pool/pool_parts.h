/* What the files of the pool do with the candidates of a run, for each other and for the search. */
#ifndef CLEAVE_POOL_POOL_PARTS_H
#define CLEAVE_POOL_POOL_PARTS_H
#include "planner/pool/run.h"

/* rank.c: turns candidates into plans and ranks them by the pipeline: the best of every family and the best of all. May
 * be called again when there are more. */
bool rank_candidates(struct run *run);
/* For qsort(): by the formula, then by configuration. */
int rank_compare_formula(const void *a, const void *b);
/* Ranks the candidates from `first` on, too, beside those that are ranked. No more is known of one that takes below_ns
 * or longer. */
bool rank_more(struct run *run, int first, int64_t below_ns);
/* The candidate's stages are pieces with one mesh and layout each, so that neighbours can be made. */
bool rank_has_pieces(const struct run *run, const struct candidate *c);
/* The layers of a piece, a stage's chunk: chunks are cut like stages. */
struct layer_range rank_piece(const struct config *config, const struct plan *plan, int piece);
/* None of the first `kept` has the candidate's plan. */
bool rank_is_new(const struct run *run, int kept, const struct candidate *c);
/* Without ZeRO-3 nothing is prefetched: such plans are the same whatever the configuration said. */
void rank_settle_prefetch(const struct run *run, struct plan *plan);
/* The candidate's rank, by its plan under the clock that makes it shortest. */
bool rank_walk(struct run *run, struct candidate *c);
/* plan_hash() whatever the clock is, which rank_walk() chooses. */
uint64_t rank_plan_hash(const struct plan *plan);
/* Ranks so many plans, on all threads, each under the clock that it has; of one that takes below_ns or longer no more
 * is known. Where that fails they have none any more. */
bool rank_moved(struct run *run, struct candidate *moved, int count, int64_t below_ns);
/* Takes the candidate with its plan, also when it fails, to the plans at the front, whose number it counts. */
bool rank_keep(struct run *run, const struct candidate *c, int *kept);
/* The first `kept` by rank; their number is noted. */
void rank_sort(struct run *run, int kept);
/* The formula's value of the candidate's solution; INT64_MAX when a stage does not fit into so much. */
bool rank_formula(struct run *run, const struct candidate *c, int64_t capacity_bytes, int64_t *step_ns);
/* The candidate's plan and rank from its solution; no plan when it fails. */
bool rank_make_plan(struct run *run, struct candidate *c);

/* early.c: whether time is limited and no incumbent is there. */
bool early_is_wanted(const struct run *run);
/* Then simulates of so many candidates the one that the walk finds shortest, if that is shorter than the early plan
 * that there is. */
bool early_judge_of(struct run *run, const struct candidate *candidates, int count);
/* Judges the first of all candidates so far. */
bool early_judge(struct run *run);
/* The early plan joins the result's list, if it is among the best there. */
void early_hand_out(struct run *run);
/* Whether time is over and the result has a plan; an early plan has joined it then. */
bool early_ends(struct run *run);
void early_drop(struct run *run);

/* climb.c: of the configurations from that one on that lead by rank the best plan, improved. */
bool climb_from(struct run *run, int first_config);
bool climb_all(struct run *run);
/* The two are one configuration to begin from: beside the formula, prefetch and what is in flight make no other one. */
bool climb_leads_alike(const struct run *run, int config, int other);

/* reserve.c: what the layout lacks is not promised again: by stages, or where these may have several meshes all get
 * less. Then the formula, which may see less than the layout, does not let the same plan pass. */
bool reserve_more(struct run *run, struct candidate *c, const struct prediction *p);
/* So much less room for its stages: (stages) in the run's arena. NULL: all there is. */
bool reserve_set(struct run *run, struct candidate *c, const int64_t *reserve_bytes);
/* The problem of its configuration within what is promised to it; false: out of memory. */
bool reserve_problem(struct run *run, const struct candidate *c, int64_t capacity_bytes, struct partition_problem *out);

/* host_room.c: about what the candidate's stages keep in the host's memory, at most; 0 where nothing is offloaded. */
bool host_room_bytes(struct run *run, const struct candidate *c, int64_t *bytes);
/* Its configuration solved anew so that this is no more. *found: c->solution is the answer; else it is as it was. */
bool host_room_solve(struct run *run, struct candidate *c, int64_t most_bytes, bool *found);

/* judge.c: simulates into run->result: first the best of each family, then what the budget allows. */
bool judge_candidates(struct run *run);
/* Candidates that are not judged yet, of schedules that the formula does not bound. */
bool judge_more(struct run *run);
/* Simulates candidates as far as the budget goes beyond *spent, until one is shorter than the best. */
bool judge_better(struct run *run, int64_t *spent, bool *better);
/* Simulates the candidate's plan, a second time where its memory says little the first time; *spent grows by the
 * effort.
 */
bool judge_simulate(const struct run *run, const struct candidate *c, int64_t worth_ns, struct estimate **out,
                    int64_t *spent, struct error *err);
/* Puts the plan into the result's list of at most `top`, best first. False: it is not among them, or there
 * already; then it is still the caller's. */
bool judge_list_plan(struct search_result *result, const struct search_plan *plan, int top);
/* What is returned tells the memory of the whole step where that is soon known. */
bool judge_settle(struct run *run);
/* One plan simulated, at the price of few micro-batches. */
bool judge_plan(const struct run *run, const struct plan *plan, const struct price_table *table, int64_t worth_ns,
                struct estimate **out, struct error *err);

/* judge_expected.c. What the judge said of it, at least; 0: nothing. */
int64_t judge_simulated_ns(const struct candidate *c);
/* What the simulation would say of the candidate if its rank was off as for those that are most alike. Where nobody has
 * judged any of its kind it counts as a little shorter: what is alike fares alike. */
int64_t judge_expected_ns(const struct run *run, const struct candidate *c);
/* What was simulated says that the candidate is not shorter than the incumbent. */
bool judge_cannot_win(const struct run *run, const struct candidate *c);

/* rival.c: *out: the walk says that options->rival takes at most one part in HARDLY_SHARE longer. The walk sees no
 * waits for bytes, of which a plan that was chosen by simulation has fewer than others. */
bool rival_yields(struct run *run, const struct candidate *c, bool *out);

/* polish.c: the best plan's neighbours, simulated. */
bool polish_best(struct run *run);
#endif
