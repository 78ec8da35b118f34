#include "targets/decoder.h"
#include "models/kinds/layers.h"
#include <stdlib.h>
#include <string.h>

static bool is_attention(const char *kind)
{
    return strcmp(kind, "attention") == 0 || strcmp(kind, "latent_attention") == 0;
}

struct decoder decoder_of(const struct model *model)
{
    struct decoder out = {
        .hidden = model->hidden, .vocab_size = model->vocab_size, .tied = model->tied_embedding, .llama = true
    };
    for (int b = 0; b < model->block_count; b++) {
        const struct model_block *block = &model->blocks[b];
        bool attends = false;
        for (int l = 0; l < block->layer_count; l++)
            attends = attends || is_attention(model->layers[block->first_layer + l].kind->name);
        if (attends)
            out.blocks += block->count;
    }
    for (int l = 0; l < model->layer_count; l++) {
        const char *kind = model->layers[l].kind->name;
        if (strcmp(kind, "attention") == 0) {
            const struct attention_layer *f = model->layers[l].fields;
            out.heads = f->heads;
            out.kv_heads = f->kv_heads;
            out.head_dim = f->head_dim;
            out.rope_base = f->rope_base;
            out.llama = out.llama && f->norm == NORM_RMS && f->rope_base > 0 && f->rope_dim == 0 && f->causal &&
                        !f->qkv_bias && !f->output_bias && !f->post_norm && f->sliding_window == 0 &&
                        f->heads * f->head_dim == model->hidden;
        } else if (strcmp(kind, "latent_attention") == 0) {
            const struct latent_attention_layer *f = model->layers[l].fields;
            out.heads = f->heads;
            out.kv_heads = f->heads;
            out.llama = false;
        } else if (strcmp(kind, "embedding") == 0) {
            const struct embedding_layer *f = model->layers[l].fields;
            *(f->stream == STREAM_SOURCE ? &out.source_positions : &out.positions) = f->learned_positions;
        } else if (strcmp(kind, "mlp") == 0) {
            const struct mlp_layer *f = model->layers[l].fields;
            out.inner = f->inner;
            out.llama =
                out.llama && f->norm == NORM_RMS && f->activation == ACTIVATION_SWIGLU && !f->bias && !f->post_norm;
        } else if (strcmp(kind, "moe") == 0) {
            const struct moe_layer *f = model->layers[l].fields;
            out.experts = f->experts;
            out.choices = f->choices;
            out.expert_inner = f->inner;
            out.llama = false;
        }
    }
    out.llama = out.llama && out.blocks > 0 && out.heads > 0 && out.inner > 0;
    return out;
}

void decoder_put_differences(struct text *out, const struct decoder *said, const struct model *model)
{
    const struct decoder own = decoder_of(model);
    const bool plain = !decoder_other(model) && !decoder_scans(model);
    const struct {
        const char *name;
        int64_t said, own;
        bool held;
    } sizes[] = {
        { "layers", said->blocks, own.blocks, plain },
        { "hidden size", said->hidden, own.hidden, true },
        { "attention heads", said->heads, own.heads, plain },
        { "key-value heads", said->kv_heads, own.kv_heads, plain },
        { "width of a head", said->head_dim, own.head_dim, plain },
        { "feed-forward size", said->inner, own.inner, plain },
        { "experts", said->experts, own.experts, plain },
        { "experts of a token", said->choices, own.choices, plain },
        { "feed-forward size of an expert", said->expert_inner, own.expert_inner, plain },
        { "vocabulary", said->vocab_size, own.vocab_size,
          llabs(said->vocab_size - own.vocab_size) > own.vocab_size / 100 }, /* what is padded costs nearly the same */
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].held && sizes[i].said > 0 && sizes[i].said != sizes[i].own)
            text_printf(out, "%s%s expected %lld, found %lld", out->length > 0 ? "; " : "", sizes[i].name,
                        (long long)sizes[i].own, (long long)sizes[i].said);
}

static int layers_of_kind(const struct model *model, const char *kind)
{
    int count = 0;
    for (int l = 0; l < model->layer_count; l++)
        count += strcmp(model->layers[l].kind->name, kind) == 0;
    return count;
}

