/* Decoders with state spaces, alone or beside attention. */
#include "models/import/hf_facts.h"
#include <string.h>

#define FAMILY(symbol) static const struct hf_family symbol
#define ATTENTION_BIAS HF_NAME("attention_bias", FLAG, qkv_bias), HF_NAME("attention_bias", FLAG, output_bias)

/* ---- state spaces (Gu & Dao 2023, Dao & Gu 2024) ---- */

/* A rank of "auto" is a sixteenth of the width. */
bool hf_read_rank(struct hf_reader *r, const char *key)
{
    const struct json *at = hf_given(r->root, key);
    const char *word;
    r->facts.step_rank = (r->facts.hidden + 15) / 16;
    if (!at)
        return true;
    if (json_type(at) != JSON_STRING)
        return json_int(at, 1, 1 << 20, &r->facts.step_rank, r->err);
    return json_string(at, &word, r->err) &&
           (strcmp(word, "auto") == 0 || json_fail(at, r->err, "expected a number or \"auto\", found \"%.64s\"", word));
}

/* The head's width of "auto" is what the heads leave of the inner width. */
static bool read_state_head(struct hf_reader *r, const char *key)
{
    const struct json *at = hf_given(r->root, key);
    if (at && json_type(at) != JSON_STRING && !json_int(at, 1, 1 << 20, &r->facts.state_head_dim, r->err))
        return false;
    return true;
}

bool hf_fill_state(struct hf_reader *r, int64_t version, struct state_space_layer *s)
{
    const struct hf_facts *f = &r->facts;
    memcpy(s, layer_kind_find("state_space")->defaults, sizeof *s);
    s->version = version;
    s->inner = f->state_inner;
    if (!s->inner)
        s->inner =
            f->state_heads && f->state_head_dim ? f->state_heads * f->state_head_dim : f->state_expand * f->hidden;
    s->state = f->state;
    s->taps = f->conv;
    s->rank = version == 1 ? f->step_rank : 0;
    s->heads = version == 2 ? f->state_heads : 0;
    s->groups = version == 2 ? f->state_groups : 0;
    s->bias = f->state_bias;
    s->conv_bias = f->conv_bias;
    s->norm_groups = version == 2 && f->state_norms ? f->state_groups : 0;
    s->residual_scale = f->residual_scale;
    s->norm = f->norm;
    s->norm_epsilon = f->epsilon;
    if (version == 2 && (!s->heads || s->inner % s->heads))
        return json_fail(hf_place_of(r, HF_FACT(state_heads)), r->err,
                         "expected a divisor of the state space's inner width (%lld), found %lld", (long long)s->inner,
                         (long long)s->heads);
    if (version == 2 && s->groups > 0 && s->heads % s->groups)
        return json_fail(hf_place_of(r, HF_FACT(state_groups)), r->err, "expected a divisor of %s (%lld), found %lld",
                         hf_name_of(r, HF_FACT(state_heads)), (long long)s->heads, (long long)s->groups);
    return s->inner <= 1 << 24 || json_fail(r->root, r->err,
                                            "expected an inner width of the state space of at most %d, "
                                            "found %lld",
                                            1 << 24, (long long)s->inner);
}

static bool only_state(struct hf_reader *r, int64_t version)
{
    struct state_space_layer state;
    if (!hf_fill_state(r, version, &state))
        return false;
    for (int64_t i = 0; i < r->facts.blocks; i++) {
        r->blocks[i] = (struct hf_block){ .mixer = HF_STATE_SPACE, .network = HF_NO_NETWORK };
        r->blocks[i].state = state;
    }
    return true;
}
static bool only_state_1(struct hf_reader *r)
{
    return only_state(r, 1);
}
static bool only_state_2(struct hf_reader *r)
{
    return only_state(r, 2);
}

#define STATE_FACTS                                                                                                    \
    .norm = NORM_RMS, .epsilon = 1e-5, .init_std = 0.1, .activation = "silu", .place = HF_NO_POSITIONS,                \
    .positions = 2048, .no_heads = true, .state_expand = 2, .conv = 4, .conv_bias = true, .inner_factor = 1,           \
    .gate_scale = 1
