/* Blocks and layers of the canonical facts. */
#include "models/import/hf_facts.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- what one block is ---- */

bool hf_activation_of(struct hf_reader *r, bool gated, int *out)
{
    static const struct {
        const char *word;
        int plain, gated; /* -1: there is none */
    } words[] = {
        { "silu", ACTIVATION_SILU, ACTIVATION_SWIGLU },
        { "swish", ACTIVATION_SILU, ACTIVATION_SWIGLU },
        { "swiglu", ACTIVATION_SILU, ACTIVATION_SWIGLU },
        { "gelu", ACTIVATION_GELU_ERF, ACTIVATION_GEGLU_ERF },
        { "gelu_python", ACTIVATION_GELU_ERF, ACTIVATION_GEGLU_ERF },
        { "gelu_new", ACTIVATION_GELU, ACTIVATION_GEGLU },
        { "gelu_fast", ACTIVATION_GELU, ACTIVATION_GEGLU },
        { "gelu_pytorch_tanh", ACTIVATION_GELU, ACTIVATION_GEGLU },
        { "gelu_10", ACTIVATION_GELU, ACTIVATION_GEGLU },
        { "quick_gelu", ACTIVATION_QUICK_GELU, -1 },
        { "relu", ACTIVATION_RELU, -1 },
        { "relu2", ACTIVATION_SQUARED_RELU, -1 },
        { "swiglu_clamped", -1, ACTIVATION_SWIGLU_CLAMPED },
    };
    const char *found = r->facts.activation;
    *out = gated ? ACTIVATION_SWIGLU : ACTIVATION_GELU;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i].word, found) == 0 && (gated ? words[i].gated : words[i].plain) >= 0) {
            *out = gated ? words[i].gated : words[i].plain;
            return true;
        }
    if (strlen(found) > 24 || found[strspn(found, "abcdefghijklmnopqrstuvwxyz0123456789_")])
        return json_fail(hf_place_of(r, HF_FACT(activation)), r->err,
                         "expected the name of an activation such as \"%s\", found \"%.64s\"", gated ? "silu" : "gelu",
                         found);
    hf_note(r, "%s \"%s\" is planned as %s, which costs the same", hf_name_of(r, HF_FACT(activation)), found,
            gated ? "swiglu" : "gelu");
    return true;
}

/* Reports at the foreign key what the attention kind would report at its own. */
static bool check_heads(struct hf_reader *r)
{
    const struct hf_facts *f = &r->facts;
    if (!f->head_dim && f->hidden % f->heads)
        return json_fail(hf_place_of(r, HF_FACT(heads)), r->err,
                         "expected a divisor of the hidden size (%lld), found %lld", (long long)f->hidden,
                         (long long)f->heads);
    if (f->kv_heads && f->heads % f->kv_heads && !hf_is_given(r, HF_FACT(kv_heads)))
        return json_fail(hf_place_of(r, HF_FACT(heads)), r->err,
                         "expected a multiple of the %lld heads of keys and values that this family has where the file "
                         "says none (%s), found %lld",
                         (long long)f->kv_heads, hf_name_of(r, HF_FACT(kv_heads)), (long long)f->heads);
    if (f->kv_heads && f->heads % f->kv_heads)
        return json_fail(hf_place_of(r, HF_FACT(kv_heads)), r->err, "expected a divisor of %s (%lld), found %lld",
                         hf_name_of(r, HF_FACT(heads)), (long long)f->heads, (long long)f->kv_heads);
    int64_t head_dim = f->head_dim ? f->head_dim : f->hidden / f->heads;
    if (f->place == HF_ROTARY && head_dim % 2 && !f->rope_dim)
        return json_fail(hf_place_of(r, hf_is_given(r, HF_FACT(head_dim)) ? HF_FACT(head_dim) : HF_FACT(heads)), r->err,
                         "rotary positions turn pairs: expected heads of an even width, found %lld",
                         (long long)head_dim);
    return true;
}

