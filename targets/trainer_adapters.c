/* Adapters that a launch trains in place of all weights: where it says so, and, by the names of PEFT's users (axolotl,
 * LLaMA-Factory, scripts of trl), the LoraConfig that they come to. */
#include "base/json.h"
#include "base/text.h"
#include "targets/pattern.h"
#include "targets/trainer.h"
#include <stdio.h>
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
        } else if (strcmp(one->key, "quantize_moe_experts") == 0) {
            out->quantizes_experts = is_on;
        } else if (settings_is_one_of(one->key, twice)) {
            doubled = is_on;
            told = true;
        } else {
            continue;
        }
        one->taken = true;
    }
    doubled = told ? doubled : !of_trl;
    out->quantized = in_four    ? (doubled ? QUANTIZED_NF4_DOUBLE : QUANTIZED_NF4)
                     : in_eight ? QUANTIZED_INT8
                                : QUANTIZED_NONE;
    return true;
}

#define PATTERN "*\\|+?^$("
/* What PEFT calls matrices of a block, as an expression matches it whole (peft/tuners/tuners_utils.py,
 * check_target_module_exists); models with towers have some words more in front. */
static const char *matched_by(const struct settings *settings, const struct setting *said, struct error *err)
{
    static const char *const before[] = { "",
                                          "model.",
                                          "model.language_model.",
                                          "language_model.model.",
                                          "language_model.",
                                          "model.model.",
                                          "base_model.model.model." },
                             *const matrices[] = { "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                                   "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",
                                                   "mlp.down_proj" };
    struct text found = { 0 };
    for (size_t m = 0; m < sizeof matrices / sizeof *matrices; m++) {
        bool some = false;
        for (size_t b = 0; !some && b < sizeof before / sizeof *before; b++) {
            char name[PATTERN_MOST_NAME];
            snprintf(name, sizeof name, "%slayers.0.%s", before[b], matrices[m]);
            some = pattern_matches(said->value, name);
        }
        if (some)
            text_printf(&found, "%s%s", found.length ? "," : "", strchr(matrices[m], '.') + 1);
    }
    const char *names = found.length ? arena_strdup(settings->arena, found.data) : NULL;
    if (!found.length && !found.failed)
        setting_fail(settings, said, err,
                     "expected names of matrices, such as q_proj,v_proj, all-linear, or a pattern that matches some of "
                     "model.layers.0.self_attn.q_proj and its like, found %.60s",
                     said->value);
    else if (!names)
        fail_memory(err);
    text_free(&found);
    return names;
}

/* What else is trained, which adapters have no place for: PEFT's reader says so. */
static const char *take_saved(struct settings *settings)
{
    static const char *const keys[] = { "lora_modules_to_save", "modules_to_save", "additional_target", NULL };
    const char *saved = NULL;
    for (int i = 0; i < settings->count; i++) {
        struct setting *one = &settings->list[i];
        if (!one->word && settings_is_one_of(one->key, keys)) {
            one->taken = true;
            saved = settings_is_one_of(one->value, no) || strcmp(one->value, "[]") == 0 ? NULL : one->value;
        }
    }
    return saved;
}

/* The LoraConfig, as PEFT writes it; NULL where the launch does not say how large adapters are, or has others. */
static bool describe(struct launch_read *out, struct settings *settings, struct error *err)
{
    /* PEFT's own for Llama, Mistral, Qwen2, Gemma and their like (peft/utils/constants.py) */
    static const char *const usual[] = { "q_proj", "v_proj", NULL };
    struct json_writer w = { 0 };
    int64_t rank = 0;
    double alpha = 16, dropout = 0;
    bool all = false, factory = false, peft = false, trl = false;
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
        trl = trl || strcmp(one->key, "use_peft") == 0;
        one->taken = one->taken || settings_is_one_of(one->key, kinds) || settings_is_one_of(one->key, flags);
    }
    /* LLaMA-Factory's own, and PEFT's; trl's (trl/trainer/model_config.py); others have others */
    rank = rank > 0 ? rank : factory || peft ? 8 : trl ? 16 : 0;
    if (rank == 0)
        return true;
    bool names = false;
    int last =
        0; /* where who says it last begins, in a list of a file each by itself: what lies under it is not asked */
    for (int i = 0; i < settings->count; i++)
        if (!settings->list[i].word && settings_is_one_of(settings->list[i].key, targets_of)) {
            bool more = i > 0 && settings_is_one_of(settings->list[i - 1].key, targets_of) &&
                        settings->list[i - 1].file == settings->list[i].file;
            settings->list[i].taken = true;
            last = more ? last : i;
        }
    for (int i = last; i < settings->count; i++) { /* words behind an option are more of its list */
        struct setting *one = &settings->list[i];
        names = one->word ? names : settings_is_one_of(one->key, targets_of);
        if (names && strpbrk(one->value, PATTERN)) {
            one->value = matched_by(settings, one, err);
            if (!one->value)
                return false;
        }
        count += names ? modules(NULL, one->value, &all) : 0;
        one->taken = one->taken || names;
    }
    all = all || (factory && count == 0); /* LLaMA-Factory's own, where nobody names matrices */
    const char *const saved = take_saved(settings);
    json_begin_object(&w);
    json_put_string(&w, "peft_type", "LORA");
    json_put_int(&w, "r", rank);
    json_put_double(&w, "lora_alpha", alpha > 0 ? alpha : 16);
    json_put_double(&w, "lora_dropout", dropout);
    if (saved)
        json_put_string(&w, "modules_to_save", saved);
    if (all)
        json_put_string(&w, "target_modules", "all-linear");
    else
        json_begin_array_at(&w, "target_modules");
    for (int i = 0; usual[i] && !all && count == 0; i++)
        json_write_string(&w, usual[i]);
    names = false;
    for (int i = last; i < settings->count && !all; i++) {
        const struct setting *one = &settings->list[i];
        names = one->word ? names : settings_is_one_of(one->key, targets_of);
        if (names)
            modules(&w, one->value, &all);
    }
    if (!all)
        json_end_array(&w);
    json_end_object(&w);
    char *text = json_finish(&w, NULL);
    out->adapter_config = text ? arena_strdup(settings->arena, text) : NULL;
    free(text);
    return out->adapter_config || fail_memory(err);
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
