#include "planner/space/mesh.h"

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

int mesh_ranks(const struct mesh *mesh)
{
    int ranks = 1;
    for (int i = 0; i < mesh->atom_count; i++)
        ranks *= mesh->size[i];
    return ranks;
}

bool mesh_equal(const struct mesh *a, const struct mesh *b)
{
    bool equal = a->atom_count == b->atom_count;
    for (int i = 0; equal && i < a->atom_count; i++)
        equal = a->size[i] == b->size[i] && a->dim[i] == b->dim[i];
    return equal;
}

int mesh_tensor(const struct mesh *mesh)
{
    int ranks = 1;
    for (int i = 0; i < mesh->atom_count; i++)
        ranks *= mesh->dim[i] != DIM_none && dimensions[mesh->dim[i]]->lane == LANE_TP ? mesh->size[i] : 1;
    return ranks;
}

int mesh_data(const struct mesh *mesh)
{
    int ranks = 1;
    for (int i = 0; i < mesh->atom_count; i++)
        ranks *= dimensions[mesh->dim[i]]->splits_batch ? mesh->size[i] : 1;
    return ranks;
}

int mesh_expert(const struct mesh *mesh)
{
    int ranks = 1;
    for (int i = 0; i < mesh->atom_count; i++)
        ranks *= dimension_prefers(dimensions[mesh->dim[i]], TAG_EXPERT) ? mesh->size[i] : 1;
    return ranks;
}

int mesh_shards(const struct mesh *mesh)
{
    int ranks = 1;
    for (int i = 0; i < mesh->atom_count; i++)
        ranks *= dimensions[mesh->dim[i]]->shard ? mesh->size[i] : 1;
    return ranks;
}

bool mesh_sequence_parallel(const struct mesh *mesh)
{
    for (int i = 0; i < mesh->atom_count; i++)
        if (mesh->size[i] > 1 && dimensions[mesh->dim[i]]->lane == LANE_TP &&
            dimension_prefers(dimensions[mesh->dim[i]], TAG_SEQUENCE))
            return true;
    return false;
}
