#include "planner/price/columns.h"
#include "base/num.h"
#include "planner/price/book.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum sample_part columns_part(const struct price_key *key)
{
    if (key->bytes)
        return key->bound_only ? SAMPLE_PATH_AND_BYTES : SAMPLE_BYTES;
    return key->bound_only ? SAMPLE_PATH : SAMPLE_WHOLE;
}

/* ---- what a book knows ---- */

/* A column, found by the number of its facts' rates, the strategy and the key. */
struct known_column {
    bool made;
    int64_t batch; /* the last one that was to make it */
    int64_t workspace_bytes;
    struct layer_price prices[]; /* by class */
};

enum { LAYER_WORDS = sizeof(struct plan_layer) / sizeof(int64_t), COLUMN_WORDS = 1 + LAYER_WORDS + PRICE_KEY_WORDS };

static size_t words_of(int64_t out[COLUMN_WORDS], const struct price_book *book, const struct price_key *key,
                       const struct plan_layer *layer)
{
    _Static_assert(sizeof *layer % sizeof *out == 0, "a layer's decisions are whole words");
    out[0] = book->rates;
    memcpy(&out[1], layer, sizeof *layer);
    return 1 + LAYER_WORDS + (size_t)price_key_words(key, &out[1 + LAYER_WORDS]);
}

bool columns_take(struct price_table *table, int strategy, const struct price_book *book, const struct price_key *key)
{
    int64_t words[COLUMN_WORDS];
    const struct known_column *known =
        memo_find(&book->known, words, words_of(words, book, key, &table->strategies[strategy].layer));
    if (!known || !known->made)
        return false;
    for (int c = 0; c < table->class_count; c++)
        table->prices[c * table->strategy_count + strategy] = known->prices[c];
    table->workspace_bytes[strategy] = known->workspace_bytes;
    return true;
}

/* ---- one column ---- */

/* Puts gathers at the place of use onto the compute path, since nothing hides them. */
static struct layer_price without_prefetch(struct layer_price p)
{
    p.forward_ns += p.gather_forward_ns;
    p.backward_ns += p.gather_backward_ns;
    p.gradient_ns += p.gather_backward_ns;
    p.step_ns += p.gather_once_ns;
    p.gather_once_ns = p.rest_forward_ns = p.rest_backward_ns = 0;
    p.gather_forward_ns = p.gather_backward_ns = p.tied_gather_forward_ns = p.tied_gather_backward_ns =
        p.tied_gather_once_ns = 0;
    return p;
}

/* Slows the path beside the lane. Of what it moves then, t times as long as alone, computations do one part in c: they
 * lose t (1 - 1 / c) of each ns alone; transfers lose what they share of links. It is no more than all of it, so that
 * no prefetch is longer than none. Where transfers outlast computations it is too much, by up to 40 % of a step; a loss
 * that ends there chose no better. */
static struct layer_price beside_transfers(struct layer_price p, const struct facts *facts)
{
    double compute, transfers;
    facts_slow_down(facts, 1, &compute, &transfers); /* the facts are one type's */
    double loss = transfers * (1 - 1 / compute);
    int64_t lane_loss_ppm = (int64_t)(1e6 * fmin(transfers - 1, 1)); /* as is_beyond() of the walk expects */
    p.forward_ns += (int64_t)(fmin(loss + 1e-6 * (double)p.path_loss_forward_ppm, 1) * (double)p.gather_forward_ns);
    p.backward_ns += (int64_t)(fmin(loss + 1e-6 * (double)p.path_loss_backward_ppm, 1) *
                               (double)(p.gather_backward_ns + p.reduce_ns));
    p.lane_loss_forward_ppm += lane_loss_ppm;
    p.lane_loss_backward_ppm += lane_loss_ppm;
    return p;
}

/* Lets a rank that shares nothing speak in a bound for those that do: what sharding moves is not on the path, and it
 * saves no more of that than the adding to gradients. It saves this of all weights where others than the ranks of the
 * experts share. */
