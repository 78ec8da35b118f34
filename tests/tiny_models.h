/* Models small enough to run many plans of: hidden 32, 4 heads, 2 blocks, 8 tokens. */
#ifndef CLEAVE_TESTS_TINY_MODELS_H
#define CLEAVE_TESTS_TINY_MODELS_H
#include "executor/kernel.h"
#include "models/graph.h"
#include "models/model.h"
#include "planner/layout/layout.h"
#include "planner/lower/lower.h"
#include "tests/pipeline_shape.h"
#include "planner/program/program.h"
#include "planner/program/schedule.h"
#include "planner/verify/verify.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TINY_HEAD_OF(name, sequence, hidden, tied)                                                                     \
    "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"" name "\", \"sequence\": " sequence                   \
    ", \"hidden\": " hidden ", \"vocab_size\": 60, \"tied_embedding\": " tied ", \"layers\": ["
#define TINY_HEAD(name, tied) TINY_HEAD_OF(name, "8", "32", tied)
/* Numbers as text, or as what sprintf() takes them by: in the order in which the text has them. */
#define TINY_GPT_OF(name, sequence, hidden, tied, positions, blocks, heads, inner)                                     \
    TINY_HEAD_OF(name, sequence, hidden, tied)                                                                         \
    "{\"kind\": \"embedding\", \"learned_positions\": " positions "}, {\"repeat\": " blocks ", \"layers\": ["          \
    "{\"kind\": \"attention\", \"heads\": " heads                                                                      \
    ", \"qkv_bias\": true, \"output_bias\": true, \"norm\": \"layer_norm\"}, "                                         \
    "{\"kind\": \"mlp\", \"inner\": " inner                                                                            \
    ", \"activation\": \"gelu\", \"bias\": true, \"norm\": \"layer_norm\"}]}, "                                        \
    "{\"kind\": \"head\", \"norm\": \"layer_norm\"}, {\"kind\": \"loss\"}]}"
#define TINY_LLAMA_OF(name, sequence, hidden, tied, blocks, heads, kv_heads, inner)                                    \
    TINY_HEAD_OF(name, sequence, hidden, tied)                                                                         \
    "{\"kind\": \"embedding\"}, {\"repeat\": " blocks ", \"layers\": ["                                                \
    "{\"kind\": \"attention\", \"heads\": " heads ", \"kv_heads\": " kv_heads                                          \
    ", \"rope_base\": 10000, \"norm\": \"rms_norm\"}, "                                                                \
    "{\"kind\": \"mlp\", \"inner\": " inner ", \"activation\": \"swiglu\", \"norm\": \"rms_norm\"}]}, "                \
    "{\"kind\": \"head\", \"norm\": \"rms_norm\"}, {\"kind\": \"loss\"}]}"
#define TINY_GPT(name, tied) TINY_GPT_OF(name, "8", "32", tied, "8", "2", "4", "64")
#define TINY_LLAMA(name, tied) TINY_LLAMA_OF(name, "8", "32", tied, "2", "4", "2", "64")

/* Models that are no chains: cross attention to an encoder, long skips between repeats, two towers and parallel
 * branches. */
#define TINY_ENCODER_DECODER                                                                                           \
    TINY_HEAD("encdec", "true")                                                                                        \
    "{\"kind\": \"embedding\", \"name\": \"source\", \"stream\": \"source\"}, {\"kind\": \"attention\", \"name\": "    \
    "\"a\", \"heads\": 4, \"causal\": false, "                                                                         \
    "\"relative_table\": \"e\", \"relative_buckets\": 8, \"relative_distance\": 6, \"norm\": \"rms_norm\"}, "          \
    "{\"kind\": \"mlp\", \"name\": \"b\", \"inner\": 64, \"activation\": \"relu\", \"norm\": \"rms_norm\"}, "          \
    "{\"kind\": \"norm\", \"name\": \"encoder\", \"norm\": \"rms_norm\"}, "                                            \
    "{\"kind\": \"embedding\", \"shared_table\": true}, {\"repeat\": 2, \"layers\": ["                                 \
    "{\"kind\": \"attention\", \"heads\": 4, \"score_scale\": 1, \"relative_table\": \"d\", \"relative_buckets\": 6, " \
    "\"relative_distance\": 5, \"norm\": \"rms_norm\"}, "                                                              \
    "{\"kind\": \"cross_attention\", \"inputs\": [\"previous\", \"encoder\"], \"heads\": 4, \"kv_heads\": 2, "         \
    "\"qkv_bias\": true, \"norm\": \"rms_norm\"}]}, "                                                                  \
    "{\"kind\": \"head\", \"norm\": \"rms_norm\", \"logit_scale\": 2}, {\"kind\": \"loss\"}]}"
