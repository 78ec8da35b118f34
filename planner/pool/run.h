/* The room of the pool: what a search has found so far.
 *
 * It answers which candidates there are, which plan each makes and how the walk ranks it (rank.c), which of them are
 * worth a simulation and what it says (judge.c), and what is near the leaders (moves.c, climb.c, polish.c). Where a
 * layout lacks memory that the formula did not see, less is promised and the candidate solved again (tighten.c,
 * host_room.c). struct run is what all parts of one search share; each part is run by search_pass(), which keeps its
 * statistics (parts.def).
 *
 * It uses estimate/, tables/, cut/ and space/, and does not know how candidates are proposed.
 * Tested by tests/test_search.c, test_families.c, test_beside.c, test_search_time.c and benchmarks/run_golden. */
#ifndef CLEAVE_POOL_RUN_H
#define CLEAVE_POOL_RUN_H
#include "planner/pool/answer.h"
#include "planner/tables/workbench.h"
#include <stdatomic.h>

/* Of each knapsack, and of all of a configuration, where plans are wanted and no proof: few have more. */
enum { FEW_NODES = 30, ENOUGH_NODES = 300 };

struct ordered {
    int64_t bound_ns;
    int index;
    bool late; /* tried already: these take longer, and are pruned by what the others have found */
};
struct candidate {
    int config;              /* index */
    enum search_part origin; /* that found it */
    const struct price_table *table;
    struct partition_plan solution;
    struct plan *plan;  /* made when ranked */
    uint64_t plan_hash; /* set with it */
    int64_t ranked_ns, capacity_bytes;
    bool is_far; /* its walk ended early: ranked_ns is no more than a bound */
    /* What its stages must leave free beyond what the formula counts (tighten.c); NULL: nothing. By stage, and as a
     * table whose stages have less room. */
    const int64_t *kept_bytes;
    const struct price_table *tight;
    int64_t simulated_ns; /* 0: not simulated, or beaten */
    int64_t beaten_ns;    /* 0, or what it is simulated to take at least, which was not worth it */
    int64_t peak_bytes;   /* of its fullest stage, where it is simulated */
    int place;            /* how many of its family (stages, tensor degree) are better by the formula */
    int shrinks;          /* how often less memory was promised because a layout did not fit */
    bool roomy;           /* was asked for room */
    bool judged, rough;   /* rough: solved for its family's sake, with a loose gap */
    bool heard;           /* judged, and not for want of memory */
    bool polished;        /* its neighbours had their turn (polish.c) */
};
/* Memory of one piece of work, kept as long as the run. */
struct owned_arena {
    struct arena arena;
    struct owned_arena *next;
};
struct run {
    struct workbench bench;
    const struct search_options *options;
    struct space *space; /* the options', which time may narrow */
    struct search_result *result;
    struct arena arena;
    struct owned_arena *arenas;
    struct config *configs;
    int config_count;
    int beside_first, beside_count;         /* behind all these: space_configs_beside() */
    bool beside_unseen;                     /* there were some, and time ended before */
    bool beside_bounded;                    /* it was looked at what they have to do */
    struct ordered *order;                  /* (config_count) by the bound of paths; late ones behind all others */
    bool *is_bounded;                       /* (config_count) has its first bound, or no program; else time is over */
    const struct price_table **bound_table; /* (config_count) that it is from; NULL: lowering has no program */
    int64_t *path_ns, *first_ns;            /* (config_count) bounds by paths, and first bounds */
    int64_t *busy_ns;                       /* (all) none of its plans is simulated shorter; INT64_MAX: it has none */
    int64_t *orders_ns;       /* (config_count) where the file's order alone is searched: bounds of all orders */
    bool *tried;              /* (all) solved, with a plan or without */
    int scout_kind, scout_at; /* how far search_scout_on() has come */
    int scouted;              /* configurations that it has solved */
    int close_count;          /* of those that their relaxation ruled out */
    struct ordered *close;    /* (close_count) by that bound */
    int candidate_count, candidate_capacity;
    struct candidate *candidates;
    int64_t best_ns, capacity_bytes;
    int best_config; /* index of the one with best_ns; its table and solution: */
    const struct price_table *best_table;
    struct partition_plan best_solution;
    int64_t open_bound_ns; /* least proven bound of all configurations looked at, or left */
    double
        host_rate; /* of what a plan kept on the host, where that was too much, to what was expected; 0: it never was */
    int64_t start_ns;
    struct queue *queue; /* of the proof (propose_parts.h); NULL: it has not begun */
    bool may_pause, proof_ended;
    bool beaten;           /* the best by rank was not worth it: options->worth_ns */
    enum search_part part; /* that works now */
    atomic_bool stopped;   /* by time limit or cancellation; pieces of work ask at once */
    struct error *err;
};

