/* Touvron et al. 2023 and its relatives: RMS norms, rotary positions, a gated network, grouped-query attention, no
 * experts. What a family says otherwise stands in its row. */
#include "models/import/hf_facts.h"
#include <math.h>
#include <string.h>

#define ATTENTION_BIAS HF_NAME("attention_bias", FLAG, qkv_bias), HF_NAME("attention_bias", FLAG, output_bias)

static const struct hf_name llama_names[] = { ATTENTION_BIAS, HF_NAME("mlp_bias", FLAG, mlp_bias), { 0 } };

#define FAMILY(symbol) static const struct hf_family symbol

FAMILY(llama) = {
    .type = "llama",
    .class_name = "LlamaForCausalLM",
    .others = " code_llama yi aquila xverse telechat skywork solar yuan orion ministral3 ",
    .names = llama_names,
    .facts = { HF_LLAMA_FACTS, .hidden = 4096, .blocks = 32, .heads = 32, .inner = 11008, .vocab = 32000 },
};

/* Wang et al. 2024: tokens of images are tokens like others. */
static bool read_emu3(struct hf_reader *r)
{
    if (hf_given(r->top, "vq_config"))
        hf_note(r, "left out: what makes tokens of images (vq_config), whose parameters are not counted");
    return true;
}
FAMILY(emu3) = {
    .type = "emu3_text_model",
    .class_name = "Emu3ForCausalLM",
    .others = " emu3 Emu3 ",
    .names = llama_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .hidden = 4096, .blocks = 32, .heads = 32, .kv_heads = 8,
               .inner = 14336, .vocab = 184622, .rope_base = 1e6, .positions = 9216 },
    .read = read_emu3,
};

/* Ye et al. 2024: differences of two softmaxes, each over half of the values. */
static bool read_diffllama(struct hf_reader *r)
{
    const struct hf_facts *f = &r->facts;
    hf_note(r,
            "its differences of two softmaxes are planned as one attention, half of their work between tokens; left "
            "out: four vectors that weigh them, %lld weights a block",
            (long long)(4 * (f->head_dim ? f->head_dim : f->hidden / f->heads)));
    return true;
}
FAMILY(diffllama) = {
    .type = "diffllama",
    .class_name = "DiffLlamaForCausalLM",
    .names = llama_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5 },
    .read = read_diffllama,
};

/* Shi et al. 2024: values choose which tokens are attended to. */
static bool read_doge(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    const double heads = (double)(f->kv_heads ? f->kv_heads : f->heads);
    const double width = (double)(f->head_dim ? f->head_dim : f->hidden / f->heads);
    bool retrieved;
    if (!hf_get_bool(r->root, "is_moe", false, &retrieved, r->err))
        return false;
    f->experts = 0; /* which the file names in any case */
    if (retrieved)
        return json_fail(
            hf_given(r->root, "is_moe"), r->err,
            "experts of one neuron each, which keys retrieve, cannot be planned: no kind of layer is that");
    hf_note(r,
            "left out: what chooses tokens by values and the weights of sums with the stream, %.0f weights a block; "
            "attention is planned over all tokens",
            heads * (heads * width + 1) + 2 * (double)f->hidden);
    return true;
}
FAMILY(doge) = {
    .type = "doge",
    .class_name = "DogeForCausalLM",
    .names = llama_names,
    .facts = { HF_LLAMA_FACTS, .qk_norm = QK_NORM_HEAD, .qk_kind = NORM_RMS },
    .read = read_doge,
};

FAMILY(mistral) = {
    .type = "mistral",
    .class_name = "MistralForCausalLM",
    .others = " ministral ",
    .facts = { HF_LLAMA_FACTS, .hidden = 4096, .blocks = 32, .heads = 32, .kv_heads = 8, .inner = 14336, .vocab = 32000,
               .positions = 131072, .windows = true },
};

/* The switch and the blocks that it spares. */
static const struct hf_name qwen2_names[] = { HF_NAME("use_sliding_window", FLAG, windows),
                                              HF_NAME("max_window_layers", COUNT, full_blocks),
                                              HF_NAME("qkv_bias", FLAG, qkv_bias),
                                              { 0 } };
/* The query, key and value biases have no key: they are always there. */
FAMILY(qwen2) = {
    .type = "qwen2",
    .class_name = "Qwen2ForCausalLM",
    .others = " minicpmv minicpmo qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text mimo qwen2_5_omni_text ",
    .names = qwen2_names,
    .facts = { HF_LLAMA_FACTS, .hidden = 4096, .blocks = 32, .heads = 32, .inner = 22016, .vocab = 151936,
               .positions = 32768, .qkv_bias = true },
};

