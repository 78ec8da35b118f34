/* What solving best first and solving for families share: pieces of a wave, and queues of what is not settled. */
#ifndef CLEAVE_SEARCH_PROPOSE_PARTS_H
#define CLEAVE_SEARCH_PROPOSE_PARTS_H
#include "planner/pool/run.h"

enum {
    SLACK_PERMILLE = 10, /* plans this much longer than the best by the formula are candidates too: the judge sees what
                            the formula does not */
    SCOUTS = 3,
    FAMILY_GAP_PPM = 10000 /* of plans that only have to be some plan */
};

struct queue;
/* What the bound of a configuration that waits is: its first, or what proved it. */
enum knowledge { FIRST, LOOSENED, RELAXED, SHARPENED, TRIED };
/* One configuration's problem, solved beside the others of its wave. */
struct piece {
    int config; /* index */
    int64_t bound_ns;
    int64_t enough_ns;               /* the problem's */
    struct queue *queue;             /* that it was taken from */
    bool bound_only;                 /* relaxed, not solved */
    bool loose;                      /* relaxed over loose_table() */
    bool to_the_end;                 /* for the proof: with many nodes, and only what is shorter than the best */
    bool files_order;                /* cut in no other order of the layers */
    int halves;                      /* then the bound is sharpened so often */
    const struct price_table *table; /* NULL: lowering has no program for it */
    struct partition_problem problem;
    struct partition_result result;
    struct arena *arena; /* of the run: candidates keep what lies in it */
    struct error err;
    bool good;
};
/* What is not settled yet, by what is proven of it. */
struct waiting {
    struct ordered at;
    enum knowledge known;
    bool is_floor; /* it has not got its first bound yet: that is no less */
};
struct cover;
struct queue {
    int count, plain_count; /* plain_count: those that are not late */
    struct waiting *list;   /* ascending; late ones behind all others; with room before it for who was taken out */
    struct waiting *moved;  /* room for as many */
    bool raised;            /* first bounds are by all that they know, and not by paths alone */
    struct cover *covers;   /* the newest first */
    int loose_closed, loose_open; /* relaxations over loose tables that ruled a configuration out, and that did not */
};

/* first_bounds.c: into the certificate, which has room for every configuration. */
void propose_record(struct run *run, int config, enum config_fate fate, bool loose);
/* Of struct ordered. */
int propose_compare(const void *a, const void *b);
void propose_sort(struct queue *queue);
/* All configurations that may have a program, by paths, or by their floor. */
bool propose_open_queue(struct run *run, struct queue *queue);
/* Gives first bounds until the configuration at the place has one and none behind it may have less; unless its floor is
 * not below below_ns, or time is over. */
bool propose_settle(struct run *run, struct queue *queue, int place, int64_t below_ns);
/* All that have none yet get theirs, while there is time. */
bool propose_settle_all(struct run *run, struct queue *queue);
/* run->order, by what is known. */
void propose_list(struct run *run);
/* What first bounds say of all plans, into the certificate. */
bool propose_enter_bounds(struct run *run);

/* Solves them side by side, for plans shorter than below_ns, to a gap of at least gap_ppm. */
bool propose_solve(struct run *run, struct piece *pieces, int count, int64_t below_ns, int64_t gap_ppm);
/* The piece's plans become candidates. rough: by a loose gap, until their configuration is solved. */
bool propose_keep(struct run *run, const struct piece *piece, bool rough);
struct waiting propose_take_out(struct queue *queue, int place);
/* The piece's configuration, by the bound that is proven of it now, into the queue that it came from. */
void propose_put_back(const struct piece *piece, enum knowledge known);
/* Relaxed, which did not rule it out. */
bool propose_is_open(const struct piece *piece);
/* run->busy_ns[index]: no plan of the configuration is simulated shorter; as much as can be said, or at least below_ns.
 * Into the bound of all. */
bool propose_bound_simulation(struct run *run, int index, const struct price_table *table, int64_t below_ns);
/* covers.c: whether the other piece's relaxation may rule out this one, too. */
bool propose_may_cover(const struct piece *piece, const struct piece *other);
/* A relaxation before rules out the piece's plans: what it says is their result. */
bool propose_find_cover(const struct queue *queue, struct piece *piece);
/* The piece's relaxation, if it left no plan, for others. */
bool propose_add_cover(struct run *run, const struct piece *piece);
/* A configuration that plainly fits: the least of its weights takes less than two thirds, and the pipeline is mostly
 * full. Such a one gives a good incumbent at once, before those that only look fast are solved. */
bool propose_comfortable(struct run *run, const struct ordered *at, bool *out);
#endif
