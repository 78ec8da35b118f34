#include "cli/measured_mapping.h"

static const struct {
    const char *kind, *activation;
} feed_forwards[] = {
    { "gelu", "gelu" }, { "swiglu", "swiglu" }, { "gelu-gated", "geglu" }, { "squared_relu", "squared_relu" }
};
/* Families by a part of their names. */
static const char *const rotary_families[] = { "llama",    "qwen",     "gpt-oss", "grok",
                                               "deepseek", "nemotron", "mixtral", NULL };
static const char *const hybrid_families[] = { "nemotron-h", "nemotron-3", NULL };
/* And by the whole name. Those of latent attention alike (DeepSeek-AI 2024, DeepSeek-V3, section 4.2; config.json of
 * Kimi K2): queries of vectors of 1536, keys and values of 512, heads of 128 + 64 and 128. */
static const char *const latent_families[] = { "deepseek-v3", "kimi-k2", NULL };
static const char *const sparse_families[] = { "deepseekv4-flash", NULL };
/* OpenAI 2025, gpt-oss (config.json): every other block's attention sees the last 128 tokens only; sinks; biases behind
 * every product, experts' too; what the gate multiplies is clamped. */
#define GPT_OSS "gpt-oss"
#define QWEN3 "qwen3" /* Yang et al. 2025, Qwen3: queries and keys are normed, each head's by itself */
enum { GPT_OSS_WINDOW = 128 };
/* Meta 2025, Llama 4 (config.json): of 128 experts every other block has a mixture, the second of each two
 * (interleave_moe_layer_step), of 16 each block; beside those that are chosen one that all tokens go to, as wide. */
#define LLAMA4 "llama4"
enum { LLAMA4_SPARSE_EXPERTS = 128 };
static const char *const plain_families[] = { "gpt", "bloom", "mpt", "megatron", "opt", NULL }; /* layer norms */
static const char *const learned_families[] = { "gpt-megatron", "gpt-vtrain", "gpt2", "gpt-alpa", NULL };

/* Matrices that have adapters, by the kind of layer that they are of. */
static const char *const attention_matrices[] = { "q_proj", "k_proj", "v_proj", "o_proj", NULL };
static const char *const network_matrices[] = { "gate_proj", "up_proj", "down_proj", NULL };
static const char *const no_matrices[] = { NULL };

struct blocks {
    bool rotary, bias, latent, gpt_oss, qk_norm;
    int sliding_window; /* of every other block; 0: none */
    bool alternating;   /* a mixture in the second of each two blocks */
    int64_t routed;     /* blocks with a mixture */
    const char *norm, *activation;
};

static void begin_layer(struct json_writer *w, const char *kind)
{
    json_begin_object(w);
    json_put_string(w, "kind", kind);
}

/* Whether one of the row's adapters is of the matrix. */
static bool is_adapted(const struct measured_run *run, const char *matrix)
{
    const char *at = run->lora_modules;
    for (size_t length; *at; at += length + (at[length] == '+')) {
        length = strcspn(at, "+");
        if (strlen(matrix) == length && !strncmp(at, matrix, length))
            return true;
    }
    return false;
}

/* Fails for adapters of which none, or not all that are named, are of layers of the row's model. */
static bool check_adapters(const struct measured_run *run, struct error *why)
{
    const char *const *const of_layers[] = { attention_matrices,
                                             run->n_experts == BLANK ? network_matrices : no_matrices };
    int named = *run->lora_modules ? 1 : 0, known = 0;
    for (const char *at = run->lora_modules; *at; at++)
        named += *at == '+';
    for (size_t kind = 0; kind < sizeof of_layers / sizeof *of_layers; kind++)
        for (int i = 0; of_layers[kind][i]; i++)
            known += is_adapted(run, of_layers[kind][i]);
    if (run->lora_rank == BLANK)
        return (named == 0 && !*run->quantized) ||
               fail(why, "%s without lora_rank: all weights are trained", named ? "lora_modules" : "quantized");
    return (named > 0 && known == named) ||
           fail(why,
                "lora_modules: %d of its %d names, which + joins (q_proj+v_proj), are of matrices of the "
                "model's attention and dense networks",
                known, named);
}

