/* Selective state spaces: for planning. Their products are those of any layer; the scan has its work and traffic, and
 * no device computes it yet. */
#include "base/num.h"
#include "models/kinds/norm.h"
#include "models/kinds/scan_parts.h"
#include "models/model.h"

static const struct state_space_layer state_space_defaults = {
    .taps = 4, .chunk = 256, .conv_bias = true, .residual = true, .norm_epsilon = 1e-5
};

#define AT(field) .offset = offsetof(struct state_space_layer, field)
#define SIZE(name, field, least, text)                                                                                 \
    {                                                                                                                  \
        .key = name, .type = FIELD_INT, AT(field), .required = (least) > 0, .min = least, .max = 1 << 28, .doc = text  \
    }
static const struct json_field state_space_fields[] = {
    LAYER_HEAD_FIELDS,
    { .key = "version",
      .type = FIELD_INT,
      AT(version),
      .required = true,
      .min = 1,
      .max = 2,
      .doc = "1: Mamba, with a state for each channel (Gu & Dao 2023); 2: Mamba-2, in heads (Dao & Gu 2024)." },
    SIZE("inner", inner, 1, "Channels that are scanned."),
    SIZE("state", state, 1, "Elements of a channel's state."),
    SIZE("rank", rank, 0,
         "Version 1: width of what each channel's step is made of; hidden / 16, rounded up, if absent or 0."),
    SIZE("heads", heads, 0, "Version 2: heads into which the channels are shared out, a divisor of inner."),
    SIZE("groups", groups, 0,
         "Version 2: groups of heads that have B and C in common, a divisor of heads; 1 if absent or 0."),
    SIZE("norm_groups", norm_groups, 0,
         "Version 2: groups of heads over which the norm behind the scan is taken; all together if absent or 0."),
    SIZE("taps", taps, 0, "Tokens that the convolution before the scan looks at; 4 if absent."),
    SIZE("chunk", chunk, 0, "Version 2: tokens that are scanned as a product of matrices; 256 if absent."),
    { .key = "bias", .type = FIELD_BOOL, AT(bias), .doc = "Biases of the projections in and out; false if absent." },
    { .key = "conv_bias", .type = FIELD_BOOL, AT(conv_bias), .doc = "Bias of the convolution; true if absent." },
    { .key = "norm", .type = FIELD_ENUM, AT(norm), .required = true, .names = norm_names, .doc = "The layer's norm." },
    RESIDUAL_FIELD(state_space_layer),
    OUTPUT_NORM_FIELD(state_space_layer),
    RESIDUAL_SCALE_FIELD(state_space_layer),
    NORM_EPSILON_FIELD(state_space_layer),
};
#undef AT
#undef SIZE

/* What follows is not written back: a description says what it said. */
static struct state_space_layer resolved(const struct state_space_layer *fields, int64_t hidden)
{
    struct state_space_layer f = *fields;
    f.rank = f.rank > 0 ? f.rank : ceil_div(hidden, 16);
    f.groups = max_i64(f.groups, 1);
    f.norm_groups = max_i64(f.norm_groups, 1);
    return f;
}

static bool state_space_check(const struct model *model, const void *fields, const struct json *at, struct error *err)
{
    const struct state_space_layer *said = fields, f = resolved(said, model->hidden);
    if (f.taps < 1 || f.chunk < 1)
        return json_fail(json_at_key(at, f.taps < 1 ? "taps" : "chunk"), err, "expected 1 or more tokens, found 0");
    if (f.version == 2 && (f.heads < 1 || f.inner % f.heads))
        return json_fail(json_at_key(at, "heads"), err, "expected a divisor of inner (%lld), found %lld",
                         (long long)f.inner, (long long)f.heads);
    if (f.version == 2 && f.heads % f.groups)
        return json_fail(json_at_key(at, "groups"), err, "expected a divisor of heads (%lld), found %lld",
                         (long long)f.heads, (long long)f.groups);
    if (f.version == 2 && f.heads % f.norm_groups)
        return json_fail(json_at_key(at, "norm_groups"), err, "expected a divisor of heads (%lld), found %lld",
                         (long long)f.heads, (long long)f.norm_groups);
    if (f.version == 1 && (said->heads > 0 || said->groups > 0 || said->norm_groups > 0))
        return json_fail(json_at_key(at, "heads"), err, "expected none, nor groups, in version 1");
    if (f.version == 2 && said->rank > 0)
        return json_fail(json_at_key(at, "rank"), err, "expected none in version 2");
    return check_output(f.output_norm, f.residual_scale, false, f.residual, at, err);
}

