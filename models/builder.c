#include "models/builder.h"
#include "base/num.h"
#include "models/operators.h"
#include <stdio.h>
#include <string.h>

void builder_planned_only(struct graph_builder *builder)
{
    if (!builder->graph->planned_layer)
        builder->graph->planned_layer = arena_strdup(&builder->graph->arena, builder->prefix);
}

void builder_size(struct graph_builder *builder, char letter, int64_t size)
{
    builder->size[(unsigned char)letter & 127] = size;
}

static enum axis_tag letter_tag(char letter)
{
    switch (letter) {
    case 'b':
        return TAG_BATCH;
    case 't':
        return TAG_SEQUENCE;
    case 's':
        return TAG_KEY;
    case 'n':
    case 'm':
        return TAG_HEAD;
    case 'd':
    case 'w':
        return TAG_HEAD_DIM;
    case 'h':
        return TAG_HIDDEN;
    case 'f':
    case 'g':
    case 'j':
        return TAG_FFN;
    case 'v':
    case 'a':
        return TAG_VOCAB;
    case 'e':
        return TAG_EXPERT;
    case 'u':
        return TAG_ROUTE;
    case 'q':
        return TAG_SEQUENCE;
    case 'c':
        return TAG_CAPACITY;
    default:
        return TAG_NONE;
    }
}

static bool out_of_memory(struct graph_builder *builder)
{
    builder->failed = true;
    return fail_kind(builder->err, ERROR_ENVIRONMENT, "out of memory while unfolding layer %s", builder->prefix);
}

/* Makes room for one more element; the old array stays behind in the arena, less than the final size in sum. */
static bool grow(struct graph_builder *builder, void **array, int count, int *capacity, size_t size)
{
    if (builder->failed)
        return false;
    if (count < *capacity)
        return true;
    int wanted = *capacity ? *capacity * 2 : 64;
    void *larger = arena_alloc(&builder->graph->arena, (size_t)wanted, size);
    if (!larger)
        return out_of_memory(builder);
    if (count)
        memcpy(larger, *array, (size_t)count * size);
    *array = larger;
    *capacity = wanted;
    return true;
}

static const char *full_name(struct graph_builder *builder, const char *name)
{
    size_t prefix = strlen(builder->prefix), length = strlen(name);
    char *text = arena_alloc(&builder->graph->arena, prefix + length + 2, 1);
    if (!text) {
        out_of_memory(builder);
        return NULL;
    }
    memcpy(text, builder->prefix, prefix);
    text[prefix] = '.';
    memcpy(text + prefix + 1, name, length + 1);
    return text;
}

/* Sizes of the dims named by letters. Sixteen bytes per element must fit in 63 bits: no storage of an element is wider.
 */
static bool sizes_of(struct graph_builder *builder, const char *name, const char *dims, int64_t size[MAX_DIMS])
{
    int64_t bytes = 16;
    for (int i = 0; dims[i]; i++) {
        size[i] = builder->size[(unsigned char)dims[i] & 127];
        if (!mul_i64(&bytes, bytes, size[i])) {
            builder->failed = true;
            return fail(builder->err,
                        "%s.%s: its size in bytes does not fit in 63 bits; lower batch, sequence or widths",
                        builder->prefix, name);
        }
    }
    return true;
}

static int add_value(struct graph_builder *builder, const char *name, const char *full, const char *dims,
                     enum element element)
{
    struct graph *graph = builder->graph;
    if (!grow(builder, (void **)&graph->values, graph->value_count, &builder->value_capacity, sizeof *graph->values))
        return 0;
    struct value value = {
        .name = full, .element = element, .partial = FOLD_SUM, .producer = -1, .dim_count = (int)strlen(dims)
    };
    if (!sizes_of(builder, name, dims, value.size))
        return 0;
    for (int i = 0; i < value.dim_count; i++)
        value.tag[i] = letter_tag(dims[i]);
    graph->values[graph->value_count] = value;
    return graph->value_count++;
}

int builder_value(struct graph_builder *builder, const char *name, const char *dims, enum element element,
                  bool differentiable)
{
    const char *full = builder->failed ? NULL : full_name(builder, name);
    int id = full ? add_value(builder, name, full, dims, element) : 0;
    if (!builder->failed)
        builder->graph->values[id].differentiable = differentiable;
    return id;
}

int builder_input(struct graph_builder *builder, const char *name, const char *dims, enum element element)
{
    int id = add_value(builder, name, name, dims, element);
    if (!builder->failed)
        builder->graph->values[id].input = true;
    return id;
}

static int add_weight(struct graph_builder *builder, const char *name, const char *full, const char *dims,
                      enum init init, double init_std)
{
    struct graph *graph = builder->graph;
    if (!grow(builder, (void **)&graph->weights, graph->weight_count, &builder->weight_capacity,
              sizeof *graph->weights))
        return 0;
    struct weight weight = { .name = full,
                             .dim_count = (int)strlen(dims),
                             .init = init,
                             .init_std = init == INIT_NORMAL ? init_std : 0,
                             .decay = init == INIT_NORMAL,
                             .frozen = builder->frozen };
    if (!weight.name || !sizes_of(builder, name, dims, weight.size))
        return 0;
    weight.valid_rows = dims[0] == 'v' ? graph->vocab_size : weight.size[0];
    graph->weights[graph->weight_count] = weight;
    return graph->weight_count++;
}