#define TINY_SKIPS                                                                                                     \
    TINY_HEAD("skips", "false")                                                                                        \
    "{\"kind\": \"embedding\", \"learned_positions\": 8}, {\"repeat\": 2, \"layers\": ["                               \
    "{\"kind\": \"attention\", \"name\": \"down\", \"heads\": 4, \"output_bias\": true, \"norm\": \"layer_norm\"}]}, " \
    "{\"kind\": \"mlp\", \"inner\": 64, \"activation\": \"geglu\", \"bias\": true, \"norm\": \"layer_norm\"}, "        \
    "{\"repeat\": 2, \"layers\": ["                                                                                    \
    "{\"kind\": \"concat\", \"inputs\": [\"previous\", \"down[last-copy]\"], \"bias\": true}, "                        \
    "{\"kind\": \"attention\", \"name\": \"up\", \"heads\": 4, \"norm\": \"layer_norm\"}]}, "                          \
    "{\"kind\": \"head\", \"norm\": \"layer_norm\"}, {\"kind\": \"loss\"}]}"
#define TINY_TOWERS                                                                                                    \
    TINY_HEAD("towers", "false")                                                                                       \
    "{\"kind\": \"embedding\", \"name\": \"left\", \"stream\": \"source\", \"learned_positions\": 8}, "                \
    "{\"kind\": \"mlp\", \"name\": \"left_mlp\", \"inner\": 64, \"activation\": \"gelu_erf\", \"norm\": "              \
    "\"layer_norm\"}, "                                                                                                \
    "{\"kind\": \"embedding\", \"name\": \"right\"}, {\"repeat\": 2, \"layers\": ["                                    \
    "{\"kind\": \"attention\", \"name\": \"side\", \"heads\": 4, \"kv_heads\": 2, \"rope_base\": 100, \"rope_dim\": "  \
    "4, "                                                                                                              \
    "\"residual\": false, \"norm\": \"rms_norm\"}, "                                                                   \
    "{\"kind\": \"mlp\", \"inputs\": [\"entry\"], \"inner\": 64, \"activation\": \"swiglu\", \"residual\": false, "    \
    "\"norm\": \"rms_norm\"}, {\"kind\": \"add\", \"inputs\": [\"entry\", \"side\", \"mlp\", \"side\"]}]}, "           \
    "{\"kind\": \"concat\", \"inputs\": [\"left_mlp\", \"previous\"]}, "                                               \
    "{\"kind\": \"head\", \"norm\": \"rms_norm\"}, {\"kind\": \"loss\"}]}"

/* Four experts; `more` begins with the choices per token. With slots for the mean of half a sequence choices are
 * dropped. */
#define TINY_EXPERTS(name, more)                                                                                       \
    TINY_HEAD(name, "false")                                                                                           \
    "{\"kind\": \"embedding\"}, {\"repeat\": 2, \"layers\": ["                                                         \
    "{\"kind\": \"attention\", \"heads\": 4, \"kv_heads\": 2, \"rope_base\": 10000, \"norm\": \"rms_norm\"}, "         \
    "{\"kind\": \"moe\", \"experts\": 4, \"inner\": 32, \"choices\": " more "\"norm\": "                               \
    "\"rms_norm\"}]}, {\"kind\": \"head\", \"norm\": \"rms_norm\"}, {\"kind\": \"loss\"}]}"
#define TINY_MOE(balance)                                                                                              \
    TINY_EXPERTS("moe", "2, \"group\": 4, \"shared_inner\": 16, \"activation\": \"swiglu\", \"capacity_factor\": 1, "  \
                        "\"balance_loss\": " balance ", ")
#define TINY_DROPLESS                                                                                                  \
    TINY_EXPERTS("dropless", "2, \"group\": 4, \"activation\": \"gelu\", \"gates\": \"softmax_of_all\", "              \
                             "\"capacity_factor\": 2, \"dropless\": true, ")

