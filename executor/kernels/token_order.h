/* In which order ranks hold the tokens of a sequence that they share out. Of 2n equal blocks rank i of n holds the i-th
 * and the i-th from the end ("zigzag", as Llama 3 has it: Dubey et al. 2024, section 3.3.2), so that under a causal
 * mask every rank has as many keys to look at, in each round of a ring too. It is a permutation of what is stored: data
 * are loaded by it, masks and positions follow it, nothing else knows of it. */
#ifndef CLEAVE_EXECUTOR_KERNELS_TOKEN_ORDER_H
#define CLEAVE_EXECUTOR_KERNELS_TOKEN_ORDER_H
#include "planner/program/program.h"

/* n: into how many parts balanced attention is split where it is split most; 1: stored in order. */
int64_t token_parts(const struct program *program);
/* Of the token that is stored at this place of a sequence of so many. */
int64_t token_position(int64_t stored, int64_t size, int64_t parts);
/* The first place behind `stored` whose token does not follow the one before it. */
int64_t token_run_end(int64_t stored, int64_t size, int64_t parts);
#endif
