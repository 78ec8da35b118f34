/* The kinds, the zoo and the graph. */
#include "models/builder.h"
#include "models/kinds/layers.h"
#include "models/layer_kind.h"
#include "models/optimizer.h"
#include "tests/model_files.h"
#include "tests/zoo_models.h"

START_TEST(zoo_parameters_are_the_published_counts)
{
    for (int i = 0; i < ZOO; i++) {
        struct model *model = model_of_zoo(zoo[i].name);
        ck_assert_str_eq(model->name, zoo[i].name);
        ck_assert_int_eq(model->tied_embedding, zoo[i].tied);
        for (int64_t multiple = 1; multiple <= 1024; multiple *= 1024) {
            struct graph *graph = graph_of(model, 1, 0, multiple);
            ck_assert_msg(graph_parameter_count(graph) == zoo[i].parameters, "%s: %lld parameters, expected %lld",
                          zoo[i].name, (long long)graph_parameter_count(graph), (long long)zoo[i].parameters);
            ck_assert_int_eq(graph_trainable_count(graph), zoo[i].trainable ? zoo[i].trainable : zoo[i].parameters);
            ck_assert_int_eq(graph->vocab_padded % multiple, 0);
            graph_free(graph);
        }
        model_free(model);
    }
}
END_TEST

START_TEST(padding_is_seen_by_sizes_only)
{
    struct model *model = model_of_zoo("gpt2");
    struct graph *graph = graph_of(model, 2, 0, 128);
    ck_assert_int_eq(graph->vocab_padded, 50304);
    ck_assert_int_eq(graph->weights[0].size[0], 50304);
    ck_assert_int_eq(graph->weights[0].valid_rows, 50257);
    int bounded = 0;
    for (int i = 0; i < graph->segment_count; i++)
        if (graph->segments[i].arguments.valid) {
            ck_assert_int_eq(graph->segments[i].arguments.valid, 50257);
            bounded++;
        }
    ck_assert_int_eq(bounded, 3); /* max, sum_exp, pick */
    for (int i = 1; i < graph->weight_count; i++)
        ck_assert_int_eq(graph->weights[i].valid_rows, graph->weights[i].size[0]);
    graph_free(graph);
    model_free(model);
}
END_TEST

/* ---- classes ---- */

START_TEST(blocks_are_of_two_classes)
{
    struct model *model = model_of_zoo("gpt2");
    struct graph *graph = graph_of(model, 1, 0, 1);
    ck_assert_int_eq(graph->class_count, 5);
    for (int i = 1; i <= 24; i++)
        ck_assert_int_eq(graph->layers[i].class_index, i % 2 ? 1 : 2);
    graph_free(graph);
    model_free(model);
}
END_TEST

START_TEST(a_class_is_kind_fields_and_entry)
{
    struct model *model = model_of_text(BODY(ATTENTION() "," ATTENTION(",\"name\":\"other\"") "," ATTENTION(
        ",\"kv_heads\":2") "," ATTENTION(",\"kv_heads\":4,\"comment\":\"the default, said\"")));
    struct graph *graph = graph_of(model, 1, 0, 1);
    ck_assert_int_eq(graph->layers[1].class_index, graph->layers[2].class_index);
    ck_assert_int_ne(graph->layers[1].class_index, graph->layers[3].class_index);
    ck_assert_int_eq(graph->layers[1].class_index, graph->layers[4].class_index);
    graph_free(graph);
    model_free(model);
    /* Below the first trainable weight no input gradient is wanted: the same layer does less. */
    model = model_of_text(
        MODEL("{\"kind\":\"embedding\",\"frozen\":true}," ATTENTION() "," ATTENTION() ",{\"kind\":\"head\",\"norm\":"
                                                                                      "\"none\"},{\"kind\":\"loss\"}"));
    graph = graph_of(model, 1, 0, 1);
    ck_assert_int_ne(graph->layers[1].class_index, graph->layers[2].class_index);
    graph_free(graph);
    model_free(model);
}
END_TEST

/* ---- gradients ---- */