/* Whether time limit or cancellation end the search now; run->stopped remembers it. */
bool search_stops(struct run *run);
/* body(context, i) for i in 0..count-1, on as many threads as the caller gives. */
void search_parallel(const struct run *run, int count, void (*body)(void *context, int index), void *context);
/* So many of these pieces of work are done at once: at least 1, at most SEARCH_MOST_AT_ONCE. */
enum { SEARCH_MOST_AT_ONCE = 16 };
int search_at_once(const struct run *run);
struct arena *search_arena(struct run *run); /* freed with the run; NULL: out of memory */
/* Stages, tensor and expert degree, and whether stages have several meshes. */
bool search_same_family(const struct run *run, int config, int other);
/* The same configuration; beside the formula, prefetch and what is in flight make no other one to begin from. */
bool search_leads_alike(const struct run *run, int config, int other);
/* Any plan will do, and there is one. */
bool search_has_any(const struct run *run);
/* So few layers and ways to cut them that solving and judging often is cheap. */
bool search_is_small(const struct run *run);
/* The part that works now is its origin. */
bool search_add_candidate(struct run *run, const struct candidate *candidate);
/* Runs a part, unless it is a heuristic that is left out, and notes what it did. */
bool search_pass(struct run *run, enum search_part part, bool (*body)(struct run *run));
/* The problem of a configuration with so much memory; false: out of memory. */
bool search_problem(struct run *run, int config, const struct price_table *table, int64_t capacity_bytes,
                    struct partition_problem *out);

/* first_bounds.c: opens the lists by configuration, with what bounds cost nothing. */
bool search_order(struct run *run);
/* propose.c: bounds configurations and solves them best first until no bound lies below what is already known. Where
 * time is limited it pauses when a part of it is over; then search_solve_on() ends what it began. */
bool search_solve(struct run *run);
bool search_solve_on(struct run *run);
/* When time is over and there is no plan that fits: solves one configuration after the other of those that plainly fit,
 * with a bound or without, and were not tried, until one has a plan. *found: it is a candidate. */
bool search_scout_on(struct run *run, bool *found);
/* families.c: candidates for the judge, from families that have none. */
bool search_solve_families(struct run *run);

/* judge.c: puts the plan into the result's list of at most `top`, best first. False: it is not among them, or there
 * already; then it is still the caller's. */
bool search_list_plan(struct search_result *result, const struct search_plan *plan, int top);
/* rank.c: turns candidates into plans and ranks them by the pipeline: the best of every family and the best of all. May
 * be called again when there are more. */
bool search_rank(struct run *run);
/* The same for candidates from `first` on, beside those that are ranked. Of one that takes below_ns or longer no more
 * is known. */
bool search_rank_more(struct run *run, int first, int64_t below_ns);
/* climb.c: of the configurations from that one on that lead by rank the best plan, improved. */
bool search_climb(struct run *run, int first_config);
bool search_climb_all(struct run *run);
/* Whether stages are pieces with one mesh and layout each, of which neighbours can be made. */
bool search_has_pieces(const struct run *run, const struct candidate *c);
/* The layers of a piece, a stage's chunk: chunks are cut like stages. */
struct layer_range search_piece(const struct config *config, const struct plan *plan, int piece);
/* None of the first `kept` has the candidate's plan. */
bool search_is_new(const struct run *run, int kept, const struct candidate *c);
/* Without ZeRO-3 nothing is prefetched: such plans are the same whatever the configuration said. */
void search_settle_prefetch(const struct run *run, struct plan *plan);
/* The candidate's rank, by its plan under the clock that makes it shortest. */
bool search_walk(struct run *run, struct candidate *c);
/* plan_hash() whatever the clock is, which search_walk() chooses. */
uint64_t search_plan_hash(const struct plan *plan);
/* joined_ends.c, of the ranked candidates that nobody has judged, in a model with branches: search_join_tied(), ranked
 * too.
 */
bool search_join_all_tied(struct run *run);
/* moves.c. Cuts first to last, numbered by the piece behind them, moved by a layer, by 1 or -1: one of the pieces at
 * the ends hands it to the other. */
struct cut_move {
    int first, last, by;
};
/* All of them by number: single cuts first, then two neighbours, and so on. */
int cut_move_count(const struct config *config);
struct cut_move cut_move_at(const struct config *config, int index);
/* The plan with cuts moved, not ranked yet; out->plan NULL: it does not fit, or is none that the first `kept` have not.
 */
bool search_move_cuts(struct run *run, const struct candidate *from, const struct cut_move *move, int kept,
                      struct candidate *out);
/* Layers between the first and the last that share a weight with them go to the first one's stage, where what they read
 * lets them, so that the weight lies on fewer stages. */
