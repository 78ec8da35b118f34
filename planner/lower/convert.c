#include "planner/lower/convert.h"
#include <string.h>

struct transition {
    enum layout_kind from, to;
    enum op op;
};
/* These stand cheapest bytes first: reduce and cut, then exchange, then gather. */
static const struct transition block_steps[] = {
    { LAYOUT_PARTIAL, LAYOUT_SHARDED, OP_REDUCE_SCATTER }, { LAYOUT_REPLICATED, LAYOUT_SHARDED, OP_SLICE },
    { LAYOUT_SHARDED, LAYOUT_SHARDED, OP_ALL_TO_ALL },     { LAYOUT_PARTIAL, LAYOUT_REPLICATED, OP_ALL_REDUCE },
    { LAYOUT_SHARDED, LAYOUT_REPLICATED, OP_ALL_GATHER },
};
/* The block is the same before and after: flat shards are pieces of it. */
static const struct transition flat_steps[] = {
    { LAYOUT_PARTIAL, LAYOUT_FLAT, OP_REDUCE_SCATTER },   { LAYOUT_REPLICATED, LAYOUT_FLAT, OP_SLICE },
    { LAYOUT_PARTIAL, LAYOUT_REPLICATED, OP_ALL_REDUCE }, { LAYOUT_PARTIAL, LAYOUT_ROOT, OP_REDUCE },
    { LAYOUT_REPLICATED, LAYOUT_ROOT, OP_SLICE },         { LAYOUT_FLAT, LAYOUT_REPLICATED, OP_ALL_GATHER },
    { LAYOUT_ROOT, LAYOUT_REPLICATED, OP_BROADCAST },
};

struct path {
    const int *atom_size;
    const int64_t *extent;
    int count;
    struct layout now;
    struct conversion *out;
    bool failed;
};

static bool atom_differs(const struct layout *a, const struct layout *b, int atom)
{
    if (a->kind[atom] != b->kind[atom])
        return true;
    return a->kind[atom] == LAYOUT_SHARDED && (a->dim[atom] != b->dim[atom] || a->order[atom] != b->order[atom]);
}

/* Multiplies the atoms outside this one that split the same dim, which fixes the digits of an index that the atom's
 * coordinate decides. */
static int64_t outer_product(const struct path *path, const struct layout *layout, int atom)
{
    int64_t product = 1;
    for (int i = 0; i < MAX_ATOMS; i++) {
        bool same = layout->kind[i] == LAYOUT_SHARDED && layout->dim[i] == layout->dim[atom];
        if (same && layout->order[i] < layout->order[atom])
            product *= path->atom_size[i];
    }
    return product;
}

/* Multiplies likewise for the pieces of a flattened block: the last atom's are the innermost. */
static int64_t outer_pieces(const struct path *path, const struct layout *layout, int atom)
{
    int64_t product = 1;
    for (int i = 0; i < atom; i++)
        product *= layout->kind[i] == LAYOUT_FLAT ? path->atom_size[i] : 1;
    return product;
}

static bool divides(const struct path *path, const struct layout *layout)
{
    int64_t left[MAX_DIMS];
    memcpy(left, path->extent, sizeof left);
    for (int i = 0; i < MAX_ATOMS; i++) {
        if (layout->kind[i] != LAYOUT_SHARDED)
            continue;
        if (left[layout->dim[i]] % path->atom_size[i] != 0)
            return false;
        left[layout->dim[i]] /= path->atom_size[i];
    }
    return true;
}

/* True when the atom decides the same digits before and after, as one outside the group must. */
static bool decides_alike(const struct path *path, const struct layout *next, int atom)
{
    if (path->now.kind[atom] == LAYOUT_FLAT)
        return outer_pieces(path, &path->now, atom) == outer_pieces(path, next, atom);
    return path->now.kind[atom] != LAYOUT_SHARDED ||
           outer_product(path, &path->now, atom) == outer_product(path, next, atom);
}

/* Do the blocks that the group holds cover what each member wants? Inside a group that exchanges nothing on an atom (a
 * slice), sharding may only become finer. */
static bool covers(const struct path *path, const struct layout *next, unsigned atoms)
{
    for (int i = 0; i < MAX_ATOMS; i++)
        if (!(atoms >> i & 1) && !decides_alike(path, next, i))
            return false;
    return true;
}

/* Gives the least group whose members have all that its members want. Copies take turns in sending, so that they are of
 * one group. */
static unsigned exchanging(const struct path *path, const struct layout *to)
{
    unsigned atoms = 0;
    for (int i = 0; i < MAX_ATOMS; i++)
        if (atom_differs(&path->now, to, i) || path->now.kind[i] == LAYOUT_REPLICATED || !decides_alike(path, to, i))
            atoms |= 1u << i;
    return atoms;
}

