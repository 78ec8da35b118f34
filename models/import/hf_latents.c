/* Latent attention with more around it than its kind of layer has: what chooses or compresses tokens, gates, several
 * streams between the blocks. */
#include "models/import/hf_facts.h"
#include <stdio.h>
#include <string.h>

#define FAMILY(symbol) static const struct hf_family symbol

bool hf_count_indexers(struct hf_reader *r, int64_t heads, int64_t every, double *weights)
{
    const struct hf_facts *f = &r->facts;
    const struct json *own, *types;
    const char *word = "";
    int64_t width, count = 0;
    if (!hf_get_count(r->root, "index_n_heads", heads, &heads, r->err) ||
        !hf_get_count(r->root, "index_head_dim", heads ? 128 : 0, &width, r->err) ||
        !hf_get_list(r, "indexer_types", f->blocks, &own) || !hf_get_list(r, "layer_types", f->blocks, &types))
        return false;
    for (int64_t i = 0; i < f->blocks; i++) {
        bool some = true;
        if (types && !json_string(json_at(types, (int)i), &word, r->err))
            return false;
        some &= !types || strcmp(word, "sliding_attention") != 0;
        if (own && !json_string(json_at(own, (int)i), &word, r->err))
            return false;
        some &= own ? strcmp(word, "full") == 0 : i == 0 || (i - 1) % every == 0;
        count += some;
    }
    const double n = (double)heads, w = (double)width, h = (double)f->hidden;
    const double from = f->query_rank ? (double)f->query_rank : h;
    *weights = heads && width ? (double)count * (from * n * w + h * (w + n) + 2 * w) : 0;
    return true;
}

/* ---- DeepSeek-AI 2026 (DeepSeek-V4): attention to a window and to compressed spans of tokens, whose queries and
 * outputs are made of narrow vectors and whose keys are the values of all heads ---- */

/* Sizes that no kind of layer has. */
struct compressed {
    int64_t head_dim, groups, rank, streams, index_heads, index_width;
    const struct json *ratios;
};

static bool read_compressed(struct hf_reader *r, struct compressed *c)
{
    static const struct json_field limits[] = {
        { "head_dim", FIELD_INT, offsetof(struct compressed, head_dim), .max = 1 << 16 },
        { "o_groups", FIELD_INT, offsetof(struct compressed, groups), .max = 1 << 12 },
        { "o_lora_rank", FIELD_INT, offsetof(struct compressed, rank), .max = 1 << 16 },
        { "hc_mult", FIELD_INT, offsetof(struct compressed, streams), .max = 64 },
        { "index_n_heads", FIELD_INT, offsetof(struct compressed, index_heads), .max = 1 << 12 },
        { "index_head_dim", FIELD_INT, offsetof(struct compressed, index_width), .max = 1 << 12 },
    };
    return hf_get_size(r->root, "head_dim", 512, &c->head_dim, r->err) &&
           hf_get_size(r->root, "o_groups", 8, &c->groups, r->err) &&
           hf_get_size(r->root, "o_lora_rank", 1024, &c->rank, r->err) &&
           hf_get_size(r->root, "hc_mult", 4, &c->streams, r->err) &&
           hf_get_size(r->root, "index_n_heads", 64, &c->index_heads, r->err) &&
           hf_get_size(r->root, "index_head_dim", 128, &c->index_width, r->err) &&
           json_check_limits(r->root, limits, sizeof limits / sizeof *limits, c, r->err) &&
           hf_get_numbers(r, "compress_ratios", &c->ratios);
}

/* What a block compresses spans of tokens with: spans of four are chosen by an indexer. */
static int64_t count_compressor(const struct compressed *c, const struct hf_facts *f, int64_t ratio)
{
    const int64_t d = c->head_dim, i = c->index_width;
    if (ratio == 0)
        return 0;
    if (ratio > 4)
        return ratio * d + 2 * f->hidden * d + d;
    return ratio * 2 * d + 4 * f->hidden * d + d + ratio * 2 * i + 4 * f->hidden * i + i +
           f->query_rank * c->index_heads * i + f->hidden * c->index_heads;
}

