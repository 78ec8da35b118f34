#include "base/num.h"
#include "cli/measured_case.h"
#include "cli/measured_device.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Networks whose words say another rate than the device's: bytes per second of a node, of which the device reaches its
 * share. Omni-Path is Jean Zay's, whose four links carried 135 Gb/s of a node together (Bekman, Machine Learning
 * Engineering, network/README.md; bigscience-workshop/bigscience, experiments/README.md), 0.9 of this. */
static const struct {
    const char *words;
    double node_bytes_per_s;
} networks[] = { { "Omni-Path", 18.75e9 }, { "1600 Gb/s", 200e9 }, { "800 Gb/s per node", 100e9 } };
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
#define EXCHANGES_OVERLAP "moe a2a overlap"
/* Frameworks by the beginning of their names, in letters of any case, by whether their attention is fused (any, where
 * there is no answer), and by what notes, graphs or the type say. */
static const struct {
    const char *words;
    enum answer fused;
    const char *framework;
    const char *says, *also; /* NULL: whatever they say */
} frameworks[] = { { "Megatron-DeepSpeed", ANSWER_NONE, "megatron-deepspeed-blocking", "CUDA_LAUNCH_BLOCKING=1", NULL },
                   { "Megatron-DeepSpeed", ANSWER_NONE, "megatron-deepspeed", NULL, NULL },
                   { "Megatron-Core", ANSWER_NONE, "megatron-core-graphs-overlap", "full_iteration",
                     EXCHANGES_OVERLAP },
                   { "Megatron-Core", ANSWER_NONE, "megatron-core-flex-overlap", "deepep", EXCHANGES_OVERLAP },
                   { "Megatron-Core", ANSWER_NONE, "megatron-core-flex-overlap", "hybridep", EXCHANGES_OVERLAP },
                   { "Megatron-Core", ANSWER_NONE, "megatron-core-graphs", "full_iteration", NULL },
                   { "Megatron-Core", ANSWER_NONE, "megatron-core-flex", "deepep", NULL },
                   { "Megatron-Core", ANSWER_NONE, "megatron-core-flex", "hybridep", NULL },
                   { "Megatron-LM", ANSWER_NO, "megatron-lm", NULL, NULL },
                   { "Megatron-LM", ANSWER_NONE, "megatron-lm-te", NULL, NULL },
                   { "NeMo Megatron", ANSWER_NO, "megatron-lm", NULL, NULL },
                   { "NeMo", ANSWER_NONE, "megatron-core", NULL, NULL },
                   { "Megatron-Core", ANSWER_NO, "megatron-lm-unfused", NULL, NULL },
                   { "Megatron-Core (Megatron-Bridge", ANSWER_NONE, "megatron-core", NULL, NULL },
                   { "Megatron-Core", ANSWER_NONE, "megatron-lm-te", NULL, NULL },
                   { "DeepSpeed", ANSWER_YES, "deepspeed-transformers", NULL, NULL },
                   { "DeepSpeed", ANSWER_NONE, "deepspeed", NULL, NULL },
                   { "PyTorch FSDP (llm-foundry)", ANSWER_NONE, "llm-foundry", NULL, NULL },
                   { "torchtitan FSDP2 + torch.compile", ANSWER_NONE, "torchtitan-compile", "rowwise", NULL },
                   { "torchtitan FSDP2 + torch.compile", ANSWER_NONE, "torchtitan-tensorwise", "fp8", NULL },
                   { "torchtitan FSDP2 + torch.compile", ANSWER_NONE, "torchtitan-compile", NULL, NULL },
                   { "torchtitan", ANSWER_NONE, "torchtitan", NULL, NULL },
                   { "Megatron-Bridge", ANSWER_NONE, "megatron-core", NULL, NULL },
                   { "accelerate", ANSWER_NONE, "accelerate-fsdp2", NULL, NULL },
                   { "MaxText", ANSWER_NONE, "maxtext", NULL, NULL },
                   { "PaxML", ANSWER_NONE, "maxtext", NULL, NULL },
                   { "cleave", ANSWER_NONE, "cleave", NULL, NULL },
                   { "llm.c", ANSWER_NONE, "cleave", NULL, NULL },
                   { "nnScaler", ANSWER_NONE, "cleave", NULL, NULL },
                   { "Alpa", ANSWER_NONE, "cleave", NULL, NULL } };
