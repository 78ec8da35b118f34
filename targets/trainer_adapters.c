/* Adapters that a launch trains in place of all weights: where it says so, and, by the names of PEFT's users (axolotl,
 * LLaMA-Factory, scripts of trl), the LoraConfig that they come to. */
#include "base/json.h"
#include "base/text.h"
#include "targets/trainer.h"
#include <stdlib.h>
#include <string.h>

static const char *const ranks[] = { "lora_dim", "lora_r", "lora_rank", NULL };
static const char *const kinds[] = { "adapter", "finetuning_type", "peft_type", NULL };
static const char *const flags[] = { "use_peft", "use_lora", "lora", "qlora", NULL };
static const char *const no[] = { "none", "null", "full", "freeze", "false", "no", "off", "0", "", NULL };
static const char *const targets_of[] = { "lora_target_modules", "lora_target", "target_modules", NULL };

/* Whether a kind or a flag says that adapters are trained, as PEFT, axolotl and LLaMA-Factory call them; *none: that
 * they are not. A rank alone says nothing of that: some stand in files that train all weights. */
static bool says_adapters(const struct setting *one, bool *none)
{
    if (!settings_is_one_of(one->key, kinds) && !settings_is_one_of(one->key, flags))
        return false;
    bool says = !settings_is_one_of(one->value, no);
    *none = *none || !says;
    return says;
}

/* Names that stand as q_proj,v_proj, ["q_proj", "v_proj"], or one; *all: among them "all", which is all-linear. Writes
 * them, unless w is NULL, and gives their number. */
static int modules(struct json_writer *w, const char *value, bool *all)
{
    static const char between[] = "[]()'\", \t";
    int count = 0;
    for (size_t length; *(value += strspn(value, between)); value += length) {
        char name[128];
        length = strcspn(value, between);
        if (length >= sizeof name)
            continue;
        memcpy(name, value, length);
        name[length] = '\0';
        *all = *all || strcmp(name, "all") == 0 || strcmp(name, "all-linear") == 0;
        const char *dot = strrchr(name, '.'); /* PEFT goes by how names end */
        if (w)
            json_write_string(w, dot ? dot + 1 : name);
        count++;
    }
    return count;
}

/* What the frozen weights take is told where the launch keeps them in fewer bits than a plan does. */
static bool note_narrow(struct settings *settings, struct error *err)
{
    static const char *const narrow[] = { "load_in_4bit", "load_in_8bit", "quantization_bit", NULL };
    for (int i = 0; i < settings->count; i++) {
        struct setting *one = &settings->list[i];
        if (one->taken || one->word || !settings_is_one_of(one->key, narrow) || settings_is_one_of(one->value, no))
            continue;
        struct text text = { 0 };
        text_printf(&text, "%.40s: frozen weights are planned in 16 bits, and what does not fit so may fit",
                    one->value);
        one->value = text.failed ? NULL : arena_strdup(settings->arena, text.data);
        one->unusual = true;
        text_free(&text);
        if (!one->value)
            return fail_memory(err);
    }
    return true;
}

