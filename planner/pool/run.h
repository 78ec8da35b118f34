/* The room of the pool: what a search has found so far.
 *
 * It answers which candidates there are, which plan each makes and how the walk ranks it (rank.c), which of them are
 * worth a simulation and what it says (judge.c), which plan there is before that (early.c), and what is near the
 * leaders (moves.c, climb.c, polish.c). Where a layout lacks memory that the formula did not see, less is promised and
 * the candidate solved again (reserve.c, host_room.c). struct run is what all parts of one search share; each part is
 * run by run_pass(), which keeps its statistics (parts.def).
 *
 * It uses estimate/, tables/, cut/ and space/, and does not know how candidates are proposed.
 * Tested by tests/test_search.c, test_families.c, test_unbounded.c, test_search_time.c, test_search_order.c and
 * benchmarks/run_golden. */
#ifndef CLEAVE_POOL_RUN_H
#define CLEAVE_POOL_RUN_H
#include "planner/estimate/effort.h"
#include "planner/estimate/pipeline_order.h"
#include "planner/pool/answer.h"
#include "planner/tables/workbench.h"
#include <stdatomic.h>

struct ordered {
    int64_t bound_ns;
    int index;
};
/* Orders elements of type struct ordered: by bound, and equal ones by index. */
int ordered_compare(const void *a, const void *b);
struct candidate {
    int config;              /* index */
    enum search_part origin; /* that found it */
    const struct price_table *table;
    struct partition_plan solution;
    struct plan *plan;  /* made when ranked */
    uint64_t plan_hash; /* set with it */
    int64_t ranked_ns, capacity_bytes;
    bool is_far; /* its walk ended early: ranked_ns is no more than a bound */
    /* Bytes that its stages must leave free beyond what the formula counts (reserve.c), by stage, and as a table whose
     * stages have less room; NULL: none. */
    const int64_t *reserve_bytes;
    const struct price_table *reserve_table;
    int64_t simulated_ns; /* 0: not simulated, or beaten */
    int64_t beaten_ns;    /* 0, or what it is simulated to take at least, which was not worth it */
    int64_t peak_bytes;   /* of its fullest stage, where it is simulated */
    int64_t effort;       /* that its simulation took */
    int place;            /* how many of its family (stages, tensor degree) are better by the formula */
    int shrinks;          /* how often less memory was promised because a layout did not fit */
    bool roomy;           /* was asked for room */
    bool judged, rough;   /* rough: solved for its family's sake, with a loose gap */
    bool simulated;       /* judged, and not for want of memory */
    bool polished;        /* its neighbours had their turn (polish.c) */
};
/* An arena for one piece of work, which the run keeps as long as it lasts. */
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
    struct pipeline_shelf *orders; /* of the walks */
    struct config *configs;
    int config_count;
    int unbounded_count;    /* behind all these: space_configs_unbounded() */
    bool unbounded_unseen;  /* there were some, and time ended before */
    bool unbounded_bounded; /* it was looked at what they have to do */
    struct ordered *order;  /* (config_count) by the bound of paths; when time is over by first bounds */
    bool *is_bounded;       /* (config_count) has its first bound, or no program; else it was cancelled */
    const struct price_table **bound_table; /* (config_count) that it is from; NULL: lowering has no program */
    int64_t *path_ns, *first_ns;            /* (config_count) bounds by paths, and first bounds */
    int64_t *busy_ns;                       /* (all) none of its plans is simulated shorter; INT64_MAX: it has none */
    int64_t *orders_ns;       /* (config_count) where the file's order alone is searched: bounds of all orders */
    bool *tried;              /* (config_count) solved, with a plan or without */
    int scout_kind, scout_at; /* how far propose_scout_on() has come */
    int scouted;              /* configurations that it has solved */
    int candidate_count, candidate_capacity;
    struct candidate *candidates;
    int64_t best_ns, capacity_bytes;
    int best_config; /* index of the one with best_ns; its table and solution: */
    const struct price_table *best_table;
    struct partition_plan best_solution;
    int64_t open_bound_ns; /* least proven bound of all configurations looked at, or left */
    int64_t host_bytes;    /* of a host, where a plan kept more there; 0: none did */
    int64_t start_ns;
    struct queue *queue;      /* of the proof (propose_parts.h); NULL: it has not begun */
    bool proof_ended;         /* nothing in the queue is worth solving */
    int64_t early_work;       /* knapsacks and passes of the proof before an early plan is looked for again */
    struct search_plan early; /* for whose time ends before there is an incumbent (early.c) */
    bool beaten;              /* the best by rank was not worth it: options->worth_ns */
    enum search_part part;    /* that works now */
    int64_t inner_ns;         /* what passes within it took, which are parts of their own */
    bool beyond;              /* of a configuration steps may take longer than is counted: it was left */
    atomic_bool stopped;      /* by time limit or cancellation; pieces of work ask at once */
    struct error *err;
};

bool run_is_cancelled(struct run *run); /* run->stopped remembers it */
/* True when time limit or cancellation end the search now; run->stopped remembers it. */
bool run_stops(struct run *run);
bool run_stops_of(void *self);            /* the same, of a run, for whom it calls */
struct arena *run_arena(struct run *run); /* freed with the run; NULL: out of memory */
/* True when both have as many stages, tensor and expert ranks, and several meshes for a stage or not. */
bool run_same_family(const struct run *run, int config, int other);
bool run_is_akin(const struct run *run, const struct config *a, const struct config *b); /* whosever they are */
/* True when any plan will do, and there is one. */
bool run_has_any(const struct run *run);
/* Gives the incumbent's step; INT64_MAX where there is none. */
int64_t run_best_step_ns(const struct run *run);
/* True when there are so few layers and ways to cut them that solving and judging often is cheap. */
bool run_is_small(const struct run *run);
/* Adds a candidate; the part that works now is its origin. */
bool run_add_candidate(struct run *run, const struct candidate *candidate);
/* Runs a part, unless it is a heuristic that is left out, and notes what it did. */
bool run_pass(struct run *run, enum search_part part, bool (*body)(struct run *run));
/* Gives the problem of a configuration with so much memory; false when out of memory. */
bool run_problem(struct run *run, int config, const struct price_table *table, int64_t capacity_bytes,
                 struct partition_problem *out);
/* Gives what a step that takes step_ns without filling and draining takes with them: the formula may say so much of a
 * plan that another schedule makes no longer than step_ns. */
int64_t run_with_idle_ns(const struct config *config, int64_t step_ns);
#endif
