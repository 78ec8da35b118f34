/* Prices by lowering. The folded model, each block twice, is lowered in one stage with two micro-batches; every layer's
 * share of the program is its price (sample.c). What the search adds up is therefore what lowering, lifetimes and cost
 * say, and nothing is written twice. */
#include "planner/price/price.h"
#include "base/num.h"
#include "planner/price/book.h"
#include "planner/price/columns.h"
#include <string.h>

int price_strategy(const struct price_table *table, const struct plan_layer *layer)
{
    for (int i = 0; i < table->strategy_count; i++)
        if (plan_layer_equal(&table->strategies[i].layer, layer))
            return i;
    return -1;
}

struct least_price price_least(const struct price_table *table, int class_index, int64_t most_ns)
{
    struct least_price least = { most_ns, most_ns, most_ns };
    for (int i = 0; i < table->strategy_count; i++) {
        const struct layer_price *own = price_at(table, class_index, i);
        least.forward_ns = min_i64(least.forward_ns, own->least_forward_ns);
        least.input_ns = min_i64(least.input_ns, own->least_input_ns);
        least.weight_ns = min_i64(least.weight_ns, own->least_weight_ns);
    }
    return least;
}

static int64_t pick(int64_t a, int64_t b, bool most)
{
    return most ? max_i64(a, b) : min_i64(a, b);
}

void price_merge(struct layer_price *into, const struct layer_price *price, bool largest)
{
#define PRICE(member, kind) into->member = pick(into->member, price->member, largest);
#include "planner/price/prices.def"
#undef PRICE
}

uint64_t price_hash(uint64_t hash, const struct layer_price *price)
{
    int64_t words[sizeof *price / sizeof(int64_t)];
    size_t count = 0;
#define PRICE(member, kind)                                                                                            \
    if (kind != JUDGED)                                                                                                \
        words[count++] = price->member;
#include "planner/price/prices.def"
#undef PRICE
    return hash_words(hash, words, count);
}

struct price_table *price_copy_table(struct arena *arena, const struct price_table *table)
{
    struct price_table *copy = arena_alloc(arena, 1, sizeof *copy);
    size_t prices = (size_t)(table->class_count * table->strategy_count);
    if (!copy)
        return NULL;
    *copy = *table;
    copy->prices = arena_alloc(arena, prices, sizeof *copy->prices);
    if (copy->prices)
        memcpy(copy->prices, table->prices, prices * sizeof *copy->prices);
    return copy->prices ? copy : NULL;
}

struct price_table *price_with_stages(struct arena *arena, const struct price_table *table,
                                      const struct price_table *const *by_stage)
{
    struct price_table *copy = arena_alloc(arena, 1, sizeof *copy);
    if (copy) {
        *copy = *table;
        copy->by_stage = by_stage;
    }
    return copy;
}

struct price_table *price_changed(struct arena *arena, const struct price_table *table,
                                  void (*change)(struct price_table *copy, const void *context), const void *context)
{
    struct price_table *copy = price_copy_table(arena, table);
    const struct price_table **by_turns = NULL;
    if (!copy || (table->by_turns && !(by_turns = arena_alloc(arena, (size_t)table->shape_count, sizeof *by_turns))))
        return NULL;
    change(copy, context);
    for (int i = 0; by_turns && i < table->shape_count; i++)
        if (!(by_turns[i] = price_changed(arena, table->by_turns[i], change, context)))
            return NULL;
    copy->by_turns = by_turns;
    return copy;
}

bool price_join_table(struct price_table **into, struct arena *arena, const struct price_table *table, bool most)
{
    struct price_table *joined = *into;
    if (!joined)
        return (*into = price_copy_table(arena, table)) != NULL;
    for (int i = 0; i < table->class_count * table->strategy_count; i++)
        price_merge(&joined->prices[i], &table->prices[i], most);
    joined->send_ns = pick(joined->send_ns, table->send_ns, most);
    joined->send_ends_ns = pick(joined->send_ends_ns, table->send_ends_ns, most);
    joined->norm_exchange_ns = pick(joined->norm_exchange_ns, table->norm_exchange_ns, most);
    joined->base_bytes = pick(joined->base_bytes, table->base_bytes, most);
    return true;
}

