/* Hugging Face config.json, dispatched on model_type. Key names and their defaults are those of the transformers
 * library's configuration classes. What would change the mathematics and cannot be said here is refused, never dropped
 * in silence; dropout alone is ignored, since it changes neither shapes nor costs to speak of. */
#include "models/import/hf_keys.h"
#include <string.h>

static const struct hf_alias gpt2_aliases[] = {
    { "hidden_size", "n_embd", false },         { "num_hidden_layers", "n_layer", false },
    { "num_attention_heads", "n_head", false }, { "max_position_embeddings", "n_positions", false },
    { "n_ctx", "n_positions", true },           { 0 }
};

/* Radford et al. 2019: learned positions, pre-norm, biases everywhere, GELU in its tanh form. */
static bool read_gpt2(const struct json *root, struct hf_parts *p, struct error *err)
{
    static const char *const activations[] = { "gelu_new", "gelu_pytorch_tanh", "gelu_fast", NULL };
    const char *heads = hf_key(root, gpt2_aliases, "n_head");
    double epsilon;
    int64_t hidden = 0;
    if (!hf_get_size(root, hf_key(root, gpt2_aliases, "n_embd"), HF_REQUIRED, &hidden, err) ||
        !hf_get_blocks(root, hf_key(root, gpt2_aliases, "n_layer"), &p->blocks, err) ||
        !hf_get_size(root, heads, HF_REQUIRED, &p->attention.heads, err) ||
        !hf_get_size(root, "vocab_size", HF_REQUIRED, &p->head.vocab_size, err) ||
        !hf_get_size(root, hf_key(root, gpt2_aliases, "n_positions"), HF_REQUIRED, &p->head.sequence, err) ||
        !hf_get_size(root, "n_inner", 4 * hidden, &p->mlp.inner, err) ||
        !hf_get_double(root, "layer_norm_epsilon", 1, 1e-5, &epsilon, err) ||
        !hf_get_bool(root, "tie_word_embeddings", true, &p->head.tied_embedding, err) ||
        !hf_need_word(root, "activation_function", "gelu_new", activations, err) ||
        !hf_need_bool(root, "scale_attn_weights", true, err) ||
        !hf_need_bool(root, "scale_attn_by_inverse_layer_idx", false, err) ||
        !hf_need_bool(root, "add_cross_attention", false, err))
        return false;
    p->head.hidden = hidden;
    p->embedding.learned_positions = p->head.sequence;
    p->attention.qkv_bias = p->attention.output_bias = p->mlp.bias = true;
    p->mlp.activation = ACTIVATION_GELU;
    hf_set_norms(p, NORM_LAYER, epsilon);
    return hf_check_heads(root, heads, heads, hidden, &p->attention, err);
}

static bool check_window(const struct json *root, int64_t sequence, struct error *err)
{
    int64_t window;
    bool used;
    if (!hf_get_bool(root, "use_sliding_window", true, &used, err) ||
        !hf_get_size(root, "sliding_window", sequence, &window, err))
        return false;
    if (used && window < sequence)
        return json_fail(json_member(root, "sliding_window"), err,
                         "sliding-window attention is not supported: set sliding_window to null, "
                         "or max_position_embeddings (%lld) to at most the window (%lld)",
                         (long long)sequence, (long long)window);
    return true;
}

/* Touvron et al. 2023 and its relatives: RMS norms, rotary positions, SwiGLU, grouped-query attention. */
bool hf_read_llama(const struct json *root, struct hf_parts *p, int64_t kv_default, struct error *err)
{
    static const char *const activations[] = { "silu", NULL };
    double epsilon;
    if (!hf_get_size(root, "hidden_size", HF_REQUIRED, &p->head.hidden, err) ||
        !hf_get_blocks(root, "num_hidden_layers", &p->blocks, err) ||
        !hf_get_size(root, "num_attention_heads", HF_REQUIRED, &p->attention.heads, err) ||
        !hf_get_size(root, "num_key_value_heads", kv_default, &p->attention.kv_heads, err) ||
        !hf_get_size(root, "head_dim", 0, &p->attention.head_dim, err) ||
        !hf_get_size(root, "intermediate_size", HF_REQUIRED, &p->mlp.inner, err) ||
        !hf_get_size(root, "vocab_size", HF_REQUIRED, &p->head.vocab_size, err) ||
        !hf_get_size(root, "max_position_embeddings", HF_REQUIRED, &p->head.sequence, err) ||
        !hf_get_double(root, "rms_norm_eps", 1, 1e-6, &epsilon, err) ||
        !hf_get_bool(root, "tie_word_embeddings", false, &p->head.tied_embedding, err) ||
        !hf_need_word(root, "hidden_act", "silu", activations, err) ||
        !hf_read_rope(root, "rope_theta", "partial_rotary_factor", 1, false, &p->attention, err) ||
        !check_window(root, p->head.sequence, err))
        return false;
    p->mlp.activation = ACTIVATION_SWIGLU;
    hf_set_norms(p, NORM_RMS, epsilon);
    return hf_check_heads(root, "num_attention_heads", "num_key_value_heads", p->head.hidden, &p->attention, err);
}

