/* Prices one configuration that the user names. */
#include "cli/print.h"
#include "cli/space_options.h"
#include "planner/program/schedule.h"
#include "planner/search/baseline.h"
#include <stdlib.h>
#include <string.h>

struct estimate_arguments {
    struct space_options space;
    const char *output, *recompute, *offload, *reshard;
    const char *cp_by, *order;
    int64_t micro, tp, pp, dp, cp, ep, zero, hsdp, slices, prefetch, interleave;
    bool json, sp, reversed;
};
static const struct estimate_arguments defaults = { .tp = 1,
                                                    .pp = 1,
                                                    .cp = 1,
                                                    .ep = 1,
                                                    .slices = 1,
                                                    .prefetch = 1,
                                                    .recompute = "none",
                                                    .offload = "none",
                                                    .reshard = "true" };
#define AT(field) offsetof(struct estimate_arguments, field)
static const struct option options[] = {
    INT_OPTION("micro-batch", AT(micro), "N", 1, 1e9, "sequences of one micro-batch per data-parallel rank"),
    INT_OPTION("tp", AT(tp), "N", 1, 1e6, "tensor degree (1)"),
    INT_OPTION("pp", AT(pp), "N", 1, 1e6, "pipeline stages (1)"),
    INT_OPTION("dp", AT(dp), "N", 1, 1e6, "data degree (what the devices leave)"),
    INT_OPTION("interleave", AT(interleave), "V", 1, PLAN_MAX_CHUNKS,
               "chunks of the model on each stage (1, or 2 where the schedule runs several)"),
    INT_OPTION("zero", AT(zero), "0..3", 0, 3, "ZeRO stage of all layers (0)"),
    INT_OPTION("hsdp", AT(hsdp), "N", 0, 1e6, "data-parallel ranks over which ZeRO shards; the groups replicate (all)"),
    INT_OPTION("slices", AT(slices), "N", 1, PLAN_MAX_SLICES, "rounds in which sliceable operators run (1)"),
    INT_OPTION("cp", AT(cp), "N", 1, 1e6, "context-parallel degree: ranks that share a sequence by its tokens (1)"),
    INT_OPTION("ep", AT(ep), "N", 1, 1e6,
               "expert-parallel degree: of the data ranks those that share out the experts (1)"),
    TEXT_OPTION("cp-by", AT(cp_by), "DIMENSION", "cp-gather, cp-ring or cp-ulysses (cp-gather)"),
    TEXT_OPTION("order", AT(order), "ORDER",
                "tensor-inside or data-inside: whose ranks are neighbours (tensor-inside)"),
    INT_OPTION("prefetch", AT(prefetch), "N", 0, 16, "layers that ZeRO-3 gathers run ahead (1)"),
    TEXT_OPTION("recompute", AT(recompute), "MODE", "none, selective or full, for all layers (none)"),
    TEXT_OPTION("offload", AT(offload), "WHAT",
                "none, activations, optimizer or both: what all layers keep in host memory (none)"),
    TEXT_OPTION("schedule", AT(space.schedule), "NAME", "order of a pipeline's micro-batches (1f1b; cleave schedules)"),
    TEXT_OPTION("reshard", AT(reshard), "true|false",
                "whether ZeRO-3 gives up gathered weights after each pass of a layer; false: after the step's last "
                "(true)"),
    FLAG_OPTION("reversed", AT(reversed), "the pipeline begins on the cluster's last devices: other types come first"),
    FLAG_OPTION("sp", AT(sp), "sequence parallelism with the tensor degree"),
    OUTPUT_OPTION(AT(output), "the plan file"),
    FLAG_OPTION("json", AT(json), "the plan file on standard output"),
    JOB_OPTIONS(struct estimate_arguments, space),
};

static bool uniform_of(struct uniform *out, const struct estimate_arguments *a, struct error *err)
{
    *out = uniform_unset();
    out->pipeline = (int)a->pp;
    out->tensor = (int)a->tp;
    out->data = a->dp ? (int)a->dp : out->data;
    out->micro = a->micro;
    out->zero = (int)a->zero;
    out->prefetch = (int)a->prefetch;
    out->sequence_parallel = a->sp;
    out->reversed = a->reversed;
    out->chunks = (int)a->interleave;
    out->context = (int)a->cp;
    out->expert = (int)a->ep;
    out->shard_group = (int)a->hsdp;
    out->slices = (int)a->slices;
    int order = ORDER_TENSOR_INSIDE;
    if ((a->order && !inputs_word("--order", a->order, mesh_order_names, &order, err)) ||
        (a->cp_by && !space_context_dimension("--cp-by", a->cp_by, &out->context_dimension, err)))
        return false;
    out->order = (enum mesh_order)order;
    const char *schedule = a->space.schedule   ? a->space.schedule
                           : a->interleave > 1 ? "interleaved"
                                               : schedules[0]->name;
    return space_schedule("--schedule", schedule, &out->schedule, err) &&
           inputs_word("--recompute", a->recompute, recompute_names, &out->recompute, err) &&
           inputs_word("--offload", a->offload, offload_names, &out->offload, err) &&
           inputs_word("--reshard", a->reshard, reshard_names, &out->reshard, err);
}

static bool build(struct plan **out, struct inputs *in, const struct estimate_arguments *a, const struct space *space,
                  struct error *err)
{
    struct uniform uniform;
    return uniform_of(&uniform, a, err) && uniform_plan(out, &uniform, space, in->model, &in->facts, err) &&
           plan_graph(&in->graph, in->model, *out, err) && plan_check(*out, in->graph, err);
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
    bool verified;
    (void)operand_count;
    if (!inputs_can_write(a->output, err) || !space_inputs(&in, &space, operands[0], &a->space, err) ||
        !build(&plan, &in, a, &space, err) || !inputs_verify(&verified, plan, in.graph, err) ||
        !estimate_plan_periodic(&estimate, in.model, in.graph, plan, &in.facts, err))
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
        if (!verified)
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
    .usage = "MODEL --cluster CLUSTER --batch N --micro-batch N [--tp N --pp N --dp N --zero 0..3 ...]",
    .examples = "  cleave estimate gpt3-175b --cluster 128x8:a100-sxm-80 --batch 1536 --micro-batch 1 --tp 8 --pp 16 "
                "--recompute full\n",
    .min_operands = 1,
    .max_operands = 1,
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct estimate_arguments),
    .defaults = &defaults,
    .run = run,
};
