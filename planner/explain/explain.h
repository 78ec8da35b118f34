/* The room of explanations: why this plan, what re-solving under other restrictions and other facts says of it. It
 * uses search/ as any caller does; tested by tests/test_explain*.c. Everything here asks search_run()
 * again and compares by one measure, the whole plan simulated (explain_account.h). Deterministic unless time limit or
 * cancellation end it; then lists are shorter, and `ended` says so. */
#ifndef CLEAVE_EXPLAIN_EXPLAIN_H
#define CLEAVE_EXPLAIN_EXPLAIN_H
#include "planner/explain/explain_account.h"
#include "planner/explain/explain_facts.h"
#include "planner/price/shelf.h"
#include "planner/search/search.h"

enum solution_kind {
    SOLUTION_PLAN,
    SOLUTION_NO_MEMORY, /* configurations, but no plan that fits */
    SOLUTION_NONE,      /* no configuration: `why` says what does not divide */
    SOLUTION_ENDED      /* time limit or cancellation */
};
/* What a search under some space and facts found. */
struct solution {
    enum solution_kind kind;
    const struct explained *explained; /* SOLUTION_PLAN, else NULL; borrowed from the explainer */
    int64_t step_ns, peak_bytes;       /* SOLUTION_PLAN; of the fullest stage */
    int64_t time_ns[TIME_KIND_COUNT];  /* adds up to step_ns: of the stage that ends last */
    bool timed;                        /* as an account times it; else by what a search of the caller's predicts */
    int64_t missing_bytes;             /* SOLUTION_NO_MEMORY, where looked for: explain_missing() */
    const char *why;                   /* SOLUTION_NONE; in the explainer's arena */
};

struct known_plan {
    struct explained *explained;
    struct solution own; /* under the explainer's facts; SOLUTION_ENDED: nobody has looked */
    int64_t formula_ns;  /* 0: no search knows it */
};
struct explainer {
    struct arena arena;
    /* Is asked in the search's stead for plans that shall be more than the space says; NULL: search_run(). Several
     * threads call it at once. */
    bool (*search)(void *self, struct search_result **out, const struct facts *facts,
                   const struct search_options *options, struct error *err);
    void *searcher; /* its self */
    const struct model *model;
    const struct facts *facts;
    struct search_options options; /* space, clock, cancellation; the time limit is of everything together */
    int64_t start_ns;
    bool ended;
    int64_t
        timed_limit; /* layers x micro-batches up to which plans that searches have simulated are lowered and timed */
    int known_count, known_capacity, simulated_count, simulated_capacity;
    struct known_plan *known;         /* every plan met, once */
    struct simulated_plan *simulated; /* what searches under the explainer's facts have simulated besides */
    bool has_base;
    struct solution base; /* explainer_base() */
    int near_count;
    struct config *near; /* (near_count) configurations that the base's search found near its best */
    struct account *accounts;
    int account_count, account_capacity;
    struct price_shelf prices; /* of all its searches */
    struct pace_shelf paces;   /* and of its accounts */
};
/* Opens an explainer; model and facts are borrowed. options->space is what alternatives may choose from. */
void explainer_open(struct explainer *out, const struct model *model, const struct facts *facts,
                    const struct search_options *options);
void explainer_close(struct explainer *explainer);
/* True when time limit or cancellation end it now. */
bool explainer_ends(struct explainer *explainer);
/* Gives the plan in the explainer's store. */
bool explainer_plan(struct explainer *e, const struct plan *plan, const struct explained **out, struct error *err);
/* Gives the plan's account under other facts; freed with the explainer. */
bool explainer_account(struct explainer *e, const struct explained *explained, const struct facts *facts,
                       struct account *out, struct error *err);
/* Gives its account under each of so many facts, at once where there are threads. */
bool explainer_accounts(struct explainer *e, const struct explained *explained, const struct facts *const *facts,
                        int count, struct account *out, struct error *err);
/* Makes a solution of a plan that fits, as its account says. */
struct solution explainer_timed(const struct explained *explained, const struct account *account);
/* Searches. That nothing is found is an answer. Fails for want of memory and for our bugs. */
bool explainer_solve(struct explainer *e, const struct space *space, const struct facts *facts, struct solution *out,
                     struct error *err);
