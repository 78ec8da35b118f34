/* Prices one configuration that the user names. */
#include "cli/print.h"
#include "cli/space_options.h"
#include "planner/program/schedule.h"
#include "planner/search/fixed.h"
#include <stdlib.h>
#include <string.h>

struct estimate_arguments {
    struct space_options space;
    const char *output, *recompute, *offload, *reshard;
    const char *cp_by, *order;
    int64_t micro, tp, pp, dp, cp, ep, zero, hsdp, slices, loss_chunks, prefetch, interleave;
    bool json, sp, reversed;
};
enum { UNSAID = -1 }; /* by an option that was not given */
static const struct estimate_arguments defaults = {
    .space.gap = DEFAULT_GAP,
    .micro = UNSAID,
    .tp = UNSAID,
    .pp = UNSAID,
    .dp = UNSAID,
    .cp = UNSAID,
    .ep = UNSAID,
    .zero = UNSAID,
    .hsdp = UNSAID,
    .slices = UNSAID,
    .loss_chunks = UNSAID,
    .prefetch = UNSAID,
    .interleave = UNSAID,
};
#define AT(field) offsetof(struct estimate_arguments, field)
static const struct option options[] = {
    INT_OPTION("micro-batch", AT(micro), "N", 1, 1e9, "sequences of one micro-batch per data-parallel rank (1)"),
    INT_OPTION("tp", AT(tp), "N", 1, 1e6, "tensor degree (1)"),
    INT_OPTION("pp", AT(pp), "N", 1, 1e6, "pipeline stages (1)"),
    INT_OPTION("dp", AT(dp), "N", 1, 1e6, "data degree (what the devices leave)"),
    INT_OPTION("interleave", AT(interleave), "V", 1, PLAN_MAX_CHUNKS,
               "chunks of the model on each stage (1, or 2 where the schedule runs several)"),
    INT_OPTION("zero", AT(zero), "0..3", 0, 3, "ZeRO stage of all layers (0)"),
    INT_OPTION("hsdp", AT(hsdp), "N", 0, 1e6, "data-parallel ranks over which ZeRO shards; the groups replicate (all)"),
    INT_OPTION("slices", AT(slices), "N", 1, PLAN_MAX_SLICES, "rounds in which sliceable operators run (1)"),
    INT_OPTION("loss-chunks", AT(loss_chunks), "N", 1, PLAN_MAX_LOSS_CHUNKS,
               "chunks of tokens in which head and loss run (1)"),
    INT_OPTION("cp", AT(cp), "N", 1, 1e6, "context-parallel degree: ranks that share a sequence by its tokens (1)"),
    INT_OPTION("ep", AT(ep), "N", 1, 1e6,
               "expert-parallel degree: of the data ranks those that share out the experts (1)"),
    TEXT_OPTION("cp-by", AT(cp_by), "DIMENSION", "cp-gather, cp-ring or cp-ulysses (cp-gather)"),
    TEXT_OPTION("order", AT(order), "ORDER",
                "tensor-inside or data-inside: whose ranks are neighbours (tensor-inside)"),
    INT_OPTION("prefetch", AT(prefetch), "N", 0, PLAN_MAX_PREFETCH, "layers that ZeRO-3 gathers run ahead (1)"),
    TEXT_OPTION("recompute", AT(recompute), "MODE", "none, selective or full, for all layers (none)"),
    TEXT_OPTION("offload", AT(offload), "WHAT",
                "none, activations, optimizer or both: what all layers keep in host memory (none)"),
    TEXT_OPTION("schedule", AT(space.schedule), "NAME", "order of a pipeline's micro-batches (1f1b; cleave schedules)"),
    TEXT_OPTION("reshard", AT(reshard), "true|false",
                "whether ZeRO-3 gives up gathered weights after each pass of a layer; false: after the step's last "
                "(true)"),
    FLAG_OPTION("reversed", AT(reversed), "the pipeline begins on the cluster's last devices: other types come first"),
    FLAG_OPTION("sp", AT(sp), "sequence parallelism with the tensor degree"),
    FIX_OPTION(AT(space.fix)),
    OUTPUT_OPTION(AT(output), "the plan file"),
    FLAG_OPTION("json", AT(json), "the plan file on standard output"),
    JOB_OPTIONS(struct estimate_arguments, space),
};

/* A choice: what an option says of it, and what holds where neither that nor --fix does; UNSAID: what the search's
 * default space has, which is one value, or for dp what the devices leave. */
struct said {
    enum space_choice choice;
    int64_t given, otherwise;
};
struct words {
    int recompute, offload, reshard, order, context, schedule;
};

static bool read_words(struct words *out, const struct estimate_arguments *a, struct error *err)
{
    *out = (struct words){ UNSAID, UNSAID, UNSAID, UNSAID, UNSAID, UNSAID };
    return (!a->recompute || inputs_word("--recompute", a->recompute, recompute_names, &out->recompute, err)) &&
           (!a->offload || inputs_word("--offload", a->offload, offload_names, &out->offload, err)) &&
           (!a->reshard || space_word("--reshard", SPACE_RESHARD, a->reshard, &out->reshard, err)) &&
           (!a->order || inputs_word("--order", a->order, mesh_order_names, &out->order, err)) &&
           (!a->cp_by || space_word("--cp-by", SPACE_CP_DIMENSION, a->cp_by, &out->context, err)) &&
           (!a->space.schedule || space_schedule("--schedule", a->space.schedule, &out->schedule, err));
}

