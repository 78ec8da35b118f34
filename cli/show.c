#include "cli/inputs.h"
#include "cli/print.h"
#include "cli/program_options.h"
#include "cli/widening.h"
#include "formats/plan_file.h"
#include <stdlib.h>

struct show_options {
    struct source_options source;
    bool json;
};
static const struct option options[] = {
    FLAG_OPTION("json", offsetof(struct show_options, json), "the plan file, canonical"),
    SOURCE_OPTIONS(struct show_options, source),
};

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    const struct show_options *o = given;
    struct inputs in = { .cli = cli };
    size_t length = 0;
    char number[TEXT_NUMBER_BYTES];
    struct text widened = { 0 };
    (void)operand_count;
    if (!inputs_plan(&in, operands[0], o->source.model, o->source.cluster, &o->source.profiles, err))
        goto cleanup;
    const struct plan_file *file = in.plan_file;
    if (o->json) {
        char *text = plan_file_write(file, &length);
        inputs_hand_out(cli, NULL, text, length, err);
        goto cleanup;
    }
    print_plan(cli, file->plan, in.graph);
    print_placement(cli, file->plan, in.cluster);
    if (file->predicted_step_ns) {
        fprintf(cli->out, "predicted when it was made: step %s; peak memory by stage:",
                text_duration_ns(number, file->predicted_step_ns));
        for (int s = 0; s < file->predicted_stages; s++)
            fprintf(cli->out, " %s", text_bytes(number, file->predicted_peak_bytes[s]));
        fprintf(cli->out, "\n");
    }
    widening_list(&widened, widening_read(file->search));
    if (widened.data)
        fprintf(cli->out, "the space was widened by %s\n", widened.data);
    text_free(&widened);
    fprintf(cli->out, "made by cleave %s for model %s on cluster %s%s%s\n",
            file->context.cleave ? file->context.cleave : "(unknown)", in.model->name, in.cluster->name,
            file->context.profile.source ? " with profile " : "",
            file->context.profile.source ? file->context.profile.source : "");
cleanup:
    inputs_free(&in);
    return ERROR_NONE;
}

const struct verb verb_show = {
    .name = "show",
    .summary = "prints a plan for people",
    .usage = "PLAN [--json]",
    .examples = "  cleave show plan.json\n",
    .min_operands = 1,
    .max_operands = 1,
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct show_options),
    .run = run,
};
