/* The decoder that settings of Megatron-LM describe. */
#include "models/kinds/layers.h"
#include "models/model_make.h"
#include "targets/megatron.h"
#include "base/num.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

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
    struct multi_token_layer join;
    struct multi_token_loss_layer further;
    int64_t window;
    bool experts[MEGATRON_MOST_BLOCKS], windows[MEGATRON_MOST_BLOCKS];
};

static const struct layer_kind *start(void *fields, const char *kind)
{
    const struct layer_kind *found = layer_kind_find(kind);
    memcpy(fields, found->defaults, found->fields_bytes);
    return found;
}

/* Rotary positions; how they are stretched costs nothing. */
static bool turns(const struct megatron_args *args)
{
    return strcmp(args->position, "rope") == 0 || strcmp(args->position, "yarn") == 0;
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
    if (!turns(args))
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
    /* without padding what is chosen is computed, up to the capacity, and the host waits to learn how much that is
     * (megatron/core/transformer/moe/token_dispatcher.py) */
    bool padded = args->capacity > 0 && args->padded_capacity;
    d->moe.dropless = !padded;
    d->moe.capacity_factor = padded ? args->capacity : 2; /* 2: as importers of such models have it */
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
        if (megatron_same_field(field, fields, kind->defaults) && !field->required)
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
    else if (!turns(args) && strcmp(args->position, "none") != 0)
        return fail(err,
                    "--position-embedding-type: expected rope, yarn, learned_absolute or none, found %.32s: "
                    "it is not built here",
                    args->position);
    if (args->quick_geglu)
        return fail(err, "--quick-geglu is not built here");
    if (strcmp(args->norm, "RMSNorm") != 0 && strcmp(args->norm, "LayerNorm") != 0)
        return fail(err, "--normalization: expected RMSNorm or LayerNorm, found %.32s", args->norm);
    d->head.norm = norm_of(args);
    d->head.norm_epsilon = args->norm_epsilon;
    if (args->further > 0 && strcmp(args->position, "learned_absolute") == 0)
        return fail(err, "--mtp-num-layers: expected --position-embedding-type rope or none");
    start(&d->join, "multi_token");
    start(&d->further, "multi_token_loss");
    d->join.norm = d->further.norm = norm_of(args);
    d->join.norm_epsilon = d->further.norm_epsilon = args->norm_epsilon;
    d->further.weight = args->further > 0 ? args->further_scale / (double)args->further : 0; /* their mean is scaled */
    describe_attention(d, args);
    describe_networks(d, args);
    if (!check_range(layer_kind_find("embedding"), &d->embedding, err) ||
        !check_range(layer_kind_find("head"), &d->head, err) ||
        !check_range(layer_kind_find("multi_token_loss"), &d->further, err) ||
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

static const struct layer_kind *network_of(void **fields, struct described *d, int64_t block)
{
    *fields = d->experts[block] ? (void *)&d->moe : (void *)&d->mlp;
    return d->experts[block] ? d->moe_kind : d->mlp_kind;
}

static bool add_blocks(struct model *model, struct described *d, const struct megatron_args *args,
                       const struct json *at, struct error *err)
{
    void *attention = args->latent ? (void *)&d->latent : (void *)&d->attention, *network;
    int number[MEGATRON_MOST_BLOCKS], count = (int)args->layers, period, copies;
    for (int i = 0; i < count; i++)
        number[i] = 2 * d->experts[i] + d->windows[i];
    for (int i = 0; i < count; i += period * copies) {
        model_find_period(&period, &copies, number + i, count - i);
        if (!model_add_block(model, copies, at, err))
            return false;
        for (int k = i; k < i + period; k++) {
            bool last = args->further > 0 && k + period * (copies - 1) == count - 1;
            const struct layer_kind *kind = network_of(&network, d, k);
            d->attention.sliding_window = d->windows[k] ? d->window : 0;
            ((struct layer_head *)network)->name = last ? "trunk" : NULL;
            if (!model_add_layer(model, d->attention_kind, attention, at, err) ||
                !model_add_layer(model, kind, network, at, err))
                return false;
        }
    }
    return true;
}

/* Behind the trunk, each as its last block (get_gpt_mtp_block_spec() of gpt_layer_specs.py). */
static bool add_further(struct model *model, struct described *d, const struct megatron_args *args,
                        const struct json *at, struct error *err)
{
    void *attention = args->latent ? (void *)&d->latent : (void *)&d->attention, *network;
    const struct layer_kind *kind = network_of(&network, d, args->layers - 1),
                            *loss = layer_kind_find("multi_token_loss");
    for (int64_t k = 1; k <= args->further; k++) {
        char block[32], passed[32], trunk[32], before[32];
        snprintf(block, sizeof block, "ahead%lld", (long long)k);
        snprintf(passed, sizeof passed, "pass%lld", (long long)k);
        snprintf(trunk, sizeof trunk, k == 1 ? "trunk" : "pass%lld", (long long)k - 1);
        snprintf(before, sizeof before, k == 1 ? "trunk" : "ahead%lld", (long long)k - 1);
        const struct layer_source from = { before, at }, both[] = { { trunk, at }, { block, at } };
        ((struct layer_head *)network)->name = block;
        d->further.head.name = passed;
        if (!model_add_block(model, 1, at, err) ||
            !model_add_reader(model, layer_kind_find("multi_token"), &d->join, &from, 1, at, err) ||
            !model_add_layer(model, d->attention_kind, attention, at, err) ||
            !model_add_layer(model, kind, network, at, err) ||
            !model_add_reader(model, loss, &d->further, both, 2, at, err))
            return false;
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
              add_blocks(model, &described, args, at, err) && add_further(model, &described, args, at, err) &&
              model_add_block(model, 1, at, err) &&
              model_add_layer(model, layer_kind_find("head"), &described.head, at, err) &&
              model_add_layer(model, layer_kind_find("loss"), &loss, at, err) && model_finish(model, at, err);
    json_free(nowhere);
    if (ok)
        return model;
    model_free(model);
    return NULL;
}
