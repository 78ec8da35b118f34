/* Runs and ranks plans: cleave's choice and its rivals, predicted beside measured, as a table, HTML and Markdown. */
#include "base/num.h"
#include "cli/compare_job.h"
#include "cli/print.h"
#include "executor/backends.h"
#include "formats/certificate_write.h"
#include "formats/plan_file.h"
#include "host/machine.h"
#include "profiler/resident.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct compare_arguments defaults = {
    .space.gap = DEFAULT_GAP, .steps = 6, .rounds = 2, .seed = 1, .backend = "cpu", .transport = "threads"
};
#define AT(field) offsetof(struct compare_arguments, field)
static const struct option options[] = {
    TEXT_OPTION("auto", AT(automatic), "MODEL", "compares cleave's choice with the best plans of one kind each"),
    FLAG_OPTION(
        "historical", AT(historical),
        "with --auto, adds what came before: a parameter server, and layers on several devices without micro-batches"),
    LIST_OPTION("from", AT(from), "TARGET=FILE",
                "a launch of megatron-lm, torchtitan, ... beside the plans, priced as estimate --from does; may be "
                "repeated"),
    TEXT_OPTION("model", AT(model), "MODEL",
                "with --from: the model, where the launch does not describe it (the first plan's)"),
    INT_OPTION("vocab-size", AT(vocabulary), "N", 1, 1 << 28,
               "with --from: words of the vocabulary, where a launch leaves them to its tokenizer"),
    FLAG_OPTION("pareto", AT(pareto), "searches for what ever less memory costs; it takes a while"),
    FLAG_OPTION("scaling", AT(scaling), "searches on 1/4, 1/2, 2 and 4 times the devices"),
    TEXT_OPTION("target", AT(space.target), "TARGET",
                "none: --pareto and --scaling search for any plan, though the first one was made for a target"),
    FLAG_OPTION("run", AT(run), "runs the plans on this machine"),
    TEXT_OPTION("report", AT(report), "FILE.html", "one offline HTML file"),
    TEXT_OPTION("markdown", AT(markdown), "FILE.md", "the same as text"),
    TEXT_OPTION("data", AT(data), "FILE", "training text or images, as cleave run has it; without it: synthetic"),
    INT_OPTION("steps", AT(steps), "N", 2, REPORT_MAX_STEPS, "steps of one run; the first is not timed (6)"),
    INT_OPTION("rounds", AT(rounds), "N", 1, 60, "runs of every plan, interleaved (2)"),
    DOUBLE_OPTION("steady", AT(steady_percent), "PERCENT", 0, 1000,
                  "only runs count beside which the machine's speed was within this, the others are repeated (0: all)"),
    INT_OPTION("seed", AT(seed), "N", 0, NO_LIMIT, "of weights and data (1)"),
    TEXT_OPTION("backend", AT(backend), "NAME", "cpu (default), cuda or timed"),
    TEXT_OPTION("transport", AT(transport), "NAME", "threads"),
    FLAG_OPTION("shape", AT(shape), "delays transfers to the cluster's latency and bandwidth"),
    FLAG_OPTION("json", AT(json), "one JSON object"),
    JOB_OPTIONS(struct compare_arguments, space),
    SEARCH_OPTIONS(struct compare_arguments, space),
};

/* ---- plans of one kind each: the search, restricted ---- */
struct rival {
    const char *name, *restriction;
};

/* file: the plan's, which is handed over; NULL: memory ran out. */
static bool keep_file(struct job *job, char *file, struct error *err)
{
    if (!file)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    job->comparison.entries[job->comparison.count - 1].file = file;
    return true;
}

/* As `cleave plan` writes it. space: that was searched. */
static char *found_file(struct job *job, const struct search_result *result, const struct space *space)
{
    struct json_writer w = { 0 };
    const struct search_plan *found = &result->plans[0];
    size_t length;
    job->inputs[0]->context.cleave = CLEAVE_VERSION;
    json_begin_object(&w);
    plan_json_members(&w, found->plan, &found->estimate->prediction, &job->inputs[0]->context);
    certificate_write(&w, result, space);
    json_end_object(&w);
    return json_finish(&w, &length);
}

