/* Decoders whose feed-forward networks are experts (Jiang et al. 2024, Mixtral; Dai et al. 2024, DeepSeekMoE). All
 * train without dropping tokens. */
#include "base/num.h"
#include "models/import/hf_facts.h"
#include <math.h>
#include <string.h>

#define FAMILY(symbol) static const struct hf_family symbol
#define ATTENTION_BIAS HF_NAME("attention_bias", FLAG, qkv_bias), HF_NAME("attention_bias", FLAG, output_bias)

static bool no_noise(struct hf_reader *r)
{
    double noise;
    if (!hf_get_double(r->root, "router_jitter_noise", 1, 0, &noise, r->err))
        return false;
    if (noise > 0)
        hf_note(r, "router_jitter_noise %g changes neither shapes nor work: planned without", noise);
    return true;
}

static const struct hf_name mixtral_names[] = { HF_NAME("num_local_experts", SIZE, experts),
                                                HF_NAME("num_experts", SIZE, experts),
                                                { 0 } };
FAMILY(mixtral) = {
    .type = "mixtral",
    .class_name = "MixtralForCausalLM",
    .names = mixtral_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .kv_heads = 8, .rope_base = 1e6, .positions = 131072, .experts = 8,
               .choices = 2, .balance = 0.001, .windows = true },
    .read = no_noise,
};

/* xAI 2024. */
static bool read_grok(struct hf_reader *r)
{
    hf_note(r, "left out: the norms of what its layers give, %lld weights",
            (long long)(2 * r->facts.blocks * r->facts.hidden));
    return true;
}
FAMILY(grok) = {
    .type = "grok-1",
    .class_name = "Grok1ModelForCausalLM",
    .others = " grok1 ",
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .activation = "gelu_new", .positions = 8192, .experts = 8, .choices = 2,
               .gates = GATES_OF_ALL, .renormalised = true, .tied = true },
    .read = read_grok,
};

/* Layer norms with biases, biases in attention and head where the file says so. */
static const struct hf_name phimoe_names[] = { ATTENTION_BIAS, HF_NAME("lm_head_bias", FLAG, head_bias), { 0 } };
FAMILY(phimoe) = {
    .type = "phimoe",
    .class_name = "PhimoeForCausalLM",
    .others = " phi3.5-moe ",
    .names = phimoe_names,
    .facts = { HF_LLAMA_FACTS, .norm = NORM_LAYER, .epsilon = 1e-5, .kv_heads = 8, .rope_base = 1e6,
               .positions = 131072, .experts = 16, .choices = 2, .balance = 0.001, .windows = true },
    .read = no_noise,
};

static const struct hf_name olmoe_names[] = { ATTENTION_BIAS, { 0 } };
FAMILY(olmoe) = {
    .type = "olmoe",
    .class_name = "OlmoeForCausalLM",
    .names = olmoe_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .positions = 4096, .experts = 64, .choices = 8, .balance = 0.01,
               .gates = GATES_OF_ALL, .qk_norm = QK_NORM_WHOLE, .qk_kind = NORM_RMS },
};

/* Qwen Team 2024: the blocks (i + 1) % decoder_sparse_step == 0 have experts, and a gate for the shared one. */
#define QWEN_MOE_FACTS HF_LLAMA_FACTS, .positions = 32768, .gates = GATES_OF_ALL, .sparse_offset = 1, .balance = 0.001
static const struct hf_name qwen2_moe_names[] = { HF_NAME("qkv_bias", FLAG, qkv_bias),
                                                  HF_NAME("use_sliding_window", FLAG, windows),
                                                  HF_NAME("max_window_layers", COUNT, full_blocks),
                                                  { 0 } };
FAMILY(qwen2_moe) = {
    .type = "qwen2_moe",
    .class_name = "Qwen2MoeForCausalLM",
    .names = qwen2_moe_names,
    .facts = { QWEN_MOE_FACTS, .qkv_bias = true, .experts = 60, .choices = 4, .expert_inner = 1408,
               .shared_inner = 5632, .shared_gate = true },
};
static const struct hf_name qwen3_moe_names[] = { ATTENTION_BIAS,
                                                  HF_NAME("use_sliding_window", FLAG, windows),
                                                  HF_NAME("max_window_layers", COUNT, full_blocks),
                                                  { 0 } };
