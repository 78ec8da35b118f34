#include "planner/space/mesh.h"
#include <string.h>

struct mesh mesh_none(void)
{
    return (struct mesh){ .size = { 1, 1, 1, 1 } };
}

void mesh_add(struct mesh *mesh, int size, enum dimension_index dim)
{
    mesh->size[mesh->atom_count] = size;
    mesh->dim[mesh->atom_count++] = (int8_t)dim;
}

struct mesh mesh_joined(const struct mesh *mesh)
{
    struct mesh joined = mesh_none();
    for (int i = 0; i < mesh->atom_count; i++)
        if (i > 0 && mesh->dim[i] == mesh->dim[i - 1])
            joined.size[joined.atom_count - 1] *= mesh->size[i];
        else
            mesh_add(&joined, mesh->size[i], (enum dimension_index)mesh->dim[i]);
    return joined;
}

/* Defines a function that multiplies the sizes of atoms, of those whose dimension is as the condition says. */
#define MESH_PRODUCT(name, by, condition)                                                                              \
    int name(const struct mesh *mesh)                                                                                  \
    {                                                                                                                  \
        int ranks = 1;                                                                                                 \
        for (int i = 0; i < mesh->atom_count; i++) {                                                                   \
            const struct dimension *by = dimensions[mesh->dim[i]];                                                     \
            ranks *= (condition) ? mesh->size[i] : 1;                                                                  \
        }                                                                                                              \
        return ranks;                                                                                                  \
    }
MESH_PRODUCT(mesh_ranks, by, by)
MESH_PRODUCT(mesh_tensor, by, by != dimensions[DIM_none] && by->lane == LANE_TP)
MESH_PRODUCT(mesh_data, by, by->splits_batch)
MESH_PRODUCT(mesh_expert, by, dimension_prefers(by, TAG_EXPERT))
MESH_PRODUCT(mesh_shards, by, by->shard)

void mesh_set_stages(const struct mesh *mesh, int first, struct plan *plan)
{
    plan->atom_count = mesh->atom_count;
    plan->rank_count = (first + plan->stage_count) * mesh_ranks(mesh);
    for (int k = 0; k < plan->stage_count; k++) {
        plan->stages[k].first_rank = (first + k) * mesh_ranks(mesh);
        memcpy(plan->stages[k].atom, mesh->size, sizeof mesh->size);
    }
}

bool mesh_equal(const struct mesh *a, const struct mesh *b)
{
    bool equal = a->atom_count == b->atom_count;
    for (int i = 0; equal && i < a->atom_count; i++)
        equal = a->size[i] == b->size[i] && a->dim[i] == b->dim[i];
    return equal;
}

bool mesh_sequence_parallel(const struct mesh *mesh)
{
    for (int i = 0; i < mesh->atom_count; i++)
        if (mesh->size[i] > 1 && dimensions[mesh->dim[i]]->lane == LANE_TP &&
            dimension_prefers(dimensions[mesh->dim[i]], TAG_SEQUENCE))
            return true;
    return false;
}
