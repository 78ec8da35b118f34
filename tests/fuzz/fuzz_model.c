/* Any bytes: model_read accepts or refuses, never crashes; what it accepts is written and read again as the same model,
 * and unfolds or says why not. */
#include "models/model.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check_round_trip(const struct model *model)
{
    size_t length, again;
    struct error err = { 0 };
    struct model *copy = NULL;
    char *text = model_write(model, &length);
    must(text != NULL);
    must(model_read(&copy, "copy", text, length, NULL, &err));
    char *second = model_write(copy, &again);
    must(second && again == length && memcmp(text, second, length) == 0 && copy->hash == model->hash);
    free(second);
    free(text);
    model_free(copy);
}

static void check_graph(const struct model *model)
{
    struct graph *graph = NULL;
    struct error err = { 0 };
    if (!graph_build(&graph, model, 1, 0, 128, &err)) {
        must(!graph && err.kind == ERROR_INPUT && err.message[0] != '\0');
        return;
    }
    must(graph->layer_count == model_unfolded_count(model) && graph_parameter_count(graph) >= 0);
    for (int i = 0; i < graph->segment_count; i++) {
        const struct segment *segment = &graph->segments[i];
        char name[WORK_NAME_BYTES];
        int64_t extents[MAX_AXES];
        for (int axis = 0; axis < MAX_AXES; axis++)
            extents[axis] = segment->axes[axis].size;
        for (int phase = 0; phase < PHASE_COUNT; phase++) {
            int64_t flops = segment_flops(segment, (enum phase)phase, extents);
            must(flops >= 0 && flops < INT64_MAX);
            segment_work_name(segment, (enum phase)phase, extents, name);
            must(strlen(name) + 1 < WORK_NAME_BYTES);
        }
    }
    graph_free(graph);
}

/* The same bytes as the adapters beside a file, whose frozen matrices are stored in few bits, and with the blocks that
 * it may name for further tokens. */
static void check_ways(const uint8_t *data, size_t size)
{
    static const char llama[] = "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":128,"
                                "\"max_position_embeddings\":32,\"num_attention_heads\":4,\"num_hidden_layers\":2,"
                                "\"vocab_size\":256}";
    struct model_reading beside = { .adapter = (const char *)data,
                                    .adapter_length = size,
                                    .adapter_name = "adapter",
                                    .quantized = 1 + (int)(size % QUANTIZED_COUNT),
                                    .quantizes_experts = size % 2 };
    struct model_reading further = { .multi_token = true, .quantized = (int)(size % (QUANTIZED_COUNT + 1)) };
    struct model *model = NULL;
    struct error err = { 0 };
    if (!model_read_as(&model, "fuzz", llama, sizeof llama - 1, &beside, &err))
        must(!model && err.kind == ERROR_INPUT && strncmp(err.message, "adapter", 7) == 0);
    model_free(model);
    model = NULL;
    if (!model_read_as(&model, "fuzz", (const char *)data, size, &further, &err)) {
        must(!model && err.message[0] != '\0');
        return;
    }
    check_round_trip(model);
    model_free(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct model *model = NULL;
    struct error err = { 0 };
    check_ways(data, size);
    if (!model_read(&model, "fuzz", (const char *)data, size, NULL, &err)) {
        must(!model && err.kind == ERROR_INPUT && err.message[0] != '\0');
        return 0;
    }
    check_round_trip(model);
    check_graph(model);
    model_free(model);
    return 0;
}
