/* DeepSpeed's keys: how they are called, and which of them say nothing that is priced. */
#include "targets/deepspeed.h"
#include "base/num.h"
#include "targets/trainer.h"
#include <string.h>

/* Keys with the values that are priced: what says others is told. Master weights, gradients and states of 16 bits are
 * DeepSpeed's precision_config.py; the rest is its runtime/zero/config.py and offload_config.py. */
static const struct {
    const char *key;
    const char *const *values;
    int from_stage;
} priced[] = {
    { "bf16.bf16_master_weights_and_grads", SETTING_WORDS("false"), 0 },
    { "bf16.bf16_optimizer_states", SETTING_WORDS("false"), 0 },
    { "optimizer.type", SETTING_WORDS("adam", "adamw", "fusedadam", "deepspeedcpuadam"), 0 },
    { "activation_checkpointing.partition_activations", SETTING_WORDS("false"), 0 },
    { "activation_checkpointing.cpu_checkpointing", SETTING_WORDS("false"), 0 },
    { "zero_optimization.overlap_comm", SETTING_WORDS("true"), 1 },
    { "zero_optimization.reduce_scatter", SETTING_WORDS("true"), 1 },
    { "zero_optimization.allgather_partitions", SETTING_WORDS("true"), 1 },
    { "zero_optimization.reduce_bucket_size", SETTING_WORDS("5e8"), 0 },
    { "zero_optimization.allgather_bucket_size", SETTING_WORDS("5e8"), 0 },
    { "zero_optimization.offload_optimizer.ratio", SETTING_WORDS("1"), 1 },
    { "zero_optimization.stage3_module_granularity_threshold", SETTING_WORDS("0"), 3 },
    { "zero_optimization.stage3_param_persistence_threshold", SETTING_WORDS("<=10000000"),
      3 }, /* larger weights stay whole */
};

/* Fields of DeepSpeedZeroConfig (DeepSpeed 0.19.8, runtime/zero/config.py), which forbids others; those that have
 * stage3_ before them are taken without, too (populate_by_name of runtime/config_utils.py), but for one that is called
 * so. */
static const char *const fields[] = { "stage",
                                      "contiguous_gradients",
                                      "reduce_scatter",
                                      "reduce_bucket_size",
                                      "use_multi_rank_bucket_allreduce",
                                      "allgather_partitions",
                                      "allgather_bucket_size",
                                      "overlap_comm",
                                      "load_from_fp32_weights",
                                      "elastic_checkpoint",
                                      "offload_param",
                                      "offload_optimizer",
                                      "zenflow",
                                      "sub_group_size",
                                      "cpu_offload_param",
                                      "cpu_offload_use_pin_memory",
                                      "cpu_offload",
                                      "stage3_prefetch_bucket_size",
                                      "stage3_param_persistence_threshold",
                                      "stage3_model_persistence_threshold",
                                      "stage3_max_live_parameters",
                                      "stage3_max_reuse_distance",
                                      "stage3_gather_16bit_weights_on_model_save",
                                      "stage3_gather_fp16_weights_on_model_save",
                                      "stage3_module_granularity_threshold",
                                      "stage3_use_all_reduce_for_fetch_params",
                                      "stage3_allgather_sequential",
                                      "ignore_unused_parameters",
                                      "legacy_stage1",
                                      "round_robin_gradients",
                                      "zero_hpz_partition_size",
                                      "zero_quantized_weights",
                                      "zero_quantized_nontrainable_weights",
                                      "zero_quantized_gradients",
                                      "zeropp_loco_param",
                                      "mics_shard_size",
                                      "mics_hierarchical_params_gather",
                                      "memory_efficient_linear",
                                      "pipeline_loading_checkpoint",
                                      "override_module_apply",
                                      "log_trace_cache_warnings",
                                      "enable_sanity_checks",
                                      "save_muon_momentum_buffer_in_memory",
                                      "leaf_module" };
/* At the top, those that decide what is predicted (runtime/constants.py). */
static const char *const tops[] = { "train_batch_size",
                                    "train_micro_batch_size_per_gpu",
                                    "gradient_accumulation_steps",
                                    "gradient_clipping",
                                    "zero_optimization",
                                    "bf16",
                                    "fp16",
                                    "optimizer",
                                    "scheduler",
                                    "data_types",
                                    "activation_checkpointing",
                                    "tensor_parallel",
                                    "sequence_parallel_size",
                                    "communication_data_type",
                                    "prescale_gradients",
                                    "gradient_predivide_factor",
                                    "torch_autocast",
                                    "compile",
                                    "pipeline",
                                    "zero_force_ds_cpu_optimizer",
                                    "zero_allow_untested_optimizer",
                                    "steps_per_print",
                                    "wall_clock_breakdown" };

/* The other sections that forbid what they do not know (offload_config.py, precision_config.py). */
static const struct {
    const char *prefix;
    const char *const *fields;
} sections[] = {
    { "zero_optimization.offload_optimizer.",
      SETTING_WORDS("device", "nvme_path", "buffer_count", "pin_memory", "pipeline_read", "pipeline_write", "fast_init",
                    "ratio", "super_offload", "cpuadam_cores_perc") },
    { "zero_optimization.offload_param.",
      SETTING_WORDS("device", "nvme_path", "buffer_count", "buffer_size", "max_in_cpu", "pin_memory") },
    { "bf16.", SETTING_WORDS("enabled", "immediate_grad_update", "check_grad_overflow", "bf16_master_weights_and_grads",
                             "bf16_optimizer_states") },
    { "fp16.",
      SETTING_WORDS("enabled", "auto_cast", "loss_scale", "initial_scale_power", "loss_scale_window", "hysteresis",
                    "consecutive_hysteresis", "min_loss_scale", "fp16_master_weights_and_grads") },
};
static const char section[] = "zero_optimization.", later[] = "stage3_";

