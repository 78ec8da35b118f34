/* What both sides of the target nnscaler know. */
#ifndef CLEAVE_TARGETS_NNSCALER_H
#define CLEAVE_TARGETS_NNSCALER_H
#include "targets/target.h"

enum { NNSCALER_MIB = 1 << 20 }; /* buckets are told in MiB */
extern const struct target target_nnscaler;
bool nnscaler_write(struct launch_files *out, const struct launch *launch, const struct launch_context *context);
#endif
