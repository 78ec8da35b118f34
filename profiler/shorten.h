/* A model small enough to measure, with the computations of the whole one. */
#ifndef CLEAVE_PROFILER_SHORTEN_H
#define CLEAVE_PROFILER_SHORTEN_H
#include "models/model.h"

/* The model with every repeated block once (twice where layers are frozen: then the first copy of a block has less of a
 * backward pass than the rest), or as few times as it takes to have so many parameters. It shares the layers of
 * `model`; free it with arena_free(&out->arena). */
bool model_shorten(struct model *out, const struct model *model, int64_t least_parameters, struct error *err);
#endif
