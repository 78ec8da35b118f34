/* Encoders with decoders. Raffel et al. 2020 (T5): RMS norms, no biases, scores that are not scaled but get a bias by
 * relative position, one table for the encoder's blocks and one for the decoder's. Lewis et al. 2020 (BART) and its
 * relatives: layer norms, biases, learned positions of each side. The table of tokens serves both sides. */
#include "models/import/hf_facts.h"
#include <math.h>
#include <string.h>

#define FAMILY(symbol) static const struct hf_family symbol

static bool read_t5_activation(struct hf_reader *r)
{
    static const char *const words[] = { "relu", "gated-gelu", NULL };
    const char *found, *fallback = r->facts.gated ? "gated-gelu" : "relu";
    if (!hf_need_word(r->root, "feed_forward_proj", fallback, words, r->err) ||
        !hf_get_string(r->root, "feed_forward_proj", fallback, &found, r->err))
        return false;
    r->facts.gated = strcmp(found, "relu") != 0;
    r->facts.activation = r->facts.gated ? "gelu_new" : "relu";
    return true;
}

/* The library takes the decoder's blocks from num_layers before it reads the other names: beside those it needs its own
 * key. If the head uses the table of tokens too, logits are divided by the root of the width. */
static bool read_t5(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    const struct json *at;
    if (!read_t5_activation(r))
        return false;
    if (!f->decoder_blocks && !hf_given(r->root, "num_layers") &&
        !hf_require(r->root, "num_decoder_layers", &at, r->err))
        return false;
    if (!f->decoder_blocks)
        f->decoder_blocks = f->blocks;
    if (f->relative_buckets < 4 || f->relative_distance <= f->relative_buckets / 2)
        return json_fail(
            hf_place_of(r, f->relative_buckets < 4 ? HF_FACT(relative_buckets) : HF_FACT(relative_distance)), r->err,
            "expected at least 4 buckets and a distance beyond half of them, found %lld and %lld",
            (long long)f->relative_buckets, (long long)f->relative_distance);
    f->score_scale = 1;
    f->logit_scale = f->tied ? 1 / sqrt((double)f->hidden) : 0;
    return true;
}

/* Two convolutions of three frames each, as a network of as many weights, whose biases are a norm's. */
static bool add_front(struct hf_reader *r, struct model *model)
{
    const struct hf_facts *f = &r->facts;
    struct mlp_layer front = r->blocks[0].mlp;
    front.head.name = "front";
    front.inner = (3 * (f->mel_bins + f->hidden) + 1) / 2;
    front.bias = front.residual = false;
    front.norm = NORM_LAYER;
    return hf_add(r, model, "mlp", &front);
}

static bool add_encoder(struct hf_reader *r, struct model *model)
{
    const struct hf_facts *f = &r->facts;
    struct embedding_layer embedding;
    struct attention_layer attention = r->blocks[0].attention;
    struct mlp_layer mlp = r->blocks[0].mlp;
    const struct norm_layer norm = { { .name = "encoder" }, f->norm, f->epsilon };
    hf_fill_embedding(r, &embedding);
    embedding.stream = STREAM_SOURCE;
    embedding.head.name = "source";
    if (f->source_positions)
        embedding.learned_positions = f->source_positions;
    attention.causal = false;
    attention.head.name = "encode";
    attention.relative_table = f->relative_buckets ? "encoder" : NULL;
    mlp.head.name = f->post_norm ? "encoder" : "encode_mlp";
    return model_add_block(model, 1, r->root, r->err) && hf_add(r, model, "embedding", &embedding) &&
           (!f->mel_bins || add_front(r, model)) && model_add_block(model, f->blocks, r->root, r->err) &&
           hf_add(r, model, "attention", &attention) && hf_add(r, model, "mlp", &mlp) &&
           model_add_block(model, 1, r->root, r->err) && (f->post_norm || hf_add(r, model, "norm", &norm));
}

/* Attention to what the encoder made, made as the decoder's own is. */
static void fill_cross(const struct hf_reader *r, const struct attention_layer *attention,
                       struct attention_layer *cross)
{
    memcpy(cross, layer_kind_find("cross_attention")->defaults, sizeof *cross);
    cross->heads = attention->heads;
    cross->head_dim = attention->head_dim;
    cross->score_scale = attention->score_scale;
    cross->qkv_bias = attention->qkv_bias;
    cross->bare_keys = attention->bare_keys;
    cross->output_bias = attention->output_bias;
    cross->post_norm = attention->post_norm;
    cross->norm = attention->norm;
    cross->norm_epsilon = attention->norm_epsilon;
    cross->lora = attention->lora;
    hf_freeze(r, &cross->head);
}

