/* One reader for all families: names of keys, their types, and where they stand. */
#include "models/import/hf_facts.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Names that mean the same wherever they appear, in the order in which they are looked for. */
#define NAME(name_, type_, fact_)                                                                                      \
    {                                                                                                                  \
        name_, HF_##type_, HF_FACT(fact_)                                                                              \
    }
static const struct hf_name common[] = {
    NAME("hidden_size", SIZE, hidden),
    NAME("n_embd", SIZE, hidden),
    NAME("n_embed", SIZE, hidden),
    NAME("d_model", SIZE, hidden),
    NAME("dim", SIZE, hidden),
    NAME("num_hidden_layers", SIZE, blocks),
    NAME("n_layer", SIZE, blocks),
    NAME("n_layers", SIZE, blocks),
    NAME("num_layers", SIZE, blocks),
    NAME("num_attention_heads", SIZE, heads),
    NAME("n_head", SIZE, heads),
    NAME("n_heads", SIZE, heads),
    NAME("num_heads", SIZE, heads),
    NAME("num_key_value_heads", SIZE, kv_heads),
    NAME("head_dim", SIZE, head_dim),
    NAME("intermediate_size", SIZE, inner),
    NAME("ffn_hidden_size", SIZE, inner),
    NAME("ffn_dim", SIZE, inner),
    NAME("n_inner", SIZE, inner),
    NAME("vocab_size", SIZE, vocab),
    NAME("padded_vocab_size", SIZE, vocab),
    NAME("max_position_embeddings", SIZE, positions),
    NAME("n_positions", SIZE, positions),
    NAME("max_seq_len", SIZE, positions),
    NAME("max_sequence_length", SIZE, positions),
    NAME("seq_length", SIZE, positions),
    NAME("model_max_length", SIZE, positions),
    NAME("rms_norm_eps", SMALL, epsilon),
    NAME("layer_norm_epsilon", SMALL, epsilon),
    NAME("layer_norm_eps", SMALL, epsilon),
    NAME("layernorm_epsilon", SMALL, epsilon),
    NAME("norm_epsilon", SMALL, epsilon),
    NAME("norm_eps", SMALL, epsilon),
    NAME("initializer_range", NUMBER, init_std),
    NAME("init_std", NUMBER, init_std),
    NAME("hidden_act", WORD, activation),
    NAME("activation_function", WORD, activation),
    NAME("hidden_activation", WORD, activation),
    NAME("rope_theta", BASE, rope_base),
    NAME("rotary_emb_base", BASE, rope_base),
    NAME("partial_rotary_factor", SMALL, rope_part),
    NAME("rotary_pct", SMALL, rope_part),
    NAME("sliding_window", COUNT, window),
    NAME("num_local_experts", SIZE, experts),
    NAME("n_routed_experts", SIZE, experts),
    NAME("num_experts", SIZE, experts),
    NAME("moe_num_experts", SIZE, experts),
    NAME("num_experts_per_tok", SIZE, choices),
    NAME("num_experts_per_token", SIZE, choices),
    NAME("experts_per_token", SIZE, choices),
    NAME("moe_intermediate_size", SIZE, expert_inner),
    NAME("n_shared_experts", COUNT, shared_experts),
    NAME("num_shared_experts", COUNT, shared_experts),
    NAME("shared_expert_intermediate_size", COUNT, shared_inner),
    NAME("first_k_dense_replace", COUNT, dense_blocks),
    NAME("decoder_sparse_step", SIZE, sparse_step),
    NAME("moe_layer_freq", SIZE, sparse_step),
    NAME("norm_topk_prob", FLAG, renormalised),
    NAME("routed_scaling_factor", NUMBER, gate_scale),
    NAME("router_aux_loss_coef", NUMBER, balance),
    NAME("aux_loss_alpha", NUMBER, balance),
    NAME("output_router_logits", FLAG, router_logits),
    NAME("n_group", SIZE, expert_groups),
    NAME("topk_group", SIZE, chosen_groups),
    NAME("q_lora_rank", SIZE, query_rank),
    NAME("kv_lora_rank", SIZE, kv_rank),
    NAME("qk_nope_head_dim", SIZE, plain_dim),
    NAME("qk_rope_head_dim", SIZE, turned_dim),
    NAME("v_head_dim", SIZE, value_dim),
    NAME("linear_num_key_heads", SIZE, key_heads),
    NAME("linear_num_value_heads", SIZE, value_heads),
    NAME("linear_key_head_dim", SIZE, key_width),
    NAME("linear_value_head_dim", SIZE, value_width),
    NAME("linear_conv_kernel_dim", SIZE, conv),
    NAME("num_nextn_predict_layers", COUNT, token_blocks),
    NAME("mtp_num_hidden_layers", COUNT, token_blocks),
    NAME("num_mtp_layers", COUNT, token_blocks),
    NAME("type_vocab_size", COUNT, token_types),
};
#undef NAME
enum { COMMON = sizeof common / sizeof *common };

