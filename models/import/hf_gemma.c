/* Gemma's later kinds: blocks whose heads differ, a table of tokens for each block, keys and values of earlier blocks.
 */
#include "models/import/hf_facts.h"
#include <math.h>
#include <string.h>

#define FAMILY(symbol) static const struct hf_family symbol
#define ATTENTION_BIAS HF_NAME("attention_bias", FLAG, qkv_bias), HF_NAME("attention_bias", FLAG, output_bias)

/* What Gemma 3n and the smallest of the fourth have beside attention and network. */
struct extras {
    int64_t width;       /* of each block's own table of tokens; 0: none */
    int64_t rank;        /* of the narrow matrices beside attention */
    int64_t streams;     /* that a block updates one of */
    int64_t shared;      /* blocks at the end that read keys and values of earlier ones */
    int64_t wide, heads; /* of a head that sees all tokens, and how many of them are of keys */
    bool wide_networks;  /* where keys are shared the network is twice as wide */
    bool shared_values;  /* keys of blocks that see all tokens serve as values */
};

static bool read_extras(struct hf_reader *r, struct extras *e)
{
    static const struct json_field limits[] = {
        { "hidden_size_per_layer_input", FIELD_INT, offsetof(struct extras, width), .max = 1 << 16 },
        { "laurel_rank", FIELD_INT, offsetof(struct extras, rank), .max = 1 << 16 },
        { "altup_num_inputs", FIELD_INT, offsetof(struct extras, streams), .max = 64 },
    };
    const struct hf_facts *f = &r->facts;
    const int64_t heads = f->kv_heads ? f->kv_heads : f->heads;
    const bool third = strcmp(r->family->type, "gemma3n_text") == 0;
    if (!hf_get_count(r->root, "hidden_size_per_layer_input", third ? 256 : 0, &e->width, r->err) ||
        !hf_get_count(r->root, "laurel_rank", third ? 64 : 0, &e->rank, r->err) ||
        !hf_get_count(r->root, "altup_num_inputs", third ? 4 : 0, &e->streams, r->err) ||
        !hf_get_count(r->root, "num_kv_shared_layers", third ? 15 : 0, &e->shared, r->err) ||
        !hf_get_size(r->root, "global_head_dim", third ? f->head_dim : 512, &e->wide, r->err) ||
        !hf_get_size(r->root, "num_global_key_value_heads", heads, &e->heads, r->err) ||
        !hf_get_bool(r->root, "use_double_wide_mlp", false, &e->wide_networks, r->err) ||
        !hf_get_bool(r->root, "attention_k_eq_v", false, &e->shared_values, r->err) ||
        !json_check_limits(r->root, limits, sizeof limits / sizeof *limits, e, r->err))
        return false;
    if (f->heads % e->heads || e->wide % 2)
        return json_fail(json_at_key(r->root, e->wide % 2 ? "global_head_dim" : "num_global_key_value_heads"), r->err,
                         "expected a divisor of %s (%lld) and an even width, found %lld and %lld",
                         hf_name_of(r, HF_FACT(heads)), (long long)f->heads, (long long)e->heads, (long long)e->wide);
    return e->shared <= f->blocks ||
           json_fail(json_at_key(r->root, "num_kv_shared_layers"), r->err, "expected at most %s (%lld), found %lld",
                     hf_name_of(r, HF_FACT(blocks)), (long long)f->blocks, (long long)e->shared);
}

/* The tables of all blocks are one, and what brings its rows to the stream has the weights of what brings them to the
 * blocks. */
static bool read_gemma4(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    struct extras e;
    bool some;
    f->embedding_scale = sqrt((double)f->hidden);
    f->score_scale = 1;
    if (!read_extras(r, &e) || !hf_get_bool(r->root, "enable_moe_block", false, &some, r->err))
        return false;
    f->experts = some ? f->experts : 0;
    f->second_width = f->blocks * e.width;
    if (f->second_width > 1 << 20)
        return json_fail(json_at_key(r->root, "hidden_size_per_layer_input"), r->err,
                         "expected at most %d over all blocks, found %lld", 1 << 20, (long long)f->second_width);
    if (e.width)
        hf_note(r,
                "its table of tokens for each block is planned as one second table of %lld, and each block's part of "
                "it as a network of %lld neurons",
                (long long)f->second_width, (long long)e.width);
    if (e.streams > 1) {
        f->last_inner = (e.streams - 1) * f->hidden;
        hf_note(r,
                "its %lld streams are planned as one: what joins them as a network of as many weights, their memory "
                "is left out",
                (long long)e.streams);
    }
    return true;
}

/* A width for each block: one for all in what was released. */
static bool read_gemma3n(struct hf_reader *r)
{
    const struct json *at = hf_given(r->root, "intermediate_size");
    int64_t most = 0, each;
    r->facts.windows = r->facts.window > 0;
    for (int i = 0; at && i < (json_type(at) == JSON_ARRAY ? json_count(at) : 1); i++) {
        const struct json *entry = json_type(at) == JSON_ARRAY ? json_at(at, i) : at;
        if (!json_int(entry, 1, 1 << 24, &each, r->err))
            return false;
        if (most && each != most)
            return json_fail(entry, r->err, "expected the same number for all blocks (%lld), found %lld",
                             (long long)most, (long long)each);
        most = each;
    }
    r->facts.inner = most ? most : r->facts.inner;
    return read_gemma4(r);
}