static int input_norm(const struct hf_facts *f)
{
    return f->no_input_norms ? NORM_NONE : f->norm;
}

static bool fill_attention(struct hf_reader *r, struct attention_layer *a)
{
    const struct hf_facts *f = &r->facts;
    memcpy(a, layer_kind_find("attention")->defaults, sizeof *a);
    if (!check_heads(r))
        return false;
    a->heads = f->heads;
    a->kv_heads = f->kv_heads ? f->kv_heads : f->heads;
    a->head_dim = f->head_dim ? f->head_dim : f->hidden / f->heads;
    a->causal = !f->encoder;
    a->qkv_bias = f->qkv_bias;
    a->bare_keys = f->bare_keys;
    a->output_bias = f->output_bias;
    a->norm = input_norm(f);
    a->norm_epsilon = f->epsilon;
    a->post_norm = f->post_norm;
    a->output_norm = f->output_norms ? f->norm : NORM_NONE;
    a->residual = f->stream == HF_SERIAL;
    a->qk_norm = f->qk_norm;
    a->qk_norm_kind = f->qk_norm ? f->qk_kind : a->qk_norm_kind;
    a->score_cap = f->score_cap;
    a->score_scale = f->query_scalar > 0 ? 1 / sqrt(f->query_scalar) : f->score_scale;
    a->sinks = f->sinks;
    a->output_gate = f->output_gate;
    a->residual_scale = f->residual_scale;
    a->alibi = f->place == HF_ALIBI;
    if (f->relative_buckets) {
        a->relative_buckets = f->relative_buckets;
        a->relative_distance = f->relative_distance;
    }
    if (f->place == HF_ROTARY) {
        a->rope_base = f->rope_base;
        a->rope_dim = f->rope_dim;
        a->rope_factor = f->rope_factor;
        a->rope_low = f->rope_low;
        a->rope_high = f->rope_high;
        a->rope_original = f->rope_original;
    }
    return true;
}

static bool fill_latent(struct hf_reader *r, struct latent_attention_layer *a)
{
    const struct hf_facts *f = &r->facts;
    static const size_t widths[] = { HF_FACT(plain_dim), HF_FACT(turned_dim), HF_FACT(value_dim) };
    const struct json *at;
    memcpy(a, layer_kind_find("latent_attention")->defaults, sizeof *a);
    for (int i = 0; i < 3; i++)
        if (!*(const int64_t *)(const void *)((const char *)f + widths[i]) &&
            !hf_require(r->root, hf_name_of(r, widths[i]), &at, r->err))
            return false;
    if (f->turned_dim % 2)
        return json_fail(hf_place_of(r, HF_FACT(turned_dim)), r->err,
                         "rotary positions turn pairs: expected an even number, found %lld", (long long)f->turned_dim);
    a->heads = f->heads;
    a->query_rank = f->query_rank;
    a->kv_rank = f->kv_rank;
    a->plain_dim = f->plain_dim;
    a->rope_dim = f->turned_dim;
    a->value_dim = f->value_dim;
    a->rope_base = f->rope_base;
    a->norm = f->norm;
    a->norm_epsilon = f->epsilon;
    a->residual_scale = f->residual_scale;
    return true;
}

bool hf_fill_mlp(struct hf_reader *r, struct mlp_layer *m)
{
    const struct hf_facts *f = &r->facts;
    memcpy(m, layer_kind_find("mlp")->defaults, sizeof *m);
    m->inner = f->inner;
    m->bias = f->mlp_bias;
    m->norm = input_norm(f);
    m->norm_epsilon = f->epsilon;
    m->post_norm = f->post_norm;
    m->output_norm = f->output_norms ? f->norm : NORM_NONE;
    m->residual = f->stream == HF_SERIAL;
    m->residual_scale = f->residual_scale;
    return hf_activation_of(r, f->gated, &m->activation);
}