/* The channels' steps come of a narrow vector; B, C and that vector of the channels behind the convolution. */
static int build_first(struct graph_builder *builder, const struct state_space_layer *f, int in)
{
    const char *axes = f->bias ? "bth+!f" : "bth+f", *shift = f->bias ? "f" : NULL;
    builder_size(builder, 'f', f->inner);
    builder_size(builder, 'l', f->rank);
    builder_size(builder, 'x', f->state);
    builder_size(builder, 'y', 2 * f->state);
    int x = build_projection(builder, &(struct projection){ "in_proj", axes, "bth", "hf", "btf", shift, 0 }, in);
    int z = build_projection(builder, &(struct projection){ "gate", axes, "bth", "hf", "btf", shift, 0 }, in);
    x = build_short_conv(builder, "filter", "f", f->taps, f->conv_bias, x);
    int bc = build_projection(builder, &(struct projection){ "bc_proj", "btf+y", "btf", "fy", "bty", NULL, 0 }, x);
    int step = build_projection(builder, &(struct projection){ "dt_down", "btf+l", "btf", "fl", "btl", NULL, 0 }, x);
    step = build_projection(builder, &(struct projection){ "dt_proj", "btl+!f", "btl", "lf", "btf", "f", 0 }, step);
    int decay = builder_weight(builder, "a_log", "fx", INIT_ONE, 0),
        skip = builder_weight(builder, "d", "f", INIT_ONE, 0);
    int y = builder_value(builder, "scan", "btf", ELEMENT_ACTIVATION, true);
    builder_segment(builder, KERNEL_SELECTIVE_SCAN, "scan", "bt!f",
                    OPERANDS({ x, "btf" }, { step, "btf" }, { z, "btf" }, { bc, "bt." }),
                    OPERANDS({ decay, "f." }, { skip, "f" }), OPERANDS({ y, "btf" }))
        ->arguments.state = f->state;
    return build_projection(
        builder, &(struct projection){ "proj", "btf+h", "btf", "fh", "bth", NULL, builder->residual_std }, y);
}

static int build_second(struct graph_builder *builder, const struct state_space_layer *f, int in)
{
    const char *axes = f->bias ? "bth+!nd" : "bth+nd", *shift = f->bias ? "nd" : NULL;
    builder_size(builder, 'n', f->heads);
    builder_size(builder, 'm', f->groups);
    builder_size(builder, 'd', f->inner / f->heads);
    builder_size(builder, 'y', 2 * f->state);
    int x = build_projection(builder, &(struct projection){ "in_proj", axes, "bth", "hnd", "btnd", shift, 0 }, in);
    int z = build_projection(builder, &(struct projection){ "gate", axes, "bth", "hnd", "btnd", shift, 0 }, in);
    int bc = build_projection(builder,
                              &(struct projection){ "bc_proj", f->bias ? "bth+!my" : "bth+my", "bth", "hmy", "btmy",
                                                    f->bias ? "my" : NULL, 0 },
                              in);
    int step = build_projection(
        builder,
        &(struct projection){ "dt_proj", f->bias ? "bth+!n" : "bth+n", "bth", "hn", "btn", f->bias ? "n" : NULL, 0 },
        in);
    x = build_short_conv(builder, "filter", "nd", f->taps, f->conv_bias, x);
    bc = build_short_conv(builder, "bc_filter", "my", f->taps, f->conv_bias, bc);
    int decay = builder_weight(builder, "a_log", "n", INIT_ONE, 0),
        skip = builder_weight(builder, "d", "n", INIT_ONE, 0),
        bias = builder_weight(builder, "dt_bias", "n", INIT_ONE, 0);
    int y = builder_value(builder, "scan", "btnd", ELEMENT_ACTIVATION, true);
    int decays = builder_value(builder, "scan_decays", "btn", ELEMENT_STATISTIC, false);
    struct segment *segment = builder_segment(
        builder, KERNEL_CHUNK_SCAN, "scan", "bt!nd!", OPERANDS({ x, "btnd" }, { bc, "btn." }, { step, "btn" }),
        OPERANDS({ decay, "n" }, { skip, "n" }, { bias, "n" }), OPERANDS({ y, "btnd" }, { decays, "btn" }));
    segment->arguments.state = f->state;
    segment->arguments.chunk = f->chunk;
    segment->arguments.state_groups = f->groups;
    y = build_gated_norm(builder, y, z, 'd', f->heads / f->norm_groups, "nd", f->norm_epsilon);
    return build_projection(
        builder, &(struct projection){ "proj", "btn+d+h", "btnd", "ndh", "bth", NULL, builder->residual_std }, y);
}

static bool state_space_build(struct graph_builder *builder, const struct model *model, const void *fields,
                              struct error *err)
{
    const struct state_space_layer f = resolved(fields, builder->size['h']);
    (void)model, (void)err;
    int x = builder->input, in = build_norm(builder, x, f.norm, f.norm_epsilon);
    int y = f.version == 1 ? build_first(builder, &f, in) : build_second(builder, &f, in);
    const struct layer_output output = {
        .bias = f.bias, .norm = f.output_norm, .epsilon = f.norm_epsilon, .scale = f.residual_scale
    };
    builder->output = build_output(builder, &output, f.residual ? x : -1, &y, 1);
    return true;
}

extern const struct layer_kind state_space_kind;
const struct layer_kind state_space_kind = {
    .name = "state_space",
    .place = CHAIN_BODY,
    .mixes = true,
    .planned = true,
    .min_inputs = 1,
    .max_inputs = 1,
    .doc = "Norm, a selective state space between two projections, residual sum (Gu & Dao 2023; Dao & Gu 2024). For "
           "planning: it cannot be run.",
    .fields = state_space_fields,
    .field_count = sizeof state_space_fields / sizeof *state_space_fields,
    .fields_bytes = sizeof(struct state_space_layer),
    .defaults = &state_space_defaults,
    .check = state_space_check,
    .build = state_space_build,
};
