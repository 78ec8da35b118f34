/* Decoders as Megatron-LM describes them, both ways. What is described is built again and compared field by field with
 * what was meant, so that no field is lost in silence: not those that come later, either. */
#include "base/num.h"
#include "models/kinds/layers.h"
#include "models/model_make.h"
#include "targets/megatron.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- settings of a model ---- */

struct parts {
    const struct embedding_layer *embedding;
    const struct attention_layer *attention, *windowed; /* the first without and with a window */
    const struct latent_attention_layer *latent;
    const struct mlp_layer *mlp;
    const struct moe_layer *moe;
    const struct head_layer *head;
    int64_t blocks;
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

/* Embedding, blocks of attention and a network, head and loss, one after another. */
static bool find_parts(struct parts *p, const struct model *model, struct text *why)
{
    int count = model_unfolded_count(model);
    for (int i = 0; i < count; i++) {
        const struct layer *layer = model_unfolded_layer(model, i);
        int inputs[MAX_LAYER_INPUTS], read = model_unfolded_inputs(model, i, inputs);
        if (i > 0 && (read != 1 || inputs[0] != i - 1)) {
            text_printf(why, "layer %s that reads another one than the layer before", layer->name);
            return false;
        }
        if (i == 0 || i >= count - 2) {
            const char *wanted = i == 0 ? "embedding" : i == count - 2 ? "head" : "loss";
            if (!is_kind(layer, wanted) || count < 5 || count % 2 == 0) {
                text_printf(why, "layer %s of kind %s in place of %s", layer->name, layer->kind->name, wanted);
                return false;
            }
            p->embedding = i == 0 ? layer->fields : p->embedding;
            p->head = i == count - 2 ? layer->fields : p->head;
            continue;
        }
        if (p->blocks == MEGATRON_MOST_BLOCKS) {
            text_printf(why, "more than %d blocks", MEGATRON_MOST_BLOCKS);
            return false;
        }
        if (i % 2 == 1) {
            if (!find_attention(p, layer, why))
                return false;
            continue;
        }
        bool experts = is_kind(layer, "moe");
        if (!experts && !is_kind(layer, "mlp")) {
            text_printf(why, "layer %s of kind %s where a block ends with its network", layer->name, layer->kind->name);
            return false;
        }
        if (experts)
            p->moe = p->moe ? p->moe : layer->fields;
        else
            p->mlp = p->mlp ? p->mlp : layer->fields;
        p->experts[p->blocks++] = experts;
    }
    return true;
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

static bool same_field(const struct json_field *field, const void *a, const void *b)
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
        if (!is_kept(&meant->kind->fields[i]) && !same_field(&meant->kind->fields[i], a, b)) {
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
        return false;
    }
    bool same = same_model(model, built, why);
    model_free(built);
    return same;
}

/* ---- a model of settings ---- */

static int64_t rotary_dim(const struct megatron_args *args, int64_t head_dim)
{
    return args->rotary_percent < 1 ? (int64_t)llround(args->rotary_percent * (double)head_dim) : 0;
}

static int norm_of(const struct megatron_args *args)
{
    return strcmp(args->norm, "RMSNorm") == 0 ? NORM_RMS : NORM_LAYER;
}

static int activation_of(const struct megatron_args *args)
{
    return args->swiglu                             ? ACTIVATION_SWIGLU
           : args->squared_relu                     ? ACTIVATION_SQUARED_RELU
           : args->gelu_fusion && args->linear_bias ? ACTIVATION_GELU
                                                    : ACTIVATION_GELU_ERF;
}

struct described {
    const struct layer_kind *attention_kind, *mlp_kind, *moe_kind;
    struct embedding_layer embedding;
    struct attention_layer attention;
    struct latent_attention_layer latent;
    struct mlp_layer mlp;
    struct moe_layer moe;
    struct head_layer head;
    int64_t window;
    bool experts[MEGATRON_MOST_BLOCKS], windows[MEGATRON_MOST_BLOCKS];
};

static const struct layer_kind *start(void *fields, const char *kind)
{
    const struct layer_kind *found = layer_kind_find(kind);
    memcpy(fields, found->defaults, found->fields_bytes);
    return found;
}

static void describe_attention(struct described *d, const struct megatron_args *args)
{
    if (args->latent) {
        d->attention_kind = start(&d->latent, "latent_attention");
        d->latent.heads = args->heads;
        d->latent.query_rank = args->query_rank;
        d->latent.kv_rank = args->kv_rank;
        d->latent.plain_dim = args->plain_dim;
        d->latent.rope_dim = args->rope_dim;
        d->latent.value_dim = args->value_dim;
        d->latent.rope_base = (double)args->rotary_base;
        d->latent.norm = norm_of(args);
        d->latent.norm_epsilon = args->norm_epsilon;
        return;
    }
    d->attention_kind = start(&d->attention, "attention");
    d->attention.heads = args->heads;
    d->attention.kv_heads = args->grouped_query ? args->query_groups : args->heads;
    d->attention.head_dim = args->kv_channels;
    d->attention.qkv_bias = args->linear_bias || args->qkv_bias;
    d->attention.output_bias = args->linear_bias;
    d->attention.norm = norm_of(args);
    d->attention.norm_epsilon = args->norm_epsilon;
    d->attention.qk_norm = args->qk_norm ? QK_NORM_HEAD : QK_NORM_NONE;
    d->attention.qk_norm_kind = args->qk_norm ? norm_of(args) : d->attention.qk_norm_kind;
    d->attention.sinks = strcmp(args->softmax, "learnable") == 0;
    d->attention.output_gate = args->output_gate;
    if (strcmp(args->position, "rope") != 0)
        return;
    d->attention.rope_base = (double)args->rotary_base;
    d->attention.rope_dim = rotary_dim(args, args->kv_channels > 0 ? args->kv_channels : args->hidden / args->heads);
    if (args->rope_scaling) { /* the rest is fixed (rotary_pos_embedding.py) */
        d->attention.rope_factor = args->rope_factor;
        d->attention.rope_low = 1;
        d->attention.rope_high = 4;
        d->attention.rope_original = 8192;
    }
}

static void describe_networks(struct described *d, const struct megatron_args *args)
{
    d->mlp_kind = start(&d->mlp, "mlp");
    d->mlp.inner = args->ffn > 0  ? args->ffn
                   : args->swiglu ? (int64_t)(4.0 * (double)args->hidden * 2 / 3 / 64) * 64
                                  : 4 * args->hidden;
    d->mlp.activation = activation_of(args);
    d->mlp.bias = args->linear_bias;
    d->mlp.norm = norm_of(args);
    d->mlp.norm_epsilon = args->norm_epsilon;
    d->moe_kind = start(&d->moe, "moe");
    d->moe.experts = args->experts;
    d->moe.choices = args->expert_choices;
    d->moe.inner = args->expert_ffn > 0 ? args->expert_ffn : d->mlp.inner;
    d->moe.shared_inner = args->shared_ffn;
    d->moe.activation = d->mlp.activation;
    d->moe.gates = strcmp(args->score, "sigmoid") == 0 ? GATES_SIGMOID_OF_CHOSEN
                   : args->gates_before                ? GATES_OF_ALL
                                                       : GATES_OF_CHOSEN;
    d->moe.router_correction = args->expert_bias;
    d->moe.expert_groups = args->expert_groups;
    d->moe.chosen_groups = args->chosen_groups;
    d->moe.shared_gate = args->shared_gate;
    d->moe.gate_scale = args->gate_scale > 0 ? args->gate_scale : 1;
    d->moe.balance = strcmp(args->balancing, "none") == 0 ? 0 : args->balance;
    d->moe.dropless = !(args->capacity > 0);
    d->moe.capacity_factor = args->capacity > 0 ? args->capacity : 2; /* as importers of such models have it */
    d->moe.norm = d->mlp.norm;
    d->moe.norm_epsilon = args->norm_epsilon;
}

/* As the native format has it: what is not as it goes without saying lies between the limits. */
static bool check_range(const struct layer_kind *kind, const void *fields, struct error *err)
{
    for (size_t i = 0; i < kind->field_count; i++) {
        const struct json_field *field = &kind->fields[i];
        const char *at = (const char *)fields + field->offset;
        double value;
        if (same_field(field, fields, kind->defaults) && !field->required)
            continue;
        if (field->type == FIELD_INT)
            value = (double)*(const int64_t *)(const void *)at;
        else if (field->type == FIELD_DOUBLE)
            value = *(const double *)(const void *)at;
        else
            continue;
        if (!(value >= field->min) || (field->max >= field->min && field->max > 0 && value > field->max))
            return fail(err, "%s of %s: expected %.15g to %.15g, found %.15g", field->key, kind->name, field->min,
                        field->max, value);
    }
    return true;
}

static bool describe(struct described *d, const struct megatron_args *args, struct error *err)
{
    start(&d->embedding, "embedding");
    start(&d->head, "head");
    if (strcmp(args->position, "learned_absolute") == 0)
        d->embedding.learned_positions = args->positions > 0 ? args->positions : args->sequence;
    else if (strcmp(args->position, "rope") != 0 && strcmp(args->position, "none") != 0)
        return fail(err,
                    "--position-embedding-type: expected rope, learned_absolute or none, found %.32s: "
                    "it is not built here",
                    args->position);
    if (args->quick_geglu)
        return fail(err, "--quick-geglu is not built here");
    if (strcmp(args->norm, "RMSNorm") != 0 && strcmp(args->norm, "LayerNorm") != 0)
        return fail(err, "--normalization: expected RMSNorm or LayerNorm, found %.32s", args->norm);
    d->head.norm = norm_of(args);
    d->head.norm_epsilon = args->norm_epsilon;
    describe_attention(d, args);
    describe_networks(d, args);
    if (!check_range(layer_kind_find("embedding"), &d->embedding, err) ||
        !check_range(layer_kind_find("head"), &d->head, err) ||
        !check_range(d->attention_kind, args->latent ? (void *)&d->latent : (void *)&d->attention, err) ||
        !check_range(d->mlp_kind, &d->mlp, err) || (args->experts > 0 && !check_range(d->moe_kind, &d->moe, err)))
        return false;
    for (int64_t i = 0; i < args->layers; i++)
        d->experts[i] = args->experts > 0;
    if (args->experts > 0 && args->expert_pattern &&
        !megatron_read_pattern(args->expert_pattern, MEGATRON_EVERY_EXPERT, d->experts, args->layers))
        return fail(
            err, "--moe-layer-freq: expected a number, or a list with 0 or 1 for each of %lld layers, found \"%.64s\"",
            (long long)args->layers, args->expert_pattern);
    if (args->window) {
        long long before = 0, after = 0;
        if (sscanf(args->window, "%*[(]%lld , %lld", &before, &after) != 2 &&
            sscanf(args->window, "%lld , %lld", &before, &after) != 2)
            return fail(err, "--window-size: expected two numbers such as 4095,0, found \"%.64s\"", args->window);
        d->window = before >= 0 && before < 1 << 27 ? before + 1 : 0;
        for (int64_t i = 0; i < args->layers; i++)
            d->windows[i] = true;
        if (args->window_pattern &&
            !megatron_read_pattern(args->window_pattern, MEGATRON_EVERY_WINDOW, d->windows, args->layers))
            return fail(err,
                        "--window-attn-skip-freq: expected a number, or a list with 0 or 1 for each of %lld layers, "
                        "found \"%.64s\"",
                        (long long)args->layers, args->window_pattern);
    }
    return true;
}

static bool add_blocks(struct model *model, struct described *d, const struct megatron_args *args,
                       const struct json *at, struct error *err)
{
    for (int64_t i = 0; i < args->layers;) {
        int64_t same = 1;
        while (i + same < args->layers && d->experts[i + same] == d->experts[i] &&
               d->windows[i + same] == d->windows[i])
            same++;
        d->attention.sliding_window = d->windows[i] ? d->window : 0;
        if (!model_add_block(model, same, at, err) ||
            !model_add_layer(model, d->attention_kind, args->latent ? (void *)&d->latent : (void *)&d->attention, at,
                             err) ||
            !model_add_layer(model, d->experts[i] ? d->moe_kind : d->mlp_kind,
                             d->experts[i] ? (void *)&d->moe : (void *)&d->mlp, at, err))
            return false;
        i += same;
    }
    return true;
}

struct model *megatron_model(const struct megatron_args *args, const char *name, struct error *err)
{
    static const struct loss_layer loss = { 0 };
    struct described described;
    struct model_head head = model_head_defaults;
    if (args->layers == 0 || args->hidden == 0 || args->heads == 0 || args->vocabulary == 0)
        return NULL;
    if (args->layers > MEGATRON_MOST_BLOCKS) {
        fail(err, "--num-layers: expected at most %d, found %lld", MEGATRON_MOST_BLOCKS, (long long)args->layers);
        return NULL;
    }
    if (args->hidden > 1 << 24 || args->heads > 1 << 20 || args->ffn > 1 << 28 || args->vocabulary > 1 << 28) {
        fail(err, "sizes beyond those of any model");
        return NULL;
    }
    memset(&described, 0, sizeof described);
    if (!describe(&described, args, err))
        return NULL;
    head.name = name;
    head.sequence = max_i64(1, args->positions > 0 && args->sequence == 0 ? args->positions : args->sequence);
    head.hidden = args->hidden;
    head.vocab_size = args->vocabulary;
    head.tied_embedding = !args->untied;
    head.init_std = args->init_std;
    struct json_doc *nowhere = NULL; /* where messages of the layers point */
    struct model *model = json_parse(&nowhere, "model", "{}", 2, err) ? model_new(&head) : NULL;
    if (!model) {
        json_free(nowhere);
        fail_memory(err);
        return NULL;
    }
    const struct json *at = json_root(nowhere);
    bool ok = model_add_block(model, 1, at, err) &&
              model_add_layer(model, layer_kind_find("embedding"), &described.embedding, at, err) &&
              add_blocks(model, &described, args, at, err) && model_add_block(model, 1, at, err) &&
              model_add_layer(model, layer_kind_find("head"), &described.head, at, err) &&
              model_add_layer(model, layer_kind_find("loss"), &loss, at, err) && model_finish(model, at, err);
    json_free(nowhere);
    if (ok)
        return model;
    model_free(model);
    return NULL;
}