/* Words of the library's fifth version, or the ratios themselves, of which a last one is that of further tokens'. */
static bool ratio_of(struct hf_reader *r, const struct compressed *c, const struct json *types, int64_t block,
                     int64_t *out)
{
    const char *word;
    *out = block % 2 || block < 2 ? 128 : 4;
    if (c->ratios)
        return block >= json_count(c->ratios) || json_int(json_at(c->ratios, (int)block), 0, 1 << 20, out, r->err);
    if (!types)
        return true;
    if (!json_string(json_at(types, (int)block), &word, r->err))
        return false;
    *out = strstr(word, "heavily") ? 128 : strstr(word, "compressed") ? 4 : 0;
    return true;
}

/* Queries and outputs have their weights and their work in latent attention of heads of these widths; of keys and
 * values the narrow vector is as wide as their weights allow, and the rest are neurons. */
static bool read_v4(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    struct compressed c;
    const struct json *types;
    if (!f->query_rank || !f->turned_dim)
        return json_fail(hf_place_of(r, f->query_rank ? HF_FACT(turned_dim) : HF_FACT(query_rank)), r->err,
                         "expected the width of the narrow vector of queries and of what turns of a head");
    const struct json_field limits[] = {
        { hf_name_of(r, HF_FACT(heads)), FIELD_INT, HF_FACT(heads), .max = 1 << 12 },
        { hf_name_of(r, HF_FACT(hidden)), FIELD_INT, HF_FACT(hidden), .max = 1 << 20 },
        { hf_name_of(r, HF_FACT(query_rank)), FIELD_INT, HF_FACT(query_rank), .max = 1 << 20 },
    };
    if (!json_check_limits(r->root, limits, sizeof limits / sizeof *limits, f, r->err) || !read_compressed(r, &c) ||
        !hf_get_list(r, "layer_types", f->blocks, &types))
        return false;
    if (c.head_dim <= f->turned_dim)
        return json_fail(json_at_key(r->root, "head_dim"), r->err,
                         "expected a head wider than what turns of it (%lld), found %lld", (long long)f->turned_dim,
                         (long long)c.head_dim);
    const int64_t h = f->hidden, d = c.head_dim, n = f->heads, mixes = (2 + c.streams) * c.streams;
    const int64_t made = c.rank * n * d + c.groups * c.rank * h; /* of outputs */
    f->plain_dim = d - f->turned_dim;
    f->value_dim = made / (n * h) ? made / (n * h) : 1;
    f->kv_rank = h * f->plain_dim / (h + 1 + n * (f->plain_dim + f->value_dim));
    f->kv_rank = f->kv_rank ? f->kv_rank : 1;
    const int64_t planned =
        f->kv_rank * (h + 1 + n * (f->plain_dim + f->value_dim)) + h * f->turned_dim + n * f->value_dim * h;
    int64_t rest = (made + h * d + d + n + 2 * (mixes * (c.streams * h + 1) + 3) - planned) * f->blocks, ratio;
    for (int64_t i = 0; i < f->blocks; i++) {
        if (!ratio_of(r, &c, types, i, &ratio))
            return false;
        rest += count_compressor(&c, f, ratio);
    }
    const int64_t neurons = rest > 0 ? rest / (3 * h * f->blocks) : 0;
    f->shared_inner = f->shared_experts * f->expert_inner + neurons;
    f->last_inner = c.streams > 1 ? (c.streams + 1) / 2 : 0; /* what sums the streams behind the blocks */
    hf_note(
        r,
        "its attention is planned as latent attention over all tokens, with queries and outputs as wide as its own; "
        "what compresses and chooses spans and joins the %lld streams as %lld more neurons of each network; the "
        "streams' memory is left out",
        (long long)c.streams, (long long)neurons);
    return true;
}

static const struct hf_name v4_names[] = { HF_NAME("head_dim", IGNORED, head_dim),
                                           HF_NAME("intermediate_size", IGNORED, inner),
                                           HF_NAME("sliding_window", IGNORED, window),
                                           HF_NAME("num_key_value_heads", IGNORED, kv_heads),
                                           { 0 } };
static bool blocks_of_v4(struct hf_reader *r)
{
    for (int64_t i = 0; i < r->facts.blocks; i++)
        r->blocks[i].fixed = true;
    return true;
}
FAMILY(deepseek_v4) = {
    .type = "deepseek_v4",
    .class_name = "DeepseekV4ForCausalLM",
    .others = " deepseek_ref ",
    .names = v4_names,
    .facts = { HF_LLAMA_FACTS, .gates = GATES_SIGMOID_OF_CHOSEN, .renormalised = true, .router_correction = true,
               .positions = 4096, .inner = 1, .shared_experts = 1, .no_required = true },
    .read = read_v4,
    .blocks = blocks_of_v4,
};