static bool add_found(struct job *job, const char *name, bool chosen, const struct space *space, struct error *err)
{
    struct search_options o = space_search_options(&job->a->space, space);
    o.no_advice = !chosen;
    struct search_result *result = NULL;
    struct error cause = { 0 };
    char line[PRINT_LINE_BYTES] = "";
    bool found = search_run(&result, job->inputs[0]->model, &job->inputs[0]->facts, &o, &cause) && result->feasible;
    if (!found && chosen) {
        if (result)
            search_infeasible(result, space, err);
        else
            fail_with(err, &cause);
    }
    bool ok = found || !chosen;
    if (found) {
        struct inputs *in = job->inputs[0];
        struct plan *plan = plan_copy(result->plans[0].plan);
        ok = (plan || fail_kind(err, ERROR_ENVIRONMENT, "out of memory")) &&
             plan_graph(&in->graph, in->model, plan, err);
        if (ok)
            print_plan_line(plan, in->graph, line);
        else
            plan_free(plan);
        ok = ok && comparison_add(&job->comparison, name, line, chosen, in->model, plan, &in->facts, err) &&
             keep_file(job, found_file(job, result, space), err) && compare_note_origin(job, in, NULL, err);
        graph_free(in->graph);
        in->graph = NULL;
    } else if (!chosen)
        fprintf(job->cli->talk, "left out: %s (%s)\n", name,
                cause.kind                                ? cause.message
                : !result || !result->why                 ? "nothing of this kind fits in memory"
                : result->certificate.configurations == 0 ? "the model, batch and devices have no such configuration"
                                                          : result->why);
    search_result_free(result);
    return ok;
}

static bool same_plan(const struct comparison *c, int index)
{
    for (int i = 0; i < index; i++)
        if (plan_hash(c->entries[i].plan) == plan_hash(c->entries[index].plan))
            return true;
    return false;
}

static bool add_rival(struct job *job, const struct rival *rival, struct error *err)
{
    struct space space = job->space;
    if (!space_restrict(&space, "rival", rival->restriction, err) || !add_found(job, rival->name, false, &space, err))
        return false;
    struct comparison *c = &job->comparison;
    if (c->count > 1 && same_plan(c, c->count - 1)) /* the choice itself, under another name */
        snprintf(c->entries[c->count - 1].name, sizeof c->entries[0].name, "%s (same plan)", rival->name);
    return true;
}

/* A parameter server on the first rank; and layers dealt out over devices of which one at a time computes, as a model
 * too large for one device is often run (the whole batch is one micro-batch). */
static bool add_historical(struct job *job, struct error *err)
{
    char layers[128];
    snprintf(layers, sizeof layers, "pp=%d,tp=1,dp=1,recompute=none,schedule=gpipe,micro-batch=%lld",
             job->inputs[0]->cluster->device_count, (long long)job->space.batch);
    const struct rival server = { "parameter server", "pp=1,tp=1,dp-by=ps,recompute=none" };
    const struct rival naive = { "layers on devices", layers };
    return add_rival(job, &server, err) && add_rival(job, &naive, err);
}

static bool add_rivals(struct job *job, struct error *err)
{
    char tensor[64], pipeline[64], gpipe[80];
    int devices = job->inputs[0]->cluster->device_count;
    snprintf(tensor, sizeof tensor, "pp=1,tp=%d,dp=1,recompute=none", devices);
    snprintf(pipeline, sizeof pipeline, "pp=%d,tp=1,dp=1,recompute=none", devices);
    snprintf(gpipe, sizeof gpipe, "%s,schedule=gpipe", pipeline);
    const struct rival rivals[] = { { "data parallel", "pp=1,tp=1,zero=0,recompute=none" },
                                    { "ZeRO-3", "pp=1,tp=1,zero=3" },
                                    { "tensor parallel", tensor },
                                    { "pipeline", pipeline },
                                    { "pipeline, GPipe", gpipe } };
    for (size_t i = 0; i < sizeof rivals / sizeof *rivals; i++)
        if (!add_rival(job, &rivals[i], err))
            return false;
    return !job->a->historical || add_historical(job, err);
}

