/* Loops over the elements of a call's operands, whatever these are and whoever computes. */
#ifndef CLEAVE_EXECUTOR_KERNELS_LOOPS_H
#define CLEAVE_EXECUTOR_KERNELS_LOOPS_H
#include "executor/kernel.h"

/* An operand over the call's range. */
struct spot {
    char *data; /* element at the low corner of the range; NULL: the operand is absent */
    int64_t element_bytes;
    int64_t stride[MAX_AXES]; /* in elements; 0: the operand lacks the axis */
};
/* The segment's description of the operand of a role. */
const struct operand *operand_of_role(const struct segment *segment, enum role role, int index);
struct spot spot_locate(const struct kernel_call *call, enum role role, int index, int64_t element_bytes);
/* Tells whether the operand begins anew: define says so, or (forward) the fold starts here. */
static inline bool begins(const struct kernel_call *call, enum role role, int index)
{
    return (role == ROLE_OUT && call->first) || (call->define[role] >> index & 1);
}

enum { WALK_SPOTS = 9 };
struct loop {
    int64_t extent;
    int64_t stride[WALK_SPOTS];
};
/* The loops over the axes that `order` (dim_count dims) follows, outermost first, adjacent ones joined where every spot
 * allows; without merge the last axis stays alone. Returns their number. */
int loops_make(const struct kernel_call *call, const struct operand *order, int dim_count, bool merge,
               const struct spot *spots, int spot_count, struct loop loops[MAX_DIMS]);
#endif
