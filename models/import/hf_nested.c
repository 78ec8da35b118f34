/* Models of images or sound and text: what of the file describes the model of tokens, and how much is left out. */
#include "models/import/hf_facts.h"
#include <string.h>

/* Sizes of a tower of patches, whatever its file calls them. */
struct tower {
    int64_t hidden, blocks, inner, image, patch, channels, frames, merged, output, positions, taps, joint, joined;
};

static int64_t size_of(const struct json *box, const char *const *names, int64_t fallback)
{
    int64_t size = fallback;
    for (int i = 0; names[i]; i++)
        if (hf_given(box, names[i]) && json_int(hf_given(box, names[i]), 1, 1 << 24, &size, NULL))
            return size;
    return fallback;
}
#define SIZE_OF(box, fallback, ...) size_of(box, (const char *const[]){ __VA_ARGS__, NULL }, fallback)

/* Two matrices with biases between a norm's output and the text's width (Qwen's mergers). */
static int64_t merger(const struct tower *t, int64_t norm)
{
    int64_t wide = t->hidden * t->merged * t->merged;
    return norm + wide * wide + wide + wide * t->output + t->output;
}

/* A block of attention and two matrices, all with biases, behind two layer norms. */
static int64_t plain_block(const struct tower *t)
{
    return 4 * t->hidden * t->hidden + 4 * t->hidden + 2 * t->hidden * t->inner + t->inner + t->hidden + 4 * t->hidden;
}

static int64_t clip(const struct tower *t)
{
    int64_t side = t->image / t->patch, points = t->channels * t->patch * t->patch;
    return t->hidden * points + t->hidden + (side * side + 1) * t->hidden + 4 * t->hidden + t->blocks * plain_block(t);
}

static int64_t siglip(const struct tower *t)
{
    int64_t side = t->image / t->patch, points = t->channels * t->patch * t->patch;
    return t->hidden * points + t->hidden + side * side * t->hidden + 2 * t->hidden + t->blocks * plain_block(t);
}

static int64_t qwen2(const struct tower *t)
{
    int64_t points = t->channels * t->frames * t->patch * t->patch;
    return t->hidden * points + t->blocks * plain_block(t) + merger(t, 2 * t->hidden);
}

static int64_t qwen2_5(const struct tower *t)
{
    int64_t points = t->channels * t->frames * t->patch * t->patch, h = t->hidden;
    int64_t block = 4 * h * h + 4 * h + 3 * h * t->inner + 2 * t->inner + h + 2 * h;
    return h * points + t->blocks * block + merger(t, h);
}

static int64_t qwen3(const struct tower *t)
{
    int64_t points = t->channels * t->frames * t->patch * t->patch, wide = t->hidden * t->merged * t->merged;
    return t->hidden * points + t->hidden + t->positions * t->hidden + t->blocks * plain_block(t) +
           merger(t, 2 * t->hidden) + t->taps * merger(t, 2 * wide);
}

static int64_t pixtral(const struct tower *t)
{
    int64_t points = t->channels * t->patch * t->patch, h = t->hidden;
    return h * points + h + t->blocks * (4 * h * h + 3 * h * t->inner + 2 * h);
}

/* Meta 2025: no bias at the patches, two matrices that join four of them, one to the text. */
static int64_t llama4(const struct tower *t)
{
    int64_t side = t->image / t->patch, points = t->channels * t->patch * t->patch;
    return t->hidden * points + t->hidden + (side * side + 1) * t->hidden + 4 * t->hidden + t->blocks * plain_block(t) +
           t->inner * t->joint + t->joint * t->joined + t->output * t->positions;
}