#define STATE_NAMES                                                                                                    \
    HF_NAME("state_size", SIZE, state), HF_NAME("conv_kernel", SIZE, conv), HF_NAME("expand", SIZE, state_expand),     \
        HF_NAME("use_bias", FLAG, state_bias), HF_NAME("use_conv_bias", FLAG, conv_bias)
static const struct hf_name mamba_names[] = {
    STATE_NAMES, HF_NAME("intermediate_size", SIZE, state_inner), HF_NAME("d_inner", SIZE, state_inner), { 0 }
};
static bool read_mamba(struct hf_reader *r)
{
    r->facts.inner = 0;
    return hf_read_rank(r, "time_step_rank");
}
FAMILY(mamba) = {
    .type = "mamba",
    .class_name = "MambaForCausalLM",
    .others = " falcon_mamba ",
    .names = mamba_names,
    .facts = { STATE_FACTS, .state = 16, .tied = true },
    .read = read_mamba,
    .blocks = only_state_1,
};
static const struct hf_name mamba2_names[] = { STATE_NAMES,
                                               HF_NAME("num_heads", SIZE, state_heads),
                                               HF_NAME("head_dim", SIZE, state_head_dim),
                                               HF_NAME("n_groups", SIZE, state_groups),
                                               { 0 } };
FAMILY(mamba2) = {
    .type = "mamba2",
    .class_name = "Mamba2ForCausalLM",
    .names = mamba2_names,
    .facts = { STATE_FACTS, .state = 128, .state_heads = 128, .state_head_dim = 64, .state_groups = 8 },
    .read = read_mamba,
    .blocks = only_state_2,
};

/* ---- state spaces beside attention ---- */

#define MAMBA_NAMES                                                                                                    \
    HF_NAME("mamba_d_state", SIZE, state), HF_NAME("mamba_d_conv", SIZE, conv),                                        \
        HF_NAME("mamba_expand", SIZE, state_expand), HF_NAME("mamba_n_heads", SIZE, state_heads),                      \
        HF_NAME("mamba_n_groups", SIZE, state_groups), HF_NAME("mamba_proj_bias", FLAG, state_bias),                   \
        HF_NAME("mamba_conv_bias", FLAG, conv_bias)
#define HYBRID_FACTS HF_LLAMA_FACTS, .conv = 4, .conv_bias = true, .state_expand = 2, .state_groups = 1

/* Lieber et al. 2024 (Jamba): attention and experts at fixed places of a period, norms inside the state space. */
static const struct hf_name jamba_names[] = { MAMBA_NAMES, { 0 } };
static bool read_jamba(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    int64_t period, offset;
    if (!hf_read_rank(r, "mamba_dt_rank") || !hf_get_size(r->root, "expert_layer_period", 2, &period, r->err) ||
        !hf_get_count(r->root, "expert_layer_offset", 1, &offset, r->err))
        return false;
    f->sparse_step = period;
    f->sparse_offset = period - offset % period;
    if (f->experts == 1)
        f->experts = 0;
    hf_note(r, "left out: the norms inside its state spaces, %lld weights a block",
            (long long)(f->step_rank + 2 * f->state));
    return true;
}
static bool blocks_of_jamba(struct hf_reader *r)
{
    struct state_space_layer state;
    int64_t period, offset;
    if (!hf_fill_state(r, 1, &state) || !hf_get_size(r->root, "attn_layer_period", 8, &period, r->err) ||
        !hf_get_count(r->root, "attn_layer_offset", 4, &offset, r->err))
        return false;
    for (int64_t i = 0; i < r->facts.blocks; i++)
        if (i % period != offset % period) {
            r->blocks[i].mixer = HF_STATE_SPACE;
            r->blocks[i].state = state;
            memset(&r->blocks[i].attention, 0, sizeof r->blocks[i].attention);
        }
    return true;
}
FAMILY(jamba) = {
    .type = "jamba",
    .class_name = "JambaForCausalLM",
    .names = jamba_names,
    .facts = { HYBRID_FACTS, .place = HF_NO_POSITIONS, .kv_heads = 8, .positions = 262144, .state = 16, .experts = 16,
               .choices = 2, .gates = GATES_OF_ALL, .balance = 0.001 },
    .read = read_jamba,
    .blocks = blocks_of_jamba,
};