/* The definition, walked backwards anew for each value. */
static bool needs_twin(const struct graph *graph, int value)
{
    int producer = graph->values[value].producer;
    if (producer < 0 || !graph->values[value].differentiable)
        return false;
    const struct segment *segment = &graph->segments[producer];
    for (int i = 0; i < segment->weight_count; i++)
        if (!graph->weights[segment->weight[i].id].frozen)
            return true;
    for (int i = 0; i < segment->in_count; i++)
        if (needs_twin(graph, segment->in[i].id))
            return true;
    return false;
}

START_TEST(gradients_are_needed_above_the_first_trainable_weight)
{
    static const char *const texts[] = {
        MODEL("{\"kind\":\"embedding\",\"frozen\":true},{\"kind\":\"attention\",\"heads\":4,\"norm\":\"rms_norm\","
              "\"frozen\":true},"
              "{\"kind\":\"mlp\",\"inner\":8,\"activation\":\"swiglu\",\"norm\":\"layer_norm\"},{\"kind\":\"head\","
              "\"norm\":\"none\","
              "\"frozen\":true},{\"kind\":\"loss\"}"),
        BODY(ATTENTION() ",{\"kind\":\"mlp\",\"inner\":8,\"activation\":\"gelu\",\"norm\":\"layer_norm\",\"bias\":"
                         "true}"),
    };
    for (int t = 0; t < 2; t++) {
        struct model *model = model_of_text(texts[t]);
        struct graph *graph = graph_of(model, 1, 0, 1);
        int needed = 0;
        for (int i = 0; i < graph->value_count; i++) {
            ck_assert_int_eq(graph_needs_gradient(graph, i), needs_twin(graph, i));
            needed += graph_needs_gradient(graph, i);
        }
        ck_assert_int_gt(needed, 5);
        ck_assert_int_eq(graph_needs_gradient(graph, graph->layers[1].output_value), t == 1);
        ck_assert(graph_needs_gradient(graph, graph->loss_value));
        ck_assert(!graph_needs_gradient(graph, graph->tokens_value));
        graph_free(graph);
        model_free(model);
    }
}
END_TEST

START_TEST(frozen_weights_are_counted_apart)
{
    struct model *model = model_of_text(
        MODEL("{\"kind\":\"embedding\",\"frozen\":true}," ATTENTION() ",{\"kind\":\"head\",\"norm\":\"none\","
                                                                      "\"frozen\":true},{\"kind\":\"loss\"}"));
    struct graph *graph = graph_of(model, 1, 0, 1);
    ck_assert_int_eq(graph_trainable_count(graph), 16 + 4 * 16 * 16);
    ck_assert_int_eq(graph_parameter_count(graph), 16 + 4 * 16 * 16 + 2 * 10 * 16);
    graph_free(graph);
    model_free(model);
}
END_TEST

/* ---- work ---- */

static int64_t sum_flops(const struct graph *graph, enum kernel kernel, enum phase phase)
{
    int64_t sum = 0;
    for (int i = 0; i < graph->segment_count; i++) {
        int64_t extents[MAX_AXES];
        whole(&graph->segments[i], extents);
        if (graph->segments[i].kernel == kernel)
            sum += segment_flops(&graph->segments[i], phase, extents);
    }
    return sum;
}

START_TEST(gpt2_flops_have_a_closed_form)
{
    struct model *model = model_of_zoo("gpt2");
    const int64_t b = 3, t = 1024, h = 768, v = 50257, n = 12;
    struct graph *graph = graph_of(model, b, 0, 1);
    int64_t matrices = n * (4 * h * h + 8 * h * h) + h * v, forward = sum_flops(graph, KERNEL_MATMUL, PHASE_FORWARD);
    ck_assert_int_eq(forward, 2 * b * t * matrices);
    ck_assert_int_eq(sum_flops(graph, KERNEL_MATMUL, PHASE_BACKWARD_INPUT), forward);
    ck_assert_int_eq(sum_flops(graph, KERNEL_MATMUL, PHASE_BACKWARD_WEIGHT), forward);
    /* The usual 2 N per token (Kaplan et al. 2020, section 2.1), off by positions, norms and biases only. */
    CHECK_NEAR((double)forward / (double)(b * t) / (2.0 * (double)graph_parameter_count(graph)), 1, 0.01);
    int64_t core = n * b * h * t * (t + 1) / 2 * 4;
    ck_assert_int_eq(sum_flops(graph, KERNEL_ATTENTION, PHASE_FORWARD), core);
    ck_assert_int_eq(sum_flops(graph, KERNEL_ATTENTION, PHASE_BACKWARD_INPUT), core / 4 * 10);
    ck_assert_int_eq(sum_flops(graph, KERNEL_ATTENTION, PHASE_BACKWARD_WEIGHT), 0);
    for (int kernel = 0; kernel < KERNEL_COUNT; kernel++)
        ck_assert_int_eq(sum_flops(graph, (enum kernel)kernel, PHASE_STEP), 0);
    graph_free(graph);
    model_free(model);
}
END_TEST

