/* Layers that carry a state along the sequence: their parameters are those of the public modules, their work is what
 * the papers count, and how they are shared out follows from their axes. */
#include "models/kinds/layers.h"
#include "planner/plan/dim.h"
#include "planner/space/space.h"
#include "tests/model_files.h"

#define HEAD(hidden, vocabulary, tied)                                                                                 \
    "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"m\", \"sequence\": 2048, \"hidden\": " hidden          \
    ", \"vocab_size\": " vocabulary ", \"tied_embedding\": " tied ", \"layers\": [{\"kind\": \"embedding\"}, "
#define TAIL ", {\"kind\": \"head\", \"norm\": \"rms_norm\"}, {\"kind\": \"loss\"}]}"
#define MAMBA                                                                                                          \
    HEAD("768", "50280", "true")                                                                                       \
    "{\"repeat\": 24, \"layers\": [{\"kind\": \"state_space\", \"version\": 1, \"inner\": 1536, \"state\": 16, "       \
    "\"rank\": 48, \"norm\": \"rms_norm\"}]}" TAIL
#define MAMBA2                                                                                                         \
    HEAD("768", "50288", "true")                                                                                       \
    "{\"repeat\": 24, \"layers\": [{\"kind\": \"state_space\", \"version\": 2, \"inner\": 1536, \"state\": 128, "      \
    "\"heads\": 24, \"norm\": \"rms_norm\"}]}" TAIL
#define NEMOTRON_LAYER                                                                                                 \
    HEAD("8192", "1024", "false")                                                                                      \
    "{\"kind\": \"state_space\", \"version\": 2, \"inner\": 16384, \"state\": 256, \"heads\": 256, \"groups\": 8, "    \
    "\"norm_groups\": 8, \"chunk\": 128, \"norm\": \"rms_norm\"}" TAIL
#define QWEN_LAYER                                                                                                     \
    HEAD("2048", "1024", "false")                                                                                      \
    "{\"kind\": \"linear_attention\", \"heads\": 32, \"key_heads\": 16, \"key_dim\": 128, \"value_dim\": 128, "        \
    "\"norm\": \"rms_norm\"}" TAIL

#define KIMI_LAYER                                                                                                     \
    HEAD("2304", "1024", "false")                                                                                      \
    "{\"kind\": \"linear_attention\", \"heads\": 32, \"key_heads\": 32, \"key_dim\": 128, \"value_dim\": 128, "        \
    "\"gate_rank\": 128, \"decay_rank\": 128, \"norm\": \"rms_norm\"}" TAIL

static struct graph *graph_of_text(const char *text, int batch)
{
    struct model *model = model_of_text(text);
    struct graph *graph;
    struct error err = { 0 };
    ck_assert_msg(graph_build(&graph, model, batch, 0, 1, &err), "%s", err.message);
    model_free(model);
    return graph;
}

static int64_t parameters_of_layer(const struct graph *graph, const char *prefix)
{
    int64_t sum = 0;
    for (int i = 0; i < graph->weight_count; i++)
        sum += strncmp(graph->weights[i].name, prefix, strlen(prefix)) == 0 ? weight_elements(&graph->weights[i]) : 0;
    return sum;
}

/* mamba-130m and mamba2-130m as published; a layer of Nemotron-H and of Qwen3-Next by the sizes of their modules. */
START_TEST(parameters_are_those_of_the_modules)
{
    static const struct {
        const char *text;
        int64_t parameters;
    } published[] = { { MAMBA, 129135360 }, { MAMBA2, 128989632 } };
    for (int i = 0; i < 2; i++) {
        struct graph *graph = graph_of_text(published[i].text, 1);
        ck_assert_int_eq(graph_parameter_count(graph), published[i].parameters);
        graph_free(graph);
    }
    const int64_t inner = 16384, hidden = 8192, filtered = inner + 2 * 8 * 256, heads = 256;
    struct graph *nemotron = graph_of_text(NEMOTRON_LAYER, 1);
    ck_assert_int_eq(parameters_of_layer(nemotron, "1.state_space."),
                     hidden + hidden * (inner + filtered + heads) + 5 * filtered + 3 * heads + inner + inner * hidden);
    graph_free(nemotron);
    const int64_t keys = 16 * 128, values = 32 * 128;
    struct graph *qwen = graph_of_text(QWEN_LAYER, 1);
    ck_assert_int_eq(parameters_of_layer(qwen, "1.linear_attention."), 2048 + 2048 * (2 * keys + 2 * values + 2 * 32) +
                                                                           4 * (2 * keys + values) + 2 * 32 + 128 +
                                                                           values * 2048);
    graph_free(qwen);
    const int64_t width = 2304, all = 32 * 128, rank = 128; /* Kimi Linear: gate and decays through narrow vectors */
    struct graph *kimi = graph_of_text(KIMI_LAYER, 1);
    ck_assert_int_eq(parameters_of_layer(kimi, "1.linear_attention."), width + 3 * width * all + rank * (width + all) +
                                                                           rank * (width + all + 32) + 4 * 3 * all +
                                                                           32 + all + 128 + all * width);
    graph_free(kimi);
}
END_TEST

static const struct segment *segment_named(const struct graph *graph, const char *name)
{
    for (int i = 0; i < graph->segment_count; i++)
        if (strcmp(graph->segments[i].name, name) == 0)
            return &graph->segments[i];
    ck_abort_msg("no segment %s", name);
    return NULL;
}

