/* Encoders of tokens (Devlin et al. 2019 and relatives): norms behind the sums, learned positions, a head that fills in
 * what was masked. */
#include "models/import/hf_facts.h"
#include <string.h>

#define FAMILY(symbol) static const struct hf_family symbol
#define BERT_FACTS                                                                                                     \
    HF_GPT_FACTS, HF_BIASES, .epsilon = 1e-12, .activation = "gelu", .inner_factor = 0, .place = HF_LEARNED,           \
                             .positions = 512, .encoder = true, .post_norm = true, .embedding_norm = true,             \
                             .tied = true, .head_bias = true, .transform = true, .transform_bias = true

static const struct hf_name bert_names[] = { HF_NAME("embedding_size", SIZE, embedding_width), { 0 } };
FAMILY(bert) = {
    .type = "bert",
    .class_name = "BertForMaskedLM",
    .others = " ernie megatron-bert ",
    .names = bert_names,
    .facts = { BERT_FACTS, .token_types = 2 },
};

/* Clark et al. 2020: tables narrower than the blocks. */
FAMILY(electra) = {
    .type = "electra",
    .class_name = "ElectraForMaskedLM",
    .names = bert_names,
    .facts = { BERT_FACTS, .token_types = 2, .embedding_width = 128, .embedding_bias = true, .hidden = 256,
               .blocks = 12, .heads = 4, .inner = 1024, .vocab = 30522, .no_required = true },
};
/* Chung et al. 2021: a table for the logits that is wider than the one of tokens. */
static const struct hf_name rembert_names[] = { HF_NAME("input_embedding_size", SIZE, embedding_width),
                                                HF_NAME("output_embedding_size", SIZE, head_width),
                                                { 0 } };
FAMILY(rembert) = {
    .type = "rembert",
    .class_name = "RemBertForMaskedLM",
    .names = rembert_names,
    .facts = { BERT_FACTS, .token_types = 2, .embedding_width = 256, .head_width = 1664, .embedding_bias = true,
               .tied = false },
};
/* Nussbaum et al. 2024: rotary positions, a gated network without biases. */
static const struct hf_name nomic_names[] = { HF_NAME("n_positions", SIZE, positions),
                                              HF_NAME("max_position_embeddings", SIZE, positions),
                                              HF_NAME("rotary_emb_fraction", SMALL, rope_part),
                                              HF_NAME("qkv_proj_bias", FLAG, qkv_bias),
                                              { 0 } };
FAMILY(nomic_bert) = {
    .type = "nomic_bert",
    .class_name = "NomicBertForMaskedLM",
    .names = nomic_names,
    .facts = { BERT_FACTS, .token_types = 2, .place = HF_ROTARY, .gated = true, .activation = "silu", .qkv_bias = false,
               .output_bias = false, .mlp_bias = false, .positions = 8192 },
};
/* Su et al. 2021. */
static bool read_roformer(struct hf_reader *r)
{
    const struct hf_facts *f = &r->facts;
    hf_note(r, "left out: its table of sines, %lld numbers that are not trained",
            (long long)(f->positions * (f->hidden / f->heads)));
    return true;
}
FAMILY(roformer) = {
    .type = "roformer",
    .class_name = "RoFormerForMaskedLM",
    .names = bert_names,
    .facts = { BERT_FACTS, .token_types = 2, .place = HF_ROTARY, .embedding_bias = true, .positions = 1536 },
    .read = read_roformer,
};

/* Liu et al. 2019: positions begin behind the padding token's, so that the table has two rows more than a sequence. */
static bool read_roberta(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    if (f->positions > 2 && f->positions % 16 == 2) {
        f->positions -= 2;
        f->position_offset = 2;
    }
    return true;
}
FAMILY(roberta) = {
    .type = "roberta",
    .class_name = "RobertaForMaskedLM",
    .others = " xlm-roberta camembert xlm-roberta-xl data2vec-text ",
    .names = bert_names,
    .facts = { BERT_FACTS, .token_types = 1 },
    .read = read_roberta,
};

/* Ott et al. 2019: norms before the layers. */
FAMILY(prelayernorm) = {
    .type = "roberta-prelayernorm",
    .class_name = "RobertaPreLayerNormForMaskedLM",
    .names = bert_names,
    .facts = { BERT_FACTS, .token_types = 1, .post_norm = false },
    .read = read_roberta,
};
/* Song et al. 2020: no token types, biases by relative position beside learned ones. */
static const struct hf_name mpnet_names[] = { HF_NAME("relative_attention_num_buckets", SIZE, relative_buckets),
                                              { 0 } };
static bool blocks_of_mpnet(struct hf_reader *r)
{
    for (int64_t i = 0; i < r->facts.blocks; i++)
        r->blocks[i].attention.relative_table = "encoder";
    return true;
}
FAMILY(mpnet) = {
    .type = "mpnet",
    .class_name = "MPNetForMaskedLM",
    .names = mpnet_names,
    .facts = { BERT_FACTS, .relative_buckets = 32, .relative_distance = 128 },
    .read = read_roberta,
    .blocks = blocks_of_mpnet,
};

