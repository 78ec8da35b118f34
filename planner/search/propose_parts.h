/* What solving best first and solving for families share: jobs of a wave, and queues of what is not settled. */
#ifndef CLEAVE_SEARCH_PROPOSE_PARTS_H
#define CLEAVE_SEARCH_PROPOSE_PARTS_H
#include "planner/bound/busy_bound.h"
#include "planner/search/search_parts.h"

struct queue;
/* Says where the bound of a waiting configuration comes from: it is the first one, or what proved it since. */
enum knowledge { FIRST, RELAXED, SHARPENED, TRIED };
/* One configuration's problem, solved beside the others of its wave. */
struct job {
    int config; /* index */
    int64_t bound_ns;
    int64_t enough_ns;   /* the problem's */
    int64_t below_ns;    /* only shorter plans are wanted of it; 0: as for all of its wave */
    struct queue *queue; /* that it was taken from */
    bool bound_only;     /* relaxed, not solved */
    bool by_least;       /* first by what strategies cost at least */
    bool unstoppable;    /* time does not end it: it is for a first plan, without which there is no answer */
    bool to_the_end;     /* for the proof: with many nodes, and only what is shorter than the best */
    bool files_order;    /* cut in no other order of the layers */
    int halves;          /* then the bound is sharpened so often */
    const struct price_table *table; /* NULL: lowering has no program for it */
    const struct price_table *least; /* what it is bounded by before it is priced; NULL: nothing */
    bool whole, done;                /* priced: then it is done when it is solved, or before */
    int like;                        /* index of a job of the wave with the same problem, -1: none */
    struct partition_problem problem;
    struct partition_result result;
    struct arena *arena; /* of the run: candidates keep what lies in it */
    struct error err;
    bool good;
};
/* What is not settled yet, by what is proven of it. */
struct waiting_config {
    struct ordered at;
    enum knowledge known;
};
struct queue {
    int count, early_count; /* early_count: those that were not tried */
    struct waiting_config
        *list; /* ascending; tried ones behind all others; with room before it for who was taken out */
};

/* first_bounds.c: enters the fate into the certificate, which has room for every configuration. */
void first_bounds_record(struct run *run, int config, enum config_fate fate);
/* Orders waiting configurations by bound, those that were tried behind all others: these take longer, and are pruned by
 * what the others have found. */
int first_bounds_compare(const void *a, const void *b);
void first_bounds_sort(struct queue *queue);
/* Queues all configurations that have a first bound and a program, least compute path first. */
bool first_bounds_open_queue(struct run *run, struct queue *queue);
/* Fills run->order with the configurations, by what is known of their bounds. */
void first_bounds_list(struct run *run);
/* Enters into the certificate what first bounds say of all plans. */
bool first_bounds_enter(struct run *run);

/* Solves them side by side, for plans shorter than below_ns, to a gap of at least gap_ppm. */
bool propose_solve(struct run *run, struct job *jobs, int count, int64_t below_ns, int64_t gap_ppm);
/* Makes candidates of the job's plans. rough: they were found with a loose gap, and stay until all of it is solved. */
bool propose_keep(struct run *run, const struct job *job, bool rough);
struct waiting_config propose_take_out(struct queue *queue, int place);
/* Puts the job's configuration back into the queue that it came from, by the bound that is proven of it now. */
void propose_put_back(const struct job *job, enum knowledge known);
/* True when the job was relaxed, and that did not rule it out. */
bool propose_is_open(const struct job *job);
/* Sets run->busy_ns[index], below which no plan of the configuration is simulated: as much as can be said, or at least
 * below_ns; it also enters the bound of all. known: as for busy_bound(). */
bool first_bounds_simulation(struct run *run, int index, const struct price_table *table, int64_t below_ns,
                             struct busy *known);
#endif
