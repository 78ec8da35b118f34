/* The bodies of all rows of kernels.def. */
#ifndef CLEAVE_EXECUTOR_GPU_BODIES_ALL_H
#define CLEAVE_EXECUTOR_GPU_BODIES_ALL_H
#include "executor/gpu/bodies/attention.h"
#include "executor/gpu/bodies/columns.h"
#include "executor/gpu/bodies/elementwise.h"
#include "executor/gpu/bodies/experts.h"
#include "executor/gpu/bodies/norms.h"
#include "executor/gpu/bodies/optimizer.h"
#include "executor/gpu/bodies/rows.h"
#endif