static const int64_t most = 1 << 28;

void hf_note(struct hf_reader *r, const char *format, ...)
{
    char line[1024] = "note: ";
    const size_t begin = strlen(line);
    va_list list;
    if (!r->reading || !r->reading->notes)
        return;
    va_start(list, format);
    vsnprintf(line + begin, sizeof line - begin - 1, format, list);
    va_end(list);
    strcat(line, "\n");
    if (!r->reading->notes->data || !strstr(r->reading->notes->data, line)) /* several blocks may say the same */
        text_add(r->reading->notes, line);
}

static bool family_names(const struct hf_reader *r, size_t offset)
{
    for (const struct hf_name *n = r->family->names; n && n->name; n++)
        if (n->offset == offset && (n->type < HF_ONLY_TRUE || n->type == HF_IGNORED))
            return true;
    return false;
}

const char *hf_name_of(const struct hf_reader *r, size_t offset)
{
    if (r->given[offset])
        return r->given[offset];
    for (const struct hf_name *n = r->family->names; n && n->name; n++)
        if (n->offset == offset && n->type < HF_ONLY_TRUE)
            return n->name;
    for (int i = 0; i < COMMON; i++)
        if (common[i].offset == offset)
            return common[i].name;
    return "model_type";
}

bool hf_is_given(const struct hf_reader *r, size_t offset)
{
    return r->given[offset] != NULL;
}

const struct json *hf_place_of(const struct hf_reader *r, size_t offset)
{
    return json_at_key(r->root, hf_name_of(r, offset));
}

int64_t hf_add_neurons(struct hf_reader *r, double weights)
{
    struct hf_facts *f = &r->facts;
    const double neurons = weights / ((f->gated ? 3 : 2) * (double)f->hidden * (double)f->blocks);
    const int64_t count = neurons < MOE_MAX_INNER ? (int64_t)fmax(neurons, 0) : MOE_MAX_INNER;
    if (f->experts && !f->expert_inner)
        f->expert_inner = f->inner;
    f->inner += f->inner ? count : 0;
    f->shared_inner = (f->shared_inner ? f->shared_inner : f->shared_experts * f->expert_inner) + count;
    return count;
}

bool hf_require_types(struct hf_reader *r)
{
    const struct json *at;
    return hf_require(r->root, "layer_types", &at, r->err);
}

bool hf_require_latent(const struct hf_reader *r)
{
    const struct json *at;
    return r->facts.kv_rank > 0 || hf_require(r->root, "kv_lora_rank", &at, r->err);
}

static bool read_value(struct hf_reader *r, const struct hf_name *name, const struct json *at)
{
    char *fact = (char *)&r->facts + name->offset;
    bool flag;
    switch (name->type) {
    case HF_SIZE:
        return json_int(at, 1, most, (int64_t *)(void *)fact, r->err);
    case HF_COUNT:
        return json_int(at, 0, most, (int64_t *)(void *)fact, r->err);
    case HF_NUMBER:
        return json_double(at, 0, 1e6, (double *)(void *)fact, r->err);
    case HF_SMALL:
        return json_double(at, 0, 1, (double *)(void *)fact, r->err);
    case HF_BASE:
        return json_double(at, 0, 1e12, (double *)(void *)fact, r->err);
    case HF_FLAG:
        return json_bool(at, (bool *)(void *)fact, r->err);
    case HF_NOT_FLAG:
        if (!json_bool(at, &flag, r->err))
            return false;
        *(bool *)(void *)fact = !flag;
        return true;
    case HF_WORD: {
        const char *word;
        if (!json_string(at, &word, r->err))
            return false;
        *(const char **)(void *)fact = word;
        return true;
    }
    case HF_ONLY_TRUE:
    case HF_ONLY_FALSE:
        return hf_need_bool(r->root, name->name, name->type == HF_ONLY_TRUE, r->err);
    case HF_IGNORED:
        break;
    }
    return true;
}

