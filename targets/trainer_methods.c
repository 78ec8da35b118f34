/* What a launch trains by: pre-training and supervised fine-tuning are priced. By preferences, rewards or a teacher it
 * runs further models, and is refused wherever a trainer's file or command line says so. */
#include "targets/trainer.h"
#include <stdio.h>
#include <string.h>

/* Methods by the words of LLaMA-Factory (hparams/finetuning_args.py, stage), axolotl (utils/schemas/enums.py, RLType),
 * trl (scripts/, experimental/) and ms-swift, as they also stand in names of scripts. */
static const char *const methods[] = { "dpo", "gdpo", "ipo",    "kto",  "orpo",         "cpo",  "simpo",
                                       "tpo", "xpo",  "ppo",    "grpo", "gspo",         "rloo", "ebft",
                                       "rm",  "prm",  "reward", "gkd",  "distillation", NULL };

/* Settings whose value is a method, or, of a reward model's, true; and what is supervised fine-tuning there. */
static const struct {
    const char *key, *instead;
    bool is_flag;
} settings_of_methods[] = {
    { "stage", "write stage: sft", false },          { "rl", "take it out", false },
    { "rlhf_type", "take it out", false },           { "reward_model", "take it out", true },
    { "process_reward_model", "take it out", true },
};

static bool fail_method(const struct settings *settings, const struct setting *one, const char *said,
                        const char *instead, struct error *err)
{
    return fail(err, "%s:%d:%d: %.120s: " TRAINER_METHODS ": for a lower bound %s, with twice the batch for pairs",
                one->file ? one->file : settings->name, one->line, one->column, said, instead);
}

/* Whether a part of the name is a method, as of scripts/run_dpo.py or trl.scripts.dpo. */
static bool names_method(const char *name)
{
    static const char between[] = "._-";
    const char *slash = strrchr(name, '/');
    name = slash ? slash + 1 : name;
    for (size_t length; *(name += strspn(name, between)); name += length) {
        length = strcspn(name, between);
        for (int m = 0; methods[m]; m++)
            if (strlen(methods[m]) == length && strncmp(name, methods[m], length) == 0)
                return true;
    }
    return false;
}

static bool ends_in_py(const char *value)
{
    size_t length = strlen(value);
    return length > 3 && strcmp(value + length - 3, ".py") == 0;
}

static bool is_trl(const char *word)
{
    const char *slash = strrchr(word, '/');
    return strcmp(slash ? slash + 1 : word, "trl") == 0;
}

/* It is an option's value behind flags of launchers, whose reader does not know that they take none. */
const struct setting *trainer_program(const struct settings *settings)
{
    static const char *const batches[] = { "per_device_train_batch_size", "gradient_accumulation_steps",
                                           "learning_rate", NULL };
    const struct setting *program = NULL, *before = NULL;
    for (int i = 0; i < settings->count; i++) {
        const struct setting *one = &settings->list[i];
        bool module = strcmp(one->key, "module") == 0 ||
                      (before && one->word && (strcmp(before->value, "-m") == 0 || is_trl(before->value)));
        if (module || (ends_in_py(one->value) && !strstr(one->key, "data")))
            program = one;
        else if (program && settings_is_one_of(one->key, batches))
            return program;
        before = one->word ? one : NULL;
    }
    return program;
}

bool trainer_refuse_methods(const struct settings *settings, struct error *err)
{
    for (size_t s = 0; s < sizeof settings_of_methods / sizeof *settings_of_methods; s++) {
        const struct setting *last = NULL;
        for (int i = 0; i < settings->count; i++)
            if (!settings->list[i].word && strcmp(settings->list[i].key, settings_of_methods[s].key) == 0)
                last = &settings->list[i];
        if (!last || !(settings_of_methods[s].is_flag ? settings_is_true(last->value)
                                                      : settings_is_one_of(last->value, methods)))
            continue;
        char said[128];
        snprintf(said, sizeof said, "%s: %.40s", last->key, last->value);
        return fail_method(settings, last, said, settings_of_methods[s].instead, err);
    }
    const struct setting *program = trainer_program(settings);
    return !program || !names_method(program->value) ||
           fail_method(settings, program, program->value, "give sft in its place", err);
}
