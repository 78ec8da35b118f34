#include "models/kinds/attention_parts.h"
#include "models/kinds/norm.h"
#include "models/model.h"
#include "models/model_make.h"
#include <string.h>

extern const struct layer_kind attention_kind;

static const char *const qk_norm_names[] = { "none", "head", "each_head", "whole", NULL };

static const struct attention_layer attention_defaults = { .lora.alpha = LORA_ALPHA,
                                                           .causal = true,
                                                           .residual = true,
                                                           .norm_epsilon = 1e-5,
                                                           .qk_norm_kind = NORM_RMS,
                                                           .relative_buckets = 32,
                                                           .relative_distance = 128 };

#define AT(field) .offset = offsetof(struct attention_layer, field)
static const struct json_field attention_fields[] = {
    LAYER_HEAD_FIELDS,
    ATTENTION_HEAD_FIELDS,
    { .key = "causal",
      .type = FIELD_BOOL,
      AT(causal),
      .doc = "A token sees only itself and earlier ones; true if absent." },
    { .key = "sliding_window",
      .type = FIELD_INT,
      AT(sliding_window),
      .min = 0,
      .max = 1 << 27,
      .doc = "A token sees only so many of the latest ones, itself among them (Jiang et al. 2023, Mistral 7B); where "
             "attention is not causal, half as many on each side (ModernBERT); 0 or absent: all." },
    ATTENTION_BIAS_FIELDS,
    { .key = "rope_base",
      .type = FIELD_DOUBLE,
      AT(rope_base),
      .min = 0,
      .max = 1e12,
      .doc = "Base of rotary positions (10000 in Su et al. 2021); 0 or absent: none." },
    { .key = "rope_dim",
      .type = FIELD_INT,
      AT(rope_dim),
      .min = 0,
      .max = 1 << 20,
      .doc = "Of each head the first rope_dim elements turn and the rest passes (GPT-NeoX); head_dim if absent or 0." },
    { .key = "rope_factor",
      .type = FIELD_DOUBLE,
      AT(rope_factor),
      .min = 0,
      .max = 1e6,
      .doc = "Slows the long waves of the rotation by this factor, as Llama 3.1 does; 0 or absent: none." },
    { .key = "rope_low_frequency_factor",
      .type = FIELD_DOUBLE,
      AT(rope_low),
      .min = 0,
      .max = 1e6,
      .doc = "Waves longer than rope_original_positions over it are slowed in full; required with rope_factor." },
    { .key = "rope_high_frequency_factor",
      .type = FIELD_DOUBLE,
      AT(rope_high),
      .min = 0,
      .max = 1e6,
      .doc = "Waves shorter than rope_original_positions over it stay as they are; required with rope_factor." },
    { .key = "rope_original_positions",
      .type = FIELD_INT,
      AT(rope_original),
      .min = 0,
      .max = 1 << 27,
      .doc = "Tokens that the model was first trained with; required with rope_factor." },
    { .key = "norm", .type = FIELD_ENUM, AT(norm), .required = true, .names = norm_names, .doc = "The layer's norm." },
    POST_NORM_FIELD(attention_layer),
    ATTENTION_COMMON_FIELDS,
    { .key = "relative_table",
      .type = FIELD_STRING,
      AT(relative_table),
      .doc = "Name of a table of biases by relative position that is added to the scores (Raffel et al. 2020); layers "
             "that give the same name share it. None if absent." },
    { .key = "relative_buckets",
      .type = FIELD_INT,
      AT(relative_buckets),
      .min = 4,
      .max = 1 << 16,
      .doc = "Rows of that table; 32 if absent." },
    { .key = "relative_distance",
      .type = FIELD_INT,
      AT(relative_distance),
      .min = 2,
      .max = 1 << 27,
      .doc = "Tokens from which on all distances share the last row; 128 if absent." },
    { .key = "qk_norm",
      .type = FIELD_ENUM,
      AT(qk_norm),
      .names = qk_norm_names,
      .doc = "Norm of queries and of keys before they turn: head: over the elements of each head, with one weight of "
             "head_dim for all (Qwen 3, Gemma 3); each_head: with a weight for each head (Command R+); whole: over the "
             "elements of all heads together (OLMo 2); none if absent." },
    { .key = "qk_norm_kind",
      .type = FIELD_ENUM,
      AT(qk_norm_kind),
      .names = norm_names,
      .doc = "Which norm that is; rms_norm if absent." },
    { .key = "score_cap",
      .type = FIELD_DOUBLE,
      AT(score_cap),
      .min = 0,
      .max = 1e6,
      .doc = "Scores become cap * tanh(score / cap) before they are masked (Gemma 2); 0 or absent: they stay." },
    { .key = "sinks",
      .type = FIELD_BOOL,
      AT(sinks),
      .doc = "A learned score of each head takes part in its softmax and has no value (Xiao et al. 2023; GPT-OSS); "
             "false if absent." },
    { .key = "alibi",
      .type = FIELD_BOOL,
      AT(alibi),
      .doc = "Scores lose in proportion to the distance, each head by a slope of its own (Press et al. 2022); false if "
             "absent." },
    { .key = "output_gate",
      .type = FIELD_BOOL,
      AT(output_gate),
      .doc = "What each head found is multiplied by the sigmoid of a gate, which is made of the token as the query is "
             "(Qwen3-Next); false if absent." },
    NORM_EPSILON_FIELD(attention_layer),
    LORA_FIELDS(attention_layer, attention_matrix_names),
};
#undef AT