/* Sigmoids choose within one of two groups; and biased experts of clamped gates. */
#define TINY_SIGMOIDS                                                                                                  \
    TINY_EXPERTS("sigmoids", "2, \"group\": 4, \"shared_inner\": 16, \"shared_gate\": true, \"activation\": "          \
                             "\"swiglu\", \"gates\": \"sigmoid_of_chosen\", \"gate_scale\": 2.5, "                     \
                             "\"router_correction\": true, \"expert_groups\": 2, \"chosen_groups\": 1, "               \
                             "\"output_norm\": \"rms_norm\", \"residual_scale\": 0.5, \"capacity_factor\": 1, ")
#define TINY_BIASED_EXPERTS                                                                                            \
    TINY_EXPERTS("biased", "2, \"group\": 4, \"activation\": \"swiglu_clamped\", \"router_bias\": true, "              \
                           "\"expert_bias\": true, \"capacity_factor\": 2, \"dropless\": true, ")

/* For planning alone: one of each kind that no device computes. */
#define TINY_PLANNED                                                                                                   \
    TINY_HEAD("planned", "false")                                                                                      \
    "{\"kind\": \"embedding\"}, {\"repeat\": 2, \"layers\": ["                                                         \
    "{\"kind\": \"state_space\", \"name\": \"mamba\", \"version\": 1, \"inner\": 64, \"state\": 4, \"rank\": 2, "      \
    "\"norm\": \"rms_norm\"}, "                                                                                        \
    "{\"kind\": \"state_space\", \"name\": \"mamba2\", \"version\": 2, \"inner\": 64, \"state\": 8, \"heads\": 8, "    \
    "\"groups\": 4, \"norm_groups\": 4, \"chunk\": 4, \"bias\": true, \"norm\": \"rms_norm\"}, "                       \
    "{\"kind\": \"linear_attention\", \"heads\": 8, \"key_heads\": 4, \"key_dim\": 4, \"value_dim\": 8, \"chunk\": "   \
    "4, \"gate_rank\": 6, \"decay_rank\": 2, "                                                                         \
    "\"norm\": \"rms_norm\"}]}, "                                                                                      \
    "{\"repeat\": 2, \"layers\": [{\"kind\": \"mlp\", \"name\": \"common\", \"inner\": 64, \"activation\": "           \
    "\"squared_relu\", \"norm\": \"rms_norm\", \"shared\": \"a\"}]}, "                                                 \
    "{\"kind\": \"mlp\", \"name\": \"trunk\", \"inner\": 64, \"activation\": \"squared_relu\", \"norm\": "             \
    "\"rms_norm\"}, "                                                                                                  \
    "{\"kind\": \"multi_token\", \"norm\": \"rms_norm\"}, "                                                            \
    "{\"kind\": \"mlp\", \"name\": \"ahead\", \"inner\": 64, \"activation\": \"swiglu\", \"norm\": \"rms_norm\"}, "    \
    "{\"kind\": \"multi_token_loss\", \"inputs\": [\"trunk\", \"ahead\"], \"norm\": \"rms_norm\"}, "                   \
    "{\"kind\": \"head\", \"norm\": \"rms_norm\"}, {\"kind\": \"loss\"}]}"

/* Nothing is trained below the second attention layer, nor in the network above it, nor in the table that the head
 * shares. */
#define TINY_FROZEN                                                                                                    \
    TINY_HEAD("frozen", "true")                                                                                        \
    "{\"kind\": \"embedding\", \"learned_positions\": 8, \"frozen\": true}, "                                          \
    "{\"kind\": \"attention\", \"heads\": 4, \"qkv_bias\": true, \"norm\": \"layer_norm\", \"frozen\": true}, "        \
    "{\"kind\": \"mlp\", \"inner\": 64, \"activation\": \"gelu\", \"bias\": true, \"norm\": \"layer_norm\", "          \
    "\"frozen\": "                                                                                                     \
    "true}, "                                                                                                          \
    "{\"kind\": \"attention\", \"heads\": 4, \"output_bias\": true, \"norm\": \"layer_norm\"}, "                       \
    "{\"kind\": \"mlp\", \"inner\": 64, \"activation\": \"swiglu\", \"bias\": true, \"norm\": \"rms_norm\", "          \
    "\"frozen\": true}, {\"kind\": \"head\", \"norm\": \"layer_norm\", \"logit_scale\": "                              \
    "4}, {\"kind\": \"loss\"}]}"

