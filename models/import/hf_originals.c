/* Files as the makers of models wrote them, beside the library's own. */
#include "base/num.h"
#include "models/import/hf_facts.h"
#include <stdio.h>
#include <string.h>

#define FAMILY(symbol) static const struct hf_family symbol

/* Groeneveld et al. 2024 (OLMo): the inner width is that of gate and network together. */
static const struct hf_name olmo_names[] = { HF_NAME("d_model", SIZE, hidden),
                                             HF_NAME("n_layers", SIZE, blocks),
                                             HF_NAME("n_heads", SIZE, heads),
                                             HF_NAME("n_kv_heads", SIZE, kv_heads),
                                             HF_NAME("mlp_hidden_size", SIZE, inner),
                                             HF_NAME("mlp_ratio", SIZE, inner_factor),
                                             HF_NAME("max_sequence_length", SIZE, positions),
                                             HF_NAME("embedding_size", SIZE, vocab),
                                             HF_NAME("vocab_size", IGNORED, vocab),
                                             HF_NAME("weight_tying", FLAG, tied),
                                             HF_NAME("include_bias", FLAG, qkv_bias),
                                             HF_NAME("include_bias", FLAG, output_bias),
                                             HF_NAME("include_bias", FLAG, mlp_bias),
                                             HF_NAME("activation_type", WORD, activation),
                                             { 0 } };
static bool read_olmo(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    bool one, weighted, biased;
    const char *norm;
    if (!hf_get_bool(r->root, "multi_query_attention", false, &one, r->err) ||
        !hf_get_bool(r->root, "layer_norm_with_affine", true, &weighted, r->err) ||
        !hf_get_bool(r->root, "bias_for_layer_norm", f->mlp_bias, &biased, r->err) ||
        !hf_get_string(r->root, "layer_norm_type", "default", &norm, r->err))
        return false;
    f->norm = strcmp(norm, "rms") == 0 ? NORM_RMS : weighted && biased ? NORM_LAYER : NORM_LAYER_NO_BIAS;
    f->kv_heads = one ? 1 : f->kv_heads;
    f->gated = strstr(f->activation, "glu") != NULL;
    f->inner = f->gated && f->inner > 1 ? f->inner / 2 : f->inner;
    if (!weighted)
        hf_note(r, "its norms have no weights: planned with %lld weights of norms that the file's model has not",
                (long long)((2 * f->blocks + 1) * f->hidden));
    return true;
}
FAMILY(hf_olmo) = {
    .type = "hf_olmo",
    .class_name = "OLMoForCausalLM",
    .names = olmo_names,
    .facts = { HF_LLAMA_FACTS, .norm = NORM_LAYER_NO_BIAS, .epsilon = 1e-5, .activation = "swiglu", .inner_factor = 4,
               .vocab = 50304 },
    .read = read_olmo,
};

/* Mehta et al. 2024 (OpenELM): heads and widths of each block by lists. */
static const struct hf_name openelm_names[] = { HF_NAME("model_dim", SIZE, hidden),
                                                HF_NAME("num_transformer_layers", SIZE, blocks),
                                                HF_NAME("max_context_length", SIZE, positions),
                                                HF_NAME("share_input_output_layers", FLAG, tied),
                                                HF_NAME("normalize_qk_projections", FLAG, normed_queries),
                                                HF_NAME("rope_freq_constant", BASE, rope_base),
                                                HF_NAME("activation_fn_name", WORD, activation),
                                                HF_NAME("ffn_with_glu", FLAG, gated),
                                                { 0 } };
