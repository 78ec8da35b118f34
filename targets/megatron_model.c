/* Decoders as Megatron-LM describes them, both ways. What is described is built again and compared field by field with
 * what was meant, so that no field is lost in silence: not those that come later, either. */
#include "models/kinds/layers.h"
#include "models/model_make.h"
#include "targets/megatron.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct parts {
    const struct embedding_layer *embedding;
    const struct attention_layer *attention, *windowed; /* the first without and with a window */
    const struct latent_attention_layer *latent;
    const struct mlp_layer *mlp;
    const struct moe_layer *moe;
    const struct head_layer *head;
    const struct multi_token_loss_layer *further; /* the first one's */
    int64_t blocks, further_blocks;
    bool experts[MEGATRON_MOST_BLOCKS], windows[MEGATRON_MOST_BLOCKS];
};

static bool is_kind(const struct layer *layer, const char *kind)
{
    return strcmp(layer->kind->name, kind) == 0;
}

static bool find_attention(struct parts *p, const struct layer *layer, struct text *why)
{
    if (is_kind(layer, "latent_attention")) {
        p->latent = p->latent ? p->latent : layer->fields;
        return true;
    }
    if (!is_kind(layer, "attention")) {
        text_printf(why, "layer %s of kind %s where a block begins with attention", layer->name, layer->kind->name);
        return false;
    }
    const struct attention_layer *f = layer->fields;
    p->windows[p->blocks] = f->sliding_window > 0;
    if (f->sliding_window > 0)
        p->windowed = p->windowed ? p->windowed : f;
    else
        p->attention = p->attention ? p->attention : f;
    return true;
}

static bool wanted_here(const struct layer *layer, const char *wanted, struct text *why)
{
    if (is_kind(layer, wanted))
        return true;
    text_printf(why, "layer %s of kind %s in place of %s", layer->name, layer->kind->name, wanted);
    return false;
}

/* It reads these two layers, or one of them where they are the same. */
static bool reads(const struct model *model, int index, int one, int other, struct text *why)
{
    int inputs[MAX_LAYER_INPUTS], count = model_unfolded_inputs(model, index, inputs);
    if (inputs[0] == one && (one == other ? count == 1 : count == 2 && inputs[1] == other))
        return true;
    text_printf(why, "layer %s that reads another one than the layer before", model_unfolded_layer(model, index)->name);
    return false;
}

static bool is_network(const struct layer *layer, struct text *why)
{
    if (is_kind(layer, "moe") || is_kind(layer, "mlp"))
        return true;
    text_printf(why, "layer %s of kind %s where a block ends with its network", layer->name, layer->kind->name);
    return false;
}

/* Behind the trunk, from its layer `at` on: what joins, a block, and its loss, for each further token. */
static bool find_further(struct parts *p, const struct model *model, int at, int end, struct text *why)
{
    for (int trunk = at - 1, before = at - 1; at + 4 <= end; before = at + 2, trunk = at + 3, at += 4) {
        const struct layer *loss = model_unfolded_layer(model, at + 3);
        if (!wanted_here(model_unfolded_layer(model, at), "multi_token", why) ||
            !reads(model, at, before, before, why) || !reads(model, at + 1, at, at, why) ||
            !reads(model, at + 2, at + 1, at + 1, why) || !is_network(model_unfolded_layer(model, at + 2), why) ||
            !wanted_here(loss, "multi_token_loss", why) || !reads(model, at + 3, trunk, at + 2, why))
            return false;
        p->further = p->further ? p->further : loss->fields;
        p->further_blocks++;
    }
    return true;
}

