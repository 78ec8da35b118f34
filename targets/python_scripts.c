/* Scripts in Python that people give as launches: what they train with stands in objects that they make, which nobody
 * reads but of recipes of torchtitan and of Megatron-Bridge. */
#include "base/text.h"
#include "targets/target.h"
#include "targets/trainer.h"
#include <string.h>

/* Whether the text, of so many bytes, has the words anywhere. */
static bool has(const char *text, size_t length, const char *words)
{
    size_t own = strlen(words);
    for (const char *p = text; own <= length && p <= text + length - own; p++) {
        p = memchr(p, *words, (size_t)(text + length - own + 1 - p));
        if (!p)
            return false;
        if (memcmp(p, words, own) == 0)
            return true;
    }
    return false;
}

/* Whether the first line that says something imports a module. */
static bool imports_first(const char *text, size_t length)
{
    const char *end = text + length, *p = text;
    while (p < end && (strchr(" \t\r\n", *p) || *p == '#')) {
        const char *line = *p == '#' ? memchr(p, '\n', (size_t)(end - p)) : p;
        p = line ? line + 1 : end;
    }
    const char *stop = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;
    size_t line = (size_t)((stop ? stop : end) - p);
    return (line > 7 && memcmp(p, "import ", 7) == 0) ||
           (line > 5 && memcmp(p, "from ", 5) == 0 && has(p, line, " import "));
}

bool launch_refuse_python(const struct target *target, const char *name, const char *text, size_t length,
                          struct error *err)
{
    const char *dot = strrchr(name, '.');
    bool python = (dot && strcmp(dot, ".py") == 0) || imports_first(text, length);
    bool recipes = strcmp(target->name, "torchtitan") == 0 || strcmp(target->name, "megatron-bridge") == 0;
    bool nemo = has(text, length, "nemo.collections") || has(text, length, "import nemo_run"),
         trainer = has(text, length, "TrainingArguments(") || has(text, length, "from trl import"),
         deepspeed = has(text, length, "deepspeed");
    /* trl's trainers of other methods, whose names mostly end in PO */
    bool preferences = has(text, length, "POTrainer(") || has(text, length, "KTOTrainer(") ||
                       has(text, length, "RLOOTrainer(") || has(text, length, "RewardTrainer(");
    if (!python)
        return true;
    if (nemo)
        return fail(err,
                    "%.200s: expected a recipe of Megatron-Bridge or a launch, found one of NeMo 2 in Python, which is "
                    "not read: write what it sets as Megatron-LM's arguments, --from megatron-lm "
                    "\"--tensor-model-parallel-size 2 --micro-batch-size 1 ...\" --model MODEL, or as a recipe of "
                    "Megatron-Bridge",
                    name);
    if (preferences)
        return fail(err,
                    "%.200s: expected a command line or a file of settings, found a script in Python: " TRAINER_METHODS,
                    name);
    if (trainer)
        return fail(err,
                    "%.200s: expected a command line or a file of settings, found a script in Python, whose "
                    "TrainingArguments are not read: write them as arguments, --from %s "
                    "\"%s --per_device_train_batch_size 1 --bf16 true ...\" --model MODEL",
                    name, deepspeed ? "deepspeed" : "accelerate-fsdp2",
                    deepspeed ? "deepspeed train.py --deepspeed ds_config.json"
                              : "accelerate launch --config_file fsdp.yaml train.py");
    return recipes || fail(err,
                           "%.200s: expected a command line, a script of the shell or a file of settings, found one in "
                           "Python, which %s does not read: give what starts it, or cleave estimate MODEL with its "
                           "degrees as options",
                           name, target->name);
}