/* Each token multiplies with the router and with its experts' matrices, those that all pass included, once: what empty
 * slots would cost is not counted where they are skipped. */
START_TEST(experts_cost_what_is_chosen)
{
    const int64_t b = 3, t = 4096, h = 2048, inner = 1408, experts = 64, choices = 6, shared = 2816;
    struct model *model = model_of_zoo("deepseek-moe-16b");
    struct graph *graph = graph_of(model, b, 0, 1);
    int64_t sum[PHASE_COUNT] = { 0 }, extents[MAX_AXES];
    const struct graph_layer *layer = &graph->layers[4];
    ck_assert_str_eq(layer->kind, "moe");
    for (int i = 0; i < layer->segment_count; i++) {
        const struct segment *s = &graph->segments[layer->first_segment + i];
        whole(s, extents);
        for (int phase = 0; phase < PHASE_COUNT && s->kernel == KERNEL_MATMUL; phase++)
            sum[phase] += segment_flops(s, (enum phase)phase, extents);
    }
    int64_t each = 2 * b * t * h * (experts + choices * 3 * inner + 3 * shared);
    for (int phase = 0; phase < PHASE_STEP; phase++)
        CHECK_NEAR((double)sum[phase] / (double)each, 1, 1e-9);
    graph_free(graph);
    model_free(model);
}
END_TEST

