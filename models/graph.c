#include "models/graph.h"
#include "base/num.h"
#include "models/builder.h"
#include "models/graph_shelf.h"
#include "models/layer_kind.h"
#include "models/model.h"
#include "models/whole_blocks.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void graph_free(struct graph *graph)
{
    if (!graph || !graph_give_back(graph))
        return;
    arena_free(&graph->arena);
    free(graph);
}

int64_t weight_elements(const struct weight *weight)
{
    int64_t elements = 1;
    for (int dim = 0; dim < weight->dim_count; dim++)
        elements *= weight->size[dim];
    return elements;
}

int64_t layer_elements(const struct graph *graph, int layer)
{
    int64_t elements = 1;
    int index = graph->layers[layer].output_value;
    for (int d = 0; index >= 0 && d < graph->values[index].dim_count; d++)
        elements *= graph->values[index].size[d]; /* fits: graph_build() has checked it */
    return elements;
}

static int64_t valid_elements(const struct weight *weight)
{
    int64_t elements = weight->valid_rows;
    for (int dim = 1; dim < weight->dim_count; dim++)
        elements *= weight->size[dim];
    return elements;
}

int64_t graph_parameter_count(const struct graph *graph)
{
    int64_t count = 0;
    for (int i = 0; i < graph->weight_count; i++)
        count += valid_elements(&graph->weights[i]);
    return count;
}

enum quantized graph_quantized(const struct graph *graph)
{
    enum quantized form = QUANTIZED_NONE;
    for (int i = 0; i < graph->weight_count && !form; i++)
        form = graph->weights[i].quantized;
    return form;
}

int64_t graph_trainable_count(const struct graph *graph)
{
    int64_t count = 0;
    for (int i = 0; i < graph->weight_count; i++)
        count += graph->weights[i].frozen ? 0 : valid_elements(&graph->weights[i]);
    return count;
}

int segment_axis(const struct segment *segment, enum axis_tag tag)
{
    for (int i = 0; i < segment->axis_count; i++)
        if (segment->axes[i].tag == tag)
            return i;
    return -1;
}

int operand_dim(const struct operand *operand, int dim_count, int axis)
{
    for (int dim = 0; dim < dim_count; dim++)
        if (operand->axis[dim] == axis)
            return dim;
    return -1;
}

bool graph_needs_gradient(const struct graph *graph, int value)
{
    return graph->needs_gradient[value];
}

uint64_t graph_layer_operators(const struct graph *graph, int layer)
{
    const struct graph_layer *l = &graph->layers[layer];
    uint64_t set = 0;
    for (int i = 0; i < l->segment_count; i++)
        set |= graph->segments[l->first_segment + i].operators;
    return set;
}

bool graph_layer_has_weights(const struct graph *graph, int layer)
{
    const struct graph_layer *l = &graph->layers[layer];
    for (int i = 0; i < l->segment_count; i++)
        if (graph->segments[l->first_segment + i].weight_count > 0)
            return true;
    return false;
}

bool graph_is_chain(const struct graph *graph)
{
    for (int l = 1; l < graph->layer_count; l++)
        if (graph->layers[l].input_count != 1 || graph->layers[l].input_layers[0] != l - 1)
            return false;
    return true;
}

/* Segments read earlier ones only, so one pass in order settles every value. */
static void mark_needs(struct graph *graph)
{
    for (int s = 0; s < graph->segment_count; s++) {
        const struct segment *segment = &graph->segments[s];
        bool needs = false;
        for (int i = 0; i < segment->weight_count; i++)
            needs |= !graph->weights[segment->weight[i].id].frozen;
        for (int i = 0; i < segment->in_count; i++)
            needs |= graph->needs_gradient[segment->in[i].id];
        for (int i = 0; i < segment->out_count; i++)
            graph->needs_gradient[segment->out[i].id] = needs && graph->values[segment->out[i].id].differentiable;
    }
}

/* Attention's work has the widths of keys and values as a sum, so the narrower one is covered by the other. */
static bool is_values_width(const struct segment *segment, int axis)
{
    int key = kernel_facts[segment->kernel].attends ? segment->in[0].axis[3] : axis;
    int value = kernel_facts[segment->kernel].attends ? segment->in[2].axis[3] : axis;
    return key != value && axis == (segment->axes[key].size < segment->axes[value].size ? key : value);
}

