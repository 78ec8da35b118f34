/* Measured timelines as the simulator has them (settle.c). */
#ifndef CLEAVE_EXECUTOR_SETTLE_H
#define CLEAVE_EXECUTOR_SETTLE_H
#include "planner/sim/timeline.h"

/**
 * Measured timelines of all ranks on one clock: lets every transfer begin when the last of its partners came, so that
 * waiting counts as idle time and not as communication, as in the simulator.
 */
bool timeline_settle(const struct program *program, struct timeline *timeline, struct error *err);
#endif
