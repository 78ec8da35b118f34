/* Decoders with linear attention (Yang et al. 2025) in most blocks, and attention in the others. */
#include "models/import/hf_facts.h"
#include <math.h>
#include <string.h>

#define FAMILY(symbol) static const struct hf_family symbol
#define ATTENTION_BIAS HF_NAME("attention_bias", FLAG, qkv_bias), HF_NAME("attention_bias", FLAG, output_bias)

/* ---- Yang et al. 2024 as Qwen3-Next has it: gated delta rules, and gated attention in every fourth block ---- */

static bool blocks_of_qwen(struct hf_reader *r)
{
    const struct hf_facts *f = &r->facts;
    const struct json *types;
    struct linear_attention_layer linear;
    int64_t interval;
    const char *word = "";
    memcpy(&linear, layer_kind_find("linear_attention")->defaults, sizeof linear);
    linear.heads = f->value_heads;
    linear.key_heads = f->key_heads;
    linear.key_dim = f->key_width;
    linear.value_dim = f->value_width;
    linear.taps = f->conv;
    linear.norm = f->norm;
    linear.norm_epsilon = f->epsilon;
    if (f->value_heads % f->key_heads)
        return json_fail(hf_place_of(r, HF_FACT(value_heads)), r->err, "expected a multiple of %s (%lld), found %lld",
                         hf_name_of(r, HF_FACT(key_heads)), (long long)f->key_heads, (long long)f->value_heads);
    if (!hf_get_list(r, "layer_types", f->blocks, &types) ||
        !hf_get_size(r->root, "full_attention_interval", 4, &interval, r->err))
        return false;
    for (int64_t i = 0; i < f->blocks; i++) {
        if (types && !json_string(json_at(types, (int)i), &word, r->err))
            return false;
        if (types ? strcmp(word, "linear_attention") != 0 : (i + 1) % interval == 0)
            continue;
        r->blocks[i].mixer = HF_LINEAR;
        r->blocks[i].linear = linear;
        memset(&r->blocks[i].attention, 0, sizeof r->blocks[i].attention);
    }
    return true;
}

static const struct hf_name qwen_names[] = { ATTENTION_BIAS, HF_NAME("attn_output_gate", FLAG, output_gate), { 0 } };
#define QWEN_FACTS                                                                                                     \
    HF_LLAMA_FACTS, .head_dim = 256, .rope_part = 0.25, .positions = 32768, .qk_norm = QK_NORM_HEAD,                   \
                    .qk_kind = NORM_RMS, .output_gate = true, .key_heads = 16, .value_heads = 32, .key_width = 128,    \
                    .value_width = 128, .conv = 4
FAMILY(qwen3_5) = {
    .type = "qwen3_5",
    .class_name = "Qwen3_5ForConditionalGeneration",
    .others = " qwen3_5_text ",
    .names = qwen_names,
    .facts = { QWEN_FACTS, .hidden = 4096, .blocks = 32, .heads = 16, .kv_heads = 4, .inner = 12288, .vocab = 248320 },
    .blocks = blocks_of_qwen,
};
#define QWEN_MOE_FACTS                                                                                                 \
    QWEN_FACTS, .kv_heads = 2, .gates = GATES_OF_ALL, .renormalised = true, .sparse_offset = 1, .balance = 0.001,      \
                .expert_inner = 512, .shared_inner = 512, .shared_gate = true
FAMILY(qwen3_5_moe) = {
    .type = "qwen3_5_moe",
    .class_name = "Qwen3_5MoeForConditionalGeneration",
    .others = " qwen3_5_moe_text ",
    .names = qwen_names,
    .facts = { QWEN_MOE_FACTS, .hidden = 2048, .blocks = 40, .heads = 16, .inner = 512, .vocab = 248320, .experts = 256,
               .choices = 8 },
    .blocks = blocks_of_qwen,
};
FAMILY(qwen3_next) = {
    .type = "qwen3_next",
    .class_name = "Qwen3NextForCausalLM",
    .names = qwen_names,
    .facts = { QWEN_MOE_FACTS, .experts = 512, .choices = 10 },
    .blocks = blocks_of_qwen,
};