/* The work of the whole step must be countable: ten operations per point are the most that any kernel counts per axis
 * product beyond its elementwise ones, which 20 covers. */
static bool check_work(const struct graph *graph, struct error *err)
{
    for (int s = 0; s < graph->segment_count; s++) {
        const struct segment *segment = &graph->segments[s];
        int64_t work = 20;
        for (int i = 0; i < segment->axis_count; i++)
            if (!is_values_width(segment, i) && !mul_i64(&work, work, segment->axes[i].size))
                return fail(
                    err,
                    "layer %s: the operations of segment %s over %lld sequences do not fit in 63 bits; lower batch, "
                    "sequence or widths",
                    graph->layers[segment->layer].name, segment->name, (long long)graph->batch);
    }
    int64_t elements = 0;
    for (int i = 0; i < graph->weight_count; i++) {
        const struct weight *weight = &graph->weights[i];
        enum { BYTES = 16 }; /* of a stored weight, its gradient and state; each weight alone was checked when made */
        if (!add_i64(&elements, elements, BYTES * weight_elements(weight)))
            return fail(err,
                        "the model's weights do not fit in 63 bits of bytes; lower its widths or its number of layers");
    }
    return true;
}

static bool same_value(const struct graph *graph, int a, int b)
{
    const struct value *x = &graph->values[a], *y = &graph->values[b];
    return x->dim_count == y->dim_count && memcmp(x->size, y->size, sizeof x->size) == 0 &&
           graph->needs_gradient[a] == graph->needs_gradient[b];
}

struct class_entry {
    const struct layer *layer;       /* the first of its class */
    const struct graph_layer *entry; /* for what enters it */
    uint64_t hash;                   /* of the layer's fields */
};

static bool same_entry(const struct graph *graph, const struct graph_layer *a, const struct graph_layer *b)
{
    bool same = a->input_count == b->input_count;
    for (int i = 0; same && i < a->input_count; i++) {
        const struct graph_layer *x = &graph->layers[a->input_layers[i]], *y = &graph->layers[b->input_layers[i]];
        same = same_value(graph, x->output_value, y->output_value) && x->columns == y->columns;
    }
    return same;
}

static bool same_class(const struct graph *graph, const struct class_entry *a, const struct class_entry *b)
{
    bool same_layer = a->layer == b->layer || (a->hash == b->hash && a->layer->kind == b->layer->kind &&
                                               layer_fields_equal(a->layer->kind, a->layer->fields, b->layer->fields));
    return same_layer && same_entry(graph, a->entry, b->entry);
}

/* A class is a kind, its fields, and what enters. Tying is a fact of the whole model and of its one head. */
static bool set_classes(struct graph *graph, const struct model *model, struct error *err)
{
    struct class_entry *classes = arena_alloc(&graph->arena, (size_t)graph->layer_count, sizeof *classes);
    if (!classes)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory while unfolding the model");
    for (int i = 0; i < graph->layer_count; i++) {
        const struct layer *layer = model_unfolded_layer(model, i);
        struct class_entry entry = { layer, &graph->layers[i], layer_fields_hash(layer->kind, layer->fields) };
        int class_index = 0;
        while (class_index < graph->class_count && !same_class(graph, &entry, &classes[class_index]))
            class_index++;
        if (class_index == graph->class_count)
            classes[graph->class_count++] = entry;
        graph->layers[i].class_index = class_index;
    }
    return true;
}

/* "64 x 8 x 8" of an image: channels, rows, columns; "32 x 10" of a sequence: width, tokens. */
static const char *shape_text(const struct graph *graph, int value, int64_t columns, char text[80])
{
    const struct value *v = &graph->values[value];
    if (columns > 0)
        snprintf(text, 80, "%lld x %lld x %lld", (long long)v->size[2], (long long)(v->size[1] / columns),
                 (long long)columns);
    else
        snprintf(text, 80, "%lld x %lld", (long long)v->size[2], (long long)v->size[1]);
    return text;
}

