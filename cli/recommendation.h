/* What `cleave recommend` found: clusters that were looked at, in the order of how well they serve, and how they are
 * shown. */
#ifndef CLEAVE_CLI_RECOMMENDATION_H
#define CLEAVE_CLI_RECOMMENDATION_H
#include "cli/prices.h"
#include "models/model.h"

enum verdict {
    VERDICT_MEETS,
    VERDICT_SLOW,     /* its best plan takes too long */
    VERDICT_DEAR,     /* it costs too much */
    VERDICT_NO_PLAN,  /* nothing fits */
    VERDICT_HOPELESS, /* not searched: by its devices' peak alone it is too slow or too dear */
    VERDICT_WORSE,    /* not searched: by their peak alone it is no cheaper, or no smaller, than one that meets */
    VERDICT_UNTRIED,  /* time was over before it was searched, or searched to the end */
    VERDICT_LEFT_OUT  /* the job cannot be asked of it: why */
};
enum goal { GOAL_SMALLEST, GOAL_CHEAPEST, GOAL_FASTEST };

struct offer {
    const char *cluster; /* as --cluster takes it */
    const char *why;     /* of VERDICT_LEFT_OUT */
    const char *widened; /* "offload": by what the space became wider for a plan to fit; NULL: by nothing */
    bool narrow;         /* nothing fits, and a wider space was not searched, as another serves better */
    enum verdict verdict;
    int devices;
    double bound_s; /* no step is shorter, by the peak of all devices; 0: not known */
    int64_t step_ns, peak_bytes;
    struct spending spending; /* of the step; where it was not searched of the bound */
};
enum { MOST_OFFERS = 1024 };
struct recommendation {
    struct arena arena;
    const struct model *model;
    bool own_prices; /* of what cleave runs itself: no framework or target was given */
    int64_t batch, sequence;
    double tokens;         /* to train on; 0: a step is asked about */
    double target_s;       /* of the whole, or of a step; 0: none */
    double budget_dollars; /* likewise */
    enum goal goal;
    bool doubled;              /* of some types 1, 2, 4, ... nodes, and for a time numbers between, but not all */
    int searched, count, best; /* best: -1, none meets it */
    struct offer offers[MOST_OFFERS];
};
/* How often a step is taken: for all tokens, or once. */
double recommendation_steps(const struct recommendation *r);
/* Whether the offer serves better by the goal: both meet what is asked. */
bool recommendation_is_better(const struct recommendation *r, const struct offer *a, const struct offer *b);
/* Puts those that meet it first, by the goal, then those that miss it by least; *best is the first, if it meets it. */
void recommendation_sort(struct recommendation *r);
/* job: the words that `cleave plan` needs beside the cluster. */
void recommendation_print(const struct cli *cli, const struct recommendation *r, const char *job);
void recommendation_write(struct json_writer *w, const struct recommendation *r);
#endif
