/* What a search is asked and what it answers: options, plans, certificate, statistics, the nearest if none fits. */
#ifndef CLEAVE_POOL_ANSWER_H
#define CLEAVE_POOL_ANSWER_H
#include "base/workers.h"
#include "planner/tables/certificate_hash.h"
#include "planner/estimate/estimate.h"
#include "planner/cut/partition.h"
#include "planner/space/space.h"

struct model;

enum search_part {
#define PART(id, name, doc) PART_##id,
#define HEURISTIC(id, name, doc) PART_##id,
#include "planner/pool/parts.def"
#undef PART
#undef HEURISTIC
    SEARCH_PARTS
};
struct search_part_facts {
    const char *name;
    bool heuristic; /* may be left out */
};
extern const struct search_part_facts search_part_facts[SEARCH_PARTS];
/* What a part of a search did: its time, its finds and how often one of its plans became the incumbent. */
struct part_statistics {
    int64_t spent_ns; /* processor time; 0 without calls.spent_ns */
    int64_t candidates, simulated;
    int64_t led; /* how often a plan of it became the incumbent */
};

struct search_calls {
    void *self;
    int64_t (*now_ns)(void *self);   /* monotonic; may be NULL: no time limit */
    int64_t (*spent_ns)(void *self); /* processor time so far; may be NULL */
    bool (*cancelled)(void *self);   /* may be NULL */
    /* Is told now and then by the thread that asked; self is the `watcher`. May be NULL. */
    void (*progress)(void *self, int solved, int total, int64_t best_ns);
    void *watcher;
    struct workers workers; /* the answer does not depend on them; now_ns and cancelled are called from their threads */
};
/* A plan that another search found: how long it is by the walk and simulated, and what judging it took. */
struct search_peer {
    struct config config;
    int64_t ranked_ns, simulated_ns, effort;
};
/* A plan that another search with the same facts has judged by its pace. */
struct search_known {
    uint64_t hash;
    struct estimate *estimate; /* taken over by the search that meets the plan, and NULL then */
};
struct search_options {
    struct space space;
    int top;            /* plans wanted, at least 1 */
    unsigned skip;      /* heuristics that are left out: bits, by enum search_part */
    int rank_count;     /* plans ranked by the pipeline; 0: 128 */
    int64_t proof_work; /* knapsacks and passes of the proof before plans are judged; 0: 12,000 */
    bool paced;         /* steps of few micro-batches are continued by simulation, not by the walk */
    bool told; /* with paced: what is soon simulated whole is, in the end, and uneven pipelines are judged as without */
    int64_t gap_ppm;       /* good enough: within so many millionths of the formula's optimum; 0: to the end */
    int64_t time_limit_ns; /* 0: none; then the best so far, with its bound. What is being lowered or simulated ends,
                              and where there is no plan yet one is looked for among what plainly fits */
    bool no_advice;        /* when nothing fits, do not look for what would */
    bool thrifty;     /* the space holds thrifty choices only: when nothing fits, do not look among them once more */
    bool any_plan;    /* the first that fits will do: of what is ranked, the best */
    int64_t worth_ns; /* with any_plan: nor is a longer step of use, and the first that is no shorter ends it; 0: any */
    int64_t below_ns; /* with any_plan: what the closed form finds longer is of no use; 0: any is */
    bool unjudged;    /* with any_plan: nothing is simulated; certificate.best_ns is what the closed form finds, or 0 */
    const struct plan *rival; /* with worth_ns: a plan that takes so long; where the walk tells that one of its shape is
                                 hardly shorter, that is not simulated. May be NULL */
    /* With below_ns, what another search of other treatments found and judged, since the walk is off alike for plans of
     * its schedule. NULL: nothing is known. */
    const struct search_peer *peer;
    struct search_known *known; /* NULL: none */
    int64_t most_instrs; /* with any_plan: where what comes next is guessed to have more, nothing is simulated any
                            more; 0: all may be */
    const struct config
        *among;      /* (among_count) with any_plan: of the space's configurations only these are looked at */
    int among_count; /* 0: all */
    const struct config *leaders; /* (leader_count) with any_plan, of another schedule than the space's: what the closed
                                     form finds for these leads plans of schedules that it does not bound, and all are
                                     judged together */
    int leader_count;
    bool tight;        /* what misses by little is laid out whole before it is turned down */
    bool nearest_only; /* nothing is searched: only what comes nearest, as where nothing fits */
    bool doubts;       /* where the nearest plan fits once it is laid out, the caller goes on: nothing is advised */
    bool doubtful;     /* the formula may use more than there is, by what a layout may need less than expected */
    bool keep_all;     /* no pruning by bounds: for tests and comparisons */
    struct search_calls calls;
    /* Prices that other searches of the model need, too; may be NULL, and answers do not depend on them. */
    struct price_shelf *prices;
    uint64_t rates; /* the number of the facts there (workbench_open_from()); 0: none */
    struct pace_shelf *paces;
};