/* A frozen Llama with adapters on every matrix of its first block, a frozen GPT block with some. The scale of the
 * first ones makes the gradient longer than what it is clipped to. */
#define TINY_LORA                                                                                                      \
    TINY_HEAD("lora", "true")                                                                                          \
    "{\"kind\": \"embedding\", \"frozen\": true}, "                                                                    \
    "{\"kind\": \"attention\", \"heads\": 4, \"kv_heads\": 2, \"rope_base\": 10000, \"norm\": \"rms_norm\", "          \
    "\"frozen\": true, \"lora_r\": 3, \"lora_alpha\": 90, \"target_modules\": [\"q_proj\", \"k_proj\", "               \
    "\"v_proj\", \"o_proj\"]}, "                                                                                       \
    "{\"kind\": \"mlp\", \"inner\": 64, \"activation\": \"swiglu\", \"norm\": \"rms_norm\", \"frozen\": true, "        \
    "\"lora_r\": 3, \"lora_alpha\": 90, \"target_modules\": [\"gate_proj\", \"up_proj\", \"down_proj\"]}, "            \
    "{\"kind\": \"attention\", \"heads\": 4, \"qkv_bias\": true, \"output_bias\": true, "                              \
    "\"norm\": \"layer_norm\", \"frozen\": true, \"lora_r\": 4, \"target_modules\": [\"q_proj\", \"v_proj\"]}, "       \
    "{\"kind\": \"mlp\", \"inner\": 64, \"activation\": \"gelu\", \"bias\": true, \"norm\": \"layer_norm\", "          \
    "\"frozen\": true, \"lora_r\": 3, \"target_modules\": [\"up_proj\"]}, "                                            \
    "{\"kind\": \"head\", \"norm\": \"rms_norm\", \"frozen\": true, \"logit_scale\": 4}, {\"kind\": \"loss\"}]}"

/* Ten tokens, the class token among them; behind it, what is pooled. */
#define TINY_IMAGES(name, size, hidden)                                                                                \
    "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"" name "\", \"image_size\": " size ", " hidden         \
    "\"vocab_size\": 60, \"layers\": ["
#define TINY_VIT                                                                                                       \
    TINY_IMAGES("vit", "12", "\"hidden\": 32, ")                                                                       \
    "{\"kind\": \"patches\", \"patch\": 4}, {\"repeat\": 2, \"layers\": ["                                             \
    "{\"kind\": \"attention\", \"heads\": 4, \"causal\": false, \"qkv_bias\": true, \"bare_keys\": true, "             \
    "\"output_bias\": true, "                                                                                          \
    "\"norm\": \"layer_norm\"}, "                                                                                      \
    "{\"kind\": \"mlp\", \"inner\": 64, \"activation\": \"gelu_erf\", \"bias\": true, \"norm\": \"layer_norm\"}]}, "   \
    "{\"kind\": \"pool\", \"pool\": \"first\"}, "                                                                      \
    "{\"kind\": \"head\", \"norm\": \"layer_norm\", \"bias\": true}, {\"kind\": \"loss\"}]}"
/* A stem, a residual block that keeps the shape and one that halves the image. */
#define TINY_RESNET                                                                                                    \
    TINY_IMAGES("resnet", "8", "")                                                                                     \
    "{\"kind\": \"conv\", \"channels\": 8, \"window\": 3, \"padding\": 1, \"norm_groups\": 2, "                        \
    "\"activation\": \"relu\"}, "                                                                                      \
    "{\"kind\": \"pool\", \"name\": \"stem\", \"pool\": \"max\", \"window\": 3, \"stride\": 2, \"padding\": 1}, "      \
    "{\"kind\": \"conv\", \"channels\": 8, \"window\": 3, \"padding\": 1, \"bias\": true, \"norm_groups\": 4}, "       \
    "{\"kind\": \"add\", \"name\": \"first\", \"inputs\": [\"previous\", \"stem\"], \"activation\": \"relu\"}, "       \
    "{\"kind\": \"conv\", \"name\": \"conv3\", \"channels\": 12, \"window\": 3, \"stride\": 2, \"padding\": 1, "       \
    "\"norm_groups\": 2}, "                                                                                            \
    "{\"kind\": \"conv\", \"name\": \"short\", \"inputs\": [\"first\"], \"channels\": 12, \"window\": 1, "             \
    "\"stride\": 2, \"norm_groups\": 2}, "                                                                             \
    "{\"kind\": \"add\", \"inputs\": [\"conv3\", \"short\"], \"activation\": \"relu\"}, "                              \
    "{\"kind\": \"conv\", \"channels\": 16, \"window\": 1, \"bias\": true, \"activation\": \"relu\"}, "                \
    "{\"kind\": \"pool\", \"pool\": \"average\"}, "                                                                    \
    "{\"kind\": \"head\", \"norm\": \"none\", \"bias\": true}, {\"kind\": \"loss\"}]}"

