/* Samples and graphs of the folded model that a book keeps, and which of them go when they take too much memory. */
#include "planner/price/book.h"
#include "base/num.h"
#include "models/model.h"
#include <stdlib.h>
#include <string.h>

/* Folds the model to two copies of each block, which give a layer its like before and behind it. */
static bool fold_model(struct price_book *book)
{
    struct model *folded = arena_alloc(&book->arena, 1, sizeof *folded);
    struct model_block *blocks = arena_alloc(&book->arena, (size_t)book->model->block_count, sizeof *blocks);
    if (!folded || !blocks)
        return false;
    *folded = *book->model;
    for (int b = 0; b < folded->block_count; b++) {
        blocks[b] = folded->blocks[b];
        blocks[b].count = (int)min_i64(2, blocks[b].count);
    }
    folded->blocks = blocks;
    book->folded = folded;
    return true;
}

bool price_book_open(struct price_book *book, const struct model *model, const struct facts *facts, int class_count,
                     int64_t sequence, enum dtype dtype, const struct optimizer *optimizer, bool clips,
                     struct error *err)
{
    *book = (struct price_book){ .model = model,
                                 .facts = facts,
                                 .class_count = class_count,
                                 .sequence = sequence,
                                 .dtype = dtype,
                                 .optimizer = *optimizer,
                                 .clips = clips,
                                 .sample_room_bytes = 1 << 27 };
    if (fold_model(book))
        return true;
    price_book_close(book);
    return fail_memory(err);
}

void price_book_close(struct price_book *book)
{
    for (struct sample_place *place = book->places, *next; place; place = next) {
        next = place->next;
        sample_free(place->sample);
        free(place);
    }
    memo_free(&book->shapes);
    for (size_t i = 0; i < sizeof book->kept / sizeof *book->kept; i++)
        graph_free(book->kept[i].graph);
    arena_free(&book->arena);
    memo_free(&book->known);
    *book = (struct price_book){ 0 };
}

static int sample_micro_batches(const struct price_key *key)
{
    return key->alone ? 1 : 2;
}

static bool is_graph_of(const struct kept_graph *kept, int64_t batch, const struct price_key *key)
{
    return kept->graph && kept->graph->batch == batch && kept->vocab_multiple == key->vocab_multiple;
}

/* Sets *out to a graph of the key's sizes, which stays until the next batch; without a batch, for a while. */
static bool want_graph(const struct graph **out, struct price_book *book, const struct price_key *key, bool *full,
                       struct error *err)
{
    enum { KEPT = sizeof book->kept / sizeof *book->kept, FEW = 4, FEW_CLASSES = 64 };
    int64_t batch = sample_micro_batches(key) * mesh_data(&key->mesh) * key->micro;
    int at = 0, last = (book->class_count <= FEW_CLASSES ? KEPT : FEW) - 1; /* of different layers each is large */
    while (at < last && !is_graph_of(&book->kept[at], batch, key))
        at++;
    struct kept_graph wanted = book->kept[at];
    if (!is_graph_of(&wanted, batch, key)) {
        if (full && wanted.graph && wanted.batch == book->batches)
            return *full = true;
        graph_free(wanted.graph);
        wanted = (struct kept_graph){ .vocab_multiple = key->vocab_multiple };
    }
    wanted.batch = book->batches;
    memmove(&book->kept[1], &book->kept[0], (size_t)at * sizeof wanted);
    book->kept[0] = wanted;
    if (!wanted.graph &&
        !graph_build(&book->kept[0].graph, book->folded, batch, book->sequence, key->vocab_multiple, err))
        return false;
    *out = book->kept[0].graph;
    return (*out)->class_count == book->class_count ||
           fail_kind(err, ERROR_BUG, "search: the folded model does not have all %d classes of layers",
                     book->class_count);
}

void book_make_room(struct price_book *book)
{
    while (book->sample_bytes > book->sample_room_bytes) {
        struct sample_place *oldest = NULL;
        for (struct sample_place *place = book->places; place; place = place->next)
            if (place->sample && (!oldest || place->used < oldest->used))
                oldest = place;
        sample_free(oldest->sample);
        oldest->sample = NULL;
        book->sample_bytes -= oldest->bytes;
    }
}

bool book_look_up(struct wanted *out, struct price_book *book, const struct price_key *key,
                  const struct plan_layer *layer, int stages, bool *full, struct error *err)
{
    bool known;
    int64_t words[SAMPLE_SHAPE_WORDS];
    const struct graph *graph = NULL;
    if (!want_graph(&graph, book, key, full, err))
        return false;
    if (!graph)
        return true;
    *out = (struct wanted){
        .shape = { .mesh = key->mesh,
                   .layer = *layer,
                   .stages = stages,
                   .micro_batches = sample_micro_batches(key),
                   .prefetch = layer->zero >= 3 ? key->prefetch : 0, /* nothing else is gathered */
                   .loss_chunks = key->loss_chunks,
                   .vocab_multiple = key->vocab_multiple,
                   .bucket_bytes = key->bucket_bytes,
                   .dtype = book->dtype,
                   .optimizer = book->optimizer,
                   .clips = book->clips },
        .graph = graph,
        .use = ++book->uses,
    };
    size_t count = (size_t)sample_shape_words(&out->shape, words);
    out->at = memo_place(&book->shapes, words, count, sizeof *out->at, &known);
    return out->at || fail_memory(err);
}

uint64_t book_family(const struct wanted *wanted)
{
    int64_t words[SAMPLE_SHAPE_WORDS];
    struct sample_shape shape = wanted->shape;
    shape.loss_chunks = 0;
    return hash_words(HASH_START, words, (size_t)sample_shape_words(&shape, words));
}

bool book_provide(struct wanted *wanted, struct error *err)
{
    while (*wanted->at && (*wanted->at)->sample &&
           !sample_resize((*wanted->at)->sample, wanted->graph, &wanted->shape.mesh))
        wanted->at = &(*wanted->at)->alike;
    wanted->opened = !*wanted->at || !(*wanted->at)->sample;
    if (wanted->opened && !sample_open(&wanted->sample, wanted->graph, &wanted->shape, err))
        return false;
    if (!*wanted->at && !(*wanted->at = calloc(1, sizeof **wanted->at))) {
        sample_free(wanted->sample);
        wanted->sample = NULL;
        return fail_memory(err);
    }
    if (wanted->opened)
        (*wanted->at)->sample = wanted->sample;
    wanted->sample = (*wanted->at)->sample;
    (*wanted->at)->used = wanted->use;
    return true;
}

void book_keep(struct price_book *book, struct wanted *wanted)
{
    struct sample_place *place = wanted->opened && wanted->sample ? *wanted->at : NULL;
    if (!place)
        return;
    if (!place->listed) {
        place->next = book->places;
        book->places = place;
        place->listed = true;
    }
    place->bytes = sample_bytes(place->sample);
    book->sample_bytes += place->bytes;
}
