/* What prices depend on. */
#include "planner/price/price.h"

bool price_key_equal(const struct price_key *a, const struct price_key *b)
{
    return a->type == b->type && mesh_equal(&a->mesh, &b->mesh) && a->micro == b->micro &&
           a->vocab_multiple == b->vocab_multiple && a->prefetch == b->prefetch && a->bucket_bytes == b->bucket_bytes &&
           a->loss_chunks == b->loss_chunks && a->accumulates == b->accumulates && a->bound_only == b->bound_only &&
           a->alone == b->alone;
}

uint64_t price_key_hash(const struct price_key *key)
{
    uint64_t hash = hash_i64(hash_i64(hash_i64(HASH_START, key->micro), key->prefetch), key->bucket_bytes);
    hash = hash_i64(hash_i64(hash, key->bound_only), key->accumulates);
    for (int i = 0; i < key->mesh.atom_count; i++)
        hash = hash_i64(hash_i64(hash, key->mesh.size[i]), key->mesh.dim[i]);
    return hash;
}

static bool updates_its_own(const struct dimension *dimension)
{
    return dimension_deals_batch(dimension) && !dimension->server;
}

struct price_key price_key_alone(const struct price_key *key)
{
    struct price_key own = *key;
    int outer = 0;
    while (outer < key->mesh.atom_count && updates_its_own(dimensions[key->mesh.dim[outer]]))
        outer++;
    own.alone = true;
    if (outer == 0 && key->mesh.atom_count == MAX_ATOMS)
        return own;
    own.mesh = mesh_none();
    mesh_add(&own.mesh, 1, outer > 0 ? key->mesh.dim[outer - 1] : DIM_dp);
    for (int i = outer; i < key->mesh.atom_count; i++)
        mesh_add(&own.mesh, key->mesh.size[i], key->mesh.dim[i]);
    return own;
}
