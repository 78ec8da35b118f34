/* Attention whose keys and values are written into a state by the delta rule: for planning, as state_space is. */
#include "models/kinds/norm.h"
#include "models/kinds/scan_parts.h"
#include "models/model.h"

static const struct linear_attention_layer linear_defaults = {
    .taps = 4, .chunk = 64, .residual = true, .norm_epsilon = 1e-5
};

#define AT(field) .offset = offsetof(struct linear_attention_layer, field)
#define SIZE(name, field, least, text)                                                                                 \
    {                                                                                                                  \
        .key = name, .type = FIELD_INT, AT(field), .required = (least) > 0, .min = least, .max = 1 << 28, .doc = text  \
    }
static const struct json_field linear_fields[] = {
    LAYER_HEAD_FIELDS,
    SIZE("heads", heads, 1, "Heads of values, gates and states."),
    SIZE("key_heads", key_heads, 1, "Heads of queries and keys, a divisor of heads."),
    SIZE("key_dim", key_dim, 1, "Width of a head's query and key."),
    SIZE("value_dim", value_dim, 1, "Width of a head's value."),
    SIZE("taps", taps, 0, "Tokens that the convolutions of queries, keys and values look at; 4 if absent."),
    SIZE("chunk", chunk, 0, "Tokens that are scanned as a product of matrices; 64 if absent."),
    SIZE("gate_rank", gate_rank, 0,
         "Width between the two matrices that make the gate; one matrix makes it if absent or 0."),
    SIZE("decay_rank", decay_rank, 0,
         "Width between the two matrices that make a decay for each element of a key (Kimi Linear); one of each head, "
         "made by one matrix, if absent or 0."),
    { .key = "norm", .type = FIELD_ENUM, AT(norm), .required = true, .names = norm_names, .doc = "The layer's norm." },
    RESIDUAL_FIELD(linear_attention_layer),
    OUTPUT_NORM_FIELD(linear_attention_layer),
    RESIDUAL_SCALE_FIELD(linear_attention_layer),
    NORM_EPSILON_FIELD(linear_attention_layer),
};
#undef AT
#undef SIZE

static bool linear_check(const struct model *model, const void *fields, const struct json *at, struct error *err)
{
    const struct linear_attention_layer *f = fields;
    (void)model;
    if (f->heads % f->key_heads)
        return json_fail(json_at_key(at, "key_heads"), err, "expected a divisor of heads (%lld), found %lld",
                         (long long)f->heads, (long long)f->key_heads);
    if (f->taps < 1 || f->chunk < 1)
        return json_fail(json_at_key(at, f->taps < 1 ? "taps" : "chunk"), err, "expected 1 or more tokens, found 0");
    return check_output(f->output_norm, f->residual_scale, false, f->residual, at, err);
}

static int scan(struct graph_builder *builder, const struct linear_attention_layer *f, int q, int k, int v, int rates)
{
    const char *each = f->decay_rank ? "nd" : "n";
    int decay = builder_weight(builder, "a_log", "n", INIT_ONE, 0),
        bias = builder_weight(builder, "dt_bias", each, INIT_ONE, 0);
    int y = builder_value(builder, "scan", "btnw", ELEMENT_ACTIVATION, true);
    int decays = builder_value(builder, "scan_decays", "btn", ELEMENT_STATISTIC, false);
    struct segment *segment =
        builder_segment(builder, KERNEL_DELTA_SCAN, "scan", "bt!nd!w!",
                        OPERANDS({ q, "btnd" }, { k, "btnd" }, { v, "btnw" }, { rates, "btn." }),
                        OPERANDS({ decay, "n" }, { bias, each }), OPERANDS({ y, "btnw" }, { decays, "btn" }));
    segment->arguments.chunk = f->chunk;
    segment->arguments.state = f->key_dim;
    segment->arguments.state_groups = f->key_heads;
    return y;
}

/* A product, or two with a narrow vector between them. */
static int through(struct graph_builder *builder, int64_t rank, const char *down, int x, const struct projection *one,
                   const struct projection *second)
{
    if (!rank)
        return build_projection(builder, one, x);
    builder_size(builder, 'l', rank);
    x = build_projection(builder, &(struct projection){ down, "bth+l", "bth", "hl", "btl", NULL, 0 }, x);
    return build_projection(builder, second, x);
}

static bool linear_build(struct graph_builder *builder, const struct model *model, const void *fields,
                         struct error *err)
{
    const struct linear_attention_layer *f = fields;
    (void)model, (void)err;
    builder_size(builder, 'n', f->heads);
    builder_size(builder, 'm', f->key_heads);
    builder_size(builder, 'd', f->key_dim);
    builder_size(builder, 'w', f->value_dim);
    builder_size(builder, 'y', f->decay_rank ? 1 + f->key_dim : 2);
    int x = builder->input, in = build_norm(builder, x, f->norm, f->norm_epsilon);
    int q = build_projection(builder, &(struct projection){ "q", "bth+md", "bth", "hmd", "btmd", NULL, 0 }, in);
    int k = build_projection(builder, &(struct projection){ "k", "bth+md", "bth", "hmd", "btmd", NULL, 0 }, in);
    int v = build_projection(builder, &(struct projection){ "v", "bth+nw", "bth", "hnw", "btnw", NULL, 0 }, in);
    int z = through(builder, f->gate_rank, "gate_down", in,
                    &(struct projection){ "gate", "bth+nw", "bth", "hnw", "btnw", NULL, 0 },
                    &(struct projection){ "gate", "btl+nw", "btl", "lnw", "btnw", NULL, 0 });
    int rates = through(builder, f->decay_rank, "dt_down", in,
                        &(struct projection){ "dt_proj", "bth+ny", "bth", "hny", "btny", NULL, 0 },
                        &(struct projection){ "dt_proj", "btl+ny", "btl", "lny", "btny", NULL, 0 });
    q = build_short_conv(builder, "q_filter", "md", f->taps, false, q);
    k = build_short_conv(builder, "k_filter", "md", f->taps, false, k);
    v = build_short_conv(builder, "v_filter", "nw", f->taps, false, v);
    int y = scan(builder, f, q, k, v, rates);
    y = build_gated_norm(builder, y, z, 'w', 1, "w", f->norm_epsilon);
    y = build_projection(
        builder, &(struct projection){ "proj", "btn+w+h", "btnw", "nwh", "bth", NULL, builder->residual_std }, y);
    const struct layer_output output = { .norm = f->output_norm,
                                         .epsilon = f->norm_epsilon,
                                         .scale = f->residual_scale };
    builder->output = build_output(builder, &output, f->residual ? x : -1, &y, 1);
    return true;
}

extern const struct layer_kind linear_attention_kind;
const struct layer_kind linear_attention_kind = {
    .name = "linear_attention",
    .place = CHAIN_BODY,
    .mixes = true,
    .planned = true,
    .min_inputs = 1,
    .max_inputs = 1,
    .doc = "Norm, a gated delta net, residual sum (Yang et al. 2025; Qwen3-Next, Kimi Linear). For planning: it cannot "
           "be run.",
    .fields = linear_fields,
    .field_count = sizeof linear_fields / sizeof *linear_fields,
    .fields_bytes = sizeof(struct linear_attention_layer),
    .defaults = &linear_defaults,
    .check = linear_check,
    .build = linear_build,
};
