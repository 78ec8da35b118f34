/* Products in fp8: the converters of a configuration's linear layers and experts (torchtitan/components/quantization),
 * and what releases up to 0.2 said of them in TOML. */
#include "targets/torchtitan/torchtitan.h"
#include <stdio.h>
#include <string.h>

enum converted {
    CONVERTS_LINEAR = 1,
    CONVERTS_EXPERTS = 2,
    CONVERTS_WHAT_IS_NAMED = 4,
    CONVERTS_TO_ADAPTERS = 8,
    CONVERTS_ELSE = 16,
    CONVERTS_BY_TENSORS = 32 /* unless it says another recipe */
};

/* By the names of releases from 0.3 on, of 0.2, and before. */
static const struct {
    const char *name;
    int what;
} converters[] = {
    { "Float8LinearConverter", CONVERTS_LINEAR },
    { "Float8LinearConverter.Config", CONVERTS_LINEAR },
    { "quantize.linear.float8", CONVERTS_LINEAR | CONVERTS_BY_TENSORS },
    { "float8", CONVERTS_LINEAR | CONVERTS_BY_TENSORS },
    { "Float8GroupedExpertsConverter", CONVERTS_EXPERTS },
    { "Float8GroupedExpertsConverter.Config", CONVERTS_EXPERTS },
    { "quantize.grouped_mm.float8", CONVERTS_EXPERTS },
    { "LoRAConverter", CONVERTS_TO_ADAPTERS },
    { "LoRAConverter.Config", CONVERTS_TO_ADAPTERS },
    { "converters", CONVERTS_WHAT_IS_NAMED }, /* a list that the recipe names so */
    { "None", 0 },
};
static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.";

/* What a list's elements convert, their arguments left out: of ["float8"], or [Float8LinearConverter.Config(...)]. */
static int converted_by(const char *list)
{
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

bool titan_leave_converters(struct titan_reading *r, const char *why)
{
    struct text text = { 0 };
    struct setting *setting = r->converters;
    text_printf(&text, "%.300s: %s", setting->value, why);
    setting->value = text.failed ? NULL : arena_strdup(r->arena, text.data);
    setting->unusual = true;
    setting->taken = false;
    text_free(&text);
    return setting->value || fail_memory(r->err);
}

/* What is behind NAME = in the arguments of a converter; NULL: it has no such. */
static const char *argument(const char *list, const char *name)
{
    const char *at = strstr(list, name);
    if (!at)
        return NULL;
    at += strlen(name);
    at += strspn(at, " \t");
    return *at == '=' ? at + 1 + strspn(at + 1, " \t") : NULL;
}

/* Whether what a filter names is the head, and at most routers beside it: these have no fp8 in a plan. A filter ends
 * with its bracket. */
static bool leaves_the_head(const char *filter)
{
    bool head = false;
    for (const char *at = filter; at && *at && *at != ']' && *at != ')';) {
        size_t length = strspn(at, letters);
        bool one = (length == 7 && strncmp(at, "lm_head", 7) == 0) || (length == 6 && strncmp(at, "output", 6) == 0);
        if (length > 0 && !one && strncmp(at, "router.gate", length) != 0)
            return false;
        head = head || one;
        at += length > 0 ? length : 1;
    }
    return head;
}

/* The list that counts is the last, and what a model's specification had is gone with it. */
static int find_list(struct titan_reading *r)
{
    static const char *const keys[] = { "model.converters", "model_spec.converters", "model_spec.quantization", NULL };
    int what = 0;
    r->converters = NULL;
    for (int i = 0; i < r->settings.count; i++) {
        struct setting *one = &r->settings.list[i];
        bool variable = strcmp(one->key, "converters") == 0, here = settings_is_one_of(one->key, keys) || variable;
        bool again =
            strcmp(one->key, "model_spec") == 0 && r->converters && strcmp(r->converters->key, "converters") != 0;
        int converted = here ? converted_by(one->value) : 0;
        if ((here && !(converted & CONVERTS_WHAT_IS_NAMED)) || again) {
            what = converted;
            r->converters = converted ? one : NULL;
        }
    }
    return what;
}

bool titan_read_converters(struct titan_reading *r)
{
    static const char *const sections[] = { "quantize.linear.float8", "float8", NULL };
    int what = find_list(r);
    if (!r->converters)
        return true;
    struct setting *list = r->converters;
    if (what & CONVERTS_TO_ADAPTERS)
        return setting_fail(&r->settings, list, r->err,
                            "expected a launch that trains all weights, found LoRAConverter, whose adapters are for "
                            "fused matrices: cleave estimate MODEL --framework torchtitan-compile prices a model with "
                            "adapters (cleave import)");
    const char *filter = argument(list->value, "filter_fqns"), *emulate = argument(list->value, "emulate"),
               *own = argument(list->value, "recipe_name"), *recipe = "rowwise";
    bool gathers = false, emulates = emulate && strncmp(emulate, "True", 4) == 0;
    recipe = what & CONVERTS_BY_TENSORS ? "tensorwise" : own && !strstr(own, "\"rowwise\"") ? "another" : recipe;
    for (const char *const *section = sections; *section; section++) {
        char key[64];
        const struct setting *said;
        static const char *const ignored[] = { "precompute_float8_dynamic_scale_for_fsdp", NULL }; /* when scales are */
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
        snprintf(key, sizeof key, "%s.%s", *section, ignored[0]);
        settings_take(&r->settings, key);
    }
    bool by_tensor = strcmp(recipe, "tensorwise") == 0;
    if ((what & CONVERTS_ELSE) || !(what & CONVERTS_LINEAR))
        return titan_leave_converters(r, "not priced: what it converts is taken to be in 16 bit");
    if (emulates || (!by_tensor && strcmp(recipe, "rowwise") != 0))
        return titan_leave_converters(r, emulates
                                             ? "not priced: emulate is of tests"
                                             : "not priced: expected fp8 by rows, or by tensors in older releases, "
                                               "in all three products");
    if (r->has_experts && !(what & CONVERTS_EXPERTS))
        return titan_leave_converters(r, "not priced: expected Float8GroupedExpertsConverter, too, for the experts");
    r->fp8 = by_tensor ? TITAN_FP8_BY_TENSOR : TITAN_FP8_BY_ROW;
    if (!leaves_the_head(filter))
        return titan_leave_converters(
            r, "priced as if it converted all of the blocks, and the head not (filter_fqns lm_head)");
    if (by_tensor && !gathers)
        return titan_leave_converters(r, "priced as if weights were gathered in fp8 (enable_fsdp_float8_all_gather)");
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
