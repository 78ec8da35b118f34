/* The kinds, the zoo and the graph. */
#include "models/builder.h"
#include "models/kinds/layers.h"
#include "models/layer_kind.h"
#include "tests/model_files.h"

static const struct {
    const char *name;
    int64_t parameters;
    bool tied;
} zoo[] = {
    { "gpt2", 124439808, true },
    { "gpt2-medium", 354823168, true },
    { "gpt2-large", 774030080, true },
    { "gpt2-xl", 1557611200, true },
    { "gpt3-175b", 174604259328, true },
    { "llama-2-7b", 6738415616, false },
    { "llama-2-13b", 13015864320, false },
    { "llama-2-70b", 68976648192, false },
    { "llama-3-8b", 8030261248, false },
    { "llama-3-70b", 70553706496, false },
    { "llama-3-405b", 405853388800, false },
    { "gpt-530b", 529600819200, true },
    { "gpt-1t", 1008038758400, true },
    { "bert-large", 334090240, true },
    { "tiny-gpt", 118528, true },
    { "tiny-llama", 106816, false },
    { "tiny-opaque", 4000000, false },
    { "tiny-encdec", 213760, true },
    { "tiny-uvit", 294016, false },
    { "tiny-towers", 199488, false },
    { "t5-small", 60506624, true },
    { "t5-base", 222903552, true },
    { "t5-large", 737668096, true },
    { "pythia-410m", 405334016, false },
    { "pythia-1.4b", 1414647808, false },
    { "mixtral-8x7b", 46702792704, false },
    { "deepseek-moe-16b", 16375728128, false },
    { "tiny-moe", 279872, false },
};
enum { ZOO = sizeof zoo / sizeof *zoo };

static void whole(const struct segment *segment, int64_t extents[MAX_AXES])
{
    for (int i = 0; i < MAX_AXES; i++)
        extents[i] = segment->axes[i].size;
}

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

/* ---- every operand of every segment ---- */

static void check_dim(const struct segment *segment, enum axis_tag tag, int64_t size, int axis)
{
    if (axis < 0)
        return;
    ck_assert_int_lt(axis, segment->axis_count);
    const struct axis *a = &segment->axes[axis];
    if (kernel_facts[segment->kernel].attends && a->tag == TAG_HEAD && size != a->size)
        ck_assert(size == segment->arguments.kv_heads && a->size % size == 0);
    else if (segment->arguments.group && a->tag == TAG_SEQUENCE && size != a->size)
        ck_assert(size * segment->arguments.group == a->size && a->grain == segment->arguments.group);
    else
        ck_assert_int_eq(size, a->size);
    if (tag != TAG_COUNT) /* weights carry no tags; the columns of a square matrix are split as those of an mlp */
        ck_assert(tag == a->tag || (tag == TAG_SEQUENCE && a->tag == TAG_KEY) ||
                  (tag == TAG_HIDDEN && a->tag == TAG_FFN && segment->kernel == KERNEL_MATMUL));
}

static void check_values(const struct graph *graph, const struct segment *segment, const struct operand *operands,
                         int count)
{
    for (int i = 0; i < count; i++) {
        ck_assert(operands[i].id >= 0 && operands[i].id < graph->value_count);
        const struct value *value = &graph->values[operands[i].id];
        for (int dim = 0; dim < value->dim_count; dim++)
            check_dim(segment, value->tag[dim], value->size[dim], operands[i].axis[dim]);
        for (int dim = value->dim_count; dim < MAX_DIMS; dim++)
            ck_assert_int_eq(operands[i].axis[dim], -1);
    }
}

static void check_weights(const struct graph *graph, const struct segment *segment)
{
    for (int i = 0; i < segment->weight_count; i++) {
        const struct weight *weight = &graph->weights[segment->weight[i].id];
        for (int dim = 0; dim < weight->dim_count; dim++)
            check_dim(segment, TAG_COUNT, weight->size[dim], segment->weight[i].axis[dim]);
    }
}

/* An axis that an output lacks must say how it folds, or stay in one piece. An axis that a fused bias lacks must stay
 * in one piece, or every part would add the bias. */
