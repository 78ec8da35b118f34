#include "targets/decoder.h"
#include "models/kinds/layers.h"
#include <string.h>

static bool is_attention(const char *kind)
{
    return strcmp(kind, "attention") == 0 || strcmp(kind, "latent_attention") == 0;
}

struct decoder decoder_of(const struct model *model)
{
    struct decoder out = { .hidden = model->hidden,
                           .vocab_size = model->vocab_size,
                           .sequence = model->sequence,
                           .tied = model->tied_embedding,
                           .llama = true };
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

int decoder_further(const struct model *model)
{
    int count = 0;
    for (int i = 0; i < model->layer_count; i++) /* each is written by itself */
        count += strcmp(model->layers[i].kind->name, "multi_token") == 0;
    return count;
}
