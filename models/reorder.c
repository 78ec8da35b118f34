/* Another topological order of the same layers. Names, values and weights stay what they are, and with them initial
 * values, data and checkpoints; layers and segments move. */
#include "base/num.h"
#include "models/graph.h"
#include <string.h>

static bool check_order(const struct graph *graph, const int *order, int *place, struct error *err)
{
    for (int l = 0; l < graph->layer_count; l++)
        place[l] = -1;
    for (int p = 0; p < graph->layer_count; p++) {
        if (!is_index(order[p], graph->layer_count))
            return fail(err, "order: expected layers 0 to %d, found %d", graph->layer_count - 1, order[p]);
        const struct graph_layer *layer = &graph->layers[order[p]];
        if (place[order[p]] >= 0)
            return fail(err, "order: expected each layer once, found layer %s twice", layer->name);
        place[order[p]] = p;
        for (int i = 0; i < layer->input_count; i++)
            if (place[layer->input_layers[i]] < 0)
                return fail(err, "order: expected layer %s before layer %s, which reads it, found it behind",
                            graph->layers[layer->input_layers[i]].name, layer->name);
    }
    return true;
}

/* Moves layers with their segments; moved: (segment_count) where each segment stands then. */
static void move_layers(const struct graph *graph, const int *order, const int *place, struct graph_layer *layers,
                        struct segment *segments, int *moved)
{
    int next = 0;
    for (int p = 0; p < graph->layer_count; p++) {
        const struct graph_layer *from = &graph->layers[order[p]];
        layers[p] = *from;
        layers[p].first_segment = next;
        for (int i = 0; i < from->input_count; i++)
            layers[p].input_layers[i] = place[from->input_layers[i]];
        for (int i = 0; i < from->segment_count; i++, next++) {
            moved[from->first_segment + i] = next;
            segments[next] = graph->segments[from->first_segment + i];
            segments[next].layer = p;
        }
    }
}

bool graph_reorder(struct graph *graph, const int *order, struct error *err)
{
    size_t layer_count = (size_t)graph->layer_count, segment_count = (size_t)graph->segment_count;
    struct arena *arena = &graph->arena;
    struct graph_layer *layers = arena_alloc(arena, layer_count, sizeof *layers);
    struct segment *segments = arena_alloc(arena, segment_count, sizeof *segments);
    int *place = arena_alloc(arena, layer_count, sizeof *place),
        *moved = arena_alloc(arena, segment_count, sizeof(int)), *own = arena_alloc(arena, layer_count, sizeof *own);
    if (!layers || !segments || !place || !moved || !own)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory while reordering the model");
    if (!check_order(graph, order, place, err))
        return false;
    move_layers(graph, order, place, layers, segments, moved);
    for (int v = 0; v < graph->value_count; v++)
        if (graph->values[v].producer >= 0)
            graph->values[v].producer = moved[graph->values[v].producer];
    memcpy(own, order, layer_count * sizeof *own);
    graph->layers = layers;
    graph->segments = segments;
    graph->order = own;
    return true;
}