static bool read_openelm(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    const struct json *at;
    if (!f->head_dim && !hf_require(r->root, "head_dim", &at, r->err))
        return false;
    f->qk_norm = f->normed_queries ? QK_NORM_HEAD : QK_NORM_NONE;
    return true;
}
/* Reads the list under the key, which must be there, with an entry for each block. */
static bool require_list(struct hf_reader *r, const char *key, const struct json **out)
{
    return hf_require(r->root, key, out, r->err) && hf_get_list(r, key, r->facts.blocks, out);
}
static bool blocks_of_openelm(struct hf_reader *r)
{
    const struct hf_facts *f = &r->facts;
    const struct json *heads, *kv_heads, *ratios;
    int64_t divisor;
    double ratio;
    if (!require_list(r, "num_query_heads", &heads) || !require_list(r, "num_kv_heads", &kv_heads) ||
        !require_list(r, "ffn_multipliers", &ratios) || !hf_get_size(r->root, "ffn_dim_divisor", 256, &divisor, r->err))
        return false;
    for (int64_t i = 0; i < f->blocks; i++) {
        struct hf_block *b = &r->blocks[i];
        if (!json_int(json_at(heads, (int)i), 1, 1 << 16, &b->attention.heads, r->err) ||
            !json_int(json_at(kv_heads, (int)i), 1, 1 << 16, &b->attention.kv_heads, r->err) ||
            !json_double(json_at(ratios, (int)i), 1e-3, 1e3, &ratio, r->err))
            return false;
        if (b->attention.heads % b->attention.kv_heads)
            return json_fail(json_at(kv_heads, (int)i), r->err,
                             "expected a divisor of num_query_heads (%lld), found %lld", (long long)b->attention.heads,
                             (long long)b->attention.kv_heads);
        const double wanted = ratio * (double)f->hidden;
        int64_t inner = (int64_t)(wanted + (double)divisor / 2) / divisor * divisor;
        inner = max_i64(inner, divisor);
        b->mlp.inner = (double)inner < 0.9 * wanted ? inner + divisor : inner;
    }
    return true;
}
FAMILY(openelm) = {
    .type = "openelm",
    .class_name = "OpenELMForCausalLM",
    .names = openelm_names,
    .facts = { HF_LLAMA_FACTS, .heads = 1, .inner = 1, .tied = true, .qk_kind = NORM_RMS, .activation = "swish",
               .vocab = 32000, .no_required = true },
    .read = read_openelm,
    .blocks = blocks_of_openelm,
};

/* Gu & Dao 2023, Dao & Gu 2024: the table of tokens is padded. */
static const struct hf_name mamba_names[] = {
    HF_NAME("d_model", SIZE, hidden), HF_NAME("n_layer", SIZE, blocks), HF_NAME("tie_embeddings", FLAG, tied), { 0 }
};
static bool read_mamba(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    const struct json *box = hf_given(r->root, "ssm_cfg"), *attention = hf_given(r->root, "attn_layer_idx");
    const char *layer = "Mamba1";
    int64_t multiple, network;
    if (!hf_expect_object(box, r->err))
        return false;
    if (attention && json_count(attention) > 0)
        return json_fail(attention, r->err,
                         "blocks of attention between these state spaces cannot be planned: describe "
                         "the model in the native format");
    if (!hf_get_size(r->root, "pad_vocab_size_multiple", 8, &multiple, r->err) ||
        !hf_get_count(r->root, "d_intermediate", 0, &network, r->err) ||
        (box && !hf_get_string(box, "layer", layer, &layer, r->err)))
        return false;
    const bool second = strcmp(layer, "Mamba2") == 0;
    if (!second && strcmp(layer, "Mamba1") != 0)
        return json_fail(json_at_key(box, "layer"), r->err, "expected \"Mamba1\" or \"Mamba2\", found \"%.64s\"",
                         layer);
    if (network > 0)
        return json_fail(json_at_key(r->root, "d_intermediate"), r->err,
                         "networks between these state spaces cannot be planned: describe the model in the native "
                         "format");
    f->state = second ? 128 : 16;
    f->state_head_dim = 64;
    if (box &&
        (!hf_get_size(box, "d_state", f->state, &f->state, r->err) ||
         !hf_get_size(box, "expand", 2, &f->state_expand, r->err) || !hf_get_size(box, "d_conv", 4, &f->conv, r->err) ||
         !hf_get_size(box, "headdim", 64, &f->state_head_dim, r->err) ||
         !hf_get_size(box, "ngroups", 1, &f->state_groups, r->err)))
        return false;
    if (second && f->state_expand * f->hidden % f->state_head_dim)
        return json_fail(json_at_key(box, "headdim"), r->err,
                         "expected a divisor of the state space's inner width (%lld), found %lld",
                         (long long)(f->state_expand * f->hidden), (long long)f->state_head_dim);
    f->state_heads = second ? f->state_expand * f->hidden / f->state_head_dim : 0;
    f->step_rank = (f->hidden + 15) / 16;
    f->vocab = (f->vocab + multiple - 1) / multiple * multiple;
    f->inner = 0;
    return true;
}
static bool blocks_of_mamba(struct hf_reader *r)
{
    struct state_space_layer state;
    if (!hf_fill_state(r, r->facts.state_heads ? 2 : 1, &state))
        return false;
    for (int64_t i = 0; i < r->facts.blocks; i++) {
        r->blocks[i] = (struct hf_block){ .mixer = HF_STATE_SPACE, .network = HF_NO_NETWORK };
        r->blocks[i].state = state;
    }
    return true;
}
FAMILY(mamba_ssm) = {
    .type = "mamba_ssm",
    .class_name = "MambaLMHeadModel",
    .names = mamba_names,
    .facts = { .norm = NORM_RMS,
               .epsilon = 1e-5,
               .init_std = 0.02,
               .activation = "silu",
               .place = HF_NO_POSITIONS,
               .positions = 2048,
               .no_heads = true,
               .state_expand = 2,
               .conv = 4,
               .conv_bias = true,
               .inner_factor = 1,
               .gate_scale = 1,
               .tied = true,
               .state_groups = 1,
               .state_norms = true },
    .read = read_mamba,
    .blocks = blocks_of_mamba,
};

