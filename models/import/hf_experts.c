/* Jiang et al. 2024 (Mixtral) and Dai et al. 2024 (DeepSeekMoE): a Llama whose feed-forward networks are experts. Both
 * train without dropping tokens; their auxiliary losses are taken per sequence here. */
#include "models/import/hf_keys.h"

/* What memory is made for: an expert may get up to twice the mean number of a sequence's tokens. */
static const double imbalance = 2;

static void set_experts(struct hf_parts *p)
{
    p->moe.norm = p->mlp.norm;
    p->moe.norm_epsilon = p->mlp.norm_epsilon;
    p->moe.activation = p->mlp.activation;
    p->moe.dropless = true;
    p->moe.capacity_factor = imbalance;
}

/* key: of their number. */
static bool check_experts(const struct json *root, const char *key, const struct hf_parts *p, struct error *err)
{
    if (p->moe.experts > MOE_MAX_EXPERTS)
        return json_fail(json_at_key(root, key), err, "expected at most %d experts, found %lld", MOE_MAX_EXPERTS,
                         (long long)p->moe.experts);
    if (p->moe.choices <= p->moe.experts && p->moe.choices <= MOE_MAX_CHOICES)
        return true;
    return json_fail(json_at_key(root, "num_experts_per_tok"), err,
                     "expected at most %d of the model's %lld experts, found %lld", MOE_MAX_CHOICES,
                     (long long)p->moe.experts, (long long)p->moe.choices);
}

/* Its auxiliary loss counts choices per token, not their share, and is taken once over all layers. */
static bool read_balance(const struct json *root, struct hf_parts *p, struct error *err)
{
    double weight;
    bool used;
    if (!hf_get_double(root, "router_aux_loss_coef", 1e3, 0.001, &weight, err) ||
        !hf_get_bool(root, "output_router_logits", false, &used, err))
        return false;
    p->moe.balance = used ? weight * (double)p->moe.choices / (double)p->blocks : 0;
    return true;
}

static const struct hf_alias mixtral_aliases[] = { { "num_experts", "num_local_experts", false }, { 0 } };

static bool read_mixtral(const struct json *root, struct hf_parts *p, struct error *err)
{
    double noise;
    const char *experts = hf_key(root, mixtral_aliases, "num_local_experts");
    if (!hf_read_llama(root, p, 8, err) || !hf_get_size(root, experts, 8, &p->moe.experts, err) ||
        !hf_get_size(root, "num_experts_per_tok", 2, &p->moe.choices, err) ||
        !hf_get_double(root, "router_jitter_noise", 1, 0, &noise, err) || !check_experts(root, experts, p, err))
        return false;
    if (noise > 0)
        return json_fail(json_member(root, "router_jitter_noise"), err, "only 0 is supported");
    if (!hf_given(root, "rope_theta") && !hf_given(root, "rope_parameters"))
        p->attention.rope_base = 1e6;
    if (!hf_given(root, "rms_norm_eps"))
        hf_set_norms(p, NORM_RMS, 1e-5);
    p->moe.inner = p->mlp.inner;
    set_experts(p);
    return read_balance(root, p, err);
}

static bool read_deepseek(const struct json *root, struct hf_parts *p, struct error *err)
{
    static const char *const scores[] = { "softmax", NULL };
    int64_t shared, frequency;
    bool renormalised, bias;
    if (!hf_read_llama(root, p, 0, err) || !hf_get_bool(root, "attention_bias", false, &bias, err) ||
        !hf_get_size(root, "n_routed_experts", HF_REQUIRED, &p->moe.experts, err) ||
        !hf_get_size(root, "num_experts_per_tok", HF_REQUIRED, &p->moe.choices, err) ||
        !hf_get_size(root, "moe_intermediate_size", HF_REQUIRED, &p->moe.inner, err) ||
        !hf_get_count(root, "n_shared_experts", 0, &shared, err) ||
        !hf_get_count(root, "first_k_dense_replace", 0, &p->dense_blocks, err) ||
        !hf_get_size(root, "moe_layer_freq", 1, &frequency, err) ||
        !hf_need_word(root, "scoring_func", "softmax", scores, err) || !hf_need_bool(root, "seq_aux", true, err) ||
        !hf_get_bool(root, "norm_topk_prob", false, &renormalised, err) ||
        !hf_get_double(root, "aux_loss_alpha", 1e3, 0.001, &p->moe.balance, err) ||
        !check_experts(root, "n_routed_experts", p, err))
        return false;
    if (shared * p->moe.inner > MOE_MAX_INNER)
        return json_fail(json_at_key(root, "n_shared_experts"), err,
                         "expected shared experts of at most %d neurons together, found %lld times %lld", MOE_MAX_INNER,
                         (long long)shared, (long long)p->moe.inner);
    if (frequency != 1)
        return json_fail(json_member(root, "moe_layer_freq"), err, "only 1 is supported, found %lld",
                         (long long)frequency);
    if (p->dense_blocks >= p->blocks)
        return json_fail(json_at_key(root, "first_k_dense_replace"), err,
                         "expected fewer than num_hidden_layers (%lld), found %lld", (long long)p->blocks,
                         (long long)p->dense_blocks);
    p->attention.qkv_bias = p->attention.output_bias = bias;
    p->moe.shared_inner = shared * p->moe.inner;
    p->moe.gates = renormalised ? GATES_OF_CHOSEN : GATES_OF_ALL;
    set_experts(p);
    return true;
}

static bool add_experts(struct model *model, const struct hf_parts *p, const struct json *root, struct error *err)
{
    static const struct loss_layer loss = { 0 };
    bool ok = model_add_block(model, 1, root, err) &&
              model_add_layer(model, layer_kind_find("embedding"), &p->embedding, root, err);
    if (ok && p->dense_blocks)
        ok = model_add_block(model, p->dense_blocks, root, err) &&
             model_add_layer(model, layer_kind_find("attention"), &p->attention, root, err) &&
             model_add_layer(model, layer_kind_find("mlp"), &p->mlp, root, err);
    return ok && model_add_block(model, p->blocks - p->dense_blocks, root, err) &&
           model_add_layer(model, layer_kind_find("attention"), &p->attention, root, err) &&
           model_add_layer(model, layer_kind_find("moe"), &p->moe, root, err) && model_add_block(model, 1, root, err) &&
           model_add_layer(model, layer_kind_find("head"), &p->last, root, err) &&
           model_add_layer(model, layer_kind_find("loss"), &loss, root, err) && model_finish(model, root, err);
}

const struct hf_family hf_mixtral = { "mixtral", "MixtralForCausalLM", mixtral_aliases, read_mixtral, add_experts };
const struct hf_family hf_deepseek = { "deepseek", "DeepseekForCausalLM", NULL, read_deepseek, add_experts };
