/* Later decoders with experts, whose blocks are put together in ways of their own. */
#include "models/import/hf_facts.h"
#include <math.h>
#include <string.h>

#define FAMILY(symbol) static const struct hf_family symbol
#define ATTENTION_BIAS HF_NAME("attention_bias", FLAG, qkv_bias), HF_NAME("attention_bias", FLAG, output_bias)

/* Li et al. 2024 (Aria): experts as wide as the file's inner width. */
static const struct hf_name aria_names[] = { ATTENTION_BIAS,
                                             HF_NAME("mlp_bias", FLAG, mlp_bias),
                                             HF_NAME("moe_topk", SIZE, choices),
                                             HF_NAME("moe_num_shared_experts", COUNT, shared_experts),
                                             { 0 } };
FAMILY(aria) = {
    .type = "aria_text",
    .class_name = "AriaTextForCausalLM",
    .others = " aria aria_moe_lm ",
    .names = aria_names,
    .facts = { HF_LLAMA_FACTS, .hidden = 4096, .blocks = 32, .heads = 32, .inner = 4096, .vocab = 32000, .experts = 8,
               .choices = 2, .shared_experts = 2 },
};

/* Snowflake 2024 (Arctic): a network as wide as the stream beside the experts. */
static const struct hf_name arctic_names[] = { HF_NAME("moe_layer_frequency", SIZE, sparse_step),
                                               HF_NAME("attention_bias", FLAG, qkv_bias),
                                               { 0 } };
static bool read_arctic(struct hf_reader *r)
{
    r->facts.sparse_offset = 1;
    return true;
}
static bool blocks_of_arctic(struct hf_reader *r)
{
    struct mlp_layer residual;
    bool beside;
    if (!hf_get_bool(r->root, "parallel_attn_mlp_res", false, &beside, r->err) || !hf_fill_mlp(r, &residual))
        return false;
    residual.inner = r->facts.hidden;
    for (int64_t i = 0; beside && i < r->facts.blocks; i++)
        if (r->blocks[i].network == HF_MOE) {
            r->blocks[i].both = true;
            r->blocks[i].mlp = residual;
        }
    if (beside)
        hf_note(r, "its experts stand beside attention and a dense network: planned one after the other");
    return true;
}
FAMILY(arctic) = {
    .type = "arctic",
    .class_name = "ArcticForCausalLM",
    .names = arctic_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .positions = 4096, .experts = 8, .choices = 1, .sparse_step = 2,
               .gates = GATES_OF_ALL, .renormalised = true, .balance = 0.001 },
    .read = read_arctic,
    .blocks = blocks_of_arctic,
};

/* Inclusion AI 2025 (Ling and Ring). */
static const struct hf_name bailing_names[] = { HF_NAME("use_qkv_bias", FLAG, qkv_bias),
                                                HF_NAME("use_bias", FLAG, output_bias),
                                                HF_NAME("use_qk_norm", FLAG, normed_queries),
                                                HF_NAME("moe_shared_expert_intermediate_size", COUNT, shared_inner),
                                                HF_NAME("rotary_dim", SIZE, rope_dim),
                                                HF_NAME("moe_router_enable_expert_bias", FLAG, router_correction),
                                                { 0 } };
static bool read_bailing(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    const char *score;
    if (!hf_get_string(r->root, "score_function", "softmax", &score, r->err))
        return false;
    f->gates = strcmp(score, "sigmoid") == 0 ? GATES_SIGMOID_OF_CHOSEN : GATES_OF_ALL;
    f->qk_norm = f->normed_queries ? QK_NORM_HEAD : QK_NORM_NONE;
    if (f->shared_inner) /* of one; the file says how many */
        f->shared_inner *= f->shared_experts ? f->shared_experts : 1;
    return true;
}
FAMILY(bailing) = {
    .type = "bailing_moe_v2",
    .class_name = "BailingMoeV2ForCausalLM",
    .others = " bailing_moe bailing_moe_linear ",
    .names = bailing_names,
    .facts = { HF_LLAMA_FACTS, .positions = 32768, .renormalised = true, .qk_kind = NORM_RMS },
    .read = read_bailing,
};

/* Poolside 2026 (Laguna): a gate for each head, and as many heads as a list says. */
static const struct hf_name laguna_names[] = { ATTENTION_BIAS,
                                               HF_NAME("moe_routed_scaling_factor", NUMBER, gate_scale),
                                               { 0 } };