struct inputs *job_inputs(struct job *job, struct error *err)
{
    if (job->input_count == REPORT_MAX_PLANS) {
        fail(err, "more than %d plans to compare", REPORT_MAX_PLANS);
        return NULL;
    }
    struct inputs *in = calloc(1, sizeof *in);
    if (!in) {
        fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
        return NULL;
    }
    in->cli = job->cli;
    in->runs = job->a->run && strcmp(job->a->backend, device_timed.name) != 0;
    return job->inputs[job->input_count++] = in;
}

static bool add_file(struct job *job, const char *path, struct error *err)
{
    char line[PRINT_LINE_BYTES];
    size_t length;
    struct inputs *in = job_inputs(job, err);
    if (!in)
        return false;
    if (!space_beside_plan(&job->a->space, path, "compare --auto MODEL plans with it", err))
        return false;
    if (!inputs_plan(in, path, NULL, job->a->space.cluster, &job->a->space.profiles, err)) {
        const struct error why = *err;
        if (!strstr(why.message, ":1:1: "))
            return false;
        *err = (struct error){ 0 };
        return fail_kind(err, why.kind, "%s; a launch of a framework is given as --from TARGET=%s", why.message, path);
    }
    struct plan *plan = plan_copy(in->plan_file->plan);
    if (!plan)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    print_plan_line(plan, in->graph, line);
    return comparison_add(&job->comparison, path, line, job->comparison.count == 0, in->model, plan, &in->facts, err) &&
           keep_file(job, plan_file_write(in->plan_file, &length), err) && compare_note_origin(job, in, NULL, err);
}

/* Plan files, then launches. */
static bool add_named(struct job *job, const char *const *paths, int count, struct error *err)
{
    const struct text_list *launches = &job->a->from;
    if (count + launches->count == 0)
        return fail(err,
                    "cleave compare: give plan files, or --auto MODEL --cluster CLUSTER --batch N; launches of others: "
                    "--from TARGET=FILE");
    for (int i = 0; i < count; i++)
        if (!add_file(job, paths[i], err))
            return false;
    for (int i = 0; i < launches->count; i++)
        if (!compare_add_launch(job, launches->item[i], err))
            return false;
    return true;
}

/* ---- running ---- */
static void on_progress(void *context, const char *what, int done, int count)
{
    progress_say(&((struct job *)context)->progress, "running %s, %d of %d", what, done + 1, count);
}

/* What the predictions' profile says of the processor's speed; 0: nothing, or they are of a GPU. */
int64_t compare_reference_ns(const struct job *job)
{
    bool speaks = job->inputs[0]->profile && !strcmp(job->a->backend, device_cpu.name);
    return speaks ? job->inputs[0]->profile->reference_ns : 0;
}

/* As many as the profile's, whose time is compared with, else as the plans'. */
static int reference_ranks(const struct job *job)
{
    int ranks = 0;
    if (compare_reference_ns(job) > 0)
        return job->inputs[0]->profile->reference_ranks;
    for (int i = 0; i < job->comparison.count; i++)
        if (job->comparison.entries[i].plan)
            ranks = (int)max_i64(ranks, job->comparison.entries[i].plan->rank_count);
    return ranks;
}

/* For longer where runs are judged by it. */
static bool time_reference(void *context, int64_t *out_ns, struct error *err)
{
    const struct job *job = context;
    struct reference product;
    if (!reference_measure(&product, reference_ranks(job), job->a->steady_percent > 0 ? REFERENCE_S : REFERENCE_SHORT_S,
                           err))
        return false;
    *out_ns = product.ns;
    return true;
}