/* The field of ZeRO's configuration that a word is, with stage3_ or without; NULL: none. */
static const char *field_of(const char *word)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strcmp(fields[i], word) == 0 ||
            (strncmp(fields[i], later, strlen(later)) == 0 && !strstr(fields[i], "fp16") &&
             strcmp(fields[i] + strlen(later), word) == 0))
            return fields[i];
    return NULL;
}

static bool fail_slip(struct settings *settings, const struct setting *one, const char *prefix, const char *meant,
                      struct error *err)
{
    return setting_fail(settings, one, err, "DeepSpeed knows no such key, and refuses it: did you mean %s%s?", prefix,
                        meant);
}

static bool check_sections(struct settings *settings, const struct setting *one, struct error *err)
{
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        size_t length = strlen(sections[i].prefix), count = 0;
        if (strncmp(one->key, sections[i].prefix, length) != 0 ||
            settings_is_one_of(one->key + length, sections[i].fields))
            continue;
        while (sections[i].fields[count])
            count++;
        const char *meant = text_nearest(one->key + length, sections[i].fields, count);
        if (meant)
            return fail_slip(settings, one, sections[i].prefix, meant, err);
    }
    return true;
}

bool deepspeed_name_keys(struct settings *settings, struct error *err)
{
    for (int i = 0; i < settings->count; i++) {
        struct setting *one = &settings->list[i];
        struct text text = { 0 };
        if (one->word)
            continue;
        if (!one->elsewhere && !check_sections(settings, one, err))
            return false;
        if (strncmp(one->key, section, strlen(section)) != 0)
            continue;
        const char *key = one->key + strlen(section);
        size_t length = strcspn(key, ".");
        const char *word = arena_strndup(settings->arena, key, length), *field = word ? field_of(word) : NULL;
        if (!word)
            return fail_memory(err);
        const char *meant = field || one->elsewhere ? NULL : text_nearest(word, fields, sizeof fields / sizeof *fields);
        if (meant)
            return fail_slip(settings, one, section, meant, err);
        if (!field || strcmp(field, word) == 0)
            continue;
        text_printf(&text, "%s%s%s", section, field, key + length);
        one->key = text.failed ? NULL : arena_strdup(settings->arena, text.data);
        text_free(&text);
        if (!one->key)
            return fail_memory(err);
    }
    return true;
}

/* What is nearly a key of the top and none, which DeepSpeed ignores without a word. */
static void say_slips(struct settings *settings)
{
    for (int i = 0; i < settings->count; i++) {
        struct setting *one = &settings->list[i];
        if (one->taken || one->word || one->elsewhere || one->unusual)
            continue;
        struct text text = { 0 };
        size_t length = strcspn(one->key, ".");
        const char *word = arena_strndup(settings->arena, one->key, length);
        const char *meant = word ? text_nearest(word, tops, sizeof tops / sizeof *tops) : NULL;
        size_t longer = meant ? (size_t)max_i64((int64_t)length, (int64_t)strlen(meant)) : 0;
        if (!meant || strcmp(meant, word) == 0 || 2 * longer - length - strlen(meant) > 3) /* too unlike */
            continue;
        text_printf(&text, "%s (DeepSpeed ignores a key that it does not know: did you mean %s?)", one->value, meant);
        const char *said = text.failed ? NULL : arena_strdup(settings->arena, text.data);
        one->value = said ? said : one->value;
        text_free(&text);
    }
}

int deepspeed_take_ignored(struct settings *settings, int zero, bool json)
{
    static const char *const ignored[] = { "zero_optimization.overlap_comm",
                                           "zero_optimization.contiguous_gradients",
                                           "zero_optimization.reduce_",
                                           "zero_optimization.allgather_",
                                           "zero_optimization.stage3_",
                                           "zero_optimization.sub_group_size",
                                           "zero_optimization.round_robin",
                                           "zero_optimization.offload_optimizer.",
                                           "zero_optimization.offload_param.",
                                           "zero_optimization.mics_",
                                           "fp16.",
                                           "bf16.",
                                           "optimizer.",
                                           "activation_checkpointing.",
                                           "scheduler.",
                                           "wall_clock_breakdown",
                                           "steps_per_print",
                                           "zero_allow_untested_optimizer",
                                           "deepspeed_config.zero3_init_flag",
                                           "deepspeed_config.zero3_save_16bit_model",
                                           "deepspeed_config.deepspeed_multinode_launcher",
                                           "zero3_init_flag",
                                           "zero3_save_16bit_model",
                                           "use_deepspeed",
                                           "downcast_bf16",
                                           "parallelism_config.parallelism_config_",
                                           "tensorboard.",
                                           "wandb.",
                                           "flops_profiler.",
                                           NULL };
    for (size_t i = 0; i < sizeof priced / sizeof *priced; i++)
        if (zero >= priced[i].from_stage)
            settings_keep_unusual(settings, priced[i].key, priced[i].values);
    int taken = settings_take_all(settings, ignored) + trainer_take_ignored(settings);
    if (json)
        say_slips(settings);
    return taken;
}
