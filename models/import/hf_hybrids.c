/* Decoders of attention and networks whose blocks are not alike. */
#include "models/import/hf_facts.h"
#include <string.h>

#define FAMILY(symbol) static const struct hf_family symbol
#define ATTENTION_BIAS HF_NAME("attention_bias", FLAG, qkv_bias), HF_NAME("attention_bias", FLAG, output_bias)

/* ---- Bercovich et al. 2025 (Nemotron from neural architecture search): every block has a configuration of its own
 * ---- */

static bool require_object(struct hf_reader *r, const struct json *at, const char *key, const struct json **out)
{
    return json_require(at, key, out, r->err) && hf_expect_object(*out, r->err);
}

/* Whether the part is there; one that is replaced by a matrix has no kind. */
static bool read_part(struct hf_reader *r, const struct json *part, const char *what, bool *absent)
{
    bool matrix;
    if (!hf_get_bool(part, "no_op", false, absent, r->err) ||
        !hf_get_bool(part, "replace_with_linear", false, &matrix, r->err))
        return false;
    return !matrix || json_fail(json_member(part, "replace_with_linear"), r->err,
                                "a square matrix in place of %s cannot be planned: no kind of layer is one", what);
}

static bool block_of_search(struct hf_reader *r, const struct json *at, struct hf_block *b)
{
    const struct hf_facts *f = &r->facts;
    const struct json *attention, *network, *mult;
    bool absent, none;
    int64_t group, window;
    double ratio;
    if (!require_object(r, at, "attention", &attention) || !require_object(r, at, "ffn", &network) ||
        !read_part(r, attention, "attention", &absent) || !read_part(r, network, "the network", &none) ||
        !hf_get_size(attention, "n_heads_in_group", 1, &group, r->err) ||
        !hf_get_size(attention, "window_length", f->positions, &window, r->err))
        return false;
    if (!absent && f->heads % group)
        return json_fail(json_member(attention, "n_heads_in_group"), r->err,
                         "expected a divisor of %s (%lld), found %lld", hf_name_of(r, HF_FACT(heads)),
                         (long long)f->heads, (long long)group);
    b->mixer = absent ? HF_NO_MIXER : HF_ATTENTION;
    b->attention.kv_heads = f->heads / group;
    b->attention.sliding_window = window < f->positions ? window : 0;
    b->network = none ? HF_NO_NETWORK : HF_MLP;
    if (none)
        return true;
    if (!json_require(network, "ffn_mult", &mult, r->err) || !json_double(mult, 1e-3, 1e3, &ratio, r->err))
        return false;
    b->mlp.inner = ((int64_t)(2 * ratio * (double)f->hidden / 3) + 255) / 256 * 256;
    return true;
}

static bool blocks_of_search(struct hf_reader *r)
{
    const struct json *list;
    if (!hf_require(r->root, "block_configs", &list, r->err) ||
        !hf_get_list(r, "block_configs", r->facts.blocks, &list))
        return false;
    for (int64_t i = 0; i < r->facts.blocks; i++)
        if (!block_of_search(r, json_at(list, (int)i), &r->blocks[i]))
            return false;
    return true;
}

static const struct hf_name nas_names[] = { ATTENTION_BIAS, HF_NAME("mlp_bias", FLAG, mlp_bias), { 0 } };
FAMILY(nemotron_nas) = {
    .type = "nemotron-nas",
    .class_name = "DeciLMForCausalLM",
    .others = " deci ",
    .names = nas_names,
    .facts = { HF_LLAMA_FACTS, .inner_factor = 4 },
    .blocks = blocks_of_search,
};

/* MiniMax 2025: linear attention with a gate; its matrices are those of attention with an output gate. */
static const struct hf_name minimax_names[] = { HF_NAME("rotary_dim", SIZE, rope_dim), { 0 } };
static bool blocks_of_minimax(struct hf_reader *r)
{
    const struct json *types, *numbers;
    const char *word;
    int64_t number = 1;
    bool some = false;
    if (!hf_get_list(r, "layer_types", r->facts.blocks, &types) ||
        !hf_get_list(r, "attn_type_list", r->facts.blocks, &numbers))
        return false;
    for (int64_t i = 0; i < r->facts.blocks; i++) {
        struct attention_layer *a = &r->blocks[i].attention;
        bool linear = (i + 1) % 2 != 0;
        if (types) {
            if (!json_string(json_at(types, (int)i), &word, r->err))
                return false;
            linear = strcmp(word, "linear_attention") == 0;
        } else if (numbers) {
            if (!json_int(json_at(numbers, (int)i), 0, 1, &number, r->err))
                return false;
            linear = number == 0;
        }
        if (linear) {
            a->kv_heads = a->heads;
            a->output_gate = true;
            r->blocks[i].fixed = true;
        }
        some |= linear;
    }
    if (some)
        hf_note(r,
                "its linear attention is planned as attention with an output gate, which has the same matrices; the "
                "norm behind it (%lld weights a block) is left out",
                (long long)(r->blocks[0].attention.heads * r->blocks[0].attention.head_dim));
    return true;
}
static bool read_minimax(struct hf_reader *r)
{
    return hf_get_count(r->root, "shared_intermediate_size", 0, &r->facts.shared_inner, r->err);
}
FAMILY(minimax) = {
    .type = "minimax",
    .class_name = "MiniMaxForCausalLM",
    .others = " minimax_text_01 ",
    .names = minimax_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .kv_heads = 8, .rope_base = 1e6, .positions = 131072, .experts = 8,
               .choices = 2, .balance = 0.001 },
    .read = read_minimax,
    .blocks = blocks_of_minimax,
};