/* Sanh et al. 2019: no token types. */
static const struct hf_name distilbert_names[] = {
    HF_NAME("dim", SIZE, hidden),       HF_NAME("n_layers", SIZE, blocks),       HF_NAME("n_heads", SIZE, heads),
    HF_NAME("hidden_dim", SIZE, inner), HF_NAME("activation", WORD, activation), { 0 }
};
FAMILY(distilbert) = {
    .type = "distilbert",
    .class_name = "DistilBertForMaskedLM",
    .names = distilbert_names,
    .facts = { BERT_FACTS },
};

/* He et al. 2021: scores by relative position, whose table goes through the blocks' own matrices of queries and keys.
 */
static bool read_deberta(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    const struct json *norm = hf_given(r->root, "norm_rel_ebd"), *filter = hf_given(r->root, "conv_kernel_size");
    const char *over = "none";
    bool relative, biased, shared;
    int64_t buckets = 0, distance = 0, taps = 0;
    if (!hf_get_bool(r->root, "relative_attention", false, &relative, r->err) ||
        !hf_get_bool(r->root, "position_biased_input", true, &biased, r->err) ||
        !hf_get_bool(r->root, "share_att_key", false, &shared, r->err) || (norm && !json_string(norm, &over, r->err)) ||
        (filter && !json_int(filter, 0, 1 << 16, &taps, r->err)))
        return false;
    const struct json *rows = hf_given(r->root, "position_buckets"), *far = hf_given(r->root, "max_relative_positions");
    if ((rows && !json_int(rows, -1, 1 << 20, &buckets, r->err)) ||
        (far && !json_int(far, -1, 1 << 20, &distance, r->err)))
        return false;
    if (taps > 0)
        return json_fail(filter, r->err,
                         "a convolution beside the first block cannot be planned: no kind of layer is that");
    if (!relative)
        return biased || json_fail(r->root, r->err, "expected position_biased_input or relative_attention");
    if (!shared)
        return json_fail(
            r->root, r->err,
            "positions with matrices of their own in each block cannot be planned: expected share_att_key");
    int64_t table = 2 * (buckets > 0 ? buckets : distance > 0 ? distance : f->positions);
    table += strstr(over, "layer_norm") ? 2 : 0;
    if (!biased && table < f->positions)
        return json_fail(rows ? rows : r->root, r->err,
                         "expected at least half as many position_buckets as %s (%lld): less cannot be planned",
                         hf_name_of(r, HF_FACT(positions)), (long long)f->positions);
    f->position_offset = biased ? table : table - f->positions;
    hf_note(r,
            "its table of relative positions with its norm is planned as a table of as many weights that is added to "
            "tokens; the scores that it makes, two further products in each block, are left out");
    return true;
}
FAMILY(deberta_v2) = {
    .type = "deberta-v2",
    .class_name = "DebertaV2ForMaskedLM",
    .names = bert_names,
    .facts = { BERT_FACTS },
    .read = read_deberta,
};

/* Warner et al. 2024: pre-norm, rotary positions, gated network, windows in two blocks of three. */
static const struct hf_name modernbert_names[] = { HF_NAME("attention_bias", FLAG, qkv_bias),
                                                   HF_NAME("attention_bias", FLAG, output_bias),
                                                   HF_NAME("mlp_bias", FLAG, mlp_bias),
                                                   HF_NAME("decoder_bias", FLAG, head_bias),
                                                   HF_NAME("global_rope_theta", BASE, rope_base),
                                                   HF_NAME("classifier_bias", FLAG, transform_bias),
                                                   { 0 } };
static bool read_modernbert(struct hf_reader *r)
{
    bool bias;
    if (!hf_get_bool(r->root, "norm_bias", false, &bias, r->err))
        return false;
    r->facts.norm = bias ? NORM_LAYER : NORM_LAYER_NO_BIAS;
    hf_note(r, "its windows around a token are planned as full attention");
    return true;
}
/* The norm behind the embedding is the first block's. */
static bool bare_first_block(struct hf_reader *r)
{
    r->blocks[0].attention.norm = NORM_NONE;
    for (int64_t i = 0; i < r->facts.blocks; i++)
        r->blocks[i].fixed = true;
    return true;
}
FAMILY(modernbert) = {
    .type = "modernbert",
    .class_name = "ModernBertForMaskedLM",
    .names = modernbert_names,
    .facts = { HF_LLAMA_FACTS, .norm = NORM_LAYER_NO_BIAS, .epsilon = 1e-5, .activation = "gelu", .encoder = true,
               .embedding_norm = true, .tied = true, .head_bias = true, .transform = true, .rope_base = 160000,
               .positions = 8192 },
    .read = read_modernbert,
    .blocks = bare_first_block,
};

const struct hf_family *const hf_encoders[] = { &bert,       &electra,    &rembert,      &nomic_bert,
                                                &roformer,   &roberta,    &prelayernorm, &mpnet,
                                                &distilbert, &deberta_v2, &modernbert,   NULL };