static bool check_steady(const struct compare_arguments *a, struct error *err)
{
    if (a->steady_percent <= 0)
        return true;
    if (!a->run)
        return fail(err, "--steady %g: no plan is run: give --run, too", a->steady_percent);
    return !strcmp(a->backend, device_cpu.name) ||
           fail(err,
                "--steady %g: it is the processor's speed that is timed, and --backend %s does not depend on it: "
                "leave --steady out",
                a->steady_percent, a->backend);
}

/* What all plans train on. */
static bool open_data(const struct job *job, struct data *data, struct error *err)
{
    const struct compare_arguments *a = job->a;
    const struct plan *plan = job->comparison.entries[0].plan;
    struct graph *graph = NULL;
    if (!plan_graph(&graph, job->inputs[0]->model, plan, err))
        return false;
    struct sample_shape shape = sample_shape_of(graph);
    graph_free(graph);
    return a->data ? data_from_file(data, a->data, shape, (uint64_t)a->seed, err)
                   : data_synthetic(data, shape, (uint64_t)a->seed, err);
}

static bool run_all(struct job *job, struct error *err)
{
    const struct compare_arguments *a = job->a;
    const struct device *device = device_find(a->backend, err);
    struct data data = { 0 };
    if (!device || (device->computes && !open_data(job, &data, err)))
        return false;
    struct run_options run = run_options_default();
    run.step_count = a->steps;
    run.seed = (uint64_t)a->seed;
    run.device = device;
    run.data = device->computes ? &data : NULL;
    run.facts = &job->inputs[0]->facts;
    struct compare_options o = { .run = &run,
                                 .rounds = (int)a->rounds,
                                 .steady = a->steady_percent / 100,
                                 .known_reference_ns = compare_reference_ns(job),
                                 .transport = a->transport,
                                 .module_dir = job->cli->module_dir,
                                 .shape = a->shape ? job->inputs[0]->cluster : NULL,
                                 .reference = device->computes ? time_reference : NULL,
                                 .context = job,
                                 .on_progress = on_progress };
    progress_begin(&job->progress, job->cli, "compare");
    bool ok = comparison_run(&job->comparison, &o, err);
    progress_clear(&job->progress);
    data_free(&data);
    return ok;
}

/* ---- what is shown ---- */
enum { MOST_NAME = 40 };

static int64_t most_bytes(const struct report_plan *p)
{
    int64_t most = 0;
    for (int r = 0; r < p->rank_count && p->predicted_peak_bytes; r++)
        most = max_i64(most, p->predicted_peak_bytes[r]);
    return most;
}

static void print_row(const struct cli *cli, const struct report_plan *p, int width, bool run, bool rate)
{
    char number[TEXT_NUMBER_BYTES];
    fprintf(cli->out, "%c %-*.*s", p->chosen ? '*' : ' ', width, width, p->name);
    if (p->failure) {
        fprintf(cli->out, "  %s\n", p->failure);
        return;
    }
    fprintf(cli->out, " %10s", text_duration_ns(number, p->predicted_step_ns));
    if (run && p->measured_step_ns)
        fprintf(cli->out, " %10s %+7.1f%%", text_duration_ns(number, p->measured_step_ns), 100 * report_error(p));
    else if (run)
        fprintf(cli->out, " %10s %8s", "-", "-");
    double step_s = (double)max_i64(1, report_step_ns(p)) * 1e-9;
    if (rate)
        fprintf(cli->out, " %10s", text_count(number, llround(p->tokens_per_step / step_s)));
    fprintf(cli->out, " %9s  %s%s\n", text_bytes(number, most_bytes(p)),
            report_fits(p) ? "" : "DOES NOT FIT: ", p->description);
}

