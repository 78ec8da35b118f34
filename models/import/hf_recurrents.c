/* Decoders whose blocks recur or share their weights: what has a kind of its own is that kind, the rest is planned as
 * layers of as many weights and as much work. */
#include "models/import/hf_facts.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define FAMILY(symbol) static const struct hf_family symbol
#define ATTENTION_BIAS HF_NAME("attention_bias", FLAG, qkv_bias), HF_NAME("attention_bias", FLAG, output_bias)

/* ---- De et al. 2024 (Griffin, RecurrentGemma): gated linear recurrences, windows of attention in every third ---- */

static const struct hf_name griffin_names[] = {
    HF_NAME("attention_bias", FLAG, qkv_bias),     HF_NAME("attention_window_size", COUNT, window),
    HF_NAME("lru_width", SIZE, state_inner),       HF_NAME("conv1d_width", SIZE, conv),
    HF_NAME("logits_soft_cap", NUMBER, logit_cap), { 0 }
};
static bool read_griffin(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    f->embedding_scale = sqrt((double)f->hidden);
    f->inner = f->inner > 1 ? f->inner / 2 : 1;
    f->state_inner = f->state_inner ? f->state_inner : f->hidden;
    return true;
}

/* The gates of a recurrence are square matrices of each head; the narrow vector of a selective state space gets as many
 * weights. */
static bool blocks_of_griffin(struct hf_reader *r)
{
    static const char *const names[] = { "block_types", "_block_types" };
    const struct hf_facts *f = &r->facts;
    const struct json *types = hf_given(r->root, names[0]) ? hf_given(r->root, names[0]) : hf_given(r->root, names[1]);
    struct state_space_layer state;
    const char *word = "";
    memcpy(&state, layer_kind_find("state_space")->defaults, sizeof state);
    state.version = 1;
    state.inner = f->state_inner;
    state.state = 1;
    state.rank = f->state_inner / f->heads > 1 ? f->state_inner / f->heads - 1 : 1;
    state.taps = f->conv;
    state.bias = state.conv_bias = true;
    state.norm = f->norm;
    state.norm_epsilon = f->epsilon;
    if (types && (json_type(types) != JSON_ARRAY || !json_count(types)))
        return json_fail(types, r->err, "expected an array of \"recurrent\" and \"attention\"");
    for (int64_t i = 0; i < f->blocks; i++) {
        const struct json *at = types ? json_at(types, (int)(i % json_count(types))) : NULL;
        if (at && !json_string(at, &word, r->err))
            return false;
        if (at && strcmp(word, "attention") != 0 && strcmp(word, "recurrent") != 0)
            return json_fail(at, r->err, "expected \"recurrent\" or \"attention\", found \"%.64s\"", word);
        if (at ? strcmp(word, "attention") == 0 : i % 3 == 2)
            continue;
        r->blocks[i].mixer = HF_STATE_SPACE;
        r->blocks[i].state = state;
        memset(&r->blocks[i].attention, 0, sizeof r->blocks[i].attention);
    }
    hf_note(r, "its gated linear recurrences are planned as selective state spaces of as many weights");
    return true;
}
FAMILY(griffin) = {
    .type = "recurrent_gemma",
    .class_name = "RecurrentGemmaForCausalLM",
    .names = griffin_names,
    .facts = { HF_LLAMA_FACTS, .activation = "gelu_pytorch_tanh", .tied = true, .output_bias = true, .mlp_bias = true,
               .rope_part = 0.5, .positions = 8192, .window = 2048, .windows = true, .conv = 4, .logit_cap = 30 },
    .read = read_griffin,
    .blocks = blocks_of_griffin,
};

/* ---- Peng et al. 2023 (RWKV): each token meets a decayed sum of those before it, element by element ---- */

static const struct hf_name rwkv_names[] = { HF_NAME("context_length", SIZE, positions), { 0 } };
static bool read_rwkv(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    int64_t width;
    if (!hf_get_size(r->root, "attention_hidden_size", f->hidden, &width, r->err))
        return false;
    f->head_dim = width;
    hf_note(r, "its time mixing is planned as attention of each token to itself, which has the same matrices, its gate "
               "of channels as neurons of as many weights; the sums over time, element by element, are left out");
    return true;
}
static bool blocks_of_rwkv(struct hf_reader *r)
{
    for (int64_t i = 0; i < r->facts.blocks; i++) {
        r->blocks[i].attention.sliding_window = 1;
        r->blocks[i].fixed = true;
        r->blocks[i].mlp.inner += r->facts.hidden / 2 + 3; /* the gate, and six vectors of each block */
    }
    return true;
}
FAMILY(rwkv) = {
    .type = "rwkv",
    .class_name = "RwkvForCausalLM",
    .names = rwkv_names,
    .facts = { HF_GPT_FACTS, .place = HF_NO_POSITIONS, .activation = "relu2", .positions = 1024, .heads = 1,
               .embedding_norm = true, .no_required = true },
    .read = read_rwkv,
    .blocks = blocks_of_rwkv,
};

