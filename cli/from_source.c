/* Names behind --from: the targets, and others' tools, of which some write what a target's reader takes. */
#include "cli/from.h"
#include "targets/settings.h"

static const struct {
    const char *const *names; /* whatever the case */
    const char *hint;
} others[] = {
    { SETTING_WORDS("axolotl", "trl", "llamafactory", "llama-factory", "llama_factory", "transformers", "trainer"),
      "its files and command lines are read by --from deepspeed where they name DeepSpeed, and else by --from "
      "accelerate-fsdp2" },
    { SETTING_WORDS("fsdp", "fsdp2", "ddp"),
      "accelerate's files and the Trainer's command lines with it are read by --from accelerate-fsdp2, torchtitan's by "
      "--from torchtitan" },
    { SETTING_WORDS("nemo", "nemo2"),
      "--from megatron-bridge reads recipes of Megatron-Bridge, which has taken the place of NeMo's" },
    { SETTING_WORDS("torchtune", "verl", "openrlhf"),
      "nothing reads its files: state the degrees, cleave estimate MODEL --cluster 1x8:h100-sxm --batch 64 --tp 2 "
      "--zero 3" },
};

bool from_source(const struct target **out, const char *name, struct error *err)
{
    struct text names = { 0 };
    const char *hint = NULL;
    *out = launch_source_find(name);
    if (*out)
        return true;
    for (int i = 0; targets[i]; i++)
        text_printf(&names, "%s, ", targets[i]->name);
    for (int i = 0; launch_sources[i]; i++)
        text_printf(&names, "%s%s", i > 0 ? ", " : "", launch_sources[i]->name);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        hint = settings_is_one_of(name, others[i].names) ? others[i].hint : hint;
    fail(err, "--from: expected one of %s; found '%s'%s%s", names.data ? names.data : "none", name, hint ? ": " : "",
         hint ? hint : "");
    text_free(&names);
    return false;
}