/* A search that is to be made, of a space, under some facts. The rest is the explainer's. */
struct query {
    struct space space;
    const struct facts *facts;
    bool same_prices; /* of layers as under the explainer's facts: variation_keeps_prices() */
    bool near;        /* only among the configurations that are near the explainer's base */
    int leader_count;
    const struct config *leaders; /* (leader_count) the search's */
    bool light;                   /* with little effort: the walk's best, if it fits */
    int64_t worth_ns;             /* with it: nobody asks for a step that is no shorter, which counts as none; 0: any */
    const struct plan *rival;     /* a plan that takes so long: one that is hardly better may count as none; or NULL */
    const struct query *larger; /* one before it of more devices: where nothing fits on those, nothing does; or NULL */
    bool unfit;                 /* nothing fits */
    bool asked;                 /* else time was over before */
    struct search_result *result; /* NULL: `error` says why */
    struct error error;
};
/* Of so many searches threads take one after the other before answers are told: with 6 two threads took 0.70 of the
 * time of one to explain a 70B plan, since one waited for the other; with 18 they take 0.60. */
enum { MOST_QUERIES = 18 };
/* Is told what explainer_solve() says of the query at the index. Fails as it does. */
typedef bool answer_function(void *self, int index, const struct solution *solution, struct error *err);
/* Solves them, one after the other or where there are threads in waves of MOST_QUERIES, each in the time that is left.
 * The answers come one after the other, in order, and do not depend on threads. */
bool explainer_solve_all(struct explainer *e, struct query *queries, int count, answer_function *answer, void *self,
                         struct error *err);
/* Solves with the least effort: a light query. */
bool explainer_look(struct explainer *e, const struct space *space, const struct facts *facts, struct solution *out,
                    struct error *err);
/* Solves with little effort: of a free space one schedule, within 5 % of the formula's optimum. */
bool explainer_glance(struct explainer *e, const struct space *space, const struct facts *facts, struct solution *out,
                      struct error *err);
/* True when its program, and those of plans like it, take so long to judge that it is asked about lightly. */
bool explainer_is_dear(const struct explained *explained);
/* Searches the whole space under the explainer's facts, once; lightly, where a dear plan is known before. */
bool explainer_base(struct explainer *e, struct solution *out, struct error *err);
/* Takes a result of the whole space: its plans become known, and what the search has simulated passes over. */
bool explainer_start(struct explainer *e, struct search_result *result, struct error *err);
/* Gives what a plan of the explainer's job takes under its facts, looked up where it is known. SOLUTION_NO_MEMORY: it
 * does not fit; SOLUTION_ENDED: it is too long to be simulated as a whole, and no search knows it. */
bool explainer_judge(struct explainer *e, const struct plan *plan, struct solution *out, struct error *err);
/* Judges a plan that a search has simulated; in e->simulated, the shortest first: explainer_sort_simulated(). */
bool explainer_judge_simulated(struct explainer *e, const struct simulated_plan *simulated, struct solution *out,
                               struct error *err);
void explainer_sort_simulated(struct explainer *e);
/* Gives the space that the plan came from as far as it tells: batch, sequence, dtype, buckets, clipping; else free. */
struct space explain_space(const struct plan *plan);

/* ---- what the plan chose, as the search's keys name it ---- */
struct choice {
    int pipeline, tensor, context, data, expert, schedule, prefetch; /* pipeline: replicas that take turns count once */
    int64_t micro; /* sequences of one micro-batch on one data-parallel rank */
    bool sequence_parallel;
    int layers, weighted;           /* graph layers; those with weights */
    int zero[4];                    /* layers with weights by ZeRO stage in effect (plan_zero_on()) */
    int recompute[RECOMPUTE_COUNT]; /* all layers */
};
struct choice choice_of(const struct plan *plan, const struct graph *graph);

/* ---- why not another ---- */
enum { MAX_ALTERNATIVES = 16, MAX_WHAT_IFS = 48 };
struct alternative {
    const char *kind; /* "other pipeline degree", "no ZeRO", ... */
    struct solution solution;
};
struct alternatives {
    int count;
    struct alternative list[MAX_ALTERNATIVES];
};
/* Finds the best plan of each kind that this one is not: one choice excluded or fixed, all else free; of what is found
 * for it, for other kinds and in the whole space the shortest. */
bool explain_alternatives(struct explainer *e, const struct explained *plan, struct alternatives *out,
                          struct error *err);
/* Gives a search's answer that holds nothing but the nearest plan, which is what search_infeasible() speaks of; NULL:
 * time is over, or there is none. The caller frees it. */
