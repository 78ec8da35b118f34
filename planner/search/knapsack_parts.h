/* Between the two halves of the knapsack: branch and bound (knapsack.c) asks for bounds of boxes (knapsack_relax.c). */
#ifndef CLEAVE_SEARCH_KNAPSACK_PARTS_H
#define CLEAVE_SEARCH_KNAPSACK_PARTS_H
#include "base/arena.h"
#include "planner/search/knapsack.h"

enum { BASIS = KNAPSACK_ROWS + 1, MAX_DEPTH = 1024 };

__extension__ typedef __int128 knapsack_wide;

struct column {
    double cost, row[KNAPSACK_ROWS], convexity;
    int *x; /* (option_total) of a point; NULL: a slack or an artificial one */
};
struct knapsack_solver {
    const struct knapsack *problem;
    struct arena arena;
    int option_total, rows;
    const struct knapsack_option **option; /* (option_total) */
    int *first;                            /* (group_count + 1) into option */
    int64_t cap[KNAPSACK_ROWS];            /* with the threshold taken off row 0 */
    int *best, *point;                     /* (option_total) */
    int64_t best_cost, dearest, nodes;     /* dearest: no point costs more */
    double cost_scale, row_scale[KNAPSACK_ROWS];
    struct column basis[BASIS];
    int *basis_x[BASIS]; /* storage of the columns' points */
    double share[BASIS], lambda[KNAPSACK_ROWS];
    int *frames[MAX_DEPTH]; /* lo and hi per depth, made on demand */
    double *price;         /* (option_total) */
    knapsack_wide *whole;  /* (option_total) */
    bool out_of_memory, limited;
};

/* Takes a point as the best one when it is cheaper and fits. */
void knapsack_offer(struct knapsack_solver *s, const int *x);
/* The cheapest point of the box for s->lambda, into s->point; its Lagrangian value in scaled doubles. price has room
 * for all options. */
double knapsack_price_out(struct knapsack_solver *s, const int *lo, const int *hi, double *price);
/* A proven bound of the box from the multipliers that s->lambda has now (INT64_MAX: no point fits). */
int64_t knapsack_bound(struct knapsack_solver *s, const int *lo, const int *hi);
/* Column generation on the box lo..hi: a proven bound (INT64_MAX: no point fits), in mean the fractional optimum. */
int64_t knapsack_relax(struct knapsack_solver *s, const int *lo, const int *hi, double *mean);
#endif