static bool same_shape(const struct graph *graph, const struct graph_layer *a, const struct graph_layer *b)
{
    const struct value *x = &graph->values[a->output_value], *y = &graph->values[b->output_value];
    return memcmp(x->size, y->size, sizeof x->size) == 0 && a->columns == b->columns;
}

/* What enters a layer says how wide it is and over how many positions; all that enters one is alike. */
static bool enter(struct graph_builder *builder, const struct model *model, const struct graph_layer *layer)
{
    struct graph *graph = builder->graph;
    const struct graph_layer *first = layer->input_count > 0 ? &graph->layers[layer->input_layers[0]] : NULL;
    builder->input_count = layer->input_count;
    for (int i = 0; i < layer->input_count; i++) {
        const struct graph_layer *from = &graph->layers[layer->input_layers[i]];
        char expected[80], found[80];
        builder->inputs[i] = from->output_value;
        if (!same_shape(graph, first, from))
            return fail_kind(builder->err, ERROR_INPUT,
                             "layer %s: expected inputs of one shape: %s gives %s, %s gives %s", layer->name,
                             first->name, shape_text(graph, first->output_value, first->columns, expected), from->name,
                             shape_text(graph, from->output_value, from->columns, found));
    }
    builder->input = first ? first->output_value : graph->image_value;
    builder->columns = first ? first->columns : graph->image_columns;
    const struct value *input = builder->input >= 0 ? &graph->values[builder->input] : NULL;
    bool shaped = input && input->dim_count == 3;
    builder_size(builder, 't', shaped ? input->size[1] : graph->sequence);
    builder_size(builder, 's', shaped ? input->size[1] : graph->sequence);
    builder_size(builder, 'h', shaped ? input->size[2] : model->hidden);
    return true;
}

static bool build_layer(struct graph_builder *builder, const struct model *model, int index)
{
    struct graph *graph = builder->graph;
    const struct layer *layer = model_unfolded_layer(model, index);
    char name[96];
    snprintf(name, sizeof name, "%d.%s", index, layer->name);
    struct graph_layer *out = &graph->layers[index];
    *out = (struct graph_layer){ .name = arena_strdup(&graph->arena, name),
                                 .kind = layer->kind->name,
                                 .first_segment = graph->segment_count,
                                 .output_value = -1 };
    out->input_count = model_unfolded_inputs(model, index, out->input_layers);
    if (!out->name)
        return fail_kind(builder->err, ERROR_ENVIRONMENT, "out of memory while unfolding the model");
    builder->layer = index;
    builder->prefix = out->name;
    const struct layer_head *head = layer->fields;
    char shared[96];
    snprintf(shared, sizeof shared, "%s.%s", head->shared ? head->shared : "", layer->kind->name);
    builder->frozen = head->frozen;
    builder->shared_by = head->shared ? shared : NULL;
    if (layer->kind->planned || head->shared || head->quantized)
        builder_planned_only(builder);
    if (!enter(builder, model, out) || !layer->kind->build(builder, model, layer->fields, builder->err) ||
        builder->failed)
        return false;
    builder->shared_by = NULL;
    out->columns = builder->columns;
    out->segment_count = graph->segment_count - out->first_segment;
    if (index + 1 < graph->layer_count)
        out->output_value = builder->output;
    return true;
}

/* What enters it: the image where nothing stands before. */
static bool same_entry_shape(const struct graph *graph, const struct graph_layer *a, const struct graph_layer *b)
{
    const struct graph_layer image = { .output_value = graph->image_value, .columns = graph->image_columns };
    const struct graph_layer *x = a->input_count > 0 ? &graph->layers[a->input_layers[0]] : &image,
                             *y = b->input_count > 0 ? &graph->layers[b->input_layers[0]] : &image;
    return x->output_value < 0 || y->output_value < 0 || same_shape(graph, x, y);
}

/* A copy of a repeat may hold several blocks: the kind of its first layer begins each, behind one of another kind, and
 * so does each kind that mixes tokens, behind one that does not, where the first layer does (Qwen3-Next, Jamba). What
 * stands beside repeats and adds to the residual stream as they do is blocks, too: the dense first one of a model whose
 * others have experts. A model without any repeat has no blocks. */
