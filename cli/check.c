/* Whether a plan's certificate holds. */
#include "planner/check/check.h"
#include "cli/inputs.h"
#include "cli/program_options.h"
#include "cli/progress.h"
#include "formats/claim_read.h"
#include "formats/predicted_check.h"
#include "host/heap.h"
#include "planner/explain/explain.h"
#include <string.h>

struct check_arguments {
    struct source_options source;
    bool json;
};
static const struct option options[] = {
    FLAG_OPTION("json", offsetof(struct check_arguments, json), "one JSON object"),
    SOURCE_OPTIONS(struct check_arguments, source),
};

static void show_progress(void *self, int done, int total)
{
    progress_say(self, "%d of %d configurations", done, total);
}

static bool print_json(const struct cli *cli, const struct check_report *r, struct error *err)
{
    struct json_writer w = { 0 };
    json_begin_format(&w, "cleave-check", 1);
    json_put_bool(&w, "holds", true);
    json_put_int(&w, "certificate_version", r->version);
    json_put_double(&w, "bound_s", (double)r->bound_ns / 1e9);
    json_put_double(&w, "simulated_bound_s", (double)r->simulated_bound_ns / 1e9);
    json_put_double(&w, "formula_s", (double)r->formula_ns / 1e9);
    json_put_double(&w, "step_s", (double)r->step_ns / 1e9);
    json_put_int(&w, "configurations", r->configurations);
    json_put_int(&w, "beside", r->unbounded);
    json_put_int(&w, "by_bound", r->by_bound);
    json_put_int(&w, "by_memory", r->by_memory);
    json_put_int(&w, "by_cut", r->by_cut);
    json_put_int(&w, "undecided", r->undecided);
    json_put_int(&w, "refused", r->refused);
    json_put_int(&w, "left", r->left);
    if (r->ideals >= 0)
        json_put_int(&w, "ideals", r->ideals);
    if (r->ideals == 0)
        json_put_double(&w, "orders_bound_s", (double)r->orders_bound_ns / 1e9);
    json_end_object(&w);
    return inputs_hand_out_json(cli, NULL, &w, err);
}

static void print_report(const struct cli *cli, const struct check_report *r)
{
    char bound[TEXT_NUMBER_BYTES], step[TEXT_NUMBER_BYTES];
    fprintf(cli->out, "the certificate holds: ");
    if (r->bound_ns > 0)
        fprintf(cli->out, "no plan of %lld configurations is shorter than %s by the formula\n",
                (long long)r->configurations, text_duration_ns(bound, r->bound_ns));
    else
        fprintf(cli->out, "of %lld configurations it claims nothing by the formula as a whole\n",
                (long long)r->configurations);
    fprintf(cli->out,
            "  %lld by their first bound, %lld by memory, %lld by solving, %lld without a program\n"
            "  the plan's simulated step is %s, as it says",
            (long long)r->by_bound, (long long)r->by_memory, (long long)r->by_cut, (long long)r->refused,
            text_duration_ns(step, r->step_ns));
    if (r->simulated_bound_ns > 0)
        fprintf(cli->out, "; by kernels alone no plan is simulated shorter than %s",
                text_duration_ns(bound, r->simulated_bound_ns));
    if (r->simulated_bound_ns > 0 && r->unbounded > 0)
        fprintf(cli->out, ", nor one of %lld configurations with other schedules", (long long)r->unbounded);
    fprintf(cli->out, "\n");
    if (r->ideals > 0)
        fprintf(cli->out, "  in all orders of the layers: %lld order ideals\n", (long long)r->ideals);
    if (r->ideals == 0)
        fprintf(cli->out, "  of cuts in the file's order of the layers; ");
    if (r->ideals == 0 && r->orders_bound_ns > 0)
        fprintf(cli->out, "in other orders no plan is shorter than %s by the formula\n",
                text_duration_ns(bound, r->orders_bound_ns));
    if (r->ideals == 0 && r->orders_bound_ns == 0)
        fprintf(cli->out, "it says nothing of other orders\n");
    if (r->version < CERTIFICATE_VERSION)
        fprintf(cli->out, "  it is of an older version of cleave: its space_hash is not checked%s",
                r->version == 1 ? ", nor its prices_hash" : "");
    if (r->unchecked_simulated_ns > 0)
        fprintf(cli->out, ", nor that no plan is simulated shorter than %s, which kernels alone do not prove",
                text_duration_ns(bound, r->unchecked_simulated_ns));
    if (r->version < CERTIFICATE_VERSION)
        fprintf(cli->out, "\n");
    if (r->left > 0)
        fprintf(cli->out, "  %lld were not looked at when the search ended: %s\n", (long long)r->left,
                r->bound_ns > 0 ? "that bound is theirs, too" : "nothing is proven");
}

static bool check_file(const struct cli *cli, const struct check_arguments *a, struct inputs *in, const char *path,
                       struct claim *claim, struct error *err)
{
    struct check_report report;
    struct progress progress;
    const struct json *certificate = in->plan_file->certificate;
    if (!certificate)
        return fail(err, "%s: the plan has no certificate: cleave plan writes one with -o", path);
    struct space space = explain_space(in->plan_file->plan);
    if (!claim_read(claim, certificate, &space, err))
        return false;
    claim->predicted = in->plan_file->predicted;
    claim->predicted_holds = predicted_holds;
    progress_begin(&progress, cli, "check");
    bool checked =
        check_certificate(&report, claim, in->model, &in->facts, in->plan_file->plan, show_progress, &progress, err);
    progress_clear(&progress);
    if (!checked)
        return strncmp(err->message, path, strlen(path)) == 0 ? false : error_within(err, "%s", path);
    if (report.undecided > 0)
        return fail_kind(err, ERROR_GATE,
                         "%s: %lld of %lld configurations could be neither proven nor refuted; the others are as the "
                         "certificate says",
                         path, (long long)report.undecided, (long long)report.configurations);
    if (a->json)
        return print_json(cli, &report, err);
    print_report(cli, &report);
    return true;
}

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    const struct check_arguments *a = given;
    struct inputs in = { .cli = cli };
    struct claim claim = { 0 };
    (void)operand_count;
    heap_expect_much();
    if (inputs_plan(&in, operands[0], a->source.model, a->source.cluster, &a->source.profiles, err) &&
        inputs_has_profile(&in, operands[0], err))
        check_file(cli, a, &in, operands[0], &claim, err);
    claim_free(&claim);
    inputs_free(&in);
    return ERROR_NONE;
}

const struct verb verb_check = {
    .name = "check",
    .summary = "verifies a plan's certificate; exit 4 when it does not hold",
    .usage = "PLAN [--json]",
    .examples = "  cleave plan gpt2 --cluster 1x8:a100-sxm-80 --batch 64 -o plan.json\n"
                "  cleave check plan.json\n",
    .min_operands = 1,
    .max_operands = 1,
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct check_arguments),
    .run = run,
};