/* Embedding, blocks of attention and a network, those that predict further tokens, head and loss, one after another. */
static bool find_parts(struct parts *p, const struct model *model, struct text *why)
{
    int count = model_unfolded_count(model), end = count - 2, at = 1;
    const char *last = count > 0 ? model_unfolded_layer(model, count - 1)->kind->name : "";
    if (count < 5) {
        text_printf(why, "%d layers, the last of kind %s, where a decoder has five or more", count, last);
        return false;
    }
    if (!wanted_here(model_unfolded_layer(model, 0), "embedding", why) ||
        !wanted_here(model_unfolded_layer(model, end), "head", why) ||
        !wanted_here(model_unfolded_layer(model, end + 1), "loss", why) || !reads(model, end, end - 1, end - 1, why) ||
        !reads(model, end + 1, end, end, why))
        return false;
    p->embedding = model_unfolded_layer(model, 0)->fields;
    p->head = model_unfolded_layer(model, end)->fields;
    for (; at + 2 <= end && !is_kind(model_unfolded_layer(model, at), "multi_token"); at += 2) {
        const struct layer *network = model_unfolded_layer(model, at + 1);
        if (p->blocks == MEGATRON_MOST_BLOCKS) {
            text_printf(why, "more than %d blocks", MEGATRON_MOST_BLOCKS);
            return false;
        }
        if (!reads(model, at, at - 1, at - 1, why) || !find_attention(p, model_unfolded_layer(model, at), why) ||
            !is_network(network, why) || !reads(model, at + 1, at, at, why))
            return false;
        bool experts = is_kind(network, "moe");
        if (experts)
            p->moe = p->moe ? p->moe : network->fields;
        else
            p->mlp = p->mlp ? p->mlp : network->fields;
        p->experts[p->blocks++] = experts;
    }
    if (at > 1 && !find_further(p, model, at, end, why))
        return false;
    at += 4 * (int)p->further_blocks;
    return at == end || wanted_here(model_unfolded_layer(model, at), "head", why);
}

static void set_activation(struct megatron_args *args, int activation)
{
    args->swiglu = activation == ACTIVATION_SWIGLU;
    args->squared_relu = activation == ACTIVATION_SQUARED_RELU;
    args->gelu_fusion = activation != ACTIVATION_GELU_ERF;
}

static void set_attention(struct megatron_args *args, struct arena *arena, const struct parts *p,
                          const struct model *model)
{
    const struct attention_layer *f = p->attention ? p->attention : p->windowed;
    args->heads = f->heads;
    args->grouped_query = f->kv_heads != f->heads;
    args->query_groups = args->grouped_query ? f->kv_heads : megatron_defaults.query_groups;
    args->kv_channels = f->head_dim;
    args->linear_bias = f->output_bias;
    args->qkv_bias = f->qkv_bias && !f->output_bias;
    args->norm = f->norm == NORM_RMS ? "RMSNorm" : "LayerNorm";
    args->norm_epsilon = f->norm_epsilon;
    args->qk_norm = f->qk_norm == QK_NORM_HEAD;
    args->softmax = f->sinks ? "learnable" : megatron_defaults.softmax;
    args->output_gate = f->output_gate;
    args->position = f->rope_base > 0 ? "rope" : p->embedding->learned_positions > 0 ? "learned_absolute" : "none";
    args->positions = p->embedding->learned_positions > 0 ? p->embedding->learned_positions : model->sequence;
    if (f->rope_base > 0) {
        args->rotary_base = (int64_t)fmin(f->rope_base, 1e15);
        args->rotary_percent = f->rope_dim > 0 ? (double)f->rope_dim / (double)f->head_dim : 1;
        args->rope_scaling = f->rope_factor > 0;
        args->rope_factor = args->rope_scaling ? f->rope_factor : megatron_defaults.rope_factor;
    }
    if (p->windowed) {
        struct text window = { 0 };
        text_printf(&window, "%lld,0", (long long)p->windowed->sliding_window - 1);
        args->window = window.failed ? NULL : arena_strdup(arena, window.data);
        text_free(&window);
        args->window_pattern = p->attention ? megatron_put_pattern(arena, p->windows, p->blocks) : NULL;
    }
}