/* Qwen Team 2026 (Qwen4): an indexer chooses what full attention sees; several streams, which narrow matrices mix. */
static bool read_qwen4(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    const struct json *tables = hf_given(r->root, "ple_layer_ids"), *types;
    const char *word;
    int64_t streams, rank, heads, keys, width, interval, full = 0;
    if (tables && json_type(tables) == JSON_ARRAY && json_count(tables) > 0)
        return json_fail(tables, r->err,
                         "tables with a row for several tokens together cannot be planned: no kind of layer is that");
    if (!hf_get_size(r->root, "hc_count", 4, &streams, r->err) ||
        !hf_get_size(r->root, "hc_lowrank", 320, &rank, r->err) ||
        !hf_get_count(r->root, "indexer_n_heads", 0, &heads, r->err) ||
        !hf_get_count(r->root, "indexer_kv_heads", 1, &keys, r->err) ||
        !hf_get_count(r->root, "indexer_head_dim", 0, &width, r->err) ||
        !hf_get_size(r->root, "full_attention_interval", 4, &interval, r->err) ||
        !hf_get_list(r, "layer_types", f->blocks, &types))
        return false;
    for (int64_t i = 0; types && i < f->blocks; i++) {
        if (!json_string(json_at(types, (int)i), &word, r->err))
            return false;
        full += strcmp(word, "linear_attention") != 0;
    }
    if (!types)
        full = f->blocks / interval;
    const double h = (double)f->hidden, s = (double)streams, n = (double)f->blocks, w = (double)width;
    const double mixed = 2 * s * h * (double)rank + s * h; /* of the streams: what reads them, and their norm */
    const double choosing = width ? (double)full * (h * w * (double)(heads + keys) + 2 * w) : 0;
    const double weights = n * (2 * (mixed + s * s * h) - 2 * h) + choosing;
    const int64_t neurons = hf_add_neurons(r, weights);
    f->last_inner = (int64_t)fmin((mixed - h) / (2 * h), MOE_MAX_INNER); /* what joins them behind the blocks */
    hf_note(
        r,
        "its attention is planned over all tokens; what chooses tokens and joins the %lld streams, %.0f weights, as "
        "%lld more neurons of each network; the streams' memory is left out",
        (long long)streams, weights, (long long)neurons);
    return true;
}
FAMILY(qwen4_exp) = {
    .type = "qwen4_exp_text",
    .class_name = "Qwen4ExpForCausalLM",
    .others = " qwen4_exp ",
    .names = qwen_names,
    .facts = { QWEN_MOE_FACTS, .rope_part = 1, .hidden = 2048, .blocks = 40, .heads = 16, .vocab = 248320,
               .experts = 512, .choices = 10 },
    .read = read_qwen4,
    .blocks = blocks_of_qwen,
};

/* Windows and full attention beside the delta rules. */
static const struct hf_name lara_names[] = { ATTENTION_BIAS, { 0 } };
FAMILY(lara_mini) = {
    .type = "lara_mini",
    .class_name = "LaraMiniForCausalLM",
    .names = lara_names,
    .facts = { QWEN_MOE_FACTS, .head_dim = 128, .rope_part = 1, .positions = 131072, .output_gate = false,
               .kv_heads = 4, .shared_gate = false, .key_heads = 8, .value_heads = 16, .window = 512, .tied = true },
    .read = hf_require_types,
    .blocks = blocks_of_qwen,
};