/* ---- Glorioso et al. 2024 (Zamba): state spaces, and a block of attention that stands at several places ---- */

static bool is_hybrid(struct hf_reader *r, const struct json *types, int64_t i, bool *out)
{
    const char *word;
    int64_t period, offset;
    if (types) {
        if (!json_string(json_at(types, (int)i), &word, r->err))
            return false;
        *out = strcmp(word, "hybrid") == 0;
        return *out || strcmp(word, "mamba") == 0 || strcmp(word, "linear_attention") == 0 ||
               json_fail(json_at(types, (int)i), r->err, "expected \"mamba\" or \"hybrid\", found \"%.64s\"", word);
    }
    if (!hf_get_size(r->root, "attn_layer_period", 6, &period, r->err) ||
        !hf_get_count(r->root, "attn_layer_offset", 4, &offset, r->err))
        return false;
    *out = i == 2 || (i > 2 && (i - 3) % period == offset % period); /* as the library counts them */
    return true;
}

/* It reads the stream beside the embedding, twice as wide: its attention is planned as one that reads the stream, and
 * what its matrices have more of as neurons of its network. */
static bool blocks_of_zamba(struct hf_reader *r)
{
    static const char *const names[] = { "shared1", "shared2", "shared3", "shared4" };
    const struct hf_facts *f = &r->facts;
    const bool second = strcmp(r->family->type, "zamba2") == 0;
    const struct json *types;
    struct mlp_layer mlp, own;
    struct state_space_layer state;
    int64_t copies, rank, uses = 0, width;
    bool hybrid, adapted;
    if (!hf_get_size(r->root, "num_mem_blocks", 1, &copies, r->err) || !hf_fill_mlp(r, &mlp) ||
        !hf_get_count(r->root, "adapter_rank", second ? 128 : 0, &rank, r->err) ||
        !hf_get_size(r->root, "attention_hidden_size", 2 * f->hidden, &width, r->err) ||
        !hf_get_bool(r->root, "use_shared_attention_adapter", false, &adapted, r->err) ||
        !hf_get_list(r, "layers_block_type", f->blocks, &types) || !hf_fill_state(r, second ? 2 : 1, &state))
        return false;
    if (copies > 4 || rank > 1 << 16)
        return json_fail(json_at_key(r->root, copies > 4 ? "num_mem_blocks" : "adapter_rank"), r->err,
                         "expected at most 4 shared blocks and adapters of a rank up to %d", 1 << 16);
    if (width % f->heads)
        return json_fail(json_at_key(r->root, "attention_hidden_size"), r->err,
                         "expected a multiple of %s (%lld), found %lld", hf_name_of(r, HF_FACT(heads)),
                         (long long)f->heads, (long long)width);
    own = mlp;
    own.norm = NORM_NONE;
    own.activation = ACTIVATION_GELU;
    own.inner = (f->hidden * f->hidden + rank * (f->hidden + 2 * f->inner) + (adapted ? 12 * rank * f->hidden : 0)) /
                (2 * f->hidden);
    mlp.inner += width; /* queries, keys and values of twice the width have 3 * hidden * width weights more */
    for (int64_t i = 0; i < f->blocks; i++) {
        struct hf_block *b = &r->blocks[i];
        if (!is_hybrid(r, types, i, &hybrid))
            return false;
        b->state = state;
        if (!hybrid) {
            *b = (struct hf_block){ .mixer = HF_STATE_SPACE, .network = HF_NO_NETWORK };
            b->state = state;
            continue;
        }
        b->attention.head_dim = width / f->heads;
        b->attention.head.shared = names[uses % copies];
        b->mlp = mlp;
        b->mlp.head.shared = names[uses++ % copies];
        b->last = own;
        b->behind = true;
    }
    hf_note(
        r,
        "its %lld uses of %lld shared block%s, which read the stream beside the embedding, are planned as reading the "
        "stream, with as many weights and as much work; memory counts most of the shared weights at each use",
        (long long)uses, (long long)copies, copies == 1 ? "" : "s");
    return true;
}
static const struct hf_name zamba_names[] = { HF_NAME("attention_head_dim", IGNORED, head_dim),
                                              HF_NAME("mamba_d_state", SIZE, state),
                                              HF_NAME("mamba_d_conv", SIZE, conv),
                                              HF_NAME("mamba_expand", SIZE, state_expand),
                                              HF_NAME("mamba_ngroups", SIZE, state_groups),
                                              HF_NAME("n_mamba_heads", SIZE, state_heads),
                                              HF_NAME("add_bias_linear", FLAG, state_bias),
                                              HF_NAME("use_conv_bias", FLAG, conv_bias),
                                              HF_NAME("mamba_conv_bias", FLAG, conv_bias),
                                              { 0 } };
