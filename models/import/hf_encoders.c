/* Encoders of tokens (Devlin et al. 2019 and relatives): norms behind the sums, learned positions, a head that fills in
 * what was masked. */
#include "models/import/hf_facts.h"
#include <stdio.h>
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
    .others = " xlm-roberta camembert xlm-roberta-xl data2vec-text ibert ",
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

/* How many matrices a block has for positions: a list of words, or words with bars between them. */
static bool count_positions(struct hf_reader *r, int64_t *out)
{
    const struct json *at = hf_given(r->root, "pos_att_type");
    const char *word;
    *out = 0;
    if (!at)
        return true;
    const bool list = json_type(at) == JSON_ARRAY;
    for (int i = 0; i < (list ? json_count(at) : 1); i++) {
        if (!json_string(list ? json_at(at, i) : at, &word, r->err))
            return false;
        *out += (strstr(word, "c2p") != NULL) + (strstr(word, "p2c") != NULL);
    }
    return true;
}

/* He et al. 2021: scores by relative position, whose table goes through the blocks' own matrices of queries and keys.
 */
static bool read_deberta(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    const struct json *norm = hf_given(r->root, "norm_rel_ebd"), *filter = hf_given(r->root, "conv_kernel_size");
    const char *over = "none";
    bool relative, biased, shared;
    int64_t buckets = 0, distance = 0, taps = 0, own = 0;
    if (!hf_get_bool(r->root, "relative_attention", false, &relative, r->err) ||
        !hf_get_bool(r->root, "position_biased_input", true, &biased, r->err) ||
        !hf_get_bool(r->root, "share_att_key", false, &shared, r->err) || (norm && !json_string(norm, &over, r->err)) ||
        (filter && !json_int(filter, 0, 1 << 16, &taps, r->err)))
        return false;
    const struct json *rows = hf_given(r->root, "position_buckets"), *far = hf_given(r->root, "max_relative_positions");
    if ((rows && !json_int(rows, -1, 1 << 20, &buckets, r->err)) ||
        (far && !json_int(far, -1, 1 << 20, &distance, r->err)))
        return false;
    if (taps > 0) {
        f->last_inner = taps * f->hidden / 2;
        hf_note(r, "its convolution over %lld tokens beside the first block is planned as a network of as many weights",
                (long long)taps);
    }
    if (!relative)
        return biased || json_fail(r->root, r->err, "expected position_biased_input or relative_attention");
    if (!shared) {
        if (!count_positions(r, &own))
            return false;
        f->inner += own * f->hidden / 2;
        hf_note(r, "the matrices that its blocks have for positions are planned as %lld more neurons of each network",
                (long long)(own * f->hidden / 2));
    }
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

/* Its first version: keys without a bias. */
FAMILY(deberta) = {
    .type = "deberta",
    .class_name = "DebertaForMaskedLM",
    .names = bert_names,
    .facts = { BERT_FACTS, .epsilon = 1e-7, .bare_keys = true },
    .read = read_deberta,
};

/* Lan et al. 2020: blocks that share their weights, tables narrower than the blocks. */
static const struct hf_name albert_names[] = { HF_NAME("embedding_size", SIZE, embedding_width), { 0 } };
static bool read_albert(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    int64_t groups, inner;
    if (!hf_get_size(r->root, "num_hidden_groups", 1, &groups, r->err) ||
        !hf_get_size(r->root, "inner_group_num", 1, &inner, r->err))
        return false;
    if (inner > 1)
        return json_fail(json_at_key(r->root, "inner_group_num"), r->err,
                         "expected 1, found %lld: groups of several layers cannot be planned", (long long)inner);
    if (groups > 64 || groups > f->blocks)
        return json_fail(json_at_key(r->root, "num_hidden_groups"), r->err,
                         "expected at most 64 and no more groups than blocks (%lld), found %lld", (long long)f->blocks,
                         (long long)groups);
    hf_note(r,
            "its %lld blocks share the weights of %lld: memory is planned as if each stage's blocks had most of theirs "
            "for themselves",
            (long long)f->blocks, (long long)groups);
    return true;
}
static bool blocks_of_albert(struct hf_reader *r)
{
    const struct hf_facts *f = &r->facts;
    int64_t groups = 1;
    const bool well = hf_get_size(r->root, "num_hidden_groups", 1, &groups, r->err);
    for (int64_t g = 0; well && g < groups; g++) {
        char *name = arena_alloc(&r->arena, 32, 1);
        if (!name)
            return fail_memory(r->err);
        snprintf(name, 32, "group%lld", (long long)g + 1);
        for (int64_t i = 0; i < f->blocks; i++)
            if (i * groups / f->blocks == g)
                r->blocks[i].attention.head.shared = r->blocks[i].mlp.head.shared = name;
    }
    return well;
}
FAMILY(albert) = {
    .type = "albert",
    .class_name = "AlbertForMaskedLM",
    .names = albert_names,
    .facts = { BERT_FACTS, .activation = "gelu_new", .token_types = 2, .embedding_width = 128, .embedding_bias = true },
    .read = read_albert,
    .blocks = blocks_of_albert,
};

/* Zaheer et al. 2020: blocks of tokens see their neighbours, random ones and the first and last. */
static bool read_big_bird(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    const char *type;
    int64_t size, random;
    if (!hf_get_string(r->root, "attention_type", "block_sparse", &type, r->err) ||
        !hf_get_size(r->root, "block_size", 64, &size, r->err) ||
        !hf_get_count(r->root, "num_random_blocks", 3, &random, r->err))
        return false;
    f->windows = strcmp(type, "block_sparse") == 0;
    f->window = (5 + random) * size;
    f->last_inner = f->hidden / 2;
    if (f->windows)
        hf_note(r, "its sparse attention is planned as a window of as many tokens (%lld)", (long long)f->window);
    hf_note(r, "its pooled token's matrix is planned as a network of as many weights");
    return true;
}
FAMILY(big_bird) = {
    .type = "big_bird",
    .class_name = "BigBirdForMaskedLM",
    .facts = { BERT_FACTS, .activation = "gelu_new", .token_types = 2, .positions = 4096 },
    .read = read_big_bird,
};
/* Rothe et al. 2020: a decoder as BERT has it. */
FAMILY(bert_generation) = {
    .type = "bert-generation",
    .class_name = "BertGenerationDecoder",
    .facts = { BERT_FACTS, .encoder = false, .transform = false },
};
/* Beltagy et al. 2020: windows, and matrices of their own for what tokens that see all others read. */
static bool read_longformer(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    const struct json *at = hf_given(r->root, "attention_window");
    if (at && json_type(at) == JSON_ARRAY)
        at = json_at(at, 0);
    f->window = 512;
    if (at && !json_int(at, 1, 1 << 24, &f->window, r->err))
        return false;
    f->windows = true;
    f->inner += 3 * f->hidden / 2;
    hf_note(r, "its matrices for tokens that see all others are planned as %lld more neurons of each network",
            (long long)(3 * f->hidden / 2));
    return read_roberta(r);
}
FAMILY(longformer) = {
    .type = "longformer",
    .class_name = "LongformerForMaskedLM",
    .facts = { BERT_FACTS, .token_types = 1 },
    .read = read_longformer,
};
/* Yang et al. 2019: a matrix for relative positions in each block. */
static const struct hf_name xlnet_names[] = { HF_NAME("d_model", SIZE, hidden),
                                              HF_NAME("n_layer", SIZE, blocks),
                                              HF_NAME("n_head", SIZE, heads),
                                              HF_NAME("d_head", SIZE, head_dim),
                                              HF_NAME("d_inner", SIZE, inner),
                                              HF_NAME("ff_activation", WORD, activation),
                                              { 0 } };
static bool read_xlnet(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    f->inner += f->hidden / 2;
    hf_note(r,
            "its matrix for relative positions is planned as %lld more neurons of each network; left out: its vectors "
            "of segments and biases of scores, %lld weights a block, and its second stream",
            (long long)(f->hidden / 2), (long long)(5 * f->hidden));
    return true;
}
FAMILY(xlnet) = {
    .type = "xlnet",
    .class_name = "XLNetLMHeadModel",
    .names = xlnet_names,
    .facts = { BERT_FACTS, .qkv_bias = false, .output_bias = false, .place = HF_NO_POSITIONS, .embedding_norm = false,
               .transform = false, .positions = 512 },
    .read = read_xlnet,
};
/* Lin et al. 2023 (ESM-2): pre-norm, rotary positions. */
static bool read_esm(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    const char *place;
    bool before;
    if (!hf_get_string(r->root, "position_embedding_type", "absolute", &place, r->err) ||
        !hf_get_bool(r->root, "emb_layer_norm_before", false, &before, r->err))
        return false;
    f->embedding_norm = before;
    f->place = strcmp(place, "absolute") == 0 ? HF_LEARNED : HF_ROTARY;
    hf_note(r, "left out: what tells contacts, %lld weights", (long long)(f->blocks * f->heads + 1));
    return read_roberta(r);
}
FAMILY(esm) = {
    .type = "esm",
    .class_name = "EsmForMaskedLM",
    .facts = { BERT_FACTS, .post_norm = false, .embedding_norm = false, .positions = 1026 },
    .read = read_esm,
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

/* Xu et al. 2020: four tables of places on a page. */
static bool read_layoutlm(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    int64_t places;
    if (!hf_get_size(r->root, "max_2d_position_embeddings", 1024, &places, r->err))
        return false;
    f->position_offset = 4 * places;
    f->last_inner = f->hidden / 2;
    hf_note(
        r,
        "its four tables of places on a page are planned as rows of its table of positions, its pooled token's matrix "
        "as a network of as many weights");
    return true;
}
FAMILY(layoutlm) = {
    .type = "layoutlm",
    .class_name = "LayoutLMForMaskedLM",
    .facts = { BERT_FACTS, .token_types = 2 },
    .read = read_layoutlm,
};
/* Lample & Conneau 2019: a table of languages. */
static const struct hf_name xlm_names[] = { HF_NAME("emb_dim", SIZE, hidden),
                                            HF_NAME("n_layers", SIZE, blocks),
                                            HF_NAME("n_heads", SIZE, heads),
                                            HF_NAME("n_words", SIZE, vocab),
                                            HF_NAME("vocab_size", SIZE, vocab),
                                            HF_NAME("pre_norm", NOT_FLAG, post_norm),
                                            { 0 } };
static bool read_xlm(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    int64_t languages;
    bool table;
    if (!hf_get_size(r->root, "n_langs", 1, &languages, r->err) ||
        !hf_get_bool(r->root, "use_lang_emb", true, &table, r->err))
        return false;
    f->token_types = table && languages > 1 ? languages : 0;
    return true;
}
FAMILY(xlm) = {
    .type = "xlm",
    .class_name = "XLMWithLMHeadModel",
    .others = " flaubert ",
    .names = xlm_names,
    .facts = { BERT_FACTS, .inner_factor = 4, .transform = false },
    .read = read_xlm,
};
/* Zhang et al. 2024 (mGTE): rotary positions, a gated network. */
static bool read_gte(struct hf_reader *r)
{
    hf_note(r, "left out: the bias of its networks' last matrix, %lld weights a block", (long long)r->facts.hidden);
    return true;
}
FAMILY(gte) = {
    .type = "gte",
    .class_name = "GteForMaskedLM",
    .others = " new ",
    .facts = { BERT_FACTS, .token_types = 1, .place = HF_ROTARY, .gated = true, .mlp_bias = false, .positions = 8192,
               .rope_base = 160000 },
    .read = read_gte,
};

/* Weller et al. 2025. */
FAMILY(modernbert_decoder) = {
    .type = "modernbert-decoder",
    .class_name = "ModernBertDecoderForCausalLM",
    .names = modernbert_names,
    .facts = { HF_LLAMA_FACTS, .norm = NORM_LAYER_NO_BIAS, .epsilon = 1e-5, .activation = "gelu",
               .embedding_norm = true, .tied = true, .head_bias = true, .transform = true, .rope_base = 160000,
               .positions = 8192 },
    .read = read_modernbert,
    .blocks = bare_first_block,
};

const struct hf_family *const hf_encoders[] = { &albert,
                                                &layoutlm,
                                                &xlm,
                                                &gte,
                                                &deberta,
                                                &big_bird,
                                                &bert_generation,
                                                &longformer,
                                                &xlnet,
                                                &esm,
                                                &modernbert_decoder,
                                                &bert,
                                                &electra,
                                                &rembert,
                                                &nomic_bert,
                                                &roformer,
                                                &roberta,
                                                &prelayernorm,
                                                &mpnet,
                                                &distilbert,
                                                &deberta_v2,
                                                &modernbert,
                                                NULL };
