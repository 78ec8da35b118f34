#include "base/num.h"
#include "models/graph.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const phase_names[PHASE_COUNT + 1] = { "forward", "backward_input", "backward_weight", "step", NULL };
const char *const dtype_names[DTYPE_COUNT + 1] = { "fp32", "fp64", "bf16", "fp16", "fp8", "nvfp4", NULL };

bool dtype_is_of_products(enum dtype dtype)
{
    return dtype == DTYPE_FP8 || dtype == DTYPE_NVFP4;
}

int64_t weight_bytes_per_element(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_FP64:
        return 8;
    case DTYPE_FP32:
        return 4;
    case DTYPE_BF16:
    case DTYPE_FP16:
    case DTYPE_FP8:
    case DTYPE_NVFP4: /* what is stored and sent stays in 16 bit */
        return 2;
    case DTYPE_COUNT:
        break;
    }
    return 0;
}

int64_t element_bytes(enum dtype dtype, enum element element)
{
    switch (element) {
    case ELEMENT_ACTIVATION:
        return weight_bytes_per_element(dtype);
    case ELEMENT_OPERAND:
        return dtype_is_of_products(dtype) ? 1 : weight_bytes_per_element(dtype);
    case ELEMENT_STATISTIC:
        return dtype == DTYPE_FP64 ? 8 : 4;
    case ELEMENT_INDEX:
        return 4;
    case ELEMENT_SCORES:
        return 2 * weight_bytes_per_element(dtype) + 1;
    case ELEMENT_CAPPED_SCORES:
        return weight_bytes_per_element(dtype) + element_bytes(dtype, ELEMENT_ALIBI_SCORES);
    case ELEMENT_SINK_SCORES:
        return weight_bytes_per_element(dtype);
    case ELEMENT_DROPPED:
        return weight_bytes_per_element(dtype) + 1;
    case ELEMENT_CLAMPED_GATES:
        return 4 * weight_bytes_per_element(dtype);
    case ELEMENT_ALIBI_SCORES: /* what is in fp32 already is not converted */
        return weight_bytes_per_element(dtype) + (weight_bytes_per_element(dtype) < 4 ? 4 : 0);
    }
    return 0;
}

int64_t value_bytes_per_element(const struct graph *graph, int value, enum dtype dtype, bool gradient)
{
    enum element element = graph->values[value].element;
    bool narrow = element == ELEMENT_OPERAND || element == ELEMENT_DROPPED;
    return element_bytes(dtype, gradient && narrow ? ELEMENT_ACTIVATION : element);
}

int64_t gradient_bytes_per_element(enum dtype dtype)
{
    return element_bytes(dtype, ELEMENT_STATISTIC);
}

/* Saturates: graph_build() refuses graphs where that happens at full extents. */
static int64_t product(int64_t a, int64_t b)
{
    int64_t result = INT64_MAX;
    mul_i64(&result, a, b);
    return result;
}

static int64_t points(const struct segment *segment, const int64_t extents[MAX_AXES])
{
    int64_t result = 1;
    for (int i = 0; i < segment->axis_count; i++)
        result = product(result, extents[i]);
    return result;
}

static int64_t tag_extent(const struct segment *segment, const int64_t extents[MAX_AXES], enum axis_tag tag)
{
    int axis = segment_axis(segment, tag);
    return axis >= 0 ? extents[axis] : 1;
}

static int64_t tag_size(const struct segment *segment, enum axis_tag tag)
{
    int axis = segment_axis(segment, tag);
    return axis >= 0 ? segment->axes[axis].size : 1;
}

static bool tag_whole(const struct segment *segment, const int64_t extents[MAX_AXES], enum axis_tag tag)
{
    return tag_extent(segment, extents, tag) == tag_size(segment, tag);
}

/* Width of a value's head: its own, where that is another than that of queries and keys. */
static int64_t value_width(const struct segment *segment, const int64_t extents[MAX_AXES])
{
    int axis = segment->in[2].axis[3];
    return axis < 0 ? 1 : extents[axis];
}

/* Pairs of a query and a key that one of the last `sliding_window` tokens is, or all of the triangle; where attention
 * looks ahead too, one of half as many before it and behind it. */
static int64_t seen_pairs(const struct kernel_arguments *arguments, int64_t tokens)
{
    if (!arguments->causal) {
        int64_t half = min_i64(arguments->sliding_window / 2, tokens - 1);
        return product(tokens, 2 * half + 1) - product(half, half + 1);
    }
    int64_t window = arguments->sliding_window > 0 ? min_i64(arguments->sliding_window, tokens) : tokens;
    return product(window, 2 * tokens - window + 1) / 2;
}

