/* What a file of DeepSpeed's and the arguments beside it say of the same: who trains refuses what differs, and so does
 * this. The three numbers of a batch, which DeepSpeed holds against each other. */
#include "base/num.h"
#include "targets/deepspeed.h"
#include <string.h>

/* First accelerate's own file, then DeepSpeed's under its own option, then under those of accelerate and the Trainer.
 */
const char *const deepspeed_files[] = {
    "config_file", "deepspeed_config", "deepspeed_config_file", "deepspeed_config.deepspeed_config_file", "deepspeed",
    NULL
};
static const char *const *const of_deepspeed = deepspeed_files + 1, *const *const of_arguments = deepspeed_files + 2;

/* Keys of DeepSpeed's file, or of accelerate's without one, and what arguments beside it call the same. The Trainer
 * refuses what differs from its own (transformers/integrations/deepspeed.py, HfTrainerDeepSpeedConfig.fill_match() and
 * trainer_config_finalize()); accelerate's options that the file says otherwise have no effect there
 * (accelerate/utils/dataclasses.py, DeepSpeedPlugin.__post_init__). */
static const struct {
    const char *key;
    const char *const *names;
    bool of_other_type; /* both cannot be true */
} shared[] = {
    { "train_micro_batch_size_per_gpu",
      SETTING_WORDS("per_device_train_batch_size", "train_batch_size_per_device", "micro_batch_size"), false },
    { "gradient_accumulation_steps", SETTING_WORDS("gradient_accumulation_steps"), false },
    { "deepspeed_config.gradient_accumulation_steps", SETTING_WORDS("gradient_accumulation_steps"), false },
    { "gradient_clipping", SETTING_WORDS("max_grad_norm", "gradient_clipping"), false },
    { "deepspeed_config.gradient_clipping", SETTING_WORDS("max_grad_norm"), false },
    { "bf16.enabled", SETTING_WORDS("bf16"), false },
    { "fp16.enabled", SETTING_WORDS("fp16"), false },
    { "bf16.enabled", SETTING_WORDS("fp16"), true },
    { "fp16.enabled", SETTING_WORDS("bf16"), true },
    { "zero_optimization.stage", SETTING_WORDS("zero_stage"), false },
    { "zero_optimization.offload_optimizer.device", SETTING_WORDS("offload_optimizer_device"), false },
    { "zero_optimization.offload_param.device", SETTING_WORDS("offload_param_device"), false },
};

/* Whether it stands in a file that another setting names under one of the keys. */
static bool is_in_file(const struct settings *settings, const struct setting *one, const char *const *keys)
{
    for (int i = 0; i < settings->count && one->file; i++) {
        const struct setting *named = &settings->list[i];
        if (!named->word && strcmp(named->value, one->file) == 0 && settings_is_one_of(named->key, keys))
            return true;
    }
    return false;
}

/* The last setting of one of the names that stands in a file of DeepSpeed's, or in none; NULL: there is none. */
static const struct setting *find_last(const struct settings *settings, const char *const *names, bool in_file)
{
    const struct setting *found = NULL;
    for (int i = 0; i < settings->count; i++) {
        const struct setting *one = &settings->list[i];
        if (!one->word && settings_is_one_of(one->key, names) && is_in_file(settings, one, of_deepspeed) == in_file)
            found = one;
    }
    return found;
}

/* The file in which the Trainer, or accelerate, tells DeepSpeed what to do; NULL: none was read. */
static const char *file_told(const struct settings *settings)
{
    for (int i = 0; i < settings->count; i++) {
        const struct setting *named = &settings->list[i];
        for (int s = 0; s < settings->count && !named->word && settings_is_one_of(named->key, of_arguments); s++)
            if (settings->list[s].file && strcmp(settings->list[s].file, named->value) == 0)
                return named->value;
    }
    return NULL;
}

static bool both_true(const struct setting *a, const struct setting *b)
{
    return settings_is_true(a->value) && settings_is_true(b->value);
}

/* Refuses what the file says otherwise than an argument. Of a file that is not to be shown the value is left out. */
static bool fail_differs(struct settings *settings, const struct setting *told, const struct setting *stated,
                         bool of_other_type, struct error *err)
{
    const struct setting *shown = told->elsewhere ? stated : told, *other = told->elsewhere ? told : stated;
    const char *file = other->file ? other->file : settings->name;
    if (other->elsewhere)
        return setting_fail(settings, shown, err,
                            "expected what %.200s says as %s, found %.80s: what differs is refused; \"auto\" for "
                            "DeepSpeed takes what the arguments say",
                            file, other->key, shown->value);
    return setting_fail(settings, told, err,
                        "expected %.80s, since %.200s:%d:%d says %s %.80s, found %.80s: what differs is refused; "
                        "\"auto\" here takes what the arguments say",
                        of_other_type ? "false" : stated->value, file, stated->line, stated->column, stated->key,
                        stated->value, told->value);
}

/* What accelerate has in its own file and refuses beside one of DeepSpeed's (accelerate/utils/dataclasses.py,
 * DeepSpeedPlugin._deepspeed_config_checks(); commands/launch.py, launch_command()). */
