#include "models/import/hf_keys.h"
#include <string.h>

static const int64_t most = 1 << 28;

const struct json *hf_given(const struct json *root, const char *key)
{
    const struct json *value = json_member(root, key);
    return value && json_type(value) != JSON_NULL ? value : NULL;
}

bool hf_get_size(const struct json *root, const char *key, int64_t fallback, int64_t *out, struct error *err)
{
    const struct json *value = hf_given(root, key);
    if (value)
        return json_int(value, 1, most, out, err);
    *out = fallback;
    return fallback != HF_REQUIRED || (json_require(root, key, &value, err) && json_int(value, 1, most, out, err));
}

bool hf_get_count(const struct json *root, const char *key, int64_t fallback, int64_t *out, struct error *err)
{
    const struct json *value = hf_given(root, key);
    *out = fallback;
    return !value || json_int(value, 0, most, out, err);
}

bool hf_get_double(const struct json *root, const char *key, double max, double fallback, double *out,
                   struct error *err)
{
    const struct json *value = hf_given(root, key);
    *out = fallback;
    return !value || json_double(value, 0, max, out, err);
}

bool hf_get_bool(const struct json *root, const char *key, bool fallback, bool *out, struct error *err)
{
    const struct json *value = hf_given(root, key);
    *out = fallback;
    return !value || json_bool(value, out, err);
}

bool hf_get_string(const struct json *root, const char *key, const char *fallback, const char **out, struct error *err)
{
    const struct json *value = hf_given(root, key);
    *out = fallback;
    return !value || json_string(value, out, err);
}

bool hf_get_blocks(const struct json *root, const char *key, int64_t *out, struct error *err)
{
    const struct json *value;
    return json_require(root, key, &value, err) && json_int(value, 1, (MODEL_MAX_LAYERS - 3) / 2, out, err);
}

bool hf_need_bool(const struct json *root, const char *key, bool wanted, struct error *err)
{
    bool found;
    if (!hf_get_bool(root, key, wanted, &found, err))
        return false;
    return found == wanted || json_fail(json_member(root, key), err, "only %s is supported", wanted ? "true" : "false");
}

bool hf_need_word(const struct json *root, const char *key, const char *fallback, const char *const *words,
                  struct error *err)
{
    const char *found;
    if (!hf_get_string(root, key, fallback, &found, err))
        return false;
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], found) == 0)
            return true;
    return json_fail(json_at_key(root, key), err, "expected %s \"%s\", found \"%.64s\"",
                     words[1] ? "a supported word such as" : "only", words[0], found);
}

bool hf_check_heads(const struct json *root, const char *key, const char *kv_key, int64_t hidden,
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
        return json_fail(json_at_key(root, hf_given(root, "head_dim") ? "head_dim" : key), err,
                         "rotary positions turn pairs: expected heads of an even width, found %lld",
                         (long long)head_dim);
    return true;
}

void hf_set_defaults(struct hf_parts *p)
{
    *p = (struct hf_parts){ .head = model_head_defaults };
    memcpy(&p->embedding, layer_kind_find("embedding")->defaults, sizeof p->embedding);
    memcpy(&p->patches, layer_kind_find("patches")->defaults, sizeof p->patches);
    memcpy(&p->attention, layer_kind_find("attention")->defaults, sizeof p->attention);
    memcpy(&p->mlp, layer_kind_find("mlp")->defaults, sizeof p->mlp);
    memcpy(&p->moe, layer_kind_find("moe")->defaults, sizeof p->moe);
    memcpy(&p->last, layer_kind_find("head")->defaults, sizeof p->last);
}

void hf_set_norms(struct hf_parts *p, int norm, double epsilon)
{
    p->attention.norm = p->mlp.norm = p->last.norm = norm;
    p->attention.norm_epsilon = p->mlp.norm_epsilon = p->last.norm_epsilon = epsilon;
}

