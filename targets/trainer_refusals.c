/* What a launch says that no reader of the Trainer's names took, and that decides all that is predicted: batches,
 * lengths and degrees by names that are not read are refused. */
#include "base/text.h"
#include "targets/trainer.h"
#include <string.h>

static bool has_one_of(const char *name, const char *const *words)
{
    for (; *words; words++)
        if (strstr(name, *words))
            return true;
    return false;
}

static bool ends_with(const char *name, const char *end)
{
    size_t length = strlen(name), of_end = strlen(end);
    return length >= of_end && strcmp(name + length - of_end, end) == 0;
}

bool trainer_is_above(const struct setting *one, double least)
{
    double value;
    return one->empty || (text_read_double(one->value, strlen(one->value), &value) && value > least);
}

static bool is_batch(const char *key)
{
    return strstr(key, "batch_size") != NULL;
}

static bool is_length(const char *key)
{
    static const char *const words[] = { "seq_len", "seqlen", "sequence_len", "max_tokens", NULL };
    return has_one_of(key, words) || ends_with(key, "_len") || ends_with(key, "_length");
}

/* Of a section's name the last part counts; degrees of data alone follow from the devices. */
static bool is_degree(const char *key)
{
    static const char *const names[] = { "tp_size",   "cp_size",       "sp_size",           "pp_size", "ep_size",
                                         "tp_degree", "dp_shard_size", "dp_replicate_size", "mp_size", NULL },
                             *const words[] = { "parallel_size", "parallel_degree", NULL };
    static const char section[] = "parallelism_config_";
    const char *dot = strrchr(key, '.'), *name = dot ? dot + 1 : key;
    name += strncmp(name, section, sizeof section - 1) == 0 ? sizeof section - 1 : 0;
    return settings_is_one_of(name, names) || (has_one_of(name, words) && !strstr(name, "data_parallel"));
}

bool trainer_names_deepspeed(const struct settings *settings)
{
    for (int i = 0; i < settings->count; i++) {
        const struct setting *one = &settings->list[i];
        if (strstr(one->key, "deepspeed") || strstr(one->key, "zero_") || strstr(one->value, "deepspeed") ||
            strcmp(one->value, "DEEPSPEED") == 0)
            return true;
    }
    return false;
}

bool trainer_refuse_left(struct launch_read *out, struct settings *settings, const char *degrees, struct error *err)
{
    /* Those of what is done beside training steps are their own. */
    static const char *const beside[] = { "eval",       "val_",    "test",    "infer", "generat",
                                          "new_tokens", "rollout", "preproc", "vllm",  "dataloader",
                                          "dataset",    "warmup",  NULL };
    bool batch_said = out->says_batch || out->rank_batch > 0 || !out->micro_batch_is_open;
    for (int i = 0; i < settings->count; i++) {
        const struct setting *one = &settings->list[i];
        if (one->taken || one->word || has_one_of(one->key, beside))
            continue;
        bool alone = !strchr(one->key, '.') && trainer_is_above(one, 0);
        if (alone && is_batch(one->key) && !batch_said)
            return setting_fail(settings, one, err,
                                "a batch is not read by this name, and nothing else says it: write "
                                "per_device_train_batch_size for that of a device, or take it out and give --batch");
        if (alone && is_length(one->key) && !out->says_sequence)
            return setting_fail(settings, one, err,
                                "a length is not read by this name, and nothing else says it: write max_length for "
                                "that of the sequences, or take it out and give --seq");
        if (is_degree(one->key) && trainer_is_above(one, 1))
            return setting_fail(settings, one, err, "expected 1, found %.40s: degrees of this target are %s",
                                one->value, degrees);
    }
    return trainer_note_adapters(out, settings, err);
}