static void check_folds(const struct graph *graph, const struct segment *segment)
{
    for (int axis = 0; axis < segment->axis_count; axis++) {
        const struct axis *a = &segment->axes[axis];
        ck_assert(a->size >= 1 && a->grain >= 1);
        for (int i = 0; i < segment->out_count; i++) {
            const struct value *value = &graph->values[segment->out[i].id];
            if (operand_dim(&segment->out[i], value->dim_count, axis) < 0)
                ck_assert_msg(a->fold != FOLD_NONE || a->fixed, "%s: axis %d of %s neither folds nor is fixed",
                              value->name, axis, segment->name);
        }
        if (segment->kernel == KERNEL_MATMUL && segment->weight_count == 2 && a->fold != FOLD_NONE)
            ck_assert(a->fixed);
    }
}

static void check_masks(const struct segment *segment)
{
    const struct kernel_facts *facts = &kernel_facts[segment->kernel];
    if (segment->kernel == KERNEL_OPAQUE)
        return;                                                             /* may save nothing and hold no weight */
    int in_most = segment->kernel == KERNEL_MATMUL ? 2 : segment->in_count; /* counts may be absent */
    ck_assert_int_eq((facts->input_reads_in | facts->weight_reads_in) >> in_most, 0);
    ck_assert_int_eq((facts->input_reads_out | facts->weight_reads_out) >> segment->out_count, 0);
    ck_assert_int_eq((facts->input_reads_weight | facts->weight_reads_weight) >> segment->weight_count, 0);
    ck_assert(segment->weight_count == 0 || facts->has_backward_weight);
}

START_TEST(operands_agree_with_axes)
{
    for (int m = 0; m < ZOO; m++) {
        struct model *model = model_of_zoo(zoo[m].name);
        struct graph *graph = graph_of(model, 6, 0, 128);
        for (int i = 0; i < graph->segment_count; i++) {
            const struct segment *segment = &graph->segments[i];
            check_values(graph, segment, segment->in, segment->in_count);
            check_values(graph, segment, segment->out, segment->out_count);
            check_weights(graph, segment);
            check_folds(graph, segment);
            check_masks(segment);
        }
        graph_free(graph);
        model_free(model);
    }
}
END_TEST

START_TEST(values_come_from_one_earlier_segment)
{
    for (int m = 0; m < ZOO; m++) {
        struct model *model = model_of_zoo(zoo[m].name);
        struct graph *graph = graph_of(model, 1, 0, 1);
        int *made = calloc((size_t)graph->value_count, sizeof *made);
        int *used = calloc((size_t)graph->weight_count, sizeof *used);
        for (int i = 0; i < graph->segment_count; i++) {
            const struct segment *segment = &graph->segments[i];
            const struct graph_layer *layer = &graph->layers[segment->layer];
            ck_assert(i >= layer->first_segment && i < layer->first_segment + layer->segment_count);
            for (int k = 0; k < segment->in_count; k++)
                ck_assert(graph->values[segment->in[k].id].input || made[segment->in[k].id] == 1);
            for (int k = 0; k < segment->weight_count; k++)
                used[segment->weight[k].id]++;
            for (int k = 0; k < segment->out_count; k++) {
                made[segment->out[k].id]++;
                ck_assert_int_eq(graph->values[segment->out[k].id].producer, i);
            }
        }
        for (int i = 0; i < graph->value_count; i++)
            ck_assert_int_eq(made[i], graph->values[i].input ? 0 : 1);
        bool t5 = strncmp(zoo[m].name, "t5", 2) == 0,
             shared = t5 || strcmp(zoo[m].name, "tiny-encdec") == 0; /* by both embeddings */
        for (int i = 0; i < graph->weight_count; i++) {
            bool relative = strncmp(graph->weights[i].name, "relative.", 9) == 0; /* by all layers of its stack */
            int stack = (graph->layer_count - 5) / 5;
            ck_assert_int_eq(used[i], relative ? stack : i == 0 ? 1 + model->tied_embedding + shared : 1);
        }
        free(made);
        free(used);
        graph_free(graph);
        model_free(model);
    }
}
END_TEST