/* What reads keys and values of an earlier block has none of its own: its network has as many weights less. */
static void share_keys(struct hf_block *b, const struct extras *e)
{
    const int64_t neurons = (2 * b->attention.kv_heads * b->attention.head_dim + 1) / 3;
    b->mlp.inner = (e->wide_networks ? 2 : 1) * b->mlp.inner;
    b->mlp.inner = b->mlp.inner > neurons ? b->mlp.inner - neurons : 1;
}

static bool blocks_of_gemma4(struct hf_reader *r)
{
    const struct hf_facts *f = &r->facts;
    const struct json *types;
    struct mlp_layer mlp, last;
    struct extras e;
    const char *word = "";
    if (!read_extras(r, &e) || !hf_fill_mlp(r, &mlp) || !hf_get_list(r, "layer_types", f->blocks, &types))
        return false;
    const bool halved = e.heads % 2 == 0;
    last = mlp;
    last.norm = NORM_NONE;
    last.activation = ACTIVATION_GELU;
    /* Where one of several streams is updated, a norm and five vectors more choose how: as many as three neurons. */
    last.inner = e.width || e.rank ? e.width + e.rank + (e.streams > 1 ? 3 : 0) : 0;
    for (int64_t i = 0; i < f->blocks; i++) {
        struct hf_block *b = &r->blocks[i];
        b->both = b->network == HF_MOE;
        b->mlp = mlp;
        if (last.inner)
            b->last = last;
        if (types && !json_string(json_at(types, (int)i), &word, r->err))
            return false;
        if (types ? strcmp(word, "full_attention") == 0 : (i + 1) % f->full_every == 0 || i + 1 == f->blocks) {
            b->attention.head_dim = e.wide;
            if (e.shared_values)
                b->attention.kv_heads = halved ? e.heads / 2 : e.heads;
        }
        if (i >= f->blocks - e.shared)
            share_keys(b, &e);
    }
    if (e.shared)
        hf_note(r,
                "its last %lld blocks use keys and values of earlier ones: planned with their own, and with as many "
                "weights less in their networks",
                (long long)e.shared);
    if (e.shared_values && halved)
        hf_note(r,
                "keys of its global blocks serve as values: their %lld heads are planned as half as many, with values "
                "of their own, which have as many weights",
                (long long)e.heads);
    else if (e.shared_values)
        hf_note(
            r,
            "keys of its global blocks serve as values: planned with values of their own, %lld weights a block that "
            "the file's model has not",
            (long long)(f->hidden * e.heads * e.wide));
    if (f->experts)
        hf_note(r, "its experts stand beside the dense network: planned one after the other");
    return true;
}

#define GEMMA_NAMES                                                                                                    \
    ATTENTION_BIAS, HF_NAME("hidden_activation", WORD, activation),                                                    \
        HF_NAME("final_logit_softcapping", NUMBER, logit_cap)
#define GEMMA_FACTS                                                                                                    \
    HF_LLAMA_FACTS, .activation = "gelu_pytorch_tanh", .tied = true, .head_dim = 256, .output_norms = true,            \
                    .window = 512, .windows = true, .qk_norm = QK_NORM_HEAD, .qk_kind = NORM_RMS

/* Gemma Team 2026: blocks that see all tokens have wider heads, and fewer of keys, which may serve as values; experts
 * stand beside the dense network. */
static const struct hf_name gemma4_names[] = { GEMMA_NAMES, HF_NAME("top_k_experts", SIZE, choices), { 0 } };
FAMILY(gemma4) = {
    .type = "gemma4_text",
    .class_name = "Gemma4ForCausalLM",
    .others = " gemma4 gemma4_unified gemma4_unified_text ",
    .names = gemma4_names,
    .facts = { GEMMA_FACTS, .positions = 131072, .full_every = 6, .gates = GATES_OF_CHOSEN },
    .read = read_gemma4,
    .blocks = blocks_of_gemma4,
};

/* Gemma Team 2025 (Gemma 3n). */
static const struct hf_name gemma3n_names[] = { GEMMA_NAMES, HF_NAME("intermediate_size", IGNORED, inner), { 0 } };
FAMILY(gemma3n) = {
    .type = "gemma3n_text",
    .class_name = "Gemma3nForCausalLM",
    .others = " gemma3n ",
    .names = gemma3n_names,
    .facts = { GEMMA_FACTS, .hidden = 2048, .blocks = 35, .heads = 8, .kv_heads = 2, .inner = 16384, .vocab = 262400,
               .positions = 32768, .full_every = 5, .logit_cap = 30, .rope_base = 1e6 },
    .read = read_gemma3n,
    .blocks = blocks_of_gemma4,
};

const struct hf_family *const hf_gemmas[] = { &gemma4, &gemma3n, NULL };