/* Slots for the mean number of choices times the factor, never more than a group has tokens. */
START_TEST(slots_follow_the_capacity_factor)
{
    static const struct {
        int experts, choices, group;
        double factor;
        int64_t slots;
    } cases[] = { { 8, 2, 32, 1, 8 }, { 8, 2, 32, 1.25, 10 }, { 8, 2, 16, 1.3, 6 }, { 8, 2, 32, 100, 32 },
                  { 64, 1, 8, 1, 1 }, { 7, 3, 28, 1, 12 },    { 3, 3, 4, 0.25, 1 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        snprintf(
            text, sizeof text,
            "{\"format\":\"cleave-model\",\"version\":1,\"name\":\"m\",\"sequence\":%d,\"hidden\":8,\"vocab_size\":9,"
            "\"layers\":[{\"kind\":\"embedding\"},{\"kind\":\"moe\",\"experts\":%d,\"choices\":%d,\"inner\":5,"
            "\"group\":%d,\"capacity_factor\":%g,\"activation\":\"gelu\",\"norm\":\"none\"},{\"kind\":\"head\","
            "\"norm\":\"none\"},{\"kind\":\"loss\"}]}",
            2 * cases[i].group, cases[i].experts, cases[i].choices, cases[i].group, cases[i].factor);
        struct model *model = model_of_text(text);
        struct graph *graph = graph_of(model, 5, 0, 1);
        for (int v = 0; v < graph->value_count; v++)
            if (strcmp(graph->values[v].name, "1.moe.dispatch") == 0) {
                const int64_t *size = graph->values[v].size;
                ck_assert_int_eq(size[0], cases[i].experts);
                ck_assert_int_eq(size[1], 5);
                ck_assert_int_eq(size[2], 2);
                ck_assert_int_eq(size[3], cases[i].slots);
            }
        graph_free(graph);
        struct error err = {
            0
        }; /* three halves of the described sequence are whole groups, one half of a group is not */
        ck_assert(graph_build(&graph, model, 5, 3 * cases[i].group, 1, &err));
        graph_free(graph);
        ck_assert(cases[i].group == 1 || !graph_build(&graph, model, 5, cases[i].group / 2, 1, &err));
        ck_assert(err.kind == ERROR_INPUT && strstr(err.message, "expected a sequence of whole groups of"));
        model_free(model);
    }
}
END_TEST

START_TEST(too_many_slots_are_refused)
{
    struct model *model = model_of_zoo("deepseek-moe-16b");
    struct graph *graph = NULL;
    struct error err = { 0 };
    ck_assert(!graph_build(&graph, model, 1, INT64_C(1) << 28, 1, &err));
    ck_assert_int_eq(err.kind, ERROR_INPUT);
    ck_assert_msg(strstr(err.message, "layer 4.moe: expected at most 2147483647 slots for a group") != NULL, "%s",
                  err.message);
    model_free(model);
}
END_TEST

START_TEST(initial_values_follow_the_paper)
{
    struct model *model = model_of_zoo("gpt2");
    struct graph *graph = graph_of(model, 1, 0, 1);
    int scaled = 0;
    for (int i = 0; i < graph->weight_count; i++) {
        const struct weight *weight = &graph->weights[i];
        bool gain = strstr(weight->name, "_gain") != NULL, bias = strstr(weight->name, "_bias") != NULL;
        ck_assert_int_eq(weight->init, gain ? INIT_ONE : bias ? INIT_ZERO : INIT_NORMAL);
        ck_assert_int_eq(weight->decay, !gain && !bias);
        bool ends = strstr(weight->name, ".proj") || strstr(weight->name, ".down");
        CHECK_NEAR(weight->init_std, gain || bias ? 0 : ends ? 0.02 / sqrt(24) : 0.02, 1e-15);
        scaled += ends;
    }
    ck_assert_int_eq(scaled, 24);
    graph_free(graph);
    model_free(model);
}
END_TEST

START_TEST(bytes_per_element)
{
    static const int want[DTYPE_COUNT][4] = { { 4, 4, 8, 4 },  { 8, 8, 16, 8 }, { 2, 4, 12, 2 },
                                              { 2, 4, 12, 2 }, { 2, 4, 12, 2 }, { 2, 4, 12, 2 } };
    for (int i = 0; i < DTYPE_COUNT; i++) {
        enum dtype dtype = (enum dtype)i;
        ck_assert_int_eq(weight_bytes_per_element(dtype), want[i][0]);
        ck_assert_int_eq(gradient_bytes_per_element(dtype), want[i][1]);
        ck_assert_int_eq(optimizer_bytes_per_element(&(struct optimizer){ 0 }, dtype, NULL), want[i][2]);
        ck_assert_int_eq(element_bytes(dtype, ELEMENT_ACTIVATION), want[i][3]);
        ck_assert_int_eq(element_bytes(dtype, ELEMENT_STATISTIC), dtype == DTYPE_FP64 ? 8 : 4);
        ck_assert_int_eq(element_bytes(dtype, ELEMENT_INDEX), 4);
    }
    ck_assert_ptr_null(dtype_names[DTYPE_COUNT]);
    /* Published bytes of a parameter: with its moments, a copy in 32 bit and its gradient 16 (Rajbhandari et al. 2020,
     * section 3.1); of moments alone 8 with Adam and 4 with momentum, in 8 bit 2 and 1 (Dettmers et al. 2022, section
     * 1), with scales of 4 bytes for 256 of them. */
    static const struct {
        struct optimizer optimizer;
        int64_t all, state; /* of 256 parameters under bf16 */
    } published[] = {
        { { .gradients = GRADIENTS_BF16 }, 256 * 16, 256 * 12 },
        { { .master = MASTER_NONE, .moments = MOMENTS_BF16, .gradients = GRADIENTS_BF16 }, 256 * 8, 256 * 4 },
        { { .master = MASTER_NONE }, 256 * (2 + 4 + 8), 256 * 8 },
        { { .master = MASTER_NONE, .rule = OPTIMIZER_MOMENTUM }, 256 * (2 + 4 + 4), 256 * 4 },
        { { .master = MASTER_NONE, .moments = MOMENTS_EIGHT }, 256 * (2 + 4 + 2) + 8, 256 * 2 + 8 },
        { { .master = MASTER_NONE, .moments = MOMENTS_EIGHT, .rule = OPTIMIZER_MOMENTUM }, 256 * 7 + 4, 256 + 4 },
        { { .master = MASTER_NONE, .rule = OPTIMIZER_SGD }, 256 * 6, 0 },
        { { .master = MASTER_REMAINDER, .moments = MOMENTS_FP8 }, 256 * (2 + 4 + 4), 256 * 4 },
    };
    const struct graph plain = { .batch = 1 };
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        const struct optimizer *o = &published[i].optimizer;
        const char *key;
        struct error err = { 0 };
        ck_assert_msg(optimizer_check(&key, o, DTYPE_BF16, &err), "%s", err.message);
        int64_t state = optimizer_state_bytes(o, DTYPE_BF16, NULL, 256);
        ck_assert_int_eq(state, published[i].state);
        ck_assert_int_eq(256 * (2 + optimizer_gradient_bytes(o, plain.keeping.narrow_gradients, DTYPE_BF16)) + state,
                         published[i].all);
    }
    ck_assert_int_eq(optimizer_state_bytes(&published[4].optimizer, DTYPE_BF16, NULL, 257), 257 * 2 + 2 * 2 * 4);
    ck_assert_ptr_null(phase_names[PHASE_COUNT]);
}
END_TEST