START_TEST(names_are_unique)
{
    struct model *model = model_of_zoo("tiny-llama");
    struct graph *graph = graph_of(model, 1, 0, 1);
    for (int i = 0; i < graph->value_count; i++)
        for (int k = 0; k < i; k++)
            ck_assert_str_ne(graph->values[i].name, graph->values[k].name);
    for (int i = 0; i < graph->weight_count; i++)
        for (int k = 0; k < i; k++)
            ck_assert_str_ne(graph->weights[i].name, graph->weights[k].name);
    ck_assert_str_eq(graph->layers[3].name, "3.attention");
    graph_free(graph);
    model_free(model);
}
END_TEST

/* Layers read what leaves earlier ones, each read by somebody; where no layer names its inputs, that is a chain. */
START_TEST(layers_read_earlier_ones)
{
    for (int m = 0; m < ZOO; m++) {
        struct model *model = model_of_zoo(zoo[m].name);
        struct graph *graph = graph_of(model, 1, 0, 1);
        int last = graph->layer_count - 1, *readers = calloc((size_t)graph->layer_count, sizeof *readers), skips = 0;
        ck_assert_int_eq(graph->layers[0].input_count, 0);
        ck_assert_int_eq(graph->layers[last].output_value, -1);
        for (int i = 0; i <= last; i++) {
            ck_assert(i == last || graph->layers[i].output_value >= 0);
            for (int k = 0; k < graph->layers[i].input_count; k++) {
                int from = graph->layers[i].input_layers[k];
                ck_assert_int_lt(from, i);
                skips += from != i - 1;
                readers[from]++;
            }
        }
        for (int i = 0; i < last; i++)
            ck_assert_int_ge(readers[i], 1);
        static const char *const branched[] = { "tiny-encdec", "tiny-uvit", "tiny-towers", "t5-small",
                                                "t5-base",     "t5-large",  "pythia-410m", "pythia-1.4b" };
        bool chain = true;
        for (size_t i = 0; i < sizeof branched / sizeof *branched; i++)
            chain &= strcmp(zoo[m].name, branched[i]) != 0;
        ck_assert_int_eq(skips == 0, chain);
        free(readers);
        ck_assert_int_eq(graph->loss_value < 0, model->opaque);
        graph_free(graph);
        model_free(model);
    }
}
END_TEST

/* Inputs by the segments' operands: what a layer reads from outside itself is what its edges say. */
START_TEST(edges_are_what_segments_read)
{
    for (int m = 0; m < ZOO; m++) {
        struct model *model = model_of_zoo(zoo[m].name);
        struct graph *graph = graph_of(model, 1, 0, 1);
        for (int l = 0; l < graph->layer_count; l++) {
            const struct graph_layer *layer = &graph->layers[l];
            bool read[MAX_LAYER_INPUTS] = { false };
            for (int s = layer->first_segment; s < layer->first_segment + layer->segment_count; s++)
                for (int i = 0; i < graph->segments[s].in_count; i++) {
                    int value = graph->segments[s].in[i].id, edge = -1;
                    const struct value *v = &graph->values[value];
                    if (v->input || graph->segments[v->producer].layer == l)
                        continue;
                    for (int k = 0; k < layer->input_count; k++)
                        if (graph_edge_at(graph, l, k).value == value)
                            edge = k;
                    ck_assert_msg(edge >= 0, "%s reads %s, which is no edge", layer->name, v->name);
                    read[edge] = true;
                }
            for (int k = 0; k < layer->input_count; k++)
                ck_assert(read[k]);
        }
        graph_free(graph);
        model_free(model);
    }
}
END_TEST

