/* The mesh of a stage and what its atoms stand for: the outer choice of a plan that all its stages share. */
#ifndef CLEAVE_SPACE_MESH_H
#define CLEAVE_SPACE_MESH_H
#include "planner/plan/plan.h"

struct mesh {
    int atom_count;        /* at most MAX_ATOMS */
    int size[MAX_ATOMS];   /* ranks; the last atom is the innermost; unused ones are 1 */
    int8_t dim[MAX_ATOMS]; /* enum dimension_index that layers give the atom unless their strategy says otherwise */
};
struct mesh mesh_none(void); /* no atoms, one rank */
/* Appends an atom inside those that are there. */
void mesh_add(struct mesh *mesh, int size, enum dimension_index dim);
int mesh_ranks(const struct mesh *mesh);
/* Gives the mesh with one atom for neighbours of one dimension. */
struct mesh mesh_joined(const struct mesh *mesh);
/* Puts the plan's stages on a mesh each, from the cluster's mesh `first` on. */
void mesh_set_stages(const struct mesh *mesh, int first, struct plan *plan);
bool mesh_equal(const struct mesh *a, const struct mesh *b);
/* These give degrees: ranks that work on one sequence's heads and columns; that have sequences of their own. */
int mesh_tensor(const struct mesh *mesh);
int mesh_data(const struct mesh *mesh);
int mesh_expert(const struct mesh *mesh); /* ranks of any kind that share out the experts */
/* True when a tensor-parallel atom shares out the sequence too. */
bool mesh_sequence_parallel(const struct mesh *mesh);
/* Gives the number of ranks over which ZeRO could shard. */
int mesh_shards(const struct mesh *mesh);
/* A strategy is what every layer decides for itself. */
struct strategy {
    struct plan_layer layer;
};
#endif
