#include "cli/print.h"
#include "cli/space_options.h"
#include <stdlib.h>

struct plan_arguments {
    struct space_options space;
    const char *output;
    int64_t top;
    bool json;
};
static const struct plan_arguments defaults = { .space.gap = DEFAULT_GAP, .top = 1 };
static const struct option options[] = {
    JOB_OPTIONS(struct plan_arguments, space),
    SEARCH_OPTIONS(struct plan_arguments, space),
    OUTPUT_OPTION(offsetof(struct plan_arguments, output), "the plan file"),
    INT_OPTION("top", offsetof(struct plan_arguments, top), "K", 1, 64, "shows the K best plans (1)"),
    FLAG_OPTION("json", offsetof(struct plan_arguments, json),
                "the plan file on standard output, with its certificate"),
};

static bool write_json(const struct cli *cli, const struct search_result *result, const struct space *space,
                       const struct plan_context *context, struct error *err)
{
    struct json_writer w = { 0 };
    size_t length = 0;
    json_begin_object(&w);
    plan_json_members(&w, result->plans[0].plan, &result->plans[0].estimate->prediction, context);
    certificate_json(&w, result, space);
    json_end_object(&w);
    char *text = json_finish(&w, &length);
    return inputs_hand_out(cli, NULL, text, length, err);
}

static bool write_file(const struct cli *cli, const char *path, const struct search_result *result,
                       const struct plan_context *context, struct error *err)
{
    size_t length = 0;
    char *text = plan_json_write(result->plans[0].plan, &result->plans[0].estimate->prediction, context, &length);
    return inputs_hand_out(cli, path, text, length, err);
}

static void print_others(const struct cli *cli, const struct search_result *result, const struct graph *graph)
{
    char line[PRINT_LINE_BYTES], number[TEXT_NUMBER_BYTES];
    int64_t best = result->plans[0].estimate->prediction.step_ns;
    for (int i = 1; i < result->plan_count; i++) {
        int64_t step = result->plans[i].estimate->prediction.step_ns;
        print_plan_line(result->plans[i].plan, graph, line);
        fprintf(cli->out, "%2d. %s (%+.1f %%): %s\n", i + 1, text_duration_ns(number, step),
                100 * ((double)step / (double)best - 1), line);
    }
}

static void print_certificate(const struct cli *cli, const struct certificate *c)
{
    char number[TEXT_NUMBER_BYTES], bound[TEXT_NUMBER_BYTES];
    if (c->bound_ns <= 0) {
        fprintf(cli->out, "no proof: the formula does not bound this space; %s configurations, %lld solved\n",
                text_count((char[TEXT_NUMBER_BYTES]){ 0 }, c->configurations), (long long)c->solved);
        return;
    }
    fprintf(cli->out,
            "proof: no plan of the space is shorter than %s by the formula (this one: %s%s); %s configurations, %lld "
            "out by memory, %lld by bound, %lld solved\n",
            text_duration_ns(bound, c->bound_ns), text_duration_ns(number, c->formula_ns),
            c->complete ? "" : "; the search was cut short",
            text_count((char[TEXT_NUMBER_BYTES]){ 0 }, c->configurations), (long long)c->pruned_memory,
            (long long)c->pruned_bound, (long long)c->solved);
}

static bool answer(const struct cli *cli, const struct plan_arguments *a, struct inputs *in,
                   const struct search_result *result, const struct space *space, struct error *err)
{
    const struct search_plan *best = &result->plans[0];
    if (!graph_build(&in->graph, in->model, best->plan->batch, best->plan->sequence, best->plan->vocab_multiple, err))
        return false;
    bool verified;
    if (!inputs_verify(&verified, best->plan, in->graph, err))
        return false;
    in->context.cleave = CLEAVE_VERSION;
    if (a->output && !write_file(cli, a->output, result, &in->context, err))
        return false;
    if (a->json)
        return write_json(cli, result, space, &in->context, err);
    if (inputs_is_stdout(a->output))
        return true; /* the plan file is the answer */
    print_plan(cli, best->plan, in->graph);
    print_placement(cli, best->plan, in->cluster);
    print_prediction(cli, &best->estimate->prediction);
    print_certificate(cli, &result->certificate);
    print_others(cli, result, in->graph);
    if (!verified)
        inputs_say_unverified(cli, a->output);
    if (a->output)
        fprintf(cli->talk, "wrote %s; next: cleave show %s, cleave run %s\n", a->output, a->output, a->output);
    return true;
}

static bool search_and_answer(const struct cli *cli, const struct plan_arguments *a, struct inputs *in,
                              const struct space *space, struct error *err)
{
    struct search_options o = space_search_options(&a->space, space);
    struct search_result *result = NULL;
    o.top = (int)a->top;
    bool good = search_run(&result, in->model, &in->facts, &o, err) &&
                (result->feasible ? answer(cli, a, in, result, space, err) : search_infeasible(result, space, err));
    search_result_free(result);
    return good;
}

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    const struct plan_arguments *a = given;
    struct inputs in = { .cli = cli };
    struct space space;
    (void)operand_count;
    if (space_inputs(&in, &space, operands[0], &a->space, err))
        search_and_answer(cli, a, &in, &space, err);
    inputs_free(&in);
    return ERROR_NONE;
}

const struct verb verb_plan = {
    .name = "plan",
    .summary = "chooses the best plan for a model on a cluster",
    .usage = "MODEL --cluster CLUSTER --batch SEQUENCES [-o plan.json] [options]",
    .examples = "  cleave plan gpt3-175b --cluster 128x8:a100-sxm-80 --batch 1536\n"
                "  cleave plan config.json --cluster 1x8:h100-sxm --batch 64 --seq 4096 -o plan.json\n"
                "  cleave plan gpt2 --cluster 1x2:cpu --profile profile.json --batch 8 --seq 64 --fix zero=0\n",
    .min_operands = 1,
    .max_operands = 1,
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct plan_arguments),
    .defaults = &defaults,
    .run = run,
};
