/* Hugging Face config.json, dispatched on model_type. Key names and their defaults are those of the transformers
 * library's configuration classes. What would change the mathematics and cannot be said here is refused, never dropped
 * in silence; dropout alone is ignored, since it changes neither shapes nor costs to speak of. */
#include "models/import/importer.h"
#include "models/kinds/layers.h"
#include <string.h>

enum { REQUIRED = -1 };
static const int64_t most = 1 << 28;

/* NULL when the key is absent or null: configs write null for "the default". */
static const struct json *given(const struct json *root, const char *key)
{
    const struct json *value = json_member(root, key);
    return value && json_type(value) != JSON_NULL ? value : NULL;
}

static bool get_size(const struct json *root, const char *key, int64_t fallback, int64_t *out, struct error *err)
{
    const struct json *value = given(root, key);
    if (value)
        return json_int(value, 1, most, out, err);
    *out = fallback;
    return fallback != REQUIRED || (json_require(root, key, &value, err) && json_int(value, 1, most, out, err));
}

static bool get_double(const struct json *root, const char *key, double max, double fallback, double *out,
                       struct error *err)
{
    const struct json *value = given(root, key);
    *out = fallback;
    return !value || json_double(value, 0, max, out, err);
}

static bool get_bool(const struct json *root, const char *key, bool fallback, bool *out, struct error *err)
{
    const struct json *value = given(root, key);
    *out = fallback;
    return !value || json_bool(value, out, err);
}

static bool get_string(const struct json *root, const char *key, const char *fallback, const char **out,
                       struct error *err)
{
    const struct json *value = given(root, key);
    *out = fallback;
    return !value || json_string(value, out, err);
}

static bool get_blocks(const struct json *root, const char *key, int64_t *out, struct error *err)
{
    const struct json *value;
    return json_require(root, key, &value, err) && json_int(value, 1, (MODEL_MAX_LAYERS - 3) / 2, out, err);
}

/* Refuses a switch whose other position is not supported. */
static bool need_bool(const struct json *root, const char *key, bool wanted, struct error *err)
{
    bool found;
    if (!get_bool(root, key, wanted, &found, err))
        return false;
    return found == wanted || json_fail(json_member(root, key), err, "only %s is supported", wanted ? "true" : "false");
}

static bool need_word(const struct json *root, const char *key, const char *fallback, const char *const *words,
                      struct error *err)
{
    const char *found;
    if (!get_string(root, key, fallback, &found, err))
        return false;
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], found) == 0)
            return true;
    return json_fail(json_at_key(root, key), err, "expected %s \"%s\", found \"%.64s\"",
                     words[1] ? "a supported word such as" : "only", words[0], found);
}

/* Reports at the foreign key what the attention kind would report at its own. */
static bool check_heads(const struct json *root, const char *key, const char *kv_key, int64_t hidden,
                        const struct attention_layer *f, struct error *err)
{
    if (!f->head_dim && hidden % f->heads)
        return json_fail(json_at_key(root, key), err, "expected a divisor of the hidden size (%lld), found %lld",
                         (long long)hidden, (long long)f->heads);
    if (f->kv_heads && f->heads % f->kv_heads)
        return json_fail(json_at_key(root, kv_key), err, "expected a divisor of %s (%lld), found %lld", key,
                         (long long)f->heads, (long long)f->kv_heads);
    int64_t head_dim = f->head_dim ? f->head_dim : hidden / f->heads;
    if (f->rope_base > 0 && head_dim % 2)
        return json_fail(json_at_key(root, given(root, "head_dim") ? "head_dim" : key), err,
                         "rotary positions turn pairs: expected heads of an even width, found %lld",
                         (long long)head_dim);
    return true;
}

struct parts {
    struct model_head head;
    int64_t blocks;
    struct embedding_layer embedding;
    struct attention_layer attention;
    struct mlp_layer mlp;
    struct head_layer last;
};

static void set_defaults(struct parts *p)
{
    *p = (struct parts){ .head = model_head_defaults };
    memcpy(&p->embedding, layer_kind_find("embedding")->defaults, sizeof p->embedding);
    memcpy(&p->attention, layer_kind_find("attention")->defaults, sizeof p->attention);
    memcpy(&p->mlp, layer_kind_find("mlp")->defaults, sizeof p->mlp);
    memcpy(&p->last, layer_kind_find("head")->defaults, sizeof p->last);
}

static void set_norms(struct parts *p, int norm, double epsilon)
{
    p->attention.norm = p->mlp.norm = p->last.norm = norm;
    p->attention.norm_epsilon = p->mlp.norm_epsilon = p->last.norm_epsilon = epsilon;
}