FAMILY(qwen3_moe) = {
    .type = "qwen3_moe",
    .class_name = "Qwen3MoeForCausalLM",
    .others = " qwen3_vl_moe qwen3_vl_moe_text qwen3_omni_moe_text mellum ",
    .names = qwen3_moe_names,
    .facts = { QWEN_MOE_FACTS, .kv_heads = 4, .experts = 128, .choices = 8, .expert_inner = 768,
               .qk_norm = QK_NORM_HEAD, .qk_kind = NORM_RMS },
};

/* OpenAI 2025: biases everywhere, sinks, windows in every second block. */
static const struct hf_name gpt_oss_names[] = { ATTENTION_BIAS, { 0 } };
FAMILY(gpt_oss) = {
    .type = "gpt_oss",
    .class_name = "GptOssForCausalLM",
    .names = gpt_oss_names,
    .facts = { HF_LLAMA_FACTS, .activation = "swiglu_clamped", .epsilon = 1e-5, .kv_heads = 8, .head_dim = 64,
               .rope_base = 150000, .positions = 131072, .qkv_bias = true, .output_bias = true, .sinks = true,
               .window = 128, .windows = true, .full_every = 2, .experts = 128, .choices = 4, .router_bias = true,
               .expert_bias = true, .balance = 0.001 },
};

/* Which score a token gives its experts. */
static bool read_scores(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    const char *score = f->gates == GATES_SIGMOID_OF_CHOSEN ? "sigmoid" : "softmax";
    if (!hf_get_string(r->root, "scoring_func", score, &score, r->err))
        return false;
    if (strcmp(score, "softmax") != 0 && strcmp(score, "sigmoid") != 0)
        return json_fail(hf_given(r->root, "scoring_func"), r->err,
                         "expected \"softmax\" or \"sigmoid\", found \"%.64s\"", score);
    f->gates = strcmp(score, "softmax") == 0 ? GATES_OF_ALL : GATES_SIGMOID_OF_CHOSEN;
    f->router_correction = f->gates == GATES_SIGMOID_OF_CHOSEN && f->router_correction;
    return true;
}

static const struct hf_name deepseek_names[] = { ATTENTION_BIAS, { 0 } };
/* Its auxiliary loss is taken per sequence, with a weight of its own. */
static bool read_deepseek(struct hf_reader *r)
{
    return hf_need_bool(r->root, "seq_aux", true, r->err) && read_scores(r);
}
FAMILY(deepseek) = {
    .type = "deepseek",
    .class_name = "DeepseekForCausalLM",
    .names = deepseek_names,
    .facts = { HF_LLAMA_FACTS, .gates = GATES_OF_ALL, .balance = 0.001, .balance_by_sequence = true },
    .read = read_deepseek,
};

/* DeepSeek-AI 2025 (V3.2): what chooses the tokens that are attended to is matrices over tokens, as a network is. */
static bool read_indexer(struct hf_reader *r)
{
    double weights;
    if (!hf_count_indexers(r, 0, 1, &weights))
        return false;
    if (!(weights > 0))
        return true;
    const int64_t neurons = hf_add_neurons(r, weights);
    hf_note(r,
            "the indexer of its sparse attention, %.0f weights, is planned as %lld more neurons of each network; "
            "attention is planned over all tokens",
            weights, (long long)neurons);
    return true;
}