/* A list of words, or of the numbers of the blocks with attention, says which block is which. */
static bool set_state_blocks(struct hf_reader *r, const struct json *words, const struct json *numbers)
{
    struct state_space_layer state;
    const char *word;
    if (!hf_fill_state(r, 2, &state))
        return false;
    for (int64_t i = 0; i < r->facts.blocks; i++) {
        bool attention = false;
        if (words) {
            if (!json_string(json_at(words, (int)i), &word, r->err))
                return false;
            attention = strstr(word, "attention") != NULL;
            if (strcmp(word, "linear_attention") == 0) /* the fifth version's word for every recurrent layer */
                attention = false;
            else if (!attention && strcmp(word, "mamba") != 0)
                return json_fail(json_at(words, (int)i), r->err,
                                 "expected \"mamba\" or \"attention\", found \"%.64s\": no layer of this kind can be "
                                 "planned",
                                 word);
        }
        if (attention || hf_is_listed(numbers, i))
            continue;
        r->blocks[i].mixer = HF_STATE_SPACE;
        r->blocks[i].state = state;
        memset(&r->blocks[i].attention, 0, sizeof r->blocks[i].attention);
    }
    return true;
}

static bool get_words(struct hf_reader *r, const struct json **out)
{
    return hf_get_list(r, "layers_block_type", r->facts.blocks, out) &&
           (*out || hf_get_list(r, "layer_types", r->facts.blocks, out));
}

static bool blocks_of_bamba(struct hf_reader *r)
{
    const struct json *words, *numbers;
    return hf_get_numbers(r, "attn_layer_indices", &numbers) && get_words(r, &words) &&
           set_state_blocks(r, words, numbers);
}
static bool read_bamba(struct hf_reader *r)
{
    return read_state_head(r, "mamba_d_head");
}
static const struct hf_name bamba_names[] = { MAMBA_NAMES, ATTENTION_BIAS, HF_NAME("mlp_bias", FLAG, mlp_bias), { 0 } };
FAMILY(bamba) = {
    .type = "bamba",
    .class_name = "BambaForCausalLM",
    .names = bamba_names,
    .facts = { HYBRID_FACTS, .epsilon = 1e-5, .kv_heads = 8, .rope_part = 0.5, .positions = 262144, .state = 256,
               .state_heads = 128 },
    .read = read_bamba,
    .blocks = blocks_of_bamba,
};

/* Zuo et al. 2025 (Falcon-H1): a state space beside attention. */
static const struct hf_name falcon_h1_names[] = { MAMBA_NAMES,
                                                  ATTENTION_BIAS,
                                                  HF_NAME("mlp_bias", FLAG, mlp_bias),
                                                  HF_NAME("mamba_d_ssm", SIZE, state_inner),
                                                  HF_NAME("mamba_rms_norm", FLAG, state_norms),
                                                  HF_NAME("embedding_multiplier", NUMBER, embedding_scale),
                                                  HF_NAME("lm_head_multiplier", NUMBER, logit_scale),
                                                  { 0 } };
static bool blocks_of_falcon_h1(struct hf_reader *r)
{
    struct state_space_layer state;
    if (!hf_fill_state(r, 2, &state))
        return false;
    for (int64_t i = 0; i < r->facts.blocks; i++) {
        r->blocks[i].beside = true;
        r->blocks[i].state = state;
    }
    if (!r->facts.state_norms)
        hf_note(r, "planned with a norm behind its state spaces, %lld weights a block that the file's model has not",
                (long long)state.inner);
    return true;
}
FAMILY(falcon_h1) = {
    .type = "falcon_h1",
    .class_name = "FalconH1ForCausalLM",
    .names = falcon_h1_names,
    .facts = { HYBRID_FACTS, .epsilon = 1e-5, .kv_heads = 8, .positions = 8192, .state = 256, .state_heads = 128 },
    .blocks = blocks_of_falcon_h1,
};

