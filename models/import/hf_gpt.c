/* Decoders with layer norms, most of them before or beside Llama. What a family says otherwise stands in its row. */
#include "models/import/hf_facts.h"
#include <string.h>

#define FAMILY(symbol) static const struct hf_family symbol
#define ATTENTION_BIAS HF_NAME("attention_bias", FLAG, qkv_bias), HF_NAME("attention_bias", FLAG, output_bias)
#define USE_BIAS                                                                                                       \
    HF_NAME("use_bias", FLAG, qkv_bias), HF_NAME("use_bias", FLAG, output_bias), HF_NAME("use_bias", FLAG, mlp_bias)
#define GPT_SIZES                                                                                                      \
    HF_NAME("n_embd", SIZE, hidden), HF_NAME("hidden_size", SIZE, hidden), HF_NAME("n_layer", SIZE, blocks),           \
        HF_NAME("num_hidden_layers", SIZE, blocks), HF_NAME("n_head", SIZE, heads),                                    \
        HF_NAME("num_attention_heads", SIZE, heads), HF_NAME("n_positions", SIZE, positions),                          \
        HF_NAME("max_position_embeddings", SIZE, positions), HF_NAME("n_ctx", SIZE, positions)

/* Radford et al. 2019: learned positions, pre-norm, biases everywhere, GELU in its tanh form. */
static const struct hf_name gpt2_names[] = { GPT_SIZES,
                                             HF_NAME("scale_attn_weights", ONLY_TRUE, hidden),
                                             HF_NAME("scale_attn_by_inverse_layer_idx", ONLY_FALSE, hidden),
                                             HF_NAME("add_cross_attention", ONLY_FALSE, hidden),
                                             { 0 } };
FAMILY(gpt2) = {
    .type = "gpt2",
    .class_name = "GPT2LMHeadModel",
    .others = " gpt-sw3 cerebras ",
    .names = gpt2_names,
    .facts = { HF_GPT_FACTS, HF_BIASES, .place = HF_LEARNED, .tied = true, .positions = 1024 },
};

/* Radford et al. 2018: norms behind the sums. */
static const struct hf_name gpt1_names[] = { GPT_SIZES, HF_NAME("afn", WORD, activation), { 0 } };
FAMILY(gpt1) = {
    .type = "openai-gpt",
    .class_name = "OpenAIGPTLMHeadModel",
    .names = gpt1_names,
    .facts = { HF_GPT_FACTS, HF_BIASES, .place = HF_LEARNED, .tied = true, .positions = 512, .post_norm = true },
};

/* Keskar et al. 2019: sines of positions, which are no weights. */
static const struct hf_name ctrl_names[] = { GPT_SIZES, HF_NAME("dff", SIZE, inner), { 0 } };
FAMILY(ctrl) = {
    .type = "ctrl",
    .class_name = "CTRLLMHeadModel",
    .names = ctrl_names,
    .facts = { HF_GPT_FACTS, HF_BIASES, .epsilon = 1e-6, .activation = "relu", .place = HF_NO_POSITIONS, .tied = true,
               .positions = 256, .head_bias = true },
};

/* Ben Allal et al. 2023: one head of keys and values. */
static const struct hf_name bigcode_names[] = { GPT_SIZES, { 0 } };
static bool read_bigcode(struct hf_reader *r)
{
    bool multi_query;
    if (!hf_get_bool(r->root, "multi_query", true, &multi_query, r->err))
        return false;
    r->facts.kv_heads = multi_query ? 1 : 0;
    return true;
}
FAMILY(bigcode) = {
    .type = "gpt_bigcode",
    .class_name = "GPTBigCodeForCausalLM",
    .names = bigcode_names,
    .facts = { HF_GPT_FACTS, HF_BIASES, .place = HF_LEARNED, .tied = true, .positions = 1024,
               .activation = "gelu_pytorch_tanh" },
    .read = read_bigcode,
};