/* DeepSeek-AI 2024: latent attention. The files of the second version without experts are the dense one. */
static bool read_latent(struct hf_reader *r)
{
    if (!hf_require_latent(r))
        return false;
    if (r->facts.qkv_bias)
        hf_note(r, "attention_bias: latent attention has no biases here; they are left out of the count");
    return read_indexer(r) && read_scores(r);
}
/* Its configuration class says how many experts a token chooses by null: the released ones have six. */
static bool read_v2(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    if (f->experts && !f->choices) {
        f->choices = 6;
        hf_note(r, "the file says no %s: 6 are assumed, as the released models have", hf_name_of(r, HF_FACT(choices)));
    }
    return read_latent(r);
}
FAMILY(deepseek_v2) = {
    .type = "deepseek_v2",
    .class_name = "DeepseekV2ForCausalLM",
    .others = " deepseek_vl_v2 ",
    .names = deepseek_names,
    .facts = { HF_LLAMA_FACTS, .gates = GATES_OF_ALL, .balance = 0.001, .balance_by_sequence = true },
    .read = read_v2,
};
FAMILY(deepseek_v3) = {
    .type = "deepseek_v3",
    .class_name = "DeepseekV3ForCausalLM",
    .others = " kimi_k2 kimi_k25 glm4_moe_lite deepseek_v32 glm_moe_dsa youtu ",
    .names = deepseek_names,
    .facts = { HF_LLAMA_FACTS, .gates = GATES_SIGMOID_OF_CHOSEN, .renormalised = true, .router_correction = true,
               .positions = 4096 },
    .read = read_latent,
};

/* A norm of what experts give. */
static bool blocks_of_axk1(struct hf_reader *r)
{
    for (int64_t i = 0; i < r->facts.blocks; i++)
        if (r->blocks[i].network == HF_MOE)
            r->blocks[i].moe.output_norm = NORM_RMS;
    return true;
}
FAMILY(axk1) = {
    .type = "axk1",
    .class_name = "AXK1ForCausalLM",
    .names = deepseek_names,
    .facts = { HF_LLAMA_FACTS, .gates = GATES_SIGMOID_OF_CHOSEN, .renormalised = true, .router_correction = true,
               .dense_blocks = 1, .positions = 32768 },
    .read = read_latent,
    .blocks = blocks_of_axk1,
};
FAMILY(mistral4) = {
    .type = "mistral4",
    .class_name = "Mistral4ForCausalLM",
    .names = deepseek_names,
    .facts = { HF_LLAMA_FACTS, .gates = GATES_OF_ALL, .renormalised = true, .positions = 1048576 },
    .read = read_latent,
};

static const struct hf_name glm4_moe_names[] = { HF_NAME("attention_bias", FLAG, qkv_bias),
                                                 HF_NAME("use_qk_norm", FLAG, normed_queries),
                                                 { 0 } };
static bool read_glm4_moe(struct hf_reader *r)
{
    r->facts.qk_norm = r->facts.normed_queries ? QK_NORM_HEAD : QK_NORM_NONE;
    return read_scores(r);
}
FAMILY(glm4_moe) = {
    .type = "glm4_moe",
    .class_name = "Glm4MoeForCausalLM",
    .others = " glm4v_moe_text ",
    .names = glm4_moe_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .gates = GATES_SIGMOID_OF_CHOSEN, .renormalised = true,
               .router_correction = true, .rope_part = 0.5, .positions = 131072, .qk_kind = NORM_RMS },
    .read = read_glm4_moe,
};
/* Upstage 2026. */
FAMILY(solar_open) = {
    .type = "solar_open",
    .class_name = "SolarOpenForCausalLM",
    .names = glm4_moe_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .gates = GATES_SIGMOID_OF_CHOSEN, .renormalised = true,
               .router_correction = true, .head_dim = 128, .rope_base = 1e6, .positions = 131072, .qk_kind = NORM_RMS },
    .read = read_glm4_moe,
};
/* Tencent 2026. */
static const struct hf_name hy_v3_names[] = { ATTENTION_BIAS,
                                              HF_NAME("router_scaling_factor", NUMBER, gate_scale),
                                              { 0 } };
FAMILY(hy_v3) = {
    .type = "hy_v3",
    .class_name = "HYV3ForCausalLM",
    .names = hy_v3_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .gates = GATES_SIGMOID_OF_CHOSEN, .renormalised = true,
               .router_correction = true, .head_dim = 128, .positions = 131072, .dense_blocks = 1, .shared_experts = 1,
               .qk_norm = QK_NORM_HEAD, .qk_kind = NORM_RMS },
    .read = read_scores,
};
/* LG AI Research 2026: windows in three blocks of four, which alone have rotary positions. */
static const struct hf_name exaone_names[] = { ATTENTION_BIAS,
                                               HF_NAME("sliding_window_pattern", IGNORED, full_every),
                                               { 0 } };