/* What crosses a cut, by brute force over all edges. */
START_TEST(a_cut_lists_every_value_once)
{
    static const struct {
        const char *name;
        int widest;
    } expected[] = { { "tiny-gpt", 1 }, { "tiny-encdec", 2 }, { "tiny-uvit", 4 }, { "tiny-towers", 4 } };
    for (size_t m = 0; m < sizeof expected / sizeof *expected; m++) {
        struct model *model = model_of_zoo(expected[m].name);
        struct graph *graph = graph_of(model, 2, 0, 1);
        struct graph_edge *cut = calloc((size_t)graph->layer_count, sizeof *cut);
        int widest = 0;
        for (int at = 1; at < graph->layer_count; at++) {
            int count = graph_cut(graph, at, cut), found = 0;
            for (int from = 0; from < at; from++) {
                bool crosses = false;
                for (int to = at; to < graph->layer_count; to++)
                    for (int k = 0; k < graph->layers[to].input_count; k++)
                        crosses |= graph->layers[to].input_layers[k] == from;
                if (!crosses)
                    continue;
                ck_assert_int_lt(found, count);
                ck_assert_int_eq(cut[found].from, from);
                ck_assert_int_eq(cut[found].value, graph->layers[from].output_value);
                bool logits = at == graph->layer_count - 1;
                ck_assert_int_eq(cut[found].elements, 2 * 32 * (logits ? 256 : 64));
                found++;
            }
            ck_assert_int_eq(found, count);
            widest = count > widest ? count : widest;
        }
        ck_assert_int_eq(widest, expected[m].widest);
        free(cut);
        graph_free(graph);
        model_free(model);
    }
}
END_TEST

START_TEST(mirrored_copies_meet)
{
    struct model *model = model_of_zoo("tiny-uvit");
    struct graph *graph = graph_of(model, 1, 0, 1);
    for (int i = 0; i < 3; i++) { /* copy i of the second half reads copy 2 - i of the first */
        const struct graph_layer *join = &graph->layers[9 + 3 * i];
        ck_assert_str_eq(join->kind, "concat");
        ck_assert_int_eq(join->input_layers[0], 8 + 3 * i);
        ck_assert_int_eq(join->input_layers[1], 2 + 2 * (2 - i));
        ck_assert_int_eq(join->class_index, graph->layers[9].class_index);
    }
    graph_free(graph);
    model_free(model);
}
END_TEST

