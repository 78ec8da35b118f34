/* Encoders of sound (Baevski et al. 2020, wav2vec 2.0; Hsu et al. 2021, HuBERT; Chen et al. 2022, WavLM): convolutions
 * over the wave, blocks as BERT has them, a head of letters. */
#include "models/import/hf_facts.h"
#include <string.h>

#define FAMILY(symbol) static const struct hf_family symbol

enum { MOST_FILTERS = 32 };

/* A list of sizes, one for each convolution; what the library has by default where it is absent. */
static bool read_filters(struct hf_reader *r, const char *key, const int64_t *fallback, int *count,
                         int64_t out[MOST_FILTERS])
{
    const struct json *list = hf_given(r->root, key);
    if (list && (json_type(list) != JSON_ARRAY || json_count(list) < 1 || json_count(list) > MOST_FILTERS))
        return json_fail(list, r->err, "expected an array of 1 to %d sizes", MOST_FILTERS);
    if (list && *count && json_count(list) != *count)
        return json_fail(list, r->err, "expected as many entries as conv_dim (%d), found %d", *count, json_count(list));
    *count = list ? json_count(list) : *count ? *count : 7;
    for (int i = 0; i < *count; i++) {
        out[i] = fallback[i < 7 ? i : 6];
        if (list && !json_int(json_at(list, i), 1, 1 << 16, &out[i], r->err))
            return false;
    }
    return true;
}

/* Weights of all that stands before the first block. */
static bool count_front(struct hf_reader *r, int64_t *out)
{
    static const int64_t channels[] = { 512, 512, 512, 512, 512, 512, 512 }, windows[] = { 10, 3, 3, 3, 3, 2, 2 };
    const struct hf_facts *f = &r->facts;
    int64_t width[MOST_FILTERS], window[MOST_FILTERS], taps, groups, from = 1;
    int count = 0;
    const char *norm;
    bool bias;
    if (!read_filters(r, "conv_dim", channels, &count, width) ||
        !read_filters(r, "conv_kernel", windows, &count, window) ||
        !hf_get_bool(r->root, "conv_bias", false, &bias, r->err) ||
        !hf_get_string(r->root, "feat_extract_norm", "group", &norm, r->err) ||
        !hf_get_size(r->root, "num_conv_pos_embeddings", 128, &taps, r->err) ||
        !hf_get_size(r->root, "num_conv_pos_embedding_groups", 16, &groups, r->err))
        return false;
    *out = 0;
    for (int i = 0; i < count; i++) {
        *out += from * width[i] * window[i] + (bias ? width[i] : 0);
        *out += i == 0 || strcmp(norm, "layer") == 0 ? 2 * width[i] : 0;
        from = width[i];
    }
    if (taps > 1 << 16)
        return json_fail(json_at_key(r->root, "num_conv_pos_embeddings"), r->err, "expected at most %d, found %lld",
                         1 << 16, (long long)taps);
    if (f->hidden > 1 << 20)
        return json_fail(hf_place_of(r, HF_FACT(hidden)), r->err, "expected at most %d, found %lld", 1 << 20,
                         (long long)f->hidden);
    if (f->hidden % groups)
        return json_fail(json_at_key(r->root, "num_conv_pos_embedding_groups"), r->err,
                         "expected a divisor of the hidden size (%lld), found %lld", (long long)f->hidden,
                         (long long)groups);
    *out += 2 * from + from * f->hidden + f->hidden; /* to the width of the blocks */
    *out += f->hidden * (f->hidden / groups) * taps + taps + f->hidden;
    return true;
}

static bool read_sound(struct hf_reader *r)
{
    struct hf_facts *f = &r->facts;
    int64_t front;
    bool before;
    if (!hf_get_bool(r->root, "do_stable_layer_norm", false, &before, r->err) || !count_front(r, &front))
        return false;
    f->post_norm = !before;
    f->embedding_norm = !before;
    front -= f->vocab * f->hidden; /* the table of tokens, which a model of sound has not */
    f->first_inner = front > 2 * f->hidden ? front / (2 * f->hidden) : 1;
    if (front < 0)
        hf_note(r,
                "its vocabulary of %lld is planned with a table of tokens, about %lld weights more than the file's "
                "model has",
                (long long)f->vocab, (long long)(2 * f->hidden - front));
    hf_note(r, "its convolutions over the wave and over positions are planned as a network of as many weights, which "
               "reads frames as tokens: their work between samples and frames is left out");
    return true;
}

/* Where adapters stand in the blocks (Pratap et al. 2023), they are networks of their own. */
static bool blocks_of_sound(struct hf_reader *r)
{
    struct mlp_layer adapter;
    int64_t width;
    if (!hf_get_count(r->root, "adapter_attn_dim", 0, &width, r->err) || !hf_fill_mlp(r, &adapter))
        return false;
    adapter.inner = width;
    adapter.post_norm = false;
    for (int64_t i = 0; width && i < r->facts.blocks; i++)
        r->blocks[i].last = adapter;
    return true;
}
FAMILY(wav2vec2) = {
    .type = "wav2vec2",
    .class_name = "Wav2Vec2ForCTC",
    .others = " hubert wavlm ",
    .facts = { HF_GPT_FACTS, HF_BIASES, .activation = "gelu", .inner_factor = 0, .hidden = 768, .blocks = 12,
               .heads = 12, .inner = 3072, .vocab = 32, .positions = 1500, .place = HF_NO_POSITIONS, .encoder = true,
               .head_bias = true, .no_required = true },
    .read = read_sound,
    .blocks = blocks_of_sound,
};

const struct hf_family *const hf_sounds[] = { &wav2vec2, NULL };
