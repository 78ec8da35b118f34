#include "cli/inputs.h"
#include <stdlib.h>

struct import_options {
    const char *output;
};
static const struct option options[] = {
    OUTPUT_OPTION(offsetof(struct import_options, output), "native model JSON; standard output when absent"),
};

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    const struct import_options *o = given;
    struct inputs in = { .cli = cli };
    size_t length = 0;
    (void)operand_count;
    if (inputs_model(&in, operands[0], err)) {
        char *text = model_write(in.model, &length);
        inputs_hand_out(cli, o->output, text, length, err);
    }
    inputs_free(&in);
    return ERROR_NONE;
}

const struct verb verb_import = {
    .name = "import",
    .summary = "turns a foreign model description into native JSON",
    .usage = "FILE [-o model.json]",
    .examples =
        "  cleave import config.json -o model.json   a Hugging Face config.json (gpt2, llama, mistral, mixtral, "
        "deepseek, qwen2, gpt_neox, t5)\n",
    .min_operands = 1,
    .max_operands = 1,
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct import_options),
    .run = run,
};