/* Black et al. 2021: windows in every second block; its pattern is a list of pairs of words and repeats. */
static const struct hf_name neo_names[] = {
    HF_NAME("num_layers", SIZE, blocks),  HF_NAME("num_hidden_layers", SIZE, blocks),
    HF_NAME("num_heads", SIZE, heads),    HF_NAME("num_attention_heads", SIZE, heads),
    HF_NAME("window_size", SIZE, window), { 0 }
};
FAMILY(gpt_neo) = {
    .type = "gpt_neo",
    .class_name = "GPTNeoForCausalLM",
    .names = neo_names,
    .facts = { HF_GPT_FACTS, .output_bias = true, .mlp_bias = true, .place = HF_LEARNED, .tied = true, .window = 256,
               .score_scale = 1 },
    .blocks = NULL,
};

/* Wang & Komatsuzaki 2021: attention and network side by side behind one norm; a part of each head turns. */
static const struct hf_name gptj_names[] = { GPT_SIZES, HF_NAME("rotary_dim", SIZE, rope_dim), { 0 } };
FAMILY(gptj) = {
    .type = "gptj",
    .class_name = "GPTJForCausalLM",
    .others = " codegen ",
    .names = gptj_names,
    .facts = { HF_GPT_FACTS, .mlp_bias = true, .head_bias = true, .stream = HF_SHARED_NORM, .rope_dim = 64 },
};

/* Black et al. 2022 (GPT-NeoX) and Biderman et al. 2023 (Pythia): side by side, each behind a norm of its own. */
static const struct hf_name neox_names[] = {
    ATTENTION_BIAS, HF_NAME("rotary_emb_base", BASE, rope_base), HF_NAME("rope_theta", BASE, rope_base), { 0 }
};
static bool read_neox(struct hf_reader *r)
{
    bool side_by_side;
    if (!hf_get_bool(r->root, "use_parallel_residual", true, &side_by_side, r->err))
        return false;
    r->facts.stream = side_by_side ? HF_OWN_NORMS : HF_SERIAL;
    return true;
}
FAMILY(gpt_neox) = {
    .type = "gpt_neox",
    .class_name = "GPTNeoXForCausalLM",
    .names = neox_names,
    .facts = { HF_GPT_FACTS, HF_BIASES, .activation = "gelu", .rope_part = 0.25, .inner_factor = 0 },
    .read = read_neox,
};

/* ABEJA 2022: one after the other; only what the last block's attention gives has a bias. */
static const struct hf_name neox_japanese_names[] = { HF_NAME("intermediate_multiple_size", SIZE, inner_factor),
                                                      HF_NAME("rotary_emb_base", BASE, rope_base),
                                                      { 0 } };
static bool blocks_of_neox_japanese(struct hf_reader *r)
{
    r->blocks[r->facts.blocks - 1].attention.output_bias = true;
    return true;
}
FAMILY(gpt_neox_japanese) = {
    .type = "gpt_neox_japanese",
    .class_name = "GPTNeoXJapaneseForCausalLM",
    .names = neox_japanese_names,
    .facts = { HF_GPT_FACTS, .activation = "gelu", .tied = true },
    .blocks = blocks_of_neox_japanese,
};

/* Zhang et al. 2022: positions begin at 2. */
static const struct hf_name opt_names[] = { HF_NAME("enable_bias", FLAG, qkv_bias),
                                            HF_NAME("enable_bias", FLAG, output_bias),
                                            HF_NAME("enable_bias", FLAG, mlp_bias),
                                            HF_NAME("word_embed_proj_dim", SIZE, embedding_width),
                                            HF_NAME("_remove_final_layer_norm", FLAG, no_last_norm),
                                            { 0 } };
