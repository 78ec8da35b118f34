#include "planner/program/program.h"

const struct op_info op_info[OP_COUNT] = {
#define OP(id, name, reads, writes, traffic)                                                                           \
    [OP_##id] = { name, reads, writes, TRAFFIC_##traffic >= TRAFFIC_REDUCE, TRAFFIC_##traffic },
#include "planner/program/ops.def"
#undef OP
};

const char *const role_names[ROLE_COUNT + 1] = {
    [ROLE_IN] = "in",
    [ROLE_OUT] = "out",
    [ROLE_WEIGHT] = "weight",
    [ROLE_GRADIENT_IN] = "gradient-in",
    [ROLE_GRADIENT_OUT] = "gradient-out",
    [ROLE_GRADIENT_WEIGHT] = "gradient-weight",
};