/* OLMo Team 2026: norms of what full attention and its network give, of what the other blocks read. */
static bool blocks_of_olmo(struct hf_reader *r)
{
    if (!blocks_of_qwen(r))
        return false;
    for (int64_t i = 0; i < r->facts.blocks; i++) {
        struct hf_block *b = &r->blocks[i];
        if (b->mixer == HF_LINEAR)
            continue;
        b->attention.norm = b->mlp.norm = NORM_NONE;
        b->attention.output_norm = b->mlp.output_norm = r->facts.norm;
    }
    return true;
}
FAMILY(olmo_hybrid) = {
    .type = "olmo_hybrid",
    .class_name = "OlmoHybridForCausalLM",
    .names = lara_names,
    .facts = { HF_LLAMA_FACTS, .positions = 65536, .place = HF_ROTARY, .qk_norm = QK_NORM_WHOLE, .qk_kind = NORM_RMS,
               .key_heads = 30, .value_heads = 30, .key_width = 96, .value_width = 192, .conv = 4 },
    .blocks = blocks_of_olmo,
};

/* Moonshot AI 2025 (Kimi Linear): delta rules with a decay for each element of a key, and latent attention without
 * positions in some blocks. Older files number the blocks from 1, in a box of their own. */
static const struct hf_name kimi_names[] = {
    HF_NAME("num_experts", SIZE, experts),          HF_NAME("num_expert_group", SIZE, expert_groups),
    HF_NAME("moe_renormalize", FLAG, renormalised), HF_NAME("linear_head_dim", SIZE, key_width),
    HF_NAME("linear_num_heads", SIZE, key_heads),   { 0 }
};
static bool read_kimi(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    const struct json *box = hf_given(r->root, "linear_attn_config");
    if (hf_given(r->root, "attn_res_block_size"))
        return json_fail(hf_given(r->root, "attn_res_block_size"), r->err,
                         "sums of the stream over blocks by attention cannot be planned: no kind of layer is that");
    if (!hf_expect_object(box, r->err))
        return false;
    if (box && (!hf_get_size(box, "head_dim", f->key_width, &f->key_width, r->err) ||
                !hf_get_size(box, "num_heads", f->key_heads, &f->key_heads, r->err) ||
                !hf_get_size(box, "short_conv_kernel_size", f->conv, &f->conv, r->err)))
        return false;
    return hf_require_latent(r);
}

/* Whether attention is full: by words, or by the box's numbers. */
static bool is_full(struct hf_reader *r, const struct json *types, const struct json *numbers, int64_t i, bool *out)
{
    const char *word;
    int64_t number;
    *out = false;
    for (int k = 0; !types && numbers && k < json_count(numbers); k++)
        *out |= json_int(json_at(numbers, k), 1, MODEL_MAX_LAYERS, &number, NULL) && number == i + 1;
    if (!types)
        return true;
    if (!json_string(json_at(types, (int)i), &word, r->err))
        return false;
    *out = strcmp(word, "full_attention") == 0;
    return *out || strcmp(word, "linear_attention") == 0 ||
           json_fail(json_at(types, (int)i), r->err,
                     "expected \"full_attention\" or \"linear_attention\", found \"%.64s\"", word);
}

