/* Names of settings that decide what is predicted, of releases up to 0.3.0 (config/job_config.py, config/configs.py):
 * one that is a slip of them is refused, as torchtitan's own parser does. */
#include "targets/torchtitan/torchtitan.h"
#include <string.h>

static const char *const parallelism[] = { "data_parallel_replicate_degree",
                                           "data_parallel_shard_degree",
                                           "fsdp_reshard_after_forward",
                                           "enable_fsdp_symm_mem",
                                           "tensor_parallel_degree",
                                           "disable_loss_parallel",
                                           "enable_async_tensor_parallel",
                                           "enable_sequence_parallel",
                                           "spmd_backend",
                                           "pipeline_parallel_degree",
                                           "module_fqns_per_model_part",
                                           "pipeline_parallel_split_points",
                                           "pipeline_parallel_first_stage_less_layers",
                                           "pipeline_parallel_last_stage_less_layers",
                                           "pipeline_parallel_layers_per_stage",
                                           "pipeline_parallel_schedule",
                                           "pipeline_parallel_schedule_csv",
                                           "pipeline_parallel_microbatch_size",
                                           "pipeline_parallel_microbatches",
                                           "pipeline_parallel_expert_parallel_overlap",
                                           "num_pp_microbatches",
                                           "context_parallel_degree",
                                           "context_parallel_load_balancer",
                                           "context_parallel_ptrr_mask_key",
                                           "context_parallel_rotate_method",
                                           "expert_parallel_degree",
                                           "expert_tensor_parallel_degree",
                                           "expert_parallel_comm_backend",
                                           "enable_compiled_autograd",
                                           NULL };
static const char *const training[] = { "local_batch_size",
                                        "global_batch_size",
                                        "seq_len",
                                        "max_norm",
                                        "steps",
                                        "dataset",
                                        "dataset_path",
                                        "dataloader",
                                        "dtype",
                                        "compile",
                                        "enable_cpu_offload",
                                        "disable_cuda_graphs",
                                        "mixed_precision_param",
                                        "mixed_precision_reduce",
                                        "warmup_steps",
                                        "gc_freq",
                                        "gc_debug",
                                        "seed",
                                        "deterministic",
                                        "num_tokens_per_microbatch_per_dp_rank",
                                        "num_tokens_per_train_step",
                                        "max_context_length",
                                        NULL };
static const char *const checkpoints[] = { "mode",
                                           "selective_ac_option",
                                           "per_op_sac_force_recompute_mm_shapes_by_fqns",
                                           "force_recompute_mm_shapes_by_fqns",
                                           "early_stop",
                                           "memory_budget",
                                           "visualize_memory_budget_pareto",
                                           "preserve_rng_state",
                                           "determinism_check",
                                           "debug",
                                           NULL };
static const char *const compile[] = { "enable", "components", "backend", "enable_async_tensor_parallel", NULL };
static const struct {
    const char *name;
    const char *const *settings;
} sections[] = { { "parallelism", parallelism },
                 { "training", training },
                 { "activation_checkpoint", checkpoints },
                 { "compile", compile } };
enum { SECTIONS = sizeof sections / sizeof *sections };

static size_t count_of(const char *const *names)
{
    size_t count = 0;
    while (names[count])
        count++;
    return count;
}

/* The whole name that a setting's is a slip of; NULL: of none. */
static const char *meant_by(struct titan_reading *r, const char *key)
{
    static const char *const others[] = { "job",        "profiling",  "profiler",          "metrics",
                                          "model",      "optimizer",  "lr_scheduler",      "checkpoint",
                                          "quantize",   "comm",       "memory_estimation", "fault_tolerance",
                                          "validation", "validator",  "experimental",      "debug",
                                          "float8",     "mx",         "loss",              "dataloader",
                                          "tokenizer",  "model_spec", "override",          NULL };
    const char *dot = strchr(key, '.'), *names[SECTIONS], *found = NULL;
    struct text text = { 0 };
    if (!dot || strchr(dot + 1, '.'))
        return NULL;
    const char *section = arena_strndup(r->arena, key, (size_t)(dot - key));
    for (int i = 0; i < SECTIONS; i++)
        names[i] = sections[i].name;
    for (int i = 0; section && i < SECTIONS; i++) {
        const char *const *own = sections[i].settings;
        if (strcmp(section, names[i]) == 0)
            found = settings_is_one_of(dot + 1, own) ? NULL : text_nearest(dot + 1, own, count_of(own));
        if (strcmp(section, names[i]) == 0)
            text_printf(&text, "%s.%s", section, found ? found : "");
    }
    const char *near = section && text.length == 0 && r->form != TITAN_RECIPE && !settings_is_one_of(section, others)
                           ? text_nearest(section, names, SECTIONS)
                           : NULL;
    for (int i = 0; near && i < SECTIONS; i++)
        if (near == names[i] && settings_is_one_of(dot + 1, sections[i].settings))
            text_printf(&text, "%s.%s", near, found = dot + 1);
    const char *meant = found && !text.failed ? arena_strdup(r->arena, text.data) : NULL;
    text_free(&text);
    return meant;
}