static struct price_key key_of_one(const struct price_key *key, const struct plan_layer *layer, bool *sharded)
{
    bool path = columns_part(key) == SAMPLE_PATH, all = false;
    for (int i = 0; i < key->mesh.atom_count; i++)
        all = all || (key->mesh.size[i] > 1 && dimensions[key->mesh.dim[i]]->shard &&
                      !dimension_prefers(dimensions[key->mesh.dim[i]], TAG_EXPERT));
    *sharded = path && layer->zero > 0 && all;
    struct price_key own = path && (layer->zero == 0 || *sharded) ? price_key_alone(key) : *key;
    own.accumulates = key->accumulates && !*sharded;
    return own;
}

/* A column on its way. sharded: ranks share the weights that its one rank has. whole: where the loss is cut into
 * chunks it is priced whole, too, since a stage may end between the product and it. */
struct pricing {
    const struct price_order *order;
    struct known_column *known;
    struct price_key own;
    bool sharded;
    uint64_t shape; /* what resizing does not change of its samples, but for the loss's chunks; types of devices apart */
    int index;
    struct wanted sample, whole;
    struct error err;
};

/* Columns whose samples are resized from each other stand together, and one thread makes them, one after the other. */
struct batch {
    struct price_book *book;
    struct pricing *columns;
    int *group_first; /* (groups + 1) */
    int count, group_count;
};

/* Merges the prices of layers of one class, which differ only at the ends of the chain: the dearer one speaks for all,
 * but where a bound is asked the cheaper one. */
static void merge_price(struct layer_price *into, const struct layer_price *price)
{
#define PRICE(member, kind)                                                                                            \
    into->member = kind == LEAST ? min_i64(into->member, price->member) : max_i64(into->member, price->member);
#include "planner/price/prices.def"
#undef PRICE
}

static bool make_column(struct pricing *column, int class_count, struct kernel_costs *kernels)
{
    const struct price_key *key = &column->order->key;
    const struct facts *facts = column->order->facts;
    struct known_column *known = column->known;
    const struct graph *graph = column->sample.graph;
    const struct layer_price *whole = NULL;
    int64_t workspace_bytes = 0;
    if ((key->loss_chunks > 1 && !book_provide(&column->whole, &column->err)) ||
        !book_provide(&column->sample, &column->err))
        return false;
    if (key->loss_chunks > 1)
        whole = sample_prices(column->whole.sample, facts, kernels, key->first_rank, column->own.accumulates,
                              columns_part(key), &workspace_bytes);
    const struct layer_price *by_layer =
        sample_prices(column->sample.sample, facts, kernels, key->first_rank, column->own.accumulates,
                      columns_part(key), &known->workspace_bytes);
    if (column->sharded)
        sample_join_shards(column->sample.sample);
    for (int c = 0; c < class_count; c++) /* the least is more than any, so that the first member takes its place */
        known->prices[c] = (struct layer_price){ .least_forward_ns = INT64_MAX,
                                                 .least_input_ns = INT64_MAX,
                                                 .least_weight_ns = INT64_MAX };
    for (int l = 0; l < graph->layer_count; l++) {
        struct layer_price price =
            beside_transfers(key->prefetch > 0 ? by_layer[l] : without_prefetch(by_layer[l]), facts);
        if (column->sharded)
            price.weight_bytes = ceil_div(price.weight_bytes, mesh_shards(&key->mesh));
        if (whole) {
#define PRICE(member, kind) price.member = kind == LEAST ? min_i64(price.member, whole[l].member) : price.member;
#include "planner/price/prices.def"
#undef PRICE
        }
        merge_price(&known->prices[graph->layers[l].class_index], &price);
    }
    return known->made = true;
}

/* ---- a batch ---- */

static void make_group(void *context, int index, int lane)
{
    const struct batch *batch = context;
    for (int i = batch->group_first[index]; i < batch->group_first[index + 1]; i++)
        make_column(&batch->columns[i], batch->book->class_count, batch->book->kernels[lane]);
}

static int compare_columns(const void *a, const void *b)
{
    const struct pricing *x = a, *y = b;
    if (x->shape != y->shape)
        return x->shape < y->shape ? -1 : 1;
    if (x->order->key.type != y->order->key.type) /* costs of kernels are remembered of one type */
        return x->order->key.type - y->order->key.type;
    return x->index - y->index;
}