FAMILY(exaone_moe) = {
    .type = "exaone_moe",
    .class_name = "ExaoneMoEForCausalLM",
    .names = exaone_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .gates = GATES_SIGMOID_OF_CHOSEN, .renormalised = true,
               .router_correction = true, .dense_blocks = 1, .shared_experts = 1, .qk_norm = QK_NORM_HEAD,
               .qk_kind = NORM_RMS, .full_every = 4 },
    .read = read_scores,
};
/* Arcee 2025 (Trinity): gates of what attention gives, norms before and behind each layer, windows. */
static const struct hf_name afmoe_names[] = { HF_NAME("num_dense_layers", COUNT, dense_blocks),
                                              HF_NAME("route_scale", NUMBER, gate_scale),
                                              HF_NAME("route_norm", FLAG, renormalised),
                                              HF_NAME("global_attn_every_n_layers", SIZE, full_every),
                                              { 0 } };
static bool read_unturned(struct hf_reader *r)
{
    hf_note(r, "blocks that see all tokens have no rotary positions, which changes neither shapes nor parameters: "
               "planned with them");
    return read_scores(r);
}
static bool read_afmoe(struct hf_reader *r)
{
    bool scaled;
    if (!hf_get_bool(r->root, "mup_enabled", false, &scaled, r->err))
        return false;
    r->facts.embedding_scale = scaled ? sqrt((double)r->facts.hidden) : 0;
    return read_unturned(r);
}
FAMILY(afmoe) = {
    .type = "afmoe",
    .class_name = "AfmoeForCausalLM",
    .names = afmoe_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .gates = GATES_SIGMOID_OF_CHOSEN, .renormalised = true,
               .router_correction = true, .head_dim = 128, .positions = 16384, .dense_blocks = 1, .output_norms = true,
               .output_gate = true, .qk_norm = QK_NORM_HEAD, .qk_kind = NORM_RMS, .window = 1024, .windows = true,
               .full_every = 4 },
    .read = read_afmoe,
};
/* Aleph Alpha 2026: norms before and behind each layer, windows in four blocks of five. */
FAMILY(kolibri1) = {
    .type = "kolibri1",
    .class_name = "Kolibri1ForCausalLM",
    .facts = { HF_LLAMA_FACTS, .gates = GATES_SIGMOID_OF_CHOSEN, .router_correction = true, .head_dim = 128,
               .positions = 262144, .output_norms = true, .qk_norm = QK_NORM_HEAD, .qk_kind = NORM_RMS, .window = 513,
               .windows = true, .full_every = 5 },
    .read = read_unturned,
};
/* Windows in five blocks of six, dense blocks first, a gate of each element of what attention gives. */
static const struct hf_name beam_names[] = { ATTENTION_BIAS,
                                             HF_NAME("final_logit_softcapping", NUMBER, logit_cap),
                                             { 0 } };