/* Frameworks that reduce gradients after the last backward pass, by the beginning of their names. */
static const char *const late_reducers[] = { "Megatron-LM", "Megatron-DeepSpeed", "Alpa/JAX", NULL };

static bool begins_with(const char *text, const char *words)
{
    return strncmp(text, words, strlen(words)) == 0;
}

static bool is_run_by(const struct measured_run *run, const char *words)
{
    return strncasecmp(run->framework, words, strlen(words)) == 0;
}

static bool says(const struct measured_run *run, const char *words)
{
    return strstr(run->notes, words) || strcmp(run->dtype, words) == 0 ||
           (!begins_with(run->cuda_graph, "none") && strstr(run->cuda_graph, words));
}

static bool is_one_of(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (!strcmp(text, *words))
            return true;
    return false;
}

static bool holds_one_of(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strstr(text, *words))
            return true;
    return false;
}

struct mapping {
    const struct measured_run *run;
    struct arena *arena;
    struct error *why;
    struct text standin;
    const char *device, *framework; /* framework: asked for instead of the row's; NULL: the row's */
};

static void stand_in(struct mapping *m, const char *words)
{
    text_printf(&m->standin, "%s%s", m->standin.length ? "; " : "", words);
}

static bool known(const struct mapping *m, int64_t value, const char *column)
{
    return value != BLANK || fail(m->why, "row lacks %s", column);
}
#define KNOWN(member) known(m, m->run->member, #member)

/* What was written, on one line: no text in it has a line break that is not an escape. */
static bool on_one_line(const char **out, struct json_writer *w, struct mapping *m)
{
    size_t length = 0;
    char *text = json_finish(w, &length), *to = text;
    for (const char *p = text; p && *p; p++)
        if (*p == '\n')
            p += strspn(p + 1, " ");
        else
            *to++ = *p;
    *out = text ? arena_strndup(m->arena, text, (size_t)(to - text)) : NULL;
    free(text);
    return *out || fail_memory(m->why);
}

/* ---- the model ---- */
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
    json_end_object(w);
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
    json_end_object(w);
}

