/* What a launch that the Trainer runs computes in: its own arguments, those of who starts it, and accelerate's. */
#include "targets/trainer.h"
#include <string.h>

enum said { UNSAID, NO, YES, AUTO };

/* What the last setting of the key says; *at: that setting. */
static bool read_word(enum said *out, const struct setting **at, struct settings *settings, const char *key,
                      struct error *err)
{
    static const char *const automatic[] = { "auto", NULL }, *const full[] = { "full", NULL },
                            *const unset[] = { "null", "~", NULL };
    bool yes = false, said = false;
    for (int i = 0; i < settings->count; i++)
        *at = !settings->list[i].word && strcmp(settings->list[i].key, key) == 0 ? &settings->list[i] : *at;
    const char *value = *at ? (*at)->value : "";
    if (settings_is_one_of(value, automatic) || settings_is_one_of(value, full)) {
        settings_take(settings, key);
        *out = settings_is_one_of(value, full) ? YES : AUTO;
        return true;
    }
    if (settings_is_one_of(value, unset)) { /* YAML's words for nothing */
        settings_take(settings, key);
        return true;
    }
    if (!settings_bool(settings, key, &yes, &said, err))
        return false;
    *out = said ? yes ? YES : NO : UNSAID;
    return true;
}

/* Devices that compute in bf16 are NVIDIA's from compute capability 8.0 on, and AMD's. */
static bool has_bf16(const char *device)
{
    return !device || (strncmp(device, "v100", 4) != 0 && strcmp(device, "t4") != 0);
}

/* What axolotl makes of "bf16: auto", bf16 or else fp16, which may be said besides (axolotl/utils/config/__init__.py,
 * resolve_dtype). */
static bool auto_is_bf16(bool fp16, const char *device)
{
    return !fp16 && has_bf16(device);
}

void trainer_resolve_auto(const struct settings *settings, struct setting *one, const char *device)
{
    static const char *const unset[] = { "null", "~", NULL };
    bool fp16 = false, said = false;
    for (int i = 0; i < settings->count; i++)
        if (strcmp(settings->list[i].key, "fp16") == 0) {
            fp16 = settings_is_true(settings->list[i].value);
            said = !settings_is_one_of(settings->list[i].value, unset);
        }
    bool bf16 = auto_is_bf16(fp16, device);
    one->key = bf16 || said ? one->key : "fp16";
    one->value = bf16 || !said ? "true" : "false";
}

bool trainer_read_precision(struct launch_read *out, bool *overruled, struct settings *settings, struct error *err)
{
    static const char *const precisions[] = { "no", "bf16", "fp16", "fp8", NULL };
    enum said bf16 = UNSAID, fp16 = UNSAID, old = UNSAID;
    const struct setting *first = NULL, *second = NULL, *third = NULL;
    int type = 0;
    bool type_said, axolotl = false;
    for (int i = 0; i < settings->count; i++)
        axolotl = axolotl || (!settings->list[i].word && strcmp(settings->list[i].key, "base_model") == 0);
    if (!read_word(&bf16, &first, settings, "bf16", err) || !read_word(&fp16, &second, settings, "fp16", err) ||
        !read_word(&old, &third, settings, "bfloat16", err) ||
        !settings_word(settings, "mixed_precision", precisions, &type, &type_said, err))
        return false;
    bf16 = bf16 == UNSAID && axolotl ? AUTO : bf16;
    if (bf16 == AUTO) {
        bool other = !auto_is_bf16(fp16 == YES, out->device_name);
        fp16 = other && fp16 == UNSAID ? YES : fp16;
        bf16 = other ? NO : YES;
    }
    bf16 = old == YES ? YES : bf16;
    fp16 = axolotl && bf16 == YES ? NO : fp16;
    if (bf16 == YES && fp16 == YES)
        return setting_fail(settings, second, err,
                            "expected bf16 or fp16, found both, which the Trainer refuses "
                            "(transformers/training_args.py)");
    const int own = fp16 == YES ? 2 : bf16 == YES ? 1 : 0; /* goes before what accelerate says (__post_init__ there) */
    *overruled = own > 0 && type > 0 && own != type;
    type = own > 0 ? own : type;
    if (type == 3)
        return fail(err, "%s: mixed_precision fp8 is not planned for this target", settings->name);
    out->says_dtype = type_said || own > 0 || (bf16 == NO && fp16 == NO);
    out->launch.dtype = type == 2 ? DTYPE_FP16 : type == 1 || !out->says_dtype ? DTYPE_BF16 : DTYPE_FP32;
    return true;
}