/* The first Qwens: the file's inner width is that of gate and network together. */
static const struct hf_name qwen_names[] = { HF_NAME("kv_channels", SIZE, head_dim),
                                             HF_NAME("seq_length", SIZE, positions),
                                             { 0 } };
static bool read_qwen(struct hf_reader *r)
{
    r->facts.inner = r->facts.inner > 1 ? r->facts.inner / 2 : 1;
    return true;
}
FAMILY(qwen) = {
    .type = "qwen",
    .class_name = "QWenLMHeadModel",
    .names = qwen_names,
    .facts = { HF_LLAMA_FACTS, .qkv_bias = true, .positions = 8192 },
    .read = read_qwen,
};

/* Grattafiori et al. 2024 (Llama 3.2 Vision): some blocks attend to what the tower saw. */
static bool blocks_of_mllama(struct hf_reader *r)
{
    const struct json *list = hf_given(r->root, "cross_attention_layers");
    int64_t block;
    if (list && json_type(list) != JSON_ARRAY)
        return json_fail(list, r->err, "expected an array of numbers of blocks, found %s",
                         json_type_name(json_type(list)));
    for (int i = 0; list && i < json_count(list); i++) {
        if (!json_int(json_at(list, i), 0, r->facts.blocks - 1, &block, r->err))
            return false;
        r->blocks[block].attention.qk_norm = QK_NORM_HEAD;
    }
    hf_note(
        r,
        "blocks that attend to images are planned as attention to the tokens; their two gates, and eight rows of the "
        "embedding, are left out");
    return true;
}
FAMILY(mllama) = {
    .type = "mllama_text_model",
    .class_name = "MllamaForConditionalGeneration",
    .others = " mllama ",
    .names = llama_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .hidden = 4096, .blocks = 40, .heads = 32, .kv_heads = 8,
               .inner = 14336, .vocab = 128256, .rope_base = 5e5, .positions = 131072 },
    .blocks = blocks_of_mllama,
};

static const struct hf_name qwen3_names[] = { ATTENTION_BIAS,
                                              HF_NAME("use_sliding_window", FLAG, windows),
                                              HF_NAME("max_window_layers", COUNT, full_blocks),
                                              { 0 } };
FAMILY(qwen3) = {
    .type = "qwen3",
    .class_name = "Qwen3ForCausalLM",
    .others = " qwen3_vl qwen3_vl_text ",
    .names = qwen3_names,
    .facts = { HF_LLAMA_FACTS, .hidden = 4096, .blocks = 32, .heads = 32, .head_dim = 128, .inner = 22016,
               .vocab = 151936, .positions = 32768, .qk_norm = QK_NORM_HEAD, .qk_kind = NORM_RMS },
};

static bool read_phi3(struct hf_reader *r)
{
    r->facts.windows = r->facts.window > 0;
    if (hf_given(r->root, "vision_lora") || hf_given(r->root, "speech_lora"))
        hf_note(r, "left out: the adapters of its matrices for images and speech");
    return true;
}

FAMILY(phi3) = {
    .type = "phi3",
    .class_name = "Phi3ForCausalLM",
    .others = " phi3_v phi4mm phi4_multimodal phi3small ",
    .facts = { HF_LLAMA_FACTS, .hidden = 3072, .blocks = 32, .heads = 32, .inner = 8192, .vocab = 32064,
               .positions = 4096, .epsilon = 1e-5 },
    .read = read_phi3,
};

/* Gemma Team 2024: embeddings times the root of the width. */
static bool read_gemma(struct hf_reader *r)
{
    r->facts.embedding_scale = sqrt((double)r->facts.hidden);
    return true;
}

static const struct hf_name gemma_names[] = { ATTENTION_BIAS,
                                              HF_NAME("hidden_activation", WORD, activation),
                                              HF_NAME("query_pre_attn_scalar", NUMBER, query_scalar),
                                              HF_NAME("attn_logit_softcapping", NUMBER, score_cap),
                                              HF_NAME("final_logit_softcapping", NUMBER, logit_cap),
                                              HF_NAME("sliding_window_pattern", SIZE, full_every),
                                              HF_NAME("_sliding_window_pattern", SIZE, full_every),
                                              { 0 } };