int builder_weight(struct graph_builder *builder, const char *name, const char *dims, enum init init, double init_std)
{
    if (builder->failed || !builder->shared_by)
        return builder->failed ? 0 : add_weight(builder, name, full_name(builder, name), dims, init, init_std);
    char shared[160];
    snprintf(shared, sizeof shared, "%s.%s", builder->shared_by, name);
    return builder_shared(builder, shared, dims, init, init_std);
}

int builder_head_table(struct graph_builder *builder, bool tied)
{
    if (tied)
        return builder->table;
    if (builder->head_table < 0)
        builder->head_table = builder_weight(builder, "table", "vh", INIT_NORMAL, builder->init_std);
    return builder->head_table;
}

int builder_adapter(struct graph_builder *builder, const char *name, const char *dims, enum init init)
{
    int id = builder_weight(builder, name, dims, init, builder->init_std);
    if (!builder->failed) {
        builder->graph->weights[id].frozen = false;
        builder->graph->weights[id].decay = true;
    }
    return id;
}

/* Those who share a weight must mean one of the same shape. */
static bool same_weight(struct graph_builder *builder, int id, const char *name, const char *dims)
{
    const struct weight *weight = &builder->graph->weights[id];
    int64_t size[MAX_DIMS];
    if (!sizes_of(builder, name, dims, size))
        return false;
    bool same = weight->dim_count == (int)strlen(dims);
    for (int i = 0; same && i < weight->dim_count; i++)
        same = weight->size[i] == size[i];
    if (!same) {
        builder->failed = true;
        fail_kind(builder->err, ERROR_INPUT,
                  "layer %s: expected weights of the shapes of those that it shares: %s has another", builder->prefix,
                  name);
    }
    return same;
}

int builder_shared(struct graph_builder *builder, const char *name, const char *dims, enum init init, double init_std)
{
    for (int i = 0; i < builder->shared_count; i++)
        if (strcmp(builder->graph->weights[builder->shared[i]].name, name) == 0)
            return same_weight(builder, builder->shared[i], name, dims) ? builder->shared[i] : 0;
    const char *copy = builder->failed ? NULL : arena_strdup(&builder->graph->arena, name);
    if (!builder->failed && builder->shared_count == (int)(sizeof builder->shared / sizeof *builder->shared)) {
        builder->failed = true;
        fail_kind(builder->err, ERROR_INPUT, "layer %s: expected at most %d weights that layers share", builder->prefix,
                  builder->shared_count);
    }
    if (!builder->failed && !copy)
        out_of_memory(builder);
    int weight = builder->failed ? 0 : add_weight(builder, name, copy, dims, init, init_std);
    if (!builder->failed)
        builder->shared[builder->shared_count++] = weight;
    return weight;
}

/* letters receives the axes' letters in order. */
static void read_axes(const struct graph_builder *builder, struct segment *segment, const char *axes,
                      char letters[MAX_AXES + 1])
{
    struct axis *axis = NULL;
    for (const char *c = axes; *c; c++) {
        switch (*c) {
        case '+':
            axis->fold = FOLD_SUM;
            break;
        case '^':
            axis->fold = FOLD_MAX;
            break;
        case '~':
            axis->fold = FOLD_LSE;
            break;
        case '!':
            axis->fixed = true;
            break;
        default:
            axis = &segment->axes[segment->axis_count];
            letters[segment->axis_count++] = *c;
            *axis = (struct axis){ .tag = letter_tag(*c), .size = builder->size[(unsigned char)*c & 127], .grain = 1 };
        }
    }
}

static int read_operands(struct operand *operands, const struct operand_text *texts, const char *letters)
{
    int count = 0;
    for (; texts[count].axes; count++) {
        struct operand *operand = &operands[count];
        operand->id = texts[count].id;
        memset(operand->axis, -1, sizeof operand->axis);
        for (int dim = 0; texts[count].axes[dim]; dim++) {
            const char *found = strchr(letters, texts[count].axes[dim]);
            if (found)
                operand->axis[dim] = (int8_t)(found - letters);
        }
    }
    return count;
}

/* The fold of the axes that a value lacks says how its partial copies combine. */
static void adopt_output(struct graph *graph, const struct segment *segment, const struct operand *out)
{
    struct value *value = &graph->values[out->id];
    value->producer = graph->segment_count;
    for (int i = 0; i < segment->axis_count; i++)
        if (segment->axes[i].fold != FOLD_NONE && operand_dim(out, value->dim_count, i) < 0)
            value->partial = segment->axes[i].fold;
}

struct segment *builder_segment(struct graph_builder *builder, enum kernel kernel, const char *name, const char *axes,
                                const struct operand_text *in, const struct operand_text *weight,
                                const struct operand_text *out)
{
    struct graph *graph = builder->graph;
    if (!grow(builder, (void **)&graph->segments, graph->segment_count, &builder->segment_capacity,
              sizeof *graph->segments))
        return &builder->spare;
    const char *copy = arena_strdup(&graph->arena, name);
    if (!copy) {
        out_of_memory(builder);
        return &builder->spare;
    }
    char letters[MAX_AXES + 1] = "";
    struct segment *segment = &graph->segments[graph->segment_count];
    *segment = (struct segment){ .name = copy, .kernel = kernel, .layer = builder->layer };
    segment->operators = operator_set(name, (int)strlen(name));
    read_axes(builder, segment, axes, letters);
    segment->in_count = read_operands(segment->in, in, letters);
    segment->weight_count = read_operands(segment->weight, weight, letters);
    segment->out_count = read_operands(segment->out, out, letters);
    for (int i = 0; i < segment->out_count; i++)
        adopt_output(graph, segment, &segment->out[i]);
    graph->segment_count++;
    return segment;
}