static void number_blocks(struct graph *graph, const struct model *model)
{
    int number = -1;
    bool repeats = false, behind_body = false; /* behind a layer of a block that is written once */
    bool mixes_first = false, behind_mixer = false;
    const char *first = NULL;
    struct graph_layer *at = graph->layers;
    for (int b = 0; b < model->block_count; b++)
        repeats = repeats || model->blocks[b].count > 1;
    for (int b = 0; b < model->block_count; b++) {
        const struct model_block *block = &model->blocks[b];
        for (int i = 0; i < block->layer_count * block->count; i++, at++) {
            int place = i % block->layer_count;
            const struct layer_kind *kind = model->layers[block->first_layer + place].kind;
            bool body = kind->place == CHAIN_BODY;
            bool starts = block->count > 1 ? place == 0 : body && !behind_body;
            first = starts ? at->kind : first;
            mixes_first = starts ? kind->mixes : mixes_first;
            number += starts || (at->kind == first && at[-1].kind != first) ||
                      (mixes_first && kind->mixes && !behind_mixer);
            behind_mixer = kind->mixes;
            at->block = block->count > 1 || (repeats && body) ? number : -1;
            behind_body = block->count == 1 && body;
        }
    }
}

/* A search looks at two copies of a repeat, a profiler at one: they must speak for all. */
static bool check_copies(const struct graph *graph, const struct model *model, struct error *err)
{
    int first = 0;
    for (int b = 0; b < model->block_count; b++) {
        const struct model_block *block = &model->blocks[b];
        for (int i = block->layer_count; i < block->layer_count * block->count; i++) {
            const struct graph_layer *layer = &graph->layers[first + i],
                                     *like = &graph->layers[first + i % block->layer_count];
            if (!same_entry_shape(graph, layer, like))
                return fail_kind(
                    err, ERROR_INPUT,
                    "layer %s: expected the copies of a repeat to be alike, but what enters it has another "
                    "shape than what enters %s: write that copy outside of the repeat",
                    layer->name, like->name);
        }
        first += block->layer_count * block->count;
    }
    return true;
}

/* Scaled as in Radford et al. 2019, section 2.3: by 1 / sqrt(number of residual layers). */
static double residual_std(const struct model *model)
{
    int count = 0;
    for (int i = 0; i < model_unfolded_count(model); i++)
        count += model_unfolded_layer(model, i)->kind->place == CHAIN_BODY;
    return model->init_std / sqrt(count ? count : 1);
}

static void add_image(struct graph_builder *builder, const struct model *model)
{
    struct graph *graph = builder->graph;
    graph->image_columns = model->image_size;
    builder_size(builder, 't', model->image_size * model->image_size);
    builder_size(builder, 'h', model->image_channels);
    graph->image_value = builder_input(builder, "image", "bth", ELEMENT_ACTIVATION);
    builder_size(builder, 't', graph->sequence);
}

static void add_inputs(struct graph_builder *builder, const struct model *model)
{
    struct graph *graph = builder->graph;
    if (model->image_size > 0)
        add_image(builder, model);
    else
        graph->tokens_value = builder_input(builder, "tokens", "bt", ELEMENT_INDEX);
    if (model->opaque)
        return;
    graph->labels_value = builder_input(builder, "labels", "bt", ELEMENT_INDEX);
    graph->count_value = builder_input(builder, "count", "1", ELEMENT_STATISTIC);
}

/* Tells whether a permutation of the tokens changes nothing but masks and positions that kernels know of, and gains:
 * all attention is causal. Groups of experts are neighbours in the sequence, but not where a framework routes each token
 * by itself; biases by distance are those of models that also look ahead. */
static bool may_balance(const struct graph *graph)
{
    for (int s = 0; s < graph->segment_count; s++) {
        const struct segment *segment = &graph->segments[s];
        const bool apart = segment->arguments.dropless && keeping_sends_choices(&graph->keeping);
        if (segment->arguments.window.height > 0 || (segment->arguments.group > 0 && !apart) ||
            segment->kernel == KERNEL_CLASS_TOKEN || segment->kernel == KERNEL_BIASED_ATTENTION ||
            (kernel_facts[segment->kernel].attends && !segment->arguments.causal))
            return false;
    }
    return true;
}