/* Two of the family's own names of one number must say the same; the library reads one of them. */
static bool agrees(struct hf_reader *r, const struct hf_name *name, const struct json *at)
{
    const struct json *value = json_member(r->root, r->given[name->offset]);
    double wanted, found;
    int line, column;
    if (name->type >= HF_FLAG)
        return true;
    if (!json_double(at, -INFINITY, INFINITY, &found, r->err) ||
        !json_double(value, -INFINITY, INFINITY, &wanted, r->err))
        return false;
    json_position(value, &line, &column);
    return found == wanted ||
           json_fail(at, r->err,
                     "expected the value of %s, for which it is another name (%.15g at line %d, column %d), found "
                     "%.15g: leave out the one that is wrong",
                     r->given[name->offset], wanted, line, column, found);
}

static bool read_name(struct hf_reader *r, const struct hf_name *name, bool own)
{
    const struct json *at = hf_given(r->root, name->name);
    if (!at)
        return true;
    if (name->type < HF_ONLY_TRUE) { /* it says a fact */
        if (r->given[name->offset])
            return !own || agrees(r, name, at);
        r->given[name->offset] = name->name;
    }
    return read_value(r, name, at);
}

/* The larger model's switch holds for its language model. */
static bool read_tied(struct hf_reader *r)
{
    const char *key = "tie_word_embeddings";
    const struct json *at = hf_given(r->top, key) ? hf_given(r->top, key) : hf_given(r->root, key);
    return !at || json_bool(at, &r->facts.tied, r->err);
}

/* Where the number of blocks is missing, a list or word with an entry for each says it. */
static void count_blocks(struct hf_reader *r)
{
    static const char *const keys[] = { "layers_block_type", "layer_types", "hybrid_override_pattern",
                                        "block_configs" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !hf_is_given(r, HF_FACT(blocks)); i++) {
        const struct json *at = hf_given(r->root, keys[i]);
        const char *word = "";
        if (at && json_type(at) == JSON_STRING && !json_string(at, &word, NULL))
            continue;
        int64_t count = at && json_type(at) == JSON_ARRAY ? json_count(at) : (int64_t)strlen(word);
        if (count > 0) {
            r->facts.blocks = count;
            r->given[HF_FACT(blocks)] = keys[i];
        }
    }
}

/* At the top, files say the sizes that make a model; in a nested model they leave out what its class has by default. */
static bool check_required(struct hf_reader *r)
{
    static const size_t sizes[] = { HF_FACT(hidden), HF_FACT(blocks), HF_FACT(heads), HF_FACT(inner), HF_FACT(vocab) };
    const struct json *at;
    const struct hf_facts *f = &r->facts;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t size = *(const int64_t *)(const void *)((const char *)f + sizes[i]);
        bool follows = sizes[i] == HF_FACT(inner) ? f->inner_factor || (f->experts && f->expert_inner)
                                                  : sizes[i] == HF_FACT(heads) && f->no_heads;
        bool structural =
            sizes[i] == HF_FACT(inner) || r->nested || f->no_required ? size > 0 : hf_is_given(r, sizes[i]);
        if (!follows && !structural) /* also where the file says null */
            return json_require(r->root, hf_name_of(r, sizes[i]), &at, r->err) && json_int(at, 1, most, &size, r->err);
    }
    return true;
}

bool hf_read_facts(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    *f = r->family->facts;
    for (const struct hf_name *n = r->family->names; n && n->name; n++)
        if (!read_name(r, n, true))
            return false;
    for (int i = 0; i < COMMON; i++)
        if (!family_names(r, common[i].offset) && !read_name(r, &common[i], false))
            return false;
    count_blocks(r);
    if (!read_tied(r) || !check_required(r))
        return false;
    if (f->blocks > (MODEL_MAX_LAYERS - 3) / 2)
        return json_fail(hf_place_of(r, HF_FACT(blocks)), r->err, "expected at most %d blocks, found %lld",
                         (MODEL_MAX_LAYERS - 3) / 2, (long long)f->blocks);
    if (!f->inner && f->inner_factor)
        f->inner = f->inner_factor * f->hidden;
    return (!r->family->read || r->family->read(r)) && hf_read_rotation(r);
}