/* Touvron et al. 2023 and Jiang et al. 2023: the params.json of Meta's and Mistral's own checkpoints. */
static const struct hf_name params_names[] = { HF_NAME("dim", SIZE, hidden),
                                               HF_NAME("n_layers", SIZE, blocks),
                                               HF_NAME("n_heads", SIZE, heads),
                                               HF_NAME("n_kv_heads", SIZE, kv_heads),
                                               HF_NAME("hidden_dim", SIZE, inner),
                                               HF_NAME("vocab_size", IGNORED, vocab),
                                               HF_NAME("tied_embeddings", FLAG, tied),
                                               HF_NAME("max_seq_len", SIZE, positions),
                                               { 0 } };

/* What of the file would change the parameters and cannot be said here is refused; its other boxes are named. */
static bool check_params(struct hf_reader *r, const struct json *moe)
{
    static const char *const refused[] = { "q_lora_rank", "kv_lora_rank", "vision_num_cross_attention_layers" };
    static const char *const boxes = " vision_encoder vision_args multimodal yarn llama_4_scaling quantization "
                                     "quantization_args lora_args ";
    static const char instead[] = "cannot be planned from this kind of file: import the model's config.json";
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (hf_given(r->root, refused[i]))
            return json_fail(hf_given(r->root, refused[i]), r->err, "%s", instead);
    for (int i = 0; moe && i < json_count(moe); i++)
        if (json_type(json_member_at(moe, i)) != JSON_NULL && strcmp(json_key(moe, i), "num_experts") != 0 &&
            strcmp(json_key(moe, i), "num_experts_per_tok") != 0)
            return json_fail(json_member_at(moe, i), r->err,
                             "experts with more than num_experts and num_experts_per_tok %s", instead);
    for (int i = 0; i < json_count(r->root); i++) {
        const char *key = json_key(r->root, i);
        char word[64];
        if (json_type(json_member_at(r->root, i)) != JSON_OBJECT || json_member_at(r->root, i) == moe ||
            strncmp(key, "rope_", 5) == 0)
            continue;
        snprintf(word, sizeof word, " %.60s ", key);
        if (!strstr(boxes, word))
            return json_fail(json_member_at(r->root, i), r->err, "this part of the model %s", instead);
        hf_note(r, "left out: what the file says under %s", key);
    }
    return true;
}
static bool read_params(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    const struct json *words = hf_given(r->root, "vocab_size"), *moe = hf_given(r->root, "moe"),
                      *mult = hf_given(r->root, "ffn_dim_multiplier");
    int64_t multiple, said = -1;
    double factor = 1;
    if ((words && !json_int(words, -1, 1 << 28, &said, r->err)) ||
        !hf_get_size(r->root, "multiple_of", 256, &multiple, r->err) ||
        (mult && !json_double(mult, 1e-3, 1e3, &factor, r->err)))
        return false;
    if (!hf_expect_object(moe, r->err) || !check_params(r, moe))
        return false;
    if (moe && (!hf_get_size(moe, "num_experts", 8, &f->experts, r->err) ||
                !hf_get_size(moe, "num_experts_per_tok", 2, &f->choices, r->err)))
        return false;
    if (said == 0)
        return json_fail(words, r->err, "expected the number of tokens, or -1 where the tokenizer says it, found 0");
    if (said < 0)
        hf_note(r, "the file leaves the number of tokens to the tokenizer: %lld are assumed", (long long)f->vocab);
    f->vocab = said > 0 ? said : f->vocab;
    if (!hf_is_given(r, HF_FACT(inner))) {
        const int64_t inner = (int64_t)(factor * (double)(2 * (4 * f->hidden) / 3));
        f->inner = (inner + multiple - 1) / multiple * multiple;
    }
    return true;
}
FAMILY(llama_params) = {
    .type = "llama_params",
    .class_name = "LlamaParams",
    .names = params_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .inner = 1, .vocab = 32000, .no_required = true },
    .read = read_params,
};

const struct hf_family *const hf_originals[] = { &llama_params, &hf_olmo, &openelm, &mamba_ssm, NULL };