#define GEMMA_FACTS HF_LLAMA_FACTS, .activation = "gelu_pytorch_tanh", .tied = true, .positions = 8192, .head_dim = 256

FAMILY(gemma) = {
    .type = "gemma",
    .class_name = "GemmaForCausalLM",
    .names = gemma_names,
    .facts = { GEMMA_FACTS, .hidden = 3072, .blocks = 28, .heads = 16, .kv_heads = 16, .inner = 24576,
               .vocab = 256000 },
    .read = read_gemma,
};
FAMILY(gemma2) = {
    .type = "gemma2",
    .class_name = "Gemma2ForCausalLM",
    .names = gemma_names,
    .facts = { GEMMA_FACTS, .hidden = 2304, .blocks = 26, .heads = 8, .kv_heads = 4, .inner = 9216, .vocab = 256000,
               .output_norms = true, .window = 4096, .windows = true, .full_every = 2, .query_scalar = 256,
               .score_cap = 50, .logit_cap = 30 },
    .read = read_gemma,
};
FAMILY(gemma3) = {
    .type = "gemma3_text",
    .class_name = "Gemma3ForCausalLM",
    .others = " gemma3 ",
    .names = gemma_names,
    .facts = { GEMMA_FACTS, .hidden = 2304, .blocks = 26, .heads = 8, .kv_heads = 4, .inner = 9216, .vocab = 262208,
               .positions = 131072, .output_norms = true, .window = 4096, .windows = true, .full_every = 6,
               .query_scalar = 256, .qk_norm = QK_NORM_HEAD, .qk_kind = NORM_RMS, .rope_base = 1e6 },
    .read = read_gemma,
};

static const struct hf_name olmo_names[] = { ATTENTION_BIAS, { 0 } };

/* Groeneveld et al. 2024: norms without weights. */
static bool read_olmo(struct hf_reader *r)
{
    hf_note(r, "its norms have no weights: planned with %lld weights of norms that the file's model has not",
            (long long)((2 * r->facts.blocks + 1) * r->facts.hidden));
    return true;
}

/* Gemma Team 2025: without the norms of what layers give. */
FAMILY(vaultgemma) = {
    .type = "vaultgemma",
    .class_name = "VaultGemmaForCausalLM",
    .names = gemma_names,
    .facts = { GEMMA_FACTS, .hidden = 2304, .blocks = 26, .heads = 8, .kv_heads = 4, .inner = 9216, .vocab = 256000,
               .window = 4096, .windows = true, .full_every = 2, .query_scalar = 256, .score_cap = 50,
               .logit_cap = 30 },
    .read = read_gemma,
};

FAMILY(olmo) = {
    .type = "olmo",
    .class_name = "OlmoForCausalLM",
    .names = olmo_names,
    .facts = { HF_LLAMA_FACTS, .norm = NORM_LAYER_NO_BIAS, .epsilon = 1e-5 },
    .read = read_olmo,
};
/* OLMo Team 2024: norms of what the layers give, none of what they read. */
FAMILY(olmo2) = {
    .type = "olmo2",
    .class_name = "Olmo2ForCausalLM",
    .names = olmo_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .no_input_norms = true, .output_norms = true, .qk_norm = QK_NORM_WHOLE,
               .qk_kind = NORM_RMS },
};
FAMILY(olmo3) = {
    .type = "olmo3",
    .class_name = "Olmo3ForCausalLM",
    .names = olmo_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .no_input_norms = true, .output_norms = true, .qk_norm = QK_NORM_WHOLE,
               .qk_kind = NORM_RMS, .window = 4096, .windows = true, .full_every = 4 },
};

static const struct hf_name exaone4_names[] = { HF_NAME("sliding_window_pattern", IGNORED, full_every), { 0 } };

/* The pattern is a number or a word such as LLLG: one global block at its end. */
static bool read_exaone4(struct hf_reader *r)
{
    const struct json *at = hf_given(r->root, "sliding_window_pattern");
    const char *word;
    r->facts.windows = r->facts.window > 0;
    if (!at)
        return true;
    if (json_type(at) != JSON_STRING)
        return json_int(at, 1, 1 << 20, &r->facts.full_every, r->err);
    if (!json_string(at, &word, r->err))
        return false;
    size_t local = strspn(word, "L");
    r->facts.full_every = (int64_t)local + 1;
    return strcmp(word + local, "G") == 0 ||
           json_fail(at, r->err, "expected a number or a word such as LLLG, found \"%.64s\"", word);
}