static bool read_opt(struct hf_reader *r)
{
    bool before;
    if (!hf_get_bool(r->root, "do_layer_norm_before", true, &before, r->err))
        return false;
    r->facts.post_norm = !before;
    return true;
}
FAMILY(opt) = {
    .type = "opt",
    .class_name = "OPTForCausalLM",
    .names = opt_names,
    .facts = { HF_GPT_FACTS, HF_BIASES, .activation = "relu", .inner_factor = 0, .place = HF_LEARNED,
               .position_offset = 2, .tied = true, .wide_positions = true },
    .read = read_opt,
};

/* BigScience 2022: linear biases instead of positions, a norm behind the embedding. */
static const struct hf_name bloom_names[] = { HF_NAME("apply_residual_connection_post_layernorm", ONLY_FALSE, hidden),
                                              HF_NAME("activation_function", IGNORED, activation),
                                              { 0 } };
FAMILY(bloom) = {
    .type = "bloom",
    .class_name = "BloomForCausalLM",
    .names = bloom_names,
    .facts = { HF_GPT_FACTS, HF_BIASES, .place = HF_ALIBI, .embedding_norm = true, .tied = true },
};

/* Almazrouei et al. 2023. Old files name the heads of keys and values otherwise, and some name them where the switch
 * says that there is one. */
static const struct hf_name falcon_names[] = { HF_NAME("bias", FLAG, qkv_bias),
                                               HF_NAME("bias", FLAG, output_bias),
                                               HF_NAME("bias", FLAG, mlp_bias),
                                               HF_NAME("n_head_kv", SIZE, kv_heads),
                                               HF_NAME("num_kv_heads", SIZE, kv_heads),
                                               HF_NAME("activation", WORD, activation),
                                               HF_NAME("apply_residual_connection_post_layernorm", ONLY_FALSE, hidden),
                                               { 0 } };
static bool read_falcon(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    const bool old_large = hf_given(r->root, "n_head_kv") && !hf_given(r->root, "multi_query");
    bool alibi, grouped, multi_query, side_by_side;
    int64_t norms;
    if (!hf_get_bool(r->root, "alibi", false, &alibi, r->err) ||
        !hf_get_bool(r->root, "new_decoder_architecture", old_large, &grouped, r->err) ||
        !hf_get_bool(r->root, "multi_query", true, &multi_query, r->err) ||
        !hf_get_bool(r->root, "parallel_attn", true, &side_by_side, r->err) ||
        !hf_get_size(r->root, "num_ln_in_parallel_attn", 2, &norms, r->err))
        return false;
    if (!grouped)
        f->kv_heads = multi_query ? 1 : 0;
    f->place = alibi ? HF_ALIBI : HF_ROTARY;
    f->stream = !side_by_side && !grouped ? HF_SERIAL : grouped && norms == 2 ? HF_OWN_NORMS : HF_SHARED_NORM;
    return true;
}
FAMILY(falcon) = {
    .type = "falcon",
    .class_name = "FalconForCausalLM",
    .others = " RefinedWeb RefinedWebModel ",
    .names = falcon_names,
    .facts = { HF_GPT_FACTS, .activation = "gelu", .tied = true },
    .read = read_falcon,
};

/* MosaicML 2023: no biases at all. */
static const struct hf_name mpt_names[] = { HF_NAME("expansion_ratio", SIZE, inner_factor),
                                            HF_NAME("no_bias", ONLY_TRUE, hidden),
                                            { 0 } };
static bool read_mpt(struct hf_reader *r)
{
    const struct json *attention = hf_given(r->root, "attn_config");
    bool alibi = true, normed = false;
    if (!hf_expect_object(attention, r->err))
        return false;
    if (attention && (!hf_get_bool(attention, "alibi", true, &alibi, r->err) ||
                      !hf_get_bool(attention, "qk_ln", false, &normed, r->err) ||
                      !hf_get_size(attention, "kv_n_heads", 0, &r->facts.kv_heads, r->err)))
        return false;
    r->facts.place = alibi ? HF_ALIBI : HF_LEARNED;
    r->facts.qk_norm = normed ? QK_NORM_WHOLE : QK_NORM_NONE;
    r->facts.qk_kind = NORM_LAYER_NO_BIAS;
    return true;
}
FAMILY(mpt) = {
    .type = "mpt",
    .class_name = "MPTForCausalLM",
    .names = mpt_names,
    .facts = { HF_GPT_FACTS, .norm = NORM_LAYER_NO_BIAS, .activation = "gelu", .tied = true },
    .read = read_mpt,
};