/* What --fix says: all other choices have no values. */
static bool read_fixed(struct space *out, const struct text_list *fix, struct error *err)
{
    *out = (struct space){ 0 };
    for (int i = 0; i < fix->count; i++)
        if (!space_restrict(out, "--fix", fix->item[i], err))
            return false;
    return true;
}

/* The space, which has what --fix says, takes what an option does. */
static bool narrow_one(struct space *space, struct space *fixed, const struct said *said, struct error *err)
{
    const char *name = space_choice_names[said->choice];
    bool is_fixed = space_allowed(fixed, said->choice)->count > 0;
    int64_t value = said->given != UNSAID ? said->given : said->otherwise;
    if (said->given != UNSAID && is_fixed)
        return fail(err, "--fix: %s is given by --%s, too; leave one of them out", name, name);
    if (!is_fixed && value != UNSAID)
        *space_allowed(space, said->choice) = (struct allowed){ 1, { value } };
    return true;
}

static bool narrow(struct space *space, const struct estimate_arguments *a, struct error *err)
{
    struct words words;
    struct space fixed;
    if (!read_words(&words, a, err) || !read_fixed(&fixed, &a->space.fix, err))
        return false;
    bool chunks = a->interleave > 1 || fixed.interleave.values[0] > 1;
    const struct said all[] = {
        { SPACE_PP, a->pp, 1 },
        { SPACE_TP, a->tp, 1 },
        { SPACE_DP, a->dp, UNSAID },
        { SPACE_MICRO, a->micro, 1 },
        { SPACE_ZERO, a->zero, 0 },
        { SPACE_RECOMPUTE, words.recompute, RECOMPUTE_NONE },
        { SPACE_OFFLOAD, words.offload, UNSAID },
        { SPACE_RESHARD, words.reshard, UNSAID },
        { SPACE_SCHEDULE, words.schedule, chunks ? schedule_find("interleaved") : 0 },
        { SPACE_INTERLEAVE, a->interleave, UNSAID },
        { SPACE_PREFETCH, a->prefetch, 1 },
        { SPACE_SP, a->sp ? 1 : UNSAID, 0 },
        { SPACE_CP, a->cp, UNSAID },
        { SPACE_CP_DIMENSION, words.context, DIM_cp_gather },
        { SPACE_EP, a->ep, 1 },
        { SPACE_HSDP, a->hsdp, UNSAID },
        { SPACE_SLICES, a->slices, UNSAID },
        { SPACE_LOSS_CHUNKS, a->loss_chunks, UNSAID },
        { SPACE_ORDER, words.order, UNSAID },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!narrow_one(space, &fixed, &all[i], err))
            return false;
    return true;
}

static bool build(struct plan **out, struct inputs *in, const struct estimate_arguments *a, struct space *space,
                  struct error *err)
{
    if (!narrow(space, a, err))
        return false;
    struct search_options o = space_search_options(&a->space, space);
    return fixed_plan(out, &o, a->reversed, in->model, &in->facts, err) &&
           plan_graph(&in->graph, in->model, *out, err) && plan_check(*out, in->graph, err);
}

/* A program that is verified is there to be simulated. */
static bool price(struct estimate **out, const struct inputs *in, const struct plan *plan, struct error *err)
{
    struct program *program = NULL;
    if (!inputs_soon_verified(plan))
        return estimate_plan_periodic(out, in->model, in->graph, plan, &in->facts, err);
    bool good = inputs_program(&program, plan, in->graph, err) && estimate_program(out, program, &in->facts, err);
    program_free(program);
    return good;
}

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    const struct estimate_arguments *a = given;
    struct inputs in = { .cli = cli };
    struct space space;
    struct plan *plan = NULL;
    struct estimate *estimate = NULL;
    size_t length = 0;
    (void)operand_count;
    if (!inputs_can_write(a->output, err) || !space_inputs(&in, &space, operands[0], &a->space, err) ||
        !build(&plan, &in, a, &space, err) || !price(&estimate, &in, plan, err))
        goto cleanup;
    in.context.cleave = CLEAVE_VERSION;
    if (a->output || a->json) {
        char *text = plan_json_write(plan, &estimate->prediction, &in.context, &length);
        bool ok = (!a->output || inputs_write(cli, a->output, text, length, err)) &&
                  (!a->json || inputs_write(cli, NULL, text, length, err));
        free(text);
        if (!ok)
            goto cleanup;
    }
    if (!a->json && !inputs_is_stdout(a->output)) {
        print_plan(cli, plan, in.graph);
        print_placement(cli, plan, in.cluster);
        print_prediction(cli, &estimate->prediction, in.graph);
        if (!inputs_soon_verified(plan))
            inputs_say_unverified(cli, a->output);
    }
cleanup:
    estimate_free(estimate);
    plan_free(plan);
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
        "  cleave estimate gpt2 --cluster 1x8:a100-sxm-80 --batch 64 --fix 'micro-batch=8,layer[0-11].zero=3'\n",
    .min_operands = 1,
    .max_operands = 1,
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct estimate_arguments),
    .defaults = &defaults,
    .run = run,
};
