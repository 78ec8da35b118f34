/* Dosovitskiy et al. 2021 with the classifier of transformers' ViTForImageClassification: on the class token, behind
 * the last norm; and its relatives. */
#include "models/import/hf_facts.h"
#include <string.h>

#define FAMILY(symbol) static const struct hf_family symbol

/* The classes are those of "id2label"; without it the library assumes two. */
static bool read_classes(struct hf_reader *r, int64_t *out)
{
    const struct json *labels =
        hf_given(r->top, "id2label") ? hf_given(r->top, "id2label") : hf_given(r->root, "id2label");
    *out = 2;
    if (!labels)
        return true;
    if (json_type(labels) != JSON_OBJECT || json_count(labels) < 1)
        return json_fail(labels, r->err, "expected an object with a member for each class, found %s",
                         json_count(labels) ? json_type_name(json_type(labels)) : "none");
    *out = json_count(labels);
    return true;
}

static bool check_image_size(struct hf_reader *r)
{
    return r->facts.image_size <= MODEL_MAX_IMAGE_SIZE ||
           json_fail(hf_place_of(r, HF_FACT(image_size)), r->err, "expected at most %d pixels, found %lld",
                     MODEL_MAX_IMAGE_SIZE, (long long)r->facts.image_size);
}

static bool head_of_images(struct hf_reader *r, struct model_head *head)
{
    struct hf_facts *f = &r->facts;
    if (!read_classes(r, &head->vocab_size) || !check_image_size(r))
        return false;
    if (f->image_channels > MODEL_MAX_IMAGE_CHANNELS)
        return json_fail(hf_place_of(r, HF_FACT(image_channels)), r->err, "expected at most %d, found %lld",
                         MODEL_MAX_IMAGE_CHANNELS, (long long)f->image_channels);
    if (!f->whole_patches)
        f->image_size -= f->image_size % f->patch; /* the library's own division rounds down */
    if (f->image_size < f->patch || f->image_size % f->patch)
        return json_fail(hf_place_of(r, HF_FACT(patch)), r->err, "expected a divisor of image_size (%lld), found %lld",
                         (long long)f->image_size, (long long)f->patch);
    head->image_size = f->image_size;
    head->image_channels = f->image_channels;
    head->sequence = 1;
    return true;
}

/* What pools by attention is a block that one token passes. */
static bool add_pool(struct hf_reader *r, struct model *model)
{
    const struct hf_facts *f = &r->facts;
    const struct pool_layer pool = { .pool = f->no_class_token ? POOL_AVERAGE : POOL_FIRST };
    struct attention_layer attention = r->blocks[0].attention;
    struct mlp_layer mlp = r->blocks[0].mlp;
    attention.head.name = "pool_attention";
    mlp.head.name = "pool_mlp";
    return hf_add(r, model, "pool", &pool) &&
           (!f->attention_pool || (hf_add(r, model, "attention", &attention) && hf_add(r, model, "mlp", &mlp)));
}

static bool add_vit(struct hf_reader *r, struct model *model)
{
    static const struct loss_layer loss = { 0 };
    const struct norm_layer norm = { { .name = "first_norm" }, r->facts.norm, r->facts.epsilon };
    struct patches_layer patches;
    struct head_layer head;
    patches = *(const struct patches_layer *)layer_kind_find("patches")->defaults;
    patches.patch = r->facts.patch;
    patches.class_token = !r->facts.no_class_token;
    patches.learned_positions = !r->facts.no_places;
    patches.bias = !r->facts.bare_patches;
    return hf_fill_head(r, &head) && model_add_block(model, 1, r->root, r->err) &&
           hf_add(r, model, "patches", &patches) && (!r->facts.embedding_norm || hf_add(r, model, "norm", &norm)) &&
           hf_add_blocks(r, model) && model_add_block(model, 1, r->root, r->err) && add_pool(r, model) &&
           hf_add(r, model, "head", &head) && hf_add(r, model, "loss", &loss) && model_finish(model, r->root, r->err);
}

static const struct hf_name vit_names[] = { HF_NAME("image_size", SIZE, image_size),
                                            HF_NAME("patch_size", SIZE, patch),
                                            HF_NAME("num_channels", SIZE, image_channels),
                                            HF_NAME("qkv_bias", FLAG, qkv_bias),
                                            { 0 } };
#define VIT_FACTS                                                                                                      \
    HF_GPT_FACTS, HF_BIASES, .epsilon = 1e-12, .activation = "gelu", .inner_factor = 0, .hidden = 768, .heads = 12,    \
                             .blocks = 12, .inner = 3072, .vocab = 2, .positions = 1, .place = HF_NO_POSITIONS,        \
                             .encoder = true, .head_bias = true, .image_size = 224, .image_channels = 3, .patch = 16,  \
                             .no_required = true
FAMILY(vit) = {
    .type = "vit",
    .class_name = "ViTForImageClassification",
    .others = " vit_msn ",
    .names = vit_names,
    .facts = { VIT_FACTS, .whole_patches = true },
    .head = head_of_images,
    .add = add_vit,
};

/* Touvron et al. 2021: a token that learns from another model. */
static bool read_deit(struct hf_reader *r)
{
    hf_note(r, "left out: the token of distillation and its position, %lld weights", (long long)(2 * r->facts.hidden));
    return true;
}
FAMILY(deit) = {
    .type = "deit",
    .class_name = "DeiTForImageClassification",
    .names = vit_names,
    .facts = { VIT_FACTS },
    .read = read_deit,
    .head = head_of_images,
    .add = add_vit,
};
/* Assran et al. 2023: no class token. */
FAMILY(ijepa) = {
    .type = "ijepa",
    .class_name = "IJepaForImageClassification",
    .names = vit_names,
    .facts = { VIT_FACTS, .no_class_token = true },
    .head = head_of_images,
    .add = add_vit,
};

