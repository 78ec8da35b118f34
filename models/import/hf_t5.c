/* Raffel et al. 2020: an encoder and a decoder with RMS norms, no biases, scores that are not scaled but get a bias by
 * relative position, one table for the encoder's layers and one for the decoder's. The table of tokens serves both; if
 * the head uses it too, logits are divided by the root of the width. */
#include "models/import/hf_keys.h"
#include <math.h>
#include <string.h>

static bool read_activation(const struct json *root, int *activation, struct error *err)
{
    static const char *const words[] = { "relu", "gated-gelu", NULL };
    const char *found;
    if (!hf_need_word(root, "feed_forward_proj", "relu", words, err) ||
        !hf_get_string(root, "feed_forward_proj", "relu", &found, err))
        return false;
    *activation = strcmp(found, "relu") == 0 ? ACTIVATION_RELU : ACTIVATION_GEGLU;
    return true;
}

static const struct hf_alias aliases[] = { { "hidden_size", "d_model", false },
                                           { "num_hidden_layers", "num_layers", false },
                                           { "num_attention_heads", "num_heads", false },
                                           { "head_dim", "d_kv", false },
                                           { 0 } };

/* The library takes the decoder's blocks from num_layers before it reads the other names: beside those it needs its own
 * key. */
static bool read_t5(const struct json *root, struct hf_parts *p, struct error *err)
{
    double epsilon;
    int64_t buckets, distance;
    if (!hf_need_bool(root, "is_encoder_decoder", true, err) ||
        !hf_get_size(root, hf_key(root, aliases, "d_model"), HF_REQUIRED, &p->head.hidden, err) ||
        !hf_get_blocks(root, hf_key(root, aliases, "num_layers"), &p->blocks, err) ||
        !hf_get_size(root, "num_decoder_layers", hf_given(root, "num_layers") ? p->blocks : HF_REQUIRED,
                     &p->decoder_blocks, err) ||
        !hf_get_size(root, hf_key(root, aliases, "num_heads"), HF_REQUIRED, &p->attention.heads, err) ||
        !hf_get_size(root, hf_key(root, aliases, "d_kv"), HF_REQUIRED, &p->attention.head_dim, err) ||
        !hf_get_size(root, "d_ff", HF_REQUIRED, &p->mlp.inner, err) ||
        !hf_get_size(root, "vocab_size", HF_REQUIRED, &p->head.vocab_size, err) ||
        !hf_get_size(root, "n_positions", 512, &p->head.sequence, err) ||
        !hf_get_size(root, "relative_attention_num_buckets", 32, &buckets, err) ||
        !hf_get_size(root, "relative_attention_max_distance", 128, &distance, err) ||
        !hf_get_double(root, "layer_norm_epsilon", 1, 1e-6, &epsilon, err) ||
        !hf_get_bool(root, "tie_word_embeddings", true, &p->head.tied_embedding, err) ||
        !read_activation(root, &p->mlp.activation, err))
        return false;
    if (buckets < 4 || distance <= buckets / 2)
        return json_fail(
            json_at_key(root, buckets < 4 ? "relative_attention_num_buckets" : "relative_attention_max_distance"), err,
            "expected at least 4 buckets and a distance beyond half of them, found %lld and %lld", (long long)buckets,
            (long long)distance);
    p->attention.relative_buckets = buckets;
    p->attention.relative_distance = distance;
    p->attention.score_scale = 1;
    p->last.logit_scale = p->head.tied_embedding ? 1 / sqrt((double)p->head.hidden) : 0;
    hf_set_norms(p, NORM_RMS, epsilon);
    return true;
}

static bool add_encoder(struct model *model, const struct hf_parts *p, const struct json *root, struct error *err)
{
    struct embedding_layer embedding = p->embedding;
    struct attention_layer attention = p->attention;
    struct mlp_layer mlp = p->mlp;
    const struct norm_layer norm = { { .name = "encoder" }, p->last.norm, p->last.norm_epsilon };
    embedding.stream = STREAM_SOURCE;
    embedding.head.name = "source";
    attention.causal = false;
    attention.head.name = "encode";
    attention.relative_table = "encoder";
    mlp.head.name = "encode_mlp";
    return model_add_block(model, 1, root, err) &&
           model_add_layer(model, layer_kind_find("embedding"), &embedding, root, err) &&
           model_add_block(model, p->blocks, root, err) &&
           model_add_layer(model, layer_kind_find("attention"), &attention, root, err) &&
           model_add_layer(model, layer_kind_find("mlp"), &mlp, root, err) && model_add_block(model, 1, root, err) &&
           model_add_layer(model, layer_kind_find("norm"), &norm, root, err);
}

static bool add_t5(struct model *model, const struct hf_parts *p, const struct json *root, struct error *err)
{
    static const struct loss_layer loss = { 0 };
    const struct layer_source memory[] = { { "previous", root }, { "encoder", root } };
    struct embedding_layer embedding = p->embedding;
    struct attention_layer attention = p->attention, cross;
    memcpy(&cross, layer_kind_find("cross_attention")->defaults, sizeof cross);
    cross.heads = attention.heads, cross.head_dim = attention.head_dim, cross.score_scale = attention.score_scale;
    cross.norm = attention.norm, cross.norm_epsilon = attention.norm_epsilon;
    embedding.shared_table = true;
    attention.relative_table = "decoder";
    return add_encoder(model, p, root, err) &&
           model_add_layer(model, layer_kind_find("embedding"), &embedding, root, err) &&
           model_add_block(model, p->decoder_blocks, root, err) &&
           model_add_layer(model, layer_kind_find("attention"), &attention, root, err) &&
           model_add_reader(model, layer_kind_find("cross_attention"), &cross, memory, 2, root, err) &&
           model_add_layer(model, layer_kind_find("mlp"), &p->mlp, root, err) && model_add_block(model, 1, root, err) &&
           model_add_layer(model, layer_kind_find("head"), &p->last, root, err) &&
           model_add_layer(model, layer_kind_find("loss"), &loss, root, err) && model_finish(model, root, err);
}

const struct hf_family hf_t5 = { "t5", "T5ForConditionalGeneration", aliases, read_t5, add_t5 };
