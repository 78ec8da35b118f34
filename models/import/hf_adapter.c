/* PEFT's adapter_config.json (Hu et al. 2021): which matrices of a frozen model have low-rank adapters. */
#include "models/import/hf_facts.h"
#include "models/kinds/lora.h"
#include <string.h>

enum { Q = 1, K = 2, V = 4, O = 8, GATE = 1, UP = 2, DOWN = 4 };

/* Names of matrices in the libraries' models, and the bits of the kinds' lists that they are. */
static const struct {
    const char *name;
    int attention, mlp;
    bool fused; /* one adapter there, several here */
} modules[] = {
    { "q_proj", Q, 0, false },
    { "k_proj", K, 0, false },
    { "v_proj", V, 0, false },
    { "o_proj", O, 0, false },
    { "out_proj", O, 0, false },
    { "query", Q, 0, false },
    { "key", K, 0, false },
    { "value", V, 0, false },
    { "dense", O, 0, false },
    { "query_key_value", Q | K | V, 0, true },
    { "qkv_proj", Q | K | V, 0, true },
    { "c_attn", Q | K | V, 0, true },
    { "W_pack", Q | K | V, 0, true },
    { "Wqkv", Q | K | V, 0, true },
    { "c_proj", O, DOWN, false },
    { "gate_proj", 0, GATE, false },
    { "up_proj", 0, UP, false },
    { "down_proj", 0, DOWN, false },
    { "gate_up_proj", 0, GATE | UP, true },
    { "fc1", 0, UP, false },
    { "fc2", 0, DOWN, false },
    { "fc_in", 0, UP, false },
    { "fc_out", 0, DOWN, false },
    { "c_fc", 0, UP, false },
    { "dense_h_to_4h", 0, UP, false },
    { "dense_4h_to_h", 0, DOWN, false },
    { "all-linear", Q | K | V | O, GATE | UP | DOWN, false },
};

static bool read_module(struct hf_reader *r, const struct json *at, int *attention, int *mlp)
{
    const char *name;
    if (!json_string(at, &name, r->err))
        return false;
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (strcmp(modules[i].name, name) == 0) {
            *attention |= modules[i].attention;
            *mlp |= modules[i].mlp;
            if (modules[i].fused)
                hf_note(r, "%s is several matrices here, with an adapter each", name);
            return true;
        }
    return json_fail(at, r->err,
                     "expected the name of a matrix of attention or of a dense network such as \"q_proj\", or "
                     "\"all-linear\", found \"%.64s\": no other matrix can have an adapter",
                     name);
}

static bool read_modules(struct hf_reader *r, const struct json *root, int *attention, int *mlp)
{
    const struct json *list;
    if (!json_require(root, "target_modules", &list, r->err))
        return false;
    if (json_type(list) != JSON_ARRAY)
        return read_module(r, list, attention, mlp);
    for (int i = 0; i < json_count(list); i++)
        if (!read_module(r, json_at(list, i), attention, mlp))
            return false;
    return json_count(list) > 0 || json_fail(list, r->err, "expected at least one matrix, found none");
}

/* What would train more than the adapters, or others. */
static bool check_rest(struct hf_reader *r, const struct json *root)
{
    static const char *const types[] = { "LORA", NULL }, *const biases[] = { "none", NULL };
    static const char *const lists[] = { "modules_to_save", "layers_to_transform", "rank_pattern", "alpha_pattern" };
    if (!hf_need_word(root, "peft_type", "LORA", types, r->err) ||
        !hf_need_word(root, "bias", "none", biases, r->err) || !hf_need_bool(root, "use_dora", false, r->err))
        return false;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const struct json *at = hf_given(root, lists[i]);
        if (at && json_count(at) > 0)
            return json_fail(at, r->err,
                             "expected none: adapters are the same in all blocks, and nothing else is trained");
    }
    return true;
}

bool hf_adapt(struct hf_reader *r, const struct json *root)
{
    struct lora lora = { 0 };
    int attention = 0, mlp = 0;
    bool some = false;
    if (!hf_expect_object(root, r->err) || !check_rest(r, root) || !hf_get_size(root, "r", 8, &lora.rank, r->err) ||
        !hf_get_double(root, "lora_alpha", 1e6, LORA_ALPHA, &lora.alpha, r->err) ||
        !read_modules(r, root, &attention, &mlp))
        return false;
    if (lora.rank > 1 << 20 || lora.alpha < 1e-6)
        return json_fail(root, r->err, "expected a rank r up to %d and a positive lora_alpha, found %lld and %g",
                         1 << 20, (long long)lora.rank, lora.alpha);
    for (int64_t i = 0; i < r->facts.blocks; i++) {
        struct hf_block *b = &r->blocks[i];
        const int gates = b->mlp.activation == ACTIVATION_SWIGLU || b->mlp.activation == ACTIVATION_GEGLU ||
                                  b->mlp.activation == ACTIVATION_GEGLU_ERF
                              ? GATE
                              : 0;
        if (b->mixer == HF_ATTENTION && attention) {
            b->attention.lora = lora;
            b->attention.lora.targets = attention;
        }
        if (b->network == HF_MLP && mlp & (gates | UP | DOWN)) {
            b->mlp.lora = lora;
            b->mlp.lora.targets = mlp & (gates | UP | DOWN);
        }
        some |= b->attention.lora.targets || b->mlp.lora.targets;
    }
    if (r->facts.experts && mlp)
        hf_note(r, "experts have no adapters: the networks of blocks with experts are frozen as they are");
    r->adapted = true;
    return some || json_fail(root, r->err,
                             "expected a matrix of attention or of a dense network among target_modules: the "
                             "model has none of them");
}