/* What became of a configuration whose bound did not rule it out. FATE_LEFT: it was not settled when time was over;
 * FATE_UNSEEN: it had no first bound then. */
struct config_record {
    int config; /* index */
    enum config_fate fate;
    int64_t first_ns; /* its first bound */
};
/* Configurations that follow each other and have one fate. */
struct config_range {
    enum config_fate fate;
    int first, last; /* indices */
};

/* Tells what certificates say; those of version 1 had further simulated bounds and hashes of further prices. */
enum { CERTIFICATE_VERSION = 4 };
/* What is proven by the formula over the whole space: no plan in it is shorter than bound_ns. What this proves and
 * what not: the formula counts every layer's compute path and the whole traffic of a stage, but lets gathers and
 * reductions of ZeRO hide behind any computation of the stage, wherever it is. The simulation lets them hide only where
 * they are, so plans with much ZeRO-3 traffic take longer than the formula says, and the plan chosen by the simulation
 * may be another than the formula's best: the best of several families (stages, tensor degree) are simulated, and the
 * shortest step wins. gap is the distance from the simulated step to the bound, not a proof that so much could still
 * be gained. */
struct certificate {
    int64_t bound_ns;       /* 0: nothing is proven, as of a schedule that idles less than those of the formula */
    int64_t formula_ns;     /* the chosen plan's own value */
    int64_t best_ns;        /* the formula's value of the best plan by it */
    const char *best;       /* that plan's configuration */
    struct plan *best_plan; /* the plan itself, the result's; NULL: the first plan is it */
    int64_t memory_bytes;   /* of a device that plans may use */
    /* Gaps say nothing, and are not written, where their bound is 0. */
    double proof_gap;   /* (best_ns - bound_ns) / bound_ns: 0 when all that could be better was solved to the end */
    double formula_gap; /* (formula_ns - bound_ns) / bound_ns: the chosen plan by the formula; more than proof_gap where
                           the simulation prefers it to the formula's best */
    double gap;         /* (simulated step - bound_ns) / bound_ns: what the formula does not see */
    int64_t simulated_bound_ns; /* no plan of the space is simulated shorter, whatever its schedule (busy_bound.h); 0:
                                   the search ended before all configurations were looked at */
    double simulated_gap;       /* (simulated step - simulated_bound_ns) / simulated_bound_ns */
    bool complete;              /* no configuration is left or unseen, the proof is as close as it was asked for, and
                                   simulated_bound_ns is about those that the formula does not bound, too */
    int64_t asked_gap_ppm;      /* so close: millionths of the bound */
    bool ended;                 /* by time limit or cancellation, wherever it was */
    bool narrower_only; /* time was over before the configurations were listed, or (crowded) there are very many: all
                        this is about those with one mesh for each stage */
    bool crowded;
    /* Configurations are counted by fate, and the counts add up to all. pruned_bound: their first bound ruled them out,
     * so they have no record; refused: lowering had no program for them. */
    int64_t configurations, pruned_memory, pruned_bound, solved, refused, left, unseen;
    int64_t unbounded; /* further ones that the formula does not bound (space_configs_unbounded()): simulated_bound_ns
                       is about them too, bound_ns is not */
    int64_t ideals; /* of a model with branches: order ideals of its layers, whose chains are the cuts that all this is
                       about; 0: only the cuts of the file's order; -1: the layers have one order only */
    int64_t orders_bound_ns; /* with ideals 0: no plan in any order of the layers is shorter by the formula; 0: nothing
                                is proven of them */
    struct certificate_hash hash; /* of the configurations that were looked at */
    int record_count;             /* all configurations but those that their bound ruled out */
    struct config_record *records;
    int range_count; /* the records, ascending */
    struct config_range *ranges;
    bool coarse; /* there were too many: some hold what its first bound rules out, too, or what had another fate */
    int64_t knapsacks, nodes, passes;             /* nodes: of knapsacks solved to the end */
    int64_t candidates, ranked, judged, rejected; /* rejected: did not fit after layout */
    uint64_t widened; /* choices (bits, enum space_choice) by which the space became wider, since nothing fitted */
};
struct search_plan {
    struct plan *plan;
    struct config config;
    int64_t formula_ns, ranked_ns;
    struct estimate *estimate;
};
/* A plan that was simulated, and what it is simulated to take at least: the search may have had better ones. */
struct simulated_plan {
    struct plan *plan; /* the result's */
    int64_t least_ns, formula_ns;
    int64_t peak_bytes; /* about, of the fullest stage; 0: beaten before anyone looked whether it fits */
};
/* Names what could be otherwise so that something fits; they are looked for in this order, the costliest last. */
enum advice_kind {
    ADVICE_BATCH,    /* sequences */
    ADVICE_MICRO,    /* sequences; where the user restricts it, else micro-batches of one were tried */
    ADVICE_SEQUENCE, /* tokens */
    ADVICE_DEVICES,  /* in all: whole multiples of the nodes */
    ADVICE_BITS,     /* of a frozen matrix's element, where the model has such in 16 */
    ADVICE_MEMORY,   /* bytes of a device, those that it keeps for itself among them */
    ADVICE_COUNT
};
extern const char *const advice_names[ADVICE_COUNT]; /* advice.c */
struct advice {
    int64_t now, value; /* value 0: none was found */
    struct plan *plan;  /* that fits then, if nothing else changes; NULL: none was found. The result's */
    bool ended;         /* by time limit or cancellation, before all were tried */
};
/* What the nearest plan needs on the devices of one type, where nothing fits. */
struct shortage {
    const char *device;                    /* the type's; borrowed from the facts */
    int stage;                             /* of those on the type the one that needs most; -1: none lies on it */
    int64_t needed_bytes, available_bytes; /* on each device of the type */
};
struct search_result {
    struct arena arena;
    bool feasible;
    bool beaten;     /* before any plan one was left as not worth it (options.worth_ns), whether it fits or not */
    const char *why; /* the space has no configuration: what does not divide, and what to type; else NULL */
    int64_t unfit_ns; /* of layers treated alike (targets/uniform.h), what the closed form finds shortest of a way that
                         has no room once it is laid out; 0: it has */
    int plan_count;  /* best first by simulated step; at most options.top */
    struct search_plan *plans;
    int simulated_count; /* those of `plans` may be among them */
    struct simulated_plan *simulated;
    int near_count;
    struct config *near; /* (near_count) with options.prices: configurations that may be best under other rates */
    struct certificate certificate;
    struct part_statistics parts[SEARCH_PARTS];
    /* Tells, when nothing fits, which plan needs least, and where it lacks memory. */
    struct {
        struct plan *plan; /* NULL when feasible */
        int stage;
        int64_t needed_bytes, available_bytes;
        int64_t host_needed_bytes, host_available_bytes; /* beside each device, where devices have room and hosts lack
                                                            it; 0: devices do */
        bool fits; /* once it is laid out, though the formula has no room for it */
        int64_t promised_bytes; /* with so much usable the search finds it: few micro-batches leave some room */
        int type_count;
        struct shortage types[MAX_TYPES];   /* (type_count) in the cluster's order */
        const char *cluster;                /* the name of the one searched: its short form or its file's */
        struct advice advice[ADVICE_COUNT]; /* by enum advice_kind; zeroes with no_advice */
    } nearest;
};
#endif