/* Liquid AI 2025 (LFM2): convolutions over a few tokens between gates, and attention in some blocks. */
static const struct hf_name lfm2_names[] = { HF_NAME("conv_L_cache", SIZE, conv),
                                             HF_NAME("block_ff_dim", SIZE, inner),
                                             HF_NAME("intermediate_size", SIZE, inner),
                                             HF_NAME("tie_embedding", FLAG, tied),
                                             { 0 } };
static bool read_lfm2(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    const struct json *at = hf_given(r->root, "block_ffn_dim_multiplier");
    double factor = 1;
    int64_t multiple;
    bool adjusted;
    if (!hf_get_bool(r->root, "block_auto_adjust_ff_dim", true, &adjusted, r->err) ||
        !hf_get_size(r->root, "block_multiple_of", 256, &multiple, r->err) ||
        (at && !json_double(at, 1e-3, 1e3, &factor, r->err)))
        return false;
    if (adjusted)
        f->inner = ((int64_t)(factor * (double)(2 * f->inner / 3)) + multiple - 1) / multiple * multiple;
    return true;
}
/* A list of words, or of the numbers of the blocks with attention. */
static bool is_convolution(struct hf_reader *r, const struct json *types, const struct json *numbers, int64_t i,
                           bool *out)
{
    const char *word;
    *out = numbers && !hf_is_listed(numbers, i);
    if (!types)
        return true;
    const struct json *at = json_at(types, (int)i);
    if (!json_string(at, &word, r->err))
        return false;
    *out = strcmp(word, "full_attention") != 0 && strcmp(word, "sliding_attention") != 0;
    return !*out || strcmp(word, "conv") == 0 || strcmp(word, "short_conv") == 0 ||
           json_fail(at, r->err, "expected \"conv\", \"full_attention\" or \"sliding_attention\", found \"%.64s\"",
                     word);
}
static bool blocks_of_lfm2(struct hf_reader *r)
{
    const struct hf_facts *f = &r->facts;
    const struct json *types, *numbers;
    int64_t count = 0;
    bool convolution, biased;
    if (!hf_get_numbers(r, "full_attn_idxs", &numbers) || !hf_get_list(r, "layer_types", f->blocks, &types) ||
        !hf_get_bool(r->root, "conv_bias", false, &biased, r->err))
        return false;
    for (int64_t i = 0; i < f->blocks; i++) {
        struct attention_layer *a = &r->blocks[i].attention;
        if (!is_convolution(r, types, numbers, i, &convolution))
            return false;
        r->blocks[i].fixed = convolution;
        if (!convolution)
            continue;
        a->kv_heads = a->heads;
        a->head_dim = f->hidden / f->heads;
        a->qk_norm = QK_NORM_NONE;
        a->qkv_bias = a->output_bias = biased;
        a->rope_base = 0;
        a->rope_dim = 0;
        a->sliding_window = f->conv < f->positions ? f->conv : 0;
        count++;
    }
    if (count)
        hf_note(r,
                "its gated convolutions over %lld tokens are planned as attention over so many, which has the same "
                "matrices; %.0f weights of the convolutions are left out",
                (long long)f->conv, (double)count * (double)f->hidden * (double)(f->conv + biased));
    return true;
}
FAMILY(lfm2) = {
    .type = "lfm2",
    .class_name = "Lfm2ForCausalLM",
    .names = lfm2_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .tied = true, .kv_heads = 8, .rope_base = 1e6, .positions = 128000,
               .conv = 3, .qk_norm = QK_NORM_HEAD, .qk_kind = NORM_RMS, .inner = 12288 },
    .read = read_lfm2,
    .blocks = blocks_of_lfm2,
};

static const struct hf_name lfm2_moe_names[] = { HF_NAME("conv_L_cache", SIZE, conv),
                                                 HF_NAME("num_dense_layers", COUNT, dense_blocks),
                                                 HF_NAME("use_expert_bias", FLAG, router_correction),
                                                 HF_NAME("tie_embedding", FLAG, tied),
                                                 { 0 } };