static bool read_zamba(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    bool turned;
    if (!hf_get_bool(r->root, "use_mem_rope", false, &turned, r->err))
        return false;
    f->place = turned ? HF_ROTARY : HF_NO_POSITIONS;
    f->state_norms = true;
    f->kv_heads = f->heads;
    f->head_dim = 2 * f->hidden / (f->heads ? f->heads : 1);
    return hf_read_rank(r, "mamba_dt_rank");
}
#define ZAMBA_FACTS                                                                                                    \
    HF_LLAMA_FACTS, .epsilon = 1e-5, .activation = "gelu", .tied = true, .positions = 4096, .conv = 4,                 \
                    .conv_bias = true, .state_expand = 2, .state_groups = 1
FAMILY(zamba) = {
    .type = "zamba",
    .class_name = "ZambaForCausalLM",
    .names = zamba_names,
    .facts = { ZAMBA_FACTS, .state = 16 },
    .read = read_zamba,
    .blocks = blocks_of_zamba,
};
FAMILY(zamba2) = {
    .type = "zamba2",
    .class_name = "Zamba2ForCausalLM",
    .names = zamba_names,
    .facts = { ZAMBA_FACTS, .state = 64, .state_heads = 8 },
    .read = read_zamba,
    .blocks = blocks_of_zamba,
};

/* ---- blocks that run several times ---- */

enum { MOST_PASSES = 64 };
struct passes {
    int64_t first, looped, last; /* blocks before, inside and behind what is repeated */
    int64_t count;
};

/* Gives the runs of a block one name, by which they share weights. */
static bool share_block(struct hf_reader *r, struct hf_block *b, int64_t number)
{
    char *name = arena_alloc(&r->arena, 32, 1);
    if (!name)
        return fail_memory(r->err);
    snprintf(name, 32, "block%lld", (long long)number + 1);
    b->attention.head.shared = b->mlp.head.shared = name;
    return true;
}

/* Makes room for as many blocks as run. */
static bool resize_blocks(struct hf_reader *r, int64_t count, const char *key)
{
    const struct hf_block like = r->blocks[0];
    if (count > (MODEL_MAX_LAYERS - 3) / 2)
        return json_fail(json_at_key(r->root, key), r->err, "expected at most %d blocks over all passes, found %lld",
                         (MODEL_MAX_LAYERS - 3) / 2, (long long)count);
    r->facts.blocks = count;
    r->blocks = arena_alloc(&r->arena, (size_t)count, sizeof *r->blocks);
    if (!r->blocks)
        return fail_memory(r->err);
    for (int64_t i = 0; i < count; i++) {
        r->blocks[i] = like;
        r->blocks[i].fixed = true;
    }
    return true;
}