static bool read_beam(struct hf_reader *r)
{
    hf_note(r,
            "left out: a bias of each head's gate, %lld weights a block; sums with the stream are weighted by depth, "
            "which changes neither shapes nor parameters",
            (long long)r->facts.heads);
    return read_unturned(r);
}
FAMILY(beam) = {
    .type = "beam",
    .class_name = "BeamForCausalLM",
    .names = beam_names,
    .facts = { HF_LLAMA_FACTS, .gates = GATES_SIGMOID_OF_CHOSEN, .renormalised = true, .router_correction = true,
               .head_dim = 128, .positions = 8192, .dense_blocks = 3, .output_norms = true, .output_gate = true,
               .qk_norm = QK_NORM_HEAD, .qk_kind = NORM_RMS, .window = 512, .windows = true, .full_every = 6 },
    .read = read_beam,
};
/* Sinks in all blocks, windows in most, two dense blocks first. */
static bool read_flint(struct hf_reader *r)
{
    if (hf_given(r->root, "mlp_only_layers"))
        r->facts.dense_blocks = 0;
    return hf_require_types(r);
}
FAMILY(flint) = {
    .type = "flint",
    .class_name = "FlintForCausalLM",
    .names = olmoe_names,
    .facts = { HF_LLAMA_FACTS, .gates = GATES_SIGMOID_OF_CHOSEN, .renormalised = true, .head_dim = 128, .kv_heads = 4,
               .positions = 262144, .sparse_offset = 1, .dense_blocks = 2, .balance = 0.0005, .sinks = true,
               .qk_norm = QK_NORM_HEAD, .qk_kind = NORM_RMS, .window = 513 },
    .read = read_flint,
};
/* Shi et al. 2025 (FlexOlmo): norms of what the layers give, none of what they read. */
FAMILY(flex_olmo) = {
    .type = "flex_olmo",
    .class_name = "FlexOlmoForCausalLM",
    .names = olmoe_names,
    .facts = { HF_LLAMA_FACTS, .positions = 4096, .experts = 7, .choices = 5, .balance = 0.01, .gates = GATES_OF_ALL,
               .no_input_norms = true, .output_norms = true, .qk_norm = QK_NORM_WHOLE, .qk_kind = NORM_RMS },
};
FAMILY(dots1) = {
    .type = "dots1",
    .class_name = "Dots1ForCausalLM",
    .names = deepseek_names,
    .facts = { HF_LLAMA_FACTS, .gates = GATES_SIGMOID_OF_CHOSEN, .router_correction = true, .qk_norm = QK_NORM_HEAD,
               .qk_kind = NORM_RMS },
    .read = read_scores,
};

/* MiniMax 2025. */
static const struct hf_name minimax_m2_names[] = { HF_NAME("rotary_dim", SIZE, rope_dim), { 0 } };
static bool read_minimax_m2(struct hf_reader *r)
{
    const char *kind;
    bool normed;
    if (!hf_get_string(r->root, "qk_norm_type", "per_layer", &kind, r->err) ||
        !hf_get_bool(r->root, "use_qk_norm", true, &normed, r->err))
        return false;
    r->facts.qk_norm = !normed ? QK_NORM_NONE : strcmp(kind, "per_layer") == 0 ? QK_NORM_WHOLE : QK_NORM_HEAD;
    return read_scores(r);
}
FAMILY(minimax_m2) = {
    .type = "minimax_m2",
    .class_name = "MiniMaxM2ForCausalLM",
    .names = minimax_m2_names,
    .facts = { HF_LLAMA_FACTS, .gates = GATES_SIGMOID_OF_CHOSEN, .renormalised = true, .router_correction = true,
               .rope_base = 5e6, .positions = 196608, .qk_kind = NORM_RMS },
    .read = read_minimax_m2,
};

static const struct hf_name granitemoe_names[] = { ATTENTION_BIAS,
                                                   HF_NAME("embedding_multiplier", NUMBER, embedding_scale),
                                                   HF_NAME("residual_multiplier", NUMBER, residual_scale),
                                                   HF_NAME("attention_multiplier", NUMBER, score_scale),
                                                   HF_NAME("logits_scaling", NUMBER, logit_scale),
                                                   HF_NAME("shared_intermediate_size", COUNT, shared_inner),
                                                   { 0 } };
static bool read_granitemoe(struct hf_reader *r)
{
    if (r->facts.logit_scale > 0)
        r->facts.logit_scale = 1 / r->facts.logit_scale;
    return true;
}
FAMILY(granitemoe_swa) = {
    .type = "granitemoe_swa",
    .class_name = "GraniteMoeSWAForCausalLM",
    .names = granitemoe_names,
    .facts = { HF_LLAMA_FACTS, .experts = 8, .choices = 2, .balance = 0.001, .sinks = true, .window = 128 },
    .read = read_granitemoe,
};
FAMILY(granitemoe) = {
    .type = "granitemoe",
    .class_name = "GraniteMoeForCausalLM",
    .others = " granitemoeshared ",
    .names = granitemoe_names,
    .facts = { HF_LLAMA_FACTS, .experts = 8, .choices = 2, .balance = 0.001 },
    .read = read_granitemoe,
};