static void print_table(const struct job *job, const struct report *report)
{
    const struct cli *cli = job->cli;
    int order[REPORT_MAX_PLANS], width = 12;
    const bool rate = !report_is_same_work(report); /* by which they are ranked then */
    char number[TEXT_NUMBER_BYTES], bytes[TEXT_NUMBER_BYTES], devices[TEXT_NUMBER_BYTES];
    report_order(report, order);
    for (int i = 0; i < report->plan_count; i++)
        width = (int)max_i64(width, min_i64(MOST_NAME, (int64_t)strlen(report->plans[i].name)));
    fprintf(cli->out, "  %-*s %10s", width, "plan", "predicted");
    if (job->a->run)
        fprintf(cli->out, " %10s %8s", "measured", "error");
    if (rate)
        fprintf(cli->out, " %8s/s", report->unit ? report->unit : "tokens");
    fprintf(cli->out, " %9s  what\n", "memory");
    for (int i = 0; i < report->plan_count; i++)
        print_row(cli, &report->plans[order[i]], width, job->a->run, rate);
    fprintf(cli->out, "%s\n",
            !job->a->automatic ? "* the plan that was given first"
                               : "* cleave's choice; the others are searched without recomputation, but for ZeRO-3");
    for (int i = 0; i < report->frontier_count; i++)
        fprintf(cli->out, "%s%10s %9s  %s\n", i ? "" : "step against memory, searched:\n",
                text_duration_ns(number, report->frontier[i].step_ns),
                text_bytes(bytes, report->frontier[i].peak_bytes), report->frontier[i].words);
    for (int i = 0; i < report->scaling_count; i++) {
        const struct report_point *p = &report->scaling[i];
        fprintf(cli->out, "%s%8s devices %10s  %s\n", i ? "" : "step against devices, searched:\n",
                text_count(devices, p->devices), p->words ? text_duration_ns(number, p->step_ns) : "-",
                p->words ? p->words : "nothing fits");
    }
}

static bool write_reports(const struct job *job, const struct report *report, struct error *err)
{
    struct text html = { 0 }, markdown = { 0 }, json = { 0 };
    if (job->a->report) {
        report_html(report, &html);
        if (!inputs_hand_out_text(job->cli, job->a->report, &html, err))
            return false;
    }
    if (job->a->markdown) {
        report_markdown(report, &markdown);
        if (!inputs_hand_out_text(job->cli, job->a->markdown, &markdown, err))
            return false;
    }
    if (!job->a->json) {
        print_table(job, report);
        return true;
    }
    report_json(report, INT_MAX, &json);
    return inputs_hand_out_text(job->cli, NULL, &json, err);
}

/* Of the device that has least. */
static int64_t least_memory(const struct cluster *cluster)
{
    int64_t bytes = INT64_MAX;
    for (int type = 0; type < cluster->type_count; type++)
        bytes = min_i64(bytes, cluster->types[type].memory_bytes);
    return bytes;
}

static bool show(struct job *job, struct error *err)
{
    struct report_plan plans[REPORT_MAX_PLANS];
    struct provenance provenance;
    struct compare_notes notes;
    char when[HOST_TIME_BYTES], title[160];
    const struct comparison *c = &job->comparison;
    const struct inputs *in = job->inputs[0];
    const struct report_speed speed = comparison_speed(c);
    host_time_text(when);
    provenance_describe(&provenance, job, &speed, when);
    compare_note_all(&notes, job, &speed);
    snprintf(title, sizeof title, "%s: %d plan%s compared", in->model->name, c->count, c->count == 1 ? "" : "s");
    comparison_report(c, plans);
    struct report report = { .title = title,
                             .model = in->model->name,
                             .cluster = in->cluster->name,
                             .unit = c->entries[0].graph ? print_unit(c->entries[0].graph) : NULL,
                             .memory_limit_bytes = least_memory(in->cluster),
                             .notes = notes.list,
                             .provenance = (const char *const(*)[2])provenance.pairs,
                             .plan_count = c->count,
                             .plans = plans,
                             .speed = speed,
                             .profile_reference_ns = compare_reference_ns(job),
                             .frontier_count = job->frontier_count,
                             .scaling_count = job->scaling_count,
                             .frontier = job->frontier,
                             .scaling = job->scaling };
    bool ok = write_reports(job, &report, err);
    provenance_free(&provenance);
    return ok;
}

