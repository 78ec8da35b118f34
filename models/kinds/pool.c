#include "base/num.h"
#include "models/kinds/window.h"
#include "models/model.h"

static const char *const pool_names[] = { "max", "average", "first", NULL };

static const struct pool_layer pool_defaults = { .stride = 0 };

#define AT(field) .offset = offsetof(struct pool_layer, field)
static const struct json_field pool_fields[] = {
    LAYER_HEAD_FIELDS,
    { .key = "pool",
      .type = FIELD_ENUM,
      AT(pool),
      .required = true,
      .names = pool_names,
      .doc = "max and average of each window; first: the first position alone, which is the class token's." },
    { .key = "window",
      .type = FIELD_INT,
      AT(window),
      .min = 0,
      .max = 1 << 14,
      .doc = "Pixels of a row and of a column of the window; 0 or absent: the whole image or sequence." },
    { .key = "stride",
      .type = FIELD_INT,
      AT(stride),
      .min = 0,
      .max = 1 << 14,
      .doc = "Pixels from one window to the next; the window if absent or 0." },
    { .key = "padding",
      .type = FIELD_INT,
      AT(padding),
      .min = 0,
      .max = 1 << 13,
      .doc = "Pixels around the image, of which max takes no notice and average as zeros; 0 if absent." },
};
#undef AT

static bool pool_check(const struct model *model, const void *fields, const struct json *at, struct error *err)
{
    const struct pool_layer *f = fields;
    (void)model;
    if (f->pool == POOL_FIRST && (f->window || f->stride || f->padding))
        return json_fail(at, err, "expected no window, stride or padding beside \"first\"");
    if (!f->window && (f->stride || f->padding))
        return json_fail(at, err, "expected a window beside its stride or padding");
    return 2 * f->padding <= f->window ||
           json_fail(json_at_key(at, "padding"), err, "expected at most half of the window (%lld), found %lld",
                     (long long)f->window, (long long)f->padding);
}

/* The window that the fields mean; the first position alone is a window of its own that is placed once. */
static struct window window_of(const struct graph_builder *builder, const struct pool_layer *f)
{
    int64_t columns = builder->columns ? builder->columns : 1, rows = builder->size['t'] / columns;
    if (f->pool == POOL_FIRST)
        return (struct window){ .height = 1, .width = 1, .stride = max_i64(rows, columns) };
    if (!f->window)
        return (struct window){ .height = rows, .width = columns, .stride = 1 };
    return (struct window){
        .height = f->window, .width = f->window, .stride = f->stride ? f->stride : f->window, .padding = f->padding
    };
}

static bool pool_build(struct graph_builder *builder, const struct model *model, const void *fields, struct error *err)
{
    const struct pool_layer *f = fields;
    struct window window = window_of(builder, f);
    /* Channels behind a conv may be split and stay so; the residual stream of a transformer is whole. */
    bool image = builder->columns > 0;
    const char *out = image ? "btg" : "bth", *in = image ? "b.g" : "b.h";
    (void)model;
    if (!image && f->window)
        return fail_kind(err, ERROR_INPUT, "layer %s: expected no window over a sequence, found one of %lld pixels",
                         builder->prefix, (long long)f->window);
    if (!build_window(builder, &window, err))
        return false;
    builder_size(builder, 'g', builder->size['h']);
    builder->output = builder_value(builder, "pool", out, ELEMENT_ACTIVATION, true);
    builder_segment(builder, f->pool == POOL_MAX ? KERNEL_MAX_POOL : KERNEL_AVERAGE_POOL, "pool", out,
                    OPERANDS({ builder->input, in }), NO_OPERANDS, OPERANDS({ builder->output, out }))
        ->arguments.window = window;
    return true;
}

extern const struct layer_kind pool_kind;
const struct layer_kind pool_kind = {
    .name = "pool",
    .place = CHAIN_JOIN,
    .reads_image = true,
    .min_inputs = 1,
    .max_inputs = 1,
    .doc = "Windows of an image, or all positions, become one each; what stands before the head of a model of images.",
    .fields = pool_fields,
    .field_count = sizeof pool_fields / sizeof *pool_fields,
    .fields_bytes = sizeof(struct pool_layer),
    .defaults = &pool_defaults,
    .check = pool_check,
    .build = pool_build,
};