/* What joins a tower of the first kinds to the text. */
static int64_t projector(const struct hf_reader *r, const struct tower *t)
{
    const char *type = "";
    int64_t text = r->facts.hidden;
    hf_get_string(r->top, "model_type", "", &type, NULL);
    if (strcmp(type, "paligemma") == 0)
        return t->hidden * text + text;
    if (strcmp(type, "idefics3") == 0 || strcmp(type, "smolvlm") == 0)
        return t->hidden * t->merged * t->merged * text;
    if (strcmp(type, "gemma3") == 0)
        return t->hidden * text + t->hidden;
    if (strcmp(type, "mistral3") == 0)
        return t->hidden + 4 * t->hidden * t->hidden + t->hidden * text + text * text;
    if (strncmp(type, "llava", 5) == 0 || strcmp(type, "vipllava") == 0)
        return t->hidden * text + text + text * text + text + (strcmp(type, "llava_next") == 0 ? text : 0);
    return 0;
}

static const struct {
    const char *type;
    int64_t (*count)(const struct tower *t);
    bool joined; /* what joins it to the text is part of it */
} towers[] = {
    { "clip_vision_model", clip, false },
    { "siglip_vision_model", siglip, false },
    { "qwen2_vl", qwen2, true },
    { "qwen2_5_vl", qwen2_5, true },
    { "qwen3_vl", qwen3, true },
    { "qwen3_vl_moe", qwen3, true },
    { "qwen3_5", qwen3, true },
    { "qwen3_5_moe", qwen3, true },
    { "pixtral", pixtral, false },
    { "qwen2_5_vl_vision", qwen2_5, true },
    { "qwen2_vl_vision", qwen2, true },
    { "qwen3_vl_vision", qwen3, true },
    { "qwen3_5_vision", qwen3, true },
    { "qwen4_exp_vision", qwen3, true },
    { "cohere_compass_vision", qwen3, true },
    { "qwen3_5_moe_vision", qwen3, true },
    { "qwen3_vl_moe_vision", qwen3, true },
    { "llama4_vision_model", llama4, true },
    { "idefics3_vision", siglip, false },
    { "smolvlm_vision", siglip, false },
};

static void fill_tower(const struct hf_reader *r, const struct json *box, const char *type, struct tower *t)
{
    t->hidden = SIZE_OF(box, 768, "embed_dim", "hidden_size", "width");
    t->blocks = SIZE_OF(box, 12, "num_hidden_layers", "depth", "layers");
    t->inner = SIZE_OF(box, 4 * t->hidden, "intermediate_size");
    t->image = SIZE_OF(box, 224, "image_size");
    t->patch = SIZE_OF(box, 14, "patch_size", "spatial_patch_size");
    t->channels = SIZE_OF(box, 3, "num_channels", "in_channels", "in_chans");
    t->frames = SIZE_OF(box, 2, "temporal_patch_size");
    t->merged = SIZE_OF(box, 2, "spatial_merge_size");
    t->output = SIZE_OF(box, r->facts.hidden, "out_hidden_size");
    t->positions = SIZE_OF(box, 2304, "num_position_embeddings");
    t->joint = SIZE_OF(box, 4096, "projector_input_dim");
    t->joined = SIZE_OF(box, 4096, "projector_output_dim");
    if (strcmp(type, "llama4_vision_model") == 0) {
        t->output = SIZE_OF(box, 7680, "vision_output_dim");
        t->positions = r->facts.hidden;
    }
    if (hf_given(r->top, "scale_factor"))
        t->merged = SIZE_OF(r->top, 2, "scale_factor");
    const struct json *taps = hf_given(box, "deepstack_visual_indexes");
    t->taps = taps ? json_count(taps) : 0;
}

