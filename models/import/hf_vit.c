/* Dosovitskiy et al. 2021 with the classifier of transformers' ViTForImageClassification: on the class token, behind
 * the last norm. */
#include "models/import/hf_keys.h"

/* The classes are those of "id2label"; without it the library assumes two. */
static bool read_classes(const struct json *root, int64_t *out, struct error *err)
{
    const struct json *labels = hf_given(root, "id2label");
    *out = 2;
    if (!labels)
        return true;
    if (json_type(labels) != JSON_OBJECT || json_count(labels) < 1)
        return json_fail(labels, err, "expected an object with a member for each class, found %s",
                         json_count(labels) ? json_type_name(json_type(labels)) : "none");
    *out = json_count(labels);
    return true;
}

static bool read_vit(const struct json *root, struct hf_parts *p, struct error *err)
{
    double epsilon;
    if (!hf_get_size(root, "hidden_size", 768, &p->head.hidden, err) ||
        !hf_get_blocks(root, "num_hidden_layers", &p->blocks, err) ||
        !hf_get_size(root, "num_attention_heads", 12, &p->attention.heads, err) ||
        !hf_get_size(root, "intermediate_size", 3072, &p->mlp.inner, err) ||
        !hf_get_size(root, "image_size", 224, &p->head.image_size, err) ||
        !hf_get_size(root, "patch_size", 16, &p->patches.patch, err) ||
        !hf_get_size(root, "num_channels", 3, &p->head.image_channels, err) ||
        !hf_get_bool(root, "qkv_bias", true, &p->attention.qkv_bias, err) ||
        !hf_get_double(root, "layer_norm_eps", 1, 1e-12, &epsilon, err) ||
        !hf_read_activation(root, &p->mlp.activation, err) || !read_classes(root, &p->head.vocab_size, err))
        return false;
    if (p->head.image_size > MODEL_MAX_IMAGE_SIZE)
        return json_fail(json_member(root, "image_size"), err, "expected at most %d pixels, found %lld",
                         MODEL_MAX_IMAGE_SIZE, (long long)p->head.image_size);
    if (p->head.image_channels > MODEL_MAX_IMAGE_CHANNELS)
        return json_fail(json_member(root, "num_channels"), err, "expected at most %d, found %lld",
                         MODEL_MAX_IMAGE_CHANNELS, (long long)p->head.image_channels);
    if (p->head.image_size % p->patches.patch)
        return json_fail(json_at_key(root, "patch_size"), err, "expected a divisor of image_size (%lld), found %lld",
                         (long long)p->head.image_size, (long long)p->patches.patch);
    p->head.sequence = 1;
    p->attention.causal = false;
    p->attention.output_bias = p->mlp.bias = p->last.bias = true;
    hf_set_norms(p, NORM_LAYER, epsilon);
    return hf_check_heads(root, "num_attention_heads", "num_attention_heads", p->head.hidden, &p->attention, err);
}

static bool add_vit(struct model *model, const struct hf_parts *p, const struct json *root, struct error *err)
{
    static const struct loss_layer loss = { 0 };
    static const struct pool_layer pool = { .pool = POOL_FIRST };
    return model_add_block(model, 1, root, err) &&
           model_add_layer(model, layer_kind_find("patches"), &p->patches, root, err) &&
           model_add_block(model, p->blocks, root, err) &&
           model_add_layer(model, layer_kind_find("attention"), &p->attention, root, err) &&
           model_add_layer(model, layer_kind_find("mlp"), &p->mlp, root, err) && model_add_block(model, 1, root, err) &&
           model_add_layer(model, layer_kind_find("pool"), &pool, root, err) &&
           model_add_layer(model, layer_kind_find("head"), &p->last, root, err) &&
           model_add_layer(model, layer_kind_find("loss"), &loss, root, err) && model_finish(model, root, err);
}

const struct hf_family hf_vit = { "vit", "ViTForImageClassification", NULL, read_vit, add_vit };
