/* Keys of FSDP, as accelerate, the Trainer and axolotl call them. */
#include "base/text.h"
#include "targets/accelerate.h"
#include <string.h>

/* accelerate/utils/dataclasses.py, FullyShardedDataParallelPlugin; transformers/training_args.py, _process_fsdp_args;
 * axolotl/utils/schemas/fsdp.py, FSDPConfig. Those that change nothing that is predicted, with one of the values, are
 * `beside`; of the others accelerate_read_fsdp() reads what it can, and the rest is not understood. */
static const struct {
    const char *name;
    bool beside;
    const char *const *values; /* NULL: any */
} keys[] = {
    { "version", false, NULL },
    { "sharding_strategy", true, SETTING_WORDS("FULL_SHARD", "1") }, /* FSDP 2 does not read it */
    { "reshard_after_forward", false, NULL },
    { "offload_params", false, NULL },
    { "auto_wrap_policy", false, NULL },
    { "transformer_layer_cls_to_wrap", true, NULL },
    { "min_num_params", true, NULL }, /* of SIZE_BASED_WRAP, which is refused */
    { "activation_checkpointing", false, NULL },
    { "activation_checkpointing_offload", false, NULL },
    { "state_dict_type", true, NULL },
    { "final_state_dict_type", true, NULL },
    { "cpu_ram_efficient_loading", true, NULL },
    { "sync_module_states", true, NULL },
    { "use_orig_params", true, NULL },
    { "forward_prefetch", true, NULL }, /* when the host issues a gathering, not whether it lies beside */
    { "backward_prefetch", true, SETTING_WORDS("BACKWARD_PRE", "1") },
    { "backward_prefetch_policy", true, SETTING_WORDS("BACKWARD_PRE", "1") }, /* an older name */
    { "limit_all_gathers", true, SETTING_WORDS("true") },
    { "cpu_offload_pin_memory", true, SETTING_WORDS("true") },
    { "ignored_modules", true, SETTING_WORDS("", "null", "none", "[]") },
    { "mixed_precision_policy", true, SETTING_WORDS("", "null", "none", "bf16") },
    { "xla", true, SETTING_WORDS("false") },
    { "xla_fsdp_v2", true, SETTING_WORDS("false") },
    { "xla_fsdp_settings", true, SETTING_WORDS("", "null", "none", "{}") },
    { "xla_fsdp_grad_ckpt", true, SETTING_WORDS("false") },
};
enum { KEYS = sizeof keys / sizeof *keys };
static const char option[] = "fsdp_", section[] = "fsdp_config.";

/* Where FSDP's own name begins, behind the section or the prefix of an option; NULL: it is another's. */
static const char *name_of(const char *key)
{
    bool inside = strncmp(key, section, strlen(section)) == 0;
    const char *name = inside ? key + strlen(section) : key;
    bool prefixed = strncmp(name, option, strlen(option)) == 0;
    return prefixed ? name + strlen(option) : inside ? name : NULL;
}

/* Its row; KEYS: it has none. */
static int key_of(const char *name, size_t length)
{
    int k = 0;
    while (k < KEYS && (strlen(keys[k].name) != length || strncmp(keys[k].name, name, length) != 0))
        k++;
    return k;
}

bool accelerate_name_keys(struct settings *settings, struct error *err)
{
    for (int i = 0; i < settings->count; i++) {
        struct setting *one = &settings->list[i];
        struct text text = { 0 };
        const char *name = one->word ? NULL : name_of(one->key);
        if (!name)
            continue;
        if (strcmp(name, "cpu_offload") == 0) /* the Trainer's name of it */
            name = "offload_params";
        if (key_of(name, strcspn(name, ".")) == KEYS)
            continue;
        text_printf(&text, "%s%s", option, name);
        one->key = text.failed ? NULL : arena_strdup(settings->arena, text.data);
        text_free(&text);
        if (!one->key)
            return fail_memory(err);
    }
    return true;
}

int accelerate_take_ignored(struct settings *settings, bool alone)
{
    int count = 0;
    for (int i = 0; i < settings->count; i++) {
        struct setting *one = &settings->list[i];
        bool of_fsdp = !one->taken && !one->word && !one->unusual && strncmp(one->key, option, strlen(option)) == 0;
        const char *name = of_fsdp ? one->key + strlen(option) : "";
        int k = key_of(name, strlen(name));
        if (k == KEYS || !(alone || keys[k].beside))
            continue;
        bool usual = alone || !keys[k].values;
        for (int v = 0; !usual && keys[k].values[v]; v++)
            usual = settings_same_value(one->value, keys[k].values[v]);
        one->taken = usual;
        count += usual;
    }
    return count;
}