static void put_dense(struct json_writer *w, const struct measured_run *run, const struct blocks *b)
{
    begin_layer(w, "mlp");
    json_put_int(w, "inner", run->ffn_hidden);
    json_put_string(w, "activation", b->activation);
    json_put_string(w, "norm", b->norm);
    json_put_bool(w, "bias", b->bias && run->n_experts == BLANK);
    json_end_object(w);
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
    json_end_object(w);
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
    json_write_key(w, "layers");
    json_begin_array(w);
    begin_layer(w, "embedding");
    if (is_one_of(run->family, learned_families))
        json_put_int(w, "learned_positions", run->seq_len);
    if (!strcmp(run->family, "bloom"))
        json_put_string(w, "norm", "layer_norm");
    json_end_object(w);
    if (b->alternating)
        put_blocks(w, run, b, run->layers, put_dense, put_experts);
    else if (run->layers > b->routed)
        put_blocks(w, run, b, run->layers - b->routed, put_dense, put_dense);
    if (!b->alternating && b->routed > 0)
        put_blocks(w, run, b, b->routed, put_experts, put_experts);
    begin_layer(w, "head");
    json_put_string(w, "norm", b->norm);
    json_end_object(w);
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

static bool make_model(struct measured_case *out, struct mapping *m)
{
    const struct measured_run *run = m->run;
    struct blocks b = { .rotary = holds_one_of(run->family, rotary_families) };
    struct json_writer w = { 0 };
    bool hybrid = holds_one_of(run->family, hybrid_families);
    if (hybrid || is_one_of(run->family, sparse_families))
        return fail(m->why, hybrid ? "Mamba layers (hybrid model)" : "sparse attention");
    if (!b.rotary && !is_one_of(run->family, latent_families) && !holds_one_of(run->family, plain_families))
        out->unknown_family = true;
    if (out->unknown_family)
        stand_in(m, "its family is not known: layer norms, no rotary positions");
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
    return on_one_line(&out->model, &w, m);
}

/* ---- the cluster ---- */

/* GPUs within the inner level. Of GB200 and GB300 that is the NVLink domain of up to 72, not the tray of 4: the first
 * part of one that divides all, where 64, the power of two, comes before 72. */
static int64_t inner_devices(const struct measured_run *run)
{
    static const int domains[] = { 64, 72, 48, 36, 32 };
    if (!strstr(run->gpu, "GB200") && !strstr(run->gpu, "GB300"))
        return run->gpus_per_node;
    if (run->n_gpus <= 72)
        return run->n_gpus;
    for (size_t i = 0; i < sizeof domains / sizeof *domains; i++)
        if (run->n_gpus % domains[i] == 0)
            return domains[i];
    return 4;
}

static void put_level(struct json_writer *w, const char *name, int64_t fanout, double bytes_per_s)
{
    json_begin_object(w);
    json_put_string(w, "name", name);
    json_put_int(w, "fanout", fanout);
    if (bytes_per_s > 0)
        json_put_double(w, "bytes_per_s", bytes_per_s);
    json_end_object(w);
}

static bool make_cluster(struct measured_case *out, struct mapping *m, const struct catalogue *catalogue)
{
    const struct measured_run *run = m->run;
    struct json_writer w = { 0 };
    if (!*run->gpu)
        return fail(m->why, "row lacks gpu");
    m->device = measured_device(run->gpu, catalogue->entries, catalogue->count);
    if (!m->device)
        return fail(m->why, "no device %s in the catalogue (\"cleave devices\" lists what is)", run->gpu);
    if (!KNOWN(n_gpus) || !KNOWN(gpus_per_node))
        return false;
    int64_t inner = inner_devices(run), nodes = run->n_gpus / inner;
    if (run->n_gpus > inner && run->n_gpus % inner)
        return fail(m->why, "devices do not fill whole nodes");
    json_begin_format(&w, "cleave-cluster", 1);
    json_put_string(&w, "device", m->device);
    json_write_key(&w, "levels");
    json_begin_array(&w);
    put_level(&w, "node", min_i64(run->n_gpus, inner), 0);
    if (nodes > 1) {
        double bytes_per_s = 0;
        for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
            if (strstr(run->inter_link, networks[i].words))
                bytes_per_s = networks[i].node_bytes_per_s / (double)inner;
        put_level(&w, "cluster", nodes, bytes_per_s);
        if (!*run->inter_link)
            stand_in(m, "network of the catalogue");
    }
    json_end_array(&w);
    json_end_object(&w);
    return on_one_line(&out->cluster, &w, m);
}

/* ---- the choices ---- */

static bool choose_dtype(struct measured_case *out, struct mapping *m)
{
    static const char *const fp8[] = { "fp8", "mxfp8", "fp8-rowwise", NULL };
    const char *dtype = m->run->dtype;
    if (!strcmp(dtype, "tf32"))
        return fail(m->why, "dtype tf32");
    bool half = begins_with(m->device, "v100") || is_run_by(m->run, "Megatron-DeepSpeed");
    out->dtype = is_one_of(dtype, fp8) ? "fp8" : *dtype ? dtype : half ? "fp16" : "bf16";
    return true;
}

/* What notes say of layers whose activations go to host memory; a layer of theirs is two here, behind the embedding. */
static void choose_offload(struct text *fix, const struct mapping *m)
{
    static const char words[] = "activation offload to CPU for ";
    const char *at = strstr(m->run->notes, words);
    long layers = at ? strtol(at + strlen(words), NULL, 10) : 0;
    if (layers > 0 && layers <= m->run->layers)
        text_printf(fix, ",layer[1-%ld].offload=activations", 2 * layers);
}

/* Adds the operators that one of Megatron-Core's recompute_modules forgets (megatron/core/transformer/
 * transformer_config.py, and where each is checkpointed). What a module makes last nothing reads backward. */
static bool add_module(struct text *operators, const char *name, int length)
{
    static const struct {
        const char *name, *operators;
    } modules[] = {
        { "core_attn", "core" },
        { "layernorm", "norm" },
        { "mla_up_proj", "q+k+v+rope_q+join_k" },
        { "mlp", "gate+up+act" },
        { "moe_act", "expert_act" },
        { "shared_experts", "shared_gate+shared_up+shared_act" },
        { "moe", "dispatch+expert_gate+expert_up+expert_act+expert_down+shared_gate+shared_up+shared_act" },
    };
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if ((int)strlen(modules[i].name) == length && !strncmp(modules[i].name, name, (size_t)length)) {
            text_printf(operators, "%s%s", operators->length > 0 ? "+" : "", modules[i].operators);
            return true;
        }
    return false;
}

/* Modules joined by +. */
static bool choose_modules(struct text *fix, const char *modules)
{
    struct text operators = { 0 };
    bool known = true;
    while (known && *modules) {
        int length = (int)strcspn(modules, "+");
        known = add_module(&operators, modules, length);
        modules += length + (modules[length] == '+');
    }
    if (known)
        text_printf(fix, ",recompute-except=%s", operators.data);
    text_free(&operators);
    return known;
}

/* Adam and AdamW keep as much and cost as much. */
static void choose_optimizer(struct measured_case *out, struct mapping *m)
{
    const char *optimizer = m->run->optimizer;
    char words[128];
    if (strstr(optimizer, "muon"))
        out->optimizer = "muon";
    else if (*optimizer && !strstr(optimizer, "adam")) {
        snprintf(words, sizeof words, "optimizer %.64s as adamw", optimizer);
        stand_in(m, words);
    }
}

static void choose_recomputation(struct text *fix, struct mapping *m)
{
    static const char *const choices[] = { "none", "full", "selective", NULL };
    const char *recompute = m->run->recompute;
    char words[128];
    int kind = (int)strcspn(recompute, ":");
    if (begins_with(recompute, "selective:") && choose_modules(fix, recompute + kind + 1))
        return;
    if (is_one_of(recompute, choices))
        text_printf(fix, ",recompute=%s", recompute);
    else if (begins_with(recompute, "full:"))
        text_add(fix, ",recompute=full");
    else if (begins_with(recompute, "custom:remat save_qkv_proj")) /* MaxText saves what these three make */
        text_add(fix, ",recompute=full,recompute-except=q+k+v");
    else {
        snprintf(words, sizeof words, "recompute %.*s of single operators as none", kind, recompute);
        stand_in(m, kind ? words : "recompute not stated: none");
    }
}

static bool choose(struct measured_case *out, struct mapping *m)
{
    const struct measured_run *run = m->run;
    struct text fix = { 0 };
    bool tensor = run->tp > 1, experts = run->n_experts != BLANK && run->ep > 1, late = run->dp_overlap == ANSWER_NO;
    if (!KNOWN(tp) || !KNOWN(pp) || !KNOWN(dp) || !KNOWN(micro_batch) || !KNOWN(global_batch))
        return false;
    if ((double)run->tp * (double)run->pp * (double)run->cp * (double)run->dp != (double)run->n_gpus)
        return fail(m->why, "tp*pp*cp*dp is not the number of devices");
    /* Ranks of context come first, and before them those of a tensor degree that splits no expert. */
    int64_t ranks = run->tp * run->cp;
    bool whole = experts && tensor && run->etp == 1 && run->seq_par == ANSWER_YES && run->ep % ranks == 0 &&
                 run->dp % (run->ep / ranks) == 0;
    bool context = experts && run->ep % run->cp == 0 && run->dp % (run->ep / run->cp) == 0;
    int64_t inside = whole ? ranks : context ? run->cp : 1;
    if (experts && run->dp % (run->ep / inside))
        return fail(m->why, "experts over ranks that are not data ranks (ep does not divide dp)");
    text_printf(&fix, "tp=%lld,pp=%lld,dp=%lld,zero=%lld,micro-batch=%lld", (long long)run->tp, (long long)run->pp,
                (long long)run->dp, (long long)run->zero_stage, (long long)run->micro_batch);
    if (run->seq_par == ANSWER_YES && tensor)
        text_add(&fix, ",sp=true");
    if (run->cp > 1)
        text_printf(&fix, ",cp=%lld,cp-by=cp-ring", (long long)run->cp);
    if (experts)
        text_printf(&fix, ",ep=%lld", (long long)run->ep);
    if (inside > 1)
        text_printf(&fix, ",ep-over=%s", whole ? "tensor" : "context");
    if (says(run, "multi_dist_optimizer_instances") && run->dp % 4 == 0) /* Megatron-LM's tests have two */
        text_printf(&fix, ",hsdp=%lld", (long long)run->dp / 2);
    if (experts && run->etp != BLANK && run->etp != run->tp && !whole)
        stand_in(m, "etp as tp");
    if (experts && run->etp == BLANK && tensor)
        stand_in(m, "etp not stated: as tp");
    if (run->vp > 1)
        text_printf(&fix, ",schedule=interleaved,interleave=%lld", (long long)run->vp);
    if (experts && says(run, EXCHANGES_OVERLAP)) /* Megatron-Core has one more in flight, whose passes are paired */
        text_add(&fix, ",extra-in-flight=1");
    choose_recomputation(&fix, m);
    choose_offload(&fix, m);
    choose_optimizer(out, m);
    if (is_run_by(run, "torchtitan") && run->zero_stage == 3 && run->pp > 1)
        text_add(&fix, ",reshard=false"); /* its default where there are stages */
    for (int i = 0; late_reducers[i] && run->dp_overlap == ANSWER_NONE; i++)
        late = late || is_run_by(run, late_reducers[i]);
    if (late)
        text_add(&fix, ",bucket=1TiB"); /* one bucket of everything: it is full when the backward pass ends */
    out->framework = m->framework;
    for (size_t i = sizeof frameworks / sizeof *frameworks; i-- > 0 && !m->framework;)
        if (is_run_by(run, frameworks[i].words) && (!frameworks[i].says || says(run, frameworks[i].says)) &&
            (!frameworks[i].also || says(run, frameworks[i].also)) &&
            (frameworks[i].fused == ANSWER_NONE || frameworks[i].fused == (enum answer)run->flash_attn))
            out->framework = frameworks[i].framework;
    if (!out->framework && *run->framework) {
        stand_in(m, "its framework is not known: as cleave");
        out->unknown_framework = true;
    }
    out->framework = out->framework ? out->framework : "cleave";
    out->batch = run->global_batch;
    out->sequence = run->seq_len;
    out->fix = fix.failed ? NULL : arena_strdup(m->arena, fix.data);
    text_free(&fix);
    return out->fix || fail_memory(m->why);
}

/* In single quotes, as a shell takes it. */
static bool keep_words(struct measured_case *out, struct mapping *m)
{
    struct text command = { 0 };
    text_add(&command, "cleave estimate ");
    text_add_quoted(&command, out->model);
    text_add(&command, " --cluster ");
    text_add_quoted(&command, out->cluster);
    text_printf(&command, " --batch %lld --seq %lld --dtype ", (long long)out->batch, (long long)out->sequence);
    text_add_quoted(&command, out->dtype);
    text_add(&command, " --framework ");
    text_add_quoted(&command, out->framework);
    if (out->optimizer)
        text_printf(&command, " --optimizer %s", out->optimizer);
    text_printf(&command, " --fix %s --json", out->fix);
    out->command = command.failed ? NULL : arena_strdup(m->arena, command.data);
    out->standin = m->standin.failed ? NULL : arena_strdup(m->arena, m->standin.data ? m->standin.data : "");
    text_free(&command);
    return (out->command && out->standin) || fail_memory(m->why);
}

bool measured_case_of(struct measured_case *out, const struct measured_run *run, const char *framework,
                      const struct catalogue *catalogue, struct arena *arena, struct error *why)
{
    struct mapping m = { .run = run, .arena = arena, .why = why, .framework = framework };
    struct measured_case made = { 0 };
    bool good = make_model(&made, &m) && make_cluster(&made, &m, catalogue) && choose_dtype(&made, &m) &&
                choose(&made, &m) && keep_words(&made, &m);
    text_free(&m.standin);
    made.device = m.device;
    if (good)
        *out = made;
    return good;
}