static void set_latent(struct megatron_args *args, const struct latent_attention_layer *f, const struct model *model)
{
    args->latent = true;
    args->heads = f->heads;
    args->query_rank = f->query_rank;
    args->kv_rank = f->kv_rank;
    args->plain_dim = f->plain_dim;
    args->rope_dim = f->rope_dim;
    args->value_dim = f->value_dim;
    args->qk_norm = true; /* of what the narrow matrices make */
    args->linear_bias = false;
    args->norm = f->norm == NORM_RMS ? "RMSNorm" : "LayerNorm";
    args->norm_epsilon = f->norm_epsilon;
    args->position = "rope";
    args->rope_type = "rope";
    args->rope_fusion = false; /* of latent attention it is made for YaRN alone */
    args->rotary_base = (int64_t)fmin(f->rope_base, 1e15);
    args->positions = model->sequence;
}

static void set_experts(struct megatron_args *args, struct arena *arena, const struct parts *p)
{
    const struct moe_layer *f = p->moe;
    args->experts = f->experts;
    args->expert_choices = f->choices;
    args->expert_ffn = f->inner;
    args->shared_ffn = f->shared_inner;
    args->shared_gate = f->shared_gate;
    args->score = f->gates == GATES_SIGMOID_OF_CHOSEN ? "sigmoid" : "softmax";
    args->expert_bias = f->router_correction;
    args->expert_groups = f->expert_groups;
    args->chosen_groups = f->chosen_groups;
    args->gates_before = f->gates == GATES_OF_ALL;
    args->gate_scale = f->gate_scale < 1 || f->gate_scale > 1 ? f->gate_scale : 0;
    args->balancing = f->balance > 0 ? "seq_aux_loss" : "none";
    args->balance = f->balance;
    args->capacity = f->dropless ? 0 : f->capacity_factor;
    args->padded_capacity = !f->dropless;
    args->grouped_gemm = true;
    args->dispatcher = "alltoall";
    if (p->mlp)
        args->expert_pattern = megatron_put_pattern(arena, p->experts, p->blocks);
    if (!p->mlp)
        args->ffn = f->inner;
}

/* What Megatron-LM is not told, or tells apart less finely. */
static void level(const struct layer *layer, void *fields)
{
    if (is_kind(layer, "moe")) {
        struct moe_layer *f = fields;
        if (f->dropless) {
            f->capacity_factor = 1; /* what memory is made for */
            f->group = 0;
        }
        f->gate_scale = f->gate_scale > 0 ? f->gate_scale : 1;
    } else if (is_kind(layer, "mlp")) {
        struct mlp_layer *f = fields;
        if (f->activation == ACTIVATION_GELU && !f->bias)
            f->activation = ACTIVATION_GELU_ERF; /* the other form is fused with a bias */
    } else if (is_kind(layer, "attention")) {
        struct attention_layer *f = fields;
        if (f->rope_dim == f->head_dim)
            f->rope_dim = 0;
        if (f->score_scale > 0 && fabs(f->score_scale * sqrt((double)f->head_dim) - 1) < 1e-12)
            f->score_scale = 0;
    } else if (is_kind(layer, "latent_attention")) {
        struct latent_attention_layer *f = fields;
        if (f->score_scale > 0 && fabs(f->score_scale * sqrt((double)(f->plain_dim + f->rope_dim)) - 1) < 1e-12)
            f->score_scale = 0;
    } else if (is_kind(layer, "head")) {
        struct head_layer *f = fields;
        if (!(f->logit_scale < 1) && !(f->logit_scale > 1))
            f->logit_scale = 0;
    }
}