static bool triangular(const struct segment *segment, const int64_t extents[MAX_AXES])
{
    return segment->arguments.causal && tag_whole(segment, extents, TAG_SEQUENCE) &&
           tag_whole(segment, extents, TAG_KEY);
}

/* Two blocks of queries, one as far from the beginning as the other from the end, see one of any two such blocks of
 * keys each, or one of them both; of their own, half and as many as a block has queries. */
static bool halved(const struct segment *segment, const int64_t extents[MAX_AXES])
{
    return segment->arguments.balanced && !tag_whole(segment, extents, TAG_SEQUENCE);
}

/* Forward: q k^T and p v, two products of 2 flops per (query, key, head dim). Backward: scores again, then the
 * gradients of v, p, q and k: five products (Dao et al. 2022, algorithm 4), of which three are as wide as keys and two
 * as values. The gradient of biases: scores and the gradient of p once more. Softmax is not counted, as is the custom.
 * Where scores are kept, all of them are computed, and not again. Of a part of a sequence under a sliding window as
 * many pairs are counted as the part has on average. */
static int64_t attention_flops(const struct segment *segment, enum phase phase, const int64_t extents[MAX_AXES])
{
    static const int64_t as_key[PHASE_COUNT] = { 2, 6, 2, 0 }, as_value[PHASE_COUNT] = { 2, 4, 2, 0 };
    int64_t all = 1, tokens = tag_size(segment, TAG_KEY), key_width = extents[segment->in[0].axis[3]],
            width = value_width(segment, extents), window = segment->arguments.sliding_window,
            reach = segment->arguments.causal ? window : window / 2 + 1;
    bool kept = segment_keeps_scores(segment), whole = triangular(segment, extents);
    for (int i = 0; i < segment->axis_count; i++)
        all = product(all, segment->axes[i].tag == TAG_HEAD_DIM ? 1 : extents[i]);
    if (segment->kernel == KERNEL_SINK_ATTENTION && phase == PHASE_BACKWARD_WEIGHT) /* looks at no key */
        return product(all / max_i64(tag_extent(segment, extents, TAG_KEY), 1), product(2, width));
    int64_t each =
        product(key_width, kept && phase == PHASE_BACKWARD_INPUT ? 4 : as_key[phase]) + product(width, as_value[phase]);
    if (whole && !kept && tokens > 0)
        all = product(all / tokens / tokens, seen_pairs(&segment->arguments, tokens));
    else if (window > 0 && reach < tokens && !kept)
        all = (int64_t)((double)all * (double)seen_pairs(&segment->arguments, tokens) /
                        ((double)tokens * (double)tokens));
    else if (halved(segment, extents) && !kept)
        all /= 2;
    return product(all, each);
}

int64_t relative_bucket(const struct kernel_arguments *arguments, int64_t query, int64_t key)
{
    int64_t buckets = arguments->relative_buckets, first = 0, distance = query - key;
    if (!arguments->causal) {
        buckets /= 2;
        first = distance < 0 ? buckets : 0;
        distance = distance < 0 ? -distance : distance;
    }
    int64_t exact = buckets / 2;
    if (distance < exact)
        return first + max_i64(distance, 0);
    double wide = log((double)distance / (double)exact) / log((double)arguments->relative_distance / (double)exact);
    return first + min_i64(buckets - 1, exact + (int64_t)(wide * (double)(buckets - exact)));
}

double alibi_slope(int64_t head, int64_t heads)
{
    int64_t power = 1;
    while (2 * power <= heads)
        power *= 2;
    double place =
        head < power ? (double)(head + 1) / (double)power : (double)(2 * (head - power) + 1) / (2 * (double)power);
    return exp2(-8 * place);
}

/* One row is picked per token: the vocabulary is looked at, not walked through. A part of it is hit in proportion. */
static int64_t picked_points(const struct segment *segment, const int64_t extents[MAX_AXES])
{
    return points(segment, extents) / tag_size(segment, TAG_VOCAB);
}

/* Operations per point of forward, input gradient and weight gradient, counted in the formulas of kernels.def with
 * every add, multiply, division, root and transcendental as one, statistics reread where the masks say so. */