/* Gunasekar et al. 2023. */
static const struct hf_name phi_names[] = { HF_NAME("qk_layernorm", FLAG, normed_queries), { 0 } };
static bool read_phi(struct hf_reader *r)
{
    r->facts.qk_norm = r->facts.normed_queries ? r->facts.qk_norm : QK_NORM_NONE;
    return true;
}
FAMILY(phi) = {
    .type = "phi",
    .class_name = "PhiForCausalLM",
    .others = " phi-msft mixformer-sequential ",
    .names = phi_names,
    .facts = { HF_GPT_FACTS, HF_BIASES, .head_bias = true, .stream = HF_SHARED_NORM, .rope_part = 0.5,
               .qk_norm = QK_NORM_HEAD, .qk_kind = NORM_LAYER },
    .read = read_phi,
};
FAMILY(persimmon) = {
    .type = "persimmon",
    .class_name = "PersimmonForCausalLM",
    .names = phi_names,
    .facts = { HF_GPT_FACTS, HF_BIASES, .activation = "relu2", .rope_part = 0.5, .qk_norm = QK_NORM_HEAD,
               .qk_kind = NORM_LAYER, .normed_queries = true },
    .read = read_phi,
};

/* Lozhkov et al. 2024. */
static const struct hf_name starcoder2_names[] = { USE_BIAS, { 0 } };
FAMILY(starcoder2) = {
    .type = "starcoder2",
    .class_name = "Starcoder2ForCausalLM",
    .names = starcoder2_names,
    .facts = { HF_GPT_FACTS, HF_BIASES, .activation = "gelu_pytorch_tanh", .kv_heads = 2, .positions = 4096,
               .tied = true, .windows = true },
};

/* Bellagente et al. 2024: layer norms around a gated network. */
static const struct hf_name stablelm_names[] = { HF_NAME("use_qkv_bias", FLAG, qkv_bias),
                                                 HF_NAME("qk_layernorm", FLAG, normed_queries),
                                                 HF_NAME("rope_pct", SMALL, rope_part),
                                                 HF_NAME("partial_rotary_factor", SMALL, rope_part),
                                                 { 0 } };
static bool read_stablelm(struct hf_reader *r)
{
    bool side_by_side;
    if (!hf_get_bool(r->root, "use_parallel_residual", false, &side_by_side, r->err))
        return false;
    r->facts.stream = side_by_side ? HF_SHARED_NORM : HF_SERIAL;
    return read_phi(r);
}
FAMILY(stablelm) = {
    .type = "stablelm",
    .class_name = "StableLmForCausalLM",
    .others = " stablelm_epoch ",
    .names = stablelm_names,
    .facts = { HF_LLAMA_FACTS, .norm = NORM_LAYER, .epsilon = 1e-5, .rope_part = 0.25, .positions = 4096,
               .qk_norm = QK_NORM_EACH_HEAD, .qk_kind = NORM_LAYER_NO_BIAS },
    .read = read_stablelm,
};

/* Cohere 2024: side by side, norms without biases, scaled logits. */
static const struct hf_name cohere_names[] = { ATTENTION_BIAS,
                                               HF_NAME("use_qk_norm", FLAG, normed_queries),
                                               HF_NAME("logit_scale", NUMBER, logit_scale),
                                               HF_NAME("sliding_window_pattern", SIZE, full_every),
                                               { 0 } };
#define COHERE_FACTS                                                                                                   \
    HF_LLAMA_FACTS, .norm = NORM_LAYER_NO_BIAS, .epsilon = 1e-5, .stream = HF_SHARED_NORM, .tied = true,               \
                    .logit_scale = 0.0625, .positions = 8192, .qk_norm = QK_NORM_EACH_HEAD,                            \
                    .qk_kind = NORM_LAYER_NO_BIAS