static void refuse_graph(const struct model *model, int64_t batch, int64_t sequence, int64_t multiple, const char *part)
{
    struct error err = { 0 };
    struct graph *graph = NULL;
    ck_assert(!graph_build(&graph, model, batch, sequence, multiple, &err));
    ck_assert_ptr_null(graph);
    ck_assert_int_eq(err.kind, ERROR_INPUT);
    ck_assert_msg(strstr(err.message, part) != NULL, "%s lacks \"%s\"", err.message, part);
}

START_TEST(graphs_beyond_63_bits_are_refused)
{
    struct model *model = model_of_zoo("gpt2");
    refuse_graph(model, 0, 0, 1, "batch: expected");
    refuse_graph(model, 1, -1, 1, "sequence: expected");
    refuse_graph(model, 1, 0, 0, "vocabulary multiple: expected");
    refuse_graph(model, 1, 1025, 1, "layer 0.embedding: a sequence of 1025 tokens exceeds its 1024 learned positions");
    refuse_graph(model, INT64_C(1) << 40, 0, 1, "63 bits");
    refuse_graph(model, INT64_C(1) << 31, 0, 1, "the operations of segment");
    refuse_graph(model, 1, 0, INT64_C(1) << 40, "63 bits");
    model_free(model);
}
END_TEST

START_TEST(a_shorter_sequence_keeps_the_table)
{
    struct model *model = model_of_zoo("gpt2");
    struct graph *graph = graph_of(model, 1, 128, 1);
    ck_assert_int_eq(graph->sequence, 128);
    ck_assert_int_eq(graph_parameter_count(graph), 124439808);
    const struct segment *add = &graph->segments[1];
    ck_assert_int_eq(add->kernel, KERNEL_ADD_POSITION);
    ck_assert_int_eq(graph->weights[add->weight[0].id].size[0], 1024);
    ck_assert_int_eq(add->weight[0].axis[0], -1);
    graph_free(graph);
    model_free(model);
}
END_TEST

