/* Whether any plan of one configuration is shorter, by the formula, than a claimed bound: all ways to cut the chain
 * into stages, without solving them all. */
#ifndef CLEAVE_CHECK_CHECK_CUT_PARTS_H
#define CLEAVE_CHECK_CHECK_CUT_PARTS_H
#include "planner/check/check_orders.h"
#include "planner/check/check_stage.h"

struct cut_problem {
    int layer_count, stage_count, class_count;
    int64_t micro_batch_count;       /* of all replicas in turn together */
    const int *class_of;             /* (layers) */
    const int *cut;                  /* (stages) where each begins, by hand; NULL: anywhere */
    const struct orders *orders;     /* where stages begin and end: its sets. NULL: layers in one order */
    int tied_first, tied_second;     /* layers that share a weight; -1: none */
    const struct stage_kind *stages; /* (stages); with meshes (mesh_count + 1, shape_count): of a stage by how many
                                        meshes there are from it on, and how many it has */
    int64_t once_ns;                 /* sends of the whole pipeline, and the norm's exchange */
    int mesh_count;                  /* 0: one for each stage; else of all together, and stage_count 0: any number */
    int shape_count;                 /* with meshes: */
    const int *turns;                /* (shape_count) meshes that a stage may have */
    bool phases;                     /* stages are apart: all forward passes come before the backward ones */
    const int *device_of; /* (stages) for the value of a plan whose chunks have a device's memory in common; or NULL */
    int64_t *held_bytes;  /* (devices) zeroes: what they hold */
    int64_t device_bytes; /* at most */
};
/* Gives the index of the kind of a stage from which on there are so many meshes, and that has turns[shape] of them. */
static inline int cut_kind(const struct cut_problem *p, int stage, int meshes_left, int shape)
{
    return p->mesh_count == 0 ? stage : meshes_left * p->shape_count + shape;
}
static inline int cut_kinds(const struct cut_problem *p)
{
    return p->mesh_count == 0 ? p->stage_count : (p->mesh_count + 1) * p->shape_count;
}
/* Gives what sends at a stage's ends add to it where stages may have several meshes: one way of each cut. */
static inline int64_t cut_ends_ns(const struct cut_problem *p, const struct stage_kind *kind, bool first, bool last)
{
    return p->mesh_count > 0 ? (2 - first - last) * kind->table->send_ns : 0;
}
/* True when a stage holds the layer, and in cut_holds_both() both layers that share a weight. */
static inline bool cut_holds(const struct cut_problem *p, int first, int end, int layer)
{
    if (p->orders)
        return orders_has(p->orders, end, layer) && !orders_has(p->orders, first, layer);
    return layer >= first && layer < end;
}
static inline bool cut_holds_both(const struct cut_problem *p, int first, int end)
{
    return p->tied_first >= 0 && cut_holds(p, first, end, p->tied_first) && cut_holds(p, first, end, p->tied_second);
}
/* Gives the place where nothing is left: behind all layers. */
static inline int cut_last(const struct cut_problem *p)
{
    return p->orders ? p->orders->count - 1 : p->layer_count;
}
/* Gives the row behind a stage on this one: rows count stages, with meshes those that are used, and if need be both.
 * -1: there are not so many meshes, or stages. */
static inline int cut_row_behind(const struct cut_problem *p, int row, int shape)
{
    int meshes = p->mesh_count;
    if (meshes == 0)
        return row + 1;
    int used = row % (meshes + 1) + p->turns[shape], stage = row / (meshes + 1) + (p->stage_count > 0);
    return used > meshes || stage > p->stage_count ? -1 : stage * (meshes + 1) + used;
}
static inline int cut_rows(const struct cut_problem *p)
{
    return p->mesh_count > 0 ? (p->mesh_count + 1) * (p->stage_count + 1) : p->stage_count + 1;
}
static inline int cut_row_kind(const struct cut_problem *p, int row, int shape)
{
    int meshes = p->mesh_count;
    return meshes > 0 ? cut_kind(p, row / (meshes + 1), meshes - row % (meshes + 1), shape) : row;
}
static inline int cut_row_turns(const struct cut_problem *p)
{
    return p->mesh_count > 0 ? p->shape_count : 1;
}
/* Gives in kind, (kinds), the index of the first of the same kind. */
void cells_like_kinds(const struct cut_problem *p, int *kind);
/* Gives the mean of that sum of paths, than which the longest of the stages, of one mesh each, is no shorter. */
int64_t cut_mean_longest(const struct cut_problem *p, int64_t sum);
enum cut_verdict {
    CUT_HOLDS,    /* proven: no plan is shorter than the bound */
    CUT_REFUTED,  /* *witness_ns is the formula's value of a plan that is */
    CUT_UNDECIDED /* branch and bound or the number of passes met its limit */
};
/* What refutes a bound. */
struct cut_witness {
    int64_t value_ns, forward_ns; /* its step, and the longest forward part of it */
    int64_t rows_ns;              /* its step with from_ns of its stages' kinds in place of that */
};
/* Gives what stages with that sum of paths witness; INT64_MAX: there are none. from_ns is the witness's. */
static inline struct cut_witness cut_witness_of(int64_t sum, struct stage_ends ends, int64_t from_ns)
{
    if (sum == INT64_MAX)
        return (struct cut_witness){ INT64_MAX, INT64_MAX, INT64_MAX };
    return (struct cut_witness){ sum + stage_longest_ns(ends, ends.forward_ns), ends.forward_ns,
                                 sum + stage_longest_ns(ends, from_ns) };
}
/**
 *   T = sum_k C_k + once + max_k Y_k         Y_k: the longest of a stage's three times (check_stage.h)
 *
 * A plan with T < bound has max Y below bound - once - (least sum of C). Under that cap the least sum is larger, which
 * lowers the cap again, until no plan is left or one is found. Fails only for want of memory.
 *
 * Where passes are in phases, check_phases.c.
 */
bool phases_check(const struct cut_problem *problem, int64_t bound_ns, enum cut_verdict *verdict, int64_t *witness_ns,
                  struct error *err);
/* Checks kinds as they stand, and by their from_ns. */
bool cut_check_kinds(const struct cut_problem *problem, int64_t bound_ns, enum cut_verdict *verdict,
                     struct cut_witness *witness, struct error *err);
/* Tells where the longest forward part X of plans shorter than the bound lies: no less than the mean over stages or
 * meshes, and no more than all paths and the mean of the rest leave of the bound. Of kinds that are apart. */
void value_forward_range(const struct cut_problem *p, int64_t bound_ns, int64_t *from_ns, int64_t *to_ns);
/* Sets one order of the layers, in place of all: (layers), NULL: the file's. class_of: (layers), for its classes. */
void value_set_order(struct cut_problem *problem, const int *order, int *class_of);
/* Gives the formula's value of given stages (first_layer, (stages); with meshes shape, (stages), else NULL) with the
 * strategy index of each layer; INT64_MAX when one does not fit. */
int64_t value_of_cut(const struct cut_problem *problem, int stage_count, const int *first_layer, const int *shape,
                     const int *strategy);
/* Gives what no plan is below, whatever fits: what comes once, and the least compute paths spread over the stages. */
int64_t value_quick_bound(const struct cut_problem *problem);
/* True when all stages taken together lack memory even for the thriftiest strategies. */
bool value_lacks_memory(const struct cut_problem *problem);
#endif