/* Ends a layer, which is frozen beside adapters of those of these matrices that the row names. */
static void end_layer(struct json_writer *w, const struct measured_run *run, const char *const *matrices, bool of_block)
{
    bool some = false;
    if (run->lora_rank != BLANK) {
        json_put_bool(w, "frozen", true);
        if (of_block && *run->quantized)
            json_put_string(w, "quantized", run->quantized);
        for (int i = 0; matrices[i]; i++)
            some = some || is_adapted(run, matrices[i]);
    }
    if (some) {
        json_put_int(w, "lora_r", run->lora_rank);
        json_begin_array_at(w, "target_modules");
        for (int i = 0; matrices[i]; i++)
            if (is_adapted(run, matrices[i]))
                json_write_string(w, matrices[i]);
        json_end_array(w);
    }
    json_end_object(w);
}

static void put_latent_attention(struct json_writer *w, const struct measured_run *run, const struct blocks *b)
{
    begin_layer(w, "latent_attention");
    json_put_int(w, "heads", run->heads);
    json_put_int(w, "query_rank", 1536);
    json_put_int(w, "kv_rank", 512);
    json_put_int(w, "plain_dim", 128);
    json_put_int(w, "rope_dim", 64);
    json_put_int(w, "value_dim", 128);
    json_put_string(w, "norm", b->norm);
    end_layer(w, run, no_matrices, true);
}

static void put_attention(struct json_writer *w, const struct measured_run *run, const struct blocks *b, int window)
{
    if (b->latent) {
        put_latent_attention(w, run, b);
        return;
    }
    begin_layer(w, "attention");
    json_put_int(w, "heads", run->heads);
    json_put_int(w, "kv_heads", run->kv_heads);
    json_put_string(w, "norm", b->norm);
    json_put_bool(w, "qkv_bias", b->bias);
    json_put_bool(w, "output_bias", b->bias);
    if (b->rotary)
        json_put_int(w, "rope_base", 500000);
    if (run->head_dim != BLANK && run->head_dim * run->heads != run->hidden)
        json_put_int(w, "head_dim", run->head_dim);
    if (b->gpt_oss)
        json_put_bool(w, "sinks", true);
    if (b->qk_norm)
        json_put_string(w, "qk_norm", "head");
    if (window > 0)
        json_put_int(w, "sliding_window", window);
    end_layer(w, run, attention_matrices, true);
}

static void put_dense(struct json_writer *w, const struct measured_run *run, const struct blocks *b)
{
    begin_layer(w, "mlp");
    json_put_int(w, "inner", run->ffn_hidden);
    json_put_string(w, "activation", b->activation);
    json_put_string(w, "norm", b->norm);
    json_put_bool(w, "bias", b->bias && run->n_experts == BLANK);
    end_layer(w, run, network_matrices, true);
}

static void put_experts(struct json_writer *w, const struct measured_run *run, const struct blocks *b)
{
    begin_layer(w, "moe");
    json_put_int(w, "experts", run->n_experts);
    json_put_int(w, "choices", run->topk);
    json_put_int(w, "inner", run->moe_ffn);
    json_put_string(w, "activation", b->activation);
    json_put_string(w, "norm", b->norm);
    json_put_int(w, "capacity_factor", 1);
    json_put_bool(w, "dropless", !says(run, "tokendrop;"));
    if (b->gpt_oss) {
        json_put_bool(w, "router_bias", true);
        json_put_bool(w, "expert_bias", true);
    }
    if (run->cp > 1) /* a sequence in pieces is routed by pieces, else it would be gathered */
        json_put_int(w, "group", run->seq_len / run->cp);
    if (run->shared_expert_ffn != BLANK || !strcmp(run->family, LLAMA4))
        json_put_int(w, "shared_inner", run->shared_expert_ffn != BLANK ? run->shared_expert_ffn : run->moe_ffn);
    end_layer(w, run, no_matrices, true);
}

typedef void put_second(struct json_writer *w, const struct measured_run *run, const struct blocks *b);

/* Of two blocks that alternate, count is of both. */
static void put_blocks(struct json_writer *w, const struct measured_run *run, const struct blocks *b, int64_t count,
                       put_second *put_first_second, put_second *put_other_second)
{
    bool windows = b->sliding_window > 0 && count % 2 == 0, pairs = windows || put_first_second != put_other_second;
    json_begin_object(w);
    json_put_int(w, "repeat", pairs ? count / 2 : count);
    json_write_key(w, "layers");
    json_begin_array(w);
    put_attention(w, run, b, windows ? b->sliding_window : 0);
    put_first_second(w, run, b);
    if (pairs) {
        put_attention(w, run, b, 0);
        put_other_second(w, run, b);
    }
    json_end_array(w);
    json_end_object(w);
}