/* The LoraConfig, as PEFT writes it; NULL where the launch does not say which matrices have them, or other adapters. */
static bool describe(struct launch_read *out, struct settings *settings, struct error *err)
{
    struct json_writer w = { 0 };
    int64_t rank = 0;
    double alpha = 16, dropout = 0;
    bool all = false, factory = false, peft = false;
    int count = 0;
    const struct settings_option options[] = {
        { "lora_dim", .integer = &rank, .least = 1, .most = 1 << 16 },
        { "lora_r", .integer = &rank, .least = 1, .most = 1 << 16 },
        { "lora_rank", .integer = &rank, .least = 1, .most = 1 << 16 },
        { "lora_alpha", .real = &alpha },
        { "lora_dropout", .real = &dropout },
        { "lora_target_linear", .flag = &all },
    };
    if (!settings_read(settings, options, sizeof options / sizeof *options, err))
        return false;
    for (int i = 0; i < settings->count; i++) {
        struct setting *one = &settings->list[i];
        factory = factory || strcmp(one->key, "finetuning_type") == 0;
        peft = peft || strcmp(one->key, "peft_type") == 0;
        one->taken = one->taken || settings_is_one_of(one->key, kinds) || settings_is_one_of(one->key, flags);
    }
    rank = rank == 0 && (factory || peft) ? 8 : rank; /* LLaMA-Factory's own, and PEFT's; others have others */
    if (rank == 0)
        return true;
    bool names = false;
    for (int i = 0; i < settings->count; i++) { /* words behind an option are more of its list */
        struct setting *one = &settings->list[i];
        names = one->word ? names : settings_is_one_of(one->key, targets_of);
        if (names && strpbrk(one->value, "*\\|+?^$("))
            return setting_fail(settings, one, err,
                                "expected names of matrices, such as q_proj,v_proj, or all-linear, found the pattern "
                                "%.60s",
                                one->value);
        count += names ? modules(NULL, one->value, &all) : 0;
        one->taken = one->taken || names;
    }
    all = all || (factory && count == 0); /* LLaMA-Factory's own, where nobody names matrices */
    json_begin_object(&w);
    json_put_string(&w, "peft_type", "LORA");
    json_put_int(&w, "r", rank);
    json_put_double(&w, "lora_alpha", alpha > 0 ? alpha : 16);
    json_put_double(&w, "lora_dropout", dropout);
    if (all)
        json_put_string(&w, "target_modules", "all-linear");
    else
        json_begin_array_at(&w, "target_modules");
    names = false;
    for (int i = 0; i < settings->count && !all; i++) {
        const struct setting *one = &settings->list[i];
        names = one->word ? names : settings_is_one_of(one->key, targets_of);
        if (names)
            modules(&w, one->value, &all);
    }
    if (!all)
        json_end_array(&w);
    json_end_object(&w);
    char *text = json_finish(&w, NULL);
    out->adapter_config = text && (count > 0 || all) ? arena_strdup(settings->arena, text) : NULL;
    bool good = text && (out->adapter_config || (count == 0 && !all));
    free(text);
    return good || fail_memory(err);
}

/* Takes what stands beside the kinds where all weights are trained. */
static void take_unused(struct settings *settings)
{
    for (int i = 0; i < settings->count; i++) {
        struct setting *one = &settings->list[i];
        one->taken =
            one->taken ||
            (!one->word && (strncmp(one->key, "lora_", strlen("lora_")) == 0 || settings_is_one_of(one->key, flags)));
    }
}

bool trainer_note_adapters(struct launch_read *out, struct settings *settings, struct error *err)
{
    static const char *const loras[] = { "lora", "qlora", "LORA", NULL };
    bool none = false, said = false, other = false;
    const struct setting *first = NULL;
    for (int i = 0; i < settings->count; i++) {
        const struct setting *one = &settings->list[i];
        bool kind = settings_is_one_of(one->key, kinds);
        if (one->taken || one->word)
            continue;
        bool here = says_adapters(one, &none), rank = settings_is_one_of(one->key, ranks) && trainer_is_above(one, 0);
        said = said || here;
        other = other || (here && kind && !settings_is_one_of(one->value, loras));
        first = !first && (here || rank) ? one : first;
    }
    if (!note_narrow(settings, err))
        return false;
    if (none && !said)
        take_unused(settings);
    if (!first || (none && !said))
        return true;
    struct text words = { 0 };
    text_printf(&words, "%s:%d:%d: %s", first->file, first->line, first->column, first->key);
    out->adapters = words.failed ? NULL : arena_strdup(settings->arena, words.data);
    text_free(&words);
    if (!out->adapters)
        return fail_memory(err);
    return !said || other || describe(out, settings, err);
}
