/* Books that outlive the searches that wrote them: whoever makes many searches of one model keeps a shelf. A book is
 * taken from it, and given back when the search is over, so that several threads may have one each. What stands in a
 * book are samples, which depend on no facts, and the prices of strategies under facts that have a number; answers do
 * not depend on it. */
#ifndef CLEAVE_PRICE_SHELF_H
#define CLEAVE_PRICE_SHELF_H
#include "planner/price/price.h"
#include <stdatomic.h>

enum { SHELF_PLACES = 6 };
struct price_shelf {
    struct shelf_place {
        atomic_flag busy; /* somebody looks at it */
        bool full;
        struct price_book book;
    } places[SHELF_PLACES];
};
void price_shelf_open(struct price_shelf *shelf);
void price_shelf_close(struct price_shelf *shelf);
/* Opens like price_book_open(), but off the shelf where a book of that kind stands there. shelf: may be NULL. */
bool price_shelf_take(struct price_book *out, struct price_shelf *shelf, const struct model *model,
                      const struct facts *facts, int class_count, int64_t sequence, enum dtype dtype,
                      const struct optimizer *optimizer, bool clips, struct error *err);
/* Takes the book over, whatever was made with it; without a shelf it is closed. */
void price_shelf_give(struct price_shelf *shelf, struct price_book *book);
#endif
