/* What layers take at least, and what all of them take on one rank: of samples of one sequence. */
#include "base/num.h"
#include "planner/price/price_parts.h"
#include <string.h>

static void lower_floors(struct price_floor *floors, const struct graph *graph, const struct layer_price *by_layer)
{
    for (int l = 0; l < graph->layer_count; l++) {
        struct price_floor *floor = &floors[graph->layers[l].class_index];
        floor->path_ns = min_i64(floor->path_ns, by_layer[l].forward_ns + by_layer[l].backward_ns);
        floor->step_ns = min_i64(floor->step_ns, by_layer[l].step_ns);
    }
}

bool price_lower_floors(struct price_floor *floors, struct price_book *book, const struct price_key *key, int slices,
                        const int64_t *micros, int micro_count, struct error *err)
{
    struct sample *sample;
    struct plan_layer plain = price_plain_layer(key->mesh.dim);
    plain.slices = (int16_t)slices;
    if (!cost_is_by_rates(book->facts, 0)) {
        memset(floors, 0, (size_t)(micro_count * book->class_count) * sizeof *floors);
        return true;
    }
    if (!price_want_sample(&sample, book, key, &plain, 1, err))
        return false;
    if (!sample_open_floors(sample, book->facts))
        return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory for prices");
    for (int i = 0; i < micro_count; i++)
        lower_floors(&floors[i * book->class_count], book->graph, sample_floors(sample, micros[i]));
    return true;
}

static int layer_of_class(const struct graph *graph, int class_index)
{
    int layer = 0;
    while (graph->layers[layer].class_index != class_index)
        layer++;
    return layer;
}

bool price_whole_bytes(int64_t *bytes, struct price_book *book, const struct price_key *key, const struct graph *whole,
                       struct error *err)
{
    struct sample *sample;
    struct plan_layer plain = price_plain_layer(key->mesh.dim);
    int64_t transient = 0, each = 0;
    *bytes = 0;
    if (!price_want_sample(&sample, book, key, &plain, 1, err))
        return false;
    const struct layer_price *by_layer = sample_prices(sample, book->facts, NULL, false, SAMPLE_ALL, &each);
    for (int l = 0; l < whole->layer_count; l++) {
        const struct layer_price *p = &by_layer[layer_of_class(book->graph, whole->layers[l].class_index)];
        *bytes += p->weight_bytes;
        each += p->saved_bytes;
        transient = max_i64(transient, p->transient_bytes);
    }
    *bytes += whole->batch * (each + transient);
    return true;
}