static int64_t operations(const struct segment *segment, enum phase phase)
{
    static const uint8_t counts[KERNEL_COUNT][3] = {
        [KERNEL_MATMUL] = { 2, 2, 2 },       [KERNEL_EMBED] = { 0, 0, 1 },          [KERNEL_ADD_POSITION] = { 1, 1, 1 },
        [KERNEL_LAYER_NORM] = { 8, 12, 5 },  [KERNEL_RMS_NORM] = { 4, 9, 3 },       [KERNEL_ROPE] = { 3, 3, 0 },
        [KERNEL_GELU] = { 9, 20, 0 },        [KERNEL_SWIGLU] = { 5, 14, 0 },        [KERNEL_LOGIT_MAX] = { 1, 0, 0 },
        [KERNEL_SUM_EXP] = { 3, 4, 0 },      [KERNEL_PICK] = { 1, 1, 0 },           [KERNEL_NLL] = { 5, 4, 0 },
        [KERNEL_GELU_ERF] = { 5, 12, 0 },    [KERNEL_RELU] = { 1, 1, 0 },           [KERNEL_GEGLU] = { 10, 22, 0 },
        [KERNEL_CONV] = { 2, 2, 2 },         [KERNEL_GROUP_NORM] = { 8, 12, 5 },    [KERNEL_CLASS_TOKEN] = { 0, 0, 1 },
        [KERNEL_JOIN] = { 0, 1, 0 },         [KERNEL_SQUARED_RELU] = { 2, 3, 0 },   [KERNEL_QUICK_GELU] = { 4, 9, 0 },
        [KERNEL_SILU] = { 3, 8, 0 },         [KERNEL_SOFT_CAP] = { 3, 5, 0 },       [KERNEL_GEGLU_ERF] = { 6, 14, 0 },
        [KERNEL_SIGMOID_GATE] = { 3, 8, 0 }, [KERNEL_TOKEN_GATE] = { 1, 3, 0 },     [KERNEL_CLAMPED] = { 10, 20, 0 },
        [KERNEL_GATED_NORM] = { 9, 23, 8 },  [KERNEL_PASS_WITH_LOSS] = { 0, 1, 0 },
    };
    const struct window *window = &segment->arguments.window;
    const int64_t looking = window->height * window->width;
    const int64_t greatest[3] = { looking, looking + 1, 0 }, averaging[3] = { looking + 1, looking + 1, 0 };
    const int64_t choices = segment->arguments.choices;
    const int64_t routing[3] = { choices + 3, 8, 0 }, dispatching[3] = { 0, choices, 0 },
                  combining[3] = { 2 * choices, 3 * choices, 0 };
    if (segment->kernel == KERNEL_ROUTE)
        return routing[phase];
    if (segment->kernel == KERNEL_DISPATCH)
        return dispatching[phase];
    if (segment->kernel == KERNEL_COMBINE)
        return combining[phase];
    if (segment->kernel == KERNEL_MAX_POOL)
        return greatest[phase];
    if (segment->kernel == KERNEL_AVERAGE_POOL)
        return averaging[phase];
    if (segment->kernel != KERNEL_RESIDUAL)
        return counts[segment->kernel][phase];
    switch (phase) {
    case PHASE_FORWARD:
        return segment->in_count - 1 + segment->weight_count;
    case PHASE_BACKWARD_INPUT:
        return segment->in_count;
    case PHASE_BACKWARD_WEIGHT:
        return segment->weight_count;
    case PHASE_STEP:
    case PHASE_COUNT:
        break;
    }
    return 0;
}

/* Slots that do not count are skipped. */
static int64_t filled_part(const struct segment *segment, int64_t operations)
{
    double fill = segment->arguments.expected_fill;
    return fill > 0 && fill < 1 ? (int64_t)((double)operations * fill) : operations;
}