static bool read_llama(const struct json *root, struct hf_parts *p, struct error *err)
{
    bool bias;
    if (!hf_get_bool(root, "attention_bias", false, &bias, err) ||
        !hf_get_bool(root, "mlp_bias", false, &p->mlp.bias, err))
        return false;
    p->attention.qkv_bias = p->attention.output_bias = bias;
    return hf_read_llama(root, p, 0, err);
}

static bool read_mistral(const struct json *root, struct hf_parts *p, struct error *err)
{
    return hf_read_llama(root, p, 8, err);
}

/* The query, key and value biases of Qwen 2 have no key: they are always there. */
static bool read_qwen2(const struct json *root, struct hf_parts *p, struct error *err)
{
    p->attention.qkv_bias = true;
    return hf_read_llama(root, p, 0, err);
}

bool hf_add_decoder(struct model *model, const struct hf_parts *p, const struct json *root, struct error *err)
{
    static const struct loss_layer loss = { 0 };
    return model_add_block(model, 1, root, err) &&
           model_add_layer(model, layer_kind_find("embedding"), &p->embedding, root, err) &&
           model_add_block(model, p->blocks, root, err) &&
           model_add_layer(model, layer_kind_find("attention"), &p->attention, root, err) &&
           model_add_layer(model, layer_kind_find("mlp"), &p->mlp, root, err) && model_add_block(model, 1, root, err) &&
           model_add_layer(model, layer_kind_find("head"), &p->last, root, err) &&
           model_add_layer(model, layer_kind_find("loss"), &loss, root, err) && model_finish(model, root, err);
}

static const struct hf_family gpt2 = { "gpt2", "GPT2LMHeadModel", gpt2_aliases, read_gpt2, NULL },
                              llama = { "llama", "LlamaForCausalLM", NULL, read_llama, NULL },
                              mistral = { "mistral", "MistralForCausalLM", NULL, read_mistral, NULL },
                              qwen2 = { "qwen2", "Qwen2ForCausalLM", NULL, read_qwen2, NULL };
static const struct hf_family *const families[] = { &gpt2,  &llama,      &mistral,     &qwen2, &hf_gpt_neox,
                                                    &hf_t5, &hf_mixtral, &hf_deepseek, &hf_vit };
enum { FAMILIES = sizeof families / sizeof *families };

static bool read_parts(const struct json *root, struct hf_parts *p, const struct hf_family **family, struct error *err)
{
    const struct json *at;
    const char *type;
    if (!json_require(root, "model_type", &at, err) || !json_string(at, &type, err))
        return false;
    hf_set_defaults(p);
    for (int i = 0; i < FAMILIES; i++)
        if (strcmp(families[i]->type, type) == 0) {
            *family = families[i];
            return hf_get_string(root, "_name_or_path", type, &p->head.name, err) &&
                   hf_get_double(root, "initializer_range", 100, 0.02, &p->head.init_std, err) &&
                   hf_check_classes(root, families[i], err) && hf_check_aliases(root, families[i]->aliases, err) &&
                   families[i]->read(root, p, err);
        }
    return json_fail(at, err,
                     "expected a model_type of gpt2, llama, mistral, mixtral, deepseek, qwen2, gpt_neox, t5 or vit, "
                     "found \"%.64s\"; "
                     "describe the model in the native format instead",
                     type);
}

static bool hf_detect(const struct json *root)
{
    return json_member(root, "model_type") != NULL;
}

static bool hf_read(struct model **out, const struct json *root, struct error *err)
{
    struct hf_parts parts;
    const struct hf_family *family = NULL;
    if (!read_parts(root, &parts, &family, err))
        return false;
    if (!*parts.head.name)
        parts.head.name = "model";
    struct model *model = model_new(&parts.head);
    if (!model)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory while reading the model");
    if (!(family->add ? family->add : hf_add_decoder)(model, &parts, root, err)) {
        model_free(model);
        return false;
    }
    *out = model;
    return true;
}

extern const struct importer hf_importer;
const struct importer hf_importer = {
    .name = "huggingface",
    .doc = "Hugging Face config.json of model_type gpt2, llama, mistral, mixtral, deepseek, qwen2, gpt_neox, t5 or vit",
    .detect = hf_detect,
    .read = hf_read,
};