/* ---- latent attention to tokens that an indexer chooses ---- */

static const struct hf_name latent_names[] = { HF_NAME("attention_bias", ONLY_FALSE, qkv_bias), { 0 } };
#define LATENT_FACTS                                                                                                   \
    HF_LLAMA_FACTS, .gates = GATES_SIGMOID_OF_CHOSEN, .renormalised = true, .router_correction = true,                 \
                    .dense_blocks = 1, .shared_experts = 1

/* Tencent 2026 (Hunyuan 4): sinks, a gate of each element of what attention gives, several streams. */
static bool read_hy_v4(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    double weights;
    int64_t streams;
    if (!hf_require_latent(r) || !hf_count_indexers(r, 16, 4, &weights) ||
        !hf_get_size(r->root, "hc_mult", 4, &streams, r->err))
        return false;
    if (streams > 64)
        return json_fail(json_at_key(r->root, "hc_mult"), r->err, "expected at most 64 streams, found %lld",
                         (long long)streams);
    const double h = (double)f->hidden, n = (double)f->heads, s = (double)streams;
    weights += (double)f->blocks * (h * n * (double)f->value_dim + n + 4 * (s * (s * h + 1) + 1));
    const int64_t neurons = hf_add_neurons(r, weights);
    f->last_inner = streams > 1 ? streams * streams / 2 : 0; /* what sums the streams behind the blocks */
    hf_note(
        r,
        "its attention is planned over all tokens, without sinks; what chooses tokens, its gates and what joins the "
        "%lld streams, %.0f weights, as %lld more neurons of each network; the streams' memory is left out",
        (long long)streams, weights, (long long)neurons);
    return true;
}
FAMILY(hy_v4) = {
    .type = "hy_v4",
    .class_name = "HYV4ForCausalLM",
    .others = " hy_v4_vl hy_v4_vl_text ",
    .names = latent_names,
    .facts = { LATENT_FACTS, .epsilon = 1e-5, .positions = 262144 },
    .read = read_hy_v4,
};

/* SK Telecom 2026 (A.X K2): gates made with the queries, of twice their narrow vector; gated norms. */
static bool read_axk2(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    double weights;
    int64_t rank;
    if (!hf_require_latent(r) || !hf_count_indexers(r, 16, 1, &weights) ||
        !hf_get_size(r->root, "gated_norm_rank", 16, &rank, r->err))
        return false;
    const double h = (double)f->hidden, turned = (double)(f->plain_dim + f->turned_dim);
    weights += (double)f->blocks *
               ((double)f->query_rank * (double)f->heads * (turned + 2 * (double)f->value_dim) + 4 * (double)rank * h);
    const int64_t neurons = hf_add_neurons(r, weights);
    hf_note(
        r,
        "its attention is planned over all tokens; what chooses tokens and gates of queries, outputs and norms, %.0f "
        "weights, as %lld more neurons of each network",
        weights, (long long)neurons);
    return true;
}
FAMILY(axk2) = {
    .type = "axk2",
    .class_name = "AXK2ForCausalLM",
    .names = latent_names,
    .facts = { LATENT_FACTS, .positions = 131072 },
    .read = read_axk2,
};

/* rednote-hilab 2026 (dots3): windows in most blocks, whose latent attention has sizes of its own: in the library's
 * files by the block's number, in released ones under names of their own. */
static const struct hf_name dots3_names[] = { HF_NAME("attention_bias", ONLY_FALSE, qkv_bias),
                                              HF_NAME("shared_experts_intermediate_size", COUNT, shared_inner),
                                              HF_NAME("moe_shared_expert_intermediate_size", COUNT, shared_inner),
                                              { 0 } };