/* Latent attention, and attention over a sliding window. */
#define TINY_LATENT                                                                                                    \
    TINY_HEAD("latent", "false")                                                                                       \
    "{\"kind\": \"embedding\"}, {\"repeat\": 2, \"layers\": ["                                                         \
    "{\"kind\": \"latent_attention\", \"heads\": 4, \"query_rank\": 12, \"kv_rank\": 8, \"plain_dim\": 6, "            \
    "\"rope_dim\": "                                                                                                   \
    "4, \"value_dim\": 8, \"norm\": \"rms_norm\"}, "                                                                   \
    "{\"kind\": \"attention\", \"heads\": 4, \"kv_heads\": 2, \"sliding_window\": 3, \"rope_base\": 10000, \"norm\": " \
    "\"rms_norm\"}, "                                                                                                  \
    "{\"kind\": \"mlp\", \"inner\": 64, \"activation\": \"squared_relu\", \"norm\": \"rms_norm\"}]}, "                 \
    "{\"kind\": \"head\", \"norm\": \"rms_norm\"}, {\"kind\": \"loss\"}]}"

/* What language models have beside Llama's layers: norms of queries, keys and outputs, caps (Gemma 2 and 3); norms
 * over all heads, sinks, gates and scaled sums (OLMo 2, GPT-OSS, Qwen3-Next, Granite); branches side by side behind
 * one norm, slopes by distance, a head with a matrix of its own (Falcon, Command R+, BERT). */
#define TINY_CAPPED                                                                                                    \
    TINY_HEAD("capped", "true")                                                                                        \
    "{\"kind\": \"embedding\", \"scale\": 3, \"width\": 20, \"wide_positions\": true, \"learned_positions\": 8}, "     \
    "{\"repeat\": 2, \"layers\": ["                                                                                    \
    "{\"kind\": \"attention\", \"heads\": 4, \"kv_heads\": 2, \"head_dim\": 6, \"rope_base\": 100, \"norm\": "         \
    "\"rms_norm\", "                                                                                                   \
    "\"qk_norm\": \"head\", \"sliding_window\": 5, \"score_cap\": 2, \"output_norm\": \"rms_norm\"}, "                 \
    "{\"kind\": \"mlp\", \"inner\": 64, \"activation\": \"geglu_erf\", \"norm\": \"rms_norm\", \"output_norm\": "      \
    "\"rms_norm\"}]}, "                                                                                                \
    "{\"kind\": \"head\", \"norm\": \"rms_norm\", \"logit_cap\": 2, \"width\": 20}, {\"kind\": \"loss\"}]}"
#define TINY_SINKS                                                                                                     \
    TINY_HEAD("sinks", "false")                                                                                        \
    "{\"kind\": \"embedding\"}, {\"repeat\": 2, \"layers\": ["                                                         \
    "{\"kind\": \"attention\", \"heads\": 4, \"kv_heads\": 2, \"rope_base\": 10000, \"norm\": \"none\", \"qk_norm\": " \
    "\"whole\", "                                                                                                      \
    "\"output_norm\": \"rms_norm\", \"output_bias\": true, \"sinks\": true, \"output_gate\": true}, "                  \
    "{\"kind\": \"mlp\", \"inner\": 64, \"activation\": \"silu\", \"bias\": true, \"norm\": \"none\", "                \
    "\"output_norm\": \"layer_norm\", \"residual_scale\": 0.6}, "                                                      \
    "{\"kind\": \"mlp\", \"inner\": 64, \"activation\": \"swiglu\", \"norm\": \"rms_norm\", \"residual_scale\": "      \
    "0.3}]}, "                                                                                                         \
    "{\"kind\": \"head\", \"norm\": \"rms_norm\"}, {\"kind\": \"loss\"}]}"
