/* How long sequences are of a launch that does not say it: who trains has a length of his own. */
#include "targets/trainer.h"
#include <string.h>

/* Of LLaMA-Factory 0.9.5, axolotl 0.19.0 and trl 1.16.0, by the words that they are known by. */
static const struct {
    const char *words; /* for a user: whose it is, and where it stands */
    int64_t tokens;
} lengths[] = {
    { "LLaMA-Factory's cutoff_len (hparams/data_args.py)", 2048 },
    { "axolotl's sequence_len (utils/schemas/config.py)", 512 },
    { "trl's max_length (trainer/sft_config.py)", 1024 },
};
enum { LLAMA_FACTORY, AXOLOTL, TRL };

static bool ends_in(const char *text, const char *end)
{
    size_t length = strlen(text), of_end = strlen(end);
    return length >= of_end && strcmp(text + length - of_end, end) == 0;
}

/* Whether trl is told to fine-tune: `trl sft`, its module, or the script in its folder. */
static bool is_trl(const struct settings *settings)
{
    const struct setting *program = trainer_program(settings);
    if (!program)
        return false;
    for (int i = 1; i < settings->count; i++)
        if (program == &settings->list[i] && strcmp(program->value, "sft") == 0 && settings->list[i - 1].word &&
            ends_in(settings->list[i - 1].value, "trl"))
            return true;
    return strcmp(program->value, "trl.scripts.sft") == 0 || ends_in(program->value, "trl/scripts/sft.py") ||
           ends_in(program->value, "examples/scripts/sft.py");
}

void trainer_usual_length(struct launch_read *out, const struct settings *settings)
{
    int whose = trainer_names_llama_factory(settings) ? LLAMA_FACTORY : is_trl(settings) ? TRL : -1;
    for (int i = 0; i < settings->count && whose < 0; i++) {
        const struct setting *one = &settings->list[i];
        if (one->word && strstr(one->value, "llamafactory"))
            whose = LLAMA_FACTORY;
        else if (one->word ? strcmp(one->value, "axolotl") == 0 || strncmp(one->value, "axolotl.", 8) == 0
                           : strcmp(one->key, "base_model") == 0)
            whose = AXOLOTL;
    }
    out->usual_sequence = whose < 0 ? 0 : lengths[whose].tokens;
    out->usual_sequence_words = whose < 0 ? NULL : lengths[whose].words;
}
