/* Keys of prices: what prices depend on, so that equal keys share them. */
#include "planner/price/price.h"

int price_key_words(const struct price_key *key, int64_t out[PRICE_KEY_WORDS])
{
    int count = 0;
    out[count++] = (int64_t)key->first_rank << 8 | key->type;
    out[count++] = key->micro;
    out[count++] = key->vocab_multiple;
    out[count++] = key->bucket_bytes;
    out[count++] = (int64_t)key->prefetch << 32 | key->loss_chunks;
    out[count++] = key->accumulates | key->bound_only << 1 | key->alone << 2 | key->bytes << 3;
    for (int i = 0; i < key->mesh.atom_count; i++)
        out[count++] = (int64_t)key->mesh.size[i] << 8 | key->mesh.dim[i];
    return count;
}

struct price_key price_key_alone(const struct price_key *key)
{
    struct price_key own = *key;
    int outer = 0;
    while (outer < key->mesh.atom_count && dimension_deals_batch(dimensions[key->mesh.dim[outer]]) &&
           !dimensions[key->mesh.dim[outer]]->server)
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