#define TINY_PARALLEL                                                                                                  \
    TINY_HEAD("parallel", "false")                                                                                     \
    "{\"kind\": \"embedding\", \"learned_positions\": 10, \"token_types\": 2, \"norm\": \"layer_norm\", "              \
    "\"width\": 24, \"width_bias\": true}, "                                                                           \
    "{\"repeat\": 2, \"layers\": [{\"kind\": \"norm\", \"name\": \"in\", \"norm\": \"layer_norm_no_bias\"}, "          \
    "{\"kind\": \"attention\", \"name\": \"side\", \"heads\": 4, \"kv_heads\": 1, \"alibi\": true, \"causal\": "       \
    "false, \"sliding_window\": 4, \"qk_norm\": "                                                                      \
    "\"each_head\", "                                                                                                  \
    "\"qk_norm_kind\": \"layer_norm_no_bias\", \"residual\": false, \"norm\": \"none\"}, "                             \
    "{\"kind\": \"mlp\", \"inputs\": [\"in\"], \"inner\": 64, \"activation\": \"quick_gelu\", \"residual\": false, "   \
    "\"norm\": \"none\"}, "                                                                                            \
    "{\"kind\": \"add\", \"inputs\": [\"entry\", \"side\", \"mlp\"]}]}, "                                              \
    "{\"kind\": \"head\", \"norm\": \"none\", \"bias\": true, \"transform\": true, \"width\": 16}, {\"kind\": "        \
    "\"loss\"}]}"

enum {
    TINY_BATCH = 8,
    TINY_SEQUENCE = 8,
    TINY_VOCAB = 60,
    TINY_VOCAB_MULTIPLE = 64,
    TINY_MODELS = 17,
    TINY_CHAINS = 4,
    TINY_MIXTURE = 7,
    TINY_HALF_FROZEN = 8,
    TINY_ADAPTED = 9,
    TINY_SEEING = 10 /* from here on processors alone run them: images, latent attention, windows, caps and more */
};
static const char *const tiny_models[TINY_MODELS] = {
    TINY_GPT("tied-gpt", "true"),
    TINY_GPT("untied-gpt", "false"),
    TINY_LLAMA("untied-llama", "false"),
    TINY_LLAMA("tied-llama", "true"),
    TINY_ENCODER_DECODER,
    TINY_SKIPS,
    TINY_TOWERS,
    TINY_MOE("0.02"),
    TINY_FROZEN,
    TINY_LORA,
    TINY_VIT,
    TINY_RESNET,
    TINY_LATENT,
    TINY_CAPPED,
    TINY_SINKS,
    TINY_PARALLEL,
    TINY_SIGMOIDS,
};

static inline struct model *tiny_model(const char *json)
{
    struct model *model;
    struct error error = { 0 };
    if (!model_read(&model, "tiny", json, strlen(json), NULL, &error)) {
        fprintf(stderr, "%s\n", error.message);
        abort(); /* also called where no test runs */
    }
    return model;
}

static inline struct graph *tiny_graph_padded(const char *json, int batch, int vocab_multiple)
{
    struct model *model = tiny_model(json);
    struct graph *graph;
    struct error error = { 0 };
    if (!graph_build(&graph, model, batch, 0, vocab_multiple, &error)) {
        fprintf(stderr, "%s\n", error.message);
        abort();
    }
    model_free(model);
    return graph;
}

static inline struct graph *tiny_graph_of(const char *json, int batch)
{
    return tiny_graph_padded(json, batch, TINY_VOCAB_MULTIPLE);
}

static inline struct graph *tiny_graph(const char *json)
{
    return tiny_graph_of(json, TINY_BATCH);
}

/* Ready to run, or NULL. */
static inline struct program *tiny_lower(const struct graph *graph, const struct plan *plan, struct error *err)
{
    struct program *program = NULL;
    if (!lower_program(&program, graph, plan, err))
        return NULL;
    if (layout_program(program, err) && verify_program(program, err))
        return program;
    program_free(program);
    return NULL;
}