int64_t segment_flops(const struct segment *segment, enum phase phase, const int64_t extents[MAX_AXES])
{
    if (phase >= PHASE_STEP) /* the update is bound by memory and priced per stored element */
        return 0;
    if (phase == PHASE_BACKWARD_WEIGHT && segment->weight_count == 0)
        return 0;
    switch (segment->kernel) {
    case KERNEL_ATTENTION:
    case KERNEL_BIASED_ATTENTION:
    case KERNEL_SINK_ATTENTION:
        return attention_flops(segment, phase, extents);
    case KERNEL_EMBED:
    case KERNEL_PICK:
        return product(picked_points(segment, extents), operations(segment, phase));
    case KERNEL_SHORT_CONV:
    case KERNEL_SELECTIVE_SCAN:
    case KERNEL_CHUNK_SCAN:
    case KERNEL_DELTA_SCAN:
        return scan_flops(segment, phase, extents);
    case KERNEL_OPAQUE:
        return 0; /* a given time instead: segment_opaque_ns() */
    case KERNEL_MATMUL:
        return filled_part(segment, product(points(segment, extents), operations(segment, phase)));
    case KERNEL_CLASS_TOKEN: /* one position of all */
        return product(points(segment, extents) / tag_size(segment, TAG_SEQUENCE), operations(segment, phase));
    case KERNEL_CONV: /* points of windows outside the image count as well, as is the custom */
    case KERNEL_GROUP_NORM:
    case KERNEL_MAX_POOL:
    case KERNEL_AVERAGE_POOL:
    case KERNEL_GATED_NORM:
    case KERNEL_PASS_WITH_LOSS:
    case KERNEL_CLAMPED:
    case KERNEL_TOKEN_GATE:
    case KERNEL_ROUTE:
    case KERNEL_DISPATCH:
    case KERNEL_COMBINE:
    case KERNEL_ADD_POSITION:
    case KERNEL_LAYER_NORM:
    case KERNEL_RMS_NORM:
    case KERNEL_ROPE:
    case KERNEL_RESIDUAL:
    case KERNEL_GELU:
    case KERNEL_GELU_ERF:
    case KERNEL_RELU:
    case KERNEL_SQUARED_RELU:
    case KERNEL_QUICK_GELU:
    case KERNEL_SILU:
    case KERNEL_SOFT_CAP:
    case KERNEL_JOIN:
    case KERNEL_GEGLU:
    case KERNEL_GEGLU_ERF:
    case KERNEL_SIGMOID_GATE:
    case KERNEL_SWIGLU:
    case KERNEL_LOGIT_MAX:
    case KERNEL_SUM_EXP:
    case KERNEL_NLL:
        return product(points(segment, extents), operations(segment, phase));
    case KERNEL_COUNT:
        break;
    }
    return 0;
}

int64_t segment_scratch_elements(const struct graph *graph, const struct segment *segment, enum phase phase,
                                 const int64_t extents[MAX_AXES])
{
    int64_t copies = !graph || segment->kernel != KERNEL_SUM_EXP ? 0
                     : phase == PHASE_FORWARD                    ? graph->keeping.loss_copies_logits
                     : phase == PHASE_BACKWARD_INPUT             ? graph->keeping.loss_backward_copies
                                                                 : 0;
    if (copies > 0 && phase == PHASE_BACKWARD_INPUT && !tag_whole(segment, extents, TAG_VOCAB))
        copies += graph->keeping.loss_sharded_copies;
    if (copies > 0)
        return product(copies, product(product(tag_extent(segment, extents, TAG_BATCH),
                                               tag_extent(segment, extents, TAG_SEQUENCE)),
                                       tag_extent(segment, extents, TAG_VOCAB)));
    if (segment->kernel == KERNEL_ROUTE && phase == PHASE_BACKWARD_INPUT) /* per expert: probability, its slope */
        return product(2, tag_extent(segment, extents, TAG_ROUTE));
    /* What experts are chosen by. */
    if (segment->kernel == KERNEL_ROUTE && phase == PHASE_FORWARD && segment_ranks_experts(segment))
        return tag_extent(segment, extents, TAG_ROUTE);
    if (segment->kernel == KERNEL_CONV && phase <= PHASE_BACKWARD_WEIGHT) { /* windows as rows of a matrix */
        const struct window *window = &segment->arguments.window;
        return product(min_i64(CONV_TILE_POSITIONS, tag_extent(segment, extents, TAG_SEQUENCE)),
                       product(window->height * window->width, tag_extent(segment, extents, TAG_HIDDEN)));
    }
    bool biased = segment->kernel == KERNEL_BIASED_ATTENTION;
    if (!kernel_facts[segment->kernel].attends || phase > (biased ? PHASE_BACKWARD_WEIGHT : PHASE_BACKWARD_INPUT))
        return 0;
    /* A tile of scores and of their gradients, a tile of outputs and of query gradients; a bucket for each distance
     * between the range's queries and keys. */
    int64_t keys = tag_extent(segment, extents, TAG_KEY),
            head_dim = max_i64(tag_extent(segment, extents, TAG_HEAD_DIM), value_width(segment, extents));
    int64_t distances = biased ? keys + tag_extent(segment, extents, TAG_SEQUENCE) : 0;
    return product(2 * ATTENTION_TILE_ROWS, keys + head_dim) + distances;
}