static void note_tower(struct hf_reader *r, const struct json *box)
{
    const char *type = "";
    struct tower t;
    hf_get_string(box, "model_type", "", &type, NULL);
    if (!*type)
        hf_get_string(r->top, "model_type", "", &type, NULL);
    fill_tower(r, box, type, &t);
    const bool countable = t.hidden <= 1 << 16 && t.inner <= 1 << 20 && t.blocks <= 1 << 12 && t.image <= 1 << 14 &&
                           t.patch <= 1 << 10 && t.channels <= 1 << 10 && t.frames <= 1 << 10 && t.merged <= 1 << 4 &&
                           t.taps <= 1 << 10;
    for (size_t i = 0; countable && i < sizeof towers / sizeof *towers; i++)
        if (strcmp(towers[i].type, type) == 0) {
            int64_t count = towers[i].count(&t) + (towers[i].joined ? 0 : projector(r, &t));
            r->left_out += count;
            hf_note(r,
                    "left out: the vision tower and what joins it to the text, %lld parameters; only the text part is "
                    "planned",
                    (long long)count);
            return;
        }
    hf_note(r, "left out: the vision tower (%.64s), whose parameters are not counted; only the text part is planned",
            *type ? type : "without model_type");
}

/* A table of tokens, one of positions, blocks, a last norm, and what brings both towers to one width. */
void hf_note_text_tower(struct hf_reader *r)
{
    const struct json *box = hf_given(r->top, "text_config");
    struct tower t;
    if (!box || json_type(box) != JSON_OBJECT)
        return;
    fill_tower(r, box, "", &t);
    t.hidden = SIZE_OF(box, 512, "hidden_size");
    t.inner = SIZE_OF(box, 4 * t.hidden, "intermediate_size");
    const int64_t tokens = SIZE_OF(box, 49408, "vocab_size"), places = SIZE_OF(box, 77, "max_position_embeddings"),
                  joint = SIZE_OF(r->top, t.hidden, "projection_dim");
    if (t.hidden > 1 << 16 || t.inner > 1 << 20 || t.blocks > 1 << 12 || joint > 1 << 16) {
        hf_note(r,
                "left out: the tower of text, whose parameters are not counted; only the tower of images is planned");
        return;
    }
    const int64_t count =
        (tokens + places + 2) * t.hidden + t.blocks * plain_block(&t) + joint * (t.hidden + r->facts.hidden);
    r->left_out += count;
    hf_note(
        r,
        "left out: the tower of text and what joins both, about %lld parameters; only the tower of images is planned",
        (long long)count);
}

void hf_note_left_out(struct hf_reader *r)
{
    const struct json *vision = r->facts.image_size ? NULL : hf_given(r->top, "vision_config"),
                      *audio = hf_given(r->top, "audio_config");
    if (vision && json_type(vision) == JSON_OBJECT)
        note_tower(r, vision);
    if (audio && json_type(audio) == JSON_OBJECT)
        hf_note(r, "left out: the audio tower, whose parameters are not counted; only the text part is planned");
    if (r->facts.token_blocks && !r->further)
        hf_note(
            r, "left out: %lld block%s that predict%s further tokens (multi-token prediction); import --mtp plans them",
            (long long)r->facts.token_blocks, r->facts.token_blocks == 1 ? "" : "s",
            r->facts.token_blocks == 1 ? "s" : "");
}

/* Of two towers whose outputs are held against each other, the one of images is what is planned. */
static bool has_two_towers(const struct json *top)
{
    static const char *const types[] = { "clip", "chinese_clip", "metaclip_2", "siglip", "siglip2" };
    const char *type = "";
    if (!hf_get_string(top, "model_type", "", &type, NULL))
        return false;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i]) == 0)
            return hf_given(top, "vision_config") && json_type(hf_given(top, "vision_config")) == JSON_OBJECT;
    return false;
}

bool hf_enter_text(struct hf_reader *r)
{
    if (has_two_towers(r->top)) {
        r->root = hf_given(r->top, "vision_config");
        r->nested = true;
        return true;
    }
    static const char *const keys[] = { "text_config", "language_config", "llm_config", "thinker_config" };
    for (int depth = 0; depth < 2; depth++)
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
            const struct json *inner = hf_given(r->root, keys[i]);
            if (!inner)
                continue;
            if (!hf_expect_object(inner, r->err))
                return false;
            r->root = inner;
            r->nested = true;
            break;
        }
    return true;
}
