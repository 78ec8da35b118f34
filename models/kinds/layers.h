/* What a description says about a layer of each kind: for the kinds themselves, importers and exporters. The keys'
 * meaning and defaults stand in each kind's field table. */
#ifndef CLEAVE_MODELS_KINDS_LAYERS_H
#define CLEAVE_MODELS_KINDS_LAYERS_H
#include "models/layer_kind.h"

enum norm { NORM_NONE, NORM_LAYER, NORM_RMS, NORM_LAYER_NO_BIAS };
enum activation {
    ACTIVATION_GELU,
    ACTIVATION_SWIGLU,
    ACTIVATION_GELU_ERF,
    ACTIVATION_RELU,
    ACTIVATION_GEGLU,
    ACTIVATION_SQUARED_RELU,
    ACTIVATION_QUICK_GELU,
    ACTIVATION_SILU,
    ACTIVATION_GEGLU_ERF,
    ACTIVATION_TANH,
    ACTIVATION_SWIGLU_CLAMPED
};

enum stream { STREAM_TOKENS, STREAM_SOURCE };

struct embedding_layer {
    struct layer_head head;
    int stream;        /* enum stream */
    bool shared_table; /* the table of the embedding before */
    int64_t tokens, learned_positions, token_types, width;
    bool width_bias, wide_positions;
    int norm; /* enum norm */
    double norm_epsilon, scale;
};

struct model;
/* Columns of the token table that a head may share: those of the last embedding with a table of its own. 0: hidden. */
int64_t embedding_table_width(const struct model *model);

/* Low-rank adapters beside a layer's frozen matrices (models/kinds/lora.h). */
struct lora {
    int64_t rank; /* 0: none */
    double alpha;
    int targets; /* bit i: the i-th matrix of the kind's list has one */
};

/* Over what the norm of queries and keys is taken, and what has a weight of its own. */
enum qk_norm { QK_NORM_NONE, QK_NORM_HEAD, QK_NORM_EACH_HEAD, QK_NORM_WHOLE };

struct attention_layer {
    struct layer_head head;
    struct lora lora;
    int64_t heads, kv_heads, head_dim, sliding_window;
    bool causal, qkv_bias, bare_keys, output_bias, post_norm, residual, stored_scores, sinks, alibi, output_gate;
    double rope_base, rope_factor, rope_low, rope_high, score_scale, score_cap;
    int64_t rope_dim, rope_original;
    const char *relative_table;
    int64_t relative_buckets, relative_distance;
    int qk_norm;                         /* enum qk_norm */
    int norm, output_norm, qk_norm_kind; /* enum norm */
    double norm_epsilon, residual_scale;
};

struct latent_attention_layer {
    struct layer_head head;
    int64_t heads, query_rank, kv_rank, plain_dim, rope_dim, value_dim;
    double rope_base, score_scale;
    int norm; /* enum norm */
    double norm_epsilon, residual_scale;
};

struct loss_layer {
    struct layer_head head;
    bool fp32_logits;
};

struct mlp_layer {
    struct layer_head head;
    struct lora lora;
    int64_t inner;
    int activation; /* enum activation */
    bool bias, post_norm, residual;
    int norm, output_norm; /* enum norm */
    double norm_epsilon, residual_scale;
};

enum { MOE_MAX_CHOICES = 64, MOE_MAX_EXPERTS = 1 << 16, MOE_MAX_INNER = 1 << 28 };
enum gates { GATES_OF_CHOSEN, GATES_OF_ALL, GATES_SIGMOID_OF_CHOSEN, GATES_SIGMOID };

struct moe_layer {
    struct layer_head head;
    int64_t experts, choices, inner, shared_inner, group, expert_groups, chosen_groups;
    int activation; /* enum activation */
    int gates;      /* enum gates */
    double gate_scale, capacity_factor, balance;
    bool dropless, router_bias, router_correction, expert_bias, shared_gate, residual;
    int norm, output_norm; /* enum norm */
    double norm_epsilon, residual_scale;
};

struct state_space_layer {
    struct layer_head head;
    int64_t version, inner, state, rank, heads, groups, norm_groups, taps, chunk;
    bool bias, conv_bias, residual;
    int norm, output_norm; /* enum norm */
    double norm_epsilon, residual_scale;
};

struct linear_attention_layer {
    struct layer_head head;
    int64_t heads, key_heads, key_dim, value_dim, taps, chunk, gate_rank, decay_rank;
    bool residual;
    int norm, output_norm; /* enum norm */
    double norm_epsilon, residual_scale;
};

struct multi_token_layer {
    struct layer_head head;
    int norm; /* enum norm */
    double norm_epsilon;
};

struct multi_token_loss_layer {
    struct layer_head head;
    double weight;
    int norm; /* enum norm */
    double norm_epsilon;
};

struct norm_layer {
    struct layer_head head;
    int norm; /* enum norm */
    double norm_epsilon;
};

enum rectifier { RECTIFIER_NONE, RECTIFIER_RELU };
extern const char *const rectifier_names[]; /* by enum rectifier, NULL-terminated, for field tables */

struct add_layer {
    struct layer_head head;
    int activation; /* enum rectifier */
};

struct patches_layer {
    struct layer_head head;
    int64_t patch;
    bool class_token, learned_positions, bias;
};

struct conv_layer {
    struct layer_head head;
    int64_t channels, window, stride, padding;
    bool bias;
    int64_t norm_groups; /* 0: no norm */
    double norm_epsilon;
    int activation; /* enum rectifier */
};

enum pool { POOL_MAX, POOL_AVERAGE, POOL_FIRST };

struct pool_layer {
    struct layer_head head;
    int pool;                        /* enum pool */
    int64_t window, stride, padding; /* window 0: everything; stride 0: the window */
};

struct concat_layer {
    struct layer_head head;
    bool bias;
    int norm; /* enum norm */
    double norm_epsilon;
};

struct head_layer {
    struct layer_head head;
    bool bias, transform, transform_bias;
    int norm, transform_norm; /* enum norm */
    int transform_activation; /* enum activation */
    int64_t classes;          /* 0: the vocabulary */
    int64_t width;            /* 0: hidden */
    double norm_epsilon, logit_scale, logit_cap;
};

struct opaque_layer {
    struct layer_head head;
    double forward_us, backward_us;
    int64_t parameters, activation_elements, saved_elements;
};
#endif
