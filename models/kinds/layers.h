/* What a description says about a layer of each kind: for the kinds themselves, importers and exporters. The keys'
 * meaning and defaults stand in each kind's field table. */
#ifndef CLEAVE_MODELS_KINDS_LAYERS_H
#define CLEAVE_MODELS_KINDS_LAYERS_H
#include "models/layer_kind.h"

enum norm { NORM_NONE, NORM_LAYER, NORM_RMS };
enum activation { ACTIVATION_GELU, ACTIVATION_SWIGLU };

struct embedding_layer {
    struct layer_head head;
    int64_t learned_positions;
    int norm; /* enum norm */
    double norm_epsilon;
};

struct attention_layer {
    struct layer_head head;
    int64_t heads, kv_heads, head_dim;
    bool causal, qkv_bias, output_bias, post_norm;
    double rope_base;
    int norm; /* enum norm */
    double norm_epsilon;
};

struct mlp_layer {
    struct layer_head head;
    int64_t inner;
    int activation; /* enum activation */
    bool bias, post_norm;
    int norm; /* enum norm */
    double norm_epsilon;
};

struct head_layer {
    struct layer_head head;
    int norm; /* enum norm */
    double norm_epsilon;
};

struct opaque_layer {
    struct layer_head head;
    double forward_us, backward_us;
    int64_t parameters, activation_elements, saved_elements;
};
#endif
