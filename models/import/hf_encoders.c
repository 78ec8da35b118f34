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

const struct hf_family *const hf_encoders[] = { &bert,         &electra, &rembert,    &nomic_bert, &roformer, &roberta,
                                                &prelayernorm, &mpnet,   &distilbert, &modernbert, NULL };
