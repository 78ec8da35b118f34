/* What launches of the Trainer, of LLaMA-Factory and of axolotl say that changes nothing of what is predicted. */
#include "targets/trainer.h"
#include <string.h>

/* Of LLaMA-Factory and axolotl, what is priced: another stage runs other models beside, and sequences that are not
 * packed are padded or short. */
static const struct {
    const char *key;
    const char *const *values;
} priced[] = {
    { "stage", SETTING_WORDS("sft", "pt") },
    { "finetuning_type", SETTING_WORDS("full", "lora") },
    { "packing", SETTING_WORDS("true") },
    { "sample_packing", SETTING_WORDS("true") },
    { "flash_attn", SETTING_WORDS("auto", "fa2", "fa3", "sdpa") },
    { "flash_attention", SETTING_WORDS("true") },
    { "attn_implementation", SETTING_WORDS("flash_attention_2", "flash_attention_3", "sdpa") },
};

/* Keys, and how keys begin. */
static const char *const whole[] = { "stage",
                                     "template",
                                     "packing",
                                     "sample_packing",
                                     "flash_attn",
                                     "flash_attention",
                                     "attn_implementation",
                                     "finetuning_type",
                                     "tf32",
                                     "accelerator_config",
                                     "gradient_checkpointing_kwargs",
                                     NULL };
static const char *const ignored[] = { "model",
                                       "output_dir",
                                       "max_steps",
                                       "num_train_epochs",
                                       "learning_rate",
                                       "warmup",
                                       "lr_scheduler",
                                       "weight_decay",
                                       "logging",
                                       "report_to",
                                       "save_",
                                       "eval_",
                                       "seed",
                                       "dataset",
                                       "dataloader",
                                       "machine_rank",
                                       "node_rank",
                                       "main_process",
                                       "master_",
                                       "rdzv_",
                                       "hostfile",
                                       "same_network",
                                       "num_machines",
                                       "compute_environment",
                                       "debug",
                                       "main_training_function",
                                       "enable_cpu_affinity",
                                       "tpu_",
                                       "use_cpu",
                                       "bf16",
                                       "fp16",
                                       "trust_remote_code",
                                       "base_model",
                                       "tokenizer",
                                       "special_tokens",
                                       "chat_template",
                                       "do_",
                                       "max_samples",
                                       "num_epochs",
                                       "val_",
                                       "test_",
                                       "saves_per_epoch",
                                       "evals_per_epoch",
                                       "overwrite_",
                                       "preprocessing_num_workers",
                                       "plot_loss",
                                       "ddp_timeout",
                                       "resume_from_checkpoint",
                                       "run_name",
                                       "wandb_",
                                       "hub_",
                                       "pad_to_sequence_len",
                                       "use_reentrant",
                                       "strict",
                                       NULL };
/* Sections of which nothing, or these keys, change what is predicted; of others each key counts. */
static const char *const sections[] = { "dataset",
                                        "test_dataset",
                                        "eval_",
                                        "val_",
                                        "dataloader",
                                        "lr_scheduler",
                                        "special_tokens",
                                        "tokenizer",
                                        "wandb",
                                        "hub_",
                                        "tpu_",
                                        "gradient_checkpointing_kwargs.use_reentrant",
                                        "accelerator_config.dispatch_batches",
                                        "accelerator_config.even_batches",
                                        "accelerator_config.use_seedable_sampler",
                                        "accelerator_config.non_blocking",
                                        "accelerator_config.gradient_accumulation_kwargs.",
                                        "accelerator_config.use_configured_state",
                                        NULL };

int trainer_take_ignored(struct settings *settings)
{
    for (size_t i = 0; i < sizeof priced / sizeof *priced; i++)
        settings_keep_unusual(settings, priced[i].key, priced[i].values);
    int taken = 0;
    for (int i = 0; i < settings->count; i++) {
        struct setting *one = &settings->list[i];
        if (one->taken || one->word || one->unusual)
            continue;
        one->taken = strchr(one->key, '.')
                         ? settings_begins_as(one->key, sections)
                         : settings_begins_as(one->key, ignored) || settings_is_one_of(one->key, whole);
        taken += one->taken;
    }
    return taken;
}