FAMILY(lfm2_moe) = {
    .type = "lfm2_moe",
    .class_name = "Lfm2MoeForCausalLM",
    .names = lfm2_moe_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .tied = true, .kv_heads = 8, .rope_base = 1e6, .positions = 128000,
               .conv = 3, .qk_norm = QK_NORM_HEAD, .qk_kind = NORM_RMS, .dense_blocks = 2,
               .gates = GATES_SIGMOID_OF_CHOSEN, .renormalised = true, .router_correction = true },
    .read = hf_require_types,
    .blocks = blocks_of_lfm2,
};

/* Liquid AI 2026 (LFM3): norms also of what layers give, windows in some blocks. */
static const struct hf_name lfm3_names[] = { ATTENTION_BIAS,
                                             HF_NAME("conv_L_cache", SIZE, conv),
                                             HF_NAME("use_sandwich_norm", FLAG, output_norms),
                                             HF_NAME("tie_embedding", FLAG, tied),
                                             { 0 } };
static bool read_lfm3(struct hf_reader *r)
{
    bool gated;
    if (!hf_get_bool(r->root, "use_attention_gate", true, &gated, r->err))
        return false;
    if (gated)
        hf_note(r, "left out: a gate for each head, %lld weights a block with attention",
                (long long)(r->facts.hidden * r->facts.heads));
    return hf_require_types(r);
}
FAMILY(lfm3) = {
    .type = "lfm3",
    .class_name = "Lfm3ForCausalLM",
    .names = lfm3_names,
    .facts = { HF_LLAMA_FACTS, .epsilon = 1e-5, .tied = true, .kv_heads = 4, .head_dim = 128, .rope_base = 1e6,
               .positions = 128000, .conv = 7, .output_norms = true, .window = 256, .qk_norm = QK_NORM_HEAD,
               .qk_kind = NORM_RMS },
    .read = read_lfm3,
    .blocks = blocks_of_lfm2,
};

/* IBM 2025 (Granite 4): experts beside a network that all tokens pass, or that network alone. */
static const struct hf_name granitehybrid_names[] = { MAMBA_NAMES,
                                                      ATTENTION_BIAS,
                                                      HF_NAME("embedding_multiplier", NUMBER, embedding_scale),
                                                      HF_NAME("residual_multiplier", NUMBER, residual_scale),
                                                      HF_NAME("attention_multiplier", NUMBER, score_scale),
                                                      HF_NAME("logits_scaling", NUMBER, logit_scale),
                                                      HF_NAME("num_local_experts", COUNT, experts),
                                                      HF_NAME("num_experts_per_tok", COUNT, choices),
                                                      HF_NAME("shared_intermediate_size", SIZE, shared_inner),
                                                      { 0 } };
static bool read_granitehybrid(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    const char *positions;
    if (!hf_get_string(r->root, "position_embedding_type", "nope", &positions, r->err))
        return false;
    if (strcmp(positions, "rope") == 0)
        f->place = HF_ROTARY;
    if (f->logit_scale > 0)
        f->logit_scale = 1 / f->logit_scale;
    if (!f->experts) {
        f->inner = f->shared_inner;
        f->shared_inner = 0;
    }
    return read_state_head(r, "mamba_d_head");
}
FAMILY(granitehybrid) = {
    .type = "granitemoehybrid",
    .class_name = "GraniteMoeHybridForCausalLM",
    .names = granitehybrid_names,
    .facts = { HYBRID_FACTS, .place = HF_NO_POSITIONS, .state = 256, .state_heads = 128, .experts = 8, .choices = 2,
               .shared_inner = 1024, .balance = 0.001 },
    .read = read_granitehybrid,
    .blocks = blocks_of_bamba,
};

/* NVIDIA 2025 (Nemotron-H): a block is one layer, and a word says which one each is. */
static const struct hf_name nemotron_h_names[] = { ATTENTION_BIAS,
                                                   HF_NAME("mlp_bias", FLAG, mlp_bias),
                                                   HF_NAME("mlp_hidden_act", WORD, activation),
                                                   HF_NAME("layer_norm_epsilon", SMALL, epsilon),
                                                   HF_NAME("attention_head_dim", SIZE, head_dim),
                                                   HF_NAME("head_dim", SIZE, head_dim),
                                                   HF_NAME("ssm_state_size", SIZE, state),
                                                   HF_NAME("mamba_num_heads", SIZE, state_heads),
                                                   HF_NAME("mamba_head_dim", SIZE, state_head_dim),
                                                   HF_NAME("n_groups", SIZE, state_groups),
                                                   HF_NAME("conv_kernel", SIZE, conv),
                                                   HF_NAME("use_bias", FLAG, state_bias),
                                                   HF_NAME("use_conv_bias", FLAG, conv_bias),
                                                   HF_NAME("moe_shared_expert_intermediate_size", COUNT, shared_inner),
                                                   HF_NAME("moe_latent_size", SIZE, expert_width),
                                                   { 0 } };
