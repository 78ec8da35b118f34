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

/* Says of a launch of trl's what its trainer does beside: peft's prepare_model_for_kbit_training() has norms, embedding
 * and head in fp32, and with them what goes from block to block (trl/trainer/sft_trainer.py; docs/measured.md). */
static bool note_widening(struct settings *settings, struct setting *one, struct error *err)
{
    struct text text = { 0 };
    text_printf(
        &text,
        "%.40s: trl keeps what goes from block to block in fp32 where ranks do not share out the weights, which "
        "is not priced: steps take up to a third longer, and as much memory again as checkpoints take",
        one->value);
    one->value = text.failed ? NULL : arena_strdup(settings->arena, text.data);
    one->taken = false;
    one->unusual = true;
    text_free(&text);
    return one->value || fail_memory(err);
}

/* What the frozen matrices are stored in. Scales of 4 bits are quantized in turn unless told otherwise by axolotl
 * (loaders/model.py), LLaMA-Factory (hparams/model_args.py) and open-instruct (finetune.py), and by scripts of trl only
 * where they are told to (trl/trainer/model_config.py). */
static bool read_quantized(struct launch_read *out, struct settings *settings, struct error *err)
{
    static const char *const four[] = { "load_in_4bit", "use_qlora", NULL }, *const eight[] = { "load_in_8bit", NULL },
                             *const bits[] = { "quantization_bit", NULL },
                             *const twice[] = { "double_quantization", "use_bnb_nested_quant",
                                                "bnb_4bit_use_double_quant",
                                                "bnb_config_kwargs.bnb_4bit_use_double_quant", NULL },
                             *const not_of_trl[] = { "adapter", "use_qlora", "quantization_bit", NULL };
    bool in_four = false, in_eight = false, told = false, doubled = false, of_trl = true;
    struct setting *saying = NULL;
    for (int i = 0; i < settings->count; i++) {
        struct setting *one = &settings->list[i];
        const bool is_on = !settings_is_one_of(one->value, no);
        of_trl = of_trl && (one->word || !is_on || !settings_is_one_of(one->key, not_of_trl));
        if (one->taken || one->word)
            continue;
        if (settings_is_one_of(one->key, four)) {
            in_four = is_on;
        } else if (settings_is_one_of(one->key, eight)) {
            in_eight = is_on;
        } else if (settings_is_one_of(one->key, bits)) {
            in_four = strcmp(one->value, "4") == 0;
            in_eight = strcmp(one->value, "8") == 0;
            if (is_on && !in_four && !in_eight)
                return setting_fail(settings, one, err, "expected 4 or 8 bits, found %.40s", one->value);
        } else if (settings_is_one_of(one->key, twice)) {
            doubled = is_on;
            told = true;
        } else {
            continue;
        }
        one->taken = true;
        saying = is_on && !settings_is_one_of(one->key, twice) ? one : saying;
    }
    doubled = told ? doubled : !of_trl;
    out->quantized = in_four    ? (doubled ? QUANTIZED_NF4_DOUBLE : QUANTIZED_NF4)
                     : in_eight ? QUANTIZED_INT8
                                : QUANTIZED_NONE;
    return !out->quantized || !of_trl || note_widening(settings, saying, err);
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
    if (!read_quantized(out, settings, err))
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
