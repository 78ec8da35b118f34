#include "models/kinds/attention_parts.h"
#include "models/kinds/norm.h"
#include <math.h>
#include <stdio.h>

const char *const attention_matrix_names[] = { "q_proj", "k_proj", "v_proj", "o_proj", NULL };

/* The query, key or value matrix and its adapter, or the matrix of gates. */
static int project(struct graph_builder *builder, const char *name, enum attention_matrix which,
                   const struct attention_layer *f, int x)
{
    bool kv = which == MATRIX_K || which == MATRIX_V, bias = f->qkv_bias && !(f->bare_keys && which == MATRIX_K);
    char bias_name[16];
    const char *value_dims = kv ? "btmd" : "btnd", *weight_dims = kv ? "hmd" : "hnd", *bias_dims = kv ? "md" : "nd";
    snprintf(bias_name, sizeof bias_name, "%s_bias", name);
    int y = builder_value(builder, name, value_dims, ELEMENT_ACTIVATION, true);
    int matrix = builder_weight(builder, name, weight_dims, INIT_NORMAL, builder->init_std);
    if (bias) {
        int shift = builder_weight(builder, bias_name, bias_dims, INIT_ZERO, 0);
        builder_segment(builder, KERNEL_MATMUL, name, kv ? "bth+!md" : "bth+!nd", OPERANDS({ x, "bth" }),
                        OPERANDS({ matrix, weight_dims }, { shift, bias_dims }), OPERANDS({ y, value_dims }));
    } else {
        builder_segment(builder, KERNEL_MATMUL, name, kv ? "bth+md" : "bth+nd", OPERANDS({ x, "bth" }),
                        OPERANDS({ matrix, weight_dims }), OPERANDS({ y, value_dims }));
    }
    return build_lora(
        builder, &f->lora, (int)which,
        &(struct lora_matrix){ .name = name, .in = "h", .out = kv ? "md" : "nd", .input = x, .output = y });
}

/* Of queries or keys, over a head or over all of them. Where heads are shared out, those of the whole are gathered:
 * what the norm is taken over must lie together. */
static int norm_heads(struct graph_builder *builder, const char *name, char heads, int x,
                      const struct attention_layer *f)
{
    const bool whole = f->qk_norm == QK_NORM_WHOLE, of_head = f->qk_norm == QK_NORM_HEAD;
    const char dims[] = { 'b', 't', heads, 'd', 0 }, each[] = { heads, 'd', 0 }, row[] = { 'b', 't', heads, 0 };
    const char split[] = { 'b', 't', heads, 'd', '!', 0 }, together[] = { 'b', 't', heads, '!', 'd', '!', 0 };
    return build_norm_of(builder,
                         &(struct norm_of){ .name = name,
                                            .axes = whole ? together : split,
                                            .dims = dims,
                                            .weights = of_head ? "d" : each,
                                            .rows = whole ? "bt" : row,
                                            .norm = f->qk_norm == QK_NORM_NONE ? NORM_NONE : f->qk_norm_kind,
                                            .epsilon = f->norm_epsilon },
                         x);
}

static int rotate(struct graph_builder *builder, const char *name, const char *dims, int x,
                  const struct attention_layer *f)
{
    char axes[MAX_DIMS + 2] = { dims[0], dims[1], dims[2], dims[3], '!' };
    int y = builder_value(builder, name, dims, ELEMENT_ACTIVATION, true);
    struct segment *segment =
        builder_segment(builder, KERNEL_ROPE, name, axes, OPERANDS({ x, dims }), NO_OPERANDS, OPERANDS({ y, dims }));
    segment->arguments.rope_base = f->rope_base;
    segment->arguments.rope_dim = f->rope_dim == f->head_dim ? 0 : f->rope_dim;
    segment->arguments.rope_factor = f->rope_factor;
    segment->arguments.rope_low = f->rope_low;
    segment->arguments.rope_high = f->rope_high;
    segment->arguments.rope_original = (double)f->rope_original;
    return y;
}

/* What an element of the kept scores is; ELEMENT_ACTIVATION: they are not kept. */
static enum element kept_scores(const struct keeping *keeping, const struct attention_layer *f)
{
    return f->stored_scores                          ? ELEMENT_SCORES
           : keeping->eager_caps && f->score_cap > 0 ? ELEMENT_CAPPED_SCORES
           : keeping->eager_sinks && f->sinks        ? ELEMENT_SINK_SCORES
           : keeping->eager_alibi && f->alibi        ? ELEMENT_ALIBI_SCORES
                                                     : ELEMENT_ACTIVATION;
}

