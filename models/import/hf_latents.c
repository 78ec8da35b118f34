/* DeepSeek-AI 2026 (DeepSeek-V4): attention to a window and to compressed spans of tokens, whose queries and outputs
 * are made of narrow vectors and whose keys are the values of all heads; several streams between the blocks. */
#include "models/import/hf_facts.h"
#include <string.h>

#define FAMILY(symbol) static const struct hf_family symbol

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

const struct hf_family *const hf_latents[] = { &deepseek_v4, NULL };
