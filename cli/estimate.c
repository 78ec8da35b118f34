/* Prices one configuration that the user names. */
#include "cli/accuracy_note.h"
#include "cli/from.h"
#include "cli/memory_account.h"
#include "cli/prices.h"
#include "cli/remarks.h"
#include "cli/print.h"
#include "host/heap.h"
#include <stdio.h>
#include <stdlib.h>

struct estimate_arguments {
    struct given_options given;
    const char *output, *from, *model;
    struct text_list prices;
    bool json;
};
static const struct estimate_arguments defaults = {
    .given.space.gap = DEFAULT_GAP,
    .given.number = {
#define CHOICE(id, ...) [CHOICE_##id] = GIVEN_UNSAID,
#include "planner/space/choices.def"
#undef CHOICE
    },
};
#define AT(field) offsetof(struct estimate_arguments, field)
#define GIVEN_AT(member) AT(given.member)
static const struct option options[] = {
#include "cli/given_options.def"
    TEXT_OPTION("from", AT(from), "TARGET",
                "the operand is a launch of megatron-lm, megatron-bridge, torchtitan, deepspeed, accelerate-fsdp2 or "
                "nnscaler, a strategy of galvatron or an execution of calculon: a file, or its arguments"),
    TEXT_OPTION("model", AT(model), "MODEL", "with --from: the model, where the launch does not describe it"),
    INT_OPTION("vocab-size", GIVEN_AT(otherwise.vocabulary), "N", 1, 1 << 28,
               "with --from: words of the vocabulary, where the launch leaves them to its tokenizer"),
    PRICE_OPTION(AT(prices)),
    OUTPUT_OPTION(AT(output), "the plan file"),
    FLAG_OPTION("json", AT(json), "the plan file on standard output"),
    JOB_OPTIONS(struct estimate_arguments, given.space),
};

/* The plan file; where it is the answer with what it costs, unless that is NULL, and what no number says. */
static bool hand_out(const struct cli *cli, const char *path, const struct plan *plan, const struct estimate *estimate,
                     const struct inputs *in, const struct spending *spending, const struct from *from,
                     struct error *err)
{
    struct json_writer w = { 0 };
    json_begin_object(&w);
    plan_json_members(&w, plan, &estimate->prediction, &in->context);
    bool good = path || remarks_put(&w, in, plan, &estimate->prediction, err);
    if (from)
        from_put(&w, from);
    if (spending) {
        json_write_key(&w, "cost");
        json_begin_object(&w);
        spending_put(&w, spending);
        json_end_object(&w);
    }
    json_end_object(&w);
    if (good)
        return inputs_hand_out_json(cli, path, &w, err);
    free(json_finish(&w, NULL));
    return false;
}

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    const struct estimate_arguments *a = given;
    struct inputs in = { .cli = cli };
    struct plan *plan = NULL;
    struct estimate *estimate = NULL;
    struct from from = { 0 };
    struct prices prices;
    (void)operand_count;
    heap_expect_much();
    if (!a->from && a->model)
        fail(err, "--model belongs to --from; the model is the operand");
    if (!a->from && a->given.otherwise.vocabulary > 0)
        fail(err, "--vocab-size belongs to --from; the model's own is in its file");
    if (err->kind || !inputs_can_write(a->output, err) ||
        !(a->from ? from_price(&from, &plan, &estimate, &in, &a->given, a->from, a->model, operands[0], err)
                  : given_price(&plan, &estimate, &in, &a->given, operands[0], err)) ||
        !prices_read(&prices, &in.arena, &a->prices, in.cluster, in.catalogue->entries, in.catalogue->count, err) ||
        !accuracy_note(&estimate->prediction, &in, plan->dtype, err))
        goto cleanup;
    struct spending spending =
        spending_of(&prices, in.cluster, estimate->prediction.step_ns, in.graph->batch * in.graph->sequence);
    in.context.cleave = CLEAVE_VERSION;
    bool tells = !a->json && !inputs_is_stdout(a->output);
    if (a->output && !hand_out(cli, a->output, plan, estimate, &in, NULL, NULL, err))
        goto cleanup;
    if (a->output && from.read.uncarried && !in.silent)
        fprintf(cli->talk,
                "note: the plan does not have what changes neither time nor memory, and export does not write it: "
                "%s; add it there\n",
                from.read.uncarried);
    if (a->from && a->json && !from_weigh(&from, &in, estimate, err))
        goto cleanup;
    if (a->json &&
        !hand_out(cli, NULL, plan, estimate, &in, prices.count > 0 ? &spending : NULL, a->from ? &from : NULL, err))
        goto cleanup;
    if (tells) {
        print_plan(cli, plan, in.graph);
        print_placement(cli, plan, in.cluster);
        print_prediction(cli, &estimate->prediction, in.graph);
        memory_account_print(&in, &estimate->prediction, true);
        if (prices.count > 0)
            spending_print(cli, &spending, print_unit(in.graph));
        if (!remarks_print(cli->out, &in, plan, &estimate->prediction, err))
            goto cleanup;
        if (!inputs_soon_verified(plan))
            inputs_say_unverified(cli, a->output);
        if (a->from) {
            fflush(cli->out); /* its changes may take long, and its price is known */
            if (!from_weigh(&from, &in, estimate, err))
                goto cleanup;
            from_say(cli, &from, estimate);
        }
    }
    if (!estimate->prediction.fits)
        memory_account_fail(&estimate->prediction, err);
cleanup:
    estimate_free(estimate);
    plan_free(plan);
    from_free(&from);
    inputs_free(&in);
    return ERROR_NONE;
}

const struct verb verb_estimate = {
    .name = "estimate",
    .summary = "prices one given configuration",
    .usage = "MODEL --cluster CLUSTER --batch N --micro-batch N [--tp N --pp N --dp N --zero 0..3 ...] [--fix "
             "KEY=VALUE,...]",
    .examples =
        "  cleave estimate gpt3-175b --cluster 128x8:a100-sxm-80 --batch 1536 --micro-batch 1 --tp 8 --pp 16 "
        "--recompute full\n"
        "  cleave estimate --from megatron train.sh --cluster 8x8:h100-sxm\n"
        "  cleave estimate --from megatron 'NODES=8 bash run.sh 70B 1 8' --cluster 8x8:h100-sxm --vocab-size 128256\n"
        "  cleave estimate --from deepspeed axolotl.yaml --model config.json --cluster 1x8:h100-sxm\n"
        "  cleave estimate --from galvatron galvatron_config.json --model llama-2-7b --cluster 1x8:a100-sxm-80\n"
        "  cleave estimate gpt2 --cluster 1x8:a100-sxm-80 --batch 64 --fix 'micro-batch=8,layer[0-11].zero=3'\n",
    .min_operands = 1,
    .max_operands = 1,
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct estimate_arguments),
    .defaults = &defaults,
    .run = run,
};
