#include "base/num.h"
#include "planner/price/shelf.h"

void price_shelf_open(struct price_shelf *shelf)
{
    for (int i = 0; i < SHELF_PLACES; i++)
        shelf->places[i] = (struct shelf_place){ .busy = ATOMIC_FLAG_INIT };
}

void price_shelf_close(struct price_shelf *shelf)
{
    for (int i = 0; i < SHELF_PLACES; i++)
        if (shelf->places[i].full)
            price_book_close(&shelf->places[i].book);
    price_shelf_open(shelf);
}

/* True when the book goes from the place to *out. */
static bool take_from(struct price_book *out, struct shelf_place *place, const struct price_book *like)
{
    if (atomic_flag_test_and_set(&place->busy))
        return false;
    const struct price_book *book = &place->book;
    const int64_t numbers[][2] = { { book->class_count, like->class_count },
                                   { book->sequence, like->sequence },
                                   { book->dtype, like->dtype },
                                   { book->clips, like->clips } };
    bool same = place->full && book->model == like->model && optimizer_equal(&book->optimizer, &like->optimizer) &&
                pairs_equal(numbers, sizeof numbers / sizeof *numbers);
    if (same) {
        *out = *book;
        place->full = false;
    }
    atomic_flag_clear(&place->busy);
    return same;
}

bool price_shelf_take(struct price_book *out, struct price_shelf *shelf, const struct model *model,
                      const struct facts *facts, int class_count, int64_t sequence, enum dtype dtype,
                      const struct optimizer *optimizer, bool clips, struct error *err)
{
    const struct price_book like = { .model = model,
                                     .class_count = class_count,
                                     .sequence = sequence,
                                     .dtype = dtype,
                                     .optimizer = *optimizer,
                                     .clips = clips };
    for (int i = 0; shelf && i < SHELF_PLACES; i++)
        if (take_from(out, &shelf->places[i], &like)) {
            out->facts = facts;
            return true;
        }
    return price_book_open(out, model, facts, class_count, sequence, dtype, optimizer, clips, err);
}

/* True when the place takes the book over; over: in place of the one that stands there. */
static bool give_to(struct shelf_place *place, struct price_book *book, bool over)
{
    if (atomic_flag_test_and_set(&place->busy))
        return false;
    bool takes = over || !place->full;
    if (takes) {
        if (place->full)
            price_book_close(&place->book);
        place->book = *book;
        place->full = true;
        *book = (struct price_book){ 0 };
    }
    atomic_flag_clear(&place->busy);
    return takes;
}

void price_shelf_give(struct price_shelf *shelf, struct price_book *book)
{
    bool given = false;
    book->facts = NULL;
    book->workers = (struct workers){ 0 };
    for (int lane = 0; lane < WORKERS_MOST_AT_ONCE; lane++) /* other facts may come to lie where these did */
        if (book->kernels[lane])
            book->kernels[lane]->facts = NULL;
    for (int over = 0; shelf && book->model && over < 2; over++)
        for (int i = 0; i < SHELF_PLACES && !given; i++)
            given = give_to(&shelf->places[i], book, over);
    if (!given)
        price_book_close(book);
}