/* Bao et al. 2022: biases by relative position in each block, whose tables are neurons here. */
static bool read_beit(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    bool relative, shared, places;
    if (!check_image_size(r) || !hf_get_bool(r->root, "use_relative_position_bias", false, &relative, r->err) ||
        !hf_get_bool(r->root, "use_shared_relative_position_bias", false, &shared, r->err) ||
        !hf_get_bool(r->root, "use_absolute_position_embeddings", false, &places, r->err))
        return false;
    f->no_places = !places;
    const int64_t side = f->image_size / f->patch, table = ((2 * side - 1) * (2 * side - 1) + 3) * f->heads;
    if (relative)
        f->inner += table / (2 * f->hidden);
    hf_note(r, "its scales of what layers give are left out, %lld weights a block%s", (long long)(2 * f->hidden),
            relative ? "; its tables of biases by relative position are planned as neurons" : "");
    return true;
}
FAMILY(beit) = {
    .type = "beit",
    .class_name = "BeitForImageClassification",
    .others = " data2vec-vision ",
    .names = vit_names,
    .facts = { VIT_FACTS, .bare_keys = true },
    .read = read_beit,
    .head = head_of_images,
    .add = add_vit,
};

/* Oquab et al. 2024: scales of what layers give; the classifier reads the class token beside the patches' mean. */
static const struct hf_name dino_names[] = { HF_NAME("image_size", SIZE, image_size),
                                             HF_NAME("patch_size", SIZE, patch),
                                             HF_NAME("num_channels", SIZE, image_channels),
                                             HF_NAME("qkv_bias", FLAG, qkv_bias),
                                             HF_NAME("mlp_ratio", SIZE, inner_factor),
                                             HF_NAME("use_swiglu_ffn", FLAG, gated),
                                             { 0 } };
static bool read_dino(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    const struct json *list = hf_given(r->top, "architectures");
    const char *name = "";
    int64_t classes;
    f->inner = f->inner_factor * f->hidden;
    if (f->gated) {
        f->inner = (2 * f->inner / 3 + 7) / 8 * 8;
        f->activation = "silu";
    }
    if ((list && json_type(list) == JSON_ARRAY && json_count(list) && !json_string(json_at(list, 0), &name, r->err)) ||
        !read_classes(r, &classes))
        return false;
    hf_note(r, "left out: its scales of what layers give, %lld weights a block", (long long)(2 * f->hidden));
    const int64_t means = strstr(name, "ForImageClassification") ? classes * f->hidden : 0;
    if (means)
        hf_note(r, "left out: what its classifier reads of the patches' mean, %lld weights", (long long)means);
    return true;
}
FAMILY(dinov2) = {
    .type = "dinov2",
    .class_name = "Dinov2ForImageClassification",
    .others = " dinov2_with_registers ",
    .names = dino_names,
    .facts = { VIT_FACTS, .epsilon = 1e-6, .inner_factor = 4, .patch = 14 },
    .read = read_dino,
    .head = head_of_images,
    .add = add_vit,
};
/* Siméoni et al. 2025: rotary positions over rows and columns, keys without a bias. */
static const struct hf_name dino3_names[] = {
    HF_NAME("image_size", SIZE, image_size),       HF_NAME("patch_size", SIZE, patch),
    HF_NAME("num_channels", SIZE, image_channels), HF_NAME("query_bias", FLAG, qkv_bias),
    HF_NAME("use_gated_mlp", FLAG, gated),         { 0 }
};
static bool read_dino3(struct hf_reader *r)
{
    hf_note(r,
            "left out: its scales of what layers give, %lld weights a block, and registers; its rotary positions over "
            "rows and columns change neither shapes nor parameters: planned without",
            (long long)(2 * r->facts.hidden));
    return true;
}
FAMILY(dinov3) = {
    .type = "dinov3_vit",
    .class_name = "DINOv3ViTModel",
    .names = dino3_names,
    .facts = { VIT_FACTS, .epsilon = 1e-5, .hidden = 384, .heads = 6, .inner = 1536, .no_places = true,
               .bare_keys = true },
    .read = read_dino3,
    .head = head_of_images,
    .add = add_vit,
};

/* Radford et al. 2021 (CLIP) and Zhai et al. 2023 (SigLIP): of their two towers the one of images. */
static bool read_clip(struct hf_reader *r)
{
    hf_note_text_tower(r);
    return true;
}
FAMILY(clip) = {
    .type = "clip_vision_model",
    .class_name = "CLIPVisionModel",
    .others = " clip chinese_clip chinese_clip_vision_model metaclip_2 metaclip_2_vision_model ",
    .names = vit_names,
    .facts = { VIT_FACTS, .epsilon = 1e-5, .activation = "quick_gelu", .patch = 32, .bare_patches = true,
               .embedding_norm = true },
    .read = read_clip,
    .head = head_of_images,
    .add = add_vit,
};
FAMILY(siglip) = {
    .type = "siglip_vision_model",
    .class_name = "SiglipVisionModel",
    .others = " siglip siglip2 siglip2_vision_model ",
    .names = vit_names,
    .facts = { VIT_FACTS, .epsilon = 1e-6, .activation = "gelu_pytorch_tanh", .no_class_token = true,
               .attention_pool = true },
    .read = read_clip,
    .head = head_of_images,
    .add = add_vit,
};

const struct hf_family *const hf_images[] = { &vit, &deit, &ijepa, &beit, &dinov2, &dinov3, &clip, &siglip, NULL };