bool hf_read_activation(const struct json *root, int *activation, struct error *err)
{
    static const char *const words[] = { "gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu", NULL };
    static const int meanings[] = { ACTIVATION_GELU_ERF, ACTIVATION_GELU, ACTIVATION_GELU, ACTIVATION_GELU,
                                    ACTIVATION_RELU };
    const char *found;
    if (!hf_need_word(root, "hidden_act", "gelu", words, err) ||
        !hf_get_string(root, "hidden_act", "gelu", &found, err))
        return false;
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], found) == 0)
            *activation = meanings[i];
    return true;
}

/* ---- rotary positions ---- */

/* Dubey et al. 2024 as their released configurations say it. */
static bool read_stretch(const struct json *box, struct attention_layer *f, struct error *err)
{
    const struct json *at;
    return json_require(box, "factor", &at, err) && json_double(at, 1e-6, 1e6, &f->rope_factor, err) &&
           json_require(box, "low_freq_factor", &at, err) && json_double(at, 1e-6, 1e6, &f->rope_low, err) &&
           json_require(box, "high_freq_factor", &at, err) && json_double(at, 1e-6, 1e6, &f->rope_high, err) &&
           json_require(box, "original_max_position_embeddings", &at, err) &&
           json_int(at, 1, 1 << 27, &f->rope_original, err) &&
           (f->rope_high > f->rope_low ||
            json_fail(json_member(box, "high_freq_factor"), err, "expected more than low_freq_factor (%g), found %g",
                      f->rope_low, f->rope_high));
}

/* The type stands under either key; what stretches otherwise would change the rotation and is refused. */
static bool read_rope_box(const struct json *box, const char *name, struct attention_layer *f, struct error *err)
{
    static const char *const type_keys[] = { "rope_type", "type" };
    bool stretched = false;
    if (json_type(box) != JSON_OBJECT)
        return json_fail(box, err, "expected an object or null, found %s", json_type_name(json_type(box)));
    for (int k = 0; k < 2; k++) {
        const char *type;
        if (!hf_get_string(box, type_keys[k], "default", &type, err))
            return false;
        stretched |= strcmp(type, "llama3") == 0;
        if (strcmp(type, "default") != 0 && strcmp(type, "llama3") != 0)
            return json_fail(json_member(box, type_keys[k]), err,
                             "expected \"default\" or \"llama3\", found \"%.64s\": other scaled rotary positions are "
                             "not supported; set %s to null and max_position_embeddings to the unscaled length",
                             type, name);
    }
    return hf_get_double(box, "rope_theta", 1e12, f->rope_base, &f->rope_base, err) &&
           (!stretched || read_stretch(box, f, err));
}

/* rope_theta at the top (older files) or in rope_parameters. */
bool hf_read_rope(const struct json *root, const char *base_key, const char *part_key, double part, bool partial,
                  struct attention_layer *f, struct error *err)
{
    static const char *const containers[] = { "rope_scaling", "rope_parameters" };
    const struct json *part_at = root;
    if (!hf_get_double(root, base_key, 1e12, 10000, &f->rope_base, err) ||
        !hf_get_double(root, part_key, 1, part, &part, err))
        return false;
    part_at = hf_given(root, part_key) ? hf_given(root, part_key) : root;
    for (int i = 0; i < 2; i++) {
        const struct json *box = hf_given(root, containers[i]);
        if (box && (!read_rope_box(box, containers[i], f, err) ||
                    !hf_get_double(box, "partial_rotary_factor", 1, part, &part, err)))
            return false;
        if (box && hf_given(box, "partial_rotary_factor"))
            part_at = hf_given(box, "partial_rotary_factor");
    }
    if (part < 1 && !partial)
        return json_fail(part_at, err, "expected 1: rotary positions over a part of the head are not of this family");
    f->rope_dim = part < 1 ? (int64_t)((double)f->head_dim * part) : 0;
    if (part < 1 && (f->rope_dim < 2 || f->rope_dim % 2))
        return json_fail(part_at, err, "rotary positions turn pairs: expected an even part of %lld, found %g of it",
                         (long long)f->head_dim, part);
    return f->rope_base > 0 ||
           json_fail(json_at_key(root, base_key), err, "expected a positive base of the rotary positions");
}
