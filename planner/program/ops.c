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
const char *const buffer_kind_names[BUFFER_KIND_COUNT + 1] = {
    [BUFFER_VALUE] = "value",
    [BUFFER_VALUE_GRADIENT] = "value-gradient",
    [BUFFER_WEIGHT] = "weight",
    [BUFFER_WEIGHT_USE] = "weight-use",
    [BUFFER_WEIGHT_GRADIENT] = "weight-gradient",
    [BUFFER_GRADIENT] = "gradient",
    [BUFFER_STATE] = "state",
    [BUFFER_STATE_USE] = "state-use",
    [BUFFER_SCALAR] = "scalar",
    [BUFFER_TEMPORARY] = "temporary",
};
const char *const program_fold_names[FOLD_LSE + 2] = {
    [FOLD_NONE] = "none", [FOLD_SUM] = "sum", [FOLD_MAX] = "max", [FOLD_LSE] = "lse"
};