FAMILY(exaone4) = {
    .type = "exaone4",
    .class_name = "Exaone4ForCausalLM",
    .names = exaone4_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .no_input_norms = true, .output_norms = true, .qk_norm = QK_NORM_HEAD,
               .qk_kind = NORM_RMS, .full_every = 4 },
    .read = read_exaone4,
};
FAMILY(exaone) = {
    .type = "exaone",
    .class_name = "ExaoneForCausalLM",
    .names = llama_names,
    .facts = { HF_LLAMA_FACTS },
};

static const struct hf_name granite_names[] = { ATTENTION_BIAS,
                                                HF_NAME("mlp_bias", FLAG, mlp_bias),
                                                HF_NAME("embedding_multiplier", NUMBER, embedding_scale),
                                                HF_NAME("residual_multiplier", NUMBER, residual_scale),
                                                HF_NAME("attention_multiplier", NUMBER, score_scale),
                                                HF_NAME("logits_scaling", NUMBER, logit_scale),
                                                { 0 } };

/* The file divides logits by what it calls their scaling. */
static bool read_granite(struct hf_reader *r)
{
    if (r->facts.logit_scale > 0)
        r->facts.logit_scale = 1 / r->facts.logit_scale;
    return true;
}

FAMILY(granite) = {
    .type = "granite",
    .class_name = "GraniteForCausalLM",
    .names = granite_names,
    .facts = { HF_LLAMA_FACTS },
    .read = read_granite,
};

/* Granite with sinks and windows. */
FAMILY(granite_swa) = {
    .type = "granite_swa",
    .class_name = "GraniteSWAForCausalLM",
    .names = granite_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .tied = true, .kv_heads = 4, .positions = 8192, .sinks = true,
               .window = 128 },
    .read = read_granite,
};
/* NAVER 2025: norms also of what layers give. */
static const struct hf_name hyperclovax_names[] = { ATTENTION_BIAS,
                                                    HF_NAME("mlp_bias", FLAG, mlp_bias),
                                                    HF_NAME("embedding_multiplier", NUMBER, embedding_scale),
                                                    HF_NAME("residual_multiplier", NUMBER, residual_scale),
                                                    HF_NAME("attention_multiplier", NUMBER, score_scale),
                                                    HF_NAME("logits_scaling", NUMBER, logit_scale),
                                                    HF_NAME("use_post_norm", FLAG, output_norms),
                                                    { 0 } };
FAMILY(hyperclovax) = {
    .type = "hyperclovax",
    .class_name = "HyperCLOVAXForCausalLM",
    .names = hyperclovax_names,
    .facts = { HF_LLAMA_FACTS, .output_norms = true },
    .read = read_granite,
};

/* Hu et al. 2024: scales of embedding, residual sums and logits by the width and the depth. */
static const struct hf_name minicpm_names[] = { ATTENTION_BIAS, HF_NAME("scale_emb", NUMBER, embedding_scale), { 0 } };
static bool read_minicpm(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    double depth;
    int64_t base;
    if (!hf_get_double(r->root, "scale_depth", 1e3, 1, &depth, r->err) ||
        !hf_get_size(r->root, "dim_model_base", f->hidden, &base, r->err))
        return false;
    f->residual_scale = depth / sqrt((double)f->blocks);
    f->logit_scale = base == f->hidden ? 0 : (double)base / (double)f->hidden;
    return true;
}
FAMILY(minicpm) = {
    .type = "minicpm",
    .class_name = "MiniCPMForCausalLM",
    .others = " minicpm3 ",
    .names = minicpm_names,
    .facts = { HF_LLAMA_FACTS, .tied = true, .epsilon = 1e-5 },
    .read = read_minicpm,
};

/* Wang et al. 2025: weights of three values, which is a matter of how they are stored; norms before the last matrix of
 * each layer. */
static bool read_bitnet(struct hf_reader *r)
{
    hf_note(r,
            "left out: a norm before the last matrix of attention and network, %lld weights in all; planned with "
            "weights of the type that it computes in",
            (long long)(r->facts.blocks * (r->facts.hidden + r->facts.inner)));
    return true;
}
FAMILY(bitnet) = {
    .type = "bitnet",
    .class_name = "BitNetForCausalLM",
    .names = llama_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .activation = "relu2", .kv_heads = 5, .rope_base = 5e5 },
    .read = read_bitnet,
};