static bool blocks_of_laguna(struct hf_reader *r)
{
    const struct hf_facts *f = &r->facts;
    const struct json *heads;
    if (!hf_get_list(r, "num_attention_heads_per_layer", f->blocks, &heads))
        return false;
    for (int64_t i = 0; heads && i < f->blocks; i++) {
        struct attention_layer *a = &r->blocks[i].attention;
        if (!json_int(json_at(heads, (int)i), 1, 1 << 16, &a->heads, r->err))
            return false;
        if (a->kv_heads && a->heads % a->kv_heads) /* 0: it is none of these blocks */
            return json_fail(json_at(heads, (int)i), r->err, "expected a multiple of %s (%lld), found %lld",
                             hf_name_of(r, HF_FACT(kv_heads)), (long long)a->kv_heads, (long long)a->heads);
    }
    hf_note(r, "left out: a gate for each head, %lld weights a block", (long long)(f->hidden * f->heads));
    return true;
}
FAMILY(laguna) = {
    .type = "laguna",
    .class_name = "LagunaForCausalLM",
    .names = laguna_names,
    .facts = { HF_LLAMA_FACTS, .head_dim = 128, .kv_heads = 8, .positions = 131072, .qk_norm = QK_NORM_HEAD,
               .qk_kind = NORM_RMS, .gates = GATES_SIGMOID_OF_CHOSEN, .renormalised = true, .router_correction = true,
               .balance = 0.001 },
    .blocks = blocks_of_laguna,
};

/* Meituan 2025 (LongCat-Flash): two blocks of latent attention and a dense network each, whose experts span both; some
 * choices are of no expert. */
static const struct hf_name longcat_names[] = { HF_NAME("num_layers", SIZE, blocks),
                                                HF_NAME("num_hidden_layers", SIZE, blocks),
                                                HF_NAME("expert_ffn_hidden_size", SIZE, expert_inner),
                                                HF_NAME("moe_topk", SIZE, choices),
                                                HF_NAME("head_dim", IGNORED, head_dim),
                                                { 0 } };
static bool read_longcat(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    int64_t none;
    if (!hf_require_latent(r) || !hf_get_count(r->root, "zero_expert_num", 0, &none, r->err))
        return false;
    f->blocks *= 2;
    hf_note(r,
            "its experts span two blocks: planned in the first of them; left out: the router's rows of %lld choices "
            "without an expert, which are planned as choices of experts",
            (long long)none);
    return true;
}
static bool blocks_of_longcat(struct hf_reader *r)
{
    struct mlp_layer mlp;
    const bool well = hf_fill_mlp(r, &mlp);
    for (int64_t i = 0; well && i < r->facts.blocks; i++) {
        struct hf_block *b = &r->blocks[i];
        b->mlp = mlp;
        b->both = i % 2 == 0 && b->network == HF_MOE;
        if (b->both) {
            b->moe.norm = NORM_NONE;
            continue;
        }
        b->network = HF_MLP;
        memset(&b->moe, 0, sizeof b->moe);
    }
    return well;
}
FAMILY(longcat) = {
    .type = "longcat_flash",
    .class_name = "LongcatFlashForCausalLM",
    .others = " longcat ",
    .names = longcat_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .positions = 131072, .gates = GATES_OF_ALL },
    .read = read_longcat,
    .blocks = blocks_of_longcat,
};

/* Cohere 2026: experts beside attention, behind one norm. */
static const struct hf_name cohere_names[] = { ATTENTION_BIAS,
                                               HF_NAME("logit_scale", NUMBER, logit_scale),
                                               HF_NAME("sliding_window_pattern", SIZE, full_every),
                                               { 0 } };
static bool blocks_of_cohere(struct hf_reader *r)
{
    for (int64_t i = 0; i < r->facts.blocks; i++)
        r->blocks[i].moe.norm = r->blocks[i].mlp.norm = NORM_NONE;
    hf_note(r, "its networks stand beside attention, behind one norm: planned one after the other");
    return true;
}
FAMILY(cohere2_moe) = {
    .type = "cohere2_moe",
    .class_name = "Cohere2MoeForCausalLM",
    .names = cohere_names,
    .facts = { HF_LLAMA_FACTS, .norm = NORM_LAYER_NO_BIAS, .epsilon = 1e-5, .tied = true, .logit_scale = 0.0625,
               .positions = 8192, .window = 4096, .windows = true, .full_every = 4, .gates = GATES_OF_ALL,
               .renormalised = true },
    .blocks = blocks_of_cohere,
};

