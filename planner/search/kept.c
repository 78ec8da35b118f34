#include "planner/search/kept.h"
#include "models/quantized.h"
#include "planner/space/wider.h"

/* Adds up weights, with their scales, the optimizer's states, and the accumulators of gradients, each kept once. */
static bool count_bytes(double *weights, double *states, double *gradients, const struct model *model,
                        const struct space *space, struct error *err)
{
    struct graph *graph = NULL;
    *weights = *states = *gradients = 0;
    if (!graph_take(&graph, model, space->batch, space->sequence, 1, err))
        return false;
    for (int i = 0; i < graph->weight_count; i++) {
        const struct weight *weight = &graph->weights[i];
        double elements = (double)weight_elements(weight);
        *weights += (double)weight_bytes(weight, space->dtype, weight_elements(weight)) +
                    (double)weight_scale_bytes(weight, weight_elements(weight));
        if (weight->frozen)
            continue;
        *states += elements * (double)optimizer_bytes_per_element(&space->optimizer, space->dtype, weight);
        bool narrow = graph->keeping.narrow_gradients;
        *gradients += elements * (double)optimizer_gradient_bytes(&space->optimizer, narrow, space->dtype);
    }
    graph_free(graph);
    return true;
}

bool search_is_hopeless(bool *out, const struct model *model, const struct facts *facts, const struct space *space,
                        struct error *err)
{
    const struct cluster *cluster = facts->cluster;
    double weights, states, gradients, there = (double)cluster->device_count * (double)facts_most_bytes(facts);
    if (!count_bytes(&weights, &states, &gradients, model, space, err))
        return false;
    for (int t = 0; space_offloads(space) && t < cluster->type_count; t++) {
        int64_t bytes = cluster->types[t].device.host_memory_bytes; /* 0: nobody knows */
        there += (double)cluster->device_count * (double)(bytes > 0 ? bytes : INT64_MAX);
    }
    *out = weights + states + gradients > there;
    return true;
}

bool search_has_large_states(bool *out, const struct model *model, const struct facts *facts, const struct space *space,
                             struct error *err)
{
    enum { LARGE_SHARE = 5 };
    double weights, states, gradients, there = (double)facts->cluster->device_count * (double)facts_most_bytes(facts);
    bool good = count_bytes(&weights, &states, &gradients, model, space, err);
    *out = good && states * LARGE_SHARE >= there;
    return good;
}