static bool add_automatic(struct job *job, struct error *err)
{
    struct inputs *in = job_inputs(job, err);
    return in && space_inputs(in, &job->space, job->a->automatic, &job->a->space, err) &&
           add_found(job, "cleave's choice", true, &job->space, err) && add_rivals(job, err);
}

static void job_free(struct job *job)
{
    comparison_free(&job->comparison);
    for (int i = 0; i < job->frontier_count; i++)
        free((char *)job->frontier[i].words);
    for (int i = 0; i < job->scaling_count; i++)
        free((char *)job->scaling[i].words);
    free(job->frontier);
    free(job->scaling);
    for (int i = 0; i < job->input_count; i++) {
        inputs_free(job->inputs[i]);
        free(job->inputs[i]);
    }
    free(job);
}

/* What restricts searches, where there is one: with --auto, and for --pareto and --scaling. */
static bool check_restrictions(const struct compare_arguments *a, struct error *err)
{
    const struct space_options *o = &a->space;
    const char *said = o->fix.count > 0                                 ? "fix"
                       : o->space.count > 0                             ? "space"
                       : o->stages                                      ? "stages"
                       : o->schedule                                    ? "schedule"
                       : o->time_limit_s != defaults.space.time_limit_s ? "time-limit"
                       : o->gap != defaults.space.gap                   ? "gap"
                       : o->jobs != defaults.space.jobs                 ? "jobs"
                                                                        : NULL;
    if (said && !a->automatic && !a->pareto && !a->scaling)
        return fail(err,
                    "--%s is of searches, and plans and launches are not searched for: give --auto MODEL, --pareto or "
                    "--scaling with it",
                    said);
    return true;
}

static bool check_arguments(const struct compare_arguments *a, const char *const *operands, int operand_count,
                            struct error *err)
{
    if (a->automatic && operand_count > 0)
        return fail(err, "cleave compare: give plan files or --auto MODEL, not both; found --auto %s and %s",
                    a->automatic, operands[0]);
    if (a->automatic && a->from.count > 0)
        return fail(err, "cleave compare: give --from TARGET=FILE beside plan files, not with --auto %s", a->automatic);
    if (a->model && a->from.count == 0)
        return fail(err, "--model belongs to --from: a plan file names its model");
    if (a->vocabulary > 0 && a->from.count == 0)
        return fail(err, "--vocab-size belongs to --from: a plan file names its model, which has one");
    if (a->space.batch > 0 && !a->automatic && a->from.count == 0)
        return fail(err, "--batch belongs to --auto and --from: a plan file has its batch");
    if (a->space.target && (a->automatic || (!a->pareto && !a->scaling)))
        return fail(err, "--target belongs to --pareto and --scaling beside plans: it says what they may find");
    return check_restrictions(a, err) && check_steady(a, err) && inputs_can_write(a->report, err) &&
           inputs_can_write(a->markdown, err);
}

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    struct job *job = calloc(1, sizeof *job);
    if (!job) {
        fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
        return ERROR_ENVIRONMENT;
    }
    *job = (struct job){ .cli = cli, .a = given };
    (void)(check_arguments(job->a, operands, operand_count, err) &&
           (job->a->automatic ? add_automatic(job, err) : add_named(job, operands, operand_count, err)) &&
           (!job->a->run || run_all(job, err)) && compare_search(job, err) && show(job, err));
    job_free(job);
    return ERROR_NONE;
}

const struct verb verb_compare = {
    .name = "compare",
    .summary = "runs and ranks plans, and writes a report",
    .usage = "PLAN... [--from TARGET=FILE]... | --auto MODEL --cluster CLUSTER --batch N  [--run] [--report "
             "FILE.html]",
    .examples = "  cleave compare --auto gpt2 --cluster 1x2:cpu --profile profile.json --batch 8 --seq 64 --run "
                "--report report.html\n"
                "  cleave compare a.json b.json --report report.html --markdown report.md\n"
                "  cleave compare plan.json --from megatron-lm=train.sh --report report.html --pareto --scaling\n",
    .max_operands = REPORT_MAX_PLANS,
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct compare_arguments),
    .defaults = &defaults,
    .run = run,
};