static bool add_both(struct hf_reader *r, struct model *model)
{
    static const struct loss_layer loss = { 0 };
    const struct hf_facts *f = &r->facts;
    const struct layer_source memory[] = { { "previous", r->root }, { "encoder", r->root } };
    struct embedding_layer embedding;
    struct attention_layer attention = r->blocks[0].attention, cross;
    struct mlp_layer mlp = r->blocks[0].mlp;
    struct head_layer head;
    if (r->blocks[0].network != HF_MLP || r->blocks[0].mixer != HF_ATTENTION)
        return json_fail(hf_place_of(r, HF_FACT(experts)), r->err,
                         "an encoder and a decoder of experts or of latent attention cannot be planned");
    if (f->encoder_only) {
        for (int64_t i = 0; i < f->blocks; i++)
            r->blocks[i].attention.relative_table = "encoder";
        return hf_add_chain(r, model);
    }
    fill_cross(r, &attention, &cross);
    hf_fill_embedding(r, &embedding);
    embedding.shared_table = true;
    attention.relative_table = f->relative_buckets ? "decoder" : NULL;
    mlp.inner = f->decoder_inner ? f->decoder_inner : mlp.inner;
    return hf_fill_head(r, &head) && add_encoder(r, model) && hf_add(r, model, "embedding", &embedding) &&
           model_add_block(model, f->decoder_blocks, r->root, r->err) && hf_add(r, model, "attention", &attention) &&
           model_add_reader(model, layer_kind_find("cross_attention"), &cross, memory, 2, r->root, r->err) &&
           hf_add(r, model, "mlp", &mlp) && model_add_block(model, 1, r->root, r->err) &&
           hf_add(r, model, "head", &head) && hf_add(r, model, "loss", &loss) && model_finish(model, r->root, r->err);
}

static const struct hf_name t5_names[] = { HF_NAME("is_encoder_decoder", ONLY_TRUE, hidden),
                                           HF_NAME("d_model", SIZE, hidden),
                                           HF_NAME("hidden_size", SIZE, hidden),
                                           HF_NAME("num_layers", SIZE, blocks),
                                           HF_NAME("num_hidden_layers", SIZE, blocks),
                                           HF_NAME("num_decoder_layers", SIZE, decoder_blocks),
                                           HF_NAME("num_heads", SIZE, heads),
                                           HF_NAME("num_attention_heads", SIZE, heads),
                                           HF_NAME("d_kv", SIZE, head_dim),
                                           HF_NAME("head_dim", SIZE, head_dim),
                                           HF_NAME("d_ff", SIZE, inner),
                                           HF_NAME("n_positions", SIZE, positions),
                                           HF_NAME("relative_attention_num_buckets", SIZE, relative_buckets),
                                           HF_NAME("relative_attention_max_distance", SIZE, relative_distance),
                                           { 0 } };
#define T5_FACTS                                                                                                       \
    .norm = NORM_RMS, .epsilon = 1e-6, .init_std = 0.02, .activation = "relu", .place = HF_NO_POSITIONS,               \
    .positions = 512, .relative_buckets = 32, .relative_distance = 128, .head_dim = 64
FAMILY(t5) = {
    .type = "t5",
    .class_name = "T5ForConditionalGeneration",
    .others = " longt5 ",
    .names = t5_names,
    .facts = { T5_FACTS, .tied = true },
    .read = read_t5,
    .add = add_both,
};
FAMILY(mt5) = {
    .type = "mt5",
    .class_name = "MT5ForConditionalGeneration",
    .others = " umt5 ",
    .names = t5_names,
    .facts = { T5_FACTS, .gated = true },
    .read = read_t5,
    .add = add_both,
};

static const struct hf_name bart_names[] = {
    HF_NAME("is_encoder_decoder", ONLY_TRUE, hidden), HF_NAME("d_model", SIZE, hidden),
    HF_NAME("encoder_layers", SIZE, blocks),          HF_NAME("decoder_layers", SIZE, decoder_blocks),
    HF_NAME("encoder_attention_heads", SIZE, heads),  HF_NAME("encoder_ffn_dim", SIZE, inner),
    HF_NAME("decoder_ffn_dim", SIZE, decoder_inner),  { 0 }
};
static bool read_bart(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    int64_t decoder_heads;
    if (!hf_get_size(r->root, "decoder_attention_heads", f->heads, &decoder_heads, r->err))
        return false;
    if (!f->decoder_blocks)
        f->decoder_blocks = f->blocks;
    if (decoder_heads != f->heads)
        hf_note(r, "decoder_attention_heads: planned with the encoder's %lld heads", (long long)f->heads);
    return true;
}
#define BART_FACTS                                                                                                     \
    HF_GPT_FACTS, HF_BIASES, .activation = "gelu", .inner_factor = 0, .positions = 1024, .embedding_norm = true,       \
                             .tied = true
