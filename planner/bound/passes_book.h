/* Passes of configurations, and the mixes of inequalities that were found for them: configurations that differ in other
 * things begin with what served the one before. */
#ifndef CLEAVE_SEARCH_PASSES_BOOK_H
#define CLEAVE_SEARCH_PASSES_BOOK_H
#include "planner/cut/chain.h"
#include "planner/bound/passes_mix.h"

struct passes_entry {
    struct passes_entry *next;
    struct config config; /* of these passes */
    struct passes passes;
    struct passes_mix mix; /* path_count 0: none yet */
};
/* Begins zeroed. */
struct passes_book {
    struct arena arena;
    struct passes_entry *entries;
};
/* Whether their passes are the same. */
bool passes_alike(const struct config *a, const struct config *b);
/* That of the configuration; it holds until the next call. NULL: out of memory. */
struct passes_entry *passes_entry(struct passes_book *book, const struct config *config);
/* A copy of what weighs anything in the mix becomes the entry's. False: out of memory. */
bool passes_keep(struct passes_book *book, struct passes_entry *entry, const struct passes_mix *mix);
void passes_book_close(struct passes_book *book);
/* Whether a configuration of one mesh for each stage, of a chain, has so few that they are looked at. */
bool passes_are_few(const struct chain *chain, const struct config *config);
#endif