/* What memory is made for: an expert may get up to twice the mean number of a sequence's tokens. */
static const double imbalance = 2;

static bool check_experts(struct hf_reader *r)
{
    const struct hf_facts *f = &r->facts;
    const struct json *at;
    if (!f->choices && !hf_require(r->root, hf_name_of(r, HF_FACT(choices)), &at, r->err))
        return false;
    if (f->experts > MOE_MAX_EXPERTS)
        return json_fail(hf_place_of(r, HF_FACT(experts)), r->err, "expected at most %d experts, found %lld",
                         MOE_MAX_EXPERTS, (long long)f->experts);
    if (f->choices > f->experts || f->choices > MOE_MAX_CHOICES)
        return json_fail(hf_place_of(r, HF_FACT(choices)), r->err,
                         "expected at most %d of the model's %lld experts, found %lld", MOE_MAX_CHOICES,
                         (long long)f->experts, (long long)f->choices);
    if (f->shared_inner > MOE_MAX_INNER || f->shared_experts * f->expert_inner > MOE_MAX_INNER)
        return json_fail(hf_place_of(r, f->shared_inner ? HF_FACT(shared_inner) : HF_FACT(shared_experts)), r->err,
                         "expected shared experts of at most %d neurons together, found %lld times %lld", MOE_MAX_INNER,
                         (long long)(f->shared_inner ? 1 : f->shared_experts),
                         (long long)(f->shared_inner ? f->shared_inner : f->expert_inner));
    if (f->dense_blocks >= f->blocks && !hf_given(r->root, "mlp_layer_types"))
        return json_fail(hf_place_of(r, HF_FACT(dense_blocks)), r->err, "expected fewer than %s (%lld), found %lld",
                         hf_name_of(r, HF_FACT(blocks)), (long long)f->blocks, (long long)f->dense_blocks);
    return true;
}

static bool fill_experts(struct hf_reader *r, struct moe_layer *m)
{
    struct hf_facts *f = &r->facts;
    memcpy(m, layer_kind_find("moe")->defaults, sizeof *m);
    if (!f->expert_inner)
        f->expert_inner = f->inner;
    if (!check_experts(r))
        return false;
    m->experts = f->experts;
    m->choices = f->choices;
    m->inner = f->expert_inner;
    m->shared_inner = f->shared_inner ? f->shared_inner : f->shared_experts * f->expert_inner;
    if (f->expert_width && f->expert_width < f->hidden) {
        /* Between narrower vectors an expert has the weights and the work of a narrower one, and what narrows and
         * widens again those of a shared one. */
        m->inner = (f->expert_inner * f->expert_width + f->hidden / 2) / f->hidden;
        m->inner = m->inner ? m->inner : 1;
        m->shared_inner += (f->expert_width * 2 + (f->gated ? 1 : 0)) / (f->gated ? 3 : 2);
        hf_note(r,
                "its experts, which read vectors of %lld, are planned as ones of %lld neurons that read %lld: as many "
                "weights and as much work, but what is sent to them is wider",
                (long long)f->expert_width, (long long)m->inner, (long long)f->hidden);
    }
    m->gates = f->gates;
    if (f->gates == GATES_OF_ALL && f->renormalised)
        m->gates = GATES_OF_CHOSEN;
    if (f->gates == GATES_SIGMOID_OF_CHOSEN && !f->renormalised)
        m->gates = GATES_SIGMOID;
    m->router_bias = f->router_bias;
    m->router_correction = f->router_correction;
    m->expert_bias = f->expert_bias;
    m->shared_gate = f->shared_gate;
    m->expert_groups = f->chosen_groups ? f->expert_groups : 0;
    m->chosen_groups = f->expert_groups ? f->chosen_groups : 0;
    m->gate_scale = f->gate_scale;
    m->dropless = true;
    m->capacity_factor = imbalance;
    /* Counts choices per token, not their share, and is taken once over all layers. */
    if (f->balance_by_sequence)
        m->balance = f->balance;
    else
        m->balance = f->router_logits ? f->balance * (double)f->choices / (double)f->blocks : 0;
    m->norm = input_norm(f);
    m->norm_epsilon = f->epsilon;
    m->output_norm = f->output_norms ? f->norm : NORM_NONE;
    m->residual_scale = f->residual_scale;
    return hf_activation_of(r, f->gated, &m->activation);
}

