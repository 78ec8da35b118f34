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
    .others = " ernie megatron-bert electra nomic_bert ",
    .names = bert_names,
    .facts = { BERT_FACTS, .token_types = 2 },
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

const struct hf_family *const hf_encoders[] = { &bert, &roberta, &distilbert, &modernbert, NULL };