int price_part_count(const struct price_table *table, int pieces)
{
    int stages = table->by_stage ? pieces : 0, shapes = table->by_turns ? table->shape_count : 0;
    return 1 + stages + shapes + (table->by_place ? table->mesh_count * table->shape_count : 0);
}

const struct price_table *price_part(const struct price_table *table, int pieces, int number)
{
    int stages = table->by_stage ? pieces : 0, shapes = table->by_turns ? table->shape_count : 0;
    if (number == 0)
        return table;
    if (number <= stages)
        return table->by_stage[number - 1];
    return number <= stages + shapes ? table->by_turns[number - 1 - stages]
                                     : table->by_place[number - 1 - stages - shapes];
}

const struct price_table *price_of_plan_stage(const struct price_table *table, const struct plan *plan, int stage)
{
    if (!table->by_turns)
        return price_of_stage(table, stage);
    const struct plan_stage *own = &plan->stages[stage];
    int shape = 0, replicas = plan_stage_turns(plan, stage), first = own->first_rank / table->mesh_ranks - own->turn;
    while (shape + 1 < table->shape_count && table->turns[shape] != replicas)
        shape++;
    return price_of_meshes(table, table->reversed ? table->mesh_count - first - replicas : first, shape);
}

/* Prices a layer's output, sent to a second stage by the same lowering. */
static bool price_send(struct price_table *table, struct price_book *book, const struct price_key *key,
                       struct error *err)
{
    struct wanted sent;
    struct plan_layer plain = { .slices = 1 };
    memcpy(plain.dim, key->mesh.dim, sizeof plain.dim);
    if (columns_part(key) != SAMPLE_WHOLE || 2 * mesh_ranks(&key->mesh) > book->facts->cluster->device_count)
        return true; /* no devices are left for a stage behind */
    if (!book_look_up(&sent, book, key, &plain, 2, NULL, err))
        return false;
    if (sent.graph->layer_count < 2)
        return true;
    if (!book_provide(&sent, err))
        return false;
    table->send_ns = sample_send_ns(sent.sample, book->facts, &table->send_ends_ns, &table->send_bytes);
    book_keep(book, &sent);
    return true;
}

/* Prices the exchange of the norm: one number of each rank, whatever the configuration, since all use all devices. */
static int64_t norm_exchange_ns(const struct price_book *book)
{
    return cost_collective(book->facts, OP_NORM_REDUCE, element_bytes(book->dtype, ELEMENT_STATISTIC),
                           book->facts->cluster->device_count, 0, 1, 1)
        .ns;
}

/* Keeps times with recomputation, which is there to save memory, from falling below those without: where a layer waits
 * less for its reduction since the next one to go backward recomputes, or a bucket is cut elsewhere, that is its
 * neighbours' decision. It leaves what the walk of the loss makes, in place of the forward pass. */
static void keep_times(struct layer_price *price, const struct layer_price *plain, bool walks_loss)
{
    int64_t later_ns = min_i64(plain->forward_ns - price->forward_ns, price->backward_ns - plain->backward_ns);
    int64_t forward_ns = plain->forward_ns - (walks_loss ? max_i64(0, later_ns) : 0);
    price->forward_ns = max_i64(price->forward_ns, forward_ns);
#define PRICE(member, kind) price->member = kind == KEPT ? max_i64(price->member, plain->member) : price->member;
#include "planner/price/prices.def"
#undef PRICE
}

/* Makes room for the prices of so many strategies. */
static bool open_table(struct price_table *table, struct arena *arena, const struct price_book *book,
                       const struct strategy *strategies, int count, struct error *err)
{
    *table =
        (struct price_table){ .class_count = book->class_count, .strategy_count = count, .strategies = strategies };
    table->prices = arena_alloc(arena, (size_t)(book->class_count * count), sizeof *table->prices);
    table->workspace_bytes = arena_alloc(arena, (size_t)count, sizeof *table->workspace_bytes);
    if (!table->prices || !table->workspace_bytes)
        return fail_memory(err);
    return true;
}