static int core(struct graph_builder *builder, const struct attention_layer *f, int q, int k, int v)
{
    enum element kept = kept_scores(&builder->graph->keeping, f);
    int o = builder_value(builder, "core", "btnd", ELEMENT_ACTIVATION, true);
    int lse = builder_value(builder, "core_lse", "btn", ELEMENT_STATISTIC, false), table = -1;
    enum kernel kernel = f->relative_table ? KERNEL_BIASED_ATTENTION
                         : f->sinks        ? KERNEL_SINK_ATTENTION
                                           : KERNEL_ATTENTION;
    if (f->relative_table) {
        char name[96];
        snprintf(name, sizeof name, "relative.%s", f->relative_table);
        builder_size(builder, 'r', f->relative_buckets);
        table = builder_shared(builder, name, "rn", INIT_NORMAL, builder->init_std);
    }
    if (f->sinks)
        table = builder_weight(builder, "sinks", "n", INIT_ZERO, 0);
    /* k and v are (b,t,m,d): their sequence is the key axis, their heads the query heads' axis, scaled. */
    int scores = kept == ELEMENT_ACTIVATION ? -1 : builder_value(builder, "core_scores", "btns", kept, false);
    struct segment *segment =
        builder_segment(builder, kernel, "core", "bts~nd!", OPERANDS({ q, "btnd" }, { k, "bsnd" }, { v, "bsnd" }),
                        OPERANDS({ table, table < 0  ? NULL
                                          : f->sinks ? "n"
                                                     : ".n" }),
                        OPERANDS({ o, "btnd" }, { lse, "btn" }, { scores, scores < 0 ? NULL : "btns" }));
    segment->arguments.scale = f->score_scale > 0 ? f->score_scale : 1 / sqrt((double)f->head_dim);
    segment->arguments.causal = f->causal;
    segment->arguments.sliding_window = f->sliding_window;
    segment->arguments.kv_heads = f->kv_heads;
    segment->arguments.score_cap = f->score_cap;
    segment->arguments.alibi = f->alibi;
    segment->arguments.kept_scores = kept;
    segment->arguments.relative_buckets = f->relative_table ? f->relative_buckets : 0;
    segment->arguments.relative_distance = f->relative_table ? f->relative_distance : 0;
    return o;
}

/* A second matrix beside the query's, whose heads let through what the core found. */
static int gate_heads(struct graph_builder *builder, const struct attention_layer *f, int x, int o)
{
    int gate = project(builder, "q_gate", MATRIX_Q_GATE, f, x);
    int y = builder_value(builder, "gated", "btnd", ELEMENT_ACTIVATION, true);
    builder_segment(builder, KERNEL_SIGMOID_GATE, "gated", "btnd", OPERANDS({ o, "btnd" }, { gate, "btnd" }),
                    NO_OPERANDS, OPERANDS({ y, "btnd" }));
    return y;
}

int build_attention(struct graph_builder *builder, const struct attention_layer *f, int x, int memory)
{
    builder_size(builder, 'n', f->heads);
    builder_size(builder, 'm', f->kv_heads);
    builder_size(builder, 'd', f->head_dim);
    int y = f->post_norm ? x : build_norm(builder, x, f->norm, f->norm_epsilon), from = memory < 0 ? y : memory;
    int q = project(builder, "q", MATRIX_Q, f, y);
    int k = project(builder, "k", MATRIX_K, f, from);
    int v = project(builder, "v", MATRIX_V, f, from);
    q = norm_heads(builder, "q_norm", 'n', q, f);
    k = norm_heads(builder, "k_norm", 'm', k, f);
    if (f->rope_base > 0) {
        q = rotate(builder, "rope_q", "btnd", q, f);
        k = rotate(builder, "rope_k", "btmd", k, f);
    }
    int o = core(builder, f, q, k, v);
    if (f->output_gate)
        o = gate_heads(builder, f, y, o);
    int p = builder_value(builder, "proj", "bth", ELEMENT_ACTIVATION, true);
    int matrix =
        builder_weight(builder, "proj", "ndh", INIT_NORMAL, f->post_norm ? builder->init_std : builder->residual_std);
    builder_segment(builder, KERNEL_MATMUL, "proj", "btn+d+h", OPERANDS({ o, "btnd" }), OPERANDS({ matrix, "ndh" }),
                    OPERANDS({ p, "bth" }));
    p = build_lora(builder, &f->lora, MATRIX_O,
                   &(struct lora_matrix){ .name = "proj", .in = "nd", .out = "h", .input = o, .output = p });
    /* The bias of a row-split matmul waits for the sum, or every part would add it. */
    const struct layer_output output = {
        .bias = f->output_bias, .norm = f->output_norm, .epsilon = f->norm_epsilon, .scale = f->residual_scale
    };
    int sum = build_output(builder, &output, f->residual ? x : -1, &p, 1);
    return f->post_norm ? build_norm(builder, sum, f->norm, f->norm_epsilon) : sum;
}