/* ---- which block is what ---- */

/* A block whose tokens see only the latest ones; one that no sequence fills sees all. */
static void set_window(struct hf_reader *r, struct hf_block *b, int64_t window)
{
    if (b->mixer == HF_ATTENTION)
        b->attention.sliding_window = window < r->facts.positions ? window : 0;
}

static bool set_type(struct hf_reader *r, struct hf_block *b, const struct json *at)
{
    static const char
        *const full[] = { "full_attention", "indexed_attention", "attention", "global", "full", "hybrid", NULL },
               *const sliding[] = { "sliding_attention",        "local",          "sliding",
                                    "sliding_window_attention", "hybrid_sliding", NULL };
    const char *word;
    if (!json_string(at, &word, r->err))
        return false;
    for (int i = 0; full[i]; i++)
        if (strcmp(word, full[i]) == 0) {
            set_window(r, b, r->facts.positions);
            return true;
        }
    for (int i = 0; sliding[i]; i++)
        if (strcmp(word, sliding[i]) == 0) {
            if (!r->facts.window)
                return json_fail(at, r->err, "expected a %s beside it", hf_name_of(r, HF_FACT(window)));
            set_window(r, b, r->facts.window);
            return true;
        }
    if (strcmp(word, "chunked_attention") == 0) {
        set_window(r, b, r->facts.chunk ? r->facts.chunk : r->facts.positions);
        return true;
    }
    return json_fail(at, r->err,
                     "expected \"full_attention\", \"sliding_attention\", \"chunked_attention\" or "
                     "\"linear_attention\", found \"%.64s\": no layer of this kind can be planned",
                     word);
}

bool hf_get_list(struct hf_reader *r, const char *key, int64_t count, const struct json **out)
{
    const struct json *list = *out = hf_given(r->root, key);
    if (!list)
        return true;
    if (json_type(list) != JSON_ARRAY)
        return json_fail(list, r->err, "expected an array, found %s", json_type_name(json_type(list)));
    return json_count(list) == count || json_fail(list, r->err, "expected as many entries as %s (%lld), found %d",
                                                  hf_name_of(r, HF_FACT(blocks)), (long long)count, json_count(list));
}

bool hf_get_numbers(struct hf_reader *r, const char *key, const struct json **out)
{
    const struct json *list = *out = hf_given(r->root, key);
    return !list || json_type(list) == JSON_ARRAY ||
           json_fail(list, r->err, "expected an array of numbers of blocks, found %s", json_type_name(json_type(list)));
}

static bool set_windows(struct hf_reader *r)
{
    const struct hf_facts *f = &r->facts;
    const struct json *types;
    int64_t fixed = 0;
    while (fixed < f->blocks && r->blocks[fixed].fixed)
        fixed++;
    if (fixed == f->blocks)
        return true;
    if (!hf_get_list(r, "layer_types", f->blocks, &types))
        return false;
    for (int64_t i = 0; i < f->blocks; i++) {
        struct hf_block *b = &r->blocks[i];
        bool full = i < f->full_blocks || (f->full_every && (i + 1) % f->full_every == 0);
        if (b->mixer != HF_ATTENTION || b->fixed) /* the family has said what it is */
            continue;
        if (types && !set_type(r, b, json_at(types, (int)i)))
            return false;
        if (!types && f->windows && f->window && !full)
            set_window(r, b, f->window);
    }
    return true;
}