void attention_resolve(const struct model *model, void *fields)
{
    struct attention_layer *f = fields;
    if (!f->kv_heads)
        f->kv_heads = f->heads;
    if (!f->head_dim && f->heads && model->hidden % f->heads == 0)
        f->head_dim = model->hidden / f->heads;
}

static bool check_stretch(const struct attention_layer *f, const struct json *at, struct error *err)
{
    if (f->rope_factor > 0 && !(f->rope_base > 0))
        return json_fail(json_at_key(at, "rope_factor"), err, "expected a rope_base beside it");
    if (f->rope_factor > 0 && (!(f->rope_low > 0) || !(f->rope_high > f->rope_low) || f->rope_original < 1))
        return json_fail(json_at_key(at, "rope_factor"), err,
                         "expected beside it 0 < rope_low_frequency_factor < rope_high_frequency_factor and "
                         "rope_original_positions");
    if (!(f->rope_factor > 0) && (f->rope_low > 0 || f->rope_high > 0 || f->rope_original))
        return json_fail(at, err, "expected a rope_factor beside what says how it is applied");
    return true;
}

/* All layers that share a table must agree on its shape. Half of the buckets of a direction are for single distances.
 */
static bool check_relative(const struct model *model, const struct attention_layer *f, const struct json *at,
                           struct error *err)
{
    if (!f->relative_table)
        return true;
    if (!model_good_name(f->relative_table))
        return json_fail(json_at_key(at, "relative_table"), err,
                         "expected 1 to 64 letters, digits, '-' and '_', found \"%.64s\"", f->relative_table);
    if (f->kv_heads != f->heads)
        return json_fail(json_at_key(at, "relative_table"), err,
                         "expected as many key and value heads as heads (%lld) beside it, found %lld",
                         (long long)f->heads, (long long)f->kv_heads);
    int64_t exact = f->relative_buckets / (f->causal ? 2 : 4);
    if (f->relative_distance <= exact)
        return json_fail(json_at_key(at, "relative_distance"), err, "expected more than %lld, found %lld",
                         (long long)exact, (long long)f->relative_distance);
    for (int i = 0; i < model->layer_count; i++) {
        const struct attention_layer *other = model->layers[i].fields;
        if (model->layers[i].kind == &attention_kind && other->relative_table &&
            strcmp(other->relative_table, f->relative_table) == 0 &&
            (other->heads != f->heads || other->relative_buckets != f->relative_buckets ||
             other->head.frozen != f->head.frozen))
            return json_fail(json_at_key(at, "relative_table"), err,
                             "%s shares the table: expected %lld heads and %lld buckets, %s, as there",
                             model->layers[i].name, (long long)other->heads, (long long)other->relative_buckets,
                             other->head.frozen ? "frozen" : "not frozen");
    }
    return true;
}

/* Scores are changed in one way only: the kernel of each knows of no other. */
static bool check_scores(const struct attention_layer *f, const struct json *at, struct error *err)
{
    const bool changed[] = { f->relative_table != NULL, f->alibi, f->sinks, f->score_cap > 0 };
    static const char *const names[] = { "relative_table", "alibi", "sinks", "score_cap" };
    int first = -1;
    for (int i = 0; i < 4; i++) {
        if (changed[i] && first >= 0)
            return json_fail(json_at_key(at, names[i]), err, "expected no %s beside it", names[first]);
        if (changed[i] && f->stored_scores)
            return json_fail(json_at_key(at, "stored_scores"), err, "expected no %s beside it", names[i]);
        first = changed[i] ? i : first;
    }
    if (f->qk_norm != QK_NORM_NONE && f->qk_norm_kind == NORM_NONE)
        return json_fail(json_at_key(at, "qk_norm_kind"), err, "expected a norm beside a qk_norm");
    return true;
}

bool attention_check(const struct model *model, const void *fields, const struct json *at, struct error *err)
{
    const struct attention_layer *f = fields;
    if (!lora_check(&f->head, &f->lora, at, err))
        return false;
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
    if (f->rope_dim && (f->rope_dim % 2 || f->rope_dim > f->head_dim || !(f->rope_base > 0)))
        return json_fail(json_at_key(at, "rope_dim"), err,
                         "expected an even number up to head_dim (%lld) beside a rope_base, found %lld",
                         (long long)f->head_dim, (long long)f->rope_dim);
    if (f->sliding_window && f->relative_table)
        return json_fail(json_at_key(at, "sliding_window"), err, "expected no relative_table beside it");
    return check_stretch(f, at, err) && check_relative(model, f, at, err) && check_scores(f, at, err) &&
           check_output(f->output_norm, f->residual_scale, f->post_norm, f->residual, at, err);
}

static bool attention_build(struct graph_builder *builder, const struct model *model, const void *fields,
                            struct error *err)
{
    (void)model, (void)err;
    builder->output = build_attention(builder, fields, builder->input, -1);
    return true;
}

const struct layer_kind attention_kind = {
    .name = "attention",
    .place = CHAIN_BODY,
    .mixes = true,
    .min_inputs = 1,
    .max_inputs = 1,
    .doc = "Norm, multi-head or grouped-query attention, residual sum (Vaswani et al. 2017; Ainslie et al. 2023).",
    .fields = attention_fields,
    .field_count = sizeof attention_fields / sizeof *attention_fields,
    .fields_bytes = sizeof(struct attention_layer),
    .defaults = &attention_defaults,
    .resolve = attention_resolve,
    .check = attention_check,
    .build = attention_build,
};
