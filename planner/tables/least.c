/* Most configurations are ruled out by what their plans have to keep: too much, or so much that layers are computed
 * again. Neither depends on what the data-parallel lane does. So both ends of ZeRO are priced on as few ranks as a
 * bound needs, and tell what all its stages take on any number of them: the path no less than the shorter of both; of
 * weights, gradients and states what each stage leaves whole, and of the rest a share.
 *
 * Where the table with a prefetch of one layer is known, its path and its reductions are those of any prefetch at
 * least: gathers that are not issued ahead stand on the path, and more that are issued ahead hide no better. */
#include "planner/tables/least.h"
#include "base/num.h"
#include "planner/program/schedule.h"
#include "planner/tables/cuts.h"
#include <string.h>

/* The ends that are priced, two for each way to recompute; there is one where nothing is shared. */
struct ends {
    int count, each;
    int *first; /* (strategies) index of the first of its way */
    struct strategy *list;
};

static bool recompute_alike(const struct plan_layer *a, const struct plan_layer *b)
{
    return a->recompute == b->recompute && a->excepted == b->excepted;
}

/* Lists the configuration's strategies; none, if they differ in more than ZeRO, resharding and recomputation. */
static bool list_strategies(const struct workbench *bench, struct arena *arena, const struct config *config,
                            struct strategy **out, int *count)
{
    struct price_key key = { .mesh = config->mesh };
    if (!workbench_strategies(bench, arena, &key, out, count))
        return false;
    for (int i = *count - 1; i >= 0 && *count > 0; i--) {
        const struct plan_layer *layer = &(*out)[i].layer;
        struct plan_layer plain = { .zero = layer->zero, .reshard = layer->reshard, .recompute = layer->recompute };
        plain.excepted = layer->excepted;
        plain.slices = 1;
        memcpy(plain.dim, config->mesh.dim, sizeof plain.dim);
        if (!plan_layer_equal(layer, &plain))
            *count = 0;
    }
    return true;
}

/* Gives the last stage of ZeRO of those that recompute as the layer does. */
static int most_zero(const struct strategy *strategies, int count, const struct plan_layer *layer)
{
    int most = 1;
    for (int i = 0; i < count; i++)
        if (recompute_alike(&strategies[i].layer, layer))
            most = max_int(most, strategies[i].layer.zero);
    return most;
}

static bool list_ends(struct arena *arena, const struct strategy *strategies, int count, const struct mesh *mesh,
                      struct ends *ends)
{
    *ends = (struct ends){ .each = mesh_shards(mesh) > 1 ? 2 : 1,
                           .first = arena_alloc(arena, (size_t)count + 1, sizeof *ends->first),
                           .list = arena_alloc(arena, 2 * (size_t)count + 1, sizeof *ends->list) };
    for (int i = 0; ends->first && ends->list && i < count; i++) {
        struct plan_layer layer = { .recompute = strategies[i].layer.recompute,
                                    .slices = 1,
                                    .excepted = strategies[i].layer.excepted };
        int like = 0;
        while (!recompute_alike(&strategies[like].layer, &layer))
            like++;
        ends->first[i] = like < i ? ends->first[like] : ends->count;
        if (like < i)
            continue;
        memcpy(layer.dim, mesh->dim, sizeof layer.dim);
        for (int end = 0; end < ends->each; end++, layer.zero = (int8_t)most_zero(strategies, count, &layer))
            ends->list[ends->count++] = (struct strategy){ layer };
    }
    return ends->first && ends->list;
}