FAMILY(cohere) = {
    .type = "cohere",
    .class_name = "CohereForCausalLM",
    .names = cohere_names,
    .facts = { COHERE_FACTS },
    .read = read_phi,
};
FAMILY(cohere2) = {
    .type = "cohere2",
    .class_name = "Cohere2ForCausalLM",
    .names = cohere_names,
    .facts = { COHERE_FACTS, .window = 4096, .windows = true, .full_every = 4 },
    .read = read_phi,
};

/* Cohere 2026: some blocks have no positions. */
static bool read_compass(struct hf_reader *r)
{
    const struct json *boxes = hf_given(r->root, "rope_parameters");
    if (!hf_expect_object(boxes, r->err))
        return false;
    if (boxes && !hf_given(boxes, "full_attention"))
        hf_note(r, "blocks that see all tokens have no rotary positions, which changes neither shapes nor parameters: "
                   "planned with them");
    return read_phi(r);
}
FAMILY(cohere_compass) = {
    .type = "cohere_compass_text",
    .class_name = "CohereCompassForCausalLM",
    .others = " cohere_compass ",
    .names = cohere_names,
    .facts = { COHERE_FACTS, .hidden = 8192, .blocks = 40, .heads = 64, .inner = 22528, .vocab = 256000,
               .logit_scale = 0, .window = 4096 },
    .read = read_compass,
};

/* Adler et al. 2024: squared ReLU without a gate. */
static const struct hf_name nemotron_names[] = { ATTENTION_BIAS, HF_NAME("mlp_bias", FLAG, mlp_bias), { 0 } };
FAMILY(nemotron) = {
    .type = "nemotron",
    .class_name = "NemotronForCausalLM",
    .names = nemotron_names,
    .facts = { HF_LLAMA_FACTS, .norm = NORM_LAYER, .epsilon = 1e-5, .gated = false, .activation = "relu2",
               .rope_part = 0.5, .positions = 4096 },
};

/* Squared ReLU behind layer norms and biases. */
FAMILY(jais2) = {
    .type = "jais2",
    .class_name = "Jais2ForCausalLM",
    .names = nemotron_names,
    .facts = { HF_LLAMA_FACTS, .norm = NORM_LAYER, .epsilon = 1e-5, .gated = false, .activation = "relu2",
               .qkv_bias = true, .output_bias = true, .mlp_bias = true, .head_dim = 128, .rope_base = 5e5,
               .positions = 8192 },
};

/* Lin et al. 2022 and Luo et al. 2022. */
static const struct hf_name xglm_names[] = { HF_NAME("attention_heads", SIZE, heads), { 0 } };
FAMILY(xglm) = {
    .type = "xglm",
    .class_name = "XGLMForCausalLM",
    .names = xglm_names,
    .facts = { HF_GPT_FACTS, HF_BIASES, .activation = "gelu", .inner_factor = 0, .place = HF_NO_POSITIONS,
               .tied = true },
};
FAMILY(biogpt) = {
    .type = "biogpt",
    .class_name = "BioGptForCausalLM",
    .facts = { HF_GPT_FACTS, HF_BIASES, .activation = "gelu", .inner_factor = 0, .place = HF_LEARNED,
               .position_offset = 2, .positions = 1024, .tied = true },
};

const struct hf_family *const hf_gpts[] = {
    &gpt2,   &gpt1,    &ctrl,     &jais2, &bigcode, &gpt_neo,           &gptj,           &gpt_neox,
    &opt,    &bloom,   &falcon,   &mpt,   &phi,     &persimmon,         &starcoder2,     &stablelm,
    &cohere, &cohere2, &nemotron, &xglm,  &biogpt,  &gpt_neox_japanese, &cohere_compass, NULL
};