/* Radford et al. 2019: learned positions, pre-norm, biases everywhere, GELU in its tanh form. */
static bool read_gpt2(const struct json *root, struct parts *p, struct error *err)
{
    static const char *const activations[] = { "gelu_new", "gelu_pytorch_tanh", "gelu_fast", NULL };
    double epsilon;
    int64_t hidden = 0;
    if (!get_size(root, "n_embd", REQUIRED, &hidden, err) || !get_blocks(root, "n_layer", &p->blocks, err) ||
        !get_size(root, "n_head", REQUIRED, &p->attention.heads, err) ||
        !get_size(root, "vocab_size", REQUIRED, &p->head.vocab_size, err) ||
        !get_size(root, "n_positions", REQUIRED, &p->head.sequence, err) ||
        !get_size(root, "n_inner", 4 * hidden, &p->mlp.inner, err) ||
        !get_double(root, "layer_norm_epsilon", 1, 1e-5, &epsilon, err) ||
        !get_bool(root, "tie_word_embeddings", true, &p->head.tied_embedding, err) ||
        !need_word(root, "activation_function", "gelu_new", activations, err) ||
        !need_bool(root, "scale_attn_weights", true, err) ||
        !need_bool(root, "scale_attn_by_inverse_layer_idx", false, err) ||
        !need_bool(root, "add_cross_attention", false, err))
        return false;
    p->head.hidden = hidden;
    p->embedding.learned_positions = p->head.sequence;
    p->attention.qkv_bias = p->attention.output_bias = p->mlp.bias = true;
    p->mlp.activation = ACTIVATION_GELU;
    set_norms(p, NORM_LAYER, epsilon);
    return check_heads(root, "n_head", "n_head", hidden, &p->attention, err);
}

/* rope_theta at the top (older files) or in rope_parameters; scaled variants change the rotation and are refused. */
static bool read_rope(const struct json *root, double *base, struct error *err)
{
    static const char *const containers[] = { "rope_scaling", "rope_parameters" };
    static const char *const type_keys[] = { "rope_type", "type" };
    double one = 1;
    if (!get_double(root, "rope_theta", 1e12, 10000, base, err))
        return false;
    for (int i = 0; i < 2; i++) {
        const struct json *box = given(root, containers[i]);
        if (!box)
            continue;
        if (json_type(box) != JSON_OBJECT)
            return json_fail(box, err, "expected an object or null, found %s", json_type_name(json_type(box)));
        for (int k = 0; k < 2; k++) {
            const char *type;
            if (!get_string(box, type_keys[k], "default", &type, err))
                return false;
            if (strcmp(type, "default") != 0)
                return json_fail(json_member(box, type_keys[k]), err,
                                 "expected \"default\", found \"%.64s\": scaled rotary positions are "
                                 "not supported; set %s to null and max_position_embeddings to the unscaled length",
                                 type, containers[i]);
        }
        if (!get_double(box, "rope_theta", 1e12, *base, base, err))
            return false;
    }
    const struct json *partial = given(root, "partial_rotary_factor");
    if (!get_double(root, "partial_rotary_factor", 1, 1, &one, err))
        return false;
    if (one < 1)
        return json_fail(partial, err, "expected 1: rotary positions over a part of the head are not supported");
    return *base > 0 ||
           json_fail(json_at_key(root, "rope_theta"), err, "expected a positive base of the rotary positions");
}

static bool check_window(const struct json *root, int64_t sequence, struct error *err)
{
    int64_t window;
    bool used;
    if (!get_bool(root, "use_sliding_window", true, &used, err) ||
        !get_size(root, "sliding_window", sequence, &window, err))
        return false;
    if (used && window < sequence)
        return json_fail(json_member(root, "sliding_window"), err,
                         "sliding-window attention is not supported: set sliding_window to null, "
                         "or max_position_embeddings (%lld) to at most the window (%lld)",
                         (long long)sequence, (long long)window);
    return true;
}