static void step(struct path *path, enum op op, unsigned atoms, const struct layout *to)
{
    if (path->count == MAX_CONVERSIONS) {
        path->failed = true;
        return;
    }
    path->out[path->count++] = (struct conversion){ .op = op, .atoms = atoms, .to = *to };
    path->now = *to;
}

static void apply(struct path *path, const struct layout *to, const struct transition *table, int count)
{
    for (int k = 0; k < count && memcmp(&path->now, to, sizeof *to) != 0; k++) {
        struct layout next = path->now;
        unsigned atoms = 0;
        for (int i = 0; i < MAX_ATOMS; i++) {
            if (!atom_differs(&path->now, to, i) || path->now.kind[i] != table[k].from || to->kind[i] != table[k].to)
                continue;
            atoms |= 1u << i;
            next.kind[i] = to->kind[i];
            next.dim[i] = to->dim[i];
            next.order[i] = to->order[i];
        }
        if (!atoms)
            continue;
        if (divides(path, &next) && covers(path, &next, atoms)) {
            step(path, table[k].op, atoms, &next);
        } else {
            step(path, OP_REDISTRIBUTE, exchanging(path, to), to);
            return;
        }
    }
}

static struct layout with_kind(const struct layout *layout, unsigned atoms, enum layout_kind kind)
{
    struct layout out = *layout;
    for (int i = 0; i < MAX_ATOMS; i++) {
        if (!(atoms >> i & 1))
            continue;
        out.kind[i] = (uint8_t)kind;
        out.dim[i] = out.order[i] = 0;
    }
    return out;
}

static bool block_changes(const struct layout *from, const struct layout *to)
{
    for (int i = 0; i < MAX_ATOMS; i++) {
        if (atom_differs(from, to, i) && (from->kind[i] == LAYOUT_SHARDED || to->kind[i] == LAYOUT_SHARDED))
            return true;
    }
    return false;
}

int conversion_path(const int atom_size[MAX_ATOMS], const int64_t extent[MAX_DIMS], const struct layout *from,
                    const struct layout *to, struct conversion out[MAX_CONVERSIONS])
{
    enum {
        BLOCK_STEPS = sizeof block_steps / sizeof *block_steps,
        FLAT_STEPS = sizeof flat_steps / sizeof *flat_steps
    };
    struct path path = { .atom_size = atom_size, .extent = extent, .now = *from, .out = out };
    if (layout_equal(from, to))
        return 0;
    unsigned was_flat = layout_atoms(from, LAYOUT_FLAT), flat = layout_atoms(to, LAYOUT_FLAT);
    unsigned was_root = layout_atoms(from, LAYOUT_ROOT) & ~layout_atoms(to, LAYOUT_ROOT);
    if (layout_atoms(to, LAYOUT_PARTIAL) & ~layout_atoms(from, LAYOUT_PARTIAL))
        return -1;
    if (was_root) {
        struct layout handed_out = with_kind(from, was_root, LAYOUT_REPLICATED);
        apply(&path, &handed_out, flat_steps, FLAT_STEPS);
    }
    /* pieces are numbered over all flat atoms at once, so they are cut and gathered over all of them or not at all */
    if (was_flat && (was_flat != flat || block_changes(&path.now, to))) {
        struct layout gathered = with_kind(&path.now, was_flat, LAYOUT_REPLICATED);
        apply(&path, &gathered, flat_steps, FLAT_STEPS);
    }
    unsigned partial = layout_atoms(&path.now, LAYOUT_PARTIAL), cut = flat & ~layout_atoms(&path.now, LAYOUT_FLAT);
    unsigned to_root = layout_atoms(to, LAYOUT_ROOT) & ~layout_atoms(&path.now, LAYOUT_ROOT);
    bool alike = (cut & partial) == cut || !(cut & partial);
    if (!alike || block_changes(&path.now, to)) {
        struct layout target = with_kind(to, cut, alike && (cut & partial) ? LAYOUT_PARTIAL : LAYOUT_REPLICATED);
        target = with_kind(&target, to_root & ~partial, LAYOUT_REPLICATED);
        target = with_kind(&target, to_root & partial, LAYOUT_PARTIAL);
        apply(&path, &target, block_steps, BLOCK_STEPS);
    }
    apply(&path, to, flat_steps, FLAT_STEPS);
    return path.failed || !layout_equal(&path.now, to) ? -1 : path.count;
}

int conversion_price(const struct conversion *path, int count)
{
    int price = 0;
    for (int i = 0; i < count; i++) {
        if (path[i].op == OP_REDISTRIBUTE)
            price += 4;
        else if (path[i].op == OP_ALL_REDUCE)
            price += 2;
        else if (path[i].op != OP_SLICE)
            price += 1;
    }
    return price;
}
