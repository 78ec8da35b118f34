/* Conversions between layouts (convert.c). */
#ifndef CLEAVE_LOWER_CONVERT_H
#define CLEAVE_LOWER_CONVERT_H
#include "planner/program/recipe.h"

enum { MAX_CONVERSIONS = 8 };
struct conversion {
    enum op op;
    unsigned atoms;
    struct layout to;
};
/**
 * Finds the chain of collectives from one layout of a tensor to another on the mesh of a stage: reduce and cut first,
 * gather last; where single steps do not fit (nesting order, divisibility) one redistribution. extent: of each dim,
 * before any split. Returns the number of steps, 0 for equal layouts, -1 when there is no way (replicated to partial).
 */
int conversion_path(const int atom_size[MAX_ATOMS], const int64_t extent[MAX_DIMS], const struct layout *from,
                    const struct layout *to, struct conversion out[MAX_CONVERSIONS]);
/* Gives the relative price of a chain, for choosing a source: 0 when nothing moves between ranks. */
int conversion_price(const struct conversion *path, int count);
#endif