/* Touvron et al. 2023 and its relatives: RMS norms, rotary positions, SwiGLU, grouped-query attention. */
static bool read_llama_like(const struct json *root, struct parts *p, int64_t kv_default, struct error *err)
{
    static const char *const activations[] = { "silu", NULL };
    double epsilon;
    if (!get_size(root, "hidden_size", REQUIRED, &p->head.hidden, err) ||
        !get_blocks(root, "num_hidden_layers", &p->blocks, err) ||
        !get_size(root, "num_attention_heads", REQUIRED, &p->attention.heads, err) ||
        !get_size(root, "num_key_value_heads", kv_default, &p->attention.kv_heads, err) ||
        !get_size(root, "head_dim", 0, &p->attention.head_dim, err) ||
        !get_size(root, "intermediate_size", REQUIRED, &p->mlp.inner, err) ||
        !get_size(root, "vocab_size", REQUIRED, &p->head.vocab_size, err) ||
        !get_size(root, "max_position_embeddings", REQUIRED, &p->head.sequence, err) ||
        !get_double(root, "rms_norm_eps", 1, 1e-6, &epsilon, err) ||
        !get_bool(root, "tie_word_embeddings", false, &p->head.tied_embedding, err) ||
        !need_word(root, "hidden_act", "silu", activations, err) || !read_rope(root, &p->attention.rope_base, err) ||
        !check_window(root, p->head.sequence, err))
        return false;
    p->mlp.activation = ACTIVATION_SWIGLU;
    set_norms(p, NORM_RMS, epsilon);
    return check_heads(root, "num_attention_heads", "num_key_value_heads", p->head.hidden, &p->attention, err);
}

static bool read_llama(const struct json *root, struct parts *p, struct error *err)
{
    bool bias;
    if (!get_bool(root, "attention_bias", false, &bias, err) || !get_bool(root, "mlp_bias", false, &p->mlp.bias, err))
        return false;
    p->attention.qkv_bias = p->attention.output_bias = bias;
    return read_llama_like(root, p, 0, err);
}

static bool read_mistral(const struct json *root, struct parts *p, struct error *err)
{
    return read_llama_like(root, p, 8, err);
}

/* The query, key and value biases of Qwen 2 have no key: they are always there. */
static bool read_qwen2(const struct json *root, struct parts *p, struct error *err)
{
    p->attention.qkv_bias = true;
    return read_llama_like(root, p, 0, err);
}

static bool add_layers(struct model *model, const struct parts *p, const struct json *root, struct error *err)
{
    static const struct layer_head loss = { 0 };
    return model_add_block(model, 1, root, err) &&
           model_add_layer(model, layer_kind_find("embedding"), &p->embedding, root, err) &&
           model_add_block(model, p->blocks, root, err) &&
           model_add_layer(model, layer_kind_find("attention"), &p->attention, root, err) &&
           model_add_layer(model, layer_kind_find("mlp"), &p->mlp, root, err) && model_add_block(model, 1, root, err) &&
           model_add_layer(model, layer_kind_find("head"), &p->last, root, err) &&
           model_add_layer(model, layer_kind_find("loss"), &loss, root, err) && model_finish(model, root, err);
}

static const struct {
    const char *type;
    bool (*read)(const struct json *root, struct parts *p, struct error *err);
} families[] = { { "gpt2", read_gpt2 }, { "llama", read_llama }, { "mistral", read_mistral }, { "qwen2", read_qwen2 } };
enum { FAMILIES = sizeof families / sizeof *families };

static bool read_parts(const struct json *root, struct parts *p, struct error *err)
{
    const struct json *at;
    const char *type;
    if (!json_require(root, "model_type", &at, err) || !json_string(at, &type, err))
        return false;
    set_defaults(p);
    for (int i = 0; i < FAMILIES; i++)
        if (strcmp(families[i].type, type) == 0)
            return get_string(root, "_name_or_path", type, &p->head.name, err) &&
                   get_double(root, "initializer_range", 100, 0.02, &p->head.init_std, err) &&
                   families[i].read(root, p, err);
    return json_fail(
        at, err,
        "expected a model_type of gpt2, llama, mistral or qwen2, found \"%.64s\"; describe the model in the native "
        "format instead",
        type);
}

static bool hf_detect(const struct json *root)
{
    return json_member(root, "model_type") != NULL;
}

static bool hf_read(struct model **out, const struct json *root, struct error *err)
{
    struct parts parts;
    if (!read_parts(root, &parts, err))
        return false;
    if (!*parts.head.name)
        parts.head.name = "model";
    struct model *model = model_new(&parts.head);
    if (!model)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory while reading the model");
    if (!add_layers(model, &parts, root, err)) {
        model_free(model);
        return false;
    }
    *out = model;
    return true;
}

extern const struct importer hf_importer;
const struct importer hf_importer = {
    .name = "huggingface",
    .doc = "Hugging Face config.json of model_type gpt2, llama, mistral or qwen2",
    .detect = hf_detect,
    .read = hf_read,
};
