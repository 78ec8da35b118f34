/* How prices come by samples of a book: each is looked up by one thread, lowered or resized by any, counted by the one. */
#ifndef CLEAVE_PRICE_BOOK_H
#define CLEAVE_PRICE_BOOK_H
#include "planner/price/sample.h"

/* A sample of the sizes asked for. */
struct wanted {
    struct sample_shape shape;
    const struct graph *graph;
    struct sample_place **at; /* that of its shape where its own place is, or will be; at first the first of them */
    int64_t use;
    struct sample *sample;
    bool opened; /* it is a new one */
};
/* Looks up what was lowered for the layer; stages: 1, or 2 to see what crosses. *full: there are too many graphs of the
 * book's present batch; NULL: it has none. */
bool book_look_up(struct wanted *out, struct price_book *book, const struct price_key *key,
                  const struct plan_layer *layer, int stages, bool *full, struct error *err);
/* Hashes what its shape shares with those of other numbers of chunks of the loss. */
uint64_t book_family(const struct wanted *wanted);
/* Sets wanted->sample: one that was lowered for other sizes, or a new one, which those behind find. No two threads may
 * want the same shape at once. Fails when lowering does. */
bool book_provide(struct wanted *wanted, struct error *err);
/* Counts the sample, if it is new. */
void book_keep(struct price_book *book, struct wanted *wanted);
/* Lets the longest unused go when all take too much memory: models of thousands of layers have such samples. */
void book_make_room(struct price_book *book);
#endif
