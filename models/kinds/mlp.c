#include "models/kinds/feed_forward.h"
#include "models/kinds/norm.h"
#include "models/model.h"

static const struct mlp_layer mlp_defaults = { .lora.alpha = LORA_ALPHA, .residual = true, .norm_epsilon = 1e-5 };

#define AT(field) .offset = offsetof(struct mlp_layer, field)
static const struct json_field mlp_fields[] = {
    LAYER_HEAD_FIELDS,
    { .key = "inner",
      .type = FIELD_INT,
      AT(inner),
      .required = true,
      .min = 1,
      .max = 1 << 28,
      .doc = "Width between the matrices." },
    { .key = "activation",
      .type = FIELD_ENUM,
      AT(activation),
      .required = true,
      .names = activation_names,
      .doc = activation_doc },
    { .key = "bias", .type = FIELD_BOOL, AT(bias), .doc = "Biases after every matrix; false if absent." },
    { .key = "norm", .type = FIELD_ENUM, AT(norm), .required = true, .names = norm_names, .doc = "The layer's norm." },
    POST_NORM_FIELD(mlp_layer),
    RESIDUAL_FIELD(mlp_layer),
    OUTPUT_NORM_FIELD(mlp_layer),
    RESIDUAL_SCALE_FIELD(mlp_layer),
    NORM_EPSILON_FIELD(mlp_layer),
    LORA_FIELDS(mlp_layer, feed_forward_matrix_names),
};
#undef AT

static bool mlp_check(const struct model *model, const void *fields, const struct json *at, struct error *err)
{
    const struct mlp_layer *f = fields;
    (void)model;
    if ((f->lora.targets >> MATRIX_GATE & 1) && !activation_is_gated(f->activation))
        return json_fail(json_at_key(at, "target_modules"), err, "expected up_proj and down_proj: %s has no gate",
                         activation_names[f->activation]);
    return check_output(f->output_norm, f->residual_scale, f->post_norm, f->residual, at, err) &&
           lora_check(&f->head, &f->lora, at, err);
}

static bool mlp_build(struct graph_builder *builder, const struct model *model, const void *fields, struct error *err)
{
    const struct mlp_layer *f = fields;
    (void)model, (void)err;
    builder_size(builder, 'f', f->inner);
    int x = builder->input, y = f->post_norm ? x : build_norm(builder, x, f->norm, f->norm_epsilon);
    const struct feed_forward network = { .gate = "gate",
                                          .up = "up",
                                          .act = "act",
                                          .down = "down",
                                          .tokens = "bt",
                                          .stack = "",
                                          .filled = -1,
                                          .activation = f->activation,
                                          .bias = f->bias,
                                          .down_std = f->post_norm ? builder->init_std : builder->residual_std,
                                          .lora = &f->lora };
    int down = build_feed_forward(builder, &network, y);
    const struct layer_output output = {
        .bias = f->bias, .norm = f->output_norm, .epsilon = f->norm_epsilon, .scale = f->residual_scale
    };
    int sum = build_output(builder, &output, f->residual ? x : -1, &down, 1);
    builder->output = f->post_norm ? build_norm(builder, sum, f->norm, f->norm_epsilon) : sum;
    return true;
}

extern const struct layer_kind mlp_kind;
const struct layer_kind mlp_kind = {
    .name = "mlp",
    .place = CHAIN_BODY,
    .min_inputs = 1,
    .max_inputs = 1,
    .doc =
        "Norm, feed-forward network with GELU, SiLU, ReLU or its square, SwiGLU or GEGLU, residual sum (Vaswani et al. "
        "2017; Shazeer "
        "2020).",
    .fields = mlp_fields,
    .field_count = sizeof mlp_fields / sizeof *mlp_fields,
    .fields_bytes = sizeof(struct mlp_layer),
    .defaults = &mlp_defaults,
    .check = mlp_check,
    .build = mlp_build,
};