static struct layer_price least_price(const struct price_table *priced, const struct ends *ends, int class_index,
                                      int strategy, const struct plan_layer *layer, int shards)
{
    int first = ends->first[strategy];
    struct layer_price least = *price_at(priced, class_index, first);
    /* ZeRO's stage leaves this whole of what a rank has without it, and a share of the rest; the third one that keeps
     * what it gathers, as much as the second */
    const int64_t whole[] = { least.weight_bytes, least.version_bytes + least.exchange_bytes, least.version_bytes, 0 };
    int64_t kept = whole[layer->reshard == RESHARD_EACH_STEP ? min_int(layer->zero, 2) : layer->zero];
    int64_t weight_bytes = kept + (least.weight_bytes - kept) / shards;
    if (layer->zero > 0 && ends->each > 1)
        price_merge(&least, price_at(priced, class_index, first + 1), false);
    return (struct layer_price){ .forward_ns = least.forward_ns,
                                 .backward_ns = least.backward_ns,
                                 .step_ns = least.step_ns,
                                 .weight_bytes = weight_bytes,
                                 .saved_bytes = least.saved_bytes,
                                 .freed_bytes = least.freed_bytes,
                                 .transient_bytes = least.transient_bytes };
}

/* Makes the table; *out stays NULL where lowering refuses an end, or strategies have more to choose from. */
static bool make_least(struct workbench *bench, const struct config *config, const struct price_key *key, int shards,
                       const struct price_table **out, struct error *err)
{
    struct strategy *strategies;
    struct price_table priced, *table = arena_alloc(&bench->arena, 1, sizeof *table);
    struct error why = { 0 };
    struct ends ends;
    int count;
    if (!table || !list_strategies(bench, &bench->arena, config, &strategies, &count) ||
        !list_ends(&bench->arena, strategies, count, &key->mesh, &ends))
        return fail_memory(err);
    bench->book.facts = bench->facts;
    if (count == 0)
        return true;
    if (!price_layers(&priced, &bench->arena, &bench->book, key, ends.list, ends.count, &why))
        return why.kind == ERROR_INPUT || fail_with(err, &why);
    *table = priced;
    table->strategies = strategies;
    table->strategy_count = count;
    table->prices = arena_alloc(&bench->arena, (size_t)(table->class_count * count), sizeof *table->prices);
    if (!table->prices)
        return fail_memory(err);
    for (int c = 0; c < table->class_count; c++)
        for (int i = 0; i < count; i++)
            table->prices[c * count + i] = least_price(&priced, &ends, c, i, &strategies[i].layer, shards);
    *out = table;
    return true;
}

/* Gives what is no less with any prefetch: what of the path's transfers meets the lane's hangs on it. Prices round. */
static int64_t without_loss(int64_t path_ns, int64_t moved_ns, int64_t loss_ppm)
{
    return path_ns - mul_div_i64(moved_ns, loss_ppm, 1000000, MAX_TIME_NS) - (loss_ppm > 0);
}

/* Raises the least to the path and the reductions of the table that has a prefetch of one layer. */
static bool add_known(struct workbench *bench, const struct config *config, const struct price_table *like,
                      const struct price_table **least, struct error *err)
{
    const int64_t words[] = { MADE_LEAST_LIKE, (intptr_t)like };
    bool known;
    struct price_table **made = memo_place(&bench->made, words, sizeof words / sizeof *words, sizeof *made, &known);
    if (!made || (!known && !(*made = price_copy_table(&bench->arena, *least))))
        return fail_memory(err);
    for (int i = 0; !known && i < like->class_count * like->strategy_count; i++) {
        struct layer_price *own = &(*made)->prices[i];
        const struct layer_price *p = &like->prices[i];
        if (like->strategies[i % like->strategy_count].layer.recompute == RECOMPUTE_BLOCK)
            continue; /* passes of several layers run again at once: what they gather holds reductions up otherwise */
        own->forward_ns =
            max_i64(own->forward_ns, without_loss(p->forward_ns, p->gather_forward_ns, p->path_loss_forward_ppm));
        own->backward_ns = max_i64(own->backward_ns, without_loss(p->backward_ns, p->gather_backward_ns + p->reduce_ns,
                                                                  p->path_loss_backward_ppm));
        own->step_ns = max_i64(own->step_ns, p->step_ns);
        own->reduce_ns = p->reduce_ns;
        own->reduce_last_ns = p->reduce_last_ns;
    }
    (*made)->send_ns = like->send_ns;
    (*made)->send_ends_ns = like->send_ends_ns;
    (*made)->send_bytes = like->send_bytes;
    (*made)->norm_exchange_ns = like->norm_exchange_ns;
    *least = *made;
    return cuts_table(bench, config, least, err);
}