/* Code World Model: windows in three blocks of four. */
FAMILY(cwm) = {
    .type = "cwm",
    .class_name = "CwmForCausalLM",
    .names = llama_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .kv_heads = 8, .head_dim = 128, .rope_base = 1e6, .positions = 131072,
               .window = 8192 },
};
/* Boizard et al. 2025: Llama's blocks that see both sides. */
FAMILY(eurobert) = {
    .type = "eurobert",
    .class_name = "EuroBertForMaskedLM",
    .names = llama_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .encoder = true, .rope_base = 250000, .positions = 8192 },
};
/* Karpathy 2025: norms without weights. */
static const struct hf_name nanochat_names[] = { ATTENTION_BIAS,
                                                 HF_NAME("final_logit_softcapping", NUMBER, logit_cap),
                                                 { 0 } };
static bool read_nanochat(struct hf_reader *r)
{
    const struct hf_facts *f = &r->facts;
    int64_t width = f->head_dim ? f->head_dim : f->hidden / f->heads;
    hf_note(r, "its norms have no weights: planned with %lld weights of norms that the file's model has not",
            (long long)(f->blocks * (2 * f->hidden + 2 * width) + f->hidden));
    return true;
}
FAMILY(nanochat) = {
    .type = "nanochat",
    .class_name = "NanoChatForCausalLM",
    .names = nanochat_names,
    .facts = { HF_LLAMA_FACTS, .gated = false, .activation = "relu2", .logit_cap = 15, .qk_norm = QK_NORM_HEAD,
               .qk_kind = NORM_RMS },
    .read = read_nanochat,
};

FAMILY(smollm3) = {
    .type = "smollm3",
    .class_name = "SmolLM3ForCausalLM",
    .names = llama_names,
    .facts = { HF_LLAMA_FACTS, .tied = true, .kv_heads = 4, .rope_base = 2e6, .positions = 32768 },
};
FAMILY(helium) = {
    .type = "helium",
    .class_name = "HeliumForCausalLM",
    .names = llama_names,
    .facts = { HF_LLAMA_FACTS, .head_dim = 128, .rope_base = 1e5, .positions = 4096 },
};

static const struct hf_name seed_names[] = { HF_NAME("attention_bias", FLAG, qkv_bias),
                                             HF_NAME("attention_out_bias", FLAG, output_bias),
                                             HF_NAME("mlp_bias", FLAG, mlp_bias),
                                             { 0 } };
FAMILY(seed_oss) = {
    .type = "seed_oss",
    .class_name = "SeedOssForCausalLM",
    .names = seed_names,
    .facts = { HF_LLAMA_FACTS, .qkv_bias = true, .head_dim = 128, .positions = 524288 },
};

static const struct hf_name use_bias_names[] = { HF_NAME("use_bias", FLAG, qkv_bias),
                                                 HF_NAME("use_bias", FLAG, output_bias),
                                                 HF_NAME("use_bias", FLAG, mlp_bias),
                                                 { 0 } };
FAMILY(ernie4_5) = {
    .type = "ernie4_5",
    .class_name = "Ernie4_5ForCausalLM",
    .others = " paddleocr_vl_text paddleocr_vl ",
    .names = use_bias_names,
    .facts = { HF_LLAMA_FACTS, .tied = true, .head_dim = 128, .rope_base = 5e5, .positions = 131072 },
};

static const struct hf_name hunyuan_names[] = { ATTENTION_BIAS, { 0 } };
FAMILY(hunyuan) = {
    .type = "hunyuan_v1_dense",
    .class_name = "HunYuanDenseV1ForCausalLM",
    .names = hunyuan_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .qk_norm = QK_NORM_HEAD, .qk_kind = NORM_RMS },
};
static bool read_apertus(struct hf_reader *r)
{
    hf_note(r, "left out: two numbers of each block's activation, %lld weights in all",
            (long long)(2 * r->facts.blocks));
    return true;
}
FAMILY(apertus) = {
    .type = "apertus",
    .class_name = "ApertusForCausalLM",
    .others = " apertus1p5_text ",
    .read = read_apertus,
    .names = hunyuan_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .gated = false, .activation = "xielu", .rope_base = 12e6,
               .qk_norm = QK_NORM_HEAD, .qk_kind = NORM_RMS },
};
FAMILY(arcee) = {
    .type = "arcee",
    .class_name = "ArceeForCausalLM",
    .names = llama_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .gated = false, .activation = "relu2" },
};