/* Dory 2026: attention and network count as two in the files; the middle blocks run twice, norms have no weights. */
static bool read_dory_passes(struct hf_reader *r, struct passes *p, const struct json *types, int64_t *each)
{
    const char *second = "";
    const struct json *at = types && json_count(types) > 1 ? json_at(types, 1) : NULL;
    if (at && !json_string(at, &second, r->err))
        return false;
    *each = strcmp(second, "mlp") == 0 ? 2 : 1;
    const int64_t blocks = r->facts.blocks / *each;
    if (!hf_get_count(r->root, "n_input_layers", 8, &p->first, r->err) ||
        !hf_get_count(r->root, "n_output_layers", 8, &p->last, r->err) ||
        !hf_get_size(r->root, "n_recurrent_loops", 2, &p->count, r->err))
        return false;
    p->first /= *each;
    p->last /= *each;
    p->looped = blocks - p->first - p->last;
    if (p->looped < 0 || p->count > MOST_PASSES)
        return json_fail(
            json_at_key(r->root, p->looped < 0 ? "n_output_layers" : "n_recurrent_loops"), r->err,
            "expected at most %lld blocks before and behind those that are repeated, and at most %d passes",
            (long long)blocks, MOST_PASSES);
    return true;
}
static bool blocks_of_dory(struct hf_reader *r)
{
    struct passes p;
    const struct json *types;
    const char *word;
    int64_t each, place = 0;
    if (!hf_get_list(r, "layer_types", r->facts.blocks, &types) || !read_dory_passes(r, &p, types, &each) ||
        !resize_blocks(r, p.first + p.count * p.looped + p.last, "n_recurrent_loops"))
        return false;
    for (int64_t i = 0; i < p.first + p.looped + p.last; i++) {
        struct hf_block b = r->blocks[0];
        const bool looped = i >= p.first && i < p.first + p.looped;
        bool sliding = (i + 1) % 4 != 0;
        if (types && !json_string(json_at(types, (int)(i * each)), &word, r->err))
            return false;
        if (types && strcmp(word, "sliding_attention") != 0 && strcmp(word, "full_attention") != 0)
            return json_fail(json_at(types, (int)(i * each)), r->err,
                             "expected \"sliding_attention\" or \"full_attention\", found \"%.64s\"", word);
        if (types)
            sliding = strcmp(word, "sliding_attention") == 0;
        b.attention.sliding_window = sliding && r->facts.window < r->facts.positions ? r->facts.window : 0;
        if (looped && !share_block(r, &b, i))
            return false;
        place = i < p.first + p.looped ? i : i + (p.count - 1) * p.looped;
        for (int64_t k = 0; k < (looped ? p.count : 1); k++)
            r->blocks[place + k * p.looped] = b;
    }
    hf_note(r,
            "its middle %lld blocks run %lld times: memory counts most of the shared weights at each; its norms have "
            "no weights and are planned with some, vectors that scale what they give are left out",
            (long long)p.looped, (long long)p.count);
    return true;
}
static const struct hf_name dory_names[] = { ATTENTION_BIAS, HF_NAME("mlp_bias", FLAG, mlp_bias), { 0 } };
FAMILY(dory) = {
    .type = "dory",
    .class_name = "DoryForCausalLM",
    .names = dory_names,
    .facts = { HF_LLAMA_FACTS, .kv_heads = 4, .head_dim = 256, .positions = 8192, .output_gate = true, .window = 1024,
               .output_norms = true, .qk_norm = QK_NORM_HEAD, .qk_kind = NORM_RMS },
    .blocks = blocks_of_dory,
};

/* Sapient 2026 (HRM-Text): two stacks of blocks take turns, the second after several passes of the first. */
static bool blocks_of_hrm(struct hf_reader *r)
{
    int64_t turns, passes, stack;
    if (!hf_get_size(r->root, "H_cycles", 2, &turns, r->err) || !hf_get_size(r->root, "L_cycles", 3, &passes, r->err))
        return false;
    if (turns > MOST_PASSES || passes > MOST_PASSES)
        return json_fail(json_at_key(r->root, turns > MOST_PASSES ? "H_cycles" : "L_cycles"), r->err,
                         "expected at most %d passes", MOST_PASSES);
    /* Where the file does not say how many blocks a stack has, the number of blocks is that of one. */
    if (!hf_get_size(r->root, "num_layers_per_stack", r->facts.blocks, &stack, r->err))
        return false;
    if (stack > (MODEL_MAX_LAYERS - 3) / 2)
        return json_fail(json_at_key(r->root, "num_layers_per_stack"), r->err, "expected at most %d blocks, found %lld",
                         (MODEL_MAX_LAYERS - 3) / 2, (long long)stack);
    if (!resize_blocks(r, turns * (passes + 1) * stack, "num_layers_per_stack"))
        return false;
    for (int64_t i = 0; i < 2 * stack; i++) {
        struct hf_block b = r->blocks[0];
        if (!share_block(r, &b, i))
            return false;
        for (int64_t turn = 0; turn < turns; turn++)
            for (int64_t pass = i < stack ? 0 : passes; pass < (i < stack ? passes : passes + 1); pass++)
                r->blocks[(turn * (passes + 1) + pass) * stack + i % stack] = b;
    }
    hf_note(r,
            "its two stacks of %lld blocks run %lld and %lld times: memory counts most of the shared weights at each; "
            "planned as one chain with backward passes of all, of which the file's model leaves some out; its norms "
            "have no weights and are planned with some",
            (long long)stack, (long long)(turns * passes), (long long)turns);
    return true;
}
static const struct hf_name hrm_names[] = {
    ATTENTION_BIAS, HF_NAME("mlp_bias", FLAG, mlp_bias), HF_NAME("embedding_scale", NUMBER, embedding_scale), { 0 }
};
FAMILY(hrm_text) = {
    .type = "hrm_text",
    .class_name = "HrmTextForCausalLM",
    .names = hrm_names,
    .facts = { HF_LLAMA_FACTS, .head_dim = 128, .output_gate = true },
    .blocks = blocks_of_hrm,
};

const struct hf_family *const hf_recurrents[] = { &griffin, &rwkv, &zamba, &zamba2, &dory, &hrm_text, NULL };