int64_t segment_opaque_ns(const struct segment *segment, enum phase phase, const int64_t extents[MAX_AXES])
{
    int64_t batch = tag_extent(segment, extents, TAG_BATCH);
    switch (phase) {
    case PHASE_FORWARD:
        return product(batch, segment->arguments.opaque_forward_ns);
    case PHASE_BACKWARD_INPUT:
        return product(batch, segment->arguments.opaque_backward_ns);
    case PHASE_BACKWARD_WEIGHT:
        return product(batch, segment->arguments.opaque_weight_ns);
    case PHASE_STEP:
    case PHASE_COUNT:
        break;
    }
    return 0;
}

static const char *fold_mark(enum fold fold)
{
    switch (fold) {
    case FOLD_NONE:
        return "";
    case FOLD_SUM:
        return "+";
    case FOLD_MAX:
        return "^";
    case FOLD_LSE:
        return "~";
    }
    return "";
}

void segment_work_name(const struct segment *segment, enum phase phase, const int64_t extents[MAX_AXES],
                       char out[WORK_NAME_BYTES])
{
    static const char letters[TAG_COUNT] = {
        [TAG_NONE] = 'x',  [TAG_BATCH] = 'b',    [TAG_SEQUENCE] = 't', [TAG_KEY] = 's',
        [TAG_HEAD] = 'n',  [TAG_HEAD_DIM] = 'd', [TAG_HIDDEN] = 'h',   [TAG_FFN] = 'f',
        [TAG_VOCAB] = 'v', [TAG_EXPERT] = 'e',   [TAG_ROUTE] = 'r',    [TAG_CAPACITY] = 'c'
    };
    int used = snprintf(out, WORK_NAME_BYTES, "%s.%s", kernel_facts[segment->kernel].name, phase_names[phase]);
    for (int i = 0; i < segment->axis_count; i++)
        used += snprintf(out + used, (size_t)(WORK_NAME_BYTES - used), " %c%lld%s", letters[segment->axes[i].tag],
                         (long long)extents[i], fold_mark(segment->axes[i].fold));
    const struct kernel_arguments *a = &segment->arguments;
    size_t room = (size_t)(WORK_NAME_BYTES - used);
    if (kernel_facts[segment->kernel].attends) {
        int64_t heads = tag_extent(segment, extents, TAG_HEAD), all = tag_size(segment, TAG_HEAD);
        used += snprintf(out + used, room, " kv%lld%s", (long long)ceil_div(heads * a->kv_heads, all),
                         segment_keeps_scores(segment)  ? " scores"
                         : triangular(segment, extents) ? " causal"
                         : halved(segment, extents)     ? " halved"
                                                        : "");
        if (a->sliding_window > 0)
            used += snprintf(out + used, (size_t)(WORK_NAME_BYTES - used), " last%lld", (long long)a->sliding_window);
        if (a->score_cap > 0 || a->alibi)
            snprintf(out + used, (size_t)(WORK_NAME_BYTES - used), "%s", a->alibi ? " alibi" : " cap");
    } else if (segment->kernel == KERNEL_RESIDUAL) {
        snprintf(out + used, room, " in%d%s", segment->in_count, segment->weight_count ? " bias" : "");
    } else if (a->window.height > 0) {
        const struct window *w = &a->window;
        snprintf(out + used, room, " image%lldx%lld window%lldx%lld/%lld+%lld%s", (long long)w->rows,
                 (long long)w->columns, (long long)w->height, (long long)w->width, (long long)w->stride,
                 (long long)w->padding, segment->weight_count > 1 ? " bias" : "");
    } else if (a->channels_per_group > 0) {
        snprintf(out + used, room, " of%lld", (long long)a->channels_per_group);
    } else if (segment->kernel == KERNEL_MATMUL) {
        used += snprintf(out + used, room, "%s", segment->weight_count > 1 ? " bias" : "");
        if (a->expected_fill > 0)
            snprintf(out + used, (size_t)(WORK_NAME_BYTES - used), " fill%.3g", a->expected_fill);
    } else if (a->choices > 0) {
        snprintf(out + used, room, " top%lld experts%lldx%lld/%lld", (long long)a->choices, (long long)a->experts,
                 (long long)a->slots, (long long)a->group);
    } else if (kernel_facts[segment->kernel].scans || a->taps > 0) {
        snprintf(out + used, room, " taps%lld state%lld chunk%lld groups%lld", (long long)a->taps, (long long)a->state,
                 (long long)a->chunk, (long long)a->state_groups);
    } else if (segment->kernel == KERNEL_OPAQUE) {
        snprintf(out + used, room, " %lldns", (long long)segment_opaque_ns(segment, phase, extents));
    }
}
