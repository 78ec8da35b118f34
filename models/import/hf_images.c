/* Dosovitskiy et al. 2021 with the classifier of transformers' ViTForImageClassification: on the class token, behind
 * the last norm. */
#include "models/import/hf_facts.h"

/* The classes are those of "id2label"; without it the library assumes two. */
static bool read_classes(struct hf_reader *r, int64_t *out)
{
    const struct json *labels = hf_given(r->root, "id2label");
    *out = 2;
    if (!labels)
        return true;
    if (json_type(labels) != JSON_OBJECT || json_count(labels) < 1)
        return json_fail(labels, r->err, "expected an object with a member for each class, found %s",
                         json_count(labels) ? json_type_name(json_type(labels)) : "none");
    *out = json_count(labels);
    return true;
}

static bool head_of_images(struct hf_reader *r, struct model_head *head)
{
    const struct hf_facts *f = &r->facts;
    if (!read_classes(r, &head->vocab_size))
        return false;
    if (f->image_size > MODEL_MAX_IMAGE_SIZE)
        return json_fail(hf_place_of(r, HF_FACT(image_size)), r->err, "expected at most %d pixels, found %lld",
                         MODEL_MAX_IMAGE_SIZE, (long long)f->image_size);
    if (f->image_channels > MODEL_MAX_IMAGE_CHANNELS)
        return json_fail(hf_place_of(r, HF_FACT(image_channels)), r->err, "expected at most %d, found %lld",
                         MODEL_MAX_IMAGE_CHANNELS, (long long)f->image_channels);
    if (f->image_size % f->patch)
        return json_fail(hf_place_of(r, HF_FACT(patch)), r->err, "expected a divisor of image_size (%lld), found %lld",
                         (long long)f->image_size, (long long)f->patch);
    head->image_size = f->image_size;
    head->image_channels = f->image_channels;
    head->sequence = 1;
    return true;
}

static bool add_vit(struct hf_reader *r, struct model *model)
{
    static const struct loss_layer loss = { 0 };
    static const struct pool_layer pool = { .pool = POOL_FIRST };
    struct patches_layer patches;
    struct head_layer head;
    patches = *(const struct patches_layer *)layer_kind_find("patches")->defaults;
    patches.patch = r->facts.patch;
    return hf_fill_head(r, &head) && model_add_block(model, 1, r->root, r->err) &&
           hf_add(r, model, "patches", &patches) && hf_add_blocks(r, model) &&
           model_add_block(model, 1, r->root, r->err) && hf_add(r, model, "pool", &pool) &&
           hf_add(r, model, "head", &head) && hf_add(r, model, "loss", &loss) && model_finish(model, r->root, r->err);
}

static const struct hf_name vit_names[] = { HF_NAME("image_size", SIZE, image_size),
                                            HF_NAME("patch_size", SIZE, patch),
                                            HF_NAME("num_channels", SIZE, image_channels),
                                            HF_NAME("qkv_bias", FLAG, qkv_bias),
                                            { 0 } };
static const struct hf_family vit = {
    .type = "vit",
    .class_name = "ViTForImageClassification",
    .names = vit_names,
    .facts = { HF_GPT_FACTS, HF_BIASES, .epsilon = 1e-12, .activation = "gelu", .inner_factor = 0, .hidden = 768,
               .heads = 12, .inner = 3072, .vocab = 2, .positions = 1, .place = HF_NO_POSITIONS, .encoder = true,
               .head_bias = true, .image_size = 224, .image_channels = 3, .patch = 16, .no_required = true },
    .head = head_of_images,
    .add = add_vit,
};

const struct hf_family *const hf_images[] = { &vit, NULL };