bool hf_is_listed(const struct json *list, int64_t block)
{
    int64_t number;
    for (int i = 0; list && i < json_count(list); i++)
        if (json_int(json_at(list, i), 0, MODEL_MAX_LAYERS, &number, NULL) && number == block)
            return true;
    return false;
}

/* What the files of transformers' fifth version say of each block, whatever else they say of dense ones. */
static bool read_network(struct hf_reader *r, const struct json *at, bool *sparse)
{
    const char *word;
    if (!json_string(at, &word, r->err))
        return false;
    *sparse = strcmp(word, "sparse") == 0 || strcmp(word, "moe") == 0 || strcmp(word, "hash_moe") == 0;
    return *sparse || strcmp(word, "dense") == 0 ||
           json_fail(at, r->err, "expected \"dense\" or \"sparse\", found \"%.64s\"", word);
}

static bool is_sparse(const struct hf_facts *f, const struct json *dense, int64_t i)
{
    int64_t step = f->sparse_step ? f->sparse_step : 1;
    return f->experts && i >= f->dense_blocks && (!f->sparse_last || i <= f->sparse_last) && !hf_is_listed(dense, i) &&
           (i + f->sparse_offset) % step == 0;
}

bool hf_set_sparse(struct hf_reader *r, const char *key)
{
    const struct json *list = hf_given(r->root, key);
    struct mlp_layer mlp;
    struct moe_layer moe;
    int64_t sparse;
    if (!list || json_type(list) != JSON_ARRAY)
        return true;
    if (!hf_get_list(r, key, r->facts.blocks, &list) || !hf_fill_mlp(r, &mlp) || !fill_experts(r, &moe))
        return false;
    for (int64_t i = 0; i < r->facts.blocks; i++) {
        struct hf_block *b = &r->blocks[i];
        if (!json_int(json_at(list, (int)i), 0, 1, &sparse, r->err))
            return false;
        b->network = sparse ? HF_MOE : HF_MLP;
        memset(&b->moe, 0, sizeof b->moe);
        memset(&b->mlp, 0, sizeof b->mlp);
        if (sparse)
            b->moe = moe;
        else
            b->mlp = mlp;
    }
    return true;
}

bool hf_fill_blocks(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    struct hf_block block = { .mixer = f->kv_rank ? HF_LATENT : HF_ATTENTION, .stream = f->stream };
    struct mlp_layer mlp = { 0 };
    struct moe_layer moe = { 0 };
    const struct json *dense, *networks;
    if (!hf_get_numbers(r, "mlp_only_layers", &dense) || !hf_get_list(r, "mlp_layer_types", f->blocks, &networks))
        return false;
    r->blocks = arena_alloc(&r->arena, (size_t)f->blocks, sizeof *r->blocks);
    if (!r->blocks)
        return fail_memory(r->err);
    if (f->no_heads)
        block.mixer = HF_NO_MIXER;
    else if (f->kv_rank ? !fill_latent(r, &block.latent) : !fill_attention(r, &block.attention))
        return false;
    if (f->inner && !hf_fill_mlp(r, &mlp))
        return false;
    if (f->experts && !fill_experts(r, &moe))
        return false;
    for (int64_t i = 0; i < f->blocks; i++) {
        bool sparse = is_sparse(f, dense, i);
        r->blocks[i] = block;
        if (networks && f->experts && !read_network(r, json_at(networks, (int)i), &sparse))
            return false;
        if (sparse) {
            r->blocks[i].network = HF_MOE;
            r->blocks[i].moe = moe;
        } else {
            if (f->experts && !f->inner && !hf_require(r->root, hf_name_of(r, HF_FACT(inner)), &dense, r->err))
                return false;
            r->blocks[i].network = f->inner ? HF_MLP : HF_NO_NETWORK;
            r->blocks[i].mlp = mlp;
        }
    }
    return (!r->family->blocks || r->family->blocks(r)) && set_windows(r);
}
