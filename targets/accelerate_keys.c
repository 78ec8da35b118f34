/* Keys of FSDP, as accelerate, the Trainer and axolotl call them. */
#include "base/text.h"
#include "targets/accelerate.h"
#include <string.h>

/* accelerate/utils/dataclasses.py, FullyShardedDataParallelPlugin; transformers/training_args.py, _process_fsdp_args;
 * axolotl/utils/schemas/fsdp.py, FSDPConfig. */
static const char *const keys[] = { "version",
                                    "sharding_strategy",
                                    "reshard_after_forward",
                                    "offload_params",
                                    "auto_wrap_policy",
                                    "transformer_layer_cls_to_wrap",
                                    "min_num_params",
                                    "activation_checkpointing",
                                    "activation_checkpointing_offload",
                                    "state_dict_type",
                                    "final_state_dict_type",
                                    "cpu_ram_efficient_loading",
                                    "sync_module_states",
                                    "use_orig_params",
                                    "forward_prefetch",
                                    "backward_prefetch",
                                    "limit_all_gathers",
                                    "cpu_offload_pin_memory",
                                    "ignored_modules",
                                    "mixed_precision_policy",
                                    "xla",
                                    "xla_fsdp_v2",
                                    "xla_fsdp_settings",
                                    "xla_fsdp_grad_ckpt",
                                    NULL };
static const char option[] = "fsdp_", section[] = "fsdp_config.";

/* Where FSDP's own name begins, behind the section or the prefix of an option; NULL: it is another's. */
static const char *name_of(const char *key)
{
    bool inside = strncmp(key, section, strlen(section)) == 0;
    const char *name = inside ? key + strlen(section) : key;
    bool prefixed = strncmp(name, option, strlen(option)) == 0;
    return prefixed ? name + strlen(option) : inside ? name : NULL;
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
        size_t length = strcspn(name, ".");
        const char *word = arena_strndup(settings->arena, name, length);
        if (!word)
            return fail_memory(err);
        if (!settings_is_one_of(word, keys))
            continue;
        text_printf(&text, "%s%s", option, name);
        one->key = text.failed ? NULL : arena_strdup(settings->arena, text.data);
        text_free(&text);
        if (!one->key)
            return fail_memory(err);
    }
    return true;
}