struct tiny_choice {
    int dp, tp, pp, tp_dim, zero, recompute, schedule, micro, bucket, prefetch, slices, offload, reshard;
    uint32_t replicate; /* operators */
    uint64_t excepted;  /* likewise */
    double clip;
    const char *named;                        /* a schedule, instead of its number */
    int chunks, turns[4], outer[4], inner[4]; /* by stage; 0: one chunk, one replica, dp, tp */
    bool server;                              /* data parallel through a parameter server */
    int loss_chunks;                          /* 0: one */
};

/* Stages of about equal layer counts; atom 0 is dp, atom 1 is tp. */
static inline struct plan *tiny_plan(const struct graph *graph, const struct tiny_choice *c)
{
    int schedule = c->named ? schedule_find(c->named) : c->schedule;
    struct shape shape = { .stages = c->pp,
                           .chunks = c->chunks,
                           .atom = { c->dp, c->tp },
                           .folded = schedules[schedule]->folded,
                           .copies = schedules[schedule]->copies };
    memcpy(shape.turns, c->turns, sizeof c->turns);
    memcpy(shape.outer, c->outer, sizeof c->outer);
    memcpy(shape.inner, c->inner, sizeof c->inner);
    struct plan *plan = shape_plan(&shape, graph->layer_count);
    plan->batch = graph->batch, plan->sequence = graph->sequence;
    plan->vocab_multiple = graph->vocab_padded ? graph->vocab_padded : TINY_VOCAB_MULTIPLE; /* of any multiple */
    plan->dtype = sizeof(real) == sizeof(double) ? DTYPE_FP64 : DTYPE_FP32;
    plan->schedule = schedule, plan->micro_batch_count = c->micro;
    plan->bucket_bytes = c->bucket, plan->prefetch = c->prefetch, plan->clip_norm = c->clip;
    plan->loss_chunks = c->loss_chunks > 0 ? c->loss_chunks : 1;
    for (int l = 0; l < graph->layer_count; l++)
        plan->layers[l] = (struct plan_layer){ .dim = { c->server ? DIM_ps : DIM_dp, (int8_t)c->tp_dim },
                                               .zero = (int8_t)c->zero,
                                               .recompute = (int8_t)c->recompute,
                                               .offload = (int8_t)c->offload,
                                               .reshard = (int8_t)c->reshard,
                                               .replicate = c->replicate,
                                               .excepted = c->excepted,
                                               .slices = (int16_t)(c->slices > 0 ? c->slices : 1) };
    return plan;
}

/* dp x ep x something beside it, in all layers or in those with experts, the others data parallel over all; with empty
 * slots, dropped choices or neither. */
static inline struct plan *mixture_plan(const struct graph *graph, int n)
{
    static const int8_t beside[] = { DIM_none,    DIM_tp,       DIM_tp_sp,      DIM_tp_deferred, DIM_cp_gather,
                                     DIM_cp_ring, DIM_tp_sp_ep, DIM_cp_ring_ep, DIM_cp_gather_ep };
    int ep = n % 3 == 2 ? 4 : 2, third = n % 2 ? 2 : 1, pp = ep * third < 8 && n / 2 % 3 == 2 ? 2 : 1;
    int dp = 8 / (ep * third * pp), micro = 1 + (n / 3 % 2 && ep * dp < 8);
    struct tiny_choice c = { .dp = dp, .tp = ep, .pp = pp, .micro = micro, .clip = 1 };
    struct plan *plan = tiny_plan(graph, &c);
    plan->bucket_bytes = n % 5 < 3 ? 0 : 1 << 12;
    plan->prefetch = n / 3 % 3;
    plan->atom_count = 3;
    plan->rank_count *= third;
    for (int s = 0; s < pp; s++) {
        plan->stages[s].atom[2] = third;
        plan->stages[s].first_rank *= third;
    }
    for (int l = 0; l < plan->layer_count; l++) {
        struct plan_layer *layer = &plan->layers[l];
        bool experts = strcmp(graph->layers[l].kind, "moe") == 0;
        layer->dim[1] = experts || n % 4 < 2 ? DIM_ep : DIM_dp;
        layer->dim[2] = beside[n / 2 % (int)sizeof beside];
        layer->zero = (int8_t)(n / 4 % 4);
        layer->recompute = (int8_t)(n / 5 % RECOMPUTE_COUNT);
        layer->slices = (int16_t)(n % 7 == 3 ? 2 : 1);
    }
    return plan;
}
#endif