/* After a failure it hands out harmless ids, and the failure is known at the end. */
START_TEST(the_builder_survives_short_memory)
{
    struct model *model = model_of_zoo("tiny-llama");
    int failures = 0;
    for (int64_t allowed = 1;; allowed++) {
        struct error err = { 0 };
        struct graph *graph = calloc(1, sizeof *graph);
        ck_assert_ptr_nonnull(graph);
        graph->arena.fail_after = allowed;
        graph->vocab_size = graph->vocab_padded = 256;
        struct graph_builder builder = { .graph = graph, .prefix = "layer", .table = -1, .err = &err };
        for (const char *letter = "btshv1"; *letter; letter++)
            builder_size(&builder, *letter, 64);
        builder_input(&builder, "entry", "bth", ELEMENT_ACTIVATION);
        for (int i = 1; i <= 4 && !builder.failed; i++) {
            const struct layer *layer = model_unfolded_layer(model, i);
            layer->kind->build(&builder, model, layer->fields, &err);
        }
        bool done = !builder.failed;
        ck_assert_int_eq(err.kind, done ? ERROR_NONE : ERROR_ENVIRONMENT);
        ck_assert_int_le(graph->segment_count, 30);
        graph_free(graph);
        if (done)
            break;
        failures++;
    }
    ck_assert_int_ge(failures, 30);
    model_free(model);
}
END_TEST

/* DeepSeek-V3 has 671,026,419,200 parameters with the routers' biases, 58 x 256, that nothing here has. Kimi K2 has
 * 1,026,408,232,448 with 60 x 384. */
START_TEST(latent_attention_has_the_published_size)
{
    static const struct {
        int heads, dense, routed, experts;
        int64_t vocab, parameters;
    } published[] = { { 128, 3, 58, 256, 129280, 671026419200 - 58 * 256 },
                      { 64, 1, 60, 384, 163840, 1026408232448 - 60 * 384 } };
    for (int i = 0; i < 2; i++) {
        char text[4096], attention[512];
        struct model *model;
        struct graph *graph;
        struct error err = { 0 };
        snprintf(
            attention, sizeof attention,
            "{\"kind\": \"latent_attention\", \"heads\": %d, \"query_rank\": 1536, \"kv_rank\": 512, \"plain_dim\": "
            "128, \"rope_dim\": 64, \"value_dim\": 128, \"norm\": \"rms_norm\"}",
            published[i].heads);
        snprintf(text, sizeof text,
                 "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"latent\", \"sequence\": 4096, \"hidden\": "
                 "7168, "
                 "\"vocab_size\": %lld, \"tied_embedding\": false, \"layers\": [{\"kind\": \"embedding\"}, "
                 "{\"repeat\": %d, \"layers\": [%s, {\"kind\": \"mlp\", \"inner\": 18432, \"activation\": \"swiglu\", "
                 "\"norm\": \"rms_norm\"}]}, {\"repeat\": %d, \"layers\": [%s, {\"kind\": \"moe\", \"experts\": %d, "
                 "\"choices\": 8, \"inner\": 2048, \"shared_inner\": 2048, \"activation\": \"swiglu\", "
                 "\"capacity_factor\": 1, "
                 "\"norm\": \"rms_norm\"}]}, {\"kind\": \"head\", \"norm\": \"rms_norm\"}, {\"kind\": \"loss\"}]}",
                 (long long)published[i].vocab, published[i].dense, attention, published[i].routed, attention,
                 published[i].experts);
        ck_assert_msg(model_read(&model, "latent", text, strlen(text), NULL, &err), "%s", err.message);
        ck_assert_msg(graph_build(&graph, model, 1, 0, 1, &err), "%s", err.message);
        ck_assert_int_eq(graph_parameter_count(graph), published[i].parameters);
        graph_free(graph);
        model_free(model);
    }
}
END_TEST

/* The dense first block of a model whose others have experts is a block as they are; who has no repeat has none. */
START_TEST(a_block_beside_repeats_is_one)
{
    static const char *const zoo_names[] = { "deepseek-moe-16b", "llama-3-8b", "vgg-16" };
    static const int blocks[] = { 28, 32, 0 };
    for (int i = 0; i < 3; i++) {
        struct model *model = model_of_zoo(zoo_names[i]);
        struct graph *graph = graph_of(model, 1, 0, 1);
        int count = 0;
        for (int l = 0; l < graph->layer_count; l++)
            count += graph->layers[l].block >= 0 && (l == 0 || graph->layers[l - 1].block != graph->layers[l].block);
        ck_assert_int_eq(count, blocks[i]);
        graph_free(graph);
        if (count > 0) { /* beside them the embedding, and the head with its loss */
            model->whole_blocks = true;
            graph = graph_of(model, 1, 0, 1);
            ck_assert_int_eq(graph->layer_count, count + 2);
            graph_free(graph);
        }
        model_free(model);
    }
}
END_TEST

