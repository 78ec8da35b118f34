/* Between the parts of the knapsack: knapsack.c reduces the problem, knapsack_relax.c bounds boxes of counts,
 * knapsack_core.c enumerates what the bounds leave, knapsack_tree.c branches where that is too much. */
#ifndef CLEAVE_KNAPSACK_KNAPSACK_PARTS_H
#define CLEAVE_KNAPSACK_KNAPSACK_PARTS_H
#include "base/arena.h"
#include "planner/knapsack/knapsack.h"

enum { BASIS = KNAPSACK_ROWS + 1, MAX_DEPTH = 1024, LAMBDA_BITS = 30 };

__extension__ typedef __int128 knapsack_wide;

struct column {
    double cost, row[KNAPSACK_ROWS], convexity;
    int *x; /* (option_total) of a point; NULL: a slack or an artificial one */
};
/* Solves one threshold of the peak: options above it are left out, the rest is charged for it. Options that another of
 * their group undercuts in everything, and rows that no choice can violate, are left out too. */
struct knapsack_solver {
    const struct knapsack *problem;
    struct arena arena;
    int problem_options, option_total, rows; /* the problem's; those that are left */
    struct knapsack_option *option;          /* (option_total), rows renumbered */
    int *origin;                             /* (option_total) its number among the problem's options */
    int *first;                              /* (group_count + 1) into option */
    int row_of[KNAPSACK_ROWS];               /* the problem's number of each row that is left */
    int excess_first;                        /* rows from here on may be exceeded; rows: none */
    int64_t cap[KNAPSACK_ROWS], peak;
    int *best;                         /* (the problem's options) */
    int *point, *root;                 /* (option_total); root: lo and hi, twice as long */
    int64_t best_cost, dearest, nodes; /* dearest: no point costs more */
    double cost_scale, row_scale[KNAPSACK_ROWS];
    struct column basis[BASIS];
    int *basis_x[BASIS]; /* storage of the columns' points */
    double share[BASIS], lambda[KNAPSACK_ROWS];
    int *frames[MAX_DEPTH];          /* lo and hi per depth, made on demand */
    double *price, *mean;            /* (option_total) */
    double *scaled_cost;             /* (option_total) cost times cost_scale */
    double *real_row[KNAPSACK_ROWS]; /* (option_total) each row in doubles */
    int *used, used_count; /* (option_total) the options of a point, ascending: of s->point once it is priced out */
    knapsack_wide *whole;  /* (option_total) */
    bool out_of_memory, limited;
};

/* True when nothing worth having can lie above this bound. */
bool knapsack_closed(const struct knapsack_solver *s, int64_t bound);
/* Gives the least bound that knapsack_closed() accepts. */
int64_t knapsack_target(const struct knapsack_solver *s);
/* Gives the bound where every point that was worth having has been looked at. */
int64_t knapsack_exhausted(const struct knapsack_solver *s);
/* Gives what exceeding rows cost when they come to these sums. */
int64_t knapsack_excess(const struct knapsack_solver *s, const int64_t *row);
/* Takes a point as the best one when it is cheaper and fits. */
void knapsack_offer(struct knapsack_solver *s, const int *x);
/* Offers the point nearest to the fractional one: whole parts first, then the largest remainders. */
void knapsack_offer_rounded(struct knapsack_solver *s, const int *lo, const int *hi, const double *mean);
/* Narrows the counts of each group to implied limits; false when the box is empty, *single when one point is left. */
bool knapsack_tighten(const struct knapsack_solver *s, int *lo, int *hi, bool *single);

/* Proves a bound of the box from the multipliers that s->lambda has now (INT64_MAX: no point fits). */
int64_t knapsack_bound(struct knapsack_solver *s, const int *lo, const int *hi);
/* Relaxes the box lo..hi by column generation: a proven bound (INT64_MAX: none fits), mean the fractional optimum. */
int64_t knapsack_relax(struct knapsack_solver *s, const int *lo, const int *hi, double *mean);
/* Makes multipliers whole multiples of 2^-LAMBDA_BITS, those that all bounds are evaluated with, and puts the price of
 * every option for them into s->whole. Returns what the caps take off, a negative number. */
knapsack_wide knapsack_whole_prices(struct knapsack_solver *s, const double *scaled);

/* Lowers hi to what the multipliers in s->lambda allow to points that are worth having. */
void knapsack_fix(struct knapsack_solver *s, const int *lo, int *hi);
/* Enumerates the points of the tightened box that are worth having, with ever more labels (beams ends with 0); *done:
 * all of them. s->lambda: multipliers that suit the box. Fails for want of memory. */
bool knapsack_core(struct knapsack_solver *s, const int *lo, const int *hi, const int *beams, bool *done);
/* Branches and bounds on the box lo..hi in s->root. Returns a proven bound of the best point in it that is cheaper than
 * best_cost. */
int64_t knapsack_tree(struct knapsack_solver *s);
#endif
