/* Black et al. 2022 (GPT-NeoX) and Biderman et al. 2023 (Pythia): attention and mlp read the same value, each through a
 * norm of its own, and both are added to it (Wang & Komatsuzaki 2021); a part of each head turns. */
#include "models/import/hf_keys.h"

static bool read_gpt_neox(const struct json *root, struct hf_parts *p, struct error *err)
{
    double epsilon;
    bool bias, parallel;
    if (!hf_get_size(root, "hidden_size", HF_REQUIRED, &p->head.hidden, err) ||
        !hf_get_blocks(root, "num_hidden_layers", &p->blocks, err) ||
        !hf_get_size(root, "num_attention_heads", HF_REQUIRED, &p->attention.heads, err) ||
        !hf_get_size(root, "intermediate_size", HF_REQUIRED, &p->mlp.inner, err) ||
        !hf_get_size(root, "vocab_size", HF_REQUIRED, &p->head.vocab_size, err) ||
        !hf_get_size(root, "max_position_embeddings", HF_REQUIRED, &p->head.sequence, err) ||
        !hf_get_double(root, "layer_norm_eps", 1, 1e-5, &epsilon, err) ||
        !hf_get_bool(root, "tie_word_embeddings", false, &p->head.tied_embedding, err) ||
        !hf_get_bool(root, "attention_bias", true, &bias, err) ||
        !hf_get_bool(root, "use_parallel_residual", true, &parallel, err) ||
        !hf_read_activation(root, &p->mlp.activation, err) ||
        !hf_check_heads(root, "num_attention_heads", "num_attention_heads", p->head.hidden, &p->attention, err))
        return false;
    p->attention.head_dim = p->head.hidden / p->attention.heads;
    p->attention.qkv_bias = p->attention.output_bias = bias;
    p->attention.residual = p->mlp.residual = !parallel;
    p->mlp.bias = true;
    hf_set_norms(p, NORM_LAYER, epsilon);
    return hf_read_rope(root, "rotary_emb_base", "rotary_pct", 0.25, true, &p->attention, err);
}

/* One copy: attention and mlp of what enters it, then the sum of the three. */
static bool add_branches(struct model *model, const struct hf_parts *p, const struct json *root, struct error *err)
{
    static const struct loss_layer loss = { 0 };
    static const struct add_layer sum = { .head.name = "sum" };
    const struct layer_source entry = { "entry", root };
    const struct layer_source terms[] = { { "entry", root }, { "attention", root }, { "mlp", root } };
    if (p->mlp.residual)
        return hf_add_decoder(model, p, root, err);
    return model_add_block(model, 1, root, err) &&
           model_add_layer(model, layer_kind_find("embedding"), &p->embedding, root, err) &&
           model_add_block(model, p->blocks, root, err) &&
           model_add_layer(model, layer_kind_find("attention"), &p->attention, root, err) &&
           model_add_reader(model, layer_kind_find("mlp"), &p->mlp, &entry, 1, root, err) &&
           model_add_reader(model, layer_kind_find("add"), &sum, terms, 3, root, err) &&
           model_add_block(model, 1, root, err) &&
           model_add_layer(model, layer_kind_find("head"), &p->last, root, err) &&
           model_add_layer(model, layer_kind_find("loss"), &loss, root, err) && model_finish(model, root, err);
}

const struct hf_family hf_gpt_neox = { "gpt_neox", "GPTNeoXForCausalLM", NULL, read_gpt_neox, add_branches };
