/* Each layout is priced as if all layers had it; what is between layers of different layouts is priced by lowering them
 * in turn (price_layout_change()). */
#include "planner/tables/layouts.h"
#include "base/num.h"
#include <string.h>

struct laid {
    struct laid *next;
    struct price_key key;
    int runs, layout_count;
    int8_t layout[MOST_LAYOUTS][MAX_ATOMS];
    bool refused;
    struct price_table table;
};
/* The layouts that have a table. */
struct kept {
    int count;
    const int8_t *dims[MOST_LAYOUTS];
    const struct price_table *table[MOST_LAYOUTS];
    const bool *nothing[MOST_LAYOUTS]; /* of which classes they have no strategy; NULL: of none */
};

static bool same_layouts(const struct laid *laid, const struct config *config)
{
    return laid->runs == config->runs && laid->layout_count == config->layout_count &&
           !memcmp(laid->layout, config->layout, (size_t)config->layout_count * sizeof config->layout[0]);
}

/* ---- the strategies ---- */

static bool list_kept(struct workbench *bench, const struct config *config, bool bound_only, struct kept *kept,
                      struct error *err)
{
    kept->count = 0;
    for (int i = 0; i < config->layout_count; i++) {
        struct config own = config_of_layout(config, i);
        const struct price_table *table = NULL;
        if (!workbench_partial_table(bench, &own, bound_only, &table, &kept->nothing[kept->count], err))
            return false;
        if (!table)
            continue;
        kept->dims[kept->count] = config->layout[i];
        kept->table[kept->count++] = table;
    }
    return true;
}

/* Whether every class has a strategy in one of them. */
static bool kept_serve(const struct kept *kept)
{
    for (int c = 0; kept->count > 0 && c < kept->table[0]->class_count; c++) {
        bool any = false;
        for (int i = 0; i < kept->count; i++)
            any = any || !kept->nothing[i] || !kept->nothing[i][c];
        if (!any)
            return false;
    }
    return kept->count > 0;
}

static bool join_tables(struct price_table *out, const struct kept *kept, struct arena *arena)
{
    *out = *kept->table[0];
    for (int i = 1; i < kept->count; i++) {
        out->strategy_count += kept->table[i]->strategy_count;
        out->base_bytes = max_i64(out->base_bytes, kept->table[i]->base_bytes);
        out->send_ns = max_i64(out->send_ns, kept->table[i]->send_ns);
    }
    size_t count = (size_t)out->strategy_count;
    struct strategy *strategies = arena_alloc(arena, count, sizeof *strategies);
    out->prices = arena_alloc(arena, count * (size_t)out->class_count, sizeof *out->prices);
    if (!strategies || !out->prices)
        return false;
    for (int i = 0, at = 0; i < kept->count; at += kept->table[i++]->strategy_count) {
        const struct price_table *own = kept->table[i];
        out->layout_first[i + 1] = at + own->strategy_count;
        memcpy(&strategies[at], own->strategies, (size_t)own->strategy_count * sizeof *strategies);
        for (int c = 0; c < out->class_count; c++)
            memcpy(&out->prices[c * out->strategy_count + at], price_at(own, c, 0),
                   (size_t)own->strategy_count * sizeof *out->prices);
    }
    out->strategies = strategies;
    return true;
}

/* ---- between them ---- */

/* The graph's class of a chain's. */
static int graph_class(const struct workbench *bench, int class_index)
{
    return bench->space->rule_count == 0 ? class_index
                                         : bench->graph->layers[bench->class_layer[class_index]].class_index;
}

static bool add_pair(struct workbench *bench, struct laid *laid, const struct kept *kept, int a, int b,
                     struct layer_price *handovers, struct error *err)
{
    struct price_table *table = &laid->table;
    struct arena scratch = { 0 };
    size_t classes = (size_t)bench->graph->class_count;
    struct layout_change pair = { .dims = { kept->dims[a], kept->dims[b] },
                                  .handovers = { arena_alloc(&scratch, classes, sizeof(struct layer_price)),
                                                 arena_alloc(&scratch, classes, sizeof(struct layer_price)) } };
    bool good = (pair.handovers[0] && pair.handovers[1]) || fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
    good = good && price_layout_change(&pair, &bench->book, &laid->key, err);
    for (int c = 0; good && c < table->class_count; c++) {
        int like = graph_class(bench, c), at = c * kept->count;
        handovers[(at + a) * kept->count + b] = pair.handovers[0][like];
        handovers[(at + b) * kept->count + a] = pair.handovers[1][like];
    }
    table->cut_ns[a][b] = pair.cut_ns[0];
    table->cut_ns[b][a] = pair.cut_ns[1];
    arena_free(&scratch);
    return good;
}

static bool price_between(struct workbench *bench, struct laid *laid, const struct kept *kept, struct error *err)
{
    struct price_table *table = &laid->table;
    size_t pairs = (size_t)(kept->count * kept->count);
    struct layer_price *handovers = arena_alloc(&bench->arena, pairs * (size_t)table->class_count, sizeof *handovers);
    if (!handovers)
        return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
    table->layout_count = kept->count;
    table->run_count = laid->runs;
    table->handovers = handovers;
    bench->book.facts = bench->facts;
    for (int a = 0; a < kept->count; a++) {
        table->cut_ns[a][a] = 2 * kept->table[a]->send_ns;
        for (int b = a + 1; b < kept->count; b++)
            if (!add_pair(bench, laid, kept, a, b, handovers, err))
                return false;
    }
    return true;
}

bool layouts_table(struct workbench *bench, const struct config *config, bool bound_only,
                   const struct price_table **out, struct error *err)
{
    struct price_key key = workbench_key(bench, config, 0, bound_only);
    struct laid *laid = bench->laid;
    while (laid && !(price_key_equal(&laid->key, &key) && same_layouts(laid, config)))
        laid = laid->next;
    if (!laid) {
        struct kept kept;
        laid = arena_alloc(&bench->arena, 1, sizeof *laid);
        if (!laid)
            return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
        *laid = (struct laid){
            .next = bench->laid, .key = key, .runs = config->runs, .layout_count = config->layout_count
        };
        memcpy(laid->layout, config->layout, sizeof laid->layout);
        if (!list_kept(bench, config, bound_only, &kept, err))
            return false;
        laid->refused = !kept_serve(&kept);
        if (!laid->refused && !join_tables(&laid->table, &kept, &bench->arena))
            return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
        struct error why = { 0 };
        if (!bound_only && kept.count > 1 && !price_between(bench, laid, &kept, &why)) {
            if (why.kind != ERROR_INPUT)
                return fail_kind(err, why.kind, "%s", why.message);
            laid->refused = true;
        }
        bench->laid = laid;
    }
    *out = laid->refused ? NULL : &laid->table;
    return true;
}