/* Gives by which key the ends are priced. */
static struct price_key key_of_ends(const struct workbench *bench, const struct config *config)
{
    struct price_key key = workbench_key(bench, config, 0, true);
    key.alone = false;
    key.bytes = true;
    key.prefetch = 2; /* the sooner gathers are issued, the less counts as saved */
    return key;
}

/* True when such a table is of use for the configuration. */
static bool is_of_use(const struct workbench *bench, const struct config *config, const struct price_key *whole)
{
    return config->meshes == 0 && !bench->type_facts && bench->space->rule_count == 0 &&
           !schedules[config->schedule]->asynchronous && !workbench_known(bench, whole);
}

void least_ahead(struct ahead *ahead, const struct config *config)
{
    struct price_key whole = workbench_key(ahead->bench, config, 0, false), key = key_of_ends(ahead->bench, config);
    struct strategy *strategies;
    struct ends ends;
    int count;
    if (is_of_use(ahead->bench, config, &whole) &&
        list_strategies(ahead->bench, &ahead->scratch, config, &strategies, &count) && count > 0 &&
        list_ends(&ahead->scratch, strategies, count, &key.mesh, &ends))
        ahead_add(ahead, MADE_LEAST, &key, ends.list, ends.count);
    else
        ahead_table(ahead, config, false);
}

bool least_table(struct workbench *bench, const struct config *config, const struct price_table **out,
                 struct error *err)
{
    struct price_key whole = workbench_key(bench, config, 0, false), key = key_of_ends(bench, config);
    int64_t words[2 + PRICE_KEY_WORDS] = { MADE_LEAST, mesh_shards(&config->mesh) };
    bool known;
    *out = NULL;
    if (!is_of_use(bench, config, &whole))
        return true;
    const struct price_table **made =
        memo_place(&bench->made, words, 2 + (size_t)price_key_words(&key, &words[2]), sizeof *made, &known);
    if (!made)
        return fail_memory(err);
    if (!known && !make_least(bench, config, &key, mesh_shards(&config->mesh), made, err))
        return false;
    *out = *made;
    whole.prefetch = 1;
    const struct price_table *like = workbench_known(bench, &whole);
    return !*out || !like || add_known(bench, config, like, out, err);
}

bool least_thrifty(struct workbench *bench, const struct config *config, const struct price_table *least,
                   const struct price_table **out, struct error *err)
{
    struct price_key key = workbench_key(bench, config, 0, false);
    int64_t words[1 + PRICE_KEY_WORDS] = { MADE_THRIFTY };
    int thriftiest = 0;
    bool known;
    struct error why = { 0 };
    key.bytes = true;
    key.prefetch = 1; /* what is held does not depend on it, and no more counts as saved with another */
    struct price_table *made =
        memo_place(&bench->made, words, 1 + (size_t)price_key_words(&key, &words[1]), sizeof *made, &known);
    if (!made)
        return fail_memory(err);
    for (int i = 1; i < least->strategy_count; i++) {
        int64_t more = 0;
        for (int c = 0; c < least->class_count; c++) {
            const struct layer_price *p = price_at(least, c, i), *best = price_at(least, c, thriftiest);
            more += p->weight_bytes + p->saved_bytes - best->weight_bytes - best->saved_bytes;
        }
        thriftiest = more < 0 ? i : thriftiest;
    }
    bench->book.facts = bench->facts;
    if (!known && !price_layers(made, &bench->arena, &bench->book, &key, &least->strategies[thriftiest], 1, &why) &&
        why.kind != ERROR_INPUT)
        return fail_with(err, &why);
    made->base_bytes = max_i64(made->base_bytes, least->base_bytes);
    *out = made->class_count > 0 ? made : NULL;
    return true;
}