/* Parts of the sequence are then two blocks each. */
static void balance(struct graph *graph)
{
    for (int s = 0; s < graph->segment_count; s++) {
        struct segment *segment = &graph->segments[s];
        segment->arguments.balanced = kernel_facts[segment->kernel].attends;
        for (int i = 0; segment->arguments.balanced && i < segment->axis_count; i++)
            if (segment->axes[i].tag == TAG_SEQUENCE || segment->axes[i].tag == TAG_KEY)
                segment->axes[i].grain = 2;
    }
}

static bool is_block_product(const struct graph *graph, const struct segment *segment)
{
    return segment->kernel == KERNEL_MATMUL && graph->layers[segment->layer].block >= 0;
}

static void mark_conversions(struct graph *graph)
{
    for (int i = 0; i < graph->segment_count; i++) {
        struct segment *s = &graph->segments[i];
        s->converts_input = s->kernel == KERNEL_MATMUL;
        for (int other = graph->layers[s->layer].first_segment; other < i; other++)
            if (graph->segments[other].kernel == KERNEL_MATMUL && graph->segments[other].in[0].id == s->in[0].id)
                s->converts_input = false;
    }
}

/* Marks what products of blocks alone read, and not its producer's own backward pass: the kernel before them writes it
 * in fp8, as Transformer Engine's norms do. What is sent to experts stays wide. */
static bool mark_operands(struct graph *graph)
{
    uint8_t *readers = arena_alloc(&graph->arena, (size_t)graph->value_count, 1); /* bit 0: products, bit 1: others */
    for (int i = 0; readers && i < graph->segment_count; i++) {
        const struct segment *s = &graph->segments[i];
        const struct kernel_facts *k = &kernel_facts[s->kernel];
        for (int n = 0; n < s->in_count; n++)
            readers[s->in[n].id] |= n == 0 && is_block_product(graph, s) ? 1 : 2;
        for (int n = 0; n < s->out_count; n++)
            if ((k->input_reads_out | k->weight_reads_out) >> n & 1 || s->kernel == KERNEL_DISPATCH)
                readers[s->out[n].id] |= 2;
    }
    for (int v = 0; readers && v < graph->value_count; v++)
        if (readers[v] == 1 && graph->values[v].element == ELEMENT_ACTIVATION && !graph->values[v].input)
            graph->values[v].element = ELEMENT_OPERAND;
    return readers != NULL;
}

static bool follows(const struct operand *operand, int dim_count, int axis)
{
    return axis >= 0 && operand_dim(operand, dim_count, axis) >= 0;
}

/* Marks the dims of a matrix between layers, which is quantized where its layer says so and it is frozen. */
static void mark_matrix(struct graph *graph, const struct model *model, struct segment *s)
{
    const struct operand *operand = &s->weight[0], *in = &s->in[0], *out = &s->out[0];
    struct weight *w = &graph->weights[operand->id];
    uint8_t rows = 0, columns = 0;
    for (int dim = 0; dim < w->dim_count; dim++) {
        int axis = operand->axis[dim];
        bool read = follows(in, graph->values[in->id].dim_count, axis),
             made = follows(out, graph->values[out->id].dim_count, axis);
        if (axis < 0 || s->axes[axis].tag == TAG_VOCAB)
            return;
        rows |= (uint8_t)((made && !read) << dim);
        columns |= (uint8_t)((read && !made) << dim);
    }
    w->row_dims = columns ? rows : 0;
    w->column_dims = rows ? columns : 0;
    const struct layer_head *head = model_unfolded_layer(model, s->layer)->fields;
    if (w->frozen && w->row_dims)
        w->quantized = s->arguments.quantized = (enum quantized)head->quantized;
}

static void mark_matrices(struct graph *graph, const struct model *model)
{
    for (int i = 0; i < graph->segment_count; i++)
        if (graph->segments[i].kernel == KERNEL_MATMUL && graph->segments[i].weight_count > 0)
            mark_matrix(graph, model, &graph->segments[i]);
}