static bool blocks_of_kimi(struct hf_reader *r)
{
    const struct hf_facts *f = &r->facts;
    const struct json *box = hf_given(r->root, "linear_attn_config"), *types, *numbers = NULL;
    struct linear_attention_layer linear;
    int64_t count = 0;
    bool full;
    memcpy(&linear, layer_kind_find("linear_attention")->defaults, sizeof linear);
    linear.heads = linear.key_heads = f->key_heads;
    linear.key_dim = linear.value_dim = linear.gate_rank = linear.decay_rank = f->key_width;
    linear.taps = f->conv;
    linear.norm = f->norm;
    linear.norm_epsilon = f->epsilon;
    if (!hf_get_list(r, "layer_types", f->blocks, &types))
        return false;
    numbers = box ? hf_given(box, "full_attn_layers") : NULL;
    if (!types && (!numbers || json_type(numbers) != JSON_ARRAY))
        return json_fail(box ? box : r->root, r->err,
                         "expected layer_types, or an array full_attn_layers in linear_attn_config");
    for (int64_t i = 0; i < f->blocks; i++) {
        if (!is_full(r, types, numbers, i, &full))
            return false;
        if (full)
            continue;
        r->blocks[i].mixer = HF_LINEAR;
        r->blocks[i].linear = linear;
        memset(&r->blocks[i].latent, 0, sizeof r->blocks[i].latent);
        count++;
    }
    hf_note(r,
            "its rates of writing are planned with the decays' narrow vector (%lld weights less than the file's model "
            "has); its full attention has no positions, which changes neither shapes nor parameters",
            (long long)(count * f->key_heads * (f->hidden - f->key_width)));
    return true;
}
FAMILY(kimi_linear) = {
    .type = "kimi_linear",
    .class_name = "KimiLinearForCausalLM",
    .names = kimi_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .positions = 1048576, .gates = GATES_SIGMOID_OF_CHOSEN,
               .renormalised = true, .router_correction = true, .shared_experts = 1, .dense_blocks = 1, .conv = 4,
               .key_heads = 32, .key_width = 128 },
    .read = read_kimi,
    .blocks = blocks_of_kimi,
};

/* Inclusion AI 2026 (Ling 2.5): the gates and decays of its delta rules are as wide as their heads. */
static bool read_ling(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    return hf_require_latent(r) && hf_get_size(r->root, "short_conv_kernel_size", f->conv, &f->conv, r->err);
}
static bool blocks_of_ling(struct hf_reader *r)
{
    const struct hf_facts *f = &r->facts;
    const struct json *types;
    struct linear_attention_layer linear;
    int64_t group;
    bool full = false;
    memcpy(&linear, layer_kind_find("linear_attention")->defaults, sizeof linear);
    linear.heads = linear.key_heads = f->key_heads;
    linear.key_dim = linear.value_dim = f->key_width;
    const int64_t wide = f->key_heads * (f->key_width + 1);
    linear.decay_rank = f->hidden * wide / (f->hidden + wide); /* as many weights through a narrow vector */
    linear.decay_rank = linear.decay_rank ? linear.decay_rank : 1;
    linear.taps = f->conv;
    linear.norm = f->norm;
    linear.norm_epsilon = f->epsilon;
    if (!hf_get_list(r, "layer_types", f->blocks, &types) ||
        !hf_get_size(r->root, "layer_group_size", 6, &group, r->err))
        return false;
    for (int64_t i = 0; i < f->blocks; i++) {
        if (types && !is_full(r, types, NULL, i, &full))
            return false;
        if (types ? full : (i + 1) % group == 0)
            continue;
        r->blocks[i].mixer = HF_LINEAR;
        r->blocks[i].linear = linear;
        memset(&r->blocks[i].latent, 0, sizeof r->blocks[i].latent);
    }
    hf_note(
        r,
        "its decays are planned through a narrow vector of as many weights; left out: a gate for each head of its full "
        "attention, %lld weights a block",
        (long long)(f->hidden * f->heads));
    return true;
}
FAMILY(ling) = {
    .type = "bailing_hybrid",
    .class_name = "BailingHybridForCausalLM",
    .names = kimi_names,
    .facts = { HF_LLAMA_FACTS, .positions = 262144, .gates = GATES_SIGMOID_OF_CHOSEN, .renormalised = true,
               .router_correction = true, .shared_experts = 1, .conv = 4, .key_heads = 32, .key_width = 128 },
    .read = read_ling,
    .blocks = blocks_of_ling,
};

const struct hf_family *const hf_linears[] = { &qwen3_5,     &qwen3_5_moe, &qwen3_next, &qwen4_exp, &lara_mini,
                                               &olmo_hybrid, &kimi_linear, &ling,       NULL };
