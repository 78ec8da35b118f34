/* Recipes that Megatron-Bridge has by name. */
#ifndef CLEAVE_TARGETS_MEGATRON_RECIPES_H
#define CLEAVE_TARGETS_MEGATRON_RECIPES_H
#include <stddef.h>
#include <stdint.h>

struct megatron_recipe {
    const char *name, *old_name; /* NULL: it has no other */
    const char *model;           /* settings, as a command line has them */
    int64_t sequence, batch, micro_batch, tensor, pipeline, chunks, context, expert; /* chunks 0: not interleaved */
    const char *more;                                                                /* settings */
};
extern const struct megatron_recipe megatron_recipes[]; /* the last has no name */
/* NULL: it is not known. */
const struct megatron_recipe *megatron_recipe_find(const char *name, size_t length);
#endif
