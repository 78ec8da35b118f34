/* Names of outer configurations, by which certificates speak of them. */
#ifndef CLEAVE_SPACE_CONFIG_NAME_H
#define CLEAVE_SPACE_CONFIG_NAME_H
#include "planner/space/space.h"

enum { CONFIG_NAME_BYTES = 192 };
/* Names a configuration "pp=8 dp=16 tp+sp=8 micro-batch=1 schedule=1f1b prefetch=1", "pp=any meshes=8 ..." where
 * replicas take turns, "pp=3 spread=8 ..." where a stage's meshes share micro-batches; with "interleave=2",
 * "bucket=4MiB" and "reversed" or "groups=2.0.1" (of nodes, in the pipeline's order) where they are so: the mesh's
 * atoms from the outside in, then the rest. */
const char *config_name(char out[CONFIG_NAME_BYTES], const struct config *config);
#endif
