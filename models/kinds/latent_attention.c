#include "models/kinds/attention_parts.h"
#include "models/kinds/norm.h"
#include "models/model.h"
#include <math.h>

static const struct latent_attention_layer latent_defaults = { .rope_base = 10000, .norm_epsilon = 1e-5 };

#define AT(field) .offset = offsetof(struct latent_attention_layer, field)
#define WIDTH(name, field, least, text)                                                                                \
    {                                                                                                                  \
        .key = name, .type = FIELD_INT, AT(field), .required = (least) > 0, .min = least, .max = 1 << 20, .doc = text  \
    }
static const struct json_field latent_fields[] = {
    LAYER_HEAD_FIELDS,
    WIDTH("heads", heads, 1, "Heads, of queries, keys and values alike."),
    WIDTH("query_rank", query_rank, 0,
          "Width of the latent vector that queries are made of, behind a norm; 0 or absent: the token itself."),
    WIDTH("kv_rank", kv_rank, 1, "Width of the latent vector that keys and values are made of, behind a norm."),
    WIDTH("plain_dim", plain_dim, 1, "Of a head's query and key the elements without position (qk_nope_head_dim)."),
    WIDTH("rope_dim", rope_dim, 2,
          "And those that turn with the position (qk_rope_head_dim); of the key they are the same for all heads."),
    WIDTH("value_dim", value_dim, 1, "Width of a head's value (v_head_dim)."),
    { .key = "rope_base",
      .type = FIELD_DOUBLE,
      AT(rope_base),
      .min = 1,
      .max = 1e12,
      .doc = "Base of rotary positions; 10000 if absent." },
    { .key = "score_scale",
      .type = FIELD_DOUBLE,
      AT(score_scale),
      .min = 0,
      .max = 1e6,
      .doc = "What scores are multiplied by; 1 / sqrt(plain_dim + rope_dim) if absent or 0." },
    { .key = "norm", .type = FIELD_ENUM, AT(norm), .required = true, .names = norm_names, .doc = "The layer's norm." },
    NORM_EPSILON_FIELD(latent_attention_layer),
    RESIDUAL_SCALE_FIELD(latent_attention_layer),
};
#undef AT

static bool latent_check(const struct model *model, const void *fields, const struct json *at, struct error *err)
{
    const struct latent_attention_layer *f = fields;
    (void)model;
    return f->rope_dim % 2 == 0 ||
           json_fail(json_at_key(at, "rope_dim"), err,
                     "rotary positions turn pairs: expected an even number, found %lld", (long long)f->rope_dim);
}

/* A matrix product: axes as builder_segment() takes them, dims of what it makes and of its matrix. */
static int product(struct graph_builder *builder, const char *name, const char *axes, int x, const char *from,
                   const char *to, const char *matrix)
{
    int y = builder_value(builder, name, to, ELEMENT_ACTIVATION, true);
    int weight = builder_weight(builder, name, matrix, INIT_NORMAL, builder->init_std);
    builder_segment(builder, KERNEL_MATMUL, name, axes, OPERANDS({ x, from }), OPERANDS({ weight, matrix }),
                    OPERANDS({ y, to }));
    return y;
}

/* What is narrow in between gets a norm of root mean squares. */
static int latent_norm(struct graph_builder *builder, const char *name, const char *dims, int x, double epsilon)
{
    char statistics_name[16] = { name[0], '_', 'r', 's', 't', 'd' };
    const char axes[] = { 'b', 't', dims[2], '+', '!', 0 }, width[] = { dims[2], 0 };
    int y = builder_value(builder, name, dims, ELEMENT_ACTIVATION, true);
    int rstd = builder_value(builder, statistics_name, "bt", ELEMENT_STATISTIC, false);
    int gain = builder_weight(builder, name, width, INIT_ONE, 0), wide = build_norm_input(builder, name, dims);
    struct segment *segment =
        builder_segment(builder, KERNEL_RMS_NORM, name, axes, OPERANDS({ x, dims }), OPERANDS({ gain, width }),
                        OPERANDS({ y, dims }, { rstd, "bt" }, { wide, wide < 0 ? NULL : dims }));
    segment->arguments.epsilon = epsilon;
    return y;
}

static int turn(struct graph_builder *builder, const char *name, const char *axes, const char *dims, int x,
                const struct latent_attention_layer *f, int64_t part)
{
    int y = builder_value(builder, name, dims, ELEMENT_ACTIVATION, true);
    struct segment *segment =
        builder_segment(builder, KERNEL_ROPE, name, axes, OPERANDS({ x, dims }), NO_OPERANDS, OPERANDS({ y, dims }));
    segment->arguments.rope_base = f->rope_base;
    segment->arguments.rope_dim = part;
    return y;
}