static const struct hf_name internlm_names[] = { HF_NAME("bias", FLAG, qkv_bias),
                                                 HF_NAME("bias", FLAG, output_bias),
                                                 { 0 } };
FAMILY(internlm) = {
    .type = "internlm",
    .class_name = "InternLMForCausalLM",
    .names = internlm_names,
    .facts = { HF_LLAMA_FACTS, .qkv_bias = true, .output_bias = true },
};
FAMILY(internlm2) = {
    .type = "internlm2",
    .class_name = "InternLM2ForCausalLM",
    .names = internlm_names,
    .facts = { HF_LLAMA_FACTS },
};
static const struct hf_name internlm3_names[] = { HF_NAME("qkv_bias", FLAG, qkv_bias),
                                                  HF_NAME("attention_bias", FLAG, qkv_bias),
                                                  HF_NAME("bias", FLAG, output_bias),
                                                  HF_NAME("bias", FLAG, mlp_bias),
                                                  { 0 } };
FAMILY(internlm3) = {
    .type = "internlm3",
    .class_name = "InternLM3ForCausalLM",
    .names = internlm3_names,
    .facts = { HF_LLAMA_FACTS, .kv_heads = 2, .head_dim = 128, .positions = 32768 },
};

/* The larger Baichuans have linear biases instead of rotation, and no key that says so. */
static bool read_baichuan(struct hf_reader *r)
{
    if (r->facts.hidden >= 5120)
        r->facts.place = HF_ALIBI;
    return true;
}

FAMILY(baichuan) = {
    .type = "baichuan",
    .class_name = "BaichuanForCausalLM",
    .names = llama_names,
    .facts = { HF_LLAMA_FACTS, .positions = 4096 },
    .read = read_baichuan,
};

/* Zeng et al. 2024 (GLM-4): half of each head turns. */
static const struct hf_name glm_names[] = { HF_NAME("attention_bias", FLAG, qkv_bias), { 0 } };
FAMILY(glm) = {
    .type = "glm",
    .class_name = "GlmForCausalLM",
    .names = glm_names,
    .facts = { HF_LLAMA_FACTS, .qkv_bias = true, .kv_heads = 2, .head_dim = 128, .rope_part = 0.5,
               .positions = 131072 },
};
FAMILY(glm4) = {
    .type = "glm4",
    .class_name = "Glm4ForCausalLM",
    .others = " glm4v_text glm_ocr_text ",
    .names = glm_names,
    .facts = { HF_LLAMA_FACTS, .qkv_bias = true, .kv_heads = 2, .head_dim = 128, .rope_part = 0.5, .positions = 131072,
               .output_norms = true },
};
static const struct hf_name chatglm_names[] = { HF_NAME("num_layers", SIZE, blocks),
                                                HF_NAME("padded_vocab_size", SIZE, vocab),
                                                HF_NAME("kv_channels", SIZE, head_dim),
                                                HF_NAME("add_qkv_bias", FLAG, qkv_bias),
                                                HF_NAME("add_bias_linear", FLAG, output_bias),
                                                HF_NAME("add_bias_linear", FLAG, mlp_bias),
                                                HF_NAME("multi_query_group_num", SIZE, kv_heads),
                                                { 0 } };

static bool read_chatglm(struct hf_reader *r)
{
    bool grouped;
    if (!hf_get_bool(r->root, "multi_query_attention", false, &grouped, r->err))
        return false;
    r->facts.kv_heads = grouped ? r->facts.kv_heads : 0;
    return true;
}

FAMILY(chatglm) = {
    .type = "chatglm",
    .class_name = "ChatGLMModel",
    .names = chatglm_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .rope_part = 0.5, .kv_heads = 2, .activation = "swiglu" },
    .read = read_chatglm,
};

const struct hf_family *const hf_llamas[] = {
    &llama,       &emu3,        &diffllama, &doge,     &mistral,  &qwen,     &mllama,   &qwen2,    &qwen3,
    &phi3,        &gemma,       &gemma2,    &gemma3,   &olmo,     &olmo2,    &olmo3,    &exaone,   &exaone4,
    &granite,     &smollm3,     &helium,    &seed_oss, &ernie4_5, &hunyuan,  &apertus,  &arcee,    &vaultgemma,
    &granite_swa, &hyperclovax, &minicpm,   &bitnet,   &cwm,      &eurobert, &nanochat, &internlm, &internlm2,
    &internlm3,   &baichuan,    &glm,       &glm4,     &chatglm,  NULL
};