START_TEST(grouped_keys_follow_the_query_heads)
{
    struct model *model = model_of_zoo("llama-3-8b");
    struct graph *graph = graph_of(model, 4, 2048, 128);
    const struct graph_layer *layer = &graph->layers[1];
    const struct segment *core = NULL;
    for (int i = 0; i < layer->segment_count; i++)
        if (graph->segments[layer->first_segment + i].kernel == KERNEL_ATTENTION)
            core = &graph->segments[layer->first_segment + i];
    ck_assert_ptr_nonnull(core);
    const struct value *k = &graph->values[core->in[1].id];
    const int64_t size[] = { 4, 2048, 8, 128 };
    const enum axis_tag tags[] = { TAG_BATCH, TAG_KEY, TAG_HEAD, TAG_HEAD_DIM };
    for (int dim = 0; dim < 4; dim++) {
        ck_assert_int_eq(k->size[dim], size[dim]);
        ck_assert_int_eq(core->axes[core->in[1].axis[dim]].tag, tags[dim]);
    }
    ck_assert_int_eq(core->axes[core->in[1].axis[2]].size, 32);
    ck_assert_int_eq(core->arguments.kv_heads, 8);
    CHECK_NEAR(core->arguments.scale, 1 / sqrt(128), 1e-15);
    ck_assert_int_eq(graph->values[core->out[0].id].partial, FOLD_LSE);
    ck_assert_int_eq(kernel_facts[core->kernel].cheap, true);
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

START_TEST(frozen_weights_do_not_count)
{
    struct model *model = model_of_text(
        MODEL("{\"kind\":\"embedding\",\"frozen\":true}," ATTENTION() ",{\"kind\":\"head\",\"norm\":\"none\","
                                                                      "\"frozen\":true},{\"kind\":\"loss\"}"));
    struct graph *graph = graph_of(model, 1, 0, 1);
    ck_assert_int_eq(graph_parameter_count(graph), 16 + 4 * 16 * 16);
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

/* Halves of an axis do the work of the whole, whatever the kernel; a causal core excepted, whose halves are not told
 * apart. */
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

START_TEST(work_is_conserved_by_splits)
{
    static const char *const names[] = { "tiny-gpt", "tiny-llama", "bert-large" };
    for (int m = 0; m < 3; m++) {
        struct model *model = model_of_zoo(names[m]);
        struct graph *graph = graph_of(model, 4, 0, 256);
        for (int i = 0; i < graph->segment_count; i++) {
            const struct segment *segment = &graph->segments[i];
            for (int axis = 0; axis < segment->axis_count; axis++) {
                bool causal = segment->arguments.causal &&
                              (segment->axes[axis].tag == TAG_SEQUENCE || segment->axes[axis].tag == TAG_KEY);
                for (int phase = 0; phase < PHASE_COUNT && !causal; phase++) {
                    int64_t all[MAX_AXES], half[MAX_AXES];
                    whole(segment, all);
                    whole(segment, half);
                    ck_assert_int_eq(half[axis] % 2, 0);
                    half[axis] /= 2;
                    ck_assert_int_eq(segment_flops(segment, (enum phase)phase, all),
                                     2 * segment_flops(segment, (enum phase)phase, half));
                }
            }
        }
        graph_free(graph);
        model_free(model);
    }
}
END_TEST

struct work {
    char name[WORK_NAME_BYTES];
    int64_t flops, scratch;
};

START_TEST(equal_work_names_cost_the_same)
{
    static const char *const names[] = { "tiny-gpt", "tiny-llama", "gpt2", "llama-2-7b", "llama-3-8b", "bert-large" };
    struct work *works = calloc(4096, sizeof *works);
    int count = 0;
    for (int m = 0; m < 6; m++) {
        struct model *model = model_of_zoo(names[m]);
        struct graph *graph = graph_of(model, 2, m < 2 ? 32 : 512, 128);
        for (int i = 0; i < graph->segment_count && count < 4000; i++)
            for (int phase = 0; phase < PHASE_STEP; phase++) {
                int64_t extents[MAX_AXES];
                struct work *work = &works[count];
                whole(&graph->segments[i], extents);
                segment_work_name(&graph->segments[i], (enum phase)phase, extents, work->name);
                work->flops = segment_flops(&graph->segments[i], (enum phase)phase, extents);
                work->scratch = segment_scratch_elements(graph, &graph->segments[i], (enum phase)phase, extents);
                int k = 0;
                while (strcmp(works[k].name, work->name) != 0)
                    k++;
                ck_assert_msg(works[k].flops == work->flops && works[k].scratch == work->scratch, "%s", work->name);
                count += k == count;
            }
        graph_free(graph);
        model_free(model);
    }
    ck_assert_int_gt(count, 100);
    ck_assert_int_lt(count, 1000);
    free(works);
}
END_TEST

START_TEST(work_names_are_canonical)
{
    struct model *model = model_of_zoo("tiny-llama");
    struct graph *graph = graph_of(model, 2, 0, 1);
    char name[WORK_NAME_BYTES];
    int64_t extents[MAX_AXES];
    const struct segment *layer = &graph->segments[graph->layers[1].first_segment];
    whole(&layer[1], extents);
    segment_work_name(&layer[1], PHASE_FORWARD, extents, name);
    ck_assert_str_eq(name, "matmul.forward b2 t32 h64+ n4 d16");
    whole(&layer[6], extents);
    segment_work_name(&layer[6], PHASE_BACKWARD_INPUT, extents, name);
    ck_assert_str_eq(name, "attention.backward_input b2 t32 s32~ n4 d16 kv2 causal");
    extents[1] = 16; /* half the queries: no triangle any more; one query head: one key head */
    extents[3] = 1;
    segment_work_name(&layer[6], PHASE_BACKWARD_INPUT, extents, name);
    ck_assert_str_eq(name, "attention.backward_input b2 t16 s32~ n1 d16 kv1");
    ck_assert_int_eq(segment_flops(&layer[6], PHASE_FORWARD, extents), 4 * 2 * 16 * 32 * 1 * 16);
    ck_assert_int_eq(segment_scratch_elements(graph, &layer[6], PHASE_FORWARD, extents),
                     2 * ATTENTION_TILE_ROWS * (32 + 16));
    ck_assert_int_eq(segment_scratch_elements(graph, &layer[1], PHASE_FORWARD, extents), 0);
    graph_free(graph);
    model_free(model);
}
END_TEST

START_TEST(opaque_times_are_shared_out_whole)
{
    struct model *model = model_of_zoo("tiny-opaque");
    struct graph *graph = graph_of(model, 8, 0, 1);
    const int64_t want[5][3] = {
        { 100, 0, 200 }, { 100, 100, 100 }, { 100, 100, 100 }, { 400, 400, 400 }, { 50, 100, 0 }
    };
    for (int i = 0; i < 5; i++) {
        const struct segment *segment = &graph->segments[i];
        int64_t extents[MAX_AXES];
        whole(segment, extents);
        for (int phase = 0; phase < 3; phase++) {
            ck_assert_int_eq(segment_opaque_ns(segment, (enum phase)phase, extents), 8000 * want[i][phase]);
            ck_assert_int_eq(segment_flops(segment, (enum phase)phase, extents), 0);
        }
    }
    ck_assert_int_eq(graph->class_count, 4);
    ck_assert(!graph_needs_gradient(graph, graph->tokens_value));
    graph_free(graph);
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
    static const int want[DTYPE_COUNT][4] = {
        { 4, 4, 8, 4 }, { 8, 8, 16, 8 }, { 2, 4, 12, 2 }, { 2, 4, 12, 2 }, { 1, 4, 12, 1 }
    };
    for (int i = 0; i < DTYPE_COUNT; i++) {
        enum dtype dtype = (enum dtype)i;
        ck_assert_int_eq(weight_bytes_per_element(dtype), want[i][0]);
        ck_assert_int_eq(gradient_bytes_per_element(dtype), want[i][1]);
        ck_assert_int_eq(optimizer_bytes_per_element(dtype), want[i][2]);
        ck_assert_int_eq(element_bytes(dtype, ELEMENT_ACTIVATION), want[i][3]);
        ck_assert_int_eq(element_bytes(dtype, ELEMENT_STATISTIC), dtype == DTYPE_FP64 ? 8 : 4);
        ck_assert_int_eq(element_bytes(dtype, ELEMENT_INDEX), 4);
    }
    ck_assert_ptr_null(dtype_names[DTYPE_COUNT]);
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

static Suite *suite(void)
{
    Suite *s = suite_create("models");
    CHECK_ADD(s, zoo_parameters_are_the_published_counts);
    CHECK_ADD(s, padding_is_seen_by_sizes_only);
    CHECK_ADD(s, operands_agree_with_axes);
    CHECK_ADD(s, values_come_from_one_earlier_segment);
    CHECK_ADD(s, names_are_unique);
    CHECK_ADD(s, layers_read_earlier_ones);
    CHECK_ADD(s, edges_are_what_segments_read);
    CHECK_ADD(s, a_cut_lists_every_value_once);
    CHECK_ADD(s, mirrored_copies_meet);
    CHECK_ADD(s, grouped_keys_follow_the_query_heads);
    CHECK_ADD(s, blocks_are_of_two_classes);
    CHECK_ADD(s, a_class_is_kind_fields_and_entry);
    CHECK_ADD(s, gradients_are_needed_above_the_first_trainable_weight);
    CHECK_ADD(s, frozen_weights_do_not_count);
    CHECK_ADD(s, gpt2_flops_have_a_closed_form);
    CHECK_ADD(s, experts_cost_what_is_chosen);
    CHECK_ADD(s, slots_follow_the_capacity_factor);
    CHECK_ADD(s, too_many_slots_are_refused);
    CHECK_ADD(s, work_is_conserved_by_splits);
    CHECK_ADD(s, equal_work_names_cost_the_same);
    CHECK_ADD(s, work_names_are_canonical);
    CHECK_ADD(s, opaque_times_are_shared_out_whole);
    CHECK_ADD(s, initial_values_follow_the_paper);
    CHECK_ADD(s, bytes_per_element);
    CHECK_ADD(s, graphs_beyond_63_bits_are_refused);
    CHECK_ADD(s, a_shorter_sequence_keeps_the_table);
    CHECK_ADD(s, the_builder_survives_short_memory);
    return s;
}

CHECK_MAIN(suite)
