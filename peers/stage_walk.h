/* What stages.c and the stage_*.c share: the pass over all ideals. */
#ifndef CLEAVE_PEERS_STAGE_WALK_H
#define CLEAVE_PEERS_STAGE_WALK_H
#include "peers/stages.h"

struct stage_label {
    double value, load;        /* of all stages so far, of the last one */
    int ideal, previous, next; /* previous: label of the stages before, -1; next of the same ideal, -1 */
    int16_t used[STAGE_AXES];
    int choice;
};
struct stage_frame {
    int ideal, node;
    int64_t at;
};
struct far_label {     /* what can be seen from far above */
    double key, value; /* value: of the label and of the way in */
    int label;
};
struct far_stair { /* none better than another: value and key grow together */
    struct far_label *steps;
    int count, capacity;
};
struct own_label { /* of the ideal from which stages begin */
    double value;
    int label, used;
};
struct stage_way { /* to go on from the ideal where stages begin: a label, a choice, and what both use */
    int label, choice, used[STAGE_AXES];
};
struct stage_use {   /* of one ideal and use of axis 1: uses of axis 0 */
    int fits, fails; /* the most that is known to leave room for the rest, the least that is known not to */
    int held;        /* the least of a label that uses no more of axis 1 */
};
struct potentials { /* of one ideal and choice */
    double key, entry, exit;
};
struct ends {           /* of stages at one ideal, below the limit: uses of axis 0 */
    int fits;           /* the most after which the rest still fits; -1: not asked yet */
    int begins, leaves; /* the least of a choice that may begin there, that may end there */
};
struct stage_walk {
    const struct stage_model *model;
    const struct ideals *ideals;
    enum stage_value objective;
    double limit;
    int start, end;                       /* of a pass: ideals below and from there on are left out */
    int64_t work, work_limit, pass_limit; /* pass_limit: where a pass is given up, for one with another limit */
    bool (*stops)(void *self);
    void *stops_self;
    int64_t asked;          /* the work when stops() was asked last */
    bool stopped, given_up; /* by the work limit or stops(); by the pass limit */
    bool decides; /* of labels with the same use any will do: a pass says whether there is a placement, and finds one */
    bool by_use;  /* of labels with different use the value does not count */
    struct stage_label *labels;
    int label_count, label_capacity;
    int *head;                     /* (count) first label of each ideal, -1 */
    int *seen, stamp;              /* (count) the last walk that met the ideal */
    struct stage_frame *path;      /* (node_count + 2) */
    struct potentials *potentials; /* (count, choice_count); NULL: the model has none, or they are too many */
    int *pinch;                    /* (count) first pinch after the ideal; count when none */
    struct ends *ends;             /* (count) with potentials and slots */
    int *leaving, *leaving_end; /* (count) ideals before the next pinch at which stages may end; (axis_limit[0] + 1) how
                                   many of them, the first ones, allow so much use before that stage */
    int listed_pinch;           /* the pinch for which they were listed, -1 */
    struct far_stair *stairs;   /* (choice_count, axis_limit[0] + 1) */
    int *slot;              /* (count, axis_limit[0] + 1) label of exactly that use, -1. NULL: labels are searched */
    double *slot_value;     /* (count, axis_limit[0] + 1) its value, or what it must be below; INFINITY: not known */
    struct stage_use *uses; /* (count, axis_limit[1] + 1) NULL: slots, exact axes, or too many */
    struct own_label *own;  /* (axis_limit[0] + 1) */
    int own_count;
    double own_limit; /* loads of stages behind them must be below this */
    struct stage_way
        *ways; /* without slots: of each choice those before way_end (choice_count), behind the last one's */
    int *way_end;
    int way_count, way_capacity;
    struct error *err;
};
/* Whether a pass that does not only decide finds the smallest largest load, and not any below the limit. */
bool stage_walk_is_exact(const struct stage_walk *walk);
/* One pass below `limit`; *best: the label of everything, -1 when there is none. False: out of memory or a plug-in's
 * failure. */
bool stage_walk_pass(struct stage_walk *walk, int start, double limit, int *best, struct error *err);

/* The stage with this load behind the label, up to the ideal `above`, unless its rest cannot fit. Fails for want of
 * memory. */
bool stage_walk_extend(struct stage_walk *walk, int label, int above, int choice, double load);
/* What is known of stages that begin or end at the ideal, behind another than the first. */
const struct ends *stage_walk_ends(struct stage_walk *walk, int ideal);
/* Counts a pair of ideals, and says whether the pass ends here. */
bool stage_walk_must_stop(struct stage_walk *walk);

/* ---- stage_far.c ---- */

void stage_far_forget(struct stage_walk *walk);
/* The labels of `below` can now be seen from every ideal that follows. */
bool stage_far_show(struct stage_walk *walk, int below);
/* The best stage of each choice and use from what is seen up to the ideal. */
bool stage_far_relax(struct stage_walk *walk, int above);

/* ---- stage_tables.c ---- */

/* How many stairs there are: one per choice and use. */
int stage_walk_stairs(const struct stage_model *model);

/* ---- stage_labels.c ---- */

/* Place of a use of the ideal in slot and slot_value. */
size_t stage_labels_slot(const struct stage_walk *walk, int ideal, int used);
/* Of the ideal and a use of axis 1, in walk->uses. */
static inline struct stage_use *stage_labels_use(const struct stage_walk *walk, int ideal, int used)
{
    return &walk->uses[(size_t)ideal * (size_t)(walk->model->axis_limit[1] + 1) + (size_t)used];
}
/* Whether label a makes b superfluous. */
bool stage_labels_dominate(const struct stage_walk *walk, const struct stage_label *a, const struct stage_label *b);
/* Whether a label of `above` makes any that uses this much superfluous, whatever its value; walk->uses is NULL. */
bool stage_labels_beat(const struct stage_walk *walk, int above, const int used[STAGE_AXES]);
/* Keeps the label unless another one is as good; what it makes superfluous goes. Fails for want of memory. */
bool stage_labels_insert(struct stage_walk *walk, struct stage_label label);
#endif