/* Databricks 2024: attention and experts in boxes of their own. */
static const struct hf_name dbrx_names[] = { { 0 } };
static bool read_dbrx(struct hf_reader *r)
{
    const struct json *attention = hf_given(r->root, "attn_config"), *experts = hf_given(r->root, "ffn_config");
    struct hf_facts *f = &r->facts;
    if ((attention && json_type(attention) != JSON_OBJECT) || (experts && json_type(experts) != JSON_OBJECT))
        return json_fail(attention && json_type(attention) != JSON_OBJECT ? attention : experts, r->err,
                         "expected an object");
    return (!attention || (hf_get_size(attention, "kv_n_heads", 1, &f->kv_heads, r->err) &&
                           hf_get_double(attention, "rope_theta", 1e12, f->rope_base, &f->rope_base, r->err))) &&
           (!experts || (hf_get_size(experts, "ffn_hidden_size", 3584, &f->inner, r->err) &&
                         hf_get_size(experts, "moe_num_experts", 4, &f->experts, r->err) &&
                         hf_get_size(experts, "moe_top_k", 1, &f->choices, r->err)));
}
FAMILY(dbrx) = {
    .type = "dbrx",
    .class_name = "DbrxForCausalLM",
    .names = dbrx_names,
    .facts = { HF_LLAMA_FACTS, .norm = NORM_LAYER_NO_BIAS, .epsilon = 1e-5, .inner = 3584, .experts = 4, .choices = 1,
               .kv_heads = 1, .gates = GATES_OF_ALL, .renormalised = true },
    .read = read_dbrx,
};

/* Baidu 2025: experts from one block to another, at intervals; shared experts are as wide as chosen ones. */
static const struct hf_name ernie_names[] = { HF_NAME("use_bias", FLAG, qkv_bias),
                                              HF_NAME("use_bias", FLAG, output_bias),
                                              HF_NAME("use_bias", FLAG, mlp_bias),
                                              HF_NAME("moe_k", SIZE, choices),
                                              HF_NAME("num_experts_per_tok", SIZE, choices),
                                              HF_NAME("moe_num_shared_experts", COUNT, shared_experts),
                                              HF_NAME("moe_layer_start_index", COUNT, dense_blocks),
                                              HF_NAME("moe_layer_interval", SIZE, sparse_step),
                                              { 0 } };
static bool read_ernie(struct hf_reader *r)
{
    const struct json *at = hf_given(r->root, "moe_layer_end_index");
    int64_t last = -1;
    if (at && !json_int(at, -1, 1 << 20, &last, r->err))
        return false;
    r->facts.sparse_last = max_i64(last, 0);
    hf_note(r, "left out: the correction of the router's choice, %lld weights a block", (long long)r->facts.experts);
    return true;
}
FAMILY(ernie4_5_moe) = {
    .type = "ernie4_5_moe",
    .class_name = "Ernie4_5_MoeForCausalLM",
    .names = ernie_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .tied = true, .kv_heads = 4, .rope_base = 5e5, .positions = 131072,
               .experts = 64, .choices = 6, .expert_inner = 1536, .shared_experts = 2, .dense_blocks = 1,
               .sparse_offset = 1, .gates = GATES_OF_ALL, .renormalised = true, .balance = 0.001 },
    .read = read_ernie,
};

