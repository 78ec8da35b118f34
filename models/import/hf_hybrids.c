/* Decoders of attention and networks whose blocks are not alike. */
#include "models/import/hf_facts.h"
#include <stdio.h>
#include <string.h>

#define FAMILY(symbol) static const struct hf_family symbol
#define ATTENTION_BIAS HF_NAME("attention_bias", FLAG, qkv_bias), HF_NAME("attention_bias", FLAG, output_bias)

/* ---- Bercovich et al. 2025 (Nemotron from neural architecture search): every block has a configuration of its own
 * ---- */

static bool expect_object(struct hf_reader *r, const struct json *at, const char *key, const struct json **out)
{
    if (!json_require(at, key, out, r->err))
        return false;
    return json_type(*out) == JSON_OBJECT ||
           json_fail(*out, r->err, "expected an object, found %s", json_type_name(json_type(*out)));
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
    if (!expect_object(r, at, "attention", &attention) || !expect_object(r, at, "ffn", &network) ||
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
    if (!json_require(r->root, "block_configs", &list, r->err) ||
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

const struct hf_family *const hf_hybrids[] = { &nemotron_nas, &minimax, NULL };