static bool set_nemotron_block(struct hf_reader *r, const struct json *at, char kind,
                               const struct state_space_layer *state, const struct hf_block *moe, struct hf_block *b)
{
    struct hf_block none = { .mixer = HF_NO_MIXER, .network = HF_NO_NETWORK };
    switch (kind) {
    case 'M':
        none.mixer = HF_STATE_SPACE;
        none.state = *state;
        break;
    case '*':
        none.mixer = HF_ATTENTION;
        none.attention = b->attention;
        break;
    case '-':
        none.network = HF_MLP;
        none.mlp = b->mlp;
        break;
    case 'E':
        if (moe->network != HF_MOE)
            return json_fail(at, r->err, "expected n_routed_experts beside it: a block has experts");
        none.network = HF_MOE;
        none.moe = moe->moe;
        break;
    default:
        return json_fail(at, r->err, "expected M (state space), * (attention), - (network) or E (experts), found '%c'",
                         kind);
    }
    *b = none;
    return true;
}
static bool blocks_of_nemotron_h(struct hf_reader *r)
{
    static const struct {
        const char *word;
        char kind;
    } kinds[] = { { "mamba", 'M' },          { "attention", '*' }, { "mlp", '-' }, { "linear_attention", 'M' },
                  { "full_attention", '*' }, { "moe", 'E' } };
    const struct json *words, *at = hf_given(r->root, "hybrid_override_pattern");
    struct state_space_layer state;
    const struct hf_block like = r->blocks[0];
    struct hf_block dense = like;
    const char *pattern = NULL, *word;
    if (!hf_fill_mlp(r, &dense.mlp) || !get_words(r, &words) || !hf_fill_state(r, 2, &state) ||
        (at && !json_string(at, &pattern, r->err)))
        return false;
    if (!pattern && !words && !hf_require(r->root, "hybrid_override_pattern", &at, r->err))
        return false;
    if (pattern && (int64_t)strlen(pattern) != r->facts.blocks)
        return json_fail(at, r->err, "expected as many letters as %s (%lld), found %zu", hf_name_of(r, HF_FACT(blocks)),
                         (long long)r->facts.blocks, strlen(pattern));
    for (int64_t i = 0; i < r->facts.blocks; i++) {
        char kind = pattern ? pattern[i] : '?';
        if (!pattern) {
            if (!json_string(json_at(words, (int)i), &word, r->err))
                return false;
            for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
                kind = strcmp(kinds[k].word, word) == 0 ? kinds[k].kind : kind;
        }
        r->blocks[i] = dense;
        if (!set_nemotron_block(r, pattern ? at : json_at(words, (int)i), kind, &state, &like, &r->blocks[i]))
            return false;
    }
    return true;
}
FAMILY(nemotron_h) = {
    .type = "nemotron_h",
    .class_name = "NemotronHForCausalLM",
    .names = nemotron_h_names,
    .facts = { HYBRID_FACTS, .epsilon = 1e-5, .activation = "relu2", .gated = false, .place = HF_NO_POSITIONS,
               .kv_heads = 8, .head_dim = 128, .positions = 4096, .state = 128, .state_heads = 128,
               .state_head_dim = 64, .state_groups = 8, .state_norms = true, .gates = GATES_SIGMOID_OF_CHOSEN,
               .renormalised = true, .router_correction = true },
    .blocks = blocks_of_nemotron_h,
};

const struct hf_family *const hf_states[] = { &falcon_h1, &lfm2,  &lfm2_moe,      &lfm3,       &mamba, &mamba2,
                                              &jamba,     &bamba, &granitehybrid, &nemotron_h, NULL };
