/* What a command line of Megatron-LM says that no plan has, since it changes neither time nor memory, and that whoever
 * launches the plan again has to say again. */
#include "targets/megatron.h"
#include <string.h>

/* How options begin that say what is computed, and how it is learned. Data, files and what is logged are not among
 * them: who exports a plan gives these anew. */
static const char *const begins[] = {
    "--adam-",
    "--apply-layernorm-1p",
    "--attention-softmax-in-fp32",
    "--calculate-per-token-loss",
    "--cross-entropy-",
    "--ddp-average-in-collective",
    "--fp8-amax",
    "--fp8-interval",
    "--fp8-margin",
    "--lr",
    "--min-lr",
    "--moe-permute-fusion",
    "--moe-router-dtype",
    "--moe-z-loss-coeff",
    "--no-bias-dropout-fusion",
    "--no-masked-softmax-fusion",
    "--no-persist-layer-norm",
    "--weight-decay",
};

static bool is_of_plan(const char *word)
{
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (strncmp(word, begins[i], strlen(begins[i])) == 0)
            return false;
    return true;
}

bool megatron_say_uncarried(struct launch_read *out, struct arena *arena, const struct megatron_args *args,
                            const char *const *words, int count, struct error *err)
{
    struct text all = { 0 };
    if (args->experts > 0 && args->balance > 0 && strcmp(args->balancing, "seq_aux_loss") != 0)
        text_printf(&all, ", --moe-router-load-balancing-type %.40s (export writes seq_aux_loss)", args->balancing);
    for (int i = 0; i < count && all.length < 1 << 12; i++) {
        if (is_of_plan(words[i]) || shell_is_marked(words[i]))
            continue;
        bool valued =
            i + 1 < count && words[i + 1][0] != '-' && !strchr(words[i], '=') && !shell_is_marked(words[i + 1]);
        text_printf(&all, ", %.80s%s%.80s", words[i], valued ? " " : "", valued ? words[i + 1] : "");
    }
    bool good = !all.failed;
    out->uncarried = good && all.length > 0 ? arena_strdup(arena, all.data + 2) : NULL;
    good = good && (all.length == 0 || out->uncarried);
    text_free(&all);
    return good || fail_memory(err);
}