static int core(struct graph_builder *builder, const struct latent_attention_layer *f, int q, int k, int v)
{
    int o = builder_value(builder, "core", "btnw", ELEMENT_ACTIVATION, true);
    int lse = builder_value(builder, "core_lse", "btn", ELEMENT_STATISTIC, false);
    struct segment *segment = builder_segment(builder, KERNEL_ATTENTION, "core", "bts~nd!w!",
                                              OPERANDS({ q, "btnd" }, { k, "bsnd" }, { v, "bsnw" }), NO_OPERANDS,
                                              OPERANDS({ o, "btnw" }, { lse, "btn" }));
    segment->arguments.scale = f->score_scale > 0 ? f->score_scale : 1 / sqrt((double)(f->plain_dim + f->rope_dim));
    segment->arguments.causal = true;
    segment->arguments.kv_heads = f->heads;
    return o;
}

static bool latent_build(struct graph_builder *builder, const struct model *model, const void *fields,
                         struct error *err)
{
    const struct latent_attention_layer *f = fields;
    (void)model, (void)err;
    builder_size(builder, 'n', f->heads);
    builder_size(builder, 'm', 1);
    builder_size(builder, 'd', f->rope_dim + f->plain_dim);
    builder_size(builder, 'w', f->value_dim);
    builder_size(builder, 'x', f->plain_dim);
    builder_size(builder, 'y', f->rope_dim);
    builder_size(builder, 'o', f->query_rank);
    builder_size(builder, 'l', f->kv_rank);
    int x = builder->input, in = build_norm(builder, x, f->norm, f->norm_epsilon), q;
    if (f->query_rank > 0) {
        q = product(builder, "q_down", "bth+o", in, "bth", "bto", "ho");
        q = latent_norm(builder, "q_norm", "bto", q, f->norm_epsilon);
        q = product(builder, "q", "bto+nd", q, "bto", "btnd", "ond");
    } else {
        q = product(builder, "q", "bth+nd", in, "bth", "btnd", "hnd");
    }
    q = turn(builder, "rope_q", "btnd!", "btnd", q, f, f->rope_dim);
    int c = product(builder, "kv_down", "bth+l", in, "bth", "btl", "hl");
    c = latent_norm(builder, "kv_norm", "btl", c, f->norm_epsilon);
    int turned = product(builder, "k_rope", "bth+m!y", in, "bth", "btmy", "hmy");
    turned = turn(builder, "rope_k", "btm!y!", "btmy", turned, f, 0);
    int plain = product(builder, "k", "btl+nx", c, "btl", "btnx", "lnx");
    int v = product(builder, "v", "btl+nw", c, "btl", "btnw", "lnw");
    int k = builder_value(builder, "join_k", "btnd", ELEMENT_ACTIVATION, true);
    builder_segment(builder, KERNEL_JOIN, "join_k", "btnd!", OPERANDS({ turned, "bt.d" }, { plain, "btnd" }),
                    NO_OPERANDS, OPERANDS({ k, "btnd" }));
    int o = core(builder, f, q, k, v), p = builder_value(builder, "proj", "bth", ELEMENT_ACTIVATION, true);
    int matrix = builder_weight(builder, "proj", "nwh", INIT_NORMAL, builder->residual_std);
    builder_segment(builder, KERNEL_MATMUL, "proj", "btn+w+h", OPERANDS({ o, "btnw" }), OPERANDS({ matrix, "nwh" }),
                    OPERANDS({ p, "bth" }));
    builder->output = build_output(builder, &(struct layer_output){ .scale = f->residual_scale }, x, &p, 1);
    return true;
}

extern const struct layer_kind latent_attention_kind;
const struct layer_kind latent_attention_kind = {
    .name = "latent_attention",
    .place = CHAIN_BODY,
    .mixes = true,
    .min_inputs = 1,
    .max_inputs = 1,
    .doc =
        "Norm, multi-head latent attention, residual sum (DeepSeek-AI 2024, DeepSeek-V2, section 2.1): queries, keys "
        "and values are made of narrow vectors.",
    .fields = latent_fields,
    .field_count = sizeof latent_fields / sizeof *latent_fields,
    .fields_bytes = sizeof(struct latent_attention_layer),
    .defaults = &latent_defaults,
    .check = latent_check,
    .build = latent_build,
};