/* Shen et al. 2024 (JetMoE): also what makes queries and reads the heads is chosen for each token. */
static const struct hf_name jetmoe_names[] = { HF_NAME("kv_channels", SIZE, head_dim),
                                               HF_NAME("aux_loss_coef", NUMBER, balance),
                                               { 0 } };
static bool read_jetmoe(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    const struct json *at;
    if (!f->experts || !f->choices || !f->kv_heads || !f->head_dim) {
        const size_t missing = !f->experts    ? HF_FACT(experts)
                               : !f->choices  ? HF_FACT(choices)
                               : !f->kv_heads ? HF_FACT(kv_heads)
                                              : HF_FACT(head_dim);
        return hf_require(r->root, hf_name_of(r, missing), &at, r->err);
    }
    f->heads = f->kv_heads * f->choices;
    const double rest = fmax((double)(f->experts - f->choices), 0) / (double)f->experts;
    const double wide = rest * 2 * (double)f->kv_heads * (double)f->head_dim + 1; /* 1: another router */
    const int64_t neurons = (int64_t)fmin(wide / 3 + 0.5, MOE_MAX_INNER);
    f->expert_inner = f->inner + neurons;
    hf_note(r,
            "its attention chooses %lld of %lld sets of matrices for queries and outputs: planned with the chosen "
            "ones, and the weights of the others as %lld more neurons of each expert, which its tokens pass too",
            (long long)f->choices, (long long)f->experts, (long long)neurons);
    return true;
}
FAMILY(jetmoe) = {
    .type = "jetmoe",
    .class_name = "JetMoeForCausalLM",
    .names = jetmoe_names,
    .facts = { HF_LLAMA_FACTS, .kv_heads = 16, .head_dim = 128, .positions = 4096, .experts = 8, .choices = 2,
               .balance = 0.01, .tied = true, .output_bias = true },
    .read = read_jetmoe,
};

/* Zyphra 2026 (ZAYA): convolutions of queries and keys, a router that is a network, weighted sums with the stream. */
static const struct hf_name zaya_names[] = { ATTENTION_BIAS, HF_NAME("lm_head_bias", FLAG, head_bias), { 0 } };
static bool read_zaya(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    int64_t first, second, narrow;
    if (!hf_get_size(r->root, "cca_time0", 2, &first, r->err) ||
        !hf_get_size(r->root, "cca_time1", 2, &second, r->err) ||
        !hf_get_size(r->root, "router_hidden_size", 256, &narrow, r->err))
        return false;
    const double h = (double)f->hidden, d = (double)f->head_dim, heads = (double)f->kv_heads, n = (double)narrow;
    const double experts = (double)f->experts, made = d * ((double)f->heads + heads);
    const double mixed = made * ((double)first + d * (double)second + 2) + heads;
    const double chosen = n * (h + 2 * n + experts + 6) - experts * h; /* more than a router of one matrix has */
    const double weights = (double)f->blocks * (mixed + chosen + 8 * h);
    const int64_t neurons = hf_add_neurons(r, weights);
    hf_note(r,
            "its convolutions of queries and keys, the router's network and the weights of sums with the stream, %.0f "
            "weights, are planned as %lld neurons that all tokens pass; choices without an expert as choices of one",
            weights, (long long)neurons);
    return true;
}
FAMILY(zaya) = {
    .type = "zaya",
    .class_name = "ZayaForCausalLM",
    .names = zaya_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .tied = true, .kv_heads = 2, .head_dim = 128, .rope_base = 5e6,
               .rope_part = 0.5, .positions = 131072, .experts = 16, .choices = 1, .expert_inner = 2048,
               .gates = GATES_OF_ALL },
    .read = read_zaya,
};

/* Thinking Machines 2026 (Inkling): biases of scores by distance that tokens make, short convolutions behind most
 * matrices, heads of their own in blocks that see a window. */
static const struct hf_name inkling_names[] = { HF_NAME("sliding_window_size", SIZE, window),
                                                HF_NAME("sliding_window", SIZE, window),
                                                HF_NAME("route_scale", NUMBER, gate_scale),
                                                HF_NAME("dense_mlp_idx", COUNT, dense_blocks),
                                                HF_NAME("logits_mup_width_multiplier", NUMBER, logit_scale),
                                                HF_NAME("intermediate_size", IGNORED, inner),
                                                HF_NAME("moe_intermediate_size", IGNORED, expert_inner),
                                                { 0 } };
