/* Between the two halves of the search: search.c proposes candidates by the formula, rank.c turns them into plans,
 * ranks and judges them. */
#ifndef CLEAVE_SEARCH_PARTS_H
#define CLEAVE_SEARCH_PARTS_H
#include "planner/search/search.h"
#include "planner/search/workbench.h"

struct ordered {
    int64_t bound_ns;
    int index;
};
struct candidate {
    int config; /* index */
    const struct price_table *table;
    struct partition_plan solution;
    struct plan *plan; /* made when ranked */
    int64_t ranked_ns, capacity_bytes;
    int place;          /* how many of its family (stages, tensor degree) are better by the formula */
    int shrinks;        /* how often less memory was promised because a layout did not fit */
    bool judged, rough; /* rough: solved for its family's sake, with a loose gap */
};
struct run {
    struct workbench bench;
    const struct search_options *options;
    struct search_result *result;
    struct arena arena;
    struct config *configs;
    int config_count;
    struct ordered *order; /* (config_count) by bound */
    int candidate_count, candidate_capacity;
    struct candidate *candidates;
    int64_t best_ns, capacity_bytes;
    int64_t open_bound_ns; /* least proven bound of all configurations looked at, or left */
    int64_t start_ns;
    bool stopped; /* by time limit or cancellation */
    struct error *err;
};

bool search_out_of_memory(struct error *err); /* always false */
/* Whether time limit or cancellation end the search now; run->stopped remembers it. */
bool search_stops(struct run *run);
bool search_same_family(const struct run *run, int config, int other); /* stages and tensor degree */
bool search_add_candidate(struct run *run, const struct candidate *candidate);
/* The problem of a configuration with so much memory; false: out of memory. */
bool search_problem(struct run *run, int config, const struct price_table *table, int64_t capacity_bytes,
                    struct partition_problem *out);

/* Turns candidates into plans and ranks them by the pipeline: the best of every family and the best of all. May be
 * called again when there are more. */
bool search_rank(struct run *run);
/* Judges by simulation into run->result: first the best of each family, then what the budget allows. */
bool search_judge(struct run *run);
/* One plan simulated, at the price of few micro-batches. */
bool search_estimate(struct run *run, const struct plan *plan, const struct price_table *table, struct estimate **out);
#endif
