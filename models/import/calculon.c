/* calculon's application (Isaev et al. 2023): the sizes of a GPT, as it has them beside an execution. Its models have
 * the biases and norms of Megatron's, and 51,200 tokens. */
#include "models/import/hf_keys.h"
#include <string.h>

static bool calculon_detect(const struct json *root)
{
    return json_member(root, "attn_heads") && json_member(root, "num_blocks") && json_member(root, "feedforward");
}

struct application {
    int64_t hidden, inner, sequence, heads, head_dim, blocks;
};

static bool read_sizes(struct application *a, const struct json *root, struct error *err)
{
    return hf_get_size(root, "hidden", HF_REQUIRED, &a->hidden, err) &&
           hf_get_size(root, "feedforward", HF_REQUIRED, &a->inner, err) &&
           hf_get_size(root, "seq_size", HF_REQUIRED, &a->sequence, err) &&
           hf_get_size(root, "attn_heads", HF_REQUIRED, &a->heads, err) &&
           hf_get_size(root, "attn_size", HF_REQUIRED, &a->head_dim, err) &&
           hf_get_size(root, "num_blocks", HF_REQUIRED, &a->blocks, err) &&
           (a->blocks <= (MODEL_MAX_LAYERS - 3) / 2 ||
            json_fail(json_at_key(root, "num_blocks"), err, "expected at most %d blocks, found %lld",
                      (MODEL_MAX_LAYERS - 3) / 2, (long long)a->blocks));
}

static bool add_layers(struct model *model, const struct application *a, const struct json *root, struct error *err)
{
    static const struct loss_layer loss = { 0 };
    const struct layer_kind *kinds[] = { layer_kind_find("embedding"), layer_kind_find("attention"),
                                         layer_kind_find("mlp"), layer_kind_find("head"), layer_kind_find("loss") };
    struct embedding_layer embedding = *(const struct embedding_layer *)kinds[0]->defaults;
    struct attention_layer attention = *(const struct attention_layer *)kinds[1]->defaults;
    struct mlp_layer mlp = *(const struct mlp_layer *)kinds[2]->defaults;
    struct head_layer head = *(const struct head_layer *)kinds[3]->defaults;
    embedding.learned_positions = model->sequence;
    attention.heads = attention.kv_heads = a->heads;
    attention.head_dim = a->head_dim;
    attention.qkv_bias = attention.output_bias = mlp.bias = true;
    attention.norm = mlp.norm = head.norm = NORM_LAYER;
    mlp.inner = a->inner;
    mlp.activation = ACTIVATION_GELU;
    return model_add_block(model, 1, root, err) && model_add_layer(model, kinds[0], &embedding, root, err) &&
           model_add_block(model, a->blocks, root, err) && model_add_layer(model, kinds[1], &attention, root, err) &&
           model_add_layer(model, kinds[2], &mlp, root, err) && model_add_block(model, 1, root, err) &&
           model_add_layer(model, kinds[3], &head, root, err) && model_add_layer(model, kinds[4], &loss, root, err) &&
           model_finish(model, root, err);
}

static bool calculon_read(struct model **out, const struct json *root, const char *name, struct model_reading *reading,
                          struct error *err)
{
    struct application a;
    struct model_head head = model_head_defaults;
    (void)name;
    if (reading && (reading->adapter || reading->as || reading->multi_token))
        return json_fail(root, err, "expected a Hugging Face config.json for adapters, --as and --mtp");
    if (!read_sizes(&a, root, err))
        return false;
    head.name = "calculon";
    head.hidden = a.hidden;
    head.vocab_size = 51200; /* calculon/llm/llm.py, Llm.Application.num_parameters */
    head.sequence = reading && reading->sequence ? reading->sequence : a.sequence;
    head.tied_embedding = true;
    struct model *model = model_new(&head);
    if (!model)
        return fail_memory(err);
    if (add_layers(model, &a, root, err)) {
        *out = model;
        return true;
    }
    model_free(model);
    return false;
}

extern const struct importer calculon_importer;
const struct importer calculon_importer = {
    .name = "calculon",
    .doc = "application of calculon",
    .detect = calculon_detect,
    .read = calculon_read,
};