static void put_model(struct json_writer *w, const struct measured_run *run, const struct blocks *b)
{
    bool tied = run->tied == ANSWER_NONE ? !b->rotary : run->tied == ANSWER_YES;
    json_begin_format(w, "cleave-model", 1);
    json_put_string(w, "name", *run->model ? run->model : "model");
    json_put_int(w, "sequence", run->seq_len);
    json_put_int(w, "hidden", run->hidden);
    json_put_int(w, "vocab_size", run->vocab);
    json_put_bool(w, "tied_embedding", tied);
    if (run->lora_dropout > 0) {
        json_write_key(w, "left_out");
        json_begin_object(w);
        json_put_double(w, "adapter_dropout", run->lora_dropout);
        json_end_object(w);
    }
    json_write_key(w, "layers");
    json_begin_array(w);
    begin_layer(w, "embedding");
    if (is_one_of(run->family, learned_families))
        json_put_int(w, "learned_positions", run->seq_len);
    if (!strcmp(run->family, "bloom"))
        json_put_string(w, "norm", "layer_norm");
    end_layer(w, run, no_matrices, false);
    if (b->alternating)
        put_blocks(w, run, b, run->layers, put_dense, put_experts);
    else if (run->layers > b->routed)
        put_blocks(w, run, b, run->layers - b->routed, put_dense, put_dense);
    if (!b->alternating && b->routed > 0)
        put_blocks(w, run, b, b->routed, put_experts, put_experts);
    begin_layer(w, "head");
    json_put_string(w, "norm", b->norm);
    end_layer(w, run, no_matrices, false);
    begin_layer(w, "loss");
    json_end_object(w);
    json_end_array(w);
    json_end_object(w);
}

static bool count_routed(struct blocks *b, struct mapping *m)
{
    const struct measured_run *run = m->run;
    bool of_llama4 = !strcmp(run->family, LLAMA4);
    if (!KNOWN(topk) || !KNOWN(moe_ffn) || (!of_llama4 && !KNOWN(moe_layers)))
        return false;
    b->routed = run->moe_layers;
    if (of_llama4) {
        int64_t step = run->n_experts == LLAMA4_SPARSE_EXPERTS ? 2 : 1;
        b->routed = run->layers / step;
        if (run->layers % step || (run->moe_layers != BLANK && run->moe_layers != b->routed))
            return fail(m->why, "no Llama 4 has these layers");
        b->alternating = step == 2;
    }
    return b->routed <= run->layers || fail(m->why, "moe_layers is more than layers");
}

bool measured_model(struct measured_case *out, struct mapping *m)
{
    const struct measured_run *run = m->run;
    struct blocks b = { .rotary = holds_one_of(run->family, rotary_families) };
    struct json_writer w = { 0 };
    if (!check_adapters(run, m->why))
        return false;
    bool hybrid = holds_one_of(run->family, hybrid_families);
    if (hybrid || is_one_of(run->family, sparse_families))
        return fail(m->why, hybrid ? "Mamba layers (hybrid model)" : "sparse attention");
    if (!b.rotary && !is_one_of(run->family, latent_families) && !holds_one_of(run->family, plain_families))
        out->unknown_family = true;
    if (out->unknown_family)
        mapping_stand_in(m, "its family is not known: layer norms, no rotary positions");
    b.latent = is_one_of(run->family, latent_families);
    for (size_t i = 0; i < sizeof feed_forwards / sizeof *feed_forwards && !b.activation; i++)
        if (!strcmp(run->ffn_kind, feed_forwards[i].kind))
            b.activation = feed_forwards[i].activation;
    if (!b.activation)
        return *run->ffn_kind ? fail(m->why, "no feed-forward block of kind %s", run->ffn_kind)
                              : fail(m->why, "row lacks the architecture");
    b.qk_norm = begins_with(run->family, QWEN3);
    b.gpt_oss = !strcmp(run->family, GPT_OSS);
    if (b.gpt_oss) {
        b.sliding_window = GPT_OSS_WINDOW;
        b.activation = "swiglu_clamped";
    }
    b.norm = b.rotary && strcmp(run->family, "nemotron4") ? "rms_norm" : "layer_norm";
    b.bias = b.gpt_oss || is_one_of(run->family, learned_families) || !strcmp(run->family, "bloom");
    if (!KNOWN(heads) || !KNOWN(hidden) || !KNOWN(layers) || !KNOWN(seq_len) || !KNOWN(vocab))
        return false;
    if (run->n_experts != BLANK && !count_routed(&b, m))
        return false;
    if (run->layers > b.routed && !KNOWN(ffn_hidden))
        return false;
    put_model(&w, run, &b);
    return mapping_on_one_line(&out->model, &w, m);
}