/* Lists the strategies and, behind them, each one without recomputation that is missing, for keep_times(): prices do
 * not depend on what else is allowed. plain: of each its place, -1 where nothing has to be kept. */
static int add_plain(struct strategy *all, int *plain, const struct strategy *strategies, int count, bool keeps)
{
    int added = count;
    memcpy(all, strategies, (size_t)count * sizeof *all);
    for (int i = 0; i < count; i++) {
        struct strategy own = strategies[i];
        plain[i] = keeps && (own.layer.recompute != RECOMPUTE_NONE || own.layer.excepted) ? 0 : -1;
        own.layer.recompute = RECOMPUTE_NONE;
        own.layer.excepted = 0;
        while (plain[i] >= 0 && plain[i] < added && !plan_layer_equal(&all[plain[i]].layer, &own.layer))
            plain[i]++;
        if (plain[i] == added) {
            plain[added] = -1;
            all[added++] = own;
        }
    }
    return added;
}

/* Prices the strategies, which come first in the table, and what keeps their times behind them, all at once. */
static bool price_all(struct price_table *table, struct arena *arena, struct price_book *book,
                      const struct price_key *key, const struct strategy *strategies, int count, struct error *err)
{
    size_t most = 2 * (size_t)count;
    struct strategy *all = arena_alloc(arena, most, sizeof *all);
    int *plain = arena_alloc(arena, most, sizeof *plain);
    if (!all || !plain)
        return fail_memory(err);
    int added = add_plain(all, plain, strategies, count, columns_part(key) == SAMPLE_WHOLE);
    struct price_order order = { .key = *key, .facts = book->facts, .strategies = all, .count = added };
    if (!open_table(table, arena, book, all, added, err) || !columns_make(book, &order, 1, err))
        return false;
    for (int i = 0; i < added; i++)
        columns_take(table, i, book, key);
    for (int i = 0; i < count; i++)
        for (int c = 0; plain[i] >= 0 && c < table->class_count; c++)
            keep_times(&table->prices[c * added + i], price_at(table, c, plain[i]), key->loss_chunks > 1);
    return true;
}

void price_ahead(struct price_book *book, const struct price_order *orders, int count)
{
    struct arena scratch = { 0 };
    struct error err = { 0 };
    struct price_order *all = arena_alloc(&scratch, (size_t)count, sizeof *all);
    for (int i = 0; all && i < count; i++) {
        all[i] = orders[i];
        struct strategy *own = arena_alloc(&scratch, 2 * (size_t)orders[i].count, sizeof *own);
        int *plain = arena_alloc(&scratch, 2 * (size_t)orders[i].count, sizeof *plain);
        bool keeps = columns_part(&orders[i].key) == SAMPLE_WHOLE;
        all[i].count = own && plain ? add_plain(own, plain, orders[i].strategies, orders[i].count, keeps) : 0;
        all[i].strategies = own;
    }
    if (all)
        columns_make(book, all, count, &err);
    arena_free(&scratch);
}

bool price_layers(struct price_table *out, struct arena *arena, struct price_book *book, const struct price_key *key,
                  const struct strategy *strategies, int strategy_count, struct error *err)
{
    struct price_table all, table;
    struct arena scratch = { 0 };
    bool good = price_all(&all, &scratch, book, key, strategies, strategy_count, err) &&
                open_table(&table, arena, book, strategies, strategy_count, err);
    for (int c = 0; good && c < table.class_count; c++)
        memcpy(&table.prices[c * strategy_count], price_at(&all, c, 0), (size_t)strategy_count * sizeof *table.prices);
    for (int i = 0; good && i < strategy_count; i++) {
        table.workspace_bytes[i] = all.workspace_bytes[i];
        table.base_bytes = max_i64(table.base_bytes, table.workspace_bytes[i]);
    }
    arena_free(&scratch);
    if (good && book->clips && columns_part(key) == SAMPLE_WHOLE)
        table.norm_exchange_ns = norm_exchange_ns(book);
    if (!good || !price_send(&table, book, key, err))
        return false;
    *out = table;
    return true;
}