/* Adds the column to the batch, unless it is known. *full: the batch has to be made first. */
static bool add_column(struct batch *batch, const struct price_order *order, int strategy, bool *full,
                       struct error *err)
{
    struct price_book *book = batch->book;
    struct plan_layer layer = order->strategies[strategy].layer;
    int64_t words[COLUMN_WORDS];
    bool known;
    struct known_column *own =
        memo_place(&book->known, words, words_of(words, book, &order->key, &layer),
                   sizeof *own + (size_t)book->class_count * sizeof *own->prices, &known);
    if (!own)
        return fail_memory(err);
    if (own->made || own->batch == book->batches)
        return true;
    struct pricing *column = &batch->columns[batch->count];
    *column = (struct pricing){ .order = order, .known = own, .index = batch->count };
    column->own = key_of_one(&order->key, &layer, &column->sharded);
    layer.zero = column->sharded ? 0 : layer.zero;
    if (column->own.alone)
        memcpy(layer.dim, column->own.mesh.dim, sizeof layer.dim);
    struct price_key whole = column->own;
    whole.loss_chunks = 1;
    if ((order->key.loss_chunks > 1 && !book_look_up(&column->whole, book, &whole, &layer, 1, full, err)) ||
        (!*full && !book_look_up(&column->sample, book, &column->own, &layer, 1, full, err)))
        return false;
    if (*full)
        return true;
    own->batch = book->batches;
    column->shape = book_family(&column->sample);
    batch->count++;
    return true;
}

static bool make_batch(struct batch *batch, struct error *err)
{
    struct price_book *book = batch->book;
    const struct pricing *failed = NULL;
    book_make_room(book);
    qsort(batch->columns, (size_t)batch->count, sizeof *batch->columns, compare_columns);
    batch->group_count = 0;
    for (int i = 0; i < batch->count; i++)
        if (i == 0 || batch->columns[i].shape != batch->columns[i - 1].shape)
            batch->group_first[batch->group_count++] = i;
    batch->group_first[batch->group_count] = batch->count;
    for (int lane = 0; lane < min_i64(workers_at_once(&book->workers), batch->group_count); lane++)
        if (!book->kernels[lane] && !(book->kernels[lane] = arena_alloc(&book->arena, 1, sizeof *book->kernels[lane])))
            return fail_memory(err);
    workers_share(&book->workers, batch->group_count, make_group, batch);
    for (int i = 0; i < batch->count; i++) {
        struct pricing *column = &batch->columns[i];
        book_keep(book, &column->whole);
        book_keep(book, &column->sample);
        if (!column->known->made && (!failed || column->index < failed->index))
            failed = column;
    }
    batch->count = 0;
    book->batches++;
    return !failed || fail_with(err, &failed->err);
}

bool columns_make(struct price_book *book, const struct price_order *orders, int count, struct error *err)
{
    enum { ROOM_BYTES = 1 << 25, MOST = 256, FEW_CLASSES = 64 };
    struct arena scratch = { 0 };
    int wanted = 0;
    /* samples of many different layers are large, and those of a batch stay until it is made */
    int most = book->class_count <= FEW_CLASSES ? MOST : workers_at_once(&book->workers);
    for (int i = 0; i < count; i++)
        wanted += orders[i].count;
    most = min_int(most, wanted);
    struct batch batch = { .book = book,
                           .columns = arena_alloc(&scratch, (size_t)most, sizeof *batch.columns),
                           .group_first = arena_alloc(&scratch, (size_t)most + 1, sizeof *batch.group_first) };
    if (arena_bytes(&book->known.arena) > ROOM_BYTES)
        memo_free(&book->known);
    book->batches++;
    bool good = (batch.columns && batch.group_first) || fail_memory(err), goes_on = good;
    for (int i = 0; i < count && goes_on; i++)
        for (int s = 0; s < orders[i].count && goes_on;) {
            bool full = batch.count == most;
            goes_on = full || add_column(&batch, &orders[i], s, &full, err);
            good = (full ? make_batch(&batch, err) : goes_on) && good;
            s += !full;
        }
    good = (batch.count == 0 || make_batch(&batch, err)) && good;
    arena_free(&scratch);
    return good;
}
