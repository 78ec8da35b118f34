/* Products in fp8: the converters of a configuration's linear layers and experts (torchtitan/components/quantization),
 * and what releases up to 0.2 said of them in TOML. */
#include "targets/torchtitan/torchtitan.h"
#include <stdio.h>
#include <string.h>

enum converted { CONVERTS_LINEAR = 1, CONVERTS_EXPERTS = 2, CONVERTS_WHAT_IS_NAMED = 4, CONVERTS_ELSE = 8 };

/* By the names of releases from 0.3 on, of 0.2, and before. */
static const struct {
    const char *name;
    enum converted what;
} converters[] = {
    { "Float8LinearConverter", CONVERTS_LINEAR },
    { "Float8LinearConverter.Config", CONVERTS_LINEAR },
    { "quantize.linear.float8", CONVERTS_LINEAR },
    { "float8", CONVERTS_LINEAR },
    { "Float8GroupedExpertsConverter", CONVERTS_EXPERTS },
    { "Float8GroupedExpertsConverter.Config", CONVERTS_EXPERTS },
    { "quantize.grouped_mm.float8", CONVERTS_EXPERTS },
    { "converters", CONVERTS_WHAT_IS_NAMED }, /* a list that the recipe names so */
    { "None", CONVERTS_WHAT_IS_NAMED },
};

/* What a list's elements convert, their arguments left out: of ["float8"], or [Float8LinearConverter.Config(...)]. */
static int converted_by(const char *list)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.";
    int all = 0, depth = 0;
    for (const char *at = list; *at;) {
        size_t length = strspn(at, letters);
        if (length == 0) {
            depth += *at == '(' ? 1 : *at == ')' ? -1 : 0;
            at++;
            continue;
        }
        int one = CONVERTS_ELSE;
        for (size_t i = 0; i < sizeof converters / sizeof *converters; i++)
            if (strlen(converters[i].name) == length && strncmp(converters[i].name, at, length) == 0)
                one = converters[i].what;
        all |= depth == 0 ? one : 0;
        at += length;
    }
    return all;
}

/* It is listed among what is not understood, with the reason. */
static bool leave(struct titan_reading *r, struct setting *setting, const char *why)
{
    struct text text = { 0 };
    text_printf(&text, "%.300s: %s", setting->value, why);
    setting->value = text.failed ? NULL : arena_strdup(r->arena, text.data);
    setting->unusual = true;
    setting->taken = false;
    text_free(&text);
    return setting->value || fail_memory(r->err);
}

/* Whether all that a filter names is the head or a router, which have no fp8 in a plan, and the head is there. */
static bool leaves_the_head(const char *filter)
{
    return filter && (strstr(filter, "lm_head") || strstr(filter, "\"output\"") || strstr(filter, "'output'")) &&
           !strstr(filter, "attention") && !strstr(filter, "feed_forward") && !strstr(filter, "layers") &&
           !strstr(filter, "auto_filter");
}

bool titan_read_converters(struct titan_reading *r)
{
    static const char *const keys[] = { "model.converters", "model_spec.converters", "converters", NULL };
    static const char *const sections[] = { "quantize.linear.float8", "float8", NULL };
    int what = 0;
    struct setting *list = NULL;
    const char *filter = NULL;
    for (int i = 0; i < r->settings.count; i++) {
        struct setting *one = &r->settings.list[i];
        bool here = false;
        for (const char *const *key = keys; *key; key++)
            here = here || strcmp(one->key, *key) == 0;
        int converted = here ? converted_by(one->value) : 0;
        if (converted & (CONVERTS_LINEAR | CONVERTS_EXPERTS | CONVERTS_ELSE)) {
            list = one;
            what |= converted;
        }
    }
    if (!list)
        return true;
    filter = strstr(list->value, "filter_fqns");
    const char *recipe = strstr(list->value, "rowwise_with_gw_hp") ? "rowwise_with_gw_hp"
                         : r->form == TITAN_TOML                   ? "tensorwise"
                                                                   : "rowwise";
    bool gathers = false, emulates = strstr(list->value, "emulate=True") != NULL;
    for (const char *const *section = sections; *section; section++) {
        char key[64];
        const struct setting *said;
        snprintf(key, sizeof key, "%s.filter_fqns", *section);
        if ((said = settings_take(&r->settings, key)))
            filter = said->value;
        snprintf(key, sizeof key, "%s.recipe_name", *section);
        if ((said = settings_take(&r->settings, key)))
            recipe = said->value;
        snprintf(key, sizeof key, "%s.enable_fsdp_float8_all_gather", *section);
        if (!settings_bool(&r->settings, key, &gathers, NULL, r->err))
            return false;
        snprintf(key, sizeof key, "%s.emulate", *section);
        if (!settings_bool(&r->settings, key, &emulates, NULL, r->err))
            return false;
        snprintf(key, sizeof key, "%s.", *section);
        settings_take_all(&r->settings, (const char *const[]){ key, NULL }); /* when scales are made */
    }
    bool by_tensor = strcmp(recipe, "tensorwise") == 0;
    if ((what & CONVERTS_ELSE) || !(what & CONVERTS_LINEAR))
        return leave(r, list, "not priced: what it converts is taken to be in 16 bit");
    if (emulates || (!by_tensor && strcmp(recipe, "rowwise") != 0))
        return leave(r, list, "not priced: expected fp8 by rows or tensors, in all three products");
    if (r->has_experts && !(what & CONVERTS_EXPERTS))
        return leave(r, list, "not priced: expected Float8GroupedExpertsConverter, too, for the experts");
    r->fp8 = by_tensor ? TITAN_FP8_BY_TENSOR : TITAN_FP8_BY_ROW;
    if (!leaves_the_head(filter))
        return leave(r, list, "priced as if it converted all of the blocks, and the head not (filter_fqns lm_head)");
    if (by_tensor && !gathers)
        return leave(r, list, "priced as if weights were gathered in fp8 (enable_fsdp_float8_all_gather)");
    list->taken = true;
    return true;
}

void titan_add_converters(struct text *out, bool experts)
{
    text_printf(out,
                "    converters = [\n"
                "        Float8LinearConverter.Config(filter_fqns=[\"lm_head\"%s], model_compile_enabled=True),\n"
                "%s"
                "    ]\n",
                experts ? ", \"router.gate\"" : "",
                experts ? "        Float8GroupedExpertsConverter.Config(model_compile_enabled=True),\n" : "");
}