static bool refuse_doubled(struct settings *settings, struct error *err)
{
    static const char *const doubled[] = { "deepspeed_config.gradient_accumulation_steps",
                                           "deepspeed_config.gradient_clipping",
                                           "deepspeed_config.zero_stage",
                                           "deepspeed_config.offload_optimizer_device",
                                           "deepspeed_config.offload_param_device",
                                           "deepspeed_config.offload_optimizer_nvme_path",
                                           "deepspeed_config.offload_param_nvme_path",
                                           "deepspeed_config.zero3_save_16bit_model",
                                           NULL },
                             *const precision[] = { "mixed_precision", NULL },
                             *const type[] = { "distributed_type", NULL },
                             *const of_accelerate[] = { "config_file", NULL };
    const char *file = file_told(settings);
    if (!file)
        return true;
    const struct setting *one = find_last(settings, doubled, false), *starts = find_last(settings, type, false);
    if (!one && starts && strcmp(starts->value, "DEEPSPEED") == 0) { /* what is typed is not doubled */
        one = find_last(settings, precision, false);
        const char *dot = one && one->file ? strrchr(one->file, '.') : NULL;
        bool yaml = dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
        one = one && (yaml || is_in_file(settings, one, of_accelerate)) ? one : NULL;
    }
    return !one ||
           setting_fail(settings, one, err,
                        "accelerate refuses it beside %.200s, which says what DeepSpeed is told: take it out%s", file,
                        strcmp(one->key, "mixed_precision") == 0 ? ", and say bf16.enabled or fp16.enabled there"
                                                                 : " here, and say it there");
}

bool deepspeed_agrees(struct settings *settings, struct error *err)
{
    if (!refuse_doubled(settings, err))
        return false;
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        const char *const key[] = { shared[i].key, NULL };
        bool of_accelerate = strncmp(shared[i].key, "deepspeed_config.", strlen("deepspeed_config.")) == 0;
        const struct setting *told = find_last(settings, key, !of_accelerate),
                             *stated = told ? find_last(settings, shared[i].names, false) : NULL;
        if (!stated || stated->empty)
            continue;
        if (shared[i].of_other_type ? both_true(told, stated) : !settings_same_value(told->value, stated->value))
            return fail_differs(settings, told, stated, shared[i].of_other_type, err);
    }
    return true;
}

/* DeepSpeedConfig._set_batch_related_parameters() and _batch_assertion(), for which tensor-parallel ranks, which read
 * the same sequences, count like any others. */
bool deepspeed_read_batch(struct launch_read *out, struct settings *settings, const struct trainer_said *said,
                          struct error *err)
{
    struct launch *launch = &out->launch;
    int64_t all = 0, micro = said->micro_said ? said->micro : 0,
            steps = said->accumulation_said ? said->accumulation : 0;
    const struct settings_option options[] = {
        { "train_batch_size", .integer = &all, .least = 1, .most = MOST_COUNT },
        { "train_micro_batch_size_per_gpu", .integer = &micro, .least = 1, .most = MOST_COUNT },
        { "deepspeed_config.gradient_accumulation_steps", .integer = &steps, .least = 1, .most = MOST_COUNT },
    };
    if (!settings_read(settings, options, sizeof options / sizeof *options, err))
        return false;
    const struct setting *said_of_all = settings_take(settings, "train_batch_size");
    int64_t ranks = launch->data, product;
    out->accumulation = steps;
    if (all % launch->tensor != 0)
        return setting_fail(settings, said_of_all, err,
                            "expected a multiple of autotp_size %lld, whose ranks count as others, found %lld",
                            (long long)launch->tensor, (long long)all);
    all /= launch->tensor;
    if (ranks == 0 && all > 0 && micro > 0 && steps > 0 && all % (micro * steps) == 0) {
        ranks = launch->data = all / (micro * steps); /* what is left of the batch tells it */
        out->says_data = true;
        if (!mul_i64(&out->devices, ranks, launch->tensor * launch->context))
            return fail(err, "%s: expected fewer devices", settings->name);
    }
    if (ranks == 0 && all > 0 && micro > 0 && steps > 0)
        return setting_fail(settings, said_of_all, err,
                            "expected a multiple of %lld: micro-batches of %lld x gradient_accumulation_steps %lld%s; "
                            "found %lld",
                            (long long)(micro * steps * launch->tensor), (long long)micro, (long long)steps,
                            launch->tensor > 1 ? " x autotp_size" : "", (long long)(all * launch->tensor));
    out->micro_batch_is_open = micro == 0 && (ranks == 0 || all == 0);
    if (out->micro_batch_is_open)
        out->micro_batches = steps > 0 ? steps : all > 0;
    if (ranks == 0) {
        launch->micro_batch = micro > 0 ? micro : 1;
        launch->batch = all;
        out->says_batch = all > 0;
        return all > 0 || mul_i64(&out->rank_batch, micro, steps > 0 ? steps : 1) ||
               fail(err, "%s: expected a batch of less than 2^63 sequences", settings->name);
    }
    if (micro == 0 && all > 0)
        micro = all / ranks / (steps > 0 ? steps : 1);
    if (steps == 0)
        steps = all > 0 && micro > 0 ? all / micro / ranks : 1;
    if (micro == 0 && all == 0) {
        launch->micro_batch = 1;
        return true;
    }
    if (!mul_i64(&product, micro, steps) || !mul_i64(&product, product, ranks))
        return fail(err, "%s: expected a batch of less than 2^63 sequences", settings->name);
    if (all > 0 && product != all)
        return setting_fail(settings, said_of_all, err,
                            "expected micro-batches of %lld x gradient_accumulation_steps %lld x %s ranks %lld, which "
                            "are %lld; found %lld",
                            (long long)micro, (long long)steps,
                            launch->tensor > 1 ? "data- and tensor-parallel" : "data-parallel",
                            (long long)(ranks * launch->tensor), (long long)(product * launch->tensor),
                            (long long)(all * launch->tensor));
    launch->micro_batch = micro;
    launch->batch = product;
    out->says_batch = true;
    return true;
}
