/* Rotary positions: rope_theta at the top of older files, else in rope_scaling or rope_parameters, which may hold one
 * box for each type of attention. */
#include "models/import/hf_facts.h"
#include <math.h>
#include <string.h>

/* Dubey et al. 2024 as their released configurations say it. */
static bool read_stretch(const struct json *box, struct hf_facts *f, struct error *err)
{
    const struct json *at;
    return json_require(box, "factor", &at, err) && json_double(at, 1e-6, 1e6, &f->rope_factor, err) &&
           json_require(box, "low_freq_factor", &at, err) && json_double(at, 1e-6, 1e6, &f->rope_low, err) &&
           json_require(box, "high_freq_factor", &at, err) && json_double(at, 1e-6, 1e6, &f->rope_high, err) &&
           json_require(box, "original_max_position_embeddings", &at, err) &&
           json_int(at, 1, 1 << 27, &f->rope_original, err) &&
           (f->rope_high >= f->rope_low ||
            json_fail(json_member(box, "high_freq_factor"), err, "expected at least low_freq_factor (%g), found %g",
                      f->rope_low, f->rope_high));
}

/* transformers 5.24 (modeling_rope_utils.py) takes a given attention_factor in place of what factor and both mscale
 * give: (1 + 0.1 mscale ln factor) / (1 + 0.1 mscale_all_dim ln factor). An mscale gives it. */
static void take_attention_factor(struct hf_reader *r, double wanted)
{
    struct model_left_out *left = &r->facts.left_out;
    double each = left->factor > 1 ? 0.1 * log(left->factor) : 0;
    double mscale = each > 0 ? (wanted * (1 + each * left->mscale_all_dim) - 1) / each : INFINITY;
    if (fabs(mscale) <= MODEL_MAX_LEFT_OUT)
        left->mscale = mscale;
    else if (wanted != 1)
        hf_note(r, "no setting of a launch says attention_factor %g of yarn with factor %g: planned without", wanted,
                left->factor);
}

/* What the type says stands beside the layers, which do not: the model's launches say it. */
static bool leave_out(struct hf_reader *r, const struct json *box, const char *type)
{
    struct hf_facts *f = &r->facts;
    struct model_left_out *left = &f->left_out;
    const double most = MODEL_MAX_LEFT_OUT;
    double original = (double)f->positions;
    bool whole = true;
    *left = model_left_out_defaults;
    left->positions = type;
    if (!hf_get_double(box, "factor", most, 0, &left->factor, r->err) ||
        !hf_get_double(box, "original_max_position_embeddings", 1 << 27, original, &original, r->err) ||
        !hf_get_double(box, "beta_fast", most, left->beta_fast, &left->beta_fast, r->err) ||
        !hf_get_double(box, "beta_slow", most, left->beta_slow, &left->beta_slow, r->err) ||
        !hf_get_double(box, "mscale", most, left->mscale, &left->mscale, r->err) ||
        !hf_get_double(box, "mscale_all_dim", most, 0, &left->mscale_all_dim, r->err) ||
        !hf_get_bool(box, "truncate", true, &whole, r->err))
        return false;
    left->original = (int64_t)original;
    left->exact = !whole;
    if (!(left->mscale_all_dim > 0)) /* without it transformers takes neither */
        left->mscale = model_left_out_defaults.mscale;
    double wanted;
    if (!hf_get_double(box, "attention_factor", most, 0, &wanted, r->err))
        return false;
    if (hf_given(box, "attention_factor") && strcmp(type, "yarn") == 0)
        take_attention_factor(r, wanted);
    return true;
}

/* Where both bounds are one there is nothing between them to blend, which the attention kind cannot say. */
static bool keep_stretch(struct hf_reader *r, const struct json *box)
{
    struct hf_facts *f = &r->facts;
    if (f->rope_high > f->rope_low)
        return true;
    f->rope_factor = f->rope_low = f->rope_high = 0;
    f->rope_original = 0;
    hf_note(r, "stretched rotary positions with equal bounds change neither shapes nor work: planned without");
    return leave_out(r, box, "llama3");
}

/* The type stands under either key. Stretching other than Llama 3's changes neither shapes nor work. */
static bool read_box(struct hf_reader *r, const struct json *box, const char *name)
{
    static const char *const type_keys[] = { "rope_type", "type" };
    struct hf_facts *f = &r->facts;
    bool stretched = false;
    const char *other = NULL;
    if (json_type(box) != JSON_OBJECT)
        return json_fail(box, r->err, "expected an object or null, found %s", json_type_name(json_type(box)));
    for (int k = 0; k < 2; k++) {
        const char *type;
        if (!hf_get_string(box, type_keys[k], "default", &type, r->err))
            return false;
        stretched |= strcmp(type, "llama3") == 0;
        if (strcmp(type, "default") != 0 && strcmp(type, "llama3") != 0)
            other = type;
    }
    if (other)
        hf_note(r, "%s \"%.64s\" changes neither shapes nor work: planned with rotary positions that are not stretched",
                name, other);
    return hf_get_double(box, "rope_theta", 1e12, f->rope_base, &f->rope_base, r->err) &&
           hf_get_double(box, "partial_rotary_factor", 1, f->rope_part, &f->rope_part, r->err) &&
           (!stretched || (read_stretch(box, f, r->err) && keep_stretch(r, box))) &&
           (!other || leave_out(r, box, other));
}

static const struct json *box_of(const struct json *box)
{
    static const char *const types[] = { "full_attention", "main", "sliding_attention", "global", "hybrid" };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const struct json *inner = hf_given(box, types[i]);
        if (inner)
            return inner;
    }
    return box;
}

bool hf_read_rotation(struct hf_reader *r)
{
    static const char *const containers[] = { "rope_scaling", "rope_parameters" };
    struct hf_facts *f = &r->facts;
    if (f->place != HF_ROTARY)
        return true;
    for (int i = 0; i < 2; i++) {
        const struct json *box = hf_given(r->root, containers[i]);
        if (box && !read_box(r, json_type(box) == JSON_OBJECT ? box_of(box) : box, containers[i]))
            return false;
    }
    int64_t width = f->kv_rank ? f->turned_dim : f->head_dim;
    if (!width && f->heads)
        width = f->hidden / f->heads;
    if (!f->rope_dim && f->rope_part < 1 && !f->kv_rank)
        f->rope_dim = (int64_t)((double)width * f->rope_part);
    if (f->value_dim && !f->kv_rank) /* a family whose heads are planned with another width */
        f->rope_dim -= f->rope_dim % 2;
    if (f->rope_part < 1 && !f->kv_rank && (f->rope_dim < 2 || f->rope_dim % 2))
        return json_fail(hf_place_of(r, HF_FACT(rope_part)), r->err,
                         "rotary positions turn pairs: expected an even part of %lld, found %g of it", (long long)width,
                         f->rope_part);
    if (f->rope_dim > width || f->rope_dim % 2)
        return json_fail(hf_place_of(r, HF_FACT(rope_dim)), r->err,
                         "rotary positions turn pairs: expected an even number up to %lld, found %lld",
                         (long long)width, (long long)f->rope_dim);
    f->rope_dim = f->rope_dim == width ? 0 : f->rope_dim;
    return f->rope_base > 0 ||
           json_fail(hf_place_of(r, HF_FACT(rope_base)), r->err, "expected a positive base of the rotary positions");
}