static bool read_inkling(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    int64_t taps, rank, extent;
    if (!hf_get_size(r->root, "intermediate_size", f->inner, &f->inner, r->err) ||
        !hf_get_size(r->root, "moe_intermediate_size", 3072, &f->expert_inner, r->err) ||
        !hf_get_size(r->root, "conv_kernel_size", 4, &taps, r->err) ||
        !hf_get_size(r->root, "sconv_kernel_size", taps, &taps, r->err) ||
        !hf_get_size(r->root, "d_rel", 16, &rank, r->err) || !hf_get_size(r->root, "rel_extent", 1024, &extent, r->err))
        return false;
    if (hf_given(r->root, "dense_intermediate_size")) { /* then the other name is that of experts */
        f->expert_inner = f->inner;
        if (!hf_get_size(r->root, "dense_intermediate_size", f->inner, &f->inner, r->err))
            return false;
    }
    f->logit_scale = f->logit_scale > 0 ? 1 / f->logit_scale : 0;
    f->score_scale = 1 / (double)f->head_dim;
    const double h = (double)f->hidden, made = 2 * (double)f->kv_heads * (double)f->head_dim;
    const double weights = (double)f->blocks * ((double)rank * (h * (double)f->heads + (double)extent) +
                                                (double)taps * (2 * h + made) + h * (double)f->shared_experts + 1);
    const int64_t neurons = hf_add_neurons(r, weights);
    hf_note(r,
            "its biases of scores, short convolutions and scores of shared experts, about %.0f weights, are planned "
            "as %lld more neurons of each network",
            weights, (long long)neurons);
    return true;
}
static bool blocks_of_inkling(struct hf_reader *r)
{
    const struct hf_facts *f = &r->facts;
    const struct json *types, *numbers;
    int64_t heads, kv_heads, head_dim;
    const char *word;
    if (!hf_get_list(r, "layer_types", f->blocks, &types) || !hf_get_numbers(r, "local_layer_ids", &numbers) ||
        !hf_get_size(r->root, "swa_num_attention_heads", f->heads, &heads, r->err) ||
        !hf_get_size(r->root, "swa_num_key_value_heads", 16, &kv_heads, r->err) ||
        !hf_get_size(r->root, "swa_head_dim", 128, &head_dim, r->err))
        return false;
    if (heads % kv_heads)
        return json_fail(json_at_key(r->root, "swa_num_key_value_heads"), r->err,
                         "expected a divisor of swa_num_attention_heads (%lld), found %lld", (long long)heads,
                         (long long)kv_heads);
    for (int64_t i = 0; i < f->blocks; i++) {
        struct attention_layer *a = &r->blocks[i].attention;
        bool narrow = numbers ? hf_is_listed(numbers, i) : (i + 1) % 6 != 0;
        if (types && !json_string(json_at(types, (int)i), &word, r->err))
            return false;
        if (types)
            narrow = strcmp(word, "hybrid_sliding") == 0;
        r->blocks[i].fixed = !types;
        if (!narrow)
            continue;
        a->heads = heads;
        a->kv_heads = kv_heads;
        a->head_dim = head_dim;
        a->sliding_window = f->window < f->positions ? f->window : 0;
    }
    return true;
}
FAMILY(inkling) = {
    .type = "inkling_text",
    .class_name = "InklingForCausalLM",
    .others = " inkling inkling_mm_model ",
    .names = inkling_names,
    .facts = { HF_LLAMA_FACTS,         .hidden = 6144,
               .blocks = 66,           .heads = 64,
               .kv_heads = 8,          .head_dim = 128,
               .inner = 24576,         .vocab = 201024,
               .positions = 131072,    .place = HF_NO_POSITIONS,
               .embedding_norm = true, .logit_scale = 24,
               .window = 512,          .experts = 256,
               .choices = 6,           .expert_inner = 3072,
               .shared_experts = 2,    .gates = GATES_SIGMOID_OF_CHOSEN,
               .renormalised = true,   .router_correction = true,
               .gate_scale = 8,        .qk_norm = QK_NORM_HEAD,
               .qk_kind = NORM_RMS },
    .read = read_inkling,
    .blocks = blocks_of_inkling,
};

const struct hf_family *const hf_sparses[] = { &jetmoe,  &zaya,   &inkling, &aria,        &arctic,
                                               &bailing, &laguna, &longcat, &cohere2_moe, NULL };