bool search_join_tied(struct run *run, const struct candidate *from, int kept, struct candidate *out);
/* The layers of a piece, -1: of all, get one stage of ZeRO, or one kind of recomputation; -1: each keeps its own. */
struct strategy_move {
    int piece, zero, recompute;
};
int strategy_move_count(const struct config *config);
struct strategy_move strategy_move_at(int index);
/* As search_move_cuts(): the cut move of that number, or the strategy move. */
bool search_make_cut_move(struct run *run, const struct candidate *from, int index, int kept, struct candidate *out);
bool search_make_strategy_move(struct run *run, const struct candidate *from, int index, int kept,
                               struct candidate *out);
/* The same with another configuration of as many pieces and all its strategies. */
bool search_move_config(struct run *run, const struct candidate *from, int config, int kept, struct candidate *out);
/* Ranks so many plans, on all threads, each under the clock that it has; of one that takes below_ns or longer no more
 * is known. Where that fails they have none any more. */
bool search_rank_moved(struct run *run, struct candidate *moved, int count, int64_t below_ns);
/* rank.c: takes the candidate with its plan, also when it fails, to the plans at the front, whose number it counts. */
bool search_keep(struct run *run, const struct candidate *c, int *kept);
/* The first `kept` by rank; their number is noted. */
void search_sort_ranked(struct run *run, int kept);
/* The formula's value of the candidate's solution; INT64_MAX when a stage does not fit into so much. */
bool search_evaluate(struct run *run, const struct candidate *c, int64_t capacity_bytes, int64_t *step_ns);
/* The candidate's plan and rank from its solution; no plan when it fails. */
bool search_make_plan(struct run *run, struct candidate *c);

/* tighten.c: what the layout lacks is not promised again: by stages, or where these may have several meshes all get
 * less. Then the formula, which may see less than the layout, does not let the same plan pass. */
bool search_promise_less(struct run *run, struct candidate *c, const struct prediction *p);
/* So much less room for its stages: (stages) in the run's arena. NULL: all there is. */
bool search_tighten(struct run *run, struct candidate *c, const int64_t *kept_bytes);
/* The problem of its configuration within what is promised to it; false: out of memory. */
bool search_promised(struct run *run, const struct candidate *c, int64_t capacity_bytes, struct partition_problem *out);

/* host_room.c: about what the candidate's stages keep in the host's memory, at most; 0 where nothing is offloaded. */
bool search_host_bytes(struct run *run, const struct candidate *c, int64_t *bytes);
/* Its configuration solved anew so that this is no more. *found: c->solution is the answer; else it is as it was. */
bool search_solve_for_host(struct run *run, struct candidate *c, int64_t most_bytes, bool *found);

/* judge.c: simulates into run->result: first the best of each family, then what the budget allows. */
bool search_judge(struct run *run);
/* Candidates that are not judged yet, of schedules beside the formula's. */
bool search_judge_more(struct run *run);
/* What the judge said of it, at least; 0: nothing. */
int64_t search_told_ns(const struct candidate *c);
/* What the simulation would say of the candidate if its rank was off as for those that are most alike. Where nobody has
 * judged any of its kind it counts as a little shorter: what is alike fares alike. */
int64_t search_expected_ns(const struct run *run, const struct candidate *c);
/* The same as far as its budget goes beyond *spent, until one is shorter than the best. */
bool search_judge_better(struct run *run, int64_t *spent, bool *better);
/* polish.c: the best plan's neighbours, simulated. */
bool search_polish(struct run *run);
/* What is returned tells the memory of the whole step where that is soon known. */
bool search_settle(struct run *run);
/* One plan simulated, at the price of few micro-batches. */
bool search_estimate(const struct run *run, const struct plan *plan, const struct price_table *table, int64_t worth_ns,
                     struct estimate **out, struct error *err);

/* unbounded.c: appends the configurations of schedules beside those that the closed form bounds. */
bool search_list_beside(struct run *run);
/* What they have to do at least. */
bool search_bound_beside(struct run *run);
/* Where that was found, what the certificate says of them. */
bool search_enter_beside(struct run *run);
/* They are tried on what was judged best. */
bool search_try_beside(struct run *run);
/* Of small models that tie weights of their first and last layer: schedules that have both on one stage, whatever leads
 * with others. */
bool search_try_joined(struct run *run);
/* A step of the closed form's schedules that would be no longer than this without filling and draining: so much it may
 * say of a plan of another schedule that is no longer. */
int64_t search_with_idle_ns(const struct config *config, int64_t step_ns);

/* nearest.c: where nothing fits, into result->nearest the plan that lacks least of those that need least. */
bool search_find_nearest(struct run *run);
/* fold.c: records into ranges, and counts by fate. */
bool search_fold(struct run *run);
#endif
