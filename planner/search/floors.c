#include "planner/search/floors.h"
#include "base/num.h"

#define PATH_SHARE 0.98 /* kernels and transfers stand beside each other a little more where weights are sharded */

struct kind {
    struct kind *next;
    struct price_key key;
    struct price_floor *floors; /* (sizes, the chain's classes) */
};
struct floors {
    int64_t *micros; /* (count) sizes of micro-batches */
    int count;
    struct kind *kinds;
};

static bool out_of_memory(struct error *err)
{
    return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
}

bool search_open_floors(struct workbench *bench, const struct config *configs, int count, struct error *err)
{
    struct floors *floors = bench->floors = arena_alloc(&bench->arena, 1, sizeof *floors);
    if (!floors || !(floors->micros = arena_alloc(&bench->arena, (size_t)count, sizeof *floors->micros)))
        return out_of_memory(err);
    for (int i = 0; i < count; i++) {
        int at = 0;
        while (at < floors->count && floors->micros[at] != configs[i].micro)
            at++;
        floors->micros[at] = configs[i].micro;
        floors->count += at == floors->count;
    }
    return true;
}

/* (sizes, the graph's classes) */
static bool find_floors(struct price_floor *out, struct workbench *bench, const struct price_key *key,
                        struct error *err)
{
    const struct floors *floors = bench->floors;
    struct allowed slices = space_any_layer(bench->space, LAYER_SLICES);
    for (int i = 0; i < floors->count * bench->graph->class_count; i++)
        out[i] = (struct price_floor){ INT64_MAX, INT64_MAX };
    for (int i = 0; i < slices.count; i++)
        if (!price_lower_floors(out, &bench->book, key, (int)slices.values[i], floors->micros, floors->count, err))
            return false;
    return true;
}

/* Zeroes where nothing is known: on several types, and where lowering refuses it. Rules tell the chain's classes apart,
 * but allow no less than the whole space. */
static bool fill_kind(struct kind *kind, struct workbench *bench, struct error *err)
{
    struct error why = { 0 };
    const struct graph *graph = bench->graph;
    size_t count = (size_t)bench->floors->count;
    struct price_floor *found = arena_alloc(&bench->arena, count * (size_t)graph->class_count, sizeof *found);
    kind->floors = arena_alloc(&bench->arena, count * (size_t)bench->class_count, sizeof *kind->floors);
    if (!kind->floors || !found)
        return out_of_memory(err);
    if (bench->type_facts)
        return true;
    if (!find_floors(found, bench, &kind->key, &why))
        return why.kind == ERROR_INPUT || fail_kind(err, why.kind, "%s", why.message);
    for (int i = 0; i < bench->floors->count; i++)
        for (int l = 0; l < graph->layer_count; l++)
            kind->floors[i * bench->class_count + bench->chain.class_of[l]] =
                found[i * graph->class_count + graph->layers[l].class_index];
    return true;
}

/* Of one sequence, on the ranks that share it. */
static struct price_key kind_key(const struct workbench *bench, const struct config *config)
{
    struct price_key key = workbench_key(bench, config, 0, true);
    key.micro = 1;
    key.accumulates = false;
    return price_key_alone(&key);
}

/* (the chain's classes) */
static bool want_floors(const struct price_floor **out, struct workbench *bench, const struct config *config,
                        struct error *err)
{
    struct price_key key = kind_key(bench, config);
    struct floors *floors = bench->floors;
    struct kind *kind = floors->kinds;
    int at = 0;
    while (kind && !price_key_equal(&kind->key, &key))
        kind = kind->next;
    if (!kind) {
        kind = arena_alloc(&bench->arena, 1, sizeof *kind);
        if (!kind)
            return out_of_memory(err);
        *kind = (struct kind){ .next = floors->kinds, .key = key };
        if (!fill_kind(kind, bench, err))
            return false;
        floors->kinds = kind;
    }
    while (floors->micros[at] != config->micro)
        at++;
    *out = &kind->floors[at * bench->class_count];
    return true;
}

bool search_floor(struct floor *out, struct workbench *bench, const struct config *config, struct error *err)
{
    struct arena scratch = { 0 };
    const struct price_floor *floors = NULL;
    struct price_table table = { .class_count = bench->chain.class_count, .strategy_count = 1 };
    *out = (struct floor){ 0, 0 };
    if (config->meshes > 0)
        return true;
    table.prices = arena_alloc(&scratch, (size_t)table.class_count, sizeof *table.prices);
    bool good = table.prices ? want_floors(&floors, bench, config, err) : out_of_memory(err);
    for (int c = 0; good && c < table.class_count; c++)
        table.prices[c] = (struct layer_price){ .forward_ns = (int64_t)((double)floors[c].path_ns * PATH_SHARE),
                                                .step_ns = floors[c].step_ns };
    if (good) {
        struct partition_problem problem = workbench_problem(bench, config, &table, NULL);
        *out = (struct floor){ partition_path_bound(&problem), partition_quick_bound(&problem) };
    }
    arena_free(&scratch);
    return good;
}
