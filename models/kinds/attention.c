#include "models/builder.h"
#include "models/kinds/layers.h"
#include "models/kinds/norm.h"
#include "models/model.h"
#include <math.h>

static const struct attention_layer attention_defaults = { .causal = true, .norm_epsilon = 1e-5 };

#define AT(field) .offset = offsetof(struct attention_layer, field)
static const struct json_field attention_fields[] = {
    LAYER_HEAD_FIELDS,
    { .key = "heads", .type = FIELD_INT, AT(heads), .required = true, .min = 1, .max = 1 << 20, .doc = "Query heads." },
    { .key = "kv_heads",
      .type = FIELD_INT,
      AT(kv_heads),
      .min = 1,
      .max = 1 << 20,
      .doc = "Key and value heads, a divisor of heads (Ainslie et al. 2023); heads if absent." },
    { .key = "head_dim",
      .type = FIELD_INT,
      AT(head_dim),
      .min = 1,
      .max = 1 << 20,
      .doc = "Width of a head; hidden / heads if absent." },
    { .key = "causal",
      .type = FIELD_BOOL,
      AT(causal),
      .doc = "A token sees only itself and earlier ones; true if absent." },
    { .key = "qkv_bias",
      .type = FIELD_BOOL,
      AT(qkv_bias),
      .doc = "Biases after the query, key and value matrices; false if absent." },
    { .key = "output_bias",
      .type = FIELD_BOOL,
      AT(output_bias),
      .doc = "Bias after the output matrix; false if absent." },
    { .key = "rope_base",
      .type = FIELD_DOUBLE,
      AT(rope_base),
      .min = 0,
      .max = 1e12,
      .doc = "Base of rotary positions (10000 in Su et al. 2021); 0 or absent: none." },
    { .key = "norm", .type = FIELD_ENUM, AT(norm), .required = true, .names = norm_names, .doc = "The layer's norm." },
    { .key = "post_norm",
      .type = FIELD_BOOL,
      AT(post_norm),
      .doc = "The norm follows the residual sum (BERT) instead of opening the layer; false if absent." },
    { .key = "norm_epsilon",
      .type = FIELD_DOUBLE,
      AT(norm_epsilon),
      .min = 0,
      .max = 1,
      .doc = "Added to the variance inside the norm." },
};
#undef AT

static void attention_resolve(const struct model *model, void *fields)
{
    struct attention_layer *f = fields;
    if (!f->kv_heads)
        f->kv_heads = f->heads;
    if (!f->head_dim && f->heads && model->hidden % f->heads == 0)
        f->head_dim = model->hidden / f->heads;
}

static bool attention_check(const struct model *model, const void *fields, const struct json *at, struct error *err)
{
    const struct attention_layer *f = fields;
    if (!f->head_dim)
        return json_fail(json_at_key(at, "heads"), err,
                         "expected a divisor of hidden (%lld), or head_dim beside it, found %lld",
                         (long long)model->hidden, (long long)f->heads);
    if (f->heads % f->kv_heads)
        return json_fail(json_at_key(at, "kv_heads"), err, "expected a divisor of heads (%lld), found %lld",
                         (long long)f->heads, (long long)f->kv_heads);
    if (f->rope_base > 0 && f->head_dim % 2)
        return json_fail(json_at_key(at, "rope_base"), err,
                         "rotary positions turn pairs: expected an even head_dim, found %lld", (long long)f->head_dim);
    return true;
}

static int project(struct graph_builder *builder, const char *name, bool kv, bool bias, int x)
{
    char bias_name[16] = { name[0], '_', 'b', 'i', 'a', 's' };
    const char *value_dims = kv ? "btmd" : "btnd", *weight_dims = kv ? "hmd" : "hnd", *bias_dims = kv ? "md" : "nd";
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
    return y;
}

static int rotate(struct graph_builder *builder, const char *name, const char *dims, int x, double base)
{
    char axes[MAX_DIMS + 2] = { dims[0], dims[1], dims[2], dims[3], '!' };
    int y = builder_value(builder, name, dims, ELEMENT_ACTIVATION, true);
    struct segment *segment =
        builder_segment(builder, KERNEL_ROPE, name, axes, OPERANDS({ x, dims }), NO_OPERANDS, OPERANDS({ y, dims }));
    segment->arguments.rope_base = base;
    return y;
}

static int core(struct graph_builder *builder, const struct attention_layer *f, int q, int k, int v)
{
    int o = builder_value(builder, "core", "btnd", ELEMENT_ACTIVATION, true);
    int lse = builder_value(builder, "core_lse", "btn", ELEMENT_STATISTIC, false);
    /* k and v are (b,t,m,d): their sequence is the key axis, their heads the query heads' axis, scaled. */
    struct segment *segment = builder_segment(builder, KERNEL_ATTENTION, "core", "bts~nd!",
                                              OPERANDS({ q, "btnd" }, { k, "bsnd" }, { v, "bsnd" }), NO_OPERANDS,
                                              OPERANDS({ o, "btnd" }, { lse, "btn" }));
    segment->arguments.scale = 1 / sqrt((double)f->head_dim);
    segment->arguments.causal = f->causal;
    segment->arguments.kv_heads = f->kv_heads;
    return o;
}

static bool attention_build(struct graph_builder *builder, const struct model *model, const void *fields,
                            struct error *err)
{
    const struct attention_layer *f = fields;
    (void)model, (void)err;
    builder_size(builder, 'n', f->heads);
    builder_size(builder, 'm', f->kv_heads);
    builder_size(builder, 'd', f->head_dim);
    int x = builder->input, y = f->post_norm ? x : build_norm(builder, x, f->norm, f->norm_epsilon);
    int q = project(builder, "q", false, f->qkv_bias, y);
    int k = project(builder, "k", true, f->qkv_bias, y);
    int v = project(builder, "v", true, f->qkv_bias, y);
    if (f->rope_base > 0) {
        q = rotate(builder, "rope_q", "btnd", q, f->rope_base);
        k = rotate(builder, "rope_k", "btmd", k, f->rope_base);
    }
    int o = core(builder, f, q, k, v);
    int p = builder_value(builder, "proj", "bth", ELEMENT_ACTIVATION, true);
    int matrix =
        builder_weight(builder, "proj", "ndh", INIT_NORMAL, f->post_norm ? builder->init_std : builder->residual_std);
    builder_segment(builder, KERNEL_MATMUL, "proj", "btn+d+h", OPERANDS({ o, "btnd" }), OPERANDS({ matrix, "ndh" }),
                    OPERANDS({ p, "bth" }));
    /* The bias of a row-split matmul waits for the sum, or every part would add it. */
    int sum = build_residual(builder, x, p, f->output_bias);
    builder->output = f->post_norm ? build_norm(builder, sum, f->norm, f->norm_epsilon) : sum;
    return true;
}

extern const struct layer_kind attention_kind;
const struct layer_kind attention_kind = {
    .name = "attention",
    .place = CHAIN_BODY,
    .doc = "Norm, multi-head or grouped-query attention, residual sum (Vaswani et al. 2017; Ainslie et al. 2023).",
    .fields = attention_fields,
    .field_count = sizeof attention_fields / sizeof *attention_fields,
    .fields_bytes = sizeof(struct attention_layer),
    .defaults = &attention_defaults,
    .resolve = attention_resolve,
    .check = attention_check,
    .build = attention_build,
};