bool explain_nearest(struct explainer *e, const struct space *space, const struct facts *facts,
                     struct search_result **out, struct error *err);
/* Gives what the plan of the space that comes nearest lacks on its fullest stage, as search_infeasible() says it; 0:
 * there is none, or it fits. */
bool explain_missing(struct explainer *e, const struct space *space, const struct facts *facts, int64_t *bytes,
                     struct error *err);

/* ---- what if ---- */
enum resource {
    RESOURCE_MEMORY,
    RESOURCE_COMPUTE,
    RESOURCE_LINKS,
    RESOURCE_NODE,
    RESOURCE_BATCH,
    RESOURCE_DEVICES,
    RESOURCE_MICRO,
    RESOURCE_COUNT
};
extern const char *const resource_names[RESOURCE_COUNT + 1];
struct what_if {
    enum resource resource;
    const char *name;    /* "10 % more memory"; in the explainer's arena */
    const char *cluster; /* of RESOURCE_DEVICES what to give as --cluster; NULL: there is no short form, or more */
    double factor;       /* of the resource: 1.1, 0.9, 2 */
    int64_t value;       /* devices, sequences of a micro-batch or of the batch, bytes; 0 where none */
    struct solution solution;
    const struct explained *best; /* the best plan known under it; NULL: none */
    int64_t step_ns;              /* its step, 0: none. Of twice the batch: half of its step */
    double change;                /* of the step against `base_ns`: negative is faster */
};
struct what_ifs {
    int64_t base_ns; /* the shorter of the plan's step and of what the search finds */
    struct solution base;
    int asked, count; /* count: answered, fewer where time was over */
    struct what_if list[MAX_WHAT_IFS];
};
/**
 * Re-solves with memory +-10 %, each level of links twice as fast, 10 % more compute, nodes twice as wide, twice the
 * batch, one more node, fewer and twice the devices, those of each type alone, and each micro-batch near the plan's.
 * Where devices and batch stay, the plans already known compete too, so that more of a resource is never worse.
 *
 * report: of each answer as it comes, the last of the list; may be NULL
 */
bool explain_what_ifs(struct explainer *e, const struct explained *plan, struct what_ifs *out,
                      void (*report)(void *self, const struct what_ifs *so_far), void *self, struct error *err);
/* Gives the constraint (memory, node, batch) whose lifting buys most, at least a thousandth of the step; NULL: none. */
const struct what_if *explain_binding(const struct what_ifs *what_ifs);
/* Gives the shortest on fewer devices, if it is shorter than on all; NULL: none is. */
const struct what_if *explain_fewer(const struct what_ifs *what_ifs);

/* ---- robustness ---- */
struct regret {
    double amount;     /* 0.05: +-5 % */
    int draws, unfit;  /* unfit: draws in which the plan does not fit any more */
    int unsolved;      /* draws in which no plan fits at all; counted in unfit too */
    int changed;       /* fitting draws in which another plan is better */
    double mean, most; /* (time of this plan - best) / best over the draws in which it fits */
};
/**
 * Draws noise of every compute rate, link level and the usable memory, seeded, of each amount. The best is the shortest
 * of what re-solving finds and of all plans known, this one included: regret is never negative.
 *
 * out: (amount_count); of draws that time had no room for nothing is said
 * report: of each amount when all its draws are answered; may be NULL
 */
bool explain_regrets(struct explainer *e, const struct explained *plan, const double *amounts, int amount_count,
                     int draws, uint64_t seed, struct regret *out, void (*report)(void *self, int amount), void *self,
                     struct error *err);

/* ---- several plans ---- */
struct point {
    struct solution solution;
    int devices;
    int64_t peak_bytes, step_ns;
    int of_type[MAX_TYPES]; /* devices of each type of the explainer's cluster */
    const char *cluster;    /* they, as --cluster takes them, or in words where that has no short form */
};
enum { MAX_POINTS = 96 };
struct frontier {
    int count;
    struct point points[MAX_POINTS]; /* none is worse than another in both; shortest step first */
};
/* Sets step against peak memory: what is known, with the alternatives to the whole space's plan; and re-solved with
 * ever less memory, each time at least 1/32 below the last peak. */
bool explain_memory_frontier(struct explainer *e, struct frontier *out, struct error *err);
/* Sets step against devices of each type: the parts_of_cluster(), downwards until nothing fits. */
bool explain_device_frontier(struct explainer *e, struct frontier *out, struct error *err);
#endif