/* What says batch or length decides all that is predicted, so that a name of it which is not understood is refused. */
static bool refuse_batch(struct titan_reading *r, const struct setting *one)
{
    static const char *const newer[][2] = {
        /* of torchtitan behind 0.3.0 */
        { "num_tokens_per_microbatch_per_dp_rank", "local_batch_size x training.seq_len" },
        { "max_context_length", "seq_len" }
    };
    static const char section[] = "training.";
    const char *key = one->key + strlen(section), *meant = NULL;
    if (strncmp(one->key, section, strlen(section)) != 0)
        return true;
    for (size_t n = 0; n < sizeof newer / sizeof *newer; n++)
        meant = strcmp(key, newer[n][0]) == 0 ? newer[n][1] : meant;
    return (!meant && !strstr(key, "batch") && !strstr(key, "_len") && !strstr(key, "tokens")) ||
           setting_fail(&r->settings, one, r->err, "torchtitan 0.3.0 has no such setting: did you mean %s%s?", section,
                        meant ? meant : "local_batch_size or training.seq_len");
}

/* The key without its section, and without what local_batch_size had not before. */
static const char *bare(const char *key)
{
    const char *dot = strchr(key, '.'), *name = dot ? dot + 1 : key;
    return strcmp(name, "local_batch_size") == 0 ? name + strlen("local_") : name;
}

static bool has_degrees(const struct setting *one)
{
    size_t length = strcspn(one->key, ".");
    for (const char *const *section = titan_sections; !one->word && one->taken && *section; section++)
        if (strlen(*section) == length && memcmp(one->key, *section, length) == 0)
            return true;
    return false;
}

/* The other setting that says the same by the name of another release, and something else; NULL: there is none. */
static const struct setting *contradicted_by(const struct titan_reading *r, const struct setting *one)
{
    for (const struct setting *other = r->settings.list; other < r->settings.list + r->settings.count; other++)
        if (has_degrees(other) && strcmp(other->key, one->key) != 0 && strcmp(bare(other->key), bare(one->key)) == 0 &&
            strcmp(other->value, one->value) != 0)
            return other;
    return NULL;
}

bool titan_refuse_slips(struct titan_reading *r)
{
    for (const struct setting *one = r->settings.list; one < r->settings.list + r->settings.count; one++) {
        const struct setting *other = has_degrees(one) ? contradicted_by(r, one) : NULL;
        if (other)
            return setting_fail(&r->settings, one, r->err,
                                "%.40s is what another release calls %.80s, which stands there as well, with %.40s: "
                                "leave out one of them",
                                one->value, other->key, other->value);
    }
    for (int i = 0; i < r->settings.count; i++) {
        const struct setting *one = &r->settings.list[i];
        if (one->taken || one->word || one->unusual)
            continue;
        const char *meant = meant_by(r, one->key);
        if (meant)
            return setting_fail(&r->settings, one, r->err, "torchtitan 0.3.0 has no such setting: did you mean %s?",
                                meant);
        if (!refuse_batch(r, one))
            return false;
    }
    return true;
}

bool titan_refuse_unnamed(const struct titan_reading *r)
{
    static const char *const keys[] = { "config", "config_file", "job.config", "toml", NULL };
    for (int i = 0; i < r->settings.count; i++) {
        const struct setting *one = &r->settings.list[i];
        size_t length = strlen(one->value);
        if (length > 5 && strcmp(one->value + length - 5, ".toml") == 0 &&
            (one->word || settings_is_one_of(one->key, keys)))
            return fail(r->err,
                        "%s:%d:%d: %.200s: torchtitan is told its file by --job.config_file (config/manager.py): write "
                        "--job.config_file %.200s",
                        one->file ? one->file : r->settings.name, one->line, one->column, one->value, one->value);
    }
    return true;
}
