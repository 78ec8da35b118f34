/* Every operand of every segment of the zoo agrees with its axes, and edges between layers are what segments read. */
#include "models/layer_kind.h"
#include "tests/model_files.h"
#include "tests/zoo_models.h"

static void check_dim(const struct segment *segment, enum axis_tag tag, int64_t size, int axis)
{
    if (axis < 0)
        return;
    ck_assert_int_lt(axis, segment->axis_count);
    const struct axis *a = &segment->axes[axis];
    if (kernel_facts[segment->kernel].attends && a->tag == TAG_HEAD && size != a->size)
        ck_assert(size == segment->arguments.kv_heads && a->size % size == 0);
    else if (segment->arguments.channels_per_group && a->tag == TAG_FFN && size != a->size)
        ck_assert(size * segment->arguments.channels_per_group == a->size &&
                  a->grain == segment->arguments.channels_per_group);
    else if (segment->arguments.group && a->tag == TAG_SEQUENCE && size != a->size)
        ck_assert(size * segment->arguments.group == a->size && a->grain == segment->arguments.group);
    else if (segment->kernel == KERNEL_JOIN && a->tag == TAG_HEAD_DIM && size != a->size)
        ck_assert(size < a->size && a->fixed); /* parts of a head lie one behind the other */
    else
        ck_assert_int_eq(size, a->size);
    if (tag != TAG_COUNT) /* weights carry no tags; the columns of a square matrix are split as those of an mlp */
        ck_assert(tag == a->tag || (tag == TAG_SEQUENCE && a->tag == TAG_KEY) ||
                  (tag == TAG_NONE && a->fixed) || /* features of a latent, which nothing splits */
                  (tag == TAG_HIDDEN && a->tag == TAG_FFN &&
                   (segment->kernel == KERNEL_MATMUL || segment->arguments.window.height > 0)) ||
                  (tag == TAG_FFN &&
                   a->tag == TAG_HIDDEN)); /* the channels that a layer gives are those that enter the next */
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
        if (kernel_facts[segment->kernel].multiplies && segment->weight_count == 2 && a->fold != FOLD_NONE)
            ck_assert(a->fixed);
    }
}

static void check_masks(const struct graph *graph, const struct segment *segment)
{
    const struct kernel_facts *facts = &kernel_facts[segment->kernel];
    if (segment->kernel == KERNEL_OPAQUE)
        return;                                                             /* may save nothing and hold no weight */
    int in_most = segment->kernel == KERNEL_MATMUL ? 2 : segment->in_count; /* counts may be absent */
    ck_assert_int_eq((facts->input_reads_in | facts->weight_reads_in) >> in_most, 0);
    bool may_keep = facts->attends || segment->kernel == KERNEL_SUM_EXP || segment->kernel == KERNEL_RMS_NORM ||
                    facts->gates; /* one output more, where a framework does */
    ck_assert_int_eq((facts->input_reads_out | facts->weight_reads_out) >> (segment->out_count + may_keep), 0);
    ck_assert_int_eq((facts->input_reads_weight | facts->weight_reads_weight) >> segment->weight_count, 0);
    for (int i = 0; i < segment->weight_count; i++) /* what corrects a router is moved by rule, not by a gradient */
        ck_assert(graph->weights[segment->weight[i].id].frozen || facts->has_backward_weight);
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
            check_masks(graph, segment);
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
        static const char *const branched[] = {
            "tiny-encdec", "tiny-uvit",   "tiny-towers", "t5-small",  "t5-base",
            "t5-large",    "pythia-410m", "pythia-1.4b", "resnet-50", "tiny-resnet"
        };
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
                        if (graph->layers[layer->input_layers[k]].output_value == value)
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

static Suite *suite(void)
{
    Suite *s = suite_create("segments");
    CHECK_ADD(s, operands_agree_with_axes);
    CHECK_ADD(s, values_come_from_one_earlier_segment);
    CHECK_ADD(s, names_are_unique);
    CHECK_ADD(s, layers_read_earlier_ones);
    CHECK_ADD(s, edges_are_what_segments_read);
    CHECK_ADD(s, mirrored_copies_meet);
    CHECK_ADD(s, grouped_keys_follow_the_query_heads);
    return s;
}

CHECK_MAIN(suite)