/* Blocks of several mixers in one copy: three of a kind and one of another in Qwen3-Next, one among seven in Jamba. A
 * decoder's attention to its encoder stands within a block, and so does one mixer beside another (Falcon-H1). */
START_TEST(each_mixer_begins_a_block)
{
#define NORM "\"norm\": \"rms_norm\"}, "
#define MIX "{\"kind\": \"attention\", \"heads\": 2, " NORM
#define LINEAR                                                                                                         \
    "{\"kind\": \"linear_attention\", \"heads\": 2, \"key_heads\": 2, \"key_dim\": 4, \"value_dim\": 4, " NORM
#define MLP "{\"kind\": \"mlp\", \"inner\": 8, \"activation\": \"gelu\", " NORM
    static const struct {
        const char *copy;
        int blocks; /* of three copies */
    } cases[] = { { LINEAR MLP LINEAR MLP LINEAR MLP MIX MLP, 12 }, { LINEAR MLP MIX MLP LINEAR MLP, 9 },
                  { MIX MLP LINEAR MLP, 6 }, { MIX LINEAR MLP, 3 }, { LINEAR LINEAR MLP, 3 }, { MLP MIX MLP, 6 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[4096];
        struct model *model;
        struct graph *graph;
        struct error err = { 0 };
        int length = snprintf(text, sizeof text,
                              "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"hybrid\", \"sequence\": 8, "
                              "\"hidden\": 8, \"vocab_size\": 50, \"layers\": [{\"kind\": \"embedding\"}, "
                              "{\"repeat\": 3, \"layers\": [%.*s]}, {\"kind\": \"head\", " NORM "{\"kind\": \"loss\"}]}",
                              (int)strlen(cases[i].copy) - 2, cases[i].copy);
        ck_assert_msg(model_read(&model, "hybrid", text, (size_t)length, NULL, &err), "%s", err.message);
        ck_assert_msg(graph_build(&graph, model, 1, 0, 1, &err), "%s", err.message);
        int count = 0;
        for (int l = 1; l < graph->layer_count; l++)
            count += graph->layers[l].block >= 0 && graph->layers[l - 1].block != graph->layers[l].block;
        ck_assert_msg(count == cases[i].blocks, "case %zu: %d blocks, expected %d", i, count, cases[i].blocks);
        graph_free(graph);
        model_free(model);
    }
#undef NORM
#undef MIX
#undef LINEAR
#undef MLP
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("models");
    CHECK_ADD(s, latent_attention_has_the_published_size);
    CHECK_ADD(s, zoo_parameters_are_the_published_counts);
    CHECK_ADD(s, padding_is_seen_by_sizes_only);
    CHECK_ADD(s, blocks_are_of_two_classes);
    CHECK_ADD(s, a_block_beside_repeats_is_one);
    CHECK_ADD(s, each_mixer_begins_a_block);
    CHECK_ADD(s, a_class_is_kind_fields_and_entry);
    CHECK_ADD(s, gradients_are_needed_above_the_first_trainable_weight);
    CHECK_ADD(s, frozen_weights_are_counted_apart);
    CHECK_ADD(s, gpt2_flops_have_a_closed_form);
    CHECK_ADD(s, experts_cost_what_is_chosen);
    CHECK_ADD(s, slots_follow_the_capacity_factor);
    CHECK_ADD(s, too_many_slots_are_refused);
    CHECK_ADD(s, initial_values_follow_the_paper);
    CHECK_ADD(s, bytes_per_element);
    CHECK_ADD(s, graphs_beyond_63_bits_are_refused);
    CHECK_ADD(s, a_shorter_sequence_keeps_the_table);
    CHECK_ADD(s, the_builder_survives_short_memory);
    return s;
}

CHECK_MAIN(suite)