FAMILY(bart) = {
    .type = "bart",
    .class_name = "BartForConditionalGeneration",
    .others = " plbart blenderbot-small mvp ",
    .names = bart_names,
    .facts = { BART_FACTS, .place = HF_LEARNED, .position_offset = 2, .post_norm = true },
    .read = read_bart,
    .add = add_both,
};
FAMILY(mbart) = {
    .type = "mbart",
    .class_name = "MBartForConditionalGeneration",
    .names = bart_names,
    .facts = { BART_FACTS, .place = HF_LEARNED, .position_offset = 2 },
    .read = read_bart,
    .add = add_both,
};
/* The encoder is planned to read as many tokens as the decoder: it must have their positions. */
static bool check_sources(struct hf_reader *r)
{
    const struct hf_facts *f = &r->facts;
    return f->source_positions >= f->positions ||
           json_fail(hf_place_of(r, HF_FACT(source_positions)), r->err, "expected at least %s (%lld), found %lld",
                     hf_name_of(r, HF_FACT(positions)), (long long)f->positions, (long long)f->source_positions);
}
/* Beltagy et al. 2020 (LED): matrices of their own in the encoder for what tokens that see all others read. */
static const struct hf_name led_names[] = { HF_NAME("is_encoder_decoder", ONLY_TRUE, hidden),
                                            HF_NAME("d_model", SIZE, hidden),
                                            HF_NAME("encoder_layers", SIZE, blocks),
                                            HF_NAME("decoder_layers", SIZE, decoder_blocks),
                                            HF_NAME("encoder_attention_heads", SIZE, heads),
                                            HF_NAME("encoder_ffn_dim", SIZE, inner),
                                            HF_NAME("decoder_ffn_dim", SIZE, decoder_inner),
                                            HF_NAME("max_decoder_position_embeddings", SIZE, positions),
                                            HF_NAME("max_encoder_position_embeddings", SIZE, source_positions),
                                            { 0 } };
static bool read_led(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    if (!f->decoder_inner)
        f->decoder_inner = f->inner;
    if (!check_sources(r))
        return false;
    f->inner += 3 * f->hidden / 2;
    hf_note(
        r,
        "its encoder's matrices for tokens that see all others are planned as %lld more neurons of each network, its "
        "windows as attention to all of as many tokens as its decoder reads",
        (long long)(3 * f->hidden / 2));
    return read_bart(r);
}
FAMILY(led) = {
    .type = "led",
    .class_name = "LEDForConditionalGeneration",
    .names = led_names,
    .facts = { BART_FACTS, .place = HF_LEARNED, .post_norm = true, .source_positions = 16384 },
    .read = read_led,
    .add = add_both,
};
/* Sinusoidal positions count as weights where the library keeps them so. */
FAMILY(pegasus) = {
    .type = "pegasus",
    .class_name = "PegasusForConditionalGeneration",
    .names = bart_names,
    .facts = { BART_FACTS, .embedding_norm = false, .place = HF_LEARNED },
    .read = read_bart,
    .add = add_both,
};
FAMILY(m2m) = {
    .type = "m2m_100",
    .class_name = "M2M100ForConditionalGeneration",
    .others = " nllb ",
    .names = bart_names,
    .facts = { BART_FACTS, .embedding_norm = false, .place = HF_NO_POSITIONS },
    .read = read_bart,
    .add = add_both,
};
FAMILY(marian) = {
    .type = "marian",
    .class_name = "MarianMTModel",
    .names = bart_names,
    .facts = { BART_FACTS, .embedding_norm = false, .place = HF_LEARNED, .post_norm = true },
    .read = read_bart,
    .add = add_both,
};
FAMILY(blenderbot) = {
    .type = "blenderbot",
    .class_name = "BlenderbotForConditionalGeneration",
    .names = bart_names,
    .facts = { BART_FACTS, .embedding_norm = false, .place = HF_LEARNED },
    .read = read_bart,
    .add = add_both,
};

/* Radford et al. 2022: an encoder of sound. */
static const struct hf_name whisper_names[] = { HF_NAME("is_encoder_decoder", ONLY_TRUE, hidden),
                                                HF_NAME("d_model", SIZE, hidden),
                                                HF_NAME("encoder_layers", SIZE, blocks),
                                                HF_NAME("decoder_layers", SIZE, decoder_blocks),
                                                HF_NAME("encoder_attention_heads", SIZE, heads),
                                                HF_NAME("encoder_ffn_dim", SIZE, inner),
                                                HF_NAME("decoder_ffn_dim", SIZE, decoder_inner),
                                                HF_NAME("max_target_positions", SIZE, positions),
                                                HF_NAME("max_source_positions", SIZE, source_positions),
                                                HF_NAME("num_mel_bins", SIZE, mel_bins),
                                                { 0 } };
static bool read_whisper(struct hf_reader *r)
{
    if (!check_sources(r))
        return false;
    hf_note(r,
            "its two convolutions over time are planned as a network of as many weights, and its encoder with as many "
            "positions as its decoder");
    return read_bart(r);
}
FAMILY(whisper) = {
    .type = "whisper",
    .class_name = "WhisperForConditionalGeneration",
    .names = whisper_names,
    .facts = { BART_FACTS, .embedding_norm = false, .place = HF_LEARNED, .positions = 448, .source_positions = 1500,
               .mel_bins = 80, .bare_keys = true },
    .read = read_whisper,
    .add = add_both,
};

const struct hf_family *const hf_seq2seqs[] = { &t5,  &mt5,    &bart,       &mbart,   &led, &pegasus,
                                                &m2m, &marian, &blenderbot, &whisper, NULL };