const char *decoder_other(const struct model *model)
{
    static const struct {
        const char *kind, *is;
    } others[] = {
        { "cross_attention", "an encoder with a decoder" },
        { "patches", "a model of images" },
        { "conv", "a convolutional network" },
        { "pool", "a convolutional network" },
        { "opaque", "a model with layers of another kind" },
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (layers_of_kind(model, others[i].kind) > 0)
            return others[i].is;
    for (int l = 0; l < model->layer_count; l++) {
        const struct layer *layer = &model->layers[l];
        const struct attention_layer *attention = layer->fields;
        const struct embedding_layer *embedding = layer->fields;
        if (strcmp(layer->kind->name, "attention") == 0 && !attention->causal)
            return "an encoder, whose attention is not causal";
        if (strcmp(layer->kind->name, "embedding") == 0 && embedding->tokens > 0 &&
            embedding->tokens != model->vocab_size)
            return "a classifier";
    }
    bool one = layers_of_kind(model, "embedding") == 1 && layers_of_kind(model, "head") == 1;
    return one ? NULL : "a model without one table of tokens and one head";
}

bool decoder_scans(const struct model *model)
{
    return layers_of_kind(model, "state_space") + layers_of_kind(model, "linear_attention") > 0;
}

int decoder_further(const struct model *model)
{
    return layers_of_kind(model, "multi_token"); /* each is written by itself */
}

/* The adapters of a layer, and the words for their matrices; NULL: its kind has none. */
static const struct lora *lora_of(const struct layer *layer, const char *const **words)
{
    const struct lora *lora = NULL;
    for (size_t i = 0; i < layer->kind->field_count; i++) {
        const struct json_field *field = &layer->kind->fields[i];
        if (strcmp(field->key, "lora_r") == 0) /* the first member of its struct (models/kinds/lora.h) */
            lora = (const struct lora *)((const char *)layer->fields + field->offset);
        else if (strcmp(field->key, "target_modules") == 0)
            *words = field->names;
    }
    return lora;
}

static bool same_lora(const struct lora *a, const struct lora *b)
{
    return a->rank == b->rank && (a->rank == 0 || (a->alpha == b->alpha && a->targets == b->targets));
}

/* Adds the matrices of a layer that is the first of its kind; false: its adapters are not those of the others. */
static bool add_adapters(struct decoder_adapters *out, const struct lora *lora, const char *const *words)
{
    const int most = (int)(sizeof out->modules / sizeof *out->modules);
    if (out->rank == 0)
        *out = (struct decoder_adapters){ .rank = lora->rank,
                                          .alpha = lora->alpha,
                                          .quantized = out->quantized,
                                          .quantized_experts = out->quantized_experts };
    for (int i = 0; words[i] && out->module_count < most; i++)
        if (lora->targets >> i & 1)
            out->modules[out->module_count++] = words[i];
    return out->rank == lora->rank && out->alpha == lora->alpha;
}

enum decoder_training decoder_trains(struct decoder_adapters *out, const struct model *model)
{
    struct decoder_adapters found = { 0 };
    int frozen = 0, trained = 0;
    bool alike = true, body = false;
    for (int l = 0; l < model->layer_count; l++) {
        const struct layer *layer = &model->layers[l];
        const char *const *words = NULL;
        const struct lora *lora = lora_of(layer, &words);
        int first = 0;
        if (strcmp(layer->kind->name, "loss") == 0)
            continue; /* it has no weights */
        *(((const struct layer_head *)layer->fields)->frozen ? &frozen : &trained) += 1;
        while (model->layers[first].kind != layer->kind)
            first++;
        const int quantized = ((const struct layer_head *)layer->fields)->quantized;
        if (quantized && !model_layer_quantizes(layer, false))
            found.quantized_experts = true;
        if (model_layer_quantizes(layer, false)) {
            alike = alike && (!body || quantized == found.quantized);
            found.quantized = quantized;
            body = true;
        }
        if (lora && first < l)
            alike = alike && same_lora(lora, lora_of(&model->layers[first], &words));
        else if (lora && lora->rank > 0)
            alike = alike && add_adapters(&found, lora, words);
    }
    if (out)
        *out = found;
    return frozen == 0 ? TRAINS_ALL : trained == 0 && alike && found.rank > 0 ? TRAINS_ADAPTERS : TRAINS_OTHERS;
}