static int64_t flops_of(const struct graph *graph, const char *name, enum phase phase, int64_t parts)
{
    const struct segment *segment = segment_named(graph, name);
    int64_t extents[MAX_AXES] = { 0 };
    for (int i = 0; i < segment->axis_count; i++)
        extents[i] =
            segment->axes[i].size / (segment->axes[i].tag == TAG_HEAD || segment->axes[i].tag == TAG_FFN ? parts : 1);
    return segment_flops(segment, phase, extents);
}

START_TEST(work_is_what_the_papers_count)
{
    const int64_t batch = 3, tokens = batch * 2048;
    struct graph *mamba = graph_of_text(MAMBA, (int)batch);
    ck_assert_int_eq(flops_of(mamba, "scan", PHASE_FORWARD, 1), tokens * 1536 * (9 * 16 + 6));
    ck_assert_int_eq(flops_of(mamba, "scan", PHASE_BACKWARD_INPUT, 1), 3 * tokens * 1536 * (9 * 16 + 6));
    ck_assert_int_eq(flops_of(mamba, "scan", PHASE_BACKWARD_WEIGHT, 1), 0);
    graph_free(mamba);
    struct graph *nemotron = graph_of_text(NEMOTRON_LAYER, (int)batch);
    const int64_t chunk = 128, state = 256, width = 64, heads = 256, groups = 8;
    const int64_t chunked = tokens * (groups * 2 * chunk * state + heads * (2 * chunk * width + 4 * state * width));
    ck_assert_int_eq(flops_of(nemotron, "scan", PHASE_FORWARD, 1), chunked);
    ck_assert_int_eq(flops_of(nemotron, "scan", PHASE_FORWARD, 8), chunked / 8);
    graph_free(nemotron);
    struct graph *qwen = graph_of_text(QWEN_LAYER, (int)batch);
    ck_assert_int_eq(flops_of(qwen, "scan", PHASE_FORWARD, 1),
                     tokens * 32 * (64 * (10 * 128 + 64 / 3) + 6 * 128 * 128));
    ck_assert_int_eq(flops_of(qwen, "q_filter", PHASE_FORWARD, 1), tokens * 16 * 128 * (2 * 4 + 5));
    graph_free(qwen);
}
END_TEST

static enum axis_tag split_of(const struct segment *segment, int dimension, int parts)
{
    int64_t left[MAX_AXES];
    for (int i = 0; i < segment->axis_count; i++)
        left[i] = segment->axes[i].size;
    int axis = dimension_axis(dimensions[dimension], segment, parts, left);
    return axis < 0 ? TAG_NONE : segment->axes[axis].tag;
}

/* Heads are shared out, as many as there are groups of the norm; the sequence is not. */
START_TEST(states_are_shared_out_by_heads)
{
    struct graph *graph = graph_of_text(NEMOTRON_LAYER, 8);
    static const char *const names[] = { "in_proj", "filter", "scan", "norm_gated", "proj" };
    for (int i = 0; i < 5; i++) {
        const struct segment *segment = segment_named(graph, names[i]);
        ck_assert_int_eq(split_of(segment, DIM_tp, 8), TAG_HEAD);
    }
    ck_assert_int_eq(split_of(segment_named(graph, "norm_gated"), DIM_tp, 16), TAG_NONE);
    ck_assert_int_eq(split_of(segment_named(graph, "scan"), DIM_cp_ulysses, 4), TAG_HEAD);
    ck_assert(legal_tensor(graph, 8));
    ck_assert(!legal_context(graph, &(struct mesh){ .atom_count = 1, .size = { 2 }, .dim = { DIM_cp_ring } }));
    ck_assert(legal_context(graph, &(struct mesh){ .atom_count = 1, .size = { 2 }, .dim = { DIM_cp_ulysses } }));
    graph_free(graph);
}
END_TEST

START_TEST(contradictions_are_refused)
{
#define LAYER(text)                                                                                                    \
    "{\"format\":\"cleave-model\",\"version\":1,\"name\":\"m\",\"sequence\":8,\"hidden\":16,\"vocab_size\":9,"         \
    "\"layers\":[{\"kind\":\"embedding\"},{\"kind\":\"state_space\",\"norm\":\"none\"," text "}" TAIL
    check_refused(LAYER("\"version\":2,\"inner\":32,\"state\":4,\"heads\":@5"),
                  "layers[1].heads: expected a divisor of inner (32), found 5");
    check_refused(LAYER("\"version\":2,\"inner\":32,\"state\":4,\"heads\":8,\"groups\":@3"),
                  "layers[1].groups: expected a divisor of heads (8), found 3");
    check_refused(LAYER("\"version\":1,\"inner\":32,\"state\":4,\"heads\":@8"), "layers[1].heads: expected none");
    check_refused(LAYER("\"version\":2,\"inner\":32,\"state\":4,\"heads\":8,\"rank\":@2"),
                  "layers[1].rank: expected none in version 2");
#undef LAYER
}
END_TEST

static Suite *scans_suite(void)
{
    Suite *suite = suite_create("scans");
    CHECK_ADD(suite, parameters_are_those_of_the_modules);
    CHECK_ADD(suite, work_is_what_the_papers_count);
    CHECK_ADD(suite, states_are_shared_out_by_heads);
    CHECK_ADD(suite, contradictions_are_refused);
    return suite;
}

CHECK_MAIN(scans_suite)