/* MiniMax 2026: dense blocks first, norms over each head, attention to chosen spans of tokens. */
static const struct hf_name minimax_m3_names[] = { HF_NAME("rotary_dim", SIZE, rope_dim),
                                                   HF_NAME("moe_intermediate_size", SIZE, expert_inner),
                                                   HF_NAME("intermediate_size", SIZE, expert_inner),
                                                   HF_NAME("dense_intermediate_size", SIZE, inner),
                                                   HF_NAME("moe_layer_freq", IGNORED, sparse_step),
                                                   HF_NAME("shared_intermediate_size", COUNT, shared_inner),
                                                   { 0 } };
static bool blocks_of_minimax_m3(struct hf_reader *r)
{
    if (hf_given(r->root, "sparse_attention_config"))
        hf_note(r,
                "left out: what chooses spans of tokens in its sparse attention; attention is planned over all tokens");
    return hf_set_sparse(r, "moe_layer_freq");
}
FAMILY(minimax_m3) = {
    .type = "minimax_m3",
    .class_name = "MiniMaxM3ForCausalLM",
    .others = " minimax_m3_vl minimax_m3_vl_text minimax_m3_text ",
    .names = minimax_m3_names,
    .facts = { HF_LLAMA_FACTS, .activation = "swiglu_clamped", .rope_base = 5e6, .positions = 196608,
               .gates = GATES_SIGMOID_OF_CHOSEN, .renormalised = true, .router_correction = true,
               .qk_norm = QK_NORM_HEAD, .qk_kind = NORM_RMS },
    .blocks = blocks_of_minimax_m3,
};

/* Xiaomi 2025: windows with sinks and heads of keys and values of their own; values narrower than keys. */
static const struct hf_name mimo_names[] = { ATTENTION_BIAS, HF_NAME("moe_layer_freq", IGNORED, sparse_step), { 0 } };
static bool read_mimo(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    f->rope_part = 1;
    if (f->value_dim && f->head_dim && f->value_dim != f->head_dim && (f->value_dim + f->head_dim) % 4 == 0) {
        hf_note(r,
                "its heads, of %lld elements for queries and keys and %lld for values, are planned with %lld for both: "
                "as many weights and as much work; rotary positions turn all of them",
                (long long)f->head_dim, (long long)f->value_dim, (long long)(f->head_dim + f->value_dim) / 2);
        f->head_dim = (f->head_dim + f->value_dim) / 2;
    }
    return true;
}
static bool blocks_of_mimo(struct hf_reader *r)
{
    const struct hf_facts *f = &r->facts;
    const struct json *list;
    int64_t kv_heads, narrow;
    bool sinks, full_sinks;
    if (!hf_get_list(r, "hybrid_layer_pattern", f->blocks, &list) ||
        !hf_get_size(r->root, "swa_num_key_value_heads", f->kv_heads ? f->kv_heads : f->heads, &kv_heads, r->err) ||
        !hf_get_bool(r->root, "add_swa_attention_sink_bias", false, &sinks, r->err) ||
        !hf_get_bool(r->root, "add_full_attention_sink_bias", false, &full_sinks, r->err))
        return false;
    if (f->heads % kv_heads)
        return json_fail(json_at_key(r->root, "swa_num_key_value_heads"), r->err,
                         "expected a divisor of %s (%lld), found %lld", hf_name_of(r, HF_FACT(heads)),
                         (long long)f->heads, (long long)kv_heads);
    for (int64_t i = 0; list && i < f->blocks; i++) {
        struct attention_layer *a = &r->blocks[i].attention;
        if (!json_int(json_at(list, (int)i), 0, 1, &narrow, r->err))
            return false;
        a->sinks = narrow ? sinks : full_sinks;
        if (!narrow)
            continue;
        a->kv_heads = kv_heads;
        a->sliding_window = f->window && f->window < f->positions ? f->window : 0;
    }
    return hf_set_sparse(r, "moe_layer_freq");
}
FAMILY(mimo_v2) = {
    .type = "mimo_v2_flash",
    .class_name = "MiMoV2FlashForCausalLM",
    .others = " mimo_v2 ",
    .names = mimo_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .positions = 131072, .gates = GATES_SIGMOID_OF_CHOSEN,
               .renormalised = true, .router_correction = true },
    .read = read_mimo,
    .blocks = blocks_of_mimo,
};

/* StepFun 2026. */
static const struct hf_name step_names[] = { ATTENTION_BIAS,
                                             HF_NAME("num_attention_groups", SIZE, kv_heads),
                                             HF_NAME("num_key_value_heads", SIZE, kv_heads),
                                             HF_NAME("share_expert_dim", COUNT, shared_inner),
                                             HF_NAME("share_expert_dims", COUNT, shared_inner),
                                             HF_NAME("moe_top_k", SIZE, choices),
                                             HF_NAME("num_experts_per_tok", SIZE, choices),
                                             HF_NAME("moe_router_scaling_factor", NUMBER, gate_scale),
                                             { 0 } };
static bool read_step(struct hf_reader *r)
{
    hf_note(r, "left out: a gate for each head, %lld weights a block", (long long)(r->facts.hidden * r->facts.heads));
    return true;
}
FAMILY(step) = {
    .type = "step3p7",
    .class_name = "Step3p7FlashForCausalLM",
    .others = " step3p5 ",
    .names = step_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .positions = 128000, .qk_norm = QK_NORM_HEAD, .qk_kind = NORM_RMS,
               .gates = GATES_SIGMOID_OF_CHOSEN, .renormalised = true, .router_correction = true, .expert_inner = 1280,
               .dense_blocks = 3 },
    .read = read_step,
};

const struct hf_family *const hf_hybrids[] = { &nemotron_nas, &minimax, &minimax_m3, &mimo_v2, &step, NULL };