bool megatron_same_field(const struct json_field *field, const void *a, const void *b)
{
    const char *x = (const char *)a + field->offset, *y = (const char *)b + field->offset;
    const char *s, *t;
    switch (field->type) {
    case FIELD_INT:
        return memcmp(x, y, sizeof(int64_t)) == 0;
    case FIELD_DOUBLE:
        return fabs(*(const double *)(const void *)x - *(const double *)(const void *)y) <=
               1e-12 * fabs(*(const double *)(const void *)x);
    case FIELD_BOOL:
        return *(const bool *)x == *(const bool *)y;
    case FIELD_STRING:
        s = *(const char *const *)(const void *)x;
        t = *(const char *const *)(const void *)y;
        return (!s && !t) || (s && t && strcmp(s, t) == 0) || strcmp(field->key, "name") == 0;
    case FIELD_ENUM:
    case FIELD_WORDS:
        return memcmp(x, y, sizeof(int)) == 0;
    case FIELD_NODE:
        return true;
    }
    return true;
}

/* What model_keep() sets, as a framework keeps it whatever the model. */
static bool is_kept(const struct json_field *field)
{
    return strcmp(field->key, "stored_scores") == 0 || strcmp(field->key, "fp32_logits") == 0;
}

/* False: names the first field that differs. */
static bool same_layer(const struct layer *meant, const struct layer *built, struct text *why)
{
    _Alignas(16) char a[1024], b[1024];
    if (meant->kind != built->kind || meant->kind->fields_bytes > sizeof a) {
        text_printf(why, "layer %s of kind %s", meant->name, meant->kind->name);
        return false;
    }
    memcpy(a, meant->fields, meant->kind->fields_bytes);
    memcpy(b, built->fields, meant->kind->fields_bytes);
    level(meant, a);
    level(built, b);
    for (size_t i = 0; i < meant->kind->field_count; i++)
        if (!is_kept(&meant->kind->fields[i]) && !megatron_same_field(&meant->kind->fields[i], a, b)) {
            text_printf(why, "field %s of layer %s", meant->kind->fields[i].key, meant->name);
            return false;
        }
    return true;
}

static bool same_model(const struct model *meant, const struct model *built, struct text *why)
{
    for (int i = 0; i < model_unfolded_count(meant); i++)
        if (!same_layer(model_unfolded_layer(meant, i), model_unfolded_layer(built, i), why))
            return false;
    if (meant->tied_embedding != built->tied_embedding || meant->vocab_size != built->vocab_size) {
        text_add(why, "the embedding's table");
        return false;
    }
    return true;
}

bool megatron_of_model(struct megatron_args *args, struct arena *arena, struct text *why, const struct model *model)
{
    struct parts parts;
    struct error err = { 0 };
    memset(&parts, 0, sizeof parts);
    if (model->opaque || model->image_size) {
        text_add(why, "a model that reads no tokens");
        return false;
    }
    if (!find_parts(&parts, model, why))
        return false;
    if (!!parts.latent + (parts.attention || parts.windowed) != 1) {
        text_add(why, "attention of two kinds");
        return false;
    }
    args->layers = parts.blocks;
    args->further = parts.further_blocks;
    args->further_scale =
        parts.further ? parts.further->weight * (double)args->further : megatron_defaults.further_scale;
    args->hidden = model->hidden;
    if (parts.latent)
        set_latent(args, parts.latent, model);
    else
        set_attention(args, arena, &parts, model);
    if (parts.mlp) {
        args->ffn = parts.mlp->inner;
        set_activation(args, parts.mlp->activation);
    }
    if (parts.moe) {
        set_experts(args, arena, &parts);
        set_activation(args, parts.moe->activation);
    }
    args->gelu_fusion = args->gelu_fusion || !args->linear_bias || args->swiglu || args->squared_relu;
    args->untied = !model->tied_embedding;
    args->vocabulary = model->vocab_size;
    args->init_std = model->init_std;
    struct model *built = megatron_model(args, "built", &err);
    if (!built) {
        text_add(why, err.kind ? err.message : "its sizes");
        why->failed = why->failed || err.kind == ERROR_ENVIRONMENT;
        return false;
    }
    bool same = same_model(model, built, why);
    model_free(built);
    return same;
}