static bool read_dots3(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    double weights;
    bool chooses;
    f->shared_inner *= f->shared_experts; /* of one; the file says how many */
    if (!hf_require_latent(r) || !hf_require_types(r) || !hf_get_bool(r->root, "use_dsa", true, &chooses, r->err) ||
        !hf_count_indexers(r, 64, 1, &weights))
        return false;
    weights = chooses ? weights : 0;
    const int64_t neurons = hf_add_neurons(r, weights);
    hf_note(r,
            "its attention is planned over all tokens, also where it sees a window; what chooses tokens, %.0f "
            "weights, as %lld more neurons of each network",
            weights, (long long)neurons);
    return true;
}
/* The latent attention of a block that sees a window. */
static bool read_window(struct hf_reader *r, int64_t block, struct latent_attention_layer *a)
{
    const struct json *boxes = hf_given(r->root, "per_layer_config"), *own = NULL;
    static const char *const forms[] = { "%lld", "%02lld", "%03lld" };
    char key[24];
    int64_t head_dim;
    if (!hf_expect_object(boxes, r->err))
        return false;
    for (size_t i = 0; boxes && i < sizeof forms / sizeof *forms && !own; i++) {
        snprintf(key, sizeof key, forms[i], (long long)block);
        own = hf_given(boxes, key);
    }
    if (!hf_expect_object(own, r->err))
        return false;
    if (boxes)
        return !own || (hf_get_size(own, "num_attention_heads", a->heads, &a->heads, r->err) &&
                        hf_get_size(own, "q_lora_rank", a->query_rank, &a->query_rank, r->err) &&
                        hf_get_size(own, "kv_lora_rank", a->kv_rank, &a->kv_rank, r->err) &&
                        hf_get_size(own, "qk_nope_head_dim", a->plain_dim, &a->plain_dim, r->err) &&
                        hf_get_size(own, "qk_rope_head_dim", a->rope_dim, &a->rope_dim, r->err) &&
                        hf_get_size(own, "v_head_dim", a->value_dim, &a->value_dim, r->err));
    return hf_get_size(r->root, "swa_num_attention_heads", 64, &a->heads, r->err) &&
           hf_get_size(r->root, "swa_q_lora_rank", 1024, &a->query_rank, r->err) &&
           hf_get_size(r->root, "swa_kv_lora_rank", 1024, &a->kv_rank, r->err) &&
           hf_get_size(r->root, "swa_head_dim", 256, &head_dim, r->err) &&
           hf_get_size(r->root, "swa_qk_nope_head_dim", 192, &a->plain_dim, r->err) &&
           hf_get_size(r->root, "swa_v_head_dim", 128, &a->value_dim, r->err) &&
           hf_get_count(r->root, "swa_qk_rope_head_dim", head_dim > a->plain_dim ? head_dim - a->plain_dim : 0,
                        &a->rope_dim, r->err);
}
static bool blocks_of_dots3(struct hf_reader *r)
{
    const struct json *types;
    const char *word;
    double left_out = 0;
    if (!hf_get_list(r, "layer_types", r->facts.blocks, &types))
        return false;
    for (int64_t i = 0; i < r->facts.blocks; i++) {
        struct latent_attention_layer *a = &r->blocks[i].latent;
        const struct json *at = json_at(types, (int)i);
        if (!json_string(at, &word, r->err) || (strcmp(word, "sliding_attention") == 0 && !read_window(r, i, a)))
            return false;
        if (strcmp(word, "sliding_attention") != 0 && strcmp(word, "full_attention") != 0 &&
            strcmp(word, "indexed_attention") != 0)
            return json_fail(at, r->err,
                             "expected \"full_attention\", \"indexed_attention\" or \"sliding_attention\", found "
                             "\"%.64s\"",
                             word);
        if (a->rope_dim % 2)
            return json_fail(at, r->err, "rotary positions turn pairs: expected an even number of a head, found %lld",
                             (long long)a->rope_dim);
        left_out += (double)r->facts.hidden * (double)a->heads + (double)a->rope_dim;
    }
    hf_note(r, "left out: a gate for each head and a norm of what turns of the keys, %.0f weights in all", left_out);
    return true;
}
FAMILY(dots3_note) = {
    .type = "dots3_note_text",
    .class_name = "Dots3NoteForCausalLM",
    .others = " dots3_note ",
    .names = dots3_names,
    .facts = { LATENT_FACTS, .epsilon = 1e-5, .hidden = 5120, .blocks = 46, .heads = 128, .inner = 13824,
               .vocab = 152064, .shared_inner = 1536, .rope_base = 8e7, .positions = 524288 },
    .read = read_dots3,
    .blocks = blocks_of_dots3,
};

const struct hf_family *const hf_latents[] = { &deepseek_v4, &hy_v4, &axk2, &dots3_note, NULL };