static bool build(struct graph *graph, const struct model *model, struct error *err)
{
    graph->model_name = arena_strdup(&graph->arena, model->name);
    graph->layers = arena_alloc(&graph->arena, (size_t)graph->layer_count, sizeof *graph->layers);
    if (!graph->model_name || !graph->layers)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory while unfolding the model");
    struct graph_builder builder = { .graph = graph,
                                     .prefix = "model",
                                     .output = -1,
                                     .table = -1,
                                     .head_table = -1,
                                     .init_std = model->init_std,
                                     .residual_std = residual_std(model),
                                     .drops = model->keeping.drops_adapters && model->left_out.adapter_dropout > 0,
                                     .err = err };
    builder_size(&builder, 'b', graph->batch);
    builder_size(&builder, 't', graph->sequence);
    builder_size(&builder, 'v', graph->vocab_padded);
    builder_size(&builder, '1', 1);
    add_inputs(&builder, model);
    for (int i = 0; i < graph->layer_count && !builder.failed; i++)
        if (!build_layer(&builder, model, i))
            return false;
    if (builder.failed || !check_copies(graph, model, err) || !check_work(graph, err))
        return false;
    number_blocks(graph, model);
    graph->needs_gradient = arena_alloc(&graph->arena, (size_t)graph->value_count, sizeof *graph->needs_gradient);
    if (!graph->needs_gradient)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory while unfolding the model");
    mark_needs(graph);
    mark_conversions(graph);
    mark_matrices(graph, model);
    if (model->keeping.keeps_fp8 && !mark_operands(graph))
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory while unfolding the model");
    if (may_balance(graph))
        balance(graph);
    return set_classes(graph, model, err) && (!model->whole_blocks || graph_join_blocks(graph, err));
}

static bool check_arguments(const struct model *model, int64_t batch, int64_t sequence, int64_t vocab_multiple,
                            struct error *err)
{
    const int64_t most = INT64_C(1) << 40;
    if (batch < 1 || batch > most)
        return fail_kind(err, ERROR_INPUT, "batch: expected 1 to %lld sequences, found %lld", (long long)most,
                         (long long)batch);
    if (sequence < 0 || sequence > most)
        return fail_kind(err, ERROR_INPUT,
                         "sequence: expected 1 to %lld tokens, or 0 for the model's own %lld, found %lld",
                         (long long)most, (long long)model->sequence, (long long)sequence);
    if (model->image_size > 0 && sequence > 1)
        return fail_kind(err, ERROR_INPUT,
                         "sequence: the model reads images, whose size is its own (%lld x %lld): expected none, found "
                         "%lld tokens",
                         (long long)model->image_size, (long long)model->image_size, (long long)sequence);
    if (vocab_multiple < 1 || vocab_multiple > most)
        return fail_kind(err, ERROR_INPUT, "vocabulary multiple: expected 1 to %lld, found %lld", (long long)most,
                         (long long)vocab_multiple);
    return true;
}

bool graph_size_up(struct graph *out, const struct model *model, int64_t batch, int64_t sequence,
                   int64_t vocab_multiple, struct error *err)
{
    if (!check_arguments(model, batch, sequence, vocab_multiple, err))
        return false;
    *out = (struct graph){ .model_hash = model->hash,
                           .keeping = model->keeping,
                           .batch = batch,
                           .sequence = sequence ? sequence : model->sequence,
                           .vocab_size = model->vocab_size,
                           .vocab_multiple = vocab_multiple,
                           .vocab_padded = model->vocab_size ? round_up(model->vocab_size, vocab_multiple) : 0,
                           .whole_blocks = model->whole_blocks,
                           .layer_count = model_unfolded_count(model),
                           .tokens_value = -1,
                           .source_value = -1,
                           .image_value = -1,
                           .labels_value = -1,
                           .count_value = -1,
                           .loss_value = -1 };
    return true;
}

bool graph_build(struct graph **out, const struct model *model, int64_t batch, int64_t sequence, int64_t vocab_multiple,
                 struct error *err)
{
    struct graph sizes;
    if (!graph_size_up(&sizes, model, batch, sequence, vocab_multiple, err))
        return false;
    struct graph *graph = malloc(sizeof *graph);
    if (!graph)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory while unfolding the model");
    *graph = sizes;
    bool built = build(graph, model, err);
    if (built)
        *out = graph;
    else
        graph_free(graph);
    return built;
}
