/* A graph whose layers are whole blocks: what frameworks cut between, compute again and shard as one. */
#include "models/whole_blocks.h"
#include "models/model.h"
#include <stdio.h>
#include <string.h>

/* Layers [first, first + count) of the graph as it was, which become one. */
struct span {
    int first, count;
};

/* What joins the trunk with the next token's embedding goes with the block behind it. */
static bool begins_further(const struct graph_layer *layer)
{
    return strcmp(layer->kind, "multi_token") == 0;
}

bool graph_layer_predicts_further(const struct graph *graph, int layer)
{
    return begins_further(&graph->layers[layer]);
}

/* What stands before all blocks is one, each block is, and what stands behind the last of them. */
static int list_spans(const struct graph *graph, struct span *spans)
{
    int count = 0, last = graph->layer_count - 1, first_block = 0;
    while (last >= 0 && graph->layers[last].block < 0)
        last--;
    while (first_block <= last && graph->layers[first_block].block < 0)
        first_block++;
    for (int l = 0; l < graph->layer_count; l++) {
        const struct graph_layer *layer = &graph->layers[l];
        bool ends = l > 0 && (l < first_block || (layer->block >= 0 && layer->block == layer[-1].block) ||
                              l > last + 1 || begins_further(&layer[-1]));
        if (ends)
            spans[count - 1].count++;
        else
            spans[count++] = (struct span){ l, 1 };
    }
    return count;
}

/* span_of: of each layer as it was. */
static bool is_whole(const struct graph *graph, const int *span_of, const struct span *spans, int layer,
                     struct error *err)
{
    const struct graph_layer *reader = &graph->layers[layer];
    for (int i = 0; i < reader->input_count; i++) {
        int from = reader->input_layers[i];
        const struct span *span = &spans[span_of[from]];
        if (span_of[from] != span_of[layer] && from != span->first + span->count - 1)
            return fail(err, "layer %s reads %s, which stands within a block: such blocks cannot be taken whole",
                        reader->name, graph->layers[from].name);
    }
    return true;
}

static bool join_span(struct graph *graph, const struct span *span, const int *span_of, int index,
                      struct graph_layer *out, struct error *err)
{
    const struct graph_layer *first = &graph->layers[span->first], *last = &first[span->count - 1];
    bool keeps_kind = span->count == 1 || begins_further(first) || (first->block < 0 && span->first == 0);
    const char *kind = keeps_kind ? first->kind : first->block >= 0 ? "block" : "head";
    char name[64];
    *out = *first;
    out->segment_count = last->first_segment + last->segment_count - first->first_segment;
    out->output_value = last->output_value;
    out->block = begins_further(first) ? last->block : first->block;
    out->columns = last->columns;
    out->input_count = 0;
    for (int l = span->first; l < span->first + span->count; l++)
        for (int i = 0; i < graph->layers[l].input_count; i++) {
            int from = span_of[graph->layers[l].input_layers[i]], known = 0;
            while (known < out->input_count && out->input_layers[known] != from)
                known++;
            if (from == index || known < out->input_count)
                continue;
            if (out->input_count == MAX_LAYER_INPUTS)
                return fail(err, "layer %s: a block that reads more than %d others cannot be taken whole", first->name,
                            MAX_LAYER_INPUTS);
            out->input_layers[out->input_count++] = from;
        }
    for (int s = out->first_segment; s < out->first_segment + out->segment_count; s++)
        graph->segments[s].layer = index;
    snprintf(name, sizeof name, "%d.%s", index, kind);
    out->kind = kind;
    out->name = arena_strdup(&graph->arena, name);
    return out->name || fail_memory(err);
}

/* Two spans are alike whose layers are, one by one. Classes are numbered as they are met. */
static void number_classes(struct graph *graph, const struct graph_layer *was, const struct span *spans, int count)
{
    graph->class_count = 0;
    for (int i = 0; i < count; i++) {
        int like = 0;
        for (bool same = false; like < i; like++) {
            same = spans[like].count == spans[i].count;
            for (int k = 0; same && k < spans[i].count; k++)
                same = was[spans[like].first + k].class_index == was[spans[i].first + k].class_index;
            if (same)
                break;
        }
        graph->layers[i].class_index = like < i ? graph->layers[like].class_index : graph->class_count++;
    }
}

bool graph_join_blocks(struct graph *graph, struct error *err)
{
    size_t layers = (size_t)graph->layer_count;
    struct span *spans = arena_alloc(&graph->arena, layers, sizeof *spans);
    int *span_of = arena_alloc(&graph->arena, layers, sizeof *span_of);
    struct graph_layer *joined = arena_alloc(&graph->arena, layers, sizeof *joined), *was = graph->layers;
    if (!spans || !span_of || !joined)
        return fail_memory(err);
    int count = list_spans(graph, spans);
    for (int i = 0; i < count; i++)
        for (int l = spans[i].first; l < spans[i].first + spans[i].count; l++)
            span_of[l] = i;
    for (int l = 0; l < graph->layer_count; l++)
        if (!is_whole(graph, span_of, spans, l, err))
            return false;
    for (int i = 0; i < count; i++)
        if (!join_span(graph, &spans[i], span_of, i, &joined[i], err))
            return false;
    graph->layers = joined;
    graph->layer_count = count;
    number_classes(graph, was, spans, count);
    return true;
}