/* Tencent 2024: some of its numbers are lists with one entry per block, all alike in what was released. */
static bool first_of_list(struct hf_reader *r, const char *key, int64_t fallback, int64_t *out)
{
    const struct json *at = hf_given(r->root, key);
    *out = fallback;
    if (!at)
        return true;
    if (json_type(at) != JSON_ARRAY)
        return json_int(at, 0, 1 << 28, out, r->err);
    int64_t other;
    for (int i = json_count(at) - 1; i >= 0; i--) {
        if (!json_int(json_at(at, i), 0, 1 << 28, &other, r->err))
            return false;
        if (i < json_count(at) - 1 && other != *out)
            return json_fail(json_at(at, i), r->err, "expected the same number for all blocks (%lld), found %lld",
                             (long long)*out, (long long)other);
        *out = other;
    }
    return true;
}
static const struct hf_name hunyuan_names[] = { ATTENTION_BIAS,
                                                HF_NAME("moe_topk", IGNORED, choices),
                                                HF_NAME("num_shared_expert", IGNORED, shared_experts),
                                                HF_NAME("moe_intermediate_size", IGNORED, expert_inner),
                                                HF_NAME("num_experts", IGNORED, experts),
                                                { 0 } };
static bool read_hunyuan(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    bool normed, mixed;
    if (!first_of_list(r, "moe_topk", 1, &f->choices) ||
        !first_of_list(r, "num_shared_expert", 1, &f->shared_experts) ||
        !first_of_list(r, "moe_intermediate_size", f->inner, &f->expert_inner) ||
        !first_of_list(r, "num_experts", 1, &f->experts) ||
        !hf_get_bool(r->root, "use_qk_norm", true, &normed, r->err) ||
        !hf_get_bool(r->root, "use_mixed_mlp_moe", true, &mixed, r->err))
        return false;
    f->qk_norm = normed ? QK_NORM_HEAD : QK_NORM_NONE;
    f->shared_experts = mixed ? f->shared_experts : 0;
    return true;
}
FAMILY(hunyuan_moe) = {
    .type = "hunyuan_v1_moe",
    .class_name = "HunYuanMoEV1ForCausalLM",
    .others = " hunyuan ",
    .names = hunyuan_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .gates = GATES_OF_ALL, .renormalised = true, .qk_kind = NORM_RMS },
    .read = read_hunyuan,
};

/* Meta 2025: a shared expert beside each chosen one, windows of chunks, blocks without rotation. */
static const struct hf_name llama4_names[] = { ATTENTION_BIAS,
                                               HF_NAME("attention_chunk_size", SIZE, chunk),
                                               HF_NAME("interleave_moe_layer_step", SIZE, sparse_step),
                                               HF_NAME("intermediate_size", SIZE, expert_inner),
                                               HF_NAME("intermediate_size_mlp", SIZE, inner),
                                               { 0 } };
static bool read_llama4(struct hf_reader *r)
{
    r->facts.sparse_offset = 1;
    r->facts.shared_experts = 1;
    r->facts.full_every = 4;
    r->facts.windows = r->facts.chunk > 0;
    r->facts.window = r->facts.chunk;
    hf_note(r, "every fourth block has no rotary positions, which changes neither shapes nor parameters: planned with "
               "them; chunks of attention are planned as windows of that length");
    return true;
}
FAMILY(llama4) = {
    .type = "llama4_text",
    .class_name = "Llama4ForCausalLM",
    .others = " llama4 ",
    .names = llama4_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .hidden = 5120, .blocks = 48, .heads = 40, .kv_heads = 8,
               .head_dim = 128, .vocab = 202048, .expert_inner = 8192, .inner = 16384, .rope_base = 5e5,
               .positions = 131072, .experts = 16, .choices = 1, .chunk = 8192, .gates = GATES_SIGMOID_OF_CHOSEN,
               .balance = 0.001 },
    .read = read_llama4,
};

const struct hf_family *const hf_experts[] = { &solar_open,  &kolibri1,       &beam,        &flint,      &mixtral,
                                               &axk1,        &mistral4,       &hy_v3,       &exaone_moe, &afmoe,
                                               &flex_olmo,   &granitemoe_swa, &grok,        &phimoe,     &olmoe,
                                               &qwen2_moe,   &qwen3_moe,      &gpt_oss,     &deepseek,   &deepseek_v2,
                                               &deepseek_v3, &glm4_moe,       &dots1,       &minimax_m2, &granitemoe,
                                               &dbrx,        &ernie4_5_moe,   &hunyuan_moe, &llama4,     NULL };
