/* The room of lowering: how a plan becomes a program.
 *
 * It answers which instructions each stage runs, in which order and behind which waits: the recipes of all layers, the
 * communication that follows from their layouts (convert.c), the schedule's order, and what is received when
 * (lower_arrivals.c). lower_parts.h is what its files share; docs/architecture.md says which file does what.
 *
 * It uses program/ (recipes, schedules, the program's data) and asks layout/ which reads of a value belong to one visit
 * (lives.h). It knows neither prices nor devices.
 * Tested by tests/test_lower.c, test_lower_counts.c (against the counts of the literature), test_recipe.c, and as a
 * whole by test_oracle.c, which runs what is lowered against a model on one device. */
#ifndef CLEAVE_LOWER_LOWER_H
#define CLEAVE_LOWER_LOWER_H
#include "planner/program/program.h"

/* Lowers a plan: the recipes of all layers, communication derived, waits included, offsets not yet. The plan must have
 * passed plan_check(). graph and plan are borrowed and must outlive *out. */
bool lower_program(struct program **out, const struct graph *graph, const struct plan *plan, struct error *err);
/**
 * Makes the program as if lowered from another graph and plan that differ in sizes only: the batch, the size of atoms
 * that split it (1 stays 1). Sizes the listed buffers anew; instructions, pairs and waits stay. lower_program() makes
 * the same instructions then, but for one thing: a bucket of gradients is full by bytes, and whole copies of weights
 * are padded to the ranks that shard them. False when such a copy changes its size, or the loss's chunks their number:
 * lower anew. Buffers that are not listed keep their old sizes; offsets are void.
 */
bool resize_program(struct program *program, const struct graph *graph, const struct plan *plan, const int *buffers,
                    int buffer_count);
#endif
