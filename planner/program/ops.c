#include "planner/program/program.h"

const struct op_info op_info[OP_COUNT] = {
#define OP(id, name, reads, writes, traffic)                                                                           \
    [OP_##id] = { name, reads, writes, TRAFFIC_##traffic >= TRAFFIC_REDUCE, TRAFFIC_##traffic },
#include "planner/program/ops.def"
#undef OP
};

const char *const role_names[ROLE_COUNT + 1] = {
#define ROLE(id, name, list, holds, weight) [ROLE_##id] = name,
#include "planner/program/roles.def"
#undef ROLE
};
const char *const buffer_kind_names[BUFFER_KIND_COUNT + 1] = {
#define BUFFER(id, name, holds) [BUFFER_##id] = name,
#include "planner/program/buffers.def"
#undef BUFFER
};
const char *const program_fold_names[FOLD_LSE + 2] = {
    [FOLD_NONE] = "none", [FOLD_SUM] = "sum", [FOLD_MAX] = "max", [FOLD_LSE] = "lse"
};
